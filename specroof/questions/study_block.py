"""The blocks of a study file: which keys there are, and what each may be."""

from collections.abc import Iterator
from dataclasses import fields
from itertools import product
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from specroof.cost import CHOICES, Options
from specroof.errors import OptionError
from specroof.hardware import SERVER_KEYS, Placement, ServerSettings
from specroof.parsers import PARSERS
from specroof.questions.request import server_of
from specroof.reading.checked import (
    BatchSize,
    ContextLen,
    Count,
    DraftLen,
    FirstVersion,
    RequestLen,
    Share,
    Text,
)
from specroof.reading.yaml_text import shown
from specroof.serving.workload import Load, Workload


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
        message = f"{unknown[0]} is not a known key; allowed: {', '.join(known)}"
        raise ValueError(message)
    strict = value.get("strict_dtype", False)
    if type(strict) is not bool:
        message = f"strict_dtype is {shown(strict)}; allowed: true or false"
        raise ValueError(message)
    return Options(**value)


def _server(value: object) -> object:
    """Return the settings of a server from a mapping or the text of `--server`."""
    if not isinstance(value, dict | str):
        return value  # the field's own type says what is wrong with it
    try:
        return server_of(value)
    except OptionError as refusal:
        raise ValueError(str(refusal)) from None


_Names = Annotated[
    list[Text],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
]
_Batches = Annotated[
    list[BatchSize],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=float | list[float]),
]
_Contexts = Annotated[
    list[ContextLen],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=float | list[float]),
]
_Family = Annotated[Text, WithJsonSchema({"enum": sorted(PARSERS)})]
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


_Told = Annotated[
    ServerSettings,
    BeforeValidator(_server),
    WithJsonSchema(
        {
            "description": "settings of the server, as for --server",
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


class _Block(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _WorkloadBlock(_Block):
    """Requests as benchmarks state them; `batch_size` is how many are in flight."""

    input_len: RequestLen = Field(description="tokens of a prompt")
    output_len: RequestLen = Field(description="tokens of an answer")
    prefix_hit_rate: Share = Field(default=0.0, description="cached share of a prompt's tokens")
    waves: bool = Field(
        default=False, description="requests come all at once, the next when all are answered"
    )


_Workloads = Annotated[
    list[_WorkloadBlock],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=_WorkloadBlock | list[_WorkloadBlock]),
]


class _TargetBlock(_Block):
    """Models x hardware at one placement."""

    model: _Names = Field(description="a path, a bundled name or a Hub name; or a list of them")
    hardware: _Names = Field(description="a path, a name or an alias; or a list of them")
    family: _Family | None = Field(
        default=None, description="the model_type that every model of the target is read as"
    )
    tensor_parallel: Count = Field(default=1, description="devices")
    expert_parallel: Count = Field(default=1, description="devices that experts are spread over")
    attention_data_parallel: Count = Field(default=1, description="groups with their own sequences")

    @model_validator(mode="after")
    def _groups_divide_the_devices(self) -> Self:
        self.placement()
        return self

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield every model with every kind of hardware, by name."""
        return product(self.model, self.hardware)

    def placement(self) -> Placement:
        """Return the placement of every model of the target."""
        return Placement(self.tensor_parallel, self.expert_parallel, self.attention_data_parallel)


class StudyBlock(_Block):
    """A study file."""

    format_version: FirstVersion = Field(description="1")
    targets: list[_TargetBlock] = Field(min_length=1, description="what is served where")
    drafters: list[Text] = Field(min_length=1, description="drafter SPECs, as for predict")
    batch_size: _Batches = Field(default=[1.0], description="sequences in flight")
    context_len: _Contexts = Field(default=[4096.0], description="cached tokens per sequence")
    workload: _Workloads = Field(
        default=[],
        description="requests instead of context_len, with their prefills; or a list",
    )
    max_draft_len: DraftLen | None = Field(default=None, description="longest draft tried")
    engine: Text | None = Field(default=None, description="the profile's default_engine if absent")
    options: _Options = Options()
    server: _Told = ServerSettings()
    capacity: bool | None = Field(
        default=None, description="false prices batches as if memory had no end"
    )

    @model_validator(mode="after")
    def _one_kind_of_load(self) -> Self:
        if {"context_len", "workload"} <= self.model_fields_set:
            message = "context_len and workload are both given; allowed: one of them"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _hits_of_a_cache(self) -> Self:
        for place, block in enumerate(self.workload):
            if block.prefix_hit_rate and self.server.prefix_cache is False:
                message = (
                    f"workload.{place}.prefix_hit_rate is {block.prefix_hit_rate}; allowed: 0 with "
                    "prefix-cache=off"
                )
                raise ValueError(message)
        return self

    def loads(self) -> Iterator[Load]:
        """Yield the grid of all contexts, or a grid for each workload at its mean context."""
        batches = tuple(self.batch_size)
        if not self.workload:
            yield Load(batches, tuple(self.context_len))
        for block in self.workload:
            workload = Workload(
                block.input_len, block.output_len, block.prefix_hit_rate, block.waves
            )
            yield Load(batches, (workload.mean_context_len,), workload)


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema of a study file."""
    return StudyBlock.model_json_schema() | {"not": {"required": ["context_len", "workload"]}}
