"""Prompts: the passes that come before the first token, whole or in chunks."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.cost import ForwardPass

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
        before = np.asarray(self.cached_len) + (new - length) / 2
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
