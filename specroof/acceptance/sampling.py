"""How acceptance moves with the temperature, and with the rule by which drafts are accepted."""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.acceptance.curve import RULES, Acceptance, rates_of_survival, survival_of_rates
from specroof.acceptance.typical import LOOKUPS
from specroof.arrays import Array, number_within
from specroof.errors import Urgent, expect_word, refuse, reject
from specroof.units import BOUNDS

#: What most engines do.
USUAL_RULE: Final = "greedy"

#: Entropy of the target's next token at temperature 1 in nats, where nobody states it: a usual one,
#: and between which ends targets lie. 30 pairs of DFlash on Qwen3 at temperatures 0 and 1 (the
#: profiles) say 0.12 to 0.24, half of them below 0.17; eleven temperatures of Llama-3.1-8B
#: (llama.cpp pull request 27694) say 0.33 to 0.53. `tests/test_golden_sampling.py` has both.
USUAL_ENTROPY: Final = 0.17
USUAL_ENTROPIES: Final = (0.12, 0.4)
#: The least entropy that a target is taken to have: of text that is nearly certain.
_LEAST_ENTROPY: Final = 0.005
#: A drafter is no better than this at temperature 0, and misses no less than half of what it misses
#: as measured: a target on which it would have to be better has less entropy.
_BEST_DRAFTER: Final = 0.95

#: Medusa's typical acceptance: the least probability. Its other bound, 0.3 exp(-entropy), is above
#: that where two tokens compete, whose entropy is at most ln 2.
_TYPICAL: Final = 0.09

# Positions by the gap between the two tokens that compete, in units of its mean, and noise of the
# drafter by quantiles.
_GAPS: Final = -np.log1p(-(np.arange(256) + 0.5) / 256)
_LOGIT_NOISE: Final = np.log((np.arange(32) + 0.5) / (31.5 - np.arange(32)))
#: Rates at temperature 0 for which rules are tabulated.
_RATES: Final = np.concatenate([[1e-6], np.linspace(0.0, 1.0, 65)[1:]])
_SPREADS: Final = np.geomspace(1e-4, 1e4, 400)


def _likely(gap: Array) -> Array:
    """Return the probability of a token over another, of their gap in nats."""
    return np.asarray(0.5 * (1.0 + np.tanh(gap / 2.0)))


def entropy_of_gap(mean_gap: npt.ArrayLike) -> Array:
    r"""Return the mean entropy of the target's next token, in nats, in the shape of the gaps.

    .. math:: H = E[h(\sigma(g))], \quad g \sim \mathrm{Exp}(\mu)

    with h the entropy of two outcomes; about :math:`\pi^2 / 6 \mu` where that is small.

    Parameters
    ----------
    mean_gap
        μ: how much likelier the first of two tokens is at temperature 1, as a logarithm; the mean
        over positions.

    Source
        `accepted_rates`.

    Examples
    --------
    >>> entropy_of_gap([100.0]).round(3)  # 3.1416 ** 2 / 600 = 0.016
    array([0.016])
    """
    gaps = np.multiply.outer(mean_gap, _GAPS)
    return np.asarray(np.mean(np.log1p(np.exp(-gaps)) + (1.0 - _likely(gaps)) * gaps, axis=-1))


@cache
def _entropies() -> tuple[Array, Array]:
    """Return mean gaps, ascending, and the entropies of targets that have them, in nats."""
    gaps = np.geomspace(0.02, 400.0, 800)
    return gaps, entropy_of_gap(gaps)


def gap_of_entropy(entropy: float) -> float:
    """Return the mean gap of a target whose next token has an entropy at temperature 1.

    Source
        `entropy_of_gap`, solved for the gap by interpolation.

    Examples
    --------
    >>> round(float(entropy_of_gap(gap_of_entropy(0.3))), 4)
    0.3
    """
    gaps, entropies = _entropies()
    return float(np.exp(np.interp(-entropy, -entropies, np.log(gaps))))


