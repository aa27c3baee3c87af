"""Families of another shape than rows: one function each, beside those of the same mechanism."""
