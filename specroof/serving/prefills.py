"""Prompts: the passes that come before the first token, whole or in chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.cost import ForwardPass
from specroof.hardware import EngineProfile
from specroof.latency import Work
from specroof.serving.capacity import PrefillRules
from specroof.serving.closed_loop import (
    SharedPasses,
    Wave,
    answer_rounds,
    prompts_together,
    shared_passes,
    shared_wave,
)
from specroof.serving.workload import prefill_pass, time_to_first_token_s
from specroof.speedup.round import Deployment, PassSeconds


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """Prompts of one length, or of an array of lengths.

    Parameters
    ----------
    new_len
        Tokens that are computed.
    cached_len
        Tokens before them, which a cache of prefixes holds.
    """

    new_len: npt.ArrayLike
    cached_len: npt.ArrayLike = 0.0

    def chunks(self, tokens: float) -> Array:
        """Return the passes of a prompt that takes `tokens` in each; 0 takes it whole."""
        new = np.asarray(self.new_len, dtype=np.float64)
        return np.ceil(new / tokens) if tokens else np.ones_like(new)

    def piece_pass(self, pieces: npt.ArrayLike, prompts: npt.ArrayLike) -> ForwardPass:
        """Return the pass over one of so many equal pieces of some prompts: the mean one.

        Ignores
            that pieces are full ones and a rest: their tokens, and the tokens that they attend
            to, add up to the same.
        """
        new = np.asarray(self.new_len, dtype=np.float64)
        length = np.maximum(new / np.asarray(pieces), 1.0)
        before = np.asarray(self.cached_len) + (new - length) / 2
        return prefill_pass(length, batch_size=prompts, context_len=before)


@dataclass(frozen=True, slots=True, eq=False)
class PromptGroups:
    """Prompts that wait together, in the passes that take them.

    Parameters
    ----------
    count
        How many wait.
    together
        How many pass together.
    pieces
        Passes that each group takes.
    forward
        The mean one of them.
    """

    count: Array
    together: Array
    pieces: Array
    forward: ForwardPass

    def each_s(self, pass_s: Array) -> Array:
        """Return the seconds of all passes for each prompt, given those of one pass."""
        return np.asarray(self.pieces * pass_s / self.together)

    def through_s(self, pass_s: Array) -> Array:
        r"""Return the mean seconds until a prompt is through.

        .. math:: w \, (n + 1) / 2

        with w seconds for each of n groups.
        """
        groups = self.count / self.together
        return np.asarray(self.pieces * pass_s * (groups + 1) / 2)


def prompt_groups(prompt: Prompt, count: Array, chunk: float) -> PromptGroups:
    """Return the passes over some prompts: short ones share them, long ones take several each.

    Parameters
    ----------
    prompt, count
        The prompts, and how many.
    chunk
        Tokens of a pass; 0 takes all prompts in one.

    Ignores
        that a pass may take the end of one long prompt and the beginning of the next.
    Source
        SGLang 0.5.23 ``managers/schedule_policy.py``, ``PrefillAdder``: prompts are added until the
        tokens of a chunk are used up.

    Examples
    --------
    >>> four = prompt_groups(Prompt(1024.0), np.array(4.0), 2048)
    >>> [float(seconds(np.array(1.0))) for seconds in (four.each_s, four.through_s)]  # two by two
    [0.5, 1.5]
    """
    pieces = prompt.chunks(chunk)
    fit = np.maximum(chunk / np.asarray(prompt.new_len), 1.0) if chunk else np.inf
    together = np.minimum(count, fit)
    return PromptGroups(count, together, pieces, prompt.piece_pass(pieces, together))


# --- What prompts do to decoding: they stop the batch, or share its passes; seconds of both ------

#: Sequences of a pass, at least: perhaps no other request decodes.
_FEWEST: Final = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class RequestLoad:
    """Requests that a server runs, in arrays that broadcast.

    Parameters
    ----------
    prompt, output_len
        Tokens in, and out.
    running
        Requests that run at a time: one that ends makes room for the next.
    context_len
        Cached tokens of each while it is decoded.
    verify_len, tokens_per_round
        Positions of a round, and the tokens that it commits; 1 and 1 of plain decoding.
    waves
        Whether all start together, and the next when all of these are answered.
    """

    prompt: Prompt
    output_len: npt.ArrayLike
    running: Array
    context_len: npt.ArrayLike
    verify_len: npt.ArrayLike
    tokens_per_round: Array
    waves: bool = False

    @property
    def rounds(self) -> Array:
        """Rounds of an answer."""
        return answer_rounds(self.output_len, self.tokens_per_round)


@dataclass(frozen=True, slots=True, eq=False)
class RequestTimes:
    """Seconds of a request that runs.

    Parameters
    ----------
    token_s
        Of its passes, over the tokens of its answer.
    wait_s
        That each request keeps all others waiting.
    first_s
        From its start to its first token, its own `latency_s` not counted.
    idle_s
        From its last token to the end of its wave.
    """

    token_s: Array
    wait_s: Array
    first_s: Array
    idle_s: Array | float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StoppedPlan:
    """Which passes take prompts that stop the batch.

    Parameters
    ----------
    load
        The requests.
    mean, found
        Prompts that start together: the mean group, and the one that a prompt finds itself in.
    """

    load: RequestLoad
    mean: PromptGroups
    found: PromptGroups

    def priced(self, served: Deployment, seconds: PassSeconds) -> "Prefills":
        """Return the passes with the seconds of each."""
        passes = (self.mean.forward, self.found.forward)
        return Prefills(self, tuple(seconds(served, one) for one in passes))

    def times(self, pass_s: Sequence[Array], round_s: Array, engine: EngineProfile) -> RequestTimes:
        """Return the seconds of a request: see `Prefills`."""
        mean_s, found_s = pass_s
        load, found, each_s = self.load, self.found, engine.request_overhead_s
        return RequestTimes(
            token_s=np.asarray(load.rounds * round_s / np.asarray(load.output_len)),
            wait_s=time_to_first_token_s(
                self.mean.each_s(mean_s), batch_size=1.0, request_overhead_s=each_s
            ),
            first_s=time_to_first_token_s(
                found.through_s(found_s), batch_size=found.count, request_overhead_s=each_s
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SharedPlan:
    """Which passes take prompts beside decoding.

    Parameters
    ----------
    load, rules
        The requests, and how the server takes prompts.
    passes
        The steady state.
    decode
        A pass in which all decode.
    beside
        What decodes in a pass with prompts.
    chunk, own_chunk
        What such a pass takes of prompts: the mean one, and the mean one that a prompt is in.
    """

    load: RequestLoad
    rules: PrefillRules
    passes: SharedPasses
    decode: ForwardPass
    beside: ForwardPass
    chunk: ForwardPass
    own_chunk: ForwardPass

    def priced(self, served: Deployment, seconds: PassSeconds) -> "Prefills":
        """Return the passes with the seconds of each."""
        prompts, own_prompts = (
            Work(served.model, one, kind="prompts") for one in (self.chunk, self.own_chunk)
        )
        decode_s = seconds(served, self.decode)
        mixed_s = seconds(served, self.beside, prompts)
        return Prefills(self, (decode_s, mixed_s, seconds(served, self.beside, own_prompts)))

    def times(self, pass_s: Sequence[Array], round_s: Array, engine: EngineProfile) -> RequestTimes:
        """Return the seconds of a request: see `Prefills`."""
        decode_s, mixed_s, own_s = pass_s
        # What a round takes besides its pass: drafting, and what the engine adds.
        beside_s = round_s - decode_s
        shared_s = beside_s if self.rules.drafts_beside else 0.0 * beside_s
        mixed = self.passes.mixed_frac
        mean_s = mixed * (mixed_s + shared_s) + (1 - mixed) * round_s
        wait_s = np.full_like(mean_s, engine.request_overhead_s)
        return RequestTimes(
            token_s=np.asarray(self.passes.passes * mean_s / np.asarray(self.load.output_len)),
            wait_s=wait_s,
            first_s=np.asarray(self.passes.waited * (own_s + shared_s) + wait_s),
        )


@dataclass(frozen=True, slots=True, eq=False)
class WavePlan:
    """Which passes take the prompts of a wave beside decoding.

    Parameters
    ----------
    load, rules
        What prompts, and how they are taken.
    wave
        The passes of a wave.
    """

    load: RequestLoad
    rules: PrefillRules
    wave: Wave

    def priced(self, served: Deployment, seconds: PassSeconds) -> "Prefills":
        """Return the passes with the seconds of each."""
        load, wave = self.load, self.wave

        def decoding(requests: Array, positions: npt.ArrayLike) -> ForwardPass:
            return ForwardPass(np.maximum(requests, _FEWEST), positions, load.context_len)

        chunk = load.prompt.piece_pass(wave.pieces, wave.prompts)
        beside = decoding(wave.beside, load.verify_len if self.rules.drafts_beside else 1.0)
        decode_s = seconds(served, decoding(load.running, load.verify_len))
        ending_s = seconds(served, decoding(wave.ending, load.verify_len))
        mixed_s = seconds(served, beside, Work(served.model, chunk, kind="prompts"))
        return Prefills(self, (decode_s, ending_s, mixed_s))

    def times(self, pass_s: Sequence[Array], round_s: Array, engine: EngineProfile) -> RequestTimes:
        """Return the seconds of a request: see `Prefills`."""
        decode_s, ending_s, mixed_s = pass_s
        load, wave = self.load, self.wave
        beside_s = round_s - decode_s
        filling_s = mixed_s + (beside_s if self.rules.drafts_beside else 0.0)
        ending_s = ending_s + beside_s
        wave_s = wave.wave_s(load.rounds, filling_s=filling_s, round_s=round_s, ending_s=ending_s)
        wait_s = np.full_like(wave_s, engine.request_overhead_s)
        return RequestTimes(
            token_s=wave_s / np.asarray(load.output_len),
            wait_s=wait_s,
            # A request waits for half of what the others take.
            first_s=wave.first_s(filling_s) + (load.running + 1) / 2 * wait_s,
            idle_s=wave.idle_s(filling_s=filling_s, ending_s=ending_s),
        )


PrefillPlan: TypeAlias = StoppedPlan | SharedPlan | WavePlan


@dataclass(frozen=True, slots=True, eq=False)
class Prefills:
    """What prompts do to decoding.

    Parameters
    ----------
    plan
        Which passes take them.
    pass_s
        Seconds of each.
    """

    plan: PrefillPlan
    pass_s: tuple[Array, ...]

    def times(self, round_s: Array, engine: EngineProfile) -> RequestTimes:
        """Return the seconds of a request, given those of a round of all that run."""
        return self.plan.times(self.pass_s, round_s, engine)


def prefill_plan(load: RequestLoad, rules: PrefillRules) -> PrefillPlan:
    """Return which passes a server takes prompts in; no engine matters.

    Parameters
    ----------
    load
        The requests.
    rules
        How the server takes prompts.

    Ignores
        a drafter's own passes over prompts: a layer or a few, beside those of the model.
    """
    if rules.shares_passes:
        if not load.waves:
            return _shared(load, rules)
        return WavePlan(load, rules, shared_wave(load.running, load.rounds, **_terms(load, rules)))
    together = prompts_together(load.running, load.rounds)
    mean, found = (load.running, load.running) if load.waves else together
    return StoppedPlan(
        load,
        mean=prompt_groups(load.prompt, mean, rules.chunk),
        found=prompt_groups(load.prompt, found, rules.chunk),
    )


def _terms(load: RequestLoad, rules: PrefillRules) -> dict[str, npt.ArrayLike]:
    drafts = rules.drafts_beside
    return {
        "new_len": load.prompt.new_len,
        "budget": rules.chunk,
        "positions": load.verify_len if drafts else 1.0,
        "slowed": 1.0 if drafts else load.tokens_per_round,
    }


def _shared(load: RequestLoad, rules: PrefillRules) -> SharedPlan:
    terms = _terms(load, rules)
    passes = shared_passes(load.running, load.rounds, **terms)
    # In a pass without prompts all decode; what is left of the mean decode in those with one.
    mixed = passes.mixed_frac
    decoding = passes.started * passes.decoded
    others = np.clip((decoding - (1 - mixed) * load.running) / mixed, _FEWEST, load.running)
    return SharedPlan(
        load,
        rules,
        passes,
        decode=ForwardPass(load.running, load.verify_len, load.context_len),
        beside=ForwardPass(others, terms["positions"], load.context_len),
        chunk=load.prompt.piece_pass(passes.pieces, passes.prompts),
        own_chunk=load.prompt.piece_pass(passes.pieces, passes.own_prompts),
    )
