"""Trees of drafts: expected tokens against dice, the best tree against all trees, the chain."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import cpu_bound
from specroof import load_drafter
from specroof.acceptance import constant_acceptance
from specroof.drafters.base import chain_proposals
from specroof.drafters.kinds import autoregressive_drafter
from specroof.drafters.trees import (
    Node,
    Rates,
    Tree,
    dynamic_tree,
    expansion_tree,
    optimal_tree,
    path_rate,
    tree_proposals,
    typical_siblings,
    with_tree,
)
from strategies import acceptances
from tables import rows


def chain_tree(rates: Rates) -> Tree:
    return expansion_tree((1,) * len(rates), rates)


def is_a_tree(nodes: frozenset[Node]) -> bool:
    parents = all(node[:-1] in nodes or len(node) == 1 for node in nodes)
    elders = all(node[-1] == 0 or (*node[:-1], node[-1] - 1) in nodes for node in nodes)
    return parents and elders


@st.composite
def rates(draw: st.DrawFn, max_depth: int = 9, max_width: int = 4) -> list[list[float]]:
    """Draw positional acceptance that falls with rank and adds up to at most 1."""
    width = draw(st.integers(1, max_width))
    found = []
    for _ in range(draw(st.integers(1, max_depth))):
        shares = draw(st.lists(st.floats(0, 1), min_size=width + 1, max_size=width + 1))
        total = math.fsum(shares) or 1.0
        found.append(sorted((share / total for share in shares[:width]), reverse=True))
    return found


@given(rates(max_depth=6), st.integers(1, 60))
def test_the_optimal_tree_holds_the_most_probable_nodes(
    table: list[list[float]], n_nodes: int
) -> None:
    # Path products fall from parent to child and from sibling to sibling, so that the best tree
    # is that of the largest ones: a second way to the same answer.
    everything = expansion_tree((len(table[0]),) * len(table), table)
    values = sorted((path_rate(node, table) for node in everything.nodes), reverse=True)
    found = optimal_tree(table, n_nodes=n_nodes)
    assert is_a_tree(found.nodes)
    assert len(found.nodes) == min(n_nodes, len(values))
    expected = 1 + math.fsum(values[:n_nodes])
    # 1 and the sum over nodes of the product of the rates on the way: Sequoia, 4.1.
    ways = [[ranks[rank] for ranks, rank in zip(table, node, strict=False)] for node in found.nodes]
    assert 1 + math.fsum(map(math.prod, ways)) == pytest.approx(expected)


def eagle2_by_names(table: list[list[float]], top_k: int, n_nodes: int) -> Tree:
    """Return EAGLE-2's tree as its code says it, by sorting every child of every level."""
    level: list[Node] = [()]
    drafted: list[tuple[float, int, Node]] = []
    widths = []
    for depth in range(len(table)):
        widths += [len(level)] if depth else []
        names = [(*node, rank) for node in level for rank in range(top_k)]
        ranked = sorted((-path_rate(name, table), len(name), name) for name in names)
        drafted += ranked
        level = [name for *_, name in ranked[:top_k]]
    return Tree(frozenset(name for *_, name in sorted(drafted)[:n_nodes]), tuple(widths))


@given(rates(max_depth=5), st.integers(1, 30), st.data(), st.sampled_from([1, 3, 16]))
def test_a_dynamic_tree_keeps_what_sorting_every_child_would(
    table: list[list[float]], n_nodes: int, data: st.DataObject, digits: int
) -> None:
    rounded = [[round(rate, digits) for rate in ranks] for ranks in table]  # many ties, or none
    top_k = data.draw(st.integers(1, len(table[0])))
    found = dynamic_tree(rounded, top_k=top_k, n_nodes=n_nodes)
    assert found == eagle2_by_names(rounded, top_k, n_nodes)


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.0, 0.7])
def test_the_largest_dynamic_trees_take_seconds(rate: float) -> None:
    # Sorting the 160 000 children of each level took over 100 s.
    grow = partial(dynamic_tree, top_k=400, n_nodes=512)
    with cpu_bound(60):
        found = tree_proposals(grow, [1 / 400] * 399, constant_acceptance(rate), np.arange(4))
    assert found.verify_len[1:].tolist() == [401, 513, 513]


