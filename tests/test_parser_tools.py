"""Quantisation of AMD Quark, torchao, AutoRound, bitsandbytes and FBGEMM: bytes and arithmetic."""

import pytest

from specroof.architecture import WEIGHT_FORMATS, Experts, WeightFormat
from specroof.errors import ConfigError
from tiny_configs import TINY, TINY_EXPERTS, Config, linears, parse

FP8: Config = {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}
MXFP4: Config = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}


def quark(weight: object, inputs: object = None, **more: object) -> Config:
    """Return a Quark config with one scheme for all."""
    scheme = {"weight": weight, "input_tensors": inputs, "output_tensors": None, "bias": None}
    return {"quant_method": "quark", "global_quant_config": scheme, **more}


def torchao(kind: str, **data: object) -> Config:
    """Return a torchao config as transformers writes it."""
    inner = {"_type": kind, "_version": 1, "_data": data}
    return {"quant_method": "torchao", "quant_type": {"default": inner}}


def quantised(section: Config, **more: object) -> dict[str, WeightFormat]:
    """Return the formats of the matrices of a small Llama's first layer."""
    model = parse(TINY | {"quantization_config": section} | more)
    return {name: linear.weight for name, linear in linears(model).items()}


# --- bytes and arithmetic ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        # fp8 in fp8; a float32 for 128 x 128 weights
        (quark(FP8, FP8), WEIGHT_FORMATS["fp8"]),
        (quark([FP8], [FP8]), WEIGHT_FORMATS["fp8"]),
        (quark(FP8), WeightFormat("fp8", 1.0, "bf16")),
        (
            quark({"dtype": "fp8_e4m3", "qscheme": "per_block", "block_size": [128, 128]}, FP8),
            WEIGHT_FORMATS["fp8-block"],
        ),
        # one byte a group (OCP Microscaling): of 32, and of 16 in NVFP4
        (quark(MXFP4, MXFP4), WEIGHT_FORMATS["mxfp4"]),
        (quark(MXFP4, FP8), WeightFormat("mxfp4", 0.5 + 1 / 32, "fp8")),
        (quark(MXFP4), WeightFormat("mxfp4", 0.5 + 1 / 32, "bf16")),
        (
            quark(MXFP4 | {"dtype": "fp6_e2m3"}, MXFP4 | {"dtype": "fp6_e2m3"}),
            WeightFormat("mxfp6", 0.75 + 1 / 32, "fp6"),
        ),
        (
            quark([MXFP4 | {"group_size": 16}, FP8], [MXFP4 | {"group_size": 16}, FP8]),
            WEIGHT_FORMATS["nvfp4"],
        ),
        (quark(MXFP4 | {"group_size": 64}), WeightFormat("fp4", 0.5 + 1 / 64, "bf16")),
        # INT4 weights in FP8 arithmetic, a scale per row
        (
            quark([FP8, {"dtype": "int4", "qscheme": "per_channel", "symmetric": True}], FP8),
            WeightFormat("int4", 0.5, "fp8"),
        ),
        # two bytes of scale per group, and half a byte of zero
        (
            quark({"dtype": "int4", "qscheme": "per_group", "group_size": 128}),
            WeightFormat("int4", 0.5 + 2 / 128, "bf16"),
        ),
        (
            quark(
                {"dtype": "uint4", "qscheme": "per_group", "group_size": 128, "symmetric": False}
            ),
            WeightFormat("int4", 0.5 + 2.5 / 128, "bf16"),
        ),
        ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, WEIGHT_FORMATS["fp8"]),
        # bf16 scale and zero per group, 128 weights by default
        (torchao("Int4WeightOnlyConfig"), WeightFormat("int4", 0.5 + 4 / 128, "bf16")),
        (
            torchao("Int4WeightOnlyConfig", group_size=32),
            WeightFormat("int4", 0.5 + 4 / 32, "bf16"),
        ),
        (torchao("Int8WeightOnlyConfig"), WeightFormat("int8", 1.0, "bf16")),
        (torchao("Int8DynamicActivationInt8WeightConfig"), WEIGHT_FORMATS["int8"]),
        (torchao("Float8WeightOnlyConfig"), WeightFormat("fp8", 1.0, "bf16")),
        (torchao("Float8DynamicActivationFloat8WeightConfig"), WEIGHT_FORMATS["fp8"]),
        (
            {
                "quant_method": "torchao",
                "quant_type": "int4_weight_only",
                "quant_type_kwargs": {"group_size": 64},
            },
            WeightFormat("int4", 0.5 + 4 / 64, "bf16"),
        ),
        # as GPTQ packs it: two bytes of scale and half a byte of zero
        (
            {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True},
            WeightFormat("int4", 0.5 + 2.5 / 128, "bf16"),
        ),
        (
            {
                "quant_method": "auto-round",
                "bits": 8,
                "group_size": [128, 128],
                "data_type": "fp",
                "act_bits": 8,
            },
            WEIGHT_FORMATS["fp8-block"],
        ),
        (
            {
                "quant_method": "auto-round",
                "bits": 4,
                "group_size": 32,
                "data_type": "mx_fp",
                "act_bits": 4,
            },
            WEIGHT_FORMATS["mxfp4"],
        ),
        (
            {"quant_method": "auto-round", "bits": 8, "group_size": 32, "data_type": "mx_fp"},
            WeightFormat("mxfp8", 1 + 1 / 32, "bf16"),
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, WEIGHT_FORMATS["int8"]),
        # QLoRA: a float32 per 64 weights is half a bit each, quantised again 0.127 bits
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
            WeightFormat("nf4", 0.5 + 0.5 / 8, "bf16"),
        ),
        (
            {
                "quant_method": "bitsandbytes",
                "_load_in_4bit": True,
                "bnb_4bit_use_double_quant": True,
            },
            WeightFormat("fp4", 0.5 + (8 / 64 + 32 / (64 * 256)) / 8, "bf16"),
        ),
    ],
)
def test_weights_have_the_bytes_and_arithmetic_of_the_tool(
    section: Config, expected: WeightFormat
) -> None:
    formats = quantised(section)
    assert set(formats.values()) == {expected}
    head = parse(TINY | {"quantization_config": section}).head.weight
    assert head.name == "bf16"  # no tool quantises it unless it is named


