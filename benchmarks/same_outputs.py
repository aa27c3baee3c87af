"""Compare what drawn command lines print in two checkouts: nothing may change unsaid.

    python benchmarks/same_outputs.py BEFORE [AFTER] [--runs 2000] [--seed 1]

BEFORE and AFTER are folders of checkouts (AFTER: this one). Every help text comes first; the other
command lines are drawn with a seed, for all commands: tables, --json, --csv, files, refusals.
Compares exit codes, standard output, standard error and written files, numbers to 1e-12. Counts
the command lines that show each difference, prints it with an example, and exits with 1 if there
is one.
"""

import argparse
import csv
import json
import math
import random
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Final

from same_predictions import ACCEPTANCES, DRAFTERS, HERE, TOLERANCE, outputs

# Flags, each with the values of which one is drawn; words after a semicolon go with a value.
PLACED: Final = """ --tp=1|2|4|8|4;--ep=4|2;--dp-attention=2
    --engine=ideal|sglang|vllm|generic|tensorrt-llm
    --server=memory=0.8|running=16|chunk=2048,mixed=on|capture=64|prefix-cache=off"""
BORROWED: Final = " --engine-from=h100-sxm:vllm|b200:sglang"
FORMATS: Final = " --kv-cache=fp8|bf16 --weights=fp8|bf16|int4"
FORMULAS: Final = f"""{FORMATS} --granularity=dtype|pass --experts=exact|replacement --strict-dtype
    --count=attention+ffn --recurrent-state=read-write|replay --state-dtype=bf16
    --v4-attention=mla-like"""
WORKLOAD: Final = "--input-len {input_len} --output-len {output_len}"
REQUESTS: Final = " --prefix-hit-rate=0.5"
SHOWN: Final = " --json --json --json --csv=-|out.csv --sources"
LOADED: Final = PLACED + BORROWED + FORMULAS + SHOWN

