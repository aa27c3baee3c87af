"""`make demo`: a first-class answer, and the charts that the README and docs/ print."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from demo import Demo, demo

ROOT = Path(__file__).parents[1]
CHARTS = ROOT / "notebooks" / "charts"
README = (ROOT / "README.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drawn() -> Demo:
    return demo()


def test_the_readme_and_the_home_of_the_docs_print_charts_that_are_drawn(drawn: Demo) -> None:
    home = (ROOT / "docs" / "pages" / "index.md").read_text(encoding="utf-8")
    assert "charts/best-speedup-by-batch.png" in home
    printed = set(re.findall(r"!\[[^]]*\]\(([^)]+)\)", README))
    assert printed
    known = {*drawn.charts, "predicted-against-measured.png"}  # make validate draws the last
    assert printed <= {f"notebooks/charts/{name}" for name in known}


def test_a_printed_chart_is_the_picture_that_the_demo_draws(drawn: Demo, tmp_path: Path) -> None:
    for name, content in drawn.charts.items():
        (tmp_path / name).write_bytes(content)
        with Image.open(CHARTS / name) as printed, Image.open(tmp_path / name) as now:
            assert printed.size == now.size, f"{name}: run make outputs"
            # Another release of matplotlib moves letters, and with them axes, by some pixels.
            if printed.info["Software"] == now.info["Software"]:
                difference = np.asarray(printed, dtype=float) - np.asarray(now, dtype=float)
                assert np.abs(difference).max() < 10, f"{name}: run make outputs"  # of 255
