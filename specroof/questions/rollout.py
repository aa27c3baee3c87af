"""How long does a batch of prompts with long-tailed answers take, with drafts and without?"""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import numpy as np

from specroof.acceptance import acceptance_from_length
from specroof.arrays import (
    Array,
    array_within,
    fields_of,
    number_within,
    to_json_array,
    whole_within,
)
from specroof.catalog.files import is_file, read_text
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import MeasurementError, refuse, reject
from specroof.hardware import Placement
from specroof.latency import Deployment
from specroof.outcomes.case import Case
from specroof.outcomes.choose import choose, decision_of
from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import LoadDecision, best_choice
from specroof.policies.schedule import Schedule, cheapest_schedule
from specroof.questions.answer import Charted
from specroof.questions.capacity import usual_drafts
from specroof.questions.case import known_load, known_requests
from specroof.questions.played_loads import told
from specroof.questions.predict import Prediction, predicted
from specroof.questions.request import (
    FORMULAS,
    SHARED,
    Command,
    DeploymentRequest,
    Drafters,
    MemoryLimits,
    Parameter,
    Values,
    drafters_of,
    question,
)
from specroof.report.layout import format_table, page
from specroof.serving.capacity import RoomRule
from specroof.serving.played import Drafts, Played, PlayedServer, played_server
from specroof.serving.served import room_rule
from specroof.serving.workload import Load, Requests
from specroof.units import BOUNDS, Bounds, format_drafts, format_seconds, plain_number

if TYPE_CHECKING:
    from specroof.serving.end_to_end import EndToEnd
    from specroof.serving.played import PlayedLoads

#: Answers of a law, where no number is given.
USUAL_REQUESTS: Final = 256
#: Answers of a rollout, and steps of a training run.
_ANSWERS: Final = Bounds(1, 100_000, whole=True)
#: Drafts that acceptance is measured with, at most, where nothing says how many.
_MOST_DRAFTS: Final = 16
#: The tail is the time of this last share of the answers.
_TAIL: Final = 0.1
#: A further range of a schedule must save this share of the time.
_LEAST_GAIN: Final = 0.002
#: The 99th percentile of a standard normal distribution.
_NORMAL_P99: Final = 2.3263478740408408


@dataclass(frozen=True, kw_only=True)
class RolloutRequest(DeploymentRequest):
    """Ask how long a rollout takes.

    Examples
    --------
    >>> from specroof import rollout
    >>> found = rollout(
    ...     "Qwen/Qwen3-8B",
    ...     "h100",
    ...     drafters="eagle3,accept-length=2.8@3",
    ...     lengths="lognormal=2000/9000",
    ... )
    >>> [row.policy for row in found.rows]
    ['off', 'fixed', 'schedule']
    """

    drafters: Drafters
    lengths: Annotated[
        str | os.PathLike[str] | Values,
        Parameter(
            "Tokens of each answer: a file as predict takes it (a number a line, a CSV with "
            "output_len and perhaps input_len, a JSON list), or a law: lognormal=MEAN/P99, with "
            "the 99th percentile, or pareto=MEAN/INDEX.",
            in_python="Or the numbers.",
            metavar="FILE|LAW",
            kind=str,
        ),
    ]
    n_requests: Annotated[
        int | None,
        Parameter(
            "Answers of the rollout, drawn from the file or the law.",
            "--requests",
            shown=f"all of the file; {USUAL_REQUESTS} of a law",
        ),
    ] = None
    max_output_len: Annotated[
        float | None, Parameter("Tokens at which answers are cut.", shown="none are cut")
    ] = None
    input_len: Annotated[
        float,
        replace(SHARED["input_len"], about_flag="Tokens of a prompt, where the file has none."),
    ] = 512
    prefix_hit_rate: Annotated[
        float,
        replace(
            SHARED["prefix_hit_rate"],
            about="Share of a prompt's tokens that the server has cached, 0 to 1: of n samples of "
            "one prompt, 1 - 1/n.",
            about_flag="",
            shown=None,
        ),
    ] = 0.0
    replicas: Annotated[
        int,
        Parameter("Servers that answers are dealt out to; the slowest one ends the rollout."),
    ] = 1
    max_draft_len: Annotated[
        int | None, Parameter("Longest draft tried.", shown="the drafter's depth, up to 16")
    ] = None
    step_share: Annotated[
        float | None,
        Parameter(
            "Share of a training step that the rollout takes without drafts, 0 to 1.",
            metavar="SHARE",
        ),
    ] = None
    accept_length: Annotated[
        str | os.PathLike[str] | Values | None,
        Parameter(
            "Acceptance length of each training step, bonus included, as a drafter drifts: "
            "numbers, or a file of them.",
            about_flag="Acceptance length of each training step, bonus included, as a drafter "
            "drifts: comma-separated, or a file.",
            kind=str,
        ),
    ] = None
    draft_len: Annotated[
        int | None,
        Parameter(
            "Drafts that these lengths are measured with.",
            "--measured-draft-len",
            shown="as in the drafter's accept-length, else all that it makes, up to 16",
        ),
    ] = None
    capacity: MemoryLimits = None
    seed: Annotated[int, Parameter("Random seed of drawn lengths.")] = 0


