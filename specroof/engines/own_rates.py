"""What an engine predicts for results of one's own, and whether they can be compared with it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from specroof.arrays import Array
from specroof.cost import Options
from specroof.drafters import Drafter, TokensPerRound
from specroof.engines.record import BARE, Case, Record, case_of, of_bare_passes
from specroof.errors import MeasurementError
from specroof.evidence import (
    STEP,
    Measurement,
    Stated,
    acceptance_of,
    refuse_other_drafts,
    refuse_other_setup,
)
from specroof.hardware import IDEAL_ENGINE, HardwareProfile
from specroof.latency import check_placement, engine_setup, served_options
from specroof.speedup.served import Served

#: A measurement may beat the ideal roofline by its own noise, not by more.
_FASTEST: Final = 1.1
#: Engines are 2 to 20 times slower than it, one sequence at a time; other units are a thousand.
_SLOWEST: Final = 1 / 200
#: A file may state a bandwidth that is so many times too low: of another card of the same name, of
#: one module of two, or without overclocking. What is faster still has other causes.
_MORE_BANDWIDTH: Final = 2.0


def own_cases(points: Sequence[Measurement], served: Served, drafter: Drafter | None) -> list[Case]:
    """Return results as they are to be predicted; nothing is presumed.

    Parameters
    ----------
    points
        The loads; prefills count where a point says how long they are.
    served
        Of what, where.
    drafter
        What drafts; None if nothing does.

    Raises
    ------
    MeasurementError
        For a point with drafts, whose drafter or acceptance is not stated.
    """
    engine = of_bare_passes(served.setup.engine)
    alone = replace(served, setup=replace(served.setup, engine=engine))
    return [
        case_of(point, alone, None, BARE)
        if point.method == STEP
        else case_of(point, served, _drafting(point, drafter))
        for point in points
    ]


def _drafting(point: Measurement, drafter: Drafter | None) -> tuple[Drafter, TokensPerRound] | None:
    if not point.drafts:
        return None
    if drafter is None:
        message = f"{point.place}: has {point.draft_len} drafts; needs --drafter to price them"
        raise MeasurementError(message)
    return drafter, acceptance_of(point, drafter)


def predicted_tokens_per_s(
    points: Sequence[Measurement], served: Served, drafter: Drafter | None
) -> Array:
    """Return output tokens per second of the whole batch, one for each point.

    For a bare pass it is the batch size over its seconds: see `Measurement.pass_s`.

    Parameters
    ----------
    points, served, drafter
        As of `own_cases`.

    Raises
    ------
    MeasurementError
        As `own_cases` does.

    Source
        See `specroof.engines.record`.
    """
    return Record(own_cases(points, served, drafter)).rates().measured


def ideal_rates(points: Sequence[Measurement], served: Served, drafter: Drafter | None) -> Array:
    """Return what the ideal engine predicts for each point, once they can be compared with it.

    Parameters
    ----------
    points
        What was measured.
    served, drafter
        Of what, where; of the setup the engine does not matter, nor any option but the formats
        of weights and cache.

    Raises
    ------
    MeasurementError
        One line with the place of a point that was served in another way than is predicted, or of
        a throughput that cannot be: above what the ideal roofline allows, or less than a 200th.
    OptionError
        For a placement or a drafter that the model does not fit.
    """
    model, setup = served.model, served.setup
    check_placement(model, setup.placement)
    if drafter is not None:
        drafter.describe(model)  # refuses a model that the drafter does not fit
    # The bound moves what the server stores, in the formats that it caches in by default too.
    options = served_options(model, setup)
    stored = Options(
        kv_dtype=options.kv_dtype,
        index_dtype=options.index_dtype,
        weight_dtype=options.weight_dtype,
    )
    stated = Stated(
        model=model.name,
        placement=setup.placement,
        weight_bits=served.weight_bits,
        kv_dtype=served.kv_dtype,
        kv_chosen=setup.options.kv_dtype is not None,
    )
    refuse_other_setup(points, stated)

    def cases_on(hardware: HardwareProfile) -> list[Case]:
        ideal = engine_setup(hardware, IDEAL_ENGINE.name, setup.placement, stored)
        return own_cases(points, Served(model, ideal), drafter)

    cases = cases_on(setup.hardware)
    for case in cases:
        if case.drafter is not None:
            refuse_other_drafts(case.point, case.drafter.name, branches=case.branches)
    rates = Record(cases).rates().measured
    measured = np.array([point.rate for point in points])
    beyond = np.flatnonzero((measured > _FASTEST * rates) | (measured < _SLOWEST * rates))
    if not beyond.size:
        return rates
    peak = setup.hardware.peak
    faster = replace(peak, memory_bytes_per_s=_MORE_BANDWIDTH * peak.memory_bytes_per_s)
    freed = Record(cases_on(replace(setup.hardware, peak=faster))).rates().measured
    at = int(beyond[0])
    message = _impossible(points[at], float(rates[at]), float(freed[at]), served)
    raise MeasurementError(message)


def _impossible(point: Measurement, rate: float, freed: float, served: Served) -> str:
    """Say that a throughput is above what any engine reaches, or below what every one does.

    Parameters
    ----------
    point
        What was measured.
    rate, freed
        What the ideal roofline allows, and with `_MORE_BANDWIDTH` times the file's bandwidth.
    served
        Of what, where.
    """
    setup = served.setup
    stated, best = f"{point.rate:g} tokens/s", f"{rate:.4g}"
    beyond, cause = "less than a 200th of", "other units, another model, or other devices?"
    faster = point.rate > rate
    if faster:
        beyond = "more than"
    if point.pass_s is not None:
        stated, best = f"pass_s {point.pass_s:g}", f"{float(point.batch_size or 1) / rate:.4g}"
        beyond = "less than" if faster else "more than 200 times"
    if faster and point.rate <= _FASTEST * freed:
        bandwidth = setup.hardware.peak.memory_bytes_per_s
        cause = (
            f"memory binds there, so the likely cause is that peak.memory_bytes_per_s of "
            f"{setup.hardware.name}, {bandwidth:.4g}, is too low; else {cause}"
        )
    return (
        f"{point.place}: {stated} is {beyond} the {best} that {served.model.name} reaches on "
        f"{setup.placement.devices} x {setup.hardware.name} at best; {cause}"
    )
