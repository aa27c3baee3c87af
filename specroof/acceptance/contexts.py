"""Acceptance that depends on the context: measured at several lengths, interpolated between."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from specroof.acceptance.checks import number_from
from specroof.acceptance.curve import Acceptance
from specroof.errors import reject

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
