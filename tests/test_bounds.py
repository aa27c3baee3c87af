"""The bounds of quantities: what leaves them is refused where it enters; results are finite."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import specroof
from commands import refused, run
from specroof.arrays import array_within, number_within, real_array, whole_within
from specroof.errors import OptionError, expect, refuse
from specroof.questions import predict as prediction
from specroof.reading.checked import within
from specroof.speedup import curve as axes
from specroof.speedup.curve import REQUEST_WEIGHT, ROW_WEIGHT, TEXT_WEIGHT
from specroof.units import BOUNDS, Bounds

QUANTITIES = sorted(BOUNDS)
PREDICT = "predict Qwen/Qwen3-8B -H b200 --drafter ideal"
PEAKS = {"flops_per_s", "bytes_per_s", "memory_bytes"}


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_quantity_has_finite_bounds_that_are_allowed_themselves(quantity: str) -> None:
    bounds = BOUNDS[quantity]
    assert 0 <= bounds.least < bounds.most < math.inf
    for value in (bounds.least, bounds.most):
        given_value = int(value) if bounds.whole else value
        assert number_within("x", given_value, quantity) == value
        assert array_within("x", [given_value], quantity).tolist() == [value]
        # A file has peaks in base units, and none of a chip is below a million.
        in_file = max(given_value, 10**6) if quantity in PEAKS else given_value
        assert within(quantity).func(in_file) == in_file  # type: ignore[call-arg]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_what_is_out_of_bounds_is_refused_with_its_name_and_what_is_allowed(quantity: str) -> None:
    bounds = BOUNDS[quantity]
    past = [bounds.least - 1, bounds.most * 2, math.nan, math.inf, -math.inf, 10**400, 10**5000]
    for value in past:
        with pytest.raises(OptionError, match=r"^x is .*; allowed: a (whole )?number from ") as one:
            number_within("x", value, quantity)
        assert str(one.value).endswith(bounds.allowed)
        with pytest.raises(OptionError, match=r"^x is .*; allowed: a (whole )?number from "):
            array_within("x", [bounds.most, value], quantity)
        with pytest.raises(ValueError, match=r"^is .*; allowed: a (whole )?number from "):
            within(quantity).func(min(value, 10**400))  # type: ignore[call-arg]


def test_bounds_spell_what_is_counted() -> None:
    assert Bounds(0.5, 1e21).allowed == "a number from 0.5 to 1e+21"
    with pytest.raises(OptionError, match=r"^x is 2\.5; allowed: a whole number from 0 to 1024$"):
        number_within("x", 2.5, "draft_len")
    with pytest.raises(OptionError, match=r"^x is 2\.0; allowed: a whole number"):
        whole_within("x", 2.0, "draft_len")
    assert whole_within("x", np.uint8(3), "draft_len") == 3


NO_NUMBERS: list[Any] = [
    *(None, "1", b"1", True, np.True_, [True], ["1"], [], {}, {1}, object(), 1j, [None]),
    *([[1], [1, 2]], np.ma.array([1, 2], mask=[True, False]), np.array(["1"]), [10**30]),
    *([np.ma.array(2.0, mask=True)], [[2.0, np.ma.array(2.0, mask=True)]]),
    *([np.ma.array([1, 2], mask=[True, False])], np.ma.masked),
    *(np.array("2020", dtype="datetime64"), range(10**30), range(10**12), math.nan),
]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: type(value).__name__)
def test_no_number_becomes_one(value: Any) -> None:
    for taken in (array_within, number_within):
        with pytest.raises(OptionError, match=r"^batch_size is .*; allowed: a number from 1 to 1"):
            taken("batch_size", value, "batch_size")


def test_real_numbers_of_every_spelling_are_taken() -> None:
    assert real_array(np.float16(2)) == 2
    assert real_array((1, 2.5)).tolist() == [1, 2.5]  # type: ignore[union-attr]
    assert real_array(np.array(3)).shape == ()  # type: ignore[union-attr]
    assert np.isinf(real_array(np.longdouble("1e400")))  # type: ignore[arg-type]


def test_refusals_spell_any_value_in_one_line() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    for value, shown in [
        (np.float64(2), "2.0"),
        (10**5000, "a int too long to show"),
        (Hostile(), "<Hostile instance at"),
        ("x" * 5000, "'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
        (np.zeros(9), "array([0., 0...., 0., 0., 0.])"),
    ]:
        with pytest.raises(OptionError) as one:
            refuse("x", value, "less")
        assert str(one.value).startswith(f"x is {shown}")
        assert str(one.value).endswith("; allowed: less")
    expect("x", 1, int, "a number")
    with pytest.raises(OptionError, match=r"^x is '1'; allowed: a number$"):
        expect("x", "1", int | None, "a number")


CURVE_POINTS = 2 * 3 * 64
GRID = f"{PREDICT} --context 1024,4096 --batch 1,2,4 --max-draft-len 63"


@pytest.mark.parametrize(
    ("words", "held"),
    [
        (f"{GRID} --drafter mtp,accept=0.5", 2 * CURVE_POINTS),
        (f"{GRID.replace('b200', 'b200,h100,h200')}", 3 * CURVE_POINTS),
        (f"{GRID} --grid", TEXT_WEIGHT * CURVE_POINTS),
        (f"{GRID.replace('b200', 'b200,h100')} --grid", 2 * TEXT_WEIGHT * CURVE_POINTS),
        (f"{GRID} --points -", TEXT_WEIGHT * CURVE_POINTS),
        (f"{GRID.replace('63', '3')} --csv -", ROW_WEIGHT * 2 * 3),
        (f"{PREDICT} --batch 1,2 --input-len 64 --output-len 64", REQUEST_WEIGHT * 2 * 17),
        (
            f"{PREDICT} --batch 1,2 --input-len 64 --output-len 64 --grid",
            REQUEST_WEIGHT * TEXT_WEIGHT * 2 * 17,
        ),
    ],
)
def test_the_limit_counts_the_points_that_are_held(
    words: str, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 20 drafters x 150 x 3000 x 17 points took 8 GB and 300 x 30 x 1025 as JSON 6 GB: each curve
    # was within the limit.
    monkeypatch.setattr(axes, "MOST_POINTS", held)
    monkeypatch.setattr(prediction, "MOST_POINTS", held)  # of the survey, which adds batch sizes
    run(words)
    monkeypatch.setattr(axes, "MOST_POINTS", held - 1)
    line = refused(words)
    assert "points (contexts, batch sizes and draft lengths)" in line
    assert "; allowed: up to " in line


def test_the_corners_of_the_table_are_finite() -> None:
    model, chip = specroof.load_model("Qwen/Qwen3-8B"), specroof.load_hardware("b200")
    pass_ = specroof.ForwardPass(
        np.array([0.01, 1e7]), np.array([[1], [1e8]]), np.array([[[0]], [[1e8]]])
    )
    for engine in (*chip.engines, "ideal"):
        assert np.all(
            np.isfinite(specroof.forward_latency(model, chip, pass_, engine=engine).total_s)
        )
    curve = specroof.speedup_curve(
        model, chip, drafter=specroof.load_drafter("ideal"), batch_size=[1, 1e7],
        context_len=[0, 1e8], max_draft_len=1024,
    )  # fmt: skip
    assert np.all(np.isfinite(curve.speedup))
    assert np.all(curve.speedup > 0)


def test_a_list_without_end_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^rates is repeat.*; allowed: at most 1000000 entries"):
        specroof.rate_acceptance(itertools.repeat(0.5))  # type: ignore[arg-type]
