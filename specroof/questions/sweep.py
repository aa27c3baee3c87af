"""What do several drafters gain on several models, chips and loads?"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from specroof import quantities as q
from specroof.arrays import fields_of, grouped
from specroof.drafters import Drafter
from specroof.errors import Urgent, expect, reject
from specroof.outcomes.case import served_case
from specroof.outcomes.rows import LoadRow, point_columns
from specroof.questions import parameters as p
from specroof.questions.answer import Answer
from specroof.questions.predict import Prediction, predicted
from specroof.questions.request import question
from specroof.questions.study import Study, Target, load_study, parse_study
from specroof.reading.yaml_text import dump_yaml
from specroof.report.columns import Columns
from specroof.report.layout import (
    ABSENT,
    brief,
    closing,
    facts_html,
    figure,
    format_table,
    in_line,
    shows_notes,
)
from specroof.serving.workload import Load
from specroof.speedup.overview import Overview
from specroof.units import MOST_POINTS, format_price, plain_number

#: What a study can be given as.
StudyLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Study


# --- Its points, some at a time -------------------------------------------------------------------

#: Points that are held at a time: their arrays and tables stay within some hundreds of MB.
_SLICE_POINTS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Slice:
    """Some points of one target and one load, of one drafter or of all.

    Parameters
    ----------
    target, workload
        Positions in the study, from 1.
    prediction
        What the drafters gain there.
    drafter
        The position of the only one; 0 for all.
    """

    target: int
    workload: int
    prediction: Prediction
    drafter: int = 0

    def columns(self) -> Iterator[Columns]:
        """Yield the points of the only drafter, without prices and bands but those of speedups."""
        for columns in point_columns(self.prediction.outcomes[0]):
            yield {"target": self.target} | columns


def study_slices(
    study: Study, target: int, drafter: int, *, most: int = _SLICE_POINTS
) -> Iterator[Slice]:
    """Yield the points of one drafter on one target, some at a time.

    Parameters
    ----------
    study
        What is asked.
    target, drafter
        Positions in the study, from 1.
    most
        Points that are held at a time.
    """
    served, drafts = study.targets[target - 1], study.drafters[drafter - 1]
    for order, load in enumerate(study.loads, start=1):
        for part in _load_slices(load, max(1, most // (study.longest + 1))):
            yield Slice(target, order, study_prediction(study, served, part, [drafts]), drafter)


def study_prediction(
    study: Study, target: Target, load: Load, drafters: Sequence[Drafter]
) -> Prediction:
    """Return what some drafters of a study gain on a target under a load."""
    case = served_case(target, load, study.capacity, split=target.split)
    return predicted(case, drafters, max_draft_len=study.max_draft_len, among=study.drafters)


@dataclass(slots=True, eq=False)
class Findings:
    """What is kept of the points of a study while they pass by.

    Parameters
    ----------
    loads
        Those of the study.
    of_curves
        The best of each curve at some of its loads, by its target, drafter and workload.
    notes
        Sentences for the reader, each once.
    without_room
        Loads at which nothing runs.
    """

    loads: Sequence[Load]
    of_curves: dict[tuple[int, int, int], Overview] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    without_room: int = 0

    @property
    def overviews(self) -> list[Overview]:
        """The best of each curve, in the order of the study."""
        return [*self.of_curves.values()]

    def add(self, part: Slice) -> None:
        """Keep what there is to say of some points of one drafter."""
        load, prediction = self.loads[part.workload - 1], part.prediction
        one, (found, _) = prediction.outcomes[0], prediction.load_arrays[0]
        # At a rate, how many run differs from chip to chip.
        batches = np.asarray(load.rate, np.float64) if load.rate else one.curve.batch_size
        place = part.target, part.drafter, part.workload
        if place not in self.of_curves:
            self.of_curves[place] = Overview.of(
                prediction.headline_curves[0],
                load.context_len,
                load.batch_size if load.kind == "concurrency" else batches.tolist(),
                place,
                prediction.devices,
                is_by_rate=load.kind == "rate",
            )
        runs = np.isfinite(found[q.TOKENS_PER_S.name])
        self.of_curves[place].fill(
            {
                "context_len": one.curve.context_len,
                "batch_size": batches,
                **{name: found[name] for name in (q.TOKENS_PER_S.name, q.PRICE.name)},
                "best_draft_len": np.where(runs, found["draft_len"], np.nan),
                "best_speedup": found["speedup"],
                "drafts_run": np.asarray(one.curve.drafts_run, dtype=np.float64),
                "pays": (found["decision"] == "on") + 0.5 * (found["decision"] == "unclear"),
            }
        )
        self.notes |= dict.fromkeys(prediction.notes)
        self.without_room += int(np.isnan(one.decoding.best_speedup).sum())


def study_findings(study: Study, advance: Callable[[int], object] = lambda _: None) -> Findings:
    """Compute a study, holding some points at a time, and return what is kept of them.

    Parameters
    ----------
    study
        What is asked.
    advance
        Called with how many points are done, each time some are.
    """
    found = Findings(study.loads)
    for pair in study.pairs:
        for part in study_slices(study, *pair):
            found.add(part)
            advance(part.prediction.curves[0].round_s.size)
    return found


def _load_slices(load: Load, most: int) -> Iterator[Load]:
    """Yield a load in parts of at most `most` operating points, contexts outermost.

    Whole, where requests come by themselves: how many run is known only when they are played.
    """
    if load.requests and load.kind != "concurrency":
        yield load
        return
    columns = min(len(load.batch_size), most)
    rows = max(1, most // columns) if columns == len(load.batch_size) else 1
    for row in range(0, len(load.context_len), rows):
        for column in range(0, len(load.batch_size), columns):
            contexts = load.context_len[row : row + rows]
            yield replace(load.part(column, columns), context_len=contexts)


@dataclass(frozen=True)
class SweepRequest:
    """Ask what several drafters gain on several models, chips and loads."""

    study: Annotated[
        StudyLike,
        p.Parameter(
            "A study file, the name of a bundled study, a mapping with the keys of a study file, "
            "or a `Study`."
        ),
    ]


# Without slots: outcomes are computed when they are asked for, and kept.
@dataclass(frozen=True, repr=False, eq=False)
class Sweep(Answer):
    """What several drafters gain on several models, chips and loads.

    Points are computed when they are asked for: `slices` and `frames` hold some at a
    time, whatever the size of the study; the others hold all of them.

    Attributes
    ----------
    study
        What was asked, with all that it names loaded and checked.
    outcomes
        A prediction for each target under each load.
    notes, warnings
        Sentences for the reader.
    question, asked
        The name of the question, and the study as it was given.
    """

    study: Study
    question: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def outcomes(self) -> tuple[Slice, ...]:
        """A prediction for each target under each load."""
        study = self.study
        self._check_size()
        return tuple(
            Slice(number, order, study_prediction(study, target, load, study.drafters))
            for number, target in enumerate(study.targets, start=1)
            for order, load in enumerate(study.loads, start=1)
        )

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]  # computed when asked for
        """Sentences for the reader."""
        notes = (note for one in self.outcomes for note in one.prediction.messages["notes"])
        return tuple(dict.fromkeys(notes))

    @property
    def warnings(self) -> tuple[str, ...]:  # type: ignore[override]  # computed when asked for
        """Sentences on points that cannot be had."""
        warnings = (warning for one in self.outcomes for warning in one.prediction.warnings)
        return tuple(dict.fromkeys(warnings))

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        study = self.study
        sizes = f"{len(study.targets)} targets x {len(study.drafters)} drafters"
        return f"{sizes}, {study.n_points} points"

    def text(self) -> str:
        """Return the findings of the study, in at most 40 lines whatever its size."""
        return study_text(self.study)

    def _check_size(self) -> None:
        """Refuse to hold more points at once than a machine has memory for."""
        if self.study.n_points > MOST_POINTS:
            reject(
                f"the study has {self.study.n_points} points",
                f"at most {MOST_POINTS} at once; slices() and frames() hold some at a time",
            )

    @property
    def facts(self) -> dict[str, Any]:
        """What a notebook shows: sizes, for nothing is computed to be looked at."""
        study = self.study
        return {
            "targets": len(study.targets),
            "drafters": len(study.drafters),
            "loads": sum(len(load.batch_size) * len(load.context_len) for load in study.loads),
            "draft lengths": study.longest + 1,
            "points": study.n_points,
        }

    def _repr_html_(self) -> str:
        """Return a small table of the sizes; notes are of points, and there are none yet."""
        return facts_html(self.title, self.facts, ())

    def slices(self) -> Iterator[Slice]:
        """Yield all points, some at a time."""
        for pair in self.study.pairs:
            yield from study_slices(self.study, *pair)

    def point_columns(self) -> Iterator[Columns]:
        """Yield every point as columns, the target in front.

        Raises
        ------
        OptionError
            For a study of more points than are held at once.
        """
        self._check_size()
        for part in self.slices():
            for columns in part.prediction.point_columns():
                yield {"target": part.target} | columns

    def frames(self) -> Iterator[Any]:
        """Yield all points as pandas data frames, some at a time; needs pyarrow and pandas."""
        for part in self.slices():
            yield part.prediction.to_arrow("points").to_pandas().assign(target=part.target)

    def overviews(self) -> list[Overview]:
        """Return the best of each curve at some of its loads, whatever the size of the study."""
        return study_findings(self.study).overviews

    @property
    def rows(self) -> tuple[LoadRow, ...]:
        """What becomes of each load, with each target and drafter."""
        told_apart = ("target", "workload") if len(self.study.loads) > 1 else ("target",)
        return tuple(
            replace(row, **fields_of(outcome, *told_apart))
            for outcome in self.outcomes
            for row in outcome.prediction.rows
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what `predict --json` prints: a case and a choice for each outcome."""
        printed = [
            (fields_of(outcome, "target", "workload"), outcome.prediction.to_dict())
            for outcome in self.outcomes
        ]
        cases, choices = ([of | told[key] for of, told in printed] for key in ("case", "choice"))
        return self.envelope({"outcomes": cases}, {"outcomes": choices})

    def plot(self) -> Any:
        """Draw best speedup against batch size, a panel for each model and chip."""
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        return next(iter(plot.study_figures(self.overviews()).values()))


