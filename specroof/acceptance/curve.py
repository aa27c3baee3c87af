"""Acceptance of drafts, as one thing: a survival curve."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.acceptance.checks import draft_lengths

Law = Callable[[tuple[Any, ...], int], NDArray[np.float64]]


@dataclass(frozen=True)
class Acceptance:
    r"""How far the drafts of one round survive verification.

    Made by :func:`constant_acceptance` and its siblings, which check what they are given.

    .. math:: s_d = P(\text{accepted} \ge d), \quad N(\gamma) = 1 + \sum_{d=1}^{\gamma} s_d

    Counts
        a run of accepted drafts from the first position on, and in N the bonus token that the
        target's own pass adds to every round, whatever was accepted.
    Ignores
        that a longer draft may change the drafts before it, and that the last round of a request
        may commit more than is asked for: about half a round of tokens per request.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1 and equation 1, for any curve.

    Attributes
    ----------
    description : str
        One line for people.
    max_draft_len : int or None
        The longest draft the curve knows about, past which it is NaN; None where it has no end.
    law, parameters
        A function of this module that returns s_0 … s_depth, and the numbers it takes beside the
        depth. Plain data, so that curves compare, hash and pickle.
    measured_on : str or None
        The model whose drafts were measured, where the curve comes from a profile: acceptance
        does not carry over from one model to another.
    measured_depth : int or None
        The longest draft that was measured; None where a law is given and nothing was measured.
        Beyond it, the curve is what its law says.
    spread : tuple of float
        How far logarithms of tokens per round may lie from the curve, within the measured depth
        and beyond, for each unit of the logarithm of the ratio of depths; see `band`.
    caveats : tuple of str
        What to know before using the curve: a sentence each.
    """

    description: str
    max_draft_len: int | None
    law: Law = field(repr=False)
    parameters: tuple[float, ...] = field(repr=False)
    measured_on: str | None = field(default=None, repr=False)
    measured_depth: int | None = field(default=None, repr=False)
    spread: tuple[float, float] = field(default=(0.0, 0.0), repr=False)
    caveats: tuple[str, ...] = field(default=(), repr=False)

    def survival(self, draft_len: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that the first `draft_len` drafts are all accepted.

        Examples
        --------
        >>> from specroof import constant_acceptance, survival_acceptance
        >>> constant_acceptance(0.5).survival([0, 1, 2, 3])
        array([1.   , 0.5  , 0.25 , 0.125])
        >>> survival_acceptance([0.9, 0.6]).survival([2, 3])
        array([0.6, nan])
        """
        lengths = draft_lengths(draft_len)
        return np.asarray(self._survival_table(lengths)[lengths])

    def tokens_per_round(self, draft_len: ArrayLike) -> NDArray[np.float64]:
        """Return the expected tokens committed per sequence and round, bonus token included.

        Examples
        --------
        >>> from specroof import constant_acceptance, survival_acceptance
        >>> constant_acceptance(0.5).tokens_per_round([0, 1, 2, 3])  # 1 + 1/2 + 1/4 + 1/8
        array([1.   , 1.5  , 1.75 , 1.875])
        >>> survival_acceptance([0.9, 0.6]).tokens_per_round([2, 3])  # 1 + 0.9 + 0.6
        array([2.5, nan])
        """
        return np.asarray(1.0 + self.accepted_tokens(draft_len))

    def accepted_tokens(self, draft_len: ArrayLike) -> NDArray[np.float64]:
        """Return the expected number of accepted drafts: `tokens_per_round` less the bonus token.

        Examples
        --------
        >>> from specroof import constant_acceptance, survival_acceptance
        >>> constant_acceptance(0.5).accepted_tokens([0, 1, 2, 3])  # 1/2 + 1/4 + 1/8
        array([0.   , 0.5  , 0.75 , 0.875])
        """
        lengths = draft_lengths(draft_len)
        drafts = self._survival_table(lengths)
        drafts[0] = 0.0  # s_0 is certain, not a draft
        # Adding terms up, never (1 - α^γ) / (1 - α), which cancels where α is near 1.
        return np.asarray(np.cumsum(drafts)[lengths])

    def band(self, draft_len: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return the low and the high end of tokens per round, between which 80% of drafters lie.

        .. math:: N_{\pm}(\gamma) = N(\gamma) \,
            \left(\gamma / \gamma_0\right)^{\pm w} \text{ for } \gamma > \gamma_0

        with w of `spread` and γ_0 the measured depth, where the band closes; below it the ratio is
        the other way round. Both ends stay from 1 to γ + 1.

        Counts
            what a measured length leaves open at other depths.
        Ignores
            the error of the measurement itself.
        Source
            Profiles of models that were left out, `specroof.acceptance.typical.SHAPES`.

        Examples
        --------
        >>> from dataclasses import replace
        >>> from specroof import constant_acceptance
        >>> half = replace(constant_acceptance(0.5), measured_depth=1, spread=(0.0, 0.1))
        >>> half.band([1, 2])  # 1.75 / 2 ** 0.1 and 1.75 * 2 ** 0.1
        (array([1.5       , 1.63280774]), array([1.5       , 1.87560356]))
        """
        lengths = draft_lengths(draft_len)
        expected = self.tokens_per_round(lengths)
        measured = self.max_draft_len if self.measured_depth is None else self.measured_depth
        if not measured:
            return expected, expected
        ratio = np.log(np.maximum(lengths, 1) / measured)
        within, beyond = self.spread
        width = np.exp(np.where(ratio > 0, beyond, within) * np.abs(ratio))
        return np.maximum(expected / width, 1.0), np.minimum(expected * width, lengths + 1.0)

    def _survival_table(self, lengths: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return s_0, s_1, … up to the longest of `lengths`, NaN past the known depth."""
        longest = int(lengths.max(initial=0))
        depth = longest if self.max_draft_len is None else min(longest, self.max_draft_len)
        table = np.full(longest + 1, np.nan)
        table[: depth + 1] = self.law(self.parameters, depth)
        return table


def acceptance_notes(acceptance: object, model: str) -> list[str]:
    """Return what to know about an acceptance: its caveats, and another model it was measured on.

    Parameters
    ----------
    acceptance
        Anything; only what a profile gave knows its model.
    model
        A name of the target: ``NAME``, ``ORG/NAME`` or the path of its config.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from specroof import constant_acceptance
    >>> profile = replace(constant_acceptance(0.8), measured_on="Qwen3-8B")
    >>> (
    ...     acceptance_notes(profile, "Qwen/Qwen3-8B"),
    ...     acceptance_notes(constant_acceptance(0.8), "x"),
    ... )
    ([], [])
    >>> acceptance_notes(profile, "Llama-3.1-8B")
    ['acceptance was measured on Qwen3-8B, and the target is Llama-3.1-8B']
    """
    caveats = list(getattr(acceptance, "caveats", ()))
    measured_on = getattr(acceptance, "measured_on", None)
    if measured_on is None:
        return caveats
    # A config at a path is called after its folder or file, as in Qwen--Qwen3-8B.json.
    names = re.split(r"[/\\]|--", model.casefold().removesuffix(".json"))
    if measured_on.casefold() in names:
        return caveats
    return [*caveats, f"acceptance was measured on {measured_on}, and the target is {model}"]