#: How often each is drawn, its words, and flags of which some are drawn.
COMMANDS: Final = (
    (8, "predict {model} -H {chip} --drafter {spec} --batch {loads}",
     f"{LOADED} --context=0|512,32768 --max-draft-len=4|8 --show-draft-len=1,2,3 "
     "--no-capacity --cost-of=verify --drafter=mtp,accept=0.7|ideal"),
    (5, f"predict {{model}} -H {{chip}} --drafter {{spec}} --concurrency {{loads}} {WORKLOAD}",
     f"{LOADED} {REQUESTS} --no-capacity --max-draft-len=6"),
    (1, "predict {model} -H h100,{chip} --drafter {spec}", PLACED + SHOWN),
    (4, f"advise {{model}} -H {{chip}} --drafter {{spec}} {WORKLOAD}",
     f"{PLACED} {FORMULAS} --json --json --sources --concurrency=1,8,64|1..32 --ttft=300 "
     "--choose-draft-len=1,2,3 --framework=vllm|sglang|tensorrt-llm --tpot=15 "
     "--min-speedup=1.2 --price-per-hour=3 --traffic=traffic.yaml|traffic.csv"),
    (5, "explain {model} -H {chip}",
     f"{LOADED} --batch=1|8|64 --context=0|8192 --query-len=1|4|512 --prefill"),
    (3, "explain {model} -H {chip} --drafter {spec}",
     f"{LOADED} --batch=1|32 --context=8192 --draft-len=2|5"),
    (5, "capacity {model} -H {chip} --context {context}",
     f"{PLACED} {BORROWED} {FORMATS} {SHOWN} --recurrent-state=replay "
     "--drafter=mtp|eagle3|dflash|ngram|mtp;--draft-len=3"),
    (4, "breakeven {model} -H {chip} --drafter {costly} --batch {loads}",
     f"{LOADED} --speedup=1.3 --context=512,32768 --draft-len=3 --no-capacity --solve=accept"),
    (3, "breakeven {model} -H {chip} --drafter {spec} --solve {solved}",
     f"{LOADED} --batch=1,16 --speedup=1.2 --draft-len=3 --most=512"),
    (1, f"breakeven {{model}} -H {{chip}} --drafter {{costly}} --batch {{loads}} {WORKLOAD}",
     PLACED + SHOWN + REQUESTS),
    (4, "frontier {model} -H {chip} --drafter {spec}",
     f"{LOADED} --batch=1..64 --devices=1,2,4 --max-draft-len=6 --tpot=20 --price-per-hour=2.5 "
     "--no-capacity"),
    (1, f"frontier {{model}} -H {{chip}} --drafter {{spec}} {WORKLOAD}",
     f"{PLACED} {SHOWN} {REQUESTS} --ttft=500 --tpot=20 --batch=1..64"),
    (4, "worth {model} -H {chip} --drafter {costly}",
     f"{LOADED} --batch=1|32 --accept-length=2,3,4 --measured-draft-len=7 --tpot=20 "
     "--context=512 --price-per-hour=4 --no-capacity"),
    (1, f"worth {{model}} -H {{chip}} --drafter {{costly}} {WORKLOAD}", PLACED + SHOWN + REQUESTS),
    (2, f"advise {{model}} -H {{chip}} --drafter {{spec}} {WORKLOAD} --policies --rounds 300",
     f"{PLACED} {SHOWN} --concurrency=1,8,64 --confidence=0.3 --seed=5"),
    (3, "validate {results} --model Qwen/Qwen3-8B -H h100 --drafter eagle3",
     "--engine=ideal|vllm|sglang --drafter=ngram,match=0.5 --draft-len=3 --tp=1|2 --json"),
    (1, "calibrate {table} --model Qwen/Qwen3-8B -H h100 -o out.yaml --drafter eagle3",
     "--engine=vllm|sglang --draft-len=3 --engine-name=mine --json"),
    (4, "advise {model} -H {chip} --drafter {forced} --choose-draft-len {draft_len} "
     "--draft-model ORG/NAME --input-len 500 --output-len 100 --bench",
     f"{FORMATS} --tp=2|8 --engine=ideal|vllm|sglang --framework=vllm|sglang --concurrency=1|16 "
     "--json --json --drafter=medusa"),
    (3, "doctor {pages} --model Qwen/Qwen3-8B -H {chip}",
     f"{PLACED} {FORMATS} --json --json --sources --wait=10 --context=1000 "
     "--drafter=eagle3|ngram,match=0.5|mtp,accept=0.6"),
    (1, "models", "--json"),
    (3, "models show {model}", "--json --family=llama"),
    (2, "models diff {model} {model}", "--json"),
    (1, "hardware", "--json"),
    (3, "hardware show {chip}", "--json"),
    (1, "hardware check {chip_file}", ""),
    (1, "acceptance list", "--json --find=qwen3|V3.2|nothing"),
    (3, "acceptance show {profile}", "--json --drafts=7|drafts=3"),
    (2, "acceptance fit {profile}", "--json --law=beta|decay|constant"),
    (1, "acceptance simulate --tokens 1000",
     "--json --draft-len=3 --seed=2 --vocabulary=20 --closeness=0.5 --markov"),
    (2, "acceptance simulate batch {model} -H {chip} --drafter {spec} --batches 4 --output-len 50",
     "--batch=1|8|32 --context=512 --draft-len=2|4 --seed=3 --json --tp=1|2 --engine=ideal|vllm"),
    (1, "sweep {study} -o out --format {format}", ""),
    (2, "sweep {study}", "--quiet"),
    (1, "sweep --schema", ""),
    (0.2, "explore {model} -H h100 -o out.html", "--batch=1,8 --context=4096"),
)  # fmt: skip
#: What is drawn for a name in braces. A `spec` has an acceptance, a `costly` drafter has none.
DRAWN: Final = {
    "model": ("Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3.5-9B", "Qwen/Qwen3.6-35B-A3B",
              "meta-llama/Llama-3.1-8B", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3.2",
              "deepseek-ai/DeepSeek-V4-Flash", "google/gemma-3-27b-it", "config.json"),
    "chip": ("h100", "h100", "b200", "h200", "a100-80gb", "l40s", "mi300x", "tpu-v5p", "chip.yaml"),
    "chip_file": ("chip.yaml", "broken-chip.yaml", "study.yaml"),
    "spec": tuple(
        drafter + ("" if drafter == "ideal" else f",{acceptance}")
        for drafter in DRAFTERS
        for acceptance in ACCEPTANCES
    ),
    "costly": DRAFTERS,
    "loads": ("1", "1,8,32", "1..16", "64,700", "4,256"),
    "input_len": ("200", "3000"),
    "output_len": ("100", "800"),
    "context": ("0", "4096", "131072"),
    "draft_len": ("1", "3", "7"),
    "solved": ("batch", "context", "cost", "accept-length"),
    "forced": ("mtp,accept=0.7", "eagle3,rates=.8/.7/.6/.5", "dflash,accept-length=2.8@3"),
    "table": ("loads.csv", "passes.csv"),
    "results": ("loads.csv", "passes.csv", "vllm-0.33.0-bench.json", "vllm-0.33.0-bench-drafts.json",
                "sglang-0.5.23-bench-drafts.jsonl", "aiperf-0.13.0-drafts.json",
                "guidellm-0.8.1.csv"),
    "pages": ("vllm-0.33.0-ngram-before.txt vllm-0.33.0-ngram-after.txt",
              "sglang-0.5.23-before.txt sglang-0.5.23-after.txt", "sglang-0.5.23-after.txt"),
    "profile": ("qwen3.6-35b-a3b/mtp/speed-bench", "vllm-0.33.0-varying.log", "counts.json"),
    "format": ("csv", "jsonl"),
    "study": ("demo", "study.yaml", "requests.yaml", "broken-study.yaml"),
}  # fmt: skip
#: All commands, and the groups that they are in.
NAMES: Final = {""} | {
    " ".join([*takewhile(str.isalpha, line.split())][:count])
    for _, line, _ in COMMANDS
    for count in (1, 2)
}
#: What takes the place of a word, to see how it is refused.
BAD: Final = ("", "0", "-1", "nan", "1e400", "x", "1,1", "nowhere.yaml", "--nonsense", "accept=2")

