"""A server of passes, run event by event: an independent oracle for requests in closed loop."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

__all__ = ["Client", "Measured", "Toy", "run"]

DRAFT_S = 0.004  # of a round, beside its pass


@dataclass(frozen=True)
class Toy:
    """A server: clients, lengths, and how it takes prompts.

    Parameters
    ----------
    clients, prompt, answer
        Requests that run; tokens in; the mean of tokens out, which vary by half of it.
    tokens_per_round, positions
        What a round commits on average, and the tokens of its pass.
    chunk
        Tokens of a pass with prompts.
    shares, drafts_beside
        Whether such a pass decodes too, and drafts.
    """

    clients: int
    prompt: int
    answer: int
    tokens_per_round: float = 1.0
    positions: int = 1
    chunk: int = 2048
    shares: bool = True
    drafts_beside: bool = True

    @property
    def draft_s(self) -> float:
        """Seconds of a round beside its pass."""
        return DRAFT_S if self.positions > 1 else 0.0


def pass_s(tokens: float) -> float:
    """Return the seconds of a pass of so many tokens: a matrix to read, then arithmetic."""
    return float(np.hypot(0.01, 0.00006 * tokens))


@dataclass
class Client:
    """A request on its way."""

    prompt: int
    answer: int
    sent_s: float
    first_s: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class Measured:
    """What a client and its server see in steady state."""

    requests_per_s: float
    ttft_s: float
    tpot_s: float
    times: list[tuple[float, float, int]] = field(repr=False)


def run(toy: Toy, *, seed: int, requests: int = 3000) -> Measured:
    """Serve so many requests; the first quarter is warm-up."""
    dice = np.random.default_rng(seed)
    now, ended = 0.0, 0
    running: list[Client] = []
    waiting = [Client(toy.prompt, _length(toy, dice, cut=True), 0.0) for _ in range(toy.clients)]
    seen: list[tuple[float, float, int]] = []
    started_s = 0.0
    while ended < requests:
        now, running, waiting, done = _passed(toy, dice, now, running, waiting)
        for one in done:
            ended += 1
            if ended > requests // 4:
                seen.append((one.first_s - one.sent_s, now - one.first_s, one.answer))
            else:
                started_s = now
            waiting.append(Client(toy.prompt, _length(toy, dice), now))
    first, rest, lengths = (np.array(column, dtype=float) for column in zip(*seen, strict=True))
    return Measured(
        requests_per_s=len(seen) / (now - started_s),
        ttft_s=float(first.mean()),
        tpot_s=float(rest.sum() / (lengths - 1).sum()),
        times=seen,
    )


def _passed(
    toy: Toy, dice: np.random.Generator, now: float, running: list[Client], waiting: list[Client]
) -> tuple[float, list[Client], list[Client], list[Client]]:
    """Run one pass; return when it ends, who is decoded then, who waits, and who is done."""
    mixed = bool(waiting)
    decode = running if toy.shares or not mixed else []
    drafts = not mixed or toy.drafts_beside
    width = toy.positions if drafts else 1
    taken = _taken(waiting, toy.chunk - (width * len(decode) if mixed else 0))
    # Passes that take prompts beside decoding draft for those that are through, too.
    drafted = drafts and (decode or toy.shares)
    now += pass_s(width * len(decode) + sum(taken)) + (toy.draft_s if drafted else 0.0)
    for one in decode:
        one.tokens += _committed(toy, dice) if drafts else 1
    for one, tokens in zip(waiting, taken, strict=False):
        one.prompt -= tokens
    through = [one for one in waiting if one.prompt == 0]
    waiting = [one for one in waiting if one.prompt > 0]
    for one in through:
        one.first_s, one.tokens = now, 1
    served = [*running, *through]
    done = [one for one in served if one.tokens >= one.answer]
    return now, [one for one in served if one.tokens < one.answer], waiting, done


def _length(toy: Toy, dice: Generator, *, cut: bool = False) -> int:
    """Return the tokens of an answer; of the first ones only a part is left."""
    tokens = int(dice.integers(toy.answer // 2, toy.answer + toy.answer // 2 + 1))
    return int(dice.integers(1, tokens + 1)) if cut else tokens


def _taken(waiting: Sequence[Client], budget: int) -> list[int]:
    """Return the tokens that a pass takes of each prompt, first come, first served."""
    found = []
    for one in waiting:
        tokens = min(one.prompt, budget)
        if tokens <= 0:
            break
        found.append(tokens)
        budget -= tokens
    return found


def _committed(toy: Toy, dice: Generator) -> int:
    least = int(toy.tokens_per_round)
    return least + int(dice.random() < toy.tokens_per_round - least)
