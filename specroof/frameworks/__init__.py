"""What each release of a server does: facts, which files hold, for rules, which code holds.

`NAME-VERSION.yaml` beside this file is one release; a file more is a release more. With ``same_as``
it gives what differs from another release of its server, and where it was read itself. `names.yaml`
lists the servers.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from string import Template
from typing import Annotated, Any, Final

from specroof.architecture.base import CHOICES, KERNELS, MIXES_BY_FILE, CacheReading
from specroof.arrays import Array
from specroof.errors import ProfileError, refuse, reject
from specroof.reading.yaml_text import bundled_yaml, parse_yaml, read_plain, shown
from specroof.units import DTYPE_BYTES

#: Where the files of releases lie.
FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class _Name:
    spelt: tuple[str, ...] = ()
    one_user: bool = False
    stands_in: bool = False
    runs: str = ""
    vendor: str = ""
    least_capability: float = 0.0
    no_platform: tuple[str, ...] | list[str] = ()
    kernels_from: float = 0.0


_NAMES: Final = {name: _Name(**row) for name, row in bundled_yaml(__file__, "names.yaml").items()}
#: Serving software that engines are named after, and whose rules they have.
FRAMEWORKS: Final = tuple(n for n, row in _NAMES.items() if not (row.one_user or row.runs))
#: Software for one user and a few requests, with engines of its own.
LOCAL_FRAMEWORKS: Final = tuple(name for name, row in _NAMES.items() if row.one_user)
#: Software that runs the files of another, whose rules it has.
RUNS: Final[Mapping[str, str]] = {name: row.runs for name, row in _NAMES.items() if row.runs}
#: The vendor of the chips that software is bound to, where it is.
BOUND_TO: Final[Mapping[str, str]] = {n: row.vendor for n, row in _NAMES.items() if row.vendor}
#: The least compute capability of chips that software runs on.
LEAST_CAPABILITY: Final[Mapping[str, float]] = {
    n: row.least_capability for n, row in _NAMES.items()
}
#: Vendors on whose chips software runs by a plugin at most.
NO_PLATFORM: Final[Mapping[str, tuple[str, ...]]] = {
    n: tuple(row.no_platform) for n, row in _NAMES.items()
}
#: The least compute capability of chips that its published builds have kernels for.
KERNELS_FROM: Final[Mapping[str, float]] = {n: row.kernels_from for n, row in _NAMES.items()}
#: All server software.
SERVERS: Final = (*_NAMES,)
#: What people call it, without capitals and with hyphens.
SPELT: Final[Mapping[str, str]] = {
    word: name for name, row in _NAMES.items() for word in (name, *row.spelt)
}
#: Gives its rules to an engine without a known server: `generic`, or a user's calibration.
STAND_IN: Final = next(name for name, row in _NAMES.items() if row.stands_in)

# --- Values of a file -----------------------------------------------------------------------------

#: Ways to spread a model that a server may have a flag for.
DEGREES: Final = (
    *("pipeline_parallel", "attention_data_parallel", "expert_parallel"),
    *("decode_context_parallel", "tensor_parallel", "hosts"),
)


#: Words of a flag; ``$NAME`` in one stands for a figure.
_Words = tuple[str, ...]
#: Keys of a file or of a flag; ``$NAME`` as a value stands for a figure.
_Config = Mapping[str, Any]
_Dtypes = Mapping[Annotated[str, DTYPE_BYTES], str]
_Share = Annotated[float, "share"]
_SIXTEEN_BITS: Final = ("bf16", "fp16")
_Names = tuple[str, ...]
_Kinds = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CapturedSizes:
    """Sizes of captured graphs: some that are listed, then steps of from, below and width."""

    listed: tuple[int, ...]
    steps: tuple[tuple[int | None, ...], ...]

    def up_to(self, most: int) -> list[int]:
        """Return the sizes that are at most so large; a step without an end goes that far."""
        stepped = (
            range(first, most + 1 if below is None else below, width)  # type: ignore[arg-type]
            for first, below, width in self.steps
        )
        return [size for size in chain(self.listed, *stepped) if size <= most]


@dataclass(frozen=True, kw_only=True)
class SettingFlag:
    """The words of a setting that is on or has a value, and of one that is off; None: no way.

    A server that reads a file of settings has keys there instead, in `config` and `config_off`.
    """

    enabled: _Words | None = None
    disabled: _Words | None = None
    config: _Config | None = None
    config_off: _Config | None = None


@dataclass(frozen=True, kw_only=True)
class Command:
    """What starts a server: the words, then those of each number above 1, in this order.

    Those of a model that is named with its file on the Hub may be others. `fitted` starts a server
    whose memory holds no sequence of all positions of a model. `host_experts` leaves the experts of
    the first layers to the CPU. `told_caches` are formats of the cache by the families that start
    with no other, and not without being told.
    """

    start: _Words
    start_on_hub: _Words = ()
    placement: Mapping[Annotated[str, DEGREES], _Words]
    other_hosts: str
    own_code: _Words = ()
    own_code_families: _Names = ()
    told_caches: Mapping[str, Annotated[str, CHOICES["kv_dtype"]]] = field(default_factory=dict)
    fitted: _Words = ()
    host_experts: _Words = ()
    weights: _Words = ()
    cache: _Words = ()
    cache_config: _Config = field(default_factory=dict)
    groups_config: _Config = field(default_factory=dict)

    def spreads(self, degree: str) -> bool:
        """Return whether its words say one of `DEGREES`."""
        says = {f"${degree}", "$group_size"} if degree == "tensor_parallel" else {f"${degree}"}
        return degree in self.placement or not says.isdisjoint(self.start)


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
    trees, follows_load, in_groups
        Whether it drafts in trees, its draft length can follow the load, and it drafts with
        data-parallel attention.
    fixed_families
        Families of models for which its draft length cannot follow the load.
    told_block
        Whether it has to be told all drafts of its block.
    whole_modules
        Whether it makes no more drafts than a checkpoint has modules, or a multiple of those.
    rule
        By which its drafts are accepted without a flag; empty for the release's usual.
    package
        What has to be installed for it.
    """

    name: str
    config: _Config = field(default_factory=dict)
    words: _Words = ()
    words_in_groups: _Words = ()
    trees: bool = False
    follows_load: bool = False
    fixed_families: _Names = ()
    in_groups: bool = True
    told_block: bool = False
    whole_modules: bool = False
    rule: str = ""
    package: str = ""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Families that kinds of drafters are refused for, all if none, and what to take instead.

    With `others_than` all are but these. `trees` and `spread` refuse any kind that drafts in trees,
    or over a context that devices share. With `capabilities` it is so on chips of those alone, by
    their first number.
    """

    kinds: _Kinds = ()
    families: _Names = ()
    others_than: _Names = ()
    trees: bool = False
    spread: bool = False
    capabilities: tuple[int, ...] = ()
    instead: str = "another drafter"
    source: str

    def refused(
        self,
        kind: str,
        family: str,
        *,
        is_tree: bool = False,
        is_spread: bool = False,
        capability: int | None = None,
    ) -> str:
        """Return what is refused for a family on a chip; empty for nothing."""
        served = family.removesuffix("_text")
        if self.others_than:
            listed = served not in {"", *self.others_than}
        else:
            listed = not self.families or served in self.families
        if not listed or (self.capabilities and capability not in self.capabilities):
            return ""
        if kind in self.kinds:
            return kind
        if is_tree and self.trees:
            return f"trees of {kind}"
        return f"{kind} over a context that devices share" if is_spread and self.spread else ""


@dataclass(frozen=True, kw_only=True)
class ChipLimit:
    """Chips that models of a kind run on.

    Attributes
    ----------
    quantizations, formats
        Models whose checkpoints are quantised so, as configs call it, with most weights in these
        formats; none for all.
    kernels, families
        Models with these classes of kernels, as cores name them, and models of these families.
    caches
        Such models where they cache in these formats; none for all.
    least, capabilities
        Compute capability at least, and its first number; none for all.
    not_vendors, not_architectures
        Vendors and architectures on which no server starts.
    """

    quantizations: _Names = ()
    formats: _Names = ()
    kernels: tuple[Annotated[str, KERNELS], ...] = ()
    families: _Names = ()
    caches: tuple[Annotated[str, CHOICES["kv_dtype"]], ...] = ()
    least: float = 0.0
    capabilities: tuple[int, ...] = ()
    not_vendors: _Names = ()
    not_architectures: _Names = ()
    source: str

    def limits(
        self, quantization: str, form: str, cache: str, kernels: frozenset[str], family: str
    ) -> bool:
        """Return whether a model is of the kind."""
        stored = quantization in self.quantizations and form in (self.formats or (form,))
        runs = not kernels.isdisjoint(self.kernels) or family in self.families
        return (stored or runs) and cache in (self.caches or (cache,))

    def allows(self, capability: float) -> bool:
        """Return whether such a model runs on a chip."""
        listed = not self.capabilities or int(capability) in self.capabilities
        return listed and capability >= self.least


@dataclass(frozen=True, kw_only=True)
class RuleFlag:
    """How a server is told a rule of acceptance: by words, or by keys where a config names drafts.

    Attributes
    ----------
    words, config
        Those of the rule.
    kinds
        Of drafters that it is for, in chains.
    least_drafts
        Drafts of a round, at least.
    whole_vocabulary
        Whether the drafter has to be able to propose every token of the model.
    refusals
        Families that it is refused for.
    """

    words: _Words = ()
    config: _Config = field(default_factory=dict)
    kinds: _Kinds
    least_drafts: int = 1
    whole_vocabulary: bool = False
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScheduleFile:
    """A file with the drafts of each load: by the first number of requests, under a key."""

    name: str
    key: str


@dataclass(frozen=True, kw_only=True)
class PiecewiseSchedule:
    """Drafts that follow the load in piecewise graphs.

    Attributes
    ----------
    kinds
        Of drafters for which that is so with any model.
    sparse_kinds, but_families
        Of drafters for which it is so with models that have experts or recurrent states, but for
        these families.
    """

    kinds: _Kinds = ()
    sparse_kinds: _Kinds = ()
    but_families: _Names = ()

    def holds(self, kind: str, family: str, *, is_dense: bool) -> bool:
        """Return whether it is so for a kind of drafter and a model."""
        sparse = not is_dense and family.removesuffix("_text") not in self.but_families
        return kind in self.kinds or (sparse and kind in self.sparse_kinds)


@dataclass(frozen=True, kw_only=True)
class Drafting:
    """How a server is told what drafts: by words, or by a config in one of them or in a file.

    Attributes
    ----------
    words, weights, weights_on_hub, drafts, on_host, cache
        Those of any drafter; of one with weights of its own; of one that is named with its file on
        the Hub; of drafts, where its method has none; of one on the CPU; of a format of the cache,
        where a drafter's is told apart.
    config, file
        Keys of the config; the file that holds it, empty for ``$config`` among the words.
    schedule, schedule_config, schedule_file
        What is told of drafts that follow the load.
    off_config
        What is told of a load from which on none are drafted.
    whole_block_kinds
        That draft a whole block wherever they draft: a schedule shortens what is verified.
    schedule_notes, pause_notes, fixed_notes, notes
        What is said of a schedule that is told, of one that drafts nothing at some loads with
        anything but look-ups, of one that is not told, and of any drafter.
    in_pipeline
        Whether drafts can follow the load in a pipeline.
    piecewise_schedule
        Where drafts that follow the load take the server its full graphs, which prices assume: they
        are not advised then.
    caches_only
        Whether it drafts for no model with recurrent layers.
    rule_flags
        By the rule.
    """

    words: _Words = ()
    weights: _Words = ()
    weights_on_hub: _Words = ()
    drafts: _Words = ()
    on_host: _Words = ()
    cache: _Words = ()
    config: _Config = field(default_factory=dict)
    file: str = ""
    schedule: _Words = ()
    schedule_config: _Config = field(default_factory=dict)
    schedule_file: ScheduleFile | None = None
    off_config: _Config = field(default_factory=dict)
    whole_block_kinds: _Kinds = ()
    schedule_notes: _Words = ()
    pause_notes: _Words = ()
    fixed_notes: _Words = ()
    notes: _Words = ()
    in_pipeline: bool = True
    piecewise_schedule: PiecewiseSchedule = PiecewiseSchedule()
    caches_only: bool = False
    rule_flags: Mapping[str, RuleFlag] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Kinds that draft in a pipeline, where not all do, and what the environment needs for it.

    They do so where one server computes prompts and answers, not in a worker that decodes.
    """

    kinds: _Kinds
    environment: str = ""


