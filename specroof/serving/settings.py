"""Settings of a server as text: `--server KEY=VALUE[,…]`, and a mapping in studies."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from specroof.errors import OptionError
from specroof.hardware import SERVER_KEYS, ServerSettings
from specroof.reading.yaml_text import shown

__all__ = ["parse_server", "server_settings"]


def _switch(text: str) -> bool:
    """Return whether a switch is on; YAML has read its word already."""
    return {"on": True, "off": False, "true": True, "false": False}[text.lower()]


#: How the text of each key is read, and what is allowed where it cannot be.
_READ: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    "memory": (float, "a share above 0, up to 1"),
    "running": (int, "a whole number of requests"),
    "capture": (int, "a whole number"),
    "overlap": (_switch, "on or off"),
    "chunk": (int, "a whole number of tokens"),
    "mixed": (_switch, "on or off"),
    "state-dtype": (str, ""),
    "prefix-cache": (_switch, "on or off"),
}


def parse_server(text: str) -> ServerSettings:
    """Return the settings that the words of `--server` state.

    Parameters
    ----------
    text
        ``KEY=VALUE[,KEY=VALUE…]`` with the keys of `specroof.hardware.SERVER_KEYS`.

    Raises
    ------
    OptionError
        For an unknown or doubled key, and a value out of range.

    Examples
    --------
    >>> parse_server("memory=0.85,overlap=off").stated
    {'memory': 0.85, 'overlap': False}
    """
    values: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not value:
            message = f"--server: {pair.strip()!r} is not understood; allowed: KEY=VALUE[,…]"
            raise OptionError(message)
        if key in values:
            message = f"--server: {key} is given twice; allowed: once"
            raise OptionError(message)
        values[key] = value
    return server_settings(values, where="--server")


def server_settings(values: Mapping[str, Any], *, where: str = "server") -> ServerSettings:
    """Return the settings that a mapping states, as studies and Python have it.

    Parameters
    ----------
    values
        By the keys of `specroof.hardware.SERVER_KEYS`; text, or values of the right type.
    where
        What messages call the place.

    Raises
    ------
    OptionError
        For an unknown key, and a value out of range.

    Examples
    --------
    >>> server_settings({"prefix-cache": False, "running": 64}).running
    64
    """
    read: dict[str, Any] = {}
    for key, value in values.items():
        if key not in _READ:
            message = f"{where}: unknown key {shown(key)}; allowed: {', '.join(_READ)}"
            raise OptionError(message)
        convert, allowed = _READ[key]
        try:
            read[SERVER_KEYS[key]] = convert(value) if isinstance(value, str) else value
        except (KeyError, ValueError):
            message = f"{where}: {key} is {value!r}; allowed: {allowed}"
            raise OptionError(message) from None
    return ServerSettings(**read)
