"""Configs read as a family that they do not name: nothing is taken from that family's defaults."""

import json
import re
from pathlib import Path

import pytest

from specroof.cost.forward import kv_cache_bytes
from specroof.errors import ConfigError
from specroof.parsers import PARSERS, parse_config
from tiny_configs import STATED, TINY, TINY_LATENT, Config, anonymous, parse


def refused(config: Config, family: str | None = None) -> str:
    """Return the message with which a config is refused."""
    with pytest.raises(ConfigError) as caught:
        parse_config(json.dumps(config), source="config.json", family=family)
    return str(caught.value)


# --- published configs, with the keys that their files have ---------------------------------------

OLMO_3_32B: Config = {
    "model_type": "olmo3",
    "hidden_act": "silu",
    "hidden_size": 5120,
    "intermediate_size": 27648,
    "layer_types": [*["sliding_attention"] * 3, "full_attention"] * 16,
    "num_attention_heads": 40,
    "num_hidden_layers": 64,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "vocab_size": 100278,
}
COMMAND_R: Config = {
    "model_type": "cohere",
    "hidden_act": "silu",
    "hidden_size": 8192,
    "intermediate_size": 22528,
    "logit_scale": 0.0625,
    "num_attention_heads": 64,
    "num_hidden_layers": 40,
    "num_key_value_heads": 64,
    "vocab_size": 256000,
}
PHI_MOE: Config = {
    "model_type": "phimoe",
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 6400,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 16,
    "sliding_window": 131072,
    "tie_word_embeddings": False,
    "vocab_size": 32064,
}
ARCEE: Config = TINY | STATED | {"model_type": "arcee", "hidden_act": "relu2"}
APERTUS: Config = TINY | STATED | {"model_type": "apertus", "hidden_act": "xielu"}
JAIS_2: Config = TINY | STATED | {"model_type": "jais2", "hidden_act": "relu2"}
MINICPM_3: Config = {
    "model_type": "minicpm3",
    "hidden_act": "silu",
    "hidden_size": 2560,
    "intermediate_size": 6400,
    "kv_lora_rank": 256,
    "num_attention_heads": 40,
    "num_hidden_layers": 62,
    "num_key_value_heads": 40,
    "q_lora_rank": 768,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "tie_word_embeddings": True,
    "vocab_size": 73448,
}


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
    assert key in refused(config, family).split(";")[0]


@pytest.mark.parametrize(
    ("config", "family"),
    [
        (OLMO_3_32B, "gemma2"),
        (COMMAND_R, "llama"),
        (PHI_MOE, "gpt_oss"),
        (ARCEE, "llama"),
        (APERTUS, "llama"),
        (JAIS_2, "llama"),
        (MINICPM_3, "llama"),
    ],
)
def test_no_family_is_said_to_fit_that_does_not(config: Config, family: str) -> None:
    message = refused(config | {"model_type": "unheard"})
    assert "unheard" in message
    assert not message.endswith(f"its keys fit {family}, try --family {family}")


def test_what_should_be_stated_is_said_with_the_family() -> None:
    message = refused(COMMAND_R | {"model_type": "unheard"})
    assert "fit llama once it states head_dim, tie_word_embeddings, try --family llama" in message
    whole = COMMAND_R | {"head_dim": 128, "tie_word_embeddings": True}
    # the table of 256000 x 8192 is stored once; a second norm in each layer is all that differs
    read, own = parse(whole, family="llama"), parse(COMMAND_R)
    assert read.n_params - own.n_params == 40 * 8192


# --- defaults ------------------------------------------------------------------------------------


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
    assert refused(config | {"model_type": "x"}, family).startswith(f"config.json: {key} is ")


def test_a_part_that_is_not_there_needs_no_key() -> None:
    # decoder_sparse_step 1 and mlp_only_layers []: all layers have experts
    config = TINY | STATED | {"num_experts": 8, "num_experts_per_tok": 2}
    config |= {"moe_intermediate_size": 32, "model_type": "x"}
    own = parse(config | {"model_type": "qwen3_moe"})
    assert anonymous(parse(config, family="qwen3_moe")) == anonymous(own)


@pytest.mark.parametrize("activation", ["gelu", "relu", "relu2", "xielu", "gelu_new"])
def test_an_activation_that_does_not_tell_of_a_gate_is_refused(activation: str) -> None:
    config = TINY | STATED | {"model_type": "x", "hidden_act": activation}
    message = refused(config, "llama")
    assert message.startswith(f'config.json: hidden_act is "{activation}"; allowed: silu')


def test_the_activation_of_the_family_s_own_class_will_do() -> None:
    config = ARCEE | {"model_type": "x"}
    assert anonymous(parse(config, family="arcee")) == anonymous(parse(ARCEE))


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


# --- windows -------------------------------------------------------------------------------------


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
    assert key in refused(config | keys, "qwen3").split(";")[0]
    off = config | {"sliding_window": 512, "use_sliding_window": False}
    assert parse(off, family="qwen3").n_layers == 2
    on = off | {"use_sliding_window": True, "max_window_layers": 0}
    assert parse(on, family="qwen3").n_layers == 2


def test_a_sidecar_is_read_alike() -> None:
    config = TINY | STATED | {"model_type": "x"}
    config |= {"quantization_config": {"quant_method": "fp8"}}
    model = parse(config, {"quant_algo": "NVFP4"}, family="llama")
    assert any("differ" in note for note in model.notes)


def test_unread_keys_of_the_config_s_own_family_stay_a_note() -> None:
    text = '{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 9,'
    text += ' "num_hidden_layers": 2, "num_attention_heads": 4, "kv_lora_rank": 3}'
    assert "kv_lora_rank" in parse_config(text, source="c.json", family="llama").notes[0]
