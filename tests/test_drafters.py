"""Drafters: costs that are given, SPECs of others, and what a round of each kind asks for."""

import csv
import io
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincc

from published_drafters import SHAPE, Ledger, a_round, pass_seconds_on, target_of
from specroof import errors, predict, speedup_curve
from specroof.acceptance import constant_acceptance
from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.draft_heads import (
    DraftHead,
    MedusaHeads,
    block_head,
    draft_layer,
    draft_model,
    eagle3_head,
    eagle_head,
    markov_step,
    usual_mtp,
)
from specroof.architecture.model import Architecture, Layer
from specroof.catalog import load_drafter, load_hardware, load_model
from specroof.catalog.files import bundled_names
from specroof.catalog.names import load_draft_config
from specroof.cost import ForwardPass, Options
from specroof.drafters import KINDS, Drafter, PromptRead, Round, ideal_drafter
from specroof.drafters.heads import HEAD_KINDS, Where, head_drafter, medusa_drafter
from specroof.drafters.kinds import (
    _with_config,
    autoregressive_drafter,
    beta_tail,
    block_drafter,
    lookup_drafter,
)
from specroof.drafters.trees import expansion_tree, tree_proposals
from specroof.errors import OptionError, Urgent
from specroof.hardware.profile import Placement
from specroof.speedup.result import SpeedupCurve
from strategies import device
from tables import rows

shares = st.floats(0, 100)


def round_of(draft_len: Any, *, cost_of: str = "decode") -> Round:
    """Return a round of a step of 3 s and a verification of 7 s, which may time no pass."""

    def pass_s(*_: object) -> Any:
        raise AssertionError("a fixed share needs no pass")

    asked = a_round(TARGET, pass_s, draft_len=draft_len, verify_s=7.0)
    return replace(asked, decode_s=np.array(3.0), cost_of=cost_of)


def serial_s(drafter: Drafter, draft_len: int, *, cost_of: str = "decode") -> float:
    time = drafter.draft(round_of(draft_len, cost_of=cost_of))
    assert time.overlapped_s == 0
    return float(time.serial_s)


@given(shares, st.integers(1, 20), st.lists(st.integers(1, 100), min_size=1, max_size=9))
def test_drafts_are_paid_for_each_or_by_blocks_that_are_begun(
    cost: float, drafts: int, lengths: list[int]
) -> None:
    by_token, by_block = autoregressive_drafter(cost), block_drafter(cost, drafts=drafts)
    assert by_token.max_draft_len is None
    for drafter, begun in (
        (ideal_drafter(), [0 for _ in lengths]),
        (by_token, lengths),
        (by_block, [len(range(0, length, drafts)) for length in lengths]),
    ):
        # A step of 3 s, a verification of 7 s.
        for cost_of, whole_s in (("decode", 3.0), ("verify", 7.0)):
            expected = pytest.approx([cost * whole_s * times for times in begun])
            assert [serial_s(drafter, one, cost_of=cost_of) for one in lengths] == expected
            together = drafter.draft(round_of(lengths, cost_of=cost_of)).serial_s
            assert np.broadcast_to(together, len(lengths)).tolist() == expected
        assert drafter.is_ideal is (drafter.name == "ideal")


@given(st.floats(0, 1), st.floats(0.05, 60), st.floats(0.05, 60))
def test_confidence_above_a_threshold_is_the_incomplete_beta_function(
    least: float, a: float, b: float
) -> None:
    assert beta_tail(least, a, b) == pytest.approx(betaincc(a, b, least), rel=1e-9, abs=1e-12)


def test_a_block_of_16_is_an_anchor_and_15_drafts() -> None:
    anchored, drafts = (
        KINDS["block"].build({"cost": 0.1, of: 16.0}, "") for of in ("block", "drafts")
    )
    assert serial_s(anchored, 15) == serial_s(drafts, 15) == serial_s(drafts, 16)
    assert serial_s(anchored, 16) == 2 * serial_s(anchored, 15)
    assert serial_s(drafts, 17) == 2 * serial_s(drafts, 16)
    for block in (2.0, 4097.0):  # the ends
        assert serial_s(KINDS["block"].build({"cost": 0.1, "block": block}, ""), 1) > 0


