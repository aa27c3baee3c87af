"""Study files: YAML to a `Study`, validated whole before anything is computed."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from specroof.catalog import load_drafter, load_hardware, load_model, read_text, study_path
from specroof.catalog.hub import fetch_from_hub
from specroof.drafters import Drafter
from specroof.errors import CatalogError, OptionError, SpecroofError
from specroof.hardware import HardwareProfile
from specroof.latency import engine_setup
from specroof.parsers import PARSERS
from specroof.questions.lists import given_twice
from specroof.questions.study_block import StudyBlock
from specroof.questions.study_mistakes import Mistakes, study_refusals
from specroof.questions.sweep import Study, Target
from specroof.reading import checked as reading
from specroof.reading.checked import checked, without
from specroof.reading.yaml_text import parse_yaml, shown
from specroof.serving.capacity import in_server

#: Names that the Hub may fail to have before no more are looked up there.
_MOST_UNKNOWN: Final = 20

_Named = TypeVar("_Named")


def load_study(name: str | os.PathLike[str]) -> Study:
    """Return a study from a path or a bundled name, with all that it names loaded and checked.

    Raises
    ------
    SpecroofError
        For a mistake, one line that names the file, the key, the value and what is allowed. For
        several, a `StudyError` that has them all.
    """
    path = study_path(os.fspath(name))
    return parse_study(read_text(path, OptionError), str(path))


def parse_study(text: str, source: str, *, check: bool = True) -> Study:
    """Return the study of a YAML text, with all that it names loaded and checked.

    What is wrong does not keep the rest from being looked at: every mistake is told at once.

    Parameters
    ----------
    text, source
        The file, and how messages name it.
    check
        False for one that is known to have no mistakes.

    Raises
    ------
    SpecroofError
        As `load_study` does.
    """
    mistakes, names = Mistakes(source), _Names()
    content = parse_yaml(text, source=source, error=OptionError)
    block = _sound_part(content, names, mistakes)
    study = None if block is None else _study(block, names, mistakes, text, source)
    if study is not None and check:
        for refusal in study_refusals(study):
            mistakes.add(type(refusal), str(refusal), ("targets",))
    if study is None or mistakes:
        mistakes.refuse()
    return study


class _Names:
    """What the names of a study lead to, each looked up once."""

    def __init__(self) -> None:
        self._failed = 0
        self.model = _once(lambda name, family: load_model(name, family=family, fetch=self._fetch))
        self.hardware = _once(load_hardware)
        self.drafter = _once(lambda spec: load_drafter(spec, fetch=self._fetch))

    def _fetch(self, repository: str, file_name: str) -> Path | None:
        """Fetch a file from the Hub, unless it did not have too many of the names before."""
        if self._failed >= _MOST_UNKNOWN:
            message = f"{repository}: not looked up, after {self._failed} names that the Hub did "
            message += "not have; allowed: a file, a bundled name or a Hub name"
            raise CatalogError(message)
        try:
            return fetch_from_hub(repository, file_name)
        except CatalogError:
            self._failed += 1
            raise


def _once(load: Callable[..., _Named]) -> Callable[..., _Named]:
    """Return a loader that answers a name the second time as it did the first."""
    known: dict[tuple[object, ...], _Named | SpecroofError] = {}

    def loaded(*name: object) -> _Named:
        if name not in known:
            try:
                known[name] = load(*name)
            except SpecroofError as refusal:
                known[name] = refusal
        found = known[name]
        if isinstance(found, SpecroofError):
            raise found
        return found

    return loaded


def _sound_part(content: dict[str, Any], names: _Names, mistakes: Mistakes) -> StudyBlock | None:
    """Return the part of a study without mistakes, None if nothing is left; record the mistakes."""
    block, found = checked(content, StudyBlock)
    cuts: list[reading.Path] = []
    for mistake in found:
        mistakes.add(OptionError, mistake.said, mistake.path)
        # Without its family a target is another one.
        cuts.append(mistake.path[:2] if mistake.path[2:] == ("family",) else mistake.path)
    for path, place, load in _lookups(content, names):
        try:
            load()
        except SpecroofError as refusal:
            mistakes.add(type(refusal), f"{place}{refusal}", path)
            cuts.append(path)
    return _sound_rest(content, cuts) if cuts else block


def _sound_rest(content: dict[str, Any], cuts: list[reading.Path]) -> StudyBlock | None:
    """Return a study without what stands at some places, and without what lacks it then."""
    rest: Any = content | {"format_version": 1}
    cuts = [path for path in cuts if path != ("format_version",)]
    block = None
    while block is None:
        if ("drafters",) in cuts:  # the targets are looked at with a drafter that always fits
            rest = rest | {"drafters": ["ideal"]}
            cuts = [path for path in cuts if path[0] != "drafters"]
        rest = without(rest, cuts)
        if rest is None:
            return None
        block, found = checked(rest, StudyBlock)
        cuts = [mistake.path for mistake in found]
    return block


def _lookups(
    content: dict[str, Any], names: _Names
) -> Iterator[tuple[reading.Path, str, Callable[[], object]]]:
    """Yield a look-up for each name of a study: the part to cut if it fails, the place, thecall."""
    targets = content.get("targets")
    for number, target in enumerate(targets if isinstance(targets, list) else []):
        if not isinstance(target, dict):
            continue
        at = ("targets", number)
        family = target.get("family")
        if family is None or (isinstance(family, str) and family in PARSERS):
            for entry, name in _texts(target.get("model")):
                place = f"targets.{number}.model.{entry}: "
                yield (*at, "model", entry), place, partial(names.model, name, family)
        elif isinstance(family, str) and family.strip():
            # Not by the block: its messages are too short for the list of what is allowed.
            yield at, "", partial(_refuse_family, number, family)
        for entry, name in _texts(target.get("hardware")):
            place = f"targets.{number}.hardware.{entry}: "
            yield (*at, "hardware", entry), place, partial(names.hardware, name)
    for entry, spec in _texts(content.get("drafters")):
        yield ("drafters", entry), f"drafters.{entry}: ", partial(names.drafter, spec)


def _refuse_family(number: int, family: str) -> None:
    known = ", ".join(sorted(PARSERS))
    message = f"targets.{number}.family is {shown(family)}; allowed: {known}"
    raise OptionError(message)


def _texts(value: object) -> Iterator[tuple[int, str]]:
    """Yield the position and text of each name in a list, or of one that stands alone."""
    for entry, name in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(name, str) and name.strip():
            yield entry, name


def _study(
    block: StudyBlock, names: _Names, mistakes: Mistakes, text: str, source: str
) -> Study | None:
    """Return the study of what has no mistake so far; None where no target can be set up."""
    targets = tuple(_targets(block, names, mistakes))
    drafters = dict[str, Drafter]()
    for spec in block.drafters:
        drafter = names.drafter(spec)
        if drafter.name in drafters:
            mistakes.add(OptionError, f"drafters: {given_twice(spec, drafter)}", ("drafters",))
        drafters[drafter.name] = drafter
    if not targets:
        return None
    return Study(
        targets=targets,
        drafters=tuple(drafters.values()),
        loads=tuple(block.loads()),
        max_draft_len=block.max_draft_len,
        capacity=block.capacity,
        text=text,
        source=source,
    )


def _targets(block: StudyBlock, names: _Names, mistakes: Mistakes) -> Iterator[Target]:
    """Yield the targets that can be set up; record why others cannot, and those given twice."""
    known: dict[tuple[object, ...], list[HardwareProfile]] = {}
    for target in block.targets:
        for model, hardware in target.pairs():
            try:
                served, chip = names.model(model, target.family), names.hardware(hardware)
                placement = target.placement()
                alike = known.setdefault((model, target.family, placement, chip.name), [])
                if chip in alike:  # and set up once: a thousand of it are not priced to refuse them
                    place = f"{model} on {placement.devices} x {chip.name}"
                    mistakes.add(OptionError, f"targets: {given_twice(place, place)}", ("targets",))
                    continue
                alike.append(chip)
                setup = engine_setup(chip, block.engine, placement, block.options)
                yield Target(served, in_server(served, setup, block.server))
            except SpecroofError as refusal:
                mistakes.add(type(refusal), str(refusal), ("targets",))
