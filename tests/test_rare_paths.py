"""What few calls reach: drafters elsewhere in a fit, charts with holes, places that refuse."""

import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from typer.testing import CliRunner

import specroof
from benchmark_points import MODEL
from commands import run
from fitting import shared_fit
from server_pages import Life, vllm_page
from specroof import (
    OptionError,
    constant_acceptance,
    context_acceptance,
    load_drafter,
    load_hardware,
    speedup_curve,
)
from specroof.acceptance.sampling import resampled_acceptance
from specroof.cli import app
from specroof.engines import calibrated_yaml
from specroof.evidence.bundled import load_measurements
from specroof.plot import study_figures
from specroof.plot.curves import plot_best_draft_len_map
from specroof.questions.explore import _packs, explore
from specroof.questions.hardware import new_hardware, show_hardware
from specroof.questions.objects import as_list, framework_names
from specroof.questions.played_loads import PlayedPlan
from specroof.questions.sweep import _stop, sweep_text
from specroof.report.layout import on_screen, show_notes
from specroof.serving.pass_prices import Grid, PassPrices
from specroof.serving.workload import Load, Workload
from specroof.speedup.overview import Overview
from tables import present

pytestmark = pytest.mark.slow


def test_measurements_of_other_engines_belong_to_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_fit, "fit", lambda points, *_start: {"n": float(len(points))})
    every = load_measurements()
    known = next(one for one in every if one.engine == "sglang" and one.hardware == "b200")
    other = next(one for one in every if one.engine == "tensorrt-llm")
    sizes = {name: fit["n"] for name, fit in shared_fit.leave_one_out([known, other]).items()}
    groups = {name: n for name, n in sizes.items() if name.startswith(("family", "engine"))}
    assert groups == {"family blackwell": 1.0, "engine sglang": 1.0}
    assert sizes == {"all": 2.0, known.source: 1.0, other.source: 1.0, **groups}


def overview(model: str, hardware: str, drafter: str = "mtp") -> Overview:
    loads = np.array([1.0, 8.0])
    table = np.array([[2.0, 1.5]])
    return Overview(
        target=1, drafter_number=1, workload=1, model=model, hardware=hardware, engine="vllm",
        drafter=drafter, devices=1, requests="", is_by_rate=False, context_len=np.array([4096.0]), batch_size=loads,
        best_draft_len=table, best_speedup=table, tokens_per_s=table * 100, drafts_run=table, pays=table,
        usd_per_million_tokens=table / 10,
    )  # fmt: skip


def test_pages_without_a_curve_and_lines_beyond_the_most_are_left_out() -> None:
    # Six models of which the last has another chip: of four pages two hold nothing.
    found = [overview(f"model-{n}", f"chip-{n}") for n in range(6)]
    assert [name for name in study_figures(found) if "-by-" in name] == [
        "best-speedup-by-batch",
        "best-speedup-by-batch-2",
    ]
    # A full table has its titles above the first row alone.
    table = [overview(f"model-{n}", f"chip-{k}") for n in range(2) for k in range(2)]
    titles = [axes.get_title() for axes in study_figures(table)["best-speedup-by-batch"].axes]
    assert [bool(title) for title in titles] == [True, True, False, False]
    many = [overview("model", "chip", f"drafter-{n}") for n in range(10)]
    lines = study_figures(many)["best-speedup-by-batch"].axes[0].get_lines()
    assert sum(one.get_marker() != "None" for one in lines) == 8


def test_the_roofline_of_a_study_is_no_finding_of_its_chart_and_table_but_named() -> None:
    real = overview("model", "chip")
    bound = replace(real, engine="ideal", devices=2, best_speedup=real.best_speedup * 3)
    for shown, says in (
        ([real, bound], "Up to 2.00x (ideal: 6.00x) over"),
        ([bound], "Up to 6.00x over"),
        ([real], "Up to 2.00x over"),
    ):
        assert says in study_figures(shown)["best-speedup-by-batch"].get_suptitle()
        text = sweep_text(shown, [], points=6, without_room=0)
        assert ("left out" in text) == (len(shown) > 1)
        assert "1 model, 1 chip, 1 drafter" in text  # one chip, on however many of it


