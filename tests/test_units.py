"""Scale factors, dtype widths, and the numbers that people read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.units import (
    DTYPE_BYTES,
    WIDER_DTYPES,
    dtype_bytes,
    format_binary_bytes,
    format_count,
    format_seconds,
    format_si,
)


def test_widths_are_their_bits() -> None:
    # The digits of a name are its bits.
    for dtype, width in DTYPE_BYTES.items():
        bits = re.sub("^[a-z]+", "", dtype)
        assert dtype_bytes(dtype) == width == int(bits) / 8


def test_an_unknown_dtype_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="fp7"):
        dtype_bytes("fp7")


def test_every_dtype_widens_to_ones_that_hold_it() -> None:
    assert WIDER_DTYPES.keys() == DTYPE_BYTES.keys()
    for dtype, wider in WIDER_DTYPES.items():
        widths = [DTYPE_BYTES[dtype], *(DTYPE_BYTES[candidate] for candidate in wider)]
        assert widths == sorted(widths)
        assert dtype not in wider


def test_the_published_order_of_fallbacks() -> None:
    assert WIDER_DTYPES["fp4"] == ("fp6", "fp8", "bf16", "fp16", "fp32")
    assert WIDER_DTYPES["int4"][:2] == ("int8", "bf16")
    # What a dtype falls back to, falls back along the same way.
    for order in (WIDER_DTYPES["fp4"], WIDER_DTYPES["int4"]):
        for position, dtype in enumerate(order):
            assert WIDER_DTYPES[dtype] == order[position + 1 :]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_si(4.8e12, "B/s"), "4.80 TB/s"),
        (format_si(989.4e12, "FLOP/s"), "989 TFLOP/s"),
        (format_si(2.25e15, "FLOP/s"), "2.25 PFLOP/s"),
        (format_si(450e9, "B/s"), "450 GB/s"),
        (format_si(1e6, "B"), "1.00 MB"),
        (format_si(1500, "B"), "1.50 kB"),
        (format_si(999, "B"), "999 B"),
        (format_si(999.6e6, "B"), "1.00 GB"),
        (format_si(0, "B"), "0.00 B"),
        (format_si(-4.8e12, "B/s"), "-4.80 TB/s"),
        (format_count(8_030_261_248), "8.03B"),
        (format_count(70.6e9), "70.6B"),
        (format_count(1.6e12), "1.60T"),
        (format_count(596_049_920), "596M"),
        (format_count(999_885_952), "1.00B"),  # Gemma 3 1B
        (format_count(3500), "3.50k"),
        (format_count(12), "12"),
        (format_count(0), "0"),
        (format_binary_bytes(180 * 2**30), "180 GiB"),
        (format_binary_bytes(2**40), "1.00 TiB"),
        (format_binary_bytes(1.5 * 2**20), "1.50 MiB"),
        (format_binary_bytes(2**10), "1.00 KiB"),
        (format_binary_bytes(1023), "1023 B"),
        (format_binary_bytes(1023.9 * 2**20), "1.00 GiB"),
        (format_seconds(2), "2.00 s"),
        (format_seconds(0.01333), "13.3 ms"),
        (format_seconds(140e-6), "140 µs"),
        (format_seconds(999.8e-6), "1.00 ms"),
        (format_seconds(999.4e-6), "999 µs"),
        (format_seconds(2.5e-7), "0.25 µs"),
        (format_seconds(0), "0.00 µs"),
    ],
)
def test_numbers_for_people(text: str, expected: str) -> None:
    assert text == expected


PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
BINARY = {"": 1.0, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def read(text: str, pattern: str, scales: dict[str, float]) -> float:
    """Return the number that a person reads in a text."""
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
