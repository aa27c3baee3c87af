"""What an engine reaches of a device, and what it loses around the work.

Every figure of the ideal engine is the default of its field: all of the peak, no time lost.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof import quantities as q
from specroof.arrays import Array, number_within, whole_within
from specroof.errors import refuse
from specroof.frameworks import FRAMEWORKS, LOCAL_FRAMEWORKS, STAND_IN, version_parts
from specroof.frameworks import release as release_of
from specroof.units import BOUNDS

# --- Settings of a server, given and in force: values only, no rule of any framework -------------

#: How a switch is spelled; YAML has read its word, and Python's truth is printed as one.
_SWITCH: Final = {"on": True, "off": False, "true": True, "false": False}

#: Whether a server's host works beside its device: always, never, or in plain steps alone.
Overlap: TypeAlias = bool | Literal["plain"]


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """One setting of a server.

    Parameters
    ----------
    field
        Of `ServerSettings`.
    quantity
        A key of `specroof.units.BOUNDS` for a number; empty for anything else.
    words
        The words that it may be, where it is no number; "on" and "off" stand for True and False.
    """

    field: str
    quantity: str = ""
    words: tuple[str, ...] = ("on", "off")

    @property
    def allowed(self) -> str:
        """What it may be, for messages."""
        return BOUNDS[self.quantity].allowed if self.quantity else ", ".join(self.words)

    def parsed(self, name: str, text: str) -> float | bool | str:
        """Return the value that a text spells; `name` begins the refusal of another one."""
        if not self.quantity:
            value = _SWITCH.get(text.lower(), text)
            self.check(name, value)
            return value
        try:
            return (int if BOUNDS[self.quantity].whole else float)(text)
        except ValueError:
            refuse(name, text, self.allowed)

    def check(self, name: str, value: object) -> None:
        """Refuse a value that the setting cannot have; `name` begins the refusal."""
        if self.quantity:
            within = whole_within if BOUNDS[self.quantity].whole else number_within
            within(name, value, self.quantity)
            return
        allowed = [_SWITCH.get(word, word) for word in self.words]
        # 1 equals True, and an array equals a word in each entry.
        if not isinstance(value, bool | str) or value not in allowed:
            refuse(name, value, self.allowed)


#: Every setting, as `--server` and studies spell it.
SETTINGS: Final[Mapping[str, ServerSetting]] = {
    "memory": ServerSetting("memory_frac", "server_memory"),
    "running": ServerSetting("running", "server_requests"),
    "capture": ServerSetting("capture", "server_count"),  # 0 for no graphs
    "overlap": ServerSetting("overlap", words=("on", "off", "plain")),
    "chunk": ServerSetting("chunk", "server_count"),  # tokens, 0 for prompts in one piece
    "mixed": ServerSetting("mixed"),
    "state-dtype": ServerSetting("state_dtype", words=("fp32", "bf16", "fp16", "fp8")),
    "prefix-cache": ServerSetting("prefix_cache"),
}
#: The fields of `ServerSettings` by the same keys.
SERVER_KEYS: Final[Mapping[str, str]] = {key: setting.field for key, setting in SETTINGS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of a server that the user gives; None leaves one to the framework's default.

    Parameters
    ----------
    memory_frac
        Share of a device's memory that the server may fill: ``--mem-fraction-static`` of SGLang,
        ``--gpu-memory-utilization`` of vLLM.
    running
        Requests that are decoded together, at most, as the framework's flag counts them: of all
        groups of data-parallel attention for SGLang, of each for vLLM and TensorRT-LLM.
    capture
        The largest batch that is recorded as a CUDA graph, in the framework's own unit: sequences
        for SGLang, tokens for vLLM. 0 records none.
    overlap
        Whether the host schedules the next batch while the device runs this one. ``"plain"``: it
        does while plain steps run; a server that drafts waits for its host in each round.
    chunk
        Tokens of a prompt that one pass takes; 0 takes it whole.
    mixed
        Whether chunks of prompts share passes with decoding.
    state_dtype
        Dtype of recurrent state.
    prefix_cache
        Whether the cache of finished requests is kept for others with the same beginning.

    Raises
    ------
    OptionError
        For a value out of range.

    Examples
    --------
    >>> ServerSettings(running=64).stated
    {'running': 64}
    """

    memory_frac: float | None = None
    running: int | None = None
    capture: int | None = None
    overlap: Overlap | None = None
    chunk: int | None = None
    mixed: bool | None = None
    state_dtype: str | None = None
    prefix_cache: bool | None = None

    def __post_init__(self) -> None:
        for key, setting in SETTINGS.items():
            value = getattr(self, setting.field)
            if value is not None:
                setting.check(f"server: {key}", value)

    @property
    def stated(self) -> dict[str, Any]:
        """The settings that were stated, by the keys of `SERVER_KEYS`."""
        values = {key: getattr(self, name) for key, name in SERVER_KEYS.items()}
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Settings in force: every one has a value, given or by default.

    Parameters
    ----------
    framework, version
        Framework and release whose rules filled in what was not stated.
    memory_frac, running, capture, overlap, chunk, mixed, state_dtype, prefix_cache
        As in `ServerSettings`; `running` is None where nothing but memory limits it, and `overlap`
        of a server that drafts says whether its rounds overlap.
    stated
        What the user told it.
    synchronous
        Kinds of drafters whose rounds wait for the host although plain steps do not: with
        ``overlap="plain"`` all do.
    """

    framework: str
    version: str
    memory_frac: float
    running: int | None
    capture: int
    overlap: Overlap
    chunk: int
    mixed: bool
    state_dtype: str
    prefix_cache: bool
    stated: ServerSettings = ServerSettings()
    synchronous: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON has them, keys spelt as in `--server`."""
        whose = {"framework": self.framework, "version": self.version}
        return whose | {key: getattr(self, name) for key, name in SERVER_KEYS.items()}


