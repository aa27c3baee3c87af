"""What each release of a server does: facts, which files hold, for rules, which code holds.

`frameworks/NAME-VERSION.yaml` is one release; a file more is a release more. With ``same_as`` it
gives what differs from another release of its server, and where it was read itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from string import Template
from typing import Annotated, Any, ClassVar, Final, TypeVar

from specroof.architecture.base import CHOICES
from specroof.drafters import KINDS
from specroof.errors import ProfileError, refuse, reject
from specroof.hardware import SERVER_KEYS, Placement
from specroof.latency import Setup
from specroof.reading.plain import read_plain
from specroof.reading.yaml_text import parse_yaml, shown
from specroof.units import DTYPE_BYTES

#: Where the files of releases lie.
FOLDER: Final = Path(__file__).with_name("frameworks")

# --- Values of a file -----------------------------------------------------------------------------

#: What stands for a figure in the words of a flag.
_PLACEHOLDERS: Final = (
    *("model", "value", "hosts", "first_host", "group_size", "tensor_parallel"),
    *("pipeline_parallel", "attention_data_parallel", "expert_parallel"),
    *("decode_context_parallel", "drafts", "verified", "top_k", "file", "devices_per_host"),
)
_DEGREES: Final = (
    *("pipeline_parallel", "attention_data_parallel", "expert_parallel"),
    "decode_context_parallel",
)
_PLACEMENT: Final = (*_DEGREES, "hosts")


def _words_allowed(words: Any) -> str:
    fine = isinstance(words, list) and all(isinstance(word, str) for word in words)
    templates = [Template(word) for word in words] if fine else []
    fine = fine and all(template.is_valid() for template in templates)
    names = {name for template in templates for name in template.get_identifiers()}
    known = ", ".join(f"${name}" for name in _PLACEHOLDERS)
    return "" if fine and names <= {*_PLACEHOLDERS} else f"a list of texts, with {known}"


def _step_allowed(step: Any) -> str:
    match step:
        case [int(first), int() | None, int(width)] if first > 0 and width > 0:
            return ""
    return "[from, below or null, step], whole numbers from 1"


def _version_allowed(version: Any) -> str:
    return "" if version == 1 else "1, the only version so far"


def _limits_allowed(rows: Any) -> str:
    fine = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    least = [row.get("least_gib") for row in rows] if fine else []
    fine = all(isinstance(figure, int) for figure in least) and least[-1:] == [0]
    falls = fine and least == sorted({*least}, reverse=True)
    return "" if falls else "rows with falling least_gib, the last of 0"


_Words = Annotated[tuple[str, ...], _words_allowed]
_Kind = Annotated[str, KINDS]
_Dtypes = Mapping[Annotated[str, DTYPE_BYTES], str]
_Share = Annotated[float, "share"]
_Names = tuple[str, ...]
_Kinds = tuple[_Kind, ...]


@dataclass(frozen=True, kw_only=True)
class CapturedSizes:
    """Sizes of captured graphs: some that are listed, then steps of from, below and width."""

    listed: tuple[int, ...]
    steps: tuple[Annotated[tuple[int | None, ...], _step_allowed], ...]

    def up_to(self, most: int) -> list[int]:
        """Return the sizes that are at most so large; a step without an end goes that far."""
        stepped = (
            range(first, most + 1 if below is None else below, width)  # type: ignore[arg-type]
            for first, below, width in self.steps
        )
        return [size for size in chain(self.listed, *stepped) if size <= most]


@dataclass(frozen=True, kw_only=True)
class SettingFlag:
    """The words of a setting that is on or has a value, and of one that is off; None: no way."""

    enabled: _Words | None = None
    disabled: _Words | None = None


@dataclass(frozen=True, kw_only=True)
class Command:
    """What starts a server: the words, then those of each number above 1, in this order.

    Those of a model that is named with its file on the Hub may be others.
    """

    start: _Words
    start_on_hub: _Words = ()
    placement: Mapping[Annotated[str, _PLACEMENT], _Words]
    other_hosts: str
    own_code: _Words = ()
    own_code_families: _Names = ()
    weights: _Words = ()
    cache: _Words = ()


@dataclass(frozen=True, kw_only=True)
class Method:
    """A kind of drafter: what the server calls it, and what it does with it.

    Attributes
    ----------
    name
        What the server calls it.
    config
        Keys beside, where a config names the drafter.
    words, words_in_groups
        How flags count drafts, where flags do; and those beside with data-parallel attention.
    trees, follows_load, in_groups, in_pipeline
        Whether it drafts in trees, its draft length can follow the load, and it drafts with
        data-parallel attention and in a pipeline.
    package
        What has to be installed for it.
    """

    name: str
    config: Mapping[str, bool | int | str] = field(default_factory=dict)
    words: _Words = ()
    words_in_groups: _Words = ()
    trees: bool = False
    follows_load: bool = False
    in_groups: bool = True
    in_pipeline: bool = False
    package: str = ""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Families that kinds of drafters are refused for, and what to take instead."""

    kinds: _Kinds
    families: _Names
    trees: bool = False
    instead: str = "another drafter"
    source: str


