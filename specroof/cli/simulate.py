"""`specroof simulate`: the algorithm with dice, and a batch round by round."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import numpy as np
import typer

from specroof import catalog, report
from specroof.acceptance import Acceptance, constant_acceptance
from specroof.cli.flags import AsJson, Engine, HardwareWord, ModelWord, TensorParallel, numbers, say
from specroof.drafters import Drafter
from specroof.drafters.base import chain_proposals
from specroof.errors import OptionError
from specroof.hardware import Placement
from specroof.simulate import (
    BatchSimulation,
    ExactnessResult,
    Spread,
    check_tokens,
    random_distributions,
    simulate_batch,
    simulate_exactness,
)
from specroof.speedup.curve import speedup_curve
from specroof.units import format_seconds

__all__ = ["simulate_app"]

simulate_app = typer.Typer(help="Show that speculative sampling is exact, and how times spread.")

Seed = Annotated[int, typer.Option(help="Of the dice.")]


@simulate_app.callback(invoke_without_command=True)
def simulate(  # noqa: PLR0913, PLR0917 - one parameter per flag
    context: typer.Context,
    target: Annotated[
        str | None, typer.Option(help="The target's distribution, as in 0.5,0.3,0.2.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="The drafter's, likewise.")] = None,
    vocabulary: Annotated[int, typer.Option(help="Of random distributions.")] = 16,
    closeness: Annotated[
        float, typer.Option(help="Of random distributions: 1 makes them equal.")
    ] = 0.5,
    markov: Annotated[
        bool, typer.Option("--markov", help="Random ones for each token before.")
    ] = False,
    draft_len: Annotated[int, typer.Option(help="Drafts per round.")] = 4,
    tokens: Annotated[int, typer.Option(help="Tokens to commit.")] = 200_000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Run speculative sampling on distributions and test its output against the target's."""
    if context.invoked_subcommand is not None:
        return
    if (target is None) != (draft is None):
        message = "--target and --draft belong together; allowed: both or neither"
        raise OptionError(message)
    if target is None or draft is None:
        pair = random_distributions(vocabulary, closeness, contexts=markov, seed=seed)
    else:
        pair = np.array(numbers("--target", target)), np.array(numbers("--draft", draft))
    result = simulate_exactness(*pair, draft_len=draft_len, n_tokens=tokens, seed=seed)
    say(report.json_line(asdict(result)) if as_json else _exactness(result))


@simulate_app.command("batch")
def batch(  # noqa: PLR0913, PLR0917 - one parameter per flag
    model: ModelWord,
    hardware: HardwareWord,
    drafter: Annotated[str, typer.Option(metavar="SPEC", help="As for predict.")],
    batch_size: Annotated[int, typer.Option("--batch", help="Sequences at the start.")] = 8,
    context: Annotated[float, typer.Option(help="Cached tokens each.")] = 4096,
    draft_len: Annotated[
        int | None, typer.Option(help="Drafts per round; the best one if left out.")
    ] = None,
    output_len: Annotated[int, typer.Option(help="Tokens of each answer.")] = 256,
    batches: Annotated[int, typer.Option(help="Batches to decode.")] = 200,
    tensor_parallel: TensorParallel = 1,
    engine: Engine = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Decode batches round by round: time between tokens at the mean, p50, p95 and p99."""
    loaded = catalog.load_drafter(drafter)
    acceptance = _chain_acceptance(loaded)
    check_tokens(batch_size, draft_len=draft_len or 0, output_len=output_len, n_batches=batches)
    curve = speedup_curve(
        catalog.load_model(model),
        catalog.load_hardware(hardware),
        drafter=loaded,
        batch_size=np.arange(1, batch_size + 1),
        context_len=context,
        max_draft_len=draft_len,
        placement=Placement(tensor_parallel),
        engine=engine,
    )
    length = int(curve.best_draft_len[0, -1]) if draft_len is None else draft_len
    runs = {
        drafted: simulate_batch(
            acceptance,
            curve.round_s[0, :, drafted],
            draft_len=drafted,
            output_len=output_len,
            n_batches=batches,
            seed=seed,
        )
        for drafted in dict.fromkeys((0, length))
    }
    if as_json:
        rows = [{"draft_len": drafted} | asdict(run) for drafted, run in runs.items()]
        words = {"model": curve.model, "hardware": curve.hardware, "drafter": curve.drafter}
        say(report.json_line({**words, "notes": list(curve.notes), "runs": rows}))
        return
    say(_batch(runs))
    for note in curve.notes:
        say(f"note: {note}")


def _chain_acceptance(drafter: Drafter) -> Acceptance:
    """Return how far the drafts of a chain survive; other proposals have no such curve."""
    if drafter.is_ideal:
        return constant_acceptance(1.0)
    if drafter.propose is not chain_proposals:
        message = (
            f"--drafter is {drafter.name!r}, which proposes no chain; allowed: a chain or block"
        )
        raise OptionError(message)
    if not isinstance(drafter.acceptance, Acceptance):
        message = f"drafter {drafter.name!r} has no acceptance; give one, as in accept=0.8"
        raise OptionError(message)
    return drafter.acceptance


def _exactness(result: ExactnessResult) -> str:
    """Return what was found, a line for each claim."""
    follows = "follow" if result.p_value >= 0.001 else "DO NOT follow"
    return "\n".join(
        [
            f"{result.n_tokens} tokens in {result.n_rounds} rounds",
            f"the tokens {follows} the target: chi-squared {result.chi_squared:.1f} at "
            f"{result.degrees_of_freedom} degrees of freedom, p = {result.p_value:.3f}",
            f"acceptance {result.acceptance_rate:.4f}, 1 - total variation distance "
            f"{result.expected_acceptance_rate:.4f} ({result.acceptance_z:+.1f} sigma)",
            f"tokens per round {result.tokens_per_round:.4f}, by the formula "
            f"{result.expected_tokens_per_round:.4f} ({result.tokens_per_round_z:+.1f} sigma)",
        ]
    )


def _batch(runs: dict[int, BatchSimulation]) -> str:
    header = ["draft length", "seconds", "mean", "p50", "p95", "p99"]
    rows = [
        [str(drafted), words, *_spread(spread)]
        for drafted, run in runs.items()
        for words, spread in (
            ("between tokens", run.between_tokens),
            ("between bursts", run.between_bursts),
            ("per token of an answer", run.per_token),
            ("whole batch", run.batch),
        )
    ]
    return report.format_table(header, rows, left=[1])


def _spread(spread: Spread) -> Sequence[str]:
    return [
        format_seconds(seconds)
        for seconds in (spread.mean_s, spread.p50_s, spread.p95_s, spread.p99_s)
    ]
