"""What the YAML reader lets through, and the one line it answers everything else with."""

import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specroof.errors import ProfileError
from specroof.reading.yaml_text import (
    MAX_NESTING,
    MAX_TEXT_BYTES,
    number_spelling,
    parse_yaml,
    shortened,
)
from tables import refusal as of_call
from tables import rows


def refusal(text: str) -> str:
    message = of_call(ProfileError, parse_yaml, text, source="here/x.yaml", error=ProfileError)
    assert len(message) < 300
    assert message.startswith("here/x.yaml")
    return message


def nested(levels: int) -> str:
    return "{a: " * levels + "1" + "}" * levels


# YAML's billion laughs: nine lines that grow tenfold each, 10^9 words in all.
BILLION_LAUGHS = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@given(
    st.recursive(
        st.integers(-(10**15), 10**15)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_what_a_yaml_writer_writes_comes_back(value: object) -> None:
    # The writer quotes what would read as something else, and expands aliases of equal values.
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, _: object) -> bool:
            return True

    text = yaml.dump({"top": value}, Dumper=Plain)
    assert parse_yaml(text, source="x", error=ProfileError) == {"top": value}


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("text", "content"),
    [
        *rows("values", "yaml_texts"),
        # beside one another is no nesting
        (
            "".join(f"k{i}: {{a: [1]}}\n" for i in range(99)),
            {f"k{i}": {"a": [1]} for i in range(99)},
        ),
    ],
)
def test_what_is_plain_is_read(text: str, content: object) -> None:
    assert parse_yaml(text, source="x", error=ProfileError) == content


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        *rows("refusals", "yaml_texts"),
        (["a: &a 1", "a: &a {b: 1}", "a: &a [1]", BILLION_LAUGHS], "line 1: anchor 'a'"),
        (["a: " + "ä" * (MAX_TEXT_BYTES // 2)], "bytes long"),  # two bytes in UTF-8 each
        (["[" * 100_000, "{a: " * 50_000, "- " * 100_000], f"deeper than {MAX_NESTING} levels"),
        # no character of YAML, half of a character, no such date, more digits than Python reads
        (["a: \x00", "a: \ud800", "a: 2024-13-45", "a: " + "1" * 5000], "cannot be read as YAML: "),
        # messages stay short whatever they quote
        (
            [f"a: &{LONG} 1", f"a: !{LONG} 1", f"a: 0{'1' * 100_000}", f"? {'1' * 100_000}\n: 1"],
            "…",
        ),
        ([f"? '{LONG}'\n: 1\n? '{LONG}'\n: 1"], "…"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_plain_is_refused(texts: list[str], said: str) -> None:
    for text in texts:
        assert said in refusal(text)


def test_a_text_of_the_largest_size_is_read_and_one_byte_more_is_not() -> None:
    text = "a: 1\n#" + "x" * (MAX_TEXT_BYTES - 6)
    assert parse_yaml(text, source="x", error=ProfileError) == {"a": 1}
    assert f"is {MAX_TEXT_BYTES + 1} bytes long" in refusal(text + "x")


def test_nesting_is_read_up_to_its_bound() -> None:
    content: Any = parse_yaml(nested(MAX_NESTING), source="x", error=ProfileError)
    for _ in range(MAX_NESTING):
        content = content["a"]
    assert content == 1
    assert f"deeper than {MAX_NESTING} levels" in refusal(nested(MAX_NESTING + 1))


def test_a_caller_near_the_end_of_its_stack_gets_the_same_kind_of_error() -> None:
    def from_depth(depth: int) -> str:
        if depth > 0:
            return from_depth(depth - 1)
        try:
            parse_yaml(nested(MAX_NESTING), source="x", error=ProfileError)
        except ProfileError as refused:
            return str(refused)
        return "read"

    answers = set()
    for depth in range(sys.getrecursionlimit(), 0, -1):
        try:
            answers.add(from_depth(depth))
        except RecursionError:
            continue  # too deep for the test itself
        if "read" in answers:
            break
    assert answers == {"x: is nested too deeply to be read", "read"}


@pytest.mark.parametrize(
    ("text", "spelling"), [*rows("values", "spelled_numbers"), ("9" * 5000, "9" * 5000)]
)
def test_a_number_in_text_gets_the_spelling_that_yaml_reads(text: str, spelling: str) -> None:
    assert number_spelling(text) == spelling


@pytest.mark.parametrize("text", ["", ".", "e5", "1e", "fast", "1 2", "0x10", "nan", "inf", "٣"])
def test_what_shows_no_number_gets_no_spelling(text: str) -> None:
    assert number_spelling(text) is None


@given(
    st.from_regex(
        r"[-+]?([0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9})(e[-+]?[0-9]{1,2})?", fullmatch=True
    )
)
def test_the_spelling_is_read_as_the_number_it_replaces(text: str) -> None:
    # Python's float is the independent reader of the text, PyYAML of the spelling.
    value = yaml.safe_load(number_spelling(text) or "no number found")
    assert value == float(text)
    assert not isinstance(value, str)


@given(st.text(), st.integers(0, 10))
def test_a_shortened_text_is_itself_or_says_that_it_goes_on(text: str, n_letters: int) -> None:
    short = shortened(text, n_letters)
    assert short == text if len(text) <= n_letters else short == text[:n_letters] + "…"
