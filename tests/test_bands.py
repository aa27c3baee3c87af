"""How sure a speedup is: bands, verdicts, and from where they widen."""

import math
from collections.abc import Iterator
from dataclasses import replace
from operator import gt
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from specroof import (
    Drafter,
    Options,
    SpeedupCurve,
    acceptance_from_length,
    constant_acceptance,
    hardware_names,
    load_drafter,
    load_hardware,
    load_model,
    predict,
    speedup_curve,
)
from specroof.acceptance import context_acceptance
from specroof.architecture.base import Linear
from specroof.architecture.model import Architecture
from specroof.drafters.kinds import KINDS
from specroof.errors import ProfileError
from specroof.frameworks import known_releases
from specroof.hardware.engine import (
    BATCH_WIDENING,
    CONTEXT_WIDENING,
    SERVED_FIGURES,
    UNMEASURED_ATTENTION_BATCH,
    Band,
    EngineProfile,
    Reach,
    ServedBands,
    served_width,
)
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.hardware.schema import parse_hardware
from specroof.hardware.written import calibrated_yaml
from specroof.latency.setup import Deployment, engine_setup
from specroof.serving.served import served_curve
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import decoding_curve
from specroof.speedup.reach import (
    SPLIT,
    deployment_words,
    evidence_engine,
    evidence_notes,
    how_sure,
    nearness,
)
from specroof.speedup.result import band_ends, verdicts
from tables import present, rows

MODEL = load_model("Qwen/Qwen3-8B")
CHIP = load_hardware("h200")
EAGLE3 = load_drafter("eagle3")


def curve(engine: str = "sglang", drafter: Drafter = EAGLE3, **more: Any) -> SpeedupCurve:
    asked: dict[str, Any] = {"acceptance": constant_acceptance(0.7), "max_draft_len": 6} | more
    return speedup_curve(MODEL, CHIP, drafter=drafter, engine=engine, **asked)


def speaking(engine: str, chip: str = "h200") -> EngineProfile:
    """Return the engine whose bands speak for the model on a chip."""
    return evidence_engine(Deployment(MODEL, engine_setup(load_hardware(chip), engine, None, None)))


def ends_of(made: SpeedupCurve) -> tuple[Any, Any]:
    """Return how far the band of a speedup reaches down and up, as logarithms."""
    low, high = present(made.speedup_low), present(made.speedup_high)
    return np.log(made.speedup / low), np.log(high / made.speedup)


def width_of(made: SpeedupCurve, batch: float = 1, context: float = 4096) -> float:
    """Return the width that the engine's own band has at a load."""
    return float(present(made.band).width_at(batch, context))


def test_a_band_lies_as_far_below_as_above() -> None:
    made = curve()
    assert made.band == speaking("sglang").bands["eagle3"]
    # Plain decoding is what it is.
    for end in ends_of(made):
        assert end[0, 0] == pytest.approx([0] + [width_of(made)] * 6)


def test_the_ideal_engine_has_no_band_and_a_strange_drafter_that_of_all() -> None:
    made = curve("ideal")
    for end in (made.speedup_low, made.speedup_high, made.verdict, made.best_within_band()):
        assert end is None
    made = curve(drafter=load_drafter("autoregressive,cost=0.1"))
    assert made.band == speaking("sglang").bands["other"]
    assert "measured speedups of any drafter" in " ".join(made.notes)


def test_the_acceptance_adds_to_the_band_as_squares_do() -> None:
    tokens = acceptance_from_length(2.5, 3)
    made = curve(acceptance=tokens, max_draft_len=9)
    least, most = tokens.band(made.draft_len)
    expected = tokens.tokens_per_round(made.draft_len)
    assert most[9] > expected[9]  # beyond what was measured nothing is certain
    width, (below, above) = width_of(made), ends_of(made)
    assert below[0, 0, 9] == pytest.approx(math.hypot(width, math.log(expected[9] / least[9])))
    assert above[0, 0, 9] == pytest.approx(math.hypot(width, math.log(most[9] / expected[9])))
    # At the measured depth the engine alone is uncertain.
    assert above[0, 0, 3] == pytest.approx(width)


