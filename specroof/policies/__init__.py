"""Which draft length when: the decision, schedules by load, and what they lose."""
