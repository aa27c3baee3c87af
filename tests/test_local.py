"""Machines of one user: kernels by rows, engines llama.cpp and MLX and flags."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import specroof
from specroof.acceptance import rate_acceptance
from specroof.architecture.base import Linear, OpCost, Routing, WeightFormat, linear_cost
from specroof.architecture.draft_heads import usual_mtp
from specroof.architecture.experts import Experts
from specroof.architecture.mixes import GGUF_FORMATS, blend, mixed
from specroof.catalog import load_drafter, load_hardware, load_model
from specroof.cost import ForwardPass, Options, forward_cost
from specroof.drafters.kinds import stopped_proposals
from specroof.errors import ProfileError, SpecroofError
from specroof.hardware.engine import Collective, EngineProfile, RowKernel, ServerSettings
from specroof.hardware.profile import HardwareProfile, LocalEngines, Peak, Placement
from specroof.latency.model import memory_notes, model_latency, row_kernel_factors
from specroof.latency.setup import Deployment, Setup, engine_setup
from specroof.serving.capacity import served_room
from specroof.serving.launch import Speculation, launch, server_command
from specroof.serving.room import draft_footprint, target_footprint
from strategies import of_cores
from tables import present, refusal, rows

ZERO = np.zeros(())
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
    # A kernel takes formats of as many bits as it says, and none of more.
    assert float(row_kernel_factors(dense(2, bits=5), kernels)[0]) == 10
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
    (op,) = forward_cost(of_cores(core), ForwardPass(1, 1, 0))[:1]
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


def test_llama_cpp_stands_for_the_back_end_of_a_chip() -> None:
    ends = {"rtx-4090": "cuda", "m4-max": "metal", STRIX: "hip", "arc-pro-b70": "vulkan"}
    for chip, end in ends.items():
        engine = load_hardware(chip).engine("llama.cpp")
        assert (engine.name, engine.rules) == (f"llama.cpp-{end}", "llama.cpp")
    mlx = {"mlx": EngineProfile(name="mlx")}
    link = Collective(latency_s=1e-6)
    known = LocalEngines(engines=mlx, back_ends={"mlx": ("apple",)}, collective=link)
    assert list(known.of_chip("apple", "apple-m4")) == ["mlx"]


# mx-llama.cpp issue 10: Qwen3.8-27B in Q8_0, of the sizes of Qwen3.6-27B, on one MI50 and on two.
def test_two_chips_of_a_local_server_gain_what_was_measured() -> None:
    chip, asked = load_hardware("mi50"), ForwardPass(1, 1, 512)
    one, two = (
        engine_setup(chip, "llama.cpp", Placement(n), Options(weight_dtype="q8_0")) for n in (1, 2)
    )
    model = load_model("Qwen/Qwen3.6-27B")
    alone, shared = (float(model_latency(model, setup, asked).total_s) for setup in (one, two))
    assert alone / shared == pytest.approx(47.6 / 31.0, rel=0.1)
    with pytest.raises(ProfileError, match="cannot time collectives over 2 devices"):
        model_latency(model, replace(two, hardware=load_hardware(STRIX)), asked)


def test_a_mac_has_the_server_that_runs_there() -> None:
    # vllm/platforms: a Mac is a CPU there.
    asked: Any = {"drafters": "eagle3,accept=0.7", "input_len": 100, "output_len": 50}
    for chip, servers in {"m4-max": ["llama.cpp"], "rtx-4090": ["vllm", "sglang"]}.items():
        (found,) = specroof.advise("Qwen/Qwen3-0.6B", chip, concurrency=1, **asked).chips
        assert [*found.engine_config] == servers
        assert found.setup.engine.rules == servers[0]
    both = specroof.advise("Qwen/Qwen3-0.6B", ["m4-max", "rtx-4090"], concurrency=1, **asked)
    assert {*both.chips[0].engine_config} == {"vllm", "sglang"}


# Passes, steps and rounds were timed under llama.cpp and MLX, no prompt.
@pytest.mark.parametrize(
    ("chip", "framework", "untimed"), [("m4-max", "llama.cpp", True), ("h100", "vllm", False)]
)
def test_prompts_that_nobody_timed_are_told(chip: str, framework: str, untimed: bool) -> None:
    load: Any = {"input_len": 100, "output_len": 50, "concurrency": 1, "framework": framework}
    asked = {"drafters": "ngram,accept=0.5", **load}
    for question in (specroof.advise, specroof.predict):
        found = question("Qwen/Qwen3-0.6B", chip, **asked)
        assert found.sureness.endswith("TTFT: no prompt was timed on this engine") is untimed


@pytest.mark.parametrize(
    ("chip", "engine", "plain", "drafting"),
    [("rtx-4090", "llama.cpp", 4, 4), ("m4-max", "mlx", 32, 1)],
)
def test_requests_that_local_servers_run(chip: str, engine: str, plain: int, drafting: int) -> None:
    setup = engine_setup(load_hardware(chip), engine, None, None)
    served = Deployment(load_model("Qwen/Qwen3-4B"), setup)
    rooms = [
        served_room(served, context_len=512, drafter=one) for one in (None, load_drafter("ngram"))
    ]
    assert [float(room.largest_batch) for room in rooms] == [plain, drafting]


@pytest.mark.parametrize("n_min", [0, 2])
def test_drafts_that_stop_early_match_dice(n_min: int) -> None:
    """Rounds drawn one by one: confidence, what is kept of it, what is accepted."""
    rates, p_min, share, n_rounds = np.array([0.8, 0.6, 0.7]), 0.6, 0.3, 400_000
    rng, kappa = np.random.default_rng(1), 1 / share - 1
    sure = rng.beta(kappa * rates, kappa * (1 - rates), (n_rounds, 3))
    lucky = rng.random(sure.shape) < sure
    found = stopped_proposals(rate_acceptance(rates), np.arange(4), p_min, n_min, share)
    ((width, later),) = found.expansions
    assert width == 1
    for length in range(4):
        kept = np.cumprod(sure[:, :length] >= p_min, axis=1)
        assert later[length] == pytest.approx(kept[:, :-1].sum() / n_rounds, rel=5e-3)
        kept *= kept.sum(axis=1, keepdims=True) >= n_min  # fewer drafts are none at all
        right = np.cumprod(kept * lucky[:, :length], axis=1)
        assert found.verify_len[length] == pytest.approx(1 + kept.sum() / n_rounds, rel=5e-3)
        assert found.tokens_per_round[length] == pytest.approx(1 + right.sum() / n_rounds, rel=5e-3)
    certain = stopped_proposals(rate_acceptance([1, 0]), np.arange(3), p_min, 0, share)
    assert certain.verify_len == pytest.approx([1, 2, 2])
    assert certain.tokens_per_round == pytest.approx([1, 2, 2])
    known = stopped_proposals(rate_acceptance([0.8]), np.arange(3), p_min, 0, share)
    assert np.isnan(known.tokens_per_round).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("n_max", "p_min", "accepted", "tokens_per_s"), rows("values", "stopped_drafts")
)
def test_p_min_on_a_3090(n_max: int, p_min: float, accepted: float, tokens_per_s: float) -> None:
    # Tokens per round without p-min, by n-max.
    lengths = (1.78, 2.32, 2.67, 2.89, 3.05, 3.16, 3.24)
    survival = "/".join(f"{x:.3f}" for x in np.diff([1, *lengths]))
    answer = specroof.predict(
        "Qwen/Qwen3.6-27B", "rtx-3090", engine="llama.cpp", batch_size=1, context_len=512,
        options=Options(weight_dtype="q4_k_m"), max_draft_len=7,
        drafters=f"mtp,survival={survival},p-min={p_min}",
    )  # fmt: skip
    (curve,) = answer.curves
    drafts = curve.verify_len[n_max] - 1
    accepted_share = (curve.tokens_per_round[0, 0, n_max] - 1) / drafts
    assert accepted_share == pytest.approx(accepted, rel=0.08)
    assert curve.speedup[0, 0, n_max] == pytest.approx(tokens_per_s / 41.57, rel=0.12)


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
    # Two chips wait for one host.
    both = replace(hosted(20), placement=Placement(2, nodes=1))
    (there,) = (op for op in model_latency(model, both, one).ops if op.op.on_host)
    assert there.memory_s == pytest.approx(20 * layer_bytes / 89.6e9, rel=1e-3)


def test_experts_that_fill_the_memory_of_the_host_fit_it() -> None:
    # 128 experts of 3 x 2048 x 768 in each of two layers, 34 bytes for 32 weights.
    model, setup = load_model("Qwen/Qwen3-30B-A3B"), hosted(2)
    held_bytes, one = 2 * 128 * 3 * 2048 * 768 * 34 / 32, np.ones(1)
    host = present(setup.hardware.host)
    for memory_bytes, said in ((held_bytes, False), (held_bytes - 1, True)):
        small = replace(host, peak=replace(host.peak, memory_bytes=memory_bytes))
        where = replace(setup, hardware=replace(setup.hardware, host=small))
        notes = list(memory_notes(model, where, one, one))
        assert any("does not fit the memory of" in note for note in notes) is said


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


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("Qwen/Qwen3-8B", 151936 * 4096),  # a head of its own
        ("Qwen/Qwen3.5-4B", 0),  # the embedding is the head, of which the chip has a copy
        ("google/gemma-4-E4B", 262144 * 42 * 256),  # so it is here, beside a table of each layer
    ],
)
def test_tables_that_the_input_alone_reads_lie_in_the_host(name: str, elements: int) -> None:
    # llama.cpp, src/llama-model.cpp: `dev_input` is the CPU.
    held = [
        specroof.capacity(name, "rtx4090", framework=server, context_len=9).rows[0].weight_bytes
        for server in ("vllm", "llama.cpp", "lmstudio")
    ]
    assert held[0] - held[1] == held[0] - held[2] == pytest.approx(2 * elements)


@pytest.mark.parametrize(
    "chip", ["dgx-spark", "jetson-thor", "jetson-orin-nx", "strix-halo", "cpu-2ch-ddr5"]
)
def test_a_chip_in_one_memory_with_its_host_holds_them(chip: str) -> None:
    held = [
        specroof.capacity("Qwen/Qwen3-8B", chip, engine=engine, context_len=9).rows[0].weight_bytes
        for engine in ("ideal", "llama.cpp")
    ]
    assert held[0] == held[1]


SMALL_MODEL = "model,accept=0.7,config=Qwen/Qwen3-0.6B"


def draft_s(spec: str, **choices: Any) -> list[float]:
    curve = specroof.speedup_curve(
        load_model("Qwen/Qwen3-8B"), load_hardware(choices.pop("chip", HOSTED)),
        drafter=load_drafter(spec), context_len=1000, max_draft_len=3, **choices,
    )  # fmt: skip
    seconds: list[float] = curve.draft_s[0, 0].tolist()
    return seconds


def test_a_draft_model_has_the_bytes_of_its_own_mix() -> None:
    target, options = load_model("Qwen/Qwen3-8B"), Options(weight_dtype="q4_k_m")
    footprint = load_drafter(f"{SMALL_MODEL},weights=Q8_0").held(target)
    held = draft_footprint(present(footprint.head), Placement(), options).weight_bytes
    norms = 4 * (28 * (2 * 1024 + 2 * 128) + 1024)  # which servers do not count
    assert held == mixed(load_model("Qwen/Qwen3-0.6B"), "q8_0").weight_bytes - norms
    one = draft_s(f"{SMALL_MODEL},weights=q8_0", engine="ideal", options=options)
    assert one == draft_s(SMALL_MODEL, engine="ideal", options=Options(weight_dtype="q8_0"))


def test_a_draft_model_on_the_cpu_is_read_at_the_hosts_bandwidth() -> None:
    near, far = (draft_s(f"{SMALL_MODEL}{place}", engine="ideal") for place in ("", ",device=cpu"))
    assert far[1:] == pytest.approx([seconds * 1.008e12 / 89.6e9 for seconds in near[1:]])
    target = load_model("Qwen/Qwen3-8B")
    assert load_drafter(CPU_DRAFTS).held(target).head is None
    for spec, there in ((CPU_DRAFTS, True), (SMALL_MODEL, False)):
        assert ("on the CPU" in load_drafter(spec).describe(target)) is there


def plan_of(kind: str, drafts: int = 2, **more: Any) -> Speculation:
    return Speculation(kind=kind, schedule=((1, 4, drafts),), **more)


@pytest.mark.parametrize(("framework", "kind", "more", "text"), rows("launch", "local_flags"))
def test_flags_of_local_servers(framework: str, kind: str, more: Any, text: str) -> None:
    if "settings" in more:
        more = {"settings": ServerSettings(**more["settings"])}
    assert text in launch(plan_of(kind, **more), framework).text


#: What is asked of a local machine: flags of a server, drafts, experts of the host, other values.
ASKED: dict[str, Any] = {
    "flags": lambda framework, kind, **more: launch(plan_of(kind, **more), framework),
    "draft": lambda spec, **choices: draft_s(spec, **{"engine": "llama.cpp", **choices}),
    "host": lambda **choices: hosted(3, **choices),
    "experts": lambda: Options(n_cpu_moe=-1),
    "engine": lambda chip, name: load_hardware(chip).engine(name),
    "unknown chip": lambda: chip_with(bf16=1e12).engine("llama.cpp"),
}
CPU_DRAFTS = f"{SMALL_MODEL},device=cpu"


@pytest.mark.parametrize(("ask", "given", "changes", "says"), rows("refusals", "local_machines"))
def test_what_a_local_machine_cannot_do_is_refused_in_one_line(
    ask: str, given: list[str], changes: dict[str, Any], says: str
) -> None:
    assert re.search(says, refusal(SpecroofError, ASKED[ask], *given, **changes))


@pytest.mark.parametrize(("framework", "model", "command"), rows("launch", "local_commands"))
def test_commands_of_local_servers(framework: str, model: str, command: str) -> None:
    assert server_command(framework, model, Placement()) == command
