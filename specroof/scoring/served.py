"""Published loads of servers beside predictions: TPOT, throughput, TTFT, and what drafts change.

Clients run in a closed loop. Where lengths are drawn from a range, their mean is predicted. The
server runs all requests that the clients keep in flight, and the rest waits where memory is short.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, compress
from operator import attrgetter, itemgetter
from typing import Final, TypeAlias

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array, IntArray, grouped
from specroof.catalog import load_drafter
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import SpecroofError
from specroof.evidence import (
    Measurement,
    acceptance_of,
    base_model,
    drafter_of,
    load_served,
    request_lengths,
)
from specroof.evidence.measurement import chip_of, model_of
from specroof.frameworks import version_parts
from specroof.hardware.engine import CONCURRENCY_ENDS, EngineProfile, ServerSettings
from specroof.latency.setup import Deployment
from specroof.scoring.left_out import (
    SERVED_GROUPS,
    ServedGroup,
    left_out_served,
    of_former_release,
    served_of,
)
from specroof.serving.capacity import in_server, prefill_rules
from specroof.serving.pass_prices import pass_prices
from specroof.serving.played import play
from specroof.serving.prefills import end_to_end
from specroof.serving.served import served_curve
from specroof.serving.workload import Load, Workload, closed_loop
from specroof.speedup.result import SpeedupCurve

#: What is compared: fields of a measurement, and of drafted loads TPOT over that without drafts.
TPOT_RATIO: Final = "tpot_ratio"
FIGURES: Final = ("tpot_s", q.TOKENS_PER_S.name, "ttft_s")
QUANTITIES: Final = (*FIGURES, TPOT_RATIO)


@dataclass(frozen=True, slots=True)
class ServedScore:
    """One load beside its prediction.

    Parameters
    ----------
    point
        The load.
    off
        Predicted over measured as a natural logarithm, by the names of `QUANTITIES`; no entry for
        what the source does not print.
    unseen
        Whether the profile was fitted without the load's group.
    """

    point: Measurement
    off: Mapping[str, float]
    unseen: bool


@dataclass(frozen=True, slots=True)
class ServedErrors:
    """Errors over some loads, as shares of what was measured.

    Parameters
    ----------
    n
        Loads.
    mean, median, p90
        Of the errors without their sign.
    bias
        The median with it: below zero the prediction is smaller than what was measured.
    """

    n: int
    mean: float
    median: float
    p90: float
    bias: float


#: Errors by the names of `QUANTITIES`; None of what no source prints.
Totals: TypeAlias = Mapping[str, ServedErrors | None]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A source whose TPOT residuals disagree with all others.

    Parameters
    ----------
    source
        Its table.
    offset
        Median residual, the median of the other sources in the same group taken out: a natural
        logarithm.
    scatter
        Robust standard deviation of its residuals around the medians of its own groups.
    offset_bound, scatter_bound
        The largest that count as agreement.
    """

    source: str
    offset: float
    scatter: float
    offset_bound: float
    scatter_bound: float

    @property
    def excess(self) -> float:
        """How many times its bound the offset or the scatter is, whichever is more."""
        least = np.finfo(float).tiny  # no scatter at all: any offset disagrees
        return max(
            abs(self.offset) / max(self.offset_bound, least),
            self.scatter / max(self.scatter_bound, least),
        )


