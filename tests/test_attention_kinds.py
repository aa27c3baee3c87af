"""A kind of attention is its own file: everything else asks it, and nothing falls back for it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_equal

import specroof
from specroof import OptionError, Placement, architecture, load_hardware, load_model
from specroof.architecture.attention import (
    GroupedQueryAttention,
    HeadsAttention,
    cached_tokens_read,
    counted_pairs,
    heads_op,
    kv_token_bytes,
)
from specroof.architecture.base import (
    KERNELS,
    CacheDtypes,
    Core,
    Kept,
    OpCost,
    PassSettings,
    cache_only,
)
from specroof.architecture.draft_heads import usual_eagle3
from specroof.architecture.model import Architecture, Layer
from specroof.arrays import Array
from specroof.catalog import hardware_names
from specroof.cost import ForwardPass, forward_cost
from specroof.cost.forward import kv_cache_bytes
from specroof.drafters.heads import head_drafter
from specroof.frameworks import SERVERS, known_releases, release
from specroof.hardware.engine import LAYER_KINDS
from specroof.latency.model import layer_kinds
from specroof.latency.setup import attention_reading, check_placement, engine_setup
from specroof.serving.room import target_footprint


def kinds(base: Any) -> Iterator[type[Core]]:
    """Yield every kind below a base that the library has."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith(architecture.__name__):
            yield kind
            yield from kinds(kind)