# --- Lengths of answers: numbers, a file, or a law -----------------------------------------------


def lognormal_lengths(rng: "np.random.Generator", n: int, mean: float, p99: float) -> Array:
    r"""Return draws from the lognormal law with this mean and 99th percentile.

    .. math:: \sigma = z - \sqrt{z^2 - 2 \ln(p_{99} / m)}, \quad \mu = \ln m - \sigma^2 / 2

    with z the 99th percentile of the normal law.

    Raises
    ------
    OptionError
        For a 99th percentile that no such law has.
    """
    ratio = p99 / mean
    if not 1 <= ratio <= math.exp(_NORMAL_P99**2 / 2):
        refuse("lengths: P99 / MEAN", round(ratio, 3), "from 1 to 14.9 in a lognormal law")
    sigma = _NORMAL_P99 - math.sqrt(_NORMAL_P99**2 - 2 * math.log(ratio))
    return rng.lognormal(math.log(mean) - sigma**2 / 2, sigma, n)


def pareto_lengths(rng: "np.random.Generator", n: int, mean: float, index: float) -> Array:
    r"""Return draws from the Pareto law of this mean and tail.

    .. math:: P(L > x) = (m \, (a - 1) / (a \, x))^a

    Raises
    ------
    OptionError
        For an index of 1 or less, at which there is no mean.
    """
    if not index > 1:
        refuse("lengths: INDEX", index, "above 1 in a Pareto law, so that there is a mean")
    return mean * (index - 1) / index * (1 + rng.pareto(index, n))


#: Laws by their names.
LAWS: Final[Mapping[str, Callable[["np.random.Generator", int, float, float], Array]]] = {
    "lognormal": lognormal_lengths,
    "pareto": pareto_lengths,
}


def _answers(request: RolloutRequest) -> Requests:
    """Return all answers and their prompts."""
    given, count = request.lengths, request.n_requests
    if count is not None:
        count = whole_within("n_requests", count, _ANSWERS)
    rng = np.random.default_rng(whole_within("seed", request.seed, "seed"))
    law, is_law, parts = (given if isinstance(given, str) else "").partition("=")
    columns: Any = given
    if is_law and law in LAWS:
        try:
            mean, shape = (float(part) for part in parts.split("/"))
        except ValueError:
            refuse("lengths", given, f"{law}= with two numbers, as in {law}=4000/16000")
        number_within("lengths: MEAN", mean, "request_len")
        count = count or USUAL_REQUESTS
        lengths = np.rint(LAWS[law](rng, count, mean, shape))
        columns = {"output_len": np.clip(lengths, 1.0, BOUNDS["request_len"].most)}
    elif not (isinstance(given, str | os.PathLike) and is_file(Path(given))):
        allowed = f"a file, numbers separated by commas, or a law: {', '.join(LAWS)}"
        columns = {"output_len": _numbers("lengths", given, "request_len", allowed)}
    found = known_requests("lengths", columns, request.input_len, request.prefix_hit_rate)
    if count not in {None, len(found.output_len)}:
        found = _part(found, rng.choice(len(found.output_len), count))
    if request.max_output_len is None:
        return found
    most = number_within("max_output_len", request.max_output_len, "request_len")
    return replace(found, output_len=np.minimum(found.output_len, most))


