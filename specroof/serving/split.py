"""Prefill and decoding on their own workers: rates in balance, and the way of a request."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, BoolArray, distinct, number_within, whole_within
from specroof.drafters import Drafter
from specroof.errors import reject
from specroof.hardware.profile import HardwareProfile
from specroof.latency.setup import Deployment, Setup
from specroof.serving.capacity import ServerRoom, prefill_rules, running_curve, running_requests
from specroof.serving.end_to_end import EndToEnd, WorkerLoads
from specroof.serving.prefills import answer_rounds, largest_that, piece_pass
from specroof.serving.workload import Load, Workload, refuse_one_token
from specroof.speedup.curve import engine_pass_s, prompt_read_s
from specroof.speedup.result import SpeedupCurve

#: Seconds until a transfer of caches moves bytes, and the share of its link that it then reaches.
#: Mooncake's documentation, "vLLM V1 with Mooncake store and connector": Qwen3-8B, one worker of
#: each kind over eight RoCE cards of 200 GB/s together, prompts of 128 to 32 768 tokens.
TRANSFER_LATENCY_S: Final = 0.5e-3
LINK_FRAC: Final = 0.75
#: Batches that are priced before the requests of a worker are known: each, then four a doubling.
_EACH_BATCH: Final = 8
_PER_DOUBLING: Final = 4


@dataclass(frozen=True, slots=True)
class Split:
    """Workers that compute prompts for others that decode.

    Parameters
    ----------
    prefill
        Where one prefill worker runs.
    prefill_workers, decode_workers
        How many there are of each.
    link_bytes_per_s
        Bytes/s that one device sends to another worker at its peak, one direction; None for the
        slower of the links between nodes of both chips.

    Raises
    ------
    OptionError
        For a number out of bounds.
    """

    prefill: Setup
    prefill_workers: int
    decode_workers: int
    link_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("prefill_workers", "decode_workers"):
            whole_within(name, getattr(self, name), "devices")
        if self.link_bytes_per_s is not None and self.link_bytes_per_s != math.inf:
            number_within("link", self.link_bytes_per_s, "bytes_per_s")

    def devices(self, decode: Setup) -> int:
        """Return the devices of all workers, given where one decode worker runs."""
        prefill = self.prefill.placement.devices * self.prefill_workers
        return prefill + decode.placement.devices * self.decode_workers

    def mean(self, decode: Setup, of: Callable[[HardwareProfile], float | None]) -> float | None:
        """Return the mean of a figure of chips over the devices of all workers; None if unknown.

        Parameters
        ----------
        decode
            Where one decode worker runs.
        of
            From a chip to its figure, such as the price of an hour.
        """
        prefill, own = of(self.prefill.hardware), of(decode.hardware)
        if prefill is None or own is None:
            return None
        count, devices = self.prefill.placement.devices * self.prefill_workers, self.devices(decode)
        return (count * prefill + (devices - count) * own) / devices

    def bytes_per_s(self, decode: Setup) -> float:
        """Return the bytes/s of the link, given where one decode worker runs.

        Raises
        ------
        OptionError
            Where no hardware file says it.
        """
        if self.link_bytes_per_s is not None:
            return self.link_bytes_per_s
        rates = []
        for chip in (self.prefill.hardware, decode.hardware):
            link = chip.interconnect
            if link is None or link.scale_out_bytes_per_s is None:
                what = f"{chip.name}: interconnect.scale_out_bytes_per_s is not known"
                reject(what, "bytes/s that one device sends to another worker (--link)")
            rates.append(link.scale_out_bytes_per_s)
        return min(rates)


def wire_s(
    held_bytes: npt.ArrayLike, *, receivers: int, senders: int, link_bytes_per_s: float
) -> Array:
    r"""Return the seconds that the cache of one prompt is on the wire.

    .. math:: \frac{b \max(1, n_r / n_s)}{0.75 \, w}

    Parameters
    ----------
    held_bytes
        Bytes of the cache on each device that receives it, b.
    receivers, senders
        Devices that receive, :math:`n_r`, and that send, :math:`n_s`: where fewer send, each sends
        more.
    link_bytes_per_s
        Peak of one device, w.

    Ignores
        that layers are sent while later ones are computed; many small descriptors; contention.
    Source
        Mooncake's documentation: see `LINK_FRAC`.

    Examples
    --------
    >>> float(wire_s(3e9, receivers=8, senders=4, link_bytes_per_s=50e9))  # 6e9 / 37.5e9
    0.16
    """
    most = np.asarray(held_bytes) * max(1.0, receivers / senders)
    return np.asarray(most / (LINK_FRAC * link_bytes_per_s))


@dataclass(frozen=True, slots=True, eq=False)
class PromptTimes:
    """Seconds of prefill workers, which take the prompts that wait together up to a chunk.

    Parameters
    ----------
    workers
        How many there are.
    alone_s, full_s
        Of the passes of one prompt, and of as many as share one; each draft length may have its
        own.
    most
        Prompts that share a pass.
    """

    workers: float
    alone_s: Array | float
    full_s: Array | float
    most: float

    @property
    def requests_per_s(self) -> Array:
        """Prompts that all workers compute in a second, if they never wait."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.workers * self.most / np.asarray(self.full_s))

    def station_s(self, per_s: npt.ArrayLike, others: Array | float = 1.0) -> Array:
        r"""Return the seconds of a prompt at the workers; inf beyond what they compute.

        .. math:: p + \frac{p}{2 n} \cdot \frac{u^{\sqrt{2 (n + 1)} - 1}}{1 - u}

        with p the pass over the prompts that came during the last one, and u the share of time
        that n workers are busy.

        Parameters
        ----------
        per_s
            Prompts that come in a second.
        others
            Share of them that a prompt finds: (C - 1) / C of C clients in a closed loop.

        Source
            Sakasegawa 1977, Ann. Inst. Stat. Math. 29(1), for services of one length; Reiser and
            Lavenberg 1980, J. ACM 27(2), for a closed loop.

        Examples
        --------
        >>> one = PromptTimes(workers=1, alone_s=0.5, full_s=0.5, most=1)
        >>> float(one.station_s(1.0))  # M/D/1 at half load: 0.5 + 0.5 / 2 * 0.5 / 0.5
        0.75
        """
        if not np.any(self.full_s):
            return np.zeros(np.shape(per_s))
        each = np.asarray(per_s, dtype=np.float64) / self.workers
        more_s = (self.full_s - self.alone_s) / max(self.most - 1, 1.0)
        busy = each * self.full_s / self.most
        found = busy * others
        with np.errstate(divide="ignore", invalid="ignore"):
            came = each * (self.alone_s - more_s) / (1 - each * more_s)
            together = np.where(each * more_s < 1, np.clip(came, 1.0, self.most), self.most)
            pass_s = self.alone_s + (together - 1) * more_s
            queue = found ** (math.sqrt(2 * (self.workers + 1)) - 1) / (1 - found)
            wait_s = pass_s / (2 * self.workers) * queue
        return np.asarray(np.where(busy < 1, pass_s + wait_s, np.inf))


