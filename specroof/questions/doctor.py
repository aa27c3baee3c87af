"""How does a running server fare, beside what was predicted, and what should it change?"""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

import numpy as np

from specroof.acceptance import ContextAcceptance, constant_acceptance
from specroof.architecture import Architecture
from specroof.arrays import number_within
from specroof.catalog.pages import metrics_pages
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import CatalogError, OptionError
from specroof.latency import Setup
from specroof.policies.change import Change, best_change
from specroof.questions.answer import Answer
from specroof.questions.predict import limited_by
from specroof.questions.prediction import Prediction, predicted
from specroof.questions.request import (
    DrafterLike,
    Served,
    drafter_of,
    hardware_of,
    listed,
    question,
)
from specroof.reading.metrics_text import parse_metrics
from specroof.serving.launch import Launch, Speculation, launch
from specroof.serving.metrics import NO_PAGE, counted
from specroof.serving.observed import Observed, measured_acceptance, observed
from specroof.serving.requests import Load

__all__ = ["Compared", "Diagnosis", "DoctorRequest", "Observed", "doctor"]

#: Loads at which a schedule may change its draft length, besides the one that there is.
LOADS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
#: A smaller gain is not worth a restart.
LEAST_GAIN: Final = 0.01
#: Cached tokens of a request where neither the user nor the server says.
USUAL_CONTEXT_LEN: Final = 4096.0


_PREFILLS: Final = "measured rounds hold the prefills that delayed them; predicted rounds hold none"


@dataclass(frozen=True)
class DoctorRequest(Served):
    r"""Ask how a running server fares.

    Parameters
    ----------
    pages
        The address of a server, whose metrics are read twice; or one or two saved pages, the older
        first.
    drafter
        What drafts: a SPEC, or a `Drafter`. Its acceptance, where it has one, is what is compared;
        what is predicted goes by the acceptance that the server counted. None measures alone.
    wait_s
        Seconds between the two reads: 10 of a server if None, one read if 0. Of two saved pages
        those that lay between them, unknown if None.
    served_name
        The name under which the server has the model, where it serves several.
    context_len
        Cached tokens of each request; if None those of the requests that ended, else 4096.
    draft_model
        A Hub name or folder with the drafter's weights, for the flags.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from specroof import doctor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Path(folder) / "metrics.txt"
    ...     _ = page.write_text("vllm:num_requests_running 8.0\n")
    ...     found = doctor("Qwen/Qwen3-8B", "h100", pages=page)
    >>> found.observed.running, found.observed.speculates
    (8.0, False)
    """

    _: KW_ONLY
    pages: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    drafter: DrafterLike | None = None
    wait_s: float | None = None
    served_name: str | None = None
    context_len: float | None = None
    draft_model: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity, measured and predicted.

    Parameters
    ----------
    quantity, unit
        What, and in which unit.
    measured, predicted
        None where there is none.
    """

    quantity: str
    unit: str
    measured: float | None
    predicted: float | None

    @property
    def off(self) -> float | None:
        """Measured by predicted, less 1; None without either."""
        if self.measured is None or not self.predicted:
            return None
        return self.measured / self.predicted - 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {
            "quantity": self.quantity,
            "unit": self.unit,
            "measured": self.measured,
            "predicted": self.predicted,
            "off": self.off,
        }


@dataclass(frozen=True, repr=False, eq=False)
class Diagnosis(Answer):
    """How a server fares, and what to change.

    Attributes
    ----------
    model, setup, context_len
        What was asked about.
    observed
        What the server counted.
    compared
        Measured beside predicted.
    prediction
        What was predicted at that load with that acceptance; None without a drafter.
    change
        What another draft length would gain; None likewise.
    advice
        The same in words, a sentence each.
    flags
        What makes the server do so; None where nothing drafts, or no flag is known.
    notes, warnings
        Sentences for the reader.
    """

    model: Architecture
    setup: Setup
    context_len: float
    observed: Observed
    compared: tuple[Compared, ...]
    prediction: Prediction | None
    change: Change | None
    advice: tuple[str, ...]
    flags: Launch | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        devices = self.setup.placement.devices
        return (
            f"{self.model.name} on {devices} x {self.setup.hardware.name}, engine "
            f"{self.setup.engine.name}, served by {self.observed.framework}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        seen = self.observed
        fields = {name: getattr(seen, name) for name in _OBSERVED}
        change, flags = self.change, self.flags
        return {
            "model": self.model.name,
            "hardware": self.setup.hardware.name,
            "engine": self.setup.engine.name,
            "context_len": self.context_len,
            "observed": {**fields, "survival": list(seen.survival)},
            "compared": [one.to_dict() for one in self.compared],
            "change": None
            if change is None
            else {
                "running": change.running,
                "now": change.now,
                "best": change.best,
                "gain": _number(change.gain),
                "gain_low": _number(change.low),
                "gain_high": _number(change.high),
            },
            "schedule": None if change is None else [list(one) for one in change.schedule.ranges],
            "advice": list(self.advice),
            "engine_config": None if flags is None else {flags.framework: flags.text},
            "files": {} if flags is None else dict(flags.files),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }


_OBSERVED: Final = (
    *("framework", "ranks", "seconds", "running", "running_from", "waiting", "tokens_per_s"),
    *("speculates", "draft_len", "longest", "rounds", "tokens_per_round", "length_from"),
    *("round_s", "round_from", "input_len", "output_len"),
)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


@question(DoctorRequest)
def doctor(request: DoctorRequest) -> Diagnosis:
    """Read a server's metrics, compare them with a prediction, and say what to change."""
    drafter = None if request.drafter is None else drafter_of(request.drafter)
    seen, read = _observed(request)
    model, setup = _resolved(request, seen.framework)
    context = _context(request.context_len, seen)
    replicas = seen.ranks if setup.placement.attention_data_parallel == 1 else 1
    found = None if drafter is None else _predicted(model, setup, drafter, seen, context, replicas)
    change = None if found is None else _change(found, seen, replicas)
    flags, unknown = _flags(change, drafter, seen, request, setup)
    of_prediction = () if found is None else (_PREFILLS, *found.warnings, *found.notes)
    replicated = [f"{replicas} replicas: the load of one is predicted"] if replicas > 1 else []
    return Diagnosis(
        model=model,
        setup=setup,
        context_len=context,
        observed=seen,
        compared=tuple(_compared(seen, drafter, found, context, replicas)),
        prediction=found,
        change=change,
        advice=tuple(_advice(seen, drafter, change)),
        flags=flags,
        notes=tuple(dict.fromkeys([*read, *seen.notes, *replicated, *of_prediction, *unknown])),
        warnings=(),
    )


