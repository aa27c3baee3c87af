"""Which draft length when: the decision, schedules by load, and what they lose."""

from specroof.policies.decision import best_choice, decided, paying_up_to
from specroof.policies.schedule import Schedule, best_schedule, held_drafts

__all__ = [
    "Schedule",
    "best_choice",
    "best_schedule",
    "decided",
    "held_drafts",
    "paying_up_to",
]