# --- which matrices ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "section",
    [
        quark(FP8, FP8, exclude=["lm_head", "*.o_proj"]),
        {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["o_proj"]},
        torchao("Float8WeightOnlyConfig") | {"modules_to_not_convert": ["o_proj"]},
        {
            "quant_method": "bitsandbytes",
            "load_in_8bit": True,
            "llm_int8_skip_modules": ["o_proj"],
        },
        {
            "quant_method": "auto-round",
            "bits": 4,
            "group_size": 128,
            "extra_config": {"model.layers.0.self_attn.o_proj": {"bits": 16}},
        },
    ],
)
def test_listed_modules_are_left_alone(section: Config) -> None:
    formats = quantised(section)
    assert formats["o_proj"].name == "bf16"
    assert formats["q_proj"].name != "bf16"


def test_auto_round_has_settings_for_single_modules() -> None:
    own = {"model.layers.0.mlp.down_proj": {"bits": 8, "group_size": 32}}
    section = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": own}
    formats = quantised(section)
    assert formats["down_proj"] == WeightFormat("int8", 1 + 3 / 32, "bf16")
    assert formats["q_proj"].name == "int4"


def test_quark_has_schemes_for_single_modules() -> None:
    layers = {"*down_proj": {"weight": MXFP4}, "*q_proj": {"weight": None}}
    section = quark(FP8, FP8, layer_quant_config=layers, exclude=[])
    formats = quantised(section)
    assert [formats[name].name for name in ("down_proj", "q_proj", "k_proj")] == [
        "mxfp4",
        "bf16",
        "fp8",
    ]
    assert {form.name for form in quantised(quark(None)).values()} == {"bf16"}


