"""Calibration: a profile is recovered from what it predicts, and never made up."""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import specroof
from benchmark_points import CHIP, DRAFTER, MODEL, TRUE, calibrate, points, served
from commands import answered, run
from specroof import (
    Architecture,
    ForwardPass,
    MeasurementError,
    Options,
    Placement,
    forward_latency,
    load_drafter,
    load_hardware,
    load_model,
    speedup_curve,
)
from specroof.drafters import Drafter
from specroof.engines import (
    Calibration,
    Residual,
    calibrated_yaml,
    ideal_rates,
    predicted_tokens_per_s,
)
from specroof.engines.calibration import (
    PARAMETERS,
    Problem,
    ProfileParameter,
    coordinate,
    estimate,
    noise_of,
    own_cases,
    prior_width,
    uncertainty,
)
from specroof.engines.record import Record
from specroof.evidence import Measurement, read_benchmark, refuse_other_kinds
from specroof.hardware.engine import Band, EngineProfile, ExpertKernel, ExpertTile, SparseKernel
from specroof.hardware.profile import HardwareProfile
from specroof.hardware.schema import parse_hardware
from specroof.questions.benchmark import engine_of_results, refuse_others
from specroof.questions.calibrate import calibration_json, calibration_text, residual_fields
from specroof.questions.validate import own_text
from tables import reads, rows
from tables import refusal as of_call

#: Figures of the engine that benchmark points are of, as a fit to plain points names them.
TRUE_VALUES = {
    "pass_overhead_s": 1.2e-3, "sequence_overhead_s": 40e-6, "memory_frac": 0.8, "compute_frac": 0.6
}  # fmt: skip


def values(found: Calibration) -> dict[str, float]:
    return {one.name: one.value for one in found.fitted}


def stated(bench: Sequence[Measurement], **facts: Any) -> list[Measurement]:
    return [replace(one, **facts) for one in bench]


@pytest.fixture(scope="module")
def three() -> Calibration:
    """What three plain points without any further figure in them tell."""
    bare = EngineProfile(name="bare", pass_overhead_s=1e-3, sequence_overhead_s=50e-6)
    return calibrate(points((1, 8, 64), (2048,), engine=bare), MODEL, CHIP)


def test_three_points_determine_the_overheads_and_keep_the_rest(three: Calibration) -> None:
    assert values(three) == pytest.approx(
        {"pass_overhead_s": 1e-3, "sequence_overhead_s": 50e-6}, rel=0.01
    )
    assert three.engine.memory_frac == 1
    reasons = dict(three.kept)
    assert reasons["memory_frac"] == "needs 4 points, has 3"
    assert reasons["round_overhead_s"] == "no point has drafts"
    assert three.mean_error < 0.001
    assert three.base == "ideal"


def test_bands_are_no_narrower_than_what_is_left_of_the_points() -> None:
    band = Band(width=0.1, mean_error=0.05, points=200)
    known = replace(TRUE, name="known", bands={"other": band, "eagle3": replace(band, width=9.0)})
    chip = replace(CHIP, engines={"known": known})
    exact = points((1, 4, 16, 64), (2048,)) + points((2, 8, 32), (8192,))
    # A third of the points are slower by a factor that no figure of an engine explains.
    odd = [
        replace(one, tokens_per_s=one.rate / (1.6 if number % 3 == 1 else 1.0))
        for number, one in enumerate(exact)
    ]
    found, close = (calibrate(given, MODEL, chip, engine="known") for given in (odd, exact))
    assert close.engine.bands == known.bands  # its own points are within the bands
    off = sorted(abs(math.log(one.predicted / one.point.rate)) for one in found.residuals)
    # 0.8 of the way along seven points: between the fifth and the sixth.
    own = found.engine.bands["other"]
    assert own.width == pytest.approx(off[4] + 0.8 * (off[5] - off[4]))
    assert own.width > 0.1
    assert own.points == 7
    assert own.mean_error == pytest.approx(found.mean_error)
    assert found.engine.bands["eagle3"] == known.bands["eagle3"]


def test_what_the_profile_knows_is_where_a_fit_starts() -> None:
    engine = replace(
        TRUE,
        kind_memory_frac={"attention": 0.7},
        kind_compute_frac={"attention": 0.3},
        draft_pass_overhead_s=2e-4,
    )
    chip = replace(CHIP, engines={"true": engine})
    found = calibrate(points(engine=engine), MODEL, chip, engine="true")
    assert values(found) == pytest.approx(TRUE_VALUES, rel=0.01)
    assert {one.name: one.before for one in found.fitted} == TRUE_VALUES
    assert found.engine.kind_memory_frac == {"attention": 0.7}


@pytest.mark.slow
@pytest.mark.long
def test_a_share_without_a_slope_at_the_profile_is_found() -> None:
    # Every point is bound by memory for an engine that computes at all of its peak, or at 0.7.
    slow = replace(TRUE, compute_frac={"bf16": 0.2}, memory_frac=0.7)
    grid = points((1, 4, 16, 64), (512, 4096), (0, 3), engine=slow)
    found = calibrate(grid, MODEL, CHIP, drafter=DRAFTER)
    assert values(found)["compute_frac"] == pytest.approx(0.2, rel=0.02)
    assert values(found)["memory_frac"] == pytest.approx(0.7, rel=0.02)
    assert found.mean_error < 0.002