def test_kinds_of_layers_have_the_keys_of_what_they_make() -> None:
    made = {kind: _with_config(kind) for kind in (*HEAD_KINDS, "medusa")}
    for key, kinds in (("block", {"dflash", "dspark"}), ("steps", {"dflash"})):
        assert {kind for kind, row in made.items() if key in row.keys} == kinds
    assert {kind for kind, row in made.items() if row.required} == {"model", "pard"}
    assert _with_config("model", config="model").keys.keys() - made["model"].keys == {"weights"}
    for can, keys in ((True, {"tree"}), (False, {"p-min"})):
        found = _with_config("mtp", tree=can, stops=not can).keys
        assert found.keys() & {"tree", "p-min"} == keys


# --- SPECs of drafters with a config, a tree, a place --------------------------------------------

QWEN = "Qwen/Qwen3.6-35B-A3B"


def curve(spec: str, **choices: Any) -> SpeedupCurve:
    return speedup_curve(
        load_model(choices.pop("target", QWEN)),
        load_hardware(choices.pop("hardware", "b200")),
        drafter=load_drafter(spec),
        engine="ideal",
        max_draft_len=choices.pop("max_draft_len", 3),
        **choices,
    )


SPECS = rows("values", "priced_specs")


@pytest.mark.parametrize("spec", SPECS)
def test_every_kind_is_priced_and_says_where_its_figures_come_from(spec: str) -> None:
    found = curve(f"{spec},accept=0.7")
    kind = spec.partition(",")[0]
    assert found.drafter == f"{spec},accept=0.7"
    assert np.all(np.isfinite(found.round_s))
    assert np.all(found.draft_s[..., 1:] > 0)
    assert np.all(found.speedup[..., 0] == 1)
    assert np.all(found.verify_len[1:] >= found.verify_len[:-1])
    assert found.acceptance_from == "constant acceptance 0.7 per draft token"
    assert found.cost_from.startswith(("config ", "the usual ", "a lookup "))
    assert ("(no config= given)" in found.cost_from) is ("config=" not in spec and kind not in
                                                     {"ngram", "prompt_lookup", "suffix"})  # fmt: skip


@pytest.mark.parametrize(
    "spec",
    ["autoregressive,cost=0.1", "block,cost=0.2,drafts=2", "mtp,p-min=0.5", "medusa", *SPECS[3:7]],
)
def test_a_copy_in_another_process_is_the_same_drafter(spec: str) -> None:
    drafter = load_drafter(f"{spec},accept=0.7")
    copy = pickle.loads(pickle.dumps(drafter))  # noqa: S301 - our own bytes
    model, chip = load_model(QWEN), load_hardware("h100")
    found, copied = (speedup_curve(model, chip, drafter=one) for one in (drafter, copy))
    np.testing.assert_array_equal(copied.speedup, found.speedup)
    assert copied.cost_from == found.cost_from


def test_a_design_has_its_own_cost_and_says_that_acceptance_is_as_given() -> None:
    usual, slim = curve("eagle3,accept=0.7"), curve("eagle3,vocab=8000,accept=0.7")
    assert np.all(slim.draft_s[..., 1:] < usual.draft_s[..., 1:])
    assert np.all(slim.tokens_per_round == usual.tokens_per_round)
    assert usual.cost_from.endswith(" and a separate head")
    assert curve("mtp,accept=0.7").cost_from.endswith(" and the target's head")
    said = [note for note in slim.notes if "vocab=8000" in note]
    assert len(said) == 1
    assert isinstance(said[0], Urgent)


