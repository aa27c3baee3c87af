"""Published tokens/s, best draft lengths and gains of adaptive ones: Qwen3.6-35B-A3B on a B200."""

from functools import cache, reduce
from operator import getitem
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from published_models import published, published_hardware, published_options, simulated_qwen36
from specroof import adaptive, speedup_curve
from specroof.acceptance import survival_acceptance
from specroof.architecture.experts import distinct_experts
from specroof.drafters import Drafter, DraftTime, Round
from specroof.hardware.profile import HardwareProfile
from specroof.montecarlo.batch import confident_rounds
from specroof.policies.adaptive import LEAST_ROUNDS, BatchCosts, fixed_rates
from specroof.questions.adaptive import Adaptive
from specroof.speedup.result import SpeedupCurve

pytestmark = pytest.mark.slow

Array = npt.NDArray[np.float64]
Vector = dict[str, Any]

POST: Final = published("finn-2026-adaptive-qwen3.6.yaml")
WIDTHS: Final = published("finn-2026-width-vs-depth.yaml")
VECTORS: Final[list[Vector]] = POST["vectors"]
BATCHES: Final = [vector["batch_size"] for vector in VECTORS]
DRAFTERS: Final = ("mtp", "dflash")
#: Bytes of a bf16 weight, and FLOP of a multiply-add.
BF16_BYTES, MULTIPLY_ADD = 2, 2


def mtp_draft(round_: Round, hardware: HardwareProfile) -> DraftTime:
    """Return the seconds of a pass of the MTP layer per draft token, as published."""
    sizes = POST["options"]["drafters"]["mtp"]
    visited = sizes["top_k"] + sizes["n_shared"]
    hit = sizes["n_shared"] + distinct_experts(
        round_.batch_size, sizes["n_experts"], sizes["top_k"], "replacement"
    )
    active = sizes["dense_params"] + visited * sizes["expert_params"]
    read = sizes["dense_params"] + hit * sizes["expert_params"]
    flops = MULTIPLY_ADD * active * round_.batch_size
    return DraftTime(round_.draft_len * roofline_s(flops, BF16_BYTES * read, hardware))


def dflash_draft(round_: Round, hardware: HardwareProfile) -> DraftTime:
    """Return the seconds of the one pass of DFlash over a whole block, as published."""
    sizes = POST["options"]["drafters"]["dflash"]
    flops = MULTIPLY_ADD * sizes["params"] * sizes["block"] * round_.batch_size
    return DraftTime(roofline_s(flops, BF16_BYTES * sizes["params"], hardware))


def roofline_s(flops: Array, memory_bytes: Any, hardware: HardwareProfile) -> Array:
    """Return the longer of arithmetic and reading."""
    peak = hardware.peak
    seconds = np.maximum(flops / peak.flops_per_s["bf16"], memory_bytes / peak.memory_bytes_per_s)
    return np.asarray(seconds)


def priced(drafter: str, hardware: HardwareProfile) -> Drafter:
    """Return one of the two drafters, with the acceptance that was measured."""
    draft = {"mtp": mtp_draft, "dflash": dflash_draft}[drafter]
    survival = survival_acceptance(POST["options"]["drafters"][drafter]["survival"])
    return Drafter(drafter, lambda round_: draft(round_, hardware), acceptance=survival)


def curve_of(drafter: str, batch_size: Any, context_len: Any) -> SpeedupCurve:
    hardware = published_hardware()
    return speedup_curve(
        simulated_qwen36(), hardware, drafter=priced(drafter, hardware), batch_size=batch_size,
        context_len=context_len, engine="ideal", options=published_options(POST),
        max_draft_len=len(POST["options"]["drafters"][drafter]["survival"]),
    )  # fmt: skip


@cache
def published_rounds(drafter: str) -> tuple[Array, Array]:
    """Return tokens per round and seconds of a round, axes (batch, draft length).

    A pass of T positions is priced at its mean causal context, S + T/2 rounded up.
    """
    longest = len(POST["options"]["drafters"][drafter]["survival"])
    positions = np.arange(longest + 1) + 1
    attended = POST["options"]["context_len"] + (positions + 1) // 2
    contexts = np.unique(attended)
    curve = curve_of(drafter, BATCHES, contexts)
    rows = np.searchsorted(contexts, attended)
    round_s = np.stack([curve.round_s[row, :, drafts] for drafts, row in enumerate(rows)], axis=-1)
    return curve.tokens_per_round[0], round_s


def column(*keys: str) -> Array:
    return np.array([reduce(getitem, keys, vector) for vector in VECTORS], dtype=np.float64)


