"""Measured points: bundled tables, result files of engines, how they were served."""

from specroof.evidence.bundled import (
    LongContext,
    acceptance_of,
    base_model,
    committed_tokens,
    drafter_of,
    has_drafter,
    kind_of,
    load_local,
    load_long_contexts,
    load_measurements,
    load_served,
    load_splits,
    measured_of,
    measured_speedups,
    request_lengths,
    shape_group,
)
from specroof.evidence.measurement import STEP, Measurement, refuse_mixed, refuse_repeats
from specroof.evidence.result_files import read_benchmark
from specroof.evidence.stated import (
    refuse_other_drafts,
    refuse_other_formats,
    refuse_other_kinds,
    refuse_other_setup,
    server_told,
    stated_drafts,
)