def test_a_figure_that_points_say_little_of_is_marked() -> None:
    chip = replace(CHIP, engines={"true": TRUE})
    found = calibrate(points((1, 8, 64), (512, 8192)), MODEL, chip, engine="true")
    fitted = {one.name: one for one in found.fitted}
    # 64 rows at 0.6 of the peak take a third of the time in which their weights are read at 0.8 of
    # the bandwidth (281 FLOP/B): below a share of 0.18 they would bind, and say so.
    compute = fitted["compute_frac"]
    assert compute.is_prior
    assert not fitted["pass_overhead_s"].is_prior
    assert compute.value == pytest.approx(0.6, rel=0.05)
    assert compute.error is not None
    # Its spread is that of the prior, 0.45 of the value; 80 % are within 1.28 times as much.
    assert compute.error == pytest.approx(1.28 * 0.45 * 0.6, rel=0.2)
    (told,) = (one for one in calibration_json(found)["fitted"] if one["name"] == "compute_frac")
    assert told["is_prior"]


def test_other_optima_are_within_what_is_stated() -> None:
    engine = replace(TRUE, memory_frac=0.8)
    problem = Problem(points((1, 8, 64), (512, 8192), engine=engine), served(CHIP), None)
    names = ("pass_overhead_s", "memory_frac")
    chosen = [coordinate(one, problem.base) for one in PARAMETERS if one.name in names]
    (best, *_) = estimate(problem, chosen, noise=0.03)
    how: dict[str, Any] = {"noise": 0.03, "width": 1.0}
    near = replace(best, x=best.x + 3.0, misfit=best.misfit + 0.5)
    far = replace(near, misfit=best.misfit + 5.0)  # which a likelihood 150 times lower refutes
    alone, _ = uncertainty(problem, chosen, [], [best], **how)
    apart, _ = uncertainty(problem, chosen, [], [best, near], **how)
    refuted, _ = uncertainty(problem, chosen, [], [best, far], **how)
    for number, one in enumerate(chosen):
        away = abs(one.value(near.x[number]) - one.value(best.x[number]))
        assert apart[number] == pytest.approx(max(away, alone[number]))
    assert refuted.tolist() == alone.tolist()
    assert (apart > alone).any()


def test_every_share_of_a_peak_moves_with_the_one_that_is_fitted() -> None:
    engine = EngineProfile(
        name="e",
        compute_frac={"bf16": 0.8, "fp8": 0.4},
        kind_compute_frac={"experts": 0.1},
        prefill_compute_frac={"attention": 0.9},
        expert_tile=ExpertTile(rows=16.0, compute_frac=0.5),
        prefill_expert_tiles={"fp8": ExpertTile(rows=8.0, compute_frac=0.4, few_frac=0.1)},
        expert_kernels={
            "fp8": ExpertKernel(
                floor_s=1e-5, expert_s=1e-7, memory_frac=0.8, compute_frac=0.2, tokens=512
            )
        },
        sparse_kernels={"bf16": SparseKernel(head_tile=64, compute_frac=0.5)},
        memory_frac=0.8,
        kind_memory_frac={"attention": 0.4},
    )
    fitted = {one.name: one for one in PARAMETERS}
    # Half as much again, and no share above 1.2.
    found: Any = fitted["compute_frac"].apply(engine, 1.2)
    assert [found.compute_frac[dtype] for dtype in ("bf16", "fp8")] == pytest.approx([1.2, 0.6])
    assert found.compute_frac["int8"] == 1.2  # which was all of the peak
    assert found.kind_compute_frac["experts"] == pytest.approx(0.15)
    assert found.prefill_compute_frac["attention"] == 1.2
    assert (found.expert_tile.rows, found.expert_tile.compute_frac) == pytest.approx((16, 0.75))
    tile = found.prefill_expert_tiles["fp8"]
    assert (tile.rows, tile.compute_frac, tile.few_frac) == pytest.approx((8, 0.6, 0.15))
    kernel = found.expert_kernels["fp8"]
    assert (kernel.memory_frac, kernel.compute_frac) == pytest.approx((0.8, 0.3))
    assert found.sparse_kernels["bf16"].compute_frac == pytest.approx(0.75)
    slower = fitted["memory_frac"].apply(engine, 0.4)
    assert slower.expert_kernels["fp8"].memory_frac == pytest.approx(0.4)
    assert (slower.memory_frac, slower.kind_memory_frac) == (0.4, {"attention": 0.2})


def test_kernels_of_a_prompt_keep_their_distance_from_matmuls() -> None:
    engine = replace(TRUE, prefill_compute_frac={"attention": 0.5})
    bench = [*points(engine=engine), *points(engine=engine, prefills=True)]
    faster = replace(engine, compute_frac={"bf16": 0.75}, prefill_compute_frac={"attention": 0.625})
    chip = replace(CHIP, engines={"true": faster})
    found = calibrate(bench, MODEL, chip, engine="true")
    assert found.engine.compute_frac["bf16"] == pytest.approx(0.6, rel=0.01)
    assert found.engine.prefill_compute_frac["attention"] == pytest.approx(0.5, rel=0.01)
    assert found.mean_error < 0.001


