"""Study files: YAML to a `Study`, validated whole before anything is computed."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn, Self, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from specroof.arrays import fields_of
from specroof.catalog import load_drafter, load_hardware, load_model, read_text, study_path
from specroof.catalog.hub import UncachedError, fetch_from_hub
from specroof.cost import CHOICES, Options
from specroof.drafters import Drafter, ideal_drafter
from specroof.errors import CatalogError, OptionError, SpecroofError, StudyError, one_of
from specroof.hardware.engine import SERVER_KEYS, ServerSettings
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import Deployment
from specroof.outcomes.case import Case
from specroof.parsers import PARSERS
from specroof.questions import parameters as p
from specroof.questions.case import load_of, played_load
from specroof.questions.objects import given_twice, options_of, server_of
from specroof.questions.predict import predict, predicted, shared_max_draft_len
from specroof.questions.request import PLACED, PLAYED_ON_ONE, WorkerRequest
from specroof.questions.work import PLAYED_REQUEST_S
from specroof.reading.checked import (
    BatchSize,
    ContextLen,
    Count,
    DraftLen,
    FileBlock,
    FirstVersion,
    KeyPath,
    RequestLen,
    Share,
    Text,
    checked,
    within,
    without,
)
from specroof.reading.yaml_text import parse_yaml, shown
from specroof.serving.workload import Load
from specroof.speedup.curve import acceptance_of
from specroof.units import HOUR, Bounds

if TYPE_CHECKING:
    from specroof.serving.split import Split

# --- What a study asks about: several targets, drafters and loads, each with each ----------------

#: The most requests of a study: three hours of one process.
MOST_PLAYED: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Target(Deployment):
    """One model in one setup; of a split that of a decode worker, with all workers."""

    split: "Split | None" = None


@dataclass(frozen=True, slots=True)
class Study:
    """Several targets, drafters and loads.

    Parameters
    ----------
    targets, drafters
        What is served where, and what drafts for each.
    loads
        One grid of batch sizes and context lengths; or one for each workload.
    max_draft_len, capacity
        As for `predict`.
    text, source
        The study file that it was read from, and its name; empty for one that was built in Python.
    """

    targets: tuple[Target, ...]
    drafters: tuple[Drafter, ...]
    loads: tuple[Load, ...]
    max_draft_len: int | None = None
    capacity: bool | None = None
    text: str = field(default="", compare=False, repr=False)
    source: str = field(default="", compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name of its file, or `study`."""
        return Path(self.source).name or "study"

    @property
    def longest(self) -> int:
        """The longest draft of every grid."""
        return shared_max_draft_len(self.drafters, self.max_draft_len)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Every target with every drafter, by their positions from 1."""
        targets, drafters = len(self.targets), len(self.drafters)
        return [*product(range(1, targets + 1), range(1, drafters + 1))]

    @property
    def n_curve_points(self) -> int:
        """Points of one drafter on one target, over all loads."""
        cells = sum(len(load.batch_size) * len(load.context_len) for load in self.loads)
        return cells * (self.longest + 1)

    @property
    def n_played(self) -> int:
        """Requests that are played through, over all points."""
        requests = sum(sum(load.requests) for load in self.loads)
        return len(self.pairs) * (self.longest + 1) * requests

    @property
    def played_point_s(self) -> float:
        """Seconds that a point takes whose requests are played through, about; 0 if none are."""
        return self.n_played * PLAYED_REQUEST_S / self.n_points

    @property
    def n_points(self) -> int:
        """Points of the whole study."""
        return len(self.pairs) * self.n_curve_points


# --- The blocks of a study file: which keys there are, and what each may be ----------------------


#: What keys say of themselves: the same as the parameters of `predict`.
_ABOUT: Final = {name: row.about for name, row in p.parameters_of(predict).items()}


class _OneOrSeveral:
    """What makes a list of one value, where a file gives one value alone."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], Any]) -> Any:
        """Return the schema of one value or a list of them."""
        several = handler(core)
        return {"anyOf": [several["items"], several]}


