"""Time passes of one to sixteen tokens of a model, in the engine that runs it on this machine.

    python time_passes.py MODEL [--tool TOOL] [--context 0] [--seconds 60] > passes.json

MODEL is a GGUF file for `llama-bench` and `llama-batched-bench`, else a folder or a Hub name for
`transformers` and `mlx-lm`. This file needs Python 3.9 and the engine, and nothing else of
specroof, whose `measure` and `calibrate` read what it prints.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: Fills a cache to a depth; runs a pass of so many tokens there, and forgets it.
    Passes = tuple[Callable[[int], None], Callable[[int, int], None]]

#: Tokens of the passes that are timed. Kernels of llama.cpp change at 8 or 9.
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16)
#: Bytes that are read of what a tool prints.
MOST_BYTES = 8_000_000
#: What passes are timed with.
CLOCK = time.perf_counter
#: Times that a pass is timed, at least and at most.
LEAST, MOST = 3, 200
#: Seconds that a pass may take.
LEAST_S, MOST_S = 1e-9, 86400.0


# ruff: noqa: PLC0415, S603, T201 - prints, and imports what is there


# --- Tools of llama.cpp, which time passes themselves --------------------------------------------


def tool_output(words: Sequence[str]) -> str:
    """Return what a command prints; its last words on standard error are the reason if it fails."""
    with tempfile.TemporaryFile() as said:
        try:
            tool = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
            )
        except OSError as failure:
            sys.exit(f"{words[0]}: {failure.strerror}")
        with tool:
            data = b"" if tool.stdout is None else tool.stdout.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                tool.kill()
                sys.exit(f"{words[0]}: printed more than {MOST_BYTES} bytes")
        said.seek(0)
        lines = said.read(MOST_BYTES).decode(errors="replace").split("\n")
    if tool.returncode:
        last = next((line for line in reversed(lines) if line.strip()), "no reason given")
        sys.exit(f"{words[0]}: ended with {tool.returncode}: {last.strip()[:300]}")
    return data.decode(errors="replace")


def llama_bench(tool: str, asked: argparse.Namespace) -> None:
    """Print the JSON of `llama-bench`: prompts of a few tokens, as often as there is time for."""
    words = [tool, "-m", asked.model, "-n", "0", "-o", "json", *shlex.split(asked.tool_args)]
    ends = [ROWS[0], ROWS[-1]]
    printed = tool_output([*words, "-p", listed(ends), "-r", "1"])

    def ends_s() -> list[float]:
        return [test["n_prompt"] / test["avg_ts"] for test in json.loads(printed)]

    times = affordable(asked, tool, printed, ends_s, "the JSON of two tests")
    passes = ["-p", listed(ROWS), "-d", listed(asked.context), "-r", str(times)]
    print(tool_output([*words, *passes]), end="")


def llama_batched_bench(tool: str, asked: argparse.Namespace) -> None:
    """Print the JSON lines of `llama-batched-bench`: sequences that are decoded in parallel."""
    words = [tool, "-m", asked.model, "--output-format", "jsonl", *shlex.split(asked.tool_args)]
    prompts = [max(depth, 1) for depth in asked.context]

    def decoded(parallel: Sequence[int], steps: int) -> str:
        room = ["-c", str(ROWS[-1] * (max(prompts) + steps))]
        lengths = ["-npp", listed(prompts), "-ntg", str(steps)]
        return tool_output([*words, *room, *lengths, "-npl", listed(parallel)])

    printed = decoded([ROWS[0], ROWS[-1]], LEAST)

    def ends_s() -> list[float]:
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        tests = [json.loads(line) for line in (lines[0], lines[-1])]
        return [test["t_tg"] / test["tg"] for test in tests]

    times = affordable(asked, tool, printed, ends_s, "a line of JSON for each test")
    lines = decoded(ROWS, times).splitlines()
    print("\n".join(line for line in lines if line.startswith("{")))


def affordable(
    asked: argparse.Namespace,
    tool: str,
    printed: str,
    ends_s: Callable[[], Sequence[float]],
    needed: str,
) -> int:
    """Return how often all passes can be timed, from seconds of the shortest and the longest.

    Parameters
    ----------
    asked, tool, printed
        What for, and what a tool printed.
    ends_s
        Reads the two from it.
    needed
        What it should have printed, for the refusal of anything else.
    """
    try:
        first, last = map(float, ends_s())
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        sys.exit(f"{tool}: printed {printed.strip()[:60]!r}; needed: {needed}")
    for pass_s in (first, last):
        if not LEAST_S <= pass_s <= MOST_S:
            sys.exit(f"{tool}: a pass took {pass_s:g} s; needed: {LEAST_S:g} to {MOST_S:g} s")
    share = [(rows - ROWS[0]) / (ROWS[-1] - ROWS[0]) for rows in ROWS]
    once = sum(first + (last - first) * part for part in share) * len(asked.context)
    return min(max(int(asked.seconds / once), LEAST), MOST)


def listed(values: Sequence[int]) -> str:
    """Return numbers as tools of llama.cpp take them."""
    return ",".join(map(str, values))


# --- Libraries, whose passes are timed here ------------------------------------------------------


def transformers_passes(model: str) -> Passes:
    """Return a function that fills a cache, and one that runs a pass and forgets it."""
    import torch
    import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if torch.backends.mps.is_available():
        device = "mps"
    network = transformers.AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    network = network.to(device).eval()
    kept: dict[str, Any] = {}

    def run(tokens: int) -> float:
        with torch.inference_mode():
            words = torch.full((1, tokens), 100, device=device)
            logits = network(words, past_key_values=kept["cache"], use_cache=True).logits
            return float(logits[0, -1, 0])  # waits for the device

    def fill(depth: int) -> None:
        kept["cache"] = transformers.DynamicCache()
        run(depth)

    def step(tokens: int, depth: int) -> None:
        run(tokens)
        kept["cache"].crop(depth)

    return fill, step


def mlx_passes(model: str) -> Passes:
    """Return a function that fills a cache, and one that runs a pass and forgets it."""
    import mlx.core as mx  # type: ignore[import-not-found]
    from mlx_lm import load  # type: ignore[import-not-found]
    from mlx_lm.models import cache  # type: ignore[import-not-found]

    network = load(model)[0]
    kept: dict[str, Any] = {}

    def run(tokens: int) -> None:
        mx.eval(network(mx.full((1, tokens), 100, dtype=mx.int32), cache=kept["cache"]))

    def fill(depth: int) -> None:
        kept["cache"] = cache.make_prompt_cache(network)
        run(depth)

    def step(tokens: int, _: int) -> None:
        run(tokens)
        cache.trim_prompt_cache(kept["cache"], tokens)

    return fill, step


def timed_passes(tool: str, asked: argparse.Namespace) -> None:
    """Print the median seconds of passes in a library, one JSON object a line."""
    try:
        fill, step = LIBRARIES[tool](asked.model)
    except ImportError as failure:
        sys.exit(f"{tool}: {failure}")
    for depth in (max(depth, 1) for depth in asked.context):
        fill(depth)
        times: dict[int, list[float]] = {rows: [] for rows in ROWS}
        for rows in ROWS:
            step(rows, depth)  # warm up: memory is taken, kernels are chosen
        ends = CLOCK() + asked.seconds / len(asked.context)
        while len(times[1]) < LEAST or (len(times[1]) < MOST and CLOCK() < ends):
            for rows in ROWS:
                began = CLOCK()
                step(rows, depth)
                times[rows].append(CLOCK() - began)
        for rows in ROWS:
            of_pass = {"batch_size": 1, "context_len": depth, "positions": rows}
            print(json.dumps({"tool": tool, **of_pass, "pass_s": statistics.median(times[rows])}))


TOOLS = {"llama-bench": llama_bench, "llama-batched-bench": llama_batched_bench}
LIBRARIES = {"transformers": transformers_passes, "mlx-lm": mlx_passes}


def main(words: Sequence[str] | None = None) -> None:
    """Time the passes, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a GGUF file; a folder or a Hub name for libraries")
    parser.add_argument(
        "--tool",
        default="llama-bench",
        help=f"{', '.join((*TOOLS, *LIBRARIES))}, or the path of one of the first two",
    )
    parser.add_argument("--context", default="0", help="cached tokens, comma-separated")
    parser.add_argument("--seconds", type=float, default=60.0, help="of timing, about")
    parser.add_argument("--tool-args", default="", help="more arguments of the tool")
    asked = parser.parse_args(words)
    asked.context = [int(depth) for depth in asked.context.split(",")]
    if asked.tool in LIBRARIES:
        timed_passes(asked.tool, asked)
        return
    kind = "llama-batched-bench" if "batched" in Path(asked.tool).name else "llama-bench"
    tool = shutil.which(asked.tool)
    if tool is None:
        sys.exit(f"{asked.tool}: not found on PATH")
    if not Path(asked.model).is_file():
        sys.exit(f"{asked.model}: is no file; {kind} reads a GGUF file of this machine")
    TOOLS[kind](tool, asked)


if __name__ == "__main__":
    main()
