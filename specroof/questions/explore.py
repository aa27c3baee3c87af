"""What does speculation gain, whatever the model, chip, load and drafter? A page to play with."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property, lru_cache
from html import escape
from itertools import count, product
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from specroof import quantities as q
from specroof.acceptance import (
    Acceptance,
    acceptance_from_length,
    constant_acceptance,
    survival_acceptance,
)
from specroof.acceptance.published import AcceptanceProfile, load_profiles, published_with
from specroof.acceptance.sampling import resampled_acceptance
from specroof.architecture.model import Architecture
from specroof.arrays import Array, IntArray, array_within, fields_of, whole_within
from specroof.catalog import load_drafter, load_hardware, model_names
from specroof.cost import ForwardPass, Options
from specroof.drafters import Drafter, Proposals
from specroof.errors import OptionError, SpecroofError, expect, reject
from specroof.frameworks import FRAMEWORKS, SERVERS, Release, known_releases, release
from specroof.hardware.engine import (
    BATCH_WIDENING,
    CONTEXT_WIDENING,
    IDEAL_ENGINE,
    EngineProfile,
    ServerSettings,
    served_width,
)
from specroof.hardware.profile import GENERIC, HardwareProfile, Placement
from specroof.latency.model import model_latency
from specroof.latency.setup import Deployment, Setup, check_placement, engine_setup
from specroof.page import PageGrid, document, packed, script_json
from specroof.questions import parameters as p
from specroof.questions.advise import USUAL_FRAMEWORKS
from specroof.questions.answer import Noted, title_of
from specroof.questions.objects import (
    HardwareLike,
    ModelLike,
    Values,
    accepts,
    as_list,
    changed_options,
    engine_name,
    hardware_of,
    model_of,
    name_of,
    options_of,
    server_of,
    unique_list,
)
from specroof.questions.page_evidence import (
    begun_kinds,
    published_speedups,
    sureness,
    usual_drafter,
)
from specroof.questions.page_loads import (
    PLAYED,
    PRESETS,
    SCENES,
    SPEEDUPS,
    USUAL_BATCH,
    PlayedPoints,
    Scene,
    at_points,
    played_points,
    preset_tables,
)
from specroof.questions.request import Command, Output, expect_runs_on, question
from specroof.questions.speculation import speculation_of
from specroof.reading.words import whole_numbers, words
from specroof.report.layout import ASSUMED
from specroof.serving.capacity import (
    PrefillRules,
    ServedRoom,
    ServerRoom,
    in_server,
    prefill_rules,
    served_room,
    server_room,
)
from specroof.serving.launch import launch, setting_words
from specroof.serving.prefills import RequestLoad, RequestTiming, read_once_s, request_timing
from specroof.serving.served import raised_limits, with_running
from specroof.serving.workload import prefill_pass
from specroof.speedup.curve import (
    DEFAULT_MAX_DRAFT_LEN,
    draft_time,
    engine_pass_s,
    engine_round_s,
    grid_axes,
    proposals,
)
from specroof.speedup.reach import deployment_words, evidence_engine
from specroof.speedup.result import tokens_spread
from specroof.speedup.waterfall import group_seconds
from specroof.units import BOUNDS, format_binary_bytes

_Named = TypeVar("_Named", Architecture, HardwareProfile)

#: What a site holds by default.
PAGE_CHIPS: Final = (
    *("b200", "b300", "gb200", "h100-sxm", "h200", "h20", "a100-80gb"),
    *("mi300x", "mi355x", "l40s", "rtx-4090", "rtx-pro-6000"),
)
_CONTEXTS: Final = (1024.0, 4096.0, 16384.0, 65536.0)
_BATCHES: Final = tuple(2.0**power for power in range(9))
DEVICES: Final = (1, 2, 4, 8)
#: The default of each chip, then servers, and the textbook beside them.
_ENGINES: Final = (None, "vllm", "sglang", "tensorrt-llm", "ideal")


@dataclass(frozen=True)
class ExploreRequest:
    """Ask for a page for trying models, chips, loads and drafters.

    Examples
    --------
    >>> from specroof import explore
    >>> explore("Qwen/Qwen3-8B", "b200")
    <Exploration: 1 model on 1 chip>
    """

    models: Annotated[
        ModelLike | Sequence[ModelLike] | None,
        p.Parameter(
            "Config files, bundled models or Hub names.",
            "[MODEL]…",
            in_python="Or `Architecture` objects.",
            kind=list[str],
            names=model_names,
            shown="all bundled models",
        ),
    ] = None
    hardware: Annotated[
        HardwareLike | Sequence[HardwareLike] | None, p.like(p.Chips, shown="twelve bundled chips")
    ] = None
    _: KW_ONLY
    engines: Annotated[
        str | Sequence[str] | None,
        p.Parameter(
            "Engines to choose from.",
            "--engine",
            in_python="A chip that lacks one goes without it; None is the chip's default.",
            metavar="NAME[,NAME]…",
            read=words,
            shown="vllm,sglang,tensorrt-llm,ideal",
        ),
    ] = None
    tensor_parallel: Annotated[
        int | Sequence[int] | None,
        p.Parameter(
            "Numbers of devices to choose from.",
            "--tp",
            in_python="A chip or a model that cannot be spread so goes without it.",
            read=whole_numbers,
            shown="1,2,4,8",
        ),
    ] = None
    batch_size: Annotated[Values | None, p.like(p.BatchSize, shown="1,2,4,…,256")] = None
    context_len: Annotated[Values | None, p.like(p.ContextLens, shown="1024,4096,16384,65536")] = (
        None
    )
    options: p.OptionsGiven = None
    steady: Annotated[
        bool,
        p.Parameter(
            "Requests in their steady state, in closed form: no preset is simulated. Of all bundled "
            "models, always so but for the scenes that the page begins with."
        ),
    ] = False


# --- Seconds of one model on one chip over a grid, without acceptance, which the page adds --------

#: Drafters that the library prices, as a SPEC calls them.
PRICED_KINDS: Final = ("mtp", "eagle3", "dflash", "ngram")

#: The same, behind those that take nothing, or a share of the target's step.
_KINDS: Final = ("ideal", "autoregressive", "block", *PRICED_KINDS)

#: Tokens per round at which drafting is tabulated, since its first pass reads the tokens of the
#: round before: in steps of a quarter up to 5, then of 1.
_STEP: Final = 0.25
_N_FEW: Final = 16
KNOTS: Final = (*np.arange(1.0, 5.0, _STEP).tolist(), *np.arange(5.0, 18.0).tolist())

#: Shares of a round by which what a page makes of the grid may differ from the library: less than
#: is printed. Most differ by less than 5e-7, the roofline and a few others by up to 1.3e-4.
_EXACT: Final = 2e-4

#: A share of drafts accepted at which grids are compared with the library.
_PROBE: Final = 0.7

#: Tokens of an answer, and shares of a prompt that are cached, of the requests of a page. A prompt
#: is as long as leaves the context of the grid while half of its answer is decoded.
ANSWERS: Final = (128, 512, 1536)
HIT_RATES: Final = (0.0, 0.5, 0.9)

#: Where requests are timed: draft lengths, and shares of the drafts that are accepted. Where
#: prompts stop the batch, tokens per round are all that matters: whole ones up to the largest.
_REQUEST_DRAFTS: Final = (1, 2, 3, 4, 5, 7, 9, 12, 16)
_REQUEST_SHARES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
_REQUEST_TOKENS: Final = tuple(range(1, _REQUEST_DRAFTS[-1] + 2))

#: The draft lengths of a page.
LENGTHS: Final = np.arange(DEFAULT_MAX_DRAFT_LEN + 1)

#: Share of a plain step that is told apart: seconds that are packed are off by half of it. Of
#: verification and drafting together that is a fifth of the 1e-6 that a page may be off.
_SHARE_QUANTUM: Final = 2e-7
#: The same on the page of all models, of whose figures fewer digits are printed, and of groups of
#: operations, which are shown with two.
_COARSE_QUANTUM: Final = 2e-4
_PART_QUANTUM: Final = 5e-3
#: Numbers of devices on the page of all models: the fewest that run what it begins with, and more.
_MOST_COUNTS: Final = 2
#: Logarithms of the ends of bands that are told apart.
_WIDTH_QUANTUM: Final = 1e-5
#: Logarithms of what requests take that are told apart: seconds are off by a fifth of a percent,
#: those to a first token, whose bands are far wider, by two; twice as much on the page of all
#: models.
_REQUEST_QUANTA: Final = {"rounds": 4e-3, "prompt_s": 8e-3, "first_rounds": 4e-2, "first_s": 4e-2}
#: Stands for no seconds at all, of which there is no logarithm, and is the unit of others.
_NO_SECONDS: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """The points of a grid.

    Parameters
    ----------
    context_len, batch_size
        Cached tokens of each sequence, and sequences in flight.
    workloads
        Requests whose prompts are counted: context, answer, and the share of a prompt that is
        cached.
    quantum
        Share of a plain step that is told apart.
    """

    context_len: tuple[float, ...]
    batch_size: tuple[float, ...]
    workloads: tuple[tuple[float, int, float], ...] = ()
    quantum: float = _SHARE_QUANTUM


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """What a server has room for with one drafter.

    Parameters
    ----------
    ends
        The largest batch that its memory holds, axes (context_len, draft_len), and that its
        settings allow, axes (draft_len). Between contexts, what a request takes lies on a line; the
        settings do not, and stand apart.
    bound_by
        What limits it plain, and with one draft, axes (context_len, 2).
    raised
        The ends of each batch, with an axis batch_size before the last, where the server is told
        limits in the place of its defaults, as `advise` tells them: load by load. None where no
        default limits any.
    """

    ends: tuple[Array, Array]
    bound_by: list[list[str]]
    raised: tuple[Array, Array] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PageDrafting:
    """One drafter on a grid.

    Parameters
    ----------
    draft_s
        Seconds of drafting at one token per round, axes (context_len, batch_size,
        draft_len).
    more_s
        Seconds more at each of `KNOTS`, axes (context_len, batch_size, knot); NaN past the depth.
    room
        What the server has room for.
    depth
        The longest draft.
    engine_round_s
        Seconds that the engine adds to each round, and to each sequence in it.
    read_s
        Seconds in which it reads a prompt, for others and for the request, axes (2, workload).
    """

    draft_s: Array
    more_s: Array
    room: Room
    depth: int
    engine_round_s: tuple[float, float]
    read_s: Array


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One model in one setup over a grid.

    Parameters
    ----------
    deployment
        What runs, and where.
    evidence
        The engine whose bands speak for them.
    verify_s
        Seconds of verifying, axes (context_len, batch_size, draft_len); [..., 0] a plain step.
    parts_s
        The same by groups of operations, as `explain` has them.
    room
        With a drafter that needs no memory.
    engine_round_s
        See `PageDrafting`; with a drafter that the library does not price.
    drafting
        Drafters that the library prices, by kind.
    requests
        What prompts take, by how the server takes them: see `request_grid`; none of the textbook.
    rules
        How it takes prompts, by kind of drafter; "" is plain decoding.
    played
        What becomes of the presets; None where they are not played through.
    """

    deployment: Deployment
    evidence: EngineProfile
    verify_s: Array
    parts_s: Mapping[str, Array]
    room: Room
    engine_round_s: tuple[float, float]
    drafting: Mapping[str, PageDrafting]
    requests: Mapping[PrefillRules, Mapping[str, Array]]
    rules: Mapping[str, PrefillRules]
    played: PlayedPoints | None = None


