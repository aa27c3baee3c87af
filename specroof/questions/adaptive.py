"""What do draft lengths gain that follow the load, or the drafter's confidence?"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, fields_of, number_within, whole_within
from specroof.errors import OptionError, refuse
from specroof.hardware import Placement
from specroof.policies.adaptive import (
    LEAST_ROUNDS,
    BatchCosts,
    PolicyOutcome,
    best_fixed,
    fixed_rates,
    simulated_policies,
)
from specroof.questions.answer import Charted
from specroof.questions.request import (
    DRAFTER,
    FORMULAS,
    Command,
    DeploymentRequest,
    DrafterLike,
    Parameter,
    Values,
    as_list,
    drafter_of,
    numbers,
    question,
)
from specroof.questions.simulate import chain_acceptance, curve_of_shrinking_batches
from specroof.report.layout import format_table, page
from specroof.speedup.curve import draft_depth, longest_draft
from specroof.speedup.result import SpeedupCurve, best_index

#: The policies in closed form: one length for all loads, and one for each.
FIXED: Final = ("fixed", "by load")
#: The default share that confidence knows: it gives the gains that Finn 2026 simulates with the
#: confidences of an MTP layer (`tests/test_golden_adaptive.py`).
USUAL_CONFIDENCE: Final = 0.55
USUAL_LOADS: Final = (1, 8, 32, 128)
#: Drafts of all rounds of one load, and of each of its sequences, whose rounds have many options:
#: what memory and patience allow.
_MOST_DRAFTS: Final = 10_000_000
_MOST_DRAFTS_OF_ONE: Final = 1_000_000
_LATE: Final = (
    "a token-by-token drafter knows its confidence only after drafting, so stopping is attainable "
    "and the confidence policies are upper bounds"
)
#: A further draft that takes less than this share of the first is made in the same pass.
_SAME_PASS: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class AdaptiveRequest(DeploymentRequest):
    """Ask what adaptive draft lengths gain.

    Examples
    --------
    >>> from specroof import adaptive
    >>> found = adaptive("Qwen/Qwen3-8B", "h100", drafter="eagle3,accept=0.7", n_rounds=500)
    >>> list(found.outcomes)
    ['fixed', 'by load', 'stopping', 'batch confidence', 'sequence confidence', 'oracle']
    """

    drafter: Annotated[
        DrafterLike,
        replace(DRAFTER, about="KIND[,key=value…], as in predict: a chain or a block."),
    ]
    batch_size: Annotated[
        Values,
        Parameter(
            "Sequences decoded at a time, a number or a list. One that is named twice lasts twice "
            "as long.",
            "--batch",
            about_flag="Sequences decoded at a time, comma-separated. Name one twice to give it "
            "twice the weight.",
            read=numbers,
            default=",".join(map(str, USUAL_LOADS)),
        ),
    ] = USUAL_LOADS
    context_len: Annotated[float, Parameter("Cached tokens of each sequence.", "--context")] = 4096
    max_draft_len: Annotated[
        int | None, Parameter("Longest draft tried.", shown="the drafter's depth, up to 16")
    ] = None
    confidence: Annotated[
        float,
        Parameter(
            "Share of the variance of acceptance that the drafter's confidence explains, 0 to 1."
        ),
    ] = USUAL_CONFIDENCE
    n_rounds: Annotated[int, Parameter("Simulated rounds of single sequences.", "--rounds")] = (
        20_000
    )
    seed: Annotated[int, Parameter("Random seed.")] = 0


@dataclass(frozen=True, repr=False, eq=False)
class Adaptive(Charted):
    """What adaptive draft lengths gain.

    Attributes
    ----------
    model, hardware, engine, drafter
        Names.
    placement
        The devices.
    context_len, confidence
        As asked.
    loads
        Sequences decoded at a time, ascending, and how long each load lasts.
    plain_tokens_per_s
        Without drafts, by load.
    draft_len, load_draft_len
        The one length for all loads, and the best at each.
    outcomes
        What each policy reaches at each load.
    notes, warnings
        Sentences for the reader.
    """

    model: str
    hardware: str
    engine: str
    placement: Placement
    drafter: str
    context_len: float
    confidence: float
    loads: Mapping[int, int]
    plain_tokens_per_s: tuple[float, ...]
    draft_len: int
    load_draft_len: tuple[int, ...]
    outcomes: Mapping[str, tuple[PolicyOutcome, ...]]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return (
            f"{self.model} on {self.placement.devices} x {self.hardware}, engine {self.engine}, "
            f"context {self.context_len:g}: {self.drafter}"
        )

    def text(self) -> str:
        """Return the gain of each policy at each load, and the meaning of each policy."""
        return adaptive_text(self)

    def figures(self) -> dict[str, Any]:
        """Return the chart of the gain of each policy."""
        return {"": adaptive_chart(self)}

    def gains(self, policy: str) -> tuple[Array, Array]:
        """Return a policy's gain over the one length, load by load, and the standard errors.

        Parameters
        ----------
        policy
            One of `outcomes`.
        """
        rates = np.array([one.tokens_per_s for one in self.outcomes[policy]])
        errors = np.array([one.error for one in self.outcomes[policy]])
        fixed = np.array([one.tokens_per_s for one in self.outcomes["fixed"]])
        return rates / fixed - 1.0, errors / fixed

    def total_gain(self, policy: str) -> tuple[float, float]:
        """Return a policy's gain in tokens over all loads, and its standard error.

        Parameters
        ----------
        policy
            One of `outcomes`.
        """
        lasts = np.array(list(self.loads.values()))
        fixed = lasts * np.array([one.tokens_per_s for one in self.outcomes["fixed"]])
        gains, errors = self.gains(policy)
        total = fixed.sum()
        return float(fixed @ gains / total), float(np.linalg.norm(fixed * errors) / total)

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each policy and load."""
        return [
            {
                "policy": policy,
                "batch_size": load,
                **fields_of(outcome, "draft_len", "tokens_per_s"),
                "gain": gain,
                "gain_error": error,
            }
            for policy, outcomes in self.outcomes.items()
            for load, outcome, gain, error in zip(
                self.loads, outcomes, *map(np.ndarray.tolist, self.gains(policy)), strict=True
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return {
            **fields_of(self, "model", "hardware", "engine"),
            "placement": asdict(self.placement),
            **fields_of(self, "drafter", "context_len", "confidence"),
            "batch_size": list(self.loads),
            "weight": list(self.loads.values()),
            "plain_tokens_per_s": list(self.plain_tokens_per_s),
            "draft_len": self.draft_len,
            "load_draft_len": list(self.load_draft_len),
            "policies": [self._policy_json(name) for name in self.outcomes],
            **self.messages,
        }

    def _policy_json(self, name: str) -> dict[str, Any]:
        gains, errors = self.gains(name)
        total, error = self.total_gain(name)
        return {
            "policy": name,
            "tokens_per_s": [one.tokens_per_s for one in self.outcomes[name]],
            "draft_len": [one.draft_len for one in self.outcomes[name]],
            "gain": gains.tolist(),
            "gain_error": errors.tolist(),
            "total_gain": total,
            "total_gain_error": error,
        }


@question(AdaptiveRequest)
def adaptive(request: AdaptiveRequest) -> Adaptive:
    """Compare draft lengths that follow load or confidence with one length for all loads."""
    drafter = drafter_of(request.drafter)
    acceptance = chain_acceptance(drafter)
    loads, known = _loads(request), number_within("confidence", request.confidence, "share")
    longest = longest_draft(drafter, acceptance, request.max_draft_len)
    if not longest:
        refuse("max_draft_len", request.max_draft_len, "at least 1, since drafts are what adapts")
    if draft_depth(drafter, acceptance) < 1:  # a histogram of rounds without accepted drafts
        refuse("drafter", drafter.name, "an acceptance of at least 1 draft")
    n_rounds = whole_within("n_rounds", request.n_rounds, "simulated_len")
    seed = whole_within("seed", request.seed, "seed")
    _refuse_many(loads, longest, n_rounds)
    deployment = request.resolved()
    curve = curve_of_shrinking_batches(
        deployment, drafter, max(loads), request.context_len, longest
    )
    costs = [_costs(curve, load) for load in loads]
    survival = acceptance.survival(np.arange(1, costs[0].max_draft_len + 1))
    rates = np.array([fixed_rates(one, survival) for one in costs])
    one_length = best_fixed(rates, np.array(list(loads.values())))
    best = best_index(rates)
    fixed = _closed(rates, np.full(len(rates), one_length))
    changing = [
        simulated_policies(one, survival, known=known, n_rounds=n_rounds, seed=seed)
        for one in costs
    ]
    return Adaptive(
        **fields_of(curve, "model", "hardware", "engine", "placement", "drafter"),
        context_len=float(curve.context_len[0]),
        confidence=known,
        loads=loads,
        plain_tokens_per_s=tuple(rates[:, 0].tolist()),
        draft_len=one_length,
        load_draft_len=tuple(best.tolist()),
        outcomes=dict(zip(FIXED, (fixed, _closed(rates, best)), strict=True))
        | {name: tuple(one[name] for one in changing) for name in changing[0]},
        notes=(*curve.notes, *([] if costs[0].is_block else [_LATE])),
    )


def _loads(request: AdaptiveRequest) -> dict[int, int]:
    """Return the loads, ascending, and how long each lasts."""
    given = [number_within("batch_size", one, "batch_size") for one in as_list(request.batch_size)]
    for one in given:
        if not one.is_integer():
            refuse("batch_size", one, "whole numbers, which dice can be thrown for")
    if not given:
        message = "batch_size is empty; allowed: at least one load"
        raise OptionError(message)
    return dict(sorted(Counter(map(int, given)).items()))


def _refuse_many(loads: Iterable[int], longest: int, n_rounds: int) -> None:
    """Refuse more drafts than memory and patience allow, before anything is computed for them."""
    counted = f"n_rounds (at least {LEAST_ROUNDS} of each sequence) x draft_len"
    for load in loads:
        drafts = max(n_rounds, LEAST_ROUNDS * load) * longest
        most = min(_MOST_DRAFTS, _MOST_DRAFTS_OF_ONE * load)
        if drafts > most:
            refuse(counted, drafts, f"at most {most} drafts at a batch size of {load}")


def _costs(curve: SpeedupCurve, batch_size: int) -> BatchCosts:
    """Return the seconds of rounds of one batch, from those whose sequences are all alike.

    Raises
    ------
    OptionError
        For drafts that are made while the target verifies: then a round is no sum.
    """
    known = np.isfinite(curve.tokens_per_round[0, 0])  # to the depth of the drafter
    draft_s, verify_s, round_s = (
        one[0, :batch_size, known].T for one in (curve.draft_s, curve.verify_s, curve.round_s)
    )
    alone_s = draft_s[-1, 1:] + verify_s[-1, 1:]
    engine_s = round_s[-1, 1] - alone_s[0]
    if not np.allclose(round_s[-1, 1:], alone_s + engine_s, atol=0.0):
        message = f"drafter {curve.drafter!r} drafts while the target verifies; allowed: before it"
        raise OptionError(message)
    steps = np.diff(draft_s, axis=1).T
    return BatchCosts(
        verify_s=verify_s[-1],
        draft_step_s=np.concatenate([np.zeros((len(steps), 1)), steps], axis=1),
        engine_s=float(engine_s),
        is_block=bool(len(steps) > 1 and np.median(steps[1:, -1]) < _SAME_PASS * steps[0, -1]),
    )


def _closed(rates: Array, lengths: npt.NDArray[Any]) -> tuple[PolicyOutcome, ...]:
    """Return the outcome of fixed lengths, load by load, in closed form."""
    return tuple(
        PolicyOutcome(float(row[length]), 0.0, float(length))
        for row, length in zip(rates, lengths.tolist(), strict=True)
    )


# --- The gains of adaptive draft lengths, as a table ---------------------------------------------

#: What each policy does, for whoever reads the table.
_MEANING: Final = {
    "fixed": "one length for all loads, the one that makes most tokens",
    "by load": "the best length at each load",
    "stopping": "a sequence drafts on while its drafts so far are sure enough",
    "batch confidence": "one length for all, chosen each round from how sure its drafts are",
    "sequence confidence": "the drafts that are sure enough, chosen each round",
    "oracle": "drafts that will be accepted, as far as they pay: no policy can beat it",
}


def adaptive_text(answer: Adaptive) -> str:
    """Return the gain of each policy at each load, and the meaning of each policy."""
    header = ["policy", *(f"batch {load}" for load in answer.loads), "all loads"]
    plain = [f"{rate:.0f}" for rate in answer.plain_tokens_per_s]
    rows = [["tok/s without drafts", *plain, ""]]
    rows += [_row(answer, policy) for policy in answer.outcomes]
    most = max(float(answer.gains(policy)[1].max()) for policy in answer.outcomes)
    lengths = ", ".join(
        f"K={k} at {load}" for load, k in zip(answer.loads, answer.load_draft_len, strict=True)
    )
    means = [f"{name}: {_MEANING[name]}" for name in answer.outcomes]
    meaning = [
        f"fixed is K={answer.draft_len}, as a speedup over no drafts; the others are gains over fixed",
        f"by load is {lengths}",
        f"dice: ±{most:.1%} at most (one standard error); confidence knows {answer.confidence:.0%} of "
        f"the variance of acceptance",
        *means,
    ]
    return page(answer, format_table(header, rows), "\n".join(meaning))


def _row(answer: Adaptive, policy: str) -> list[str]:
    if policy == FIXED[0]:
        speedups = [
            one.tokens_per_s / plain
            for one, plain in zip(answer.outcomes[policy], answer.plain_tokens_per_s, strict=True)
        ]
        return [policy, *(f"{speedup:.2f}x" for speedup in speedups), ""]
    gains, _ = answer.gains(policy)
    cells = [f"{gain:+.1%}" for gain in gains.tolist()]
    return [policy, *cells, f"{answer.total_gain(policy)[0]:+.1%}"]


# --- The chart ------------------------------------------------------------------------------------


def adaptive_chart(answer: Adaptive) -> Any:
    """Draw the gain of each policy over the one length, with its standard error."""
    from specroof.plot import style  # noqa: PLC0415 - matplotlib is slow to import

    with style.house_style():
        chart = style.new_chart(answer.title, width=8, height=4.6)
        axes = chart.subplots()
        loads = list(answer.loads)
        axes.axhline(0, color=style.GREY, lw=1.2, ls=":")
        policies = [policy for policy in answer.outcomes if policy != "fixed"]
        for i, policy in enumerate(policies):
            gains, errors = answer.gains(policy)
            axes.errorbar(loads, gains, yerr=errors, **style.look(i), capsize=2)
        axes.set_xscale("log", base=2)
        axes.set_xticks(loads, [str(load) for load in loads])
        axes.minorticks_off()
        style.percent_ticks(axes.yaxis)
        axes.set_xlabel("Batch size (sequences)")
        axes.set_ylabel(f"Gain in tokens/s over a fixed draft length of {answer.draft_len}")
        style.add_legend(
            chart, [style.line_key(policy, **style.look(i)) for i, policy in enumerate(policies)]
        )
        return chart


COMMAND: Final = Command(
    question=adaptive,
    options=FORMULAS,
    chart="Draw the gain of each policy by load.",
    example="specroof adaptive Qwen/Qwen3-8B -H h100 --drafter eagle3,accept-length=2.8@3",
)
