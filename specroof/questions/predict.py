"""How much faster does a drafter make decoding, at which draft length, at which load?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specroof.architecture import Architecture
from specroof.arrays import array_within, whole_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, expect, refuse
from specroof.hardware import IDEAL_ENGINE
from specroof.latency import Setup
from specroof.parsers.model_config import DSPARK_NOTE, MTP_NOTE
from specroof.questions.lists import listed
from specroof.questions.prediction import Prediction, predicted
from specroof.questions.request import DrafterLike, Served, Values, drafters_of, question
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import (
    DEFAULT_MAX_DRAFT_LEN,
)

__all__ = [
    "DEFAULT_MAX_DRAFT_LEN",
    "PredictRequest",
    "absent_layers",
    "lengths_of",
    "limited_by",
    "load_of",
    "predict",
]


@dataclass(frozen=True, kw_only=True)
class PredictRequest(Served):
    """Ask what speculative decoding gains.

    Parameters
    ----------
    drafters
        One or several: SPECs, or `Drafter` objects.
    batch_size, concurrency
        Sequences in flight, a number or a list; 1 if neither is given. One of the two.
    context_len
        Cached tokens of each sequence, a number or a list; 4096 if None.
    input_len, output_len
        Tokens of a prompt and of an answer. They replace `context_len`, and prefills count.
    prefix_hit_rate
        Share of a prompt's tokens that the server has cached already; 0 if None.
    waves
        Whether requests come together: all at once, and the next when all of these are answered.
    max_draft_len
        The longest draft tried; 16 if None. Of several drafters, one that drafts less is shown
        as far as it goes.
    draft_len
        Drafts per round whose speedups are shown side by side; None for none.
    capacity
        Whether the server's room limits what runs: with a concurrency or with requests the rest
        wait, and larger batches have no figures. False prices all as if memory had no end; if None,
        only the ideal engine does.

    Examples
    --------
    >>> from specroof import predict
    >>> found = predict("Qwen/Qwen3-8B", "b200", drafters="ideal", batch_size=[1, 8])
    >>> found.curves[0].speedup.shape
    (1, 2, 17)
    """

    drafters: DrafterLike | Sequence[DrafterLike]
    batch_size: Values | None = None
    concurrency: Values | None = None
    context_len: Values | None = None
    input_len: float | None = None
    output_len: float | None = None
    prefix_hit_rate: float | None = None
    waves: bool = False
    max_draft_len: int | None = None
    draft_len: int | Sequence[int] | None = None
    capacity: bool | None = None


@question(PredictRequest)
def predict(request: PredictRequest) -> Prediction:
    """Predict the speedup of speculative decoding and the best draft length."""
    load = load_of(request)
    lengths = lengths_of(request.draft_len)
    most = request.max_draft_len
    if most is None and lengths and lengths[-1] > DEFAULT_MAX_DRAFT_LEN:
        most = lengths[-1]
    model, setup = request.resolved()
    drafters = drafters_of(request.drafters)
    waits = request.concurrency is not None or load.workload is not None
    found = predicted(
        model,
        setup,
        drafters,
        load,
        max_draft_len=most,
        limited=limited_by(setup, request.capacity, queues=waits),
    )
    warnings = (*found.warnings, *absent_layers(model, drafters))
    return replace(found, draft_len=lengths, warnings=warnings)


def lengths_of(draft_len: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return draft lengths that are named, in order; none where there are none.

    Raises
    ------
    OptionError
        For anything but whole numbers of drafts from 1.

    Examples
    --------
    >>> lengths_of([3, 1, 3]), lengths_of(2), lengths_of(None)
    ((1, 3), (2,), ())
    """
    if draft_len is None:
        return ()
    lengths = sorted({whole_within("draft_len", one, "draft_len") for one in listed(draft_len)})
    if not lengths or lengths[0] == 0:
        refuse("draft_len", draft_len, "at least one number of drafts from 1")
    return tuple(lengths)


def absent_layers(model: Architecture, drafters: Sequence[Drafter]) -> list[str]:
    """Return a warning where mtp drafts for a model whose config names no such layers."""
    if {MTP_NOTE, DSPARK_NOTE} & {*model.notes}:
        return []
    return [
        f"{drafter.name}: the config of {model.name} names no multi-token-prediction layers; the "
        f"usual ones are priced, and a server has none to load"
        for drafter in drafters
        if drafter.kind == "mtp" and ",config=" not in drafter.name
    ]


def limited_by(setup: Setup, capacity: bool | None, *, queues: bool) -> bool | None:
    """Return whether requests beyond a server's room wait; None where memory has no end.

    Parameters
    ----------
    setup
        Where passes run: the ideal engine has no server around it.
    capacity
        What was asked for, as for `predict`.
    queues
        Whether requests wait, where there is an end.
    """
    expect("capacity", capacity, bool | None, "True, False, or None")
    ends = setup.engine != IDEAL_ENGINE if capacity is None else capacity
    return queues if ends else None


def load_of(request: PredictRequest) -> Load:
    """Return the load that a request asks about.

    Raises
    ------
    OptionError
        For both spellings of one thing, or half of a workload.
    """
    if request.batch_size is not None and request.concurrency is not None:
        message = "batch_size and concurrency are both given; allowed: one of them"
        raise OptionError(message)
    if request.concurrency is None:
        batches = listed(1.0 if request.batch_size is None else request.batch_size)
    else:  # checked by its own name: below it is a batch
        array_within("concurrency", request.concurrency, "batch_size")
        batches = listed(request.concurrency)
    context, prompt, answer = request.context_len, request.input_len, request.output_len
    cached = request.prefix_hit_rate
    expect("waves", request.waves, bool, "True or False")
    if prompt is None and answer is None:
        if cached is not None:
            refuse("prefix_hit_rate", cached, "with the lengths of a request")
        if request.waves:
            refuse("waves", request.waves, "with the lengths of a request")
        return Load(batches, listed(4096.0 if context is None else context))
    if context is not None:
        message = "context_len is given with input_len or output_len; allowed: one of them"
        raise OptionError(message)
    if prompt is None or answer is None:
        missing = "input_len" if prompt is None else "output_len"
        message = f"{missing} is missing; allowed: both lengths of a request (tokens in and out), or neither"
        raise OptionError(message)
    workload = Workload(prompt, answer, 0.0 if cached is None else cached, request.waves)
    return Load(batches, [workload.mean_context_len], workload)