def cell_of(
    deployment: Deployment,
    axes: Axes,
    kinds: Sequence[str] = PRICED_KINDS,
    *,
    enough: bool = True,
) -> Cell:
    """Return the seconds of a model in a setup.

    Parameters
    ----------
    deployment
        What is served, and where.
    axes
        The grid.
    kinds
        Drafters to price.
    enough
        Whether a refusal says how many devices would have room.

    Raises
    ------
    SpecroofError
        For a placement that does not divide the model, a format that the chip lacks, and a server
        that has no room for a request of the shortest context.
    """
    model, setup = deployment.model, deployment.setup
    contexts, batches, drafts = _columns(axes)

    @cache
    def plain(running: int | None) -> tuple[Deployment, ServedRoom]:
        within = with_running(deployment, running)
        return within, served_room(within, context_len=contexts[:, 0])

    rules: dict[str, PrefillRules] = {}
    if setup.engine != IDEAL_ENGINE:
        _expect_room(plain(None)[1], enough=enough)
        each = {kind: prefill_rules(deployment, kind or None) for kind in ("", *_KINDS)}
        # Whom a server holds back, and for how long, is simulated alone.
        rules = {
            kind: replace(rule, holds_back=False, rounds_between=0) for kind, rule in each.items()
        }
    # A chain of drafts is verified alike, whatever made it: one pass for all drafters.
    latency = model_latency(model, setup, ForwardPass(batches, drafts + 1.0, contexts))
    shape = np.broadcast_shapes(contexts.shape, batches.shape, drafts.shape)
    verify_s = np.broadcast_to(latency.total_s, shape)
    ideal = load_drafter("ideal")
    proposed = proposals(ideal, constant_acceptance(1.0), LENGTHS)
    priced = ((kind, _drafting(deployment, kind, axes, verify_s, plain)) for kind in kinds)
    return Cell(
        deployment=deployment,
        evidence=evidence_engine(deployment),
        verify_s=verify_s,
        parts_s={
            name: np.broadcast_to(seconds, shape)
            for name, seconds in group_seconds(latency).items()
        },
        room=_room(deployment, ideal, axes, proposed, plain),
        engine_round_s=_engine_round_s(setup, ideal, proposed),
        drafting={kind: drafting for kind, drafting in priced if drafting is not None},
        requests={
            rule: request_grid(deployment, rule, axes)
            for rule in set(rules.values())
            if axes.workloads
        },
        rules=rules,
    )


@lru_cache(maxsize=8)
def _columns(axes: Axes) -> tuple[Array, Array, IntArray]:
    """Return contexts, batch sizes and draft lengths, which broadcast to the grid."""
    contexts, batches, drafts = grid_axes(axes.context_len, axes.batch_size, DEFAULT_MAX_DRAFT_LEN)
    return contexts[:, None, None], batches[:, None], drafts