@dataclass(frozen=True, slots=True)
class ServedValidation:
    """What predictions of served loads are worth.

    Parameters
    ----------
    scores
        Every load that could be scored.
    left_out
        Every other load, and why.
    disagreeing
        Sources that are reported here, and in no total.
    other_totals
        Totals of the same loads by profiles that have not seen the ``"family"`` of their chip,
        their ``"chip"`` or ``"engine"``, where such profiles are stored, and by those that ship,
        ``"shipped"``, which have seen them; ``"played"`` through and ``"played as shipped"``,
        where that was asked for.
    played
        Loads without drafts that were played through, where that was asked for.
    """

    scores: tuple[ServedScore, ...] = ()
    left_out: tuple[tuple[Measurement, str], ...] = ()
    disagreeing: tuple[Disagreement, ...] = ()
    other_totals: Mapping[str, Totals] = field(default_factory=dict)
    played: tuple[ServedScore, ...] = ()

    @property
    def counted(self) -> list[ServedScore]:
        """The loads of sources that agree with the others."""
        names = {found.source for found in self.disagreeing}
        return [score for score in self.scores if score.point.source not in names]

    @property
    def total(self) -> Totals:
        """The errors of each quantity over the sources that agree."""
        return served_errors(self.counted)

    @property
    def in_sample(self) -> int:
        """Loads whose profile was fitted to others of their group."""
        return sum(not score.unseen for score in self.counted)

    @property
    def sources(self) -> dict[str, Totals]:
        """The errors by source, those that disagree too."""
        return _by(self.scores, attrgetter("source"))

    @property
    def groups(self) -> dict[str, dict[str, Totals]]:
        """The errors by framework and chips, format, placement, prompt, load and version."""
        return served_groups(self.counted)


def served_groups(scores: Sequence[ServedScore]) -> dict[str, dict[str, Totals]]:
    """Return the errors by framework and chips, model, format, placement, prompt, load, version."""
    return {name: _by(scores, label) for name, label in _GROUPS.items()}


def served_errors(scores: Iterable[ServedScore]) -> Totals:
    """Return the errors over some loads by quantity; None where no source prints it.

    Examples
    --------
    >>> point = load_served()[0]
    >>> scores = [ServedScore(point, {"tpot_s": math.log(share)}, True) for share in (0.8, 1.1)]
    >>> errors = served_errors(scores)["tpot_s"]
    >>> round(errors.mean, 3), round(errors.bias, 3), served_errors(scores)["ttft_s"]
    (0.15, -0.05, None)
    """
    scores = list(scores)
    return {
        name: errors_over([score.off[name] for score in scores if name in score.off])
        for name in QUANTITIES
    }


def errors_over(off: Sequence[float]) -> ServedErrors | None:
    """Return errors of predicted over measured figures, as logarithms; None without any."""
    if not off:
        return None
    signed = np.expm1(off)
    errors = np.abs(signed)
    return ServedErrors(
        n=len(off),
        mean=float(np.mean(errors)),
        median=float(np.median(errors)),
        p90=float(np.quantile(errors, 0.9)),
        bias=float(np.median(signed)),
    )


# --- Groups of loads -----------------------------------------------------------------------------

#: The longest prompt of each band; there is one more band above.
_PROMPTS: Final = (1024, 4096, 8192)


def chip_family(point: Measurement) -> str:
    """Return the family of chips that a load ran on; the chip where no family is fitted."""
    chip = point.hardware or ""
    return chip_of(chip).fitted_family or chip


@cache
def served_format(model: str, quantization: str | None) -> str:
    """Return the format that a model is served in: most bytes of the checkpoint, or as stated.

    Examples
    --------
    >>> served_format("openai/gpt-oss-120b", None), served_format("Qwen/Qwen3-32B", "nvfp4")
    ('mxfp4', 'nvfp4')
    """
    return quantization or model_of(model).weight_format


def _placement(point: Measurement) -> str:
    splits = {
        "tp": point.tensor_parallel,
        "ep": point.expert_parallel,
        "dp-attention": point.attention_data_parallel,
    }
    return " ".join(f"{name} {n}" for name, n in splits.items() if name == "tp" or (n or 1) > 1)


def range_name(ends: Sequence[int], place: int) -> str:
    """Return the name of a range by the largest of each; one more lies above.

    Examples
    --------
    >>> [range_name((4, 32), place) for place in range(3)]
    ['1 to 4', '5 to 32', 'above 32']
    """
    low = (0, *ends)[place]
    return f"above {low}" if place == len(ends) else f"{low + 1} to {ends[place]}"