def test_a_steady_state_with_prefills_is_predicted_with_them() -> None:
    point = Measurement(
        place="here", batch_size=4, context_len=4050, tokens_per_s=1.0, input_len=4000,
        output_len=100, includes_prefill=True,
    )  # fmt: skip
    step = forward_latency(MODEL, CHIP, ForwardPass(4, 1, 4050), engine="ideal").total_s
    # One of four answers of 99 steps ends in a step: of the steps in which any ends, more than one
    # in 1.5 %, whose prompts pass together.
    together = 4 / 99 / (1 - (98 / 99) ** 4)
    prompts = ForwardPass(together, 4000, 0, head_len=1, settled=True)
    prefills = forward_latency(MODEL, CHIP, prompts, engine="ideal").total_s
    # Four answers of 100 tokens: the prefill gives the first, and four of them hold all up.
    seconds = 99 * float(step) + 4 / together * float(prefills)
    record = Record(own_cases([point], served(CHIP, "ideal"), None))
    assert record.rates().measured == pytest.approx(400 / seconds)


# --- timed passes ------------------------------------------------------------------------------


def timed(engine: EngineProfile, positions: Sequence[int] = (1, 4, 8)) -> str:
    """Return a table of the seconds of passes alone: no time for each sequence around them."""
    alone = replace(engine, sequence_overhead_s=0.0)
    chip = replace(CHIP, engines={alone.name: alone})
    lines = ["batch_size,positions,context_len,pass_s"]
    for batch, width, context in product((1, 8, 64), positions, (512, 8192)):
        forward = ForwardPass(batch, width, context)
        seconds = float(forward_latency(MODEL, chip, forward, engine=alone.name).total_s)
        lines.append(f"{batch},{width},{context},{seconds!r}")
    return "\n".join(lines)


def test_timed_passes_determine_an_engine() -> None:
    slow = replace(TRUE, compute_frac={"bf16": 0.2}, round_overhead_s=0.0)
    found = calibrate(read_benchmark(timed(slow), source="passes.csv"), MODEL, CHIP)
    expected = {"pass_overhead_s": 1.2e-3, "memory_frac": 0.8, "compute_frac": 0.2}
    assert values(found) == pytest.approx(expected, rel=0.02)
    reasons = dict(found.kept)
    assert reasons["sequence_overhead_s"] == "the points hardly depend on it"
    one = residual_fields(found.residuals[2])
    assert (one["positions"], one["draft_len"]) == (4, 0)
    assert one["predicted"] == pytest.approx(one["measured"], rel=0.01)
    assert one["measured"] < 1  # seconds


def test_a_slower_prediction_of_a_pass_is_off_upwards() -> None:
    one = Measurement(place="p", method="step", batch_size=8, verify_len=2, tokens_per_s=800.0)
    assert one.pass_s == pytest.approx(0.01)
    residual = Residual(one, 400.0)  # sequences per second: twice as long
    assert residual.shown == pytest.approx(0.02)
    assert residual.off == pytest.approx(1.0)


# --- what is refused ---------------------------------------------------------------------------


def test_a_bandwidth_that_is_too_low_is_named_as_the_cause() -> None:
    peak = CHIP.peak
    weak = replace(CHIP, peak=replace(peak, memory_bytes_per_s=0.55 * peak.memory_bytes_per_s))
    quick = EngineProfile(name="quick", memory_frac=0.95)
    with pytest.raises(MeasurementError) as caught:
        calibrate(points((1, 2, 4), (512,), engine=quick), MODEL, weak)
    line = str(caught.value)
    assert "bench.csv, line 0: " in line
    assert f"peak.memory_bytes_per_s of {CHIP.name}, {0.55 * peak.memory_bytes_per_s:.4g}" in line
    # A thousand times more than physics allows has another cause.
    bench = points((1, 2, 4), (512,))
    bench[0] = replace(bench[0], tokens_per_s=1000 * bench[0].rate)
    assert "memory_bytes_per_s" not in refusal(bench)


@pytest.mark.parametrize(("factor", "told"), [(1e-3, "is less than the "), (1e3, "more than 200 ")])
def test_a_pass_that_cannot_be_is_refused_in_seconds(factor: float, told: str) -> None:
    lines = timed(TRUE).splitlines()
    cells = lines[2].split(",")
    lines[2] = ",".join([*cells[:3], repr(factor * float(cells[3]))])
    line = refusal(read_benchmark("\n".join(lines), source="passes.csv"))
    assert line.startswith("passes.csv, line 3: pass_s ")
    assert told in line


def refusal(bench: Sequence[Measurement], **how: Any) -> str:
    return of_call(MeasurementError, calibrate, bench, MODEL, CHIP, **how)


