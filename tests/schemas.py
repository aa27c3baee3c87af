"""JSON Schemas of what ``--json`` prints, made of answers: `python tests/schemas.py FOLDER`.

An answer is the union of what many calls print. A key is required if all of them have it; a key
that a call adds later is allowed. Numbers and texts may be null: not known, or not asked for.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from server_pages import Life, sglang_page, vllm_page
from sessions import files_of
from specroof.cli import COMMANDS, app
from specroof.cli.schema import load_schema
from specroof.quantities import quantity_of

ROOT: Final = Path(__file__).parents[1]

#: Calls besides those of the documentation: each flag that changes what JSON holds.
CALLS: Final = """
predict Qwen/Qwen3-8B -H h100,b200 --drafter ideal
predict Qwen/Qwen3-8B -H h100 --engine ideal --drafter ideal --max-draft-len 0
predict Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --max-draft-len 2 --grid
predict Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --drafter ngram,match=0.5,accept=0.6 --show-draft-len 1,3
predict Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --isl 1024 --osl 256 --concurrency 1,512
predict Qwen/Qwen3-32B -H l40s --drafter eagle3,survival=.9/.6 --batch 1,4096 --context 1e5
predict moonshotai/Kimi-K2-Instruct -H h100 --drafter ideal
predict Qwen/Qwen3-8B -H mi300x --drafter eagle3,accept=0.7 --server running=8,overlap=on --isl 9 --osl 9
predict Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --isl 512 --osl 64 --rate 2,200/s --requests 60 --ttft 500
predict Qwen/Qwen3-8B -H h100 --drafter ngram,accept=0.7,match=0.5 --isl 512 --osl 1 --concurrency 1,4 --requests 2x
predict Qwen/Qwen3-8B -H h100 --prefill 1x1@h200 --decode 1x2 --drafter eagle3,accept=0.7 --isl 1024 --osl 256 --concurrency 1,64
advise Qwen/Qwen3-32B -H h100 --tp 2 --framework vllm --drafter eagle3,accept=0.7 --isl 1024 --osl 512 --concurrency 1,64
advise Qwen/Qwen3-32B -H h100,b200 --drafter eagle3,accept=0.7 --drafter ngram,accept=0.5 --isl 1024 --osl 512 --concurrency 1,64 --tpot 20 --ttft 500 --min-speedup 1.2 --price-per-hour 3
advise Qwen/Qwen3-8B -H h100 --framework sglang --drafter eagle3,accept=0.1 --isl 8000 --osl 10 --concurrency 512
advise Qwen/Qwen3-8B -H h100 --framework tensorrt-llm --drafter eagle3,accept=0.8 --isl 800 --osl 100 --concurrency 1,64 --choose-draft-len 1,2
advise Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.8 --isl 512 --osl 64 --rate 2,8/s --requests 60 --ttft 500
advise Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.8 --isl 512 --osl 64 --concurrency 1,4 --requests 2x
advise Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --isl 512 --osl 64 --concurrency 1,8 --policies --rounds 50
advise openai/gpt-oss-20b -H b200 --drafter mtp,accept=0.8 --isl 512 --osl 64 --concurrency 1 --policies --rounds 50
advise Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.8 --traffic day.csv --concurrency 1,64 --isl 1000 --osl 100
advise Qwen/Qwen3-8B -H h100 --prefill 1x1@h200 --decode 1x2 --drafter eagle3,accept=0.7 --isl 1024 --osl 512 --concurrency 1,64
advise Qwen/Qwen3-8B -H h100 --devices 3 --framework tensorrt-llm --drafter eagle3,accept=0.1 --isl 1024 --osl 512 --concurrency 256
explain deepseek-ai/DeepSeek-V3 -H b200 --tp 8 --ep 8 --batch 8 --query-len 4
explain Qwen/Qwen3-30B-A3B -H h100 --batch 8 --query-len 4
explain Qwen/Qwen3-8B -H h100 --prefill --query-len 1000
explain Qwen/Qwen3-30B-A3B -H rtx-4090+cpu-2ch-ddr5 --engine llama.cpp --n-cpu-moe 8
predict Qwen/Qwen3.6-27B -H rtx-4090 --engine llama.cpp --weights q4_k_m --drafter mtp,accept=0.7,p-min=0.5,n-min=1
explain Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --draft-len 3
explain Qwen/Qwen3-8B -H h100 --engine ideal --drafter ngram,accept=0.7
capacity Qwen/Qwen3-8B -H h100 --context 8192 --drafter eagle3 --draft-len 3
capacity Qwen/Qwen3-8B -H h100 --context 8192 --drafter ngram
capacity Qwen/Qwen3-8B -H h100 --context 8192 --drafter eagle3 --prefill 2x1 --decode 2x2
capacity Qwen/Qwen3-235B-A22B -H l40s --context 8192
breakeven Qwen/Qwen3-8B -H h100 --drafter eagle3
breakeven Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.6 --solve batch
breakeven Qwen/Qwen3-8B -H h100,mi300x --drafter eagle3,accept=0.6 --solve context
breakeven Qwen/Qwen3-8B -H h100 --drafter autoregressive,accept=0.6,cost=0.1 --solve cost --isl 512 --osl 64
breakeven Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.1 --solve accept --speedup 15
breakeven Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.6 --isl 512 --osl 64 --rate 1,8/s --requests 30 --draft-len 2
breakeven Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.6 --isl 512 --osl 64 --rate 1,8/s --requests 30 --draft-len 2 --solve rate
frontier Qwen/Qwen3-32B -H h100 --devices 1,2 --drafter eagle3,accept=0.7 --isl 1024 --osl 256 --tpot 20
frontier Qwen/Qwen3-8B -H h100,b200 --drafter eagle3,accept=0.7
frontier Qwen/Qwen3-8B -H h100 --prefill 2x1 --decode 1x2 --drafter eagle3,accept=0.7 --isl 1024 --osl 256
frontier openai/gpt-oss-120b -H b200,rtx-4090 --drafter eagle3,accept=0.7 --batch 48,96 --tpot 20
frontier Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --tpot 0.001
frontier Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --isl 512 --osl 64 --rate 1,8/s --requests 60 --ttft 500
rollout Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --lengths lognormal=400/1600 --requests 32 --step-share 0.7
rollout Qwen/Qwen3-8B -H h100,b200 --drafter ideal --lengths pareto=400/2 --requests 8 --accept-length 3,2.5
worth Qwen/Qwen3-8B -H h100 --drafter eagle3 --measured-draft-len 2
worth Qwen/Qwen3-8B -H h100 --drafter eagle3 --measured-draft-len 2 --batch 8
worth Qwen/Qwen3-8B -H h100 --drafter eagle3 --isl 512 --osl 64 --rate 1,8/s --requests 30 --measured-draft-len 3
worth Qwen/Qwen3-8B -H h100,b200 --drafter eagle3 --measured-draft-len 2 --isl 1024 --osl 256 --tpot 10 --batch 8
train Qwen/Qwen3-8B -H h100 --drafter eagle3 --samples 100000
train Qwen/Qwen3-8B -H h100 --drafter eagle3 --samples 100000 --accept-length 1,3 --isl 512 --osl 64 --rate 4/s --requests 30
train Qwen/Qwen3-8B -H h100 --drafter mtp --samples 1000 --against ngram,accept=.3 --online
doctor vllm.txt later.txt --wait 30 --model Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.8
doctor vllm.txt --model Qwen/Qwen3-8B -H h100
doctor off.txt --model Qwen/Qwen3-8B -H h100
doctor sglang.txt --model Qwen/Qwen3-8B -H h100
validate
validate --played
validate bench.csv --model Qwen/Qwen3-8B -H b200 --drafter eagle3
calibrate bench.csv --model Qwen/Qwen3-8B -H b200 --drafter eagle3
measure Qwen/Qwen3-0.6B -H cpu-2ch-ddr5 --weights q8_0 --results passes.json
measure Qwen/Qwen3-0.6B -H cpu-2ch-ddr5 --script
models
models show Qwen/Qwen3-8B
models show deepseek-ai/DeepSeek-V3
models show openai/gpt-oss-20b
models diff Qwen/Qwen3-8B openai/gpt-oss-20b
hardware
hardware show h100
hardware show rtx-4090+cpu-2ch-ddr5
hardware show l40s
hardware show mi300x
hardware show mine.yaml
hardware check mine.yaml
hardware new my-chip
acceptance
acceptance list
acceptance show qwen3-32b/eagle3/log-line
acceptance fit qwen3-32b/eagle3/log-line
acceptance simulate
acceptance simulate batch Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7
"""

#: What a number that is no quantity is counted in, by the end of its name.
UNITS: Final = {
    "bytes_per_s": "bytes per second",
    "flops_per_s": "FLOP per second; a multiply-add is 2",
    "usd_per_hour": "US dollars an hour and device",
    "_bytes": "bytes",
    "_flops": "FLOP; a multiply-add is 2",
    "_ms": "milliseconds",
    "_s": "seconds",
    "_len": "tokens",
}
#: What stands before the sentence of a quantity at the ends of its band.
ENDS: Final = {"_low": "Lower end of the 80% band. ", "_high": "Upper end of the 80% band. "}
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


# --- From answers to schemas ---------------------------------------------------------------------


def schema_of(value: object) -> dict[str, Any]:
    """Return the schema of one JSON value.

    An object has fields, or things by their names: objects all, or names that no field can have.
    """
    if isinstance(value, dict):
        parts = {key: schema_of(one) for key, one in value.items()}
        if "question" in value:  # which was asked with any parameters
            parts["asked"] = {"type": {"object"}}
        are_fields = all(map(_NAME.fullmatch, parts))
        are_things = len(value) > 1 and all(isinstance(one, dict) for one in value.values())
        if are_fields and not are_things:
            return {"type": {"object"}, "properties": parts, "required": set(parts)}
        return {"type": {"object"}, "additionalProperties": union(parts.values())}
    if isinstance(value, list):
        return {"type": {"array"}, "items": union(map(schema_of, value))}
    kinds = {bool: "boolean", str: "string", int: "number", float: "number"}
    return {"type": {"null"} if value is None else {kinds[type(value)], "null"}}


def union(schemas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of what any of these describes."""
    united: dict[str, Any] = {"type": set()}
    for schema in schemas:
        united["type"] |= schema["type"]
        if "items" in schema:
            united["items"] = union([schema["items"], *filter(None, [united.get("items")])])
        if "properties" in schema or "additionalProperties" in schema:
            _unite_objects(united, schema)
    return united


