"""What figures are called: one name each, with its title, unit, spelling and a sentence.

A row of an answer is a class whose fields have these names. Its text, CSV, JSON, frames,
Arrow tables and schemas derive from them, and so do the ends of bands: a figure with a band has
two more columns, under its name with ``_low`` and ``_high``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final, Literal, get_type_hints

from specroof.units import (
    DTYPE_BYTES,
    MILLION,
    format_binary_bytes,
    format_count,
    format_price,
    format_seconds,
    format_si,
    plain_number,
    three_digits,
)

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
    >>> quantity_of("plain_tpot_s_low").unit, quantity_of("speedup").unit, quantity_of("colour")
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
    """A row of an answer: every field that has the name of a `Quantity` is a column.

    Another field is one, too, where its type is annotated with a quantity; one that is annotated
    with anything else is none, whatever its name. A field that is `None` in all rows of an answer
    is no column, where its type allows that.

    Parameters
    ----------
    bands
        Lower and upper ends of the bands of figures that have one, by their names.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Gain(Row):
    ...     speedup: float
    >>> row = Gain(speedup=1.5, bands={"speedup": (1.2, 1.9)})
    >>> row.record, row.speedup_low
    ({'speedup': 1.5, 'speedup_low': 1.2, 'speedup_high': 1.9}, 1.2)
    """

    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    @cache
    def quantities(cls) -> Mapping[str, Quantity]:
        """Return the quantities of a row by the names of their fields."""
        hints, known = get_type_hints(cls, include_extras=True), dict[str, Quantity]()
        for name in (one.name for one in fields(cls)):
            told = getattr(hints[name], "__metadata__", (QUANTITIES.get(name),))[0]
            if isinstance(told, Quantity):
                known[name] = told
        return MappingProxyType(known)

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
        known = self.quantities()
        return {
            name: _known(getattr(self, name), is_count=name in known and known[name].is_count)
            for name in self.column_names()
        }

    def __getattr__(self, name: str) -> Any:
        """Return an end of a band, None without one."""
        figure, _, end = name.rpartition("_")
        if end not in {"low", "high"} or figure not in self.quantities():
            raise AttributeError(name)
        return self.bands.get(figure, (None, None))[end == "high"]


def _known(value: Any, *, is_count: bool = False) -> Any:
    """Return a value as JSON has it: None for a number that is not known, whole counts whole."""
    if isinstance(value, tuple):
        return [_known(one, is_count=is_count) for one in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if is_count and value.is_integer() else value


def records_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as records of the same columns, without those that none of them has.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Load(Row):
    ...     rate: float | None = None
    ...     batch_size: float | None = None
    >>> records_of([Load(batch_size=8.0), Load(batch_size=16.0)])
    [{'batch_size': 8}, {'batch_size': 16}]
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


def labelled(name: str, value: Any) -> str:
    """Return a value with the title of its quantity, behind the value if it is a unit; text alone.

    Examples
    --------
    >>> labelled("batch_size", 8), labelled("devices", 1), labelled("drafter", "eagle3")
    ('batch 8', '1 device', 'eagle3')
    """
    one = QUANTITIES[name]
    if isinstance(value, str):
        return value
    title, number = one.title, one.spelt(value)
    if "/" in title:
        return f"{number} {title}"
    if not title.endswith("s"):
        return f"{title} {number}"
    return f"{number} {title.removesuffix('s') if value == 1 else title}"


@dataclass(frozen=True, slots=True)
class Lines:
    """A chart of rows: figures over another, a line for each of what rows differ in.

    Names, units, spelling and bands are those of the quantities.

    Parameters
    ----------
    x
        Columns of which the first that rows have lies to the right.
    y
        Figures, a panel each.
    by
        Columns that tell lines apart, as far as rows differ in them.
    noted
        A column that is written beside points, where it changes along a line.
    ringed
        A column that is true of points in a ring.
    why
        A column that says why a figure is missing.
    titles
        Other names of axes and rings than those of the quantities, by columns.
    limit
        A value of what lies to the right that is marked, and what it is.

    Examples
    --------
    >>> chart = Lines(("batch_size",), ("speedup",), noted="draft_len")
    >>> chart.found([{"batch_size": 8, "speedup": 1.5, "draft_len": 3}])
    'Best speedup: 1.50x at batch 8, γ 3'
    >>> chart.found([])
    'No speedup anywhere'
    """

    x: tuple[str, ...]
    y: tuple[str, ...]
    _: KW_ONLY
    by: tuple[str, ...] = ()
    noted: str = ""
    ringed: str = ""
    why: str = "reason"
    titles: Mapping[str, str] = field(default_factory=dict)
    limit: tuple[float, str] | None = None

    def shown_x(self, records: Sequence[Mapping[str, Any]]) -> str:
        """Return the column that lies to the right."""
        known = (name for name in self.x if any(row.get(name) is not None for row in records))
        return next(known, self.x[-1])

    def found(self, records: Sequence[Mapping[str, Any]]) -> str:
        """Return the best of the first figure and where it is, for the title of the chart."""
        name = self.y[0]
        figure = QUANTITIES[name]
        known = [row for row in records if row[name] is not None]
        if not known:
            return f"No {figure.title} anywhere"
        ascending = sorted(known, key=lambda row: row[name])
        best = ascending[0 if figure.better == "less" else -1]
        by = [name for name in self.by if len({row.get(name) for row in records}) > 1]
        places = dict.fromkeys([self.shown_x(records), *by, self.noted])
        where = ", ".join(
            labelled(place, best[place]) for place in places if best.get(place) is not None
        )
        return f"Best {figure.title}: {figure.spelt(best[name])} at {where}"


def cell_of(one: Quantity, value: Any) -> str:
    """Return a value as people read it; "-" where there is none.

    Examples
    --------
    >>> cell_of(SPEEDUP, 1.5), cell_of(SPEEDUP, None), cell_of(TPOT, 0.0125)
    ('1.50x', '-', '12.5 ms')
    """
    return "-" if _known(value) is None else one.spelt(value)


#: What stands in the place of a band that says too little.
NOT_USEFUL: Final = "not usefully predicted here"
#: The largest ratio of the ends of a band that is printed.
_WIDEST_BAND: Final = 3.0


def is_useful(low: float | None, high: float | None) -> bool:
    """Tell whether a band is narrow enough to plan with; True where there is none.

    Examples
    --------
    >>> is_useful(1.0, 2.9), is_useful(1.0, 3.1), is_useful(1.0, None), is_useful(None, None)
    (True, False, False, True)
    """
    return low is None or (high is not None and high <= _WIDEST_BAND * low)


def band_cell(one: Quantity, low: float | None, high: float | None) -> str:
    """Return a band as people read it.

    Examples
    --------
    >>> band_cell(SPEEDUP, 1.2, 1.9), band_cell(SPEEDUP, 0.5, 1.9), band_cell(SPEEDUP, None, None)
    ('1.20-1.90x', 'not usefully predicted here', '-')
    """
    if not is_useful(low, high):
        return NOT_USEFUL
    least, most = cell_of(one, low), cell_of(one, high)
    return most if least == most else f"{least.removesuffix('x')}-{most}"


def in_cells(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records with one value in each cell: lists and mappings as people read them.

    Examples
    --------
    >>> in_cells([{"runs": [(1, 48)], "speedup": 1.5}])
    [{'runs': '1-48', 'speedup': 1.5}]
    """
    return [{name: _cell(name, value) for name, value in record.items()} for record in records]


