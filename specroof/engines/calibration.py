"""The engine profile that fits a benchmark best, and what the benchmark cannot say."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from specroof.arrays import Array
from specroof.cost import Options
from specroof.drafters import Drafter, TokensPerRound, ideal_drafter
from specroof.engines.least_squares import Fit, chi_square_quantile, least_squares
from specroof.engines.record import BARE, ONLY, MeasuredCase, Record, case_of, of_bare_passes
from specroof.engines.row_steps import FEW_ROWS, kernel_of, with_row_kernels
from specroof.errors import MeasurementError
from specroof.evidence import (
    STEP,
    Measurement,
    acceptance_of,
    refuse_other_drafts,
    refuse_other_setup,
    request_lengths,
)
from specroof.frameworks import LOCAL_FRAMEWORKS
from specroof.hardware.engine import IDEAL_ENGINE, Band, EngineProfile
from specroof.hardware.profile import HardwareProfile, scaled_engine
from specroof.latency.setup import Deployment, check_placement, engine_setup, served_options
from specroof.outcomes.case import served_case
from specroof.outcomes.outcomes import outcomes
from specroof.serving.workload import REQUESTS_PER_CLIENT, Load, Workload
from specroof.units import BOUNDS, HOLDS_80

# --- What an engine predicts for results of one's own, and whether they can be compared with it --

#: A measurement may beat the ideal roofline by its own noise, not by more.
_FASTEST: Final = 1.1
#: Engines are 2 to 20 times slower than it, one sequence at a time; other units are a thousand.
_SLOWEST: Final = 1 / 200
#: A file may state a bandwidth that is so many times too low: of another card of the same name, of
#: one module of two, or without overclocking. What is faster still has other causes.
_MORE_BANDWIDTH: Final = 2.0
#: Less than this share of what is simulated at a time are fewer requests, not another clock.
_FEWER: Final = 0.9
#: So many are simulated for one result: about a fifth of a second.
_MOST_REQUESTS: Final = 20_000


def own_cases(
    points: Sequence[Measurement], served: Deployment, drafter: Drafter | None
) -> list[MeasuredCase]:
    """Return results as they are to be predicted; nothing is presumed.

    Parameters
    ----------
    points
        The loads; prefills count where a point says how long they are.
    served
        Of what, where.
    drafter
        What drafts; None if nothing does.

    Raises
    ------
    MeasurementError
        For a point with drafts, whose drafter or acceptance is not stated.
    """
    engine = of_bare_passes(served.setup.engine)
    alone = replace(served, setup=replace(served.setup, engine=engine))
    return [
        case_of(point, alone, None, BARE)
        if point.method == STEP
        else case_of(point, served, _drafting(point, drafter))
        for point in points
    ]


def _drafting(point: Measurement, drafter: Drafter | None) -> tuple[Drafter, TokensPerRound] | None:
    if not point.drafts:
        return None
    if drafter is None:
        message = f"{point.place}: has {point.draft_len} drafts; needs --drafter to price them"
        raise MeasurementError(message)
    return drafter, acceptance_of(point, drafter)


def predicted_tokens_per_s(
    points: Sequence[Measurement], served: Deployment, drafter: Drafter | None
) -> Array:
    """Return output tokens per second of the whole batch, one for each point.

    For a bare pass it is the batch size over its seconds: see `Measurement.pass_s`.

    Parameters
    ----------
    points, served, drafter
        See `own_cases`.

    Raises
    ------
    MeasurementError
        As `own_cases` does.

    Source
        See `specroof.engines.record`, and `run_factors` of requests.
    """
    rates = Record(own_cases(points, served, drafter)).rates().measured
    return np.asarray(rates * run_factors(points, served, drafter))


def run_factors(
    points: Sequence[Measurement], served: Deployment, drafter: Drafter | None
) -> Array:
    """Return the throughput of each run of requests over that of its steady state.

    Requests of known lengths are simulated as questions do, all of the mean length, with the start
    and the end of the run. Where a result states how many were in flight on average, fewer than
    run in the simulation stay fewer. Others have a factor of 1: bare passes, more requests than
    may be simulated, and loads that the server has no memory for.

    Parameters
    ----------
    points, served, drafter
        As of `predicted_tokens_per_s`.

    Source
        See `specroof.outcomes.outcomes.outcomes`; Little 1961 for requests in flight. From which
        share on they are fewer is the choice of this library.
    """
    factors, runs = np.ones(len(points)), dict[int, MeasuredCase]()
    for row, point in enumerate(points):
        requests, clients = simulated_requests(point), _clients(point)
        if not requests:
            continue
        prompt, answer, context = request_lengths(point)
        load = Load([clients], [context], Workload(prompt, answer), requests=[requests])
        drafts, here = point.draft_len or 0, served_case(served, load)
        drafting, tokens = _drafting(point, drafter) or (ideal_drafter(), None)
        asked = partial(outcomes, drafter=drafting, max_draft_len=drafts, acceptance=tokens)
        found: Any = asked(here, draft_lens={drafts} - {0}, only=True)  # of requests with lengths
        seen = found.end_to_end
        rate = float(seen.tokens_per_s[0, 0, drafts])
        if not rate > 0:
            continue
        in_flight = float(clients)
        if point.concurrency is not None and point.batch_size is not None:
            at_once = found.played.most_running[0, drafts]
            # Those that wait for room are in flight, and not in `batch_size`.
            little = float(min((seen.requests_per_s * seen.answer_s)[0, 0, drafts], at_once))
            in_flight = little if point.batch_size < _FEWER * little else point.batch_size
        alone = replace(point, batch_size=in_flight, concurrency=None)
        (case,) = own_cases([alone], served, drafter)
        if case.branches or (drafts and drafting.is_ideal):
            # What siblings add, or all drafts, is in the measured length, and in both of these.
            found = asked(here.at(load=replace(load.steady, batch_size=[in_flight])))
            factors[row] = rate / float(found.end_to_end.tokens_per_s[0, 0, drafts])
        else:
            factors[row], runs[row] = rate, case
    if runs:
        factors[[*runs]] /= Record([*runs.values()]).rates().measured
    return factors


def simulated_requests(point: Measurement) -> int:
    """Return how many requests of a result are simulated: none where it is not of requests."""
    clients, most = _clients(point), BOUNDS["query_len"].most  # which the ideal engine has at once
    too_many = clients > _MOST_REQUESTS or clients * (point.input_len or 0) > most
    if not point.includes_prefill or too_many:
        return 0
    return min(point.requests or REQUESTS_PER_CLIENT * clients, _MOST_REQUESTS)


def _clients(point: Measurement) -> int:
    return max(round(point.concurrency or point.batch_size or 1.0), 1)


def ideal_rates(
    points: Sequence[Measurement], served: Deployment, drafter: Drafter | None
) -> Array:
    """Return what the ideal engine predicts for each point, once they can be compared with it.

    Parameters
    ----------
    points
        What was measured.
    served, drafter
        Of what, where; of the setup the engine does not matter, nor any option but the formats
        of weights and cache.

    Raises
    ------
    MeasurementError
        One line with the place of a point that was served in another way than is predicted, or of
        a throughput that cannot be: above what the ideal roofline allows, or less than a 200th.
    OptionError
        For a placement or a drafter that the model does not fit.
    """
    model, setup = served.model, served.setup
    check_placement(model, setup.placement)
    if drafter is not None:
        drafter.describe(model)  # refuses a model that the drafter does not fit
    # The bound moves what the server stores, in the formats that it caches in by default too.
    options = served_options(model, setup)
    stored = Options(
        kv_dtype=options.kv_dtype,
        index_dtype=options.index_dtype,
        weight_dtype=options.weight_dtype,
    )
    refuse_other_setup(points, served)

    def ideal_on(hardware: HardwareProfile) -> Deployment:
        return Deployment(model, engine_setup(hardware, IDEAL_ENGINE.name, setup.placement, stored))

    ideal = ideal_on(setup.hardware)
    cases = own_cases(points, ideal, drafter)
    for case in cases:
        if case.drafter is not None:
            refuse_other_drafts(case.point, case.drafter.name, branches=case.branches)
    factors = run_factors(points, ideal, drafter)
    rates = np.asarray(Record(cases).rates().measured * factors)
    measured = np.array([point.rate for point in points])
    # One core may be a hundredth of a chip, and tools for one user write their units.
    slowest = [0.0 if point.engine in LOCAL_FRAMEWORKS else _SLOWEST for point in points]
    beyond = np.flatnonzero((measured > _FASTEST * rates) | (measured < slowest * rates))
    if not beyond.size:
        return rates
    peak = setup.hardware.peak
    faster = replace(peak, memory_bytes_per_s=_MORE_BANDWIDTH * peak.memory_bytes_per_s)
    at = int(beyond[0])
    (case,) = own_cases([points[at]], ideal_on(replace(setup.hardware, peak=faster)), drafter)
    freed = float(Record([case]).rates().measured[0] * factors[at])
    raise MeasurementError(_impossible(points[at], float(rates[at]), freed, served))


def _impossible(point: Measurement, rate: float, freed: float, served: Deployment) -> str:
    """Say that a throughput is above what any engine reaches, or below what every one does.

    Parameters
    ----------
    point
        What was measured.
    rate, freed
        What the ideal roofline allows, and with `_MORE_BANDWIDTH` times the file's bandwidth.
    served
        Of what, where.
    """
    setup = served.setup
    faster, cause = point.rate > rate, "other units, another model, or other devices?"
    stated, best = f"{point.rate:g} tokens/s", rate
    beyond = "more than" if faster else "less than a 200th of"
    if point.pass_s is not None:
        stated, best = f"pass_s {point.pass_s:g}", float(point.batch_size or 1) / rate
        beyond = "less than" if faster else "more than 200 times"
    if faster and point.rate <= _FASTEST * freed:
        bandwidth = setup.hardware.peak.memory_bytes_per_s
        cause = (
            f"memory binds there, so the likely cause is that peak.memory_bytes_per_s of "
            f"{setup.hardware.name}, {bandwidth:.4g}, is too low; else {cause}"
        )
    return (
        f"{point.place}: {stated} is {beyond} the {best:.4g} that {served.model.name} reaches on "
        f"{setup.placement.devices} x {setup.hardware.name} at best; {cause}"
    )


# --- What a benchmark can determine of an engine profile, in the order in which it is asked for --

#: No kernel reaches more than this share of a peak; boost clocks add a little.
_MOST_SHARE: Final = 1.2
_LEAST_SHARE: Final = 0.05
#: Seconds may be so many times what the profile has, or so many times less.
_MOST_SECONDS: Final = 1e4
#: Seconds that a profile does not have lie within so many usual values of zero.
_USUAL_SECONDS: Final = 3.0
#: Shares that a profile does not have, as the ideal one, differ by so many times more.
_UNKNOWN_SHARE: Final = 4 / 3


@dataclass(frozen=True, slots=True)
class ProfileParameter:
    """A figure of an engine profile that a benchmark of one's own may determine.

    Parameters
    ----------
    name
        What tables and files call it.
    typical
        A usual value: where a fit starts that has no profile to start from.
    spread
        How far from there it may be taken to lie: the standard deviation of its logarithm.
    needs_drafts
        Whether only points with drafts depend on it.
    least_points
        Points from which it is fitted.
    """

    name: str
    typical: float
    spread: float = 0.5
    _: KW_ONLY
    needs_drafts: bool = False
    least_points: int = 3

    @property
    def is_share(self) -> bool:
        """Whether it is a share of a peak, and bounded; seconds are not."""
        return self.name in _SCALED

    def start(self, engine: EngineProfile) -> float:
        """Return the value that a profile has; of shares by dtype, one stands for all."""
        value = getattr(engine, self.name)
        return _compute_share(value) if isinstance(value, Mapping) else float(value or 0.0)

    def apply(self, engine: EngineProfile, value: float) -> EngineProfile:
        """Return the profile with another value."""
        scaled = _SCALED.get(self.name)
        changed: dict[str, Any] = {self.name: value}
        return replace(engine, **changed) if scaled is None else scaled(engine, value)


@dataclass(frozen=True, slots=True)
class Coordinate:
    r"""A parameter in the unit in which it may be taken to differ from the profile.

    .. math:: v(x) = c \, e^{s x} \quad \text{or, where the profile has none,} \quad v(x) = s \, x

    so that the prior of every x is a normal distribution around 0 with a standard deviation of 1.

    Parameters
    ----------
    parameter
        Which.
    centre
        c, the value of the profile; 0 where it has none.
    spread
        s, of the logarithm, or in the unit of the parameter where the centre is 0.
    is_known
        Whether a fit made the centre, and not a guess.
    """

    parameter: ProfileParameter
    centre: float
    spread: float
    is_known: bool

    def value(self, x: float) -> float:
        """Return the parameter's value at a coordinate."""
        return self.centre * math.exp(self.spread * x) if self.centre else self.spread * x

    def slope(self, x: float) -> float:
        """Return by how much the value changes for one unit of the coordinate."""
        return self.spread * (self.value(x) if self.centre else 1.0)

    def at(self, value: float) -> float:
        """Return the coordinate of a value, the inverse of `value`."""
        return math.log(value / self.centre) / self.spread if self.centre else value / self.spread

    @property
    def first(self) -> float:
        """Where a search starts: at the profile, or at a usual value."""
        return 0.0 if self.centre else self.parameter.typical / self.spread

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest coordinate."""
        if not self.centre:
            return 0.0, math.inf
        least, most = 1 / _MOST_SECONDS, _MOST_SECONDS
        if self.parameter.is_share:
            least, most = _LEAST_SHARE / self.centre, _MOST_SHARE / self.centre
        return math.log(least) / self.spread, math.log(most) / self.spread


def coordinate(parameter: ProfileParameter, engine: EngineProfile) -> Coordinate:
    """Return the coordinate of a parameter around what a profile has.

    Parameters
    ----------
    parameter
        One of `PARAMETERS`.
    engine
        The profile to start from. A share of 1 is the ideal one, which was never measured: a usual
        one stands in.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> layer = coordinate(PARAMETERS[0], load_hardware("b200").engine("sglang"))
    >>> layer.centre == load_hardware("b200").engine("sglang").layer_overhead_s
    True
    >>> round(layer.value(1) / layer.value(0), 2)  # e ** 0.2
    1.22
    """
    value = parameter.start(engine)
    if parameter.is_share:
        is_known = value != 1
        wider = 1.0 if is_known else _UNKNOWN_SHARE
        centre = value if is_known else parameter.typical
        return Coordinate(parameter, centre, wider * parameter.spread, is_known)
    if value:
        return Coordinate(parameter, value, parameter.spread, is_known=True)
    return Coordinate(parameter, 0.0, _USUAL_SECONDS * parameter.typical, is_known=False)


def _scaled_memory(engine: EngineProfile, value: float) -> EngineProfile:
    scaled = scaled_engine(engine, memory=value / engine.memory_frac, most=_MOST_SHARE)
    return replace(scaled, memory_frac=value)


def _compute_share(shares: Mapping[str, float]) -> float:
    # Most profiles list bf16 alone; dtypes that one does not list are at all of their peak.
    return shares.get("bf16", max(shares.values(), default=1.0))


_DTYPES: Final = ("fp32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4", "int4")


def _scaled_compute(engine: EngineProfile, value: float) -> EngineProfile:
    every = {dtype: engine.compute_frac.get(dtype, 1.0) for dtype in _DTYPES}
    factor = value / _compute_share(engine.compute_frac)
    return scaled_engine(replace(engine, compute_frac=every), compute=factor, most=_MOST_SHARE)


#: How a profile takes another share of a peak: all that stands beside it moves with it.
_SCALED: Final[Mapping[str, Callable[[EngineProfile, float], EngineProfile]]] = {
    "memory_frac": _scaled_memory,
    "compute_frac": _scaled_compute,
}
#: Overheads first, which three points determine; shares of the peaks from more. Seconds per layer
#: are fitted where the profile has them, and those per pass where it has none: one model at one
#: placement cannot tell them apart, nor those per collective. Spreads of shares are three times
#: those between published servers (`benchmarks/fitting/parameters.py`): your machine may run
#: other kernels, and some computed at a fifth of their peak. Those of overheads are what plain
#: throughput is off on sources that a fit has not seen, about 10%, over their part of a pass.
PARAMETERS: Final = (
    ProfileParameter("layer_overhead_s", 3e-5, 0.2),
    ProfileParameter("pass_overhead_s", 3e-4),
    ProfileParameter("sequence_overhead_s", 3e-5),
    ProfileParameter("round_overhead_s", 8e-4, 0.4, needs_drafts=True),
    ProfileParameter("memory_frac", 0.85, 0.15, least_points=4),
    ProfileParameter("compute_frac", 0.7, 0.45, least_points=5),
    ProfileParameter("round_sequence_overhead_s", 2e-5, needs_drafts=True, least_points=5),
    ProfileParameter("draft_pass_overhead_s", 2e-4, needs_drafts=True, least_points=6),
    ProfileParameter("request_overhead_s", 1e-2, least_points=5),
)


# --- Figures of an engine profile from noisy points: least squares, held near what the profile
#     has

#: Typical noise is 5 %: an upper bound, lowered where repeated points agree better.
_ORDINARY: Final = 0.05
_SMALLEST: Final = 0.001
#: Residuals beyond so many ordinary ones count as outliers (soft L1).
_OUTLIER: Final = 2.0
#: In one case of five, noise leaves residuals as small as those that it is judged by.
_DOUBT: Final = 0.2
#: How much the profile counts where the residuals alone are looked for: enough to have a solution.
_LOOSE: Final = 0.02
#: Widths of the prior that are tried: from a profile that holds, to one of another machine.
_WIDTHS: Final = np.geomspace(0.05, 1.0, 14)
#: Twice the logarithm of the ratio of likelihoods that a one-sided test at 10% refutes: 1.28².
_REFUTED: Final = 1.64
_SLOPE_STEP: Final = 1e-4
_INSIDE: Final = 1e-6
#: Runs that differ by more than this from those that a fit was made with are fitted again.
_MOVED: Final = 1e-3
#: Shares from which a search begins, beside the profile's. Where memory binds, a share of the peak
#: in FLOP/s has no slope, and the other way round: a search that begins there never finds a machine
#: that computes at a fifth of its peak.
_STARTS: Final = {"compute_frac": (0.1, 0.3), "memory_frac": (0.4,)}
#: Optima that are this close are the same, in units of the prior.
_SAME: Final = 0.05
#: The share of measurements that a band is to hold.
BAND_SHARE: Final = 0.8


class Problem:
    """Points, recorded once, and the profile that predicts them.

    Parameters
    ----------
    points
        What was measured.
    served, drafter
        Of what, where, with which drafter.
    """

    def __init__(
        self, points: Sequence[Measurement], served: Deployment, drafter: Drafter | None
    ) -> None:
        self.points = points
        self.base = served.setup.engine
        self._served, self._drafter = served, drafter
        self._record = Record(own_cases(points, served, drafter))
        self._factors = self._runs(self.base)

    def _runs(self, engine: EngineProfile) -> Array:
        own = replace(self._served, setup=replace(self._served.setup, engine=engine))
        return run_factors(self.points, own, self._drafter)

    def simulated_in(self, engine: EngineProfile) -> bool:
        """Take what runs make of throughput from another engine; tell if that moves a point."""
        before, self._factors = self._factors, self._runs(engine)
        return bool(np.any(np.abs(self._factors / before - 1) > _MOVED))

    @property
    def measured(self) -> Array:
        """Logarithms of the measured tokens per second, shape (points,)."""
        return np.log([point.rate for point in self.points])

    def predicted(self, engine: EngineProfile) -> Array:
        """Return logarithms of the predicted tokens per second, shape (points,)."""
        engines = {ONLY: engine, BARE: of_bare_passes(engine)}
        return np.asarray(np.log(self._record.rates(engines).measured * self._factors))

    def logs(self, coordinates: Sequence[Coordinate], x: Array) -> Array:
        """Return what is predicted at some coordinates, as `predicted` does."""
        return self.predicted(_moved(self.base, coordinates, x))

    def jacobian(self, coordinates: Sequence[Coordinate], x: Array) -> Array:
        """Return the slopes of `logs`, shape (points, coordinates)."""
        here = self.logs(coordinates, x)
        steps = _SLOPE_STEP * np.eye(len(x))
        columns = [(self.logs(coordinates, x + step) - here) / _SLOPE_STEP for step in steps]
        return np.array(columns).reshape(len(x), len(here)).T


def starts(coordinates: Sequence[Coordinate]) -> list[Array]:
    """Return where searches begin: at the profile, and at other shares of the peaks.

    Parameters
    ----------
    coordinates
        What is to be fitted.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.engines.calibration import PARAMETERS, coordinate
    >>> engine = load_hardware("b200").engine("sglang")
    >>> memory, compute = (coordinate(PARAMETERS[at], engine) for at in (4, 5))
    >>> [round(compute.value(x[1]), 2) for x in starts([memory, compute])[:3]]
    [0.73, 0.1, 0.3]
    """
    choices = [
        [figure.first, *map(figure.at, _STARTS.get(figure.parameter.name, ()))]
        for figure in coordinates
    ]
    return [np.array(x) for x in product(*choices)]


def estimate(
    problem: Problem,
    coordinates: Sequence[Coordinate],
    *,
    noise: float = _ORDINARY,
    width: float = 1.0,
    first: Iterable[Array] | None = None,
) -> list[Fit]:
    """Return the optima that searches end in, the best first.

    Parameters
    ----------
    problem, coordinates
        What is to be fitted.
    noise
        The size of an ordinary residual of the logarithm of throughput.
    width
        Of the prior of coordinates that the profile knows; of others it is never below 1.
    first
        Where searches begin; `starts` if None.

    Raises
    ------
    MeasurementError
        Without SciPy.

    Source
        See `specroof.engines.least_squares`.
    """
    measured = problem.measured
    least, most = np.array([figure.bounds for figure in coordinates]).T
    widths = _widths(coordinates, width)
    ends = [
        least_squares(
            lambda x: (problem.logs(coordinates, x) - measured) / noise,
            np.clip(start, least + _INSIDE, most - _INSIDE),
            widths,
            slopes=lambda x: problem.jacobian(coordinates, x) / noise,
            bounds=(least, most),
            f_scale=_OUTLIER,
        )
        for start in (starts(coordinates) if first is None else first)
    ]
    optima: list[Fit] = []
    for end in sorted(ends, key=lambda fit: fit.misfit):
        if all(np.max(np.abs(end.x - fit.x)) > _SAME for fit in optima):
            optima.append(end)
    return optima


def _widths(coordinates: Sequence[Coordinate], width: float) -> Array:
    return np.array([width if figure.is_known else max(width, 1.0) for figure in coordinates])


def noise_of(problem: Problem, coordinates: Sequence[Coordinate]) -> float:
    r"""Return the size of an ordinary residual: the largest that the points leave room for.

    .. math:: \sigma = \sqrt{\sum_i r_i^2 \,/\, \chi^2_{0.2}(n - p)}

    of the n residuals that p coordinates leave when hardly anything holds them, and no more than
    5%. Consistent points are believed; few residuals that are small by chance are not. No point
    too many says nothing of noise: such points are taken at their word.

    Parameters
    ----------
    problem, coordinates
        What is to be fitted.

    Raises
    ------
    MeasurementError
        Without SciPy.

    Source
        The upper limit, at 80%, of a variance that is estimated with n - p degrees of freedom.
    """
    spare = len(problem.points) - len(coordinates)
    if spare <= 0:
        return _SMALLEST
    loose = estimate(problem, coordinates, width=1.0 / _LOOSE)[0]
    left = np.sum((_ORDINARY * loose.residuals) ** 2)
    noise = float(np.sqrt(left / chi_square_quantile(spare, _DOUBT)))
    return float(min(max(noise, _SMALLEST), _ORDINARY))


def prior_width(problem: Problem, coordinates: Sequence[Coordinate], noise: float) -> float:
    r"""Return how far from the profile the points as a whole say that the machine is, at least.

    .. math:: \min \{ w : 2 \log E(w) \ge \max 2 \log E - 1.64 \}, \quad
        E(w) = N(r_0; 0, \sigma^2 I + w^2 J_k J_k^T + J_u J_u^T)

    with the residuals of the profile as it is, usual seconds where it has none, and slopes of
    the coordinates that it knows (k) and of the others (u). Where the profile explains the
    points up to their noise, w is small, and noise moves little; where it does not, w is about
    1 and the points decide.

    Parameters
    ----------
    problem, coordinates
        What is to be fitted.
    noise
        σ, the size of an ordinary residual.

    Ignores
        that predictions are not linear in the coordinates.
    Source
        MacKay 1992, Neural Computation 4(3), "Bayesian interpolation": the evidence. The smallest
        width that the ratio to the likeliest does not refute at 10%, one-sided (Wilks 1938):
        noise may look like another machine, and is to move little all the same.
    """
    x = np.array([figure.first for figure in coordinates])
    known = np.array([figure.is_known for figure in coordinates])
    slopes = problem.jacobian(coordinates, x)
    left = problem.measured - problem.logs(coordinates, x)
    fixed = noise**2 * np.eye(len(left)) + slopes[:, ~known] @ slopes[:, ~known].T
    free = slopes[:, known] @ slopes[:, known].T

    def evidence(width: float) -> float:
        spread = fixed + width**2 * free
        return float(-np.linalg.slogdet(spread)[1] - left @ np.linalg.solve(spread, left))

    likelihoods = np.array([evidence(width) for width in _WIDTHS])
    return float(_WIDTHS[np.argmax(likelihoods >= likelihoods.max() - _REFUTED)])


def uncertainty(
    problem: Problem,
    chosen: Sequence[Coordinate],
    others: Sequence[Coordinate],
    optima: Sequence[Fit],
    *,
    noise: float,
    width: float,
) -> tuple[Array, Array]:
    r"""Return the half-width of the 80 % interval of each figure, and its share of the prior.

    .. math:: C = B \, (A + P S P + G D G^T) \, B, \quad B = (A + P)^{-1}

    with the curvature A of the points, the curvature P of the prior, the variance S of machines
    around a profile, the points' coupling G to figures that are not fitted, and their variance D.
    A half-width is 1.28 standard deviations, or more: it includes every other optimum that a
    likelihood ratio test of that size does not refute.

    Parameters
    ----------
    problem, chosen
        What was fitted.
    others
        Figures that the points determine and that stay as the profile has them.
    optima
        Where searches ended, the best first.
    noise, width
        See `estimate`.

    Returns
    -------
    half_widths, variance_shares
        Shape (chosen,): half-widths, in units of the parameters; and variances, as a share of
        those of machines around a profile: 1 where the points say nothing.

    Source
        The error of a ridge estimate (Hoerl and Kennard 1970, Technometrics 12(1)) whose prior may
        be narrower than the truth is spread; the other optima by their ratio of likelihoods
        (Wilks 1938).
    """
    best, n = optima[0], len(chosen)
    every = [*chosen, *others]
    x = np.array([*best.x, *(figure.at(figure.parameter.start(problem.base)) for figure in others)])
    slopes = problem.jacobian(every, x) / noise
    curved = slopes.T @ (slopes * _weights(best.residuals)[:, None])
    free = np.linalg.pinv(curved + np.eye(len(every)))
    pulled = best.x / _widths(chosen, width)
    pull = np.diag(_weights(pulled) / _widths(chosen, width) ** 2)
    held = np.linalg.pinv(curved[:n, :n] + pull)
    shared, spread = curved[:n, n:], np.maximum(1.0, best.x**2)
    inside = curved[:n, :n] + pull @ np.diag(spread) @ pull + shared @ free[n:, n:] @ shared.T
    variances = np.diag(held @ inside @ held)
    steep = np.array([figure.slope(at) for figure, at in zip(chosen, best.x, strict=True)])
    half_widths = steep * HOLDS_80 * np.sqrt(variances)
    for other in optima[1:]:
        if other.misfit - best.misfit <= HOLDS_80**2 / 2:
            away = [
                abs(figure.value(at) - figure.value(there))
                for figure, at, there in zip(chosen, best.x, other.x, strict=True)
            ]
            half_widths = np.maximum(half_widths, away)
    return half_widths, variances / spread


def _weights(residuals: Array) -> Array:
    """Return the weights of residuals in the curvature of the soft L1 loss."""
    return np.asarray(1.0 / np.sqrt(1.0 + (residuals / _OUTLIER) ** 2))


_LEAST_POINTS: Final = 3
#: A usual change of a parameter that moves predictions by less than this share is not seen.
_UNSEEN: Final = 1e-3
#: The part of a parameter's effect that those before it cannot copy; below, it is not told apart.
_COPIED: Final = 0.05
#: The part of a coordinate by which its effect is looked at.
_STEP: Final = 0.1
#: A figure is hardly more than its prior if more than this share of the prior's variance remains.
_SAYS_LITTLE: Final = 0.5
#: Of seconds per layer and per pass, whose effects are nearly the same, one stands for both: the
#: other, or a draft pass, could not be told apart from the pair.
_STANDS_FOR_IT: Final = {
    ("layer_overhead_s", False): "seconds per pass hold it in this profile",
    ("pass_overhead_s", True): "seconds per layer hold it in this profile",
}
#: Overheads that every engine has; where a profile has none, effects are looked at with usual ones.
_USUAL: Final = ("pass_overhead_s", "sequence_overhead_s")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted figure.

    Parameters
    ----------
    name
        Its key in the hardware file.
    value, error
        What it is now, and half the width of the interval around it that holds the truth in 80 %
        of cases, other optima included; None where points are no more than figures.
    before
        What the profile had.
    is_prior
        Whether the points hardly say more of it than the profile, or a usual value, does.
    """

    name: str
    value: float
    error: float | None
    before: float
    is_prior: bool = False