@dataclass(frozen=True, kw_only=True)
class Workers:
    """What makes a server a worker of prefill or decoding; drafts that those do not run.

    Keys of a `config` stand in a file of each, and prefill is told of no drafts there. A
    `connector` moves caches that are whole, or spread over all devices of a group. For each request
    a worker that decodes keeps `reserved_tokens` free; with `one_stage` it runs in no pipeline.
    Both need `recurrent_environment` for models with recurrent states, and the same backend of
    attention, which `one_backend` names where their chips choose others.
    """

    prefill: _Words
    decode: _Words
    colocated: tuple[Refusal, ...] = ()
    config: _Config = field(default_factory=dict)
    connector: str = ""
    reserved_tokens: int = 0
    one_stage: bool = False
    recurrent_environment: str = ""
    one_backend: str = ""


@dataclass(frozen=True, kw_only=True)
class LatentDrafts:
    """Chips and families whose default kernels are of latent attention alone.

    Heads with attention of another kind, of these `kinds`, need `words` for kernels of their own.
    """

    capabilities: tuple[int, ...]
    families: _Names
    kinds: _Kinds
    words: _Words


@dataclass(frozen=True, kw_only=True)
class Snapshots:
    """Drafters, and families with recurrent layers, whose states a rejected draft is cut back to.

    Of others, what was accepted runs a second time.
    """

    kinds: _Kinds
    families: _Names


