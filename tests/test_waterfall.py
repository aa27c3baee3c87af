"""A round against a plain step: its parts add up, and the sentence names the largest."""

from typing import Any

import numpy as np
import pytest

import specroof
from specroof import explain, load_hardware, load_model
from specroof.cost import ForwardPass
from specroof.hardware.profile import Placement
from specroof.latency.setup import Deployment, engine_setup
from specroof.speedup.curve import pass_latency
from specroof.speedup.waterfall import DRAFTING, ENGINE, OTHERS, RoundParts, group_seconds
from tables import present, rows

CHIP = "h100"
CASES: dict[str, tuple[str, str, dict[str, Any]]] = rows("values", "rounds_in_parts")


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("draft_len", [1, 3])
def test_parts_add_up_to_the_round_of_the_curve(case: str, draft_len: int) -> None:
    model, spec, more = CASES[case]
    found = explain(model, CHIP, drafter=spec, draft_len=draft_len, **more)
    curve = specroof.predict(
        model, CHIP, drafters=spec, max_draft_len=draft_len, capacity=False, **more
    ).curves[0]
    at = (0, 0, draft_len)
    parts = present(found.round)
    assert parts.round_s == float(curve.round_s[at])
    whole_s = sum(parts.decode_parts_s.values()) + sum(parts.added_s.values())
    assert whole_s == pytest.approx(float(curve.round_s[at]), rel=1e-9)
    assert sum(parts.decode_parts_s.values()) == pytest.approx(curve.decode_s.item(), rel=1e-9)
    assert parts.speedup == pytest.approx(float(curve.speedup[at]), rel=1e-12)
    # The verification alone, and the engine's own share, from elsewhere.
    engine = found.setup.engine
    batch = curve.batch_size[0]
    engine_s = engine.round_overhead_s + engine.round_sequence_overhead_s * batch
    if case == "tree":
        engine_s += engine.tree_round_overhead_s
    else:  # a lookup finds something in 0.3 of the rounds
        drafts = draft_len * (0.3 if case == "lookup" else 1.0)
        assert found.forward.query_len == pytest.approx(1 + drafts)
    assert parts.added_s.get(ENGINE, 0.0) == pytest.approx(engine_s)
    assert float(found.latency.total_s) == pytest.approx(float(curve.verify_s[at]), rel=1e-9)
    if case != "overlap":
        drafting = parts.added_s.get(DRAFTING, 0.0)
        assert drafting == pytest.approx(float(curve.draft_s[at]), rel=1e-9, abs=1e-15)
    else:  # what the target waits for: PEARL's formula, from the same drafter in line
        in_line = specroof.predict(
            model, CHIP, drafters="eagle3,accept=.7", max_draft_len=draft_len, **more
        ).curves[0]
        draft_s, verify_s = float(in_line.draft_s[at]), float(curve.verify_s[at])
        felt_s = 0.6 * max(draft_s, verify_s) + 0.4 * (draft_s + verify_s) - verify_s
        assert parts.added_s[DRAFTING] == pytest.approx(felt_s, rel=1e-9)


@pytest.mark.parametrize("stages", [1, 2])
def test_drafts_that_take_no_time_add_none(stages: int) -> None:
    found = explain(
        "Qwen/Qwen3-8B", CHIP, drafter="ideal", draft_len=3, batch_size=64,
        pipeline_parallel=stages, engine="vllm",
    )  # fmt: skip
    parts, engine = present(found.round), found.setup.engine
    added = parts.added_s
    assert DRAFTING not in added
    assert (added.get(OTHERS, 0.0) > 0) is (stages > 1)
    # The engine adds to a round of a micro-batch.
    engine_s = engine.round_overhead_s + engine.round_sequence_overhead_s * 64 / stages
    assert added[ENGINE] == pytest.approx(engine_s)
    assert sum(added.values()) == pytest.approx(parts.round_s - parts.decode_s)


