"""The one door: `specroof.__all__` is the whole public surface, and it is written down here."""

import inspect

import specroof
from specroof.questions import QUESTIONS
from tables import table

PUBLIC_NAMES: list[str] = vars(specroof)["__all__"]  # which type checkers do not see

PUBLIC: list[str] = table("public_names")


def test_the_public_surface_is_the_one_written_here() -> None:
    assert sorted({*PUBLIC_NAMES} - {*QUESTIONS} | {*PUBLIC}) == PUBLIC
    assert {*PUBLIC} <= {*PUBLIC_NAMES}


def test_public_names_exist_and_are_documented() -> None:
    values = {name: getattr(specroof, name) for name in PUBLIC_NAMES}
    # A dataclass without a docstring gets its signature for one.
    assert not [
        name
        for name, value in values.items()
        if (inspect.isclass(value) or inspect.isroutine(value))
        and (inspect.getdoc(value) or f"{name}(").startswith(f"{name}(")
    ]


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