def _cell(name: str, value: Any) -> Any:
    if not isinstance(value, list | tuple | dict):
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


def ranges_spelt(ranges: Sequence[tuple[int, int, int]]) -> str:
    """Return drafts by ranges of running requests in words.

    Examples
    --------
    >>> ranges_spelt([(1, 8, 3), (9, 9, 0)]), ranges_spelt([(1, 48, 3)])
    ('3 at 1-8, 0 at 9', '3')
    """
    if len(ranges) == 1:
        return str(ranges[0][2])
    return ", ".join(
        f"{drafts} at {first}" + (f"-{last}" if last > first else "")
        for first, last, drafts in ranges
    )


def signed_share(value: float) -> str:
    """Return a share as a difference, in which nothing has no minus.

    Examples
    --------
    >>> signed_share(-0.0004), signed_share(-0.012)
    ('+0.0%', '-1.2%')
    """
    return f"{round(value, 3) + 0.0:+.1%}"


_times: Final = "{:.2f}x".format
_whole: Final = "{:.0f}".format

# --- Kinds of figures: those of one unit are spelt alike -----------------------------------------

_seconds = partial(quantity, unit="s", spelt=format_seconds)
_waits = partial(_seconds, better="less", has_band=True)
_usd = partial(quantity, unit="USD", spelt=format_price)
_days = partial(
    quantity, unit="days", spelt=lambda days: f"{three_digits(days)} days", better="less"
)
_gains = partial(quantity, spelt=_times, better="more")
_rates = partial(quantity, unit="requests/s", spelt=three_digits)
_answered = partial(_rates, better="more")
_throughput = partial(quantity, unit="tokens/s", spelt=_whole, better="more", has_band=True)
_drafts = partial(quantity, unit="tokens", is_count=True)
_tokens = partial(_drafts, spelt=plain_number)
_spans = partial(quantity, unit="tokens", spelt=lambda ends: runs_spelt([ends]))
_requests = partial(quantity, unit="requests", is_count=True)
_committed = partial(quantity, unit="tokens", better="more")
_sequences = partial(quantity, unit="sequences", spelt=plain_number, is_count=True)
_amounts = partial(quantity, spelt=format_count)
_number = partial(quantity, is_count=True, spelt=plain_number)
_share = partial(quantity, spelt="{:.1%}".format)
_off = partial(quantity, spelt=signed_share)