def _observed(request: DoctorRequest) -> tuple[Observed, list[str]]:
    """Return what the server counted, and how it was read."""
    pages = metrics_pages(listed(request.pages), wait_s=request.wait_s)
    for source, text in zip(pages.sources, pages.texts, strict=True):
        if text is None:
            message = f"{source}: there is no such page; {NO_PAGE}"
            raise CatalogError(message)
    samples = [
        parse_metrics(str(text), source=source)
        for source, text in zip(pages.sources, pages.texts, strict=True)
    ]
    found = counted(samples, sources=pages.sources, model=request.served_name)
    read = f"names of metrics are those of {found.server.release}"
    if len(samples) == 2:
        return observed(found, pages.seconds), [read]
    once = "one page: counters are since the server began, running requests as of now"
    return observed(found, pages.seconds), [once, read]


def _resolved(request: DoctorRequest, framework: str) -> tuple[Architecture, Setup]:
    """Return the model and its setup, on the engine that the server is where that was fitted."""
    profile = hardware_of(request.hardware)
    engine = request.engine or (framework if framework in profile.engines else None)
    return Served.resolved(replace(request, hardware=profile, engine=engine))


def _context(asked: float | None, seen: Observed) -> float:
    if asked is not None:
        return number_within("context_len", asked, "context_len")
    if seen.input_len is None or seen.output_len is None:
        return USUAL_CONTEXT_LEN
    return seen.input_len + seen.output_len / 2


def _drafts_now(seen: Observed) -> int:
    """Return how many drafts a round has: the mean, rounded."""
    if not seen.speculates:
        return 0
    return round(seen.longest or 0 if seen.draft_len is None else seen.draft_len)


def _running(seen: Observed, replicas: int) -> float:
    """Return the requests that one replica decodes at a time: one at least."""
    return max((seen.running or 0.0) / replicas, 1.0)


def _kind(drafter: Drafter) -> str:
    return drafter.name.partition(",")[0]


def _is_tree(drafter: Drafter) -> bool:
    """Tell whether a drafter has more positions verified than a chain of its depth."""
    depths = np.array([1, 2, 3])
    proposed = drafter.propose(constant_acceptance(0.5), depths)
    return bool((np.asarray(proposed.verify_len) > depths + 1).any())


def _with_measured(drafter: Drafter, seen: Observed) -> Drafter:
    """Return a drafter with the acceptance that was counted; its own where none was."""
    measured = measured_acceptance(seen, _kind(drafter))
    if measured is None or drafter.is_ideal or _is_tree(drafter):
        return drafter
    return replace(drafter, acceptance=measured)


def _predicted(
    model: Architecture,
    setup: Setup,
    drafter: Drafter,
    seen: Observed,
    context: float,
    replicas: int,
) -> Prediction | None:
    """Return what is predicted at this load and at others; None without any acceptance."""
    with_it = _with_measured(drafter, seen)
    if with_it.acceptance is None and not with_it.is_ideal:
        return None
    running = _running(seen, replicas)
    loads = sorted({*map(float, LOADS), float(round(running)), running})
    return predicted(
        model,
        setup,
        [with_it],
        Load(loads, [context]),
        limited=limited_by(setup, None, queues=False),
    )


