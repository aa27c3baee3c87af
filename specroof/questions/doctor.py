"""How does a running server fare, beside what was predicted, and what should it change?"""

import math
import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from specroof import quantities as q
from specroof.acceptance import acceptance_notes, accepted_at, constant_acceptance
from specroof.acceptance.law_fits import extrapolated_acceptance
from specroof.arrays import fields_of, number_within
from specroof.catalog.pages import is_url, metrics_pages
from specroof.drafters import Drafter
from specroof.drafters.kinds import KINDS, matched_proposals
from specroof.errors import (
    CatalogError,
    MeasurementError,
    OptionError,
    Urgent,
    expect,
    refuse,
    reject,
)
from specroof.evidence import (
    Measurement,
    refuse_other_drafts,
    refuse_other_formats,
    refuse_other_kinds,
)
from specroof.evidence.server_info import (
    SERVER_PATHS,
    ServerFacts,
    all_facts,
    cache_facts,
    server_facts,
)
from specroof.frameworks import nearest_release, version_parts
from specroof.hardware.engine import SERVER_KEYS, ServerSettings
from specroof.latency.setup import Deployment, release_in
from specroof.outcomes.case import Case, served_case
from specroof.policies.decision import WORTH_A_RESTART, Change, Gain, best_change
from specroof.questions import parameters as p
from specroof.questions.answer import ServedAnswer
from specroof.questions.benchmark import bare_name
from specroof.questions.objects import (
    DrafterLike,
    ModelLike,
    as_list,
    engine_name,
    framework_of,
    hardware_of,
    is_tree,
    options_of,
    server_of,
)
from specroof.questions.predict import Prediction, predicted
from specroof.questions.request import Command, DeploymentRequest, question
from specroof.questions.speculation import can_follow_load
from specroof.reading.metrics_text import parse_metrics
from specroof.reading.yaml_text import shown
from specroof.report.layout import figure, format_table
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.launch import DRAFT_MODEL, Launch, launch
from specroof.serving.metrics import counted, no_page
from specroof.serving.observed import NEARLY_ALL, Observed, measured_acceptance, observed
from specroof.serving.workload import Load, Workload
from specroof.speedup.reach import how_sure
from specroof.units import format_seconds, plain_number

# --- A server's counts beside a prediction that uses them, and the gain of other draft lengths ---

#: Loads at which a schedule may change its draft length, besides the present one.
LOADS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
#: Cached tokens of a request where neither the user nor the server says.
USUAL_CONTEXT_LEN: Final = 4096.0
#: Steps towards the requests in flight of which as many decode as were counted.
_STEPS: Final = 8
#: How acceptance by position goes on past the drafts that a server makes: of the laws with a name
#: this one misses deeper positions of measured profiles least (`benchmarks/acceptance_shapes.py`).
BEYOND: Final = "geometric"


@dataclass(frozen=True, kw_only=True)
class Compared(q.Row):
    """One figure of a server, measured and predicted; None where there is none.

    `off` is measured by predicted, less 1.
    """

    quantity: str
    unit: str
    measured: float | None
    predicted: float | None
    off: float | None


def _compared(
    quantity: str, unit: str, measured: float | None, predicted: float | None
) -> Compared:
    off = None if measured is None or not predicted else measured / predicted - 1.0
    return Compared(quantity=quantity, unit=unit, measured=measured, predicted=predicted, off=off)


def context_of(given: float | None, counts: Observed) -> float:
    """Return the cached tokens of a request: as given, else the mean of finished requests."""
    if given is not None:
        return number_within("context_len", given, "context_len")
    if counts.input_len is None or counts.output_len is None:
        return USUAL_CONTEXT_LEN
    return counts.input_len + counts.output_len / 2


@dataclass(frozen=True, slots=True, eq=False)
class ServedCase:
    """A server that was read, and what it serves.

    Parameters
    ----------
    served, drafter
        What is served, where, and what drafts; None if nobody says.
    counts
        What the server counted.
    context_len
        Cached tokens of a request.
    replicas
        Servers that share the load.
    """

    served: Deployment
    drafter: Drafter | None
    counts: Observed
    context_len: float
    replicas: int

    @property
    def now(self) -> int | None:
        """Drafts of a round: the mean, rounded; None where the server does not show it."""
        if not self.counts.speculates:
            return 0
        drafts = self.counts.longest if self.counts.draft_len is None else self.counts.draft_len
        return None if drafts is None else round(drafts)

    @property
    def running(self) -> float:
        """Requests that one replica decodes at a time: one at least."""
        return max((self.counts.running or 0.0) / self.replicas, 1.0)

    @property
    def drafted_frac(self) -> float:
        """Share of rounds that are predicted to draft; a look-up's misses are in its acceptance."""
        share = self.counts.drafted_frac
        if share is None or self.drafter is None or looks_up(self.drafter):
            return 1.0
        return share


