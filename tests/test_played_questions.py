"""Loads that are played through: what each question says of them, in every form."""

import csv
import io
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from commands import Terminal, answered, invoked, run
from gridded import gridded
from specroof import (
    OptionError,
    SpecroofError,
    advise,
    breakeven,
    frontier,
    predict,
    read_results,
    sweep,
    worth,
)
from specroof.latency.setup import Deployment
from specroof.questions.study import load_study
from specroof.questions.sweep import study_of, study_slices
from specroof.serving import played
from specroof.serving.played import play, played_server
from tables import present, rows
from test_played_loads import ASKED, CHIP, MODEL, REQUESTS, SPEC, TRACE

WORDS = f"{MODEL} -H {CHIP} --engine vllm --drafter {SPEC} --max-draft-len 3"
LOAD = f"{WORDS} --isl 1000 --osl 200"


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def test_the_case_says_which_requests_come(tmp_path: Path) -> None:
    words = f"predict {LOAD} --rate 60..240/min --requests 60 --length-range 0.8..1.0 --ttft 200"
    found = answered(f"{words} --grid")
    lengths = {"input_len", "output_len", "prefix_hit_rate", "context_len"}
    load = {name: one for name, one in found["case"]["load"].items() if name not in lengths}
    assert load == {
        "kind": "rate",
        "requests": [60, 60, 60],
        "rate": [1, 2, 4],
        "arrivals": "poisson",
        "length_range": [0.8, 1.0],
        "seed": 0,
        "steady": False,
        "wait_s": load["wait_s"],
        "request_latency_s": load["request_latency_s"],
    }
    table = tmp_path / "a.csv"
    run(f"{words} --points {table}")
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    p99 = gridded(found, "p99_ttft_s")
    assert [float(row["p99_ttft_s"]) for row in rows] == p99.ravel().tolist()
    assert [row["rate"] for row in rows] == [f"{r}.0" for r in (1, 2, 4) for _ in "0123"]


def test_lengths_that_are_shown_are_those_that_are_played() -> None:
    found = predict(MODEL, CHIP, **ASKED, **REQUESTS, concurrency=3, requests="2x", draft_len=[2])
    (one,) = found.played
    assert one.load.requests == [6]
    assert np.isfinite(one.figures["tokens_per_s"][0, [0, 2]]).all()
    assert found.to_csv("points").count("\n") == 5
    charts = found.figures()
    # Over time the requests that run are, on average, those of the whole run.
    plain, drafted = charts["-running"].axes[0].lines
    for steps, drafts in ((plain, 0), (drafted, int(one.best_draft_len[0]))):
        edges, running = steps.get_xdata(), steps.get_ydata()[:-1]
        assert edges[-1] == one.figures["duration_s"][0, drafts]
        assert running.mean() == pytest.approx(one.figures["mean_running"][0, drafts])
        assert 0 <= running.min() <= running.max() <= 3 + 1e-9


def test_the_chart_is_over_the_loads() -> None:
    loads = predict(MODEL, CHIP, **ASKED, **REQUESTS, concurrency=[1, 2, 4], requests=8)
    plain, drafted = loads.figures()["-requests"].axes[3].lines
    figures = loads.played[0].figures["tokens_per_s"]
    assert plain.get_ydata().tolist() == figures[:, 0].tolist()
    assert drafted.get_ydata().tolist() == np.nanmax(figures, axis=1).tolist()
    (speedups,) = loads.figures()[""].axes
    assert [*speedups.lines[1].get_ydata()] == [row.speedup for row in loads.rows]
    bad = ASKED | REQUESTS | {"drafters": "eagle3,accept=0.01"}
    never = predict(MODEL, CHIP, **bad, rate=[1, 2], requests=8, tpot_s=0.02)
    assert [text.get_text() for text in never.figures()["-requests"].axes[3].texts] == ["γ 0"]


