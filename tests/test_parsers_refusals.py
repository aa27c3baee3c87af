"""Configs that describe no model: each is refused in one line that names key and value."""

import json
import math
import pickle
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from effort import cpu_bound
from fuzzing import bounded
from specroof.architecture.draft_heads import MedusaHeads
from specroof.architecture.model import Architecture
from specroof.catalog.files import bundled_names
from specroof.cost import ForwardPass, forward_cost, kv_bytes_per_token, state_bytes
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import ConfigError, OptionError
from specroof.parsers import PARSERS, parse_config
from specroof.parsers.drafters import DRAFTER_KINDS, parse_drafter_config
from specroof.reading.json_text import Reader
from specroof.units import DTYPE_BYTES
from tables import refusal, rows, table
from tiny_configs import CONFIGS, Config, changed, of, parse, refused

TABLE: Final[dict[str, list[tuple[Config, str]]]] = table("refused_configs")
DRAFTERS: Final[list[tuple[str, str, Config, str]]] = table("refused_drafters")
GOOD, V4 = CONFIGS["GOOD"], CONFIGS["V4"]


def base_of(name: str, folder: Path) -> Config:
    if name in CONFIGS:
        return CONFIGS[name]
    config: Config = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return config


@pytest.mark.parametrize("name", TABLE)
def test_a_value_that_describes_no_model_is_refused(name: str, model_configs_folder: Path) -> None:
    base = base_of(name, model_configs_folder)
    assert parse(base).n_layers > 0
    for changes, line in TABLE[name]:
        message = refused(changed(base, changes))
        assert message.startswith(line), (name, changes)
        assert "; allowed: " in message


@pytest.mark.parametrize(("kind", "name", "changes", "line"), DRAFTERS)
def test_a_config_that_describes_no_drafter_is_refused(
    kind: str, name: str, changes: Config, line: str, model_configs_folder: Path
) -> None:
    text = json.dumps(changed(base_of(name, model_configs_folder), changes))
    said = drafter_refusal(text, "config.json", kind)
    assert said is not None
    assert said.startswith(f"config.json: {line}; allowed: ")


def drafter_refusal(text: str, source: str, kind: str) -> str | None:
    """Return how the config of a drafter is refused; None for one that is read."""
    try:
        head = parse_drafter_config(text, source=source, kind=kind)
    except ConfigError as refused_config:
        return str(refused_config)
    assert isinstance(head, MedusaHeads) or head.n_params > 0
    return None


def test_only_kinds_of_drafters_with_a_config_have_one() -> None:
    with pytest.raises(OptionError, match=r"^kind is 'ngram'; allowed: mtp, eagle, eagle3"):
        parse_drafter_config("{}", source="config.json", kind="ngram")


def refusal_of_text(text: str) -> str:
    return refusal(ConfigError, parse_config, text, source="some/config.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *rows("refusals", "texts_of_configs"),
        ("[" * 100_000, "no readable JSON: nested too deeply"),
        ('{"a":' * 100_000, "no readable JSON: nested too deeply"),
        (" " * 100_000_000, "the file has 100000000 characters; allowed: up to 16777216"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "no readable JSON: Exceeds the limit"),
    ],
    ids=lambda text: text[:20],
)
def test_a_text_that_is_no_config_is_refused(text: str, message: str) -> None:
    assert refusal_of_text(text).startswith(f"some/config.json: {message}")


def test_a_bare_infinity_and_a_byte_order_mark_are_read() -> None:
    # Nemotron configs contain one, in a key that costs nothing.
    text = "\ufeff" + json.dumps(GOOD | {"time_step_limit": [0.0, math.inf]})
    assert "Infinity" in text
    assert parse_config(text, source="config.json") == parse(GOOD)


def test_values_from_the_file_cannot_break_the_line() -> None:
    nasty = "a\nb\x1b[31m\ud800\u2028" + "x" * 10_000
    message = refused(GOOD | {"model_type": nasty})
    assert message.startswith('model_type is "a\\nb\\u001b[31m\\ud800\\u2028xxx')
    assert "\\u001b" in refusal_of_text('{"\x1b": 1, "\x1b": 2}'.replace("\x1b", "\\u001b"))


DENSE: Final = of(
    "TINY", model_type="qwen3", head_dim=16, dtype="bfloat16", layer_types=["full_attention"] * 2
)
#: Values that are wrong whatever other keys say.
WRONG: Final[Config] = {
    "hidden_size": 0,
    "intermediate_size": "128",
    "num_hidden_layers": 4.0,
    "num_attention_heads": True,
    "num_key_value_heads": [2],
    "head_dim": -16,
    "vocab_size": None,
    "tie_word_embeddings": 1,
    "dtype": "bf17",
    "layer_types": ["full_attention", "none", "full_attention", "none"],
}


