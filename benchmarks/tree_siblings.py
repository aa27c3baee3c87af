"""What siblings of a tree are accepted: the figure `specroof.drafters.trees.SIBLING_SHARE`.

EAGLE-3 drafters were measured with trees of 16 and of 60 positions, for the same models and tasks.
Each pair says how much more the larger tree commits: the acceptance of the first children is solved
for from the small tree, all depths alike, and the share of the siblings is the one with which the
large trees are predicted best, in least squares. Prints the share and its error, beside those of
other shares.

Trees with as few drafts as levels (SpecBundle: 5 drafts in 5 levels, top-k 3) commit less than
chains of the same drafters. No share says so: the best tree is never worse than its chain.
"""

import argparse
import csv
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from specroof import constant_acceptance
from specroof.drafters.trees import dynamic_tree, tree_proposals

Floats = npt.NDArray[np.float64]

LEVELS, TOP_K = 7, 10
#: Drafts of the trees: positions without the root.
SMALL, LARGE = 15, 59
RATES = np.linspace(0.3, 0.9, 61)
#: The shares of nine siblings together, of the first's.
HARMONIC = sum(1 / rank for rank in range(2, TOP_K + 1))


def tokens(share: float, nodes: int) -> Floats:
    """Return the tokens of a round at each of `RATES`, where child j has `share` / j."""
    siblings = [share / rank for rank in range(2, TOP_K + 1)]
    grow = partial(dynamic_tree, top_k=TOP_K, n_nodes=nodes)
    depth = np.array([LEVELS])
    return np.array(
        [
            tree_proposals(grow, siblings, constant_acceptance(rate), depth).tokens_per_round[0]
            for rate in RATES
        ]
    )


def errors(share: float, small: Floats, large: Floats) -> Floats:
    """Return predicted less measured tokens of the large trees."""
    rates = np.interp(small, tokens(share, SMALL), RATES)
    return np.interp(rates, RATES, tokens(share, LARGE)) - large


def main() -> None:
    """Print the share of siblings that the measured trees show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    path = Path(__file__).with_suffix(".csv")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    rows = [*csv.DictReader(lines)]
    small = np.array([float(row["tokens_16"]) for row in rows])
    large = np.array([float(row["tokens_60"]) for row in rows])
    shares = np.arange(0.05, 0.501, 0.01)
    found = {share: errors(share, small, large) for share in shares.tolist()}
    best = min(found, key=lambda share: float(np.mean(found[share] ** 2)))
    print(f"{len(rows)} pairs of trees; share {best:.2f}: of rounds whose first child is wrong,")
    print(f"the second is right in {best / 2:.0%}, one of nine in {best * HARMONIC:.0%}")
    for share in sorted({best, *list(found)[::5]}):
        off = found[share]
        rms = float(np.sqrt(np.mean(off**2)))
        print(f"share {share:.2f}: mean error {np.mean(off):+.3f} tokens, rms {rms:.3f}")


if __name__ == "__main__":
    main()
