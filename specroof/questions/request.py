"""How every question is asked: parameters are fields of a request, and names stand for objects.

A parameter is told once: a field of a request is ``Annotated`` with a `Parameter`, one sentence
and how the shell spells it. Its type and its default are the field's own. The docstring of the
question in Python, the flag and the help of the shell, completion and the schema of studies all
derive from the field. Nothing here knows Typer: `specroof.cli` turns the row `Command` of a
question into a command.
"""

import functools
import inspect
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    ParamSpec,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

import numpy as np

from specroof.architecture import Architecture
from specroof.arrays import array_within, fields_of, n_entries, number_within, whole_within
from specroof.catalog import (
    ACCEPTANCE_KEYS,
    hardware_names,
    load_drafter,
    load_hardware,
    load_model,
    model_names,
)
from specroof.cost import CHOICES, Options
from specroof.drafters import Drafter
from specroof.drafters.kinds import KINDS
from specroof.errors import Note, OptionError, expect, not_modelled, refuse, reject
from specroof.hardware import (
    FRAMEWORKS,
    GENERIC,
    IDEAL_ENGINE,
    LOCAL_FRAMEWORKS,
    SERVER_KEYS,
    HardwareProfile,
    Placement,
    ServerSettings,
)
from specroof.latency import Deployment, Setup, check_placement, engine_setup
from specroof.parsers import PARSERS
from specroof.reading.yaml_text import shown
from specroof.serving.capacity import in_server, served_room
from specroof.serving.workload import Load, Workload, parse_server, server_settings
from specroof.speedup.price import Money
from specroof.units import HOUR, MILLISECOND, MOST_POINTS

if TYPE_CHECKING:
    from specroof.serving.split import Split

