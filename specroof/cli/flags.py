"""How the shell asks for the parameters of questions: shared flags, and panels of them.

See `specroof.cli.flags` for how they become a command.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_args, get_type_hints

import typer

from specroof.arrays import number_within
from specroof.catalog import ACCEPTANCE_KEYS, hardware_names, model_names
from specroof.cli.output import figure_files, give, text_file
from specroof.cost import CHOICES, Options
from specroof.drafters.kinds import KINDS
from specroof.errors import OptionError
from specroof.hardware.engine import SERVER_KEYS
from specroof.parsers import PARSERS
from specroof.report.layout import name_sources, rows_csv
from specroof.units import MILLISECOND

# --- Comma-separated words of flags --------------------------------------------------------------


def numbers(word: str, text: str) -> list[float]:
    """Return the numbers of a comma-separated `text`; ``1..128`` doubles.

    Raises
    ------
    OptionError
        With the option's `word`, if a part is not a number.

    Examples
    --------
    >>> numbers("--batch", "1..8,12"), numbers("--batch", "3..10")  # the end is always there
    ([1.0, 2.0, 4.0, 8.0, 12.0], [3.0, 6.0, 10.0])
    """
    try:
        return [value for part in text.split(",") for value in _doubled(part)]
    except ValueError:
        message = (
            f"{word} is {text!r}; allowed: numbers separated by commas, such as 1,8,32 or 1..128"
        )
        raise OptionError(message) from None


def _doubled(text: str) -> list[float]:
    """Return the number that a part of a list spells, or the numbers of a range that doubles.

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
    values = []
    while low < high:  # at most 2098 times; a quotient or a logarithm of the ends may overflow
        values.append(low)
        low *= 2.0
    return [*values, high]


