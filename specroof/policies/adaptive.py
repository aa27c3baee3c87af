"""Draft lengths that follow the load or the drafter's confidence, beside one length for all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.acceptance.curve import rates_of_survival
from specroof.arrays import Array
from specroof.frameworks import AdaptiveSlot
from specroof.montecarlo.batch import confident_rounds

if TYPE_CHECKING:
    # numpy.random is slow to import.
    from numpy.random import Generator

#: Thresholds of survival that policies choose from; with 0 every draft is made.
_THRESHOLDS: Final = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: Rounds of a batch, at least.
LEAST_ROUNDS: Final = 50
#: Rates are found by Dinkelbach's steps, which converge faster than linearly.
_STEPS: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class BatchCosts:
    """Seconds of the rounds of one batch, whatever lengths its sequences have.

    Parameters
    ----------
    verify_s
        Of a verification by the drafts of all sequences together, from none, a plain step, to the
        longest of each.
    draft_step_s
        Of each further draft, axes (draft, sequences that make it, from 0 to all).
    engine_s
        What the engine adds to a round with drafts.
    is_block
        Whether one pass makes several drafts: it makes them for every sequence, or for none.
    """

    verify_s: Array
    draft_step_s: Array
    engine_s: float
    is_block: bool = False

    @property
    def batch_size(self) -> int:
        """How many sequences are decoded together."""
        return int(self.draft_step_s.shape[1]) - 1

    @property
    def max_draft_len(self) -> int:
        """The longest draft."""
        return len(self.draft_step_s)

    def seconds(self, verified: ArrayLike, drafting: NDArray[np.intp]) -> Array:
        """Return the seconds of rounds that end after each draft, from none on, on a last axis.

        Parameters
        ----------
        verified
            Drafts that are verified up to there, over all sequences.
        drafting
            Sequences that make each draft; the last axis is one shorter.

        Examples
        --------
        >>> costs = BatchCosts(np.array([1.0, 2.0, 3.0]), np.array([[0.0, 0.5, 0.75]]), 0.25)
        >>> costs.seconds([0, 1], np.array([1]))  # 1; 2 + 0.5 + 0.25
        array([1.  , 2.75])
        """
        verify_s = self.verify_s[np.asarray(verified, dtype=np.intp)]
        steps = self.draft_step_s[np.arange(self.max_draft_len), drafting]
        # Where no sequence drafts, a plain step, whatever the length.
        engine_s = np.where(drafting > 0, self.engine_s, 0.0)[..., :1]
        first = np.zeros_like(steps[..., :1])
        rest = np.cumsum(steps, axis=-1) + engine_s
        return np.asarray(verify_s + np.concatenate([first, rest], axis=-1))


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What a policy reaches with one batch.

    Parameters
    ----------
    tokens_per_s
        Of the whole batch.
    error
        Its standard error; 0 in closed form.
    draft_len
        Verified drafts of a sequence and round, on average.
    """

    tokens_per_s: float
    error: float
    draft_len: float


def fixed_rates(costs: BatchCosts, survival: ArrayLike) -> Array:
    r"""Return tokens per second by draft length, from 0, in closed form.

    .. math:: r(\gamma) = \frac{B \, N(\gamma)}{t(\gamma)}

    Parameters
    ----------
    costs
        Of the batch.
    survival
        s_1 … s_γ.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1, over the time of a round.

    Examples
    --------
    >>> costs = BatchCosts(np.array([1.0, 1.25, 1.5]), np.array([[0.0, 0.25, 0.25]]), 0.25)
    >>> fixed_rates(costs, [0.5])  # 2 / 1, and 2 * 1.5 / 2
    array([2. , 1.5])
    """
    everybody = np.full(costs.max_draft_len, costs.batch_size)
    seconds = costs.seconds(costs.batch_size * np.arange(costs.max_draft_len + 1), everybody)
    tokens = 1.0 + np.concatenate(([0.0], np.cumsum(np.asarray(survival, dtype=np.float64))))
    return np.asarray(costs.batch_size * tokens / seconds)