def _part(requests: Requests, places: Any) -> Requests:
    """Return some of the requests of a job."""
    names = ("arrival_s", "input_len", "output_len", "cached_len")
    return replace(requests, **{name: getattr(requests, name)[places] for name in names})


def _numbers(name: str, given: object, quantity: str, allowed: str) -> Array:
    """Return numbers that are given as themselves, as text, or in a file."""
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        text = read_text(path, MeasurementError) if is_file(path) else os.fspath(given)
        try:
            given = [float(word) for word in re.findall(r"[^\s,\[\]]+", text)]
        except ValueError:
            refuse(name, os.fspath(path), allowed)
    values = np.atleast_1d(array_within(name, given, quantity))
    if values.ndim != 1 or not 0 < len(values) <= _ANSWERS.most:
        reject(f"{name} has shape {values.shape}", f"a list of 1 to {_ANSWERS.most:g} numbers")
    return values


# --- The job, dealt out to servers and played through --------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """What is asked of all servers.

    Parameters
    ----------
    deployment, room
        Each server, and what becomes of requests that it has no memory for.
    loads
        The share of each server.
    max_draft_len
        The longest draft; None for the usual one.
    """

    deployment: Deployment
    room: RoomRule
    loads: Sequence[Load]
    max_draft_len: int | None

    def predicted(self, drafters: Sequence[Drafter], *draft_lens: int) -> list[Prediction]:
        """Return what `predict` says of each server's share."""
        return [
            predicted(
                Case(self.deployment, load, self.room),
                drafters,
                max_draft_len=self.max_draft_len,
                draft_lens=draft_lens,
            )
            for load in self.loads
        ]

    def servers(self, drafter: Drafter, max_draft_len: int) -> list[PlayedServer]:
        """Return the servers that these predictions were played on."""
        return [
            played_server(self.deployment, drafter, load, self.room, max_draft_len)
            for load in self.loads
        ]

    def slowest(self, servers: Sequence[PlayedServer], drafts: Drafts) -> Played:
        """Return what becomes of the share that ends last."""
        runs = zip(servers, self.loads, strict=True)
        played = [server.play(next(load.played()), drafts) for server, load in runs]
        return max(played, key=lambda one: one.duration_s)


def _together(shares: Sequence[Outcomes]) -> tuple[Outcomes, Array]:
    """Return the outcomes of servers of which the slowest ends the job, and its makespans."""
    first = shares[0]
    played = [cast("PlayedLoads", one.played) for one in shares]  # a job always is
    lasts_s = np.array([one.figures["duration_s"][0] for one in played])
    makespan_s = lasts_s.max(axis=0)
    whole = cast("EndToEnd", first.end_to_end)
    longer = np.nan_to_num(makespan_s / lasts_s[0], nan=1.0)
    curve = replace(whole.curve, round_s=whole.curve.round_s * longer)
    return replace(first, end_to_end=replace(whole, curve=curve)), makespan_s


#: Equal parts of a makespan in which the batch and its contexts are taken to be the same.
_SPANS: Final = 200


def fitting_schedule(server: PlayedServer, requests: Requests, plain: Played) -> Schedule:
    r"""Return the schedule of few ranges with which a job decodes in the least time.

    .. math:: \min \sum_i n_i \frac{t_{K(B_i)}(B_i, S_i)}{N_{K(B_i)}}

    Parameters
    ----------
    server
        The prices of rounds, t, and the tokens that they commit, N.
    requests, plain
        The job, and what becomes of it without drafts: in the part i of the run, B_i requests
        decode n_i tokens each at a mean context S_i.

    Ignores
        prompts, and that with other drafts other requests may run beside each other.
    Source
        `specroof.policies.schedule.cheapest_schedule`.
    """
    edges_s = np.linspace(0.0, plain.duration_s, _SPANS + 1)
    lengths = [k for k in (0, *server.choices) if server.runs(k)]
    powers = [1 << power for power in range(int(plain.running.max()).bit_length())]
    edges = sorted({edge for power in powers for edge in (power, 3 * power)})
    loads = [edge for edge in edges if edge <= plain.running.max()]
    cost = np.zeros((len(loads), lengths[-1] + 1))
    cost[:, [k for k in range(lengths[-1]) if k not in lengths]] = np.inf
    decode_s = np.maximum(plain.end_s - plain.first_s, 1e-9)
    for clock_s in (edges_s[1:] + edges_s[:-1]) / 2:
        done = (clock_s - plain.first_s) / decode_s
        going = (done >= 0) & (done < 1)
        batch = int(going.sum())
        if batch:
            held = requests.input_len[going] + done[going] * requests.output_len[going]
            token_s = [
                prices.round_s.at(batch, float(held.mean())) / prices.tokens_per_round
                for prices in map(server.prices.__getitem__, lengths)
            ]
            place = np.searchsorted(loads, batch, side="right") - 1
            cost[place, lengths] += np.array(token_s) / token_s[0]
    least_gain = _LEAST_GAIN * float(cost.min(axis=1).sum())
    found = cheapest_schedule(loads, cost, least_gain=least_gain)
    first, _, drafts = found.ranges[-1]
    return replace(found, ranges=(*found.ranges[:-1], (first, int(plain.running.max()), drafts)))