def whole_numbers(word: str, text: str) -> list[int]:
    """Return the whole numbers of a comma-separated `text`.

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
    if not all(value.is_integer() for value in values):
        message = f"{word} is {text!r}; allowed: whole numbers separated by commas, such as 1,2,3"
        raise OptionError(message)
    return [int(value) for value in values]


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


#: Requests in the place of a context: fields of `specroof.questions.request.LoadRequest`.
REQUESTS: Final = Panel("Requests", shared("input_len", "output_len", "prefix_hit_rate", "waves"))
#: Where a model runs, but for the number of devices.
PLACE: Final = Panel(
    "Placement and server",
    shared("family", "expert_parallel", "attention_data_parallel", "engine", "server"),
)
#: Where a model runs: fields of `specroof.questions.request.Deployment`.
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


# --- Commands from the flags of a question: types and defaults of the flags are the question's
#     own

#: What was given of the parameters of a question.
Asked: TypeAlias = dict[str, Any]

#: A flag that changes reports; no command sees it.
_SOURCES: Final = Annotated[
    bool, typer.Option("--sources", help="Name the source of every figure, in full.")
]
#: Types that a word is read as.
_PLAIN: Final = (str, int, float, bool)


def command(
    question: Callable[..., Any],
    own: dict[str, Flag],
    *panels: Panel,
    example: str,
    text: Callable[[Any], str],
    csv: bool = True,
    charts: str = "",
) -> Callable[..., None]:
    """Return the command of a question: flags in; text, JSON, CSV and charts out.

    Parameters
    ----------
    question
        The first sentence of its docstring is the command's help.
    own, panels
        Its flags: see `flags`.
    example
        A call, which help ends with.
    text
        The answer as people read it.
    csv
        Whether ``--csv`` writes the answer's records.
    charts
        The help of ``--plot``, which draws the answer; without it there is no ``--plot``.
    """

    def answer(
        *, ask: Asked, as_json: bool, csv_file: Path | None = None, plot_file: Path | None = None
    ) -> None:
        found = question(**ask)
        give(
            found.to_dict,
            lambda: text(found),
            text_file(csv_file, lambda: rows_csv(found.records, found.columns)),
            {} if plot_file is None else figure_files(plot_file, found.figures),
            as_json=as_json,
        )

    parameters = [_parameter("ask", Asked), _parameter("as_json", AsJson, default=False)]
    if csv:
        parameters.append(_parameter("csv_file", CsvFile, default=None))
    if charts:
        drawn = Annotated[Path | None, plot_option(charts)]
        parameters.append(_parameter("plot_file", drawn, default=None))
    _be_called(answer, parameters)
    answer.__doc__ = f"{str(getdoc(question)).partition(_END)[0]}\n\nExample: {example}"
    return flags(question, own, *panels)(answer)


#: What ends the first sentence of a docstring.
_END: Final = "\n\n"


def flags(
    question: Callable[..., Any], own: dict[str, Flag], *panels: Panel
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of a question; what was given of them becomes its parameter `ask`.

    What was not given is left to the question, and fields of `specroof.Options` are in `options`.
    A refusal that begins with a parameter of the question names the flag instead. A command that
    has a setup, and so sources, takes ``--sources``.

    Parameters
    ----------
    question
        Whose parameters they are, with types and defaults.
    own
        Flags by the names of parameters.
    panels
        The same, below titles of their own.
    """
    every: dict[str, Flag] = {}
    shown: list[Parameter] = []
    known = {**signature(Options).parameters, **signature(question).parameters}
    for title, some in (Panel(None, own), *panels):
        every |= some
        shown += [_flag_parameter(name, one, known[name], title) for name, one in some.items()]

    def flagged(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[Parameter] = []
        for one in signature(command).parameters.values():
            parameters += [one.replace(annotation=hints[one.name])] if one.name != "ask" else shown
        if any(panel.title == PLACE.title for panel in panels):
            parameters.append(_parameter("sources", _SOURCES, default=False))

        def called(**given: Any) -> None:
            if given.pop("sources", False):
                name_sources()
            told = {name: given.pop(name) for name in every}
            try:
                command(ask=_asked(every, told), **given)
            except OptionError as refusal:
                raise OptionError(_in_flags(str(refusal), every)) from None

        called.__doc__ = command.__doc__
        called.__name__ = command.__name__
        return _be_called(called, sorted(parameters, key=lambda one: one.default is not one.empty))

    return flagged


def _be_called(command: Callable[..., None], parameters: list[Parameter]) -> Callable[..., None]:
    """Let Typer see these parameters of a function."""
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # functions take it
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _parameter(name: str, hint: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=hint)


def _flag_parameter(name: str, flag: Flag, known: Parameter, panel: str | None) -> Parameter:
    """Return the parameter of a command for one of the question."""
    default = known.default if flag.default is Parameter.empty else flag.default
    if not isinstance(default, (*_PLAIN, type(Parameter.empty))):
        default = None  # which the question has in its own way
    kind = _kind(known.annotation) if flag.kind is None else flag.kind
    return _parameter(name, flag.hint(name, kind, panel), default)


def _kind(hint: Any) -> type:
    """Return the type that a word is read as: of a question's plain type that, else text."""
    kinds = {*(get_args(hint) or [hint])} - {NoneType}
    return next(iter(kinds)) if len(kinds) == 1 and kinds <= {*_PLAIN} else str


def _asked(every: Mapping[str, Flag], given: Mapping[str, Any]) -> Asked:
    """Return the values of flags as parameters of the question."""
    found, options = Asked(), Asked()
    for name, flag in every.items():
        value = given[name]
        if flag.read is not None and value is not None:
            value = flag.read(flag.word(name), value)
        if value is not None and value != []:
            (options if name in signature(Options).parameters else found)[name] = value
    return found | ({"options": options} if options else {})


_NAME: Final = re.compile(r"[a-z]\w*")


def _in_flags(message: str, every: Mapping[str, Flag]) -> str:
    """Return a refusal that names flags instead of parameters.

    Parameters
    ----------
    message
        The refusal.
    every
        The flag of each parameter.
    """
    first = _NAME.match(message)
    if first is None or first[0] not in every:
        return message

    def in_flags(found: re.Match[str]) -> str:
        name = found[0]
        # Inside a sentence, a name of one word is plain English, unless it joins another name.
        joined = found.start() == 0 or message[: found.start()].endswith((" and ", " or "))
        is_told = name in every and (joined or "_" in name)
        return every[name].word(name) if is_told else name

    return _NAME.sub(in_flags, message)
