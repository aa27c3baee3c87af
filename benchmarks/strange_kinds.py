"""Measure how far bands hold where a format, or a kind of attention, was not measured.

Of every server on every family of chips, the loads of each format of weights, and of each kind of
attention, are left out of a fit of their own, and predicted by it, simulated. Such loads have the
bands of a chip that nobody measured (`specroof.speedup.reach.evidence_engine`): printed is how many
these hold, and how many the bands of the server on its family would.

    PYTHONPATH=.:benchmarks python benchmarks/strange_kinds.py

It makes 66 fits: ten minutes on two cores.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Final

import numpy as np

from fitting.parameters import ALL, FITTED_BESIDE_ROUNDS, family_of, stored_fits
from fitting.served_fit import ServedPoints, fit_without, fitted_loads
from fitting.shared_fit import NOT_FITTED, Points, engine_key, engine_of, in_processes
from specroof import load_drafter
from specroof.arrays import grouped
from specroof.evidence import Measurement, load_measurements
from specroof.evidence.measurement import chip_of
from specroof.hardware.engine import IDEAL_ENGINE, served_width
from specroof.hardware.profile import GENERIC
from specroof.scoring.left_out import served_of
from specroof.scoring.scores import TRUSTED
from specroof.scoring.served import curve_of, played_figures
from specroof.speedup.reach import deployment_words

#: A kind of word, and where it was not measured: a server, a family of chips, and the words.
Cell = tuple[str, str, str, str]
KINDS: Final = ("formats", "attention")
#: Loads of a cell that counts.
LEAST: Final = 15
TPOT: Final = "tpot_s"


@cache
def cell_of(kind: str, point: Measurement) -> Cell:
    """Return the cell of a measurement."""
    words = deployment_words(served_of(point, IDEAL_ENGINE))[kind]
    chip = chip_of(point.hardware or "")
    return kind, point.engine or "", str(family_of(chip)), " ".join(words)


def fits_without(cells: Sequence[Cell], loads: Sequence[Measurement]) -> list[dict[str, float]]:
    """Return a fit without each cell: of what all share, that to all; of factors, its own."""
    points = [point for point in load_measurements() if (point.trust or 0) <= TRUSTED]
    drafted = Points(
        [point for point in points if point.method not in NOT_FITTED], FITTED_BESIDE_ROUNDS
    )
    shared = stored_fits()[ALL]
    served = ServedPoints(loads, shared)

    def fitted(task: int) -> dict[str, float]:
        cell = cells[task]
        return fit_without(
            shared, shared, served, drafted, lambda point: cell_of(cell[0], point) == cell
        )

    return in_processes(fitted, len(cells))


def held(fit: Mapping[str, float], loads: Sequence[Measurement]) -> np.ndarray:
    """Return whether bands hold TPOT, shape (loads, 2): of a strange chip, and of its family."""
    found = []
    for alike in grouped(loads, curve_of).values():
        chip = chip_of(alike[0].hardware or "")
        server = alike[0].engine or ""
        engine = engine_of(engine_key(alike[0]), fit)
        predicted = played_figures(alike, engine, load_drafter("ideal"))[TPOT][:, 0]
        off = np.log(predicted / [load.tpot_s for load in alike])
        clients = [load.concurrency or 1 for load in alike]
        others = {} if chip.generic is None else chip.generic.engines
        bands = others.get(server, others[GENERIC]), chip.engines[server]
        widths = [served_width(one.served_bands, f"played_{TPOT}", clients) for one in bands]
        found.append(np.abs(off)[:, None] <= np.array(widths, dtype=float).T)
    return np.concatenate(found)


def main() -> None:
    """Print the shares of each cell, and their means over cells of 15 and more loads."""
    loads = [load for load in fitted_loads() if load.tpot_s]
    groups = {
        cell: own for kind in KINDS for cell, own in grouped(loads, partial(cell_of, kind)).items()
    }
    shares = defaultdict(list)
    for cell, fit in zip(groups, fits_without([*groups], loads), strict=True):
        inside = held(fit, groups[cell]).mean(axis=0)
        print(
            f"{' '.join(cell):50s} {len(groups[cell]):4d} loads {inside[0]:5.0%} {inside[1]:5.0%}"
        )
        if len(groups[cell]) >= LEAST:
            shares[cell[0]].append(inside)
    for kind, each in shares.items():
        strange, near = np.mean(each, axis=0)
        print(f"{kind}: bands of strange chips hold {strange:.0%}, of the family {near:.0%}")


if __name__ == "__main__":
    main()
