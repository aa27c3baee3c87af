"""Requests per second, TPOT and TTFT that servers published, beside what `predict` says.

Where a source prints requests per second (or tokens, of requests of known lengths) and the mean
TPOT, the mean TTFT follows: what is in flight over requests per second is an answer (Little 1961),
less its later tokens.

`predict` has a closed loop of answers whose lengths differ. A second line says what the same pass
times give where all requests of one length come at once and no other follows, pass by pass.

    python benchmarks/request_times.py
"""

import csv
from pathlib import Path

import numpy as np

from specroof import predict
from specroof.cost import ForwardPass
from specroof.drafters import Work
from specroof.questions.prediction import Prediction
from specroof.serving.prompts import prefill_pass
from specroof.speedup.round import EnginePasses
from specroof.speedup.served import Served

SOURCES = {
    "cookbook": "SGLang cookbook at 7b5bd9c, random prompts; printed",
    "gb300": "vLLM blog 2026-02-13, DeepSeek-R1-0528 FP4 on two GB300, printed labels; requests per "
    "second from tokens in and out; V3.1 has R1's geometry; acceptance not printed, 0.8 presumed",
}
_NAME = 42


def main() -> None:
    """Print each measurement, and each source."""
    for name, title in SOURCES.items():
        print(f"{name}: {title}")
    print(" " * _NAME + "".join(f"{word:>22}" for word in ("requests/s", "TPOT ms", "TTFT s")))
    print(" " * _NAME + f"{'meas.':>8}{'pred.':>7}{'off':>7}" * 3)
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            compare(row)


def compare(row: dict[str, str]) -> None:
    """Print a measurement beside its prediction."""
    drafts, clients, answer = (
        int(row[name]) for name in ("draft_len", "concurrency", "output_len")
    )
    prediction = predict(
        row["model"],
        row["hardware"],
        drafters=row["drafter"] or "ideal",
        tensor_parallel=int(row["tensor_parallel"]),
        engine=row["engine"],
        input_len=float(row["input_len"]),
        output_len=answer,
        concurrency=clients,
        max_draft_len=max(drafts, 1),
    )
    (found,) = prediction.counted
    rate, tpot_s = float(row["requests_per_s"]), float(row["tpot_s"])
    measured = (rate, tpot_s, clients / rate - (answer - 1) * tpot_s)
    rates, intervals_s, waits_s = (
        float(array[0, 0, drafts]) for array in (found.requests_per_s, found.tpot_s, found.ttft_s)
    )
    runs = np.broadcast_to(found.curve.running_batch, found.speedup.shape)[0, 0, drafts]
    name = f"{row['model'].partition('/')[2][:18]} {row['hardware']} C={clients} K={drafts}"
    if runs < clients:
        name += f" runs {runs:g}"
    show(name, measured, (rates, intervals_s, waits_s))
    if drafts == 0 and runs == clients and found.rules.shares_passes:
        show("  all at once", measured, burst(prediction, clients))


def show(
    name: str, measured: tuple[float, float, float], predicted: tuple[float, float, float]
) -> None:
    """Print requests per second, milliseconds and seconds, with how far off each is."""
    cells = "".join(
        f"{scale * one:8.3g}{scale * other:7.3g}{other / one - 1:+7.0%}"
        for one, other, scale in zip(measured, predicted, (1, 1e3, 1), strict=True)
    )
    print(f"{name:{_NAME}}{cells}")


def burst(found: Prediction, clients: int) -> tuple[float, float, float]:
    """Return requests per second, TPOT and TTFT of plain requests that all come at once."""
    served, passes = Served(found.model, found.setup), EnginePasses()
    (whole,), workload = found.counted, found.counted[0].workload
    left = np.full(clients, workload.new_len)
    tokens, first_s, end_s = (np.zeros(clients) for _ in range(3))
    now = 0.0
    while not end_s.all():
        decodes = (left == 0) & (end_s == 0)
        budget = whole.rules.chunk - decodes.sum()
        before = left.copy()
        for i in np.flatnonzero(left):
            left[i] -= min(left[i], max(budget, 0.0))
            budget -= before[i] - left[i]
        taken = before - left
        step = ForwardPass(max(float(decodes.sum()), 0.01), 1.0, workload.mean_context_len)
        prompts = int((taken > 0).sum())
        chunk = () if not prompts else (
            Work(
                found.model,
                prefill_pass(taken.sum() / prompts, batch_size=prompts),
                kind="prompts",
            ),
        )  # fmt: skip
        now += float(passes(served, step, *chunk))
        through = (left == 0) & (before > 0)
        tokens += decodes | through
        first_s[through] = now
        end_s[(tokens >= workload.output_len) & (end_s == 0)] = now
    later = workload.output_len - 1
    return clients / now, float((end_s - first_s).mean()) / later, float(first_s.mean())


if __name__ == "__main__":
    main()
