"""The whole pass: what is in it and what options change; what a model stores; first layers."""

import json
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from specroof import load_model
from specroof.architecture.attention import GroupedQueryAttention, Indexer
from specroof.architecture.base import (
    FEED_FORWARD_REPLICATED,
    HEADS,
    TENSOR,
    Linear,
    cache_element_bytes,
    cache_only,
)
from specroof.architecture.compressed import CompressedAttention, Compressor
from specroof.architecture.experts import Experts
from specroof.architecture.latent import LatentAttention, latent_bytes
from specroof.architecture.model import Architecture, Block, Layer
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.catalog.files import bundled
from specroof.cost import (
    CHOICES,
    ForwardPass,
    OpCost,
    Options,
    Storage,
    forward_cost,
    kv_bytes_per_token,
    state_bytes,
    storage,
    window_bytes,
)
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import OptionError
from specroof.parsers import parse_config
from specroof.units import DTYPE_BYTES
from strategies import architectures, formats, forward_pass, kept, of_cores, passes


def model_of(name: str, *blocks: Block, count: int = 1) -> Architecture:
    head = Linear("lm_head", 8, 10, kind="head")
    return Architecture(name, "llama", 8, 10, (Layer(blocks, count),), head)


#: Two layers of a Llama: 2 query heads and 1 KV head of 4, a feed-forward of 8 to 6, vocabulary 10.
TINY = model_of(
    "tiny",
    Block(
        "attention",
        tuple(Linear(f"{name}_proj", 8, n) for name, n in (("q", 8), ("k", 4), ("v", 4), ("o", 8))),
        GroupedQueryAttention(2, 1, 4, 4),
    ),
    Block("feed_forward", (Linear("gate_up_proj", 8, 12), Linear("down_proj", 6, 8))),
    count=2,
)

#: One layer with an operation of every kind that a count may leave out or keep.
EVERY_KIND = model_of(
    "every kind",
    Block(
        "attention",
        (
            Linear("mix", 8, 8, kind="residual"),
            Linear("q_proj", 8, 8),
            Linear("compress", 8, 8, kind="compressor"),
        ),
        LatentAttention(2, 8, 4, Indexer(2, 4, 3)),
    ),
    Block("attention", (), GatedDeltaNet(1, 1, 4, 4, conv_kernel=4, conv_columns=3)),
    Block(
        "feed_forward",
        (Linear("router", 8, 4, kind="router", shard=FEED_FORWARD_REPLICATED),),
        Experts(4, 2, 8, 6),
    ),
)


def total(ops: list[OpCost], amount: str) -> float:
    return sum(op.count * float(getattr(op, amount)) for op in ops)


def test_a_pass_of_a_tiny_llama_by_hand() -> None:
    # 3 sequences verify 2 tokens at context 5: 6 tokens.
    ops = forward_cost(TINY, forward_pass(3, 2, 5))
    dense = [f"full_attention.{name}_proj" for name in "qkvo"]
    names = [*dense, "full_attention.core", "mlp.gate_up_proj", "mlp.down_proj", "lm_head"]
    assert [op.name for op in ops] == names
    assert [op.count for op in ops] == [2] * 7 + [1]
    # A layer's weights: 64 + 32 + 32 + 64 = 192 of attention, 96 + 48 = 144 of the feed-forward.
    # 2 layers * 336 * 2 FLOP * 6 tokens = 8064; the head 80 * 2 * 6 = 960; attention: 6 + 7 pairs,
    # 2 heads, 4 * 4 FLOP: 13 * 2 * 16 * 3 sequences * 2 layers = 2496.
    assert total(ops, "flops") == 8064 + 960 + 2496
    # (2 * 336 + 80) weights of 2 bytes.
    assert total(ops, "weight_bytes") == 1504
    # 1 head * (4 + 4) * 2 bytes * (5 read + 2 written) * 3 sequences * 2 layers.
    assert total(ops, "cache_bytes") == 672
    # Logits of 10 float32 for 6 positions.
    assert total(ops, "activation_bytes") == 240
    assert total(ops, "memory_bytes") == 1504 + 672 + 240
    assert ops[0].intensity == ops[0].flops / ops[0].memory_bytes == 2 * 6 / 2
    # A pass without logits does not read the head.
    *_, head = forward_cost(TINY, ForwardPass(batch_size=2, query_len=3, context_len=0, head_len=0))
    assert head.flops == head.memory_bytes == 0
    # Beside one with logits it does not either: 80 weights of 2 bytes.
    some = ForwardPass(batch_size=2, query_len=3, context_len=0, head_len=np.array([0, 1]))
    assert forward_cost(TINY, some)[-1].weight_bytes.tolist() == [0, 160]


