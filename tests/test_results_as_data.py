"""Curves, sweeps, advice and folders of results as tables, charts and a few lines."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import specroof
from specroof import OptionError, read_results, write_sweep
from specroof.errors import CatalogError
from specroof.questions import sweep as sweeps
from specroof.questions.predict import Prediction
from specroof.report.columns import arrow_batch
from tables import rows

MODEL, CHIP, SPEC = "Qwen/Qwen3-8B", "b200", "eagle3,accept-length=2.8@3"
STUDY: dict[str, Any] = rows("values", "small_studies")["tables"]


@pytest.fixture(scope="module")
def predicted() -> Prediction:
    return specroof.predict(
        MODEL, CHIP, drafters=SPEC, batch_size=[1, 8], context_len=[0, 4096], max_draft_len=3
    )


def test_points_are_a_row_each_in_frames_and_arrow_tables(predicted: Prediction) -> None:
    frame, (curve,) = predicted.to_frame("points"), predicted.curves
    assert len(frame) == curve.speedup.size == 2 * 2 * 4
    one = frame[(frame.context_len == 4096) & (frame.batch_size == 8) & (frame.draft_len == 2)]
    assert one.speedup.tolist() == [float(curve.speedup[1, 1, 2])]
    assert one.round_s.tolist() == [float(curve.round_s[1, 1, 2])]
    assert set(one.drafter) == {SPEC}
    assert len(frame[frame.is_best]) == 4  # one length for each load; flags pick rows
    assert frame[~frame.has_room].empty
    table = predicted.to_arrow("points")
    assert table.column_names == list(frame.columns)
    assert table.schema.field("round_s").metadata == {b"unit": b"s"}
    np.testing.assert_array_equal(table["tokens_per_s"].to_numpy(), frame.tokens_per_s.to_numpy())


def test_a_sweep_is_one_table_of_all_its_frames() -> None:
    found = specroof.sweep(STUDY)
    table, frame = found.to_arrow("points"), found.to_frame("points")
    # 2 chips x 2 drafters x 2 contexts x 2 batch sizes x draft lengths 0 to 3.
    assert table.num_rows == len(frame) == found.study.n_points == 64
    assert frame.target.tolist() == [1] * 32 + [2] * 32
    as_text = dict.fromkeys(("model", "hardware", "drafter"), object)
    parts = pd.concat(found.frames(), ignore_index=True).astype(as_text)
    whole = frame[list(parts.columns)].astype(as_text)
    pd.testing.assert_frame_equal(whole, parts, check_dtype=False, check_categorical=False)


def test_a_sweep_that_memory_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "MOST_POINTS", 63)
    found = specroof.sweep(STUDY)
    for hold in (found.to_arrow, found.to_frame):
        with pytest.raises(OptionError, match=r"64 points; allowed: at most 63.*slices"):
            hold("points")


def test_advice_is_drawn_beside_measurements_on_one_chip_and_side_by_side_on_several() -> None:
    asked: dict[str, Any] = {"input_len": 1000, "output_len": 500, "framework": "vllm"}
    asked["drafters"] = "eagle3,accept-length=2.4@3"
    one = specroof.advise("Qwen/Qwen3-8B", "h100", concurrency=[1, 128], **asked).plot().axes[0]
    (stars,) = (line for line in one.lines if line.get_marker() == "*")
    assert {1.0, 16.0, 64.0, 128.0} <= {*stars.get_xdata().tolist()}
    several = specroof.advise("Qwen/Qwen3-8B", ["h100", "b200"], concurrency=16, **asked)
    axes = several.plot().axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["16"]
    places = [x for line in axes.lines for x in line.get_xdata() if len(line.get_xdata()) == 1]
    assert len({*places}) == len(places) == len(several.chips)
    assert "*" not in {line.get_marker() for line in axes.lines}


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_a_folder_is_one_table_whatever_its_format(tmp_path: Path, form: str) -> None:
    write_sweep(STUDY, tmp_path, form=form, stop=lambda: True)
    with pytest.raises(CatalogError, match="allowed: run it again"):
        read_results(tmp_path).plot()
    write_sweep(STUDY, tmp_path)
    found = read_results(tmp_path)
    table, frame = found.to_arrow(), found.to_frame()
    assert table.num_rows == len(frame) == 64
    np.testing.assert_array_equal(
        table["speedup"].to_pandas().to_numpy(dtype=float), frame.speedup.to_numpy(dtype=float)
    )
    assert set(table["drafter"].to_pylist()) == {"mtp,accept=0.7", "ideal"}
    assert f"<th>format</th><td>{form}</td>" in found._repr_html_()
    assert isinstance(found.plot(), Figure)


def test_figures_that_are_missing_are_null() -> None:
    (found,) = arrow_batch({"x": np.array([1.0, np.nan, -0.0])}).columns
    assert found.to_pylist() == [1.0, None, 0.0]


def test_without_pandas_a_frame_is_refused(
    predicted: Prediction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OptionError, match="pandas"):
        predicted.to_frame()
