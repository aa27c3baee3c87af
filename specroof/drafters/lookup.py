"""Drafters that look drafts up: n-grams, prompt lookup, suffix trees. Host time and no model."""

from dataclasses import replace

import numpy as np

from specroof.architecture import Architecture
from specroof.arrays import number_within
from specroof.drafters.base import (
    Counts,
    Drafter,
    DraftTime,
    Held,
    Proposals,
    Round,
    TokensPerRound,
    chain_proposals,
)
from specroof.units import format_seconds

#: Share of the verification that n-gram lookup took in vLLM on one H100 (Llama-3.1-8B).
MEASURED_LOOKUP_SHARE = 0.005875


def matched_proposals(tokens: TokensPerRound, draft_len: Counts, match_rate: float) -> Proposals:
    r"""Return the proposals of a lookup that finds something in a share of rounds.

    .. math:: N = 1 + m \, (N_{match} - 1), \quad T = 1 + m \, \gamma

    Parameters
    ----------
    tokens
        Acceptance of what is found.
    draft_len
        Tokens proposed where something is found.
    match_rate
        m.

    Counts
        the mean over sequences: one without a match verifies one position.
    Source
        SpecDecode-Bench, arXiv:2601.11580, whose simulator draws matches with probability 0.2 to
        0.8 by task.

    Examples
    --------
    >>> from specroof.acceptance import constant_acceptance
    >>> found = matched_proposals(constant_acceptance(0.5), np.array([2]), match_rate=0.5)
    >>> found.verify_len, found.tokens_per_round  # 1 + 0.5 * 2, 1 + 0.5 * 0.75
    (array([2.]), array([1.375]))
    """
    chain = replace(chain_proposals(tokens, draft_len), looked_up=True)
    if match_rate == 1:
        return chain
    return replace(
        chain,
        verify_len=np.asarray(1.0 + match_rate * (chain.verify_len - 1.0), dtype=np.float64),
        tokens_per_round=1.0 + match_rate * (chain.tokens_per_round - 1.0),
    )


def lookup_drafter(
    *,
    match_rate: float = 1.0,
    round_s: float | None = None,
    token_s: float = 0.0,
    name: str = "ngram",
) -> Drafter:
    r"""Return a drafter that finds its drafts in the text so far.

    .. math:: t = t_{round} + m \, B \, \gamma \, t_{token}

    Parameters
    ----------
    match_rate
        m, the share of rounds in which something is found. Acceptance is over those rounds;
        with 1 it is over all rounds.
    round_s, token_s
        Seconds on the host per round, and per proposed token. If `round_s` is None, a measured
        share of the verification.
    name
        What outputs call it.

    Raises
    ------
    OptionError
        Unless the rate is from 0 to 1, and the seconds from 0 to 1.

    Source
        vLLM ``v1/spec_decode/ngram_proposer.py``; share of the verification: SpecDecode-Bench
        simulator (github.com/SpecDecode-Bench/simulator), 0.5875 %.

    Examples
    --------
    >>> lookup_drafter(match_rate=0.4).name
    'ngram'
    """
    for key, value in (("match", match_rate), ("round-s", round_s or 0.0), ("token-s", token_s)):
        number_within(key, value, "share")  # seconds are up to 1 too

    def draft(round_: Round) -> DraftTime:
        base_s = MEASURED_LOOKUP_SHARE * round_.verify_s if round_s is None else round_s
        proposed = match_rate * round_.batch_size * round_.draft_len
        return DraftTime(np.asarray(base_s + token_s * proposed))

    def describe(_target: Architecture) -> str:
        shown = (
            f"{MEASURED_LOOKUP_SHARE:.2%} of the verification (SpecDecode-Bench)"
            if round_s is None
            else f"{format_seconds(round_s)} a round"
        )
        return f"a lookup on the host, no model: {shown}, {format_seconds(token_s)} a token"

    return Drafter(
        name,
        draft,
        describe=describe,
        propose=lambda tokens, draft_len: matched_proposals(tokens, draft_len, match_rate),
        held=lambda _: Held(),
    )
