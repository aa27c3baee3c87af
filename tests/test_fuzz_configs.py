"""Configs that nobody wrote: one line of refusal or a finite model, in bounded time."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import cpu_bound
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import ConfigError
from specroof.parsers import PARSERS, parse_config
from specroof.parsers.drafters import parse_drafter_config
from tiny_configs import CONFIGS

pytestmark = pytest.mark.fuzz

#: Small configs of all kinds, which are changed a little.
SEEDS = [config for config in CONFIGS.values() if "model_type" in config]
KEYS = [
    *sorted({key for seed in SEEDS for key in seed}),
    "per_layer_config",
    "compress_rates",
    "mlp_layer_types",
    "layer_types",
    "text_config",
    "quantization_config",
    "rope_scaling",
    "\x1b[2J\n",
]
NUMBERS = st.one_of(
    st.integers(-3, 70),
    st.sampled_from([2**24, 2**24 + 1, 2**63, 10**400, 1e308, 5e-324, -0.0]),
    st.floats(allow_nan=True),
)
TEXTS = st.one_of(
    st.sampled_from(["full_attention", "sliding_attention", "sparse", "hash_moe", "*", "E-M*"]),
    st.text(max_size=20),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.sampled_from(["0", "01", "9"])), inner),
    ),
    max_leaves=8,
)
CHANGES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)
TYPES = st.one_of(st.none(), st.sampled_from(sorted(PARSERS)), st.just("foo_moe"))
#: Seconds of the processor that one config may take.
LIMIT_S = 30.0


def answered(read: Any) -> Any:
    """Return what a reader makes of a config, or None where it refuses in one line."""
    try:
        with cpu_bound(LIMIT_S):
            return read()
    except ConfigError as refusal:
        line = str(refusal)
        assert "allowed: " in line
        assert line.isprintable()
        assert len(line) < 2000
        return None


@given(st.sampled_from(SEEDS), CHANGES, st.sets(st.sampled_from(KEYS), max_size=3), TYPES)
def test_a_changed_config_is_refused_or_a_finite_model(
    seed: dict[str, Any], changes: dict[str, Any], gone: set[str], model_type: str | None
) -> None:
    config = {key: value for key, value in (seed | changes).items() if key not in gone}
    if model_type is not None:
        config["model_type"] = model_type
    text = json.dumps(config)
    model = answered(lambda: parse_config(text, source="c.json"))
    if model is not None:
        assert 0 < model.n_active_params <= model.n_params
        assert math.isfinite(model.weight_bytes)
        assert math.isfinite(float(kv_cache_bytes(model, 1e6)))
        assert all(note.isprintable() for note in model.notes)


@given(st.sampled_from(SEEDS), CHANGES, st.sampled_from(["mtp", "eagle", "dflash", "medusa"]))
def test_a_changed_config_is_refused_or_a_drafter(
    seed: dict[str, Any], changes: dict[str, Any], kind: str
) -> None:
    text = json.dumps(seed | changes | {"num_nextn_predict_layers": 1})
    answered(lambda: parse_drafter_config(text, source="c.json", kind=kind))


@given(st.one_of(st.text(), VALUES.map(json.dumps)))
def test_any_text_is_answered(text: str) -> None:
    answered(lambda: parse_config(text, source="c.json"))
