"""Time per token, throughput and time to first token of published servers, beside `predict`.

    python benchmarks/served_loads.py [--by framework,hardware] [--played] [--json]

No profile was fitted to these rows: they say how far a prediction is off where it was not tuned.
Plain decoding only. A run that several of the sources print counts once: the fixtures first, then
the silicon samples, then the medians over all dates. Clients run in a closed loop; where
`shortest` is 0.8, prompts and answers are drawn evenly from 0.8 to 1.0 of the nominal lengths, and
the mean, 0.9, is predicted. The server runs all requests that the clients keep in flight.

With `--played`, a second line of each group has the loads played through as the clients sent them:
all start at once, ten requests each, lengths drawn from that range; and of what is played, the
statistic that the source prints. Chunks and overlap are the defaults of each server's last release:
sources do not print them. `--by` knows two more words: `clients` and `prompt`, in classes.

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
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from specroof import SpecroofError, load_hardware, predict
from specroof.arrays import Array
from specroof.questions.predict import Prediction
from specroof.serving.capacity import prefill_rules
from specroof.serving.pass_prices import pass_prices
from specroof.serving.played import closed_loop, play
from specroof.serving.workload import Workload

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
    "statistic",
)
QUANTITIES: Final = {"tpot_s": "TPOT", "tokens_per_s": "tokens/s", "ttft_s": "TTFT"}
Row = dict[str, Any]
#: Sources that print medians of requests; the others print means.
MEDIANS: Final = ("inferencex_dsr1_single_node", "inferencex_db_medians_single_node")
#: How loads are predicted, as they begin the names of errors.
STEADY, PLAYED = "steady ", "played "
#: Seconds of each load that was played, and its requests.
TIMED: Final[list[tuple[float, int]]] = []
#: Upper ends of the classes of `--by clients` and `--by prompt`.
CLASSES: Final = {
    "clients": ("concurrency", (4, 32, 100_000)),
    "prompt": ("input_len", (512, 2048, 1_000_000)),
}


def read_rows() -> list[Row]:
    """Return the measured rows, without the implausible ones."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        rows: list[Row] = list(csv.DictReader(file))
    for row in rows:
        row["statistic"] = "p50" if row["source"] in MEDIANS else "mean"
        for name, (column, ends) in CLASSES.items():
            row[name] = f"{name}<={min(end for end in ends if end >= int(row[column]))}"
    return [
        row
        for row in rows
        if (row["model"], row["hardware"], row["framework"], row["concurrency"])
        != ("openai/gpt-oss-120b", "h100", "vllm", "512")
    ]


def predicted(setup: Row, clients: Sequence[int]) -> Prediction:
    """Return the prediction of all loads of a set-up."""
    mean = (1 + float(setup["shortest"])) / 2
    engine = setup["framework"]
    if engine not in load_hardware(setup["hardware"]).engines:
        engine = None if engine == "atom" else engine  # AMD's own server has no profile
    options = {"weight_dtype": setup["weights"], "kv_dtype": setup["kv_cache"]}
    return predict(
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
    )


def steady(answer: Prediction) -> dict[str, Array]:
    """Return the quantities of `QUANTITIES` at each number of clients, in the steady state."""
    figures = answer.to_dict()["drafters"][0]["end_to_end"]
    return {name: np.array(figures[name], dtype=float)[0, :, 0] for name in QUANTITIES}


def replayed(answer: Prediction, setup: Row, clients: Sequence[int]) -> dict[str, Array]:
    """Return the same of loads that are played through; NaN where no request has room."""
    prompt, tokens = int(setup["input_len"]), int(setup["output_len"])
    shortest, deployment = float(setup["shortest"]), answer.deployment
    rules = prefill_rules(deployment)
    prices = pass_prices(
        deployment,
        rules,
        running=max(clients),
        input_len=(shortest * prompt, prompt),
        longest=prompt + tokens,
    )
    server = deployment.setup.server
    overlap = server is not None and server.overlap
    runs = answer.counted[0].curve.running_batch[0, :, 0]
    figures = {name: np.full(len(clients), np.nan) for name in QUANTITIES}
    for place in np.flatnonzero(np.isfinite(runs)).tolist():
        load = closed_loop(Workload(prompt, tokens), clients[place], shortest=shortest)
        start_s = time.perf_counter()
        run = play(prices, load, rules, runs[place], overlap=overlap)
        TIMED.append((time.perf_counter() - start_s, len(load.arrival_s)))
        figures["tokens_per_s"][place] = run.tokens_per_s
        for name in ("tpot_s", "ttft_s"):
            figures[name][place] = run.summary()[name][setup["statistic"]]
    return figures


def compare(rows: Iterable[Row], *, plays: bool) -> dict[str, int]:
    """Write predicted over measured, less 1, into the rows; return why others have none."""
    setups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        setups[tuple(row[name] for name in SETUP)].append(row)
    refused: dict[str, int] = defaultdict(int)
    for key, members in setups.items():
        clients = sorted({int(row["concurrency"]) for row in members})
        setup = dict(zip(SETUP, key, strict=True))
        try:
            answer = predicted(setup, clients)
        except SpecroofError as refusal:
            refused[str(refusal)] += len(members)
            continue
        figures = {STEADY: steady(answer)}
        if plays:
            figures[PLAYED] = replayed(answer, setup, clients)
        for row in members:
            place = clients.index(int(row["concurrency"]))
            if not np.isfinite(figures[STEADY]["tpot_s"][place]):
                refused["no room for one request"] += 1
                continue
            for way, values in figures.items():
                for name in QUANTITIES:
                    if row[name]:
                        row[way + name] = float(values[name][place]) / float(row[name]) - 1
    return dict(refused)


def summary(rows: Sequence[Row], name: str) -> dict[str, float] | None:
    """Return the count, and the median, 90th percentile and bias of the errors of a quantity."""
    errors = np.array([row[name] for row in rows if name in row])
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
    parser.add_argument("--played", action="store_true")
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    rows = read_rows()
    refused = compare(rows, plays=words.played)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[" ".join(row[name] for name in words.by.split(","))].append(row)
    ways = {"": STEADY} | ({" played": PLAYED} if words.played else {})
    table = {
        group + label: {name: summary(members, way + name) for name in QUANTITIES}
        for group, members in [*sorted(groups.items()), ("all", rows)]
        for label, way in ways.items()
    }
    if words.json:
        print(json.dumps({"errors": table, "refused": refused}))
        return
    print(f"{'':<40}" + "".join(f"{title:>26}" for title in QUANTITIES.values()))
    print(f"{'':<40}" + f"{'rows':>6}{'median':>7}{'p90':>6}{'bias':>7}" * len(QUANTITIES))
    for group, cells in table.items():
        print(f"{group:<40}" + "".join(cell(value) for value in cells.values()))
    for reason, count in refused.items():
        print(f"{count} rows: {reason}")
    if TIMED:
        seconds, requests = np.sum(TIMED, axis=0)
        each = np.median([1e6 * taken / count for taken, count in TIMED])
        print(
            f"{len(TIMED)} loads of {requests:.0f} requests played in {seconds:.1f} s; of a load, "
            f"{each:.1f} ms per 1 000 requests at the median"
        )


def cell(value: dict[str, float] | None) -> str:
    """Return the errors of a quantity as text."""
    if value is None:
        return " " * 26
    return f"{value['n']:>6}{value['median']:>7.0%}{value['p90']:>6.0%}{value['bias']:>+7.0%}"


if __name__ == "__main__":
    main()