@question(SweepRequest)
def sweep(request: SweepRequest) -> Sweep:
    """Run a study: several models x hardware x drafters."""
    return Sweep(study_of(request.study))


def study_of(given: StudyLike) -> Study:
    """Return a study with all that it names loaded.

    Raises
    ------
    SpecroofError
        For a study with mistakes, and anything but a study.
    """
    allowed = "a file, a name, a mapping or a Study"
    expect("study", given, str | os.PathLike | Mapping | Study, allowed)
    if isinstance(given, Study):
        return given
    if isinstance(given, Mapping):
        try:
            text = dump_yaml(dict(given))
        except RecursionError:
            reject("study holds a list or mapping that holds itself", allowed)
        return parse_study(text, "study")
    return load_study(given)


# --- The best of each load, as columns ------------------------------------------------------------


def summary_columns(prediction: Prediction) -> Columns:
    """Return what becomes of each load with the first drafter as columns, batch sizes innermost.

    These are the columns of `LoadRow`, those that are not known too, and room.
    """
    one, curve = prediction.outcomes[0], prediction.curves[0]
    found, bands = prediction.load_arrays[0]
    shortest, longest = curve.near_best(0.01)
    columns: Columns = dict.fromkeys(LoadRow.column_names())
    columns |= {"batch_size": curve.batch_size, **found}
    for name, (low, high) in bands.items():
        columns |= {f"{name}_low": low, f"{name}_high": high}
    columns |= {
        "largest_batch": None if one.largest is None else one.largest[..., 0],
        "largest_batch_drafting": None if one.largest is None else curve.at_best(one.largest),
        "near_best_shortest": shortest,
        "near_best_longest": longest,
        "drafts_run": curve.drafts_run,
    }
    if one.end_to_end is not None:
        columns["steady"] = np.array(not prediction.played)
    shape = curve.best_speedup.shape
    columns = {
        name: np.broadcast_to(np.asarray(np.nan if values is None else values), shape).ravel()
        for name, values in columns.items()
        if name not in {"target", "workload", "near_best", "within_band"}
    }
    columns |= curve.names
    if one.end_to_end is not None:
        columns |= fields_of(one.end_to_end.workload, "input_len", "output_len", "prefix_hit_rate")
    return columns


