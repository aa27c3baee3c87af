"""Compare predictions of drawn set-ups between two checkouts: no number may move unsaid.

    python benchmarks/same_predictions.py BEFORE [AFTER] [--setups 200] [--seed 1]

BEFORE and AFTER are folders of checkouts (AFTER: this one). Models, chips, engines, placements,
drafters (trees included), loads and workloads are drawn with a seed, until BEFORE has answered as
many as asked for. Prints every set-up whose figures differ by more than 1e-12, and exits with 1
then.
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[1]
TOLERANCE: Final = 1e-12

#: Runs the command lines that it reads from standard input, in the folder that it is told, and
#: prints the exit code of each, both streams and the files that it wrote.
RUNNER: Final = """
import json, os, pathlib, shutil, sys
from typer.testing import CliRunner
from specroof.cli import app
os.chdir(sys.argv[1])
given = set(pathlib.Path().rglob("*"))
runner = CliRunner()
for line in sys.stdin:
    run = runner.invoke(app, json.loads(line))
    crash = "" if isinstance(run.exception, SystemExit | None) else repr(run.exception)
    written = {}
    for path in sorted(set(pathlib.Path().rglob("*")) - given, reverse=True):
        if path.is_file():
            written[str(path)] = path.read_text(errors="replace")
            path.unlink()
        else:
            path.rmdir()
    print(json.dumps([run.exit_code, run.stdout, run.stderr + crash, written]))
"""

CHIPS: Final = ("b200", "h100", "h200", "b300", "a100-80gb", "mi300x", "l40s", "gb200", "tpu-v5p")
ACCEPTANCES: Final = (
    "accept=0.8",
    "accept-length=2.8@3",
    "rates=.9/.8/.7/.6/.5/.4/.3",
    "beta=6/2",
    "histogram=12/30/20/9",
    "profile=qwen3.6-35b-a3b/mtp/speed-bench",
)
DRAFTERS: Final = (
    "ideal",
    "autoregressive,cost=0.1",
    "block,cost=0.1,block=16",
    "mtp",
    "eagle",
    "eagle3",
    "medusa",
    "dflash",
    "dflash,block=8",
    "dspark",
    "p_eagle",
    "model,config=Qwen/Qwen3-0.6B",
    "ngram",
    "suffix,match=0.5",
    "eagle3,tree=eagle2,nodes=24,top-k=4,siblings=.5/.3/.1",
    "eagle,tree=sequoia,nodes=16,siblings=.5/.3/.1",
    "mtp,tree=3/2/1,siblings=.5/.4",
    "eagle3,tp=1",
    "eagle3,overlap=0.8",
)


def drawn(dice: random.Random, models: list[str]) -> list[str]:
    """Return the arguments of one `predict`."""
    chip = dice.choice(CHIPS)
    engine = dice.choice((None, None, "ideal", "sglang", "vllm"))
    words = ["predict", dice.choice(models), "-H", chip, "--json"]
    words += ["--tp", str(dice.choice((1, 1, 2, 4, 8)))]
    if engine is not None:
        words += ["--engine", engine]
    for drafter in dice.sample(DRAFTERS, dice.randint(1, 3)):
        accept = "" if drafter == "ideal" else f",{dice.choice(ACCEPTANCES)}"
        words += ["--drafter", drafter + accept]
    loads = [1, 2, 3, 8, 13, 32, 64, 100, 256, 700]
    load = ",".join(map(str, sorted(dice.sample(loads, dice.randint(1, 4)))))
    if dice.random() < 0.3:
        words += ["--input-len", str(dice.choice((200, 3000, 20000)))]
        words += ["--output-len", str(dice.choice((100, 1000))), "--concurrency", load]
    else:
        contexts = sorted(dice.sample([0, 512, 4096, 32768, 131072], dice.randint(1, 2)))
        words += ["--batch", load, "--context", ",".join(map(str, contexts))]
    for flag, values in (
        ("--granularity", ("dtype", "pass")),
        ("--recurrent-state", ("read-write", "replay")),
        ("--kv-cache", ("fp8",)),
        ("--cost-of", ("verify",)),
    ):
        if dice.random() < 0.15:
            words += [flag, dice.choice(values)]
    return words


def outputs(
    checkout: Path, command_lines: list[list[str]], files: dict[str, str] | None = None
) -> list[tuple[int, str, str, dict[str, str]]]:
    """Return exit code, standard output, standard error and written files of each command line.

    They run in one process, in a folder that holds `files`.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (files or {}).items():
            path = Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        run = subprocess.run(
            [sys.executable, "-c", RUNNER, folder],
            input="".join(json.dumps(words) + "\n" for words in command_lines),
            # The folder it stands in comes before PYTHONPATH.
            cwd=checkout,
            env={"PYTHONPATH": str(checkout), "HF_HUB_OFFLINE": "1", "COLUMNS": "1000"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    # A refusal names the file that it is about.
    text = run.stdout.replace(f"{checkout}/", "")
    return [tuple(json.loads(line)) for line in text.splitlines()]


def answers(checkout: Path, setups: list[list[str]]) -> list[tuple[int, Any]]:
    """Return exit code and answer of each set-up, as a checkout gives them."""
    return [
        (code, None if code else json.loads(text.splitlines()[-1]))
        for code, text, _, _ in outputs(checkout, setups)
    ]


def leaves(answer: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of an answer with its path; notes, which are text, are left out."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key not in {"notes", "warnings", "name", "cost_from", "acceptance_from"}:
                yield from leaves(value, f"{path}.{key}")
    elif isinstance(answer, list):
        for index, value in enumerate(answer):
            yield from leaves(value, f"{path}[{index}]")
    else:
        yield path, answer


def differences(before: Any, after: Any) -> Iterator[str]:
    """Yield where the figures of two answers differ; keys that are new are no difference."""
    now = dict(leaves(after))
    for path, value in leaves(before):
        other = now.get(path)
        if isinstance(value, float) and isinstance(other, int | float):
            if math.isclose(value, other, rel_tol=TOLERANCE, abs_tol=0.0):
                continue
        elif value == other:
            continue
        yield f"{path}: {value!r} -> {other!r}"


def main() -> int:
    """Draw, run and compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=HERE)
    parser.add_argument("--setups", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    dice = random.Random(asked.seed)  # noqa: S311 - no secret
    models = sorted(file.stem.replace("--", "/", 1) for file in HERE.glob("model_configs/*.json"))
    # About half of what is drawn fits: a placement that divides, a model with MTP layers.
    setups = [[*drawn(dice, models), "--grid"] for _ in range(4 * asked.setups)]
    answered = zip(setups, answers(asked.before.resolve(), setups), strict=True)
    old = [(words, one) for words, (code, one) in answered if code == 0][: asked.setups]
    new = answers(asked.after.resolve(), [words for words, _ in old])
    moved = 0
    for (words, one), (code, other) in zip(old, new, strict=True):
        moves = [f"exit code {code}"] if code else list(differences(one, other))
        if moves:
            moved += 1
            print(" ".join(words), f"  {len(moves)} differ: {moves[0]}", sep="\n")
    print(f"{len(old)} set-ups, {moved} differ")
    return int(moved > 0)


if __name__ == "__main__":
    sys.exit(main())
