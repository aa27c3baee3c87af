"""Seconds of a server's passes, priced once over a grid and read off between its points."""

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from specroof.arrays import Array, fields_of
from specroof.cost import ForwardPass
from specroof.drafters import Drafter, TokensPerRound
from specroof.latency.model import Work
from specroof.latency.setup import Deployment
from specroof.serving.blocks import input_slots
from specroof.serving.capacity import PrefillRules
from specroof.serving.workload import prefill_pass
from specroof.speedup.curve import (
    engine_pass_s,
    pass_latency,
    prompt_read_s,
    proposals,
    round_times,
)

#: Steps between the points of an axis. Passes are linear in long contexts and in many tokens; small
#: batches and passes are padded, and decide at which size arithmetic takes over from memory.
_BATCH_STEP: Final = 1.125
_CONTEXT_STEP: Final = 1.5
_TOKENS_STEP: Final = 1.4
_ATTENDED_STEP: Final = 2.0
#: Positions that the tokens of the shortest prompt attend to on average, for the grid.
_LEAST_ATTENDED: Final = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """A function of two numbers, linear between the points at which it is known, and beyond.

    Parameters
    ----------
    x, y
        The points of each axis, ascending, two at least.
    values
        Shape (x, y).

    Examples
    --------
    >>> grid = Grid([0.0, 2.0], [0.0, 10.0], np.array([[0.0, 10.0], [4.0, 14.0]]))
    >>> grid.at(1.0, 5.0), grid.row(1.0)
    (7.0, [2.0, 12.0])
    """

    x: list[float]
    y: list[float]
    values: Array
    _rows: list[list[float]] = field(init=False, repr=False)
    # Rows between the points, by `x`: batches are whole numbers, and come again.
    _between: dict[float, list[float]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        # One number at a time is read: lists are five times as fast as arrays.
        object.__setattr__(self, "_rows", self.values.tolist())

    def at(self, x: float, y: float) -> float:
        """Return the value at one point."""
        xs, ys = self.x, self.y
        column = bisect_right(ys, y, 1, len(ys) - 1) - 1
        low = ys[column]
        share = (y - low) / (ys[column + 1] - low)
        row = bisect_right(xs, x, 1, len(xs) - 1) - 1
        low = xs[row]
        first, second = self._rows[row], self._rows[row + 1]
        below, above = first[column], second[column]
        below += share * (first[column + 1] - below)
        above += share * (second[column + 1] - above)
        return below + (x - low) / (xs[row + 1] - low) * (above - below)

    def times(self, factor: float) -> "Grid":
        """Return the function, so many times as large."""
        return Grid(self.x, self.y, factor * self.values)

    def row(self, x: float) -> list[float]:
        """Return the values at one `x` and all points of the other axis."""
        found = self._between.get(x)
        if found is None:
            row = bisect_right(self.x, x, 1, len(self.x) - 1) - 1
            low, high = self.x[row], self.x[row + 1]
            share = (x - low) / (high - low)
            found = self._between[x] = [
                below + share * (above - below)
                for below, above in zip(self._rows[row], self._rows[row + 1], strict=True)
            ]
        return found

    def line(self, x: float, y: float) -> float:
        """Return the value at one point, of an `x` that is asked for often."""
        ys = self.y
        row = self._between.get(x) or self.row(x)
        place = bisect_right(ys, y, 1, len(ys) - 1)
        low, below = ys[place - 1], row[place - 1]
        return below + (y - low) / (ys[place] - low) * (row[place] - below)


@dataclass(frozen=True, slots=True, eq=False)
class PassPrices:
    r"""Seconds of passes and rounds of one server.

    A pass that prompts share with decoding takes

    .. math:: p(T, a) - f(T, a) + s(B, T) + c(B, S)

    seconds: of T tokens of prompts alone, each of which attends to a positions on average, less
    what these take to fill a pipeline; what B decoding requests add to the matrices of such a pass;
    and what their contexts S and their drafts add.

    Parameters
    ----------
    round_s
        Of a round in which all decode: over the batch and its mean context.
    prompt_s
        p, over tokens and the mean positions that they attend to.
    sharing_s
        s, over the batch and tokens of prompts.
    context_s
        c, over the batch and its mean context.
    positions
        Tokens of a pass that each decoding request takes, those of its drafter's input included.
    survival
        Chances that the first d drafts of a round are all accepted; empty for plain decoding.
    filling_s
        f, over tokens and the mean positions that they attend to; None where no pipeline is full.
    request_overhead_s
        That each request keeps all others waiting.
    request_latency_s
        That each request loses alone before the server knows of it.
    tokenize_s
        That the host takes for each token of a prompt's text, one prompt after another.
    """

    round_s: Grid
    prompt_s: Grid
    sharing_s: Grid
    context_s: Grid
    positions: float = 1.0
    survival: tuple[float, ...] = ()
    filling_s: Grid | None = None
    request_overhead_s: float = 0.0
    request_latency_s: float = 0.0
    tokenize_s: float = 0.0

    @property
    def tokens_per_round(self) -> float:
        """Expected tokens of a round, the bonus token included."""
        return 1.0 + sum(self.survival)

    def mixed_s(self, batch: float, context: float, tokens: float, attended: float) -> float:
        """Return the seconds of a pass that takes chunks of prompts beside decoding.

        Parameters
        ----------
        batch, context
            Requests that decode, and their mean context.
        tokens, attended
            Of prompts, and the mean positions that one attends to: those before it.
        """
        prompts_s = self.prompt_s.at(tokens, attended)
        if self.filling_s is not None:
            prompts_s -= self.filling_s.at(tokens, attended)
        return prompts_s + self.sharing_s.at(batch, tokens) + self.context_s.at(batch, context)

    def times(self, passes: float, rounds: float = 1.0) -> "PassPrices":
        """Return passes that take so many times as long, and rounds so many times besides."""
        return replace(
            self,
            round_s=self.round_s.times(passes * rounds),
            prompt_s=self.prompt_s.times(passes),
            filling_s=self.filling_s and self.filling_s.times(passes),
            sharing_s=self.sharing_s.times(passes),
            context_s=self.context_s.times(passes * rounds),
        )


def pass_prices(  # noqa: PLR0913 - the bounds of all loads
    deployment: Deployment,
    rules: PrefillRules,
    *,
    running: float,
    input_len: tuple[float, float],
    longest: float,
    most: float = 0.0,
    drafting: tuple[Drafter, TokensPerRound, int] | None = None,
) -> list[PassPrices]:
    """Return the prices of a server's passes, for all loads within bounds, by draft length from 0.

    Parameters
    ----------
    deployment
        What is served, and where.
    rules
        How the server takes prompts; see `specroof.serving.capacity.prefill_rules`.
    running
        Requests that run at once, at most.
    input_len
        Tokens of the shortest prompt and of the longest.
    longest
        Tokens of the longest request, prompt and answer.
    most
        Requests that run while their answers are short, if these are more.
    drafting
        What drafts, how much of it is accepted at the contexts of the load, and drafts of a round
        at most: lengths end before it where the drafter does. None for plain decoding.

    Counts
        passes between the points of the grid to 1 %; to 8 % those that decode beside a few hundred
        tokens of several prompts. Where something drafts, that it reads the prompts, too.
    Source
        `specroof.speedup.curve.round_times`, and mixed passes of `specroof.latency.model`.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.latency.setup import engine_setup
    >>> from specroof.serving.capacity import prefill_rules
    >>> setup = engine_setup(load_hardware("h100"), "vllm", None, None)
    >>> served = Deployment(load_model("Qwen/Qwen3-8B"), setup)
    >>> lengths = {"input_len": (1024, 1024), "longest": 2048}
    >>> (prices,) = pass_prices(served, prefill_rules(served), running=8, **lengths)
    >>> prices.round_s.at(8, 1024) < prices.mixed_s(8, 1024, 1024, 512)
    True
    """
    engine = deployment.setup.engine
    chunk = rules.chunk or running * input_len[1]
    batches = _axis(1.0, max(running, 2.0), _BATCH_STEP, whole=True)
    further = _axis(batches[-1], max(most, batches[-1]), _BATCH_STEP, whole=True)
    batches = np.append(batches, further[1:])
    contexts = _axis(input_len[0], max(longest, input_len[0] + 1), _CONTEXT_STEP)
    tokens = _axis(1.0, max(chunk, 2.0), _TOKENS_STEP, whole=True)
    # More than a chunk is of several groups, each of which has prompts of its own.
    more = np.arange(2.0, rules.groups + 1)
    least_prompts, tokens = np.append(np.ones(len(tokens)), more), np.append(tokens, chunk * more)
    attended = _axis(_LEAST_ATTENDED, max(longest, 2 * _LEAST_ATTENDED), _ATTENDED_STEP)
    batch, context, length = batches[:, None], contexts[None, :], tokens[:, None]

    lens = np.arange(1 if drafting is None else drafting[2] + 1)
    verify_len = tokens_per_round = np.ones(len(lens))
    plain_s = step_s = engine_pass_s(deployment, ForwardPass(batch, 1.0, context))[..., None]
    if drafting is not None:
        drafter, acceptance, _ = drafting
        proposed = proposals(drafter, acceptance, lens)
        grid = (context[..., None], batch[..., None], lens)
        step_s = round_times(deployment, drafter, proposed, grid).round_s
        verify_len = np.broadcast_to(proposed.verify_len, lens.shape)
        tokens_per_round = np.broadcast_to(proposed.tokens_per_round, lens.shape)
    positions = verify_len if rules.drafts_beside else np.ones(len(lens))
    slots = np.zeros(len(lens))
    if drafting is not None and rules.drafts_beside:
        slots = input_slots(deployment.setup.release, drafting[0].kind, lens)
    beside_s = step_s if rules.drafts_beside else plain_s

    # Where tokens attend to little, the pass is of several short prompts.
    prompts = np.maximum(length / (2 * attended), least_prompts[:, None])
    before = np.maximum(attended - length / prompts / 2, 0.0)
    of_prompts = prefill_pass(length / prompts, batch_size=prompts, context_len=before)
    prompt = pass_latency(deployment, of_prompts)
    read_s = least_s = np.zeros(())
    if drafting is not None:
        read_s = prompt_read_s(deployment, drafting[0], of_prompts)
        if rules.drafts_beside:  # in one pass with the first of the drafts, which reads the weights
            least_s = prompt_read_s(deployment, drafting[0], prefill_pass(1.0))
    alone = prefill_pass((tokens / least_prompts)[:, None], batch_size=least_prompts[:, None])
    bare = ForwardPass(batch[..., None], positions, 0.0)
    mixed_s = engine_pass_s(deployment, bare, Work(deployment.model, alone, kind="prompts"))
    # What an engine adds to a pass of few tokens is no sum of what it adds to both.
    bare_prompt = pass_latency(deployment, alone)
    # Where stages take turns, no other pass keeps them full.
    is_full = deployment.setup.passes_in_flight > 1
    filled_s = bare_prompt.filling_s if is_full else 0.0
    sharing_s = np.maximum(mixed_s - (bare_prompt.total_s - filled_s), 0.0)
    context_s = beside_s - engine_pass_s(deployment, bare)
    plain_grid = _grid(tokens, attended, prompt.total_s)
    read_grid = _grid(tokens, attended, prompt.total_s + read_s)
    filling_grid = _grid(tokens, attended, prompt.filling_s) if is_full else None

    def priced(drafts: int) -> PassPrices:
        # A tree's gain by depth need not fall: the order does not change the mean.
        survival = np.sort(np.diff(tokens_per_round[: drafts + 1]))[::-1]
        return PassPrices(
            round_s=_grid(batches, contexts, step_s[..., drafts]),
            prompt_s=read_grid if drafts else plain_grid,
            sharing_s=_grid(batches, tokens, sharing_s[..., drafts] - least_s * (drafts > 0)),
            context_s=_grid(batches, contexts, context_s[..., drafts]),
            positions=float(positions[drafts] + slots[drafts]),
            survival=tuple(survival.tolist()),
            filling_s=filling_grid,
            **fields_of(engine, "request_overhead_s", "request_latency_s", "tokenize_s"),
        )

    return [priced(drafts) for drafts in np.flatnonzero(np.isfinite(tokens_per_round)).tolist()]


def _axis(first: float, last: float, step: float, *, whole: bool = False) -> Array:
    """Return points from `first` to `last`, each at most `step` times the one before."""
    least = max(first, 1.0)
    steps = max(int(np.ceil(np.log(last / least) / np.log(step))), 1)
    points = np.geomspace(least, last, steps + 1)
    points[0] = first
    return np.unique(np.ceil(points)) if whole else points


def _grid(x: Array, y: Array, values: Array) -> Grid:
    return Grid(x.tolist(), y.tolist(), np.broadcast_to(values, (len(x), len(y))))
