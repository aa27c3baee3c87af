"""A curve with its prefills counted: seconds of requests, and what of a speedup is left."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array
from specroof.serving.capacity import PrefillRules
from specroof.serving.workload import Workload
from specroof.speedup.result import SpeedupCurve


@dataclass(frozen=True, slots=True, eq=False)
class WorkerLoads:
    """How busy workers of prefill and of decoding are; axes as in the curve.

    Parameters
    ----------
    devices
        Devices of all workers.
    decode_batch
        Requests that each decode worker has, on average.
    prefill_s, transfer_s
        Seconds of a request at the prefill workers, waiting included, and of its cache's transfer.
    prefill_busy, link_busy
        Shares of the prompts, and of the caches, that the prefill workers and the link can take.
    """

    devices: int
    decode_batch: Array
    prefill_s: Array
    transfer_s: Array
    prefill_busy: Array
    link_busy: Array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EndToEnd:
    """What of a speedup is left where prefills are counted; axes as in the curve.

    Parameters
    ----------
    workload
        The requests.
    wait_s, latency_s
        Seconds from the start of a prompt that is prefilled alone to its first token, and those
        that each request loses alone.
    curve
        The same operating points with requests in their rounds: each round is longer by what these
        add to its tokens. Its speedup is over plain decoding with the same prefills.
    decoding_round_s
        Seconds of a round without what requests add; the last round of an answer is half used.
    delay_s
        Seconds by which each request delays all that run, wherever its prompt is computed.
    first_s
        Seconds from a request's start to its first token, waiting for room not counted.
    rules
        How the server takes prompts where requests draft.
    workers
        How busy workers are; None where one server computes prompts and decodes.
    """

    workload: Workload
    wait_s: float
    latency_s: float
    curve: SpeedupCurve
    decoding_round_s: Array
    delay_s: Array
    first_s: Array
    rules: PrefillRules
    workers: WorkerLoads | None = None

    def __repr__(self) -> str:
        """Return one line: arrays are looked at by name."""
        return f"<EndToEnd: {self.workload.requests}; {self.curve!r}>"

    @property
    def tokens_per_s(self) -> Array:
        """Output tokens per second of the whole batch, prefill included."""
        return self.curve.tokens_per_s

    @property
    def requests_per_s(self) -> Array:
        """Requests that end in a second."""
        return np.asarray(self.curve.tokens_per_s / self.workload.output_len)

    @property
    def service_s(self) -> Array:
        """Seconds of a request that runs, from its start to its last token."""
        return np.asarray(self.workload.output_len / self.curve.tokens_per_s_per_user)

    @property
    def answer_s(self) -> Array:
        """Seconds from sending a request to its last token, waiting for room included.

        Source
            Little 1961, Oper. Res. 9(3): requests in flight over those that end in a second.
        """
        return np.asarray(self.curve.batch_size[None, :, None] / self.requests_per_s)

    @property
    def queue_s(self) -> Array:
        """Seconds that a request waits for room: exactly 0 where all run."""
        waiting = self.curve.batch_size[None, :, None] - self.curve.running_batch
        return np.asarray(waiting / self.requests_per_s)

    @property
    def ttft_s(self) -> Array:
        """Seconds from sending a request to its first token, waiting for room included.

        Ignores
            the transfer of text, unless the engine's `request_latency_s` holds it.
        Source
            Counting: an answer, less the time of a request that runs, is the wait for room.
        """
        return np.asarray(self.answer_s - self.service_s + self.first_s)

    @property
    def tpot_s(self) -> Array:
        """Mean seconds of a token after the first; NaN for answers of one token.

        Source
            Counting: the first token and the others of these make an answer.
        """
        later = self.workload.output_len - 1
        decoding_s = self.service_s - self.first_s
        return np.asarray(decoding_s / (later if later > 0 else np.nan))

    @property
    def figure_ends(self) -> dict[str, tuple[Array, Array] | None]:
        """The ends of the bands of throughput, TTFT and TPOT by name; None without a band.

        Source
            `specroof.speedup.result.SpeedupCurve.figure_ends`.
        """
        more, less, neither = q.TOKENS_PER_S.name, q.TPOT.name, q.TTFT.name
        grows: dict[str, Literal[-1, 0, 1]] = {more: 1, neither: 0, less: -1}
        ends = self.curve.figure_ends
        return {
            name: ends(self._banded_as(name), getattr(self, name), per_speedup=sign)
            for name, sign in grows.items()
        }

    def _banded_as(self, figure: str) -> str:
        """Return which of `specroof.hardware.engine.SERVED_FIGURES` has the band of a figure."""
        return figure

    @property
    def prefill_frac(self) -> Array:
        """Share of the time that goes into prefills."""
        return np.asarray(self.curve.running_batch * self.delay_s / self.service_s)

    @property
    def effective_batch(self) -> Array:
        """Requests that are being decoded at a time, on average.

        The others wait for their prompt, or are on their way.

        Source
            Little 1961, Oper. Res. 9(3).
        """
        return np.asarray(self.curve.running_batch * (1 - self.first_s / self.service_s))

    @property
    def speedup(self) -> Array:
        """Speedup over plain decoding with the same prefills; [..., 0] is 1."""
        return self.curve.speedup
