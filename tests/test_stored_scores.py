"""Scores that are stored are those that are computed: a drawn part is computed anew.

The draw follows the digest of code and data, so that each change of either draws another part.
"""

import json
import random
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from specroof import scoring
from specroof.evidence import Measurement, load_measurements, load_served, load_splits
from specroof.scoring import local, served, splits
from specroof.scoring import stored as module
from specroof.scoring.local import local_scores
from specroof.scoring.served import ServedScore, ServedValidation, plain_scores, served_scores
from specroof.scoring.splits import ACCEPTANCE, SplitScore, split_scores

#: What loads share that are predicted together; groups of one acceptance are within it.
SERVED_ALIKE = attrgetter(
    *("model", "quantization", "hardware", "engine"),
    *("tensor_parallel", "expert_parallel", "attention_data_parallel"),
)
#: Off by so much, others' scores differ; they are stored to five decimals.
ROUNDED = 2e-5


def drawn(points: Sequence[Measurement], alike: Any, at_least: int) -> list[Measurement]:
    """Return all points of drawn groups, until they are so many, some with drafts."""
    groups: dict[object, list[Measurement]] = {}
    for point in points:
        groups.setdefault(alike(point), []).append(point)
    names = sorted(groups, key=str)
    random.Random(module.digest()).shuffle(names)
    taken: list[Measurement] = []
    while len(taken) < at_least or not any(point.drafts for point in taken):
        taken += groups[names.pop()]
    return taken


def same(found: Sequence[ServedScore], kept: Sequence[ServedScore], within: float) -> bool:
    """Tell whether scores are those that were kept of the same loads."""
    wanted = {id(score.point) for score in found}
    expected = {id(s.point): (s.off, s.unseen) for s in kept if id(s.point) in wanted}
    assert len(expected) == len(found)
    return all(
        score.off == pytest.approx(expected[id(score.point)][0], rel=1e-9, abs=within)
        and score.unseen == expected[id(score.point)][1]
        for score in found
    )


@pytest.mark.long
def test_served_scores_are_those_that_are_stored(served_validated: ServedValidation) -> None:
    loads = drawn(load_served(), SERVED_ALIKE, 30)
    kept = json.loads(Path(__file__).with_name("stored_scores.json").read_text())
    found, others = served_scores(loads)
    assert same(found.scores, served_validated.scores, 1e-9)
    for name, scores in others.items():
        assert same(scores, module.scores_of(kept[name]), ROUNDED), name
    reasons = {id(load): why for load, why in served_validated.left_out}
    for load, why in found.left_out:
        assert reasons[id(load)] == why


@pytest.mark.long
def test_scores_of_played_loads_are_those_that_are_stored(
    served_validated: ServedValidation,
) -> None:
    counted = [score.point for score in served_validated.counted]
    kept = json.loads(Path(__file__).with_name("stored_scores.json").read_text())
    loads = drawn(counted, SERVED_ALIKE, 8)
    for name, by in {"played": "model", "played as shipped": None}.items():
        assert same(plain_scores(loads, by, played=True), module.scores_of(kept[name]), ROUNDED)  # type: ignore[arg-type]  # names


def test_totals_are_those_of_the_scores_that_are_stored(served_validated: ServedValidation) -> None:
    kept = json.loads(Path(__file__).with_name("stored_scores.json").read_text())
    assert kept.keys() == served_validated.other_totals.keys()
    counted = {id(score.point) for score in served_validated.counted}
    for name, totals in served_validated.other_totals.items():
        scores = [one for one in module.scores_of(kept[name]) if id(one.point) in counted]
        for figure, errors in served.served_errors(scores).items():
            assert (errors is None) == (totals[figure] is None), (name, figure)
            if errors is not None and (total := totals[figure]) is not None:
                seen, told = ([e.n, e.mean, e.median, e.p90, e.bias] for e in (errors, total))
                assert seen == pytest.approx(told, rel=1e-3, abs=1e-4), (name, figure)


@pytest.mark.long
def test_published_predictions_are_those_that_are_stored(stored: dict[str, Any]) -> None:
    points = drawn(load_measurements(), attrgetter("source", "model", "hardware"), 60)
    places: dict[str, dict[int, float]] = {}
    said, strange, _ = scoring._by_what_they_say(None)
    for name, values in stored["published"].items():
        of = [*said, *strange] if name == "generic" else said
        places[name] = dict(zip(map(id, of), values, strict=True))
    said, strange, _ = scoring._by_what_they_say(points)
    for name, values in scoring.predictions(points).items():
        of = [*said, *strange] if name == "generic" else said
        assert values == pytest.approx([places[name][id(point)] for point in of], rel=1e-9), name


@pytest.mark.long
def test_scores_of_split_workers_are_those_that_are_stored(
    split_validated: tuple[SplitScore, ...],
) -> None:
    loads = drawn(load_splits(), ACCEPTANCE, 10)
    kept = {id(score.point): (score.tpot_s, score.ttft_s) for score in split_validated}
    for score in split_scores(loads):
        assert (score.tpot_s, score.ttft_s) == pytest.approx(kept[id(score.point)], rel=1e-9)


def test_scores_of_local_machines_are_those_that_are_stored(stored: dict[str, Any]) -> None:
    found, kept = local_scores(), module.stored_local(stored)
    assert [(id(one.point), one.kind) for one in found] == [(id(s.point), s.kind) for s in kept]
    for name in ("predicted", "measured"):
        seen, told = ([getattr(one, name) for one in scores] for scores in (found, kept))
        assert seen == pytest.approx(told, rel=1e-9)


def test_what_is_stored_is_read_as_it_was_written(
    stored: dict[str, Any],
    served_validated: ServedValidation,
    split_validated: tuple[SplitScore, ...],
) -> None:
    of_local = module.stored_local(stored)
    again = module.to_store(stored["published"], served_validated, split_validated, of_local)
    assert again == stored | {"digest": module.digest()}


def test_the_digest_is_of_the_code_below_and_of_data_and_of_nothing_above(tmp_path: Path) -> None:
    def written(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return module.digest(tmp_path)

    empty = module.digest(tmp_path)
    seen = [written("latency/model.py", text) for text in ("a", "b", "a")]
    assert seen[0] == seen[2] not in {empty, seen[1]}
    assert written("evidence/rows.csv", "a") not in {empty, *seen}
    before = module.digest(tmp_path)
    for name in ("cli/flags.py", "questions/worth.py", "scoring/stored.json", "cost/read.txt"):
        assert written(name, "a") == before
    assert written("cost/renamed.py", "a") != before


def test_scores_of_other_code_or_hardware_are_computed(
    stored: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = iter(range(99))
    monkeypatch.setattr(scoring, "validation", lambda predicted=None: predicted or next(computed))
    monkeypatch.setattr(served, "served_validation", lambda **_: next(computed))
    monkeypatch.setattr(splits, "split_scores", lambda: next(computed))
    monkeypatch.setattr(local, "local_scores", lambda: next(computed))
    monkeypatch.setattr(module, "digest", lambda: stored["digest"])
    kept: Any = module.published()
    assert kept[0] == stored["published"]
    assert kept[1].other_totals.keys() >= {"shipped", "played", "played as shipped"}
    assert next(computed) == 0
    with monkeypatch.context() as own:
        own.setenv("SPECROOF_HARDWARE_PATH", "mine")
        assert sorted(module.published()) == [1, 2, 3, 4]  # type: ignore[type-var]  # numbers here
    monkeypatch.setattr(module, "digest", lambda: "other")
    assert sorted(module.published(played=True)) == [5, 6, 7, 8]  # type: ignore[type-var]  # as above
