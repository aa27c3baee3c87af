"""Try every bundled family with every kind of drafter on every server, by the server's own rules.

For each family, kind and framework, `launch` refuses or returns flags. Flags are judged

- for vLLM and SGLang as in ``engine_flags.py``, by their parsers and checks; besides, the class
  that the engine has for the family must hand on hidden states to kinds that read them (its bases
  and methods are read from the sources; nothing is imported). What files of releases refuse is
  compared with those classes in the other direction, too.
- for llama.cpp by ``common/arg.cpp`` and ``common/speculative.cpp``: every flag is defined, the
  type of speculation is known, the number of drafts stands behind the flag that the type reads, and
  a format of the cache is one of its own.
- for mlx-lm by the arguments of ``server.py``, and by the caches that its models make.

    python benchmarks/engine_kinds.py --vllm FOLDER --sglang FOLDER --llama FOLDER --mlx FOLDER
"""

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from engine_flags import DRAFTERS, SIZES, STARTS, judged
from specroof import OptionError, load_drafter, load_model
from specroof.architecture.base import CHOICES
from specroof.architecture.model import Architecture
from specroof.drafters import SERVED_KINDS
from specroof.hardware.profile import Placement
from specroof.questions.speculation import speculation_of
from specroof.serving.launch import launch, server_command

ROOT = Path(__file__).parents[1]
#: The class of each family, by its `model_type`, without the ending for a text model.
CLASSES = {
    "axk1": "AXK1ForCausalLM",
    "bailing_hybrid": "BailingMoeV3ForCausalLM",
    "beam": "BeamForCausalLM",
    "cohere": "CohereForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "deepseek_v4": "DeepseekV4ForCausalLM",
    "dory": "DoryForCausalLM",
    "dots1": "Dots1ForCausalLM",
    "ernie4_5": "Ernie4_5ForCausalLM",
    "ernie4_5_moe": "Ernie4_5_MoeForCausalLM",
    "exaone": "ExaoneForCausalLM",
    "falcon_h1": "FalconH1ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
    "gemma3n": "Gemma3nForConditionalGeneration",
    "gemma4": "Gemma4ForConditionalGeneration",
    "gemma4_unified": "Gemma4UnifiedForConditionalGeneration",
    "glm4_moe": "Glm4MoeForCausalLM",
    "glm5_next": "Glm5NextForConditionalGeneration",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "hunyuan_v1_moe": "HunYuanMoEV1ForCausalLM",
    "hy_v3": "HYV3ForCausalLM",
    "hy_v4": "HYV4ForCausalLM",
    "kimi_k2": "KimiK25ForConditionalGeneration",
    "kimi_k3": "KimiK3ForConditionalGeneration",
    "kimi_linear": "KimiLinearForCausalLM",
    "lfm3": "Lfm3ForCausalLM",
    "llama": "LlamaForCausalLM",
    "llama4": "Llama4ForConditionalGeneration",
    "longcat_flash": "LongcatFlashForCausalLM",
    "mimo": "MiMoForCausalLM",
    "minicpm3": "MiniCPM3ForCausalLM",
    "minimax_m1": "MiniMaxM1ForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "minimax_m3_vl": "MiniMaxM3SparseForConditionalGeneration",
    "ministral3": "Mistral3ForConditionalGeneration",
    "mistral": "MistralForCausalLM",
    "mistral_large3": "MistralLarge3ForCausalLM",
    "mistral_large4": "MistralLarge4ForConditionalGeneration",
    "mixtral": "MixtralForCausalLM",
    "muse_glimmer": "MuseGlimmerForConditionalGeneration",
    "muse_spark": "MuseSparkForConditionalGeneration",
    "nemotron-nas": "DeciLMForCausalLM",
    "nemotron_h": "NemotronHForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "olmo_hybrid": "OlmoHybridForCausalLM",
    "opt": "OPTForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "phimoe": "PhiMoEForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen2_vl": "Qwen2VLForConditionalGeneration",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
    "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_vl": "Qwen3VLForConditionalGeneration",
    "sarvam_mla": "SarvamMLAForCausalLM",
    "sarvam_moe": "SarvamMoEForCausalLM",
    "solar_open": "SolarOpenForCausalLM",
    "zaya": "ZayaForCausalLM",
}
#: Kinds that read hidden states of several layers, and what a class of each engine then has.
FEATURES = {
    "vllm": {kind: {"SupportsEagle3"} for kind in ("eagle3", "p_eagle", "dflash", "dspark")},
    "sglang": {
        "eagle3": {"set_eagle3_layers_to_capture"},
        "dflash": {"set_dflash_layers_to_capture"},
        "dspark": {"set_dflash_layers_to_capture", "set_dspark_layers_to_capture"},
    },
}
#: The flag that counts the drafts of each type of llama.cpp; drafters with weights share one.
COUNTED = {"ngram-mod": "--spec-ngram-mod-n-max", "ngram-simple": "--spec-ngram-simple-size-m"}
#: Families whose configs the checkpoint's own code reads; that it is run, a command has to say.
OWN_CODE = ("bailing_hybrid", "mimo", "nemotron-nas", "minimax_m1")
DRAFTS = 3