def _band(value: float, ends: Sequence[int]) -> str:
    return range_name(ends, bisect_left(ends, value))


def _prompt(point: Measurement) -> str:
    return "not stated" if point.input_len is None else _band(point.input_len, _PROMPTS)


def _version(point: Measurement) -> str:
    release = ".".join(point.engine_version.split(".")[:2])
    return f"{point.engine} {release or 'of no stated version'}"


def _kind_of_model(point: Measurement) -> str:
    model = model_of(point.model or "")
    return "experts" if model.n_active_params < model.n_params else "dense"


#: What loads are told apart by in tables, and the name of a load's group.
_GROUPS: Final[dict[str, Callable[[Measurement], str]]] = {
    "server": lambda point: f"{point.engine} {chip_family(point)}",
    "model": _kind_of_model,
    "weights": lambda point: served_format(point.model or "", point.quantization),
    "placement": _placement,
    "input_len": _prompt,
    "concurrency": lambda point: _band(point.concurrency or 1, CONCURRENCY_ENDS),
    "version": _version,
}


def _by(scores: Iterable[ServedScore], label: Callable[[Measurement], str]) -> dict[str, Totals]:
    groups = grouped(scores, lambda score: label(score.point))
    return {name: served_errors(groups[name]) for name in sorted(groups, key=_natural)}


def _natural(name: str) -> tuple[object, ...]:
    """Return a key that sorts numbers in names as numbers."""
    return tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in name.split())


# --- Predictions: one curve for all loads of a set-up --------------------------------------------

#: Rows that cannot be true, by model, chip, framework and concurrency.
_IMPLAUSIBLE: Final[dict[tuple[object, ...], str]] = {
    ("openai/gpt-oss-120b", "h100", "vllm", 512): "TPOT at or below that with 64 in flight",
}
_NO_ROOM: Final = "no room for one request"

#: The set-up of a load.
SETUP: Final = attrgetter(
    *("model", "quantization", "hardware", "engine"),
    *("tensor_parallel", "expert_parallel", "attention_data_parallel", "kv_cache"),
    *("input_len", "output_len", "shortest"),
)


def curve_of(load: Measurement) -> Hashable:
    """Return what the loads of one curve share: their set-up, and what is known of the server."""
    is_known = load.batch_size is not None
    return SETUP(load), of_former_release(load), launches_prompts(load), is_known


#: What a drafted load shares with the one without drafts that it is compared with. Not all
#: sources record the format of the cache.
_BESIDE: Final = attrgetter(
    *("model", "quantization", "hardware", "engine"),
    *("tensor_parallel", "expert_parallel", "attention_data_parallel"),
    *("input_len", "output_len", "concurrency", "task"),
)
#: What drafted loads share whose acceptance length is the same number.
_ACCEPTANCE: Final = attrgetter(
    *("model", "quantization", "hardware", "engine", "tensor_parallel"),
    *("expert_parallel", "attention_data_parallel", "method", "draft_len", "tokens_per_round"),
)
#: Fewer loads say little once one acceptance is taken out.
_LEAST_LOADS: Final = 3
#: Secant steps to the best acceptance: logarithms are nearly straight.
_SECANTS: Final = 4

#: What NVIDIA serves its own runs with, of one length: a pass has room for one prompt and so many
#: tokens more, besides those of all that decode, and TensorRT-LLM cuts no prompt. aiconfigurator
#: 0.6.0, ``generator/rule_plugin/vllm.rule``, ``agg max_num_tokens``. For TensorRT-LLM it has 1500,
#: too; a comment of 0.1.0, ``cli/backends/trtllm.py``, has 1000. Its runs in 1.0.0rc3 say that no
#: two prompts of 1024 tokens share a pass: TTFT of 168 loads, models left out, is 31% off with 1500
#: and 21% with 1000, nearer for each of three models.
_BESIDE_A_PROMPT: Final = {"vllm": 1500, "tensorrt-llm": 1000}
_NVIDIA_RUNS: Final = ("aiconfigurator-dense", "aiconfigurator-moe")
#: From which release vLLM schedules a pass while the one before it runs: ``config/vllm.py`` of
#: 0.12.0 and of 0.14.0.
_SCHEDULES_AHEAD: Final = (0, 14)
#: Rounds between two looks for requests of SGLang on Blackwell, and with many clients: InferenceX,
#: ``benchmarks/dsr1_fp8_b200.sh``, ``--scheduler-recv-interval``.
_RECEIVE_INTERVALS: Final = (10, 30)
_MANY_CLIENTS: Final = 16