def _change(found: Prediction, seen: Observed, replicas: int) -> Change | None:
    """Return what another draft length would gain; None where the load does not fit."""
    (curve,) = found.curves
    running = round(_running(seen, replicas))
    rates = curve.tokens_per_s[0]
    rows = [
        row
        for row, load in enumerate(curve.batch_size)
        if load.is_integer() and np.isfinite(rates[row]).any()
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
        now=_drafts_now(seen),
        speedup=curve.speedup[0, row],
        ends=None if low is None or high is None else (low[0, row], high[0, row]),
    )


def _compared(
    seen: Observed,
    drafter: Drafter | None,
    found: Prediction | None,
    context: float,
    replicas: int,
) -> Iterator[Compared]:
    """Yield what was measured beside what was predicted for the draft length that runs."""
    now = _drafts_now(seen)
    length = round_s = rate = None
    if drafter is not None and drafter.acceptance is not None and now:
        length = _promised(drafter, drafter.acceptance, now, context)
    if found is not None and seen.running:
        (curve,) = found.curves
        row = list(curve.batch_size).index(_running(seen, replicas))
        if now < len(curve.draft_len):
            round_s = _finite(curve.round_s[0, row, now])
            rate = _finite(curve.tokens_per_s[0, row, now])
    measured = None if seen.tokens_per_s is None else seen.tokens_per_s / replicas
    if seen.speculates:
        yield Compared("tokens per round", "", seen.tokens_per_round, length)
    name = "round" if seen.speculates else "step"
    yield Compared(name, "s", seen.round_s, round_s)
    yield Compared("tokens per second", "tok/s", measured, rate)


def _promised(
    drafter: Drafter, tokens: TokensPerRound | ContextAcceptance, drafts: int, context: float
) -> float | None:
    """Return the tokens per round that a SPEC says, None past its depth."""
    at = tokens.at_context(context) if isinstance(tokens, ContextAcceptance) else tokens
    return _finite(drafter.propose(at, np.array([drafts])).tokens_per_round[0])


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _advice(seen: Observed, drafter: Drafter | None, change: Change | None) -> Iterator[str]:
    """Yield what to do, a sentence each."""
    now = _drafts_now(seen)
    state = f"K={now} now" if now else "speculation is off now"
    if drafter is None:
        yield f"{state}; name the drafter (--drafter) to see what another draft length would gain"
    elif change is None:
        yield f"{state}; no prediction: no acceptance was counted or given, or no room for this load"
    else:
        yield "; ".join([state, _gain_words(change), *_beyond_words(change)])


def _gain_words(change: Change) -> str:
    at = f"at {change.running} running requests"
    if change.best == change.now:
        return f"{at} that is best"
    if math.isnan(change.gain):
        return f"{at} {_drafts_words(change.best)} is best (no figure for what runs)"
    if change.gain < LEAST_GAIN:
        return f"{at} that is within {LEAST_GAIN:.0%} of the best"
    band = (
        "" if change.low == change.high else f" ({change.low * 100:+.0f}…{change.high * 100:+.0f})"
    )
    gives, doubt = (
        ("may give", ", unclear: measure it first") if change.is_unclear else ("gives", "")
    )
    return f"{at} {_drafts_words(change.best)} {gives} {change.gain * 100:+.0f} %{band}{doubt}"


def _drafts_words(drafts: int) -> str:
    return f"K={drafts}" if drafts else "no draft"


def _beyond_words(change: Change) -> Iterator[str]:
    """Yield what to do at larger loads, where it differs."""
    for first, _, drafts in change.schedule.ranges:
        if first > change.running:
            yield f"above {first - 1} {_drafts_words(drafts) if drafts else 'turn it off'}"


def _flags(
    change: Change | None,
    drafter: Drafter | None,
    seen: Observed,
    request: DoctorRequest,
    setup: Setup,
) -> tuple[Launch | None, list[str]]:
    """Return the flags of the schedule, and why there are none where no flag is known."""
    if change is None or drafter is None or _is_tree(drafter):
        return None, []
    if not any(drafts for _, _, drafts in change.schedule.ranges):
        return None, ["drafting pays at no load: start the server without its speculative flags"]
    try:
        plan = Speculation(
            kind=_kind(drafter),
            schedule=change.schedule.ranges,
            draft_model=request.draft_model,
            data_parallel=setup.placement.attention_data_parallel,
        )
        flags = launch(plan, seen.framework)
    except OptionError as refusal:
        return None, [f"no flags: {refusal}"]
    return flags, list(flags.notes)
