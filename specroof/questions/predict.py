"""How much faster does a drafter make decoding, at which draft length, at which load?"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from specroof.architecture import Architecture
from specroof.arrays import whole_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, expect, optional_library, refuse
from specroof.hardware import IDEAL_ENGINE
from specroof.latency import Setup
from specroof.parsers.model_config import DSPARK_NOTE, MTP_NOTE
from specroof.questions.answer import Answer
from specroof.questions.request import DrafterLike, Served, Values, drafter_of, listed, question
from specroof.serving.limits import Limits, limits_of
from specroof.serving.queue import limited_curve
from specroof.serving.requests import EndToEnd, Load, Workload
from specroof.speedup.axes import grid_axes
from specroof.speedup.curve import (
    DEFAULT_MAX_DRAFT_LEN,
    SpeedupCurve,
    acceptance_of,
    curve_in,
    draft_depth,
    longest_draft,
)

__all__ = [
    "DEFAULT_MAX_DRAFT_LEN",
    "EndToEnd",
    "Load",
    "PredictRequest",
    "Prediction",
    "Workload",
    "absent_layers",
    "lengths_of",
    "limited_by",
    "load_of",
    "predict",
    "predicted",
    "predicted_to",
    "shared_longest",
]

#: Batch sizes at which `Prediction.survey` looks, besides those asked for.
SURVEYED_BATCHES: Final = tuple(2.0**power for power in range(11))
#: Batch sizes, and contexts, of which a notebook shows the best: more are for `to_frame`.
_SHOWN_POINTS: Final = 8


@dataclass(frozen=True)
class PredictRequest(Served):
    """Ask what speculative decoding gains.

    Parameters
    ----------
    drafters
        One or several: SPECs, or `Drafter` objects.
    batch_size, concurrency
        Sequences in flight, a number or a list; 1 if neither is given. One of the two.
    context_len
        Cached tokens of each sequence, a number or a list; 4096 if None.
    input_len, output_len
        Tokens of a prompt and of an answer. They replace `context_len`, and prefills count.
    max_draft_len
        The longest draft tried; 16 if None. Of several drafters, one that drafts less is shown
        as far as it goes.
    draft_len
        Drafts per round whose speedups are shown side by side; None for none.
    capacity
        Whether no more requests run than the server has room for: those of a concurrency or of
        requests wait, larger batches have no figures. False prices them as if memory had no end,
        as the ideal engine does if None.

    Examples
    --------
    >>> from specroof import predict
    >>> found = predict("Qwen/Qwen3-8B", "b200", drafters="ideal", batch_size=[1, 8])
    >>> found.curves[0].speedup.shape
    (1, 2, 17)
    """

    _: KW_ONLY
    drafters: DrafterLike | Sequence[DrafterLike]
    batch_size: Values | None = None
    concurrency: Values | None = None
    context_len: Values | None = None
    input_len: float | None = None
    output_len: float | None = None
    max_draft_len: int | None = None
    draft_len: int | Sequence[int] | None = None
    capacity: bool | None = None


@dataclass(frozen=True, repr=False, eq=False)
class Prediction(Answer):
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
    queues
        Whether requests beyond it wait.
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
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = field(default=())
    limits: tuple[Limits, ...] = ()
    queues: bool = False
    draft_len: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        first = self.curves[0]
        names = ", ".join(curve.drafter for curve in self.curves)
        devices = first.placement.devices
        return f"{first.model} on {devices} x {first.hardware}, engine {first.engine}: {names}"

    @property
    def drawn(self) -> tuple[SpeedupCurve, ...]:
        """The curves that charts show: with prefills, where they are counted."""
        return tuple(whole.curve for whole in self.counted) or self.curves

    @cached_property
    def survey(self) -> tuple[SpeedupCurve, ...]:
        """The curves at more batch sizes, which show where drafting does not pay."""
        batches = sorted({*self.load.batch_size, *SURVEYED_BATCHES})
        load = Load(batches, self.load.context_len)
        return tuple(
            _limited(self.model, self.setup, drafter, load, self.longest, limited=self.limited)[0]
            for drafter in self.drafters
        )

    @property
    def limited(self) -> bool | None:
        """Whether requests beyond the server's room wait; None where memory has no end."""
        return self.queues if self.limits else None

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        from specroof.report.prediction import prediction_json  # noqa: PLC0415 - reports import answers

        return prediction_json(self)

    @property
    def facts(self) -> dict[str, str]:
        """The best speedup of each drafter, context and batch size, and its draft length."""
        return {
            f"{curve.drafter}: batch {batch:g}, context {context:g}": (
                f"{curve.best_speedup[row, column]:.2f}x with {curve.best_draft_len[row, column]} "
                "drafts"
            )
            for curve in self.drawn
            for row, context in enumerate(curve.context_len[:_SHOWN_POINTS])
            for column, batch in enumerate(curve.batch_size[:_SHOWN_POINTS])
        }

    def to_frame(self) -> Any:
        """Return the points as a pandas DataFrame: the columns of ``--csv``, a row each.

        Raises
        ------
        OptionError
            If pandas is not installed.
        """
        from specroof.report.points import curve_columns  # noqa: PLC0415 - reports import answers

        pandas = optional_library("pandas", "to_frame", "data")
        slabs = curve_columns(self.curves, self.counted)
        return pandas.concat([pandas.DataFrame(slab) for slab in slabs], ignore_index=True)

    def to_arrow(self) -> Any:
        """Return every point as an Arrow table; needs pyarrow."""
        from specroof.report.arrow import arrow_table  # noqa: PLC0415 - reports import answers

        return arrow_table(self)

    def plot(self) -> Any:
        """Draw speedup against draft length."""
        from specroof.plot import speedup_figures  # noqa: PLC0415 - matplotlib is slow to import

        return speedup_figures(self.drawn)[""]