#: From which release, and day, graphs of SGLang hold passes over prompts: DeepSeek-R1 on H200
#: answers prompts of 1024 tokens after 156 ms in 0.5.9 and after 85 ms in 0.5.12.
_GRAPHS_OF_PROMPTS: Final = (0, 5, 12)
_GRAPHS_OF_PROMPTS_DATE: Final = "2026-05"

#: Loads that are not scored, and why.
LeftOut: TypeAlias = list[tuple[Measurement, str]]


def implausible(point: Measurement) -> str | None:
    """Return why a load cannot be true; None for all others.

    Source
        Counting: prompts take two FLOP a token and active parameter, whatever the server.
    """
    why = _IMPLAUSIBLE.get((point.model, point.hardware, point.engine, point.concurrency))
    if why is not None or None in {point.concurrency, point.tpot_s, point.ttft_s, point.input_len}:
        return why
    names = ("concurrency", "input_len", "ttft_s", "tpot_s", "output_len")
    clients, prompt, ttft_s, tpot_s, answer = (getattr(point, name) or 0.0 for name in names)
    prompts_per_s = clients / (ttft_s + tpot_s * (answer - 1.0))
    flops_per_s = 2.0 * model_of(point.model or "").n_active_params * prompt * prompts_per_s
    peak = chip_of(point.hardware or "").peak
    most = max(peak.flops_per_s.values()) * (point.tensor_parallel or 1)
    return "prompts alone take more FLOP/s than its devices have" if flops_per_s > most else None


def served_validation(
    points: Iterable[Measurement] | None = None, *, played: bool = False
) -> ServedValidation:
    """Return served loads beside predictions, each by a profile that has not seen its model.

    Parameters
    ----------
    points
        Loads; all of `load_served` if None.
    played
        Whether loads without drafts are played through besides, request by request.
    """
    return served_scores(points, played=played)[0]


def served_scores(
    points: Iterable[Measurement] | None = None, *, played: bool = False
) -> tuple[ServedValidation, dict[str, list[ServedScore]]]:
    """Return what `served_validation` does, and the scores behind its other totals by their names.

    Parameters
    ----------
    points, played
        As of `served_validation`.
    """
    loads = load_served() if points is None else [*points]
    left_out: LeftOut = [
        (load, f"implausible: {why}") for load in loads if (why := implausible(load)) is not None
    ]
    believed = [load for load in loads if implausible(load) is None]
    plain = [load for load in believed if not load.drafts]
    ratios = _measured_ratios([load for load in believed if load.drafts], plain, left_out)
    groups = grouped(ratios, lambda ratio: _ACCEPTANCE(ratio.load)).values()

    def scores(by: ServedGroup | None, left_out: LeftOut) -> list[ServedScore]:
        of_ratios = (_ratio_scores(group, by, left_out) for group in groups)
        return [*plain_scores(plain, by, left_out), *chain.from_iterable(of_ratios)]

    by_model = tuple(scores("model", left_out))
    found = ServedValidation(by_model, tuple(left_out), disagreeing_sources(by_model))
    others = {"shipped": scores(None, []), "family": scores("family", [])}
    others |= {by: scores(by, []) for by in SERVED_GROUPS if by != "model"}
    if played:
        counted = [score.point for score in found.counted]
        others["played"] = plain_scores(counted, played=True)
        others["played as shipped"] = plain_scores(counted, None, played=True)
    totals = {name: replace(found, scores=tuple(own)).total for name, own in others.items()}
    return replace(found, other_totals=totals, played=tuple(others.get("played", ()))), others


