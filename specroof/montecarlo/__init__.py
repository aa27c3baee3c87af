"""The algorithm itself, with dice: that it is exact, and how its time spreads."""

from specroof.montecarlo.batch import check_tokens, simulate_batch
from specroof.montecarlo.exactness import ExactnessResult, random_distributions, simulate_exactness
