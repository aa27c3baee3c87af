"""How long does a batch of prompts with long-tailed answers take, with drafts and without?"""

import heapq
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt

from specroof.acceptance import ContextAcceptance, acceptance_from_length
from specroof.arrays import (
    Array,
    IntArray,
    array_within,
    distinct,
    fields_of,
    number_within,
    to_json_array,
    whole_within,
)
from specroof.catalog.files import is_file, read_text
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import MeasurementError, refuse, reject
from specroof.hardware import Placement
from specroof.latency import Deployment, memory_notes
from specroof.policies.schedule import Schedule, cheapest_schedule
from specroof.questions.answer import Charted
from specroof.questions.capacity import usual_drafts
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
from specroof.reading.json_text import parse_json
from specroof.reading.table import plain_value
from specroof.report.layout import format_table, page
from specroof.serving.capacity import RoomRule, prefill_rules
from specroof.serving.prefills import piece_pass, prompt_groups
from specroof.serving.served import room_rule, served_curve
from specroof.serving.workload import Load
from specroof.speedup.curve import acceptance_of, longest_draft
from specroof.speedup.result import best_index, verdict, within_measured
from specroof.speedup.round import EnginePasses
from specroof.units import BOUNDS, MILLION, Bounds, format_drafts, format_seconds, plain_number

