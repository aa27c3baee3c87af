"""Refusals, each a `SpecroofError` of one line; notes in two lengths, and those that are urgent."""

import re
import reprlib
from collections.abc import Callable, Collection
from importlib import import_module
from types import UnionType
from typing import Any, Final, NoReturn, Self

#: Characters of the longest line that is printed: lists of what is allowed have up to 1 400.
_LONGEST_LINE: Final = 2_000
#: Words that a refusal lists one by one.
_MANY_WORDS: Final = 100


class Note(str):
    """A sentence for the reader, and what is left of it where there is little room.

    Examples
    --------
    >>> note = Note("fitted to a, b and c", short="fitted")
    >>> note, note.short
    ('fitted to a, b and c', 'fitted')
    """

    __slots__ = ("short",)
    short: str

    def __new__(cls, whole: str, short: str) -> Self:
        """Return the whole sentence as text."""
        note = super().__new__(cls, whole)
        note.short = short
        return note

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str has one argument
        """Support pickling."""
        return str(self), self.short


class Urgent(str):
    """A note that changes the decision: people read it without asking for notes."""

    __slots__ = ()


class Assumed(Urgent):
    """A note that an acceptance was measured with other models: no answer is surer than that."""

    __slots__ = ()


class Raised(Urgent):
    """A note that a default limit of a server is raised, since memory holds more."""

    __slots__ = ()


class Unfit(Urgent):
    """A note that a model lies beyond the memory of its devices, where no server's room says so."""

    __slots__ = ()


def printable(text: str) -> str:
    r"""Return a text that a terminal shows as it stands: other characters are spelt as in JSON.

    Names from files and from the command line may hold escape sequences that move the cursor or
    hide a line, and halves of characters that no encoding can write. Line breaks stay. Printable
    JSON keeps its meaning.

    Examples
    --------
    >>> printable("B200\x1b[31m"), printable("a\ud800b"), printable("γ\n×")
    ('B200\\u001b[31m', 'a\\ud800b', 'γ\n×')
    """
    return "\n".join(
        line if line.isprintable() else "".join(map(_spelt, line)) for line in text.split("\n")
    )


def _spelt(character: str) -> str:
    if character.isprintable():
        return character
    halves = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[start : start + 4]}" for start in range(0, len(halves), 4))


def one_line(text: str) -> str:
    r"""Return a text as one line of printable characters, its middle left out where it is long.

    Examples
    --------
    >>> one_line("a \n b\x07"), len(one_line("x" * 5000))
    ('a b\\u0007', 2000)
    """
    line = printable(" ".join(text.split()))
    half = _LONGEST_LINE // 2
    return line if len(line) <= _LONGEST_LINE else f"{line[:half]}…{line[1 - half :]}"


#: What servers do and predictions leave out, by words of its flags, with what it would change; and
#: what other words ask for.
_NOT_MODELLED: Final = {
    (
        "offload",
    ): "weights or cache in host memory are not modelled: each pass would wait for their "
    "bytes over the link to the host, which all positions of a verification share, so that drafts "
    "would gain more; experts that the CPU computes are (--n-cpu-moe)",
    (
        "lora",
        "adapter",
    ): "adapters are not modelled: two small matmuls beside each projection would "
    "make passes longer, and drafters of the base model would be accepted less",
    (
        "grammar",
        "guided",
        "structured",
    ): "grammars are not modelled: the host would make a mask for "
    "each verified position, which makes rounds longer, and tokens without a choice would be "
    "accepted",
    ("waves",): "a wave is a load: --requests 1x (requests='1x') plays one through, request by "
    "request",
    ("vision", "image", "multimodal"): "vision encoders are not modelled: one would make TTFT "
    "longer; count the tokens of an image as prompt, and decoding is as predicted",
}


def not_modelled(word: str) -> str:
    """Return what predictions leave out that goes by a name; empty where it is another name.

    Parameters
    ----------
    word
        A flag, a key or a keyword that is not known.

    Examples
    --------
    >>> not_modelled("--cpu-offload-gb").partition(":")[0], not_modelled("--tmp")
    ('weights or cache in host memory are not modelled', '')
    """
    parts = re.split(r"[^a-z]+", word.casefold())
    for names, said in _NOT_MODELLED.items():
        if any(part.startswith(names) for part in parts):
            return said
    return ""


class SpecroofError(Exception):
    """Base of everything specroof raises on purpose.

    The message is one line that names the file or argument, the key, the value and what is
    allowed, so that the command line can print it as it is.
    """

    def __init__(self, message: str) -> None:
        # Values from outside are quoted in messages, and must neither break nor flood the line.
        super().__init__(one_line(message))


class ConfigError(SpecroofError):
    """A model config that cannot be read, or describes no model."""


class ProfileError(SpecroofError):
    """A hardware file that cannot be read, or lacks what a prediction needs."""


class OptionError(SpecroofError, ValueError):
    """An argument, SPEC or option outside of what is allowed."""


