"""Configs that describe no model, each refused in one line; and configs of drafters, by hand."""

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import _data_folder
from effort import cpu_bound
from fuzzing import bounded
from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import WEIGHT_FORMATS
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
from specroof.architecture.model import Architecture
from specroof.catalog import load_drafter, load_model
from specroof.catalog.files import bundled_names
from specroof.catalog.names import load_draft_config
from specroof.cost import ForwardPass, forward_cost, kv_bytes_per_token, state_bytes
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import ConfigError, OptionError
from specroof.parsers import PARSERS, parse_config
from specroof.parsers.drafters import DRAFTER_KINDS, parse_drafter_config
from specroof.reading.json_text import Reader
from specroof.units import DTYPE_BYTES
from tables import present, refusal, rows, table
from tiny_configs import CONFIGS, Config, changed, of, parse, refused, windows

TABLE: Final[dict[str, list[tuple[Config, str]]]] = table("refused_configs")
GOOD: Final = CONFIGS["GOOD"]


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


@pytest.mark.parametrize(("kind", "name", "changes", "line"), table("refused_drafters"))
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
    message = refused(CONFIGS["V4"] | rates)
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


#: Another type than its own, or none other; one that is unknown is read as every family, and rare.
KNOWN_TYPES = [st.just(MISSING), st.sampled_from(sorted(PARSERS))]
TYPES = st.one_of(*KNOWN_TYPES * 4, st.just("foo_moe"))


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
        with cpu_bound(30):
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
@bounded(400)
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
@bounded(150)
@given(data=st.data())
def test_a_broken_config_of_a_drafter_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    text = bundled_text(data.draw(st.sampled_from(BUNDLED_DRAFTERS)))
    kind, *_ = kinds_of(text)
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


# --- drafters: sizes that are published or counted by hand, and what keys mean -------------------

DFLASH: Final = CONFIGS["DFLASH"]
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
    # Its report gives 0.33 B parameters for a draft layer.
    head = parsed("mtp", CONFIGS["MIMO_V2_FLASH"])
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


def bundled_text(name: str) -> str:
    file = _data_folder("model_configs") / "drafters" / f"{name.replace('/', '--')}.json"
    return file.read_text("utf-8")


def kinds_of(text: str) -> list[str]:
    """Return the kinds that a config is read as."""
    return [kind for kind in DRAFTER_KINDS if drafter_refusal(text, "c.json", kind) is None]


@pytest.mark.parametrize("name", BUNDLED_DRAFTERS)
def test_bundled_drafters_say_where_they_come_from_and_are_read(name: str) -> None:
    text = bundled_text(name)
    assert len(json.loads(text)["_source"]) > 20
    read = kinds_of(text)
    assert set(read) in ({"eagle", "pard"}, {"eagle3", "p_eagle"}, {read[0]})


def test_bundled_drafters_are_the_real_ones(real_configs: Path) -> None:
    for name in BUNDLED_DRAFTERS:
        kind, *_ = kinds_of(bundled_text(name))
        stem = name.replace("/", "--").removeprefix("community--")
        files = [
            file
            for folder in ("drafters", "reconstructed/drafters")
            for file in (real_configs / folder).glob("*.json")
            if file.stem.startswith(stem)
        ]
        for file in files:
            real = parse_drafter_config(file.read_text(), source=str(file), kind=kind, name="one")
            ours = load_draft_config(name, kind)
            if isinstance(real, DraftHead) and isinstance(ours, DraftHead):
                assert renamed(ours) == renamed(real)
    assert len(BUNDLED_DRAFTERS) >= 12


def renamed(head: DraftHead) -> DraftHead:
    """Return a drafter with the names of its parts made alike."""
    serial = None if head.serial is None else replace(head.serial, name="one")
    return replace(head, model=replace(head.model, name="one"), serial=serial)