@pytest.mark.parametrize(("gains", "steps", "top"), [
    ((1.05, 1.31), ["1", "1.1", "1.2", "1.3"], "1.31"),
    ((1.1, 9.6), ["1", "2", "4", "8"], "9.6"),
])  # fmt: skip
def test_steps_of_speedups_are_doublings_or_finer(
    gains: tuple[float, float], steps: list[str], top: str
) -> None:
    table, room = np.array([gains, gains]), np.ones((2, 2))
    columns = ("best_draft_len", "best_speedup", "tokens_per_s", "pays")
    tables: dict[str, Any] = dict.fromkeys(columns, table) | {"drafts_run": room}
    one = replace(overview("a", "x"), context_len=np.array([1024.0, 4096.0]), **tables)
    charts = study_figures([one])
    lines, maps = charts["best-speedup-by-batch"], charts["best-speedup-map-1"]
    lines.draw_without_rendering()
    shown = [text.get_text() for text in lines.axes[0].get_yticklabels()]
    assert shown == steps
    bar = [text.get_text() for text in maps.axes[-1].get_yticklabels()]
    assert bar[-1] == top
    assert set(bar[:-1]) <= set(steps)


def test_a_panel_without_a_curve_says_so_and_leaves_ticks_above_it() -> None:
    found = [overview("a", "x"), overview("a", "y"), overview("b", "x")]
    chart = study_figures(found)["best-speedup-by-batch"]
    chart.draw_without_rendering()
    above, empty = chart.axes[1], chart.axes[3]
    assert [text.get_text() for text in empty.texts] == ["not in the study"]
    assert any(label.get_visible() and label.get_text() for label in above.get_xticklabels())
    assert chart.get_supylabel() == "Best speedup (×)"
    # In rows one after the other, the last is shorter: nothing is missing from it.
    rows = study_figures([overview(f"m{n}", f"c{n}") for n in range(3)])["best-speedup-by-batch"]
    assert not any(axes.texts for axes in rows.axes)
    # A hole in the first row has no panel above it.
    there = [overview(*pair) for pair in (("a", "x"), ("b", "x"), ("b", "y"))]
    texts = [
        [text.get_text() for text in axes.texts]
        for axes in study_figures(there)["best-speedup-by-batch"].axes
    ]
    assert [shown == ["not in the study"] for shown in texts] == [False, True, False, False]


def test_an_engine_that_a_chip_lacks_is_left_out_of_the_page(tmp_path: Path) -> None:
    chip = load_hardware("b200")
    own = tmp_path / "own.yaml"
    own.write_text(
        calibrated_yaml(chip, chip.engine("vllm"), name="own", source="made up"), encoding="utf-8"
    )
    found = explore(
        "Qwen/Qwen3-8B", ["b200", str(own)], engines=["own", "ideal"], tensor_parallel=1,
        context_len=1024, batch_size=1,
    )  # fmt: skip
    assert list(found.section("Qwen/Qwen3-8B", "b200").cells) == [("ideal", 1)]


@pytest.mark.usefixtures("asked_for_validated")
def test_answers_say_what_they_hold() -> None:
    found = specroof.validate()
    assert found.title == f"{len(found.found.points)} points of {len(found.found.sources)} sources"
    targets = [{"model": "Qwen/Qwen3-8B", "hardware": "l4"}]
    told = specroof.sweep(
        {"format_version": 1, "targets": targets, "drafters": ["ideal"], "batch_size": 4096}
    )
    assert any("requests" in one or "room" in one for one in told.warnings)
    assert _stop(0, False, "context 4096", False).startswith("no room")
    assert _stop(2.5, True, "b200", True) == "2.5/s, unclear (b200)"


# --- What only some calls of questions say --------------------------------------------------------

QWEN = "Qwen/Qwen3-8B"
EAGLE = "eagle3,accept=0.7"


def test_a_metrics_page_of_another_server_than_the_framework_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "vllm.txt"
    page.write_text(vllm_page(Life(1000.0)))
    with pytest.raises(OptionError, match="framework is 'sglang'; allowed: vllm"):
        specroof.doctor(QWEN, "h100", pages=[page], framework="sglang")


def test_a_template_of_a_chip_is_an_answer_without_rows() -> None:
    found = new_hardware("my-chip")
    assert (found.rows, found.title) == ((), "my-chip")
    assert found.to_dict()["rows"] == []


def test_a_chip_names_its_host_and_what_decides_its_kernels() -> None:
    assert "CPU" in str(show_hardware("rtx-4090+cpu-2ch-ddr5"))
    assert "cdna3, amd" in str(show_hardware("mi300x"))
    assert "blackwell, nvidia, compute capability 10.3" in str(show_hardware("gb300"))


