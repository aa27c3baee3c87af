"""Seconds of drafting: one function a kind, and the table of kinds that a SPEC may name."""

from specroof.drafters.base import (
    Drafter,
    DraftTime,
    Held,
    PassTime,
    Proposals,
    Round,
    TokensPerRound,
    Work,
    chain_proposals,
)
from specroof.drafters.blocks import BLOCK_KINDS, head_block_drafter
from specroof.drafters.heads import HEAD_KINDS, head_drafter, medusa_drafter
from specroof.drafters.kinds import KINDS, Kind
from specroof.drafters.lookup import lookup_drafter
from specroof.drafters.placed import Where, overlapped_time, timed_drafter
from specroof.drafters.shares import autoregressive_drafter, block_drafter, ideal_drafter
from specroof.drafters.tree_shapes import chain_tree, dynamic_tree, expansion_tree, optimal_tree
from specroof.drafters.trees import Tree, tree_proposals, tree_tokens, with_tree

__all__ = [
    "BLOCK_KINDS",
    "HEAD_KINDS",
    "KINDS",
    "DraftTime",
    "Drafter",
    "Held",
    "Kind",
    "PassTime",
    "Proposals",
    "Round",
    "TokensPerRound",
    "Tree",
    "Where",
    "Work",
    "autoregressive_drafter",
    "block_drafter",
    "chain_proposals",
    "chain_tree",
    "dynamic_tree",
    "expansion_tree",
    "head_block_drafter",
    "head_drafter",
    "ideal_drafter",
    "lookup_drafter",
    "medusa_drafter",
    "optimal_tree",
    "overlapped_time",
    "timed_drafter",
    "tree_proposals",
    "tree_tokens",
    "with_tree",
]
