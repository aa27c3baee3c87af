"""What do draft lengths gain that follow the load, or the drafter's confidence?"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt

from specroof import quantities as q
from specroof.arrays import Array, fields_of, number_within, whole_within
from specroof.cost import ForwardPass
from specroof.drafters import Drafter
from specroof.errors import Note, OptionError, refuse, reject
from specroof.frameworks import FRAMEWORKS
from specroof.latency.setup import Deployment, Setup, release_in
from specroof.outcomes.case import served_case
from specroof.outcomes.rows import LOAD_KEYS, OfLoad, bands_around, load_fields
from specroof.policies.adaptive import (
    LEAST_ROUNDS,
    BatchCosts,
    PolicyOutcome,
    adaptive_verification,
    beside,
    fixed_outcomes,
    fixed_rates,
    sglang_steps,
    simulated_policies,
)
from specroof.policies.schedule import best_schedule, drafts_at
from specroof.quantities import cell_of
from specroof.questions import parameters as p
from specroof.questions.answer import OfDrafter
from specroof.questions.case import in_flight_of, load_of, played_load
from specroof.questions.objects import Values, as_list, server_of
from specroof.questions.predict import Prediction, predicted
from specroof.questions.request import Command, DeploymentRequest, question
from specroof.questions.simulate import chain_acceptance
from specroof.questions.speculation import can_follow_load
from specroof.report.layout import folded, format_table
from specroof.serving.launch import Launch, launch
from specroof.serving.served import served_curve
from specroof.serving.workload import Load, refuse_one_token
from specroof.speedup.curve import draft_depth, engine_pass_s, longest_draft
from specroof.speedup.result import best_index
from specroof.units import format_drafts, plain_number

#: The policies in closed form: one length for all loads, and one for each.
FIXED: Final = ("fixed", "by load")
#: What vLLM and SGLang do by themselves: `enable_adaptive_verification`, `--speculative-adaptive`.
VERIFICATION: Final = "adaptive verification"
STEPS: Final = "adaptive steps"
#: A further range of a schedule must gain this share of throughput.
_LEAST_GAIN: Final = 0.002
USUAL_LOADS: Final = (1, 8, 32, 128)
#: Columns of a gain, and of its standard error.
_GAINS: Final = ("gain", "gain_error")
#: Drafts of all rounds of one load, and of each of its sequences, whose rounds have many options:
#: what memory and patience allow.
_MOST_DRAFTS: Final = 10_000_000
_MOST_DRAFTS_OF_ONE: Final = 1_000_000
_LATE: Final = (
    "a token-by-token drafter knows its confidence only after drafting, so stopping is attainable "
    "and the confidence policies are upper bounds"
)
_RESTS_ON: Final = Note(
    "the gains of confidence are simulated (--confidence). Measured without costs of its own, "
    "EAGLE-3 on vLLM 0.24 and an H100, stopping by confidence gained 2 to 6% at batch 1 and -3 to +1% "
    "at batch 8 (github.com/pramodjella/speculative-decoding-draft-length-audit, docs/CANONICAL.md): "
    "trust the schedule by load first",
    short="the gains of confidence are simulated; measured, stopping gained 2 to 6% at batch 1 and "
    "about nothing at batch 8: trust the schedule by load first",
)
#: A further draft that takes less than this share of the first is made in the same pass.
_SAME_PASS: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class AdaptiveRequest(p.PolicyParameters, p.LengthParameters, DeploymentRequest):
    """Ask what adaptive draft lengths gain.

    Examples
    --------
    >>> from specroof import adaptive
    >>> found = adaptive("Qwen/Qwen3-8B", "h100", drafter="eagle3,accept=0.7", n_rounds=500)
    >>> list(found.policies)
    ['fixed', 'by load', 'stopping', 'batch confidence', 'sequence confidence', 'adaptive steps',
     'oracle']
    """

    drafter: p.ChainDrafter
    batch_size: Annotated[
        Values | None,
        p.like(
            p.BatchSize,
            about="Sequences in flight, a number or a list. One that is named twice lasts twice as "
            "long.",
            about_flag="Sequences in flight, comma-separated. Name one twice to give it twice the "
            "weight.",
            shown=",".join(map(str, USUAL_LOADS)),
        ),
    ] = None
    context_len: p.ContextLen = None
    concurrency: p.Concurrency = None
    requests: p.RequestCount = None
    length_range: p.LengthRange = None
    max_draft_len: p.MaxDraftLen = None
    capacity: p.Capacity = None
    draft_model: p.DraftModel = None
    seed: p.Seed = 0


@dataclass(frozen=True, kw_only=True)
class AdaptiveRow(OfLoad):
    """What a policy reaches at one load.

    `running` are the whole sequences that are decoded at a time by the server that drafts.
    """

    drafter: str
    policy: str
    mean_draft_len: float
    tokens_per_s: float
    plain_tokens_per_s: float
    speedup: float
    gain: float
    gain_error: float
    running: int
    weight: int


@dataclass(frozen=True, repr=False, eq=False)
class Adaptive(OfDrafter):
    """What adaptive draft lengths gain.

    Attributes
    ----------
    about, drafter
        What is served, where and for whom, and the name of what drafts.
    confidence
        As asked.
    draft_len, load_draft_len
        The one length for all loads, and the schedule's at each, as the flags have it.
    rows
        What each policy reaches at each load, these ascending.
    launch
        The flags that make a server draft by load; None for an engine of no known server, and for
        what it has no flags for.
    notes, warnings
        Sentences for the reader.
    """

    confidence: float
    draft_len: int
    load_draft_len: tuple[int, ...]
    rows: tuple[AdaptiveRow, ...]
    launch: Launch | None

    chart = q.Lines(
        LOAD_KEYS, ("gain",), by=("policy",), titles={"gain": "Gain in tokens/s over one length"}
    )

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"{self.served}, {self.asked_words}: {self.drafter}"

    def text(self) -> str:
        """Return the gain of each policy at each load, and the meaning of each policy."""
        table, meaning = policies_parts(self)
        flags, lines = self.launch, list[str]()
        if flags is not None:
            lines = [f"by load, {flags.release}:", folded(flags.text), *flags.file_lines]
        return self.as_page(table, "\n".join(lines), found=[self.found], more=[meaning])

    def figures(self) -> dict[str, Any]:
        """Return the chart of the gain of each policy."""
        return {"": self.rows_chart(self.chart, self.rows, found=self.found)}

    @property
    def found(self) -> str:
        """The policy that gains most over one length for all loads, in one line."""
        gains = {policy: self.total_gain(policy)[0] for policy in self.policies}
        most, best = gains.pop("oracle"), max(gains, key=lambda policy: gains[policy])
        return (
            f"best policy: {best}, {gains[best]:+.1%} tokens/s over {format_drafts(self.draft_len)} "
            f"at all loads; the oracle reaches {most:+.1%}"
        )

    @property
    def policies(self) -> dict[str, list[AdaptiveRow]]:
        """The rows of each policy."""
        return {name: [*rows] for name, rows in groupby(self.rows, lambda row: row.policy)}

    def total_gain(self, policy: str) -> tuple[float, float]:
        """Return a policy's gain in tokens over all loads, and its standard error.

        The same dice are thrown at every load, so that errors add up.

        Parameters
        ----------
        policy
            One of `policies`.
        """
        rows = self.policies[policy]
        fixed = np.array([row.weight * row.tokens_per_s / (1.0 + row.gain) for row in rows])
        gains, errors = (np.array([getattr(row, name) for row in rows]) for name in _GAINS)
        made = fixed.sum()
        return float(fixed @ gains / made), float(fixed @ errors / made)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        totals = {policy: self.total_gain(policy) for policy in self.policies}
        choice = {
            **fields_of(self, "draft_len", "load_draft_len"),
            "policies": [
                {"policy": policy, **dict(zip(_GAINS, total, strict=True))}
                for policy, total in totals.items()
            ],
            "launch": None if self.launch is None else asdict(self.launch),
        }
        return self.envelope(self.case | fields_of(self, "drafter", "confidence"), choice)


@question(AdaptiveRequest)
def adaptive(request: AdaptiveRequest) -> Adaptive:
    """Compare draft lengths that follow load or confidence with one length for all loads."""
    (drafter,) = request.drafters_with_acceptance(request.drafter)
    acceptance = chain_acceptance(drafter)
    loads, known = _loads(request), number_within("confidence", request.confidence, "share")
    longest = longest_draft(drafter, acceptance, request.max_draft_len)
    if not longest:
        refuse("max_draft_len", request.max_draft_len, "at least 1, since drafts are what adapts")
    if draft_depth(drafter, acceptance) < 1:  # a histogram of rounds without accepted drafts
        refuse("drafter", drafter.name, "an acceptance of at least 1 draft")
    n_rounds = whole_within("n_rounds", request.n_rounds, "simulated_len")
    seed = whole_within("seed", request.seed, "seed")
    for size in loads:  # before anything is computed for them
        drafts = max(n_rounds, LEAST_ROUNDS * size) * longest
        most = min(_MOST_DRAFTS, _MOST_DRAFTS_OF_ONE * size)
        if drafts > most:
            counted = f"n_rounds (at least {LEAST_ROUNDS} of each sequence) x draft_len"
            refuse(counted, drafts, f"at most {most} drafts at a batch size of {size}")
    load = _load(request, loads)
    lengths = _lengths(request, drafter, load, loads, longest)
    found, rates, best, depth = lengths.found, lengths.rates, lengths.by_load, lengths.depth
    one_length, sizes = lengths.fixed, lengths.running
    deployment, curve = found.deployment, found.curves[0]
    costs = _costs(deployment, drafter, sizes, float(curve.context_len[0]), depth)
    survival = acceptance.survival(np.arange(1, depth + 1))
    is_block = costs[sizes[0]].is_block
    made = depth if is_block else max(1, int(best.max()))
    graphs = deployment.setup.engine.graphs
    captured = graphs.sizes if graphs is not None and graphs.counts == "sequences" else ()
    facts = deployment.setup.release
    steps = drafter.kind in facts.methods and can_follow_load(
        deployment, drafter, str(release_in(deployment.setup, facts.framework))
    )
    simulated: list[dict[str, PolicyOutcome]] = []
    dice: dict[str, Any] = {"known": known, "n_rounds": n_rounds, "seed": seed}
    for size in sizes:
        each = simulated_policies(costs[size], survival, **dice)
        oracle = each.pop("oracle")
        if facts.trims(drafter.kind):
            each[VERIFICATION] = adaptive_verification(
                costs[size], survival, draft_len=made, **dice
            )
        if facts.adaptive_steps and steps:
            each[STEPS] = sglang_steps(
                *(costs[size], survival, facts.adaptive_steps),
                initial=max(1, one_length),
                sizes=captured,
            )
        simulated.append({**each, "oracle": oracle})
    fixed = fixed_outcomes(rates, [one_length] * len(rates))
    alone = [float(fixed_rates(costs[size], survival)[one_length]) for size in sizes]
    outcomes = {FIXED[0]: fixed, FIXED[1]: fixed_outcomes(rates, best.tolist())} | {
        policy: tuple(map(beside, fixed, alone, [each[policy] for each in simulated]))
        for policy in simulated[0]
    }
    notes = [*found.notes, *([] if is_block else [_LATE]), _RESTS_ON]
    flags = None
    if facts.framework in FRAMEWORKS and best.any():
        try:
            flags = _flags(request, drafter, deployment.setup, lengths.ranges)
            notes += [f"flags: {note}" for note in flags.notes]
        except OptionError as refusal:
            notes.append(f"no flags: {refusal}")
    return Adaptive(
        found.about,
        drafter=curve.drafter,
        confidence=known,
        draft_len=one_length,
        load_draft_len=tuple(best.tolist()),
        rows=tuple(_rows(lengths, outcomes, [*loads.values()])),
        launch=flags,
        notes=tuple(notes),
        warnings=found.warnings,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Lengths:
    """One length for all loads, and one for each.

    Parameters
    ----------
    found
        What `predict` says of the loads, these lengths played where requests are.
    rates
        Tokens per second, axes (load, draft_len).
    fixed, by_load, ranges
        The one length, those at each load, and the schedule that has them.
    depth
        The longest draft of policies.
    running
        Whole sequences that are decoded at a time, by load.
    """

    found: Prediction
    rates: Array
    fixed: int
    by_load: npt.NDArray[Any]
    ranges: Sequence[tuple[int, int, int]]
    depth: int
    running: list[int]


def _rows(
    lengths: _Lengths, outcomes: Mapping[str, Sequence[PolicyOutcome]], weights: Sequence[int]
) -> Iterator[AdaptiveRow]:
    """Yield what each policy reaches at each load, in the bands of the lengths in closed form."""
    found, (one,) = lengths.found, lengths.found.outcomes
    columns = list(load_fields(one, found.load, found.money))
    told = OfLoad.quantities().keys() & columns[0].keys()
    for policy, reached in outcomes.items():
        for place, outcome in enumerate(reached):
            plain, fixed = float(lengths.rates[place, 0]), outcomes[FIXED[0]][place].tokens_per_s
            row = AdaptiveRow(
                **{name: columns[place][name] for name in told},
                drafter=one.curve.drafter,
                policy=policy,
                mean_draft_len=outcome.draft_len,
                tokens_per_s=outcome.tokens_per_s,
                plain_tokens_per_s=plain,
                speedup=outcome.tokens_per_s / plain,
                gain=outcome.tokens_per_s / fixed - 1.0,
                gain_error=outcome.error / fixed,
                running=lengths.running[place],
                weight=weights[place],
            )
            drafts = int(lengths.by_load[place]) if policy == FIXED[1] else lengths.fixed
            yield replace(row, bands=bands_around(row, one, place, [drafts]))


def _lengths(
    request: AdaptiveRequest,
    drafter: Drafter,
    load: Load,
    loads: Mapping[int, int],
    longest: int,
) -> _Lengths:
    """Return the lengths that make most tokens, over all loads and at each."""
    in_flight, most = request.batch_size is None, request.max_draft_len
    case = served_case(request.resolved(), load, request.capacity, in_flight=in_flight)
    asked = partial(predicted, case, [drafter], max_draft_len=most)
    found = asked()
    curve, (one,) = found.curves[0], found.outcomes
    one.refuse_full(case)
    measured = longest if curve.measured_draft_len is None else curve.measured_draft_len
    depth = int(min(longest, draft_depth(drafter, chain_acceptance(drafter)), measured))
    weights = np.array(list(loads.values()))
    # A server has the room of its longest draft, whatever it drafts at a load: lengths must have it
    # at all loads, and policies may draft as far as that leaves the room of the best lengths.
    rates = one.tokens_per_s[0, :, : depth + 1]
    rates = np.where(np.isfinite(rates).all(axis=0), rates, np.nan)
    fixed = int(best_index(np.average(rates, axis=0, weights=weights)))
    ranges = best_schedule([*loads], rates, weights=weights, least_gain=_LEAST_GAIN)
    best = np.array([drafts_at(ranges, load) for load in loads])
    rooms = np.broadcast_to(curve.running_batch[0], curve.round_s.shape[1:])[:, : depth + 1]
    running = rooms[:, max(1, fixed, int(best.max()))]
    if not (running >= 1).all():
        reject(f"drafter {drafter.name!r} leaves no memory for a request", "--no-capacity, or less")
    depth = int(np.flatnonzero((rooms == running[:, None]).all(axis=0))[-1])
    if load.requests:  # what is best over all loads may not be among what may win at each
        found = asked(draft_lens=[*{fixed, *best.tolist()} - {0}])
        (one,) = found.outcomes
        rates = one.tokens_per_s[0, :, : rates.shape[1]]
        running = np.maximum(np.rint(one.curve.running_batch[0, :, fixed]), 1.0)
    sizes: list[int] = running.astype(np.int64).tolist()
    return _Lengths(found, rates, fixed, best, ranges, depth, sizes)


def _flags(
    request: AdaptiveRequest,
    drafter: Drafter,
    setup: Setup,
    ranges: Sequence[tuple[int, int, int]],
) -> Launch:
    """Return the flags of the lengths by load.

    Raises
    ------
    OptionError
        For a server that has none.
    """
    plan = request.speculation(
        drafter,
        ranges,
        request.draft_model,
        settings=server_of(request.server),
        capability=setup.hardware.compute_capability,
    )
    return launch(plan, release_in(setup, setup.engine.rules))


def _loads(request: AdaptiveRequest) -> dict[int, int]:
    """Return the loads, ascending, with how long each lasts."""
    name = "batch_size" if request.concurrency is None else "concurrency"
    given = as_list(in_flight_of(request, USUAL_LOADS))
    for one in given:
        if not number_within(name, one, "batch_size").is_integer():
            refuse(name, one, "whole numbers, which dice can be thrown for")
    if not given:
        reject(f"{name} is empty", "at least one load")
    return dict(sorted(Counter(map(int, given)).items()))


def _load(request: AdaptiveRequest, loads: Iterable[int]) -> Load:
    """Return the load of the question: batches at a context, or requests that are played."""
    load = load_of(request, [float(one) for one in loads], request.context_len)
    if len(load.context_len) != 1:
        refuse("context_len", request.context_len, "one number")
    refuse_one_token(load.workload)
    drawn = p.PlayedParameters(
        requests=request.requests, length_range=request.length_range, seed=request.seed
    )
    return played_load(drawn, load) if load.workload is not None or drawn.is_played else load


def _costs(
    deployment: Deployment, drafter: Drafter, sizes: Sequence[int], context_len: float, depth: int
) -> dict[int, BatchCosts]:
    """Return the seconds of rounds of batches of some sizes, whatever their sequences draft.

    A verification takes as long as one in which all sequences share its drafts equally: with the
    same tokens, padded to the same captured size.

    Raises
    ------
    OptionError
        For drafts that are made while the target verifies, and in a full pipeline: the last stage
        drafts for one micro-batch while others are verified, so that a round is no sum.
    """
    stages = deployment.setup.passes_in_flight
    if stages > 1:
        refuse("pipeline_parallel", stages, "1: rounds in stages are no sum of their parts")
    load = Load(np.arange(1.0, max(sizes) + 1).tolist(), [context_len])
    curve = served_curve(deployment, drafter, load, "ignore", max_draft_len=depth).decoding

    costs = dict[int, BatchCosts]()
    for size in sizes:
        draft_s, verify_s, round_s = (
            seconds[0, :size].T for seconds in (curve.draft_s, curve.verify_s, curve.round_s)
        )
        alone_s = draft_s[1:, -1] + verify_s[1:, -1]
        engine_s = round_s[1, -1] - alone_s[0]
        if not np.allclose(round_s[1:, -1], alone_s + engine_s, atol=0.0):
            reject(f"drafter {curve.drafter!r} drafts while the target verifies", "before it")
        steps = np.diff(draft_s, axis=0)
        drafts = np.arange(size * depth + 1) / size
        passes = ForwardPass(float(size), 1.0 + drafts, context_len)
        costs[size] = BatchCosts(
            verify_s=engine_pass_s(deployment, passes),
            draft_step_s=np.concatenate([np.zeros((depth, 1)), steps], axis=1),
            engine_s=float(engine_s),
            is_block=bool(depth > 1 and np.median(steps[1:, -1]) < _SAME_PASS * steps[0, -1]),
        )
    return costs


# --- The gains of adaptive draft lengths, as a table ---------------------------------------------

#: What each policy does, for whoever reads the table.
_MEANING: Final = {
    "fixed": "one length for all loads, the one that makes most tokens",
    "by load": "the length of the schedule at each load",
    "stopping": "a sequence drafts on while its drafts so far are sure enough",
    "batch confidence": "one length for all, chosen each round from how sure its drafts are",
    "sequence confidence": "the drafts that are sure enough, chosen each round",
    VERIFICATION: "vLLM's enable_adaptive_verification: all is drafted, the likeliest is verified",
    STEPS: "SGLang's --speculative-adaptive with its default steps: by batch and mean acceptance",
    "oracle": "drafts that will be accepted, as far as they pay: the most that foresight brings",
}


def policies_parts(answer: Adaptive) -> tuple[str, str]:
    """Return the table of the gains, and the meaning of each policy."""
    policies = answer.policies
    fixed = policies[FIXED[0]]
    loads = [plain_number(row.load) for row in fixed]
    kind = "clients" if fixed[0].batch_size is None else "batch"
    rows = [
        [
            "tok/s without drafts",
            *(cell_of(q.TOKENS_PER_S, row.plain_tokens_per_s) for row in fixed),
        ],
        [FIXED[0], *(cell_of(q.SPEEDUP, row.speedup) for row in fixed)],
    ]
    rows = [[*row, ""] for row in rows]
    for policy in [*policies][1:]:
        gains = [*(row.gain for row in policies[policy]), answer.total_gain(policy)[0]]
        rows.append([policy, *(cell_of(q.GAIN, gain) for gain in gains)])
    table = format_table(["policy", *(f"{kind} {load}" for load in loads), "all loads"], rows)
    lengths = ", ".join(
        f"K={k} at {load}" for load, k in zip(loads, answer.load_draft_len, strict=True)
    )
    meaning = [
        f"fixed: K={answer.draft_len}, as a speedup over no drafts; the others are gains over fixed",
        f"by load: {lengths}",
        f"standard error of the gains: ±{max(row.gain_error for row in answer.rows):.1%} at most; "
        f"confidence explains {answer.confidence:.0%} of the variance of acceptance",
        *(f"{name}: {_MEANING[name]}" for name in policies),
    ]
    return table, "\n".join(meaning)


COMMAND: Final = Command(
    question=adaptive,
    options=p.FORMULAS,
    chart="Draw the gain of each policy by load.",
    to_paste=True,
    example="specroof adaptive Qwen/Qwen3-8B -H h100 --drafter eagle3,accept-length=2.8@3",
)