_Value = TypeVar("_Value")
_Several = Annotated[
    list[_Value],
    Field(min_length=1),
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    _OneOrSeveral(),
]
_Family = Annotated[Text, WithJsonSchema({"enum": sorted(PARSERS)})]
# Of values that are no mapping or text, the field's own type says what is wrong with them.
_Options = Annotated[
    Options,
    BeforeValidator(lambda value: options_of(value) if isinstance(value, dict) else value),
    WithJsonSchema(
        {
            "type": "object",
            "description": "the choices of specroof.Options",
            "properties": {
                # Where the default is None, it may be spelled.
                **{
                    name: {"enum": list(dict.fromkeys([*allowed, getattr(Options(), name)]))}
                    for name, allowed in CHOICES.items()
                },
                "strict_dtype": {"type": "boolean"},
                "n_cpu_moe": {"type": "integer", "minimum": 0},
            },
            "additionalProperties": False,
        }
    ),
]
_Server = Annotated[
    ServerSettings,
    BeforeValidator(lambda value: server_of(value) if isinstance(value, dict | str) else value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {key: {} for key in SERVER_KEYS},
                    "additionalProperties": False,
                },
            ],
        }
    ),
]


class _WorkloadBlock(FileBlock):
    """Requests as benchmarks state them; `batch_size` is how many are in flight."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["input_len", "output_len"]},
                {"required": ["trace"]},
                {"required": ["lengths"]},
            ]
        }
    )

    input_len: RequestLen | None = None
    output_len: RequestLen | None = None
    prefix_hit_rate: Share | None = None
    rate: _Several[Annotated[float, within("request_rate")]] | None = None
    arrivals: Literal["poisson", "even"] = "poisson"
    trace: Text | None = None
    lengths: Text | None = None
    requests: int | str | None = None
    length_range: str | list[float] | None = None
    seed: Annotated[int, within("seed")] = 0

    @model_validator(mode="after")
    def _requests_have_lengths(self) -> Self:
        if self.trace is None and self.lengths is None:
            for name in ("input_len", "output_len"):
                if getattr(self, name) is None:
                    message = f"{name} is missing; allowed: both lengths of a request, or a trace"
                    raise ValueError(message)
        return self

    @property
    def asked(self) -> p.PlayedParameters:
        """The requests as questions ask about them."""
        return p.PlayedParameters(**self.model_dump())

    def load(self, clients: Sequence[float], server: ServerSettings) -> Load:
        """Return the load of a server, of so many clients where these send the requests."""
        load = load_of(self.asked, clients, None)
        if self.asked.is_played:
            load = played_load(self.asked, load, server)
            load = replace(load, context_len=load.steady.context_len)
        return load


class _TargetBlock(FileBlock):
    """Models x hardware at one placement."""

    model: _Several[Text]
    hardware: _Several[Text]
    family: _Family | None = None
    engine: Text | None = Field(
        default=None, description=f"{_ABOUT['engine']} Default: that of the study."
    )
    framework: Text | None = Field(
        default=None, description=f"{_ABOUT['framework']} Default: that of the study."
    )
    tensor_parallel: Count = 1
    expert_parallel: Count = 1
    attention_data_parallel: Count = 1
    decode_context_parallel: Count = 1
    pipeline_parallel: Count = 1
    nodes: Count | None = None
    prefill: Text | None = None
    decode: Text | None = None
    link: Annotated[float, within(Bounds(1e6, 1e18))] | None = None  # no link is slower

    @model_validator(mode="after")
    def _groups_divide_the_devices(self) -> Self:
        Placement(**fields_of(self, *PLACED))
        return self


class StudyBlock(FileBlock):
    """A study file."""

    format_version: FirstVersion = Field(description="1")
    targets: list[_TargetBlock] = Field(min_length=1, description="what is served where")
    drafters: list[Text] = Field(min_length=1, description="drafter SPECs, as for predict")
    batch_size: _Several[BatchSize] = Field(default=[1.0])
    context_len: _Several[ContextLen] = Field(default=[4096.0])
    workload: _Several[_WorkloadBlock] = Field(
        default=[],
        description="requests instead of context_len, with their prefills; or a list",
    )
    max_draft_len: DraftLen | None = None
    engine: Text | None = None
    framework: Text | None = None
    options: _Options = Options()
    server: _Server = ServerSettings()
    capacity: bool | None = None

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        for message in self._conflicts():
            raise ValueError(message)
        return self

    def _conflicts(self) -> Iterator[str]:
        """Yield which keys do not go together, and what is allowed."""
        played = {block.asked.is_played for block in self.workload}
        if {"context_len", "workload"} <= self.model_fields_set:
            yield "context_len and workload are both given; allowed: one of them"
        if len(played) > 1:
            yield (
                "requests or length_range is missing in some workloads; allowed: in all or in none"
            )
        lacking = {
            "with a workload": not self.workload,
            PLAYED_ON_ONE: True in played,
            "with answers of more than 1 token": 1 in [one.output_len for one in self.workload],
        }
        for place, target in enumerate(self.targets):
            for allowed in (name for name, is_wrong in lacking.items() if is_wrong):
                if target.prefill is not None:
                    yield f"targets.{place}.prefill is {target.prefill!r}; allowed: {allowed}"
        # Whether all requests come whatever the server does, and none from clients.
        come = [(one.rate, one.trace, one.lengths) != (None,) * 3 for one in self.workload]
        if come and all(come) and "batch_size" in self.model_fields_set:
            yield "batch_size is given; allowed: where clients send the requests"
        for place, block in enumerate(self.workload):
            if block.prefix_hit_rate and self.server.prefix_cache is False:
                key = f"workload.{place}.prefix_hit_rate"
                yield f"{key} is {block.prefix_hit_rate}; allowed: 0 with prefix-cache=off"


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema of a study file."""
    schema = StudyBlock.model_json_schema() | {"not": {"required": ["context_len", "workload"]}}
    for block in (schema, *schema["$defs"].values()):
        for name, key in block["properties"].items():
            if name in _ABOUT:
                key.setdefault("description", _ABOUT[name])
    return schema