def families() -> dict[str, tuple[str, Architecture]]:
    """Return the first bundled checkpoint of each family; one with layers for mtp goes first."""
    found: dict[str, tuple[str, Architecture]] = {}
    for path in sorted((ROOT / "model_configs").glob("*.json")):
        name = path.stem.replace("--", "/", 1)
        model = load_model(name)
        family = model.family.removesuffix("_text")
        if family not in found or len(model.notes) > len(found[family][1].notes):
            found[family] = (name, model)
    return found


def drafter_of(kind: str, name: str, folder: Path) -> tuple[Any, str | None]:
    """Return a drafter of a kind, and the folder of its weights, where it has any."""
    if kind == "model":  # one with the same vocabulary
        return load_drafter(f"model,accept=0.7,config={name}"), name
    if kind == "pard":
        path = folder / "pard" / "config.json"
        return load_drafter(f"pard,accept=0.7,config={path}"), str(path.parent)
    known = DRAFTERS.get(f"{kind},accept=0.7") or DRAFTERS.get(f"{kind},accept=0.8")
    return load_drafter(f"{kind},accept=0.7"), str(folder / kind) if known else None


@cache
def classes(folder: Path) -> dict[str, list[ast.ClassDef]]:
    """Return the classes of all files below a folder, by name."""
    found: dict[str, list[ast.ClassDef]] = {}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def traits(known: dict[str, list[ast.ClassDef]], name: str) -> set[str]:
    """Return the names of a class, of the classes that it derives from, and of their methods."""
    seen, left = set[str](), [name]
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        for node in known.get(one, []):
            left += [ast.unparse(base).partition("[")[0].split(".")[-1] for base in node.bases]
            seen |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    return seen


def models_of(framework: str, sources: Path) -> dict[str, set[str]]:
    """Return the traits of the class of each family; of families that run otherwise, none."""
    if framework == "sglang":
        known = classes(sources / "sglang/srt/models")
        return {family: traits(known, name) for family, name in CLASSES.items()}
    known = classes(sources / "vllm/model_executor/models") | classes(sources / "vllm/models")
    registry = ast.parse((sources / "vllm/model_executor/models/registry.py").read_text())
    names = {
        key.value: str(place.elts[1].value)
        for node in ast.walk(registry)
        if isinstance(node, ast.Dict)
        for key, place in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(place, ast.Tuple) and len(place.elts) == 2
        if isinstance(place.elts[1], ast.Constant)
    }
    # Families that it has no class for run in that of the Transformers library, if at all.
    usual = "TransformersForCausalLM"
    return {family: traits(known, names.get(name, usual)) for family, name in CLASSES.items()}


@cache
def known_to_library(interpreter: str, name: str) -> bool:
    """Return whether the library of models that an engine is built on has a class."""
    code = f"import transformers; print(hasattr(transformers, {name!r}))"
    run = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip() == "True"


