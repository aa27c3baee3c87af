"""What results say of how they were served, against how they are to be predicted."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from benchmark_points import CHIP, DRAFTER, MODEL, TRUE, calibrate, points
from specroof import (
    Architecture,
    MeasurementError,
    Options,
    Placement,
    load_drafter,
    load_hardware,
    load_model,
)
from specroof.drafters import Drafter
from specroof.engines import ideal_rates, predicted_tokens_per_s
from specroof.evidence import Measurement, refuse_other_kinds
from specroof.latency.setup import Deployment, engine_setup
from specroof.questions.benchmark import engine_of_results
from tables import rows

FP8 = Options(weight_dtype="fp8", kv_dtype="fp8")


def stated(bench: Sequence[Measurement], **facts: Any) -> list[Measurement]:
    return [replace(one, **facts) for one in bench]


def refusal(
    bench: Sequence[Measurement],
    model: Architecture = MODEL,
    options: Options | None = None,
    placement: Placement | None = None,
    drafter: Drafter = DRAFTER,
) -> str | None:
    """Return the one line that refuses results; None where they pass."""
    try:
        ideal_rates(bench, Deployment(model, engine_setup(CHIP, None, placement, options)), drafter)
    except MeasurementError as problem:
        (line,) = str(problem).splitlines()
        return line
    return None


PLAIN = points((8,), (2048,))


@pytest.mark.parametrize("said", [None, "", "auto", "None", "unquant", "bf16", "bfloat16", "fp16"])
def test_what_leaves_formats_to_the_checkpoint_contradicts_nothing(said: str | None) -> None:
    assert refusal(stated(PLAIN, quantization=said), load_model("Qwen/Qwen3-8B")) is None
    if said in {None, "", "auto"}:
        assert refusal(stated(PLAIN, kv_cache=said)) is None


@pytest.mark.parametrize(("name", "weights", "said", "passes"), rows("values", "stated_weights"))
def test_weights_are_priced_as_they_were_served(
    name: str, weights: str | None, said: str, passes: bool
) -> None:
    model = load_model(name)
    options = Options(weight_dtype=weights)
    setup = engine_setup(CHIP, "ideal", None, options)
    (rate,) = predicted_tokens_per_s(PLAIN, Deployment(model, setup), None).tolist()
    bench = stated(PLAIN, quantization=said, tokens_per_s=rate / 2)
    line = refusal(bench, model, options)
    assert (line is None) == passes
    if line is not None:
        assert line.startswith(f"bench.csv, line 0: quantization is {said!r}, and {model.name} is")
        assert line.endswith("allowed: the same, by --weights or another --model")


@pytest.mark.parametrize(("key", "option", "is_of", "names"), rows("values", "widths_of_formats"))  # fmt: skip
def test_a_format_is_as_wide_as_its_name_says(
    key: str, option: str, is_of: str, names: str
) -> None:
    widths = ("int4", "int8") if option == "weight_dtype" else ("bf16", "fp8", "fp4")
    for said, width in product(names.split(), widths):
        choice: dict[str, Any] = {option: width}
        line = refusal(stated(PLAIN, **{key: said}), options=Options(**choice))
        assert (line is None) == (width == is_of), said


@pytest.mark.parametrize(("cache", "said", "passes"), rows("values", "stated_caches"))
def test_caches_are_priced_as_they_were_served(cache: str | None, said: str, passes: bool) -> None:
    line = refusal(stated(PLAIN, kv_cache=said), options=Options(kv_dtype=cache))
    assert (line is None) == passes
    if line is not None:
        assert f"bench.csv, line 0: kv_cache_dtype is {said!r}, and Qwen3-8B is" in line
        assert "allowed: the same, by --kv-cache" in line


def test_a_point_may_beat_the_roofline_by_its_noise_and_miss_it_200_times() -> None:
    ideal = Deployment(MODEL, engine_setup(CHIP, "ideal", None, None))
    (rate,) = predicted_tokens_per_s(PLAIN, ideal, None).tolist()
    for share in (1.09, 1 / 199):
        assert refusal(stated(PLAIN, tokens_per_s=share * rate)) is None
    assert "is more than the" in (refusal(stated(PLAIN, tokens_per_s=1.11 * rate)) or "")
    assert "200th" in (refusal(stated(PLAIN, tokens_per_s=rate / 201)) or "")


def test_experts_are_spread_as_they_were_served() -> None:
    line = refusal(stated(PLAIN, expert_parallel=8))
    assert line == "bench.csv, line 0: expert parallelism is 8; --ep is 1"
    both = stated(PLAIN, tensor_parallel=2, expert_parallel=2)
    assert refusal(both, placement=Placement(2, 2)) is None
    assert refusal(both, placement=Placement(2)) == (
        "bench.csv, line 0: expert parallelism is 2; --ep is 1"
    )


TREE = load_drafter("eagle3,tree=3/1/1,siblings=.1/.05")


def test_a_tree_is_no_chain() -> None:
    fast = points((8,), (2048,), (3,))
    chain, tree = stated(fast, top_k=1), stated(fast, top_k=4)
    assert refusal(chain) is refusal(tree, drafter=TREE) is refusal(fast, drafter=TREE) is None
    assert refusal(tree) == (
        "bench.csv, line 0: speculative_eagle_topk is 4, a tree of drafts, and drafter 'eagle3' is "
        "a chain; allowed: a SPEC with tree="
    )
    assert refusal([replace(one, method="NGRAM") for one in tree]) is None
    line = refusal(chain, drafter=TREE) or ""
    assert "speculative_eagle_topk is 1, a chain of drafts, and drafter 'eagle3,tree=" in line
    assert line.endswith("is a tree; allowed: a SPEC without tree=")


@pytest.mark.parametrize(("algorithm", "kinds"), rows("values", "algorithms_of_kinds"))
def test_what_drafted_is_what_is_priced(algorithm: str, kinds: list[str]) -> None:
    fast = stated(points((8,), (2048,), (3,)), method=algorithm)
    for kind in sorted({*kinds, "ideal", "autoregressive", "block"}):
        refuse_other_kinds(fast, kind)
    named = ", ".join(sorted({*kinds, "ideal", "autoregressive", "block"}))
    where = f"bench.csv, line 0: speculative_algorithm is {algorithm!r}"
    with pytest.raises(
        MeasurementError, match=f"^{where}, .*--drafter .*'medusa'; allowed: {named}$"
    ):
        refuse_other_kinds(fast, "medusa")
    refuse_other_kinds(stated(fast, draft_len=0), "medusa")  # a plain run says nothing


def test_algorithms_that_nobody_has_listed_go_with_any_kind() -> None:
    fast = points((8,), (2048,), (3,))
    refuse_other_kinds([*fast, *stated(fast, method="UNO")], "medusa")


def test_formats_that_are_asked_for_are_fitted_and_are_what_the_roofline_has() -> None:
    true = replace(CHIP, engines={"true": TRUE}, default_engine="true")
    bench = points((1, 8, 64), (512, 8192))
    rates = predicted_tokens_per_s(
        bench, Deployment(MODEL, engine_setup(true, None, None, FP8)), None
    )
    narrow = [
        replace(one, tokens_per_s=rate) for one, rate in zip(bench, rates.tolist(), strict=True)
    ]
    found = calibrate(narrow, MODEL, CHIP, options=FP8)
    assert found.engine.pass_overhead_s == pytest.approx(TRUE.pass_overhead_s, rel=0.01)
    assert found.mean_error < 0.001
    wide, thin = (
        ideal_rates(narrow, Deployment(MODEL, engine_setup(CHIP, None, None, options)), None)
        for options in (None, FP8)
    )
    # Half of the bytes of every step, where memory decides: nearly twice as fast.
    assert 1.5 < thin[0] / wide[0] <= 2


# --- the engine, and what is to be known -------------------------------------------------------


def test_the_engine_is_that_of_the_tool() -> None:
    b200 = load_hardware("b200")
    theirs = stated(PLAIN, engine="vllm")
    assert engine_of_results(theirs, b200) == ("vllm", [])
    assert engine_of_results([*PLAIN, *theirs], b200) == ("vllm", [])
    assert engine_of_results(stated(PLAIN, engine="sglang"), b200) == ("sglang", [])
    assert engine_of_results(PLAIN, b200) == (None, [])  # a table names no tool
    unnamed = replace(b200, default_engine=None)
    assert engine_of_results(theirs, unnamed) == ("vllm", [])
    # An engine of one's own stays the default; a tool without one is said.
    mine = {**b200.engines, "mine": b200.engines["sglang"]}
    own = replace(b200, engines=mine, default_engine="mine")
    assert engine_of_results(theirs, own) == (None, [])
    bare = replace(b200, engines={"sglang": b200.engines["sglang"]}, default_engine="sglang")
    (engine, (note,)) = engine_of_results(theirs, bare)
    assert engine is None
    assert "no engine vllm" in note
