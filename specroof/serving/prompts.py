"""Prompts: the passes that come before the first token, whole or in chunks."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.cost import ForwardPass
from specroof.speedup.round import PassSeconds
from specroof.speedup.served import Served

__all__ = ["Prompt", "prefill_pass", "prompts_s", "time_to_first_token_s"]

_Seconds = TypeVar("_Seconds", float, Array)


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
        before = np.asarray(self.cached_len) + np.maximum(new - length, 0.0) / 2
        return prefill_pass(length, batch_size=prompts, context_len=before)


def prefill_pass(
    input_len: npt.ArrayLike, *, batch_size: npt.ArrayLike = 1.0, context_len: npt.ArrayLike = 0.0
) -> ForwardPass:
    """Return the pass over prompts that comes before the first token.

    Unlike a verification it keeps recurrent state behind the last position only, since nothing of
    a prompt is taken back, and only that position goes through the head.

    Parameters
    ----------
    input_len
        Tokens of each prompt that are not cached yet.
    batch_size
        Prompts in the pass.
    context_len
        Tokens before them that are cached already, such as a shared prefix.

    Raises
    ------
    ValueError
        As `ForwardPass` does.

    Source
        The serving loop of SGLang and vLLM.

    Examples
    --------
    >>> float(prefill_pass(8192, batch_size=4).head_tokens)  # the last position of each
    4.0
    """
    return ForwardPass(batch_size, input_len, context_len, head_len=1.0, settled=True)


def time_to_first_token_s(
    prefill_s: _Seconds, *, batch_size: npt.ArrayLike, request_overhead_s: float
) -> _Seconds:
    r"""Return the seconds from the start of a prefill to the first token of its prompts.

    .. math:: t + B \, t_{request}

    Parameters
    ----------
    prefill_s
        Seconds of the pass, t.
    batch_size
        Prompts in the pass, B.
    request_overhead_s
        Seconds that the engine takes for each request.

    Ignores
        queues, and the transfer of text: what a client measures is longer.
    Source
        Counting.

    Examples
    --------
    >>> time_to_first_token_s(0.5, batch_size=2, request_overhead_s=0.125)
    0.75
    """
    return prefill_s + batch_size * request_overhead_s  # type: ignore[operator, return-value]  # numbers or arrays


def prompts_s(
    served: Served, prompt: Prompt, count: Array, chunk: float, seconds: PassSeconds
) -> tuple[Array, Array]:
    r"""Return the seconds of the passes over some prompts, and when one of them is through.

    Short prompts share passes of so many tokens; long ones take several, one prompt after
    another. With w seconds for each group of prompts that pass together, and n groups, one is
    through after :math:`w (n + 1) / 2` on average.

    Parameters
    ----------
    served
        What is served, and where.
    prompt, count
        The prompts, and how many.
    chunk
        Tokens of a pass; 0 takes all prompts in one.
    seconds
        Of a pass.

    Ignores
        that a pass may take the end of one long prompt and the beginning of the next.
    Source
        SGLang 0.5.23 ``managers/schedule_policy.py``, ``PrefillAdder``: prompts are added until the
        tokens of a chunk are used up.
    """
    pieces = prompt.chunks(chunk)
    fit = np.maximum(chunk / np.asarray(prompt.new_len), 1.0) if chunk else np.inf
    together = np.minimum(count, fit)
    group_s = pieces * seconds(served, prompt.piece_pass(pieces, together))
    groups = np.asarray(count / together)
    return np.asarray(groups * group_s), np.asarray(group_s * (groups + 1) / 2)