def prompt_times(
    deployment: Deployment, workload: Workload, workers: int, drafter: Drafter, lengths: int
) -> PromptTimes:
    """Return the seconds of prefill workers.

    Parameters
    ----------
    deployment
        What one of them serves, and where.
    workload
        The requests.
    workers
        How many there are.
    drafter, lengths
        What reads the prompts there, too, and how many draft lengths there are from 0, which is
        without.

    Source
        `specroof.serving.prefills.piece_pass`.
    """
    setup = deployment.setup
    rules = prefill_rules(deployment)
    groups, chunk = rules.groups, rules.chunk
    # Each group of devices has prompts of its own: one, or as many as a chunk takes.
    each = np.floor(max(chunk / workload.new_len, 1.0))
    together = np.array([1.0, groups * each])
    pieces = np.ceil(workload.new_len / chunk) if chunk else 1.0
    forward = piece_pass(workload.new_len, workload.cached_len, pieces, together)
    pass_s = pieces * engine_pass_s(deployment, forward)
    read_s = np.broadcast_to(pieces * prompt_read_s(deployment, drafter, forward), pass_s.shape)
    drafts = np.arange(lengths) > 0
    alone_s, full_s = (pass_s + together * setup.engine.request_overhead_s)[:, None] + np.outer(
        read_s, drafts
    )
    return PromptTimes(float(workers), alone_s, full_s, float(groups * each))


