"""How does a running server fare, beside what was predicted, and what should it change?"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from specroof.architecture import Architecture
from specroof.arrays import fields_of, to_json_array
from specroof.catalog.pages import metrics_pages
from specroof.errors import CatalogError, OptionError, expect
from specroof.latency import Setup
from specroof.policies.decision import Change, Gain
from specroof.questions.answer import Noted, place_of, title_of
from specroof.questions.diagnosed import (
    BEYOND,
    Case,
    Compared,
    change_of,
    compared,
    context_of,
    is_tree,
    looks_up,
    prediction_of,
)
from specroof.questions.doctor_advice import advice
from specroof.questions.lists import listed
from specroof.questions.prediction import Prediction
from specroof.questions.request import (
    DrafterLike,
    Served,
    drafter_of,
    engine_name,
    hardware_of,
    question,
)
from specroof.reading.metrics_text import parse_metrics
from specroof.reading.yaml_text import shown
from specroof.serving.launch import DRAFT_MODEL, Launch, Speculation, launch
from specroof.serving.metrics import NO_PAGE, counted
from specroof.serving.observed import Observed, observed

__all__ = ["Observed"]

_PREFILLS: Final = "measured rounds hold the prefills that delayed them; predicted rounds hold none"


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(Served):
    r"""Ask how a running server fares.

    Parameters
    ----------
    pages
        The address of a server, whose metrics are read twice; or one or two saved pages, the older
        first. An address may lack ``http://``, and may be that of the API (``/v1``).
    drafter
        What drafts: a SPEC, or a `Drafter`. Its acceptance, where it has one, is what is compared;
        what is predicted goes by the acceptance that the server counted. None measures alone.
    wait_s
        Seconds between the two reads: 10 of a server if None, one read if 0. Of two saved pages
        those that lay between them, unknown if None.
    served_name
        The name under which the server has the model, where it serves several.
    context_len
        Cached tokens of each request; if None the mean of the finished requests, else 4096.
    draft_model
        A Hub name or folder with the drafter's weights, for the flags.
    header
        ``NAME: VALUE`` for a server that wants a key; a token in ``SPECROOF_TOKEN`` is sent as
        ``Authorization: Bearer``. Neither is printed, nor sent to another server.

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

    pages: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    drafter: DrafterLike | None = None
    wait_s: float | None = None
    served_name: str | None = None
    context_len: float | None = None
    draft_model: str | None = None
    header: str | Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, repr=False, eq=False)
class Diagnosis(Noted):
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

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"{title_of(self.model, self.setup)}, served by {self.observed.framework}"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        seen, change, flags = self.observed, self.change, self.flags
        return {
            **place_of(self.model, self.setup),
            "context_len": self.context_len,
            "observed": {**fields_of(seen, *_OBSERVED), "survival": list(seen.survival)},
            "compared": [one.to_dict() for one in self.compared],
            "change": None if change is None else _change_json(change),
            "schedule": None if change is None else [list(one) for one in change.schedule.ranges],
            "advice": list(self.advice),
            "engine_config": None if flags is None else {flags.framework: flags.text},
            "files": {} if flags is None else dict(flags.files),
            **self.said,
        }

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each quantity: measured, predicted, and how far that is off."""
        return [one.to_dict() for one in self.compared]


_OBSERVED: Final = (
    *("framework", "ranks", "seconds", "running", "running_from", "waiting", "tokens_per_s"),
    *(
        "speculates",
        "draft_len",
        "longest",
        "rounds",
        "drafted_frac",
        "tokens_per_round",
        "length_from",
    ),
    *("round_s", "round_from", "input_len", "output_len"),
)


def _change_json(change: Change) -> dict[str, Any]:
    longer = change.longer
    return {
        **fields_of(change, "running", "now", "best"),
        **_gain_json(change),
        "measured": change.measured,
        "is_beyond_measured": change.is_beyond,
        "longer": longer and {"draft_len": longer.draft_len, **_gain_json(longer)},
    }


def _gain_json(one: Change | Gain) -> dict[str, float | None]:
    gains = {"gain": one.gain, "gain_low": one.low, "gain_high": one.high}
    return {name: to_json_array(gain) for name, gain in gains.items()}


@question(DoctorRequest)
def doctor(request: DoctorRequest) -> Diagnosis:
    """Read a server's metrics, compare them with a prediction, and say what to change."""
    expect("served_name", request.served_name, str | None, "the name of a served model, or None")
    expect("draft_model", request.draft_model, str | None, DRAFT_MODEL)
    engine_name(request.engine)  # refuses what is no text, before pages are fetched
    drafter = None if request.drafter is None else drafter_of(request.drafter)
    seen, read = _observed(request)
    model, setup = _resolved(request, seen.framework)
    context = context_of(request.context_len, seen)
    replicas = seen.ranks if setup.placement.attention_data_parallel == 1 else 1
    case = Case(model, setup, drafter, seen, context, replicas)
    found = prediction_of(case)
    change = None if found is None else change_of(case, found)
    flags, unknown = _flags(case, change, request.draft_model)
    of_prediction = () if found is None else (_PREFILLS, *found.warnings, *found.notes)
    replicated = [f"{replicas} replicas: the load of one is predicted"] if replicas > 1 else []
    by_law = [*_model_notes(seen, model), *_law_notes(case, change)]
    return Diagnosis(
        model=model,
        setup=setup,
        context_len=context,
        observed=seen,
        compared=tuple(compared(case, found)),
        prediction=found,
        change=change,
        advice=tuple(advice(seen, drafter, change)),
        flags=flags,
        notes=tuple(
            dict.fromkeys([*read, *seen.notes, *replicated, *of_prediction, *by_law, *unknown])
        ),
    )


