"""Machines of one user: kernels by rows, engines llama.cpp and MLX, their evidence and flags."""

import json
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import specroof
from gguf_files import gguf_bytes
from specroof.acceptance import rate_acceptance
from specroof.architecture import (
    Architecture,
    Block,
    Experts,
    Layer,
    Linear,
    OpCost,
    WeightFormat,
)
from specroof.architecture.base import Routing, linear_cost
from specroof.architecture.draft_heads import usual_mtp
from specroof.architecture.mixes import GGUF_FORMATS, blend, mixed
from specroof.catalog import (
    hardware_names,
    load_drafter,
    load_hardware,
    load_model,
    local_engines,
)
from specroof.cli import app
from specroof.cost import ForwardPass, Options, forward_cost
from specroof.drafters.kinds import beta_tail, stopped_proposals
from specroof.errors import CatalogError, MeasurementError, OptionError, ProfileError
from specroof.evidence import load_local, read_benchmark
from specroof.hardware import (
    EngineProfile,
    HardwareProfile,
    LocalEngines,
    Peak,
    Placement,
    RowKernel,
    ServerSettings,
    parse_hardware,
)
from specroof.latency import Deployment, Setup, engine_setup, model_latency
from specroof.latency.attention_reading import drafting_setup
from specroof.latency.model import row_kernel_factors
from specroof.questions.validate import local_json, local_text
from specroof.scoring.local import (
    REPORTS,
    LocalScore,
    draft_len_regrets,
    errors_of,
    left_out_engine,
    local_scores,
)
from specroof.serving.capacity import served_room
from specroof.serving.launch import YOUR_FILE, Speculation, launch, server_command
from specroof.serving.room import draft_footprint, target_footprint

ZERO = np.zeros(())
Scores = tuple[LocalScore, ...]
STRIX = "ryzen-ai-max-395"


def dense(rows: object, bits: float = 4.5) -> OpCost:
    up = Linear("up_proj", 64, 32, weight=WeightFormat("q", bits / 8, "bf16"))
    return linear_cost(up, tokens=np.asarray(rows, dtype=float), block="mlp", count=1)


def experts(tokens: float, hit: float, top_k: int = 8) -> OpCost:
    visits = tokens * top_k
    return OpCost(
        "experts", "experts", 1, np.array(2.0 * 100 * visits), np.array(hit * 100 * 0.5),
        ZERO, ZERO, "bf16", rows=np.array(visits / hit),
        routing=Routing(128, top_k, 0, np.array(tokens), np.array(hit)),
    )  # fmt: skip


def moe(core: Experts) -> Architecture:
    layer = Layer((Block("feed_forward", (), core),))
    return Architecture("toy", "llama", 256, 100, (layer,), Linear("lm_head", 256, 100))


# --- Kernels by rows ------------------------------------------------------------------------------


def test_the_first_kernel_that_takes_rows_and_bits_computes_an_operation() -> None:
    kernels = [
        RowKernel(rows=8, bits=5, compute_frac=0.1),
        RowKernel(rows=8, compute_frac=0.5, memory_share=0.8),
        RowKernel(compute_frac=0.4, tile=16),
    ]
    flops, moved = row_kernel_factors(dense([1, 8, 9, 16, 17]), kernels)
    # 9 and 16 rows are computed as 16, 17 as 32
    by_hand = [10, 10, 16 / 9 / 0.4, 1 / 0.4, 32 / 17 / 0.4]
    assert flops == pytest.approx(by_hand)
    assert moved.tolist() == [1, 1, 1, 1, 1]
    flops, moved = row_kernel_factors(dense(2, bits=8.5), kernels)
    assert (float(flops), float(moved)) == (2.0, 1.25)


def test_experts_have_kernels_of_their_own_by_the_tokens_of_the_pass() -> None:
    few = RowKernel(of="experts", rows=4, compute_frac=0.5, repeats=True)
    tiles = RowKernel(of="experts", compute_frac=0.25, tile=32)
    # 4 tokens hit 29 experts with 32 visits: each visit reads its expert
    flops, moved = row_kernel_factors(experts(4, 29), [RowKernel(compute_frac=9), few, tiles])
    assert float(moved) == pytest.approx(32 / 29)
    assert float(flops) == pytest.approx(np.ceil(32 / 29) / (32 / 29) / 0.5)
    # 5 tokens: tiles of 32 rows for each of 36 experts, whose 40 visits are 1.11 rows each
    flops, moved = row_kernel_factors(experts(5, 36), [few, tiles])
    assert float(flops) == pytest.approx(32 / (40 / 36) / 0.25)
    assert float(moved) == 1


def test_tiles_of_experts_grow_with_the_visits_of_all_of_them() -> None:
    """Tiles of eight rows and more, as few as cover all visits: llama.cpp, `mul_mat_q_case`."""
    tiles = RowKernel(of="experts", compute_frac=1.0, tile=8, widest_tile=64)
    by_hand = {2: 16, 4: 32, 8: 64, 12: 48, 32: 64}  # 96 visits are two tiles of 48
    for tokens, width in by_hand.items():
        hit = 128 * (1 - (1 - 8 / 128) ** tokens)
        flops, _ = row_kernel_factors(experts(tokens, hit), [tiles])
        assert float(flops) == pytest.approx(width / (tokens * 8 / hit))
    # a dense matrix computes what it has, padded to eight
    flops, _ = row_kernel_factors(dense([9, 16, 65]), [replace(tiles, of="dense")])
    assert flops == pytest.approx([16 / 9, 1, 80 / 65])