@dataclass(frozen=True, kw_only=True)
class Mock:
    """How a server runs on random weights and accepts as many drafts as it is told.

    Attributes
    ----------
    start, drafting
        The words of a server, and those beside for drafts; ``$formats`` and ``$speculation`` stand
        for several.
    draft_weights
        Words beside for drafters with weights.
    config
        Keys beside, where a config names the drafter.
    environment
        Variables of a server that drafts.
    least_running
        Requests that run, at least.
    unforced
        Kinds of drafters that it does not tell how many drafts to accept.
    bench
        The words of a client.
    """

    start: _Words
    drafting: _Words = ()
    draft_weights: _Words = ()
    config: _Config = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    least_running: int = 0
    unforced: _Kinds = ()
    bench: _Words


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What a server publishes.

    Attributes
    ----------
    published
        What a server is told so that it publishes them.
    prefix
        How every name begins.
    counters
        From what is counted to the name of its counter, or of a part of a histogram.
    gauges
        From what is shown to the name of its gauge, summed over ranks.
    settings
        Gauges that are the same on all ranks, or a mean.
    only
        A label that a counter must have, and its value.
    info
        A gauge whose labels say how the server was launched; empty where there is none.
    gap_of_each_token
        Whether the time between two outputs of a request is shared out among their tokens.
    counts_without_drafts
        Whether rounds are counted, as 0, where nothing drafts.
    """

    published: str
    prefix: str
    counters: Mapping[str, str]
    gauges: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    info: str = ""
    gap_of_each_token: bool = False
    counts_without_drafts: bool = False


# --- A release ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRule:
    """The backend that a server chooses by default, and how it reads the cache.

    Attributes
    ----------
    kernels
        Of which classes of kernels, as cores name them: of those with an indexer it is the reading
        of the keys that it scans.
    capabilities, vendors
        Where: on chips of these compute capabilities, by their first number, or of these vendors.
    reading
        How it reads the cache for several new positions.
    source
        The backend, and the files that say so.
    causal
        For attention that is causal, or that is not; None for both.
    wide
        For models with a head wider than 256, or without; None for both.
    narrow_cache
        For a cache of less than 16 bits an element, or of more; None for both.
    spread
        For a context that is spread over devices, or that is not; None for both.
    families
        For models of these; none for all models.
    image_families
        For models of these that read images alone; none for all models.
    not_head_dims
        For heads of other widths than these.
    """

    kernels: tuple[Annotated[str, KERNELS], ...]
    capabilities: tuple[int, ...] = ()
    vendors: _Names = ()
    reading: CacheReading
    source: str
    causal: bool | None = None
    wide: bool | None = None
    narrow_cache: bool | None = None
    spread: bool | None = None
    families: _Names = ()
    image_families: _Names = ()
    not_head_dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8Cache:
    """Where DeepSeek's sparse attention (V3.2, GLM-5) is cached in fp8 unless the user says else.

    On chips of these compute capabilities, by their first number, and for these families of models;
    none for all.
    """

    capabilities: tuple[int, ...]
    families: _Names = ()
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacedPrompts:
    """Rounds that are decoded between two passes of prompts, for these families of models.

    On chips of these compute capabilities, by their first number, with so much memory.
    """

    families: _Names
    capabilities: tuple[int, ...]
    least_gib: float
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadContext:
    """What a server does with a context that is spread over devices.

    Attributes
    ----------
    merges
        Collectives around attention.
    index_keys_whole
        Whether each device keeps the keys of all tokens that an indexer scans.
    draft_latents
        Whether latents of a drafter are spread as well; they are cached whole otherwise.
    block_capabilities
        Of chips, by their first number, where it can so for blocks of drafts.
    """

    merges: int
    index_keys_whole: bool = False
    draft_latents: bool = False
    block_capabilities: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveSlot:
    """Draft lengths that a server moves between by itself, from a number of requests on.

    Attributes
    ----------
    requests
        Of a batch as it is padded, at least.
    drafts
        The lengths, rising.
    hysteresis
        Accepted drafts by which the threshold of a shorter length is lowered.
    """

    requests: int
    drafts: tuple[int, ...]
    hysteresis: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSlots:
    """Tokens of a pass that a drafter's own input takes of each request, beside those verified.

    Attributes
    ----------
    first, later
        For the first draft, and for each later one.
    """

    first: int = 0
    later: int = 0

    def of(self, draft_len: Array) -> Array:
        """Return them for draft lengths; none where nothing is drafted.

        Examples
        --------
        >>> import numpy as np
        >>> InputSlots(later=1).of(np.array([0.0, 3.0])).tolist()
        [0.0, 2.0]
        """
        return (draft_len > 0) * (self.first + self.later * (draft_len - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeBlocks:
    """Of which matrices, and on whose chips, devices must not cut blocks of FP8 weights."""

    parts: tuple[Annotated[str, ("experts", "dense")], ...] = ()
    vendors: _Names = ()


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a release does, whichever server it is of; the defaults are those of the ideal engine.

    Attributes
    ----------
    framework, version
        As the name of the file says them.
    rules
        Whose rules of memory and of settings count, of `specroof.serving.capacity.RULES`.
    title, known_as
        What people call the server, and the release where not by title and version.
    sources
        File and line that a block or a fact was read in, by its dotted key.
    command, settings
        How a server is started, and what tells it its settings.
    weights, cache_formats, state_dtypes
        Formats of weights that it makes of any checkpoint, and what it calls dtypes of a cache and
        of a state.
    files
        The kind of files of weights that it reads, of `MIXES_BY_FILE`; empty for several.
    methods
        By the kind of drafter.
    drafting, pipeline
        How it is told what drafts; what drafts in a pipeline, None for all kinds.
    mock, metrics
        None where it cannot be told an acceptance length, and where no names were read.
    accepts
        Rules by which drafts can be accepted, the one without a flag first; none where nobody says.
    vocabulary_padding
        Tokens by which the vocabulary of a draft model may differ.
    refusals
        What it does not draft for which families; the first that fits is said.
    staged
        What it does not draft for which families in a pipeline, besides.
    no_models
        Families that it has no class for.
    chip_limits
        Chips that it runs quantised checkpoints, and some kernels, on alone.
    part_tokens
        Tokens of prompts that a device computes at once, longer ones in parts; 0 for any number.
    margin_mib
        Memory of a device that it leaves free for others.
    reads_verified
        Whether a draft model forgets what it drafted, and reads what was verified in a pass of its
        own.
    stages_take_turns
        Whether one pass at a time is in the stages of a pipeline, its parts one after another;
        else each stage has a pass of its own.
    whole_families
        Families whose layers it does not spread over devices by tensor parallelism.
    one_stage_families
        Families that it does not run in a pipeline.
    grouped_families
        Families of which it runs attention in groups; empty for all.
    read_as_mtp, read_as_mtp_with_layers
        Families of draft models that it reads as layers for mtp; the second ones where they have
        such layers.
    workers
        Of prefill and of decoding; None for a server that does both.
    verification_kernels
        How its kernels read the cache in a verification; the first row that fits counts, and where
        none does it is read once.
    fp8_families
        Families that it caches in fp8 on any chip, unless the user says else.
    fp8_caches
        Defaults of caches; None where none was read.
    compressed_formats
        Of a compressed cache; none for any.
    wide_caches_as_activations
        Whether a cache in 16 bits must be in the format of the activations.
    spread_context
        None where that was not read.
    uses_host
        Whether the CPU beside a chip can compute experts and drafts.
    input_on_host
        Whether tables that only the input reads stay in the memory of the host.
    timed_launches
        Whether its launches outside of graphs were timed for models with several residual streams.
    dense_prompts
        Whether prompts of which an indexer would pick every token are attended without it.
    token_kernels
        What asks for kernels that send tokens to experts on other nodes; empty where that is not
        known.
    one_sided_tokens
        Whether tokens reach experts by one-sided writes where the fast links join several nodes.
    waits_to
        The last release that schedules a step when the one before it has ended; empty for none.
    pipeline_overlaps
        Whether the host schedules ahead in a pipeline.
    drafts_beside
        Whether requests draft in a pass that they share with prompts.
    input_slots
        By the kind of drafter.
    rereads_rejected
        Whether a drafter reads all positions of a verification again, those of rejected drafts too.
    whole_blocks
        What devices must not cut.
    latent_drafts
        What heads need beside models with latent attention; None for nothing.
    snapshots
        What keeps states to go back to; None where all drafters do.
    states_as_activations
        Whether recurrent states are kept as activations are, where no config states their format.
    reserves
        Whether a request starts only where its whole answer fits besides those of all that run;
        where not, those that started last lose their memory when it is full. None where requests
        are counted.
    reserved_tokens
        Of an answer still to come, at most; 0 for all of them.
    reserves_shares
        Whether a share of what is still to come is reserved that falls with each round, even of
        answers whose length is known.
    spaced_prompts
        Where rounds are decoded between two passes of prompts; None where prompts come first.
    held_kinds
        Drafters beside which new requests wait until several of those that may run have ended.
    groups_beside
        Whether groups of attention without a prompt decode beside others that have one, where they
        do not draft; else they wait, or decode in any case.
    divides_chunks
        Whether groups of attention share the tokens of a chunk; otherwise each has as many.
    gathering_passes
        Passes that prompts wait at most until each group of attention has one; 0 where none waits.
    dense_in_groups
        Whether each group of attention has dense matrices and the head for its own sequences.
    dense_replicas
        Whether groups of attention of a model without experts are servers of their own.
    whole_expert_parallel
        Whether expert parallelism spans all devices, whatever degree is asked for.
    rank_limits
        Whether each group of attention has its own limit of running requests, which the flag says;
        otherwise they share one.
    chunks_beside_states
        Whether it takes prompts of models with recurrent layers in chunks alone where it caches
        prefixes.
    adaptive_verification
        Kinds of which a round may verify fewer drafts where those are unlikely.
    adaptive_steps
        Draft lengths where rounds draft as many as were accepted lately, by rising requests; none
        where they do not.
    unchecked, estimated
        Whether its rules are from documentation alone, and its activations measured at startup.
    """

    framework: str = ""
    format_version: Annotated[int, (1,)]
    rules: str
    version: str = ""
    title: str
    known_as: str = ""
    sources: Mapping[str, str]
    command: Command
    settings: Mapping[str, SettingFlag] = field(default_factory=dict)
    weights: _Names = ()
    cache_formats: Mapping[Annotated[str, CHOICES["kv_dtype"]], str] = field(default_factory=dict)
    state_dtypes: _Dtypes = field(default_factory=dict)
    files: Annotated[str, ("", *MIXES_BY_FILE)] = ""
    methods: Mapping[str, Method] = field(default_factory=dict)
    drafting: Drafting | None = None
    pipeline: Pipeline | None = None
    mock: Mock | None = None
    metrics: Metrics | None = None
    accepts: _Names = ()
    vocabulary_padding: int = 0
    refusals: tuple[Refusal, ...] = ()
    staged: tuple[Refusal, ...] = ()
    no_models: _Names = ()
    chip_limits: tuple[ChipLimit, ...] = ()
    part_tokens: int = 0
    margin_mib: float = 0.0
    reads_verified: bool = False
    stages_take_turns: bool = False
    whole_families: _Names = ()
    one_stage_families: _Names = ()
    grouped_families: _Names = ()
    read_as_mtp: _Names = ()
    read_as_mtp_with_layers: _Names = ()
    workers: Workers | None = None
    verification_kernels: tuple[ReadingRule, ...] = ()
    fp8_families: _Names = ()
    fp8_caches: tuple[Fp8Cache, ...] | None = None
    compressed_formats: _Names = ()
    wide_caches_as_activations: bool = False
    spread_context: SpreadContext | None = None
    uses_host: bool = False
    input_on_host: bool = False
    timed_launches: bool = False
    dense_prompts: bool = False
    token_kernels: str = ""
    one_sided_tokens: bool = False
    waits_to: str = ""
    pipeline_overlaps: bool = True
    drafts_beside: bool = True
    input_slots: Mapping[str, InputSlots] = field(default_factory=dict)
    rereads_rejected: bool = False
    whole_blocks: WholeBlocks = WholeBlocks()
    latent_drafts: LatentDrafts | None = None
    snapshots: Snapshots | None = None
    states_as_activations: bool = False
    reserves: bool | None = None
    reserved_tokens: int = 0
    reserves_shares: bool = False
    spaced_prompts: SpacedPrompts | None = None
    held_kinds: _Kinds = ()
    groups_beside: bool = False
    divides_chunks: bool = False
    gathering_passes: int = 0
    dense_in_groups: bool = False
    dense_replicas: bool = False
    whole_expert_parallel: bool = False
    rank_limits: bool = False
    chunks_beside_states: bool = False
    adaptive_verification: _Kinds = ()
    adaptive_steps: tuple[AdaptiveSlot, ...] = ()
    unchecked: bool = False
    estimated: bool = False

    def trims(self, kind: str) -> bool:
        """Tell whether a round may verify fewer drafts of a kind, or of one without a method."""
        trimmed = self.adaptive_verification
        return kind in trimmed or (bool(trimmed) and kind not in self.methods)

    @property
    def name(self) -> str:
        """The server and its version, as people call them."""
        return self.known_as or f"{self.title} {self.version}"