@pytest.mark.parametrize(("name", "most_s"), [("ttft_s", 0.3), ("tpot_s", 0.012)])
def test_the_largest_rate_within_a_target_is_the_edge(name: str, most_s: float) -> None:
    asked: dict[str, Any] = {"drafters": SPEC, "engine": "vllm", **REQUESTS, "requests": 200}
    target: dict[str, Any] = {name: most_s}
    found = frontier(MODEL, CHIP, **asked, max_draft_len=3, rate=[1, 256], **target)
    plain, drafted = (one.largest_rates[0] for one in found.series)
    assert (plain.devices, plain.draft_len) == (1, 0)
    assert drafted.draft_len > 0
    for one in (plain, drafted):
        rates = [one.rate * 0.98, one.rate, one.rate * 1.03]
        seen = predict(MODEL, CHIP, **asked, max_draft_len=3, rate=rates).played[0]
        below, at, above = seen.figures[f"p99_{name}"][:, one.draft_len]
        assert below <= most_s
        assert at <= most_s
        # Beyond the edge either the target is missed, or the rate is more than the server answers.
        assert above > most_s or rates[2] > seen.stable_rate[one.draft_len]
    assert found.to_dict()["choice"]["chips"][0]["largest_rates"][1]["rate"] == drafted.rate
    assert {point.rate for one in found.series for point in one.points} <= {1, 256}
    target_ms: Any = {f"{name[:4]}_ms": 1e3 * most_s}
    plan: Any = advise(MODEL, CHIP, **asked, rate=[1, 256], **target_ms).chips[0].played
    off, on = plan.largest_rates
    assert off == pytest.approx(plain.rate, rel=1e-9)
    assert on > off


def test_advice_plays_its_own_schedule() -> None:
    asked: dict[str, Any] = {"drafters": SPEC, "engine": "vllm", **REQUESTS} | {
        "rate": [4, 20],
        "requests": 80,
        "length_range": (0.5, 1.5),
    }
    found = advise(MODEL, CHIP, **asked)
    (chip,), plan = found.chips, present(found.chips[0].played)
    drafts = {first: length for first, _, length in chip.plan.schedule}
    assert max(drafts.values()) > 0
    server = played_server(
        Deployment(found.model, chip.setup), chip.drafter, plan.load, "queue", max(drafts.values())
    )
    for place, requests in enumerate(plan.load.played()):
        for figures, length in ((plan.plain, 0), (plan.drafting, drafts)):
            seen = server.play(requests, length).figures()
            for name, value in seen.items():
                assert figures[name][place] == pytest.approx(value, rel=1e-9), name
    assert plan.speedup.tolist() == pytest.approx(
        (plan.plain["mean_latency_s"] / plan.drafting["mean_latency_s"]).tolist()
    )


def test_advice_says_where_its_drafts_are_slower() -> None:
    # Prompts without an end to them: the schedule is of steady loads, and never drafts to lose.
    spec = "autoregressive,cost=0.3,accept=0.55"
    asked: dict[str, Any] = {"drafters": spec, "engine": "vllm", "draft_len": 1}
    found = advise(MODEL, CHIP, **asked, **REQUESTS, rate=[1, 40], requests=200)
    plan = present(found.chips[0].played)
    slow = [name for name, gain in zip(("1", "40"), plan.speedup, strict=True) if gain < 1]
    said = [text for text in found.warnings if "take longer with these drafts" in text]
    assert [text.partition(" at ")[2] for text in said] == [
        f"{name} (req/s in)" for name in slow[:1]
    ]
    assert np.isnan(plan.speedup).tolist() == [False, True]
    # A rate that the server does not answer is said, with the largest that it does.
    off, on = plan.stable_rates
    (full,) = [text for text in found.warnings if "answers at most" in text]
    assert f"{off:.3g} requests/s without drafts" in full
    row, told = found.to_dict()["rows"][1], found.to_dict()["choice"]["played"]
    assert told["largest_stable_rates"] == {"plain": off, "drafting": on}
    assert (row["rate"], row["reason"], row["speedup"]) == (40, "unsustained", None)
    assert row["plain_largest_stable_rate"] == off == on  # which is the better of both
    assert row["largest_stable_rate"] < off
    for told_so in (
        worth(MODEL, CHIP, drafter="eagle3", draft_len=2, rate=[1, 90], requests=9, **REQUESTS),
        breakeven(MODEL, CHIP, drafter="eagle3", draft_len=2, rate=90, requests=9, **REQUESTS),
    ):
        assert len([text for text in told_so.warnings if "answers at most" in text]) == 1


