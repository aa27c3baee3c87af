"""Flags that start a server with speculation, in the words of each: servers and local software."""

import json
import math
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Template
from typing import Any, Final, NoReturn

from specroof.acceptance.sampling import USUAL_RULE
from specroof.drafters import KINDS
from specroof.errors import expect_word, reject
from specroof.hardware import Placement, ServerSettings
from specroof.serving.releases import (
    RELEASED,
    PlainRelease,
    ServerRelease,
    SettingFlag,
    SglangRelease,
    VllmRelease,
    release,
    release_of,
)
from specroof.units import format_drafts

# --- Flags of a server without drafts: model, placement, formats and settings --------------------

#: Stands for the address of the first of several hosts.
FIRST_HOST: Final = "<FIRST-HOST>"


def other_hosts(framework: str) -> str:
    """Return what starts a server on the other hosts.

    Examples
    --------
    >>> other_hosts("sglang"), other_hosts("llama.cpp")
    ('the same with its own --node-rank, from 1', 'none, it runs on one host')
    """
    return release(_released(framework)).command.other_hosts


def _released(framework: str) -> str:
    """Return a release, that of llama.cpp for software that wraps it."""
    return framework if framework.partition("@")[0] in RELEASED else "llama.cpp"


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
        A key of `LAUNCHERS` or `LOCAL_LAUNCHERS`, or a release: ``"vllm@0.33"``.
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
        The file of the release; the documentation of TensorRT-LLM 1.2, *trtllm-serve*.

    Examples
    --------
    >>> server_command("sglang", "me/model", Placement(8, 8, attention_data_parallel=4))
    'python -m sglang.launch_server --model-path me/model --tp-size 8 --attn-dp-size 4 --ep-size 8'
    """
    if framework == "lmstudio":
        return shell_line(["lms", "load", model])
    framework = _released(framework)
    command = release(framework).command
    numbers = {
        "tensor_parallel": placement.tensor_parallel,
        "group_size": placement.group_size,
        "pipeline_parallel": placement.pipeline_parallel,
        "attention_data_parallel": placement.attention_data_parallel,
        "expert_parallel": placement.expert_parallel,
        "decode_context_parallel": placement.decode_context_parallel,
        "hosts": hosts,
    }
    figures: dict[str, object] = {
        **numbers,
        "model": model,
        "file": model if model.endswith(".gguf") else YOUR_FILE,
        "first_host": FIRST_HOST,
        "devices_per_host": placement.devices // hosts,
    }
    on_hub = command.start_on_hub if ":" in model and "/" in model else ()
    words = _filled(on_hub or command.start, **figures)
    for key, flag in command.placement.items():
        words += _filled(flag, **figures) if numbers[key] > 1 else []
    words += command.own_code if family in command.own_code_families else []
    return shell_line([*words, *format_words(framework, weights, kv_cache)])


def _filled(words: Iterable[str], **figures: object) -> list[str]:
    """Return words with figures in the place of their names."""
    return [Template(word).substitute(figures) for word in words]


def format_words(framework: str, weights: str | None, kv_cache: str | None) -> list[str]:
    """Return the flags of formats that replace the checkpoint's, where there are flags.

    Parameters
    ----------
    framework
        A server, or a release, that there is a file of.
    weights, kv_cache
        Dtypes in the place of the checkpoint's; None leaves it alone.

    Examples
    --------
    >>> format_words("sglang", None, "fp8")
    ['--kv-cache-dtype', 'fp8_e4m3']
    """
    facts, words = release(framework), list[str]()
    if isinstance(facts, ServerRelease) and weights in facts.weights:
        words += _filled(facts.command.weights, value=weights)
    if kv_cache in facts.cache_formats:
        words += _filled(facts.command.cache, value=facts.cache_formats[str(kv_cache)])
    return words


def shell_line(words: Iterable[object]) -> str:
    """Return words as a shell takes them."""
    return " ".join(shlex.quote(str(word)) for word in words)


def setting_words(framework: str, settings: ServerSettings) -> tuple[list[str], list[str]]:
    """Return the flags of settings, and notes on those that a server has no flag for.

    Parameters
    ----------
    framework
        A server, or a release, that there is a file of.
    settings
        What the user says of the server.

    Source
        The file of the release.

    Examples
    --------
    >>> setting_words("sglang", ServerSettings(chunk=0, running=64))
    (['--max-running-requests', '64', '--chunked-prefill-size', '-1'], [])
    """
    facts, words, notes = release(framework), list[str](), list[str]()
    dtypes = facts.state_dtypes if isinstance(facts, ServerRelease) else {}
    for key, value in settings.stated.items():
        told = dtypes.get(value) if key == "state-dtype" else value
        flag = facts.settings.get(key, SettingFlag())
        flags = flag.enabled if told and told != "plain" else flag.disabled
        if flags is None:
            notes.append(_not_told(facts.name, key, value))
        else:
            words += _filled(flags, value=f"{told:g}" if isinstance(told, float) else told)
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
    rule
        How drafts are to be accepted, of `specroof.acceptance.RULES`; empty for the server's usual.

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
    rule: str = ""

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


#: Kinds whose drafts SGLang 0.5.23 can sample (speculative/eagle_worker_v2.py:196), in chains.
_SAMPLED_DRAFTS: Final = ("mtp", "eagle", "eagle3", "model")
#: How a server accepts drafts that does not do as most: mlx-lm 0.32.2, `speculative_generate_step`.
USUAL_RULES: Final = {"mlx": "exact"}


def launch(plan: Speculation, framework: str) -> Launch:
    """Return the flags that make a server do what is planned.

    Parameters
    ----------
    plan
        Drafter, schedule and what else the server is told.
    framework
        ``"vllm"``, ``"sglang"`` or ``"tensorrt-llm"``, one of `LOCAL_LAUNCHERS`, or a release:
        ``"vllm@0.33"``.

    Raises
    ------
    OptionError
        For another framework, or a kind of drafter that this one has no flag for.

    Source
        Of vLLM and SGLang the file of the release; what they make of a schedule is in vllm 0.33.0,
        ``v1/spec_decode/dynamic/utils.py``, and sglang 0.5.23,
        ``srt/speculative/adaptive_spec_params.py``. Of TensorRT-LLM the definitions were not at
        hand; how it counts drafts of mtp is in NVIDIA's aiconfigurator 0.12.0, whose templates for
        its releases 1.0.0 to 1.3.0rc23 agree. llama.cpp in llama-cpp-python 0.3.36,
        ``common/arg.cpp`` and ``common/speculative.cpp``; mlx-lm 0.32.2, ``server.py`` and
        ``generate.py``; LM Studio's documentation of speculative decoding.

    Examples
    --------
    >>> plan = Speculation(kind="eagle3", schedule=((1, 256, 3),), draft_model="me/head")
    >>> launch(plan, "sglang").text
    '--speculative-algorithm EAGLE3 --speculative-draft-model-path me/head \
--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4'
    """
    known = {**LAUNCHERS, **LOCAL_LAUNCHERS}
    server, _, version = framework.partition("@")
    expect_word("framework", server, known)
    if version:
        release(framework)  # refused where no file has it
    if plan.p_min and server != "llama.cpp":
        reject(f"p-min is {plan.p_min:g}, and {server} ends no draft early", "llama.cpp")
    if plan.on_host and server != "llama.cpp":
        reject(f"device is cpu, and {server} drafts on no CPU", "llama.cpp")
    told = known[server](plan, framework)
    if plan.rule in {"", USUAL_RULES.get(server, USUAL_RULE)}:
        return told
    sampled = plan.rule == "rejection" and plan.kind in _SAMPLED_DRAFTS and not plan.is_tree
    if server == "sglang" and sampled:
        return replace(told, text=f"{told.text} --speculative-use-rejection-sampling")
    note = f"no flag for rule={plan.rule} is known here, which the acceptance counts on"
    return replace(told, notes=(*told.notes, note))


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
        A key of `LAUNCHERS`, or a release.
    is_tree
        Whether the drafter branches.
    data_parallel
        Groups of devices, each with attention over separate sequences.
    pipeline_parallel
        Stages of layers.

    Source
        The files of releases; SGLang 0.5.23, ``srt/arg_groups/validation_hook.py`` (stages).
        TensorRT-LLM's ``draft_len_schedule`` changed its meaning between releases: none is written.

    Examples
    --------
    >>> follows_load("dflash", "vllm"), follows_load("dflash", "sglang")
    (True, False)
    """
    server = framework.partition("@")[0]
    if server == "vllm":
        known = release(framework).methods.get(kind)
        return is_tree or known is None or (known.follows_load and data_parallel == 1)
    if server == "sglang":
        known = release(framework).methods.get(kind)
        is_adaptive = known is None or known.follows_load
        return is_adaptive and not is_tree and data_parallel == pipeline_parallel == 1
    if server in LOCAL_LAUNCHERS:
        return False
    return is_tree or kind not in release(framework).methods


