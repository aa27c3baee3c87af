"""`specroof measure`: tools that time passes, kernels of few rows, and what they change."""

import json
import os
import re
import runpy
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

import specroof
from commands import refused, run
from gguf_files import gguf_bytes
from published_drafters import a_round
from specroof import (
    ForwardPass,
    Options,
    constant_acceptance,
    load_drafter,
    load_hardware,
    load_model,
)
from specroof.drafters.base import chain_proposals
from specroof.engines import row_steps
from specroof.errors import MeasurementError, SpecroofError
from specroof.evidence import time_passes, timed_here
from specroof.latency.model import model_latency
from specroof.latency.setup import Setup, engine_setup
from specroof.questions.measure import Measured
from strategies import real_engine
from tables import refusal, rows

CPU = "cpu-2ch-ddr5"
#: Milliseconds of passes by rows, as one core of a Zen 4 ran Qwen3-0.6B in Q8_0.
STEPS = {1: 53, 2: 104, 3: 119, 4: 129, 5: 177, 6: 194, 7: 208, 8: 193, 9: 241, 12: 254, 16: 315}
RECORDED = Path(__file__).parent / "data" / "llama_bench" / "one_core.json"

#: Answers as `llama-bench` and `llama-batched-bench` do, of the machine above.
FAKE = f"""
import json, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open(__file__ + ".calls", "a") as calls:
    calls.write(json.dumps(words) + chr(10))
steps = {STEPS}
if "-npl" in words:
    print("a line of its log")
    for rows in map(int, words["-npl"].split(",")):
        seconds = steps[rows] / 1e3
        line = {{"pp": int(words["-npp"]), "tg": int(words["-ntg"]), "pl": rows}}
        line |= {{"t_tg": seconds * line["tg"], "speed_tg": rows / seconds}}
        print(json.dumps(line))
else:
    print(json.dumps([
        {{"n_prompt": int(rows), "n_gen": 0, "n_depth": int(depth),
         "avg_ns": 1e6 * steps[int(rows)], "avg_ts": 1e3 * int(rows) / steps[int(rows)]}}
        for depth in words.get("-d", "0").split(",")
        for rows in words["-p"].split(",")
    ]))
"""


