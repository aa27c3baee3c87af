"""What figures are called: one name each, with its title, unit, spelling and a sentence.

A row of an answer is a class whose fields have these names. Its text, CSV, JSON, frames,
Arrow tables and schemas derive from them, and so do the ends of bands: a figure with a band has
two more columns, under its name with ``_low`` and ``_high``.
"""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, get_type_hints

from specroof.units import (
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


#: What the type of a field is annotated with that a row has besides its columns.
NO_COLUMN: Final = "no column"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of an answer: every field is a column, of the `Quantity` that has its name.

    Or of the one that its type is annotated with; with `NO_COLUMN` it is none. A field that is
    `None` in all rows of an answer is no column, where its type allows that.

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

    bands: Annotated[Mapping[str, tuple[float, float]], NO_COLUMN] = field(default_factory=dict)

    @classmethod
    @cache
    def quantities(cls) -> Mapping[str, Quantity]:
        """Return the quantities of a row by the names of their fields.

        Raises
        ------
        KeyError
            For a field of which the register knows nothing.
        """
        hints = get_type_hints(cls, include_extras=True)
        said = {one.name: getattr(hints[one.name], "__metadata__", ()) for one in fields(cls)}
        told = {name: words[0] if words else QUANTITIES[name] for name, words in said.items()}
        return MappingProxyType({name: one for name, one in told.items() if one != NO_COLUMN})

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


def counts_spelt(counts: Mapping[str, int]) -> str:
    """Return what there is how often, in words.

    Examples
    --------
    >>> counts_spelt({"full_attention": 36, "mlp": 36})
    '36 full_attention, 36 mlp'
    """
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _elements_spelt(counts: Mapping[str, int]) -> str:
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


# --- The register, which is a table of its own: quantities.csv -----------------------------------

#: How values are spelt, by the words of the register. Other words are formats themselves.
_SPELT: Final[dict[str, Callable[[Any], str]]] = {
    "": str,
    "B": partial(format_si, unit="B"),
    "B/s": partial(format_si, unit="B/s"),
    "FLOP": partial(format_si, unit=""),
    "bytes": lambda value: "-" * (value < 0) + format_binary_bytes(abs(value)),
    "cheapest": lambda is_cheapest: "cheapest" * is_cheapest,
    "count": format_count,
    "counts": counts_spelt,
    "days": lambda days: f"{three_digits(days)} days",
    "elements": _elements_spelt,
    "lengths": lambda one: ", ".join(f"{length:g} at {drafts}" for drafts, length in one.items()),
    "megajoules": lambda joules: format_price(joules / MILLION),
    "names": ", ".join,
    "numbers": lambda numbers: ", ".join(f"{one:.5g}" for one in numbers),
    "plain": plain_number,
    "price": format_price,
    "ranges": ranges_spelt,
    "runs": runs_spelt,
    "seconds": format_seconds,
    "sentences": "; ".join,
    "shares": lambda shares: " ".join(f"{share:.3f}" for share in shares),
    "signed share": signed_share,
    "spaced": lambda name: name.replace("_", " "),
    "span": lambda ends: runs_spelt([ends]),
    "tensors": lambda kinds: "; ".join(
        f"{kind}: {stored_spelt(one)}" for kind, one in kinds.items()
    ),
    "three digits": three_digits,
}


def _of_row(row: dict[str, str]) -> Quantity:
    """Return a quantity by a row of the register, whose columns are its fields."""
    known: Any = {**row, "spelt": _SPELT.get(row["spelt"], row["spelt"].format)}
    known |= {name: bool(row[name]) for name in ("is_count", "has_band")}
    return Quantity(**known)


with Path(__file__).with_suffix(".csv").open(encoding="utf-8") as _file:
    #: Every quantity by its name, in the order of the register.
    QUANTITIES: Final = {row["name"]: _of_row(row) for row in csv.DictReader(_file)}

DRAFT_LEN: Final = QUANTITIES["draft_len"]
SPEEDUP: Final = QUANTITIES["speedup"]
TRIED_SPEEDUP: Final = QUANTITIES["tried_speedup"]
WORTH_MEASURING_SPEEDUP: Final = QUANTITIES["worth_measuring_speedup"]
MEETS_TARGETS: Final = QUANTITIES["meets_targets"]
PLAIN_MEETS_TARGETS: Final = QUANTITIES["plain_meets_targets"]
VALUE: Final = QUANTITIES["value"]
CEILING: Final = QUANTITIES["ceiling"]
RUNS: Final = QUANTITIES["runs"]
TPOT: Final = QUANTITIES["tpot_s"]
TTFT: Final = QUANTITIES["ttft_s"]
TOKENS_PER_S: Final = QUANTITIES["tokens_per_s"]
PRICE: Final = QUANTITIES["usd_per_million_tokens"]
ENERGY: Final = QUANTITIES["joules_per_million_tokens"]
TOKENS_PER_ROUND: Final = QUANTITIES["tokens_per_round"]
PLAIN_TPOT: Final = QUANTITIES["plain_tpot_s"]
PLAIN_TTFT: Final = QUANTITIES["plain_ttft_s"]
PLAIN_TOKENS_PER_S: Final = QUANTITIES["plain_tokens_per_s"]
PLAIN_PRICE: Final = QUANTITIES["plain_usd_per_million_tokens"]
USER_TOKENS: Final = QUANTITIES["tokens_per_s_per_user"]
DEVICE_TOKENS: Final = QUANTITIES["tokens_per_s_per_device"]
RUNNING: Final = QUANTITIES["running"]
REQUEST_RATE: Final = QUANTITIES["requests_per_s"]
GAIN: Final = QUANTITIES["gain"]
BOUND_BY: Final = QUANTITIES["bound_by"]
MEMORY_BYTES: Final = QUANTITIES["memory_bytes"]
WEIGHT_FORMATS: Final = QUANTITIES["weight_formats"]
LAYER_KINDS: Final = QUANTITIES["layer_kinds"]
RATIO: Final = QUANTITIES["ratio"]
SURVIVAL: Final = QUANTITIES["survival"]
LENGTHS: Final = QUANTITIES["lengths"]
PASS_ROWS: Final = QUANTITIES["pass_rows"]
