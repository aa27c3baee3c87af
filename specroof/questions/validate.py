"""How far off are predictions: over published measurements, or over my own results?"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, Final

from specroof import quantities as q
from specroof.arrays import fields_of, grouped
from specroof.errors import OptionError, refuse, reject
from specroof.evidence import Measurement, shape_group
from specroof.questions import parameters as p
from specroof.questions.answer import Charted, case_of, rows_table, title_of
from specroof.questions.benchmark import (
    Benchmark,
    BenchmarkRequest,
    Recorded,
    ResultFile,
    Results,
    ServedModel,
    in_sample_notes,
)
from specroof.questions.calibrate import (
    RESIDUAL_HEADER,
    ResidualRow,
    residual_cells,
    residual_fields,
    throughput_chart,
)
from specroof.questions.objects import HardwareLike, ModelLike, as_list
from specroof.questions.request import Command, question
from specroof.report.layout import figure, format_table
from specroof.scoring import Validation, trusted
from specroof.scoring.bands import COUNTED_CELL, Coverage, band_coverage
from specroof.scoring.local import draft_len_regrets, errors_of, local_errors
from specroof.scoring.long_contexts import LongContextScore, long_context_scores, mean_off
from specroof.scoring.own_results import OwnPoint, OwnValidation, own_validation
from specroof.scoring.scores import (
    TRUSTED,
    Errors,
    Regret,
    Scored,
    mean,
    round_costs,
    worst_regrets,
)
from specroof.scoring.served import (
    TPOT_RATIO,
    ServedErrors,
    ServedValidation,
    Totals,
    errors_over,
    served_groups,
)
from specroof.scoring.splits import SplitScore
from specroof.scoring.stored import published
from specroof.speedup.result import UNCLEAR


@dataclass(frozen=True)
class ValidateRequest(Recorded):
    """Ask how far off predictions are."""

    results: Annotated[
        ResultFile | Sequence[ResultFile] | None,
        p.like(
            Results,
            flag="[BENCH…]",
            in_python="Every bundled measurement if None; all other parameters are about your own "
            "results.",
            shown=False,
        ),
    ] = None
    model: Annotated[ModelLike | None, p.like(ServedModel)] = None
    hardware: Annotated[HardwareLike | None, p.like(p.Hardware)] = None
    _: KW_ONLY
    tensor_parallel: Annotated[int | None, p.like(p.TensorParallel, shown="1")] = None
    expert_parallel: Annotated[int | None, p.like(p.ExpertParallel, shown="1")] = None
    played: Annotated[
        bool,
        p.Parameter(
            "Simulate the published loads of servers where their scores are not stored: with hardware "
            "files of your own. Without BENCH."
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
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {name: value for name, value in given.items() if name != "played"}

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
        for name, value in given.items():
            if value is not None and name != "results":
                reject(f"{name} is {value!r} without benchmark files", "with results")


@dataclass(frozen=True, kw_only=True)
class OwnRow(ResidualRow):
    """A result beside its predictions by the profile and by the ideal roofline.

    Speedups are known where its load was measured without drafts too, and its acceptance is known.
    """

    source: str
    ideal: float
    ideal_off: float
    measured_speedup: float | None
    predicted_speedup: float | None
    ideal_speedup: float | None
    is_right: bool | None


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
    long_contexts: tuple[LongContextScore, ...]
    coverage: tuple[Coverage, ...]
    splits: tuple[SplitScore, ...]
    local: tuple[Scored, ...]

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
        parts += [coverage_text(self.coverage), split_text(self.splits), local_text(self.local)]
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
    def rows(self) -> tuple[Errors, ...]:
        """A row for each source."""
        return tuple(self.validation.sources.values())

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
        return self.as_page(own_text(self.validation))

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
        measured, served, splits, local = published(played=request.played)
        coverage = band_coverage(measured.points, served.counted)
        return PublishedValidated(measured, served, long_context_scores(), coverage, splits, local)
    benchmark = request.of_results().benchmark()
    setup = benchmark.served.setup
    validation = own_validation(benchmark.points, benchmark.served, benchmark.drafter)
    in_sample = in_sample_notes(benchmark.labels, setup.hardware, setup.engine.name)
    return OwnValidated(benchmark, validation, notes=(*benchmark.notes, *in_sample))


# --- The losses of following `advise`, as JSON and as text ---------------------------------------

#: A larger loss is counted.
_LARGE: Final = 0.1


def regret_json(validation: Validation) -> dict[str, Any]:
    """Return the losses of following `advise`: means over trusted set-ups, and the worst of all.

    Examples
    --------
    >>> regret_json(Validation((), (), ()))["worst"]
    []
    """
    regrets = validation.regrets
    trusted = [regret for regret in regrets if regret.is_trusted]
    choices = [regret for regret in trusted if len(regret.options) > 1]
    large = [regret.is_trusted for regret in regrets if regret.lost > _LARGE]
    return {
        "setups": len(trusted),
        "mean": mean([regret.lost for regret in trusted]),
        "setups_with_a_choice": len(choices),
        "mean_with_a_choice": mean([regret.lost for regret in choices]),
        "setups_not_in_total": len(regrets) - len(trusted),
        "above_10_percent": sum(large),
        "above_10_percent_not_in_total": len(large) - sum(large),
        "one_version": _most_json(_of_one_version(regrets, is_trusted=True)),
        "one_version_not_in_total": _most_json(_of_one_version(regrets, is_trusted=False)),
        "worst": [_regret_json(regret) for regret in worst_regrets(regrets, 5)],
    }


def _of_one_version(regrets: Iterable[Regret], *, is_trusted: bool) -> list[Regret]:
    return [one for one in regrets if one.is_trusted is is_trusted and one.point.engine_version]


def _most_json(regrets: Sequence[Regret]) -> dict[str, Any]:
    return {"setups": len(regrets), "most": max((regret.lost for regret in regrets), default=None)}


def _regret_json(regret: Regret) -> dict[str, Any]:
    notes = dict.fromkeys(option.point.note for option in regret.options if option.point.note)
    # Acceptance lengths are the measured ones: what is mispredicted is the time of a round.
    drafting = [option for option in (regret.taken, regret.best) if option is not None]
    blamed = max(drafting, key=lambda option: option.off)
    tokens = blamed.point.tokens_per_round or 1.0
    return {
        "lost": regret.lost,
        "source": regret.point.source,
        "in_total": regret.is_trusted,
        **fields_of(
            *(regret.point, "model", "hardware", "engine", "engine_version", "batch_size", "task")
        ),
        "options": len(regret.options),
        "taken": _option_json(regret.taken),
        "best": _option_json(regret.best),
        "cause": f"a round of {blamed.point.method} K={blamed.point.draft_len} took "
        f"{tokens / blamed.measured:.2f} plain steps, {tokens / blamed.predicted:.2f} predicted",
        "note": "; ".join(notes),
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
    told = regret_json(validation)
    if not told["setups"]:
        return
    losses = f"loses {told['mean']:.1%} of the throughput over {told['setups']} set-ups"
    if told["setups_with_a_choice"]:
        losses += (
            f", {told['mean_with_a_choice']:.1%} over the {told['setups_with_a_choice']} in which "
            f"more than one way to draft was measured"
        )
    yield (
        f"advise, choosing among what was measured (no drafts included, acceptance lengths known), "
        f"{losses}"
    )
    for is_trusted, aside in ((True, ""), (False, ", in no total")):
        if alike := _of_one_version(validation.regrets, is_trusted=is_trusted):
            sources = ", ".join(dict.fromkeys(regret.point.source for regret in alike))
            yield (
                f"of one engine version with drafts and without, as sources say, are {len(alike)} "
                f"set-ups ({sources}{aside}): at most {_most_json(alike)['most']:.1%} is lost"
            )
    for worst in told["worst"]:
        note = f": {worst['note']}" if worst["note"] else ""
        aside = "" if worst["in_total"] else f" (not in total{note})"
        where = f"{worst['model']} on {worst['hardware']}, {worst['batch_size']:g} in flight"
        task = f", {worst['task']}" if worst["task"] else ""
        yield (
            f"loses {worst['lost']:.1%} in {worst['source']}{aside}, {where}{task}: takes "
            f"{_option(worst['taken'])}, best is {_option(worst['best'])}; {worst['cause']}"
        )


def _option(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return "no drafts"
    ratios = f"{told['measured']:.2f}x measured, {told['predicted']:.2f}x predicted"
    return f"{told['drafter']} K={told['draft_len']} ({ratios})"


# --- The errors of predictions, as tables and as JSON --------------------------------------------

#: Columns of the tables.
_COLUMNS: Final = tuple(name for name in Errors.quantities() if name != "trust")
#: What your own results do not say: they have no shapes, and nothing times drafting alone.
_OWN_COLUMNS: Final = (
    *("source", "n", "tokens_per_s_mean_error"),
    *(name for name in _COLUMNS[2:] if name not in {"shape_mean_error", "drafting_median_error"}),
)


def _json(errors: Any) -> Any:
    """Return errors, and mappings of them, as JSON has them."""
    if isinstance(errors, Mapping):
        return {name: _json(one) for name, one in errors.items()}
    if isinstance(errors, Errors):
        return errors.figures
    return errors and asdict(errors)


def _not_scored(points: Iterable[tuple[Measurement, str]]) -> list[dict[str, Any]]:
    """Return how many points of each source could not be scored, and why."""
    counts = Counter((point.source, reason) for point, reason in points)
    return [{"source": source, "reason": reason, "n": n} for (source, reason), n in counts.items()]


def validation_json(validation: Validation) -> dict[str, Any]:
    """Return the errors over all sources, and of the ideal roofline: shares, or null.

    Examples
    --------
    >>> sorted(validation_json(Validation((), (), ())))
    ['cells', 'generic', 'ideal', 'regret', 'total']
    """
    return {
        "total": _json(validation.total),
        "ideal": _json(validation.ideal_total),
        "generic": {
            "sources": [errors.record for errors in validation.families.values()],
            "total": _json(validation.generic_total),
            "ideal": _json(validation.ideal_total),
            "strange_chips": _json(validation.strange_chips),
            "engines": _json(validation.engines),
            "engines_total": _json(validation.generic_engines_total),
        },
        "cells": _json(validation.cells),
        "regret": regret_json(validation),
    }


def validation_table(validation: Validation) -> str:
    """Return the errors as a table, and what the measurements lack that could not be scored.

    Examples
    --------
    >>> print(validation_table(Validation((), (), ())).splitlines()[1].split()[0])
    total
    """
    of_sources = {
        _aside(name, (one.trust or 0) > TRUSTED): one for name, one in validation.sources.items()
    }
    of_sources |= {one.source: one for one in (validation.total, validation.ideal_total)}
    generic = [
        *((f"without {name}", one) for name, one in validation.families.items()),
        ("all families", validation.generic_total),
        *((_aside(f"on {name}"), one) for name, one in validation.strange_chips.items()),
        *((f"without {name}", one) for name, one in validation.engines.items()),
        ("all engines", validation.generic_engines_total),
    ]
    cells = [
        (f"{key} {name}", errors)
        for key, cell in validation.cells.items()
        for name, errors in cell.items()
        if errors.speedup_mean_error is not None
    ]
    tables = [
        _errors_table("source", of_sources.items()),
        _errors_table("generic engine, fitted", generic),
        _errors_table("speedups by", cells),
    ]
    groups = {shape_group(one.point) for one in validation.points if one.kind == "shape"}
    legend = (
        "Errors are shares of what was measured. Speedup: the acceptance length is known. Shape "
        f"alone: it is not, and one factor is free in each of {len(groups)} groups."
    )
    costs = [
        f"one round of {method}: {cost.predicted:.2f} plain steps predicted, {cost.measured:.2f} "
        f"measured, {cost.mean_error:.1%} off on average over {cost.n} points"
        for method, cost in round_costs(trusted(validation.points)).items()
    ]
    notes = [
        f"not scored: {one['n']} of {one['source']}, without {one['reason']}"
        for one in _not_scored(validation.lacking)
    ]
    lines = [legend, *regret_lines(validation), *costs, *notes]
    return "\n\n".join([*tables, "\n".join(lines)])


def _errors_table(heading: str, errors: Iterable[tuple[str, Errors]]) -> str:
    return rows_table([replace(one, source=name) for name, one in errors], _COLUMNS, source=heading)


def _aside(name: str, is_aside: bool = True) -> str:
    return f"{name} (not in total)" if is_aside else name


# --- The errors of served loads, as tables and as JSON -------------------------------------------

#: Columns of served loads: what is compared, what of its errors, and the heading.
_SERVED_COLUMNS: Final = (
    *(("tpot_s", "n", "TPOT: loads"), ("tpot_s", "median", "median")),
    *(("tpot_s", "p90", "90%"), ("tpot_s", "bias", "bias")),
    *((q.TOKENS_PER_S.name, "n", "tok/s: loads"), (q.TOKENS_PER_S.name, "median", "median")),
    *((q.TOKENS_PER_S.name, "p90", "90%"), (q.TOKENS_PER_S.name, "bias", "bias")),
    *(("ttft_s", "n", "TTFT: loads"), ("ttft_s", "median", "median")),
    *(("ttft_s", "p90", "90%"), ("ttft_s", "bias", "bias")),
    *((TPOT_RATIO, "n", "drafted: loads"), (TPOT_RATIO, "mean", "TPOT ratio, mean")),
)
#: How rows of the table by groups begin, where not as the group is called.
_SERVED_GROUPS: Final = {"input_len": "prompt", "concurrency": "in flight"}
_OTHER_TOTALS: Final = {
    "played": "every request simulated",
    "played as shipped": "shipped profiles, every request simulated",
    "shipped": "shipped profiles (fitted to them)",
    "family": "families of chips left out",
    "chip": "chips left out",
    "engine": "engines left out",
    "setup": "one model on one chip in one engine left out",
}


def served_json(served: ServedValidation) -> dict[str, Any]:
    """Return the errors of served loads: shares, or null where nothing says.

    Examples
    --------
    >>> {*served_json(ServedValidation())} >= {"groups", "simulated_groups", "total"}
    True
    """
    return {
        "total": _json(served.total),
        "other_totals": _json(served.other_totals),
        "in_sample": served.in_sample,
        "sources": _json(served.sources),
        "groups": _json(served.groups),
        "simulated_groups": _json(served_groups(served.played)),
        "left_out": _not_scored(served.left_out),
        "disagreeing": [asdict(source) for source in served.disagreeing],
    }


def served_text(served: ServedValidation) -> str:
    """Return the errors of served loads as people read them: tables, and what is in none.

    Examples
    --------
    >>> print(served_text(ServedValidation()).splitlines()[-1].split(":")[0])
    Published loads of servers, by profiles fitted without their model
    """
    disagreeing = {found.source for found in served.disagreeing}
    sources = [
        *((_aside(name, name in disagreeing), total) for name, total in served.sources.items()),
        ("total", served.total),
        *((_OTHER_TOTALS[by], total) for by, total in served.other_totals.items()),
    ]
    tables = [_served_table("served loads", sources)]
    for heading, groups in {
        "served loads by": served.groups,
        "simulated loads by": served_groups(served.played),
    }.items():
        rows = [
            (f"{_SERVED_GROUPS.get(key, key)} {name}", errors)
            for key, group in groups.items()
            for name, errors in group.items()
        ]
        tables += [_served_table(heading, rows)] * bool(rows)
    legend = (
        "Published loads of servers, by profiles fitted without their model: errors are shares of "
        "what was measured; bias is below zero where the prediction is smaller. TPOT ratio: with "
        "drafts over without; where acceptance was not recorded, one is free for each model, server, "
        "placement and draft length. Steady states, but where requests are simulated, as questions "
        "about requests do."
    )
    lines = [
        legend,
        *(
            f"disagrees with the other sources, and is in no total: {found.source}, TPOT residuals "
            f"{found.offset:+.2f} from theirs (bound {found.offset_bound:.2f}), scattered by "
            f"{found.scatter:.2f} (bound {found.scatter_bound:.2f}), as natural logarithms"
            for found in served.disagreeing
        ),
    ]
    if served.in_sample:
        told = "loads are predicted by a profile that was fitted to their group"
        lines.append(f"{served.in_sample} {told}")
    lines += [
        f"not scored: {one['n']} of {one['source']}: {one['reason']}"
        for one in _not_scored(served.left_out)
    ]
    return "\n\n".join([*tables, "\n".join(lines)])


def _served_table(heading: str, rows: Iterable[tuple[str, Totals]]) -> str:
    def cell(errors: ServedErrors | None, key: str) -> str:
        form = {"n": "{:d}", "bias": "{:+.1%}"}.get(key, "{:.1%}")
        return figure(None if errors is None else getattr(errors, key), form.format)

    return format_table(
        [heading, *(title for *_, title in _SERVED_COLUMNS)],
        [
            [name, *(cell(totals[quantity], key) for quantity, key, _ in _SERVED_COLUMNS)]
            for name, totals in rows
        ],
    )


# --- How many measurements bands hold ------------------------------------------------------------

#: How figures with bands are called.
_BANDED: Final = {
    "tpot_s": "TPOT",
    "ttft_s": "TTFT",
    q.TOKENS_PER_S.name: "tok/s",
    "speedup": "speedup",
}
#: The share of a cell that bands of 80 % ought to hold.
_LEAST_INSIDE: Final = 0.75
_MOST_INSIDE: Final = 0.85


def coverage_text(cells: Sequence[Coverage]) -> str:
    """Return how many measurements 80 % bands hold: each cell of enough of them, and all.

    Examples
    --------
    >>> cell = Coverage("tpot_s", "hopper", "vllm", "1 to 4", "above 4096", 25, 3, inside=0.8)
    >>> print(coverage_text([cell]).splitlines()[-1].split(": ")[1])
    1 of 1 cells of at least 20 measurements are at 75 to 85 %
    """
    large = [cell for cell in cells if cell.n >= COUNTED_CELL]
    rows = [
        [
            *(f"{_BANDED[cell.figure]} {cell.engine} {cell.family}", cell.batch_size),
            *(cell.context_len, f"{cell.n:d}", f"{cell.models:d}", f"{cell.inside:.1%}"),
        ]
        for cell in large
    ]
    for key, name in _BANDED.items():
        held = [(cell.n, cell.n * cell.inside) for cell in cells if cell.figure == key]
        if held:
            n, inside = map(sum, zip(*held, strict=True))
            rows.append([f"{name}, all", "", "", f"{n:d}", "", f"{inside / n:.1%}"])
    table = format_table(
        ["in 80% bands", "in flight", "context", "points", "models", "inside"], rows
    )
    near = sum(_LEAST_INSIDE <= cell.inside <= _MOST_INSIDE for cell in large)
    return (
        f"{table}\nbands are set without the source of a speedup and without the model of a load, "
        f"whose misses go together: {near} of {len(large)} cells of at least {COUNTED_CELL} "
        f"measurements are at 75 to 85 %"
    )


# --- Prefill and decoding on their own workers ----------------------------------------------------


def split_json(scores: Iterable[SplitScore]) -> list[dict[str, Any]]:
    """Return errors of TPOT where prefill has its own workers, by source, chip, server and drafts.

    Examples
    --------
    >>> split_json([])
    []
    """
    groups = grouped(
        scores,
        lambda one: (one.point.source, one.point.hardware, one.point.engine, one.point.drafts),
    )
    names = ("source", "hardware", "engine", "drafted")
    return [
        dict(zip(names, key, strict=True)) | _json(errors_over([score.off for score in group]))
        for key, group in sorted(groups.items())
    ]


def split_text(scores: Iterable[SplitScore]) -> str:
    """Return the same as a table for people."""
    rows = [
        [
            *(cell["source"], cell["hardware"], cell["engine"]),
            *("drafted, in shape" if cell["drafted"] else "plain", str(cell["n"])),
            *(f"{cell[name]:.1%}" for name in ("median", "mean", "p90")),
            f"{cell['bias']:+.1%}",
        ]
        for cell in split_json(scores)
    ]
    header = ["source", "chip", "server", "TPOT", "n", "median", "mean", "p90", "bias"]
    title = (
        "prefill and decoding on their own workers: TPOT, in no fit and in no total; drafted loads "
        "of a group share one acceptance length, which is not recorded"
    )
    return f"{title}\n{format_table(header, rows, left=[0, 1, 2, 3])}"


# --- Machines of one user -----------------------------------------------------------------------

#: What errors of each kind are of.
_LOCAL_KINDS: Final = {
    "pass": "passes of 1 to 32 tokens",
    "step": "plain steps",
    "depth": "steps by cached tokens",
    "speedup": "speedups",
}


def local_json(scores: Sequence[Scored]) -> dict[str, Any]:
    """Return errors on local machines, by source, engine and kind, and how good advice was.

    Examples
    --------
    >>> local_json([])["errors"]
    []
    """
    regrets, kinds = draft_len_regrets(scores), grouped(scores, lambda score: score.kind)
    return {
        "errors": [asdict(errors) for errors in local_errors(scores)],
        "total": [
            asdict(errors_of(kinds[kind], kind=kind)) for kind in _LOCAL_KINDS if kind in kinds
        ],
        "mean_regret": mean(regrets),
        "choices": len(regrets),
    }


def local_text(scores: Sequence[Scored]) -> str:
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
    return (
        f"local machines, predicted by fits without their model:\n{table}\nThe draft length predicted "
        f"best loses {found['mean_regret']:.1%} of the best measured speedup on average, over "
        f"{found['choices']} machines and prompts."
    )


# --- What long contexts cost, published beside predicted -----------------------------------------

#: What the measured column holds.
_LONG_HEADINGS: Final = {
    "round_over_step": "a round in plain steps",
    "unsplit_over_split": "a round with a kernel that splits no cache, over one that does",
    "over_short_round": "a round over one at 500 tokens",
    "attention_s": "seconds of attention in one layer",
}
#: What a table is of.
_SET_UP: Final = attrgetter("source", "model", "tensor_parallel", "hardware", "quantity", "note")


def long_context_json(score: LongContextScore) -> dict[str, Any]:
    """Return a published cost of a long context beside its prediction.

    Examples
    --------
    >>> from specroof.evidence import load_long_contexts
    >>> long_context_json(LongContextScore(load_long_contexts()[0], 1.3, 1.2))["measured"]
    1.47
    """
    figures = {"predicted": score.predicted, "predicted_once": score.once, "off": score.off}
    return {**asdict(score.row), **figures}


def long_context_tables(scores: Iterable[LongContextScore]) -> Iterator[str]:
    """Yield a table for each source and set-up, with its mean error below.

    Examples
    --------
    >>> list(long_context_tables([]))
    []
    """
    groups = grouped(scores, lambda score: _SET_UP(score.row))
    for (source, model, devices, hardware, quantity, note), group in groups.items():
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
            f"long contexts: {model} on {devices} x {hardware}, {_LONG_HEADINGS[quantity]} "
            f"({source}: {note}); in no fit, {mean_off(group):.1%} off on average\n{table}"
        )


def own_json(validation: OwnValidation) -> dict[str, Any]:
    """Return the errors of each file, of all, and of the ideal roofline: shares, or null.

    Examples
    --------
    >>> sorted(own_json(OwnValidation((), ())))
    ['ideal', 'sources', 'total']
    """
    return {
        "sources": [errors.record for errors in validation.sources.values()],
        "total": _json(validation.total),
        "ideal": _json(validation.ideal_total),
    }


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
    both = []
    for point, ideal in pairs:
        scored, roof = point.scored, ideal.scored
        if scored.kind != "speedup":
            continue
        # Of a band that holds 1 nothing was decided.
        is_unclear = scored.predicted_verdict == UNCLEAR
        both.append(
            [
                point.rate.point.place,
                str(point.rate.point.draft_len),
                f"{scored.measured:.2f}x",
                f"{scored.predicted:.2f}x",
                f"{scored.predicted / scored.measured - 1:+.1%}",
                f"{roof.predicted:.2f}x",
                f"{roof.predicted / roof.measured - 1:+.1%}",
                "right" if scored.verdict else UNCLEAR if is_unclear else "wrong",
            ]
        )
    speedups = format_table(
        ["point", "drafts", "measured speedup", "predicted", "off", "ideal", "off", "decision"],
        both,
    )
    absent = "no load was measured with and without drafts: no speedup to compare"
    errors = [*validation.sources.values(), validation.total, validation.ideal_total]
    shown = rows_table(errors, _OWN_COLUMNS)
    return "\n\n".join([points, speedups if both else absent, shown])


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
        "Predicted against measured speedup, each source predicted by fits without it\n"
        f"{validation.total.speedup_mean_error:.1%} off on average where acceptance is known",
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
    options=p.FORMATS,
    chart="Draw predicted against measured: speedup by source, or throughput of BENCH.",
    example="specroof validate bench.jsonl -H b200 --model Qwen/Qwen3-8B --drafter eagle3",
)