def test_a_better_drafter_is_worth_what_its_requests_gain() -> None:
    asked: dict[str, Any] = {"engine": "vllm", "draft_len": 3, **REQUESTS, "requests": 80}
    found = worth(MODEL, CHIP, drafter="eagle3", accept_length=[2, 3], rate=[4, 16], **asked)
    assert list(found.by_load) == [4, 16]
    for row in found.rows:
        spec = f"eagle3,accept-length={row.accept_length}@3"
        load: dict[str, Any] = {"rate": [row.rate], "requests": 80, **REQUESTS, "engine": "vllm"}
        (one,) = predict(MODEL, CHIP, drafters=spec, max_draft_len=3, **load).played
        assert row.tpot_limit_s == pytest.approx(one.figures["p99_tpot_s"][0, 0])
        # The largest rate is the edge, to 1%.
        assert row.largest_rate is not None
        assert row.rate is not None
        assert row.largest_rate > row.rate
        beside = [row.largest_rate, 1.02 * row.largest_rate]
        (edge,) = predict(
            MODEL, CHIP, drafters=spec, max_draft_len=3, **load | {"rate": beside}
        ).played
        slow_s = np.nanmin(edge.figures["p99_tpot_s"][:, 1:], axis=1)
        assert slow_s[0] <= row.tpot_limit_s * (1 + 1e-9)
        assert slow_s[1] > row.tpot_limit_s or row.largest_rate > 0.98 * one.stable_rate.max()
    first, second = found.rows[:2]
    assert first.speedup is not None
    assert second.speedup is not None
    assert second.gain_per_token == pytest.approx(second.speedup - first.speedup)


def test_better_drafters_for_traces(trace_file: Path) -> None:
    asked: dict[str, Any] = {"drafter": "eagle3", "engine": "vllm", "draft_len": 2}
    traced: Any = worth(MODEL, CHIP, **asked, trace=trace_file)
    assert traced.rows[0].largest_rate is None
    assert traced.workload.output_len == pytest.approx((100 + 300 + 50 + 1) / 4)
    late = worth(MODEL, CHIP, **asked, **REQUESTS, rate=4, requests=30, tpot_s=1e-4)
    assert {row.largest_rate for row in late.rows} == {None}
    # Two L40S hold 64 GB of weights, and eight of them no 671 GB.
    for model, more in {"Qwen/Qwen3-32B": "--tp 2", "deepseek-ai/DeepSeek-V3": "more dev"}.items():
        with pytest.raises(
            OptionError, match=f"leaves no room for a request on .*; allowed: {more}"
        ):
            worth(model, "l40s", **asked, **REQUESTS, rate=1, requests=5)


