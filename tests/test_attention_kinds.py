"""A kind of attention is its own file and one row: everything else reads its traits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from specroof import OptionError, Placement, architecture, load_hardware, load_model
from specroof.architecture import (
    Architecture,
    Block,
    Core,
    Layer,
    Linear,
    RecurrentCore,
    cache_only,
)
from specroof.architecture.attention import attention_op
from specroof.architecture.base import OpCost, PassSettings, SoftmaxAttention
from specroof.cost import ForwardPass, forward_cost
from specroof.cost.forward import CORES, CoreFormulas, kv_cache_bytes
from specroof.drafters.heads import head_drafter
from specroof.hardware.engine import LAYER_KINDS
from specroof.latency import check_placement, engine_setup
from specroof.latency.model import layer_kinds
from specroof.serving.room import target_footprint


def kinds(base: type[Core]) -> Iterator[type[Core]]:
    """Yield every kind below a base that the library has."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith(architecture.__name__):
            yield kind
            yield from kinds(kind)


@dataclass(frozen=True, slots=True)
class SinkAttention(SoftmaxAttention):
    """Attention to the first tokens and to a window: the stand-in for a new kind."""

    n_heads: int
    window: int
    n_sinks: int

    @property
    def label(self) -> str:
        return "sink_attention"

    @property
    def window_len(self) -> int:
        """Tokens at which its cache stops growing."""
        return self.window + self.n_sinks

    @property
    def overhead_kinds(self) -> tuple[str, ...]:
        """The kinds of layer that it makes of its layer."""
        return ("sparse_index",)


def sink_costs(core: SinkAttention, setting: PassSettings) -> list[OpCost]:
    one, shard = np.ones(()), cache_only(1)
    attended = attention_op(
        setting,
        flops=7 * one,
        read_bytes=one,
        new_bytes=one,
        shard=shard,
        n_heads=core.n_heads,
        head_dims=(1, 1),
    )
    return [attended]


def sink_bytes(core: SinkAttention, context: Any, _dtype: str) -> Any:
    return 10.0 * np.minimum(context, core.window_len)


TOY = Architecture(
    *("toy", "llama", 8, 9),
    (
        Layer(
            (
                Block("attention", (), SinkAttention(n_heads=6, window=16, n_sinks=4)),
                Block("feed_forward", (Linear("up", 8, 8),)),
            ),
            count=3,
        ),
    ),
    head=Linear("lm_head", 8, 9, kind="head"),
)


def test_every_kind_has_a_row() -> None:
    # by name: a dataclass with slots leaves its first version behind
    bases = {SoftmaxAttention.__name__, RecurrentCore.__name__}
    assert {kind.__name__ for kind in kinds(Core)} - bases == {kind.__name__ for kind in CORES}


def test_kinds_of_layers_are_those_of_hardware_files() -> None:
    names = ("deepseek-ai/DeepSeek-V3.2", "Qwen/Qwen3.5-35B-A3B", "nvidia/DeepSeek-V3.1-NVFP4")
    setup = engine_setup(load_hardware("b200"), "ideal", None, None)
    named = {kind for name in names for kind in layer_kinds(load_model(name), setup)}
    assert named == {*LAYER_KINDS}


def test_a_new_kind_needs_its_file_and_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = CoreFormulas(sink_costs, lambda _core: cache_only(1), sink_bytes)
    monkeypatch.setitem(CORES, SinkAttention, row)
    ops = forward_cost(TOY, ForwardPass(1, 1, 0))
    assert ops[0].name.startswith("sink_attention")
    assert kv_cache_bytes(TOY, [5.0, 100.0]).tolist() == [3 * 50, 3 * 200]
    setup = engine_setup(load_hardware("b200"), "ideal", None, None)
    assert layer_kinds(TOY, setup) == {"sparse_index": 3}
    check_placement(TOY, Placement(tensor_parallel=3))
    with pytest.raises(OptionError, match=r"^tensor_parallel is 4 .*allowed: groups of 1, 2, 3, 6"):
        check_placement(TOY, Placement(tensor_parallel=4))
    kept = target_footprint(TOY, Placement())
    assert (kept.windows, kept.token_bytes) == ({20: (3, 30)}, 0)
    assert "1 sink_attention" in head_drafter("mtp").describe(TOY)


def test_a_core_that_nothing_is_said_of_has_no_traits() -> None:
    bare = Core()
    assert (bare.caches_tokens, bare.split_heads, bare.window_len) == (False, 0, 0)
    assert bare.overhead_kinds == ()