def test_each_context_has_the_spread_and_the_depth_of_its_acceptance() -> None:
    curves = {1000.0: acceptance_from_length(2.5, 3), 8000.0: constant_acceptance(0.5)}
    made = curve(acceptance=context_acceptance(curves), context_len=[1000, 8000])
    above = ends_of(made)[1][:, 0, 6]
    assert above[0] > width_of(made, context=1000)
    assert above[1] == pytest.approx(width_of(made, context=8000))
    curves[8000.0] = acceptance_from_length(2.2, 5)
    made = curve(acceptance=context_acceptance(curves), context_len=[500, 1000, 8000, 9000])
    # Nothing is known at 500 and 9000; of the others the shorter measurement counts.
    assert made.measured_draft_len == 3
    assert np.isnan(made.speedup[[0, -1], :, 1:]).all()


def test_verdicts_follow_the_side_of_the_band() -> None:
    speedup = np.array([[1.0, 1.3, 1.2], [1.0, 1.05, 0.9], [1.0, 0.7, 0.6], [1.0, *[np.nan] * 2]])
    low, high = band_ends(speedup, 0.1, (0.0, 0.0))
    assert verdicts(speedup, low, high).tolist() == ["pays", "unclear", "loses", ""]
    plain = np.ones((2, 1))  # nothing is drafted
    assert verdicts(plain, plain, plain).tolist() == ["", ""]


def test_drafts_within_the_band_may_be_the_best() -> None:
    made = replace(curve(), band=Band(width=0.1, mean_error=0.05, points=9))
    within = present(made.best_within_band())
    best = float(made.best_speedup.item())
    reaching = [n for n in range(7) if made.speedup[0, 0, n] * math.exp(0.1) >= best]
    assert [int(end.item()) for end in within] == [reaching[0], reaching[-1]]


def test_a_band_widens_by_each_axis_as_squares_add_up() -> None:
    band = Band(width=0.3, mean_error=0.1, points=9, batch_size=32, context_len=1000)
    batches, lengths = np.array([1, 32, 32 * math.exp(2)]), np.array([[500], [1000 * math.exp(3)]])
    by_batch, by_context = 2 * BATCH_WIDENING, 3 * CONTEXT_WIDENING
    expected = np.array(
        [
            [0.3, 0.3, math.hypot(0.3, by_batch)],
            [*[math.hypot(0.3, by_context)] * 2, math.hypot(0.3, by_batch, by_context)],
        ]
    )
    assert band.width_at(batches, lengths) == pytest.approx(expected)
    of_requests = served_width({"tpot_s": {"any": band}}, "tpot_s", batches, lengths)
    assert of_requests == pytest.approx(expected)
    assert Band(width=0.3, mean_error=0.1, points=9).width_at(1e6, 1e9).item() == 0.3


def test_a_curve_has_the_width_of_each_of_its_loads() -> None:
    band = Band(width=0.1, mean_error=0.1, points=9, batch_size=8, context_len=2000)
    made = replace(grid({}), band=band)
    widths = band.width_at(made.batch_size, made.context_len[:, None])
    assert ends_of(made)[0][..., 1:] == pytest.approx(np.stack([widths] * 2, axis=-1))
    assert widths[0, 0] == 0.1 < widths[-1, 0] < widths[-1, -1]


@pytest.mark.parametrize(
    ("model", "placement", "weights", "known"), rows("values", "measured_setups")
)
def test_what_nobody_measured_on_a_chip_has_the_bands_of_a_strange_chip(
    model: str, placement: dict[str, int], weights: str | None, known: bool
) -> None:
    where, options = Placement(**placement), Options(weight_dtype=weights)
    deployment = Deployment(load_model(model), engine_setup(CHIP, "vllm", where, options))
    load: dict[str, Any] = {"batch_size": [1, 64], "context_len": 4096, "max_draft_len": 3}
    made = decoding_curve(deployment, EAGLE3, constant_acceptance(0.7), **load)
    near, far = CHIP.engine("vllm"), load_hardware("l40s").engine("vllm")
    reach = present(near.reach)
    speaks = (near if known else far).widened(reach.speedup_drift, reach.drift)
    assert evidence_engine(deployment).served_bands == made.served_bands == speaks.served_bands
    band = present(speaks.band("eagle3"))
    if not {*deployment_words(deployment)["attention"]} <= {*reach.attention}:
        # A load of 4 requests is as far as anything speaks for a strange kind of attention.
        assert present(band.batch_size) > UNMEASURED_ATTENTION_BATCH
        band = replace(band, batch_size=UNMEASURED_ATTENTION_BATCH)
    assert made.band == band


