"""Results as charts: matplotlib figures of a `SpeedupCurve` or a `PassLatency`. No physics."""

from specroof.plot import _backend as _backend  # first, since it imports matplotlib
from specroof.plot.acceptance import plot_acceptance
from specroof.plot.adaptive import plot_adaptive
from specroof.plot.batches import (
    plot_best_draft_len_map,
    plot_by_batch,
    plot_draft_len_by_batch,
    plot_speedup_by_batch,
)
from specroof.plot.breakeven import plot_breakeven
from specroof.plot.curves import plot_speedup_by_draft_len
from specroof.plot.figures import acceptance_figures, pass_figures, speedup_figures
from specroof.plot.frontier import plot_frontier
from specroof.plot.multiples import study_figures
from specroof.plot.operations import plot_roofline, plot_time_per_op
from specroof.plot.style import figure_bytes
from specroof.plot.waterfall import plot_waterfall
from specroof.plot.worth import plot_worth

__all__ = [
    "acceptance_figures",
    "figure_bytes",
    "pass_figures",
    "plot_acceptance",
    "plot_adaptive",
    "plot_best_draft_len_map",
    "plot_breakeven",
    "plot_by_batch",
    "plot_draft_len_by_batch",
    "plot_frontier",
    "plot_roofline",
    "plot_speedup_by_batch",
    "plot_speedup_by_draft_len",
    "plot_time_per_op",
    "plot_waterfall",
    "plot_worth",
    "speedup_figures",
    "study_figures",
]