@dataclass(frozen=True, slots=True)
class Residual:
    """One point beside what the fitted profile predicts for it, in the unit of its rate."""

    point: Measurement
    predicted: float

    @property
    def shown(self) -> float:
        """The prediction as people read it: of a bare pass its seconds."""
        if self.point.pass_s is None:
            return self.predicted
        return self.point.pass_s * self.point.rate / self.predicted

    @property
    def off(self) -> float:
        """How far the prediction is off, as a share of what was measured: a rate, or seconds."""
        return self.shown / (self.point.pass_s or self.point.rate) - 1


@dataclass(frozen=True, slots=True)
class Calibration:
    """An engine profile that was fitted to a benchmark.

    Parameters
    ----------
    engine
        The profile.
    base
        The name of the engine that it started from.
    fitted
        What changed.
    kept
        What stayed, and why.
    residuals
        Each point beside its prediction.
    """

    engine: EngineProfile
    base: str
    fitted: tuple[Fitted, ...]
    kept: tuple[tuple[str, str], ...]
    residuals: tuple[Residual, ...]

    @property
    def mean_error(self) -> float:
        """Mean of what predictions are off, as a share; of the points that were fitted."""
        return mean_error(self.residuals)


def calibrate(
    points: Sequence[Measurement], served: Deployment, drafter: Drafter | None = None
) -> Calibration:
    """Return the profile that fits a benchmark best; what it cannot determine stays as it was.

    Parameters
    ----------
    points
        At least three, of one model on one placement.
    served
        What was measured, where; its engine is the one to start from.
    drafter
        What made the drafts, where some points have any.

    Raises
    ------
    MeasurementError
        For fewer than three points, points that determine nothing, or what `ideal_rates` refuses.

    Source
        Soft-L1 least squares on the logarithm of throughput, searched from several starts and
        held near the profile (`specroof.engines.calibration`); parameters are told apart by
        Gram-Schmidt over the columns of the Jacobian.
    """
    if len(points) < _LEAST_POINTS:
        message = f"{len(points)} points cannot determine overheads; at least 3 are needed"
        raise MeasurementError(message)
    ideal_rates(points, served, drafter)  # refuses what cannot be
    problem = Problem(points, served, drafter)
    determined, kept = _determined(problem)
    if not determined:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in kept)
        message = f"{len(points)} points determine nothing ({reasons})"
        raise MeasurementError(message)
    engine, fitted, left = _solved(problem, determined, kept)
    if problem.simulated_in(engine):
        engine, fitted, left = _solved(problem, determined, kept)
    engine, steps, reason = _with_steps(engine, points, served, drafter)
    # What passes are made of depends on the kernels.
    own = replace(served, setup=replace(served.setup, engine=engine))
    rates = predicted_tokens_per_s(points, own, drafter)
    residuals = tuple(Residual(*pair) for pair in zip(points, rates.tolist(), strict=True))
    # What its base was off says nothing about it, but for bands, which nothing else sets.
    bands = {name: widened(band, residuals) for name, band in engine.bands.items()}
    served_bands = {
        figure: {name: widened(band, residuals) for name, band in cells.items()}
        for figure, cells in engine.served_bands.items()
    }
    # It was timed in the release that is asked for.
    reach = engine.reach and replace(engine.reach, speedup_drift=0.0, drift=0.0)
    engine = replace(
        engine, expected_error=None, bands=bands, served_bands=served_bands, reach=reach
    )
    # Steps leave what is no arithmetic less time.
    now = {parameter.name: parameter.start(engine) for parameter in PARAMETERS}
    return Calibration(
        engine=engine,
        base=problem.base.name,
        fitted=(*(replace(figure, value=now[figure.name]) for figure in fitted), *steps),
        kept=(*left, *([("row_kernels", reason)] if reason else [])),
        residuals=residuals,
    )