def test_a_matrix_of_few_outputs_leaves_multiprocessors_idle() -> None:
    """Of 40 that two thread blocks of 128 outputs keep busy, 5120 outputs use the half."""
    kernel = RowKernel(compute_frac=1.0, tile=32, busy_outputs=256)
    op = linear_cost(
        Linear("down_proj", 64, 5120), tokens=np.array([32.0, 64.0]), block="mlp", count=1
    )
    flops, moved = row_kernel_factors(op, [kernel], multiprocessors=40)
    assert flops.tolist() == [2, 1]  # two tiles of rows are twice the thread blocks
    assert moved.tolist() == [1, 1]
    assert row_kernel_factors(op, [kernel])[0].tolist() == [1, 1]
    assert row_kernel_factors(replace(op, outputs=np.inf), [kernel], 40)[0].tolist() == [1, 1]
    no_head = replace(op, outputs=0)
    assert np.isfinite(row_kernel_factors(no_head, [kernel], 40)[0]).all()


def test_matrices_of_several_formats_run_in_the_kernel_of_each() -> None:
    """Experts of Q4_K_M: two matrices of 4.5 bits and one of 6.5625, each at its own cost."""
    kernels = [
        RowKernel(of="experts", bits=5, compute_frac=0.5),
        RowKernel(of="experts", compute_frac=0.1, memory_share=0.8),
    ]
    core = Experts(
        8, 2, 256, 256, weight=blend((GGUF_FORMATS["q4_k"], 2), (GGUF_FORMATS["q6_k"], 1))
    )
    (op,) = forward_cost(moe(core), ForwardPass(1, 1, 0))[:1]
    flops, moved = row_kernel_factors(op, kernels)
    assert float(flops) == pytest.approx(2 / 3 / 0.5 + 1 / 3 / 0.1)
    assert float(moved) == pytest.approx((9.0 + 6.5625 / 0.8) / (9.0 + 6.5625))


def test_an_operation_that_no_kernel_takes_stays_as_it_is() -> None:
    flops, moved = row_kernel_factors(dense(9), [RowKernel(rows=8, compute_frac=0.1)])
    assert (float(flops), float(moved)) == (1, 1)
    flops, _ = row_kernel_factors(dense(0), [RowKernel(compute_frac=0.5)])
    assert np.isfinite(flops)


def chip_with(**flops_per_s: float) -> HardwareProfile:
    peak = Peak(flops_per_s=flops_per_s, memory_bytes_per_s=1e12, memory_bytes=1e12)
    return HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)


@pytest.mark.parametrize(
    ("peaks", "vector"), [({"fp32": 1e12, "bf16": 8e12}, 1e12), ({"bf16": 8e12}, 8e12)]
)
def test_a_pass_is_a_straight_line_in_rows_with_a_jump_between_kernels(
    peaks: dict[str, float], vector: float
) -> None:
    kernels = {
        "vector": RowKernel(rows=8, compute_frac=0.5),
        "matrix": RowKernel(compute_frac=2.0, tile=16),
    }
    engine = EngineProfile(name="e", overlap_norm=1.0, row_kernels=kernels)
    model = load_model("meta-llama/Llama-3.1-8B")
    setup = Setup(chip_with(**peaks), engine, Placement(), Options())
    rows = np.array([1.0, 2.0, 3.0, 8.0, 9.0, 16.0])
    ops = model_latency(model, setup, ForwardPass(1, rows, 0)).ops
    op = next(op for op in ops if op.op.name == "mlp.down_proj")
    weights = 32 * 4096 * 14336
    memory = weights * 2 / 1e12
    by_hand = [2 * weights * r / (0.5 * vector) for r in (1, 2, 3, 8)]
    by_hand += [2 * weights * 16 / (2.0 * vector)] * 2
    assert op.seconds == pytest.approx(np.array(by_hand) + memory)


FILE = """
format_version: 1
name: Toy
sources: {peak.flops_per_s: s, peak.memory_bytes_per_s: s, peak.memory_bytes: s, engines.mine: s}
peak: {flops_per_s: {fp32: 1.0e+12}, memory_bytes_per_s: 1.0e+11, memory_bytes: 1.0e+10}
engines: {mine: {framework: llama.cpp, row_kernels: {vector: {rows: 8.0, compute_frac: 0.1}}}}
"""


def test_a_hardware_file_may_hold_kernels() -> None:
    engine = parse_hardware(FILE, source="toy.yaml").engine("mine")
    assert engine.row_kernels == {"vector": RowKernel(rows=8.0, compute_frac=0.1)}
    assert engine.rules == "llama.cpp"
    with pytest.raises(ProfileError, match=r"row_kernels.vector.of"):
        parse_hardware(FILE.replace("rows: 8.0", "of: tables, rows: 8.0"), source="toy.yaml")


# --- Engines --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chip", "end"),
    [
        ("rtx-4090", "llama.cpp-cuda"),
        ("m4-max", "llama.cpp-metal"),
        (STRIX, "llama.cpp-hip"),
        ("arc-pro-b70", "llama.cpp-vulkan"),
    ],
)
def test_llama_cpp_stands_for_the_back_end_of_a_chip(chip: str, end: str) -> None:
    engine = load_hardware(chip).engine("llama.cpp")
    assert (engine.name, engine.rules) == (end, "llama.cpp")
    assert load_hardware(chip).engine(end) == engine


def test_a_chip_without_a_back_end_is_refused_in_one_line() -> None:
    with pytest.raises(OptionError, match=r"mlx.*NVIDIA GeForce RTX 4090 has .*llama.cpp-cuda"):
        load_hardware("rtx-4090").engine("mlx")
    with pytest.raises(OptionError, match=r"llama\.cpp"):
        chip_with(bf16=1e12).engine("llama.cpp")


def test_engines_without_a_back_end_of_llama_cpp_have_no_alias() -> None:
    mlx = {"mlx": EngineProfile(name="mlx")}
    known = LocalEngines(engines=mlx, back_ends={"mlx": ("Apple",)})
    assert list(known.of_chip("Apple M4")) == ["mlx"]


def test_notes_say_where_the_figures_come_from() -> None:
    answer = specroof.predict(
        "Qwen/Qwen3-8B", "rtx-4090", drafters="ngram,accept=0.5", engine="llama.cpp", batch_size=1
    )
    assert any("llama.cpp-cuda" in note and "RTX 3090" in note for note in answer.notes)
    assert answer.to_dict()["engine"] == "llama.cpp-cuda"


