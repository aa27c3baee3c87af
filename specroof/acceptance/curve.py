"""Acceptance of drafts, as one thing: a survival curve."""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.arrays import real_array, real_number
from specroof.errors import refuse, reject

# --- What the constructors of acceptance curves check, and how they refuse -----------------------

# What its functions do is checked where formulas call them; they are not formulas themselves.

#: A curve is tabled up to the longest draft asked for, so that question needs a bound.
LONGEST_DRAFT: Final = 1_000_000
PROBABILITY: Final = "a number from 0 to 1"
_NOT_LISTS: Final = (str, bytes, Mapping, AbstractSet)


def draft_lengths(draft_len: ArrayLike) -> NDArray[np.intp]:
    """Return `draft_len` as an array of whole numbers, of any shape."""
    allowed = f"whole numbers from 0 to {LONGEST_DRAFT}"
    lengths = real_array(draft_len)
    if lengths is None:
        refuse("draft_len", draft_len, allowed)
    fitting = (lengths >= 0) & (lengths <= LONGEST_DRAFT) & (lengths == np.floor(lengths))
    if not np.all(fitting):
        refuse("draft_len", lengths[~fitting].flat[0], allowed)
    return lengths.astype(np.intp)


def numbers_from(name: str, values: object, high: float, allowed: str) -> tuple[float, ...]:
    """Return `values` as floats, each finite and from 0 to `high`."""
    # Sets and mappings are iterable too, but have no positions.
    if not isinstance(values, Iterable) or isinstance(values, _NOT_LISTS):
        refuse(name, values, f"a list, each {allowed}")
    try:
        entries = tuple(islice(values, LONGEST_DRAFT + 1))  # an iterator need not end
    except TypeError:  # an array without an axis calls itself iterable
        refuse(name, values, f"a list, each {allowed}")
    if not entries:
        reject(f"{name} is empty", f"at least one entry, each {allowed}")
    if len(entries) > LONGEST_DRAFT:
        refuse(name, values, f"at most {LONGEST_DRAFT} entries, each {allowed}")
    return tuple(
        number_from(f"{name}[{index}]", entry, 0.0, high, allowed)
        for index, entry in enumerate(entries)
    )


def number_from(name: str, value: object, low: float, high: float, allowed: str) -> float:
    """Return `value` as a float, finite and from `low` to `high`."""
    number = real_number(value)
    if not (math.isfinite(number) and low <= number <= high):
        refuse(name, value, allowed)
    return number + 0.0  # a zero without a sign


def drafts_of(name: str, value: object, allowed: str) -> int:
    """Return a number of drafts, from 1 to the longest."""
    drafts = number_from(name, value, 1, LONGEST_DRAFT, allowed)
    if not drafts.is_integer():
        refuse(name, value, allowed)
    return int(drafts)


def length_of(name: str, value: object, drafts: int, called: str) -> float:
    """Return an acceptance length that so many drafts, known as `called`, can have."""
    allowed = f"a number from 1 to {drafts + 1} ({called} + 1: the bonus token counts)"
    return number_from(name, value, 1.0, drafts + 1.0, allowed)


def some(values: tuple[float, ...]) -> str:
    """Return the first few of `values`, for a line that people read."""
    if len(values) <= 4:
        return ", ".join(f"{value:g}" for value in values)
    return ", ".join(f"{value:g}" for value in values[:3]) + f", … ({len(values)} values)"


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


# --- Acceptance that depends on the context: measured at several lengths, interpolated between ---

Known = TypeVar("Known")

_ALLOWED = "a number of cached tokens above 0"


