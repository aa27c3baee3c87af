"""The whole pass: what is in it, in which shape, and what each option changes."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from specroof.architecture.attention import GroupedQueryAttention, Indexer
from specroof.architecture.base import FEED_FORWARD_REPLICATED, Linear
from specroof.architecture.experts import Experts
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture, Block, Layer
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.cost import CHOICES, ForwardPass, OpCost, Options, forward_cost
from specroof.errors import OptionError
from strategies import (
    Grid,
    amounts,
    architectures,
    batches,
    contexts,
    formats,
    forward_pass,
    options,
    passes,
    small,
)


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


def of_kind(ops: list[OpCost], kind: str) -> list[OpCost]:
    return [op for op in ops if op.kind == kind]


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


@given(architectures(), options)
def test_amounts_keep_the_shape_that_their_formula_gives_them(
    model: Architecture, choices: Options
) -> None:
    grid = Grid(contexts=(3, 50, 7, 0), batches=(1, 5, 9), queries=(1, 2))
    for op in forward_cost(model, grid.forward, choices):
        for name, amount in amounts(op).items():
            fits = np.broadcast_shapes(np.shape(amount), grid.shape)
            assert fits == grid.shape
            if op.kind not in {"attention", "latent_attention", "indexer"}:
                # Only attention looks at the context.
                assert np.size(amount) <= 3 * 2, f"{op.name} {name}"
            if name == "weight_bytes" and op.kind != "experts":
                assert np.size(amount) == 1, op.name
            if name == "cache_bytes" and op.kind in {"dense", "experts", "head", "router"}:
                assert np.size(amount) == 1, op.name


@given(architectures(), options, small, contexts)
def test_work_and_caches_are_linear_in_the_batch_and_weights_are_read_once(
    model: Architecture, choices: Options, queries: int, context: int
) -> None:
    one = forward_cost(model, forward_pass(1, queries, context), choices)
    many = forward_cost(model, forward_pass(24, queries, context), choices)
    for single, larger in zip(one, many, strict=True):
        for amount in ("flops", "cache_bytes", "activation_bytes"):
            expected = pytest.approx(24 * float(getattr(single, amount)))
            assert float(getattr(larger, amount)) == expected
        times = float(larger.weight_bytes) / float(single.weight_bytes or 1)
        assert times == pytest.approx(1 if single.weight_bytes else 0) or (
            single.kind == "experts" and 1 <= times <= 24 * (1 + 1e-12)
        )


@given(architectures(sawtooth=False), options, batches, small, contexts)
def test_nothing_falls_with_the_context_or_with_one_more_query(
    model: Architecture, choices: Options, batch: int, queries: int, context: int
) -> None:
    here = forward_cost(model, forward_pass(batch, queries, context), choices)
    further = forward_cost(model, forward_pass(batch, queries, context + 1), choices)
    wider = forward_cost(model, forward_pass(batch, queries + 1, context), choices)
    for op, later, more in zip(here, further, wider, strict=True):
        # At context 0 the estimators' count leaves attention with no work and no bytes.
        assert np.isfinite(op.intensity)
        assert min(later.flops, more.flops) >= op.flops
        assert later.memory_bytes >= op.memory_bytes
        # A plain step writes the recurrent state, a verification that will replay does not.
        if op.kind != "state" or choices.recurrent_state != "replay":
            assert more.memory_bytes >= op.memory_bytes * (1 - 1e-12)


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
    (attention,) = of_kind(forward_cost(TINY, forward), "attention")
    # 4 queries see 1 000 001 to 1 000 004 keys; 2 heads of 4: 32 FLOP a pair.
    assert attention.flops.tolist() == [32 * 4_000_010, 2 * 32 * 4_000_010]


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("batch_size", [0, -1, [8, 0], NAN, INFINITY]),
        ("query_len", [0, 0.5, NAN]),
        ("context_len", [-1, INFINITY]),
        ("head_len", [-1, 5, NAN]),
    ],
)
def test_a_pass_of_impossible_size_is_refused_by_name(field: str, values: list[Any]) -> None:
    for value in values:
        sizes: dict[str, Any] = {"batch_size": 1, "query_len": 4, "context_len": 0} | {field: value}
        with pytest.raises(
            OptionError, match=f"^{field} is .*; allowed: (a number from|numbers of at) "
        ):
            ForwardPass(**sizes)