@pytest.mark.parametrize(
    ("chip", "engine", "plain", "drafting"),
    [("rtx-4090", "llama.cpp", 4, 4), ("m4-max", "mlx", 32, 1)],
)
def test_requests_that_local_servers_run(chip: str, engine: str, plain: int, drafting: int) -> None:
    setup = engine_setup(load_hardware(chip), engine, None, None)
    served = Deployment(load_model("Qwen/Qwen3-4B"), setup)
    ngram = load_drafter("ngram")
    rooms = [served_room(served, context_len=512, drafter=one) for one in (None, ngram)]
    assert [float(room.largest_batch) for room in rooms] == [plain, drafting]
    # beside the weights and the logits of 512 tokens
    need = rooms[0].need
    reserved = need.weight_bytes + 4 * 512 * 151936
    pool = rooms[0].room.cache_pool_bytes
    assert float(pool) == pytest.approx(need.hardware.server_memory_bytes - reserved)


# --- Evidence, and fits that have not seen it -----------------------------------------------------


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        ("strix-halo-passes", 379),
        ("strix-halo-depth", 108),
        ("strix-halo-mtp", 54),
        ("qwen38-27b-mtp", 42),
        ("mlx-passes", 9),
    ],
)
def test_every_row_of_the_sources_is_there(source: str, rows: int) -> None:
    points = [point for point in load_local() if point.source == source]
    assert len(points) == rows
    assert {point.batch_size for point in points} == {1}


def test_chips_of_local_measurements_have_files_or_no_name() -> None:
    named = {point.hardware for point in load_local()} - {None}
    missing = named - set(hardware_names())
    assert missing <= {"rx-7900-gre", "rtx-5060-laptop"}  # no file of them


@pytest.fixture(scope="module")
def scores() -> Scores:
    return local_scores()


def test_left_out_fits_have_not_seen_the_model(scores: Scores) -> None:
    known = local_engines()
    for score in scores:
        name = score.point.engine or ""
        if score.point.source != REPORTS and score.point.model in known.left_out[name]:
            assert left_out_engine(score.point) != known.engines[name]


def test_a_prediction_is_that_of_predict(scores: Scores) -> None:
    """The score of a report is the speedup that a user gets by asking."""
    point = next(one for one in scores if one.point.source == REPORTS and one.kind == "speedup")
    asked = point.point
    answer = specroof.predict(
        str(asked.model), str(asked.hardware), engine=asked.engine, options=Options(weight_dtype=asked.quantization),
        drafters=f"mtp,accept-length={asked.tokens_per_round}@{asked.draft_len}",
        context_len=512, batch_size=1, max_draft_len=asked.draft_len,
    )  # fmt: skip
    found = answer.to_dict()["drafters"][0]["speedup"][0][0][asked.draft_len]
    assert found == pytest.approx(point.predicted)


def chosen(scores: Sequence[LocalScore], kind: str, *sources: str) -> list[LocalScore]:
    return [one for one in scores if one.kind == kind and one.point.source in sources]


def test_steps_by_cached_tokens_are_predicted(scores: Scores) -> None:
    dense_model = [
        one for one in chosen(scores, "depth", "strix-halo-depth") if "Qwen" in str(one.point.model)
    ]
    assert errors_of(dense_model).mean < 0.02


def test_passes_of_1_to_32_tokens_are_12_percent_off(scores: Scores) -> None:
    assert errors_of(chosen(scores, "pass", "strix-halo-passes")).mean <= 0.12


def test_speedups_of_mtp_are_10_percent_off(scores: Scores) -> None:
    sources = ("strix-halo-mtp", "qwen38-27b-mtp", "mlx-mtp")
    found = errors_of(chosen(scores, "speedup", *sources))
    assert found.mean <= 0.10
    assert found.verdicts is not None
    assert found.verdicts >= 0.95


def test_a_3090_that_no_fit_counts_is_predicted_with_its_jump_at_9_rows(scores: Scores) -> None:
    """Of its drafts of 1 to 7 two are best, and 8 are better than 7 (github.com/thc1006)."""
    mine = [one for one in chosen(scores, "speedup", REPORTS) if one.point.hardware == "rtx-3090"]
    assert errors_of(mine).mean <= 0.10
    assert mine[7].predicted > mine[6].predicted
    assert max(mine[:7], key=attrgetter("predicted")).point.draft_len == 2


def test_the_draft_length_predicted_best_loses_little(scores: Scores) -> None:
    regrets = draft_len_regrets(scores)
    assert len(regrets) > 18
    assert np.mean(regrets) <= 0.03


APPLE = {"m1-ultra": False, "m1-max": False, "m3-ultra": True, "m5-max": True}


@pytest.mark.parametrize("chip", APPLE)
def test_signs_of_apple_machines_that_no_fit_counts(scores: Scores, chip: str) -> None:
    mine = [one for one in chosen(scores, "speedup", REPORTS) if one.point.hardware == chip]
    assert mine
    assert all((one.predicted > 1) == (one.measured > 1) == APPLE[chip] for one in mine)


def test_an_arc_b70_that_no_fit_counts_gains(scores: Scores) -> None:
    """Two drafts in vLLM, by the generic engine (b70-optimization-lab)."""
    mine = [one for one in chosen(scores, "speedup", REPORTS) if one.point.engine == "vllm"]
    assert {one.point.hardware for one in mine} == {"arc-pro-b70"}
    assert errors_of(mine).mean <= 0.10
    assert errors_of(mine).verdicts == 1


def test_steps_behind_long_contexts_and_of_several_slots_that_no_fit_counts(scores: Scores) -> None:
    mine = chosen(scores, "step", REPORTS)
    assert {one.point.batch_size for one in mine} == {1, 2, 4}
    assert max(one.point.context_len or 0 for one in mine) == 96_000
    assert errors_of(mine).mean <= 0.10


