"""Flags that start a server with speculation: vLLM, SGLang and TensorRT-LLM, in their own words."""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from specroof.errors import expect_word, reject
from specroof.hardware import Placement
from specroof.units import format_drafts

# --- Flags of a server without drafts: model, placement and formats, for vLLM and SGLang ---------

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


#: Stands for the drafter's weights where no name is given.
YOUR_DRAFT_MODEL: Final = "<YOUR-DRAFT-MODEL>"
#: What names them, for refusals.
DRAFT_MODEL: Final = "a Hub name or a folder, or None"
#: Kinds without separate weights.
_NO_WEIGHTS: Final = frozenset({"mtp", "ngram", "prompt_lookup", "suffix"})


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
        A Hub name or folder with the drafter's weights; None for a placeholder.
    is_tree
        Whether the drafter branches: depths are then draft lengths.
    top_k, nodes
        Children of a tree's node, and its drafts.
    running
        Requests that the server runs at a time; None for its default.
    memory
        Share of the memory that the server takes; None for its default.
    overlap
        Whether the host schedules the next round while the device runs this one.
    data_parallel
        Groups of devices, each with attention over separate sequences.

    Raises
    ------
    OptionError
        For a schedule with gaps, or that never drafts.
    """

    kind: str
    schedule: tuple[tuple[int, int, int], ...]
    draft_model: str | None = None
    is_tree: bool = False
    top_k: int = 1
    nodes: int = 0
    running: int | None = None
    memory: float | None = None
    overlap: bool = True
    data_parallel: int = 1

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

    @property
    def drafts(self) -> int:
        """The longest draft of the schedule."""
        return max((drafts for _, _, drafts in self.schedule), default=0)

    @property
    def differs(self) -> bool:
        """Whether loads differ in their drafts."""
        return len({drafts for _, _, drafts in self.schedule}) > 1

    @property
    def weights(self) -> str:
        """The drafter's weights, or the placeholder."""
        return self.draft_model or YOUR_DRAFT_MODEL

    @property
    def needs_weights(self) -> bool:
        """Whether the drafter has separate weights."""
        return self.kind not in _NO_WEIGHTS

    @property
    def to_fill_in(self) -> list[str]:
        """What the reader has to put in place."""
        if not self.needs_weights or self.draft_model is not None:
            return []
        return [f"put the drafter's weights in the place of {YOUR_DRAFT_MODEL} (--draft-model)"]


@dataclass(frozen=True, slots=True)
class Launch:
    """What to paste.

    Parameters
    ----------
    framework, release
        The server software, and the release that the flags were read in.
    text
        Flags, or a piece of YAML.
    files
        Files that the flags name, by name.
    notes
        What the flags cannot say, or what to fill in.
    """

    framework: str
    release: str
    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def launch(plan: Speculation, framework: str) -> Launch:
    """Return the flags that make a server do what is planned.

    Parameters
    ----------
    plan
        Drafter, schedule and what else the server is told.
    framework
        ``"vllm"``, ``"sglang"`` or ``"tensorrt-llm"``.

    Raises
    ------
    OptionError
        For another framework, or a kind of drafter that this one has no flag for.

    Source
        vllm 0.33.0, ``config/speculative.py`` and ``v1/spec_decode/dynamic/utils.py``; sglang
        0.5.23, ``srt/arg_groups/fields/spec.py``, ``srt/arg_groups/speculative_hook.py`` (what
        becomes of NEXTN and of n-grams, and what needs attention in one group) and
        ``srt/speculative/adaptive_spec_params.py``. Of TensorRT-LLM the definitions were not at
        hand; how it counts drafts of mtp is in NVIDIA's aiconfigurator 0.12.0, whose templates for
        its releases 1.0.0 to 1.3.0rc23 agree.

    Examples
    --------
    >>> plan = Speculation(kind="eagle3", schedule=((1, 256, 3),), draft_model="me/head")
    >>> launch(plan, "sglang").text
    '--speculative-algorithm EAGLE3 --speculative-draft-model-path me/head \
--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4'
    """
    expect_word("framework", framework, LAUNCHERS)
    return LAUNCHERS[framework](plan)


def _refuse(plan: Speculation, release: str, known: Sequence[str]) -> None:
    what = f"trees of {plan.kind}" if plan.is_tree else plan.kind
    reject(f"{release} has no flag for {what}", ", ".join(known))


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


def _vllm(plan: Speculation) -> Launch:
    if plan.is_tree or plan.kind not in _VLLM_METHODS:
        _refuse(plan, VLLM, list(_VLLM_METHODS))
    config: dict[str, object] = dict(_VLLM_METHODS[plan.kind])
    if plan.needs_weights:
        config["model"] = plan.weights
    config["num_speculative_tokens"] = plan.drafts
    notes = plan.to_fill_in
    suffix = plan.kind == "suffix"
    if suffix:
        notes.append(f"{VLLM} needs the package arctic-inference for suffix decoding")
    if plan.differs and (suffix or plan.data_parallel > 1):
        what = "of suffix" if suffix else "with data parallelism"
        notes.append(f"{VLLM} drops a schedule {what}: {format_drafts(plan.drafts)} always")
    elif plan.differs:
        config["num_speculative_tokens_per_batch_size"] = [list(row) for row in plan.schedule]
    words: list[object] = ["--speculative-config", json.dumps(config)]
    words += _told(plan, "--max-num-seqs", "--gpu-memory-utilization", "--no-async-scheduling")
    return Launch("vllm", VLLM, shell_line(words), notes=tuple(notes))