def step_speedup(speedup: float, share: float | None) -> float:
    r"""Return the speedup of a training step that waits for its rollout; NaN without a share.

    .. math:: \frac{1}{1 - r + r / s}

    Source
        Amdahl 1967, AFIPS 30, 483-485.

    Examples
    --------
    >>> round(step_speedup(1.77, 100.0 / 151.2), 2)  # published: 1.41 (arXiv:2604.26779, table 1)
    1.4
    """
    return math.nan if share is None else 1.0 / (1.0 - share + share / speedup)


# --- The answer -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RolloutPolicy:
    """What a policy reaches.

    Parameters
    ----------
    drafter, policy
        The drafter, and ``off``, ``fixed`` or ``schedule``.
    ranges
        First and last number of running requests, and drafts per round.
    makespan_s, makespan_low, makespan_high
        Seconds from the first prompt to the last token of the slowest server, with the ends of the
        band that holds 80 % of measurements; NaN where there is no band.
    speedup, speedup_low, speedup_high
        Over the makespan without drafts.
    decision
        On, off or unclear, as `specroof.outcomes.choose` has it; None without drafts.
    tail_share
        Share of the makespan after nine tenths of the answers have ended.
    step_speedup
        Of the whole training step; NaN where the rollout's share of it is not known.
    played
        What becomes of each request of the slowest server.
    """

    drafter: str
    policy: str
    ranges: tuple[tuple[int, int, int], ...]
    makespan_s: float
    makespan_low: float
    makespan_high: float
    speedup: float
    speedup_low: float
    speedup_high: float
    decision: LoadDecision | None
    tail_share: float
    step_speedup: float
    played: Played

    @property
    def draft_len(self) -> int | None:
        """The one draft length; None where it follows the load."""
        return self.ranges[0][2] if len(self.ranges) == 1 else None

    @property
    def drafts(self) -> str:
        """The draft lengths in words."""
        if len(self.ranges) == 1:
            return str(self.ranges[0][2])
        return ", ".join(f"{drafts} at {first}-{last}" for first, last, drafts in self.ranges)

    @property
    def time_s(self) -> Array:
        """Seconds at which the batch of the slowest server changes."""
        return self.played.event_s

    @property
    def running(self) -> Array:
        """How many answers it runs from then on."""
        return self.played.running

    @property
    def most_running(self) -> int:
        """The most answers that it runs at a time."""
        return int(self.played.running.max())

    @property
    def tokens_per_s(self) -> float:
        """Output tokens of the slowest server in a second, over its whole run."""
        return self.played.tokens_per_s

    @property
    def record(self) -> dict[str, Any]:
        """The policy as a row of a table."""
        row = fields_of(self, "drafter", "policy", "drafts", "draft_len", *_FIGURES)
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in row.items()
        }