def _unite_objects(united: dict[str, Any], schema: dict[str, Any]) -> None:
    """Add a schema of objects: of fields, or of things by their names if either is."""
    if "additionalProperties" in {*united, *schema}:
        every = [one for part in (united, schema) for one in part.pop("properties", {}).values()]
        every += [
            part["additionalProperties"]
            for part in (united, schema)
            if "additionalProperties" in part
        ]
        united.pop("required", None)
        united["additionalProperties"] = union(every)
        return
    known = united.get("properties", {})
    united["properties"] = known | {
        key: union([one, *filter(None, [known.get(key)])])
        for key, one in schema["properties"].items()
    }
    united["required"] = schema["required"] & united.get("required", schema["required"])


def written(schema: dict[str, Any], name: str = "") -> dict[str, Any]:
    """Return a schema as JSON has it, numbers with their units."""
    kinds = sorted(schema["type"])
    found: dict[str, Any] = {}  # of what was always null, nothing is known
    if kinds not in ([], ["null"]):
        found["type"] = kinds[0] if len(kinds) == 1 else kinds
    unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), None)
    known = quantity_of(name)
    if known is not None and {"number", "array"} & {*kinds}:
        end = next((said for end, said in ENDS.items() if name.endswith(end)), "")
        found["description"] = f"{end}{known.about}{known.unit and f' Unit: {known.unit}.'}"
    elif unit is not None and {"number", "array"} & {*kinds}:
        found["description"] = unit
    if "items" in schema:
        found["items"] = written(schema["items"])
    if "properties" in schema:
        found["properties"] = {key: written(one, key) for key, one in schema["properties"].items()}
        found["required"] = [key for key in schema["properties"] if key in schema["required"]]
    if "additionalProperties" in schema:
        found["additionalProperties"] = written(schema["additionalProperties"])
    return found