def _each(kind: Callable[..., Quantity], *rows: tuple[str, str, str]) -> dict[str, Quantity]:
    """Return quantities of one kind by their names, each of a name, a title and a sentence."""
    return {row[0]: kind(*row) for row in rows}


def _plain(one: Quantity) -> Quantity:
    """Return the same figure without drafts, which has no band and is not compared."""
    name, title = f"plain_{one.name}", f"plain {one.title}"
    alike = {"unit": one.unit, "spelt": one.spelt, "is_count": one.is_count}
    return quantity(name, title, "The same without drafts.", **alike)


# --- What rows are told apart by -----------------------------------------------------------------

quantity("target", "target", "Number of a model on its devices in a study.")
quantity("workload", "workload", "Number of a load in a study.")
quantity("model", "model", "Name of the model.")
quantity("hardware", "chip", "Name of the chip.")
quantity("engine", "engine", "Name of the engine profile.")
quantity("drafter", "drafter", "What drafts.")
_tokens("context_len", "context", "Tokens cached for each sequence; of requests the mean.")
_sequences("batch_size", "batch", "Sequences that are decoded together over all devices.")
_requests("concurrency", "clients", "Requests that clients keep in flight.", spelt=plain_number)
_rates("rate", "req/s in", "Requests that arrive in a second.")
quantity("requests", "requests", "Requests that are simulated.", is_count=True)
quantity("devices", "devices", "Devices that serve.", is_count=True)
DRAFT_LEN: Final = _drafts("draft_len", "γ", "Drafts per round; 0 is off.")
_committed(
    *("accept_length", "tokens/round", "Tokens per round as measured, bonus included."),
    spelt=plain_number,
)

_requests(
    "running_limit", "--server running", "Limit of running requests, as a flag of the server."
)
quantity(
    *("is_cheapest", "", "Whether it is the cheapest point that is fast enough."),
    spelt=lambda cheapest: "cheapest" * cheapest,
)

# --- What is decided -----------------------------------------------------------------------------