@pytest.mark.parametrize(("model", "batches", "contexts"), rows("values", "telling_points"))
def test_points_that_tell_one_figure(
    model: str, batches: tuple[float, ...], contexts: tuple[int, ...]
) -> None:
    timed_model = load_model(model)
    found = calibrate(points(batches, contexts, model=timed_model), timed_model, CHIP)
    assert list(values(found)) == ["pass_overhead_s"]
    said = "the points cannot tell it from those before it"
    assert dict(found.kept)["sequence_overhead_s"] == said


DRAFTED = points(drafts=(3,))
#: Drafts whose acceptance nobody says.
UNKNOWN = stated(DRAFTED, tokens_per_round=None)


@pytest.mark.parametrize(
    ("bench", "how", "says"),
    [
        (points((1, 8), (512,)), {}, "…2 points …"),
        # Ten million cached tokens of a thousand sequences: some minutes a step.
        (points((1000, 1001, 1002), (10_000_000,)), {},
         "…3 points determine nothing (layer_overhead_s: seconds per pass hold it…"
         "pass_overhead_s: the points hardly depend on it; sequence…"),
        (stated(points(), tensor_parallel=4), {"placement": Placement(2)},
         "bench.csv, line 0: tensor parallelism is 4; --tp is 2"),
        (stated(points(), tensor_parallel=2, expert_parallel=2), {"placement": Placement(2)},
         "bench.csv, line 0: expert parallelism is 2; --ep is 1"),
        (DRAFTED, {}, "…3 drafts; needs --drafter…"),
        (UNKNOWN, {"drafter": DRAFTER}, "…no acceptance length; needs one…"),
        (UNKNOWN, {"drafter": load_drafter("eagle3,survival=.9/.7")}, "…are more than…"),
    ],
)  # fmt: skip
def test_points_that_tell_nothing_are_refused_with_their_place(
    bench: list[Measurement], how: dict[str, Any], says: str
) -> None:
    line = refusal(bench, **how)
    assert reads(line, says), line


def test_a_drafter_may_know_the_acceptance_that_points_lack() -> None:
    drafter = load_drafter("eagle3,accept-length=2.5@3")
    assert calibrate(UNKNOWN[::2], MODEL, CHIP, drafter=drafter).mean_error < 0.01


def test_another_model_is_refused(tmp_path: Path) -> None:
    named = stated(points((1, 2, 3), (64,)), model="org/Qwen3-4B")
    line = of_call(MeasurementError, refuse_others, named, "Qwen/Qwen3-8B")
    assert reads(line, "bench.csv, line 0: …'org/Qwen3-4B'; model is 'Qwen/Qwen3-8B'…")
    refuse_others(named, "mine/QWEN3-4b")
    refuse_others(named, str(tmp_path))  # a folder may be called anything


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert "pip install scipy" in refusal(points((1, 8, 64), (512,)))


# --- the file ----------------------------------------------------------------------------------


def test_the_file_is_whole_and_predicts_like_the_fit(three: Calibration) -> None:
    chip = load_hardware("b200")
    text = calibrated_yaml(chip, three.engine, name="mine", source="a test")
    read = parse_hardware(text, source="mine.yaml")
    assert read.default_engine == "mine"
    assert read.peak == chip.peak
    assert read.interconnect == chip.interconnect
    assert set(read.engines) == {*chip.engines, "mine"}
    for name, engine in chip.engines.items():
        assert read.engine(name) == engine
    assert read.sources["engines.mine"] == "a test"
    assert read.aliases == ()  # they find the profile that it was
    again = replace(read.engine("mine"), name=three.engine.name)
    assert again == three.engine
    curve = speedup_curve(
        MODEL, read, drafter=load_drafter("ideal"), batch_size=8, context_len=2048
    )
    assert float(curve.tokens_per_s[0, 0, 0]) == pytest.approx(three.residuals[1].predicted)


def test_a_calibrated_engine_keeps_the_rules_of_its_server(
    three: Calibration, tmp_path: Path
) -> None:
    started = replace(three.engine, name="sglang")  # from which the fit set out
    path = tmp_path / "mine.yaml"
    sources = {key: said for key, said in CHIP.sources.items() if not key.startswith("engines")}
    chip = replace(CHIP, sources=sources)
    path.write_text(calibrated_yaml(chip, started, name="mine", source="a test"))
    mine = load_hardware(path)
    assert mine.engine().framework == "sglang"
    assert mine.owns("sglang")
    assert not mine.owns("vllm")  # another tool than it was calibrated with
    assert not CHIP.owns("sglang")


def test_a_figure_without_a_spare_point_has_no_error() -> None:
    bare = EngineProfile(name="bare", pass_overhead_s=1e-3, sequence_overhead_s=50e-6)
    three = [
        *points((1, 64), (2048,), engine=bare),
        *points((8,), (2048,), (3,), engine=replace(bare, round_overhead_s=8e-4)),
    ]
    found = calibrate(three, MODEL, CHIP, drafter=DRAFTER)
    assert values(found)["round_overhead_s"] == pytest.approx(8e-4, rel=0.01)
    assert [one.error for one in found.fitted] == [None, None, None]
    assert " - " in calibration_text(found)