#: From a limit of running requests to a server that is told so, and its room without drafts.
_PlainRoom: TypeAlias = Callable[[int | None], tuple[Deployment, ServedRoom]]


def _room(
    deployment: Deployment, drafter: Drafter, axes: Axes, proposed: Proposals, plain: _PlainRoom
) -> Room:
    """Return the room of a server; without end for the textbook, which has no server."""
    if deployment.setup.engine == IDEAL_ENGINE:
        endless = np.full((len(axes.context_len), len(LENGTHS)), np.inf)
        return Room((endless, endless[0]), [])
    contexts = np.array(axes.context_len)

    @cache
    def held(running: int | None) -> ServerRoom:
        within, room = plain(running)
        return server_room(within, drafter, contexts, proposed.verify_len, plain=room)

    def ends(off: int | None, on: int | None) -> tuple[Array, Array]:
        """Return what memory and settings allow of a server that is told limits."""
        rooms = plain(off)[1], held(on).drafting
        memory, setting = (
            np.hstack([getattr(rooms[0], name), getattr(rooms[1], name)[:, 1:]])
            for name in ("memory_batch", "setting_batch")
        )
        return memory, setting[0]  # settings are the same at every context

    raised = None
    told = raised_limits(axes.batch_size, "queue", held)
    if any(map(any, told)):
        of_pairs = {pair: ends(*pair) for pair in {*told}}
        memory, setting = zip(*(of_pairs[pair] for pair in told), strict=True)
        raised = np.stack(memory, axis=1), np.stack(setting)
    return Room(ends(None, None), held(None).bound_by[:, :2].tolist(), raised)


def _engine_round_s(setup: Setup, drafter: Drafter, proposed: Proposals) -> tuple[float, float]:
    """Return what an engine adds to each round of a chain, and to each sequence in it."""
    none, one = engine_round_s(setup, drafter, proposed, [[0], [1]])[:, 0].tolist()
    return none, one - none


def _drafting(
    deployment: Deployment, kind: str, axes: Axes, verify_s: Array, plain: _PlainRoom
) -> PageDrafting | None:
    """Return the seconds of a drafter; None where no grid says them exactly.

    That is so where the model cannot have such a drafter, and where its seconds have corners
    between two knots or several of its passes read what was committed.
    """
    drafter, proposed = _probed(kind)
    depth = min(drafter.max_draft_len or DEFAULT_MAX_DRAFT_LEN, DEFAULT_MAX_DRAFT_LEN)
    target_s = (verify_s[..., :1], verify_s)
    try:
        drafter.describe(deployment.model)  # refuses a model that the drafter does not fit
        time = draft_time(deployment, drafter, proposed, _columns(axes), target_s, engine_pass_s)
    except SpecroofError:
        return None
    draft_s = time.serial_s + time.overlapped_s
    shape = (len(proposed.tokens_per_round), *verify_s.shape)
    drafts = slice(1, depth + 1)
    drafted = np.full(shape, np.nan)
    drafted[..., 0] = 0.0
    drafted[..., drafts] = np.broadcast_to(draft_s, shape)[..., drafts]
    none_s, few_s, many_s, probe_s = drafted
    knots_s = [
        np.zeros_like(none_s[..., :1]),
        (few_s - none_s)[..., 1:_N_FEW],
        (many_s - none_s)[..., 4 : depth + 1],
    ]
    found = PageDrafting(
        draft_s=none_s,
        more_s=np.concatenate(knots_s, axis=-1),
        room=_room(deployment, drafter, axes, proposed, plain),
        depth=depth,
        engine_round_s=_engine_round_s(deployment.setup, drafter, proposed),
        read_s=_read_s(deployment, drafter, axes),
    )
    read = proposed.tokens_per_round[-1, 0, 0, drafts]
    more_s = hermite(found.more_s, read) if found.more_s.any() else 0.0
    cubic_s = found.draft_s[..., drafts] + more_s
    off = np.abs(cubic_s - probe_s[..., drafts]) / (cubic_s + verify_s[..., drafts])
    return found if float(off.max()) < _EXACT else None


def _read_s(deployment: Deployment, drafter: Drafter, axes: Axes) -> Array:
    """Return the seconds in which a drafter reads a prompt of each workload: see `PageDrafting`."""
    if not axes.workloads:
        return np.zeros((2, 0))
    load, _ = _timed_requests(axes, rules := prefill_rules(deployment, drafter.kind))
    prompt = prefill_pass(load.new_len, context_len=load.cached_len)
    shape = np.shape(load.new_len)
    reads_s = read_once_s(deployment, drafter, prompt, rules)
    return np.array([np.broadcast_to(one, shape).ravel() for one in reads_s])


def _probed(kind: str) -> tuple[Drafter, Proposals]:
    """Return a drafter and its rounds at the acceptances that are priced, which no model changes.

    Acceptance is the first axis: what does not depend on it is priced once. Tokens per round are 1,
    then 1.25, 1.5, … and 2, 3, …, one for each draft length, and those of a probe.
    """
    drafter = load_drafter(kind)
    accepted = (
        constant_acceptance(0.0),
        survival_acceptance([_STEP] * DEFAULT_MAX_DRAFT_LEN),
        constant_acceptance(1.0),
        constant_acceptance(_PROBE),
    )
    each = [proposals(drafter, acceptance, LENGTHS) for acceptance in accepted]
    tokens = np.stack([one.tokens_per_round for one in each])[:, None, None]
    return drafter, replace(each[0], tokens_per_round=tokens)


def hermite(values: Array, tokens_read: Array) -> Array:
    r"""Return cubics through `KNOTS` with the slopes of parabolas there.

    Parameters
    ----------
    values
        On a last axis of knots.
    tokens_read
        Where, one axis; from the first knot to the last that has a value.

    Source
        Hermite's cubic on each interval.

    Examples
    --------
    >>> bool(np.allclose(hermite(np.square(KNOTS), np.array([1.1, 6.3])), [1.21, 39.69]))
    True
    """
    knots = np.array(KNOTS[: values.shape[-1]])
    left = np.clip(np.searchsorted(knots, tokens_read, side="right") - 1, 0, len(knots) - 2)
    width = knots[left + 1] - knots[left]
    t = (tokens_read - knots[left]) / width
    # Of the parabola through each knot and its neighbours.
    slope = np.gradient(values, knots, axis=-1, edge_order=2)
    return np.asarray(
        values[..., left] * (1 + 2 * t) * (1 - t) ** 2
        + slope[..., left] * width * t * (1 - t) ** 2
        + values[..., left + 1] * t**2 * (3 - 2 * t)
        + slope[..., left + 1] * width * t**2 * (t - 1)
    )


