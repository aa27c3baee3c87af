"""Scale factors, dtype widths and number formatting: the only home of powers of ten and two.

Everything inside specroof is in base units (bytes, seconds, FLOP, FLOP/s); a conversion happens
only when a number is printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Standard deviations of a normal law on each side of its mean that hold 80% of it.
HOLDS_80: Final = 1.2816


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a quantity can be in this world, in base units.

    Parameters
    ----------
    least, most
        Both allowed.
    whole
        Whether it is counted, so that 2.5 of it are none.

    Examples
    --------
    >>> Bounds(0, 1024, whole=True).allowed
    'a whole number from 0 to 1024'
    """

    least: float
    most: float
    whole: bool = False

    @property
    def allowed(self) -> str:
        """What a refusal says."""
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {_bound(self.least)} to {_bound(self.most)}"


#: The bounds of every quantity that enters from outside: by flag, file, study or Python. They are
#: wide, so that nothing real is refused, and such that no product or ratio of them leaves what a
#: float holds: a result is finite, or refused. Here, because every room may import this module:
#: a pass of `cost`, which reads no files, holds to the same bounds as a hardware file.
BOUNDS: Final[dict[str, Bounds]] = {
    "batch_size": Bounds(1, 10_000_000),  # sequences of a server; a mean need not be whole
    "pass_batch_size": Bounds(0.01, 10_000_000),  # of a measured pass: a mean over idle times too
    "context_len": Bounds(0, 100_000_000),
    "pass_context_len": Bounds(0, 1_000_000_000),  # with what a round or a request adds
    "query_len": Bounds(1, 100_000_000),
    "padded_len": Bounds(1, 1e17),  # new positions as an engine pads them to a captured size
    "request_len": Bounds(1, 100_000_000),  # tokens of a prompt, or of an answer
    "draft_len": Bounds(0, 1024, whole=True),
    "simulated_draft_len": Bounds(1, 1024, whole=True),
    "simulated_len": Bounds(1, 1_000_000, whole=True),  # of an answer
    "simulated_batches": Bounds(1, 1_000_000, whole=True),
    "simulated_tokens": Bounds(1000, 10_000_000, whole=True),
    "vocabulary": Bounds(2, 4096, whole=True),
    "seed": Bounds(0, 2**63, whole=True),
    "devices": Bounds(1, 65_536, whole=True),
    "captured_size": Bounds(1, 10_000_000, whole=True),
    "flops_per_s": Bounds(1, 1e21),
    "bytes_per_s": Bounds(1, 1e18),
    "memory_bytes": Bounds(1, 1e18),
    "seconds": Bounds(0, 1e6),
    "latency_s": Bounds(1e-9, 1e6),  # of a message, which takes some time
    "share": Bounds(0, 1),
    "temperature": Bounds(0, 10),  # of sampling
    "entropy": Bounds(0.01, 0.65),  # of the target's next token in nats: two tokens have up to ln 2
    "reached_share": Bounds(1e-6, 1.2),  # of a peak: clocks beyond the datasheet's are real
    "overlap_norm": Bounds(1, 100),
    "expert_rows": Bounds(1e-9, 1e9),
    "kernel_heads": Bounds(1, 4096, whole=True),
    "weight_bits": Bounds(0.5, 64),
    "message_bytes": Bounds(1, 1e12),
    "vector_share": Bounds(1e-6, 1e3),  # of the float32 peak: matrix units do many times more
    "expected_error": Bounds(0, 1000),
    "band": Bounds(0, 10),  # half-width, in natural logarithms
    "points": Bounds(1, 1_000_000_000, whole=True),
    "most_batch": Bounds(1, 1_000_000, whole=True),
    "most_context": Bounds(1, 100_000_000, whole=True),
    "wanted_speedup": Bounds(1e-3, 1025),  # up to a token for each draft of the longest
    "tokens_per_round": Bounds(1, 1025),  # the bonus token included
    "tpot_s": Bounds(1e-6, 1e6),
    "usd_per_hour": Bounds(0, 1e6),
    "watts": Bounds(1e-3, 1e6),
    "compute_capability": Bounds(1, 99.9),  # of CUDA, such as 9.0
    "target": Bounds(1e-6, 1e9),  # a wanted speedup, or milliseconds
    "arrival_s": Bounds(0, 1e9),  # of a request, from the start of its trace
    "request_rate": Bounds(1e-6, 1e6),  # requests that arrive in a second
    "played_requests": Bounds(1, 10_000_000, whole=True),  # of a load that is drawn
    "offered_load": Bounds(0, 10_000_000),  # of an hour: requests in flight, or requests a second
    "server_memory": Bounds(1e-6, 1),  # share of a device's memory that a server may fill
    "server_count": Bounds(0, 10_000_000, whole=True),  # 0 of captured sizes, tokens: none, all
    "server_requests": Bounds(1, 10_000_000, whole=True),
    "measured_batch_size": Bounds(0.01, 1_000_000),
    "measured_len": Bounds(1, 1_000_000_000),  # tokens of a measured context, prompt or answer
    "measured_draft_len": Bounds(0, 4096, whole=True),
}

#: Points of the curves that an answer may hold at a time: their arrays take about 1 GB.
MOST_POINTS: Final = 10_000_000

#: Bytes of one element, without block scales (those belong to a weight format).
DTYPE_BYTES: Final[dict[str, float]] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp6": 0.75,
    "fp4": 0.5,
    "int4": 0.5,
}