@pytest.mark.parametrize("granularity", ["op", "dtype", "pass"])
def test_groups_add_up_to_the_pass(granularity: str) -> None:
    found = explain(
        "Qwen/Qwen3.5-27B", CHIP, tensor_parallel=2, options={"granularity": granularity}
    )
    assert (found.why, found.decision) == ("", "")  # without a round
    groups = group_seconds(found.latency)
    assert sum(groups.values()) == pytest.approx(float(found.latency.total_s), rel=1e-12)
    assert ("overlap between operations" in groups) is (granularity != "op")
    assert groups["collectives"] == float(found.latency.communication_s)
    state = sum(
        float(op.seconds) for op in found.latency.ops if op.op.kind in {"state", "convolution"}
    )
    assert groups["recurrent state"] == pytest.approx(state)


@pytest.mark.parametrize(("spec", "batch"), [("eagle3,accept=0.7", 64), ("ideal", 1)])
def test_parts_add_up_in_a_pipeline(spec: str, batch: int) -> None:
    load: dict[str, Any] = {"batch_size": batch, "pipeline_parallel": 2, "engine": "vllm"}
    parts = present(explain("Qwen/Qwen3-8B", CHIP, drafter=spec, draft_len=3, **load).round)
    assert sum(parts.added_s.values()) == pytest.approx(parts.round_s - parts.decode_s)


def test_groups_of_many_passes_are_those_of_any_of_them() -> None:
    # One sequence in two stages waits for no other, and 64 do.
    stages = engine_setup(load_hardware(CHIP), "vllm", Placement(1, pipeline_parallel=2), None)
    served = Deployment(load_model("Qwen/Qwen3-8B"), stages)
    latency = pass_latency(served, ForwardPass(np.array([1, 64]), 1, 1024))
    groups = group_seconds(latency)
    assert groups[OTHERS][0] == 0 < groups[OTHERS][1]
    assert sum(groups.values()) == pytest.approx(latency.total_s, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "chip", "batch_size", "draft_len", "overlaps"),
    [
        # FLOP a byte of Qwen3-8B on 295 of H100: 64 of matmuls in a step, 512 in a round; 4 and 32
        # of attention.
        ("Qwen/Qwen3-8B", "h100", 64, 7, {"round"}),
        # Qwen3-32B on 68 of an M2 Max: 128 in a step, 2048 in a round; 8 and 128 of attention.
        ("Qwen/Qwen3-32B", "m2-max", 128, 15, {"step"}),
    ],
)
def test_operations_that_overlap_in_one_of_two_passes_add_up(
    model: str, chip: str, batch_size: int, draft_len: int, overlaps: set[str]
) -> None:
    found = explain(
        model, chip, drafter="ideal", engine="ideal", options={"granularity": "pass"},
        batch_size=batch_size, draft_len=draft_len,
    )  # fmt: skip
    parts = present(found.round)
    step, verification = parts.decode_parts_s, group_seconds(found.latency)
    assert {
        name for name, groups in (("step", step), ("round", verification))
        if "overlap between operations" in groups
    } == overlaps  # fmt: skip
    assert sum(parts.added_s.values()) == pytest.approx(parts.round_s - parts.decode_s)


def test_the_sentence_names_what_adds_most() -> None:
    loses = explain(
        "Qwen/Qwen3-30B-A3B", CHIP, drafter="eagle3,accept=0.3", draft_len=3, batch_size=4
    )
    added_s = present(loses.round).added_s
    assert present(loses.round).speedup < 1
    assert max(added_s, key=added_s.__getitem__) == "experts"
    assert "It adds mostly experts (" in loses.why
    # The acceptance that breaks even does.
    even = explain(
        "Qwen/Qwen3-30B-A3B", CHIP, drafter=f"eagle3,accept={present(loses.break_even).value!r}",
        draft_len=3, batch_size=4,
    )  # fmt: skip
    assert present(even.round).speedup == pytest.approx(1.0, rel=1e-9)
    assert present(even.round).steps == pytest.approx(present(even.round).tokens_per_round)
    assert even.decision.startswith("decision: off; eagle3,")


def test_a_round_that_adds_nothing_names_nothing() -> None:
    parts = RoundParts("x", 2, 1, 0, 1.0, 1.0, 1.5, {}, {"dense matmuls": 1.0})
    assert parts.largest() == []
    assert parts.speedup == 1.5
    found = explain("Qwen/Qwen3-8B", CHIP, drafter="ideal", draft_len=1)
    object.__setattr__(found, "round", parts)
    assert "adds" not in found.why
