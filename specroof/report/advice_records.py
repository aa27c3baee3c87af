"""Advice as the object that ``--json`` prints, and as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import numpy as np

from specroof.arrays import fields_of, to_json_array
from specroof.policies.schedule import Day
from specroof.questions.advise import Advice, Served
from specroof.questions.advised import Row, Times
from specroof.questions.to_measure import ToMeasure
from specroof.report.columns import Columns, request_columns
from specroof.serving.workload import workload_json

#: What a server gives at a load, by the names of the fields.
_TIMES: Final = tuple(one.name for one in fields(Times))
_SPEEDUPS: Final = ("speedup", "speedup_low", "speedup_high")


def advice_json(found: Advice) -> dict[str, Any]:
    """Return advice as the object that ``--json`` prints: the best chip, then all of them."""
    chips = [_chip_json(found, chip) for chip in found.chips]
    return {
        "model": found.model.name,
        **workload_json(found.workload),
        **chips[0],
        "chips": chips,
        "notes": list(found.notes),
        "warnings": list(found.warnings),
    }


def _chip_json(found: Advice, chip: Served) -> dict[str, Any]:
    advised = chip.advised
    return {
        "hardware": chip.setup.hardware.name,
        "engine": chip.setup.engine.name,
        "placement": asdict(chip.setup.placement),
        "decision": chip.decision,
        "on_up_to": chip.up_to,
        "drafter": chip.drafter.name,
        "schedule": [list(entry) for entry in advised.schedule],
        "schedule_lost": advised.lost,
        "rows": [_row_json(row, found.drafters) for row in chip.rows],
        "traffic": _day_json(advised.day),
        "engine_config": chip.engine_config,
        "engine_files": chip.files,
        "break_even": chip.break_even,
        "to_measure": _to_measure_json(chip.to_measure),
        "capacity": advised.capacity,
        "warnings": list(chip.warnings),
    }


def _day_json(day: Day | None) -> dict[str, Any] | None:
    if day is None:
        return None
    return {
        **fields_of(day, "gain_of", "gain", "scheduled_gain", "fixed", "fixed_gain", "oracle_gain"),
        **fields_of(day, "changes", "held_margin", "held_changes", "held_gain"),
        "running": list(day.running),
        "saturated_hours": list(day.saturated),
    }


def _to_measure_json(found: ToMeasure | None) -> dict[str, Any] | None:
    if found is None:
        return None
    names = ("concurrency", "drafter", "draft_len", "moved_by", "swings", "command")
    return fields_of(found, *names)


def _times_json(times: Times) -> dict[str, float | None]:
    return {name: to_json_array(getattr(times, name)) for name in _TIMES}


def _speedups_json(*ends: float) -> dict[str, float | None]:
    """Return a speedup and the ends of its band."""
    return dict(zip(_SPEEDUPS, map(to_json_array, ends), strict=True))


def _row_json(row: Row, names: Sequence[str]) -> dict[str, Any]:
    choice = row.choice
    return {
        "concurrency": row.concurrency,
        "drafter": None if row.drafter is None else names[row.drafter],
        "draft_len": row.draft_len,
        **_speedups_json(*row.speedup),
        "verdict": row.verdict,
        **_times_json(row.times),
        "plain": _times_json(row.plain),
        "tried": {
            "drafter": names[row.tried],
            "draft_len": choice.tried,
            **_speedups_json(choice.speedup, choice.low, choice.high),
        },
        "own_lengths": [
            {"drafter": names[d], "draft_len": k, "speedup": to_json_array(speedup)}
            for (d, k), speedup in row.own.items()
        ],
        "limited_by": row.limited_by or None,
        "speedup_without": {name: to_json_array(value) for name, value in row.limits.items()},
        "meets_targets": row.meets,
    }


def advice_columns(found: Advice) -> Iterator[Columns]:
    """Yield a row for each load of a chip, chip by chip; "plain_" stands for without drafts."""
    for chip in found.chips:
        setup, rows = chip.setup, chip.rows
        times = {"": [row.times for row in rows], "plain_": [row.plain for row in rows]}
        ends = np.array([row.speedup for row in rows], dtype=np.float64)
        advised = [None if row.drafter is None else found.drafters[row.drafter] for row in rows]
        yield {
            "model": found.model.name,
            "hardware": setup.hardware.name,
            "engine": setup.engine.name,
            **asdict(setup.placement),
            **request_columns(found.workload),
            "concurrency": np.array([row.concurrency for row in rows], dtype=np.float64),
            "drafter": np.array([name or "" for name in advised]),
            "draft_len": np.array([row.draft_len for row in rows], dtype=np.float64),
            **dict(zip(_SPEEDUPS, ends.T.copy(), strict=True)),
            "verdict": np.array([row.verdict for row in rows]),
            **{
                f"{prefix}{name}": np.array(
                    [getattr(one, name) for one in of_rows], dtype=np.float64
                )
                for prefix, of_rows in times.items()
                for name in _TIMES
            },
            "limited_by": np.array([row.limited_by for row in rows]),
            "meets_targets": np.array([row.meets for row in rows]),
        }


# --- the page -------------------------------------------------------------------------------------