def test_what_a_server_cannot_be_told_is_said() -> None:
    asked: dict[str, Any] = {"input_len": 500, "output_len": 50}
    asked["drafters"] = "model,config=Qwen/Qwen3-0.6B,accept=0.95"
    small = partial(specroof.advise, "Qwen/Qwen3-8B", "rtx-4090", **asked, concurrency=8)
    asked["options"] = {"n_cpu_moe": 12, "weight_dtype": "q4_k_m"}
    chip = "rtx-4090+cpu-2ch-ddr5"
    mixed = partial(specroof.advise, "Qwen/Qwen3-30B-A3B", chip, **asked, concurrency=1)
    for found, flag, setting in (
        (small, "--parallel 8", "running=8"),
        (mixed, "--n-cpu-moe 12", "n-cpu-moe=12"),
    ):
        assert flag in str(found(framework="llama.cpp"))
        other = found(framework="lmstudio")
        assert flag not in str(other)
        assert f"no flag of LM Studio 0.4 is known for {setting}: " in "".join(other.warnings)
        assert "is in the flags" not in str(other)
    with pytest.raises(OptionError, match=r"LM Studio 0\.4 has no flag for it"):
        small(framework="lmstudio", tensor_parallel=2)


def test_a_server_that_no_file_tells_of_has_no_flags_for_a_drafter() -> None:
    asked: dict[str, Any] = {"input_len": 500, "output_len": 50, "concurrency": 1}
    found = specroof.advise(QWEN, "rtx-4090", drafters="ideal", framework="ollama", **asked)
    assert "ollama has no setting for ideal" in str(found)


def test_hours_that_drafts_alone_keep_up_with_are_named(tmp_path: Path) -> None:
    day = tmp_path / "day.csv"
    day.write_text("hour,requests_per_s\n8,4\n9,20\n")
    load: dict[str, Any] = {"input_len": 1000, "output_len": 300, "steady": True}
    load["drafters"] = "eagle3,accept-length=2.8@3"
    found = specroof.advise(QWEN, "h100", traffic=day, **load)
    assert "only drafts keep up in hours 9" in str(found)


def test_beside_notes_a_late_first_token_has_its_seconds() -> None:
    # 13 requests have room without drafts, and not all of them with drafts.
    load: dict[str, Any] = {"input_len": 500, "output_len": 500, "concurrency": 13, "steady": True}
    found = specroof.advise("Qwen/Qwen3-32B", "h100", drafters=EAGLE, **load)
    with on_screen(None):
        assert "comes later, " in str(found)
        show_notes()
        told = re.search(r"comes later: after (\S+) s instead of (\S+) ms", str(found))
    late, plain = present(told).groups()
    (row,) = found.rows
    assert (float(late), float(plain)) == pytest.approx(
        (row.ttft_s, 1e3 * row.plain_ttft_s), rel=0.01
    )


def test_nobody_solves_for_a_cost_where_acceptance_is_unknown() -> None:
    rates = {1000.0: constant_acceptance(0.5), 2000.0: constant_acceptance(0.4)}
    drafter = replace(load_drafter("eagle3"), acceptance=context_acceptance(rates))
    with pytest.raises(OptionError, match="nothing is known at context 512"):
        specroof.breakeven(QWEN, "h100", drafter=drafter, solve="cost", context_len=512)


def test_a_map_of_many_cells_is_read_by_its_colours() -> None:
    for batches, contexts, numbers in (([1, 2], [100, 200], 4), (range(1, 40), range(1, 9), 0)):
        curve = speedup_curve(
            QWEN, "h100", drafter="ideal", batch_size=[*batches], context_len=[*contexts],
            max_draft_len=2,
        )  # fmt: skip
        assert len(plot_best_draft_len_map(curve).axes[0].texts) == numbers
        assert not curve.worth_measuring.any()  # nothing was measured


def test_a_rate_that_no_target_explains_is_that_of_the_most_certain_one() -> None:
    certain = replace(constant_acceptance(0.9999), temperature=1.0, rule="exact")
    assert 0.9999 <= float(resampled_acceptance(certain, 0.5).survival(1)) <= 1
    kept = resampled_acceptance(replace(certain, rule="rejection"), 0.5, "rejection")
    assert 0.999 < kept.survival(1) <= 1


