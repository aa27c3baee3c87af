"""How many requests does a server run at once, with and without speculation?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np

from specroof.acceptance import accepted_at, constant_acceptance
from specroof.architecture import Architecture
from specroof.arrays import fields_of, number_within, whole_within
from specroof.drafters import Drafter
from specroof.drafters.kinds import KINDS
from specroof.errors import refuse
from specroof.hardware import EngineProfile
from specroof.latency import Deployment, Setup, check_placement
from specroof.questions.answer import Charted, place_of
from specroof.questions.request import (
    FORMATS,
    Command,
    DeploymentRequest,
    DrafterLike,
    Parameter,
    WorkerRequest,
    drafters_of,
    engine_name,
    hardware_of,
    question,
)
from specroof.report.layout import format_table, page
from specroof.serving.capacity import FRAMEWORKS, ServedRoom, served_room
from specroof.units import GIBIBYTE, format_binary_bytes

if TYPE_CHECKING:
    from specroof.serving.split import Split

#: Drafts of a drafter that makes any number, if not given: as many as the default
#: shape of SGLang's EAGLE family.
USUAL_DRAFTS: Final = 3
#: Default rate that trees are shaped by.
USUAL_RATE: Final = 0.8
#: Drafts beyond all blocks.
LARGEST_DRAFT_LEN: Final = 1024
#: Whose rules stand in where neither the user nor the chip's profile names a server.
STAND_IN: Final = "vllm"


@dataclass(frozen=True, kw_only=True)
class CapacityRequest(WorkerRequest):
    """Ask how many requests a server runs at once.

    Examples
    --------
    >>> from specroof import capacity
    >>> found = capacity("Qwen/Qwen3-8B", "h100", context_len=8192, drafters="eagle3")
    >>> [side.largest_batch for side in found.sides]
    [44, 42]
    """

    context_len: Annotated[
        float,
        Parameter("Cached tokens of each request: its prompt and answer.", "--context"),
    ] = 4096
    drafters: Annotated[
        DrafterLike | Sequence[DrafterLike],
        Parameter(
            "Drafters, each KIND[,key=value…]; none for plain decoding alone. Needs no acceptance. "
            f"Kinds: {', '.join(KINDS)}.",
            "--drafter",
            metavar="SPEC",
            names=lambda: KINDS,
            kind=list[str],
        ),
    ] = ()
    draft_len: Annotated[
        int | None, Parameter("Drafts per round.", shown="the drafter's block, or 3")
    ] = None

    def resolved(self) -> Deployment:
        """Return the model and its setup; a server needs no measured engine to have rules."""
        profile = hardware_of(self.hardware)
        if self.engine_from is not None:
            return DeploymentRequest.resolved(self)
        name = engine_name(self.engine) or profile.default_engine or STAND_IN
        if name not in profile.engines and name in FRAMEWORKS:
            engines = {**profile.engines, name: EngineProfile(name=name)}
            profile = replace(profile, engines=engines)
        return DeploymentRequest.resolved(replace(self, hardware=profile, engine=name))


@dataclass(frozen=True, slots=True)
class Side:
    """The room with one drafter, or without.

    Parameters
    ----------
    drafter
        Its name; None for plain decoding.
    draft_len
        Drafts per round; 0 for plain decoding.
    served
        The room, and what it was computed from.
    """

    drafter: str | None
    draft_len: int
    served: ServedRoom

    @property
    def largest_batch(self) -> int:
        """The most requests at once; 0 where not one fits."""
        return int(self.served.largest_batch)

    @property
    def bound_by(self) -> str:
        """What limits them."""
        return str(self.served.room.bound_by)

    @property
    def lines(self) -> dict[str, float]:
        """The memory of each device, line by line, in bytes."""
        need, room = self.served.need, self.served.room
        draft = 0.0 if need.draft is None else need.draft.weight_bytes
        lines = {
            "memory": room.memory_bytes,
            "reserved": float(np.asarray(room.reserved_bytes)),
            "weights": need.target.weight_bytes,
            "vision_weights": need.vision_bytes,
            "draft_weights": draft,
            "state_pool": float(room.state_pool_bytes),
            "cache_pool": float(room.cache_pool_bytes),
            "cache_per_request": float(room.cache_bytes),
            "state_per_request": float(room.state_bytes),
        }
        optional = ("vision_weights", "draft_weights", "state_pool", "state_per_request")
        return {name: value for name, value in lines.items() if value or name not in optional}

    def to_dict(self) -> dict[str, Any]:
        """Return the side as JSON has it."""
        limits = {name: float(most) for name, most in self.served.room.limits.items()}
        return {
            **fields_of(self, "drafter", "draft_len", "largest_batch", "bound_by"),
            "limits": {
                name: None if most == float("inf") else max(most, 0.0)
                for name, most in limits.items()
            },
            "short_bytes": float(self.served.room.short_bytes),
            "bytes": self.lines,
            "server": self.served.server.to_dict(),
        }


@dataclass(frozen=True, repr=False, eq=False)
class Capacity(Charted):
    """How many requests a server runs at once.

    Attributes
    ----------
    model, setup, context_len
        What was asked about.
    sides
        Plain decoding, then each drafter.
    prefill
        A prefill worker, where these are others; the sides are then those of a decode worker.
    split
        All workers; None where one server does both.
    notes, warnings
        Sentences for the reader.
    """

    model: Architecture
    setup: Setup
    context_len: float
    sides: tuple[Side, ...]
    prefill: Side | None = None
    split: "Split | None" = None

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        devices = self.setup.placement.devices
        server = self.sides[0].served.server
        rules = f"{server.framework} {server.version}".strip()
        return (
            f"{self.model.name} on {devices} x {self.setup.hardware.name}, context "
            f"{self.context_len:g}, rules of {rules}{', each decode worker' * (self.split is not None)}"
        )

    def text(self) -> str:
        """Return the memory line by line, a column for each drafter, and the largest batch."""
        return capacity_text(self)

    def figures(self) -> dict[str, Any]:
        """Return the chart of the memory of a device."""
        return {"": capacity_chart(self)}

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for plain decoding and one for each drafter; sizes in bytes, None where absent."""
        sizes = [{f"{name}_bytes": one for name, one in side.lines.items()} for side in self.sides]
        absent = {name: None for one in sizes for name in one}
        names = ("drafter", "draft_len", "largest_batch", "bound_by")
        pairs = zip(self.sides, sizes, strict=True)
        return [fields_of(side, *names) | absent | one for side, one in pairs]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return {
            **place_of(self.model, self.setup),
            "context_len": self.context_len,
            "server": self.sides[0].served.server.to_dict(),
            "plain": self.sides[0].to_dict(),
            "drafters": [side.to_dict() for side in self.sides[1:]],
            **self._split_dict(),
            **self.messages,
        }

    def _split_dict(self) -> dict[str, Any]:
        if self.split is None or self.prefill is None:
            return {}
        from specroof.questions.splits import split_json  # noqa: PLC0415 - asked for seldom

        workers = split_json(self.setup, self.split)
        workers["prefill"] |= {"capacity": self.prefill.to_dict()}
        return {"split": workers}


