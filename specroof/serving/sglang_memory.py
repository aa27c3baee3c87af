"""What SGLang 0.5.23 keeps away from its pools: chunks, captured graphs, images.

Each function names the file (below ``srt/``) and the function that it follows.
"""

from typing import Final

from specroof.architecture import VisionTower
from specroof.units import GIBIBYTE, MEBIBYTE

#: max_prefill_tokens, which stands in where prompts are taken whole.
_WHOLE_PROMPTS: Final = 16384
_LEAST_TOKENS: Final = 2048


def memory_defaults(memory_mib: float, tensor_parallel: int) -> tuple[int, int]:
    """Return tokens of a prefill chunk and the largest captured batch of sequences.

    Source
        ``arg_groups/memory_hook.py``, ``handle_gpu_memory_settings``.

    Examples
    --------
    >>> memory_defaults(46068, 1), memory_defaults(143771, 8)
    ((4096, 32), (8192, 512))
    """
    few, gib = tensor_parallel < 4, memory_mib * MEBIBYTE / GIBIBYTE
    for below, chunk, small, large in (
        (20, 2048, 8, 8),
        (35, 4096, 48, 160),
        (60, 4096, 32, 160),
        (160, 8192, 256, 512),
    ):
        if gib < below:
            return chunk, small if few else large
    return 16384, 512


def prefill_sizes(most: int) -> list[int]:
    """Return the token counts for which prefills are captured.

    Source
        ``arg_groups/cuda_graph_hook.py``, ``generate_prefill_cuda_graph_batch_sizes``.

    Examples
    --------
    >>> len(prefill_sizes(4096)), prefill_sizes(20)
    (50, [4, 8, 12, 16, 20])
    """
    steps = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256))
    sizes = [size for step in (*steps, (4608, most + 1, 512)) for size in range(*step)]
    return [size for size in sizes if size <= most]


def captured_sizes(most: int, *, drafting: bool) -> list[int]:
    """Return the batch sizes, in sequences, for which decoding is captured.

    Source
        ``arg_groups/cuda_graph_hook.py``, ``generate_decode_cuda_graph_batch_sizes``.

    Examples
    --------
    >>> captured_sizes(20, drafting=False)
    [1, 2, 4, 8, 12, 16, 20]
    >>> captured_sizes(12, drafting=True)
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
    """
    first, steps = [1, 2, 4, 8, 12], [(16, 257, 8), (272, 512, 16), (512, most + 1, 32)]
    if drafting:
        first, steps = [*range(1, 9)], [(10, 33, 2), (40, 65, 4), (72, 257, 8)]
        steps.append((272, most + 1, 16))
    sizes = [*first, *(size for step in steps for size in range(*step))]
    sizes = [size for size in sizes if size <= most]
    return sizes if most in {0, *sizes} else [*sizes, most]


def reserve_mib(
    *,
    memory_mib: float,
    chunk: int,
    capture: int,
    tensor_parallel: int = 1,
    prefill_graphs_mib: float = 0.0,
    ranks: int = 1,
) -> float:
    """Return the MiB that are kept for activations and captured graphs.

    Parameters
    ----------
    memory_mib
        Of the device.
    chunk, capture
        Tokens of a chunk, and the largest captured batch.
    tensor_parallel
        Devices.
    prefill_graphs_mib
        8 for each captured prefill; 1536 with latent attention; 0 where none is captured.
    ranks
        Groups of devices with separate sequences.

    Source
        ``arg_groups/memory_hook.py``, ``handle_gpu_memory_settings``, ``reserve_for_graph_mb``.

    Examples
    --------
    Qwen3.5-9B on an L40S, no prefill captured: 512 + 6144 + 128 + 64.

    >>> reserve_mib(memory_mib=46068, chunk=4096, capture=32)
    6848.0
    """
    tokens = max(chunk or _WHOLE_PROMPTS, _LEAST_TOKENS)
    parallel = tensor_parallel / 8 * 1024
    graphs = 2 * capture + prefill_graphs_mib
    if ranks > 1:
        graphs += capture * ranks * (4.5 if capture > 300 else 3)
    reserve = 512 + 1.5 * tokens + parallel + graphs
    return max(reserve, 10 * 1024) if memory_mib > 60 * 1024 else reserve


def vision_factor(tower: VisionTower) -> float:
    """Return what is left of the memory share where a vision tower reads images.

    Source
        ``arg_groups/memory_hook.py``, ``adjust_mem_fraction_for_vlm``.

    Examples
    --------
    >>> round(vision_factor(VisionTower(hidden_size=1152)), 3)  # 0.95 * (1 - 0.1 * 0.266)
    0.925
    """
    size = (tower.n_layers or 24) * (tower.hidden_size or 1024) ** 2
    ratio = size / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1 - 0.1 * (ratio - 1)))
