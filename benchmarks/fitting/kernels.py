"""TensorRT-LLM, of which kernel timings are published and no serving benchmark with drafts.

Shares of the peaks and the time of an all-reduce come from its kernels; what a pass loses between
them is taken from the fit to SGLang and vLLM, which replay captured graphs as it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

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

#: Bytes of the all-reduces that were timed.
_SIZES: Final = (1024, 8192, 16384, 65536, 262144, 1048576, 8388608)


@dataclass(frozen=True, slots=True)
class _Kernels:
    """What kernels reach on one chip.

    Attributes
    ----------
    memory_frac
        Median share of the memory's bytes/s while few rows are multiplied by large bf16 weights.
    compute_frac
        Median share of the dense peak in matmuls of at least 4096 in each direction.
    all_reduce_us
        Microseconds for messages of `_SIZES`, by number of devices.
    """

    memory_frac: float
    compute_frac: Mapping[str, float]
    all_reduce_us: Mapping[int, tuple[float, ...]]


_H100: Final = _Kernels(
    0.84,
    {"bf16": 0.78, "fp8": 0.62},
    {
        2: (2.71, 2.8, 2.85, 3.06, 3.76, 6.1, 37.52),
        4: (2.91, 3.14, 3.27, 3.68, 5.48, 12.91, 63.75),
        8: (3.17, 3.54, 3.56, 4.59, 10.17, 25.96, 79.43),
    },
)

_A100: Final = _Kernels(
    0.82,
    {"bf16": 0.84},
    {
        2: (3.84, 4.68, 5.11, 5.1, 6.15, 11.56, 80.87),
        4: (4.03, 6.01, 6.32, 6.03, 9.37, 23.11, 112.55),
        8: (4.59, 8.0, 8.38, 9.0, 16.28, 83.22, 128.8),
    },
)

#: By the names of hardware files.
_KERNELS: Final[Mapping[str, _Kernels]] = {
    "a100-40gb": _A100,
    "a100-80gb": _A100,
    "h100-sxm": _H100,
    # The same die; it has no timings there.
    "gh200": _H100,
    "h200": _Kernels(
        0.85,
        {"bf16": 0.78, "fp8": 0.63},
        {
            2: (2.69, 2.8, 2.83, 2.95, 3.59, 5.99, 34.35),
            4: (2.95, 3.18, 3.21, 3.61, 5.43, 12.85, 57.75),
            8: (3.17, 3.5, 3.49, 4.58, 10.11, 25.74, 76.69),
        },
    ),
    "b200": _Kernels(
        0.80,
        {"bf16": 0.65, "fp8": 0.53, "fp4": 0.39},
        {
            2: (4.89, 4.78, 5.22, 5.15, 4.99, 6.42, 20.78),
            4: (5.04, 5.07, 5.52, 5.39, 5.79, 9.66, 47.12),
            8: (5.38, 5.64, 5.93, 5.99, 7.93, 17.78, 55.36),
        },
    ),
    "b300": _Kernels(
        0.80,
        {"bf16": 0.66, "fp8": 0.55, "fp4": 0.32},
        {
            2: (4.6, 4.71, 5.09, 4.98, 5.02, 6.21, 20.92),
            4: (4.41, 4.62, 5.1, 5.38, 5.82, 9.51, 47.16),
            8: (5.19, 5.39, 5.78, 5.84, 7.62, 17.41, 55.52),
        },
    ),
    "gb200": _Kernels(
        0.83,
        {"bf16": 0.61, "fp8": 0.50, "fp4": 0.38},
        {
            2: (3.8, 4.01, 4.54, 4.56, 4.62, 6.0, 20.79),
            4: (4.72, 4.9, 4.95, 4.99, 5.69, 9.47, 49.44),
        },
    ),
    "gb300": _Kernels(
        0.81,
        {"bf16": 0.74, "fp8": 0.57, "fp4": 0.31},
        {
            2: (4.29, 4.55, 4.54, 4.56, 4.6, 6.01, 20.62),
            4: (4.75, 4.82, 4.94, 4.92, 5.55, 9.41, 48.86),
        },
    ),
}

#: Chips without timings of layers, and those that have the same die.
_SAME_DIE: Final = {"a100-40gb": "a100-80gb", "gh200": "h100-sxm"}

#: The chips that kernels were timed on.
KERNEL_CHIPS: Final = tuple(_KERNELS)

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
    chip = next((name for name in hardware.aliases if name in _KERNELS), None)
    if chip is None:
        message = f"{hardware.name} has no published kernel timings; allowed: {', '.join(_KERNELS)}"
        raise ProfileError(message)
    timed, layers = _KERNELS[chip], timed_layers()["chips"][_SAME_DIE.get(chip, chip)]
    family = chip_family(hardware)
    fitted = shared_engine("vllm", family, parameters)
    reached = timed.compute_frac
    compute = {
        dtype: reached.get(dtype, reached.get(_STANDS_IN.get(dtype, "bf16"), reached["bf16"]))
        for dtype in hardware.peak.flops_per_s
    }
    # Kinds keep their distance from large matmuls, and from the weights of small ones.
    scaled = scaled_engine(
        fitted,
        compute=compute["bf16"] / fitted.compute_frac["bf16"],
        memory=timed.memory_frac / fitted.memory_frac,
    )
    former = layers.get("former_experts")
    kernels = replace(
        scaled,
        name=KERNEL_ENGINE,
        compute_frac=compute,
        lookup_round_frac=1.0,
        memory_frac=timed.memory_frac,
        round_overhead_s=own("round_s", KERNEL_ENGINE, parameters),
        draft_pass_overhead_s=own("draft_pass_s", KERNEL_ENGINE, parameters),
        collective=_collective(timed, hardware, fitted),
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
    timed: _Kernels, hardware: HardwareProfile, fitted: EngineProfile
) -> Collective | None:
    r"""Return the all-reduce that fits the timings best, in relative least squares.

    .. math:: t = t_0 + t_1 (g - 1) + \frac{2 (g - 1)}{g} \frac{n}{f W}

    and :math:`(g - 1) n / (f_1 W)` of messages that one-shot kernels reduce.
    """
    link = hardware.interconnect
    if link is None or fitted.collective is None:
        return fitted.collective
    columns, seconds = [], []
    for devices, times_us in timed.all_reduce_us.items():
        for size, us in zip(_SIZES, times_us, strict=True):
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
