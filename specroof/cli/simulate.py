"""`specroof simulate`: the algorithm with dice, and a batch round by round."""

from typing import Annotated

import typer

from specroof.cli.flags import AsJson, Engine, HardwareWord, ModelWord, Seed, TensorParallel
from specroof.cli.grouping import flags
from specroof.cli.lists import numbers
from specroof.cli.output import give
from specroof.questions.simulate import sampling_is_exact, times_of_batches
from specroof.report.simulation import exactness_text, times_text

__all__ = ["simulate_app"]

simulate_app = typer.Typer(help="Show that speculative sampling is exact, and how times spread.")


@simulate_app.callback(invoke_without_command=True)
@flags
def simulate(  # noqa: PLR0913, PLR0917 - one parameter per flag
    context: typer.Context,
    target: Annotated[
        str | None, typer.Option(help="The target's distribution, as in 0.5,0.3,0.2.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="The drafter's distribution.")] = None,
    vocabulary: Annotated[int, typer.Option(help="Tokens of random distributions.")] = 16,
    closeness: Annotated[
        float, typer.Option(help="How alike random distributions are; 1 makes them equal.")
    ] = 0.5,
    markov: Annotated[
        bool, typer.Option("--markov", help="Random distributions depend on the token before.")
    ] = False,
    draft_len: Annotated[int, typer.Option(help="Drafts per round.")] = 4,
    n_tokens: Annotated[int, typer.Option("--tokens", help="Tokens to commit.")] = 200_000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Run speculative sampling on distributions and test its output against the target's."""
    if context.invoked_subcommand is not None:
        return
    found = sampling_is_exact(
        numbers("--target", target),
        numbers("--draft", draft),
        vocabulary=vocabulary,
        closeness=closeness,
        markov=markov,
        draft_len=draft_len,
        n_tokens=n_tokens,
        seed=seed,
    )
    give(found.to_dict, lambda: exactness_text(found), as_json=as_json)


@simulate_app.command("batch")
@flags
def batch(  # noqa: PLR0913, PLR0917 - one parameter per flag
    model: ModelWord,
    hardware: HardwareWord,
    drafter: Annotated[str, typer.Option(metavar="SPEC", help="As in predict.")],
    batch_size: Annotated[int, typer.Option("--batch", help="Sequences at the start.")] = 8,
    context_len: Annotated[float, typer.Option("--context", help="Cached tokens of each.")] = 4096,
    draft_len: Annotated[
        int | None, typer.Option(help="Drafts per round.", show_default="the best")
    ] = None,
    output_len: Annotated[int, typer.Option(help="Tokens of each answer.")] = 256,
    n_batches: Annotated[int, typer.Option("--batches", help="Batches to decode.")] = 200,
    tensor_parallel: TensorParallel = 1,
    engine: Engine = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Decode batches round by round: time between tokens at the mean, p50, p95 and p99."""
    found = times_of_batches(
        model,
        hardware,
        drafter=drafter,
        batch_size=batch_size,
        context_len=context_len,
        draft_len=draft_len,
        output_len=output_len,
        n_batches=n_batches,
        tensor_parallel=tensor_parallel,
        engine=engine,
        seed=seed,
    )
    give(found.to_dict, lambda: times_text(found), as_json=as_json)