def looks_up(drafter: Drafter) -> bool:
    """Tell whether drafts are found in the text so far: at most as many as it repeats."""
    return drafter.propose(constant_acceptance(0.5), np.array([1])).looked_up


def _with_measured(drafter: Drafter, counts: Observed) -> Drafter:
    """Return a drafter with the acceptance that was counted; its own where none was.

    What was counted by position goes on past the deepest by a law. A look-up finds drafts in the
    share of rounds that was counted, where one was.
    """
    measured = measured_acceptance(counts, drafter.kind)
    if measured is None or drafter.is_ideal or is_tree(drafter):
        return drafter
    if measured.max_draft_len is not None:
        measured = extrapolated_acceptance(measured, BEYOND)
    share = counts.drafted_frac
    if share is not None and looks_up(drafter):
        propose = partial(matched_proposals, match_rate=share)
        return replace(drafter, acceptance=measured, propose=propose)
    return replace(drafter, acceptance=measured)


def prediction_of(case: ServedCase, load: Load | None = None) -> Prediction | None:
    """Return the prediction at a load, by default at this one and others.

    None without any acceptance.
    """
    if case.drafter is None:
        return None
    drafter = _with_measured(case.drafter, case.counts)
    if drafter.acceptance is None and not drafter.is_ideal:
        return None
    if load is None:
        loads = sorted({*map(float, LOADS), float(round(case.running)), case.running})
        load = Load(loads, [case.context_len])
    # Of a server that runs, with the limits that it has.
    return predicted(served_case(case.served, load, raises=False), [drafter])


def answers_of(case: ServedCase) -> EndToEnd | None:
    """Return the prediction of the requests that were counted, their prompts included.

    What is counted is how many requests decode at a time. In flight are more, by those whose prompt
    is prefilled: so many are predicted that as many decode. A gauge shows those in flight.

    None where their lengths or drafts are not known, and where nothing is predicted.
    """
    counts, now = case.counts, case.now
    if now is None or not counts.running or not counts.input_len or (counts.output_len or 0) <= 1:
        return None
    work = Workload(counts.input_len, counts.output_len or 0.0, counts.prefix_hit_rate)
    decoding = in_flight = counts.running / case.replicas
    for _ in range(_STEPS):
        load = Load([max(in_flight, 1.0)], [work.mean_context_len], work)
        prediction = prediction_of(case, load)
        if prediction is None or now > prediction.max_draft_len:
            return None
        (answers,) = prediction.end_to_end
        if prediction.limits and prediction.limits[0].largest[0, now] < max(
            math.floor(decoding), 1
        ):
            return None  # nor did so many run by the prediction's account
        effective = answers.effective_batch[0, 0, now]
        if counts.seconds is None:
            return answers
        in_flight *= decoding / effective
    return answers


def change_of(case: ServedCase, prediction: Prediction) -> Change | None:
    """Return the gain of another draft length; None where the load does not fit.

    How much longer look-ups would find is not known from those that were counted: nothing is said
    of lengths beyond them.
    """
    (curve,) = prediction.curves
    running = round(case.running)
    rates = curve.tokens_per_s[0]
    measured = curve.measured_draft_len
    if measured is not None and case.drafter is not None and looks_up(case.drafter):
        measured = max(case.counts.longest or 0, measured)
        rates = np.where(curve.draft_len <= measured, rates, np.nan)
    # A server that drafts never comes to loads for which no draft has room.
    rows = [
        row
        for row, load in enumerate(curve.batch_size)
        if load.is_integer() and np.isfinite(rates[row, 0 if load == running else 1 :]).any()
    ]
    loads = [int(curve.batch_size[row]) for row in rows]
    if running not in loads:
        return None
    row = rows[loads.index(running)]
    low, high = curve.speedup_low, curve.speedup_high
    return best_change(
        loads,
        rates[rows],
        running=running,
        now=case.now,
        speedup=curve.speedup[0, row],
        ends=None if low is None or high is None else (low[0, row], high[0, row]),
        measured=measured,
        is_fixed=case.drafter is None
        or not can_follow_load(
            case.served, case.drafter, release_in(case.served.setup, case.counts.framework)
        ),
    )


