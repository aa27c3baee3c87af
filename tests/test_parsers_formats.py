"""Quantised weights: bytes, arithmetic, and which matrices stay as they are."""

import re

import pytest

from effort import cpu_bound
from specroof.architecture.base import WEIGHT_FORMATS
from specroof.architecture.experts import Experts
from specroof.parsers.formats import ModuleNames
from tables import rows, table
from tiny_configs import (
    FP8_BLOCKS,
    TINY,
    TINY_COMPRESSED,
    Config,
    experts,
    left_out,
    linears,
    of,
    parse,
    plain,
    quantized,
    refused,
)

FORMS: list[tuple[Config, str, float, str]] = table("weight_formats")


@pytest.mark.parametrize(("section", "name", "element_bytes", "compute_dtype"), FORMS, ids=str)
def test_a_form_of_quantisation_has_its_bytes_and_arithmetic(
    section: Config, name: str, element_bytes: float, compute_dtype: str
) -> None:
    model = parse(TINY | {"quantization_config": section})
    found = {linear.weight for linear in linears(model).values()}
    assert {(form.name, form.compute_dtype) for form in found} == {(name, compute_dtype)}
    assert [form.element_bytes for form in found] == pytest.approx([element_bytes])
    assert model.head.weight == WEIGHT_FORMATS["bf16"]  # no tool quantises it unless it is named


def test_quantised_bytes_are_the_matrices_at_the_stated_width() -> None:
    # one layer: q and o 64 x 64, k and v 64 x 32, gate and up 64 x 256, down 128 x 64
    matrices = 2 * (2 * 4096 + 2 * 2048 + 16384 + 8192)
    saved = (
        parse(TINY).weight_bytes - parse(TINY | {"quantization_config": FP8_BLOCKS}).weight_bytes
    )
    assert saved == pytest.approx(matrices * (2 - 1 - 4 / 16384))


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


FP8: Config = {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}


def quark(weight: object, inputs: object = None, **more: object) -> Config:
    scheme = {"weight": weight, "input_tensors": inputs, "output_tensors": None, "bias": None}
    return {"quant_method": "quark", "global_quant_config": scheme, **more}


@pytest.mark.parametrize(
    "section",
    rows("values", "sections_with_lists"),
)
def test_listed_modules_are_left_alone(section: Config) -> None:
    found = linears(quantized(TINY, section))
    assert found["o_proj"].weight.name == "bf16"
    assert found["q_proj"].weight.name != "bf16"


@pytest.mark.parametrize(("more", "kv_dtype"), rows("values", "quark_outputs"))
def test_quark_narrows_the_cache_by_the_output_of_projections(more: Config, kv_dtype: str) -> None:
    layers = {
        "*k_proj": {"weight": FP8, "input_tensors": FP8, "output_tensors": FP8},
        "*v_proj": {"weight": FP8, "input_tensors": FP8},
    }
    section = quark(FP8, FP8, layer_quant_config=layers, **more)
    assert parse(TINY | {"quantization_config": section}).kv_dtype == kv_dtype


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
    with cpu_bound(60):  # takes 2
        parse(TINY | {"num_hidden_layers": 100, "quantization_config": section})


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
