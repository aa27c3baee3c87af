"""What a page needs to know of drafts apart from seconds: acceptance in tables, flags to paste."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from specroof.acceptance import Acceptance, acceptance_from_length
from specroof.acceptance.published import load_profiles
from specroof.errors import OptionError
from specroof.serving.launch import LAUNCHERS, Speculation, launch

__all__ = ["LENGTH_DEPTHS", "LENGTH_STEPS", "flags_to_paste", "profile_tokens", "typical_tokens"]

#: Depths at which an acceptance length may be stated.
LENGTH_DEPTHS: Final = (1, 2, 3, 4, 5, 7, 15)
#: Steps of a stated length for each token.
LENGTH_STEPS: Final = 10
#: A page plans one draft length for any load.
_ANY_LOAD: Final = 1 << 20


def _tokens(acceptance: Acceptance, max_draft_len: int) -> list[float | None]:
    found = acceptance.tokens_per_round(np.arange(max_draft_len + 1))
    return [float(one) if np.isfinite(one) else None for one in found]


def profile_tokens(max_draft_len: int) -> list[dict[str, Any]]:
    """Return every published profile: its name, model, drafter, and tokens per round by depth.

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
            "tokens": _tokens(profile.acceptance(), max_draft_len),
        }
        for profile in load_profiles()
    ]


def typical_tokens(kind: str, max_draft_len: int) -> dict[int, list[list[float | None]]]:
    """Return tokens per round by depth of the typical drafter of a kind, by stated length.

    Parameters
    ----------
    kind
        As a SPEC calls it.
    max_draft_len
        The longest draft.

    Returns
    -------
    dict
        For each of `LENGTH_DEPTHS`, a curve for each length from 1 to depth + 1 in steps of
        1 / `LENGTH_STEPS`.
    """
    return {
        depth: [
            _tokens(
                acceptance_from_length(1 + step / LENGTH_STEPS, depth, kind=kind), max_draft_len
            )
            for step in range(depth * LENGTH_STEPS + 1)
        ]
        for depth in LENGTH_DEPTHS
    }


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
