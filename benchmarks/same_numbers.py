"""Look for every number of the JSON of one checkout in that of another, wherever it stands there.

    python benchmarks/same_numbers.py BEFORE [AFTER] [--runs 2000] [--seed 1]

BEFORE and AFTER (this one) are folders of checkouts whose JSON may have other keys: version 2 and
version 3. The command lines are those of `same_outputs.py`. Prints by command how many answers have
every number of before to 1e-12, and the paths of those that are gone, with an example. A number
that the whole of an answer happens to hold elsewhere counts as found.
"""

import argparse
import json
import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from same_outputs import drawn, input_files
from same_predictions import HERE, TOLERANCE, outputs

#: What writes files, or scores what ships.
LEFT_OUT: Final = {"sweep", "explore", "validate", "calibrate"}


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of an answer with their paths, without indices of lists."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, f"{path}.{key}")
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part, f"{path}[]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def command_lines(dice: random.Random, runs: int) -> Iterator[list[str]]:
    """Yield so many command lines that print JSON."""
    while runs:
        words = [word for word in drawn(dice) if not word.startswith("--csv")]
        if words[0] not in LEFT_OUT and not {"-", "out.csv"} & {*words}:
            yield words if "--json" in words else [*words, "--json"]
            runs -= 1


def main() -> None:
    """Draw, run, and print what is gone."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=HERE)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    dice = random.Random(asked.seed)  # noqa: S311 - no secret
    lines, files = [*command_lines(dice, asked.runs)], input_files()
    then = outputs(asked.before.resolve(), lines, files)
    every = [[*words, "--grid"] if words[0] == "predict" else words for words in lines]
    now = outputs(asked.after.resolve(), every, files)
    answers, whole = Counter[str](), Counter[str]()
    gone: dict[str, Counter[str]] = defaultdict(Counter)
    examples: dict[tuple[str, str], str] = {}
    for words, (code, before, _, _), (other, after, said, _) in zip(lines, then, now, strict=True):
        name = words[0]
        if code != other:
            gone[name][f"exit code {code} -> {other}"] += 1
            examples.setdefault((name, f"exit code {code} -> {other}"), f"{words} {said[-200:]}")
        if code or other:
            continue
        answers[name] += 1
        known = sorted(value for _, value in numbers(json.loads(after.splitlines()[-1])))
        missing = []
        for path, value in numbers(json.loads(before.splitlines()[-1])):
            near = abs(value) * TOLERANCE
            at = bisect_left(known, value - near)
            if at == len(known) or known[at] > value + near:
                missing.append(path)
                examples.setdefault((name, path), f"{' '.join(words)}: {value}")
        gone[name].update(missing)
        whole[name] += not missing
    for name, count in answers.items():
        print(f"{name}: {whole[name]} of {count} answers have every number")
    for name, paths in gone.items():
        for path, count in paths.most_common(20):
            print(f"{name}: {count} at {path}, as in {examples[name, path]}")


if __name__ == "__main__":
    main()
