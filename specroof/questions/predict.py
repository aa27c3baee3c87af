"""How much faster does a drafter make decoding, at which draft length, at which load?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt

from specroof import quantities as q
from specroof.arrays import Array, fields_of, number_within, to_json_array, whole_within
from specroof.drafters import Drafter
from specroof.errors import Note, refuse, reject
from specroof.hardware.engine import CONCURRENCY_ENDS, EngineProfile, played_figure, served_cells
from specroof.outcomes.case import Case
from specroof.outcomes.choose import choose
from specroof.outcomes.outcomes import Outcomes, outcomes
from specroof.outcomes.rows import (
    LOAD_KEYS,
    LoadRow,
    listed_fields,
    load_arrays,
    load_columns,
    point_arrays,
    point_columns,
)
from specroof.policies.decision import Choice, LoadDecision
from specroof.quantities import NOT_USEFUL, is_useful, labelled, records_of
from specroof.questions import parameters as p
from specroof.questions.answer import (
    ACCEPTANCE_UNKNOWN,
    Charted,
    Of,
    OnChips,
    ServedAnswer,
    decision_line,
    rows_table,
    sure_of,
)
from specroof.questions.case import asked_case, asked_load
from specroof.questions.objects import absent_layers, as_list, money_of, price_notes, usd_per_hour
from specroof.questions.played_loads import load_json, played_charts, played_tables
from specroof.questions.request import Command, LoadsRequest, question
from specroof.questions.splits import split_text
from specroof.reading.words import Prices, whole_numbers
from specroof.report.columns import Columns, listed_columns
from specroof.report.layout import brief, figure, format_table, in_line, shows_notes
from specroof.serving.capacity import RoomRule, ServerRoom
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.played import PlayedLoads
from specroof.serving.served import Limits, served_curve
from specroof.serving.workload import Load
from specroof.speedup.curve import (
    DEFAULT_MAX_DRAFT_LEN,
    REQUEST_WEIGHT,
    ROW_WEIGHT,
    TEXT_WEIGHT,
    acceptance_of,
    draft_depth,
    longest_draft,
    refuse_many_points,
)
from specroof.speedup.price import Money
from specroof.speedup.reach import evidence_engine, nearness
from specroof.speedup.result import TIE, SpeedupCurve, counted_engines
from specroof.units import MOST_POINTS, format_drafts, format_seconds, plain_number

# --- The gains of drafters in a setup that exists: curves, end to end, within a server's room ----

#: Batch sizes at which `Prediction.survey` looks, besides those asked for.
SURVEYED_BATCHES: Final = tuple(2.0**power for power in range(11))


#: Contexts that a title names.
_MOST_TOLD: Final = 4
#: Contexts and batch sizes of a curve that a notebook shows.
_SHOWN_POINTS: Final = 8


@dataclass(frozen=True, repr=False, eq=False)
class Prediction(ServedAnswer, Charted):
    """What speculative decoding gains.

    Attributes
    ----------
    about, drafters
        What was asked about.
    max_draft_len
        The longest draft of the grid.
    outcomes
        What each drafter gains.
    notes, warnings
        Sentences for the reader.
    draft_len
        The lengths whose speedups are shown side by side.
    price_per_hour
        Of a device; None for that of the hardware file.
    """

    drafters: tuple[Drafter, ...]
    max_draft_len: int
    outcomes: tuple[Outcomes, ...]
    draft_len: tuple[int, ...] = ()
    price_per_hour: Prices | None = None

    @cached_property
    def load(self) -> Load:
        """The loads; of played requests the mean ones, as many at a time as run."""
        if not self.played:
            return self.about.load
        return replace(self.about.load.steady, batch_size=self.curves[0].batch_size.tolist())

    @property
    def curves(self) -> tuple[SpeedupCurve, ...]:
        """A curve for each drafter, of decoding alone.

        Of played requests, of the mean lengths, at as many clients, or at the batch that runs on
        average without drafts.
        """
        return tuple(one.decoding for one in self.outcomes)

    @property
    def end_to_end(self) -> tuple[EndToEnd, ...]:
        """What requests see of each drafter, prompts counted; empty without requests."""
        return tuple(one.end_to_end for one in self.outcomes if one.end_to_end is not None)

    @property
    def limits(self) -> tuple[ServerRoom, ...]:
        """What the server has room for, for each drafter; empty where memory has no end."""
        return tuple(one.room for one in self.outcomes if one.room is not None)

    @property
    def told(self) -> tuple[tuple[Limits, ...], ...]:
        """The limits of running requests that a server is told at each load, for each drafter."""
        return tuple(one.told for one in self.outcomes)

    @property
    def played(self) -> tuple[PlayedLoads, ...]:
        """What clients see with each drafter, request by request; empty of a steady state."""
        return tuple(one.played for one in self.outcomes if one.played is not None)

    @cached_property
    def decisions(self) -> tuple[tuple[tuple[Choice, LoadDecision], ...], ...]:
        """What to do with each drafter at each context and load, loads innermost."""
        return tuple(tuple(choose(one)) for one in self.outcomes)

    @property
    def _chosen(self) -> list[list[int]]:
        """The draft lengths of each drafter, load by load; 0 where drafts are off."""
        return [[choice.draft_len for choice, _ in loads] for loads in self.decisions]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        workload, contexts = self.load.workload, self.load.context_len
        load = f"context {', '.join(map(plain_number, contexts))}"
        if len(contexts) > _MOST_TOLD:
            load = f"{len(contexts)} contexts"
        asked = load if workload is None else workload.requests
        return f"{self.served}; {asked}"

    @property
    def sureness(self) -> str:
        """How near measurements are, in one sentence."""
        kinds = list(dict.fromkeys(drafter.kind for drafter in self.drafters))
        return sure_of(self.deployment, kinds, self.rows, _BRIEF)

    @property
    def headline_curves(self) -> tuple[SpeedupCurve, ...]:
        """The curves of charts and summaries: end to end for requests, else of decoding."""
        return tuple(whole.curve for whole in self.end_to_end) or self.curves

    @property
    def drawn(self) -> tuple[SpeedupCurve, ...]:
        """The former name of `headline_curves`."""
        return self.headline_curves

    @property
    def counted(self) -> tuple[EndToEnd, ...]:
        """The former name of `end_to_end`."""
        return self.end_to_end

    @cached_property
    def load_arrays(self) -> tuple[tuple[dict[str, Any], dict[str, tuple[Array, Array]]], ...]:
        """What becomes of each load with each drafter: see `specroof.outcomes.rows`."""
        return tuple(load_arrays(one, self.load, self.money) for one in self.outcomes)

    @cached_property
    def survey(self) -> tuple[SpeedupCurve, ...]:
        """The curves at more batch sizes, which show where drafting does not pay.

        At those asked for alone, where more would be more points than memory holds.
        """
        contexts, batches = self.load.context_len, {*self.load.batch_size, *SURVEYED_BATCHES}
        lengths = (self.max_draft_len + 1) * len(self.drafters)
        if len(contexts) * len(batches) * lengths > MOST_POINTS:
            batches = {*self.load.batch_size}  # many contexts: all that is held was asked for
        load = Load(sorted(batches), contexts)
        return tuple(
            served_curve(
                self.deployment, drafter, load, self.room, max_draft_len=self.max_draft_len
            ).decoding
            for drafter in self.drafters
        )

    @property
    def servers(self) -> int:
        """Servers that decode: workers of a split, else one."""
        return 1 if self.split is None else self.split.decode_workers

    @property
    def devices(self) -> int:
        """Devices of all workers, or of the one server."""
        alone = self.setup.placement.devices
        return alone if self.split is None else self.split.devices(self.setup)

    def bands_line(self, batch_size: Sequence[float], *, can_play: bool = True) -> str:
        """Return the bands of TPOT, TTFT and throughput at these loads, or why there are none."""
        return served_bands_line(
            evidence_engine(self.deployment),
            batch_size,
            requests=self.load.workload is not None,
            played=bool(self.played),
            can_play=can_play and not self.played and self.split is None,
        )

    @property
    def room(self) -> RoomRule:
        """What becomes of requests beyond what the server has room for.

        They ``queue``, their points are ``drop``ped, or memory is ``ignore``d.
        """
        return self.about.room

    def text(self) -> str:
        """Return the decision, the loads with the best draft lengths, and how sure they are."""
        lengths, parts, more = self.draft_len, [self.table], list[str]()
        if self.played:
            is_asked = bool(lengths) or self.played[0].has_targets
            (parts if is_asked else more).append(played_tables(self.played, lengths, self._chosen))
        elif lengths:
            parts.append(lengths_table(self.headline_curves, lengths))
        if self.split is not None:
            best = [
                (drafter, i, int(whole.curve.best_draft_len[0, i]))
                for drafter, whole in enumerate(self.end_to_end)
                for i in range(len(self.load.batch_size))
            ]
            more += split_text(self, self.split, best)
        if shows_notes():
            more += [
                prefill_line(self.end_to_end[0]) if self.end_to_end else "",
                pays_lines(self.survey),
                self.bands_line(self.load.batch_size),
                source_lines(self.curves),
            ]
        return self.as_page(*parts, found=map(decision_line, self._rows_by_drafter), more=more)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return self.envelope(self.case, self.choice)

    @property
    def asked_load(self) -> Load:
        """The load as it was asked for; `load` of requests that come by themselves is what runs."""
        return self.played[0].load if self.played else self.load

    @property
    def case(self) -> dict[str, Any]:
        """What is served, where and for whom, as JSON has it."""
        contexts, batches = self.load.context_len, self.load.batch_size
        case = self.served_json(self.load.workload)
        curve = self.curves[0]
        loads = load_columns(self.asked_load, curve.batch_size)
        load: dict[str, Any] = listed_columns({"context_len": curve.context_len} | loads)
        if self.played:
            load |= load_json(self.asked_load)
        for whole in self.end_to_end[:1]:
            waits = {"wait_s": whole.wait_s, "request_latency_s": whole.latency_s}
            load |= {**waits, "steady": not self.played}
        known = ("drafter", "cost_from", "acceptance_from", "measured_draft_len")
        drafters, room = [fields_of(curve, *known) for curve in self.curves], None
        for drafter, limit in zip(drafters, self.limits, strict=False):
            held = {"largest_batch": limit.largest.astype(int), "bound_by": limit.bound_by}
            drafter.update(server=limit.drafting.server.to_dict(), **listed_columns(held))
            room = {"queues": self.room == "queue"}
            room |= {name: values[:, 0].tolist() for name, values in held.items()}
        kinds = [drafter.kind for drafter in self.drafters]
        return case | {
            "load": case["load"] | load,
            "room": room,
            "drafters": drafters,
            "reach": nearness(self.deployment, kinds, contexts, batches),
        }

    @property
    def choice(self) -> dict[str, Any]:
        """The best drafter of each context and load, and the batches that no draft pays at."""
        names = ("context_len", *LOAD_KEYS, "requests", "drafter", "draft_len", "decision")
        at_loads = zip(*self._rows_by_drafter, strict=True)
        best = records_of([max(rows, key=_gain) for rows in at_loads])
        lost = [
            {"drafter": curve.drafter, "context_len": context, "batch_size": runs}
            for curve in self.survey
            for context, runs in zip(curve.context_len.tolist(), losing_runs(curve), strict=True)
        ]
        loads = [{name: one for name, one in row.items() if name in names} for row in best]
        return {"loads": loads, "does_not_pay": lost}

    @property
    def grid(self) -> dict[str, Any]:
        """Every draft length of every load, as ``--grid`` prints it."""
        self.refuse_many(1, "JSON")
        curve, shape = self.curves[0], self.curves[0].round_s.shape
        loads = load_columns(self.asked_load, curve.batch_size)
        load = [*loads][-1]
        ticks = (
            fields_of(curve, "context_len") | {load: loads[load]} | fields_of(curve, "draft_len")
        )
        grids = [point_arrays(one, self.money) for one in self.outcomes]
        return {
            "dims": ["drafter", *ticks],
            "coords": {"drafter": [one.drafter for one in self.curves]} | listed_columns(ticks),
            "quantities": {
                name: [to_json_array(np.broadcast_to(grid[name], shape)) for grid in grids]
                for name in grids[0]
                if name not in {*ticks, "batch_size"} and all(name in grid for grid in grids)
            },
        }

    @property
    def summary(self) -> dict[str, str]:
        """The best speedup of each drafter, context and batch size, and its draft length."""
        return {
            f"{curve.drafter}: batch {plain_number(batch)}, context {plain_number(context)}": (
                f"{curve.best_speedup[i, b]:.2f}x with {format_drafts(int(curve.best_draft_len[i, b]))}"
            )
            for curve in self.headline_curves
            for i, context in enumerate(curve.context_len[:_SHOWN_POINTS])
            for b, batch in enumerate(curve.batch_size[:_SHOWN_POINTS])
        }

    @property
    def messages(self) -> dict[str, list[str]]:
        """Notes, those on prices last, and warnings as ``--json`` prints them."""
        chips, notes = [self.setup.hardware], [*self.notes]
        if self.split is not None and self.split.prefill.hardware != chips[0]:
            chips.append(self.split.prefill.hardware)
        for chip in chips:
            notes += price_notes(chip, usd_per_hour(chip, self.price_per_hour))
        return {"notes": notes, "warnings": list(self.warnings)}

    @property
    def money(self) -> Money:
        """What all devices cost and draw, as their hardware files say."""
        return money_of(self.setup, self.split, self.price_per_hour)

    @cached_property
    def rows(self) -> tuple[LoadRow, ...]:
        """What becomes of each load with each drafter, drafters outermost, contexts next.

        Raises
        ------
        OptionError
            For more rows than memory holds.
        """
        self.refuse_many(1, "")
        return tuple(
            LoadRow(model=self.model.name, hardware=self.setup.hardware.name, **fields)
            for one, arrays in zip(self.outcomes, self.load_arrays, strict=True)
            for fields in listed_fields(one, *arrays)
        )

    @property
    def _rows_by_drafter(self) -> list[tuple[LoadRow, ...]]:
        """The rows of each drafter."""
        each = len(self.rows) // len(self.outcomes)
        return [self.rows[at : at + each] for at in range(0, len(self.rows), each)]

    @property
    def table(self) -> str:
        """The rows for people, a table for each drafter; of one load, all drafters in one."""
        rows = self.rows
        each = len(rows) // len(self.outcomes)
        hidden = {"context_len"} if self.end_to_end else set()
        if self.played:  # the table of what clients see has loads without drafts, too
            hidden |= {one.name for one in (q.PLAIN_TPOT, q.PLAIN_TTFT, q.PLAIN_TOKENS_PER_S)}
        if all(row.near_best is None or len({*row.near_best}) == 1 for row in rows):
            hidden.add("near_best")
        if all(row.running == row.batch_size for row in rows):
            hidden.add("running")
        if all(row.draft_len == row.tried_draft_len for row in rows):
            hidden |= {*_TRIED}
        if not shows_notes():
            hidden |= {*_SHOWN} - {*_BRIEF}
        shown = [name for name in (*_SHOWN, *_TRIED) if name not in hidden]
        if each == len(rows) or each == 1:
            return rows_table(rows, [*shown, *["drafter"] * (len(rows) > each)])
        return "\n\n".join(
            f"{in_line(own[0].drafter)}\n{rows_table(own, shown)}" for own in self._rows_by_drafter
        )

    def point_columns(self) -> Iterator[Columns]:
        """Yield every point as columns, some rows at a time."""
        for one in self.outcomes:
            yield from point_columns(one, self.money)

    def to_csv(self, of: Of = "rows") -> str:
        """Return the rows as the CSV that ``--csv`` writes; "points" as ``--points`` does."""
        if of == "points":
            self.refuse_many(1, "CSV")
        return super().to_csv(of)

    def refuse_many(self, chips: int, form: str) -> None:
        """Refuse predictions for several chips that are more than memory holds.

        Of JSON and CSV those whose text would take gigabytes, which a sweep writes part by part.
        """
        shape, curves = self.curves[0].round_s.shape, len(self.curves) * chips
        weight = REQUEST_WEIGHT if self.end_to_end else 1
        if form:
            why = f" as {form}, which takes {TEXT_WEIGHT} times the memory of arrays"
            refuse_many_points(shape, curves=curves, weight=TEXT_WEIGHT * weight, why=why)
            return
        refuse_many_points(shape, curves=curves, weight=weight)
        refuse_many_points((*shape[:2], 1), curves=curves, weight=ROW_WEIGHT, why=" as rows")

    def figures(self) -> dict[str, Any]:
        """Return speedup against draft length, and what a grid of this shape can show besides.

        Of a load that was played through, the speedup by load, and what clients see.
        """
        charts = prediction_charts([self])
        if self.played:
            charts |= played_charts(self.played, self.title, self._chosen)
        return charts

    def figures_with(self, others: Sequence[Any]) -> dict[str, Any]:
        """Return charts that compare the same question on other chips."""
        charts = prediction_charts([self, *others])
        return {ending: chart for ending, chart in charts.items() if ending != "-map"}


def _gain(row: LoadRow) -> tuple[int, int]:
    """Return what drafters are compared by at a load: ties go to the shorter draft."""
    gain = row.tried_speedup
    if row.reason == "unsustained" and row.largest_stable_rate and row.plain_largest_stable_rate:
        gain = row.largest_stable_rate / row.plain_largest_stable_rate
    return round(max(np.nan_to_num(gain), 1.0) / TIE), -row.draft_len


def predicted(
    case: Case,
    drafters: Sequence[Drafter],
    *,
    max_draft_len: int | None = None,
    draft_lens: Sequence[int] = (),
    among: Sequence[Drafter] | None = None,
) -> Prediction:
    """Return the gains of drafters in a case.

    Parameters
    ----------
    case, drafters
        What is served, where, for whom, and what is compared.
    max_draft_len
        The longest draft; if None, 16 or the longest of `draft_lens`.
    draft_lens
        Lengths that are played whether they may be best or not.
    among
        All that these are compared with, here and elsewhere: some may draft further. These alone if
        None.

    Raises
    ------
    SpecroofError
        As `specroof.outcomes.outcomes.outcomes` does, and for more points than memory holds.
    """
    every = drafters if among is None else among
    shown = shared_max_draft_len(every, max(draft_lens), name="draft_len") if draft_lens else 0
    if max_draft_len is None and shown > DEFAULT_MAX_DRAFT_LEN:
        max_draft_len = shown
    longest = shared_max_draft_len(every, max_draft_len)
    deployment, load = case.deployment, case.load
    shape = len(load.context_len), len(load.batch_size), longest + 1
    heavier: dict[str, Any] = {"weight": REQUEST_WEIGHT, "why": " with prefills"}
    refuse_many_points(shape, curves=len(drafters), **heavier if load.workload else {})
    served = [
        outcomes(
            case,
            drafter,
            max_draft_len=longest,
            draft_lens=[length for length in draft_lens if length <= longest],
        )
        for drafter in drafters
    ]
    warnings = (warning for each in served for warning in each.warnings(case))
    said = [
        *absent_layers(deployment.model, drafters),
        *(note for each in served for note in each.raised_notes),
        *served[0].state_notes,
        *(note for each in served for note in each.decoding.notes),
        *(note for each in served for note in each.curve.measuring_notes),
    ]
    if max_draft_len is not None:
        depths = ((one.name, draft_depth(one, acceptance_of(one))) for one in drafters)
        said += [
            f"{name} drafts at most {depth:g}: longer drafts have no figures"
            for name, depth in depths
            if depth < longest
        ]
    if load.trace is not None and deployment.setup.user_settings.prefix_cache is False:
        said.append("prefix-cache=off: all prompts are computed whole, cached in the trace or not")
    if case.split is not None and deployment.setup.engine.bands:
        said.append("bands of speedups are wider: they include errors at loads of split workers")
    # Plain, the server assumes the same, less the drafter.
    said += [note for each in served if each.room for note in each.room.drafting.notes]
    return Prediction(
        case,
        tuple(drafters),
        max_draft_len=longest,
        outcomes=tuple(served),
        notes=tuple(dict.fromkeys(said)),
        warnings=tuple(dict.fromkeys(warnings)),
        question="predict",
    )


def shared_max_draft_len(
    drafters: Sequence[Drafter], max_draft_len: int | None, *, name: str = "max_draft_len"
) -> int:
    """Return the longest draft of a comparison, which some drafters may not reach.

    Parameters
    ----------
    drafters
        What is compared.
    max_draft_len
        The longest draft; None for the default.
    name
        How refusals call it.

    Raises
    ------
    OptionError
        If no drafter drafts that far.
    """
    if not drafters:
        reject("drafters is empty", "at least one drafter")
    accepted = [acceptance_of(drafter) for drafter in drafters]
    if max_draft_len is None:
        return DEFAULT_MAX_DRAFT_LEN
    depths = list(map(draft_depth, drafters, accepted))
    deepest = depths.index(max(depths))
    return longest_draft(drafters[deepest], accepted[deepest], max_draft_len, name=name)


@dataclass(frozen=True, kw_only=True)
class PredictRequest(LoadsRequest):
    """Ask what speculative decoding gains.

    Examples
    --------
    >>> from specroof import predict
    >>> found = predict("Qwen/Qwen3-8B", "b200", drafters="ideal", batch_size=[1, 8])
    >>> found.curves[0].speedup.shape
    (1, 2, 17)
    """

    drafters: p.Drafters = None
    max_draft_len: p.MaxDraftLen = None
    draft_len: Annotated[
        int | Sequence[int] | None,
        p.Parameter(
            "Drafts per round to show side by side, as in 1,2,3.",
            "--show-draft-len",
            read=whole_numbers,
            shown="none",
            former="--draft-len",
        ),
    ] = None
    ttft_s: Annotated[float | None, p.like(p.TtftS, in_python="Of played requests.")] = None
    tpot_s: Annotated[float | None, p.like(p.TpotS, in_python="Of played requests.")] = None
    price_per_hour: p.PricePerHour = None


@question(PredictRequest, on_chips=OnChips)
def predict(request: PredictRequest) -> Prediction:
    """Predict the speedup of speculative decoding and the best draft length."""
    load = asked_load(request, 1.0)
    lengths = lengths_of(request.draft_len)
    targets = list[float]()
    for name, seconds in (("ttft_s", request.ttft_s), ("tpot_s", request.tpot_s)):
        if seconds is not None and not request.is_played:
            reject(f"{name} is given where no requests are simulated", "with requests that are")
        targets.append(np.inf if seconds is None else number_within(name, seconds, "tpot_s"))
    case = asked_case(request, load, (*targets,))
    every, deployment = request.drafters_with_acceptance(request.drafters), case.deployment
    drafters, left_out = request.without_unserved(every)
    found = predicted(case, drafters, max_draft_len=request.max_draft_len, draft_lens=lengths)
    warnings = (*left_out, *found.warnings)
    usd_per_hour(deployment.setup.hardware, request.price_per_hour)  # refuses what none can be
    given = request.price_per_hour
    return replace(found, draft_len=lengths, warnings=warnings, price_per_hour=given)


def lengths_of(draft_len: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return draft lengths that are named, in order; none where there are none.

    Raises
    ------
    OptionError
        For anything but whole numbers of drafts from 1.

    Examples
    --------
    >>> lengths_of([3, 1, 3]), lengths_of(2), lengths_of(None)
    ((1, 3), (2,), ())
    """
    if draft_len is None:
        return ()
    lengths = sorted(
        {whole_within("draft_len", drafts, "draft_len") for drafts in as_list(draft_len)}
    )
    if not lengths or lengths[0] == 0:
        refuse("draft_len", draft_len, "at least one number of drafts from 1")
    return tuple(lengths)


