"""Words that commands share: arguments, options, and how their text is read and printed."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from specroof import catalog
from specroof.cost import CHOICES, Options
from specroof.errors import OptionError, OutputError, printable
from specroof.parsers import PARSERS

__all__ = [
    "AsJson",
    "AttentionData",
    "Count",
    "CsvFile",
    "Engine",
    "ExpertParallel",
    "ExpertsRead",
    "Family",
    "Granularity",
    "HardwareWord",
    "KvDtype",
    "ModelWord",
    "RecurrentState",
    "StateDtype",
    "StrictDtype",
    "TensorParallel",
    "WeightDtype",
    "choice",
    "completion",
    "figure_files",
    "joined_files",
    "numbers",
    "options_of",
    "say",
    "say_notes",
    "say_written",
]


def completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a shell completion over `names`, capitals apart."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.casefold().startswith(incomplete.casefold())]

    return complete


def choice(name: str, *words: str, help_text: str) -> Any:
    """Return an option that takes one of the `CHOICES` of `Options`."""
    return typer.Option(
        *words,
        metavar="|".join(CHOICES[name]),
        help=help_text,
        autocompletion=completion(lambda: CHOICES[name]),
    )


ModelWord = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A config.json, a bundled model or a Hub name (ORG/NAME).",
        autocompletion=completion(catalog.model_names),
    ),
]
HardwareWord = Annotated[
    str,
    typer.Option(
        "--hardware",
        "-H",
        help="A YAML file, or a name or alias of `specroof hardware`.",
        autocompletion=completion(catalog.hardware_names),
    ),
]
Family = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Read the config as this model_type, whatever it says itself: for a type that is "
        "unknown, and built like one that is known.",
        autocompletion=completion(lambda: PARSERS),
    ),
]
TensorParallel = Annotated[int, typer.Option("--tp", help="Devices: tensor parallelism.")]
ExpertParallel = Annotated[int, typer.Option("--ep", help="Devices that experts are spread over.")]
AttentionData = Annotated[
    int, typer.Option("--dp-attention", help="Groups of devices with sequences of their own.")
]
Engine = Annotated[
    str | None,
    typer.Option(help="An engine of the hardware profile; `ideal` reaches every peak."),
]
Granularity = Annotated[
    str, choice("granularity", "--granularity", help_text="What max(compute, memory) is over.")
]
ExpertsRead = Annotated[
    str | None,
    choice(
        "experts",
        "--experts",
        help_text="How distinct experts are counted; exact if left out, and as local as the "
        "engine has measured.",
    ),
]
Count = Annotated[str, choice("count", "--count", help_text="Which operations are counted.")]
RecurrentState = Annotated[
    str | None,
    choice(
        "recurrent_state",
        "--recurrent-state",
        help_text="How a verification keeps linear attention's state recoverable; the engine's "
        "way if left out, else snapshot.",
    ),
]
StateDtype = Annotated[
    str | None, choice("state_dtype", "--state-dtype", help_text="Dtype of recurrent state.")
]
KvDtype = Annotated[
    str | None, choice("kv_dtype", "--kv-cache", help_text="Dtype of cached keys and values.")
]
WeightDtype = Annotated[
    str | None, choice("weight_dtype", "--weights", help_text="Format of the weights.")
]
StrictDtype = Annotated[
    bool, typer.Option("--strict-dtype", help="Refuse a chip that lacks a dtype.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on one line.")]
CsvFile = Annotated[Path | None, typer.Option("--csv", help="Write every point as CSV.")]


def numbers(word: str, text: str) -> list[float]:
    """Return the numbers of a comma-separated `text`, refused by the option's `word`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        message = f"{word} is {text!r}; allowed: numbers separated by commas, such as 1,8,32"
        raise OptionError(message) from None


def options_of(**choices: Any) -> Options:
    """Return `Options`, a wrong choice refused by the option's word."""
    words = {"kv_dtype": "--kv-cache", "weight_dtype": "--weights"}
    for name, value in choices.items():
        if value is not None and value not in CHOICES.get(name, (value,)):
            word = words.get(name, f"--{name.replace('_', '-')}")
            message = f"{word} is {value!r}; allowed: {', '.join(CHOICES[name])}"
            raise OptionError(message)
    return Options(**choices)


def figure_files(path: Path, figures: dict[str, Any]) -> dict[Path, bytes]:
    """Return figures as files: the first as `path`, others beside it under longer names."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    names = {path.with_stem(path.stem + ending): figure for ending, figure in figures.items()}
    return {name: plot.figure_bytes(figure, name) for name, figure in names.items()}


def joined_files(*groups: Mapping[Path, bytes]) -> dict[Path, bytes]:
    """Return the files of all groups, each of which has a place of its own.

    Raises
    ------
    OutputError
        For a place that two groups ask for: one would replace the other without a word.
    """
    files: dict[Path, bytes] = {}
    for path, data in (entry for group in groups for entry in group.items()):
        if path in files:
            message = f"{path}: two outputs go there; allowed: a file for each"
            raise OutputError(message)
        files[path] = data
    return files


def say(text: str) -> None:
    """Print to standard output."""
    typer.echo(printable(text))


def say_notes(notes: Iterable[str]) -> None:
    """Print a line for each note, below what they are about."""
    for note in notes:
        say(f"note: {note}")


def say_written(paths: Iterable[Path]) -> None:
    """Name the written files on standard error."""
    for path in paths:
        typer.echo(printable(f"wrote {path}"), err=True)
