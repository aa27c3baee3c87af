"""TensorRT-LLM, of which kernel timings are published and no serving benchmark with drafts.

Shares of the peaks and the time of an all-reduce come from its kernels; what a pass loses between
them is taken from the fit to SGLang and vLLM, which replay captured graphs as it does.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from fitting.parameters import (
    EVERYONE,
    FACTORS,
    PREFILL_LAUNCH,
    chip_family,
    own,
    own_engine,
    prompt_tiles,
    shared_engine,
    timed_kernels,
    timed_layers,
    with_sparse,
)
from specroof.errors import ProfileError
from specroof.hardware.engine import Collective, EngineProfile, ExpertKernel, FormerReleases
from specroof.hardware.profile import HardwareProfile, scaled_engine
from specroof.units import MICROSECOND

#: The engine that kernels are known of.
KERNEL_ENGINE: Final = "tensorrt-llm"

#: Where every figure of this file is from.
KERNEL_SOURCE: Final = (
    "kernels of TensorRT-LLM 1.3.0rc20 (1.0.0 on A100): aiconfigurator, "
    "https://github.com/ai-dynamo/aiconfigurator/tree/095f58a/aic-core/src/aiconfigurator_core"
)

#: Releases that ran other experts in fp8 blocks on Blackwell, and the month from which on loads
#: that state none are of later ones. A step of DeepSeek-R1 on 8 B200 takes 1.14 to 1.44 times as
#: long in 1.1.0rc2.post2 as in 1.2.0rc6.post2.
FORMER: Final = FormerReleases(last="v1.1", before="2026-01")

#: What kernels reach by the names of hardware files: median share of the memory's bytes/s while few
#: rows are multiplied by large bf16 weights, median shares of the dense peaks in matmuls of at
#: least 4096 in each direction, and microseconds of all-reduces by number of devices.
_TIMED_CHIPS: Final[dict[str, Any]] = json.loads(
    Path(__file__).with_name("timed_chips.json").read_text(encoding="utf-8")
)
#: The chips that kernels were timed on, or others of the same die.
KERNEL_CHIPS: Final = tuple(_TIMED_CHIPS["chips"])
#: Chips without timings of layers, and those that have the same die.
_SAME_DIE: Final = {"a100-40gb": "a100-80gb", "gh200": "h100-sxm"}

#: Factors of what was timed alone, by how they begin: these have none. Loads took all-reduces for
#: 1.0 to 1.1 times what is timed, without gpt-oss for 0.55 and without DeepSeek-R1 for 1.3 to 1.5.
_TIMED: Final = ("experts", "collective", "link")
#: Bytes of the longest message that one-shot kernels reduce: at 2 MiB 8 H200 take little longer.
_LONGEST_ONE_SHOT: Final = 2.0**20

#: A dtype without timings reaches what the one beside it does.
_STANDS_IN: Final = {"fp32": "bf16", "fp16": "bf16", "int8": "bf16", "fp6": "fp8"}


def kernel_engine(hardware: HardwareProfile, parameters: Mapping[str, float]) -> EngineProfile:
    """Return the profile that kernel timings make for a chip.

    Parameters
    ----------
    hardware
        One of the chips that the fitted families hold.
    parameters
        Fitted ones, for what no kernel says; see `fitting.parameters.PARAMETERS`.
        Of a speculative round, and of a drafter's pass, they hold two times, SGLang's and
        vLLM's: the geometric mean is taken.

    Raises
    ------
    ProfileError
        For a chip without timings.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from fitting.parameters import fitted_parameters
    >>> shared = {key: one for key, one in fitted_parameters().items() if " of " not in key}
    >>> engine = kernel_engine(load_hardware("h200"), shared)
    >>> engine.memory_frac, engine.compute_frac["fp8"]
    (0.85, 0.63)
    """
    chip = next((name for name in hardware.aliases if name in KERNEL_CHIPS), None)
    if chip is None:
        message = (
            f"{hardware.name} has no published kernel timings; allowed: {', '.join(KERNEL_CHIPS)}"
        )
        raise ProfileError(message)
    timed = _TIMED_CHIPS["chips"][chip]
    layers = timed_layers()["chips"][_SAME_DIE.get(chip, chip)]
    family = chip_family(hardware)
    fitted = shared_engine("vllm", family, parameters)
    reached = timed["compute_frac"]
    compute = {
        dtype: reached.get(dtype, reached.get(_STANDS_IN.get(dtype, "bf16"), reached["bf16"]))
        for dtype in hardware.peak.flops_per_s
    }
    # Kinds keep their distance from large matmuls, and from the weights of small ones.
    scaled = scaled_engine(
        fitted,
        compute=compute["bf16"] / fitted.compute_frac["bf16"],
        memory=timed["memory_frac"] / fitted.memory_frac,
    )
    former = layers.get("former_experts")
    kernels = replace(
        scaled,
        name=KERNEL_ENGINE,
        compute_frac=compute,
        lookup_round_frac=1.0,
        memory_frac=timed["memory_frac"],
        round_overhead_s=own("round_s", KERNEL_ENGINE, parameters),
        draft_pass_overhead_s=own("draft_pass_s", KERNEL_ENGINE, parameters),
        collective=_collective(timed["all_reduce_us"], hardware, fitted),
        graphs=None,  # which sizes it captures is the deployer's choice
        prefill_launch_s=parameters.get(PREFILL_LAUNCH, 0.0),
        expert_kernels=timed_kernels(ExpertKernel, layers["experts"]),
        prefill_expert_tiles=prompt_tiles(layers["experts"]),
        former=None
        if former is None
        else replace(FORMER, expert_kernels=timed_kernels(ExpertKernel, former)),
        # Of the seconds of a layer, those of a dense feed-forward: two matrices, and what is
        # between them. In its place experts have the router's matrix, and their own kernel.
        layer_overhead_s=scaled.layer_overhead_s - 3 * layers["matrix_s"],
        layer_kind_overhead_s={
            **scaled.layer_kind_overhead_s,
            "feed_forward": 3 * layers["matrix_s"],
            "experts": layers["matrix_s"],
            "latent_attention": layers["latent_attention_s"],
        },
    )
    names = (EVERYONE, KERNEL_ENGINE, family, f"{KERNEL_ENGINE} {family}")
    said = [name for name in FACTORS if not name.startswith(_TIMED)]
    return with_sparse(own_engine(kernels, names, parameters, said), family)


def _collective(
    timed_us: Mapping[str, list[float]], hardware: HardwareProfile, fitted: EngineProfile
) -> Collective | None:
    r"""Return the all-reduce that fits the timings best, in relative least squares.

    .. math:: t = t_0 + t_1 (g - 1) + \frac{2 (g - 1)}{g} \frac{n}{f W}

    and :math:`(g - 1) n / (f_1 W)` of messages that one-shot kernels reduce.
    """
    link = hardware.interconnect
    if link is None or fitted.collective is None:
        return fitted.collective
    columns, seconds = [], []
    for devices, times_us in ((int(count), times) for count, times in timed_us.items()):
        for size, us in zip(_TIMED_CHIPS["all_reduce_bytes"], times_us, strict=True):
            whole_s = (devices - 1) * size / link.link_bytes_per_s
            is_short = size <= _LONGEST_ONE_SHOT
            crossing_s = (0.0, whole_s) if is_short else (2 / devices * whole_s, 0.0)
            columns.append((1.0, devices - 1.0, *crossing_s))
            seconds.append(us * MICROSECOND)
    measured = np.array(seconds)
    (latency_s, device_s, slowness, one_shot), *_ = np.linalg.lstsq(
        np.array(columns) / measured[:, None], np.ones(len(measured)), rcond=None
    )
    return replace(
        fitted.collective,
        latency_s=float(latency_s),
        device_latency_s=float(device_s),
        link_frac=float(1 / slowness),
        one_shot_frac=float(1 / one_shot),
        one_shot_bytes=_LONGEST_ONE_SHOT,
    )
