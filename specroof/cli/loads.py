"""The load of a prediction: batch and context, or requests with input and output lengths."""

from typing import Annotated

import typer

from specroof.cli.flags import numbers
from specroof.errors import OptionError
from specroof.serving.requests import Load, Workload

__all__ = ["Batch", "Concurrency", "Context", "InputLen", "OutputLen", "load_of"]

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
