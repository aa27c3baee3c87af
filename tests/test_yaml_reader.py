"""What the YAML reader lets through, and the one line it answers everything else with."""

import re
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specroof.errors import ConfigError, OptionError, ProfileError, SpecroofError
from specroof.reading.yaml_text import (
    MAX_NESTING,
    MAX_TEXT_BYTES,
    number_spelling,
    parse_yaml,
    shortened,
    shown,
)


def refusal(text: str) -> str:
    """The message that `text` is refused with."""
    with pytest.raises(ProfileError) as caught:
        parse_yaml(text, source="here/x.yaml", error=ProfileError)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
    assert message.startswith("here/x.yaml")
    return message


def nested(levels: int) -> str:
    """A mapping `levels` deep."""
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


def test_comments_lists_and_nesting_are_read() -> None:
    text = "# a comment\na: {b: [1, 2.5, c, true, null]}  # another\n"
    assert parse_yaml(text, source="x", error=ProfileError) == {
        "a": {"b": [1, 2.5, "c", True, None]}
    }


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    # Some editors write one at the start of every file.
    assert parse_yaml("\ufeffa: 1", source="x", error=ProfileError) == {"a": 1}


@pytest.mark.parametrize("error", [ProfileError, ConfigError, OptionError])
def test_the_caller_chooses_the_exception(error: type[SpecroofError]) -> None:
    with pytest.raises(error, match="holds a list"):
        parse_yaml("[1]", source="x.yaml", error=error)


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "null"])
def test_an_empty_text_is_refused(text: str) -> None:
    assert "is empty" in refusal(text)


@pytest.mark.parametrize(("text", "kind"), [("- a\n- b", "list"), ("word", "str"), ("3", "int")])
def test_only_a_mapping_may_stand_at_the_top(text: str, kind: str) -> None:
    assert f"holds a {kind} at the top level" in refusal(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3", 3),
        ("top:\n  a: 1\n  a: 1", 3),
        ("top: [{a: 1}, {b: 1, a: 2, a: 3}]", 1),
        ("a: 1\n'a': 2", 2),  # quotes make no other key
    ],
)
def test_a_key_may_appear_once_in_a_mapping_at_any_level(text: str, line: int) -> None:
    message = refusal(text)
    assert f"line {line}: key 'a' appears twice" in message


def test_the_same_key_may_appear_in_different_mappings() -> None:
    text = "a: {x: 1}\nb: {x: 2}\nx: 3"
    assert parse_yaml(text, source="x", error=ProfileError)["b"] == {"x": 2}


@pytest.mark.parametrize(
    "text",
    ["a: &mark 1", "a: &mark {b: 1}", "a: &mark [1]", "a: &mark 1\nb: *mark", BILLION_LAUGHS],
)
def test_anchors_are_refused_before_anything_expands(text: str) -> None:
    assert re.search(r"line 1: anchor '(mark|a)' is not allowed", refusal(text))


def test_an_alias_without_an_anchor_is_refused() -> None:
    assert "line 1: alias 'mark' is not allowed" in refusal("a: *mark")


def test_merge_keys_are_refused_and_quoted_ones_are_text() -> None:
    assert "line 2: merge key '<<' is not allowed" in refusal("b: 1\n<<: {a: 1}")
    assert parse_yaml("'<<': 1", source="x", error=ProfileError) == {"<<": 1}


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system [echo]",
        "a: !mine 1",
        "a: !!str 1",
        "a: !!map {b: 1}",
        "a: !!seq [1]",
    ],
)
def test_tags_are_refused(text: str) -> None:
    assert re.search(r"line 1: tag '.+' is not allowed", refusal(text))


@pytest.mark.parametrize("key", ["8", "1.5", "yes", "null", "2024-01-01"])
def test_keys_that_yaml_does_not_read_as_text_are_refused(key: str) -> None:
    assert f"key '{key}' is not text; put it in quotes" in refusal(f"a: {{{key}: 1}}")


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        f"a: &{LONG} 1",
        f"a: !{LONG} 1",
        f"a: 0{'1' * 100_000}",
        f"? '{LONG}'\n: 1\n? '{LONG}'\n: 1",
        f"? {'1' * 100_000}\n: 1",
    ],
)
def test_messages_stay_short_whatever_they_quote(text: str) -> None:
    assert "…" in refusal(text)  # which looks at the length, too


