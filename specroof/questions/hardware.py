"""Which chips are known, and what can they do?"""

import os
from dataclasses import asdict, dataclass
from typing import Any

from specroof.catalog import hardware_names, load_hardware, taken_aliases
from specroof.hardware import HardwareProfile
from specroof.questions.answer import Noted
from specroof.questions.request import HardwareLike, hardware_of, question


@dataclass(frozen=True)
class HardwareRequest:
    """Ask what a chip can do.

    Parameters
    ----------
    hardware
        A path, a name, an alias, or a `HardwareProfile`.
    """

    hardware: HardwareLike


@dataclass(frozen=True, repr=False)
class HardwareFacts(Noted):
    """What a chip can do.

    Attributes
    ----------
    name
        What it was asked for as.
    profile
        Peaks, memory, interconnect, engines, and the source of each figure.
    notes, warnings
        Sentences for the reader.
    """

    name: str
    profile: HardwareProfile

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return self.profile.name

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return asdict(self.profile) | {"name": self.name, "title": self.profile.name}


def list_hardware() -> list[HardwareFacts]:
    """Return all chips: from your own folder, and the bundled ones."""
    return [show_hardware(name) for name in hardware_names()]


@question(HardwareRequest)
def show_hardware(request: HardwareRequest) -> HardwareFacts:
    """Return the figures of one chip, with the source of each."""
    profile = hardware_of(request.hardware)
    asked = request.hardware
    return HardwareFacts(
        profile.name if isinstance(asked, HardwareProfile) else os.fspath(asked), profile
    )


def check_hardware(file: str | os.PathLike[str]) -> HardwareFacts:
    """Check a hardware file: every key, every figure, every source."""
    profile = load_hardware(file, check=True)
    taken = (
        f"alias {alias} is one of {name}, which -H {alias} finds"
        for alias, name in taken_aliases(file).items()
    )
    return HardwareFacts(os.fspath(file), profile, warnings=tuple(taken))
