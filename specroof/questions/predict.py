"""How much faster does a drafter make decoding, at which draft length, at which load?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np

from specroof.architecture import Architecture
from specroof.arrays import Array, number_within, to_json_array, whole_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, refuse
from specroof.latency import Deployment, Setup
from specroof.outcomes.choose import choose, decided
from specroof.outcomes.outcomes import Outcomes, outcomes
from specroof.outcomes.rows import LoadRow, load_fields
from specroof.parsers.model_config import DSPARK_NOTE, MTP_NOTE
from specroof.policies.decision import Choice, Decisions, LoadDecision
from specroof.questions.answer import Charted, Of, title_of
from specroof.questions.curve_tables import (
    counted_table,
    curve_columns,
    curves_json,
    curves_table,
    lengths_table,
    pays_lines,
    refuse_long_texts,
    served_bands_line,
    source_lines,
    survey_json,
)
from specroof.questions.played_loads import (
    beyond_warnings,
    load_json,
    load_names,
    played_charts,
    played_columns,
    played_json,
    played_load,
    played_tables,
    told,
    unsustained_words,
)
from specroof.questions.request import (
    BATCH,
    CONCURRENCY,
    CONTEXT,
    FORMULAS,
    TPOT,
    TTFT,
    Command,
    Drafters,
    MemoryLimits,
    Parameter,
    PlayedRequest,
    PricePerHour,
    Prices,
    Values,
    WorkerRequest,
    as_list,
    drafters_of,
    in_flight_of,
    load_of,
    money_of,
    price_notes,
    question,
    usd_per_hour,
    whole_numbers,
)
from specroof.report.columns import Columns
from specroof.report.layout import figure, format_table, in_line, note_lines
from specroof.serving.capacity import RoomRule, ServerRoom
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.played import PlayedLoads
from specroof.serving.served import Limits, raised_notes, room_rule, served_curve
from specroof.serving.workload import Load
from specroof.speedup.curve import (
    DEFAULT_MAX_DRAFT_LEN,
    REQUEST_WEIGHT,
    acceptance_of,
    draft_depth,
    longest_draft,
    refuse_many_points,
)
from specroof.speedup.price import Money
from specroof.speedup.reach import evidence_engine, nearness
from specroof.speedup.result import SpeedupCurve
from specroof.units import MILLION, MOST_POINTS, format_drafts, format_price

if TYPE_CHECKING:
    from specroof.serving.split import Split

# --- The gains of drafters in a setup that exists: curves, end to end, within a server's room ----

#: Batch sizes at which `Prediction.survey` looks, besides those asked for.
SURVEYED_BATCHES: Final = tuple(2.0**power for power in range(11))


@dataclass(frozen=True, repr=False, eq=False)
class Prediction(Charted):
    """What speculative decoding gains.

    Attributes
    ----------
    model, setup, drafters, load
        What was asked about.
    max_draft_len
        The longest draft of the grid.
    outcomes
        What each drafter gains.
    notes, warnings
        Sentences for the reader.
    room
        What becomes of requests beyond it: they ``queue``, their points are ``drop``ped, or memory
        is ``ignore``d.
    draft_len
        The lengths whose speedups are shown side by side.
    split
        Workers of prefill and of decoding, the setup being that of a decode worker; None where one
        server does both.
    price_per_hour
        Of a device; None for that of the hardware file.
    """

    model: Architecture
    setup: Setup
    drafters: tuple[Drafter, ...]
    load: Load
    max_draft_len: int
    outcomes: tuple[Outcomes, ...]
    room: RoomRule = "ignore"
    draft_len: tuple[int, ...] = ()
    split: "Split | None" = None
    price_per_hour: Prices | None = None

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
    def decided(self) -> tuple[Decisions, ...]:
        """What to do with each drafter, as arrays over contexts and loads."""
        return tuple(map(decided, self.outcomes))

    @cached_property
    def decisions(self) -> tuple[tuple[tuple[Choice, LoadDecision], ...], ...]:
        """What to do with each drafter at each context and load, loads innermost."""
        return tuple(tuple(choose(one)) for one in self.outcomes)

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        names = ", ".join(curve.drafter for curve in self.curves)
        return f"{title_of(self.model, self.setup)}: {names}"

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
    def survey(self) -> tuple[SpeedupCurve, ...]:
        """The curves at more batch sizes, which show where drafting does not pay.

        At those asked for alone, where more would be more points than memory holds.
        """
        contexts, batches = (
            self.load.context_len,
            sorted({*self.load.batch_size, *SURVEYED_BATCHES}),
        )
        if (
            len(contexts) * len(batches) * (self.max_draft_len + 1) * len(self.drafters)
            > MOST_POINTS
        ):
            batches = sorted(
                {*self.load.batch_size}
            )  # many contexts: all that is held was asked for
        load = Load(batches, contexts)
        return tuple(
            served_curve(
                self.deployment, drafter, load, self.room, max_draft_len=self.max_draft_len
            ).decoding
            for drafter in self.drafters
        )

    @property
    def deployment(self) -> Deployment:
        """What is served, and where."""
        return Deployment(self.model, self.setup)

    @property
    def servers(self) -> int:
        """Servers that decode: workers of a split, else one."""
        return 1 if self.split is None else self.split.decode_workers

    @property
    def devices(self) -> int:
        """Devices of all workers, or of the one server."""
        return (
            self.setup.placement.devices if self.split is None else self.split.devices(self.setup)
        )

    @property
    def queues(self) -> bool:
        """Whether requests beyond the server's room wait."""
        return self.room == "queue"

    def text(self) -> str:
        """Return the loads where drafting does not pay, best draft lengths, prices and notes."""
        return prediction_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return prediction_json(self)

    @property
    def summary(self) -> dict[str, str]:
        """The best speedup of each drafter, context and batch size, and its draft length."""
        return {
            f"{curve.drafter}: {load}": best
            for curve in self.headline_curves
            for load, best in curve.summary.items()
        }

    @property
    def messages(self) -> dict[str, list[str]]:
        """Notes, those on prices last, and warnings as ``--json`` prints them."""
        hardware = self.setup.hardware
        notes = [*self.notes, *price_notes(hardware, usd_per_hour(hardware, self.price_per_hour))]
        if self.split is not None and self.split.prefill.hardware != hardware:
            other = self.split.prefill.hardware
            notes += price_notes(other, usd_per_hour(other, self.price_per_hour))
        return {"notes": notes, "warnings": list(self.warnings)}

    @property
    def money(self) -> Money:
        """What all devices cost and draw, as their hardware files say."""
        return money_of(self.setup, self.split, self.price_per_hour)

    @cached_property
    def rows(self) -> tuple[LoadRow, ...]:
        """What becomes of each load with each drafter, drafters outermost, contexts next."""
        return tuple(
            LoadRow(model=self.model.name, hardware=self.setup.hardware.name, **fields)
            for one in self.outcomes
            for fields in load_fields(one, self.load, self.money)
        )

    def point_columns(self) -> Iterator[Columns]:
        """Yield every point as columns, some rows at a time, those of prices last."""
        # Of played loads one context, and so one table for each drafter.
        played = map(played_columns, self.played)
        for columns in curve_columns(self.curves, self.end_to_end):
            columns.update(next(played, {}))
            if self.end_to_end:
                rates = columns["end_to_end_tokens_per_s"]
                columns["steady"] = np.full(rates.shape, not self.played)
            for start in ("", "end_to_end_")[: 1 + bool(self.end_to_end)]:
                rates = columns["played_tokens_per_s" if self.played else f"{start}tokens_per_s"]
                for name, values in self.money.of(rates).items():
                    missing = np.full(rates.shape, np.nan)
                    columns[f"{start}{name}"] = missing if values is None else values
            yield columns

    def to_csv(self, of: Of = "rows") -> str:
        """Return the rows as the CSV that ``--csv`` writes; "points" as ``--points`` does."""
        if of == "points":
            refuse_long_texts(self.curves, self.end_to_end, "CSV")
        return super().to_csv(of)

    def figures(self) -> dict[str, Any]:
        """Return speedup against draft length, and what a grid of this shape can show besides.

        Of a load that was played through, what clients see.
        """
        if self.played:
            return played_charts(self.played, title_of(self.model, self.setup))
        return prediction_charts(self)


