"""What a server is told of a drafter."""

from collections.abc import Sequence
from typing import Any, Final

from specroof.architecture.model import Architecture
from specroof.drafters import Drafter
from specroof.latency.setup import Deployment
from specroof.parsers.model_config import DSPARK_NOTE, MTP_NOTE
from specroof.questions.objects import is_tree
from specroof.serving.launch import Speculation, follows_load

#: What a config that names a drafter's layers is noted with, by the drafter's kind.
_HELD: Final = {"mtp": MTP_NOTE, "dspark": DSPARK_NOTE}


def speculation_of(
    drafter: Drafter,
    model: Architecture,
    schedule: Sequence[tuple[int, int, int]],
    draft_model: str | None,
    **more: Any,
) -> Speculation:
    """Return what a server of a model is to do with a drafter.

    Parameters
    ----------
    drafter, model
        What drafts, and the model that is served.
    schedule, draft_model, more
        Fields of `Speculation`.
    """
    own, head = drafter.own_model, drafter.held(model).head
    drafted = model.vocab_size if head is None else head.vocab_size or model.vocab_size
    sampled = getattr(drafter.acceptance, "curves", (drafter.acceptance,))[0]
    rule = getattr(sampled, "rule", None) or ""
    # At temperature 0 one token has all probability, and every other rule keeps it alone.
    is_free = rule != "lossy" and getattr(sampled, "temperature", None) == 0
    return Speculation(
        kind=drafter.kind,
        schedule=tuple(schedule),
        draft_model=draft_model,
        family=model.family,
        quantization=model.quantization,
        kernels=model.kernels,
        activation_dtype=model.activation_dtype,
        in_checkpoint=_HELD.get(drafter.kind) in model.notes,
        modules=model.mtp_modules,
        block=drafter.max_draft_len,
        is_tree=is_tree(drafter),
        is_dense=_is_dense(model),
        is_recurrent=is_recurrent(model),
        draft_family=own.family if own else "",
        draft_has_mtp=own is not None and MTP_NOTE in own.notes,
        vocab_sizes=(own.vocab_size, model.vocab_size) if own else None,
        has_whole_vocabulary=drafted >= model.vocab_size,
        rule="" if is_free else rule,
        **more,
    )


def can_follow_load(deployment: Deployment, drafter: Drafter, server: str) -> bool:
    """Tell whether a server, or a release, can change a drafter's length with the load.

    Source
        `specroof.serving.launch.follows_load`.
    """
    placement, model = deployment.setup.placement, deployment.model
    return follows_load(
        drafter.kind,
        server,
        family=model.family,
        is_tree=is_tree(drafter),
        data_parallel=placement.attention_data_parallel,
        pipeline_parallel=placement.pipeline_parallel,
        is_dense=_is_dense(model),
    )


def _is_dense(model: Architecture) -> bool:
    return not (model.has_experts or is_recurrent(model))


def is_recurrent(model: Architecture) -> bool:
    """Tell whether layers of a model keep a state."""
    return any(core.cache_kind == "state" for _, core in model.counted_cores)