def compared(
    case: ServedCase, prediction: Prediction | None, answers: EndToEnd | None
) -> Iterator[Compared]:
    """Yield measured quantities beside predicted ones, for the draft length that runs.

    Rounds are those that requests feel, with the prefills that delay them, where `answers` has
    them; else those of decoding alone. Tokens per second are those of as many requests as run, by
    Little's law: of a lone request for the share of the time in which the server decodes. Rounds
    that did not draft, where such were counted, are predicted as plain steps.
    """
    counts, drafter, now, share = case.counts, case.drafter, case.now, case.drafted_frac
    length = round_s = rate = rounds = None
    if drafter is not None and drafter.acceptance is not None and now:
        accepted = accepted_at(drafter.acceptance, case.context_len)
        drafted = drafter.propose(accepted, np.array([now])).tokens_per_round[0]
        length = _finite(1.0 + share * (drafted - 1.0))
    if answers is not None:
        rounds = answers.tpot_s[0, 0] * answers.curve.tokens_per_round[0, 0]
        # A gauge shows those in flight.
        decoding = case.running if counts.seconds is None else answers.effective_batch[0, 0]
        rates = answers.tokens_per_s[0, 0] / decoding
    elif prediction is not None and counts.running:
        (curve,) = prediction.curves
        row = list(curve.batch_size).index(case.running)
        rounds, rates = curve.round_s[0, row], curve.tokens_per_s[0, row] / case.running
    if rounds is not None and now is not None and now < len(rounds):
        running = (counts.running or 0.0) / case.replicas
        lengths, shares = ([now], [1.0]) if share == 1.0 else ([0, now], [1.0 - share, share])
        seconds = np.multiply(shares, rounds[lengths])
        round_s = _finite(seconds.sum())
        rate = _finite(running * np.average(rates[lengths], weights=seconds))
    measured = None if counts.tokens_per_s is None else counts.tokens_per_s / case.replicas
    if counts.speculates:
        yield _compared("tokens per round", "", counts.tokens_per_round, length)
    name = "round" if counts.speculates else "step"
    yield _compared(name, "s", counts.round_s, round_s)
    yield _compared("tokens per second", "tok/s", measured, rate)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def mistrust(
    case: ServedCase,
    rows: Sequence[Compared],
    prediction: Prediction | None,
    answers: EndToEnd | None,
) -> Iterator[str]:
    """Yield that measured rounds are beyond the band of the prediction that the advice rests on.

    Nothing where the engine has no band, as the ideal one. The band is that of throughput: the
    acceptance that was counted is in both.
    """
    name, off = next((row.quantity, row.off) for row in rows if row.unit == "s")
    if prediction is None or case.now is None or off is None:
        return
    curve, place = prediction.curves[0], 0
    if answers is None:
        place = list(curve.batch_size).index(case.running)
    else:
        curve = answers.curve
    at = 0, place, case.now
    if curve.rate_ends is None:
        return
    low, high = (float(end[at] / curve.tokens_per_s[at]) for end in curve.rate_ends)
    took = 1.0 + off
    if took * high < 1.0 or took * low > 1.0:
        why = ""
        if answers is None and took > 1.0:
            why = "; they hold the prefills that delayed them, which are not predicted here"
        yield (
            f"{name}s took {took:.2f} times what is predicted, beyond the band ({1 / high:.2f} to "
            f"{1 / low:.2f}){why}: find the cause before you trust these gains"
        )


# --- The advice for a running server, in sentences -----------------------------------------------


