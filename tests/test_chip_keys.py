"""What decides physics is a key of a hardware file: names move nothing, and code knows none."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import specroof
from commands import run
from conftest import _data_folder
from specroof import load_hardware, predict
from specroof.architecture.base import KERNELS
from specroof.catalog import hardware_names
from specroof.errors import OptionError, ProfileError
from specroof.frameworks import SERVERS, SPELT, known_releases, release
from specroof.hardware.profile import HardwareProfile, parse_hardware
from specroof.hardware.written import calibrated_yaml
from specroof.latency.model import engine_notes
from specroof.latency.setup import engine_setup
from specroof.parsers import PARSERS
from tables import refusal, rows

PACKAGE: Final = Path(specroof.__file__).parent
FOLDER: Final = _data_folder("hardware")
ASKED: Final[dict[str, Any]] = {
    "drafters": ["eagle3,accept=0.7", "ngram,match=0.5,accept=0.6"],
    "batch_size": [1, 48],
    "context_len": [512, 16_384],
    "max_draft_len": 4,
}


def renamed(chip: str, folder: Path, **keys: Any) -> HardwareProfile:
    """Return a copy of a bundled chip under another name; a key that is None is left out."""
    content = yaml.safe_load((FOLDER / f"{chip}.yaml").read_text(encoding="utf-8"))
    content |= {"name": "Renamed", "aliases": ["renamed"], **keys}
    for key in [key for key, value in content.items() if value is None]:
        del content[key]
        content["sources"].pop(key, None)
    path = folder / "renamed.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_hardware(path)


def figures(chip: HardwareProfile, model: str, engine: str | None) -> list[dict[str, Any]]:
    rows = predict(model, chip, engine=engine, **ASKED).to_dict()["rows"]
    return [{key: value for key, value in row.items() if key != "hardware"} for row in rows]


@pytest.mark.parametrize("chip", hardware_names())
def test_renaming_a_chip_moves_nothing(chip: str, tmp_path: Path) -> None:
    own, copied = load_hardware(chip), renamed(chip, tmp_path)
    assert (copied.name, copied.engines) == ("Renamed", own.engines)
    fitted, other = ("google/gemma-3-4b-it", "vllm"), ("Qwen/Qwen3-8B", None)
    asked = fitted if "vllm" in own.engines else other
    assert figures(own, *asked) == figures(copied, *asked)
    assert own.generic is not None
    assert copied.generic is not None
    assert copied.generic.local_engines == own.generic.local_engines


def test_a_chip_without_an_architecture_is_one_that_nobody_knows(tmp_path: Path) -> None:
    unknown = {"vendor": None, "architecture": None, "compute_capability": None}
    for name, engine in (("h100-sxm", "sglang"), ("mi355x", "atom"), ("l40s", "vllm")):
        own, strange = load_hardware(name), renamed(name, tmp_path, **unknown)
        notes = [*engine_notes(engine_setup(strange, engine, None, None))]
        assert "architecture" in notes[0]
        assert "architecture" not in "".join(
            engine_notes(engine_setup(strange, "ideal", None, None))
        )
        assert "nobody knows" not in "".join(engine_notes(engine_setup(own, engine, None, None)))
    assert strange.generic is not None
    assert strange.generic.family is None
    with pytest.raises(OptionError, match=r"vllm.* names no vendor"):
        strange.engine("llama.cpp")
    assert "architecture is not named" in run("hardware check", tmp_path / "renamed.yaml")


def test_words_that_no_bundled_chip_has_are_said(tmp_path: Path) -> None:
    renamed("h100-sxm", tmp_path, vendor="nvidai", architecture="something")
    said = run("hardware check", tmp_path / "renamed.yaml")
    assert "vendor nvidai" in said
    assert "did you mean nvidia?" in said
    assert re.search(r"architecture something .*hopper", said)


@pytest.mark.parametrize(
    ("engine", "chip"),
    [("vllm", "nowhere"), ("vllm", "h200"), ("tensorrt-llm", "mi300x"), ("vllm", "renamed")],
)
def test_an_engine_is_the_same_as_one_with_figures_of_its_own(
    engine: str, chip: str, tmp_path: Path
) -> None:
    assert load_hardware("h200").same_engines == {"sglang": "h100-sxm", "vllm": "h100-sxm"}
    same = {"engines": {engine: {"same_as": chip}}, "default_engine": None}
    sources = {f"engines.{engine}": "elsewhere"}
    text = yaml.safe_load((FOLDER / "l40s.yaml").read_text(encoding="utf-8"))["sources"] | sources
    said = refusal(ProfileError, renamed, "l40s", tmp_path, **same, sources=text)
    assert f"engines.{engine}.same_as is '{chip}'; allowed: a bundled" in said


@pytest.mark.parametrize(("old", "new", "said"), rows("refusals", "chip_keys"))
def test_a_wrong_key_of_a_chip_is_refused(old: str, new: str, said: str) -> None:
    text = (FOLDER / "h200.yaml").read_text(encoding="utf-8")
    assert old in text
    assert said in refusal(ProfileError, parse_hardware, text.replace(old, new), source="x.yaml")


def test_a_calibrated_file_keeps_the_keys_and_holds_all_of_its_engines() -> None:
    h200 = load_hardware("h200")
    engine = replace(h200.engines["vllm"], name="mine")
    text = calibrated_yaml(h200, engine, name="mine", source="measured here")
    assert "same_as" not in text
    again = parse_hardware(text, source="again.yaml")
    for key in ("vendor", "architecture", "compute_capability", "usable_memory_bytes"):
        assert getattr(again, key) == getattr(h200, key) is not None
    assert {**again.engines, "mine": None} == {**h200.engines, "mine": None}


# --- no name in code -----------------------------------------------------------------------------

#: Rooms whose facts about chips, servers and families stand in files.
ROOMS: Final = ("frameworks", "hardware", "latency", "drafters", "speedup", "serving")
#: Of vendors and product lines, beside the aliases and the keys of bundled files.
PRODUCTS: Final = "geforce instinct radeon tesla blackwell ampere trainium inferentia gaudi tpu rtx"


def server_words() -> set[str]:
    """Return what people call servers, and the first words of their titles."""
    titles = {release(name).title for name in SERVERS if known_releases(name)}
    return {*SERVERS, *SPELT, "trt", "atom", *(title.casefold() for title in titles)}


def chip_words() -> set[str]:
    """Return the names of chips, vendors and architectures; those of CPUs say what memory is."""
    chips = {name: load_hardware(name) for name in hardware_names()}
    names = {
        word
        for name, chip in chips.items()
        if chip.architecture != "cpu"
        for word in (name, *chip.aliases, chip.vendor, chip.architecture)
    }
    return {*PRODUCTS.split(), *filter(None, names)}


def spelt(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the names and the texts of a module, but for docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        if isinstance(node.value, ast.Constant)
    }  # fmt: skip
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield line, node.value
        for field in ("id", "attr", "name", "arg"):
            if isinstance(word := getattr(node, field, None), str):
                yield line, word


def test_no_name_of_a_chip_a_vendor_a_server_or_a_family_stands_in_code() -> None:
    # Mamba 2 is the name of a class of kernels, which code may ask for, too.
    words = chip_words() | server_words() | ({*PARSERS} - {*KERNELS})
    assert {"nvidia", "h100", "gb200", "hopper", "tpu-v5e", "vllm", "mlx", "qwen3_5"} <= words
    known = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(map(re.escape, sorted(words)))})(?![a-z0-9])")
    assert known.search("is_blackwell")
    assert known.search("_vllm_config")
    assert known.search("of gemma3_text")
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text[:60]}"
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for line, text in spelt(path)
        if known.search(text.casefold())
    ]
    assert found == []


@pytest.mark.parametrize("word", ["framework", "engine"])
@pytest.mark.parametrize("chip", ["mi300x", "m4-max", "gaudi3", "tpu-v6e"])
def test_tensorrt_is_refused_on_chips_that_have_no_cuda(word: str, chip: str) -> None:
    # It compiles engines of TensorRT for CUDA; vLLM and SGLang have builds for other vendors.
    bound: dict[str, Any] = {word: "trt-llm"}
    chips: Any
    for chips in (chip, ["h100", chip]):
        with pytest.raises(OptionError, match=rf"^{word} is 'tensorrt-llm'.*nvidia alone"):
            predict("Qwen/Qwen3-0.6B", chips, **bound)
    free: dict[str, Any] = {word: "vllm"}
    assert predict("Qwen/Qwen3-0.6B", chip, **free).rows