# --- A study in at most forty lines: the best configurations, where drafting stops paying --------

#: Lines of the tables and of the notes; the text has at most 40 with titles and empty lines.
_MOST_BEST: Final = 16
_MOST_STOPS: Final = 10
_MOST_NOTES: Final = 4
#: Characters of a name in a table, and of a note.
_MOST_LETTERS: Final = 40
_MOST_NOTE: Final = 300
#: By requests, whether loads are rates, context and batch size or rate: throughput, price, speedup
#: and draft length of what runs there.
_Loads: TypeAlias = dict[tuple[str, bool, float, float], list[tuple[list[float], Overview]]]


def study_text(study: Study, advance: Callable[[int], object] = lambda _: None) -> str:
    """Compute a study, and return its findings: see `study_findings` and `sweep_text`."""
    found = study_findings(study, advance)
    return sweep_text(
        found.overviews, [*found.notes], points=study.n_points, without_room=found.without_room
    )


def sweep_text(
    overviews: Sequence[Overview], notes: Sequence[str], *, points: int, without_room: int
) -> str:
    """Return the findings of a study, in at most 40 lines whatever its size.

    Parameters
    ----------
    overviews
        The best of each curve at some of its loads.
    notes
        Sentences for the reader.
    points
        Rows of all files.
    without_room
        Loads that the server has no room for.
    """
    title = f"{points} points: {_counted(overviews)}"
    urgent = [note for note in notes if isinstance(note, Urgent)][:_MOST_NOTES]
    usual = [
        note if len(brief(note)) <= _MOST_NOTE else f"{brief(note)[:_MOST_NOTE]}…"
        for note in notes
        if not isinstance(note, Urgent)
    ]
    more = len(usual) - _MOST_NOTES
    if shows_notes() and more > 0:
        usual = [*usual[:_MOST_NOTES], f"manifest.json, which --output writes, has {more} more"]
    lack = "load has" if without_room == 1 else "loads have"
    failed = [f"{without_room} {lack} no room"] if without_room else []
    sentences = closing([*urgent, *usual], failed)
    parts = [title, _best_table(overviews), _stops_table(overviews), sentences]
    return "\n\n".join(filter(None, parts))


