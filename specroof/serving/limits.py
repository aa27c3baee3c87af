"""What a server runs of a grid of points: its room, plain and with drafts, and what binds it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.drafters import Drafter
from specroof.hardware import Server
from specroof.latency import Setup
from specroof.serving.capacity import ServedRoom, served_room
from specroof.speedup.curve import SpeedupCurve
from specroof.units import format_binary_bytes

__all__ = ["Limits", "limits_of"]

Array = npt.NDArray[np.float64]


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
        """The largest batch, axes (context_len, draft_len); [..., 0] that of plain decoding."""
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
        """What was assumed."""
        return tuple(dict.fromkeys((*self.plain.notes, *self.drafting.notes)))

    def warnings(self, curve: SpeedupCurve, *, queues: bool) -> Iterator[str]:
        """Yield a sentence for each context at which not all requests run that were asked for.

        Parameters
        ----------
        curve
            The curve, limited.
        queues
            Whether requests beyond the limit wait.
        """
        most, bound = self.largest, self.bound_by
        asked = curve.batch_size.max()
        for i, context in enumerate(curve.context_len):
            best = int(curve.best_draft_len[i, -1]) or min(1, most.shape[1] - 1)
            if min(most[i, 0], most[i, best]) >= asked:
                continue
            yield (
                f"context {context:g}: at most {most[i, 0]:g} requests run plain "
                f"({bound[i, 0]}), {most[i, best]:g} with {best} drafts of {self.drafter} "
                f"({bound[i, best]}); {'the rest wait' if queues else 'larger batches cannot be'}"
            )
            short = float(self.plain.room.short_bytes[i, 0])
            if not most[i, 0]:
                yield (
                    f"context {context:g}: not one request fits: {format_binary_bytes(short)} "
                    f"more would be needed on each device"
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
    contexts = curve.context_len[:, None]
    verify = np.maximum(np.asarray(curve.verify_len, dtype=np.float64), curve.draft_len + 1.0)
    return Limits(
        drafter.name,
        served_room(model, setup, context_len=contexts),
        served_room(
            model, setup, context_len=contexts, drafter=drafter, verify_len=verify[None, :]
        ),
    )
