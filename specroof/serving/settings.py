"""Settings of a server as text: `--server KEY=VALUE[,…]`, and a mapping in studies."""

from collections.abc import Mapping
from typing import Any

from specroof.errors import refuse, reject
from specroof.hardware import ServerSettings
from specroof.hardware.server import SETTINGS
from specroof.reading.yaml_text import shown


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
            reject(f"--server: {pair.strip()!r} is not understood", "KEY=VALUE[,…]")
        if key in values:
            reject(f"--server: {key} is given twice", "once")
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
        if key not in SETTINGS:
            reject(f"{where}: unknown key {shown(key)}", ", ".join(SETTINGS))
        setting = SETTINGS[key]
        try:
            read[setting.field] = setting.read(value) if isinstance(value, str) else value
        except (KeyError, ValueError):
            refuse(f"{where}: {key}", value, setting.allowed)
    return ServerSettings(**read)