@dataclass(frozen=True, kw_only=True)
class Workers:
    """What makes a server a worker of prefill or decoding; drafts that those do not run."""

    prefill: _Words
    decode: _Words
    colocated: tuple[Refusal, ...] = ()


# --- A release ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a release does, whichever server it is of.

    Attributes
    ----------
    framework, version
        As the name of the file says them.
    title
        What people call the server.
    sources
        File and line that a block or a fact was read in, by its dotted key.
    command, settings
        How a server is started, and what tells it its settings.
    cache_formats
        What it calls dtypes of a cache.
    methods
        By the kind of drafter.
    """

    framework: ClassVar[str] = ""

    format_version: Annotated[int, _version_allowed]
    version: str = ""
    title: str
    sources: Mapping[str, str]
    command: Command
    settings: Mapping[Annotated[str, SERVER_KEYS], SettingFlag] = field(default_factory=dict)
    cache_formats: Mapping[Annotated[str, CHOICES["kv_dtype"]], str]
    methods: Mapping[_Kind, Method]

    @property
    def name(self) -> str:
        """The server and its version, as people call them."""
        return f"{self.title} {self.version}"


@dataclass(frozen=True, kw_only=True)
class _Defaults:
    memory_frac: _Share
    running: int
    running_drafting: int | None = None
    capture: int
    chunk: int
    mixed: bool


@dataclass(frozen=True, kw_only=True)
class PlainRelease(Release):
    """What a release does of which few rules are known.

    Attributes
    ----------
    known_as
        What people call the release, where not by title and version.
    vocabulary_padding
        Tokens by which the vocabulary of a draft model may differ.
    defaults
        Of settings; those of a server that drafts run other numbers of requests.
    part_tokens
        Tokens of a pass, whose logits are kept; 0 where nothing is.
    """

    known_as: str = ""
    vocabulary_padding: int
    defaults: _Defaults
    part_tokens: int = 0

    @property
    def name(self) -> str:
        """The server and its version, as people call them."""
        return self.known_as or super().name


@dataclass(frozen=True, kw_only=True)
class ServerRelease(Release):
    """What a release of vLLM or SGLang does.

    Attributes
    ----------
    weights, state_dtypes
        Formats of weights that it makes of any checkpoint, and what it calls dtypes of a state.
    refusals
        What it does not draft for which families; the first that fits is said.
    no_models
        Families that it has no class for.
    read_as_mtp, read_as_mtp_with_layers
        Families of draft models that it reads as layers for mtp; the second ones where they have
        such layers.
    workers
        Of prefill and of decoding.
    """

    weights: _Names
    state_dtypes: _Dtypes
    refusals: tuple[Refusal, ...]
    no_models: _Names
    read_as_mtp: _Names
    read_as_mtp_with_layers: _Names = ()
    workers: Workers


def _check_sources(content: Mapping[str, Any], file: str) -> None:
    """Refuse a fact without a source, and a source of no fact."""
    sources, known = content["sources"], set[str]()
    facts = {key: content[key] for key in content if key not in _UNREAD}
    for path in _facts(facts):
        above = [".".join(path[: depth + 1]) for depth in range(len(path))]
        known.update(above)
        if path[-1] != "source" and sources.keys().isdisjoint(above):
            reject(f"{file}: sources has none of {above[-1]}", "file and line", ProfileError)
    if not known.issuperset(sources):
        strange = ", ".join(sources.keys() - known)
        reject(f"{file}: sources has {strange}", "dotted keys of facts", ProfileError)


#: Keys of a file that are no facts.
_UNREAD: Final = ("format_version", "title", "known_as", "sources")


def _facts(content: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys that lead to each fact; lists whose entries say their source are one."""
    for key, value in content.items():
        path = (*above, key)
        if isinstance(value, Mapping) and value:
            yield from _facts(value, path)
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            yield (*path, "source") if all("source" in row for row in value) else path
        else:
            yield path


_R = TypeVar("_R", bound=Release)


@dataclass(frozen=True, kw_only=True)
class _VllmLimit:
    least_gib: float
    running: int
    tokens: int
    not_capabilities: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _VllmLimits:
    by_memory: Annotated[tuple[_VllmLimit, ...], _limits_allowed]
    tokens_by_architecture: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class _VllmCaptured:
    most: int
    large: int
    large_compute_majors: tuple[int, ...]
    sizes: CapturedSizes
    whole_pass: bool
    uniform: bool


