"""The kinds of drafter that a SPEC may begin with, and how each is built from its keys."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from specroof.acceptance.curve import rates_of_survival
from specroof.architecture.base import WEIGHT_FORMATS, WEIGHT_MIXES
from specroof.architecture.draft_heads import HeadDesign
from specroof.arrays import number_within, whole_within
from specroof.cost import stored_as
from specroof.drafters.base import (
    Counts,
    Drafter,
    DrafterFootprint,
    DraftTime,
    Proposals,
    Round,
    TokensPerRound,
    chain_proposals,
    same_for_all,
)
from specroof.drafters.heads import HEAD_KINDS, Where, head_drafter, medusa_drafter
from specroof.drafters.trees import (
    MOST_NODES,
    dynamic_tree,
    expansion_tree,
    optimal_tree,
    typical_siblings,
    with_tree,
)
from specroof.errors import expect_word, reject
from specroof.units import BOUNDS, Bounds, format_seconds

# --- Drafters whose cost is given: nothing, or a fixed share of the target's step ----------------

#: A draft token that costs a hundred plain steps is a typing error, such as 10 for 10%.
_COSTS: Final = Bounds(0, 100)
_DRAFTS: Final = Bounds(1, 4096, whole=True)


def ideal_drafter() -> Drafter:
    """Return the drafter of the free lunch: every draft accepted, no time spent.

    Its speedup is what verification alone allows: at the same draft length no other drafter is
    faster, as long as a pass of fewer tokens takes no smaller share of the time than of the tokens.

    Ignores
        captured sizes that count tokens, as vLLM's do: a lookup that proposes only in some rounds
        verifies fewer positions, and may fit the largest captured graph where this drafter, which
        proposes in all, is launched without one. It is then faster at that draft length.
    Source
        Modal 2026, "Speculation Is All You Need": the series "ideal".

    Examples
    --------
    >>> ideal_drafter().name
    'ideal'
    """
    return Drafter(
        "ideal",
        partial(same_for_all, DraftTime(np.zeros(()))),
        is_ideal=True,
        describe=partial(same_for_all, "nothing: what verification alone allows"),
        held=partial(same_for_all, DrafterFootprint()),
    )


def autoregressive_drafter(cost: float, *, name: str | None = None) -> Drafter:
    r"""Return a drafter that makes token after token (MTP, EAGLE, a small model).

    .. math:: t_{draft} = \gamma \, c \, t_1

    Parameters
    ----------
    cost
        c, the share of the target's plain step that one draft token costs.
    name
        What outputs call it.

    Raises
    ------
    OptionError
        Unless 0 <= cost <= 100.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8 (c).

    Examples
    --------
    >>> autoregressive_drafter(0.1).name
    'autoregressive,cost=0.1'
    """
    share = number_within("cost", cost, _COSTS)
    return Drafter(
        name or f"autoregressive,cost={share:g}",
        partial(_blocks_time, share, 1),
        describe=partial(same_for_all, f"given: {share:g} of the target's step per draft token"),
        with_cost=autoregressive_drafter,
    )


def _blocks_time(share: float, per_block: int, round_: Round) -> DraftTime:
    """Return the time of blocks that each cost a share of the target's step."""
    base_s = round_.verify_s if round_.cost_of == "verify" else round_.decode_s
    return DraftTime(np.ceil(round_.draft_len / per_block) * share * base_s)


def block_drafter(cost: float, *, drafts: int, name: str | None = None) -> Drafter:
    r"""Return a drafter that makes a whole block in one pass (DFlash, P-EAGLE).

    .. math:: t_{draft} = \lceil \gamma / D \rceil \, c \, t_1

    Parameters
    ----------
    cost
        c, the share of the target's plain step that one block costs, whatever part of it is
        verified.
    drafts
        D, drafts in a block; a longer draft pays for the next block.
    name
        What outputs call it.

    Raises
    ------
    OptionError
        Unless 0 <= cost <= 100 and 1 <= drafts <= 4096.

    Source
        Modal 2026, "Speculation Is All You Need".

    Examples
    --------
    >>> block_drafter(0.1, drafts=15).name
    'block,cost=0.1,drafts=15'
    """
    share = number_within("cost", cost, _COSTS)
    per_block = whole_within("drafts", drafts, _DRAFTS)
    origin = f"given: {share:g} of the target's step per block of {per_block} drafts"
    return Drafter(
        name or f"block,cost={share:g},drafts={per_block}",
        partial(_blocks_time, share, per_block),
        describe=partial(same_for_all, origin),
        with_cost=partial(block_drafter, drafts=per_block),
    )


