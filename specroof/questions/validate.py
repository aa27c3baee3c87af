"""How far off are predictions: over published measurements, or over my own results?"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Final

import numpy as np

from specroof.arrays import fields_of
from specroof.errors import OptionError
from specroof.evidence.bundled import shape_group
from specroof.questions.answer import Noted, title_of
from specroof.questions.benchmark import (
    Benchmark,
    BenchmarkRequest,
    Recorded,
    ResultFile,
    in_sample_notes,
)
from specroof.questions.calibrate import RESIDUAL_HEADER, residual_cells, residual_json
from specroof.questions.request import HardwareLike, ModelLike, as_list, question
from specroof.report.layout import figure, format_table
from specroof.scoring import Validation
from specroof.scoring.own_results import OwnErrors, OwnPoint, OwnValidation
from specroof.scoring.scores import TRUSTED, Errors, Regret, Scored, round_costs, worst_regrets


@dataclass(frozen=True)
class ValidateRequest(Recorded):
    """Ask how far off predictions are.

    Parameters
    ----------
    results
        Your own results, one file or several; every bundled measurement if None. All other
        parameters are about your own results.
    model
        What was served: a path, a bundled name, a Hub name, or an `Architecture`.
    hardware
        What served it: a path, a name, an alias, or a `HardwareProfile`.
    tensor_parallel, expert_parallel
        Devices, and the devices that experts are spread over; 1 if None.
    """

    results: ResultFile | Sequence[ResultFile] | None = None
    model: ModelLike | None = None
    hardware: HardwareLike | None = None
    _: KW_ONLY
    tensor_parallel: int | None = None
    expert_parallel: int | None = None

    def of_results(self) -> BenchmarkRequest:
        """Return the question about one's own results.

        Raises
        ------
        OptionError
            Unless model and hardware are given.
        """
        first = as_list(self.results)[0]
        if self.hardware is None or self.model is None:
            missing = "hardware" if self.hardware is None else "model"
            message = f"{missing} is missing; needed to predict {first}: what served it, on what"
            raise OptionError(message)
        return BenchmarkRequest(**self._given())

    def _given(self) -> dict[str, Any]:
        """Return the parameters that were given, by name."""
        every = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in every.items() if value is not None}

    def refuse_without_results(self) -> None:
        """Refuse parameters about your own results where none are given.

        Raises
        ------
        OptionError
            With the first such parameter.
        """
        given = self._given()
        options = given.pop("options", None)
        given |= options if isinstance(options, Mapping) else {"options": options}
        given.pop("results", None)
        for name, value in given.items():
            if value is not None:
                message = f"{name} is {value!r} without benchmark files; allowed: with results"
                raise OptionError(message)


@dataclass(frozen=True, repr=False, eq=False)
class PublishedValidated(Noted):
    """Predictions beside every bundled measurement.

    Attributes
    ----------
    found
        Every measurement beside its prediction, and the errors by source.
    notes, warnings
        Sentences for the reader.
    """

    found: "Validation"

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"{len(self.found.points)} points of {len(self.found.sources)} sources"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return validation_json(self.found)

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each source."""
        return list(self.to_dict()["sources"])

    def plot(self) -> Any:
        """Draw predicted against measured speedup, source by source."""
        from specroof.plot import plot_accuracy  # noqa: PLC0415 - matplotlib is slow to import

        return plot_accuracy(self.found.points)


