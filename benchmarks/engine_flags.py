"""Feed printed commands to the engines' own parsers and checks, and count what they accept.

Advices are drawn with a seed: model, chip, drafter, draft length, settings of the server, load. The
command that each page prints is read back from the text, and judged

- by vLLM: its argument parser, and ``SpeculativeConfig`` with all its checks. In the place of
  ``ModelConfig``, which imports the model's code, stands the checkpoint's config, changed for a
  draft model as vLLM changes it.
- by SGLang: ``prepare_server_args``, its argument parser, and ``resolve_once``, all its rules and
  checks, on a B200 that is none. What they resolve to must be what the advice counts on: share of
  the memory, chunk, draft tokens.

Nothing is started, and TensorRT-LLM's files are not judged. The engines are unpacked wheels; the
interpreter that judges needs what they import (torch, transformers, …), and ``--stub-vllm`` and
``--stub-sglang`` name what it lacks. Of a command that was refused, what the engine said is
printed; an advice without a command says why by itself, and counts as refused by specroof. Commands
that are known as wrong are judged beside them.
"""

# ruff: noqa: PLC0415 - each interpreter imports what it has

import argparse
import importlib.abc
import importlib.machinery
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: Named models of which a real config is at hand, and devices that hold them.
MODELS = {
    "Qwen/Qwen3-8B": 1,
    "Qwen/Qwen3.5-9B": 1,
    "Qwen/Qwen3-30B-A3B": 2,
    "Qwen/Qwen3.5-35B-A3B": 2,
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 4,
    "MiniMaxAI/MiniMax-M2": 4,
    "deepseek-ai/DeepSeek-V3.1": 8,
    "deepseek-ai/DeepSeek-V4-Flash": 4,
    "deepseek-ai/DeepSeek-V4-Flash-0731": 4,
    "zai-org/GLM-4.5": 8,
    "Qwen/Qwen3-32B": 2,
    "openai/gpt-oss-120b": 2,
}
#: Drafters, and the config of a draft model of such a kind, where it has one.
DRAFTERS: dict[str, dict[str, Any] | None] = {
    "mtp,accept=0.8": None,
    "eagle,accept=0.7": {"architectures": ["EagleLlamaForCausalLM"], "model_type": "llama"},
    "eagle3,accept=0.7": {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"},
    "eagle3,accept=0.7,tree=eagle2,nodes=12,top-k=4": {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
    },
    "eagle3,accept=0.7,tree=3/2/1": None,
    "eagle3,accept=0.7,tree=sequoia,nodes=12": None,
    "p_eagle,accept=0.7": {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"},
    "dflash,accept=0.8": {"architectures": ["DFlashDraftModel"], "model_type": "qwen3"},
    "dspark,accept=0.8": {"architectures": ["Qwen3DSparkModel"], "model_type": "qwen3"},
    "ngram,accept=0.6": None,
    "suffix,accept=0.6": None,
    "medusa,accept=0.6": None,
}
SETTINGS = (
    *("", "", "", "running=64", "memory=0.85", "chunk=2048", "chunk=0", "mixed=on", "mixed=off"),
    *("prefix-cache=off", "prefix-cache=on", "capture=64", "capture=0", "overlap=off"),
    *("state-dtype=bf16", "running=128,chunk=4096,prefix-cache=off,state-dtype=fp32"),
)
#: What each engine refuses, so that a judge that accepts everything is found out.
REFUSED = {
    "vllm": [
        (
            "Qwen/Qwen3-8B",
            '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'',
        ),
        (
            "MiniMaxAI/MiniMax-M2",
            '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'',
        ),
        ("Qwen/Qwen3-8B", '--speculative-config \'{"method": "ngram", "n_drafts": 2}\''),
        ("Qwen/Qwen3-8B", "--mamba-ssm-cache-dtype bf16"),
    ],
    "sglang": [
        ("Qwen/Qwen3-8B", "--speculative-algorithm MEDUSA"),
        ("Qwen/Qwen3-8B", "--speculative-algorithm DFLASH --speculative-dflash-block-size 4"),
        (
            "Qwen/Qwen3-8B",
            "--tp-size 2 --attn-dp-size 2 --speculative-algorithm NGRAM",
        ),
        ("Qwen/Qwen3-8B", "--mamba-ssm-dtype bf16"),
    ],
}
#: The words of a command before its flags.
STARTS = {"vllm": ("vllm serve", 3), "sglang": ("python -m sglang.launch_server --model-path", 5)}
#: Sizes of every draft model that is made up.
SIZES = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "bfloat16",
    "block_size": 8,
    "head_dim": 128,
}


def drawn(rng: random.Random, folder: Path) -> dict[str, Any]:
    """Return a drawn advice: the words of the call, and the commands of its page."""
    from specroof import OptionError, advise

    model, framework = rng.choice([*MODELS]), rng.choice(["vllm", "sglang"])
    spec, server = rng.choice([*DRAFTERS]), rng.choice(SETTINGS)
    more: dict[str, Any] = {"draft_len": rng.choice([None, 1, 2, 3, 5])}
    if rng.random() < 0.5 or DRAFTERS[spec] is not None:
        drafter = folder / spec.partition(",")[0]
        named = DRAFTERS[spec] is not None
        more["draft_model"] = str(drafter) if named else None
    if rng.random() < 0.2:
        more["attention_data_parallel"] = 2
    call = {
        "framework": framework,
        "drafters": spec,
        "server": server,
        **more,
        "concurrency": rng.choice([[1, 8], [1, 64], [1, 256], [4]]),
    }
    found = {"model": model, "framework": framework, "call": call, "command": None, "why": ""}
    words = {name: value for name, value in call.items() if value not in (None, "")}
    devices = MODELS[model] * (2 if more.get("attention_data_parallel") else 1)
    try:
        answer = advise(
            model, "b200", tensor_parallel=devices, input_len=1000, output_len=500, **words
        )
    except OptionError as refusal:
        return found | {"why": str(refusal)}
    (config,) = answer.chips[0].engine_config.values()
    if not config:
        why = "drafting is off" if config == "" else answer.warnings[0]
        return found | {"why": why}
    chip = answer.chips[0]
    rules = chip.prediction.limits[chip.plan.chosen].drafting.server
    groups = chip.setup.placement.attention_data_parallel
    counted = {
        "max_running_requests": rules.running,
        "mem_fraction_static": round(rules.memory_frac, 3),
        "chunked_prefill_size": rules.chunk // groups or -1,
    }
    mib = round(chip.setup.hardware.server_memory_bytes / 2**20)
    files = {"files": chip.files, "counted": counted, "memory_mib": mib}
    return found | {"command": _command(answer.text())} | files


def _command(page: str) -> str:
    """Return the command that a page prints, in one line."""
    (block,) = re.findall(r"^# (?:vLLM|SGLang) \d.*\n((?:.+\n)+)", page, re.MULTILINE)
    block = re.sub(r"^cat > .*\n(?:.*\n)*?END\n", "", block)
    return " ".join(block.replace("\\\n", " ").split("\n")).strip()


def judged(
    interpreter: str, framework: str, sources: Path, stub: str, asked: list[dict[str, Any]]
) -> list[str]:
    """Return what an engine says of each command; empty where it accepts it."""
    run = subprocess.run(
        [interpreter, __file__, "--judge", framework, "--sources", str(sources), "--stub", stub],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    if run.returncode:
        sys.exit(f"{framework}: the judge failed\n{run.stderr[-3000:]}")
    said: list[str] = json.loads(run.stdout.splitlines()[-1])
    return said


# --- What runs in the engine's interpreter -------------------------------------------------------


class _Name(type):
    """A name of a package that is not there: a class whose attributes are such names too."""

    def __getattr__(cls, name: str) -> "_Name":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), _MEMBERS)

    def __call__(cls, *args: Any, **_: Any) -> Any:
        """Return what is decorated, else an object that decorates."""
        return args[0] if len(args) == 1 and callable(args[0]) else type.__call__(cls)


