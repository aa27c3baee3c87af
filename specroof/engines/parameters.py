"""One form for every figure that is fitted: a usual value, and how far from it one may lie."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """One figure that can be fitted.

    Parameters
    ----------
    name
        What tables and files call it.
    typical
        A usual value: where a fit starts that has no profile to start from.
    spread
        How far from there it may be taken to lie: the standard deviation of its logarithm.
    meaning
        What it is, in a few words.
    is_share
        Whether it is a share of a peak, and bounded; seconds are not.
    """

    name: str
    typical: float
    spread: float
    meaning: str = ""
    is_share: bool = False

    def value(self, x: float) -> float:
        """Return the figure `x` spreads from its usual value."""
        return self.typical * math.exp(self.spread * x)

    def coordinate(self, value: float) -> float:
        """Return how many spreads a value lies from the usual one: the inverse of `value`."""
        return math.log(value / self.typical) / self.spread
