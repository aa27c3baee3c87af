"""How long does a batch of prompts with long-tailed answers take, with drafts and without?"""

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from specroof import quantities as q
from specroof.acceptance import Acceptance, ContextAcceptance
from specroof.acceptance.sampling import acceptance_at_entropy
from specroof.architecture.model import Architecture
from specroof.arrays import Array, array_within, fields_of, number_within, whole_within
from specroof.catalog.files import is_file, read_text
from specroof.drafters import Drafter, TokensPerRound
from specroof.drafters.training import UNROLLED_STEPS
from specroof.errors import MeasurementError, refuse, reject
from specroof.latency.setup import Deployment, Setup
from specroof.outcomes.case import Case
from specroof.outcomes.choose import decided
from specroof.outcomes.outcomes import Outcomes, simulated_note
from specroof.outcomes.rows import LoadRow, bands_around, costs_of, known_bands, load_fields
from specroof.policies.decision import decide
from specroof.policies.schedule import fitting_schedule
from specroof.questions import parameters as p
from specroof.questions.answer import (
    ACCEPTANCE_UNKNOWN,
    Charted,
    case_of,
    decision_line,
    releases_of,
    rows_table,
    sure_of,
)
from specroof.questions.capacity import measured_drafts
from specroof.questions.case import known_load, known_requests, on_each_chip
from specroof.questions.objects import Values, money_of
from specroof.questions.predict import Prediction, predicted
from specroof.questions.request import ChipsRequest, Command, question
from specroof.questions.train import trained_head, training_of
from specroof.questions.worth import length_notes, with_lengths
from specroof.reading.table import plain_value
from specroof.report.columns import Columns, listed_columns
from specroof.report.layout import in_line, wrapped
from specroof.serving.capacity import RoomRule
from specroof.serving.played import Drafts, Played, joined, played_server
from specroof.serving.served import room_rule
from specroof.serving.workload import LENGTH_LAWS, Load, Requests
from specroof.speedup.price import Money
from specroof.units import BOUNDS, HOUR, Bounds, format_drafts, format_seconds, plain_number

#: Answers of a law, where no number is given.
USUAL_REQUESTS: Final = 256
#: Answers of a rollout, and steps of a training run.
_ANSWERS: Final = Bounds(1, 100_000, whole=True)
#: The tail is the time of this last share of the answers.
_TAIL: Final = 0.1
_TOKENS: Final = q.TOKENS_PER_S.name
#: A number of a list, as people or JSON write one.
_WORD: Final = re.compile(r"[^\s,\[\]]+")


@dataclass(frozen=True, kw_only=True)
class RolloutRequest(ChipsRequest):
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

    lengths: Annotated[
        str | os.PathLike[str] | Values,
        p.Parameter(
            "Tokens of each answer: a file as predict takes it (a number a line, a CSV with "
            "output_len and perhaps input_len, a JSON list), or a law: lognormal=MEAN/P99, with "
            "the 99th percentile, or pareto=MEAN/INDEX.",
            in_python="Or the numbers.",
            metavar="FILE|LAW",
        ),
    ]
    n_requests: Annotated[
        int | None,
        p.Parameter(
            "Answers of the rollout, drawn from the file or the law.",
            "--requests",
            shown=f"all of the file; {USUAL_REQUESTS} of a law",
        ),
    ] = None
    max_output_len: Annotated[
        float | None, p.Parameter("Tokens at which answers are cut.", shown="none are cut")
    ] = None
    input_len: Annotated[
        float, p.like(p.InputLen, about_flag="Tokens of a prompt, where the file has none.")
    ] = 512
    prefix_hit_rate: Annotated[
        float,
        p.like(
            p.PrefixHitRate,
            about="Share of a prompt's tokens that the server has cached, 0 to 1: of n samples of "
            "one prompt, 1 - 1/n.",
            about_flag="",
        ),
    ] = 0.0
    replicas: Annotated[
        int,
        p.Parameter("Servers that answers are dealt out to; the slowest one ends the rollout."),
    ] = 1
    max_draft_len: p.MaxDraftLen = None
    step_share: Annotated[
        float | None,
        p.Parameter(
            "Share of a training step that the rollout takes without drafts, 0 to 1.",
            metavar="SHARE",
        ),
    ] = None
    accept_length: Annotated[
        str | os.PathLike[str] | Values | None,
        p.Parameter(
            "Acceptance length of each training step, bonus included, as a drafter drifts: "
            "numbers, or a file of them.",
            about_flag="Acceptance length of each training step, bonus included, as a drafter "
            "drifts: comma-separated, or a file.",
        ),
    ] = None
    draft_len: p.MeasuredDraftLen = None
    entropy: Annotated[
        str | os.PathLike[str] | Values | None,
        p.Parameter(
            "Entropy of the policy's next token at each training step, in nats at temperature 1, "
            "which moves an acceptance with a temperature= in place of accept_length: numbers, or "
            "a file of them. The drafter was measured at its entropy=, else at the first.",
            about_flag="Entropy of the policy's next token at each training step, in nats at "
            "temperature 1: comma-separated, or a file. Moves the drafter's acceptance, which "
            "states its temperature= and was measured at its entropy=, else at the first of these.",
        ),
    ] = None
    retraining_samples: Annotated[
        int | None,
        p.Parameter(
            "Answers on which a drafter that drifts is trained anew.",
            shown="those of one rollout",
        ),
    ] = None
    price_per_hour: p.PricePerHour = None
    capacity: p.Capacity = None
    seed: p.Seed = 0


