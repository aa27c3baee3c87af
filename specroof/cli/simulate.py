"""`specroof simulate`: the algorithm with dice, and a batch round by round."""

from dataclasses import dataclass
from typing import Annotated

import typer

from specroof.cli.flags import (
    AsJson,
    Engine,
    Group,
    OneChip,
    Read,
    Seed,
    TensorParallel,
    spec_option,
)
from specroof.cli.grouping import flags, given
from specroof.cli.groups import Command, CommandGroup
from specroof.cli.lists import numbers
from specroof.cli.output import give
from specroof.questions.simulate import sampling_is_exact, times_of_batches
from specroof.report.simulation import exactness_text, times_text

simulate_app = typer.Typer(
    add_completion=False,
    cls=CommandGroup,
    help="Check by simulation that speculative sampling is exact, and how latency varies.",
)


@dataclass(frozen=True, kw_only=True)
class _Sampled(Group):
    """Fields of `specroof.questions.simulate.ExactRequest`."""

    target: Annotated[
        str | None,
        typer.Option(help="The target's distribution, as in 0.5,0.3,0.2."),
        Read(numbers),
    ] = None
    draft: Annotated[
        str | None, typer.Option(help="The drafter's distribution."), Read(numbers)
    ] = None
    vocabulary: Annotated[int, typer.Option(help="Tokens of random distributions.")] = 16
    closeness: Annotated[
        float, typer.Option(help="How alike random distributions are; 1 makes them equal.")
    ] = 0.5
    markov: Annotated[
        bool, typer.Option("--markov", help="Random distributions depend on the token before.")
    ] = False
    draft_len: Annotated[int, typer.Option(help="Drafts per round.")] = 4
    n_tokens: Annotated[int, typer.Option("--tokens", help="Tokens to commit.")] = 200_000
    seed: Seed = 0


@simulate_app.callback(invoke_without_command=True)
@flags
def simulate(context: typer.Context, ask: _Sampled, as_json: AsJson = False) -> None:
    """Run speculative sampling on distributions and test its output against the target's."""
    if context.invoked_subcommand is not None:
        return
    found = sampling_is_exact(**given(ask))
    give(found.to_dict, lambda: exactness_text(found), as_json=as_json)


@dataclass(frozen=True, kw_only=True)
class _Decoded(OneChip):
    """Fields of `specroof.questions.simulate.TimesRequest`."""

    drafter: Annotated[str, spec_option("As in predict.")]
    batch_size: Annotated[int, typer.Option("--batch", help="Sequences at the start.")] = 8
    context_len: Annotated[float, typer.Option("--context", help="Cached tokens of each.")] = 4096
    draft_len: Annotated[
        int | None, typer.Option(help="Drafts per round.", show_default="the best")
    ] = None
    output_len: Annotated[int, typer.Option(help="Tokens of each answer.")] = 256
    n_batches: Annotated[int, typer.Option("--batches", help="Batches to decode.")] = 200
    tensor_parallel: TensorParallel = 1
    engine: Engine = None
    seed: Seed = 0


@simulate_app.command("batch", cls=Command)
@flags
def batch(ask: _Decoded, as_json: AsJson = False) -> None:
    """Decode batches round by round: time between tokens at the mean, p50, p95 and p99."""
    found = times_of_batches(**given(ask))
    give(found.to_dict, lambda: times_text(found), as_json=as_json)
