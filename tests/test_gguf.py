"""GGUF files: their headers, the models that they describe, and what is wrong with bad ones."""

import json
import struct
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from fuzzing import bounded
from gguf_files import TYPES, Tensors, gguf_bytes, text, value_bytes
from specroof import advise, load_drafter, load_model
from specroof.architecture.draft_heads import DraftHead
from specroof.architecture.mixes import mixed
from specroof.catalog.names import load_draft_config
from specroof.errors import CatalogError, ConfigError, OptionError, SpecroofError
from specroof.parsers import gguf
from specroof.parsers.drafters import parse_drafter_config
from specroof.parsers.gguf import GgufHeader, parse_gguf, parse_gguf_mtp, read_gguf
from tables import refusal, rows, table
from tiny_configs import Config, linears, parse

DATA: dict[str, Any] = table("gguf_files")
#: Width, width of the feed-forward, vocabulary.
H, F, V = 256, 512, 1000
FAMILIES = [name for name in DATA["files"] if not name.startswith("drafting")]


def common(arch: str, n_layers: int, keys: dict[str, Any]) -> dict[str, Any]:
    sizes = {
        "block_count": n_layers,
        "context_length": 4096,
        "embedding_length": H,
        "feed_forward_length": F,
        "attention.head_count": 8,
        "attention.head_count_kv": 2,
        "attention.key_length": 32,
        **keys,
    }
    return {
        "general.architecture": arch,
        "general.name": "x" * 2000,
        "tokenizer.ggml.tokens": ["<s>", "a", "b"],
        "tokenizer.ggml.scores": [0.5] * 1200,
        "general.nested": [[1, 2], [3]],
        **{f"{arch}.{key}": value for key, value in sizes.items() if value != "$GONE"},
    }


def layer_of(index: int, parts: list[Any], form: str) -> Tensors:
    """Return the tensors of a layer: matrices in a format, vectors and small ones in float32."""
    tensors = []
    for part in parts:
        for name, shape in (DATA["parts"][part] if isinstance(part, str) else part).items():
            wide = len(shape) == 1 or name in {"ffn_gate_inp.weight", "ssm_conv1d.weight"}
            tensors.append((f"blk.{index}.{name}", shape, "f32" if wide else form))
    return tensors


def a_file(name: str, form: str = "q8_0") -> tuple[dict[str, Any], Tensors, Config]:
    """Return the metadata and tensors of a file, and the config that says the same."""
    row = DATA["files"][name]
    tensors: list[Any] = [("token_embd.weight", [H, V], form), ("output_norm.weight", [H], "f32")]
    if "tied" not in row:
        tensors.append(("output.weight", [H, V], form))
    layers = [parts for count, *parts in row["layers"] for _ in range(count)]
    for index, parts in enumerate(layers):
        tensors += layer_of(index, parts, form)
    base, changes = row["config"]
    metadata = common(row["arch"], len(layers), row["keys"])
    return metadata, tensors, DATA["configs"][base] | changes


def drafting(name: str, form: str) -> tuple[dict[str, Any], Tensors, Tensors, Config]:
    """Return the model, the tensors of its one draft layer, and its config."""
    metadata, tensors, config = a_file(name, form)
    last = f"blk.{metadata[metadata['general.architecture'] + '.block_count'] - 1}."
    drafted = [one for one in tensors if one[0].startswith(last)]
    return metadata, [one for one in tensors if one not in drafted], drafted, config


def header(metadata: dict[str, Any], tensors: Tensors) -> GgufHeader:
    data = gguf_bytes(metadata, tensors, weights=False)
    found = read_gguf(data, source="m.gguf", file_bytes=10**12)
    assert found is not None
    return found


def n_bytes(tensors: Tensors) -> int:
    total = 0
    for _, shape, form in tensors:
        _, block, block_bytes = TYPES[form]
        total += prod(shape) // block * block_bytes
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_is_the_model_of_its_config(family: str) -> None:
    metadata, tensors, config = a_file(family)
    model = parse_gguf([header(metadata, tensors)], name="m")
    expected = mixed(parse(config), "q8_0")
    assert replace(model, name="", notes=()) == replace(expected, name="", notes=())
    assert model.weight_bytes == n_bytes(tensors)
    assert not [note for note in model.notes if "multi-token" not in note]


def test_every_architecture_has_a_file_above() -> None:
    known = {a_file(family)[0]["general.architecture"] for family in FAMILIES}
    assert known == {*gguf._FAMILIES}


