"""Drafters as others published their sizes, and rounds to ask drafters about."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from published_models import matrix
from specroof.architecture.base import TENSOR, Linear
from specroof.architecture.draft_heads import DraftHead, DraftShape, draft_layer, draft_model
from specroof.architecture.experts import Experts
from specroof.architecture.model import Architecture, Block, Layer
from specroof.cost import ForwardPass, Options
from specroof.drafters import PassTime, Round
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import Setup
from specroof.speedup.curve import drafter_pass_s, engine_pass_s

#: Qwen3.6-35B-A3B's LM head, counted under every option: width and vocabulary.
PUBLISHED_HEAD: Final = Linear("lm_head", 2048, 248_320, shard=TENSOR, kind="dense")


#: A small layer of a drafter, and of the targets beside it.
SHAPE: Final = DraftShape(64, n_heads=4, n_kv_heads=2, head_dim=16, width=128)


def target_of(layers: int = 4, vocab_size: int = 1000, **sizes: Any) -> Architecture:
    """Return a small target of so many layers, of which some sizes are others."""
    shape = replace(SHAPE, **sizes)
    stack = [Layer(draft_layer(shape).blocks, layers)]
    model = draft_model("target", "llama", shape.hidden_size, stack, head_rows=vocab_size)
    return replace(model, vocab_size=vocab_size)


def published_mtp() -> DraftHead:
    """Return the MTP head of Qwen3.6-35B-A3B by its published sizes, without a cache.

    LM head 508 559 360, attention 18 874 368, fusion 8 388 608 parameters, 256 experts of
    3 145 728, 8 of them and a shared one per token. Source: Finn 2026, "Adaptive speculative
    decoding".
    """
    dense = Block("feed_forward", (matrix("attention and fusion", 18_874_368 + 8_388_608),))
    experts = Block("feed_forward", (), Experts(256, 8, 2048, 512, n_shared=1))
    model = draft_model("MTP, published", "mtp", 2048, (Layer((dense, experts)),))
    return DraftHead("mtp", replace(model, head=PUBLISHED_HEAD), rereads=False)


def published_dflash() -> DraftHead:
    """Return z-lab's DFlash of Qwen3.6-35B-A3B by its published sizes, without a cache.

    473 956 352 parameters and the head's 508 559 360 over all 16 positions of a block. Source:
    Finn 2026, "Adaptive speculative decoding".
    """
    layers = Layer((Block("feed_forward", (matrix("layers", 473_956_352),)),))
    model = draft_model("DFlash, published", "dflash", 2048, (layers,))
    counted = replace(model, head=PUBLISHED_HEAD)
    return DraftHead("dflash", counted, block=16, anchor_drafts=True)


def pass_seconds_on(hardware: HardwareProfile, options: Options, devices: int = 1) -> PassTime:
    """Return what times passes in an ideal engine."""
    setup = Setup(hardware, hardware.engine("ideal"), Placement(devices), options)
    return partial(drafter_pass_s, setup, engine_pass_s)


def a_round(
    target: Architecture,
    pass_s: PassTime,
    *,
    draft_len: Any = 1,
    batch_size: Any = 1,
    context_len: Any = 0,
    tokens_per_round: Any = 1,
    verify_s: float = 1.0,
    **more: Any,
) -> Round:
    """Return a round on a target."""
    return Round(
        draft_len=np.asarray(draft_len, dtype=np.float64),
        batch_size=np.asarray(batch_size, dtype=np.float64),
        context_len=np.asarray(context_len, dtype=np.float64),
        tokens_per_round=np.asarray(tokens_per_round, dtype=np.float64),
        decode_s=np.asarray(verify_s),
        verify_s=np.asarray(verify_s),
        cost_of="decode",
        pass_s=pass_s,
        target=target,
        **more,
    )


class Ledger:
    """A time of passes that writes down what it is asked for, and answers one second each time."""

    def __init__(self) -> None:
        self.passes: list[tuple[Architecture, ForwardPass, tuple[Any, ...]]] = []

    def __call__(self, architecture: Architecture, forward: ForwardPass, /, *beside: Any) -> Any:
        self.passes.append((architecture, forward, beside))
        shapes = (forward.batch_size.shape, forward.query_len.shape, forward.context_len.shape)
        return np.ones(np.broadcast_shapes(*shapes))
