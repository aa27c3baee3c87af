"""Drafters: sizes that are published or counted by hand, and what the keys of configs mean."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from conftest import _data_folder
from specroof.architecture.attention import GroupedQueryAttention, SharedCacheAttention
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.draft_heads import (
    DraftHead,
    MedusaHeads,
    medusa_head,
    usual_dflash,
    usual_dspark,
    usual_eagle,
    usual_eagle3,
    usual_medusa,
    usual_mtp,
    usual_p_eagle,
)
from specroof.architecture.latent import LatentAttention
from specroof.catalog import load_drafter, load_model
from specroof.catalog.files import bundled_names
from specroof.catalog.names import load_draft_config
from specroof.errors import OptionError
from specroof.parsers.drafters import DRAFTER_KINDS, parse_drafter_config
from tables import present, rows, table
from test_parsers_refusals import drafter_refusal
from tiny_configs import CONFIGS, Config, windows

EAGLE3, DFLASH = (CONFIGS[name] for name in ("EAGLE3", "DFLASH"))


SIZES: Final = table("drafter_sizes")


def loaded(kind: str, name: str) -> DraftHead:
    head = load_draft_config(name, kind)
    assert isinstance(head, DraftHead)
    return head


@pytest.mark.golden
@pytest.mark.parametrize(("kind", "name", "params", "tolerance"), SIZES["published"])
def test_drafters_have_the_published_parameters(
    kind: str, name: str, params: int, tolerance: float
) -> None:
    head = loaded(kind, name)
    assert head.n_params == pytest.approx(params, rel=tolerance)
    # All of them in 16 bit but for DeepSeek-V3, whose layer is FP8 in blocks.
    stored = head.model.weight_bytes + sum(linear.stored_bytes for linear in head.fusion)
    width = 1.007 if "DeepSeek" in name else 2
    assert stored == pytest.approx(width * head.n_params, rel=0.01)


@pytest.mark.parametrize(("kind", "name", "params"), SIZES["hand_counted"])
def test_drafters_have_the_parameters_counted_by_hand(kind: str, name: str, params: int) -> None:
    assert loaded(kind, name).n_params == pytest.approx(params, rel=0.0005)


def test_a_checkpoint_is_its_model_and_its_draft_layer() -> None:
    # 81 324 862 720 elements in the header of the published checkpoint.
    name = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    assert load_model(name).n_params + loaded("mtp", name).n_params == 81_324_862_720
    # 684 489 845 504 without scales, with copies of embedding and head beside the draft layer.
    name = "deepseek-ai/DeepSeek-V3.1"
    copies = 2 * 129_280 * 7168
    assert load_model(name).n_params + loaded("mtp", name).n_params + copies == 684_489_845_504


def test_draft_layers_of_mimo_v2_are_dense_and_slide() -> None:
    # Sizes of XiaomiMiMo/MiMo-V2-Flash; its report gives 0.33 B parameters for a draft layer.
    config = {
        "model_type": "mimo_v2_flash", "hidden_size": 4096, "num_hidden_layers": 48,
        "num_attention_heads": 64, "num_key_value_heads": 4, "swa_num_key_value_heads": 8,
        "head_dim": 192, "v_head_dim": 128, "sliding_window": 128, "intermediate_size": 16384,
        "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
        "vocab_size": 152_576, "num_nextn_predict_layers": 3,
    }  # fmt: skip
    head = parsed("mtp", config)
    assert head.modules == 3
    assert head.n_params / 3 == pytest.approx(330e6, rel=0.01)
    (layer,) = head.model.layers
    assert getattr(layer.blocks[0].core, "window", None) == 128


def test_medusa_heads_count_the_weights_and_not_the_file() -> None:
    heads = load_draft_config("FasterDecoding/medusa-vicuna-7b-v1.3", "medusa")
    assert isinstance(heads, MedusaHeads)
    # Five heads of a residual matrix with bias and an output matrix: 5 * (4096^2 + 4096 + 4096 V).
    sized = medusa_head(heads, hidden_size=4096, vocab_size=32_000)
    assert sized.n_params == 5 * (4096**2 + 4096 + 4096 * 32_000)


def is_read(name: str, kind: str) -> bool:
    file = _data_folder("model_configs") / "drafters" / f"{name.replace('/', '--')}.json"
    return drafter_refusal(file.read_text("utf-8"), "c.json", kind) is None


@pytest.mark.parametrize("name", bundled_names("model_configs/drafters"))
def test_bundled_drafters_say_where_they_come_from_and_are_read(
    name: str, model_configs_folder: Path
) -> None:
    file = model_configs_folder / "drafters" / f"{name.replace('/', '--')}.json"
    assert len(json.loads(file.read_text())["_source"]) > 20
    read = [kind for kind in DRAFTER_KINDS if is_read(name, kind)]
    assert set(read) in ({"eagle", "pard"}, {"eagle3", "p_eagle"}, {read[0]})


def test_bundled_drafters_are_the_real_ones(real_configs: Path) -> None:
    for name in bundled_names("model_configs/drafters"):
        stem = name.replace("/", "--").removeprefix("community--")
        files = [
            file
            for folder in ("drafters", "reconstructed/drafters")
            for file in (real_configs / folder).glob("*.json")
            if file.stem.startswith(stem)
        ]
        for file in files:
            kind = next(kind for kind in DRAFTER_KINDS if is_read(name, kind))
            real = parse_drafter_config(file.read_text(), source=str(file), kind=kind, name="one")
            ours = load_draft_config(name, kind)
            if isinstance(real, DraftHead) and isinstance(ours, DraftHead):
                assert renamed(ours) == renamed(real)
    assert len(bundled_names("model_configs/drafters")) >= 12


def renamed(head: DraftHead) -> DraftHead:
    """Return a drafter with the names of its parts made alike."""
    serial = None if head.serial is None else replace(head.serial, name="one")
    return replace(head, model=replace(head.model, name="one"), serial=serial)


@pytest.mark.parametrize("folder", ["drafters", "reconstructed/drafters"])
def test_real_files_are_read_or_refused_in_one_line(folder: str, real_configs: Path) -> None:
    unread = set()
    for file in sorted((real_configs / folder).glob("*.json")):
        refusals = [drafter_refusal(file.read_text(), str(file), kind) for kind in DRAFTER_KINDS]
        for refusal in refusals:
            assert refusal is None or (refusal.startswith(str(file)) and "\n" not in refusal)
        if None not in refusals:
            unread.add(file.stem)
    # A method without a parser, and excerpts that lack sizes.
    assert all("domino" in stem or "PARD2" in stem or "nebius" in stem for stem in unread)


@pytest.mark.parametrize(("name", "params"), SIZES["usual_eagle3"])
def test_the_usual_eagle3_head_is_what_is_trained_for_the_target(name: str, params: int) -> None:
    assert usual_eagle3(load_model(name)).n_params == params


def test_usual_geometries_of_targets() -> None:
    dense, latent = load_model("Qwen/Qwen3-8B"), load_model("deepseek-ai/DeepSeek-V3")
    # SpecForge qwen3-8b-dflash: five layers of 32 heads and MLP of 12288, five taps.
    assert usual_dflash(dense).n_params == 1_048_626_432
    assert usual_dspark(dense).n_params - usual_dflash(dense).n_params == (
        2 * 151_936 * 256 + 4096 + 256
    )
    assert usual_p_eagle(dense).n_params == 978_362_368  # SpecForge qwen3-8b-peagle
    assert usual_medusa(dense).n_params == 5 * (4096**2 + 4096 + 4096 * 151_936)
    assert usual_eagle(load_model("meta-llama/Llama-2-7b-hf")).n_params == 235_937_792
    # 56 heads of 128 and 8 KV heads, as SpecForge has for DeepSeek-V3; its MLP is narrower.
    heads = [block.core for layer in usual_eagle3(latent).model.layers for block in layer.blocks]
    assert heads[0] == GroupedQueryAttention(56, 8, 128, 128)
    assert usual_dflash(latent).model.layers[0].blocks[1].linears[1].in_features == 3 * 7168
    # Beside its layer the MTP has DeepSeek-V3's `enorm`, `hnorm` and that of `shared_head`.
    blocks = usual_mtp(dense).model.layers[0].blocks
    assert usual_mtp(dense).n_params == sum(block.n_params for block in blocks) + 3 * 4096
    assert blocks[0].linears[0].n_params == 2 * 4096 * 4096
    # Nemotron Super 49B is Llama 3.3 70B with narrower layers, and some as they were.
    (layer,) = usual_eagle3(load_model("nvidia/Llama-3_3-Nemotron-Super-49B-v1")).model.layers
    down = [one for block in layer.blocks for one in block.linears if one.name == "down_proj"]
    assert [one.in_features for one in down] == [28672]
    # DeepSeek-V4's draft layer has no compressed entries.
    (layer,) = usual_mtp(load_model("deepseek-ai/DeepSeek-V4-Pro")).model.layers
    core = layer.blocks[0].core
    assert isinstance(core, CompressedAttention)
    assert (core.ratio, core.indexer, core.compressors) == (0, None, ())
    assert not [one for one in layer.blocks[0].linears if "index" in one.name]


def test_a_target_without_attention_has_no_usual_draft_layer() -> None:
    model = load_model("Qwen/Qwen3-8B")
    only_mlp = replace(
        model, layers=tuple(replace(layer, blocks=layer.blocks[1:]) for layer in model.layers)
    )
    with pytest.raises(OptionError, match=r"^Qwen3-8B .*allowed: config="):
        usual_mtp(only_mlp)


def forms(head: DraftHead) -> dict[str, str]:
    """Return the format of each matrix of the layers."""
    blocks = [block for layer in head.model.layers for block in layer.blocks]
    return {linear.name: linear.weight.name for block in blocks for linear in block.linears}


def parsed(kind: str, config: dict[str, Any], **changes: Any) -> DraftHead:
    text = json.dumps({**config, **changes})
    head = parse_drafter_config(text, source="tiny.json", kind=kind)
    assert isinstance(head, DraftHead)
    return head


@pytest.mark.parametrize(("kind", "name", "changes", "expected"), SIZES["keys"])
def test_what_the_keys_of_a_drafter_mean(
    kind: str, name: str, changes: Config, expected: Config
) -> None:
    config = CONFIGS[name] | changes
    head = parsed(kind, config)
    said = {"windows": windows(head.model), "fusion": [*head.fusion]}
    assert {key: said.get(key, getattr(head, key, None)) for key in expected} == expected
    if not head.shares_head:
        assert head.vocab_size == head.model.head.out_features
    assert head.model.n_layers == config["num_hidden_layers"]


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
    serial = present(parsed("dspark", DFLASH, **markov).serial)
    assert serial.n_params - serial.lookup_params == elements
    confident = present(parsed("dspark", DFLASH, **markov, enable_confidence_head=True).serial)
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
    whole = parsed("mtp", CONFIGS["ASSISTANT"], use_ordered_embeddings=False)
    assert whole.model.head.out_features == 1000


def test_a_sidecar_says_how_a_drafter_is_stored() -> None:
    sidecar = json.dumps({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}})
    head = parse_drafter_config(
        json.dumps(EAGLE3), source="tiny.json", kind="eagle3", quantization_text=sidecar
    )
    assert isinstance(head, DraftHead)
    assert {*forms(head).values()} == {"fp8"}
    assert (head.fusion[0].weight.name, head.model.head.weight.name) == ("bf16", "bf16")
    assert (head.model.activation_dtype, head.model.kv_dtype) == ("bf16", "bf16")


def test_lists_of_modules_leave_the_draft_layer_alone() -> None:
    # `mtp.fc` and the gates are listed; the projections are not.
    names = forms(loaded("mtp", "Qwen/Qwen3.5-122B-A10B-FP8"))
    assert (names["eh_proj"], names["router"], names["q_proj"]) == ("bf16", "bf16", "fp8-block")
    qwen = CONFIGS["TINY_HYBRID"] | {"model_type": "qwen3_5_moe_text", "mtp_num_hidden_layers": 1}
    section = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["mtp*"]}
    head = parsed("mtp", qwen, head_dim=16, quantization_config=section)
    assert {*forms(head).values()} == {"bf16"}


MTP_MODELS: Final = rows("values", "mtp_models")


@pytest.mark.parametrize("name", MTP_MODELS)
def test_draft_layers_are_of_the_models_own_kind(name: str) -> None:
    head, usual = loaded("mtp", name), usual_mtp(load_model(name))
    assert head.shares_head
    # What the config says and what the model's own last layer suggests: nearly the same.
    assert head.n_params == pytest.approx(head.modules * usual.n_params, rel=0.001)
    assert head.modules == (3 if "MiniMax" in name else 1)


@pytest.mark.parametrize(("spec", "params", "more_bytes"), SIZES["designed"])
def test_a_head_by_its_keys_is_counted_by_hand(spec: str, params: int, more_bytes: int) -> None:
    head = present(load_drafter(spec).held(load_model("Qwen/Qwen3-8B")).head)
    assert head.n_params == params
    stored = head.model.weight_bytes + sum(linear.stored_bytes for linear in head.fusion)
    assert stored == 2 * params + more_bytes
