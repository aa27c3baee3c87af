"""A page of metrics in the text format of Prometheus: names, labels and numbers.

Needs prometheus-client, which the extra `metrics` brings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from specroof.errors import MeasurementError, optional_library, reject

#: The parser's time grows with the square of the labels of a line.
_LONGEST_LINE: Final = 16_384
#: Characters of what the parser says: it may repeat a whole line.
_SHOWN: Final = 80
_PAGE: Final = "what a server's /metrics answers, in the text format of Prometheus"


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page.

    Parameters
    ----------
    name
        With the ending that tells a counter (``_total``), or a part of a histogram (``_sum``).
    labels
        What tells the series of one name apart.
    value
        A number, which may be infinite or none.
    """

    name: str
    labels: Mapping[str, str]
    value: float


def parse_metrics(text: str, *, source: str) -> list[Sample]:
    r"""Return the samples of a page, in its order.

    Parameters
    ----------
    text
        The page.
    source
        How messages name it.

    Raises
    ------
    MeasurementError
        For a text in another format, an empty page, one that ends within a line or has a line of
        more than 16 384 characters, or without prometheus-client.

    Examples
    --------
    >>> page = '# TYPE up gauge\nup{job="a"} 1.0\n'
    >>> parse_metrics(page, source="page")
    [Sample(name='up', labels={'job': 'a'}, value=1.0)]
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > _LONGEST_LINE:
            reject(
                f"{source}, line {number}: has {len(line)} characters",
                f"at most {_LONGEST_LINE}",
                MeasurementError,
            )
    parser = optional_library(
        "prometheus_client.parser", f"{source}: a page", refusal=MeasurementError
    )
    try:
        samples = [
            Sample(sample.name, dict(sample.labels), float(sample.value))
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
        ]
    # What the parser stumbles over: a name, a number, the end of a line.
    except (ValueError, IndexError, KeyError, AttributeError, TypeError, OverflowError) as problem:
        why = str(problem)[:_SHOWN]
        reject(f"{source}: is no metrics page ({why})", _PAGE, MeasurementError)
    if not samples:
        reject(f"{source}: holds no metric", _PAGE, MeasurementError)
    # The number at the end may have lost digits.
    if not text.endswith("\n"):
        reject(
            f"{source}: ends within a line", "a whole page, whose last line ends", MeasurementError
        )
    return samples
