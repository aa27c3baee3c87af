"""Trees of drafts: what they commit, which one is best, and what they cost to make.

A tree is the set of its nodes, each named by the ranks of the children on the way to it: ``(0,)``
is the first draft of a chain, ``(0, 0)`` the one behind it, ``(0, 1)`` its second choice. A chain
is the tree of width one.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from specroof.acceptance.curve import rates_of_survival
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


def path_rate(node: Node, rates: Rates) -> float:
    """Return the probability that a node is accepted: the product of the rates on the way."""
    return math.prod((rates[depth][rank] for depth, rank in enumerate(node)), start=1.0)


def branch_rates(
    acceptance: TokensPerRound, depth: int, siblings: Sequence[float]
) -> list[list[float]]:
    r"""Return the acceptance of the first, second, … child at each depth.

    .. math:: p_{d,1} = s_d / s_{d-1}, \quad p_{d,j} = (1 - p_{d,1}) \, q_j

    Parameters
    ----------
    acceptance
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
    survival = np.diff(acceptance.tokens_per_round(np.arange(depth + 1)))
    return [
        [first, *((1.0 - first) * share for share in siblings)]
        for first in rates_of_survival(survival).tolist()
    ]


#: c of `typical_siblings`, and the children of a node of the trees that it was read from.
SIBLING_SHARE: Final = 0.24
TYPICAL_CHILDREN: Final = 10


def typical_siblings() -> tuple[float, ...]:
    r"""Return the shares of siblings that EAGLE-3's trees show: of the second to the tenth child.

    .. math:: q_j = c / j

    Ignores
        the kind of drafter: no other kind's trees were measured so that their siblings can be told
        from their first children. Trees with as few drafts as levels, which commit less than
        chains where they were measured (SpecBundle), and here never do.
    Source
        28 pairs of trees of 16 and 60 positions in
        arXiv:2602.06036v2, table 1 (EAGLE-3 for Qwen3-4B and 8B), predicted from one another to
        0.05 tokens.

    Examples
    --------
    >>> [round(share, 2) for share in typical_siblings()[:3]], round(sum(typical_siblings()), 2)
    ([0.12, 0.08, 0.06], 0.46)
    """
    return tuple(SIBLING_SHARE / rank for rank in range(2, TYPICAL_CHILDREN + 1))


def tree_proposals(
    grow: Grow, siblings: Sequence[float], acceptance: TokensPerRound, draft_len: Counts
) -> Proposals:
    r"""Return what trees propose, one tree for each draft length, which is its depth.

    .. math:: N = 1 + \sum_{v} \prod_{d} p_{d, r_d(v)}

    with the rates p of `branch_rates`, by depth and by rank among siblings.

    Parameters
    ----------
    grow
        From rates to a tree.
    siblings
        See `branch_rates`.
    acceptance
        Acceptance of the first children.
    draft_len
        Whole numbers from 0.

    Source
        Chen et al. 2024 (Sequoia), arXiv:2402.12374, section 4.1; Miao et al. 2023 (SpecInfer),
        arXiv:2305.09781.

    Examples
    --------
    >>> from specroof.acceptance import constant_acceptance
    >>> grow = partial(expansion_tree, (2, 1))  # 1 + 1/2 + 1/4 tokens, and 1/4 + 1/8 more
    >>> proposed = tree_proposals(grow, (0.5,), constant_acceptance(0.5), np.arange(3))
    >>> proposed.verify_len.tolist(), proposed.tokens_per_round.tolist()
    ([1, 3, 5], [1.0, 1.75, 2.125])
    """
    longest, known = int(draft_len.max(initial=0)), acceptance.max_draft_len
    deepest = min(longest, _DEEPEST, longest if known is None else known)
    chain = acceptance.tokens_per_round(np.arange(longest + 1))
    rates = branch_rates(acceptance, deepest, siblings)
    trees = [grow(rates[:depth]) for depth in range(deepest + 1)]
    expected = np.full(longest + 1, np.nan)
    expected[: len(trees)] = [_expected(tree, rates, chain) for tree in trees]
    # Past what is known the tree stays as it is, so that shapes agree; its tokens are NaN.
    lengths = np.minimum(draft_len, deepest).astype(np.intp)
    widths = sorted({width for tree in trees for width in tree.widths})
    counts = np.array([[tree.widths.count(width) for tree in trees] for width in widths])
    # More than a chain, in what is verified or on the way there.
    branches = [
        len(tree.nodes) > depth or any(width > 1 for width in tree.widths)
        for depth, tree in enumerate(trees)
    ]
    return Proposals(
        verify_len=np.array([len(tree.nodes) + 1 for tree in trees])[lengths],
        tokens_per_round=expected[draft_len.astype(np.intp)],
        expansions=tuple(
            (float(width), np.asarray(row[lengths], dtype=np.float64))
            for width, row in zip(widths, counts, strict=True)
        ),
        branches=np.array(branches)[lengths],
    )


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
    if not all(share >= 0 for share in siblings) or math.fsum(siblings) > 1:
        shown = "/".join(f"{share:g}" for share in siblings)
        reject(f"siblings is {shown}", "shares from 0 to 1 that add up to at most 1")
    ends = [end for end in (drafter.max_draft_len, depth) if end is not None]
    return replace(
        drafter,
        max_draft_len=min([_DEEPEST, *ends]),
        describe=partial(drafter.described, label),
        propose=partial(tree_proposals, grow, siblings),
    )


