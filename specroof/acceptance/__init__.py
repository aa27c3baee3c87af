"""Acceptance of drafts, as one thing: a survival curve.

Whatever is known about a drafter (one rate, a rate for every position, a measured length, a
histogram, a spread over sequences) says how likely the first d drafts of a round are all
accepted. That curve, and the tokens per round that follow from it, is all the solver needs.
"""

from specroof.acceptance.curve import (
    RULES,
    Acceptance,
    ContextAcceptance,
    acceptance_notes,
    accepted_at,
    beta_acceptance,
    constant_acceptance,
    context_acceptance,
    decay_acceptance,
    each_curve,
    histogram_acceptance,
    lengths_acceptance,
    rate_acceptance,
    survival_acceptance,
    windowed_acceptance,
)
from specroof.acceptance.typical import acceptance_from_length
