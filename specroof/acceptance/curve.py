"""Acceptance of drafts as a survival curve: what makes one, and how it depends on the context."""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.arrays import number_within, real_array, real_number
from specroof.errors import Urgent, refuse, reject
from specroof.units import HOLDS_80, Bounds

# --- What the constructors of acceptance curves check, and how they refuse -----------------------

# What its functions do is checked where formulas call them; they are not formulas themselves.

#: A curve is tabulated up to the longest draft, which needs a bound.
LONGEST_DRAFT: Final = 1_000_000
DRAFTS: Final = Bounds(1, LONGEST_DRAFT, whole=True)
PROBABILITY: Final = "a number from 0 to 1"


def draft_lengths(draft_len: ArrayLike) -> NDArray[np.intp]:
    """Return `draft_len` as an array of whole numbers, of any shape."""
    allowed = f"whole numbers from 0 to {LONGEST_DRAFT}"
    lengths = real_array(draft_len)
    if lengths is None:
        refuse("draft_len", draft_len, allowed)
    fitting = (lengths >= 0) & (lengths <= LONGEST_DRAFT) & (lengths == np.floor(lengths))
    if not np.all(fitting):
        refuse("draft_len", lengths[~fitting].flat[0], allowed)
    return lengths.astype(np.intp)


def numbers_from(name: str, values: object, high: float, allowed: str) -> tuple[float, ...]:
    """Return `values` as floats, each finite and from 0 to `high`."""
    # Sets and mappings are iterable too, but have no positions.
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping, AbstractSet)):
        refuse(name, values, f"a list, each {allowed}")
    try:
        entries = tuple(islice(values, LONGEST_DRAFT + 1))  # an iterator need not end
    except TypeError:  # an array without an axis calls itself iterable
        refuse(name, values, f"a list, each {allowed}")
    if not entries:
        reject(f"{name} is empty", f"at least one entry, each {allowed}")
    if len(entries) > LONGEST_DRAFT:
        refuse(name, values, f"at most {LONGEST_DRAFT} entries, each {allowed}")
    return tuple(
        number_from(f"{name}[{index}]", entry, 0.0, high, allowed)
        for index, entry in enumerate(entries)
    )


def number_from(name: str, value: object, low: float, high: float, allowed: str) -> float:
    """Return `value` as a float, finite and from `low` to `high`."""
    number = real_number(value)
    if not (math.isfinite(number) and low <= number <= high):
        refuse(name, value, allowed)
    return number + 0.0  # a zero without a sign


def length_of(name: str, value: object, drafts: int, called: str) -> float:
    """Return an acceptance length, refused unless `drafts` drafts (named `called`) can have it."""
    allowed = f"a number from 1 to {drafts + 1} ({called} + 1: the bonus token counts)"
    return number_from(name, value, 1.0, drafts + 1.0, allowed)


def some(values: tuple[float, ...]) -> str:
    """Return the first few of `values`, for a line that people read."""
    if len(values) <= 4:
        return ", ".join(f"{value:g}" for value in values)
    return ", ".join(f"{value:g}" for value in values[:3]) + f", … ({len(values)} values)"


#: How a target decides whether it takes a draft, and with which probability it does.
RULES: Final[Mapping[str, str]] = {
    "greedy": "the drafter's most likely token, with the probability that the target gives it",
    "rejection": "a sampled draft by rejection sampling: 1 less the total variation distance",
    "exact": "a sampled draft, where the target happens to sample the same token",
    "typical": "the drafter's most likely token, where the target finds it likely enough",
    "lossy": "by a rule that is known by its own measurement alone, such as FLy's",
}
#: Rules whose outputs differ from what the target says alone.
LOSSY: Final = ("typical", "lossy")

#: Fewer counted rounds than these leave tokens per round open by some 4% and more.
_FEW_ROUNDS: Final = 200

Law = Callable[[tuple[Any, ...], int], NDArray[np.float64]]


