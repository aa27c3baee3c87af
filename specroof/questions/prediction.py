"""The gains of drafters in a setup that exists: curves, end to end, within a server's room."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from specroof.acceptance import accepted_at
from specroof.architecture import Architecture
from specroof.drafters import Drafter
from specroof.errors import OptionError
from specroof.latency import Setup
from specroof.latency.setup import check_placement
from specroof.questions.answer import Charted, title_of
from specroof.serving.capacity import Limits, limited_curve, limits_at
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import (
    REQUEST_WEIGHT,
    Point,
    acceptance_of,
    draft_depth,
    grid_axes,
    longest_draft,
    refuse_many_points,
)
from specroof.speedup.result import SpeedupCurve
from specroof.speedup.round import proposals
from specroof.units import MOST_POINTS, format_drafts

__all__ = ["EndToEnd", "Workload"]

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
    limits: tuple[Limits, ...] = ()
    queues: bool = False
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
        load = batches, contexts
        points = (
            Point(self.model, self.setup, drafter, *load, self.longest) for drafter in self.drafters
        )
        return tuple(_limited(point, limited=self.limited)[0] for point in points)

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
            curve_columns,  # noqa: PLC0415 - as above
            data_frame,  # noqa: PLC0415 - reports import answers
        )

        return data_frame(curve_columns(self.curves, self.counted))

    def to_arrow(self) -> Any:
        """Return every point as an Arrow table; needs pyarrow."""
        from specroof.report.columns import (  # noqa: PLC0415
            arrow_table,  # noqa: PLC0415 - reports import answers
            curve_columns,  # noqa: PLC0415 - as above
        )

        return arrow_table(curve_columns(self.curves, self.counted))

    def figures(self) -> dict[str, Any]:
        """Return speedup against draft length, and what a grid of this shape can show besides."""
        from specroof.plot import speedup_figures  # noqa: PLC0415 - matplotlib is slow to import

        return speedup_figures(self.drawn)


def predicted(
    model: Architecture,
    setup: Setup,
    drafters: Sequence[Drafter],
    load: Load,
    *,
    max_draft_len: int | None = None,
    limited: bool | None = None,
) -> Prediction:
    """Return the gains of drafters in a setup that exists already.

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
        As `curve_in` does.
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
    """Return the gains of drafters up to a draft length that some may not reach.

    Parameters
    ----------
    longest
        The longest draft of the grid: see `shared_longest`.
    model, setup, drafters, load, limited
        As for `predicted`.
    said
        Sentences for the reader besides those on the curves.

    Raises
    ------
    OptionError
        For more points than memory holds, over all drafters, and as `curve_in` does.
    """
    shape = len(load.context_len), len(load.batch_size), longest + 1
    heavier: dict[str, Any] = {"weight": REQUEST_WEIGHT, "why": " with prefills"}
    refuse_many_points(shape, curves=len(drafters), **heavier if load.workload else {})
    curves, limits = [], []
    beyond = "the rest wait" if limited else "larger batches have no room"
    warnings: dict[str, None] = {}
    for drafter in drafters:
        grid = load.batch_size, load.context_len
        point = Point(model, setup, drafter, *grid, longest)
        curve, limit = _limited(point, limited=limited)
        curves.append(curve)
        if limit is not None:
            limits.append(limit)
            warnings.update(dict.fromkeys(limit.warnings(curve, beyond)))
    assumed = (note for limit in limits for note in limit.notes)
    extended = (
        f"{curve.drafter}: acceptance was measured with "
        f"{format_drafts(curve.measured_draft_len or 0)}; beyond that it is extrapolated"
        for curve in curves
        if curve.extends_measurement.any()
    )
    told = (note for curve in curves for note in curve.notes)
    notes = dict.fromkeys([*told, *extended, *said, *assumed])
    counted: list[EndToEnd] = []
    if load.workload is not None:
        from specroof.serving.requests import end_to_end  # noqa: PLC0415 - a cold start is felt

        counted = [end_to_end(curve, model, setup, load.workload) for curve in curves]
    return Prediction(
        model=model,
        setup=setup,
        drafters=tuple(drafters),
        load=load,
        longest=longest,
        curves=tuple(curves),
        counted=tuple(counted),
        notes=tuple(notes),
        warnings=tuple(warnings),
        limits=tuple(limits),
        queues=bool(limited),
    )


def _limited(point: Point, *, limited: bool | None) -> tuple[SpeedupCurve, Limits | None]:
    """Return a curve of what the server runs, and its limits; None where memory has no end."""
    model, drafter = point.model, point.drafter
    tokens = acceptance_of(drafter)
    if limited is None:
        return point.curve(tokens), None

    def priced(batches: Any) -> SpeedupCurve:
        return replace(point, batch_size=batches).curve(tokens)

    contexts, batches, drafts = grid_axes(point.context_len, point.batch_size, point.longest)
    check_placement(model, point.setup.placement)
    drafter.describe(model)  # refuses a model that the drafter does not fit
    verified = proposals(drafter, accepted_at(tokens, contexts[0]), drafts).verify_len
    limits = limits_at(model, point.setup, drafter, contexts, verified)
    return limited_curve(batches, limits.largest, priced, queues=limited), limits


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
