"""Each form of quantisation: bytes, arithmetic, and which matrices it leaves alone."""

import pytest

from specroof.architecture import WEIGHT_FORMATS, Experts, WeightFormat
from tiny_configs import (
    FP8_BLOCKS,
    TINY,
    TINY_COMPRESSED,
    TINY_EXPERTS,
    TINY_LATENT,
    Config,
    linears,
    parse,
)


def compressed(weights: Config, activations: Config | None = None) -> Config:
    """Return a compressed-tensors config of one group."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"quant_method": "fp8"}, WEIGHT_FORMATS["fp8"]),
        ({"quant_method": "fp8", "weight_block_size": None}, WEIGHT_FORMATS["fp8"]),
        (FP8_BLOCKS, WEIGHT_FORMATS["fp8-block"]),
        (
            {"quant_method": "fp8", "weight_block_size": [64, 32]},
            WeightFormat("fp8-block", 1 + 4 / 2048, "fp8"),
        ),
        # scales of 2 bytes and zeros of 4 bits per 128 weights
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
            WeightFormat("int4", 0.5 + 2.5 / 128, "bf16"),
        ),
        (
            {"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "zero_point": False},
            WeightFormat("int4", 0.5 + 2 / 64, "bf16"),
        ),
        (
            {"quant_method": "gptq", "bits": 8, "group_size": 32},
            WeightFormat("int8", 1 + 3 / 32, "bf16"),
        ),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": -1},
            WeightFormat("int4", 0.5, "bf16"),
        ),
        (
            compressed({"type": "int", "num_bits": 4, "group_size": 128}),
            WEIGHT_FORMATS["int4"],
        ),
        (
            compressed({"type": "float", "num_bits": 8}, {"type": "float", "num_bits": 8}),
            WEIGHT_FORMATS["fp8"],
        ),
        (
            compressed(
                {"type": "float", "num_bits": 8, "block_structure": [128, 128]},
                {"type": "float", "num_bits": 8},
            ),
            WEIGHT_FORMATS["fp8-block"],
        ),
        (
            compressed({"type": "int", "num_bits": 8}, {"type": "int", "num_bits": 8}),
            WEIGHT_FORMATS["int8"],
        ),
        (
            compressed(
                {"type": "int", "num_bits": 4, "group_size": 128}, {"type": "float", "num_bits": 8}
            ),
            WeightFormat("int4", 0.5 + 2 / 128, "fp8"),
        ),
        (
            compressed(
                {"type": "float", "num_bits": 4, "group_size": 16}, {"type": "float", "num_bits": 4}
            ),
            WEIGHT_FORMATS["nvfp4"],
        ),
        (
            compressed({"type": "float", "num_bits": 4, "group_size": 32}),
            WeightFormat("mxfp4", 0.5 + 1 / 32, "bf16"),
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, WEIGHT_FORMATS["fp8"]),
        ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, WEIGHT_FORMATS["fp8"]),
        ({"quant_algo": "NVFP4", "group_size": 16}, WEIGHT_FORMATS["nvfp4"]),
        ({"quant_algo": "W4A16_NVFP4"}, WeightFormat("nvfp4", 0.5 + 1 / 16, "bf16")),
        ({"quant_algo": "MXFP8"}, WEIGHT_FORMATS["mxfp8"]),
        ({"quant_algo": None}, WEIGHT_FORMATS["bf16"]),
    ],
    ids=str,
)
def test_a_form_of_quantisation_has_its_bytes_and_arithmetic(
    section: Config, expected: WeightFormat
) -> None:
    model = parse(TINY | {"quantization_config": section})
    found = {linear.weight for linear in linears(model).values()}
    assert {form.name for form in found} == {expected.name}
    assert {form.compute_dtype for form in found} == {expected.compute_dtype}
    assert [form.element_bytes for form in found] == pytest.approx([expected.element_bytes])
    assert model.head.weight == WEIGHT_FORMATS["bf16"]


def test_quantised_bytes_are_the_matrices_at_the_stated_width() -> None:
    # one layer: q and o 64 x 64, k and v 64 x 32, gate and up 64 x 256, down 128 x 64
    matrices = 2 * (2 * 4096 + 2 * 2048 + 16384 + 8192)
    saved = (
        parse(TINY).weight_bytes - parse(TINY | {"quantization_config": FP8_BLOCKS}).weight_bytes
    )
    assert saved == pytest.approx(matrices * (2 - 1 - 4 / 16384))


ALL = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj"}


@pytest.mark.parametrize(
    ("entry", "plain"),
    [
        ("model.layers.1.self_attn.q_proj", [set(), {"q_proj"}]),
        ("model.language_model.layers.1.self_attn.q_proj", [set(), {"q_proj"}]),
        ("layers.1.self_attn", [set(), {"q_proj", "k_proj", "v_proj", "o_proj"}]),
        ("self_attn.q_proj", [{"q_proj"}, {"q_proj"}]),
        ("q_proj", [{"q_proj"}, {"q_proj"}]),
        ("model.layers.*.mlp.down_proj", [{"down_proj"}, {"down_proj"}]),
        # a module stands for what is inside
        ("model.layers.*.mlp", [{"gate_up_proj", "down_proj"}, {"gate_up_proj", "down_proj"}]),
        ("*.mlp.*", [{"gate_up_proj", "down_proj"}, {"gate_up_proj", "down_proj"}]),
        ("model.layers.1.mlp*", [set(), {"gate_up_proj", "down_proj"}]),
        ("mlp.gate_up_proj", [{"gate_up_proj"}, {"gate_up_proj"}]),
        ("re:.*layers\\.1\\..*down.*", [set(), {"down_proj"}]),
        ("re:.*(q|k)_proj$", [{"q_proj", "k_proj"}, {"q_proj", "k_proj"}]),
        ("re:model\\.layers\\.0\\.mlp\\.down_proj", [{"down_proj"}, set()]),
        ("model*", [ALL, ALL]),
        ("model.language_model*", [ALL, ALL]),
        ("*layers.?.mlp.down_proj", [{"down_proj"}, {"down_proj"}]),
        ("layers.[1-9].*", [set(), ALL]),
        # what names nothing inside the language model
        ("lm_head", [set(), set()]),
        ("mtp.layers.1*", [set(), set()]),
        ("mtp.layers.1.self_attn.q_proj", [set(), set()]),
        ("model.visual.blocks.1.attn.proj", [set(), set()]),
        ("proj", [set(), set()]),
        ("layers.99999999999.mlp", [set(), set()]),
    ],
)
def test_an_ignored_module_stays_plain(entry: str, plain: list[set[str]]) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": [entry]}
    # A layer alone, then both: were the two merged wrongly, their counts would tell.
    model = parse(TINY | {"quantization_config": section})
    layers = [index for index, layer in enumerate(model.layers) for _ in range(layer.count)]
    assert [
        {name for name, linear in linears(model, layer).items() if linear.weight.name == "bf16"}
        for layer in layers
    ] == plain


@pytest.mark.parametrize("entry", ["model.layers.?.mlp.*", "re:.*layers\\..\\.mlp.*"])
def test_a_wildcard_of_one_character_tells_layers_apart(entry: str) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": [entry]}
    model = parse(TINY | {"num_hidden_layers": 12, "quantization_config": section})
    assert [layer.count for layer in model.layers] == [10, 2]  # 10 and 11 are two characters


def test_a_glob_by_digits_covers_whole_layers() -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": ["model.layers.1*"]}
    model = parse(TINY | {"num_hidden_layers": 12, "quantization_config": section})
    assert [layer.count for layer in model.layers] == [9, 3]  # 1, 10 and 11
    assert linears(model, 1)["q_proj"].weight.name == "bf16"


def test_mxfp4_is_for_experts_only() -> None:
    section = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    model = parse(TINY_EXPERTS | {"model_type": "gpt_oss", "quantization_config": section})
    assert {linear.weight.name for linear in linears(model).values()} == {"bf16"}
    core = model.layers[0].blocks[1].core
    assert isinstance(core, Experts)
    assert core.weight == WEIGHT_FORMATS["mxfp4"]


def test_routers_and_index_weights_are_never_quantised() -> None:
    model = parse(TINY_LATENT | {"model_type": "deepseek_v32", "quantization_config": FP8_BLOCKS})
    found = linears(model, 1)
    plain = {name for name, linear in found.items() if linear.weight.name == "bf16"}
    assert plain == {"router", "indexer_weights_proj"}


def test_modules_with_their_own_algorithms_have_them() -> None:
    section = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            "model.layers.0.mlp.gate_proj": {"quant_algo": "NVFP4", "group_size": 16},
            "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
            "lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
        },
    }
    model = parse(TINY | {"quantization_config": section})
    found = {name: linear.weight.name for name, linear in linears(model).items()}
    assert found["gate_up_proj"] == "nvfp4"
    assert found["q_proj"] == "fp8"
    assert {found["k_proj"], found["down_proj"]} == {"bf16"}
    assert model.head.weight == WeightFormat("nvfp4", 0.5625, "bf16")
    assert {linear.weight.name for linear in linears(model, 1).values()} == {"bf16"}


def test_compressed_groups_can_name_their_modules() -> None:
    section = {
        "quant_method": "compressed-tensors",
        "ignore": ["re:.*layers.0.*"],
        "config_groups": {
            "a": {
                "targets": ["re:.*down_proj"],
                "weights": {"type": "float", "num_bits": 8},
                "input_activations": {"type": "float", "num_bits": 8},
            },
            "b": {"targets": ["Linear"], "weights": {"type": "int", "num_bits": 4}},
            "c": {"targets": ["Linear"], "weights": None},
        },
    }
    model = parse(TINY | {"quantization_config": section})
    assert {linear.weight.name for linear in linears(model, 0).values()} == {"bf16"}
    found = {name: linear.weight.name for name, linear in linears(model, 1).items()}
    assert found["down_proj"] == "fp8"
    assert found["q_proj"] == "int4"


def test_gptq_can_include_the_head() -> None:
    section = {"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}
    assert parse(TINY | {"quantization_config": section}).head.weight.name == "int4"


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}


@pytest.mark.parametrize(
    "modules",
    [
        # groups that are quantised one after another, as transformers writes them, or one list
        [["self_attn.q_proj", "self_attn.k_proj"], ["mlp.down_proj"]],
        ["self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj"],
    ],
    ids=["groups", "list"],
)
def test_gptq_can_name_the_modules_that_it_quantises(modules: list[object]) -> None:
    section = GPTQ | {"modules_in_block_to_quantize": modules}
    model = parse(TINY | {"quantization_config": section})
    found = {name for name, linear in linears(model).items() if linear.weight.name == "int4"}
    assert found == {"q_proj", "k_proj", "down_proj"}
    assert model.head.weight.name == "bf16"


def test_gptq_settings_by_expression_count_in_their_order() -> None:
    section = GPTQ | {
        "dynamic": {
            "-:model\\.layers\\.0\\..*": {},  # left alone, whatever comes next
            "+:.*down_proj": {"bits": 8, "group_size": 32},
            ".*q_proj": {"bits": 8},
            ".*(q|k)_proj": {"group_size": 64},
            ".*up_proj": None,  # names no settings
        }
    }
    model = parse(TINY | {"quantization_config": section})
    assert {linear.weight.name for linear in linears(model, 0).values()} == {"bf16"}
    found = {name: linear.weight for name, linear in linears(model, 1).items()}
    # A scale of 2 bytes and a zero as wide as a weight for every group.
    widths = {"down_proj": 1 + 3 / 32, "q_proj": 1 + 3 / 128, "k_proj": 0.5 + 2.5 / 64}
    others = dict.fromkeys(found.keys() - widths, 0.5 + 2.5 / 128)
    assert {name: weight.element_bytes for name, weight in found.items()} == pytest.approx(
        widths | others
    )


@pytest.mark.parametrize(
    ("keys", "experts", "others"),
    [
        # one byte of scale per block, unlike the float32 scales of DeepSeek-V3
        ({"quantization_config": FP8_BLOCKS, "expert_dtype": "fp4"}, "mxfp4", 1 + 1 / 16384),
        ({"quantization_config": FP8_BLOCKS}, "mxfp4", 1 + 1 / 16384),
        ({"quantization_config": FP8_BLOCKS, "expert_dtype": "fp8"}, "fp8-block", 1 + 1 / 16384),
        ({"quantization_config": FP8_BLOCKS | {"expert_dtype": "fp8"}}, "fp8-block", 1 + 1 / 16384),
        ({}, "bf16", 2.0),
        (
            {
                "expert_dtype": "fp4",
                "quantization_config": FP8_BLOCKS
                | {"quantized_layers": {"layers.1.ffn.experts": {"quant_algo": "NVFP4"}}},
            },
            "nvfp4",
            1 + 1 / 16384,
        ),
    ],
)
def test_deepseek_v4_experts_are_narrower_than_the_config_says(
    keys: Config, experts: str, others: float
) -> None:
    model = parse(TINY_COMPRESSED | keys)
    sparse = model.layers[1].blocks
    assert isinstance(sparse[1].core, Experts)
    assert sparse[1].core.weight.name == experts
    found = linears(model, 1)
    wide = {"wq_a", "wq_b", "wkv", "wo_a", "wo_b", "indexer_wq_b", "shared_down_proj"}
    assert {found[name].weight.element_bytes for name in wide} == {others}
    plain = {"router", "indexer_weights_proj", "compressor_wkv_wgate"}
    assert {found[name].weight.name for name in plain} == {"bf16"}
    assert model.head.weight.name == "bf16"
