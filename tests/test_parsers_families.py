"""Each family's layers, matrices, cores and vectors, counted by hand from its published code.

A family is held against a simpler one that it becomes in a limit, or described whole. Sizes of
published checkpoints, to the last element, are in test_published_sizes.py.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final

import pytest

from conftest import _data_folder
from specroof import architecture, parsers
from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    FP32,
    HEADS,
    TENSOR,
    Linear,
    Options,
    by_kv_heads,
)
from specroof.architecture.model import Architecture, VisionTower
from specroof.architecture.recurrent import Mamba2
from specroof.cost import ForwardPass, forward_cost, kv_bytes_per_token, state_bytes
from specroof.cost.forward import kv_cache_bytes, storage
from specroof.parsers import PARSERS, parse_config
from specroof.parsers.traits import traits_of
from specroof.questions.models import tensor_bytes
from tables import rows, table
from tiny_configs import (
    CONFIGS,
    Config,
    changed,
    cores,
    experts,
    labelled,
    left_out,
    linears,
    model_of,
    of,
    parse,
    quantized,
    read_config,
    shapes,
    windows,
)

LAYERS: Final[dict[str, list[Any]]] = table("family_layers")

# --- the table of families -----------------------------------------------------------------------

FILES: Final = {
    file.stem
    for file in (Path(parsers.__file__).parent / "families").glob("*.py")
    if file.stem != "__init__"
}


def test_every_row_leads_to_a_function_and_every_family_has_a_row() -> None:
    assert all(traits_of(family).parser == parser for family, parser in PARSERS.items())
    places = [row.split(":") for row in PARSERS.values()]
    for file, function in places:
        assert callable(getattr(import_module(f"specroof.parsers.{file}"), function))
    assert {file for file, _ in places} == {"decoder"} | {f"families.{stem}" for stem in FILES}


def test_only_the_family_of_a_model_is_imported() -> None:
    program = (
        "import sys, specroof.cli\n"
        "for name in ('Qwen/Qwen3-8B', 'Qwen/Qwen3.5-27B'): specroof.load_model(name)\n"
        "print(*(name for name in sys.modules if name.startswith('specroof.parsers.families.')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "specroof.parsers.families.qwen3_next\n"


def row_of(name: str, changes: Config) -> Config:
    return changed(CONFIGS[name] if name in CONFIGS else load(name), changes)


# --- layers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "changes", "expected"), LAYERS["kinds"])
def test_kinds_of_layers_follow_lists_strides_and_defaults(
    name: str, changes: Config, expected: dict[str, int]
) -> None:
    kinds = parse(row_of(name, changes)).layer_kinds
    assert {kind: kinds.get(kind, 0) for kind in expected} == expected


def tiny(model_type: str, **keys: object) -> Config:
    return of("TINY", model_type=model_type, **keys)


@pytest.mark.parametrize(("name", "changes", "simple", "fewer", "difference"), LAYERS["elements"])
def test_elements_beside_those_of_a_simpler_config(
    name: str, changes: Config, simple: str, fewer: Config, difference: int
) -> None:
    model, plain = parse(row_of(name, changes)), parse(row_of(simple, fewer))
    assert model.n_params - plain.n_params == difference


@pytest.mark.parametrize(("name", "changes", "other", "others"), LAYERS["same"])
def test_two_files_say_the_same(name: str, changes: Config, other: str, others: Config) -> None:
    first, second = parse(row_of(name, changes)), parse(row_of(other, others))
    assert first.layers == second.layers
    # where a class ties the head it lacks a table of 64 * 1000
    assert first.n_params - second.n_params in {0, -64_000}


@pytest.mark.parametrize(("name", "changes", "other", "others", "difference"), LAYERS["states"])
def test_states_beside_those_of_another_config(
    name: str, changes: Config, other: str, others: Config, difference: float
) -> None:
    first, second = parse(row_of(name, changes)), parse(row_of(other, others))
    wide = Options(state_dtype="fp32")
    assert state_bytes(first, wide) - state_bytes(second, wide) == difference


def only(values: Iterable[Any]) -> Any:
    """Return what all of them are."""
    (value,) = {*values}
    return value


#: What a model says of itself, by the part of the rows; some of a layer, a block or a context.
SAID: Final[dict[str, Callable[..., Any]]] = {
    "tied": lambda model: model.tied_embeddings,
    "totals": lambda model: model.n_params,
    "lookups": lambda model: model.lookup_params,
    "biases": lambda model: sorted(name for name, one in linears(model).items() if one.bias),
    "notes": lambda model: [*left_out(model)],
    "cores": lambda model: tuple(cores(model)),
    "head_dims": lambda model: only(
        size for core in cores(model) for size in (core.head_dim, core.value_dim)
    ),
    "experts": lambda model: only(experts(model)),
    "windows": windows,
    "vectors": lambda model: [
        [one.vector_params for one in layer.blocks] for layer in model.layers
    ],
    "blocks": lambda model, layer, block: model.layers[layer].blocks[block].n_params,
    "cached_bytes": kv_cache_bytes,
}


@pytest.mark.parametrize(
    ("what", "name", "changes", "place", "expected"),
    [
        (what, name, changes, place, expected)
        for what in SAID
        for name, changes, *place, expected in LAYERS[what]
    ],
)
def test_what_a_config_says_by_hand(
    what: str, name: str, changes: Config, place: list[int], expected: Any
) -> None:
    found = SAID[what](parse(row_of(name, changes)), *place)
    assert found == (built(expected) if what in {"cores", "experts"} else expected)


SHARDS: Final = {
    "heads": HEADS,
    "tensor": TENSOR,
    "attention": ATTENTION_REPLICATED,
    "feed_forward": FEED_FORWARD_REPLICATED,
}


@pytest.mark.parametrize(("name", "changes", "layer", "expected"), LAYERS["shards"])
def test_matrices_divide_by_heads_or_repeat(
    name: str, changes: Config, layer: int, expected: dict[str, str | int]
) -> None:
    found = linears(parse(row_of(name, changes)), layer)
    assert {matrix: found[matrix].shard for matrix in expected} == {
        matrix: SHARDS[way] if isinstance(way, str) else by_kv_heads(way)
        for matrix, way in expected.items()
    }


@pytest.mark.parametrize(("name", "changes", "layer", "expected"), LAYERS["matrices"])
def test_matrices_of_a_layer(
    name: str, changes: Config, layer: int | str, expected: dict[str, list[int] | None]
) -> None:
    model = parse(row_of(name, changes))
    found = shapes(labelled(model, layer) if isinstance(layer, str) else linears(model, layer))
    assert {key: [*found[key]] if key in found else None for key in expected} == expected


#: What cores are made of, by name.
CORES: Final = {
    name: kind
    for file in iter_modules(architecture.__path__)
    for name, kind in vars(import_module(f"specroof.architecture.{file.name}")).items()
}


def built(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(built(item) for item in value)
    if not isinstance(value, dict):
        return value
    ((kind, sizes),) = value.items()
    return CORES[kind](**{name: built(size) for name, size in sizes.items()})


# --- rows of the table of traits ------------------------------------------------------------------

COUNTED: Final = table("usual_families")


@pytest.mark.parametrize(
    ("model_type", "base", "keys", "stored", "active", "cached"), COUNTED["counted"]
)
def test_a_family_has_the_sizes_of_its_class(
    model_type: str, base: str, keys: Config, stored: int, active: int, cached: int | None
) -> None:
    model = parse(COUNTED["bases"][base] | keys | {"model_type": model_type})
    assert (model.n_params, model.n_active_params) == (stored, active)
    assert cached is None or kv_cache_bytes(model, 3) == cached
    assert {*COUNTED["notes"].get(model_type, ())} <= {*model.notes}
    assert not [note for note in model.notes if note.startswith("not understood")]


def test_layers_that_run_again_are_stored_once_and_read_each_time() -> None:
    sizes: Config = {"n_input_layers": 0, "n_output_layers": 1, "sliding_window": 9}
    once, thrice = (
        parse(tiny("dory", **sizes, n_recurrent_loops=loops, head_dim=16)) for loops in (1, 3)
    )
    # q, o and the gate of 64 x 64, k and v of 64 x 32, a feed-forward of 128: of one layer, twice
    again = 2 * 2 * (3 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128)
    step = ForwardPass(batch_size=1, query_len=1, context_len=5)
    stored, read = (
        [
            sum(float(part.weight_bytes) * getattr(part, "count", 1) for part in parts(model))
            for model in (once, thrice)
        ]
        for parts in (partial(storage, context_len=5), partial(forward_cost, forward=step))
    )
    assert (stored[1] - stored[0], read[1] - read[0]) == (0, again)
    assert once.weight_bytes == thrice.weight_bytes
    assert kv_cache_bytes(thrice, 5) == 2 * kv_cache_bytes(once, 5)  # 4 caches of 2 layers


ERNIE: Final = CONFIGS["ERNIE_VL"]


def test_experts_of_images_are_kept_and_no_token_of_text_reads_them() -> None:
    model, text = parse(ERNIE), parse(ERNIE | {"moe_intermediate_size": [32, 1]})
    # 3 layers of 8 experts with 3 matrices of 64 x 24, or of 64 x 1
    more = 3 * 8 * 3 * 64 * (24 - 1)
    assert model.n_params - text.n_params == more
    assert model.n_active_params == text.n_active_params
    step = ForwardPass(batch_size=4, query_len=2, context_len=9)
    read, same = (
        sum(float(op.memory_bytes) * op.count for op in forward_cost(one, step))
        for one in (model, text)
    )
    assert read == same
    kept, less = (
        sum(part.weight_bytes for part in storage(one, 0, Options(weight_dtype="fp8")))
        for one in (model, text)
    )
    assert kept - less == more
    matrices = tensor_bytes(model)
    assert matrices["moe.image_experts"] == {"bf16": 2 * 3 * 8 * 3 * 64 * 24}
    assert sum(sum(of_kind.values()) for of_kind in matrices.values()) == model.weight_bytes


def test_a_shared_block_is_stored_once_and_read_in_each_of_its_layers() -> None:
    keys: Config = {"num_key_value_heads": 4, "n_mamba_heads": 8, "mamba_d_state": 16}
    one, three = (
        parse(tiny("zamba", num_hidden_layers=3, layers_block_type=kinds, **keys))
        for kinds in (["hybrid", "mamba", "mamba"], ["hybrid"] * 3)
    )
    # beside the shared block, a layer with one has a matrix of 64 x 64
    assert (
        three.n_params - one.n_params == 2 * 64 * 64 == three.n_active_params - one.n_active_params
    )
    assert three.weight_bytes - one.weight_bytes == 2 * 2 * 64 * 64
    # queries, keys and values take 128, heads of 32; gate, up and down of 128
    block = 3 * 128 * 4 * 32 + 4 * 32 * 64 + 3 * 64 * 128
    step = ForwardPass(batch_size=1, query_len=1, context_len=0)
    once, thrice = (
        sum(float(op.weight_bytes) * op.count for op in forward_cost(model, step))
        for model in (one, three)
    )
    assert thrice - once == 2 * 2 * (block + 64 * 64)
    assert sum(part.weight_bytes for part in storage(three, 0)) < thrice


# --- whole models --------------------------------------------------------------------------------


def test_both_branches_of_a_cohere_layer_are_exchanged_at_once() -> None:
    (layer,) = parse(tiny("cohere")).layers
    assert [block.joins_next for block in layer.blocks] == [True, False]


def test_deepseek_v4_mixes_streams_in_float32() -> None:
    model = model_of("TINY_COMPRESSED", num_hash_layers=0)
    found = linears(model, 2)
    assert found["hc_attn_fn"] == Linear(
        "hc_attn_fn", 4 * 64, 24, FP32, ATTENTION_REPLICATED, "residual"
    )
    assert found["hc_ffn_fn"].shard == FEED_FORWARD_REPLICATED
    assert found["compressor_wkv_wgate"].kind == "compressor"
    assert found["wo_a"].matrix_params == 4 * 32 * 10  # each group of heads to its own rank
    # final norm; the head's mixing has 4 rows, 4 bases and one scale
    assert model.vector_params == 64 + 4 * 256 + 4 + 1
    assert [layer.count for layer in model.layers] == [1, 2, 1]
    assert model_of("HY4").layers[0].blocks[0].linears[-1].weight == FP32


def test_a_nas_layer_may_lack_blocks() -> None:
    usual, square = CONFIGS["NAS"]["block_configs"]
    nothing: Config = {"no_op": True, "n_heads_in_group": None, "ffn_mult": None}
    one_head = usual["attention"] | {"n_heads_in_group": 4}
    blocks = [
        usual,
        {"attention": nothing, "ffn": usual["ffn"]},
        {"attention": one_head, "ffn": nothing},
        square,
        {"attention": nothing, "ffn": nothing},
        usual,
    ]
    model = model_of("NAS", block_configs=blocks, num_hidden_layers=6)
    labels = [(*(block.label for block in layer.blocks), layer.count) for layer in model.layers]
    assert labels == [
        ("full_attention", "mlp", 2),
        ("mlp", 1),
        ("full_attention", 1),
        ("linear", "mlp", 1),
        (1,),
    ]
    assert model.layers[2].blocks[0].core == GroupedQueryAttention(4, 1, 16, 16)
    (replaced,) = model.layers[3].blocks[0].linears
    assert replaced == Linear("linear", 64, 64, shard=HEADS)
    (replaced,) = model_of("NAS").layers[1].blocks[1].linears
    assert replaced == Linear("linear", 64, 64, shard=TENSOR)
    # a layer without attention has no norm before it and caches nothing
    assert kv_cache_bytes(model, 10) == (2 * 2 + 1) * 2 * 16 * 2 * 10


def test_embeddings_per_layer_are_looked_up_and_not_multiplied() -> None:
    keys: Config = {"hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": 500}
    model, without = model_of("GEMMA4", **keys), model_of("GEMMA4")
    assert model.lookup_params == model.embedding_params - 1000 * 64 == 500 * 7 * 6
    assert model.weight_bytes - without.weight_bytes == 2 * (model.n_params - without.n_params)
    read, read_without = (
        sum(op.count * float(op.weight_bytes) for op in forward_cost(toy, ForwardPass(1, 1, 0)))
        for toy in (model, without)
    )
    assert read - read_without == 2 * 7 * 3 * 64 * 6


@pytest.mark.parametrize(("name", "n_indexers"), [("GLM-5", 78), ("GLM-5.2", 21)])
def test_indexers_of_glm_5_cache_keys_and_serve_the_layers_behind_them(
    name: str, n_indexers: int
) -> None:
    model = read_config(_data_folder("model_configs") / f"zai-org--{name}.json")
    # A latent of 576 and an index key of 128, in bf16; `head_dim` and KV heads say nothing. In
    # fp8: 512 + 4 scales of 4 + 64 in bf16, and a key of 128 with a scale of 4.
    assert kv_bytes_per_token(model) == (78 * 576 + n_indexers * 128) * 2
    assert kv_bytes_per_token(model, Options(kv_dtype="fp8")) == 78 * 656 + n_indexers * 132
    # Every layer attends to the 2048 tokens that the last indexer picked.
    assert {core.top_k for core in cores(model)} == {2048}
    ops = forward_cost(model, ForwardPass(batch_size=1, query_len=1, context_len=1e6))
    assert sum(op.count for op in ops if op.kind == "indexer") == n_indexers


def test_a_longcat_layer_is_two_dense_ones_with_experts_beside_the_first() -> None:
    # DeepSeek-V3 without experts
    model, dense = model_of("LONGCAT"), model_of("TINY_LATENT", first_k_dense_replace=4)
    first, second = model.layers
    assert (first.count, second.count) == (2, 2)
    assert first.blocks[0] == second.blocks[0] == dense.layers[0].blocks[0]
    assert first.blocks[2] == second.blocks[1] == dense.layers[0].blocks[1]
    assert first.blocks[1].joins_next
    assert kv_bytes_per_token(model) == 4 * (16 + 4) * 2


def test_a_step_reads_what_its_layers_see() -> None:
    ops = forward_cost(model_of("MIMO"), ForwardPass(batch_size=1, query_len=1, context_len=999))
    assert {op.name: float(op.flops) for op in ops if op.kind == "attention"} == {
        "full_attention.core": 2 * 4 * (24 + 16) * 1000,
        "sliding_attention.core": 2 * 8 * (24 + 16) * 128,
    }
    # norms over all heads exchange the float32 sums of squares of queries and keys of 6 tokens
    first, *_ = forward_cost(model_of("MINIMAX_M2"), ForwardPass(2, 3, 0))
    assert first.collective is not None
    assert first.collective.message_bytes == 6 * 2 * 4


def test_a_tower_is_as_wide_as_it_says_and_not_as_its_output() -> None:
    # Qwen2VLVisionConfig: embed_dim is the width, hidden_size that of the language model
    tower = {"depth": 32, "embed_dim": 1280, "hidden_size": 3584}
    model = parse(tiny("qwen2_vl", vision_config=tower))
    assert model.vision == VisionTower(hidden_size=3584, depth=32, width=1280)
    assert model.vision.weight_bytes == 12 * 32 * 1280**2 * 2


# --- Kimi Linear, Nemotron-H, Falcon-H1, Granite 4 and MiniMax-M1 --------------------------------

MODELS: Final = _data_folder("model_configs")
H56: Final = "nvidia--Nemotron-H-56B-Base-8K"
NANO: Final = "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
M1: Final = "MiniMaxAI--MiniMax-M1-80k"


def load(name: str) -> Config:
    config: Config = json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8"))
    return config


def read(name: str) -> Architecture:
    return read_config(MODELS / f"{name}.json")


@pytest.mark.parametrize(("name", "core"), LAYERS["published_cores"])
def test_cores_of_published_layers(name: str, core: Config) -> None:
    assert built(core) in [found for _, found in read(name).counted_cores]


@pytest.mark.parametrize(("name", "kinds", "exchanges"), rows("values", "recurrent_layers"))
def test_kinds_of_published_layers(name: str, kinds: dict[str, int], exchanges: int) -> None:
    model = read(name)
    assert model.layer_kinds == kinds
    ops = forward_cost(model, ForwardPass(batch_size=1, query_len=1, context_len=1))
    assert sum(op.count for op in ops if op.collective is not None) == exchanges


@pytest.mark.parametrize(("name", "gone", "words", "changes"), rows("values", "spellings"))
def test_two_spellings_are_one_model(
    name: str, gone: list[str], words: dict[str, Any], changes: Config
) -> None:
    config = load(name)
    for key, into in words.items():  # a list of layers in other words, perhaps under another key
        listed = [*config[key], *into.get("more", [])]
        config[into["key"]] = [into["words"].get(kind, kind) for kind in listed]
    model, own = (
        parse({key: config[key] for key in config if key not in gone} | changes),
        read(name),
    )
    assert (model.layers, model.n_params, model.state_dtype) == (
        *(own.layers, own.n_params, own.state_dtype),
    )


def test_layers_of_kimi_are_counted_from_one() -> None:
    # Layers 1 to 3 are delta attention, layer 4 is not; the lists go on.
    model = parse(load("moonshotai--Kimi-Linear-48B-A3B-Instruct") | {"num_hidden_layers": 4})
    assert model.layer_kinds["delta_attention"] == 3
    assert model.layers[-1].blocks[0].label == "latent_attention"
    assert model.layers[0].blocks[1].label == "mlp"  # first_k_dense_replace 1 counts from 0


def test_defaults_of_published_classes() -> None:
    assert "mamba_ssm_cache_dtype" not in load(H56)
    assert read(H56).state_dtype == "fp32"
    narrow = load("nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-BF16")
    narrow["mamba_ssm_cache_dtype"] = "bfloat16"
    assert parse(narrow).state_dtype == "bf16"
    # without mamba_d_ssm twice the hidden size, over 24 heads
    wide = parse(load("tiiuae--Falcon-H1-7B") | {"mamba_d_head": "auto", "mamba_d_ssm": None})
    (mamba,) = (core for _, core in wide.counted_cores if isinstance(core, Mamba2))
    assert mamba.inner_dim == 2 * 3072
    # configuration_granitemoehybrid.py: without a list all layers are Mamba
    bare = parse(load("ibm-granite--granite-4.0-h-tiny") | {"layer_types": None})
    assert bare.layer_kinds == {"mamba2": 40, "moe": 40}
    # 23 layers of two matrices for the one shared expert
    config = load(NANO)
    one, none = parse(config), parse(config | {"n_shared_experts": 0})
    assert one.n_params - none.n_params == 23 * 2 * 2688 * 3712
    assert any("MiniMax-Text-01" in note for note in read(M1).notes)
    assert parse(load(M1) | {"model_type": "minimax"}).notes == ()


@pytest.mark.parametrize(
    ("name", "module", "label", "matrix"), rows("values", "quantised_matrices")
)
def test_a_list_names_one_matrix_of_one_layer(
    name: str, module: str, label: str, matrix: str
) -> None:
    # Everything is FP8 but the listed matrix.
    for listed, expected in (([], "fp8"), ([module], "bf16")):
        section = {"quant_method": "fp8", "modules_to_not_convert": listed}
        found = labelled(quantized(load(name), section), label)[matrix]
        assert found.weight.name == expected


def test_experts_of_kimi_k3_are_narrow_and_their_arithmetic_is_not() -> None:
    (form,) = {core.weight for core in experts(read("moonshotai--Kimi-K3"))}
    assert (form.name, form.compute_dtype) == ("mxfp4", "bf16")


def test_a_name_that_promises_narrow_weights_is_held_to_it() -> None:
    text, stated = json.dumps(load(NANO)), json.dumps(load(NANO.replace("BF16", "NVFP4")))
    told = parse_config(text, source="some--Model-NVFP4.json")
    assert told.notes[-1].startswith("the name says NVFP4, but neither ")
    for said, name in ((text, "Model-BF16"), (text, "FP8Model"), (stated, "Model-NVFP4")):
        assert parse_config(said, source=f"some--{name}.json").notes == ()
