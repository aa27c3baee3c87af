"""How far off are predictions: over published measurements, or over my own results?"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from specroof import quantities as q
from specroof.arrays import fields_of
from specroof.errors import OptionError, refuse
from specroof.evidence.bundled import shape_group
from specroof.questions.answer import Charted, case_of, rows_table, title_of
from specroof.questions.benchmark import (
    RESULTS,
    Benchmark,
    BenchmarkRequest,
    Recorded,
    ResultFile,
    in_sample_notes,
)
from specroof.questions.calibrate import (
    RESIDUAL_HEADER,
    ResidualRow,
    residual_cells,
    residual_fields,
    throughput_chart,
)
from specroof.questions.request import (
    FORMATS,
    SHARED,
    Command,
    HardwareLike,
    ModelLike,
    Parameter,
    as_list,
    question,
)
from specroof.report.layout import format_table
from specroof.scoring import Validation
from specroof.scoring.bands import COUNTED_CELL, Coverage, band_coverage
from specroof.scoring.local import (
    LocalScore,
    draft_len_regrets,
    errors_of,
    local_errors,
    local_scores,
)
from specroof.scoring.long_contexts import LongContextScore, long_context_scores, mean_off
from specroof.scoring.own_results import OwnErrors, OwnPoint, OwnValidation, own_validation
from specroof.scoring.scores import TRUSTED, Errors, Regret, Scored, round_costs, worst_regrets
from specroof.scoring.served import TPOT_RATIO, ServedErrors, ServedValidation
from specroof.scoring.splits import SplitScore, split_errors
from specroof.scoring.stored import published


@dataclass(frozen=True)
class ValidateRequest(Recorded):
    """Ask how far off predictions are."""

    results: Annotated[
        ResultFile | Sequence[ResultFile] | None,
        replace(
            RESULTS,
            flag="[BENCH…]",
            in_python="Every bundled measurement if None; all other parameters are about your own "
            "results.",
            shown=False,
        ),
    ] = None
    model: Annotated[
        ModelLike | None,
        Parameter(
            "Model that BENCH served: a config.json, a bundled model or a Hub name.",
            "--model",
            in_python="Or an `Architecture`.",
        ),
    ] = None
    hardware: Annotated[
        HardwareLike | None,
        replace(
            SHARED["hardware"],
            about="Hardware that BENCH ran on: a YAML file, or a name or alias that "
            "`specroof hardware` lists.",
        ),
    ] = None
    _: KW_ONLY
    tensor_parallel: Annotated[
        int | None, replace(SHARED["tensor_parallel"], flag="--tp", shown="1", panel=None)
    ] = None
    expert_parallel: Annotated[
        int | None, replace(SHARED["expert_parallel"], shown="1", panel=None)
    ] = None
    played: Annotated[
        bool,
        Parameter(
            "Play the published loads of servers through as well, request by request. Without BENCH."
        ),
    ] = False

    def of_results(self) -> BenchmarkRequest:
        """Return the question about the user's results.

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
        if self.played:
            refuse("played", self.played, "without benchmark files")
        return BenchmarkRequest(**self._given())

    def _given(self) -> dict[str, Any]:
        """Return the parameters about the user's results that were given, by name."""
        names = (field.name for field in fields(self) if field.name != "played")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def refuse_without_results(self) -> None:
        """Refuse parameters about the user's results where none are given.

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


@dataclass(frozen=True, kw_only=True)
class ErrorsRow(q.Row):
    """The errors of one source, as shares of what was measured; see `Errors`."""

    source: Annotated[str, q.SOURCE]
    trust: Annotated[int | None, q.TRUST]
    n: Annotated[int, q.POINTS]
    speedup_mean_error: Annotated[float | None, q.ERRORS["speedup_mean_error"]]
    speedup_median_error: Annotated[float | None, q.ERRORS["speedup_median_error"]]
    speedup_p90_error: Annotated[float | None, q.ERRORS["speedup_p90_error"]]
    shape_mean_error: Annotated[float | None, q.ERRORS["shape_mean_error"]]
    trees_mean_error: Annotated[float | None, q.ERRORS["trees_mean_error"]]
    decode_mean_error: Annotated[float | None, q.ERRORS["decode_mean_error"]]
    decode_median_error: Annotated[float | None, q.ERRORS["decode_median_error"]]
    drafting_median_error: Annotated[float | None, q.ERRORS["drafting_median_error"]]
    verdict_accuracy: Annotated[float | None, q.ERRORS["verdict_accuracy"]]
    unclear_share: Annotated[float | None, q.ERRORS["unclear_share"]]
    regret_mean: Annotated[float | None, q.ERRORS["regret_mean"]]
    band80_coverage: Annotated[float | None, q.ERRORS["band80_coverage"]]
    band80_width: Annotated[float | None, q.ERRORS["band80_width"]]


@dataclass(frozen=True, kw_only=True)
class OwnErrorsRow(ErrorsRow):
    """The errors of one file of results."""

    tokens_per_s_mean_error: Annotated[float | None, q.ERRORS["tokens_per_s_mean_error"]]


@dataclass(frozen=True, kw_only=True)
class OwnRow(ResidualRow):
    """A result beside its predictions by the profile and by the ideal roofline.

    Speedups are known where its load was measured without drafts too, and its acceptance is known.
    """

    source: Annotated[str, q.SOURCE]
    ideal: Annotated[float, q.IDEAL]
    ideal_off: Annotated[float, q.IDEAL_OFF]
    measured_speedup: Annotated[float | None, q.SPEEDUPS["measured_speedup"]]
    predicted_speedup: Annotated[float | None, q.SPEEDUPS["predicted_speedup"]]
    ideal_speedup: Annotated[float | None, q.SPEEDUPS["ideal_speedup"]]
    is_right: Annotated[bool | None, q.IS_RIGHT]


@dataclass(frozen=True, repr=False, eq=False)
class PublishedValidated(Charted):
    """Predictions beside every bundled measurement.

    Attributes
    ----------
    validation
        Every measurement beside its prediction, and the errors by source.
    served
        The same of published loads of servers.
    long_contexts
        The same of published costs of long contexts.
    coverage
        How many measurements bands hold, by what they are of.
    splits
        Published loads of prefill and decode workers beside predictions.
    local
        Measurements of local machines beside predictions.
    notes, warnings
        Sentences for the reader.
    """

    validation: Validation
    served: ServedValidation
    long_contexts: tuple[LongContextScore, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    splits: tuple[SplitScore, ...] = ()
    local: tuple[LocalScore, ...] = ()

    @property
    def found(self) -> Validation:
        """The name of old of `validation`."""
        return self.validation

    @property
    def title(self) -> str:
        """The number of points and sources, in one line."""
        return f"{len(self.validation.points)} points of {len(self.validation.sources)} sources"

    def text(self) -> str:
        """Return errors by source, losses by `advise`, errors of servers and of long contexts."""
        parts = [validation_table(self.validation), served_text(self.served)]
        parts += [coverage_text(self.coverage)] if self.coverage else []
        parts += [split_text(self.splits)] if self.splits else []
        parts += [local_text(self.local)] if self.local else []
        return "\n\n".join([*parts, *long_context_tables(self.long_contexts)])

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return self.envelope(
            validation_json(self.validation)
            | {
                "served": served_json(self.served),
                "long_contexts": [long_context_json(score) for score in self.long_contexts],
                "coverage": [asdict(cell) for cell in self.coverage],
                "splits": split_json(self.splits),
                "local": local_json(self.local),
            }
        )

    @property
    def rows(self) -> tuple[ErrorsRow, ...]:
        """A row for each source."""
        return tuple(source_rows(self.validation))

    def figures(self) -> dict[str, Any]:
        """Return the chart of predicted against measured speedup, source by source."""
        return {"": accuracy_chart(self.validation)}


@dataclass(frozen=True, repr=False, eq=False)
class OwnValidated(Charted):
    """Predictions beside the user's results.

    Attributes
    ----------
    benchmark
        The results.
    validation
        Every result beside its prediction, and the errors by file.
    notes, warnings
        Sentences for the reader.
    """

    benchmark: Benchmark
    validation: OwnValidation

    @property
    def found(self) -> OwnValidation:
        """The name of old of `validation`."""
        return self.validation

    @property
    def title(self) -> str:
        """The model, devices and engine, in one line."""
        return title_of(self.benchmark.served.model, self.benchmark.served.setup)

    def text(self) -> str:
        """Return results beside predictions, speedups, errors by file, and notes."""
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([f"{self.title}\n\n{own_text(self.validation)}", *notes])

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        served = self.benchmark.served
        return self.envelope(case_of(served.model, served.setup, None) | own_json(self.validation))

    @property
    def rows(self) -> tuple[OwnRow, ...]:
        """A row for each result."""
        return tuple(map(own_row, self.validation.points, self.validation.ideal))

    def figures(self) -> dict[str, Any]:
        """Return the chart of predicted against measured throughput, file by file."""
        rates = [(point.source, point.rate) for point in self.validation.points]
        ideal = [(point.source, point.rate) for point in self.validation.ideal]
        engine = self.benchmark.served.setup.engine.name
        return {"": throughput_chart(rates, ideal, engine=engine)}


@question(ValidateRequest)
def validate(request: ValidateRequest) -> PublishedValidated | OwnValidated:
    """Compare predictions with your own results, or with every bundled measurement."""
    if request.results is None or not as_list(request.results):
        request.refuse_without_results()
        measured, served, splits = published(played=request.played)
        coverage = band_coverage(measured.points, served.counted)
        return PublishedValidated(
            measured, served, long_context_scores(), coverage, splits, local_scores()
        )
    benchmark = request.of_results().benchmark()
    setup = benchmark.served.setup
    validation = own_validation(benchmark.points, benchmark.served, benchmark.drafter)
    in_sample = in_sample_notes(benchmark.labels, setup.hardware, setup.engine.name)
    return OwnValidated(benchmark, validation, notes=(*benchmark.notes, *in_sample))


# --- The losses of following `advise`, as text and as JSON ---------------------------------------

#: How many of the worst are listed.
_WORST: Final = 5
#: A larger loss is counted.
_LARGE: Final = 0.1


def regret_json(validation: Validation) -> dict[str, Any]:
    """Return the losses of following `advise`: means over trusted set-ups, and the worst of all.

    Examples
    --------
    >>> regret_json(Validation((), (), ()))["worst"]
    []
    """
    trusted = _trusted_regrets(validation)
    choices = [regret for regret in trusted if regret.is_choice]
    return {
        "setups": len(trusted),
        "mean": _mean(trusted),
        "setups_with_a_choice": len(choices),
        "mean_with_a_choice": _mean(choices),
        "setups_not_in_total": len(validation.regrets) - len(trusted),
        "above_10_percent": sum(regret.lost > _LARGE for regret in trusted),
        "above_10_percent_not_in_total": sum(
            regret.lost > _LARGE for regret in _others(validation)
        ),
        "one_version": _most_json(_of_one_version(trusted)),
        "one_version_not_in_total": _most_json(_of_one_version(_others(validation))),
        "worst": [_regret_json(regret) for regret in worst_regrets(validation.regrets, _WORST)],
    }


def _most_json(regrets: list[Regret]) -> dict[str, Any]:
    return {"setups": len(regrets), "most": max((regret.lost for regret in regrets), default=None)}


def _regret_json(regret: Regret) -> dict[str, Any]:
    point = regret.options[0].point
    return {
        "lost": regret.lost,
        "source": point.source,
        "in_total": regret.options[0].is_trusted,
        **fields_of(point, "model", "hardware", "engine", "engine_version", "batch_size", "task"),
        "options": len(regret.options),
        "taken": _option_json(regret.taken),
        "best": _option_json(regret.best),
        "cause": _cause(regret),
        "note": _notes(regret),
    }


def _option_json(scored: Scored | None) -> dict[str, Any] | None:
    if scored is None:
        return None
    drafts = {"drafter": scored.point.method, "draft_len": scored.point.draft_len}
    return drafts | fields_of(scored, "predicted", "measured")


def regret_lines(validation: Validation) -> Iterator[str]:
    """Yield the same in words, a sentence each; nothing where no speedup was measured.

    Examples
    --------
    >>> list(regret_lines(Validation((), (), ())))
    []
    """
    trusted = _trusted_regrets(validation)
    choices = [regret for regret in trusted if regret.is_choice]
    if not trusted:
        return
    losses = f"loses {_mean(trusted):.1%} of the throughput over {len(trusted)} set-ups"
    if choices:
        losses += (
            f", {_mean(choices):.1%} over the {len(choices)} in which more than one way to draft "
            f"was measured"
        )
    yield (
        f"advise, choosing among what was measured (no drafts included, acceptance lengths known), "
        f"{losses}"
    )
    yield from _of_one_version_lines(trusted, _others(validation))
    yield from map(_line, worst_regrets(validation.regrets, _WORST))


def _of_one_version_lines(trusted: list[Regret], others: list[Regret]) -> Iterator[str]:
    for regrets, aside in ((trusted, ""), (others, ", in no total")):
        if alike := _of_one_version(regrets):
            sources = ", ".join(dict.fromkeys(regret.options[0].source for regret in alike))
            yield (
                f"of one engine version with drafts and without, as sources say, are {len(alike)} "
                f"set-ups ({sources}{aside}): at most {max(regret.lost for regret in alike):.1%} is lost"
            )


def _line(regret: Regret) -> str:
    point = regret.options[0].point
    aside = "" if regret.options[0].is_trusted else f" (not in total{_distrust(regret)})"
    where = f"{point.model} on {point.hardware}, {point.batch_size:g} in flight"
    task = f", {point.task}" if point.task else ""
    return (
        f"loses {regret.lost:.1%} in {point.source}{aside}, {where}{task}: takes {_option(regret.taken)}, "
        f"best is {_option(regret.best)}; {_cause(regret)}"
    )


def _distrust(regret: Regret) -> str:
    """Return the notes on a source that is not trusted."""
    notes = _notes(regret)
    return f": {notes}" if notes else ""


def _notes(regret: Regret) -> str:
    return "; ".join(
        dict.fromkeys(option.point.note for option in regret.options if option.point.note)
    )


def _option(scored: Scored | None) -> str:
    if scored is None:
        return "no drafts"
    return f"{_drafts(scored)} ({scored.measured:.2f}x measured, {scored.predicted:.2f}x predicted)"


def _drafts(scored: Scored) -> str:
    return f"{scored.point.method} K={scored.point.draft_len}"


def _cause(regret: Regret) -> str:
    """Return the mispredicted time of a round: acceptance lengths are the measured ones.

    Of the option taken and the best regret, the worse predicted is to blame.
    """
    drafting = [option for option in (regret.taken, regret.best) if option is not None]
    blamed = max(drafting, key=lambda option: option.off)
    tokens = blamed.point.tokens_per_round or 1.0
    return (
        f"a round of {_drafts(blamed)} took {tokens / blamed.measured:.2f} plain steps, "
        f"{tokens / blamed.predicted:.2f} predicted"
    )


def _mean(regrets: list[Regret]) -> float | None:
    return float(np.mean([regret.lost for regret in regrets])) if regrets else None


def _trusted_regrets(validation: Validation) -> list[Regret]:
    return [regret for regret in validation.regrets if regret.options[0].is_trusted]


def _of_one_version(regrets: list[Regret]) -> list[Regret]:
    return [regret for regret in regrets if regret.options[0].point.engine_version]


def _others(validation: Validation) -> list[Regret]:
    return [regret for regret in validation.regrets if not regret.options[0].is_trusted]


# --- The errors of predictions, as tables and as JSON --------------------------------------------

#: Columns of the tables.
_COLUMNS: Final = tuple(name for name in ErrorsRow.quantities() if name not in {"source", "trust"})
#: What your own results do not say: they have no shapes, and nothing times drafting alone.
_OWN_COLUMNS: Final = tuple(
    name for name in _COLUMNS if name not in {"n", "shape_mean_error", "drafting_median_error"}
)


def _errors(errors: Errors) -> dict[str, Any]:
    """Return errors by the names of `ErrorsRow`."""
    return {name: getattr(errors, name.removesuffix("_error")) for name in _COLUMNS}


def _row(name: str, errors: Errors, trust: int | None = None) -> ErrorsRow:
    return ErrorsRow(source=name, trust=trust, **_errors(errors))


def source_rows(validation: Validation) -> Iterator[ErrorsRow]:
    """Yield the errors of each source."""
    trust = {point.source: point.point.trust for point in validation.points}
    for name, errors in validation.sources.items():
        yield _row(name, errors, trust[name])


def validation_json(validation: Validation) -> dict[str, Any]:
    """Return the errors over all sources, and of the ideal roofline: shares, or null.

    Examples
    --------
    >>> sorted(validation_json(Validation((), (), ())))
    ['cells', 'generic', 'ideal', 'regret', 'total']
    """
    return {
        "total": _errors(validation.total),
        "ideal": _errors(validation.ideal_total),
        "generic": {
            "sources": [_row(*item).record for item in validation.families.items()],
            "total": _errors(validation.generic_total),
            "ideal": _errors(validation.ideal_total),
            "strange_chips": {n: _errors(errors) for n, errors in validation.strange_chips.items()},
            "engines": {name: _errors(errors) for name, errors in validation.engines.items()},
            "engines_total": _errors(validation.generic_engines_total),
        },
        "cells": {
            key: {name: _errors(errors) for name, errors in cells.items()}
            for key, cells in validation.cells.items()
        },
        "regret": regret_json(validation),
    }


def validation_table(validation: Validation) -> str:
    """Return the errors as a table, and what the measurements lack that could not be scored.

    Examples
    --------
    >>> print(validation_table(Validation((), (), ())).splitlines()[1].split()[0])
    total
    """
    rows = [
        *validation.sources.items(),
        ("total", validation.total),
        ("ideal roofline", validation.ideal_total),
    ]
    trust = {point.source: point.point.trust for point in validation.points}
    aside = {name: " (not in total)" for name in trust if (trust[name] or 0) > TRUSTED}
    table = _errors_table("source", [(name + aside.get(name, ""), errors) for name, errors in rows])
    others = [
        *((f"without {name}", errors) for name, errors in validation.families.items()),
        ("all families", validation.generic_total),
        *(
            (f"on {name} (not in total)", errors)
            for name, errors in validation.strange_chips.items()
        ),
        *((f"without {name}", errors) for name, errors in validation.engines.items()),
        ("all engines", validation.generic_engines_total),
    ]
    cells = [
        (f"{key} {name}", errors)
        for key, cell in validation.cells.items()
        for name, errors in cell.items()
        if errors.speedup_mean is not None
    ]
    generic = _errors_table("generic engine, fitted", others)
    by_cell = _errors_table("speedups by", cells)
    lacking = Counter((point.source, missing) for point, missing in validation.lacking)
    notes = [
        f"not scored: {count} of {source}, without {missing}"
        for (source, missing), count in lacking.items()
    ]
    freed = len({shape for shape in map(_shape, validation.points) if shape})
    legend = (
        "Errors are shares of what was measured. Speedup: the acceptance length is known. Shape "
        f"alone: it is not, and one factor is free in each of {freed} groups."
    )
    costs = [
        f"one round of {method}: {cost.predicted:.2f} plain steps predicted, {cost.measured:.2f} "
        f"measured, {cost.mean_error:.1%} off on average over {cost.n} points"
        for method, cost in round_costs(_trusted(validation)).items()
    ]
    regret = regret_lines(validation)
    return "\n".join([table, "", generic, "", by_cell, "", legend, *regret, *costs, *notes])


def _errors_table(heading: str, rows: Sequence[tuple[str, Errors]]) -> str:
    """Return errors in columns, a row for each name."""
    return rows_table([_row(*item) for item in rows], ("source", *_COLUMNS), source=heading)


def _trusted(validation: Validation) -> list[Scored]:
    return [point for point in validation.points if point.is_trusted]


def _shape(scored: Scored) -> tuple[object, ...] | None:
    return shape_group(scored.point) if scored.kind == "shape" else None


# --- The errors of served loads, as tables and as JSON -------------------------------------------

#: Columns of served loads: what is compared, what of its errors, and the heading.
_SERVED_COLUMNS: Final = (
    *(("tpot_s", "n", "TPOT: loads"), ("tpot_s", "median", "median")),
    *(("tpot_s", "p90", "90%"), ("tpot_s", "bias", "bias")),
    *(("tokens_per_s", "n", "tok/s: loads"), ("tokens_per_s", "median", "median")),
    *(("tokens_per_s", "p90", "90%"), ("tokens_per_s", "bias", "bias")),
    *(("ttft_s", "n", "TTFT: loads"), ("ttft_s", "median", "median")),
    *(("ttft_s", "p90", "90%"), ("ttft_s", "bias", "bias")),
    *((TPOT_RATIO, "n", "drafted: loads"), (TPOT_RATIO, "mean", "TPOT ratio, mean")),
)
#: How rows of the table by groups begin.
_SERVED_GROUPS: Final = {
    "server": "server",
    "weights": "weights",
    "placement": "placement",
    "input_len": "prompt",
    "concurrency": "in flight",
    "version": "version",
}
_OTHER_TOTALS: Final = {
    "played": "played through, request by request",
    "played as shipped": "played through, by profiles that have seen them",
    "shipped": "by profiles that have seen them",
    "family": "families of chips left out",
    "chip": "chips left out",
    "engine": "engines left out",
    "setup": "one model on one chip in one engine left out",
}

_ServedTotals: TypeAlias = Mapping[str, ServedErrors | None]


def served_json(served: ServedValidation) -> dict[str, Any]:
    """Return the errors of served loads: shares, or null where nothing says.

    Examples
    --------
    >>> sorted(served_json(ServedValidation()))
    ['disagreeing', 'groups', 'in_sample', 'left_out', 'other_totals', 'sources', 'total']
    """
    left_out = Counter((point.source, reason) for point, reason in served.left_out)
    return {
        "total": _served_errors_json(served.total),
        "other_totals": {
            by: _served_errors_json(total) for by, total in served.other_totals.items()
        },
        "in_sample": served.in_sample,
        "sources": {name: _served_errors_json(total) for name, total in served.sources.items()},
        "groups": {
            key: {name: _served_errors_json(errors) for name, errors in group.items()}
            for key, group in served.groups.items()
        },
        "left_out": [
            {"source": source, "reason": reason, "n": n} for (source, reason), n in left_out.items()
        ],
        "disagreeing": [asdict(source) for source in served.disagreeing],
    }


def _served_errors_json(errors: _ServedTotals) -> dict[str, Any]:
    return {name: None if value is None else asdict(value) for name, value in errors.items()}


def served_text(served: ServedValidation) -> str:
    """Return the errors of served loads as people read them: tables, and what is in none.

    Examples
    --------
    >>> print(served_text(ServedValidation()).splitlines()[-1].split(":")[0])
    Published loads of servers, by profiles fitted without their model
    """
    aside = {found.source for found in served.disagreeing}
    sources = [
        *(
            (f"{name} (not in total)" if name in aside else name, total)
            for name, total in served.sources.items()
        ),
        ("total", served.total),
        *((_OTHER_TOTALS[by], total) for by, total in served.other_totals.items()),
    ]
    groups = [
        (f"{_SERVED_GROUPS[key]} {name}", errors)
        for key, group in served.groups.items()
        for name, errors in group.items()
    ]
    tables = [_served_table("served loads", sources), _served_table("served loads by", groups)]
    legend = (
        "Published loads of servers, by profiles fitted without their model: errors are shares of "
        "what was measured; bias is below zero where the prediction is smaller. TPOT ratio: with "
        "drafts over without; where acceptance was not recorded, one is free for each model, server, "
        "placement and draft length."
    )
    return "\n\n".join([*tables, "\n".join([legend, *_served_lines(served)])])


def _served_table(heading: str, rows: Iterable[tuple[str, _ServedTotals]]) -> str:
    return format_table(
        [heading, *(title for *_, title in _SERVED_COLUMNS)],
        [
            [
                name,
                *(_served_cell(totals[figure], key) for figure, key, _ in _SERVED_COLUMNS),
            ]
            for name, totals in rows
        ],
    )


def _served_cell(errors: ServedErrors | None, key: str) -> str:
    form = {"n": "{:d}", "bias": "{:+.1%}"}.get(key, "{:.1%}")
    return "-" if errors is None else form.format(getattr(errors, key))


def _served_lines(served: ServedValidation) -> Iterator[str]:
    for found in served.disagreeing:
        yield (
            f"disagrees with the other sources, and is in no total: {found.source}, TPOT residuals "
            f"{found.offset:+.2f} from theirs (bound {found.offset_bound:.2f}), scattered by "
            f"{found.scatter:.2f} (bound {found.scatter_bound:.2f}), as natural logarithms"
        )
    if served.in_sample:
        yield f"{served.in_sample} loads are predicted by a profile that was fitted to their group"
    reasons = Counter((point.source, reason) for point, reason in served.left_out)
    for (source, reason), n in reasons.items():
        yield f"not scored: {n} of {source}: {reason}"


# --- How many measurements bands hold ------------------------------------------------------------


def coverage_text(cells: Sequence[Coverage]) -> str:
    """Return how many measurements 80 % bands hold: each cell of enough of them, and all.

    Examples
    --------
    >>> cell = Coverage("tpot_s", "hopper", "vllm", "1 to 4", "above 4096", 25, 3, inside=0.8)
    >>> print(coverage_text([cell]).splitlines()[-1].split(": ")[1])
    1 of 1 cells of at least 20 measurements are at 75 to 85 %
    """
    large = [cell for cell in cells if cell.n >= COUNTED_CELL]
    names = {name: name.removesuffix("_s").upper() for name in ("tpot_s", "ttft_s")}
    names |= {"tokens_per_s": "tok/s", "speedup": "speedup"}
    rows = [
        [
            *(f"{names[cell.figure]} {cell.engine} {cell.family}", cell.batch_size),
            *(cell.context_len, f"{cell.n:d}", f"{cell.models:d}", f"{cell.inside:.1%}"),
        ]
        for cell in large
    ]
    for key, name in names.items():
        own = [cell for cell in cells if cell.figure == key]
        if own:
            n = sum(cell.n for cell in own)
            inside = sum(cell.n * cell.inside for cell in own) / n
            rows.append([f"{name}, all", "", "", f"{n:d}", "", f"{inside:.1%}"])
    table = format_table(
        ["in 80% bands", "in flight", "context", "points", "models", "inside"], rows
    )
    near = sum(_LEAST_INSIDE <= cell.inside <= _MOST_INSIDE for cell in large)
    return (
        f"{table}\nbands are set without the source of a speedup and without the model of a load, "
        f"whose misses go together: {near} of {len(large)} cells of at least {COUNTED_CELL} "
        f"measurements are at 75 to 85 %"
    )


#: The share of a cell that bands of 80 % ought to hold.
_LEAST_INSIDE: Final = 0.75
_MOST_INSIDE: Final = 0.85


# --- Prefill and decoding on their own workers ----------------------------------------------------


def split_text(scores: Iterable[SplitScore]) -> str:
    """Return errors of TPOT where prefill has workers of its own, by source, chip and server."""
    rows = [
        [
            source,
            hardware,
            engine,
            "drafted, in shape" if drafted else "plain",
            str(errors.n),
            *(f"{value:.1%}" for value in (errors.median, errors.mean, errors.p90)),
            f"{errors.bias:+.1%}",
        ]
        for (source, hardware, engine, drafted), errors in split_errors(scores).items()
    ]
    header = ["source", "chip", "server", "TPOT", "n", "median", "mean", "p90", "bias"]
    title = (
        "prefill and decoding on their own workers: TPOT, in no fit and in no total; drafted loads "
        "of a group share one acceptance length, which is not recorded"
    )
    return f"{title}\n{format_table(header, rows, left=[0, 1, 2, 3])}"


def split_json(scores: Iterable[SplitScore]) -> list[dict[str, Any]]:
    """Return the same as the list that ``--json`` prints.

    Examples
    --------
    >>> split_json([])
    []
    """
    return [
        {"source": source, "hardware": hardware, "engine": engine, "drafted": drafted}
        | asdict(errors)
        for (source, hardware, engine, drafted), errors in split_errors(scores).items()
    ]


# --- Machines of one user -----------------------------------------------------------------------

#: What errors of each kind are of.
_LOCAL_KINDS: Final = {
    "pass": "passes of 1 to 32 tokens",
    "step": "plain steps",
    "depth": "steps by cached tokens",
    "speedup": "speedups",
}


def local_json(scores: Sequence[LocalScore]) -> dict[str, Any]:
    """Return errors on local machines, by source, engine and kind, and how good advice was.

    Examples
    --------
    >>> local_json([])["errors"]
    []
    """
    regrets = draft_len_regrets(scores)
    return {
        "errors": [asdict(errors) for errors in local_errors(scores)],
        "total": [
            asdict(errors_of(group, kind=kind))
            for kind in _LOCAL_KINDS
            if (group := [score for score in scores if score.kind == kind])
        ],
        "mean_regret": float(np.mean(regrets)) if regrets else None,
        "choices": len(regrets),
    }


def local_text(scores: Sequence[LocalScore]) -> str:
    """Return the same as a table for people."""
    found = local_json(scores)
    rows = [
        [
            *(cell["source"] or "all", cell["engine"], _LOCAL_KINDS[cell["kind"]]),
            *(str(cell["points"]), f"{cell['mean']:.1%}"),
            "" if cell["verdicts"] is None else f"{cell['verdicts']:.0%}",
        ]
        for cell in [*found["errors"], *found["total"]]
    ]
    table = format_table(
        ["source", "engine", "of", "points", "mean error", "right side of 1"], rows, left=[0, 1, 2]
    )
    lost = (
        ""
        if found["mean_regret"] is None
        else (
            f"\nThe draft length predicted best loses {found['mean_regret']:.1%} of the best measured "
            f"speedup on average, over {found['choices']} machines and prompts."
        )
    )
    return f"local machines, predicted by fits without their model:\n{table}{lost}"


# --- What long contexts cost, published beside predicted -----------------------------------------

#: What the measured column holds.
_LONG_HEADINGS: Final = {
    "round_over_step": "a round in plain steps",
    "unsplit_over_split": "a round with a kernel that splits no cache, over one that does",
    "over_short_round": "a round over one at 500 tokens",
    "attention_s": "seconds of attention in one layer",
}


def long_context_json(score: LongContextScore) -> dict[str, Any]:
    """Return a published cost of a long context beside its prediction.

    Examples
    --------
    >>> from specroof.evidence import load_long_contexts
    >>> long_context_json(LongContextScore(load_long_contexts()[0], 1.3, 1.2))["measured"]
    1.47
    """
    figures = {"predicted": score.predicted, "predicted_once": score.once, "off": score.off}
    return {**score.row.model_dump(), **figures}


def long_context_tables(scores: Iterable[LongContextScore]) -> Iterator[str]:
    """Yield a table for each source and set-up, with its mean error below.

    Examples
    --------
    >>> list(long_context_tables([]))
    []
    """
    groups: dict[tuple[str, ...], list[LongContextScore]] = {}
    for score in scores:
        row = score.row
        where = f"{row.model} on {row.tensor_parallel} x {row.hardware}"
        groups.setdefault((row.source, where, row.quantity, row.note), []).append(score)
    for (source, where, quantity, note), group in groups.items():
        table = format_table(
            ["context", "batch", "drafts", "measured", "predicted", "off", "cache read once"],
            [
                [
                    *(f"{value:d}" for value in (row.context_len, row.batch_size, row.draft_len)),
                    *(f"{value:.3g}" for value in (row.measured, score.predicted)),
                    *(f"{score.off:+.1%}", f"{score.once:.3g}"),
                ]
                for score in group
                for row in [score.row]
            ],
        )
        yield (
            f"long contexts: {where}, {_LONG_HEADINGS[quantity]} ({source}: {note}); in no fit, "
            f"{mean_off(group):.1%} off on average\n{table}"
        )


def own_json(validation: OwnValidation) -> dict[str, Any]:
    """Return the errors of each file, of all, and of the ideal roofline: shares, or null.

    Examples
    --------
    >>> sorted(own_json(OwnValidation((), ())))
    ['ideal', 'sources', 'total']
    """
    return {
        "sources": [_own_row(*item).record for item in validation.sources.items()],
        "total": _own_errors(validation.total),
        "ideal": _own_errors(validation.ideal_total),
    }


def _own_errors(errors: OwnErrors) -> dict[str, Any]:
    return {**_errors(errors.scored), "tokens_per_s_mean_error": errors.rate_mean}


def _own_row(name: str, errors: OwnErrors) -> OwnErrorsRow:
    return OwnErrorsRow(source=name, trust=None, **_own_errors(errors))


def own_row(point: OwnPoint, ideal: OwnPoint) -> OwnRow:
    """Return a result beside its predictions."""
    known = point.scored.kind == "speedup"
    return OwnRow(
        source=point.source,
        **residual_fields(point.rate),
        ideal=ideal.rate.shown,
        ideal_off=ideal.rate.off,
        measured_speedup=point.scored.measured if known else None,
        predicted_speedup=point.scored.predicted if known else None,
        ideal_speedup=ideal.scored.predicted if known else None,
        is_right=point.scored.verdict,
    )


def own_text(validation: OwnValidation) -> str:
    """Return results beside predictions as people read them: points, speedups, errors by file.

    Examples
    --------
    >>> print(own_text(OwnValidation((), ())).splitlines()[-1].split()[:2])
    ['ideal', 'roofline']
    """
    pairs = list(zip(validation.points, validation.ideal, strict=True))
    points = format_table(
        [*RESIDUAL_HEADER, "ideal", "off"],
        [[*residual_cells(point.rate), *residual_cells(ideal.rate)[-2:]] for point, ideal in pairs],
    )
    both = [pair for pair in pairs if pair[0].scored.kind == "speedup"]
    speedups = format_table(
        ["point", "drafts", "measured speedup", "predicted", "off", "ideal", "off", "verdict"],
        [_speedup_cells(*pair) for pair in both],
    )
    absent = "no load was measured with and without drafts: no speedup to compare"
    rows = [
        *validation.sources.items(),
        ("total", validation.total),
        ("ideal roofline", validation.ideal_total),
    ]
    shown = ("source", "n", "tokens_per_s_mean_error", *_OWN_COLUMNS)
    errors = rows_table([_own_row(*item) for item in rows], shown)
    return "\n\n".join([points, speedups if both else absent, errors])


def _speedup_cells(point: OwnPoint, ideal: OwnPoint) -> list[str]:
    scored, roof = point.scored, ideal.scored
    return [
        point.rate.point.place,
        str(point.rate.point.draft_len),
        f"{scored.measured:.2f}x",
        f"{scored.predicted:.2f}x",
        f"{scored.predicted / scored.measured - 1:+.1%}",
        f"{roof.predicted:.2f}x",
        f"{roof.predicted / roof.measured - 1:+.1%}",
        {None: "-", True: "right", False: "wrong"}[scored.verdict],
    ]


# --- The chart -----------------------------------------------------------------------------------

#: Speedups that the axes are ticked at; larger ones are not drawn.
_TICKS: Final = (0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8)


def accuracy_chart(validation: Validation) -> Any:
    """Draw predicted against measured speedup, a color for each source.

    The acceptance length of filled points is known; hollow points are right but for one factor per
    group. Each source is predicted by fits that have not seen it.
    """
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    # A shape may be that of throughput, where a source prints no speedup.
    pairs = [
        (point.source, point.measured, point.predicted, point.kind == "speedup")
        for kind in ("speedup", "shape")
        for point in validation.points
        if point.kind == kind and point.measured <= _TICKS[-1]
    ]
    return plot.plot_predicted(
        pairs,
        "Predicted against measured speedup, each source predicted by fits without it:\n"
        f"{validation.total.speedup_mean:.1%} off on average where acceptance is known",
        "speedup",
        meanings={True: "acceptance length known", False: "known up to one factor"},
        ticks=_TICKS,
    )


COMMAND: Final = Command(
    question=validate,
    about="With BENCH, the command predicts each result by the engine profile and by the ideal "
    "roofline.\nWhere one load was measured with drafts and without, it compares speedups too.\n\n"
    "Without BENCH, it predicts each bundled source by engine profiles that were fitted without\n"
    "that source. Speedups count where a source states the acceptance length; other tables of\n"
    "speedups are compared by shape. Published loads of servers follow, in tables of their own, and\n"
    "published costs of long contexts, which are in no fit. Machines of one user have fits of their\n"
    "own, left out by model.",
    options=FORMATS,
    chart="Draw predicted against measured: speedup by source, or throughput of BENCH.",
    example="specroof validate bench.jsonl -H b200 --model Qwen/Qwen3-8B --drafter eagle3",
)
