"""The tables of published measurements that come with the package."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import resources

from specroof.errors import MeasurementError
from specroof.evidence.measurement import STEP, Measurement
from specroof.reading.yaml_text import shown

_WHOLE = ("tensor_parallel", "draft_len", "verify_len", "top_k")
_NUMBERS = (
    "batch_size", "context_len", "input_len", "output_len", "acceptance_length", "tokens_per_s",
    "baseline_tokens_per_s", "speedup",
)  # fmt: skip
#: Columns of few tables: what drafting alone takes, and children of each draft.
_OF_DRAFTING = ("draft_s", "draft_share")
_OF_FEW = ("top_k", *_OF_DRAFTING)
#: Methods without drafts: plain decoding, and one bare pass over the new positions.
_PLAIN = ("ar", STEP)
_TEXTS = ("model", "hardware", "engine", "method", "lengths", "task", "reading", "note")


def parse_measurements(text: str, *, source: str, file: str) -> tuple[Measurement, ...]:
    """Return the measurements that a bundled file holds.

    Parameters
    ----------
    text
        The whole file: lines of ``# key: value``, among them ``trust`` and, where the source says
        which engine version ran with drafts and without, ``version``; then CSV.
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
        replace(
            _measurement(row, f"{file}:{first + rows.line_num}"),
            source=source,
            trust=int(head["trust"]),
            engine_version=head.get("version", ""),
        )
        for row in rows
    )


def _measurement(row: dict[str, str], place: str) -> Measurement:
    if None in row or None in row.values():
        message = f"{place}: has another number of cells than the heading"
        raise MeasurementError(message)
    row = {**dict.fromkeys(_OF_FEW, ""), **row}
    number = {key: _number(row, key, place) for key in (*_WHOLE, *_NUMBERS, *_OF_DRAFTING)}
    whole = {key: None if number[key] is None else int(number[key] or 0) for key in _WHOLE}
    if row["includes_prefill"] not in {"yes", "no"}:
        told = shown(row["includes_prefill"])
        message = f"{place}: includes_prefill is {told}; allowed: yes, no"
        raise MeasurementError(message)
    fields = {
        **number,
        **whole,
        **{key: row[key] for key in _TEXTS},
        "draft_len": 0 if row["method"] in _PLAIN else whole["draft_len"],
        "tokens_per_round": number["acceptance_length"],
        "acceptance_kind": row["acceptance_kind"] or None,
        "includes_prefill": row["includes_prefill"] == "yes",
    }
    del fields["acceptance_length"]
    return Measurement(place=place, **fields)  # type: ignore[arg-type]  # by name


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