@given(architectures(), passes)
def test_matrices_cost_two_flops_per_weight_and_token_and_are_read_once(
    model: Architecture, forward: ForwardPass
) -> None:
    ops = forward_cost(model, forward)
    matrices = [op for op in ops if op.kind in {"dense", "router", "head"}]
    # Counted from the model, layer by layer, as if none were merged. Block diagonal: each output
    # meets a share of the inputs.
    weights, stored = 0, 0.0
    for layer in model.layers:
        for block, _ in product(layer.blocks, range(layer.count)):
            for linear in block.linears:
                n_weights = linear.in_features * (linear.out_features // linear.groups)
                weights += n_weights
                stored += n_weights * linear.weight.element_bytes
    n_head = model.head.in_features * model.head.out_features
    assert total(matrices, "flops") == 2 * (weights + n_head) * float(forward.tokens)
    stored += n_head * model.head.weight.element_bytes
    assert total(matrices, "weight_bytes") == pytest.approx(stored)


def test_the_count_of_estimators_drops_exactly_the_kinds_it_says() -> None:
    forward = forward_pass(2, 3, 40)
    everything = forward_cost(EVERY_KIND, forward)
    kept = forward_cost(EVERY_KIND, forward, Options(count="attention+ffn"))
    dropped = {"router", "compressor", "residual", "convolution", "head"}
    assert [op.name for op in kept] == [op.name for op in everything if op.kind not in dropped]
    # What is kept costs the same, but for attention over the pass itself and its writes.
    by_name = {op.name: op for op in everything}
    for op in kept:
        whole = by_name[op.name]
        if op.kind in {"dense", "experts", "state"}:
            assert (op.flops, op.memory_bytes) == (whole.flops, whole.memory_bytes)
        else:
            assert op.flops <= whole.flops
            assert op.memory_bytes < whole.memory_bytes


@given(architectures(), passes, formats)
def test_weights_are_overridden_in_projections_and_experts_alone(
    model: Architecture, forward: ForwardPass, form: Any
) -> None:
    plain = forward_cost(model, forward)
    stored = forward_cost(model, forward, Options(weight_dtype=form.name))
    for before, after in zip(plain, stored, strict=True):
        assert after.flops == before.flops
        if after.kind in {"dense", "experts"}:
            assert after.compute_dtype == form.compute_dtype
        else:
            assert after.compute_dtype == before.compute_dtype
            assert after.weight_bytes == before.weight_bytes
    # 16 * 64 weights of q_proj in the first layer, 32 hidden: by the format's bytes per element.
    (q_proj, *_) = stored
    assert q_proj.weight_bytes == model.hidden_size * 64 * form.element_bytes


@pytest.mark.parametrize("name", CHOICES)
def test_an_option_outside_of_its_choices_is_refused_by_name(name: str) -> None:
    refused: list[str | None] = ["nonsense"]
    if name in {"granularity", "count", "v4_attention", "cost_of"}:  # must be chosen
        refused.append(None)
    for value in refused:
        choices: dict[str, Any] = {name: value}
        with pytest.raises(ValueError, match=rf"^{name} is .*; allowed: {CHOICES[name][0]}, "):
            Options(**choices)


def test_every_block_ends_in_one_collective_of_its_output() -> None:
    followed = {
        op.name: op.collective
        for model in (TINY, EVERY_KIND)
        for op in forward_cost(model, forward_pass(3, 2, 5))
        if op.collective is not None
    }
    assert {name: (c.block, c.copies) for name, c in followed.items()} == {
        "full_attention.core": ("attention", 1),
        "mlp.down_proj": ("feed_forward", 1),
        "sparse_attention.core": ("attention", 1),
        "linear_attention.state": ("attention", 1),
        "moe.experts": ("experts", 2),  # a token goes to its top-k experts
    }
    for collective in followed.values():
        assert collective.message_bytes == 3 * 2 * 8 * 2  # tokens, hidden size, bf16


def test_a_pass_holds_float64() -> None:
    forward = forward_pass(np.array([1, 2], dtype=np.int32), 4, 1_000_000)
    for field in (forward.batch_size, forward.query_len, forward.context_len, forward.head_len):
        assert field.dtype == np.float64
    assert forward.head_len == 4
    assert forward.tokens.tolist() == [4, 8]
    (attention,) = (op for op in forward_cost(TINY, forward) if op.kind == "attention")
    # 4 queries see 1 000 001 to 1 000 004 keys; 2 heads of 4: 32 FLOP a pair.
    assert attention.flops.tolist() == [32 * 4_000_010, 2 * 32 * 4_000_010]


# --- what a model takes up: weights, caches that grow, states that do not ------------------------


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
        (of_cores((FULL, 32)), 131_072, 4096 * 131_072),
        # Windows of 128 are full long before: 12 layers of 8 * 128 * 2 bytes.
        (of_cores((WINDOW, 12)), 0, 12 * 128 * 2048),
        (of_cores((LATENT, 61)), 61 * 1152, 4096 * 61 * 1152),
        # An entry of 1024 and its key of 256 bytes serve four tokens; 128 raw entries beside.
        (of_cores((CSA, 2)), 2 * 320, 2 * (128 * 1024 + 1024 * 1280)),
        # Recurrent states and experts cache nothing.
        (of_cores((DELTA, 3), (Experts(4, 2, 8, 8), 1)), 0, 0),
        (of_cores((FULL, 1), (WINDOW, 1)), 4096, 4096 * 4096 + 128 * 2048),
    ],
)
def test_caches_by_hand(model: Architecture, per_token: float, at_4096: float) -> None:
    assert kv_bytes_per_token(model) == per_token
    assert kv_cache_bytes(model, 4096) == at_4096
    assert kv_cache_bytes(model, [0, 4096]).tolist() == [0, at_4096]
    assert window_bytes(model) == at_4096 - 4096 * per_token


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
    # The embedding of 10 * 8, which each group of attention has, and the head, as large, in bf16.
    vocabulary = (160.0, 0.0, HEADS), (160.0, 0.0, HEADS)
    nothing = (0.0, 0.0, HEADS)
    assert shards(of_cores((FULL, 2))) == [nothing, *vocabulary, (0, 8192, cache_only(8))]
    assert shards(of_cores((LATENT, 1))) == [nothing, *vocabulary, (0, 1152, cache_only(1))]
    # 32 KiB of ring and one raw entry: every device of a group holds all of it.
    assert shards(of_cores((CSA, 1))) == [nothing, *vocabulary, (0, 1024 + 32_768, cache_only(1))]
    # Linear attention divides by heads, its filters of 8192 * 4 in bf16 as well as its state.
    assert shards(of_cores((DELTA, 1))) == [
        *((65_536, 0, HEADS), *vocabulary, (0, 2_146_304, HEADS))
    ]
    assert state_bytes(of_cores((DELTA, 3), FULL)) == 3 * 2_146_304
    # In narrow formats heads take half, and the state but for its columns.
    narrow = Options(kv_dtype="fp8", state_dtype="bf16")
    parts = storage(of_cores(FULL, DELTA), 1, narrow)
    assert [float(part.sequence_bytes) for part in parts[-2:]] == [2048, 1_097_728]
    assert kv_cache_bytes(of_cores(FULL), 1, narrow) == 2048
    assert state_bytes(of_cores(DELTA), narrow) == 1_097_728
    assert np.all(kept(Experts(4, 2, 8, 8), 9).cache_bytes == 0)
    experts = Layer((Block("feed_forward", (), Experts(4, 2, 8, 8)),))
    moe = replace(of_cores(), layers=(experts,))
    assert shards(moe) == [(4 * 3 * 64 * 2, 0, TENSOR), *vocabulary]
    # A tied head is the embedding.
    assert shards(replace(of_cores(), tied_embeddings=True)) == [vocabulary[0], nothing]