#: Kinds of operation that may have a separate share; `dense` covers all the others.
OP_KINDS: Final = ("experts", "attention", "latent_attention", "indexer", "state")
#: Kinds of layer that may cost time on top of what every layer costs. An indexer picks entries and
#: blocks of tokens, ``sparse_index``, or tokens, ``token_index``.
#: The last two are blocks, attention or feed-forward, whose tokens are scaled and rounded to fp8 or
#: fp4, in blocks of their own, before they are multiplied.
LAYER_KINDS: Final = (
    *("experts", "linear_attention", "latent_attention", "sparse_index", "token_index"),
    *("fp8_blocks", "fp4_blocks", "feed_forward"),
)

# What the figures of a hardware file are: quantities of `specroof.units.BOUNDS`, and words that
# `specroof.hardware.schema` lists. Its checks are made from these classes.
Seconds: TypeAlias = Annotated[float, "seconds"]
LatencySeconds: TypeAlias = Annotated[float, "latency_s"]
Share: TypeAlias = Annotated[float, "reached_share"]
Exponent: TypeAlias = Annotated[float, "exponent"]
Error: TypeAlias = Annotated[float, "expected_error"]
Dtype: TypeAlias = Annotated[str, "dtype"]
OpKind: TypeAlias = Annotated[str, "op_kind"]
LayerKind: TypeAlias = Annotated[str, "layer_kind"]
ShortName: TypeAlias = Annotated[str, "short_name"]
MeasuredBatch: TypeAlias = Annotated[float, "measured_batch_size"]
MeasuredLen: TypeAlias = Annotated[float, "measured_len"]
Words: TypeAlias = Annotated[tuple[str, ...], "words"]

#: What `EngineProfile.bands` calls drafters of every kind that it does not name.
OTHER_DRAFTERS: Final = "other"

#: Half-width of a band, in natural logarithms, for not knowing what the host takes without overlap.
#: Sources have a tenth to three times as much as the pair of runs that measured it; there three
#: times as much makes 0.30 of the speedup for 32 requests, and 0.14 for one. Where rounds alone
#: wait, it makes 0.41 and 0.43.
UNSURE_HOST: Final[Mapping[Overlap, float]] = {False: 0.3, "plain": 0.43}

#: What the band of a speedup gains, in natural logarithms, for each e-fold of the batch or of the
#: context beyond the largest measured, as squares add up: a little more than the 0.073 and 0.083
#: that 80 % of measurements beyond a range need of bands set within it (benchmarks/band_ranges.py).
BATCH_WIDENING: Final = 0.09
CONTEXT_WIDENING: Final = 0.1

#: Half-widths, in natural logarithms, that bands of speedups and of times gain where an engine was
#: not measured in such a placement, by the words of `Reach.placements`. Stages: three speedups of
#: drafts in a pipeline lie 0.82, 0.28 and 0.04 below those of models and acceptances like theirs,
#: which their sources leave open (vLLM pull request 46994, at 1 and at 8 requests, and 50514): 0.5
#: is the root mean square. Nodes: three times the latency between them makes up to 0.08 of speedups
#: and 0.38 of steps. Workers of their own for prefill: what 80 % of drafted loads of such need, as
#: loads of other workers tell (benchmarks/band_ranges.py); TPOT without drafts is within its band.
UNMEASURED: Final[Mapping[str, tuple[float, float]]] = {
    "pp": (0.5, 0.5),
    "nodes": (0.08, 0.38),
    "split": (0.25, 0.0),
}

#: Half-width that the widest band of an engine gains, as squares add up, for a kind of drafter that
#: nobody measured: what 80 % of the measurements of a kind need besides the band of the others is
#: 0.06 at most, of six kinds (benchmarks/band_ranges.py). Kinds whose cost is stated have the band
#: of any drafter: what could be measured of them is known.
UNMEASURED_KIND: Final = 0.06
_STATED_KINDS: Final = ("", "ideal", "autoregressive", "block")
#: Kinds that somebody measured somewhere: those of the generic engine.
_MEASURED_KINDS: Final = ("dflash", "dspark", "eagle", "eagle3", "model", "mtp", "ngram")

#: Sequences beyond which bands of speedups widen where nobody measured the kind of attention on the
#: family of the chip. Of 16 drafted loads at 4 to 32 in flight, of DeepSeek-V4-Flash under SGLang
#: and of Nemotron-3-Super under vLLM, such bands hold 12, and 10 if they widened beyond 32 alone
#: (``benchmarks/drafted_loads.py``).
UNMEASURED_ATTENTION_BATCH: Final = 4.0

#: A longer pass runs the recurrence of linear attention in chunks of at least so many tokens.
STATE_TOKENS: Final = 32