def test_drafts_save_the_joules_that_a_3090_was_measured_to_save() -> None:
    """3978 J a request without drafts, 2517 with two of 2.32 tokens a round: as the time goes."""
    answer = specroof.predict(
        "Qwen/Qwen3.6-27B", "rtx-3090", engine="llama.cpp", batch_size=1, context_len=512,
        options=Options(weight_dtype="q4_k_m"), drafters="mtp,accept-length=2.32@2",
    )  # fmt: skip
    (row,) = answer.to_dict()["drafters"]
    assert 1 / row["speedup"][0][0][2] == pytest.approx(2517 / 3978, rel=0.10)


def test_validate_prints_errors_on_local_machines(scores: Scores) -> None:
    text = local_text(scores)
    found = local_json(scores)
    assert "strix-halo-passes" in text
    kinds = {cell["kind"]: cell for cell in found["total"]}
    assert kinds.keys() == {"pass", "step", "depth", "speedup"}
    assert kinds["pass"]["points"] == 333
    assert f"{found['mean_regret']:.1%}" in text
    assert "on average" not in local_text([one for one in scores if one.kind == "pass"])


# --- Drafts that stop where the drafter is unsure -------------------------------------------------


@pytest.mark.parametrize("n_min", [0, 2])
def test_drafts_that_stop_early_match_dice(n_min: int) -> None:
    """Rounds drawn one by one: confidence, what is kept of it, what is accepted."""
    rates, p_min, share, n_rounds = np.array([0.8, 0.6, 0.7]), 0.6, 0.3, 400_000
    rng, kappa = np.random.default_rng(1), 1 / share - 1
    sure = rng.beta(kappa * rates, kappa * (1 - rates), (n_rounds, 3))
    kept = np.cumprod(sure >= p_min, axis=1)
    made = 1 + kept[:, :2].sum(axis=1)
    kept *= kept.sum(axis=1, keepdims=True) >= n_min
    right = np.cumprod(kept * (rng.random(sure.shape) < sure), axis=1)
    found = stopped_proposals(rate_acceptance(rates), np.arange(4), p_min, n_min, share)
    assert found.verify_len[3] == pytest.approx(1 + kept.sum() / n_rounds, rel=5e-3)
    assert found.tokens_per_round[3] == pytest.approx(1 + right.sum() / n_rounds, rel=5e-3)
    ((width, later),) = found.expansions
    assert (width, later[3]) == (1, pytest.approx(made.mean() - 1, rel=5e-3))
    # shorter drafts than n-min are none at all
    assert (found.verify_len[:n_min] == 1).all()


def test_drafts_that_never_stop_are_a_chain() -> None:
    known = rate_acceptance([0.8, 0.6])
    found = stopped_proposals(known, np.arange(4), 0.0, 0, 0.3)
    assert found.verify_len[:3].tolist() == [1, 2, 3]
    assert found.tokens_per_round[:3] == pytest.approx(known.tokens_per_round([0, 1, 2]))
    assert np.isnan(found.tokens_per_round[3])
    assert np.isfinite(found.verify_len).all()
    never = stopped_proposals(known, np.arange(3), 1.0, 0, 0.3)
    assert never.verify_len == pytest.approx([1, 1, 1])


@settings(deadline=None)
@given(st.floats(0.02, 0.98), st.floats(0.05, 30), st.floats(0.05, 30))
def test_tails_of_the_beta_distribution_are_those_of_a_sum(
    least: float, a: float, b: float
) -> None:
    """By the midpoint rule, ends apart, whose densities have no bound."""
    edges = np.linspace(0, 1, 200_001)[1:-1]
    values = (edges[1:] + edges[:-1]) / 2
    density = values ** (a - 1) * (1 - values) ** (b - 1) * (edges[1] - edges[0])
    # x^(a-1) up to the first edge, and likewise at the other end
    low, high = edges[0] ** a / a, (1 - edges[-1]) ** b / b
    total = low + density.sum() + high
    above = density[values >= least].sum() + high
    assert beta_tail(least, a, b) == pytest.approx(above / total, abs=1e-3)


#: Accepted of drafted by `--spec-draft-n-max` and `--spec-draft-p-min`, of a 3090 that drafts with
#: Qwen3.8-27B's MTP layer (github.com/thc1006/qwen3.8-speculative-decoding-rtx3090), and its
#: tokens per second; without drafts 41.57.
STOPPED = {
    (3, 0.5): (0.683, 61.35),
    (3, 0.75): (0.848, 58.36),
    (7, 0.5): (0.526, 55.40),
    (7, 0.75): (0.768, 57.76),
}
#: Tokens per round without p-min, by n-max.
LENGTHS = (1.78, 2.32, 2.67, 2.89, 3.05, 3.16, 3.24)


@pytest.mark.parametrize(("n_max", "p_min"), STOPPED)
def test_p_min_on_a_3090(n_max: int, p_min: float) -> None:
    survival = "/".join(f"{x:.3f}" for x in np.diff([1, *LENGTHS]))
    answer = specroof.predict(
        "Qwen/Qwen3.6-27B", "rtx-3090", engine="llama.cpp", batch_size=1, context_len=512,
        options=Options(weight_dtype="q4_k_m"), max_draft_len=7,
        drafters=f"mtp,survival={survival},p-min={p_min}",
    )  # fmt: skip
    (row,) = answer.to_dict()["drafters"]
    accepted, tokens_per_s = STOPPED[n_max, p_min]
    drafts = row["verify_len"][n_max] - 1
    assert (row["tokens_per_round"][0][0][n_max] - 1) / drafts == pytest.approx(accepted, rel=0.08)
    assert row["speedup"][0][0][n_max] == pytest.approx(tokens_per_s / 41.57, rel=0.12)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("mtp,accept=0.7,n-min=1", "n-min is given without p-min="),
        ("mtp,accept=0.7,confidence=0.3", "confidence is given without p-min="),
        ("mtp,accept=0.7,p-min=1.5", "p-min is 1.5"),
        ("mtp,accept=0.7,p-min=0.5,confidence=1", "confidence is 1"),
        ("mtp,accept=0.7,p-min=0.5,n-min=0.5", "n-min is 0.5"),
        ("mtp,accept=0.7,p-min=0.5,tree=2/1", "p-min is given with tree="),
        ("medusa,accept=0.7,p-min=0.5", "not understood"),
    ],
)
def test_a_stop_that_no_drafter_has_is_one_line(spec: str, says: str) -> None:
    with pytest.raises(OptionError, match=says) as refusal:
        load_drafter(spec)
    assert "\n" not in str(refusal.value)


