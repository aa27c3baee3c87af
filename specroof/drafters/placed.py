"""A drafter on its target: whether the two fit, where it runs, and when."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specroof.architecture import (
    Architecture,
    Block,
    CompressedAttention,
    DraftHead,
    DraftShape,
    Experts,
    GroupedQueryAttention,
    Layer,
    MedusaHeads,
    block_head,
    draft_layer,
    draft_model,
    eagle3_head,
    eagle_head,
    markov_step,
    medusa_head,
    replicated,
    with_first,
)
from specroof.arrays import Array
from specroof.drafters.base import Drafter, DraftTime, Held, PassTime, Round
from specroof.errors import reject
from specroof.hardware import HardwareProfile, Placement
from specroof.units import format_count, format_seconds, format_si

#: From a target to the drafter that is built for it.
Geometry = Callable[[Architecture], DraftHead]
#: Seconds of drafting in line with the target, given the drafter, the round and its passes.
Seconds = Callable[[DraftHead, Round, PassTime], Array]

_TOKEN_BYTES = 4.0


@dataclass(frozen=True, slots=True)
class Where:
    """Where a drafter runs, and whether the target waits for it.

    Parameters
    ----------
    hardware
        Separate devices; None for the target's.
    tensor_parallel
        Devices that it is split over; None for as many as the target, or one separate device.
    link_bytes_per_s, link_latency_s
        Of the link to separate devices.
    hit_rate
        Share of rounds whose draft was made while the round before was verified; 1 is PEARL, less
        is speculative speculative decoding. None drafts in line.
    """

    hardware: HardwareProfile | None = None
    tensor_parallel: int | None = None
    link_bytes_per_s: float | None = None
    link_latency_s: float = 0.0
    hit_rate: float | None = None

    def pass_seconds(self, round_: Round) -> PassTime:
        """Return what times the passes of the drafter."""
        if self.hardware is None and self.tensor_parallel is None:
            return round_.pass_s
        if round_.elsewhere is None:
            message = "a round without `elsewhere` has no seconds of passes on other devices"
            raise ValueError(message)
        return round_.elsewhere(self.hardware, Placement(self.tensor_parallel or 1))

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

    def time(self, draft_s: Array, round_: Round) -> DraftTime:
        """Return what of the drafting is in line, and what overlaps."""
        if self.hit_rate is None:
            return DraftTime(draft_s)
        return overlapped_time(draft_s, round_.verify_s, self.hit_rate)

    @property
    def sentence(self) -> str:
        """What people read of it, behind the cost; nothing where it runs in line."""
        parts = []
        if self.hardware is not None:
            parts.append(f"on {self.tensor_parallel or 1} separate {self.hardware.name}")
            rate = format_si(self.link_bytes_per_s or 0.0, "B/s")
            parts.append(f"over a link of {rate} and {format_seconds(self.link_latency_s)}")
        elif self.tensor_parallel is not None:
            parts.append(f"on {self.tensor_parallel} of the target's devices")
        if self.hit_rate is not None:
            parts.append(
                f"while the target verifies in {self.hit_rate:.0%} of rounds, at full speed both"
            )
        return "".join(f", {part}" for part in parts)


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
        a miss as a draft in line by the same drafter. Time relative to the verification, tokens
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
    # Only what outlasts the verification matters; below it, the drafting itself is told.
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


def timed_drafter(
    geometry: Geometry,
    seconds: Seconds,
    *,
    name: str,
    origin: str,
    where: Where | None = None,
    max_draft_len: int | None = None,
) -> Drafter:
    """Return a drafter whose passes are timed like the target's.

    Parameters
    ----------
    geometry
        What it looks like for a target.
    seconds
        What a round of its kind does.
    name
        What outputs call it.
    origin
        Where its sizes come from.
    where
        Where it runs; in line on the target's devices if None.
    max_draft_len
        The longest draft that it can make.
    """
    runs = where or Where()

    def draft(round_: Round) -> DraftTime:
        if round_.target is None:
            message = "a round without `target` has no drafter built for it"
            raise ValueError(message)
        head = fitted(geometry(round_.target), round_.target)
        draft_s = seconds(head, round_, runs.pass_seconds(round_)) + runs.link_s(head, round_)
        return runs.time(np.asarray(draft_s), round_)

    def describe(target: Architecture) -> str:
        head = geometry(target)
        fitted(head, target)
        return f"{origin}: {_sizes(head)}{runs.sentence}"

    def held(target: Architecture) -> Held:
        if runs.hardware is not None:
            return Held()
        return Held(geometry(target), runs.tensor_parallel)

    return Drafter(name, draft, max_draft_len, describe=describe, held=held)


def _sizes(head: DraftHead) -> str:
    """Return how large a drafter is, in a few words."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in head.model.layer_kinds.items())
    owner = "the target's head" if head.shares_head else "a separate head"
    return f"{format_count(head.n_params)} parameters ({kinds}) and {owner}"


