"""What a server is asked for: so many sequences, or requests as benchmarks state them."""

from collections.abc import Sequence
from dataclasses import dataclass

from specroof.arrays import number_within
from specroof.errors import expect
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
