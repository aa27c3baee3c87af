"""Bands of played requests: the load again, on a server whose passes or rounds take longer."""

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from specroof import HardwareProfile, load_drafter, load_hardware, load_model, predict
from specroof.hardware.engine import Band, CapturedGraphs, EngineProfile
from specroof.latency.setup import Deployment, engine_setup
from specroof.outcomes.case import Case
from specroof.outcomes.outcomes import Outcomes, _can_win, outcomes
from specroof.outcomes.rows import bands_around
from specroof.serving.workload import Load, Workload
from tables import present

PASSES: Final = 0.2
ROUNDS: Final = 0.3
#: Waits and throughput that were measured are off by less than passes are, but where told.
NONE: Final = 1e-9
SPEC: Final = "block,cost=0.2,drafts=3,accept-length=2.6@3"
#: An answer of one round, so to speak, and one of a prompt; both without memory running out.
SHORT: Final = {"input_len": 1, "output_len": 400}
LONG: Final = {"input_len": 6000, "output_len": 60}
RATE: Final = {"input_len": 2000, "output_len": 200, "rate": 3.0, "requests": 300}


def chip(
    *,
    passes: float = PASSES,
    rounds: float = ROUNDS,
    waits: float = NONE,
    rate: float | None = NONE,
    times: float = 1.0,
) -> HardwareProfile:
    """Return a chip without overheads whose passes all take so many times as long."""
    # Those of the steady state are not of loads that are played through.
    widths = dict.fromkeys(("tpot_s", "tokens_per_s", "ttft_s"), 9.0)
    played = {"played_tpot_s": passes, "played_tokens_per_s": rate, "played_ttft_s": waits}
    engine = EngineProfile(
        name="vllm",
        bands={"other": Band(width=rounds, mean_error=0.1, points=9)},
        served_bands={
            name: {"any": Band(width=width, mean_error=0.1, points=9)}
            for name, width in (widths | played).items()
            if width is not None
        },
    )
    h100 = load_hardware("h100")
    peak = replace(
        h100.peak,
        flops_per_s={name: rate / times for name, rate in h100.peak.flops_per_s.items()},
        memory_bytes_per_s=h100.peak.memory_bytes_per_s / times,
    )
    return replace(h100, peak=peak, engines={"vllm": engine}, default_engine="vllm")


def outcome(load: dict[str, Any], **times: Any) -> Outcomes:
    return predict("Qwen/Qwen3-8B", chip(**times), drafters=SPEC, **load).outcomes[0]


def sides(one: Outcomes, name: str, drafts: int) -> tuple[float, float]:
    """Return the logarithms of both sides of a band."""
    ends = present(one.speedup_ends if name == "speedup" else one.figure_ends[name])
    middle = (one.curve if name == "speedup" else one.end_to_end).__getattribute__(name)
    below, above = (float(end[0, 0, drafts] / middle[0, 0, drafts]) for end in ends)
    return -math.log(below), math.log(above)


def best(one: Outcomes) -> int:
    """Return the best length of those that were measured; without a speedup, of what decides."""
    return int(np.nanargmax(one.deciding[0][0, 0, :4]))


@pytest.mark.parametrize(
    "load",
    [
        SHORT | {"concurrency": 8},
        LONG | {"concurrency": 8},
        RATE,
        RATE | {"rate": 40.0, "requests": 60},  # none keeps up, and no speedup is known
    ],
)
def test_ends_are_those_of_a_slower_and_of_a_faster_chip(load: dict[str, Any]) -> None:
    one = outcome(load, rounds=NONE)
    chips = [one, *(outcome(load, times=math.exp(sign * PASSES)) for sign in (1, -1))]
    names = ("tokens_per_s", "tpot_s", "ttft_s", *(() if one.unsustained.any() else ("speedup",)))
    for drafts in (0, best(one)):
        for name in names:
            ends = present(one.speedup_ends if name == "speedup" else one.figure_ends[name])
            figures = [
                getattr(each.curve if name == "speedup" else each.end_to_end, name)
                for each in chips
            ]
            seen = sorted(float(figure[0, 0, drafts]) for figure in figures)
            found = [float(end[0, 0, drafts]) for end in ends]
            assert found == pytest.approx([seen[0], seen[-1]], rel=1e-6), name
    assert sides(one, "speedup", 0) == (0, 0)


