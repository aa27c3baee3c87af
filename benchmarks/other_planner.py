"""Loads of one published benchmark: specroof beside aiconfigurator and a plain roofline.

    python -m venv other && other/bin/pip install aiconfigurator==0.12.0
    python benchmarks/other_planner.py --python other/bin/python

The loads are those of one published benchmark (InferenceX, DeepSeek-R1, no drafts) on chips that
aiconfigurator has kernel times of. specroof predicts each with profiles that have not seen the
model; aiconfigurator with its newest tables of the framework (its default), with mean lengths of
the requests and the same placement. Printed is how far each is off. It takes minutes, most of
which aiconfigurator reads its tables.
"""

import argparse
import json
import math
import subprocess
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from specroof.catalog import load_drafter
from specroof.evidence import Measurement, load_served
from specroof.hardware import IDEAL_ENGINE
from specroof.report.layout import format_table
from specroof.scoring.served import implausible, served_validation, steady_figures

SOURCE: Final = "inferencex-deepseek-r1"
#: What aiconfigurator calls our chips and frameworks.
SYSTEMS: Final = {"b200": "b200_sxm", "h200": "h200_sxm"}
BACKENDS: Final = {"sglang": "sglang", "tensorrt-llm": "trtllm"}
FIGURES: Final = ("tpot_s", "tokens_per_s", "ttft_s")

#: Runs in the other environment: loads as JSON on standard input, figures or a refusal each.
ASKED: Final = r"""
import json, logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from aiconfigurator.cli.api import cli_estimate
answers = []
for load in json.load(sys.stdin):
    try:
        found = cli_estimate(**load)
    except Exception as refusal:
        answers.append(str(refusal) or type(refusal).__name__)
        continue
    answers.append([found.tpot / 1e3, float(found.raw["tokens/s"]), found.ttft / 1e3])
json.dump(answers, sys.__stdout__)
"""


def question(load: Measurement) -> dict[str, Any]:
    """Return a load as aiconfigurator is asked about it."""
    devices, experts = load.tensor_parallel or 1, load.expert_parallel or 1
    groups, mean = load.attention_data_parallel or 1, (1 + load.shortest) / 2
    return {
        "model_path": load.model,
        "system_name": SYSTEMS[str(load.hardware)],
        "backend_name": BACKENDS[str(load.engine)],
        "isl": round(mean * (load.input_len or 0)),
        "osl": round(mean * (load.output_len or 0)),
        "batch_size": math.ceil((load.concurrency or 1) / groups),
        "tp_size": devices // groups,
        "attention_dp_size": groups,
        "moe_tp_size": devices // experts,
        "moe_ep_size": experts,
    }


def errors(off: Sequence[float]) -> list[str]:
    """Return how many there are, and the median and the 90th percentile without the sign."""
    shares = np.abs(np.expm1(off))
    return [str(len(shares)), f"{np.median(shares):.0%}", f"{np.percentile(shares, 90):.0%}"]


def main() -> None:
    """Print the errors of each tool on the loads that all of them answer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", required=True, help="of an environment with aiconfigurator")
    loads = [
        load
        for load in load_served()
        if load.source == SOURCE
        and load.hardware in SYSTEMS
        and load.engine in BACKENDS
        and not load.draft_len
        and implausible(load) is None
    ]
    done = subprocess.run(
        [parser.parse_args().python, "-c", ASKED],
        input=json.dumps([question(load) for load in loads]),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout.splitlines()[-1])
    ours = {score.point: score.off for score in served_validation(loads).scores if score.unseen}
    refusals = Counter(answer for answer in answers if isinstance(answer, str))
    rows = []
    both = [
        (load, answer)
        for load, answer in zip(loads, answers, strict=True)
        if not isinstance(answer, str) and load in ours
    ]
    ideal = {load: steady_figures([load], IDEAL_ENGINE, load_drafter("ideal")) for load, _ in both}
    for place, name in enumerate(FIGURES):
        known = [(load, answer) for load, answer in both if getattr(load, name) is not None]
        off = {
            "specroof": [ours[load][name] for load, _ in known],
            "aiconfigurator": [math.log(a[place] / getattr(load, name)) for load, a in known],
            "plain roofline": [
                math.log(float(ideal[load][name][0, 0]) / getattr(load, name)) for load, _ in known
            ],
        }
        rows += [[name, tool, *errors(logs)] for tool, logs in off.items()]
    print(format_table(["figure", "tool", "loads", "median", "90%"], rows, left=[0, 1]))
    print(f"{len(loads)} loads; aiconfigurator refuses {sum(refusals.values())}:")
    for refusal, count in refusals.most_common():
        print(f"  {count}: {refusal[:160]}")


if __name__ == "__main__":
    main()