#: Answers of a law, where no number is given.
USUAL_REQUESTS: Final = 256
#: Answers of a rollout, and steps of a training run.
_ANSWERS: Final = Bounds(1, 100_000, whole=True)
#: Drafts that acceptance is measured with, at most, where nothing says how many.
_MOST_DRAFTS: Final = 16
#: A context is at most so many times the one before it; seconds between are linear.
_CONTEXT_STEP: Final = 1.25
#: The tail is the time of this last share of the answers.
_TAIL: Final = 0.1
#: A further range of a schedule must save this share of the time.
_LEAST_GAIN: Final = 0.002
#: Columns of a file that hold the tokens of answers.
_COLUMNS: Final = ("output_len", "output_length", "GeneratedTokens", "Response tokens")
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
    ['off', 'fixed', 'schedule', 'oracle']
    """

    drafters: Drafters
    lengths: Annotated[
        str | os.PathLike[str] | Values,
        Parameter(
            "Tokens of each answer: a file (a number a line, a CSV with a column output_len, a "
            "JSON list), or a law: lognormal=MEAN/P99, with the 99th percentile, or "
            "pareto=MEAN/INDEX.",
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
    input_len: Annotated[float, replace(SHARED["input_len"], about_flag="Tokens of a prompt.")] = (
        512
    )
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


def _answer_lengths(request: RolloutRequest) -> Array:
    """Return the tokens of all answers."""
    given, count = request.lengths, request.n_requests
    if count is not None:
        count = whole_within("n_requests", count, _ANSWERS)
    seed = whole_within("seed", request.seed, "seed")
    law, is_law, parts = (given if isinstance(given, str) else "").partition("=")
    if is_law and law in LAWS:
        try:
            mean, shape = (float(part) for part in parts.split("/"))
        except ValueError:
            refuse("lengths", given, f"{law}= with two numbers, as in {law}=4000/16000")
        number_within("lengths: MEAN", mean, "request_len")
        lengths = LAWS[law](np.random.default_rng(seed), count or USUAL_REQUESTS, mean, shape)
        lengths = np.clip(np.rint(lengths), 1.0, BOUNDS["request_len"].most)
    else:
        lengths = _numbers("lengths", given, "request_len")
        if count not in {None, len(lengths)}:
            lengths = np.random.default_rng(seed).choice(lengths, count)
    if request.max_output_len is None:
        return lengths
    most = number_within("max_output_len", request.max_output_len, "request_len")
    return np.minimum(lengths, most)


def _numbers(name: str, given: object, quantity: str) -> Array:
    """Return numbers that are given as themselves, as text, or in a file."""
    if isinstance(given, str | os.PathLike):
        text = os.fspath(given)
        if is_file(Path(text)):
            return _numbers_in(read_text(Path(text), MeasurementError), text, quantity)
        try:
            given = [float(part) for part in text.split(",")]
        except ValueError:
            laws = f", or a law: {', '.join(LAWS)}" if name == "lengths" else ""
            refuse(name, text, f"a file, numbers separated by commas{laws}")
    values = np.atleast_1d(array_within(name, given, quantity))
    if values.ndim != 1 or not 0 < len(values) <= _ANSWERS.most:
        reject(f"{name} has shape {values.shape}", f"a list of 1 to {_ANSWERS.most:g} numbers")
    return values


def _numbers_in(text: str, source: str, quantity: str) -> Array:
    r"""Return the numbers of a file: a JSON list, a number a line, or a column of a CSV.

    Raises
    ------
    MeasurementError
        For a file without numbers, or one that is none, each with its line.

    Examples
    --------
    >>> _numbers_in("input_len,output_len\n512,80\n512,90\n", "a.csv", "request_len")
    array([80., 90.])
    """
    if text.lstrip().startswith("["):
        values = parse_json(
            text, source=source, error=MeasurementError, allowed="a list of numbers"
        )
        cells = [(f"{source}: entry {i}", value) for i, value in enumerate(values)]
    else:
        rows = [
            (f"{source}, line {number}", [cell.strip() for cell in line.split(",")])
            for number, line in enumerate(text.splitlines(), start=1)
            if line.strip() and not line.startswith("#")
        ]
        column = 0
        if rows and isinstance(plain_value(rows[0][1][0]), str):  # a line of names
            names = rows.pop(0)[1]
            column = next((names.index(name) for name in _COLUMNS if name in names), 0)
            if len(names) > 1 and names[column] not in _COLUMNS:
                problem = f"{source}: has the columns {', '.join(names)}"
                reject(problem, f"one of {', '.join(_COLUMNS)}", MeasurementError)
        cells = [
            (place, plain_value(row[column]) if column < len(row) else None) for place, row in rows
        ]
    if not 0 < len(cells) <= _ANSWERS.most:
        allowed = f"1 to {_ANSWERS.most:g}"
        reject(f"{source}: has {len(cells)} numbers", allowed, MeasurementError)
    return np.array(
        [number_within(place, value, quantity, error=MeasurementError) for place, value in cells]
    )


# --- The batch of a server over the tokens that each of its requests decodes ---------------------


@dataclass(frozen=True, slots=True, eq=False)
class DecodedBatches:
    """Spans of tokens over which the batches of servers do not change, a value for each.

    Parameters
    ----------
    replica
        The server, from 0.
    batch
        Sequences that it decodes.
    context
        Their mean cached tokens at the beginning.
    tokens
        Tokens that each of them decodes.
    left
        Share of the server's requests that have not ended.
    """

    replica: IntArray
    batch: Array
    context: Array
    tokens: Array
    left: Array


def decoded_batches(
    lengths: Array, *, input_len: float, capacity: float, replicas: int = 1
) -> DecodedBatches:
    """Return the batches of servers that decode a job, request by request in the order given.

    All requests of a server commit the same tokens in a round, so what runs beside what depends on
    no time: a request starts when one before it has ended, and time passes as fast as rounds are.

    Parameters
    ----------
    lengths
        Tokens that each request decodes.
    input_len
        Cached tokens of each before them.
    capacity
        Requests that a server runs at a time; others wait for their turn.
    replicas
        Servers, to which the requests are dealt out in turn.

    Source
        List scheduling (Graham 1966, Bell System Technical Journal 45, 1563) on equal machines.

    Examples
    --------
    >>> batches = decoded_batches(np.array([2.0, 5.0, 4.0]), input_len=10.0, capacity=2)
    >>> batches.batch, batches.tokens  # the third begins at 2, and ends at 6
    (array([2., 2., 1.]), array([2., 3., 1.]))
    >>> batches.context  # 10; 12 and 10; 13
    array([10., 11., 13.])
    """
    parts = []
    for replica in range(min(replicas, len(lengths))):
        own = lengths[replica::replicas]
        starts = np.zeros(len(own))
        if len(own) > capacity:
            ends = sorted(own[: int(capacity)].tolist())
            for number in range(int(capacity), len(own)):
                starts[number] = ends[0]
                heapq.heapreplace(ends, ends[0] + float(own[number]))
        stops = starts + own
        marks = distinct(np.concatenate([starts, stops]))
        order = np.argsort(stops)
        started = np.searchsorted(np.sort(starts), marks[:-1], side="right")
        ended = np.searchsorted(stops[order], marks[:-1], side="right")
        batch = (started - ended).astype(np.float64)
        begun = np.append(0.0, np.cumsum(np.sort(starts)))[started]
        begun -= np.append(0.0, np.cumsum(starts[order]))[ended]
        context = input_len + marks[:-1] - begun / batch
        left = 1.0 - ended / len(own)
        parts.append((np.full(len(batch), replica), batch, context, np.diff(marks), left))
    return DecodedBatches(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def span_seconds(batches: DecodedBatches, contexts: Array, sizes: Array, token_s: Array) -> Array:
    r"""Return the seconds of each span, axes (span, draft_len).

    .. math:: \int_0^{n} t(B, S_0 + x) \, dx

    Parameters
    ----------
    batches
        The spans: B sequences that decode n tokens each from a mean context S_0 on.
    contexts, sizes
        Contexts and batch sizes at which seconds are known; every batch is one of `sizes`.
    token_s
        t: seconds of a token of each sequence, axes (context, size, draft_len), linear between
        contexts.

    Source
        The trapezoidal rule, exact for what is linear between its points.

    Examples
    --------
    >>> spans = decoded_batches(np.array([4.0]), input_len=0.0, capacity=1)
    >>> rising = np.array([[[1.0]], [[5.0]]])
    >>> span_seconds(spans, np.array([0.0, 4.0]), np.array([1.0]), rising)
    array([[12.]])
    """
    widths = np.diff(contexts)
    areas = widths[:, None, None] * (token_s[1:] + token_s[:-1]) / 2
    below = np.concatenate([np.zeros_like(token_s[:1]), np.cumsum(areas, axis=0)])
    slopes = (token_s[1:] - token_s[:-1]) / widths[:, None, None]
    column = np.searchsorted(sizes, batches.batch)

    def area(context: Array) -> Array:
        row = np.clip(np.searchsorted(contexts, context, side="right") - 1, 0, len(widths) - 1)
        beyond = (context - contexts[row])[:, None]
        rise = slopes[row, column] * beyond / 2
        return np.asarray(below[row, column] + beyond * (token_s[row, column] + rise))

    return area(batches.context + batches.tokens) - area(batches.context)


# --- The seconds of a job, by draft length, and of policies ---------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _PricedSpans:
    """Seconds of the spans of a job, axes (span, draft_len), on servers of one capacity.

    Parameters
    ----------
    batches
        The spans.
    counts, prompts_s
        Requests of each server, and the seconds of their prompts.
    seconds
        By name: ``expected``; ``slow`` and ``fast``, at the ends of the band of the speedup;
        ``least`` and ``most``, at the ends of their own band. Without a band there is no name.
    runs
        Whether a server that drafts so much has room for as many requests, by draft length.
    measured_draft_len
        The longest draft to choose; None where there is no end.
    """

    batches: DecodedBatches
    counts: Array
    prompts_s: Array
    seconds: Mapping[str, Array]
    runs: npt.NDArray[np.bool_]
    measured_draft_len: int | None

    @property
    def largest(self) -> int:
        """The largest batch."""
        return int(self.batches.batch.max(initial=1.0))

    def fixed(self, draft_len: int) -> IntArray:
        """Return one draft length for all spans."""
        return np.full(len(self.batches.batch), draft_len)

    def spent(self, drafts: IntArray, name: str = "expected") -> Array:
        """Return the seconds of each span with these drafts; NaN where they are not known."""
        if name not in self.seconds:
            return np.full(len(drafts), np.nan)
        return np.asarray(self.seconds[name][np.arange(len(drafts)), drafts])

    def by_replica(self, drafts: IntArray, name: str = "expected") -> Array:
        """Return the seconds of each server with these drafts."""
        spent = np.bincount(self.batches.replica, self.spent(drafts, name), len(self.prompts_s))
        return np.asarray(self.prompts_s + spent)

    def makespan_s(self, drafts: IntArray, name: str = "expected") -> float:
        """Return the seconds until the last server is through."""
        return float(self.by_replica(drafts, name).max())

    @property
    def possible_s(self) -> Array:
        """Expected seconds; inf where a draft length cannot be chosen."""
        known = within_measured(self.seconds["expected"], self.measured_draft_len)
        return np.where(np.isfinite(known) & self.runs, known, np.inf)

    def schedule(self) -> Schedule:
        """Return the schedule of few ranges whose seconds, over all servers, are least."""
        powers = [1 << power for power in range(self.largest.bit_length())]
        edges = sorted({edge for power in powers for edge in (power, 3 * power)})
        loads = [edge for edge in edges if edge <= self.largest]
        place = np.searchsorted(loads, self.batches.batch, side="right") - 1
        possible_s = self.possible_s
        cost = np.zeros((len(loads), possible_s.shape[1]))
        np.add.at(cost, place, possible_s)
        least_gain = _LEAST_GAIN * float(possible_s.min(axis=1).sum())
        best = cheapest_schedule(loads, cost, least_gain=least_gain)
        first, _, drafts = best.ranges[-1]
        return replace(best, ranges=(*best.ranges[:-1], (first, self.largest, drafts)))

    def scheduled(self, schedule: Schedule) -> IntArray:
        """Return the drafts of each span under a schedule."""
        ends = [last for _, last, _ in schedule.ranges[:-1]]
        drafts = np.array([drafts for _, _, drafts in schedule.ranges])
        return np.asarray(drafts[np.searchsorted(ends, self.batches.batch)])

    def oracle(self) -> IntArray:
        """Return the best draft length of each span."""
        return np.asarray(best_index(1.0 / self.possible_s))


@dataclass(frozen=True, slots=True, eq=False)
class _PricedJob:
    """A job with one drafter on servers of each capacity.

    Parameters
    ----------
    servers
        The largest capacity first.
    runs_on
        Which of them a draft length runs on.
    makespan_s
        By draft length; NaN where it does not run.
    notes, warnings
        Sentences for the reader.
    """

    servers: list[_PricedSpans]
    runs_on: list[int]
    makespan_s: Array
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def server(self, draft_len: int) -> _PricedSpans:
        """Return the server that runs a draft length."""
        return self.servers[self.runs_on[draft_len]]

    @property
    def best_draft_len(self) -> int:
        """The draft length with the shortest makespan."""
        measured = self.servers[0].measured_draft_len
        return int(best_index(within_measured(1.0 / self.makespan_s, measured)))


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """What is asked of all servers.

    Parameters
    ----------
    deployment, room
        Each server, and what becomes of requests that it has no memory for.
    output_len
        Tokens of each answer.
    input_len, new_len
        Tokens of each prompt, and those that are not cached.
    replicas
        Servers.
    """

    deployment: Deployment
    room: RoomRule
    output_len: Array
    input_len: float
    new_len: float
    replicas: int

    @property
    def counts(self) -> Array:
        """Requests of each server."""
        count = len(self.output_len)
        return np.bincount(np.arange(count) % self.replicas).astype(np.float64)

    @property
    def held_len(self) -> float:
        """Tokens that a running request holds on average: long answers run for longer.

        Source
            Feller 1971, An Introduction to Probability Theory II, XI.4: the mean age of renewals.
        """
        return round(self.input_len + float((self.output_len**2).sum() / self.output_len.sum()) / 2)

    def prompts_s(self) -> Array:
        """Return the seconds of the prompts of each server, one group of them after another."""
        chunk = prefill_rules(self.deployment).chunk
        together, pieces = prompt_groups(self.new_len, self.counts, chunk)
        forward = piece_pass(self.new_len, self.input_len - self.new_len, pieces, together)
        pass_s = EnginePasses()(self.deployment, forward)
        request_s = self.deployment.setup.engine.request_overhead_s
        return np.asarray(self.counts * (pieces * pass_s / together + request_s))

    def priced(
        self,
        drafter: Drafter,
        acceptance: TokensPerRound | ContextAcceptance,
        max_draft_len: int,
    ) -> _PricedJob:
        """Return the seconds of all spans, each at its own batch and contexts."""
        served = partial(
            served_curve,
            self.deployment,
            drafter,
            max_draft_len=max_draft_len,
            acceptance=acceptance,
        )
        count, held = float(self.counts.max()), float(self.held_len)
        together = served(Load([count], [held]), self.room)
        most = np.full(max_draft_len + 1, count)
        warnings: tuple[str, ...] = ()
        memory = memory_notes(
            self.deployment.model, self.deployment.setup, np.array([held]), np.array([count])
        )
        if together.room is not None:
            most = np.minimum(np.floor(together.room.largest[0]), count)
            warnings = tuple(together.room.warnings(together.decoding, "the others wait"))
            memory = iter(())
            if most[0] < 1:
                reject(warnings[-1], "a model and answers that a server has memory for")
        capacities = distinct(most[most >= 1])[::-1]
        batches = [
            decoded_batches(
                self.output_len - 1.0,  # the pass over the prompt makes the first token
                input_len=self.input_len,
                capacity=capacity,
                replicas=self.replicas,
            )
            for capacity in capacities.tolist()
        ]
        sizes = distinct(np.concatenate([[1.0], *(spans.batch for spans in batches)]))
        longest = self.input_len + float(self.output_len.max())
        steps = math.ceil(math.log(longest / self.input_len) / math.log(_CONTEXT_STEP))
        contexts = np.geomspace(self.input_len, longest, steps + 1)
        curve = served(Load(sizes.tolist(), contexts.tolist()), "ignore").decoding
        token_s = {"expected": curve.round_s / curve.tokens_per_round}
        low, high = curve.speedup_low, curve.speedup_high
        if low is not None and high is not None:
            for name, end in (("slow", low), ("fast", high)):
                token_s[name] = token_s["expected"] * curve.speedup / end
        ends = curve.figure_ends("tpot_s", token_s["expected"], per_speedup=-1)
        if ends is not None:
            token_s |= {"least": ends[0], "most": ends[1]}
        prompts_s = self.prompts_s()
        servers = [
            _PricedSpans(
                spans,
                self.counts,
                prompts_s,
                {
                    name: span_seconds(spans, contexts, sizes, each)
                    for name, each in token_s.items()
                },
                most >= capacity,
                curve.measured_draft_len,
            )
            for spans, capacity in zip(batches, capacities, strict=True)
        ]
        # What has no room for one request is on the smallest server, which does not run it.
        runs_on = np.minimum(np.searchsorted(-capacities, -most), len(servers) - 1).tolist()
        makespan_s = [
            servers[place].makespan_s(servers[place].fixed(k)) if servers[place].runs[k] else np.nan
            for k, place in enumerate(runs_on)
        ]
        # The corners of the grid, all answers at their longest, never are.
        corners = memory_notes(self.deployment.model, self.deployment.setup, contexts, sizes)
        left_out = {*corners}
        notes = tuple(
            note for note in (*curve.notes, *curve.measuring_notes, *memory) if note not in left_out
        )
        return _PricedJob(servers, runs_on, np.array(makespan_s), notes, warnings)


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
        The drafter, and ``off``, ``fixed``, ``schedule`` or ``oracle``.
    ranges
        First and last number of running requests, and drafts per round; None of the oracle.
    makespan_s, makespan_low, makespan_high
        Seconds from the first prompt to the last token of the slowest server, with the ends of the
        band that holds 80 % of measurements; NaN where there is no band.
    speedup, speedup_low, speedup_high
        Over the makespan without drafts. Errors at all batches are taken to be one.
    verdict
        Whether that pays; empty without a band.
    tail_share
        Share of the makespan after nine tenths of the answers have ended.
    step_speedup
        Of the whole training step; NaN where the rollout's share of it is not known.
    time_s, running, tokens
        Seconds at which the batch of the slowest server changes, how many answers it decodes from
        then on, and the tokens that it has made by then.
    """

    drafter: str
    policy: str
    ranges: tuple[tuple[int, int, int], ...] | None
    makespan_s: float
    makespan_low: float
    makespan_high: float
    speedup: float
    speedup_low: float
    speedup_high: float
    verdict: str
    tail_share: float
    step_speedup: float
    time_s: Array
    running: Array
    tokens: Array

    @property
    def draft_len(self) -> int | None:
        """The one draft length; None where it follows the load."""
        return self.ranges[0][2] if self.ranges is not None and len(self.ranges) == 1 else None

    @property
    def drafts(self) -> str:
        """The draft lengths in words."""
        if self.ranges is None:
            return "any"
        if len(self.ranges) == 1:
            return str(self.ranges[0][2])
        return ", ".join(f"{drafts} at {first}-{last}" for first, last, drafts in self.ranges)

    @property
    def record(self) -> dict[str, Any]:
        """The policy as a row of a table."""
        row = fields_of(self, "drafter", "policy", "drafts", "draft_len", *_FIGURES)
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in row.items()
        }