@pytest.mark.usefixtures("expected_rounds")
def test_of_clients_without_prompts_both_errors_add_up_as_squares() -> None:
    one = outcome(SHORT | {"concurrency": 8})
    both, rounds = math.hypot(PASSES, ROUNDS), ROUNDS
    assert sides(one, "tpot_s", best(one)) == pytest.approx((both, both), rel=0.02)
    assert sides(one, "tokens_per_s", best(one)) == pytest.approx((both, both), rel=0.02)
    assert sides(one, "speedup", best(one)) == pytest.approx((rounds, rounds), rel=0.02)


def test_prompts_which_drafts_do_not_shorten_narrow_the_band_of_a_speedup() -> None:
    one = outcome(LONG | {"concurrency": 8})
    assert all(0 < side < ROUNDS / 2 for side in sides(one, "speedup", best(one)))
    other = 1 if best(one) > 1 else 2  # a length that is not the best keeps the engine's band
    assert sides(one, "speedup", other) == pytest.approx((ROUNDS, ROUNDS), rel=0.05)


def test_a_server_that_hardly_keeps_up_may_not_keep_up() -> None:
    calm = outcome(RATE | {"rate": 0.5})
    rates = present(calm.stable_rates(1))
    busy = outcome(RATE | {"rate": 0.97 * rates[0]})
    assert not busy.unsustained.any()
    assert sides(calm, "ttft_s", 0)[1] < 1.5 * PASSES
    assert sides(busy, "ttft_s", 0)[1] > 3 * PASSES
    often, seldom = (sides(one, "speedup", best(one)) for one in (busy, calm))
    assert all(side > 1.2 * other for side, other in zip(often, seldom, strict=True))


def test_waits_are_off_by_what_measured_ones_are_where_that_is_more() -> None:
    clients = SHORT | {"concurrency": 8}
    wide = outcome(clients, waits=1.5, rate=1.1)
    assert sides(wide, "ttft_s", 0) == pytest.approx((1.5, 1.5))
    assert sides(wide, "tokens_per_s", 0) == pytest.approx((1.1, 1.1))
    # Of requests that come by themselves, throughput is theirs.
    assert max(sides(outcome(RATE, rate=1.1), "tokens_per_s", 0)) < PASSES
    assert sides(wide, "tpot_s", 0) == pytest.approx((PASSES, PASSES), rel=1e-6)


def test_a_figure_beside_an_outcome_has_its_band_around_itself() -> None:
    found = predict("Qwen/Qwen3-8B", "h100", drafters=SPEC, batch_size=[4, 8], max_draft_len=3)
    (one,), row = found.outcomes, found.rows[1]
    names = ("speedup", "tokens_per_s", "tpot_s")
    own = bands_around(row, one, 1, [row.draft_len])
    for name in names:
        assert own[name] == pytest.approx(row.bands[name])
    # Twice as much has ends twice as far, and of several lengths each end is that farthest out.
    twice = replace(row, tokens_per_s=2 * row.tokens_per_s)
    low, high = bands_around(twice, one, 1, [row.draft_len])["tokens_per_s"]
    assert (low / 2, high / 2) == pytest.approx(row.bands["tokens_per_s"])
    each = [bands_around(row, one, 1, [drafts])["speedup"] for drafts in (1, 3)]
    lows, highs = zip(*each, strict=True)
    assert bands_around(row, one, 1, [1, 3])["speedup"] == (min(lows), max(highs))
    assert lows[0] != lows[1]


def test_who_has_room_waits_for_a_prompt_alone() -> None:
    # Sixteen clients of whom four run: the time to a first token is in the queue, and then little.
    asked: dict[str, Any] = LONG | {"concurrency": 16, "server": "running=4"}
    (one,) = predict("Qwen/Qwen3-8B", "h100", drafters=SPEC, **asked).outcomes
    queue_s = present(one.played).figures["mean_queue_s"][0, 0]
    first_s, ttft_s = (
        getattr(present(one.end_to_end), name)[0, 0, 0] for name in ("first_s", "ttft_s")
    )
    assert 0 < first_s < queue_s
    assert first_s + queue_s == pytest.approx(ttft_s)
    # What prompts add to a token of plain decoding, whose rounds are a token each.
    whole = present(one.end_to_end)
    added_s = (whole.curve.round_s - whole.decoding_round_s)[0, 0]
    assert np.ravel(whole.curve.request_token_s) == pytest.approx([added_s[0]])
    assert added_s[1] > 1.1 * added_s[0] > 0


