"""Requests that arrive faster than a server without drafts answers them have no speedup."""

from typing import Any, Final

import numpy as np
import pytest

from specroof import advise, breakeven, frontier, predict, sweep, worth
from specroof.outcomes.outcomes import Outcomes, _told_at_peaks
from specroof.serving.workload import Load

MODEL, CHIP, SPEC = "Qwen/Qwen3-8B", "h100", "eagle3,accept-length=2.8@3"
LOAD: Final[dict[str, Any]] = {"engine": "vllm", "input_len": 1000, "output_len": 200}
#: Without drafts the server answers 22.3 requests/s, with three of these 26.1.
KEPT_UP, BETWEEN, BEYOND = 12, 24, 60


def asked(rate: float, requests: int = 60) -> dict[str, Any]:
    return {**LOAD, "rate": rate, "requests": requests}


@pytest.mark.parametrize(
    ("rate", "decision", "reason"),
    [(KEPT_UP, "on", None), (BETWEEN, "on", "unsustained"), (BEYOND, "unclear", "unsustained")],
)
def test_every_question_says_so(rate: float, decision: str, reason: str | None) -> None:
    better: dict[str, Any] = {"drafter": "eagle3", "accept_length": 2.8, "draft_len": 3}
    load = asked(rate)
    answers: list[Any] = [
        question(MODEL, CHIP, drafters=SPEC, **load) for question in (predict, advise)
    ]
    answers += [breakeven(MODEL, CHIP, drafter=SPEC, **load), worth(MODEL, CHIP, **better, **load)]
    for found in answers:
        told = found.records[0]
        assert (told["decision"], told.get("reason") or None) == (decision, reason)
        assert (told.get("speedup") is None) == (reason is not None)
        assert told["plain_largest_stable_rate"] == pytest.approx(22.3, abs=0.05)
        assert told["largest_stable_rate"] == pytest.approx(26.1, abs=0.05)


def test_a_study_has_a_throughput_and_no_speedup_there() -> None:
    requests = {"input_len": 1000, "output_len": 200, "rate": [KEPT_UP, BEYOND], "requests": 60}
    study = {"format_version": 1, "drafters": [SPEC], "workload": requests}
    study["targets"] = [{"model": MODEL, "hardware": CHIP, "engine": "vllm"}]
    _, table, *_ = str(sweep(study)).split("\n\n")
    _, kept_up, beyond, *_ = [line.split("  ") for line in table.splitlines()]
    assert any(cell.endswith("x") for cell in kept_up)
    assert "-" in [cell.strip() for cell in beyond]
    assert "nan" not in table


def test_the_largest_rate_is_where_a_longer_load_waits_no_longer() -> None:
    # By play: at a rate that the server keeps up with, ten times the requests wait as long.
    def wait_s(rate: float, count: int) -> Any:
        found = predict(MODEL, CHIP, drafters=SPEC, **asked(rate, count), max_draft_len=3)
        return found.played[0].figures["mean_latency_s"][0]

    longer = {rate: wait_s(rate, 3000) / wait_s(rate, 300) for rate in (KEPT_UP, BETWEEN, BEYOND)}
    assert (longer[KEPT_UP] < 1.2).all()
    assert longer[BETWEEN][0] > 1.5 * longer[BETWEEN][3]
    assert (longer[BEYOND][[0, 3]] > 3).all()


def test_nobody_says_a_number_that_grows_with_the_load() -> None:
    for requests in (100, 1000):
        found = predict(MODEL, CHIP, drafters=SPEC, **asked(BEYOND, requests))
        assert np.isnan(found.played[0].speedup[0, 1:]).all()
        assert np.isnan(found.end_to_end[0].speedup[0, 0, 1:]).all()
        assert found.played[0].speedup[0, 0] == 1
        assert found.end_to_end[0].figure_ends["tokens_per_s"] is None
    plan: Any = advise(MODEL, CHIP, drafters=SPEC, **asked(BETWEEN)).chips[0]
    assert np.isnan(plan.played.speedup).all()
    assert plan.break_even[0].rate is None


def test_a_length_that_keeps_up_comes_first() -> None:
    # Only three drafts keep up with 25 of these requests a second: fewer have less to wait for.
    words: dict[str, Any] = {"drafters": SPEC, "max_draft_len": 3}
    found: Any = predict(MODEL, CHIP, **words, **asked(25.95, 100)).outcomes[0]
    assert found.played.keeps_up.tolist() == [[False, False, False, True]]
    middle, low, high = (ends[0, 0] for ends in found.deciding)
    assert middle.argmax() == 3
    assert low[3] == high[3] == middle[3]
    assert (low[1:3] < middle[1:3]).all()


