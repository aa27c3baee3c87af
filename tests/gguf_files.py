"""GGUF files without weights, written by hand as ggml's ``docs/gguf.md`` has them."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["TYPES", "Tensors", "gguf_bytes", "text", "value_bytes"]

#: Numbers of types, as ``enum ggml_type`` has them; weights and bytes of a block.
TYPES = {
    "f32": (0, 1, 4),
    "f16": (1, 1, 2),
    "q4_0": (2, 32, 18),
    "q8_0": (8, 32, 34),
    "q4_k": (12, 256, 144),
    "q5_k": (13, 256, 176),
    "q6_k": (14, 256, 210),
    "mxfp4": (39, 32, 17),
}

Tensors = Sequence[tuple[str, Sequence[int], str]]


def text(value: str) -> bytes:
    """A string with its length before it."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value_bytes(value: Any) -> bytes:
    """The number of a value's type, and the value."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    items = [value_bytes(item) for item in value]
    (kind,) = {item[:4] for item in items}
    return (
        struct.pack("<I", 9)
        + kind
        + struct.pack("<Q", len(items))
        + b"".join(item[4:] for item in items)
    )


def gguf_bytes(
    metadata: Mapping[str, Any], tensors: Tensors, *, weights: bool = True, version: int = 3
) -> bytes:
    """A file; its weights are zeros, or left out."""
    data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        data += text(key) + value_bytes(value)
    offset = 0
    for name, shape, form in tensors:
        number, block, block_bytes = TYPES[form]
        data += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        n_bytes = block_bytes * shape[0] // block
        for length in shape[1:]:
            n_bytes *= length
        offset += -(-n_bytes // 32) * 32
    data += bytes(-len(data) % 32)
    return data + bytes(offset if weights else 0)