@pytest.mark.parametrize("key", ["[a, b]", "{a: b}"])
def test_keys_that_are_collections_are_refused(key: str) -> None:
    assert "a key is a list or mapping; allowed: text" in refusal(f"? {key}\n: 1")


@pytest.mark.parametrize(
    "number",
    ["010", "0x10", "0b11", "1:30", "1:30.5", "-010"],  # 8, 16, 3, 90, 90.5 and -8 in YAML 1.1
)
def test_numbers_that_are_not_decimal_are_refused(number: str) -> None:
    assert f"line 2: '{number}' is not a plain decimal number" in refusal(f"b: 1\na: {number}")
    assert parse_yaml(f"a: '{number}'", source="x", error=ProfileError) == {"a": number}


def test_a_text_of_the_largest_size_is_read_and_one_byte_more_is_not() -> None:
    text = "a: 1\n#" + "x" * (MAX_TEXT_BYTES - 6)
    assert parse_yaml(text, source="x", error=ProfileError) == {"a": 1}
    assert f"is {MAX_TEXT_BYTES + 1} bytes long" in refusal(text + "x")


def test_bytes_are_counted_and_not_letters() -> None:
    # ä is two bytes in UTF-8.
    assert "bytes long" in refusal("a: " + "ä" * (MAX_TEXT_BYTES // 2))


def test_nesting_is_read_up_to_its_bound() -> None:
    content: Any = parse_yaml(nested(MAX_NESTING), source="x", error=ProfileError)
    for _ in range(MAX_NESTING):
        content = content["a"]
    assert content == 1
    assert f"deeper than {MAX_NESTING} levels" in refusal(nested(MAX_NESTING + 1))


def test_mappings_beside_one_another_are_no_nesting() -> None:
    count = MAX_NESTING + 10
    text = "".join(f"k{i}: {{a: [1]}}\n" for i in range(count))
    assert len(parse_yaml(text, source="x", error=ProfileError)) == count


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000])
def test_very_deep_texts_are_refused_without_recursing(text: str) -> None:
    assert f"deeper than {MAX_NESTING} levels" in refusal(text)


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
    ("text", "line"),
    [
        ("a: 1\nb: [1, 2\nc: 3", 3),
        ("a: 1\n\t- b", 2),
        ("a: 'never closed", 1),
        ("a: 1\n---\nb: 2", 2),
        ("a: =", 1),
    ],
)
def test_bad_syntax_is_one_line_with_the_line_number(text: str, line: int) -> None:
    assert f"line {line}: cannot be read as YAML: " in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: \x00",  # a character that YAML does not allow
        "a: \ud800",  # half of a character, as a broken decoder leaves it
        "a: 2024-13-45",  # a date that does not exist
        "a: " + "1" * 5000,  # more digits than Python reads
    ],
)
def test_what_cannot_be_a_value_is_refused(text: str) -> None:
    assert "cannot be read as YAML: " in refusal(text)


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("4.8e12", "4.8e+12"),
        ("1e-6", "1.0e-6"),
        ("1E6", "1.0e+6"),
        ("-2e3", "-2.0e+3"),
        ("5.e3", "5.0e+3"),
        (".5e3", "0.5e+3"),
        ("012", "12"),
        ("000", "0"),
        (" 12.50 ", "12.50"),
        ("8.0e+12", "8.0e+12"),
        ("9" * 5000, "9" * 5000),
    ],
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


def test_values_are_shown_as_files_spell_them_and_cut_off() -> None:
    assert [shown(value) for value in (True, False, None, "a", 1.5)] == [
        "true",
        "false",
        "empty",
        "'a'",
        "1.5",
    ]
    assert len(shown("x" * 1_000_000)) < 100


@given(st.text(), st.integers(0, 10))
def test_a_shortened_text_is_itself_or_says_that_it_goes_on(text: str, n_letters: int) -> None:
    short = shortened(text, n_letters)
    assert short == text if len(text) <= n_letters else short == text[:n_letters] + "…"
