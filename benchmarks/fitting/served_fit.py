"""Factors of servers and families of chips: fitted to served loads, and to all other measurements.

What all share is fitted first (`fitting.shared_fit`) and stays. A server on a family of chips then
has, of each of `FACTORS`, a factor of its server, one of its family and one of both; all are held
near 1, so that few loads move them little and a server without loads has those of its family.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, filterfalse
from operator import attrgetter
from typing import Final, TypeAlias

import numpy as np

from fitting.kernels import FORMER, KERNEL_ENGINE
from fitting.parameters import (
    ALL,
    ENGINES,
    EVERYONE,
    FACTORS,
    FACTORS_BESIDE_ROUNDS,
    FAMILIES,
    FITTED_BESIDE_ROUNDS,
    PREFILL_LAUNCH,
    SERVERS,
    TOKENIZE_S,
    chip_family,
    family_of,
)
from fitting.shared_fit import NOT_FITTED, Points, engine_of, in_processes, place_of
from specroof.arrays import Array, grouped
from specroof.cost import ForwardPass
from specroof.engines.record import Tape
from specroof.evidence import Measurement, base_model, load_served
from specroof.evidence.measurement import chip_of
from specroof.hardware.engine import EngineProfile
from specroof.latency.model import model_work
from specroof.scoring.bands import FULL_POINTS
from specroof.scoring.left_out import SERVED_GROUPS, left_out_name, served_group, served_of
from specroof.scoring.served import SETUP, implausible, launches_prompts, mean_request, plain_scores
from specroof.serving.capacity import prefill_rules
from specroof.serving.prefills import RequestLoad, end_to_end_tokens_per_s, request_timing
from specroof.serving.workload import prefill_pass

#: What an ordinary residual of a served load is.
_ORDINARY: Final = 0.08
#: What TTFT counts for beside TPOT, and up to how many requests in flight: beyond, it is made by
#: the clients' start more than by the server (up to 64, TTFT is worse, models left out). With 0.7
#: TTFT is 0.4 % nearer and TPOT 0.1 % farther, on AMD's chips 0.5 %.
_TTFT_WEIGHT: Final = 0.5
_TTFT_CONCURRENCY: Final = 8
#: The longest prompts that are over before the host has launched them.
_LAUNCHED_TOKENS: Final = 1024
#: What a source of trust 3 counts for beside one of trust 2: versions mixed, answers of 128 tokens.
_LESS_TRUSTED: Final = 0.5
#: How far, in logarithms, factors may be taken to lie from 1: of all; of a server or a family; of a
#: pair of both. Of twelve sets that were tried 0.7 of all and 0.15 left the least error of tokens
#: per second, models left out. With 0.35 of all, fits agree better on what a layer, a sequence and
#: an all-reduce take: without gpt-oss 1.1, 1.4 and 0.7 times as much as without other models, where
#: they took 1.3, 2.3 and 0.4 times as much.
_SPREADS: Final = (0.35, 0.15, 0.15)
#: How much farther some of servers, families and pairs may, and which: schedulers of prompts and
#: kernels of experts are a server's own. Without it TTFT of up to four clients is 33 % off, with it
#: 27 %; speedups of SpecBundle's models of 30B with experts are 6.6 % off, and 6.0 %.
_FARTHER: Final = 2.5
_FAR: Final = ("request", "latency", "prefill_kernel", "prefill", "experts_s")
#: How often slopes are taken at most, steps that have the same ones, and the share of the misfit
#: that they have to gain together: the fits without a group must have come to their end.
_STEPS: Final = 20
_SAME_SLOPES: Final = 4
_SMALL_GAIN: Final = 3e-5
_SLOPE: Final = 1e-3

#: A server, and a family of chips.
Pair: TypeAlias = tuple[str, str]
PAIRS: Final[tuple[Pair, ...]] = tuple(
    (server, family) for server, families in SERVERS.items() for family in families
)
#: Whose factors there are: of servers, of families, of pairs.
_WHOSE: Final = (
    EVERYONE,
    *SERVERS,
    *dict.fromkeys(family for _, family in PAIRS),
    *(" ".join(pair) for pair in PAIRS),
)


def _width(whose: str, name: str) -> float:
    """Return how far from 1 a factor may lie, as a logarithm."""
    if whose == EVERYONE:
        return _SPREADS[0]
    return _SPREADS[1 + (" " in whose)] * (_FARTHER if name in _FAR else 1.0)


#: The same of all, shape (whose, factors).
_WIDTHS: Final = np.array([[_width(whose, name) for name in FACTORS] for whose in _WHOSE])
#: Which of them a pair has, shape (pairs, whose).
_HAS: Final = np.array(
    [[whose in {EVERYONE, *pair, " ".join(pair)} for whose in _WHOSE] for pair in PAIRS]
)


def of_former(point: Measurement) -> bool:
    """Tell whether a former release of its server served a load, by what the profiles are made of.

    Scores ask the profile that came of it: `specroof.scoring.left_out.of_former_release`.
    """
    if point.engine == KERNEL_ENGINE:
        return FORMER.has(point.engine_version, point.date)
    return launches_prompts(point)


def pair_of(point: Measurement) -> int:
    """Return the place among `PAIRS` of the server and the chip of a measurement."""
    return PAIRS.index((point.engine or "", chip_family(chip_of(point.hardware or ""))))


def served_engine(
    server: str,
    chip: str,
    parameters: Mapping[str, float],
    beside_rounds: Collection[str] = FACTORS_BESIDE_ROUNDS,
) -> EngineProfile:
    """Return the profile of a server on a chip.

    Parameters
    ----------
    server
        One of `SERVERS`.
    chip
        A chip of one of its families.
    parameters
        Fitted ones.
    beside_rounds
        See `fitted_engine`.
    """
    return engine_of((server, place_of(server, chip), False), parameters, beside_rounds)


class _Group:
    """Loads of one model in one set-up, which differ in their clients."""

    def __init__(self, loads: Sequence[Measurement], engine: EngineProfile) -> None:
        first, n, work = loads[0], len(loads), mean_request(loads[0])
        self.engine, self.size = load_place(first), n
        self.served = served_of(first, engine)
        self.prompt, self.answer = work.input_len, work.output_len
        self.running = np.array([load.concurrency or 1.0 for load in loads])
        self._decode = ForwardPass(self.running, 1.0, work.mean_context_len)
        load = RequestLoad(
            new_len=self.prompt,
            output_len=self.answer,
            running=self.running,
            context_len=work.mean_context_len,
            verify_len=np.ones(n),
            tokens_per_round=np.ones(n),
        )
        self._timing = request_timing(load, prefill_rules(self.served))

    def timed(self, passes: Callable[..., Array], engine: EngineProfile) -> Array:
        """Return TPOT and TTFT, shape (2, loads)."""
        decode_s = passes(self.served, self._decode)
        times = self._timing(
            self.served, passes, np.broadcast_to(decode_s, self.running.shape), engine
        )
        lost_s = engine.lost_s(self.prompt)
        rate = end_to_end_tokens_per_s(
            self.running,
            times.token_s,
            wait_s=times.wait_s,
            output_len=self.answer,
            latency_s=lost_s,
        )
        first_s = times.first_s + lost_s
        tpot_s = (self.running * self.answer / rate - first_s) / (self.answer - 1)
        return np.stack(np.broadcast_arrays(tpot_s, first_s, self.running)[:2])


#: A server, a chip, and whether its releases are former ones.
Place: TypeAlias = tuple[str, str, bool]


def load_place(load: Measurement) -> Place:
    """Return what a load has its profile by."""
    return load.engine or "", load.hardware or "", of_former(load)


def place_engine(place: Place, parameters: Mapping[str, float]) -> EngineProfile:
    """Return the profile of a place, as served loads are fitted with it."""
    server, chip, former = place
    engine = served_engine(server, chip, parameters, FITTED_BESIDE_ROUNDS)
    if former and server == KERNEL_ENGINE:
        return engine.served_by(FORMER.last)
    launch_s = parameters.get(PREFILL_LAUNCH, 0.0)  # what all share is fitted without it
    return replace(engine, prefill_launch_s=launch_s) if former else engine


class ServedPoints:
    """Served loads without drafts as a fit sees them: the passes behind them, recorded once.

    Parameters
    ----------
    loads
        Of servers and chips that have a profile; lengths and clients are stated.
    parameters
        Any: which passes there are depends on none.
    """

    def __init__(self, loads: Sequence[Measurement], parameters: Mapping[str, float]) -> None:
        self._places = dict.fromkeys(map(load_place, loads))
        engines = {place: place_engine(place, parameters) for place in self._places}
        setups = grouped(loads, lambda load: (SETUP(load), of_former(load))).values()
        self._tape = Tape([_Group(members, engines[load_place(members[0])]) for members in setups])
        self.loads = [*chain.from_iterable(setups)]
        self.pair = np.array([pair_of(load) for load in self.loads])
        tpot_s, ttft_s = (
            np.array([getattr(load, name) or np.nan for load in self.loads])
            for name in ("tpot_s", "ttft_s")
        )
        self.measured = np.log(np.stack([tpot_s, ttft_s])) - _played_over_steady(self.loads)
        alike = [(base_model(load), load.hardware, load.engine) for load in self.loads]
        sizes = Counter(alike)
        share = np.array([min(1.0, FULL_POINTS / sizes[key]) ** 0.5 for key in alike])
        share *= np.where([(load.trust or 0) > 2 for load in self.loads], _LESS_TRUSTED, 1.0)
        early = np.array([(load.concurrency or 1) <= _TTFT_CONCURRENCY for load in self.loads])
        weight = np.stack([share, share * early * _TTFT_WEIGHT]) / _ORDINARY
        self._weight = np.where(np.isfinite(self.measured), weight, 0.0)

    def off(self, parameters: Mapping[str, float]) -> Array:
        """Return predicted over measured TPOT and TTFT as logarithms, shape (2, loads)."""
        engines = {place: place_engine(place, parameters) for place in self._places}
        parts = [seconds for _, seconds in self._tape.timed(engines)]
        return np.asarray(np.log(np.concatenate(parts, axis=1)) - self.measured)

    def residuals(self, parameters: Mapping[str, float]) -> Array:
        """Return what predictions are off in units of the noise, TPOT first; shape (2 loads,)."""
        return np.asarray(np.nan_to_num(self.off(parameters)) * self._weight).ravel()


def _played_over_steady(loads: Sequence[Measurement]) -> Array:
    """Return how much longer tokens take in loads that are played through than in closed form.

    Fits time loads in closed form, which knows neither a queue of clients that begin together nor
    first tokens that are late; questions are answered by plays. Their ratios differ little between
    fits.

    Parameters
    ----------
    loads
        Without drafts.

    Returns
    -------
    Array
        The logarithms of the ratios of TPOT and TTFT, shape (2, loads), by the stored fits that
        had not seen the model; 0 where it was not measured.
    """

    def off(*, played: bool) -> Array:
        scores = plain_scores(loads, "model", played=played)
        seen = {score.point.place: score.off for score in scores}
        names = ("tpot_s", "ttft_s")
        return np.array(
            [[seen.get(load.place, {}).get(name, 0.0) for load in loads] for name in names]
        )

    return off(played=True) - off(played=False)


def factors_at(x: Array) -> dict[str, float]:
    """Return the factors at coordinates of shape (whose x `FACTORS`)."""
    logs = x.reshape(_WIDTHS.shape) * _WIDTHS
    return {
        f"{name} of {whose}": float(np.exp(logs[row, column]))
        for row, whose in enumerate(_WHOSE)
        for column, name in enumerate(FACTORS)
    }


def _of_all(pair: Array, steep: Array, weight: Array, off: Array) -> tuple[Array, Array]:
    """Return curvature and slope of half the squares over all coordinates.

    Parameters
    ----------
    pair
        The pair of each residual, shape (residuals,).
    steep
        Slopes of the factors of its pair, shape (residuals, factors).
    weight, off
        Of each residual, shape (residuals,).
    """
    factors = np.arange(len(FACTORS))
    curved, down = np.zeros((*_WIDTHS.shape, *_WIDTHS.shape)), np.zeros(_WIDTHS.shape)
    for place, has in enumerate(_HAS):
        rows, whose = pair == place, np.flatnonzero(has)
        own = steep[rows]
        down[whose] += own.T @ (weight[rows] * off[rows])
        every = np.ix_(whose, factors, whose, factors)
        curved[every] += ((own * weight[rows, None]).T @ own)[:, None, :]
    wide = _WIDTHS.ravel()
    return curved.reshape(len(wide), -1) * np.outer(wide, wide), down.ravel() * wide


def fit_factors(
    shared: Mapping[str, float],
    served: ServedPoints,
    drafted: Points,
    without: Callable[[Measurement], bool],
) -> dict[str, float]:
    """Return the factors that fit served loads and other measurements best.

    Every fit begins with all factors at 1: one that began where the fit to all ends would know
    some of what it leaves out. Slopes of a factor are those of its pair, which all pairs have at
    once, as no load is of two.

    Parameters
    ----------
    shared
        What all share.
    served, drafted
        The loads, and the points that `shared` was fitted to.
    without
        Tells which of both do not count.

    Source
        Maximum a posteriori with a normal prior on the logarithm of each factor and Cauchy's loss,
        under which a model whose kernels are like no others' moves what others share little:
        Gauss-Newton steps on reweighted squares, damped as by Levenberg 1944, Q. Appl. Math. 2(2).
    """
    drafted.learn_scale(shared)
    counts = np.tile([not without(load) for load in served.loads], 2)
    weights = drafted.weights * [not without(point) for point in drafted.points]
    pair = np.concatenate([served.pair, served.pair, [pair_of(point) for point in drafted.points]])

    def at(x: Array) -> dict[str, float]:
        return {**shared, **factors_at(x)}

    def residuals(x: Array) -> Array:
        loads = served.residuals(at(x)) * counts
        return np.concatenate([loads, drafted.residuals(at(x)) * weights])

    def slopes(x: Array, base: Array) -> Array:
        """Return those of the factors of its pair, shape (residuals, factors)."""
        here, columns = at(x), np.zeros((len(base), len(FACTORS)))
        for column, name in enumerate(FACTORS):
            moved = dict(here)
            for server, family in PAIRS:
                moved[f"{name} of {server} {family}"] *= np.exp(_SLOPE)
            there = base.copy()
            there[: len(counts)] = served.residuals(moved) * counts
            if name in FITTED_BESIDE_ROUNDS:
                there[len(counts) :] = drafted.residuals(moved) * weights
            columns[:, column] = (there - base) / _SLOPE
        return columns

    def misfit(x: Array, off: Array) -> float:
        return float(np.log1p(off**2).sum() + x @ x)

    x, damping = np.zeros(_WIDTHS.size), 1e-3
    off = residuals(x)
    least = before = misfit(x, off)
    for _ in range(_STEPS):
        steep = slopes(x, off)
        for _ in range(_SAME_SLOPES):
            weight = 1 / (1 + off**2)  # what holds factors near 1 does not weigh less
            curved, down = _of_all(pair, steep, weight, off)
            curved += np.eye(len(x))
            curved += damping * np.diag(np.diag(curved))
            there = x - np.linalg.solve(curved, down + x)
            found = residuals(there)
            if misfit(there, found) >= least:
                damping *= 10
                break
            x, off, least, damping = there, found, misfit(there, found), damping / 4
        if 0 < before - least < _SMALL_GAIN * least:
            break
        before = least
    return factors_at(x)


def prefill_launch_s(loads: Iterable[Measurement], shared: Mapping[str, float]) -> float:
    """Return the seconds of a call in which a host launches a pass over prompts.

    SGLang 0.5.9 on H200 answers prompts of 1024 tokens for DeepSeek-R1 after 148 to 183 ms, be
    there 4 or 64 clients, and after 85 ms in 0.5.12, whose graphs hold passes over prompts. Prompts
    of 8192 tokens take as long in both. TensorRT-LLM, which has no such graphs unless it is asked
    for them, is as slow.

    Parameters
    ----------
    loads
        Those that count.
    shared
        What all share.

    Returns
    -------
    float
        The median over models of the lower quartile over loads whose short prompts are of several
        lengths, so that their clients are not in step: others wait for more than launches. 0
        without one.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for load in loads:
        launched = load.engine == KERNEL_ENGINE or launches_prompts(load)
        prompt = (1 + load.shortest) / 2 * (load.input_len or math.inf)
        few = (load.concurrency or 1) <= _TTFT_CONCURRENCY and prompt <= _LAUNCHED_TOKENS
        if not (launched and few and load.shortest < 1 and load.ttft_s):
            continue
        served = served_of(load, served_engine(load.engine or "", load.hardware or "", shared))
        launches = model_work(served.model, served.setup, prefill_pass(prompt)).shape.launches
        latency_s = shared["request_latency_s"] + prompt * TOKENIZE_S
        if launches:
            found[base_model(load)].append((load.ttft_s - latency_s) / float(launches))
    return float(np.median([np.quantile(each, 0.25) for each in found.values()])) if found else 0.0