def plain_scores(
    points: Iterable[Measurement],
    by: ServedGroup | None = "model",
    left_out: LeftOut | None = None,
    *,
    played: bool = False,
) -> list[ServedScore]:
    """Return loads without drafts beside predictions by profiles that have not seen their group.

    Parameters
    ----------
    points
        Loads. Those with drafts, and those that cannot be predicted, have no score.
    by
        What loads are left out by; None for the profiles that ship, which have seen most of them.
    left_out
        Gets those that cannot be predicted, if not None.
    played
        Whether predictions are of `played_figures`, and not of `steady_figures`.
    """
    left_out, scores = [] if left_out is None else left_out, list[ServedScore]()
    plain = [point for point in points if not point.drafts and implausible(point) is None]
    for loads in grouped(plain, curve_of).values():
        engine, unseen = left_out_served(loads[0], by)
        # Which says nothing that was left out where the group has no server in it.
        if by in {None, "model", "chip"} and launches_prompts(loads[0]):
            alike, _ = left_out_served(replace(loads[0], engine="tensorrt-llm"), by)
            engine = replace(engine, prefill_launch_s=alike.prefill_launch_s)
        try:
            figures = played_figures if played else steady_figures
            predicted = figures(loads, engine, load_drafter("ideal"))
        except SpecroofError as refusal:
            left_out += [(load, str(refusal)) for load in loads]
            continue
        for place, load in enumerate(loads):
            off = {
                name: math.log(predicted[name][place, 0] / value)
                for name in FIGURES
                if (value := getattr(load, name)) is not None
            }
            if math.isnan(off["tpot_s"]):
                left_out.append((load, _NO_ROOM))
            else:
                scores.append(ServedScore(load, off, unseen))
    return scores


def mean_request(point: Measurement) -> Workload:
    """Return the mean request of a load whose lengths are drawn from a range, as stated."""
    prompt, answer, _ = request_lengths(point)
    mean = (1 + point.shortest) / 2
    return Workload(mean * prompt, mean * answer)


def _decoding(
    loads: Sequence[Measurement],
    engine: EngineProfile,
    drafter: Drafter,
    acceptance: TokensPerRound | None = None,
) -> tuple[Deployment, Workload, SpeedupCurve, IntArray]:
    """Return what serves loads of one set-up, their mean request, and how they are decoded.

    The last are the places of the loads along the curve's batch sizes.
    """
    first = loads[0]
    workload = mean_request(first)
    # What ran at a time, where the source says it: whatever the server's memory holds by default.
    known = first.batch_size is not None
    clients = np.array([float(load.batch_size or load.concurrency or 1) for load in loads])
    batches, places = np.unique(clients, return_inverse=True)
    served = served_of(first, engine)
    settings = ServerSettings(running=int(batches[-1]))
    deployment = Deployment(served.model, in_server(served.model, served.setup, settings))
    decoding = served_curve(
        deployment,
        drafter,
        Load(batches.tolist(), [workload.mean_context_len]),
        "ignore" if known else "queue",
        max_draft_len=first.draft_len or 0,
        acceptance=acceptance,
    ).decoding
    return deployment, workload, decoding, places


def steady_figures(
    loads: Sequence[Measurement],
    engine: EngineProfile,
    drafter: Drafter,
    acceptance: TokensPerRound | None = None,
) -> dict[str, Array]:
    """Return the figures of loads of one set-up in a steady state, axes (load, draft_len)."""
    deployment, workload, decoding, places = _decoding(loads, engine, drafter, acceptance)
    requests = end_to_end(decoding, deployment, workload, drafter)
    return {name: getattr(requests, name)[0, places] for name in FIGURES}