quantity("decision", "decision", "Whether to draft: on, off or unclear.")
SPEEDUP: Final = _gains(
    *("speedup", "speedup", "Time of the same work without drafts, over that with them."),
    has_band=True,
)
_drafts("tried_draft_len", "tried γ", "Drafts that the decision judges, on or off.")
TRIED_SPEEDUP: Final = _gains(
    "tried_speedup", "tried", "Speedup of the drafts that the decision judges.", has_band=True
)
quantity(
    "reason",
    "reason",
    "Why there is no speedup: memory, a limit of the server, unsustained, or unknown acceptance.",
)
_drafts("enough_drafts", "enough", "Drafts beyond which more bring less than 1 %.")
quantity(
    *("gain_per_token", "gain per token", "Speedup for each further token per round."),
    spelt="{:+.2f}x".format,
    better="more",
)

_drafts("worth_measuring", "longer γ", "Drafts beyond the measured depth that may gain more.")
WORTH_MEASURING_SPEEDUP: Final = _gains(
    *("worth_measuring_speedup", "longer", "Speedup of the drafts that are worth measuring."),
    has_band=True,
)
quantity(
    "limited_by", "limited by", "What holds the speedup back most: a target that is missed first."
)
for _name, _about in {
    "memory": "Speedup if as many requests ran with drafts as without.",
    "verification": "Speedup if a verification took no longer than a plain step.",
    "drafting": "Speedup if drafting took no time.",
    "acceptance": "Speedup if every draft were accepted.",
    "prefill": "Speedup if prompts took no time.",
}.items():
    _gains(f"speedup_without_{_name}", f"without {_name}", _about)
MEETS_TARGETS: Final = quantity(
    "meets_targets",
    "in time",
    "Whether targets are met, as far as bands say, or unclear: at p99 of simulated requests.",
)
PLAIN_MEETS_TARGETS: Final = _plain(MEETS_TARGETS)

quantity("solve", "solve", "What is solved for.")
quantity("wanted_speedup", "wanted", "Speedup that is to be reached.", spelt=_times)
quantity("answer", "answer", "at, always, never, beyond what was tried, or no room.")
VALUE: Final = quantity("value", "value", "What is solved for.", spelt=three_digits)
CEILING: Final = quantity(
    "ceiling", "at most", "The largest speedup that can be reached.", spelt=_times
)
_number("unknown_from", "unknown from", "The least load that was not tried.")
RUNS: Final = quantity(
    *("runs", "runs that pay", "First and last of each run of loads that reach the speedup."),
    spelt=runs_spelt,
)

# --- Times, throughput, money --------------------------------------------------------------------