# --- A prediction as a table ----------------------------------------------------------------------


#: Columns of the table for people.
_SHOWN: Final = (
    *("context_len", "rate", "concurrency", "batch_size", "draft_len", "speedup", "speedup_band"),
    *("decision", "near_best", "tokens_per_round", "tpot_s", "ttft_s", q.TOKENS_PER_S.name),
    *("requests_per_s", q.PRICE.name, q.ENERGY.name, "running", "plain_tpot_s", "plain_ttft_s"),
    *(q.PLAIN_TOKENS_PER_S.name, q.PLAIN_PRICE.name),
)
#: Those that it has without the notes.
_BRIEF: Final = (
    *("context_len", "rate", "concurrency", "batch_size", "draft_len", "speedup", "speedup_band"),
    *("decision", "tpot_s", "ttft_s", q.TOKENS_PER_S.name, q.PRICE.name),
)
#: What it has besides where drafts are off.
_TRIED: Final = ("tried_draft_len", "tried_speedup", "tried_speedup_band")


# --- What the notes hold besides ------------------------------------------------------------------

#: Figures with bands, and their titles: of requests, and of decoding alone.
_TPOT, _RATE = q.TPOT.name, q.TOKENS_PER_S.name
_REQUESTS: Final = {_TPOT: "TPOT", q.TTFT.name: "TTFT", _RATE: "tokens/s and prices"}
_STEPS: Final = {_TPOT: "steps, tokens/s and prices"}


