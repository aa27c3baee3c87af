"""Hold printed flags, keys and schedules against the definitions in the engines' own sources.

    pip download --no-deps sglang==0.5.23 vllm==0.33.0     # and unzip the wheels into FOLDER
    pip download --no-deps sglang==0.5.18                  # and into FOLDER/sglang-0.5.18
    python benchmarks/engine_definitions.py FOLDER

Flags, keys, methods and draft models of `tests/data/launch.yaml`, which tests hold against what is
printed, have to be defined; schedules that are printed are read by the engines' own functions.
Of an older release every flag that its file tells a server has to be defined. Nothing is installed
or started. It prints a line for each check, and fails where one does.
"""

import ast
import bisect
import json
import math
import shlex
import sys
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from engine_rules import taken
from specroof import OptionError
from specroof.drafters import KINDS
from specroof.frameworks import FOLDER, release, release_content
from specroof.serving.launch import Speculation, launch

ROOT: Final = Path(__file__).parents[1]
LISTS: Final[dict[str, Any]] = yaml.safe_load(
    (ROOT / "tests" / "data" / "launch.yaml").read_text(encoding="utf-8")
)
SCHEDULE: Final = ((1, 16, 5), (17, 64, 2), (65, 256, 0))

#: What is looked at, and what the engine lacks of it.
Check = tuple[str, set[Any]]


def listed(part: str) -> set[Any]:
    return {*LISTS[part]}


def constants(tree: ast.AST) -> set[Any]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def fields(tree: ast.Module, name: str) -> set[str]:
    (found,) = [
        node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name
    ]
    return {
        node.target.id
        for node in found.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def planned(kind: str) -> Speculation:
    return Speculation(kind=kind, schedule=SCHEDULE, draft_model="me/head")


def served_kinds(framework: str) -> Iterator[str]:
    for kind in KINDS:
        try:
            launch(planned(kind), framework)
        except OptionError:
            continue
        yield kind


def of_vllm(folder: Path) -> Iterator[Check]:
    """Yield what vLLM lacks of the keys, methods, flags, models and drafts that it is told."""

    def source(file: str) -> ast.Module:
        return ast.parse((folder / "vllm" / file).read_text(encoding="utf-8"))

    config = source("config/speculative.py")
    yield (
        "keys of --speculative-config",
        listed("vllm_fields") - fields(config, "SpeculativeConfig"),
    )
    yield "methods", listed("vllm_methods") - constants(config)
    # A switch has a flag that turns it off (argparse.BooleanOptionalAction).
    settings = {flag.replace("--no-", "--") for flag in listed("vllm_settings")}
    arguments = constants(source("engine/arg_utils.py"))
    yield "flags", (listed("vllm_server") | settings) - arguments
    families = {both[0] for both in LISTS["mtp_families"].values()} - {None}
    yield "MTP layers of families", families - constants(config)
    yield "what MiniMax lacks, which is there", {"minimax_m2"} & constants(config)
    lacks = next(
        node
        for node in ast.walk(source("config/vllm.py"))
        if isinstance(node, ast.FunctionDef)
        and node.name == "_get_v2_model_runner_unsupported_features"
    )
    synchronous: list[str] = release("vllm").memory.synchronous_kinds  # type: ignore[attr-defined]
    # DFlash and DSpark are named as those whose parallel drafting it has.
    named = {*served_kinds("vllm")} & constants(lacks)
    yield "kinds whose scheduler waits", named ^ {*synchronous, "dflash", "dspark"}
    condition = "method in ('suffix', 'custom_class')"
    yield "conditions of waiting", set() if condition in ast.unparse(lacks) else {condition}
    name, checked = "build_dynamic_sd_schedule_lookup", "validate_and_normalize_dynamic_sd_schedule"
    rules = taken(folder / "vllm" / "v1/spec_decode/dynamic/utils.py", {name, checked}, {})
    table = json.loads(shlex.split(launch(planned("eagle3"), "vllm").text)[1])
    drafts = rules[name](
        table["num_speculative_tokens_per_batch_size"], 300, table["num_speculative_tokens"]
    )
    wrong = {part for part in SCHEDULE if {*drafts[part[0] : part[1] + 1]} != {part[2]}}
    yield "parts of a schedule", wrong


def of_sglang(folder: Path) -> Iterator[Check]:
    """Yield what SGLang lacks of the flags, algorithms, models and drafts that it is told."""

    def source(file: str) -> ast.Module:
        return ast.parse((folder / "sglang" / "srt" / file).read_text(encoding="utf-8"))

    records = {
        "spec": ["Spec"], "schedule": ["Schedule"], "parallel": ["Parallel"],
        "exec_": ["ExecGraph", "ExecMamba"], "memory": ["Memory"], "model": ["Model"],
    }  # fmt: skip
    known = set[str]()
    for file, names in records.items():
        tree = source(f"arg_groups/fields/{file}.py")
        known |= set().union(*(fields(tree, name) for name in names))
    flags = listed("sglang_flags") | listed("sglang_server")
    yield "flags", {flag[2:].replace("-", "_") for flag in flags} - known
    tree = source("speculative/spec_info.py")
    names_of_it = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    kinds = served_kinds("sglang")
    algorithms = {shlex.split(launch(planned(kind), "sglang").text)[1] for kind in kinds}
    yield "algorithms", algorithms - names_of_it - constants(tree)
    models = constants(source("configs/model_config.py"))
    families = {both[1] for both in LISTS["mtp_families"].values()} - {None}
    yield "MTP layers of families", families - models
    yield "what MiniMax lacks, which is there", {"MiniMaxM3ForCausalLMMTP"} & models
    tree = source("speculative/adaptive_spec_params.py")
    wanted = {"_load_adaptive_config", "AdaptiveStepSlot", "AdaptiveSpeculativeParams"}
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in wanted
    ]
    rules: dict[str, Any] = {
        "bisect": bisect,
        "json": json,
        "math": math,
        "cached_property": cached_property,
        "logger": None,
        "log_info_on_rank0": lambda *_: None,
    }
    exec(compile(tree, "sglang", "exec"), rules)  # noqa: S102 - the released package's own rule
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "adaptive.json"
        path.write_text(launch(planned("mtp"), "sglang").files["adaptive.json"], encoding="utf-8")
        steps = rules["AdaptiveSpeculativeParams"](5, str(path))
    found = {
        part: {steps.get_steps_for_batch(batch) for batch in part[:2]} != {part[2]}
        for part in SCHEDULE
    }
    yield "parts of a schedule", {part for part, is_wrong in found.items() if is_wrong}