def advice(case: ServedCase, prediction: Prediction | None, change: Change | None) -> Iterator[str]:
    """Yield the advice, sentence by sentence; gains are against plain decoding."""
    now = case.now
    state = f"K={now} now" if now else "speculation is off now"
    if now is None:
        state = "drafts are made now, how many is not shown"
    if case.drafter is None:
        yield f"{state}; name the drafter (--drafter) to see what another draft length would gain"
    elif change is not None:
        larger = [
            f"above {first - 1} {f'K={drafts}' if drafts else 'turn it off'}"
            for first, _, drafts in change.schedule
            if first > change.running
        ]
        yield "; ".join([state, gain_words(change), *larger])
        if case.drafted_frac < NEARLY_ALL:
            yield f"gains are those of rounds that draft, {case.drafted_frac:.0%} of those counted"
        longer = change.longer
        if longer is None:
            return
        # Not where the draft length that runs has no figure, which a NaN says.
        least = max(change.share_over_now(change.best), 0.0) + WORTH_A_RESTART
        if change.share_over_now(longer) >= least:
            yield (
                f"K={longer.draft_len} may give {_speedup_words(longer)}, beyond "
                f"K={change.measured}, the longest measured: try it before you keep it"
            )
    elif prediction is None:
        yield f"{state}; no prediction: no acceptance was counted or given"
    else:
        yield (
            f"{state}; no prediction: memory would not hold {plain_number(case.running, digits=4)} requests at context "
            f"{plain_number(case.context_len, digits=4)}; is the server started with another --tp, --kv-cache, --weights "
            "or --server?"
        )


def gain_words(change: Change) -> str:
    """Return what the best length gains over plain decoding, beside the length that runs."""
    at, now, best = f"at {change.running} running requests", change.now, change.best
    of_best = f": {_speedup_words(best)}" * bool(best.draft_len)
    if now is None:
        unknown = "no figure for the draft length that runs"
        length = f"K={best.draft_len}" if best.draft_len else "no draft"
        return f"{at} {length} is best{of_best} ({unknown})"
    if best.draft_len == now.draft_len:
        return f"{at} that is best{of_best}"
    if change.share_over_now(best) < WORTH_A_RESTART:
        of_now = f": {_speedup_words(now)}" * bool(now.draft_len)
        return f"{at} that is within {WORTH_A_RESTART:.0%} of the best{of_now}"
    doubt = ", unclear: measure it first" * change.is_unclear
    if not best.draft_len:
        verb = "may be" if change.is_unclear else "is"
        return f"{at} no draft {verb} best: K={now.draft_len} gives {_speedup_words(now)}{doubt}"
    verb = "may give" if change.is_unclear else "gives"
    of_now = f", K={now.draft_len} {now.speedup:.2f}x" * bool(now.draft_len)
    return f"{at} K={best.draft_len} {verb} {_speedup_words(best)}{of_now}{doubt}"


def _speedup_words(gain: Gain) -> str:
    band = "" if gain.low == gain.high else f" ({gain.low:.2f}-{gain.high:.2f}x)"
    return f"{gain.speedup:.2f}x plain decoding{band}"


_SINCE: Final = (
    "one page: counters cover the time since the server began; running requests are as of now"
)
_PREFILLS: Final = (
    "measured rounds hold the prefills that delayed them; predicted rounds hold none, as the lengths "
    "of requests were not counted"
)


#: What a server says of how it is spread.
_SPREAD: Final = (
    "tensor_parallel",
    "expert_parallel",
    "attention_data_parallel",
    "pipeline_parallel",
)
_AS_LAUNCHED: Final = "what the server says, else 1"


