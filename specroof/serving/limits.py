"""What a server runs of a grid of points: its room, plain and with drafts, and what binds it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.arrays import Array
from specroof.drafters import Drafter
from specroof.hardware import Server
from specroof.latency import Setup
from specroof.serving.capacity import ServedRoom, served_room
from specroof.speedup.curve import SpeedupCurve
from specroof.units import format_binary_bytes, format_drafts


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """The room of a server over contexts and draft lengths.

    Parameters
    ----------
    drafter
        What drafts.
    plain, drafting
        The room without it, axes (context_len, 1), and with it, axes (context_len, draft_len).
    """

    drafter: str
    plain: ServedRoom
    drafting: ServedRoom

    @property
    def largest(self) -> Array:
        """The largest batch, axes (context_len, draft_len); [..., 0] decodes plainly."""
        found = self.drafting.largest_batch.copy()
        found[:, :1] = self.plain.largest_batch
        return found

    @property
    def bound_by(self) -> npt.NDArray[Any]:
        """What limits it, axes as in `largest`."""
        found = self.drafting.room.bound_by.astype(object)
        found[:, :1] = self.plain.room.bound_by
        return found

    @property
    def server(self) -> Server:
        """What the server runs with while it drafts."""
        return self.drafting.server

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed: plain, the same but for what the drafter adds."""
        return self.drafting.notes

    def _run(self, most: float, drafts: int) -> str:
        if drafts:
            return f"{most:g} with {format_drafts(drafts)} of {self.drafter}"
        return "1 request runs plain" if most == 1 else f"{most:g} requests run plain"

    def warnings(self, curve: SpeedupCurve, beyond: str) -> Iterator[str]:
        """Yield a sentence for each context at which not all requests run that were asked for.

        Parameters
        ----------
        curve
            The curve, limited.
        beyond
            What becomes of more requests.
        """
        most, bound = self.largest, self.bound_by
        asked = curve.batch_size.max()
        known = np.flatnonzero(np.isfinite(curve.tokens_per_round[0, 0]))
        for i, context in enumerate(curve.context_len):
            if most[i, known].min() >= asked:
                continue
            # Plain, with the shortest draft and with the longest.
            ends = dict.fromkeys((0, *known[1:2].tolist(), int(known[-1])))
            parts = [
                f"{self._run(most[i, drafts], drafts)} ({bound[i, drafts]})" for drafts in ends
            ]
            yield f"context {context:g}: at most {', '.join(parts)}; {beyond}"
            if not most[i, 0]:
                short = format_binary_bytes(float(self.plain.room.short_bytes[i, 0]))
                yield (
                    f"context {context:g}: not one request fits: {short} more would be needed on "
                    f"each device"
                )
        if (
            bound[:, known][most[:, known] < asked] == "running"
        ).any() and self.server.stated.running is None:
            yield (
                f"the limit of running requests is a default of {self.server.framework}: "
                f"--server running={asked:g} asks what more would give"
            )


def limits_of(model: Architecture, setup: Setup, drafter: Drafter, curve: SpeedupCurve) -> Limits:
    """Return the room at the contexts and draft lengths of a curve.

    Parameters
    ----------
    model, setup
        What is served, and where; what its server was told.
    drafter, curve
        What drafts, and its curve, whose verifications say how many positions are kept.
    """
    return limits_at(model, setup, drafter, curve.context_len, curve.verify_len)


def limits_at(
    model: Architecture,
    setup: Setup,
    drafter: Drafter,
    context_len: Array,
    verify_len: npt.ArrayLike,
) -> Limits:
    """Return the room at some contexts and draft lengths.

    Parameters
    ----------
    model, setup, drafter
        As for `limits_of`.
    context_len
        Cached tokens, shape (contexts,).
    verify_len
        Positions of a verification by draft length, from 0; what is kept is one more than drafts
        at least.
    """
    verified = np.asarray(verify_len, dtype=np.float64)
    kept = np.maximum(verified, np.arange(len(verified)) + 1.0)[None, :]
    contexts = context_len[:, None]
    return Limits(
        drafter.name,
        served_room(model, setup, context_len=contexts),
        served_room(model, setup, context_len=contexts, drafter=drafter, verify_len=kept),
    )
