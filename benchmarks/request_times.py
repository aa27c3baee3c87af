"""Requests per second, TPOT and TTFT that servers published, beside what `predict` says.

Where a source prints requests per second (or tokens, of requests of known lengths) and the mean
TPOT, the mean TTFT follows: what is in flight over requests per second is an answer (Little 1961),
less its later tokens.

A first line has requests out of step. A second one plays a wave through (`--requests 1x`): all come
at once.

    python benchmarks/request_times.py
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from specroof import predict
from specroof.questions.predict import Prediction

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
    """Print a measurement beside its predictions: out of step, and a wave played."""
    drafts, clients, answer = (
        int(row[name]) for name in ("draft_len", "concurrency", "output_len")
    )
    rate, tpot_s = float(row["requests_per_s"]), float(row["tpot_s"])
    measured = (rate, tpot_s, clients / rate - (answer - 1) * tpot_s)
    name = f"{row['model'].partition('/')[2][:18]} {row['hardware']} C={clients} K={drafts}"
    found = predicted(row).counted[0]
    runs = np.broadcast_to(found.curve.running_batch, found.speedup.shape)[0, 0, drafts]
    times = (found.requests_per_s, found.tpot_s, found.ttft_s)
    show(
        name + (f" runs {runs:g}" if runs < clients else ""),
        measured,
        *(float(array[0, 0, drafts]) for array in times),
    )
    seen = predicted(row, requests="1x").played[0].figures
    names = ("requests_per_s", "mean_tpot_s", "mean_ttft_s")
    show("  a wave played", measured, *(float(seen[name][0, drafts]) for name in names))


def predicted(row: dict[str, str], **how: Any) -> Prediction:
    """Return what `predict` says of a measurement."""
    return predict(
        row["model"],
        row["hardware"],
        drafters=row["drafter"] or "ideal",
        tensor_parallel=int(row["tensor_parallel"]),
        engine=row["engine"],
        input_len=float(row["input_len"]),
        output_len=float(row["output_len"]),
        concurrency=int(row["concurrency"]),
        max_draft_len=max(int(row["draft_len"]), 1),
        **how,
    )


def show(name: str, measured: tuple[float, float, float], *predicted: float) -> None:
    """Print requests per second, milliseconds and seconds, with how far off each is."""
    cells = "".join(
        f"{scale * one:8.3g}{scale * other:7.3g}{other / one - 1:+7.0%}"
        for one, other, scale in zip(measured, predicted, (1, 1e3, 1), strict=True)
    )
    print(f"{name:{_NAME}}{cells}")


if __name__ == "__main__":
    main()
