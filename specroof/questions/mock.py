"""Which commands measure a predicted point on a real engine, without trained weights?"""

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from specroof.architecture import Architecture
from specroof.arrays import fields_of, whole_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, expect
from specroof.hardware import HardwareProfile, Placement
from specroof.latency import Deployment, Setup, engine_setup
from specroof.policies.decision import least_settled, swings
from specroof.questions.advised_loads import Asked, Row
from specroof.questions.answer import Noted
from specroof.questions.benchmark import engine_of_tool
from specroof.questions.request import (
    DrafterLike,
    HardwareLike,
    OptionsLike,
    drafter_of,
    hardware_of,
    model_of,
    options_of,
    question,
)
from specroof.serving.benchmark_commands import FORCED, FRAMEWORKS, MockPoint, mock_commands
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.launch import CACHES, DRAFT_MODEL, MADE_WEIGHTS, YOUR_DRAFT_MODEL
from specroof.serving.requests import end_to_end
from specroof.serving.served import served_curve
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import acceptance_of, longest_draft
from specroof.speedup.result import SpeedupCurve


@dataclass(frozen=True)
class MockRequest:
    """Ask how to measure a predicted point.

    Parameters
    ----------
    model
        A path, a bundled name or a Hub name: the commands repeat it.
    hardware
        A path, a name, an alias, or a `HardwareProfile`.
    drafter
        What drafts and how much of it is accepted: a SPEC, or a `Drafter`.
    draft_len
        Drafts per round.
    draft_model
        A Hub name or folder with the drafter's config; None for mtp.
    framework
        The server whose commands are wanted.
    concurrency, input_len, output_len
        Requests in flight, and tokens of each prompt and answer.
    tensor_parallel
        Devices.
    engine
        An engine of the hardware profile. If None, the engine of the framework.
    options
        `Options`, or a mapping of their names.
    family
        Read the config as this model_type.
    """

    model: str | os.PathLike[str]
    hardware: HardwareLike
    _: KW_ONLY
    drafter: DrafterLike
    draft_len: int
    draft_model: str | None = None
    framework: str = "sglang"
    concurrency: int = 1
    input_len: int = 1024
    output_len: int = 1024
    tensor_parallel: int = 1
    engine: str | None = None
    options: OptionsLike | None = None
    family: str | None = None