# --- The mistakes of a study, told all at once ---------------------------------------------------

#: Places that the one line about many mistakes counts.
_MOST_PLACES: Final = 6


class Mistakes:
    """The mistakes of a study, each written down once, in the order in which they are found.

    Parameters
    ----------
    source
        The study, as messages name it.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._found: dict[str, tuple[type[SpecroofError], str]] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._found)

    def add(self, kind: type[SpecroofError], sentence: str, path: KeyPath) -> None:
        """Write down one mistake.

        Parameters
        ----------
        kind
            What it is raised as where it is the only one.
        sentence
            One sentence.
        path
            Where it stands.
        """
        keys = ".".join(step for step in path if isinstance(step, str))
        self._found.setdefault(sentence, (kind, keys or "the file"))

    def refuse(self) -> NoReturn:
        """Raise one mistake in its own class, and several as a `StudyError`.

        Raises
        ------
        SpecroofError
            Always.

        Examples
        --------
        >>> from specroof.errors import OptionError
        >>> found = Mistakes("s.yaml")
        >>> found.add(OptionError, "batch_size.0 is -1", ("batch_size", 0))
        >>> found.add(OptionError, "batch_size.7 is 0", ("batch_size", 7))
        >>> found.add(OptionError, "engine is 3", ("engine",))
        >>> found.refuse()
        Traceback (most recent call last):
        specroof.errors.StudyError: s.yaml: 3 mistakes (2 in batch_size, 1 in engine); the first:
        batch_size.0 is -1
        """
        first, *others = sentences = tuple(self._found)
        if not others:
            message = f"{self._source}: {first}"
            raise self._found[first][0](message)
        places = Counter(place for _, place in self._found.values()).most_common()
        counted = ", ".join(f"{count} in {place}" for place, count in places[:_MOST_PLACES])
        more = ", and more" if len(places) > _MOST_PLACES else ""
        message = f"{self._source}: {len(sentences)} mistakes ({counted}{more}); the first: {first}"
        raise StudyError(message, sentences)


def study_refusals(study: Study) -> Iterator[SpecroofError]:
    """Yield why curves of a study cannot be computed, before the first is; nothing if all can.

    Parameters
    ----------
    study
        Of which each target is predicted with each drafter at one load, and the first at each.
    """
    accepted: list[Drafter] = []
    for drafter in study.drafters:
        try:
            acceptance_of(drafter)
        except SpecroofError as refusal:
            yield refusal
        else:
            accepted.append(drafter)
    drafters = accepted or [ideal_drafter()]  # so that the targets are looked at all the same
    longest = study.max_draft_len
    try:
        shared_max_draft_len(drafters, longest)
    except SpecroofError as refusal:
        yield refusal
        longest = 0
    if len(accepted) == len(study.drafters) and longest != 0 and study.n_played > MOST_PLAYED:
        hours = study.n_played * PLAYED_REQUEST_S / HOUR
        yield OptionError(
            f"workload plays {study.n_played} requests through, about "
            f"{study.played_point_s:.3g} s a point and {hours:.3g} hours in all; allowed: "
            f"{MOST_PLAYED} over all points, with fewer requests, loads or draft lengths"
        )
    grid = study.loads[0]
    one_load = Load(grid.batch_size[:1], grid.context_len[:1])
    questions = [
        (longest, target, drafter, one_load) for target, drafter in product(study.targets, drafters)
    ]
    first = study.targets[0]
    questions += [
        (0, first, drafters[0], replace(load, workload=None, requests=())) for load in study.loads
    ]
    for most, target, drafts, load in questions:
        try:
            predicted(Case(target, load), [drafts], max_draft_len=most, among=drafters)
        except SpecroofError as refusal:
            yield refusal


#: Names that the Hub may fail to have before no more are looked up there.
_MOST_UNKNOWN: Final = 20

_Named = TypeVar("_Named")


def load_study(name: str | os.PathLike[str]) -> Study:
    """Return a study from a path or a bundled name, with all that it names loaded and checked.

    Raises
    ------
    SpecroofError
        For a mistake, one line that names the file, the key, the value and what is allowed. For
        several, a `StudyError` that has them all.
    """
    path = study_path(os.fspath(name))
    return parse_study(read_text(path, OptionError), str(path))


def parse_study(text: str, source: str, *, check: bool = True) -> Study:
    """Return the study of a YAML text, with all that it names loaded and checked.

    What is wrong does not keep the rest from being looked at: every mistake is told at once.

    Parameters
    ----------
    text, source
        The file, and how messages name it.
    check
        False for one that is known to have no mistakes.

    Raises
    ------
    SpecroofError
        As `load_study` does.
    """
    mistakes, names = Mistakes(source), _Names()
    content = parse_yaml(text, source=source, error=OptionError)
    block = _sound_part(content, names, mistakes)
    study = None if block is None else _study(block, names, mistakes, text, source)
    if study is not None and check:
        for refusal in study_refusals(study):
            mistakes.add(type(refusal), str(refusal), ("targets",))
    if study is None or mistakes:
        mistakes.refuse()
    return study


class _Names:
    """What the names of a study lead to, each looked up once."""

    def __init__(self) -> None:
        self._failed = 0
        self.model = _once(lambda name, family: load_model(name, family=family, fetch=self._fetch))
        self.hardware = _once(load_hardware)
        self.drafter = _once(lambda spec: load_drafter(spec, fetch=self._fetch))

    def _fetch(self, repository: str, file_name: str) -> Path | None:
        """Fetch a file from the Hub, unless it did not have too many of the names before."""
        if self._failed >= _MOST_UNKNOWN:
            message = f"{repository}: not looked up, after {self._failed} names that the Hub did "
            message += "not have; allowed: a file, a bundled name or a Hub name"
            raise CatalogError(message)
        try:
            return fetch_from_hub(repository, file_name)
        except CatalogError as refusal:
            self._failed += not isinstance(refusal, UncachedError)  # which no wait has gone into
            raise


def _once(load: Callable[..., _Named]) -> Callable[..., _Named]:
    """Return a loader that answers a name the second time as it did the first."""
    known: dict[tuple[object, ...], _Named | SpecroofError] = {}

    def loaded(*name: object) -> _Named:
        if name not in known:
            try:
                known[name] = load(*name)
            except SpecroofError as refusal:
                known[name] = refusal
        results = known[name]
        if isinstance(results, SpecroofError):
            raise results
        return results

    return loaded


def _sound_part(content: dict[str, Any], names: _Names, mistakes: Mistakes) -> StudyBlock | None:
    """Return the part of a study without mistakes, None if nothing is left; record the mistakes."""
    block, wrong = checked(content, StudyBlock)
    cuts: list[KeyPath] = []
    for mistake in wrong:
        mistakes.add(OptionError, mistake.said, mistake.path)
        # Without its family a target is another one.
        cuts.append(mistake.path[:2] if mistake.path[2:] == ("family",) else mistake.path)
    cuts += _without_meaning(content, names, mistakes)
    if not cuts:
        return block
    # Without what stands at these places, and without what lacks it then.
    rest: Any = content | {"format_version": 1}
    cuts = [path for path in cuts if path != ("format_version",)]
    block = None
    while block is None:
        if ("drafters",) in cuts:  # the targets are looked at with a drafter that always fits
            rest = rest | {"drafters": ["ideal"]}
            cuts = [path for path in cuts if path[0] != "drafters"]
        rest = without(rest, cuts)
        if rest is None:
            return None
        block, wrong = checked(rest, StudyBlock)
        cuts = [mistake.path for mistake in wrong]
    return block


def _without_meaning(
    content: dict[str, Any], names: _Names, mistakes: Mistakes
) -> Iterator[KeyPath]:
    """Yield the places of names that lead to nothing; record why."""

    def lost(path: KeyPath, load: Callable[..., object], *name: object) -> Iterator[KeyPath]:
        try:
            load(*name)
        except SpecroofError as refusal:
            mistakes.add(type(refusal), f"{'.'.join(map(str, path))}: {refusal}", path)
            yield path

    targets = content.get("targets")
    for number, target in enumerate(targets if isinstance(targets, list) else []):
        if not isinstance(target, dict):
            continue
        at = ("targets", number)
        family = target.get("family")
        if family is None or (isinstance(family, str) and family in PARSERS):
            for entry, name in _texts(target.get("model")):
                yield from lost((*at, "model", entry), names.model, name, family)
        elif isinstance(family, str) and family.strip():
            allowed = one_of(sorted(PARSERS), family)
            sentence = f"targets.{number}.family is {shown(family)}; allowed: {allowed}"
            mistakes.add(OptionError, sentence, at)
            yield at
        for entry, name in _texts(target.get("hardware")):
            yield from lost((*at, "hardware", entry), names.hardware, name)
    for entry, spec in _texts(content.get("drafters")):
        yield from lost(("drafters", entry), names.drafter, spec)


def _texts(value: object) -> Iterator[tuple[int, str]]:
    """Yield the position and text of each name in a list, or of one that stands alone."""
    for entry, name in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(name, str) and name.strip():
            yield entry, name


def _study(
    block: StudyBlock, names: _Names, mistakes: Mistakes, text: str, source: str
) -> Study | None:
    """Return the study of what has no mistake so far; None where no target can be set up."""
    targets = tuple(_targets(block, names, mistakes))
    drafters = dict[str, Drafter]()
    for spec in block.drafters:
        drafter = names.drafter(spec)
        if drafter.name in drafters:
            mistakes.add(OptionError, f"drafters: {given_twice(spec, drafter)}", ("drafters",))
        drafters[drafter.name] = drafter
    loads = tuple(_loads(block, mistakes))
    if not targets or len(loads) < len(block.workload):
        return None
    return Study(
        targets=targets,
        drafters=tuple(drafters.values()),
        loads=loads,
        max_draft_len=block.max_draft_len,
        capacity=block.capacity,
        text=text,
        source=source,
    )


def _loads(block: StudyBlock, mistakes: Mistakes) -> Iterator[Load]:
    """Yield the grid of all contexts, or one for each workload; record why there is none."""
    batches = tuple(block.batch_size)
    if not block.workload:
        yield Load(batches, tuple(block.context_len))
    for place, workload in enumerate(block.workload):
        try:
            yield workload.load(batches, block.server)
        except SpecroofError as refusal:
            at = f"workload.{place}." if isinstance(refusal, OptionError) else ""
            mistakes.add(type(refusal), f"{at}{refusal}", ("workload",))


def _targets(block: StudyBlock, names: _Names, mistakes: Mistakes) -> Iterator[Target]:
    """Yield the targets that can be set up; record why others cannot, and those given twice.

    Recorded are drafters, too, that a framework which is named does not run there.
    """
    known: dict[tuple[object, ...], list[HardwareProfile]] = {}
    for target in block.targets:
        for model, hardware in product(target.model, target.hardware):
            try:
                served, chip = names.model(model, target.family), names.hardware(hardware)
                alone = target.model_dump() | {
                    "model": model,
                    "hardware": chip.name,
                    "engine": target.engine or block.engine,
                    "framework": target.framework or block.framework,
                }
                alike = known.setdefault(tuple(alone.items()), [])
                if chip in alike:  # and set up once: a thousand of it are not priced to refuse them
                    workers = f"{target.prefill} and {target.decode}"
                    devices = target.tensor_parallel * target.pipeline_parallel
                    place = f"{model} on {workers if target.prefill else devices} x {chip.name}"
                    mistakes.add(OptionError, f"targets: {given_twice(place, place)}", ("targets",))
                    continue
                alike.append(chip)
                here = alone | {"model": served, "family": None, "hardware": chip}
                asked = WorkerRequest(**here, options=block.options, server=block.server)
                deployment, split = asked.resolved_workers()
                for drafter in map(names.drafter, block.drafters):
                    if refusal := asked.refusal(drafter):
                        sentence = f"{drafter.name} for {served.name}: {refusal}"
                        mistakes.add(OptionError, sentence, ("targets",))
                yield Target(deployment.model, deployment.setup, split)
            except SpecroofError as refusal:
                mistakes.add(type(refusal), str(refusal), ("targets",))