@pytest.mark.parametrize("load", [SHORT, LONG])
def test_throughput_that_nobody_measured_is_as_sure_as_passes_and_first_tokens(
    load: dict[str, Any],
) -> None:
    one = outcome(load | {"concurrency": 8}, waits=0.7, rate=None, rounds=NONE)
    seen = present(one.played).figures
    for drafts in (0, best(one)):
        # A first token takes its share of an answer's time, and what that is off by of itself.
        share = seen["mean_ttft_s"][0, drafts] / seen["mean_latency_s"][0, drafts]
        both = math.hypot(PASSES, math.log1p(share * math.expm1(0.7)))
        assert sides(one, "tokens_per_s", drafts) == pytest.approx((both, both), rel=1e-3)
    other = 1 if best(one) > 1 else 2  # without a replay: by the steps and the speedup
    one = outcome(load | {"concurrency": 8}, waits=0.7, rate=None)
    both = math.hypot(PASSES, ROUNDS)
    assert sides(one, "tokens_per_s", other) == pytest.approx((both, both), rel=0.05)


def test_an_engine_that_knows_errors_of_speedups_alone_has_bands_of_these() -> None:
    bare = chip()
    engine = replace(bare.engines["vllm"], served_bands={})
    told = replace(bare, engines={"vllm": engine})
    load: Any = LONG | {"concurrency": 8}
    one = predict("Qwen/Qwen3-8B", told, drafters=SPEC, **load).outcomes[0]
    assert 0 < max(sides(one, "speedup", best(one))) < ROUNDS / 2  # replays, not the engine's band
    assert set(one.figure_ends.values()) == {None}
    none = replace(bare, engines={"vllm": replace(engine, bands={})})
    without = predict("Qwen/Qwen3-8B", none, drafters=SPEC, **load).outcomes[0]
    assert without.speedup_ends is None


def test_launches_that_nobody_timed_may_take_no_time() -> None:
    b200, told = load_hardware("b200"), chip(passes=PASSES, rounds=NONE).engines["vllm"]

    def launching(kernel_s: float) -> Outcomes:
        graphs = CapturedGraphs(sizes=(1,), counts="sequences", eager_kernel_s=kernel_s)
        engine = replace(told, name="sglang", graphs=graphs)
        chips = replace(b200, engines={"sglang": engine}, default_engine="sglang")
        asked: Any = {"drafters": SPEC, "tensor_parallel": 4, "server": "capture=1", **SHORT}
        found = predict("deepseek-ai/DeepSeek-V4-Flash", chips, **asked, concurrency=4)
        return found.outcomes[0]

    one, free = launching(3e-7), launching(0.0)
    for drafts in (0, best(one)):
        most, middle = (float(each.tokens_per_s[0, 0, drafts]) for each in (free, one))
        assert most > middle
        gained = (PASSES, PASSES + math.log(most / middle))
        assert sides(one, "tokens_per_s", drafts) == pytest.approx(gained, rel=0.01)


@pytest.mark.usefixtures("expected_rounds")
def test_each_side_of_a_lopsided_acceptance_is_its_own() -> None:
    one = outcome(SHORT | {"concurrency": 8})
    curve = replace(present(one.replays).curve, spread=(np.array(0.1), np.array(0.5)))
    ends = present(replace(present(one.replays), curve=curve).ends("speedup", curve.speedup, None))
    at = (0, 0, best(one))
    below, above = (abs(math.log(end[at] / curve.speedup[at])) for end in ends)
    assert below == pytest.approx(math.hypot(ROUNDS, 0.1), rel=0.03)
    assert above == pytest.approx(math.hypot(ROUNDS, 0.5), rel=0.03)


@pytest.mark.parametrize("drafts", [1, 2])
def test_drafts_of_a_schedule_have_the_band_that_they_have_where_they_are_best(drafts: int) -> None:
    load: dict[str, Any] = {**SHORT, "concurrency": 16, "draft_len": [drafts]}
    alone = outcome({**load, "max_draft_len": drafts})
    among = outcome({**SHORT, "concurrency": [16, 8, 4], "max_draft_len": 3})
    assert np.isnan(present(among.played).figures["tokens_per_s"][0, drafts])  # not played so far
    assert among.curve.best_draft_len[0, 0] == 3
    scheduled = among.with_schedule([drafts, 3 - drafts, 3 - drafts])
    for name in ("speedup", "tokens_per_s", "tpot_s", "ttft_s"):
        by_itself, there, by_default = (
            sides(one, name, drafts) for one in (alone, scheduled, among)
        )
        assert there == pytest.approx(by_itself, rel=1e-9)
        assert name in {"speedup", "tpot_s"} or there != pytest.approx(by_default, rel=1e-2)
        # Those of other loads have none here.
        assert sides(scheduled, name, 3 - drafts) == sides(among, name, 3 - drafts)