#: Numbers of a policy, and what to do.
_FIGURES: Final = (
    *("makespan_s", "makespan_low", "makespan_high", "speedup", "speedup_low", "speedup_high"),
    *("decision", "tokens_per_s", "most_running", "tail_share", "step_speedup"),
)


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One step of a training run whose drafter drifts.

    Parameters
    ----------
    step
        From 1.
    accept_length
        Tokens per round, bonus included, as measured in this step.
    speedup
        Of the rollout with the draft length that is best at the drafter's own acceptance.
    best_draft_len, best_speedup
        With the one that is best in this step.
    step_speedup
        Of the whole step, with the first; None where the rollout's share of it is not known.
    """

    step: int
    accept_length: float
    speedup: float
    best_draft_len: int
    best_speedup: float
    step_speedup: float | None


@dataclass(frozen=True, slots=True, eq=False)
class DrafterRollout:
    """A rollout with one drafter.

    Parameters
    ----------
    name
        The drafter's.
    makespan_s
        By draft length; NaN where the server does not run it.
    policies
        ``off``, ``fixed`` and ``schedule``.
    steps
        Of a training run; empty without acceptance by step.
    """

    name: str
    makespan_s: Array
    policies: tuple[RolloutPolicy, ...]
    steps: tuple[RolloutStep, ...]

    @property
    def speedup(self) -> Array:
        """Over the makespan without drafts, by draft length."""
        return np.asarray(self.makespan_s[0] / self.makespan_s)

    def to_dict(self) -> dict[str, Any]:
        """Return the rollout as the object that ``--json`` prints."""
        return {
            "name": self.name,
            "draft_len": list(range(len(self.makespan_s))),
            "makespan_s": to_json_array(self.makespan_s),
            "speedup": to_json_array(self.speedup),
            "policies": [policy.record for policy in self.policies[1:]],
            "steps": [asdict(step) for step in self.steps],
        }


@dataclass(frozen=True, repr=False, eq=False)
class Rollout(Charted):
    """How long a rollout takes.

    Attributes
    ----------
    model, hardware, engine
        Names.
    placement
        The devices of each server.
    replicas
        Servers.
    output_len
        Tokens of each answer.
    input_len, prefix_hit_rate
        Of prompts, on average.
    step_share
        As asked.
    drafters
        The rollout with each of them.
    notes, warnings
        Sentences for the reader.
    """

    model: str
    hardware: str
    engine: str
    placement: Placement
    replicas: int
    output_len: Array
    input_len: float
    prefix_hit_rate: float
    step_share: float | None
    drafters: tuple[DrafterRollout, ...]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        servers = f"{self.replicas} servers, each " if self.replicas > 1 else ""
        return (
            f"{self.model} on {servers}{self.placement.devices} x {self.hardware}, engine "
            f"{self.engine}: {len(self.output_len)} answers"
        )

    @property
    def rows(self) -> tuple[RolloutPolicy, ...]:
        """The policies of all drafters; first that without drafts."""
        drafting = [row for drafter in self.drafters for row in drafter.policies[1:]]
        return (self.drafters[0].policies[0], *drafting)

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each drafter and policy."""
        return [row.record for row in self.rows]

    def text(self) -> str:
        """Return the makespan of each policy, and the meaning of each policy."""
        return rollout_text(self)

    def figures(self) -> dict[str, Any]:
        """Return the chart of batch and tokens over time; with drift, that of the steps too."""
        charts = {"": rollout_chart(self)}
        if self.drafters[0].steps:
            charts["-steps"] = steps_chart(self)
        return charts

    @property
    def output_len_summary(self) -> dict[str, float]:
        """Mean, p50, p99 and largest number of tokens of an answer."""
        p50, p99 = np.percentile(self.output_len, (50, 99)).tolist()
        mean, most = float(self.output_len.mean()), float(self.output_len.max())
        return {"mean": mean, "p50": p50, "p99": p99, "max": most}

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return {
            **fields_of(self, "model", "hardware", "engine"),
            "placement": asdict(self.placement),
            "replicas": self.replicas,
            "requests": len(self.output_len),
            "output_len": self.output_len_summary,
            **fields_of(self, "input_len", "prefix_hit_rate", "step_share"),
            "off": self.drafters[0].policies[0].record,
            "drafters": [drafter.to_dict() for drafter in self.drafters],
            **self.messages,
        }


_STALE: Final = (
    "the schedule turns drafting off at large batches: an engine that leaves the drafter's cache "
    "behind there has less acceptance for the rest of these answers, which is not counted"
)


