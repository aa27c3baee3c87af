"""From a measurement to the passes behind it, and from their seconds to its throughput."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.cost import ForwardPass
from specroof.drafters import (
    Drafter,
    Price,
    Round,
    dflash_drafter,
    eagle3_drafter,
    eagle_drafter,
    model_drafter,
    mtp_drafter,
)
from specroof.evidence.bundled import Measurement
from specroof.evidence.places import model_of
from specroof.hardware import EngineProfile
from specroof.serving.requests import prefill_pass, request_token_s

__all__ = [
    "METHODS",
    "PLAIN",
    "Seconds",
    "Throughput",
    "committed_tokens",
    "lengths",
    "round_seconds",
    "throughput",
]

Array = npt.NDArray[np.float64]

#: Methods without a round: plain decoding, and one bare pass over the new positions.
PLAIN: Final = ("ar", "step")

#: The drafter that a method stands for, with the usual sizes for its target. Domino drafts a block
#: with the layers of DFlash; the independent draft model of the one source that has one is named.
_DRAFTERS: Final[dict[str, Callable[[], Drafter]]] = {
    "mtp": mtp_drafter,
    "eagle": eagle_drafter,
    "eagle3": eagle3_drafter,
    "dflash": dflash_drafter,
    "domino": dflash_drafter,
    "draft_model": lambda: model_drafter(model_of("Qwen/Qwen3-0.6B")),
}

#: Methods whose rounds can be priced.
METHODS: Final = tuple(_DRAFTERS)

#: A mean over requests counts short ones as much as long ones. The one table that prints both
#: has 5.34 over requests for 4.65 over rounds (a 27B target on GSM8K).
_POOLED_SHARE: Final = 4.65 / 5.34

#: Share of the drafts that counts as accepted where the acceptance length is not known.
_PRESUMED_ACCEPTANCE: Final = 0.45

#: Tokens of prompt and answer where a source says neither.
_PRESUMED_LENGTHS: Final = (200.0, 1000.0)


class TargetPrice(Protocol):
    """Seconds of a pass of the target."""

    def __call__(self, forward_pass: ForwardPass, /) -> Array:
        """Return them."""


@dataclass(frozen=True, slots=True, eq=False)
class Seconds:
    """What a measured point takes, part by part.

    Parameters
    ----------
    decode_s
        The plain step.
    prefill_s
        Of one request; 0 where the figure leaves it out.
    verify_s, draft_s
        Of one round; None for plain decoding.
    """

    decode_s: Array
    prefill_s: Array
    verify_s: Array | None = None
    draft_s: Array | None = None


@dataclass(frozen=True, slots=True)
class Throughput:
    """Tokens per second of the whole batch.

    Parameters
    ----------
    plain
        Without speculation.
    speculative
        With it, right but for a factor where the acceptance length is not known; None if plain.
    """

    plain: float
    speculative: float | None = None

    @property
    def speedup(self) -> float | None:
        """The ratio of the two."""
        return None if self.speculative is None else self.speculative / self.plain


def lengths(point: Measurement) -> tuple[float, float, float]:
    """Return prompt, answer and mean context of a request, as stated or presumed."""
    prompt, answer = _PRESUMED_LENGTHS
    prompt = point.input_len or prompt
    answer = point.output_len or answer
    return prompt, answer, point.context_len or prompt + answer / 2


def round_seconds(
    point: Measurement, model: Architecture, target: TargetPrice, draft: Price
) -> Seconds:
    """Return what the passes behind a measurement take.

    Parameters
    ----------
    point
        What was measured.
    model
        The model it was measured on.
    target, draft
        Prices of the target's and of the drafter's passes.

    Counts
        the plain step at the mean context; a prefill of each request where the figure includes
        it; the verification of every node of a tree, and a drafter of the usual sizes.
    Ignores
        how contexts differ within the batch, and prefills that share a pass with decoding.
    Source
        SGLang `bench_serving`, vLLM `bench serve`: output tokens over wall-clock time.
    """
    batch = float(point.batch_size or 0)
    prompt, _, context = lengths(point)
    if point.method == "step":
        return Seconds(
            target(ForwardPass(batch, float(point.verify_len or 0), context)), np.zeros(())
        )
    prefill_s = np.zeros(())
    if point.includes_prefill:
        prefill_s = target(prefill_pass(prompt))
    decode_s = target(ForwardPass(batch, 1.0, context))
    if point.method in PLAIN:
        return Seconds(decode_s, prefill_s)
    verify_s = target(ForwardPass(batch, float(point.verify_len or 0), context))
    time = _DRAFTERS[point.method]().draft(
        Round(
            draft_len=np.array(float(point.draft_len or 0)),
            batch_size=np.array(batch),
            context_len=np.array(context),
            tokens_per_round=np.array(committed_tokens(point)),
            decode_s=decode_s,
            verify_s=verify_s,
            cost_of="decode",
            price=draft,
            target=model,
        )
    )
    return Seconds(decode_s, prefill_s, verify_s, time.serial_s)


def committed_tokens(point: Measurement) -> float:
    """Return tokens per round over all requests together, as throughput follows them."""
    if point.acceptance_length is None:
        return 1.0 + _PRESUMED_ACCEPTANCE * float(point.draft_len or 0)
    if point.acceptance_kind == "per-request":
        return point.acceptance_length * _POOLED_SHARE
    return point.acceptance_length


def throughput(point: Measurement, seconds: Seconds, engine: EngineProfile) -> Throughput:
    r"""Return the throughput that an engine reaches with passes of these seconds.

    .. math:: \frac{B L}{L \, t_1 + t_{wait}} \qquad \frac{B L}{L \, t_{round} / N + t_{wait}}
        \qquad t_{wait} = B \, (t_{prefill} + t_{request}) + t_{latency}

    Parameters
    ----------
    point
        B, the answer's length L and the acceptance length N, which is presumed if unknown.
    seconds
        Of its passes.
    engine
        What a round and a request cost beside them.

    Source
        Counting: B requests of L tokens each, every one of which keeps the batch waiting once and
        is on its way for a while of its own.
    """
    batch = float(point.batch_size or 0)
    _, answer, _ = lengths(point)
    added_s = 0.0
    if point.includes_prefill:
        added_s = float(
            request_token_s(
                batch,
                wait_s=float(seconds.prefill_s) + engine.request_overhead_s,
                output_len=answer,
                latency_s=engine.request_latency_s,
            )
        )
    plain = batch / (float(seconds.decode_s) + added_s)
    if seconds.verify_s is None or seconds.draft_s is None:
        return Throughput(plain)
    round_s = (
        float(seconds.verify_s)
        + float(seconds.draft_s)
        + engine.round_overhead_s
        + engine.round_sequence_overhead_s * batch
    )
    return Throughput(plain, batch / (round_s / committed_tokens(point) + added_s))