@dataclass(frozen=True, repr=False, eq=False)
class Mock(Noted):
    """How to measure a predicted point.

    Attributes
    ----------
    commands
        Pairs of a title and a command.
    curve, counted
        What is predicted: decoding alone, and with prefills counted as the benchmark counts them.
    notes, warnings
        Sentences for the reader.
    """

    commands: tuple[tuple[str, str], ...]
    curve: SpeedupCurve
    counted: EndToEnd

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        curve = self.curve
        return (
            f"{curve.drafter} with {curve.draft_len[-1]} drafts, {curve.model} on {curve.hardware}"
        )

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each command."""
        return [{"title": title, "command": command} for title, command in self.commands]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return {
            "commands": self.records,
            "predicted": {
                "speedup": float(self.curve.speedup[0, 0, -1]),
                "engine": self.curve.engine,
                "end_to_end": {
                    "speedup": float(self.counted.speedup[0, 0, -1]),
                    "baseline_tokens_per_s": float(self.counted.tokens_per_s[0, 0, 0]),
                    "tokens_per_s": float(self.counted.tokens_per_s[0, 0, -1]),
                },
            },
            "notes": list(self.notes),
        }


@question(MockRequest)
def mock(request: MockRequest) -> Mock:
    """Return the commands that measure a predicted point without trained weights."""
    _check(request)
    drafter = drafter_of(request.drafter)
    if drafter.acceptance is None:
        message = f"drafter {drafter.name!r} has no acceptance to force; give one, as in accept=0.8"
        raise OptionError(message)
    model, hardware = model_of(request.model, request.family), hardware_of(request.hardware)
    workload = Workload(request.input_len, request.output_len)
    options = options_of(request.options)
    engine, notes = request.engine, list[str]()
    if engine is None:
        engine, notes = engine_of_tool(request.framework, hardware)
    setup = engine_setup(hardware, engine, Placement(request.tensor_parallel), options)
    max_draft_len = longest_draft(
        drafter, acceptance_of(drafter), request.draft_len, name="draft_len"
    )
    load = Load([request.concurrency], [workload.mean_context_len])
    deployment = Deployment(model, setup)
    served = served_curve(deployment, drafter, load, "ignore", max_draft_len=max_draft_len)
    curve = served.decoding
    _refuse_trees(drafter, curve)
    return Mock(
        commands=tuple(mock_commands(_point(request, drafter, curve), request.framework)),
        curve=curve,
        counted=end_to_end(curve, deployment, workload),
        notes=tuple(notes),
    )


def _check(request: MockRequest) -> None:
    """Refuse values that no command could repeat."""
    expect("model", request.model, str | os.PathLike, "a name or a path, which commands repeat")
    whole_within("draft_len", request.draft_len, "draft_len")
    whole_within("concurrency", request.concurrency, "batch_size")
    expect("framework", request.framework, str, "sglang or vllm")
    expect("draft_model", request.draft_model, str | None, DRAFT_MODEL)


def _refuse_trees(drafter: Drafter, curve: SpeedupCurve) -> None:
    drafts, verified = curve.draft_len[-1], curve.verify_len[-1]
    if verified != drafts + 1:
        message = (
            f"drafter {drafter.name!r} has {verified:g} positions verified at {drafts} drafts; "
            f"allowed: a chain or block, which engines can be told to accept"
        )
        raise OptionError(message)


def _point(request: MockRequest, drafter: Drafter, curve: SpeedupCurve) -> MockPoint:
    """Return the predicted point as a benchmark runs it."""
    options = options_of(request.options)
    return MockPoint(
        model=os.fspath(request.model),
        method=drafter.kind,
        drafter=request.draft_model,
        **fields_of(request, "draft_len", "input_len", "output_len", "tensor_parallel"),
        tokens_per_round=round(float(curve.tokens_per_round[0, 0, -1]), 4),
        batch_size=request.concurrency,
        weights=options.weight_dtype,
        kv_cache=options.kv_dtype,
    )


# --- The commands that measure a predicted point, as text ----------------------------------------


def mock_text(found: Mock) -> str:
    """Return the commands, the notes and the prediction; all but commands are shell comments."""
    curve, whole = found.curve, found.counted
    return "\n".join(
        [
            *(f"# {title}\n{command}\n" for title, command in found.commands),
            *(f"# note: {note}" for note in found.notes),
            f"# predicted by engine {curve.engine}, prefills counted as the benchmark does: "
            f"{whole.tokens_per_s[0, 0, 0]:.0f} tok/s without drafts, "
            f"{whole.tokens_per_s[0, 0, -1]:.0f} with, {whole.speedup[0, 0, -1]:.2f}x "
            f"({curve.speedup[0, 0, -1]:.2f}x while decoding)",
        ]
    )


# --- The one benchmark that would settle most, as a command --------------------------------------

#: Whose benchmark is written where the engine is of no server that can be told what to accept.
_USUAL: Final = "sglang"


@dataclass(frozen=True, slots=True)
class ToMeasure:
    """What to measure.

    Parameters
    ----------
    concurrency, drafter, draft_len
        The point whose verdict is least certain.
    swings
        By how much its speedup changes, as a logarithm, where an input changes by 10 % either
        way; the largest first.
    command
        What prints its benchmark; None where no engine can be told to accept its drafts, or
        `mock` has no flags for how the model is spread or stored.
    """

    concurrency: float
    drafter: str
    draft_len: int
    swings: dict[str, float]
    command: str | None

    @property
    def moved_by(self) -> str:
        """The input that moves the decision most."""
        return next(iter(self.swings))


def measured_next(
    asked: Asked, setup: Setup, hardware: HardwareLike, rows: Sequence[Row]
) -> ToMeasure | None:
    """Return the point to measure; None where nothing was tried.

    Parameters
    ----------
    asked
        The question.
    setup, hardware
        Where passes run, and the chip as it was given.
    rows
        The loads.
    """
    known = [row for row in rows if row.point is not None and math.isfinite(row.choice.speedup)]
    if not known:
        return None
    least = known[0].least
    bands = [
        tuple(e / least for e in (r.choice.low, r.choice.speedup, r.choice.high)) for r in known
    ]
    row = known[least_settled(bands)]  # type: ignore[arg-type]  # three of each
    drafter = asked.drafters[row.tried]
    return ToMeasure(
        concurrency=row.concurrency,
        drafter=drafter.name,
        draft_len=row.choice.tried,
        swings=swings(row.point) if row.point is not None else {},
        command=_command(asked, setup, hardware, row),
    )


def _command(asked: Asked, setup: Setup, hardware: HardwareLike, row: Row) -> str | None:
    """Return the `mock` command of a point."""
    drafter, request, model = asked.drafters[row.tried], asked.request, asked.request.model
    kind = drafter.kind
    can_be_told = kind in FORCED and ",tree=" not in drafter.name and drafter.acceptance is not None
    if isinstance(model, Architecture) or not can_be_told or not _can_be_served(setup):
        return None
    named = request.framework or setup.engine.rules
    chip = _chip(setup, hardware)
    call = ["specroof", "mock", os.fspath(model), "-H", chip, "--drafter", drafter.name]
    if kind != "mtp":
        call += ["--draft-model", request.draft_model or YOUR_DRAFT_MODEL]
    sizes = {
        "--draft-len": row.choice.tried,
        "--concurrency": round(row.concurrency),
        "--input-len": round(asked.workload.input_len),
        "--output-len": round(asked.workload.output_len),
        "--tp": setup.placement.tensor_parallel,
    }
    call += [str(word) for pair in sizes.items() for word in pair]
    formats = {"--weights": setup.options.weight_dtype, "--kv-cache": setup.options.kv_dtype}
    call += [str(word) for pair in formats.items() if pair[1] is not None for word in pair]
    return shlex.join([*call, "--framework", named if named in FRAMEWORKS else _USUAL])


def _can_be_served(setup: Setup) -> bool:
    """Whether `mock` can start a server like it: one group, in formats that engines make."""
    place, options = setup.placement, setup.options
    return (
        place.expert_parallel == place.attention_data_parallel == 1
        and options.weight_dtype in {None, *MADE_WEIGHTS}
        and options.kv_dtype in {None, *CACHES[_USUAL]}
    )


def _chip(setup: Setup, given: HardwareLike) -> str:
    """Return a chip's name as it was given; of a profile, its shortest name."""
    if isinstance(given, HardwareProfile):
        return min((setup.hardware.name, *setup.hardware.aliases), key=len)
    return os.fspath(given)