def worker_batch(  # noqa: PLR0913 - both kinds of workers, and what is between them
    in_flight: Array,
    largest: Array,
    answer_s: Callable[[Array], Array],
    *,
    prompts: PromptTimes,
    decode_workers: int,
    most_per_s: npt.ArrayLike,
    between_s: Array,
) -> Array:
    r"""Return the requests that each decode worker has on average, in a closed loop.

    Of C requests in flight, :math:`n D` are decoded by n workers, and the rest is at the prefill
    workers or on its way:

    .. math:: C = n D + \lambda \, (t_{prefill}(\lambda) + t_{between}), \quad
        \lambda = n D / t_{answer}(D)

    Parameters
    ----------
    in_flight
        C.
    largest
        Requests that a decode worker has memory for; others wait.
    answer_s
        From D to the seconds that an answer is decoded, :math:`t_{answer}`.
    prompts
        Prefill workers, whose rate limits :math:`\lambda`.
    decode_workers
        n.
    most_per_s
        Requests that the link carries in a second.
    between_s
        Seconds that a request is neither computed nor decoded, :math:`t_{between}`.

    Source
        Little 1961, Oper. Res. 9(3).

    Examples
    --------
    >>> half = worker_batch(  # a second of prefill for each that decodes
    ...     np.array([1.0]),
    ...     np.array([8.0]),
    ...     np.ones_like,
    ...     prompts=PromptTimes(1, 1.0, 1.0, 1),
    ...     decode_workers=1,
    ...     most_per_s=10.0,
    ...     between_s=np.array(0.0),
    ... )
    >>> half.round(9)
    array([0.5])
    """
    others = (in_flight - 1) / in_flight
    share = np.minimum(in_flight / decode_workers, largest)

    def fits(batch: Array) -> BoolArray:
        per_s = decode_workers * batch / answer_s(batch)
        wait_s = prompts.station_s(per_s, others) + between_s
        with np.errstate(invalid="ignore"):
            taken = np.where(wait_s > 0, per_s * wait_s, 0.0)
        return np.asarray(
            (taken <= in_flight - decode_workers * batch) & (per_s <= np.asarray(most_per_s))
        )

    return np.where(fits(share), share, largest_that(fits, share))


def _priced_batches(most: float) -> Array:
    """Return the batches of a curve that is looked up between, the same up to a larger one."""
    most = max(most, 1.0)
    steps = 2.0 ** (np.arange(math.ceil(_PER_DOUBLING * math.log2(most)) + 1) / _PER_DOUBLING)
    each = np.arange(1.0, min(_EACH_BATCH, math.ceil(most)) + 1)
    return distinct(np.concatenate([steps, each]))


def _between(batches: Array, values: Array, at: Array) -> Array:
    """Return values, axes (context, batch, draft_len), at other batches, straight between two."""
    if len(batches) == 1:
        return np.broadcast_to(values, at.shape)
    place = np.clip(np.searchsorted(batches, at), 1, len(batches) - 1)
    below, above = (np.take_along_axis(values, place - n, axis=1) for n in (1, 0))
    part = (at - batches[place - 1]) / (batches[place] - batches[place - 1])
    return np.asarray(below + part * (above - below))


