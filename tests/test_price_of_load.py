"""The price of a load is the hours of its devices over the tokens that it made."""

from typing import Any, Final

import numpy as np
import pytest

from specroof import predict
from specroof.questions.sweep import summary_columns

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
