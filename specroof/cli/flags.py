"""Flags that commands share, and groups of them."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer

from specroof.errors import OptionError
from specroof.questions.words import (
    ACCEPTANCE_KEYS,
    CHOICES,
    KINDS,
    PARSERS,
    SERVER_KEYS,
    hardware_names,
    model_names,
)
from specroof.report.fitting import name_sources

__all__ = [
    "AsJson",
    "Batch",
    "Context",
    "CsvFile",
    "Drafters",
    "Engine",
    "ExpertParallel",
    "Family",
    "FormatFlags",
    "HardwareWord",
    "ModelWord",
    "OptionFlags",
    "PlaceFlags",
    "SetupFlags",
    "SeveralChips",
    "TensorParallel",
    "choice",
    "completion",
    "flags",
    "numbers",
    "whole_numbers",
    "words",
]


def completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a shell completion over `names` that ignores capitals."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.casefold().startswith(incomplete.casefold())]

    return complete


#: Characters of choices that stand beside a flag; more of them stand in its help.
_SHORT_CHOICE: Final = 13


def choice(name: str, *words: str, help_text: str, **settings: Any) -> Any:
    """Return an option that takes one of the `CHOICES` of `Options`."""
    choices = "|".join(CHOICES[name])
    if len(choices) > _SHORT_CHOICE:
        help_text += f" One of {', '.join(CHOICES[name])}."
        choices = "WORD"
    return typer.Option(
        *words,
        metavar=choices,
        help=help_text,
        autocompletion=completion(lambda: CHOICES[name]),
        **settings,
    )


ModelWord = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A config.json, a bundled model or a Hub name (ORG/NAME).",
        autocompletion=completion(model_names),
    ),
]
HardwareWord = Annotated[
    str,
    typer.Option(
        "--hardware",
        "-H",
        help="A YAML file, or a name or alias that `specroof hardware` lists.",
        autocompletion=completion(hardware_names),
    ),
]
SeveralChips = Annotated[
    str,
    typer.Option(
        "--hardware",
        "-H",
        metavar="NAME[,NAME…]",
        help="YAML files, or names or aliases that `specroof hardware` lists.",
        autocompletion=completion(hardware_names),
    ),
]
Drafters = Annotated[
    list[str],
    typer.Option(
        "--drafter",
        metavar="SPEC",
        help=f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}. Acceptance: "
        f"{', '.join(f'{key}=' for key in ACCEPTANCE_KEYS)}.",
        autocompletion=completion(lambda: KINDS),
    ),
]
Family = Annotated[
    str | None,
    typer.Option(
        "--family",
        metavar="NAME",
        help="Read the config as this model_type: for an unknown type that is built like a known "
        "one.",
        autocompletion=completion(lambda: PARSERS),
    ),
]
TensorParallel = Annotated[
    int, typer.Option("--tp", "--tensor-parallel-size", help="Devices (tensor parallelism).")
]
ExpertParallel = Annotated[int, typer.Option("--ep", help="Devices that share the experts.")]
AttentionData = Annotated[
    int,
    typer.Option("--dp-attention", help="Groups of devices that attend to separate sequences."),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Engine of the hardware profile; `generic` is that of chips that nobody measured, "
        "`ideal` reaches every peak.",
        show_default="the profile's default",
    ),
]
ServerWords = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="KEY=VALUE,…",
        help=f"Settings of the server: {', '.join(SERVER_KEYS)}.",
        show_default="as the framework has them",
    ),
]
Batch = Annotated[
    str | None,
    typer.Option("--batch", help="Sequences in flight, comma-separated.", show_default="1"),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context", help="Cached tokens of each sequence, comma-separated.", show_default="4096"
    ),
]
KvDtype = Annotated[
    str | None, choice("kv_dtype", "--kv-cache", help_text="Format of cached keys and values.")
]
WeightDtype = Annotated[
    str | None, choice("weight_dtype", "--weights", help_text="Format of the weights.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on one line.")]
CsvFile = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Write every point as CSV; `-` is standard output."),
]


# --- groups of flags: a parameter of such a type stands for all of them, see `flags` -----------


@dataclass(frozen=True)
class PlaceFlags:
    """Where a model runs, but for the number of devices."""

    family: Family = None
    expert_parallel: ExpertParallel = 1
    attention_data_parallel: AttentionData = 1
    engine: Engine = None
    server: ServerWords = None


@dataclass(frozen=True)
class SetupFlags(PlaceFlags):
    """Where a model runs: fields of `specroof.questions.request.Served`."""

    tensor_parallel: TensorParallel = 1
    engine_from: Annotated[
        str | None,
        typer.Option(
            "--engine-from",
            metavar="CHIP:ENGINE",
            help="Engine that was fitted on another chip, as in h100-sxm:vllm.",
        ),
    ] = None


@dataclass(frozen=True)
class FormatFlags:
    """Formats that replace those of a checkpoint: fields of `specroof.Options`."""

    kv_dtype: KvDtype = None
    weight_dtype: WeightDtype = None


@dataclass(frozen=True)
class OptionFlags(FormatFlags):
    """Which formulas: fields of `specroof.Options`."""

    granularity: Annotated[
        str,
        choice("granularity", "--granularity", help_text="Take max(compute, memory) over each."),
    ] = "op"
    experts: Annotated[
        str | None,
        choice(
            "experts",
            "--experts",
            help_text="How to count distinct experts.",
            show_default="exact, with the locality that the engine profile measured",
        ),
    ] = None
    count: Annotated[str, choice("count", "--count", help_text="Operations to count.")] = "all"
    recurrent_state: Annotated[
        str | None,
        choice(
            "recurrent_state",
            "--recurrent-state",
            help_text="How a verification keeps the state of linear attention recoverable.",
            show_default="as the engine does, else snapshot",
        ),
    ] = None
    state_dtype: Annotated[
        str | None,
        choice("state_dtype", "--state-dtype", help_text="Format of recurrent state."),
    ] = None
    v4_attention: Annotated[
        str,
        choice("v4_attention", "--v4-attention", help_text="How DeepSeek-V4's attention counts."),
    ] = "shared-kv"
    strict_dtype: Annotated[
        bool, typer.Option("--strict-dtype", help="Refuse a chip that lacks a dtype.")
    ] = False


#: A flag that no command sees: it changes what reports say.
_SOURCES: Final = Parameter(
    "sources",
    Parameter.POSITIONAL_OR_KEYWORD,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--sources", help="Name the source of every figure, in full.")
    ],
)


def flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of the groups that its parameters are of.

    A refusal that begins with a parameter of the library names the flag instead. A command that has
    a setup, and so sources, takes ``--sources``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _group_parameters(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))

    if any(issubclass(group, PlaceFlags) for group in groups.values()):
        parameters.append(_SOURCES)

    @wraps(command)
    def called(**given: Any) -> None:
        if given.pop("sources", False):
            name_sources()
        filled = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        try:
            command(**given, **filled)
        except OptionError as refusal:
            raise OptionError(_in_flags(str(refusal), parameters)) from None

    ordered = sorted(parameters, key=lambda one: one.default is not Parameter.empty)
    called.__signature__ = signature(command).replace(parameters=ordered)  # type: ignore[attr-defined]  # functions take it
    called.__annotations__ = {one.name: one.annotation for one in ordered}
    del called.__wrapped__
    return called


def _group_parameters(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


_NAME: Final = re.compile(r"[a-z]\w*")


def _in_flags(message: str, parameters: Iterable[Parameter]) -> str:
    """Return a refusal that names flags instead of parameters."""
    words = {one.name: _flag(one) for one in parameters}
    first = _NAME.match(message)
    if first is None or first[0] not in words:
        return message

    def in_flags(found: re.Match[str]) -> str:
        name = found[0]
        # Inside a sentence, a name of one word is plain English, unless it joins another name.
        joined = found.start() == 0 or message[: found.start()].endswith((" and ", " or "))
        return words.get(name, name) if joined or "_" in name else name

    return _NAME.sub(in_flags, message)


def _flag(parameter: Parameter) -> str:
    """Return the name of a parameter in the shell."""
    for info in get_args(parameter.annotation)[1:]:
        # Typer keeps the first word of an annotation as its default.
        for word in (info.default, *(info.param_decls or ())):
            if isinstance(word, str) and word.startswith("--"):
                return word
    return f"--{parameter.name.replace('_', '-')}"


def numbers(word: str, text: str | None) -> list[float] | None:
    """Return the numbers of a comma-separated `text`, None of None; ``1..128`` doubles.

    Raises
    ------
    OptionError
        With the option's `word`, if a part is not a number.

    Examples
    --------
    >>> numbers("--batch", "1..8,12"), numbers("--batch", "3..10")  # the end is always there
    ([1.0, 2.0, 4.0, 8.0, 12.0], [3.0, 6.0, 10.0])
    """
    if text is None:
        return None
    try:
        return [value for part in text.split(",") for value in _doubled(part)]
    except ValueError:
        message = (
            f"{word} is {text!r}; allowed: numbers separated by commas, such as 1,8,32 or 1..128"
        )
        raise OptionError(message) from None


def _doubled(text: str) -> list[float]:
    """Return the number that a part of a list spells, or those of a range that doubles.

    Raises
    ------
    ValueError
        For anything else.
    """
    first, is_range, last = text.partition("..")
    if not is_range:
        return [float(first)]
    low, high = float(first), float(last)
    if not (0 < low <= high < math.inf):
        raise ValueError(text)
    steps = math.ceil(math.log2(high / low))
    return [*(low * 2.0**step for step in range(steps)), high]


def whole_numbers(word: str, text: str | None) -> list[int] | None:
    """Return the whole numbers of a comma-separated `text`, None of None.

    Raises
    ------
    OptionError
        With the option's `word`, if a part is not a whole number.

    Examples
    --------
    >>> whole_numbers("--draft-len", "1,2,3")
    [1, 2, 3]
    """
    values = numbers(word, text)
    if values is not None and not all(value.is_integer() for value in values):
        message = f"{word} is {text!r}; allowed: whole numbers separated by commas, such as 1,2,3"
        raise OptionError(message)
    return None if values is None else [int(value) for value in values]


def words(word: str, text: str) -> list[str]:
    """Return the names of a comma-separated `text`.

    Raises
    ------
    OptionError
        With the option's `word`, if a name is empty.

    Examples
    --------
    >>> words("--hardware", "h100,b200")
    ['h100', 'b200']
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        message = f"{word} is {text!r}; allowed: names separated by commas, such as h100,b200"
        raise OptionError(message)
    return names


# --- results of benchmarks ---------------------------------------------------------------------

BENCH_HELP: Final = (
    "JSON of SGLang's bench_serving, of vllm bench serve --save-result or of InferenceX; or a CSV "
    "with batch_size, context_len, draft_len, tokens_per_s and, if known, acceptance_length, "
    "input_len, output_len."
)


@dataclass(frozen=True)
class ResultFlags:
    """How results came about: fields of `specroof.questions.benchmark.BenchmarkRequest`."""

    family: Family = None
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="NAME",
            help="Engine of the hardware profile.",
            show_default="named like the tool that wrote BENCH",
        ),
    ] = None
    drafter: Annotated[
        str | None,
        typer.Option("--drafter", metavar="SPEC", help="Drafter of results with drafts."),
    ] = None
    draft_len: Annotated[
        int | None,
        typer.Option("--draft-len", min=1, help="Drafts per round, where a result does not say."),
    ] = None
    server: ServerWords = None
