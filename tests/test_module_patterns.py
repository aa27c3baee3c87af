"""Expressions of strangers: what `re` says of a name, in time that does not explode."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.errors import ConfigError
from specroof.parsers.formats.module_names import ModuleNames
from specroof.parsers.formats.module_patterns import ModulePattern
from tiny_configs import FP8_BLOCKS, TINY, Config, parse


def refused(config: Config) -> str:
    """Return the one line with which a config is refused."""
    with pytest.raises(ConfigError) as error:
        parse(config)
    (line,) = str(error.value).splitlines()
    return line


ATOMS = st.sampled_from(["a", "b", ".", r"\.", "[ab]", "[^a]", "[]a]", r"[\].]", r"\d", r"\w", "1"])
ANCHORS = st.sampled_from(["^", "$"])
REPEATS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,3}", "{1,}"])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return expressions around others."""
    branches = st.lists(inner | st.just(""), min_size=1, max_size=3).map("|".join)
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        branches.map("({})".format),
        branches.map("(?:{})".format),
        st.builds("(?:{}){}".format, inner, REPEATS),
        st.builds("{}{}".format, ATOMS, REPEATS),
    )


EXPRESSIONS = st.recursive(ATOMS | ANCHORS, larger, max_leaves=12)


@given(EXPRESSIONS, st.lists(st.text(alphabet="ab1._", max_size=7), min_size=1, max_size=8))
def test_a_pattern_matches_what_re_matches(expression: str, names: list[str]) -> None:
    pattern = ModulePattern(expression)
    for name in names:  # one after another: what was learnt from one must not mislead the next
        assert pattern.match(name) == bool(re.match(expression, name)), name


# Each keeps `re` busy for hours, at 60 characters and no match.
HOSTILE = [
    r"(a+)+$",
    r"(a|a)*$",
    r"(.*)*(.*)*(.*)*(.*)*x",
    r".*.*.*.*.*.*.*.*.*.*x",
    "(.|.)" * 60 + "x",
    "(a?){60}" + "a{60}x",
    r"(([a-z])+.)+[A-Z]([a-z])+$",
]


@pytest.mark.parametrize("expression", HOSTILE)
def test_a_hostile_expression_returns_quickly(expression: str) -> None:
    start = time.perf_counter()
    assert not ModulePattern(expression).match("a" * 60 + "b")
    section = FP8_BLOCKS | {"modules_to_not_convert": [f"re:{expression}"] * 3}
    parse(TINY | {"num_hidden_layers": 60, "quantization_config": section})
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    "expression",
    [
        r"a(?!b)",
        r"a(?=b)",
        r"(?<=a)b",
        r"(a)\1",
        r"(?P<n>a)",
        r"(?i)a",
        r"\ba",
        r"\x61",
        r"a{,3}",
        r"a{",
        r"(a{60}){60}",
        r"a{9999}",
        # what `re` refuses itself
        r"(a",
        r"a)",
        r"a**",
        r"*a",
        r"[a",
        "a\\",
    ],
)
def test_an_expression_that_needs_more_is_refused_in_one_line(expression: str) -> None:
    with pytest.raises(re.error):
        ModulePattern(expression)
    section = FP8_BLOCKS | {"modules_to_not_convert": [f"re:{expression}"]}
    assert "modules_to_not_convert is a list of 1; allowed: module names" in refused(
        TINY | {"quantization_config": section}
    )


def test_nesting_without_end_is_refused() -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": ["re:" + "(" * 5000 + ")" * 5000]}
    assert "modules_to_not_convert" in refused(TINY | {"quantization_config": section})


@pytest.mark.parametrize(
    ("expression", "layer", "name", "expected"),
    [
        # as they stand in files of Kimi-K2.5, Kimi-K3 and Llama-4-Scout-FP8-dynamic
        (r"re:.*self_attn.*", 3, "self_attn.q_proj", True),
        (r"re:.*self_attn", 3, "self_attn.q_proj", True),
        (r"re:.*mlp\.(gate|up|gate_up|down)_proj.*", 0, "mlp.gate_up_proj", True),
        (r"re:.*mlp\.(gate|up|gate_up|down)_proj.*", 3, "mlp.experts.0.up_proj", False),
        (r"re:.*shared_experts.*", 3, "mlp.shared_experts.up_proj", True),
        (r"re:model\.layers\.\d+\.mlp\.gate$", 12, "mlp.gate", True),
        (r"re:model\.layers\.\d+\.mlp\.gate$", 12, "mlp.gate_proj", False),
        (r"re:.*lm_head", None, "lm_head", True),
    ],
)
def test_published_expressions_name_what_they_should(
    expression: str, layer: int | None, name: str, expected: bool
) -> None:
    assert ModuleNames([expression]).match(layer, name) is expected