def test_each_matrix_has_the_format_of_its_tensors() -> None:
    metadata, tensors, config = a_file("llama", "q4_k")
    wide = {"blk.1.attn_v.weight": "q6_k", "blk.1.ffn_up.weight": "q5_k", "output.weight": "q6_k"}
    tensors = [(name, shape, wide.get(name, form)) for name, shape, form in tensors]
    model = parse_gguf([header(metadata, tensors)], name="m")
    assert model.layer_order == (0, 1)
    found = {name: one.weight.name for name, one in linears(model, 1).items()}
    assert found == dict.fromkeys(("q_proj", "k_proj", "o_proj", "down_proj"), "q4_k") | {
        "v_proj": "q6_k",
        "gate_up_proj": "q4_k+q5_k",
    }
    assert (model.head.weight.name, model.embedding and model.embedding.name) == ("q6_k", "q4_k")
    assert model.weight_bytes == n_bytes(tensors)
    assert model.n_params == parse(config).n_params


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        # a draft layer is left out, and tensors that the model does not have; both are said
        ({"llama.block_count": 3, "llama.nextn_predict_layers": 1},
         layer_of(2, ["attention", "ffn_norm", "gated"], "q8_0")),
        ({}, [("strange.weight", [H, H], "q8_0")]),
        # a size may stand once for each layer
        ({"llama.feed_forward_length": [F, F]}, []),
    ],
)  # fmt: skip
def test_what_is_no_part_of_the_model_is_left_out_and_said(
    changes: dict[str, Any], more: Tensors
) -> None:
    metadata, tensors, _ = a_file("llama")
    model = parse_gguf([header(metadata | changes, [*tensors, *more])], name="m")
    assert model.n_layers == 2
    assert model.weight_bytes == n_bytes(tensors)
    assert len(model.notes) == bool(more)


@pytest.mark.parametrize("file", ["drafting_qwen35", "drafting_glm", "drafting_glm_flash"])
def test_a_draft_layer_is_that_of_the_config_with_the_bytes_of_the_file(file: str) -> None:
    metadata, tensors, drafted, config = drafting(file, "q4_0")
    wide = [(name, shape, "q8_0" if "eh_proj" in name else form) for name, shape, form in drafted]
    file_header = header(metadata, [*tensors, *wide])
    head = parse_gguf_mtp([file_header], name="m")
    assert parse_gguf([file_header], name="m").family == config["model_type"]
    usual = parse_drafter_config(json.dumps(config), source="m.json", kind="mtp")
    assert isinstance(usual, DraftHead)
    assert (head.kind, head.name, head.modules) == ("mtp", "m MTP", 1)
    assert head.shares_head
    assert (head.n_params, head.target_size) == (usual.n_params, usual.target_size)
    assert head.model.layer_kinds == usual.model.layer_kinds
    assert head.model.weight_bytes == n_bytes(wide)


def test_a_file_of_draft_layers_alone_is_one(tmp_path: Path) -> None:
    metadata, tensors, drafted, _ = drafting("drafting_qwen35", "q8_0")
    path = tmp_path / "mtp-Tiny-Q8_0.gguf"
    path.write_bytes(gguf_bytes(metadata, [*tensors[:2], *drafted]))
    head = load_draft_config(path, "mtp")
    assert isinstance(head, DraftHead)
    assert head.model.weight_bytes == n_bytes(drafted)
    assert load_drafter(f"mtp,accept=0.7,config={path}").kind == "mtp"
    with pytest.raises(ConfigError, match=r"a GGUF file; allowed: a config.json"):
        load_draft_config(path, "eagle3")


def test_a_draft_layer_may_have_a_table_and_a_head_of_its_own() -> None:
    metadata, tensors, drafted, _ = drafting("drafting_glm", "q8_0")
    own = [
        ("blk.2.nextn.embed_tokens.weight", [H, V], "q4_0"),
        ("blk.2.nextn.shared_head_head.weight", [H, V], "q6_k"),
    ]
    head = parse_gguf_mtp([header(metadata, [*tensors, *drafted, *own])], name="m")
    assert not head.shares_head
    assert head.model.head.weight.name == "q6_k"
    assert head.model.weight_bytes == n_bytes([*drafted, *own])


