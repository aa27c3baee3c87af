"""What does speculation gain, whatever the model, chip, load and drafter? A page to play with."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from html import escape
from typing import Any, Final, TypeVar

import numpy as np

from specroof.architecture import Architecture
from specroof.arrays import array_within, whole_within
from specroof.catalog import model_names
from specroof.cost import Options
from specroof.errors import OptionError, SpecroofError, expect
from specroof.hardware import HardwareProfile, Placement
from specroof.latency import check_placement, engine_setup
from specroof.questions.answer import Noted
from specroof.questions.grids import Axes, Cell, cell_of
from specroof.questions.request import (
    HardwareLike,
    ModelLike,
    OptionsLike,
    Values,
    as_list,
    engine_name,
    hardware_of,
    model_of,
    options_of,
    server_of,
    unique_list,
)
from specroof.questions.request import question as asked_as
from specroof.serving.capacity import in_server
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN

_Named = TypeVar("_Named", Architecture, HardwareProfile)

#: What a site holds by default.
PAGE_CHIPS: Final = (
    *("b200", "b300", "gb200", "h100-sxm", "h200", "h20", "a100-80gb"),
    *("mi300x", "mi355x", "l40s", "rtx-4090", "rtx-pro-6000"),
)
_CONTEXTS: Final = (1024.0, 4096.0, 16384.0, 65536.0)
_BATCHES: Final = tuple(2.0**power for power in range(9))
_DEVICES: Final = (1, 2, 4, 8)
#: The default of each chip, and the two that need no measurements.
_ENGINES: Final = (None, "generic", "ideal")


@dataclass(frozen=True)
class ExploreRequest:
    """Ask for a page for trying models, chips, loads and drafters.

    Parameters
    ----------
    models
        One or several: paths, names, or `Architecture` objects. All bundled models if None.
    hardware
        One or several: paths, names, aliases, or `HardwareProfile` objects. Twelve of the bundled
        chips if None.
    engines
        Engines to choose from; each chip's default, `generic` and `ideal` if None. A chip that
        lacks one goes without it.
    tensor_parallel
        Numbers of devices to choose from; 1, 2, 4 and 8 if None. A chip or a model that cannot be
        spread so goes without it.
    context_len, batch_size
        The points of the grid; 1024 to 65536 tokens and 1 to 256 sequences if None.
    options
        `Options`, or a mapping of their names.

    Examples
    --------
    >>> from specroof import explore
    >>> explore("Qwen/Qwen3-8B", "b200")
    <Exploration: 1 model on 1 chip>
    """

    models: ModelLike | Sequence[ModelLike] | None = None
    hardware: HardwareLike | Sequence[HardwareLike] | None = None
    _: KW_ONLY
    engines: str | Sequence[str] | None = None
    tensor_parallel: int | Sequence[int] | None = None
    context_len: Values | None = None
    batch_size: Values | None = None
    options: OptionsLike | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One model on one chip.

    Parameters
    ----------
    cells
        Grids by engine and devices; those that hold nothing are left out.
    default_engine
        The chip's default engine.
    """

    cells: Mapping[tuple[str, int], Cell]
    default_engine: str