@pytest.mark.golden
def test_plain_decoding_has_the_published_tokens_per_s() -> None:
    _, round_s = published_rounds("mtp")
    tokens_per_s = np.array(BATCHES) / round_s[:, 0]
    tolerance = POST["tolerance"]
    exact, simulated = column("tokens_per_s"), column("simulated_tokens_per_s")
    assert tokens_per_s == pytest.approx(exact, rel=0, abs=tolerance["tokens_per_s"])
    assert tokens_per_s == pytest.approx(simulated, rel=tolerance["simulated_tokens_per_s"])


@pytest.mark.golden
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_drafters_have_the_published_lengths_and_speedups(drafter: str) -> None:
    tokens, round_s = published_rounds(drafter)
    speedups = tokens * round_s[:, :1] / round_s
    assert np.array_equal(speedups.argmax(axis=-1), column(drafter, "draft_len"))
    within, simulated = POST["tolerance"], POST["tolerance"]["simulated_speedup"]
    best = speedups.max(axis=-1)
    assert best == pytest.approx(column(drafter, "speedup"), rel=0, abs=within["speedup"])
    assert best == pytest.approx(column(drafter, "simulated_speedup"), rel=simulated)
    rates = (tokens * np.array(BATCHES)[:, None] / round_s).max(axis=-1)
    assert rates == pytest.approx(column(drafter, "simulated_tokens_per_s"), rel=simulated)


@cache
def adapted(drafter: str, batch_size: int) -> Adaptive:
    """Return the policies at one load; the one length for all loads is then the best there."""
    options, hardware = WIDTHS["options"], published_hardware()
    return adaptive(
        simulated_qwen36(), hardware, drafter=priced(drafter, hardware), batch_size=batch_size,
        context_len=options["context_len"], confidence=options["confidence"][drafter],
        n_rounds=options["n_rounds"], seed=options["seed"], engine="ideal",
        options=published_options(POST),
    )  # fmt: skip


def all_accepted(drafter: str, batch_size: int) -> float:
    """Return what an oracle gains that drafts whatever will be accepted, whether it pays or not."""
    options, costs = WIDTHS["options"], adapted_costs(drafter, batch_size)
    survival = POST["options"]["drafters"][drafter]["survival"]
    shape = (max(20 * options["n_rounds"] // batch_size, LEAST_ROUNDS), batch_size)
    dice = np.random.default_rng(options["seed"])
    _, accepted = confident_rounds(survival, known=1.0, shape=shape, dice=dice)
    drafting = (accepted[..., None] > np.arange(len(survival))).sum(axis=1)
    verified = np.concatenate([np.zeros((len(drafting), 1)), drafting.cumsum(axis=1)], axis=1)
    seconds = costs.seconds(verified, drafting)[:, -1]
    rate = (accepted.sum() + accepted.size) / seconds.sum()
    return float(rate / fixed_rates(costs, survival).max() - 1.0)


def adapted_costs(drafter: str, batch_size: int) -> BatchCosts:
    """Return the seconds of rounds of one batch whose sequences may draft what they like."""
    curve = curve_of(drafter, np.arange(1, batch_size + 1), WIDTHS["options"]["context_len"])
    steps = np.diff(curve.draft_s[0], axis=1).T
    nobody = np.zeros((len(steps), 1))
    # Between whole lengths of all sequences the published simulation is linear, too.
    drafts = np.arange(batch_size * len(steps) + 1) / batch_size
    verify_s = np.interp(drafts, np.arange(len(steps) + 1), curve.verify_s[0, -1])
    return BatchCosts(verify_s, np.concatenate([nobody, steps], axis=1), 0.0)


def gain(drafter: str, policy: str, batch_size: int) -> float:
    if policy == "all accepted":
        return 100.0 * all_accepted(drafter, batch_size)
    return 100.0 * adapted(drafter, batch_size).policies[policy][0].gain


@pytest.mark.long
@pytest.mark.golden
@pytest.mark.parametrize(
    "vector", WIDTHS["vectors"], ids=lambda one: f"{one['drafter']} {one['policy']}"
)
def test_adaptive_lengths_gain_what_was_published(vector: Vector) -> None:
    gains = [gain(vector["drafter"], vector["policy"], batch) for batch in vector["batch_size"]]
    off = np.array(gains) - np.array(vector["gain"])
    assert np.abs(off).max() <= WIDTHS["tolerance"], dict(
        zip(vector["batch_size"], off, strict=True)
    )