@question(RolloutRequest)
def rollout(request: RolloutRequest) -> Rollout:
    """Predict the time of a batch of prompts with long-tailed answers, with drafts and without."""
    drafters = drafters_of(request.drafters)
    if not drafters:
        refuse("drafters", request.drafters, "at least one")
    if request.accept_length is not None and len(drafters) > 1:
        refuse("drafters", [drafter.name for drafter in drafters], "one, with accept_length")
    share = request.step_share
    if share is not None:
        share = number_within("step_share", share, "share")
    deployment, answers = request.resolved(), _answers(request)
    count, replicas = len(answers.output_len), whole_within("replicas", request.replicas, "devices")
    job = _Job(
        deployment,
        room_rule(deployment.setup, request.capacity, "queue"),
        [
            known_load(_part(answers, slice(place, None, replicas)))
            for place in range(min(replicas, count))
        ],
        request.max_draft_len,
    )
    drifts = [_drift(request, drafter, deployment) for drafter in drafters]
    drafters = [
        replace(drafter, acceptance=by_step[lengths[0]])
        if by_step and drafter.acceptance is None and not drafter.is_ideal
        else drafter
        for drafter, (lengths, by_step) in zip(drafters, drifts, strict=True)
    ]
    shares = job.predicted(drafters)
    found = []
    for place, (drafter, (lengths, by_step)) in enumerate(zip(drafters, drifts, strict=True)):
        one, makespan_s = _together([each.outcomes[place] for each in shares])
        if not math.isfinite(makespan_s[0]):
            where = f"{deployment.setup.placement.devices} x {deployment.setup.hardware.name}"
            reject(
                f"{deployment.model.name} leaves no room for a request on {where}", "more devices"
            )
        policies = _policies(job, drafter, shares[0].max_draft_len, one, share)
        kept = next(choose(one))[0].draft_len
        steps, drifted = [], {}
        for length, accepted in by_step.items():
            then = job.predicted([replace(drafter, acceptance=accepted)], *[kept] * (kept > 0))
            drifted[length] = _together([each.outcomes[0] for each in then])[0]
        for step, length in enumerate(lengths, start=1):
            gains, now = drifted[length].curve.speedup[0, 0], next(choose(drifted[length]))[0]
            gain = float(gains[kept])
            whole = None if share is None else step_speedup(gain, share)
            best = float(gains[now.draft_len])
            steps.append(RolloutStep(step, length, gain, now.draft_len, best, whole))
        found.append(DrafterRollout(drafter.name, makespan_s, policies, tuple(steps)))
    schedules = [answer.policies[2].ranges for answer in found]
    stale = any(len(ranges) > 1 and ranges[-1][2] == 0 for ranges in schedules)
    notes = [note for each in shares for note in each.notes] + [_STALE] * stale
    return Rollout(
        model=deployment.model.name,
        hardware=deployment.setup.hardware.name,
        engine=deployment.setup.engine.name,
        placement=deployment.setup.placement,
        replicas=replicas,
        output_len=answers.output_len,
        input_len=float(answers.input_len.mean()),
        prefix_hit_rate=float(answers.cached_len.sum() / answers.input_len.sum()),
        step_share=share,
        drafters=tuple(found),
        notes=tuple(dict.fromkeys(notes)),
        warnings=tuple(dict.fromkeys(text for each in shares for text in each.warnings)),
    )


def _drift(
    request: RolloutRequest, drafter: Drafter, deployment: Deployment
) -> tuple[list[float], dict[float, TokensPerRound]]:
    """Return the acceptance length of each training step, and the acceptance at each of them."""
    if request.accept_length is None:
        return [], {}
    lengths = _numbers(
        "accept_length",
        request.accept_length,
        "wanted_speedup",
        "a file, or numbers separated by commas",
    )
    measured = getattr(drafter.acceptance, "measured_depth", None)
    if request.draft_len is not None:
        measured = usual_drafts(drafter, deployment.model, request.draft_len)
    measured = measured or min(drafter.max_draft_len or _MOST_DRAFTS, _MOST_DRAFTS)
    outside = np.flatnonzero((lengths < 1) | (lengths > measured + 1))
    if outside.size:
        at = int(outside[0])
        allowed = f"1 to {measured + 1}, as measured with {format_drafts(measured)}"
        refuse(f"accept_length[{at}]", float(lengths[at]), allowed)
    return lengths.tolist(), {
        length: acceptance_from_length(length, measured, kind=drafter.kind)
        for length in lengths.tolist()
    }


