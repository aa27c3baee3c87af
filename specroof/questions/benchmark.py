"""Benchmark results: their files, the model that was served, and the hardware."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from specroof.architecture import Architecture
from specroof.catalog import read_text
from specroof.drafters import Drafter
from specroof.errors import MeasurementError, expect
from specroof.hardware import HardwareProfile, Placement
from specroof.latency import Deployment, engine_setup, option_notes
from specroof.questions.request import (
    DrafterLike,
    HardwareLike,
    ModelLike,
    OptionsLike,
    ServerLike,
    as_list,
    drafter_of,
    engine_of_tool,
    hardware_of,
    model_of,
    options_of,
    server_of,
)
from specroof.reading.yaml_text import shown
from specroof.serving.capacity import in_server

if TYPE_CHECKING:
    from specroof.evidence import Measurement

ResultFile: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What was measured.

    Parameters
    ----------
    points
        Results.
    served, drafter
        What was served, where and by which engine profile, and what drafted.
    notes
        What to know about how they are read.
    labels
        Each file by its name and its content, to be found again.
    """

    points: "tuple[Measurement, ...]"
    served: Deployment
    drafter: Drafter | None
    notes: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Tell how results came about.

    Parameters
    ----------
    family
        Read the config as this model_type.
    engine
        An engine of the hardware profile. If None, the engine named like the tool that wrote
        the results.
    options
        `Options`, or a mapping of their names.
    drafter
        What drafted, where results have drafts: a SPEC, or a `Drafter`.
    draft_len
        Drafts per round of results that do not say. Results that do not even say whether anything
        was drafted have it too, unless others say so.
    server
        Settings of the server, where the results do not say: as for `predict`.
    """

    family: str | None = None
    engine: str | None = None
    options: OptionsLike | None = None
    drafter: DrafterLike | None = None
    draft_len: int | None = None
    server: ServerLike | None = None


@dataclass(frozen=True)
class BenchmarkRequest(Recorded):
    """Ask about benchmark results.

    Parameters
    ----------
    results
        One file or several: JSON of SGLang, vLLM, InferenceX, aiperf, genai-perf or guidellm, or a
        CSV.
    model
        What was served: a path, a bundled name, a Hub name, or an `Architecture`.
    hardware
        What served it: a path, a name, an alias, or a `HardwareProfile`.
    tensor_parallel, expert_parallel
        Devices, and the devices that experts are spread over.
    """

    results: ResultFile | Sequence[ResultFile]
    model: ModelLike
    hardware: HardwareLike
    _: KW_ONLY
    tensor_parallel: int = 1
    expert_parallel: int = 1

    def benchmark(self) -> Benchmark:
        """Return the results, all of one model and one tool.

        Raises
        ------
        SpecroofError
            For a file, model, profile or SPEC that cannot be read, results of another model, of
            several tools or of other drafts, or a result that is there twice.
        """
        from specroof import evidence  # noqa: PLC0415 - few questions are about results

        options = options_of(self.options)
        model, hardware = model_of(self.model, self.family), hardware_of(self.hardware)
        files = [_path(file) for file in as_list(self.results)]
        texts = [read_text(file, MeasurementError) for file in files]
        points = tuple(
            point
            for file, text in zip(files, texts, strict=True)
            for point in evidence.read_benchmark(text, source=str(file), draft_len=self.draft_len)
        )
        points, silent = evidence.stated_drafts(points)
        evidence.refuse_repeats(points)
        if not isinstance(self.model, Architecture):
            refuse_others(points, os.fspath(self.model))
        evidence.refuse_mixed(points)
        engine, notes = self.engine, list[str]()
        if engine is None:
            engine, notes = engine_of_results(points, hardware)
        notes = [*silent, *notes]
        drafter = None
        if self.drafter is not None:
            drafter = drafter_of(self.drafter)
            evidence.refuse_other_kinds(points, drafter.kind)
        notes += idle_notes(points, {"drafter": self.drafter, "draft length": self.draft_len})
        placement = Placement(self.tensor_parallel, self.expert_parallel)
        asked = evidence.server_told(points, server_of(self.server))
        setup = engine_setup(hardware, engine, placement, options)
        return Benchmark(
            points=points,
            served=Deployment(model, in_server(model, setup, asked)),
            drafter=drafter,
            notes=(*notes, *option_notes(model, options)),
            labels=tuple(
                file_label(file.name, text) for file, text in zip(files, texts, strict=True)
            ),
        )


def refuse_others(points: "Sequence[Measurement]", model: str) -> None:
    """Refuse results that name another model than the one that is meant.

    The organisation of a name does not count, and a path fits any name.

    Parameters
    ----------
    points
        Results, which may say what they served.
    model
        What is meant, as it was asked for.

    Raises
    ------
    MeasurementError
        One line with both names.
    """
    if os.path.exists(model):  # noqa: PTH110 - Path.exists raises for a name of 256 bytes
        return
    meant = _last(model)
    for point in points:
        if point.model is not None and _last(point.model) != meant:
            message = f"{point.place}: is of model {point.model!r}; model is {model!r}"
            raise MeasurementError(message)


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()


def _path(file: ResultFile) -> Path:
    expect("results", file, str | os.PathLike, "a file of results, or several")
    return Path(file)


def engine_of_results(
    points: "Sequence[Measurement]", hardware: HardwareProfile
) -> tuple[str | None, list[str]]:
    """Return the engine that predicts results by default, and notes on it.

    Parameters
    ----------
    points
        Of one tool, where they tell.
    hardware
        What they ran on: its engine of that name, else its default.
    """
    return engine_of_tool(
        next((point.engine for point in points if point.engine is not None), None), hardware
    )


def idle_notes(points: "Sequence[Measurement]", given: Mapping[str, object]) -> list[str]:
    """Return a note for each statement about drafts that is given for results without any."""
    if any(point.drafts for point in points):
        return []
    return [
        f"{name} {shown(value.name if isinstance(value, Drafter) else value)} changes nothing: no "
        f"result has drafts"
        for name, value in given.items()
        if value is not None
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
    """Return a note for each file that the predicting engine was fitted to.

    Parameters
    ----------
    labels
        Files, as `file_label` has them; their content counts.
    hardware, engine
        A profile, whose sources say what `calibrate` fitted, and the name of its engine.
    """
    source = hardware.sources.get(f"engines.{engine}", "")
    parts = [label.rpartition(" (") for label in labels]
    return [
        f"in-sample: engine {engine} was fitted to the results of {name}, so its errors there "
        f"do not test it"
        for name, _, content in parts
        if content in source
    ]