@dataclass(frozen=True, kw_only=True)
class _Defaults:
    memory_frac: _Share
    running: int | None
    running_drafting: int | None = None
    capture: int
    chunk: int
    mixed: bool
    prefix_cache: bool = True


@dataclass(frozen=True, kw_only=True)
class ShareRelease(Release):
    """A release of which few rules are known: a share of the memory is the cache.

    Attributes
    ----------
    defaults
        Of settings; those of a server that drafts run other numbers of requests.
    whole_memory
        Whether a server has all of a device's memory, as in the textbook.
    """

    defaults: _Defaults
    whole_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class _BlockLimit:
    least_gib: float
    running: int
    tokens: int
    not_capabilities: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _BlockLimits:
    by_memory: tuple[_BlockLimit, ...]
    tokens_by_architecture: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class BlockCaptured:
    """Which passes are captured: up to how many tokens, and at which sizes."""

    most: int
    large: int
    large_compute_majors: tuple[int, ...]
    by_family: Mapping[str, int]
    sizes: CapturedSizes
    whole_pass: bool
    uniform: bool


@dataclass(frozen=True, kw_only=True)
class BlockCheckpoints:
    """Kernels of prompts that export states on a grid of tokens, which blocks are multiples of.

    On chips of these compute capabilities, by their first number, where prefixes are cached.
    """

    kernels: _Names
    not_families: _Names
    compute_majors: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, kw_only=True)