@given(st.sets(st.sampled_from(sorted(WRONG)), min_size=1, max_size=8))
def test_all_mistakes_are_said_at_once_and_nothing_else(keys: set[str]) -> None:
    message = refused(DENSE | {key: WRONG[key] for key in keys})
    parts = [part for part in message.split("; ") if not part.startswith("allowed: ")]
    assert {part.split()[0].split("[")[0] for part in parts} == keys
    every = refused(DENSE | WRONG)  # more than a line holds
    assert (every.count("; allowed: "), every[-12:]) == (8, "; and 2 more")


def test_what_does_not_fit_a_stand_in_is_no_mistake() -> None:
    # 3 does not divide what stands in for the heads, nor is the list as long as the layers.
    odd = {"num_attention_heads": None, "num_key_value_heads": 3, "num_hidden_layers": "4"}
    message = refused(DENSE | odd)
    assert "num_attention_heads is null" in message
    assert 'num_hidden_layers is "4"' in message
    assert message.count("; allowed: ") == 2
    assert refused(DENSE | {"layer_types": ["full_attention"]}).count("allowed") == 1
    # which layers there are is missing, too: nothing stands in for that
    assert refused(DENSE | {"model_type": "nemotron_h", "dtype": "x"}).count("allowed") == 1
    rates = {"compress_ratios": ["4", 4, True, -1], "hidden_size": None}
    message = refused(V4 | rates)
    assert 'compress_ratios[0] is "4"' in message
    assert "hidden_size is null" in message
    assert message.count("; allowed: ") == 2


MISSING: Final = object()
#: Places in a list of any length, round and round.
PLACES = st.integers(0, 2**20)
#: Keys that small configs have, and sections that few have.
KEYS: Final = [
    *sorted({key for config in CONFIGS.values() for key in config}),
    *("per_layer_config", "compress_rates", "mlp_layer_types", "text_config", "rope_scaling"),
    "\x1b[2J\n",
]
VALUES = st.recursive(
    st.one_of(
        st.sampled_from([MISSING, None, True, False, 0, -1, 1, 2, 3, 7, 128, 2**24, 2**63, 10**40]),
        st.sampled_from(["", "fp8", "auto", "full_attention", "MEM*E-", "\ud800", "x" * 5000]),
        st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.5, 1.5, 48.0, 1e308, 5e-324]),
        st.sampled_from([[], {}, [[]], [None], [1] * 200, [{}] * 200, {"a": {}}, {"no_op": True}]),
        st.sampled_from([[kind] * 200 for kind in ("full_attention", "sliding_attention", "x")]),
        st.integers(-(10**6), 10**6),
        st.text(max_size=5),
    ),
    lambda inner: st.lists(inner.filter(lambda one: one is not MISSING), max_size=6),
    max_leaves=8,
)


def paths(value: Any) -> list[tuple[str | int, ...]]:
    """Return the way to every value of nested objects, and of the first objects of a list."""
    if isinstance(value, list):
        children: list[tuple[str | int, Any]] = list(enumerate(value[:2]))
        return [(key, *rest) for key, child in children for rest in paths(child)]
    if not isinstance(value, dict):
        return []
    inner = [(key, *rest) for key, child in value.items() for rest in paths(child)]
    return [*((key,) for key in value), *inner]


#: Seconds of the processor that one config may take.
LIMIT_S: Final = 30.0
#: Another type than its own, or none other.
TYPES = st.one_of(st.just(MISSING), st.sampled_from(sorted(PARSERS)), st.just("foo_moe"))


def broken(config: Config, path: tuple[str | int, ...], value: object) -> Config:
    copy: Config = json.loads(json.dumps(config))
    place: Any = copy
    for key in path[:-1]:
        place = place[key]
    if value is MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy


