"""Published seconds of drafters, and the published depths with target and drafters priced alike."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from published_drafters import a_round, pass_seconds_on, published_dflash, published_mtp
from published_models import (
    crossing,
    published,
    published_hardware,
    published_options,
    simulated_qwen36,
)
from specroof import speedup_curve
from specroof.acceptance import survival_acceptance
from specroof.drafters import Drafter
from specroof.drafters.heads import head_drafter
from test_golden_adaptive import BATCHES, POST, column

pytestmark = pytest.mark.golden

Array = npt.NDArray[np.float64]

POST_ON_COST: Final = published("finn-2026-drafter-roofline.yaml")
VECTORS: Final[list[dict[str, Any]]] = POST_ON_COST["vectors"]
TOLERANCE: Final[dict[str, float]] = POST_ON_COST["tolerance"]
MICROSECONDS: Final = 1e6

#: A target of which the drafters take nothing but the width.
TARGET: Final = replace(simulated_qwen36(), hidden_size=2048, vocab_size=248_320)
#: DFlash's 16 positions make 15 drafts, but the published cost has the head on all of them.
DFLASH: Final = head_drafter("dflash", published_dflash())
MTP: Final = head_drafter("mtp", published_mtp())


def draft_s(drafter: Drafter, batch_size: Any, draft_len: Any = 1) -> Array:
    price = pass_seconds_on(published_hardware(), published_options(POST_ON_COST))
    round_ = a_round(TARGET, price, batch_size=batch_size, draft_len=draft_len)
    time = drafter.draft(round_)
    assert float(time.overlapped_s) == 0
    return np.asarray(time.serial_s)


def equal_cost_batch(draft_len: int) -> float:
    """Return the batch at which so many passes of MTP cost as much as a block of DFlash."""

    def saved_s(batch_size: float) -> float:
        return float(draft_s(DFLASH, batch_size) - draft_s(MTP, batch_size, draft_len))

    return crossing(saved_s, 0, 1, 1000)


def test_passes_of_the_published_sizes_take_the_published_time() -> None:
    vector = VECTORS[0]
    mtp, dflash = draft_s(MTP, 1) * MICROSECONDS, draft_s(DFLASH, 1) * MICROSECONDS
    assert mtp == pytest.approx(vector["mtp_pass_us"], abs=TOLERANCE["mtp_pass_us"])
    assert dflash == pytest.approx(vector["dflash_block_us"], abs=TOLERANCE["dflash_block_us"])


def test_a_block_is_bound_by_arithmetic_from_the_published_knee_on() -> None:
    knee, tolerance = VECTORS[0]["knee_batch"], TOLERANCE["knee_batch"]
    before, after = draft_s(DFLASH, [knee - tolerance, knee + tolerance])
    assert before == draft_s(DFLASH, 1)
    assert after > before


@pytest.mark.long
def test_mtp_and_dflash_cost_the_same_at_the_published_batches() -> None:
    vector = VECTORS[1]
    first, batches = vector["first_draft_len"], vector["equal_cost_batch"]
    found = [equal_cost_batch(first + index) for index in range(len(batches))]
    assert found == pytest.approx(batches, abs=TOLERANCE["equal_cost_batch"])


def test_the_cheaper_drafter_is_the_published_one() -> None:
    batches = np.arange(1, 2049)
    assert np.all(draft_s(MTP, batches, VECTORS[2]["draft_len"]) < draft_s(DFLASH, batches))
    last = VECTORS[3]["up_to_batch"]
    cheaper = draft_s(DFLASH, batches) < draft_s(MTP, batches, VECTORS[3]["draft_len"])
    assert batches[cheaper].max() == last


@pytest.mark.parametrize("drafter", ["mtp", "dflash"])
def test_drafters_priced_by_the_library_have_the_published_best_depths(drafter: str) -> None:
    survival = POST["options"]["drafters"][drafter]["survival"]
    curve = speedup_curve(
        TARGET,
        published_hardware(),
        drafter={"mtp": MTP, "dflash": DFLASH}[drafter],
        acceptance=survival_acceptance(survival),
        batch_size=BATCHES,
        context_len=POST["options"]["context_len"] + 1,
        max_draft_len=len(survival),
        engine="ideal",
        options=published_options(POST),
    )
    assert np.array_equal(curve.best_draft_len[0], column(drafter, "draft_len"))
    tolerance = POST["tolerance"]["fixed_context_speedup"]
    assert curve.best_speedup[0] == pytest.approx(column(drafter, "speedup"), rel=0, abs=tolerance)