def fit_without(
    own: Mapping[str, float],
    shared: Mapping[str, float],
    served: ServedPoints,
    drafted: Points,
    without: Callable[[Measurement], bool],
) -> dict[str, float]:
    """Return a fit with the factors of servers, of what is left.

    Parameters
    ----------
    own, shared
        What all share: by the fit without the same, and by that to all, which says how long
        launches wait.
    served, drafted, without
        As of `fit_factors`.
    """
    counted = filterfalse(without, served.loads)
    start = {**own, PREFILL_LAUNCH: prefill_launch_s(counted, shared)}
    factors = fit_factors(start, served, drafted, without)
    return {**start, **{key: float(f"{factor:.4g}") for key, factor in factors.items()}}


def fitted_loads() -> list[Measurement]:
    """Return the served loads that are fitted to: of known lengths, on servers of `PAIRS`."""
    return [
        load
        for load in load_served()
        if not load.drafts
        and load.input_len
        and load.output_len
        and (load.engine or "") in SERVERS
        and family_of(chip_of(load.hardware or "")) in SERVERS[load.engine or ""]
        and implausible(load) is None
    ]


def with_factors(
    fits: Mapping[str, Mapping[str, float]], measurements: Sequence[Measurement]
) -> dict[str, dict[str, float]]:
    """Return fits with the factors of servers, and fits without groups of served loads.

    Parameters
    ----------
    fits
        What all share: fitted to all measurements, and without each source, family and engine.
    measurements
        Those that they were fitted to.

    Returns
    -------
    dict
        By the name of a fit; of groups of served loads, their models, chips and servers, by
        `specroof.scoring.left_out.served_group`.
    """
    drafted = Points(
        [point for point in measurements if point.method not in NOT_FITTED], FITTED_BESIDE_ROUNDS
    )
    shared = fits[ALL]
    served = ServedPoints(fitted_loads(), shared)

    # What each fit leaves out: its name, what groups measurements, and the group.
    tasks: list[tuple[str, Callable[[Measurement], object], object]] = [(ALL, id, None)]
    sources = dict.fromkeys(point.source for point in measurements)
    tasks += [(source, attrgetter("source"), source) for source in sources]
    tasks += [
        (left_out_name(family=family), lambda point: PAIRS[pair_of(point)][1], family)
        for family in FAMILIES
    ]
    tasks += [(left_out_name(engine=engine), attrgetter("engine"), engine) for engine in ENGINES]
    for by in SERVED_GROUPS:
        group_of = partial(served_group, by=by)
        tasks += [(group, group_of, group) for group in dict.fromkeys(map(group_of, served.loads))]

    def fitted(task: int) -> dict[str, float]:
        name, group, left_out = tasks[task]
        return fit_without(
            fits.get(name, shared), shared, served, drafted, lambda point: group(point) == left_out
        )

    found = in_processes(fitted, len(tasks))
    return {name: fit for (name, _, _), fit in zip(tasks, found, strict=True)}