# --- A parameter, and a question as a command ----------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """What people read of one parameter of a question, and how the shell spells it.

    Parameters
    ----------
    about
        A sentence, for Python's help and the shell's.
    in_python
        What Python's help says besides, such as the objects that it takes.
    flag
        The flag and its other spellings; ``--name-of-the-parameter`` if empty. A word without
        hyphens is the title of an argument.
    metavar, shown
        What help shows for the value and for the default, where Typer's own words will not do.
    former
        A flag of old, which goes on working with a note.
    names
        What a shell completes.
    read
        From the flag and its value to the parameter, where that is not handed on as it is.
    kind, default
        The type and the default in the shell, where those of the field will not do.
    panel
        The title in the shell's help; None for the parameters of the command itself.
    in_shell
        False for a parameter of Python alone.
    about_flag
        The sentence in the shell's help, where the flag says another thing than the parameter.
    """

    about: str
    flag: str = ""
    _: KW_ONLY
    in_python: str = ""
    metavar: str | None = None
    shown: str | bool | None = None
    former: str = ""
    names: Callable[[], Iterable[str]] | None = None
    read: Callable[[str, Any], Any] | None = None
    kind: Any = None
    default: Any = inspect.Parameter.empty
    panel: str | None = None
    in_shell: bool = True
    about_flag: str = ""

    def word(self, name: str) -> str:
        """Return the flag in the shell of a parameter; an argument has none but its name."""
        first = self.flag.partition(" ")[0]
        return first if first[:2] == "--" else name if first else f"--{name.replace('_', '-')}"


@dataclass(frozen=True, kw_only=True)
class Output:
    """How ``--output`` writes an answer: a file, or a folder of files.

    Parameters
    ----------
    about, metavar
        What help says of the flag.
    content
        The text of the file.
    required
        Whether the flag must be given.
    parameters
        Parameters of the question that change the file alone.
    suffixes
        Endings of names of files; any other place is a folder. Without them every place is a file.
    folder
        The names and contents of the files of a folder. It calls its second argument after each
        step.
    steps, step
        How many steps those are and their name, for a progress bar.
    """

    about: str
    metavar: str
    content: Callable[[Any], str]
    required: bool = False
    parameters: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    folder: Callable[[Any, Callable[[], None]], Iterable[tuple[str, bytes]]] | None = None
    steps: Callable[[Any], int] = lambda _: 1
    step: str = ""


@dataclass(frozen=True, kw_only=True)
class Command:
    """How the shell asks a question: a row of data that `specroof.cli` turns into a command.

    Parameters
    ----------
    question
        Its parameters are the flags; its docstring is the help.
    text
        The answer as people read it; by default what ``print`` shows.
    example
        A call, which help ends with.
    about
        What help says below the first sentence of the docstring.
    options
        Fields of `specroof.Options` that are flags of the command.
    each_chip
        Whether ``--hardware`` takes several chips, and the question is asked of each.
    csv
        Whether ``--csv`` writes the answer's rows.
    points
        Whether ``--points`` writes every point of its grid.
    chart
        The help of ``--plot``, which draws the answer; without it there is no ``--plot``.
    to_paste
        Whether the lines of the text stay whole, since they hold commands.
    commands
        Commands below this one by their names, such as ``show`` of ``models show``. The command
        itself runs where none of them is called.
    output
        What ``--output`` writes; without it there is no ``--output``.
    prints
        Whether the answer is printed, as text or as JSON; else it is only written.
    check_size
        Refuses several answers that are too large together, from the first, how many there are,
        and the form in which they are wanted: JSON, CSV, or none.
    told
        Calls a function with the steps done and those in all while the question is answered.
    """

    question: Callable[..., Any]
    text: Callable[[Any], str] = str
    example: str = ""
    about: str = ""
    options: tuple[str, ...] = ()
    each_chip: bool = False
    csv: bool = True
    points: bool = False
    chart: str = ""
    to_paste: bool = False
    commands: Mapping[str, "Command"] = field(default_factory=dict)
    output: Output | None = None
    prints: bool = True
    check_size: Callable[[Any, int, str], None] | None = None
    told: Callable[[Callable[[int, int], None]], AbstractContextManager[None]] | None = None


#: Seconds of the units of a rate.
RATE_UNITS: Final = {"s": 1.0, "min": 60.0, "h": HOUR}

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


def rates(word: str, text: str) -> list[float]:
    """Return the rates per second of a comma-separated `text`, per second, minute or hour.

    Raises
    ------
    OptionError
        With the option's `word`, for anything else.

    Examples
    --------
    >>> rates("--rate", "1..4/s"), rates("--rate", "90/min"), rates("--rate", "2")
    ([1.0, 2.0, 4.0], [1.5], [2.0])
    """
    counts, _, unit = text.partition("/")
    if (unit or "s") not in RATE_UNITS:
        refuse(word, text, "requests per second, minute or hour, as in 4/s, 1..64/s or 90/min")
    return [count / RATE_UNITS[unit or "s"] for count in numbers(word, counts)]


#: The price of an hour of any device, or of each chip by its name.
Prices: TypeAlias = float | Mapping[str, float]


def prices(word: str, text: str) -> Prices:
    """Return the price of an hour that `text` spells, or those of chips by their names.

    Raises
    ------
    OptionError
        With the option's `word`, for anything else.

    Examples
    --------
    >>> prices("--price-per-hour", "2.5"), prices("--price-per-hour", "h100=2,b200=4")
    (2.5, {'h100': 2.0, 'b200': 4.0})
    """
    try:
        if "=" not in text:
            return float(text)
        pairs = [part.partition("=") for part in text.split(",")]
        return {name.strip(): float(price) for name, _, price in pairs}
    except ValueError:
        refuse(word, text, "a number of US dollars, or one for each chip, as in h100=2,b200=4")


def in_seconds(word: str, milliseconds: float) -> float:
    """Return a target that the shell takes in milliseconds.

    Raises
    ------
    OptionError
        With the option's `word`, for a number that no target can be.

    Examples
    --------
    >>> in_seconds("--tpot", 20)
    0.02
    """
    return number_within(word, milliseconds, "target") * MILLISECOND


# --- Options as flags -----------------------------------------------------------------------------

#: Characters of choices that stand beside a flag; more of them stand in its help.
_SHORT_CHOICE: Final = 13


def _choice(name: str, about: str, flag: str = "", *, shown: str | None = None) -> Parameter:
    """Return a parameter that takes one of the `CHOICES` of `Options`."""
    choices = "|".join(CHOICES[name])
    if len(choices) > _SHORT_CHOICE:
        about += f" One of {', '.join(CHOICES[name])}."
        choices = "WORD"
    return Parameter(about, flag, metavar=choices, names=lambda: CHOICES[name], shown=shown)


#: Fields of `specroof.Options`, which the shell takes as flags.
OPTIONS: Final = {
    "kv_dtype": _choice("kv_dtype", "Format of cached keys and values.", "--kv-cache"),
    "weight_dtype": Parameter(
        "Format of the weights (bf16, fp8, nvfp4, int4 and others), or of a file of llama.cpp or MLX "
        "(q4_k_m, q8_0, mxfp4_moe, mlx-4bit and others). An unknown word lists all.",
        "--weights",
        metavar="WORD",
        names=lambda: CHOICES["weight_dtype"],
    ),
    "granularity": _choice("granularity", "Take max(compute, memory) over each of these."),
    "experts": _choice(
        "experts",
        "How to count distinct experts.",
        shown="exact, with the locality that the engine profile measured",
    ),
    "count": _choice("count", "Operations to count."),
    "recurrent_state": _choice(
        "recurrent_state",
        "How a verification keeps the state of linear attention recoverable.",
        shown="as the engine does, else snapshot",
    ),
    "state_dtype": _choice("state_dtype", "Format of recurrent state."),
    "v4_attention": _choice("v4_attention", "How DeepSeek-V4's attention counts."),
    "verify_attention": _choice(
        "verify_attention",
        "How a verification reads the cache of the target.",
        shown="as the server's kernel does by default",
    ),
    "strict_dtype": Parameter("Refuse a chip that lacks a dtype of the model."),
    "n_cpu_moe": Parameter(
        "First layers whose experts the CPU computes from its memory (llama.cpp), with -H CHIP+CPU.",
        shown="none",
    ),
    "cost_of": _choice("cost_of", "What the cost of a drafter is a share of."),
}
#: Their types and defaults.
OPTION_FIELDS: Final = inspect.signature(Options).parameters
#: Formats that replace the checkpoint's.
FORMATS: Final = ("kv_dtype", "weight_dtype")
#: The same, and which formulas.
FORMULAS: Final = (
    *FORMATS,
    "granularity",
    "experts",
    "count",
    "recurrent_state",
    "state_dtype",
    "v4_attention",
    "verify_attention",
    "strict_dtype",
    "n_cpu_moe",
)


# --- One value or several, and things that are named twice ---------------------------------------

_Named = TypeVar("_Named")


def as_list(values: Any) -> list[Any]:
    """Return one value as a list of it, several as their list; text is one value.

    More values than any grid holds stay as they are, for the reader of the list to refuse: a range
    or an array that repeats one number is small until it is a list.

    Examples
    --------
    >>> as_list(1), as_list([1, 8]), as_list(np.array([1, 8])), as_list("ideal")
    ([1], [1, 8], [1, 8], ['ideal'])
    """
    if n_entries(values, axes=0) > MOST_POINTS:
        return [values]
    if isinstance(values, np.ndarray):
        return list(np.atleast_1d(values).tolist())
    if isinstance(values, Sequence) and not isinstance(values, str):
        return list(values)
    return [values]


def unique_list(
    name: str,
    given: Any,
    load: Callable[[Any], _Named],
    *,
    key: Callable[[_Named], object] = lambda one: one,
) -> list[_Named]:
    """Return what one name or several stand for; a thing is not compared with itself.

    Parameters
    ----------
    name
        How refusals call the list.
    given
        A name or object, or several.
    load
        From one of them to what it stands for.
    key
        What is the same in two names of one thing.

    Raises
    ------
    OptionError
        For a thing that is given twice, and whatever `load` refuses.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> unique_list("hardware", ["h100", "H100-SXM"], load_hardware, key=lambda one: one.name)
    Traceback (most recent call last):
    specroof.errors.OptionError: hardware: 'H100-SXM' is 'h100' by another name; allowed: once
    """
    words, keys, found = as_list(given), list[object](), list[_Named]()
    for word in words:
        one = load(word)
        if key(one) in keys:
            message = f"{name}: {given_twice(word, words[keys.index(key(one))])}"
            raise OptionError(message)
        keys.append(key(one))
        found.append(one)
    return found


def given_twice(word: object, before: object) -> str:
    """Return why a list is refused that has one thing twice, under one name or under two.

    Examples
    --------
    >>> given_twice("h100", "h100")
    "'h100' is given twice; allowed: once"
    """
    again, first = (getattr(one, "name", one) for one in (word, before))
    how = "given twice" if again == first else f"{first!r} by another name"
    return f"{again!r} is {how}; allowed: once"


# --- Questions, and the objects that names stand for ---------------------------------------------

ModelLike: TypeAlias = str | os.PathLike[str] | Architecture
HardwareLike: TypeAlias = str | os.PathLike[str] | HardwareProfile
DrafterLike: TypeAlias = str | Drafter
OptionsLike: TypeAlias = Options | Mapping[str, Any]
ServerLike: TypeAlias = str | Mapping[str, Any] | ServerSettings
Values: TypeAlias = float | Sequence[float] | np.ndarray

_P = ParamSpec("_P")
_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")


def question(
    request: Callable[_P, _Request], /
) -> Callable[[Callable[[_Request], _Answer]], Callable[_P, _Answer]]:
    """Turn a function of a request into a function of the request's fields.

    A request documents its own fields; the function's help shows them all.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class SumRequest:
    ...     first: int
    ...     second: int = 2
    >>> @question(SumRequest)
    ... def added(request: SumRequest) -> int:
    ...     return request.first + request.second
    >>> added(1), added(first=1, second=1), str(inspect.signature(added))
    (3, 2, '(first: int, second: int = 2) -> int')

    The spellings of the shell are keywords, too: see `_by_field`.
    """

    def asked(answer: Callable[[_Request], _Answer]) -> Callable[_P, _Answer]:
        @functools.wraps(answer)
        def ask(*args: _P.args, **kwargs: _P.kwargs) -> _Answer:
            if not kwargs.keys() <= signature.parameters.keys():
                kwargs = _by_field(kwargs, rows)  # type: ignore[assignment]  # a dict of them
            try:
                signature.bind(*args, **kwargs)
            except TypeError as mistake:  # of the caller: named after the question, not the request
                allowed = ", ".join(signature.parameters)
                unknown = [word for word in kwargs if word not in signature.parameters]
                left_out = [said for word in unknown if (said := not_modelled(word))]
                why = f" ({'; '.join(left_out)})" if left_out else ""
                message = f"{answer.__name__}(): {mistake}{why}; allowed: {allowed}"
                raise TypeError(message) from None
            asked = request(*args, **kwargs)
            found = answer(asked)
            # A curve or a list of operations is no answer that says what was asked.
            tell = getattr(found, "as_asked", None)
            return found if tell is None else tell(answer.__name__, told(asked))

        rows, fields_signature = _rows(request), inspect.signature(request)
        signature = fields_signature.replace(
            parameters=[
                field.replace(
                    annotation=get_args(field.annotation)[0]  # without what is told of it
                    if get_origin(field.annotation) is Annotated
                    else field.annotation
                )
                for field in fields_signature.parameters.values()
            ],
            return_annotation=inspect.signature(answer).return_annotation,
        )
        ask.__signature__ = signature  # type: ignore[attr-defined]  # functions take it
        ask.__doc__ = f"{inspect.getdoc(answer)}\n\n{_about(request)}"
        ask.parameters = rows  # type: ignore[attr-defined]  # as above
        return ask

    return asked


def told(request: Any) -> dict[str, Any]:
    """Return what was asked as JSON has it: what differs from the defaults, objects by name.

    Secrets, which no representation shows, are left out.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class SumRequest:
    ...     first: int
    ...     second: int = 2
    >>> told(SumRequest(1))
    {'first': 1}
    """
    given = {one.name: getattr(request, one.name) for one in fields(request) if one.repr}
    usual = {one.name: one.default for one in fields(request)}
    differs = {name: value for name, value in given.items() if value is not usual[name]}
    if isinstance(differs.get("options"), Mapping):  # the shell hands all of them on
        options = differs.pop("options")
        known = {name: one.default for name, one in OPTION_FIELDS.items()}
        differs |= {name: one for name, one in options.items() if one != known.get(name)}
    return {name: _plain(value) for name, value in differs.items()}


#: Values of one parameter that an answer repeats, and lists in lists.
_MOST_TOLD: Final = 1000
_MOST_NESTED: Final = 3


def _plain(value: Any, nested: int = 0) -> Any:
    """Return a value as JSON has it: the same of one thing and of a list of it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return int(value) if float(value).is_integer() else float(value)
    if not isinstance(value, Mapping | list | tuple | range | np.ndarray):
        # The name of a path is its last part alone.
        return str(value if isinstance(value, os.PathLike) else getattr(value, "name", value))
    count = value.size if isinstance(value, np.ndarray) else len(value)
    if count > _MOST_TOLD or nested == _MOST_NESTED:
        return "many values"
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(one, nested + 1) for name, one in value.items()}
    several = [_plain(one, nested + 1) for one in value]
    return several[0] if len(several) == 1 else several