# --- Lengths of answers: numbers, a file, or a law -----------------------------------------------


def _answers(request: RolloutRequest) -> Requests:
    """Return all answers and their prompts."""
    given, count = request.lengths, request.n_requests
    if count is not None:
        count = whole_within("n_requests", count, _ANSWERS)
    rng = np.random.default_rng(whole_within("seed", request.seed, "seed"))
    law, is_law, parts = (given if isinstance(given, str) else "").partition("=")
    columns: Any = given
    if is_law and law in LENGTH_LAWS:
        try:
            mean, shape = (float(part) for part in parts.split("/"))
        except ValueError:
            refuse("lengths", given, f"{law}= with two numbers, as in {law}=4000/16000")
        number_within("lengths: MEAN", mean, "request_len")
        count = count or USUAL_REQUESTS
        lengths = np.rint(LENGTH_LAWS[law](rng, count, mean, shape))
        columns = {"output_len": np.clip(lengths, 1.0, BOUNDS["request_len"].most)}
    elif not (isinstance(given, str | os.PathLike) and is_file(Path(given))):
        allowed = f"a file, numbers separated by commas, or a law: {', '.join(LENGTH_LAWS)}"
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
    """Return numbers that are given as themselves, as text, or in a file, one a line or several.

    Raises
    ------
    MeasurementError
        For a file without numbers, and for words in it that are no number within the bounds.
    OptionError
        For anything else that is no list of such numbers.
    """
    if isinstance(given, str | os.PathLike):
        path, text = Path(given), os.fspath(given)
        if is_file(path):
            lines = enumerate(read_text(path, MeasurementError).splitlines(), start=1)
            words = [(f"{path}, line {at}: {name}", _WORD.findall(line)) for at, line in lines]
            given = [
                number_within(place, plain_value(word), quantity, error=MeasurementError)
                for place, of_line in words
                for word in of_line
            ]
            if not given:
                reject(f"{path}: holds no number", "one or more", MeasurementError)
        else:
            given = [plain_value(word) for word in _WORD.findall(text)]
            if not given or any(isinstance(value, str) for value in given):
                refuse(name, text, allowed)
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
    money, step_share
        What all servers cost and draw, and the share of a training step that the rollout takes.
    samples
        Answers that a drafter is trained on anew, and tokens of each with its prompt.
    """

    deployment: Deployment
    room: RoomRule
    loads: Sequence[Load]
    max_draft_len: int | None
    money: Money
    step_share: float | None
    samples: tuple[int, float]

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


def _makespan_s(one: Outcomes) -> Array:
    """Return how long a server's share of a job takes, by draft length."""
    return np.asarray(one.played.figures["duration_s"][0])  # type: ignore[union-attr]  # of a job


def _together(shares: Sequence[Outcomes]) -> tuple[Outcomes, Array]:
    """Return the outcomes of servers of which the slowest ends the job, and its makespans."""
    first = shares[0]
    lasts_s = np.array([*map(_makespan_s, shares)])
    makespan_s = lasts_s.max(axis=0)
    curve = first.curve  # of requests, end to end
    longer = np.nan_to_num(makespan_s / lasts_s[0], nan=1.0)
    curve = replace(curve, round_s=curve.round_s * longer)
    whole = replace(first.end_to_end, curve=curve)  # type: ignore[type-var]  # as above
    return replace(first, end_to_end=whole), makespan_s


