"""The record of one measured point, and of the source that printed it."""

from dataclasses import dataclass

__all__ = ["Measurement", "Source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a table of measurements comes from.

    Attributes
    ----------
    title, url
        Of the publication.
    trust
        How much its figures say about a roofline: 1 (most) to 5.
    setup
        On what they were measured.
    counts
        How its counts of drafts and its acceptance lengths were brought to ours.
    lengths
        Where prompts' and answers' lengths come from.
    """

    title: str
    url: str
    trust: int
    setup: str
    counts: str
    lengths: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured point; None where its source does not say.

    Attributes
    ----------
    source
        Name of the table that holds it.
    model, hardware
        As `specroof.load_model` and `specroof.load_hardware` know them.
    engine
        What served it.
    tensor_parallel
        Devices.
    method
        What drafted: ``"ar"`` for plain decoding, ``"step"`` for one bare pass.
    draft_len, verify_len
        Drafts in a row (the depth, of a tree), and positions that one round verifies.
    batch_size
        Sequences in flight.
    context_len, input_len, output_len
        Tokens: the mean context during decoding, the prompt, the answer.
    lengths
        ``"printed"``, or ``"presumed"`` from the kind of task.
    task
        The prompts, as far as points with one acceptance length share them.
    acceptance_length
        Tokens per round, the bonus token included.
    acceptance_kind
        ``"pooled"`` (tokens over rounds), ``"per-request"`` (a mean of ratios) or ``"unknown"``.
    tokens_per_s, baseline_tokens_per_s
        Of the whole batch, and of plain decoding in the same set-up.
    speedup
        As printed, over plain decoding.
    includes_prefill
        Whether the time is end to end.
    trust
        Of the source: 1 (most) to 5.
    reading
        How the figures were read: printed, computed, digitised or derived.
    note
        What else there is to know.
    """

    source: str
    model: str
    hardware: str
    engine: str
    method: str
    batch_size: float | None = None
    tensor_parallel: int | None = None
    draft_len: int | None = None
    verify_len: float | None = None
    context_len: float | None = None
    input_len: float | None = None
    output_len: float | None = None
    lengths: str | None = None
    task: str | None = None
    acceptance_length: float | None = None
    acceptance_kind: str | None = None
    tokens_per_s: float | None = None
    baseline_tokens_per_s: float | None = None
    speedup: float | None = None
    includes_prefill: bool = True
    trust: int = 2
    reading: str = "printed"
    note: str | None = None