@pytest.mark.slow
@pytest.mark.long
def test_the_command_writes_a_file_that_predicts(tmp_path: Path) -> None:
    bench = tmp_path / "bench.csv"
    rows = [f"{one.batch_size},{one.context_len},0,{one.rate}" for one in points()]
    bench.write_text("batch_size,context_len,draft_len,tokens_per_s\n" + "\n".join(rows))
    mine = tmp_path / "mine.yaml"
    words = ["calibrate -H b200 --model Qwen/Qwen3-8B --engine ideal", bench]
    assert "mean error 0.0% over the points that were fitted" in run(*words, "-o", mine)
    written = load_hardware(mine)
    source = written.sources["engines.calibrated"]
    expected = f"{len(rows)} points of Qwen3-8B on 1 x {CHIP.name} in bench.csv (sha256 "
    assert expected in source
    assert scored(mine, tmp_path) == [("calibrated", 0.0, 0.0)]
    engine = written.engine()
    assert engine.name == "calibrated"
    assert engine.pass_overhead_s == pytest.approx(1.2e-3, rel=0.01)
    assert answered(*words)["case"]["base"] == "ideal"


#: Results that bundled profiles were calibrated to: CONTRIBUTING.md, "Add a calibrated profile".
CALIBRATED_TO = Path(__file__).parent / "data" / "calibrated"


def scored(profile: Path, folder: Path) -> list[tuple[str, float, float]]:
    """Return each calibrated engine of a file, its error as it says and as it is now, in percent.

    Its results are looked for in a folder, by the names and the checksums that the profile says.
    """
    found = []
    hardware = load_hardware(profile)
    for key, source in hardware.sources.items():
        told = re.match(r"specroof calibrate: \d+ points of (\S+) on (\d+) x ", source)
        said = re.search(r"mean error ([0-9.]+)%", source)
        if not (key.startswith("engines.") and told and said):
            continue
        results = re.findall(r"(\S+) \(sha256 (\w+)\)", source)
        for name, checksum in results:
            content = (folder / name).read_bytes()
            assert sha256(content).hexdigest().startswith(checksum), name
        (model,) = [name for name in specroof.model_names() if name.rpartition("/")[2] == told[1]]
        files, engine = [folder / name for name, _ in results], key.removeprefix("engines.")
        where: dict[str, Any] = {"tensor_parallel": int(told[2]), "engine": engine}
        total = specroof.validate(files, model, hardware, **where).to_dict()["case"]["total"]
        off = 100 * total["tokens_per_s_mean_error"]
        found.append((engine, float(said[1]), round(off, 1)))
    return found


def test_every_bundled_calibration_scores_as_it_says(hardware_folder: Path) -> None:
    profiles = [*hardware_folder.glob("*.yaml")]
    assert profiles
    calibrated = [one for profile in profiles for one in scored(profile, CALIBRATED_TO)]
    for name, said, now in calibrated:
        assert now == pytest.approx(said, abs=0.1), name
    # Results lie there for a profile.
    assert CALIBRATED_TO.exists() == bool(calibrated)


def test_timed_passes_are_no_plain_results_of_a_speedup(tmp_path: Path) -> None:
    passes = timed(TRUE, (1, 4)).splitlines()
    lines = [f"{passes[0]},draft_len,tokens_per_s,acceptance_length"]
    lines += [f"{line},,," for line in passes[1:]]
    lines.append("8,,512,,3,1000,2.5")  # as the pass of one position of that load, with drafts
    bench = tmp_path / "bench.csv"
    bench.write_text("\n".join(lines))
    found = specroof.validate(bench, "Qwen/Qwen3-8B", "b200", drafter="eagle3").to_dict()
    (source,) = found["case"]["sources"]
    assert source["n"] == len(lines) - 1
    assert source["speedup_mean_error"] is None
    bench.write_text("\n".join(passes))
    asked = ["Qwen/Qwen3-8B", "b200"]
    calibrated = specroof.calibrate(bench, *asked)
    (note,) = (note for note in calibrated.notes if "no result has drafts" in note)
    assert "verification" in note
    marked = [one.name for one in calibrated.calibration.fitted if one.is_prior]
    assert [warning.partition(":")[0] for warning in calibrated.warnings] == marked != []
    answer: Any = specroof.validate(bench, *asked)
    (line,) = (one for one in own_text(answer.found).splitlines() if f"{bench}, line 3 " in one)
    assert len(re.findall(r"[0-9] ms|[0-9] µs", line)) == 3  # measured, predicted and ideal


def test_a_calibration_says_where_its_results_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    told = stated(points((1, 8, 64), (512,)), engine="vllm", engine_version="0.19.0")
    told += stated(points((4,), (512,)), engine="vllm")
    monkeypatch.setattr("specroof.questions.benchmark.read_benchmark", lambda *_, **__: told)
    asked: dict[str, Any] = {"engine": "ideal", "server": "running=64", "tensor_parallel": 2}
    found = specroof.calibrate({"bench.csv": "any"}, "Qwen/Qwen3-8B", "b200", **asked)
    assert (
        "on 2 x NVIDIA B200 SXM, tensor_parallel=2, vllm 0.19.0, vllm of unknown release, "
        "running=64 in bench.csv (sha256 "
    ) in found.hardware.sources["engines.calibrated"]


