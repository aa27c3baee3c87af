"""Ask the MCP server for minutes: drawn calls, good and hostile, and none may be lost.

    python benchmarks/fuzz_mcp.py --minutes 10

Each call must be answered: with the object of a question that fits its published schema, or with
one line that says what is wrong. Needs the extra `mcp`, and jsonschema.
"""

import argparse
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import anyio
import jsonschema
from mcp import Client, StdioServerParameters, stdio_client

from specroof.cli.schema import load_schema

#: Texts that questions know, and texts that would hurt.
TEXTS: Final = [
    *("Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b", "h100", "b200", "mi300x"),
    *("eagle3,accept=0.7", "mtp,accept=0.8", "ngram,accept=0.5", "ideal", "vllm", "sglang"),
    *("generic", "batch", "accept", "running=8", "qwen3-32b/eagle3/log-line", "fp8"),
    *("", " ", "/etc/passwd", "../../etc/hostname", "~/.ssh/id_rsa", "-", "/dev/stdin", "."),
    *("/proc/self/environ", "http://127.0.0.1:1/metrics", "file:///etc/passwd", "eagle3,config=/"),
    *("nobody/nothing", "\x1b[31m", "\u202e", "nul\x00", "x" * 4096, "x" * 5000, "{{", "%s%n"),
]
NUMBERS: Final = [
    *(0, 1, 2, 3, 8, 64, 1024, 4096, 0.5, 0.9, -1, 1e-9, 1e9, 1e308, -1e308, 2**63, 10**30),
]


def drawn(schema: Mapping[str, Any], dice: random.Random) -> Any:
    """Return a value of a schema; one in ten is of another kind."""
    if dice.random() < 0.1:
        return dice.choice([None, True, [], {}, [[]], {"a": 1}, *TEXTS, *NUMBERS])
    if "enum" in schema:
        return dice.choice(schema["enum"])
    schema = dice.choice(schema.get("anyOf", [schema]))
    kinds = schema.get("type", "null")
    kind = dice.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "array":
        return [drawn(schema["items"], dice) for _ in range(dice.choice([1, 2, 3, 65]))]
    if kind == "object":
        known = list(schema.get("properties", {"running": {"type": "integer"}}).items())
        return {name: drawn(part, dice) for name, part in dice.sample(known, min(2, len(known)))}
    if kind in {"integer", "number"}:
        return dice.choice(NUMBERS)
    return {"string": dice.choice(TEXTS), "boolean": dice.random() < 0.5}.get(kind)


def arguments(tool: Any, dice: random.Random) -> dict[str, Any]:
    """Return arguments of a call: all that a tool requires, and some that it takes."""
    usual = {
        "model": ["Qwen/Qwen3-8B", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3"],
        "hardware": ["h100", "b200", "mi300x"],
        "drafters": ["eagle3,accept=0.7", "mtp,accept=0.8", "ngram,accept=0.5"],
    }
    usual["drafter"] = usual["drafters"]
    parts, required = tool.input_schema["properties"], tool.input_schema["required"]
    names = [*required, *dice.sample([*parts], min(len(parts), dice.randrange(4)))]
    return {
        name: dice.choice(usual[name])
        if name in usual and dice.random() < 0.8
        else drawn(parts[name], dice)
        for name in names
    }


def wrong(tool: str, answer: Any) -> str | None:
    """Return what is wrong with an answer; None for nothing."""
    (content,) = answer.content
    if answer.is_error:
        fits = content.text.isprintable() and len(content.text) <= 2_100
        return None if fits and "bug" not in content.text else content.text
    schema = load_schema(tool.replace("_", "-"))
    schema = schema.get("$defs", {}).get("answer", schema)
    found = answer.structured_content
    if found is None:
        return None if "left out" in content.text else "no object"
    if schema["type"] == "array":
        found = found["items"]
    for mistake in jsonschema.Draft202012Validator(schema).iter_errors(found):
        return f"{list(mistake.absolute_path)}: {mistake.message[:300]}"
    return None


async def ask(minutes: float, calls: int, seed: int) -> int:
    """Ask until the time or the calls are over; return how many answers were wrong."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    counts, slowest, failures = Counter[str](), (0.0, ""), 0
    words = ["-m", "specroof", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    end = time.monotonic() + 60 * minutes
    async with Client(stdio_client(server)) as client:
        tools = (await client.list_tools()).tools
        while time.monotonic() < end and sum(counts.values()) < calls:
            tool = dice.choice(tools)
            given = arguments(tool, dice)
            start = time.monotonic()
            answer = await client.call_tool(tool.name, given)
            slowest = max(slowest, (time.monotonic() - start, f"{tool.name} {given}"[:300]))
            counts["refused" if answer.is_error else "answered"] += 1
            problem = wrong(tool.name, answer)
            if problem is not None:
                failures += 1
                print(f"seed {seed}: {tool.name} {given}\n    {problem}", flush=True)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{counts.total()} calls: {dict(counts)}, none lost, {failures} wrong; seed {seed}")
    print(f"slowest {slowest[0]:.1f} s: {slowest[1]}\nlargest server {most:.0f} MiB")
    return failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--calls", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    sys.exit(min(1, anyio.run(ask, words.minutes, words.calls, words.seed)))
