"""The curve that every question asks for: decoding, within the room of a server, with prompts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import numpy as np

from specroof import quantities as q
from specroof.acceptance import ContextAcceptance, accepted_at
from specroof.arrays import Array, BoolArray, IntArray
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import Unfit, expect
from specroof.hardware.engine import IDEAL_ENGINE, played_figure
from specroof.latency.setup import Deployment, Setup, check_placement
from specroof.serving.capacity import (
    RoomRule,
    ServerRoom,
    in_server,
    running_curve,
    running_requests,
    server_room,
)
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.workload import Load
from specroof.speedup.curve import acceptance_of, decoding_curve, grid_axes, proposals
from specroof.speedup.result import SpeedupCurve

if TYPE_CHECKING:
    from specroof.serving.split import Split


#: Limits of running requests that a server is told, without drafts and with; None for its own.
Limits: TypeAlias = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True, eq=False)
class ServedCurve:
    """What speculative decoding gains on a server.

    Parameters
    ----------
    decoding
        Of decoding alone, within the room.
    room
        What the server has room for; None where memory is ignored.
    end_to_end
        With prefills; None where the load has no requests.
    told
        The limits of running requests that the server is told at each batch size, without drafts
        and with; None where its own are enough.
    largest
        The largest batch that runs on the server of each batch size, axes as in the curve; None
        where memory is ignored.
    bound_by_setting
        Whether a setting of that server limits it, not memory, axes as in the curve; False where
        memory is ignored.
    """

    decoding: SpeedupCurve
    room: ServerRoom | None
    end_to_end: EndToEnd | None
    told: tuple["Limits", ...] = ()
    largest: Array | None = None
    bound_by_setting: BoolArray | np.bool_ = np.False_

    @property
    def curve(self) -> SpeedupCurve:
        """The curve with prefills where they count, else of decoding alone."""
        return self.decoding if self.end_to_end is None else self.end_to_end.curve

    @property
    def tokens_per_s(self) -> Array:
        """Output tokens of the whole server per second."""
        return (self.decoding if self.end_to_end is None else self.end_to_end).tokens_per_s

    @property
    def tpot_s(self) -> Array:
        """Seconds that a user waits for each token (of requests: after the first)."""
        if self.end_to_end is not None:
            return self.end_to_end.tpot_s
        return 1.0 / self.decoding.tokens_per_s_per_user

    @property
    def figure_ends(self) -> dict[str, tuple[Array, Array] | None]:
        """The ends of the bands of throughput, TPOT and TTFT by name; None without a band."""
        if self.end_to_end is not None:
            return self.end_to_end.figure_ends
        one, name = self.decoding, q.TPOT.name
        ends = one.figure_ends(played_figure(one.served_bands, name), self.tpot_s, per_speedup=-1)
        return {q.TOKENS_PER_S.name: one.rate_ends, name: ends}


def room_rule(
    setup: Setup, capacity: bool | None, beyond: Literal["queue", "drop"] = "drop"
) -> RoomRule:
    """Return what becomes of requests that a server has no memory for.

    Parameters
    ----------
    setup
        Where passes run: the ideal engine has no server around it.
    capacity
        Whether memory counts; None for any engine but the ideal one.
    beyond
        What becomes of them where it counts.

    Raises
    ------
    OptionError
        For a `capacity` that is neither.
    """
    expect("capacity", capacity, bool | None, "True, False, or None")
    counts = setup.engine != IDEAL_ENGINE if capacity is None else capacity
    return beyond if counts else "ignore"


def reserved_len(setup: Setup, load: Load, *, decodes_only: bool = False) -> float:
    r"""Return the tokens that a server keeps free for each request that runs, on average.

    .. math:: c - \frac{c^2}{2 L}

    of an answer of L tokens, of which at most c still to come are reserved. A worker that only
    decodes may keep as many of each.

    Ignores
        lengths that differ; and shares of answers, which fall to a tenth.
    Source
        The mean of min(c, L - t) over the tokens t that are there, 0 to L; `Release.reserves` and
        `Workers.reserved_tokens`.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.latency.setup import engine_setup
    >>> from specroof.serving.workload import Workload
    >>> load, sglang = Load([8], [1500], Workload(1000, 1000)), load_hardware("h100")
    >>> reserved_len(engine_setup(sglang, "sglang", None, None), load)
    500.0
    """
    facts, workload = setup.release, load.workload
    if decodes_only:
        return 0.0 if facts.workers is None else facts.workers.reserved_tokens
    guesses = facts.reserves_shares or (load.trace is not None and load.trace.most_len is not None)
    if workload is None or guesses or not facts.reserves:
        return 0.0
    answer_len = workload.output_len
    most_len = min(facts.reserved_tokens or math.inf, answer_len)
    return most_len - most_len**2 / (2 * answer_len)


def served_curve(  # noqa: PLR0913 - what is served, to whom, within what
    deployment: Deployment,
    drafter: Drafter,
    load: Load,
    room: RoomRule,
    *,
    max_draft_len: int,
    acceptance: TokensPerRound | ContextAcceptance | None = None,
    split: "Split | None" = None,
    raises: bool = True,
) -> ServedCurve:
    """Return what a drafter gains on a server under a load.

    A default limit of running requests that binds before memory does is raised for each load by
    itself: see `raised_limits`.

    Parameters
    ----------
    deployment, drafter, load
        What is served where, what drafts, and for which requests.
    room
        What becomes of requests that the server has no memory for.
    max_draft_len
        The longest draft of the grid.
    acceptance
        How much of the drafts is accepted; the drafter's own if None.
    split
        The workers of prefill and of decoding; the deployment is then of one decode worker. None
        where one server does both.
    raises
        Whether default limits are raised; False for a server that runs as it is.

    Raises
    ------
    SpecroofError
        As `specroof.speedup.curve.decoding_curve` does, and for prompts that are cached on a
        server that was told to keep none.

    Examples
    --------
    >>> from specroof import load_drafter, load_hardware, load_model
    >>> from specroof.latency.setup import engine_setup
    >>> setup = engine_setup(load_hardware("h100"), "sglang", None, None)
    >>> deployment = Deployment(load_model("Qwen/Qwen3-8B"), setup)
    >>> mtp = load_drafter("mtp,accept=0.8")
    >>> found = served_curve(deployment, mtp, Load([8, 4096], [4096]), "drop", max_draft_len=2)
    >>> found.curve.speedup[0, :, 0].tolist()  # 4096 have no room
    [1.0, nan]
    """
    accepted = acceptance_of(drafter) if acceptance is None else acceptance
    served = partial(
        _served, drafter, room, max_draft_len=max_draft_len, accepted=accepted, split=split
    )

    @cache
    def server(running: int | None) -> tuple[Deployment, ServerRoom | None]:
        """Return the server that is told a limit, and its room; None where that does not count."""
        here = with_running(deployment, running)
        if split is None and room == "ignore":
            return here, None
        contexts, _, drafts = grid_axes(load.context_len, load.batch_size, max_draft_len)
        check_placement(here.model, here.setup.placement)
        drafter.describe(here.model)  # refuses a model that the drafter does not fit
        verified = proposals(drafter, accepted_at(accepted, contexts[0]), drafts).verify_len
        free_len = reserved_len(here.setup, load, decodes_only=split is not None)
        held = server_room(here, drafter, contexts + free_len, verified, load.workload)
        return here, replace(held, reserved_len=free_len)

    told: Sequence[Limits] = ()
    if raises and room != "ignore" and deployment.setup.user_settings.running is None:
        servers = 1 if split is None else split.decode_workers
        held = lambda running: cast("ServerRoom", server(running)[1])  # noqa: E731 - it counts
        told = raised_limits(load.batch_size, room, held, servers)
    if not any(map(any, told)):
        return served(*server(None), load)
    parts, order = list[tuple[ServedCurve, ServedCurve]](), list[int]()
    for plain, drafting in dict.fromkeys(told):
        places = [i for i, pair in enumerate(told) if pair == (plain, drafting)]
        part = replace(load, batch_size=[load.batch_size[i] for i in places])
        drafted = served(*server(drafting), part)
        parts.append((drafted if plain == drafting else served(*server(plain), part), drafted))
        order += places
    return replace(_joined(parts, np.argsort(order)), told=tuple(told))


def _served(  # noqa: PLR0913 - what is served, to whom, within what
    drafter: Drafter,
    room: RoomRule,
    deployment: Deployment,
    held: ServerRoom | None,
    load: Load,
    *,
    max_draft_len: int,
    accepted: TokensPerRound | ContextAcceptance,
    split: "Split | None",
) -> ServedCurve:
    """Return the same on a server as it was told, with its room; None where it does not count."""
    priced = partial(
        decoding_curve,
        deployment,
        drafter,
        accepted,
        context_len=load.context_len,
        max_draft_len=max_draft_len,
        longest=load.longest,
    )
    whole = largest = None
    by_setting: BoolArray | np.bool_ = np.False_
    memory = None if room == "ignore" else held
    if held is None:
        decoding = priced(load.batch_size)
    elif split is None:
        batches = grid_axes(load.context_len, load.batch_size, max_draft_len)[1]
        running = running_requests(batches[None, :, None], held.largest[:, None, :], room)  # type: ignore[arg-type]  # counted
        decoding = running_curve(batches, running, priced)
    else:
        from specroof.serving.split import split_curves  # noqa: PLC0415 - asked for seldom

        decoding, whole = split_curves(
            deployment, split, load, held, memory, priced, drafter=drafter
        )
    if split is None and load.workload is not None:
        from specroof.serving.prefills import end_to_end  # noqa: PLC0415 - a cold start is felt

        whole = end_to_end(decoding, deployment, load.workload, drafter)
    if memory is not None:
        notes = tuple(note for note in decoding.notes if not isinstance(note, Unfit))
        decoding = replace(decoding, notes=notes)  # its warnings say how much is missing
        shape, each = decoding.round_s.shape, memory.largest.astype(np.float64)
        largest = np.broadcast_to(each[:, None, :], shape)
        by_setting = np.broadcast_to(memory.bound_by_setting[:, None, :], shape)
    return ServedCurve(decoding, memory, whole, largest=largest, bound_by_setting=by_setting)


# --- Limits that are raised, load by load --------------------------------------------------------


def with_running(deployment: Deployment, running: int | None) -> Deployment:
    """Return a deployment whose server is told a limit of running requests; itself for None."""
    if running is None:
        return deployment
    model, setup = deployment.model, deployment.setup
    settings = replace(setup.user_settings, running=running)
    return Deployment(model, in_server(model, setup, settings))


#: More loads than this share servers.
_MANY: Final = 64


def raised_limits(
    batch_size: Sequence[float],
    room: RoomRule,
    held: Callable[[int | None], ServerRoom],
    servers: int = 1,
) -> list[Limits]:
    """Return the limits of running requests that a server is told at each batch size.

    A default that binds before memory does is raised to the load, or to what memory holds of it.
    Each load is asked about by itself. Where larger batches have no figures, and of very many
    loads, it is raised to the next power of two: few servers for many batches.

    Parameters
    ----------
    batch_size
        Requests in flight, of all servers.
    room
        What becomes of requests that the server has no memory for.
    held
        From a limit that the server is told to its room; None for its own.
    servers
        Servers that share the requests.
    """
    by_default = held(None)
    need, each = by_default.drafting.need, [batch / servers for batch in batch_size]
    ranks, shared = need.ranks, need.limit_ranks

    def limits(lengths: slice) -> list[int | None]:
        default = by_default.drafting.server.running
        if default is None or by_default.raised_running(max(each), lengths) is None:
            return [None] * len(each)  # nor of smaller batches
        told = [by_default.raised_running(batch, lengths) for batch in each]
        if room == "drop" or len(each) > _MANY:
            powers = [one and 2 ** math.ceil(math.log2(one / shared)) for one in told]
            return [power and int(min(shared * power, by_default.most_told)) for power in powers]
        # The largest limit up to the one that is wanted at which as many are held, of each of the
        # ranks that requests are dealt out to: what a server keeps of each request that may run
        # takes memory.
        low, high = max(1, default // shared), max(filter(None, told)) // shared
        middle = high
        while low < high:
            if float(held(shared * middle).largest[:, lengths].max()) / ranks >= middle:
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return [one and min(one, shared * low) for one in told]

    return list(zip(limits(slice(1)), limits(slice(1, None)), strict=True))


#: Arrays of curves with the axes (context_len, batch_size, draft_len), and of what is around them.
_CURVE: Final = (
    *("tokens_per_round", "draft_s", "verify_s", "round_s", "launched", "running_batch"),
    *("request_token_s", "decoding_share"),
)
_WHOLE: Final = ("decoding_round_s", "delay_s", "first_s")
_WORKERS: Final = ("decode_batch", "prefill_s", "transfer_s", "prefill_busy", "link_busy")


def _joined(parts: Sequence[tuple[ServedCurve, ServedCurve]], order: IntArray) -> ServedCurve:
    """Return curves over parts of the batch sizes as one.

    Parameters
    ----------
    parts
        Of the server without drafts, and of that with drafts; one may do both. The room of the
        answer is that of the servers that run most.
    order
        From the batch sizes of all parts to those of the answer.
    """

    def arrays(pairs: Sequence[tuple[Any, Any]], names: Sequence[str]) -> dict[str, Any]:
        joined = {}
        for name in names:
            rows = []
            for pair, (_, served) in zip(pairs, parts, strict=True):
                values = (np.asarray(getattr(one, name)) for one in pair)
                # What has no draft lengths is the same at all of them.
                deep = (one if one.ndim > 2 else one[..., None] for one in values)
                shape = served.decoding.round_s.shape
                plain, drafted = (np.broadcast_to(one, shape) for one in deep)
                rows.append(np.concatenate([plain[..., :1], drafted[..., 1:]], axis=-1))
            joined[name] = np.concatenate(rows, axis=1)[:, order]
        return joined

    def curve(pairs: Sequence[tuple[SpeedupCurve, SpeedupCurve]]) -> SpeedupCurve:
        drafted = [one for _, one in pairs]
        # Of the largest load that runs: what it says of its reach holds for smaller ones.
        last = max(drafted, key=lambda one: (np.isfinite(one.round_s).any(), one.batch_size.max()))
        found = arrays(pairs, _CURVE)
        return replace(
            drafted[0],
            batch_size=np.concatenate([one.batch_size for one in drafted])[order],
            running=found.pop("running_batch"),
            request_token_s=found.pop("request_token_s")[..., -1],
            notes=last.notes,
            **found,
        )

    wholes: Any = [(plain.end_to_end, drafted.end_to_end) for plain, drafted in parts]
    whole = None
    if wholes[0][1] is not None:
        workers = [(plain.workers, drafted.workers) for plain, drafted in wholes]
        whole = replace(
            wholes[0][1],
            curve=curve([(plain.curve, drafted.curve) for plain, drafted in wholes]),
            workers=workers[0][1] and replace(workers[0][1], **arrays(workers, _WORKERS)),
            **arrays(wholes, _WHOLE),
        )
    rooms: Any = [(plain.room, drafted.room) for plain, drafted in parts]  # limits are of rooms
    return ServedCurve(
        decoding=curve([(plain.decoding, drafted.decoding) for plain, drafted in parts]),
        room=max(
            (replace(drafted, plain=plain.plain) for plain, drafted in rooms),
            key=lambda room: float(room.largest.sum()),
        ),
        end_to_end=whole,
        **arrays(parts, ("largest", "bound_by_setting")),
    )
