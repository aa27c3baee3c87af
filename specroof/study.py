"""Studies: several models x hardware x drafters from one YAML file, validated whole."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from specroof.architecture import Architecture
from specroof.catalog import load_drafter, load_hardware, load_model, read_text, study_path
from specroof.cost import CHOICES, Options
from specroof.drafters import Drafter
from specroof.errors import OptionError, SpecroofError
from specroof.hardware import HardwareProfile, Placement
from specroof.solver import LARGEST_DRAFT_LEN, SpeedupCurve, speedup_curve
from specroof.validation import (
    Count,
    FirstVersion,
    NonNegative,
    Positive,
    Text,
    accept,
    parse_model,
)
from specroof.yaml_reader import shown

__all__ = ["Study", "Target", "load_study", "run_study", "study_schema"]

#: A grid beyond this takes minutes and writes gigabytes.
_MOST_POINTS: Final = 20_000_000


# --- the file ----------------------------------------------------------------------------------


def _listed(value: object) -> object:
    """Return one value as a list of it, where a list is asked for."""
    return value if isinstance(value, list) else [value]


def _options(value: object) -> object:
    """Return the options that a mapping spells, as `specroof.Options` does."""
    if not isinstance(value, dict):
        return value  # the field's own type says what is wrong with it
    known = [field.name for field in fields(Options)]
    unknown = [key for key in value if key not in known]
    if unknown:
        message = f"{unknown[0]} is not a known key; allowed are {', '.join(known)}"
        raise ValueError(message)
    strict = value.get("strict_dtype", False)
    if type(strict) is not bool:
        message = f"strict_dtype is {shown(strict)}; must be true or false"
        raise ValueError(message)
    return Options(**value)


_LARGEST_LEN: Final = f"a whole number from 0 to {LARGEST_DRAFT_LEN}"
_DraftLen = Annotated[
    int,
    Field(ge=0, le=LARGEST_DRAFT_LEN),
    accept(_LARGEST_LEN, lambda length: 0 <= length <= LARGEST_DRAFT_LEN, int),
]
_Names = Annotated[
    list[Text],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
]
_Batches = Annotated[
    list[Positive],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=float | list[float]),
]
_Contexts = Annotated[
    list[NonNegative],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=float | list[float]),
]
_Options = Annotated[
    Options,
    BeforeValidator(_options),
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
            },
            "additionalProperties": False,
        }
    ),
]


class _Block(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _TargetBlock(_Block):
    """Models x hardware at one placement."""

    model: _Names = Field(description="a path, a bundled name or a Hub name; or a list of them")
    hardware: _Names = Field(description="a path, a name or an alias; or a list of them")
    tensor_parallel: Count = Field(default=1, description="devices")
    expert_parallel: Count = Field(default=1, description="devices that experts are spread over")
    attention_data_parallel: Count = Field(default=1, description="groups with their own sequences")

    @model_validator(mode="after")
    def _groups_divide_the_devices(self) -> Self:
        self.placement()
        return self

    def placement(self) -> Placement:
        """Return how every model of the target is spread."""
        return Placement(
            tensor_parallel=self.tensor_parallel,
            expert_parallel=self.expert_parallel,
            attention_data_parallel=self.attention_data_parallel,
        )


class _StudyBlock(_Block):
    """A study file."""

    format_version: FirstVersion = Field(description="1")
    targets: list[_TargetBlock] = Field(min_length=1, description="what is served where")
    drafters: list[Text] = Field(min_length=1, description="drafter SPECs, as for predict")
    batch_size: _Batches = Field(default=[1.0], description="sequences in flight")
    context_len: _Contexts = Field(default=[4096.0], description="cached tokens per sequence")
    max_draft_len: _DraftLen | None = Field(default=None, description="longest draft tried")
    engine: Text | None = Field(default=None, description="the profile's default_engine if absent")
    options: _Options = Options()


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema of a study file."""
    return _StudyBlock.model_json_schema()


# --- the study ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """One model on one kind of hardware."""

    model: Architecture
    hardware: HardwareProfile
    placement: Placement


@dataclass(frozen=True, slots=True)
class Study:
    """A study with everything it names loaded."""

    targets: tuple[Target, ...]
    drafters: tuple[Drafter, ...]
    batch_size: tuple[float, ...]
    context_len: tuple[float, ...]
    max_draft_len: int | None
    engine: str | None
    options: Options


def load_study(name: str) -> Study:
    """Return a study from a path or a bundled name, with all that it names loaded and checked.

    Raises
    ------
    SpecroofError
        One line that names the file, the key, the value and what is allowed.
    """
    path = study_path(name)
    source = str(path)
    block = parse_model(read_text(path, OptionError), _StudyBlock, source=source, error=OptionError)
    try:
        study = Study(
            targets=tuple(_targets(block)),
            drafters=tuple(load_drafter(spec) for spec in block.drafters),
            batch_size=tuple(block.batch_size),
            context_len=tuple(block.context_len),
            max_draft_len=block.max_draft_len,
            engine=block.engine,
            options=block.options,
        )
        _check(study)
    except SpecroofError as refusal:
        message = f"{source}: {refusal}"
        raise type(refusal)(message) from None
    return study


def _targets(block: _StudyBlock) -> Iterator[Target]:
    for target in block.targets:
        for model in target.model:
            for hardware in target.hardware:
                yield Target(load_model(model), load_hardware(hardware), target.placement())


def _check(study: Study) -> None:
    """Refuse what only shows when a curve is computed, before the first one is."""
    drafts = (study.max_draft_len or LARGEST_DRAFT_LEN // 64) + 1
    curves = len(study.targets) * len(study.drafters)
    points = curves * drafts * len(study.batch_size) * len(study.context_len)
    if points > _MOST_POINTS:
        message = f"the grid has {points} points; allowed: at most {_MOST_POINTS}"
        raise OptionError(message)
    for target in study.targets:
        for drafter in study.drafters:
            first = replace(
                study, batch_size=study.batch_size[:1], context_len=study.context_len[:1]
            )
            _curve(first, target, drafter)
    _curve(replace(study, max_draft_len=0), study.targets[0], study.drafters[0])


def _curve(study: Study, target: Target, drafter: Drafter) -> SpeedupCurve:
    return speedup_curve(
        target.model,
        target.hardware,
        drafter=drafter,
        batch_size=study.batch_size,
        context_len=study.context_len,
        max_draft_len=study.max_draft_len,
        placement=target.placement,
        engine=study.engine,
        options=study.options,
    )


def run_study(study: Study, advance: Callable[[], None] = lambda: None) -> list[list[SpeedupCurve]]:
    """Return the curves of each target, one per drafter, calling `advance` after each curve."""
    results = []
    for target in study.targets:
        curves = []
        for drafter in study.drafters:
            curves.append(_curve(study, target, drafter))
            advance()
        results.append(curves)
    return results