def judged_llama(sources: Path, command: str) -> str:
    """Return what is wrong with a command of llama.cpp; empty where nothing is."""
    text = (sources / "common/arg.cpp").read_text(encoding="utf-8")
    named = (sources / "common/speculative.cpp").read_text(encoding="utf-8")
    options = set(re.findall(r'"(--?[a-z][\w-]*)"', text))
    types = set(re.findall(r'\{"([\w-]+)",\s+COMMON_SPECULATIVE_TYPE_', named))
    block = text.partition("kv_cache_types = {")[2].partition("}")[0]
    caches = {name.lower() for name in re.findall(r"GGML_TYPE_(\w+)", block)}
    words = command.split()
    told = {word: words[i + 1 : i + 2] for i, word in enumerate(words) if word.startswith("-")}
    unknown = {*told} - options
    (kind,) = told["--spec-type"]
    counted = COUNTED.get(kind, "--spec-draft-n-max")
    cache_type = told.get("--cache-type-k", ["f16"])[0]
    wrong = [f"unknown {unknown}"] * bool(unknown)
    wrong += [f"unknown type {kind}"] * (kind not in types)
    wrong += [f"{kind} reads {counted}"] * (told.get(counted) != [str(DRAFTS)])
    wrong += [f"unknown cache {cache_type}"] * (cache_type not in caches)
    return "; ".join(wrong)


def judged_mlx(sources: Path, family: str, command: str) -> str:
    """Return what is wrong with a command of mlx-lm; empty where nothing is."""
    server = (sources / "mlx_lm/server.py").read_text(encoding="utf-8")
    unknown = {word for word in command.split() if word.startswith("--")} - set(
        re.findall(r'"(--[\w-]+)"', server)
    )
    utils = (sources / "mlx_lm/utils.py").read_text(encoding="utf-8")
    renamed = re.search(r"MODEL_REMAPPING = (\{.*?\n\})", utils, re.DOTALL)
    files = {} if renamed is None else ast.literal_eval(renamed[1])
    path = sources / f"mlx_lm/models/{files.get(family, family)}.py"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    wrong = [f"unknown {unknown}"] * bool(unknown) + ["no such model"] * (not text)
    return "; ".join(wrong + ["its cache is not trimmable"] * ("ArraysCache(" in text))


