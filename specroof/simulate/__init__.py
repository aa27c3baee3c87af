"""The algorithm itself, with dice: that it is exact, and how its time spreads."""

from specroof.simulate.batch import BatchSimulation, Spread, check_tokens, simulate_batch
from specroof.simulate.exactness import (
    ExactnessResult,
    random_distributions,
    simulate_exactness,
)
from specroof.simulate.statistics import chi_squared_p_value, chi_squared_test

__all__ = [
    "BatchSimulation",
    "ExactnessResult",
    "Spread",
    "check_tokens",
    "chi_squared_p_value",
    "chi_squared_test",
    "random_distributions",
    "simulate_batch",
    "simulate_exactness",
]
