"""How acceptance goes on with depth: the table `specroof.acceptance.typical.SHAPES`, and its error.

Every bundled profile that has lengths at several depths says which power of the position its odds
of acceptance fall with: the least squares of log N at each depth, given N at each shallower one.
A family's power is the median of its profiles, held near the median of all as by 30 profiles more:
families differ less than models do. Its spread is what 80% of profiles keep to, predicted from
profiles of other models, in units of the logarithm of the ratio of depths. Prints the table, and
errors, every profile counting the same, beside those of a constant rate. Last come the laws by
which acceptance by position goes on past the deepest one counted, from three on, and from one.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize.elementwise import find_root

from specroof import extrapolated_acceptance, load_profiles, survival_acceptance
from specroof.acceptance.law_fits import EXTRAPOLATIONS
from specroof.acceptance.typical import falling_odds_rates

Floats = npt.NDArray[np.float64]
Pair = tuple[int, int, float, float]

#: Powers that are tried.
POWERS = np.linspace(-5.0, 5.0, 1001)
#: Rounds with fewer than this share of tokens to gain, or to lose, say nothing of the shape.
MARGIN = 0.001
DEEPEST = 15
LOOKUP = "ngram"
#: Profiles that the median of all counts for.
HELD_BY = 30


@dataclass(frozen=True)
class Known:
    """Tokens per round by draft length, of one drafter for one model."""

    family: str
    model: str
    lengths: dict[int, float]

    def pairs(self) -> Iterator[Pair]:
        """Yield two depths and their lengths; the first is what is given."""
        for a, given in self.lengths.items():
            if a < 2 or not 1 + MARGIN < given < a + 1 - MARGIN:
                continue
            for b, other in self.lengths.items():
                if a != b:
                    yield a, b, given, other


def known() -> list[Known]:
    """Return the profiles that know more than one depth."""
    found = []
    for one in load_profiles():
        survived = 1 + np.cumsum(one.survival)
        lengths = dict(enumerate(survived.tolist(), start=1)) or dict(one.lengths)
        lengths = {depth: length for depth, length in lengths.items() if depth <= DEEPEST}
        if len(lengths) > 1 and one.drafter_family:
            found.append(Known(one.drafter_family, one.model, lengths))
    return found


def lengths_of(given: float, a: int, b: int, powers: Floats) -> Floats:
    """Return tokens per round at depth b of curves that have `given` at depth a."""
    found = find_root(
        lambda first, power: accepted(first, power, a) + 1 - given, (0.0, 1.0), args=(powers,)
    )
    return 1 + accepted(found.x, powers, b)


def accepted(first: Floats, powers: Floats, depth: int) -> Floats:
    rates = falling_odds_rates(first, powers, depth)
    return np.asarray(np.cumprod(rates, axis=-1).sum(axis=-1))


def own_power(one: Known) -> float:
    """Return the power that predicts a profile's deeper lengths from its shallower ones."""
    squares = np.zeros_like(POWERS)
    for a, b, given, other in one.pairs():
        if b > a:
            squares += np.log(lengths_of(given, a, b, POWERS) / other) ** 2
    return float(POWERS[np.argmin(squares)])


def errors(one: Known, power: float) -> list[tuple[float, float]]:
    """Return for each pair the logarithm of the ratio of depths, and of predicted to measured."""
    powers = np.array([power])
    return [
        (float(np.log(b / a)), float(np.log(lengths_of(given, a, b, powers)[0] / other)))
        for a, b, given, other in one.pairs()
    ]


def held_power(family: str, profiles: list[tuple[Known, float]]) -> float:
    """Return the median power of a family, held near that of all; look-ups stand alone."""
    own = [power for one, power in profiles if one.family == family]
    if family == LOOKUP:
        return float(np.median(own))
    all_of_them = float(np.median([power for one, power in profiles if one.family != LOOKUP]))
    if not own:
        return all_of_them
    n = len(own)
    return float((n * np.median(own) + HELD_BY * all_of_them) / (n + HELD_BY))


def spread(found: list[tuple[float, float]]) -> float:
    return float(np.quantile([abs(error / far) for far, error in found], 0.8))


def summary(law: str, where: str, found: list[list[tuple[float, float]]]) -> None:
    """Print the mean error, every profile counting the same."""
    parts = [[off for far, off in one if (far > 0) == (where == "beyond")] for one in found]
    parts = [part for part in parts if part]
    size = np.mean([np.mean(np.abs(part)) for part in parts])
    bias = np.mean([np.mean(part) for part in parts])
    print(f"{law:>9} {where}: {len(parts)} profiles, {size:.2%} off, bias {bias:+.2%}")


def continued(law: str, least: int) -> list[list[tuple[float, float]]]:
    """Return the errors of a law at each depth past the first ones of each profile, as `errors`."""
    found = []
    for one in load_profiles():
        survival = one.survival[:DEEPEST]
        pairs = []
        for a in range(least, len(survival)):
            curve = extrapolated_acceptance(survival_acceptance(survival[:a]), law)
            for b in range(a + 1, len(survival) + 1):
                off = np.log(curve.tokens_per_round(b) / (1 + sum(survival[:b])))
                pairs.append((float(np.log(b / a)), float(off)))
        if pairs and one.drafter_family not in {"", LOOKUP}:
            found.append(pairs)
    return found


def main() -> None:
    """Print the table and the errors."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    powers = [(one, own_power(one)) for one in known()]
    left_out: dict[str, list[list[tuple[float, float]]]] = {}
    constant = []
    for one, _ in powers:
        others = [(other, power) for other, power in powers if other.model != one.model]
        if one.family == LOOKUP:  # all of one model
            others = [(other, power) for other, power in powers if other is not one]
        left_out.setdefault(one.family, []).append(errors(one, held_power(one.family, others)))
        if one.family != LOOKUP:
            constant.append(errors(one, 0.0))
    typical = [one for family, found in left_out.items() if family != LOOKUP for one in found]
    for family, found in {**left_out, "": typical}.items():
        pairs = [pair for one in found for pair in one]
        beyond = spread([pair for pair in pairs if pair[0] > 0])
        within = spread([pair for pair in pairs if pair[0] < 0])
        power = held_power(family, powers)
        print(f'    "{family}": Shape({power:.2f}, {beyond:.3f}, {within:.3f}, {len(found)}),')
    for where in ("beyond", "within"):
        summary("typical", where, typical)
        summary("constant", where, constant)
    for law in EXTRAPOLATIONS:
        summary(law, "beyond", continued(law, least=3))
    summary("geometric", "beyond", continued("geometric", least=1))


if __name__ == "__main__":
    main()