def test_flags_of_drafts_that_stop_early() -> None:
    plan = plan_of("mtp", p_min=0.75, n_min=1)
    text = launch(plan, "llama.cpp").text
    assert text.endswith("--spec-draft-n-min 1 --spec-draft-p-min 0.75")
    with pytest.raises(OptionError, match=r"p-min is 0.75, and vllm.*llama.cpp"):
        launch(plan, "vllm")
    answer = specroof.advise(
        "Qwen/Qwen3.6-27B", "rtx-3090", framework="llama.cpp", input_len=500, output_len=200,
        concurrency=1, drafters="mtp,accept=0.8,p-min=0.5", options=Options(weight_dtype="q4_k_m"),
    )  # fmt: skip
    (chip,) = answer.to_dict()["chips"]
    assert chip["engine_config"]["llama.cpp"].endswith("--spec-draft-p-min 0.5")


# --- Experts on the CPU ---------------------------------------------------------------------------

HOSTED = "rtx-4090+cpu-2ch-ddr5"


def hosted(n_cpu_moe: int, engine: str = "ideal", chip: str = HOSTED) -> Setup:
    options = Options(weight_dtype="q8_0", n_cpu_moe=n_cpu_moe)
    return engine_setup(load_hardware(chip), engine, None, options)


def test_experts_of_the_first_layers_are_read_from_the_memory_of_the_host() -> None:
    model = load_model("Qwen/Qwen3-30B-A3B")  # 48 layers, 8 experts a token of 3 x 2048 x 768
    one = ForwardPass(1, 1, 1000)
    whole, part = (float(model_latency(model, hosted(n), one).total_s) for n in (0, 20))
    layer_bytes = 8 * 3 * 2048 * 768 * 34 / 32
    by_hand = 20 * layer_bytes * (1 / 89.6e9 - 1 / 1.008e12)
    assert part - whole == pytest.approx(by_hand, rel=1e-6)


def test_the_cpu_multiplies_at_a_share_of_its_peak() -> None:
    model = load_model("Qwen/Qwen3-30B-A3B")
    (op,) = (
        op
        for op in model_latency(model, hosted(48, "llama.cpp"), ForwardPass(1, 4, 0)).ops
        if op.op.on_host
    )
    visits = 4 * 8 * 3 * 2048 * 768
    assert op.compute_s == pytest.approx(48 * 2 * visits / (0.3 * 4.403e12))


def test_experts_of_the_host_leave_the_memory_of_the_chip() -> None:
    model = load_model("deepseek-ai/DeepSeek-V3")  # 3 of its 61 layers have no experts
    weights = [
        target_footprint(model, Placement(), Options(n_cpu_moe=n)).weight_bytes for n in (0, 5, 99)
    ]
    experts = next(core for _, core in model.counted_cores if isinstance(core, Experts))
    held = [weights[0] - weights[1], weights[0] - weights[2]]
    assert held == pytest.approx([2 * experts.stored_bytes, 58 * experts.stored_bytes])
    # a drafter's own experts stay
    head = usual_mtp(model)
    footprints = [
        draft_footprint(head, Placement(), Options(n_cpu_moe=n)).weight_bytes for n in (0, 99)
    ]
    assert footprints[0] == footprints[1]


def test_experts_of_a_drafter_stay_on_the_chip() -> None:
    model = load_model("Qwen/Qwen3-30B-A3B")
    setup = hosted(48)
    assert setup.options.n_cpu_moe == 48
    drafting = drafting_setup(model, setup)
    ops = model_latency(model, drafting, ForwardPass(1, 1, 0)).ops
    assert not any(op.op.on_host for op in ops)


def test_experts_without_a_cpu_or_an_engine_that_has_them_there_are_refused() -> None:
    with pytest.raises(OptionError, match=r"no CPU is named.*CHIP\+CPU"):
        hosted(3, chip="rtx-4090")
    with pytest.raises(OptionError, match=r"engine generic; allowed: llama.cpp or ideal"):
        hosted(3, "generic")
    with pytest.raises(OptionError, match="n_cpu_moe is -1"):
        Options(n_cpu_moe=-1)
    with pytest.raises(CatalogError, match="hardware 'no-cpu' is neither"):
        load_hardware("rtx-4090+no-cpu")


def test_a_chip_is_shown_with_the_cpu_beside_it() -> None:
    runs = [
        CliRunner().invoke(app, ["hardware", "show", HOSTED, *more]) for more in ([], ["--json"])
    ]
    assert all(run.exit_code == 0 for run in runs), runs[1].stderr
    cpu = "CPU with 2 channels of DDR5-5600"
    assert f"host           {cpu}" in runs[0].stdout
    assert json.loads(runs[1].stdout)["host"] == cpu


def test_experts_that_the_host_has_no_memory_for_are_said() -> None:
    def notes(n_cpu_moe: int) -> list[str]:
        answer = specroof.predict(
            "deepseek-ai/DeepSeek-V3", HOSTED, engine="llama.cpp", drafters="ngram,accept=0.5",
            batch_size=1, options=Options(weight_dtype="q4_0", n_cpu_moe=n_cpu_moe),
        )  # fmt: skip
        return [note for note in answer.notes if "does not fit the memory of CPU" in note]

    # 256 experts of 3 x 7168 x 2048 in 18 / 32 bytes are 5.9 GiB a layer, of 96 GiB
    assert notes(3 + 16) == []
    assert len(notes(3 + 17)) == 1