CHIP: Final = """format_version: 1
name: My accelerator
aliases: [mine]
sources:
  peak.flops_per_s: "datasheet, https://example.com"
  peak.memory_bytes_per_s: "datasheet, https://example.com"
  peak.memory_bytes: "datasheet, https://example.com"
peak:
  flops_per_s: {bf16: 500.0e+12, fp8: 1000.0e+12}
  memory_bytes_per_s: 3.0e+12
  memory_bytes: 96.0e+9
"""
STUDY: Final = """format_version: 1
targets:
  - {model: Qwen/Qwen3-8B, hardware: [h100-sxm, b200]}
drafters: ["eagle3,accept-length=2.8@3", "ngram,accept=0.6,match=0.5"]
batch_size: [1, 8, 64]
"""


def input_files() -> dict[str, str]:
    """Return the files that command lines name: made up, bundled, and as clients write them."""
    clients = HERE / "tests/data/clients"
    return {
        **{file.name: file.read_text() for file in sorted(clients.iterdir())},
        "config.json": (HERE / "model_configs/Qwen--Qwen3-4B.json").read_text(),
        "chip.yaml": CHIP,
        "broken-chip.yaml": CHIP.replace("3.0e+12", "3.0e12").replace("aliases", "alias"),
        "study.yaml": STUDY + "context_len: [4096]\n",
        "requests.yaml": STUDY + "workload: {input_len: 1000, output_len: 200}\n",
        "broken-study.yaml": STUDY.replace("eagle3", "eagle9") + "context: [4096]\nengine: x\n",
        "traffic.csv": "hour,concurrency\n0,2\n1,60\n2,10\n",
        "traffic.yaml": "hours: [{hour: 0, requests_per_s: 1}, {hour: 1, requests_per_s: 5}]\n"
        "mix: [{input_len: 1000, output_len: 200}]\n",
        "counts.json": '{"acceptance_histogram": [12, 30, 20, 9]}',
        "loads.csv": "batch_size,context_len,draft_len,tokens_per_s,acceptance_length\n1,2048,0,130,\n"
        "8,2048,0,850,\n32,2048,0,2300,\n1,2048,3,270,2.5\n8,2048,3,1800,2.5\n32,2048,3,4500,2.5\n",
        "passes.csv": "batch_size,positions,context_len,pass_s\n1,1,1024,0.0075\n32,1,1024,0.0091\n"
        "1,4,1024,0.0078\n32,4,1024,0.0105\n128,4,1024,0.0203\n",
    }


def help_lines() -> list[list[str]]:
    """Return the words that ask for help of every command and of every group of commands."""
    return [[*command.split(), flag] for command in sorted(NAMES) for flag in ("--help", "-h")]


def drawn(dice: random.Random) -> list[str]:
    """Return a command line that both take, but for one of six: a word of it is spoiled."""
    weights = [weight for weight, _, _ in COMMANDS]
    _, line, flags = dice.choices(COMMANDS, weights)[0]
    for name in re.findall(r"{(\w+)}", line):
        line = line.replace(f"{{{name}}}", dice.choice(DRAWN[name]), 1)
    words = line.split()
    for flag in dice.sample(flags.split(), min(len(flags.split()), dice.choice((0, 1, 1, 2, 3)))):
        name, _, values = flag.partition("=")
        words += [name, *dice.choice(values.split("|")).split(";")] if values else [name]
    if dice.random() < 1 / 6:
        words[dice.randrange(len(words))] = dice.choice(BAD)
    return words