def test_each_load_has_the_bands_that_it_has_alone() -> None:
    served = Deployment(load_model("Qwen/Qwen3-8B"), engine_setup(chip(), None, None, None))

    def ends(batches: list[float], counts: list[int]) -> list[float]:
        load = Load(batches, [300.0], Workload(200, 200), requests=counts)
        one = outcomes(Case(served, load), load_drafter(SPEC), max_draft_len=3)
        bands = (one.speedup_ends, *one.figure_ends.values())
        return np.array([present(band) for band in bands])[:, :, 0, -1].ravel().tolist()

    # The batch between them, at which another length is best, is not played.
    assert ends([16, 512, 8], [160, 0, 80]) == pytest.approx(ends([8], [80]))


def outcome_at(**load: float) -> Outcomes:
    asked: dict[str, Any] = {"drafters": "eagle3,accept-length=2.8@3", "draft_len": 3}
    return predict("Qwen/Qwen3-8B", "h100", **asked | load).outcomes[0]


def test_an_answer_takes_its_rounds_what_a_request_loses_and_the_prompts_of_others() -> None:
    requests = present(outcome_at(concurrency=16, input_len=2000, output_len=300).end_to_end)
    curve = requests.curve
    # Little's law: as many run as come a second times the seconds of each.
    taken_s = curve.running_batch * 300 / requests.tokens_per_s
    rounds_s = requests.decoding_round_s / curve.tokens_per_round * 300
    parts_s = rounds_s + requests.latency_s + curve.running_batch * requests.delay_s
    assert parts_s[0, 0, [0, 3]] == pytest.approx(taken_s[0, 0, [0, 3]])


def test_rounds_of_requests_at_a_rate_last_as_long_as_their_answers_take() -> None:
    one = outcome_at(rate=4, requests=20, input_len=500, output_len=60)
    curve = present(one.end_to_end).curve
    taken_s = curve.round_s[0, 0] / curve.tokens_per_round[0, 0] * 60
    seen_s = present(one.played).figures["mean_latency_s"][0]
    assert taken_s[[0, 3]] == pytest.approx(seen_s[[0, 3]])


def test_lengths_that_may_be_best_are_played_and_of_requests_at_a_rate_all() -> None:
    # Of clients without targets those are played that reach 96% of the best, of others all.
    assert _can_win(np.array([9.0, 1.0, 0.96, 0.95, np.nan, 1.0])) == {1, 2, 5}
    assert _can_win(np.array([9.0])) == set()
    asked: dict[str, Any] = {"input_len": 200, "output_len": 20, "drafters": "eagle3,accept=0.5"}
    some, every = (
        present(predict("Qwen/Qwen3-8B", "h100", **asked | more).outcomes[0].played)
        for more in ({"concurrency": 4}, {"rate": 2.0, "requests": 40})
    )
    seen = [np.isfinite(played.figures["tokens_per_s"][0, 1:]) for played in (some, every)]
    assert not seen[0].all()
    assert seen[1].all()


@pytest.mark.parametrize("lengths", [(2, 5), (1, 4)])
def test_what_playing_changes_is_guessed_between_lengths_that_are_played(
    lengths: tuple[int, int],
) -> None:
    load = Load([8], [2100.0], Workload(2000, 200), requests=[80])
    served = Deployment(load_model("Qwen/Qwen3-8B"), engine_setup(chip(), None, None, None))
    asked: Any = {"max_draft_len": 6, "draft_lens": lengths, "only": True}
    played, steady = (
        present(outcomes(Case(served, one), load_drafter(SPEC), **asked).end_to_end)
        for one in (load, load.steady)
    )
    for name in ("tokens_per_s", "answer_s", "ttft_s", "tpot_s"):
        shares = (getattr(played, name) / getattr(steady, name))[0, 0]
        assert shares[1:] == pytest.approx(np.interp(range(1, 7), lengths, shares[[*lengths]]))
        assert len({*np.round(shares[[0, *lengths]], 6)}) == 3
