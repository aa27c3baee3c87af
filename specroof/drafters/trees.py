"""Trees of drafts: what they commit, which one is best, and what they cost to make.

A tree is the set of its nodes, each named by the ranks of the children on the way to it: ``(0,)``
is the first draft of a chain, ``(0, 0)`` the one behind it, ``(0, 1)`` its second choice. A chain
is the tree of width one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specroof.acceptance.laws import rates_of_survival
from specroof.arrays import Array
from specroof.drafters.base import Counts, Drafter, Proposals, TokensPerRound
from specroof.errors import reject

#: A node by the ranks on the way to it.
Node = tuple[int, ...]
#: For each depth, the probabilities that the first, second, … child is the one accepted, given
#: that its parent was.
Rates = Sequence[Sequence[float]]

_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of drafts, and the passes that make it.

    Parameters
    ----------
    nodes
        Its drafts; with each its parent and its elder siblings.
    widths
        Positions of each pass behind the first one: the nodes of a level that are expanded.
    """

    nodes: frozenset[Node]
    widths: tuple[int, ...]


#: From the rates of as many depths as the draft is long, to the tree.
Grow = Callable[[Rates], Tree]


def tree_tokens(nodes: Iterable[Node], rates: Rates) -> float:
    r"""Return the expected tokens of a round whose drafts are a tree, bonus token included.

    .. math:: N = 1 + \sum_{v} \prod_{d} p_{d, r_d(v)}

    Parameters
    ----------
    nodes
        The drafts.
    rates
        p: by depth, then by rank among siblings.

    Source
        Chen et al. 2024 (Sequoia), arXiv:2402.12374, section 4.1; Miao et al. 2023 (SpecInfer),
        arXiv:2305.09781.

    Examples
    --------
    >>> two_children = [(0,), (1,), (0, 0)]
    >>> tree_tokens(two_children, [[0.5, 0.25], [0.5, 0.25]])  # 1 + 1/2 + 1/4 + 1/2 * 1/2
    2.0
    """
    # Rounded once: a node more never makes the sum smaller, in whatever order a set has them.
    return math.fsum([1.0, *(path_rate(node, rates) for node in nodes)])


def path_rate(node: Node, rates: Rates) -> float:
    """Return the probability that a node is accepted: the product of the rates on the way."""
    product = 1.0
    for depth, rank in enumerate(node):
        product *= rates[depth][rank]
    return product


def branch_rates(
    tokens: TokensPerRound, depth: int, siblings: Sequence[float]
) -> list[list[float]]:
    r"""Return the acceptance of the first, second, … child at each depth.

    .. math:: p_{d,1} = s_d / s_{d-1}, \quad p_{d,j} = (1 - p_{d,1}) \, q_j

    Parameters
    ----------
    tokens
        Acceptance of a chain, which the first children are.
    depth
        Depths wanted.
    siblings
        q: of the rounds in which the first child is wrong, the share in which the second, third, …
        is right.

    Source
        Positional acceptance of Sequoia, arXiv:2402.12374, section 4.1, by depth.

    Examples
    --------
    >>> from specroof.acceptance import constant_acceptance
    >>> branch_rates(constant_acceptance(0.5), 2, [0.5, 0.2])
    [[0.5, 0.25, 0.1], [0.5, 0.25, 0.1]]
    """
    survival = np.diff(tokens.tokens_per_round(np.arange(depth + 1)))
    return [
        [first, *((1.0 - first) * share for share in siblings)]
        for first in rates_of_survival(survival).tolist()
    ]


def tree_proposals(
    grow: Grow, siblings: Sequence[float], tokens: TokensPerRound, draft_len: Counts
) -> Proposals:
    """Return what trees propose, one tree for each draft length, which is its depth.

    Parameters
    ----------
    grow
        From rates to a tree.
    siblings
        See `branch_rates`.
    tokens
        Acceptance of the first children.
    draft_len
        Whole numbers from 0.

    Source
        See `tree_tokens`.

    Examples
    --------
    >>> from specroof.acceptance import constant_acceptance
    >>> from specroof.drafters.tree_shapes import chain_tree
    >>> found = tree_proposals(chain_tree, (), constant_acceptance(0.5), np.arange(4))
    >>> found.verify_len.tolist(), found.tokens_per_round.tolist()
    ([1, 2, 3, 4], [1.0, 1.5, 1.75, 1.875])
    """
    longest = int(draft_len.max(initial=0))
    deepest = longest if tokens.max_draft_len is None else min(longest, tokens.max_draft_len)
    deepest = min(deepest, _DEEPEST)
    chain = tokens.tokens_per_round(np.arange(longest + 1))
    rates = branch_rates(tokens, deepest, siblings)
    trees = [grow(rates[:depth]) for depth in range(deepest + 1)]
    expected = np.full(longest + 1, np.nan)
    for depth, tree in enumerate(trees):
        expected[depth] = _expected(tree, rates, chain)
    # Past what is known the tree stays as it is, so that shapes agree; its tokens are NaN.
    lengths = np.minimum(draft_len, deepest).astype(np.intp)
    widths = sorted({width for tree in trees for width in tree.widths})
    counts = np.array([[tree.widths.count(width) for tree in trees] for width in widths])
    return Proposals(
        verify_len=np.array([len(tree.nodes) + 1 for tree in trees])[lengths],
        tokens_per_round=expected[draft_len.astype(np.intp)],
        expansions=tuple(
            (float(width), np.asarray(row[lengths], dtype=np.float64))
            for width, row in zip(widths, counts, strict=True)
        ),
        branches=np.array([_branches(tree, depth) for depth, tree in enumerate(trees)])[lengths],
    )


def _branches(tree: Tree, depth: int) -> bool:
    """Tell whether a tree is more than a chain, in what is verified or on the way there."""
    return len(tree.nodes) > depth or any(width > 1 for width in tree.widths)


def _expected(tree: Tree, rates: Rates, chain: Array) -> float:
    """Return the tokens of a tree: its chain's, to the last bit, and the rest."""
    first = [node for node in tree.nodes if not any(node)]
    others = sorted(node for node in tree.nodes if any(node))
    return float(chain[len(first)]) + sum(path_rate(node, rates) for node in others)


def with_tree(
    drafter: Drafter,
    grow: Grow,
    siblings: Sequence[float],
    *,
    label: str = "trees",
    depth: int | None = None,
) -> Drafter:
    """Return a drafter that proposes trees; draft lengths are then their depths.

    Parameters
    ----------
    drafter
        What makes the drafts.
    grow
        From rates to a tree.
    siblings
        Of the rounds in which the first child is wrong, the shares in which the second, third, …
        is right.
    label
        What descriptions call the trees.
    depth
        Levels of a static tree; None without end.

    Raises
    ------
    OptionError
        Unless the shares are from 0 to 1 and add up to no more than 1.
    """
    if any(not 0 <= share <= 1 for share in siblings) or sum(siblings) > 1:
        shown = "/".join(f"{share:g}" for share in siblings)
        reject(f"siblings is {shown}", "shares from 0 to 1 that add up to at most 1")
    ends = [end for end in (drafter.max_draft_len, depth) if end is not None]
    return replace(
        drafter,
        max_draft_len=min([_DEEPEST, *ends]),
        describe=lambda target: f"{drafter.describe(target)}, {label}",
        propose=lambda tokens, draft_len: tree_proposals(grow, siblings, tokens, draft_len),
    )
