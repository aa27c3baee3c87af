"""JSON Schemas of what ``--json`` prints, made of answers by `make outputs`.

An answer is the union of what many calls print (data/calls.yaml). Required are the keys of the
envelope, and the columns of rows that their class always has; a key that a call adds later is
allowed. What stands below the envelope may be null: not known, or not asked for.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from server_pages import Life, sglang_page, vllm_page
from sessions import files_of
from specroof.cli import COMMANDS, app
from specroof.cli.mcp import questions
from specroof.cli.schema import load_schema
from specroof.quantities import Row, quantity_of
from tables import rows

ROOT: Final = Path(__file__).parents[1]

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
            return {"type": {"object", "null"}, "properties": parts}
        return {"type": {"object", "null"}, "additionalProperties": union(parts.values())}
    if isinstance(value, list):
        return {"type": {"array", "null"}, "items": union(map(schema_of, value))}
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
        united["additionalProperties"] = union(every)
        return
    known = united.get("properties", {})
    united["properties"] = known | {
        key: union([one, *filter(None, [known.get(key)])])
        for key, one in schema["properties"].items()
    }


def required_columns(keys: set[str]) -> set[str]:
    """Return the columns that rows with these keys always have, as their class declares them."""
    kinds = [Row]
    for kind in kinds:
        kinds += kind.__subclasses__()
    kinds = [kind for kind in kinds if keys - {"hardware"} <= {*kind.column_names()}]
    if not kinds:  # rows of two classes, or none that is declared
        return set()
    least = min(kinds, key=lambda kind: len(kind.column_names()))
    left_out = {one.name for one in fields(least) if one.default is None}
    left_out |= {f"{name}{end}" for name in left_out for end in ENDS}
    return {*least.column_names()} - left_out


def refer_to_first_chip(envelope: dict[str, Any]) -> None:
    """Let case, grid and choice of other chips be what those of the first chip are, united."""
    for key, part in envelope.items():
        others = part.get("properties", {}).pop("other_chips", None)
        if others is not None:
            envelope[key] = union([part, others["items"]])
            envelope[key]["properties"]["other_chips"] = others | {
                "items": {"type": set(), "$ref": f"#/properties/{key}"}
            }


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
    if "$ref" in schema:
        found["$ref"] = schema["$ref"]
    if "items" in schema:
        found["items"] = written(schema["items"])
    if "properties" in schema:
        found["properties"] = {key: written(one, key) for key, one in schema["properties"].items()}
    if schema.get("required"):
        found["required"] = [key for key in schema["properties"] if key in schema["required"]]
    if "additionalProperties" in schema:
        found["additionalProperties"] = written(schema["additionalProperties"])
    return found


def published(name: str, answers: list[Any]) -> dict[str, Any]:
    """Return the schema of a command from what it printed."""
    united = union(map(schema_of, answers))
    envelope = united["properties"]
    refer_to_first_chip(envelope)
    united |= {"type": {"object"}, "required": set.intersection(*map(set, answers))}
    row = envelope.get("rows", {}).get("items", {})
    if "properties" in row:
        row["required"] = required_columns({*row["properties"]})
    schema = written(united)
    version = answers[0]["version"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:specroof:{name}:{version}",
        "title": f"specroof {name.replace('-', ' ')} --json, version {version}",
        "description": COMMANDS[name.partition("-")[0]],
        **schema,
    }


# --- The answers ---------------------------------------------------------------------------------


_NAMES: Final = {name.replace("_", "-") for name in questions(can_read=True)} | {"acceptance-list"}


def command_of(words: Sequence[str]) -> str:
    """Return the name of the schema of a call: ``models-show`` of `models show NAME`."""
    names = ("-".join(words[:length]) for length in (3, 2))
    return next((name for name in names if name in _NAMES), words[0])


def mistake(words: Sequence[str], answer: Any) -> str | None:
    """Return where what a call printed leaves its published schema; None where it does not."""
    validator = Draft202012Validator(load_schema(command_of(words)))
    for error in validator.iter_errors(answer):
        deepest = min((error, *(error.context or ())), key=lambda one: -len(one.absolute_path))
        return f"{list(deepest.absolute_path)}: {deepest.message[:300]}"
    return None


def write_files(folder: Path) -> None:
    """Write the files that calls name: pages of a server, a benchmark, a chip, a day."""
    life = Life(1000.0)
    files = {"vllm.txt": vllm_page(life), "later.txt": vllm_page(life.at(1030.0))}
    files |= {"off.txt": vllm_page(life, off=True), "sglang.txt": sglang_page(life)}
    files["day.csv"] = "hour,concurrency\n0,4\n1,64\n2,8\n"
    files["trace.csv"] = "arrival_s,input_len,output_len\n0,900,100\n1,800,90\n"
    files["lengths.txt"] = "100\n30\n"
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


def texts() -> dict[str, str]:
    """Return the schema of every command as its file has it."""
    found: dict[str, list[Any]] = {}
    for name, answer in answers(rows("calls", "made_of")):
        found.setdefault(name, []).append(answer)
    return {
        name: json.dumps(published(name, objects), indent=1) + "\n"
        for name, objects in found.items()
    }
