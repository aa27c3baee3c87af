"""What a server is asked for: so many sequences, or requests as benchmarks state them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specroof.arrays import number_within
from specroof.errors import expect, reject
from specroof.hardware import ServerSettings
from specroof.hardware.engine import SETTINGS
from specroof.reading.yaml_text import shown
from specroof.units import plain_number


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests as benchmarks state them.

    Parameters
    ----------
    input_len, output_len
        Tokens of the prompt and of the answer.
    prefix_hit_rate
        Share of a prompt's tokens that the server has cached already; the last token of a prompt
        is computed whatever is cached.
    waves
        Whether requests come together: all at once, and the next when all of these are answered.
        If not, they are out of step: whoever has an answer asks again.

    Raises
    ------
    OptionError
        For a length or a share out of bounds.

    Examples
    --------
    >>> Workload(input_len=8192, output_len=1024).mean_context_len
    8704.0
    >>> Workload(input_len=8192, output_len=1024, prefix_hit_rate=0.75).new_len
    2048.0
    """

    input_len: float
    output_len: float
    prefix_hit_rate: float = 0.0
    waves: bool = False

    def __post_init__(self) -> None:
        for name in ("input_len", "output_len"):
            length = number_within(name, getattr(self, name), "request_len")
            object.__setattr__(self, name, length)  # a fraction has become a float
        share = number_within("prefix_hit_rate", self.prefix_hit_rate, "share")
        object.__setattr__(self, "prefix_hit_rate", share)
        expect("waves", self.waves, bool, "True or False")

    @property
    def mean_context_len(self) -> float:
        """Cached tokens while a request is decoded, on average: the prompt and half the answer."""
        return self.input_len + self.output_len / 2

    @property
    def new_len(self) -> float:
        """Tokens of a prompt that a prefill computes."""
        return max(self.input_len * (1 - self.prefix_hit_rate), 1.0)

    @property
    def cached_len(self) -> float:
        """Tokens of a prompt before them."""
        return self.input_len - self.new_len

    @property
    def requests(self) -> str:
        """What a request is, in words: "8192 tokens in, 1024 out"."""
        lengths = f"{plain_number(self.input_len)} tokens in, {plain_number(self.output_len)} out"
        cached = f", {self.prefix_hit_rate:.0%} of a prompt cached" if self.prefix_hit_rate else ""
        return lengths + cached + (", in waves" if self.waves else "")


@dataclass(frozen=True, slots=True)
class Load:
    """What a prediction is for.

    Parameters
    ----------
    batch_size, context_len
        The axes of the grid: sequences in flight, and cached tokens of each.
    workload
        Requests, where they are asked for in the place of a context.
    """

    batch_size: Sequence[float]
    context_len: Sequence[float]
    workload: Workload | None = None


def workload_json(workload: Workload | None) -> dict[str, Any]:
    """Return requests as the object that ``--json`` prints has them; nothing without any.

    Examples
    --------
    >>> workload_json(Workload(input_len=3000, output_len=500, prefix_hit_rate=0.5))
    {'workload': {'input_len': 3000, 'output_len': 500, 'prefix_hit_rate': 0.5, 'waves': False}}
    """
    if workload is None:
        return {}
    known = asdict(workload)
    waves = known.pop("waves")
    plain = {name: int(one) if one.is_integer() else one for name, one in known.items()}
    return {"workload": plain | {"waves": waves}}


# --- Settings of a server as text: `--server KEY=VALUE[,…]`, and a mapping in studies ------------


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
        read[setting.field] = (
            setting.parsed(f"{where}: {key}", value) if isinstance(value, str) else value
        )
    return ServerSettings(**read)
