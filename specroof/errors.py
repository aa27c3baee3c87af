"""The exception tree: every refusal of specroof is a `SpecroofError` with a one-line message."""

__all__ = [
    "CatalogError",
    "ConfigError",
    "MeasurementError",
    "OptionError",
    "OutputError",
    "ProfileError",
    "SpecroofError",
]


class SpecroofError(Exception):
    """Base of everything specroof raises on purpose.

    The message is one line that names the file or argument, the key, the value and what is
    allowed, so that the command line can print it as it is.
    """

    def __init__(self, message: str) -> None:
        # Values from outside are quoted in messages; a newline in one must not break the line.
        super().__init__(" ".join(message.split()))


class ConfigError(SpecroofError):
    """A model config that cannot be read, or describes no model."""


class ProfileError(SpecroofError):
    """A hardware file that cannot be read, or lacks what a prediction needs."""


class OptionError(SpecroofError, ValueError):
    """An argument, SPEC or option outside of what is allowed."""


class CatalogError(SpecroofError):
    """A name that matches no bundled file, or a file that cannot be fetched."""


class MeasurementError(SpecroofError):
    """A benchmark result that cannot be read, or does not determine what is asked of it."""


class OutputError(SpecroofError):
    """A result that cannot be written where it was asked for."""