def _policies(
    job: _Job, drafter: Drafter, max_draft_len: int, one: Outcomes, share: float | None
) -> tuple[RolloutPolicy, ...]:
    """Return what each policy reaches."""
    servers = job.servers(drafter, max_draft_len)
    plain = job.slowest(servers, 0)
    choice, decision = next(choose(one))
    best = choice.draft_len
    fixed = job.slowest(servers, best) if best else plain
    drafts: tuple[tuple[int, int, int], ...] = ((1, int(fixed.running.max()), best),)
    row = partial(_row, one, plain_s=plain.duration_s, share=share)
    rows = [
        row("", "off", ((1, int(plain.running.max()), 0),), None, plain),
        row(drafter.name, "fixed", drafts, decision, fixed),
    ]
    (requests,) = job.loads[0].played()
    ranges = fitting_schedule(servers[0], requests, servers[0].play(requests, 0)).ranges
    options = [rows[1]]
    if len(ranges) > 1:
        varied = job.slowest(servers, {first: length for first, _, length in ranges})
        seen = row(drafter.name, "schedule", ranges, None, varied)
        ends = np.nan_to_num([seen.speedup_low, seen.speedup_high], nan=seen.speedup)
        low, high = ([1.0, end] for end in ends.tolist())
        judged = best_choice([1.0, seen.speedup], low=low, high=high)
        options.append(replace(seen, decision=decision_of(judged)))
    quickest = min(options, key=lambda option: option.makespan_s)
    return *rows, replace(quickest, policy="schedule")


def _row(  # noqa: PLR0913, PLR0917 - a row has many figures
    one: Outcomes,
    drafter: str,
    policy: str,
    ranges: tuple[tuple[int, int, int], ...],
    decision: LoadDecision | None,
    played: Played,
    plain_s: float,
    share: float | None,
) -> RolloutPolicy:
    """Return the row of a policy; of several draft lengths, in the widest of their bands."""
    lengths = sorted({drafts for _, _, drafts in ranges})
    makespan_s, speedup = played.duration_s, plain_s / played.duration_s
    whole = cast("EndToEnd", one.end_to_end)
    ends, rates = whole.curve.band_columns, whole.figure_ends["tokens_per_s"]
    low, high = (ends[name][0, 0, lengths] for name in ("speedup_low", "speedup_high"))
    gains, made = whole.curve.speedup[0, 0, lengths], whole.tokens_per_s[0, 0, lengths]
    slow, fast = (np.nan * made,) * 2 if rates is None else (end[0, 0, lengths] for end in rates)
    last_tenth = math.ceil((1 - _TAIL) * len(played.end_s)) - 1
    return RolloutPolicy(
        drafter,
        policy,
        ranges=ranges,
        makespan_s=makespan_s,
        makespan_low=float(makespan_s * (made / fast).min()),
        makespan_high=float(makespan_s * (made / slow).max()),
        speedup=speedup,
        speedup_low=float(speedup * (low / gains).min()),
        speedup_high=float(speedup * (high / gains).max()),
        decision=decision,
        tail_share=1.0 - float(np.sort(played.end_s)[last_tenth]) / makespan_s,
        step_speedup=step_speedup(speedup, share),
        played=played,
    )


# --- The makespan of each policy, as a table ------------------------------------------------------

#: What the columns and rows mean, for whoever reads the table.
_MEANING: Final = """fixed: the one draft length with the shortest makespan
schedule: a draft length for each range of running answers, as engines take it, where it is faster
tail: share of the makespan after nine tenths of the answers have ended"""


def rollout_text(answer: Rollout) -> str:
    """Return the makespan of each policy, and the meaning of each policy."""
    lengths = answer.output_len_summary
    facts = (
        f"answers: {lengths['mean']:.0f} tokens on average, {lengths['p50']:.0f} at p50, "
        f"{lengths['p99']:.0f} at p99, {lengths['max']:.0f} at most\n"
        f"prompts: {plain_number(answer.input_len)} tokens"
    )
    header = ["policy", "makespan", "80% band", "speedup", "80% band", "decision", "tail"]
    header += [] if answer.step_share is None else ["step"]
    parts = [facts]
    for drafter in answer.drafters:
        rows = [
            [
                row.policy,
                format_seconds(row.makespan_s),
                _band(row.makespan_low, row.makespan_high, format_seconds),
                f"{row.speedup:.2f}x",
                _band(row.speedup_low, row.speedup_high, "{:.2f}x".format) if row.drafter else "-",
                row.decision or "",
                f"{row.tail_share:.0%}",
                f"{row.step_speedup:.2f}x",
                row.drafts,
            ]
            for row in drafter.policies
        ]
        cells = [[*row[: len(header)], row[-1]] for row in rows]
        table = format_table([*header, "drafts"], cells, left=[0, 5, len(header)])
        gains = [
            f"{gain:.2f}x with {drafts}"
            for drafts, gain in enumerate(drafter.speedup.tolist())
            if drafts and math.isfinite(gain)
        ]
        parts.append(f"{drafter.name}\n{table}\nfixed lengths: {', '.join(gains)}")
        if drafter.steps:
            parts.append(_steps_table(drafter))
    return page(answer, *parts, _MEANING)


