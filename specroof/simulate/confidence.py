"""Rounds whose outcome a drafter's confidence knows in part beforehand."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.acceptance.laws import rates_of_survival
from specroof.arrays import Array, number_within

if TYPE_CHECKING:
    # Dice take longer to import than a prediction does.
    from numpy.random import Generator


def confident_rounds(
    survival: ArrayLike, *, known: float, shape: tuple[int, ...], dice: "Generator"
) -> tuple[Array, NDArray[np.intp]]:
    r"""Draw rounds: how likely each draft survives, as confidence knows it, and how many did.

    .. math:: c_j \sim \mathrm{Beta}(\kappa a_j, \kappa (1 - a_j)), \quad
        \kappa = \frac{1}{\rho} - 1, \quad a_j = \frac{s_j}{s_{j-1}}

    Parameters
    ----------
    survival
        s_1 … s_γ on average.
    known
        ρ: the share of the variance of each draft's acceptance that confidence knows, from 0, where
        all rounds look alike, to 1, where it tells what will be accepted.
    shape
        Of the rounds that are drawn.
    dice
        What draws.

    Returns
    -------
    tuple
        :math:`\prod_{i \le j} c_i` of each draft, axes (\*shape, γ), and accepted drafts, axes
        `shape`.

    Counts
        confidence that is calibrated: of drafts with confidence c, a share c is accepted. The
        average over rounds is `survival`, whatever is known.
    Ignores
        that confident drafts come in runs: positions and rounds are drawn apart.
    Source
        The beta distribution has mean a and variance a (1 - a) / (κ + 1), a share 1 / (κ + 1) of
        the variance of the outcome (Johnson, Kotz and Balakrishnan 1995, Continuous Univariate
        Distributions 2, chapter 25); survival as a product of confidences: DSpark (Cheng et al.
        2026), algorithm 1.

    Examples
    --------
    >>> dice = np.random.default_rng(0)
    >>> worth, accepted = confident_rounds([0.8, 0.4], known=0.0, shape=(2,), dice=dice)
    >>> worth
    array([[0.8, 0.4],
           [0.8, 0.4]])
    """
    share = number_within("known", known, "share")
    rates = rates_of_survival(survival)
    full = (*shape, len(rates))
    chances = dice.random(full)
    if share in {0.0, 1.0}:
        surely = (dice.random(full) < rates).astype(np.float64)
        confidence = np.broadcast_to(rates, full) if share == 0.0 else surely
    else:
        kappa = 1.0 / share - 1.0
        # The beta of a certain rate is that rate, which the distribution does not allow.
        open_ = np.clip(rates, 1e-12, 1.0 - 1e-12)
        confidence = dice.beta(kappa * open_, kappa * (1.0 - open_), full)
    accepted = np.cumprod(chances < confidence, axis=-1).sum(axis=-1)
    return np.cumprod(confidence, axis=-1, dtype=np.float64), accepted