# --- what results say of how they were served -----------------------------------------------------

FP8 = Options(weight_dtype="fp8", kv_dtype="fp8")


def refusal_of(
    bench: Sequence[Measurement],
    model: Architecture = MODEL,
    options: Options | None = None,
    placement: Placement | None = None,
    drafter: Drafter = DRAFTER,
) -> str | None:
    """Return the one line that refuses results; None where they pass."""
    try:
        ideal_rates(bench, served(CHIP, None, placement, options, model=model), drafter)
    except MeasurementError as problem:
        (line,) = str(problem).splitlines()
        return line
    return None


PLAIN = points((8,), (2048,))


@pytest.mark.parametrize(("name", "weights", "said", "passes"), rows("values", "stated_weights"))
def test_weights_are_priced_as_they_were_served(
    name: str, weights: str | None, said: str | None, passes: bool
) -> None:
    model, options = load_model(name), Options(weight_dtype=weights)
    ideal = served(CHIP, "ideal", None, options, model=model)
    (rate,) = predicted_tokens_per_s(PLAIN, ideal, None).tolist()
    bench = stated(PLAIN, quantization=said, tokens_per_s=rate / 2)
    line = refusal_of(bench, model, options)
    assert (line is None) == passes
    if line is not None:
        assert line.startswith(f"bench.csv, line 0: quantization is {said!r}, and {model.name} is")
        assert line.endswith("allowed: the same, by --weights or another --model")


@pytest.mark.parametrize(("key", "option", "is_of", "names"), rows("values", "widths_of_formats"))
def test_a_format_is_as_wide_as_its_name_says(
    key: str, option: str, is_of: str, names: str
) -> None:
    widths = ("int4", "int8") if option == "weight_dtype" else ("bf16", "fp8", "fp4")
    for said, width in product(names.split(), widths):
        choice: dict[str, Any] = {option: width}
        line = refusal_of(stated(PLAIN, **{key: said}), options=Options(**choice))
        assert (line is None) == (width == is_of), said


@pytest.mark.parametrize(("cache", "said", "passes"), rows("values", "stated_caches"))
def test_caches_are_priced_as_they_were_served(
    cache: str | None, said: str | None, passes: bool
) -> None:
    line = refusal_of(stated(PLAIN, kv_cache=said), options=Options(kv_dtype=cache))
    assert (line is None) == passes
    if line is not None:
        assert f"bench.csv, line 0: kv_cache_dtype is {said!r}, and Qwen3-8B is" in line
        assert "allowed: the same, by --kv-cache" in line


def test_a_point_may_beat_the_roofline_by_its_noise_and_miss_it_200_times() -> None:
    (rate,) = predicted_tokens_per_s(PLAIN, served(CHIP, "ideal"), None).tolist()
    for share in (1.09, 1 / 199):
        assert refusal_of(stated(PLAIN, tokens_per_s=share * rate)) is None
    assert "is more than the" in (refusal_of(stated(PLAIN, tokens_per_s=1.11 * rate)) or "")
    assert "200th" in (refusal_of(stated(PLAIN, tokens_per_s=rate / 201)) or "")


TREE = load_drafter("eagle3,tree=3/1/1,siblings=.1/.05")


def test_a_tree_is_no_chain() -> None:
    fast = points((8,), (2048,), (3,))
    chain, tree = stated(fast, top_k=1), stated(fast, top_k=4)
    passing = refusal_of(chain), refusal_of(tree, drafter=TREE), refusal_of(fast, drafter=TREE)
    assert passing == (None, None, None)
    assert refusal_of(tree) == (
        "bench.csv, line 0: speculative_eagle_topk is 4, a tree of drafts, and drafter 'eagle3' is "
        "a chain; allowed: a SPEC with tree="
    )
    assert refusal_of(stated(tree, method="NGRAM")) is None
    line = refusal_of(chain, drafter=TREE) or ""
    assert "speculative_eagle_topk is 1, a chain of drafts, and drafter 'eagle3,tree=" in line
    assert line.endswith("is a tree; allowed: a SPEC without tree=")


@pytest.mark.parametrize(("algorithm", "kinds"), rows("values", "algorithms_of_kinds"))
def test_what_drafted_is_what_is_priced(algorithm: str, kinds: list[str]) -> None:
    fast = stated(points((8,), (2048,), (3,)), method=algorithm)
    priced = sorted({*kinds, "ideal", "autoregressive", "block"})
    for kind in priced:
        refuse_other_kinds(fast, kind)
    where = f"bench.csv, line 0: speculative_algorithm is {algorithm!r}"
    for bench in (fast, stated(fast, draft_len=None)):
        line = of_call(MeasurementError, refuse_other_kinds, bench, "medusa")
        assert reads(line, f"{where}, …--drafter …'medusa'; allowed: {', '.join(priced)}"), line
    refuse_other_kinds(stated(fast, draft_len=0), "medusa")  # a plain run says nothing
    refuse_other_kinds(stated(fast, method="UNO"), "medusa")  # which nobody has listed