def predicted(  # noqa: PLR0913 - what is served, to whom, within what
    deployment: Deployment,
    drafters: Sequence[Drafter],
    load: Load,
    *,
    max_draft_len: int | None = None,
    room: RoomRule = "ignore",
    split: "Split | None" = None,
    raises: bool = True,
    targets: tuple[float, ...] = (np.inf, np.inf),
    draft_lens: Sequence[int] = (),
) -> Prediction:
    """Return the gains of drafters in a setup that exists already.

    Parameters
    ----------
    deployment, drafters, load
        What is served where, what is compared, and under which load.
    max_draft_len
        The longest draft; 16 if None.
    room
        What becomes of requests that the server has no memory for.
    split
        Workers of prefill and of decoding; the setup is then of one decode worker.
    raises
        Whether default limits of running requests are raised, as `served_curve` does.
    targets
        Of the goodput of played requests: seconds to a first token, and of each later one.
    draft_lens
        Lengths that are played whether they may be best or not.

    Raises
    ------
    SpecroofError
        As `specroof.serving.served.served_curve` does, and for more points than memory holds.
    """
    longest, capped = shared_max_draft_len(drafters, max_draft_len)
    return predicted_to(
        longest,
        deployment,
        drafters,
        load,
        room=room,
        notes=capped,
        split=split,
        raises=raises,
        targets=targets,
        draft_lens=draft_lens,
    )


