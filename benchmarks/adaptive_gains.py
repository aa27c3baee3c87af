"""Published gains of vLLM's adaptive verification beside predictions, and what cannot be compared.

    python benchmarks/adaptive_gains.py [--json]

Of each load three ratios of tokens per second: a fixed draft length over no drafts, adaptive
verification over no drafts, and over the fixed length. Decoding alone is predicted, at the mean
context that the source's lengths give; a source's range counts as its nearer end.
"""

import argparse
import json
from dataclasses import dataclass, field
from statistics import mean
from typing import Any, Final

from specroof import adaptive, predict
from specroof.questions.adaptive import VERIFICATION

#: Simulated rounds of single sequences: a standard error below 1 %.
ROUNDS: Final = 8000
#: The ratios: what is divided by what.
RATIOS: Final = ("fixed/off", "adaptive/off", "adaptive/fixed")


@dataclass(frozen=True, kw_only=True)
class PublishedGains:
    """Gains that a source publishes, and the set-up that they are predicted with.

    Parameters
    ----------
    source, what
        Where, and what was served.
    given
        Model, chip, drafter and other parameters of a question.
    draft_len
        Drafts of the fixed length.
    gains
        By requests in flight, the ratios that are published: a number, or a range of two.
    tokens_per_s
        By requests in flight, without drafts; empty where it is not published.
    presumed
        What the source does not say, and what was taken for it.
    """

    source: str
    what: str
    given: dict[str, Any]
    draft_len: int
    gains: dict[int, dict[str, float | tuple[float, float]]]
    tokens_per_s: dict[int, float] = field(default_factory=dict)
    presumed: str


_LOADS: Final = (4, 8, 16, 32, 64, 128, 256)
_OFF: Final = (381.5, 729.2, 1342.8, 2393.0, 4094.8, 6340.8, 8878.6)
_FIXED: Final = (970.3, 1762.6, 2909.5, 4756.3, 6712.4, 8778.9, 7852.4)
_ADAPTIVE: Final = (902.4, 1616.8, 2773.7, 4501.1, 7144.1, 10356.5, 13324.7)

PUBLISHED: Final = (
    PublishedGains(
        source="vLLM blog 2026-08-14",
        what="DeepSeek-V4-Pro, DSpark of 7 drafts, 8 x B300, TP8 with EP, SPEED-Bench, 512 out",
        given={
            "model": "deepseek-ai/DeepSeek-V4-Pro",
            "hardware": "b300",
            "drafter": "dspark,accept-length=3.4@7",
            "context_len": 512,
            "tensor_parallel": 8,
            "expert_parallel": 8,
            "options": {"kv_dtype": "fp8"},
        },
        draft_len=7,
        gains={
            1: {"adaptive/fixed": 1.0},
            16: {"adaptive/fixed": (1.05, 1.10)},
            32: {"adaptive/fixed": (1.05, 1.10)},
            64: {"adaptive/fixed": (1.05, 1.10)},
            128: {"adaptive/fixed": 1.30},
            256: {"adaptive/off": 1.41, "fixed/off": 0.47},
        },
        presumed="prompts of 256 tokens",
    ),
    PublishedGains(
        source="vLLM PR 52362",
        what="DeepSeek-V4, DSpark of 7 drafts, 8 x MI355X or MI350X, TP8, ShareGPT, 512 out",
        given={
            "model": "deepseek-ai/DeepSeek-V4-Pro",
            "hardware": "mi355x",
            "drafter": "dspark,accept-length=3.4@7",
            "context_len": 512,
            "tensor_parallel": 8,
        },
        draft_len=7,
        gains={
            load: {
                "fixed/off": fixed / off,
                "adaptive/off": best / off,
                "adaptive/fixed": best / fixed,
            }
            for load, off, fixed, best in zip(_LOADS, _OFF, _FIXED, _ADAPTIVE, strict=True)
        },
        tokens_per_s=dict(zip(_LOADS, _OFF, strict=True)),
        presumed="the model is V4-Pro on MI355X, prompts of 256 tokens, and the acceptance of the "
        "blog's DSpark (3.4 tokens a round)",
    ),
    PublishedGains(
        source="vLLM PR 52992",
        what="GLM-5.2-NVFP4, DSpark of 16 drafts, 4 x GB200, SPEED-Bench 1k in, 2k out",
        given={
            "model": "nvidia/GLM-5.2-NVFP4",
            "hardware": "gb200",
            "drafter": "dflash,drafts=15,survival=.712/.517/.390/.305/.244/.200/.169/.144/.125/.109/"
            ".096/.086/.076/.067/.058",
            "context_len": 2048,
            "tensor_parallel": 4,
        },
        draft_len=15,
        gains={64: {"adaptive/fixed": 2.838}},
        presumed="a block of 15 drafts of DFlash stands in; the fixed arm lacked captured graphs "
        "that the adaptive one had, which is not only trimming and is not predicted",
    ),
)
#: Sources that cannot be compared, and what they lack.
LEFT_OUT: Final = {
    "vLLM PR 52228": "Muse-Glimmer-30B is no model that we know; of the Kimi rows chips and drafts "
    "are not stated (+9 to +34 % over the fixed length at 64 in flight)",
    "SGLang PR 28045": "no figures",
    "SGLang PR 36136": "neither model nor chips are stated (-8 to +20 % over the fixed width)",
    "SGLang PR 22246, 23336": "chips not stated (+3 to +4 % over the best fixed number of steps)",
}