def step_speedup(speedup: float, share: float | None) -> float | None:
    r"""Return the speedup of a training step that waits for its rollout, a share of it.

    .. math:: \frac{1}{1 - r + r / s}

    Source
        Amdahl 1967, AFIPS 30, 483-485.

    Examples
    --------
    >>> round(step_speedup(1.77, 100.0 / 151.2), 2)  # published: 1.41 (arXiv:2604.26779, table 1)
    1.4
    """
    return None if share is None else 1.0 / (1.0 - share + share / speedup)


# --- The answer -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RolloutRow(LoadRow):
    """What a policy reaches: ``off``, ``fixed`` or ``schedule``.

    `draft_len` and `tokens_per_round` are None where drafts follow the load, and `step_speedup`
    where the rollout's share of a training step is not known.

    Parameters
    ----------
    played
        What becomes of each request.
    """

    policy: str
    draft_len: int | None  # type: ignore[assignment]  # see above
    tokens_per_round: float | None  # type: ignore[assignment]
    ranges: tuple[tuple[int, int, int], ...]
    makespan_s: float
    most_running: int
    tail_share: float
    step_speedup: float | None = None
    played: Annotated[Played, q.NO_COLUMN]


@dataclass(frozen=True, kw_only=True)
class RolloutStep(q.Row):
    """One step of a training run whose drafter drifts.

    `speedup` is of the draft length that is best at the drafter's own acceptance, as is that of the
    whole step; `best_speedup` of the one that is best in this step.
    """

    step: int
    accept_length: float
    speedup: float
    best_draft_len: Annotated[int, q.DRAFT_LEN]
    best_speedup: Annotated[float, q.SPEEDUP]
    step_speedup: float | None = None