def predicted_to(  # noqa: PLR0913 - what is served, to whom, within what
    max_draft_len: int,
    deployment: Deployment,
    drafters: Sequence[Drafter],
    load: Load,
    *,
    room: RoomRule = "ignore",
    notes: Sequence[str] = (),
    split: "Split | None" = None,
    raises: bool = True,
    targets: tuple[float, ...] = (np.inf, np.inf),
    draft_lens: Sequence[int] = (),
) -> Prediction:
    """Return the gains of drafters up to a draft length that some may not reach.

    Parameters
    ----------
    max_draft_len
        The longest draft of the grid: see `shared_max_draft_len`.
    deployment, drafters, load
        What is served where, what is compared, and under which load.
    room
        What becomes of requests that the server has no memory for.
    notes
        Sentences for the reader besides those on the curves.
    split
        Workers of prefill and of decoding; None where one server does both.
    raises
        Whether default limits of running requests are raised, as `served_curve` does.
    targets
        Of the goodput of played requests: seconds to a first token, and of each later one.
    draft_lens
        Lengths that are played whether they may be best or not.

    Raises
    ------
    SpecroofError
        As `specroof.serving.served.served_curve` does, and for more points than memory holds,
        over all drafters.
    """
    shape = len(load.context_len), len(load.batch_size), max_draft_len + 1
    heavier: dict[str, Any] = {"weight": REQUEST_WEIGHT, "why": " with prefills"}
    refuse_many_points(shape, curves=len(drafters), **heavier if load.workload else {})
    served = [
        outcomes(
            deployment,
            drafter,
            load,
            room,
            max_draft_len=max_draft_len,
            split=split,
            raises=raises,
            targets=targets,
            draft_lens=[length for length in draft_lens if length <= max_draft_len],
        )
        for drafter in drafters
    ]
    played = tuple(each.played for each in served if each.played is not None)
    curves, rooms = [each.decoding for each in served], [each.room for each in served if each.room]
    beyond = "the rest wait" if room == "queue" else "larger batches have no room"
    workers = 1 if split is None else split.decode_workers
    warnings = dict.fromkeys(
        warning
        for curve, held in zip(curves, rooms, strict=False)
        for warning in held.warnings(replace(curve, batch_size=curve.batch_size / workers), beyond)
    )
    # Plain, the server assumes the same, less the drafter.
    assumed = (note for held in rooms for note in held.drafting.notes)
    longer = (note for each in served for note in each.curve.measuring_notes)
    of_curves = (note for curve in curves for note in curve.notes)
    if split is not None and deployment.setup.engine.bands:
        notes = (
            *notes,
            "bands of speedups are wider by what drafted loads of such workers were off",
        )
    raised = [note for each in served for note in raised_notes(each, load.batch_size)]
    if played:
        load = replace(load.steady, batch_size=curves[0].batch_size.tolist())
    return Prediction(
        model=deployment.model,
        setup=deployment.setup,
        drafters=tuple(drafters),
        load=load,
        max_draft_len=max_draft_len,
        outcomes=tuple(served),
        notes=tuple(
            dict.fromkeys([*raised, *served[0].state_notes, *of_curves, *longer, *notes, *assumed])
        ),
        warnings=tuple(dict.fromkeys([*beyond_warnings(played), *warnings])),
        room=room,
        split=split,
    )


