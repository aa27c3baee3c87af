"""Benchmark files as people have them, and every bad one refused in one line with its place."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import MeasurementError
from specroof.evidence import read_benchmark, refuse_mixed
from tables import rows
from tiny_configs import changed

TOOLS: dict[str, dict[str, Any]] = rows("values", "tool_results")
SGLANG, VLLM = TOOLS["sglang"], TOOLS["vllm"]
#: Columns of a table: of passes alone, of whole requests, and of timed passes.
STEPS = "batch_size,context_len,draft_len,tokens_per_s"
HEADERS = {
    "steps": STEPS,
    "requests": f"{STEPS},input_len,output_len",
    "passes": f"{STEPS},positions,pass_s",
    "tpot": f"{STEPS},tpot_ms,input_len",
}


def one(tool: str, **changes: Any) -> Any:
    """Return the only point of a file with one result, some of its keys changed."""
    text = json.dumps(changed(TOOLS[tool], changes))
    (point,) = read_benchmark(text, source="b.json", draft_len=changes.get("draft_len"))
    return point


def refusal(text: str, draft_len: int | None = None) -> str:
    with pytest.raises(MeasurementError) as caught:
        read_benchmark(text, source="b.json", draft_len=draft_len)
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(("tool", "changes", "expected"), rows("values", "benchmark_points"))
def test_keys_of_a_result_say_what_was_measured(
    tool: str, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    point = one(tool, **changes)
    assert {field: getattr(point, field) for field in expected} == expected


def test_several_results_are_lines_or_a_list() -> None:
    two = [SGLANG, {**SGLANG, "duration": 40.0, "output_throughput": 400.0}]
    lines = "\n\n".join(json.dumps(result) for result in two)
    places = [point.place for point in read_benchmark(lines, source="b")]
    assert places == ["b, line 1", "b, line 3"]
    places = [point.place for point in read_benchmark(json.dumps(two), source="b")]
    assert places == ["b, line 1, result 1", "b, line 1, result 2"]


def test_results_that_span_lines_are_found_where_they_begin() -> None:
    two = [SGLANG, {**SGLANG, "duration": 40.0, "output_throughput": 400.0}]
    spread = json.dumps(two, indent=1)
    height = json.dumps(SGLANG, indent=1).count("\n") + 1
    places = [point.place for point in read_benchmark(f"\n{spread}\n", source="b")]
    assert places == ["b, line 3, result 1", f"b, line {3 + height}, result 2"]
    apart = "\n\n".join(json.dumps(result, indent=1) for result in two)
    places = [point.place for point in read_benchmark(apart, source="b")]
    assert places == ["b, line 1", f"b, line {height + 2}"]
    half = refusal(spread[: len(spread) // 2])
    assert half.startswith("b.json, line 1: is not valid JSON")
    bad = json.dumps([SGLANG, {**SGLANG, "completed": 0}], indent=1)
    assert refusal(bad).startswith(f"b.json, line {2 + height}, result 2: completed is 0")


def test_a_table_is_read() -> None:
    text = (
        "# mine\nbatch_size,context_len,draft_len,tokens_per_s,acceptance_length,input_len,"
        "output_len\n1,4096,0,70,,,\n8,,3,900,2.5,1000,200\n"
    )
    plain, fast = read_benchmark(text, source="t.csv")
    assert (plain.context_len, plain.draft_len, plain.input_len) == (4096, 0, None)
    assert (fast.context_len, fast.tokens_per_round, fast.place) == (1100, 2.5, "t.csv, line 4")
    assert (plain.includes_prefill, fast.includes_prefill) == (False, True)


def test_timed_passes_stand_beside_results() -> None:
    table = "8,4096,0,900,,\n8,4096,,,4,0.01\n8,4096,0,,8,0.0125\n"
    (tpot,) = read_benchmark(f"{HEADERS['tpot']}\n8,4096,0,,8,\n", source="mine.csv")
    assert tpot.tokens_per_s == pytest.approx(1000)
    plain, four, eight = read_benchmark(f"{HEADERS['passes']}\n{table}", source="mine.csv")
    assert (plain.method, plain.pass_s, plain.verify_len) == (None, None, None)
    assert (four.method, four.verify_len, four.context_len) == ("step", 4, 4096)
    assert four.tokens_per_s == pytest.approx(8 / 0.01)  # sequences: a pass begins one token each
    assert [one.pass_s for one in (four, eight)] == pytest.approx([0.01, 0.0125])
    assert not four.drafts


@pytest.mark.parametrize("row", ["0.01,1,0,70", "1,1,1,70", "1e6,1e9,4096,70"])
def test_bounds_of_plausible_figures_are_plausible(row: str) -> None:
    (point,) = read_benchmark(f"{STEPS}\n{row}\n", source="t.csv")
    assert point.tokens_per_s == 70


@pytest.mark.parametrize(("tool", "changes", "message"), rows("refusals", "benchmark_results"))
def test_a_result_without_a_load_is_refused_by_key(
    tool: str, changes: dict[str, Any], message: str
) -> None:
    assert message in refusal(json.dumps(TOOLS[tool] | changes))


@pytest.mark.parametrize(("columns", "row", "message"), rows("refusals", "benchmark_tables"))
def test_a_bad_row_of_a_table_is_refused(columns: str, row: str, message: str) -> None:
    assert message in refusal(f"{HEADERS[columns]}\n{row}\n")


LINE = json.dumps(SGLANG)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "b.json: is empty"),
        (" \n", "b.json: is empty"),
        ("# a comment\n", "b.json: is empty; allowed: a line of column names and one a point"),
        # The file is not empty: what its line holds is what is wrong.
        ("Serving results\n", "line 1: column 'Serving results' is unknown; allowed: batch_size"),
        (LINE[:-40], "b.json, line 1: is not valid JSON"),
        (LINE + "\n" + LINE[:50], "b.json, line 2: is not valid JSON"),
        ("[" * 100_000, "b.json, line 1: is not valid JSON"),
        ("[3]", "b.json, line 1, result 1: is 3; allowed: a JSON object"),
        ("{}", "b.json, line 1: has no keys of a tool that is known"),
        (f"{LINE}\n{LINE}", "line 2: repeats b.json, line 1"),
        ("[]", "b.json: is an empty list; must hold benchmark results"),
        (f"[{LINE}]x", "b.json, line 1: stands behind a list; allowed: one list"),
        (f"[{LINE}],,]", "b.json, line 1: stands behind a list; allowed: one list"),
        (f"[{LINE}]\n\n[{json.dumps(VLLM)}]", "b.json, line 3: stands behind a list"),
        ("[] []", "b.json, line 1: stands behind a list"),
        (
            json.dumps({**VLLM, "spec_decode_draft_tokens": 10**300, "spec_decode_num_drafts": 1}),
            "draft_len is 1000",
        ),
        (f"{STEPS}\n1,4096,{'9' * 5000},70\n", "allowed: a whole number of at least 0"),
        ("batch,tokens_per_ms\n1,2\n", "line 1: column 'batch' is unknown; allowed: batch_size"),
        ("batch_size,batch_size\n1,2\n", "line 1: column 'batch_size' appears twice"),
        ("batch_size,draft_len\n1,2\n", "line 1: column 'tokens_per_s' is missing"),
        (
            "batch_size,draft_len,tokens_per_s,input_len\n1,0,9,5\n",
            "line 2: has one of input_len and output_len; must have both or neither",
        ),
    ],
)
def test_bad_files_are_refused_in_one_line(text: str, message: str) -> None:
    assert message in refusal(text)


@pytest.mark.parametrize("text", ["1000", "1200", "1e3", "+1100.", "1_100", ".5"])
def test_numerals_are_those_of_arithmetic(text: str) -> None:
    row = f"{HEADERS['requests']}\n1,{text},0,70,1000,200\n"
    if text in {"1_100", ".5"}:
        assert "context_len" in refusal(row)
    else:
        (point,) = read_benchmark(row, source="t.csv")
        assert 1000 <= (point.context_len or 0) <= 1200


def test_results_of_two_tools_are_no_one_run() -> None:
    refuse_mixed(
        [one("vllm"), one("inferencex"), one("vllm", num_prompts=7)]
    )  # of one, and unknown
    with pytest.raises(
        MeasurementError,
        match=r"^b.json, line 1: .*sglang.* b.json, line 1 .*vllm; allowed: .*one tool",
    ):
        refuse_mixed([one("inferencex"), one("vllm"), one("sglang")])


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(MeasurementError):
        read_benchmark(text, source="b")
