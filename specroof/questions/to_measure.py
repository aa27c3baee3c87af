"""The one benchmark that would settle most, as a command."""

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from specroof.architecture import Architecture
from specroof.hardware import HardwareProfile
from specroof.latency import Setup
from specroof.policies.decision import least_settled, swings
from specroof.questions.advise_request import Asked
from specroof.questions.advised import Row
from specroof.questions.request import HardwareLike
from specroof.serving.benchmark_commands import FORCED, FRAMEWORKS
from specroof.serving.launch import CACHES, MADE_WEIGHTS, YOUR_DRAFT_MODEL

__all__ = ["FRAMEWORKS"]

#: Whose benchmark is written where the engine is of no server that can be told what to accept.
_USUAL: Final = "sglang"


@dataclass(frozen=True, slots=True)
class ToMeasure:
    """What to measure.

    Parameters
    ----------
    concurrency, drafter, draft_len
        The point whose verdict is least certain.
    swings
        By how much its speedup changes, as a logarithm, where an input changes by 10 % either
        way; the largest first.
    command
        What prints its benchmark; None where no engine can be told to accept its drafts, or
        `mock` has no flags for how the model is spread or stored.
    """

    concurrency: float
    drafter: str
    draft_len: int
    swings: dict[str, float]
    command: str | None

    @property
    def moved_by(self) -> str:
        """The input that moves the decision most."""
        return next(iter(self.swings))


def measured_next(
    asked: Asked, setup: Setup, hardware: HardwareLike, rows: Sequence[Row]
) -> ToMeasure | None:
    """Return the point to measure; None where nothing was tried.

    Parameters
    ----------
    asked
        The question.
    setup, hardware
        Where passes run, and the chip as it was given.
    rows
        The loads.
    """
    known = [row for row in rows if row.point is not None and math.isfinite(row.choice.speedup)]
    if not known:
        return None
    least = known[0].least
    bands = [
        tuple(e / least for e in (r.choice.low, r.choice.speedup, r.choice.high)) for r in known
    ]
    row = known[least_settled(bands)]  # type: ignore[arg-type]  # three of each
    drafter = asked.drafters[row.tried]
    return ToMeasure(
        concurrency=row.concurrency,
        drafter=drafter.name,
        draft_len=row.choice.tried,
        swings=swings(row.point) if row.point is not None else {},
        command=_command(asked, setup, hardware, row),
    )


def _command(asked: Asked, setup: Setup, hardware: HardwareLike, row: Row) -> str | None:
    """Return the `mock` command of a point."""
    drafter, request, model = asked.drafters[row.tried], asked.request, asked.request.model
    kind = drafter.kind
    can_be_told = kind in FORCED and ",tree=" not in drafter.name and drafter.acceptance is not None
    if isinstance(model, Architecture) or not can_be_told or not _can_be_served(setup):
        return None
    named = request.framework or setup.engine.rules
    chip = _chip(setup, hardware)
    call = ["specroof", "mock", os.fspath(model), "-H", chip, "--drafter", drafter.name]
    if kind != "mtp":
        call += ["--draft-model", request.draft_model or YOUR_DRAFT_MODEL]
    sizes = {
        "--draft-len": row.choice.tried,
        "--concurrency": round(row.concurrency),
        "--input-len": round(asked.workload.input_len),
        "--output-len": round(asked.workload.output_len),
        "--tp": setup.placement.tensor_parallel,
    }
    call += [str(word) for pair in sizes.items() for word in pair]
    formats = {"--weights": setup.options.weight_dtype, "--kv-cache": setup.options.kv_dtype}
    call += [str(word) for pair in formats.items() if pair[1] is not None for word in pair]
    return shlex.join([*call, "--framework", named if named in FRAMEWORKS else _USUAL])


def _can_be_served(setup: Setup) -> bool:
    """Whether `mock` can start a server like it: one group, in formats that engines make."""
    place, options = setup.placement, setup.options
    return (
        place.expert_parallel == place.attention_data_parallel == 1
        and options.weight_dtype in {None, *MADE_WEIGHTS}
        and options.kv_dtype in {None, *CACHES[_USUAL]}
    )


def _chip(setup: Setup, given: HardwareLike) -> str:
    """Return a chip's name as it was given; of a profile, its shortest name."""
    if isinstance(given, HardwareProfile):
        return min((setup.hardware.name, *setup.hardware.aliases), key=len)
    return os.fspath(given)
