"""Scale factors, dtype widths and number formatting: the only home of powers of ten and two.

Everything inside specroof is in base units (bytes, seconds, FLOP, FLOP/s); a conversion happens
only when a number is printed.
"""

from typing import Final

__all__ = [
    "DTYPE_BYTES",
    "GIBIBYTE",
    "MEBIBYTE",
    "MICROSECOND",
    "WIDER_DTYPES",
    "dtype_bytes",
    "format_binary_bytes",
    "format_count",
    "format_seconds",
    "format_si",
    "plain_number",
]

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

#: For each arithmetic dtype, the wider ones that can stand in for it, nearest first.
WIDER_DTYPES: Final[dict[str, tuple[str, ...]]] = {
    "fp4": ("fp6", "fp8", "bf16", "fp16", "fp32"),
    "fp6": ("fp8", "bf16", "fp16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32"),
    "bf16": ("fp16", "fp32"),
    "fp16": ("fp32",),
    "fp32": (),
    "int4": ("int8", "bf16", "fp16", "fp32"),
    "int8": ("bf16", "fp16", "fp32"),
}

#: Seconds.
MICROSECOND: Final = 1e-6
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
    for scale, prefix in _SI_PREFIXES:
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)} {prefix}{unit}"
    return f"{_three_digits(value)} {unit}"


def format_count(value: float) -> str:
    """Return a count of parameters the way model names print it.

    Examples
    --------
    >>> format_count(8_030_261_248)
    '8.03B'
    >>> format_count(596_049_920)
    '596M'
    """
    for scale, suffix in _COUNT_SUFFIXES:
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)}{suffix}"
    return f"{value:.0f}"


def format_binary_bytes(value: float) -> str:
    """Return an amount of memory in powers of 1024, as memory is sold and reported.

    Examples
    --------
    >>> format_binary_bytes(193_273_528_320)
    '180 GiB'
    """
    for scale, unit in _BINARY_PREFIXES:
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)} {unit}"
    return f"{_three_digits(value)} B"


def format_seconds(value: float) -> str:
    """Return a time in the unit that keeps it readable.

    Examples
    --------
    >>> format_seconds(0.01333)
    '13.3 ms'
    >>> format_seconds(1.4e-4)
    '140 µs'
    """
    for scale, unit in _TIME_UNITS:
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)} {unit}"
    return f"{_three_digits(value * 1e6)} µs"


def _three_digits(value: float) -> str:
    """Format with three significant digits and no exponent.

    Examples
    --------
    >>> _three_digits(2.0), _three_digits(28.44), _three_digits(1999.6)
    ('2.00', '28.4', '2000')
    """
    size = abs(value)
    if size < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def plain_number(value: float) -> str:
    """Return a number without an exponent, and without decimals where it is whole.

    Examples
    --------
    >>> plain_number(1048576.0), plain_number(1.5)
    ('1048576', '1.5')
    """
    return f"{value:.0f}" if value == round(value) else f"{value:g}"