#: What a class of such a package has: subclasses of any keywords, and objects that decorate.
_MEMBERS: dict[str, Any] = {
    "__init_subclass__": classmethod(lambda _cls, **_: None),
    "__call__": lambda self, *args, **_: args[0] if args else self,
}


class _Package(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012 - what makes a package of a module
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> _Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), _MEMBERS)


class _Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stand in for packages of which arguments need no more than names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {*names}

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """Return a package for each of the names, and for those below."""
        if name.partition(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        """Return an empty package."""
        return _Package(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: it has no code."""


def judge_vllm(asked: list[dict[str, Any]]) -> list[str]:  # noqa: C901 - stand-ins and a check
    """Return what vLLM says of each command."""
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    # A device must be known; none is used.
    vllm.platforms._current_platform = CpuPlatform()  # noqa: SLF001
    from transformers import PretrainedConfig
    from vllm.config import speculative
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Raw(PretrainedConfig):  # type: ignore[misc]
        max_position_embeddings = 4096  # which rules of rotary embeddings read first

    class Config:
        """A checkpoint's config, where vLLM has a ``ModelConfig``."""

        def __init__(self, model: str, hf_overrides: Any = None, **_: Any) -> None:
            raw = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
            text = raw.pop("text_config", None)
            self.hf_config = self.hf_text_config = Raw(**raw)
            self.hf_config.model_type = raw["model_type"]
            if text:
                self.hf_config.text_config = self.hf_text_config = Raw(**text)
            if callable(hf_overrides):
                self.hf_config = hf_overrides(self.hf_config)
            self.model = self.model_weights = self.tokenizer = model
            self.hf_overrides: dict[str, Any] = {}
            self.quantization, self.max_model_len = None, 4096
            self.dtype = self.head_dtype = "bfloat16"
            self.is_moe = False

        def __getattr__(self, name: str) -> Any:
            if name == "architectures":
                return self.hf_config.architectures
            if name.startswith("__"):
                raise AttributeError(name)
            return None

        def using_transformers_backend(self) -> bool:
            return False

        def verify_with_parallel_config(self, _: object) -> None:
            pass

        def get_vocab_size(self) -> int:
            return 1

    speculative.ModelConfig = Config
    speculative.has_arctic_inference = lambda: True
    speculative.SpeculativeConfig.update_arch_ = lambda _: None
    speculative.SpeculativeConfig.create_draft_parallel_config = staticmethod(lambda *_, **__: None)
    unchanged = staticmethod(lambda *_: None)
    name = "_maybe_override_draft_max_position_embeddings"
    setattr(speculative.SpeculativeConfig, name, unchanged)
    from transformers import CONFIG_MAPPING
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    def _reads(model_type: str) -> bool:
        # Configs in Mistral's own spelling are found by their file.
        return model_type in {*CONFIG_MAPPING, *_CONFIG_REGISTRY, "mistral_large3"}

    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    parallel = types.SimpleNamespace(tensor_parallel_size=1)

    def check(case: dict[str, Any]) -> None:
        words = shlex.split(case["command"])
        args = parser.parse_args(["--model", case["folder"], *words[STARTS["vllm"][1] :]])
        raw = json.loads((Path(case["folder"]) / "config.json").read_text(encoding="utf-8"))
        if not (args.trust_remote_code or _reads(raw["model_type"])):
            message = f"{raw['model_type']} needs --trust-remote-code"
            raise ValueError(message)
        config = dict(AsyncEngineArgs.from_cli_args(args).speculative_config or {})
        config |= {
            "target_model_config": Config(case["folder"]),
            "target_parallel_config": parallel,
        }
        method = speculative.SpeculativeConfig(**config).method
        if method != config.get("method"):
            message = f"it is run as {method}"
            raise ValueError(message)

    return [_said(check, case) for case in asked]


def _on_b200(memory_mib: int) -> None:
    """Let SGLang see a B200: in its table of facts, and in all modules that asked by name."""
    from sglang.srt.runtime_context import _PlatformOverride

    facts: dict[str, Any] = dict.fromkeys(("is_hip", "is_sm90", "is_sm120", "is_sm110"), False)
    facts |= dict.fromkeys(("is_cuda", "is_sm100", "is_sm100_or_sm110", "is_blackwell"), True)
    facts |= {"is_hopper_with_cuda_12_3": False, "has_flashinfer": True, "device_sm": 100}
    _PlatformOverride(**facts, device_capability=(10, 0)).install()
    named = {"is_cuda": True, "get_device_memory_capacity": memory_mib, "get_device_sm": 100}
    named |= {"is_sm100_supported": True, "is_blackwell_supported": True}
    for module in [*sys.modules.values()]:
        if module.__name__.startswith("sglang.") and not isinstance(module, _Package):
            for name in named.keys() & vars(module).keys():
                setattr(module, name, lambda *_, found=named[name], **__: found)


def judge_sglang(asked: list[dict[str, Any]]) -> list[str]:
    """Return what SGLang says of each command."""
    from sglang.srt.arg_groups.overrides import resolved_view
    from sglang.srt.configs import model_config
    from sglang.srt.layers import quantization
    from sglang.srt.server_args import prepare_server_args

    # Known on CUDA, which this interpreter has not.
    quantization.QUANTIZATION_METHODS["mxfp4"] = quantization.Mxfp4Config
    # What rules import, they import before the device is said to be another one.
    plain = str(Path(asked[0]["folder"]).parents[1] / "Qwen/Qwen3-8B")
    prepare_server_args(["--model-path", plain, "--device", "cuda"]).resolve_once()
    _on_b200(asked[0]["memory_mib"])

    def check(case: dict[str, Any]) -> None:
        words = shlex.split(case["command"])
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for name, text in case["files"].items():
                Path(name).write_text(text, encoding="utf-8")
            words = ["--model-path", case["folder"], *words[STARTS["sglang"][1] :]]
            args = prepare_server_args([*words, "--device", "cuda"])
            args.resolve_once()
        found, counted = resolved_view(args), case.get("counted", {})
        differs = {
            name: f"{value} is {round(getattr(found, name), 3)}"
            for name, value in counted.items()
            if found.max_running_requests == counted["max_running_requests"]
            and value != round(getattr(found, name), 3)
        }
        if differs:
            raise ValueError(differs)
        if args.speculative_algorithm == "STANDALONE":
            path = Path(args.speculative_draft_model_path) / "config.json"
            raw = json.loads(path.read_text(encoding="utf-8"))
            (name,) = raw["architectures"]
            config = types.SimpleNamespace(**raw)
            model_config.ModelConfig._config_draft_model(  # noqa: SLF001 - the rule asked about
                types.SimpleNamespace(
                    is_draft_model=True,
                    hf_config=config,
                    hf_text_config=config,
                    speculative_algorithm="STANDALONE",
                )
            )
            if config.architectures != [name]:
                message = f"it is run as {config.architectures}"
                raise ValueError(message)

    return [_said(check, case) for case in asked]


def _said(check: Any, case: dict[str, Any]) -> str:
    try:
        check(case)
    except ImportError as lack:
        return f"not judged, the interpreter lacks a package: {lack}"
    except SystemExit as refusal:
        return f"the parser stops: {refusal}"
    except Exception as refusal:  # noqa: BLE001 - whatever it says is what is asked
        return f"{type(refusal).__name__}: {refusal}"
    return ""


def main() -> None:
    """Print how many commands are accepted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=200, help="advices")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vllm", type=Path, help="folder that holds vLLM's package")
    parser.add_argument("--sglang", type=Path, help="folder that holds SGLang's package")
    parser.add_argument("--configs", type=Path, help="real configs, as ORG--NAME.json")
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch")
    for engine in ("vllm", "sglang"):
        text = f"packages that {engine} imports and that are not installed, comma-separated"
        parser.add_argument(f"--stub-{engine}", default="", help=text)
    parser.add_argument("--stub", default="", help=argparse.SUPPRESS)
    parser.add_argument("--judge", choices=["vllm", "sglang"], help=argparse.SUPPRESS)
    parser.add_argument("--sources", type=Path, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.judge:
        sys.path.insert(0, str(words.sources))
        sys.meta_path.append(_Stubs(filter(None, words.stub.split(","))))
        judge = {"vllm": judge_vllm, "sglang": judge_sglang}[words.judge]
        print(json.dumps(judge(json.load(sys.stdin))))
        return
    rng = random.Random(words.seed)  # noqa: S311 - a draw, not a secret
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for spec, config in DRAFTERS.items():
            if config is not None:
                _write(folder / spec.partition(",")[0], json.dumps({**SIZES, **config}))
        for model in MODELS:
            real = words.configs / f"{model.replace('/', '--')}.json"
            _write(folder / model, real.read_text(encoding="utf-8"))
        cases = [drawn(rng, folder) for _ in range(words.n)]
        reasons = Counter(case["why"] for case in cases if case["command"] is None)
        print(f"{len(cases)} advices, seed {words.seed}; without a command: {reasons.total()}")
        for why, count in reasons.most_common():
            print(f"  {count:3d}  {why[:150]}")
        for framework in ("vllm", "sglang"):
            sources, stub = getattr(words, framework), getattr(words, f"stub_{framework}")
            asked = [c for c in cases if c["command"] and c["framework"] == framework]
            for case in asked:
                case["folder"] = str(folder / case["model"])
            if sources is None or not asked:
                print(f"{framework}: {len(asked)} commands, not judged")
                continue
            wrong = [
                {
                    "folder": str(folder / model),
                    "files": {},
                    "command": f"{STARTS[framework][0]} {model} {flags}",
                }
                for model, flags in REFUSED[framework]
            ]
            said = judged(words.python, framework, sources, stub, [*asked, *wrong])
            missed = [
                case["command"]
                for case, why in zip(wrong, said[len(asked) :], strict=True)
                if not why
            ]
            print(
                f"{framework}: of {len(wrong)} commands known as wrong, {len(wrong) - len(missed)} refused"
            )
            for command in missed:
                print(f"  accepted: {command}")
            said = said[: len(asked)]
            refused = [(case, why) for case, why in zip(asked, said, strict=True) if why]
            print(f"{framework}: {len(asked)} commands, {len(asked) - len(refused)} accepted")
            for case, why in refused:
                print(f"  refused: {case['command']}\n    {' '.join(why.split())[:400]}")


def _write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
