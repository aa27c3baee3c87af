"""Benchmark files as people have them, and every bad one refused in one line with its place."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import MeasurementError
from specroof.evidence import read_benchmark, refuse_mixed

# What each tool writes, by the keys of SGLang 0.5.23, vLLM 0.33.0 and InferenceX.
SGLANG: dict[str, Any] = {
    "backend": "sglang",
    "max_concurrency": 8,
    "server_info": {
        "model_path": "Qwen/Qwen3-8B",
        "tp_size": 2,
        "speculative_num_draft_tokens": 4,
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
    },
    "duration": 20.0,
    "completed": 32,
    "total_input_tokens": 32_000,
    "total_output_tokens": 16_000,
    "output_throughput": 800.0,
    "concurrency": 7.5,
    "accept_length": 2.5,
}
VLLM: dict[str, Any] = {
    "model_id": "Qwen/Qwen3-8B",
    "max_concurrency": 4,
    "duration": 10.0,
    "completed": 10,
    "total_input_tokens": 1000,
    "total_output_tokens": 5000,
    "output_throughput": 500.0,
    "spec_decode_acceptance_length": 1.8,
    "spec_decode_num_drafts": 3000,
    "spec_decode_draft_tokens": 9000,
}
INFERENCEX: dict[str, Any] = {
    "hw": "b200",
    "conc": 16,
    "tp": 8,
    "model": "deepseek-ai/DeepSeek-R1-0528",
    "isl": 1024,
    "osl": 1024,
    "output_tput_per_gpu": 100.0,
    "spec_decoding": "none",
    "dp_attention": "false",
}


def one(result: dict[str, Any], **changes: Any) -> Any:
    """Return the only point of a file with one result, some of its keys changed."""
    text = json.dumps({**result, **changes})
    (point,) = read_benchmark(text, source="b.json", draft_len=changes.get("draft_len"))
    return point


def refusal(text: str, draft_len: int | None = None) -> str:
    """Return the one line that refuses a file."""
    with pytest.raises(MeasurementError) as caught:
        read_benchmark(text, source="b.json", draft_len=draft_len)
    (line,) = str(caught.value).splitlines()
    return line


def test_a_line_of_sglang_is_read() -> None:
    point = one(SGLANG)
    assert (point.batch_size, point.tokens_per_s) == (7.5, 800)  # measured, not asked for
    assert (point.input_len, point.output_len, point.context_len) == (1000, 500, 1250)
    assert (point.draft_len, point.tokens_per_round) == (3, 2.5)  # 4 with the root
    assert (point.model, point.tensor_parallel) == ("Qwen/Qwen3-8B", 2)


def test_of_a_tree_of_sglang_the_depth_counts() -> None:
    server = {**SGLANG["server_info"], "speculative_num_draft_tokens": 32}
    for children in (2, 4):
        tree = one(SGLANG, server_info={**server, "speculative_eagle_topk": children})
        assert tree.draft_len == 3


def test_plain_results_of_sglang_have_no_drafts() -> None:
    point = one(SGLANG, accept_length=None, server_info=None, concurrency=None)
    assert (point.draft_len, point.tokens_per_round, point.batch_size) == (0, None, 8)


def test_a_result_of_vllm_is_read() -> None:
    point = one(VLLM)
    assert (point.batch_size, point.draft_len, point.tokens_per_round) == (4, 3, 1.8)
    assert (point.input_len, point.output_len) == (100, 500)
    plain = {key: value for key, value in VLLM.items() if not key.startswith("spec_decode")}
    assert one(plain).draft_len == 0


def test_a_result_of_inferencex_is_per_gpu() -> None:
    assert one(INFERENCEX).tokens_per_s == 800
    assert one(INFERENCEX).tensor_parallel == 8
    assert one(INFERENCEX, spec_decoding="mtp", draft_len=3).draft_len == 3


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


def test_a_server_of_sglang_that_drafts_is_no_plain_run() -> None:
    server = {**SGLANG["server_info"], "speculative_algorithm": "EAGLE3"}
    silent = one(SGLANG, server_info=server, accept_length=None)
    assert (silent.draft_len, silent.tokens_per_round) == (3, None)
    unsaid = {"model_path": "Qwen/Qwen3-8B", "speculative_algorithm": "EAGLE3"}
    text = json.dumps({**SGLANG, "server_info": unsaid, "accept_length": None})
    assert "--draft-len" in refusal(text)
    plain = {**SGLANG["server_info"], "speculative_num_draft_tokens": None}
    assert one(SGLANG, server_info=plain, accept_length=None).draft_len == 0


def test_the_load_that_was_asked_for_is_kept_beside_the_measured_one() -> None:
    assert (one(SGLANG).concurrency, one(SGLANG).batch_size) == (8, 7.5)
    assert one(VLLM).concurrency is None


def test_a_table_is_read() -> None:
    text = (
        "# mine\nbatch_size,context_len,draft_len,tokens_per_s,acceptance_length,input_len,"
        "output_len\n1,4096,0,70,,,\n8,,3,900,2.5,1000,200\n"
    )
    plain, fast = read_benchmark(text, source="t.csv")
    assert (plain.context_len, plain.draft_len, plain.input_len) == (4096, 0, None)
    assert (fast.context_len, fast.tokens_per_round, fast.place) == (1100, 2.5, "t.csv, line 4")


def test_timed_passes_stand_beside_results() -> None:
    table = (
        "batch_size,context_len,draft_len,tokens_per_s,positions,pass_s\n"
        "8,4096,0,900,,\n8,4096,,,4,0.01\n8,4096,0,,8,0.0125\n"
    )
    plain, four, eight = read_benchmark(table, source="mine.csv")
    assert (plain.method, plain.pass_s, plain.verify_len) == (None, None, None)
    assert (four.method, four.verify_len, four.context_len) == ("step", 4, 4096)
    assert four.tokens_per_s == pytest.approx(8 / 0.01)  # sequences: a pass begins one token each
    assert [one.pass_s for one in (four, eight)] == pytest.approx([0.01, 0.0125])
    assert not four.drafts


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("8,4096,0,900,,0.01", "positions is empty"),
        ("8,4096,0,,4,", "pass_s is empty"),
        ("8,,0,,4,0.01", "context_len is empty"),
        ("8,4096,0,900,4,0.01", "tokens_per_s is 900 beside pass_s"),
        ("8,4096,3,,4,0.01", "draft_len is 3 beside pass_s"),
        ("8,4096,,900,,", "draft_len is empty; needed, or pass_s and positions"),
        ("8,4096,0,,,", "tokens_per_s is empty; needed, or pass_s and positions"),
        ("8,4096,0,,0,0.01", "positions is 0; allowed: a whole number of at least 1"),
        ("8,4096,0,,4,-1", "pass_s is -1; allowed: a number from 0 to 86400"),
    ],
)
def test_a_row_is_a_result_or_a_timed_pass(row: str, told: str) -> None:
    header = "batch_size,context_len,draft_len,tokens_per_s,positions,pass_s\n"
    line = refusal(header + row)
    assert line.startswith("b.json, line 2: ")
    assert told in line


def test_the_time_of_prompts_counts_where_requests_were_measured() -> None:
    assert one(SGLANG).includes_prefill
    assert one(VLLM).includes_prefill
    assert one(INFERENCEX).includes_prefill
    steps, requests = read_benchmark(
        WHOLE + "1,4096,0,70,,\n1,4096,0,60,4000,200\n", source="t.csv"
    )
    assert not steps.includes_prefill
    assert requests.includes_prefill


@pytest.mark.parametrize("row", ["0.01,1,0,70", "1,1,1,70", "1e6,1e9,4096,70"])
def test_bounds_of_plausible_figures_are_plausible(row: str) -> None:
    (point,) = read_benchmark(HEADER + row + "\n", source="t.csv")
    assert point.tokens_per_s == 70


def test_what_serves_and_how_is_kept_as_the_file_says_it() -> None:
    server = {
        **SGLANG["server_info"],
        "ep_size": 2,
        "speculative_algorithm": "EAGLE3",
        "quantization": "fp8",
        "kv_cache_dtype": "fp8_e4m3",
    }
    point = one(SGLANG, server_info=server)
    assert (point.engine, point.expert_parallel) == ("sglang", 2)
    assert (point.method, point.top_k) == ("EAGLE3", 1)
    assert (point.quantization, point.kv_cache) == ("fp8", "fp8_e4m3")
    plain = one(SGLANG, accept_length=None)
    assert (plain.method, plain.top_k) == (None, None)
    assert (one(VLLM).engine, one(VLLM).model) == ("vllm", "Qwen/Qwen3-8B")
    theirs = one(INFERENCEX, framework="vllm", ep=4, precision="fp8", spec_decoding="none")
    assert (theirs.engine, theirs.expert_parallel) == ("vllm", 4)
    assert (theirs.quantization, theirs.method) == ("fp8", None)
    assert theirs.model == "deepseek-ai/DeepSeek-R1-0528"
    assert one(INFERENCEX, spec_decoding="mtp", draft_len=3).method == "mtp"
    assert one(INFERENCEX, spec_decoding="").draft_len == 0
    assert one(INFERENCEX, framework="something").engine is one(INFERENCEX).engine is None


@pytest.mark.parametrize(
    ("backend", "tool"),
    [("sglang-oai-chat", "sglang"), ("vllm", "vllm"), ("trt", "tensorrt-llm"), ("truss", None)],
)
def test_benchmarks_of_sglang_may_be_of_other_servers(backend: str, tool: str | None) -> None:
    assert one(SGLANG, backend=backend).engine == tool


def test_no_more_are_in_flight_than_there_are_requests() -> None:
    few = one(VLLM, max_concurrency=256, num_prompts=20)
    assert few.batch_size == 10  # which were answered
    many = one(SGLANG, max_concurrency=64, concurrency=None)
    assert (many.batch_size, many.concurrency) == (32, 32)
    assert one(VLLM, num_prompts=1000).batch_size == 4


@pytest.mark.parametrize(
    "where",
    [
        {"max_running_requests": 5},
        {"server_info": {**SGLANG["server_info"], "max_running_requests": 5}},
        {
            "server_info": {
                **SGLANG["server_info"],
                "max_running_requests": 48,
                "internal_states": [{"effective_max_running_requests_per_dp": 5}],
            }
        },
    ],
)
def test_no_more_are_in_flight_than_the_server_runs(where: dict[str, Any]) -> None:
    # The client's mean counts those that wait, too.
    point = one(SGLANG, **where)
    assert (point.batch_size, point.concurrency) == (5, 5)


def test_a_server_that_runs_more_than_there_are_changes_nothing() -> None:
    server = {**SGLANG["server_info"], "max_running_requests": 48, "internal_states": []}
    point = one(SGLANG, server_info=server)
    assert (point.batch_size, point.concurrency) == (7.5, 8)


@pytest.mark.parametrize("rate", ["inf", None, float("inf")])
@pytest.mark.parametrize("result", [SGLANG, VLLM])
def test_requests_that_come_at_once_are_a_load(result: dict[str, Any], rate: Any) -> None:
    assert one(result, request_rate=rate) == one(result)


HEADER = "batch_size,context_len,draft_len,tokens_per_s\n"
WHOLE = "batch_size,context_len,draft_len,tokens_per_s,input_len,output_len\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "b.json: is empty"),
        (" \n", "b.json: is empty"),
        (json.dumps(SGLANG)[:-40], "b.json, line 1: is not valid JSON"),
        (json.dumps(SGLANG) + "\n" + json.dumps(VLLM)[:50], "b.json, line 2: is not valid JSON"),
        ("[" * 100_000, "b.json, line 1: is not valid JSON"),
        ("[3]", "b.json, line 1, result 1: is 3; allowed: a JSON object"),
        ("{}", "b.json, line 1: has no keys of a tool that is known"),
        (json.dumps(SGLANG) + "\n" + json.dumps(SGLANG), "line 2: repeats b.json, line 1"),
        (json.dumps({**SGLANG, "completed": 0}), "completed is 0; allowed: a whole number"),
        (json.dumps({**SGLANG, "completed": 1.5}), "completed is 1.5; allowed: a whole number"),
        (json.dumps({**SGLANG, "output_throughput": -800.0}), "output_throughput is -800.0"),
        # Their ratio is no number above 0.
        (
            json.dumps({**SGLANG, "duration": 1e308, "total_output_tokens": 5e-324}),
            "must agree: tokens and seconds",
        ),
        # Milliseconds where seconds belong, or the other way round.
        (json.dumps({**SGLANG, "duration": 20_000.0}), "must agree: tokens and seconds"),
        (
            json.dumps({**SGLANG, "accept_length": 4.5}),
            "is 4.5 with 3 drafts; allowed: from 1 to 4",
        ),
        (json.dumps({**SGLANG, "server_info": {}}), "drafts, and does not say how many"),
        (
            json.dumps({**SGLANG, "server_info": {"model_path": 3}}),
            "model_path is 3; allowed: text",
        ),
        (
            json.dumps({**SGLANG, "server_info": {"dp_size": 2}}),
            "server_info.dp_size is 2; allowed: tensor",
        ),
        (
            json.dumps({**SGLANG, "server_info": {"attn_dp_size": 2}}),
            "attn_dp_size is 2; allowed: tensor",
        ),
        (
            json.dumps({**SGLANG, "server_info": {"pp_size": 2}}),
            "server_info.pp_size is 2; allowed: tensor",
        ),
        (
            json.dumps({**SGLANG, "server_info": {"enable_dp_attention": True}}),
            "b.json, line 1: server_info.enable_dp_attention is true; allowed: tensor",
        ),
        (
            json.dumps({**SGLANG, "server_info": {"enable_dp_attention": "no"}}),
            "enable_dp_attention is 'no'; allowed: true or false",
        ),
        (
            json.dumps({**SGLANG, "server_info": {"internal_states": [3]}}),
            "server_info.internal_states.0 is 3; allowed: a mapping",
        ),
        (
            json.dumps({**SGLANG, "server_info": {"speculative_eagle_topk": 4}}),
            "server_info.speculative_num_steps is empty; allowed: a whole number",
        ),
        (
            json.dumps({**SGLANG, "server_info": {"mem_fraction_static": 1.5}}),
            "b.json, line 1: server_info.mem_fraction_static is 1.5; allowed: a number from",
        ),
        (
            json.dumps({**SGLANG, "server_info": {"chunked_prefill_size": -2}}),
            "server_info.chunked_prefill_size is -2; allowed: a whole number",
        ),
        (
            json.dumps({**SGLANG, "concurrency": None, "max_concurrency": None}),
            "b.json, line 1: max_concurrency is empty; allowed: a finite number",
        ),
        (json.dumps({**SGLANG, "duration": "20"}), "duration is '20'; allowed: a finite number"),
        (
            json.dumps({**SGLANG, "concurrency": 8.5}),
            "b.json, line 1: concurrency is 8.5; allowed: at most max_concurrency, 8",
        ),
        (
            json.dumps({**VLLM, "request_rate": 2.0}),
            "b.json, line 1: request_rate is 2.0; allowed: inf: of requests that come by the clock",
        ),
        (json.dumps({**SGLANG, "request_rate": "trace"}), "request_rate is 'trace'; allowed: inf"),
        (
            json.dumps({**VLLM, "request_rate": "inf", "ramp_up_strategy": "linear"}),
            "ramp_up_strategy is 'linear'; allowed: left out: of requests",
        ),
        (json.dumps({**VLLM, "spec_decode_num_drafts": 1e-308}), "allowed: a whole number"),
        (
            json.dumps({**VLLM, "spec_decode_draft_tokens": 10**300, "spec_decode_num_drafts": 1}),
            "draft_len is 1000",
        ),
        (
            json.dumps({**VLLM, "max_concurrency": 1e308, "completed": 1e308}),
            "batch_size is 1e+308; allowed: a number from 0.01 to 1000000",
        ),
        (
            json.dumps({**INFERENCEX, "conc": 1e308}),
            "batch_size is 1e+308; allowed: a number from 0.01 to",
        ),
        (json.dumps({**INFERENCEX, "spec_decoding": []}), "spec_decoding is []; allowed: text"),
        ("[]", "b.json: is an empty list; must hold benchmark results"),
        (json.dumps([SGLANG]) + "x", "b.json, line 1: stands behind a list; allowed: one list"),
        (json.dumps([SGLANG]) + ",,]", "b.json, line 1: stands behind a list; allowed: one list"),
        (
            json.dumps([SGLANG]) + "\n\n" + json.dumps([VLLM]),
            "b.json, line 3: stands behind a list",
        ),
        ("[] []", "b.json, line 1: stands behind a list"),
        (json.dumps({**VLLM, "max_concurrency": None}), "max_concurrency is empty"),
        (json.dumps({**VLLM, "duration": True}), "duration is true; allowed: a finite number"),
        (
            json.dumps({**INFERENCEX, "dp_attention": "true"}),
            "dp_attention is 'true'; allowed: tensor",
        ),
        (HEADER, "b.json: is empty; allowed: a line of column names and one a point"),
        (HEADER + "1,4096,0,70\n1,4096,0,70\n", "b.json, line 3: repeats line 2"),
        (HEADER + "1,4096,0,70\n1,4096,0,70.0\n", "b.json, line 3: repeats b.json, line 2"),
        (HEADER + "1,4096,0\n", "b.json, line 2: has 3 values; must have 4"),
        (HEADER + "1,4096,0,-70\n", "line 2: tokens_per_s is -70; allowed: a finite number"),
        (HEADER + "1,4096,0,fast\n", "line 2: tokens_per_s is 'fast'"),
        (HEADER + "1,4096,0,\n", "line 2: tokens_per_s is empty; it is needed"),
        (HEADER + "1,4096,x,70\n", "draft_len is 'x'; allowed: a whole number of at least 0"),
        (HEADER + "1,,0,70\n", "line 2: context_len is empty; needed, or input_len"),
        (HEADER + "1_0,4096,0,70\n", "line 2: batch_size is '1_0'; allowed: a finite number"),
        (HEADER + "\u0661,4096,0,70\n", "line 2: batch_size is '\u0661'; allowed: a finite"),
        (HEADER + "1,4096,0,inf\n", "line 2: tokens_per_s is 'inf'; allowed: a finite number"),
        (HEADER + "1e999,4096,0,70\n", "line 2: batch_size is '1e999'; allowed: a finite"),
        (HEADER + f"1,4096,{'9' * 5000},70\n", "allowed: a whole number of at least 0"),
        (
            HEADER + "1,4096,5000,70\n",
            "b.json, line 2: draft_len is 5000; allowed: a whole number from 0 to 4096",
        ),
        (
            HEADER + "1e7,4096,0,70\n",
            "b.json, line 2: batch_size is 10000000.0; allowed: a number from 0.01",
        ),
        (
            HEADER + "1e-308,4096,0,70\n",
            "batch_size is 1e-308; allowed: a number from 0.01 to 1000000",
        ),
        (HEADER + "1,1e308,0,70\n", "context_len is 1e+308; allowed: a number from 1 to 1e+09"),
        (
            WHOLE + "1,4096,0,70,1e10,5\n",
            "input_len is 10000000000.0; allowed: a number from 1 to 1e+09",
        ),
        (WHOLE + "1,4096,0,70,4000,0.5\n", "output_len is 0.5; allowed: a number from 1 to 1e+09"),
        (
            WHOLE + "1,999,0,70,1000,200\n",
            "line 2: context_len is 999; allowed: from 1000 to 1200, from input_len to input_len +",
        ),
        (WHOLE + "1,1201,0,70,1000,200\n", "context_len is 1201; allowed: from 1000 to 1200"),
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
    row = WHOLE + f"1,{text},0,70,1000,200\n"
    if text in {"1_100", ".5"}:
        assert "context_len" in refusal(row)
    else:
        (point,) = read_benchmark(row, source="t.csv")
        assert 1000 <= (point.context_len or 0) <= 1200


def test_results_of_two_tools_are_no_one_run() -> None:
    refuse_mixed([one(VLLM), one(INFERENCEX), one(VLLM, num_prompts=7)])  # of one, and unknown
    with pytest.raises(
        MeasurementError,
        match=r"^b.json, line 1: .*sglang.* b.json, line 1 .*vllm; allowed: .*one tool",
    ):
        refuse_mixed([one(INFERENCEX), one(VLLM), one(SGLANG)])


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(MeasurementError):
        read_benchmark(text, source="b")