def played_figures(
    loads: Sequence[Measurement], engine: EngineProfile, drafter: Drafter
) -> dict[str, Array]:
    """Return the figures of loads of one set-up, plain and played through, axes (load, 1).

    All clients start together and send ten requests each, as InferenceX does: most sources do not
    say how many. Lengths are drawn as the source draws them, and alike where it does not; passes
    take as many tokens as NVIDIA lets its servers take; a source that prints medians is
    compared with medians of what is played, every other one with means. Throughput has the start
    and the end of the run in it.

    Parameters
    ----------
    loads
        They differ in their clients alone.
    engine
        The profile of the server.
    drafter
        Any: none drafts.
    """
    deployment, _, decoding, places = _decoding(loads, engine, drafter)
    first = loads[0]
    prompt, answer, _ = request_lengths(first)
    clients = [int(load.concurrency or 1) for load in loads]
    rules = prefill_rules(deployment)
    if first.source in _NVIDIA_RUNS and first.shortest == 1 and rules.shares_passes:
        tokens = prompt + _BESIDE_A_PROMPT[str(first.engine)]
        if first.engine == "tensorrt-llm":
            tokens -= tokens % prompt
        rules = replace(rules, chunk=int(tokens) + math.ceil(max(clients) / rules.groups))
    (prices,) = pass_prices(
        deployment,
        rules,
        running=max(clients),
        input_len=(first.shortest * prompt, prompt),
        longest=prompt + answer,
    )
    overlap = deployment.setup.engine.overlap is not False  # "plain": plain steps do overlap
    capacity = decoding.running_batch[0, places, 0].tolist()
    figures = []
    for load, count, runs in zip(loads, clients, capacity, strict=True):
        if not runs >= 1:
            figures.append(dict.fromkeys(FIGURES, math.nan))
            continue
        drawn = (first.shortest, 1.0)
        requests = closed_loop(Workload(prompt, answer), count, length_range=drawn)
        rules = replace(rules, receive_interval=_receive_interval(load))
        # The host works beside passes: of vLLM from a release on.
        release = version_parts(load.engine_version) or _SCHEDULES_AHEAD
        ahead = overlap and (load.engine != "vllm" or release >= _SCHEDULES_AHEAD)
        seen = play(prices, requests, rules, runs, overlap=ahead)
        statistic = "p50" if load.reading == "median" else "mean"
        times = {name: values[statistic] for name, values in seen.summary().items()}
        figures.append({q.TOKENS_PER_S.name: seen.tokens_per_s} | times)
    return {name: np.array([[load[name]] for load in figures]) for name in FIGURES}


def launches_prompts(load: Measurement) -> bool:
    """Tell whether the host launches passes over prompts: SGLang, before graphs held them."""
    if load.engine != "sglang" or chip_family(load) not in {"hopper", "blackwell"}:
        return False
    release = version_parts(load.engine_version)
    return release < _GRAPHS_OF_PROMPTS if release else load.date < _GRAPHS_OF_PROMPTS_DATE


def _receive_interval(load: Measurement) -> int:
    """Return the rounds between two looks for requests, as the server was started."""
    if load.engine != "sglang" or chip_family(load) != "blackwell":
        return 1
    return _RECEIVE_INTERVALS[(load.concurrency or 1) >= _MANY_CLIENTS]


# --- Drafted loads: TPOT over that without drafts, one acceptance length being free --------------


@dataclass(frozen=True, slots=True)
class _Ratio:
    """A drafted load, and the logarithm of its TPOT over that measured without drafts.

    Without drafts so many ran at a time; None for all that the server has room for.
    """

    load: Measurement
    plain_running: float | None
    measured: float