def test_a_tree_is_verified_at_its_number_of_drafts() -> None:
    found = curve("eagle3,tree=3/1/1,siblings=.2/.1,accept=0.7")
    assert found.verify_len.tolist() == [1, 4, 7, 10]
    chain = curve("eagle3,accept=0.7")
    assert np.all(found.tokens_per_round[..., 1:] > chain.tokens_per_round[..., 1:])
    assert np.all(found.verify_s[..., 1:] > chain.verify_s[..., 1:])
    # 1 + .7 + .06 + .03, where the second child gets a fifth and the third a tenth of the misses.
    assert found.tokens_per_round[0, 0, 1] == pytest.approx(1.79)
    # Nine drafts in a tree of depth three are verified as nine drafts in a row are.
    assert found.verify_s[0, 0, 3] == curve("ngram,accept=0.5", max_draft_len=9).verify_s[0, 0, 9]


def test_a_lookup_that_finds_nothing_is_plain_decoding_and_a_little_more() -> None:
    found = curve("ngram,match=0,accept=1,round-s=0")
    assert found.verify_len.tolist() == [1, 1, 1, 1]
    assert np.all(found.speedup == 1)
    half = curve("ngram,match=0.5,accept=1", max_draft_len=2)
    assert half.verify_len.tolist() == half.tokens_per_round[0, 0].tolist() == [1, 1.5, 2]
    # Widths that are means reach CSV.
    answer = predict("Qwen/Qwen3-8B", "b200", drafters="ngram,match=0.5,accept=1", max_draft_len=2)
    rows = csv.DictReader(io.StringIO(answer.to_csv("points")))
    assert [row["verify_len"] for row in rows] == ["1", "1.5", "2"]


TINY = {
    "architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 2048, "num_hidden_layers": 1,
    "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 248320,
    "draft_vocab_size": 32000,
}  # fmt: skip


def test_configs_are_found_by_path_by_name_and_on_the_hub(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(TINY))
    for place in (file, tmp_path):
        assert f"config {place}" in curve(f"eagle3,config={place},accept=.7").cost_from

    def fetch(repository: str, name: str) -> Path | None:
        assert repository == "someone/my-head"
        return file if name == "config.json" else None

    drafter = load_drafter("eagle3,config=someone/my-head,accept=.7", fetch=fetch)
    assert drafter.describe(load_model(QWEN)).startswith("config my-head: ")
    assert "z-lab/Qwen3.5-4B-DFlash" in bundled_names("model_configs/drafters")
    short = load_draft_config("qwen3.5-4b-dflash", "dflash")
    assert short == load_draft_config("z-lab/Qwen3.5-4B-DFlash", "dflash")


@pytest.mark.parametrize(("spec", "error", "said"), rows("refusals", "configs_of_drafters"))
def test_configs_that_are_nowhere_are_refused(spec: str, error: str, said: str) -> None:
    with pytest.raises(getattr(errors, error), match=said):
        load_drafter(spec, fetch=lambda *_: None)


# --- what a round of each kind asks for: passes, positions, context, head ------------------------

SIZE, VOCABULARY = 64, 1000
#: One byte per second and no end of arithmetic: seconds are bytes.
MEMORY_ONLY: Final = device({"bf16": 1e21, "fp16": 1e21}, 1.0)


TARGET: Final = target_of()


