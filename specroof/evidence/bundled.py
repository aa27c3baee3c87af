"""Published measurements of speculative decoding that come with the package, as records."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from specroof.errors import MeasurementError
from specroof.reading.yaml_text import shown

__all__ = ["Measurement", "load_measurements", "parse_measurements"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """One measured point: what ran where, under which load, and what came out.

    Attributes
    ----------
    source
        The table that it stands in: the name of its file.
    model, hardware, engine
        By the names that `load_model`, `load_hardware` and an engine profile have.
    tensor_parallel
        Devices that the model was split over.
    method
        ``"ar"`` for plain decoding, ``"step"`` for a bare pass over `verify_len` positions, else
        the kind of drafter.
    draft_len, verify_len
        Drafts in a row, and positions verified per sequence, the root included.
    batch_size
        Sequences in flight.
    context_len, input_len, output_len
        Tokens of a request: mean while decoding, prompt, answer. Many sources print none.
    acceptance_length, acceptance_kind
        Tokens per round, bonus token included, and over what it is a mean: ``"pooled"`` rounds,
        ``"per-request"``, or ``"unknown"``.
    tokens_per_s, baseline_tokens_per_s, speedup
        Of the whole batch, of the same without speculation, and their ratio where it is printed.
    includes_prefill
        Whether the time of prompts is in the rates.
    trust
        The trust order of the source: 1 to 3 calibrate, larger ones do not.
    lengths, reading, note, task
        How lengths and figures were read, what else there is to say, and what was asked.
    """

    source: str
    model: str
    hardware: str
    engine: str
    tensor_parallel: int | None
    method: str
    draft_len: int | None
    verify_len: int | None
    batch_size: float | None
    context_len: float | None
    input_len: float | None
    output_len: float | None
    acceptance_length: float | None
    acceptance_kind: str | None
    tokens_per_s: float | None
    baseline_tokens_per_s: float | None
    speedup: float | None
    includes_prefill: bool
    trust: int
    lengths: str = ""
    reading: str = ""
    note: str = ""
    task: str = ""


_WHOLE = ("tensor_parallel", "draft_len", "verify_len")
_NUMBERS = (
    "batch_size", "context_len", "input_len", "output_len", "acceptance_length", "tokens_per_s",
    "baseline_tokens_per_s", "speedup",
)  # fmt: skip
_TEXTS = ("model", "hardware", "engine", "method", "lengths", "task", "reading", "note")


def parse_measurements(text: str, *, source: str, file: str) -> tuple[Measurement, ...]:
    """Return the measurements that a bundled file holds.

    Parameters
    ----------
    text
        The whole file: lines of ``# key: value``, of which ``trust`` is one, then CSV.
    source
        What the records call it.
    file
        How messages name it.

    Raises
    ------
    MeasurementError
        One line with the file, the line, the key and what is allowed.
    """
    lines = text.splitlines()
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    if not head.get("trust", "").isdigit():
        message = f"{file}: trust is {head.get('trust')!r}; allowed: a whole number"
        raise MeasurementError(message)
    first = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    rows = csv.DictReader(lines[first:])
    return tuple(
        _measurement(row, source, int(head["trust"]), f"{file}:{first + rows.line_num}")
        for row in rows
    )


def _measurement(row: dict[str, str], source: str, trust: int, place: str) -> Measurement:
    if None in row or None in row.values():
        message = f"{place}: has another number of cells than the heading"
        raise MeasurementError(message)
    number = {key: _number(row, key, place) for key in (*_WHOLE, *_NUMBERS)}
    whole = {key: None if number[key] is None else int(number[key] or 0) for key in _WHOLE}
    if row["includes_prefill"] not in {"yes", "no"}:
        told = shown(row["includes_prefill"])
        message = f"{place}: includes_prefill is {told}; allowed: yes, no"
        raise MeasurementError(message)
    fields = {
        **number,
        **whole,
        **{key: row[key] for key in _TEXTS},
        "acceptance_kind": row["acceptance_kind"] or None,
        "includes_prefill": row["includes_prefill"] == "yes",
    }
    return Measurement(source=source, trust=trust, **fields)  # type: ignore[arg-type]  # by name


def _number(row: dict[str, str], key: str, place: str) -> float | None:
    if row[key] == "":
        return None
    try:
        value = float(row[key])
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        message = f"{place}: {key} is {shown(row[key])}; allowed: a number above 0, or nothing"
        raise MeasurementError(message)
    return value


def _files() -> Iterator[tuple[str, str]]:
    folder = resources.files("specroof.evidence").joinpath("measurements")
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".csv"):
            yield file.name, file.read_text(encoding="utf-8")


@cache
def load_measurements() -> tuple[Measurement, ...]:
    """Return every measurement that comes with the package.

    Raises
    ------
    MeasurementError
        If a file is broken.

    Examples
    --------
    >>> load_measurements()[0].trust <= 5
    True
    """
    return tuple(
        point
        for name, text in _files()
        for point in parse_measurements(text, source=name.removesuffix(".csv"), file=name)
    )
