"""`specroof simulate`: the algorithm with dice, and a batch round by round."""

import typer

from specroof.cli import COMMANDS
from specroof.cli.flags import AsJson, Asked, Flag, drafter_flag, flags, numbers, shared
from specroof.cli.groups import Command, CommandGroup
from specroof.cli.output import give
from specroof.questions.simulate import (
    exactness_text,
    sampling_is_exact,
    times_of_batches,
    times_text,
)

simulate_app = typer.Typer(add_completion=False, cls=CommandGroup, help=COMMANDS["simulate"])


_SAMPLED = {
    "target": Flag("The target's distribution, as in 0.5,0.3,0.2.", read=numbers),
    "draft": Flag("The drafter's distribution.", read=numbers),
    "vocabulary": Flag("Tokens of random distributions."),
    "closeness": Flag("How alike random distributions are; 1 makes them equal."),
    "markov": Flag("Random distributions depend on the token before."),
    "draft_len": Flag("Drafts per round."),
    "n_tokens": Flag("Tokens to commit.", "--tokens"),
    **shared("seed"),
}
_DECODED = {
    **shared("model", "hardware"),
    "drafter": drafter_flag("As in predict."),
    "batch_size": Flag("Sequences at the start.", "--batch"),
    "context_len": Flag("Cached tokens of each.", "--context"),
    "draft_len": Flag("Drafts per round.", shown="the best"),
    "output_len": Flag("Tokens of each answer."),
    "n_batches": Flag("Batches to decode.", "--batches"),
    **shared("tensor_parallel", "engine", "seed"),
}


@simulate_app.callback(invoke_without_command=True)
@flags(sampling_is_exact, _SAMPLED)
def simulate(context: typer.Context, ask: Asked, as_json: AsJson = False) -> None:
    """Run speculative sampling on distributions and test its output against the target's."""
    if context.invoked_subcommand is not None:
        return
    found = sampling_is_exact(**ask)
    give(found.to_dict, lambda: exactness_text(found), as_json=as_json)


@simulate_app.command("batch", cls=Command)
@flags(times_of_batches, _DECODED)
def batch(ask: Asked, as_json: AsJson = False) -> None:
    """Decode batches round by round: time between tokens at the mean, p50, p95 and p99."""
    found = times_of_batches(**ask)
    give(found.to_dict, lambda: times_text(found), as_json=as_json)