def tool(folder: Path, code: str, name: str = "llama-bench") -> Path:
    path = folder / name
    # The shell runs Python on the file, as no path with a space may follow "#!".
    start = f"""#!/bin/sh\n''''exec "{sys.executable}" "$0" "$@" # '''\n"""
    path.write_text(code if code[:2] == "#!" else start + code, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """The header of Qwen3-0.6B in Q8_0."""
    file = rows("gguf_files", "qwen3_0_6b")
    tensors: list[Any] = [("token_embd.weight", [1024, 151936], "q8_0")]
    tensors += [("output_norm.weight", [1024], "f32")]
    for layer in range(28):
        at = f"blk.{layer}."
        for form, parts in (("q8_0", file["matrices"]), ("f32", file["norms"])):
            tensors += [(f"{at}{name}.weight", shape, form) for name, shape in parts.items()]
    metadata = {"general.architecture": "qwen3"}
    metadata |= {f"qwen3.{key}": size for key, size in file["sizes"].items()}
    path = tmp_path / "model-Q8_0.gguf"
    with path.open("wb") as file:
        file.write(gguf_bytes(metadata, tensors, weights=False))
        file.truncate(700_000_000)  # of holes
    return path


def pass_s(model: specroof.Architecture, setup: Setup, count: int, context: int = 256) -> float:
    """Seconds of a pass of so many rows, with the logits of its last token alone."""
    forward = ForwardPass(1, count, context, head_len=1)
    return float(model_latency(model, setup, forward).total_s)


# --- From a tool on this machine to a hardware file ----------------------------------------------


def test_passes_that_cost_in_steps_are_predicted_by_the_measured_engine(
    tmp_path: Path, gguf: Path
) -> None:
    bench = tool(tmp_path, FAKE)
    answer = specroof.measure(gguf, CPU, tool=str(bench), tool_args="-t 1", context_len=256)
    assert isinstance(answer, Measured)
    rows = {row["rows"]: row for row in answer.records}
    assert [*rows] == [*STEPS]
    for count, row in rows.items():
        assert row["measured_s"] == pytest.approx(STEPS[int(count)] / 1e3)
        assert row["after_s"] == pytest.approx(row["measured_s"], rel=2e-3)
        assert row["before_s"] < 0.2 * row["measured_s"]  # the peaks of sixteen cores
    mine = tmp_path / "mine.yaml"
    mine.write_text(answer.file, encoding="utf-8")
    chip, model = load_hardware(mine), load_model(gguf)
    assert (chip.default_engine, chip.engine().rules) == ("measured", "llama.cpp")
    setup = engine_setup(chip, None, None, None)
    for count, milliseconds in STEPS.items():
        assert pass_s(model, setup, count) == pytest.approx(milliseconds / 1e3, rel=2e-3)
    # Ten rows were not timed: a part of the kernel of twelve.
    assert pass_s(model, setup, 9) < pass_s(model, setup, 10) * 1.1 < pass_s(model, setup, 12) * 1.1
    assert pass_s(model, setup, 32) == pytest.approx(2 * STEPS[16] / 1e3, rel=0.2)
    # Drafts pay on the peaks, and lose where two rows cost twice one.
    (one, *_, eight) = answer.speedups
    assert (one["draft_len"], eight["draft_len"]) == (1, 8)
    assert one["after"] < 1 < one["before"]
    assert float(answer.after.best_speedup[0, 0]) == 1
    assert "1.00x with 0 drafts as measured here" in str(answer)
    assert answer.to_dict()["rows"] == answer.records
    calls = [json.loads(line) for line in Path(f"{bench}.calls").read_text().splitlines()]
    assert [(call["-p"], call["-r"], call["-t"]) for call in calls] == [
        ("1,16", "1", "1"),
        # 60 s of passes on a line from 53 to 315 ms: 11 x 0.053 + 61 / 15 x 0.262 s, 36 times.
        (",".join(map(str, STEPS)), "36", "1"),
    ]


@pytest.mark.parametrize("name", ["llama-bench", "llama-batched-bench"])
def test_the_script_times_what_the_command_does(
    name: str, tmp_path: Path, gguf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, passes = tool(tmp_path, FAKE, name), tmp_path / "passes.json"
    time_passes.main([str(gguf), f"--tool={bench}", "--seconds=1"])
    passes.write_text(capsys.readouterr().out, encoding="utf-8")
    last = json.loads(Path(f"{bench}.calls").read_text().splitlines()[-1])
    for how in ({"tool": str(bench), "seconds": 1}, {"results": passes}):
        answer = specroof.measure(gguf, CPU, **how)
        assert isinstance(answer, Measured)
        assert [row["rows"] for row in answer.records] == [*STEPS]
        for row in answer.records:
            assert row["after_s"] == pytest.approx(row["measured_s"], rel=2e-3)
    if "batched" in name:  # sequences decoded in parallel are rows
        assert (last["-npp"], last["-ntg"], last["-c"]) == ("1", "3", "64")


def test_no_draft_is_priced_whose_pass_was_not_timed(tmp_path: Path, gguf: Path) -> None:
    passes, line = tmp_path / "passes.csv", "1,{},256,{}\n"
    text = "".join(line.format(count, STEPS[count] / 1e3) for count in (1, 2, 3, 4))
    passes.write_text(f"batch_size,positions,context_len,pass_s\n{text}", encoding="utf-8")
    answer = specroof.measure(gguf, CPU, results=passes)
    assert isinstance(answer, Measured)
    assert [row["draft_len"] for row in answer.speedups] == [1, 2, 3]  # verified by 2 to 4 rows
    assert any("speedups end at 3 of 8 drafts" in warning for warning in answer.warnings)


def test_recorded_output_of_a_busy_machine_is_read_and_warned_of(gguf: Path) -> None:
    answer = specroof.measure(gguf, CPU, results=RECORDED, engine_name="busy")
    assert isinstance(answer, Measured)
    assert [row["rows"] for row in answer.records] == [*STEPS]
    assert answer.records[0]["measured_s"] == pytest.approx(0.1275, abs=1e-4)  # the median
    (warning,) = [said for said in answer.warnings if "unsteady" in said]
    assert warning.startswith("1 of 11")
    assert "busy" in answer.file


@pytest.mark.parametrize(("model", "told", "says"), rows("values", "results_of_another_file"))
def test_results_of_another_file_or_cache_are_refused(
    model: str, told: dict[str, str], says: str
) -> None:
    text = RECORDED.read_text().replace(
        '"model_type"', '"model_filename": "a-Q8_0.gguf", "model_type"'
    )
    options = Options(weight_dtype=told.get("weights"), kv_dtype=told.get("kv"))
    with pytest.raises(MeasurementError, match=re.escape(says)) if says else nullcontext():
        specroof.calibrate({"bench.json": text}, model, CPU, options=options)


def test_the_shell_writes_the_file(tmp_path: Path, gguf: Path) -> None:
    bench, mine = tool(tmp_path, FAKE), tmp_path / "mine.yaml"
    words = f"-H {CPU} --context 0,256 --drafter block,cost=0.1,drafts=3,accept=0.6"
    assert "drafts" in run("measure", gguf, words, "--tool", bench, "-o", mine)
    assert load_hardware(mine).default_engine == "measured"


# --- The script for other machines ---------------------------------------------------------------


def test_the_script_is_self_contained(tmp_path: Path, gguf: Path) -> None:
    script, bench = tmp_path / "time_passes.py", tool(tmp_path, FAKE)
    words = ["measure", gguf, f"-H {CPU} --script"]
    printed = run(*words)
    run(*words, "-o", script)
    assert printed.startswith(script.read_text(encoding="utf-8").rstrip())
    assert f"measure {gguf} -H {CPU} --results passes.json" in printed
    more = run(*words, "--context 0,4096 --seconds 30 --tool-args '-ngl 99'")
    assert "'--tool-args=-ngl 99' --context=0,4096 --seconds=30 > passes.json" in more
    told = "--weights q8_0 --kv-cache q8_0 --drafter mtp,accept=0.8 --engine ideal --family qwen3"
    named = f"Qwen/Qwen3-0.6B -H {CPU}"
    for library, file in {"llama-bench": "'<YOUR-FILE>.gguf'", "mlx-lm": "Qwen/Qwen3-0.6B"}.items():
        said = run("measure", named, told, f"--script --tool {library}")
        assert f"time_passes.py {file} --tool {library} " in said
        assert f"measure {named} {told} --results passes.json" in said
    chip = specroof.load_hardware(CPU)
    assert chip.name in specroof.measure(gguf, chip, script=True).notes[1]
    timing = [sys.executable, "-I", str(script), str(gguf), f"--tool={bench}", "--seconds=1"]
    passes = tmp_path / "passes.json"
    passes.write_bytes(subprocess.run(timing, capture_output=True, check=True).stdout)
    answer = specroof.measure(gguf, CPU, results=passes)
    assert [row["rows"] for row in answer.records] == [*STEPS]
    script_answer = specroof.measure(gguf, CPU, script=True)
    assert script_answer.to_dict()["case"]["script"] == script.read_text(encoding="utf-8")
    assert "time_passes.py" in repr(script_answer)


class Clock:
    """Seconds of which each pass takes what the machine above takes."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def run(self, tokens: int) -> None:
        self.now += STEPS.get(tokens, 1000) / 1e3


def fake_torch(clock: Clock, device: str) -> dict[str, Any]:
    """Modules of transformers, whose passes move the clock and whose cache is a length."""

    class Cache:
        def crop(self, depth: int) -> None:
            assert depth in {1, 64}

    def passed(words: int, *, past_key_values: Cache, use_cache: bool) -> MagicMock:
        assert use_cache
        assert isinstance(past_key_values, Cache)
        clock.run(words)
        return MagicMock()

    network = Mock(side_effect=passed)
    network.to, network.eval = {device: network}.__getitem__, lambda: network
    torch: Any = ModuleType("torch")
    torch.cuda = SimpleNamespace(is_available=lambda: device == "cuda")
    torch.backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: device == "mps"))
    torch.inference_mode = nullcontext
    torch.full = lambda shape, _, **on: shape[1] if on == {"device": device} else None
    transformers: Any = ModuleType("transformers")
    transformers.DynamicCache = Cache
    transformers.AutoModelForCausalLM = SimpleNamespace(
        from_pretrained=lambda _, dtype: network if dtype == "auto" else None
    )
    return {"torch": torch, "transformers": transformers}


def fake_mlx(clock: Clock) -> dict[str, Any]:
    """Modules of mlx-lm, whose passes move the clock."""
    core: Any = ModuleType("mlx.core")
    core.int32, core.eval = "int32", lambda _: None
    core.full = lambda shape, _, dtype: shape[1] if dtype == "int32" else None
    mlx: Any = ModuleType("mlx")
    mlx.core = core
    library: Any = ModuleType("mlx_lm")
    library.load = lambda _: (
        (lambda words, cache: clock.run(words) if cache == [] else 1 / 0),
        None,
    )
    models: Any = ModuleType("mlx_lm.models")
    models.cache = SimpleNamespace(
        make_prompt_cache=lambda _: [], trim_prompt_cache=lambda *_: None
    )
    library.models = models
    return {"mlx": mlx, "mlx.core": core, "mlx_lm": library, "mlx_lm.models": models}


@pytest.mark.parametrize(
    ("library", "chip", "rules", "device"),
    [
        *(("transformers", CPU, "vllm", device) for device in ("cpu", "cuda", "mps")),
        ("mlx-lm", "m4-max", "mlx", "mps"),
    ],
)
def test_libraries_are_timed_pass_by_pass(
    library: str, chip: str, rules: str, device: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    clock = Clock()
    for name, module in (fake_torch(clock, device) | fake_mlx(clock)).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(time_passes, "CLOCK", clock)
    time_passes.main(["Qwen/Qwen3-0.6B", f"--tool={library}", "--context=0,64", "--seconds=8"])
    printed = capsys.readouterr().out
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [(line["context_len"], line["positions"]) for line in lines] == [
        (depth, rows) for depth in (1, 64) for rows in STEPS
    ]
    assert all(line["pass_s"] == pytest.approx(STEPS[line["positions"]] / 1e3) for line in lines)
    passes = tmp_path / "passes.json"
    passes.write_text(printed, encoding="utf-8")
    answer = specroof.measure("Qwen/Qwen3-0.6B", chip, results=passes)
    assert isinstance(answer, Measured)
    assert answer.calibrated.calibration.engine.rules == rules
    for row in answer.records:
        assert row["after_s"] == pytest.approx(row["measured_s"], rel=0.02)


def test_a_library_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SystemExit, match=r"^transformers: .*torch"):
        time_passes.main(["model", "--tool=transformers"])


def test_the_script_runs_as_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["time_passes.py", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(timed_here.SCRIPT), run_name="__main__")
    assert end.value.code == 0


# --- Tools that are not there, fail, or do not end -----------------------------------------------


@pytest.mark.parametrize(("name", "code", "says"), rows("refusals", "failing_tools"))
def test_a_tool_that_fails_is_one_line_here_and_in_the_script(
    tmp_path: Path, gguf: Path, name: str, code: str, says: str
) -> None:
    bench = tool(tmp_path, code, name)
    line = refusal(MeasurementError, specroof.measure, gguf, CPU, tool=str(bench), seconds=1)
    assert re.search(says, line)
    with pytest.raises(SystemExit, match=says):
        time_passes.main([str(gguf), f"--tool={bench}", "--seconds=1"])


def test_a_tool_or_a_file_that_is_not_there_is_one_line(tmp_path: Path, gguf: Path) -> None:
    with pytest.raises(MeasurementError, match=r"no-bench: not found on PATH.*--script"):
        specroof.measure(gguf, CPU, tool="no-bench")
    bench = tool(tmp_path, FAKE)
    with pytest.raises(MeasurementError, match=r"absent.gguf: is no file; llama-bench reads"):
        timed_here.timed_here("absent.gguf", str(bench), "", [0], 1.0)
    with pytest.raises(SystemExit, match=r"^no-bench: not found on PATH$"):
        time_passes.main(["model.gguf", "--tool=no-bench"])
    with pytest.raises(SystemExit, match=r"absent.gguf: is no file"):
        time_passes.main(["absent.gguf", f"--tool={bench}"])


def test_what_is_wrong_at_once_is_said_before_a_tool_runs(
    tmp_path: Path, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = tool(tmp_path, FAKE)
    asked: dict[str, Any] = {"model": gguf, "hardware": CPU, "tool": str(bench)}
    for name, value in rows("refusals", "wrong_measurements"):
        assert refusal(SpecroofError, specroof.measure, **asked | {name: value})
    for place in (tmp_path / "nowhere" / "mine.yaml", tmp_path):
        refused("measure", gguf, f"-H {CPU} --tool", bench, "-o", place)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(MeasurementError, match="scipy"):
        specroof.measure(**asked)
    assert not Path(f"{bench}.calls").exists()


#: In the place of a number that a tool prints: none, and none that JSON should have.
NUMBERS = ["0", "-1", "1e-320", "NaN", "1e999", "9" * 400, "null", '"x"', "[" * 90000, "{}"]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:8])
@pytest.mark.parametrize(("name", "test"), rows("refusals", "printed_by_tools"))
def test_whatever_a_tool_prints_its_name_stands_in_one_line(
    tmp_path: Path, gguf: Path, monkeypatch: pytest.MonkeyPatch, name: str, test: str, number: str
) -> None:
    printed = test % number
    monkeypatch.setattr(time_passes, "tool_output", lambda _: printed)
    if "samples_ns" in test:
        monkeypatch.setattr("specroof.questions.measure.timed_here", lambda *_: printed)
        line = refusal(MeasurementError, specroof.measure, gguf, CPU, tool=name)
        assert line.startswith(name)
        return
    words = [str(gguf), f"--tool={tool(tmp_path, FAKE, name)}", "--seconds=1"]
    with pytest.raises(SystemExit, match=rf"{name}: (printed|a pass took)"):
        time_passes.main(words)


@pytest.fixture
def sleeper(tmp_path: Path) -> Path:
    return tool(
        tmp_path,
        "import os, time\nopen(__file__ + '.pid', 'w').write(str(os.getpid()))\ntime.sleep(600)",
    )


def wait_for_end(bench: Path) -> None:
    """Wait until the tool has gone: the kernel takes a moment."""
    with suppress(FileNotFoundError, ProcessLookupError):  # it had not begun, or has gone
        for _ in range(200):
            pid = int(Path(f"{bench}.pid").read_text())
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().split()[2] == "Z":
                return
            time.sleep(0.05)
        pytest.fail("the tool runs on")


def test_a_tool_that_does_not_end_is_ended(
    gguf: Path, sleeper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_here, "_PATIENCE_S", 0.0)
    with pytest.raises(MeasurementError, match=r"did not end in 2 s$"):
        specroof.measure(gguf, CPU, tool=str(sleeper), seconds=1)
    wait_for_end(sleeper)


def test_an_interrupt_ends_the_tool(
    gguf: Path, sleeper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = subprocess.Popen.communicate
    begun = []

    def interrupted(self: Any, *words: Any, timeout: float | None = None) -> Any:
        if timeout is None:
            return whole(self, *words)
        begun.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        specroof.measure(gguf, CPU, tool=str(sleeper), seconds=1)
    assert begun[0].returncode is not None
    wait_for_end(sleeper)


# --- Kernels of few rows, beside those that an engine has ----------------------------------------


def passes_of(
    model: specroof.Architecture, setup: Setup, counts: Iterable[int], off: float = 1.0
) -> str:
    """What `llama-bench` prints of passes that take so many times what is predicted."""
    said = {"n_gen": 0, "n_depth": 512}
    taken_s = {count: off * pass_s(model, setup, count, 512) for count in counts}
    return json.dumps(
        [said | {"n_prompt": count, "avg_ns": 1e9 * each_s} for count, each_s in taken_s.items()]
    )


def shares_of_4_bits(setup: Setup, count: int) -> dict[str, float]:
    """Shares of the kernels that take weights of 4.5 bits, by what they are of."""
    return {
        work: next(
            kernel.compute_frac
            for kernel in setup.engine.row_kernels.values()
            if kernel.of == work and count <= (kernel.rows or count) and (kernel.bits or 64) >= 4.5
        )
        for work in ("dense", "experts")
    }


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B"])
def test_kernels_of_a_format_get_steps_and_others_keep_theirs(name: str) -> None:
    options, slower = Options(weight_dtype="q8_0"), {1: 1.0, 2: 6.0, 4: 3.0, 8: 9.0, 12: 4.0}
    chip, model = load_hardware("strix-halo"), load_model(name)
    setup = engine_setup(chip, "llama.cpp", None, options)
    # A machine whose kernels take so many times the arithmetic by rows.
    kernels = {
        f"{label}-{count}": replace(kernel, rows=count, compute_frac=kernel.compute_frac / times)
        for count, times in slower.items()
        for label, kernel in setup.engine.row_kernels.items()
        if count <= (kernel.rows or count)
    }
    engine = replace(setup.engine, row_kernels={**kernels, **setup.engine.row_kernels})
    bench = passes_of(model, replace(setup, engine=engine), slower)
    answer = specroof.calibrate({"bench.json": bench}, name, "strix-halo", options=options)
    mine, base = answer.hardware, chip.engine("llama.cpp")
    for residual in answer.calibration.residuals:
        assert abs(residual.off) < 5e-3
    assert answer.calibration.base == base.name
    steps = [one for one in answer.calibration.fitted if one.name.startswith("row_kernels.")]
    assert {one.name.rpartition("-")[2] for one in steps} >= set(map(str, slower))
    assert all(
        one.error is None and one.value < one.before for one in steps if "-8" in one.name[-2:]
    )
    # A model of four-bit weights computes in the kernels that the profile has, but for its 8 bits.
    narrow = Options(weight_dtype="q4_0")
    for width in (4, 16):
        few, own = (
            shares_of_4_bits(engine_setup(hardware, label, None, narrow), width)
            for hardware, label in ((chip, base.name), (mine, None))
        )
        assert few == own


def test_what_is_no_arithmetic_takes_a_share_of_its_time_within_bounds() -> None:
    figures: Any = {"memory_frac": 0.4, "pass_overhead_s": 2.0, "layer_overhead_s": 4.0}
    kinds: Any = {"kind_memory_frac": {"attention": 0.9}, "layer_kind_overhead_s": {"experts": 6.0}}
    less = row_steps._with_less_else(real_engine(**figures, **kinds), 0.5)
    assert (less.memory_frac, less.pass_overhead_s, less.layer_overhead_s) == (0.8, 1.0, 2.0)
    assert less.layer_kind_overhead_s == {"experts": 3.0}
    assert less.kind_memory_frac == {"attention": 1.2}  # the most that files may say


def test_a_smooth_machine_gets_no_steps() -> None:
    chip, model = load_hardware("rtx-4090"), load_model("Qwen/Qwen3-8B")
    options = Options(weight_dtype="q4_0")
    setup = engine_setup(chip, "llama.cpp", None, options)
    bench = passes_of(model, setup, (1, 2, 4, 8, 16), off=1.02)
    answer = specroof.calibrate({"b.json": bench}, model, chip, options=options)
    assert "row_kernels" in dict(answer.calibration.kept)
    assert answer.calibration.engine.row_kernels == setup.engine.row_kernels


# --- Draft models that keep what they drafted ----------------------------------------------------


def test_a_draft_model_reads_two_tokens_where_all_drafts_were_accepted() -> None:
    """A pass of one row takes 1 s, of two rows 5 s, and of more is not asked for."""
    seconds, seen = {1.0: 1.0, 2.0: 5.0}, []

    def pass_seconds(_: Any, forward: ForwardPass, *__: Any) -> Any:
        seen.append((float(forward.query_len), np.asarray(forward.context_len).item()))
        return np.asarray(seconds[float(forward.query_len)])

    drafter = load_drafter("model,config=Qwen/Qwen3-0.6B,accept=0.9")
    asked = a_round(
        load_model("Qwen/Qwen3-8B"), pass_seconds, draft_len=[3], context_len=[100],
        tokens_per_round=[3], all_accepted=np.array([0.25]),
    )  # fmt: skip
    assert drafter.draft(asked).serial_s == pytest.approx(1 + 0.25 * 4 + 2)  # two more drafts
    assert seen == [(1, 100), (2, 99), (1, 101.5)]  # behind those, the mean of later ones


def test_mlx_keeps_drafts_in_the_cache_of_a_draft_model_and_llama_cpp_does_not() -> None:
    model, head = load_model("Qwen/Qwen3-8B"), load_model("Qwen/Qwen3-0.6B")
    accepted = chain_proposals(constant_acceptance(0.9), np.arange(4)).all_accepted
    assert accepted == pytest.approx([0, 0.9, 0.9**2, 0.9**3])
    spec = "model,config=Qwen/Qwen3-0.6B,accept=0.9"
    for engine in ("mlx", "llama.cpp"):
        (curve,) = specroof.predict(
            model, "m4-max", drafters=spec, engine=engine, context_len=100, max_draft_len=1
        ).curves
        setup = engine_setup(load_hardware("m4-max"), engine, None, None)
        passes = {
            rows: float(
                model_latency(head, setup, ForwardPass(1, rows, 101 - rows, head_len=1)).total_s
            )
            for rows in (1, 2)
        }
        # One draft: a pass of one token, and of a further one where the last draft was accepted; or
        # one, and two that were verified.
        both_s = passes[1] + passes[2]
        assert (float(curve.draft_s[0, 0, 1]) >= both_s) == (engine == "llama.cpp")


def test_a_draft_model_that_forgets_reads_all_that_was_verified() -> None:
    # A pass of one row takes 1 s, of four 7 s: three drafts, and one and three drafts verified.
    seconds, seen = {1.0: 1.0, 4.0: 7.0}, []

    def pass_seconds(_: Any, forward: ForwardPass, *__: Any) -> Any:
        rows = np.asarray(forward.query_len).item()
        seen.append((rows, np.asarray(forward.context_len).item()))
        return np.asarray(seconds[rows])

    asked = a_round(
        load_model("Qwen/Qwen3-8B"), pass_seconds, draft_len=[3], context_len=[100],
        tokens_per_round=[3], reads_verified=True,
    )  # fmt: skip
    drafter = load_drafter("model,config=Qwen/Qwen3-0.6B,accept=0.9")
    assert drafter.draft(asked).serial_s.item() == 3 + 7
    assert seen == [(1, 100), (4, 100), (1, 101.5)]
