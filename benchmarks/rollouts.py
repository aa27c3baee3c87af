"""Published rollouts beside predictions, each with what its source leaves out.

    python benchmarks/rollouts.py [--json]

Where a source prints no distribution of lengths, a lognormal law stands in, and the range of the
prediction over laws and batches that fit the source is printed, not one number.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from specroof import rollout
from specroof.questions.rollout import step_speedup


@dataclass(frozen=True, kw_only=True)
class PublishedRollout:
    """A published speedup of a rollout, and the set-ups that fit its source.

    Parameters
    ----------
    source, what
        Where it is published, and which row.
    speedup
        Of the rollout, with `draft_len` drafts.
    draft_len
        Drafts per round.
    given
        Parameters of `specroof.rollout` that the source states.
    assumed
        Those that it does not, several values of each tried together.
    lacks
        What the source does not say.
    """

    source: str
    what: str
    speedup: float
    draft_len: int
    given: dict[str, Any]
    assumed: tuple[dict[str, Any], ...]
    lacks: str


def nemo(
    what: str, lengths: dict[int, float], published: dict[int, float]
) -> list[PublishedRollout]:
    """Return rows of arXiv:2604.26779: Qwen3-8B, EAGLE-3, GRPO on 32 GB200 with vLLM."""
    return [
        PublishedRollout(
            source="arXiv:2604.26779",
            what=f"Qwen3-8B, {what}, {drafts} drafts",
            speedup=speedup,
            draft_len=drafts,
            given={
                "model": "Qwen/Qwen3-8B",
                "hardware": "gb200",
                "engine": "vllm",
                "drafters": f"eagle3,accept-length={lengths[drafts]}@{drafts}",
                "input_len": 200,
            },
            assumed=tuple(
                {"lengths": law, "n_requests": count}
                for law in ("lognormal=2000/8000", "lognormal=6000/20000")
                for count in (16, 64, 256)
            ),
            lacks="prompts a step, samples a prompt, longest answer and its distribution, TP",
        )
        for drafts, speedup in published.items()
    ]


PUBLISHED: Final = (
    *nemo("RL-Zero", {3: 3.32, 5: 4.35, 7: 5.06}, {3: 1.77, 5: 1.44, 7: 1.21}),
    *nemo("RL-Think", {3: 2.77, 5: 3.23, 7: 3.48}, {3: 1.53, 5: 0.84, 7: 0.71}),
    PublishedRollout(
        source="arXiv:2606.18967",
        what="Qwen2.5-7B, drafter of the same weights in 4 bits, 7 drafts: -19.6 % of the time",
        speedup=1 / (1 - 0.196),
        draft_len=7,
        given={
            "model": "Qwen/Qwen2.5-7B-Instruct",
            "hardware": "a100",
            # 4.42 of 9.64 ms at batch 1 of its own sweep; 6.4 tokens a round in its examples.
            "drafters": "autoregressive,cost=0.46,accept-length=6.4@7",
            "input_len": 512,
            "n_requests": 128,
            "max_output_len": 8192,
        },
        assumed=tuple({"lengths": law} for law in ("lognormal=700/3000", "lognormal=2000/8000")),
        lacks="lengths of answers, results by model; drafting is off where it is not predicted to pay",
    ),
)
#: Sources without what a prediction needs.
NOT_PREDICTED: Final = {
    "marin issue 9114 (1.61x a stream, 1.42x a step)": "engine, draft length, TP, prompts; a model of its own",
    "UniRL issue 94 (about 50 % slower on H20)": "everything: hearsay of a page that was not found",
    "arXiv:2511.16665 (1.7 to 2.1x end to end)": "tables of lengths and acceptance by model",
    "arXiv:2511.13841 (-50 % of the rollout)": "acceptance: drafts come from suffix trees of earlier epochs",
}
#: Seconds of generation and of a step without drafts and with, arXiv:2604.26779, table 1.
STEPS: Final = {"RL-Think": (133.6, 87.0, 185.3, 137.4), "RL-Zero": (100.0, 56.6, 151.2, 107.5)}


def predicted(row: PublishedRollout) -> list[float]:
    """Return the speedups of all set-ups that fit the source."""
    found = []
    for assumed in row.assumed:
        answer = rollout(**{**row.given, **assumed, "max_draft_len": row.draft_len})
        found.append(float(answer.drafters[0].speedup[row.draft_len]))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print published speedups and the range of predictions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args(arguments).json
    rows = [(row, predicted(row)) for row in PUBLISHED]
    if as_json:
        print(json.dumps([asdict(row) | {"predicted": found} for row, found in rows]))
        return
    for row, found in rows:
        low, high = min(found), max(found)
        off = (
            0.0
            if low <= row.speedup <= high
            else min(low / row.speedup - 1, high / row.speedup - 1, key=abs)
        )
        print(
            f"{row.source}  {row.what}: {row.speedup:.2f}x, predicted {low:.2f} to {high:.2f}x ({off:+.0%})"
        )
        print(f"    not stated: {row.lacks}")
    for name, (off_s, on_s, step_off_s, step_on_s) in STEPS.items():
        step = step_speedup(off_s / on_s, off_s / step_off_s)
        print(
            f"arXiv:2604.26779  step of {name}: {step_off_s / step_on_s:.2f}x, by Amdahl {step:.2f}x"
        )
    for source, lacks in NOT_PREDICTED.items():
        print(f"{source}: not predicted, lacks {lacks}")


if __name__ == "__main__":
    main()
