"""Benchmark files as people have them, and every bad one refused in one line with its place."""

import json
from functools import partial
from typing import Any

import pytest

from effort import cpu_bound, cpu_seconds
from specroof import MeasurementError, OptionError
from specroof.acceptance.published.formats import parse_profiles
from specroof.evidence import read_benchmark, refuse_mixed
from specroof.reading.json_text import json_values
from specroof.reading.traces import parse_trace
from tables import reads, rows
from tables import refusal as of_call
from tiny_configs import changed

TOOLS: dict[str, dict[str, Any]] = rows("values", "tool_results")
SGLANG, VLLM = TOOLS["sglang"], TOOLS["vllm"]
#: Columns of a table: of passes alone, of whole requests, and of timed passes.
HEADERS: dict[str, str] = rows("refusals", "benchmark_headers")
STEPS = HEADERS["steps"]


def one(tool: str, **changes: Any) -> Any:
    """Return the only point of a file with one result, some of its keys changed."""
    text = json.dumps(changed(TOOLS[tool], changes))
    (point,) = read_benchmark(text, source="b.json", draft_len=changes.get("draft_len"))
    return point


def refusal(text: str) -> str:
    return of_call(MeasurementError, read_benchmark, text, source="b.json")


@pytest.mark.parametrize(("tool", "changes", "expected"), rows("values", "benchmark_points"))
def test_keys_of_a_result_say_what_was_measured(
    tool: str, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    point = one(tool, **changes)
    assert {field: getattr(point, field) for field in expected} == expected


def test_a_result_in_a_list_is_refused_with_its_line_and_number() -> None:
    height = json.dumps(SGLANG, indent=1).count("\n") + 1
    bad = json.dumps([SGLANG, {**SGLANG, "completed": 0}], indent=1)
    assert refusal(bad).startswith(f"b.json, line {2 + height}, result 2: completed is 0")
    assert refusal(bad[: len(bad) // 2]).startswith("b.json, line 1: is not valid JSON")


@pytest.mark.parametrize(("text", "points"), rows("results", "lines"))
def test_lines_are_points(text: str, points: list[dict[str, Any]]) -> None:
    for point, expected in zip(read_benchmark(text, source="t"), points, strict=True):
        assert {field: getattr(point, field) for field in expected} == pytest.approx(expected)


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
        (LINE[:-40], "b.json, line 1: is not valid JSON"),
        (LINE + "\n" + LINE[:50], "b.json, line 2: is not valid JSON"),
        ("[" * 100_000, "b.json, line 1: is not valid JSON"),
        (
            json.dumps({**VLLM, "spec_decode_draft_tokens": 10**300, "spec_decode_num_drafts": 1}),
            "draft_len is 1000",
        ),
        (f"{STEPS}\n1,4096,{'9' * 5000},70\n", "allowed: a whole number of at least 0"),
        *rows("refusals", "broken_results"),
        ('{"a": ' + "9" * 5000 + "}", "is not valid JSON"),
        (f"{STEPS}\n8,4096,0,{'1' * 140_000}\n", "line 2: field larger than field limit"),
        (f"{'x' * 140_000},{STEPS}\n8,4096,0,1,1\n", "line 1: field larger than field limit"),
    ],
)
def test_bad_files_are_refused_in_one_line(text: str, message: str) -> None:
    assert message in refusal(text.replace("$RESULT", LINE))


def test_results_of_two_tools_are_no_one_run() -> None:
    # Of one, and of one that is not known.
    refuse_mixed([one("vllm"), one("inferencex"), one("vllm", num_prompts=7)])
    mixed = [one("inferencex"), one("vllm"), one("sglang")]
    line = of_call(MeasurementError, refuse_mixed, mixed)
    assert reads(line, "b.json, line 1: …sglang… b.json, line 1 …vllm; allowed: …one tool…")


# --- lines --------------------------------------------------------------------------------


def results(count: int) -> list[dict[str, object]]:
    rates = [100.0 + number for number in range(count)]
    return [VLLM | {"output_throughput": rate} for rate in rates]


def test_time_to_read_json_lines_grows_with_the_file_and_no_faster() -> None:
    def seconds(count: int) -> float:
        text = "\n".join(json.dumps(one) for one in results(count))
        read = partial(json_values, text, source="r.jsonl", error=MeasurementError)
        assert len(list(read())) == count
        return cpu_seconds(lambda: list(read()))

    # Quadratic: 16 times as long.
    assert seconds(16_000) < 10 * seconds(4_000)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("as_list", [True, False])
def test_each_result_is_found_on_its_line(indent: int | None, as_list: bool) -> None:
    some = results(3)
    spelt = [json.dumps(one, indent=indent) for one in some]
    listed, lines = "\n\n[\n" + ",\n".join(spelt) + "\n]\n", "\n\n" + "\n\n".join(spelt)
    text = listed if as_list else lines
    values = list(json_values(text, source="r", error=MeasurementError))
    assert [value for _, value in values] == some
    for place, value in values:
        number = int(place.split(", line ")[1].split(",")[0])
        rest = "\n".join(text.split("\n")[number - 1 :])
        assert json.JSONDecoder().raw_decode(rest)[0] == value


# --- acceptance of strangers ------------------------------------------------------------

POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *rows("refusals", "broken_acceptance"),
        (
            f'vllm:spec_decode_num_drafts_total 1e308\n{POSITION}{{position="0"}} 8',
            "num_drafts|drafts is 1e\\+308; allowed: a number from 0 to 1e\\+20",
        ),
        (
            "Drafted: 20 tokens, Per-position acceptance rate: " + "0.5, " * 20_000,
            "positions is 20000; allowed: at most 10000",
        ),
        ("[" * 100_000, "holds no acceptance"),
        ('{"a":' * 40, "^f, line 1: .*32 levels"),
        ('{"a":' * 300_000, "at most 262144 are read"),
        ('{"acceptance_histogram": [' + "9" * 5000 + ", 1]}", "cannot be read as YAML"),
        ("commits,category,a0\n" + "1" * 140_000 + ",x,1", "field larger than field limit"),
    ],
)
def test_a_broken_acceptance_file_is_one_line(text: str, says: str) -> None:
    with cpu_bound(30), pytest.raises(OptionError, match=says) as refused:
        parse_profiles(text, "f", 7)
    assert str(refused.value).isprintable()


