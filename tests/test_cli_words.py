"""Words of the command line: read without Typer where that is easy, and as Typer reads them."""

import shlex
from datetime import datetime
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

import specroof
from commands import answered, invoked, refused, run
from specroof.cli import FORMER, OneLineGroup, PlainCommand, app
from specroof.cli.commands import completion
from specroof.questions import QUESTIONS
from tables import rows


def doubled(value: int) -> int:
    """A callback, as Typer hands a value to it."""
    return 2 * value


def toy_app(seen: dict[str, Any], **settings: Any) -> typer.Typer:
    """A command with a parameter of every type that there is."""
    toys = typer.Typer(pretty_exceptions_enable=False)

    @toys.command(**settings)
    def toy(
        model: str,
        name: Annotated[list[str], typer.Option()],
        number: int = 1,
        longest: int | None = None,
        share: float = 0.5,
        twice: Annotated[int, typer.Option(callback=doubled)] = 3,
        engine: str | None = None,
        file: Path | None = None,
        start: datetime | None = None,
        strict: Annotated[bool, typer.Option("--strict")] = False,
    ) -> None:
        values = dict(locals())
        values.pop("seen")
        seen.update(values)

    return toys


@pytest.mark.parametrize("words", rows("values", "typer_words"))
def test_words_mean_what_they_mean_to_typer(words: str) -> None:
    ours: dict[str, Any] = {}
    typers: dict[str, Any] = {}
    found = CliRunner().invoke(toy_app(ours, cls=PlainCommand), words.split())
    expected = CliRunner().invoke(toy_app(typers), words.split())
    assert (found.exit_code, found.output) == (expected.exit_code, expected.output)
    assert ours == typers
    assert {name: type(value) for name, value in ours.items()} == {
        name: type(value) for name, value in typers.items()
    }


@pytest.mark.parametrize(("words", "says"), rows("refusals", "words_for_numbers"))
def test_a_word_that_is_no_number_is_refused_with_what_is_allowed(words: str, says: str) -> None:
    # Typer's own line names neither the value nor what is allowed.
    seen: dict[str, Any] = {}
    done = CliRunner().invoke(
        toy_app(seen, cls=PlainCommand), ["m", "--name", "a", *shlex.split(words)]
    )
    assert (str(done.exception), seen) == (says, {})


@pytest.mark.parametrize(("former", "now"), rows("values", "former_commands"))
def test_a_former_command_answers_and_names_the_new_one(former: str, now: str | None) -> None:
    done = invoked(former)
    name = former.split(maxsplit=1)[0]
    assert done.stderr == f"note: specroof {name} is specroof {FORMER[name]} now\n"
    assert done.exit_code == 0
    if now is not None:
        assert done.stdout == run(now)


@pytest.mark.parametrize(("command", "former", "now"), rows("values", "former_flags"))
def test_a_former_flag_answers_and_names_the_new_one(command: str, former: str, now: str) -> None:
    old = invoked(f"{command} {former} 4 --json")
    assert old.stdout == run(f"{command} {now} 4 --json")
    assert f"{former} is {now} now" in old.stderr
    assert f"{now} alone" in refused(f"{command} {former} 4 {now} 4")
    shown = (
        run(f"{command.split(maxsplit=1)[0]} --help")
        .replace(now, "")
        .replace("--max-draft-len", "")
    )
    assert f"{former} " not in shown


def test_help_lists_no_former_command() -> None:
    assert not FORMER.keys() & {*run("--help").split()}


def test_words_are_completed_whatever_their_capitals() -> None:
    complete = completion(lambda: ["Qwen/Qwen3-8B", "qwen/other", "b200"])
    assert complete("qwen/Q") == ["Qwen/Qwen3-8B"]
    assert complete("QWEN") == ["Qwen/Qwen3-8B", "qwen/other"]
    assert complete("x") == []


@pytest.mark.parametrize("name", QUESTIONS)
def test_flags_have_the_defaults_of_their_question(name: str) -> None:
    group: Any = typer.main.get_command(app)
    _, command, _ = group.resolve_command(typer.Context(group), [name])
    known = signature(getattr(specroof, name)).parameters
    defaults = {
        one.name: (one.default, known[one.name].default)
        for one in command.params
        if one.name in known and isinstance(known[one.name].default, str | int | float)
    }
    # What help shows in other words: the flag has no default of its own, or turns something off.
    told = {"calibrate": {"engine_name"}, "measure": {"context_len", "engine_name"}}.get(
        name, set()
    )
    assert {key for key, (own, theirs) in defaults.items() if own != theirs} == told


#: Questions whose example needs a server, a study or files of the user, or prints nothing.
NEEDS_FILES = {"sweep", "doctor", "explore", "measure", "validate", "calibrate"}


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", [name for name in QUESTIONS if name not in NEEDS_FILES])
def test_the_example_of_a_question_takes_each_output_that_is_offered(
    name: str, tmp_path: Path
) -> None:
    # `rollout --grid` was offered, and ended with an AttributeError.
    group: Any = typer.main.get_command(app)
    _, command, _ = group.resolve_command(typer.Context(group), [name])
    offered = {word for one in command.params for word in one.opts}
    row = import_module(f"specroof.questions.{name}").COMMAND
    words = row.example.removeprefix("specroof ").replace("\n", " ").partition(" for ")[0]
    for flag in offered & {"--grid", "--notes", "--sources"}:
        words += f" {flag}"
    for flag, file in {"--csv": "a.csv", "--points": "b.csv", "--plot": "c.png"}.items():
        words += f" {flag} {tmp_path / file}" if flag in offered else ""
    assert ("grid" in answered(words)) == ("--grid" in offered)


@pytest.mark.parametrize(
    ("failure", "code", "says"),
    [(typer.Abort(), 2, "specroof: aborted\n"), (ZeroDivisionError("a bug"), 1, "")],
)
def test_whoever_stops_a_command_reads_one_line_and_a_bug_is_no_refusal(
    failure: Exception, code: int, says: str
) -> None:
    group = typer.Typer(cls=OneLineGroup, pretty_exceptions_enable=False)
    group.command("other")(lambda: None)

    @group.command()
    def fails() -> None:
        raise failure

    done = CliRunner().invoke(group, ["fails"])
    assert (done.exit_code, done.output) == (code, says)
    assert (done.exception is failure) == (code == 1)