def test_bands_of_strange_placements_widen_on_strange_chips_too() -> None:
    stages = Placement(1, pipeline_parallel=2)
    deployment = Deployment(MODEL, engine_setup(CHIP, "vllm", stages, None))
    far, near = load_hardware("l40s").engine("vllm"), present(CHIP.engine("vllm").reach)
    wider = far.widened(near.speedup_drift, near.drift).spread_as(["pp"])
    assert evidence_engine(deployment).bands == wider.bands != far.bands
    # Stages that take turns do what one device does.
    one, split = (
        Deployment(MODEL, engine_setup(CHIP, "llama.cpp", place, None))
        for place in (Placement(1), stages)
    )
    assert evidence_engine(split).bands == evidence_engine(one).bands
    assert deployment_words(split)["placements"] == ("layers",)
    # Engines without evidence speak for themselves.
    deployment = Deployment(MODEL, engine_setup(CHIP, "ideal", Placement(1), None))
    assert evidence_engine(deployment) is deployment.setup.engine


WIDE = Band(width=0.4, mean_error=0.2, points=90, engines={"vllm": 90})
NARROW = Band(width=0.2, mean_error=0.1, points=30, engines={"vllm": 30})
SERVED: ServedBands = {
    "tpot_s": {"any": WIDE, "to-4": NARROW},
    "ttft_s": {"any": WIDE},
    "tokens_per_s": {"more": WIDE},
}


def grid(served: ServedBands, *, requests: bool = False) -> Any:
    """Return a curve of eagle3 with a speedup's band of 0.3; with requests, end to end."""
    fast = replace(
        CHIP.engine("sglang"),
        bands={"other": Band(width=0.3, mean_error=0.1, points=9)},
        served_bands=served,
        reach=Reach(),
    )
    setup = engine_setup(replace(CHIP, engines={"sglang": fast}), "sglang", Placement(), None)
    load = Load([4, 5, 64], [2000, 32000])
    if requests:
        load = Load([4, 300], [2000], Workload(1500, 1000))
    found = served_curve(
        Deployment(MODEL, setup), load_drafter("eagle3,accept=0.7"), load, "ignore", max_draft_len=2
    )
    return found.end_to_end if requests else found.decoding


def test_a_range_of_concurrency_has_its_own_band_or_that_of_all_or_none() -> None:
    assert served_width(SERVED, "tpot_s", [1, 4, 4.5, 1000]) == pytest.approx([0.2, 0.2, 0.4, 0.4])
    assert served_width({}, "tpot_s", [1, 4]) is None
    widths = present(served_width(SERVED, "tokens_per_s", [256, 257]))
    assert np.array_equal(widths, [np.nan, 0.4], equal_nan=True)


def test_throughput_has_the_band_of_tpot_and_with_drafts_that_of_the_speedup_besides() -> None:
    made = grid(SERVED)
    low, high = made.rate_ends
    width = np.array([0.2, 0.4, 0.4])
    assert np.log(made.tokens_per_s / low)[..., 0] == pytest.approx(np.array([width, width]))
    with_drafts = np.hypot(width, 0.3)
    for end in (made.tokens_per_s / low, high / made.tokens_per_s):
        assert np.log(end)[0, :, 1:] == pytest.approx(np.stack([with_drafts] * 2, axis=1))
    assert grid({}).rate_ends is None
    # Without a band of the speedup, nobody knows how sure drafted throughput is.
    low, _ = replace(made, band=None).rate_ends
    assert np.isfinite(low[..., 0]).all()
    assert np.isnan(low[..., 1:]).all()


