"""What vLLM 0.33.0 sizes by the chip: requests, tokens of a pass, captured graphs.

Each function names the file and the function that it follows.
"""

from typing import Final

from specroof.hardware import HardwareProfile
from specroof.units import GIBIBYTE

#: Tokens of a pass on TPUs, by what their names hold (engine/arg_utils.py, get_batch_defaults).
_TPU_TOKENS: Final = {"TPU v6e": 1024, "TPU v5e": 512, "TPU v5p": 256}
#: Tokens of the largest graph, and on data-centre Blackwell (config/vllm.py,
#: _set_cudagraph_sizes).
_CAPTURED: Final = 512
_CAPTURED_BLACKWELL: Final = 1024


def batch_defaults(hardware: HardwareProfile) -> tuple[int, int]:
    """Return requests that run, and tokens of a pass, of a server with no settings.

    Source
        ``engine/arg_utils.py``, ``EngineArgs.get_batch_defaults``, for a server.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> [batch_defaults(load_hardware(name)) for name in ("b200", "h100", "a100", "l40s")]
    [(1024, 16384), (1024, 8192), (256, 2048), (256, 2048)]
    """
    gib, name = hardware.peak.memory_bytes / GIBIBYTE, hardware.name.casefold()
    running, tokens = 256, 2048
    if gib >= 160:
        running, tokens = 1024, 16384
    elif gib >= 70 and "a100" not in name and "gb10" not in name:
        running, tokens = 1024, 8192
    tpu = [most for chip, most in _TPU_TOKENS.items() if chip in hardware.name]
    return running, (tpu[0] if tpu else tokens)


def is_large_blackwell(hardware: HardwareProfile) -> bool:
    """Tell whether a chip has compute capability 10.x: B200, B300 and boards that carry them.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> is_large_blackwell(load_hardware("gb200")), is_large_blackwell(load_hardware("h200"))
    (True, False)
    """
    return hardware.compute_capability == 10


def _largest_graph(hardware: HardwareProfile) -> int:
    return _CAPTURED_BLACKWELL if is_large_blackwell(hardware) else _CAPTURED


def largest_captured(
    hardware: HardwareProfile, *, running: int, tokens: int, verify_len: int = 1
) -> int:
    """Return the tokens of the largest graph: an upper end, where sizes start from.

    Source
        ``config/vllm.py``, ``_set_cudagraph_sizes``.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> largest_captured(load_hardware("h100"), running=16, tokens=8192, verify_len=4)
    128
    """
    return min(2 * running * verify_len, _largest_graph(hardware), tokens)


def captured_sizes(
    hardware: HardwareProfile,
    most: int,
    *,
    tokens: int,
    running: int | None = None,
    verify_len: int = 1,
) -> list[int]:
    """Return the sizes in tokens for which passes are captured.

    Parameters
    ----------
    hardware
        The chip, which says how many requests are listed.
    most
        From `largest_captured`, or the user's.
    tokens
        Of a pass.
    running
        Requests that run, whose uniform passes are listed; None where the user gave `most`.
    verify_len
        Positions of each request in a pass.

    Source
        ``config/vllm.py``, ``_set_cudagraph_sizes``.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> captured_sizes(load_hardware("h100"), 24, running=6, tokens=8192, verify_len=2)
    [1, 2, 4, 8, 12, 16, 24]
    """

    def counts(most_counted: int) -> list[int]:
        grid = [*range(8, min(most_counted + 1, 256), 8), *range(256, most_counted + 1, 16)]
        return [size for size in (1, 2, 4) if size <= most_counted] + grid

    sizes = {*counts(most), tokens}
    if running is not None:
        requests = min(running, _largest_graph(hardware)) if verify_len > 1 else running
        uniform = (*counts(requests), requests) if verify_len > 1 else (requests,)
        sizes |= {n * verify_len for n in uniform}
    return sorted(size for size in sizes if size <= min(most, tokens))