def _told(plan: Speculation, running: str, memory: str, no_overlap: str) -> list[object]:
    """Return what else the server is told, by its own flags."""
    words: list[object] = []
    if plan.running is not None:
        words += [running, plan.running]
    if plan.memory is not None:
        words += [memory, f"{plan.memory:g}"]
    return words if plan.overlap else [*words, no_overlap]


# --- SGLang ---------------------------------------------------------------------------------------

SGLANG: Final = "SGLang 0.5.23"
SGLANG_ALGORITHMS: Final[Mapping[str, str]] = {
    "mtp": "NEXTN",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "model": "STANDALONE",
    "ngram": "NGRAM",
    "prompt_lookup": "NGRAM",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
}
#: NEXTN becomes EAGLE before anything asks for it.
_ADAPTIVE: Final = frozenset({"NEXTN", "EAGLE", "EAGLE3"})
_STEPPED: Final = frozenset({"NEXTN", "EAGLE", "EAGLE3", "STANDALONE"})
#: What refuses to start with data-parallel attention.
_NOT_IN_GROUPS: Final = frozenset({"STANDALONE", "NGRAM"})
_ADAPTIVE_FILE: Final = "adaptive.json"


def _sglang(plan: Speculation) -> Launch:
    algorithm = SGLANG_ALGORITHMS.get(plan.kind)
    if algorithm is None or (plan.is_tree and algorithm not in _STEPPED):
        _refuse(plan, SGLANG, list(SGLANG_ALGORITHMS))
    if plan.data_parallel > 1 and algorithm in _NOT_IN_GROUPS:
        reject(f"{SGLANG} has no {algorithm} with data-parallel attention", "without it")
    words: list[object] = ["--speculative-algorithm", algorithm]
    if plan.needs_weights:
        words += ["--speculative-draft-model-path", plan.weights]
    words += _sglang_drafts(plan, str(algorithm))
    notes = plan.to_fill_in
    files = {}
    follows = algorithm in _ADAPTIVE and not plan.is_tree and plan.data_parallel == 1
    if plan.differs and follows:
        # The slot of a batch is the largest key that is not above it.
        slots = {str(first): {"candidate_steps": [drafts]} for first, _, drafts in plan.schedule}
        files[_ADAPTIVE_FILE] = json.dumps(slots, indent=2) + "\n"
        words += ["--speculative-adaptive", "--speculative-adaptive-config", _ADAPTIVE_FILE]
        notes.append(f"{SGLANG} rounds a batch up to a captured size, then looks in the schedule")
    elif plan.differs:
        where = " with data-parallel attention" if plan.data_parallel > 1 else ""
        notes.append(
            f"{SGLANG} has no schedule by batch for {algorithm}{where}: {format_drafts(plan.drafts)} at "
            f"any load"
        )
    words += _told(
        plan, "--max-running-requests", "--mem-fraction-static", "--disable-overlap-schedule"
    )
    return Launch("sglang", SGLANG, shell_line(words), files, tuple(notes))


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
}


def _tensorrt(plan: Speculation) -> Launch:
    if plan.is_tree or plan.kind not in _TENSORRT_TYPES:
        _refuse(plan, _TENSORRT, list(_TENSORRT_TYPES))
    lines = [
        "speculative_config:",
        f"  decoding_type: {_TENSORRT_TYPES[plan.kind]}",
        f"  max_draft_len: {plan.drafts}",
    ]
    if plan.kind == "mtp":
        lines.append(f"  num_nextn_predict_layers: {plan.drafts}")
    if plan.needs_weights:
        lines.append(f"  speculative_model: {json.dumps(plan.weights)}")
    notes = plan.to_fill_in
    if plan.differs:
        last_on = max(last for _, last, drafts in plan.schedule if drafts)
        if plan.schedule[-1][2] == 0:
            lines.append(f"  max_concurrency: {last_on}")
        notes.append(
            f"{_TENSORRT} has a draft_len_schedule whose keys changed their meaning between "
            f"releases: {format_drafts(plan.drafts)} up to {last_on} requests here"
        )
    notes.append(f"keys as of {_TENSORRT}, not checked against its definitions")
    return Launch("tensorrt-llm", _TENSORRT, "\n".join(lines), notes=tuple(notes))


#: Server software whose flags are known.
LAUNCHERS: Final[Mapping[str, Callable[[Speculation], Launch]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt,
}
