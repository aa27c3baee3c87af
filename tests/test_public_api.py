"""The one door: `specroof.__all__` is the whole public surface, and it is written down here."""

import inspect

import pytest

import specroof
from specroof.questions import QUESTIONS
from tables import table

PUBLIC_NAMES: list[str] = vars(specroof)["__all__"]  # which type checkers do not see

PUBLIC: list[str] = table("public_names")


def test_the_public_surface_is_the_one_written_here() -> None:
    assert sorted({*PUBLIC_NAMES} - {*QUESTIONS} | {*PUBLIC}) == PUBLIC
    assert {*PUBLIC} <= {*PUBLIC_NAMES}


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_a_public_name_exists_and_is_documented(name: str) -> None:
    value = getattr(specroof, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        # A dataclass without a docstring gets its signature for one.
        doc = inspect.getdoc(value) or ""
        assert doc
        assert not doc.startswith(f"{name}(")


def test_the_public_methods_of_public_classes_are_documented() -> None:
    undocumented = [
        f"{name}.{attribute}"
        for name in PUBLIC_NAMES
        if inspect.isclass(kind := getattr(specroof, name))
        for attribute, value in vars(kind).items()
        if not attribute.startswith("_")
        and isinstance(value, property | staticmethod | classmethod | type(lambda: None))
        and not inspect.getdoc(getattr(kind, attribute))
    ]
    assert undocumented == []