@dataclass(frozen=True, repr=False, eq=False)
class Exploration(Noted):
    """A page to play with: grids of seconds, and what is accepted of drafts.

    Attributes
    ----------
    models, hardware
        What can be chosen, by the words that a command takes.
    engines, devices, axes, options
        The rest that can be chosen.
    notes, warnings
        Sentences for the reader.
    """

    models: Mapping[str, Architecture]
    hardware: Mapping[str, HardwareProfile]
    engines: tuple[str | None, ...]
    devices: tuple[int, ...]
    axes: Axes
    options: Options

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        n_models, n_chips = len(self.models), len(self.hardware)
        models, chips = "model" + "s" * (n_models > 1), "chip" + "s" * (n_chips > 1)
        return f"{n_models} {models} on {n_chips} {chips}"

    @property
    def changed_options(self) -> dict[str, Any]:
        """The options that are not the default, by name."""
        return {
            one.name: getattr(self.options, one.name)
            for one in fields(Options)
            if getattr(self.options, one.name) != one.default
        }

    def section(self, model: str, hardware: str) -> Section:
        """Return the grids of one model on one chip.

        Parameters
        ----------
        model, hardware
            Keys of `models` and `hardware`.
        """
        architecture, profile = self.models[model], self.hardware[hardware]
        most = 1 if profile.interconnect is None else profile.interconnect.max_devices
        cells: dict[tuple[str, int], Cell] = {}
        for devices in (count for count in self.devices if count <= most):
            for cell in self._cells(architecture, profile, devices):
                cells[cell.setup.engine.name, devices] = cell
        return Section(cells, profile.engine(None).name)

    def _cells(self, model: Architecture, profile: HardwareProfile, devices: int) -> Iterator[Cell]:
        """Yield a grid for each engine in which at least one request runs."""
        seen: set[str] = set()
        for engine in self.engines:
            try:
                setup = engine_setup(profile, engine, Placement(devices), self.options)
                if setup.engine.name in seen:
                    continue
                seen.add(setup.engine.name)
                check_placement(model, setup.placement)
                cell = cell_of(model, in_server(model, setup, server_of(None)), self.axes)
            except SpecroofError:  # the chip lacks the engine, or the model cannot be spread so
                continue
            if cell.largest[0, 0] >= 1:
                yield cell

    @cached_property
    def page(self) -> str:
        """The page as one self-contained text."""
        from specroof.page import single_page  # noqa: PLC0415 - it shows answers

        return single_page(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the choices of the page."""
        return {
            "models": list(self.models),
            "hardware": list(self.hardware),
            "context_len": list(self.axes.context_len),
            "batch_size": list(self.axes.batch_size),
            "draft_len": list(range(self.axes.max_draft_len + 1)),
            "options": self.changed_options,
            **self.messages,
        }

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each model on each chip."""
        return [{"model": one, "hardware": chip} for one in self.models for chip in self.hardware]

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        return (
            '<iframe sandbox="allow-scripts" title="specroof" width="100%" height="900" '
            f'style="border:0" srcdoc="{escape(self.page)}"></iframe>'
        )


@asked_as(ExploreRequest)
def explore(request: ExploreRequest) -> Exploration:
    """Make an interactive page of models, chips, loads and drafters."""
    models = _named("models", model_names() if request.models is None else request.models, model_of)
    chips = PAGE_CHIPS if request.hardware is None else request.hardware
    hardware = _named("hardware", chips, hardware_of)
    engines = _ENGINES if request.engines is None else _engines(request.engines, hardware)
    devices = _DEVICES if request.tensor_parallel is None else as_list(request.tensor_parallel)
    axes = Axes(
        context_len=_points("context_len", request.context_len, _CONTEXTS),
        batch_size=_points("batch_size", request.batch_size, _BATCHES),
        max_draft_len=DEFAULT_MAX_DRAFT_LEN,
    )
    counts = tuple(sorted({whole_within("tensor_parallel", one, "devices") for one in devices}))
    return Exploration(
        models=models,
        hardware=hardware,
        engines=engines,
        devices=counts,
        axes=axes,
        options=options_of(request.options),
    )


def _named(name: str, given: Any, load: Callable[[Any], _Named]) -> dict[str, _Named]:
    """Return the given objects by the words that a command takes for them.

    Raises
    ------
    OptionError
        For an empty list, and a thing that is given twice.
    """
    words = as_list(given)
    if not words:
        message = f"{name} is empty; allowed: at least one"
        raise OptionError(message)
    found = zip(words, unique_list(name, words, load), strict=True)
    return {os.fspath(w) if isinstance(w, str | os.PathLike) else o.name: o for w, o in found}


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
        found, refusals = engine_name(engine), list[SpecroofError]()
        for profile in hardware.values():
            try:
                profile.engine(found)
            except SpecroofError as refusal:
                refusals.append(refusal)
        if len(refusals) == len(hardware):
            message = f"engines: {refusals[0]}"
            raise OptionError(message)
        return found

    return tuple(unique_list("engines", given, known))


def _points(name: str, given: Values | None, usual: tuple[float, ...]) -> tuple[float, ...]:
    """Return the points of an axis, each once, in order."""
    values = array_within(name, usual if given is None else given, name)
    return tuple(sorted({*np.atleast_1d(values).tolist()}))