def test_a_histogram_that_is_no_list_says_nothing_about_rounds() -> None:
    rates = {"num_speculative_tokens": 1, "marginal_accept_rates": [0.5]}
    text = json.dumps(rates | {"acceptance_length_histogram": "many"})
    assert parse_profiles(text, "f")[0].n_rounds is None


def test_a_label_without_end_is_read_quickly() -> None:
    text = f"{POSITION}{{{'x' * 140_000}}} 8"
    with cpu_bound(30), pytest.raises(OptionError, match="position is empty"):
        parse_profiles(text, "f")


# --- traces ---------------------------------------------------------------------------------------

TRACES = rows("results", "traces")
OWN, AZURE, MOONCAKE = (TRACES[name][0] for name in ("own", "azure", "mooncake"))
SENT, WAITED, WAITED_AGAIN = rows("results", "sent_requests")


def listed(text: str, **settings: Any) -> dict[str, Any]:
    found = parse_trace(text, source="t", **settings)
    return {
        name: values.tolist() if hasattr(values, "tolist") else values
        for name, values in found.items()
    }


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_its_requests(name: str) -> None:
    text, expected = TRACES[name]
    found = listed(text)
    for key, values in expected.items():
        assert found[key] == pytest.approx(values, abs=1e-6), key
    assert found.keys() == expected.keys()


def test_a_clients_result_is_sent_again_as_it_was() -> None:
    lengths = {"input_len": [80, 100], "output_len": [30, 20]}
    assert listed(json.dumps(SENT)) == lengths | {"arrival_s": [0, 0.5]}
    # Clients that wait sent the next request when they had an answer: in their order.
    waited = listed(json.dumps(SENT | {"max_concurrency": 2}, indent=1))
    assert waited == lengths | {"arrival_s": [0, 0], "concurrency": 2}
    assert listed(json.dumps(WAITED)) == WAITED_AGAIN
    burst = SENT | {"start_times": None, "request_rate": "inf"}
    assert listed(json.dumps(burst))["arrival_s"] == [0, 0]


@pytest.mark.parametrize(("text", "prompts", "answers"), rows("values", "lengths_at_once"))
def test_lengths_come_at_once(text: str, prompts: list[float], answers: list[float]) -> None:
    found = parse_trace(text, source="t", timed=False, input_len=64)
    assert (found["input_len"].tolist(), found["output_len"].tolist()) == (prompts, answers)
    assert not found["arrival_s"].any()


@pytest.mark.parametrize("text", ["20\n8", "output_len\n20", "[20, 8]"])
def test_lengths_without_those_of_prompts_ask_for_them(text: str) -> None:
    line = of_call(OptionError, parse_trace, text, source="t", timed=False)
    assert line == "input_len is missing; allowed: tokens of a prompt, or a column of them"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *(
            (TRACES[of][0].replace(old, new), says)
            for of, old, new, says in rows("refusals", "changed_traces")
        ),
        (OWN.partition("\n")[0], "t: holds no request; allowed: one or more"),
        ("a" * 140_000 + "\n", "t, line 1: field larger than field limit"),
        *rows("refusals", "broken_traces"),
        (f"{json.dumps(SENT)}\n{json.dumps(SENT)}", "t: holds several results; allowed: one"),
        *(
            (json.dumps(SENT | changes), f"t, line 1: {says}")
            for changes, says in [
                *rows("refusals", "clients_of_traces"),
                ({"cached_tokens": [10**400]}, "cached_tokens.0 is "),
            ]
        ),
        (MOONCAKE.replace("3000", "1" * 400), "t, line 1: arrival_s is 1111"),
        (AZURE.replace("2023-11-16 18:17:03.9799600", "1" * 400), "t, line 2: arrival_s is "),
    ],
)
def test_a_mistake_is_named_in_one_line(text: str, says: str) -> None:
    line = of_call(MeasurementError, parse_trace, text, source="t")
    assert line.startswith(says)
    assert "allowed: " in line or "limit" in line
