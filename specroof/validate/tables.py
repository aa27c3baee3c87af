"""What a validation found, as a table for people and as JSON."""

from collections import Counter
from typing import Any, Final

from specroof.validate import TRUSTED, Validation
from specroof.validate.scores import Errors, Scored, round_costs, shape_group

__all__ = ["validation_json", "validation_table"]

_KEYS: Final = {
    "n": "n",
    "speedup_p90_error": "speedup_p90",
    "speedup_median_error": "speedup_median",
    "speedup_mean_error": "speedup_mean",
    "decode_median_error": "decode_median",
    "decode_mean_error": "decode_mean",
    "verdict_accuracy": "verdict_accuracy",
    "regret_mean": "regret_mean",
}

_HEADINGS: Final = (
    ("n", "points"),
    ("speedup_mean", "speedup, mean"),
    ("speedup_median", "median"),
    ("speedup_p90", "90 %"),
    ("shape_mean", "shape alone"),
    ("decode_mean", "plain, mean"),
    ("decode_median", "median"),
    ("verdict_accuracy", "verdict right"),
    ("regret_mean", "regret"),
)


def _errors_json(errors: Errors) -> dict[str, Any]:
    return {key: getattr(errors, name) for key, name in _KEYS.items()}


def validation_json(found: Validation) -> dict[str, Any]:
    """Return the errors of each source, of all, and of the ideal roofline: shares, or null.

    Examples
    --------
    >>> sorted(validation_json(Validation((), (), ())))
    ['ideal', 'sources', 'total']
    """
    trust = {one.source: one.point.trust for one in found.points}
    return {
        "sources": [
            {"source": name, "trust": trust[name], **_errors_json(errors)}
            for name, errors in found.sources.items()
        ],
        "total": _errors_json(found.total),
        "ideal": _errors_json(found.ideal_total),
    }


def validation_table(found: Validation) -> str:
    """Return the errors as a table, and what the measurements lack that could not be scored.

    Examples
    --------
    >>> print(validation_table(Validation((), (), ())).splitlines()[1].split()[0])
    total
    """
    rows = [*found.sources.items(), ("total", found.total), ("ideal roofline", found.ideal_total)]
    cells = [["source", *(heading for _, heading in _HEADINGS)]]
    trust = {one.source: one.point.trust for one in found.points}
    for name, errors in rows:
        aside = " (not in total)" if trust.get(name, 0) > TRUSTED else ""
        cells.append([name + aside, *(_cell(key, getattr(errors, key)) for key, _ in _HEADINGS)])
    widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    lacking = Counter((point.source, missing) for point, missing in found.lacking)
    notes = [
        f"not scored: {count} of {source}, without {missing}"
        for (source, missing), count in lacking.items()
    ]
    freed = len({shape for shape in map(_shape, found.points) if shape})
    told = (
        "Errors are shares of what was measured. Speedup: the acceptance length is known. Shape "
        f"alone: it is not, and one factor is free in each of {freed} groups."
    )
    costs = [
        f"one round of {method}: {cost.predicted:.2f} plain steps predicted, {cost.measured:.2f} "
        f"measured, {cost.mean_error:.1%} off on average over {cost.n} points"
        for method, cost in round_costs(_trusted(found)).items()
    ]
    return "\n".join([*lines, "", told, *costs, *notes])


def _trusted(found: Validation) -> list[Scored]:
    return [one for one in found.points if one.point.trust <= TRUSTED]


def _shape(one: Scored) -> tuple[object, ...] | None:
    return shape_group(one.point) if one.kind == "shape" else None


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value}" if key == "n" else f"{value:.1%}"
