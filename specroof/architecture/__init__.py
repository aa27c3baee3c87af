"""A model as frozen numbers, and what each kind of core computes and caches: one file per kind.

Parsers build these values, `specroof.cost` adds up a whole pass of them. Nothing here knows a
config key, a chip or a formula of time.
"""
