"""How much faster does a drafter make decoding, at which draft length, at which load?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from specroof.architecture import Architecture
from specroof.arrays import array_within, whole_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, expect, refuse
from specroof.hardware import IDEAL_ENGINE
from specroof.latency import Setup
from specroof.parsers.model_config import DSPARK_NOTE, MTP_NOTE
from specroof.questions.lists import listed, several
from specroof.questions.loads import ServedRequests, load_of
from specroof.questions.prediction import Prediction, predicted
from specroof.questions.request import (
    DrafterLike,
    HardwareLike,
    Values,
    drafters_of,
    hardware_of,
    question,
)
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN, REQUEST_WEIGHT, refuse_many_points

__all__ = ["DEFAULT_MAX_DRAFT_LEN"]


@dataclass(frozen=True, kw_only=True)
class PredictRequest(ServedRequests):
    """Ask what speculative decoding gains.

    Parameters
    ----------
    drafters
        One or several: SPECs, or `Drafter` objects.
    batch_size, concurrency
        Sequences in flight, a number or a list; 1 if neither is given. One of the two.
    context_len
        Cached tokens of each sequence, a number or a list; 4096 if None.
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
    max_draft_len: int | None = None
    draft_len: int | Sequence[int] | None = None
    capacity: bool | None = None


@question(PredictRequest)
def predict(request: PredictRequest) -> Prediction:
    """Predict the speedup of speculative decoding and the best draft length."""
    load = load_of(request, _in_flight(request), request.context_len)
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


def predict_each(hardware: Sequence[HardwareLike], **request: Any) -> list[Prediction]:
    """Return a prediction for each of some chips, which are held together.

    Parameters
    ----------
    hardware
        Chips, each once.
    request
        The rest of a `PredictRequest`.

    Raises
    ------
    OptionError
        For a chip that is named twice, more points than memory holds over all of them, and as
        `predict` does.
    """
    found = list[Prediction]()
    for chip in several("hardware", hardware, hardware_of):
        found.append(predict(hardware=chip, **request))
        if len(found) == 1:
            refuse_many_points(
                found[0].curves[0].round_s.shape,
                curves=len(found[0].curves) * len(hardware),
                weight=REQUEST_WEIGHT if found[0].counted else 1,
            )
    return found


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


def _in_flight(request: PredictRequest) -> Values:
    """Return the sequences in flight, 1 where none are named.

    Raises
    ------
    OptionError
        For both spellings.
    """
    if request.batch_size is not None and request.concurrency is not None:
        message = "batch_size and concurrency are both given; allowed: one of them"
        raise OptionError(message)
    if request.concurrency is None:
        return 1.0 if request.batch_size is None else request.batch_size
    array_within("concurrency", request.concurrency, "batch_size")  # below it is a batch
    return request.concurrency