def test_advice_for_experts_on_the_cpu_has_their_flag() -> None:
    call = [
        *("advise", "Qwen/Qwen3-30B-A3B", "-H", HOSTED, "--weights", "q4_k_m", "--n-cpu-moe", "20"),
        *("--framework", "llama.cpp", "--input-len", "500", "--output-len", "200"),
        *("--concurrency", "1", "--drafter", "ngram,accept=0.95"),
    ]
    run = CliRunner().invoke(app, call)
    assert run.exit_code == 0, run.stderr
    assert "--n-cpu-moe 20" in " ".join(run.stdout.split())
    assert "experts of the first 20 of 48 layers" in " ".join(run.stdout.split())


# --- Draft models with a format or a place of their own -------------------------------------------

SMALL_MODEL = "model,accept=0.7,config=Qwen/Qwen3-0.6B"


def draft_s(spec: str, **choices: Any) -> list[float]:
    curve = specroof.speedup_curve(
        load_model("Qwen/Qwen3-8B"), load_hardware(choices.pop("chip", HOSTED)),
        drafter=load_drafter(spec), context_len=1000, max_draft_len=3, **choices,
    )  # fmt: skip
    seconds: list[float] = curve.draft_s[0, 0].tolist()
    return seconds


@pytest.mark.parametrize("chosen", [None, "q4_k_m"])
def test_a_draft_model_has_the_bytes_of_its_own_mix(chosen: str | None) -> None:
    target, options = load_model("Qwen/Qwen3-8B"), Options(weight_dtype=chosen)
    small = load_model("Qwen/Qwen3-0.6B")
    footprint = load_drafter(f"{SMALL_MODEL},weights=Q8_0").held(target)
    assert footprint.head is not None
    held = draft_footprint(footprint.head, Placement(), options).weight_bytes
    norms = 4 * (28 * (2 * 1024 + 2 * 128) + 1024)  # which servers do not count
    assert held == mixed(small, "q8_0").weight_bytes - norms
    one = draft_s(f"{SMALL_MODEL},weights=q8_0", engine="ideal", options=options)
    assert one == draft_s(f"{SMALL_MODEL},weights=q8_0", engine="ideal")
    all_alike = draft_s(SMALL_MODEL, engine="ideal", options=Options(weight_dtype="q8_0"))
    assert one == all_alike
    with pytest.raises(OptionError, match="weights is 'fp8'; allowed: q8_0, "):
        load_drafter(f"{SMALL_MODEL},weights=fp8")


def test_a_draft_model_on_the_cpu_is_read_at_the_hosts_bandwidth() -> None:
    near, far = (draft_s(f"{SMALL_MODEL}{place}", engine="ideal") for place in ("", ",device=cpu"))
    assert far[1:] == pytest.approx([seconds * 1.008e12 / 89.6e9 for seconds in near[1:]])
    footprint = load_drafter(f"{SMALL_MODEL},device=cpu").held(load_model("Qwen/Qwen3-8B"))
    assert footprint.head is None
    assert "on the CPU" in load_drafter(f"{SMALL_MODEL},device=cpu").describe(
        load_model("Qwen/Qwen3-8B")
    )


def test_a_draft_model_on_the_cpu_multiplies_at_a_share_of_its_peak() -> None:
    small = load_model("Qwen/Qwen3-0.6B")
    setup = replace(hosted(0, "llama.cpp"), on_host=True)
    (head,) = (
        op for op in model_latency(small, setup, ForwardPass(1, 1, 0)).ops if op.op.kind == "head"
    )
    assert head.compute_s == pytest.approx(2 * 1024 * 151936 / (0.3 * 4.403e12))


@pytest.mark.parametrize(
    ("spec", "choices", "says"),
    [
        ("model", {"chip": "rtx-4090"}, r"no CPU is named.*CHIP\+CPU"),
        ("model", {"engine": "generic"}, r"engine generic; allowed: llama.cpp or ideal"),
        ("mtp", {}, "device is cpu; allowed: for a model"),
        ("model,tp=1", {}, "device is cpu; allowed: for a model, without tp="),
        ("model,link=1e9", {}, "device is cpu; allowed: for a model, without tp="),
    ],
)
def test_a_drafter_that_no_cpu_runs_is_one_line(
    spec: str, choices: dict[str, Any], says: str
) -> None:
    kind, _, more = spec.partition(",")
    config = "Qwen/Qwen3-0.6B" if kind == "model" else "Qwen/Qwen3.6-27B"
    pairs = [kind, "accept=0.7", f"config={config}", "device=cpu", *([more] if more else [])]
    with pytest.raises(OptionError, match=says) as refusal:
        draft_s(",".join(pairs), **{"engine": "llama.cpp", **choices})
    assert "\n" not in str(refusal.value)


def test_flags_of_a_draft_model_on_the_cpu() -> None:
    plan = plan_of("model", draft_model="me/small:Q8_0", on_host=True)
    text = launch(plan, "llama.cpp").text
    assert "--spec-draft-hf me/small:Q8_0 --spec-draft-device none" in text
    with pytest.raises(OptionError, match=r"device is cpu, and vllm.*llama.cpp"):
        launch(plan, "vllm")


