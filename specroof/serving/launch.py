"""Flags that start a server with speculation, in the words of each: servers and local software."""

import json
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from specroof.architecture.base import CACHE_BLOCKS
from specroof.errors import expect_word, reject
from specroof.hardware import Placement, ServerSettings
from specroof.units import format_drafts

# --- Flags of a server without drafts: model, placement, formats and settings --------------------

#: Formats of weights that vLLM and SGLang make of any checkpoint as they load it.
MADE_WEIGHTS: Final = ("fp8",)
#: How servers call the dtypes of a cache.
#:
#: Source
#:     vllm 0.33.0, ``config/cache.py``; sglang 0.5.23, ``srt/arg_groups/fields/model.py``;
#:     llama.cpp in llama-cpp-python 0.3.36, ``kv_cache_types`` of ``common/arg.cpp``; of
#:     TensorRT-LLM what NVIDIA's aiconfigurator 0.12.0 writes for it, ``kv_cache_dtype`` of
#:     ``generator/config/backend_config_mapping.yaml``.
CACHES: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {"bf16": "bfloat16", "fp8": "fp8"},
    "sglang": {"bf16": "bf16", "fp8": "fp8_e4m3"},
    "tensorrt-llm": {"bf16": "bfloat16", "fp8": "fp8"},
    "llama.cpp": {
        "fp16": "f16",
        "bf16": "bf16",
        "fp32": "f32",
        **{name: name for name in CACHE_BLOCKS},
    },
}


#: Stands for the address of the first of several hosts.
FIRST_HOST: Final = "<FIRST-HOST>"
#: What starts a server on the other hosts.
OTHER_HOSTS: Final[Mapping[str, str]] = {
    "vllm": "the same with its own --node-rank, from 1, and --headless",
    "sglang": "the same with its own --node-rank, from 1",
    "tensorrt-llm": "one process a device by srun or mpirun, through trtllm-llmapi-launch",
}
#: Families whose configs the checkpoint's own code reads: neither the server nor the library that
#: it is built on does.
#:
#: Source
#:     vllm 0.33.0, ``_CONFIG_REGISTRY`` of ``transformers_utils/config.py``; sglang 0.5.23, that of
#:     ``srt/utils/hf_transformers/common.py``; transformers 5.19, ``CONFIG_MAPPING_NAMES``.
_OWN_CODE: Final[Mapping[str, Set[str]]] = {
    "vllm": frozenset(
        {"bailing_hybrid", "bailing_moe", "bailing_moe_v2", "mimo", "mimo_v2", "nemotron-nas"}
    ),
    "sglang": frozenset({"bailing_moe", "mimo", "mimo_v2", "nemotron-nas"}),
}


