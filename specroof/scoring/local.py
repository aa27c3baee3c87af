"""Engines for one user: what llama.cpp and MLX did beside fits that have not seen the model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final

import numpy as np

from specroof.arrays import grouped
from specroof.catalog import hardware_names, local_engines
from specroof.cost import ForwardPass
from specroof.evidence import (
    STEP,
    Measurement,
    acceptance_of,
    drafter_of,
    load_local,
    request_lengths,
)
from specroof.evidence.measurement import chip_of
from specroof.hardware.engine import EngineProfile
from specroof.latency.model import model_latency
from specroof.scoring.left_out import served_of
from specroof.scoring.scores import Scored, mean
from specroof.speedup.curve import decoding_curve

#: Cached tokens of plain decoding where a source says nothing: a short prompt and half an answer.
_CONTEXT: Final = 512.0

#: The table of steps by cached tokens. Of the mixes in its files the bytes are not known, so that a
#: step counts relative to the one behind the shortest context.
_DEPTHS: Final = "strix-halo-depth"
#: The table whose plain rates stand beside those with drafts, of such a mix, too.
BASELINES: Final = "strix-halo-mtp"

#: The table that no fit counts.
REPORTS: Final = "reports"

#: From a measurement to the engine that predicts it.
EngineOf = Callable[[Measurement], EngineProfile]


def left_out_engine(point: Measurement) -> EngineProfile:
    """Return the engine of a point by the fit without its model, or of a report as it ships."""
    if point.source == REPORTS:
        return chip_of(point.hardware or "").engine(point.engine)
    known, name = local_engines(), point.engine or ""
    return known.left_out.get(name, {}).get(point.model or "", known.engines[name])


def local_scores(
    points: Iterable[Measurement] | None = None, engine_of: EngineOf = left_out_engine
) -> tuple[Scored, ...]:
    """Return measurements of local machines beside predictions, of four kinds.

    ``"pass"`` of one to 32 tokens or plain ``"step"`` in seconds, ``"depth"``, a step over that
    behind the shortest context, and ``"speedup"``.

    Left out are those on chips without a file, on several devices, and with drafts of which the
    source does not say how many were accepted.

    Parameters
    ----------
    points
        Those of `load_local` if None.
    engine_of
        Which engine predicts.

    Source
        The measurements name theirs; predictions are those of `specroof.predict`.
    """
    names = set(hardware_names())
    scored = [
        point
        for point in (load_local() if points is None else points)
        if point.hardware in names
        and (point.tokens_per_round if point.drafts else point.source != BASELINES)
    ]

    def alike(point: Measurement) -> tuple[object, ...]:
        build = point.engine_version if point.source == _DEPTHS else ""
        shape = (point.model, point.hardware, point.engine, point.quantization)
        return point.source, build, shape, point.drafts

    groups = grouped(scored, alike).values()
    return tuple(chain.from_iterable(_compared(group, engine_of(group[0])) for group in groups))


def _compared(group: Sequence[Measurement], engine: EngineProfile) -> Iterator[Scored]:
    """Yield points of one model in one format on one chip beside predictions."""
    first = group[0]
    served = served_of(first, engine)
    if first.drafts:
        for point in group:
            drafts, drafter = int(point.draft_len or 0), drafter_of(point)
            context = request_lengths(point)[2] if point.input_len else _CONTEXT
            acceptance = acceptance_of(point, drafter)
            curve = decoding_curve(
                served, drafter, acceptance, 1, context_len=context, max_draft_len=drafts
            )
            speedup = float(curve.speedup[0, 0, drafts])
            yield Scored(point, "speedup", speedup, point.measured_speedup or 1.0)
        return
    batch, tokens = (
        np.array([float(getattr(point, name) or 1) for point in group])
        for name in ("batch_size", "verify_len")
    )
    cached = [0.0 if p.method == STEP else p.context_len or _CONTEXT for p in group]
    # llama-bench asks for the logits of the last token alone, a verification for all.
    head_len = 1 if engine.rules == "llama.cpp" else tokens
    forward = ForwardPass(batch, tokens, np.array(cached), head_len=head_len)
    seconds = np.broadcast_to(
        model_latency(served.model, served.setup, forward).total_s, tokens.shape
    )
    measured_s = batch / np.array([point.rate for point in group])
    if first.source == _DEPTHS:
        shortest = int(np.argmin(cached))
        seconds, measured_s = seconds / seconds[shortest], measured_s / measured_s[shortest]
    for point, predicted, took in zip(group, seconds.tolist(), measured_s.tolist(), strict=True):
        kind = "depth" if first.source == _DEPTHS else "pass" if point.method == STEP else "step"
        yield Scored(point, kind, predicted, took)


@dataclass(frozen=True, slots=True)
class LocalErrors:
    """How far predictions of one kind were off in one engine.

    Parameters
    ----------
    source, engine, kind
        Of the measurements; all sources where it is empty.
    points
        How many.
    mean
        Mean of the errors without their signs.
    verdicts
        Of speedups, the share whose side of 1 is the measured one; None of others.
    """

    source: str
    engine: str
    kind: str
    points: int
    mean: float
    verdicts: float | None = None


def local_errors(scores: Iterable[Scored]) -> tuple[LocalErrors, ...]:
    """Return errors by source, engine and kind."""
    groups = grouped(scores, lambda one: (one.point.source, one.point.engine or "", one.kind))
    return tuple(errors_of(group, *key) for key, group in groups.items())


def errors_of(
    scores: Sequence[Scored], source: str = "", engine: str = "", kind: str = ""
) -> LocalErrors:
    """Return the errors of some measurements together."""
    sides = [(one.predicted > 1) == (one.measured > 1) for one in scores if one.kind == "speedup"]
    errors = float(np.mean([score.error for score in scores]))
    return LocalErrors(source, engine, kind, len(scores), errors, mean(sides))


def draft_len_regrets(scores: Iterable[Scored]) -> tuple[float, ...]:
    """Return what the draft length loses that is predicted best, wherever several were measured.

    Returns
    -------
    tuple of float
        Shares of the best measured speedup, one for each prompt set and machine.
    """
    run = attrgetter(
        *("source", "engine", "engine_version", "hardware", "quantization", "method", "task")
    )
    speedups = [one for one in scores if one.kind == "speedup"]
    return tuple(
        1 - max(group, key=attrgetter("predicted")).measured / max(one.measured for one in group)
        for group in grouped(speedups, lambda one: run(one.point)).values()
        if len({one.point.draft_len for one in group}) > 1
    )
