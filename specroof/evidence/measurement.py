"""One measured operating point, and what no list of them may hold."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from specroof.arrays import number_within
from specroof.catalog import load_hardware, load_model
from specroof.errors import MeasurementError, reject
from specroof.hardware.engine import ServerSettings
from specroof.reading.yaml_text import bundled_yaml, shown

# --- Models and chips of measurements, each read once: hundreds of points share a dozen of them --

#: A chip by the name that a measurement has for it; see `specroof.load_hardware`.
chip_of: Final = cache(load_hardware)

#: A model by the name that a measurement has for it; see `specroof.load_model`.
model_of: Final = cache(load_model)


#: What other software calls formats, drafters, servers and figures.
NAMES: Final = bundled_yaml(__file__, "names.yaml")

#: The `method` of a bare pass over `verify_len` new positions, with no round around it.
STEP: Final = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured operating point; None where the source does not say.

    Attributes
    ----------
    place
        File and line, for messages.
    source
        The bundled table, or the file, that it stands in.
    tokens_per_s
        Output tokens of the whole batch; for a bare pass the batch size over its seconds.
    baseline_tokens_per_s, speedup
        The same without drafts, and the ratio, where the source prints one beside it.
    includes_prefill
        Whether the time of prompts is in `tokens_per_s`.
    batch_size
        Sequences in flight: as measured, where the file says so, and never more than there were
        requests or than the server runs at a time.
    concurrency
        Sequences in flight as they were asked for, which two runs of one load have in common;
        None if `batch_size` is that.
    requests
        How many ended in the run.
    context_len, input_len, output_len
        Tokens of a request: mean while it is decoded, prompt, answer.
    shortest
        Lengths are drawn evenly from this share of `input_len` and `output_len` to the whole; 1 if
        all requests have one length.
    tpot_s, ttft_s
        Seconds of a token after the first, with the prefills of other requests in them, and seconds
        to the first: mean or median over requests.
    method
        What drafted, as SPECs or the tool call it; `STEP` for a bare pass.
    draft_len
        Drafts per round, the depth of a tree; 0 for plain decoding, None where drafts are made
        and the source does not say how many.
    says_drafts
        Whether the source says if anything was drafted.
    verify_len
        Positions verified per sequence, the root included; new positions of a bare pass.
    head_len
        Positions of a bare pass that go through the LM head; None for all of them.
    top_k
        Children of each node of a draft: 1 in a chain.
    draft_s, draft_share
        Seconds of drafting alone in a round, or its share of drafting and verification together.
    tokens_per_round
        The measured acceptance length, bonus token included.
    acceptance_kind
        Over what it is a mean: ``"pooled"`` rounds, ``"per-request"``, or ``"unknown"``.
    model, hardware, engine
        By the names that `load_model`, `load_hardware` and an engine profile have.
    engine_version
        What a source says of the version that ran with drafts and without; empty if it does not.
    date
        Day of the run, YYYY-MM-DD; empty where the source has none.
    tensor_parallel, expert_parallel, attention_data_parallel
        Devices that the model, and its experts, were split over; groups of devices whose attention
        runs separate sequences.
    quantization, kv_cache
        Of weights and of cached keys and values, as the tool calls them; None where the file
        leaves it to the checkpoint.
    file, model_params, model_bytes
        The file of the weights; weights in it, and their bytes.
    gpus, gpu_layers
        GPUs of the machine, as their driver calls them, and how many layers they compute, the
        output as one of them: infinite for all, 0 where a CPU alone works.
    server
        What the server was told, as far as the file says; None where it does not.
    decode_workers, prefill_workers
        Servers that decode, and others that compute prompts; None where each does both. The
        placement is then that of a decode worker.
    prefill_tensor_parallel, prefill_expert_parallel, prefill_attention_data_parallel
        The placement of a prefill worker.
    trust
        The trust order of a bundled source: 1 to 3 calibrate, larger ones do not.
    lengths, reading, note, task
        How lengths and figures were read, what else there is to say, and what was asked.
    """

    place: str
    source: str = ""
    tokens_per_s: float | None = None
    baseline_tokens_per_s: float | None = None
    speedup: float | None = None
    draft_s: float | None = None
    draft_share: float | None = None
    includes_prefill: bool = False
    batch_size: float | None = None
    concurrency: float | None = None
    requests: int | None = None
    context_len: float | None = None
    input_len: float | None = None
    output_len: float | None = None
    shortest: float = 1.0
    tpot_s: float | None = None
    ttft_s: float | None = None
    method: str | None = None
    draft_len: int | None = 0
    says_drafts: bool = True
    verify_len: int | None = None
    head_len: int | None = None
    top_k: int | None = None
    tokens_per_round: float | None = None
    acceptance_kind: str | None = None
    model: str | None = None
    hardware: str | None = None
    engine: str | None = None
    engine_version: str = ""
    date: str = ""
    tensor_parallel: int | None = None
    expert_parallel: int | None = None
    attention_data_parallel: int | None = None
    quantization: str | None = None
    kv_cache: str | None = None
    file: str = ""
    model_params: int | None = None
    model_bytes: int | None = None
    gpus: str | None = None
    gpu_layers: float | None = None
    server: ServerSettings | None = None
    decode_workers: int | None = None
    prefill_workers: int | None = None
    prefill_tensor_parallel: int | None = None
    prefill_expert_parallel: int | None = None
    prefill_attention_data_parallel: int | None = None
    trust: int | None = None
    lengths: str = ""
    reading: str = ""
    note: str = ""
    task: str = ""

    @property
    def drafts(self) -> bool:
        """Whether anything was drafted."""
        return self.draft_len != 0

    @property
    def branches(self) -> bool:
        """Whether its drafts are a tree: several children, or more drafts than it is deep."""
        return (self.top_k or 1) > 1 or (self.verify_len or 0) > (self.draft_len or 0) + 1

    @property
    def rate(self) -> float:
        """`tokens_per_s` as a number: NaN where the source is silent."""
        return math.nan if self.tokens_per_s is None else self.tokens_per_s

    @property
    def rows(self) -> float:
        """Tokens of all sequences in a pass, which is the number of rows of its products."""
        return (self.batch_size or 1.0) * (self.verify_len or 1)

    @property
    def pass_s(self) -> float | None:
        """Seconds of a bare pass; None of anything else."""
        return (self.batch_size or 1) / self.rate if self.method == STEP else None

    @property
    def measured_speedup(self) -> float | None:
        """The speedup that a source prints, or the ratio of the throughputs that it prints."""
        if self.tokens_per_s is not None and self.baseline_tokens_per_s is not None:
            return self.tokens_per_s / self.baseline_tokens_per_s
        return self.speedup


