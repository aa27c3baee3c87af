"""Flags that commands share, and groups of them; see `specroof.cli.grouping`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import typer

from specroof.arrays import number_within
from specroof.questions.words import (
    ACCEPTANCE_KEYS,
    CHOICES,
    KINDS,
    PARSERS,
    SERVER_KEYS,
    hardware_names,
    model_names,
)
from specroof.units import MILLISECOND


@dataclass(frozen=True)
class Read:
    """How a flag becomes a parameter of a question.

    Parameters
    ----------
    value
        From the flag's word in the shell and what was typed there; not asked where nothing was.
    into
        The parameter, where the flag has another name.
    """

    value: Callable[[str, Any], Any]
    into: str = ""


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


def spec_option(help_text: str) -> Any:
    """Return an option that takes a drafter's SPEC."""
    return typer.Option(
        "--drafter",
        metavar="SPEC",
        help=help_text,
        autocompletion=completion(lambda: KINDS),
    )


def plot_option(help_text: str) -> Any:
    """Return an option that takes the file of a chart."""
    return typer.Option("--plot", metavar="FILE", help=help_text)


def batch_option(default: str) -> Any:
    """Return an option that takes batch sizes."""
    return typer.Option(
        "--batch",
        help="Sequences in flight, comma-separated; 1..128 doubles.",
        show_default=default,
    )


def context_option(default: str) -> Any:
    """Return an option that takes contexts."""
    return typer.Option(
        "--context",
        help="Cached tokens of each sequence, comma-separated.",
        show_default=default,
    )


def in_seconds(word: str, milliseconds: float) -> float:
    """Return the seconds of a target in milliseconds.

    Raises
    ------
    OptionError
        With the option's `word`, for no time, and for one that is not a number.

    Examples
    --------
    >>> in_seconds("--tpot", 20)
    0.02
    """
    return number_within(word, milliseconds, "target") * MILLISECOND


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
    spec_option(
        f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}. Acceptance: "
        f"{', '.join(f'{key}=' for key in ACCEPTANCE_KEYS)}."
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
ExpertParallel = Annotated[
    int, typer.Option("--ep", help="Expert parallelism: devices that share the experts.")
]
AttentionData = Annotated[
    int,
    typer.Option(
        "--dp-attention", help="Data-parallel attention: groups of devices with separate sequences."
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Engine profile: one of the chip's, as vllm or sglang; `generic`, for any chip; or "
        "`ideal`, a plain roofline.",
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
OneContext = Annotated[float, typer.Option("--context", help="Cached tokens of each sequence.")]
ContextOrRequests = Annotated[
    float | None,
    typer.Option("--context", help="Cached tokens of each sequence.", show_default="4096"),
]
InputLen = Annotated[
    float | None,
    typer.Option(
        "--input-len",
        "--isl",
        help="Tokens of a prompt. Replaces --context, and counts prefills.",
    ),
]
OutputLen = Annotated[
    float | None,
    typer.Option("--output-len", "--osl", help="Tokens of an answer, with --input-len."),
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
KvDtype = Annotated[
    str | None, choice("kv_dtype", "--kv-cache", help_text="Format of cached keys and values.")
]
WeightDtype = Annotated[
    str | None, choice("weight_dtype", "--weights", help_text="Format of the weights.")
]
NoCapacity = Annotated[
    bool,
    typer.Option("--no-capacity", help="Ignore memory limits. The ideal engine always does."),
    Read(lambda _, given: False if given else None, into="capacity"),
]
PrefixHitRate = Annotated[
    float | None,
    typer.Option(
        "--prefix-hit-rate",
        metavar="SHARE",
        help="Share of a prompt's tokens that the server has cached, 0 to 1. With --input-len.",
        show_default="0",
    ),
]
Waves = Annotated[
    bool,
    typer.Option(
        "--waves",
        help="Send all requests at once, and the next when all are answered. With --input-len.",
    ),
]
PricePerHour = Annotated[
    float | None,
    typer.Option(
        "--price-per-hour",
        metavar="USD",
        help="Price of one device for an hour.",
        show_default="the hardware file's",
    ),
]
CostOf = Annotated[
    str, choice("cost_of", "--cost-of", help_text="What the cost of a drafter is a share of.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on one line.")]
CsvFile = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Write every point as CSV; `-` is standard output."),
]


# --- groups of flags ---------------------------------------------------------------------------


class Group:
    """Flags of one command."""

    #: The title below which help shows them; with the command's own if None.
    panel: ClassVar[str | None] = None


@dataclass(frozen=True, kw_only=True)
class OneChip(Group):
    """What is served, on which chip: the first fields of most questions."""

    model: ModelWord
    hardware: HardwareWord


@dataclass(frozen=True)
class PlaceFlags(Group):
    """Where a model runs, but for the number of devices."""

    panel = "Placement and server"

    family: Family = None
    expert_parallel: ExpertParallel = 1
    attention_data_parallel: AttentionData = 1
    engine: Engine = None
    server: ServerWords = None


@dataclass(frozen=True)
class DeviceFlags(Group):
    """How many devices a model runs on."""

    tensor_parallel: TensorParallel = 1


@dataclass(frozen=True)
class SetupFlags(PlaceFlags, DeviceFlags):  # devices come first in help
    """Where a model runs: fields of `specroof.questions.request.Served`."""

    engine_from: Annotated[
        str | None,
        typer.Option(
            "--engine-from",
            metavar="CHIP:ENGINE",
            help="Engine that was fitted on another chip, as in h100-sxm:vllm.",
        ),
    ] = None


@dataclass(frozen=True)
class RequestFlags(Group):
    """Requests in the place of a context: `specroof.questions.loads.ServedRequests`."""

    panel = "Requests"

    input_len: InputLen = None
    output_len: OutputLen = None
    prefix_hit_rate: PrefixHitRate = None
    waves: Waves = False


@dataclass(frozen=True)
class FormatFlags(Group):
    """Formats that replace the checkpoint's: fields of `specroof.Options`."""

    panel = "Formats and formulas"

    kv_dtype: KvDtype = None
    weight_dtype: WeightDtype = None


@dataclass(frozen=True)
class OptionFlags(FormatFlags):
    """Which formulas: fields of `specroof.Options`."""

    granularity: Annotated[
        str,
        choice(
            "granularity",
            "--granularity",
            help_text="Take max(compute, memory) over each of these.",
        ),
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
        bool, typer.Option("--strict-dtype", help="Refuse a chip that lacks a dtype of the model.")
    ] = False


# --- results of benchmarks ---------------------------------------------------------------------

BENCH_HELP: Final = (
    "JSON of SGLang's bench_serving, of vllm bench serve --save-result or of InferenceX; or a CSV "
    "with batch_size, context_len, draft_len, tokens_per_s and, if known, acceptance_length, "
    "input_len, output_len."
)


@dataclass(frozen=True)
class ResultFlags(Group):
    """How results came about: fields of `specroof.questions.benchmark.BenchmarkRequest`."""

    panel = "How the results came about"

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
    drafter: Annotated[str | None, spec_option("Drafter of results with drafts.")] = None
    draft_len: Annotated[
        int | None,
        typer.Option("--draft-len", help="Drafts per round, if a result does not say."),
    ] = None
    server: ServerWords = None