def _band(low: float, high: float, spelt: Callable[[float], str]) -> str:
    return f"{spelt(low)}-{spelt(high)}" if math.isfinite(low + high) else "-"


def _steps_table(drafter: DrafterRollout) -> str:
    header = ["step", "tok/round", f"γ={drafter.policies[1].draft_len}", "best γ", "speedup"]
    header += [] if drafter.steps[0].step_speedup is None else ["step speedup"]
    rows = [
        [
            str(row.step),
            f"{row.accept_length:g}",
            f"{row.speedup:.2f}x",
            str(row.best_draft_len),
            f"{row.best_speedup:.2f}x",
            *([] if row.step_speedup is None else [f"{row.step_speedup:.2f}x"]),
        ]
        for row in drafter.steps
    ]
    return format_table(header, rows, left=[])


# --- The charts -----------------------------------------------------------------------------------


#: Policies lie on one another where they take the same drafts.
_LINES: Final = ("-", "-", "--")


def rollout_chart(answer: Rollout) -> Any:
    """Draw the answers of the slowest server that run, above those that have ended, over time."""
    from specroof.plot import style  # noqa: PLC0415 - matplotlib is slow to import

    with style.house_style():
        chart = style.new_chart(answer.title, width=8, height=5.8)
        upper, lower = chart.subplots(2, 1, sharex=True)
        keys = []
        for i, row in enumerate(answer.rows):
            look = {**style.look(i), "marker": "", "ls": _LINES[min(i, len(_LINES) - 1)]}
            upper.step(row.time_s, row.running, where="post", **look)
            ends_s = np.sort(row.played.end_s)
            lower.step(np.append(0.0, ends_s), np.arange(len(ends_s) + 1), where="post", **look)
            name = f"{row.policy}, {row.drafter}" if row.drafter else "no drafts"
            keys.append(style.line_key(f"{name}: {row.speedup:.2f}×", **look))
        upper.set_ylabel(
            "Answers running\non the slowest server" if answer.replicas > 1 else "Answers running"
        )
        lower.set_ylabel("Answers that have ended")
        lower.set_xlabel("Time (s)")
        style.add_legend(chart, keys)
        return chart


def steps_chart(answer: Rollout) -> Any:
    """Draw the speedup of each step's rollout as the drafter drifts."""
    from specroof.plot import style  # noqa: PLC0415 - matplotlib is slow to import

    with style.house_style():
        chart = style.new_chart(answer.title, width=8, height=4.6)
        axes = chart.subplots()
        keys = [style.plain_line(axes)]
        (drafter,) = answer.drafters
        steps = [row.step for row in drafter.steps]
        kept = f"γ = {drafter.policies[1].draft_len} in every step"
        lines = {
            kept: [row.speedup for row in drafter.steps],
            "best γ of each step": [row.best_speedup for row in drafter.steps],
        }
        for i, (name, values) in enumerate(lines.items()):
            axes.plot(steps, values, **style.look(i))
            keys.append(style.line_key(name, **style.look(i)))
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("Training step")
        axes.set_ylabel("Speedup of the rollout (×)")
        style.add_legend(chart, keys)
        return chart


COMMAND: Final = Command(
    question=rollout,
    options=FORMULAS,
    each_chip=True,
    told=told,
    chart="Draw the answers that run and those that have ended over time.",
    example="specroof rollout Qwen/Qwen3-8B -H h100 --drafter eagle3,accept-length=2.8@3\n"
    "--lengths lognormal=4000/16000 --requests 256 --step-share 0.7",
)