@pytest.mark.parametrize(
    ("branches", "n_nodes", "widths"),
    [((1, 1, 1), 3, (1, 1)), ((3, 1, 1), 9, (3, 3)), ((2, 2, 2), 14, (2, 4)), ((4,), 4, ())],
)
def test_a_static_tree_is_drafted_level_by_level(
    branches: tuple[int, ...], n_nodes: int, widths: tuple[int, ...]
) -> None:
    tree = expansion_tree(branches, [[0.1] * 4] * len(branches))
    assert is_a_tree(tree.nodes)
    assert (len(tree.nodes), tree.widths) == (n_nodes, widths)
    # A shorter draft takes the first levels.
    first = expansion_tree(branches, [[0.1] * 4])
    assert first.nodes == {(rank,) for rank in range(branches[0])}


@given(acceptances, st.integers(0, 20))
def test_a_tree_of_width_one_equals_the_chain(acceptance: Any, longest: int) -> None:
    draft_len = np.arange(longest + 1)
    tree = tree_proposals(chain_tree, (), acceptance, draft_len)
    chain = chain_proposals(acceptance, draft_len)
    known = np.isfinite(chain.tokens_per_round)
    assert np.array_equal(tree.tokens_per_round[known], chain.tokens_per_round[known])
    assert np.all(np.isnan(tree.tokens_per_round[~known]))
    assert np.array_equal(tree.verify_len[known], chain.verify_len[known])
    passes = sum(width * counts for width, counts in tree.expansions)
    ((_, of_chain),) = chain.expansions
    assert np.array_equal(np.broadcast_to(passes, known.shape)[known], of_chain[known])
    assert {width for width, _ in tree.expansions} <= {1.0}
    assert not tree.branches.any()
    assert not chain.branches.any()


def test_a_tree_branches_in_what_is_verified_or_on_the_way_there() -> None:
    def branches(grow: Any, siblings: list[float], longest: int) -> list[bool]:
        found = tree_proposals(grow, siblings, constant_acceptance(0.5), np.arange(longest + 1))
        return [bool(one) for one in found.branches]

    # Two children of the root; one behind each.
    assert branches(partial(expansion_tree, (2, 1)), [0.5], 2) == [False, True, True]
    # Two drafts are verified of three that a level of two nodes makes: a pass of two positions.
    wide = partial(dynamic_tree, top_k=2, n_nodes=2)
    assert branches(wide, [0.2], 2) == [False, True, True]
    # One node each time is a chain, however it is grown.
    assert branches(partial(dynamic_tree, top_k=1, n_nodes=9), [], 2) == [False] * 3


def test_a_drafter_with_trees_has_their_depth() -> None:
    chain = autoregressive_drafter(0.1)
    grow = partial(expansion_tree, (2, 2))
    assert with_tree(chain, grow, [0.1], depth=2).max_draft_len == 2
    assert with_tree(chain, chain_tree, ()).max_draft_len == 64


# Added up one after another, the last are 1.0000000000000002.
@pytest.mark.parametrize("siblings", [[1.0], [0.5, 0.5], [0.2, 0.4, 0.3, 0.1]])
def test_siblings_may_hold_every_round_that_the_first_child_loses(siblings: list[float]) -> None:
    # A first child that is right half the time, and siblings that are right in all other rounds:
    # of a tree of one level some child is always right, so a round commits two tokens.
    grow = partial(expansion_tree, (1 + len(siblings),))
    drafter = with_tree(autoregressive_drafter(0.1), grow, siblings, depth=1)
    proposed = drafter.propose(constant_acceptance(0.5), np.array([1]))
    assert proposed.tokens_per_round[0] == pytest.approx(2.0)


@pytest.mark.parametrize(("small", "large"), rows("values", "grown_trees"))
def test_typical_siblings_lead_from_one_measured_tree_to_another(
    small: float, large: float
) -> None:
    def tokens(rate: float, positions: int) -> float:
        spec = f"eagle3,accept={rate},tree=eagle2,nodes={positions - 1},top-k=10"
        drafter = load_drafter(spec)
        proposed = drafter.propose(constant_acceptance(rate), np.array([7]))
        return float(proposed.tokens_per_round[0])

    rates = np.linspace(0.5, 0.8, 16)
    rate = np.interp(small, [tokens(rate, 16) for rate in rates], rates)
    assert tokens(float(rate), 60) == pytest.approx(large, abs=0.15)


def test_typical_siblings_fall_with_the_rank() -> None:
    shares = typical_siblings()
    assert len(shares) == 9
    assert [share * rank for rank, share in enumerate(shares, start=2)] == pytest.approx([0.24] * 9)
    text = "eagle3,accept=0.6,tree=eagle2,nodes=8,top-k=3"
    given = f"{text},siblings={'/'.join(map(str, shares))}"
    ours, theirs = (
        load_drafter(spec).propose(constant_acceptance(0.6), np.arange(5)).tokens_per_round
        for spec in (text, given)
    )
    assert ours.tolist() == theirs.tolist()
