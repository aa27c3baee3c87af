"""Studies: several models x hardware x drafters from one YAML file, validated whole."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from specroof.architecture import Architecture
from specroof.catalog import load_drafter, load_hardware, load_model, read_text, study_path
from specroof.cost import CHOICES, Options
from specroof.drafters import Drafter
from specroof.errors import OptionError
from specroof.hardware import HardwareProfile, Placement
from specroof.solver import LARGEST_DRAFT_LEN, SpeedupCurve, speedup_curve
from specroof.yaml_reader import parse_yaml

__all__ = ["Study", "Target", "load_study", "run_study", "study_schema"]

#: A grid beyond this takes minutes and writes gigabytes.
_MOST_POINTS: Final = 20_000_000


def _listed(value: object) -> object:
    """Accept one value where a list is asked for."""
    return value if isinstance(value, list) else [value]


def _options(value: object) -> object:
    """Return the options that a mapping spells, as `specroof.Options` does."""
    known = [field.name for field in fields(Options)]
    if not (isinstance(value, dict) and set(value) <= set(known)):
        message = f"not understood; allowed: a mapping of {', '.join(known)}"
        raise ValueError(message)
    if not isinstance(value.get("strict_dtype", False), bool):
        message = f"strict_dtype is {value['strict_dtype']!r}; allowed: true, false"
        raise ValueError(message)
    return Options(**value)


_Names = Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
_Numbers = Annotated[list[float], BeforeValidator(_listed), Field(min_length=1)]
_Options = Annotated[
    Options,
    BeforeValidator(_options),
    WithJsonSchema(
        {
            "type": "object",
            "description": "the choices of specroof.Options",
            "properties": {
                **{name: {"enum": list(allowed)} for name, allowed in CHOICES.items()},
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
    tensor_parallel: int = Field(default=1, description="devices")
    expert_parallel: int = Field(default=1, description="devices that experts are spread over")
    attention_data_parallel: int = Field(default=1, description="groups with their own sequences")


class _StudyBlock(_Block):
    """A study file."""

    format_version: Literal[1] = Field(description="1")
    targets: list[_TargetBlock] = Field(min_length=1, description="what is served where")
    drafters: list[str] = Field(min_length=1, description="drafter SPECs, as for predict")
    batch_size: _Numbers = Field(default=[1.0], description="sequences in flight")
    context_len: _Numbers = Field(default=[4096.0], description="cached tokens per sequence")
    max_draft_len: int | None = Field(default=None, ge=0, le=LARGEST_DRAFT_LEN)
    engine: str | None = Field(default=None, description="the profile's default_engine if absent")
    options: _Options = Options()


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


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema of a study file."""
    return _StudyBlock.model_json_schema()


def load_study(name: str) -> Study:
    """Return a study from a path or a bundled name, with all that it names loaded and checked.

    Raises
    ------
    SpecroofError
        One line that names the file, the key, the value and what is allowed.
    """
    path = study_path(name)
    source = str(path)
    mapping = parse_yaml(read_text(path, OptionError), source=source, error=OptionError)
    try:
        block = _StudyBlock.model_validate(mapping)
    except ValidationError as failure:
        raise OptionError(_one_line(source, failure)) from None
    study = Study(
        targets=tuple(_targets(block)),
        drafters=tuple(load_drafter(spec) for spec in block.drafters),
        batch_size=tuple(block.batch_size),
        context_len=tuple(block.context_len),
        max_draft_len=block.max_draft_len,
        engine=block.engine,
        options=block.options,
    )
    _check(study, source)
    return study


def _targets(block: _StudyBlock) -> Iterator[Target]:
    for target in block.targets:
        placement = Placement(
            tensor_parallel=target.tensor_parallel,
            expert_parallel=target.expert_parallel,
            attention_data_parallel=target.attention_data_parallel,
        )
        for model in target.model:
            for hardware in target.hardware:
                yield Target(load_model(model), load_hardware(hardware), placement)


def _check(study: Study, source: str) -> None:
    """Refuse what only shows when a curve is computed, before the first one is."""
    drafts = (study.max_draft_len or LARGEST_DRAFT_LEN // 64) + 1
    curves = len(study.targets) * len(study.drafters)
    points = curves * drafts * len(study.batch_size) * len(study.context_len)
    if points > _MOST_POINTS:
        message = f"{source}: the grid has {points} points; allowed: at most {_MOST_POINTS}"
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


def _one_line(source: str, failure: ValidationError) -> str:
    """Return the first of pydantic's findings as one line: file, key, value, what is allowed."""
    first = failure.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"]) or "the file"
    if first["type"] == "extra_forbidden":
        return f"{source}: {key} is not a key of a study; see: specroof sweep --schema"
    if first["type"] == "missing":
        return f"{source}: {key} is missing; see: specroof sweep --schema"
    shown = repr(first["input"])[:60]
    said = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return f"{source}: {key} is {shown}; allowed: {said}"


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
