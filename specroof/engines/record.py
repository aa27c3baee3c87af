"""What engines predict for measured points: the passes behind them, recorded once, then timed.

Every formula is the one of predictions: `round_time`, `draft_time`, `end_to_end_tokens_per_s` and
`pass_time` over all passes of an engine at once, so that a fit may ask hundreds of times.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from specroof.arrays import Array, grouped
from specroof.cost import ForwardPass
from specroof.drafters import Drafter, Proposals, TokensPerRound
from specroof.errors import MeasurementError
from specroof.evidence import STEP, Measurement, measured_of, request_lengths
from specroof.hardware.engine import EngineProfile
from specroof.latency.model import Work, model_work, stacked
from specroof.latency.pass_seconds import PassWork, pass_time
from specroof.latency.setup import Deployment, drafting_engine, drafting_setup
from specroof.serving.capacity import prefill_rules
from specroof.serving.prefills import (
    RequestLoad,
    RequestTiming,
    end_to_end_tokens_per_s,
    read_once_s,
    request_timing,
)
from specroof.serving.workload import prefill_pass
from specroof.speedup.curve import PassSeconds, draft_time, engine_round_s, proposals, round_time
from specroof.speedup.result import speedup_of

#: The engine of cases that say no other, and of their bare passes.
ONLY: Final = "the engine"
BARE: Final = "the engine of bare passes"


def of_bare_passes(engine: EngineProfile) -> EngineProfile:
    """Return an engine whose passes are timed alone: no sequences are scheduled around them."""
    return replace(engine, sequence_overhead_s=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCase:
    """A measured point as it is to be predicted.

    Parameters
    ----------
    point
        What was measured.
    served
        Of what, where. Cases that share it are predicted together.
    drafter, proposed
        What drafted, and what it proposed; None where nothing did.
    engine
        A name for its engine, which `Record.rates` may be asked to replace.
    """

    point: Measurement
    served: Deployment
    drafter: Drafter | None = None
    proposed: Proposals | None = None
    engine: Hashable = ONLY

    @property
    def branches(self) -> bool:
        """Whether its drafts are a tree."""
        return self.proposed is not None and bool(self.proposed.branches.any())


def case_of(
    point: Measurement,
    served: Deployment,
    drafting: tuple[Drafter, TokensPerRound] | None,
    engine: Hashable = ONLY,
) -> MeasuredCase:
    """Return a point as it is to be predicted.

    Parameters
    ----------
    point, served
        See `MeasuredCase`.
    drafting
        What drafts, and how much of it is accepted; None where nothing does.
    engine
        See `MeasuredCase`.

    Raises
    ------
    MeasurementError
        For more drafts than the drafter makes.
    """
    if drafting is None:
        return MeasuredCase(point, served, engine=engine)
    drafter, tokens = drafting
    proposed = proposals(drafter, tokens, np.array([point.draft_len]))
    if not np.all(np.isfinite(proposed.tokens_per_round)):
        message = f"{point.place}: {point.draft_len} drafts are more than {drafter.name} makes"
        raise MeasurementError(message)
    case = MeasuredCase(point, served, drafter, proposed, engine)
    if not case.branches or tokens is drafter.acceptance:
        return case
    # What was measured is of the tree; what siblings would add to a chain is in it.
    measured = tokens.tokens_per_round(np.array([point.draft_len]))
    return replace(case, proposed=replace(proposed, tokens_per_round=measured))


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Tokens per second of the whole batch, one entry for each case.

    Parameters
    ----------
    plain
        Without drafts.
    speculative
        With them; NaN where nothing drafts.
    draft_s, verify_s
        Seconds of drafting and of verification in a round; NaN where nothing drafts.
    """

    plain: Array
    speculative: Array
    draft_s: Array
    verify_s: Array

    @property
    def speedup(self) -> Array:
        """With drafts over without."""
        return speedup_of(self.speculative, 1.0, 1.0 / self.plain)  # tokens of a second

    @property
    def draft_share(self) -> Array:
        """Drafting over drafting and verification."""
        return self.draft_s / (self.draft_s + self.verify_s)

    def as_measured(self, points: Sequence[Measurement]) -> Array:
        """Return of each point what was measured of it; see `specroof.evidence.measured_of`."""
        return np.array(
            [getattr(self, measured_of(point)[0])[row] for row, point in enumerate(points)]
        )

    @property
    def measured(self) -> Array:
        """As each point was run: with drafts where something drafts."""
        return np.where(np.isfinite(self.speculative), self.speculative, self.plain)


