"""What becomes of loads on a server, with drafts and without: one door for every question."""