def request_grid(deployment: Deployment, rules: PrefillRules, axes: Axes) -> dict[str, Array]:
    r"""Return what prompts add to decoding, whatever a round takes.

    .. math:: t_{request} = a \, Z \, t_{round} + p, \quad t_{first} = b \, t_{round} + q

    with Z, the rounds of an answer: see `specroof.serving.prefills.answer_rounds`.

    Parameters
    ----------
    deployment, rules
        What is served where, and how its server takes prompts.
    axes
        Contexts and batch sizes.

    Returns
    -------
    dict
        `rounds`, a; `prompt_s`, p; `first_rounds`, b; `first_s`, q; axes (workload, batch_size,
        draft length, share accepted). The first draft length is 0: plain
        decoding, whatever the share. Where prompts stop the batch, the last axes are (1, tokens per
        round), of which 1 is plain decoding. NaN where no prompt is left of a context.

    Counts
        clients that ask again as soon as they are answered, as `predict` does.
    Source
        `specroof.serving.prefills.request_timing`, which is linear in the seconds of a round.
    """
    load, timing = _timed_requests(axes, rules)
    answer, batch, context = map(np.asarray, (load.output_len, load.running, load.context_len))
    # Two lengths of a round tell what of a request grows with them.
    shape = np.broadcast_shapes(load.tokens_per_round.shape, batch.shape, context.shape)
    round_s = np.stack([np.ones(shape), np.full(shape, 2.0)])
    times = timing(deployment, engine_pass_s, round_s, deployment.setup.engine)
    request_s = answer * times.token_s + batch * times.wait_s
    first_s = np.broadcast_to(times.first_s, round_s.shape)
    grown_s, first_grown_s = request_s[1] - request_s[0], first_s[1] - first_s[0]
    found = {
        "rounds": grown_s / load.rounds,
        "prompt_s": request_s[0] - grown_s,
        "first_rounds": first_grown_s,
        "first_s": first_s[0] - first_grown_s,
    }
    prompt = context - answer / 2
    # The page knows a latency that is the same for all lengths.
    lost_s = deployment.setup.engine.tokenize_s * prompt
    found["prompt_s"], found["first_s"] = found["prompt_s"] + lost_s, found["first_s"] + lost_s
    return {name: np.where(prompt >= 1, values, np.nan) for name, values in found.items()}


@lru_cache(maxsize=8)
def _timed_requests(axes: Axes, rules: PrefillRules) -> tuple[RequestLoad, RequestTiming]:
    """Return the requests of a grid and what times them, which no model and no chip changes."""
    drafts, shares = np.array([0.0, *_REQUEST_DRAFTS]), np.array(_REQUEST_SHARES)
    if not rules.shares_passes:
        drafts = drafts[-1:]
        shares = (np.array(_REQUEST_TOKENS) - 1) / drafts[0]
    places = np.arange(len(axes.workloads))
    # Sparse: what does not depend on an axis is priced once.
    place, batch, draft_len, share = np.meshgrid(
        places, axes.batch_size, drafts, shares, indexing="ij", sparse=True
    )
    context, answer, hit = np.transpose(axes.workloads)[:, place]
    prompt = context - answer / 2
    new_len = np.maximum(prompt * (1 - hit), 1.0)
    load = RequestLoad(
        new_len=new_len,
        cached_len=np.maximum(prompt - new_len, 0.0),
        output_len=answer,
        running=batch,
        context_len=context,
        verify_len=draft_len + 1,
        tokens_per_round=1 + share * draft_len,
    )
    return load, request_timing(load, rules)


# --- The answer: every model on every chip -------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One model on one chip.

    Parameters
    ----------
    cells
        Grids by engine and devices; those that hold nothing are left out.
    refusals
        Why they hold nothing, by devices.
    default_engine
        The first of the page's engines that the chip has: its own default, unless others were asked
        for.
    """

    cells: Mapping[tuple[str, int], Cell]
    refusals: Mapping[int, str]
    default_engine: str


@dataclass(frozen=True, kw_only=True)
class PageRow(q.Row):
    """A model on a chip, of which a page tells."""

    model: str
    hardware: str


@dataclass(frozen=True, repr=False, eq=False)
class Exploration(Noted):
    """A page to play with: grids of seconds, and the acceptance of drafts.

    Attributes
    ----------
    models, hardware
        Models and chips to choose from, by the words that a command takes.
    engines, devices, axes, options
        Engines, numbers of devices and loads to choose from, and the options of all grids.
    steady
        Whether no preset is played through.
    is_whole
        Whether it holds all bundled models: of the presets alone prompts are counted, of the scenes
        that a page begins with alone they are played, and of each model there are two numbers of
        devices.
    notes, warnings
        Sentences for the reader.
    """

    models: Mapping[str, Architecture]
    hardware: Mapping[str, HardwareProfile]
    engines: tuple[str | None, ...]
    devices: tuple[int, ...]
    axes: Axes
    options: Options
    steady: bool = False
    is_whole: bool = False

    @property
    def title(self) -> str:
        """The number of models and chips, in one line."""
        n_models, n_chips = len(self.models), len(self.hardware)
        models, chips = "model" + "s" * (n_models > 1), "chip" + "s" * (n_chips > 1)
        return f"{n_models} {models} on {n_chips} {chips}"

    @cached_property
    def alike(self) -> list[int]:
        """For each model one that costs the same, drafts included: they share grids."""

        def played(name: str) -> bool:
            return any(self.plays(name, chip) for chip in self.hardware.values())

        kinds = {}
        for name, model in self.models.items():
            begun = begun_kinds(model)
            if not (self.is_whole or self.steady):  # acceptance is of what is played alone
                begun = [usual_drafter(kind, model).name for kind in begun]
            kinds[name] = repr(replace(model, name="")), tuple(begun)
        places, shared = list(kinds), dict[Any, int]()
        for name in sorted(kinds, key=lambda name: not played(name)):
            shared.setdefault(kinds[name], places.index(name))
        return [shared[kind] for kind in kinds.values()]

    def section(self, model: str, hardware: str) -> Section:
        """Return the grids of one model on one chip.

        Parameters
        ----------
        model, hardware
            Keys of `models` and `hardware`.
        """
        architecture, profile = self.models[model], self.hardware[hardware]
        most = 1 if profile.interconnect is None else profile.interconnect.max_devices
        largest = max((count for count in self.devices if count <= most), default=0)
        cells: dict[tuple[str, int], Cell] = {}
        refusals: dict[int, str] = {}
        default_engine = ""
        begun, counts = begun_kinds(architecture), 0
        # Layers that a checkpoint lacks draft on no server: a page of all models leaves them out.
        left_out = {"mtp"} - {*begun} if self.is_whole else set[str]()
        kinds = [kind for kind in PRICED_KINDS if kind not in left_out]
        for devices in self.devices:
            if devices > most:
                refusals[devices] = f"at most {most} of this chip are linked"
                continue
            if self.is_whole and counts == _MOST_COUNTS:
                refusals[devices] = "not on the page of all models"
                continue
            for engine in self.engines:
                served = self.engines[0] == "ideal" or any(n == devices for _, n in cells)
                if self.is_whole and engine == "ideal" and not served and devices < largest:
                    continue  # a page of all models has the roofline of what servers run
                try:
                    expect_runs_on("engine", engine, profile)
                    # Of a server by its name, as the commands of the page have it.
                    word = engine or _default_word(profile.engine(None))
                    setup = engine_setup(profile, word, Placement(devices), self.options)
                    default_engine = default_engine or word
                    if (word, devices) in cells:
                        continue
                    check_placement(architecture, setup.placement)
                    setup = in_server(architecture, setup, server_of(None))
                    cells[word, devices] = cell_of(
                        Deployment(architecture, setup), self.axes, kinds, enough=devices == largest
                    )
                except SpecroofError as refusal:  # no engine, no such spread, or no room
                    refusals.setdefault(devices, str(refusal))
            counts += _runs_begun(cells, devices, begun, self.axes)
        servers = [*dict.fromkeys(word for word, _ in cells if word != IDEAL_ENGINE.name)]
        for engine in servers if self.plays(model, profile) else ():
            # On the devices, and with the drafters, that the page begins with.
            own = (key for key in cells if key[0] == engine)
            at = max(own, key=lambda key: _most_begun(cells[key], begun, self.axes))
            deployment, priced = cells[at].deployment, cells[at].drafting
            rules = deployment.setup.engine.rules
            drafters = [
                usual_drafter(kind, architecture, rules) for kind in begun if kind in priced
            ]
            loads = self.axes.context_len, self.axes.batch_size
            cells[at] = replace(cells[at], played=played_points(deployment, drafters, *loads))
        return Section(cells, refusals, default_engine or _default_word(profile.engine(None)))

    def plays(self, model: str, chip: HardwareProfile) -> bool:
        """Tell whether the presets of a model on a chip are played through.

        Parameters
        ----------
        model, chip
            A key of `models`, and one of the chips.
        """
        return not self.steady and (not self.is_whole or (model, chip.name) in _shown())

    @cached_property
    def page(self) -> str:
        """The page as one self-contained text."""
        return single_page(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the choices of the page."""
        return self.envelope(
            {
                "models": list(self.models),
                "hardware": list(self.hardware),
                "context_len": list(self.axes.context_len),
                "batch_size": list(self.axes.batch_size),
                "draft_len": LENGTHS.tolist(),
                "options": changed_options(self.options),
                "steady": self.steady,
            }
        )

    @property
    def rows(self) -> tuple["PageRow", ...]:
        """A row for each model on each chip."""
        return tuple(
            PageRow(model=model, hardware=chip) for model in self.models for chip in self.hardware
        )

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        return (
            '<iframe sandbox="allow-scripts" title="specroof" width="100%" height="900" '
            f'style="border:0" srcdoc="{escape(self.page)}"></iframe>'
        )