@dataclass(frozen=True, kw_only=True)
class _VllmMemory:
    memory_frac: _Share
    block_tokens: int
    latent_block_tokens: int
    alike: float
    replay_tokens: int
    prompt_in_windows: Annotated[str, ("passes in flight", "one pass", "whole")]
    synchronous_kinds: _Kinds
    limiting_kinds: _Kinds
    whole_block_kinds: _Kinds
    extra_slot_kinds: _Kinds
    no_lookahead_kinds: _Kinds


@dataclass(frozen=True, kw_only=True)
class _Staged:
    kinds: _Kinds
    families: _Names


@dataclass(frozen=True, kw_only=True)
class VllmRelease(ServerRelease):
    """What a release of vLLM does; the comments of its file say what each key means."""

    framework: ClassVar[str] = "vllm"

    limits: _VllmLimits
    captured: _VllmCaptured
    memory: _VllmMemory
    staged: _Staged
    adaptive_verification: bool
    forced_length: bool


@dataclass(frozen=True, kw_only=True)
class _SglangLimit:
    least_gib: float
    tokens: int
    captured: int
    captured_spread: int


@dataclass(frozen=True, kw_only=True)
class _SglangLimits:
    by_memory: Annotated[tuple[_SglangLimit, ...], _limits_allowed]
    spread_from_devices: int
    drafting_running: int
    compressed_running: int


@dataclass(frozen=True, kw_only=True)
class _SglangCaptured:
    plain: CapturedSizes
    drafting: CapturedSizes
    prefill: CapturedSizes
    largest: bool


@dataclass(frozen=True, kw_only=True)
class _SglangVision:
    share: _Share
    n_layers: int
    hidden_size: int
    slope: float
    least: float
    most: float


@dataclass(frozen=True, kw_only=True)
class _SglangMemory:
    whole_prompt_tokens: int
    least_tokens: int
    base_mib: float
    token_mib: float
    device_mib: float
    floor_mib: float
    floor_from_gib: float
    graph_mib: float
    group_graph_mib: float
    large_group_graph_mib: float
    large_graph: int
    prefill_graph_mib: float
    latent_prefill_mib: float
    drafter_mib: Mapping[_Kind, float]
    vision: _SglangVision
    attention_share: Mapping[str, _Share]
    latent_share_heads: tuple[int, ...]
    state_share: _Share
    state_slots: int
    tracking_slots: int
    copies_first: bool
    window_share: _Share
    replay_tokens: int
    image_cache_mib: float
    eviction_tokens: int
    page_tokens: int
    fewest_running: int
    text_families: _Names
    captured_towers: _Names
    window_families: _Names
    target_cell_kinds: _Kinds
    never_mixed_kinds: _Kinds
    synchronous_kinds: _Kinds


@dataclass(frozen=True, kw_only=True)
class _Pipeline:
    environment: str


@dataclass(frozen=True, kw_only=True)
class SglangRelease(ServerRelease):
    """What a release of SGLang does; the comments of its file say what each key means."""

    framework: ClassVar[str] = "sglang"

    limits: _SglangLimits
    captured: _SglangCaptured
    memory: _SglangMemory
    pipeline: _Pipeline | None = None


def check_placed(facts: Release, placement: Placement) -> None:
    """Refuse a placement that a release has no flag for.

    Raises
    ------
    OptionError
        With the number of devices.
    """
    for key in _DEGREES if facts.command.placement else ():
        degree = getattr(placement, key)
        if degree > 1 and key not in facts.command.placement:
            reject(f"{key} is {degree}, and {facts.name} has no flag for it", "1")


# --- Releases by name -----------------------------------------------------------------------------

_SCHEMAS: Final[Mapping[str, type[Release]]] = {
    **{schema.framework: schema for schema in (VllmRelease, SglangRelease)},
    **dict.fromkeys(("tensorrt-llm", "llama.cpp", "mlx"), PlainRelease),
}
#: Servers with files of their releases.
RELEASED: Final = (*_SCHEMAS,)


@cache
def known_releases(framework: str) -> Sequence[str]:
    """Return the versions of a server that there are files of, the newest first.

    Examples
    --------
    >>> known_releases("vllm")[0]
    '0.33.0'
    """
    prefix = f"{framework}-"
    versions = [path.stem.removeprefix(prefix) for path in FOLDER.glob(f"{prefix}*.yaml")]
    for version in versions:
        if not re.fullmatch(r"\d+(\.\d+)*", version):
            reject(
                f"{prefix}{version}.yaml: version is {version!r}", "such as 0.33.0", ProfileError
            )
    return sorted(versions, key=_parts, reverse=True)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@cache