# --- The usual drafter of each kind for a target, where no config says what it looks like --------
# Source
#     What is published for targets of every size: SafeAILab/EAGLE and sgl-project/SpecForge
#     (``configs/``), z-lab's DFlash drafters, deepseek-ai/DeepSpec, FasterDecoding/Medusa.

#: Positions of a block, by kind.
USUAL_BLOCKS: Final = {"dflash": 16, "dspark": 7}
#: Heads that the published Medusa weights have.
USUAL_MEDUSA_HEADS: Final = 5

_DRAFT_VOCABULARY: Final = 32_000
_HEAD_DIM: Final = 128
_BLOCK_LAYERS: Final = 5
_BLOCK_HEADS: Final = 32
_KV_HEADS: Final = 8
_P_EAGLE_LAYERS: Final = 4
_MARKOV_RANK: Final = 256
# Inner widths over targets with experts, as a multiple of the hidden size.
_EAGLE_WIDTH: Final = 6
_BLOCK_WIDTH: Final = 3


def usual_mtp(target: Architecture) -> DraftHead:
    """Return one layer of the target's own kind behind a merge of embedding and hidden state.

    Counts
        the last kind of layer with attention over a cache, feed-forward or experts included; of
        DeepSeek-V4 without its compressed entries. Embedding and head are the target's.
    Ignores
        draft layers that differ from the model's own (MiMo-V2, Nemotron): their config says.
    Source
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2; the ``mtp`` modules of Qwen3.5 and
        GLM-4.5.
    """
    size = target.hidden_size
    attention, *others = _last_layer(target)
    merge = replicated("eh_proj", 2 * size, size, target.head.weight)
    layers = with_first([Layer((attention, *others))], [merge])
    # one norm each for embedding, hidden state and output
    model = draft_model(f"{target.name} MTP", "mtp", size, layers, vector_params=3 * size)
    model = replace(model, activation_dtype=target.activation_dtype, kv_dtype=target.kv_dtype)
    return DraftHead("mtp", model, target_size=size)


def _last_layer(target: Architecture) -> tuple[Block, ...]:
    """Return attention and feed-forward of the last kind of layer that attends to a cache."""
    for layer in reversed(target.layers):
        for block in layer.blocks:
            if block.core is not None and block.core.caches_tokens:
                behind = [other for other in layer.blocks if other.name == "feed_forward"]
                return (_windowed(block), *(behind or _feed_forwards(target)))
    return reject(f"{target.name} has no attention over a cache", "config= of its draft layer")


def _feed_forwards(target: Architecture) -> list[Block]:
    """Return the last feed-forward of a model whose layers are single blocks."""
    return [block for _, block in target.counted_blocks if block.name == "feed_forward"][-1:]


def _windowed(block: Block) -> Block:
    """Return attention without the compressed entries of DeepSeek-V4: its window alone."""
    core = block.core
    if not isinstance(core, CompressedAttention):
        return block
    linears = tuple(
        linear
        for linear in block.linears
        if linear.kind != "compressor" and not linear.name.startswith("indexer")
    )
    return replace(
        block, linears=linears, core=replace(core, ratio=0, indexer=None, compressors=())
    )