def published(name: str, answers: list[Any]) -> dict[str, Any]:
    """Return the schema of a command from what it printed."""
    schema = written(union(map(schema_of, answers)))
    version = answers[0]["version"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:specroof:{name}:{version}",
        "title": f"specroof {name.replace('-', ' ')} --json, version {version}",
        "description": COMMANDS[name.partition("-")[0]],
        **schema,
    }


# --- The answers ---------------------------------------------------------------------------------


#: Commands below others, by the names of these.
_BELOW: Final = {
    "models": ("show", "diff"),
    "hardware": ("show", "check", "new"),
    "acceptance": ("list", "show", "fit", "simulate"),
    "acceptance-simulate": ("batch",),
}


def command_of(words: Sequence[str]) -> str:
    """Return the name of the schema of a call: ``models-show`` of `models show NAME`."""
    first, *rest = words
    while rest and rest[0] in _BELOW.get(first, ()):
        first = f"{first}-{rest.pop(0)}"
    return first


def mistake(words: Sequence[str], answer: Any) -> str | None:
    """Return where what a call printed leaves its published schema; None where it does not."""
    validator = Draft202012Validator(load_schema(command_of(words)))
    for error in validator.iter_errors(answer):
        deepest = min((error, *(error.context or ())), key=lambda one: -len(one.absolute_path))
        return f"{list(deepest.absolute_path)}: {deepest.message[:300]}"
    return None


