"""One acceptance length as a whole curve: the typical shape of such drafters, and its band."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from specroof.acceptance.curve import (
    DRAFTS,
    PROBABILITY,
    Acceptance,
    constant_acceptance,
    length_of,
    number_from,
    survival_of_rates,
)
from specroof.arrays import Array, number_within
from specroof.errors import expect, expect_word


@dataclass(frozen=True, slots=True)
class Shape:
    """How acceptance goes on with depth, for one family of drafters.

    Parameters
    ----------
    power
        β: the odds of a draft's acceptance fall with this power of its position.
    spread_beyond, spread_within
        Of profiles left out, 80% have a logarithm of tokens per round within this, times the
        logarithm of the ratio of depths, of what one length of theirs says; beyond the depth
        that was measured, and within.
    n_profiles
        Measured profiles that say so.
    """

    power: float
    spread_beyond: float
    spread_within: float
    n_profiles: int


#: Medians over the bundled profiles with lengths at several depths, families held near the median
#: of all, and how far profiles lie from what those of other models say of them:
#: `benchmarks/acceptance_shapes.py` prints this table. Look-ups find a passage or do not: once the
#: first draft is right, the next ones mostly are. Their four profiles are of one model.
SHAPES: Final[Mapping[str, Shape]] = {
    "": Shape(0.28, 0.091, 0.055, 114),  # all but look-ups
    "mtp": Shape(0.35, 0.115, 0.072, 12),
    "eagle": Shape(0.28, 0.092, 0.062, 57),
    "dflash": Shape(0.26, 0.102, 0.054, 22),
    "dspark": Shape(0.23, 0.064, 0.037, 23),
    "ngram": Shape(-2.66, 0.055, 0.032, 4),
}

#: The family of each kind of drafter whose profiles are known; other kinds are as all together.
FAMILIES: Final[Mapping[str, str]] = {
    "mtp": "mtp",
    "eagle": "eagle",
    "eagle3": "eagle",
    "dflash": "dflash",
    "dspark": "dspark",
    "ngram": "ngram",
    "prompt_lookup": "ngram",
    "suffix": "ngram",
}

#: Kinds that look drafts up, without weights.
LOOKUPS: Final = frozenset(kind for kind, family in FAMILIES.items() if family == "ngram")

#: What a single acceptance length may be taken to say of other depths.
LENGTH_LAWS: Final = ("typical", "constant")


def falling_odds_acceptance(first_rate: float, power: float) -> Acceptance:
    r"""Return the curve of drafts whose odds of acceptance fall with a power of their position.

    .. math:: \frac{a_j}{1 - a_j} = \frac{a_1}{1 - a_1} \, j^{-\beta}, \quad
        s_d = \prod_{j=1}^{d} a_j

    Parameters
    ----------
    first_rate
        a_1 of the first draft, from 0 to 1.
    power
        β, from -5 to 5: 0 is a constant rate, and below 0 rates rise.

    Ignores
        a dip that block drafters have around the third draft (0.02 of the rate).
    Source
        The measured profiles of `specroof.acceptance.published`: of the one-number shapes that
        were tried (rates that fall linearly, by the root or the logarithm of the position, or
        towards a limit) none predicts other depths better by more than 0.2 points.

    Raises
    ------
    OptionError
        For a number out of its range.

    Examples
    --------
    >>> curve = falling_odds_acceptance(0.8, 1.0)  # odds 4, 2, 4/3: rates 0.8, 2/3, 4/7
    >>> curve.survival([1, 2, 3])
    array([0.8       , 0.53333333, 0.3047619 ])
    """
    first = number_from("first_rate", first_rate, 0.0, 1.0, PROBABILITY)
    beta = number_from("power", power, -5.0, 5.0, "a number from -5 to 5")
    description = f"acceptance {first:.4g} of the first draft, its odds times position^{-beta:.3g}"
    return Acceptance(description, None, _falling_odds_law, (first, beta))


def acceptance_from_length(
    tokens_per_round: float, draft_len: int, *, law: str = "typical", kind: str = ""
) -> Acceptance:
    r"""Return the curve that has a measured acceptance length at its depth.

    .. math:: a_1: \quad 1 + \sum_{d=1}^{\gamma} \prod_{j=1}^{d} a_j(a_1) = N

    Parameters
    ----------
    tokens_per_round, draft_len
        N, bonus token included, as it was measured with γ ≥ 1 drafts a round: from 1, where none
        is accepted, to γ + 1, where all are.
    law
        ``"typical"``: odds of acceptance fall with depth as in the measured profiles of such
        drafters (`SHAPES`). ``"constant"``: every draft is accepted at the same rate.
    kind
        What drafts, as a SPEC calls it; other kinds take the shape of all profiles.

    Counts
        the length at its depth exactly, whatever the law; the band at other depths.
    Ignores
        what one length cannot say. Of 114 profiles, each predicted from those of other models,
        tokens per round beyond the given depth are 2.8% off on average with the typical law, too
        high by 0.2%; with a constant rate 4.3% off, too high by 3.5%. Within it: 1.5% and 2.3%.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, equation 1, solved for the rate of the first
        draft.

    Raises
    ------
    OptionError
        For a length that its drafts cannot give, or an unknown law.

    Examples
    --------
    >>> curve = acceptance_from_length(1.75, 2, law="constant")
    >>> curve.survival(1), curve.tokens_per_round(2)  # 1 + 1/2 + 1/4
    (array(0.5), array(1.75))
    >>> eagle = acceptance_from_length(2.8, 3, kind="eagle3")
    >>> eagle.tokens_per_round(3).round(9), eagle.measured_depth
    (np.float64(2.8), 3)
    """
    drafts = int(number_within("draft_len", draft_len, DRAFTS))
    length = length_of("tokens_per_round", tokens_per_round, drafts, "draft_len")
    expect_word("law", law, LENGTH_LAWS)
    expect("kind", kind, str, "the kind of a drafter, or nothing")
    family = FAMILIES.get(kind, "")
    shape = SHAPES[family]
    power = shape.power if law == "typical" else 0.0
    rate = first_rate_of_length(length - 1.0, drafts, power)
    measured = f"{length:g} tokens per round (bonus included) at {drafts} drafts"
    if law == "typical":
        curve = falling_odds_acceptance(rate, power)
        like = f"the typical shape of {family}" if family else "the typical shape"
        description = f"{measured}, other depths extrapolated by {like}: {curve.description}"
    else:
        curve = constant_acceptance(rate)
        description = f"constant acceptance {rate:.4g} per draft token, inferred from {measured}"
    return replace(
        curve,
        description=description,
        measured_depth=drafts,
        spread=(shape.spread_within, shape.spread_beyond),
        caveats=(f"{measured} says that every draft is accepted: acceptance is 1 at every depth",)
        if length == drafts + 1.0
        else (),
    )


def falling_odds_rates(first_rate: Array | float, power: Array | float, depth: int) -> Array:
    r"""Return the conditional rates a_1 … a_depth, on a last axis.

    .. math:: a_j = \frac{a_1}{a_1 + (1 - a_1) \, j^{\beta}}

    Parameters
    ----------
    first_rate, power
        a_1 and β; arrays broadcast.
    depth
        How many.

    Source
        `falling_odds_acceptance`, solved for the rate.

    Examples
    --------
    >>> falling_odds_rates(0.5, 1.0, 3)  # odds 1, 1/2, 1/3
    array([0.5       , 0.33333333, 0.25      ])
    """
    positions = np.arange(1, depth + 1, dtype=np.float64)
    first = np.asarray(first_rate, dtype=np.float64)[..., None]
    harder = positions ** np.asarray(power, dtype=np.float64)[..., None]
    with np.errstate(invalid="ignore"):  # a certain 0 or 1 stays one at every depth
        rates = first / (first + (1.0 - first) * harder)
    return np.asarray(rates)


@lru_cache(maxsize=4096)
def first_rate_of_length(accepted_tokens: float, draft_len: int, power: float) -> float:
    """Return the first rate whose `draft_len` drafts have `accepted_tokens` accepted.

    Parameters
    ----------
    accepted_tokens
        N - 1, from 0 to `draft_len`.
    draft_len
        γ.
    power
        β of `falling_odds_acceptance`.

    Source
        A search: N rises with the first rate.

    Examples
    --------
    >>> first_rate_of_length(0.75, 2, 0.0)  # 1/2 + 1/4
    0.5
    """

    def miss(rates: Array) -> Array:
        survival = np.cumprod(falling_odds_rates(rates, power, draft_len), axis=-1)
        return np.asarray(survival.sum(axis=-1) - accepted_tokens)

    ends = np.array([0.0, 1.0])
    # The smallest step of a length above 1 is 2**-52, and a rate as small has 53 bits too.
    for _ in range(18):  # of six bits each
        if ends[1] <= np.nextafter(ends[0], 1.0):
            break
        tried = ends[0] + (ends[1] - ends[0]) * np.linspace(0.0, 1.0, 65)
        above = int(np.searchsorted(miss(tried[1:-1]), 0.0))
        ends = tried[above : above + 2]
    # Of two neighbours the better one: 0 and 1 are met exactly.
    return float(ends[np.argmin(np.abs(miss(ends)))])


def _falling_odds_law(parameters: tuple[float, ...], depth: int) -> Array:
    first, power = parameters
    return survival_of_rates(falling_odds_rates(first, power, depth))