@cache
def _shown() -> set[tuple[str, str]]:
    """Return the models and the names of the chips of `SCENES`."""
    return {(scene.model, load_hardware(scene.chip).name) for scene in SCENES}


def _expect_room(served: ServedRoom, *, enough: bool) -> None:
    """Refuse a server that has no room for one request, and say what would be enough."""
    room = served.room
    if served.largest_batch[0, 0] < 1:
        short_bytes = float(np.ravel(room.short_bytes)[0])
        message = (
            f"no room for one request: at least {format_binary_bytes(short_bytes)} more would be "
            f"needed on each device"
        )
        if enough:  # what is missing is spread over more devices, whose number doubles
            missing = short_bytes / room.memory_bytes
            count = served.need.placement.devices * 2 ** np.ceil(np.log2(1 + missing))
            message += f"; about {count:g} of them would do"
        raise OptionError(message)


def _default_word(engine: EngineProfile) -> str:
    """Return what `--engine` calls the default of a chip: the server whose rules it has."""
    return engine.rules if engine.name == GENERIC else engine.name


def _runs_begun(
    cells: Mapping[tuple[str, int], Cell], devices: int, begun: Sequence[str], axes: Axes
) -> bool:
    """Tell whether so many devices run what the page begins with, on each server."""
    own = [cell for (word, n), cell in cells.items() if n == devices and word != IDEAL_ENGINE.name]
    usual = min(axes.batch_size, key=lambda one: abs(one - USUAL_BATCH))
    return bool(own) and all(_most_begun(cell, begun, axes) >= usual for cell in own)


def _most_begun(cell: Cell, begun: Sequence[str], axes: Axes) -> float:
    """Return how many requests run of those that the page begins with, with a draft each."""
    first = int(np.argmin(np.abs(np.array(axes.context_len) - PRESETS[0].context_len)))
    batch = min(axes.batch_size, key=lambda one: abs(one - USUAL_BATCH))
    rooms = (cell.drafting.get(kind, cell).room.ends for kind in begun)
    return min(batch, *(float(end) for held, told in rooms for end in (held[first, 1], told[1])))


@question(ExploreRequest)
def explore(request: ExploreRequest) -> Exploration:
    """Make an interactive page of models, chips, loads and drafters."""
    models = _named("models", model_names() if request.models is None else request.models, model_of)
    chips = PAGE_CHIPS if request.hardware is None else request.hardware
    hardware = _named("hardware", chips, hardware_of)
    engines = _ENGINES if request.engines is None else _engines(request.engines, hardware)
    devices = DEVICES if request.tensor_parallel is None else as_list(request.tensor_parallel)
    contexts = _points("context_len", request.context_len, _CONTEXTS)
    presets = [(one.context_len, one.output_len, one.prefix_hit_rate) for one in PRESETS]
    every = product(contexts, ANSWERS, HIT_RATES)
    is_whole = request.models is None
    axes = Axes(
        context_len=contexts,
        batch_size=_points("batch_size", request.batch_size, _BATCHES),
        workloads=tuple(one for one in every if not is_whole or one in presets),
        quantum=_COARSE_QUANTUM if is_whole else _SHARE_QUANTUM,
    )
    counts = {whole_within("tensor_parallel", count, "devices") for count in devices}
    return Exploration(
        models=models,
        hardware=hardware,
        engines=engines,
        devices=tuple(sorted(counts)),
        axes=axes,
        options=options_of(request.options),
        steady=request.steady,
        is_whole=is_whole,
    )


def _named(name: str, given: Any, load: Callable[[Any], _Named]) -> dict[str, _Named]:
    """Return the given objects by the words that a command takes for them.

    Raises
    ------
    OptionError
        For an empty list, and a thing that is given twice.
    """
    names = as_list(given)
    if not names:
        reject(f"{name} is empty", "at least one")
    return dict(zip(map(name_of, names), unique_list(name, names, load), strict=True))


def _engines(
    given: str | Sequence[str], hardware: Mapping[str, HardwareProfile]
) -> tuple[str | None, ...]:
    """Return engines to choose from, by our spelling; each is known to one of the chips.

    Raises
    ------
    OptionError
        For any other name, and one that is given twice.
    """

    def known(engine: str | None) -> str | None:
        expect("engines", engine, str | None, "names of engines")
        name, refusals = engine_name(engine), list[SpecroofError]()
        for profile in hardware.values():
            try:
                expect_runs_on("engine", name, profile)
                profile.engine(name)
            except SpecroofError as refusal:
                refusals.append(refusal)
        if len(refusals) == len(hardware):
            message = f"engines: {refusals[0]}"
            raise OptionError(message)
        return name

    return tuple(unique_list("engines", given, known))


def _points(name: str, given: Values | None, usual: tuple[float, ...]) -> tuple[float, ...]:
    """Return the points of an axis, each once, in order."""
    values = array_within(name, usual if given is None else given, name)
    return tuple(sorted({*np.atleast_1d(values).tolist()}))


# --- Acceptance in tables, and flags to paste ----------------------------------------------------

