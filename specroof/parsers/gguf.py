"""Headers of GGUF files: sizes, and the format of every tensor; a model as such a file has it.

A reader of its own, since the `gguf` package maps a whole file into memory and builds a view of
every tensor and every word of a vocabulary: it cannot read the first megabytes of a file on the
Hub, and trusts its counts.

Source
    ggml, ``docs/gguf.md`` (version 3); llama.cpp as it ships with llama-cpp-python 0.3.36:
    ``gguf-py/gguf/constants.py`` (types), ``src/models/`` (which keys and tensors a family has),
    ``conversion/`` (what they are called in Hugging Face's configs).
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NoReturn

from specroof.architecture.base import Linear, WeightFormat
from specroof.architecture.draft_heads import DraftHead
from specroof.architecture.mixes import GGUF_BLOCKS, GGUF_FORMATS, blend
from specroof.architecture.model import Architecture, Block, ordered_layers
from specroof.errors import ConfigError, reject
from specroof.parsers import parse_config
from specroof.parsers.drafters import open_draft_config, parse_mtp
from specroof.parsers.model_config import MTP_NOTE
from specroof.reading.json_text import MAX_LAYERS, printable, read_json, read_whole
from specroof.reading.yaml_text import bundled_yaml
from specroof.units import format_binary_bytes

# --- Bytes of a header ----------------------------------------------------------------------------

#: A vocabulary of 250 000 words with its merges takes 11 MB.
MAX_HEADER_BYTES: Final = 64 * 2**20

_VERSIONS: Final = (2, 3)  # alike but for byte order
_MAX_KEYS: Final = 10_000
_MAX_TENSORS: Final = 100_000
_MAX_KEY_LEN: Final = 65_535
_MAX_TENSOR_NAME_LEN: Final = 256  # 64 in llama.cpp
_MAX_DIMS: Final = 4
_MAX_ELEMENTS: Final = 2**48
#: Longer texts and arrays, such as a chat template or a vocabulary, are passed over.
_KEPT_LEN: Final = 1000
_MAX_DEPTH: Final = 4
_USUAL_ALIGNMENT: Final = 32

#: What stands for a scalar, by the number of its type; strings and arrays are 8 and 9.
_SCALARS: Final = {
    **{number: "<" + code for number, code in enumerate("BbHhIif?")},
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING: Final = 8
_ARRAY: Final = 9

#: What such files call families, keys, tensors and types: see the comments of the file.
_TABLES: Final = bundled_yaml(__file__, "gguf.yaml")
_FAMILIES: Final[dict[str, str]] = _TABLES["families"]
_TENSORS: Final[dict[str, list[list[str]]]] = _TABLES["tensors"]
#: Types of tensors by number.
_TENSOR_TYPES: Final[dict[int, str]] = {number: name for name, number in _TABLES["types"].items()}

#: A scalar, a text, or an array of few scalars.
Value = bool | int | float | str | tuple[bool | int | float, ...]


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor of a file.

    Parameters
    ----------
    name
        Such as ``"blk.0.attn_q.weight"``.
    shape
        The length of a row first.
    form
        Its type, a name of `GGUF_FORMATS`.
    """

    name: str
    shape: tuple[int, ...]
    form: str

    @property
    def n_elements(self) -> int:
        """Weights that it holds."""
        return math.prod(self.shape)

    @property
    def stored_bytes(self) -> int:
        """Bytes that it takes, without the padding behind it."""
        return int(self.n_elements * GGUF_FORMATS[self.form].element_bytes)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What stands before the weights of a file.

    Parameters
    ----------
    source
        What messages call the file.
    metadata
        Keys and values; long texts and arrays are left out.
    tensors
        By name.
    """

    source: str
    metadata: Mapping[str, Value]
    tensors: Mapping[str, GgufTensor]

    def refuse(self, key: str, value: object, allowed: str) -> NoReturn:
        """Raise the `ConfigError` of a key or a tensor."""
        stated = "is missing" if value is None else f"is {printable(str(value))}"
        reject(f"{self.source}: {printable(key)} {stated}", allowed, ConfigError)


class _CutOffError(Exception):
    """The header goes on behind the bytes that were read."""


class _Cursor:
    """A place in the first bytes of a file."""

    __slots__ = ("at", "data", "source")

    def __init__(self, data: bytes, source: str) -> None:
        self.data, self.source, self.at = data, source, 0

    def skip(self, n_bytes: int) -> int:
        """Go on by so many bytes, and return where they begin."""
        start, self.at = self.at, self.at + n_bytes
        if self.at > len(self.data):
            raise _CutOffError
        return start

    def scalar(self, code: str) -> int:
        value: int
        (value,) = struct.unpack_from(code, self.data, self.skip(struct.calcsize(code)))
        return value

    def count(self, what: str, most: int) -> int:
        value = self.scalar("<Q")
        if value > most:
            self.refuse(what, value, f"at most {most}")
        return value

    def text(self, what: str, most: int) -> str:
        length = self.count(f"the length of {what}", most)
        start = self.skip(length)
        try:
            return self.data[start : self.at].decode()
        except UnicodeDecodeError:
            self.refuse(what, "no UTF-8", "UTF-8 text")

    def skip_texts(self, what: str, n_texts: int) -> None:
        """Go on by so many texts with their lengths before them."""
        data, at, end = self.data, self.at, len(self.data)
        for _ in range(n_texts):
            length = int.from_bytes(data[at : at + 8], "little")
            at += 8 + length
            if at > end:
                if length > MAX_HEADER_BYTES:
                    self.refuse(
                        f"the length of a text of {what}", length, f"at most {MAX_HEADER_BYTES}"
                    )
                raise _CutOffError
        self.at = at

    def refuse(self, what: str, value: object, allowed: str) -> NoReturn:
        reject(f"{self.source}: {printable(what)} is {value}", allowed, ConfigError)


def read_gguf(data: bytes, *, source: str, file_bytes: int) -> GgufHeader | None:
    """Return the header of a GGUF file; None where it goes on behind `data`.

    Parameters
    ----------
    data
        The first bytes of the file.
    source
        What messages call it.
    file_bytes
        Size of the whole file, which must hold all its tensors.

    Raises
    ------
    ConfigError
        If it is no GGUF file, has a count, length, type or offset that none has, or is cut off.

    Examples
    --------
    >>> read_gguf(b"GGUF", source="model.gguf", file_bytes=24) is None
    True
    """
    cursor = _Cursor(data, source)
    try:
        return _header(cursor, file_bytes)
    except _CutOffError:
        said = f"{source}: the header is"
        if len(data) >= file_bytes:
            reject(f"{said} cut off after {len(data)} bytes", "a whole file", ConfigError)
        if len(data) >= MAX_HEADER_BYTES:
            reject(f"{said} longer than {len(data)} bytes", "a shorter one", ConfigError)
        return None


def _header(cursor: _Cursor, file_bytes: int) -> GgufHeader:
    magic = cursor.data[cursor.skip(4) : cursor.at]
    if magic != b"GGUF":
        cursor.refuse("its beginning", magic, "GGUF")
    version = cursor.scalar("<I")
    if version not in _VERSIONS:
        swapped = " (big-endian files are not read)" if not version & 0xFFFF else ""
        cursor.refuse("its version", f"{version}{swapped}", " or ".join(map(str, _VERSIONS)))
    n_tensors = cursor.count("the number of tensors", _MAX_TENSORS)
    n_keys = cursor.count("the number of keys", _MAX_KEYS)
    metadata: dict[str, Value] = {}
    seen: set[str] = set()
    for _ in range(n_keys):
        key = cursor.text("a key", _MAX_KEY_LEN)
        if key in seen:
            cursor.refuse("a key", f"{key}, twice", "each once")
        seen.add(key)
        value = _value(cursor, key, cursor.scalar("<I"), 0)
        if value is not None:
            metadata[key] = value
    tensors: dict[str, GgufTensor] = {}
    ends = [0]
    alignment = metadata.get("general.alignment", _USUAL_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0 or alignment % 8:
        cursor.refuse("general.alignment", alignment, "a multiple of 8")
    for _ in range(n_tensors):
        tensor = _tensor(cursor)
        if tensor.name in tensors:
            cursor.refuse("a tensor", f"{printable(tensor.name)}, twice", "each once")
        tensors[tensor.name] = tensor
        offset = cursor.scalar("<Q")
        if offset % alignment:
            cursor.refuse(f"the offset of {tensor.name}", offset, f"a multiple of {alignment}")
        ends.append(offset + tensor.stored_bytes)
    data_offset = -(-cursor.at // alignment) * alignment
    if data_offset + max(ends) > file_bytes:
        allowed = f"the {data_offset + max(ends)} that its tensors take"
        cursor.refuse("its size", f"{file_bytes} bytes", allowed)
    return GgufHeader(cursor.source, metadata, tensors)


def _value(cursor: _Cursor, key: str, kind: int, depth: int) -> Value | None:
    """Return a value, or pass over one that is long."""
    if kind in _SCALARS:
        return cursor.scalar(_SCALARS[kind])
    if kind == _STRING:
        length = cursor.count(f"the length of {key}", MAX_HEADER_BYTES)
        start = cursor.skip(length)
        return (
            cursor.data[start : cursor.at].decode(errors="replace") if length <= _KEPT_LEN else None
        )
    if kind != _ARRAY or depth == _MAX_DEPTH:
        cursor.refuse(f"the type of {key}", kind, "0 to 12, and few arrays in arrays")
    item = cursor.scalar("<I")
    n_items = cursor.count(f"the length of {key}", MAX_HEADER_BYTES)
    if item in _SCALARS:
        code = _SCALARS[item][1]
        size = struct.calcsize(f"<{code}")
        start = cursor.skip(n_items * size)
        if n_items > _KEPT_LEN:
            return None
        return struct.unpack_from(f"<{n_items}{code}", cursor.data, start)
    if item == _STRING:  # a vocabulary, which is most of a header
        cursor.skip_texts(key, n_items)
        return None
    for _ in range(n_items):
        _value(cursor, key, item, depth + 1)
    return None


def _tensor(cursor: _Cursor) -> GgufTensor:
    name = cursor.text("the name of a tensor", _MAX_TENSOR_NAME_LEN)
    n_dims = cursor.scalar("<I")
    if not 1 <= n_dims <= _MAX_DIMS:
        cursor.refuse(f"the number of dimensions of {name}", n_dims, f"1 to {_MAX_DIMS}")
    shape = tuple(cursor.scalar("<Q") for _ in range(n_dims))
    if not all(shape) or math.prod(shape) > _MAX_ELEMENTS:
        cursor.refuse(f"the shape of {name}", shape, f"1 to {_MAX_ELEMENTS} weights")
    kind = cursor.scalar("<I")
    form = _TENSOR_TYPES.get(kind)
    if form is None:
        known = ", ".join(f"{number} ({name})" for number, name in _TENSOR_TYPES.items())
        cursor.refuse(f"the type of {name}", kind, known)
    block = GGUF_BLOCKS.get(form, (1, 0))[0]
    if shape[0] % block:
        cursor.refuse(f"the row of {name}", f"{shape[0]} weights", f"blocks of {block} ({form})")
    return GgufTensor(name, shape, form)


# --- A model of a header --------------------------------------------------------------------------

#: Matrices that a file may hold in one tensor, one below the other.
_FUSED: Final = ("q_proj", "k_proj", "v_proj")
#: Share of a file's bytes that may be in tensors nobody knows without a word.
_SMALL_SHARE: Final = 0.001


def parse_gguf(headers: Sequence[GgufHeader], *, name: str) -> Architecture:
    """Return the model of a GGUF file, with each matrix in the format that the file has it in.

    Parameters
    ----------
    headers
        Of the file, or of all its parts, the first first.
    name
        What outputs call the model.

    Counts
        weights, norms and biases to the byte.
    Ignores
        draft layers behind the last one (see `parse_gguf_mtp`); tables of rotary frequencies.

    Raises
    ------
    ConfigError
        If the architecture is none that is known, a key is missing, or tensors are missing or of
        other shapes than its keys say.

    Source
        As of this module.

    Examples
    --------
    >>> header = GgufHeader("m.gguf", {"general.architecture": "mamba"}, {})
    >>> parse_gguf([header], name="m")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    specroof.errors.ConfigError: m.gguf: general.architecture is mamba; allowed: deepseek2, ...
    """
    whole = _whole(headers)
    tensors = whole.tensors
    config, n_drafted = _config(whole)
    plain = parse_config(json.dumps(config), source=whole.source, name=name)
    n_layers = plain.n_layers
    distinct, order = ordered_layers(
        plain.layers[place].with_blocks(partial(_stored_block, whole, index))
        for index, place in enumerate(plain.layer_order)
    )
    table = GGUF_FORMATS[tensors["token_embd.weight"].form]
    head = table
    if not plain.tied_embeddings:
        head = _stored_format(whole, "output", [["output"]], plain.head.matrix_params, "")
    model = replace(
        plain,
        layers=distinct,
        layer_order=order,
        head=replace(plain.head, weight=head),
        embedding=table,
        vector_dtype="fp32",
    )
    drafted = tuple(f"blk.{index}." for index in range(n_layers, n_layers + n_drafted))
    used = sum(one.stored_bytes for one in tensors.values() if not one.name.startswith(drafted))
    notes = list(model.notes)
    if n_drafted:
        notes.append(MTP_NOTE)
    if abs(used - model.weight_bytes) > _SMALL_SHARE * used:
        notes.append(
            f"the file's tensors take {format_binary_bytes(used)}, those of the model that "
            f"{whole.source} describes {format_binary_bytes(model.weight_bytes)}"
        )
    return replace(model, notes=tuple(notes))


def parse_gguf_mtp(headers: Sequence[GgufHeader], *, name: str) -> DraftHead:
    """Return the draft layer of a GGUF file, each matrix in the format that the file has it in.

    Parameters
    ----------
    headers
        Of a model's file, or of one that holds its draft layers alone (``mtp-….gguf``); of all its
        parts, the first first.
    name
        What outputs call the model.

    Counts
        a table and a head of its own where the file has them. Of several draft layers each has
        the formats of the first.

    Raises
    ------
    ConfigError
        As of `parse_gguf`; if the file holds no draft layer, or one of a family that is not known
        to have any.

    Source
        llama.cpp as it ships with llama-cpp-python 0.3.36, ``src/models/qwen35.cpp`` and
        ``glm4-moe.cpp`` (``nextn``).

    Examples
    --------
    >>> metadata = {"general.architecture": "llama", "llama.block_count": 2}
    >>> table = GgufTensor("token_embd.weight", (64, 100), "f16")
    >>> header = GgufHeader("m.gguf", metadata, {table.name: table})
    >>> parse_gguf_mtp([header], name="m")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    specroof.errors.ConfigError: m.gguf: llama.nextn_predict_layers is missing; allowed: ...
    """
    whole = _whole(headers)
    config, n_drafted = _config(whole)
    known = whole.metadata["general.architecture"]
    if not n_drafted:
        key = f"{known}.nextn_predict_layers"
        whole.refuse(key, whole.metadata.get(key), "draft layers in the file, from 1 on")
    text = json.dumps(config | {"num_nextn_predict_layers": n_drafted})
    root = read_json(text, source=whole.source)
    head = read_whole(lambda: parse_mtp(open_draft_config(root, name=name, sidecar=None)))
    index = _size(whole, f"{known}.block_count") - n_drafted
    stored = head.model.with_blocks(partial(_stored_block, whole, index))
    table, last = (
        whole.tensors.get(f"blk.{index}.nextn.{part}.weight")
        for part in ("embed_tokens", "shared_head_head")
    )
    rows = 0 if last is None else last.n_elements // head.model.hidden_size
    form = GGUF_FORMATS[(last or whole.tensors["token_embd.weight"]).form]
    return replace(
        head,
        model=replace(
            stored,
            head=replace(head.model.head, out_features=rows, weight=form),
            lookup_params=0 if table is None else table.n_elements,
            embedding=GGUF_FORMATS[(table or whole.tensors["token_embd.weight"]).form],
            vector_dtype="fp32",
        ),
    )


def _whole(headers: Sequence[GgufHeader]) -> GgufHeader:
    """Return the first header with the tensors of all parts."""
    tensors = {key: one for header in headers for key, one in header.tensors.items()}
    return replace(headers[0], tensors=tensors)


def _config(header: GgufHeader) -> tuple[dict[str, object], int]:
    """Return the sizes as a `config.json` has them, and the number of draft layers."""
    known = header.metadata.get("general.architecture")
    if not isinstance(known, str) or known not in _FAMILIES:
        header.refuse("general.architecture", known, ", ".join(_FAMILIES))
    family = _FAMILIES[known]
    if family == "llama" and f"{known}.expert_count" in header.metadata:
        family = "mixtral"
    names: dict[str, str] = _TABLES["keys"] | _TABLES["own_keys"].get(family, {})
    config: dict[str, object] = {
        theirs: _size(header, f"{known}.{ours}")
        for ours, theirs in names.items()
        if theirs and f"{known}.{ours}" in header.metadata
    }
    n_blocks = _size(header, f"{known}.block_count")
    n_drafted = 0
    if f"{known}.nextn_predict_layers" in header.metadata:
        n_drafted = _size(header, f"{known}.nextn_predict_layers")
    if not n_drafted < n_blocks <= MAX_LAYERS:
        header.refuse(f"{known}.block_count", n_blocks, f"{n_drafted + 1} to {MAX_LAYERS}")
    table = header.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        header.refuse("token_embd.weight", table and table.shape, "a table of two dimensions")
    config |= {
        "model_type": family,
        "num_hidden_layers": n_blocks - n_drafted,
        "vocab_size": table.shape[1],
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }
    if f"{known}.ssm.inner_size" in header.metadata:
        heads = max(1, _size(header, f"{known}.ssm.time_step_rank"))
        config["linear_value_head_dim"] = _size(header, f"{known}.ssm.inner_size") // heads
    if family == "gemma4_text":
        config |= _gemma4_config(header)
    if family == "deepseek_v3":
        config |= _latent_config(header)
    if family in _TABLES["biased"] and "blk.0.attn_q.bias" in header.tensors:
        config["attention_bias"] = True
    if family == "glm4_moe":  # the one family of which some models have them
        config["use_qk_norm"] = any(name.endswith(".attn_q_norm.weight") for name in header.tensors)
    return config, n_drafted


def _gemma4_config(header: GgufHeader) -> dict[str, object]:
    """Return the keys of a Gemma 4 that its two kinds of layers have each their own value of."""
    key = "gemma4.attention.sliding_window_pattern"
    slides = header.metadata.get(key)
    if not isinstance(slides, tuple) or {*slides} != {True, False}:
        header.refuse(key, slides, "whether each layer slides, of both kinds")
    if _size(header, "gemma4.embedding_length_per_layer_input"):
        header.refuse(
            "gemma4.embedding_length_per_layer_input", "not 0", "0: no embeddings per layer"
        )
    key = "gemma4.attention.head_count_kv"
    heads = header.metadata.get(key)
    if not isinstance(heads, tuple):
        heads = (_size(header, key),) * len(slides)
    if len(heads) != len(slides):
        header.refuse(key, f"a list of {len(heads)}", f"one of {len(slides)}")
    full = slides.index(False)
    return {
        "layer_types": ["sliding_attention" if one else "full_attention" for one in slides],
        "num_key_value_heads": heads[slides.index(True)],
        "num_global_key_value_heads": heads[full],
        "attention_k_eq_v": f"blk.{full}.attn_v.weight" not in header.tensors,
        "enable_moe_block": "gemma4.expert_count" in header.metadata,
    }


def _latent_config(header: GgufHeader) -> dict[str, object]:
    """Return the keys of latent attention, whose heads old files have the plain keys of."""
    mla = "_mla" if "deepseek2.attention.key_length_mla" in header.metadata else ""
    rotary = _size(header, "deepseek2.rope.dimension_count")
    picked = any(name.endswith(".exp_probs_b.bias") for name in header.tensors)
    family = "deepseek_v3" if picked else "deepseek_v2"
    # conversion/deepseek.py:240 drops the draft layers of those, glm.py:251 none of GLM-4.7-Flash.
    if "deepseek2.nextn_predict_layers" in header.metadata:
        family = "glm4_moe_lite"
    return {
        "model_type": family,
        "q_lora_rank": header.metadata.get("deepseek2.attention.q_lora_rank"),
        "qk_nope_head_dim": _size(header, f"deepseek2.attention.key_length{mla}") - rotary,
        "v_head_dim": _size(header, f"deepseek2.attention.value_length{mla}"),
    }


def _size(header: GgufHeader, key: str) -> int:
    """Return a whole number; one that layers have alike may stand once for each."""
    value = header.metadata.get(key)
    if isinstance(value, tuple) and len(set(value)) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        header.refuse(key, value, "a whole number, the same for all layers")
    return value


def _stored_block(header: GgufHeader, index: int, block: Block) -> Block:
    """Return a block of a layer with its matrices as the file has them."""
    prefix = f"blk.{index}."
    fused = f"{prefix}attn_qkv.weight" in header.tensors

    def weight(linear: Linear) -> WeightFormat:
        spellings, elements = _TENSORS[linear.name], linear.matrix_params
        if fused and linear.name in _FUSED:
            spellings = [["attn_qkv"]]
            elements = sum(one.matrix_params for one in block.linears if one.name in _FUSED)
        return _stored_format(header, linear.name, spellings, elements, prefix)

    core = block.core
    if experts := block.experts:
        elements = experts.n_experts * experts.matrix_params
        form = _stored_format(header, "experts", _TENSORS["experts"], elements, prefix)
        core = replace(experts, weight=form)
    linears = tuple(replace(linear, weight=weight(linear)) for linear in block.linears)
    return replace(block, linears=linears, core=core)


def _stored_format(
    header: GgufHeader,
    name: str,
    spellings: Sequence[Sequence[str]],
    elements: int,
    prefix: str,
) -> WeightFormat:
    """Return what a matrix is stored in, the mean where it is several tensors."""
    spelled = [[f"{prefix}{part}.weight" for part in parts] for parts in spellings]
    names = next((each for each in spelled if header.tensors.keys() >= {*each}), None)
    if names is None:
        wanted = " or ".join(" and ".join(each) for each in spelled)
        header.refuse(wanted, None, f"a tensor for {name}")
    parts = [header.tensors[part] for part in names]
    found = sum(part.n_elements for part in parts)
    if found != elements:
        allowed = f"{elements}, by the sizes of the model"
        header.refuse(" and ".join(names), f"{found} weights", allowed)
    return blend(*((GGUF_FORMATS[part.form], part.n_elements) for part in parts))