class PackedBlocks:
    """Blocks that hold the compressed entries of all layers, or windows or rings of some.

    Tokens of a block that holds entries, windows, and rings by their kind of attention; a layer's
    page of a block is a multiple of `alignment` bytes.
    """

    entry_tokens: int
    window_tokens: int
    ring_tokens: Mapping[str, int]
    alignment: int


@dataclass(frozen=True, kw_only=True)
class _BlockMemory:
    memory_frac: _Share
    block_tokens: int
    latent_block_tokens: int
    alike: float
    replay_tokens: int
    prompt_in_windows: Annotated[str, ("passes in flight", "one pass", "whole")]
    whole_beside: _Names
    running_in_blocks: bool
    synchronous_kinds: _Kinds
    limiting_kinds: _Kinds
    extra_slot_kinds: _Kinds
    no_lookahead_kinds: _Kinds
    checkpoints: BlockCheckpoints
    packed: PackedBlocks


@dataclass(frozen=True, kw_only=True)
class BlockRelease(Release):
    """A release with one pool of blocks; the comments of its file say what each key means."""

    limits: _BlockLimits
    captured: BlockCaptured
    memory: _BlockMemory


@dataclass(frozen=True, kw_only=True)
class _PoolLimit:
    least_gib: float
    tokens: int
    captured: int
    captured_spread: int


