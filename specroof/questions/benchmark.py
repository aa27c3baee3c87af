"""Benchmark results: their files, the model that was served, and the hardware."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias

from specroof.architecture.model import Architecture
from specroof.catalog import read_text
from specroof.catalog.files import is_there
from specroof.drafters import Drafter
from specroof.engines.calibration import simulated_requests
from specroof.errors import MeasurementError, Urgent, expect
from specroof.evidence import (
    Measurement,
    read_benchmark,
    refuse_mixed,
    refuse_other_kinds,
    refuse_repeats,
    server_told,
    stated_drafts,
)
from specroof.evidence.measurement import NAMES
from specroof.frameworks import FRAMEWORKS, LOCAL_FRAMEWORKS
from specroof.hardware.engine import EngineProfile, RowKernel
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.model import option_notes
from specroof.latency.setup import Deployment, engine_setup
from specroof.questions import parameters as p
from specroof.questions.objects import (
    DrafterLike,
    ModelLike,
    as_list,
    drafter_of,
    hardware_of,
    model_of,
    options_of,
    server_of,
)
from specroof.questions.work import check_work
from specroof.reading.yaml_text import shown
from specroof.serving.capacity import in_server

ResultFile: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Benchmark results, and the deployment that they measured.

    Parameters
    ----------
    points
        Results.
    served
        The model, its place, and the engine profile that predicts it.
    drafter
        What drafted; None where the user does not say.
    notes
        Sentences on how the results are read.
    labels
        Each file by its name and a checksum of its content.
    """

    points: tuple[Measurement, ...]
    served: Deployment
    drafter: Drafter | None
    notes: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Tell how results came about."""

    panel: ClassVar = "How the results came about"

    family: p.Family = None
    engine: Annotated[
        str | None,
        p.Parameter(
            "Engine of the hardware profile.",
            metavar="NAME",
            shown="named like the tool that wrote BENCH",
        ),
    ] = None
    options: p.OptionsGiven = None
    drafter: Annotated[
        DrafterLike | None,
        p.like(
            p.OneDrafter,
            about="Drafter of results with drafts.",
            in_python="A SPEC, or a `Drafter`.",
        ),
    ] = None
    draft_len: Annotated[
        int | None,
        p.Parameter(
            "Drafts per round, if a result does not say.",
            in_python="A result that does not even say whether anything was drafted has them too, "
            "unless others say so.",
        ),
    ] = None
    server: p.Server = None


ServedModel = Annotated[
    ModelLike,
    p.like(
        p.Model,
        about="The served model: a config.json, a bundled model or a Hub name.",
        flag="--model",
    ),
]
Results = Annotated[
    ResultFile | Sequence[ResultFile] | Mapping[str, str],
    p.Parameter(
        "JSON of SGLang's bench_serving, of vllm bench serve --save-result, InferenceX, aiperf, "
        "genai-perf or guidellm; the table that the first two print; guidellm's CSV; or a CSV with "
        "batch_size, context_len, draft_len, tokens_per_s and, if known, acceptance_length, "
        "input_len, output_len; with tpot_ms instead of tokens_per_s; or with positions and pass_s "
        "of timed passes.",
        "BENCH…",
        in_python="Or the texts of files by their names.",
        kind=list[Path],
    ),
]


@dataclass(frozen=True)
class BenchmarkRequest(Recorded):
    """Ask about benchmark results."""

    results: Results
    model: ServedModel
    hardware: p.Hardware
    _: KW_ONLY
    tensor_parallel: p.TensorParallel = 1
    expert_parallel: p.ExpertParallel = 1

    def benchmark(self) -> Benchmark:
        """Return the results, all of one model and one tool.

        Raises
        ------
        SpecroofError
            For a file, model, profile or SPEC that cannot be read, results of another model, of
            several tools or of other drafts, or a result that is there twice.
        """
        options = options_of(self.options)
        model, hardware = model_of(self.model, self.family), hardware_of(self.hardware)
        if isinstance(self.results, Mapping):
            texts = [*self.results.items()]
        else:
            names = as_list(self.results)
            for name in names:
                expect("results", name, str | os.PathLike, "a file of results, or several")
            texts = [(str(file), read_text(file, MeasurementError)) for file in map(Path, names)]
        points = tuple(
            point
            for name, text in texts
            for point in read_benchmark(text, source=name, draft_len=self.draft_len)
        )
        points, silent = stated_drafts(points)
        refuse_repeats(points)
        if not isinstance(self.model, Architecture):
            refuse_others(points, os.fspath(self.model))
        refuse_mixed(points)
        # By the profile before and after, and by the roofline, with drafts and without.
        check_work(6 * sum(map(simulated_requests, points)))
        engine, notes = self.engine, list[str]()
        if engine is None:
            engine, notes = engine_of_results(points, hardware)
        tool = tool_of(points)
        stands_in = bool(notes) and tool not in FRAMEWORKS
        if stands_in:  # servers, whose passes fill graphs, for software of one user
            notes = [f"{hardware.name} has no engine {tool}: the chip's peaks predict instead"]
        notes = [*silent, *notes]
        drafter = None
        if self.drafter is not None:
            drafter = drafter_of(self.drafter)
            refuse_other_kinds(points, drafter.kind)
        notes += other_chip_notes(points, hardware)
        if not any(point.drafts for point in points):
            for name, value in {"drafter": self.drafter, "draft length": self.draft_len}.items():
                if value is not None:
                    told = shown(value.name if isinstance(value, Drafter) else value)
                    notes.append(f"{name} {told} changes nothing: no result has drafts")
        placement = Placement(self.tensor_parallel, self.expert_parallel)
        server = server_told(points, server_of(self.server))
        setup = engine_setup(hardware, engine, placement, options)
        if stands_in:
            setup = replace(setup, engine=peaks_engine(hardware, tool))
        return Benchmark(
            points=points,
            served=Deployment(model, in_server(model, setup, server)),
            drafter=drafter,
            notes=(*notes, *option_notes(model, options)),
            labels=tuple(file_label(Path(name).name, text) for name, text in texts),
        )


def refuse_others(points: Sequence[Measurement], model: str) -> None:
    """Refuse results that name another model than the one that is meant.

    The organisation of a name does not count, and a path fits any name.

    Parameters
    ----------
    points
        Results, which may say what they served.
    model
        The name of the model that the user means.

    Raises
    ------
    MeasurementError
        One line with both names.
    """
    if is_there(Path(model)):
        return
    meant = bare_name(model)
    for point in points:
        if point.model is not None and bare_name(point.model) != meant:
            message = f"{point.place}: is of model {point.model!r}; model is {model!r}"
            raise MeasurementError(message)


def bare_name(name: str) -> str:
    """Return the name of a model without its organisation or folder, in small letters."""
    return name.rstrip("/").rpartition("/")[2].casefold()


def tool_of(points: Sequence[Measurement]) -> str | None:
    """Return the tool that results are of; None where none says."""
    return next((point.engine for point in points if point.engine is not None), None)


def engine_of_results(
    points: Sequence[Measurement], hardware: HardwareProfile
) -> tuple[str | None, list[str]]:
    """Return the engine that predicts results by default, and notes on it.

    Parameters
    ----------
    points
        Of one tool, where they tell.
    hardware
        What they ran on: its engine of that name, else its default.
    """
    tool = tool_of(points)
    engine = hardware.engine_of(tool)
    if engine is not None or tool is None or tool in hardware.engines:
        return engine, []
    default = hardware.engine().name
    return None, [f"{hardware.name} has no engine {tool}: engine {default} predicts instead"]


def peaks_engine(hardware: HardwareProfile, tool: str | None) -> EngineProfile:
    """Return an engine for one user that reaches the peaks of a chip and adds up its times.

    Parameters
    ----------
    hardware
        The chip.
    tool
        The software; of `specroof.frameworks.LOCAL_FRAMEWORKS` it has the rules.
    """
    _, bf16 = hardware.arithmetic("bf16")
    share = bf16 / hardware.peak.flops_per_s.get("fp32", bf16)
    kernels = {kind: RowKernel(of=kind, compute_frac=share) for kind in ("dense", "experts")}
    rules = tool if tool in LOCAL_FRAMEWORKS else None
    return EngineProfile(name="peaks", framework=rules, overlap_norm=1.0, row_kernels=kernels)


def other_chip_notes(points: Sequence[Measurement], hardware: HardwareProfile) -> list[str]:
    """Return a note for GPUs of results that their driver calls by no name of the chip.

    A word more than its names have, as ``Ti`` or ``Laptop``, is of another chip, unless it is a
    brand's, or stands in brackets.
    """

    def words(name: str) -> set[str]:
        return {*re.findall(r"[a-z0-9.]+", re.sub(r"\(.*?\)", " ", name.casefold()))}

    names = [words(name) for name in (hardware.name, *hardware.aliases)]
    known = {*NAMES["gpu_brands"]}.union(*names)
    others = dict.fromkeys(point.gpus for point in points if point.gpu_layers != 0)
    return [
        Urgent(f"results are of {shown(gpus)}, and {hardware.name} predicts them: another chip?")
        for gpus in others
        if gpus
        # A driver may give several chips one name: MI50/MI60.
        and not any(name <= words(gpu) <= known for gpu in re.split(", |/", gpus) for name in names)
    ]


def file_label(name: str, text: str) -> str:
    """Return a file of results as a calibrated profile names it: its name and a checksum.

    Examples
    --------
    >>> file_label("a.csv", "")  # the SHA-256 of nothing
    'a.csv (sha256 e3b0c44298fc1c14)'
    """
    return f"{name} (sha256 {sha256(text.encode()).hexdigest()[:16]})"


def in_sample_notes(labels: Sequence[str], hardware: HardwareProfile, engine: str) -> list[str]:
    """Return a note that names the files that the predicting engine was fitted to.

    Parameters
    ----------
    labels
        Files, as `file_label` has them; their content counts.
    hardware, engine
        A profile, whose sources say what `calibrate` fitted, and the name of its engine.
    """
    source = hardware.sources.get(f"engines.{engine}", "")
    parts = [label.rpartition(" (") for label in labels]
    names = ", ".join(name for name, _, content in parts if content in source)
    told = (
        f"engine {engine} was fitted to the results of {names}, so its errors there do not test it"
    )
    return [Urgent(f"in-sample: {told}")] if names else []