@dataclass(frozen=True, repr=False, eq=False)
class OwnValidated(Noted):
    """Predictions beside one's own results.

    Attributes
    ----------
    benchmark
        What was measured.
    found
        Every result beside its prediction, and the errors by file.
    notes, warnings
        Sentences for the reader.
    """

    benchmark: Benchmark
    found: "OwnValidation"

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return title_of(self.benchmark.served.model, self.benchmark.served.setup)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return own_json(self.found) | {"notes": list(self.notes)}

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each result."""
        files = self.to_dict()["sources"]
        return [{"source": one["source"]} | point for one in files for point in one["points"]]

    def plot(self) -> Any:
        """Draw predicted against measured throughput, file by file."""
        from specroof.plot import plot_throughput_accuracy  # noqa: PLC0415

        rates = [(one.source, one.rate) for one in self.found.points]
        roof = [(one.source, one.rate) for one in self.found.ideal]
        return plot_throughput_accuracy(rates, roof, engine=self.benchmark.served.setup.engine.name)


@question(ValidateRequest)
def validate(request: ValidateRequest) -> PublishedValidated | OwnValidated:
    """Compare predictions with your own results, or with every bundled measurement."""
    if request.results is None or not as_list(request.results):
        request.refuse_without_results()
        from specroof.scoring import validation  # noqa: PLC0415 - reads all measurements

        return PublishedValidated(validation())
    from specroof.scoring.own_results import own_validation  # noqa: PLC0415

    measured = request.of_results().benchmark()
    setup = measured.served.setup
    found = own_validation(measured.points, measured.served, measured.drafter)
    seen = in_sample_notes(measured.labels, setup.hardware, setup.engine.name)
    return OwnValidated(measured, found, notes=(*measured.notes, *seen))


# --- The losses of following `advise`, as text and as JSON ---------------------------------------

#: How many of the worst are listed.
_WORST: Final = 5
#: A larger loss is counted.
_LARGE: Final = 0.1


def regret_json(found: Validation) -> dict[str, Any]:
    """Return the losses of following `advise`: means over trusted set-ups, and the worst of all.

    Examples
    --------
    >>> regret_json(Validation((), (), ()))["worst"]
    []
    """
    trusted = _trusted_regrets(found)
    choices = [one for one in trusted if one.is_choice]
    return {
        "setups": len(trusted),
        "mean": _mean(trusted),
        "setups_with_a_choice": len(choices),
        "mean_with_a_choice": _mean(choices),
        "setups_not_in_total": len(found.regrets) - len(trusted),
        "above_10_percent": sum(one.lost > _LARGE for one in trusted),
        "above_10_percent_not_in_total": sum(one.lost > _LARGE for one in _others(found)),
        "one_version": _most_json(_of_one_version(trusted)),
        "one_version_not_in_total": _most_json(_of_one_version(_others(found))),
        "worst": [_regret_json(one) for one in worst_regrets(found.regrets, _WORST)],
    }


def _most_json(found: list[Regret]) -> dict[str, Any]:
    return {"setups": len(found), "most": max((one.lost for one in found), default=None)}


def _regret_json(one: Regret) -> dict[str, Any]:
    point = one.options[0].point
    return {
        "lost": one.lost,
        "source": point.source,
        "in_total": one.options[0].is_trusted,
        **fields_of(point, "model", "hardware", "engine", "engine_version", "batch_size", "task"),
        "options": len(one.options),
        "taken": _option_json(one.taken),
        "best": _option_json(one.best),
        "cause": _cause(one),
        "note": _notes(one),
    }


def _option_json(one: Scored | None) -> dict[str, Any] | None:
    if one is None:
        return None
    drafts = {"drafter": one.point.method, "draft_len": one.point.draft_len}
    return drafts | fields_of(one, "predicted", "measured")


def regret_lines(found: Validation) -> Iterator[str]:
    """Yield the same in words, a sentence each; nothing where no speedup was measured.

    Examples
    --------
    >>> list(regret_lines(Validation((), (), ())))
    []
    """
    trusted = _trusted_regrets(found)
    choices = [one for one in trusted if one.is_choice]
    if not trusted:
        return
    told = f"loses {_mean(trusted):.1%} of the throughput over {len(trusted)} set-ups"
    if choices:
        told += (
            f", {_mean(choices):.1%} over the {len(choices)} in which more than one way to draft "
            f"was measured"
        )
    yield (
        f"advise, choosing among what was measured (no drafts included, acceptance lengths known), "
        f"{told}"
    )
    yield from _of_one_version_lines(trusted, _others(found))
    yield from map(_line, worst_regrets(found.regrets, _WORST))


def _of_one_version_lines(trusted: list[Regret], others: list[Regret]) -> Iterator[str]:
    for found, aside in ((trusted, ""), (others, ", in no total")):
        if alike := _of_one_version(found):
            sources = ", ".join(dict.fromkeys(one.options[0].source for one in alike))
            yield (
                f"of one engine version with drafts and without, as sources say, are {len(alike)} "
                f"set-ups ({sources}{aside}): at most {max(one.lost for one in alike):.1%} is lost"
            )


def _line(one: Regret) -> str:
    point = one.options[0].point
    aside = "" if one.options[0].is_trusted else f" (not in total{_distrust(one)})"
    where = f"{point.model} on {point.hardware}, {point.batch_size:g} in flight"
    task = f", {point.task}" if point.task else ""
    return (
        f"loses {one.lost:.1%} in {point.source}{aside}, {where}{task}: takes {_option(one.taken)}, "
        f"best is {_option(one.best)}; {_cause(one)}"
    )


def _distrust(one: Regret) -> str:
    """Return the notes on a source that is not trusted."""
    notes = _notes(one)
    return f": {notes}" if notes else ""


def _notes(one: Regret) -> str:
    return "; ".join(
        dict.fromkeys(option.point.note for option in one.options if option.point.note)
    )


def _option(one: Scored | None) -> str:
    if one is None:
        return "no drafts"
    return f"{_drafts(one)} ({one.measured:.2f}x measured, {one.predicted:.2f}x predicted)"


def _drafts(one: Scored) -> str:
    return f"{one.point.method} K={one.point.draft_len}"


def _cause(one: Regret) -> str:
    """Return the mispredicted time of a round: acceptance lengths are the measured ones.

    Of the option taken and the best one, the worse predicted is to blame.
    """
    drafting = [option for option in (one.taken, one.best) if option is not None]
    blamed = max(drafting, key=lambda option: option.off)
    tokens = blamed.point.tokens_per_round or 1.0
    return (
        f"a round of {_drafts(blamed)} took {tokens / blamed.measured:.2f} plain steps, "
        f"{tokens / blamed.predicted:.2f} predicted"
    )


def _mean(found: list[Regret]) -> float | None:
    return float(np.mean([one.lost for one in found])) if found else None


def _trusted_regrets(found: Validation) -> list[Regret]:
    return [one for one in found.regrets if one.options[0].is_trusted]


def _of_one_version(found: list[Regret]) -> list[Regret]:
    return [one for one in found if one.options[0].point.engine_version]


def _others(found: Validation) -> list[Regret]:
    return [one for one in found.regrets if not one.options[0].is_trusted]


# --- The errors of predictions, as tables and as JSON --------------------------------------------

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
