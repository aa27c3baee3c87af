"""Whole configs: what their keys mean, which are unknown, and reading one as another family."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from specroof.architecture import VisionTower
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import ConfigError, OptionError
from specroof.parsers import PARSERS, parse_config
from specroof.parsers.decoder import tied_embeddings
from specroof.reading.json_text import AskedObject, Reader, read_json
from tiny_configs import (
    CONFIGS,
    FP8_BLOCKS,
    STATED,
    TINY,
    TINY_LATENT,
    Config,
    anonymous,
    formats,
    linears,
    of,
    parse,
    refused,
)

KEY = "tie_word_embeddings"


@pytest.mark.parametrize(
    ("keys", "activation", "weight"),
    [
        ({}, "bf16", "bf16"),  # gpt-oss has no such key
        ({"torch_dtype": "float16"}, "fp16", "fp16"),
        ({"dtype": "float32"}, "fp32", "fp32"),
        ({"dtype": "torch.bfloat16", "torch_dtype": "float16"}, "bf16", "bf16"),
    ],
)
def test_activations_have_the_stated_dtype(keys: Config, activation: str, weight: str) -> None:
    model = parse(TINY | keys)
    assert (model.activation_dtype, model.kv_dtype) == (activation, activation)
    assert linears(model)["q_proj"].weight.name == model.head.weight.name == weight


@pytest.mark.parametrize(
    ("section", "kv_dtype"),
    [
        ({"kv_cache_scheme": "FP8"}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "int8"),
        ({"kv_cache_quant_algo": "NVFP4"}, "fp4"),
        ({"kv_cache_quant_algo": None}, "bf16"),
    ],
)
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


def test_the_config_counts_before_the_sidecar() -> None:
    sidecar = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    model = parse(TINY | {"quantization_config": FP8_BLOCKS}, sidecar)
    assert linears(model)["q_proj"].weight.name == "fp8-block"
    assert model.kv_dtype == "fp8"  # which only the sidecar states


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


def test_keys_of_either_level_are_found() -> None:
    inner = {key: value for key, value in TINY.items() if key != "model_type"}
    outer: Config = {"model_type": "llama", "text_config": inner}
    assert parse(outer | {"dtype": "float16"}).activation_dtype == "fp16"
    assert parse(outer | {"tie_word_embeddings": True}).tied_embeddings
    untied = {"text_config": inner | {"tie_word_embeddings": False}, "tie_word_embeddings": True}
    assert not parse(outer | untied).tied_embeddings
    for place in (outer, inner):
        place["quantization_config"] = FP8_BLOCKS
        assert "fp8-block" in formats(parse(outer))
        del place["quantization_config"]


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
    with pytest.raises(OptionError, match=r"family is 'brand_new'; allowed: .*\bllama,"):
        parse(TINY, family="brand_new")


def test_a_family_is_known_by_its_type_and_not_by_its_name() -> None:
    model = parse(TINY, name="Qwen/Qwen3-Mixtral-DeepSeek", source="gpt-oss.json")
    assert anonymous(model) == anonymous(parse(TINY))


# --- keys that no parser knows -------------------------------------------------------------------


GEMMA4, MIMO = CONFIGS["GEMMA4"], CONFIGS["MIMO"]
UNDERSTOOD = "not understood, and may change what the model costs: "


def test_a_key_that_nobody_knows_is_named() -> None:
    model = parse(TINY | {"n_residual_streams": 4, "cross_layer_kv": True})
    assert model.notes == (f"{UNDERSTOOD}n_residual_streams, cross_layer_kv",)


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", [], {}])
def test_what_is_switched_off_is_not_named(value: object) -> None:
    assert parse(TINY | {"n_residual_streams": value}).notes == ()


def test_what_changes_no_cost_is_not_named() -> None:
    keys = "_name_or_path architectures bos_token_id classifier_dropout max_position_embeddings"
    keys += " mtp_loss_scaling_factor rms_norm_eps rope_theta router_aux_loss_coef"
    assert parse(TINY | dict.fromkeys(keys.split(), 7)).notes == ()


def test_a_key_may_be_known_in_one_family_only() -> None:
    # Llama of transformers has no window; Qwen3 has one, which is switched off
    assert parse(TINY | {"sliding_window": 512}).notes == (f"{UNDERSTOOD}sliding_window",)
    assert parse(TINY | {"model_type": "qwen3", "sliding_window": 512}).notes == ()


def test_keys_inside_of_sections_that_are_read_are_named_with_them() -> None:
    section = {"n_streams": 2, "head_dim": 16}
    model = parse(GEMMA4 | {"per_layer_config": {"0": {"head_dim": 32}}, "routing": section})
    assert model.notes == (f"{UNDERSTOOD}routing",)
    rates = {"compressed_sparse_attention": 4, "extremely_compressed_attention": 512}
    others = ("intermediate_size", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim")
    model = parse(of("TINY_COMPRESSED", *others) | {"compress_rates": rates})
    assert model.notes == (f"{UNDERSTOOD}compress_rates.extremely_compressed_attention",)


def test_towers_and_formats_are_not_looked_into() -> None:
    tower = {"n_streams": 4}
    model = parse(TINY | {"vision_config": tower, "quantization_config": {"quant_method": "fp8"}})
    assert model.notes == ("vision tower left out",)


def test_the_note_has_a_bound() -> None:
    (note,) = parse(TINY | {f"key{index}": 1 for index in range(5000)}).notes
    assert note == f"{UNDERSTOOD}key0, key1, key2, key3, key4, key5 and 4994 more"
    (note,) = parse(TINY | {"\x1b[2J" + "x" * 5000: 1}).notes
    assert note.isprintable()
    assert len(note) < 200


def test_layers_that_differ_are_refused_where_no_parser_reads_them() -> None:
    layers = {"per_layer_config": {"1": {"num_key_value_heads": 1}}}
    message = "per_layer_config is an object; allowed: none: layers of this family are"
    assert refused(TINY | layers).startswith(message)
    assert parse(TINY | {"per_layer_config": {}}).notes == ()


def test_an_object_remembers_what_it_was_asked_for() -> None:
    values = read_json('{"a": 1, "b": {"c": 2}, "d": 3}', source="c.json").values
    assert isinstance(values, AskedObject)
    assert (values["a"], values.get("b"), "e" in values) == (1, {"c": 2}, False)
    assert values.asked == {"a", "b", "e"}
    assert values.get("e", 5) == 5


# --- unknown types -------------------------------------------------------------------------------


EXPERTS = of("TINY_EXPERTS", "num_local_experts", "shared_expert_intermediate_size")
MOE = EXPERTS | STATED
COMPRESSED = (
    of(
        "TINY_COMPRESSED",
        *("intermediate_size", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim"),
    )
    | STATED
)
LATENT = of("TINY_LATENT", "index_n_heads", "index_head_dim", "index_topk") | STATED
MIXED = of("MIMO", "num_experts", "num_local_experts", "shared_expert_intermediate_size") | STATED


@pytest.mark.parametrize(
    ("config", "model_type", "family"),
    [
        (TINY | STATED, "brand_new", "llama"),
        (MOE, "foobar", "qwen3_moe"),
        (COMPRESSED | {"hc_mult": 4, "num_hash_layers": 1}, "deepseek_v5", "deepseek_v4"),
        (LATENT | {"first_k_dense_replace": 1}, "x", "deepseek_v3"),
        (MIXED, "brand_new", "mimo_v2"),
        # of families that read all keys, the one with a name like it
        (TINY | STATED, "qwen3x", "qwen3"),
    ],
)
def test_an_unknown_type_is_told_which_family_its_keys_fit(
    config: Config, model_type: str, family: str
) -> None:
    assert refused(config | {"model_type": model_type}) == (
        f'model_type is "{model_type}"; allowed: one of {len(PARSERS)} known types, '
        f"or --family: its keys fit {family}, try --family {family}"
    )


def test_what_it_says_can_be_done() -> None:
    (note,) = parse(MOE | {"model_type": "foobar"}, family="qwen3_moe").notes
    assert re.search("qwen3_moe.* model_type foobar$", note)


def test_a_type_that_is_missing_is_treated_alike() -> None:
    message = refused(of("TINY", "model_type"))
    assert message.startswith("model_type is missing; allowed: one of ")
    assert message.endswith(
        "its keys fit llama once it states hidden_act, head_dim, tie_word_embeddings, "
        "try --family llama"
    )


def test_a_type_inside_of_a_multimodal_file_counts() -> None:
    nested = {"model_type": "foo_vl", "text_config": MOE | {"model_type": "foo_vl_text"}}
    assert refused(nested).startswith('text_config.model_type is "foo_vl_text"; ')


def test_formats_of_weights_do_not_matter_to_the_advice() -> None:
    strange = {"model_type": "foobar", "quantization_config": {"quant_method": "nobody knows"}}
    assert refused(MOE | strange).endswith("try --family qwen3_moe")


def test_a_type_unknown_in_a_file_that_is_nested_deeply_is_refused_in_one_line() -> None:
    deep: Config = {}
    for _ in range(300):
        deep = {"deeper": deep}
    assert refused(TINY | {"model_type": "foo", "text_config": None, "more": deep}).endswith(
        "and none fits its keys"
    )


def test_keys_that_fit_no_family_get_no_advice() -> None:
    assert refused({"model_type": "bert", "hidden_size": 64}) == (
        f'model_type is "bert"; allowed: one of {len(PARSERS)} known types, and none fits its keys'
    )


# --- heads of multimodal files -------------------------------------------------------------------


#: Which models of transformers 5.23 have one table (1) and which two (0), counted on models built
#: of each class: nothing, true and false at the top, and for each of them inside.
TOP_TRUE, TOP_FALSE, EITHER = "111 111 000", "000 111 000", "010 111 010"


@pytest.mark.parametrize(
    ("outer", "text", "counted"),
    [
        *(("gemma3", f"{name}_text", TOP_TRUE) for name in ("gemma3", "gemma4", "gemma4_unified")),
        *((name, f"{name}_text", TOP_FALSE) for name in ("qwen3_vl", "qwen3_vl_moe", "qwen4_exp")),
        *((name, f"{name}_text", TOP_FALSE) for name in ("qwen3_5", "qwen3_5_moe")),
        ("step3p7", "step3p5", TOP_FALSE),
        *((name, f"{name}_text", EITHER) for name in ("glm4v_moe", "minimax_m3_vl", "qwen2_vl")),
        *((name, text, EITHER) for name, text in (("qwen2_5_vl", "qwen2"), ("llava", "llama"))),
        ("llama4", "llama4_text", "010 010 010"),
        ("inkling_mm_model", "inkling_text", "000 000 000"),
        # of those with true at the top, published checkpoints have a head where the text says false
        # or nothing is said
        *((name, "mistral", "010 110 000") for name in ("mistral3", "kimi_k25")),
    ],
)
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
                default=text.startswith("gemma"),
            )
            for inner in levels
        ]
        for top in levels
    ]
    assert " ".join("".join(str(int(one)) for one in row) for row in tied) == counted


def test_a_head_of_its_own_is_counted_where_the_loaded_class_has_one() -> None:
    for inner, outer, n_tables in ((False, True, 1), (True, False, 2)):
        text = CONFIGS["GEMMA4"] | {KEY: inner}
        model = parse({"model_type": "gemma4", KEY: outer, "text_config": text})
        flat = parse(CONFIGS["GEMMA4"] | {KEY: n_tables == 1})
        assert model.n_params == flat.n_params
        assert model.notes == flat.notes


# --- read as another family ----------------------------------------------------------------------


OLMO_3_32B, COMMAND_R, PHI_MOE, MINICPM_3 = (
    CONFIGS[name] for name in ("OLMO_3_32B", "COMMAND_R", "PHI_MOE", "MINICPM_3")
)


ARCEE: Config = TINY | STATED | {"model_type": "arcee", "hidden_act": "relu2"}
APERTUS: Config = TINY | STATED | {"model_type": "apertus", "hidden_act": "xielu"}
JAIS_2: Config = TINY | STATED | {"model_type": "jais2", "hidden_act": "relu2"}


@pytest.mark.parametrize(
    ("config", "family", "key"),
    [
        (OLMO_3_32B, "gemma2", "hidden_act"),
        # even where the activation would fit: the heads of 128 are no key of the file
        (OLMO_3_32B | {"hidden_act": "gelu_pytorch_tanh"}, "gemma2", "head_dim"),
        (COMMAND_R, "llama", "head_dim"),
        (COMMAND_R | {"head_dim": 128}, "llama", "tie_word_embeddings"),
        (PHI_MOE, "gpt_oss", "head_dim"),
        (ARCEE, "llama", "hidden_act"),
        (APERTUS, "llama", "hidden_act"),
        (JAIS_2, "llama", "hidden_act"),
        (MINICPM_3, "llama", "head_dim"),
        # as transformers saves it again
        (MINICPM_3 | {"head_dim": 32}, "llama", "kv_lora_rank"),
    ],
)
def test_what_a_file_does_not_say_is_refused(config: Config, family: str, key: str) -> None:
    assert key in refused(config, family=family).split(";")[0]
    # nor is that family said to fit
    message = refused(config | {"model_type": "unheard"})
    assert not message.endswith(f"its keys fit {family}, try --family {family}")


def test_what_should_be_stated_is_said_with_the_family() -> None:
    message = refused(COMMAND_R | {"model_type": "unheard"})
    assert "fit llama once it states head_dim, tie_word_embeddings, try --family llama" in message
    whole = COMMAND_R | {"head_dim": 128, "tie_word_embeddings": True}
    # the table of 256000 x 8192 is stored once; a second norm in each layer is all that differs
    read, own = parse(whole, family="llama"), parse(COMMAND_R)
    assert read.n_params - own.n_params == 40 * 8192


@pytest.mark.parametrize(
    ("config", "family", "key"),
    [
        (TINY | STATED | {"num_key_value_heads": None}, "llama", "num_key_value_heads"),
        (TINY | STATED, "mistral", "sliding_window"),
        (TINY | STATED | {"model_type": "x", "head_dim": None}, "qwen3", "head_dim"),
        (TINY_LATENT | STATED, "deepseek_v3", "first_k_dense_replace"),
        ({key: TINY[key] for key in TINY} | {"head_dim": 16}, "qwen3", "hidden_act"),
    ],
)
def test_sizes_of_the_class_are_not_those_of_the_model(
    config: Config, family: str, key: str
) -> None:
    assert refused(config | {"model_type": "x"}, family=family).startswith(f"{key} is ")


def test_a_part_that_is_not_there_needs_no_key() -> None:
    # decoder_sparse_step 1 and mlp_only_layers []: all layers have experts
    config = TINY | STATED | {"num_experts": 8, "num_experts_per_tok": 2}
    config |= {"moe_intermediate_size": 32, "model_type": "x"}
    own = parse(config | {"model_type": "qwen3_moe"})
    assert anonymous(parse(config, family="qwen3_moe")) == anonymous(own)


@pytest.mark.parametrize("activation", ["gelu", "relu", "relu2", "xielu", "gelu_new"])
def test_an_activation_that_does_not_tell_of_a_gate_is_refused(activation: str) -> None:
    config = TINY | STATED | {"model_type": "x", "hidden_act": activation}
    message = refused(config, family="llama")
    assert message.startswith(f'hidden_act is "{activation}"; allowed: silu')


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


def test_the_text_of_a_family_is_no_other_family() -> None:
    inner = TINY | {"model_type": "qwen3_vl_text"}
    assert parse(inner, family="qwen3_vl").notes == ()


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
        caches = [float(kv_cache_bytes(model, 32768, "bf16")) for model in (read, own)]
        assert caches[0] == caches[1], file.name
        n_fit += 1
    assert n_fit >= 60


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"sliding_window": 512}, "sliding_window"),
        (
            {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 512},
            "layer_types",
        ),
    ],
)
def test_windows_that_a_family_leaves_out_are_refused(keys: Config, key: str) -> None:
    # Qwen3 passes over a window unless use_sliding_window is true
    config = TINY | STATED | {"model_type": "x"}
    assert key in refused(config | keys, family="qwen3").split(";")[0]
    off = config | {"sliding_window": 512, "use_sliding_window": False}
    assert parse(off, family="qwen3").n_layers == 2
    on = off | {"use_sliding_window": True, "max_window_layers": 0}
    assert parse(on, family="qwen3").n_layers == 2


def test_a_sidecar_is_read_alike() -> None:
    config = TINY | STATED | {"model_type": "x"}
    config |= {"quantization_config": {"quant_method": "fp8"}}
    model = parse(config, {"quant_algo": "NVFP4"}, family="llama")
    assert any("differ" in note for note in model.notes)