def assert_sound(model: Architecture) -> None:
    """Check that no number of a model is zero, negative, infinite or not a number."""
    assert 0 < model.n_active_params <= model.n_params
    assert 0 < model.weight_bytes < math.inf
    assert model.n_layers == sum(layer.count for layer in model.layers) > 0
    assert {model.activation_dtype, model.kv_dtype, model.state_dtype} <= {*DTYPE_BYTES, "bf16"}
    for amount in (kv_bytes_per_token(model), state_bytes(model), float(kv_cache_bytes(model, 99))):
        assert 0 <= amount < math.inf
    work = 0.0
    for op in forward_cost(model, ForwardPass(batch_size=2, query_len=3, context_len=100)):
        amounts = (op.flops, op.weight_bytes, op.cache_bytes, op.activation_bytes)
        assert all(0 <= float(amount) < math.inf for amount in amounts), op.name
        assert float(op.memory_bytes) > 0, op.name
        work += float(op.flops)
    assert work > 0


@pytest.fixture(scope="module")
def whole_configs(model_configs_folder: Path) -> list[Config]:
    """Return every bundled config, and the small ones of families that none is bundled of."""
    files = sorted(model_configs_folder.glob("*.json"))
    bundled = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [*bundled, *(config for config in CONFIGS.values() if "model_type" in config)]


def read_or_refused(text: str) -> None:
    """Check that a text is a sound model, or refused in one line, soon."""
    try:
        with cpu_bound(LIMIT_S):
            model = parse_config(text, source="some/config.json")
    except ConfigError as refused_text:
        message = str(refused_text)
        assert message.startswith("some/config.json: ")
        assert message.isprintable()
        assert len(message) < 2000
        assert "; allowed: " in message
    else:
        assert_sound(model)
        assert all(note.isprintable() for note in model.notes)


@pytest.mark.fuzz
@bounded(1500)
@given(
    which=PLACES,
    breaks=st.lists(st.tuples(PLACES, VALUES), min_size=1, max_size=3),
    added=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=2),
    model_type=TYPES,
)
def test_a_broken_config_is_read_soundly_or_refused_in_one_line(
    which: int,
    breaks: list[tuple[int, Any]],
    added: Config,
    model_type: object,
    whole_configs: list[Config],
) -> None:
    config = whole_configs[which % len(whole_configs)]
    for place, value in breaks:
        found = paths(config)
        config = broken(config, found[place % len(found)], value)
    config |= {key: value for key, value in added.items() if value is not MISSING}
    read_or_refused(
        json.dumps(config | ({} if model_type is MISSING else {"model_type": model_type}))
    )


@pytest.mark.fuzz
@given(st.one_of(st.text(), VALUES.filter(lambda value: value is not MISSING).map(json.dumps)))
@bounded(100)
def test_any_text_is_answered(text: str) -> None:
    read_or_refused(text)


#: Which keys may be left out: of all families, of some, and families with more defaults.
OPTIONAL: Final[dict[str, Any]] = table("optional_keys")


def test_a_config_without_a_key_that_counts_is_refused(whole_configs: list[Config]) -> None:
    bundled = [config for config in whole_configs if "_source" in config]
    families = tuple(OPTIONAL["families"])
    dense = [one for one in bundled if one.get("model_type", "").startswith(families)]
    assert len(dense) > 40
    for config in dense:
        if config["model_type"] in OPTIONAL["families_with_more_defaults"]:
            continue
        for path in paths(config):
            key = str(path[-1])
            allowed = config["model_type"] in OPTIONAL["in_some"].get(key, ())
            # Sizes of a tower that reads images count for servers only, which assume some.
            if key in OPTIONAL["in_all"] or allowed or "vision_config" in path:
                continue
            refused(broken(config, path, MISSING))


BUNDLED_DRAFTERS: Final = bundled_names("model_configs/drafters")


@pytest.mark.fuzz
@bounded(150, HealthCheck.function_scoped_fixture)
@given(data=st.data())
def test_a_broken_config_of_a_drafter_is_read_or_refused_in_one_line(
    data: st.DataObject, model_configs_folder: Path
) -> None:
    name = data.draw(st.sampled_from(BUNDLED_DRAFTERS)).replace("/", "--")
    text = (model_configs_folder / "drafters" / f"{name}.json").read_text("utf-8")
    kind = next(kind for kind in DRAFTER_KINDS if drafter_refusal(text, "c.json", kind) is None)
    config = json.loads(text)
    config = broken(config, data.draw(st.sampled_from(paths(config))), data.draw(VALUES))
    said = drafter_refusal(json.dumps(config), "broken.json", kind)
    if said is not None:
        assert said.startswith("broken.json: ")
        assert said.isprintable()
        assert "; allowed: " in said


def test_a_mistake_survives_pickling() -> None:
    with pytest.raises(ConfigError) as caught:
        Reader("c.json", {"x": 0}).positive_int("x")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert isinstance(again, ConfigError)
    assert str(again) == str(caught.value)
