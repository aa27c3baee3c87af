"""Several charts of one answer, by the endings of their files' names; the first has none."""

from typing import TYPE_CHECKING

from specroof.plot.acceptance import plot_acceptance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from specroof.questions.acceptance import Profiles


def acceptance_figures(found: "Profiles") -> "dict[str, Figure]":
    """Return survival and tokens per round of profiles, beside the laws fitted to them."""
    measured = [(one.name, one.acceptance()) for one in found.profiles]
    fits = [(f"{fit.law} fitted to {one.name}", fit.acceptance) for one, fit in found.fits]
    return {"": plot_acceptance(measured, fits=fits)}
