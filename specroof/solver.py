"""Where work meets probability: the whole speedup curve over context, batch and draft length."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.acceptance import Acceptance, constant_acceptance
from specroof.architecture import (
    Architecture,
    CompressedAttention,
    GroupedQueryAttention,
    LatentAttention,
)
from specroof.cost import ForwardPass, Options, forward_cost, storage
from specroof.drafters import Drafter, Round, TokensPerRound
from specroof.errors import OptionError
from specroof.hardware import HardwareProfile, Placement
from specroof.latency import PassLatency, Setup, device_bytes, price_pass
from specroof.units import format_binary_bytes

__all__ = [
    "DEFAULT_MAX_DRAFT_LEN",
    "LARGEST_DRAFT_LEN",
    "PassLatency",
    "SpeedupCurve",
    "check_placement",
    "forward_latency",
    "speedup_curve",
]

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DEFAULT_MAX_DRAFT_LEN: Final = 16
LARGEST_DRAFT_LEN: Final = 1024

_LARGEST_BATCH: Final = 10_000_000
_LARGEST_CONTEXT: Final = 100_000_000
# Operating points that are priced at once: their temporaries stay within some tens of MB.
_CHUNK_POINTS: Final = 1 << 16
# Equal but for rounding: the shorter draft wins.
_TIE: Final = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class SpeedupCurve:
    """Speculative decoding over a grid of context lengths, batch sizes and draft lengths.

    Arrays have the axes (context_len, batch_size, draft_len), in seconds and tokens. Past the
    depth of the drafter or of its acceptance they are NaN.

    Parameters
    ----------
    model, hardware, engine, drafter
        Names.
    placement
        How the model is spread.
    context_len, batch_size, draft_len
        The axes; draft_len runs from 0, plain decoding.
    verify_len
        Positions that the target verifies per sequence, axis (draft_len).
    tokens_per_round
        Expected tokens per sequence and round, bonus token included.
    draft_s, verify_s, round_s
        Seconds of drafting, of verification, and of the round with what its engine adds.
    notes
        Dtypes that fell back, a model that does not fit.
    """

    model: str
    hardware: str
    engine: str
    drafter: str
    placement: Placement
    context_len: Array
    batch_size: Array
    draft_len: IntArray
    verify_len: IntArray
    tokens_per_round: Array
    draft_s: Array
    verify_s: Array
    round_s: Array
    notes: tuple[str, ...] = ()

    @property
    def decode_s(self) -> Array:
        """Seconds of the plain step, axes (context_len, batch_size)."""
        return np.asarray(self.round_s[..., 0])

    @property
    def speedup(self) -> Array:
        r"""Tokens per second relative to plain decoding: :math:`N t_1 / t_{round}`; [..., 0] is 1.

        Source
            Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8, with the verification priced.
        """
        return np.asarray(self.tokens_per_round * (self.decode_s[..., None] / self.round_s))

    @property
    def tokens_per_s(self) -> Array:
        """Tokens per second of the whole batch."""
        return self.tokens_per_s_per_user * self.batch_size[None, :, None]

    @property
    def tokens_per_s_per_user(self) -> Array:
        """Tokens per second of one sequence."""
        return self.tokens_per_round / self.round_s

    @property
    def best_draft_len(self) -> IntArray:
        """The draft length of the largest speedup, axes (context_len, batch_size).

        Ties, to rounding, go to the shorter draft.
        """
        return np.asarray(self.draft_len[self._best_index])

    @property
    def best_speedup(self) -> Array:
        """The largest speedup, axes (context_len, batch_size); at least 1, that of not drafting."""
        return np.take_along_axis(self.speedup, self._best_index[..., None], axis=-1)[..., 0]

    @property
    def _best_index(self) -> npt.NDArray[np.intp]:
        speedup = self.speedup
        best = np.nanmax(speedup, axis=-1, keepdims=True)
        return np.asarray(np.argmax(speedup >= best * (1 - _TIE), axis=-1))

    def near_best(self, share: float = 0.01) -> tuple[IntArray, IntArray]:
        """Return the shortest and the longest draft within `share` of the best speedup.

        Parameters
        ----------
        share
            0.01 for 1%.

        Returns
        -------
        tuple of int arrays
            Shortest and longest, each with axes (context_len, batch_size).

        Raises
        ------
        OptionError
            Unless 0 <= share < 1.
        """
        if not 0 <= share < 1:
            msg = f"share is {share!r}; allowed: from 0 to below 1"
            raise OptionError(msg)
        near = self.speedup >= (self.best_speedup * (1 - max(share, _TIE)))[..., None]
        last = near.shape[-1] - 1
        longest = last - np.argmax(near[..., ::-1], axis=-1)
        return self.draft_len[np.argmax(near, axis=-1)], self.draft_len[longest]


def speedup_curve(  # noqa: PLR0913 - the contract of the library
    model: Architecture,
    hardware: HardwareProfile,
    *,
    drafter: Drafter,
    acceptance: Acceptance | None = None,
    batch_size: npt.ArrayLike = 1,
    context_len: npt.ArrayLike = 4096,
    max_draft_len: int | None = None,
    placement: Placement | None = None,
    engine: str | None = None,
    options: Options | None = None,
) -> SpeedupCurve:
    r"""Return what speculative decoding gains over a grid of operating points.

    .. math:: \text{speedup} = \frac{N(\gamma) \; t_1}
        {t_{serial}(\gamma) + \max(t_{verify}(\gamma + 1), t_{overlapped}(\gamma)) + t_{over}}

    Parameters
    ----------
    model, hardware
        From `load_model` and `load_hardware`.
    drafter
        From `load_drafter`.
    acceptance
        How many drafts are accepted; given here or in the drafter's SPEC, not in both. The ideal
        drafter takes none.
    batch_size, context_len
        A number or a list each, above 0 and at least 0: sequences in flight over all devices,
        and cached tokens of each.
    max_draft_len
        The longest draft tried. If None, 16, with NaN past the depth of drafter or acceptance;
        a number past that depth is an error.
    placement
        How many devices; one if None.
    engine
        A name in the hardware profile, or "ideal"; the profile's `default_engine` if None.
    options
        Which formulas.

    Returns
    -------
    SpeedupCurve
        Its arrays have the axes (context_len, batch_size, draft_len).

    Raises
    ------
    OptionError
        For values outside of what is allowed, and a placement that does not divide the model.
    ProfileError
        If the device cannot compute a dtype, or the engine is unknown.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8; Sadhukhan et al. 2024,
        arXiv:2408.11049, section 3, with the cost of verification.

    Examples
    --------
    >>> from specroof import load_drafter, load_hardware, load_model
    >>> curve = speedup_curve(
    ...     load_model("Qwen/Qwen3-8B"),
    ...     load_hardware("b200"),
    ...     drafter=load_drafter("ideal"),
    ...     batch_size=[1, 8],
    ...     max_draft_len=4,
    ... )
    >>> curve.speedup.shape
    (1, 2, 5)
    """
    options = options or Options()
    setup = Setup(hardware, hardware.engine(engine), placement or Placement(), options)
    check_placement(model, setup.placement)
    contexts = _axis("context_len", context_len, low=0, high=_LARGEST_CONTEXT)
    batches = _axis("batch_size", batch_size, low=1, high=_LARGEST_BATCH)
    tokens = _acceptance(drafter, acceptance)
    draft_lens = np.arange(_longest(drafter, tokens, max_draft_len) + 1, dtype=np.int64)

    shape = (len(contexts), len(batches), len(draft_lens))
    draft_s, verify_s, round_s = (np.empty(shape) for _ in range(3))
    expected = tokens.tokens_per_round(draft_lens)
    if drafter.max_draft_len is not None:
        expected = np.where(draft_lens <= drafter.max_draft_len, expected, np.nan)
    notes: dict[str, None] = {}
    for rows, columns in _chunks(shape):
        grid = (contexts[rows, None, None], batches[None, columns, None], draft_lens)
        times = _round_times(model, setup, drafter, expected, grid, notes)
        for whole, part in zip((draft_s, verify_s, round_s), times, strict=True):
            whole[rows, columns] = part
    notes.update(dict.fromkeys(_memory_notes(model, setup, contexts, batches)))
    return SpeedupCurve(
        model=model.name,
        hardware=hardware.name,
        engine=setup.engine.name,
        drafter=drafter.name,
        placement=setup.placement,
        context_len=contexts,
        batch_size=batches,
        draft_len=draft_lens,
        verify_len=draft_lens + 1,
        tokens_per_round=np.broadcast_to(expected, shape),
        draft_s=draft_s,
        verify_s=verify_s,
        round_s=round_s,
        notes=tuple(notes),
    )


def forward_latency(
    model: Architecture,
    hardware: HardwareProfile,
    forward_pass: ForwardPass,
    *,
    placement: Placement | None = None,
    engine: str | None = None,
    options: Options | None = None,
) -> PassLatency:
    """Return the seconds of one forward pass, and of each operation in it.

    Parameters
    ----------
    model, hardware
        From `load_model` and `load_hardware`.
    forward_pass
        Batch, new positions and context; arrays broadcast.
    placement, engine, options
        As for `speedup_curve`.

    Returns
    -------
    PassLatency
        ``total_s`` has the shape that the fields of `forward_pass` broadcast to.

    Raises
    ------
    OptionError, ProfileError
        As `speedup_curve` does.

    Source
        See `specroof.latency.price_pass`.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4096)
    >>> latency = forward_latency(load_model("Qwen/Qwen3-8B"), load_hardware("b200"), decode)
    >>> round(float(latency.total_s) * 1e3, 1)  # 15.1 GB of weights, 0.6 GB of cache at 8 TB/s
    2.0
    """
    setup = Setup(hardware, hardware.engine(engine), placement or Placement(), options or Options())
    check_placement(model, setup.placement)
    return _latency(model, setup, forward_pass)


def _latency(model: Architecture, setup: Setup, forward: ForwardPass) -> PassLatency:
    return price_pass(
        forward_cost(model, forward, setup.options),
        setup,
        batch_size=forward.batch,
        n_layers=model.n_layers,
    )


def _round_times(
    model: Architecture,
    setup: Setup,
    drafter: Drafter,
    expected: Array,
    grid: tuple[Array, Array, IntArray],
    notes: dict[str, None],
) -> tuple[Array, Array, Array]:
    """Return seconds of drafting, verification and round; draft length 0 is the plain step."""
    contexts, batches, draft_lens = grid
    verify = _latency(model, setup, ForwardPass(batches, draft_lens + 1, contexts))
    notes.update(dict.fromkeys(verify.notes))
    shape = np.broadcast_shapes(contexts.shape, batches.shape, draft_lens.shape)
    verify_s = np.broadcast_to(verify.total_s, shape)
    drafting = np.maximum(draft_lens, 1)  # a drafter is never asked for nothing
    time = drafter.draft(
        Round(
            draft_len=drafting.astype(np.float64),
            batch_size=batches,
            context_len=contexts,
            tokens_per_round=expected,
            decode_s=verify_s[..., :1],
            verify_s=verify_s,
            cost_of=setup.options.cost_of,
            price=lambda other, forward: _latency(other, setup, forward).total_s,
        )
    )
    speculates = draft_lens > 0
    known = np.where(np.isfinite(expected), 1.0, np.nan)  # no depth, no time
    serial_s = np.where(speculates, time.serial_s, 0.0)
    felt_s = np.maximum(verify_s, np.where(speculates, time.overlapped_s, 0.0))
    added_s = np.where(speculates, setup.engine.round_overhead_s, 0.0)
    draft_s = np.where(speculates, time.serial_s + time.overlapped_s, 0.0)
    return draft_s * known, verify_s * known, (serial_s + felt_s + added_s) * known


def _chunks(shape: tuple[int, int, int]) -> Iterator[tuple[slice, slice]]:
    """Yield slices of the first two axes that hold at most `_CHUNK_POINTS` points each."""
    contexts, batches, drafts = shape
    columns = max(1, min(batches, _CHUNK_POINTS // drafts))
    rows = max(1, min(contexts, _CHUNK_POINTS // (drafts * columns)))
    for row in range(0, contexts, rows):
        for column in range(0, batches, columns):
            yield slice(row, row + rows), slice(column, column + columns)


def _axis(name: str, values: npt.ArrayLike, *, low: float, high: float) -> Array:
    """Return an axis of the grid from a number or a list of numbers."""
    allowed = f"a number or a list of numbers from {low:g} to {high:g}"
    try:
        axis = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        msg = f"{name} is {values!r}; allowed: {allowed}"
        raise OptionError(msg) from None
    if axis.ndim != 1 or axis.size == 0:
        msg = f"{name} has shape {axis.shape}; allowed: {allowed}"
        raise OptionError(msg)
    bad = axis[~((axis >= low) & (axis <= high))]
    if bad.size:
        msg = f"{name} is {bad[0]:g}; allowed: {allowed}"
        raise OptionError(msg)
    return axis


def _acceptance(drafter: Drafter, acceptance: Acceptance | None) -> TokensPerRound:
    """Return the one acceptance that was given."""
    if drafter.is_ideal:
        if acceptance is not None:
            msg = "acceptance is given with drafter 'ideal', which accepts everything"
            raise OptionError(msg)
        return constant_acceptance(1.0)
    if acceptance is not None and drafter.acceptance is not None:
        msg = f"acceptance is given twice: as an argument and in drafter {drafter.name!r}"
        raise OptionError(msg)
    given = acceptance or drafter.acceptance
    if given is None:
        msg = f"drafter {drafter.name!r} has no acceptance; give one, as in accept=0.8"
        raise OptionError(msg)
    return given


def _longest(drafter: Drafter, tokens: TokensPerRound, asked: int | None) -> int:
    """Return the longest draft of the grid; one that was asked for must be within the depth."""
    if asked is None:
        return DEFAULT_MAX_DRAFT_LEN
    if isinstance(asked, bool) or not 0 <= asked <= LARGEST_DRAFT_LEN or asked != int(asked):
        msg = f"max_draft_len is {asked!r}; allowed: a whole number from 0 to {LARGEST_DRAFT_LEN}"
        raise OptionError(msg)
    depth = min(
        math.inf if depth is None else depth
        for depth in (drafter.max_draft_len, tokens.max_draft_len)
    )
    if asked > depth:
        msg = f"max_draft_len is {asked}; allowed: at most {depth}, the depth of {drafter.name!r}"
        raise OptionError(msg)
    return int(asked)


def check_placement(model: Architecture, placement: Placement) -> None:
    """Refuse tensor parallelism that does not divide the query heads of every layer.

    Raises
    ------
    OptionError
        With the numbers.
    """
    group = placement.tensor_parallel // placement.attention_data_parallel
    softmax = GroupedQueryAttention | LatentAttention | CompressedAttention
    for layer in model.layers:
        for block in layer.blocks:
            if isinstance(block.core, softmax) and block.core.n_heads % group:
                msg = (
                    f"tensor_parallel is {placement.tensor_parallel} with attention_data_parallel "
                    f"{placement.attention_data_parallel}: groups of {group} devices do not divide "
                    f"the {block.core.n_heads} query heads of {model.name}"
                )
                raise OptionError(msg)


def _memory_notes(
    model: Architecture, setup: Setup, contexts: Array, batches: Array
) -> Iterator[str]:
    """Yield a sentence with the numbers if the grid holds points that do not fit the memory."""
    has = setup.hardware.peak.memory_bytes
    context = contexts.max()
    parts = storage(model, context, setup.options)
    needs = device_bytes(parts, setup.placement, batches)
    too_large = batches[needs > has]
    if not too_large.size:
        return
    weights = float(device_bytes(parts, setup.placement, 0.0))
    per_sequence = float(device_bytes(parts, setup.placement, 1.0)) - weights
    batch = float(too_large.min())
    yield (
        f"{model.name} does not fit {setup.placement.devices} x {setup.hardware.name} from batch "
        f"size {batch:g} at context {context:g}: {format_binary_bytes(weights)} of weights and "
        f"{format_binary_bytes(per_sequence)} of cache per sequence on each device, which has "
        f"{format_binary_bytes(has)}"
    )
