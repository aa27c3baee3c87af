"""Is a drafter worth training: what does it cost, what would it bring, when has it paid?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

import numpy as np

from specroof import quantities as q
from specroof.acceptance.published.trained import COMPARED_DRAFTS, expected_length, trained_rows
from specroof.architecture.draft_heads import DraftHead
from specroof.architecture.model import Architecture
from specroof.arrays import fields_of, number_within, whole_within
from specroof.cost import ForwardPass
from specroof.drafters import Drafter, ideal_drafter
from specroof.drafters.training import (
    TRAINING_SHARE,
    UNROLLED_STEPS,
    WRITE_BYTES_PER_S,
    WRITING_DEVICES,
    training_work,
)
from specroof.errors import Urgent, refuse, reject
from specroof.latency.model import model_latency
from specroof.latency.setup import Deployment
from specroof.outcomes.case import Case
from specroof.outcomes.outcomes import Outcomes, outcomes
from specroof.outcomes.rows import LoadRow, load_fields
from specroof.questions import parameters as p
from specroof.questions.answer import OfDrafter, OnChips, decision_line, rows_table
from specroof.questions.capacity import usual_drafts
from specroof.questions.objects import DrafterLike, Values, as_list, money_of
from specroof.questions.request import Command, LoadsRequest, question
from specroof.questions.worth import (
    at_lengths,
    columns_beside_loads,
    length_notes,
    lengths_within,
    loads_words,
    of_load,
    one_context,
    with_lengths,
)
from specroof.reading.words import numbers
from specroof.report.layout import wrapped
from specroof.serving.workload import REQUESTS_PER_CLIENT, Load, Workload
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN
from specroof.speedup.price import Money
from specroof.units import Bounds, format_count, format_drafts, format_si

#: Output tokens a day, if not given: three traffics.
USUAL_TRAFFIC: Final = (1e7, 1e8, 1e9)
#: Acceptance lengths of a kind that nobody trained on a stated number of samples.
_LENGTHS: Final = (2.0, 3.0, 4.0)
#: Tokens of a prefill pass that makes hidden states.
_PASS_TOKENS: Final = 8192
_HOUR_S: Final = 3600.0
#: How often a training has paid where the chart of a traffic ends.
_MOST_PAID: Final = 4
_USUAL_DEVICES: Final = 8
#: Of a conversation, the share that answers have, if nobody says: a choice of this library.
_ANSWER_SHARE: Final = 0.75
#: Requests in flight at a server that is worth a drafter, if nobody says.
_USUAL_IN_FLIGHT: Final = 32
#: Requests in flight at a server that writes answers for training.
_ANSWERS_IN_FLIGHT: Final = 256


@dataclass(frozen=True, kw_only=True)
class TrainRequest(LoadsRequest):
    """Ask what a drafter costs to train, and when it has paid.

    Examples
    --------
    >>> from specroof import train
    >>> found = train("Qwen/Qwen3-8B", "h100", drafter="eagle3", samples=100_000)
    >>> [row.accept_length for row in found.rows[::3]]
    [1.95, 2.25, 2.55]
    """

    drafter: Annotated[
        DrafterLike,
        p.like(p.OneDrafter, about="What is trained, KIND[,key=value…]; needs no acceptance."),
    ] = "eagle3"
    batch_size: Annotated[Values | None, p.like(p.BatchSize, shown=str(_USUAL_IN_FLIGHT))] = None
    samples: Annotated[float, p.Parameter("Conversations that the drafter is trained on.")]
    sample_len: Annotated[float, p.Parameter("Tokens of a conversation, on average.")] = 540
    answer_len: Annotated[
        float | None,
        p.Parameter(
            "Tokens of a conversation that the target writes anew, since a drafter learns from the "
            "target's own answers; 0 where they are at hand, as in the log of its server.",
            shown="three quarters of sample_len",
        ),
    ] = None
    epochs: Annotated[float, p.Parameter("Times that training goes through all samples.")] = 2
    unrolled_steps: Annotated[
        int | None,
        p.Parameter(
            "Passes through the drafter for each token of training.",
            shown=f"{UNROLLED_STEPS['eagle3']} for eagle3, the block of block drafters, else 1",
        ),
    ] = None
    training_devices: Annotated[
        int | None, p.Parameter("Devices that train.", shown="8, or those of the server if more")
    ] = None
    online: Annotated[
        bool,
        p.Parameter("Make hidden states in every epoch, in place of keeping them on disk."),
    ] = False
    accept_length: Annotated[
        Values | None,
        p.Parameter(
            "Acceptance lengths that the trained drafter may reach, bonus included.",
            about_flag="Acceptance lengths that the trained drafter may reach, bonus included, "
            "comma-separated.",
            read=numbers,
            shown="what published drafters of that kind and so many samples reach",
        ),
    ] = None
    draft_len: Annotated[int | None, p.like(p.MeasuredDraftLen, shown="3, or the block")] = None
    against: Annotated[
        DrafterLike | None,
        p.like(
            p.OneDrafter,
            flag="--against",
            about="A drafter that needs no training, KIND[,key=value…], to compare with; without "
            "acceptance, with the published one.",
            shown="plain decoding",
        ),
    ] = None
    tokens_per_day: Annotated[
        Values,
        p.Parameter(
            "Output tokens that are served in a day, a number or a list.",
            about_flag="Output tokens that are served in a day, comma-separated.",
            read=numbers,
        ),
    ] = USUAL_TRAFFIC
    context_len: p.ContextLen = None
    price_per_hour: p.PricePerHour = None


@dataclass(frozen=True, slots=True)
class Training:
    """What training takes; ends of ranges where they are not known better.

    Parameters
    ----------
    devices
        Devices that train.
    tokens
        Of all samples.
    states_hours, storage_bytes
        Device-hours of making the target's hidden states, and what is kept of them; 0 bytes where
        they are made in every epoch.
    drafter_hours
        Device-hours of training: least, expected, most.
    usd
        The same for all device-hours; None without a price.
    answer_len, answers_hours
        Tokens of a sample that the target writes first, and device-hours of that.
    """

    devices: int
    tokens: float
    states_hours: float
    storage_bytes: float
    drafter_hours: tuple[float, float, float]
    usd: tuple[float, float, float] | None = None
    answer_len: float = 0.0
    answers_hours: float = 0.0

    @property
    def hours(self) -> tuple[float, ...]:
        """Device-hours of everything: least, expected, most."""
        before = self.answers_hours + self.states_hours
        return tuple(before + hours for hours in self.drafter_hours)


@dataclass(frozen=True, kw_only=True)
class TrainRow(LoadRow):
    """What one acceptance length saves at one load and one traffic.

    Savings are None, as is the time until they have paid, where nothing is saved.
    """

    accept_length: float
    tokens_per_day: float
    saved_hours_per_day: float
    saved_usd_per_day: float | None = None
    days_until_paid: float | None = None
    least_half_life_days: float | None = None
    tokens_until_paid: float | None = None
    requests_until_paid: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrainDay(q.Row):
    """What is saved after so many days, over what the training cost."""

    day: float
    tokens_per_day: float
    times_paid: float


@dataclass(frozen=True, repr=False, eq=False)
class Trained(OfDrafter):
    """What a drafter costs to train, and what it would bring.

    Attributes
    ----------
    about, drafter
        What is served, where and for whom, and the name of what is trained.
    samples, sample_len, epochs, unrolled_steps, draft_len
        What training does, and the drafts that lengths are measured with.
    training
        What it takes.
    against
        The name of the drafter that is compared with; None for plain decoding.
    rows
        By load, acceptance length and traffic.
    notes, warnings
        Sentences for the reader.
    """

    samples: float
    sample_len: float
    epochs: float
    unrolled_steps: int
    draft_len: int
    training: Training
    against: str | None
    rows: tuple[TrainRow, ...]

    banded = ("speedup",)
    chart = q.Lines(("day",), ("times_paid",), by=("tokens_per_day",))

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        samples = f"{self.drafter} trained on {format_count(self.samples)} samples"
        return f"{self.served}, {loads_words(self)}: {samples}"

    @property
    def expected(self) -> list[TrainRow]:
        """The rows of the first load at the middle one of the lengths, a traffic each."""
        first = [row for row in self.rows if row.load == self.rows[0].load]
        lengths = list(dict.fromkeys(row.accept_length for row in first))
        return [row for row in first if row.accept_length == lengths[len(lengths) // 2]]

    @property
    def days(self) -> tuple[TrainDay, ...]:
        """What is saved at the middle length, until every traffic that pays has paid once."""
        paid = [row.days_until_paid or math.inf for row in self.expected]
        last = max((days for days in paid if days < math.inf), default=0.0)
        return tuple(
            TrainDay(day=day, tokens_per_day=row.tokens_per_day, times_paid=day / until)
            for row, until in zip(self.expected, paid, strict=True)
            if until < math.inf
            for day in np.linspace(0, min(last, _MOST_PAID * until), _MOST_PAID + 1).tolist()
        )

    def text(self) -> str:
        """Return what training costs, and when it has paid by length and traffic."""
        traffics = list(dict.fromkeys(row.tokens_per_day for row in self.rows))
        rows = self.rows[:: len(traffics)]
        paid = {
            f"paid at {format_count(tokens)}/day": [
                _days(row) for row in self.rows[place :: len(traffics)]
            ]
            for place, tokens in enumerate(traffics)
        }
        first = [row for row in rows if row.load == rows[0].load]
        decision = decision_line(
            first, [f"{row.accept_length:.3g}" for row in first], " tokens/round"
        )
        decision += of_load(rows[0], rows)
        beside = (
            f"savings are counted against {self.against or 'plain decoding'}, with at most "
            f"{format_drafts(self.draft_len)}"
        )
        if any(row.days_until_paid is not None for row in rows):
            beside += (
                f"; if drift halves them within {math.log(2):.0%} of the time until paid, training "
                "never pays"
            )
        return self.as_page(
            rows_table(rows, columns_beside_loads(_SHOWN, rows), paid),
            wrapped(beside),
            found=[decision, paid_line(self), *training_lines(self)],
        )

    def figures(self) -> dict[str, Any]:
        """Return the chart of savings over time, a line for each traffic."""
        training = self.training
        hours = (
            f"{_plain(training.answers_hours)} for the target's answers, "
            f"{_plain(training.states_hours)} for hidden states, "
            f"{_plain(training.drafter_hours[1])} for training"
        )
        paid = paid_line(self, 1)
        found = f"Device-hours: {hours}\n{paid[:1].upper()}{paid[1:]}"
        return {"": self.rows_chart(self.chart, self.days, found=found)}

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        names = (
            "drafter",
            "against",
            "samples",
            "sample_len",
            "epochs",
            "unrolled_steps",
            "draft_len",
        )
        case = self.case | fields_of(self, *names)
        return self.envelope(case, {"training": asdict(self.training)})


@question(TrainRequest, on_chips=OnChips)
def train(request: TrainRequest) -> Trained:
    """Show what a drafter costs to train, what it would bring, and when it has paid for itself."""
    loads = request.batch_size, request.concurrency
    if all(one is None for one in loads) and not request.is_played:
        request = replace(request, concurrency=_USUAL_IN_FLIGHT)
    case = one_context(request)
    drafter_like = request.drafter_or_usual(request.drafter)
    (drafter,) = request.sampled_drafters(drafter_like, weights="the trained drafter")
    free = None
    if request.trace is not None:
        allowed = "a rate or lengths, since arrivals of a trace say how many tokens are made"
        refuse("trace", request.trace, allowed)
    if request.against is not None:
        (free,) = request.drafters_with_acceptance(request.against)
    money = money_of(case.deployment.setup, case.split, request.price_per_hour)
    training, steps = _training(request, case, drafter, money)
    if drafter.acceptance is not None:
        allowed = "one without acceptance: train finds it, or accept_length states it"
        refuse("drafter", drafter.name, allowed)
    lengths, drafts, about = _lengths(
        request, drafter, usual_drafts(drafter, case.deployment.model, request.draft_len)
    )
    notes = [*about, *length_notes(request)]
    if training.answers_hours:
        notes.append(f"answers are written with {_ANSWERS_IN_FLIGHT} requests in flight a server")
    if request.rate is not None:
        notes.append(
            "requests that arrive have the drafts that predict chooses at their rate, and savings are "
            "those at the largest rate that the server answers with them"
        )
    if request.power_cap is not None:
        notes.append("devices train without the power cap, which is the server's")
    given = as_list(request.tokens_per_day) or [math.nan]
    traffic = sorted({number_within("tokens_per_day", one, Bounds(1, 1e15)) for one in given})
    rows, warnings, plain_hours = list[TrainRow](), list[str](), 0.0
    better = with_lengths(drafter, lengths, drafts)
    for here, seen in at_lengths(case, better.values(), drafts):
        notes += [*seen[0].curve.notes, *seen[0].state_notes, *seen[0].raised_notes]
        warnings += seen[0].warnings(here)
        saves = _Saves(here.load, money, training, traffic)
        if free is not None:
            found = outcomes(here, free, max_draft_len=DEFAULT_MAX_DRAFT_LEN)
            _, hours, (gain, *_) = saves.hours(found)
            saves = replace(saves, spent=hours / gain)
        if not rows:
            _, plain_hours, _ = saves.hours(seen[0])
        for length, reached in zip(lengths, seen, strict=True):
            rows += saves.rows(reached, length)
    notes += _idle_note(rows[0], plain_hours, of_load(rows[0], rows), money.devices)
    return Trained(
        case,
        drafter=drafter.name,
        **fields_of(request, "samples", "sample_len", "epochs"),
        unrolled_steps=steps,
        draft_len=drafts,
        training=training,
        against=None if free is None else free.name,
        rows=tuple(rows),
        notes=tuple(dict.fromkeys(notes)),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _idle_note(row: TrainRow, plain_hours: float, beside: str, devices: int) -> Iterator[str]:
    """Yield that the least traffic leaves a server idle at the first load, where it does."""
    busy = plain_hours * row.tokens_per_day / (24 * devices)
    if busy < 1:
        yield Urgent(
            f"{format_count(row.tokens_per_day)} tokens a day keep one server busy {busy:.0%} of the "
            f"time without drafts{beside}: fewer device-hours are money only where devices are paid by use "
            "or have other work"
        )


def trained_head(drafter: Drafter, model: Architecture) -> DraftHead:
    """Return the layers of a drafter that training changes.

    Raises
    ------
    OptionError
        For a drafter without weights of its own.
    """
    head = drafter.held(model).head
    if head is None:
        allowed = "a drafter with weights, as eagle3, mtp or dflash"
        reject(f"drafter is {drafter.name!r}, which is not trained", allowed)
    return head


def _training(
    request: TrainRequest, case: Case, drafter: Drafter, money: Money
) -> tuple[Training, int]:
    """Return what training takes, and the steps that the drafter is unrolled for."""
    deployment = case.deployment
    head = trained_head(drafter, deployment.model)
    samples = number_within("samples", request.samples, Bounds(1, 1e9))
    sample_len = number_within("sample_len", request.sample_len, Bounds(8, 1e6))
    epochs = number_within("epochs", request.epochs, Bounds(1e-3, 1000))
    steps = UNROLLED_STEPS.get(drafter.kind, head.block or 1)
    if request.unrolled_steps is not None:
        steps = whole_within("unrolled_steps", request.unrolled_steps, "simulated_draft_len")
    served = deployment.setup.placement.devices
    devices = max(_USUAL_DEVICES, served)
    if request.training_devices is not None:
        devices = whole_within("training_devices", request.training_devices, "devices")
    if devices % served:
        refuse("training_devices", devices, f"a multiple of {served}, the devices of the target")
    found = training_of(
        deployment, head, (samples, sample_len, epochs), steps, devices, is_online=request.online
    )
    answer_len = _ANSWER_SHARE * sample_len
    if request.answer_len is not None:
        answer_len = number_within("answer_len", request.answer_len, Bounds(0, sample_len - 1))
    if answer_len:
        hours = _answers_hours(case, samples, Workload(sample_len - answer_len, answer_len))
        found = replace(found, answer_len=answer_len, answers_hours=hours)
    if money.usd_per_hour is not None:
        least, usual, most = (hours * money.usd_per_hour for hours in found.hours)
        found = replace(found, usd=(least, usual, most))
    return found, steps


def _answers_hours(case: Case, samples: float, workload: Workload) -> float:
    """Return the device-hours in which servers as they are write so many answers."""
    requests = [REQUESTS_PER_CLIENT * _ANSWERS_IN_FLIGHT]
    load = Load(
        [float(_ANSWERS_IN_FLIGHT)], [workload.mean_context_len], workload, requests=requests
    )
    servers = case.at(load=load, split=None, room="queue")
    found = outcomes(servers, ideal_drafter(), max_draft_len=1)
    found.refuse_full(servers)
    tokens_per_s = next(load_fields(found, load, Money(1)))["plain_tokens_per_s"]
    devices = case.deployment.setup.placement.devices
    return float(samples * workload.output_len / tokens_per_s * devices / _HOUR_S)


def training_of(
    deployment: Deployment,
    head: DraftHead,
    data: tuple[float, float, float],
    unrolled_steps: int,
    devices: int,
    *,
    is_online: bool,
) -> Training:
    """Return what training takes, without its price.

    Parameters
    ----------
    deployment, head
        The target as it is served, and what is trained.
    data
        Samples, tokens of each, and how often training goes through all.
    unrolled_steps, devices
        Passes through the drafter for each token, and the devices that train.
    is_online
        Whether hidden states are made in every epoch, and none are kept.
    """
    samples, sample_len, epochs = data
    model, setup = deployment.model, deployment.setup
    work = training_work(model, head, sample_len, unrolled_steps)
    tokens = samples * sample_len
    stored = 0.0 if is_online else tokens * work.stored_bytes
    # The target reads samples as prompts, on as many servers as the devices hold.
    sequences = max(1.0, _PASS_TOKENS // sample_len)
    prompts = ForwardPass(batch_size=sequences, query_len=sample_len, context_len=0, head_len=0)
    prompts_s = float(model_latency(model, setup, prompts).total_s) * samples / sequences
    states_s = prompts_s * setup.placement.devices / devices * (epochs if is_online else 1.0)
    write_s = stored / (WRITE_BYTES_PER_S * math.ceil(devices / WRITING_DEVICES))
    states_hours = max(states_s, write_s) * devices / _HOUR_S
    _, peak = setup.hardware.arithmetic("bf16")
    least, usual, most = (
        work.flops * tokens * epochs / (share * peak) / _HOUR_S for share in TRAINING_SHARE[::-1]
    )
    return Training(devices, tokens, states_hours, stored, (least, usual, most))


def _lengths(
    request: TrainRequest, drafter: Drafter, drafts: int
) -> tuple[list[float], int, list[str]]:
    """Return the acceptance lengths that are compared, their drafts, and where they come from."""
    if request.accept_length is not None:
        return lengths_within(request, (), drafts), drafts, []
    if request.draft_len is not None:
        refuse("draft_len", request.draft_len, "with accept_length")
    expected = expected_length(drafter.kind, request.samples)
    if expected is None:
        known = [
            f"{row['accept_length']:g} tokens per round of {format_count(row['samples'])} samples"
            for row in trained_rows()
            if row["kind"] == drafter.kind
        ]
        what = f"{', '.join(known)} is all that is" if known else "nothing is"
        note = (
            f"{what} known here of what {drafter.kind} reaches by its training: lengths are "
            "examples, not what to expect"
        )
        examples = [one for one in _LENGTHS if one <= drafts + 1]
        return lengths_within(request, examples, drafts), drafts, [Urgent(note)]
    note = (
        f"tokens per round: what published {drafter.kind} drafters with {COMPARED_DRAFTS} drafts "
        "reached, by their samples; a training set left out was at most 0.29 off"
    )
    return [round(one, 2) for one in expected], COMPARED_DRAFTS, [note]


@dataclass(frozen=True, slots=True)
class _Saves:
    """What one load saves.

    Parameters
    ----------
    load, money, training, traffic
        The load, the price of devices, what training takes, and the tokens of a day.
    spent
        Device-hours of an output token with the drafter that is compared with; None for plain
        decoding.
    """

    load: Load
    money: Money
    training: Training
    traffic: Sequence[float]
    spent: float | None = None

    def hours(self, found: Outcomes) -> tuple[dict[str, Any], float, tuple[float, ...]]:
        """Return the figures of the load, the device-hours of a token, and what drafts gain.

        The figures by the names of `LoadRow`, the hours without drafts, the gain with the ends of
        its band. Requests that arrive make as many tokens with drafts as without, on fewer servers:
        at the largest rate that each answers, with the drafts that are chosen at theirs.
        """
        played, workload = found.played, self.load.steady.workload
        fields = next(load_fields(found, self.load, self.money))
        if played is not None and self.load.rate and workload is not None:
            speed = float(played.stable_rate[0]) * workload.output_len
            gains = tuple(played.stable_gain[:, fields["tried_draft_len"]].tolist())
        else:
            speed, gain = fields["plain_tokens_per_s"], fields["speedup"]
            gains = gain, *fields["bands"].get("speedup", (gain, gain))
        return fields, self.money.devices / speed / _HOUR_S, gains

    def rows(self, found: Outcomes, length: float) -> Iterator[TrainRow]:
        """Yield the rows of one acceptance length."""
        fields, plain, gains = self.hours(found)
        before = plain if self.spent is None else self.spent
        saved, least, most = (before - plain / gain for gain in gains)
        price, workload = self.money.usd_per_hour, self.load.steady.workload
        for tokens in self.traffic:
            hours = max(saved, 0.0) * tokens
            row = TrainRow(
                **fields,
                accept_length=length,
                tokens_per_day=tokens,
                saved_hours_per_day=hours,
                saved_usd_per_day=None if price is None else hours * price,
            )
            if saved > 0:
                cheapest, usual, dearest = self.training.hours
                until = usual / saved
                days = cheapest / most / tokens, dearest / least / tokens
                row = replace(
                    row,
                    days_until_paid=until / tokens,
                    # Savings that halve every h days come to h / ln 2 days of the first one.
                    least_half_life_days=math.log(2) * until / tokens,
                    tokens_until_paid=until,
                    requests_until_paid=None if workload is None else until / workload.output_len,
                    bands={
                        **fields["bands"],
                        "days_until_paid": days if least > 0 else (days[0], math.inf),
                    },
                )
            yield row


# --- The costs and when they are paid, as text ----------------------------------------------------

_SHOWN: Final = (
    *("rate", "concurrency", "batch_size", "accept_length", "speedup", "decision", "draft_len"),
    *("tokens_until_paid", "requests_until_paid"),
)


def paid_line(answer: Trained, most: int | None = None) -> str:
    """Return when the training has paid at the middle length, by traffic, of so many at most."""
    first = answer.expected[0]
    length = f"with {first.accept_length:.3g} tokens/round{of_load(first, answer.rows)}"
    told = ", ".join(
        f"{_days(row)} at {format_count(row.tokens_per_day)} tokens a day"
        for row in answer.expected[:most]
    )
    if first.days_until_paid is None:
        return f"never paid {length}: nothing is saved beside {answer.against or 'plain decoding'}"
    return f"paid after {told}, {length}"


#: Units of times until training has paid, in days.
_DAYS: Final = ((1.0, "days"), (1 / 24, "hours"), (1 / 1440, "minutes"))


def _days(row: TrainRow) -> str:
    """Return how long a traffic takes to pay, as a range."""
    if row.days_until_paid is None:
        return "never"
    low, high = row.bands["days_until_paid"]
    days, unit = next(
        (days, unit) for days, unit in _DAYS if row.days_until_paid >= days or unit == "minutes"
    )
    usual, least, longest = (_plain(end / days, 2) for end in (row.days_until_paid, low, high))
    most = "or more" if math.isinf(high) else f"to {longest}"
    return f"{usual} {unit.removesuffix('s') if usual == '1' else unit} ({least} {most})"


def training_lines(answer: Trained) -> list[str]:
    """Return what training takes, and what the target's own answers take of it."""
    training, devices = answer.training, answer.training.devices
    kept = f", {format_si(training.storage_bytes, 'B')} on disk" * (training.storage_bytes > 0)
    cost = (
        f"training: {_range(training.hours)} device-hours on {devices} x "
        f"{answer.setup.hardware.name}, {_plain(training.hours[1] / devices)} h in all; "
        f"{_plain(training.states_hours)} of them for hidden states{kept}"
        + ("" if training.usd is None else f"; {_range(training.usd)} USD")
    )
    answers = "you have them already, and they are not counted"
    if training.answers_hours:
        answers = (
            f"{_plain(training.answers_hours)} of these hours, {training.answer_len:.0f} tokens a "
            f"sample; 0 if you have them (--answer-len 0)"
        )
    return [cost, f"the target's own answers: {answers}"]


def _plain(value: float, digits: int = 3) -> str:
    """Return a number in so many digits, without an exponent."""
    return f"{float(f'{value:.{digits}g}'):,.6g}"


def _range(ends: Sequence[float]) -> str:
    """Return what is expected, and the ends around it."""
    least, usual, most = map(_plain, ends)
    return f"{usual} (likely {least} to {most})"


COMMAND: Final = Command(
    question=train,
    options=p.FORMULAS,
    chart="Draw what is saved over time, by traffic.",
    example="specroof train Qwen/Qwen3-8B -H h100 --drafter eagle3 --samples 100000 --isl 1024\n"
    "--osl 256 --concurrency 32 --price-per-hour 2.5",
)