# --- Drafters that look drafts up: n-grams, prompt lookup, suffix trees. Host time and no model --

#: Share of the verification that n-gram lookup took in vLLM 0.10.1 on one H100 (Llama-3.1-8B).
MEASURED_LOOKUP_SHARE = 0.005875


def matched_proposals(
    acceptance: TokensPerRound, draft_len: Counts, match_rate: float
) -> Proposals:
    r"""Return the proposals of a lookup that finds something in a share of rounds.

    .. math:: N = 1 + m \, (N_{match} - 1), \quad T = 1 + m \, \gamma

    Parameters
    ----------
    acceptance
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
    >>> proposed = matched_proposals(constant_acceptance(0.5), np.array([2]), match_rate=0.5)
    >>> proposed.verify_len, proposed.tokens_per_round  # 1 + 0.5 * 2, 1 + 0.5 * 0.75
    (array([2.]), array([1.375]))
    """
    chain = replace(chain_proposals(acceptance, draft_len), looked_up=True)
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

    shown = (
        f"{MEASURED_LOOKUP_SHARE:.2%} of the verification (SpecDecode-Bench)"
        if round_s is None
        else f"{format_seconds(round_s)} a round"
    )
    origin = f"a lookup on the host, no model: {shown}, {format_seconds(token_s)} a token"
    return Drafter(
        name,
        partial(_lookup_time, match_rate, round_s, token_s),
        describe=partial(same_for_all, origin),
        propose=partial(matched_proposals, match_rate=match_rate),
        held=partial(same_for_all, DrafterFootprint()),
    )


def _lookup_time(
    match_rate: float, round_s: float | None, token_s: float, round_: Round
) -> DraftTime:
    """Return the time of a lookup on the host."""
    base_s = MEASURED_LOOKUP_SHARE * round_.verify_s if round_s is None else round_s
    proposed = match_rate * round_.batch_size * round_.draft_len
    return DraftTime(np.asarray(base_s + token_s * proposed))


# --- Drafts that stop where the drafter is unsure -------------------------------------------------

#: Share of the variance of acceptance that the likelihood of a draft explains: chosen by the shares
#: of drafts that were accepted of Qwen3.8-27B's MTP layer in llama.cpp, with two lengths and two
#: thresholds (github.com/thc1006/qwen3.8-speculative-decoding-rtx3090). A report from a GB10 has
#: 0.94 and 0.97 accepted of two drafts with 0.6 and 0.85, as of 0.75 (llama.cpp issue 24508).
USUAL_CONFIDENCE: Final = 0.2
#: Terms of a continued fraction, enough for all of these.
_TERMS: Final = 60