def pays_lines(curves: Sequence[SpeedupCurve]) -> str:
    """Return, per drafter, the batch sizes of its grid at which speculation pays, a line each."""
    batches = curves[0].batch_size
    contexts = len(curves[0].context_len) > 1
    lines = [f"batches of {batches[0]:g} to {batches[-1]:g} at which drafts pay:"]
    for curve in curves:
        runs = losing_runs(curve)
        axes = curve.context_len, runs, curve.drafts_run, curve.acceptance_unknown
        for context, lost, room, unknown in zip(*axes, strict=True):
            full = [f"from {plain_number(batch)} on no draft fits" for batch in batches[~room][:1]]
            spans = ("-".join(dict.fromkeys([f"{first:g}", f"{last:g}"])) for first, last in lost)
            pays = f"all but {', '.join(spans)}" if lost else "all" + " that fit" * len(full)
            if unknown.all():
                pays, full = ACCEPTANCE_UNKNOWN, []
            elif not room.any():
                pays, full = "none, since no draft fits", []
            at = f" at context {plain_number(context)}" if contexts else ""
            lines.append(f"  {in_line(curve.drafter)}{at}: {'; '.join([pays, *full])}")
    return "\n".join(lines)


def losing_runs(curve: SpeedupCurve) -> list[list[tuple[float, float]]]:
    """Return, per context, the runs of ascending batch sizes whose best draft length is 0."""
    # Where no draft has room, or no acceptance is known, nothing is known of what it would gain.
    known = curve.drafts_run & ~curve.acceptance_unknown
    found = list[list[tuple[float, float]]]()
    for lost in known & (curve.best_draft_len == 0):
        steps = np.diff(lost, prepend=False, append=False).nonzero()[0]
        ends = zip(curve.batch_size[steps[::2]], curve.batch_size[steps[1::2] - 1], strict=True)
        found.append([(float(first), float(last)) for first, last in ends])
    return found