def write_files(folder: Path) -> None:
    """Write the files that `CALLS` name: pages of a server, a benchmark, a chip, a day."""
    life = Life(1000.0)
    files = {"vllm.txt": vllm_page(life), "later.txt": vllm_page(life.at(1030.0))}
    files |= {"off.txt": vllm_page(life, off=True), "sglang.txt": sglang_page(life)}
    files["day.csv"] = "hour,concurrency\n0,4\n1,64\n2,8\n"
    for page in ("hardware", "measure", "validate"):
        text = (ROOT / "docs" / "pages" / "commands" / f"{page}.md").read_text(encoding="utf-8")
        files |= dict(files_of(text))
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def answers(calls: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the name of each call's schema, and the object that it prints."""
    with TemporaryDirectory() as place, chdir(place):
        write_files(Path(place))
        for call in calls:
            words = shlex.split(call)
            done = CliRunner().invoke(app, [*words, "--json"])
            if done.exit_code:
                message = f"{call}: exit code {done.exit_code}\n{done.output}"
                raise AssertionError(message)
            yield command_of(words), json.loads(done.stdout.splitlines()[-1])


def main(folder: Path) -> None:
    """Write the schema of every command into a folder."""
    found: dict[str, list[Any]] = {}
    for name, answer in answers(CALLS.strip().splitlines()):
        found.setdefault(name, []).append(answer)
    for name, objects in found.items():
        text = json.dumps(published(name, objects), indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ |= {"MPLBACKEND": "agg"}
    main(Path(sys.argv[1]))