@dataclass(frozen=True)
class Acceptance:
    r"""How far the drafts of one round survive verification.

    Made by :func:`constant_acceptance` and its siblings, which check what they are given.

    .. math:: s_d = P(\text{accepted} \ge d), \quad N(\gamma) = 1 + \sum_{d=1}^{\gamma} s_d

    Counts
        a run of accepted drafts from the first position on, and in N the bonus token that the
        target's own pass adds to every round, whatever was accepted.
    Ignores
        that a longer draft may change the drafts before it, and that the last round of a request
        may commit more than it needs: about half a round of tokens per request.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1 and equation 1, for any curve.

    Attributes
    ----------
    description : str
        One line for people.
    max_draft_len : int or None
        The longest draft the curve knows about, past which it is NaN; None where it has no end.
    law, parameters
        A function that returns s_0 … s_depth, and the numbers it takes beside the
        depth. Plain data, so that curves compare, hash and pickle.
    measured_on : str or None
        The model whose drafts were measured, where the curve comes from a profile: acceptance
        does not carry over from one model to another.
    measured_depth : int or None
        The longest draft that was measured; None where a law is given and nothing was measured.
        Beyond it, the curve is what its law says, and no draft is chosen.
    spread : tuple of float
        How far logarithms of tokens per round may lie from the curve, within the measured depth
        and beyond, for each unit of the logarithm of the ratio of depths; see `band`.
    caveats : tuple of str
        What to know before using the curve: a sentence each.
    temperature, rule, entropy : float, str and float, or None
        How drafts were sampled and accepted (`specroof.acceptance.RULES`), and the entropy
        of the target's next token at temperature 1; None where nobody says.
    accuracy : str or None
        Of answers with these drafts, as it was measured.
    n_rounds : float or None
        Rounds that were counted; None where nobody says.
    between : tuple of Acceptance
        Curves that this one may as well be: of targets of other entropy, where it was moved to
        another temperature; of other texts, where it stands for all that were measured.
    """

    description: str
    max_draft_len: int | None
    law: Law = field(repr=False)
    parameters: tuple[float, ...] = field(repr=False)
    measured_on: str | None = field(default=None, repr=False)
    measured_depth: int | None = field(default=None, repr=False)
    spread: tuple[float, float] = field(default=(0.0, 0.0), repr=False)
    caveats: tuple[str, ...] = field(default=(), repr=False)
    temperature: float | None = field(default=None, repr=False)
    rule: str | None = field(default=None, repr=False)
    entropy: float | None = field(default=None, repr=False)
    accuracy: str | None = field(default=None, repr=False)
    n_rounds: float | None = field(default=None, repr=False)
    between: "tuple[Acceptance, ...]" = field(default=(), repr=False)

    def survival(self, draft_len: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that the first `draft_len` drafts are all accepted.

        Examples
        --------
        >>> from specroof import constant_acceptance, survival_acceptance
        >>> constant_acceptance(0.5).survival([0, 1, 2, 3])
        array([1.   , 0.5  , 0.25 , 0.125])
        >>> survival_acceptance([0.9, 0.6]).survival([2, 3])
        array([0.6, nan])
        """
        lengths = draft_lengths(draft_len)
        return np.asarray(self._survival_table(lengths)[lengths])

    def tokens_per_round(self, draft_len: ArrayLike) -> NDArray[np.float64]:
        """Return the expected tokens committed per sequence and round, bonus token included.

        Examples
        --------
        >>> from specroof import constant_acceptance, survival_acceptance
        >>> constant_acceptance(0.5).tokens_per_round([0, 1, 2, 3])  # 1 + 1/2 + 1/4 + 1/8
        array([1.   , 1.5  , 1.75 , 1.875])
        >>> survival_acceptance([0.9, 0.6]).tokens_per_round([2, 3])  # 1 + 0.9 + 0.6
        array([2.5, nan])
        """
        return np.asarray(1.0 + self.accepted_tokens(draft_len))

    def accepted_tokens(self, draft_len: ArrayLike) -> NDArray[np.float64]:
        """Return the expected number of accepted drafts: `tokens_per_round` less the bonus token.

        Examples
        --------
        >>> from specroof import constant_acceptance, survival_acceptance
        >>> constant_acceptance(0.5).accepted_tokens([0, 1, 2, 3])  # 1/2 + 1/4 + 1/8
        array([0.   , 0.5  , 0.75 , 0.875])
        """
        lengths = draft_lengths(draft_len)
        drafts = self._survival_table(lengths)
        drafts[0] = 0.0  # s_0 is certain, not a draft
        # Adding terms up, never (1 - α^γ) / (1 - α), which cancels where α is near 1.
        return np.asarray(np.cumsum(drafts)[lengths])

    def band(self, draft_len: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return the low and the high end of tokens per round, between which 80% of drafters lie.

        .. math:: N_{\pm}(\gamma) = N(\gamma) \, e^{\pm u}, \quad
            u^2 = \left(w \ln\frac{\gamma}{\gamma_0}\right)^2 + \frac{z^2 \sigma^2}{n N^2}, \quad
            \sigma^2 = \sum_{d=1}^{\gamma} (2 d - 1) s_d - (N - 1)^2

        with w of `spread` and γ_0 the measured depth, where the first term is 0; σ the deviation
        of the accepted drafts of one round, n the counted rounds, and z = 1.28, of 80% of a normal
        law. For σ half a round is added each way to those that s counts: rounds that were all
        alike leave an error, too. Both ends stay from 1 to γ + 1.

        Counts
            what a measured length leaves open at other depths, the curves of `between`, and the
            error of counted rounds.
        Ignores
            that rounds of one text are alike, which makes their error larger.
        Source
            Profiles of models that were left out, `specroof.acceptance.typical.SHAPES`; the error
            of a mean, with the second moment of a tail distribution; Jeffreys 1946, Proc. R. Soc. A
            186, 453, of the half rounds.

        Examples
        --------
        >>> from dataclasses import replace
        >>> from specroof import constant_acceptance
        >>> half = replace(constant_acceptance(0.5), measured_depth=1, spread=(0.0, 0.1))
        >>> half.band([1, 2])  # 1.75 / 2 ** 0.1 and 1.75 * 2 ** 0.1
        (array([1.5       , 1.63280774]), array([1.5       , 1.87560356]))
        >>> replace(half, n_rounds=64).band([1])[1].round(4)  # 1.5 * exp(1.2816 * 0.5 / 8 / 1.5)
        array([1.5823])
        """
        lengths = draft_lengths(draft_len)
        expected = self.tokens_per_round(lengths)
        measured = self.max_draft_len if self.measured_depth is None else self.measured_depth
        ends = [curve.tokens_per_round(draft_len) for curve in self.between]
        low, high = np.minimum.reduce([expected, *ends]), np.maximum.reduce([expected, *ends])
        if not measured:
            return low, high
        ratio = np.log(np.maximum(lengths, 1) / measured)
        within, beyond = self.spread
        open_width = np.where(ratio > 0, beyond, within) * np.abs(ratio)
        width = np.exp(np.hypot(open_width, self._counting_width(lengths)))
        return np.maximum(low / width, 1.0), np.minimum(high * width, lengths + 1.0)

    def _counting_width(self, lengths: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the half-width of tokens per round, as a logarithm, that counted rounds leave."""
        if not self.n_rounds:
            return np.zeros(lengths.shape)
        survival = (self.n_rounds * self._survival_table(lengths) + 0.5) / (self.n_rounds + 1.0)
        survival[0] = 0.0
        moments = (2.0 * np.arange(len(survival)) - 1.0) * survival
        variance = np.cumsum(moments)[lengths] - np.cumsum(survival)[lengths] ** 2
        width = HOLDS_80 * np.sqrt(np.maximum(variance, 0.0) / self.n_rounds)
        return np.asarray(width / (1.0 + self.accepted_tokens(lengths)))

    def _survival_table(self, lengths: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return s_0, s_1, … up to the longest of `lengths`, NaN past the known depth."""
        longest = int(lengths.max(initial=0))
        depth = longest if self.max_draft_len is None else min(longest, self.max_draft_len)
        table = np.full(longest + 1, np.nan)
        table[: depth + 1] = self.law(self.parameters, depth)
        return table


def acceptance_notes(acceptance: object, model: str) -> list[str]:
    """Return what to know about an acceptance: its caveats, another model, outputs that differ.

    Parameters
    ----------
    acceptance
        Anything; only what a profile gave knows its model.
    model
        A name of the target: ``NAME``, ``ORG/NAME`` or the path of its config.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from specroof import constant_acceptance
    >>> profile = replace(constant_acceptance(0.8), measured_on="Qwen3-8B")
    >>> (
    ...     acceptance_notes(profile, "Qwen/Qwen3-8B"),
    ...     acceptance_notes(constant_acceptance(0.8), "x"),
    ... )
    ([], [])
    >>> acceptance_notes(replace(profile, measured_on="Qwen/Qwen3-8B"), "Qwen3-8B")
    []
    >>> acceptance_notes(profile, "Llama-3.1-8B")
    ['acceptance was measured on Qwen3-8B, and the target is Llama-3.1-8B']
    """
    if not isinstance(acceptance, Acceptance):
        return []
    caveats = list(acceptance.caveats)
    if (rule := acceptance.rule) in LOSSY:
        accuracy = acceptance.accuracy or "not stated"
        said = f"outputs differ from the target's (rule {rule}); accuracy as measured: {accuracy}"
        caveats.append(Urgent(said))
    if (n_rounds := acceptance.n_rounds) and n_rounds < _FEW_ROUNDS:
        said = f"acceptance was counted over {n_rounds:.0f} rounds only; bands are wider for it"
        caveats.append(said)
    measured_on = acceptance.measured_on
    if measured_on is None:
        return caveats
    # A config at a path is called after its folder or file, as in Qwen--Qwen3-8B.json.
    names, measured = (
        re.split(r"[/\\]|--", name.casefold().removesuffix(".json"))
        for name in (model, measured_on)
    )
    if measured[-1] in names:
        return caveats
    said = f"acceptance was measured on {measured_on}, and the target is {model}"
    return [*caveats, Urgent(said)]


# --- Curves from one rate, rates, lengths, a histogram, a spread ----------------------------------


def constant_acceptance(rate: float) -> Acceptance:
    r"""Return the curve of drafts that are each accepted with the same probability.

    .. math:: s_d = \alpha^d, \quad N = \frac{1 - \alpha^{\gamma+1}}{1 - \alpha}

    Counts
        drafts of equal quality at every position: `rate`, 0 to 1, is the probability that a draft
        is accepted, given that those before it were.
    Ignores
        that acceptance changes with depth and differs between sequences. A block drafter's
        measured tail (Doubleword 2026, "Adaptive speculative decoding") is heavier: s_15 = 0.051,
        where its s_1 = 0.772 would give 0.021.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, equation 1.

    Examples
    --------
    >>> constant_acceptance(0.75).tokens_per_round(2)  # 1 + 0.75 + 0.5625
    array(2.3125)
    >>> constant_acceptance(1).tokens_per_round(16)  # all 16 and the bonus token
    array(17.)
    """
    rate = number_from("rate", rate, 0.0, 1.0, PROBABILITY)
    description = f"constant acceptance {rate:g} per draft token"
    return Acceptance(description, None, constant_law, (rate,))


def rate_acceptance(rates: ArrayLike) -> Acceptance:
    r"""Return the curve of drafts whose acceptance differs by position.

    .. math:: s_d = \prod_{j=1}^{d} a_j

    Counts
        conditional rates, 0 to 1: a_j is the share of drafts accepted at position j = 1, 2, …
        among the rounds in which every draft before was accepted. The share among all rounds is
        what :func:`survival_acceptance` takes.
    Ignores
        positions past the last rate: the curve ends there.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, definition 3.1, one rate for each position.

    Examples
    --------
    >>> rate_acceptance([0.9, 0.8, 0.5]).survival([1, 2, 3])  # 0.9, 0.9 * 0.8, 0.72 * 0.5
    array([0.9 , 0.72, 0.36])
    >>> rate_acceptance([0.9, 0.8, 0.5]).tokens_per_round(3)  # 1 + 0.9 + 0.72 + 0.36
    array(2.98)
    """
    checked = numbers_from("rates", rates, 1.0, PROBABILITY)
    survival = tuple(survival_of_rates(checked)[1:].tolist())
    description = f"conditional acceptance {some(checked)} by position"
    return Acceptance(description, len(checked), listed_law, survival)


def survival_acceptance(survival: ArrayLike) -> Acceptance:
    r"""Return the curve that is given as it is.

    .. math:: s_d = P(\text{accepted} \ge d)

    Counts
        the share of all rounds whose first d drafts were accepted, d = 1, 2, …, so that none is
        above the one before. s_0 = 1 is not part of the list.
    Ignores
        positions past the last value: the curve ends there.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1, as a tail distribution.

    Examples
    --------
    >>> survival_acceptance([0.8, 0.6, 0.6]).tokens_per_round([1, 2, 3])
    array([1.8, 2.4, 3. ])
    """
    checked = numbers_from("survival", survival, 1.0, PROBABILITY)
    for index in range(1, len(checked)):
        if checked[index] > checked[index - 1]:
            reject(
                f"survival[{index}] is {checked[index]}, above {checked[index - 1]} before it",
                "values that never rise (conditional rates may rise, survival cannot)",
            )
    return Acceptance(f"survival {some(checked)} by depth", len(checked), listed_law, checked)


def histogram_acceptance(counts: ArrayLike) -> Acceptance:
    r"""Return the curve behind a histogram of accepted drafts.

    .. math:: s_d = \sum_{k \ge d} n_k \Big/ \sum_{k \ge 0} n_k

    Counts
        rounds with 0, 1, 2, … accepted drafts, up to the draft length of the measurement, where
        the curve ends. Shares of rounds serve as well; whole numbers are counted rounds, whose
        error widens the band.
    Ignores
        the bonus token: a round that commits it alone belongs into the first bin.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1, as a measured distribution.

    Examples
    --------
    >>> histogram_acceptance([1, 1, 2]).survival([0, 1, 2])  # 4/4, 3/4, 2/4
    array([1.  , 0.75, 0.5 ])
    >>> histogram_acceptance([1, 1, 2]).tokens_per_round(2)  # 1 + (0 + 1 + 2 + 2) / 4
    array(2.25)
    """
    checked = numbers_from("counts", counts, math.inf, "a number of rounds, not negative")
    with np.errstate(over="ignore"):
        at_least = np.cumsum(checked[::-1])[::-1]
    total = float(at_least[0])
    if not 0.0 < total < math.inf:
        reject(f"counts add up to {total}", "a finite sum above 0")
    survival = tuple((at_least[1:] / total).tolist())
    description = (
        f"histogram of 0 to {len(survival)} accepted drafts, mean {math.fsum(survival):.4g}"
    )
    n_rounds = total if total > 1.0 and all(count.is_integer() for count in checked) else None
    return Acceptance(description, len(survival), listed_law, survival, n_rounds=n_rounds)


def beta_acceptance(a: float, b: float) -> Acceptance:
    r"""Return the curve of sequences that differ in their constant rate.

    .. math:: \alpha \sim \mathrm{Beta}(a, b): \quad
        N(\gamma) = 1 \Big/ E\left[\frac{1}{n_\alpha(\gamma)}\right], \quad
        n_\alpha(\gamma) = 1 + \sum_{d=1}^{\gamma} \alpha^d, \quad s_d = N(d) - N(d-1)

    Counts
        sequences with answers of equal length: all tokens over all rounds, as engines count them.
        A hard sequence takes more rounds for its answer, so that this is less than the mean of
        n over sequences, and no more than n at the mean rate a / (a + b) (Jensen's inequality). a,
        b > 0; the larger a + b, the more alike the sequences.
    Ignores
        that the share of rounds that accept a draft depends on how many are made: s_d is what the
        d-th draft adds to the tokens of a round, up to 0.1 less than that share.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, equation 1, for each sequence; tokens over rounds
        is their harmonic mean.

    Examples
    --------
    >>> beta_acceptance(1, 1).tokens_per_round([1, 2])  # any rate is as likely: 1 / ln 2, 3 √3 / π
    array([1.44269504, 1.65398669])
    >>> constant_acceptance(0.5).tokens_per_round([1, 2])  # the same mean rate
    array([1.5 , 1.75])
    """
    smallest = math.ulp(0.0)
    a = number_from("a", a, smallest, math.inf, "a number above 0")
    b = number_from("b", b, smallest, math.inf, "a number above 0")
    with np.errstate(over="ignore"):  # odds of infinity are a rate of 0
        mean = 1.0 / (1.0 + np.divide(b, a))
    description = f"acceptance Beta({a:g}, {b:g}) over sequences, mean {mean:.4g}"
    return Acceptance(description, None, beta_law, (a, b))


def decay_acceptance(first_rate: float, last_rate: float, decay: float) -> Acceptance:
    r"""Return the curve of drafts whose rate runs from one value to another with depth.

    .. math:: a_j = a_\infty + (a_1 - a_\infty) \rho^{j-1}, \quad s_d = \prod_{j=1}^{d} a_j

    Parameters
    ----------
    first_rate, last_rate
        a_1 of the first draft, and a_∞ far along; the rates may fall or rise. From 0 to 1.
    decay
        ρ, 0 to 1: the share of the way that is left after each draft. 1 stays at `first_rate`.

    Counts
        drafters of several tokens at once, whose rates fall, and those of one at a time, whose
        rates stay or rise (Cheng et al. 2026, DSpark, figure 2).
    Ignores
        a dip: block drafters fall after the first draft and rise again (the DFlash of that figure:
        0.885, 0.820 at the third draft, 0.841 at the fifth), which leaves the law 0.02 off.
    Source
        a law of two rates and a ratio that fits such figures; no paper derives it.

    Raises
    ------
    OptionError
        For a number outside of 0 to 1.

    Examples
    --------
    >>> curve = decay_acceptance(0.8, 0.6, 0.5)  # rates 0.8, 0.7, 0.65
    >>> curve.survival([1, 2, 3])  # 0.8, 0.8 * 0.7, 0.56 * 0.65
    array([0.8  , 0.56 , 0.364])
    """
    first = number_from("first_rate", first_rate, 0.0, 1.0, PROBABILITY)
    last = number_from("last_rate", last_rate, 0.0, 1.0, PROBABILITY)
    ratio = number_from("decay", decay, 0.0, 1.0, PROBABILITY)
    description = (
        f"acceptance from {first:.4g} towards {last:.4g} per draft token, "
        f"{ratio:.4g} of the way left after each"
    )
    return Acceptance(description, None, decay_law, (first, last, ratio))


def lengths_acceptance(tokens_per_round: Mapping[int, float]) -> Acceptance:
    r"""Return the curve behind acceptance lengths measured at several draft lengths.

    .. math:: N(k) = 1 + \sum_{d=1}^{k} s_d \quad\Rightarrow\quad
        \bar s_{k' < d \le k} = \frac{N(k) - N(k')}{k - k'}

    Between two measured draft lengths the survival is the slope. Separate runs scatter: where
    a slope lies above the one before, which survival cannot, both become their average weighted
    by the depths they span (pool adjacent violators: the least squares solution).

    Parameters
    ----------
    tokens_per_round
        Acceptance length by number of drafts, bonus token included.

    Counts
        the bonus token, and drafts from 1 to the largest key, where the curve ends.
    Ignores
        the shape between two measured draft lengths; that a longer draft may change its first
        tokens; that after pooling a length may be missed (its size is in the description, and a
        caveat where it is more than runs scatter).
    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1, as a difference; pooling: Ayer et al.
        1955, Annals of Mathematical Statistics 26, 641.

    Raises
    ------
    OptionError
        For an empty mapping, drafts that are not whole numbers from 1 on, or a length that its
        drafts cannot give.

    Examples
    --------
    >>> lengths_acceptance({1: 1.8, 2: 2.4, 4: 3.0}).survival([1, 2, 3, 4])  # 0.6 over 2 drafts
    array([0.8, 0.6, 0.3, 0.3])
    >>> lengths_acceptance({1: 1.8, 2: 2.2, 3: 2.8}).survival([2, 3])  # 0.4 and 0.6 are pooled
    array([0.5, 0.5])
    """
    checked = _checked_lengths(tokens_per_round)
    steps = np.diff([0, *checked])
    slopes = np.diff([1.0, *checked.values()]) / steps
    pooled = np.clip(_pooled(slopes, steps.astype(np.float64)), 0.0, 1.0)
    survival = tuple(np.repeat(pooled, steps).tolist())
    fitted = 1.0 + np.cumsum(survival)
    misses = {k: abs(float(fitted[k - 1]) - length) for k, length in checked.items()}
    worst = max(misses, key=misses.__getitem__)
    description = (
        f"acceptance lengths at {', '.join(str(k) for k in checked)} drafts (bonus included), "
        f"met within {misses[worst]:.2g} tokens"
    )
    said = Urgent(
        f"no survival curve gives all measured lengths: of {worst} drafts {checked[worst]:.2f} tokens "
        f"per round were measured, and {fitted[worst - 1]:.2f} are counted"
    )
    caveats = (said,) if misses[worst] > _SCATTER else ()
    return Acceptance(description, len(survival), listed_law, survival, caveats=caveats)


#: Tokens per round that lengths of separate runs differ by: twice the noise that InferenceX states.
_SCATTER: Final = 0.1


def constant_law(parameters: tuple[Any, ...], depth: int) -> NDArray[np.float64]:
    """Return the powers of one rate, or of each of many on an axis before the last."""
    (rate,) = parameters
    return survival_of_rates(rate * np.ones(depth))


def listed_law(parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
    """Return the values of a list, s_0 = 1 before them."""
    return np.array([1.0, *parameters[:depth]])


def decay_law(parameters: tuple[Any, ...], depth: int) -> NDArray[np.float64]:
    """Return the survival of rates that run from the first to the last by powers of the decay."""
    first, last, ratio = parameters
    return survival_of_rates(last + (first - last) * ratio ** np.arange(depth))


def beta_law(parameters: tuple[Any, ...], depth: int) -> NDArray[np.float64]:
    r"""Return what each draft adds to the tokens of a round, of rates that follow a distribution.

    .. math:: N(d) - N(d-1) = N(d) \, N(d-1) \, E\left[\frac{\alpha^d}{n(d-1) \, n(d)}\right]
    """
    table, inverse = np.zeros(depth + 1), np.zeros(depth + 1)
    for rate, weight in zip(*beta_quadrature(*parameters), strict=True):
        survival = constant_law((rate,), depth)
        tokens = np.cumsum(survival)
        inverse += weight / tokens
        table[1:] += weight * survival[1:] / (tokens[:-1] * tokens[1:])
    table[1:] /= inverse[:-1] * inverse[1:]
    table[0] = 1.0
    return np.minimum(table, 1.0)  # but for rounding


#: Nodes of `beta_quadrature`: tokens of 16 drafts are exact to rounding, of 64 to 1e-9.
_NODES: Final = 24
#: The sum of a and b from which sequences are alike.
_ALIKE: Final = 1e12


def beta_quadrature(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return rates and weights whose sums are means over a beta distribution, on a last axis.

    Parameters
    ----------
    a, b
        Of the distribution, above 0; arrays broadcast.

    Source
        Golub and Welsch 1969, Mathematics of Computation 23, 221-230: Gauss quadrature from the
        recurrence of the Jacobi polynomials, whose weight the density is.

    Examples
    --------
    >>> rates, weights = beta_quadrature(2.0, 1.0)
    >>> round(float(weights @ rates), 12)  # a / (a + b)
    0.666666666667
    """
    pair = np.array(np.broadcast_arrays(a, b), dtype=np.float64)[..., None]
    hits, misses = pair / np.maximum(pair.max(axis=0) / _ALIKE, 1.0)
    k, total = np.arange(1, _NODES), hits + misses
    share, other = hits / total, misses / total
    # Diagonal and squared off-diagonal on the interval from -1 to 1.
    skew = (share - other) * (total - 2) / (2 * k + total) * (total / (2 * (k - 1) + total))
    first = 4 * share * other / (1 + total)
    k = k[1:]
    later = (
        (4 * k * (k + total - 2) / (2 * k + total - 2) ** 2)
        * ((k + hits - 1) / (2 * k + total - 1))
        * ((k + misses - 1) / (2 * k + total - 3))
    )
    matrix = np.zeros((*pair.shape[1:-1], _NODES, _NODES))
    place = np.arange(_NODES)
    matrix[..., place, place] = np.concatenate([share - other, skew], axis=-1)
    matrix[..., place[1:], place[:-1]] = np.sqrt(np.concatenate([first, later], axis=-1))
    values, vectors = np.linalg.eigh(matrix)  # of the lower triangle
    return np.clip((1.0 + values) / 2.0, 0.0, 1.0), vectors[..., 0, :] ** 2


def survival_of_rates(rates: ArrayLike) -> NDArray[np.float64]:
    """Return s_0 = 1 and the running products of conditional `rates`, along the last axis."""
    each = np.asarray(rates, dtype=np.float64)
    first = np.ones((*each.shape[:-1], 1))
    return np.cumprod(np.concatenate((first, each), axis=-1), axis=-1)


def rates_of_survival(survival: ArrayLike) -> NDArray[np.float64]:
    """Return the conditional rates behind s_1, s_2, …; 0 where nothing survives before.

    Examples
    --------
    >>> rates_of_survival([0.8, 0.4, 0.0, 0.0])
    array([0.8, 0.5, 0. , 0. ])
    """
    curve = np.asarray(survival, dtype=np.float64)
    before = np.concatenate(([1.0], curve[:-1]))
    return np.divide(curve, before, out=np.zeros_like(curve), where=before > 0.0)


def _checked_lengths(tokens_per_round: Mapping[int, float]) -> dict[int, float]:
    """Return the lengths by draft length, ascending, each within what its drafts can give."""
    given: object = tokens_per_round
    if not isinstance(given, Mapping) or not given:
        reject("tokens_per_round holds no lengths", "one or more, by number of drafts")
    checked: dict[int, float] = {}
    for drafts, length in tokens_per_round.items():
        count = int(number_within("a key of tokens_per_round", drafts, DRAFTS))
        checked[count] = length_of(f"tokens_per_round[{count}]", length, count, "drafts")
    return dict(sorted(checked.items()))


def _pooled(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the closest values (weighted least squares) that never rise."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, heavy, n = value, weight, 1
        while blocks and blocks[-1][0] < mean:
            other, other_weight, other_n = blocks.pop()
            mean = (mean * heavy + other * other_weight) / (heavy + other_weight)
            heavy, n = heavy + other_weight, n + other_n
        blocks.append((mean, heavy, n))
    return np.repeat([mean for mean, _, _ in blocks], [n for _, _, n in blocks])


# --- Acceptance that depends on the context: measured at several lengths, interpolated between ---

Known = TypeVar("Known")

_ALLOWED = "a number of cached tokens above 0"


@dataclass(frozen=True, slots=True)
class _Mixture:
    """The law of a curve between two others."""

    lower: Acceptance
    upper: Acceptance
    share: float

    def __call__(self, _parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
        depths = np.arange(depth + 1)
        below, above = self.lower.survival(depths), self.upper.survival(depths)
        return np.asarray((1.0 - self.share) * below + self.share * above)


@dataclass(frozen=True)
class ContextAcceptance:
    """Curves by context length.

    Attributes
    ----------
    contexts
        Cached tokens at which acceptance was measured, ascending.
    curves
        The curve at each of them.
    window, seen
        Of a drafter with one curve, the tokens that it was trained on, beyond which acceptance
        falls, and those that its attention sees; None where it sees all.
    """

    contexts: tuple[float, ...]
    curves: tuple[Acceptance, ...]
    window: float | None = None
    seen: float | None = None

    @property
    def max_draft_len(self) -> int | None:
        """The longest draft that every curve knows about; None without end."""
        return _shortest(curve.max_draft_len for curve in self.curves)

    @property
    def measured_depth(self) -> int | None:
        """The longest draft that was measured at every context; None where only laws are given."""
        return _shortest(curve.measured_depth for curve in self.curves)

    @property
    def description(self) -> str:
        """One line for people."""
        if self.window is not None:
            first = self.curves[0].description
            return f"of a drafter trained on {self.window:g} tokens: {first}"
        contexts = ", ".join(f"{context:g}" for context in self.contexts)
        return f"by context, measured at {contexts} tokens; first: {self.curves[0].description}"

    def at_context(self, context_len: float) -> Acceptance:
        r"""Return the curve at a context length; outside of what was measured it knows no draft.

        .. math:: s_d(S) = (1 - x) \, s_d(S_i) + x \, s_d(S_{i+1}), \quad
            x = \frac{\ln S - \ln S_i}{\ln S_{i+1} - \ln S_i}

        Counts
            every depth by itself. At a measured context the curve is the measured one.
        Ignores
            how acceptance runs between two measured contexts, a factor of two apart as a rule.
        Source
            A mixture of curves is a curve; its weight runs with the logarithm of the context, as
            published tables step (Chen et al. 2026, DFlash, arXiv:2602.06036, table 4).

        Examples
        --------
        >>> from specroof import constant_acceptance
        >>> by_context = context_acceptance(
        ...     {1024: constant_acceptance(0.8), 4096: constant_acceptance(0.6)}
        ... )
        >>> by_context.at_context(2048).survival(1)  # half way by the logarithm
        array(0.7)
        >>> by_context.at_context(8192).survival(1)
        array(nan)
        """
        if self.window is not None:
            return self._beyond(context_len, self.window)
        first, last = self.contexts[0], self.contexts[-1]
        if not first <= context_len <= last:
            caveat = (
                f"acceptance was measured at contexts from {first:g} to {last:g}: nothing is known "
                f"at {context_len:g}"
            )
            return replace(self.curves[0], max_draft_len=0, measured_depth=0, caveats=(caveat,))
        after = min(bisect_right(self.contexts, context_len), len(self.contexts) - 1)
        low, high = self.contexts[after - 1], self.contexts[after]
        below, above = self.curves[after - 1], self.curves[after]
        share = math.log(context_len / low) / math.log(high / low)
        if share in {0.0, 1.0}:
            return above if share else below
        return replace(
            below,
            description=f"between contexts {low:g} and {high:g}: {below.description}",
            max_draft_len=_shortest((below.max_draft_len, above.max_draft_len)),
            law=_Mixture(below, above, share),
            between=tuple(
                replace(low_end, law=_Mixture(low_end, high_end, share))
                for low_end, high_end in zip(below.between, above.between, strict=False)
            ),
            measured_depth=_shortest((below.measured_depth, above.measured_depth)),
            caveats=tuple(dict.fromkeys((*below.caveats, *above.caveats))),
        )

    def _beyond(self, context_len: float, window: float) -> Acceptance:
        (curve,) = self.curves
        seen = context_len if self.seen is None else min(context_len, self.seen)
        if seen <= window:
            return curve
        share = math.exp((1.0 - seen / window) / WINDOWS_TO_FALL)
        ends = [replace(end, law=_Scaled(end, share), parameters=()) for end in curve.between]
        said = (
            f"beyond the {window:g} tokens that the drafter was trained on acceptance is lower, here "
            "as measured of one EAGLE-3 on Qwen3-8B, to ten times its window"
        )
        return replace(
            curve,
            law=_Scaled(curve, share),
            parameters=(),
            between=tuple(ends),
            caveats=(*curve.caveats, Urgent(said)),
        )


@dataclass(frozen=True, slots=True)
class _Scaled:
    """The law of a curve of which a share of the drafts is left."""

    curve: Acceptance
    share: float

    def __call__(self, _parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
        survival = self.curve.survival(np.arange(depth + 1))
        return np.concatenate((survival[:1], self.share * survival[1:]))


#: Training windows beyond the first in which accepted drafts fall to 1/e: of an EAGLE-3 with full
#: attention, from 2 to 20 thousand tokens (vllm-project/speculators pull request 684), within 0.12
#: tokens per round.
WINDOWS_TO_FALL: Final = 3.7


def windowed_acceptance(
    acceptance: Acceptance, window: float, *, seen: float | None = None
) -> ContextAcceptance:
    r"""Return the acceptance of a drafter beyond the contexts that it was trained on.

    .. math:: s_d(S) = s_d \, e^{-(S / W - 1) / 3.7} \text{ for } S > W

    Parameters
    ----------
    acceptance
        As it was measured within the window.
    window
        W: the longest context that the drafter was trained on.
    seen
        Tokens that its attention sees (a sliding window), in the place of S; None for all.

    Counts
        one drafter's fall, at every depth alike. A drafter that sees no more than it was trained
        on keeps its acceptance, as a DFlash2 with sliding attention does to 170 thousand tokens.
    Ignores
        how positions are extended: a drafter trained on longer ones, or with scaled rotary
        embeddings, falls later.
    Source
        vllm-project/speculators pull request 684 (Qwen3-8B, longbench-v2): 2.30 tokens per round
        at 2 thousand tokens, 1.08 at 20 thousand.

    Raises
    ------
    OptionError
        For a window that is not a number from 1 on.

    Examples
    --------
    >>> curve = windowed_acceptance(constant_acceptance(0.5), 1000)
    >>> curve.at_context(1000).survival(1), curve.at_context(4700).survival(1).round(4)  # 0.5 / e
    (array(0.5), np.float64(0.1839))
    """
    window = number_from("window", window, 1.0, math.inf, "a number of tokens from 1 on")
    return ContextAcceptance((window,), (acceptance,), window, seen)


def context_acceptance(curves: Mapping[float, Acceptance]) -> ContextAcceptance:
    """Return acceptance that depends on the context, from curves measured at several.

    Parameters
    ----------
    curves
        Two or more, by the number of cached tokens at which each was measured.

    Counts
        what lies between the measured contexts; see `ContextAcceptance.at_context`.
    Ignores
        everything outside of them: nothing is extended.
    Source
        Its method `at_context` names it.

    Raises
    ------
    OptionError
        For fewer than two curves, or a context that is not a number above 0.

    Examples
    --------
    >>> from specroof import constant_acceptance
    >>> by_context = context_acceptance(
    ...     {16384: constant_acceptance(0.6), 1024: constant_acceptance(0.8)}
    ... )
    >>> by_context.contexts
    (1024.0, 16384.0)
    """
    given: object = curves
    if not isinstance(given, Mapping) or len(given) < 2:
        reject("curves holds fewer than two contexts", "two or more, by number of tokens")
    smallest = math.ulp(0.0)
    checked = {
        number_from("a key of curves", context, smallest, math.inf, _ALLOWED): curve
        for context, curve in curves.items()
    }
    ordered = dict(sorted(checked.items()))
    return ContextAcceptance(tuple(ordered), tuple(ordered.values()))


def accepted_at(acceptance: Known | ContextAcceptance, context_len: float) -> Known | Acceptance:
    """Return what is accepted at a context length; what knows no contexts is the same at all.

    Parameters
    ----------
    acceptance
        A curve, or one for each context.
    context_len
        Cached tokens.

    Source
        `ContextAcceptance.at_context`.

    Examples
    --------
    >>> from specroof import constant_acceptance
    >>> accepted_at(constant_acceptance(0.5), 4096).survival(1)
    array(0.5)
    """
    if isinstance(acceptance, ContextAcceptance):
        return acceptance.at_context(context_len)
    return acceptance


def each_curve(
    acceptance: Acceptance | ContextAcceptance, change: Callable[[Acceptance], Acceptance]
) -> Acceptance | ContextAcceptance:
    """Return acceptance with a change to its curve, or to that of every context.

    Source
        `ContextAcceptance`, whose curves these are.

    Examples
    --------
    >>> from specroof import constant_acceptance
    >>> each_curve(constant_acceptance(0.5), lambda curve: replace(curve, max_draft_len=2))
    Acceptance(description='constant acceptance 0.5 per draft token', max_draft_len=2)
    """
    if isinstance(acceptance, ContextAcceptance):
        return replace(acceptance, curves=tuple(change(curve) for curve in acceptance.curves))
    return change(acceptance)


def _shortest(depths: Iterable[int | None]) -> int | None:
    return min((depth for depth in depths if depth is not None), default=None)
