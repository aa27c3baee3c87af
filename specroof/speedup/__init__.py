"""Where work meets probability: a round, the speedup curve, what stands on it."""
