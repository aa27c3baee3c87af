"""What a round of each kind of drafter asks for: passes, positions, context, head."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from published_drafters import Ledger, a_round, pass_seconds_on
from specroof.acceptance import constant_acceptance
from specroof.architecture import (
    Architecture,
    DraftHead,
    DraftShape,
    GroupedQueryAttention,
    Layer,
    MedusaHeads,
    block_head,
    draft_layer,
    draft_model,
    eagle3_head,
    eagle_head,
    markov_step,
)
from specroof.architecture.draft_heads import usual_mtp
from specroof.catalog import load_model
from specroof.catalog.names import load_draft_config
from specroof.cost import ForwardPass, Options
from specroof.drafters import Drafter
from specroof.drafters.heads import head_block_drafter, head_drafter, medusa_drafter
from specroof.drafters.kinds import lookup_drafter
from specroof.drafters.trees import expansion_tree, tree_proposals
from specroof.errors import OptionError
from strategies import device

SIZE, VOCABULARY = 64, 1000
SHAPE: Final = DraftShape(SIZE, n_heads=4, n_kv_heads=2, head_dim=16, width=128)
#: One byte per second and no end of arithmetic: seconds are bytes.
MEMORY_ONLY: Final = device({"bf16": 1e21, "fp16": 1e21}, 1.0)


def target_of(hidden_size: int = SIZE, vocab_size: int = VOCABULARY) -> Architecture:
    """Return a dense target of four layers."""
    shape = replace(SHAPE, hidden_size=hidden_size)
    layers = [Layer(draft_layer(shape).blocks, 4)]
    model = draft_model("target", "llama", hidden_size, layers, head_rows=vocab_size)
    return replace(model, vocab_size=vocab_size)


TARGET: Final = target_of()


def asked(drafter: Drafter, **round_: Any) -> list[dict[str, Any]]:
    """Return the passes that a drafter asks for, pass by pass."""
    ledger = Ledger()
    drafter.draft(a_round(TARGET, ledger, **round_))
    return [
        {
            "model": architecture,
            "query": forward.query_len.tolist(),
            "context": forward.context_len.tolist(),
            "head": forward.head_len.tolist(),
            "settled": forward.settled,
            "beside": beside,
        }
        for architecture, forward, beside in ledger.passes
    ]


def seconds(drafter: Drafter, **round_: Any) -> float:
    """Return the bytes that a drafter moves in a round."""
    return float(
        drafter.draft(a_round(TARGET, pass_seconds_on(MEMORY_ONLY, Options()), **round_)).serial_s
    )


# --- token by token ------------------------------------------------------------------------------


def test_a_head_reads_the_committed_tokens_again_and_goes_on_one_by_one() -> None:
    first, later = asked(
        head_drafter("eagle", eagle_head(SHAPE, name="e")),
        draft_len=5,
        context_len=100,
        tokens_per_round=3,
    )
    # After three committed tokens the head has read 98, reads 3, and makes its first draft at 101.
    assert (first["query"], first["context"], first["head"]) == (3, 98, 1)
    # Passes at 101, 102, 103 and 104 cached tokens: at their mean.
    assert (later["query"], later["context"], later["head"]) == (1, 102.5, 1)
    assert (first["settled"], later["settled"]) == (True, False)


def test_the_later_passes_are_as_many_as_further_drafts() -> None:
    drafter = head_drafter("mtp")
    ledger = Ledger()  # one second each
    time = drafter.draft(a_round(TARGET, ledger, draft_len=[1, 2, 6], tokens_per_round=[1, 2, 3]))
    assert time.serial_s.tolist() == [1, 2, 6]


def test_a_context_shorter_than_what_was_committed_has_been_read_once() -> None:
    first, _ = asked(head_drafter("mtp"), draft_len=2, context_len=1, tokens_per_round=5)
    assert (first["query"], first["context"]) == (2, 0)


def test_unknown_acceptance_is_no_number_to_count_with() -> None:
    first, _ = asked(head_drafter("mtp"), draft_len=2, context_len=10, tokens_per_round=np.nan)
    assert (first["query"], first["context"]) == (1, 10)


def test_features_are_merged_once_per_committed_token() -> None:
    head = eagle3_head(SHAPE, name="e3", vocab_size=100)
    first, later = asked(
        head_drafter("eagle3", head), draft_len=4, context_len=9, tokens_per_round=3
    )
    (work,) = first["beside"]
    assert work.forward_pass.query_len == 3
    (block,) = work.architecture.layers[0].blocks
    assert [linear.name for linear in block.linears] == ["fc"]
    assert later["beside"] == ()


def test_an_eagle_head_merges_in_every_pass() -> None:
    for one in asked(head_drafter("eagle", eagle_head(SHAPE, name="e")), draft_len=2):
        opening = one["model"].layers[0].blocks[0].linears
        assert [linear.name for linear in opening][:2] == ["fc", "q_proj"]
        assert one["beside"] == ()


def by_positions(_model: Architecture, forward: ForwardPass, /, *_beside: Any) -> Any:
    """Return a second per position of the pass."""
    return forward.query_len


def test_several_modules_each_read_the_committed_tokens() -> None:
    head = replace(usual_mtp(TARGET), modules=3)
    round_ = a_round(
        TARGET, by_positions, draft_len=[1, 2, 3, 5], context_len=9, tokens_per_round=4
    )
    # Up to three passes of four positions, each through layers of its own; then one by one.
    assert head_drafter("mtp", head).draft(round_).serial_s.tolist() == [4, 8, 12, 14]
    assert head_drafter("mtp").draft(round_).serial_s.tolist() == [4, 5, 6, 8]


def test_modules_come_before_the_levels_of_a_tree() -> None:
    levels = ((2.0, np.array(2.0)), (3.0, np.array(1.0)))
    round_ = a_round(
        TARGET, by_positions, draft_len=4, context_len=9, tokens_per_round=4, expansions=levels
    )
    assert float(head_drafter("mtp").draft(round_).serial_s) == 4 + 2 * 2 + 3
    # Two modules take the place of one pass behind the first, four of all three.
    two, four = (replace(usual_mtp(TARGET), modules=count) for count in (2, 4))
    assert float(head_drafter("mtp", two).draft(round_).serial_s) == 2 * 4 + 2 + 3
    assert float(head_drafter("mtp", four).draft(round_).serial_s) == 4 * 4


def test_an_assistant_without_a_cache_reads_nothing_again() -> None:
    head = load_draft_config("google/gemma-4-E2B-it-assistant", "mtp")
    assert isinstance(head, DraftHead)
    ledger = Ledger()
    target = target_of(hidden_size=1536, vocab_size=262_144)
    head_drafter("mtp", head).draft(
        a_round(target, ledger, draft_len=3, context_len=50, tokens_per_round=4)
    )
    (_, first, beside), (_, later, _) = ledger.passes
    assert (float(first.query_len), float(first.context_len), beside) == (1, 50, ())
    assert float(later.query_len) == 1


def test_a_tree_is_drafted_level_by_level() -> None:
    draft_len = np.arange(4)
    proposed = tree_proposals(
        lambda rates: expansion_tree((3, 2, 1), rates), [0.2, 0.1], constant_acceptance(0.5),
        draft_len,
    )  # fmt: skip
    head = eagle_head(SHAPE, name="e")
    ledger = Ledger()
    time = head_drafter("eagle", head).draft(
        a_round(TARGET, ledger, draft_len=[1, 1, 2, 3], expansions=proposed.expansions)
    )
    assert [float(forward.query_len) for _, forward, _ in ledger.passes] == [1, 3, 6]
    assert [float(forward.head_len) for _, forward, _ in ledger.passes] == [1, 3, 6]
    assert time.serial_s.tolist() == [1, 1, 2, 3]


def test_a_chain_as_a_tree_costs_the_same_to_the_last_bit() -> None:
    draft_len = np.arange(9)
    drafted = np.maximum(draft_len, 1)
    proposed = tree_proposals(
        lambda rates: expansion_tree((1,) * 8, rates), (), constant_acceptance(0.5), draft_len
    )
    pass_s = pass_seconds_on(MEMORY_ONLY, Options())
    tokens = proposed.tokens_per_round
    for drafter in (
        head_drafter("mtp"),
        head_drafter("eagle3"),
        head_block_drafter("dflash"),
        head_drafter("model", TARGET),
    ):
        chain = a_round(TARGET, pass_s, draft_len=drafted, context_len=50, tokens_per_round=tokens)
        tree = replace(chain, expansions=proposed.expansions)
        assert np.array_equal(drafter.draft(tree).serial_s, drafter.draft(chain).serial_s)


@pytest.mark.parametrize("kind", ["model", "pard"])
def test_a_kind_without_a_usual_geometry_needs_its_layers(kind: str) -> None:
    with pytest.raises(OptionError, match=f"config is missing; allowed: config= of the {kind} "):
        head_drafter(kind)


def test_an_independent_model_is_timed_whole() -> None:
    small = target_of()
    first, later = asked(
        head_drafter("model", small), draft_len=3, context_len=40, tokens_per_round=2
    )
    assert first["model"] == later["model"] == small
    assert (first["query"], first["context"], first["head"]) == (2, 39, 1)
    # Bytes by hand: two passes of weights each plus cache; 2 further drafts, three passes in all.
    weights = small.n_params - small.embedding_params - vectors(small)
    token_bytes = 4 * 2 * 2 * 16 * 2  # four layers, K and V of two heads of 16, in bf16
    read = (39 + 2) + 2 * (40 + 1.5 + 1)
    logits = 3 * 4 * VOCABULARY
    expected = 3 * 2 * weights + token_bytes * read + logits
    assert seconds(
        head_drafter("model", small), draft_len=3, context_len=40, tokens_per_round=2
    ) == pytest.approx(expected)


def vectors(model: Architecture) -> int:
    """Return the elements of a model that no matrix has."""
    layers = sum(
        layer.count * block.vector_params for layer in model.layers for block in layer.blocks
    )
    return layers + model.vector_params


def test_a_window_bounds_what_the_draft_reads() -> None:
    bounded = head_drafter("eagle", eagle_head(replace(SHAPE, window=32), name="e"))
    free = head_drafter("eagle", eagle_head(SHAPE, name="e"))
    near, far = ({"context_len": length, "draft_len": 2} for length in (1000, 5000))
    assert seconds(bounded, **near) == seconds(bounded, **far)
    assert seconds(free, **near) < seconds(free, **far)


def test_committed_tokens_hit_experts_of_the_draft_layer() -> None:
    target = load_model("Qwen/Qwen3.6-35B-A3B")
    pass_s = pass_seconds_on(MEMORY_ONLY, Options())
    few, many = (
        float(
            head_drafter("mtp")
            .draft(a_round(target, pass_s, context_len=99, tokens_per_round=tokens))
            .serial_s
        )
        for tokens in (1, 3)
    )
    # 256 experts, 8 per token: 8 and 256 (1 - (248/256)^3), of 3 * 2048 * 512 weights each. The
    # cache is read and written up to the same token.
    more = 256 * (1 - (248 / 256) ** 3) - 8
    assert many - few == pytest.approx(more * 3 * 2048 * 512 * 2)


# --- blocks --------------------------------------------------------------------------------------


def a_block(
    *, block: int = 8, serial: Architecture | None = None, anchor: bool = False
) -> DraftHead:
    layers = [Layer(draft_layer(replace(SHAPE, causal=False)).blocks, 3)]
    model = draft_model("d", "dflash", SIZE, layers)
    return block_head(
        "dflash", model, taps=2, target_size=SIZE, block=block, serial=serial, anchor_drafts=anchor
    )


def test_a_block_pass_sees_context_and_block_and_heads_all_but_the_anchor() -> None:
    (one,) = asked(
        head_block_drafter("dflash", a_block()), draft_len=5, context_len=90, tokens_per_round=3
    )
    assert (one["query"], one["context"], one["head"]) == (8, 90, 7)
    cores = [block.core for layer in one["model"].layers for block in layer.blocks if block.core]
    assert all(isinstance(core, GroupedQueryAttention) and not core.causal for core in cores)


def test_committed_tokens_are_merged_and_their_keys_and_values_projected_in_all_layers() -> None:
    (one,) = asked(
        head_block_drafter("dflash", a_block()), draft_len=5, context_len=90, tokens_per_round=3
    )
    (work,) = one["beside"]
    assert work.forward_pass.query_len == 3
    fusion, projections = work.architecture.layers
    assert [linear.name for linear in fusion.blocks[0].linears] == ["fc"]
    names = [linear.name for linear in projections.blocks[0].linears]
    assert (names, projections.count) == (["k_proj", "v_proj"], 3)


@given(st.integers(1, 7), st.integers(1, 7), st.floats(1, 8), st.integers(1, 50))
def test_a_block_costs_the_same_whatever_part_of_it_is_verified(
    some: int, others: int, tokens: float, batch: int
) -> None:
    drafter = head_block_drafter("dflash", a_block())
    first, second = (
        seconds(drafter, draft_len=length, tokens_per_round=tokens, batch_size=batch)
        for length in (some, others)
    )
    assert first == second


def test_bytes_of_a_block_by_hand() -> None:
    q, kv, mlp = 64 * 64, 64 * 32, 3 * 64 * 128
    layer = 2 * q + 2 * kv + mlp
    block = 3 * layer + SIZE * VOCABULARY
    accepted = 2 * SIZE * SIZE + 3 * 2 * kv
    cache = 3 * 2 * 2 * 16 * (90 + 8)
    expected = 2 * (block + accepted + cache) + 4 * 7 * VOCABULARY
    found = seconds(
        head_block_drafter("dflash", a_block()), draft_len=3, context_len=90, tokens_per_round=2
    )
    assert found == pytest.approx(expected)


def test_denoising_steps_repeat_the_block_and_not_the_injection() -> None:
    one, three = (
        seconds(
            head_block_drafter("dflash", a_block(), steps=steps), context_len=90, tokens_per_round=2
        )
        for steps in (1, 3)
    )
    accepted = 2 * (2 * SIZE * SIZE + 3 * 2 * 64 * 32)
    assert three - accepted == pytest.approx(3 * (one - accepted))


def test_a_markov_head_runs_once_more_for_each_draft_of_the_block() -> None:
    serial = markov_step(
        "m", hidden_size=SIZE, vocab_size=VOCABULARY, rank=16, table_rows=VOCABULARY
    )
    head = a_block(block=5, serial=serial, anchor=True)
    (one,) = asked(head_block_drafter("dspark", head), draft_len=2, tokens_per_round=2)
    assert (one["query"], one["head"]) == (5, 5)
    _, step = one["beside"]
    assert (step.times, float(step.forward_pass.query_len)) == (5, 1)
    # Per draft the matrix from rank to vocabulary, the confidence row, and the logits.
    plain = seconds(head_block_drafter("dspark", replace(head, serial=None)), tokens_per_round=2)
    with_head = seconds(head_block_drafter("dspark", head), tokens_per_round=2)
    assert with_head - plain == 5 * (2 * (16 * VOCABULARY + SIZE + 16) + 4 * VOCABULARY)


def test_masks_go_behind_the_committed_tokens_in_one_pass() -> None:
    head = eagle3_head(SHAPE, name="p", vocab_size=100, kind="p_eagle", n_layers=2)
    (one,) = asked(head_drafter("p_eagle", head), draft_len=6, context_len=50, tokens_per_round=3)
    assert (one["query"], one["context"], one["head"]) == (3 + 5, 48, 6)
    assert [work.forward_pass.query_len.tolist() for work in one["beside"]] == [3]
    (pard,) = asked(
        head_drafter("pard", DraftHead("pard", TARGET)),
        draft_len=6,
        context_len=50,
        tokens_per_round=3,
    )
    assert (pard["query"], pard["context"], pard["head"], pard["beside"]) == (8, 48, 6, ())


def test_only_the_first_layer_of_an_eagle3_head_takes_embedding_and_feature() -> None:
    head = eagle3_head(SHAPE, name="p", vocab_size=100, n_layers=4)
    widths = [(layer.count, layer.blocks[0].linears[0].in_features) for layer in head.model.layers]
    assert widths == [(1, 2 * SIZE), (3, SIZE)]


def test_medusa_heads_look_once() -> None:
    drafter = medusa_drafter(MedusaHeads("m", n_heads=3, n_layers=1))
    (one,) = asked(drafter, draft_len=2, context_len=70, tokens_per_round=3)
    assert (one["query"], one["head"], one["beside"]) == (1, 1, ())
    # Three residual matrices and three of output, and the logits.
    expected = 3 * 2 * (SIZE * SIZE + SIZE * VOCABULARY) + 3 * 4 * VOCABULARY
    assert seconds(drafter, draft_len=2, context_len=70, tokens_per_round=3) == expected
    assert drafter.max_draft_len == 3


# --- lookups -------------------------------------------------------------------------------------


def test_a_lookup_takes_time_on_the_host() -> None:
    drafter = lookup_drafter(match_rate=0.5, round_s=0.01, token_s=0.001)
    # 10 ms a round, and 1 ms for each of 0.5 * 8 * 3 proposed tokens.
    assert seconds(drafter, draft_len=3, batch_size=8) == pytest.approx(0.022)


def test_an_unmeasured_lookup_takes_the_published_share_of_the_verification() -> None:
    assert seconds(lookup_drafter(), verify_s=2.0, draft_len=3) == pytest.approx(2 * 0.005875)


@pytest.mark.parametrize(
    ("choices", "key"),
    [({"match_rate": 1.1}, "match"), ({"round_s": -1.0}, "round-s"), ({"token_s": 2.0}, "token-s")],
)
def test_a_lookup_outside_of_reason_is_refused(choices: dict[str, float], key: str) -> None:
    with pytest.raises(OptionError, match=f"^{key} is .*; allowed: a number from 0 to 1$"):
        lookup_drafter(**choices)  # type: ignore[arg-type]


def test_proposals_without_a_match_are_none() -> None:
    drafter = lookup_drafter(match_rate=0.25)
    found = drafter.propose(constant_acceptance(1.0), np.array([0, 4]))
    assert found.verify_len.tolist() == [1, 2]
    assert found.tokens_per_round.tolist() == [1, 2]
    always = lookup_drafter().propose(constant_acceptance(0.5), np.array([2]))
    assert (always.verify_len.tolist(), always.tokens_per_round.tolist()) == ([3], [1.75])


# --- what does not fit ---------------------------------------------------------------------------


def test_features_of_another_width_are_refused() -> None:
    drafter = head_drafter(
        "eagle3", eagle3_head(replace(SHAPE, hidden_size=32), name="e", vocab_size=9)
    )
    message = "^e .*32; allowed: 64.*target$"
    with pytest.raises(OptionError, match=message):
        drafter.describe(TARGET)
    with pytest.raises(OptionError, match=message):
        drafter.draft(a_round(TARGET, Ledger()))


def test_a_vocabulary_larger_than_the_targets_is_refused() -> None:
    message = "^e .*1001; allowed: .*1000 of target$"
    with pytest.raises(OptionError, match=message):
        head_drafter("eagle3", eagle3_head(SHAPE, name="e", vocab_size=1001)).describe(TARGET)
    with pytest.raises(OptionError, match=r"^target .*2000; allowed: .*1000"):
        head_drafter("model", target_of(vocab_size=2000)).describe(TARGET)


def test_a_shared_head_must_have_the_drafters_width() -> None:
    odd = replace(TARGET, head=replace(TARGET.head, in_features=32))
    message = "^e .*64 .*; allowed: 32.*target"
    with pytest.raises(OptionError, match=message):
        head_drafter("eagle", eagle_head(SHAPE, name="e")).describe(odd)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: head_block_drafter("dflash", a_block(), block=9), "block is 9; allowed: a whole number from 2 to 8"),
        (lambda: head_block_drafter("dflash", a_block(), block=1), "block is 1; allowed: a whole number from 2 to 8"),
        (lambda: head_block_drafter("dflash", a_block(), drafts=8), "drafts is 8; allowed: a whole number from 1 to 7"),
        (lambda: head_block_drafter("dflash", block=17), "block is 17; allowed: a whole number from 2 to 16"),
        (lambda: head_block_drafter("dspark", drafts=8), "drafts is 8; allowed: a whole number from 1 to 7"),
        (lambda: head_block_drafter("dflash", steps=0), "steps is 0; allowed: a whole number from 1 to 64"),
        (lambda: head_block_drafter("dflash", steps=True), "steps is True; allowed: a whole number from 1 to 64"),
        (
            lambda: head_block_drafter("dflash", replace(a_block(), block=None)),
            "block is missing and the config has no block size; allowed: block= or drafts=",
        ),
    ],
)  # fmt: skip
def test_blocks_longer_than_the_drafter_was_made_for_are_refused(build: Any, message: str) -> None:
    with pytest.raises(OptionError) as refusal:
        build()
    assert str(refusal.value) == message


def test_a_block_may_be_shorter_than_configured() -> None:
    assert head_block_drafter("dflash", a_block(), block=4).max_draft_len == 3
    assert head_block_drafter("dflash", a_block(), drafts=4).max_draft_len == 4
    assert head_block_drafter("dspark", drafts=4).max_draft_len == 4
    (one,) = asked(head_block_drafter("dflash", replace(a_block(), block=None), drafts=4))
    assert (one["query"], one["head"]) == (5, 4)


def test_a_drafter_built_for_its_target_needs_one() -> None:
    nowhere = replace(a_round(TARGET, Ledger()), target=None)
    with pytest.raises(ValueError, match="`target`"):
        head_drafter("mtp").draft(nowhere)


def test_drafters_say_where_their_sizes_come_from() -> None:
    head = eagle3_head(SHAPE, name="my head", vocab_size=100)
    assert head_drafter("eagle3", head).describe(TARGET).startswith("config my head: ")
    assert (
        head_drafter("eagle3")
        .describe(TARGET)
        .startswith("the usual sizes of eagle3 (no config= given)")
    )
    assert medusa_drafter().describe(TARGET).startswith("the usual five heads (no config= given)")
    assert "block of 16" in head_block_drafter("dflash").describe(TARGET)
    said = lookup_drafter(round_s=0.01, token_s=2e-6).describe(TARGET)
    assert said == "a lookup on the host, no model: 10.0 ms a round, 2.00 µs a token"
