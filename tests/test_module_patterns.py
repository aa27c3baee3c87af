"""Expressions of strangers: what `re` says of a name, in time that does not explode."""

import re

import pytest

from effort import cpu_bound
from specroof.errors import ConfigError
from specroof.parsers.formats import ModuleNames
from tiny_configs import FP8_BLOCKS, TINY, Config, parse


def refused(config: Config) -> str:
    """Return the one line with which a config is refused."""
    with pytest.raises(ConfigError) as error:
        parse(config)
    (line,) = str(error.value).splitlines()
    return line


# Each keeps `re` busy for hours, at 60 characters and no match.
HOSTILE = [
    r"(a+)+$",
    r"(a|a)*$",
    r"(.*)*(.*)*(.*)*(.*)*x",
    r".*.*.*.*.*.*.*.*.*.*x",
    ".?" * 40 + "x",
    r".{0,99}.{0,99}.{0,99}x",
    "(.|.)" * 50 + "x",
    "(a?){60}" + "a{60}x",
    r"(([a-z])+.)+[A-Z]([a-z])+$",
]


@pytest.mark.parametrize("expression", HOSTILE)
def test_a_hostile_expression_returns_quickly(expression: str) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": [f"re:{expression}"] * 3}
    with cpu_bound(30):
        line = refused(TINY | {"num_hidden_layers": 60, "quantization_config": section})
    assert "allowed: module names" in line


# All that is let through, at its worst: as many patterns as may stand in a list.
AT_THE_LIMIT = [
    [f"re:.*{chr(97 + n)}0.*{chr(97 + n)}1$" for n in range(6)],
    [f"re:.*x{n}$" for n in range(300)],
    [f"*x{n}*y" for n in range(300)],
    [f"re:.*{'.?' * 8}x1$"],
    [f"layers.0.*{n}*x" for n in range(300)],
    [f"layers.{n}.mlp" for n in range(49_152)],
    ["re:" + r"\d+" * 60 + "x"],
    ["re:" + r"(.|.)" * 14 + "x1$"],
]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("entries", AT_THE_LIMIT)
def test_the_longest_list_that_is_read_is_read_quickly(entries: list[str]) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": entries}
    with cpu_bound(60):  # takes 2
        parse(TINY | {"num_hidden_layers": 100, "quantization_config": section})


@pytest.mark.parametrize(
    "entries",
    [
        [f"re:.*x{n}$" for n in range(2000)],
        [f"*x{n}*" for n in range(2000)],
        [f"layers.0.*x{n}*" for n in range(2000)],
        ["re:" + "a|" * 200_000],
        ["*" * 400_000],
        ["x" * 400_000],
    ],
)
def test_more_patterns_than_any_list_has_are_refused_quickly(entries: list[str]) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": entries}
    with cpu_bound(30):
        line = refused(TINY | {"quantization_config": section})
    assert "allowed: module names" in line


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
        ModuleNames([f"re:{expression}"])
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
        # as people write them
        (r"re:.*layers\.[0-9]+\.mlp\.experts\.\d+\..*_proj$", 3, "mlp.experts.0.up_proj", True),
        (r"re:.*layers\.(?:0|1|2)\.", 3, "mlp.gate", False),
        (r"re:.*layers\.\d{1,2}\.mlp.*?gate", 3, "mlp.gate", True),
    ],
)
def test_published_expressions_name_what_they_should(
    expression: str, layer: int | None, name: str, expected: bool
) -> None:
    assert ModuleNames([expression]).match(layer, name) is expected