def shared_max_draft_len(
    drafters: Sequence[Drafter], max_draft_len: int | None
) -> tuple[int, list[str]]:
    """Return the longest draft of a comparison, and a note for each drafter that ends before it.

    Parameters
    ----------
    drafters
        What is compared.
    max_draft_len
        The longest draft; None for the default.

    Raises
    ------
    OptionError
        If no drafter drafts that far.
    """
    if not drafters:
        message = "drafters is empty; allowed: at least one drafter"
        raise OptionError(message)
    accepted = [acceptance_of(drafter) for drafter in drafters]
    if max_draft_len is None:
        return DEFAULT_MAX_DRAFT_LEN, []
    depths = list(map(draft_depth, drafters, accepted))
    deepest = depths.index(max(depths))
    longest = longest_draft(drafters[deepest], accepted[deepest], max_draft_len)
    return longest, [
        f"{drafter.name} drafts at most {depth:g}: longer drafts have no figures"
        for drafter, depth in zip(drafters, depths, strict=True)
        if depth < longest and not math.isinf(depth)
    ]


@dataclass(frozen=True, kw_only=True)
class PredictRequest(WorkerRequest, PlayedRequest):
    """Ask what speculative decoding gains.

    Examples
    --------
    >>> from specroof import predict
    >>> found = predict("Qwen/Qwen3-8B", "b200", drafters="ideal", batch_size=[1, 8])
    >>> found.curves[0].speedup.shape
    (1, 2, 17)
    """

    drafters: Drafters
    batch_size: Annotated[Values | None, replace(BATCH, shown="1")] = None
    context_len: Annotated[Values | None, CONTEXT] = None
    concurrency: Annotated[Values | None, CONCURRENCY] = None
    max_draft_len: Annotated[
        int | None,
        Parameter(
            "Longest draft tried.",
            in_python="A drafter with a smaller maximum is shown up to that maximum.",
            shown=str(DEFAULT_MAX_DRAFT_LEN),
        ),
    ] = None
    draft_len: Annotated[
        int | Sequence[int] | None,
        Parameter(
            "Drafts per round to show side by side, as in 1,2,3.",
            "--show-draft-len",
            read=whole_numbers,
            shown="none",
            former="--draft-len",
        ),
    ] = None
    ttft_s: Annotated[float | None, replace(TTFT, in_python="Of played requests.")] = None
    tpot_s: Annotated[float | None, replace(TPOT, in_python="Of played requests.")] = None
    price_per_hour: PricePerHour = None
    capacity: MemoryLimits = None