class _Group:
    """Points of one model in one setup with one drafter, which differ in load and draft length."""

    def __init__(self, rows: Sequence[int], cases: Sequence[MeasuredCase]) -> None:
        first = cases[0]
        points = [case.point for case in cases]
        lengths = np.array([request_lengths(point) for point in points])
        self.rows, self.size, self.engine = np.array(rows), len(rows), first.engine
        self.served, self._drafter = first.served, first.drafter
        self._prompt, self._answer, self._context = lengths.T
        self._batch = np.array([float(point.batch_size or 0) for point in points])
        self._drafts = np.array([float(point.draft_len or 0) for point in points])
        widths = np.array([float(point.verify_len or 1) for point in points])
        heads = np.array([float(point.head_len or point.verify_len or 1) for point in points])
        step, head = (widths, heads) if points[0].method == STEP else (1.0, 1.0)
        self._proposed = proposed = _together([case.proposed for case in cases if case.proposed])
        self._decode = ForwardPass(self._batch, step, self._context, head_len=head)
        self._verify = ForwardPass(self._batch, proposed.verify_len, self._context)
        # None where prompts do not count.
        self._plain: RequestTiming | None = None
        self._drafted: RequestTiming | None = None
        if points[0].includes_prefill:
            self._plain = self._timing(_together(()), None)
            if first.drafter is not None:
                self._drafted = self._timing(proposed, first.drafter.kind)

    def _timing(self, proposed: Proposals, drafting: str | None) -> RequestTiming:
        """Return what times the requests, with a kind of drafter or without."""
        load = RequestLoad(
            new_len=self._prompt,
            output_len=self._answer,
            running=self._batch,
            context_len=self._context,
            verify_len=proposed.verify_len,
            tokens_per_round=proposed.tokens_per_round,
        )
        return request_timing(load, prefill_rules(self.served, drafting))

    def timed(self, passes: PassSeconds, engine: EngineProfile) -> Rates:
        """Return tokens per second without drafts and with them, and what rounds are made of.

        Parameters
        ----------
        passes
            Seconds of each pass; which are asked for, and in which order, depends on no engine.
        engine
            What the engine adds to passes.
        """
        served, proposed = self.served, self._proposed

        decode_s = passes(served, self._decode)
        plain = self._tokens_per_s(decode_s, np.ones(1), self._plain, passes, engine)
        if self._drafter is None:
            nothing = np.full(self.size, np.nan)
            return Rates(plain, nothing, nothing, nothing)
        verify_s = passes(served, self._verify)
        load = (self._context, self._batch, self._drafts)
        drafting = draft_time(served, self._drafter, proposed, load, (decode_s, verify_s), passes)
        setup = replace(served.setup, engine=engine)
        added_s = engine_round_s(setup, self._drafter, proposed, self._batch)
        round_s = round_time(verify_s, drafting, added_s)
        tokens = proposed.tokens_per_round
        return Rates(
            plain,
            self._tokens_per_s(round_s, tokens, self._drafted, passes, engine, self._drafter),
            drafting.serial_s + drafting.overlapped_s,
            verify_s,
        )

    def _tokens_per_s(
        self,
        round_s: Array,
        tokens: Array,
        timing: RequestTiming | None,
        passes: PassSeconds,
        engine: EngineProfile,
        drafter: Drafter | None = None,
    ) -> Array:
        """Return tokens per second of rounds, with the requests that they belong to."""
        if timing is None:
            return self._batch * tokens / round_s
        times = timing(self.served, passes, round_s, engine)
        if drafter is not None:
            rules, prompt = prefill_rules(self.served, drafter.kind), prefill_pass(self._prompt)
            others_s, own_s = read_once_s(self.served, drafter, prompt, rules, passes)
            token_s = times.token_s + (own_s - others_s) / self._answer
            times = replace(times, token_s=token_s, wait_s=times.wait_s + others_s)
        return end_to_end_tokens_per_s(
            self._batch,
            times.token_s,
            wait_s=times.wait_s,
            output_len=self._answer,
            latency_s=engine.lost_s(self._prompt),
        )


def _together(proposed: Sequence[Proposals]) -> Proposals:
    """Return proposals of several points, each for one draft length, as arrays over the points."""
    if not proposed:
        return Proposals(np.ones(1), np.ones(1), (), np.zeros(1, dtype=np.bool_))
    counts = [
        np.concatenate([np.atleast_1d(count) for _, count in level])
        for level in zip(*(proposal.expansions for proposal in proposed), strict=True)
    ]
    accepted = [one.all_accepted for one in proposed if one.all_accepted is not None]
    return Proposals(
        verify_len=np.concatenate([proposal.verify_len for proposal in proposed]),
        tokens_per_round=np.concatenate([proposal.tokens_per_round for proposal in proposed]),
        expansions=tuple(zip(_widths(proposed[0]), counts, strict=True)),
        branches=np.concatenate([proposal.branches for proposal in proposed]),
        looked_up=proposed[0].looked_up,
        all_accepted=np.concatenate(accepted) if accepted else None,
    )


