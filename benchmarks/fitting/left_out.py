"""The data file of profiles that were fitted without a source: what `specroof validate` reads."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fitting.generic import generic, left_out_generics
from fitting.kernels import KERNEL_CHIPS, KERNEL_ENGINE
from fitting.parameters import ALL, SERVERS, family_of, fitted_parameters, stored_fits
from fitting.shared_fit import engine_of
from specroof.evidence import Measurement, kind_of, load_served
from specroof.evidence.measurement import chip_of
from specroof.hardware.engine import EngineProfile
from specroof.hardware.written import written_generic
from specroof.scoring.left_out import SERVED_GROUPS, served_group


def left_out_content(measurements: Iterable[Measurement]) -> dict[str, Any]:
    """Return the mapping that `specroof.hardware.profile.parse_left_out_fits` reads.

    Parameters
    ----------
    measurements
        Those that are to be predicted: an engine on a family of chips gets a profile for each
        source that has measured it, fitted without that source, and one for each group of served
        loads that it has.
    """
    # By engine, then by the place in the file: a family, or a chip whose kernels were timed.
    sources: dict[str, dict[str, set[str]]] = {
        engine: {family: set() for family in families} for engine, families in SERVERS.items()
    }
    sources[KERNEL_ENGINE] = {chip: set() for chip in KERNEL_CHIPS}
    seen = [(point, {point.source}) for point in measurements if kind_of(point)[0]]
    seen += [(load, {served_group(load, by) for by in SERVED_GROUPS}) for load in load_served()]
    for point, without in seen:
        chip = chip_of(point.hardware or "")
        places = sources.get(point.engine or "", {}) if family_of(chip) else {}
        for place in places.keys() & {str(family_of(chip)), *chip.aliases}:
            places[place] |= without
    return {
        "made_by": "benchmarks/fit_engines.py, from specroof/evidence/measurements",
        "engines": {
            engine: {
                place: _written(
                    {
                        without: engine_of((engine, place, False), fitted_parameters(without))
                        for without in (ALL, *sorted(seen & stored_fits().keys()))
                    }
                )
                for place, seen in places.items()
                if seen or engine != KERNEL_ENGINE
            }
            for engine, places in sources.items()
        },
        "generic": {
            without: written_generic(made) for without, made in left_out_generics().items()
        },
    }


def _written(profiles: Mapping[str, EngineProfile]) -> Any:
    """Return profiles as files have them, by their keys."""
    holder = replace(generic(fitted_parameters()), engines=profiles)
    return written_generic(holder)["engines"]


def left_out_text(content: Mapping[str, Any]) -> str:
    """Return the text of the data file: a line for each profile, so that changes can be read."""

    def lines(value: Any, depth: int) -> str:
        if depth == 0 or not isinstance(value, Mapping):
            return json.dumps(value)
        margin = " " * (4 - depth)
        rows = [
            f"{margin} {json.dumps(key)}: {lines(part, depth - 1)}" for key, part in value.items()
        ]
        return "{\n" + ",\n".join(rows) + f"\n{margin}}}"

    return lines(content, 4) + "\n"