@dataclass(frozen=True, kw_only=True)
class LaunchedRequest(DeploymentRequest):
    """What is served, and where, of a server that may say itself how it is spread."""

    panel: ClassVar = p.PLACEMENT

    # None tells what is left open from a 1 that is stated.
    tensor_parallel: Annotated[int | None, p.like(p.TensorParallel, shown=_AS_LAUNCHED)] = None  # type: ignore[assignment]
    expert_parallel: Annotated[int | None, p.like(p.ExpertParallel, shown=_AS_LAUNCHED)] = None  # type: ignore[assignment]
    attention_data_parallel: Annotated[
        int | None, p.like(p.AttentionDataParallel, shown=_AS_LAUNCHED)
    ] = None  # type: ignore[assignment]
    pipeline_parallel: Annotated[int | None, p.like(p.PipelineParallel, shown=_AS_LAUNCHED)] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class DoctorRequest(LaunchedRequest):
    r"""Ask how a running server fares.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from specroof import doctor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Path(folder) / "metrics.txt"
    ...     _ = page.write_text("vllm:num_requests_running 8.0\n")
    ...     diagnosis = doctor("Qwen/Qwen3-8B", "h100", pages=page)
    >>> diagnosis.observed.running, diagnosis.observed.speculates
    (8.0, False)
    """

    model: Annotated[ModelLike, p.like(p.Model, flag="")]
    _: KW_ONLY
    pages: Annotated[
        str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        p.Parameter(
            "A server, as in http://localhost:8000 or localhost:8000/v1; or one or two saved "
            "metrics pages, the older first, and the saved JSON of its /server_info.",
            "URL|PAGE…",
            kind=list[str],
        ),
    ]
    drafter: Annotated[
        DrafterLike | None,
        p.like(
            p.OneDrafter,
            about=f"What drafts: KIND[,key=value…]. Kinds: {', '.join(KINDS)}. The prediction uses the "
            f"acceptance that the server counts; one given here is compared with it.",
            in_python="Without it, the server is measured and nothing is predicted.",
        ),
    ] = None
    wait_s: Annotated[
        float | None,
        p.Parameter(
            "Seconds between the two reads, 0 for one read; or between two saved pages.",
            "--wait",
            metavar="SECONDS",
            shown="10 for a server",
        ),
    ] = None
    served_name: Annotated[
        str | None,
        p.Parameter("The model's name on the server, if it serves several.", metavar="NAME"),
    ] = None
    context_len: Annotated[
        float | None,
        p.like(
            p.ContextLen,
            about="Cached tokens of each request.",
            shown="the mean of the finished requests, else 4096",
        ),
    ] = None
    header: Annotated[
        str | Sequence[str],
        p.Parameter(
            "NAME: VALUE for a server that wants a key; again for more. The token in "
            "SPECROOF_TOKEN is sent as Authorization: Bearer, and stands in no list of processes.",
            in_python="Neither is printed, nor sent to another server.",
            metavar="NAME: VALUE",
            kind=list[str],
            shown=False,
        ),
    ] = field(default=(), repr=False)
    draft_model: p.DraftModel = None


#: Characters of a line, but for flags, which are pasted, and notes.
_WIDTH: Final = 80


@dataclass(frozen=True, repr=False, eq=False)
class Diagnosis(ServedAnswer):
    """How a server fares, and what to change.

    Attributes
    ----------
    about
        The model, its setup, the requests that one replica decodes at a time, and their context.
    observed
        What the server counted.
    rows
        Measured beside predicted.
    prediction
        What was predicted at that load with that acceptance; None without a drafter.
    change
        The gain of another draft length; None without a drafter, or where the load does not fit.
    advice
        What to change, a sentence each.
    flags
        The flags that make the server do so; None where nothing drafts, or no flag is known.
    notes, warnings
        Sentences for the reader.
    """

    observed: Observed
    rows: tuple[Compared, ...]
    prediction: Prediction | None
    change: Change | None
    advice: tuple[str, ...]
    flags: Launch | None

    @property
    def context_len(self) -> float:
        """Cached tokens of a request."""
        return float(self.about.load.context_len[0])

    @property
    def running(self) -> float:
        """Requests that one replica decodes at a time."""
        return float(self.about.load.batch_size[0])

    @property
    def title(self) -> str:
        """The server, in one line."""
        return f"{self.served}, served by {self.observed.framework}"

    def text(self) -> str:
        """Return the counts, measured beside predicted figures, advice and flags."""
        flags, flag_lines = self.flags, ""
        if flags is not None:
            files = (f"{name}:\n{text.rstrip()}" for name, text in flags.files.items())
            flag_lines = "\n".join([f"flags of {flags.release}:", flags.text, *files])
        compared = []
        for row in self.rows:
            spelt = {"s": format_seconds, "": "{:.2f}".format}.get(row.unit, "{:.0f}".format)
            figures = (figure(value, spelt) for value in (row.measured, row.predicted))
            compared.append([row.quantity, *figures, figure(row.off, q.signed_share)])
        return self.as_page(
            format_table(["counted", "", "how"], [*_counts(self)], left=[0, 2]),
            format_table(["", "measured", "predicted", "vs predicted"], compared),
            flag_lines,
            found=[line for sentence in self.advice for line in textwrap.wrap(sentence, _WIDTH)],
        )

    @property
    def sureness(self) -> str:
        """How near measurements are to the load that runs, in one sentence."""
        if self.prediction is None:
            return ""
        kinds = [drafter.kind for drafter in self.prediction.drafters]
        return how_sure(self.prediction.deployment, kinds, self.context_len, self.running)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        counts, change, flags = self.observed, self.change, self.flags
        case = self.served_json(context_len=self.context_len)
        case["observed"] = asdict(counts) | {"survival": list(counts.survival)}
        for name in ("model", "verified", "notes"):
            del case["observed"][name]
        return self.envelope(
            case,
            {
                "change": change
                and {
                    **fields_of(change, "running", "measured"),
                    "now": _gain_json(change.now),
                    "best": _gain_json(change.best),
                    "longer": _gain_json(change.longer),
                },
                "schedule": None if change is None else [*map(list, change.schedule)],
                "advice": list(self.advice),
                "engine_config": None if flags is None else {flags.framework: flags.text},
                "files": {} if flags is None else dict(flags.files),
            },
        )