def _fixed_note(plan: Speculation, release: str, what: str, drafts: int) -> str:
    """Return the note that a server drafts one length at any load, and where it should not run."""
    off = [f"{first}-{last}" for first, last, k in plan.schedule if not k]
    without = f"; at {', '.join(off)} in flight start it without these flags" if off else ""
    return (
        f"{release} does not change {what} with the load: {format_drafts(drafts)} always{without}"
    )


def _refuse(plan: Speculation, name: str, known: Sequence[str]) -> NoReturn:
    what = f"trees of {plan.kind}" if plan.is_tree else plan.kind
    reject(f"{name} has no flag for {what}", ", ".join(known))


def _refuse_families(plan: Speculation, facts: ServerRelease) -> None:
    """Refuse models that a release has no class for, or does not draft for like this."""
    if plan.family in facts.no_models:
        reject(f"{facts.name} has no models of the family {plan.family}", "another model")
    for refusal in facts.refusals:
        named = plan.kind in refusal.kinds or (plan.is_tree and refusal.trees)
        if named and plan.family.removesuffix("_text") in refusal.families:
            reject(
                f"{facts.name} has no {plan.kind} for models of the family {plan.family}",
                refusal.instead,
            )


def _refuse_vocabulary(plan: Speculation, release: str, padding: int = 0) -> None:
    """Refuse a draft model whose vocabulary differs from the model's by more than padding."""
    own, target = plan.vocab_sizes or (0, 0)
    if abs(own - target) > padding:
        reject(
            f"{release} runs no draft model of {own} tokens beside a model of {target}",
            "a draft model with the same vocabulary",
        )