def _measured_ratios(
    drafted: Iterable[Measurement], plain: Iterable[Measurement], left_out: LeftOut
) -> list[_Ratio]:
    """Return drafted loads beside those without drafts, of their source and version if any is."""
    beside = grouped(plain, _BESIDE)
    ratios = []
    for load in drafted:
        if _BESIDE(load) not in beside:
            left_out.append((load, "no load without drafts beside it"))
            continue
        partners = beside[_BESIDE(load)]
        own = [one for one in partners if one.source == load.source]
        alike = [one for one in own if one.engine_version == load.engine_version]
        nearest = alike or own or partners
        plain_s = np.median([one.tpot_s or math.nan for one in nearest])
        ratio = math.log((load.tpot_s or math.nan) / plain_s)
        ratios.append(_Ratio(load, nearest[0].batch_size, ratio))
    return ratios


def _ratio_scores(
    group: Sequence[_Ratio], by: ServedGroup | None, left_out: LeftOut
) -> Iterator[ServedScore]:
    """Yield drafted loads of one acceptance length beside predictions."""
    first = group[0].load
    known = first.tokens_per_round
    if known is None and len({ratio.load.concurrency for ratio in group}) < _LEAST_LOADS:
        left_out += [
            (ratio.load, "fewer than three loads share an acceptance length that is not known")
            for ratio in group
        ]
        return
    engine, unseen = left_out_served(first, by)
    off_of = cache(partial(_ratio_off, engine))
    setups: list[tuple[_Ratio, ...]] = []
    alike = grouped(group, lambda ratio: (curve_of(ratio.load), ratio.plain_running is None))
    for setup in map(tuple, alike.values()):
        try:
            no_room = np.isnan(off_of(setup, known or 1.0))
        except SpecroofError as refusal:
            left_out += [(ratio.load, str(refusal)) for ratio in setup]
            continue
        left_out += [(ratio.load, _NO_ROOM) for ratio in compress(setup, no_room)]
        setups += filter(None, [tuple(compress(setup, ~no_room))])
    if setups:

        def off_at(tokens_per_round: float) -> Array:
            return np.concatenate([off_of(setup, tokens_per_round) for setup in setups])

        off = best_off(off_at, known, first.draft_len or 0)
        for ratio, value in zip(chain(*setups), off.tolist(), strict=True):
            yield ServedScore(ratio.load, {TPOT_RATIO: value}, unseen)


def _ratio_off(engine: EngineProfile, setup: Sequence[_Ratio], tokens_per_round: float) -> Array:
    """Return how far off ratios of one set-up are at an acceptance length, as logarithms."""
    drafted = [ratio.load for ratio in setup]
    plain = [replace(ratio.load, batch_size=ratio.plain_running) for ratio in setup]
    drafter = drafter_of(drafted[0])
    acceptance = acceptance_of(replace(drafted[0], tokens_per_round=tokens_per_round), drafter)
    plain_s, drafted_s = (
        steady_figures(loads, engine, drafter, acceptance)["tpot_s"] for loads in (plain, drafted)
    )
    measured = [ratio.measured for ratio in setup]
    return np.asarray(np.log(drafted_s[:, -1] / plain_s[:, 0]) - measured)


def best_off(off: Callable[[float], Array], known: float | None, draft_len: int) -> Array:
    """Return errors at the known acceptance length, or at the one that makes their mean least.

    The mean falls as more drafts are accepted; the search is a regula falsi over the logarithm of
    the acceptance length.

    Parameters
    ----------
    off
        From an acceptance length to errors, as logarithms.
    known
        The acceptance length; None where it is free.
    draft_len
        Drafts per round.
    """
    if known is not None:
        return off(known)
    tried = [(length, off(length)) for length in (1.0, draft_len + 1.0)]
    for _ in range(_SECANTS):
        above = min((trial for trial in tried if _mean(trial) > 0), key=_mean, default=None)
        below = max((trial for trial in tried if _mean(trial) <= 0), key=_mean, default=None)
        if above is None or below is None:  # no acceptance is low, or high, enough
            break
        share = _mean(above) / (_mean(above) - _mean(below))
        length = above[0] * (below[0] / above[0]) ** share
        tried.append((length, off(length)))
    return min(tried, key=lambda trial: abs(_mean(trial)))[1]