def _determined(problem: Problem) -> tuple[list[Coordinate], list[tuple[str, str]]]:
    """Return what the points determine, and why they do not determine the rest.

    A figure is determined if it is at one of the places where searches begin: where memory binds,
    points say nothing of a share of the peak in FLOP/s that they would refute if it were a fifth.
    """
    determined: list[Coordinate] = []
    kept: list[tuple[str, str]] = []
    start = _start(problem.base)
    every = [coordinate(parameter, problem.base) for parameter in PARAMETERS]
    if problem.base.row_kernels:
        # Seconds of a pass are no stand-in for the bytes of a machine that nobody has measured: a
        # drafter's passes have few bytes and the same overheads.
        every.sort(key=lambda figure: not figure.parameter.is_share)
    shares = [figure for figure in every if figure.parameter.is_share]
    places = [start, *(_moved(start, shares, x) for x in starts(shares)[1:])]
    here = [problem.predicted(place) for place in places]
    bases: list[list[Array]] = [[] for _ in places]
    for figure in every:
        parameter = figure.parameter
        step = _STEP * figure.slope(figure.first)
        columns, rests = [], []
        for place, now, basis in zip(places, here, bases, strict=True):
            moved = parameter.apply(place, parameter.start(place) + step)
            column = (problem.predicted(moved) - now) / _STEP
            columns.append(column)
            rests.append(column - sum((unit * (unit @ column) for unit in basis), 0 * column))
        reason = _why_not(figure, problem, len(determined), columns, rests)
        if reason:
            kept.append((parameter.name, reason))
            continue
        determined.append(figure)
        for rest, basis in zip(rests, bases, strict=True):
            basis.append(rest / (np.linalg.norm(rest) or 1.0))
    return determined, kept