def test_a_trace_and_several_rates_stand_under_their_own_rate() -> None:
    every = {"arrival_s": np.arange(80) / 40, "input_len": 1000, "output_len": 200}
    trace = advise(MODEL, CHIP, drafters=SPEC, engine="vllm", trace=every)
    (row,) = trace.chips[0].rows
    assert row.rate == pytest.approx(40)
    assert row.reason == "unsustained"
    assert trace.to_frame()["rate"].tolist() == [row.rate]
    several = advise(MODEL, CHIP, drafters=SPEC, **LOAD, rate=[BETWEEN, 3, 3], requests=60)
    assert [each.rate for each in several.chips[0].rows] == [3, BETWEEN]
    told = "only a server that drafts keeps up with 24 requests/s"
    assert told in " ".join(str(several).split())
    job: Any = advise(MODEL, CHIP, drafters=SPEC, engine="vllm", lengths=every | {"arrival_s": 0.0})
    (row,) = job.chips[0].rows
    assert (row.rate, row.unit, row.reason) == (None, "in flight", None)
    assert row.tried_speedup == pytest.approx(job.chips[0].played.speedup[0], rel=1e-9)


def test_points_of_a_server_that_does_not_keep_up_are_told_apart() -> None:
    points = frontier(MODEL, CHIP, drafters=SPEC, **LOAD, rate=[3, BETWEEN], requests=60).records
    late = {(one["drafter"] == "plain", one["rate"]): one["reason"] for one in points}
    assert set(late.values()) == {None, "unsustained"}
    for one in points:
        late_here = one["rate"] > one["largest_stable_rate"]
        assert one["reason"] == ("unsustained" if late_here else None)
    brought = worth(
        MODEL, CHIP, drafter="eagle3", draft_len=3, accept_length=[2, 2.8], **asked(BETWEEN)
    )
    assert [row["gain_per_token"] for row in brought.records] == [None, None]
    assert brought.plot() is not None


def test_a_largest_rate_is_looked_for_where_a_plain_server_keeps_up() -> None:
    wanted: dict[str, Any] = {"drafter": SPEC, "solve": "rate", "draft_len": 3, "speedup": 1.5}
    found, none = (
        breakeven(MODEL, CHIP, **wanted, **LOAD, rate=rates, requests=60)
        for rates in ([1, BEYOND], [30, BEYOND])
    )
    assert found.rows[0].value == pytest.approx(22.3, abs=0.05)
    assert (none.rows[0].value, none.rows[0].reason) == (None, "unsustained")


def test_a_default_limit_is_raised_to_the_most_that_ever_run() -> None:
    # SGLang runs 48 with drafts by default.
    words: dict[str, Any] = {"framework": "sglang", "drafters": SPEC}
    words |= {"input_len": 1000, "output_len": 200}
    found = advise(MODEL, CHIP, **words, rate=30, requests=200)
    (chip,) = found.chips
    most = chip.prediction.played[0].most_running[0, chip.rows[0].draft_len]
    assert most > 48
    assert chip.raised == {"running": (48, most)}
    assert f"--max-running-requests {most:.0f}" in (chip.engine_config["sglang"] or "")
    calm = advise(MODEL, CHIP, **words, rate=2, requests=60).chips[0]
    assert calm.raised == {}
    # At the larger rates more than 48 run plain, which has no such limit, and fewer with drafts.
    words = {"engine": "sglang", "drafters": SPEC, "input_len": 2000, "output_len": 300}
    (one,) = predict(MODEL, CHIP, **words, rate=[2, 6.5, 8]).outcomes
    assert one.played is not None
    plain, drafted = one.played.most_running[-1, [0, 3]]
    assert plain > 48 > drafted
    assert [*one.told] == [(None, None)] * 3
    # Plain limits are those of what runs plain, the others of the best length's.
    batches: list[Any] = []

    def closed_form(load: Load, _room: str) -> Outcomes:
        batches.append(load.batch_size)
        return one

    _told_at_peaks(closed_form, one.played, "queue")
    most = one.played.most_running
    assert batches == [[*most[:, 0]], [*most[[0, 1, 2], one.played.best_draft_len]]]
    assert not np.array_equal(most[:, 0], most[:, 1])


def test_the_largest_rate_of_drafts_that_are_off_is_theirs() -> None:
    found = predict(MODEL, CHIP, drafters="eagle3,accept=0.01", **asked(5))
    (row,), (played,) = found.rows, found.played
    assert (row.draft_len, row.tried_draft_len) == (0, 1)
    assert row.largest_stable_rate == played.stable_rate[1] < played.stable_rate[0]
    assert row.plain_largest_stable_rate == played.stable_rate[0]
