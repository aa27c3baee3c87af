"""What a model takes up: weights, caches that grow, states that do not."""

from dataclasses import replace

import pytest
from hypothesis import given

from specroof.architecture.attention import GroupedQueryAttention, Indexer
from specroof.architecture.base import (
    HEADS,
    TENSOR,
    Core,
    Linear,
    cache_element_bytes,
    cache_only,
)
from specroof.architecture.compressed import CompressedAttention, Compressor
from specroof.architecture.experts import Experts
from specroof.architecture.latent import LatentAttention, latent_bytes
from specroof.architecture.model import Architecture, Block, Layer
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.cost import (
    CHOICES,
    Options,
    Storage,
    kv_bytes_per_token,
    state_bytes,
    storage,
    window_bytes,
)
from specroof.cost.forward import kv_cache_bytes
from specroof.units import DTYPE_BYTES
from strategies import architectures, contexts, options


def stack(*cores: tuple[Core, int], kv_dtype: str = "bf16") -> Architecture:
    """Return a model of layers with nothing but a core each, and how many of them."""
    layers = tuple(Layer((Block("attention", (), core),), count) for core, count in cores)
    return Architecture(
        "stack", "llama", 8, 10, layers, Linear("lm_head", 8, 10, kind="head"), kv_dtype=kv_dtype
    )


FULL = GroupedQueryAttention(32, 8, 128, 128)
WINDOW = GroupedQueryAttention(64, 8, 64, 64, window=128)
LATENT = LatentAttention(128, 512, 64)
CSA = CompressedAttention(
    128, 512, 64, 128, ratio=4, indexer=Indexer(64, 128, 1024), compressors=(Compressor(8, 1024),)
)
DELTA = GatedDeltaNet(16, 32, 128, 128, conv_kernel=4, conv_columns=3)


@pytest.mark.parametrize("dtype", CHOICES["kv_dtype"])
def test_caches_of_a_scale_per_block(dtype: str) -> None:
    # Bits of ggml's blocks of 32 elements: a scale of 16, a minimum of 16 more in the odd ones.
    blocks = {"q8_0": 8.5, "q5_1": 6, "q5_0": 5.5, "q4_1": 5}
    blocks |= dict.fromkeys(("q4_0", "iq4_nl", "fp4"), 4.5)
    bits = blocks.get(dtype) or 8 * DTYPE_BYTES[dtype]
    assert cache_element_bytes(dtype) == bits / 8


def test_latents_of_both_published_layouts_by_hand() -> None:
    sparse = replace(LATENT, indexer=Indexer(64, 128, 2048))
    assert latent_bytes(LATENT, "bf16") == latent_bytes(sparse, "bf16") == 2 * (512 + 64)
    assert latent_bytes(LATENT, "fp8") == 512 + 64
    # Beside an indexer: four float32 scales over 512 elements, the rotary part in bf16.
    assert latent_bytes(sparse, "fp8") == 512 + 4 * 4 + 2 * 64
    # A latent that is no multiple of 128 takes a scale for the rest: 130 + 2 * 4 + 2 * 64.
    assert latent_bytes(replace(sparse, latent_dim=130), "fp8") == 130 + 8 + 128


@pytest.mark.parametrize(
    ("model", "per_token", "at_4096"),
    [
        # Llama-3.1-8B: 32 layers of 8 heads * 256 elements * 2 bytes.
        (stack((FULL, 32)), 131_072, 4096 * 131_072),
        # Windows of 128 are full long before: 12 layers of 8 * 128 * 2 bytes.
        (stack((WINDOW, 12)), 0, 12 * 128 * 2048),
        (stack((LATENT, 61)), 61 * 1152, 4096 * 61 * 1152),
        # An entry of 1024 and its key of 256 bytes serve four tokens; 128 raw entries beside.
        (stack((CSA, 2)), 2 * 320, 2 * (128 * 1024 + 1024 * 1280)),
        # Recurrent states and experts cache nothing.
        (stack((DELTA, 3), (Experts(4, 2, 8, 8), 1)), 0, 0),
        (stack((FULL, 1), (WINDOW, 1)), 4096, 4096 * 4096 + 128 * 2048),
    ],
)
def test_caches_by_hand(model: Architecture, per_token: float, at_4096: float) -> None:
    assert kv_bytes_per_token(model) == per_token
    assert kv_cache_bytes(model, 4096) == at_4096
    assert kv_cache_bytes(model, [0, 4096]).tolist() == [0, at_4096]
    assert window_bytes(model) == at_4096 - 4096 * per_token


def test_a_cache_dtype_overrides_the_config() -> None:
    model = stack((FULL, 32))
    narrow = replace(model, kv_dtype="fp8")
    assert kv_cache_bytes(narrow, 100) == kv_cache_bytes(model, 100, "fp8") == 100 * 65_536
    assert kv_bytes_per_token(narrow) == kv_bytes_per_token(model, "fp8") == 65_536
    assert kv_cache_bytes(narrow, 100, "bf16") == kv_cache_bytes(model, 100)


@given(architectures(), contexts, options)
def test_the_parts_add_up_to_weights_cache_and_state(
    model: Architecture, context: int, choices: Options
) -> None:
    parts = storage(model, context, choices)
    cached = kv_cache_bytes(model, context, choices.kv_dtype, choices.index_dtype)
    sequence = cached + state_bytes(model, choices.state_dtype)
    assert sum(float(part.sequence_bytes) for part in parts) == pytest.approx(float(sequence))


@given(architectures())
def test_the_parts_hold_every_weight_but_norms(model: Architecture) -> None:
    norms = model.vector_params + sum(
        layer.count * block.vector_params for layer in model.layers for block in layer.blocks
    )
    stored = sum(part.weight_bytes for part in storage(model, 0))
    assert stored == pytest.approx(model.weight_bytes - 2 * norms)


def shards(model: Architecture) -> list[tuple[float, float, object]]:
    parts: list[Storage] = storage(model, 1)
    return [(part.weight_bytes, float(part.sequence_bytes), part.shard) for part in parts]


def test_parts_divide_like_their_operations() -> None:
    # The embedding of 10 * 8 and the head, as large, in bf16: over all devices.
    vocabulary = (320.0, 0.0, TENSOR)
    nothing = (0.0, 0.0, HEADS)
    assert shards(stack((FULL, 2))) == [nothing, vocabulary, (0, 8192, cache_only(8))]
    assert shards(stack((LATENT, 1))) == [nothing, vocabulary, (0, 1152, cache_only(1))]
    # 32 KiB of ring and one raw entry: every device of a group holds all of it.
    assert shards(stack((CSA, 1))) == [nothing, vocabulary, (0, 1024 + 32_768, cache_only(1))]
    # Linear attention divides by heads, its filters of 8192 * 4 in bf16 as well as its state.
    assert shards(stack((DELTA, 1))) == [(65_536, 0, HEADS), vocabulary, (0, 2_146_304, HEADS)]
    experts = Layer((Block("feed_forward", (), Experts(4, 2, 8, 8)),))
    moe = replace(stack(), layers=(experts,))
    assert shards(moe) == [(4 * 3 * 64 * 2, 0, TENSOR), vocabulary]
    # A tied head is the embedding.
    assert shards(replace(stack(), tied_embeddings=True)) == [(160.0, 0.0, TENSOR)]