@dataclass(frozen=True, kw_only=True)
class Collective:
    """What an all-reduce costs in an engine.

    Attributes
    ----------
    latency_s
        Seconds of the shortest one, but for what each device adds.
    device_latency_s
        Seconds that each device beyond the first adds.
    link_frac
        Share of the link's bytes/s that a long one reaches.
    one_shot_frac, one_shot_bytes
        That which a short one reaches in whose kernel each device reads all others' whole message,
        and the longest of them; None where such kernels are not told apart.
    scale_out_latency_s
        Seconds of the shortest one between groups of devices; None if it was not measured.
    """

    latency_s: LatencySeconds
    device_latency_s: Seconds = 0.0
    link_frac: Share = 1.0
    one_shot_frac: Share | None = None
    one_shot_bytes: Annotated[float, "message_bytes"] = 2.0**20
    scale_out_latency_s: LatencySeconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllToAll:
    """What kernels cost that send tokens to the devices of their experts, and results back.

    Attributes
    ----------
    dispatch_latency_s, combine_latency_s
        Seconds of the shortest one, there and back, the kernel and its barrier included.
    """

    dispatch_latency_s: LatencySeconds
    combine_latency_s: LatencySeconds


#: Devices of a usual node; beyond, published deployments of vLLM and SGLang turn on DeepEP.
_NODE_DEVICES: Final = 8
#: DeepEP's low-latency kernels: its table has 77 and 114 us for 128 tokens of 8 x 7168 elements on
#: 8 H800, less 7/8 of 7392 and of 14336 bytes for each copy at the 160 GB/s that it names.
_DEEP_EP: Final = AllToAll(dispatch_latency_s=36e-6, combine_latency_s=34e-6)
#: TensorRT-LLM's NVLinkOneSided on GB200: its technical blog 18, one token a device, 8 devices.
_ONE_SIDED: Final = AllToAll(dispatch_latency_s=18.9e-6, combine_latency_s=31.0e-6)


@dataclass(frozen=True, kw_only=True)
class ExpertLocality:
    """How much less than independent the routing of tokens is.

    Distinct experts of B sequences with T tokens each are those of :math:`B^b T^r` independent
    tokens.

    Attributes
    ----------
    run
        r, along one sequence; 1 for independent tokens.
    batch
        b, across sequences; 1 for experts that are all equally popular.

    Source
        Finn 2026, "Width vs. depth": the measured rows; the two exponents reproduce them to
        1.2 % (run, 0.737) and 5 % (batch, 0.909).
    """

    run: Exponent
    batch: Exponent


@dataclass(frozen=True, kw_only=True)
class ExpertTile:
    r"""How the grouped matmuls of experts speed up as each expert gets more rows.

    A kernel works on tiles of rows, and an expert that has fewer wastes the rest of one. With r
    rows per expert that is hit,

    .. math:: \frac{1}{s(r)} = \frac{\varphi}{s_{few}} + \frac{1 - \varphi}{s_{many}},
        \quad \varphi = \frac{r_0}{r_0 + r}

    with the share of experts in `EngineProfile.kind_compute_frac` for few rows, unless the tile has
    one of its own.

    Attributes
    ----------
    rows
        :math:`r_0`, rows per expert at which half of the way is made.
    compute_frac
        :math:`s_{many}`, share of the peak with many rows.
    few_frac
        :math:`s_{few}`; None for the engine's.
    """

    rows: Annotated[float, "expert_rows"]
    compute_frac: Share
    few_frac: Share | None = None


@dataclass(frozen=True, kw_only=True)
class ExpertKernel:
    r"""The fused experts of a layer in one format, as the kernels of an engine are timed.

    .. math:: t = t_0 + E \, t_1 + \lVert m / q, \; c / f \rVert

    with E the experts that a device holds, and m and c the seconds at the peaks, which overlap as
    `EngineProfile.overlap_norm` says. With more than 16 rows an expert, which fill a tile, f rises
    as that of an `ExpertTile` does by the rows beyond. It stands in the place of
    `EngineProfile.expert_tile` and of the shares of experts in all passes but those over prompts.

    Source
        Least squares of published timings, which the profile names:
        ``benchmarks/expert_kernels.py``.

    Attributes
    ----------
    floor_s, expert_s
        :math:`t_0` and :math:`t_1`, seconds that neither bytes nor arithmetic take.
    memory_frac
        q, share of the memory's bytes/s.
    compute_frac
        f, share of the peak; with a tile that of 16 rows.
    tokens
        The most tokens of a pass that were timed; passes of more say so.
    rows, many_frac
        :math:`r_0` and :math:`s_{many}` of its tile; None where f does not rise.
    """

    floor_s: Seconds
    expert_s: Seconds
    memory_frac: Share
    compute_frac: Share
    tokens: MeasuredBatch
    rows: Annotated[float, "expert_rows"] | None = None
    many_frac: Share | None = None


@dataclass(frozen=True, kw_only=True)
class SparseKernel:
    """Attention of many heads to one latent, of which an indexer picks tokens, as it is timed.

    Attributes
    ----------
    head_tile
        Heads that are computed together: a device with fewer computes as many.
    compute_frac
        Share of the peak that it reaches, those heads counted; in the place of the engine's.
    all_slots
        Whether each query takes as many tokens as may be picked, however few there are.
    decodes
        Whether decoding and verification run in it, too, and not only passes over prompts.

    Source
        Least squares of published timings, which the profile names:
        ``benchmarks/sparse_kernels.py``. SGLang 0.5.23 ``layers/attention/dsa_backend.py``,
        ``_forward_flashmla_sparse``, and vLLM 0.33.0 ``v1/attention/backends/mla/
        flashmla_sparse.py`` pad the heads of a device to 64 on Hopper, and to 128 on Blackwell.
    """

    head_tile: Annotated[int, "kernel_heads"]
    compute_frac: Share
    all_slots: bool = False
    decodes: bool = False