@pytest.mark.parametrize("speedup", [1.5, 0.001])
def test_the_best_of_all_lengths_is_sought_without_playing_all_of_them(
    speedup: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = list[float]()

    def counted(*parts: Any, **settings: Any) -> Any:
        plays.append(1)
        return play(*parts, **settings)

    asked: dict[str, Any] = {"engine": "vllm", **REQUESTS, "requests": 3, "rate": 3}
    asked |= {"drafter": "medusa,accept=0.6", "speedup": speedup}
    monkeypatch.setattr("specroof.serving.played.play", counted)
    alone = [breakeven(MODEL, CHIP, **asked, draft_len=n).rows[0] for n in range(1, 6)]
    each = len(plays)
    (row,) = breakeven(MODEL, CHIP, **asked).rows
    assert row.ceiling == max(one.ceiling for one in alone)
    least = min(one.value for one in alone if one.value is not None)
    assert row.value == pytest.approx(least, rel=4e-3)
    assert len(plays) - each < 0.7 * each


def test_break_even_of_rates_and_traces(trace_file: Path) -> None:
    asked: dict[str, Any] = {"engine": "vllm", "draft_len": 1, "drafter": "eagle3,accept=0.7"}
    (row,) = breakeven(MODEL, CHIP, **asked, trace=trace_file).rows
    assert (row.batch_size, row.concurrency) == (None, None)
    # Where no request has room, nothing is enough.
    for solve in ("accept", "cost"):
        tight: dict[str, Any] = {**asked, **REQUESTS, "rate": 1, "requests": 5, "solve": solve}
        (none,) = breakeven("Qwen/Qwen3-32B", "l40s", **tight).rows
        assert none.answer == "no room"
        assert none.record["ceiling"] is None


def test_no_rate_is_largest_where_none_is_in_time() -> None:
    asked = ASKED | REQUESTS | {"requests": 20}
    late = frontier(MODEL, CHIP, **asked, rate=[1, 4], tpot_s=1e-4)
    assert late.to_dict()["choice"]["chips"][0]["largest_rates"] == []
    (plain, drafted) = frontier(MODEL, CHIP, **asked, rate=[1, 2], tpot_s=1.0).series
    assert plain.largest_rates[0].rate == drafted.largest_rates[0].rate == 2
    # Without targets there is nothing to be within.
    assert not frontier(MODEL, CHIP, **asked, rate=1).series[0].largest_rates


def test_as_many_requests_run_as_come_while_one_is_answered() -> None:
    # Little 1961: requests in a second times the seconds of one, with drafts as without.
    for point in frontier(MODEL, CHIP, **ASKED, **REQUESTS, rate=[2, 8], requests=200).records:
        answer = REQUESTS["output_len"]
        one_s = point["ttft_s"] + (answer - 1) / point["tokens_per_s_per_user"]
        per_s = point["tokens_per_s_per_device"] * point["devices"] / answer
        assert point["running"] == pytest.approx(per_s * one_s, rel=0.05)


@pytest.mark.parametrize("most", [9, 10**9])
def test_a_bar_shows_on_a_terminal_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    shown: list[int] = []

    class Bar:
        pos = 0

        def __init__(self, **_: Any) -> None:
            pass

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, steps: int) -> None:
            self.pos += steps
            shown.append(self.pos)

    commands = import_module("specroof.cli.commands")
    monkeypatch.setattr(commands, "_LONG", most)
    monkeypatch.setattr(commands.typer, "progressbar", Bar)
    monkeypatch.setattr(commands, "sys", SimpleNamespace(stderr=Terminal()))
    run(f"predict {LOAD} --concurrency 2 --requests 5")
    assert shown == (list(range(0, 5 * len(shown), 5)) if most == 9 else [])
    assert len(shown) > 2 or most != 9
    run(f"capacity {MODEL} -H {CHIP} --context 512")


def test_an_interrupted_play_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plays: Iterator[int] = iter(range(3))

    def interrupted(*args: Any, **settings: Any) -> Any:
        if next(plays, None) is None:
            raise KeyboardInterrupt
        return play(*args, **settings)

    monkeypatch.setattr(played, "play", interrupted)
    words = f"predict {LOAD} --concurrency 1,2 --requests 5 --csv {tmp_path}/a.csv"
    assert invoked(words, "--plot", tmp_path / "a.png").exit_code not in {0, 2}
    assert not list(tmp_path.iterdir())