@question(PredictRequest)
def predict(request: PredictRequest) -> Prediction:
    """Predict the speedup of speculative decoding and the best draft length."""
    load = load_of(request)
    lengths = lengths_of(request.draft_len)
    most = request.max_draft_len
    if most is None and lengths and lengths[-1] > DEFAULT_MAX_DRAFT_LEN:
        most = lengths[-1]
    model, setup = request.resolved()
    drafters = [drafter_of(one) for one in listed(request.drafters)]
    waits = request.concurrency is not None or load.workload is not None
    found = predicted(
        model,
        setup,
        drafters,
        load,
        max_draft_len=most,
        limited=limited_by(setup, request.capacity, queues=waits),
    )
    warnings = (*found.warnings, *absent_layers(model, drafters))
    return replace(found, draft_len=lengths, warnings=warnings)


def lengths_of(draft_len: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return draft lengths that are named, in order; none where there are none.

    Raises
    ------
    OptionError
        For what is no whole number of drafts from 1.

    Examples
    --------
    >>> lengths_of([3, 1, 3]), lengths_of(2), lengths_of(None)
    ((1, 3), (2,), ())
    """
    if draft_len is None:
        return ()
    lengths = sorted({whole_within("draft_len", one, "draft_len") for one in listed(draft_len)})
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
        if drafter.name.partition(",")[0] == "mtp" and ",config=" not in drafter.name
    ]


def limited_by(setup: Setup, capacity: bool | None, *, queues: bool) -> bool | None:
    """Return whether requests beyond a server's room wait; None where memory has no end.

    Parameters
    ----------
    setup
        Where passes run: the ideal engine has no server around it.
    capacity
        What was asked for, as for `predict`.
    queues
        Whether requests wait, where there is an end.
    """
    expect("capacity", capacity, bool | None, "True, False, or None")
    ends = setup.engine != IDEAL_ENGINE if capacity is None else capacity
    return queues if ends else None


def predicted(
    model: Architecture,
    setup: Setup,
    drafters: Sequence[Drafter],
    load: Load,
    *,
    max_draft_len: int | None = None,
    limited: bool | None = None,
) -> Prediction:
    """Return what drafters gain in a setup that is built already.

    Parameters
    ----------
    model, setup, drafters, load
        What is served where, what is compared, and under which load.
    max_draft_len
        As for `predict`.
    limited
        Whether requests beyond the server's room wait; None where memory has no end.

    Raises
    ------
    OptionError
        As `speedup_curve` does.
    """
    longest, capped = shared_longest(drafters, max_draft_len)
    return predicted_to(longest, model, setup, drafters, load, limited=limited, said=capped)


def predicted_to(  # noqa: PLR0913 - a question's parts
    longest: int,
    model: Architecture,
    setup: Setup,
    drafters: Sequence[Drafter],
    load: Load,
    *,
    limited: bool | None = None,
    said: Sequence[str] = (),
) -> Prediction:
    """Return what drafters gain up to a draft length that some drafter may not reach.

    Parameters
    ----------
    longest
        The longest draft of the grid: see `shared_longest`.
    model, setup, drafters, load, limited
        As for `predicted`.
    said
        Sentences for the reader besides those on the curves.
    """
    curves, limits = [], []
    warnings: dict[str, None] = {}
    for drafter in drafters:
        curve, limit = _limited(model, setup, drafter, load, longest, limited=limited)
        curves.append(curve)
        if limit is not None:
            limits.append(limit)
            warnings.update(dict.fromkeys(limit.warnings(curve, queues=bool(limited))))
    assumed = (note for limit in limits for note in limit.notes)
    extended = (
        f"{curve.drafter}: acceptance was measured with {curve.measured_draft_len} drafts; longer "
        f"best drafts rest on its shape"
        for curve in curves
        if curve.extends_measurement.any()
    )
    told = (note for curve in curves for note in curve.notes)
    notes = dict.fromkeys([*told, *extended, *said, *assumed])
    return Prediction(
        model=model,
        setup=setup,
        drafters=tuple(drafters),
        load=load,
        longest=longest,
        curves=tuple(curves),
        counted=tuple(load.counted(curves, model, setup)),
        notes=tuple(notes),
        warnings=tuple(warnings),
        limits=tuple(limits),
        queues=bool(limited),
    )


def _limited(
    model: Architecture,
    setup: Setup,
    drafter: Drafter,
    load: Load,
    longest: int,
    *,
    limited: bool | None,
) -> tuple[SpeedupCurve, Limits | None]:
    """Return a curve of what the server runs, and its limits; None where memory has no end."""

    def priced(batches: Any) -> SpeedupCurve:
        return curve_in(
            model,
            setup,
            drafter=drafter,
            tokens=acceptance_of(drafter),
            batch_size=batches,
            context_len=load.context_len,
            longest=longest,
        )

    if limited is None:
        return priced(load.batch_size), None
    batches = grid_axes(load.context_len, load.batch_size, longest)[1]
    # What is verified at once does not depend on the batch.
    limits = limits_of(model, setup, drafter, priced(batches[:1]))
    return limited_curve(batches, limits.largest, priced, queues=limited), limits


def load_of(request: PredictRequest) -> Load:
    """Return the load that a request asks about.

    Raises
    ------
    OptionError
        For both spellings of one thing, or half of a workload.
    """
    if request.batch_size is not None and request.concurrency is not None:
        message = "batch_size and concurrency are both given; allowed: one of them"
        raise OptionError(message)
    given = request.batch_size if request.concurrency is None else request.concurrency
    batches = listed(1.0 if given is None else given)
    context, prompt, answer = request.context_len, request.input_len, request.output_len
    if prompt is None and answer is None:
        return Load(batches, listed(4096.0 if context is None else context))
    if context is not None:
        message = "context_len is given with input_len or output_len; allowed: one of them"
        raise OptionError(message)
    if prompt is None or answer is None:
        missing = "input_len" if prompt is None else "output_len"
        message = f"{missing} is missing; allowed: both lengths of a request, or neither"
        raise OptionError(message)
    workload = Workload(prompt, answer)
    return Load(batches, [workload.mean_context_len], workload)


def shared_longest(drafters: Sequence[Drafter], asked: int | None) -> tuple[int, list[str]]:
    """Return the longest draft of a comparison, and a note for each drafter that ends before it.

    Parameters
    ----------
    drafters
        What is compared.
    asked
        The longest draft asked for; None for the default.

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
    longest = longest_draft(deepest, acceptance_of(deepest), asked)
    if asked is None:
        return longest, []
    return longest, [
        f"{drafter.name} drafts at most {depth:g}: longer drafts have no figures"
        for drafter, depth in zip(drafters, depths, strict=True)
        if depth < longest and not math.isinf(depth)
    ]
