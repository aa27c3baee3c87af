"""What long contexts cost a round: published figures beside predictions, which know none of them.

Each figure is predicted twice: with the cache read once for all positions, and as the server's
kernels read it (`specroof.latency.READING_RULES`).

    python benchmarks/long_contexts.py
"""

import csv
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from specroof import (
    ForwardPass,
    Options,
    Placement,
    load_drafter,
    load_hardware,
    load_model,
    speedup_curve,
)
from specroof.architecture import (
    Architecture,
    Block,
    CacheReading,
    Core,
    GroupedQueryAttention,
    LatentAttention,
    Layer,
    Linear,
)
from specroof.cost import forward_cost
from specroof.hardware import HardwareProfile
from specroof.latency import (
    PassWork,
    Setup,
    engine_setup,
    model_work,
    pass_time,
    served_options,
)
from specroof.latency.model import pass_work
from specroof.latency.pass_seconds import PassShape, all_to_all_s

#: Of a row (context, batch, drafts): seconds, or a ratio, as its kernels read the cache, or once.
Prediction = Callable[[float, float, int, bool], float]

SETTINGS = {
    "kimi-k3": "Kimi-K3, DSpark, 8 x B300 with a cache over 8 devices (DCP), vLLM 0.28.1, no draft "
    "accepted. 0.28.0 verifies as a prefill there: FLASHINFER_MLA does not declare "
    "supports_dcp_with_varlen, v1/attention/backends/mla/flashinfer_mla.py",
    "fa2-256": "FlashAttention 2, 12 query and 2 KV heads of 256, RTX 3090",
    "fa2-128": "FlashAttention 2, 32 query and 8 KV heads of 128, RTX 3090",
    "fa2-4090": "FlashAttention 2, 12 thread blocks on 128 multiprocessors (heads as above "
    "presumed, RTX 4090)",
    "gemma-4": "Gemma-4-31B, int4 weights, MTP, A100, vLLM 0.28: Triton, before and after its "
    "split kernel took several positions; from tokens/s at one acceptance",
    "kimi-k3-mi355x": "Kimi-K3, DSpark (4 drafts presumed), 8 x MI355X, tokenspeed: acceptance "
    "length over the ratio of rates; priced with vLLM's rules for AMD",
    "kimi-k3-mi350x": "8 x MI350X, fp8 cache, tokenspeed (Kimi-K3 with DSpark presumed)",
    "qwen3.5-9b": "Qwen3.5-9B, MTP, FlashAttention 2 before and after its verification was split "
    "(RTX 3090, int4 weights and 3 drafts presumed)",
    "qwen3.5-27b-tp2": "the same of Qwen3.5-27B on two",
    "dflash-h100": "Qwen3.5-27B in fp8, DFlash, vLLM nightly of 2026-04: 200 against 24 tokens/s, "
    "with what acceptance lost in it; the chip is not stated (H100 presumed)",
    "dflash-card": "the same (RTX PRO 6000 presumed)",
}
_GATHERS = 3  # collectives a layer where the cache is spread: queries, sums of exponents, outputs


def main() -> None:
    """Print each figure and its predictions."""
    predictions: dict[str, Prediction] = {
        "kimi-k3": spread_round,
        "fa2-256": lambda *row: kernel_s(heads(12, 2, 256), load_hardware("rtx-3090"), *row) * 1e3,
        "fa2-128": lambda *row: kernel_s(heads(32, 8, 128), load_hardware("rtx-3090"), *row) * 1e3,
        "fa2-4090": bandwidth_share,
        "gemma-4": unsplit_triton,
        "qwen3.5-9b": lambda *row: unsplit_round("Qwen/Qwen3.5-9B", 1, *row),
        "qwen3.5-27b-tp2": lambda *row: unsplit_round("Qwen/Qwen3.5-27B", 2, *row),
        "kimi-k3-mi355x": lambda *row: round_over_step("mi355x", *row),
        "kimi-k3-mi350x": lambda *row: round_over_step("mi350x", *row),
        "dflash-h100": lambda *row: longer_round("h100-sxm", *row),
        "dflash-card": lambda *row: longer_round("rtx-pro-6000", *row),
    }
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, predict in predictions.items():
        measured_rows = [row for row in rows if row["set_up"] == name]
        first = measured_rows[0]
        print(f"\n{first['source']}: {SETTINGS[name]}\n{first['what']}")
        print(
            f"{'context':>8}{'batch':>6}{'drafts':>7}{'measured':>10}{'once':>9}{'rules':>9}  off"
        )
        offs = []
        for row in measured_rows:
            at = float(row["context_len"]), float(row["batch_size"]), int(row["draft_len"])
            measured, once, ruled = float(row["measured"]), predict(*at, True), predict(*at, False)
            offs.append([abs(once / measured - 1), abs(ruled / measured - 1)])
            print(
                f"{at[0]:8g}{at[1]:6g}{at[2]:7}{measured:10.4g}{once:9.4g}{ruled:9.4g}"
                f"  {ruled / measured - 1:+.0%}"
            )
        print("mean off: {:.0%} once, {:.0%} by the rules".format(*np.mean(offs, axis=0)))