def _moved(engine: EngineProfile, coordinates: Sequence[Coordinate], x: Array) -> EngineProfile:
    """Return a profile with its figures at some coordinates."""
    for figure, at in zip(coordinates, x.tolist(), strict=True):
        engine = figure.parameter.apply(engine, figure.value(at))
    return engine


def _start(engine: EngineProfile) -> EngineProfile:
    """Return the profile with overheads that are usual, where it has none."""
    for parameter in PARAMETERS:
        if parameter.name in _USUAL and parameter.start(engine) == 0:
            engine = parameter.apply(engine, parameter.typical)
    return engine


def _why_not(
    figure: Coordinate,
    problem: Problem,
    n_before: int,
    columns: Sequence[Array],
    rests: Sequence[Array],
) -> str | None:
    """Return why the points do not determine a parameter; None if they do."""
    parameter, base = figure.parameter, problem.base
    if parameter.needs_drafts and not any(point.drafts for point in problem.points):
        return "no point has drafts"
    if getattr(base, parameter.name) is None:
        return "the profile uses the seconds of the target's passes instead"
    reason = _STANDS_FOR_IT.get((parameter.name, base.layer_overhead_s > 0))
    if reason:
        return reason
    least = max(parameter.least_points, n_before + 1)
    if len(problem.points) < least:
        return f"needs {least} points, has {len(problem.points)}"
    seen = [float(np.sqrt(np.mean(column**2))) >= _UNSEEN for column in columns]
    if not any(seen):
        return "the points hardly depend on it"
    separate = [
        np.linalg.norm(rest) >= _COPIED * np.linalg.norm(column)
        for rest, column in zip(rests, columns, strict=True)
    ]
    told_apart = np.logical_and(seen, separate).any()
    return None if told_apart else "the points cannot tell it from those before it"