def test_tpot_falls_where_the_speedup_rises_and_ttft_does_not_care() -> None:
    made = grid({**SERVED, "tokens_per_s": {"any": WIDE}}, requests=True)
    spread = (np.array([0.0, 0.0, 0.5]), np.array([0.0, 0.0, 0.0]))  # fewer tokens, not more
    made = replace(made, curve=replace(made.curve, spread=spread))
    ends = made.figure_ends
    sides = {
        name: [np.log(end / value)[0, 1, 2] for end in pair]
        for (name, pair), value in zip(
            ends.items(), (made.tokens_per_s, made.ttft_s, made.tpot_s), strict=True
        )
    }
    rest, fewer = math.hypot(0.4, 0.3), math.hypot(0.4, 0.3, 0.5)
    assert sides["tokens_per_s"] == pytest.approx([-fewer, rest])
    assert sides["tpot_s"] == pytest.approx([-rest, fewer])
    assert sides["ttft_s"] == pytest.approx([-0.4, 0.4])
    assert set(grid({}, requests=True).figure_ends.values()) == {None}


def test_drafts_that_are_off_gain_1_for_sure_and_are_tried_in_a_band() -> None:
    (row,) = predict("Qwen/Qwen3-8B", "h100", drafters="eagle3,accept=0.05", batch_size=8).records
    assert row["decision"] == "off"
    assert [row[f"speedup{end}"] for end in ("", "_low", "_high")] == [1, 1, 1]
    assert row["tried_speedup_low"] < row["tried_speedup"] < row["tried_speedup_high"]


def test_tpot_of_a_batch_is_as_sure_as_its_throughput() -> None:
    found = predict(
        "Qwen/Qwen3-8B", "h100", drafters="eagle3,accept-length=2.8@3", batch_size=[1, 64]
    )
    ends = found.outcomes[0].figure_ends
    (slow, fast), (short, long) = (present(ends[name]) for name in ("tokens_per_s", "tpot_s"))
    for product in (slow * long, fast * short):
        assert product == pytest.approx(np.broadcast_to([[1.0], [64.0]], product.shape))


# --- chips that nobody measured -------------------------------------------------------------------

BATCHES: Final = np.array([1, 2, 4, 5, 8, 9, 32, 33, 64, 256, 257, 512, 4096])
CONTEXTS: Final = np.array([[1], [500], [1050], [1100], [1300], [2000], [8000], [33000], [131072]])


def stand_ins(chip: str = "h100") -> dict[str, EngineProfile]:
    """Return what a chip of the same vendor, and of timed kernels, has that nobody measured."""
    generic: Any = load_hardware(chip).generic
    return dict(generic.engines)


def test_kinds_that_somebody_measured_are_those_of_the_generic_engine() -> None:
    kinds = {kind for one in stand_ins().values() for kind in (one.reach or Reach()).drafters}
    generic = stand_ins()["generic"]
    lent = replace(generic, reach=Reach(), overlap=True)
    narrow = {kind for kind in KINDS if lent.band(kind) == lent.measured_band(kind)}
    assert narrow == kinds | {"ideal", "autoregressive", "block"}


@pytest.mark.parametrize("chip", hardware_names())
def test_no_stand_in_is_surer_than_a_measured_engine(chip: str) -> None:
    for name, engine in load_hardware(chip).engines.items():
        for server, stand_in in stand_ins(chip).items():
            for kind in KINDS:
                own, far = engine.band(kind), stand_in.band(kind)
                if own is not None:
                    widths = [present(one).width_at(BATCHES, CONTEXTS) for one in (far, own)]
                    assert not (widths[0] < widths[1]).any(), (kind, name, server)
            # Times of servers: those of one framework speak for that framework alone.
            for figure in SERVED_FIGURES if server in {name, "generic"} else ():
                wide, narrow = (
                    served_width(one.served_bands, figure, BATCHES, CONTEXTS)
                    for one in (stand_in, engine)
                )
                if narrow is not None:
                    assert not (present(wide) < narrow).any(), (figure, name, server)