def test_siblings_add_nothing_to_what_was_measured() -> None:
    tree = load_drafter("eagle3,tree=3/1/1,siblings=.2/.1")
    chain = points((8,), (2048,), (3,))
    (branched,) = Problem(chain, served(CHIP), tree).predicted(TRUE)
    (plain,) = Problem(chain, served(CHIP), DRAFTER).predicted(TRUE)
    # The same 2.5 tokens a round, and more positions verified for them.
    assert branched < plain


def test_formats_that_are_asked_for_are_fitted_and_are_what_the_roofline_has() -> None:
    true = replace(CHIP, engines={"true": TRUE}, default_engine="true")
    bench = points()
    rates = predicted_tokens_per_s(bench, served(true, None, None, FP8), None).tolist()
    narrow = [replace(one, tokens_per_s=rate) for one, rate in zip(bench, rates, strict=True)]
    found = calibrate(narrow, MODEL, CHIP, options=FP8)
    assert found.engine.pass_overhead_s == pytest.approx(TRUE.pass_overhead_s, rel=0.01)
    assert found.mean_error < 0.001
    wide, thin = (
        ideal_rates(narrow, served(CHIP, None, None, options), None) for options in (None, FP8)
    )
    # Half of the bytes of every step, where memory decides: nearly twice as fast.
    assert 1.5 < thin[0] / wide[0] <= 2


# --- the engine, and what is to be known -------------------------------------------------------


def test_the_engine_is_that_of_the_tool() -> None:
    b200 = load_hardware("b200")
    theirs = stated(PLAIN, engine="vllm")
    assert engine_of_results(theirs, b200) == ("vllm", [])
    assert engine_of_results([*PLAIN, *theirs], b200) == ("vllm", [])
    assert engine_of_results(stated(PLAIN, engine="sglang"), b200) == ("sglang", [])
    assert engine_of_results(PLAIN, b200) == (None, [])  # a table names no tool
    unnamed = replace(b200, default_engine=None)
    assert engine_of_results(theirs, unnamed) == ("vllm", [])
    # An engine of one's own stays the default; a tool without one is said.
    mine = {**b200.engines, "mine": b200.engines["sglang"]}
    own = replace(b200, engines=mine, default_engine="mine")
    assert engine_of_results(theirs, own) == (None, [])
    bare = replace(b200, engines={"sglang": b200.engines["sglang"]}, default_engine="sglang")
    (engine, (note,)) = engine_of_results(theirs, bare)
    assert engine is None
    assert "no engine vllm" in note


# --- what noise does to a calibration -------------------------------------------------------------

B200 = load_hardware("b200")
FITTED = B200.engine("sglang")
MIXTURE = load_model("Qwen/Qwen3-30B-A3B")

#: A machine that is as far from the bundled profile as machines are from one another.
FASTER = replace(
    FITTED,
    layer_overhead_s=0.8 * FITTED.layer_overhead_s,
    sequence_overhead_s=0.7 * FITTED.sequence_overhead_s,
    round_overhead_s=0.7 * FITTED.round_overhead_s,
    memory_frac=1.03 * FITTED.memory_frac,
    kind_memory_frac={kind: 1.03 * share for kind, share in FITTED.kind_memory_frac.items()},
)

PLAIN_12: dict[str, Any] = {"batches": (1, 4, 16, 64), "contexts": (512, 4096, 16384)}
BOTH_16: dict[str, Any] = {"batches": (1, 4, 16, 64), "contexts": (512, 4096), "drafts": (0, 3)}
THREE: dict[str, Any] = {"batches": (1, 8, 64), "contexts": (2048,)}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "chip", "engine", "grid", "draws", "mean", "share", "most"),
    [
        # Where the profile holds, noise hardly moves any prediction.
        (MODEL, B200, FITTED, BOTH_16, 2, 0.01, 1, 0.05),
        (MIXTURE, B200, FITTED, PLAIN_12, 2, 0.01, 1, 0.05),
        # On another machine it seldom moves more: four to six figures from so many points.
        (MODEL, B200, FASTER, BOTH_16, 2, 0.02, 0.95, 0.05),
        # Three noisy points can hardly show that the machine is not that of the profile, which is
        # 10% off here: what they leave is no worse than their noise.
        (MODEL, B200, FASTER, THREE, 20, 0.05, 0.95, 0.1),
        # A chip without a profile has nothing to hold a fit.
        (MODEL, CHIP, TRUE, PLAIN_12, 5, 0.025, 0.95, 0.06),
    ],
)
def test_noise_of_five_percent_moves_predictions_by_less(
    model: Architecture, chip: HardwareProfile, engine: EngineProfile, grid: dict[str, Any],
    draws: int, mean: float, share: float, most: float,
) -> None:  # fmt: skip
    clean = points(**grid, engine=engine, model=model)
    rates, off = np.array([one.rate for one in clean]), []
    for seed in range(draws):
        factors = np.exp(np.random.default_rng(seed).normal(0, 0.05, len(clean)))
        noisy = [
            replace(one, tokens_per_s=float(rate))
            for one, rate in zip(clean, rates * factors, strict=True)
        ]
        found = calibrate(noisy, model, chip, drafter=DRAFTER)
        off.append(np.abs([one.predicted for one in found.residuals] / rates - 1))
    assert np.mean(off) <= mean
    assert np.quantile(off, share) <= most