@dataclass(frozen=True, kw_only=True)
class _PoolLimits:
    by_memory: tuple[_PoolLimit, ...]
    spread_from_devices: int
    drafting_running: int
    compressed_running: int


@dataclass(frozen=True, kw_only=True)
class _PoolCaptured:
    plain: CapturedSizes
    drafting: CapturedSizes
    prefill: CapturedSizes
    largest: bool


@dataclass(frozen=True, kw_only=True)
class _PoolVision:
    share: _Share
    n_layers: int
    hidden_size: int
    slope: float
    least: float
    most: float
    unsized_families: _Names


@dataclass(frozen=True, kw_only=True)
class _PoolMemory:
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
    running_graphs: bool
    decoding_workers: bool
    prefill_graph_mib: float
    latent_prefill_mib: float
    drafter_mib: Mapping[str, float]
    vision: _PoolVision
    attention_share: Mapping[str, _Share]
    latent_share_heads: tuple[int, ...]
    whole_share_families: _Names
    uncaptured_kernels: _Names
    uncaptured_vendors: _Names
    uncaptured_degrees: _Names
    captured_families: _Names
    block_told_kinds: _Kinds
    state_share: _Share
    state_slots: int
    tracking_slots: int
    copies_first: bool
    window_share: _Share
    replay_tokens: int
    image_cache_mib: float
    eviction_tokens: int
    page_tokens: int
    compressed_share: _Share
    compressed_page: int
    compressed_page_ratio: int
    fewest_running: int
    text_families: _Names
    captured_towers: _Names
    window_families: _Names
    target_cell_kinds: _Kinds
    never_mixed_kinds: _Kinds
    synchronous_kinds: _Kinds
    unbuffered_families: _Names


