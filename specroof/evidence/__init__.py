"""Measured points: bundled tables, result files of engines, how they were served."""

from specroof.evidence.points import BenchmarkPoint, refuse_mixed, refuse_repeats
from specroof.evidence.result_files import read_benchmark
from specroof.evidence.stated import refuse_other_kinds

__all__ = [
    "BenchmarkPoint",
    "read_benchmark",
    "refuse_mixed",
    "refuse_other_kinds",
    "refuse_repeats",
]
