"""The bundled measurements: every row readable, every name known, figures as in their sources."""

import csv
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

import specroof
from specroof import load_hardware, load_model
from specroof.errors import MeasurementError
from specroof.evidence import (
    LongContext,
    Measurement,
    committed_tokens,
    drafter_of,
    load_long_contexts,
    load_measurements,
    request_lengths,
)
from specroof.evidence.measurement import plausible, refuse_repeats
from tables import rows

FOLDER = Path(specroof.__file__).parent / "evidence" / "measurements"
TABLES = sorted(FOLDER.rglob("*.csv"))
FILES = [file for file in TABLES if file.parent.name not in {"local", "long"}]
MODAL = FOLDER / "modal.csv"
HEAD = ("title", "url", "trust", "setup", "counts", "lengths")


def found(source: str, **cells: object) -> Measurement:
    """Return the one measurement with these cells."""
    (one,) = [
        point
        for point in load_measurements()
        if point.source == source
        and all(getattr(point, name) == value for name, value in cells.items())
    ]
    return one


def test_every_table_holds_the_rows_of_its_source() -> None:
    assert Counter(point.source for point in load_measurements()) == rows("values", "measured_rows")


def test_what_is_no_table_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "measurements"
    folder.mkdir()
    (folder / "modal.csv").write_bytes(MODAL.read_bytes())
    (folder / "README.md").write_text("no table")
    monkeypatch.setattr("specroof.evidence.bundled.resources.files", lambda _: tmp_path)
    assert {point.source for point in load_measurements.__wrapped__()} == {"modal"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_table_says_where_it_comes_from(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    assert tuple(key for key in head if key not in {"version", "reading"}) == HEAD
    assert head["url"].startswith("https://")
    assert head["trust"] in set("12345")


def test_no_point_is_there_twice() -> None:
    # Two runs of one set-up may print the same figures only if the task differs, and it does.
    refuse_repeats(load_measurements())


def test_models_and_chips_are_bundled() -> None:
    points = load_measurements()
    for model in {point.model for point in points}:
        assert load_model(str(model)).n_layers > 0
    for chip in {point.hardware for point in points}:
        assert load_hardware(str(chip)).peak.memory_bytes > 0


@pytest.mark.parametrize(("source", "cells", "figures"), rows("values", "printed_figures"))
def test_figures_are_those_that_the_sources_print(
    source: str, cells: dict[str, object], figures: dict[str, object]
) -> None:
    one = found(source, **cells)
    assert {name: getattr(one, name) for name in figures} == figures


def test_counts_of_drafts_are_ours() -> None:
    for point in load_measurements():
        if point.method in {"mtp", "dflash", "domino"} and point.draft_len:
            assert point.verify_len == point.draft_len + 1  # a chain or a block, and its root


def test_tokens_of_a_round_are_those_of_throughput() -> None:
    point = replace(load_measurements()[0], draft_len=4)
    pooled = replace(point, tokens_per_round=2.5, acceptance_kind="pooled")
    assert committed_tokens(pooled) == 2.5
    # One table prints both: 5.34 over requests for 4.65 over rounds.
    mean = replace(point, tokens_per_round=5.34, acceptance_kind="per-request")
    assert committed_tokens(mean) == pytest.approx(4.65)
    assert committed_tokens(replace(mean, tokens_per_round=1.05)) == 1.0
    # Where a source is silent, 45 % of the drafts count as accepted.
    assert committed_tokens(replace(point, tokens_per_round=None)) == pytest.approx(2.8)


def test_lengths_of_a_request_are_presumed_where_a_source_is_silent() -> None:
    point = replace(load_measurements()[0], input_len=1000.0, output_len=300.0, context_len=None)
    assert request_lengths(point) == (1000.0, 300.0, 1150.0)
    assert request_lengths(replace(point, context_len=1200.0)) == (1000.0, 300.0, 1200.0)
    silent = replace(point, input_len=None, output_len=None)
    assert request_lengths(silent) == (200.0, 1000.0, 700.0)


def test_a_round_gives_from_one_token_to_all_drafts_and_one() -> None:
    point = replace(load_measurements()[0], draft_len=3)
    for tokens in (1.0, 4.0):
        most = replace(point, tokens_per_round=tokens)
        assert plausible(most) == most
    for tokens in (0.99, 4.01):
        with pytest.raises(MeasurementError, match="3 drafts; allowed: from 1 to 4"):
            plausible(replace(point, tokens_per_round=tokens))


def test_a_rate_that_no_source_prints_is_no_number() -> None:
    point = load_measurements()[0]
    assert replace(point, tokens_per_s=12.5).rate == 12.5
    assert math.isnan(replace(point, tokens_per_s=None).rate)


def test_trees_are_told_from_chains_of_as_many_drafts() -> None:
    bundle = [one for one in load_measurements() if one.source == "specbundle" and one.drafts]
    shapes = Counter((one.draft_len, one.top_k, one.verify_len, one.branches) for one in bundle)
    # (steps, top-k, num_draft_tokens) of the dashboard, 37 each
    assert shapes == dict.fromkeys(
        [(3, 1, 4, False), (5, 1, 6, False), (5, 3, 6, True), (7, 1, 8, False), (7, 4, 8, True)], 37
    )


def test_a_measured_tree_is_drafted_level_by_level() -> None:
    # 21 nodes in three levels: three children of each of three nodes a level, 3 + 9 + 9.
    tree = next(one for one in load_measurements() if one.verify_len == 22)
    assert "trees of 21 drafts" in drafter_of(tree).describe(load_model("Qwen/Qwen3-8B"))
    proposed = drafter_of(tree).propose(specroof.constant_acceptance(0.5), np.array([3]))
    assert proposed.verify_len.tolist() == [22]
    assert [(width, count.tolist()) for width, count in proposed.expansions] == [(3.0, [2.0])]
    # 6 nodes fit two a level; a stated width is taken at its word.
    six = replace(tree, verify_len=7)
    assert "top-k=2" in drafter_of(six).name
    assert "top-k=4" in drafter_of(replace(six, top_k=4)).name
    # 10 do, as 2 + 4 + 4, and 11 do not.
    assert "top-k=2" in drafter_of(replace(tree, verify_len=11)).name
    assert "top-k=3" in drafter_of(replace(tree, verify_len=12)).name
    assert drafter_of(replace(tree, verify_len=4)).name == "eagle3"
    # As many drafts as it is deep are a tree too, where each of them has several children.
    assert "top-k=3" in drafter_of(replace(tree, verify_len=4, top_k=3)).name
    assert drafter_of(replace(tree, verify_len=4, top_k=1)).name == "eagle3"


def test_a_printed_ratio_agrees_with_the_printed_throughputs() -> None:
    for point in load_measurements():
        if point.speedup and point.tokens_per_s and point.baseline_tokens_per_s:
            ratio = point.tokens_per_s / point.baseline_tokens_per_s
            assert point.speedup == pytest.approx(ratio, rel=0.02), point


@pytest.mark.parametrize("file", TABLES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_row_of_a_table_fills_the_columns_of_its_kind(file: Path) -> None:
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
    columns, *table = csv.reader(lines)
    required = rows("values", "columns_of_tables")[file.parent.name]
    hints = get_type_hints(LongContext if file.parent.name == "long" else Measurement)
    assert table
    for cells in table:
        row = {name: cell for name, cell in zip(columns, cells, strict=True) if cell}
        assert set(required) <= set(row)
        assert row.get("includes_prefill", "yes") in {"yes", "no"}
        assert float(row.get("shortest", "1")) <= 1
        for name, cell in row.items():
            hint = hints.get(name, float)
            if {hint, *get_args(hint)} & {int, float}:
                assert 0 < float(cell) < math.inf or (name, cell) == ("draft_len", "0")


def test_a_long_context_is_of_a_quantity_that_is_scored() -> None:
    quantities = {"round_over_step", "over_short_round", "unsplit_over_split", "attention_s"}
    assert {row.quantity for row in load_long_contexts()} == quantities
