"""The load of a prediction: batch and context, or requests with input and output lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from specroof.architecture import Architecture
from specroof.cli.words import numbers
from specroof.errors import OptionError
from specroof.latency import Setup
from specroof.report import format_table
from specroof.solver import SpeedupCurve
from specroof.units import format_seconds
from specroof.workload import EndToEnd, Workload, end_to_end

__all__ = [
    "Batch",
    "Concurrency",
    "Context",
    "InputLen",
    "Load",
    "OutputLen",
    "counted_table",
    "load_of",
    "with_counted",
]

Batch = Annotated[
    str | None, typer.Option(help="Sequences in flight, comma-separated.", show_default="1")
]
Context = Annotated[
    str | None, typer.Option(help="Cached tokens each, comma-separated.", show_default="4096")
]
InputLen = Annotated[
    float | None,
    typer.Option(help="Tokens of a prompt: in the place of --context, and prefills are counted."),
]
OutputLen = Annotated[float | None, typer.Option(help="Tokens of an answer, with --input-len.")]
Concurrency = Annotated[
    str | None,
    typer.Option(help="Requests in flight, comma-separated: in the place of --batch."),
]


@dataclass(frozen=True, slots=True)
class Load:
    """What a prediction is for.

    Parameters
    ----------
    batch_size, context_len
        The axes of the grid.
    workload
        Requests, where they are asked for in the place of a context.
    """

    batch_size: Sequence[float]
    context_len: Sequence[float]
    workload: Workload | None = None

    def counted(
        self, curves: Sequence[SpeedupCurve], model: Architecture, setup: Setup
    ) -> list[EndToEnd]:
        """Return the curves with prefills counted; none where no workload was asked for."""
        if self.workload is None:
            return []
        return [end_to_end(curve, model, setup, self.workload) for curve in curves]


def load_of(
    *,
    batch: str | None,
    context: str | None,
    input_len: float | None,
    output_len: float | None,
    concurrency: str | None,
) -> Load:
    """Return the load that the words of a command ask for.

    Raises
    ------
    OptionError
        For both spellings of one thing, or half of a workload.
    """
    if batch is not None and concurrency is not None:
        message = "--batch and --concurrency are both given; allowed: one of them"
        raise OptionError(message)
    word, text = ("--batch", batch) if concurrency is None else ("--concurrency", concurrency)
    batches = numbers(word, "1" if text is None else text)
    if input_len is None and output_len is None:
        return Load(batches, numbers("--context", "4096" if context is None else context))
    if context is not None:
        message = "--context is given with --input-len or --output-len; allowed: one of them"
        raise OptionError(message)
    if input_len is None or output_len is None:
        missing = "--input-len" if input_len is None else "--output-len"
        message = f"{missing} is missing; allowed: both lengths of a request, or neither"
        raise OptionError(message)
    workload = Workload(input_len, output_len)
    return Load(batches, [workload.mean_context_len], workload)


def counted_table(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd]) -> str:
    """Return what is left of each best speedup with prefills counted."""
    header = ["batch", "decoding", "prefill", "best γ", "speedup", "tok/s", "drafter"]
    rows = []
    for curve, whole in zip(curves, counted, strict=True):
        for j, batch in enumerate(curve.batch_size):
            best = int(np.nanargmax(whole.speedup[0, j]))
            rows.append(
                [
                    f"{batch:g}",
                    f"{whole.effective_batch[0, j, best]:.1f}",
                    f"{whole.prefill_frac[0, j, best]:.1%}",
                    str(curve.draft_len[best]),
                    f"{whole.speedup[0, j, best]:.2f}x",
                    f"{whole.tokens_per_s[0, j, best]:.0f}",
                    curve.drafter,
                ]
            )
    title = f"prefills counted, {format_seconds(counted[0].wait_s)} a request:"
    return f"{title}\n{format_table(header, rows, left=[6])}"


def with_counted(
    found: dict[str, Any], workload: Workload, counted: Sequence[EndToEnd]
) -> dict[str, Any]:
    """Return the JSON object of a prediction with a workload's figures in it."""
    found["workload"] = {"input_len": workload.input_len, "output_len": workload.output_len}
    for drafter, whole in zip(found["drafters"], counted, strict=True):
        arrays = {
            name: _nested(getattr(whole, name))
            for name in ("tokens_per_s", "speedup", "prefill_frac", "effective_batch")
        }
        drafter["end_to_end"] = {"wait_s": whole.wait_s, **arrays}
    return found


def _nested(values: Any) -> Any:
    """Return an array as nested lists, NaN as None."""
    if np.ndim(values):
        return [_nested(part) for part in values]
    return None if np.isnan(values) else float(values)