# --- without noise -------------------------------------------------------------------------------

GRID_12: dict[str, Any] = {"batches": (1, 64), "contexts": (512, 8192), "drafts": (0, 3, 7)}
ELSEWHERE: dict[str, Any] = {"batches": (2, 32), "contexts": (2048,), "drafts": (0, 5)}
OVERHEADS = (
    "round_overhead_s",
    "round_sequence_overhead_s",
    "draft_pass_overhead_s",
    "request_overhead_s",
)
#: Two overheads are unknown before, and two are two and a half times what they are in the profile.
KNOWN = replace(FITTED, round_overhead_s=0.0, request_overhead_s=0.0)
MORE: dict[str, Any] = {name: 2.5 * getattr(KNOWN, name) for name in OVERHEADS[1:3]}
OTHER = replace(FITTED, round_overhead_s=2e-3, request_overhead_s=0.02, **MORE)


@pytest.mark.slow
@pytest.mark.long
def test_the_overheads_of_a_round_and_request_are_recovered_together() -> None:
    bench = points(**GRID_12, engine=OTHER, prefills=True)
    found = calibrate(bench, MODEL, replace(B200, engines={"sglang": KNOWN}), drafter=DRAFTER)
    for name in OVERHEADS:
        assert values(found)[name] == pytest.approx(getattr(OTHER, name), rel=0.05), name
    assert max(abs(one.off) for one in found.residuals) <= 0.01
    others = points(**ELSEWHERE, engine=OTHER, prefills=True)
    there = served(replace(B200, engines={"sglang": found.engine}), "sglang")
    expected = [one.rate for one in others]
    assert predicted_tokens_per_s(others, there, DRAFTER) == pytest.approx(expected, rel=0.01)


@pytest.mark.slow
def test_one_wild_point_moves_the_others_little() -> None:
    bench = points(**PLAIN_12, engine=FASTER)
    wild = [replace(bench[0], tokens_per_s=bench[0].rate / 3), *bench[1:]]
    predicted = [one.predicted for one in calibrate(wild, MODEL, B200).residuals]
    assert predicted == pytest.approx([one.rate for one in bench], rel=0.1)


# --- the pieces ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", [FITTED, TRUE, EngineProfile(name="ideal")])
@pytest.mark.parametrize("parameter", PARAMETERS, ids=[one.name for one in PARAMETERS])
def test_a_coordinate_goes_through_the_profile(
    parameter: ProfileParameter, engine: EngineProfile
) -> None:
    one = coordinate(parameter, engine)
    least, most = one.bounds
    assert least <= one.first <= most
    start = one.parameter.start(engine)
    if parameter.is_share:  # of a peak, which boost clocks pass by a little
        assert [one.value(least), one.value(most)] == pytest.approx([0.05, 1.2])
    elif start:
        assert [one.value(least), one.value(most)] == pytest.approx([start / 1e4, start * 1e4])
    else:
        assert (least, most) == (0, np.inf)
    if one.is_known:
        assert one.value(0) == start > 0
        assert one.value(1) / start == pytest.approx(np.exp(one.parameter.spread))
    elif not one.parameter.is_share:
        assert start == one.value(0) == 0
        assert one.value(one.first) == pytest.approx(one.parameter.typical)
    for x in (0.3, 1.7):
        rise = (one.value(x + 1e-6) - one.value(x - 1e-6)) / 2e-6
        assert one.slope(x) == pytest.approx(rise, rel=1e-4)


def problem(bench: Sequence[Measurement]) -> Problem:
    return Problem(bench, served(B200, "sglang"), DRAFTER)


#: Seconds per layer and per sequence.
TWO_OVERHEADS = [coordinate(parameter, FITTED) for parameter in PARAMETERS[:3:2]]


@pytest.mark.slow
def test_noise_is_learned_and_no_spare_point_says_nothing_of_it() -> None:
    clean = points((1, 8, 64), (2048,), engine=FASTER)
    assert noise_of(problem(clean), TWO_OVERHEADS) < 0.005
    assert noise_of(problem(clean[:2]), TWO_OVERHEADS) == 0.001
    zigzag = [
        replace(one, tokens_per_s=one.rate * (1.05 if n % 2 else 0.95))
        for n, one in enumerate(clean)
    ]
    assert noise_of(problem(zigzag), TWO_OVERHEADS) == 0.05


@pytest.mark.slow
def test_the_prior_is_wide_where_the_profile_does_not_hold() -> None:
    slower = replace(FITTED, layer_overhead_s=2 * FITTED.layer_overhead_s)
    for engine, width in ((FITTED, 0.05), (slower, 1)):
        bench = problem(points(**PLAIN_12, engine=engine))
        assert prior_width(bench, TWO_OVERHEADS, 0.05) == pytest.approx(width)