def split_curves(  # noqa: PLR0913 - the workers, and what one of them decodes
    deployment: Deployment,
    split: Split,
    load: Load,
    kept: ServerRoom,
    room: ServerRoom | None,
    priced: Callable[[npt.ArrayLike], SpeedupCurve],
    *,
    drafter: Drafter,
) -> tuple[SpeedupCurve, EndToEnd]:
    """Return what a drafter gains on decode workers that prefill workers feed.

    Parameters
    ----------
    deployment
        What a decode worker serves, and where.
    split
        The workers.
    load
        Requests in flight over all workers, in a steady state.
    kept
        What a decode worker keeps of a request.
    room
        The requests that it has room for; None for any number.
    priced
        From the batch sizes of one worker to the curve of its decoding.
    drafter
        What drafts there; prefill workers have it, too, for the prompts.

    Returns
    -------
    tuple of SpeedupCurve and EndToEnd
        Of decoding, whose running requests are those of all decode workers; and of whole requests.

    Counts
        requests as spread evenly over workers: a request has at least itself in its batch.
    Ignores
        that clients may be in step.
    Source
        `worker_batch`, `PromptTimes.station_s`, `wire_s`.
    """
    workload = load.workload
    if workload is None:
        reject(
            "prefill has workers of its own, and no lengths are given",
            "input_len and output_len",
        )
    refuse_one_token(workload)
    prefill, decode = Deployment(deployment.model, split.prefill), deployment.setup
    lengths = kept.largest.shape[1]
    prompts = prompt_times(prefill, workload, split.prefill_workers, drafter, lengths)
    need = kept.drafting.need
    held = need.target.sequence_bytes(workload.input_len)
    drafted = 0.0 if need.draft is None else need.draft.sequence_bytes(workload.input_len)
    most = kept.largest if room is not None else np.full_like(kept.largest, np.inf)
    moved = held + np.where(np.arange(most.shape[1]), drafted, 0.0)  # plain decoding has no drafter
    link_bytes_per_s = split.bytes_per_s(decode)
    # Each stage of a pipeline receives the cache of its own layers.
    senders, receivers = (
        place.group_size * place.pipeline_parallel
        for place in (split.prefill.placement, decode.placement)
    )
    moving_s = wire_s(
        moved, receivers=receivers, senders=senders, link_bytes_per_s=link_bytes_per_s
    )
    transfer_s = np.where(moving_s > 0, TRANSFER_LATENCY_S + moving_s, 0.0)
    # Each device has a link: all of the narrower side are busy, whatever a request is spread over.
    links = min(
        split.prefill_workers * split.prefill.placement.devices,
        split.decode_workers * decode.placement.devices,
    )
    with np.errstate(divide="ignore"):
        link_per_s = links * LINK_FRAC * link_bytes_per_s / (moved * receivers)
    most_per_s = np.minimum(prompts.requests_per_s, link_per_s)
    lost_s = float(decode.engine.lost_s(workload.input_len))
    batch_size = np.asarray(load.batch_size, dtype=np.float64)
    in_flight = batch_size[None, :, None]
    # NaN where a worker has no room for one request.
    share = running_requests(in_flight / split.decode_workers, most[:, None, :], "queue")
    sizes = _priced_batches(float(np.nanmax(share, initial=1.0)))
    trial = priced(sizes)
    rounds = answer_rounds(workload.output_len, trial.tokens_per_round[:, :1])

    def answer_s(batch: Array) -> Array:
        return rounds * _between(sizes, trial.round_s, np.maximum(batch, 1.0))

    batch = worker_batch(
        in_flight,
        share,
        answer_s,
        prompts=prompts,
        decode_workers=split.decode_workers,
        most_per_s=most_per_s,
        between_s=transfer_s + lost_s,
    )
    batch = np.where(np.isfinite(share + rounds), batch, np.nan)
    each = running_curve(batch_size, np.maximum(batch, 1.0), priced)
    decode_s = rounds * each.round_s
    per_s = np.minimum(split.decode_workers * batch / decode_s, most_per_s)
    decoded = split.decode_workers * batch
    # Where decode workers have no room for more, requests wait before their prompt is computed.
    station_s = prompts.station_s(per_s, (in_flight - 1) / in_flight)
    is_full = (batch == share) & (decoded < in_flight)
    with np.errstate(invalid="ignore"):
        started = decoded + per_s * (station_s + transfer_s + lost_s)
        running = np.where(is_full, np.minimum(started, in_flight), in_flight + 0.0 * batch)
    service_s = running / per_s
    first_s = np.maximum(service_s - decode_s, 0.0)
    output_len, tokens = workload.output_len, each.tokens_per_round
    whole = EndToEnd(
        workload=workload,
        wait_s=float(np.ravel(prompts.alone_s)[0] + transfer_s[..., 0].max()),
        latency_s=lost_s,
        curve=replace(
            each,
            round_s=tokens * service_s / output_len,
            running=running,
            request_lengths=workload.requests,
            request_token_s=np.asarray(service_s - decode_s)[..., 0] / output_len,
            decoding_share=np.asarray(1 - first_s / service_s),
        ),
        decoding_round_s=np.asarray(tokens * decode_s / output_len),
        delay_s=np.asarray((service_s - decode_s - lost_s) / running),
        first_s=first_s,
        rules=prefill_rules(prefill),
        workers=WorkerLoads(
            devices=split.devices(decode),
            decode_batch=batch,
            prefill_s=np.maximum(first_s - transfer_s - lost_s, 0.0),
            transfer_s=np.broadcast_to(transfer_s, batch.shape),
            prefill_busy=np.asarray(per_s / prompts.requests_per_s),
            link_busy=np.asarray(per_s / link_per_s),
        ),
    )
    return replace(each, running=decoded), whole
