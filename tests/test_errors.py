"""The exception tree: one line, one root."""

import json

from hypothesis import given
from hypothesis import strategies as st

from specroof import errors
from specroof.errors import OptionError, SpecroofError, one_line, printable

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and kind.__module__ == errors.__name__ and issubclass(kind, Exception)
]


def test_every_refusal_is_caught_as_one_and_a_bad_argument_as_a_value_error_too() -> None:
    assert all(issubclass(kind, SpecroofError) for kind in KINDS)
    assert issubclass(OptionError, ValueError)


@given(st.sampled_from(KINDS), st.text())
def test_a_message_is_one_line_whatever_it_quotes(kind: type[SpecroofError], text: str) -> None:
    message = str(kind(f"file.yaml: key is {text}; allowed: a number"))
    assert message.splitlines() == [message]
    assert message.startswith("file.yaml: key is")
    assert message.endswith("; allowed: a number")


def test_words_are_kept() -> None:
    assert str(SpecroofError("a\n  b\tc")) == "a b c"


@given(st.text(st.characters(codec=None)))
def test_what_is_printed_cannot_steer_a_terminal_and_can_be_written(text: str) -> None:
    shown = printable(text)
    assert all(line.isprintable() for line in shown.split("\n"))
    shown.encode("utf-8")  # no lone surrogate is left
    assert printable(shown) == shown


@given(st.text(st.characters(codec=None)))
def test_printable_json_means_the_same(text: str) -> None:
    assert json.loads(printable(json.dumps(text, ensure_ascii=False))) == text


def test_a_flood_is_cut_in_its_middle() -> None:
    line = one_line(f"--drafter is {'x' * 40_000}; allowed: a SPEC")
    assert len(line) == 2000
    assert line.startswith("--drafter is xxx")
    assert line.endswith("xxx; allowed: a SPEC")