def test_more_values_than_any_grid_holds_are_not_listed() -> None:
    many = range(10**9)
    assert as_list(many) == [many]


def test_a_head_of_plain_attention_on_latent_attention_names_its_flag() -> None:
    asked: dict[str, Any] = {
        "drafters": EAGLE,
        "input_len": 500,
        "output_len": 50,
        "concurrency": 1,
    }
    found = specroof.advise(
        "deepseek-ai/DeepSeek-V3", "b200", tensor_parallel=8, framework="sglang", **asked
    )
    assert "--speculative-draft-attention-backend flashinfer" in str(found)


def test_entropies_lie_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "entropies.txt"
    path.write_text("0.4, 0.2\n0.1\n")
    asked: dict[str, Any] = {"drafters": f"{EAGLE},temperature=1", "lengths": "lognormal=200/800"}
    of_file, listed = (
        specroof.rollout(QWEN, "h100", n_requests=8, entropy=entropy, **asked)
        for entropy in (path, [0.4, 0.2, 0.1])
    )
    assert [row.makespan_s for row in of_file.rows] == [row.makespan_s for row in listed.rows]


def test_a_long_pass_shows_its_longest_operations() -> None:
    found = specroof.explain("deepseek-ai/DeepSeek-V3", "h200", tensor_parallel=8, batch_size=8)
    shown, counted = found.text().split("and ")[0], re.search(r"and (\d+) more rows", found.text())
    assert sum(row.op in shown for row in found.rows) + int(present(counted)[1]) == len(found.rows)


def test_states_that_nobody_keeps_are_computed_twice() -> None:
    # llama.cpp cuts states back for drafters of its own (frameworks/llama.cpp, snapshots).
    card: dict[str, Any] = {"engine": "llama.cpp", "weights": "q4_k_m", "context_len": 1000}
    for spec, twice in (("ngram,accept=0.5", True), ("mtp,accept=0.5", False)):
        found = specroof.predict(
            "Qwen/Qwen3.5-27B", "rtx-4090", drafters=spec, batch_size=1, **card
        )
        assert any("runs a second time" in note for note in found.notes) is twice


def test_an_engine_without_latency_loses_no_time_of_a_request() -> None:
    load: dict[str, Any] = {"input_len": 100, "output_len": 10, "concurrency": 1, "steady": True}
    for engine, loses in (("ideal", False), ("vllm", True)):
        found = specroof.predict(QWEN, "h100", drafters=EAGLE, engine=engine, **load)
        with on_screen(None):
            show_notes()
            (line,) = (line for line in str(found).splitlines() if "prefills counted" in line)
        assert ("loses" in line) is loses


def test_a_server_without_memory_rules_has_room_for_any_batch() -> None:
    asked = f"acceptance simulate batch {QWEN} -H h100 --drafter {EAGLE} --batch 64 --context 65536"
    for engine, is_full in (("vllm", True), ("ideal", False)):
        said = run(*f"{asked} --draft-len 3 --engine {engine} --notes".split())
        assert "with 3 drafts" in said
        assert ("as if memory had no end" in " ".join(said.split())) is is_full


