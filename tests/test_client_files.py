"""Files that clients and servers wrote with their own code: `tests/data/clients/README.md`."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from effort import cpu_bound
from specroof import MeasurementError, OptionError, doctor, validate
from specroof.acceptance.published.formats import parse_profiles
from specroof.evidence import read_benchmark, stated_drafts
from specroof.evidence.measurement import Measurement
from specroof.reading.metrics_text import parse_metrics
from specroof.serving.metrics import counted
from specroof.serving.observed import observed
from tables import reads, refusal, rows
from tiny_configs import changed

FILES = Path(__file__).parent / "data" / "clients"


def text_of(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def read(name: str, **told: Any) -> tuple[Measurement, ...]:
    return read_benchmark(text_of(name), source=name, **told)


# --- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "told", "points"), rows("results", "files"))
def test_a_result_is_the_run_behind_it(
    name: str, told: dict[str, Any], points: list[dict[str, Any]]
) -> None:
    for point, expected in zip(read(name, **told), points, strict=True):
        assert {field: getattr(point, field) for field in expected} == pytest.approx(expected)


@pytest.mark.parametrize(("name", "says"), rows("refusals", "client_files"))
def test_a_file_without_a_load_or_a_length_of_drafts_is_refused(name: str, says: str) -> None:
    line = refusal(MeasurementError, read, name)
    assert reads(line, f"{name}{says}"), line


@pytest.mark.parametrize(("text", "tool"), rows("refusals", "other_files"))
def test_a_file_of_a_known_tool_without_a_load_is_refused_by_name(text: str, tool: str) -> None:
    assert tool in refusal(MeasurementError, read_benchmark, text, source="f")


def with_keys(name: str, changes: dict[str, Any]) -> str:
    return json.dumps(changed(json.loads(text_of(name)), changes))


@pytest.mark.parametrize(("name", "changes", "says"), rows("refusals", "client_results"))
def test_a_result_without_its_parts_is_refused_by_key(
    name: str, changes: dict[str, Any], says: str
) -> None:
    text = with_keys(name, changes)
    assert says in refusal(MeasurementError, read_benchmark, text, source="f", draft_len=3)


@pytest.mark.parametrize(("name", "changes", "expected"), rows("results", "changed_files"))
def test_what_a_result_says_otherwise_is_read(
    name: str, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    (point,) = read_benchmark(with_keys(name, changes), source="f")
    assert {field: getattr(point, field) for field in expected} == expected


def table_with(name: tuple[str, str, str], cell: str) -> str:
    lines = list(csv.reader(io.StringIO(text_of("guidellm-0.8.1.csv"))))
    column = list(zip(*lines[:3], strict=True)).index(name)
    lines[3][column] = cell
    out = io.StringIO()
    csv.writer(out).writerows(lines)
    return out.getvalue()


RATE = ("Token Throughput", "Successful Output Tokens/Sec", "Mean")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (table_with(("Benchmark", "Strategy", ""), "poisson@2"), "line 4: Strategy is 'poisson@2'"),
        (table_with(RATE, "fast"), "line 4: Output Tokens/Sec is 'fast'; allowed"),
        (table_with(RATE, ""), "line 4: Output Tokens/Sec is empty; allowed"),
        (table_with(("Run Info", "Backend", ""), "{"), "line 4: no readable JSON"),
        (f"Run Info,{'x' * 140_000}\n", "field larger than field limit"),
        ("Run Info,Run ID\n", "is an empty list"),
        ("Run Info,Run Info\nID,ID\n,\n", "has two columns of Run Info ID; allowed: one"),
        (
            text_of("vllm-0.33.0-bench.log")[:400],
            "line 1: the table has no end; allowed: a line of =",
        ),
    ],
)
def test_a_broken_table_is_refused_by_its_cell(text: str, says: str) -> None:
    assert says in refusal(MeasurementError, read_benchmark, text, source="f")


@pytest.mark.parametrize(("busy", "batch_size"), [("1.5", 1.0), ("0.5", 0.5)])
def test_no_more_requests_are_in_flight_than_were_asked_for(busy: str, batch_size: float) -> None:
    column = ("Server Throughput", "Successful Concurrency", "Mean")
    alone, _ = read_benchmark(table_with(column, busy), source="f")
    assert (alone.batch_size, alone.concurrency) == (batch_size, 1.0)


@pytest.mark.parametrize(("way", "asked"), [("synchronous", 1.0), ("throughput", None)])
def test_ways_of_guidellm_to_send_requests(way: str, asked: float | None) -> None:
    point, _ = read_benchmark(table_with(("Benchmark", "Strategy", ""), way), source="f")
    assert (point.batch_size, point.concurrency) == (1.0, asked)
    told = {"type_": way} if asked else {"type_": way, "max_concurrency": None}
    text = with_keys("guidellm-0.8.1.json", {"benchmarks/0/config/strategy": told})
    point, _ = read_benchmark(text, source="f")
    assert (point.batch_size, point.concurrency) == (1.0, asked)


# --- what is not said of drafts ------------------------------------------------------------------

VLLM = rows("values", "vllm_client")
DRAFTS = rows("values", "vllm_client_drafts")
SHARES = "spec_decode_per_position_acceptance_rates"
OTHER = VLLM | {"max_concurrency": 4}


def test_sglangs_own_client_says_what_its_server_did() -> None:
    (plain,), (drafted,) = map(
        read, ("sglang-0.5.23-bench.jsonl", "sglang-0.5.23-bench-drafts.jsonl")
    )
    assert plain.batch_size == pytest.approx(4, rel=0.02)  # the client's mean
    assert plain.tokens_per_s == pytest.approx(4 / 0.02, rel=0.02)
    # A request takes a pass for the prompt and 36 rounds.
    assert drafted.tokens_per_s == pytest.approx(4 * 100 / (37 * 0.02), rel=0.02)
    for point in (plain, drafted):
        assert point.server is not None
        assert (point.server.memory_frac, point.server.chunk) == (0.85, 8192)


# --- what clients print --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "saved"),
    [("vllm-0.33.0-bench", ".json"), ("vllm-0.33.0-bench-drafts", ".json"),
     ("sglang-0.5.23-bench-drafts", ".jsonl")],
)  # fmt: skip
def test_a_printed_table_is_read_as_the_saved_result(name: str, saved: str) -> None:
    said = json.loads(text_of(name + saved))
    for key in ("server_info", "latencies"):  # no table has them
        said.pop(key, None)
    (whole,) = read_benchmark(json.dumps(said), source="f", draft_len=3)
    (printed,) = read(f"{name}.log", draft_len=3)
    for key in ("input_len", "output_len", "draft_len", "says_drafts", "engine", "concurrency"):
        assert getattr(printed, key) == getattr(whole, key), key
    # Two digits behind the point.
    assert printed.tokens_per_s == pytest.approx(whole.tokens_per_s, abs=0.005)
    assert printed.batch_size == pytest.approx(whole.batch_size, abs=0.005)
    acceptance = [point.tokens_per_round or 0.0 for point in (printed, whole)]
    assert acceptance[0] == pytest.approx(acceptance[1], rel=0.005)


def test_a_capture_of_several_runs_has_several_results() -> None:
    table = text_of("vllm-0.33.0-bench.log")
    arguments = "[12:00] Namespace(subparser='bench', backend='vllm-chat', model='me/mine', n=3)\n"
    later = table.replace("concurrency:             4", "concurrency:             8")
    text = f"{arguments}INFO: ready\n{table}\n100%|=====| 16/16\n{later}"
    first, second = read_benchmark(text.replace("\n", "\r\n"), source="f")
    assert (first.batch_size, second.batch_size) == (4, 8)
    assert [point.model for point in (first, second)] == ["me/mine"] * 2
    assert first.place == "f, line 3"
    (other,) = read_benchmark(arguments.replace("vllm-chat", "sglang") + table, source="f")
    assert other.engine == "sglang"


@pytest.mark.parametrize(("name", "old", "new", "says"), rows("refusals", "client_tables"))
def test_a_printed_table_is_refused_as_the_saved_result_is(
    name: str, old: str, new: str, says: str
) -> None:
    text = text_of(name)
    assert old in text
    changes = text.replace(old, new, -1 if old else 1)
    assert says in refusal(MeasurementError, read_benchmark, changes, source="f")


def test_a_limit_that_is_not_set_is_none() -> None:
    text = text_of("sglang-0.5.23-bench.log")
    limit = "Max request concurrency:                 4      "
    assert limit in text
    (point,) = read_benchmark(text.replace(limit, limit.replace("4", "not set")), source="f")
    assert point.concurrency is None
    assert point.batch_size == pytest.approx(3.97)


@pytest.mark.parametrize("server", [None, {"vllm_config": "..."}, {"prefill": [], "decode": []}])
def test_sglangs_client_is_silent_on_drafts_of_other_servers(server: Any) -> None:
    # The client asks no other server for acceptance, and writes its /server_info as it comes.
    text = with_keys("sglang-0.5.23-bench.jsonl", {"backend": "vllm", "server_info": server})
    (point,) = read_benchmark(text, source="f")
    assert (point.draft_len, point.says_drafts, point.engine) == (0, False, "vllm")
    (stated,) = read_benchmark(text, source="f", draft_len=3)
    assert (stated.draft_len, stated.tokens_per_round) == (3, None)


@pytest.mark.parametrize(
    ("accepted", "tokens_per_round"),
    [
        (0, 1.0),
        (6000, 12_736 / 6736),  # 12 800 tokens in 64 answers: 736 rounds without drafts
        (6736, 1 + 6736 / 6000),
        (7200, 2.2),  # accepted beyond the end of answers
    ],
)
def test_no_round_is_taken_back(accepted: int, tokens_per_round: float) -> None:
    length = 1 + accepted / 6000
    result = VLLM | DRAFTS | {"spec_decode_acceptance_length": length}
    (point,) = read_benchmark(json.dumps(result), source="f")
    assert point.tokens_per_round == pytest.approx(tokens_per_round)


def test_what_the_user_states_of_drafts_holds_where_a_result_is_silent() -> None:
    (silent,) = read_benchmark(json.dumps(VLLM), source="f")
    assert (silent.draft_len, silent.says_drafts, silent.engine) == (0, False, "vllm")
    (other,) = read_benchmark(json.dumps(VLLM | {"backend": "sglang"}), source="f")
    assert other.engine == "sglang"
    (stated,) = read_benchmark(json.dumps(VLLM), source="f", draft_len=3)
    assert (stated.draft_len, stated.tokens_per_round) == (3, None)
    both = "\n".join(json.dumps(one) for one in (VLLM | DRAFTS, OTHER))
    counted_, plain = read_benchmark(both, source="f")
    assert (counted_.draft_len, counted_.tokens_per_round, plain.draft_len) == (2, 2.2, 0)
    assert stated_drafts([silent])[1][0].startswith("f, line 1: does not say whether")
    assert "and 1 more" in stated_drafts([silent, plain])[1][0]
    assert stated_drafts([stated]) == ((stated,), [])
    settled, notes = stated_drafts([counted_, stated])
    assert ([point.draft_len for point in settled], notes) == ([2, 0], [])


def test_a_silent_result_is_noted_or_taken_as_stated(tmp_path: Path) -> None:
    file = tmp_path / "v.json"
    file.write_text(json.dumps(VLLM))
    asked: Any = {"results": file, "model": "Qwen/Qwen3-8B", "hardware": "h100"}
    assert "does not say whether" in "".join(validate(**asked).notes)
    asked |= {"draft_len": 3}
    drafted = "".join(validate(**asked, drafter="eagle3,accept-length=2.2@3").notes)
    assert "does not say whether" not in drafted
    assert "changes nothing" not in drafted
    with pytest.raises(MeasurementError, match=r"line 1: .*3 drafts.*acceptance length"):
        validate(**asked, drafter="eagle3")


def test_a_mean_of_drafts_that_vary_holds_what_was_accepted() -> None:
    # 6000 rounds, of which 3 in 5 make one draft and the others 2: 1.4 on average, 1.45 accepted.
    varying = DRAFTS | {"spec_decode_draft_tokens": 8400, "spec_decode_acceptance_length": 2.35}
    (point,) = read_benchmark(json.dumps(VLLM | varying), source="f")
    assert (point.draft_len, point.tokens_per_round) == (2, 2.35)


# --- acceptance ----------------------------------------------------------------------------------


def test_rounds_of_a_log_whose_drafts_vary_are_counted() -> None:
    (profile,) = parse_profiles(text_of("vllm-0.33.0-varying.log"), "f")
    assert profile.n_rounds == pytest.approx(76_800, rel=2e-3)  # rates have three digits
    assert "drafts vary (mean 2.0" in profile.note
    # Half of the rounds have one draft; each draft is accepted with 0.6.
    assert profile.survival == pytest.approx((0.6, 0.18, 0.108), abs=0.005)


@pytest.mark.parametrize(
    ("name", "survival", "n_rounds", "note"),
    [
        ("aiperf-0.13.0-drafts.json", (60 / 80, 36 / 80, 20 / 80), 64 * 80, ""),
        ("vllm-0.33.0-bench-drafts.json", (422 / 738, 255 / 738, 160 / 738), 738, "mean 2.96 of 3"),
        ("vllm-0.33.0-ngram-after.txt", None, 805, "drafts vary (mean 3.95 of 4)"),
    ],
)
def test_acceptance_by_position_is_what_was_counted(
    name: str, survival: tuple[float, ...] | None, n_rounds: int, note: str
) -> None:
    (profile,) = parse_profiles(text_of(name), "f")
    assert survival is None or profile.survival == pytest.approx(survival)
    assert profile.n_rounds == n_rounds
    assert note in profile.note


def test_acceptance_of_several_results_is_that_of_all_their_rounds() -> None:
    short, shorter, longer = (
        VLLM | DRAFTS | {"spec_decode_num_drafts": n, SHARES: shares}
        for n, shares in [(100, [0.8, 0.6, 0.4]), (100, [0.5]), (10_000, [0.5, 0.3, 0.2])]
    )
    with_plain = "\n".join(map(json.dumps, (VLLM, short, longer)))  # which says nothing of drafts
    for text in (json.dumps([short, longer]), with_plain):
        (profile,) = parse_profiles(text, "f")
        # 80 and 5000 first drafts of 10 100, 60 and 3000 second, 40 and 2000 third.
        assert profile.survival == pytest.approx((5080 / 10_100, 3060 / 10_100, 2040 / 10_100))
        assert profile.n_rounds == 10_100
    (profile,) = parse_profiles(json.dumps([short, shorter]), "f")
    assert profile.survival == pytest.approx((0.65, 0.3, 0.2))  # refused beyond their ends
    for key, value in {"model_id": "another", "spec_decode_num_drafts": None}.items():
        text = json.dumps([short, longer | {key: value}])
        assert key in refusal(OptionError, parse_profiles, text, "f")


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        *rows("refusals", "without_acceptance"),
        *((text_of(file), tool) for file, tool in rows("refusals", "files_without_acceptance")),
        (json.dumps(VLLM), "a benchmark result without acceptance by position"),
        (json.dumps([{"run": 1}, VLLM]), "a benchmark result without acceptance by position"),
    ],
)
def test_a_file_without_acceptance_is_refused_by_its_tool(text: str, tool: str) -> None:
    line = refusal(OptionError, parse_profiles, text, "f")
    assert line.startswith("f: is ")
    assert tool in line
    assert "YAML" not in line


def test_bins_of_a_histogram_cost_what_the_file_holds() -> None:
    lines = '{"acceptance_histogram": {"9999": 1}}\n' * 3000
    with cpu_bound(2):  # 30 million bins
        (profile,) = parse_profiles(lines, "f")
    assert (profile.n_rounds, len(profile.survival)) == (3000, 9999)


# --- pages ---------------------------------------------------------------------------------------


def test_rounds_that_found_nothing_are_in_vllms_own_counters() -> None:
    names = [f"vllm-0.33.0-ngram-{when}.txt" for when in ("before", "after")]
    pages = [parse_metrics(text_of(name), source=name) for name in names]
    seen = observed(counted(pages, sources=names), 5.62)
    assert seen.rounds == 989
    assert seen.drafted_frac == pytest.approx(512 / 989)
    assert seen.tokens_per_round == pytest.approx(2000 / 989)
    assert seen.draft_len == pytest.approx(2020 / 512)
    assert seen.round_s == pytest.approx(0.02)
    files = [FILES / name for name in names]
    found: Any = doctor("Qwen/Qwen3-8B", "h100", pages=files, drafter="ngram", wait_s=5.62)
    assert found.change.longer is None
    assert found.change.best.draft_len <= 4
    assert "in 52% of 989 rounds of requests" in str(found)


def test_rounds_are_in_sglangs_own_counters() -> None:
    names = [f"sglang-0.5.23-{when}.txt" for when in ("before", "after")]
    pages = [parse_metrics(text_of(name), source=name) for name in names]
    seen = observed(counted(pages, sources=names), None)
    assert (seen.framework, seen.model, seen.longest) == ("sglang", "Qwen/Qwen3-8B", 3)
    assert seen.rounds == 800
    assert seen.tokens_per_round == pytest.approx(2000 / 800)
    assert seen.round_s == pytest.approx(0.02)
    assert (seen.drafted_frac, seen.notes) == (1.0, ())
    with pytest.raises(OptionError, match="SGLang's metrics page"):
        parse_profiles(text_of(names[1]), "f")
