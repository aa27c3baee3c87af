"""Keys that no parser knows: named in a note, refused, or used to find the family that fits."""

import re

import pytest

from specroof.errors import ConfigError
from specroof.parsers import PARSERS
from specroof.reading.json_text import AskedObject, read_json
from test_families_gemma import GEMMA4
from tiny_configs import STATED, TINY, TINY_COMPRESSED, TINY_EXPERTS, TINY_LATENT, Config, parse
from tiny_mixtures import MIMO

UNDERSTOOD = "not understood, and may change what the model costs: "


def refused(config: Config) -> str:
    """Return the message with which a config is refused."""
    with pytest.raises(ConfigError) as caught:
        parse(config)
    return str(caught.value)


def without(config: Config, *keys: str) -> Config:
    """Return `config` without `keys`."""
    return {key: value for key, value in config.items() if key not in keys}


# --- the note ------------------------------------------------------------------------------------


def test_a_key_that_nobody_knows_is_named() -> None:
    model = parse(TINY | {"n_residual_streams": 4, "cross_layer_kv": True})
    assert model.notes == (f"{UNDERSTOOD}n_residual_streams, cross_layer_kv",)


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", [], {}])
def test_what_is_switched_off_is_not_named(value: object) -> None:
    assert parse(TINY | {"n_residual_streams": value}).notes == ()


@pytest.mark.parametrize(
    "key",
    [
        "_name_or_path",
        "architectures",
        "bos_token_id",
        "classifier_dropout",
        "max_position_embeddings",
        "mtp_loss_scaling_factor",
        "rms_norm_eps",
        "rope_theta",
        "router_aux_loss_coef",
        "transformers_version",
    ],
)
def test_what_changes_no_cost_is_not_named(key: str) -> None:
    assert parse(TINY | {key: 7}).notes == ()


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
    model = parse(without(TINY_COMPRESSED, *others) | {"compress_rates": rates})
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
    message = "config.json: per_layer_config is an object; allowed: none: layers of this family are"
    assert refused(TINY | layers).startswith(message)
    assert parse(TINY | {"per_layer_config": {}}).notes == ()


# --- objects that remember -----------------------------------------------------------------------


def test_an_object_remembers_what_it_was_asked_for() -> None:
    values = read_json('{"a": 1, "b": {"c": 2}, "d": 3}', source="c.json").values
    assert isinstance(values, AskedObject)
    assert (values["a"], values.get("b"), "e" in values) == (1, {"c": 2}, False)
    assert values.asked == {"a", "b", "e"}
    assert values.get("e", 5) == 5


# --- unknown types -------------------------------------------------------------------------------


EXPERTS = without(TINY_EXPERTS, "num_local_experts", "shared_expert_intermediate_size")
MOE = EXPERTS | STATED
COMPRESSED = without(
    TINY_COMPRESSED | STATED,
    *("intermediate_size", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim"),
)
LATENT = without(TINY_LATENT | STATED, "index_n_heads", "index_head_dim", "index_topk")
MIXED = without(
    MIMO | STATED, "num_experts", "num_local_experts", "shared_expert_intermediate_size"
)


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
        f'config.json: model_type is "{model_type}"; allowed: one of {len(PARSERS)} known types, '
        f"or --family: its keys fit {family}, try --family {family}"
    )


def test_what_it_says_can_be_done() -> None:
    (note,) = parse(MOE | {"model_type": "foobar"}, family="qwen3_moe").notes
    assert re.search("qwen3_moe.* model_type foobar$", note)


def test_a_type_that_is_missing_is_treated_alike() -> None:
    message = refused(without(TINY, "model_type"))
    assert message.startswith("config.json: model_type is missing; allowed: one of ")
    assert message.endswith(
        "its keys fit llama once it states hidden_act, head_dim, tie_word_embeddings, "
        "try --family llama"
    )


def test_a_type_inside_of_a_multimodal_file_counts() -> None:
    nested = {"model_type": "foo_vl", "text_config": MOE | {"model_type": "foo_vl_text"}}
    assert refused(nested).startswith('config.json: text_config.model_type is "foo_vl_text"; ')


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
        f'config.json: model_type is "bert"; allowed: one of {len(PARSERS)} known types, and none '
        "fits its keys"
    )


# --- heads of multimodal files -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "inner", "outer", "tied"),
    [
        (MOE | {"model_type": "qwen3_vl_moe_text"}, True, False, False),
        (MOE | {"model_type": "qwen3_vl_moe_text"}, True, None, True),
        (TINY | {"model_type": "qwen3_vl_text"}, None, True, True),
        (TINY | {"model_type": "mistral"}, False, True, False),
        (TINY | {"model_type": "mistral"}, None, True, True),
        (TINY | {"model_type": "mistral"}, None, None, False),
        (TINY_EXPERTS | {"model_type": "glm4v_moe_text", "n_routed_experts": 8}, True, False, True),
        (TINY_EXPERTS | {"model_type": "glm4v_moe_text", "n_routed_experts": 8}, False, True, True),
        (TINY_EXPERTS | {"model_type": "glm4v_moe_text", "n_routed_experts": 8}, None, None, False),
        (GEMMA4, None, None, True),
    ],
)
def test_which_level_says_that_the_head_is_the_embedding(
    text: Config, inner: bool | None, outer: bool | None, tied: bool
) -> None:
    nested = {
        "model_type": "whatever",
        "tie_word_embeddings": outer,
        "text_config": text | {"tie_word_embeddings": inner},
    }
    assert parse(nested).tied_embeddings is tied