def test_advice_names_the_file_and_the_place_of_a_draft_model(
    tmp_path: Path, model_configs_folder: Path
) -> None:
    path = tmp_path / "small.gguf"
    tensors = [("token_embd.weight", [256, 1000], "q8_0"), ("output_norm.weight", [256], "f32")]
    shapes = {"attn_q": 256, "attn_k": 64, "attn_v": 64, "attn_output": 256}
    tensors += [(f"blk.0.{name}.weight", [256, rows], "q8_0") for name, rows in shapes.items()]
    tensors += [(f"blk.0.ffn_{name}.weight", [256, 512], "q8_0") for name in ("gate", "up")]
    tensors += [("blk.0.ffn_down.weight", [512, 256], "q8_0")]
    sizes = {"embedding_length": 256, "feed_forward_length": 512, "block_count": 1}
    sizes |= {"attention.head_count": 8, "attention.head_count_kv": 2}
    metadata = {f"llama.{key}": size for key, size in sizes.items()}
    path.write_bytes(gguf_bytes({"general.architecture": "llama", **metadata}, tensors))
    model = tmp_path / "config.json"
    bundled = model_configs_folder / "Qwen--Qwen3-8B.json"
    config = json.loads(bundled.read_text(encoding="utf-8"))
    model.write_text(json.dumps(config | {"vocab_size": 1000}), encoding="utf-8")
    answer = specroof.advise(
        str(model), HOSTED, framework="llama.cpp", input_len=500, output_len=200,
        concurrency=1, drafters=f"model,config={path},accept=0.9,device=cpu",
        options=Options(weight_dtype="q4_k_m"),
    )  # fmt: skip
    (chip,) = answer.to_dict()["chips"]
    words = f"--spec-draft-model {path} --spec-draft-device none"
    assert words in chip["engine_config"]["llama.cpp"]


# --- Flags ----------------------------------------------------------------------------------------


def plan_of(kind: str, drafts: int = 2, **more: Any) -> Speculation:
    return Speculation(kind=kind, schedule=((1, 4, drafts),), **more)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("mtp", "draft-mtp"),
        ("model", "draft-simple"),
        ("eagle3", "draft-eagle3"),
        ("dflash", "draft-dflash"),
        ("dspark", "draft-dspark"),
    ],
)
def test_flags_of_llama_server(kind: str, name: str) -> None:
    words = launch(plan_of(kind), "llama.cpp").text.split()
    assert words[words.index("--spec-type") + 1] == name
    assert words[words.index("--spec-draft-n-max") + 1] == "2"
    assert ("--spec-draft-model" in words) == (kind != "mtp")


def test_look_ups_of_llama_server_read_flags_of_their_own() -> None:
    # common/speculative.cpp, common_speculative_n_max; by default 64, 48 and 48 drafts.
    texts = [launch(plan_of(kind), "llama.cpp").text for kind in ("ngram", "prompt_lookup")]
    assert texts == [
        "--spec-type ngram-mod --spec-ngram-mod-n-max 2 --spec-ngram-mod-n-min 0",
        "--spec-type ngram-simple --spec-ngram-simple-size-m 2",
    ]


def test_a_lookup_that_finds_nothing_in_some_rounds_is_no_tree() -> None:
    answer = specroof.advise(
        "Qwen/Qwen3-8B", "rtx-4090", framework="llama.cpp", input_len=500, output_len=200,
        concurrency=1, drafters="ngram,match=0.9,accept=0.9",
    )  # fmt: skip
    (chip,) = answer.to_dict()["chips"]
    assert "--spec-ngram-mod-n-max" in chip["engine_config"]["llama.cpp"]


def test_settings_of_llama_server() -> None:
    told = ServerSettings(running=2, chunk=512, prefix_cache=False, memory_frac=0.5)
    flags = launch(plan_of("mtp", settings=told), "llama.cpp")
    assert "--parallel 2 --batch-size 512 --no-cache-prompt" in flags.text
    assert any("memory=" in note for note in flags.notes)
    kept = launch(plan_of("mtp", settings=ServerSettings(prefix_cache=True)), "llama.cpp")
    assert "cache" not in kept.text


def test_loads_that_differ_get_one_length() -> None:
    falls = ((1, 2, 4), (3, 4, 0))
    for framework in ("llama.cpp", "mlx"):
        plan = Speculation(kind="model", schedule=falls, draft_model="me/small")
        notes = launch(plan, framework).notes
        assert any("3-4 in flight" in note for note in notes)


def test_mlx_drafts_only_for_caches_that_it_can_trim() -> None:
    # generate.py: "Speculative decoding requires a trimmable prompt cache"; ArraysCache is none.
    call: dict[str, Any] = {"framework": "mlx", "input_len": 500, "output_len": 200}
    call |= {"concurrency": 1, "options": Options(weight_dtype="mlx-4bit")}
    (chip,) = specroof.advise(
        "Qwen/Qwen3-8B", "m4-max", drafters="model,config=Qwen/Qwen3-0.6B,accept=0.8", **call
    ).chips
    assert chip.refused == {}
    with pytest.raises(OptionError, match="recurrent layers, whose cache it cannot trim"):
        specroof.advise(
            "Qwen/Qwen3.5-27B", "m4-max", drafters="model,config=Qwen/Qwen3.5-4B,accept=0.8", **call
        )


def test_mlx_and_lm_studio_take_a_draft_model() -> None:
    plan = plan_of("model", 3, draft_model="me/small", settings=ServerSettings(running=2))
    flags = launch(plan, "mlx")
    assert flags.text == "--draft-model me/small --num-draft-tokens 3"
    assert any("running=" in note for note in flags.notes)
    studio = launch(plan, "lmstudio")
    assert not studio.text
    assert any('"draft_model": "me/small"' in note for note in studio.notes)


@pytest.mark.parametrize(
    ("framework", "kind", "allowed"),
    [
        ("llama.cpp", "medusa", "mtp, eagle3"),
        ("mlx", "mtp", "model"),
        ("lmstudio", "mtp", "model"),
        ("ollama", "mtp", "llama.cpp"),
    ],
)
def test_what_a_tool_cannot_do_is_refused_in_one_line(
    framework: str, kind: str, allowed: str
) -> None:
    with pytest.raises(OptionError) as refusal:
        launch(plan_of(kind), framework)
    message = str(refusal.value)
    assert allowed in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("framework", "model", "command"),
    [
        ("llama.cpp", "me/model", f"llama-server --model '{YOUR_FILE}'"),
        ("llama.cpp", "q.gguf", "llama-server --model q.gguf"),
        ("mlx", "me/model", "mlx_lm.server --model me/model"),
        ("llama.cpp", "me/model:Q4_K_M", "llama-server -hf me/model:Q4_K_M"),
        ("lmstudio", "me/model", "lms load me/model"),
    ],
)
def test_commands_of_local_servers(framework: str, model: str, command: str) -> None:
    assert server_command(framework, model, Placement()) == command