@dataclass(frozen=True, slots=True, eq=False)
class _Options:
    """What each round can be, axes (round, option): tokens, seconds, and verified drafts.

    Parameters
    ----------
    expected, committed
        Tokens as the policy thinks of them, and as they came.
    seconds, verified
        Of the round, and drafts over all sequences.
    """

    expected: Array
    committed: Array
    seconds: Array
    verified: Array


#: Which option each round takes.
_Choice = Callable[[_Options], NDArray[np.intp]]


@dataclass(frozen=True, slots=True, eq=False)
class _Rounds:
    """Rounds of one batch, axes (round, sequence, draft): how likely drafts survive, which do."""

    worth: Array
    survived: NDArray[np.bool_]
    rates: Array  # of acceptance on average, by draft
    costs: BatchCosts


def _options_of(policy: str, rounds: _Rounds) -> _Options:
    """Return what a policy can do in each round: see `simulated_policies`."""
    worth = rounds.worth
    if policy == "batch confidence":
        return _up_to_each_length(rounds, np.ones(worth.shape, dtype=np.bool_))
    if policy == "oracle":  # every draft that survives is sure
        options = _up_to_each_length(rounds, rounds.survived)
        return replace(options, expected=options.committed)
    if policy == "stopping" and not rounds.costs.is_block:
        # A draft that is not made yet is worth its predecessor's worth times its mean rate.
        before = np.concatenate([np.ones_like(worth[..., :1]), worth[..., :-1]], axis=-1)
        worth = before * rounds.rates
    by_threshold = [
        _up_to_each_length(rounds, np.logical_and.accumulate(worth >= least, axis=-1))
        for least in _THRESHOLDS
    ]
    return _Options(
        *(
            np.concatenate([getattr(one, name) for one in by_threshold], axis=1)
            for name in _Options.__slots__
        )
    )


def _up_to_each_length(rounds: _Rounds, kept: NDArray[np.bool_]) -> _Options:
    """Return rounds of drafts that are kept, by the longest draft there may be.

    Parameters
    ----------
    rounds
        What is drafted.
    kept
        Which drafts are verified, axes (round, sequence, draft); the first ones of a sequence.
    """
    costs = rounds.costs
    drafting = kept.sum(axis=1)
    verified = _summed(drafting, 0.0)
    made = np.where(drafting > 0, costs.batch_size, 0) if costs.is_block else drafting
    return _Options(
        expected=_summed((rounds.worth * kept).sum(axis=1), costs.batch_size),
        committed=_summed((rounds.survived & kept).sum(axis=1), costs.batch_size),
        seconds=costs.seconds(verified, made),
        verified=verified,
    )


def _summed(values: NDArray[np.generic], first: float) -> Array:
    """Return running sums over the last axis, from a first value on."""
    sums = np.cumsum(values, axis=-1, dtype=np.float64)
    return np.concatenate([np.zeros_like(sums[..., :1]), sums], axis=-1) + first


def _chosen_each_round(options: _Options) -> _Choice:
    r"""Return the rule that makes most tokens per second in the long run over these rounds.

    .. math:: \max_o \; n_o - r \, t_o, \quad r = \frac{\sum n}{\sum t}
    """
    rate, rows = 0.0, np.arange(len(options.seconds))
    for _ in range(_STEPS):
        taken = np.argmax(options.expected - rate * options.seconds, axis=1)
        rate = options.expected[rows, taken].sum() / options.seconds[rows, taken].sum()
    return lambda other: np.argmax(other.expected - rate * other.seconds, axis=1)


def _chosen_once(options: _Options) -> _Choice:
    """Return the one option that makes most tokens per second over these rounds."""
    rates = options.expected.sum(axis=0) / options.seconds.sum(axis=0)
    best = int(np.argmax(rates))
    return lambda other: np.full(len(other.seconds), best)


