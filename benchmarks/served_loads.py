"""Time per token, throughput and time to first token of published servers, beside `predict`.

    python benchmarks/served_loads.py [--by framework,hardware] [--json]

No profile was fitted to these rows: they say how far a prediction is off where it was not tuned.
Plain decoding only. A run that several of the sources print counts once: the fixtures first, then
the silicon samples, then the medians over all dates. Clients run in a closed loop; where
`shortest` is 0.8, prompts and answers are drawn evenly from 0.8 to 1.0 of the nominal lengths, and
the mean, 0.9, is predicted. The server runs all requests that the clients keep in flight.

Left out: gpt-oss-120b on H100 under vLLM with 512 in flight, whose time per token is printed at or
below that with 64.

Sources
    aiconfigurator_silicon_*: ai-dynamo/aiconfigurator 095f58a, silicon_sample.csv (means)
    inferencex_dsr1_single_node: InferenceX, test fixtures of its app, 2026-06 (medians)
    inferencex_db_medians_single_node: MQubeAI/InferenceX-PCA-demo db9a587 (medians over all dates
        to 2026-07-20, engine versions mixed)
    inferencex_tokpos_h200_vllm_moe: InferenceX pull request 709, vLLM of February 2026
    rocm_atom_recipes_mi300x_mi355x: ROCm/ATOM ffdf3bb, recipes
    glm47_gaudi3_inferencex: InferenceX-app, glm-4.7; answers were 0.65 to 0.72 of nominal
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from specroof import SpecroofError, load_hardware, predict

#: What makes a set-up: one prediction answers all its loads.
SETUP: Final = (
    "model",
    "weights",
    "hardware",
    "tensor_parallel",
    "expert_parallel",
    "attention_data_parallel",
    "kv_cache",
    "framework",
    "input_len",
    "output_len",
    "shortest",
)
QUANTITIES: Final = {"tpot_s": "TPOT", "tokens_per_s": "tokens/s", "ttft_s": "TTFT"}
Row = dict[str, Any]


def read_rows() -> list[Row]:
    """Return the measured rows, without the implausible ones."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        rows: list[Row] = list(csv.DictReader(file))
    return [
        row
        for row in rows
        if (row["model"], row["hardware"], row["framework"], row["concurrency"])
        != ("openai/gpt-oss-120b", "h100", "vllm", "512")
    ]


def predicted(setup: Row, clients: Sequence[int]) -> dict[str, Any]:
    """Return the quantities of `QUANTITIES` at each number of clients."""
    mean = (1 + float(setup["shortest"])) / 2
    engine = setup["framework"]
    if engine not in load_hardware(setup["hardware"]).engines:
        engine = None if engine == "atom" else engine  # AMD's own server has no profile
    options = {"weight_dtype": setup["weights"], "kv_dtype": setup["kv_cache"]}
    answer = predict(
        setup["model"],
        setup["hardware"],
        drafters="ideal",
        concurrency=[float(count) for count in clients],
        input_len=mean * int(setup["input_len"]),
        output_len=mean * int(setup["output_len"]),
        tensor_parallel=int(setup["tensor_parallel"]),
        expert_parallel=int(setup["expert_parallel"]),
        attention_data_parallel=int(setup["attention_data_parallel"]),
        max_draft_len=1,
        engine=engine,
        server={"running": max(clients)},
        options={name: value for name, value in options.items() if value},
    ).to_dict()["drafters"][0]["end_to_end"]
    return {name: np.array(answer[name], dtype=float)[0, :, 0] for name in QUANTITIES}


def compare(rows: Iterable[Row]) -> dict[str, int]:
    """Write predicted over measured, less 1, into the rows; return why others have none."""
    setups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        setups[tuple(row[name] for name in SETUP)].append(row)
    refused: dict[str, int] = defaultdict(int)
    for key, members in setups.items():
        clients = sorted({int(row["concurrency"]) for row in members})
        try:
            figures = predicted(dict(zip(SETUP, key, strict=True)), clients)
        except SpecroofError as refusal:
            refused[str(refusal)] += len(members)
            continue
        for row in members:
            place = clients.index(int(row["concurrency"]))
            if not np.isfinite(figures["tpot_s"][place]):
                refused["no room for one request"] += 1
                continue
            for name in QUANTITIES:
                if row[name]:
                    row[f"{name}_off"] = float(figures[name][place]) / float(row[name]) - 1
    return dict(refused)


def summary(rows: Sequence[Row], name: str) -> dict[str, float] | None:
    """Return the count, and the median, 90th percentile and bias of the errors of a quantity."""
    errors = np.array([row[f"{name}_off"] for row in rows if f"{name}_off" in row])
    if not errors.size:
        return None
    return {
        "n": int(errors.size),
        "median": float(np.median(abs(errors))),
        "p90": float(np.quantile(abs(errors), 0.9)),
        "bias": float(np.median(errors)),
    }


def main() -> None:
    """Print the errors by group, and of all rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--by", default="framework,hardware")
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    rows = read_rows()
    refused = compare(rows)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[" ".join(row[name] for name in words.by.split(","))].append(row)
    table = {
        group: {name: summary(members, name) for name in QUANTITIES}
        for group, members in [*sorted(groups.items()), ("all", rows)]
    }
    if words.json:
        print(json.dumps({"errors": table, "refused": refused}))
        return
    print(f"{'':<32}" + "".join(f"{title:>26}" for title in QUANTITIES.values()))
    print(f"{'':<32}" + f"{'rows':>6}{'median':>7}{'p90':>6}{'bias':>7}" * len(QUANTITIES))
    for group, cells in table.items():
        print(f"{group:<32}" + "".join(cell(value) for value in cells.values()))
    for reason, count in refused.items():
        print(f"{count} rows: {reason}")


def cell(value: dict[str, float] | None) -> str:
    """Return the errors of a quantity as text."""
    if value is None:
        return " " * 26
    return f"{value['n']:>6}{value['median']:>7.0%}{value['p90']:>6.0%}{value['bias']:>+7.0%}"


if __name__ == "__main__":
    main()
