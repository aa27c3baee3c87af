"""Results as charts: matplotlib figures of a `SpeedupCurve` or a `PassLatency`. No physics."""

from typing import Any

from specroof.plot import _backend as _backend  # first, since it imports matplotlib
from specroof.plot.bars import Bar, Fill, plot_bars
from specroof.plot.curves import (
    plot_acceptance,
    plot_best_draft_len_map,
    plot_by_batch,
    plot_speedup_by_draft_len,
    speedup_figures,
)
from specroof.plot.lines import Across, Line, Panel, plot_lines
from specroof.plot.multiples import study_figures
from specroof.plot.operations import plot_roofline, plot_time_per_op, plot_waterfall
from specroof.plot.rows import plot_rows
from specroof.plot.scatter import plot_predicted
from specroof.plot.style import chart_format, figure_bytes, line_key


def _plot_answer(answer: Any) -> Any:
    """Draw an answer, as its own `plot` does: the former functions of single questions."""
    return answer.plot()


plot_adaptive = plot_breakeven = plot_frontier = plot_worth = _plot_answer
