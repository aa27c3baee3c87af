"""Flags that start a server with speculation, in the words of each: servers and local software."""

import json
import math
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from string import Template
from typing import Any, Final

from specroof.acceptance.sampling import USUAL_RULE
from specroof.acceptance.typical import LOOKUPS
from specroof.errors import expect_word, reject
from specroof.frameworks import (
    FRAMEWORKS,
    LOCAL_FRAMEWORKS,
    RUNS,
    SERVERS,
    Drafting,
    Release,
    RuleFlag,
    SettingFlag,
    known_releases,
    lacking_for,
    refused_cache,
    release,
    release_of,
    those_where,
)
from specroof.hardware.engine import ServerSettings
from specroof.hardware.profile import Placement
from specroof.quantities import runs_spelt
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
    """Return a release, that of what it runs for software without files."""
    server = framework.partition("@")[0]
    return framework if known_releases(server) else RUNS.get(server, framework)


def server_command(  # noqa: PLR0913 - what a command says
    framework: str,
    model: str,
    placement: Placement,
    *,
    weights: str | None = None,
    kv_cache: str | None = None,
    hosts: int = 1,
    family: str = "",
    quantization: str = "",
    is_fitted: bool = False,
) -> str:
    """Return the command that serves a model without drafts; of several hosts, on the first.

    Parameters
    ----------
    framework
        One of `specroof.frameworks.SERVERS`, or a release: ``"vllm@0.33"``.
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
    quantization
        How its checkpoint is quantised, as its config says it; empty for not.
    is_fitted
        Whether memory holds no sequence of all positions of the model, and others are served.

    Source
        The file of the release.

    Examples
    --------
    >>> server_command("sglang", "me/model", Placement(8, 8, attention_data_parallel=4))
    'python -m sglang.launch_server --model-path me/model --tp-size 8 --attn-dp-size 4 --ep-size 8'
    """
    framework = _released(framework)
    command = release(framework).command
    figures: dict[str, Any] = {
        **asdict(placement),
        "group_size": placement.group_size,
        "hosts": hosts,
        "model": model,
        "file": model if model.endswith(".gguf") else YOUR_FILE,
        "first_host": FIRST_HOST,
        "devices_per_host": placement.devices // hosts,
    }
    on_hub = command.start_on_hub if ":" in model and "/" in model else ()
    words = filled(on_hub or command.start, **figures)
    for key, flag in command.placement.items():
        words += filled(flag, **figures) if figures[key] > 1 else []
    words += command.own_code if family in command.own_code_families else []
    words += command.fitted if is_fitted else []
    return shell_line([*words, *format_words(framework, weights, kv_cache, quantization, family)])


def filled(words: Iterable[str], **figures: object) -> list[str]:
    """Return words with figures in the place of their names."""
    return [Template(word).substitute(figures) for word in words]


def filled_config(config: Mapping[str, Any], **figures: Any) -> dict[str, Any]:
    """Return keys with figures in the place of their names; those of None are left out."""
    known: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            known[key] = filled_config(value, **figures)
        elif not isinstance(value, str) or not value.startswith("$"):
            known[key] = value
        elif (figure := figures[value[1:]]) is not None:
            known[key] = figure
    return known


