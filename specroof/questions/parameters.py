"""Parameters of questions: each is told once, on the field of its request.

A field of a request is ``Annotated`` with a `Parameter`: one sentence, and how the shell spells it.
Its type and its default are the field's own. The docstring of the question in Python, the flag and
the help of the shell, completion and the schema of studies all derive from the field. Nothing here
knows Typer: `specroof.cli` turns these rows into commands.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from inspect import Parameter as Signed
from inspect import signature
from typing import Any, Final

from specroof.arrays import number_within
from specroof.cost import CHOICES, Options
from specroof.errors import OptionError
from specroof.units import MILLISECOND


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
    default: Any = Signed.empty
    panel: str | None = None
    in_shell: bool = True
    about_flag: str = ""

    def word(self, name: str) -> str:
        """Return the flag in the shell of a parameter; an argument has none but its name."""
        first = self.flag.partition(" ")[0]
        return first if first[:2] == "--" else name if first else f"--{name.replace('_', '-')}"


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
    "weight_dtype": _choice("weight_dtype", "Format of the weights.", "--weights"),
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
    "cost_of": _choice("cost_of", "What the cost of a drafter is a share of."),
}
#: Their types and defaults.
OPTION_FIELDS: Final = signature(Options).parameters
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
)


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
        Whether ``--csv`` writes the answer's records.
    chart
        The help of ``--plot``, which draws the answer; without it there is no ``--plot``.
    to_paste
        Whether the lines of the text stay whole, since they hold commands.
    json
        From the answer to what ``--json`` prints.
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
    """

    question: Callable[..., Any]
    text: Callable[[Any], str] = str
    example: str = ""
    about: str = ""
    options: tuple[str, ...] = ()
    each_chip: bool = False
    csv: bool = True
    chart: str = ""
    to_paste: bool = False
    json: Callable[[Any], object] = lambda answer: answer.to_dict()
    commands: Mapping[str, "Command"] = field(default_factory=dict)
    output: Output | None = None
    prints: bool = True
    check_size: Callable[[Any, int, str], None] | None = None
