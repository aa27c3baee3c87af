"""`specroof acceptance` as people use it."""

from pathlib import Path

import pytest

import specroof
from commands import answered, refused, run
from specroof import plot


def test_a_profile_is_shown_with_its_lengths() -> None:
    (shown,) = answered("acceptance show qwen3.6-27b/mtp/gsm8k")["rows"]
    assert shown["lengths"] == {"3": 3.556, "7": 5.503, "15": 6.855}
    assert len(shown["survival"]) == 15


def test_a_file_is_fitted_and_the_law_is_a_spec(tmp_path: Path) -> None:
    path = tmp_path / "requests.json"
    # 16 rounds of a drafter that is right every second time, three drafts at most
    path.write_text('{"acceptance_histogram": [8, 4, 2, 2]}')
    picture = tmp_path / "fit.png"
    fits = answered("acceptance fit", path, "--plot", picture)["rows"]
    assert [fit["law"] for fit in fits] == ["constant", "decay", "beta"]
    assert fits[0]["spec"] == "accept=0.5"
    assert fits[0]["worst_residual"] == pytest.approx(0, abs=1e-9)
    assert picture.stat().st_size > 1000
    table = run("acceptance fit --law constant", path)
    assert "accept=0.5" in table
    assert "beta" not in table


def test_a_log_is_read_with_the_engines_own_count(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("Decode batch. accept len: 1.75, cuda graph: True\n")
    shown = run("acceptance show --drafts num_draft_tokens=3", path)
    # Odds 1.05 and 1.05 * 2**-0.27: rates 0.512 and 0.465, whose survivals add up to 0.75.
    assert "0.512 0.238" in shown
    assert "give it" in refused("acceptance show", path)
    # 100 requests at 3 tokens and one at 1: (300 + 1) / 101. A line that tells none: (3 + 1) / 2.
    busy = "#running-req: 100, #token: 9, accept len: 3.00, cuda graph: True\n"
    for alone, mean in (("#running-req: 1, ", 301 / 101), ("", 2)):
        path.write_text(f"{busy}Prefill batch, #running-req: 9\n{alone}accept len: 1.00,")
        (row,) = answered("acceptance show --drafts 3", path)["rows"]
        assert row["lengths"]["3"] == pytest.approx(mean, rel=1e-3)
    path.write_bytes(b"\xff\xfe")
    assert "is not UTF-8" in refused("acceptance show", path)


def test_only_measured_curves_are_drawn() -> None:
    endless = specroof.constant_acceptance(0.5)
    for curves in ([], [("endless", endless)]):
        with pytest.raises(specroof.OptionError, match=r"^curves .*allowed: one or more"):
            plot.plot_acceptance(curves)
