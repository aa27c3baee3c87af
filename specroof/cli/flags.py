"""How the shell asks for the parameters of questions: shared flags, and panels of them.

See `specroof.cli.grouping` for how they become a command.
"""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from specroof.arrays import number_within
from specroof.cli.lists import numbers, words
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
class Flag:
    """How the shell asks for one parameter of a question.

    Parameters
    ----------
    help
        What people read.
    words
        The flag and its other spellings; ``--name-of-the-parameter`` if empty. A word without
        hyphens is the title of an argument.
    metavar, shown
        What help shows for the value and for the default, where Typer's own words will not do.
    names
        What a shell completes.
    read
        From the flag and its value to the parameter, where that is not handed on as it is.
    kind, default
        The type and the default in the shell, where those of the question will not do.
    """

    help: str
    words: str = ""
    _: KW_ONLY
    metavar: str | None = None
    shown: str | bool | None = None
    names: Callable[[], Iterable[str]] | None = None
    read: Callable[[str, Any], Any] | None = None
    kind: Any = None
    default: Any = Parameter.empty

    def word(self, name: str) -> str:
        """Return the flag in the shell of a parameter; an argument has none but its name."""
        first = self.words.partition(" ")[0]
        return first if first[:2] == "--" else name if first else f"--{name.replace('_', '-')}"

    def hint(self, name: str, kind: Any, panel: str | None) -> Any:
        """Return the annotation of a parameter that Typer reads."""
        settings: dict[str, Any] = {"help": self.help, "rich_help_panel": panel}
        if self.names is not None:
            settings["autocompletion"] = completion(self.names)
        if self.shown is not None:
            settings["show_default"] = self.shown
        if self.word(name) == name:
            return Annotated[kind, typer.Argument(metavar=self.words, **settings)]
        spelt = self.words.split() or [self.word(name)]
        return Annotated[kind, typer.Option(*spelt, metavar=self.metavar, **settings)]


def completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a shell completion over `names` that ignores capitals."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.casefold().startswith(incomplete.casefold())]

    return complete


#: Characters of choices that stand beside a flag; more of them stand in its help.
_SHORT_CHOICE: Final = 13


def choice(name: str, told: str, word: str = "", *, shown: str | None = None) -> Flag:
    """Return a flag that takes one of the `CHOICES` of `Options`."""
    choices = "|".join(CHOICES[name])
    if len(choices) > _SHORT_CHOICE:
        told += f" One of {', '.join(CHOICES[name])}."
        choices = "WORD"
    return Flag(told, word, metavar=choices, names=lambda: CHOICES[name], shown=shown)


def drafter_flag(told: str, kind: Any = str) -> Flag:
    """Return a flag that takes a drafter's SPEC, or of ``list[str]`` several."""
    return Flag(told, "--drafter", metavar="SPEC", names=lambda: KINDS, kind=kind)


def batch_flag(shown: str) -> Flag:
    """Return a flag that takes batch sizes."""
    told = "Sequences in flight, comma-separated; 1..128 doubles."
    return Flag(told, "--batch", shown=shown, read=numbers)


def context_flag(shown: str) -> Flag:
    """Return a flag that takes contexts."""
    told = "Cached tokens of each sequence, comma-separated."
    return Flag(told, "--context", shown=shown, read=numbers)


def plot_option(help_text: str) -> Any:
    """Return an option that takes the file of a chart."""
    return typer.Option("--plot", metavar="FILE", help=help_text)


def target_flag(told: str, word: str, shown: str | None = None) -> Flag:
    """Return a flag that takes a target in milliseconds, of which the question wants seconds."""
    return Flag(told, word, metavar="MS", shown=shown, read=_in_seconds)


def _in_seconds(word: str, milliseconds: float) -> float:
    return number_within(word, milliseconds, "target") * MILLISECOND


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on one line.")]
CsvFile = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Write every point as CSV; `-` is standard output."),
]