@question(CapacityRequest)
def capacity(request: CapacityRequest) -> Capacity:
    """Show the memory of a server line by line, and the largest batch that it runs."""
    context = number_within("context_len", request.context_len, "context_len")
    if request.link is not None:
        refuse("link", request.link, "none: caches take the same memory over any link")
    deployment, split = request.resolved_workers()
    model, setup = deployment.model, deployment.setup
    check_placement(model, setup.placement)
    drafters = drafters_of(request.drafters)
    if request.draft_len is not None and not drafters:
        refuse("draft_len", request.draft_len, "with a drafter")
    sides = [Side(None, 0, served_room(deployment, context_len=context))]
    sides += [_side(deployment, drafter, request) for drafter in drafters]
    prefill = None
    if split is not None:
        room = served_room(Deployment(model, split.prefill), context_len=context)
        prefill = Side(None, 0, room)
    notes = dict.fromkeys(note for side in sides for note in side.served.notes)
    groups = setup.placement.attention_data_parallel
    if groups > 1:
        told = (
            f"{groups} groups of devices serve separate requests: most requests counts all of them"
        )
        notes = {told: None} | notes
    warnings = [_warning(side) for side in sides if side.largest_batch == 0]
    return Capacity(
        *(model, setup, context, tuple(sides), prefill, split),
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _side(deployment: Deployment, drafter: Drafter, request: CapacityRequest) -> Side:
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
    return Side(drafter.name, drafts, served)


def usual_drafts(drafter: Drafter, model: Architecture, asked: int | None) -> int:
    """Return the drafts of a round: as asked for, as many as a block has, or the usual ones.

    Raises
    ------
    OptionError
        For more drafts than the drafter makes, or none.
    """
    deepest = drafter.max_draft_len
    if asked is None:
        head = drafter.held(model).head
        block = None if head is None else head.drafts
        return min(block or USUAL_DRAFTS, deepest or LARGEST_DRAFT_LEN)
    drafts = whole_within("draft_len", asked, "draft_len")
    if drafts < 1 or (deepest is not None and drafts > deepest):
        most = "" if deepest is None else f" to {deepest}, the depth of {drafter.name!r}"
        refuse("draft_len", asked, f"a whole number from 1{most}")
    return drafts


def _warning(side: Side) -> str:
    """Return by how much a batch of one does not fit."""
    short = format_binary_bytes(float(side.served.room.short_bytes))
    with_it = "" if side.drafter is None else f" with {side.drafter}"
    return f"not one request fits{with_it}: {short} more would be needed on each device"


# --- The room of a server, line by line ----------------------------------------------------------

#: What people read of each line, in the order of the table.
_LINES: Final = {
    "memory": "memory of a device",
    "reserved": "- kept away: activations, graphs, the rest",
    "weights": "- weights",
    "vision_weights": "- weights of the vision tower",
    "draft_weights": "- weights of the drafter",
    "state_pool": "- pool of recurrent state",
    "cache_pool": "= pool of the cache",
    "cache_per_request": "cache of one request",
    "state_per_request": "recurrent state of one request",
}


def capacity_text(found: Capacity) -> str:
    """Return the memory line by line, a column for each drafter, and the largest batch."""
    sides = [*found.sides, *([found.prefill] if found.prefill else [])]
    names = ["plain", *map(_short, found.sides[1:]), *["a prefill worker"] * bool(found.prefill)]
    lines = [side.lines for side in sides]
    rows = [
        [text, *("-" if key not in column else _amount(column[key]) for column in lines)]
        for key, text in _LINES.items()
        if any(key in column for column in lines)
    ]
    rows.append(["most requests", *(str(side.largest_batch) for side in sides)])
    if found.split is not None:
        workers = [*[found.split.decode_workers] * len(found.sides), found.split.prefill_workers]
        most = [str(count * side.largest_batch) for count, side in zip(workers, sides, strict=True)]
        rows.append(["- over all workers", *most])
    rows.append(["limited by", *(side.bound_by for side in sides)])
    table = format_table(["", *names], rows)
    drafters = [f"{_short(side)}: {side.drafter}" for side in found.sides[1:]]
    return page(found, table, "\n".join(drafters))


def _short(side: Side) -> str:
    """Return the kind of a drafter, and its drafts."""
    return f"{(side.drafter or '').partition(',')[0]} γ={side.draft_len}"


def _amount(value: float) -> str:
    return f"-{format_binary_bytes(-value)}" if value < 0 else format_binary_bytes(value)


# --- The chart ------------------------------------------------------------------------------------

#: What fills a device, from the left: its name, and the number of its color; None is grey.
_FILLS: Final = {
    "reserved": ("kept away", None),
    "weights": ("weights", 0),
    "vision_weights": ("vision tower", 3),
    "draft_weights": ("drafter", 1),
    "state_pool": ("recurrent state", 4),
    "cache_pool": ("cache", 2),
}


def capacity_chart(found: Capacity) -> Any:
    """Draw what fills a device, plain and with each drafter, and the most requests beside it."""
    from specroof.plot import style  # noqa: PLC0415 - matplotlib is slow to import

    with style.house_style():
        fills = {
            name: (text, style.GREY if number is None else style.COLORS[number])
            for name, (text, number) in _FILLS.items()
        }
        sides = found.sides
        chart = style.new_chart(found.title, width=8, height=1.4 + 0.5 * len(sides))
        axes = chart.add_subplot()
        axes.grid(visible=False, axis="y")
        for row, side in enumerate(sides):
            left = 0.0
            for name, (_, color) in fills.items():
                # What does not fit leaves a pool of less than nothing.
                width = max(side.lines.get(name, 0.0), 0.0) / GIBIBYTE
                axes.barh(
                    row, width, left=left, color=color, edgecolor=style.INK, lw=0.6, height=0.7
                )
                left += width
            axes.annotate(
                f"{side.largest_batch} requests ({side.bound_by})",
                (left, row),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
            )
        axes.axvline(sides[0].lines["memory"] / GIBIBYTE, color=style.INK, ls="--", lw=1.0)
        axes.set_xlim(0, 1.3 * max(bar.get_x() + bar.get_width() for bar in axes.patches))  # type: ignore[attr-defined]  # bars are rectangles
        names = ["plain", *(f"{side.drafter}, γ = {side.draft_len}" for side in sides[1:])]
        axes.set_yticks(range(len(sides)), names)
        axes.set_ylim(len(sides) - 0.4, -0.6)
        axes.set_xlabel("Memory of a device (GiB)")
        shown = {name for side in sides for name in side.lines}
        style.add_legend(
            chart,
            [style.color_key(c, text) for name, (text, c) in fills.items() if name in shown],
        )
        return chart


COMMAND: Final = Command(
    question=capacity,
    options=(*FORMATS, "recurrent_state"),
    chart="Draw the memory of a device, line by line.",
    example="specroof capacity Qwen/Qwen3.5-9B -H l40s --engine sglang --context 8192\n"
    "--drafter mtp --server prefix-cache=off",
)