def release(name: str) -> Release:
    """Return what a release does.

    Parameters
    ----------
    name
        A server, for its newest release, or server and version: ``"vllm@0.33"``.

    Raises
    ------
    OptionError
        For a release that there is no file of.
    ProfileError
        For a file with an unknown key, a value out of bounds, or a fact without its source.

    Examples
    --------
    >>> release("sglang").name, release("vllm@0.33").settings["running"].enabled
    ('SGLang 0.5.23', ('--max-num-seqs', '$value'))
    """
    framework, at, wanted = name.partition("@")
    known = known_releases(framework) if framework in _SCHEMAS else ()
    for version in known:
        if f"{version}.".startswith(f"{wanted}." if at else ""):
            return _read(framework, version)
    servers = (framework,) if known else tuple(_SCHEMAS)
    every = (f"{server}@{version}" for server in servers for version in known_releases(server))
    return refuse("framework", name, ", ".join(every))


@cache
def _read(framework: str, version: str) -> Release:
    file = FOLDER / f"{framework}-{version}.yaml"
    content = release_content(file)
    read = read_plain(content, _SCHEMAS[framework], source=file.name, error=ProfileError)
    _check_sources(content, file.name)
    return replace(read, version=version)


def release_content(path: Path) -> dict[str, Any]:
    """Return what the file of a release says, with the facts of the one that it is the same as.

    Mappings are joined key by key, null leaves a key out, and any other value takes the place of
    that of the other release. Sources are its own.

    Raises
    ------
    ProfileError
        For ``same_as`` that names no other file of the same server, or leads back to this one.

    Examples
    --------
    >>> older = release_content(FOLDER / "vllm-0.24.0.yaml")
    >>> older["title"], older["captured"]["most"], older["captured"]["uniform"]
    ('vLLM', 512, False)
    """
    read, own = list[Path](), list[dict[str, Any]]()
    while not own or "same_as" in own[-1]:
        if own:
            named, allowed = own[-1].pop("same_as"), _others(path, read)
            if named not in allowed:
                what = f"{read[-1].name}: same_as is {shown(named)}"
                reject(what, ", ".join(allowed) or "left out", ProfileError)
            path = path.with_name(f"{named}.yaml")
        read.append(path)
        own.append(parse_yaml(path.read_text("utf-8"), source=path.name, error=ProfileError))
    content: dict[str, Any] = own.pop()
    for newer in reversed(own):
        content = _joined({**content, "sources": {}}, newer)
    return content


def _others(path: Path, read: Sequence[Path]) -> list[str]:
    """Return the files of the same server, beside those that were read already."""
    server = path.stem.partition("-")[0]
    return sorted(other.stem for other in path.parent.glob(f"{server}-*.yaml") if other not in read)


def _joined(content: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**content, **change}
    for key, value in change.items():
        if isinstance(value, Mapping) and isinstance(content.get(key), Mapping):
            joined[key] = _joined(content[key], value)
    return {key: value for key, value in joined.items() if value is not None}


def release_in(setup: Setup, framework: str) -> str:
    """Return the name of a server's release: that whose rules a setup has, else the newest.

    Parameters
    ----------
    setup
        Within a server, or not.
    framework
        Any server software, also without files.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.latency import engine_setup
    >>> setup = engine_setup(load_hardware("h100"), "vllm", None, None)
    >>> release_in(setup, "vllm"), release_in(setup, "sglang"), release_in(setup, "lmstudio")
    ('vllm@0.33.0', 'sglang@0.5.23', 'lmstudio')
    """
    if framework not in RELEASED:
        return framework
    version = setup.version if framework == setup.engine.rules else ""
    return f"{framework}@{version or known_releases(framework)[0]}"


def release_of(name: str, schema: type[_R]) -> _R:
    """Return what a release of a server does, with the facts that this server alone has.

    Parameters
    ----------
    name
        As for `release`.
    schema
        `VllmRelease`, `SglangRelease`, or `ServerRelease` for either; `PlainRelease` for others.

    Examples
    --------
    >>> release_of("vllm", VllmRelease).memory.memory_frac
    0.92
    """
    found = release(name)
    assert isinstance(found, schema)  # noqa: S101 - the schema of its name
    return found


def version_of(schema: type[_R], version: str = "") -> _R:
    """Return a release of a server by its version, or by how that begins; empty for the newest.

    Examples
    --------
    >>> version_of(VllmRelease).version, version_of(VllmRelease, "0.24").version
    ('0.33.0', '0.24.0')
    """
    return release_of("@".join(filter(None, (schema.framework, version))), schema)