def asked(drafter: Drafter, target: Architecture = TARGET, **round_: Any) -> list[dict[str, Any]]:
    ledger = Ledger()
    drafter.draft(a_round(target, ledger, **round_))
    return [
        {
            "model": architecture,
            "sizes": tuple(
                float(size) for size in (forward.query_len, forward.context_len, forward.head_len)
            ),
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


EAGLE: Final = head_drafter("eagle", eagle_head(SHAPE, name="e"))


@pytest.mark.parametrize(
    ("context", "committed", "passes"),
    # Positions, cached tokens and heads. After three committed tokens the head has read 98, reads
    # 3, and makes its first draft at 101. Passes at 101, 102, 103 and 104: at their mean.
    [
        (100, 3, [(3, 98, 1), (1, 102.5, 1)]),
        # A context shorter than what was committed has been read once.
        (1, 5, [(2, 0, 1), (1, 3.5, 1)]),
        # Unknown acceptance is no number to count with.
        (10, np.nan, [(1, 10, 1), (1, 12.5, 1)]),
    ],
)
def test_a_head_reads_the_committed_tokens_again_and_goes_on_one_by_one(
    context: int, committed: float, passes: list[tuple[float, ...]]
) -> None:
    found = asked(EAGLE, draft_len=5, context_len=context, tokens_per_round=committed)
    assert [one["sizes"] for one in found] == passes
    assert [one["settled"] for one in found] == [True, False]
    # Features of the target are read again, whatever else the server keeps.
    kept = asked(
        EAGLE, draft_len=5, context_len=context, tokens_per_round=committed,
        all_accepted=np.array(0.5),
    )  # fmt: skip
    assert [one["sizes"] for one in kept] == passes


def test_features_are_merged_once_per_committed_token_or_in_every_pass() -> None:
    head = eagle3_head(SHAPE, name="e3", vocab_size=100)
    first, later = asked(
        head_drafter("eagle3", head), draft_len=4, context_len=9, tokens_per_round=3
    )
    (work,) = first["beside"]
    assert work.forward_pass.query_len == 3
    (block,) = work.architecture.layers[0].blocks
    assert [linear.name for linear in block.linears] == ["fc"]
    assert later["beside"] == ()
    for one in asked(EAGLE, draft_len=2):
        opening = one["model"].layers[0].blocks[0].linears
        assert [linear.name for linear in opening][:2] == ["fc", "q_proj"]
        assert one["beside"] == ()


def by_positions(_model: Architecture, forward: ForwardPass, /, *_beside: Any) -> Any:
    return forward.query_len


def test_several_modules_each_read_the_committed_tokens() -> None:
    lengths: dict[str, Any] = {"context_len": 9, "tokens_per_round": 4}
    chain = a_round(TARGET, by_positions, draft_len=[1, 2, 3, 5], **lengths)
    levels = ((2.0, np.array(2.0)), (3.0, np.array(1.0)))
    tree = a_round(TARGET, by_positions, draft_len=4, expansions=levels, **lengths)
    # Up to three passes of four positions, each through layers of its own; then one by one, or
    # the levels of a tree: modules take the place of its first passes.
    for modules, in_line, by_level in (
        (1, [4, 5, 6, 8], 4 + 2 * 2 + 3),
        (2, [4, 8, 9, 11], 2 * 4 + 2 + 3),
        (3, [4, 8, 12, 14], 3 * 4 + 3),
        (4, [4, 8, 12, 17], 4 * 4),
    ):
        drafter = head_drafter("mtp", replace(usual_mtp(TARGET), modules=modules))
        assert drafter.draft(chain).serial_s.tolist() == in_line
        assert float(drafter.draft(tree).serial_s) == by_level
    assert head_drafter("mtp").draft(chain).serial_s.tolist() == [4, 5, 6, 8]
    # The head is computed for every node of a level.
    heads = replace(tree, pass_s=lambda _, forward, /, *_beside: forward.head_len)
    assert float(head_drafter("mtp").draft(heads).serial_s) == 1 + 2 * 2 + 3


def test_an_assistant_without_a_cache_reads_nothing_again() -> None:
    head = load_draft_config("google/gemma-4-E2B-it-assistant", "mtp")
    assert isinstance(head, DraftHead)
    target = target_of(hidden_size=1536, vocab_size=262_144)
    lengths: dict[str, Any] = {"draft_len": 3, "context_len": 50, "tokens_per_round": 4}
    first, later = asked(head_drafter("mtp", head), target, **lengths)
    assert (first["sizes"][:2], first["beside"]) == ((1, 50), ())
    assert later["sizes"][0] == 1


def test_prompts_are_read_by_layers_or_by_what_a_block_drafter_caches_or_not_at_all() -> None:
    prompts = ForwardPass(2, 300, 40, head_len=1, settled=True)
    own_devices: list[Any] = []

    def elsewhere(*place: Any) -> Any:
        own_devices.append(place)
        return lambda *_: np.array(7.0)

    def read(drafter: Drafter, target: Architecture = TARGET) -> tuple[float, Any]:
        ledger = Ledger()
        found = drafter.read(PromptRead(prompts, target, ledger, elsewhere))
        return float(found), ledger.passes

    head = eagle3_head(SHAPE, name="e3", vocab_size=100)
    # vllm v1/spec_decode/llm_base_proposer.py: the first pass has all tokens of the target's.
    found, ((model, forward, (fused,)),) = read(head_drafter("eagle3", head))
    assert (found, model, forward) == (1.0, head.model, prompts)
    assert fused.forward_pass.query_len == 300
    assert fused.forward_pass.head_len == 0
    assert read(head_drafter("mtp", replace(usual_mtp(TARGET), modules=3)))[0] == 3
    assert read(head_drafter("model", TARGET))[1][0][:2] == (TARGET, prompts)
    # A block drafter caches fused features, projected for its layers: no queries, no head.
    found, ((model, forward, beside),) = read(DFLASH)
    assert (found, model, forward.head_len, beside) == (1.0, a_block().intake, 0, ())
    bare = head_drafter("dflash", replace(a_block(), fusion=(), injection=()))
    for none in (bare, medusa_drafter(), lookup_drafter(), autoregressive_drafter(0.1)):
        assert read(none) == (0.0, [])
    assert read(head_drafter("mtp", replace(usual_mtp(TARGET), rereads=False))) == (0.0, [])
    # Nobody waits for devices of its own, nor for one that drafts beside the target.
    link: Any = {"link_bytes_per_s": 1e9}
    for where, seconds in {
        Where(tensor_parallel=1): 7.0, Where("cpu"): 7.0, Where(device(), **link): 0.0, Where(hit_rate=1.0): 0.0,
    }.items():  # fmt: skip
        assert read(head_drafter("eagle3", head, where=where)) == (seconds, [])
    assert own_devices == [(None, Placement(1)), ("cpu", Placement(1))]


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
        head_drafter("dflash"),
        head_drafter("model", TARGET),
    ):
        chain = a_round(TARGET, pass_s, draft_len=drafted, context_len=50, tokens_per_round=tokens)
        tree = replace(chain, expansions=proposed.expansions)
        assert np.array_equal(drafter.draft(tree).serial_s, drafter.draft(chain).serial_s)


def test_an_independent_model_is_timed_whole() -> None:
    lengths: dict[str, Any] = {"draft_len": 3, "context_len": 40, "tokens_per_round": 2}
    drafter = head_drafter("model", TARGET)
    first, later = asked(drafter, **lengths)
    assert first["model"] == later["model"] == TARGET
    assert first["sizes"] == (2, 39, 1)
    # Bytes by hand: two passes of weights each plus cache; 2 further drafts, three passes in all.
    (layer,) = TARGET.layers
    vectors = TARGET.vector_params + layer.count * sum(one.vector_params for one in layer.blocks)
    weights = TARGET.n_params - TARGET.embedding_params - vectors
    token_bytes = 4 * 2 * 2 * 16 * 2  # four layers, K and V of two heads of 16, in bf16
    read = (39 + 2) + 2 * (40 + 1.5 + 1)
    logits = 3 * 4 * VOCABULARY
    expected = 3 * 2 * weights + token_bytes * read + logits
    assert seconds(drafter, **lengths) == pytest.approx(expected)


def test_committed_tokens_hit_experts_of_the_draft_layer() -> None:
    target = load_model("Qwen/Qwen3.6-35B-A3B")
    pass_s = pass_seconds_on(MEMORY_ONLY, Options())
    rounds = (a_round(target, pass_s, context_len=99, tokens_per_round=tokens) for tokens in (1, 3))
    few, many = (float(head_drafter("mtp").draft(round_).serial_s) for round_ in rounds)
    # 256 experts, 8 per token: 8 and 256 (1 - (248/256)^3), of 3 * 2048 * 512 weights each. The
    # cache is read and written up to the same token.
    more = 256 * (1 - (248 / 256) ** 3) - 8
    assert many - few == pytest.approx(more * 3 * 2048 * 512 * 2)


def a_block(
    *, block: int = 8, serial: Architecture | None = None, anchor: bool = False
) -> DraftHead:
    layers = [Layer(draft_layer(replace(SHAPE, causal=False)).blocks, 3)]
    model = draft_model("d", "dflash", SIZE, layers)
    return block_head(
        "dflash", model, taps=2, target_size=SIZE, block=block, serial=serial, anchor_drafts=anchor
    )


DFLASH: Final = head_drafter("dflash", a_block())


def test_a_block_pass_sees_context_and_block_and_heads_all_but_the_anchor() -> None:
    (one,) = asked(DFLASH, draft_len=5, context_len=90, tokens_per_round=3)
    assert one["sizes"] == (8, 90, 7)
    cores = [block.core for layer in one["model"].layers for block in layer.blocks if block.core]
    assert all(isinstance(core, GroupedQueryAttention) and not core.causal for core in cores)
    # Committed tokens are merged, and their keys and values projected in all layers.
    (work,) = one["beside"]
    assert work.forward_pass.query_len == 3
    fusion, projections = work.architecture.layers
    assert [linear.name for linear in fusion.blocks[0].linears] == ["fc"]
    names = [linear.name for linear in projections.blocks[0].linears]
    assert (names, projections.count) == (["k_proj", "v_proj"], 3)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("verified", [1, 3, 7])
def test_bytes_of_a_block_by_hand_with_steps_that_repeat_it_and_not_the_injection(
    steps: int, verified: int
) -> None:
    # Whatever part of it is verified, a block is drafted whole.
    q, kv, mlp = 64 * 64, 64 * 32, 3 * 64 * 128
    layer = 2 * q + 2 * kv + mlp
    block = 3 * layer + SIZE * VOCABULARY
    accepted = 2 * SIZE * SIZE + 3 * 2 * kv
    cache = 3 * 2 * 2 * 16 * (90 + 8)
    expected = 2 * (steps * (block + cache) + accepted) + steps * 4 * 7 * VOCABULARY
    drafter = head_drafter("dflash", a_block(), steps=steps)
    found = seconds(drafter, draft_len=verified, context_len=90, tokens_per_round=2)
    assert found == pytest.approx(expected)


def test_a_markov_head_runs_once_more_for_each_draft_of_the_block() -> None:
    serial = markov_step(
        "m", hidden_size=SIZE, vocab_size=VOCABULARY, rank=16, table_rows=VOCABULARY
    )
    head = a_block(block=5, serial=serial, anchor=True)
    (one,) = asked(head_drafter("dspark", head), draft_len=2, tokens_per_round=2)
    assert (one["sizes"][0], one["sizes"][2]) == (5, 5)
    _, step = one["beside"]
    assert (step.times, float(step.forward_pass.query_len)) == (5, 1)
    # Per draft the matrix from rank to vocabulary, the confidence row, and the logits.
    plain = seconds(head_drafter("dspark", replace(head, serial=None)), tokens_per_round=2)
    with_head = seconds(head_drafter("dspark", head), tokens_per_round=2)
    assert with_head - plain == 5 * (2 * (16 * VOCABULARY + SIZE + 16) + 4 * VOCABULARY)


def test_masks_go_behind_the_committed_tokens_in_one_pass() -> None:
    head = eagle3_head(SHAPE, name="p", vocab_size=100, kind="p_eagle", n_layers=2)
    heads, model = (head_drafter("p_eagle", head), head_drafter("pard", DraftHead("pard", TARGET)))
    lengths: dict[str, Any] = {"draft_len": 6, "context_len": 50, "tokens_per_round": 3}
    for drafter, merged in ((heads, [3]), (model, [])):
        (one,) = asked(drafter, **lengths)
        assert one["sizes"] == (3 + 5, 48, 6)
        assert [work.forward_pass.query_len.tolist() for work in one["beside"]] == merged


def test_medusa_heads_look_once() -> None:
    drafter = medusa_drafter(MedusaHeads("m", n_heads=3, n_layers=1))
    (one,) = asked(drafter, draft_len=2, context_len=70, tokens_per_round=3)
    assert (one["sizes"], one["beside"]) == ((1, 70, 1), ())
    # Three residual matrices and three of output, and the logits.
    expected = 3 * 2 * (SIZE * SIZE + SIZE * VOCABULARY) + 3 * 4 * VOCABULARY
    assert seconds(drafter, draft_len=2, context_len=70, tokens_per_round=3) == expected
    assert drafter.max_draft_len == 3


def test_a_lookup_takes_time_on_the_host() -> None:
    drafter = lookup_drafter(match_rate=0.5, round_s=0.01, token_s=0.001)
    # 10 ms a round, and 1 ms for each of 0.5 * 8 * 3 proposed tokens.
    assert seconds(drafter, draft_len=3, batch_size=8) == pytest.approx(0.022)
    # Where none was measured, the published share of the verification.
    assert seconds(lookup_drafter(), verify_s=2.0, draft_len=3) == pytest.approx(2 * 0.005875)


ODD: Final = replace(TARGET, head=replace(TARGET.head, in_features=32))
NARROW: Final = eagle3_head(replace(SHAPE, hidden_size=32), name="e", vocab_size=9)
LARGE: Final = eagle3_head(SHAPE, name="e", vocab_size=1001)


@pytest.mark.parametrize(
    ("drafter", "target", "said"),
    [
        (head_drafter("eagle3", NARROW), TARGET, "^e .*32; allowed: 64.*target$"),
        (head_drafter("eagle3", LARGE), TARGET, "^e .*1001; allowed: .*1000 of target$"),
        (head_drafter("model", target_of(vocab_size=2000)), TARGET, "2000; allowed: .*1000"),
        # A shared head has the drafter's width.
        (EAGLE, ODD, "^e .*64 .*; allowed: 32.*target"),
    ],
)
def test_a_drafter_that_does_not_fit_its_target_is_refused(
    drafter: Drafter, target: Architecture, said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        drafter.describe(target)
    with pytest.raises(OptionError, match=said):
        drafter.draft(a_round(target, Ledger()))


UNSIZED: Final = replace(a_block(), block=None)


@pytest.mark.parametrize(("kind", "head", "sizes", "message"), rows("refusals", "block_sizes"))
def test_blocks_that_the_drafter_was_not_made_for_and_kinds_without_layers_are_refused(
    kind: str, head: str, sizes: dict[str, Any], message: str
) -> None:
    heads = {"usual": None, "a block of 8": a_block(), "no size": UNSIZED}
    with pytest.raises(OptionError, match=f"^{message}$"):
        head_drafter(kind, heads[head], **sizes)


def test_a_block_may_be_shorter_than_configured_and_needs_its_target() -> None:
    assert head_drafter("dflash", a_block(), block=4).max_draft_len == 3
    assert head_drafter("dflash", a_block(), drafts=4).max_draft_len == 4
    assert head_drafter("dspark", drafts=4).max_draft_len == 4
    (one,) = asked(head_drafter("dflash", UNSIZED, drafts=4), context_len=9)
    assert one["sizes"] == (5, 9, 4)
    with pytest.raises(ValueError, match="`target`"):
        head_drafter("mtp").draft(replace(a_round(TARGET, Ledger()), target=None))
