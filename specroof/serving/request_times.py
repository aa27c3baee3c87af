"""What prompts do to decoding: they stop the batch, or share its passes; seconds of both."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.cost import ForwardPass
from specroof.drafters import Work
from specroof.hardware import EngineProfile
from specroof.serving.closed_loop import (
    SharedPasses,
    answer_rounds,
    prompts_together,
    shared_passes,
)
from specroof.serving.prompts import Prompt, prompts_s, time_to_first_token_s
from specroof.speedup.round import PassSeconds
from specroof.speedup.served import Served

__all__ = [
    "PrefillRules",
    "Prefills",
    "RequestLoad",
    "RequestTimes",
    "SharedPrefills",
    "StoppedPrefills",
    "prefills",
]

#: Sequences of a pass, at least: nobody else may be decoding.
_FEWEST: Final = 0.01


@dataclass(frozen=True, slots=True)
class PrefillRules:
    """How a server takes prompts.

    Parameters
    ----------
    chunk
        Tokens of a pass with prompts, those of decoding included where they share it; 0 for
        prompts in one piece.
    shares_passes
        Whether requests decode in passes with prompts; otherwise these stop the batch.
    drafts_beside
        Whether they draft there too; otherwise such a pass gives each one plain token.
    """

    chunk: float
    shares_passes: bool
    drafts_beside: bool


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
    """

    prompt: Prompt
    output_len: npt.ArrayLike
    running: Array
    context_len: npt.ArrayLike
    verify_len: npt.ArrayLike
    tokens_per_round: Array

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
    """

    token_s: Array
    wait_s: Array
    first_s: Array


@dataclass(frozen=True, slots=True, eq=False)
class StoppedPrefills:
    """Prompts whose passes stop the batch.

    Parameters
    ----------
    load
        The requests.
    prompt_s
        Seconds of the passes, for each prompt.
    through_s
        From the start of the first pass to the first token of a prompt.
    found
        Prompts that start with one, itself counted.
    """

    load: RequestLoad
    prompt_s: Array
    through_s: Array
    found: Array

    def times(self, round_s: Array, engine: EngineProfile) -> RequestTimes:
        """Return the seconds of a request, given those of a round of all that run."""
        load, each_s = self.load, engine.request_overhead_s
        return RequestTimes(
            token_s=np.asarray(load.rounds * round_s / np.asarray(load.output_len)),
            wait_s=time_to_first_token_s(self.prompt_s, batch_size=1.0, request_overhead_s=each_s),
            first_s=time_to_first_token_s(
                self.through_s, batch_size=self.found, request_overhead_s=each_s
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SharedPrefills:
    """Prompts whose chunks share passes with decoding.

    Parameters
    ----------
    load
        The requests.
    passes
        The steady state.
    decode_s
        Seconds of a pass without prompts, in which all requests decode.
    mixed_s, own_s
        Of one with prompts: the mean one, and the mean one that a prompt is in.
    drafts
        Whether requests draft in a pass that they share with prompts.
    """

    load: RequestLoad
    passes: SharedPasses
    decode_s: Array
    mixed_s: Array
    own_s: Array
    drafts: bool

    def times(self, round_s: Array, engine: EngineProfile) -> RequestTimes:
        """Return the seconds of a request, given those of a round of all that run."""
        # What a round takes besides its pass: drafting, and what the engine adds.
        beside_s = round_s - self.decode_s
        shared_s = beside_s if self.drafts else 0.0 * beside_s
        mixed = self.passes.mixed_frac
        mean_s = mixed * (self.mixed_s + shared_s) + (1 - mixed) * round_s
        wait_s = np.full_like(mean_s, engine.request_overhead_s)
        return RequestTimes(
            token_s=np.asarray(self.passes.passes * mean_s / np.asarray(self.load.output_len)),
            wait_s=wait_s,
            first_s=np.asarray(self.passes.waited * (self.own_s + shared_s) + wait_s),
        )


Prefills: TypeAlias = StoppedPrefills | SharedPrefills


def prefills(
    served: Served,
    load: RequestLoad,
    rules: PrefillRules,
    seconds: PassSeconds,
    *,
    steady: SharedPasses | None = None,
) -> Prefills:
    """Return what the prompts of a load do to decoding on a server.

    Parameters
    ----------
    served
        What is served, and where.
    load
        The requests.
    rules
        How the server takes prompts.
    seconds
        Of each pass.
    steady
        Which passes prompts share, where that is known already: no seconds change it.

    Ignores
        a drafter's own passes over prompts: a layer or a few, beside those of the model.
    """
    if rules.shares_passes:
        return _shared(served, load, rules, seconds, steady or _steady(load, rules))
    mean, found = prompts_together(load.running, load.rounds)
    all_s, _ = prompts_s(served, load.prompt, mean, rules.chunk, seconds)
    _, through_s = prompts_s(served, load.prompt, found, rules.chunk, seconds)
    return StoppedPrefills(load, np.asarray(all_s / mean), through_s, found)


def _steady(load: RequestLoad, rules: PrefillRules) -> SharedPasses:
    drafts = rules.drafts_beside
    return shared_passes(
        load.running,
        load.rounds,
        new_len=load.prompt.new_len,
        budget=rules.chunk,
        positions=load.verify_len if drafts else 1.0,
        slowed=1.0 if drafts else load.tokens_per_round,
    )


def _shared(
    served: Served,
    load: RequestLoad,
    rules: PrefillRules,
    seconds: PassSeconds,
    passes: SharedPasses,
) -> SharedPrefills:
    drafts = rules.drafts_beside
    beside = load.verify_len if drafts else 1.0
    # In a pass without prompts all decode; what is left of the mean decode in those with one.
    mixed = passes.mixed_frac
    decoding = passes.started * passes.decoded
    others = np.clip((decoding - (1 - mixed) * load.running) / mixed, _FEWEST, load.running)

    decode = ForwardPass(others, beside, load.context_len)

    def mixed_s(prompts: Array) -> Array:
        chunk = load.prompt.piece_pass(passes.pieces, prompts)
        return seconds(served, decode, Work(served.model, chunk))

    return SharedPrefills(
        load=load,
        passes=passes,
        decode_s=seconds(served, ForwardPass(load.running, load.verify_len, load.context_len)),
        mixed_s=mixed_s(passes.prompts),
        own_s=mixed_s(passes.own_prompts),
        drafts=drafts,
    )