@pytest.mark.parametrize(("change", "says"), rows("refusals", "gguf_models"))
def test_a_model_that_does_not_fit_its_file_is_one_line(change: dict[str, Any], says: str) -> None:
    name = "gemma4" if any(key.startswith("gemma4") for key in change) else "llama"
    metadata, tensors, _ = a_file(name)
    line = refusal(ConfigError, parse_gguf, [header(metadata | change, tensors)], name="m")
    assert line.startswith("m.gguf: ")
    assert says in line


def test_a_file_without_a_table_or_draft_layers_is_refused() -> None:
    metadata, tensors, _ = a_file("llama")
    for listed in ([], [("token_embd.weight", [H], "q8_0")]):
        with pytest.raises(ConfigError, match=r"token_embd.weight is (missing|\(256,\)); allowed"):
            parse_gguf([header(metadata, listed)], name="m")
    metadata |= {"llama.block_count": 3, "llama.nextn_predict_layers": 1}
    with pytest.raises(ConfigError, match=r"^m\.gguf: .*model_type is .?llama"):
        parse_gguf_mtp([header(metadata, tensors)], name="m")
    metadata, tensors, _ = a_file("qwen35")
    with pytest.raises(
        ConfigError, match=r"nextn_predict_layers is missing; allowed: draft layers"
    ):
        parse_gguf_mtp([header(metadata, tensors)], name="m")


def raw(
    *, counts: tuple[int, int] = (0, 0), rest: bytes = b"", begin: bytes = b"GGUF\3\0\0\0"
) -> bytes:
    return begin + struct.pack("<QQ", *counts) + rest


def tensor(dims: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return text("t") + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def key(rest: bytes, name: str = "k", count: int = 1) -> bytes:
    return raw(counts=(0, count), rest=count * (text(name) + rest))


def typed(spelt: str, *values: int) -> bytes:
    return key(struct.pack(f"<{spelt}", *values))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"PK\3\4" + bytes(40), "its beginning is b'PK"),
        (raw(begin=b"GGUF\1\0\0\0"), "its version is 1; allowed: 2 or 3"),
        (raw(begin=b"GGUF\0\0\0\3"), "big-endian"),
        (raw(counts=(10**18, 0)), "the number of tensors is 1000000000000000000; allowed"),
        (raw(counts=(0, 10**18)), "the number of keys is"),
        (raw(counts=(0, 1), rest=struct.pack("<Q", 2**63)), "the length of a key is"),
        (raw(counts=(0, 1), rest=struct.pack("<Q", 1) + b"\xff"), "a key is no UTF-8"),
        (key(value_bytes(1), count=2), "a key is k, twice"),
        (typed("I", 13), "the type of k is 13"),
        (typed("IQ", 8, 2**40), "the length of k is 1099511627776; allowed: at most"),
        (typed("IIQ", 9, 4, 2**40), "the length of k is 1099511627776; allowed: at most"),
        (typed("IIQQ", 9, 8, 5, 2**50), "a text of k is 1125899906842624; allowed: at most"),
        (key(struct.pack("<I", 9) + 9 * struct.pack("<IQ", 9, 1)), "the type of k is 9"),
        (key(value_bytes(12), "general.alignment"), "alignment is 12; allowed: a multiple of 8"),
        (raw(counts=(1, 0), rest=text("t") + struct.pack("<I", 9)), "dimensions of t is 9"),
        (raw(counts=(1, 0), rest=tensor(dims=(0,))), "the shape of t is (0,)"),
        (raw(counts=(1, 0), rest=tensor(dims=(2**40, 2**40))), "the shape of t is (1099"),
        (raw(counts=(1, 0), rest=tensor(kind=4)), "the type of t is 4; allowed: 0 (f32)"),
        (raw(counts=(1, 0), rest=tensor(dims=(33,), kind=2)), "the row of t is 33 weights"),
        (raw(counts=(1, 0), rest=tensor(offset=5)), "the offset of t is 5; allowed: a multiple of"),
        (raw(counts=(2, 0), rest=2 * tensor()), "a tensor is t, twice"),
        (raw(counts=(1, 0), rest=tensor(dims=(2**20,))), "size is 57 bytes; allowed: the 4194368"),
        (raw(counts=(1, 0)), "the header is cut off after 24 bytes"),
    ],
)
def test_a_bad_header_is_one_line(data: bytes, says: str) -> None:
    line = refusal(ConfigError, read_gguf, data, source="bad.gguf", file_bytes=len(data))
    assert line.startswith("bad.gguf: ")
    assert says in line
    assert "; allowed: " in line


