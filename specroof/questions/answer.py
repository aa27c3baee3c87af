"""What every answer can do."""

from abc import abstractmethod
from typing import Any

__all__ = ["Answer"]


class Answer:
    """An answer: its numbers, and what a reader must know about them.

    Attributes
    ----------
    notes
        Sentences on how the numbers came about.
    warnings
        Sentences on points that cannot be had.
    """

    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    @abstractmethod
    def title(self) -> str:
        """What was asked, in one line."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""

    def __repr__(self) -> str:
        """Return one line: arrays are looked at by name."""
        return f"<{type(self).__name__}: {self.title}>"

    @property
    def facts(self) -> dict[str, Any]:
        """What a notebook shows of the answer: what is one value, by name."""
        return {
            name: value
            for name, value in self.to_dict().items()
            if isinstance(value, str | int | float)
        }

    def _repr_html_(self) -> str:
        """Return a small table of the facts, and the notes below it."""
        from specroof.report.notebook import facts_html  # noqa: PLC0415 - reports import answers

        return facts_html(self.title, self.facts, (*self.notes, *self.warnings))