def _refuse_own_family(plan: Speculation, facts: ServerRelease) -> None:
    """Refuse a draft model of which a server would load the layers for mtp alone."""
    families = {*facts.read_as_mtp}
    families |= {*facts.read_as_mtp_with_layers} if plan.draft_has_mtp else set()
    if plan.draft_family.removesuffix("_text") in families:
        reject(
            f"{facts.name} runs no draft model of the family {plan.draft_family}: it reads its "
            "config as layers for mtp",
            "a draft model of another family, or mtp where the model has it",
        )


def _cache_notes(plan: Speculation, formats: Collection[str], name: str) -> list[str]:
    """Return the note that a server is not told the format of the cache, where that is so."""
    if plan.kv_cache in {None, *formats}:
        return []
    return [_not_told(name, "kv-cache", plan.kv_cache)]


# --- vLLM -----------------------------------------------------------------------------------------


def vllm_config(plan: Speculation, framework: str = "vllm") -> tuple[dict[str, object], list[str]]:
    """Return vLLM's speculative config, and notes.

    A schedule shortens what is verified: DSpark goes on drafting the block that it was trained
    for, and vLLM refuses to be told a shorter one (``_validate_qwen3_omni_dspark`` of
    ``config/speculative.py``; of DeepSeek-V4 its page on adaptive verification).

    Raises
    ------
    OptionError
        For what vLLM has no method for.
    """
    facts = release_of(framework, VllmRelease)
    if plan.is_tree or plan.kind not in facts.methods:
        _refuse(plan, facts.name, list(facts.methods))
    _refuse_families(plan, facts)
    _refuse_vocabulary(plan, facts.name)
    _refuse_own_family(plan, facts)
    family, staged = plan.family.removesuffix("_text"), facts.staged
    is_staged = plan.pipeline_parallel > 1 and plan.kind in staged.kinds
    if is_staged and family and family not in staged.families:
        families = ", ".join(staged.families)
        reject(
            f"{facts.name} has no {plan.kind} for {plan.family} in a pipeline: its stages do not "
            f"pass on the hidden states that it reads",
            "one stage, mtp or a model as drafter"
            + (f", or a family of {families}" if families else ""),
        )
    method = facts.methods[plan.kind]
    config: dict[str, object] = {"method": method.name, **method.config}
    if plan.weights is not None:
        config["model"] = plan.weights
    drafts = max(plan.drafts, plan.block or 0) if plan.kind == "dspark" else plan.drafts
    config["num_speculative_tokens"] = drafts
    notes = plan.to_fill_in
    if method.package:
        notes.append(f"{facts.name} needs the package {method.package} for {plan.kind} decoding")
    if not plan.differs and drafts == plan.drafts:
        return config, notes
    if not follows_load(plan.kind, framework, data_parallel=plan.data_parallel):
        if drafts > plan.drafts:
            reject(
                f"{facts.name} under data parallelism verifies all {drafts} drafts of a block, not "
                f"{plan.drafts}",
                f"a draft length of {drafts} (--choose-draft-len)",
            )
        where = " under data parallelism" if plan.data_parallel > 1 else ""
        notes.append(_fixed_note(plan, facts.name, f"drafts of {plan.kind}{where}", drafts))
        return config, notes
    config["num_speculative_tokens_per_batch_size"] = [list(row) for row in plan.schedule]
    if plan.kind in facts.memory.whole_block_kinds:
        notes.append(
            f"{facts.name} drafts the whole block wherever it drafts: the schedule shortens what "
            f"is verified"
        )
    return config, notes