class StudyError(OptionError):
    """A study with several mistakes; one mistake alone has the class that it has everywhere.

    Attributes
    ----------
    mistakes
        Each in one line, without the name of the study.
    """

    def __init__(self, message: str, mistakes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.mistakes = tuple(one_line(mistake) for mistake in mistakes)


class CatalogError(SpecroofError):
    """A name that matches no bundled file, or a file that cannot be fetched."""


class MeasurementError(SpecroofError):
    """A benchmark result that cannot be read, or lacks what a question needs."""


class OutputError(SpecroofError):
    """A result that cannot be written to its place."""


def reject(problem: str, allowed: str, error: type[SpecroofError] = OptionError) -> NoReturn:
    """Raise a refusal of one line: the problem, and what is allowed.

    Parameters
    ----------
    problem, allowed
        Both parts of the line.
    error
        The class of the refusal.

    Raises
    ------
    SpecroofError
        Always.

    Examples
    --------
    >>> reject("block and drafts are given", "one of them")
    Traceback (most recent call last):
    specroof.errors.OptionError: block and drafts are given; allowed: one of them
    """
    message = f"{problem}; allowed: {allowed}"
    raise error(message) from None


def refuse(
    name: str,
    value: object,
    allowed: str,
    *,
    error: type[SpecroofError] = OptionError,
    show: Callable[[object], str] | None = None,
) -> NoReturn:
    """Raise a refusal of one line: an argument or a place, its value, and what is allowed.

    Parameters
    ----------
    name, value, allowed
        What the line says.
    error
        The class of the refusal.
    show
        How the value is spelt; as Python does if None. `specroof.reading.yaml_text.shown` spells
        it as a file does.

    Raises
    ------
    SpecroofError
        Always.

    Examples
    --------
    >>> refuse("rate", 2.0, "a number from 0 to 1")
    Traceback (most recent call last):
    specroof.errors.OptionError: rate is 2.0; allowed: a number from 0 to 1
    """
    reject(f"{name} is {(show or _python_spelling)(value)}", allowed, error)


def _python_spelling(value: object) -> str:
    plain = getattr(value, "item", None)
    is_number = plain is not None and not getattr(value, "shape", True)
    try:
        return reprlib.repr(plain() if is_number and callable(plain) else value)
    except ValueError:  # whole numbers of thousands of digits, which Python does not spell
        return f"a {type(value).__name__} too long to show"


def expect(name: str, value: object, kind: type | UnionType, allowed: str) -> None:
    """Refuse an argument that is not of its kind.

    Parameters
    ----------
    name, value
        The argument.
    kind
        Its class, or a union of classes.
    allowed
        What is allowed, in words.

    Raises
    ------
    OptionError
        If it is of another class.

    Examples
    --------
    >>> expect("options", "op", int, "Options")
    Traceback (most recent call last):
    specroof.errors.OptionError: options is 'op'; allowed: Options
    """
    if not isinstance(value, kind):
        refuse(name, value, allowed)


def expect_word(name: str, value: object, words: Collection[str]) -> None:
    """Refuse an argument that is none of some words.

    Raises
    ------
    OptionError
        If it is another one, or no text.

    Examples
    --------
    >>> expect_word("law", "square", ("constant", "beta"))
    Traceback (most recent call last):
    specroof.errors.OptionError: law is 'square'; allowed: constant, beta
    """
    # An array equals a word in each entry, so that `in` alone would not do.
    if not isinstance(value, str) or value not in words:
        refuse(name, value, one_of(words, value))


def one_of(words: Collection[str], asked: object) -> str:
    """Return the words that are allowed; of very many the nearest ones to what was asked for.

    Examples
    --------
    >>> one_of(("constant", "beta"), "square"), one_of([f"n{n}" for n in range(200)], "n7")
    ('constant, beta', 'one of 200, such as n7, n97, n87')
    """
    if len(words) <= _MANY_WORDS:
        return ", ".join(words)
    from difflib import get_close_matches  # noqa: PLC0415 - seldom, and a cold start counts

    near = get_close_matches(asked[:_MANY_WORDS], words, n=3) if isinstance(asked, str) else []
    return f"one of {len(words)}, such as {', '.join(near or [*words][:3])}"


def optional_library(
    module: str, needed_by: str, *, refusal: type[SpecroofError] = OptionError
) -> Any:
    """Return a module of a library that is installed only where it is needed.

    Parameters
    ----------
    module
        Its name.
    needed_by
        Who cannot do without, for the refusal.
    refusal
        What is raised without it.

    Raises
    ------
    SpecroofError
        If it is not installed: one line that says how to install it.

    Examples
    --------
    >>> optional_library("no_such.module", "it")
    Traceback (most recent call last):
    specroof.errors.OptionError: it needs no-such; install it with: pip install no-such
    """
    try:
        return import_module(module)
    except ImportError:
        # By its own name: an extra of specroof is found only where specroof is published.
        name = module.partition(".")[0].replace("_", "-")
        message = f"{needed_by} needs {name}; install it with: pip install {name}"
        raise refusal(message) from None