#: Numbers of a policy, and its verdict.
_FIGURES: Final = (
    *("makespan_s", "makespan_low", "makespan_high", "speedup", "speedup_low", "speedup_high"),
    *("verdict", "tail_share", "step_speedup"),
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
    capacity
        Answers that a server decodes at a time, by draft length, from none on; 0 where it has no
        room for one.
    makespan_s
        By draft length; NaN where the server does not run it.
    policies
        ``off``, ``fixed``, ``schedule`` and ``oracle``.
    steps
        Of a training run; empty without acceptance by step.
    """

    name: str
    capacity: tuple[int, ...]
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
            "capacity": list(self.capacity),
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
        Of prompts.
    prompts_s
        Seconds of all prompts of the slowest server.
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
    prompts_s: float
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
            **fields_of(self, "input_len", "prefix_hit_rate", "prompts_s", "step_share"),
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
    prompt = number_within("input_len", request.input_len, "request_len")
    cached = number_within("prefix_hit_rate", request.prefix_hit_rate, "share")
    share = request.step_share
    if share is not None:
        share = number_within("step_share", share, "share")
    deployment = request.resolved()
    job = _Job(
        deployment,
        room_rule(deployment.setup, request.capacity, "queue"),
        output_len=_answer_lengths(request),
        input_len=prompt,
        new_len=max(prompt * (1 - cached), 1.0),
        replicas=whole_within("replicas", request.replicas, "devices"),
    )
    priced, answers = list[_PricedJob](), list[DrafterRollout]()
    for given in drafters:
        lengths, by_step = _drift(request, given, job)
        drafter = given
        if by_step and given.acceptance is None and not given.is_ideal:
            drafter = replace(given, acceptance=by_step[lengths[0]])
        acceptance = acceptance_of(drafter)
        longest = longest_draft(drafter, acceptance, request.max_draft_len)
        priced.append(job.priced(drafter, acceptance, longest))
        policies = _policies(drafter.name, priced[-1], share)
        drifted = {length: job.priced(drafter, each, longest) for length, each in by_step.items()}
        steps = []
        for step, length in enumerate(lengths, start=1):
            gains = policies[0].makespan_s / drifted[length].makespan_s
            kept, now = float(gains[priced[-1].best_draft_len]), drifted[length].best_draft_len
            whole = None if share is None else step_speedup(kept, share)
            steps.append(RolloutStep(step, length, kept, now, float(gains[now]), whole))
        capacity = tuple(
            server.largest if server.runs[drafts] else 0
            for drafts, server in enumerate(map(priced[-1].servers.__getitem__, priced[-1].runs_on))
        )
        answers.append(
            DrafterRollout(drafter.name, capacity, priced[-1].makespan_s, policies, tuple(steps))
        )
    schedules = [answer.policies[2].ranges or () for answer in answers]
    stale = any(len(ranges) > 1 and ranges[-1][2] == 0 for ranges in schedules)
    notes = [note for part in priced for note in part.notes] + [_STALE] * stale
    return Rollout(
        model=deployment.model.name,
        hardware=deployment.setup.hardware.name,
        engine=deployment.setup.engine.name,
        placement=deployment.setup.placement,
        replicas=job.replicas,
        output_len=job.output_len,
        input_len=prompt,
        prefix_hit_rate=cached,
        prompts_s=float(job.prompts_s().max()),
        step_share=share,
        drafters=tuple(answers),
        notes=tuple(dict.fromkeys(notes)),
        warnings=tuple(dict.fromkeys(warning for part in priced for warning in part.warnings)),
    )


def _drift(
    request: RolloutRequest, drafter: Drafter, job: _Job
) -> tuple[list[float], dict[float, TokensPerRound]]:
    """Return the acceptance length of each training step, and the acceptance at each of them."""
    if request.accept_length is None:
        return [], {}
    lengths = _numbers("accept_length", request.accept_length, "wanted_speedup")
    measured = getattr(drafter.acceptance, "measured_depth", None)
    if request.draft_len is not None:
        measured = usual_drafts(drafter, job.deployment.model, request.draft_len)
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


def _policies(drafter: str, priced: _PricedJob, share: float | None) -> tuple[RolloutPolicy, ...]:
    """Return what each policy reaches."""
    best = priced.best_draft_len
    plain, of_best = priced.server(0), priced.server(best)
    fixed = Schedule(((1, of_best.largest, best),), 0.0)
    server, schedule = min(
        [(of_best, fixed), *((server, server.schedule()) for server in priced.servers)],
        key=lambda pair: pair[0].makespan_s(pair[0].scheduled(pair[1])),
    )
    oracle = min(priced.servers, key=lambda server: server.makespan_s(server.oracle()))
    taken = {
        "off": (plain, plain.fixed(0), ((1, plain.largest, 0),)),
        "fixed": (of_best, of_best.fixed(best), fixed.ranges),
        "schedule": (server, server.scheduled(schedule), schedule.ranges),
        "oracle": (oracle, oracle.oracle(), None),
    }
    return tuple(
        _outcome(("" if policy == "off" else drafter, policy), choice, priced.makespan_s[0], share)
        for policy, choice in taken.items()
    )


def _outcome(
    names: tuple[str, str],
    choice: tuple[_PricedSpans, IntArray, tuple[tuple[int, int, int], ...] | None],
    plain_s: float,
    share: float | None,
) -> RolloutPolicy:
    """Return what a server reaches that drafts so much in each span."""
    server, drafts, ranges = choice
    by_replica = server.by_replica(drafts)
    slowest = int(np.argmax(by_replica))
    makespan_s = float(by_replica[slowest])
    own = server.batches.replica == slowest
    spent, running = server.spent(drafts)[own], server.batches.batch[own]
    made = np.append(server.counts[slowest], running * server.batches.tokens[own])
    low, high = (plain_s / server.makespan_s(drafts, name) for name in ("slow", "fast"))
    is_judged = math.isfinite(low) and bool(drafts.any())
    speedup = plain_s / makespan_s
    return RolloutPolicy(
        *names,
        ranges=ranges,
        makespan_s=makespan_s,
        makespan_low=server.makespan_s(drafts, "least"),
        makespan_high=server.makespan_s(drafts, "most"),
        speedup=speedup,
        speedup_low=low,
        speedup_high=high,
        verdict=str(verdict(low, high)) if is_judged else "",
        tail_share=float(spent[server.batches.left[own] <= _TAIL].sum()) / makespan_s,
        step_speedup=step_speedup(speedup, share),
        time_s=server.prompts_s[slowest] + np.append(0.0, np.cumsum(spent)),
        running=np.append(running, 0.0),
        tokens=np.cumsum(made),
    )


# --- The makespan of each policy, as a table ------------------------------------------------------

#: What the columns and rows mean, for whoever reads the table.
_MEANING: Final = """fixed: the one draft length with the shortest makespan
schedule: a draft length for each range of running answers, as engines take it
oracle: the best draft length whenever an answer ends; no schedule can beat it
tail: share of the makespan after nine tenths of the answers have ended"""


def rollout_text(answer: Rollout) -> str:
    """Return the makespan of each policy, and the meaning of each policy."""
    lengths = answer.output_len_summary
    facts = (
        f"answers: {lengths['mean']:.0f} tokens on average, {lengths['p50']:.0f} at p50, "
        f"{lengths['p99']:.0f} at p99, {lengths['max']:.0f} at most\n"
        f"prompts: {plain_number(answer.input_len)} tokens, "
        f"{format_seconds(answer.prompts_s)} of each makespan"
    )
    header = ["policy", "makespan", "80% band", "speedup", "80% band", "verdict", "tail"]
    header += [] if answer.step_share is None else ["step"]
    parts = [facts]
    for drafter in answer.drafters:
        rows = [
            [
                row.policy,
                format_seconds(row.makespan_s),
                _band(row.makespan_low, row.makespan_high, format_seconds),
                f"{row.speedup:.2f}x",
                _band(row.speedup_low, row.speedup_high, "{:.2f}x".format) if row.verdict else "-",
                row.verdict,
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
_LINES: Final = ("-", "-", "--", ":")


def rollout_chart(answer: Rollout) -> Any:
    """Draw the batch of the slowest server above the tokens that it has made, over time."""
    from specroof.plot import style  # noqa: PLC0415 - matplotlib is slow to import

    with style.house_style():
        chart = style.new_chart(answer.title, width=8, height=5.8)
        upper, lower = chart.subplots(2, 1, sharex=True)
        keys = []
        for i, row in enumerate(answer.rows):
            look = {**style.look(i), "marker": "", "ls": _LINES[min(i, len(_LINES) - 1)]}
            upper.step(row.time_s, row.running, where="post", **look)
            lower.plot(row.time_s, row.tokens / MILLION, **look)
            name = f"{row.policy}, {row.drafter}" if row.drafter else "no drafts"
            keys.append(style.line_key(f"{name}: {row.speedup:.2f}×", **look))
        upper.set_ylabel(
            "Answers running\non the slowest server" if answer.replicas > 1 else "Answers running"
        )
        lower.set_ylabel("Tokens made (millions)")
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
    chart="Draw the running batch and the tokens over time.",
    example="specroof rollout Qwen/Qwen3-8B -H h100 --drafter eagle3,accept-length=2.8@3\n"
    "--lengths lognormal=4000/16000 --requests 256 --step-share 0.7",
)
