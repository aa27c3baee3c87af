"""Modal's calculator: what its page opens with, and speedup against batch size."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from published_models import (
    calculator_qwen35_27b,
    calculator_v4,
    published,
    published_options,
    with_counted_head,
    with_shared_experts_among_the_routed,
)
from specroof import speedup_curve
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.model import Architecture
from specroof.catalog import load_drafter, load_hardware, load_model
from specroof.cost import Options
from specroof.hardware.profile import Placement
from specroof.speedup.result import SpeedupCurve

pytestmark = pytest.mark.golden

Array = npt.NDArray[np.float64]
Vector = dict[str, Any]

PAGE: Final = published("modal-2026-calculator.yaml")
SERIES: Final = published("modal-2026-batch-series.yaml")

V4_FLASH: Final = "deepseek-ai/DeepSeek-V4-Flash"
V4_PRO: Final = "deepseek-ai/DeepSeek-V4-Pro"
QWEN_27B: Final = "Qwen/Qwen3.5-27B"


def reconstructed(name: str, *, gated: bool = False) -> Architecture:
    return calculator_qwen35_27b(gated=gated) if name == QWEN_27B else calculator_v4(name)


def calculate(
    file: Vector,
    model: Architecture,
    batch_size: Any,
    *,
    drafter: str = "block",
    options: Options | None = None,
    placement: Placement | None = None,
) -> SpeedupCurve:
    return speedup_curve(
        model, load_hardware("b200"), drafter=load_drafter(file["options"]["drafters"][drafter]),
        batch_size=batch_size, context_len=file["options"]["context_len"],
        max_draft_len=file["options"]["max_draft_len"], placement=placement, engine="ideal",
        options=options or published_options(file),
    )  # fmt: skip


def page_point(vector: Vector, model: Architecture) -> tuple[int, float]:
    curve = calculate(PAGE, model, vector["batch_size"], drafter=vector["drafter"])
    return int(curve.best_draft_len.item()), float(curve.best_speedup.item())


@pytest.mark.parametrize("vector", PAGE["vectors"], ids=str)
def test_bundled_configs_and_reconstructed_sizes_give_what_modal_shows(vector: Vector) -> None:
    bundled, speedup = page_point(vector, load_model(vector["model"]))
    rebuilt, by_sizes = page_point(vector, reconstructed(vector["model"]))
    assert bundled == rebuilt == vector["draft_len"]
    tolerance = PAGE["tolerance"]
    assert speedup == pytest.approx(vector["speedup"], rel=0, abs=tolerance["published"])
    (lowest, highest), slack = vector["reconstructed"], tolerance["reconstructed"]
    assert lowest - slack <= by_sizes <= highest + slack


@pytest.mark.parametrize("name", [V4_FLASH, V4_PRO])
def test_bundled_v4_layers_have_the_projections_that_modal_counts(name: str) -> None:
    (hca,) = {
        block
        for layer in load_model(name).layers
        for block in layer.blocks
        if isinstance(block.core, CompressedAttention) and block.core.ratio == 128
    }
    counted = sum(linear.matrix_params for linear in hca.linears if linear.kind == "dense")
    assert counted == PAGE["options"]["sizes"][name]["attention_weights"]


def series(vector: Vector, model: Architecture) -> Array:
    options = published_options(SERIES)
    if vector["model"] == QWEN_27B:
        formulas = SERIES["options"]["dense_formulas"]
        state = vector.get("recurrent_state", formulas["recurrent_state"])
        options = Options(**formulas | {"recurrent_state": state})
    counted = with_counted_head(model) if vector["head"] else model
    curve = calculate(SERIES, counted, vector["batch_size"], options=options)
    return np.asarray(curve.best_speedup[0])


def rows(*models: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "vector", [row for row in SERIES["vectors"] if row["model"] in models], ids=str
    )


@rows(V4_PRO, V4_FLASH, QWEN_27B)
def test_reconstructed_sizes_give_the_published_series(vector: Vector) -> None:
    speedup, tolerance = vector["speedup"], SERIES["tolerance"]["reconstructed"]
    model = reconstructed(vector["model"], gated=vector.get("gated", False))
    predicted = series(vector, model)
    assert predicted == pytest.approx(speedup, rel=0, abs=tolerance)


@rows(V4_PRO)
def test_bundled_v4_pro_differs_by_its_shared_expert_alone(vector: Vector) -> None:
    bundled = load_model(V4_PRO)
    speedup, tolerance = np.array(vector["speedup"]), SERIES["tolerance"]
    as_published = series(vector, with_shared_experts_among_the_routed(bundled))
    assert as_published == pytest.approx(speedup, rel=0, abs=tolerance["reconstructed"])
    change = series(vector, bundled) / as_published - 1
    lowest, highest = tolerance["bundled_experts"]
    assert lowest <= change.min() < 0 < change.max() <= highest


@rows(QWEN_27B)
def test_bundled_27b_differs_by_its_convolution_columns(vector: Vector) -> None:
    gated = series(vector, calculator_qwen35_27b(gated=True))
    tolerance = SERIES["tolerance"]["bundled_dense"]
    assert series(vector, load_model(QWEN_27B)) == pytest.approx(gated, rel=tolerance)


@pytest.mark.parametrize("sizes", ["reconstructed", "bundled"])
@pytest.mark.parametrize("drafter", ["autoregressive", "block"])
def test_v4_pro_on_eight_devices_repeats_its_latent_cache(drafter: str, sizes: str) -> None:
    spread = SERIES["options"]["tensor_parallel"]
    model = calculator_v4(V4_PRO) if sizes == "reconstructed" else load_model(V4_PRO)
    curve = calculate(
        SERIES, with_counted_head(model), spread["batch_size"], drafter=drafter,
        placement=Placement(spread["devices"]),
    )  # fmt: skip
    tolerance = SERIES["tolerance"]["tensor_parallel_as_served"][sizes]
    assert curve.best_speedup.item() == pytest.approx(spread[drafter], rel=0, abs=tolerance)