@dataclass(frozen=True, slots=True)
class RingAttention(HeadsAttention):
    """Attention to a ring of slots, which new tokens overwrite: the stand-in for a new kind."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    slots: int
    kernel: str = "heads"
    overhead_kinds: tuple[str, ...] = ()

    label = "ring_attention"
    causal = True

    @property
    def window_len(self) -> int:
        return self.slots

    def costs(self, setting: PassSettings) -> list[OpCost]:
        seen = (setting, self.slots)
        pairs, read = counted_pairs(*seen), cached_tokens_read(*seen)
        return [heads_op(self, setting, pairs=pairs, read=read)]

    def kept(self, context_len: Array, dtypes: CacheDtypes) -> Kept:
        held = np.minimum(context_len, self.slots)
        return Kept(cache_only(self.n_kv_heads), held * kv_token_bytes(self, dtypes.kv_dtype))


RING = RingAttention(6, 3, 8, 8, slots=20, overhead_kinds=("sparse_index",))
QWEN = load_model("Qwen/Qwen3-8B")


def with_cores(*cores: Core) -> Architecture:
    """Return Qwen3-8B with each of these cores in as many layers."""
    (layer,) = QWEN.layers
    attention, *others = layer.blocks
    layers = [Layer((replace(attention, core=core), *others), 36 // len(cores)) for core in cores]
    return replace(QWEN, layers=tuple(layers))


def test_kernels_are_those_that_cores_and_rules_name() -> None:
    releases = [release(name) for name in SERVERS if known_releases(name)]
    of_rules = {k for one in releases for row in one.verification_kernels for k in row.kernels}
    of_models = {kernel for name in specroof.model_names() for kernel in load_model(name).kernels}
    assert of_rules <= of_models <= {*KERNELS}


def test_words_that_no_table_knows_are_refused() -> None:
    setup = engine_setup(load_hardware("h100"), "vllm", None, None)
    words = (
        r"^kernel of ring_attention is 'ring'; allowed: heads, .* specroof/architecture/base.py$"
    )
    with pytest.raises(OptionError, match=words):
        attention_reading(with_cores(replace(RING, kernel="ring")), setup)
    with pytest.raises(OptionError, match=r"^overhead kind of ring_attention is 'ring'; allowed"):
        layer_kinds(with_cores(replace(RING, overhead_kinds=("ring",))), setup)


def test_nothing_outside_of_cores_and_parsers_asks_for_a_class_of_cores() -> None:
    names = "|".join(kind.__name__ for kind in kinds(Core))
    root = Path(specroof.__file__).parent
    asked = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in {"architecture", "parsers"}
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(rf"(isinstance|type|getattr)\(.*\b({names})\b|getattr\((block\.)?core", line)
    ]
    assert asked == []


def test_kinds_of_layers_are_those_of_hardware_files() -> None:
    names = (
        *("deepseek-ai/DeepSeek-V3.2", "Qwen/Qwen3.5-35B-A3B", "nvidia/DeepSeek-V3.1-NVFP4"),
        "deepseek-ai/DeepSeek-V4-Flash",
    )
    setup = engine_setup(load_hardware("b200"), "ideal", None, None)
    named = {kind for name in names for kind in layer_kinds(load_model(name), setup)}
    assert named == {*LAYER_KINDS}


def test_feed_forward_layers_are_those_that_are_dense_or_share_an_expert() -> None:
    setup = engine_setup(load_hardware("b200"), "ideal", None, None)
    # Of DeepSeek-V3 three layers are dense, and 58 have a shared expert; Qwen3 shares none.
    counts = {"Qwen/Qwen3-8B": 36, "deepseek-ai/DeepSeek-V3": 3 + 58, "Qwen/Qwen3-30B-A3B": 0}
    for name, count in counts.items():
        assert layer_kinds(load_model(name), setup).get("feed_forward", 0) == count


def test_a_new_kind_needs_its_file_alone() -> None:
    toy = with_cores(RING)
    ops = [op.name for op in forward_cost(toy, ForwardPass(1, 1, 0))]
    assert "ring_attention.core" in ops
    assert kv_cache_bytes(toy, [5.0, 100.0]).tolist() == [36 * 5 * 96, 36 * 20 * 96]
    setup = engine_setup(load_hardware("b200"), "ideal", None, None)
    assert layer_kinds(toy, setup) == {"sparse_index": 36, "feed_forward": 36}
    check_placement(toy, Placement(tensor_parallel=3))
    for kernel, devices in (("heads", 4), ("block_sparse", 2)):  # 3 KV heads, whatever runs them
        with pytest.raises(OptionError, match=rf"is {devices} .*allowed: groups of 1, 3, 6"):
            check_placement(with_cores(replace(RING, kernel=kernel)), Placement(devices))
    kept = target_footprint(toy, Placement())
    assert (kept.windows, kept.token_bytes) == ({20: (36, 36 * 96)}, 0)
    assert "1 ring_attention" in head_drafter("mtp").describe(toy)
    drafter = usual_eagle3(with_cores(replace(RING, slots=0, kernel="block_sparse")))
    assert [core.heads for _, core in drafter.model.counted_cores] == [RING.heads]


class ThinnedAttention(GroupedQueryAttention):
    """Keeps the last 1024 tokens, and every fourth before them."""

    def kept(self, context_len: Array, dtypes: CacheDtypes) -> Kept:
        held = np.minimum(context_len, 1024) + np.maximum(context_len - 1024, 0) / 4
        return Kept(cache_only(self.n_kv_heads), held * kv_token_bytes(self, dtypes.kv_dtype))


@pytest.mark.parametrize("engine", ["ideal", "vllm", "sglang", "tensorrt-llm"])
def test_every_server_has_room_for_what_a_new_kind_keeps(engine: str) -> None:
    toy = with_cores(ThinnedAttention(32, 8, 64, 128))
    (plain, *_) = specroof.capacity(toy, "h100", engine=engine, context_len=16_384).rows
    # 36 layers * 8 heads * 192 elements * 2 bytes of 1024 + 15 360 / 4 tokens
    assert plain.cache_per_request_bytes == pytest.approx(36 * 8 * 192 * 2 * 4864, rel=1e-3)


def test_every_engine_gives_a_new_kind_what_its_geometry_says() -> None:
    heads, windows = (32, 8, 128, 128), (128, 1024, 8192)
    rings = with_cores(*(RingAttention(*heads, slots) for slots in windows))
    same = with_cores(*(GroupedQueryAttention(*heads, window) for window in windows))
    fitted = [(chip, engine) for chip in hardware_names() for engine in load_hardware(chip).engines]
    assert len(fitted) > 30
    for chip, engine in fitted:
        asked: dict[str, Any] = {
            "engine": engine,
            "batch_size": [1, 64],
            "context_len": [512, 16_384],
        }
        of_rings, of_windows = (
            specroof.predict(model, chip, drafters="autoregressive,cost=0.1,accept=0.8", **asked)
            for model in (rings, same)
        )
        assert_equal(of_rings.curves[0].speedup, of_windows.curves[0].speedup, f"{chip} {engine}")