def usual_eagle(target: Architecture) -> DraftHead:
    """Return an EAGLE-1 or -2 head: one layer with the target's heads and feed-forward."""
    return eagle_head(_head_shape(target), name=f"EAGLE for {target.name}")


def usual_eagle3(target: Architecture) -> DraftHead:
    """Return an EAGLE-3 head: one layer, three taps, a draft vocabulary of 32 000 tokens."""
    return eagle3_head(
        _head_shape(target),
        name=f"EAGLE-3 for {target.name}",
        vocab_size=min(_DRAFT_VOCABULARY, target.vocab_size),
    )


def usual_p_eagle(target: Architecture) -> DraftHead:
    """Return a P-EAGLE head: EAGLE-3 with four layers."""
    return eagle3_head(
        _head_shape(target),
        name=f"P-EAGLE for {target.name}",
        vocab_size=min(_DRAFT_VOCABULARY, target.vocab_size),
        kind="p_eagle",
        n_layers=_P_EAGLE_LAYERS,
    )


def usual_medusa(target: Architecture) -> DraftHead:
    """Return five Medusa heads of one residual layer."""
    heads = MedusaHeads(f"Medusa for {target.name}", USUAL_MEDUSA_HEADS, n_layers=1)
    return medusa_head(heads, hidden_size=target.hidden_size, vocab_size=target.vocab_size)


def usual_dflash(target: Architecture) -> DraftHead:
    """Return a DFlash drafter: five layers, five taps, a block of 16."""
    return _usual_block(target, "dflash", f"DFlash for {target.name}")


def usual_dspark(target: Architecture) -> DraftHead:
    """Return a DSpark drafter: the layers of DFlash, a block of 7, a Markov head of rank 256."""
    name = f"DSpark for {target.name}"
    serial = markov_step(
        name,
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        rank=_MARKOV_RANK,
        table_rows=target.vocab_size,
    )
    head = _usual_block(target, "dspark", name)
    return replace(head, serial=serial, anchor_drafts=True)


def _usual_block(target: Architecture, kind: str, name: str) -> DraftHead:
    size = target.hidden_size
    shape = DraftShape(
        size,
        n_heads=_BLOCK_HEADS,
        n_kv_heads=_KV_HEADS,
        head_dim=_HEAD_DIM,
        width=_dense_width(target) or _BLOCK_WIDTH * size,
        qk_norm=True,
        causal=False,
    )
    layers = [Layer(draft_layer(shape).blocks, _BLOCK_LAYERS)]
    model = draft_model(name, kind, size, layers)
    return block_head(kind, model, taps=_BLOCK_LAYERS, target_size=size, block=USUAL_BLOCKS[kind])


def _head_shape(target: Architecture) -> DraftShape:
    """Return the layer of an EAGLE head: the target's heads, or heads of 128; its feed-forward.

    Over experts the feed-forward is six times the hidden size, as for Qwen3-30B-A3B and gpt-oss.
    """
    size = target.hidden_size
    heads = (max(size // _HEAD_DIM, 1), min(_KV_HEADS, max(size // _HEAD_DIM, 1)), _HEAD_DIM)
    for _, block in target.counted_blocks:
        core = block.core
        if isinstance(core, GroupedQueryAttention) and core.window is None:
            heads = (core.n_heads, core.n_kv_heads, core.head_dim)
    return DraftShape(size, *heads, width=_dense_width(target) or _EAGLE_WIDTH * size)


def _dense_width(target: Architecture) -> int | None:
    """Return the inner width of the target's feed-forward; None for a model with experts."""
    blocks = [block for _, block in target.counted_blocks if block.name == "feed_forward"]
    if any(isinstance(block.core, Experts) for block in blocks):
        return None
    # Of the matrices back to the residual stream.
    widths = (
        linear.in_features
        for block in blocks
        for linear in block.linears
        if linear.out_features == target.hidden_size
    )
    return max(widths, default=None)
