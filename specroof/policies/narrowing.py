"""The next measurement: the input that moves the decision most, the least certain point."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from specroof.policies.limiting import Point

#: How far each input is moved, either way.
STEP: Final = 0.1
#: Inputs of a speedup, in words.
INPUTS: Final = {
    "acceptance": "accepted drafts",
    "verification": "time of a verification",
    "drafting": "time of drafting",
    "step": "time of a plain step",
    "prompts": "time of a prompt",
}


def swings(point: Point, *, step: float = STEP) -> dict[str, float]:
    r"""Return by how much a speedup changes with each input, the largest change first.

    .. math:: \left|\ln \frac{s(x (1 + h))}{s(x (1 - h))}\right|

    Parameters
    ----------
    point
        Where drafts are made.
    step
        h: the share by which an input is moved, either way.

    Source
        One input at a time: a central difference of logarithms.

    Examples
    --------
    >>> point = Point(
    ...     draft_len=1,
    ...     tokens_per_round=1.5,
    ...     draft_s=0.5,
    ...     verify_s=2.0,
    ...     round_s=3.0,
    ...     decode_s=2.0,
    ...     running=1,
    ...     plain_running=1,
    ... )
    >>> list(swings(point))  # 1.1 / 0.9, 3.2 / 2.8, 1.55 / 1.45, 3.05 / 2.95, and no prompts
    ['step', 'verification', 'acceptance', 'drafting', 'prompts']
    """
    found = {
        name: abs(math.log(_moved(point, name, step).speedup / _moved(point, name, -step).speedup))
        for name in INPUTS
    }
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def _moved(point: Point, name: str, share: float) -> Point:
    """Return a point with one input larger by a share of itself."""
    if name == "acceptance":
        accepted = min((point.tokens_per_round - 1) * (1 + share), point.draft_len)
        return replace(point, tokens_per_round=1 + accepted)
    if name == "step":
        return replace(point, decode_s=point.decode_s * (1 + share))
    if name == "prompts":
        return replace(
            point,
            wait_s=point.wait_s * (1 + share),
            plain_wait_s=point.plain_wait_s * (1 + share),
        )
    part_s = point.verify_s if name == "verification" else point.draft_s
    return replace(point, round_s=point.round_s + share * part_s)


def least_settled(bands: Sequence[tuple[float, float, float]]) -> int:
    """Return the point to measure: its verdict is the least certain.

    Parameters
    ----------
    bands
        Low end, speedup and high end of each point, 1 being where drafting begins to pay.

    Source
        A measurement replaces a band by its own, so it narrows the widest most; it settles a
        verdict only near 1, so half-widths count in units of the distance from 1.

    Examples
    --------
    >>> least_settled([(1.8, 2.0, 2.2), (0.95, 1.05, 1.16), (0.6, 0.7, 0.8)])
    1
    >>> least_settled([(2.0, 2.0, 2.0), (1.1, 1.1, 1.1)])  # no bands: the one next to 1
    1
    """
    doubts = []
    for low, speedup, high in bands:
        distance = max(abs(math.log(speedup)), 1e-9)
        half_width = math.log(high / low) / 2
        doubts.append((half_width / distance, -distance))
    return doubts.index(max(doubts))