@dataclass(frozen=True, slots=True)
class Retraining:
    """What it takes to train a drafter anew on the rollout's devices, and when that pays.

    Ends of ranges are least, expected and most.

    Parameters
    ----------
    samples
        Answers that it is trained on, once each.
    seconds
        Of hidden states and training.
    step_share
        Of a training step with the drafter that trains it, too; None where the rollout's share of a
        step is not known.
    every
        Steps after which training anew loses least time; None where it loses more than the drift.
    least_half_life_steps
        Half-life of the loss by drift, below which training anew never pays; 0 where the first step
        pays for it, None without a loss.
    """

    samples: int
    seconds: tuple[float, ...]
    step_share: tuple[float, ...] | None
    every: tuple[int | None, ...]
    least_half_life_steps: tuple[float, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class DrafterRollout:
    """A rollout with one drafter.

    Parameters
    ----------
    name, setup, place
        The drafter's name, each server, and what is said of it begins with: its chip, where there
        are several.
    makespan_s
        By draft length; NaN where the server does not run it.
    policies
        ``off``, ``fixed`` and ``schedule``.
    steps
        Of a training run; empty without acceptance by step.
    retraining
        Of a drafter with weights that drifts over these steps.
    """

    name: str
    setup: Setup
    place: str
    makespan_s: Array
    policies: tuple[RolloutRow, ...]
    steps: tuple[RolloutStep, ...]
    retraining: Retraining | None

    @property
    def speedup(self) -> Array:
        """Over the makespan without drafts, by draft length."""
        return np.asarray(self.makespan_s[0] / self.makespan_s)

    @property
    def columns(self) -> Columns:
        """Every draft length as columns."""
        draft_len = np.arange(len(self.makespan_s))
        return {"draft_len": draft_len, **fields_of(self, "makespan_s", "speedup")}


@dataclass(frozen=True, repr=False, eq=False)
class Rollout(Charted):
    """How long a rollout takes.

    Attributes
    ----------
    model
        What is served.
    replicas
        Servers.
    output_len
        Tokens of each answer.
    input_len, prefix_hit_rate
        Of prompts, on average.
    step_share
        As asked.
    drafters
        The rollout with each of them, chip by chip.
    notes, warnings
        Sentences for the reader.
    """

    model: Architecture
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
        places = " or ".join(
            f"{setup.placement.devices} x {setup.hardware.name}, engine {setup.engine.full_name}"
            f"{releases_of(setup)}"
            for setup in self.setups
        )
        answers = len(self.output_len)
        return f"{self.model.name} on {servers}{places}: {answers} answer{'s' * (answers > 1)}"

    @property
    def setups(self) -> list[Setup]:
        """Each server, by chip."""
        return list({id(one.setup): one.setup for one in self.drafters}.values())

    @property
    def rows(self) -> tuple[RolloutRow, ...]:
        """The policies of all drafters, chip by chip; first that without drafts."""
        firsts = [next(one for one in self.drafters if one.setup is setup) for setup in self.setups]
        return tuple(row for one in self.drafters for row in one.policies[one not in firsts :])

    def point_columns(self) -> Iterator[Columns]:
        """Yield every draft length as columns."""
        for one in self.drafters:
            yield {"hardware": one.setup.hardware.name, "drafter": one.name, **one.columns}

    @property
    def sureness(self) -> str:
        """How near measurements are, in one sentence for each chip."""
        kinds = list(dict.fromkeys(one.name.partition(",")[0] for one in self.drafters))
        told = {}
        for setup in self.setups:
            rows = [row for one in self.drafters if one.setup is setup for row in one.policies]
            told[setup.hardware.name] = sure_of(Deployment(self.model, setup), kinds, rows)
        if len({*told.values()}) == 1:
            return next(iter(told.values()))
        return ". ".join(f"{chip}: {sentence}" for chip, sentence in told.items())

    def text(self) -> str:
        """Return the decision, the makespan of each policy, and how sure they are."""
        lengths = self.output_len_summary
        asked = (
            f"answers: {lengths['mean']:.0f} tokens on average, {lengths['p50']:.0f} at p50, "
            f"{lengths['p99']:.0f} at p99, {lengths['max']:.0f} at most; prompts: "
            f"{plain_number(self.input_len)} tokens"
        )
        lines, parts, more = list[str](), list[str](), [asked]
        for one in self.drafters:
            drafting = one.policies[1:]
            shown = next((policy for policy in drafting if policy.decision != "off"), drafting[0])
            decision, _, gain = decision_line([shown]).partition("; ")
            how = ", by its schedule alone" if shown is not drafting[0] else ""
            lines.append(f"{decision}; {one.place}{gain}{how}")
            gains = [
                f"{gain:.2f}x with {drafts}"
                for drafts, gain in enumerate(one.speedup.tolist())
                if drafts and math.isfinite(gain)
            ]
            name = in_line(one.place + one.name)
            parts.append(f"{name}\n{rows_table(one.policies, _SHOWN)}")
            more.append(f"{name}, fixed lengths: {', '.join(gains)}")
            if one.steps:
                titles = {
                    "speedup": f"speedup, γ={drafting[0].draft_len}",
                    "best_draft_len": "best γ",
                    "best_speedup": "speedup, best γ",
                    "step_speedup": "step speedup",
                }
                parts.append(rows_table(one.steps, [*RolloutStep.quantities()], **titles))
            if one.retraining:
                parts.append(wrapped(retraining_line(one.name, one.retraining)))
        return self.as_page(*parts, found=lines, more=[*more, _MEANING])

    def figures(self) -> dict[str, Any]:
        """Return the chart of answers over time; with drift, that of the steps too."""
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
        load = {
            "requests": len(self.output_len),
            "output_len": self.output_len_summary,
            **fields_of(self, "input_len", "prefix_hit_rate"),
        }
        chips = [case_of(self.model, setup, None) for setup in self.setups]
        for chip in chips:
            del chip["model"], chip["load"]  # those of the whole answer
        case = {"model": self.model.name, "chips": chips, "load": load}
        choice = [
            {
                "hardware": one.setup.hardware.name,
                "drafter": one.name,
                **listed_columns(one.columns),
                "steps": q.records_of(one.steps),
                "retraining": one.retraining and asdict(one.retraining),
            }
            for one in self.drafters
        ]
        return self.envelope(case | fields_of(self, "replicas", "step_share"), {"drafters": choice})


_STALE: Final = (
    "the schedule turns drafting off at large batches; an engine whose drafter misses those tokens "
    "accepts fewer drafts of the same answers afterwards, which is not counted"
)


@question(RolloutRequest)
def rollout(request: RolloutRequest) -> Rollout:
    """Predict the time of a batch of prompts with long-tailed answers, with drafts and without."""
    if request.accept_length is None or request.drafters is None:
        every = request.drafters_with_acceptance(request.drafters)
    else:  # one without an acceptance begins with that of the first step
        every = request.sampled_drafters(request.drafters)
    drafters, left_out = request.without_unserved(every)
    if not drafters:
        refuse("drafters", request.drafters, "at least one")
    by_step = [name for name in ("accept_length", "entropy") if getattr(request, name) is not None]
    if by_step and len(drafters) > 1:
        refuse("drafters", [drafter.name for drafter in drafters], f"one, with {by_step[0]}")
    if len(by_step) > 1:
        refuse("entropy", request.entropy, "one of accept_length and entropy")
    if request.retraining_samples is not None and not by_step:
        refuse("retraining_samples", request.retraining_samples, "with accept_length or entropy")
    if request.draft_len is not None and request.accept_length is None:
        refuse("draft_len", request.draft_len, "with accept_length")
    share = request.step_share
    if share is not None:
        share = number_within("step_share", share, "share")
    answers, asked = _answers(request), [*on_each_chip(request)]
    samples, model = len(answers.output_len), request.architecture
    if request.retraining_samples is not None:
        samples = whole_within("retraining_samples", request.retraining_samples, _ANSWERS)
        trained_head(drafters[0], model)
    replicas = whole_within("replicas", request.replicas, "devices")
    servers = min(replicas, len(answers.output_len))
    loads = [known_load(_part(answers, slice(i, None, replicas))) for i in range(servers)]
    drift = _drift(request, drafters[0], model)
    # What the SPEC leaves open, acceptance or entropy, is that of the first step.
    stated = "acceptance" if request.entropy is None else "acceptance.entropy"
    if drift and attrgetter(stated)(drafters[0]) is None:
        drafters = [replace(drafters[0], acceptance=drift[0][1])]
    found, warnings = list[DrafterRollout](), left_out
    notes = [] if request.accept_length is None else length_notes(request)
    for here, place in asked:
        deployment = here.resolved()
        money = money_of(deployment.setup, None, request.price_per_hour)
        job = _Job(
            deployment,
            room_rule(deployment.setup, request.capacity, "queue"),
            loads,
            request.max_draft_len,
            replace(money, devices=money.devices * replicas),
            share,
            (samples, float((answers.input_len + answers.output_len).mean())),
        )
        shares = job.predicted(drafters)
        found += [
            _drafter_rollout(job, place, drafter, drift, [each.outcomes[i] for each in shares])
            for i, drafter in enumerate(drafters)
        ]
        last = max(shares, key=lambda share: float(_makespan_s(share.outcomes[0])[0]))
        counted = simulated_note(len(answers.output_len))  # of all servers
        own = last.outcomes[0].state_notes
        notes += [counted if note in own else note for note in last.notes]
        warnings += [f"{place}{text}" for each in shares for text in each.warnings]
    schedules = [one.policies[2].ranges for one in found]
    stale = any(len(ranges) > 1 and ranges[-1][2] == 0 for ranges in schedules)
    return Rollout(
        model=model,
        replicas=replicas,
        output_len=answers.output_len,
        input_len=float(answers.input_len.mean()),
        prefix_hit_rate=float(answers.cached_len.sum() / answers.input_len.sum()),
        step_share=share,
        drafters=tuple(found),
        notes=tuple(dict.fromkeys([*notes, *[_STALE] * stale])),
        warnings=tuple(dict.fromkeys(warnings)),
    )


#: The acceptance length of each training step, and its acceptance.
_Drift: TypeAlias = list[tuple[float, TokensPerRound | ContextAcceptance | None]]


def _drafter_rollout(
    job: _Job, place: str, drafter: Drafter, drift: _Drift, shares: Sequence[Outcomes]
) -> DrafterRollout:
    """Return the rollout with one drafter, from what it gains on each server's share.

    Raises
    ------
    SpecroofError
        For a model that leaves no room for a request.
    """
    one, makespan_s = _together(shares)
    setup = job.deployment.setup
    if not math.isfinite(makespan_s[0]):
        where = f"{setup.placement.devices} x {setup.hardware.name}"
        message = f"{job.deployment.model.name} leaves no room for a request on {where}"
        reject(message, "more devices")
    policies = _policies(job, drafter, one)
    kept = int(decided(one).draft_len[0, 0])
    drifted = dict[float, RolloutStep]()
    for length, accepted in dict(drift).items():
        then = job.predicted([replace(drafter, acceptance=accepted)], *[kept] * (kept > 0))
        seen = _together([each.outcomes[0] for each in then])[0]
        drifted[length] = _step(seen, kept, length, job.step_share)
    steps = [replace(drifted[length], step=step) for step, (length, _) in enumerate(drift, start=1)]
    anew = _retraining(job, drafter, float(makespan_s[0]), steps)
    return DrafterRollout(drafter.name, setup, place, makespan_s, policies, tuple(steps), anew)


def _retraining(
    job: _Job, drafter: Drafter, plain_s: float, steps: Sequence[RolloutStep]
) -> Retraining | None:
    """Return what training a drafter anew takes, and how often it loses least over these steps."""
    head = drafter.held(job.deployment.model).head
    if head is None or not steps:
        return None
    devices, unrolled = job.money.devices, UNROLLED_STEPS.get(drafter.kind, head.block or 1)
    work = training_of(job.deployment, head, (*job.samples, 1.0), unrolled, devices, is_online=True)
    seconds = [hours * HOUR / devices for hours in work.hours]
    takes_s = plain_s / np.array([row.speedup for row in steps])
    slower_s = float(takes_s[-1] - takes_s[0])
    lost_s, counts = np.cumsum(takes_s - takes_s[0]), np.arange(1, len(steps) + 1)
    every = list[int | None]()
    for trained_s in seconds:
        mean_s = (lost_s + trained_s) / counts
        mean_s[-1] = lost_s[-1] / counts[-1]  # of drift alone, without training
        best = int(np.argmin(mean_s)) + 1
        every.append(best if best < len(steps) else None)
    shares = half_lives = None
    if job.step_share:
        step_s = plain_s * (1 / job.step_share - 1) + float(takes_s[0])
        shares = tuple(trained_s / (step_s + trained_s) for trained_s in seconds)
    if slower_s > 0:
        half_lives = tuple(_least_half_life(trained_s / slower_s) for trained_s in seconds)
    return Retraining(job.samples[0], tuple(seconds), shares, tuple(every), half_lives)


def _least_half_life(cost: float) -> float:
    r"""Return the half-life in steps, below which what training anew wins never comes to its cost.

    .. math:: \sum_{i \ge 0} 2^{-i / h} = \frac{1}{1 - 2^{-1 / h}} = c

    Parameters
    ----------
    cost
        c: of training anew, over what it wins in the first step.

    Examples
    --------
    >>> _least_half_life(2.0), _least_half_life(0.9)  # 1 + 1/2 + 1/4 + …; less than the first step
    (1.0, 0.0)
    """
    return -math.log(2) / math.log1p(-1 / cost) if cost > 1 else 0.0


def _step(one: Outcomes, kept: int, length: float, share: float | None) -> RolloutStep:
    """Return the first step of a training run that has this acceptance length."""
    best = int(decided(one).draft_len[0, 0])
    ends = one.speedup_ends or ()
    gains = {"speedup": kept, "best_speedup": best}
    gained = {name: float(one.curve.speedup[0, 0, k]) for name, k in gains.items()}
    return RolloutStep(
        step=1,
        accept_length=length,
        best_draft_len=best,
        **gained,
        step_speedup=step_speedup(gained["speedup"], share),
        bands=known_bands(
            {name: [end[0, 0, k] for end in ends] for name, k in gains.items() if ends}
        ),
    )


def _drift(request: RolloutRequest, drafter: Drafter, model: Architecture) -> _Drift:
    """Return the acceptance length of each training step, and its acceptance."""
    allowed = "a file, or numbers separated by commas"
    if request.entropy is not None:
        curve = drafter.acceptance
        if not isinstance(curve, Acceptance):
            refuse("drafters", drafter.name, "one with one acceptance, with entropy")
        if curve.temperature is None:
            refuse("drafters", drafter.name, "a SPEC that states its temperature=, with entropy")
        depth = measured_drafts(drafter, model, None)
        entropies = _numbers("entropy", request.entropy, "entropy", allowed).tolist()
        first = curve.entropy or entropies[0]
        moved = {
            one: acceptance_at_entropy(curve, first, one, kind=drafter.kind) for one in entropies
        }
        each = [moved[one] for one in entropies]
        return [(round(float(then.tokens_per_round(depth)), 3), then) for then in each]
    if request.accept_length is None:
        return []
    if drafter.is_ideal:
        refuse("drafters", drafter.name, "another drafter, with accept_length")
    lengths = _numbers("accept_length", request.accept_length, "tokens_per_round", allowed)
    measured = measured_drafts(drafter, model, request.draft_len)
    outside = np.flatnonzero((lengths < 1) | (lengths > measured + 1))
    if outside.size:
        at = int(outside[0])
        allowed = f"1 to {measured + 1}, as measured with {format_drafts(measured)}"
        refuse(f"accept_length[{at}]", float(lengths[at]), allowed)
    known = with_lengths(drafter, lengths.tolist(), measured)
    return [(length, known[length].acceptance) for length in lengths.tolist()]


def _policies(job: _Job, drafter: Drafter, one: Outcomes) -> tuple[RolloutRow, ...]:
    """Return what each policy reaches."""
    servers = [
        played_server(job.deployment, drafter, load, job.room, int(one.curve.draft_len[-1]))
        for load in job.loads
    ]
    requests = [next(load.played()) for load in job.loads]

    def play(drafts: Drafts) -> Played:
        runs = zip(servers, requests, strict=True)
        return joined([server.play(share, drafts) for server, share in runs])

    best, plain = int(decided(one).draft_len[0, 0]), play(0)
    off = _row(job, one, plain, 0, policy="off", drafter="", decision=None)
    row = partial(_row, job, one, plain=off)
    fixed = row(play(best) if best else plain, best, policy="fixed")
    ranges = fitting_schedule(servers[0], requests[0], servers[0].play(requests[0], 0))
    drafts, quickest = {first: length for first, _, length in ranges}, fixed
    if len(drafts) > 1:
        seen = row(play(drafts), drafts)
        if seen.makespan_s < fixed.makespan_s:
            low, high = seen.bands.get("speedup", [seen.speedup] * 2)
            gain, least, most = (np.array([1.0, end]) for end in (seen.speedup, low, high))
            judged: Any = decide((gain, least, most), np.zeros((), dtype=bool)).decision
            quickest = replace(seen, decision=judged.item())
    return off, fixed, replace(quickest, policy="schedule")


def _row(
    job: _Job,
    one: Outcomes,
    played: Played,
    drafts: Drafts,
    *,
    plain: RolloutRow | None = None,
    **known: Any,
) -> RolloutRow:
    """Return the row of a policy; of several draft lengths, in the widest of their bands.

    Parameters
    ----------
    job, one
        What is asked, and what the drafter gains.
    played, drafts
        What becomes of all requests with so many drafts per round.
    plain
        The row without drafts; None for that row.
    known
        Other columns.
    """
    (of_load,) = load_fields(one, job.loads[0], job.money)
    schedule = {1: drafts} if isinstance(drafts, int) else drafts
    lengths, most_running = sorted({*schedule.values()}), int(played.running.max())
    lasts = [*[first - 1 for first in schedule][1:], math.ceil(most_running / len(job.loads))]
    seen, makespan_s = played.figures(), played.duration_s
    gain = 1.0 if plain is None else plain.makespan_s / makespan_s
    last_tenth = math.ceil((1 - _TAIL) * len(played.end_s)) - 1
    figures: dict[str, Any] = {
        "hardware": job.deployment.setup.hardware.name,
        "requests": len(played.end_s),
        "draft_len": drafts if isinstance(drafts, int) else None,
        "speedup": gain,
        _TOKENS: played.tokens_per_s,
        "tpot_s": seen.get("mean_tpot_s", math.nan),
        "ttft_s": seen["mean_ttft_s"],
        "running": played.mean_running,
        "requests_per_s": len(played.end_s) / makespan_s,
        # Of a schedule, as many as the lengths that hold.
        q.TOKENS_PER_ROUND.name: float(one.decoding.tokens_per_round[0, 0, drafts])
        if isinstance(drafts, int)
        else None,
        "policy": "schedule",
        "ranges": tuple(zip(schedule, lasts, schedule.values(), strict=True)),
        "makespan_s": makespan_s,
        "most_running": most_running,
        "tail_share": 1.0 - float(np.sort(played.end_s)[last_tenth]) / makespan_s,
        "step_speedup": step_speedup(gain, job.step_share),
        "played": played,
    }
    if drafts != of_load["draft_len"]:
        figures |= dict.fromkeys(("near_best", "within_band"))
    row = RolloutRow(**{**of_load, **figures, **known})
    bands: dict[str, Any] = of_load["bands"] | bands_around(row, one, 0, lengths)
    if _TOKENS in bands:
        ends = [played.tokens_per_s * makespan_s / end for end in bands[_TOKENS]]
        bands["makespan_s"] = ends[::-1]
    costs: dict[str, Any] = {
        name: None if cost is None else float(cost)
        for name, cost in costs_of(job.money, np.asarray(played.tokens_per_s), bands).items()
    }
    row = replace(row, **costs)
    plainly = {
        f"plain_{name}": getattr(row if plain is None else plain, name)
        for name in row.quantities()
        if f"plain_{name}" in of_load
    }
    return replace(row, **plainly, bands=known_bands(bands))


# --- The makespan of each policy, as a table ------------------------------------------------------

#: What the columns and rows mean, for whoever reads the table.
_MEANING: Final = """fixed: the one draft length with the shortest makespan
schedule: a draft length for each range of running answers, as engines take it, where it is faster
tail: share of the makespan after nine tenths of the answers have ended"""


#: The columns of the table.
_SHOWN: Final = (
    *("policy", "makespan_s", "makespan_s_band", "speedup", "speedup_band", "decision"),
    *("tail_share", "step_speedup", "ranges"),
)


def retraining_line(name: str, anew: Retraining) -> str:
    """Return what it takes to train a drafter anew, and when that pays."""
    least, usual, most = map(format_seconds, anew.seconds)
    parts = [
        f"training {name.partition(',')[0]} anew on {anew.samples} "
        f"answer{'s' * (anew.samples > 1)}: {usual} (likely {least} to {most})"
    ]
    if anew.step_share is not None:
        parts.append(f"{anew.step_share[1]:.0%} of a step that does it")
    soon, often, late = anew.every
    if often is None:
        parts.append("does not pay over these steps")
    else:
        parts.append(f"pays every {often} steps ({soon} to {late or 'never'})")
    if anew.least_half_life_steps is not None:
        low, steps, high = (f"{value:.3g}" for value in anew.least_half_life_steps)
        wins = f"never pays where what it wins halves within {steps} steps ({low} to {high})"
        if steps == "0":
            wins = "after the last of them, what its first step wins pays for it"
            wins += f" (or never, if that halves within {high} steps)" * (high != "0")
        parts.append(wins)
    return "; ".join(parts)


# --- The charts -----------------------------------------------------------------------------------


def rollout_chart(answer: Rollout) -> Any:
    """Draw the answers that run, above those that have ended, over time."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    running, ended = list[Any](), list[Any]()
    steps = {"drawstyle": "steps-post", "marker": ""}
    # A schedule that is the fixed length would hide its line.
    rows = {(row.hardware, row.drafter, row.makespan_s): row for row in answer.rows[::-1]}
    for row in [*rows.values()][::-1]:
        name = f"{row.policy}, {row.drafter}" if row.drafter else "no drafts"
        name = f"{row.hardware}: {name}" if len(answer.setups) > 1 else name
        name = f"{name}: {row.speedup:.2f}×"
        running.append(plot.Line(name, row.played.event_s, row.played.running, look=steps))
        ends_s = np.append(0.0, np.sort(row.played.end_s))
        ended.append(plot.Line(name, ends_s, np.arange(1.0 * len(ends_s)), look=steps))
    best = max(answer.rows, key=lambda row: row.speedup)
    where = f" on {best.hardware}" if len(answer.setups) > 1 else ""
    found = "Drafts end these answers no sooner"
    if {row.reason for row in answer.rows if row.policy != "off"} == {"acceptance"}:
        found = ACCEPTANCE_UNKNOWN.capitalize()
    if best.drafter:
        how = "a fixed length" if best.policy == "fixed" else "a schedule"
        found = f"All answers end {best.speedup:.2f}x sooner{where} with {how}: {best.drafter}"
    return plot.plot_lines(
        [plot.Panel("Answers running", running), plot.Panel("Answers that have ended", ended)],
        f"{answer.title}\n{found}",
        plot.Across("Time (s)"),
    )


def steps_chart(answer: Rollout) -> Any:
    """Draw the speedup of each step's rollout as the drafter drifts."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    lines = []
    for one in answer.drafters:
        steps = np.array([row.step * 1.0 for row in one.steps])
        for name, gains in (
            (f"γ = {one.policies[1].draft_len} in every step", [row.speedup for row in one.steps]),
            ("best γ of each step", [row.best_speedup for row in one.steps]),
        ):
            lines.append(plot.Line(in_line(one.place + name), steps, np.array(gains)))
    first, last = lines[0].y[[0, -1]]
    found = f"{lines[0].name}: {first:.2f}x in the first step, {last:.2f}x in the last"
    panel = plot.Panel("Speedup of the rollout (×)", lines, "speedup")
    return plot.plot_lines([panel], f"{answer.title}\n{found}", plot.Across("Training step"))


COMMAND: Final = Command(
    question=rollout,
    options=p.FORMULAS,
    points=True,
    chart="Draw the answers that run and those that have ended over time.",
    example="specroof rollout Qwen/Qwen3-8B -H h100 --drafter eagle3,accept-length=2.8@3\n"
    "--lengths lognormal=4000/16000 --requests 256 --step-share 0.7",
)