# --- Which drafts a tree holds: static ones, EAGLE-2's and Sequoia's -----------------------------

#: The largest tree that is searched for; engines verify up to some hundred drafts.
MOST_NODES: Final = 512


def expansion_tree(branches: Sequence[int], rates: Rates) -> Tree:
    """Return a static tree: all nodes of a level have as many children.

    Parameters
    ----------
    branches
        Children per node, level by level.
    rates
        Of as many depths as the draft is long; a shorter draft takes the first levels.

    Source
        Miao et al. 2023 (SpecInfer), arXiv:2305.09781, section 3 (expansion configuration).

    Examples
    --------
    >>> tree = expansion_tree((2, 1), [[0.5, 0.25], [0.5, 0.25]])
    >>> sorted(tree.nodes), tree.widths
    ([(0,), (0, 0), (1,), (1, 0)], (2,))
    """
    level: list[Node] = [()]
    levels = []
    for branch in branches[: len(rates)]:
        level = [(*node, rank) for node in level for rank in range(branch)]
        levels.append(level)
    return _expanded(node for nodes in levels for node in nodes)


def _expanded(nodes: Iterable[Node]) -> Tree:
    """Return a tree whose passes read just the nodes that have children."""
    kept = frozenset(nodes)
    parents = Counter(len(parent) for parent in {node[:-1] for node in kept} - {()})
    return Tree(kept, tuple(parents[depth] for depth in sorted(parents)))


def dynamic_tree(rates: Rates, *, top_k: int, n_nodes: int) -> Tree:
    """Return EAGLE-2's tree where confidences are as good as acceptance rates.

    Level by level the `top_k` most probable nodes are expanded, `top_k` children each; in the end
    the `n_nodes` most probable of all are verified.

    Parameters
    ----------
    rates
        Of as many depths as the draft is long.
    top_k
        Nodes expanded per level, and children of each.
    n_nodes
        Drafts verified.

    Source
        Li et al. 2024 (EAGLE-2), arXiv:2406.16858, section 4; SafeAILab/EAGLE, ``cnets.py``,
        ``topK_genrate``.

    Examples
    --------
    >>> tree = dynamic_tree([[0.6, 0.3], [0.6, 0.3]], top_k=2, n_nodes=3)
    >>> sorted(tree.nodes), tree.widths  # 0.6, 0.36 and 0.3; both nodes of level 1 were expanded
    ([(0,), (0, 0), (1,)], (2,))
    """
    # A level is kept in the order of its nodes' names, so that places among children are too.
    frontier: list[Node] = [()]
    values = np.ones(1)
    drafted: list[tuple[float, int, Node]] = []
    widths = []
    for depth, ranks in enumerate(rates):
        if depth:
            widths.append(len(frontier))
        children = np.outer(values, ranks[:top_k]).ravel()
        names = [(*node, rank) for node in frontier for rank in range(min(top_k, len(ranks)))]
        drafted += ((-children[at], depth, names[at]) for at in _largest(children, n_nodes))
        kept = _largest(children, top_k)
        frontier, values = [names[at] for at in kept], children[kept]
    # Elder siblings and parents first among equals, so that what is kept is a tree.
    best = heapq.nsmallest(n_nodes, drafted)
    return Tree(frozenset(node for _, _, node in best), tuple(widths))


