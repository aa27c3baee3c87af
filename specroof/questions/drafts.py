"""The facts of drafts that a page needs besides seconds: acceptance in tables, flags to paste."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from specroof.acceptance import Acceptance, acceptance_from_length
from specroof.acceptance.published import load_profiles
from specroof.arrays import Array
from specroof.errors import OptionError
from specroof.serving.launch import LAUNCHERS, Speculation, launch
from specroof.speedup.result import tokens_spread

#: Depths at which an acceptance length may be stated.
LENGTH_DEPTHS: Final = (1, 2, 3, 4, 5, 7, 15)
#: Steps of a stated length for each token.
LENGTH_STEPS: Final = 10
#: Of tokens and of logarithms: a page is exact to fewer.
_DECIMALS: Final = 9
#: A page plans one draft length for any load.
_ANY_LOAD: Final = 1 << 20


def _curves(acceptance: Acceptance, max_draft_len: int) -> dict[str, list[float | None]]:
    """Return tokens per round and their spread, None past the depth."""
    lengths = np.arange(max_draft_len + 1)
    below, above = tokens_spread(acceptance, lengths)
    curves = {"tokens": acceptance.tokens_per_round(lengths), "below": below, "above": above}
    return {
        name: [round(float(one), _DECIMALS) if np.isfinite(one) else None for one in values]
        for name, values in curves.items()
    }


def profile_tokens(max_draft_len: int) -> list[dict[str, Any]]:
    """Return every published profile: its name, model, drafter, tokens per round and their spread.

    Parameters
    ----------
    max_draft_len
        The longest draft; None past the depth of a profile.
    """
    return [
        {
            "name": profile.name,
            "model": profile.model,
            "drafter": profile.drafter,
            **_curves(profile.acceptance(), max_draft_len),
        }
        for profile in load_profiles()
    ]


def typical_acceptance(kind: str, max_draft_len: int) -> dict[int, dict[str, Array]]:
    """Return tokens per round of the typical drafter of a kind, and how far they may be off.

    Parameters
    ----------
    kind
        As a SPEC calls it.
    max_draft_len
        The longest draft.

    Returns
    -------
    dict
        For each of `LENGTH_DEPTHS`: `tokens`, and `below` and `above` from `tokens_spread`, axes
        (stated length, draft length); lengths go from 1 to depth + 1 in steps of 1 /
        `LENGTH_STEPS`.
    """
    lengths = np.arange(max_draft_len + 1)
    found: dict[int, dict[str, Array]] = {}
    for depth in LENGTH_DEPTHS:
        stated = [
            acceptance_from_length(1 + step / LENGTH_STEPS, depth, kind=kind)
            for step in range(depth * LENGTH_STEPS + 1)
        ]
        spread = np.array([tokens_spread(one, lengths) for one in stated])
        tokens = np.array([one.tokens_per_round(lengths) for one in stated])
        found[depth] = {"tokens": tokens, "below": spread[:, 0], "above": spread[:, 1]}
    return found


def flags_to_paste(kind: str, max_draft_len: int) -> Mapping[str, list[str]]:
    """Return the flags that start each server software with a kind of drafter, by draft length.

    Parameters
    ----------
    kind
        As a SPEC calls it.
    max_draft_len
        The longest draft; the first entry is of one draft.
    """
    found: dict[str, list[str]] = {}
    for framework in LAUNCHERS:
        try:
            found[framework] = [
                launch(Speculation(kind=kind, schedule=((1, _ANY_LOAD, drafts),)), framework).text
                for drafts in range(1, max_draft_len + 1)
            ]
        except OptionError:  # it has no flag for this kind
            continue
    return found
