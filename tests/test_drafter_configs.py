"""Configs of drafters: what their keys mean, and what is refused."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from fuzzing import bounded
from specroof.architecture import (
    CompressedAttention,
    DraftHead,
    GroupedQueryAttention,
    LatentAttention,
    SharedCacheAttention,
)
from specroof.architecture.draft_heads import usual_mtp
from specroof.catalog import load_model
from specroof.catalog.files import bundled_names
from specroof.errors import ConfigError, OptionError
from specroof.parsers.drafters import DRAFTER_KINDS, parse_drafter_config
from test_drafter_sizes import is_read, loaded, refusal_of

# --- what the keys mean --------------------------------------------------------------------------

LAYER: Final[dict[str, Any]] = {
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
}
EAGLE3: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    **LAYER,
    "draft_vocab_size": 100,
}
DFLASH: Final[dict[str, Any]] = {
    "architectures": ["DFlashDraftModel"],
    **LAYER,
    "num_hidden_layers": 3,
    "block_size": 8,
    "dflash_config": {"target_layer_ids": [1, 5]},
}


def parsed(kind: str, config: dict[str, Any], **changes: Any) -> DraftHead:
    text = json.dumps({**config, **changes})
    head = parse_drafter_config(text, source="tiny.json", kind=kind)
    assert isinstance(head, DraftHead)
    return head


def windows(head: DraftHead) -> list[int | None]:
    return [
        block.core.window
        for layer in head.model.layers
        for block in layer.blocks * layer.count
        if isinstance(block.core, GroupedQueryAttention)
    ]


def test_eagle3_takes_three_taps_unless_told() -> None:
    assert parsed("eagle3", EAGLE3).taps == 3
    listed = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4]}}
    assert parsed("eagle3", EAGLE3, **listed).taps == 4
    assert parsed("eagle3", EAGLE3, eagle_aux_hidden_state_layer_ids=[1, 2]).taps == 2


def test_features_may_be_wider_than_the_head() -> None:
    head = parsed("eagle3", EAGLE3, target_hidden_size=256)
    assert head.target_size == 256
    (fc,) = head.fusion
    assert (fc.in_features, fc.out_features) == (3 * 256, 64)
    assert head.feature_bytes == 3 * 256 * 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 100),
        ({"draft_vocab_size": None}, 1000),
        ({"draft_vocab_size": None, "truncated_vocab_size": 50}, 50),
    ],
)
def test_a_head_without_a_draft_vocabulary_has_all_tokens(
    changes: dict[str, Any], expected: int
) -> None:
    head = parsed("eagle3", EAGLE3, **changes)
    assert head.vocab_size == head.model.head.out_features == expected


def test_p_eagle_is_eagle3_with_several_layers() -> None:
    head = parsed("p_eagle", EAGLE3, architectures=["PEagleDraftModel"], num_hidden_layers=4)
    assert (head.kind, head.model.n_layers) == ("p_eagle", 4)


def test_a_file_like_a_llama_is_told_by_its_keys() -> None:
    plain = {**LAYER, "architectures": ["LlamaForCausalLM"]}
    assert parsed("eagle", plain).kind == "eagle"
    assert parsed("eagle3", plain, truncated_vocab_size=100).kind == "eagle3"
    assert parsed("eagle3", plain, eagle_config={"use_aux_hidden_state": True}).kind == "eagle3"
    with pytest.raises(ConfigError, match=r"^tiny.json: architectures is a list of 1; allowed: "):
        parsed("eagle3", plain)


def test_windows_follow_the_list_unless_switched_off() -> None:
    three = ["sliding_attention", "full_attention", "sliding_attention"]
    sliding = {"layer_types": three, "sliding_window": 32}
    assert windows(parsed("dflash", DFLASH)) == [None] * 3
    assert sorted(windows(parsed("dflash", DFLASH, **sliding)), key=str) == [32, 32, None]
    assert windows(parsed("dflash", DFLASH, **sliding, use_sliding_window=False)) == [None] * 3
    assert windows(parsed("dflash", DFLASH, layer_types=["full_attention"] * 3)) == [None] * 3
    swa = {"target_layer_ids": [1], "use_swa": True, "swa_window_size": 16}
    assert windows(parsed("dflash", DFLASH, dflash_config=swa)) == [16] * 3


def test_a_block_of_dflash_is_an_anchor_and_drafts_and_that_of_dspark_is_all_drafts() -> None:
    dflash = parsed("dflash", DFLASH)
    assert (dflash.block, dflash.drafts, dflash.anchor_drafts) == (8, 7, False)
    markov = {"architectures": ["DSparkDraftModel"], "markov_rank": 16}
    dspark = parsed("dspark", DFLASH, **markov)
    assert (dspark.block, dspark.drafts, dspark.anchor_drafts) == (8, 8, True)
    anchored = parsed("dspark", DFLASH, **markov, sample_from_anchor=False)
    assert anchored.drafts == 7
    assert parsed("dflash", DFLASH, block_size=None).drafts is None


def test_taps_stand_in_one_of_three_places() -> None:
    bare = {**DFLASH, "dflash_config": {}}
    assert parsed("dflash", DFLASH).taps == 2
    assert parsed("dflash", bare, aux_hidden_state_layer_ids=[1, 2, 3, 4]).taps == 4
    assert parsed("dflash", bare, eagle_aux_hidden_state_layer_ids=[1]).taps == 1
    assert parsed("dflash", bare).taps == 3  # one per layer


def test_a_smaller_draft_vocabulary_brings_a_head() -> None:
    own = parsed("dflash", DFLASH, draft_vocab_size=100)
    assert (own.shares_head, own.vocab_size, own.model.head.out_features) == (False, 100, 100)
    assert parsed("dflash", DFLASH, draft_vocab_size=1000).shares_head
    assert parsed("dflash", DFLASH).shares_head


def test_a_block_sees_itself_both_ways_unless_it_is_causal() -> None:
    def causal(head: DraftHead) -> set[bool]:
        cores = [block.core for layer in head.model.layers for block in layer.blocks]
        return {core.causal for core in cores if isinstance(core, GroupedQueryAttention)}

    assert causal(parsed("dflash", DFLASH)) == {False}
    assert causal(parsed("dflash", DFLASH, is_causal=True)) == {True}
    assert causal(parsed("dflash", DFLASH, dflash_config={"causal": True})) == {True}
    assert causal(loaded("dspark", "deepseek-ai/dspark_gemma4_12b_block7")) == {False}


@pytest.mark.parametrize(
    ("kind", "elements"),
    [
        ("vanilla", 16 * 1000),
        ("gated", 16 * 1000 + 16 * (64 + 16)),
        ("rnn", 16 * 1000 + 3 * 16 * (2 * 16 + 64)),
    ],
)
def test_markov_heads_of_each_type(kind: str, elements: int) -> None:
    markov = {"architectures": ["DSparkDraftModel"], "markov_rank": 16, "markov_head_type": kind}
    serial = parsed("dspark", DFLASH, **markov).serial
    assert serial is not None
    assert serial.n_params - serial.lookup_params == elements
    confident = parsed("dspark", DFLASH, **markov, enable_confidence_head=True).serial
    assert confident is not None
    assert confident.n_params - serial.n_params == 64 + 16


def test_latent_attention_of_a_block_drafter_caches_its_latent() -> None:
    latent = {
        "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "architectures": ["DFlash2DraftModel"],
        "dflash_config": {
            "attention_mode": "mla", "target_layer_ids": [1], "block_size": 4,
            "conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 8,
        },
    }  # fmt: skip
    head = parsed("dflash", DFLASH, **latent)
    cores = [block.core for layer in head.model.layers for block in layer.blocks if block.core]
    assert cores == [LatentAttention(4, 16, 4, head_dims=(12, 8), causal=False)]
    causal = parsed("dflash", DFLASH, **latent, is_causal=True).model.layers[0].blocks[0].core
    assert causal == LatentAttention(4, 16, 4, head_dims=(12, 8))
    (kept,) = head.injection[:1]
    assert [linear.name for linear in kept.blocks[0].linears] == ["kv_a_proj_with_mqa"]


def test_dspark_inside_of_a_v4_checkpoint() -> None:
    head = loaded("dspark", "deepseek-ai/DeepSeek-V4-Flash-0731")
    assert (head.block, head.drafts, head.taps, head.model.n_layers) == (5, 5, 3, 3)
    cores = [block.core for layer in head.model.layers for block in layer.blocks]
    attention = [core for core in cores if isinstance(core, CompressedAttention)]
    assert [(core.ratio, core.window, core.compressors) for core in attention] == [(0, 128, ())]
    (kept,) = head.injection
    assert (kept.count, [one.name for one in kept.blocks[0].linears]) == (3, ["wkv"])


def test_an_assistant_reads_the_targets_cache_and_scores_the_best_clusters() -> None:
    head = loaded("mtp", "google/gemma-4-E2B-it-assistant")
    assert (head.rereads, head.target_size) == (False, 1536)
    cores = [block.core for layer in head.model.layers for block in layer.blocks if block.core]
    assert all(isinstance(core, SharedCacheAttention) for core in cores)
    # 2048 centroids, and the 128 rows of each of 32 clusters.
    assert head.model.head.out_features == 2048 + 32 * 128
    file = json.loads(json.dumps({"use_ordered_embeddings": False}))
    text = assistant(**file)
    whole = parse_drafter_config(text, source="tiny.json", kind="mtp")
    assert isinstance(whole, DraftHead)
    assert whole.model.head.out_features == 1000


def assistant(**changes: Any) -> str:
    layers = {**LAYER, "layer_types": ["full_attention"], "head_dim": 16}
    config = {
        "architectures": ["Gemma4AssistantForCausalLM"],
        "backbone_hidden_size": 32,
        "text_config": layers,
        "use_ordered_embeddings": True,
        "num_centroids": 100,
        "centroid_intermediate_top_k": 3,
    }
    return json.dumps({**config, **changes})


PARD: Final = {
    "model_type": "qwen3", **LAYER, "num_hidden_layers": 2, "head_dim": 16, "pard_token": 5
}  # fmt: skip


def test_pard_is_a_whole_model_and_pard2_takes_features() -> None:
    plain = parsed("pard", PARD)
    assert (plain.target_size, plain.fusion, plain.vocab_size) == (None, (), 1000)
    assert plain.n_params == plain.model.n_params
    second = parsed("pard", PARD, pard2_target_dim=512, pard2_target_layers=[-1, -8])
    assert (second.target_size, second.taps) == (256, 2)
    assert [(one.in_features, one.out_features) for one in second.fusion] == [(512, 64)]


def test_a_sidecar_says_how_a_drafter_is_stored() -> None:
    sidecar = json.dumps({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}})
    head = parse_drafter_config(
        json.dumps(EAGLE3), source="tiny.json", kind="eagle3", quantization_text=sidecar
    )
    assert isinstance(head, DraftHead)
    forms = {linear.weight.name for linear in head.model.layers[0].blocks[0].linears}
    assert forms == {"fp8"}
    assert (head.fusion[0].weight.name, head.model.head.weight.name) == ("bf16", "bf16")
    assert (head.model.activation_dtype, head.model.kv_dtype) == ("bf16", "bf16")


# --- draft layers of targets ---------------------------------------------------------------------

MTP_MODELS: Final = [
    "MiniMaxAI/MiniMax-M2",
    "Qwen/Qwen3.5-122B-A10B",
    "XiaomiMiMo/MiMo-7B-Base",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
    "zai-org/GLM-4.5",
    "zai-org/GLM-5.2",
]


@pytest.mark.parametrize("name", MTP_MODELS)
def test_draft_layers_are_of_the_models_own_kind(name: str) -> None:
    head, usual = loaded("mtp", name), usual_mtp(load_model(name))
    assert head.shares_head
    # What the config says and what the model's own last layer suggests: nearly the same.
    assert head.n_params == pytest.approx(head.modules * usual.n_params, rel=0.001)
    assert head.modules == (3 if "MiniMax" in name else 1)


def test_lists_of_modules_leave_the_draft_layer_alone() -> None:
    fp8 = loaded("mtp", "Qwen/Qwen3.5-122B-A10B-FP8")
    names = {
        linear.name: linear.weight.name
        for layer in fp8.model.layers
        for block in layer.blocks
        for linear in block.linears
    }
    # `mtp.fc` and the gates are listed; the projections are not.
    assert (names["eh_proj"], names["router"], names["q_proj"]) == ("bf16", "bf16", "fp8-block")
    text = json.dumps(
        {
            "model_type": "qwen3_5_text", **LAYER, "num_hidden_layers": 4, "head_dim": 16,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
            "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4, "mtp_num_hidden_layers": 1,
            "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4",
                                    "ignore": ["mtp*"]},
        }
    )  # fmt: skip
    head = parse_drafter_config(text, source="tiny.json", kind="mtp")
    assert isinstance(head, DraftHead)
    forms = {
        linear.weight.name
        for layer in head.model.layers
        for block in layer.blocks
        for linear in block.linears
    }
    assert forms == {"bf16"}


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("eagle3", {"draft_vocab_size": 1001}, "draft_vocab_size is 1001; allowed: a whole number from 1 to 1000"),
        ("eagle3", {"intermediate_size": None}, "intermediate_size is null; allowed: a whole number"),
        ("eagle3", {"num_key_value_heads": 3}, "num_key_value_heads is 3; allowed: a divisor of"),
        ("eagle3", {"eagle_config": {"use_aux_hidden_state": False}}, "eagle_config.use_aux_hidden_state is false; allowed: true"),
        ("eagle3", {"num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 8}, "layer_types is a list of 2; allowed: one kind"),
        ("eagle3", {"architectures": ["DominoDraftModel"]}, "architectures is \"DominoDraftModel\"; allowed: one of"),
        ("eagle3", {"speculators_model_type": "mlp"}, "speculators_model_type is \"mlp\"; allowed: dflash"),
        ("dflash", {}, "architectures is a list of 1; allowed: a config of a drafter of kind dflash; this one is eagle3"),
        ("eagle3", {"speculators_model_type": "dflash"}, "speculators_model_type is \"dflash\"; allowed: a config of a drafter of kind eagle3"),
    ],
)  # fmt: skip
def test_heads_that_are_none_are_refused(kind: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parsed(kind, EAGLE3, **changes)
    assert str(refusal.value).startswith(f"tiny.json: {message}")


@pytest.mark.parametrize(
    ("kind", "config", "changes", "message"),
    [
        ("eagle", LAYER, {"num_hidden_layers": 2, "architectures": ["EagleLlamaForCausalLM"]}, "num_hidden_layers is 2; allowed: 1"),
        ("dflash", DFLASH, {"block_size": 1}, "block_size is 1; allowed: a whole number from 2"),
        ("dflash", DFLASH, {"layer_types": ["sliding_attention"] * 3}, "sliding_window is missing; allowed"),
        ("dspark", DFLASH, {"architectures": ["DSparkDraftModel"]}, "dspark_markov_rank is missing; allowed"),
        ("dspark", DFLASH, {"architectures": ["DSparkDraftModel"], "markov_rank": 8, "markov_head_type": "x"}, "markov_head_type is \"x\"; allowed: gated, rnn, vanilla"),
        ("dflash", DFLASH, {"architectures": ["DFlash2DraftModel"], "dflash_config": {"conv_kernel_size": 2, "conv_group_size": 60}}, "dflash_config.conv_group_size is 60; allowed: a divisor of hidden_size (64)"),
        ("pard", PARD, {"pard2_target_dim": 511, "pard2_target_layers": [-1, -8]}, "pard2_target_dim is 511; allowed: a multiple of the 2"),
        ("mtp", PARD, {"pard_token": None}, "model_type is \"qwen3\"; allowed: one whose draft layers are known: deepseek_v3"),
    ],
)  # fmt: skip
def test_blocks_and_models_that_are_none_are_refused(
    kind: str, config: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        parsed(kind, config, **changes)
    assert str(refusal.value).startswith(f"tiny.json: {message}")


def test_assistants_that_are_none_are_refused() -> None:
    for changes, message in (
        ({"num_centroids": 300}, "num_centroids is 300; allowed: a divisor of vocab_size"),
        ({"text_config": {**LAYER, "head_dim": 16}}, "text_config.layer_types is missing"),
    ):
        with pytest.raises(ConfigError) as refusal:
            parse_drafter_config(assistant(**changes), source="tiny.json", kind="mtp")
        assert str(refusal.value).startswith(f"tiny.json: {message}")


def test_v4_files_without_draft_layers_are_refused(model_configs_folder: Path) -> None:
    file = model_configs_folder / "deepseek-ai--DeepSeek-V4-Flash-0731.json"
    config = json.loads(file.read_text())
    for changes, key in (
        ({"compress_ratios": config["compress_ratios"][:43]}, "compress_ratios"),
        ({"dspark_target_layer_ids": []}, "dspark_target_layer_ids"),
    ):
        with pytest.raises(ConfigError, match=f"^v4.json: {key} is a list"):
            parse_drafter_config(json.dumps({**config, **changes}), source="v4.json", kind="dspark")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("deepseek-ai--DeepSeek-V3", {"num_nextn_predict_layers": 0}, "num_nextn_predict_layers is 0"),
        ("deepseek-ai--DeepSeek-V3", {"num_nextn_predict_layers": None}, "num_nextn_predict_layers is null"),
        ("Qwen--Qwen3.6-27B", {"mtp_num_hidden_layers": 0}, "mtp_num_hidden_layers is 0"),
        ("nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-BF16", {"mtp_hybrid_override_pattern": None}, "mtp_hybrid_override_pattern is null"),
    ],
)  # fmt: skip
def test_checkpoints_without_a_draft_layer_are_refused(
    name: str, changes: dict[str, Any], message: str, model_configs_folder: Path
) -> None:
    config = json.loads((model_configs_folder / f"{name}.json").read_text())
    refusal = refusal_of(json.dumps({**config, **changes}), "tiny.json", "mtp")
    assert refusal is not None
    assert refusal.startswith(f"tiny.json: {message}; allowed: ")


def test_only_kinds_with_a_config_have_one() -> None:
    with pytest.raises(OptionError, match=r"^kind is 'ngram'; allowed: mtp, eagle, eagle3"):
        parse_drafter_config("{}", source="tiny.json", kind="ngram")


# --- mutations -----------------------------------------------------------------------------------

WRONG: Final[list[object]] = [None, True, 0, -1, 2**40, 1.5, "text", [], {}, [None], [-1], ["x"]]
FILES: Final = bundled_names("model_configs/drafters")


@pytest.mark.fuzz
@bounded(150, HealthCheck.function_scoped_fixture)
@given(data=st.data())
def test_a_mutated_config_is_read_or_refused_in_one_line(
    data: st.DataObject, model_configs_folder: Path
) -> None:
    name = data.draw(st.sampled_from(FILES))
    file = model_configs_folder / "drafters" / f"{name.replace('/', '--')}.json"
    config = json.loads(file.read_text())
    kind = next(kind for kind in DRAFTER_KINDS if is_read(name, kind))
    sections = [config, *(value for value in config.values() if isinstance(value, dict))]
    section = data.draw(st.sampled_from(sections))
    key = data.draw(st.sampled_from(sorted(section)))
    if data.draw(st.booleans()):
        del section[key]
    else:
        section[key] = data.draw(st.sampled_from(WRONG))
    refusal = refusal_of(json.dumps(config), "mutated.json", kind)
    if refusal is not None:
        assert refusal.startswith("mutated.json: ")
        assert "\n" not in refusal
        assert "; allowed: " in refusal
