"""Seconds of a pass: operations x profile x placement x engine."""