@question(PredictRequest)
def predict(request: PredictRequest) -> Prediction:
    """Predict the speedup of speculative decoding and the best draft length."""
    load = load_of(request, in_flight_of(request, 1.0), request.context_len)
    lengths = lengths_of(request.draft_len)
    most = request.max_draft_len
    if most is None and lengths and lengths[-1] > DEFAULT_MAX_DRAFT_LEN:
        most = lengths[-1]
    deployment, split = request.resolved_workers()
    drafters = drafters_of(request.drafters)
    waits = request.is_played or request.concurrency is not None or load.workload is not None
    room = room_rule(deployment.setup, request.capacity, "queue" if waits else "drop")
    for name in () if request.is_played else ("ttft_s", "tpot_s"):
        if getattr(request, name) is not None:
            refuse(name, getattr(request, name), "with requests that are played through")
    targets = [
        np.inf if value is None else number_within(name, value, "tpot_s")
        for name, value in (("ttft_s", request.ttft_s), ("tpot_s", request.tpot_s))
    ]
    found = predicted(
        deployment,
        drafters,
        played_load(request, load) if request.is_played else load,
        max_draft_len=most,
        room=room,
        split=split,
        targets=(*targets,),
        draft_lens=lengths,
    )
    warnings = (*found.warnings, *absent_layers(deployment.model, drafters))
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


def absent_layers(model: Architecture, drafters: Sequence[Drafter]) -> list[str]:
    """Return a warning where mtp drafts for a model whose config names no such layers."""
    if {MTP_NOTE, DSPARK_NOTE} & {*model.notes}:
        return []
    return [
        f"{drafter.name}: the config of {model.name} names no multi-token-prediction layers; the "
        f"usual ones are priced, and a server has none to load"
        for drafter in drafters
        if drafter.kind == "mtp" and ",config=" not in drafter.name
    ]


# --- A prediction as JSON and as tables -----------------------------------------------------------