@dataclass(frozen=True, kw_only=True)
class PoolRelease(Release):
    """A release with a pool for each kind; the comments of its file say what each key means."""

    limits: _PoolLimits
    captured: _PoolCaptured
    memory: _PoolMemory


# --- Releases by name -----------------------------------------------------------------------------

SCHEMAS: Final[Mapping[str, type[Release]]] = {
    "blocks": BlockRelease,
    "pools": PoolRelease,
    "share": ShareRelease,
}
#: The engine of the textbook, which nothing limits.
IDEAL: Final = ShareRelease(
    framework="ideal",
    format_version=1,
    rules="share",
    title="ideal",
    sources={},
    defaults=_Defaults(
        memory_frac=1.0, running=None, capture=0, chunk=0, mixed=False, prefix_cache=False
    ),
    whole_memory=True,
    command=Command(start=(), placement={}, other_hosts=""),
    spread_context=SpreadContext(merges=3),
    uses_host=True,
)


def refused_cache(facts: Release, cache: str | None, activations: str) -> str:
    """Return why a release refuses a format of the cache; empty where it does not.

    Parameters
    ----------
    facts
        Of the release.
    cache
        The format that is asked for; None for the model's.
    activations
        The format of the model's activations; empty if not known.

    Examples
    --------
    >>> refused_cache(release("vllm"), "fp16", "bf16")
    'caches activations of bf16 in bf16, or in 8 bits'
    """
    is_wide = cache in _SIXTEEN_BITS and activations in _SIXTEEN_BITS
    if not (facts.wide_caches_as_activations and is_wide) or cache == activations:
        return ""
    return f"caches activations of {activations} in {activations}, or in 8 bits"


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
    return sorted(versions, key=version_parts, reverse=True)


def release_of(server: str) -> Release | None:
    """Return what is known of a server, as `release` does; None for one without a file."""
    return release(server) if known_releases(server.partition("@")[0]) else None


