"""What figures are called: one name each, with its title, unit, spelling and a sentence.

A row of an answer is a class whose fields are annotated with these. Its text, CSV, JSON, frames,
Arrow tables and schemas derive from them, and so do the ends of bands: a figure with a band has
two more columns, under its name with ``_low`` and ``_high``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal, get_args, get_type_hints

from specroof.units import MILLION, format_price, format_seconds

#: Which way is better; neither for what only names a row.
Better = Literal["more", "less", ""]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure, or what rows are told apart by.

    Parameters
    ----------
    name
        In Python, JSON, CSV, frames and studies.
    title
        Of its column, for people.
    about
        A sentence that says what it is.
    unit
        Of its value; empty for names, ratios and counts without a unit.
    spelt
        From a value to the cell that people read.
    better
        Whether more or less of it is better.
    is_count
        Whether it is spelt without a point where it is whole.
    has_band
        Whether measurements scatter around it in a known band.
    """

    name: str
    title: str
    about: str
    _: KW_ONLY
    unit: str = ""
    spelt: Callable[[Any], str] = str
    better: Better = ""
    is_count: bool = False
    has_band: bool = False


#: Every quantity by its name.
QUANTITIES: Final[dict[str, Quantity]] = {}


def quantity(name: str, title: str, about: str, **more: Any) -> Quantity:
    """Return a quantity that all rooms know by its name.

    Raises
    ------
    ValueError
        For a name that is taken: a figure is declared once.
    """
    if name in QUANTITIES:
        raise ValueError(name)
    QUANTITIES[name] = Quantity(name, title, about, **more)
    return QUANTITIES[name]


def quantity_of(column: str) -> Quantity | None:
    """Return the quantity that a column holds: the one whose name it ends with.

    Columns of one quantity differ in what stands before it, as in ``plain_tpot_s``, and have ends
    of bands behind it.

    Examples
    --------
    >>> quantity_of("plain_tpot_s_low").unit, quantity_of("speedup").unit, quantity_of("notes")
    ('s', '', None)
    """
    name = column.removesuffix("_low").removesuffix("_high")
    while name not in QUANTITIES:
        _, more, name = name.partition("_")
        if not more:
            return None
    return QUANTITIES[name]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of an answer: every field that is annotated with a `Quantity` is a column.

    A field that is `None` in all rows of an answer is no column, where its type allows that.

    Parameters
    ----------
    bands
        Lower and upper ends of the bands of figures that have one, by their names.

    Examples
    --------
    >>> from typing import Annotated
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Gain(Row):
    ...     speedup: Annotated[float, SPEEDUP]
    >>> row = Gain(speedup=1.5, bands={"speedup": (1.2, 1.9)})
    >>> row.record, row.speedup_low
    ({'speedup': 1.5, 'speedup_low': 1.2, 'speedup_high': 1.9}, 1.2)
    """

    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    @cache
    def quantities(cls) -> Mapping[str, Quantity]:
        """Return the quantities of a row by the names of their fields."""
        hints = get_type_hints(cls, include_extras=True)
        words = {one.name: get_args(hints[one.name])[1:] for one in fields(cls)}
        return MappingProxyType(
            {
                name: word
                for name, said in words.items()
                for word in said
                if isinstance(word, Quantity)
            }
        )

    @classmethod
    @cache
    def column_names(cls) -> tuple[str, ...]:
        """Return the columns of a row, ends of bands behind their figure."""
        return tuple(
            f"{name}{end}"
            for name, one in cls.quantities().items()
            for end in (("", "_low", "_high") if one.has_band else ("",))
        )

    @property
    def record(self) -> dict[str, Any]:
        """The values by the names of their columns, None where there is none."""
        return {name: _known(getattr(self, name)) for name in self.column_names()}

    def __getattr__(self, name: str) -> Any:
        """Return an end of a band, None without one."""
        figure, _, end = name.rpartition("_")
        if end not in {"low", "high"} or figure not in self.quantities():
            raise AttributeError(name)
        return self.bands.get(figure, (None, None))[end == "high"]


def _known(value: Any) -> Any:
    """Return a value as JSON has it, None for a number that is not known."""
    if isinstance(value, tuple):
        return [_known(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as records of the same columns, without those that none of them has.

    Examples
    --------
    >>> from typing import Annotated
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Load(Row):
    ...     rate: Annotated[float | None, RATE] = None
    ...     batch_size: Annotated[float | None, BATCH_SIZE] = None
    >>> records_of([Load(batch_size=8.0), Load(batch_size=16.0)])
    [{'batch_size': 8.0}, {'batch_size': 16.0}]
    """
    records = [row.record for row in rows]
    if not records:
        return []
    asked = {one.name for one in fields(rows[0]) if one.default is None}
    known = rows[0].quantities()
    missing = [name for name in asked & {*known} if all(one[name] is None for one in records)]
    absent = {f"{name}{end}" for name in missing for end in ("", "_low", "_high")}
    return [
        {name: value for name, value in record.items() if name not in absent} for record in records
    ]


