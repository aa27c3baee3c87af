"""How far predictions of published measurements may be off: servers, split ones, local machines.

Of servers, whole groups of loads are left out of the fits. A target that is missed is an expected
failure with the figure that was reached.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from specroof.catalog import local_engines
from specroof.evidence import load_splits
from specroof.questions.validate import split_json
from specroof.scoring.local import REPORTS, draft_len_regrets, left_out_engine
from specroof.scoring.local import errors_of as local_errors_of
from specroof.scoring.scores import Scored
from specroof.scoring.served import FIGURES, TPOT_RATIO, ServedValidation, chip_family, errors_over
from specroof.scoring.splits import ACCEPTANCE, SplitScore, split_score
from specroof.scoring.stored import stored_local
from tables import missed, rows

NVIDIA = ("hopper", "blackwell")
AMD = ("cdna3", "cdna4")


def error(served: ServedValidation, total: str, figure: str, kind: str = "median") -> float:
    found = (served.other_totals[total] if total else served.total)[figure]
    assert found is not None
    return float(getattr(found, kind))


@pytest.mark.parametrize(
    ("families", "kind", "target"),
    [
        missed("7.2 %, 6.7 % simulated,", NVIDIA, "median", 0.07),
        missed("23.6 %, 20.0 % simulated,", NVIDIA, "p90", 0.20),
        missed("10.8 %, 11.1 % simulated,", AMD, "median", 0.10),
    ],
)
def test_targets_of_tpot_by_maker_are_reached(
    served_validated: ServedValidation, families: tuple[str, ...], kind: str, target: float
) -> None:
    scores = [one for one in served_validated.counted if chip_family(one.point) in families]
    found = errors_over([one.off["tpot_s"] for one in scores if "tpot_s" in one.off])
    assert getattr(found, kind) <= target


@pytest.mark.parametrize(
    ("total", "figure", "kind", "target"),
    [
        missed("11.2 %, 10.7 % simulated,", "", "tokens_per_s", "median", 0.09),
        ("played", "ttft_s", "median", 0.18),
        missed("8.0 %", "", TPOT_RATIO, "mean", 0.06),
        ("chip", "tpot_s", "median", 0.15),
        ("played as shipped", "ttft_s", "median", 0.20),
        ("played as shipped", "tokens_per_s", "median", 0.09),
    ],
)
def test_targets_are_reached(
    served_validated: ServedValidation, total: str, figure: str, kind: str, target: float
) -> None:
    assert error(served_validated, total, figure, kind) <= target


@pytest.mark.parametrize(
    ("totals", "figure", "kind"),
    [
        *((("played", ""), name, "median") for name in FIGURES),
        *((("played", ""), name, "p90") for name in FIGURES),
        *((("played as shipped", "shipped"), "tpot_s", kind) for kind in ("median", "p90")),
    ],
)
def test_loads_that_are_played_through_are_predicted_no_worse_than_in_a_steady_state(
    served_validated: ServedValidation, totals: tuple[str, str], figure: str, kind: str
) -> None:
    played, steady = (error(served_validated, total, figure, kind) for total in totals)
    if (totals[0], figure, kind) == ("played", "tpot_s", "median") and played <= steady + 0.001:
        pytest.xfail(
            f"{played:.2%} off, where the steady state is {steady:.2%}: no fit counts yet "
            "that first tokens are late and answers are not"
        )
    assert played <= steady


def test_no_load_is_scored_by_a_fit_that_has_seen_its_model(
    served_validated: ServedValidation,
) -> None:
    assert served_validated.in_sample == 0


# --- prefill and decode workers ------------------------------------------------------------


def errors(scores: list[SplitScore]) -> Any:
    return np.abs(np.expm1([score.off for score in scores]))


def test_every_load_is_read_and_scored(split_validated: tuple[SplitScore, ...]) -> None:
    rows = [point.source for point in load_splits()]
    assert {name: rows.count(name) for name in set(rows)} == {
        "inferencex-deepseek-r1": 67,
        "inferencex-pr2607": 7,
    }
    assert len(split_validated) == 74
    first = load_splits()[0]
    assert (first.decode_workers, first.prefill_workers, first.concurrency) == (6, 1, 256)
    assert first.tpot_s == pytest.approx(8.91807e-3)


def of_r1(scores: tuple[SplitScore, ...], *, drafts: bool) -> list[SplitScore]:
    return [
        score
        for score in scores
        if score.point.source == "inferencex-deepseek-r1" and score.point.drafts is drafts
    ]


@pytest.mark.parametrize(
    ("which", "n", "most"),
    [
        ("plain", 33, 0.12),
        # Rounds of V3.1-NVFP4 on B200 under TensorRT-LLM with many requests a worker are too slow.
        missed("9.8 %", "drafted", 34, 0.08),
        missed("9.8 %", "others", 30, 0.08),
    ],
)
def test_tpot_of_decode_workers_is_predicted(
    split_validated: tuple[SplitScore, ...], which: str, n: int, most: float
) -> None:
    scores = of_r1(split_validated, drafts=which != "plain")
    if which == "others":  # a load that tells its acceptance alone is met by it
        groups = Counter(ACCEPTANCE(score.point) for score in scores)
        scores = [score for score in scores if groups[ACCEPTANCE(score.point)] > 1]
    assert len(scores) == n
    assert np.median(errors(scores)) <= most


def test_one_acceptance_of_a_group_takes_out_its_mean_error(
    split_validated: tuple[SplitScore, ...],
) -> None:
    groups: dict[tuple[object, ...], list[float]] = {}
    for score in split_validated:
        point = score.point
        if point.drafts:
            key = (point.model, point.hardware, point.engine, point.draft_len, point.input_len)
            groups.setdefault(key, []).append(score.off)
    assert np.median([abs(np.mean(off)) for off in groups.values()]) < 0.02


def test_drafted_over_plain_tpot_of_pull_request_2607_is_predicted_in_shape(
    split_validated: tuple[SplitScore, ...],
) -> None:
    ratios: dict[int, dict[bool, float]] = {}
    for score in split_validated:
        if score.point.source == "inferencex-pr2607":
            ratios.setdefault(int(score.point.concurrency or 0), {})[score.point.drafts] = score.off
    off = np.array([pair[True] - pair[False] for pair in ratios.values() if len(pair) == 2])
    assert len(off) == 3
    assert np.abs(np.expm1(off - off.mean())).max() <= 0.08


def test_split_loads_are_scored_by_this_code(split_validated: tuple[SplitScore, ...]) -> None:
    for stored in (one for one in split_validated if one.point.source == "inferencex-pr2607"):
        if not stored.point.drafts:
            assert split_score(stored.point).off == pytest.approx(stored.off, abs=1e-4)


def test_fewer_devices_decode_more_each_where_prefill_is_short() -> None:
    """Pull request 2607: at 128 in flight, 4 devices for decoding serve 1.83 times as much each."""
    drafted = next(p for p in load_splits() if p.source == "inferencex-pr2607" and p.drafts)

    def per_device(devices: int) -> float:
        load = replace(drafted, concurrency=128, tensor_parallel=devices)
        score = split_score(load, 2.2)
        answer_s = score.ttft_s + score.tpot_s * 1023
        return 128 * 1024 / answer_s / (4 + devices)

    assert 1.2 <= per_device(4) / per_device(8) <= 1.83


def test_errors_of_split_loads_are_of_each_group(split_validated: tuple[SplitScore, ...]) -> None:
    groups = split_json(split_validated)
    assert sum(group["n"] for group in groups) == 74
    plain = [one for one in of_r1(split_validated, drafts=False) if one.point.hardware == "h200"]
    off = errors([one for one in plain if one.point.engine == "sglang"])
    named = {"hardware": "h200", "engine": "sglang", "drafted": False}
    (group,) = (group for group in groups if named.items() <= group.items())
    assert group["median"] == pytest.approx(np.median(off))


# --- machines of one user ------------------------------------------------------------

Scores = tuple[Scored, ...]


@pytest.fixture(scope="module")
def scores(stored: dict[str, Any]) -> Scores:
    return stored_local(stored)


def test_left_out_fits_have_not_seen_the_model(scores: Scores) -> None:
    known = local_engines()
    for score in scores:
        name = score.point.engine or ""
        if score.point.source != REPORTS and score.point.model in known.left_out[name]:
            assert left_out_engine(score.point) != known.engines[name]


def chosen(scores: Sequence[Scored], kind: str, *sources: str) -> list[Scored]:
    return [one for one in scores if one.kind == kind and one.point.source in sources]


def of(point: Scored, **wanted: str) -> bool:
    return all(str(getattr(point.point, name)) == value for name, value in wanted.items())


@pytest.mark.parametrize(("kind", "sources", "wanted", "most"), rows("values", "local_targets"))
def test_measurements_on_local_machines_are_predicted_so_well(
    scores: Scores, kind: str, sources: list[str], wanted: dict[str, str], most: float
) -> None:
    mine = [one for one in chosen(scores, kind, *sources) if of(one, **wanted)]
    assert mine
    found = local_errors_of(mine)
    assert found.mean <= most
    assert found.verdicts is None or found.verdicts >= 0.95


def test_a_3090_is_predicted_with_its_jump_at_9_rows(scores: Scores) -> None:
    """Of its drafts of 1 to 7 two are best, and 8 are better than 7 (github.com/thc1006)."""
    mine = [one for one in chosen(scores, "speedup", REPORTS) if of(one, hardware="rtx-3090")]
    assert mine[7].predicted > mine[6].predicted
    assert max(mine[:7], key=attrgetter("predicted")).point.draft_len == 2


def test_the_draft_length_predicted_best_loses_little(scores: Scores) -> None:
    regrets = draft_len_regrets(scores)
    assert len(regrets) > 18
    assert np.mean(regrets) <= 0.03


def test_signs_of_apple_machines_that_no_fit_counts(scores: Scores) -> None:
    for chip, gains in {"m1-ultra": 0, "m1-max": 0, "m3-ultra": 1, "m5-max": 1}.items():
        mine = [one for one in chosen(scores, "speedup", REPORTS) if of(one, hardware=chip)]
        assert mine
        assert all((one.predicted > 1) == (one.measured > 1) == gains for one in mine)
