"""The errors of predictions, as tables and as JSON."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from specroof.arrays import fields_of
from specroof.evidence.bundled import shape_group
from specroof.questions.validate import OwnValidated, PublishedValidated
from specroof.report.calibration import RESIDUAL_HEADER, residual_cells, residual_json
from specroof.report.layout import figure, format_table
from specroof.report.regret import regret_json, regret_lines
from specroof.scoring import Validation
from specroof.scoring.own_results import OwnErrors, OwnPoint, OwnValidation
from specroof.scoring.scores import TRUSTED, Errors, Scored, round_costs

#: Fields of `Errors`, in the order in which JSON has them: those that are errors, and the rest.
_ERRORS: Final = (
    *("speedup_p90", "speedup_median", "speedup_mean", "decode_median", "decode_mean"),
    *("drafting_median", "trees_mean"),
)
_SHARES: Final = (
    *("verdict_accuracy", "unclear_share", "regret_mean", "band80_coverage", "band80_width"),
)
_HEADINGS: Final = (
    ("n", "points"),
    ("speedup_mean", "speedup, mean"),
    ("speedup_median", "median"),
    ("speedup_p90", "90%"),
    ("shape_mean", "shape alone"),
    ("trees_mean", "trees"),
    ("decode_mean", "plain, mean"),
    ("decode_median", "median"),
    ("drafting_median", "drafting, median"),
    ("verdict_accuracy", "verdict right"),
    ("unclear_share", "unclear"),
    ("regret_mean", "regret"),
    ("band80_coverage", "in 80% band"),
    ("band80_width", "± median"),
)

#: What your own results do not say: they have no shapes, and nothing times drafting alone.
_NOT_OWN: Final = {"n", "shape_mean", "drafting_median"}
#: Columns for your own results, besides their number.
_OWN_HEADINGS: Final = tuple(one for one in _HEADINGS if one[0] not in _NOT_OWN)


def _errors_json(errors: Errors) -> dict[str, Any]:
    found = {f"{name}_error": getattr(errors, name) for name in _ERRORS}
    return {"n": errors.n, **found, **fields_of(errors, *_SHARES)}


def validation_json(found: Validation) -> dict[str, Any]:
    """Return the errors of each source, of all, and of the ideal roofline: shares, or null.

    Examples
    --------
    >>> sorted(validation_json(Validation((), (), ())))
    ['cells', 'generic', 'ideal', 'regret', 'sources', 'total']
    """
    trust = {one.source: one.point.trust for one in found.points}
    return {
        "sources": [
            {"source": name, "trust": trust[name], **_errors_json(errors)}
            for name, errors in found.sources.items()
        ],
        "total": _errors_json(found.total),
        "ideal": _errors_json(found.ideal_total),
        "generic": {
            "sources": [
                {"source": name, "trust": None, **_errors_json(errors)}
                for name, errors in found.families.items()
            ],
            "total": _errors_json(found.generic_total),
            "ideal": _errors_json(found.ideal_total),
            "strange_chips": {n: _errors_json(one) for n, one in found.strange_chips.items()},
            "engines": {name: _errors_json(one) for name, one in found.engines.items()},
            "engines_total": _errors_json(found.generic_engines_total),
        },
        "cells": {
            key: {name: _errors_json(errors) for name, errors in cells.items()}
            for key, cells in found.cells.items()
        },
        "regret": regret_json(found),
    }


def validation_table(found: Validation) -> str:
    """Return the errors as a table, and what the measurements lack that could not be scored.

    Examples
    --------
    >>> print(validation_table(Validation((), (), ())).splitlines()[1].split()[0])
    total
    """
    rows = [*found.sources.items(), ("total", found.total), ("ideal roofline", found.ideal_total)]
    trust = {one.source: one.point.trust for one in found.points}
    aside = {name: " (not in total)" for name in trust if (trust[name] or 0) > TRUSTED}
    table = _errors_table("source", [(name + aside.get(name, ""), one) for name, one in rows])
    others = [
        *((f"without {name}", errors) for name, errors in found.families.items()),
        ("all families", found.generic_total),
        *((f"on {name} (not in total)", errors) for name, errors in found.strange_chips.items()),
        *((f"without {name}", errors) for name, errors in found.engines.items()),
        ("all engines", found.generic_engines_total),
    ]
    cells = [
        (f"{key} {name}", errors)
        for key, cell in found.cells.items()
        for name, errors in cell.items()
        if errors.speedup_mean is not None
    ]
    generic = _errors_table("generic engine, fitted", others)
    by_cell = _errors_table("speedups by", cells)
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
    regret = regret_lines(found)
    return "\n".join([table, "", generic, "", by_cell, "", told, *regret, *costs, *notes])


def _errors_table(heading: str, rows: Sequence[tuple[str, Errors]]) -> str:
    """Return errors in columns, a row for each name."""
    return format_table(
        [heading, *(title for _, title in _HEADINGS)],
        [[name, *(_cell(key, getattr(one, key)) for key, _ in _HEADINGS)] for name, one in rows],
    )


def _trusted(found: Validation) -> list[Scored]:
    return [one for one in found.points if one.is_trusted]


def _shape(one: Scored) -> tuple[object, ...] | None:
    return shape_group(one.point) if one.kind == "shape" else None


def _cell(key: str, value: float | None) -> str:
    return figure(value, str if key == "n" else "{:.1%}".format)


def own_json(found: OwnValidation) -> dict[str, Any]:
    """Return the errors of each file, of all, and of the ideal roofline: shares, or null.

    Examples
    --------
    >>> sorted(own_json(OwnValidation((), ())))
    ['ideal', 'sources', 'total']
    """
    pairs = list(zip(found.points, found.ideal, strict=True))
    return {
        "sources": [
            {
                "source": name,
                "trust": None,
                **_own_errors_json(errors),
                "points": [_point_json(*pair) for pair in pairs if pair[0].source == name],
            }
            for name, errors in found.sources.items()
        ],
        "total": _own_errors_json(found.total),
        "ideal": _own_errors_json(found.ideal_total),
    }


def _own_errors_json(errors: OwnErrors) -> dict[str, Any]:
    return {**_errors_json(errors.scored), "tokens_per_s_mean_error": errors.rate_mean}


def _point_json(one: OwnPoint, ideal: OwnPoint) -> dict[str, Any]:
    known = one.scored.kind == "speedup"
    return {
        **residual_json(one.rate),
        "ideal": ideal.rate.shown,
        "ideal_off": ideal.rate.off,
        "measured_speedup": one.scored.measured if known else None,
        "predicted_speedup": one.scored.predicted if known else None,
        "ideal_speedup": ideal.scored.predicted if known else None,
        "verdict": one.scored.verdict,
    }


def own_text(found: OwnValidation) -> str:
    """Return results beside predictions as people read them: points, speedups, errors by file.

    Examples
    --------
    >>> print(own_text(OwnValidation((), ())).splitlines()[-1].split()[:2])
    ['ideal', 'roofline']
    """
    pairs = list(zip(found.points, found.ideal, strict=True))
    points = format_table(
        [*RESIDUAL_HEADER, "ideal", "off"],
        [[*residual_cells(one.rate), *residual_cells(ideal.rate)[-2:]] for one, ideal in pairs],
    )
    both = [pair for pair in pairs if pair[0].scored.kind == "speedup"]
    speedups = format_table(
        ["point", "drafts", "measured speedup", "predicted", "off", "ideal", "off", "verdict"],
        [_speedup_cells(*pair) for pair in both],
    )
    absent = "no load was measured with and without drafts: no speedup to compare"
    rows = [*found.sources.items(), ("total", found.total), ("ideal roofline", found.ideal_total)]
    errors = format_table(
        ["source", "points", "tok/s, mean", *(heading for _, heading in _OWN_HEADINGS)],
        [
            [
                name,
                str(one.scored.n),
                _cell("", one.rate_mean),
                *(_cell(key, getattr(one.scored, key)) for key, _ in _OWN_HEADINGS),
            ]
            for name, one in rows
        ],
    )
    return "\n\n".join([points, speedups if both else absent, errors])


def validated_text(answer: PublishedValidated | OwnValidated) -> str:
    """Return a validation as people read it."""
    if isinstance(answer, PublishedValidated):
        return validation_table(answer.found)
    notes = [f"note: {note}" for note in answer.notes]
    return "\n".join([f"{answer.title}\n\n{own_text(answer.found)}", *notes])


def _speedup_cells(one: OwnPoint, ideal: OwnPoint) -> list[str]:
    scored, roof = one.scored, ideal.scored
    return [
        one.rate.point.place,
        str(one.rate.point.draft_len),
        f"{scored.measured:.2f}x",
        f"{scored.predicted:.2f}x",
        f"{scored.predicted / scored.measured - 1:+.1%}",
        f"{roof.predicted:.2f}x",
        f"{roof.predicted / roof.measured - 1:+.1%}",
        {None: "-", True: "right", False: "wrong"}[scored.verdict],
    ]