#: For each arithmetic dtype, those as wide or wider that can stand in for it, nearest first.
WIDER_DTYPES: Final[dict[str, tuple[str, ...]]] = {
    "fp4": ("fp6", "fp8", "bf16", "fp16", "fp32"),
    "fp6": ("fp8", "bf16", "fp16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32"),
    "bf16": ("fp16", "fp32"),
    "fp16": ("bf16", "fp32"),
    "fp32": (),
    "int4": ("int8", "bf16", "fp16", "fp32"),
    "int8": ("bf16", "fp16", "fp32"),
}

#: Seconds.
MILLISECOND: Final = 1e-3
MICROSECOND: Final = 1e-6
NANOSECOND: Final = 1e-9
HOUR: Final = 3600.0
#: What prices and energy are per.
MILLION: Final = 1e6
#: Bytes, as servers count memory.
MEBIBYTE: Final = 2.0**20
GIBIBYTE: Final = 2.0**30

_SI_PREFIXES: Final = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
)
_COUNT_SUFFIXES: Final = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
_BINARY_PREFIXES: Final = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_TIME_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def _bound(value: float) -> str:
    """Spell a bound: whole numbers in full as long as they can be read."""
    return f"{value:.0f}" if value == round(value) and value < 1e9 else f"{value:g}"


def dtype_bytes(dtype: str) -> float:
    """Return the bytes of one element of `dtype`.

    Raises
    ------
    KeyError
        If `dtype` is none of `DTYPE_BYTES`; callers check names from outside before.

    Examples
    --------
    >>> dtype_bytes("bf16"), dtype_bytes("fp4")
    (2.0, 0.5)
    """
    return DTYPE_BYTES[dtype]


def format_si(value: float, unit: str) -> str:
    """Return `value` with a decimal prefix and `unit`.

    Examples
    --------
    >>> format_si(4.8e12, "B/s")
    '4.80 TB/s'
    >>> format_si(12.0, "FLOP")
    '12.0 FLOP'
    """
    digits, prefix = _scaled(value, _SI_PREFIXES, (1.0, ""))
    return f"{digits} {prefix}{unit}"


def format_count(value: float) -> str:
    """Return a count of parameters the way model names print it.

    Examples
    --------
    >>> format_count(8_030_261_248)
    '8.03B'
    >>> format_count(596_049_920)
    '596M'
    """
    digits, suffix = _scaled(value, _COUNT_SUFFIXES, (1.0, ""))
    return f"{digits}{suffix}" if suffix else f"{value:.0f}"


def format_binary_bytes(value: float) -> str:
    """Return an amount of memory in powers of 1024, as memory is sold and reported.

    Examples
    --------
    >>> format_binary_bytes(193_273_528_320)
    '180 GiB'
    """
    return " ".join(_scaled(value, _BINARY_PREFIXES, (1.0, "B")))


def format_drafts(count: float) -> str:
    """Return a number of drafts in words.

    Examples
    --------
    >>> format_drafts(1), format_drafts(3)
    ('1 draft', '3 drafts')
    """
    return f"{count:g} draft" if count == 1 else f"{count:g} drafts"


def format_price(value: float) -> str:
    """Return an amount of money: three significant digits, and at least two decimals.

    Examples
    --------
    >>> format_price(36.0), format_price(4.5), format_price(0.15), format_price(0.0123)
    ('36.00', '4.50', '0.150', '0.0123')
    """
    size = abs(value)
    return f"{value:.2f}" if size >= 1 or not size else f"{value:#.3g}"


def three_digits(value: float) -> str:
    """Return a number in three digits, or all before the point, without an exponent.

    Examples
    --------
    >>> three_digits(5000.4), three_digits(999.6), three_digits(12.345), three_digits(0.00111)
    ('5000', '1000', '12.3', '0.00111')
    """
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def format_seconds(value: float) -> str:
    """Return a time in the unit that keeps it readable.

    Examples
    --------
    >>> format_seconds(0.01333)
    '13.3 ms'
    >>> format_seconds(1.4e-4)
    '140 µs'
    """
    return " ".join(_scaled(value, _TIME_UNITS, _TIME_UNITS[-1]))


def _scaled(
    value: float, units: Sequence[tuple[float, str]], smallest: tuple[float, str]
) -> tuple[str, str]:
    """Return a value in three digits and no exponent, and its unit.

    That is the largest that the value, in three digits, holds at least once, else the smallest.

    Examples
    --------
    >>> [_scaled(value, [(1000.0, "k")], (1.0, ""))[0] for value in (2.0, 28.44, 1999.6e3)]
    ['2.00', '28.4', '2000']
    """
    # 999.6 ms are 1.00 s, not 1000 ms.
    scale, unit = next((unit for unit in units if abs(value) >= 0.9995 * unit[0]), smallest)
    number = value / scale
    size = abs(number)
    return f"{number:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}", unit


def plain_number(value: float, digits: int = 6) -> str:
    """Return a number without an exponent: a whole one in full, any other in so many digits.

    Examples
    --------
    >>> plain_number(1048576.0), plain_number(1.5), plain_number(2870.4843, digits=4)
    ('1048576', '1.5', '2870')
    """
    is_whole = float(value).is_integer() or abs(value) >= 10 ** (digits - 1)
    return f"{value:.0f}" if is_whole else f"{value:.{digits}g}"