def lengths_table(curves: Sequence[SpeedupCurve], lengths: Sequence[int]) -> str:
    """Return the speedups of some draft lengths side by side, a row for each drafter and load.

    Parameters
    ----------
    curves
        One for each drafter, on one grid.
    lengths
        Drafts per round.
    """
    rows = [
        [
            plain_number(context),
            plain_number(batch),
            *(
                figure(
                    curve.speedup[i, b, k] if k < len(curve.draft_len) else None, "{:.2f}x".format
                )
                for k in lengths
            ),
            curve.drafter,
        ]
        for curve in curves
        for i, context in enumerate(curve.context_len)
        for b, batch in enumerate(curve.batch_size)
    ]
    header = ["context", "batch", *(f"γ={k}" for k in lengths), "drafter"]
    return format_table(header, rows, left=[len(header) - 1])


def prefill_line(whole: EndToEnd) -> str:
    """Return the server's way with prompts, in words."""
    alone, rules = format_seconds(whole.wait_s), whole.rules
    if whole.workers is not None:
        how = f"on workers of their own; a prompt alone takes {alone} with its transfer"
        return f"prefills counted, {whole.workload.requests}: {how}"
    chunk = f" of {rules.chunk:g} tokens" if rules.chunk else ""
    if rules.shares_passes:
        drafts = "" if rules.drafts_beside else ", which then drafts nothing"
        how = f"passes{chunk} shared with decoding{drafts}; a prompt alone takes {alone}"
    else:
        how = f"passes{chunk} that stop the batch; a prompt alone takes {alone}"
    if whole.latency_s:
        how += f", and each request loses {format_seconds(whole.latency_s)}"
    return f"prefills counted, {whole.workload.requests}: {how}"


