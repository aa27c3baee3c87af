"""The mistakes of a study, told all at once."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Final, NoReturn

from specroof.drafters import Drafter, ideal_drafter
from specroof.errors import SpecroofError, StudyError
from specroof.questions.prediction import predicted_to, shared_longest
from specroof.questions.sweep import Study
from specroof.reading.checked import Path
from specroof.serving.workload import Load
from specroof.speedup.curve import acceptance_of

#: Places that the one line about many mistakes counts.
_MOST_PLACES: Final = 6


class Mistakes:
    """The mistakes of a study, each written down once, in the order in which they are found.

    Parameters
    ----------
    source
        The study, as messages name it.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._found: dict[str, tuple[type[SpecroofError], str]] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._found)

    def add(self, kind: type[SpecroofError], said: str, path: Path) -> None:
        """Write down one mistake.

        Parameters
        ----------
        kind
            What it is raised as where it is the only one.
        said
            One sentence.
        path
            Where it stands.
        """
        keys = ".".join(step for step in path if isinstance(step, str))
        self._found.setdefault(said, (kind, keys or "the file"))

    def refuse(self) -> NoReturn:
        """Raise one mistake in its own class, and several as a `StudyError`.

        Raises
        ------
        SpecroofError
            Always.

        Examples
        --------
        >>> from specroof.errors import OptionError
        >>> found = Mistakes("s.yaml")
        >>> found.add(OptionError, "batch_size.0 is -1", ("batch_size", 0))
        >>> found.add(OptionError, "batch_size.7 is 0", ("batch_size", 7))
        >>> found.add(OptionError, "engine is 3", ("engine",))
        >>> found.refuse()
        Traceback (most recent call last):
        specroof.errors.StudyError: s.yaml: 3 mistakes (2 in batch_size, 1 in engine); the first:
        batch_size.0 is -1
        """
        first, *others = said = tuple(self._found)
        if not others:
            message = f"{self._source}: {first}"
            raise self._found[first][0](message)
        places = Counter(place for _, place in self._found.values()).most_common()
        counted = ", ".join(f"{count} in {place}" for place, count in places[:_MOST_PLACES])
        more = ", and more" if len(places) > _MOST_PLACES else ""
        message = f"{self._source}: {len(said)} mistakes ({counted}{more}); the first: {first}"
        raise StudyError(message, said)


def study_refusals(study: Study) -> Iterator[SpecroofError]:
    """Yield why curves of a study cannot be computed, before the first is; nothing if all can.

    Parameters
    ----------
    study
        Of which each target is predicted with each drafter at one load, and the first at each.
    """
    accepted: list[Drafter] = []
    for drafter in study.drafters:
        try:
            acceptance_of(drafter)
        except SpecroofError as refusal:
            yield refusal
        else:
            accepted.append(drafter)
    drafters = accepted or [ideal_drafter()]  # so that the targets are looked at all the same
    try:
        longest, _ = shared_longest(drafters, study.max_draft_len)
    except SpecroofError as refusal:
        yield refusal
        longest = 0
    grid = study.loads[0]
    one_load = Load(grid.batch_size[:1], grid.context_len[:1])
    asked = [
        (longest, target, drafter, one_load) for target, drafter in product(study.targets, drafters)
    ]
    first = study.targets[0]
    asked += [(0, first, drafters[0], replace(load, workload=None)) for load in study.loads]
    for most, target, drafts, load in asked:
        try:
            predicted_to(most, target.model, target.setup, [drafts], load)
        except SpecroofError as refusal:
            yield refusal
