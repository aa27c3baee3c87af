"""How much faster does a drafter make decoding, at which draft length, at which load?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from specroof.architecture import Architecture
from specroof.arrays import array_within, whole_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, refuse
from specroof.latency import Deployment, Setup
from specroof.parsers.model_config import DSPARK_NOTE, MTP_NOTE
from specroof.questions.answer import Charted, title_of
from specroof.questions.request import (
    DrafterLike,
    HardwareLike,
    LoadRequest,
    Values,
    as_list,
    drafters_of,
    hardware_of,
    load_of,
    question,
    unique_list,
)
from specroof.report.columns import curves_csv, curves_json, refuse_long_texts
from specroof.report.curves import (
    counted_table,
    curves_table,
    lengths_table,
    pays_lines,
    source_lines,
    survey_json,
)
from specroof.report.layout import in_line, note_lines
from specroof.serving.capacity import RoomRule, ServerRoom
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.served import room_rule, served_curve
from specroof.serving.workload import Load
from specroof.speedup.curve import (
    DEFAULT_MAX_DRAFT_LEN,
    REQUEST_WEIGHT,
    acceptance_of,
    draft_depth,
    longest_draft,
    refuse_many_points,
)
from specroof.speedup.result import SpeedupCurve
from specroof.units import MOST_POINTS, format_drafts

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
    longest
        The longest draft of the grid.
    curves
        A curve for each drafter, of decoding alone.
    counted
        The same curves with prefills; empty where no requests were asked about.
    notes, warnings
        Sentences for the reader.
    limits
        What the server has room for, for each drafter; empty where memory has no end.
    room
        What becomes of requests beyond it: they ``queue``, their points are ``drop``ped, or memory
        is ``ignore``d.
    draft_len
        The lengths whose speedups are shown side by side.
    """

    model: Architecture
    setup: Setup
    drafters: tuple[Drafter, ...]
    load: Load
    longest: int
    curves: tuple[SpeedupCurve, ...]
    counted: tuple[EndToEnd, ...]
    limits: tuple[ServerRoom, ...] = ()
    room: RoomRule = "ignore"
    draft_len: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        names = ", ".join(curve.drafter for curve in self.curves)
        return f"{title_of(self.model, self.setup)}: {names}"

    @property
    def drawn(self) -> tuple[SpeedupCurve, ...]:
        """The curves that charts show: with prefills, where they are counted."""
        return tuple(whole.curve for whole in self.counted) or self.curves

    @cached_property
    def survey(self) -> tuple[SpeedupCurve, ...]:
        """The curves at more batch sizes, which show where drafting does not pay.

        At those asked for alone, where more would be more points than memory holds.
        """
        contexts, batches = (
            self.load.context_len,
            sorted({*self.load.batch_size, *SURVEYED_BATCHES}),
        )
        if len(contexts) * len(batches) * (self.longest + 1) * len(self.drafters) > MOST_POINTS:
            batches = sorted(
                {*self.load.batch_size}
            )  # many contexts: all that is held was asked for
        load = Load(batches, contexts)
        return tuple(
            served_curve(
                self.deployment, drafter, load, self.room, max_draft_len=self.longest
            ).decoding
            for drafter in self.drafters
        )

    @property
    def deployment(self) -> Deployment:
        """What is served, and where."""
        return Deployment(self.model, self.setup)

    @property
    def queues(self) -> bool:
        """Whether requests beyond the server's room wait."""
        return self.room == "queue"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return prediction_json(self)

    @property
    def facts(self) -> dict[str, str]:
        """The best speedup of each drafter, context and batch size, and its draft length."""
        return {
            f"{curve.drafter}: {load}": best
            for curve in self.drawn
            for load, best in curve.facts.items()
        }

    def to_frame(self) -> Any:
        """Return the points as a pandas DataFrame: the columns of ``--csv``, a row each.

        Raises
        ------
        OptionError
            If pandas is not installed.
        """
        from specroof.report.columns import (  # noqa: PLC0415
            curve_columns,
            data_frame,
        )

        return data_frame(curve_columns(self.curves, self.counted))

    def to_arrow(self) -> Any:
        """Return every point as an Arrow table; needs pyarrow."""
        from specroof.report.columns import (  # noqa: PLC0415
            arrow_table,
            curve_columns,
        )

        return arrow_table(curve_columns(self.curves, self.counted))

    def figures(self) -> dict[str, Any]:
        """Return speedup against draft length, and what a grid of this shape can show besides."""
        from specroof.plot import speedup_figures  # noqa: PLC0415 - matplotlib is slow to import

        return speedup_figures(self.drawn)


