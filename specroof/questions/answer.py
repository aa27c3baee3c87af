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