def server_command(  # noqa: PLR0913 - what a command says
    framework: str,
    model: str,
    placement: Placement,
    *,
    weights: str | None = None,
    kv_cache: str | None = None,
    hosts: int = 1,
    family: str = "",
) -> str:
    """Return the command that serves a model without drafts; of several hosts, on the first.

    Parameters
    ----------
    framework
        A key of `LAUNCHERS` or `LOCAL_LAUNCHERS`.
    model
        A Hub name or a folder.
    placement
        How it is spread over devices.
    weights, kv_cache
        Dtypes in the place of the checkpoint's; TensorRT-LLM reads that of the cache in a file.
    hosts
        Machines that the devices are in.
    family
        The family of the model, as its config says it; empty if not known.

    Source
        vllm 0.33.0, ``engine/arg_utils.py``; sglang 0.5.23, ``srt/arg_groups/fields/parallel.py``;
        the documentation of TensorRT-LLM 1.2, *trtllm-serve*.

    Examples
    --------
    >>> server_command("sglang", "me/model", Placement(8, 8, attention_data_parallel=4))
    'python -m sglang.launch_server --model-path me/model --tp-size 8 --attn-dp-size 4 --ep-size 8'
    """
    words: list[object]
    if framework in LOCAL_LAUNCHERS:
        words = ["llama-server", "--model", model if model.endswith(".gguf") else YOUR_FILE]
        if ":" in model and "/" in model:
            words = ["llama-server", "-hf", model]
        if framework == "mlx":
            words = ["mlx_lm.server", "--model", model]
        if framework == "lmstudio":
            words = ["lms", "load", model]
        if framework == "llama.cpp" and kv_cache in CACHES[framework]:
            cache = CACHES[framework][str(kv_cache)]
            words += ["--cache-type-k", cache, "--cache-type-v", cache]
        return shell_line(words)
    groups, experts = placement.attention_data_parallel, placement.expert_parallel
    spread, stages = placement.decode_context_parallel, placement.pipeline_parallel
    if framework == "vllm":
        # Each group of vLLM's data parallelism has separate devices.
        words = ["vllm", "serve", model, "--tensor-parallel-size", placement.group_size]
        words += ["--pipeline-parallel-size", stages] if stages > 1 else []
        words += ["--data-parallel-size", groups] if groups > 1 else []
        words += ["--enable-expert-parallel"] if experts > 1 else []
        words += ["--decode-context-parallel-size", spread] if spread > 1 else []
        first = ["--nnodes", hosts, "--node-rank", 0, "--master-addr", FIRST_HOST]
        words += first if hosts > 1 else []
    elif framework == "sglang":
        words = ["python", "-m", "sglang.launch_server", "--model-path", model]
        words += ["--tp-size", placement.tensor_parallel]
        words += ["--pp-size", stages] if stages > 1 else []
        words += ["--attn-dp-size", groups] if groups > 1 else []
        words += ["--ep-size", experts] if experts > 1 else []
        words += ["--dcp-size", spread] if spread > 1 else []
        first = ["--nnodes", hosts, "--node-rank", 0, "--dist-init-addr", f"{FIRST_HOST}:5000"]
        words += first if hosts > 1 else []
    else:
        words = ["trtllm-serve", model, "--tp_size", placement.tensor_parallel]
        words += ["--pp_size", stages] if stages > 1 else []
        words += ["--ep_size", experts] if experts > 1 else []
        words += ["--gpus_per_node", placement.devices // hosts] if hosts > 1 else []
        return shell_line(words)
    words += ["--trust-remote-code"] if family in _OWN_CODE[framework] else []
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


#: Dtypes of recurrent state, as vLLM and SGLang call them.
_STATE_DTYPES: Final = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
#: From the value of a setting to what tells it: none for a default, None where there is no way.
_Tell = Callable[[Any], Sequence[object] | None]


def _state_dtype(flag: str) -> _Tell:
    return lambda dtype: [flag, _STATE_DTYPES[dtype]] if dtype in _STATE_DTYPES else None


#: Settings by the keys of `SERVER_KEYS`, as flags.
_SETTING_FLAGS: Final[Mapping[str, Mapping[str, _Tell]]] = {
    "vllm": {
        "running": lambda requests: ["--max-num-seqs", requests],
        "memory": lambda share: ["--gpu-memory-utilization", f"{share:g}"],
        "capture": lambda tokens: (
            ["--max-cudagraph-capture-size", tokens]
            if tokens
            else ["--compilation-config", '{"cudagraph_mode": "NONE"}']
        ),
        "overlap": lambda overlap: [] if overlap is True else ["--no-async-scheduling"],
        "chunk": lambda tokens: (
            ["--max-num-batched-tokens", tokens] if tokens else ["--no-enable-chunked-prefill"]
        ),
        # Chunks always share passes with decoding.
        "mixed": lambda mixed: [] if mixed else None,
        "state-dtype": _state_dtype("--mamba-ssm-cache-dtype"),
        "prefix-cache": lambda kept: [
            "--enable-prefix-caching" if kept else "--no-enable-prefix-caching"
        ],
    },
    "sglang": {
        "running": lambda requests: ["--max-running-requests", requests],
        "memory": lambda share: ["--mem-fraction-static", f"{share:g}"],
        "capture": lambda batch: (
            ["--cuda-graph-max-bs-decode", batch]
            if batch
            else ["--cuda-graph-backend-decode", "disabled"]
        ),
        "overlap": lambda overlap: [] if overlap is True else ["--disable-overlap-schedule"],
        "chunk": lambda tokens: ["--chunked-prefill-size", tokens or -1],
        "mixed": lambda mixed: ["--enable-mixed-chunk"] if mixed else [],
        "state-dtype": _state_dtype("--mamba-ssm-dtype"),
        "prefix-cache": lambda kept: [] if kept else ["--disable-radix-cache"],
    },
}


def setting_words(
    framework: str, settings: ServerSettings, release: str
) -> tuple[list[object], list[str]]:
    """Return the flags of settings, and notes on those that a server has no flag for.

    Parameters
    ----------
    framework
        ``"vllm"`` or ``"sglang"``.
    settings
        What the user says of the server.
    release
        What notes call it.

    Source
        vllm 0.33.0, ``engine/arg_utils.py`` and ``config/vllm.py``; sglang 0.5.23,
        ``srt/arg_groups/fields/``.

    Examples
    --------
    >>> setting_words("sglang", ServerSettings(chunk=0, running=64), SGLANG)
    (['--max-running-requests', 64, '--chunked-prefill-size', -1], [])
    """
    words, notes = list[object](), list[str]()
    for key, value in settings.stated.items():
        flags = _SETTING_FLAGS[framework][key](value)
        if flags is None:
            notes.append(_not_told(release, key, value))
        else:
            words += flags
    return words, notes


def _not_told(release: str, key: str, value: object) -> str:
    spelt = value if isinstance(value, str) else "on" if value else "off"
    return f"{release} has no flag for {key}={spelt}: the prediction has it, the server does not"


#: Stands for the drafter's weights where no name is given.
YOUR_DRAFT_MODEL: Final = "<YOUR-DRAFT-MODEL>"
#: What names them, for refusals.
DRAFT_MODEL: Final = "a Hub name or a folder, or None"
#: Kinds that look drafts up, without weights.
LOOKUPS: Final = frozenset({"ngram", "prompt_lookup", "suffix"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """What a server is to do: which drafter, how many drafts at which load.

    Parameters
    ----------
    kind
        What drafts, as a SPEC calls it.
    schedule
        First and last number of running requests, and drafts per round: from 1 on, without gaps.
        0 drafts is off.
    draft_model
        A Hub name or folder with the drafter's weights; None for those of the model's checkpoint,
        else for a placeholder.
    family
        The family of the model that is served, as its config says it; empty if not known.
    in_checkpoint
        Whether the model's checkpoint holds the drafter's layers; None for what is usual: those of
        mtp alone.
    block
        Drafts that a block drafter was trained to make at a time; None if not known.
    is_tree
        Whether the drafter branches: depths are then draft lengths.
    top_k, nodes
        Children of an EAGLE-2 tree's node, and its drafts; 1 child of a tree of another shape.
    settings
        What the user says of the server.
    data_parallel
        Groups of devices, each with attention over separate sequences.
    kv_cache
        Dtype of the cache in the place of the checkpoint's, for servers that read it in a file.
    pipeline_parallel
        Stages of layers.
    p_min, n_min
        How likely a drafter must find its drafts, and how many of them there must be: llama.cpp
        alone knows both.
    on_host
        Whether the drafter runs on the CPU beside the chip, which llama.cpp alone knows.
    is_recurrent
        Whether layers of the model keep a state that cannot be cut back to an earlier token.
    draft_family
        The family of a draft model; empty for other drafters.
    draft_has_mtp
        Whether the config of a draft model names layers for mtp.
    vocab_sizes
        Tokens of a draft model, and of the model; None for other drafters.

    Raises
    ------
    OptionError
        For a schedule with gaps, or that never drafts, and for mtp without layers to draft with.
    """

    kind: str
    schedule: tuple[tuple[int, int, int], ...]
    draft_model: str | None = None
    family: str = ""
    in_checkpoint: bool | None = None
    block: int | None = None
    is_tree: bool = False
    top_k: int = 1
    nodes: int = 0
    settings: ServerSettings = field(default_factory=ServerSettings)
    data_parallel: int = 1
    kv_cache: str | None = None
    pipeline_parallel: int = 1
    p_min: float = 0.0
    n_min: int = 0
    on_host: bool = False
    is_recurrent: bool = False
    draft_family: str = ""
    draft_has_mtp: bool = False
    vocab_sizes: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        expected = 1
        for first, last, drafts in self.schedule:
            if first != expected or last < first or drafts < 0:
                reject(
                    f"schedule is {list(self.schedule)}",
                    "ranges of running requests from 1 on, without gaps, each with a number of drafts "
                    "from 0",
                )
            expected = last + 1
        if not self.drafts:
            reject(f"schedule is {list(self.schedule)}", "drafts at some load")
        if self.kind == "mtp" and self.draft_model is None and self.weights is not None:
            reject(
                "the model's checkpoint has no layers for mtp to draft with",
                "a model that has them, or weights that do (--draft-model)",
            )

    @property
    def drafts(self) -> int:
        """The longest draft of the schedule."""
        return max((drafts for _, _, drafts in self.schedule), default=0)

    @property
    def differs(self) -> bool:
        """Whether loads differ in their drafts."""
        return len({drafts for _, _, drafts in self.schedule}) > 1

    @property
    def weights(self) -> str | None:
        """The drafter's weights, or the placeholder; None where the checkpoint holds them."""
        if self.kind in LOOKUPS:
            return None
        held = self.kind == "mtp" if self.in_checkpoint is None else self.in_checkpoint
        return self.draft_model or (None if held else YOUR_DRAFT_MODEL)

    @property
    def to_fill_in(self) -> list[str]:
        """What the reader has to put in place."""
        if self.weights != YOUR_DRAFT_MODEL:
            return []
        return [f"replace {YOUR_DRAFT_MODEL} by the drafter's weights (--draft-model)"]


@dataclass(frozen=True, slots=True)
class Launch:
    """What to paste.

    Parameters
    ----------
    framework, release
        The server software, and the release that the flags were read in.
    text
        Flags.
    files
        Files that the flags name, by name.
    notes
        What the flags cannot say, or what to fill in.
    environment
        Variables that the server needs, as a shell sets them before a command.
    """

    framework: str
    release: str
    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    environment: str = ""

    @property
    def file_lines(self) -> list[str]:
        """What a shell writes the files with, one text each."""
        return [f"cat > {name} <<'END'\n{text}END" for name, text in self.files.items()]


def launch(plan: Speculation, framework: str) -> Launch:
    """Return the flags that make a server do what is planned.

    Parameters
    ----------
    plan
        Drafter, schedule and what else the server is told.
    framework
        ``"vllm"``, ``"sglang"`` or ``"tensorrt-llm"``, or one of `LOCAL_LAUNCHERS`.

    Raises
    ------
    OptionError
        For another framework, or a kind of drafter that this one has no flag for.

    Source
        vllm 0.33.0, ``config/speculative.py``, ``config/vllm.py`` (which model runner, and what it
        makes of a schedule) and ``v1/spec_decode/dynamic/utils.py``; sglang 0.5.23,
        ``srt/arg_groups/fields/spec.py``, ``srt/arg_groups/speculative_hook.py`` (what becomes of
        NEXTN, of trees and of n-grams, and what needs attention in one group),
        ``srt/arg_groups/deepseek_v4_hook.py`` and ``srt/speculative/adaptive_spec_params.py``. Of
        TensorRT-LLM the definitions were not at hand; how it counts drafts of mtp is in NVIDIA's
        aiconfigurator 0.12.0, whose templates for its releases 1.0.0 to 1.3.0rc23 agree. llama.cpp
        in llama-cpp-python 0.3.36, ``common/arg.cpp`` and ``common/speculative.cpp``; mlx-lm
        0.32.2, ``server.py`` and ``generate.py``; LM Studio's documentation of speculative
        decoding. Which families run which kinds: `_NO_FEATURES`.

    Examples
    --------
    >>> plan = Speculation(kind="eagle3", schedule=((1, 256, 3),), draft_model="me/head")
    >>> launch(plan, "sglang").text
    '--speculative-algorithm EAGLE3 --speculative-draft-model-path me/head \
--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4'
    """
    known = {**LAUNCHERS, **LOCAL_LAUNCHERS}
    expect_word("framework", framework, known)
    if plan.p_min and known[framework] is not _llama_cpp:
        reject(f"p-min is {plan.p_min:g}, and {framework} ends no draft early", "llama.cpp")
    if plan.on_host and known[framework] is not _llama_cpp:
        reject(f"device is cpu, and {framework} drafts on no CPU", "llama.cpp")
    return known[framework](plan)


def follows_load(
    kind: str,
    framework: str,
    *,
    is_tree: bool = False,
    data_parallel: int = 1,
    pipeline_parallel: int = 1,
) -> bool:
    """Tell whether a server can change its draft length with the requests that it runs.

    So can, for all that anyone runs there, a server that has no flag for such a drafter.

    Parameters
    ----------
    kind
        What drafts, as a SPEC calls it.
    framework
        A key of `LAUNCHERS`.
    is_tree
        Whether the drafter branches.
    data_parallel
        Groups of devices, each with attention over separate sequences.
    pipeline_parallel
        Stages of layers.

    Source
        vllm 0.33.0, ``config/vllm.py``; sglang 0.5.23, ``srt/speculative/adaptive_spec_params.py``,
        ``adaptive_unsupported_reason``, and ``srt/arg_groups/validation_hook.py`` (stages).
        TensorRT-LLM's ``draft_len_schedule`` changed its meaning between releases: none is written.

    Examples
    --------
    >>> follows_load("dflash", "vllm"), follows_load("dflash", "sglang")
    (True, False)
    """
    if framework == "vllm":
        method = _VLLM_METHODS.get(kind, {})
        # It would run a schedule of parallel drafts in piecewise graphs, whose time is not known.
        fixed = kind == "suffix" or "parallel_drafting" in method or data_parallel > 1
        return is_tree or not method or not fixed
    if framework == "sglang":
        is_adaptive = SGLANG_ALGORITHMS.get(kind, "EAGLE") in _ADAPTIVE
        return is_adaptive and not is_tree and data_parallel == pipeline_parallel == 1
    if framework in LOCAL_LAUNCHERS:
        return False
    return is_tree or kind not in _TENSORRT_TYPES


def _fixed_note(plan: Speculation, release: str, what: str, drafts: int) -> str:
    """Return the note that a server drafts one length at any load, and where it should not run."""
    off = [f"{first}-{last}" for first, last, k in plan.schedule if not k]
    without = f"; at {', '.join(off)} in flight start it without these flags" if off else ""
    return (
        f"{release} does not change {what} with the load: {format_drafts(drafts)} always{without}"
    )


def _refuse(plan: Speculation, release: str, known: Sequence[str]) -> None:
    what = f"trees of {plan.kind}" if plan.is_tree else plan.kind
    reject(f"{release} has no flag for {what}", ", ".join(known))


#: Families that neither vLLM nor SGLang has a class for, nor the library of models behind both
#: (vllm 0.33.0, ``_PREVIOUSLY_SUPPORTED_MODELS`` of ``model_executor/models/registry.py``, and
#: transformers 5.20).
_NO_MODELS: Final = frozenset({"lfm3", "minimax_m1", "minimax_text_01"})


def _refuse_family(plan: Speculation, release: str) -> None:
    if plan.family in _NO_MODELS:
        reject(f"{release} has no models of the family {plan.family}", "another model")


def _refuse_model(plan: Speculation, release: str, families: Set[str], allowed: str) -> None:
    if plan.family.removesuffix("_text") in families:
        reject(f"{release} has no {plan.kind} for models of the family {plan.family}", allowed)


def _refuse_vocabulary(plan: Speculation, release: str, padding: int = 0) -> None:
    """Refuse a draft model whose vocabulary differs from the model's by more than padding."""
    own, target = plan.vocab_sizes or (0, 0)
    if abs(own - target) > padding:
        reject(
            f"{release} runs no draft model of {own} tokens beside a model of {target}",
            "a draft model with the same vocabulary",
        )


#: Families that both servers read as their layers for mtp wherever they draft, and what each adds:
#: a draft model of theirs is never run as such.
#:
#: Source
#:     vllm 0.33.0 ``config/speculative.py``, ``hf_config_override`` and ``__post_init__``: the
#:     method becomes ``mtp`` whatever was asked for, and of Kimi-K3, which has no such layers, the
#:     number of drafts is divided by their number, 0. sglang 0.5.23 ``configs/model_config.py``,
#:     ``_config_draft_model``.
_READ_AS_MTP: Final = frozenset(
    {
        *("bailing_hybrid", "deepseek_v3", "deepseek_v32", "deepseek_v4", "ernie4_5_moe"),
        *("glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "hy_v3", "hy_v4", "inkling_mm_model"),
        *("inkling_model", "longcat_flash", "mimo", "mimo_v2", "mimo_v2_flash", "qwen3_5"),
        *("qwen3_5_moe", "qwen3_next", "qwen4_exp", "step3p5", "step3p7"),
    }
)
_VLLM_AS_MTP: Final = _READ_AS_MTP | {"kimi_k3", "minimax_m3_vl", "mistral_large3"}
_SGLANG_AS_MTP: Final = (
    _READ_AS_MTP | {"bailing_moe", "bailing_moe_v2"} | {"kimi_k2", "nemotron_h", "qwen3_moe"}
)


def _refuse_own_family(plan: Speculation, release: str, families: Set[str]) -> None:
    """Refuse a draft model of which a server would load the layers for mtp alone."""
    if plan.draft_family.removesuffix("_text") in families:
        reject(
            f"{release} runs no draft model of the family {plan.draft_family}: it reads its config "
            "as layers for mtp",
            "a draft model of another family, or mtp where the model has it",
        )


def _cache_notes(plan: Speculation, framework: str, release: str) -> list[str]:
    """Return the note that a server is not told the format of the cache, where that is so."""
    if plan.kv_cache in {None, *CACHES.get(framework, {})}:
        return []
    return [_not_told(release, "kv-cache", plan.kv_cache)]


#: Families whose models hand on no hidden states to drafters that read those of several layers,
#: by server and kind; names without ``_text``.
#:
#: Source
#:     vllm 0.33.0, the classes that ``model_executor/models/registry.py`` names: those without
#:     ``SupportsEagle3`` are refused as the model is loaded. sglang 0.5.23, ``srt/models``: those
#:     without ``set_eagle3_layers_to_capture`` and its like, which ``srt/model_executor/
#:     model_runner_components/attention_backend_setup.py`` asks for.
_VLLM_NO_FEATURES: Final = frozenset(
    {
        *("bailing_hybrid", "bailing_moe", "bailing_moe_v2", "cohere", "cohere2", "ernie4_5_moe"),
        *("exaone4", "falcon_h1", "gemma", "gemma2", "gemma3", "gemma3n", "glm4_moe"),
        *("glm4_moe_lite", "glm4v_moe", "granitemoehybrid", "hy_v3", "hy_v4", "inkling"),
        *("inkling_mm_model", "inkling_model", "lfm2", "lfm2_moe", "longcat_flash", "mixtral"),
        *("nemotron-nas", "opt", "phimoe", "qwen2_moe", "qwen2_vl", "step3p5", "step3p7"),
    }
)
_SGLANG_NONE: Final = frozenset(
    {
        *("afmoe", "arcee", "cohere", "cohere2", "dots1", "ernie4_5", "ernie4_5_moe", "exaone4"),
        *("falcon_h1", "gemma", "gemma2", "gemma3n", "glm4v_moe", "granite", "granitemoe"),
        *("granitemoehybrid", "granitemoeshared", "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3"),
        *("hy_v4", "jais2", "lfm3", "mimo", "minicpm3", "minimax_m1", "ministral3", "mistral3"),
        *("mixtral", "nemotron-nas", "olmo2", "olmo3", "opt", "phimoe", "qwen2_vl", "seed_oss"),
        *("solar_open", "step3p5", "step3p7"),
    }
)
_SGLANG_EAGLE3_ALONE: Final = frozenset(
    {
        *("apertus", "bailing_moe", "bailing_moe_v2", "gemma3", "glm4_moe", "llama4"),
        *("longcat_flash", "minimax_m2", "qwen2", "qwen2_5_vl", "qwen2_moe"),
    }
)
_SGLANG_DSPARK_ALONE: Final = frozenset({"bailing_hybrid", "kimi_linear"})
_NO_FEATURES: Final[Mapping[str, Mapping[str, Set[str]]]] = {
    "vllm": dict.fromkeys(("eagle3", "p_eagle", "dflash", "dspark"), _VLLM_NO_FEATURES),
    "sglang": {
        "eagle3": _SGLANG_NONE
        | _SGLANG_DSPARK_ALONE
        | {"inkling", "inkling_mm_model", "inkling_model", "kimi_k3", "lfm2", "lfm2_moe"}
        | {"mimo_v2", "mimo_v2_flash", "nemotron_h"},
        "dflash": _SGLANG_NONE | _SGLANG_EAGLE3_ALONE | _SGLANG_DSPARK_ALONE,
        "dspark": _SGLANG_NONE | _SGLANG_EAGLE3_ALONE,
    },
}


# --- vLLM -----------------------------------------------------------------------------------------

VLLM: Final = "vLLM 0.33.0"

#: The method of each kind, and what else it needs.
_VLLM_METHODS: Final[Mapping[str, Mapping[str, object]]] = {
    "mtp": {"method": "mtp"},
    "eagle": {"method": "eagle"},
    "eagle3": {"method": "eagle3"},
    "p_eagle": {"method": "eagle3", "parallel_drafting": True},
    "dflash": {"method": "dflash"},
    "dspark": {"method": "dspark"},
    "model": {"method": "draft_model"},
    "pard": {"method": "draft_model", "parallel_drafting": True},
    "ngram": {"method": "ngram", "prompt_lookup_max": 5},
    "prompt_lookup": {"method": "ngram", "prompt_lookup_max": 5},
    "suffix": {"method": "suffix"},
}
#: Families whose configs name layers for mtp that vLLM does not load (config/speculative.py,
#: hf_config_override).
_VLLM_NO_MTP: Final = frozenset({"minimax_m2"})
#: Families whose stages pass on hidden states of several layers (v1/worker/gpu/spec_decode/eagle/
#: eagle3_utils.py, verify_supports_aux_hidden_states_over_pp; the models that set the flag, and
#: those built on them).
_VLLM_STAGED: Final = (
    *("deepseek_v4", "kimi_k3", "kimi_linear", "llama", "llama4", "minimax_m3", "minimax_m3_vl"),
    *(
        "ministral",
        "ministral3",
        "mistral",
        "mistral3",
        "qwen2",
        "qwen2_5_vl",
        "qwen2_vl",
        "qwen3",
        "qwen3_vl",
    ),
)
#: Kinds that draft a whole block wherever they draft (v1/worker/gpu/spec_decode/dflash).
_BLOCKS: Final = frozenset({"dflash", "dspark"})


def vllm_config(plan: Speculation) -> tuple[dict[str, object], list[str]]:
    """Return vLLM's speculative config, and notes.

    A schedule shortens what is verified: DSpark goes on drafting the block that it was trained
    for, and vLLM refuses to be told a shorter one (``_validate_qwen3_omni_dspark`` of
    ``config/speculative.py``; of DeepSeek-V4 its page on adaptive verification).

    Raises
    ------
    OptionError
        For what vLLM has no method for.
    """
    if plan.is_tree or plan.kind not in _VLLM_METHODS:
        _refuse(plan, VLLM, list(_VLLM_METHODS))
    _refuse_family(plan, VLLM)
    if plan.kind == "mtp":
        _refuse_model(plan, VLLM, _VLLM_NO_MTP, "drafters with weights of their own")
    lacking = _NO_FEATURES["vllm"].get(plan.kind)
    if lacking is not None:
        _refuse_model(plan, VLLM, lacking, "mtp where the model has it, eagle, ngram or a model")
    _refuse_vocabulary(plan, VLLM)
    # Of this family, only where it has such layers: Nemotron-3 Super and Ultra.
    more = {"nemotron_h"} if plan.draft_has_mtp else set()
    _refuse_own_family(plan, VLLM, _VLLM_AS_MTP | more)
    if plan.pipeline_parallel > 1 and lacking is not None and plan.family:
        family = plan.family.removesuffix("_text")
        if family not in _VLLM_STAGED:
            reject(
                f"{VLLM} has no {plan.kind} for {plan.family} in a pipeline: its stages do not pass "
                f"on the hidden states that it reads",
                f"one stage, mtp or a model as drafter, or a family of {', '.join(_VLLM_STAGED)}",
            )
    config: dict[str, object] = dict(_VLLM_METHODS[plan.kind])
    if plan.weights is not None:
        config["model"] = plan.weights
    drafts = max(plan.drafts, plan.block or 0) if plan.kind == "dspark" else plan.drafts
    config["num_speculative_tokens"] = drafts
    notes = plan.to_fill_in
    if plan.kind == "suffix":
        notes.append(f"{VLLM} needs the package arctic-inference for suffix decoding")
    if not plan.differs and drafts == plan.drafts:
        return config, notes
    if not follows_load(plan.kind, "vllm", data_parallel=plan.data_parallel):
        if drafts > plan.drafts:
            reject(
                f"{VLLM} under data parallelism verifies all {drafts} drafts of a block, not "
                f"{plan.drafts}",
                f"a draft length of {drafts} (--choose-draft-len)",
            )
        where = " under data parallelism" if plan.data_parallel > 1 else ""
        notes.append(_fixed_note(plan, VLLM, f"drafts of {plan.kind}{where}", drafts))
        return config, notes
    config["num_speculative_tokens_per_batch_size"] = [list(row) for row in plan.schedule]
    if plan.kind in _BLOCKS:
        notes.append(
            f"{VLLM} drafts the whole block wherever it drafts: the schedule shortens what is "
            f"verified"
        )
    return config, notes


def _vllm(plan: Speculation) -> Launch:
    config, notes = vllm_config(plan)
    words, more = setting_words("vllm", plan.settings, VLLM)
    more += _cache_notes(plan, "vllm", VLLM)
    text = shell_line(["--speculative-config", json.dumps(config), *words])
    return Launch("vllm", VLLM, text, notes=(*notes, *more))


# --- SGLang ---------------------------------------------------------------------------------------

SGLANG: Final = "SGLang 0.5.23"
#: NEXTN, its other name of EAGLE, is refused where single families look first (deepseek_v4_hook).
SGLANG_ALGORITHMS: Final[Mapping[str, str]] = {
    "mtp": "EAGLE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "model": "STANDALONE",
    "ngram": "NGRAM",
    "prompt_lookup": "NGRAM",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
}
_ADAPTIVE: Final = frozenset({"EAGLE", "EAGLE3"})
_STEPPED: Final = frozenset({"EAGLE", "EAGLE3", "STANDALONE"})
#: What drafts in a pipeline (arg_groups/validation_hook.py, check_pipeline_parallel_compat).
_STAGED: Final = frozenset({"EAGLE"})
_STAGED_ENVIRONMENT: Final = "SGLANG_ENABLE_PP_SPEC=1"
#: What refuses to start with data-parallel attention.
_NOT_IN_GROUPS: Final = frozenset({"STANDALONE", "NGRAM"})
_ADAPTIVE_FILE: Final = "adaptive.json"
#: Families whose configs name layers for mtp that SGLang does not load (configs/model_config.py,
#: the architectures of draft models; models/minimax_m3.py skips them).
_SGLANG_NO_MTP: Final = frozenset({"minimax_m2", "minimax_m3_vl"})
#: Families that draft with few algorithms, in chains (arg_groups/deepseek_v4_hook.py).
_CHAINS_ALONE: Final = frozenset({"deepseek_v4"})
_CHAIN_ALGORITHMS: Final = frozenset({"EAGLE", "DSPARK"})


def sglang_words(plan: Speculation) -> list[object]:
    """Return SGLang's flags of a drafter.

    Raises
    ------
    OptionError
        For what SGLang has no flag for, or refuses to start with.
    """
    algorithm = SGLANG_ALGORITHMS.get(plan.kind, "")
    if not algorithm or (plan.is_tree and algorithm not in _STEPPED):
        _refuse(plan, SGLANG, list(SGLANG_ALGORITHMS))
    _refuse_family(plan, SGLANG)
    if plan.is_tree and plan.top_k < 2:
        reject(
            f"{SGLANG} has no flag for the shape of a tree: it grows them as EAGLE-2 does",
            "tree=eagle2 with top-k= from 2",
        )
    if plan.kind == "mtp":
        _refuse_model(plan, SGLANG, _SGLANG_NO_MTP, "drafters with weights of their own")
    if plan.is_tree or algorithm not in _CHAIN_ALGORITHMS:
        _refuse_model(plan, SGLANG, _CHAINS_ALONE, "mtp, eagle and dspark, without trees")
    lacking = _NO_FEATURES["sglang"].get(plan.kind, frozenset())
    _refuse_model(plan, SGLANG, lacking, "mtp where the model has it, eagle, ngram or a model")
    _refuse_vocabulary(plan, SGLANG)
    _refuse_own_family(plan, SGLANG, _SGLANG_AS_MTP)
    if plan.data_parallel > 1 and algorithm in _NOT_IN_GROUPS:
        reject(f"{SGLANG} has no {algorithm} with data-parallel attention", "without it")
    if plan.pipeline_parallel > 1:
        if algorithm not in _STAGED:
            reject(f"{SGLANG} has no {algorithm} in a pipeline", "mtp and eagle, or one stage")
        if plan.data_parallel > 1:
            reject(
                f"{SGLANG} has no drafts in a pipeline with data-parallel attention",
                "one of the two",
            )
    words: list[object] = ["--speculative-algorithm", algorithm]
    if plan.weights is not None:
        words += ["--speculative-draft-model-path", plan.weights]
    return words + _sglang_drafts(plan, algorithm)


def _sglang(plan: Speculation) -> Launch:
    words, notes, files = sglang_words(plan), plan.to_fill_in, {}
    algorithm = SGLANG_ALGORITHMS[plan.kind]
    shape: dict[str, Any] = {
        "is_tree": plan.is_tree,
        "data_parallel": plan.data_parallel,
        "pipeline_parallel": plan.pipeline_parallel,
    }
    if plan.differs and follows_load(plan.kind, "sglang", **shape):
        # The slot of a batch is the largest key that is not above it.
        slots = {str(first): {"candidate_steps": [drafts]} for first, _, drafts in plan.schedule}
        files[_ADAPTIVE_FILE] = json.dumps(slots, indent=2) + "\n"
        words += ["--speculative-adaptive", "--speculative-adaptive-config", _ADAPTIVE_FILE]
        notes.append(f"{SGLANG} rounds a batch up to a captured size, then looks in the schedule")
    elif plan.differs:
        where = " with data-parallel attention" if plan.data_parallel > 1 else ""
        where = " in trees" if plan.is_tree else where
        where = " in a pipeline" if plan.pipeline_parallel > 1 else where
        notes.append(_fixed_note(plan, SGLANG, f"drafts of {algorithm}{where}", plan.drafts))
    told, more = setting_words("sglang", plan.settings, SGLANG)
    more += _cache_notes(plan, "sglang", SGLANG)
    environment = ""
    if plan.pipeline_parallel > 1:
        environment = _STAGED_ENVIRONMENT
        notes.append(f"{SGLANG} drafts in a pipeline only with {environment} in its environment")
    text = shell_line([*words, *told])
    return Launch("sglang", SGLANG, text, files, (*notes, *more), environment)


def _sglang_drafts(plan: Speculation, algorithm: str) -> list[object]:
    """Return how SGLang counts drafts: with the root but for DSPARK's blocks."""
    # Blocks are drafted with the head of the target, which each group then has to hold.
    head = ["--enable-dp-lm-head"] if plan.data_parallel > 1 else []
    if algorithm == "DFLASH":
        return ["--speculative-dflash-block-size", plan.drafts + 1, *head]
    if algorithm == "DSPARK":
        return ["--speculative-dspark-block-size", plan.drafts, *head]
    verified = (plan.nodes if plan.is_tree else plan.drafts) + 1
    if algorithm == "NGRAM":
        # A chain, as it is priced: by default up to ten branches share the drafts.
        breadth: list[object] = ["--speculative-ngram-max-bfs-breadth", 1]
        return ["--speculative-num-draft-tokens", verified, *breadth]
    top_k = plan.top_k if plan.is_tree else 1
    return [
        *("--speculative-num-steps", plan.drafts, "--speculative-eagle-topk", top_k),
        *("--speculative-num-draft-tokens", verified),
    ]


# --- TensorRT-LLM ---------------------------------------------------------------------------------

_TENSORRT: Final = "TensorRT-LLM 1.2"
_TENSORRT_TYPES: Final[Mapping[str, str]] = {
    "mtp": "MTP",
    "eagle3": "Eagle",
    "model": "Draft_Target",
    "ngram": "NGram",
    "prompt_lookup": "NGram",
    "pard": "PARD",
    "dflash": "DFlash",
}
_TENSORRT_FILE: Final = "speculation.yaml"


def _tensorrt(plan: Speculation) -> Launch:
    if plan.is_tree or plan.kind not in _TENSORRT_TYPES:
        _refuse(plan, _TENSORRT, list(_TENSORRT_TYPES))
    _refuse_vocabulary(plan, _TENSORRT, _PADDING)
    speculation: dict[str, object] = {
        "decoding_type": _TENSORRT_TYPES[plan.kind],
        "max_draft_len": plan.drafts,
    }
    if plan.kind == "mtp":
        speculation["num_nextn_predict_layers"] = plan.drafts
    if plan.weights is not None:
        speculation["speculative_model"] = plan.weights
    notes = plan.to_fill_in
    if plan.differs:
        last_on = max(last for _, last, drafts in plan.schedule if drafts)
        if plan.schedule[-1][2] == 0:
            speculation["max_concurrency"] = last_on
        notes.append(
            f"{_TENSORRT} has a draft_len_schedule whose keys changed their meaning between "
            f"releases: {format_drafts(plan.drafts)} up to {last_on} requests here"
        )
    stated = plan.settings.stated
    unknown = [key for key in ("mixed", "state-dtype") if key in stated]
    notes += [_not_told(_TENSORRT, key, stated[key]) for key in unknown]
    notes += _cache_notes(plan, "tensorrt-llm", _TENSORRT)
    notes.append(f"keys as of {_TENSORRT}, not checked against its definitions")
    if plan.pipeline_parallel > 1:
        notes.append(f"whether {_TENSORRT} drafts in a pipeline was not read")
    keys = {"speculative_config": speculation, **_tensorrt_settings(plan)}
    text = shell_line(["--extra_llm_api_options", _TENSORRT_FILE])
    return Launch("tensorrt-llm", _TENSORRT, text, {_TENSORRT_FILE: _yaml(keys)}, tuple(notes))


def _tensorrt_settings(plan: Speculation) -> dict[str, object]:
    """Return the keys of what else a server is told, without those that are not."""
    settings = plan.settings
    cache = {
        "free_gpu_memory_fraction": settings.memory_frac,
        "enable_block_reuse": settings.prefix_cache,
        "dtype": CACHES["tensorrt-llm"].get(plan.kv_cache or ""),
    }
    keys: dict[str, object] = {
        "max_batch_size": settings.running,
        "max_num_tokens": settings.chunk or None,
        "enable_chunked_prefill": None if settings.chunk is None else settings.chunk > 0,
        "disable_overlap_scheduler": settings.overlap not in {None, True} or None,
        "enable_attention_dp": plan.data_parallel > 1 or None,
        "kv_cache_config": {key: value for key, value in cache.items() if value is not None}
        or None,
    }
    told = {key: value for key, value in keys.items() if value is not None}
    if settings.capture is not None:  # null turns graphs off
        most = {"max_batch_size": settings.capture} if settings.capture else None
        told["cuda_graph_config"] = most
    return told


def _yaml(keys: Mapping[str, object]) -> str:
    """Return keys as YAML, whose scalars JSON spells."""
    lines = []
    for key, value in keys.items():
        if isinstance(value, Mapping):
            lines += [f"{key}:", *(f"  {name}: {json.dumps(own)}" for name, own in value.items())]
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join([*lines, ""])


# --- Workers of prefill and of decoding -----------------------------------------------------------

#: Families whose blocks SGLang drafts only where one server does both (model_overrides/minimax_m3).
_SGLANG_COLOCATED: Final = {"dflash": frozenset({"minimax_m3_vl"})}


def worker_launches(
    framework: str,
    flags: Launch | None,
    placement: Placement,
    *,
    input_len: float,
    kind: str = "",
    family: str = "",
) -> dict[str, Launch]:
    """Return the flags of a prefill worker and of a decode worker, by ``"prefill"``, ``"decode"``.

    Both draft alike, so that the drafter's cache is made and sent too; workers of TensorRT-LLM
    that compute prompts are not told of drafts.

    Parameters
    ----------
    framework
        A key of `LAUNCHERS`.
    flags
        What the decode worker is told of speculation; None for nothing.
    placement
        How the model is spread over a decode worker.
    input_len
        Tokens of a prompt, for buffers.
    kind, family
        What drafts, and the family of the model.

    Raises
    ------
    OptionError
        For a framework without such workers, and for what one refuses together with them.

    Source
        vllm 0.33.0, ``config/kv_transfer.py`` and ``distributed/kv_transfer/kv_connector/v1/nixl/
        metadata.py`` (both sides agree on method and weights of the drafter); sglang 0.5.23,
        ``srt/arg_groups/fields/disagg.py`` and ``pd_disaggregation_hook.py``; of TensorRT-LLM its
        documentation, *Disaggregated serving*.

    Examples
    --------
    >>> launches = worker_launches("sglang", None, Placement(8), input_len=1000)
    >>> launches["decode"].text
    '--disaggregation-mode decode --disaggregation-transfer-backend mooncake'
    """
    if framework not in _WORKER_ROLES:
        reject(f"{framework} has no workers for prefill alone", ", ".join(_WORKER_ROLES))
    spread = placement.decode_context_parallel
    if framework == "vllm" and spread not in {1, placement.group_size}:
        reject(
            f"{VLLM} with NixlConnector does not move caches to decode_context_parallel {spread}",
            f"1 or {placement.group_size}, all devices of a group",
        )
    if framework == "sglang" and flags and family in _SGLANG_COLOCATED.get(kind, ()):
        reject(f"{SGLANG} drafts {kind} for {family} where one server does both", "no --prefill")
    if framework == "tensorrt-llm":
        return _tensorrt_workers(flags, input_len)
    release = {"vllm": VLLM, "sglang": SGLANG}[framework]
    text, files = ("", {}) if flags is None else (f" {flags.text}", flags.files)
    return {
        role: Launch(framework, release, f"{shell_line(words)}{text}", files)
        for role, words in _WORKER_ROLES[framework].items()
    }


def _tensorrt_workers(flags: Launch | None, input_len: float) -> dict[str, Launch]:
    transfer = {"backend": "NIXL", "max_tokens_in_buffer": math.ceil(input_len)}
    moved = _yaml({"cache_transceiver_config": transfer})
    drafted = "" if flags is None else flags.files[_TENSORRT_FILE]
    texts = {"prefill": moved, "decode": drafted + moved}
    return {
        role: Launch(
            "tensorrt-llm",
            _TENSORRT,
            shell_line(["--extra_llm_api_options", f"{role}.yaml"]),
            {f"{role}.yaml": text},
        )
        for role, text in texts.items()
    }


def _kv_transfer(role: str) -> list[object]:
    config = {"kv_connector": "NixlConnector", "kv_role": role}
    return ["--kv-transfer-config", json.dumps(config)]


def _disaggregation(mode: str) -> list[object]:
    return ["--disaggregation-mode", mode, "--disaggregation-transfer-backend", "mooncake"]


#: What makes a server one of both kinds of workers; of TensorRT-LLM a file does.
_WORKER_ROLES: Final[Mapping[str, Mapping[str, Sequence[object]]]] = {
    "vllm": {"prefill": _kv_transfer("kv_producer"), "decode": _kv_transfer("kv_consumer")},
    "sglang": {"prefill": _disaggregation("prefill"), "decode": _disaggregation("decode")},
    "tensorrt-llm": {},
}

# --- Software of one user: llama.cpp and what wraps it, MLX ---------------------------------------

#: As it ships with llama-cpp-python 0.3.36: `--draft-max`, `--draft-min` and `--draft` are gone.
LLAMA_CPP: Final = "llama.cpp of November 2026"
_LLAMA_TYPES: Final[Mapping[str, str]] = {
    "mtp": "draft-mtp",
    "eagle3": "draft-eagle3",
    "model": "draft-simple",
    "dflash": "draft-dflash",
    "dspark": "draft-dspark",
    "ngram": "ngram-mod",
    "prompt_lookup": "ngram-simple",
}
#: Each look-up counts its drafts by flags of its own, and is left with 48 to 64 without them.
_LLAMA_LOOKUPS: Final[Mapping[str, Callable[[int], Sequence[object]]]] = {
    "ngram": lambda drafts: ["--spec-ngram-mod-n-max", drafts, "--spec-ngram-mod-n-min", 0],
    "prompt_lookup": lambda drafts: ["--spec-ngram-simple-size-m", drafts],
}
#: By how many tokens llama.cpp lets vocabularies differ (SPEC_VOCAB_MAX_SIZE_DIFFERENCE): padding.
#: MLX just warns, and drafts tokens of another meaning.
_PADDING: Final = 128
_MLX: Final = "mlx-lm 0.32.2"
_LM_STUDIO: Final = "LM Studio 0.4"
#: Stands for the file of weights.
YOUR_FILE: Final = "<YOUR-FILE.gguf>"


def _llama_cpp(plan: Speculation) -> Launch:
    if plan.is_tree or plan.kind not in _LLAMA_TYPES:
        _refuse(plan, LLAMA_CPP, list(_LLAMA_TYPES))
    _refuse_vocabulary(plan, LLAMA_CPP, _PADDING)
    words: list[object] = ["--spec-type", _LLAMA_TYPES[plan.kind]]
    if plan.weights is not None:
        on_hub = ":" in plan.weights and "/" in plan.weights
        words += ["--spec-draft-hf" if on_hub else "--spec-draft-model", plan.weights]
    words += ["--spec-draft-device", "none"] if plan.on_host else []
    if plan.kind in _LLAMA_LOOKUPS:
        words += _LLAMA_LOOKUPS[plan.kind](plan.drafts)
    else:
        words += ["--spec-draft-n-max", plan.drafts, "--spec-draft-n-min", plan.n_min]
        words += ["--spec-draft-p-min", f"{plan.p_min:g}"]
    notes = [*plan.to_fill_in, f"replace {YOUR_FILE} by the file of weights"]
    if plan.differs:
        notes.append(_fixed_note(plan, LLAMA_CPP, "drafts", plan.drafts))
    for key, value in plan.settings.stated.items():
        if key == "running":
            words += ["--parallel", value]
        elif key == "chunk" and value:
            words += ["--batch-size", value]
        elif key == "prefix-cache":
            words += [] if value else ["--no-cache-prompt"]
        else:
            notes.append(_not_told(LLAMA_CPP, key, value))
    notes += _cache_notes(plan, "llama.cpp", LLAMA_CPP)
    return Launch("llama.cpp", LLAMA_CPP, shell_line(words), notes=tuple(notes))


def _mlx(plan: Speculation) -> Launch:
    if plan.kind != "model":
        _refuse(plan, _MLX, ["model"])
    if plan.is_recurrent:
        reject(
            f"{_MLX} drafts for no model with recurrent layers, whose cache it cannot trim",
            "a model whose layers all cache keys and values, or llama.cpp",
        )
    _refuse_vocabulary(plan, _MLX, _PADDING)
    notes = [*plan.to_fill_in, f"{_MLX} runs one request at a time with a draft model"]
    if plan.differs:
        notes.append(_fixed_note(plan, _MLX, "drafts", plan.drafts))
    notes += [_not_told(_MLX, key, value) for key, value in plan.settings.stated.items()]
    notes += _cache_notes(plan, "mlx", _MLX)
    words = ["--draft-model", plan.weights, "--num-draft-tokens", plan.drafts]
    return Launch("mlx", _MLX, shell_line(words), notes=tuple(notes))


def _lm_studio(plan: Speculation) -> Launch:
    if plan.kind != "model":
        _refuse(plan, _LM_STUDIO, ["model"])
    _refuse_vocabulary(plan, _LM_STUDIO, _PADDING)
    told = f'each request names it: "draft_model": {json.dumps(plan.weights)} (draftModel in SDKs)'
    notes = [*plan.to_fill_in, told]
    notes.append(
        f"{_LM_STUDIO} has no setting for the number of drafts: {plan.drafts} are predicted"
    )
    notes += _cache_notes(plan, "lmstudio", _LM_STUDIO)
    return Launch("lmstudio", _LM_STUDIO, "", notes=tuple(notes))


def _ollama(plan: Speculation) -> Launch:
    reject(
        f"ollama has no setting for {plan.kind} that is documented",
        "llama.cpp, which runs the same files",
    )


#: Kinds that a server could run, unlike shares of time; none runs Medusa's heads by now.
SERVED_KINDS: Final = frozenset({*_VLLM_METHODS, *SGLANG_ALGORITHMS, "medusa"})
#: Software of one user.
LOCAL_LAUNCHERS: Final[Mapping[str, Callable[[Speculation], Launch]]] = {
    "llama.cpp": _llama_cpp,
    "mlx": _mlx,
    "lmstudio": _lm_studio,
    "ollama": _ollama,
}
#: Server software whose flags are known.
LAUNCHERS: Final[Mapping[str, Callable[[Speculation], Launch]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt,
}