def answered(place: str, prompt: float, answer: float, tokens_per_s: float) -> Measurement:
    """Return a point of requests, whose mean context is the prompt and half of the answer."""
    return Measurement(
        place=place,
        context_len=prompt + answer / 2,
        tokens_per_s=tokens_per_s,
        input_len=prompt,
        output_len=answer,
        includes_prefill=True,
    )


#: Bounds of plausible measurements. Beyond them are other units and slips of the pen.
_PLAUSIBLE: Final = {
    "batch_size": "measured_batch_size",
    "context_len": "measured_len",
    "input_len": "measured_len",
    "output_len": "measured_len",
    "draft_len": "measured_draft_len",
}


def plausible(point: Measurement) -> Measurement:
    """Return a point whose figures are plausible.

    Parameters
    ----------
    point
        What was read.

    Raises
    ------
    MeasurementError
        For an implausible figure, lengths that contradict one another, or an
        acceptance length that no round can have.
    """
    for field, quantity in _PLAUSIBLE.items():
        value = getattr(point, field)
        if value is not None:
            name = f"{point.place}: {field}"
            number_within(name, value, quantity, error=MeasurementError, show=shown)
    prompt, answer, context = point.input_len, point.output_len, point.context_len
    if prompt is not None and answer is not None and context is not None:
        longest = prompt + answer
        if not prompt <= context <= longest:
            reject(
                f"{point.place}: context_len is {context:g}",
                f"from {prompt:g} to {longest:g}, from input_len to input_len + output_len",
                MeasurementError,
            )
    tokens, drafts = point.tokens_per_round, point.draft_len or 0
    if tokens is not None and not 1 <= tokens <= drafts + 1:
        reject(
            f"{point.place}: acceptance length is {tokens:g} with {drafts} drafts",
            f"from 1 to {drafts + 1}, the bonus token included",
            MeasurementError,
        )
    return point


def refuse_repeats(points: Iterable[Measurement]) -> None:
    """Refuse a result that is there twice.

    Parameters
    ----------
    points
        Of one file, or of several together.

    Raises
    ------
    MeasurementError
        One line with both places.
    """
    seen: dict[Any, str] = {}
    for point in points:
        key = replace(point, place="", source="")
        if key in seen:
            message = f"{point.place}: repeats {seen[key]}; each result may be there once"
            raise MeasurementError(message)
        seen[key] = point.place


def refuse_mixed(points: Iterable[Measurement]) -> None:
    """Refuse results of several tools: no engine profile stands for both.

    Parameters
    ----------
    points
        Of one file, or of several together; those of no known engine go with any.

    Raises
    ------
    MeasurementError
        One line with a place of each.
    """
    first: Measurement | None = None
    for point in points:
        if point.engine is None:
            continue
        first = first or point
        if point.engine != first.engine:
            reject(
                f"{point.place}: is of {point.engine}, and {first.place} of {first.engine}",
                "results of one tool, the others in a separate run",
                MeasurementError,
            )