def simulated_policies(
    costs: BatchCosts, survival: ArrayLike, *, known: float, n_rounds: int, seed: int
) -> dict[str, PolicyOutcome]:
    r"""Return the outcomes of policies that change draft lengths from round to round, with dice.

    Parameters
    ----------
    costs
        Of the batch.
    survival
        s_1 … s_γ on average, as deep as `costs`.
    known
        The share of the variance of acceptance that confidence knows: see
        `specroof.montecarlo.batch.confident_rounds`.
    n_rounds
        Rounds of single sequences, at least, that each policy is scored on.
    seed
        Of the dice.

    Returns
    -------
    dict
        By name. ``stopping``: each sequence drafts on while its drafts so far
        are likely enough to survive, up to a longest length; both are chosen once.
        ``batch confidence``: one length for all, chosen each round. ``sequence confidence``: drafts
        likelier to survive than a threshold, and a longest length, both chosen each round.
        ``oracle``: those that will be accepted, as far as they pay.

    Counts
        rounds whose outcome the policy has not seen: it is tuned on others.
    Ignores
        that confidence comes late: the policies of a batch or a sequence know the confidence of
        every draft before it is made, but a drafter of one draft at a time does not; ``stopping``
        knows only the confidence of drafts that were made. The time of choosing.
    Source
        DSpark (Cheng et al. 2026), algorithm 1, with drafting in the time of a round; Dinkelbach
        1967, Management Science 13, 492, for the rate over many rounds.

    Examples
    --------
    >>> costs = BatchCosts(np.array([1.0, 1.0]), np.array([[0.0, 1.0]]), 0.0)
    >>> found = simulated_policies(costs, [0.5], known=1.0, n_rounds=4000, seed=0)
    >>> found["stopping"].tokens_per_s  # drafting doubles the time, and the tokens of every other
    1.0
    """
    rng = np.random.default_rng(seed)
    tuned, scored = (_drawn(costs, survival, known, n_rounds, rng) for _ in range(2))
    outcomes = {}
    for name in ("stopping", "batch confidence", "sequence confidence", "oracle"):
        rule = _chosen_once if name == "stopping" else _chosen_each_round
        choose, options = rule(_options_of(name, tuned)), _options_of(name, scored)
        outcomes[name] = _outcome(options, choose(options), costs.batch_size)
    return outcomes