@pytest.mark.parametrize("folder", ["drafters", "reconstructed/drafters"])
def test_real_files_are_read_or_refused_in_one_line(folder: str, real_configs: Path) -> None:
    unread = set()
    for file in sorted((real_configs / folder).glob("*.json")):
        refusals = [drafter_refusal(file.read_text(), str(file), kind) for kind in DRAFTER_KINDS]
        for said in refusals:
            assert said is None or (said.startswith(str(file)) and "\n" not in said)
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
    head = parsed("dflash", CONFIGS["DFLASH_LATENT"])
    cores = [block.core for layer in head.model.layers for block in layer.blocks if block.core]
    assert cores == [LatentAttention(4, 16, 4, head_dims=(12, 8), causal=False)]
    whole = parsed("dflash", CONFIGS["DFLASH_LATENT"], is_causal=True)
    causal = whole.model.layers[0].blocks[0].core
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
    assert {core.cache_kind for _, core in head.model.counted_cores} == {"nothing"}
    # 2048 centroids, and the 128 rows of each of 32 clusters.
    assert head.model.head.out_features == 2048 + 32 * 128
    whole = parsed("mtp", CONFIGS["ASSISTANT"], use_ordered_embeddings=False)
    assert whole.model.head.out_features == 1000


def test_a_sidecar_says_how_a_drafter_is_stored() -> None:
    sidecar = json.dumps({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}})
    head = parse_drafter_config(
        json.dumps(CONFIGS["EAGLE3"]), source="tiny.json", kind="eagle3", quantization_text=sidecar
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

    def forms_with(**lists: object) -> dict[str, str]:
        section = {"quant_method": "modelopt", "quant_algo": "NVFP4", **lists}
        return forms(parsed("mtp", qwen, head_dim=16, quantization_config=section))

    layer = "mtp.layers.0"
    for entry in ("mtp*", f"{layer}*", layer, f"{layer}.*", "mtp.layers.*", f"model.{layer}*"):
        assert {*forms_with(ignore=[entry]).values()} == {"bf16"}, entry
    names = forms_with(ignore=[f"{layer}.self_attn.q_proj"])
    assert (names["q_proj"], names["k_proj"]) == ("bf16", "nvfp4")
    listed = {f"{layer}.self_attn.q_proj": {"quant_algo": "NVFP4"}}
    names = forms_with(quant_algo="MIXED_PRECISION", quantized_layers=listed)
    assert (names["q_proj"], names["k_proj"]) == ("nvfp4", "bf16")


NVFP4_MODELS = ("DeepSeek-V3.1", "DeepSeek-V3.2", "GLM-5", "GLM-5.2", "Qwen3.5-397B-A17B")


@pytest.mark.parametrize("name", [*NVFP4_MODELS, "Qwen3.6-27B", "Qwen3.6-35B-A3B"])
def test_a_draft_layer_that_lists_leave_alone_has_two_bytes_a_weight(name: str) -> None:
    # hf_quant_config.json of each: model.layers.61*, model.layers.78*, mtp.layers.0*, mtp*
    target = load_model(f"nvidia/{name}-NVFP4")
    for head in (usual_mtp(target), loaded("mtp", f"nvidia/{name}-NVFP4")):
        assert head.model.weight_bytes == 2 * head.model.n_params
    drafts = usual_mtp(target.with_weights(WEIGHT_FORMATS["fp8"])).model
    assert drafts.weight_bytes < 1.5 * drafts.n_params


@pytest.mark.parametrize("name", rows("values", "mtp_models"))
def test_draft_layers_are_of_the_models_own_kind(name: str) -> None:
    head, usual = loaded("mtp", name), usual_mtp(load_model(name))
    assert head.shares_head
    # What the config says and what the model's own last layer suggests: nearly the same.
    assert head.n_params == pytest.approx(usual.n_params, rel=0.001)
    assert head.modules == usual.modules == (3 if "MiniMax" in name else 1)


@pytest.mark.parametrize(("spec", "params", "more_bytes"), SIZES["designed"])
def test_a_head_by_its_keys_is_counted_by_hand(spec: str, params: int, more_bytes: int) -> None:
    head = present(load_drafter(spec).held(load_model("Qwen/Qwen3-8B")).head)
    assert head.n_params == params
    stored = head.model.weight_bytes + sum(linear.stored_bytes for linear in head.fusion)
    assert stored == 2 * params + more_bytes
