"""Which draft length when: schedules by load, and what they lose against the best at each load."""

from specroof.policies.schedule import Schedule, best_schedule, held_drafts

__all__ = ["Schedule", "best_schedule", "held_drafts"]