# --- the first layers, as an early exit drafts with them: LayerSkip, Kangaroo --------------------


def cut_off(stem: str, count: int) -> Architecture:
    """Return the model of a config that has the first layers only: another way to the same."""
    config = json.loads(bundled("model_configs", ".json")[stem].read_text(encoding="utf-8"))
    config["num_hidden_layers"] = count
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:count]
    return parse_config(json.dumps(config), source=f"{stem}.json")


@pytest.mark.parametrize(
    "stem", ["Qwen--Qwen3-Next-80B-A3B-Instruct", "openai--gpt-oss-120b", "Qwen--Qwen3-8B"]
)
@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_first_layers_are_those_of_a_config_that_has_no_others(stem: str, count: int) -> None:
    first = load_model(stem.replace("--", "/")).first_layers(count)
    expected = cut_off(stem, count)
    assert first.n_layers == count
    assert first.layers == expected.layers
    assert first.n_params == expected.n_params
    assert first.first_layers(1).layers == cut_off(stem, 1).layers


def test_layers_of_a_model_built_by_hand_follow_each_other_as_listed() -> None:
    kinds = [Layer((Block("feed_forward", (Linear("up_proj", 8, n),)),), 2) for n in (16, 32)]
    model = Architecture("toy", "llama", 8, 9, tuple(kinds), Linear("lm_head", 8, 9))
    assert [layer.count for layer in model.first_layers(3).layers] == [2, 1]


@pytest.mark.parametrize("count", [0, 37, 2.0, True])
def test_other_counts_are_refused(count: int) -> None:
    with pytest.raises(OptionError, match=r"^count is .* from 1 to 36$"):
        load_model("Qwen/Qwen3-8B").first_layers(count)