@pytest.mark.parametrize("name", ["h100", "mi300x"])
def test_the_peaks_of_a_measured_chip_under_another_name_are_no_surer(name: str) -> None:
    known = load_hardware(name)
    assert known.generic is not None
    strange = replace(known.generic, architecture=None, vendor=None)
    own = replace(known, name="Invented", engines={}, default_engine=None, generic=strange)
    own = replace(own, architecture=None, vendor=None)
    asked: dict[str, Any] = {"drafters": "eagle3,accept-length=2.8@3", "batch_size": [1, 32, 128]}
    asked |= {"input_len": 1000, "output_len": 500, "max_draft_len": 3}
    widths = []
    for chip in (own, known):
        (made,) = predict("Qwen/Qwen3-8B", chip, **asked).curves
        widths.append(sum(ends_of(made))[0, :, 1:])
    assert (widths[0] >= widths[1] - 1e-12).all()


def test_only_chips_of_timed_kernels_have_the_bands_of_their_vendor() -> None:
    generic: Any = load_hardware("l40s").generic
    anywhere, vendor = generic.known().engines["vllm"], generic.known().vendor_bands["nvidia"]
    assert generic.engines["vllm"].served_bands == vendor["vllm"] != anywhere.served_bands
    for other in ({"architecture": "volta"}, {"vendor": "amd"}, {"vendor": None}):
        assert replace(generic, **other).engines["vllm"].served_bands == anywhere.served_bands


# --- how near measurements are --------------------------------------------------------------------

REACH = Reach(
    family="hopper",
    engines=("vllm",),
    chips=(CHIP.name,),
    attention=("full_attention",),
    formats=("bf16",),
    placements=("one device", "tp"),
    batch_size=256,
    context_len=9000,
    drafters=("eagle3", "mtp"),
    drafted_batch_size=32,
    drafted_context_len=1500,
)


def deployment(
    reach: Reach | None,
    *,
    chip: HardwareProfile = CHIP,
    model: str = "Qwen/Qwen3-8B",
    placement: Placement | None = None,
    options: Options | None = None,
) -> Deployment:
    profile = replace(CHIP.engine("vllm"), framework=None, reach=reach)
    made = replace(chip, engines={"vllm": profile})
    return Deployment(load_model(model), engine_setup(made, "vllm", placement, options))


def near_of(served: Deployment, *load: Any, drafter: str = "eagle3") -> dict[str, Any]:
    return present(nearness(served, [drafter], *load))


def test_a_format_that_nobody_measured_is_named() -> None:
    near = near_of(deployment(REACH, options=Options(weight_dtype="int4")), 1, 1)
    assert (near["format"], near["text"]) == ("none", "extrapolated to int4 weights")


def test_nothing_lies_outside_of_what_was_measured() -> None:
    near = nearness(deployment(REACH), ["eagle3"], 1500, [1, 32])
    words = ("chip", "framework", "release", "attention", "format", "placement")
    assert near == dict.fromkeys(words, "measured") | {
        "batch": {"asked": [1, 32], "measured_to": 32, "plain_measured_to": 256},
        "context": {"asked": [1500], "measured_to": 1500, "plain_measured_to": 9000},
        "text": "near measurements",
    }
    for context_len, widens in ((1500, False), (1501, True)):
        assert ("widen" in how_sure(deployment(REACH), ["eagle3"], context_len, 1)) is widens
    # Of several drafters the band is the widest.
    measured = Deployment(MODEL, engine_setup(CHIP, None, None, None))
    several, wide, narrow = (
        how_sure(measured, kinds, 1024, 8).partition("Of ")[2]
        for kinds in (["eagle3", "dspark"], ["dspark"], ["eagle3"])
    )
    assert several == wide != narrow
    # What was measured has its own bands, as far as they go.
    own = deployment(REACH)
    assert evidence_engine(own).bands["eagle3"] == own.setup.engine.bands["eagle3"]
    assert present(own.setup.engine.bands["eagle3"].batch_size) > UNMEASURED_ATTENTION_BATCH
    # An engine that knows no evidence says nothing.
    assert nearness(deployment(None), ["eagle3"], 1, 1) is None
    assert list(evidence_notes(deployment(None), "eagle3", 1, 1, EngineProfile(name="mine"))) == []