def beta_tail(least: float, a: float, b: float) -> float:
    """Return the probability that a number of the beta distribution is at least `least`.

    Source
        Press et al. 2007, Numerical Recipes, section 6.4: the incomplete beta function as a
        continued fraction, by the method of Lentz.

    Examples
    --------
    >>> beta_tail(0.5, 1.0, 1.0), beta_tail(0.5, 2.0, 1.0)  # uniform; of density 2 x
    (0.5, 0.75)
    """
    if least <= 0.0:
        return 1.0
    # The fraction converges fast on one side of the mean, and gives the other by symmetry.
    mirrored = least > (a + 1.0) / (a + b + 2.0)
    x = 1.0 - least if mirrored else least
    a, b = (b, a) if mirrored else (a, b)
    if x <= 0.0:
        return 0.0
    logarithm = a * math.log(x) + b * math.log1p(-x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + logarithm) / a
    d = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    c, fraction = 1.0, d
    for m in range(1, _TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1.0 / (1.0 + numerator * d), 1.0 + numerator / c
            fraction *= c * d
    return front * fraction if mirrored else 1.0 - front * fraction


def stopped_proposals(
    acceptance: TokensPerRound, draft_len: Counts, p_min: float, n_min: int, confidence: float
) -> Proposals:
    r"""Return the proposals of a chain that ends before the first draft that looks unlikely.

    .. math:: c_j \sim \mathrm{Beta}(\kappa a_j, \kappa (1 - a_j)), \quad
        q_j = P(c_j \ge p), \quad w_j = E[c_j; c_j \ge p], \quad
        T = 1 + \sum_{k=1}^{\gamma} \prod_{j \le k} q_j, \quad
        N = 1 + \sum_{k=1}^{\gamma} \prod_{j \le k} w_j

    where fewer than n drafts count as none.

    Parameters
    ----------
    acceptance
        Acceptance of drafts that do not stop; its conditional rates are :math:`a_j`.
    draft_len
        The longest drafts.
    p_min
        p: how likely the drafter must find its own draft.
    n_min
        n: drafts, of which fewer are not verified.
    confidence
        :math:`\rho = 1 / (\kappa + 1)`: the share of the variance of acceptance that likelihood
        explains.

    Counts
        a calibrated drafter: of drafts that it finds likely with c, a share c is accepted. The
        pass that makes the unlikely draft. What is verified is the mean over sequences.
    Ignores
        that sure drafts come in runs, and follow accepted ones; a drafter that is too sure of
        itself stops less.
    Source
        llama.cpp as it ships with llama-cpp-python 0.3.36, ``common/speculative.cpp``, ``draft``:
        the last draft's likelihood counts, not the product. The law:
        `specroof.montecarlo.batch.confident_rounds`.

    Examples
    --------
    >>> from specroof.acceptance import constant_acceptance
    >>> found = stopped_proposals(constant_acceptance(0.5), np.array([1, 2]), 0.5, 0, 1 / 3)
    >>> found.verify_len, found.tokens_per_round  # uniform: q = 1/2, w = 3/8
    (array([1.5 , 1.75]), array([1.375   , 1.515625]))
    """
    chain = chain_proposals(acceptance, draft_len)
    longest = int(np.max(draft_len, initial=0))
    # Past what is known nothing survives, so that shapes agree; tokens are NaN there.
    survival = np.nan_to_num(np.diff(acceptance.tokens_per_round(np.arange(longest + 1))))
    kappa = 1.0 / confidence - 1.0
    # The beta of a certain rate is that rate, which the distribution does not allow.
    rates = np.clip(rates_of_survival(survival), 1e-9, 1.0 - 1e-9).tolist()
    kept = [beta_tail(p_min, kappa * rate, kappa * (1.0 - rate)) for rate in rates]
    right = [rate * beta_tail(p_min, kappa * rate + 1.0, kappa * (1.0 - rate)) for rate in rates]
    reached, survived = (np.cumprod([1.0, *shares]) for shares in (kept, right))
    short = np.arange(longest + 1) < n_min
    enough = reached[min(n_min, longest)]
    # Of k drafts that are accepted, the rest must be there, too.
    onward = np.divide(enough, reached, out=np.zeros_like(reached), where=reached > 0)
    there = np.where(short, enough, reached)
    accepted = np.where(short, survived * onward, survived)
    at, counts = draft_len.astype(np.intp), draft_len >= n_min
    drafts, tokens = (
        np.where(counts, np.cumsum(curve)[at] - curve[0], 0.0) for curve in (there, accepted)
    )
    passes = np.cumsum(reached)[np.maximum(at - 1, 0)]
    known = np.isfinite(chain.tokens_per_round)
    return replace(
        chain,
        verify_len=1.0 + drafts,
        tokens_per_round=np.where(known, 1.0 + tokens, np.nan),
        expansions=((1.0, passes - 1.0),),
    )


Values = Mapping[str, Any]

#: Nodes times children of a sequoia tree: its search takes a second at the usual depths.
_MOST_SHARES: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of drafter, as a SPEC spells it.

    Parameters
    ----------
    build
        From the kind's own values and the name to use, to the drafter.
    keys
        The kind's own keys, and what each means.
    required
        Keys that must be there; of a group, exactly one.
    reads
        Keys whose value is not a number: ``"drafter"`` and ``"model"`` (a config), ``"hardware"``
        (a profile), ``"numbers"`` (separated by slashes) or ``"text"``.
    design
        Keys that make it another head than the usual one, whose acceptance may differ.
    """

    build: Callable[[Values, str], Drafter]
    keys: Mapping[str, str]
    required: tuple[tuple[str, ...], ...] = ()
    reads: Mapping[str, str] = field(default_factory=dict)
    design: tuple[str, ...] = ()


_WHERE: Final = {
    "tp": "devices that the drafter is split over, where they are not all of the target's",
    "device": "hardware of the drafter's own: a file, a name or an alias; cpu, for a model, is the "
    "CPU beside the target's chip",
    "link": "bytes/s between the target and that device",
    "link-latency": "seconds that a message takes there",
    "overlap": "share of rounds whose draft is made while the round before is verified: 1 is "
    "PEARL, less is speculative speculative decoding",
}
_WHERE_QUANTITIES: Final = {"link": "bytes_per_s", "link-latency": "seconds", "overlap": "share"}
_TREE: Final = {
    "tree": "eagle2, sequoia, or the children per node of each level, such as 3/2/1; draft "
    "lengths are then depths, and the acceptance that of the first children, to which siblings add",
    "nodes": "drafts of an eagle2 or sequoia tree",
    "top-k": "nodes that an eagle2 tree expands per level, and children of each",
    "siblings": "where the first child is wrong, the share that the second, third, … gets right "
    "(default: as in trees of EAGLE-3, up to 10 children)",
}
_STOP: Final = {
    "p-min": "stop before the first draft that the drafter finds less likely than this",
    "n-min": "with p-min, drafts of which fewer are not verified",
    "confidence": "with p-min, share of the variance of acceptance that the likelihood of a draft "
    f"explains (default: {USUAL_CONFIDENCE:g})",
}
_READS: Final = {
    "config": "drafter",
    "device": "hardware",
    "tree": "text",
    "siblings": "numbers",
    "weights": "text",
}
_MIX: Final = {"weights": "mix of its file, such as q8_0, where it is not the target's (--weights)"}
_CONFIG: Final = {
    "config": "its config: a file, a bundled name or a Hub name; for mtp and a model a GGUF file, too"
}
#: Keys of a design.
_DESIGN: Final = {
    "layers": "without config=, layers of one pass",
    "hidden": "without config=, width of its layers, where it is not the target's",
    "vocab": "without config=, tokens that it can propose, with a separate head",
    "weights": "without config=, format of its layers, such as fp8",
    "sliding": "without config=, tokens that its attention sees",
}
#: Which field of `HeadDesign` each is, and the most of it.
_SIZES: Final = {
    "layers": ("n_layers", 128),
    "hidden": ("hidden_size", 65_536),
    "vocab": ("vocab_size", 2_000_000),
    "sliding": ("window", 100_000_000),
}
_STEPS: Final = {"steps": "denoising steps: passes over the block"}
_BLOCK: Final = {
    "block": "positions of a block, its anchor included; up to the config's",
    "drafts": "drafts of a block; up to the config's",
}


def _block_share(values: Values, name: str) -> Drafter:
    if "drafts" in values:
        return block_drafter(values["cost"], drafts=_whole("drafts", values["drafts"]), name=name)
    block = _whole("block", values["block"])
    if not 2 <= block <= 4097:
        reject(f"block is {block}", "from 2 (one anchor and one draft) to 4097")
    return block_drafter(values["cost"], drafts=block - 1, name=name)


def _whole(key: str, value: float, most: int | None = None) -> int:
    if not float(value).is_integer() or (most is not None and not 1 <= value <= most):
        bounds = "" if most is None else f" from 1 to {most}"
        reject(f"{key} is {value:.12g}", f"a whole number{bounds}")
    return int(value)


def _branching(drafter: Drafter, values: Values) -> Drafter:
    """Return the drafter with the tree that its SPEC asks for."""
    stray = [key for key in ("nodes", "top-k", "siblings") if key in values]
    if "tree" not in values:
        reject(f"{stray[0]} is given without tree=", _TREE["tree"])
    given = "siblings" in values
    siblings = tuple(values["siblings"]) if given else typical_siblings()
    whose = "" if given else ", siblings as in trees of EAGLE-3"
    tree = values["tree"]
    if tree not in {"eagle2", "sequoia"}:
        return _static(drafter, tree, siblings, stray, whose)
    needed = ("nodes", "top-k") if tree == "eagle2" else ("nodes",)
    if {*stray} - {"siblings"} != set(needed):
        wanted = " and ".join(f"{key}=" for key in needed)
        there = ", ".join(stray) or "nothing"
        reject(f"tree is {tree!r} with {there}", f"{wanted}, and siblings=")
    nodes = _whole("nodes", values["nodes"], MOST_NODES)
    label = f"{tree} trees of {nodes} drafts{whose}"
    if tree == "sequoia":
        most = _MOST_SHARES // nodes - 1  # the best shape of more takes minutes to find
        if len(siblings) > most:
            reject(f"siblings has {len(siblings)} shares", f"up to {most} with nodes={nodes}")
        return with_tree(drafter, partial(optimal_tree, n_nodes=nodes), siblings, label=label)
    top_k = _whole("top-k", values["top-k"], len(siblings) + 1)
    grow = partial(dynamic_tree, top_k=top_k, n_nodes=nodes)
    return with_tree(drafter, grow, siblings, label=label)


def _stopping(drafter: Drafter, values: Values) -> Drafter:
    """Return the drafter that stops where its SPEC says."""
    stray = next(key for key in _STOP if key in values)
    if "tree" in values:
        reject(f"{stray} is given with tree=", "a chain of drafts")
    if "p-min" not in values:
        reject(f"{stray} is given without p-min=", _STOP["p-min"])
    p_min = number_within("p-min", values["p-min"], "share")
    n_min = _whole("n-min", values["n-min"], int(_DRAFTS.most)) if "n-min" in values else 0
    confidence = number_within(
        "confidence", values.get("confidence", USUAL_CONFIDENCE), Bounds(0.01, 0.99)
    )
    return replace(
        drafter,
        describe=partial(drafter.described, f"ends before drafts less likely than {p_min:g}"),
        propose=partial(stopped_proposals, p_min=p_min, n_min=n_min, confidence=confidence),
    )


def _static(
    drafter: Drafter, tree: str, siblings: tuple[float, ...], stray: list[str], whose: str
) -> Drafter:
    """Return the drafter with the children per node that `tree` lists."""
    try:
        branches = tuple(int(part) for part in tree.split("/"))
    except ValueError:
        branches = ()
    if not branches or min(branches) < 1:
        reject(f"tree is {tree!r}", _TREE["tree"])
    if {*stray} - {"siblings"}:
        reject(f"{stray[0]} is given with a static tree", "siblings=")
    if max(branches) > len(siblings) + 1:
        reject(f"tree is {tree!r} with {len(siblings)} siblings", "up to one child more")
    total, level = 0, 1
    for branch in branches:
        level *= branch
        total += level
    if total > MOST_NODES:
        reject(f"tree is {tree!r}, {total} drafts", f"up to {MOST_NODES}")
    return with_tree(
        drafter,
        partial(expansion_tree, branches),
        siblings,
        label=f"static trees of {total} drafts{whose}",
        depth=len(branches),
    )


def _design(values: Values) -> HeadDesign | None:
    """Return what a SPEC asks of a head that has no config; None where it asks nothing."""
    given = [key for key in _DESIGN if key in values]
    if not given:
        return None
    if "config" in values:
        reject(f"{given[0]} is given with config=", "one of them: the config has all sizes")
    sizes: dict[str, Any] = {
        name: _whole(key, values[key], most) for key, (name, most) in _SIZES.items() if key in given
    }
    if "weights" in values:
        weights = values["weights"].casefold()
        expect_word("weights", weights, WEIGHT_FORMATS)
        sizes["weight"] = WEIGHT_FORMATS[weights]
    return HeadDesign(**sizes)


def _lookup(values: Values, name: str) -> Drafter:
    return lookup_drafter(
        match_rate=values.get("match", 1.0),
        round_s=values.get("round-s"),
        token_s=values.get("token-s", 0.0),
        name=name,
    )


def _with_config(
    kind: str,
    *,
    config: str = "drafter",
    tree: bool = True,
    stops: bool = False,
    design: tuple[str, ...] = (),
) -> Kind:
    """Return a kind of drafter made of layers.

    Parameters
    ----------
    kind
        One of `HEAD_KINDS`, or Medusa's heads.
    config
        What its config holds: a ``"drafter"`` or a ``"model"``.
    tree
        Whether it can propose trees.
    stops
        Whether llama.cpp has it, where a draft may end early.
    design
        Keys of `_DESIGN` that it takes.
    """
    row = HEAD_KINDS.get(kind)
    build = medusa_drafter if row is None else partial(head_drafter, kind)
    sizes = dict(_BLOCK) if row is not None and row.block is not None else {}
    if row is not None and row.most_steps > 1:
        sizes |= _STEPS
    is_model = config == "model"

    def built(values: Values, name: str) -> Drafter:
        if "block" in values and "drafts" in values:
            reject("block and drafts are given", "one of them")
        own = [key for key in ("device", "link", "link-latency") if key in values]
        if values.get("device") == "cpu":
            if not is_model or own != ["device"] or "tp" in values:
                reject("device is cpu", "for a model, without tp=, link= and link-latency=")
        elif own and len(own) < 3:
            reject(f"{' and '.join(own)} without the rest", "device=, link= and link-latency=")
        for key, quantity in _WHERE_QUANTITIES.items():
            if key in values:
                number_within(key, values[key], quantity)
        where = Where(
            hardware=values.get("device"),
            tensor_parallel=_whole("tp", values["tp"], int(BOUNDS["devices"].most))
            if "tp" in values
            else None,
            link_bytes_per_s=values.get("link"),
            link_latency_s=values.get("link-latency", 0.0),
            hit_rate=values.get("overlap"),
        )
        given: dict[str, Any] = {key: _whole(key, values[key]) for key in sizes if key in values}
        layers = values.get("config")
        if design:
            given["design"] = _design(values)
        elif "weights" in values:
            mix = values["weights"].casefold()  # files are called Q8_0
            expect_word("weights", mix, WEIGHT_MIXES)
            layers = stored_as(layers, mix)
        drafter = build(layers, name=name, where=where, **given)
        if _STOP.keys() & values.keys():
            return _stopping(drafter, values)
        return _branching(drafter, values) if _TREE.keys() & values.keys() else drafter

    return Kind(
        built,
        keys={
            **_CONFIG,
            **(_MIX if is_model else {}),
            **sizes,
            **_WHERE,
            **(_TREE if tree else {}),
            **(_STOP if stops else {}),
            **{key: _DESIGN[key] for key in design},
        },
        required=(("config",),) if row is not None and row.usual is None else (),
        reads={**_READS, "config": config},
        design=design,
    )


_LOOKUP: Final = Kind(
    _lookup,
    keys={
        "match": "share of rounds in which something is found (default: 1)",
        "round-s": "seconds on the host per round (default: as published)",
        "token-s": "seconds on the host per proposed token",
    },
)

#: Every kind that a SPEC may begin with.
KINDS: Final[dict[str, Kind]] = {
    "ideal": Kind(lambda _values, _name: ideal_drafter(), keys={}),
    "autoregressive": Kind(
        lambda values, name: autoregressive_drafter(values["cost"], name=name),
        keys={"cost": "share of the target's plain step per draft token"},
        required=(("cost",),),
    ),
    "block": Kind(
        _block_share,
        keys={
            "cost": "share of the target's plain step per block",
            "block": "positions of a block: one anchor, the rest drafts",
            "drafts": "drafts of a block",
        },
        required=(("cost",), ("block", "drafts")),
    ),
    "mtp": _with_config("mtp", stops=True, design=("layers", "vocab", "weights")),
    "eagle": _with_config("eagle"),
    "eagle3": _with_config("eagle3", stops=True, design=tuple(_DESIGN)),
    "medusa": _with_config("medusa"),
    "dflash": _with_config("dflash", stops=True, design=tuple(_DESIGN)),
    "dspark": _with_config("dspark", stops=True),
    "p_eagle": _with_config("p_eagle", tree=False),
    "pard": _with_config("pard", tree=False),
    "model": _with_config("model", config="model", stops=True),
    "ngram": _LOOKUP,
    "prompt_lookup": _LOOKUP,
    "suffix": _LOOKUP,
}
#: Kinds that a server could run, unlike shares of time; none runs Medusa's heads by now.
SERVED_KINDS: Final = frozenset(KINDS) - {"ideal", "autoregressive", "block"}