def test_quark_experts_are_quantised() -> None:
    model = parse(
        TINY_EXPERTS | {"model_type": "qwen3_moe", "quantization_config": quark(MXFP4, MXFP4)}
    )
    core = model.layers[0].blocks[1].core
    assert isinstance(core, Experts)
    assert core.weight == WEIGHT_FORMATS["mxfp4"]


@pytest.mark.parametrize(
    ("more", "kv_dtype"),
    [
        ({}, "bf16"),
        ({"export": {"kv_cache_group": []}}, "bf16"),
        ({"export": {"kv_cache_group": ["*v_proj"]}}, "bf16"),  # without a scheme of its output
        ({"export": {"kv_cache_group": ["*k_proj"]}}, "fp8"),
        ({"export": {"kv_cache_group": ["*z_proj", "*k_proj"]}}, "fp8"),
    ],
)
def test_quark_narrows_the_cache_by_the_output_of_projections(more: Config, kv_dtype: str) -> None:
    layers = {
        "*k_proj": {"weight": FP8, "input_tensors": FP8, "output_tensors": FP8},
        "*v_proj": {"weight": FP8, "input_tensors": FP8},
    }
    section = quark(FP8, FP8, layer_quant_config=layers, **more)
    assert parse(TINY | {"quantization_config": section}).kv_dtype == kv_dtype


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({"quant_method": "quark"}, "global_quant_config"),
        (
            quark(FP8, FP8, layer_type_quant_config={"Linear": {"weight": MXFP4}}),
            "layer_type_quant_config",
        ),
        (quark({"dtype": "fp3", "qscheme": "per_tensor"}), "weight.dtype"),
        (quark({"dtype": "fp4", "qscheme": "per_row"}), "weight.qscheme"),
        (quark({"dtype": "fp4", "qscheme": "per_group"}), "weight.group_size"),
        (quark({"dtype": "fp8_e4m3", "qscheme": "per_block"}), "weight.block_size"),
        (quark([]), "weight"),
        (quark(FP8, {"dtype": "tf32"}), "input_tensors.dtype"),
        (
            quark(
                FP8,
                layer_quant_config={"k": {"output_tensors": MXFP4}},
                export={"kv_cache_group": ["k"]},
            ),
            "output_tensors.dtype",
        ),
        (torchao("NVFP4InferenceConfig"), "quant_type.default._type"),
        ({"quant_method": "torchao", "quant_type": "int3_weight_only"}, "quant_type"),
        ({"quant_method": "torchao", "quant_type": {}}, "quant_type"),
        ({"quant_method": "torchao"}, "quant_type"),
        (
            torchao("Int8WeightOnlyConfig") | {"include_input_output_embeddings": True},
            "include_input_output_embeddings",
        ),
        ({"quant_method": "auto-round", "bits": 9, "group_size": 128}, "bits"),
        (
            {"quant_method": "auto-round", "bits": 4, "group_size": 16, "data_type": "nv_fp"},
            "data_type",
        ),
        (
            {"quant_method": "auto-round", "bits": 3, "group_size": 32, "data_type": "mx_fp"},
            "data_type",
        ),
        (
            {"quant_method": "auto-round", "bits": 8, "group_size": [128], "data_type": "fp"},
            "group_size",
        ),
        ({"quant_method": "bitsandbytes"}, "load_in_4bit"),
        (
            {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": True},
            "load_in_4bit",
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf3"},
            "bnb_4bit_quant_type",
        ),
    ],
)
def test_what_a_tool_does_not_write_is_refused(section: Config, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(TINY | {"quantization_config": section})
    message = str(caught.value)
    assert message.startswith("config.json: quantization_config.")
    assert key in message.split("; allowed: ", maxsplit=1)[0]
