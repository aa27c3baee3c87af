"""What a server was told, and what it runs with: values only, no rule of any framework."""

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from specroof.arrays import real_number
from specroof.errors import refuse

#: Dtypes that frameworks keep recurrent state in.
_STATE_DTYPES: Final = ("fp32", "bf16", "fp16", "fp8")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a server.

    Parameters
    ----------
    field
        Of `ServerSettings`.
    read
        From its text to a value.
    fits, allowed
        What it may be, as a check and in words.
    """

    field: str
    read: Callable[[str], Any]
    fits: Callable[[Any], bool]
    allowed: str


def _is_share(value: Any) -> bool:
    return 0 < real_number(value) <= 1


def _is_whole(low: int) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return isinstance(value, numbers.Integral) and low <= real_number(value) <= 10_000_000

    return check


def _switch(field: str) -> Setting:
    words = {"on": True, "off": False, "true": True, "false": False}  # YAML has read its word
    return Setting(
        field,
        lambda text: words[text.lower()],
        lambda value: isinstance(value, bool),
        "on or off",
    )


#: Every setting, as `--server` and studies spell it.
SETTINGS: Final[Mapping[str, Setting]] = {
    "memory": Setting("memory_frac", float, _is_share, "a share above 0, up to 1"),
    "running": Setting("running", int, _is_whole(1), "a whole number of requests, at least 1"),
    "capture": Setting("capture", int, _is_whole(0), "a whole number, 0 for no graphs"),
    "overlap": _switch("overlap"),
    "chunk": Setting(
        "chunk", int, _is_whole(0), "a whole number of tokens, 0 for prompts in one piece"
    ),
    "mixed": _switch("mixed"),
    "state-dtype": Setting(
        "state_dtype", str, _STATE_DTYPES.__contains__, ", ".join(_STATE_DTYPES)
    ),
    "prefix-cache": _switch("prefix_cache"),
}
#: The fields of `ServerSettings` by the same keys.
SERVER_KEYS: Final[Mapping[str, str]] = {key: one.field for key, one in SETTINGS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What a user tells a server; None leaves a setting to the framework's default.

    Parameters
    ----------
    memory_frac
        Share of a device's memory that the server may fill: ``--mem-fraction-static`` of SGLang,
        ``--gpu-memory-utilization`` of vLLM.
    running
        Requests that are decoded together, at most.
    capture
        The largest batch that is recorded as a CUDA graph, in the framework's own unit: sequences
        for SGLang, tokens for vLLM. 0 records none.
    overlap
        Whether the host schedules the next batch while the device runs this one.
    chunk
        Tokens of a prompt that one pass takes; 0 takes it whole.
    mixed
        Whether chunks of prompts share passes with decoding.
    state_dtype
        Dtype of recurrent state.
    prefix_cache
        Whether the cache of finished requests is kept for others with the same beginning.

    Raises
    ------
    OptionError
        For a value out of range.

    Examples
    --------
    >>> ServerSettings(running=64).stated
    {'running': 64}
    """

    memory_frac: float | None = None
    running: int | None = None
    capture: int | None = None
    overlap: bool | None = None
    chunk: int | None = None
    mixed: bool | None = None
    state_dtype: str | None = None
    prefix_cache: bool | None = None

    def __post_init__(self) -> None:
        for key, setting in SETTINGS.items():
            value = getattr(self, setting.field)
            if value is not None and not setting.fits(value):
                refuse(f"server: {key}", value, setting.allowed)

    @property
    def stated(self) -> dict[str, Any]:
        """The settings that were stated, by the keys of `SERVER_KEYS`."""
        values = {key: getattr(self, name) for key, name in SERVER_KEYS.items()}
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a server runs with: every setting has a value.

    Parameters
    ----------
    framework, version
        Framework and release whose rules filled in what was not stated.
    memory_frac, running, capture, overlap, chunk, mixed, state_dtype, prefix_cache
        As in `ServerSettings`; `running` is None where nothing but memory limits it.
    stated
        What the user told it.
    synchronous
        Kinds of drafters whose rounds wait for the host although plain steps do not.
    """

    framework: str
    version: str
    memory_frac: float
    running: int | None
    capture: int
    overlap: bool
    chunk: int
    mixed: bool
    state_dtype: str
    prefix_cache: bool
    stated: ServerSettings = ServerSettings()
    synchronous: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON has them, keys spelt as in `--server`."""
        whose = {"framework": self.framework, "version": self.version}
        return whose | {key: getattr(self, name) for key, name in SERVER_KEYS.items()}
