"""What an engine predicts for results of one's own, and whether they can be compared with it."""

from collections.abc import Sequence
from typing import Final

from specroof.arrays import Array
from specroof.cost import Options
from specroof.drafters import Drafter, TokensPerRound
from specroof.engines.record import Case, Record, case_of
from specroof.errors import MeasurementError
from specroof.evidence import (
    Measurement,
    Stated,
    acceptance_of,
    refuse_other_drafts,
    refuse_other_setup,
)
from specroof.hardware import IDEAL_ENGINE
from specroof.latency import check_placement, engine_setup, served_options
from specroof.speedup.served import Served

#: A measurement may beat the ideal roofline by its own noise, not by more.
_FASTEST: Final = 1.1
#: Engines are 2 to 20 times slower than it, one sequence at a time; other units are a thousand.
_SLOWEST: Final = 1 / 200


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
    return [case_of(point, served, _drafting(point, drafter)) for point in points]


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
    ideal = engine_setup(setup.hardware, IDEAL_ENGINE.name, setup.placement, stored)
    cases = own_cases(points, Served(model, ideal), drafter)
    for case in cases:
        if case.drafter is not None:
            refuse_other_drafts(case.point, case.drafter.name, branches=case.branches)
    rates = Record(cases).rates().measured
    for point, rate in zip(points, rates.tolist(), strict=True):
        _refuse_impossible(point, rate, served)
    return rates


def _refuse_impossible(point: Measurement, rate: float, served: Served) -> None:
    """Refuse a throughput that no engine reaches, or that every one passes."""
    measured, setup = point.rate, served.setup
    if _SLOWEST <= measured / rate <= _FASTEST:
        return
    beyond = "more than" if measured > rate else "less than a 200th of"
    message = (
        f"{point.place}: {measured:g} tokens/s is {beyond} the {rate:.4g} that "
        f"{served.model.name} reaches on {setup.placement.devices} x {setup.hardware.name} at "
        f"best; other units, another model, or other devices?"
    )
    raise MeasurementError(message)