def _by_field(given: Mapping[str, Any], rows: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return keywords by the names of fields; unknown ones stay as they are.

    Known are the flags of the shell, with the units that they have there, and what `Options` holds
    by its names and its flags: ``tp=2``, ``tpot=20`` (milliseconds), ``kv_dtype="fp8"``.

    Raises
    ------
    OptionError
        For two words of the same field.
    """

    def spelt(table: Mapping[str, Parameter]) -> dict[str, str]:
        flags = {
            flag[2:].replace("-", "_"): name
            for name, row in table.items()
            for flag in [*row.flag.split(), row.former]
            if flag.startswith("--")
        }
        return flags | {name: name for name in table}

    fields_by_word = spelt(rows)
    options_by_word = spelt(OPTIONS) if "options" in rows else {}
    found: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for word, value in given.items():
        is_option = word not in fields_by_word and word in options_by_word
        kept = options if is_option else found
        name = options_by_word[word] if is_option else fields_by_word.get(word, word)
        if name in kept:
            refuse(word, value, f"left out, since {name} is given")
        read = rows[name].read if word != name and not is_option and name in rows else None
        is_text = isinstance(value, str)
        kept[name] = read(word, value) if read and (is_text or read is in_seconds) else value
    if options:
        known = found.get("options")
        twice = [name for name in options if isinstance(known, Mapping) and name in known]
        if twice:
            refuse(twice[0], options[twice[0]], "left out, since options has it")
        known = options_of(known)
        found["options"] = {**{f.name: getattr(known, f.name) for f in fields(Options)}, **options}
    return found


def _rows(request: Callable[..., object]) -> dict[str, Parameter]:
    """Return what is told of each parameter of a request, in the order of its fields."""
    hints = {
        name: parameter.annotation
        for name, parameter in inspect.signature(request).parameters.items()
    }
    return {
        name: row
        for name, hint in hints.items()
        for row in get_args(hint)[1:]
        if isinstance(row, Parameter)
    }


def parameters_of(question: Callable[..., object]) -> dict[str, Parameter]:
    """Return what is told of each parameter of a question or a request, by its name."""
    return dict(getattr(question, "parameters", None) or _rows(question))


_PARAMETERS: Final = "Parameters\n----------\n"


def _about(request: Callable[..., object]) -> str:
    """Return the parameters of a request, and its docstring below its first line."""
    entries, rest = dict[str, str](), ""
    for kind in reversed(inspect.getmro(request)[:-1] if inspect.isclass(request) else ()):
        doc = inspect.cleandoc(kind.__doc__ or "")
        if _PARAMETERS in doc:
            own, _, rest = doc.partition(_PARAMETERS)[2].partition("\n\n")
            # An entry begins with the names of its parameters, which are not indented.
            parts = re.split(r"\n(?=\S)", own)
            entries |= {re.split(r"[,\n]", entry)[0]: entry for entry in parts}
        elif "\n\n" in doc:
            rest = doc.partition("\n\n")[2]
    for name, row in _rows(request).items():
        default = f"Default: {row.shown}." if isinstance(row.shown, str) else ""
        sentences = " ".join(filter(None, [row.about, row.in_python, default]))
        lines = textwrap.wrap(sentences, 95, break_on_hyphens=False)
        entries[name] = "\n".join([name, *(f"    {line}" for line in lines)])
    shown = [entries[name] for name in inspect.signature(request).parameters if name in entries]
    return "\n".join([f"{_PARAMETERS}{shown[0]}", *shown[1:], "", rest]).rstrip() if shown else ""


def model_of(model: ModelLike, family: str | None = None) -> Architecture:
    """Return a model by name, or the model itself.

    Raises
    ------
    OptionError
        For a value that is not a model, or a family beside a model that is read already.
    """
    expect("model", model, str | os.PathLike | Architecture, "a name, a path or an Architecture")
    expect("family", family, str | None, "a model_type, or None")
    if not isinstance(model, Architecture):
        return load_model(model, family=family)
    if family is not None:
        message = f"family is {family!r} for a model that is read already; allowed: with a name"
        raise OptionError(message)
    return model


def hardware_of(hardware: HardwareLike) -> HardwareProfile:
    """Return hardware by name, or the profile itself.

    Raises
    ------
    OptionError
        For any other value.
    """
    allowed = "a name, a path or a HardwareProfile"
    expect("hardware", hardware, str | os.PathLike | HardwareProfile, allowed)
    return hardware if isinstance(hardware, HardwareProfile) else load_hardware(hardware)


def drafter_of(drafter: DrafterLike) -> Drafter:
    """Return a drafter by its SPEC, or the drafter itself.

    Raises
    ------
    OptionError
        For any other value.
    """
    expect("drafter", drafter, str | Drafter, "a SPEC, such as 'mtp,accept=0.8', or a Drafter")
    return drafter if isinstance(drafter, Drafter) else load_drafter(drafter)


def options_of(options: OptionsLike | None) -> Options:
    """Return options from a mapping of their names; the defaults if None.

    Raises
    ------
    OptionError
        For an unknown name or value.

    Examples
    --------
    >>> options_of({"kv_dtype": "fp8"}).kv_dtype
    'fp8'
    """
    expect("options", options, Options | Mapping | None, "Options, or a mapping of their names")
    if isinstance(options, Options):
        return options
    given = options or {}
    known = [field.name for field in fields(Options)]
    unknown = [name for name in given if name not in known]
    if unknown:
        message = f"options has {unknown[0]!r}; allowed: {', '.join(known)}"
        raise OptionError(message)
    try:
        return Options(**given)
    except ValueError as refusal:
        raise OptionError(str(refusal)) from None


_SERVER: Final = "ServerSettings, a mapping of their keys, or text such as 'running=64'"


def server_of(server: ServerLike | None) -> ServerSettings:
    """Return the settings of a server from text or a mapping; none if None.

    Raises
    ------
    OptionError
        For an unknown key or value.

    Examples
    --------
    >>> server_of("running=64") == server_of({"running": 64})
    True
    """
    expect("server", server, ServerSettings | str | Mapping | None, _SERVER)
    if server is None:
        return ServerSettings()
    if isinstance(server, ServerSettings):
        return server
    return parse_server(server) if isinstance(server, str) else server_settings(server)


def usd_per_hour(hardware: HardwareProfile, given: Prices | None) -> float | None:
    """Return the price of one device: the user's, else the hardware file's; None if unknown.

    Of prices by chip, one whose name stands for this chip.

    Raises
    ------
    OptionError
        For a price that none can be.
    """
    if isinstance(given, Mapping):
        named = {hardware_of(name).name: price for name, price in given.items()}
        given = named.get(hardware.name)
    if given is not None:
        return number_within("price_per_hour", given, "usd_per_hour")
    return None if hardware.price is None else hardware.price.usd_per_hour


def money_of(setup: Setup, split: "Split | None" = None, given: Prices | None = None) -> Money:
    """Return what all devices cost and draw: of workers of two chips the mean of a device.

    Parameters
    ----------
    setup, split
        Of the server, or of a decode worker and all workers.
    given
        The user's price of an hour of a device.

    Raises
    ------
    OptionError
        As `usd_per_hour`.
    """

    def price(chip: HardwareProfile) -> float | None:
        return usd_per_hour(chip, given)

    def watts(chip: HardwareProfile) -> float | None:
        return None if chip.power is None else chip.power.watts

    if split is None:
        chip = setup.hardware
        return Money(setup.placement.devices, price(chip), watts(chip))
    return Money(split.devices(setup), split.mean(setup, price), split.mean(setup, watts))


def price_notes(hardware: HardwareProfile, usd_per_hour: float | None) -> Iterator[str]:
    """Yield where a price and the energy of tokens come from; nothing for what is unknown.

    Parameters
    ----------
    hardware
        Whose watts they are.
    usd_per_hour
        The price of one device, as `usd_per_hour` returns it.
    """
    if usd_per_hour is not None:
        date = origin = "as given"
        if hardware.price is not None and hardware.price.usd_per_hour == usd_per_hour:
            date, origin = hardware.price.date, f"{hardware.price.date}, {hardware.price.source}"
        price = f"price: {usd_per_hour:g} USD an hour and device"
        yield Note(f"{price}, {origin}", short=f"{price}, {date}")
    if hardware.power is not None:
        yield f"energy: {hardware.power.watts:g} W a device, hosts and cooling not counted"


def borrowed_engine(
    hardware: HardwareProfile, engine_from: str, engine: str | None
) -> tuple[HardwareProfile, str]:
    """Return hardware with an engine that was fitted on another chip, and the engine's name.

    Parameters
    ----------
    hardware
        What is asked about.
    engine_from
        ``CHIP:ENGINE``.
    engine
        An engine besides, which is refused.

    Raises
    ------
    OptionError
        For an engine that was not fitted there, or two engines.

    Examples
    --------
    >>> chip, name = borrowed_engine(load_hardware("mi300x"), "h100-sxm:vllm", None)
    >>> name, chip.engine(name).framework
    ('h100-sxm:vllm', 'vllm')
    """
    expect("engine_from", engine_from, str, "CHIP:ENGINE, or None")
    if engine is not None:
        message = f"engine is {engine!r} with engine_from {engine_from!r}; allowed: one of them"
        raise OptionError(message)
    chip, colon, name = engine_from.rpartition(":")
    if not colon:
        message = f"engine_from is {shown(engine_from)}; allowed: CHIP:ENGINE, as in h100-sxm:vllm"
        raise OptionError(message)
    lender = load_hardware(chip)
    if name not in lender.engines:
        fitted = ", ".join(lender.engines) or "none"
        message = f"engine_from is {shown(engine_from)}; engines fitted on {lender.name}: {fitted}"
        raise OptionError(message)
    fit = lender.engines[name]
    # Its errors on its own chips say nothing here: a strange chip has the generic bands.
    strange = IDEAL_ENGINE if hardware.generic is None else hardware.generic.engines[GENERIC]
    own = replace(
        fit,
        name=engine_from,
        framework=fit.framework or (name if name in FRAMEWORKS else None),
        expected_error=None,
        **fields_of(strange, "bands", "served_bands", "reach"),
    )
    told = f"borrowed from {lender.name}: {lender.sources[f'engines.{name}']}"
    return replace(
        hardware,
        engines={**hardware.engines, engine_from: own},
        sources={**hardware.sources, f"engines.{engine_from}": told},
    ), engine_from


def drafters_of(given: DrafterLike | Sequence[DrafterLike]) -> list[Drafter]:
    """Return drafters by their SPECs, each name once.

    Raises
    ------
    OptionError
        As `unique_list` does.
    """
    return unique_list("drafters", given, drafter_of, key=lambda one: one.name)


#: What runs inside of software that wraps another.
RUNS: Final = {"lmstudio": "llama.cpp", "ollama": "llama.cpp"}
#: All server software.
SERVERS: Final = (*FRAMEWORKS, *LOCAL_FRAMEWORKS, *RUNS)
#: What people call server software, without capitals and with hyphens.
_SPELT_ENGINES: Final = {
    "trtllm": "tensorrt-llm",
    "trt-llm": "tensorrt-llm",
    "tensorrt": "tensorrt-llm",
    "tensorrt-llm": "tensorrt-llm",
    "vllm": "vllm",
    "sglang": "sglang",
    "llama-cpp": "llama.cpp",
    "llamacpp": "llama.cpp",
    "lm-studio": "lmstudio",
}


def engine_name(name: str | None) -> str | None:
    """Return the name of an engine or framework in our spelling; unknown names stay as they are.

    Raises
    ------
    OptionError
        For anything but text.

    Examples
    --------
    >>> engine_name("trtllm"), engine_name("vLLM"), engine_name("mine"), engine_name(None)
    ('tensorrt-llm', 'vllm', 'mine', None)
    """
    expect("engine", name, str | None, "the name of an engine, or None")
    return None if name is None else _SPELT_ENGINES.get(name.casefold().replace("_", "-"), name)


def engine_of_tool(tool: str | None, hardware: HardwareProfile) -> tuple[str | None, list[str]]:
    """Return the engine that stands for a tool, None for the default, and notes on it."""
    engine = hardware.engine_of(tool)
    if engine is not None or tool is None or tool in hardware.engines:
        return engine, []
    default = hardware.engine().name
    return None, [f"{hardware.name} has no engine {tool}: engine {default} predicts instead"]


# --- What is served, and where -------------------------------------------------------------------

_PLACEMENT: Final = "Placement and server"
_REQUESTS: Final = "Requests"
_POLICIES: Final = "Policies that follow the drafter's confidence"


@dataclass(frozen=True)
class DeploymentRequest:
    """What is served, and where."""

    model: Annotated[
        ModelLike,
        Parameter(
            "A config.json, a bundled model or a Hub name (ORG/NAME).",
            "MODEL",
            in_python="Or an `Architecture`.",
            names=model_names,
        ),
    ]
    hardware: Annotated[
        HardwareLike,
        Parameter(
            "A YAML file, or a name or alias that `specroof hardware` lists.",
            "--hardware -H",
            in_python="Or a `HardwareProfile`.",
            names=hardware_names,
        ),
    ]
    _: KW_ONLY
    tensor_parallel: Annotated[
        int,
        Parameter("Devices (tensor parallelism).", "--tp --tensor-parallel-size", panel=_PLACEMENT),
    ] = 1
    family: Annotated[
        str | None,
        Parameter(
            "Read the config as this model_type: for an unknown type that is built like a known "
            "one.",
            metavar="NAME",
            names=lambda: PARSERS,
            panel=_PLACEMENT,
        ),
    ] = None
    expert_parallel: Annotated[
        int,
        Parameter("Expert parallelism: devices that share the experts.", "--ep", panel=_PLACEMENT),
    ] = 1
    attention_data_parallel: Annotated[
        int,
        Parameter(
            "Data-parallel attention: groups of devices with separate sequences.",
            "--dp-attention",
            panel=_PLACEMENT,
        ),
    ] = 1
    decode_context_parallel: Annotated[
        int,
        Parameter(
            "Decode context parallelism: devices that each cache a part of the context.",
            "--dcp",
            panel=_PLACEMENT,
        ),
    ] = 1
    pipeline_parallel: Annotated[
        int,
        Parameter(
            "Pipeline parallelism: stages of layers, each on tensor_parallel devices.",
            "--pp",
            about_flag="Pipeline parallelism: stages of layers, each on --tp devices.",
            panel=_PLACEMENT,
        ),
    ] = 1
    nodes: Annotated[
        int | None,
        Parameter(
            "Nodes that the devices are spread over.",
            "--nodes",
            shown="as few as the chip's links allow",
            panel=_PLACEMENT,
        ),
    ] = None
    engine: Annotated[
        str | None,
        Parameter(
            "Engine profile: one of the chip's, as vllm or sglang; `generic`, for any chip; or "
            "`ideal`, a plain roofline. A framework that was not fitted on the chip is generic "
            "with that server's rules.",
            metavar="NAME",
            shown="the profile's default",
            panel=_PLACEMENT,
        ),
    ] = None
    framework: Annotated[
        str | None,
        Parameter(
            f"Server software, of {', '.join(SERVERS)}: the chip's engine profile of it predicts, "
            "else the generic one with its rules.",
            metavar="WORD",
            names=lambda: SERVERS,
            shown="that of the engine",
            panel=_PLACEMENT,
        ),
    ] = None
    server: Annotated[
        ServerLike | None,
        Parameter(
            f"Settings of the server: {', '.join(SERVER_KEYS)}. overlap=plain: plain steps overlap "
            "with the host's work, rounds do not.",
            in_python="Text, a mapping, or `ServerSettings`.",
            metavar="KEY=VALUE,…",
            shown="the framework's defaults",
            panel=_PLACEMENT,
        ),
    ] = None
    engine_from: Annotated[
        str | None,
        Parameter(
            "Engine that was fitted on another chip, as in h100-sxm:vllm.",
            metavar="CHIP:ENGINE",
            panel=_PLACEMENT,
        ),
    ] = None
    options: Annotated[
        OptionsLike | None,
        Parameter("`Options`, or a mapping of their names.", in_shell=False),
    ] = None

    def resolved(self) -> Deployment:
        """Return the model and the setup in which it runs, each built once.

        Raises
        ------
        SpecroofError
            For a name that is unknown or a value that is not allowed.
        """
        placement = Placement(
            self.tensor_parallel,
            self.expert_parallel,
            self.attention_data_parallel,
            self.decode_context_parallel,
            self.pipeline_parallel,
            self.nodes,
        )
        options = options_of(self.options)
        model = model_of(self.model, self.family)
        setup = engine_setup(*self.engine_on(hardware_of(self.hardware)), placement, options)
        return Deployment(model, in_server(model, setup, server_of(self.server)))

    def engine_on(self, hardware: HardwareProfile) -> tuple[HardwareProfile, str | None]:
        """Return a chip with the engine that predicts there, and its name; None for the default.

        Raises
        ------
        OptionError
            For a framework that is unknown or another than that of the engine that is named, and
            as `borrowed_engine` does.
        """
        expect("framework", self.framework, str | None, ", ".join(SERVERS))
        engine, framework = engine_name(self.engine), engine_name(self.framework)
        if self.engine_from is not None:
            hardware, engine = borrowed_engine(hardware, self.engine_from, engine)
        if framework is None:
            return hardware, engine
        if framework not in SERVERS:
            refuse("framework", self.framework, ", ".join(SERVERS))
        framework = RUNS.get(framework, framework)
        if engine is None:
            return hardware, None if hardware.owns(framework) else framework
        if engine == GENERIC and framework not in hardware.engines:
            return hardware, framework
        rules = hardware.engine(engine).rules
        if rules not in {framework, IDEAL_ENGINE.rules}:
            refuse("framework", self.framework, f"{rules}, whose rules engine {engine} has")
        return hardware, engine


def chip_names(word: str, text: str) -> list[str]:
    """Return the names of comma-separated chips, none of them twice.

    Raises
    ------
    SpecroofError
        For a name that is empty, unknown, or another of the same profile.

    Examples
    --------
    >>> chip_names("--hardware", "h100,b200")
    ['h100', 'b200']
    """
    names = words(word, text)
    unique_list("hardware", names, load_hardware)
    return names


#: What a command takes that compares chips.
CHIPS: Final = Parameter(
    "YAML files, or names or aliases that `specroof hardware` lists.",
    "--hardware -H",
    metavar="NAME[,NAME…]",
    names=hardware_names,
    read=chip_names,
    kind=str,
)


# --- Parameters that questions share --------------------------------------------------------------

#: A drafter, of which a question says what it must know of its acceptance.
DRAFTER: Final = Parameter(
    "KIND[,key=value…].",
    "--drafter",
    in_python="Or a `Drafter`.",
    metavar="SPEC",
    names=lambda: KINDS,
    kind=str,
)
#: Batch sizes; a question shows its default.
BATCH: Final = Parameter(
    "Sequences or requests in flight, a number or a list.",
    "--batch",
    about_flag="Sequences in flight, comma-separated; 1..128 doubles.",
    read=numbers,
)
#: Requests in flight, where a batch size is another load.
CONCURRENCY: Final = Parameter(
    "Requests in flight, a number or a list; those beyond the server's memory wait. In place of a "
    "batch size.",
    about_flag="Requests in flight, comma-separated. Replaces --batch.",
    read=numbers,
)
#: Contexts.
CONTEXT: Final = Parameter(
    "Cached tokens of each sequence, a number or a list.",
    "--context",
    about_flag="Cached tokens of each sequence, comma-separated.",
    shown="4096",
    read=numbers,
)
#: One context.
ContextLen: TypeAlias = Annotated[
    float | None, Parameter("Cached tokens of each sequence.", "--context", shown="4096")
]
#: Drafters that are compared, with their acceptance.
Drafters: TypeAlias = Annotated[
    DrafterLike | Sequence[DrafterLike],
    replace(
        DRAFTER,
        in_python="Or `Drafter` objects.",
        about=f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}. Acceptance: "
        f"{', '.join(f'{key}=' for key in ACCEPTANCE_KEYS)}.",
        kind=list[str],
    ),
]
#: What users may wait for a token after the first.
TPOT: Final = Parameter(
    "Seconds per output token that users may wait.",
    "--tpot",
    about_flag="Target: milliseconds per token.",
    metavar="MS",
    read=in_seconds,
)
#: What users may wait for the first token.
TTFT: Final = Parameter(
    "Seconds to the first token of a request that a user may wait.",
    "--ttft",
    about_flag="Target: milliseconds to the first token of a request.",
    metavar="MS",
    read=in_seconds,
)
#: What memory does.
MemoryLimits: TypeAlias = Annotated[
    bool | None,
    Parameter(
        "Whether memory limits what runs: batches that have no room have no figures; requests "
        "wait, where the question is about them. False prices all as if memory had no end, as "
        "the ideal engine does.",
        "--no-capacity",
        about_flag="Ignore memory limits. The ideal engine always does.",
        kind=bool,
        default=False,
        read=lambda _, given: False if given else None,
    ),
]
#: The price of one device.
PricePerHour: TypeAlias = Annotated[
    Prices | None,
    Parameter(
        "Price of one device for an hour, in US dollars; of several chips by their names.",
        in_python='As in `{"h100": 2.0, "mi300x": 1.6}`.',
        about_flag="Price of one device for an hour, in US dollars, or of each chip: h100=2,b200=4.",
        metavar="USD",
        shown="the hardware file's",
        read=prices,
        kind=str,
    ),
]


# --- The load of a question: sequences of one context, or requests -------------------------------


@dataclass(frozen=True, kw_only=True)
class LoadRequest(DeploymentRequest):
    """What is served, where, and to which requests."""

    input_len: Annotated[
        float | None,
        Parameter(
            "Tokens of a prompt. Replaces the context, and counts prefills.",
            "--input-len --isl",
            about_flag="Tokens of a prompt. Replaces --context, and counts prefills.",
            panel=_REQUESTS,
        ),
    ] = None
    output_len: Annotated[
        float | None,
        Parameter(
            "Tokens of an answer, with the length of a prompt.",
            "--output-len --osl",
            about_flag="Tokens of an answer, with --input-len.",
            panel=_REQUESTS,
        ),
    ] = None
    prefix_hit_rate: Annotated[
        float | None,
        Parameter(
            "Share of a prompt's tokens that the server has cached, 0 to 1.",
            about_flag="Share of a prompt's tokens that the server has cached, 0 to 1. With "
            "--input-len.",
            metavar="SHARE",
            shown="0",
            panel=_REQUESTS,
        ),
    ] = None

    @property
    def workload(self) -> Workload | None:
        """The requests; None where a context is asked about.

        Raises
        ------
        OptionError
            For half of a request, or a part of it without its lengths.
        """
        prompt, answer, cached = self.input_len, self.output_len, self.prefix_hit_rate
        if prompt is None and answer is None:
            if cached is not None:
                refuse("prefix_hit_rate", cached, "with the lengths of a request")
            return None
        if prompt is None or answer is None:
            missing = "input_len" if prompt is None else "output_len"
            reject(
                f"{missing} is missing",
                "both lengths of a request (tokens in and out), or neither",
            )
        return Workload(prompt, answer, 0.0 if cached is None else cached)


#: Requests that are known one by one: a file, or columns as `specroof.serving.workload.trace` has
#: them.
TraceLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PlayedParameters:
    """How requests come that are played through one by one."""

    rate: Annotated[
        Values | None,
        Parameter(
            "Requests that arrive in a second, a number or a list, whatever the server does.",
            about_flag="Requests that arrive in a second, as 4/s, 90/min or 1..64/s, whatever the "
            "server does. With --input-len.",
            metavar="N/s",
            read=rates,
            panel=_REQUESTS,
        ),
    ] = None
    arrivals: Annotated[
        str,
        Parameter(
            "Gaps between arrivals at a rate: `poisson`, or `even`.",
            metavar="poisson|even",
            names=lambda: ("poisson", "even"),
            panel=_REQUESTS,
        ),
    ] = "poisson"
    requests: Annotated[
        int | str | None,
        Parameter(
            "Requests that are played through one by one: a number, or 10x for ten of each client.",
            metavar="N|Nx",
            shown="10x; 1000 of --rate",
            panel=_REQUESTS,
        ),
    ] = None
    length_range: Annotated[
        str | Sequence[float] | None,
        Parameter(
            "Shares of both lengths between which those of each request are drawn, as 0.8..1.0.",
            in_python="Or two numbers.",
            metavar="LOW..HIGH",
            panel=_REQUESTS,
        ),
    ] = None
    trace: Annotated[
        TraceLike | None,
        Parameter(
            "Requests with their times: a CSV of arrival_s, input_len, output_len (cached_len), "
            "Mooncake's JSON Lines, Azure's CSV, or a result of the clients of vLLM and SGLang.",
            in_python="Or a mapping of these columns.",
            metavar="FILE",
            panel=_REQUESTS,
        ),
    ] = None
    lengths: Annotated[
        TraceLike | None,
        Parameter(
            "Requests that all come at once: a file with the tokens of an answer on each line, or "
            "a CSV of input_len, output_len.",
            in_python="Or a mapping of these columns.",
            metavar="FILE",
            panel=_REQUESTS,
        ),
    ] = None
    seed: Annotated[int, Parameter("Seed of drawn lengths and arrivals.", panel=_REQUESTS)] = 0
    steady: Annotated[
        bool,
        Parameter(
            "Requests in flight in their steady state, in closed form: no request is played through.",
            panel=_REQUESTS,
        ),
    ] = False

    @property
    def is_played(self) -> bool:
        """Whether requests are played through one by one.

        Raises
        ------
        OptionError
            For what says how requests come, in a steady state.
        """
        names = ("rate", "requests", "length_range", "trace", "lengths")
        given = [name for name in names if getattr(self, name) is not None]
        if given and self.steady:
            refuse(given[0], getattr(self, given[0]), "none in a steady state")
        return bool(given) or (not self.steady and self.has_clients)

    @property
    def has_clients(self) -> bool:
        """Whether requests of clients are asked about, on one server."""
        sizes = [getattr(self, name, None) for name in ("input_len", "output_len")]
        clients = [getattr(self, name, None) for name in ("concurrency", "batch_size")]
        workers = [getattr(self, name, None) for name in ("prefill", "decode")]
        return (
            None not in sizes
            and any(one is not None for one in clients)
            and all(one is None for one in workers)
        )


@dataclass(frozen=True, kw_only=True)
class PlayedRequest(PlayedParameters, LoadRequest):
    """What is served, where, and to which requests, which may be played through one by one."""


#: The default share that confidence knows: it gives the gains that Finn 2026 simulates with the
#: confidences of an MTP layer (`tests/test_golden_adaptive.py`).
USUAL_CONFIDENCE: Final = 0.55


@dataclass(frozen=True, kw_only=True)
class PolicyParameters:
    """How draft lengths are simulated that follow the drafter's confidence."""

    confidence: Annotated[
        float,
        Parameter(
            "Share of the variance of acceptance that the drafter's confidence explains, 0 to 1.",
            panel=_POLICIES,
        ),
    ] = USUAL_CONFIDENCE
    n_rounds: Annotated[
        int, Parameter("Simulated rounds of single sequences.", "--rounds", panel=_POLICIES)
    ] = 20_000


#: What is allowed where prefill and decoding have workers of their own.
PLAYED_ON_ONE: Final = "one server, or a steady state"


@dataclass(frozen=True, kw_only=True)
class WorkerParameters:
    """Workers that compute prompts for others that decode; one server does both where none are."""

    prefill: Annotated[
        str | None,
        Parameter(
            "Workers for prefill alone, and the devices of each, as in 2x4 or 2x4@h100.",
            in_python="With `decode`.",
            metavar="NxTP[@CHIP]",
            panel=_PLACEMENT,
        ),
    ] = None
    decode: Annotated[
        str | None,
        Parameter(
            "Workers for decoding alone, and the devices of each, as in 1x8.",
            in_python="With `prefill`.",
            metavar="NxTP",
            panel=_PLACEMENT,
        ),
    ] = None
    link: Annotated[
        float | None,
        Parameter(
            "Bytes/s from each device of a prefill worker to decode workers.",
            metavar="BYTES/S",
            shown="the link between nodes of the hardware files",
            panel=_PLACEMENT,
        ),
    ] = None


#: Returns where one worker of so many devices runs, on a chip; for prefill if so.
SetupOf: TypeAlias = Callable[[HardwareProfile, int, bool], Setup]


@dataclass(frozen=True, kw_only=True)
class WorkerRequest(WorkerParameters, DeploymentRequest):
    """What is served, and where: on one server, or on workers of prefill and of decoding."""

    def resolved_workers(self) -> "tuple[Deployment, Split | None]":
        """Return the model and its setup, of one decode worker beside others, and all workers.

        Degrees of parallelism are those of decode workers; a prefill worker splits every layer over
        its devices.

        Raises
        ------
        SpecroofError
            As `resolved` and `split_of` do; for devices that are told besides workers, for a link
            alone, for requests that are played through, and for prefill workers that do not hold
            the model.
        """
        if (self.prefill, self.decode, self.link) == (None, None, None):
            return self.resolved(), None
        if (self.prefill, self.decode) == (None, None):
            refuse("link", self.link, "none where one server does both")
        if self.tensor_parallel != 1:
            refuse("tensor_parallel", self.tensor_parallel, "none beside workers, which say theirs")
        if isinstance(self, PlayedParameters) and self.is_played:
            refuse("prefill", self.prefill, PLAYED_ON_ONE)
        model = model_of(self.model, self.family)

        setup, split = split_of(
            self, hardware_of(self.hardware), functools.partial(self.worker, model)
        )
        check_prefill(model, split, self.prefill)
        return Deployment(model, setup), split

    def worker(
        self,
        model: Architecture,
        chip: HardwareProfile,
        devices: int,
        is_prefill: bool = False,
    ) -> Setup:
        """Return where a server or a worker runs; one of prefill splits every layer, and no more.

        Raises
        ------
        OptionError
            For a placement that does not divide the model.
        """
        place = {**(asdict(Placement()) if is_prefill else {}), "tensor_parallel": devices}
        here = replace(self, model=model, family=None, hardware=chip, **place).resolved()
        check_placement(model, here.setup.placement)
        return here.setup


@dataclass(frozen=True, kw_only=True)
class LoadsRequest(WorkerRequest, PlayedRequest):
    """What is served, where, and under which loads."""

    batch_size: Annotated[Values | None, replace(BATCH, shown="1")] = None
    context_len: Annotated[Values | None, CONTEXT] = None
    concurrency: Annotated[Values | None, CONCURRENCY] = None
    capacity: MemoryLimits = None


def split_of(
    given: WorkerParameters, profile: HardwareProfile, setup_of: SetupOf
) -> "tuple[Setup, Split]":
    """Return where one decode worker runs, and the workers.

    Parameters
    ----------
    given
        Workers of both kinds, and the link.
    profile
        The chip of the decode workers.
    setup_of
        See `SetupOf`.

    Raises
    ------
    OptionError
        For workers that are not understood, or missing, or that do not divide the model.
    """
    from specroof.serving.split import Split  # noqa: PLC0415 - asked for seldom

    if given.prefill is None or given.decode is None:
        missing = "prefill" if given.prefill is None else "decode"
        reject(f"{missing} is missing", "workers of both kinds, as in 2x4 and 1x8")
    n_prefill, prefill_devices, chip = workers_of("prefill", given.prefill)
    n_decode, decode_devices, other = workers_of("decode", given.decode)
    if other is not None:
        refuse("decode", given.decode, "no chip: decode workers run on that of --hardware")
    setups = []
    for name, text, where, devices in (
        ("prefill", given.prefill, profile if chip is None else hardware_of(chip), prefill_devices),
        ("decode", given.decode, profile, decode_devices),
    ):
        try:
            setups.append(setup_of(where, devices, name == "prefill"))
        except OptionError as refusal:
            message = f"{name} is {text!r}: {refusal}"
            raise OptionError(message) from refusal
    return replace(setups[1], decodes_only=True), Split(setups[0], n_prefill, n_decode, given.link)


_WORKERS: Final = re.compile(r"(\d{1,9})x(\d{1,9})(?:@(.+))?")


def workers_of(name: str, text: object) -> tuple[int, int, str | None]:
    """Return workers, the devices of each, and the chip that is named.

    Raises
    ------
    OptionError
        For text that is not understood.

    Examples
    --------
    >>> workers_of("prefill", "2x4@h100"), workers_of("decode", "1x8")
    ((2, 4, 'h100'), (1, 8, None))
    """
    match = _WORKERS.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        refuse(name, text, "workers x devices of each, as in 2x4, with @CHIP after --prefill")
    counts = [whole_within(name, int(count), "devices") for count in match.groups()[:2]]
    return counts[0], counts[1], match[3]


def check_prefill(model: Architecture, split: "Split", given: object) -> None:
    """Refuse prefill workers that do not hold the model; of the ideal engine memory has no end.

    Raises
    ------
    OptionError
        With the workers as they were given.
    """
    prefill = Deployment(model, split.prefill)
    is_endless = split.prefill.engine == IDEAL_ENGINE
    if not is_endless and served_room(prefill, context_len=1.0).largest_batch < 1:
        refuse("prefill", given, f"workers that hold {model.name}")


#: Parameters of deployments and loads, for requests of another shape.
SHARED: Final = _rows(LoadRequest)
PLAYED: Final = _rows(PlayedParameters)


def in_flight_of(request: Any, usual: Values) -> Values:
    """Return the requests in flight, or the batch sizes, that are asked about; else the usual ones.

    Raises
    ------
    OptionError
        For both.
    """
    if request.concurrency is None:
        return usual if request.batch_size is None else request.batch_size
    if request.batch_size is not None:
        reject("batch_size and concurrency are both given", "one of them")
    asked: Values = request.concurrency
    array_within("concurrency", asked, "batch_size")  # below it is a batch
    return asked


def load_of(request: LoadRequest, batch_size: Values, context_len: Values | None) -> Load:
    """Return the load that a request asks about; a context of 4096 where it names none.

    Parameters
    ----------
    request
        The requests, if any.
    batch_size, context_len
        Sequences in flight and cached tokens of each, a number or a list each.

    Raises
    ------
    OptionError
        For requests beside a context, or half of a request.
    """
    if any(getattr(request, name, None) is not None for name in ("trace", "lengths")):
        return Load(as_list(batch_size), [4096.0])  # which such a file replaces
    if context_len is not None and (request.input_len, request.output_len) != (None, None):
        reject("context_len is given with input_len or output_len", "one of them")
    workload = request.workload
    if workload is not None:
        return Load(as_list(batch_size), [workload.mean_context_len], workload)
    return Load(as_list(batch_size), as_list(4096.0 if context_len is None else context_len))


def refuse_one_token(workload: Workload | None) -> None:
    """Refuse answers of one token, where users wait for the tokens after the first.

    Raises
    ------
    OptionError
        For such requests.
    """
    if workload is not None and workload.output_len <= 1:
        refuse("output_len", workload.output_len, "more than 1 token of an answer")