@lru_cache(maxsize=64)
def accepted_rates(mean_gap: float, temperature: float, rule: str) -> Array:
    r"""Return the rates at which drafts of drafters from bad to good are accepted.

    .. math:: p = \sigma(g / T), \quad q = \sigma((g + s \epsilon) / T), \quad
        a_{greedy} = c \, E[k p + (1 - k)(1 - p)], \quad a_{rejection} = c \, E[1 - |p - q|], \quad
        a_{exact} = c \, E[p q + (1 - p)(1 - q)]

    with :math:`g \sim \mathrm{Exp}(\mu)`, logistic noise :math:`\epsilon`, and
    :math:`k = \sigma(g / s)`, the probability that the drafter's first token is the target's.

    Parameters
    ----------
    mean_gap
        μ, of the target: see `gap_of_entropy`.
    temperature
        T, of the target and of sampled drafts.
    rule
        One of `RULES` but ``"lossy"``.

    Returns
    -------
    Array
        For each of 66 rates at temperature 0, 1e-6 to 1, where all rules agree. Of the misses
        there half (in logarithms) are close calls, by the noise s, and half tokens that the
        target never says: c. Below a quarter, all the noise there can be and c.

    Counts
        two tokens that compete at each position, by a gap that temperature divides.
    Ignores
        a tail of unlikely tokens, and samplers that cut it; that hard positions follow each other;
        that a longer draft may itself be sampled otherwise.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, definition 3.1 and corollary 3.6 (1 - TV);
        Cai et al. 2024, arXiv:2401.10774, section 2.3.1 (typical); two tokens and an exponential
        gap: the law of one number that fits eleven temperatures of llama.cpp pull request 27694
        within 3 points, where laws of 4 to 64 tokens do not fit better
        (tests/test_golden_sampling.py).

    Examples
    --------
    >>> rates = {rule: accepted_rates(4.0, 1.0, rule)[-14] for rule in ("rejection", "greedy")}
    >>> {rule: round(float(rate), 2) for rule, rate in rates.items()}  # of 0.8 at temperature 0
    {'rejection': 0.81, 'greedy': 0.74}
    """
    if temperature == 0.0:
        return _RATES
    close = np.maximum(np.sqrt(_RATES), 0.5)
    known = _RATES / close
    matches = np.mean(_likely(_GAPS / _SPREADS[:, None]), axis=-1)
    noise = mean_gap * np.exp(np.interp(-close, -matches, np.log(_SPREADS)))[:, None]
    gaps = mean_gap * _GAPS
    first = _likely(gaps / temperature)
    if rule in {"greedy", "typical"}:
        agrees = _likely(gaps / noise)
        taken, other = first, 1.0 - first
        if rule == "typical":
            taken, other = (np.where(one > _TYPICAL, 1.0, 0.0) for one in (taken, other))
        return np.asarray(known * np.mean(agrees * taken + (1.0 - agrees) * other, axis=1))
    drafted = _likely((gaps[:, None] + noise[..., None] * _LOGIT_NOISE) / temperature)
    likely = first[:, None]
    if rule == "rejection":
        shared = 1.0 - np.abs(likely - drafted)
    else:
        shared = likely * drafted + (1.0 - likely) * (1.0 - drafted)
    return np.asarray(known * np.mean(shared, axis=(1, 2)))


@dataclass(frozen=True, slots=True)
class _Moved:
    """The law of a curve that was measured under one sampling and is asked for under another."""

    curve: Acceptance
    mean_gap: float
    measured: tuple[float, str]
    asked: tuple[float, str]

    def __call__(self, _parameters: tuple[float, ...], depth: int) -> Array:
        rates = rates_of_survival(self.curve.survival(np.arange(1, depth + 1)))
        before, after = (
            accepted_rates(self.mean_gap, *sampling) for sampling in (self.measured, self.asked)
        )
        # What is measured above all that the law knows keeps the ratio of the best drafter.
        drafter = np.interp(rates, before, _RATES)
        ratio = np.interp(drafter, _RATES, after / before)
        return survival_of_rates(np.minimum(rates * ratio, 1.0))