#: Flags that mean the same in every command, by the parameters of questions and the fields of
#: `specroof.Options`.
_SHARED: Final = {
    "model": Flag(
        "A config.json, a bundled model or a Hub name (ORG/NAME).", "MODEL", names=model_names
    ),
    "hardware": Flag(
        "A YAML file, or a name or alias that `specroof hardware` lists.",
        "--hardware -H",
        names=hardware_names,
    ),
    "drafters": drafter_flag(
        f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}. Acceptance: "
        f"{', '.join(f'{key}=' for key in ACCEPTANCE_KEYS)}.",
        list[str],
    ),
    "context_len": Flag("Cached tokens of each sequence.", "--context"),
    "seed": Flag("Random seed."),
    "price_per_hour": Flag(
        "Price of one device for an hour.", metavar="USD", shown="the hardware file's"
    ),
    "capacity": Flag(
        "Ignore memory limits. The ideal engine always does.",
        "--no-capacity",
        kind=bool,
        default=False,
        read=lambda _, given: False if given else None,
    ),
    "input_len": Flag(
        "Tokens of a prompt. Replaces --context, and counts prefills.", "--input-len --isl"
    ),
    "output_len": Flag("Tokens of an answer, with --input-len.", "--output-len --osl"),
    "prefix_hit_rate": Flag(
        "Share of a prompt's tokens that the server has cached, 0 to 1. With --input-len.",
        metavar="SHARE",
        shown="0",
    ),
    "waves": Flag(
        "Send all requests at once, and the next when all are answered. With --input-len."
    ),
    "family": Flag(
        "Read the config as this model_type: for an unknown type that is built like a known one.",
        metavar="NAME",
        names=lambda: PARSERS,
    ),
    "tensor_parallel": Flag("Devices (tensor parallelism).", "--tp --tensor-parallel-size"),
    "expert_parallel": Flag("Expert parallelism: devices that share the experts.", "--ep"),
    "attention_data_parallel": Flag(
        "Data-parallel attention: groups of devices with separate sequences.", "--dp-attention"
    ),
    "engine": Flag(
        "Engine profile: one of the chip's, as vllm or sglang; `generic`, for any chip; or "
        "`ideal`, a plain roofline.",
        metavar="NAME",
        shown="the profile's default",
    ),
    "server": Flag(
        f"Settings of the server: {', '.join(SERVER_KEYS)}.",
        metavar="KEY=VALUE,…",
        shown="as the framework has them",
    ),
    "engine_from": Flag(
        "Engine that was fitted on another chip, as in h100-sxm:vllm.", metavar="CHIP:ENGINE"
    ),
    "kv_dtype": choice("kv_dtype", "Format of cached keys and values.", "--kv-cache"),
    "weight_dtype": choice("weight_dtype", "Format of the weights.", "--weights"),
    "granularity": choice("granularity", "Take max(compute, memory) over each of these."),
    "experts": choice(
        "experts",
        "How to count distinct experts.",
        shown="exact, with the locality that the engine profile measured",
    ),
    "count": choice("count", "Operations to count."),
    "recurrent_state": choice(
        "recurrent_state",
        "How a verification keeps the state of linear attention recoverable.",
        shown="as the engine does, else snapshot",
    ),
    "state_dtype": choice("state_dtype", "Format of recurrent state."),
    "v4_attention": choice("v4_attention", "How DeepSeek-V4's attention counts."),
    "strict_dtype": Flag("Refuse a chip that lacks a dtype of the model."),
    "cost_of": choice("cost_of", "What the cost of a drafter is a share of."),
}


def shared(*names: str, **settings: Any) -> dict[str, Flag]:
    """Return some of the flags that commands share, with other settings if any are given."""
    return {name: replace(_SHARED[name], **settings) for name in names}


CHIPS: Final = Flag(
    "YAML files, or names or aliases that `specroof hardware` lists.",
    "--hardware -H",
    metavar="NAME[,NAME…]",
    names=hardware_names,
    read=words,
)


# --- panels of help ----------------------------------------------------------------------------


class Panel(NamedTuple):
    """Flags by the names of parameters, and the title below which help shows them.

    Parameters
    ----------
    title
        None for those of the command itself.
    flags
        By the names of parameters of the question, or of fields of `specroof.Options`.
    """

    title: str | None
    flags: dict[str, Flag]


#: Requests in the place of a context: fields of `specroof.questions.loads.ServedRequests`.
REQUESTS: Final = Panel("Requests", shared("input_len", "output_len", "prefix_hit_rate", "waves"))
#: Where a model runs, but for the number of devices.
PLACE: Final = Panel(
    "Placement and server",
    shared("family", "expert_parallel", "attention_data_parallel", "engine", "server"),
)
#: Where a model runs: fields of `specroof.questions.request.Served`.
SETUP: Final = Panel(PLACE.title, shared("tensor_parallel") | PLACE.flags | shared("engine_from"))
#: Formats that replace the checkpoint's.
FORMATS: Final = Panel("Formats and formulas", shared("kv_dtype", "weight_dtype"))
#: Formats, and which formulas: fields of `specroof.Options`.
OPTIONS: Final = Panel(
    FORMATS.title,
    FORMATS.flags
    | shared("granularity", "experts", "count", "recurrent_state", "state_dtype")
    | shared("v4_attention", "strict_dtype"),
)
#: How results of benchmarks came about: fields of `specroof.questions.benchmark.Recorded`.
RESULTS: Final = Panel(
    "How the results came about",
    {
        **shared("family"),
        "engine": Flag(
            "Engine of the hardware profile.",
            metavar="NAME",
            shown="named like the tool that wrote BENCH",
        ),
        "drafter": drafter_flag("Drafter of results with drafts."),
        "draft_len": Flag("Drafts per round, if a result does not say."),
        **shared("server"),
    },
)
BENCH_HELP: Final = (
    "JSON of SGLang's bench_serving, of vllm bench serve --save-result, InferenceX, aiperf, "
    "genai-perf or guidellm; guidellm's CSV; or a CSV with batch_size, context_len, draft_len, "
    "tokens_per_s and, if known, acceptance_length, input_len, output_len, or with positions and "
    "pass_s of timed passes."
)