def served_bands_line(
    engine: EngineProfile,
    batch_size: npt.ArrayLike,
    *,
    requests: bool,
    played: bool = False,
    can_play: bool = False,
) -> str:
    """Return the bands of TPOT, TTFT and throughput in one line, or why there are none.

    Nothing of the ideal engine, which is no server. Over several batch sizes, the widest. Where the
    question `can_play` requests through, the flag for it follows.
    """
    if engine.rules == "ideal":
        return ""
    ranges = sorted({*np.searchsorted(CONCURRENCY_ENDS, np.atleast_1d(batch_size)).tolist()})
    shown = []
    figures = _REQUESTS if requests else _STEPS
    for name, title in figures.items():
        bands = engine.served_bands
        cells = served_cells(bands, played_figure(bands, name) if played or not requests else name)
        known = [band for place in ranges if (band := cells[place]) is not None]
        if len(known) == len(ranges):
            band = max(known, key=lambda cell: cell.width)
            low, high = np.expm1(-band.width), np.expm1(band.width)
            span = f"{low:+.0%} to {high:+.0%}" if is_useful(1 + low, 1 + high) else NOT_USEFUL
            counted = counted_engines(band, engine)
            shown.append(f"{title} {span}, from {band.points} measured loads{counted}")
    if not shown:
        titles = ", ".join(figures.values())
        return f"{titles} have no band: no load was measured on engine {engine.name} here"
    besides = "TPOT, tokens/s and prices" if requests else "steps"
    line = (
        f"80% bands without drafts: {'; '.join(shown)}; with drafts, the band of the speedup widens "
        f"those of {besides}"
    )
    if can_play and len(shown) > 1:
        line += (
            ". The first token takes longer where clients start together, as in benchmarks: leave "
            "out --steady to play them through"
        )
    return line


