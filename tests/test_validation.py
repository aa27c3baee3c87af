"""What a pydantic class lets through, and the one line that everything else is answered with."""

import sys
from typing import Annotated, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from specroof.errors import ProfileError
from specroof.reading.checked import Count, FirstVersion, Text, accept, parse_model
from tables import refusal, rows

LONG = "x" * 100_000


def refused(text: str, model: type[BaseModel]) -> str:
    line = refusal(ProfileError, parse_model, text, model, source="x.yaml", error=ProfileError)
    assert line.startswith("x.yaml: ")
    return line.removeprefix("x.yaml: ")


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    size: int
    flag: bool = False


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    one: Inner | None = None
    other: None | Inner = None  # noqa: RUF036 - the order is what is tested
    many: dict[str, Inner] = {}
    names: list[str] = Field(default=[], min_length=1)


@pytest.mark.parametrize(("text", "message"), rows("refusals", "checked_keys"))
def test_a_model_is_refused_in_one_line_with_key_value_and_what_is_allowed(
    text: str, message: str
) -> None:
    assert refused(text, Outer) == message


@pytest.mark.parametrize("text", [f"? {LONG}\n: 1", f"one: {{size: '{'1' * 100_000}'}}"])
def test_a_refused_model_is_described_shortly_whatever_stands_in_it(text: str) -> None:
    assert len(refused(text, Outer)) <= len("…") + 800  # all keys of an engine


class Pair(BaseModel):
    """A block with a check across its keys, which names the one it means."""

    low: int
    high: int

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            message = f"high is {self.high}; allowed: at least low, which is {self.low}"
            raise ValueError(message)
        return self


class Pairs(BaseModel):
    listed: list[Pair] = []
    named: dict[str, Pair] = {}
    lone: Pair | None = None


@pytest.mark.parametrize(
    ("model", "text", "key"),
    [
        (Pair, "{low: 2, high: 1}", "high"),
        (Pairs, "lone: {low: 2, high: 1}", "lone.high"),
        (Pairs, "named: {a: {low: 2, high: 1}}", "named.a.high"),
        (Pairs, "listed: [{low: 0, high: 1}, {low: 2, high: 1}]", "listed.1.high"),
    ],
)
def test_a_check_across_keys_is_reported_with_the_dotted_key(
    model: type[BaseModel], text: str, key: str
) -> None:
    assert refused(text, model) == f"{key} is 1; allowed: at least low, which is 2"


# NaN fails every comparison, and infinity the upper bound.
LARGEST = sys.float_info.max
Positive = Annotated[float, accept("a number above 0", lambda one: 0 < one <= LARGEST, int, float)]
NonNegative = Annotated[
    float, accept("a number of at least 0", lambda one: 0 <= one <= LARGEST, int, float)
]


class Values(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    positive: Positive = 1
    non_negative: NonNegative = 0
    count: Count = 1
    text: Text = "a"
    version: FirstVersion = 1
    even: Annotated[int, accept("an even number", lambda number: number % 2 == 0, int)] = 2


ALLOWED = {
    "positive": "a number above 0",
    "non_negative": "a number of at least 0",
    "count": "a whole number of at least 1",
    "text": "text, and not empty",
    "version": "1, the only version so far",
    "even": "an even number",
}


@pytest.mark.parametrize(("key", "written", "read"), rows("values", "checked_values"))
def test_a_value_that_fits_is_read(key: str, written: str, read: object) -> None:
    values = parse_model(f"{key}: {written}", Values, source="x.yaml", error=ProfileError)
    value = getattr(values, key)
    assert value == read
    assert type(value) is type(read)


@pytest.mark.parametrize(("key", "written", "shown"), rows("refusals", "checked_numbers"))
def test_a_value_that_does_not_fit_is_refused_with_what_would(
    key: str, written: str, shown: str
) -> None:
    said = refused(f"{key}: {written}", Values)
    assert said == f"{key} is {shown}; allowed: {ALLOWED[key]}"


@pytest.mark.parametrize("key", ["positive", "non_negative", "count", "version", "even"])
def test_a_number_that_yaml_reads_as_text_is_spelt_out(key: str) -> None:
    said = refused(f"{key}: 2e3", Values)
    assert said == f"{key} is '2e3', which YAML reads as text; write 2.0e+3"