def _solved(
    problem: Problem, determined: Sequence[Coordinate], kept: Sequence[tuple[str, str]]
) -> tuple[EngineProfile, list[Fitted], list[tuple[str, str]]]:
    """Return the fit of what the points determine, as far as each figure earns its place."""
    noise = noise_of(problem, determined)
    width = prior_width(problem, determined, noise)
    # What three points fit, and what the profile knows, or a first figure where it knows nothing;
    # the prior holds the latter.
    chosen = [
        figure
        for figure in determined
        if figure.is_known or figure.parameter.least_points == _LEAST_POINTS
    ] or [determined[0]]
    dropped: list[Coordinate] = []
    optima = estimate(problem, chosen, noise=noise, width=width)
    for figure in determined:
        if figure in chosen:
            continue
        # Only shares of peaks have no slope where the other one binds.
        from_here = [np.append(fit.x, figure.first) for fit in optima]
        first = None if figure.parameter.is_share else from_here
        wider = estimate(problem, [*chosen, figure], noise=noise, width=width, first=first)
        # Schwarz 1978: a further figure must lower the misfit by more than noise would let it.
        if 2 * (optima[0].misfit - wider[0].misfit) > np.log(len(problem.points)):
            chosen, optima = [*chosen, figure], wider
        else:
            dropped.append(figure)
    unfitted = [
        (figure.parameter.name, "the fit is no better with it than noise would make it")
        for figure in dropped
    ]
    errors, shares = uncertainty(problem, chosen, dropped, optima, noise=noise, width=width)
    spare, columns = len(problem.points) > len(chosen), (optima[0].x, errors, shares)
    fitted = [
        Fitted(
            figure.parameter.name,
            figure.value(x),
            error if spare else None,
            figure.parameter.start(problem.base),
            is_prior=share > _SAYS_LITTLE,
        )
        for figure, x, error, share in zip(chosen, *(c.tolist() for c in columns), strict=True)
    ]
    return _moved(problem.base, chosen, optima[0].x), fitted, [*kept, *unfitted]


