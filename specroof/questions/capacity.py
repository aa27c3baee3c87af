"""How many requests does a server run at once, with and without speculation?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

import numpy as np

from specroof import quantities as q
from specroof.acceptance import accepted_at, constant_acceptance
from specroof.architecture.model import Architecture
from specroof.arrays import number_within, whole_within
from specroof.drafters import Drafter
from specroof.drafters.kinds import KINDS
from specroof.errors import refuse
from specroof.frameworks import FRAMEWORKS, IDEAL, LOCAL_FRAMEWORKS, STAND_IN
from specroof.hardware.engine import EngineProfile
from specroof.latency.model import position_notes
from specroof.latency.setup import Deployment, check_placement
from specroof.outcomes.case import Case
from specroof.quantities import cell_of, records_of
from specroof.questions import parameters as p
from specroof.questions.answer import Charted, ServedAnswer
from specroof.questions.objects import DrafterLike, hardware_of
from specroof.questions.request import Command, DeploymentRequest, WorkerRequest, question
from specroof.questions.splits import split_name
from specroof.report.layout import format_table
from specroof.serving.capacity import ServedRoom, served_room
from specroof.serving.workload import Load
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN
from specroof.units import GIBIBYTE, format_binary_bytes, plain_number

#: Drafts of a drafter that makes any number, if not given: as many as the default
#: shape of SGLang's EAGLE family.
USUAL_DRAFTS: Final = 3
#: Default rate that trees are shaped by.
USUAL_RATE: Final = 0.8
#: Drafts beyond all blocks.
LARGEST_DRAFT_LEN: Final = 1024


@dataclass(frozen=True, kw_only=True)
class CapacityRequest(WorkerRequest):
    """Ask how many requests a server runs at once.

    Examples
    --------
    >>> from specroof import capacity
    >>> found = capacity("Qwen/Qwen3-8B", "h100", context_len=8192, drafters="eagle3")
    >>> [row.largest_batch for row in found.rows]
    [44, 42]
    """

    context_len: Annotated[
        float, p.like(p.ContextLen, about="Cached tokens of each request: its prompt and answer.")
    ] = 4096
    drafters: Annotated[
        DrafterLike | Sequence[DrafterLike],
        p.like(
            p.Drafters,
            about="Drafters, each KIND[,key=value…]; left out for plain decoding alone. Needs no "
            f"acceptance. Kinds: {', '.join(KINDS)}.",
            in_python="",
            shown="none",
        ),
    ] = ()
    draft_len: Annotated[int | None, p.like(p.DraftLen, shown="the drafter's block, or 3")] = None

    def resolved(self) -> Deployment:
        """Return the model and its setup; a server needs no measured engine to have rules."""
        profile = hardware_of(self.hardware)
        if self.engine_from is not None:
            return DeploymentRequest.resolved(self)
        name = self.engine_on(profile)[1] or profile.default_engine or STAND_IN
        servers = {*FRAMEWORKS, *LOCAL_FRAMEWORKS, IDEAL.framework}
        if name in servers and name not in profile.engines:
            engines = {**profile.engines, name: EngineProfile(name=name)}
            profile = replace(profile, engines=engines)
        return DeploymentRequest.resolved(replace(self, hardware=profile, engine=name))


@dataclass(frozen=True, kw_only=True)
class CapacityRow(q.Row):
    """The memory of a device with one drafter, or without, and what it holds.

    `drafter` is None for plain decoding, and `largest_batch` 0 where not one request fits. Limits
    are those of one group of devices. `worker` and `workers` are known where prefill has workers of
    its own.

    Parameters
    ----------
    served
        The room, and what it was computed from.
    """

    worker: str | None = None
    workers: int | None = None
    drafter: str | None
    draft_len: int
    largest_batch: int
    bound_by: str
    memory_bytes: float
    reserved_bytes: float
    weight_bytes: float
    vision_weight_bytes: float | None = None
    draft_weight_bytes: float | None = None
    state_pool_bytes: float | None = None
    cache_pool_bytes: float
    cache_per_request_bytes: float
    state_per_request_bytes: float | None = None
    short_bytes: float
    cache_limit: float
    state_limit: float | None = None
    windows_limit: float | None = None
    prompts_limit: float | None = None
    drafted_tokens_limit: float | None = None
    running_limit: float
    served: Annotated[ServedRoom, q.NO_COLUMN] = field(repr=False)


@dataclass(frozen=True, repr=False, eq=False)
class Capacity(ServedAnswer, Charted):
    """How many requests a server runs at once.

    Attributes
    ----------
    about
        What was asked about.
    rows
        Plain decoding, then each drafter; last a prefill worker, where these are others. The rest
        are those of a decode worker then.
    notes, warnings
        Sentences for the reader.
    """

    rows: tuple[CapacityRow, ...]

    @property
    def context_len(self) -> float:
        """Cached tokens of each request."""
        return float(self.about.load.context_len[0])

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        place = split_name(self.setup, self.split)
        server = self.rows[0].served.server
        rules = f"{server.framework} {server.version}".strip()
        return f"{self.model.name} on {place}, context {plain_number(self.context_len)}, rules of {rules}"

    def text(self) -> str:
        """Return the memory line by line, a column for each drafter, and the largest batch."""
        records, known = records_of(self.rows), CapacityRow.quantities()
        lines = [
            [sign + known[name].title, *(cell_of(known[name], one[name]) for one in records)]
            for name, sign in _SIGNS.items()
            if name in records[0]
        ]
        if self.split is not None:
            most = [str((row.workers or 1) * row.largest_batch) for row in self.rows]
            lines.append(["- over all workers", *most])
        lines.append([q.BOUND_BY.title, *(row.bound_by for row in self.rows)])
        drafters = [f"{_short(row)}: {row.drafter}" for row in self.rows if row.drafter]
        table = format_table(["", *map(_short, self.rows)], lines)
        largest = (f"{row.largest_batch} ({_short(row)})" for row in self.rows)
        found = f"requests at once: {', '.join(largest)}"
        return self.as_page(table, found=[found], more=["\n".join(drafters)])

    def figures(self) -> dict[str, Any]:
        """Return what fills a device, plain and with each drafter, and the most requests beside."""
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        fills = [name for name, sign in _SIGNS.items() if sign]  # from the left
        bars, fitting = [], []
        for row in self.rows:
            if row.worker == "prefill":
                continue
            sizes = {name: getattr(row, name) for name in fills if getattr(row, name) is not None}
            # What does not fit leaves a pool of less than nothing.
            parts = {name: max(size, 0.0) / GIBIBYTE for name, size in sizes.items()}
            name = f"{row.drafter}, γ = {row.draft_len}" if row.drafter else "plain"
            bars.append(plot.Bar(name, parts, f"{row.largest_batch}, limited by {row.bound_by}"))
            what = f"with {row.drafter}" if row.drafter else "without drafts"
            fitting.append(f"{row.largest_batch} {what}")
        title = f"{self.title}\nRequests that fit: {', '.join(fitting)}"
        titles = {name: plot.Fill(q.QUANTITIES[name].title) for name in fills}
        limit = self.rows[0].memory_bytes / GIBIBYTE, q.MEMORY_BYTES.title
        return {"": plot.plot_bars(bars, titles, title, "Memory of a device (GiB)", limit=limit)}

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        resolved = replace(self.setup, server=self.rows[0].served.server)
        about = self.about.at(deployment=Deployment(self.model, resolved))
        return self.envelope(replace(self, about=about).served_json(context_len=self.context_len))


#: Parameters of other questions that change no memory.
_CHANGES_NOTHING: Final = {
    "link": "caches take the same memory over any link",
    "temperature": "requests take the same memory at any temperature",
    "rule": "drafts take the same memory however they are accepted",
}


@question(CapacityRequest)
def capacity(request: CapacityRequest) -> Capacity:
    """Show the memory of a server line by line, and the largest batch that it runs."""
    context = number_within("context_len", request.context_len, "context_len")
    for name, told in _CHANGES_NOTHING.items():
        if getattr(request, name) is not None:
            refuse(name, getattr(request, name), f"none: {told}")
    deployment, split = request.resolved_workers()
    model, setup = deployment.model, deployment.setup
    check_placement(model, setup.placement)
    drafters, left_out = request.without_unserved(request.sampled_drafters(request.drafters))
    if request.draft_len is not None and not drafters:
        refuse("draft_len", request.draft_len, "with a drafter")
    rows = [_row(served_room(deployment, context_len=context))]
    rows += [_drafting_row(deployment, drafter, request) for drafter in drafters]
    notes = [note for row in rows for note in row.served.notes]
    warnings = [*left_out]
    for row in rows:
        if row.largest_batch == 0:
            with_it = "" if row.drafter is None else f" with {row.drafter}"
            short = format_binary_bytes(row.short_bytes)
            warnings.append(
                f"not one request fits{with_it}: at least {short} more would be needed on each "
                f"device"
            )
    if split is not None:
        split = replace(split, link_bytes_per_s=math.inf)  # any link, which no file need state
        rows = [replace(row, worker="decode", workers=split.decode_workers) for row in rows]
        room = served_room(Deployment(model, split.prefill), context_len=context)
        rows.append(_row(room, worker="prefill", workers=split.prefill_workers))
    groups = setup.placement.attention_data_parallel
    if groups > 1:
        told = f"{groups} groups of devices serve separate requests"
        notes.insert(0, f"{told}: most requests counts all of them")
    notes += position_notes(model, context)
    return Capacity(
        Case(deployment, Load([1.0], [context]), split=split),
        tuple(rows),
        notes=tuple(dict.fromkeys(notes)),
        warnings=tuple(warnings),
    )


def _row(served: ServedRoom, **known: Any) -> CapacityRow:
    """Return the lines of a room; those that are nothing here are left out."""
    need, room = served.need, served.room
    limits: dict[str, Any] = {n: max(float(most), 0.0) for n, most in room.limits.items()}
    return CapacityRow(
        **{"drafter": None, "draft_len": 0} | known,
        largest_batch=int(served.largest_batch),
        bound_by=str(room.bound_by),
        memory_bytes=room.memory_bytes,
        reserved_bytes=float(np.asarray(room.reserved_bytes)),
        weight_bytes=need.target.weight_bytes,
        vision_weight_bytes=need.vision_bytes or None,
        draft_weight_bytes=None if need.draft is None else need.draft.weight_bytes or None,
        state_pool_bytes=float(room.state_pool_bytes) or None,
        cache_pool_bytes=float(room.cache_pool_bytes),
        cache_per_request_bytes=float(room.cache_bytes),
        state_per_request_bytes=float(room.state_bytes) or None,
        short_bytes=float(room.short_bytes),
        **{f"{name.replace(' ', '_')}_limit": most for name, most in limits.items()},
        served=served,
    )


def _drafting_row(
    deployment: Deployment, drafter: Drafter, request: CapacityRequest
) -> CapacityRow:
    model = deployment.model
    drafter.describe(model)  # refuses a model that the drafter does not fit
    drafts = usual_drafts(drafter, model, request.draft_len)
    # The shape of a tree needs some acceptance; its size is what counts here.
    known = accepted_at(drafter.acceptance, request.context_len)
    if known is None or known.max_draft_len == 0:
        known = constant_acceptance(USUAL_RATE)
    proposed = drafter.propose(known, np.array([drafts])).verify_len[0]
    served = served_room(
        deployment,
        context_len=request.context_len,
        drafter=drafter,
        verify_len=max(float(proposed), drafts + 1.0),
    )
    return _row(served, drafter=drafter.name, draft_len=drafts)


def usual_drafts(drafter: Drafter, model: Architecture, asked: int | None) -> int:
    """Return the drafts of a round: as asked for, as many as a block has, or the usual ones.

    Raises
    ------
    OptionError
        For more drafts than the drafter makes, or none.
    """
    deepest, head = drafter.max_draft_len, drafter.held(model).head
    if asked is None:
        return min((head and head.drafts) or USUAL_DRAFTS, deepest or LARGEST_DRAFT_LEN)
    drafts = whole_within("draft_len", asked, "draft_len")
    if drafts < 1 or (deepest is not None and drafts > deepest):
        most = "" if deepest is None else f" to {deepest}, the depth of {drafter.name!r}"
        refuse("draft_len", asked, f"a whole number from 1{most}")
    return drafts


def measured_drafts(drafter: Drafter, model: Architecture, asked: int | None) -> int:
    """Return the drafts that acceptance lengths are measured with.

    As asked for, as the drafter's own acceptance was measured, or all that it makes, 16 at most.

    Raises
    ------
    OptionError
        As `usual_drafts` does.
    """
    if asked is not None:
        return usual_drafts(drafter, model, asked)
    measured = getattr(drafter.acceptance, "measured_depth", None)
    most = min(drafter.max_draft_len or DEFAULT_MAX_DRAFT_LEN, DEFAULT_MAX_DRAFT_LEN)
    return measured or most


# --- The room of a server, line by line ----------------------------------------------------------

#: The lines of the table, and which of them are taken from those above, or left.
_SIGNS: Final = {
    "memory_bytes": "",
    "reserved_bytes": "- ",
    "weight_bytes": "- ",
    "vision_weight_bytes": "- ",
    "draft_weight_bytes": "- ",
    "state_pool_bytes": "- ",
    "cache_pool_bytes": "= ",
    "cache_per_request_bytes": "",
    "state_per_request_bytes": "",
    "largest_batch": "",
}


def _short(row: CapacityRow) -> str:
    """Return the kind of a drafter, and its drafts."""
    if row.worker == "prefill":
        return "a prefill worker"
    return "plain" if row.drafter is None else f"{row.drafter.partition(',')[0]} γ={row.draft_len}"


COMMAND: Final = Command(
    question=capacity,
    options=(*p.FORMATS, "recurrent_state"),
    chart="Draw the memory of a device, line by line.",
    example="specroof capacity Qwen/Qwen3.5-9B -H l40s --engine sglang --context 8192\n"
    "--drafter mtp --server prefix-cache=off",
)