def _vllm(plan: Speculation, framework: str) -> Launch:
    facts = release(framework)
    config, notes = vllm_config(plan, framework)
    words, more = setting_words(framework, plan.settings)
    more += _cache_notes(plan, facts.cache_formats, facts.name)
    text = shell_line(["--speculative-config", json.dumps(config), *words])
    return Launch("vllm", facts.name, text, notes=(*notes, *more))


# --- SGLang ---------------------------------------------------------------------------------------

_ADAPTIVE_FILE: Final = "adaptive.json"


def sglang_words(plan: Speculation, framework: str = "sglang") -> list[object]:
    """Return SGLang's flags of a drafter.

    Raises
    ------
    OptionError
        For what SGLang has no flag for, or refuses to start with.
    """
    facts = release_of(framework, SglangRelease)
    method = facts.methods.get(plan.kind)
    if method is None or (plan.is_tree and not method.trees):
        return _refuse(plan, facts.name, list(facts.methods))
    if plan.is_tree and plan.top_k < 2:
        reject(
            f"{facts.name} has no flag for the shape of a tree: it grows them as EAGLE-2 does",
            "tree=eagle2 with top-k= from 2",
        )
    _refuse_families(plan, facts)
    _refuse_vocabulary(plan, facts.name)
    _refuse_own_family(plan, facts)
    if plan.data_parallel > 1 and not method.in_groups:
        reject(f"{facts.name} has no {method.name} with data-parallel attention", "without it")
    if plan.pipeline_parallel > 1:
        if not method.in_pipeline:
            staged = [kind for kind, one in facts.methods.items() if one.in_pipeline]
            reject(
                f"{facts.name} has no {method.name} in a pipeline",
                f"{' and '.join(staged)}, or one stage" if staged else "one stage",
            )
        if plan.data_parallel > 1:
            reject(
                f"{facts.name} has no drafts in a pipeline with data-parallel attention",
                "one of the two",
            )
    words: list[object] = ["--speculative-algorithm", method.name]
    if plan.weights is not None:
        words += ["--speculative-draft-model-path", plan.weights]
    verified = (plan.nodes if plan.is_tree else plan.drafts) + 1
    top_k = plan.top_k if plan.is_tree else 1
    words += _filled(method.words, drafts=plan.drafts, verified=verified, top_k=top_k)
    return [*words, *(method.words_in_groups if plan.data_parallel > 1 else ())]


def _sglang(plan: Speculation, framework: str) -> Launch:
    facts = release_of(framework, SglangRelease)
    words, notes, files = sglang_words(plan, framework), plan.to_fill_in, {}
    shape: dict[str, Any] = {
        "is_tree": plan.is_tree,
        "data_parallel": plan.data_parallel,
        "pipeline_parallel": plan.pipeline_parallel,
    }
    if plan.differs and follows_load(plan.kind, framework, **shape):
        # The slot of a batch is the largest key that is not above it.
        slots = {str(first): {"candidate_steps": [drafts]} for first, _, drafts in plan.schedule}
        files[_ADAPTIVE_FILE] = json.dumps(slots, indent=2) + "\n"
        words += ["--speculative-adaptive", "--speculative-adaptive-config", _ADAPTIVE_FILE]
        notes.append(
            f"{facts.name} rounds a batch up to a captured size, then looks in the schedule"
        )
    elif plan.differs:
        where = " with data-parallel attention" if plan.data_parallel > 1 else ""
        where = " in trees" if plan.is_tree else where
        where = " in a pipeline" if plan.pipeline_parallel > 1 else where
        notes.append(
            _fixed_note(
                plan, facts.name, f"drafts of {facts.methods[plan.kind].name}{where}", plan.drafts
            )
        )
    told, more = setting_words(framework, plan.settings)
    more += _cache_notes(plan, facts.cache_formats, facts.name)
    environment = ""
    if plan.pipeline_parallel > 1 and facts.pipeline is not None:
        environment = facts.pipeline.environment
        notes.append(
            f"{facts.name} drafts in a pipeline only with {environment} in its environment"
        )
    text = shell_line([*words, *told])
    return Launch("sglang", facts.name, text, files, (*notes, *more), environment)