@dataclass(frozen=True, kw_only=True)
class FormerReleases:
    """What the releases of a server up to one did otherwise than those that a profile is of.

    Attributes
    ----------
    last
        The last of them, as releases are tagged.
    before
        The month from which on a load is not theirs whose source states no release.
    expert_kernels
        Experts as they are timed, where other kernels ran, by the dtype of their arithmetic.
    """

    last: Annotated[str, "text"]
    before: Annotated[str, "text"]
    expert_kernels: Mapping[Dtype, ExpertKernel] = field(default_factory=dict)

    def has(self, release: str, date: str = "") -> bool:
        """Tell whether a release is one of them; if it is empty, whether the newest of a day is.

        Examples
        --------
        >>> former = FormerReleases(last="v1.1", before="2026-01")
        >>> [former.has(name) for name in ("1.1.0rc2.post2", "1.2.0rc6", "")]
        [True, False, False]
        >>> former.has("", "2025-11-02")
        True
        """
        if not release:
            return "" < date < self.before
        last = version_parts(self.last)
        return version_parts(release)[: len(last)] <= last


@dataclass(frozen=True, kw_only=True)
class RowKernel:
    r"""A kernel that multiplies a few rows by a matrix, one of several that an engine has.

    Engines for one user change kernels with the rows: a product of a matrix and a few vectors
    unpacks every weight once for each row, a product of matrices works on whole tiles of rows.
    With b bytes of weights of n elements and r rows, padded to tiles,

    .. math:: t = \frac{b}{q W} + \frac{2 n r}{f P}

    where the engine's `overlap_norm` says how the two add up.

    Attributes
    ----------
    of
        Which matrices: ``"experts"``, or ``"dense"`` for all others.
    rows
        The most rows that it takes, tokens of the pass; None for any number.
    bits
        The most bits of a weight, block scales included; None for any.
    compute_frac
        f, share of the chip's peak in float32, whatever the dtype: what unpacks weights.
    memory_share
        q, share of the bytes/s that the engine reaches elsewhere.
    tile
        Rows that are computed at a time.
    widest_tile
        The most rows of a tile where tiles grow, in steps of `tile`, with the rows of the pass:
        those of all experts together, so that the tile of one of them is hardly filled. None where
        they do not grow.
    busy_outputs
        Outputs of a matrix, for each multiprocessor, that keep it busy: with fewer, some of its
        arithmetic waits. None where any number does.
    repeats
        Whether each token reads its experts on its own, those that other tokens visit again.
    """

    of: Annotated[str, "kernel_work"] = "dense"
    rows: Annotated[float, "expert_rows"] | None = None
    bits: Annotated[float, "weight_bits"] | None = None
    compute_frac: Annotated[float, "vector_share"]
    memory_share: Share = 1.0
    tile: Annotated[float, "expert_rows"] = 1.0
    widest_tile: Annotated[float, "expert_rows"] | None = None
    busy_outputs: Annotated[float, "expert_rows"] | None = None
    repeats: bool = False


@dataclass(frozen=True, kw_only=True)
class CapturedGraphs:
    """The sizes that an engine has recorded as CUDA graphs, and the price outside of them.

    Attributes
    ----------
    sizes
        Ascending; a pass is padded to the next of them.
    counts
        What the sizes count: ``"tokens"`` of the pass (vLLM) or its ``"sequences"`` (SGLang).
    eager_kernel_s
        Seconds that launching each kernel takes outside of a graph. A pass that is larger than
        every size lasts at least as long: the device works meanwhile.
    """

    sizes: Annotated[tuple[int, ...], "captured_sizes"]
    counts: Annotated[str, "counted"] = "tokens"
    eager_kernel_s: Seconds = 0.0


@dataclass(frozen=True, kw_only=True)
class ExpectedError:
    """How far predictions of a profile were off on sources that its fit had not seen.

    Attributes
    ----------
    speedup_mean, speedup_median
        Of the speedup, as shares.
    plain_median
        Of plain throughput, as a share.
    """

    speedup_mean: Error
    speedup_median: Error
    plain_median: Error


@dataclass(frozen=True, kw_only=True)
class Band:
    """Where 80 % of measurements lie around what is predicted.

    Attributes
    ----------
    width
        Half of the band, in natural logarithms: from :math:`s e^{-w}` to :math:`s e^{w}`.
    mean_error
        Mean of how far off those predictions were, as a share.
    points
        How many there were.
    engines
        How many of them each serving software has; empty where that is not known.
    batch_size, context_len
        The largest that was measured; None for a band that does not widen.
    """

    width: Annotated[float, "band"]
    mean_error: Error
    points: Annotated[int, "points"]
    engines: Mapping[ShortName, Annotated[int, "points"]] = field(default_factory=dict)
    batch_size: MeasuredBatch | None = None
    context_len: MeasuredLen | None = None

    def width_at(self, batch_size: npt.ArrayLike, context_len: npt.ArrayLike) -> Array:
        r"""Return the half-width at operating points, wider beyond what was measured.

        .. math:: \sqrt{w^2 + (a \ln^+ B / B_{max})^2 + (b \ln^+ S / S_{max})^2}

        with `BATCH_WIDENING` a, `CONTEXT_WIDENING` b, and no logarithm below 0.

        Parameters
        ----------
        batch_size, context_len
            B, sequences, and S, tokens; arrays that broadcast.

        Source
            Bands of small batches and short contexts beside measurements beyond them:
            ``benchmarks/band_ranges.py``.

        Examples
        --------
        >>> band = Band(width=0.1, mean_error=0.05, points=9, batch_size=32)
        >>> band.width_at([8, 32], 4096)
        array([0.1, 0.1])
        >>> bool(band.width_at(64, 4096) > 0.1)
        True
        """

        def beyond(asked: npt.ArrayLike, most: float | None) -> Array:
            return np.log(np.maximum(np.asarray(asked) / (most or np.inf), 1.0))

        by_batch = BATCH_WIDENING * beyond(batch_size, self.batch_size)
        by_context = CONTEXT_WIDENING * beyond(context_len, self.context_len)
        return np.asarray(np.hypot(self.width, np.hypot(by_batch, by_context)))