def _widths(proposed: Proposals | None) -> tuple[float, ...]:
    return () if proposed is None else tuple(width for width, _ in proposed.expansions)


class Tape:
    """The passes behind groups of points, recorded once, to be timed in any engines of their kind.

    Parameters
    ----------
    groups
        Each has a deployment ``served``, a name ``engine`` of its engine, a ``size``, and
        ``timed(passes, engine)``, which asks for the same passes whatever the engine. What is
        recorded depends on the sizes that engines capture, on how they keep state and route tokens,
        and on no other figure.
    """

    def __init__(self, groups: Sequence[Any]) -> None:
        self._groups = groups
        self._engines = {group.engine: group.served.setup.engine for group in groups}
        # Devices of a drafter's own keep their engine, whatever is asked of the target's.
        self._fixed: dict[Hashable, EngineProfile] = {}
        self._recorded: dict[_Key, tuple[list[PassWork], list[int]]] = {}
        self._order: list[tuple[_Key, slice]] = []
        for group in groups:
            group.timed(partial(self._note, group), group.served.setup.engine)
        self._work = {key: stacked(*passes) for key, passes in self._recorded.items()}

    def _note(
        self,
        group: Any,
        served: Deployment,
        forward: ForwardPass,
        /,
        *beside: Work,
        drafts: bool = False,
    ) -> Array:
        """Return the seconds of a pass for each point of a group, and write the pass down."""
        setup, engine, name = served.setup, served.setup.engine, group.engine
        if engine is not group.served.setup.engine:
            name = ("elsewhere", id(engine))
            self._fixed[name] = engine
        if drafts:
            setup = drafting_setup(served.model, setup)
        work = model_work(served.model, setup, forward, beside=beside)
        key = (name, drafts, setup.options.granularity)
        works, sizes = self._recorded.setdefault(key, ([], []))
        first = sum(sizes)
        works.append(work)
        sizes.append(group.size)
        self._order.append((key, slice(first, first + group.size)))
        seconds = pass_time(work, setup.engine, setup.options.granularity).total_s
        return np.broadcast_to(seconds, (group.size,))

    def timed(self, engines: Mapping[Any, EngineProfile]) -> Iterator[tuple[Any, Any]]:
        """Yield each group, and what its passes say of it in some engines.

        Parameters
        ----------
        engines
            By the names that groups have for them; those left out are as in their setups.
        """
        known = {**self._engines, **engines}
        seconds = {}
        for key, work in self._work.items():
            name, drafts, granularity = key
            engine = self._fixed.get(name) or known[name]
            runs_in = drafting_engine(engine) if drafts else engine
            seconds[key] = pass_time(work, runs_in, granularity).total_s
        order = iter(self._order)

        def replayed(*_pass: object, **_how: bool) -> Array:
            """Return the seconds of the next pass, in the order of the tape."""
            key, where = next(order)
            return seconds[key][where]

        for group in self._groups:
            yield group, group.timed(replayed, known[group.engine])


#: A name of an engine, whether a drafter's pass runs in it, and how its work is added up.
_Key = tuple[Hashable, bool, str]


class Record:
    """Points whose passes are recorded once, to be predicted in any engines of their kind.

    Parameters
    ----------
    cases
        The points.
    """

    def __init__(self, cases: Sequence[MeasuredCase]) -> None:
        self._n = len(cases)

        def alike(row: int) -> Hashable:
            case, of = cases[row], cases[row].point
            setup = (id(case.served), id(case.drafter), _widths(case.proposed), case.engine)
            return (*setup, of.includes_prefill, of.method == STEP)

        together = grouped(range(self._n), alike).values()
        self._tape = Tape([_Group(rows, [cases[row] for row in rows]) for rows in together])

    def rates(self, engines: Mapping[Any, EngineProfile] = MappingProxyType({})) -> Rates:
        """Return what is predicted of each case.

        Parameters
        ----------
        engines
            As of `Tape.timed`, by the names that cases have for them.
        """
        rates = Rates(*(np.empty(self._n) for _ in fields(Rates)))
        for group, own in self._tape.timed(engines):
            for column in fields(Rates):
                getattr(rates, column.name)[group.rows] = getattr(own, column.name)
        return rates