def words_of(content: Any) -> Iterator[str]:
    """Yield the words of a release's file that a server is told, not those of a client."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from () if key in {"bench", "sources", "source"} else words_of(value)
    elif isinstance(content, list):
        for value in content:
            yield from words_of(value)
    elif isinstance(content, str):
        yield content


def of_older_sglang(folder: Path) -> Iterator[Check]:
    """Yield what SGLang 0.5.18 lacks of the flags and algorithms that its file tells it."""
    name = "sglang-0.5.18"

    def source(file: str) -> ast.Module:
        path = folder / name / "sglang" / "srt" / file
        return ast.parse(path.read_text(encoding="utf-8"))

    content = release_content(FOLDER / f"{name}.yaml")
    flags = {word[2:].replace("-", "_") for word in words_of(content) if word.startswith("--")}
    yield f"{len(flags)} flags", flags - fields(source("server_args.py"), "ServerArgs")
    algorithms = {method["name"] for method in content["methods"].values()}
    tree = source("speculative/spec_info.py")
    yield "algorithms", algorithms - {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def main() -> None:
    """Print each check, and fail where an engine lacks what it is told."""
    folder = Path(sys.argv[1])
    is_lacking = False
    engines = {"vllm": of_vllm, "sglang": of_sglang, "sglang 0.5.18": of_older_sglang}
    for framework, checks in engines.items():
        for what, lacking in checks(folder):
            is_lacking |= bool(lacking)
            print(f"{framework}: {what}: {sorted(map(str, lacking)) or 'as they should be'}")
    sys.exit(is_lacking)


if __name__ == "__main__":
    main()
