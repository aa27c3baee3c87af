"""Flags of a server without drafts: model, placement and formats, for vLLM and SGLang."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from specroof.hardware import Placement

#: Formats of weights that vLLM and SGLang make of any checkpoint as they load it.
MADE_WEIGHTS: Final = ("fp8",)
#: How they call the dtypes of a cache.
CACHES: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {"bf16": "bfloat16", "fp8": "fp8"},
    "sglang": {"bf16": "bf16", "fp8": "fp8_e4m3"},
}


def server_command(
    framework: str,
    model: str,
    placement: Placement,
    *,
    weights: str | None = None,
    kv_cache: str | None = None,
) -> str | None:
    """Return the command that serves a model without drafts, or None where it is a file.

    Parameters
    ----------
    framework
        ``"vllm"``, ``"sglang"`` or ``"tensorrt-llm"``.
    model
        A Hub name or a folder.
    placement
        How it is spread over devices.
    weights, kv_cache
        Dtypes in the place of the checkpoint's.

    Source
        vllm 0.33.0, ``engine/arg_utils.py``; sglang 0.5.23, ``srt/arg_groups/fields/parallel.py``.

    Examples
    --------
    >>> server_command("sglang", "me/model", Placement(8, 8, attention_data_parallel=4))
    'python -m sglang.launch_server --model-path me/model --tp-size 8 --attn-dp-size 4 --ep-size 8'
    """
    groups, experts = placement.attention_data_parallel, placement.expert_parallel
    words: list[object]
    if framework == "vllm":
        # Each group of vLLM's data parallelism has separate devices.
        words = ["vllm", "serve", model, "--tensor-parallel-size", placement.devices // groups]
        words += ["--data-parallel-size", groups] if groups > 1 else []
        words += ["--enable-expert-parallel"] if experts > 1 else []
    elif framework == "sglang":
        words = ["python", "-m", "sglang.launch_server", "--model-path", model]
        words += ["--tp-size", placement.devices]
        words += ["--attn-dp-size", groups] if groups > 1 else []
        words += ["--ep-size", experts] if experts > 1 else []
    else:
        return None
    return shell_line([*words, *format_words(framework, weights, kv_cache)])


def format_words(framework: str, weights: str | None, kv_cache: str | None) -> list[object]:
    """Return the flags of formats that replace the checkpoint's, where there are flags.

    Parameters
    ----------
    framework
        A key of `CACHES`.
    weights, kv_cache
        Dtypes in the place of the checkpoint's; None leaves it alone.

    Examples
    --------
    >>> format_words("sglang", None, "fp8")
    ['--kv-cache-dtype', 'fp8_e4m3']
    """
    words: list[object] = []
    if weights in MADE_WEIGHTS:
        words += ["--quantization", weights]
    if kv_cache in CACHES[framework]:
        words += ["--kv-cache-dtype", CACHES[framework][str(kv_cache)]]
    return words


def shell_line(words: Iterable[object]) -> str:
    """Return words as a shell takes them."""
    return " ".join(shlex.quote(str(word)) for word in words)
