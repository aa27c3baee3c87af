"""Acceptance that drafters reached by what they were trained on."""

from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np

from specroof.acceptance.typical import acceptance_from_length
from specroof.errors import refuse
from specroof.reading.table import parse_table

_COLUMNS: Final = (*("kind", "samples", "draft_len", "accept_length", "target", "note", "source"),)
#: Drafts at which acceptance lengths are compared.
COMPARED_DRAFTS: Final = 3
#: Tokens a round by which the line missed a set of samples that it had not seen, at most.
_BAND: Final = 0.3


@cache
def trained_rows() -> tuple[dict[str, Any], ...]:
    """Return the published drafters whose training set is stated, as rows of the bundled table."""
    source = "trained.csv"
    text = files("specroof.acceptance.published").joinpath(source).read_text(encoding="utf-8")
    needed = ("kind", "samples", "accept_length")
    return tuple(
        row for _, row in parse_table(text, source=source, columns=_COLUMNS, needed=needed)
    )


def expected_length(kind: str, samples: float) -> tuple[float, float, float] | None:
    r"""Return the tokens a round to expect of a drafter trained on so many samples.

    .. math:: N_3 = a + b \log_{10} n

    Parameters
    ----------
    kind
        What is trained, as a SPEC calls it.
    samples
        n: conversations that it is trained on.

    Returns
    -------
    tuple of float, or None
        The least, the expected and the most tokens a round with 3 drafts, bonus included. None for
        a kind of which too few were published to say.

    Raises
    ------
    OptionError
        For fewer or more samples than any published drafter of that kind was trained on.

    Counts
        each size of training set once: the mean of what was reached with it, all at 3 drafts.
    Ignores
        epochs beyond the first, the target, and what the samples are. A set of samples that the
        line had not seen, within the range of the others, was at most 0.29 tokens off; the band is
        0.3.
    Source
        Least squares through the rows of ``trained.csv``; each names its own source.

    Examples
    --------
    >>> [round(tokens, 1) for tokens in expected_length("eagle3", 508_000)]
    [2.2, 2.5, 2.8]
    """
    rows = [row for row in trained_rows() if row["kind"] == kind]
    if len({row["samples"] for row in rows}) < 2:  # one point has no slope
        return None
    reached: dict[float, list[float]] = {}
    for row in rows:
        drafts = int(row.get("draft_len", COMPARED_DRAFTS))
        curve = acceptance_from_length(row["accept_length"], drafts, kind=kind)
        tokens = float(curve.tokens_per_round(COMPARED_DRAFTS))
        reached.setdefault(row["samples"], []).append(tokens)
    if not min(reached) <= samples <= max(reached):
        allowed = (
            f"{min(reached):g} to {max(reached):g}, as published drafters of kind {kind} were "
            "trained on; or accept_length, as you expect it"
        )
        refuse("samples", samples, allowed)
    places = np.log10([*reached])
    slope, start = np.polyfit(places, [np.mean(lengths) for lengths in reached.values()], 1)
    expected = float(start + slope * np.log10(samples))
    return expected - _BAND, expected, expected + _BAND