@pytest.mark.parametrize(("changes", "drafters", "load", "said"), rows("values", "reach"))
def test_what_lies_outside_is_said(
    changes: dict[str, Any], drafters: list[str], load: tuple[Any, Any], said: str
) -> None:
    assert present(nearness(deployment(replace(REACH, **changes)), drafters, *load))["text"] == said


def test_kinds_formats_and_ways_to_spread_are_told_apart() -> None:
    spread = deployment(
        REACH,
        model="deepseek-ai/DeepSeek-V3",
        placement=Placement(16, 8, 8, 2),
        options=Options(weight_dtype="fp4"),
    )
    assert deployment_words(spread) == {
        "attention": ("latent_attention",),
        "formats": ("fp4",),
        "placements": ("tp", "ep", "dp-attention", "dcp", "nodes"),
    }
    near = near_of(spread, 1, 1)
    assert [near[key] for key in ("attention", "format", "placement")] == ["none"] * 3
    assert "decode context parallelism" in near["text"]
    hybrid = deployment(REACH, model="Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert deployment_words(hybrid)["attention"] == ("full_attention", "linear_attention")


def speaker(width: float, *kinds: str) -> EngineProfile:
    bands = {kind: Band(width=width, mean_error=0.1, points=9, batch_size=2) for kind in kinds}
    return EngineProfile(name="vllm", bands=bands, reach=Reach(drafters=kinds))


def test_who_speaks_for_whom() -> None:
    vendor, anywhere, other = (
        speaker(0.5, "mtp", "ngram"), speaker(0.9, "mtp"), speaker(0.7, "mtp")
    )  # fmt: skip
    known: Any = SimpleNamespace(engines={"vllm": anywhere, "generic": other})
    generic = replace(present(CHIP.generic), known=lambda: known)
    vars(generic)["engines"] = {"vllm": vendor, "generic": other}
    chip, nobody = replace(CHIP, generic=generic), replace(CHIP, generic=None, architecture=None)
    made = deployment(replace(REACH, placements=("one device",)), chip=chip)
    own, served = made.setup.engine, replace(made.setup, decodes_only=True)
    # A kind that was measured on other families alone is as sure as there.
    lent = {**own.bands, "ngram": vendor.bands["ngram"]}
    near = evidence_engine(made)
    assert (near.bands, present(near.reach).drafters) == (lent, ("eagle3", "mtp", "ngram"))
    # Workers for prompts are no strange chip, nor are chips of a family that was not asked about.
    prefilled = EngineProfile(name="e", bands=lent).spread_as(["one device", SPLIT]).bands
    assert evidence_engine(Deployment(MODEL, served)).bands == prefilled
    bare = deployment(replace(REACH, family=""), chip=chip)
    assert evidence_engine(bare).bands == own.bands
    assert evidence_engine(deployment(REACH, chip=nobody)).bands == own.bands
    # What was not measured is as sure as on any chip of the vendor, and on no known chip as on any.
    narrow = Options(weight_dtype="int4")
    assert evidence_engine(deployment(REACH, chip=chip, options=narrow)).bands == vendor.bands
    strange = replace(chip, architecture=None)
    assert evidence_engine(deployment(REACH, chip=strange)).bands == anywhere.bands
    named = deployment(REACH, chip=chip, options=narrow).setup
    named = replace(named, engine=replace(named.engine, name="mine"))
    assert evidence_engine(Deployment(MODEL, named)).bands == other.bands


@pytest.mark.parametrize(
    ("name", "family", "near"),
    [("vllm", "", "measured"), ("generic", "hopper", "measured"), ("generic", "", "none")],
)
def test_where_others_stand_in_for_a_chip_it_was_not_measured(
    name: str, family: str, near: str
) -> None:
    setup = deployment(replace(REACH, family=family)).setup
    served = Deployment(MODEL, replace(setup, engine=replace(setup.engine, name=name)))
    assert near_of(served, 1, 1)["chip"] == near


def test_the_format_is_that_of_most_bytes() -> None:
    # Of gpt-oss-120b, experts are in mxfp4 and the rest in bf16.
    assert load_model("openai/gpt-oss-120b").weight_format == "mxfp4"
    empty = Architecture("none", "llama", 8, 9, (), Linear("lm_head", 8, 9))
    assert empty.weight_format == "bf16"


def test_a_chip_of_the_family_is_nearer_than_one_of_no_family() -> None:
    other = replace(CHIP, name="another")
    for family, near_as in (("hopper", "family"), ("", "none")):
        served = deployment(replace(REACH, family=family), chip=other)
        assert near_of(served, 1, 1, drafter="mtp")["chip"] == near_as


def test_a_release_that_nobody_timed_is_said_and_never_surer() -> None:
    drifting = replace(REACH, versions=("v0.10", "v0.19"), speedup_drift=0.04, drift=0.1)
    for newest, is_new in (("v0.19", True), ("v0.33", False), ("v1.0", False)):
        served = deployment(replace(drifting, versions=("v0.10", newest)))
        near, sure = near_of(served, 1500, 32), how_sure(served, ["eagle3"], 1500, 32)
        assert near["release"] == ("none" if is_new else "measured")
        assert ("release 0.33.0" in near["text"]) == is_new
        assert ("bands here begin at" in sure) == is_new
    # A release that is named was timed.
    old = replace(CHIP.engine("vllm"), reach=drifting).of_release("0.19")
    chip = replace(CHIP, engines={"vllm": old})
    named = Deployment(MODEL, engine_setup(chip, "vllm", None, None))
    assert near_of(named, 1500, 32)["release"] == "measured"


def widths(served: Deployment) -> Iterator[float]:
    engine = evidence_engine(served)
    yield from (band.width for band in engine.bands.values())
    yield from (band.width for cells in engine.served_bands.values() for band in cells.values())


def test_no_engine_is_surer_of_newer_releases_than_of_those_that_were_timed() -> None:
    known = 0
    for name in hardware_names():
        chip = load_hardware(name)
        for key, engine in chip.engines.items():
            reach = engine.reach
            if reach is None or not known_releases(key):
                continue
            assert min(reach.drift, reach.speedup_drift) > 0
            timed = (replace(reach, versions=tags) for tags in ((), ("v0.0",), ("v99.9",)))
            chips = (replace(chip, engines={key: replace(engine, reach=one)}) for one in timed)
            unknown, new, seen = (
                Deployment(MODEL, engine_setup(made, key, None, None)) for made in chips
            )
            assert all(map(gt, widths(new), widths(seen)))
            assert [*widths(unknown)] == [*widths(new)]
            known += 1
    assert known > 5


#: The chip without its own engines.
BARE = replace(
    CHIP,
    engines={},
    default_engine=None,
    sources={key: text for key, text in CHIP.sources.items() if not key.startswith("engines.")},
)


def test_reach_and_bands_of_requests_are_read_as_they_are_written() -> None:
    served = deployment(REACH).setup
    text = calibrated_yaml(
        BARE, replace(served.engine, served_bands={}), name="mine", source="made up"
    )
    for trusted in (True, False):
        assert parse_hardware(text, source="mine", trusted=trusted).engine("mine").reach == REACH
    bands = "served_bands: {tpot_s: {any: {width: 0.1, mean_error: 0.1, points: 9}}}"
    text = text.replace("    reach:", f"    {bands}\n    reach:", 1)
    read = parse_hardware(text, source="mine").engine("mine")
    assert read.served_bands["tpot_s"]["any"].width == 0.1
    for wrong in (text.replace("tpot_s", "tpot"), text.replace("{any", "{to-5")):
        with pytest.raises(ProfileError, match="allowed"):
            parse_hardware(wrong, source="mine")
