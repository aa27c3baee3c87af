"""A measured operating point, and what no list of them may hold."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from specroof.errors import MeasurementError
from specroof.reading.yaml_text import shown

__all__ = ["BenchmarkPoint", "checked_point", "refuse_mixed", "refuse_repeats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPoint:
    """One measured operating point.

    Attributes
    ----------
    place
        File and line, for messages.
    batch_size
        Sequences in flight: as measured, where the file says so, and never more than there were
        requests or than the server runs at a time.
    concurrency
        Sequences in flight as they were asked for, which two runs of one load have in common;
        None if `batch_size` is that.
    context_len
        Mean cached tokens of each during decoding.
    tokens_per_s
        Output tokens of the whole batch.
    draft_len
        Drafts per round; 0 for plain decoding.
    tokens_per_round
        The measured acceptance length, bonus token included.
    input_len, output_len
        Of a request, where `tokens_per_s` includes its prefill.
    tool
        What served, as hardware files call engines; None where the file does not tell.
    model, tensor_parallel, expert_parallel
        As the file names them, if it does.
    algorithm, top_k
        What drafted, as the tool calls it, and how many children each node of a draft has: 1 in
        a chain. None where the file does not tell.
    quantization, kv_cache
        Of weights and of cached keys and values, as the tool calls them; None where the file
        leaves it to the checkpoint.
    """

    place: str
    batch_size: float
    context_len: float
    tokens_per_s: float
    concurrency: float | None = None
    draft_len: int = 0
    tokens_per_round: float | None = None
    input_len: float | None = None
    output_len: float | None = None
    tool: str | None = None
    model: str | None = None
    tensor_parallel: int | None = None
    expert_parallel: int | None = None
    algorithm: str | None = None
    top_k: int | None = None
    quantization: str | None = None
    kv_cache: str | None = None


#: What anybody serves, with room to spare. Beyond it are other units and slips of the pen.
_BOUNDS: Final = {
    "batch_size": (0.01, 1e6),
    "context_len": (1, 1e9),
    "input_len": (1, 1e9),
    "output_len": (1, 1e9),
    "draft_len": (0, 4096),
}


def checked_point(point: BenchmarkPoint) -> BenchmarkPoint:
    """Return a point whose figures somebody may have measured.

    Parameters
    ----------
    point
        What was read.

    Raises
    ------
    MeasurementError
        For a figure beyond what anybody serves, lengths that contradict one another, or an
        acceptance length that no round can have.
    """
    for name, (least, most) in _BOUNDS.items():
        value = getattr(point, name)
        if value is not None and not least <= value <= most:
            message = f"{point.place}: {name} is {shown(value)}; must be from {least:g} to {most:g}"
            raise MeasurementError(message)
    prompt, answer = point.input_len, point.output_len
    if prompt is not None and answer is not None:
        _refuse_other_context(point, prompt, prompt + answer)
    tokens = point.tokens_per_round
    if tokens is not None and not 1 <= tokens <= point.draft_len + 1:
        message = (
            f"{point.place}: acceptance length is {tokens:g} with {point.draft_len} drafts; must "
            f"be from 1 to {point.draft_len + 1}, the bonus token included"
        )
        raise MeasurementError(message)
    return point


def _refuse_other_context(point: BenchmarkPoint, least: float, most: float) -> None:
    """Refuse a mean context that a request does not have while it is decoded."""
    if not least <= point.context_len <= most:
        message = (
            f"{point.place}: context_len is {point.context_len:g}; must be from {least:g} to "
            f"{most:g}, from input_len to input_len + output_len"
        )
        raise MeasurementError(message)


def refuse_repeats(points: Iterable[BenchmarkPoint]) -> None:
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
        key = replace(point, place="")
        if key in seen:
            message = f"{point.place}: repeats {seen[key]}; each result may be there once"
            raise MeasurementError(message)
        seen[key] = point.place


def refuse_mixed(points: Iterable[BenchmarkPoint]) -> None:
    """Refuse results of several tools: no engine profile stands for both.

    Parameters
    ----------
    points
        Of one file, or of several together; those of no known tool go with any.

    Raises
    ------
    MeasurementError
        One line with a place of each.
    """
    first: BenchmarkPoint | None = None
    for point in points:
        if point.tool is None:
            continue
        first = first or point
        if point.tool != first.tool:
            message = (
                f"{point.place}: is of {point.tool}, and {first.place} of {first.tool}; allowed: "
                f"results of one tool, the others in a run of their own"
            )
            raise MeasurementError(message)
