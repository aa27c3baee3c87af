"""Whole configs: what their keys mean, their quantised weights, and one read as another family."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from effort import cpu_bound
from specroof import load_hardware, load_model
from specroof.architecture.draft_heads import DraftHead, usual_mtp
from specroof.architecture.experts import Experts
from specroof.architecture.model import VisionTower
from specroof.cost import Options
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import ConfigError, OptionError
from specroof.latency.model import memory_notes
from specroof.latency.setup import engine_setup
from specroof.parsers import PARSERS, parse_config
from specroof.parsers.decoder import tied_embeddings
from specroof.parsers.drafters import parse_drafter_config
from specroof.parsers.formats import ModuleNames
from specroof.reading.json_text import Reader
from tables import rows, table
from tiny_configs import (
    CONFIGS,
    FP8_BLOCKS,
    STATED,
    TINY,
    TINY_COMPRESSED,
    TINY_LATENT,
    Config,
    anonymous,
    cores,
    experts,
    formats,
    left_out,
    linears,
    model_of,
    of,
    parse,
    plain,
    quantized,
    refused,
)

KEY = "tie_word_embeddings"
EXPERTS = of("TINY_EXPERTS", "num_local_experts", "shared_expert_intermediate_size")
MOE = EXPERTS | STATED
COMPRESSED = (
    of("TINY_COMPRESSED", *("intermediate_size", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim"))
    | STATED
)
LATENT = of("TINY_LATENT", "index_n_heads", "index_head_dim", "index_topk") | STATED
MIXED = of("MIMO", "num_experts", "num_local_experts", "shared_expert_intermediate_size") | STATED
COMMAND_R = CONFIGS["COMMAND_R"]


UNHEARD: Config = TINY | STATED | {"model_type": "x"}
DEEP: Config = {}
for _ in range(300):
    DEEP = {"deeper": DEEP}
BASES: dict[str, Config] = {
    **CONFIGS, "UNHEARD": UNHEARD, "MOE": MOE, "COMPRESSED": COMPRESSED, "LATENT": LATENT,
    "MIXED": MIXED, "STATED_LATENT": TINY_LATENT | STATED, "DEEP": TINY | {"more": DEEP}, "SMALL": {},
}  # fmt: skip


@pytest.mark.parametrize(("keys", "activation", "weight"), rows("values", "activation_dtypes"))
def test_activations_have_the_stated_dtype(keys: Config, activation: str, weight: str) -> None:
    model = parse(TINY | keys)
    assert (model.activation_dtype, model.kv_dtype) == (activation, activation)
    assert linears(model)["q_proj"].weight.name == model.head.weight.name == weight


@pytest.mark.parametrize(("section", "kv_dtype"), rows("values", "kv_schemes"))
def test_a_kv_scheme_narrows_the_cache(section: Config, kv_dtype: str) -> None:
    stated = section | {"quant_method": "modelopt", "quant_algo": "FP8"}
    assert parse(TINY | {"quantization_config": stated}).kv_dtype == kv_dtype


def test_the_sidecar_counts_where_the_config_says_nothing() -> None:
    sidecar = {
        "producer": {"name": "modelopt"},
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8",
            "group_size": 16,
            "exclude_modules": ["lm_head", "model.layers.0.self_attn*"],
        },
    }
    model = parse(TINY, sidecar)
    assert linears(model, 0)["q_proj"].weight.name == "bf16"
    assert linears(model, 0)["down_proj"].weight.name == "nvfp4"
    assert linears(model, 1)["q_proj"].weight.name == "nvfp4"
    assert model.kv_dtype == "fp8"
    bare = parse(TINY, {"quant_algo": "FP8"})  # without the outer object
    assert linears(bare)["q_proj"].weight.name == "fp8"


def test_a_multimodal_file_is_its_language_model() -> None:
    inner = TINY | {"model_type": "qwen3", "head_dim": 16}
    outer = {"model_type": "some_vl", "vision_config": {"depth": 2}, "text_config": inner}
    model = parse(outer)
    assert anonymous(model) == anonymous(parse(inner))
    assert model.family == "qwen3"
    assert model.notes == ("vision tower left out",)
    assert model.vision == VisionTower(depth=2)
    assert parse(inner).vision is None
    untyped = {key: value for key, value in inner.items() if key != "model_type"}
    assert parse({"model_type": "qwen3", "text_config": untyped}).family == "qwen3"


def test_an_omni_file_is_the_language_model_of_its_thinker() -> None:
    inner = TINY | {"model_type": "qwen2_5_omni_text"}
    thinker = {"text_config": inner, "vision_config": {}, "audio_config": {}}
    # Of the ties, the thinker's count: Qwen2_5OmniThinkerForConditionalGeneration has the head.
    outer: Config = {"model_type": "qwen2_5_omni", "talker_config": {}, "dtype": "float16"}
    model = parse(outer | {"thinker_config": thinker, "tie_word_embeddings": True})
    assert anonymous(model) == anonymous(parse(inner | {"dtype": "float16"}))
    assert (model.family, model.tied_embeddings) == ("qwen2_5_omni_text", False)
    assert model.notes == ("vision tower left out", "audio tower left out", "talker left out")
    assert parse(outer | {"thinker_config": thinker | {KEY: True}}).tied_embeddings
    packed = outer | {"thinker_config": thinker, "quantization_config": FP8_BLOCKS}
    assert "fp8-block" in formats(parse(packed))
    few = {"thinker_config": {"text_config": inner | {"num_attention_heads": 0}}}
    assert refused(outer | few).startswith("thinker_config.text_config.num_attention_heads is 0")


def test_prompts_that_see_themselves_both_ways_decode_as_the_text_model_does() -> None:
    inner = TINY | {"model_type": "gemma", "head_dim": 16, "num_image_tokens": 256}
    both = {"text_config": inner | {"use_bidirectional_attention": True}}
    model = parse(both | {"model_type": "paligemma"})
    assert anonymous(model) == anonymous(parse(inner))
    assert model.notes[0].startswith("its prompts see themselves both ways")
    assert len(model.notes) == 1
    assert refused(both | {"model_type": "other"}).startswith("text_config.use_bidirectional_")


def test_a_model_is_called_what_the_caller_or_the_file_calls_it() -> None:
    assert parse(TINY, name="mine").name == "mine"
    assert parse(TINY, source="folder/Org--Model-1.5B.json").name == "Org/Model-1.5B"


def test_a_config_can_be_read_as_another_family() -> None:
    unknown = TINY | STATED | {"model_type": "brand_new"}
    model = parse(unknown, family="llama")
    assert anonymous(model) == anonymous(parse(TINY))
    (note,) = model.notes
    assert re.search("llama.* model_type brand_new$", note)
    assert parse(TINY, family="llama").notes == ()
    untyped = {key: value for key, value in unknown.items() if key != "model_type"}
    (note,) = parse(untyped, family="llama").notes
    assert re.search(r"llama.* model_type \(missing\)$", note)
    with pytest.raises(OptionError, match=r"family is 'lama'; allowed: .*\bllama\b"):
        parse(TINY, family="lama")


UNDERSTOOD = "not understood, and may change what the model costs: "


@pytest.mark.parametrize(
    ("base", "keys", "named"),
    [
        *rows("values", "unknown_keys"),
        ("TINY", {f"key{n}": 1 for n in range(5000)},
         "key0, key1, key2, key3, key4, key5 and 4994 more"),
    ],
)  # fmt: skip
def test_keys_that_nobody_knows_are_named(base: str, keys: Config, named: str) -> None:
    assert parse(BASES[base] | keys).notes == ((f"{UNDERSTOOD}{named}",) if named else ())
    (note,) = parse(TINY | {"\x1b[2J" + "x" * 5000: 1}).notes
    assert note.isprintable()
    assert len(note) < 200


def test_keys_beside_a_language_model_are_read_or_named() -> None:
    beside = {"compression_config": {"quant_method": "fp8"}, "image_size": 7, "n_streams": 4}
    model = parse({"text_config": TINY, "vocab_size": 7, **beside})
    assert {one.weight.name for one in linears(model).values()} == {"fp8"}
    assert model.notes == (f"{UNDERSTOOD}n_streams",)


def test_layers_that_differ_are_refused_where_no_parser_reads_them() -> None:
    layers = {"per_layer_config": {"1": {"num_key_value_heads": 1}}}
    message = "per_layer_config is an object; allowed: none: layers of this family are"
    assert refused(TINY | layers).startswith(message)
    assert parse(TINY | {"per_layer_config": {}}).notes == ()


@pytest.mark.parametrize(
    ("base", "changes", "model_type", "advice"), rows("values", "families_that_fit")
)
def test_an_unknown_type_is_told_which_family_its_keys_fit(
    base: str, changes: Config, model_type: str | None, advice: str
) -> None:
    config = BASES[base] | changes
    told = {"model_type": model_type} if model_type else {}
    message = refused({key: config[key] for key in config if key != "model_type"} | told)
    shown = f'"{model_type}"' if model_type else "missing"
    shown = f"model_type is {shown}"
    assert message.startswith(f"{shown}; allowed: one of {len(PARSERS)} known types, ")
    assert message.endswith(advice)


@pytest.mark.parametrize(("outer", "text", "counted"), rows("values", "tied_heads"))
def test_which_level_says_that_the_head_is_the_embedding(
    outer: str, text: str, counted: str
) -> None:
    levels = [Reader("c.json", {KEY: tie}) for tie in (None, True, False)]
    tied = [
        [
            tied_embeddings(
                replace(top, values={**top.values, "model_type": outer}),
                inner,
                text,
                default=text.startswith(("gemma", "hunyuan", "paddle")),
            )
            for inner in levels
        ]
        for top in levels
    ]
    assert " ".join("".join(str(int(one)) for one in row) for row in tied) == counted


@pytest.mark.parametrize(("base", "changes", "family", "key"), rows("values", "unsaid_keys"))
def test_what_a_file_does_not_say_is_refused(
    base: str, changes: Config, family: str, key: str
) -> None:
    config = BASES[base] | changes
    assert key in refused(config, family=family).split(";")[0]
    # nor is that family said to fit
    message = refused(config | {"model_type": "unheard"})
    assert not message.endswith(f"its keys fit {family}, try --family {family}")


def test_what_a_file_says_is_read_as_another_family() -> None:
    llama3: Config = {"factor": 8.0, "low_freq_factor": 1.0, "mrope_section": [16, 24, 24]}
    for name in ("rope_scaling", "rope_parameters"):
        scaled = UNHEARD | {name: llama3, "max_position_embeddings": 8192}
        assert parse(scaled, family="llama").positions == 65536
        assert not [note for note in parse(scaled | {"model_type": "llama"}).notes if name in note]
    off = UNHEARD | {"sliding_window": 512, "use_sliding_window": False}
    for config in (off, off | {"use_sliding_window": True, "max_window_layers": 0}):
        assert parse(config, family="qwen3").n_layers == 2
    whole = COMMAND_R | {"head_dim": 128, "tie_word_embeddings": True}
    # the table of 256000 x 8192 is stored once; a second norm in each layer is all that differs
    read, own = parse(whole, family="llama"), parse(COMMAND_R)
    assert read.n_params - own.n_params == 40 * 8192


def test_a_part_that_is_not_there_needs_no_key() -> None:
    # decoder_sparse_step 1 and mlp_only_layers []: all layers have experts
    config = TINY | STATED | {"num_experts": 8, "num_experts_per_tok": 2}
    config |= {"moe_intermediate_size": 32, "model_type": "x"}
    own = parse(config | {"model_type": "qwen3_moe"})
    assert anonymous(parse(config, family="qwen3_moe")) == anonymous(own)


@pytest.mark.parametrize("name", ["Qwen--Qwen3-8B", "google--gemma-3n-E4B", "openai--gpt-oss-20b"])
def test_a_checkpoint_as_any_family_is_refused_for_what_it_leaves_out(
    name: str, model_configs_folder: Path
) -> None:
    text = (model_configs_folder / f"{name}.json").read_text(encoding="utf-8")
    own = parse_config(text, source="c.json")
    for family in PARSERS:
        if family.removesuffix("_text") == own.family.removesuffix("_text"):
            continue
        with pytest.raises(ConfigError, match=r"^c\.json: "):
            parse_config(text, source="c.json", family=family)


@pytest.mark.slow
def test_what_fits_has_the_sizes_of_the_model(real_configs: Path) -> None:
    n_fit = 0
    for file in sorted(real_configs.glob("*.json")):
        text = file.read_text(encoding="utf-8")
        config = json.loads(text)
        typed = config.get("text_config", config)
        if file.name.endswith(".hf_quant_config.json") or "model_type" not in typed:
            continue
        typed["model_type"] = "unheard"
        fit = re.search(r"its keys fit (\S+), try", refused(config))
        if fit is None:
            continue
        own = parse_config(text, source=file.name)
        read = parse_config(json.dumps(config), source=file.name, family=fit[1])
        # norms of heads, biases of projections and of experts are what families differ in
        assert read.n_params == pytest.approx(own.n_params, rel=1e-4), file.name
        caches = [
            float(kv_cache_bytes(model, 32768, Options(kv_dtype="bf16"))) for model in (read, own)
        ]
        assert caches[0] == caches[1], file.name
        n_fit += 1
    assert n_fit >= 60


@pytest.mark.parametrize(("keys", "reached"), rows("values", "scaled_positions"))
def test_positions_reach_as_far_as_they_are_scaled(keys: Config, reached: int | None) -> None:
    assert parse(TINY | keys).positions == reached


def test_requests_beyond_the_positions_of_a_model_are_told() -> None:
    llama = load_model("meta-llama/Llama-3.2-1B-Instruct")
    assert llama.positions == 131072  # as published
    qwen = load_model("Qwen/Qwen3-8B")  # 40960 of them
    chip = engine_setup(load_hardware("b200"), "vllm", None, None)
    one = np.array([1.0])
    notes = [[*memory_notes(qwen, chip, np.array([n]), one)] for n in (40960.0, 40961.0)]
    notes += [[*memory_notes(llama, chip, np.array([40961.0]), one, drafting=qwen)]]
    said = [["40960 tokens" in note for note in told] for told in notes]
    assert said == [[], [True], [True]]


# --- configs that transformers 5.23 has read and saved again --------------------------------------

# Most are rows of data/family_layers.yaml (`same`), and refusals of data/refused_configs.yaml.
CSA, HCA = "compressed_sparse_attention", "heavily_compressed_attention"


def test_layers_of_gemma_4_have_the_heads_that_they_say() -> None:
    # Gemma4TextConfig reads global_head_dim only where there is no per_layer_config
    keys = {"attention_k_eq_v": True, "num_global_key_value_heads": 1}
    plain = model_of("GEMMA4", **keys, per_layer_config={})
    assert {(core.head_dim, core.n_kv_heads) for core in cores(plain)} == {(8, 2)}
    model = model_of("GEMMA4", **keys, per_layer_config={"0": {"head_dim": 32}})
    sliding = [core for core in cores(model) if core.window]
    assert sorted((core.head_dim, core.window) for core in sliding) == [(8, 512), (32, 512)]
    endless = refused(of("GEMMA4", per_layer_config={"9" * 5000: {}}))
    assert endless.startswith("per_layer_config.")
    # Step's heads of one layer
    saved = of("STEP", "attention_other_setting", num_sliding_attention_heads=6)
    step = parse(saved | {"per_layer_config": {"3": {"num_attention_heads": 8}}})
    assert sorted(core.n_heads for core in cores(step)) == [4, 4, 4, 8]


SAVED_V4 = of(
    "TINY_COMPRESSED",
    "compress_ratios",
    layer_types=["sliding_attention", CSA, HCA, CSA],
    mlp_layer_types=["hash_moe", "moe", "moe", "moe"],
)


def test_rates_and_hashed_layers_of_deepseek_v4_are_read() -> None:
    model = parse(SAVED_V4 | {"compress_rates": {CSA: 8, HCA: 32}})
    indexers = {core.ratio: core.indexer is not None for core in cores(model)}
    assert indexers == {0: False, 8: True, 32: False}
    hashed = parse(SAVED_V4 | {"mlp_layer_types": ["moe", "moe", "moe", "hash_moe"]})
    # one more kind of layer: layers 1 and 3 do the same but for who picks the experts
    assert len(hashed.layers) == len(parse(SAVED_V4).layers) + 1


def latent_of(model_type: str, *kinds: str) -> Config:
    listed = {"mlp_layer_types": list(kinds)} if kinds else {}
    return {**TINY_LATENT, "model_type": model_type, **listed}


@pytest.mark.parametrize(
    ("published", "saved"),
    [
        (of("TINY_COMPRESSED"), SAVED_V4),
        (latent_of("deepseek_v32"), latent_of("deepseek_v32", *["dense"] * 3, "sparse")),
        (latent_of("glm4_moe_lite"), latent_of("glm4_moe_lite", "dense", *["sparse"] * 3)),
    ],
)
def test_the_draft_layer_is_none_of_those_that_are_listed(published: Config, saved: Config) -> None:
    one, other = (
        parse_drafter_config(
            json.dumps(config | {"num_nextn_predict_layers": 1}), source="c.json", kind="mtp"
        )
        for config in (published, saved)
    )
    assert one == other


@pytest.mark.parametrize(
    ("keys", "modules"),
    [
        ({"num_nextn_predict_layers": 3}, 3),
        ({"num_mtp_modules": 7, "num_nextn_predict_layers": 1}, 7),  # MiniMax-M3
        # vLLM, config/speculative.py, of Qwen4: the second where the first is not stated
        ({"num_nextn_predict_layers": 3, "mtp_num_hidden_layers": 1}, 1),
        ({"mtp_num_hidden_layers": None, "num_nextn_predict_layers": 2}, 2),
        ({"num_mtp_layers": 2}, 2),
    ],
)
def test_mtp_has_the_modules_of_a_config_named_or_not(keys: Config, modules: int) -> None:
    text = json.dumps(latent_of("deepseek_v32") | keys)
    usual = usual_mtp(parse_config(text, source="c.json"))
    named = parse_drafter_config(text, source="c.json", kind="mtp")
    assert isinstance(named, DraftHead)
    assert usual.modules == named.modules == modules
    assert usual.n_params == pytest.approx(named.n_params, rel=0.01)  # but for norms


# --- quantised weights: bytes, arithmetic, and which matrices stay as they are -------------------


@pytest.mark.parametrize(
    ("section", "name", "element_bytes", "compute_dtype"), table("weight_formats"), ids=str
)
def test_a_form_of_quantisation_has_its_bytes_and_arithmetic(
    section: Config, name: str, element_bytes: float, compute_dtype: str
) -> None:
    model = parse(TINY | {"quantization_config": section})
    found = {linear.weight for linear in linears(model).values()}
    assert {(form.name, form.compute_dtype) for form in found} == {(name, compute_dtype)}
    assert [form.element_bytes for form in found] == pytest.approx([element_bytes])
    # Servers read the head of ModelOpt as the rest, those of other tools only where it is named.
    head = name if "quant_algo" in section else "bf16"
    assert model.head.weight.name == head


def test_a_module_that_a_group_names_is_in_no_group_of_all() -> None:
    # vLLM, compressed_tensors/utils.py, find_matched_target: names before classes.
    def group(bits: int, kind: str, *targets: str) -> Config:
        return {"targets": targets, "weights": {"num_bits": bits, "type": kind, "group_size": None}}

    groups = {
        "a": group(4, "int", "Linear", "re:.*lm_head"),
        "b": group(8, "float", "re:.*down_proj"),
    }
    section = {"quant_method": "compressed-tensors", "config_groups": groups}
    model = parse(TINY | {"quantization_config": section})
    found = {name: linear.weight.name for name, linear in linears(model).items()}
    assert found == dict.fromkeys(found, "int4") | {"down_proj": "fp8"}
    assert model.head.weight.name == "int4"


@pytest.mark.parametrize(
    ("section", "bits"),
    [({"group_size": 64, "bits": 4}, 4.5), ({"group_size": 32, "bits": 8, "mode": "mxfp8"}, 8.25)],
)
def test_files_of_mlx_say_their_bits(section: Config, bits: float) -> None:
    # A scale and an offset of 16 bits for 64 elements, or 8 bits for 32: every matrix, both tables.
    (alone, both) = (
        parse(TINY | dict.fromkeys(keys, section))
        for keys in (["quantization"], ["quantization", "quantization_config"])
    )
    assert {8 * linear.weight.element_bytes for linear in linears(alone).values()} == {bits}
    assert 8 * alone.head.weight.element_bytes == bits
    assert (alone.layers, alone.notes) == (both.layers, both.notes)
    assert "mlx-lm" in alone.notes[-1]
    nested = parse({"text_config": TINY | {"quantization_config": section}})
    assert nested.layers == alone.layers
    # mlx-lm leaves what is false unquantised, and has a format of its own for what is an object.
    own = section | {"lm_head": False, "model.embed_tokens": {"bits": 8}}
    named = "quantization.lm_head, quantization.model.embed_tokens"
    assert parse(TINY | {"quantization": own}).notes[-1] == f"{UNDERSTOOD}{named}"
    # Nobody reads a draft head of such a file.
    with pytest.raises(ConfigError, match="quant_method is missing"):
        parse_drafter_config(
            json.dumps(TINY | {"quantization_config": section}), source="d.json", kind="eagle"
        )


@pytest.mark.parametrize(("entry", "plain"), rows("values", "ignored_modules"))
def test_an_ignored_module_stays_plain(entry: str, plain: list[list[str]]) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": [entry]}
    # A layer alone, then both: were the two merged wrongly, their counts would tell.
    model = parse(TINY | {"quantization_config": section})
    layers = [index for index, layer in enumerate(model.layers) for _ in range(layer.count)]
    assert [
        sorted(
            name for name, linear in linears(model, layer).items() if linear.weight.name == "bf16"
        )
        for layer in layers
    ] == plain


@pytest.mark.parametrize(("entry", "layers"), rows("values", "wildcards"))
def test_a_wildcard_tells_layers_apart(entry: str, layers: list[int]) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": [entry]}
    model = parse(TINY | {"num_hidden_layers": 12, "quantization_config": section})
    assert [layer.count for layer in model.layers] == layers


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32}


@pytest.mark.parametrize("entry", ["model.layers.0.", "layers.1", "attn.q", "visual", "layers.1_"])
def test_a_list_of_awq_holds_parts_of_names(entry: str) -> None:
    section = AWQ | {"modules_to_not_convert": [entry]}
    model = quantized(TINY | {"num_hidden_layers": 12}, section)
    kept = [n for n in range(len(model.layers)) if "q_proj" in plain(model, n)]
    names = [f"model.layers.{n}.self_attn.q_proj" for n in range(12)]
    # vLLM 0.33.0 quantization/utils/quant_utils.py:631
    assert sum(model.layers[n].count for n in kept) == sum(entry in name for name in names)


def test_routed_experts_are_one_module_of_a_list_of_awq() -> None:
    # RoutedExperts has the prefix "…mlp.experts" (vLLM 0.33.0 quantization/auto_awq.py:337).
    for entry, form in [("gate", "int4"), ("experts.0.gate_proj", "int4"), ("mlp.experts", "bf16")]:
        section = AWQ | {"modules_to_not_convert": [entry]}
        model = quantized(MOE | {"model_type": "qwen3_moe"}, section)
        assert experts(model)[0].weight.name == form, entry


@pytest.mark.parametrize(
    ("name", "changes", "section", "layer", "expected", "others_stay"),
    rows("quantised_modules", "rows"),
)
def test_modules_have_formats_of_their_own(
    name: str, changes: Config, section: Config, layer: int, expected: Config, others_stay: bool
) -> None:
    model = quantized(of(name, **changes), section)
    found = {matrix: one.weight.name for matrix, one in linears(model, layer).items()}
    found["lm_head"] = model.head.weight.name
    if experts(model):
        found["experts"] = experts(model)[0].weight.name
    assert {matrix: found[matrix] for matrix in expected} == expected
    if others_stay:
        assert {found[matrix] for matrix in found.keys() - expected} <= {"bf16"}


@pytest.mark.parametrize(
    ("name", "changes", "entries", "layer", "kept"), rows("values", "listed_modules")
)
def test_a_list_names_modules_in_the_words_of_the_family(
    name: str, changes: Config, entries: list[str], layer: int, kept: list[str]
) -> None:
    model = quantized(of(name, **changes), FP8_BLOCKS | {"modules_to_not_convert": entries})
    found = {name.removesuffix("_proj") for name in plain(model, layer)}
    for block in model.layers[layer].blocks:
        if isinstance(block.core, Experts) and block.core.weight.name == "bf16":
            found.add("experts")
    assert sorted(found) == kept


def test_experts_of_converted_deepseek_v4_are_as_the_config_says() -> None:
    # experts of converted builds of DeepSeek-V4 are FP8 unless the config says more
    for keys, expected in (
        ({}, "fp8"),
        ({"expert_dtype": "fp8"}, "fp8"),
        ({"expert_dtype": "fp4"}, "fp4"),
    ):
        config = of("TINY_COMPRESSED", **keys)
        model = quantized(config | {"model_type": "deepseek_ref"}, FP8_BLOCKS)
        assert len(left_out(model)) == (not keys)
        stated = quantized(config | {"expert_dtype": expected}, FP8_BLOCKS)
        assert model.layers == stated.layers


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}


@pytest.mark.parametrize("modules", rows("values", "gptq_modules"), ids=["groups", "list"])
def test_gptq_can_name_the_modules_that_it_quantises(modules: list[object]) -> None:
    section = GPTQ | {"modules_in_block_to_quantize": modules}
    model = parse(TINY | {"quantization_config": section})
    found = {name for name, linear in linears(model).items() if linear.weight.name == "int4"}
    assert found == {"q_proj", "k_proj", "down_proj"}
    assert model.head.weight.name == "bf16"
    with_head = parse(TINY | {"quantization_config": section | {"lm_head": True}})
    assert with_head.head.weight.name == "int4"


def test_gptq_settings_by_expression_count_in_their_order() -> None:
    section = GPTQ | {"dynamic": rows("values", "weight_sections")["dynamic"]}
    model = parse(TINY | {"quantization_config": section})
    assert {linear.weight.name for linear in linears(model, 0).values()} == {"bf16"}
    found = {name: linear.weight for name, linear in linears(model, 1).items()}
    # A scale of 2 bytes and a zero as wide as a weight for every group.
    widths = {"down_proj": 1 + 3 / 32, "q_proj": 1 + 3 / 128, "k_proj": 0.5 + 2.5 / 64}
    others = dict.fromkeys(found.keys() - widths, 0.5 + 2.5 / 128)
    assert {name: weight.element_bytes for name, weight in found.items()} == pytest.approx(
        widths | others
    )


@pytest.mark.parametrize(("keys", "experts"), rows("values", "v4_experts"))
def test_deepseek_v4_experts_are_narrower_than_the_config_says(keys: Config, experts: str) -> None:
    model = parse(TINY_COMPRESSED | keys)
    # one byte of scale per block, unlike the float32 scales of DeepSeek-V3
    others = 1 + 1 / 16384 if keys else 2.0
    sparse = model.layers[1].blocks
    assert isinstance(sparse[1].core, Experts)
    assert sparse[1].core.weight.name == experts
    found = linears(model, 1)
    wide = {"wq_a", "wq_b", "wkv", "wo_a", "wo_b", "indexer_wq_b", "shared_down_proj"}
    assert {found[name].weight.element_bytes for name in wide} == {others}
    plain = {"router", "indexer_weights_proj", "compressor_wkv_wgate"}
    assert {found[name].weight.name for name in plain} == {"bf16"}
    assert model.head.weight.name == "bf16"


@pytest.mark.parametrize("section", rows("values", "sections_with_lists"))
def test_listed_modules_are_left_alone(section: Config) -> None:
    found = linears(quantized(TINY, section))
    assert found["o_proj"].weight.name == "bf16"
    assert found["q_proj"].weight.name != "bf16"


@pytest.mark.parametrize(("more", "kv_dtype"), rows("values", "quark_outputs"))
def test_quark_narrows_the_cache_by_the_output_of_projections(more: Config, kv_dtype: str) -> None:
    fp8 = {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}
    kept = {"weight": fp8, "input_tensors": fp8, "output_tensors": None, "bias": None}
    layers = {"*k_proj": kept | {"output_tensors": fp8}, "*v_proj": kept}
    section = {"quant_method": "quark", "global_quant_config": kept, "layer_quant_config": layers}
    assert quantized(TINY, section | more).kv_dtype == kv_dtype


#: More patterns than any list has.
MANY = [
    *([f"{form}x{n}{end}" for n in range(2000)] for form, end in (("re:.*", "$"), ("*", "*"))),
    *([f"layers.0.*x{n}*" for n in range(2000)], ["re:" + "a|" * 200_000]),
    *(["*" * 400_000], ["x" * 400_000]),
]


@pytest.mark.parametrize(
    "entries", [*([f"re:{one}"] * 3 for one in rows("values", "hostile_expressions")), *MANY]
)
def test_hostile_expressions_and_lists_are_refused_quickly(entries: list[str]) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": entries}
    with cpu_bound(30):
        line = refused(TINY | {"num_hidden_layers": 60, "quantization_config": section})
    assert "allowed: module names" in line


# All that is let through, at its worst: as many patterns as may stand in a list.
AT_THE_LIMIT = [
    [f"re:.*{chr(97 + n)}0.*{chr(97 + n)}1$" for n in range(6)],
    [f"re:.*x{n}$" for n in range(300)],
    [f"*x{n}*y" for n in range(300)],
    [f"re:.*{'.?' * 8}x1$"],
    [f"layers.0.*{n}*x" for n in range(300)],
    [f"layers.{n}.mlp" for n in range(49_152)],
    ["re:" + r"\d+" * 60 + "x"],
    ["re:" + r"(.|.)" * 14 + "x1$"],
]


@pytest.mark.long
@pytest.mark.parametrize("entries", AT_THE_LIMIT)
def test_the_longest_list_that_is_read_is_read_quickly(entries: list[str]) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": entries}
    with cpu_bound(15):  # takes half of one
        parse(TINY | {"num_hidden_layers": 25, "quantization_config": section})


@pytest.mark.parametrize("expression", rows("refusals", "expressions"))
def test_an_expression_that_needs_more_is_refused_in_one_line(expression: str) -> None:
    with pytest.raises(re.error):
        ModuleNames([f"re:{expression}"])
    section = FP8_BLOCKS | {"modules_to_not_convert": [f"re:{expression}"]}
    assert "modules_to_not_convert is a list of 1; allowed: module names" in refused(
        TINY | {"quantization_config": section}
    )


@pytest.mark.parametrize(("expression", "layer", "name", "expected"), rows("values", "expressions"))
def test_published_expressions_name_what_they_should(
    expression: str, layer: int | None, name: str, expected: bool
) -> None:
    assert ModuleNames([expression]).match(layer, name) is expected