def test_a_server_that_drafted_nothing_yet_has_no_drafts_per_round(tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    counted = "vllm:spec_decode_num_"
    page.write_text(
        f'{counted}drafts_total 0\n{counted}accepted_tokens_per_pos_total{{position="0"}} 0\n'
    )
    told = run("doctor", page, "--model", QWEN, "-H", "h100")
    assert "K=1 now" in told
    assert "drafts per round" not in told


def test_charts_have_a_former_name() -> None:
    found = specroof.predict(QWEN, "h100", drafters=EAGLE, batch_size=1, max_draft_len=1)
    assert found.drawn == found.headline_curves


def test_a_mixed_pass_fills_no_pipeline_that_is_full() -> None:
    second = Grid([1, 2], [0, 9], np.ones((2, 2)))
    prices = PassPrices(second, second.times(5.0), second, second)
    assert prices.mixed_s(1, 0, 1, 0) == 5 + 1 + 1
    assert replace(prices, filling_s=second.times(2.0)).mixed_s(1, 0, 1, 0) == 5 - 2 + 1 + 1


def test_a_frontier_at_a_rate_beyond_a_default_and_on_an_engine_without_one() -> None:
    load: dict[str, Any] = {"input_len": 500, "output_len": 300, "rate": 30, "requests": 200}
    found = specroof.frontier(QWEN, "h100", drafters=EAGLE, engine="sglang", **load)
    limits = [row.running_limit for row in found.rows]
    assert any(limit is None or limit > 48 for limit in limits)
    ideal = specroof.frontier(QWEN, "h100", drafters=EAGLE, engine="ideal", batch_size=[1, 8])
    assert {row.running_limit for row in ideal.rows} == {None}


def test_a_schedule_that_takes_longer_when_it_is_played_is_said() -> None:
    load = Load([1], [700], Workload(500, 400), requests=[8], rate=[4])
    plain, drafting = ({"mean_latency_s": np.array([one])} for one in (2.0, 2.5))
    plan = PlayedPlan(load, plain, drafting, (np.inf, np.inf), None, has_targets=False)
    (said,) = plan.warnings
    assert "longer with these drafts at 4" in said


def test_a_rollout_of_one_answer_has_one_length() -> None:
    found = specroof.rollout(QWEN, "h100", drafters=EAGLE, lengths=40, n_requests=1)
    assert [row.policy for row in found.rows] == ["off", "fixed", "schedule"]
    assert found.rows[1].makespan_s == found.rows[2].makespan_s


def test_a_schedule_that_is_no_faster_when_it_is_played_is_not_taken() -> None:
    found = specroof.rollout(
        QWEN, "h100", drafters="ngram,accept=0.5,match=0.2", lengths="lognormal=40/80",
        n_requests=12, seed=48,
    )  # fmt: skip
    _, fixed, schedule = found.rows
    assert (schedule.makespan_s, schedule.ranges) == (fixed.makespan_s, fixed.ranges)


def test_the_bench_of_requests_that_come_by_themselves_predicts_no_throughput() -> None:
    load: dict[str, Any] = {"input_len": 500, "output_len": 50, "rate": 2, "requests": 40}
    found = specroof.advise(QWEN, "h100", drafters=EAGLE, bench=True, **load)
    assert "sglang.launch_server" in str(found)
    assert "predicted by engine" not in str(found)


# --- answers that few ask for --------------------------------------------------------------------


def test_a_prediction_of_many_contexts_counts_them_and_has_no_range_where_nothing_fits() -> None:
    many: list[float] = [1000, 2000, 3000, 4000, 5000]
    found = specroof.predict(
        "Qwen/Qwen3-235B-A22B", "l40s", drafters="eagle3,accept=0.7", context_len=many
    )
    assert found.title.endswith("5 contexts")
    assert "no room at 5 of 5 loads" in str(found)


def test_a_survey_of_more_points_than_memory_holds_has_those_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("specroof.questions.predict.MOST_POINTS", 10)
    found = specroof.predict(MODEL, "h100", drafters="eagle3,accept=0.7", batch_size=3)
    assert [curve.batch_size.tolist() for curve in found.survey] == [[3]]


def test_workers_of_prefill_have_no_bar_in_the_chart_of_memory() -> None:
    asked: dict[str, Any] = {"context_len": 4096, "drafters": "eagle3"}
    split = specroof.capacity(MODEL, "h100", prefill="1x1", decode="1x1", **asked)
    bars = [
        len(found.plot().axes[0].get_yticklabels())
        for found in (split, specroof.capacity(MODEL, "h100", **asked))
    ]
    assert bars[0] == bars[1]


def test_a_training_without_a_price_and_at_several_loads_is_told_in_device_hours() -> None:
    asked: dict[str, Any] = {"samples": 1e4, "accept_length": 2, "temperature": 0.8}
    found = specroof.train(MODEL, "b300", drafter="mtp", **asked, batch_size=np.array([1, 8]))
    assert found.training.usd is None
    assert {row.saved_usd_per_day for row in found.rows} == {None}
    assert "(batch 1)" in found.text()
    assert any("temperature" in note for note in found.notes)  # which moves no length that is given
    assert "USD" not in found.text()


def test_captured_sizes_are_compared_with_none_where_those_of_the_server_leave_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    advising: Any = sys.modules["specroof.questions.advise"]  # its name is that of the function
    whole = advising.has_room

    def tight(request: Any, setup: Any, *drafters: Any) -> bool:
        return setup.user_settings.capture is not None and whole(request, setup, *drafters)

    monkeypatch.setattr(advising, "has_room", tight)
    load: dict[str, Any] = {"input_len": 64, "output_len": 32, "concurrency": 2}
    found = specroof.advise(MODEL, "h100", drafters=EAGLE, **load, server="capture=64")
    assert not [line for line in found.warnings if "capture=" in line]


def test_a_shell_completes_nothing_behind_a_command_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COMP_WORDS", "specroof predikt --ba")
    monkeypatch.setenv("COMP_CWORD", "2")
    done = CliRunner().invoke(
        app, env={"_SPECROOF_COMPLETE": "complete_bash"}, prog_name="specroof"
    )
    assert (done.exit_code, "--batch" in done.output) == (0, False)


def test_a_shell_completes_servers_and_their_releases() -> None:
    names = framework_names()
    assert {"vllm", "vllm@0.24.0", "sglang@0.5.9"} <= {*names}


def test_a_study_shows_some_notes_and_counts_the_others() -> None:
    notes = [f"note {number}" for number in range(6)]
    with on_screen(None):
        show_notes()
        text = sweep_text([overview("model", "chip")], notes, points=6, without_room=0)
    assert [note in text for note in notes] == [True] * 4 + [False] * 2
    assert "2 more" in text


def test_a_page_of_all_models_packs_a_model_and_another_one_a_chip_as_well() -> None:
    page = {"models": {"a": 1, "b": 2}, "hardware": {"h100": 1, "b200": 2}, "alike": [0, 1, 0]}
    whole, single = (
        _packs(cast("Any", SimpleNamespace(**page, is_whole=is_whole)))
        for is_whole in (True, False)
    )
    assert whole == {"0": ("a", ["h100", "b200"]), "1": ("b", ["h100", "b200"])}
    assert single["1-0"] == ("b", ["h100"])
    assert len(single) == 4


def test_a_training_is_on_devices_without_the_power_cap() -> None:
    asked: Any = {"samples": 100_000, "concurrency": 8, "input_len": 512, "output_len": 128}
    free, capped = (
        specroof.train(MODEL, "rtx-5090", drafter="eagle3", power_cap=cap, **asked)
        for cap in (None, 400.0)
    )
    first, second = (one.to_dict()["choice"]["training"] for one in (free, capped))
    assert len(capped.notes) > len(free.notes)
    assert first["drafter_hours"] == second["drafter_hours"]


def test_policies_stand_in_the_text_of_advice_and_leave_targets_alone() -> None:
    load: Any = {"input_len": 512, "output_len": 64, "concurrency": 8, "requests": 16}
    answers: Any = (
        specroof.advise(
            MODEL, "h100", drafters="eagle3,accept=0.7", policies=True, tpot_ms=limit, **load
        )
        for limit in (None, 100.0)
    )
    one, held = answers
    assert all(row.policy in str(one) for row in one.policies.rows)
    assert len(held.notes) > len(one.notes)


def test_a_rate_beyond_the_server_has_no_least_acceptance() -> None:
    asked: Any = {"drafter": EAGLE, "rate": 500, "input_len": 1000, "output_len": 200}
    found = specroof.breakeven(QWEN, "h100", requests=100, **asked)
    assert [row.reason for row in found.rows] == ["unsustained"]
    assert "more requests" in found.text()


def test_chips_of_a_rollout_are_as_sure_as_their_own_evidence() -> None:
    chips = {"h100": "hopper", "a100": "ampere"}
    found = specroof.rollout(
        QWEN, [*chips], drafters=EAGLE, lengths="lognormal=200/800", n_requests=8
    )
    assert all(load_hardware(chip).name in found.sureness for chip in chips)


def test_an_engine_of_ones_own_is_the_default_for_every_server() -> None:
    h100 = load_hardware("h100")
    mine = replace(h100, default_engine="mine", engines={"mine": h100.engine("vllm")})
    given: Any = ({}, {"framework": "vllm"}, {"engine": "mine"})
    rows = [specroof.predict(QWEN, mine, drafters=EAGLE, **how).rows for how in given]
    assert rows[0] == rows[1] == rows[2]


def test_kernels_of_few_rows_on_a_chip_without_fp32_are_told() -> None:
    card = load_hardware("rtx-4090")
    flops = {name: rate for name, rate in card.peak.flops_per_s.items() if name != "fp32"}
    bare = replace(card, peak=replace(card.peak, flops_per_s=flops))
    told, silent = (
        specroof.explain(QWEN, chip, engine="llama.cpp", options={"weight_dtype": "q4_k_m"}).notes
        for chip in (bare, card)
    )
    assert any("flops_per_s" in note for note in {*told} - {*silent})