def test_the_cache_of_llama_server_has_flags() -> None:
    told = server_command("llama.cpp", "q.gguf", Placement(), kv_cache="fp16")
    assert told.endswith("--cache-type-k f16 --cache-type-v f16")


def test_a_stranger_with_a_4090_gets_an_answer_in_one_command() -> None:
    call = [
        *("advise", "Qwen/Qwen3-8B", "-H", "rtx-4090", "--weights", "q4_k_m"),
        *("--framework", "llama.cpp", "--input-len", "1000", "--output-len", "500"),
        *("--concurrency", "1", "--drafter", "model,config=Qwen/Qwen3-0.6B,accept=0.7", "--json"),
    ]
    run = CliRunner().invoke(app, call)
    assert run.exit_code == 0, run.stderr
    answer = json.loads(run.stdout.splitlines()[-1])
    (chip,) = answer["chips"]
    assert chip["engine"] == "llama.cpp-cuda"
    assert "--spec-draft-n-max" in chip["engine_config"]["llama.cpp"]
    assert not any("has no fit" in warning for warning in answer["warnings"])


def test_software_that_wraps_llama_cpp_is_predicted_as_it() -> None:
    call: dict[str, Any] = {"input_len": 500, "output_len": 200, "concurrency": 1}
    call |= {"options": Options(weight_dtype="q8_0")}
    (chip,) = specroof.advise(
        "Qwen/Qwen3-8B", "m4-max", framework="lmstudio",
        drafters="model,config=Qwen/Qwen3-0.6B,accept=0.9", **call,
    ).chips  # fmt: skip
    assert chip.setup.engine.name == "llama.cpp-metal"
    assert chip.to_measure is not None
    assert chip.to_measure.command is None  # `mock` starts other servers
    with pytest.raises(OptionError, match="ollama has no setting for ngram"):
        specroof.advise(
            "Qwen/Qwen3-8B", "m4-max", framework="ollama", drafters="ngram,accept=0.9", **call
        )


# --- Measure mine: what llama-bench and llama-batched-bench write ---------------------------------


BENCH = [
    {"n_prompt": 1, "n_gen": 0, "n_depth": 0, "avg_ns": 8_000_000},
    {"n_prompt": 4, "n_gen": 0, "n_depth": 2048, "avg_ns": 10_000_000},
    {"n_prompt": 0, "n_gen": 128, "n_depth": 1000, "avg_ns": 1_280_000_000},
]


def test_llama_bench_times_passes_and_decoding() -> None:
    one, four, plain = read_benchmark(json.dumps(BENCH), source="bench.json")
    assert (one.method, one.verify_len) == ("step", 1)
    assert one.pass_s == pytest.approx(8e-3)
    assert (four.verify_len, four.context_len) == (4, 2048)
    assert four.pass_s == pytest.approx(10e-3)
    assert (plain.method, plain.draft_len, plain.engine) == (None, 0, "llama.cpp")
    assert plain.tokens_per_s == pytest.approx(100)
    assert plain.context_len == 1064


def test_llama_batched_bench_decodes_in_parallel() -> None:
    line = {"pp": 512, "tg": 128, "pl": 4, "speed_tg": 240.5, "t_tg": 2.13}
    (point,) = read_benchmark(json.dumps(line), source="bench.jsonl")
    assert (point.batch_size, point.context_len, point.tokens_per_s) == (4, 576, 240.5)


@pytest.mark.parametrize(("n_prompt", "n_gen"), [(512, 128), (0, 0), (1024, 0)])
def test_tests_of_llama_bench_that_say_nothing_of_a_pass_are_refused(
    n_prompt: int, n_gen: int
) -> None:
    test = {"n_prompt": n_prompt, "n_gen": n_gen, "avg_ns": 1}
    with pytest.raises(MeasurementError, match=rf"bench.json.*n_prompt is {n_prompt}.*n_ubatch"):
        read_benchmark(json.dumps(test), source="bench.json")


def test_calibrate_writes_the_engine_of_a_machine(tmp_path: Path) -> None:
    """A machine whose memory is a fifth slower than the profile's."""
    setup = engine_setup(load_hardware("rtx-4090"), "llama.cpp", None, Options(weight_dtype="q4_0"))
    slower = replace(
        setup, engine=replace(setup.engine, memory_frac=0.8 * setup.engine.memory_frac)
    )
    model = load_model("Qwen/Qwen3-8B")
    tests = [
        {"n_prompt": n, "n_gen": 0, "n_depth": depth, "n_ubatch": 512, "avg_ns": 1e9 * seconds}
        for depth in (1, 4096)
        for n in (1, 2, 4, 8, 16)
        for seconds in [float(model_latency(model, slower, ForwardPass(1, n, depth)).total_s)]
    ]
    bench, target = tmp_path / "bench.json", tmp_path / "mine.yaml"
    bench.write_text(json.dumps(tests), encoding="utf-8")
    answer = specroof.calibrate(
        bench, "Qwen/Qwen3-8B", "rtx-4090", engine="llama.cpp", options=Options(weight_dtype="q4_0")
    )
    target.write_text(answer.yaml, encoding="utf-8")
    mine = load_hardware(target)
    assert mine.engine().rules == "llama.cpp"
    setups = (slower, engine_setup(mine, None, None, Options(weight_dtype="q4_0")))
    seconds = [float(model_latency(model, s, ForwardPass(1, 6, 2048)).total_s) for s in setups]
    assert seconds[1] == pytest.approx(seconds[0], rel=0.05)