def _gain_json(gain: Gain | None) -> dict[str, float] | None:
    if gain is None:
        return None
    ends = {"speedup_low": gain.low, "speedup_high": gain.high}
    return fields_of(gain, "draft_len", "speedup") | ends


@question(DoctorRequest)
def doctor(request: DoctorRequest) -> Diagnosis:
    """Read a server's metrics, compare them with a prediction, and say what to change."""
    expect("served_name", request.served_name, str | None, "the name of a served model, or None")
    expect("draft_model", request.draft_model, str | None, DRAFT_MODEL)
    engine_name(request.engine)  # refuses what is no text, before pages are fetched
    drafter = None if request.drafter is None else request.sampled(request.drafter)
    counts, facts, read = _observed(request)
    if framework_of(request.framework)[0] not in {None, counts.framework}:
        refuse("framework", request.framework, f"{counts.framework}, which the page is of")
    profile = hardware_of(request.hardware)
    # The engine that the server is, where that was fitted.
    engine = request.engine or profile.engine_of(counts.framework)
    request = replace(request, hardware=profile, engine=engine)
    served = as_launched(request, facts, counts.framework)
    case = _case(served, drafter, counts)
    _refuse_other_launch(case, facts)
    prediction = prediction_of(case)
    limit = _default_limit(case, prediction)
    if limit is not None:
        settings = replace(server_of(served.server), running=limit[1])
        case = _case(replace(served, server=settings), drafter, counts)
        prediction = prediction_of(case)
    change = None if prediction is None else change_of(case, prediction)
    flags, unknown = _flags(served, case, change, limit)
    answers = answers_of(case)
    of_case = [*_case_notes(case, facts, limit)]
    if prediction is not None:
        of_case += [_PREFILLS] if answers is None and not counts.input_len else []
        of_case += [*prediction.warnings, *prediction.notes]
    of_case += _law_notes(case, change)
    # A prediction says the same; without one nothing else does.
    of_counts = acceptance_notes(measured_acceptance(counts, ""), case.served.model.name)
    rows = tuple(compared(case, prediction, answers))
    told = (*advice(case, prediction, change), *mistrust(case, rows, prediction, answers))
    return Diagnosis(
        Case(case.served, Load([case.running], [case.context_len])),
        observed=counts,
        rows=rows,
        prediction=prediction,
        change=change,
        advice=told,
        flags=flags,
        notes=tuple(dict.fromkeys([*read, *counts.notes, *of_counts, *of_case, *unknown])),
    )


def _observed(request: DoctorRequest) -> tuple[Observed, ServerFacts, list[str]]:
    """Return the server's counts, what it says of itself, and notes on reading them."""
    pages = metrics_pages(
        as_list(request.pages),
        wait_s=request.wait_s,
        headers=as_list(request.header),
        others=SERVER_PATHS,
    )
    samples = []
    for source, text in zip(pages.sources, pages.texts, strict=True):
        if text is None:
            message = f"{source}: the page is missing; {no_page()}"
            raise CatalogError(message)
        samples.append(parse_metrics(text, source=source))
    metrics = counted(samples, sources=pages.sources, model=request.served_name)
    unread = list(pages.unread)
    found = [cache_facts(metrics.info, source=pages.sources[-1])]
    for source, text in pages.others.items():
        try:
            facts = server_facts(text, source=source)
            framework = metrics.release.framework
            if facts.framework not in {None, framework}:
                reject(
                    f"{source}: is of {facts.framework}, and the metrics are of {framework}",
                    "pages of one server",
                    MeasurementError,
                )
            found.append(facts)
        except MeasurementError as refusal:
            if not is_url(source):
                raise
            # Behind a gateway, any page may answer.
            unread.append(str(refusal))
    facts = all_facts(found)
    said = fields_of(facts, "steps", "verified")
    settings = {key: float(value) for key, value in said.items() if value is not None}
    # The gauges are of now, where a server has them.
    metrics = replace(metrics, settings={**settings, **metrics.settings})
    version = "" if facts.version is None else f"; the server is {facts.version}"
    notes = [f"metrics are named as in {metrics.release.name}{version}"]
    if len(samples) == 1:
        notes.insert(0, _SINCE)
    notes += [f"not read: {reason}" for reason in unread]
    return observed(metrics, pages.seconds), facts, notes