def _drawn(
    costs: BatchCosts, survival: ArrayLike, known: float, n_rounds: int, rng: "Generator"
) -> _Rounds:
    """Return as many rounds of the batch as have so many rounds of single sequences, or more."""
    shape = (max(-(-n_rounds // costs.batch_size), LEAST_ROUNDS), costs.batch_size)
    worth, accepted = confident_rounds(survival, known=known, shape=shape, dice=rng)
    survived = accepted[..., None] > np.arange(costs.max_draft_len)
    return _Rounds(worth, survived, rates_of_survival(survival), costs)


def _outcome(options: _Options, taken: NDArray[np.intp], batch_size: int) -> PolicyOutcome:
    rows = np.arange(len(taken))
    tokens, seconds = options.committed[rows, taken], options.seconds[rows, taken]
    rate = tokens.sum() / seconds.sum()
    off = np.square(tokens - rate * seconds).sum()  # of a ratio of sums
    drafts = options.verified[rows, taken].mean() / batch_size
    return PolicyOutcome(float(rate), float(np.sqrt(off) / seconds.sum()), float(drafts))


# --- What engines do by themselves ----------------------------------------------------------------


def adaptive_verification(
    costs: BatchCosts,
    survival: ArrayLike,
    *,
    draft_len: int,
    known: float,
    n_rounds: int,
    seed: int,
) -> PolicyOutcome:
    r"""Return the outcome of vLLM's adaptive verification, with dice.

    The drafter makes all its drafts; of those of all sequences, the likeliest to survive are
    verified, as many as make most tokens in the time of the round:

    .. math:: \arg\max_b \frac{B + \sum_{i \le b} S_i}{t_{draft} + t_{verify}(B + b)}

    Parameters
    ----------
    costs, survival
        As for `simulated_policies`.
    draft_len
        Drafts that are made for each sequence.
    known, n_rounds, seed
        As for `simulated_policies`.

    Ignores
        that the number is chosen with the confidences of the step before.
    Source
        vLLM 0.33.0 ``v1/worker/gpu/spec_decode/adaptive_verification.py``, ``get_num_tokens``.

    Examples
    --------
    >>> costs = BatchCosts(np.array([1.0, 9.0]), np.array([[0.0, 0.0]]), 0.0)
    >>> sure = {"known": 0.0, "n_rounds": 100, "seed": 0}
    >>> adaptive_verification(costs, [0.9], draft_len=1, **sure)  # 1.9 / 9 is less than 1 / 1
    PolicyOutcome(tokens_per_s=1.0, error=0.0, draft_len=0.0)
    >>> free = BatchCosts(np.array([1.0, 1.0]), np.array([[0.0, 0.0]]), 0.0)
    >>> words = {"draft_len": 1, "known": 0.0, "seed": 0}
    >>> few, many = (adaptive_verification(free, [0.5], n_rounds=n, **words) for n in (100, 10_000))
    >>> round(few.error / many.error)  # by the root of the rounds
    10
    """
    batch = costs.batch_size
    rng = np.random.default_rng(seed)
    # The second draw: the rounds that other policies are scored on, which the first ones tune.
    _, rounds = (_drawn(costs, survival, known, n_rounds, rng) for _ in range(2))
    shape = (len(rounds.worth), batch * draft_len)
    worth = rounds.worth[..., :draft_len].reshape(shape)
    survived = rounds.survived[..., :draft_len].reshape(shape)
    # Of equal ones the first: a draft is never taken without those before it.
    order = np.argsort(-worth, axis=1, kind="stable")
    drafted_s = costs.draft_step_s[:draft_len, batch].sum() + costs.engine_s
    verified = np.arange(batch * draft_len + 1)
    expected = _summed(np.take_along_axis(worth, order, axis=1), batch)
    options = _Options(
        expected=expected,
        committed=_summed(np.take_along_axis(survived, order, axis=1), batch),
        seconds=np.broadcast_to(drafted_s + costs.verify_s[verified], expected.shape),
        verified=np.broadcast_to(verified, expected.shape),
    )
    return _outcome(options, np.argmax(options.expected / options.seconds, axis=1), batch)


_SMOOTHING: Final = 0.2
#: Rounds after which the slot has settled, or goes round in a cycle; and in which it is watched.
_SETTLED, _WATCHED = 1000, 1000


def sglang_rounds(
    slots: Sequence[AdaptiveSlot], batch_size: int, accepted: ArrayLike, initial: int
) -> Array:
    """Return the shares of rounds with each draft length under SGLang's adaptive speculation.

    Parameters
    ----------
    slots
        Draft lengths to choose from, `specroof.frameworks.Release.adaptive_steps`.
    batch_size
        As the engine pads it, for the slot.
    accepted
        Accepted drafts of a round, by draft length from 0; longer ones are no candidates.
    initial
        The draft length that the server is told to begin with.

    Ignores
        how the mean of a batch varies from round to round; that the server decides after 10 rounds
        and then every 5: lengths settle where they do when it decides every round.
    Source
        SGLang 0.5.14 to 0.5.23, ``srt/speculative/adaptive_spec_params.py``:
        ``AdaptiveStepSlot``.

    Examples
    --------
    >>> slots = [
    ...     AdaptiveSlot(requests=1, drafts=(1, 3, 5)),
    ...     AdaptiveSlot(requests=8, drafts=(0, 1)),
    ... ]
    >>> sglang_rounds(slots, 1, [0.0, 0.9, 1.7, 2.4, 2.9, 3.3], 3)  # 2.4 is not above 3 - 0.5
    array([0., 0., 0., 1., 0., 0.])
    >>> sglang_rounds(slots, 32, [0.0, 0.4], 1)  # 0.4 is not above 0.5: off, and tried again
    array([0.5, 0.5])
    """
    known = np.asarray(accepted, dtype=np.float64)
    slot = [slot for slot in slots if slot.requests <= batch_size][-1]
    candidates = [step for step in slot.drafts if step < len(known)]
    place = candidates.index(initial) if initial in candidates else len(candidates) // 2
    mean, counts = candidates[place] - 1.0, np.zeros(len(known))
    for number in range(1, _SETTLED + _WATCHED + 1):
        step = candidates[place]
        counts[step] += number > _SETTLED
        if step:
            mean += _SMOOTHING * (known[step] - mean)
        last = len(candidates) - 1
        if not step:
            place = min(place + 1, last)
            continue
        # Half a draft above no drafts, half a draft below the next shorter length.
        while place and mean <= abs(candidates[place - 1] - 0.5) - slot.hysteresis:
            place -= 1
        while candidates[place] >= step and place < last and mean > candidates[place] - 0.5:
            place += 1
    return counts / _WATCHED


def mixed_rate(rates: Array, tokens_per_round: Array, shares: Array) -> float:
    """Return the tokens per second of rounds of several draft lengths.

    Parameters
    ----------
    rates, tokens_per_round
        Tokens per second with each draft length, and those that a sequence commits in a round.
    shares
        Of rounds.

    Source
        Counting: tokens over seconds.

    Examples
    --------
    >>> mixed_rate(np.array([2.0, 1.5]), np.array([1.0, 1.5]), np.array([0.5, 0.5]))  # 2.5 / 1.5
    1.6666666666666667
    """
    tokens = shares * tokens_per_round
    return float(tokens.sum() / (tokens / rates).sum())


def sglang_steps(
    costs: BatchCosts,
    survival: ArrayLike,
    slots: Sequence[AdaptiveSlot],
    *,
    initial: int,
    sizes: Sequence[int],
) -> PolicyOutcome:
    """Return what SGLang's adaptive speculation reaches.

    Parameters
    ----------
    costs, survival
        As for `simulated_policies`.
    slots, initial
        As for `sglang_rounds`.
    sizes
        Captured sizes in sequences, to which it pads the batch; none without.

    Source
        `sglang_rounds`.
    """
    padded = next((size for size in sizes if size >= costs.batch_size), costs.batch_size)
    accepted = np.append(0.0, np.cumsum(survival))
    shares = sglang_rounds(slots, padded, accepted, initial)
    rate = mixed_rate(fixed_rates(costs, survival), 1.0 + accepted, shares)
    return PolicyOutcome(rate, 0.0, float(shares @ np.arange(len(shares))))


def fixed_outcomes(rates: Array, lengths: Sequence[int]) -> tuple[PolicyOutcome, ...]:
    """Return the outcome of one draft length at each load, in closed form.

    Parameters
    ----------
    rates
        Tokens per second, axes (load, draft_len).
    lengths
        The length at each load.
    """
    return tuple(
        PolicyOutcome(float(row[length]), 0.0, float(length))
        for row, length in zip(rates, lengths, strict=True)
    )


def beside(fixed: PolicyOutcome, alone: float, policy: PolicyOutcome) -> PolicyOutcome:
    r"""Return what a policy reaches where one length reaches what it does.

    .. math:: \frac{1}{x} = \frac{1}{x_{fixed}} + \frac{1}{r} - \frac{1}{r_{fixed}}

    Parameters
    ----------
    fixed
        Of the one length, prompts and waits included: x.
    alone
        Tokens per second of rounds of that length alone, r.
    policy
        Of rounds alone.

    Source
        Counting: the seconds that a policy saves of each token, it saves of requests, too.
    """
    saved_s = 1.0 / alone - 1.0 / policy.tokens_per_s
    rate = fixed.tokens_per_s / (1.0 - fixed.tokens_per_s * saved_s)
    return replace(
        policy, tokens_per_s=rate, error=policy.error * (rate / policy.tokens_per_s) ** 2
    )
