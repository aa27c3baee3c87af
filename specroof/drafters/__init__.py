"""Seconds of drafting: one function a kind, and the table of kinds that a SPEC may name."""

from specroof.drafters.base import (
    Drafter,
    DraftTime,
    PassTime,
    PromptRead,
    Proposals,
    Round,
    TokensPerRound,
)
from specroof.drafters.kinds import KINDS, SERVED_KINDS, ideal_drafter