def as_launched(request: DoctorRequest, facts: ServerFacts, framework: str) -> DoctorRequest:
    """Return a request whose server is set up as it says, where the user leaves that open.

    Counts
        a release without a file as the nearest one below it.

    Raises
    ------
    OptionError
        Where the user states otherwise.
    """
    told: dict[str, Any] = {}
    for name in _SPREAD:
        stated, given = getattr(facts, name), getattr(request, name)
        if stated is not None and given not in {None, stated}:
            reject(f"{name} is {given}", f"{stated}, as the server says, or to leave it out")
        told[name] = given if given is not None else stated or 1
    given_settings = server_of(request.server)
    launched = facts.settings or ServerSettings()
    for key, value in given_settings.stated.items():
        says = launched.stated.get(key, value)
        if says != value:
            reject(f"server: {key} is {value}", f"{says}, as the server says, or to leave it out")
    stated_settings = {SERVER_KEYS[key]: value for key, value in launched.stated.items()}
    told["server"] = replace(given_settings, **stated_settings)
    options = options_of(request.options)
    told["options"] = replace(options, kv_dtype=options.kv_dtype or facts.kv_dtype)
    chip, engine = request.engine_on(hardware_of(request.hardware))
    version = facts.version or ""
    is_open = version_parts(version) and not framework_of(request.framework)[1]
    # An engine with the rules of other software has no release of this one.
    if is_open and chip.engine(engine).rules == framework:
        told["framework"] = f"{framework}@{nearest_release(framework, version)}"
    return replace(request, **told)


def _case(request: DoctorRequest, drafter: Drafter | None, counts: Observed) -> ServedCase:
    """Return a server and what it serves."""
    served = request.resolved()
    groups = served.setup.placement.attention_data_parallel
    context_len = context_of(request.context_len, counts)
    return ServedCase(served, drafter, counts, context_len, counts.ranks if groups == 1 else 1)


def _refuse_other_launch(case: ServedCase, facts: ServerFacts) -> None:
    """Refuse to predict a server that was launched otherwise, by what it says of itself.

    Raises
    ------
    MeasurementError
        One line with what the server says, and with what is to be predicted.
    """
    counts = case.counts
    launched = facts.launched or Measurement(place="the metrics", draft_len=None, says_drafts=False)
    if counts.speculates and launched.says_drafts and not launched.drafts:
        reject(
            f"{launched.place}: speculative_algorithm is empty, and the metrics show drafts",
            "pages of one server",
            MeasurementError,
        )
    refuse_other_formats(launched, case.served)
    if case.drafter is None:
        return
    refuse_other_kinds([launched], case.drafter.kind)
    # What look-ups find may be a tree, and costs what as many drafts do.
    if not looks_up(case.drafter):
        shape = replace(launched, draft_len=counts.longest, verify_len=counts.verified)
        refuse_other_drafts(shape, case.drafter.name, branches=is_tree(case.drafter))


def _default_limit(case: ServedCase, prediction: Prediction | None) -> tuple[int, int] | None:
    """Return a limit with drafts that the requests exceed, and what lets them run; None if none."""
    if prediction is None or not prediction.limits:
        return None
    drafting = prediction.limits[0].drafting
    limit, wanted = drafting.server.running, int(drafting.need.told_running(case.running))
    return (limit, wanted) if limit is not None and limit < wanted else None


