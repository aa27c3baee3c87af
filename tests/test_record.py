"""Rates of recorded measurements, by hand."""

import numpy as np
import pytest

from specroof import load_drafter, load_hardware, load_model
from specroof.acceptance import constant_acceptance
from specroof.engines.record import Record, case_of
from specroof.evidence import Measurement
from specroof.latency.setup import Deployment, engine_setup


def test_a_round_commits_its_tokens_once_for_each_sequence() -> None:
    served = Deployment(
        load_model("Qwen/Qwen3-8B"), engine_setup(load_hardware("h100"), "ideal", None, None)
    )
    drafting = load_drafter("eagle3"), constant_acceptance(0.8)
    points = [
        Measurement(place="here", batch_size=batch, context_len=1000.0, draft_len=2)
        for batch in (1.0, 8.0)
    ]
    found = Record([case_of(point, served, drafting) for point in points]).rates()
    # On the ideal engine a round is its drafts and its verification: 1 + .8 + .64 tokens.
    round_s = found.draft_s + found.verify_s
    assert found.speculative * round_s == pytest.approx(2.44 * np.array([1, 8]))
