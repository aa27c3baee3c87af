"""How do times spread while a batch is decoded, and is speculative sampling exact?"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Annotated, Any, Final

import numpy as np

from specroof import quantities as q
from specroof.acceptance import Acceptance, constant_acceptance
from specroof.arrays import fields_of
from specroof.drafters import Drafter
from specroof.drafters.base import chain_proposals
from specroof.errors import OptionError, reject
from specroof.montecarlo import (
    ExactnessResult,
    check_tokens,
    random_distributions,
    simulate_exactness,
)
from specroof.montecarlo import simulate_batch as simulated
from specroof.outcomes.case import Case
from specroof.questions import parameters as p
from specroof.questions.answer import Noted, ServedAnswer, rows_table
from specroof.questions.request import Command, DeploymentRequest, question
from specroof.reading.words import probabilities
from specroof.serving.capacity import server_room
from specroof.serving.served import room_rule, served_curve
from specroof.serving.workload import Load
from specroof.speedup.curve import longest_draft
from specroof.speedup.reach import how_sure
from specroof.units import format_drafts, format_seconds, plain_number


@dataclass(frozen=True, kw_only=True)
class TimesRequest(DeploymentRequest):
    """Ask how times spread while batches are decoded round by round."""

    drafter: p.ChainDrafter
    batch_size: Annotated[int, p.Parameter("Sequences at the start.", "--batch")] = 8
    context_len: Annotated[float, p.like(p.ContextLen)] = 4096
    draft_len: p.DraftLen = None
    output_len: Annotated[int, p.Parameter("Tokens of each answer.")] = 256
    n_batches: Annotated[int, p.Parameter("Batches to decode.", "--batches")] = 200
    seed: p.Seed = 0


#: What is timed, by the names of `BatchSimulation`.
_INTERVALS: Final = ("between_tokens", "between_bursts", "per_token", "batch")


@dataclass(frozen=True, kw_only=True)
class TimesRow(q.Row):
    """How one kind of time spreads at one draft length; kinds as of `BatchSimulation`."""

    draft_len: int
    interval: str
    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    tokens_per_round: float


@dataclass(frozen=True, repr=False, eq=False)
class BatchTimes(ServedAnswer):
    """How times spread while batches are decoded.

    Attributes
    ----------
    about, drafter
        What is served, where, and the name of what drafts.
    batch_size, context_len, output_len, n_batches
        As asked.
    rows
        Without drafts (0) and at the draft length asked about, each kind of time.
    notes, warnings
        Sentences for the reader.
    """

    drafter: str
    batch_size: int
    context_len: float
    output_len: int
    n_batches: int
    rows: tuple[TimesRow, ...]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        load = f"batch {self.batch_size}, context {plain_number(self.context_len)}"
        return f"{self.served}, {load}: {self.drafter}"

    def text(self) -> str:
        """Return the spread of times, with drafts and without."""
        told = (
            f"{format_seconds(row.mean_s)} with {format_drafts(row.draft_len)}"
            for row in self.rows
            if row.interval == "per_token"
        )
        table = rows_table(self.rows, [*TimesRow.quantities()][:-1])
        return self.as_page(table, found=[f"mean time per token: {', '.join(told)}"])

    @property
    def sureness(self) -> str:
        """How near measurements are, in one sentence."""
        kind = self.drafter.partition(",")[0]
        return how_sure(self.deployment, [kind], self.context_len, self.batch_size)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        case = self.served_json(context_len=self.context_len)
        return self.envelope(
            case | fields_of(self, "drafter", "batch_size", "output_len", "n_batches")
        )


@question(TimesRequest, "acceptance-simulate-batch")
def times_of_batches(request: TimesRequest) -> BatchTimes:
    """Decode batches round by round: time between tokens at the mean, p50, p95 and p99."""
    drafter = request.sampled(request.drafter)
    acceptance = chain_acceptance(drafter)
    asked = fields_of(request, "output_len", "n_batches")
    check_tokens(request.batch_size, draft_len=request.draft_len or 0, **asked)
    longest = longest_draft(drafter, acceptance, request.draft_len, name="draft_len")
    deployment = request.resolved()
    # Over every batch size from 1 up: batches shrink while they are decoded.
    batches = np.arange(1.0, request.batch_size + 1).tolist()
    load = Load(batches, [request.context_len])
    curve = served_curve(deployment, drafter, load, "ignore", max_draft_len=longest).decoding
    full = list[str]()
    if room_rule(deployment.setup, None) != "ignore":
        room = server_room(deployment, drafter, curve.context_len, curve.verify_len)
        full += room.warnings(curve, "larger batches are priced as if memory had no end")
    length = request.draft_len
    if length is None:
        length = int(curve.best_draft_len[0, -1])
    rows = list[TimesRow]()
    for drafts in dict.fromkeys((0, length)):
        run = simulated(
            acceptance,
            curve.round_s[0, :, drafts],
            draft_len=drafts,
            seed=request.seed,
            **asked,
        )
        rows += [
            TimesRow(
                draft_len=drafts,
                interval=name,
                **asdict(getattr(run, name)),
                tokens_per_round=run.tokens_per_round,
            )
            for name in _INTERVALS
        ]
    return BatchTimes(
        Case(deployment, load),
        drafter=curve.drafter,
        **fields_of(request, "batch_size", "context_len"),
        **asked,
        rows=tuple(rows),
        notes=(*curve.notes, *full),
    )


def chain_acceptance(drafter: Drafter) -> Acceptance:
    """Return the survival of a chain's drafts; other proposals have no such curve.

    Raises
    ------
    OptionError
        For trees, and for a drafter without an acceptance, or with one by context.
    """
    if drafter.is_ideal:
        return constant_acceptance(1.0)
    if drafter.propose is not chain_proposals:
        reject(f"drafter is {drafter.name!r}, which proposes no chain", "a chain or block")
    if not isinstance(drafter.acceptance, Acceptance):
        message = f"drafter {drafter.name!r} has no acceptance; give one, as in accept=0.8"
        raise OptionError(message)
    return drafter.acceptance


@dataclass(frozen=True)
class ExactRequest:
    """Ask whether the tokens of speculative sampling follow the target."""

    target: Annotated[
        Sequence[float] | None,
        p.Parameter(
            "The target's distribution, as in 0.5,0.3,0.2.",
            in_python="Random ones if None.",
            read=probabilities,
        ),
    ] = None
    draft: Annotated[
        Sequence[float] | None, p.Parameter("The drafter's distribution.", read=probabilities)
    ] = None
    _: KW_ONLY
    vocabulary: Annotated[int, p.Parameter("Tokens of random distributions.")] = 16
    closeness: Annotated[
        float, p.Parameter("How alike random distributions are; 1 makes them equal.")
    ] = 0.5
    markov: Annotated[bool, p.Parameter("Random distributions depend on the token before.")] = False
    draft_len: Annotated[int, p.like(p.DraftLen)] = 4
    n_tokens: Annotated[int, p.Parameter("Tokens to commit.", "--tokens")] = 200_000
    seed: p.Seed = 0


@dataclass(frozen=True, repr=False, eq=False)
class Exactness(Noted):
    """Whether the tokens of speculative sampling follow the target.

    Attributes
    ----------
    result
        What was counted, and what the theory expects.
    notes, warnings
        Sentences for the reader.
    """

    result: ExactnessResult

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"{self.result.n_tokens} tokens, p = {self.result.p_value:.3f}"

    def text(self) -> str:
        """Return the counts, a line for each claim."""
        result = self.result
        follows = "follow" if result.p_value >= 0.001 else "DO NOT follow"
        return "\n".join(
            [
                f"{result.n_tokens} tokens in {result.n_rounds} rounds",
                f"the tokens {follows} the target: chi-squared {result.chi_squared:.1f} at "
                f"{result.degrees_of_freedom} degrees of freedom, p = {result.p_value:.3f}",
                f"acceptance {result.acceptance_rate:.4f}, 1 - total variation distance "
                f"{result.expected_acceptance_rate:.4f} ({result.acceptance_z:+.1f} sigma)",
                f"tokens per round {result.tokens_per_round:.4f}, by the formula "
                f"{result.expected_tokens_per_round:.4f} ({result.tokens_per_round_z:+.1f} sigma)",
            ]
        )

    @property
    def records(self) -> list[dict[str, Any]]:
        """What was counted, and what the theory expects."""
        return [asdict(self.result)]


@question(ExactRequest, "acceptance-simulate")
def sampling_is_exact(request: ExactRequest) -> Exactness:
    """Run speculative sampling on distributions and test its output against the target's."""
    if (request.target is None) != (request.draft is None):
        reject("target and draft belong together", "both or neither")
    if request.target is None or request.draft is None:
        pair = random_distributions(
            request.vocabulary, request.closeness, contexts=request.markov, seed=request.seed
        )
    else:
        pair = np.array(request.target), np.array(request.draft)
    return Exactness(
        simulate_exactness(*pair, **fields_of(request, "draft_len", "n_tokens", "seed"))
    )


COMMAND: Final = Command(
    question=sampling_is_exact,
    csv=False,
    commands={"batch": Command(question=times_of_batches)},
)