def version_parts(version: str) -> tuple[int, ...]:
    """Return the first numbers of a version, of its tag or of a text, which order it among others.

    Candidates and posts have those of their release; without a number there are none.

    Examples
    --------
    >>> version_parts("v0.33.0"), version_parts("vLLM 1.1.0rc2.post2"), version_parts("main")
    ((0, 33, 0), (1, 1, 0), ())
    """
    numbers = re.search(r"\d+(\.\d+)*", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


def nearest_release(server: str, version: str) -> str:
    """Return the newest known version of a server up to one; the oldest where all are newer.

    Parameters
    ----------
    server
        One with files.
    version
        As it says of itself, with a number.

    Examples
    --------
    >>> nearest_release("vllm", "0.24.1rc1"), nearest_release("vllm", "0.11.0")
    ('0.24.0', '0.19.0')
    """
    known = known_releases(server)
    wanted = version_parts(version)
    return next((one for one in known if version_parts(one) <= wanted), known[-1])


@cache
def release(name: str) -> Release:
    """Return what a release does.

    Parameters
    ----------
    name
        A server, for its newest release, server and version, ``"vllm@0.33"``, or ``"ideal"``.

    Raises
    ------
    OptionError
        For a release that there is no file of.
    ProfileError
        For a file with an unknown key, or without one that is needed.

    Examples
    --------
    >>> release("sglang").name, release("vllm@0.33").settings["running"].enabled
    ('SGLang 0.5.23', ('--max-num-seqs', '$value'))
    """
    framework, at, wanted = name.partition("@")
    if name == IDEAL.framework:
        return IDEAL
    known = known_releases(framework) if framework in _NAMES else ()
    for version in known:
        if f"{version}.".startswith(f"{wanted}." if at else ""):
            read = read_release(FOLDER / f"{framework}-{version}.yaml")
            return replace(read, framework=framework, version=version)
    servers = (framework,) if known else (*FRAMEWORKS, *LOCAL_FRAMEWORKS)
    every = (f"{server}@{version}" for server in servers for version in known_releases(server))
    return refuse("framework", name, ", ".join(every))


def read_release(path: Path) -> Release:
    """Return what the file of a release says, which tests check.

    Parameters
    ----------
    path
        Of the file.

    Raises
    ------
    ProfileError
        For a file with an unknown key, or of unknown rules.

    Examples
    --------
    >>> read_release(FOLDER / "mlx-0.32.2.yaml").title
    'mlx-lm'
    """
    content = release_content(path)
    rules = str(content.get("rules"))
    if rules not in SCHEMAS:
        reject(f"{path.name}: rules is {shown(rules)}", ", ".join(SCHEMAS), ProfileError)
    return read_plain(content, SCHEMAS[rules], source=path.name, error=ProfileError, trusted=True)


def those_where(fits: Callable[[Release], bool]) -> str:
    """Return the engines whose newest releases have a fact, for messages.

    Examples
    --------
    >>> those_where(lambda one: one.uses_host)
    'llama.cpp or ideal'
    """
    names = (*FRAMEWORKS, *LOCAL_FRAMEWORKS, IDEAL.framework)
    return " or ".join(name for name in names if fits(release(name)))


def release_content(path: Path, newer: Sequence[Path] = ()) -> dict[str, Any]:
    """Return what the file of a release says, with the facts of the one that it is the same as.

    Mappings are joined key by key, null leaves a key out, and any other value takes the place of
    that of the other release. Sources are its own.

    Parameters
    ----------
    path
        Of the file.
    newer
        Files that say that they are the same as this one.

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
    read = (*newer, path)
    own: dict[str, Any] = parse_yaml(path.read_text("utf-8"), source=path.name, error=ProfileError)
    if "same_as" not in own:
        return own
    named, files = own.pop("same_as"), path.parent.glob(f"{path.stem.partition('-')[0]}-*.yaml")
    allowed = sorted(file.stem for file in files if file not in read)
    if named not in allowed:
        what = f"{path.name}: same_as is {shown(named)}"
        reject(what, ", ".join(allowed) or "left out", ProfileError)
    older = release_content(path.with_name(f"{named}.yaml"), read)
    return _joined({**older, "sources": {}}, own)


def _joined(content: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**content, **change}
    for key, value in change.items():
        if isinstance(value, Mapping) and isinstance(content.get(key), Mapping):
            joined[key] = _joined(content[key], value)
    return {key: value for key, value in joined.items() if value is not None}


def lacking_for(facts: Release, kind: str, family: str, **shape: Any) -> tuple[str, str] | None:
    """Return what a release lacks to draft for a family of models, and what it has; None if it can.

    Parameters
    ----------
    facts
        The release; software that runs another's files lacks the models that the other lacks.
    kind, family
        Of the drafter, and of the model that is served.
    shape
        As of `Refusal.refused`.

    Examples
    --------
    >>> lacking_for(release("vllm@0.24"), "eagle3", "glm4_moe")[0]
    'vLLM 0.24.0 has no eagle3 for models of the family glm4_moe'
    >>> lacking_for(release("vllm@0.24"), "mtp", "glm4_moe") is None
    True
    """
    method = facts.methods.get(kind)
    if method is None:
        read = " that was read" * facts.unchecked
        return f"{facts.name} has no flag for {kind}{read}", ", ".join(facts.methods)
    if shape.get("is_tree") and not method.trees:
        return f"{facts.name} has no flag for trees of {kind}", f"{kind} without a tree"
    runs = release(RUNS[facts.framework]) if facts.framework in RUNS else facts
    if family.removesuffix("_text") in runs.no_models:
        return f"{facts.name} has no models of the family {family}", "another model"
    for refusal in runs.refusals:
        if lacks := refusal.refused(kind, family, **shape):
            where = " on this chip" * bool(refusal.capabilities)
            what = f"{facts.name} has no {lacks} for models of the family {family}{where}"
            return what, refusal.instead
    return None