# --- TensorRT-LLM ---------------------------------------------------------------------------------

_TENSORRT_FILE: Final = "speculation.yaml"


def _tensorrt(plan: Speculation, framework: str) -> Launch:
    facts = release_of(framework, PlainRelease)
    if plan.is_tree or plan.kind not in facts.methods:
        _refuse(plan, facts.name, list(facts.methods))
    _refuse_vocabulary(plan, facts.name, facts.vocabulary_padding)
    speculation: dict[str, object] = {
        "decoding_type": facts.methods[plan.kind].name,
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
            f"{facts.name} has a draft_len_schedule whose keys changed their meaning between "
            f"releases: {format_drafts(plan.drafts)} up to {last_on} requests here"
        )
    stated = plan.settings.stated
    unknown = [key for key in ("mixed", "state-dtype") if key in stated]
    notes += [_not_told(facts.name, key, stated[key]) for key in unknown]
    notes += _cache_notes(plan, facts.cache_formats, facts.name)
    notes.append(f"keys as of {facts.name}, not checked against its definitions")
    if plan.pipeline_parallel > 1:
        notes.append(f"whether {facts.name} drafts in a pipeline was not read")
    keys = {"speculative_config": speculation, **_tensorrt_settings(plan, facts)}
    text = shell_line(["--extra_llm_api_options", _TENSORRT_FILE])
    return Launch("tensorrt-llm", facts.name, text, {_TENSORRT_FILE: _yaml(keys)}, tuple(notes))


