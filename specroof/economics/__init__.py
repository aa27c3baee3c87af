"""Price and energy per token, and the frontier of what each user and each device get."""

from specroof.economics.frontier import Frontier, frontier_of
from specroof.economics.price import joules_per_million_tokens, usd_per_million_tokens

__all__ = ["Frontier", "frontier_of", "joules_per_million_tokens", "usd_per_million_tokens"]