def _largest(values: Array, most: int) -> list[int]:
    """Return the places of the `most` largest values, ascending; the first ones among equals."""
    if values.size <= most:
        return list(range(values.size))
    least = np.partition(values, values.size - most)[values.size - most]
    above = np.flatnonzero(values > least)
    equal = np.flatnonzero(values == least)[: most - above.size]
    places: list[int] = np.sort(np.concatenate((above, equal))).tolist()
    return places


def optimal_tree(rates: Rates, *, n_nodes: int) -> Tree:
    r"""Return the tree of at most `n_nodes` drafts that commits the most tokens.

    .. math:: T_d(m) = 1 + \max_b W_{d,b}(m - 1), \quad
        W_{d,b}(n) = \max_y \left[ W_{d,b-1}(n - y) + p_{d+1,b} \, T_{d+1}(y) \right]

    with m the nodes of a subtree, its root included, and b the children used, first ones first.

    Parameters
    ----------
    rates
        Of as many depths as the tree may have.
    n_nodes
        Drafts; as many as fit if the depth does not hold so many.

    Ignores
        that acceptance may depend on the branch: the rates are means over branches.
    Source
        Chen et al. 2024 (Sequoia), arXiv:2402.12374, section 4.1 and proposition 4.2;
        Infini-AI-Lab/Sequoia, ``tree_search.py``.

    Examples
    --------
    >>> tree = optimal_tree([[0.6, 0.3], [0.6, 0.3]], n_nodes=3)
    >>> sorted(tree.nodes)
    [(0,), (0, 0), (1,)]
    """
    # A tree of these depths and widths holds no more nodes than its full levels.
    level, total = 1, 0
    for ranks in rates:
        level = min(level * len(ranks), MOST_NODES)
        total = min(total + level, MOST_NODES)
    most = min(n_nodes, total)
    # Subtree of a leaf: one node is worth 1, and more do not fit.
    worth = np.full(most + 2, -np.inf)
    worth[1] = 1.0
    shares: dict[int, list[npt.NDArray[np.intp]]] = {}
    uses: dict[int, npt.NDArray[np.intp]] = {}
    for depth in reversed(range(len(rates))):
        worth, shares[depth], uses[depth] = _shared_out(rates[depth], worth[: most + 1])
    # The nodes of the best tree, by going down the tables.
    nodes: list[Node] = []
    waiting: list[tuple[Node, int]] = [((), most)]
    while waiting:
        node, left = waiting.pop()
        children = int(uses[len(node)][left]) if left else 0
        for child in reversed(range(children)):
            share = int(shares[len(node)][child][left])
            nodes.append((*node, child))
            waiting.append(((*node, child), share - 1))
            left -= share
    return _expanded(nodes)


def _shared_out(
    rates: Sequence[float], below: Array
) -> tuple[Array, list[npt.NDArray[np.intp]], npt.NDArray[np.intp]]:
    """Return Sequoia's recursion: the worth of a subtree by its nodes, and who gets them.

    From the worth of its children's subtrees; the nodes of each child, and how many children, by
    the nodes that are shared out.
    """
    most = len(below) - 1
    fits = np.isfinite(below)
    used = np.full(most + 1, -np.inf)
    used[0] = 0.0
    best, uses = used.copy(), np.zeros(most + 1, dtype=np.intp)
    shares = []
    nothing = np.full(most, -np.inf)
    for child, rate in enumerate(rates, start=1):
        given = np.where(fits, rate * np.where(fits, below, 0.0), -np.inf)
        # Row n holds used[n - y] in column y: what the children before get of n nodes.
        before = sliding_window_view(np.concatenate((nothing, used)), most + 1)[:, ::-1]
        table = before + given
        shares.append(np.argmax(table, axis=1))
        used = np.max(table, axis=1)
        better = used > best
        best, uses = np.where(better, used, best), np.where(better, child, uses)
    return np.concatenate(([-np.inf], 1.0 + best)), shares, uses