def _joined(config: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of two configs, blocks of the same name as one."""
    blocks = {key for key in config if isinstance(config[key], Mapping)}
    same = {key: _joined(config[key], more[key]) for key in blocks & more.keys()}
    return {**config, **more, **same}


def format_words(
    framework: str,
    weights: str | None,
    kv_cache: str | None,
    quantization: str = "",
    family: str = "",
) -> list[str]:
    """Return the flags of formats that replace the checkpoint's, where there are flags.

    Besides, that of a cache which the server does not choose by itself.

    Parameters
    ----------
    framework
        A server, or a release, that there is a file of.
    weights, kv_cache
        Dtypes in the place of the checkpoint's; None leaves it alone.
    quantization
        How the checkpoint is quantised: servers make no other format of one that is.
    family
        The family of the model, as its config says it; empty if not known.

    Examples
    --------
    >>> format_words("sglang", "fp8", "fp8", "awq")
    ['--kv-cache-dtype', 'fp8_e4m3']
    """
    facts, words = release(framework), list[str]()
    if weights in facts.weights and not quantization:
        words += filled(facts.command.weights, value=weights)
    cache = kv_cache or facts.command.told_caches.get(family.removesuffix("_text"))
    if cache in facts.cache_formats:
        words += filled(facts.command.cache, value=facts.cache_formats[str(cache)])
    return words


def shell_line(words: Iterable[object]) -> str:
    """Return words as a shell takes them."""
    return " ".join(shlex.quote(str(word)) for word in words)


def setting_words(
    facts: Release, settings: ServerSettings
) -> tuple[list[str], dict[str, Any], list[str]]:
    """Return the flags of settings, keys of a file of them, and notes on those without either.

    Parameters
    ----------
    facts
        What the file of a release says.
    settings
        What the user says of the server.

    Examples
    --------
    >>> setting_words(release("sglang"), ServerSettings(chunk=0, running=64))
    (['--max-running-requests', '64', '--chunked-prefill-size', '-1'], {}, [])
    """
    words, config, notes = list[str](), dict[str, Any](), list[str]()
    for key, value in settings.stated.items():
        told = facts.state_dtypes.get(value) if key == "state-dtype" else value
        flag, is_on = facts.settings.get(key, SettingFlag()), bool(told) and told != "plain"
        flags = flag.enabled if is_on else flag.disabled
        keys = flag.config if is_on else flag.config_off
        if flags is None and keys is None:
            notes.append(_not_told(facts.name, key, value))
        words += filled(flags or (), value=f"{told:g}" if isinstance(told, float) else told)
        config = _joined(config, filled_config(keys or {}, value=told))
    return words, config, notes


def _not_told(release: str, key: str, value: object) -> str:
    spelt = ("on" if value else "off") if isinstance(value, bool) else value
    return (
        f"no flag of {release} is known for {key}={spelt}: the prediction has it, not the command"
    )


#: Stands for the drafter's weights where no name is given.
YOUR_DRAFT_MODEL: Final = "<YOUR-DRAFT-MODEL>"
#: What names them, for refusals.
DRAFT_MODEL: Final = "a Hub name or a folder, or None"


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
    modules
        Modules for mtp that the model's config names.
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
    activation_dtype
        That of the model's activations; empty if not known.
    weight_dtype
        Format of the model's weights in the place of the checkpoint's.
    quantization
        How its checkpoint is quantised, as its config says it; empty for not.
    kernels
        The classes of kernels that run it.
    pipeline_parallel
        Stages of layers.
    p_min, n_min
        How likely a drafter must find its drafts, and how many of them there must be: llama.cpp
        alone knows both.
    n_cpu_moe
        First layers of the model whose experts the CPU computes.
    on_host
        Whether the drafter runs on the CPU beside the chip, which llama.cpp alone knows.
    is_recurrent
        Whether layers of the model keep a state that cannot be cut back to an earlier token.
    is_dense
        Whether no layer of the model has experts or a recurrent state.
    draft_family
        The family of a draft model; empty for other drafters.
    draft_has_mtp
        Whether the config of a draft model names layers for mtp.
    vocab_sizes
        Tokens of a draft model, and of the model; None for other drafters.
    has_whole_vocabulary
        Whether the drafter can propose every token of the model.
    rule
        How drafts are to be accepted, of `specroof.acceptance.RULES`; empty for the server's usual.
    capability, decode_context_parallel
        The chip's compute capability, None if not known, and devices that each cache a part of the
        context.
    untold
        Keys of the SPEC that no flag says, with their values.

    Raises
    ------
    OptionError
        For a schedule with gaps, or that never drafts.
    """

    kind: str
    schedule: tuple[tuple[int, int, int], ...]
    draft_model: str | None = None
    family: str = ""
    in_checkpoint: bool | None = None
    modules: int = 1
    block: int | None = None
    is_tree: bool = False
    top_k: int = 1
    nodes: int = 0
    settings: ServerSettings = field(default_factory=ServerSettings)
    data_parallel: int = 1
    kv_cache: str | None = None
    activation_dtype: str = ""
    weight_dtype: str | None = None
    quantization: str = ""
    kernels: frozenset[str] = frozenset()
    pipeline_parallel: int = 1
    p_min: float = 0.0
    n_min: int = 0
    n_cpu_moe: int = 0
    on_host: bool = False
    is_recurrent: bool = False
    is_dense: bool = True
    draft_family: str = ""
    draft_has_mtp: bool = False
    vocab_sizes: tuple[int, int] | None = None
    has_whole_vocabulary: bool = True
    rule: str = ""
    capability: float | None = None
    decode_context_parallel: int = 1
    untold: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given, expected = f"schedule is {list(self.schedule)}", 1
        ranges = "ranges of running requests from 1 on, without gaps"
        for first, last, drafts in self.schedule:
            if first != expected or last < first or drafts < 0:
                reject(given, f"{ranges}, each with a number of drafts from 0")
            expected = last + 1
        if not self.drafts:
            reject(given, "drafts at some load")

    @property
    def drafts(self) -> int:
        """The longest draft of the schedule."""
        return max((drafts for _, _, drafts in self.schedule), default=0)

    @property
    def compute_major(self) -> int | None:
        """The first number of the compute capability, which kernels are built for."""
        return None if self.capability is None else int(self.capability)

    @property
    def differs(self) -> bool:
        """Whether loads differ in their drafts."""
        return len({drafts for _, _, drafts in self.schedule}) > 1

    @property
    def pauses(self) -> bool:
        """Whether a drafter with passes of its own drafts nothing at some loads."""
        return self.kind not in LOOKUPS and not all(drafts for *_, drafts in self.schedule)

    @property
    def weights(self) -> str | None:
        """The drafter's weights, or the placeholder; None where the checkpoint holds them."""
        if self.kind in LOOKUPS:
            return None
        held = self.kind == "mtp" if self.in_checkpoint is None else self.in_checkpoint
        return self.draft_model or (None if held else YOUR_DRAFT_MODEL)


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
        One of `specroof.frameworks.SERVERS`, or a release: ``"vllm@0.33"``.

    Raises
    ------
    OptionError
        For another framework, or a kind of drafter that this one has no flag for.

    Source
        The file of the release: its ``drafting``, ``methods``, ``settings`` and ``refusals``.

    Examples
    --------
    >>> plan = Speculation(kind="eagle3", schedule=((1, 256, 3),), draft_model="me/head")
    >>> launch(plan, "sglang").text
    '--speculative-algorithm EAGLE3 --speculative-draft-model-path me/head \
--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4'
    """
    facts, how = _drafting(plan, framework)
    words, config, files, notes = _speculation(plan, facts, how)
    told, settings, more = setting_words(facts, plan.settings)
    notes += more
    if plan.kv_cache in facts.cache_formats:
        dtype = facts.cache_formats[str(plan.kv_cache)]
        settings = _joined(settings, filled_config(facts.command.cache_config, value=dtype))
    elif plan.kv_cache is not None:
        notes.append(_not_told(facts.name, "kv-cache", plan.kv_cache))
    if plan.n_cpu_moe and not facts.command.host_experts:
        notes.append(_not_told(facts.name, "n-cpu-moe", plan.n_cpu_moe))
    elif plan.n_cpu_moe:
        told += filled(facts.command.host_experts, value=plan.n_cpu_moe)
    made = () if plan.quantization else facts.weights
    if plan.weight_dtype not in {None, *made} and "$file" not in facts.command.start:
        notes.append(
            f"serve a checkpoint with weights in {plan.weight_dtype}: {facts.name} has no flag that "
            f"makes them of this one"
        )
    if how.file:
        groups = facts.command.groups_config if plan.data_parallel > 1 else {}
        files[how.file] = _yaml({**config, **settings, **groups})
    weights = json.dumps(plan.weights)[1:-1]
    notes += filled(how.notes, name=facts.name, drafts=plan.drafts, weights=weights)
    if plan.untold:
        notes.append(
            f"these flags do not say {' and '.join(plan.untold)}: the drafter runs as {facts.name} runs "
            "it, on the target's devices, before each verification, and a block in one pass"
        )
    environment = ""
    if plan.pipeline_parallel > 1 and facts.unchecked:
        notes.append(f"whether {facts.name} drafts in a pipeline was not read")
    elif plan.pipeline_parallel > 1 and facts.pipeline is not None:
        environment = facts.pipeline.environment
        notes.append(
            f"{facts.name} drafts in a pipeline only with {environment} in its environment"
        )
    flag = _rule_flag(plan, how)
    if flag is not None:
        told += flag.words
        config = _joined(config, flag.config)
    elif plan.rule not in {"", facts.methods[plan.kind].rule or (*facts.accepts, USUAL_RULE)[0]}:
        notes.append(f"no flag for rule={plan.rule} is known here, which the acceptance counts on")
    text = shell_line([*_with_config(words, config), *told])
    return Launch(facts.framework, facts.name, text, files, tuple(notes), environment)


def _rule_flag(plan: Speculation, how: Drafting) -> RuleFlag | None:
    """Return how a server is told the rule of a plan; None where it has no flag for it."""
    flag = how.rule_flags.get(plan.rule)
    if flag is None or plan.kind not in flag.kinds or plan.is_tree:
        return None
    is_refused = any(one.refused(plan.kind, plan.family) for one in flag.refusals)
    is_refused |= flag.whole_vocabulary and not plan.has_whole_vocabulary
    return None if is_refused or plan.drafts < flag.least_drafts else flag


def speculation_words(plan: Speculation, framework: str, more: Mapping[str, Any]) -> list[str]:
    """Return the flags of a drafter alone.

    Parameters
    ----------
    plan, framework
        As of `launch`.
    more
        Keys beside, where a config among the flags names the drafter.

    Examples
    --------
    >>> plan = Speculation(kind="mtp", schedule=((1, 256, 3),))
    >>> speculation_words(plan, "vllm", {})
    ['--speculative-config', '{"method": "mtp", "num_speculative_tokens": 3}']
    """
    words, config, *_ = _speculation(plan, *_drafting(plan, framework))
    return _with_config(words, {**config, **more})


#: Stands for the config among the words of a drafter.
_CONFIG: Final = "$config"


def _with_config(words: Iterable[str], config: Mapping[str, Any]) -> list[str]:
    return [json.dumps(config) if word == _CONFIG else word for word in words]


def _drafting(plan: Speculation, framework: str) -> tuple[Release, Drafting]:
    """Return what a release does and how it is told what drafts; refuse what it does not run."""
    server = framework.partition("@")[0]
    expect_word("framework", server, SERVERS)
    facts = release_of(framework)
    if facts is None or facts.drafting is None:
        what = f"{server} has no setting for {plan.kind} that is documented"
        reject(what, f"{RUNS[server]}, which runs the same files")
    how = facts.drafting
    if plan.p_min and "$p_min" not in how.drafts:
        known = those_where(lambda one: "$p_min" in (one.drafting or Drafting()).drafts)
        reject(f"p-min is {plan.p_min:g}, and {server} ends no draft early", known)
    if plan.on_host and not how.on_host:
        known = those_where(lambda one: (one.drafting or Drafting()).on_host != ())
        reject(f"device is cpu, and {server} drafts on no CPU", known)
    spread = plan.decode_context_parallel > 1
    shape = {"is_tree": plan.is_tree, "is_spread": spread, "capability": plan.compute_major}
    lacks = lacking_for(facts, plan.kind, plan.family, **shape)
    lacks = lacks or _lacking_over_devices(plan, facts)
    if lacks is not None:
        reject(*lacks)
    if plan.is_tree and plan.top_k < 2:
        what = "no flag for the shape of a tree: it grows them as EAGLE-2 does"
        reject(f"{facts.name} has {what}", "tree=eagle2 with top-k= from 2")
    if plan.is_recurrent and how.caches_only:
        allowed = f"a model whose layers all cache keys and values, or {LOCAL_FRAMEWORKS[0]}"
        what = "drafts for no model with recurrent layers, whose cache it cannot trim"
        reject(f"{facts.name} {what}", allowed)
    _refuse_parts(plan, facts)
    return facts, how


def _lacking_over_devices(plan: Speculation, facts: Release) -> tuple[str, str] | None:
    """Return what a release lacks to draft in groups or stages, and what it has; else None."""
    name, method = facts.name, facts.methods[plan.kind]
    if plan.data_parallel > 1 and not method.in_groups:
        return f"{name} has no {method.name} with data-parallel attention", "without it"
    if plan.pipeline_parallel == 1:
        return None
    if facts.pipeline is not None:
        kinds = " and ".join(facts.pipeline.kinds)
        if plan.kind not in facts.pipeline.kinds:
            instead = f"{kinds}, or one stage" if kinds else "one stage"
            return f"{name} has no {method.name} in a pipeline", instead
        if plan.data_parallel > 1:
            what = f"{name} has no drafts in a pipeline with data-parallel attention"
            return what, "one of the two"
    for refusal in facts.staged:
        if refusal.refused(plan.kind, plan.family):
            families = ", ".join(refusal.others_than)
            others = f", or a family of {families}" if families else ""
            what = f"{name} has no {method.name} for {plan.family} in a pipeline"
            return what, f"{refusal.instead}{others}"
    return None


def _refuse_parts(plan: Speculation, facts: Release) -> None:
    """Refuse a cache in a format that a release does not keep, and drafters that it does not run.

    Draft models beside the model, and layers that a checkpoint has not.
    """
    name, caches = facts.name, facts.compressed_formats if "compressed" in plan.kernels else ()
    if caches and plan.kv_cache not in {None, *caches}:
        what = f"kv_dtype is {plan.kv_cache}, and {name} refuses it for {plan.family}"
        reject(what, ", ".join(caches))
    refused = not caches and refused_cache(facts, plan.kv_cache, plan.activation_dtype)
    if refused:
        reject(
            f"kv_dtype is {plan.kv_cache}, and {name} {refused}", f"{plan.activation_dtype}, or fp8"
        )
    told = plan.settings
    whole = facts.chunks_beside_states and plan.is_recurrent and told.chunk == 0
    if whole and told.prefix_cache is not False:
        what = f"{name} caches no prefixes of {plan.family} where it takes prompts whole"
        reject(what, "prefix-cache=off, or chunk= of some tokens")
    if plan.kind == "mtp" and plan.weights == YOUR_DRAFT_MODEL != plan.draft_model:
        reject(
            "the model's checkpoint has no layers for mtp to draft with",
            "a model that has them, or weights that do (config= in its SPEC, --draft-model of advise)",
        )
    drafts, modules = plan.drafts, plan.modules
    if facts.methods[plan.kind].whole_modules and drafts > modules and drafts % modules:
        what = f"{name} makes no {drafts} drafts with the {modules} modules of the checkpoint"
        reject(what, f"up to {modules}, or a multiple of {modules} (--choose-draft-len)")
    own, target = plan.vocab_sizes or (0, 0)
    if abs(own - target) > facts.vocabulary_padding:
        what = f"{name} runs no draft model of {own} tokens beside a model of {target}"
        reject(what, "a draft model with the same vocabulary")
    families = (*facts.read_as_mtp, *facts.read_as_mtp_with_layers * plan.draft_has_mtp)
    if plan.draft_family.removesuffix("_text") in families:
        reject(
            f"{name} runs no draft model of the family {plan.draft_family}: it reads its config as "
            "layers for mtp",
            "a draft model of another family, or mtp where the model has it",
        )


def _speculation(
    plan: Speculation, facts: Release, how: Drafting
) -> tuple[list[str], dict[str, Any], dict[str, str], list[str]]:
    """Return the flags of a drafter, the keys of its config, files that are named, and notes."""
    method, files = facts.methods[plan.kind], dict[str, str]()
    to_fill_in = f"replace {YOUR_DRAFT_MODEL} by the drafter's weights (--draft-model)"
    notes = [to_fill_in] if plan.weights == YOUR_DRAFT_MODEL else []
    drafts = max(plan.drafts, plan.block or 0) if method.told_block else plan.drafts
    figures: dict[str, Any] = {
        "name": facts.name,
        "method": method.name,
        "weights": plan.weights,
        "drafts": drafts,
        "length": format_drafts(drafts),
        "verified": (plan.nodes if plan.is_tree else plan.drafts) + 1,
        "top_k": plan.top_k if plan.is_tree else 1,
        "n_min": plan.n_min,
        "p_min": f"{plan.p_min:g}",
        "schedule": [list(row) for row in plan.schedule],
        "last_on": max(last for _, last, count in plan.schedule if count),
        "value": facts.cache_formats.get(str(plan.kv_cache)),
    }
    config: dict[str, Any] = {}
    if how.config:
        first, *rest = how.config.items()
        keys = _joined(_joined(dict([first]), method.config), dict(rest))
        config = filled_config(keys, **figures)
    words: tuple[str, ...] = how.words
    if plan.weights is not None:
        on_hub = how.weights_on_hub if ":" in plan.weights and "/" in plan.weights else ()
        words += on_hub or how.weights
    words += how.on_host if plan.on_host else ()
    words += how.cache if figures["value"] and plan.kind not in LOOKUPS else ()
    latent, served = facts.latent_drafts, plan.family.removesuffix("_text")
    if (
        latent
        and plan.compute_major in latent.capabilities
        and served in latent.families
        and plan.kind in latent.kinds
    ):
        added = shell_line(latent.words)
        notes.append(
            f"a drafter without latent attention does not start on this chip without {added}"
        )
    words += method.words or how.drafts
    words += method.words_in_groups if plan.data_parallel > 1 else ()
    if "$file" in facts.command.start:
        notes.append(f"replace {YOUR_FILE} by the file of weights")
    if method.package:
        notes.append(f"{facts.name} needs the package {method.package} for {plan.kind} decoding")
    shape: dict[str, Any] = {
        "family": plan.family,
        "is_tree": plan.is_tree,
        "data_parallel": plan.data_parallel,
        "pipeline_parallel": plan.pipeline_parallel,
        "is_dense": plan.is_dense,
    }
    if not plan.differs and drafts == plan.drafts:
        pass
    elif follows_load(plan.kind, f"{facts.framework}@{facts.version}", **shape):
        words += how.schedule
        config = _joined(config, filled_config(how.schedule_config, **figures))
        if how.schedule_file is not None:
            key = how.schedule_file.key
            slots = {str(first): {key: [count]} for first, _, count in plan.schedule}
            files[how.schedule_file.name] = json.dumps(slots) + "\n"
        notes += filled(how.schedule_notes + how.pause_notes * plan.pauses, **figures)
        if plan.kind in how.whole_block_kinds:
            notes.append(
                f"{facts.name} drafts the whole block wherever it drafts: the schedule shortens "
                f"what is verified"
            )
    elif drafts > plan.drafts:
        reject(
            f"{facts.name} under data parallelism verifies all {drafts} drafts of a block, not "
            f"{plan.drafts}",
            f"a draft length of {drafts} (--choose-draft-len)",
        )
    else:
        if not plan.schedule[-1][2]:
            config = _joined(config, filled_config(how.off_config, **figures))
        notes += filled(how.fixed_notes, **figures) or [_fixed_note(plan, facts)]
    return filled(words, config=_CONFIG, **figures), config, files, notes


def follows_load(  # noqa: PLR0913 - what is asked, and of what shape
    kind: str,
    framework: str,
    *,
    family: str = "",
    is_tree: bool = False,
    data_parallel: int = 1,
    pipeline_parallel: int = 1,
    is_dense: bool = True,
) -> bool:
    """Tell whether a server can change its draft length with the requests that it runs.

    So can, for all that anyone runs there, a server that has no flag for such a drafter; software
    of one user cannot, nor can a server that would lose the full graphs that are priced.

    Parameters
    ----------
    kind
        What drafts, as a SPEC calls it.
    framework
        A server, or a release.
    family
        The family of the model that is served, as its config says it; empty if not known.
    is_tree
        Whether the drafter branches.
    data_parallel
        Groups of devices, each with attention over separate sequences.
    pipeline_parallel
        Stages of layers.
    is_dense
        Whether no layer of the model has experts or a recurrent state.

    Source
        The files of releases. TensorRT-LLM's ``draft_len_schedule`` changed its meaning between
        releases: none is written.

    Examples
    --------
    >>> follows_load("dflash", "vllm"), follows_load("dflash", "sglang")
    (True, False)
    """
    if framework.partition("@")[0] not in FRAMEWORKS:
        return False
    facts = release(framework)
    method = facts.methods.get(kind)
    if method is None or (is_tree and not method.trees):
        return True
    if family.removesuffix("_text") in method.fixed_families:
        return False
    how = facts.drafting or Drafting()
    staged = pipeline_parallel == 1 or how.in_pipeline
    whole = data_parallel == 1 and not is_tree
    whole = whole and not how.piecewise_schedule.holds(kind, family, is_dense=is_dense)
    return method.follows_load and staged and whole


def _fixed_note(plan: Speculation, facts: Release) -> str:
    """Return the note that a server drafts one length at any load, and where it should not run."""
    where = " with data-parallel attention" if plan.data_parallel > 1 else ""
    where = " in trees" if plan.is_tree else where
    where = " in a pipeline" if plan.pipeline_parallel > 1 else where
    off = runs_spelt([(first, last) for first, last, k in plan.schedule if not k])
    without = f"; at {off} in flight start it without these flags" if off else ""
    method, graphs = facts.methods[plan.kind], (facts.drafting or Drafting()).piecewise_schedule
    fixed = f"does not change drafts of {method.name}{where} with the load"
    if not where and graphs.holds(plan.kind, plan.family, is_dense=plan.is_dense):
        fixed = (
            "runs drafts that follow the load in piecewise graphs, slower than those priced here"
        )
    return f"{facts.name} {fixed}: {format_drafts(plan.drafts)} always{without}"


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


def worker_launches(  # noqa: PLR0913 - what the workers serve, and where
    framework: str,
    flags: Launch | None,
    placement: Placement,
    *,
    input_len: float,
    kind: str = "",
    family: str = "",
    is_recurrent: bool = False,
    compute_majors: Collection[int | None] = (),
    settings: ServerSettings | None = None,
    kv_cache: str | None = None,
) -> dict[str, Launch]:
    """Return the flags of a prefill worker and of a decode worker, by ``"prefill"``, ``"decode"``.

    Both draft alike, so that the drafter's cache is made and sent too; workers that read a file
    are not told of drafts where they compute prompts.

    Parameters
    ----------
    framework
        A server, or a release.
    flags
        What the decode worker is told of speculation; None for nothing.
    placement
        How the model is spread over a decode worker.
    input_len
        Tokens of a prompt, for buffers.
    kind, family
        What drafts, and the family of the model.
    is_recurrent
        Whether layers of the model keep a state.
    compute_majors
        First numbers of the compute capabilities of both chips.
    settings, kv_cache
        What the user says of the server, and the dtype of a cache that is told in a file: for
        workers that are told of no drafts.

    Raises
    ------
    OptionError
        For a framework without such workers, and for what one refuses together with them.

    Source
        The file of the release.

    Examples
    --------
    >>> launches = worker_launches("sglang", None, Placement(8), input_len=1000)
    >>> launches["decode"].text
    '--disaggregation-mode decode --disaggregation-transfer-backend mooncake'
    """
    server = framework.partition("@")[0]
    facts = release(_released(framework))
    name, workers, spread = facts.name, facts.workers, placement.decode_context_parallel
    if workers is None:
        known = those_where(lambda one: one.workers is not None)
        reject(f"{server} has no workers for prefill alone", known)
    if workers.connector and spread not in {1, placement.group_size}:
        moves = f"{name} with {workers.connector} does not move caches to decode_context_parallel"
        reject(f"{moves} {spread}", f"1 or {placement.group_size}, all devices of a group")
    if workers.one_stage and placement.pipeline_parallel > 1:
        reject(f"{name} has no pipeline in a decode worker", "one stage")
    colocated = [one for one in workers.colocated if one.refused(kind, family)]
    if flags and colocated:
        what = f"{name} drafts {kind} for {family} where one server does both"
        reject(what, colocated[0].instead)
    if flags and facts.pipeline is not None and placement.pipeline_parallel > 1:
        what = f"{name} has no drafts in a pipeline of a decode worker"
        reject(what, "one stage, or no --prefill")
    moved = _yaml(filled_config(workers.config, input_len=math.ceil(input_len)))
    environment = workers.recurrent_environment if is_recurrent else ""
    notes: tuple[str, ...] = ()
    if workers.one_backend and len({*compute_majors}) > 1:
        notes = (
            f"{name} connects workers with one backend of attention alone, and these chips may choose "
            f"others: {workers.one_backend} names one for both",
        )
    told, keys, _ = setting_words(facts, settings or ServerSettings())
    if kv_cache in facts.cache_formats:
        dtype = facts.cache_formats[str(kv_cache)]
        keys = _joined(keys, filled_config(facts.command.cache_config, value=dtype))
    groups = facts.command.groups_config if placement.attention_data_parallel > 1 else {}
    text, files = (shell_line(told), {}) if flags is None else (flags.text, flags.files)
    found = {}
    for role, words in (("prefill", workers.prefill), ("decode", workers.decode)):
        line, own = f"{shell_line(words)} {text}".strip(), files
        if workers.config:
            # Prompts are computed by all devices together.
            stated = {**keys, **groups} if role == "decode" else keys
            said = "".join(files.values()) if role == "decode" else ""
            said = said or (_yaml(stated) if stated else "")
            line, own = shell_line(words), {f"{role}.yaml": said + moved}
        found[role] = Launch(server, facts.name, line, own, notes, environment)
    return found


#: Stands for the file of weights.
YOUR_FILE: Final = "<YOUR-FILE.gguf>"