def resampled_acceptance(
    acceptance: Acceptance,
    temperature: float | None = None,
    rule: str | None = None,
    *,
    kind: str = "",
) -> Acceptance:
    """Return a measured curve as it would be at another temperature, or under another rule.

    Parameters
    ----------
    acceptance
        A curve that states its `temperature`; without a `rule` it is of greedy drafts.
    temperature, rule
        What is asked for; None for as it was measured.
    kind
        Of the drafter. One that looks drafts up samples none: rejection sampling and exact match
        keep as many of its drafts as of greedy ones.

    Counts
        every conditional rate by itself, for a drafter of the quality that it says; the band is
        between targets of little and of much entropy, unless the curve states one. A curve that
        was moved already is moved anew from what was measured, also where only its entropy is new.
    Ignores
        temperatures above 1, where nothing was measured; lossy rules, which only a measurement
        knows; what a temperature does to those curves of `between` that state none.
    Source
        `accepted_rates`.

    Raises
    ------
    OptionError
        For a temperature below 0, an unknown rule, a curve that states no temperature, and from or
        to a lossy rule.

    Examples
    --------
    >>> from specroof import constant_acceptance
    >>> greedy = replace(constant_acceptance(0.8), temperature=0.0)
    >>> resampled_acceptance(greedy, 1.0).survival(1).round(2)  # of 0.8
    np.float64(0.78)
    """
    if temperature is not None:
        temperature = number_within("temperature", temperature, "temperature")
    if rule is not None:
        expect_word("rule", rule, RULES)
    measured_rule = acceptance.rule or USUAL_RULE
    asked_rule = rule or measured_rule
    asked = acceptance.temperature if temperature is None else temperature
    curve = acceptance.law.curve if isinstance(acceptance.law, _Moved) else acceptance
    is_new_entropy = acceptance.entropy != curve.entropy  # stated after a move
    is_as_measured = (asked, asked_rule) == (acceptance.temperature, measured_rule)
    # Of no draft nothing can be moved.
    if (is_as_measured and not is_new_entropy) or acceptance.max_draft_len == 0:
        return acceptance
    # A draft that is looked up has all probability.
    before_law, law = (
        USUAL_RULE if kind in LOOKUPS and each in {"rejection", "exact"} else each
        for each in (measured_rule, asked_rule)
    )
    if (asked, law) == (acceptance.temperature, before_law) and not is_new_entropy:
        return replace(acceptance, rule=asked_rule)
    if curve is not acceptance:
        since = acceptance.caveats[len(curve.caveats) + 1 :]  # the first is the move's own
        as_measured = replace(curve, entropy=acceptance.entropy, caveats=(*curve.caveats, *since))
        return resampled_acceptance(as_measured, asked, asked_rule, kind=kind)
    if "lossy" in {measured_rule, asked_rule}:
        reject(
            f"rule is {asked_rule!r} for an acceptance measured with rule {measured_rule!r}",
            "a measurement with that rule at that temperature",
        )
    if acceptance.temperature is None or asked is None:
        reject(
            "the acceptance states no temperature",
            "temperature= in its SPEC: what it was measured at, from which it is moved",
        )
    if asked == acceptance.temperature == 0:  # one token has all probability: every rule keeps it
        return replace(acceptance, rule=asked_rule)
    measured, wanted = (acceptance.temperature, before_law), (asked, law)
    if acceptance.entropy is not None:
        entropies: tuple[float, ...] = (acceptance.entropy,)
    else:
        low, most = USUAL_ENTROPIES[0], _most_entropy(acceptance, measured)
        middle = min(USUAL_ENTROPY, most)
        # A draft that usual targets would not accept so often. What there is in the middle is a
        # choice of this library: it joins that of usual targets, and falls as the text is surer.
        if most <= low:
            low, middle = _LEAST_ENTROPY, most * math.sqrt(most / low)
        entropies = (max(middle, low), low, most)
    bare = replace(acceptance, between=())
    moved, *ends = (
        replace(
            bare,
            law=_Moved(acceptance, gap_of_entropy(entropy), measured, wanted),
            parameters=(),
            temperature=asked,
            rule=asked_rule,
        )
        for entropy in entropies
    )
    depth = acceptance.measured_depth or acceptance.max_draft_len or 1
    before, after, *between = (
        float(curve.tokens_per_round(depth)) for curve in (acceptance, moved, *ends)
    )
    others = [
        end
        for curve in acceptance.between
        for moved_end in [
            curve
            if curve.temperature is None
            else resampled_acceptance(curve, temperature, rule, kind=kind)
        ]
        for end in (moved_end, *moved_end.between)
    ]
    how_sure = (
        f"{min(between):.2f} to {max(between):.2f} by the target's entropy, which is not stated"
        if between
        else f"of entropy {entropies[0]:g}"
    )
    said = (
        f"acceptance was measured at {_spelt(measured)} and is asked for at "
        f"{_spelt((asked, asked_rule))}: {before:.2f} tokens per round of {depth} "
        f"draft{'s' * (depth > 1)} become {after:.2f} ({how_sure})"
        f"{'; above temperature 1 nothing was measured' * (max(asked, acceptance.temperature) > 1)}"
    )
    return replace(
        moved,
        between=(*ends, *others),
        description=f"{acceptance.description}, moved to {_spelt((asked, asked_rule))}",
        caveats=(*acceptance.caveats, Urgent(said)),
    )