def predicted(
    deployment: Deployment,
    drafters: Sequence[Drafter],
    load: Load,
    *,
    max_draft_len: int | None = None,
    room: RoomRule = "ignore",
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

    Raises
    ------
    SpecroofError
        As `specroof.serving.served.served_curve` does, and for more points than memory holds.
    """
    longest, capped = shared_max_draft_len(drafters, max_draft_len)
    return predicted_to(longest, deployment, drafters, load, room=room, notes=capped)


def predicted_to(
    max_draft_len: int,
    deployment: Deployment,
    drafters: Sequence[Drafter],
    load: Load,
    *,
    room: RoomRule = "ignore",
    notes: Sequence[str] = (),
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
        served_curve(deployment, drafter, load, room, max_draft_len=max_draft_len)
        for drafter in drafters
    ]
    curves, rooms = [each.decoding for each in served], [each.room for each in served if each.room]
    beyond = "the rest wait" if room == "queue" else "larger batches have no room"
    warnings = dict.fromkeys(
        warning
        for curve, held in zip(curves, rooms, strict=False)
        for warning in held.warnings(curve, beyond)
    )
    assumed = (note for held in rooms for note in held.notes)
    extended = (
        f"{curve.drafter}: acceptance was measured with "
        f"{format_drafts(curve.measured_draft_len or 0)}; beyond that it is extrapolated"
        for curve in curves
        if curve.extends_measurement.any()
    )
    of_curves = (note for curve in curves for note in curve.notes)
    return Prediction(
        model=deployment.model,
        setup=deployment.setup,
        drafters=tuple(drafters),
        load=load,
        longest=max_draft_len,
        curves=tuple(curves),
        counted=tuple(each.end_to_end for each in served if each.end_to_end is not None),
        notes=tuple(dict.fromkeys([*of_curves, *extended, *notes, *assumed])),
        warnings=tuple(warnings),
        limits=tuple(rooms),
        room=room,
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
    depths = [draft_depth(drafter, acceptance_of(drafter)) for drafter in drafters]
    deepest = drafters[depths.index(max(depths))]
    longest = longest_draft(deepest, acceptance_of(deepest), max_draft_len)
    if max_draft_len is None:
        return longest, []
    return longest, [
        f"{drafter.name} drafts at most {depth:g}: longer drafts have no figures"
        for drafter, depth in zip(drafters, depths, strict=True)
        if depth < longest and not math.isinf(depth)
    ]


@dataclass(frozen=True, kw_only=True)
class PredictRequest(LoadRequest):
    """Ask what speculative decoding gains.

    Parameters
    ----------
    drafters
        One or several: SPECs, or `Drafter` objects.
    batch_size, concurrency
        Sequences in flight, a number or a list; 1 if neither is given. One of the two.
    context_len
        Cached tokens of each sequence, a number or a list; 4096 if None.
    max_draft_len
        The longest draft tried; 16 if None. Of several drafters, one that drafts less is shown
        as far as it goes.
    draft_len
        Drafts per round whose speedups are shown side by side; None for none.
    capacity
        Whether the server's room limits what runs: with a concurrency or with requests the rest
        wait, and larger batches have no figures. False prices all as if memory had no end; if None,
        only the ideal engine does.

    Examples
    --------
    >>> from specroof import predict
    >>> found = predict("Qwen/Qwen3-8B", "b200", drafters="ideal", batch_size=[1, 8])
    >>> found.curves[0].speedup.shape
    (1, 2, 17)
    """

    drafters: DrafterLike | Sequence[DrafterLike]
    batch_size: Values | None = None
    concurrency: Values | None = None
    context_len: Values | None = None
    max_draft_len: int | None = None
    draft_len: int | Sequence[int] | None = None
    capacity: bool | None = None


@question(PredictRequest)
def predict(request: PredictRequest) -> Prediction:
    """Predict the speedup of speculative decoding and the best draft length."""
    load = load_of(request, _in_flight(request), request.context_len)
    lengths = lengths_of(request.draft_len)
    most = request.max_draft_len
    if most is None and lengths and lengths[-1] > DEFAULT_MAX_DRAFT_LEN:
        most = lengths[-1]
    deployment = request.resolved()
    drafters = drafters_of(request.drafters)
    waits = request.concurrency is not None or load.workload is not None
    found = predicted(
        deployment,
        drafters,
        load,
        max_draft_len=most,
        room=room_rule(deployment.setup, request.capacity, "queue" if waits else "drop"),
    )
    warnings = (*found.warnings, *absent_layers(deployment.model, drafters))
    return replace(found, draft_len=lengths, warnings=warnings)


def predict_each(hardware: Sequence[HardwareLike], **request: Any) -> list[Prediction]:
    """Return a prediction for each of some chips, which are held together.

    Parameters
    ----------
    hardware
        Chips, each once.
    request
        The rest of a `PredictRequest`.

    Raises
    ------
    OptionError
        For a chip that is named twice, more points than memory holds over all of them, and as
        `predict` does.
    """
    found = list[Prediction]()
    for chip in unique_list("hardware", hardware, hardware_of):
        found.append(predict(hardware=chip, **request))
        if len(found) == 1:
            refuse_many_points(
                found[0].curves[0].round_s.shape,
                curves=len(found[0].curves) * len(hardware),
                weight=REQUEST_WEIGHT if found[0].counted else 1,
            )
    return found


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
    lengths = sorted({whole_within("draft_len", one, "draft_len") for one in as_list(draft_len)})
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


def _in_flight(request: PredictRequest) -> Values:
    """Return the sequences in flight, 1 where none are named.

    Raises
    ------
    OptionError
        For both spellings.
    """
    if request.batch_size is not None and request.concurrency is not None:
        message = "batch_size and concurrency are both given; allowed: one of them"
        raise OptionError(message)
    if request.concurrency is None:
        return 1.0 if request.batch_size is None else request.batch_size
    array_within("concurrency", request.concurrency, "batch_size")  # below it is a batch
    return request.concurrency


# --- A prediction, as tables and as CSV of its points --------------------------------------------


def prediction_json(found: Prediction) -> dict[str, Any]:
    """Return a prediction as the object that ``--json`` prints."""
    answer = curves_json(found.curves, found.counted)
    server = found.setup.server
    answer |= {
        "notes": list(found.notes),
        "warnings": list(found.warnings),
        "server": None if server is None else server.to_dict(),
        "survey": survey_json(found.survey),
        "capacity": None,
    }
    if found.limits:
        answer["capacity"] = {
            "queues": found.queues,
            "largest_batch": found.limits[0].largest[:, 0].astype(int).tolist(),
            "bound_by": found.limits[0].bound_by[:, 0].tolist(),
        }
    for drafter, limit in zip(answer["drafters"], found.limits, strict=False):
        drafter["server"] = limit.server.to_dict()
        drafter["capacity"] = {
            "largest_batch": limit.largest.astype(int).tolist(),
            "bound_by": limit.bound_by.tolist(),
        }
    return answer


def predictions_json(found: Sequence[Prediction]) -> dict[str, Any]:
    """Return one prediction as its object; several, of one chip each, under ``chips``."""
    curves = [curve for one in found for curve in one.curves]
    refuse_long_texts(curves, found[0].counted, "JSON")  # of all chips, before the first is a list
    objects = [one.to_dict() for one in found]
    return objects[0] if len(objects) == 1 else {"chips": objects}


def prediction_csv(*found: Prediction) -> str:
    """Return every point of predictions as CSV."""
    curves = [curve for one in found for curve in one.curves]
    return curves_csv(curves, [whole for one in found for whole in one.counted])


def prediction_text(found: Prediction) -> str:
    """Return the loads where drafting does not pay, best draft lengths, sources and sentences."""
    parts = [
        in_line(title_of(found.model, found.setup)),
        pays_lines(found.survey),
        note_lines(found.warnings),
        curves_table(found.curves),
        counted_table(found.curves, found.counted) if found.counted else "",
        lengths_table(found.drawn, found.draft_len) if found.draft_len else "",
        source_lines(found.curves),
        note_lines(found.notes),
    ]
    return "\n\n".join(filter(None, parts))