def source_lines(curves: Sequence[SpeedupCurve]) -> str:
    """Return, per drafter, where its cost and its acceptance come from."""
    return "\n".join(
        in_line(
            f"{curve.drafter}: cost from {_brief(curve.cost_from) or 'the drafter'}; "
            f"acceptance: {_brief(curve.acceptance_from) or 'as given'}"
        )
        for curve in curves
    )


def _brief(source: str) -> str:
    """Return a source up to its colon, unless all of it is asked for."""
    return brief(Note(source, short=source.partition(": ")[0]))


# --- The charts -----------------------------------------------------------------------------------


#: Measured speedups are drawn where tokens per round differ by at most this share.
_SAME_ACCEPTANCE: Final = 0.15


def prediction_charts(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return speedup against draft length, and what a grid of this shape can show besides.

    Of loads that were played through, the speedup by load.
    """
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    if predictions[0].played:
        return {"": loads_chart(predictions)}
    pairs = [(one, one.headline_curves) for one in predictions]
    return plot.speedup_figures(
        [curve for _, curves in pairs for curve in curves],
        measured=[point for pair in pairs for point in measured_near(*pair)],
    )


#: Speedups by load, with their bands.
SPEEDUPS: Final = q.Lines(
    LOAD_KEYS,
    ("speedup",),
    by=("hardware", "engine", "devices"),
    noted="draft_len",
    titles={"speedup": "Speedup over plain decoding,\nprefills counted in both (×)"},
)


def loads_chart(predictions: Sequence[Prediction]) -> Any:
    """Return speedups by simulated load, of each drafter on each chip."""
    first, *others = predictions
    rows = [row for one in predictions for row in one.rows]
    if others:  # beside several chips nobody could tell whose stars they are
        asked = first.title.removeprefix(f"{first.served}; ")
        title = f"{first.model.name} on {labelled('devices', first.devices)} of each; {asked}"
        return first.rows_chart(replace(SPEEDUPS, by=("hardware", "drafter")), rows, title)
    near = [*measured_near(first, first.headline_curves)]
    return first.rows_chart(replace(SPEEDUPS, by=("drafter",)), rows, measured=near)


def measured_near(
    prediction: Prediction, curves: Sequence[SpeedupCurve]
) -> Iterator[tuple[float, int, float, bool]]:
    """Yield measured speedups of the same set-up, for charts.

    Those whose tokens per round are known must be near those of a curve.

    Parameters
    ----------
    prediction
        Model, server and devices.
    curves
        Of the drafters that are drawn.

    Yields
    ------
    tuple
        Batch size, draft length, speedup, and whether tokens per round are known.
    """
    from specroof.evidence import measured_speedups  # noqa: PLC0415 - for charts only
    from specroof.evidence.measurement import chip_of  # noqa: PLC0415

    setup = prediction.setup
    if prediction.about.load.kind != "concurrency":  # measured were requests in flight
        return
    asked = prediction.model.name, setup.engine.name, setup.placement.devices
    chip = setup.hardware.name
    for point, speedup in measured_speedups():
        drafts, batch = point.draft_len, point.batch_size or point.concurrency
        measured = str(point.model).rpartition("/")[2], point.engine, point.tensor_parallel
        if not (drafts and batch) or measured != asked or chip_of(str(point.hardware)).name != chip:
            continue
        for curve in curves:
            tokens = curve.tokens_per_round[..., drafts : drafts + 1]
            known = point.tokens_per_round
            near = known is None or (abs(tokens / known - 1) <= _SAME_ACCEPTANCE).any()
            if near and curve.drafter.partition(",")[0] == point.method:
                yield batch, drafts, speedup, known is not None


COMMAND: Final = Command(
    question=predict,
    options=(*p.FORMULAS, "cost_of"),
    points=True,
    grid=True,
    chart="Draw speedup against draft length. Several batch sizes add best speedup against batch "
    "size (NAME-by-batch), several contexts a map (NAME-map), several chips a chart of each "
    "(NAME-CHIP). With --input-len, speedups count prefills. Of simulated requests: what users see.",
    example="specroof predict deepseek-ai/DeepSeek-V4-Pro -H b200 --tp 8 --batch 1,32\n"
    "--drafter ideal --drafter autoregressive,accept=0.75,cost=0.10\n"
    "--drafter block,accept=0.89,cost=0.10,drafts=16",
)