#: Figures of served requests that have bands, by their names in `specroof.evidence.Measurement`.
#: In a steady state, then of loads that are played through, whose prompts wait for one another.
_STEADY_FIGURES: Final = ("tpot_s", "ttft_s", q.TOKENS_PER_S.name)
_PLAYED: Final = "played_"
SERVED_FIGURES: Final = (*_STEADY_FIGURES, *(_PLAYED + name for name in _STEADY_FIGURES))
#: The largest concurrency of each range that may have a band of its own; one more lies above.
CONCURRENCY_ENDS: Final = (4, 32, 256)
#: What `EngineProfile.served_bands` calls those ranges, and loads of all others.
CONCURRENCY_RANGES: Final = (*(f"to-{end}" for end in CONCURRENCY_ENDS), "more")
ANY_CONCURRENCY: Final = "any"


#: Bands of served loads: by figure, then by the range of concurrency.
ServedBands: TypeAlias = Mapping[
    Annotated[str, "served_figure"], Mapping[Annotated[str, "concurrency_range"], Band]
]


def served_width(
    bands: ServedBands, figure: str, concurrency: npt.ArrayLike, context_len: npt.ArrayLike = 0.0
) -> Array | None:
    """Return the half-widths of a figure of served requests; None, or NaN, where it has no band.

    Parameters
    ----------
    bands
        Of an `EngineProfile`.
    figure
        One of `SERVED_FIGURES`.
    concurrency
        Requests in flight, or the batch size of decoding alone.
    context_len
        Tokens: beyond those that were measured a band widens. An array that broadcasts.

    Source
        Counting: `specroof.scoring.bands.served_bands_of` sets them.

    Examples
    --------
    >>> wide, narrow = (Band(width=width, mean_error=0.1, points=9) for width in (0.4, 0.1))
    >>> served_width({"tpot_s": {"any": wide, "to-4": narrow}}, "tpot_s", [1, 4, 5])
    array([0.1, 0.1, 0.4])
    """
    if figure not in bands:
        return None
    found = served_cells(bands, figure)
    shape = np.broadcast_shapes(np.shape(concurrency), np.shape(context_len))
    widths = [
        np.full(shape, np.nan) if band is None else band.width_at(concurrency, context_len)
        for band in found
    ]
    return np.choose(np.searchsorted(CONCURRENCY_ENDS, concurrency), widths)


def played_figure(bands: ServedBands, figure: str) -> str:
    """Return which of `SERVED_FIGURES` has the band of a figure in which no prompt is averaged.

    Of requests that are played through, and of decoding alone: that of loads that were played,
    since those of the steady state have the errors of its waits and of prompts among the steps. Of
    an engine without any, that of the steady state.

    Source
        Counting, as of `served_width`.

    Examples
    --------
    >>> played_figure({"tpot_s": {}, "played_tpot_s": {}}, "tpot_s"), played_figure({}, "ttft_s")
    ('played_tpot_s', 'ttft_s')
    """
    is_known = any(name.startswith(_PLAYED) for name in bands)
    return _PLAYED + figure if is_known else figure


