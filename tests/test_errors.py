"""The exception tree: one line, one root."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import errors
from specroof.errors import OptionError, SpecroofError

KINDS = [kind for name in errors.__all__ if isinstance(kind := getattr(errors, name), type)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_refusal_is_caught_as_one(kind: type[SpecroofError]) -> None:
    assert issubclass(kind, SpecroofError)


def test_a_bad_argument_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="batch_size"):
        raise OptionError("batch_size is 0")


@given(st.sampled_from(KINDS), st.text())
def test_a_message_is_one_line_whatever_it_quotes(kind: type[SpecroofError], text: str) -> None:
    message = str(kind(f"file.yaml: key is {text}; must be a number"))
    assert message.splitlines() == [message]
    assert message.startswith("file.yaml: key is")
    assert message.endswith("; must be a number")


def test_words_are_kept() -> None:
    assert str(SpecroofError("a\n  b\tc")) == "a b c"