def _mean(trial: tuple[float, Array]) -> float:
    return float(trial[1].mean())


# --- Sources that disagree with all others -------------------------------------------------------


#: Offsets and scatters beyond so many times the usual scatter disagree.
_OFFSET_BOUND: Final = 2.5
_SCATTER_BOUND: Final = 3.0
#: TPOT residuals of each source, with the framework, the chip and the model of the load.
_Residuals: TypeAlias = dict[str, list[tuple[tuple[str, ...], float]]]
#: A median absolute deviation times this is the standard deviation of normal errors.
_NORMAL: Final = 1.4826


def disagreeing_sources(scores: Iterable[ServedScore]) -> tuple[Disagreement, ...]:
    """Return the sources whose TPOT residuals disagree with those of all others.

    The residuals of a source are taken beside the median of the other sources in the same group:
    framework, chip and model, or framework and chip where no other has the model. Its offset is
    their median, its scatter their robust standard deviation around the medians of its own groups.
    An offset beyond 2.5 times the usual scatter, or a scatter beyond 3 times, disagrees; the usual
    scatter is the median over sources. A source that is wrong makes its neighbours look wrong, so
    that the one without which the others agree best is named and taken out, and the rest compared
    again.

    Parameters
    ----------
    scores
        Loads beside predictions; those of a source whose chips no other has are compared by
        their scatter alone.

    Source
        Rousseeuw and Croux 1993, J. Am. Stat. Assoc. 88(424): the median absolute deviation.
    """
    plain = [score for score in scores if "tpot_s" in score.off]
    residuals: _Residuals = {
        source: [(_near(score.point), score.off["tpot_s"]) for score in own]
        for source, own in grouped(plain, lambda score: score.point.source).items()
    }
    named: list[Disagreement] = []
    while suspects := [one for one in _compared(residuals) if one.excess > 1]:
        rests = [
            {source: pairs for source, pairs in residuals.items() if source != suspect.source}
            for suspect in suspects
        ]
        left = [sum(max(one.excess - 1, 0.0) for one in _compared(rest)) for rest in rests]
        wrong = min(range(len(suspects)), key=lambda n: (left[n], -suspects[n].excess))
        named.append(suspects[wrong])
        residuals = rests[wrong]
    return tuple(named)


def _near(point: Measurement) -> tuple[str, ...]:
    return point.engine or "", point.hardware or "", base_model(point)


def _compared(residuals: _Residuals) -> list[Disagreement]:
    """Return how far each source is from the others, agreeing or not."""
    scatters = {source: _scatter(pairs) for source, pairs in residuals.items()}
    usual = float(np.median([*scatters.values()])) if scatters else 0.0
    return [
        Disagreement(
            source,
            offset=_offset(source, residuals),
            scatter=scatters[source],
            offset_bound=_OFFSET_BOUND * usual,
            scatter_bound=_SCATTER_BOUND * usual,
        )
        for source in residuals
    ]


def _offset(source: str, residuals: _Residuals) -> float:
    """Return the median residual beside the others' in the narrowest group that they share."""
    others = [pair for other, pairs in residuals.items() if other != source for pair in pairs]
    others += [(group[:2], residual) for group, residual in others]
    medians = {group: _median(pairs) for group, pairs in grouped(others, itemgetter(0)).items()}
    beside = [
        residual - medians[shared]
        for group, residual in residuals[source]
        for shared in [group if group in medians else group[:2]]
        if shared in medians
    ]
    return float(np.median(beside)) if beside else 0.0


def _median(pairs: Iterable[tuple[object, float]]) -> float:
    return float(np.median([residual for _, residual in pairs]))


def _scatter(pairs: Iterable[tuple[tuple[str, ...], float]]) -> float:
    groups = [(group, _median(group)) for group in grouped(pairs, itemgetter(0)).values()]
    around = [abs(residual - middle) for group, middle in groups for _, residual in group]
    return _NORMAL * float(np.median(around))