def served_cells(bands: ServedBands, figure: str) -> list[Band | None]:
    """Return the band of a figure for each of `CONCURRENCY_RANGES`; None where there is none.

    Parameters
    ----------
    bands, figure
        As for `served_width`.

    Examples
    --------
    >>> served_cells({}, "ttft_s")
    [None, None, None, None]
    """
    cells = bands.get(figure, {})
    return [cells.get(name, cells.get(ANY_CONCURRENCY)) for name in CONCURRENCY_RANGES]


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What the measurements behind an engine profile cover.

    Attributes
    ----------
    family
        The family of chips; empty for the generic engine, which stands in on chips of any other.
    engines, chips
        Serving software, and chips by their full names.
    attention, formats, placements
        Kinds of attention, formats of weights, and ways to spread a model, as
        `specroof.speedup.reach.deployment_words` calls them.
    batch_size, context_len
        The largest without drafts; None where nothing was measured.
    drafters
        Kinds of drafters.
    drafted_batch_size, drafted_context_len
        The largest with drafts of known acceptance; None where it never was.
    versions
        Releases of the server as they are tagged, such as ``v0.10``, as far as sources say.
    speedup_drift, drift
        By how much speedups, and times, of the same load moved from one release to another:
        half-widths, in natural logarithms, that bands gain beyond the newest of `versions`, or
        where there are none.
    """

    family: Annotated[str, "text"] = ""
    engines: Words = ()
    chips: Words = ()
    attention: Words = ()
    formats: Words = ()
    placements: Words = ()
    batch_size: MeasuredBatch | None = None
    context_len: MeasuredLen | None = None
    drafters: Words = ()
    drafted_batch_size: MeasuredBatch | None = None
    drafted_context_len: MeasuredLen | None = None
    versions: Words = ()
    speedup_drift: Annotated[float, "band"] = 0.0
    drift: Annotated[float, "band"] = 0.0


@dataclass(frozen=True, kw_only=True)
class EngineProfile:
    """What kernels, collectives and the loop around them reach in one engine.

    The defaults are those of the ideal engine: all of the peak, no time lost.

    Attributes
    ----------
    name
        The key under `engines`, which fills it in.
    compute_frac
        Share of the dense peak that matmuls reach, by dtype; 1 for a dtype that is left out.
    kind_compute_frac
        Share for operations of a kind (`OP_KINDS`), in the place of `compute_frac`.
    prefill_compute_frac
        Share for operations of a kind in passes over a prompt, in the place of `kind_compute_frac`:
        their kernels have thousands of rows to work on where those of a verification have a few.
    prefill_frac
        What passes over a prompt reach of the shares above, but for those of
        `prefill_compute_frac`.
    memory_frac
        Share of the memory's bytes/s that is reached.
    kind_memory_frac
        Share for operations of a kind, in the place of `memory_frac`.
    overlap_norm
        p of :math:`(c^p + m^p)^{1/p}`, the seconds of an operation with c of arithmetic and m of
        memory; None for the larger of the two, as if p had no end.
    pass_overhead_s, layer_overhead_s, sequence_overhead_s
        Seconds on top of each forward pass, of each layer in it, of each sequence in it: of data-
        parallel attention, and wherever sequences are named below, of those of one group.
    layer_kind_overhead_s
        Seconds on top of `layer_overhead_s` in layers of a kind (`LAYER_KINDS`).
    layer_token_overhead_s
        Seconds on top of each layer for each new token of the pass: norms, rotations, activations
        and whatever else touches tokens one by one.
    activation_frac
        Share of the memory's bytes/s at which passes that take prompts move activations
        (`specroof.latency.model.activation_bytes`), in the place of `layer_token_overhead_s`; None
        where that counts in all passes.
    prefill_kernel_overhead_s
        Seconds on top of each kernel of a pass that takes prompts: no graph holds them.
    prefill_launch_s
        Seconds of a call in which the host launches a pass that takes prompts, outside of graphs: a
        pass lasts no less than all its calls take together (`specroof.latency.model.served_calls`).
    state_token_overhead_s
        Seconds on top of each layer of linear attention, for each new token of a sequence beyond
        the first and up to `STATE_TOKENS`: the recurrence takes one token after the other.
    draft_pass_overhead_s
        Seconds on top of each forward pass of a drafter, in the place of those per pass and per
        sequence of the target; None if they are the same.
    serial_step_overhead_s, serial_sequence_overhead_s
        Seconds on top of each step of a drafter's serial head, and of each sequence in it.
    host_s, host_sequence_s
        Seconds that the host takes for each pass of the target, and for each sequence in it, while
        the device waits: see `overlap`.
    overlap
        Whether the scheduler lets the host work while the device does; ``"plain"``: in plain steps,
        and not in rounds.
    round_overhead_s, round_sequence_overhead_s
        Seconds on top of each speculative round, and of each sequence in it.
    tree_round_overhead_s
        Seconds on top of each round whose drafts are a tree: its mask, the choice among children,
        the cache that is moved behind what was accepted.
    lookup_round_frac
        Share of `round_overhead_s` and `round_sequence_overhead_s` that a round has where
        drafts are looked up and no drafter runs, from 0.
    request_overhead_s
        Seconds that each request keeps the whole batch waiting, its prefill apart.
    request_latency_s
        Seconds that each request loses alone, while the others are decoded: on its way in and out.
    tokenize_s
        Seconds that the host takes for each token of a prompt's text, one prompt after another,
        before the scheduler knows of the request.
    collective
        What an all-reduce costs; None where collectives are free, as on the ideal engine.
    expert_tile
        How experts speed up with their rows; None where their share is the same for all.
    prefill_expert_tiles
        The same over prompts as it is timed, by the format of weights or the dtype of arithmetic,
        in the place of `expert_tile` and of the shares above.
    expert_kernels
        Experts as they are timed, by the dtype of their arithmetic, or by the format of their
        weights where that has kernels of its own; those of other dtypes have the shares above.
    sparse_kernels
        Attention to picked tokens as it is timed over prompts, by the format of its cache;
        ``"compressed"`` for that to compressed entries. Without one, heads are as many as a device
        has, and the share is that of latent attention.
    expert_locality
        How dependent the routing of tokens is; None for independent tokens.
    row_kernels
        Kernels of matrices by their names; the first that takes an operation's rows and weights
        computes it, in the place of `compute_frac`. Empty where shares do not depend on rows.
    graphs
        Captured sizes; None for no padding.
    recurrent_state
        How a verification keeps recurrent state, unless options say otherwise; None for
        the default of `Options`.
    expected_error
        How far its predictions were off on sources that it was fitted without.
    framework
        The serving software whose rules count; None takes it from the name.
    bands
        Of speedups, by the kind of drafter; `OTHER_DRAFTERS` for kinds that are not named. Empty
        without measurements.
    served_bands
        Of `SERVED_FIGURES` without drafts, by `CONCURRENCY_RANGES`; `ANY_CONCURRENCY` for those
        that are not named. Empty where no served load speaks for the engine.
    reach
        What the measurements behind it cover; None where that is not known.
    former
        What older releases of its server did otherwise; None where nothing is known.
    release
        The release of its server that is meant; empty for all that it was fitted to.

    Examples
    --------
    >>> EngineProfile(name="half", compute_frac={"bf16": 0.5}).memory_frac
    1.0
    """

    name: Annotated[str, "short_name"]
    compute_frac: Mapping[Dtype, Share] = field(default_factory=dict)
    kind_compute_frac: Mapping[OpKind, Share] = field(default_factory=dict)
    prefill_compute_frac: Mapping[OpKind, Share] = field(default_factory=dict)
    prefill_frac: Share = 1.0
    memory_frac: Share = 1.0
    kind_memory_frac: Mapping[OpKind, Share] = field(default_factory=dict)
    overlap_norm: Annotated[float, "overlap_norm"] | None = None
    pass_overhead_s: Seconds = 0.0
    layer_overhead_s: Seconds = 0.0
    layer_kind_overhead_s: Mapping[LayerKind, Seconds] = field(default_factory=dict)
    sequence_overhead_s: Seconds = 0.0
    layer_token_overhead_s: Seconds = 0.0
    activation_frac: Share | None = None
    prefill_kernel_overhead_s: Seconds = 0.0
    prefill_launch_s: Seconds = 0.0
    state_token_overhead_s: Seconds = 0.0
    draft_pass_overhead_s: Seconds | None = None
    serial_step_overhead_s: Seconds = 0.0
    serial_sequence_overhead_s: Seconds = 0.0
    host_s: Seconds = 0.0
    host_sequence_s: Seconds = 0.0
    overlap: Annotated[Overlap, "overlap"] = True
    round_overhead_s: Seconds = 0.0
    round_sequence_overhead_s: Seconds = 0.0
    tree_round_overhead_s: Seconds = 0.0
    lookup_round_frac: Annotated[float, "share"] = 1.0
    request_overhead_s: Seconds = 0.0
    request_latency_s: Seconds = 0.0
    tokenize_s: Seconds = 0.0
    collective: Collective | None = None
    expert_tile: ExpertTile | None = None
    prefill_expert_tiles: Mapping[Dtype, ExpertTile] = field(default_factory=dict)
    expert_kernels: Mapping[Dtype, ExpertKernel] = field(default_factory=dict)
    sparse_kernels: Mapping[ShortName, SparseKernel] = field(default_factory=dict)
    expert_locality: ExpertLocality | None = None
    row_kernels: Mapping[ShortName, RowKernel] = field(default_factory=dict)
    graphs: CapturedGraphs | None = None
    recurrent_state: Annotated[str, "recurrent_state"] | None = None
    expected_error: ExpectedError | None = None
    framework: Annotated[str, "framework"] | None = None
    bands: Mapping[ShortName, Band] = field(default_factory=dict)
    served_bands: ServedBands = field(default_factory=dict)
    reach: Reach | None = None
    former: FormerReleases | None = None
    release: Annotated[str, "text"] = ""

    @property
    def full_name(self) -> str:
        """Its name, with the release that is meant: ``vllm@0.19``."""
        return f"{self.name}@{self.release}" if self.release else self.name

    def served_by(self, release: str, date: str = "") -> "EngineProfile":
        """Return the profile of a release, or of the newest of a day, where it differs.

        Examples
        --------
        >>> slow, fast = (
        ...     ExpertKernel(floor_s=s, expert_s=0.0, memory_frac=1.0, compute_frac=1.0, tokens=512)
        ...     for s in (2.0, 1.0)
        ... )
        >>> former = FormerReleases(last="v1.1", before="2026-01", expert_kernels={"fp8": slow})
        >>> engine = EngineProfile(name="e", expert_kernels={"fp8": fast}, former=former)
        >>> [engine.served_by(name).expert_kernels["fp8"].floor_s for name in ("1.1.0rc2", "1.2")]
        [2.0, 1.0]
        """
        former = self.former
        if former is None or not former.has(release, date):
            return self
        kernels = {**self.expert_kernels, **former.expert_kernels}
        return replace(self, expert_kernels=kernels, former=None)

    def of_release(self, release: str) -> "EngineProfile":
        """Return the profile of one release of its server.

        Releases were fitted together. What is known to differ is told apart: `former`, and vLLM to
        0.10, which waits for its host in every step, those that it looks drafts up in too
        (``waits_to`` of its file).

        Raises
        ------
        OptionError
            For a release that was not measured.

        Source
            arXiv:2601.11580, figure 4, for vLLM 0.10.1; vLLM 0.33.0 ``v1/engine/core.py``,
            ``step_with_batch_queue``.

        Examples
        --------
        >>> profile = EngineProfile(name="vllm", reach=Reach(versions=("v0.10", "v0.19")))
        >>> profile.of_release("0.10").overlap, profile.of_release("0.19").overlap
        (False, True)
        """
        tags = () if self.reach is None else self.reach.versions
        known = [tag.removeprefix("v") for tag in tags]
        if release not in known:
            named = ", ".join(f"{self.name}@{other}" for other in known)
            refuse("engine", f"{self.name}@{release}", named or f"{self.name}, of no known release")
        last = release_of(self.rules).waits_to
        waits = bool(last) and version_parts(release) <= version_parts(last)
        engine = self.served_by(release)
        return replace(engine, release=release, overlap=False if waits else self.overlap)

    def spread_as(self, words: Collection[str]) -> "EngineProfile":
        """Return the profile with the bands of placements that it was not measured in.

        Parameters
        ----------
        words
            Ways to spread a model, as `Reach.placements` has them; those of `UNMEASURED` count.

        Examples
        --------
        >>> sure = EngineProfile(name="e", bands={"other": Band(width=0.3, mean_error=0, points=9)})
        >>> sure.spread_as(["tp", "pp"]).bands["other"].width > 0.5
        True
        """
        known = () if self.reach is None else self.reach.placements
        more = [UNMEASURED[word] for word in words if word in UNMEASURED and word not in known]
        speedups, times = (math.hypot(*(widths[i] for widths in more)) for i in (0, 1))
        return self.widened(speedups, times)

    def widened(self, speedups: float, times: float) -> "EngineProfile":
        """Return the profile with bands that gain so much, as squares add up.

        Parameters
        ----------
        speedups, times
            Half-widths for bands of speedups, and of served requests, in natural logarithms.

        Examples
        --------
        >>> sure = EngineProfile(name="e", bands={"other": Band(width=0.3, mean_error=0, points=9)})
        >>> sure.widened(0.4, 0.0).bands["other"].width
        0.5
        """
        if not (speedups or times):
            return self

        def wider(bands: Mapping[str, Band], by: float) -> dict[str, Band]:
            return {
                name: replace(band, width=math.hypot(band.width, by))
                for name, band in bands.items()
            }

        served = {figure: wider(bands, times) for figure, bands in self.served_bands.items()}
        return replace(self, bands=wider(self.bands, speedups), served_bands=served)

    @property
    def rules(self) -> str:
        """The server whose rules it has: its framework, or what stands in for a server unknown.

        Examples
        --------
        >>> [EngineProfile(name=name).rules for name in ("sglang", "generic", "ideal")]
        ['sglang', 'vllm', 'ideal']
        """
        name = self.framework or self.name
        return name if name in {*FRAMEWORKS, *LOCAL_FRAMEWORKS, "ideal"} else STAND_IN

    def lost_s(self, prompt_len: npt.ArrayLike) -> Array:
        """Return the seconds that a request loses alone: its way, and making tokens of its text.

        Parameters
        ----------
        prompt_len
            Tokens of the prompt, cached ones too.

        Examples
        --------
        >>> engine = EngineProfile(name="e", request_latency_s=0.01, tokenize_s=2e-6)
        >>> float(engine.lost_s(1000))
        0.012
        """
        return self.request_latency_s + np.asarray(prompt_len) * self.tokenize_s

    def all_to_all(self, devices: int, linked_devices: int) -> AllToAll | None:
        """Return how tokens reach experts of other devices behind data-parallel attention.

        None means that every device gathers all tokens and scatters the sums: the default of vLLM
        0.33.0 (``--all2all-backend allgather_reducescatter``) and SGLang 0.5.23
        (``--moe-a2a-backend none``). Servers of ``one_sided_tokens`` are taken to do so where fast
        links do not join nodes.

        Parameters
        ----------
        devices
            That experts and groups of attention are spread over.
        linked_devices
            That the fast links join.

        Source
            vLLM ``config/parallel.py``, SGLang ``arg_groups/fields/exec_.py``. LMSYS 2025-05-05,
            "Deploying DeepSeek with PD disaggregation and large-scale expert parallelism" (DeepEP
            on 72 H100); TensorRT-LLM, technical blog 18 (one-sided, GB200 NVL72).

        Examples
        --------
        >>> profile = EngineProfile(name="vllm")
        >>> profile.all_to_all(8, 8), profile.all_to_all(16, 8).dispatch_latency_s
        (None, 3.6e-05)
        """
        if linked_devices > _NODE_DEVICES and release_of(self.rules).one_sided_tokens:
            return _ONE_SIDED
        return _DEEP_EP if devices > min(_NODE_DEVICES, linked_devices) else None

    def measured_band(self, drafter: str) -> Band | None:
        """Return the band that measurements set: of the kind, or of any; None without them.

        Examples
        --------
        >>> rest = Band(width=0.1, mean_error=0.05, points=9)
        >>> EngineProfile(name="e", bands={"other": rest}).measured_band("eagle3").width
        0.1
        """
        return self.bands.get(drafter, self.bands.get(OTHER_DRAFTERS))

    def band(self, drafter: str) -> Band | None:
        """Return the band of a kind of drafter; None without measurements.

        Without `overlap` it is wider, by what a third or three times the host's seconds would make
        of speedups: `UNSURE_HOST`. A kind that nobody measured has a wider one than all that
        somebody did: `UNMEASURED_KIND`.

        Examples
        --------
        >>> rest = Band(width=0.1, mean_error=0.05, points=9)
        >>> engine = EngineProfile(name="e", bands={"other": rest}, reach=Reach(drafters=("mtp",)))
        >>> engine.band("mtp").width, engine.band("medusa").width > 0.1
        (0.1, True)
        """
        band = self.measured_band(drafter)
        own = self.reach.drafters if self.reach else (drafter,)
        kinds = (*self.bands, *_STATED_KINDS, *own, *_MEASURED_KINDS)
        if band is not None and drafter not in kinds:
            widest = max(one.width for one in self.bands.values())
            band = replace(band, width=math.hypot(widest, UNMEASURED_KIND))
        if band is None or self.overlap is True or not self.host_s:
            return band
        return replace(band, width=math.hypot(band.width, UNSURE_HOST[self.overlap]))


#: All of the peak and no overhead; every profile has it under the name `ideal`.
IDEAL_ENGINE: Final = EngineProfile(name="ideal")