#: Temperatures to which published acceptance can be moved.
TEMPERATURES: Final = (0.0, 0.6, 1.0)
#: Depths at which an acceptance length may be stated.
LENGTH_DEPTHS: Final = (1, 2, 3, 4, 5, 7, 15)
#: Steps of a stated length for each token.
LENGTH_STEPS: Final = 10
#: Of tokens and of logarithms: a page is exact to fewer.
_DECIMALS: Final = 9
#: A page plans one draft length for any load.
_ANY_LOAD: Final = 1 << 20


#: Of an acceptance: tokens per round, and how far they may lie below and above.
_CURVES: Final = ("tokens", "below", "above")


def _curves(acceptance: Acceptance) -> Array:
    """Return `_CURVES`, axes (curve, draft length); NaN past the depth."""
    tokens = acceptance.tokens_per_round(LENGTHS)
    return np.stack([tokens, *tokens_spread(acceptance, LENGTHS)])


def _profile_json(profile: AcceptanceProfile, acceptance: Acceptance) -> dict[str, Any]:
    """Return an acceptance: name, model and kind, and its curves, None past the depth."""
    curves = [
        [round(value, _DECIMALS) if math.isfinite(value) else None for value in values]
        for values in _curves(acceptance).tolist()
    ]
    return {
        **fields_of(profile, "name", "model", "kind", "task"),
        **{name: getattr(acceptance, name, None) for name in ("rule", "temperature")},
        **dict(zip(_CURVES, curves, strict=True)),
    }


