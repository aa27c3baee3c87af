"""Configs of dense families that somebody broke: a sound model, or a refusal of one line."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import bounded
from specroof.architecture import Architecture
from specroof.errors import ConfigError
from specroof.parsers import parse_config
from test_dense_checkpoints import NAMES, WITHOUT_A_FILE, assert_sound, real_file
from test_families_gemma import EXPERTS, GEMMA4
from test_families_llama import OPT
from test_families_llama4 import GROUP, LLAMA4, NOTHING, SQUARE, WIDE, nas
from tiny_configs import TINY, TINY_EXPERTS, Config

MISSING = object()
VALUES = st.one_of(
    st.sampled_from([MISSING, None, True, False, 0, -1, 1, 2, 3, 7, 128, 1.5, math.inf, math.nan]),
    st.sampled_from([2**24, 2**24 + 1, 10**40, -(10**40), 1e308, "", "12", "x" * 5000, "\ud800"]),
    st.sampled_from([[], [0], [1] * 200, [None], [{}] * 200, {}, {"a": 1}, {"no_op": True}]),
    st.sampled_from([[kind] * 200 for kind in ("full_attention", "sliding_attention", "other")]),
    st.integers(-(10**6), 10**6),
)
#: What no bundled config has.
OTHERS: tuple[Config, ...] = (
    LLAMA4 | {"interleave_moe_layer_step": 2, "no_rope_layers": [1, 0] * 4, "moe_layers": [1, 3]},
    nas((GROUP, WIDE), (NOTHING, SQUARE), (SQUARE, NOTHING), attention_bias=True),
    OPT | {"word_embed_proj_dim": 64, "enable_bias": True, "do_layer_norm_before": True},
    GEMMA4 | EXPERTS | {"num_hidden_layers": 12, "num_kv_shared_layers": 5, "head_dim": 8},
    GEMMA4 | {"layer_types": ["sliding_attention"] * 7, "use_bidirectional_attention": "vision"},
    TINY_EXPERTS | {"model_type": "qwen2_moe", "use_sliding_window": True, "mlp_only_layers": [0]},
    TINY | {"model_type": "ministral", "layer_types": ["full_attention"] * 2},
    TINY | {"model_type": "gemma3_text", "_sliding_window_pattern": 6, "vocab_size": 1000},
)


def outcome(config: Config) -> Architecture | None:
    """Return a sound model, or None where the config is refused in one line."""
    try:
        model = parse_config(json.dumps(config), source="some/config.json")
    except ConfigError as refusal:
        message = str(refusal)
        assert message.startswith("some/config.json: ")
        assert message.isprintable()
        assert "; allowed: " in message
        return None
    assert 0 < model.n_active_params <= model.n_params
    assert 0 < model.weight_bytes < math.inf
    assert_sound(model)
    return model


def paths(value: Any) -> list[tuple[str | int, ...]]:
    """Return the way to every value of nested objects, and of the first objects of a list."""
    if isinstance(value, list):
        children: list[tuple[str | int, Any]] = list(enumerate(value[:2]))
        return [(key, *rest) for key, child in children for rest in paths(child)]
    if not isinstance(value, dict):
        return []
    inner = [(key, *rest) for key, child in value.items() for rest in paths(child)]
    return [*((key,) for key in value), *inner]


def broken(config: Config, path: tuple[str | int, ...], value: object) -> Config:
    """Return a copy with one value replaced or dropped."""
    copy: Config = json.loads(json.dumps(config))
    place: Any = copy
    for key in path[:-1]:
        place = place[key]
    if value is MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy


@pytest.fixture(scope="session")
def whole_configs(model_configs_folder: Path) -> list[Config]:
    """Return every bundled config of these families, and those written here."""
    files = [model_configs_folder / f"{name}.json" for name in NAMES]
    return [*(json.loads(file.read_text(encoding="utf-8")) for file in files), *OTHERS]


def test_what_is_broken_here_is_whole_before(whole_configs: list[Config]) -> None:
    assert all(outcome(config) is not None for config in whole_configs)


@pytest.mark.fuzz
@bounded(700)
@given(st.data())
def test_a_broken_config_is_read_soundly_or_refused(
    whole_configs: list[Config], data: st.DataObject
) -> None:
    config = whole_configs[data.draw(st.integers(0, len(whole_configs) - 1))]
    for _ in range(data.draw(st.integers(1, 2))):
        config = broken(config, data.draw(st.sampled_from(paths(config))), data.draw(VALUES))
    outcome(config)


@pytest.mark.fuzz
@bounded(300)
@given(st.data())
def test_a_real_config_is_read_soundly_or_refused_when_broken(
    real_configs: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(set(NAMES) - WITHOUT_A_FILE)))
    text = real_file(real_configs, name).read_text(encoding="utf-8")
    config: Config = json.loads(text)
    outcome(broken(config, data.draw(st.sampled_from(paths(config))), data.draw(VALUES)))


#: Keys without which a config says less, and still enough: the family's class has a default, or
#: the key is a note for the reader.
OPTIONAL = {
    *("_source", "audio_config", "vision_config", "dtype", "tie_word_embeddings"),
    *("num_nextn_predict_layers", "quantization_config", "zero_point", "ignore"),
    *("modules_to_not_convert", "weight_block_size", "kv_cache_scheme"),
    *("head_dim", "global_head_dim", "sliding_window", "sliding_window_pattern", "layer_types"),
    *("attention_chunk_size", "interleave_moe_layer_step", "enable_moe_block"),
    *("hidden_size_per_layer_input", "vocab_size_per_layer_input", "use_double_wide_mlp"),
    *("num_kv_shared_layers", "attention_k_eq_v", "num_global_key_value_heads", "quant_method"),
    "no_op",
}
#: Keys that the class of a family has a default for, and those of others have not.
OPTIONAL_IN = {
    "num_key_value_heads": {"llama", "phi3", "gemma3_text"},
    "num_attention_heads": {"gemma3_text"},
    "vocab_size": {"gemma3_text"},
}


def test_a_config_without_a_key_that_counts_is_refused(whole_configs: list[Config]) -> None:
    for config in whole_configs[: len(NAMES)]:
        for path in paths(config):
            key = str(path[-1])
            allowed = config["model_type"] in OPTIONAL_IN.get(key, set())
            # Sizes of a tower that reads images count for servers only, which assume some.
            if key in OPTIONAL or allowed or "vision_config" in path:
                continue
            model = outcome(broken(config, path, MISSING))
            assert model is None, (config["_source"], path)