def _counted(overviews: Sequence[Overview]) -> str:
    kinds: dict[str, set[Any]] = {
        "model": {overview.model for overview in overviews},
        "chip": {overview.hardware for overview in overviews},
        "drafter": {overview.drafter for overview in overviews},
    }
    return ", ".join(
        f"{len(names)} {kind}{'s'[: len(names) != 1]}" for kind, names in kinds.items()
    )


def _configurations(overviews: Sequence[Overview]) -> Sequence[Overview]:
    """Return the curves without bounds, unless nothing else is asked about."""
    drafted = [overview for overview in overviews if overview.drafter != "ideal"] or overviews
    return [overview for overview in drafted if overview.engine != "ideal"] or drafted


def _best_table(overviews: Sequence[Overview]) -> str:
    """Return the configuration with the most tokens per second, for each model and load."""
    every, overviews = overviews, _configurations(overviews)
    of_models = grouped(overviews, lambda overview: overview.model)
    shown = [_loads(members) for members in of_models.values()][:_MOST_BEST]
    each = max(1, _MOST_BEST // len(shown))
    rows = [
        row
        for model, loads in zip(of_models, shown, strict=False)
        for row in _best_rows(model, loads, each)
    ]
    load = "load" if any(overview.requests for overview in overviews) else "context"
    header = ["model", load, _axis(overviews), "most tok/s", "$/Mtok", "speedup", "γ"]
    header += ["chip", "drafter"]
    table = format_table(header, rows, left=(0, *[1] * (load == "load"), 7, 8), keys=3)
    more = len(of_models) - len(shown)
    left_out = [f"{more} more models"] if more else []
    if len(rows) < sum(map(len, shown)):
        left_out.insert(0, "loads in between")
    table += f"\nand {', and '.join(left_out)}" if left_out else ""
    if any(overview.is_by_rate for overview in overviews):
        table += (
            "\nat a rate, a speedup is that of the mean time of a request; none where requests come "
            "faster than the server answers them without drafts"
        )
    if len(overviews) < len(every):
        table += "\nideal, a bound, is left out"
    return table


def _best_rows(model: str, loads: _Loads, most: int) -> Iterator[list[str]]:
    """Yield a row for some loads of a model."""
    ordered = sorted(loads)
    for place in np.unique(np.linspace(0, len(ordered) - 1, most).round().astype(int)):
        requests, is_by_rate, context, batch = ordered[place]
        load = requests or plain_number(context)
        of_load = _of_load(batch, is_by_rate=is_by_rate)
        choices = loads[ordered[place]]
        if not choices:
            yield [_short(model), load, of_load, "no room", *[ABSENT] * 5]
            continue
        (rate, usd, speedup, draft_len), overview = max(choices, key=lambda choice: choice[0][0])
        chip = _short(f"{overview.devices} x {overview.hardware}")
        gain = figure(speedup, "{:.2f}x".format)
        cells = [of_load, f"{rate:.0f}", figure(usd, format_price), gain]
        drafter = _short(overview.drafter) if draft_len else "none"
        yield [_short(model), load, *cells, f"{draft_len:g}", chip, drafter]


def _axis(overviews: Sequence[Overview]) -> str:
    """Return what tables call a batch size or a rate."""
    return " or ".join(sorted({"rate" if one.is_by_rate else "batch" for one in overviews}))


def _of_load(batch: float, *, is_by_rate: bool) -> str:
    """Return a batch size, which is a mean where requests come by themselves, or a rate."""
    number = plain_number(batch, digits=6 if is_by_rate else 3)
    return f"{number}/s" if is_by_rate else number


def _loads(overviews: Sequence[Overview]) -> _Loads:
    """Return what runs at each load that is looked at."""
    loads: _Loads = {}
    for one in overviews:
        tables = one.tokens_per_s, one.usd_per_million_tokens, one.best_speedup, one.best_draft_len
        figures = np.stack(tables, axis=-1).tolist()
        for context, row in zip(one.context_len.tolist(), figures, strict=True):
            for batch, cell in zip(one.batch_size.tolist(), row, strict=True):
                choices = loads.setdefault((one.requests, one.is_by_rate, context, batch), [])
                if math.isfinite(cell[0]):
                    choices.append((cell, one))
    return loads


def _stops_table(overviews: Sequence[Overview]) -> str:
    """Return from which batch size on a drafter stops paying, for each model and drafter."""
    overviews = _configurations(overviews)
    groups = grouped(overviews, lambda overview: (overview.model, overview.drafter))
    rows = []
    for (model, drafter), members in list(groups.items())[:_MOST_STOPS]:
        ends = [
            (*_stops_at(overview), f"{overview.devices} x {overview.hardware}", overview.is_by_rate)
            for overview in members
        ]
        run = [end for end in ends if end[0]] or ends
        first, last = min(run), max(run)
        rows.append([_short(model), _short(drafter), _stop(*first), _stop(*last)])
    header = ["model", "drafter", f"stops paying from {_axis(overviews)}: first", "last"]
    more = len(groups) - len(rows)
    table = format_table(header, rows, left=(0, 1, 2, 3), keys=2)
    return table + (f"\nand {more} more" if more else "")


def _stops_at(overview: Overview) -> tuple[float, bool]:
    """Return the load from which on drafts are on at some context no more, and whether by a doubt.

    0 where no draft has room, and inf where there is no such load.
    """
    if not overview.drafts_run.any():
        return 0.0, False
    stops = []
    for runs, pays in zip(overview.drafts_run == 1, overview.pays, strict=True):
        last = np.flatnonzero(runs & (pays == 1)).max(initial=-1)
        later = last + 1 + np.flatnonzero(runs[last + 1 :])
        known = (float(overview.batch_size[later[0]]), pays[later[0]] > 0) if later.size else None
        stops.append(known or (float("inf"), False))
    return min(stops)


def _stop(batch: float, is_unclear: bool, where: str, is_by_rate: bool) -> str:
    if batch == 0:
        return f"no room ({_short(where)})"
    if batch == float("inf"):
        return "pays wherever it runs"
    doubt = ", unclear" if is_unclear else ""
    return f"{_of_load(batch, is_by_rate=is_by_rate)}{doubt} ({_short(where)})"


def _short(name: str) -> str:
    line = in_line(name)
    return line if len(line) <= _MOST_LETTERS else f"{line[: _MOST_LETTERS - 1]}…"