def _case_notes(
    case: ServedCase, facts: ServerFacts, limit: tuple[int, int] | None
) -> Iterator[str]:
    """Yield what is predicted otherwise than the server seems to be: model, limit, replicas."""
    counts = case.counts
    # The name under which it is served may be any; the path of its weights says more.
    served = facts.model_path or (facts.roots or {}).get(counts.model, counts.model)

    model = case.served.model.name
    if bare_name(served) not in {"", bare_name(model)}:
        yield Urgent(
            f"the server calls its model {shown(served)}, and the prediction is for {model}: check "
            f"that both have the same sizes and format of weights"
        )
    if limit is not None:
        yield (
            f"with drafts {counts.framework} runs at most {limit[0]} requests by default: the limit "
            f"is taken as {limit[1]}, for the {math.ceil(case.running)} that run"
        )
    if case.replicas > 1:
        yield f"{case.replicas} replicas: the load of one is predicted"


def _law_notes(case: ServedCase, change: Change | None) -> Iterator[str]:
    """Yield the note that names the extrapolation law, if a longer draft is worth measuring."""
    if change is None or change.measured is None:
        return
    beyond = f"beyond K={change.measured}, the longest counted,"
    if case.drafter is not None and looks_up(case.drafter):
        yield f"{beyond} what look-ups find is unknown: longer drafts are not compared"
    elif case.counts.survival and change.longer is not None:
        yield f"{beyond} acceptance is extrapolated: {BEYOND}, each draft at the rate of the last"


def _flags(
    request: DoctorRequest, case: ServedCase, change: Change | None, limit: tuple[int, int] | None
) -> tuple[Launch | None, list[str]]:
    """Return the flags of the schedule, and why there are none where no flag is known."""
    if change is None or case.drafter is None or is_tree(case.drafter):
        return None, []
    if not any(drafts for _, _, drafts in change.schedule):
        return None, ["drafts do not pay: start the server without its speculative flags"]
    # A server that drafts has a larger limit already.
    raised = None if limit is None or case.counts.speculates else limit[1]
    setup = case.served.setup
    try:
        plan = request.speculation(
            case.drafter,
            change.schedule,
            request.draft_model,
            settings=ServerSettings(running=raised),
            capability=setup.hardware.compute_capability,
        )
        flags = launch(plan, release_in(setup, case.counts.framework))
    except OptionError as refusal:
        return None, [f"no flags: {refusal}"]
    return flags, list(flags.notes)


# --- A server's counts beside a prediction, and the advice, on one page --------------------------


def _counts(answer: Diagnosis) -> Iterator[list[str]]:
    """Yield name, value and origin of every count of the server."""
    counts = answer.observed
    if counts.seconds is not None:
        yield ["time between the reads", format_seconds(counts.seconds), ""]
    if counts.running is not None:
        yield ["running requests", f"{counts.running:.1f}", counts.running_from]
    if counts.waiting is not None:
        yield ["waiting requests", f"{counts.waiting:.1f}", "as the server showed it"]
    lengths = f"{counts.input_len or 0:.0f} tokens in, {counts.output_len or 0:.0f} out, means"
    yield ["context", f"{answer.context_len:.0f}", lengths * (counts.input_len is not None)]
    if not counts.speculates:
        yield ["drafts per round", "off", ""]
    elif counts.longest is None:
        yield ["drafts per round", "on", "how many is not shown"]
    elif counts.draft_len is not None:
        share = f"{1.0 if counts.drafted_frac is None else counts.drafted_frac:.0%}"
        some = "" if share == "100%" else f"in {share} of "
        rounds = f"{some}{counts.rounds:.0f} rounds of requests" if counts.rounds else ""
        yield ["drafts per round", f"{counts.draft_len:.3g}", rounds]
    if counts.speculates and counts.tokens_per_round is not None:
        yield ["tokens per round", f"{counts.tokens_per_round:.2f}", counts.length_from]
    if counts.round_s is not None:
        name = "round" if counts.speculates else "step"
        yield [name, format_seconds(counts.round_s), counts.round_from]
    if counts.survival:
        shares = " ".join(f"{share:.2f}" for share in counts.survival[:8])
        yield ["accepted by position", "", shares + " …" * (len(counts.survival) > 8)]


COMMAND: Final = Command(
    question=doctor,
    options=p.FORMATS,
    example="specroof doctor http://localhost:8000 --model Qwen/Qwen3-8B -H h100 --drafter eagle3",
)