def _placed(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return acceptances with their places in `moved_tokens`, of those that it has, as `moved`."""
    places = count()
    return [{**row, "moved": None if row["temperature"] is None else next(places)} for row in rows]


def moved_tokens(acceptances: Iterable[Acceptance]) -> Array:
    """Return tokens per round at `TEMPERATURES`, and how far they may be off.

    Parameters
    ----------
    acceptances
        Those that state no temperature are left out.

    Returns
    -------
    Array
        Axes (acceptance, temperature, curve, draft length), with the curves of `_CURVES`; NaN past
        the depth of an acceptance.

    Source
        `specroof.acceptance.sampling.resampled_acceptance`.
    """
    found = [
        [_curves(resampled_acceptance(acceptance, one)) for one in TEMPERATURES]
        for acceptance in acceptances
        if getattr(acceptance, "temperature", None) is not None
    ]
    return np.reshape(found, (-1, len(TEMPERATURES), len(_CURVES), len(LENGTHS)))  # also of none


def typical_acceptance(kind: str) -> Array:
    """Return tokens per round of the typical drafter of a kind, and how far they may be off.

    Parameters
    ----------
    kind
        As a SPEC calls it.

    Returns
    -------
    Array
        Axes (stated length, curve, draft length), with the curves of `_CURVES`. For each of
        `LENGTH_DEPTHS`, one behind the other, stated lengths go from 1 to depth + 1 in steps of
        1 / `LENGTH_STEPS`.
    """
    stated = [
        (1 + step / LENGTH_STEPS, depth)
        for depth in LENGTH_DEPTHS
        for step in range(depth * LENGTH_STEPS + 1)
    ]
    return np.array([_curves(acceptance_from_length(*one, kind=kind)) for one in stated])


def flags_to_paste(kind: str, model: Architecture, rule: str = "") -> dict[str, list[str] | str]:
    """Return the flags that start each server software with a drafter of a model.

    Parameters
    ----------
    kind, model
        What drafts, as a SPEC calls it, and what is served.
    rule
        As of `Speculation`.

    Returns
    -------
    dict
        By framework the flags of each draft length from 1 on, below comments on the rule, a
        comment for a single length that is refused, or why there are none.
    """
    flags: dict[str, list[str] | str] = {}
    drafter = load_drafter(kind)
    for framework in FRAMEWORKS:
        texts, refusals = list[str](), list[str]()
        for drafts in range(1, len(LENGTHS)):
            plan = speculation_of(drafter, model, [(1, _ANY_LOAD, drafts)], None)
            try:
                usual = launch(plan, framework)
                found = launch(replace(plan, rule=rule), framework)
            except OptionError as refusal:
                refusals.append(str(refusal))
                texts.append(f"# {refusal}")
            else:
                more = [f"# {note}" for note in found.notes if note not in usual.notes]
                texts.append("\n".join([*more, *found.file_lines, found.text]))
        flags[framework] = refusals[0] if len(refusals) == len(texts) else texts
    return flags


def _flags(answer: Exploration) -> dict[str, Any]:
    """Return the flags of each kind, each text once, and which of them each model has.

    They are by the rule of an acceptance; beside those of the usual, which is empty, a rule has
    the frameworks alone whose flags differ.
    """
    rules = {getattr(profile.acceptance(), "rule", None) or "" for profile in load_profiles()}
    texts: dict[str, list[Any]] = {}
    places: dict[str, list[int]] = {}
    for kind in PRICED_KINDS:
        # All that flags depend on is the family, and the layers that the checkpoint holds.
        known: dict[tuple[str, tuple[str, ...]], int] = {}
        own, places[kind] = texts.setdefault(kind, []), []
        for model in answer.models.values():
            key = model.family, model.notes
            if key not in known:
                usual = flags_to_paste(kind, model)
                found = {"": usual}
                for rule in sorted(rules - {""}):
                    told = flags_to_paste(kind, model, rule)
                    found[rule] = {name: told[name] for name in told if told[name] != usual[name]}
                known[key] = own.index(found) if found in own else len(own)
                own += [found] * (known[key] == len(own))
            places[kind].append(known[key])
    return {"texts": texts, "of_models": places}


# --- The page as files: a file that holds everything, or a folder that loads grids on demand -----

#: What previews of links show, as wide as they are.
PREVIEW: Final = "preview.png"
_PICTURE_INCHES: Final = (8.0, 4.2)
#: Kinds whose typical shapes differ; "" stands for all others.
_SHAPED_KINDS: Final = ("", *PRICED_KINDS)


def single_page(answer: Exploration) -> str:
    """Return the page as one file that needs nothing else.

    Parameters
    ----------
    answer
        The grids of the page.
    """
    sure = _Sure()
    grids = {
        name: _packed_sections(
            {chip: answer.section(model, chip) for chip in chips}, answer.axes, sure
        )
        for name, (model, chips) in _packs(answer).items()
    }
    return document({**_tables(answer, answer.alike), "sections": grids}, is_alone=True)


def site_files(
    answer: Exploration, advance: Callable[[], None] = lambda: None
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a site by name: the grids of models on chips, a picture, and the page.

    Parameters
    ----------
    answer
        The grids of the site.
    advance
        Called after each grid.
    """
    packs = _packs(answer)
    scenes = [place for _, *place in _scenes(answer)]
    everything = [[model, chip] for model, chips in packs.values() for chip in chips]
    first, picture, sure = [*scenes, *everything][0], None, _Sure()
    grids, written = answer.alike, dict[str, int]()
    for name, (model, chips) in packs.items():
        sections = {}
        for chip in chips:
            sections[chip] = answer.section(model, chip)
            if [model, chip] == first:
                picture = _picture(sections[chip], answer.axes)
            advance()
        grid = script_json(_packed_sections(sections, answer.axes, sure))
        if answer.is_whole and (twin := written.setdefault(grid, int(name))) != int(name):
            grids = [twin if place == int(name) else place for place in grids]
            continue
        yield f"grid-{name}.js", f"specroofPage.receive({script_json(name)},{grid});\n".encode()
    if picture is not None:
        yield PREVIEW, picture
    preview = "" if picture is None else PREVIEW
    yield "index.html", document(_tables(answer, grids), is_alone=False, preview=preview).encode()


def _packs(answer: Exploration) -> dict[str, tuple[str, list[str]]]:
    """Return what is packed together by name: a model, and one chip.

    On a page of all models, whose grids are coarse, all chips: they differ by little.
    """
    models, chips = list(answer.models), list(answer.hardware)
    places = dict.fromkeys(answer.alike)
    if answer.is_whole:
        return {str(m): (models[m], chips) for m in places}
    every = product(places, enumerate(chips))
    return {f"{m}-{c}": (models[m], [chip]) for m, (c, chip) in every}


def _scenes(answer: Exploration) -> list[tuple[Scene, str, str]]:
    """Return the scenes that a page has, each with its model and its chip."""
    return [
        (scene, scene.model, word)
        for scene in SCENES
        for word, profile in answer.hardware.items()
        if scene.model in answer.models and profile.name == load_hardware(scene.chip).name
    ]


def _picture(section: Section, axes: Axes) -> bytes | None:
    """Return speedups by load of the first preset that is played on the default server, as PNG."""
    cells = (cell for (word, _), cell in section.cells.items() if word == section.default_engine)
    cell = next((cell for cell in cells if cell.played is not None), None)
    if cell is None or cell.played is None:
        return None
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    presets, clients = at_points(axes.context_len, axes.batch_size)
    named = dict(zip(PLAYED, cell.played.figures[:, 0], strict=True))
    lines = [
        plot.Line(spec, np.array(clients), *(named[name][d] for name in SPEEDUPS))
        for d, spec in enumerate(cell.played.drafters)
    ]
    title = (
        f"{title_of(cell.deployment.model, cell.deployment.setup)}\n{presets[0].name}: up to "
        f"{max(line.y.max() for line in lines):.2f}x with speculative decoding"
    )
    across = plot.Across("requests in flight", "loads")
    chart = plot.plot_lines([plot.Panel("speedup", lines, "speedup")], title, across)
    chart.set_size_inches(_PICTURE_INCHES)
    return plot.figure_bytes(chart, PREVIEW)


@cache
def _typical() -> dict[str, Any]:
    """Return the typical shapes of all kinds, and under `moved` published profiles."""
    shapes: dict[str, Any] = {
        kind: dict(
            zip(_CURVES, map(_share_grid, np.swapaxes(typical_acceptance(kind), 0, 1)), strict=True)
        )
        for kind in _SHAPED_KINDS
    }
    moved = moved_tokens(profile.acceptance() for profile in load_profiles())
    return {**shapes, "moved": _share_grid(moved)}


def _usual(models: Iterable[Architecture]) -> tuple[dict[str, Any], PageGrid]:
    """Return the acceptance that `advise` takes of each kind where a SPEC names none, and it moved.

    `rows` are as the published profiles of a page, with the band of other texts, or other models;
    `of_models` says which one a model has of a kind, `under` which one in its place on a server
    that accepts drafts in another way.
    """
    profiles = {profile.name: profile for profile in load_profiles()}
    rows: dict[str, tuple[dict[str, Any], Acceptance]] = {}

    def place(drafter: Drafter) -> int:
        acceptance = cast("Acceptance", drafter.acceptance)
        profile = profiles[drafter.name.partition("profile=")[2]]
        row = _profile_json(profile, acceptance)
        text = json.dumps(row)
        rows.setdefault(text, (row, acceptance))
        return [*rows].index(text)

    of_models: dict[str, list[int]] = {kind: [] for kind in PRICED_KINDS}
    under: dict[str, dict[int, int]] = {name: {} for name in SERVERS if known_releases(name)}
    for model, kind in product(models, PRICED_KINDS):
        drafter = usual_drafter(kind, model)
        usual = place(drafter)
        of_models[kind].append(usual)
        for server, others in under.items():
            if usual not in others and not accepts(
                server, getattr(drafter.acceptance, "rule", None)
            ):
                others[usual] = place(usual_drafter(kind, model, server))
    moved = moved_tokens(acceptance for _, acceptance in rows.values())
    placed = _placed(row for row, _ in rows.values())
    return {"rows": placed, "of_models": of_models, "under": under}, _share_grid(moved)


def _tables(answer: Exploration, grids: Sequence[int]) -> dict[str, Any]:
    """Return all data that does not depend on model and chip; `grids` are of which model."""
    known = load_profiles()
    names = [profile.name for profile in known]
    profiles = _placed(_profile_json(profile, profile.acceptance()) for profile in known)
    usual, moved_usual = _usual(answer.models.values())
    shapes = {**_typical(), "moved_usual": moved_usual}
    return {
        "models": list(answer.models),
        "grids": grids,
        "is_whole": answer.is_whole,
        "params": [[model.n_params, model.n_active_params] for model in answer.models.values()],
        "begun": [begun_kinds(model) for model in answer.models.values()],
        "accepts": {name: release(name).accepts for name in SERVERS if known_releases(name)},
        "own_profiles": [
            [
                names.index(profile.name)
                for profiles in published_with(model.name).values()
                for profile in profiles
            ]
            for model in answer.models.values()
        ],
        "published": published_speedups(
            {profile.architecture for profile in answer.hardware.values()}, PRICED_KINDS
        ),
        "scenes": [
            {"name": scene.name, "address": scene.address(chip)}
            for scene, _, chip in _scenes(answer)
        ],
        "hardware": [
            {
                "word": word,
                "name": profile.name,
                "usd_per_hour": None if profile.price is None else profile.price.usd_per_hour,
                "architecture": profile.architecture,
            }
            for word, profile in answer.hardware.items()
        ],
        "devices": list(answer.devices),
        "context_len": list(answer.axes.context_len),
        "batch_size": list(answer.axes.batch_size),
        "max_draft_len": DEFAULT_MAX_DRAFT_LEN,
        "knots": list(KNOTS),
        "widening": {"batch_size": BATCH_WIDENING, "context_len": CONTEXT_WIDENING},
        "cost_of": answer.options.cost_of,
        "options": changed_options(answer.options),
        # Read when the page has been drawn, and long: shapes, then flags and profiles.
        "packed": packed([shapes], flags=_flags(answer), profiles=profiles, usual=usual),
        "temperatures": TEMPERATURES,
        "length_depths": list(LENGTH_DEPTHS),
        "length_steps": LENGTH_STEPS,
        "assumed": ASSUMED,
        # What tells a server how many requests to run, where its default limits them.
        "running_flags": {
            name: setting_words(release(name), ServerSettings(running=1))[0][0]
            for name in USUAL_FRAMEWORKS
        },
        **preset_tables(answer.axes.context_len, answer.axes.batch_size),
        "workloads": answer.axes.workloads,
        "request_drafts": [0, *_REQUEST_DRAFTS],
        "request_shares": list(_REQUEST_SHARES),
        "request_tokens": list(_REQUEST_TOKENS),
        "request_least": _NO_SECONDS,
    }


#: `sureness` by kind as JSON, of a chip, an engine and what both are measured with.
_Sure: TypeAlias = dict[tuple[Any, ...], dict[str, str]]


def _packed_sections(sections: Mapping[str, Section], axes: Axes, sure: _Sure) -> str:
    """Return the grids of one model on some chips, packed.

    What is said of an engine on a chip is kept in `sure`: it is the same of many models.
    """
    every = [
        (engine, devices, chip, cell)
        for chip, section in sections.items()
        for (engine, devices), cell in section.cells.items()
    ]
    # Grids of one engine, then of one number of devices, stand behind one another: they are alike.
    engines = [*dict.fromkeys(engine for engine, *_ in every)]
    every.sort(key=lambda one: (engines.index(one[0]), one[1]))
    said: dict[str, int] = {}
    things = []
    for engine, devices, chip, cell in every:
        key = (chip, engine, *deployment_words(cell.deployment).values())
        if key not in sure:
            sure[key] = {
                kind: json.dumps(sureness(cell.deployment, cell.evidence, kind)) for kind in _KINDS
            }
        things.append(
            {
                "engine": engine,
                "devices": devices,
                "chip": chip,
                "sure": {kind: said.setdefault(one, len(said)) for kind, one in sure[key].items()},
                **_cell_json(cell, axes),
            }
        )
    return packed(
        things,
        chips={
            chip: fields_of(section, "default_engine", "refusals")
            for chip, section in sections.items()
        },
        sure=[json.loads(one) for one in said],
    )


def _reserved_tokens(facts: Release) -> int:
    """Return the tokens of an answer still to come that a server keeps free, at most."""
    if not facts.reserves or facts.reserves_shares:
        return 0
    return facts.reserved_tokens or int(BOUNDS["request_len"].most)


def _cell_json(cell: Cell, axes: Axes) -> dict[str, Any]:
    scale_s, setup = _scale_s(cell), cell.deployment.setup
    contexts = np.array(axes.context_len)[:, None]
    widths = {
        figure: served_width(cell.evidence.served_bands, figure, axes.batch_size, contexts)
        for figure in ("ttft_s", "tpot_s")
    }
    rules = list(cell.requests)
    return {
        "engine_round_s": cell.engine_round_s,
        "scale_s": scale_s.ravel().tolist(),
        "verify": _share_grid(cell.verify_s / scale_s, axes.quantum),
        "parts": {
            name: PageGrid(seconds / scale_s, max(_PART_QUANTUM, 100 * axes.quantum), (0, 0, 1))
            for name, seconds in cell.parts_s.items()
        },
        "framework": setup.engine.rules,
        "reserved_tokens": _reserved_tokens(setup.release),
        "fitted": setup.engine.name != GENERIC,
        **_room_json(cell.room),
        "latency_s": setup.engine.request_latency_s,
        "requests": [_requests_json(cell.requests[rule], axes) for rule in rules],
        "rules": {kind: rules.index(rule) for kind, rule in cell.rules.items()},
        # 0 where no band is known.
        "widths": {
            figure: None
            if width is None
            else PageGrid(np.nan_to_num(width), _WIDTH_QUANTUM, (0, 1))
            for figure, width in widths.items()
        },
        "bands": {
            kind: fields_of(band, "width", "batch_size", "context_len")
            for kind in _KINDS
            if (band := cell.evidence.band(kind)) is not None
        },
        "drafting": {
            kind: _drafting_json(cell, drafting, axes.quantum)
            for kind, drafting in cell.drafting.items()
        },
        "played": None if cell.played is None else cell.played.grids,
    }


def _share_grid(shares: Array, quantum: float = _SHARE_QUANTUM) -> PageGrid:
    """Return shares of a plain step, which change smoothly with the draft length; NaN becomes 0."""
    return PageGrid(np.nan_to_num(shares), quantum, (1, *[0] * (shares.ndim - 2), 2))


def _room_json(room: Room) -> dict[str, Any]:
    """Return what memory and settings allow, batches of a context behind one another.

    -1 stands for no end.
    """

    def ends(*pair: Array) -> dict[str, PageGrid]:
        rows = (np.where(np.isfinite(end), end, -1.0) for end in pair)
        grids = (PageGrid(one.reshape(-1, len(LENGTHS)), 1.0, (0, 1)) for one in rows)
        return dict(zip(("memory", "setting"), grids, strict=True))

    raised = None if room.raised is None else ends(*room.raised)
    return {"largest": ends(*room.ends), "bound_by": room.bound_by, "raised": raised}


def _scale_s(cell: Cell) -> np.ndarray:
    """Return the unit of packed seconds: for each batch size the shortest plain step."""
    shortest = cell.verify_s[..., 0].min(axis=0).tolist()
    units = [float(f"{seconds:.2g}") for seconds in shortest]  # any unit near it will do
    return np.array(units)[:, None]


def _requests_json(grid: Mapping[str, Array], axes: Axes) -> dict[str, PageGrid]:
    """Return logarithms with the sign of their values, axes (workload, batch, draft length, share).

    One draft length is left out: axes (workload, batch, tokens per round).
    """
    found = {}
    for name, values in grid.items():
        known = np.nan_to_num(values)
        logs = np.sign(known) * np.log(np.maximum(np.abs(known), _NO_SECONDS) / _NO_SECONDS)
        *_, batches, drafts, shares = values.shape
        sides = (drafts, shares) if drafts > 1 else (shares,)
        rows = logs.reshape(-1, batches, *sides)
        quantum = _REQUEST_QUANTA[name] * (2 if axes.quantum == _COARSE_QUANTUM else 1)
        found[name] = PageGrid(rows, quantum, (*[0] * (rows.ndim - 2), 1, 1))
    return found


def _drafting_json(cell: Cell, drafting: PageDrafting, quantum: float) -> dict[str, Any]:
    scale_s = _scale_s(cell)
    common = {
        "depth": drafting.depth,
        **_room_json(drafting.room),
        "engine_round_s": drafting.engine_round_s,
        "read_s": [[float(f"{one:.4g}") for one in row] for row in drafting.read_s.tolist()],
    }
    share = drafting.draft_s[..., 1:] / cell.verify_s[..., 1:]
    if np.ptp(share) < quantum * share.flat[0] and not drafting.more_s.any():
        return {**common, "share": float(share.flat[0])}
    return {
        **common,
        "draft": PageGrid(
            np.nan_to_num(drafting.draft_s / cell.verify_s[..., :1]), quantum, (0, 0, 2)
        ),
        "more": _share_grid(drafting.more_s / scale_s, quantum),
    }


COMMAND: Final = Command(
    question=explore,
    about="It needs no server and no network: open it from disk, send it, or put it on any web "
    "server.\nThe address of the page holds its settings.",
    options=("cost_of", *p.FORMULAS),
    csv=False,
    prints=False,
    output=Output(
        about="One file that holds everything, or a folder whose page loads grids as it needs "
        "them.",
        metavar="FILE.html|DIR",
        content=single_page,
        required=True,
        suffixes=(".html", ".htm"),
        folder=site_files,
        steps=lambda answer: len({*answer.alike}) * len(answer.hardware),
        step="grids",
    ),
    example="specroof explore Qwen/Qwen3-8B deepseek-ai/DeepSeek-V4-Pro -H b200,h100 -o page.html",
)