def prediction_json(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction as the object that ``--json`` prints."""
    printed = curves_json(prediction.curves, prediction.end_to_end)
    server = prediction.setup.server
    printed |= {
        **prediction.messages,
        "steady": bool(prediction.end_to_end) and not prediction.played,
        "reach": nearness(
            prediction.deployment,
            [drafter.kind for drafter in prediction.drafters],
            prediction.load.context_len,
            prediction.load.batch_size,
        ),
        "server": None if server is None else server.to_dict(),
        "survey": survey_json(prediction.survey),
        "capacity": None,
    }
    if prediction.split is not None:
        from specroof.questions.splits import split_json  # noqa: PLC0415 - asked for seldom

        printed["split"] = split_json(prediction.setup, prediction.split)
    if prediction.limits:
        printed["capacity"] = {
            "queues": prediction.queues,
            "largest_batch": prediction.limits[0].largest[:, 0].astype(int).tolist(),
            "bound_by": prediction.limits[0].bound_by[:, 0].tolist(),
        }
    for drafter, chosen in zip(printed["drafters"], prediction.decisions, strict=True):
        shape = len(prediction.load.context_len), -1
        drafter["decision"] = np.reshape([decision for _, decision in chosen], shape).tolist()
        reasons = np.array([choice.reason or None for choice, _ in chosen], dtype=object)
        drafter["reason"] = reasons.reshape(shape).tolist()
    for drafter, limit in zip(printed["drafters"], prediction.limits, strict=False):
        drafter["server"] = limit.drafting.server.to_dict()
        drafter["capacity"] = {
            "largest_batch": limit.largest.astype(int).tolist(),
            "bound_by": limit.bound_by.tolist(),
        }
    for drafter, curve in zip(printed["drafters"], prediction.curves, strict=True):
        drafter.update(_prices_json(prediction, curve.tokens_per_s, curve.rate_ends))
    for drafter, whole in zip(printed["drafters"], prediction.end_to_end, strict=False):
        ends = whole.figure_ends["tokens_per_s"]
        drafter["end_to_end"].update(_prices_json(prediction, whole.tokens_per_s, ends))
    for drafter, one in zip(printed["drafters"], prediction.played, strict=False):
        prices = _prices_json(prediction, one.figures["tokens_per_s"][None], None)
        drafter.update(prices)
        drafter["end_to_end"].update(prices)
    if prediction.played:
        printed["load"] = load_json(prediction.played[0].load)
        printed["baseline"]["played"] = played_json(prediction.played[0], 0)
        for drafter, one in zip(printed["drafters"], prediction.played, strict=True):
            drafter["played"] = seen = played_json(one)
            if one.unsustained.any():  # where the lengths are those of the largest rates
                same = ("best_draft_len", "best_speedup")
                drafter["end_to_end"].update({name: seen[name] for name in same})
    printed["rows"] = prediction.records
    return printed


def _prices_json(
    prediction: Prediction, tokens_per_s: Array, ends: tuple[Array, Array] | None
) -> dict[str, Any]:
    """Return price and energy at each point, with bands; null where nothing is known."""
    # Of a price the faster end is the lower one, of what is better for more the slower one.
    either = [prediction.money.of(end) for end in ends or (np.nan, np.nan)]
    both = {
        name: None if slow is None else np.sort([slow, either[1][name]], axis=0)
        for name, slow in either[0].items()
    }
    priced = {
        "": prediction.money.of(tokens_per_s),
        "_low": {name: None if value is None else value[0] for name, value in both.items()},
        "_high": {name: None if value is None else value[1] for name, value in both.items()},
    }
    return {
        f"{name}{side}": None
        if values is None or (side and ends is None)
        else to_json_array(values)
        for side, prices in priced.items()
        for name, values in prices.items()
    }


def refuse_many_predictions(first: Prediction, chips: int, form: str) -> None:
    """Refuse predictions for several chips that are more than memory holds.

    Parameters
    ----------
    first
        The prediction for one of the chips.
    chips
        How many there are.
    form
        ``"JSON"`` or ``"CSV"`` where their text is wanted; ``""`` for the predictions themselves.

    Raises
    ------
    OptionError
        For more points than memory holds over all chips.
    """
    if form:
        refuse_long_texts(first.curves * chips, first.end_to_end, form)
        return
    refuse_many_points(
        first.curves[0].round_s.shape,
        curves=len(first.curves) * chips,
        weight=REQUEST_WEIGHT if first.end_to_end else 1,
    )


def prediction_text(prediction: Prediction) -> str:
    """Return the loads where drafting does not pay, best draft lengths, sources and sentences."""
    curves, lengths = prediction.headline_curves, prediction.draft_len
    if prediction.played:
        tables = [played_tables(prediction.played, lengths)]
    else:
        tables = [
            curves_table(prediction.curves),
            counted_table(prediction.curves, prediction.end_to_end)
            if prediction.end_to_end
            else "",
            lengths_table(curves, lengths) if lengths else "",
            _prices_table(prediction),
        ]
    if prediction.split is not None:
        from specroof.questions.splits import split_text  # noqa: PLC0415 - asked for seldom

        best = [
            (drafter, i, int(whole.curve.best_draft_len[0, i]))
            for drafter, whole in enumerate(prediction.end_to_end)
            for i in range(len(prediction.load.batch_size))
        ]
        tables += split_text(prediction, prediction.split, best)
    parts = [
        in_line(title_of(prediction.model, prediction.setup))
        + (", each decode worker" if prediction.split else ""),
        "\n".join(_decision_lines(prediction)),
        pays_lines(prediction.survey),
        note_lines(prediction.warnings),
        *tables,
        served_bands_line(
            evidence_engine(prediction.deployment),
            prediction.load.batch_size,
            requests=prediction.load.workload is not None,
            played=bool(prediction.played),
            can_play=not prediction.played and prediction.split is None,
        ),
        source_lines(prediction.curves),
        note_lines(prediction.messages["notes"]),
    ]
    return "\n\n".join(filter(None, parts))


#: Loads whose decisions are told in a line.
_MOST_TOLD: Final = 12


def _decision_lines(prediction: Prediction) -> Iterator[str]:
    """Yield the decision for each drafter: of one load with its band, of several by load."""
    loads = [f"{load:g}" for load in prediction.load.batch_size]
    if prediction.played and not prediction.played[0].sums_work:
        loads = [f"{name}/s" for name in load_names(prediction.played[0].load)]
    if len(prediction.load.context_len) > 1 or len(loads) > _MOST_TOLD:
        return
    for one, chosen in zip(prediction.outcomes, prediction.decisions, strict=True):
        name = in_line(one.decoding.drafter)
        if len(chosen) == 1:
            ((choice, decision),) = chosen
            drafts = choice.draft_len or choice.tried
            if choice.reason:
                yield f"decision: {decision}; {name}: {unsustained_words(one, drafts)}"
                continue
            gain = f"{choice.speedup:.2f}x" if drafts else "no drafts have room"
            if drafts and choice.low < choice.high:
                gain += f" (likely {choice.low:.2f} to {choice.high:.2f}x)"
            yield f"decision: {decision}; {name}: {gain} with {format_drafts(drafts)}"
            continue
        parts = []
        for decision, group in groupby(
            zip(loads, chosen, strict=True), key=lambda pair: pair[1][1]
        ):
            at = [load for load, _ in group]
            parts.append(f"{decision} at {at[0] if len(at) == 1 else f'{at[0]} to {at[-1]}'}")
        yield f"decision: {', '.join(parts)}; {name}"


#: Titles of price and energy, and the unit that their figures are divided by.
_PRICES: Final = {
    "usd_per_million_tokens": ("$/Mtok", 1.0),
    "joules_per_million_tokens": ("MJ/Mtok", MILLION),
}


def _prices_table(prediction: Prediction) -> str:
    """Return price and energy at the best draft length and without drafts, where they are known."""
    known = [name for name, value in prediction.money.of(1.0).items() if value is not None]
    if not known:
        return ""
    titles = [title for name in known for title in (_PRICES[name][0], f"plain {_PRICES[name][0]}")]
    names = len(prediction.curves) > 1  # else the line of its cost names the drafter
    rows = []
    for curve in prediction.headline_curves:
        # Axes context, batch, and per price the best draft length beside plain decoding.
        best = curve.at_best(curve.tokens_per_s), curve.tokens_per_s[..., 0]
        cells = [
            np.asarray(prediction.money.of(rate)[name]) / _PRICES[name][1]
            for name in known
            for rate in best
        ]
        rows += [
            [
                f"{context:g}",
                f"{batch:g}",
                *(figure(cell[i, b], format_price) for cell in cells),
                *[curve.drafter] * names,
            ]
            for i, context in enumerate(curve.context_len)
            for b, batch in enumerate(curve.batch_size)
        ]
    header = ["context", "batch", *titles, *["drafter"] * names]
    return format_table(header, rows, left=[len(header) - 1] if names else [])


# --- The charts -----------------------------------------------------------------------------------


def prediction_charts(prediction: Prediction) -> dict[str, Any]:
    """Return speedup against draft length, and what a grid of this shape can show besides."""
    from specroof.plot.batches import (  # noqa: PLC0415 - matplotlib is slow to import
        speedup_figures,
    )

    return speedup_figures(prediction.headline_curves)


COMMAND: Final = Command(
    question=predict,
    options=(*FORMULAS, "cost_of"),
    each_chip=True,
    points=True,
    check_size=refuse_many_predictions,
    told=told,
    chart="Draw speedup against draft length. Several batch sizes add best speedup against batch "
    "size (NAME-by-batch), several contexts a map (NAME-map). With --input-len, speedups count "
    "prefills. Of requests that are played through: what users see.",
    example="specroof predict deepseek-ai/DeepSeek-V4-Pro -H b200 --tp 8 --batch 1,32\n"
    "--drafter ideal --drafter autoregressive,accept=0.75,cost=0.10\n"
    "--drafter block,accept=0.89,cost=0.10,drafts=16",
)