def test_a_header_that_goes_on_is_none_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gguf_bytes(common("llama", 2, {}), [], weights=False)
    for length in range(0, len(data) - 32, 37):
        assert read_gguf(data[:length], source="m.gguf", file_bytes=10**9) is None
    monkeypatch.setattr(gguf, "MAX_HEADER_BYTES", 100)
    with pytest.raises(ConfigError, match="the header is longer than 100 bytes"):
        read_gguf(data[:100], source="m.gguf", file_bytes=10**9)


WHOLE = gguf_bytes(*a_file("llama", "q4_0")[:2], weights=False)
GLM, GLM_LAYERS, GLM_DRAFT_LAYER, _ = drafting("drafting_glm", "q8_0")
DAMAGED = [
    gguf_bytes(metadata, tensors, weights=False)
    for metadata, tensors in (
        *(a_file(name)[:2] for name in ("llama", "gemma4", "qwen35_moe", "gpt_oss", "deepseek_v3")),
        (GLM, [*GLM_LAYERS, *GLM_DRAFT_LAYER]),
    )
]


@pytest.mark.fuzz
@given(st.data())
@bounded(300, HealthCheck.too_slow)
def test_a_damaged_header_is_read_or_refused(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(DAMAGED)))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + 1] = data.draw(st.binary(max_size=9))
    cut = data.draw(st.integers(0, len(damaged)))
    part = bytes(damaged[:cut]) if data.draw(st.booleans()) else bytes(damaged)
    with suppress(SpecroofError):
        found = read_gguf(part, source="f.gguf", file_bytes=max(len(part), 10**8))
        if found is not None:
            for parse_whole in (parse_gguf, parse_gguf_mtp):
                with suppress(SpecroofError):
                    parse_whole([found], name="f")


def test_a_file_on_this_disk(tmp_path: Path) -> None:
    metadata, tensors, config = a_file("llama")
    path = tmp_path / "Tiny-Q8_0.GGUF"
    # Its header is longer than a step that is read.
    words = metadata | {"tokenizer.ggml.tokens": ["word"] * 100_000}
    path.write_bytes(gguf_bytes(words, tensors))
    model = load_model(path)
    assert (model.name, model.n_params) == ("Tiny-Q8_0", parse(config).n_params)
    with pytest.raises(OptionError, match="family is 'llama'"):
        load_model(path, family="llama")
    for content, says in (
        (gguf_bytes(metadata, tensors, weights=False), "its size is"),
        (b"", "cut off after 0 bytes"),
    ):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=says):
            load_model(path)
    with pytest.raises(CatalogError, match=r"neither a file nor a file of the Hub"):
        load_model("nowhere.gguf")


def test_a_file_in_parts(tmp_path: Path) -> None:
    metadata, tensors, _ = a_file("llama")
    first, second = list(tensors)[:9], list(tensors)[9:]
    names = [tmp_path / f"m-Q8_0-0000{index}-of-00002.gguf" for index in (1, 2)]
    names[0].write_bytes(gguf_bytes(metadata, first))
    names[1].write_bytes(gguf_bytes({"split.no": 1}, second))
    model = load_model(names[0])
    assert (model.name, model.weight_bytes) == ("m-Q8_0", n_bytes(tensors))
    names[1].unlink()
    with pytest.raises(CatalogError, match=r"00002-of-00002\.gguf is neither"):
        load_model(names[0])
    with pytest.raises(CatalogError, match="99999 parts; allowed: 1 to 1000"):
        load_model(tmp_path / "m-00001-of-99999.gguf")
    names[1].symlink_to(names[0])  # a thousand of them would be read a thousand times
    with pytest.raises(CatalogError, match="one file"):
        load_model(names[0])


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(WHOLE)

    def refuse(*_: object) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match="Permission denied; allowed: a readable file"):
        load_model(path)


def test_a_file_of_a_draft_model_is_named_in_flags(tmp_path: Path) -> None:
    metadata, tensors, _ = a_file("llama", "q4_0")
    model, draft = tmp_path / "model.gguf", tmp_path / "draft.gguf"
    for path in (model, draft):
        path.write_bytes(gguf_bytes(metadata, tensors))
    found = advise(
        model, "rtx-4090", drafters=f"model,config={draft},accept=0.7", framework="llama.cpp",
        input_len=500, output_len=50, concurrency=1,
    )  # fmt: skip
    assert str(draft) in str(found)