def acceptance_at_entropy(
    acceptance: Acceptance, measured_entropy: float, entropy: float, *, kind: str = ""
) -> Acceptance:
    r"""Return a measured curve as it would be with a target of another entropy.

    Parameters
    ----------
    acceptance
        A curve that states its `temperature`.
    measured_entropy, entropy
        Of the target's next token at temperature 1, in nats: as the curve was measured, and now.
    kind
        Of the drafter, as `resampled_acceptance` has it.

    Counts
        a gap that grows between the two tokens that compete as a temperature that falls by as much,
        :math:`T' = T \mu / \mu'`: in `accepted_rates` the two are one.
    Ignores
        that what the target now says is new to the drafter.

    Raises
    ------
    OptionError
        For a curve that states no temperature, and for an entropy far above the measured one.

    Source
        `accepted_rates`; greedy drafts of MTP layers fall linearly with the entropy, as
        arXiv:2606.12370 has it (tests/test_golden_sampling.py).

    Examples
    --------
    >>> from specroof import constant_acceptance
    >>> known = replace(constant_acceptance(0.7), temperature=1.0)
    >>> [
    ...     acceptance_at_entropy(known, 0.3, entropy).survival(1).round(2).item()
    ...     for entropy in (0.3, 0.2, 0.1)
    ... ]
    [0.7, 0.73, 0.74]
    """
    if acceptance.temperature is None:
        reject("the acceptance states no temperature", "temperature= in its SPEC")
    ratio = gap_of_entropy(measured_entropy) / gap_of_entropy(entropy)
    temperature = acceptance.temperature * ratio
    if temperature > BOUNDS["temperature"].most:
        refuse("entropy", entropy, f"nearer to the {measured_entropy:g} of the measurement")
    stated = replace(acceptance, entropy=measured_entropy)
    return resampled_acceptance(stated, temperature, kind=kind)


def _most_entropy(acceptance: Acceptance, measured: tuple[float, str]) -> float:
    """Return the largest entropy of a target with which a measured first rate is possible."""
    rate = float(acceptance.survival(1))
    best = max(_BEST_DRAFTER, (1 + rate) / 2)
    entropies: list[float] = np.geomspace(USUAL_ENTROPIES[1], _LEAST_ENTROPY, 257).tolist()

    def is_possible(entropy: float) -> bool:
        rates = accepted_rates(gap_of_entropy(entropy), *measured)
        return bool(np.interp(rate, rates, _RATES) <= best)

    return entropies[bisect_left(entropies[:-1], True, key=is_possible)]


def _spelt(sampling: tuple[float, str]) -> str:
    temperature, rule = sampling
    return f"temperature {temperature:g}{f' ({rule})' if temperature else ''}"
