"""Drafters of a few layers: where they run, and the seconds of drafting of each kind."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final, Literal

import numpy as np

from specroof.architecture.draft_heads import (
    USUAL_BLOCKS,
    USUAL_MEDUSA_HEADS,
    DraftHead,
    HeadDesign,
    MedusaHeads,
    medusa_head,
    usual_dflash,
    usual_dspark,
    usual_eagle,
    usual_eagle3,
    usual_medusa,
    usual_mtp,
    usual_p_eagle,
)
from specroof.architecture.model import Architecture
from specroof.arrays import Array, whole_within
from specroof.cost import ForwardPass
from specroof.drafters.base import (
    Drafter,
    DrafterFootprint,
    DraftTime,
    PassTime,
    PromptRead,
    Round,
    same_for_all,
)
from specroof.errors import reject
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.model import Work
from specroof.units import Bounds, format_count, format_seconds, format_si

#: From a target to the drafter that is built for it.
Geometry = Callable[[Architecture], DraftHead]
#: Seconds of drafting in line with the target, given the drafter and the round.
Seconds = Callable[[DraftHead, Round], Array]
#: Seconds of a pass over prompts, given the drafter, the target's pass and the seconds of any pass.
Reading = Callable[[DraftHead, ForwardPass, PassTime], Array]

_TOKEN_BYTES = 4.0


@dataclass(frozen=True, slots=True)
class Where:
    """Where a drafter runs, and whether the target waits for it.

    Parameters
    ----------
    hardware
        Separate devices; ``"cpu"`` for the CPU beside the target's, None for the target's.
    tensor_parallel
        Devices that it is split over; None for as many as the target, or one separate device.
    link_bytes_per_s, link_latency_s
        Of the link to separate devices.
    hit_rate
        Share of rounds whose draft was made while the round before was verified; 1 is PEARL, less
        is speculative speculative decoding. None drafts in line.
    """

    hardware: HardwareProfile | Literal["cpu"] | None = None
    tensor_parallel: int | None = None
    link_bytes_per_s: float | None = None
    link_latency_s: float = 0.0
    hit_rate: float | None = None

    def link_s(self, head: DraftHead, round_: Round) -> Array:
        r"""Return the seconds that tokens and features take to the drafter and back.

        .. math:: t = 2 t_0 + B \, (N (b_{token} + b_{features}) + \gamma \, b_{token}) / W

        Counts
            per committed token its number (4 bytes) and the hidden states that the drafter takes;
            per draft its number.
        Ignores
            the draft's probabilities, which sampling needs: 4 V bytes a draft, if they are sent.
        Source
            Counting; SSD, arXiv:2603.03251, section 4 (drafter on separate devices).
        """
        if self.link_bytes_per_s is None:
            return np.zeros(())
        sent = round_.committed * (_TOKEN_BYTES + head.feature_bytes)
        back = round_.draft_len * _TOKEN_BYTES
        moved = round_.batch_size * (sent + back) / self.link_bytes_per_s
        return np.asarray(2 * self.link_latency_s + moved)


def overlapped_time(draft_s: Array, verify_s: Array, hit_rate: float) -> DraftTime:
    r"""Return drafting that overlaps verification in a share of rounds, and waits in the others.

    .. math:: t_{round} = p \max(t_v, t_d) + (1 - p)(t_v + t_d)

    Parameters
    ----------
    draft_s, verify_s
        Seconds of one draft, and of one verification.
    hit_rate
        p: the share of rounds for whose outcome a draft lies ready.

    Counts
        a miss as a draft in line by that drafter. Time relative to the verification, tokens
        alike after hits and misses, this is the published denominator with T_b = T_p.
    Ignores
        that the two share arithmetic and memory where they run on the same devices.
    Source
        PEARL (p = 1), arXiv:2408.11850, section 3; speculative speculative decoding,
        arXiv:2603.03251 (Saguaro).

    Examples
    --------
    >>> time = overlapped_time(np.array(3.0), np.array(4.0), hit_rate=0.75)
    >>> float(time.serial_s), float(time.overlapped_s)  # 0.25 * 3 in line, else hidden below 4
    (0.75, 3.0)
    """
    felt_s = hit_rate * draft_s + (1 - hit_rate) * verify_s
    # Only what outlasts the verification matters; below it, the drafting itself is given.
    overlapped_s = np.where(draft_s > verify_s, felt_s, draft_s)
    return DraftTime(np.asarray((1 - hit_rate) * draft_s), np.asarray(overlapped_s))


def fitted(head: DraftHead, target: Architecture) -> DraftHead:
    """Return a drafter with the target's head where it shares it.

    Raises
    ------
    OptionError
        If it takes features of another width, or has more tokens than the target.
    """
    size = head.target_size
    if size is not None and size != target.hidden_size:
        reject(
            f"{head.name} takes features of width {size}",
            f"{target.hidden_size}, the width of {target.name}",
        )
    if head.vocab_size is not None and head.vocab_size > target.vocab_size:
        reject(
            f"{head.name} has a vocabulary of {head.vocab_size}",
            f"at most the {target.vocab_size} of {target.name}",
        )
    if not head.shares_head:
        return head
    if head.model.hidden_size != target.head.in_features:
        reject(
            f"{head.name} has width {head.model.hidden_size} and no separate head",
            f"{target.head.in_features}, the width of the head of {target.name}",
        )
    return replace(head, model=replace(head.model, head=target.head))


@dataclass(frozen=True, slots=True, eq=False)
class _TimedPasses:
    """The passes of a drafter, which are timed like the target's.

    Parameters
    ----------
    geometry
        What it looks like for a target.
    seconds
        What a round of its kind does.
    origin
        Where its sizes come from.
    runs
        Where it runs.
    reading
        What it does with prompts; None for nothing.
    """

    geometry: Geometry
    seconds: Seconds
    origin: str
    runs: Where
    reading: Reading | None = None

    def drafter(self, name: str, max_draft_len: int | None = None) -> Drafter:
        """Return the drafter of this name, and of the longest draft that it can make."""
        return Drafter(
            name,
            self.draft,
            max_draft_len,
            describe=self.describe,
            held=self.held,
            read=self.read,
        )

    def draft(self, round_: Round) -> DraftTime:
        if round_.target is None:
            message = "a round without `target` has no drafter built for it"
            raise ValueError(message)
        head, runs = _fitting(self.geometry, round_.target), self.runs
        if runs.hardware is not None or runs.tensor_parallel is not None:
            if round_.on_own_devices is None:
                message = "a round without `on_own_devices` prices no passes on other devices"
                raise ValueError(message)
            own_s = round_.on_own_devices(runs.hardware, Placement(runs.tensor_parallel or 1))
            round_ = replace(round_, pass_s=own_s)
        draft_s = np.asarray(self.seconds(head, round_) + runs.link_s(head, round_))
        if runs.hit_rate is None:
            return DraftTime(draft_s)
        return overlapped_time(draft_s, round_.verify_s, runs.hit_rate)

    def read(self, asked: PromptRead) -> Array:
        """Return the seconds of its pass over prompts; none on hardware of its own, beside them."""
        head, runs, pass_s = _fitting(self.geometry, asked.target), self.runs, asked.pass_s
        if self.reading is None or not head.rereads or runs.hit_rate is not None:
            return np.zeros(())
        if isinstance(runs.hardware, HardwareProfile):
            return np.zeros(())
        if runs.hardware is not None or runs.tensor_parallel is not None:
            pass_s = asked.on_own_devices(runs.hardware, Placement(runs.tensor_parallel or 1))
        return self.reading(head, asked.prompts, pass_s)

    def describe(self, target: Architecture) -> str:
        head, runs = _shaped(self.geometry, target), self.runs
        _fitting(self.geometry, target)
        kinds = ", ".join(f"{count} {kind}" for kind, count in head.model.layer_kinds.items())
        owner = "the target's head" if head.shares_head else "a separate head"
        parts = [f"{self.origin}: {format_count(head.n_params)} parameters ({kinds}) and {owner}"]
        parts += ["on the CPU beside the target"] if runs.hardware == "cpu" else []
        if isinstance(runs.hardware, HardwareProfile):
            parts.append(f"on {runs.tensor_parallel or 1} separate {runs.hardware.name}")
            parts.append("whose price and energy are not counted")
            rate = format_si(runs.link_bytes_per_s or 0.0, "B/s")
            parts.append(f"over a link of {rate} and {format_seconds(runs.link_latency_s)}")
        elif runs.tensor_parallel is not None:
            parts.append(f"on {runs.tensor_parallel} of the target's devices")
        if runs.hit_rate is not None:
            parts.append(
                f"while the target verifies in {runs.hit_rate:.0%} of rounds, at full speed both"
            )
        return ", ".join(parts)

    def held(self, target: Architecture) -> DrafterFootprint:
        if self.runs.hardware is not None:
            return DrafterFootprint()
        return DrafterFootprint(_shaped(self.geometry, target), self.runs.tensor_parallel)


@lru_cache(maxsize=64)
def _shaped(geometry: Geometry, target: Architecture) -> DraftHead:
    return geometry(target)


@lru_cache(maxsize=64)
def _fitting(geometry: Geometry, target: Architecture) -> DraftHead:
    return fitted(_shaped(geometry, target), target)


# --- Seconds of each kind: token by token, all drafts in one pass, whole blocks, Medusa heads -----


def accepted_work(head: DraftHead, round_: Round) -> tuple[Work, ...]:
    """Return what the accepted tokens of a round cost a drafter beside its first pass.

    Counts
        the fusion of the target's features, and projections that are only cached, over all
        committed tokens, or all that were verified; their weights are read once.
    Ignores
        the bytes that are cached: as many tokens as a block writes in any case, of S read.
    Source
        SafeAILab/EAGLE, ``model/cnets.py`` (``fc``); z-lab/dflash, ``model.py``.
    """
    if head.intake is None:
        return ()
    forward = ForwardPass(
        round_.batch_size, round_.read_len, round_.context_len, head_len=0, settled=True
    )
    return (Work(head.intake, forward),)


def chained_s(head: DraftHead, round_: Round) -> Array:
    r"""Return the seconds of drafting token by token.

    .. math:: t = t_1(N) + \sum_{i=2}^{\gamma} t_i(1)

    Counts
        a first pass that reads the N committed tokens again, or all that were verified where the
        server keeps their shape (`Round.verified_len`), and makes one draft; then a pass of
        one position per sequence for each further draft, or of the positions of a tree's next
        level. Each pass reads the drafter's cache, the experts that its tokens hit, and the head.
        With several modules each of the first drafts is such a first pass, through layers of its
        own. A model of its own in MLX keeps what it drafted: its first pass reads one token, and
        two where all drafts were accepted. In llama.cpp its first pass reads one token, and a
        further pass behind the verification all γ + 1 that were verified.
    Ignores
        that later passes have 1 to γ - 1 more positions cached: all are timed at their mean; that
        heads have that further pass, too, in the place of the N tokens of the first: of one layer
        without the head of the vocabulary, which fits to measured rounds have in a round's seconds.
    Source
        Li et al. 2025, arXiv:2503.01840, section 3.1; DeepSeek-V3 report, arXiv:2412.19437,
        section 2.2.2; vLLM 0.33.0 ``v1/worker/gpu/spec_decode``, ``propose``; mlx-lm 0.32.2
        ``generate.py``, ``speculative_generate_step``; llama.cpp ``common/speculative.cpp``,
        ``common_speculative_impl_draft_simple``, and ``tools/server/server-context.cpp``,
        ``decode`` (TAG_SPEC_AVOID_DRAFT_REEVAL).
    """
    context, batch = round_.context_len, round_.batch_size
    read = round_.read_len if head.rereads else np.ones(())
    if round_.reads_verified and head.target_size is None:
        first = ForwardPass(batch, 1.0, context, head_len=1.0)
        again = ForwardPass(batch, round_.draft_len + 1.0, context, head_len=1.0)
        first_s = round_.pass_s(head.model, first) + round_.pass_s(head.model, again)
    elif round_.all_accepted is None or head.target_size is not None:
        first = ForwardPass(batch, read, context + 1.0 - read, head_len=1.0, settled=True)
        first_s = round_.pass_s(head.model, first, *accepted_work(head, round_))
    else:
        one_s, two_s = (
            round_.pass_s(head.model, ForwardPass(batch, read, context + 1.0 - read, head_len=1.0))
            for read in (1.0, 2.0)
        )
        first_s = one_s + round_.all_accepted * (two_s - one_s)
    n_first = np.minimum(round_.draft_len, head.modules)
    total_s = np.asarray(n_first * first_s)
    replaced = n_first - 1.0
    later = round_.expansions
    if later is None:  # a chain
        later = ((1.0, round_.draft_len - 1.0),)
    for width, passes in later:
        left = np.maximum(passes - replaced, 0.0)
        replaced = np.maximum(replaced - passes, 0.0)
        forward = ForwardPass(batch, width, context + round_.draft_len / 2, head_len=width)
        total_s = total_s + left * round_.pass_s(head.model, forward)
    return total_s


def parallel_s(head: DraftHead, round_: Round) -> Array:
    r"""Return the seconds of one pass over the committed tokens and a mask for each other draft.

    .. math:: t = t(N + \gamma - 1)

    Counts
        the head on γ positions.
    Source
        P-EAGLE, arXiv:2602.01469, and its vLLM post of 2026-03-13; PARD, arXiv:2504.18583.
    """
    read, drafts = round_.read_len, round_.draft_len
    forward = ForwardPass(
        round_.batch_size,
        read + drafts - 1.0,
        round_.context_len + 1.0 - read,
        head_len=drafts,
        settled=True,
    )
    return round_.pass_s(head.model, forward, *accepted_work(head, round_))


def block_s(head: DraftHead, round_: Round, *, steps: int = 1) -> Array:
    r"""Return the seconds of drafting a whole block.

    .. math:: t = t_{accepted}(N) + n_{steps} \left( t(D) + D' \, t_{serial} \right)

    Parameters
    ----------
    head, round_
        The drafter, and what it drafts.
    steps
        Denoising steps: each is a pass over the block.

    Counts
        for the N committed tokens the fusion and the cached projections of every layer; a pass of
        the block's D positions over context and block, with the head on the D' that make a draft;
        the Markov head once more per draft. All of it whatever part of the block is verified.
    Ignores
        sampling between the steps.
    Source
        Chen et al. 2026, arXiv:2602.06036, section 4; DSpark paper (deepseek-ai/DeepSpec) 2026,
        section 3.
    """
    batch, context = round_.batch_size, round_.context_len
    drafts = float(head.drafts or 0)
    serial: tuple[Work, ...] = ()
    if head.serial is not None:
        step = ForwardPass(batch, 1.0, context)
        serial = (Work(head.serial, step, times=drafts, kind="steps"),)
    block = ForwardPass(batch, float(head.block or 0), context, head_len=drafts)
    first_s = round_.pass_s(head.model, block, *accepted_work(head, round_), *serial)
    if steps == 1:
        return first_s
    return np.asarray(first_s + (steps - 1) * round_.pass_s(head.model, block, *serial))


def read_by_layers_s(head: DraftHead, prompts: ForwardPass, pass_s: PassTime) -> Array:
    """Return the seconds in which the layers of a drafter read prompts, and the features of them.

    Counts
        all modules, of which each has a cache of its own; the head on the last position.
    Source
        vLLM 0.33.0 ``v1/spec_decode/llm_base_proposer.py``, ``propose``: its first pass has all
        tokens of the target's; SGLang 0.5.23 ``speculative/eagle_worker_v2.py``,
        ``_draft_extend_for_prefill``; llama.cpp ``common/speculative.cpp``.
    """
    features = replace(prompts, head_len=np.zeros(()))
    beside = () if head.intake is None else (Work(head.intake, features),)
    return np.asarray(head.modules * pass_s(head.model, prompts, *beside))


def read_by_intake_s(head: DraftHead, prompts: ForwardPass, pass_s: PassTime) -> Array:
    """Return the seconds of what a block drafter caches of prompts: fused and projected features.

    Source
        Chen et al. 2026, arXiv:2602.06036, section 4.
    """
    if head.intake is None:
        return np.zeros(())
    return pass_s(head.intake, replace(prompts, head_len=np.zeros(())))


@dataclass(frozen=True, slots=True)
class HeadKind:
    """A kind of drafter that is a few layers, or a model.

    Parameters
    ----------
    seconds
        What a round of its kind does.
    usual
        What it looks like for a target where no config is given, and of some with a design; None
        where one must be.
    block
        Positions of the usual block of a kind that drafts whole blocks over the target's features.
    anchor_drafts
        Whether the anchor's position of a block makes a draft too.
    most_steps
        Denoising steps at most: passes over a block.
    reading
        What it does with prompts.
    """

    seconds: Seconds
    usual: Callable[..., DraftHead] | None = None
    block: int | None = None
    anchor_drafts: bool = False
    most_steps: int = 1
    reading: Reading = read_by_layers_s


#: The kinds of drafter that are sized by a config of layers.
HEAD_KINDS: Final = {
    # a layer of the target's own kind: DeepSeek-V3 report, arXiv:2412.19437, section 2.2
    "mtp": HeadKind(chained_s, usual_mtp),
    # every pass ends in the target's head: Li et al. 2024, arXiv:2401.15077 and arXiv:2406.16858
    "eagle": HeadKind(chained_s, usual_eagle),
    # features of the target merged once, a separate vocabulary: Li et al. 2025, arXiv:2503.01840
    "eagle3": HeadKind(chained_s, usual_eagle3),
    # an independent model, which reads the committed tokens again as EAGLE does: Leviathan et al.
    # 2022, arXiv:2211.17192; vLLM `v1/spec_decode/draft_model.py`
    "model": HeadKind(chained_s),
    # EAGLE-3 that makes all drafts in one pass: arXiv:2602.01469
    "p_eagle": HeadKind(parallel_s, usual_p_eagle),
    # a small model that does: An et al. 2025, arXiv:2504.18583; PARD-2: AMD-AGI/PARD
    "pard": HeadKind(parallel_s),
    # block diffusion, DFlash2 too: Chen et al. 2026, arXiv:2602.06036
    "dflash": HeadKind(
        *(block_s, usual_dflash, USUAL_BLOCKS["dflash"]), most_steps=64, reading=read_by_intake_s
    ),
    # a block pass, then a short serial head for each draft: DSpark paper (deepseek-ai/DeepSpec)
    "dspark": HeadKind(
        *(block_s, usual_dspark, USUAL_BLOCKS["dspark"]),
        anchor_drafts=True,
        reading=read_by_intake_s,
    ),
}


#: Positions of a block that no config bounds.
_LONGEST_BLOCK = 4096


def head_drafter(  # noqa: PLR0913 - the keys of a SPEC
    kind: str,
    head: DraftHead | Architecture | None = None,
    *,
    block: int | None = None,
    drafts: int | None = None,
    steps: int = 1,
    name: str | None = None,
    where: Where | None = None,
    design: HeadDesign | None = None,
) -> Drafter:
    """Return a drafter of one of `HEAD_KINDS`.

    Parameters
    ----------
    kind
        The kind.
    head
        Its layers, or a whole model; the usual geometry for the target if None.
    block, drafts
        Of a kind with blocks, positions of one (the anchor included), or drafts; as configured if
        None.
    steps
        Denoising steps.
    name
        What outputs call it; the kind if None.
    where
        Where it runs.
    design
        What differs from the usual geometry, where `head` is None.

    Raises
    ------
    OptionError
        If the kind has no usual geometry, and `head` is None; for a block longer than the
        drafter's, and more steps than its kind takes.

    Source
        See `HEAD_KINDS`.

    Examples
    --------
    >>> [head_drafter(kind).max_draft_len for kind in ("eagle3", "dflash", "dspark")]
    [None, 15, 7]
    """
    row = HEAD_KINDS[kind]
    if isinstance(head, Architecture):
        head = DraftHead(kind, head, vocab_size=head.vocab_size)
    own_model = head.model if head is not None and row.usual is None else None
    if head is not None:
        geometry: Geometry = partial(same_for_all, head)
        origin = f"config {head.name}"
    elif row.usual is None:
        reject("config is missing", f"config= of the {kind} drafter")
    else:
        geometry = row.usual if design is None else partial(row.usual, design=design)
        but = "" if design is None else " but for its design"
        origin = f"the usual sizes of {kind}{but} (no config= given)"
    seconds, longest = row.seconds, None
    if row.block is not None:
        whole_within("steps", steps, Bounds(1, row.most_steps, whole=True))
        sizes = row if head is None else head
        anchors = 0 if sizes.anchor_drafts else 1
        positions = _block_len(sizes.block, (block, drafts), anchors=anchors)
        geometry = partial(_block_geometry, geometry, positions)
        seconds, longest = partial(block_s, steps=steps), positions - anchors
        origin = f"{origin}, block of {positions}"
    passes = _TimedPasses(geometry, seconds, origin, where or Where(), row.reading)
    return replace(passes.drafter(name or kind, longest), own_model=own_model)


def _block_geometry(sized: Geometry, positions: int, target: Architecture) -> DraftHead:
    return replace(sized(target), block=positions)


def _block_len(
    configured: int | None, sizes: tuple[int | None, int | None], *, anchors: int
) -> int:
    """Return the positions of a block: as given, within what the drafter was trained for."""
    block, drafts = sizes
    most = configured or _LONGEST_BLOCK
    if block is not None:
        return whole_within("block", block, Bounds(anchors + 1, most, whole=True))
    if drafts is not None:
        return whole_within("drafts", drafts, Bounds(1, most - anchors, whole=True)) + anchors
    if configured is None:
        reject("block is missing and the config has no block size", "block= or drafts=")
    return configured


def medusa_drafter(
    heads: MedusaHeads | None = None, *, name: str = "medusa", where: Where | None = None
) -> Drafter:
    """Return Medusa heads, which all look at the target's last hidden state, once a round.

    Parameters
    ----------
    heads
        How many, of how many layers; five of one if None.
    name
        What outputs call it.
    where
        Where they run.

    Source
        Cai et al. 2024, arXiv:2401.10774.

    Examples
    --------
    >>> medusa_drafter().max_draft_len
    5
    """
    geometry: Geometry = usual_medusa
    origin, longest = "the usual five heads (no config= given)", USUAL_MEDUSA_HEADS
    if heads is not None:
        geometry = partial(_medusa_geometry, heads)
        origin, longest = f"config {heads.name}", heads.n_heads
    return _TimedPasses(geometry, _medusa_s, origin, where or Where()).drafter(name, longest)


def _medusa_geometry(heads: MedusaHeads, target: Architecture) -> DraftHead:
    size = heads.target_size or target.hidden_size
    return medusa_head(heads, hidden_size=size, vocab_size=target.vocab_size)


def _medusa_s(head: DraftHead, round_: Round) -> Array:
    return round_.pass_s(head.model, ForwardPass(round_.batch_size, 1.0, round_.context_len))