def heads(n_heads: int, n_kv_heads: int, head_dim: int) -> GroupedQueryAttention:
    """Return attention with heads of one width."""
    return GroupedQueryAttention(n_heads, n_kv_heads, head_dim, head_dim)


def kernel_s(
    core: GroupedQueryAttention,
    chip: HardwareProfile,
    context_len: float,
    batch_size: float,
    draft_len: int,
    once: bool,
) -> float:
    """Return the seconds of attention in one layer under vLLM."""
    layer = Layer((Block("attention", (), core),))
    model = Architecture("attention", "llama", 8, 9, (layer,), Linear("lm_head", 8, 0))
    options = Options(verify_attention="once" if once else None)
    setup = engine_setup(chip, "vllm", Placement(), options)
    work = model_work(model, setup, ForwardPass(batch_size, draft_len + 1, context_len))
    return float(sum(op.seconds for op in pass_time(work, setup.engine).ops[:-1]))


def bandwidth_share(context_len: float, batch_size: float, draft_len: int, once: bool) -> float:
    """Return the share of the memory's bytes/s that attention of 12 heads reaches."""
    core, chip = heads(12, 2, 256), load_hardware("rtx-4090")
    seconds = kernel_s(core, chip, context_len, batch_size, draft_len, once)
    read_bytes = 2 * core.n_kv_heads * core.head_dim * 2 * context_len * batch_size
    return read_bytes / seconds / chip.peak.memory_bytes_per_s


def round_over_step(
    chip: str, context_len: float, batch_size: float, draft_len: int, once: bool
) -> float:
    """Return what a round of Kimi-K3 takes in plain steps."""
    curve = speedup_curve(
        load_model("moonshotai/Kimi-K3"),
        load_hardware(chip),
        drafter=load_drafter(f"dspark,accept=0,drafts={draft_len}"),
        batch_size=batch_size,
        context_len=context_len,
        max_draft_len=draft_len,
        placement=Placement(tensor_parallel=8),
        options=Options(verify_attention="once" if once else None),
    )
    return float((curve.round_s[..., -1] / curve.decode_s).item())


def spread_round(context_len: float, batch_size: float, draft_len: int, once: bool) -> float:
    """Return the same with the target's cache over 8 devices, and verification as a prefill.

    A plain step reads an eighth of the cache on each device, and gathers queries and outputs. A
    verification gathers all latents on every device.
    """
    model, devices = load_model("moonshotai/Kimi-K3"), 8
    options = Options(verify_attention="once" if once else "prefill")
    setup = engine_setup(load_hardware("b300"), "vllm", Placement(tensor_parallel=devices), options)
    step = latents_spread(
        model_work(model, setup, ForwardPass(batch_size, 1, context_len)), devices
    )
    width = draft_len + 1
    verify = model_work(model, setup, ForwardPass(batch_size, width, context_len))
    latents = [
        core
        for count, core in model.counted_cores
        for _ in range(count)
        if isinstance(core, LatentAttention)
    ]
    rows = sum(core.n_heads * (2 * core.latent_dim + core.rope_dim) for core in latents)
    cached = sum(2 * (core.latent_dim + core.rope_dim) for core in latents)
    step_s = gathered_s(setup, 2 * batch_size * rows, _GATHERS * len(latents))
    if once:
        verify = latents_spread(verify, devices)
        verify_s = gathered_s(setup, 2 * width * batch_size * rows, _GATHERS * len(latents))
    else:
        verify_s = gathered_s(setup, batch_size * context_len * cached, len(latents))
    curve = speedup_curve(
        model,
        setup.hardware,
        drafter=load_drafter(f"dspark,accept=0,drafts={draft_len}"),
        batch_size=batch_size,
        context_len=context_len,
        max_draft_len=draft_len,
        placement=setup.placement,
        engine="vllm",
    )
    # Drafting, and what the engine adds to a round.
    added_s = float((curve.round_s - curve.verify_s)[..., -1].item())
    step_s += float(pass_time(step, setup.engine).total_s)
    verify_s += float(pass_time(verify, setup.engine).total_s)
    return (verify_s + added_s) / step_s