def _observed(request: DoctorRequest) -> tuple[Observed, list[str]]:
    """Return the server's counts, and notes on reading them."""
    pages = metrics_pages(
        listed(request.pages), wait_s=request.wait_s, headers=listed(request.header)
    )
    samples = []
    for source, text in zip(pages.sources, pages.texts, strict=True):
        if text is None:
            message = f"{source}: the page is missing; {NO_PAGE}"
            raise CatalogError(message)
        samples.append(parse_metrics(text, source=source))
    found = counted(samples, sources=pages.sources, model=request.served_name)
    read = f"metrics are named as in {found.server.release}"
    if len(samples) == 2:
        return observed(found, pages.seconds), [read]
    once = (
        "one page: counters cover the time since the server began; running requests are as of now"
    )
    return observed(found, pages.seconds), [once, read]


def _resolved(request: DoctorRequest, framework: str) -> tuple[Architecture, Setup]:
    """Return the model and its setup, on the engine that the server is where that was fitted."""
    profile = hardware_of(request.hardware)
    engine = request.engine or profile.engine_of(framework)
    return Served.resolved(replace(request, hardware=profile, engine=engine))


def _model_notes(seen: Observed, model: Architecture) -> list[str]:
    """Return a note where the server has a model of another name than the predicted one."""

    def plain(name: str) -> str:
        return name.rstrip("/").rpartition("/")[2].casefold()

    if plain(seen.model) in {"", plain(model.name)}:
        return []
    return [
        f"the server calls its model {shown(seen.model)}; predicted is {model.name}: if they differ "
        f"in size or in the format of their weights, the prediction is of another model"
    ]


def _law_notes(case: Case, change: Change | None) -> list[str]:
    """Return the note that names the extrapolation law, if a longer draft is recommended."""
    if change is None or change.measured is None:
        return []
    if case.drafter is not None and looks_up(case.drafter):
        return [
            f"beyond K={change.measured}, the longest counted, what look-ups find is unknown: no "
            f"longer draft is weighed"
        ]
    if not case.seen.survival:
        return []
    if not change.is_beyond and change.longer is None:
        return []
    return [
        f"beyond K={change.measured}, the longest counted, acceptance is extrapolated: {BEYOND}, each "
        f"further draft at the rate of the last"
    ]


def _flags(
    case: Case, change: Change | None, draft_model: str | None
) -> tuple[Launch | None, list[str]]:
    """Return the flags of the schedule, and why there are none where no flag is known."""
    if change is None or case.drafter is None or is_tree(case.drafter):
        return None, []
    if not any(drafts for _, _, drafts in change.schedule.ranges):
        return None, ["drafting pays at no load: start the server without its speculative flags"]
    try:
        plan = Speculation(
            kind=case.drafter.kind,
            schedule=change.schedule.ranges,
            draft_model=draft_model,
            data_parallel=case.setup.placement.attention_data_parallel,
        )
        flags = launch(plan, case.seen.framework)
    except OptionError as refusal:
        return None, [f"no flags: {refusal}"]
    return flags, list(flags.notes)
