"""A round of speculation against a plain step: where its seconds go, part by part."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from specroof.acceptance import accepted_at
from specroof.arrays import Array
from specroof.cost import ForwardPass
from specroof.drafters import Drafter
from specroof.latency.model import micro_batches
from specroof.latency.pass_seconds import PassLatency
from specroof.latency.setup import Deployment
from specroof.speedup.curve import acceptance_of, engine_round_s, pass_latency, proposals
from specroof.speedup.result import SpeedupCurve, speedup_of

DRAFTING: Final = "drafting"
ENGINE: Final = "engine, per round"
OTHERS: Final = "other micro-batches"
#: What kinds of operation are called; `dense` stands for all that are not named.
_GROUPS: Final = {
    "experts": "experts",
    "attention": "attention and its cache",
    "latent_attention": "attention and its cache",
    "unsplit_attention": "attention and its cache",
    "indexer": "attention and its cache",
    "compressor": "attention and its cache",
    "state": "recurrent state",
    "convolution": "recurrent state",
    "head": "LM head",
    "router": "router",
}


@dataclass(frozen=True, slots=True)
class RoundParts:
    """One round against one plain step.

    Parameters
    ----------
    drafter, draft_len
        What drafts, and how much.
    batch_size, context_len
        The load.
    decode_s, round_s
        Seconds of the plain step and of the round.
    tokens_per_round
        What the round commits, bonus token included.
    added_s
        What the round has beyond the step, by part: drafting, groups of operations of the
        verification beyond those of the step, and the engine; they add up to
        ``round_s - decode_s``.
    decode_parts_s
        The groups of the plain step; they add up to `decode_s`.
    """

    drafter: str
    draft_len: int
    batch_size: float
    context_len: float
    decode_s: float
    round_s: float
    tokens_per_round: float
    added_s: Mapping[str, float]
    decode_parts_s: Mapping[str, float]

    @property
    def steps(self) -> float:
        """Plain steps that a round takes: the tokens that break even."""
        return self.round_s / self.decode_s

    @property
    def speedup(self) -> float:
        """The speedup of the round over the plain step."""
        return float(speedup_of(self.tokens_per_round, self.round_s, self.decode_s))

    def largest(self, share: float = 0.7) -> list[tuple[str, float]]:
        """Return the largest added parts, in plain steps, that hold a share of all that is added.

        Examples
        --------
        >>> parts = RoundParts("x", 1, 1, 0, 2.0, 5.0, 2.0, {"a": 2.0, "b": 0.9, "c": 0.1}, {})
        >>> parts.largest(), parts.largest(0.6)
        ([('a', 1.0), ('b', 0.45)], [('a', 1.0)])
        """
        added = sorted(self.added_s.items(), key=lambda one: -one[1])
        wanted = share * sum(seconds for _, seconds in added if seconds > 0)
        found: list[tuple[str, float]] = []
        for name, seconds in added:
            if sum(steps for _, steps in found) * self.decode_s >= wanted:
                break
            found.append((name, seconds / self.decode_s))
        return found


def group_seconds(latency: PassLatency) -> dict[str, Array]:
    """Return the seconds of passes by groups of operations; they add up to all of each.

    Parameters
    ----------
    latency
        One pass, or a grid of them.

    Counts
        what a coarser granularity than the operation overlaps between them, as a group below 0.
    Source
        Counting.
    """
    found: dict[str, Array] = {}
    for op in latency.ops:
        group = _GROUPS.get(op.op.kind, "dense matmuls")
        found[group] = np.asarray(found.get(group, 0.0) + op.seconds)
    # Summed in the order in which the pass does, rounding is all that differs per operation.
    summed_s = np.asarray(sum(found.values()))
    if not np.allclose(latency.work_s, summed_s, rtol=1e-12, atol=0.0):
        found["overlap between operations"] = latency.work_s - summed_s
    found["collectives"] = latency.communication_s
    found["engine, per pass"] = latency.overhead_s
    found[OTHERS] = np.asarray(latency.waiting_s)
    return {name: seconds for name, seconds in found.items() if np.any(seconds)}


def round_parts(
    deployment: Deployment, drafter: Drafter, curve: SpeedupCurve, draft_len: int
) -> tuple[RoundParts, PassLatency]:
    """Return a round part by part, and its verification operation by operation.

    Parameters
    ----------
    deployment, drafter
        What is served, and what drafts, with its acceptance.
    curve
        Their curve at one load.
    draft_len
        Drafts per round, within the curve.

    Source
        `specroof.speedup.curve.round_time`, term by term.
    """
    at = (0, 0, draft_len)
    batch, context = float(curve.batch_size[0]), float(curve.context_len[0])
    passes = [
        pass_latency(deployment, ForwardPass(batch, query_len, context))
        for query_len in (1, float(np.asarray(curve.verify_len)[draft_len]))
    ]
    plain, verified = (
        {name: float(seconds) for name, seconds in group_seconds(latency).items()}
        for latency in passes
    )
    accepted = accepted_at(acceptance_of(drafter), context)
    proposed = proposals(drafter, accepted, np.array([draft_len]))
    placement, together = deployment.setup.placement, np.array([batch])
    if placement.pipeline_parallel > 1:
        together = together / micro_batches(together, deployment.setup)
    engine_s = float(engine_round_s(deployment.setup, drafter, proposed, together)[0])
    # What the target waits for: of drafting beside the verification, what outlasts it; in the last
    # stage of a pipeline the rounds of other micro-batches too.
    waited_s = float(curve.round_s[at] - curve.verify_s[at]) - engine_s
    added = {DRAFTING: min(waited_s, float(curve.draft_s[at]))}
    added |= {name: verified.get(name, 0.0) - plain.get(name, 0.0) for name in plain | verified}
    added[ENGINE] = engine_s
    if placement.pipeline_parallel > 1:
        added[OTHERS] = added.get(OTHERS, 0.0) + waited_s - added[DRAFTING]
    parts = RoundParts(
        drafter=drafter.name,
        draft_len=draft_len,
        batch_size=batch,
        context_len=context,
        decode_s=float(curve.decode_s[0, 0]),
        round_s=float(curve.round_s[at]),
        tokens_per_round=float(curve.tokens_per_round[at]),
        added_s={name: seconds for name, seconds in added.items() if seconds},
        decode_parts_s=plain,
    )
    return parts, passes[1]