def _with_steps(
    engine: EngineProfile,
    points: Sequence[Measurement],
    served: Deployment,
    drafter: Drafter | None,
) -> tuple[EngineProfile, list[Fitted], str]:
    """Return an engine with a kernel for each number of rows, if passes of a few cost in steps.

    Parameters
    ----------
    engine
        The smooth fit.
    points, served, drafter
        What it was fitted to, of what, where. Bare passes count, and decoding of software for one
        user, in engines whose kernels go by rows: others are padded to what their graphs captured.

    Returns
    -------
    engine, fitted, reason
        The engine, shares of its kernels, and why it has none of its own: empty where it has, or
        where no two numbers of rows were timed.

    Source
        `specroof.engines.row_steps`; steps instead of a line by Schwarz 1978, with noise of 5%.
    """
    few = [
        point
        for point in points
        if engine.row_kernels
        and not (point.drafts or point.includes_prefill)
        and (point.method == STEP or point.engine in LOCAL_FRAMEWORKS)
        and point.rows <= FEW_ROWS
    ]
    rows = np.array([point.rows for point in few])
    n_steps = len(np.unique(rows))
    if n_steps <= 1:
        return engine, [], ""
    measured = np.log([point.rate for point in few])

    def predicted(tried: EngineProfile) -> Array:
        own = replace(served, setup=replace(served.setup, engine=tried))
        return np.asarray(np.log(predicted_tokens_per_s(few, own, drafter)))

    misfit = float(np.sum((predicted(engine) - measured) ** 2)) / _ORDINARY**2
    if misfit <= n_steps * math.log(len(points)):
        return engine, [], "the fit is no better with steps of rows than noise would make it"
    kernels = engine.row_kernels
    engine = with_row_kernels(engine, rows, measured, predicted)
    fitted = [
        Fitted(f"row_kernels.{name}", kernel.compute_frac, None, before)
        for name, kernel in engine.row_kernels.items()
        if (before := kernel_of(kernels, kernel).compute_frac) != kernel.compute_frac
    ]
    return engine, fitted, ""


def widened(band: Band, residuals: Sequence[Residual]) -> Band:
    """Return a band that holds 80 % of a profile's own points, too.

    Parameters
    ----------
    band
        Of the engine that the profile started from.
    residuals
        The points beside what the profile predicts.

    Counts
        throughput that is off as if it were a speedup that is.
    Source
        The choice of this library: a profile is no surer of others than of its own points.

    Examples
    --------
    >>> point = Measurement(place="mine", tokens_per_s=100.0)
    >>> known = Band(width=0.1, mean_error=0.05, points=200)
    >>> widened(known, [Residual(point, 101.0)]) == known
    True
    >>> own = widened(known, [Residual(point, 150.0)] * 3)
    >>> round(own.width, 3), own.mean_error, own.points  # ln 1.5
    (0.405, 0.5, 3)
    """
    width = float(
        np.quantile(np.abs(np.log1p([residual.off for residual in residuals])), BAND_SHARE)
    )
    if width <= band.width:
        return band
    return replace(
        band, width=width, mean_error=mean_error(residuals), points=len(residuals), engines={}
    )


def mean_error(residuals: Sequence[Residual]) -> float:
    """Return how far predictions are off on average, as a share of what was measured."""
    return float(np.mean([abs(residual.off) for residual in residuals]))