def latents_spread(work: PassWork, devices: int) -> PassWork:
    """Return a pass whose latents are read by so many devices, each its own."""
    return replace(
        work,
        ops=[
            replace(op, moved_bytes=op.moved_bytes / devices)
            if op.op.kind == "latent_attention"
            else op
            for op in work.ops
        ],
    )


def gathered_s(setup: Setup, gathered_bytes: float, times: int) -> float:
    """Return the seconds in which the devices gather so many bytes, in so many collectives."""
    link, reached = setup.hardware.interconnect, setup.engine.collective
    if link is None or reached is None:
        message = f"{setup.hardware.name} has no links"
        raise ValueError(message)
    devices = setup.placement.devices
    latency_s = reached.latency_s + reached.device_latency_s * (devices - 1)
    return float(
        all_to_all_s(
            gathered_bytes,
            devices=devices,
            link_bytes_per_s=link.link_bytes_per_s * reached.link_frac,
            latency_s=times * latency_s,
        )
    )


def unsplit_triton(context_len: float, batch_size: float, draft_len: int, once: bool) -> float:
    """Return a round whose verification does not split the cache over one that does."""
    if once:
        return 1.0
    model, chip = load_model("google/gemma-4-31B-it"), load_hardware("a100-80gb")
    options = Options(weight_dtype="int4")
    setup = engine_setup(chip, "vllm", Placement(), options)
    verify = ForwardPass(batch_size, draft_len + 1, context_len)
    unsplit = CacheReading("unsplit", tile=16, packed=True)
    verify_s = []
    for reading in (CacheReading(), unsplit):
        read_by = partial(_any, reading)
        ops = forward_cost(model, verify, served_options(model, setup), reading=read_by)
        shape = PassShape(model.n_layers, batch_size, query_len=verify.query_len)
        verify_s.append(float(pass_time(pass_work(ops, setup, shape), setup.engine).total_s))
    curve = speedup_curve(
        model,
        chip,
        drafter=load_drafter("mtp,accept=0.8"),
        batch_size=batch_size,
        context_len=context_len,
        max_draft_len=draft_len,
        engine="vllm",
        options=options,
    )
    added_s = float((curve.round_s - curve.verify_s)[..., -1].item())
    return (verify_s[1] + added_s) / (verify_s[0] + added_s)


def _any(reading: CacheReading, _core: Core) -> CacheReading:
    return reading


def unsplit_round(
    name: str, devices: int, context_len: float, batch_size: float, draft_len: int, once: bool
) -> float:
    """Return a round on RTX 3090 as vLLM's kernels read the cache over one that reads it once."""
    rounds = [
        speedup_curve(
            load_model(name),
            load_hardware("rtx-3090"),
            drafter=load_drafter("mtp,accept=0.8"),
            batch_size=batch_size,
            context_len=context_len,
            max_draft_len=draft_len,
            placement=Placement(tensor_parallel=devices),
            engine="vllm",
            options=Options(weight_dtype="int4", verify_attention=stated),
        ).round_s
        for stated in ("once" if once else None, "once")
    ]
    return float((rounds[0] / rounds[1])[..., -1].item())


def longer_round(
    chip: str, context_len: float, batch_size: float, draft_len: int, once: bool
) -> float:
    """Return a round of a DFlash drafter over one at 500 tokens."""
    curve = speedup_curve(
        load_model("Qwen/Qwen3.5-27B"),
        load_hardware(chip),
        drafter=load_drafter("dflash,accept=0.8"),
        batch_size=batch_size,
        context_len=[500, context_len],
        max_draft_len=draft_len,
        engine="vllm",
        options=Options(weight_dtype="fp8", verify_attention="once" if once else None),
    )
    short_s, long_s = curve.round_s[:, 0, -1]
    return float(long_s / short_s)


if __name__ == "__main__":
    main()