def _tensorrt_settings(plan: Speculation, facts: PlainRelease) -> dict[str, object]:
    """Return the keys of what else a server is told, without those that are not."""
    settings = plan.settings
    cache = {
        "free_gpu_memory_fraction": settings.memory_frac,
        "enable_block_reuse": settings.prefix_cache,
        "dtype": facts.cache_formats.get(plan.kv_cache or ""),
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
        A key of `LAUNCHERS`, or a release.
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
        The file of the release; of TensorRT-LLM its documentation, *Disaggregated serving*.

    Examples
    --------
    >>> launches = worker_launches("sglang", None, Placement(8), input_len=1000)
    >>> launches["decode"].text
    '--disaggregation-mode decode --disaggregation-transfer-backend mooncake'
    """
    server = framework.partition("@")[0]
    if server not in LAUNCHERS:
        reject(f"{server} has no workers for prefill alone", ", ".join(LAUNCHERS))
    if server == "tensorrt-llm":
        return _tensorrt_workers(release(framework).name, flags, input_len)
    facts, spread = release_of(framework, ServerRelease), placement.decode_context_parallel
    if server == "vllm" and spread not in {1, placement.group_size}:
        reject(
            f"{facts.name} with NixlConnector does not move caches to decode_context_parallel "
            f"{spread}",
            f"1 or {placement.group_size}, all devices of a group",
        )
    colocated = [
        one for one in facts.workers.colocated if kind in one.kinds and family in one.families
    ]
    if flags and colocated:
        reject(
            f"{facts.name} drafts {kind} for {family} where one server does both",
            colocated[0].instead,
        )
    text, files = ("", {}) if flags is None else (f" {flags.text}", flags.files)
    roles = {"prefill": facts.workers.prefill, "decode": facts.workers.decode}
    return {
        role: Launch(server, facts.name, f"{shell_line(words)}{text}", files)
        for role, words in roles.items()
    }


def _tensorrt_workers(name: str, flags: Launch | None, input_len: float) -> dict[str, Launch]:
    transfer = {"backend": "NIXL", "max_tokens_in_buffer": math.ceil(input_len)}
    moved = _yaml({"cache_transceiver_config": transfer})
    drafted = "" if flags is None else flags.files[_TENSORRT_FILE]
    texts = {"prefill": moved, "decode": drafted + moved}
    return {
        role: Launch(
            "tensorrt-llm",
            name,
            shell_line(["--extra_llm_api_options", f"{role}.yaml"]),
            {f"{role}.yaml": text},
        )
        for role, text in texts.items()
    }


# --- Software of one user: llama.cpp and what wraps it, MLX ---------------------------------------

_LM_STUDIO: Final = "LM Studio 0.4"
#: Stands for the file of weights.
YOUR_FILE: Final = "<YOUR-FILE.gguf>"


def _llama_cpp(plan: Speculation, framework: str) -> Launch:
    facts = release_of(framework, PlainRelease)
    if plan.is_tree or plan.kind not in facts.methods:
        _refuse(plan, facts.name, list(facts.methods))
    _refuse_vocabulary(plan, facts.name, facts.vocabulary_padding)
    method = facts.methods[plan.kind]
    words: list[object] = ["--spec-type", method.name]
    if plan.weights is not None:
        on_hub = ":" in plan.weights and "/" in plan.weights
        words += ["--spec-draft-hf" if on_hub else "--spec-draft-model", plan.weights]
    words += ["--spec-draft-device", "none"] if plan.on_host else []
    words += _filled(method.words, drafts=plan.drafts)
    if not method.words:
        words += ["--spec-draft-n-max", plan.drafts, "--spec-draft-n-min", plan.n_min]
        words += ["--spec-draft-p-min", f"{plan.p_min:g}"]
    notes = [*plan.to_fill_in, f"replace {YOUR_FILE} by the file of weights"]
    if plan.differs:
        notes.append(_fixed_note(plan, facts.name, "drafts", plan.drafts))
    told, more = setting_words(framework, plan.settings)
    notes += [*more, *_cache_notes(plan, facts.cache_formats, facts.name)]
    return Launch("llama.cpp", facts.name, shell_line([*words, *told]), notes=tuple(notes))


def _mlx(plan: Speculation, framework: str) -> Launch:
    facts = release_of(framework, PlainRelease)
    if plan.kind not in facts.methods:
        _refuse(plan, facts.name, list(facts.methods))
    if plan.is_recurrent:
        reject(
            f"{facts.name} drafts for no model with recurrent layers, whose cache it cannot trim",
            "a model whose layers all cache keys and values, or llama.cpp",
        )
    _refuse_vocabulary(plan, facts.name, facts.vocabulary_padding)
    notes = [*plan.to_fill_in, f"{facts.name} runs one request at a time with a draft model"]
    if plan.differs:
        notes.append(_fixed_note(plan, facts.name, "drafts", plan.drafts))
    told, more = setting_words(framework, plan.settings)
    notes += [*more, *_cache_notes(plan, facts.cache_formats, facts.name)]
    counted = _filled(facts.methods[plan.kind].words, drafts=plan.drafts)
    words = ["--draft-model", plan.weights, *counted, *told]
    return Launch("mlx", facts.name, shell_line(words), notes=tuple(notes))


def _lm_studio(plan: Speculation, _framework: str) -> Launch:
    if plan.kind != "model":
        _refuse(plan, _LM_STUDIO, ["model"])
    wrapped = release_of("llama.cpp", PlainRelease)
    _refuse_vocabulary(plan, _LM_STUDIO, wrapped.vocabulary_padding)
    told = f'each request names it: "draft_model": {json.dumps(plan.weights)} (draftModel in SDKs)'
    notes = [*plan.to_fill_in, told]
    notes.append(
        f"{_LM_STUDIO} has no setting for the number of drafts: {plan.drafts} are predicted"
    )
    notes += _cache_notes(plan, (), _LM_STUDIO)
    return Launch("lmstudio", _LM_STUDIO, "", notes=tuple(notes))


def _ollama(plan: Speculation, _framework: str) -> Launch:
    reject(
        f"ollama has no setting for {plan.kind} that is documented",
        "llama.cpp, which runs the same files",
    )


#: Kinds that a server could run, unlike shares of time; none runs Medusa's heads by now.
SERVED_KINDS: Final = frozenset(KINDS) - {"ideal", "autoregressive", "block"}
#: Software of one user.
LOCAL_LAUNCHERS: Final[Mapping[str, Callable[[Speculation, str], Launch]]] = {
    "llama.cpp": _llama_cpp,
    "mlx": _mlx,
    "lmstudio": _lm_studio,
    "ollama": _ollama,
}
#: Server software whose flags are known.
LAUNCHERS: Final[Mapping[str, Callable[[Speculation, str], Launch]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt,
}