def tried(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield each family with each kind on each server: flags, or why there are none."""
    for family, (name, model) in families().items():
        for kind in sorted(SERVED_KINDS):
            drafter, weights = drafter_of(kind, name, folder)
            for framework in ("vllm", "sglang", "llama.cpp", "mlx"):
                case: dict[str, Any] = {"family": family, "kind": kind}
                case |= {"framework": framework, "model": name}
                case["weights"] = weights
                try:
                    plan = speculation_of(drafter, model, [(1, 8, DRAFTS)], weights)
                    flags = launch(plan, framework)
                except OptionError as refusal:
                    yield case | {"command": None, "why": str(refusal), "files": {}}
                    continue
                start = ""
                if framework in STARTS:
                    start = server_command(framework, name, Placement(), family=model.family)
                yield case | {"command": f"{start} {flags.text}".strip(), "files": flags.files}


def main() -> None:  # noqa: C901, PLR0912, PLR0915 - a report from top to bottom
    """Print how many of the combinations a server refuses whose flags are printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    for engine in ("vllm", "sglang", "llama", "mlx"):
        parser.add_argument(f"--{engine}", type=Path, required=True, help=f"sources of {engine}")
    for engine in ("vllm", "sglang"):
        parser.add_argument(f"--stub-{engine}", default="", help="packages that are not installed")
    parser.add_argument("--configs", type=Path, help="real configs, as ORG--NAME.json")
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for spec, config in DRAFTERS.items():
            if config is not None:
                _write(folder / spec.partition(",")[0], {**SIZES, **config})
        _write(
            folder / "pard",
            {**SIZES, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
            | {"pard_token": 1, "tie_word_embeddings": False},
        )
        for family, (name, _) in families().items():
            file = f"{name.replace('/', '--')}.json"
            real = None if words.configs is None else words.configs / file
            bundled = ROOT / "model_configs" / file
            raw = json.loads((real if real and real.exists() else bundled).read_text("utf-8"))
            raw.setdefault("architectures", [CLASSES[family]])
            _write(folder / name, raw, family)
        cases = [*tried(folder)]
        refused = 0
        for framework in ("vllm", "sglang", "llama.cpp", "mlx"):
            own = [case for case in cases if case["framework"] == framework]
            asked = [case for case in own if case["command"]]
            for case in asked:
                case["folder"] = str(folder / case["model"])
                if case["kind"] == "model":  # a folder in the place of a name
                    weights = case["weights"]
                    case["command"] = (
                        case["command"]
                        .replace(f'"{weights}"', f'"{folder / weights}"')
                        .replace(
                            f"draft-model-path {weights}", f"draft-model-path {folder / weights}"
                        )
                    )
            if framework in FEATURES:
                sources = getattr(words, framework)
                stub = getattr(words, f"stub_{framework}")
                said = judged(words.python, framework, sources, stub, asked)
                models = models_of(framework, sources)
                runs = {family for family, known in models.items() if len(known) > 1}
                runs -= {family for family in runs if "TransformersForCausalLM" in models[family]}
                runs |= {
                    family
                    for family in models.keys() - runs
                    if known_to_library(words.python, CLASSES[family])
                }
                for i, case in enumerate(asked):
                    needs = FEATURES[framework].get(case["kind"])
                    if needs and not needs & models[case["family"]]:
                        said[i] += f" its class lacks {needs}"
                    if case["family"] not in runs:
                        said[i] += " no class"
                kept = {(case["family"], case["kind"]) for case in asked}
                for family, known in models.items():
                    for kind, needs in FEATURES[framework].items():
                        if family in runs and needs & known and (family, kind) not in kept:
                            print(f"  {framework}: {kind} of {family} could run, and is refused")
            elif framework == "llama.cpp":
                said = [judged_llama(words.llama, case["command"]) for case in asked]
            else:
                said = [judged_mlx(words.mlx, case["family"], case["command"]) for case in asked]
            wrong = [(case, why) for case, why in zip(asked, said, strict=True) if why]
            refused += len(wrong)
            print(
                f"{framework}: {len(own)} tried, {len(own) - len(asked)} refused by specroof, "
                f"{len(asked)} commands, {len(wrong)} refused by the server"
            )
            for (kind, why), count in Counter(
                (case["kind"], " ".join(why.split())[:300]) for case, why in wrong
            ).items():
                of = [case["family"] for case, _ in wrong if case["kind"] == kind]
                print(f"  {count:3d}  {kind}: {why}\n       {', '.join(dict.fromkeys(of))}")
        formats = 0
        for name in CHOICES["kv_dtype"]:
            start = server_command("llama.cpp", "m.gguf", Placement(), kv_cache=name)
            command = f"{start} --spec-type draft-mtp --spec-draft-n-max {DRAFTS}"
            formats += bool(judged_llama(words.llama, command))
        print(f"llama.cpp: {len(CHOICES['kv_dtype'])} formats of a cache, {formats} refused")
        print(f"{len(cases)} tried, {refused + formats} refused")
    recurrent = [
        family
        for family, (_, model) in families().items()
        if any(core.cache_kind == "state" for _, core in model.counted_cores)
    ]
    print(f"recurrent, without a draft model in MLX: {', '.join(recurrent)}")


def _write(folder: Path, config: dict[str, Any], family: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if family in OWN_CODE:
        config["auto_map"] = {"AutoConfig": "configuration.Config"}
        code = "from transformers import PretrainedConfig\n\n\nclass Config(PretrainedConfig):\n"
        (folder / "configuration.py").write_text(f"{code}    model_type = {family!r}\n")
    if family == "mistral_large3":  # by its name SGLang reads Mistral's own file
        own = {"moe": {"num_shared_experts": config["n_shared_experts"]}}
        scaling = {"llama_4_scaling": {"original_max_position_embeddings": 8192, "beta": 0.1}}
        text = {key: value for key, value in config.items() if key != "vision_config"}
        (folder / "params.json").write_text(json.dumps({**text, **own, **scaling}))
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    main()