def test_a_study_plays_rates_and_traces(trace_file: Path, tmp_path: Path) -> None:
    text = f"""
format_version: 1
targets: [{{model: {MODEL}, hardware: {CHIP}}}]
drafters: ["{SPEC}"]
engine: vllm
max_draft_len: 2
workload:
  - {{input_len: 1000, output_len: 100, rate: [2, 8, 60], requests: 40, arrivals: even,
     length_range: 0.8..1.0, seed: 2}}
  - {{trace: {trace_file}}}
  - {{lengths: {trace_file}, prefix_hit_rate: 0.5}}
"""
    path = tmp_path / "study.yaml"
    path.write_text(text)
    found = sweep(path)
    asked = ASKED | {"max_draft_len": 2}
    rates = predict(
        MODEL, CHIP, **asked, input_len=1000, output_len=100, rate=[2, 8, 60], requests=40,
        arrivals="even", length_range=[0.8, 1.0], seed=2,
    )  # fmt: skip
    traced = predict(MODEL, CHIP, **asked, trace=trace_file)
    job = predict(MODEL, CHIP, **asked, lengths=trace_file, prefix_hit_rate=0.5)
    for outcome, alone in zip(found.outcomes, (rates, traced, job), strict=True):
        assert outcome.prediction.records == alone.records
        assert outcome.prediction.grid == alone.grid
    columns = ["context_len", "batch_size", "rate", "p99_ttft_s"]
    expected = np.concatenate(
        [one.to_frame("points")[columns].to_numpy(float) for one in (rates, traced, job)]
    )
    run(f"sweep {path} -o {tmp_path}/results --format csv --quiet")
    read = read_results(tmp_path / "results").to_frame()[columns].to_numpy(float)
    np.testing.assert_array_equal(read, expected)
    # A load that comes by itself is never cut, and rates are its axis.
    parts = list(study_slices(load_study(path), 1, 1, most=3))
    assert [len(part.prediction.played[0].load.requests) for part in parts] == [3, 1, 1]
    # A slice of a load has the requests of its clients.
    part = next(study_slices(study_of(yaml.safe_load(STUDY)), 1, 1, most=3))
    assert part.prediction.played[0].load.requests == [3]
    first, *_ = found.overviews()
    assert first.batch_size.tolist() == [2, 8, 60]
    assert np.isfinite(first.best_speedup).tolist() == [[True, True, False]]  # unsustained
    said = run(f"sweep {path} --dry-run").splitlines()[0].split()
    assert said[:2] == ["played", str((3 * 40 + 4 + 4) // 5)]


@pytest.mark.parametrize(("workload", "says"), rows("refusals", "study_arrivals"))
def test_a_study_of_arrivals_that_cannot_be_is_refused(workload: str, says: str) -> None:
    text = f"format_version: 1\ntargets: [{{model: {MODEL}, hardware: {CHIP}}}]\n"
    text += f"drafters: ['block,cost=0.1,accept=0.5,drafts=1000']\nworkload: {workload}\n"
    with pytest.raises(SpecroofError) as refusal:
        sweep(yaml.safe_load(text))
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


STUDY = f"""
format_version: 1
targets: [{{model: {MODEL}, hardware: {CHIP}}}]
drafters: ["{SPEC}"]
engine: vllm
max_draft_len: 2
batch_size: [1, 4]
workload:
  - {{input_len: 1000, output_len: 100, requests: 3x, length_range: 0.8..1.0, seed: 2}}
  - {{input_len: 500, output_len: 50, requests: 8}}
"""


@pytest.mark.parametrize(("old", "new", "says"), rows("refusals", "study_loads"))
def test_a_study_of_loads_that_cannot_be_is_refused(old: str, new: str, says: str) -> None:
    assert old in STUDY
    with pytest.raises(OptionError) as refusal:
        sweep(yaml.safe_load(STUDY.replace(old, new)))
    assert says in str(refusal.value)


def test_fewer_requests_than_clients_are_told_in_every_question_about_clients() -> None:
    # Of 16 clients 4 send one request each, and no more come: 16 are never in flight.
    asked: dict[str, Any] = {"input_len": 300, "output_len": 40, "concurrency": 16, "requests": 4}
    told = "a run of 4 keeps at most 4 of 16 clients busy"
    for question in (predict, advise, frontier):
        assert told in str(question(MODEL, CHIP, drafters=SPEC, **asked))
    assert told in str(worth(MODEL, CHIP, drafter="eagle3", accept_length=2, **asked))
    alone = predict(MODEL, CHIP, drafters=SPEC, **{**asked, "concurrency": 4})
    assert "clients busy" not in str(alone)


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        # Qwen3-8B: max_position_embeddings is 40960 in its config.json.
        ("predict --isl 30000 --osl 10960 --concurrency 1", None),
        ("predict --isl 30000 --osl 10961 --concurrency 1", 40961),
        ("predict --isl 30000 --osl 8000 --length-range 0.8..1.1 --concurrency 1", 41800),
        ("predict --trace TRACE", 45300),
        ("rollout --lengths 100,60000 --input-len 1000", 61000),
        ("predict --context 40961", 40961),
        ("capacity --context 40961", 40961),
    ],
)
def test_the_longest_request_is_held_against_the_positions_of_a_model(
    words: str, tokens: int | None, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_len,output_len\n0,1000,200\n1,45000,300\n")
    command, _, load = words.replace("TRACE", str(trace)).partition(" ")
    found = answered(f"{command} Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 {load}")
    notes = [note for note in found["notes"] if "has positions for 40960" in note]
    assert [f"{tokens} are asked about" in note for note in notes] == [True] * (tokens is not None)