def facts(text: str, is_csv: bool) -> dict[str, Any]:
    """Return what a text says: values of JSON and CSV by their paths, and lines of other text."""
    if is_csv:
        return json_facts(list(csv.DictReader(text.splitlines())), "")
    try:
        return json_facts(json.loads(text), "")
    except ValueError:
        pass
    said: dict[str, Any] = {}
    # Sentences that go on below themselves are put together, and boxes fall away.
    text = re.sub("[─│╭╮╰╯]+", " ", re.sub(r"\n  (?=\S)", " ", text))
    for block in text.split("\n\n"):
        for line in block.splitlines():
            words = " ".join(re.sub("</?script[^>]*>", "", line).split())
            try:
                said |= json_facts(json.loads(words), "")
            except ValueError:
                # Rows of a table are nothing without what heads it.
                head = " ".join(block.split("\n")[0].split()) + ": " if words[:1].isdigit() else ""
                said[head + words] = None
    return said


def json_facts(value: Any, path: str) -> dict[str, Any]:
    """Return every value by its path; of a list of words, where one may be added, the words."""
    if isinstance(value, dict):
        parts = [json_facts(part, f"{path}.{key}") for key, part in value.items()]
    elif isinstance(value, list):
        parts = [
            {f"{path}[] {part}": None}
            if isinstance(part, str)
            else json_facts(part, f"{path}[{i}]")
            for i, part in enumerate(value)
        ]
    else:
        return {path: value}
    return {key: fact for part in parts for key, fact in part.items()}


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, numbers to the tolerance."""
    try:
        return one == other or math.isclose(float(one), float(other), rel_tol=TOLERANCE, abs_tol=0)
    except (TypeError, ValueError):
        return False


def shape(text: str) -> str:
    """Return a text with # for its figures, and without indices of lists."""
    return re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", "#", re.sub(r"\[\d+\]", "[]", text))


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield in what facts differ, as shapes, so that many command lines have the same."""
    gone = {shape(key) for key in before.keys() - after.keys()}
    new = {shape(key) for key in after.keys() - before.keys()}
    yield from (f"- {line}" for line in gone - new)
    yield from (f"+ {line}" for line in new - gone)
    yield from (f"figures: {line}" for line in gone & new)
    for key in before.keys() & after.keys():
        if not is_same(before[key], after[key]):
            yield f"value: {shape(key)}"
    if before.keys() == after.keys() and list(before) != list(after):
        yield "order"


def compared(words: list[str], before: Any, after: Any) -> set[str]:
    """Return in what two outputs of a command line differ."""
    command = " ".join(words[:2]) if " ".join(words[:2]) in NAMES else words[0]
    found: set[str] = set()
    if before[0] != after[0]:
        found.add(f"exit code {before[0]} -> {after[0]}: {shape((before[2] + after[2])[:200])}")
    old = {"-": before[1], "(error)": before[2], **before[3]}
    new = {"-": after[1], "(error)": after[2], **after[3]}
    for stream in old.keys() | new.keys():
        is_csv = stream == dict(pairwise(words)).get("--csv")
        said = [facts(texts.get(stream, ""), is_csv) for texts in (old, new)]
        found |= {f"{command} {stream}: {line}" for line in differences(*said)}
    return found


def main() -> int:
    """Draw, run and compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=HERE)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    dice = random.Random(asked.seed)  # noqa: S311 - no secret
    lines = help_lines()
    while len(lines) < asked.runs:
        words = drawn(dice)
        if words not in lines:
            lines.append(words)
    files = input_files()
    with ThreadPoolExecutor() as threads:
        before = threads.submit(outputs, asked.before.resolve(), lines, files)
        after = threads.submit(outputs, asked.after.resolve(), lines, files)
    examples: dict[str, list[str]] = {}
    differ = 0
    for words, old, new in zip(lines, before.result(), after.result(), strict=True):
        found = compared(words, old, new)
        differ += bool(found)
        for difference in found:
            examples.setdefault(difference, []).append(" ".join(words))
    for difference, those in sorted(examples.items()):
        print(f"{len(those):6}  {difference}", f"        {those[0]}", sep="\n")
    refused = sum(code != 0 for code, *_ in after.result())
    print(
        f"{len(lines)} command lines ({refused} refused): {differ} differ, in {len(examples)} ways"
    )
    return int(bool(examples))


if __name__ == "__main__":
    sys.exit(main())
