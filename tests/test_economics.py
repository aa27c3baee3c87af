"""Money and energy, and what hardware files say of them."""

from typing import Any, Final

import numpy as np
import pytest

from specroof import ProfileError, hardware_names, load_hardware, predict
from specroof.hardware.profile import DevicePower, DevicePrice
from specroof.hardware.schema import parse_hardware
from specroof.outcomes.rows import costs_of
from specroof.questions.sweep import summary_columns
from specroof.speedup.price import Money, joules_per_million_tokens, usd_per_million_tokens
from tables import rows

FILE = """
format_version: 1
name: My GPU
sources: {peak.flops_per_s: mine, peak.memory_bytes_per_s: mine, peak.memory_bytes: mine}
peak: {flops_per_s: {bf16: 1000.0e+12}, memory_bytes_per_s: 3.0e+12, memory_bytes: 80.0e+9}
price: {usd_per_hour: 2.5, source: my provider, date: 2026-11-01}
power: {board_watts: 700.0, loaded_frac: 0.8}
"""


def test_the_price_of_the_readme_by_hand() -> None:
    # 8 devices at 3.75 $/h are 30 $/h; 10 000 tokens/s are 36 million an hour.
    assert usd_per_million_tokens(1e4, devices=8, usd_per_hour=3.75) == pytest.approx(30 / 36)
    assert joules_per_million_tokens(1e4, devices=8, watts=1000.0) == pytest.approx(8e5)
    # As published, a speedup of 1.24 is a price per token 19.4 % lower.
    plain, faster = (usd_per_million_tokens(n, devices=1, usd_per_hour=1.0) for n in (1.0, 1.24))
    assert 1 - float(faster / plain) == pytest.approx(0.194, abs=0.0005)


def test_the_band_of_a_price_falls_with_the_tokens() -> None:
    # 0.001 $/s: a million costs 2 $ at 500 tokens/s, and 0.5 $ at 2000.
    bands = {"tokens_per_s": (np.array([500.0]), np.array([2000.0]))}
    costs_of(Money(1, usd_per_hour=3.6), np.array([1000.0]), bands)
    low, high = bands["usd_per_million_tokens"]
    assert (low.item(), high.item()) == pytest.approx((0.5, 2.0))


@pytest.mark.parametrize("trusted", [False, True])
def test_a_file_says_what_a_device_costs_and_draws(trusted: bool) -> None:
    chip = parse_hardware(FILE, source="mine.yaml", trusted=trusted)
    assert chip.price == DevicePrice(usd_per_hour=2.5, source="my provider", date="2026-11-01")
    assert chip.power is not None
    assert chip.power.watts == pytest.approx(560)


def test_every_bundled_price_and_power_has_a_source() -> None:
    chips = [load_hardware(name) for name in hardware_names()]
    prices = [chip.price for chip in chips if chip.price]
    assert len(prices) == 19
    for price in prices:
        assert "https://" in price.source
        assert "2024-12-01" < price.date < "2026-12-01"
        assert 0.1 < price.usd_per_hour < 20
    for chip in chips:
        if chip.power is not None:
            assert "https://" in chip.sources["power.board_watts"]
            assert 7 <= chip.power.board_watts <= 2000  # a Jetson, and a B300
    # What is unknown is none.
    assert load_hardware("b300").price is None
    assert load_hardware("tpu-v5e").power is None
    assert DevicePower(board_watts=300.0).watts == 300


@pytest.mark.parametrize(("old", "new", "message"), rows("refusals", "prices_and_power"))
def test_bad_money_and_watts_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ProfileError, match=rf"^mine.yaml: {message}"):
        parse_hardware(FILE.replace(old, new), source="mine.yaml")


# --- the hours of the devices over the tokens that they made -------------------------------------

SPEC, USD_PER_HOUR, OUTPUT_LEN = "eagle3,accept-length=2.8@3", 2.95, 100
LOAD: Final[dict[str, Any]] = {"input_len": 8000, "output_len": OUTPUT_LEN, "requests": 300}


def usd(duration_s: Any) -> Any:
    return USD_PER_HOUR * duration_s / 3600 / (300 * OUTPUT_LEN) * 1e6


@pytest.mark.parametrize("how", [{"rate": 3}, {"batch_size": 64}], ids=["arrivals", "clients"])
def test_a_played_load_costs_its_device_hours_everywhere(how: dict[str, Any]) -> None:
    found = predict(
        "Qwen/Qwen3-8B", "h100", engine="vllm", drafters=SPEC, max_draft_len=3, **LOAD, **how
    )
    (played,) = found.played
    paid = usd(played.figures["duration_s"][0])
    told = found.grid["quantities"]
    assert told["usd_per_million_tokens"][0][0][0] == pytest.approx(paid)
    low, high = (told[f"usd_per_million_tokens_{end}"][0][0][0] for end in ("low", "high"))
    assert low[0] < paid[0] < high[0]
    # Requests that come by themselves make as many tokens: all but these of the last answers.
    assert (high[0] / low[0] < 1.1) == ("rate" in how)
    rows = found.to_frame("points")
    assert rows.usd_per_million_tokens.to_numpy() == pytest.approx(paid)
    best = paid[int(played.best_draft_len[0])]
    assert summary_columns(found)["usd_per_million_tokens"] == pytest.approx(best)
    if "rate" in how:  # drafts make no more tokens of what arrives: the hours are the same
        assert np.ptp(paid) < 0.02 * paid[0]
        assert paid[0] == pytest.approx(2.84, abs=0.005)


def test_the_band_of_a_figure_of_which_more_is_better_is_the_right_way_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = predict("Qwen/Qwen3-8B", "h100", drafters=SPEC, max_draft_len=3)
    assert found.rows  # which have prices, and are kept
    monkeypatch.setattr(
        "specroof.speedup.price.Money.of",
        lambda _, rates: {"tokens_per_usd": np.asarray(rates) * 3600 / USD_PER_HOUR},
    )
    told = found.grid["quantities"]
    low, high = (np.array(told[f"tokens_per_usd_{side}"]) for side in ("low", "high"))
    assert (low <= high).all()
    assert (low < high).any()
