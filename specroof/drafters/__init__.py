"""Seconds of drafting: one function a kind, and the table of kinds that a SPEC may name."""

from specroof.drafters.base import (
    Drafter,
    DraftTime,
    Held,
    Price,
    Proposals,
    Round,
    TokensPerRound,
    Work,
    chain_proposals,
)
from specroof.drafters.blocks import (
    dflash_drafter,
    dspark_drafter,
    p_eagle_drafter,
    pard_drafter,
)
from specroof.drafters.heads import (
    eagle3_drafter,
    eagle_drafter,
    medusa_drafter,
    model_drafter,
    mtp_drafter,
)
from specroof.drafters.kinds import KINDS, Kind
from specroof.drafters.lookup import lookup_drafter
from specroof.drafters.placed import Where, overlapped_time, priced_drafter
from specroof.drafters.shares import autoregressive_drafter, block_drafter, ideal_drafter
from specroof.drafters.tree_shapes import chain_tree, dynamic_tree, expansion_tree, optimal_tree
from specroof.drafters.trees import Tree, tree_proposals, tree_tokens, with_tree

__all__ = [
    "KINDS",
    "DraftTime",
    "Drafter",
    "Held",
    "Kind",
    "Price",
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
    "dflash_drafter",
    "dspark_drafter",
    "dynamic_tree",
    "eagle3_drafter",
    "eagle_drafter",
    "expansion_tree",
    "ideal_drafter",
    "lookup_drafter",
    "medusa_drafter",
    "model_drafter",
    "mtp_drafter",
    "optimal_tree",
    "overlapped_time",
    "p_eagle_drafter",
    "pard_drafter",
    "priced_drafter",
    "tree_proposals",
    "tree_tokens",
    "with_tree",
]