def compared(one: PublishedGains) -> list[dict[str, Any]]:
    """Return a row for each load: what is published, what is predicted, and the error."""
    loads = [*one.gains]
    given = {**one.given, "engine": "vllm", "max_draft_len": one.draft_len}
    found = adaptive(**given, batch_size=loads, n_rounds=ROUNDS)
    drafter = given.pop("drafter")
    curve = predict(**given, drafters=drafter, concurrency=loads).curves[0]
    rows = []
    for place, (load, gains) in enumerate(one.gains.items()):
        off = found.plain_tokens_per_s[place]
        fixed = float(curve.tokens_per_s[0, place, one.draft_len])
        best = found.outcomes[VERIFICATION][place].tokens_per_s
        predicted = dict(zip(RATIOS, (fixed / off, best / off, best / fixed), strict=True))
        ends = {
            name: value if isinstance(value, tuple) else (value,) for name, value in gains.items()
        }
        errors = {
            name: min((predicted[name] / end - 1 for end in value), key=abs)
            for name, value in ends.items()
        }
        for name, value in ends.items():
            if min(value) <= predicted[name] <= max(value):
                errors[name] = 0.0
        row = {"source": one.source, "concurrency": load, "published": gains}
        row |= {"predicted": predicted, "errors": errors}
        if one.tokens_per_s:
            row["tokens_per_s"] = {"published": one.tokens_per_s[load], "predicted": off}
        rows.append(row)
    return rows


def main() -> None:
    """Print each source beside its predictions, then what is left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    sources = [(one, compared(one)) for one in PUBLISHED]
    if as_json:
        rows = [row for _, of_source in sources for row in of_source]
        print(json.dumps({"rows": rows, "left_out": LEFT_OUT}))
        return
    for one, rows in sources:
        print(f"{one.source}: {one.what}\n  presumed: {one.presumed}")
        for row in rows:
            cells = [f"{row['concurrency']:5}"]
            if one.tokens_per_s:
                pair = row["tokens_per_s"]
                off = pair["predicted"] / pair["published"] - 1
                cells.append(f"off {pair['published']:.0f} {pair['predicted']:.0f} ({off:+.0%})")
            for name, value in row["published"].items():
                told = "-".join(
                    f"{end:.2f}" for end in (value if isinstance(value, tuple) else [value])
                )
                cells.append(
                    f"{name} {told} {row['predicted'][name]:.2f} ({row['errors'][name]:+.0%})"
                )
            print("  ".join(cells))
        for name in RATIOS:
            errors = [abs(row["errors"][name]) for row in rows if name in row["errors"]]
            if errors:
                print(f"      mean error of {name}: {mean(errors):.0%} of {len(errors)}")
    for source, why in LEFT_OUT.items():
        print(f"left out: {source}: {why}")


if __name__ == "__main__":
    main()
