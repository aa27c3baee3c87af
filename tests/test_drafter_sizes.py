"""Sizes of drafters: published ones, those counted by hand, the usual ones of each kind."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from specroof.architecture import (
    CompressedAttention,
    DraftHead,
    GroupedQueryAttention,
    MedusaHeads,
    medusa_head,
)
from specroof.architecture.draft_heads import (
    usual_dflash,
    usual_dspark,
    usual_eagle,
    usual_eagle3,
    usual_medusa,
    usual_mtp,
    usual_p_eagle,
)
from specroof.catalog import load_model
from specroof.catalog.files import bundled_names
from specroof.catalog.names import load_draft_config
from specroof.errors import ConfigError, OptionError
from specroof.parsers.drafters import DRAFTER_KINDS, parse_drafter_config

# --- sizes ---------------------------------------------------------------------------------------

MILLION: Final = 10**6

#: Kind, name, parameters and relative tolerance. Published figures are as round as they are
#: printed; hand counts add up the matrices of each and leave the norms out (under 0.05 %).
PUBLISHED: Final = [
    # EAGLE's README, table of weights: 0.24 B and 0.99 B.
    ("eagle", "yuhuili/EAGLE-llama2-chat-7B", 240 * MILLION, 0.02),
    ("eagle", "yuhuili/EAGLE-llama2-chat-70B", 990 * MILLION, 0.005),
    # 2H -> qkv, o, MLP of 14336, 3H -> H, H x 32000.
    ("eagle3", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", 424_700_000, 0.0005),
    # Finn 2026, "Adaptive speculative decoding": 473 956 352, norms left out.
    ("dflash", "huaxuan250/Qwen3.6-35B-A3B-DFlash-speculators", 473_956_352, 0.0005),
    # Model card of reflection/Beam-1.0-501B-A23B-DFlash2: 1.93 B, of the same width (5120).
    ("dflash", "z-lab/Qwen3.8-27B-DFlash2", 1930 * MILLION, 0.005),
    # Elements of the `mtp` tensors in the headers of the published checkpoints.
    ("mtp", "Qwen/Qwen3-Next-80B-A3B-Instruct", 1650 * MILLION, 0.0005),
    ("mtp", "Qwen/Qwen3.6-35B-A3B", 845 * MILLION, 0.0006),
    ("mtp", "Qwen/Qwen3.5-4B", 121 * MILLION, 0.004),
    ("mtp", "Qwen/Qwen3.6-27B", 425 * MILLION, 0.001),
    # README_WEIGHTS of DeepSeek-V3: 11.5 B parameters of its own.
    ("mtp", "deepseek-ai/DeepSeek-V3", 11_500 * MILLION, 0.01),
]
HAND_COUNTED: Final = [
    # q 2h*16*256, k and v 2h*4*256, o, MLP of 12288, 3h -> h, h x 32000, at h = 4096.
    (
        "eagle3",
        "community/eagle3-qwen35-9b",
        8192 * 6144 + 4096 * 4096 + 3 * 4096 * 12288 + 3 * 4096**2 + 4096 * 32000,
    ),
    # Four taps, 64 heads of 128, a window.
    (
        "eagle3",
        "vllm-speculators-issue1065/Qwen3-235B-eagle3",
        8192 * (8192 + 2 * 512) + 8192 * 4096 + 3 * 4096 * 12288 + 4 * 4096**2 + 4096 * 32000,
    ),
    # Five layers of 128 heads, 8 KV heads, MLP of 16384, five taps.
    (
        "dflash",
        "XiaomiMiMo/MiMo-V2.5-Pro-FP4-DFlash",
        5 * (2 * 6144 * 16384 + 2 * 6144 * 1024 + 3 * 6144 * 16384) + 5 * 6144**2,
    ),
    # Six layers of 32 heads and 8 KV heads, MLP of 9216, eight taps.
    (
        "dflash",
        "z-lab/Qwen3.5-4B-DFlash",
        6 * (2 * 2560 * 4096 + 2 * 2560 * 1024 + 3 * 2560 * 9216) + 8 * 2560**2,
    ),
    # As DFlash, and per layer two kernels of 2*2*(h/16) rows; a selector of rank 256 with two
    # tables of the vocabulary.
    (
        "dflash",
        "z-lab/Muse-Glimmer-30B-DFlash2",
        5 * (2 * 6656 * 4096 + 2 * 6656 * 1024 + 3 * 6656 * 19968 + 2 * 1664 * 6656)
        + 5 * 6656**2
        + 256 * 6656
        + 2 * 202048 * 256,
    ),
    # Six layers of 32 heads, 2 KV heads, MLP of 6144, six taps.
    (
        "dflash",
        "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4-DFlash",
        6 * (2 * 2688 * 4096 + 2 * 2688 * 256 + 3 * 2688 * 6144) + 6 * 2688**2,
    ),
    # The same, and tables and matrix of a Markov head of rank 512.
    (
        "dspark",
        "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4-DSpark",
        6 * (2 * 2688 * 4096 + 2 * 2688 * 256 + 3 * 2688 * 6144)
        + 6 * 2688**2
        + 2 * 131072 * 512,
    ),
    # Five Gemma layers: 16 heads of 512, one KV head whose keys are its values, MLP of 15360; five
    # taps; a Markov head of rank 256 with a confidence row.
    (
        "dspark",
        "deepseek-ai/dspark_gemma4_12b_block7",
        5 * (2 * 3840 * 8192 + 3840 * 512 + 3 * 3840 * 15360) + 5 * 3840**2 + 2 * 262144 * 256,
    ),
    # Four layers of 4 heads (three of 256, one of 512), MLP of 2048, two projections to and from
    # twice and once 1536, a table of 262144 x 256 and 2048 centroids.
    (
        "mtp",
        "google/gemma-4-E2B-it-assistant",
        3 * 2 * 256 * 1024 + 2 * 256 * 2048 + 4 * 3 * 256 * 2048
        + 3072 * 256 + 256 * 1536 + 262144 * 256 + 2048 * 256,
    ),
]  # fmt: skip


def loaded(kind: str, name: str) -> DraftHead:
    head = load_draft_config(name, kind)
    assert isinstance(head, DraftHead)
    return head


@pytest.mark.golden
@pytest.mark.parametrize(("kind", "name", "params", "tolerance"), PUBLISHED)
def test_drafters_have_the_published_parameters(
    kind: str, name: str, params: int, tolerance: float
) -> None:
    head = loaded(kind, name)
    assert head.n_params == pytest.approx(params, rel=tolerance)
    # All of them in 16 bit but for DeepSeek-V3, whose layer is FP8 in blocks.
    stored = head.model.weight_bytes + sum(linear.stored_bytes for linear in head.fusion)
    width = 1.007 if "DeepSeek" in name else 2
    assert stored == pytest.approx(width * head.n_params, rel=0.01)


@pytest.mark.parametrize(("kind", "name", "params"), HAND_COUNTED)
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
    head = parse_drafter_config(json.dumps(config), source="mimo.json", kind="mtp")
    assert isinstance(head, DraftHead)
    assert head.modules == 3
    assert head.n_params / 3 == pytest.approx(330 * MILLION, rel=0.01)
    (layer,) = head.model.layers
    assert getattr(layer.blocks[0].core, "window", None) == 128


def test_medusa_heads_count_the_weights_and_not_the_file() -> None:
    heads = load_draft_config("FasterDecoding/medusa-vicuna-7b-v1.3", "medusa")
    assert isinstance(heads, MedusaHeads)
    # Five heads of a residual matrix with bias and an output matrix: 5 * (4096^2 + 4096 + 4096 V).
    sized = medusa_head(heads, hidden_size=4096, vocab_size=32_000)
    assert sized.n_params == 5 * (4096**2 + 4096 + 4096 * 32_000)


@pytest.mark.parametrize("name", bundled_names("model_configs/drafters"))
def test_bundled_drafters_say_where_they_come_from_and_are_read(
    name: str, model_configs_folder: Path
) -> None:
    file = model_configs_folder / "drafters" / f"{name.replace('/', '--')}.json"
    assert len(json.loads(file.read_text())["_source"]) > 20
    read = [kind for kind in DRAFTER_KINDS if is_read(name, kind)]
    assert set(read) in ({"eagle", "pard"}, {"eagle3", "p_eagle"}, {read[0]})


def is_read(name: str, kind: str) -> bool:
    try:
        load_draft_config(name, kind)
    except ConfigError:
        return False
    return True


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
        refusals = [refusal_of(file.read_text(), str(file), kind) for kind in DRAFTER_KINDS]
        for refusal in refusals:
            assert refusal is None or (refusal.startswith(str(file)) and "\n" not in refusal)
        if None not in refusals:
            unread.add(file.stem)
    # A method without a parser, and excerpts that lack sizes.
    assert all("domino" in stem or "PARD2" in stem or "nebius" in stem for stem in unread)


def refusal_of(text: str, source: str, kind: str) -> str | None:
    """Return how a config is refused; None for one that is read."""
    try:
        head = parse_drafter_config(text, source=source, kind=kind)
    except ConfigError as refusal:
        return str(refusal)
    assert isinstance(head, MedusaHeads) or head.n_params > 0
    return None


# --- the usual geometry --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("meta-llama/Llama-3.1-8B", 424_689_664),  # yuhuili/EAGLE3-LLaMA3.1-Instruct-8B
        ("meta-llama/Llama-3.1-70B", 1_403_027_456),  # SpecForge llama3-70B-ealge3
        ("Qwen/Qwen3-30B-A3B", 182_984_704),  # SpecForge qwen3-30B-A3B-eagle3
        ("Qwen/Qwen3-235B-A22B", 592_461_824),  # SpecForge qwen3-235B-A22B-eagle3
        ("openai/gpt-oss-120b", 307_641_600),  # SpecForge gpt-oss-120B-eagle3
        ("Qwen/Qwen3.5-9B", 399_523_840),  # eagle3-qwen35-9b
    ],
)
def test_the_usual_eagle3_head_is_what_is_trained_for_the_target(name: str, params: int) -> None:
    # Parameters of the configs named, counted by hand as in `HAND_COUNTED`.
    assert usual_eagle3(load_model(name)).n_params == params


def test_usual_geometries_of_dense_and_of_latent_targets() -> None:
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


def test_the_usual_mtp_has_three_norms_beside_its_layer() -> None:
    # DeepSeek-V3's `enorm`, `hnorm` and that of `shared_head`.
    model = load_model("Qwen/Qwen3-8B")
    head = usual_mtp(model)
    blocks = head.model.layers[0].blocks
    assert head.n_params == sum(block.n_params for block in blocks) + 3 * 4096
    assert blocks[0].linears[0].n_params == 2 * 4096 * 4096


def test_a_usual_head_is_as_wide_as_the_widest_layer() -> None:
    # Nemotron Super 49B is Llama 3.3 70B with narrower layers, and some as they were.
    model = load_model("nvidia/Llama-3_3-Nemotron-Super-49B-v1")
    (layer,) = usual_eagle3(model).model.layers
    down = [one for block in layer.blocks for one in block.linears if one.name == "down_proj"]
    assert [one.in_features for one in down] == [28672]


def test_the_usual_draft_layer_of_v4_has_no_compressed_entries() -> None:
    (layer,) = usual_mtp(load_model("deepseek-ai/DeepSeek-V4-Pro")).model.layers
    core = layer.blocks[0].core
    assert isinstance(core, CompressedAttention)
    assert (core.ratio, core.indexer, core.compressors) == (0, None, ())
    assert not [one for one in layer.blocks[0].linears if "index" in one.name]


def test_a_target_without_attention_has_no_usual_draft_layer() -> None:
    model = load_model("Qwen/Qwen3-8B")
    only_mlp = replace(
        model,
        layers=tuple(replace(layer, blocks=layer.blocks[1:]) for layer in model.layers),
    )
    with pytest.raises(OptionError, match=r"^Qwen3-8B .*allowed: config="):
        usual_mtp(only_mlp)