@dataclass(frozen=True, slots=True)
class _Mixture:
    """The law of a curve between two others."""

    lower: Acceptance
    upper: Acceptance
    share: float

    def __call__(self, _parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
        below, above = (one.survival(np.arange(depth + 1)) for one in (self.lower, self.upper))
        return np.asarray((1.0 - self.share) * below + self.share * above)


@dataclass(frozen=True)
class ContextAcceptance:
    """Curves by context length.

    Attributes
    ----------
    contexts
        Cached tokens at which acceptance was measured, ascending.
    curves
        One for each.
    """

    contexts: tuple[float, ...]
    curves: tuple[Acceptance, ...]

    @property
    def max_draft_len(self) -> int | None:
        """The longest draft that every curve knows about; None without end."""
        return _shortest(one.max_draft_len for one in self.curves)

    @property
    def description(self) -> str:
        """One line for people."""
        contexts = ", ".join(f"{context:g}" for context in self.contexts)
        return f"by context, measured at {contexts} tokens; first: {self.curves[0].description}"

    def at_context(self, context_len: float) -> Acceptance:
        r"""Return the curve at a context length; outside of what was measured it knows no draft.

        .. math:: s_d(S) = (1 - x) \, s_d(S_i) + x \, s_d(S_{i+1}), \quad
            x = \frac{\ln S - \ln S_i}{\ln S_{i+1} - \ln S_i}

        Counts
            every depth by itself. At a measured context the curve is the measured one.
        Ignores
            how acceptance runs between two measured contexts, a factor of two apart as a rule.
        Source
            A mixture of curves is a curve; its weight runs with the logarithm of the context, as
            published tables step (Chen et al. 2026, DFlash, arXiv:2602.06036, table 4).

        Examples
        --------
        >>> from specroof import constant_acceptance
        >>> by_context = context_acceptance(
        ...     {1024: constant_acceptance(0.8), 4096: constant_acceptance(0.6)}
        ... )
        >>> by_context.at_context(2048).survival(1)  # half way by the logarithm
        array(0.7)
        >>> by_context.at_context(8192).survival(1)
        array(nan)
        """
        first, last = self.contexts[0], self.contexts[-1]
        if not first <= context_len <= last:
            caveat = (
                f"acceptance was measured at contexts from {first:g} to {last:g}: nothing is known "
                f"at {context_len:g}"
            )
            return replace(self.curves[0], max_draft_len=0, measured_depth=0, caveats=(caveat,))
        after = min(bisect_right(self.contexts, context_len), len(self.contexts) - 1)
        low, high = self.contexts[after - 1], self.contexts[after]
        below, above = self.curves[after - 1], self.curves[after]
        share = math.log(context_len / low) / math.log(high / low)
        if share in {0.0, 1.0}:
            return above if share else below
        return replace(
            below,
            description=f"between contexts {low:g} and {high:g}: {below.description}",
            max_draft_len=_shortest((below.max_draft_len, above.max_draft_len)),
            law=_Mixture(below, above, share),
            measured_depth=_shortest((below.measured_depth, above.measured_depth)),
            caveats=tuple(dict.fromkeys((*below.caveats, *above.caveats))),
        )


def context_acceptance(curves: Mapping[float, Acceptance]) -> ContextAcceptance:
    """Return acceptance that depends on the context, from curves measured at several.

    Parameters
    ----------
    curves
        Two or more, by the number of cached tokens at which each was measured.

    Counts
        what lies between the measured contexts; see `ContextAcceptance.at_context`.
    Ignores
        everything outside of them: nothing is extended.
    Source
        Its method `at_context` names it.

    Raises
    ------
    OptionError
        For fewer than two curves, or a context that is not a number above 0.

    Examples
    --------
    >>> from specroof import constant_acceptance
    >>> by_context = context_acceptance(
    ...     {16384: constant_acceptance(0.6), 1024: constant_acceptance(0.8)}
    ... )
    >>> by_context.contexts
    (1024.0, 16384.0)
    """
    given: object = curves
    if not isinstance(given, Mapping) or len(given) < 2:
        reject("curves holds fewer than two contexts", "two or more, by number of tokens")
    smallest = math.ulp(0.0)
    checked = {
        number_from("a key of curves", context, smallest, math.inf, _ALLOWED): curve
        for context, curve in curves.items()
    }
    ordered = dict(sorted(checked.items()))
    return ContextAcceptance(tuple(ordered), tuple(ordered.values()))


def accepted_at(acceptance: Known | ContextAcceptance, context_len: float) -> Known | Acceptance:
    """Return what is accepted at a context length; what knows no contexts is the same at all.

    Parameters
    ----------
    acceptance
        A curve, or one for each context.
    context_len
        Cached tokens.

    Source
        `ContextAcceptance.at_context`.

    Examples
    --------
    >>> from specroof import constant_acceptance
    >>> accepted_at(constant_acceptance(0.5), 4096).survival(1)
    array(0.5)
    """
    if isinstance(acceptance, ContextAcceptance):
        return acceptance.at_context(context_len)
    return acceptance


def _shortest(depths: Iterable[int | None]) -> int | None:
    return min((depth for depth in depths if depth is not None), default=None)
