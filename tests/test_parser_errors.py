"""Bad configs: each is refused in one line that names file, key, value and what is allowed."""

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import bounded
from specroof.architecture import Architecture
from specroof.errors import ConfigError
from specroof.parsers import parse_config
from specroof.reading.json_text import Reader
from specroof.units import DTYPE_BYTES

Config = dict[str, Any]

GOOD: Config = {
    "model_type": "qwen3_next",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1000,
    "num_experts": 8,
    "num_local_experts": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "index_n_heads": 2,
    "index_head_dim": 4,
    "index_topk": 8,
    "o_groups": 2,
    "o_lora_rank": 8,
    "sliding_window": 16,
}
V4: Config = {"model_type": "deepseek_v4", "num_key_value_heads": 1, "compress_ratios": [0, 4] * 2}
MISSING = object()


def parse(config: Config) -> Architecture:
    """Return what a config becomes, without the keys that are marked as missing."""
    text = json.dumps({key: value for key, value in config.items() if value is not MISSING})
    return parse_config(text, source="some/config.json")


def refusal(text: str, quantization_text: str | None = None) -> str:
    """Return the message with which a text is refused."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="some/config.json", quantization_text=quantization_text)
    message = str(caught.value)
    assert "\n" not in message
    assert message.isprintable()
    assert len(message) < 1500  # one line, with every known family in the worst case
    assert "some/config.json: " in message
    return message


def refused(config: Config) -> str:
    """Return the message with which a config is refused."""
    return refusal(json.dumps({key: val for key, val in config.items() if val is not MISSING}))


def test_the_good_config_is_good() -> None:
    assert parse(GOOD).n_layers == 4
    assert parse(GOOD | V4).n_layers == 4


# --- the text ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no readable JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"model_type": "lla', "no readable JSON: Unterminated string"),
        ("[1, 2]", "the file holds a list of 2"),
        ("null", "the file holds null"),
        ('"llama"', 'the file holds "llama"'),
        ("12", "the file holds 12"),
        ("{}", "model_type is missing; allowed: one of "),
        (
            '{"hidden_size": 1, "hidden_size": 2}',
            'no readable JSON: the key "hidden_size" stands twice',
        ),
        ("[" * 100_000, "no readable JSON: nested too deeply"),
        ('{"a":' * 100_000, "no readable JSON: nested too deeply"),
        (" " * 100_000_000, "the file has 100000000 characters; allowed: up to 16777216"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "no readable JSON: Exceeds the limit"),
    ],
    ids=lambda text: text[:20],
)
def test_a_text_that_is_no_config_is_refused(text: str, message: str) -> None:
    assert refusal(text).startswith(f"some/config.json: {message}")


def test_a_bare_infinity_is_read() -> None:
    # Nemotron configs contain one, in a key that costs nothing.
    text = json.dumps(GOOD | {"time_step_limit": [0.0, math.inf]})
    assert "Infinity" in text
    assert parse_config(text, source="config.json") == parse_config(
        json.dumps(GOOD), source="config.json"
    )


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_config("\ufeff" + json.dumps(GOOD), source="config.json").n_layers == 4


def test_values_from_the_file_cannot_break_the_line() -> None:
    nasty = "a\nb\x1b[31m\ud800\u2028" + "x" * 10_000
    message = refused(GOOD | {"model_type": nasty})
    assert message.startswith('some/config.json: model_type is "a\\nb\\u001b[31m\\ud800\\u2028xxx')
    assert "\\u001b" in refusal('{"\x1b": 1, "\x1b": 2}'.replace("\x1b", "\\u001b"))


# --- the keys ----------------------------------------------------------------------------------

COUNT = "a whole number from 1 to 16777216"
LAYERS = "a whole number from 1 to 2000"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (MISSING, "is missing"),
        (None, "is null"),
        (0, "is 0"),
        (-48, "is -48"),
        (2001, "is 2001"),
        (10**30, "is 1000000000000000000000000000000"),
        (48.0, "is 48.0"),
        (48.5, "is 48.5"),
        (math.nan, "is NaN"),
        ("48", 'is "48"'),
        (True, "is true"),
        ([48], "is a list of 1"),
        ({"layers": 48}, "is an object"),
    ],
)
def test_a_number_of_layers_is_a_whole_number(value: object, shown: str) -> None:
    message = refused(GOOD | {"num_hidden_layers": value})
    assert message == f"some/config.json: num_hidden_layers {shown}; allowed: {LAYERS}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model_type": "gpt9"}, 'model_type is "gpt9"; allowed: one of '),
        ({"model_type": None}, "model_type is null; allowed: one of "),
        ({"model_type": 3}, "model_type is 3; allowed: text"),
        ({"text_config": [1]}, "text_config is a list of 1; allowed: an object"),
        ({"text_config": {}}, f"text_config.hidden_size is missing; allowed: {COUNT}"),
        ({"vocab_size": 2**24 + 1}, f"vocab_size is 16777217; allowed: {COUNT}"),
        # experts
        ({"num_experts": 0}, f"num_experts is 0; allowed: {COUNT}"),
        (
            {"num_experts_per_tok": 0},
            "num_experts_per_tok is 0; allowed: a whole number from 1 to 8",
        ),
        (
            {"num_experts_per_tok": 9},
            "num_experts_per_tok is 9; allowed: a whole number from 1 to 8",
        ),
        (
            {"model_type": "gpt_oss", "num_experts_per_tok": MISSING},
            "num_experts_per_tok or experts_per_token is missing; allowed: a whole number from 1 ",
        ),
        ({"decoder_sparse_step": 0}, f"decoder_sparse_step is 0; allowed: {COUNT}"),
        ({"mlp_only_layers": [-1]}, "mlp_only_layers[0] is -1; allowed: a whole number from 0 "),
        ({"mlp_only_layers": [0], "intermediate_size": MISSING}, "intermediate_size is missing; "),
        # heads
        (
            {"num_key_value_heads": 3},
            "num_key_value_heads is 3; allowed: a divisor of num_attention_heads (4)",
        ),
        ({"num_key_value_heads": 8}, "num_key_value_heads is 8; allowed: a divisor of "),
        (
            {"model_type": "llama", "num_attention_heads": 6, "head_dim": None},
            "num_attention_heads is 6; allowed: a divisor of hidden_size (64), or a head_dim ",
        ),
        (
            {"linear_num_value_heads": 3},
            "linear_num_value_heads is 3; allowed: a multiple of linear_num_key_heads (2)",
        ),
        (V4 | {"o_groups": 3}, "o_groups is 3; allowed: a divisor of num_attention_heads (4)"),
        (
            V4 | {"num_key_value_heads": 2},
            "num_key_value_heads is 2; allowed: a whole number from 1 to 1",
        ),
        (
            V4 | {"qk_rope_head_dim": 17},
            "qk_rope_head_dim is 17; allowed: a whole number from 1 to 16",
        ),
        # kinds of layers
        ({"layer_types": "full_attention"}, 'layer_types is "full_attention"; allowed: a list'),
        (
            {"layer_types": ["full_attention"] * 3},
            "layer_types is a list of 3; allowed: a list of at least 4 entries, one a layer",
        ),
        (
            {"layer_types": ["full_attention", "mamba"] * 2},
            'layer_types[1] is "mamba"; allowed: full_attention, linear_attention',
        ),
        ({"layer_types": [None] * 4}, "layer_types[0] is null; allowed: full_attention, linear_"),
        ({"full_attention_interval": 0}, f"full_attention_interval is 0; allowed: {COUNT}"),
        (
            V4 | {"compress_ratios": [0, 4, 5, 4]},
            "compress_ratios[2] is 5; allowed: 0, 4, 128",
        ),
        (V4 | {"compress_ratios": [0]}, "compress_ratios is a list of 1; allowed: a list of at "),
        (V4 | {"compress_ratios": None}, "compress_ratios is null; allowed: a list of 0, 4 and "),
        (V4 | {"expert_dtype": "fp2"}, 'expert_dtype is "fp2"; allowed: fp4, fp8'),
        (
            {"model_type": "deepseek_v3", "q_lora_rank": MISSING},
            "q_lora_rank is missing; allowed: a whole number from 1, or null",
        ),
        (
            {"model_type": "deepseek_v32", "q_lora_rank": None},
            "q_lora_rank is null; allowed: a whole number from 1",
        ),
        # switches and dtypes
        ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1; allowed: true or false"),
        ({"attention_bias": "no"}, 'attention_bias is "no"; allowed: true or false'),
        ({"dtype": "int7"}, 'dtype is "int7"; allowed: bfloat16, float16, float32, '),
        ({"torch_dtype": 16}, "torch_dtype is 16; allowed: bfloat16, "),
        ({"mamba_ssm_dtype": "fp32"}, 'mamba_ssm_dtype is "fp32"; allowed: bfloat16, '),
        ({"mtp_num_hidden_layers": -1}, "mtp_num_hidden_layers is -1; allowed: a whole number "),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_value_that_describes_no_model_is_refused(keys: Config, message: str) -> None:
    assert refused(GOOD | keys).startswith(f"some/config.json: {message}")


GROUPS = "config_groups.g."


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("fp8", ' is "fp8"; allowed: an object'),
        ({}, ".quant_method is missing; allowed: auto-round, awq, "),
        ({"quant_method": "exl9"}, '.quant_method is "exl9"; allowed: auto-round, awq, '),
        (
            {"quant_method": "fp8", "weight_block_size": [128]},
            ".weight_block_size is a list of 1; allowed: two whole numbers, such as [128, 128]",
        ),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 0]},
            ".weight_block_size[1] is 0; allowed: ",
        ),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["re:("]},
            ".modules_to_not_convert is a list of 1; allowed: module names, globs, and re: ",
        ),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["re:a{99999999999}"]},
            ".modules_to_not_convert is a list of 1; allowed: module names, globs, and re: ",
        ),
        (
            {"quant_method": "fp8", "modules_to_not_convert": [3]},
            ".modules_to_not_convert[0] is 3; allowed: text",
        ),
        (
            {"quant_method": "fp8", "quantized_layers": {"a": {"quant_algo": "FP9"}}},
            '.quantized_layers.a.quant_algo is "FP9"; allowed: FP8, ',
        ),
        (
            {"quant_method": "fp8", "quantized_layers": {"a": None}},
            ".quantized_layers.a.quant_algo is missing; allowed: FP8, ",
        ),
        ({"quant_method": "awq", "bits": 4}, ".group_size or q_group_size is missing; allowed: "),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 0},
            ".group_size is 0; allowed: -1 or a whole number from 1",
        ),
        (
            {"quant_method": "gptq", "bits": 9, "group_size": 1},
            ".bits is 9; allowed: a whole number from 1 to 8",
        ),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 8, "dynamic": {"-:a(?!b)": {}}},
            ".dynamic is an object; allowed: module names, globs, and re: expressions",
        ),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 8, "dynamic": {"+:a": {"bits": 9}}},
            ".dynamic.+:a.bits is 9; allowed: a whole number from 1 to 8",
        ),
        ({"quant_method": "modelopt"}, ".quant_algo is missing; allowed: the algorithm of the "),
        ({"quant_algo": "FP9"}, '.quant_algo is "FP9"; allowed: FP8, FP8_PER_CHANNEL_PER_TOKEN, '),
        ({"quant_algo": ["FP8"]}, ".quant_algo is a list of 1; allowed: FP8, "),
        ({"quant_algo": "NVFP4", "group_size": 0}, ".group_size is 0; allowed: a whole number "),
        (
            {"quant_algo": "FP8", "kv_cache_scheme": "FP3"},
            '.kv_cache_scheme is "FP3"; allowed: FP8, INT8, NVFP4',
        ),
        (
            {"quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 3, "type": "float"}},
            ".kv_cache_scheme.num_bits is 3; allowed: 4 or 8 for float, 8 for int",
        ),
        (
            {"quant_method": "compressed-tensors"},
            ".config_groups is missing; allowed: at least one group with weights",
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {}}}},
            f".{GROUPS}weights.type is missing; allowed: float, int",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"type": "float", "num_bits": 6}}},
            },
            f".{GROUPS}weights.num_bits is 6; allowed: 4 or 8 for floats",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "g": {
                        "weights": {"type": "int", "num_bits": 4},
                        "input_activations": {"type": "int", "num_bits": 6},
                    }
                },
            },
            f".{GROUPS}input_activations.num_bits is 6; allowed: 4 or 8",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_quantisation_that_is_not_understood_is_refused(section: object, message: str) -> None:
    found = refused(GOOD | {"quantization_config": section})
    assert found.startswith(f"some/config.json: quantization_config{message}")


def test_a_bad_sidecar_is_named() -> None:
    message = refusal(json.dumps(GOOD), quantization_text='{"quantization": {"quant_algo": 8}}')
    assert message.startswith(
        "hf_quant_config.json of some/config.json: quantization.quant_algo is 8; allowed: "
    )
    assert "no readable JSON" in refusal(json.dumps(GOOD), quantization_text="{")


#: The families that `GOOD` describes; others have tests of their own.
FIRST_FAMILIES = (
    *("deepseek_v3", "deepseek_v32", "deepseek_v4", "gpt_oss", "llama", "mixtral", "qwen2"),
    *("qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next"),
)


@pytest.mark.parametrize("model_type", FIRST_FAMILIES)
def test_no_family_guesses_a_size(model_type: str) -> None:
    config = GOOD | {"model_type": model_type}
    if model_type == "deepseek_v4":
        config |= V4
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
        assert refused(config | {key: MISSING}).startswith(f"some/config.json: {key} is missing")


# --- every bundled config, mutated -------------------------------------------------------------

VALUES = st.one_of(
    st.sampled_from([MISSING, None, True, False, 0, -1, 1, 2, 3, 7, 128, 2**24, 2**24 + 1, 10**40]),
    st.sampled_from(["", "fp8", "fp4", "bfloat16", "llama", "full_attention", "\ud800", "12"]),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.5, 48.0, 1e308]),
    st.sampled_from([[], {}, [[]], [None], [0], [4, 4], ["full_attention"], {"a": {}}, [1.5]]),
    st.integers(-(10**6), 10**6),
    st.text(max_size=5),
)


def assert_sound(model: Architecture) -> None:
    """Check that no number of a model is zero, negative, infinite or not a number."""
    assert 0 < model.n_active_params <= model.n_params
    assert 0 < model.weight_bytes < math.inf
    assert model.n_layers == sum(layer.count for layer in model.layers) > 0
    dtypes = {model.activation_dtype, model.kv_dtype, model.state_dtype}
    for layer in model.layers:
        for block in layer.blocks:
            assert block.vector_params >= 0
            assert block.n_params > 0
            for linear in block.linears:
                assert linear.matrix_params > 0
                assert 0 < linear.weight.element_bytes < math.inf
                dtypes.add(linear.weight.compute_dtype)
    assert dtypes <= set(DTYPE_BYTES) | {"bf16"}


def outcome_of(text: str, source: str) -> Architecture | str:
    """Return the model, or the message of the one exception that is allowed."""
    try:
        return parse_config(text, source=source)
    except ConfigError as error:
        return str(error)


@pytest.mark.fuzz
@bounded(1000)
@given(data=st.data())
def test_a_mutated_config_is_a_model_or_a_refusal(
    data: st.DataObject, model_configs_folder: Path
) -> None:
    file = data.draw(st.sampled_from(sorted(model_configs_folder.glob("*.json"))))
    config: Config = json.loads(file.read_text(encoding="utf-8"))
    section = config.get("quantization_config")
    places = [config] if section is None else [config, config, section]
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from(places))
        key = data.draw(st.sampled_from(sorted(place)))
        place[key] = data.draw(VALUES)
    for place in places:
        for key in [key for key, value in place.items() if value is MISSING]:
            del place[key]
    outcome = outcome_of(json.dumps(config), file.name)
    if isinstance(outcome, str):
        assert outcome.startswith(f"{file.name}: ")
        assert outcome.isprintable()
    else:
        assert_sound(outcome)


# --- All mistakes at once ------------------------------------------------------------------------

DENSE: Config = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1000,
    "max_window_layers": 4,
    "use_sliding_window": False,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
    "layer_types": ["full_attention"] * 4,
}
#: Values that are wrong whatever other keys say.
WRONG: Config = {
    "hidden_size": 0,
    "intermediate_size": "128",
    "num_hidden_layers": 4.0,
    "num_attention_heads": True,
    "num_key_value_heads": [2],
    "head_dim": -16,
    "vocab_size": MISSING,
    "tie_word_embeddings": 1,
    "dtype": "bf17",
    "layer_types": ["full_attention", "none", "full_attention", "none"],
}


@given(st.sets(st.sampled_from(sorted(WRONG)), min_size=1, max_size=8))
def test_all_mistakes_are_said_at_once_and_nothing_else(keys: set[str]) -> None:
    message = refused(DENSE | {key: WRONG[key] for key in keys})
    said = {
        part.split()[0].split("[")[0]
        for part in message.removeprefix("some/config.json: ").split("; ")
        if not part.startswith("allowed: ")
    }
    assert said == keys


def test_more_mistakes_than_a_line_holds_are_counted() -> None:
    message = refused(DENSE | WRONG)
    assert message.count("; allowed: ") == 8
    assert message.endswith("; and 2 more")


def test_what_does_not_fit_a_stand_in_is_no_mistake() -> None:
    # 3 does not divide what stands in for the heads, nor is the list as long as the layers.
    odd = {"num_attention_heads": MISSING, "num_key_value_heads": 3, "num_hidden_layers": "4"}
    message = refused(DENSE | odd)
    assert "num_attention_heads is missing" in message
    assert 'num_hidden_layers is "4"' in message
    assert message.count("; allowed: ") == 2
    # Of keys that are right alone, what does not fit together is refused as ever.
    assert "num_key_value_heads is 3; allowed: a divisor" in refused(
        DENSE | {"num_key_value_heads": 3}
    )
    assert refused(DENSE | {"layer_types": ["full_attention"] * 3}).count("allowed") == 1


def test_a_mistake_that_nothing_stands_in_for_ends_the_search() -> None:
    # Which layers there are is missing, too.
    assert refused(DENSE | {"model_type": "nemotron_h", "dtype": "x"}).count("allowed") == 1


def test_lists_of_mistakes_are_one_mistake_each() -> None:
    rates = {"compress_ratios": ["4", 4, True, -1], "hidden_size": None}
    message = refused(GOOD | V4 | rates)
    assert 'compress_ratios[0] is "4"' in message
    assert "hidden_size is null" in message
    assert message.count("; allowed: ") == 2


def test_a_config_read_as_another_family_says_all_that_it_lacks() -> None:
    shape = {key: DENSE[key] for key in ("hidden_size", "num_attention_heads", "vocab_size")}
    with pytest.raises(ConfigError) as caught:
        parse_config(json.dumps({"model_type": "new", **shape}), source="c.json", family="llama")
    for key in ("hidden_act", "head_dim", "tie_word_embeddings", "intermediate_size"):
        assert f"{key} is missing" in str(caught.value)


def test_a_mistake_survives_pickling() -> None:
    with pytest.raises(ConfigError) as caught:
        Reader("c.json", {"x": 0}).positive_int("x")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert isinstance(again, ConfigError)
    assert str(again) == str(caught.value)
