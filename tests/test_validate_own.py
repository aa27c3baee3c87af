"""A user's own results beside predictions: what is paired, how it is scored, and the command."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark_points import CHIP, DRAFTER, MODEL, TRUE, points
from commands import invoked, refused, run
from specroof import load_drafter, load_hardware, load_model, predict, validate
from specroof.engines import predicted_tokens_per_s
from specroof.engines.calibration import own_cases
from specroof.engines.record import Record
from specroof.evidence import Measurement
from specroof.hardware.engine import Band, ServerSettings
from specroof.latency.setup import Deployment, engine_setup
from specroof.questions.benchmark import other_chip_notes
from specroof.questions.validate import own_json, own_row, own_text
from specroof.scoring.own_results import OwnValidation, own_validation
from specroof.serving.capacity import in_server
from tables import rows

CHOSEN = replace(CHIP, engines={"true": TRUE}, default_engine="true")
SETUP = engine_setup(CHOSEN, None, None, None)
BENCH = "batch_size,context_len,draft_len,tokens_per_s\n8,2048,0,900\n"


def compared(bench: Sequence[Measurement], sources: Sequence[str] | None = None) -> OwnValidation:
    files = sources or ["a.csv"] * len(bench)
    named = [replace(one, source=file) for one, file in zip(bench, files, strict=True)]
    return own_validation(named, Deployment(MODEL, SETUP), DRAFTER)


def test_errors_and_speedups_by_hand() -> None:
    plain, fast = points((8,), (2048,), (0, 3))
    bench = [
        replace(plain, tokens_per_s=plain.rate / 1.25),
        replace(fast, tokens_per_s=fast.rate / 1.25 * 2),
    ]
    found = compared(bench)
    first, second = found.points
    assert first.rate.off == pytest.approx(0.25)
    assert second.rate.off == pytest.approx(1.25 / 2 - 1)
    assert (first.scored.kind, second.scored.kind) == ("plain", "speedup")
    predicted = fast.rate / plain.rate
    assert second.scored.predicted == pytest.approx(predicted)
    assert second.scored.measured == pytest.approx(2 * predicted)
    assert second.scored.verdict is True
    assert found.total.speedup_mean_error == pytest.approx(0.5)
    assert found.total.decode_mean_error == pytest.approx(0.25)
    assert found.total.tokens_per_s_mean_error == pytest.approx((0.25 + 0.375) / 2)
    assert (found.ideal_total.decode_mean_error or 0) > 0.5


def test_a_band_that_holds_1_decides_nothing() -> None:
    plain, fast = points((8,), (2048,), (0, 3))
    found = compared([plain, replace(fast, tokens_per_s=plain.rate * 1.3)])
    point = found.points[1]
    # 1.2 within a factor of e^0.1 (1.09 to 1.33) pays, within e^0.3 (0.89 to 1.62) may or may not.
    for predicted, band, word in ((1.2, 0.1, "right"), (1.2, 0.3, "unclear"), (0.8, 0.1, "wrong")):
        told = replace(point, scored=replace(point.scored, predicted=predicted, band=band))
        assert f" {word}\n" in own_text(replace(found, points=(told,), ideal=found.ideal[1:]))


def test_each_result_has_the_band_of_its_engine_at_its_load() -> None:
    band = Band(width=0.1, mean_error=0.05, points=9, batch_size=8)
    chip = replace(CHOSEN, engines={"true": replace(TRUE, bands={"eagle3": band})})
    deployment = Deployment(MODEL, engine_setup(chip, None, None, None))
    found = own_validation(points((8, 64), (2048,), (0, 3)), deployment, DRAFTER)
    near, far = (float(band.width_at(batch, 2048)) for batch in (8, 64))
    assert near == 0.1 < far
    assert [point.scored.band for point in found.points] == pytest.approx([near] * 2 + [far] * 2)


def test_regret_is_over_the_draft_lengths_of_one_load() -> None:
    plain, short, long = points((8,), (2048,), (0, 3, 7))
    assert long.rate > short.rate  # which is what is predicted, too
    better = replace(short, tokens_per_s=long.rate / 0.8)
    assert compared([plain, better, long]).total.regret_mean == pytest.approx(0.2)
    # Another load is no option.
    elsewhere = points((8,), (4096,), (0, 7))
    two = compared([plain, better, *elsewhere])
    assert two.total.regret_mean == 0


def test_arms_are_paired_by_the_load_that_was_asked_for() -> None:
    plain, fast = points((8,), (2048,), (0, 3), prefills=True)
    told: dict[str, Any] = {"concurrency": 8.0, "engine": "vllm"}
    busy = [
        replace(plain, batch_size=7.6, **told),
        # Another server is never as busy, and samples a token more or less.
        replace(fast, batch_size=7.3, input_len=(fast.input_len or 0) + 3, **told),
    ]
    assert compared(busy).points[1].scored.kind == "speedup"
    longer = replace(busy[1], output_len=1.009 * (fast.output_len or 0))
    assert compared([busy[0], longer]).points[1].scored.kind == "speedup"
    changes: list[dict[str, Any]] = [
        {"concurrency": 16.0},
        {"output_len": 1.0105 * (fast.output_len or 0)},
        {"context_len": 4096.0},
        {"input_len": None, "output_len": None},
        {"engine": "sglang"},
    ]
    for change in changes:
        other = compared([busy[0], replace(busy[1], **change)])
        assert other.points[1].scored.kind == "rate", change
        assert other.total.speedup_mean_error is None
        assert other.total.n == 2
    bare = replace(busy[0], input_len=None, output_len=None)
    assert compared([bare, busy[1]]).points[1].scored.kind == "rate"


def test_repeated_plain_runs_count_by_their_mean() -> None:
    plain, fast = points((8,), (2048,), (0, 3))
    runs = [replace(plain, tokens_per_s=factor * plain.rate) for factor in (0.9, 1.1)]
    found = compared([*runs, fast])
    assert found.points[2].scored.measured == pytest.approx(fast.rate / plain.rate)


def test_results_with_prompts_are_predicted_as_questions_about_them_are() -> None:
    plain, fast = points((8,), (2048,), (0, 2), prefills=True)
    fast = replace(fast, tokens_per_round=2.8)
    bench = [replace(one, requests=24) for one in (plain, fast)]
    lengths: Any = {"input_len": plain.input_len, "output_len": plain.output_len}
    asked: Any = lengths | {"batch_size": 8, "requests": 24, "max_draft_len": 2}
    found = compared(bench)
    for chip, (first, second) in ((CHOSEN, found.points), (CHIP, found.ideal)):
        (row,) = predict(MODEL, chip, drafters="eagle3,accept-length=2.8@2", **asked).rows
        assert row.draft_len == 2
        assert second.rate.predicted == pytest.approx(row.tokens_per_s)
        assert second.scored.predicted == pytest.approx(row.speedup)
        assert first.rate.predicted == pytest.approx(row.tokens_per_s / row.speedup)
    # Lengths that differ leave fewer in flight on average: 5 make less than the 7.9 of one length.
    few = replace(bench[0], batch_size=5, concurrency=8)
    (rate,) = predicted_tokens_per_s([few], Deployment(MODEL, SETUP), None)
    assert rate < 0.75 * found.points[0].rate.predicted
    # What an ideal drafter committed was measured, too.
    ideal = load_drafter("ideal")
    told = replace(bench[1], tokens_per_round=1.5)
    (rate,) = predicted_tokens_per_s([told], Deployment(MODEL, SETUP), ideal)
    assert rate < 1.6 * found.points[0].rate.predicted


def test_clients_between_whole_ones_lie_between_them() -> None:
    bench = [replace(one, batch_size=busy) for one in points((1,), (2048,), (0, 3), prefills=True)
             for busy in (2, 2.5, 3)]  # fmt: skip
    served = Deployment(MODEL, SETUP)
    tree = load_drafter("eagle3,tree=eagle2,top-k=2,nodes=6,siblings=0.2")
    for drafter in (DRAFTER, tree):
        for least, middle, most in predicted_tokens_per_s(bench, served, drafter).reshape(2, 3):
            assert least < middle < most
    # What a tree commits was measured of all of it: siblings add nothing to that.
    chain, branched = (predicted_tokens_per_s(bench[3:4], served, one) for one in (DRAFTER, tree))
    assert branched == pytest.approx(chain, rel=0.02)


def test_what_memory_does_not_hold_is_not_simulated() -> None:
    bench = points((8,), (2048,), (0,), prefills=True)
    served = Deployment(
        load_model("Qwen/Qwen3-32B"), engine_setup(load_hardware("l40s"), "vllm", None, None)
    )
    steady = Record(own_cases(bench, served, None)).rates().measured
    assert predicted_tokens_per_s(bench, served, None).tolist() == steady.tolist()


def test_a_row_has_what_is_measured_predicted_and_ideal() -> None:
    found = compared(points((8,), (2048,), (0, 3)), ["a.csv", "b.csv"])
    first, second = own_json(found)["sources"]
    assert (first["source"], first["n"], first["speedup_mean_error"]) == ("a.csv", 1, None)
    assert (second["source"], second["n"], second["decode_mean_error"]) == ("b.csv", 1, None)
    assert second["speedup_mean_error"] == pytest.approx(0)
    plain, point = (row.record for row in map(own_row, found.points, found.ideal))
    assert (plain["source"], point["source"]) == ("a.csv", "b.csv")
    assert point["place"] == "bench.csv, line 1"
    assert point["measured_speedup"] == pytest.approx(point["predicted_speedup"])
    assert point["ideal_speedup"] > point["measured_speedup"]
    assert plain["measured_speedup"] is None


def test_the_chart_draws_each_point_twice() -> None:
    results: Any = {"a.csv": BENCH + "1,2048,0,150\n"}
    found: Any = validate(results, MODEL, CHIP)
    (figure,) = found.figures().values()
    _, *drawn = figure.axes[0].lines
    for line, name in zip(drawn, ("predicted", "ideal"), strict=True):
        predicted = np.asarray(line.get_ydata(), dtype=float)
        assert predicted == pytest.approx([getattr(row, name) for row in found.rows])


# --- the command ---------------------------------------------------------------------------------


WORDS = "-H b200 --model Qwen/Qwen3-8B"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("words", "message"), rows("refusals", "own_results"))
def test_what_cannot_be_compared_is_refused_in_one_line(words: list[str], message: str) -> None:
    Path("b.csv").write_text(BENCH, encoding="utf-8")
    Path("c.csv").write_text(BENCH, encoding="utf-8")
    Path("fast.csv").write_text(BENCH.replace("900", "1e6"), encoding="utf-8")
    other = {"model_id": "Qwen/Qwen3-4B", "max_concurrency": 8, "duration": 1, "completed": 9}
    other |= {"total_input_tokens": 900, "total_output_tokens": 800, "output_throughput": 800}
    Path("other.json").write_text(json.dumps(other), encoding="utf-8")
    assert message in refused("validate", *words, "--plot no.png")
    assert not Path("no.png").exists()


# --- what the files themselves say ---------------------------------------------------------------

VLLM = {
    "model_id": "Qwen/Qwen3-8B", "max_concurrency": 1, "request_rate": "inf", "completed": 4,
    "duration": 20.0, "total_input_tokens": 4096, "total_output_tokens": 4096,
    "output_throughput": 204.8,
}  # fmt: skip
SERVER: dict[str, Any] = {"model_path": "Qwen/Qwen3-8B", "tp_size": 1}
SGLANG: dict[str, Any] = {
    **{key: value for key, value in VLLM.items() if key != "model_id"},
    "backend": "sglang",
    "server_info": SERVER,
}


def results(name: str, *lines: dict[str, Any]) -> str:
    Path(name).write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return name


def test_requests_that_wait_for_room_take_no_time_of_those_that_run() -> None:
    told = points((8,), (2048,), (0,), prefills=True)[0]
    runs = [replace(told, requests=160, concurrency=clients) for clients in (8, 32)]
    setup = in_server(MODEL, SETUP, ServerSettings(running=8))
    short, long = predicted_tokens_per_s(runs, Deployment(MODEL, setup), None)
    assert long == pytest.approx(short, rel=0.05)


@pytest.mark.parametrize("command", ["validate", "calibrate"])
def test_what_cannot_be_taken_together_is_refused(command: str) -> None:
    both = (results("v.jsonl", VLLM), results("s.jsonl", SGLANG))
    assert refused(command, *both, WORDS).startswith(
        "s.jsonl, line 1: is of sglang, and v.jsonl, line 1 of vllm; allowed: results of one tool"
    )
    server = {**SERVER, "speculative_algorithm": "NGRAM"}
    server |= {"speculative_num_draft_tokens": 4, "speculative_eagle_topk": 1}
    fast = {**SGLANG, "server_info": server, "accept_length": 2.5}
    line = refused(command, results("n.jsonl", fast), WORDS, "--drafter 'eagle3 ,accept=0.5'")
    assert line.startswith("n.jsonl, line 1: speculative_algorithm is 'NGRAM', and --drafter is")


@pytest.mark.parametrize(("chip", "changes", "said"), rows("values", "cards_of_llama_bench"))
def test_llama_bench_says_what_it_ran_on(chip: str, changes: dict[str, Any], said: str) -> None:
    card = "NVIDIA GeForce RTX 4090"
    one = {"n_prompt": 1, "n_gen": 0, "avg_ns": 7.5e6, "gpu_info": card, "n_gpu_layers": -1}
    Path("b.json").write_text(json.dumps([one | changes]), encoding="utf-8")
    told = invoked(f"validate b.json -H {chip} --model Qwen/Qwen3-8B --weights q4_k_m")
    assert said in told.output
    is_refused = bool(said) and not said.startswith("note")
    assert told.exit_code == (2 if is_refused else 0), told.output
    assert ("another chip" in told.output) == said.startswith("note")


def test_a_driver_names_one_chip() -> None:
    point = Measurement(place="b.json", batch_size=1.0, context_len=1.0, tokens_per_s=1.0)
    named_by_drivers = rows("values", "named_by_drivers")
    for chip in filter(None, named_by_drivers):
        profile = load_hardware(chip)
        silent = [
            named
            for named, gpus in named_by_drivers.items()
            if not other_chip_notes([replace(point, gpus=gpus)], profile)
        ]
        assert silent == [chip]


@pytest.mark.parametrize("command", ["validate", "calibrate"])
def test_formats_are_options_of_both_commands(command: str) -> None:
    server = {**SERVER, "quantization": "fp8", "kv_cache_dtype": "fp8_e4m3"}
    lines = [
        {**SGLANG, "max_concurrency": n, "completed": 4 * n, "total_input_tokens": 4096 * n,
         "total_output_tokens": 4096 * n, "output_throughput": 204.8 * n, "server_info": server}
        for n in (1, 2, 3)
    ]  # fmt: skip
    bench = results("s.jsonl", *lines)
    for formats, message in (
        ("", "quantization is 'fp8'"),
        ("--weights fp8", "kv_cache_dtype is 'fp8_e4m3'"),
        ("--weights fp9", "--weights is 'fp9'; allowed: bf16"),
    ):
        assert message in refused(command, bench, WORDS, formats)
    told = run(command, bench, WORDS, "--weights fp8 --kv-cache fp8 --drafter mtp --notes")
    for said in ("drafter 'mtp' changes nothing", "weights priced as", "KV cache priced as fp8"):
        assert f"note: {said}" in told


def test_errors_on_the_very_file_are_in_sample() -> None:
    fitted = "note: in-sample: engine calibrated was fitted to the results of"
    own = "--model Qwen/Qwen3-8B -H mine.yaml"
    Path("b.csv").write_text(BENCH + "1,2048,0,150\n64,2048,0,5000\n", encoding="utf-8")
    run("calibrate b.csv -o mine.yaml", WORDS)
    assert f"{fitted} b.csv" in run("validate b.csv", own)
    # What a file holds counts, not its name.
    Path("b.csv").rename("copy.csv")
    assert f"{fitted} copy.csv" in run("validate copy.csv", own)
    Path("c.csv").write_text(BENCH.replace("8,2048,0,900", "4,2048,0,510"), encoding="utf-8")
    run("calibrate copy.csv c.csv -o mine.yaml", WORDS)
    assert run("validate copy.csv c.csv", own).count(f"{fitted} copy.csv, c.csv, so") == 1
    assert "in-sample" not in run("validate copy.csv", WORDS)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("command", ["validate", "calibrate"])
@pytest.mark.parametrize("hostile", ["1e308", "1e-308", "1e6", "0.01"])
@pytest.mark.parametrize("column", range(7))
def test_no_figure_makes_numpy_speak(command: str, hostile: str, column: int) -> None:
    rows = [
        [str(batch), "4500", str(drafts), str(150 * batch), "2" if drafts else "", "4000", "1000"]
        for batch in (1, 8, 64)
        for drafts in (0, 3)
    ]
    rows[1][column] = hostile
    header = "batch_size,context_len,draft_len,tokens_per_s,acceptance_length,input_len,output_len"
    Path("b.csv").write_text("\n".join([header, *map(",".join, rows)]), encoding="utf-8")
    done = invoked(command, "b.csv", WORDS, "--drafter eagle3")  # a warning is an error here
    assert done.exit_code in {0, 2}, done.exception
    assert len(done.stderr.splitlines()) == (1 if done.exit_code else 0)