TPOT: Final = _waits("tpot_s", "TPOT", "Mean seconds between tokens of an answer.")
TTFT: Final = _waits("ttft_s", "TTFT", "Mean seconds from sending a request to its first token.")
TOKENS_PER_S: Final = _throughput(
    "tokens_per_s", "tok/s", "Output tokens of all requests in a second."
)
PRICE: Final = _usd(
    *("usd_per_million_tokens", "$/Mtok", "US dollars of a million output tokens."),
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
TOKENS_PER_ROUND: Final = _committed(
    *("tokens_per_round", "tok/round", "Tokens that a round commits, bonus included."),
    spelt="{:.2f}".format,
)
_spans("near_best", "near best", "Shortest and longest draft within 1 % of the best speedup.")
_spans("within_band", "within band", "Shortest and longest draft whose band reaches the best one.")
PLAIN_TPOT: Final = _plain(TPOT)
PLAIN_TTFT: Final = _plain(TTFT)
PLAIN_TOKENS_PER_S: Final = _plain(TOKENS_PER_S)
PLAIN_PRICE: Final = _plain(PRICE)
USER_TOKENS: Final = _throughput(
    *("tokens_per_s_per_user", "per user", "Tokens a second of one user after the first."),
    spelt="{:.1f}".format,
)
DEVICE_TOKENS: Final = _throughput(
    "tokens_per_s_per_device", "per device", "Output tokens of all requests for each device."
)
RUNNING: Final = _requests(
    "running", "running", "Requests that run at a time, on average.", spelt="{:.1f}".format
)
_plain(RUNNING)
_seconds("tpot_limit_s", "may wait", "Seconds that a user may wait for each token.")
_requests(
    *("users", "users", "The most requests at once that wait no longer per token than they may."),
    better="more",
)
_answered("largest_stable_rate", "keeps up with", "Requests a second that drafts answer at most.")
_rates("plain_largest_stable_rate", "without drafts", "The same without drafts.")
_answered(
    "largest_rate", "most req/s", "Requests a second of which p99 waits no longer than it may."
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
    _seconds(_name, _name, _about, better="less")
for _name, _about in {
    "input_len": "Tokens of a prompt.",
    "output_len": "Tokens of an answer.",
    "near_best_shortest": "The shortest draft within 1 % of the best.",
    "near_best_longest": "The longest draft within 1 % of the best.",
}.items():
    _tokens(_name, _name, _about)
for _name, _about in {
    "largest_batch_drafting": "The most that run with the best drafts.",
    "running_drafting": "Sequences that run at a time with the best drafts.",
    "effective_batch": "Sequences that are decoded at a time, on average.",
    "decode_batch": "Sequences of a decode worker.",
}.items():
    _sequences(_name, _name, _about)
quantity(
    *("verify_len", "verified", "Positions that a verification computes for each sequence."),
    unit="positions",
    is_count=True,
)
quantity("prefix_hit_rate", "hits", "Share of a prompt that is cached.", spelt=plain_number)
quantity("arrivals_per_s", "req/s in", "Requests that arrive in a second.", unit="requests/s")
REQUEST_RATE: Final = _answered("requests_per_s", "req/s", "Requests that end in a second.")

# --- Policies, rollouts --------------------------------------------------------------------------

quantity("policy", "policy", "How drafts are chosen.")
quantity(
    *("mean_draft_len", "drafts", "Verified drafts of a sequence and round, on average."),
    unit="tokens",
    spelt="{:.2f}".format,
)
quantity("weight", "weight", "How long a load lasts, of all of them.", is_count=True)
GAIN: Final = _off(
    *("gain", "gain", "Tokens a second more than with one draft length for all loads, a share."),
    better="more",
)
_share("gain_error", "±", "Standard error of the gain, of dice.")
quantity(
    *("ranges", "drafts", "Ranges of running requests, first and last, with drafts per round."),
    spelt=ranges_spelt,
)
_waits("makespan_s", "makespan", "Seconds from the first prompt to the last token of a job.")
_requests("most_running", "most running", "The most requests that run at a time.")
quantity(
    *("tail_share", "tail", "Share of a makespan after nine tenths of the answers have ended."),
    spelt="{:.0%}".format,
    better="less",
)
_gains("step_speedup", "step", "Speedup of a training step that waits for its rollout.")
quantity("step", "step", "Step of a training run, from 1.", is_count=True)

# --- How times spread ----------------------------------------------------------------------------

quantity(
    *("interval", "seconds", "What is timed: from where to where seconds are counted."),
    spelt=lambda name: name.replace("_", " "),
)
for _name, _about in {
    "mean": "Mean seconds.",
    "p50": "Seconds that half of them stay within.",
    "p95": "Seconds that 95 of 100 stay within.",
    "p99": "Seconds that 99 of 100 stay within.",
}.items():
    _seconds(f"{_name}_s", _name, _about, better="less")

# --- What a device holds -------------------------------------------------------------------------


def _signed_bytes(value: float) -> str:
    return "-" * (value < 0) + format_binary_bytes(abs(value))


_bytes = partial(quantity, unit="bytes", spelt=_signed_bytes)

quantity("worker", "worker", "What its workers do: prefill or decode.")
quantity("workers", "workers", "How many of them there are.", is_count=True)
_sequences("largest_batch", "most requests", "The most sequences that run at once.", better="more")
BOUND_BY: Final = quantity("bound_by", "limited by", "What limits how many requests run at once.")
MEMORY_BYTES: Final = _bytes("memory_bytes", "memory of a device", "Memory of a device.")
#: Memory of a device, line by line.
MEMORY: Final = _each(
    _bytes,
    ("reserved_bytes", "reserved: activations, graphs, the rest", "Kept from all else."),
    ("weight_bytes", "weights", "Bytes of the model's weights."),
    ("vision_weight_bytes", "weights of the vision tower", "Bytes of the vision tower."),
    ("draft_weight_bytes", "weights of the drafter", "Bytes of what drafts."),
    ("state_pool_bytes", "pool of recurrent state", "Memory for recurrent state."),
    ("cache_pool_bytes", "pool of the cache", "Memory for the cache; below 0 it is missing."),
    ("cache_per_request_bytes", "cache of one request", "Cache that a request takes."),
    ("state_per_request_bytes", "recurrent state of one request", "State of a request."),
    ("short_bytes", "short by", "What a batch of one is short of."),
)
quantity("cache_limit", "by the cache", "Requests that the cache holds.")
quantity("state_limit", "by the state", "Requests that the state holds.")
quantity("windows_limit", "by windows", "Requests that the pool of sliding windows holds.")
quantity(
    "prompts_limit", "by prompts", "Requests that the cache holds beside a chunk of each prompt."
)
quantity(
    "drafted_tokens_limit", "by drafted tokens", "Requests whose drafts fill the tokens of a pass."
)

# --- What an operation takes ---------------------------------------------------------------------


_moved = partial(quantity, unit="bytes", spelt=lambda value: format_si(value, "B"))
_flop = partial(quantity, spelt=partial(format_si, unit=""))

quantity("op", "operation", "Name of the operation.")
quantity("kind", "kind", "What kind of thing it is.")
_number("count", "x", "How many there are.")
_flop("flops", "FLOP", "FLOP; a multiply-add is 2.", unit="FLOP")
_moved("cache_bytes", "cache", "Bytes of the cache, read and written.")
_moved("activation_bytes", "activations", "Bytes of activations.")
_moved("moved_bytes", "bytes", "Bytes of weights, cache and activations.")
quantity("intensity", "FLOP/B", "FLOP for each byte.", spelt=three_digits)
quantity("compute_dtype", "in", "Format of the arithmetic.")
_seconds("compute_s", "computing", "Seconds of the arithmetic alone.")
_seconds("memory_s", "moving", "Seconds of the bytes alone.")
quantity("bound", "bound", "What it waits for: compute, memory, or its own name.")
_seconds("seconds", "time", "Seconds that it takes.")
_share("share", "share", "Share of the whole.")

# --- Models --------------------------------------------------------------------------------------


def counts_spelt(counts: Mapping[str, int]) -> str:
    """Return what there is how often, in words.

    Examples
    --------
    >>> counts_spelt({"full_attention": 36, "mlp": 36})
    '36 full_attention, 36 mlp'
    """
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _formats_spelt(counts: Mapping[str, int]) -> str:
    most_first = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{format_count(count)} in {name}" for name, count in most_first)


def stored_spelt(amounts: Mapping[str, float]) -> str:
    """Return bytes by their formats, in words.

    Examples
    --------
    >>> stored_spelt({"fp8": 1024.0, "bf16": 512.0})
    '1.00 KiB in fp8, 512 B in bf16'
    """
    return ", ".join(f"{format_binary_bytes(one)} in {name}" for name, one in amounts.items())


def _tensors_spelt(amounts: Mapping[str, Mapping[str, float]]) -> str:
    return "; ".join(f"{kind}: {stored_spelt(one)}" for kind, one in amounts.items())


quantity("name", "name", "What it is asked for as.")
quantity("notes", "notes", "What to know about it.", spelt="; ".join)
quantity("family", "family", "Family whose rules it follows.")
_amounts("params", "params", "Parameters.")
_amounts("active_params", "active", "Those of a token.")
WEIGHT_FORMATS: Final = quantity(
    "weight_formats", "formats", "Elements of matrices by their format.", spelt=_formats_spelt
)
quantity("tensor_bytes", "tensors", "Bytes of tensors by their format.", spelt=_tensors_spelt)
quantity("activation_dtype", "activations in", "Format of activations.")
quantity("kv_dtype", "cache in", "Format of cached keys and values.")
_bytes("kv_bytes_per_token", "KV/token", "Cache of a token.")
_bytes("window_bytes", "windows", "Cache of the full windows of a sequence.")
quantity("state_dtype", "state in", "Format of recurrent state.")
_bytes("state_bytes", "state", "Recurrent state of a sequence.")
_number("layers", "layers", "Layers.")
LAYER_KINDS: Final = quantity("layer_kinds", "layers", "Layers of each kind.", spelt=counts_spelt)
quantity("group", "", "sizes, formats, cache or layers.")
quantity("first", "a", "Of the first.")
quantity("second", "b", "Of the second.")
RATIO: Final = quantity("ratio", "b / a", "The second over the first.", spelt="{:.3f}".format)

# --- Training of a drafter -----------------------------------------------------------------------

_amounts("tokens_per_day", "tokens/day", "Output tokens that are served in a day.")
quantity(
    *("saved_hours_per_day", "saved h/day", "Device-hours that the drafter saves in a day."),
    unit="h",
    spelt=three_digits,
    better="more",
)
_usd(
    "saved_usd_per_day", "saved $/day", "US dollars that the drafter saves in a day.", better="more"
)
_days(
    *("days_until_paid", "paid after", "Days of serving that save what the training cost."),
    has_band=True,
)
_days(
    "least_half_life_days",
    "half-life",
    "Half-life of the savings below which the training never pays.",
)
_amounts(
    *("tokens_until_paid", "tokens until paid", "Output tokens that save what the training cost."),
    better="less",
)
_amounts(
    *("requests_until_paid", "requests until paid", "Answers that save what the training cost."),
    better="less",
)
quantity("day", "day", "Days since the drafter is served.", unit="days", spelt=plain_number)
_gains("times_paid", "saved ÷ cost (paid at 1)", "What is saved, over what the training cost.")

# --- Chips ---------------------------------------------------------------------------------------

_names: Final = ", ".join
quantity("title", "title", "What its file calls it.")
#: By the format of the arithmetic.
PEAKS: Final = {
    dtype: _flop(f"{dtype}_flops_per_s", dtype, f"Dense FLOP a second in {dtype}.", unit="FLOP/s")
    for dtype in DTYPE_BYTES
}
_bytes("usable_memory_bytes", "usable", "What servers see, where logged.")
_each(
    partial(quantity, unit="bytes/s", spelt=partial(format_si, unit="B/s")),
    ("memory_bytes_per_s", "bandwidth", "Bytes a second of its memory."),
    ("link_bytes_per_s", "link", "Bytes a second to other devices, each way."),
    ("scale_out_bytes_per_s", "between nodes", "Bytes a second to other nodes."),
)
_number("multiprocessors", "processors", "Multiprocessors.")
_number("max_devices", "joined", "Devices that one link joins.")
quantity("board_watts", "power", "Watts of a board.", unit="W", spelt=plain_number)
quantity("usd_per_hour", "$/h", "Price of an hour.", unit="USD")
quantity("price_date", "of", "When that was the price.")
quantity("aliases", "aliases", "Other names.", spelt=_names)
quantity("engines", "engines", "Engine profiles.", spelt=_names)
quantity("host", "host", "Whose memory it may also use.")

# --- Measured acceptance -------------------------------------------------------------------------

quantity("task", "task", "What was answered.")
quantity("temperature", "temperature", "Of sampling.", spelt=plain_number)
quantity("rule", "rule", "How drafts are accepted.")
quantity("accuracy", "accuracy", "Of the answers, as measured with drafts.")
quantity("measurement", "measured", "Acceptance by position, or lengths.")
SURVIVAL: Final = quantity(
    *("survival", "survival", "Share of rounds that accept so many drafts at least."),
    spelt=lambda shares: " ".join(f"{share:.3f}" for share in shares),
)
LENGTHS: Final = quantity(
    *("lengths", "lengths", "Tokens per round by the drafts that they were measured with."),
    spelt=lambda lengths: ", ".join(f"{one:g} at {drafts}" for drafts, one in lengths.items()),
)
quantity("counted", "counted", "What the source prints.")
_number("n_rounds", "rounds", "Rounds that were counted.")
SOURCE: Final = quantity("source", "source", "Where it stands.")
quantity("note", "note", "What to know about it.")
quantity("profile", "profile", "Name of the measured acceptance.")
quantity("law", "law", "The law that was fitted.")
quantity(
    *("parameters", "parameters", "The numbers of the law."),
    spelt=lambda numbers: ", ".join(f"{one:.5g}" for one in numbers),
)
# Fitted less measured.
_each(
    partial(quantity, spelt="{:.4f}".format),
    ("rms_residual", "rms", "Root of the mean square of what survival is off."),
    ("worst_residual", "worst", "The most that survival is off."),
)
quantity(
    *("length_residual", "tokens/round off", "What tokens per round are off."),
    spelt="{:+.3f}".format,
)
quantity("spec", "SPEC", "What a SPEC says of it.")

# --- What was measured, beside what was predicted ------------------------------------------------

quantity("quantity", "", "Which figure.")
quantity("unit", "", "Unit of the figure.")
quantity("measured", "measured", "What was measured.", spelt=three_digits)
quantity("predicted", "predicted", "What is predicted.", spelt=three_digits)
_off("off", "off", "One over the other, less 1.")
quantity("ideal", "ideal", "What the ideal roofline predicts.", spelt=three_digits)
_off("ideal_off", "off", "How far that is off.")
quantity("place", "point", "Where it stands in its file.")
_number("positions", "positions", "Positions of a timed pass.")
PASS_ROWS: Final = _number("pass_rows", "rows", "Rows of the pass.")
_seconds("measured_s", "measured", "Seconds that were measured.")
_seconds("before_s", "before", "Seconds by the engine that it started from.")
_off("before_off", "off", "How far these are off.")
_seconds("after_s", "now", "Seconds by the engine that was measured.")
TRUST: Final = quantity("trust", "trust", "Order of trust: 1 to 3 calibrate, larger ones do not.")
POINTS: Final = _number("n", "points", "Points that were scored.")
#: Errors and shares of scores.
ERRORS: Final = _each(
    _share,
    ("speedup_mean_error", "speedup, mean", "Mean error of speedups of known acceptance."),
    ("speedup_median_error", "median", "Median error of these speedups."),
    ("speedup_p90_error", "90%", "Error that nine of ten of them stay below."),
    ("shape_mean_error", "shape alone", "Mean error of speedups but for a factor per group."),
    ("trees_mean_error", "trees", "Mean error of drafts that branch."),
    ("decode_mean_error", "plain, mean", "Mean error of plain throughput."),
    ("decode_median_error", "median", "Median error of plain throughput."),
    ("drafting_median_error", "drafting, median", "Median error of drafting alone."),
    (
        "verdict_accuracy",
        "decision right",
        "Share of speedups whose decision, on or off, is right.",
    ),
    ("unclear_share", "unclear", "Share of speedups whose prediction says unclear."),
    ("regret_mean", "regret", "Throughput lost by taking what is predicted best."),
    ("band80_coverage", "in 80% band", "Share of speedups within their band."),
    ("band80_width", "± median", "Median half-width of these bands."),
    ("tokens_per_s_mean_error", "tok/s, mean", "Mean error of throughput."),
)
# Speedups that are compared.
_each(
    partial(quantity, spelt=_times),
    ("measured_speedup", "measured speedup", "Speedup that was measured."),
    ("predicted_speedup", "predicted", "Speedup that is predicted."),
    ("ideal_speedup", "ideal", "Speedup by the ideal roofline."),
)
quantity("is_right", "decision", "Whether drafts pay as predicted.")
