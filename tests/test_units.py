"""Scale factors, dtype widths, and the numbers that people read."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import units
from specroof.units import DTYPE_BYTES, WIDER_DTYPES, dtype_bytes, format_binary_bytes, format_si
from tables import rows


def test_widths_are_their_bits() -> None:
    # The digits of a name are its bits.
    for dtype, width in DTYPE_BYTES.items():
        bits = re.sub("^[a-z]+", "", dtype)
        assert dtype_bytes(dtype) == width == int(bits) / 8


def test_every_dtype_widens_to_ones_that_hold_it() -> None:
    assert WIDER_DTYPES.keys() == DTYPE_BYTES.keys()
    for dtype, wider in WIDER_DTYPES.items():
        widths = [DTYPE_BYTES[dtype], *(DTYPE_BYTES[candidate] for candidate in wider)]
        assert widths == sorted(widths)
        assert dtype not in wider
    # The published order of fallbacks.
    assert WIDER_DTYPES["fp4"] == ("fp6", "fp8", "bf16", "fp16", "fp32")
    assert WIDER_DTYPES["int4"][:2] == ("int8", "bf16")
    # What a dtype falls back to, falls back along the same way.
    for order in (WIDER_DTYPES["fp4"], WIDER_DTYPES["int4"]):
        for position, dtype in enumerate(order):
            beside = ("bf16",) if dtype == "fp16" else ()  # as wide: TPUs have no fp16
            assert WIDER_DTYPES[dtype] == (*beside, *order[position + 1 :])


@pytest.mark.parametrize(("kind", "given", "expected"), rows("values", "numbers_for_people"))
def test_numbers_for_people(kind: str, given: list[Any], expected: str) -> None:
    assert getattr(units, f"format_{kind}")(*given) == expected


PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
BINARY = {"": 1.0, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def read(text: str, pattern: str, scales: dict[str, float]) -> float:
    match = re.fullmatch(pattern, text)
    assert match is not None, text
    number, scale = match.groups()
    return float(number) * scales[scale]


@given(st.floats(1, 1e18))
def test_what_is_printed_is_within_half_a_percent(value: float) -> None:
    # Three digits, of which the first is not zero.
    assert read(format_si(value, "B"), r"([0-9.]+) (.?)B", PREFIXES) == (
        pytest.approx(value, rel=0.0051)
    )
    assert read(format_binary_bytes(value), r"([0-9.]+) (|.i)B", BINARY) == (
        pytest.approx(value, rel=0.0051)
    )