def cell_of(one: Quantity, value: Any) -> str:
    """Return a value as people read it; "-" where there is none.

    Examples
    --------
    >>> cell_of(SPEEDUP, 1.5), cell_of(SPEEDUP, None), cell_of(TPOT, 0.0125)
    ('1.50x', '-', '12.5 ms')
    """
    return "-" if _known(value) is None else one.spelt(value)


def in_cells(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records with one value in each cell: lists as people read them.

    Examples
    --------
    >>> in_cells([{"runs": [(1, 48)], "speedup": 1.5}])
    [{'runs': '1-48', 'speedup': 1.5}]
    """
    return [{name: _cell(name, value) for name, value in record.items()} for record in records]


def _cell(name: str, value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    one = quantity_of(name)
    return str(value) if one is None else one.spelt(value)


def runs_spelt(runs: Sequence[tuple[int, int]]) -> str:
    """Return runs of whole numbers in words.

    Examples
    --------
    >>> runs_spelt([(1, 48), (60, 60)])
    '1-48, 60'
    """
    return ", ".join(f"{one}" if one == end else f"{one}-{end}" for one, end in runs)


_general: Final = "{:g}".format
_times: Final = "{:.2f}x".format
_whole: Final = "{:.0f}".format
_three: Final = "{:.3g}".format

# --- What rows are told apart by -----------------------------------------------------------------

TARGET: Final = quantity("target", "target", "Number of a model on its devices in a study.")
MODEL: Final = quantity("model", "model", "Name of the model.")
HARDWARE: Final = quantity("hardware", "chip", "Name of the chip.")
ENGINE: Final = quantity("engine", "engine", "Name of the engine profile.")
DRAFTER: Final = quantity("drafter", "drafter", "What drafts.")
CONTEXT_LEN: Final = quantity(
    *("context_len", "context", "Tokens cached for each sequence; of requests the mean."),
    unit="tokens",
    spelt=_general,
    is_count=True,
)
BATCH_SIZE: Final = quantity(
    *("batch_size", "batch", "Sequences that are decoded together over all devices."),
    unit="sequences",
    spelt=_general,
    is_count=True,
)
CONCURRENCY: Final = quantity(
    *("concurrency", "clients", "Requests that clients keep in flight."),
    unit="requests",
    spelt=_general,
    is_count=True,
)
RATE: Final = quantity(
    "rate", "req/s in", "Requests that arrive in a second.", unit="requests/s", spelt=_three
)
REQUESTS: Final = quantity(
    "requests", "requests", "Requests that are played through.", is_count=True
)
DEVICES: Final = quantity("devices", "devices", "Devices that serve.", is_count=True)
DRAFT_LEN: Final = quantity(
    "draft_len", "γ", "Drafts per round; 0 is off.", unit="tokens", is_count=True
)
ACCEPT_LENGTH: Final = quantity(
    *("accept_length", "tokens/round", "Tokens per round as measured, bonus included."),
    unit="tokens",
    spelt=_general,
    better="more",
)

RUNNING_LIMIT: Final = quantity(
    *("running_limit", "--server running", "Limit of running requests that the server is told."),
    unit="requests",
    is_count=True,
)
IS_CHEAPEST: Final = quantity(
    *("is_cheapest", "", "Whether it is the cheapest point that is fast enough."),
    spelt=lambda cheapest: "cheapest" * cheapest,
)

# --- What is decided -----------------------------------------------------------------------------

DECISION: Final = quantity("decision", "decision", "Whether to draft: on, off or unclear.")
SPEEDUP: Final = quantity(
    *("speedup", "speedup", "Time of the same work without drafts, over that with them."),
    spelt=_times,
    better="more",
    has_band=True,
)
TRIED_DRAFT_LEN: Final = quantity(
    *("tried_draft_len", "tried γ", "Drafts that the decision judges, on or off."),
    unit="tokens",
    is_count=True,
)
TRIED_SPEEDUP: Final = quantity(
    *("tried_speedup", "tried", "Speedup of the drafts that the decision judges."),
    spelt=_times,
    better="more",
    has_band=True,
)
REASON: Final = quantity(
    *("reason", "reason", "Why there is no speedup: memory, or unsustained."),
)
ENOUGH_DRAFTS: Final = quantity(
    *("enough_drafts", "enough", "Drafts beyond which more bring less than 1 %."),
    unit="tokens",
    is_count=True,
)
GAIN_PER_TOKEN: Final = quantity(
    *("gain_per_token", "per token", "Speedup for each further token per round."),
    spelt="{:+.2f}x".format,
    better="more",
)

VERDICT: Final = quantity(
    *("verdict", "verdict", "Whether the drafts that are judged pay: pays, loses or unclear."),
)
TYPICAL_SPEEDUP: Final = quantity(
    *("typical_speedup", "typical", "Speedup with the usual shape of acceptance at each depth."),
    spelt=_times,
    better="more",
)
WORTH_MEASURING: Final = quantity(
    *("worth_measuring", "longer γ", "Drafts beyond the measured depth that may gain more."),
    unit="tokens",
    is_count=True,
)
WORTH_MEASURING_SPEEDUP: Final = quantity(
    *("worth_measuring_speedup", "longer", "Speedup of the drafts that are worth measuring."),
    spelt=_times,
    better="more",
    has_band=True,
)
LIMITED_BY: Final = quantity(
    *(
        "limited_by",
        "limited by",
        "What holds the speedup back most: a target that is missed first.",
    ),
)
#: Speedups without each thing that holds them back.
SPEEDUP_WITHOUT: Final = {
    name: quantity(f"speedup_without_{name}", f"without {name}", about, spelt=_times, better="more")
    for name, about in {
        "memory": "Speedup if as many requests ran with drafts as without.",
        "verification": "Speedup if a verification took no longer than a plain step.",
        "drafting": "Speedup if drafting took no time.",
        "acceptance": "Speedup if every draft were accepted.",
        "prefill": "Speedup if prompts took no time.",
    }.items()
}
MEETS_TARGETS: Final = quantity(
    *("meets_targets", "in time", "Whether targets are met, as far as bands say, or unclear."),
)
PLAIN_MEETS_TARGETS: Final = quantity(
    *("plain_meets_targets", "plain in time", "The same without drafts."),
)

SOLVE: Final = quantity("solve", "solve", "What is solved for.")
WANTED_SPEEDUP: Final = quantity(
    "wanted_speedup", "wanted", "Speedup that is to be reached.", spelt=_times
)
ANSWER: Final = quantity(
    "answer", "answer", "at, always, never, beyond what was tried, or no room."
)
VALUE: Final = quantity("value", "value", "What is solved for.", spelt=_three)
CEILING: Final = quantity(
    "ceiling", "at best", "The largest speedup that can be reached.", spelt=_times
)
UNKNOWN_FROM: Final = quantity(
    *("unknown_from", "unknown from", "The least load that was not tried."),
    spelt=_general,
    is_count=True,
)
RUNS: Final = quantity(
    *("runs", "runs that pay", "First and last of each run of loads that reach the speedup."),
    spelt=runs_spelt,
)

# --- Times, throughput, money --------------------------------------------------------------------

TPOT: Final = quantity(
    *("tpot_s", "TPOT", "Mean seconds between tokens of an answer."),
    unit="s",
    spelt=format_seconds,
    better="less",
    has_band=True,
)
TTFT: Final = quantity(
    *("ttft_s", "TTFT", "Mean seconds from sending a request to its first token."),
    unit="s",
    spelt=format_seconds,
    better="less",
    has_band=True,
)
TOKENS_PER_S: Final = quantity(
    *("tokens_per_s", "tok/s", "Output tokens of all requests in a second."),
    unit="tokens/s",
    spelt=_whole,
    better="more",
    has_band=True,
)
PRICE: Final = quantity(
    *("usd_per_million_tokens", "$/Mtok", "US dollars of a million output tokens."),
    unit="USD",
    spelt=format_price,
    better="less",
    has_band=True,
)
ENERGY: Final = quantity(
    *("joules_per_million_tokens", "MJ/Mtok", "Joules of a million output tokens."),
    unit="J",
    spelt=lambda joules: format_price(joules / MILLION),
    better="less",
    has_band=True,
)
TOKENS_PER_ROUND: Final = quantity(
    *("tokens_per_round", "tok/round", "Tokens that a round commits, bonus included."),
    unit="tokens",
    spelt="{:.2f}".format,
    better="more",
)
PLAIN_TPOT: Final = quantity(
    *("plain_tpot_s", "plain TPOT", "The same without drafts."), unit="s", spelt=format_seconds
)
PLAIN_TTFT: Final = quantity(
    *("plain_ttft_s", "plain TTFT", "The same without drafts."), unit="s", spelt=format_seconds
)
PLAIN_TOKENS_PER_S: Final = quantity(
    *("plain_tokens_per_s", "plain tok/s", "The same without drafts."),
    unit="tokens/s",
    spelt=_whole,
)
PLAIN_PRICE: Final = quantity(
    *("plain_usd_per_million_tokens", "plain $/Mtok", "The same without drafts."),
    unit="USD",
    spelt=format_price,
)
USER_TOKENS: Final = quantity(
    *("tokens_per_s_per_user", "per user", "Tokens a second of one user after the first."),
    unit="tokens/s",
    spelt="{:.1f}".format,
    better="more",
)
DEVICE_TOKENS: Final = quantity(
    *("tokens_per_s_per_device", "per device", "Output tokens of all requests for each device."),
    unit="tokens/s",
    spelt=_whole,
    better="more",
    has_band=True,
)
RUNNING: Final = quantity(
    *("running", "running", "Requests that run at a time, on average."),
    unit="requests",
    spelt="{:.1f}".format,
    is_count=True,
)
PLAIN_RUNNING: Final = quantity(
    *("plain_running", "plain running", "The same without drafts."),
    unit="requests",
    spelt="{:.1f}".format,
    is_count=True,
)
TPOT_LIMIT: Final = quantity(
    *("tpot_limit_s", "may wait", "Seconds that a user may wait for each token."),
    unit="s",
    spelt=format_seconds,
)
USERS: Final = quantity(
    *("users", "users", "The most requests at once that wait no longer per token than they may."),
    unit="requests",
    is_count=True,
    better="more",
)
STABLE_RATE: Final = quantity(
    *("largest_stable_rate", "keeps up with", "Requests a second that drafts answer at most."),
    unit="requests/s",
    spelt=_three,
    better="more",
)
PLAIN_STABLE_RATE: Final = quantity(
    *("plain_largest_stable_rate", "without drafts", "The same without drafts."),
    unit="requests/s",
    spelt=_three,
)
LARGEST_RATE: Final = quantity(
    *("largest_rate", "most req/s", "Requests a second of which p99 waits no longer than it may."),
    unit="requests/s",
    spelt=_three,
    better="more",
)

# --- What curves and played loads have besides ---------------------------------------------------

for _name, _about in {
    "step_s": "Seconds of a plain step.",
    "draft_s": "Seconds of drafting in a round.",
    "verify_s": "Seconds of the verification in a round.",
    "round_s": "Seconds of a round.",
    "wait_s": "Seconds of a prompt alone.",
    "latency_s": "Seconds from sending a request to its last token.",
    "queue_s": "Seconds that a request waits for its first pass.",
    "duration_s": "Seconds from the first request to the last token.",
    "prefill_s": "Seconds of a prompt on its worker.",
    "transfer_s": "Seconds of a cache on its link.",
}.items():
    quantity(_name, _name, _about, unit="s", spelt=format_seconds, better="less")
for _name, _about in {
    "input_len": "Tokens of a prompt.",
    "output_len": "Tokens of an answer.",
    "near_best_shortest": "The shortest draft within 1 % of the best.",
    "near_best_longest": "The longest draft within 1 % of the best.",
}.items():
    quantity(_name, _name, _about, unit="tokens", spelt=_general, is_count=True)
for _name, _about in {
    "largest_batch": "The most sequences that run at once, without drafts.",
    "largest_batch_drafting": "The most that run with the best drafts.",
    "running_drafting": "Sequences that run at a time with the best drafts.",
    "effective_batch": "Sequences that are decoded at a time, on average.",
    "decode_batch": "Sequences of a decode worker.",
}.items():
    quantity(_name, _name, _about, unit="sequences", spelt=_general, is_count=True)
quantity(
    *("verify_len", "verified", "Positions that a verification computes for each sequence."),
    unit="positions",
    is_count=True,
)
quantity("prefix_hit_rate", "hits", "Share of a prompt that is cached.", spelt=_general)
quantity("arrivals_per_s", "req/s in", "Requests that arrive in a second.", unit="requests/s")
quantity("requests_per_s", "req/s", "Requests that end in a second.", unit="requests/s")
