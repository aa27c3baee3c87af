"""Hardware files: published figures, bad files, and no name of a chip in code."""

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from string import Template
from typing import Any, Final

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import specroof
from commands import run
from conftest import _data_folder
from specroof import load_hardware, predict
from specroof.architecture.base import KERNELS
from specroof.catalog import hardware_names
from specroof.errors import OptionError, ProfileError
from specroof.frameworks import SERVERS, SPELT, known_releases, release
from specroof.hardware.engine import (
    IDEAL_ENGINE,
    CapturedGraphs,
    Collective,
    EngineProfile,
    served_width,
)
from specroof.hardware.profile import HardwareProfile, Interconnect, Peak, Placement
from specroof.hardware.schema import parse_hardware
from specroof.hardware.written import calibrated_yaml
from specroof.latency.model import engine_notes
from specroof.latency.setup import engine_setup
from specroof.parsers import PARSERS
from specroof.reading.yaml_text import parse_yaml
from tables import refusal as refusal_of
from tables import rows

FOLDER = _data_folder("hardware")
FILES = sorted(FOLDER.glob("*.yaml"))

GOOD: str = rows("values", "good_hardware")
SOURCES = GOOD[GOOD.index("sources:") : GOOD.index("peak:\n")]


def bundled(stem: str) -> HardwareProfile:
    """The profile in one of the bundled files, which passes every check."""
    path = FOLDER / f"{stem}.yaml"
    return parse_hardware(path.read_text(encoding="utf-8"), source=str(path))


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, f"{old!r} does not stand exactly once in the good file"
    return GOOD.replace(old, new)


def refusal(text: str) -> str:
    """The message that the file is refused with, without the file's name."""
    message = refusal_of(ProfileError, parse_hardware, text, source="hardware/x.yaml")
    assert len(message) < 850
    assert message.startswith("hardware/x.yaml")
    return message.removeprefix("hardware/x.yaml: ")


# --- the bundled files --------------------------------------------------------------------------


def test_equal_profiles_are_one_in_a_set() -> None:
    assert len({bundled("h100-sxm"), bundled("h100-sxm"), bundled("l4")}) == 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_bundled_file_is_sound(path: Path) -> None:
    # A prediction skips the checks for these files, so each passes them here. The repr also
    # tells 80000000000 from 80000000000.0, which only the checks make a float.
    profile, peak = bundled(path.stem), bundled(path.stem).peak
    trusted = parse_hardware(path.read_text(encoding="utf-8"), source=str(path), trusted=True)
    assert (trusted, repr(trusted)) == (profile, repr(profile))
    assert path.stem in profile.aliases
    for key, text in profile.sources.items():
        assert re.search(r"[^\s,]+, https?://\S", text), f"{key} has no title and address"
    # From two channels of a desktop to a rack's part; from a card of 6 GB to a server's memory.
    assert 5e10 < peak.memory_bytes_per_s < 1e14
    assert 6e9 < peak.memory_bytes < 1e12
    assert all(8e11 < flops_per_s < 1e17 for flops_per_s in peak.flops_per_s.values())
    link = profile.interconnect
    assert link is None or 1e10 < link.link_bytes_per_s < peak.memory_bytes_per_s
    # A sparse figure in one row, or one row's figure in another, breaks the order of narrower
    # floats. Gaudi 3 is published with fp16 slower than bf16, so one 16-bit dtype is compared.
    sixteen = "bf16" if "bf16" in peak.flops_per_s else "fp16"
    order = ("fp32", sixteen, "fp8", "fp6", "fp4")
    rates = [peak.flops_per_s[dtype] for dtype in order if dtype in peak.flops_per_s]
    assert rates == sorted(rates)


def test_no_name_leads_to_two_bundled_files() -> None:
    assert len(FILES) >= 40  # else the tests here would pass by testing nothing
    profiles = [bundled(path.stem) for path in FILES]
    aliases = [alias for profile in profiles for alias in {*profile.aliases, profile.name}]
    assert len(set(aliases)) == len(aliases)
    assert {"strix-halo", "apple-m3-ultra", "r9700", "7900xtx", "agx-orin"} < set(aliases)


DATASHEETS = rows("values", "datasheets")


@pytest.mark.parametrize("stem", DATASHEETS)
def test_bundled_peaks_are_the_dense_figures_of_the_datasheet(stem: str) -> None:
    terabytes_per_s, table = DATASHEETS[stem]
    teraflops_per_s = {dtype: float(rate) for dtype, rate in map(str.split, table.split(", "))}
    peak = bundled(stem).peak
    assert peak.flops_per_s == {
        dtype: pytest.approx(rate * 1e12, rel=1e-12) for dtype, rate in teraflops_per_s.items()
    }
    assert peak.memory_bytes_per_s == pytest.approx(terabytes_per_s * 1e12, rel=1e-12)


@pytest.mark.parametrize(
    ("stem", "memory_bytes", "link_bytes_per_s", "max_devices"), rows("values", "memory_and_links")
)
def test_bundled_memory_and_links_are_those_of_the_datasheet(
    stem: str, memory_bytes: float, link_bytes_per_s: float, max_devices: int
) -> None:
    profile = bundled(stem)
    assert profile.peak.memory_bytes == memory_bytes
    assert profile.interconnect is not None
    assert profile.interconnect.link_bytes_per_s == pytest.approx(link_bytes_per_s, rel=1e-12)
    assert profile.interconnect.max_devices == max_devices


@pytest.mark.parametrize(
    ("stem", "usable"),
    # In MiB, as llama.cpp logs recommendedMaxWorkingSetSize for chips with this much memory.
    [("m1-max", 49152), ("m2-ultra", 147456), ("m3-pro", 27648), ("m4-max", 98304), ("m4", 21845)],
)
def test_an_apple_gpu_may_use_a_part_of_the_memory(stem: str, usable: int) -> None:
    assert bundled(stem).usable_memory_bytes == pytest.approx(usable * 2**20, rel=1e-4)


@pytest.mark.parametrize("by_name", [False, True])
def test_only_bundled_files_are_trusted(
    by_name: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The user's own file comes before the bundled one of the same name, and is checked: for what
    # the values of a profile would refuse themselves, and for what they would not.
    path = tmp_path / "b200.yaml"
    monkeypatch.setenv("SPECROOF_HARDWARE_PATH", str(tmp_path))
    for old, new, said in (
        ("  engines.fast: a measurement\n", "", "sources.engines.fast is missing"),
        ("24.0e+9", "-1", "memory_bytes is -1; allowed: "),
    ):
        path.write_text(changed(old, new), encoding="utf-8")
        with pytest.raises(ProfileError, match=said):
            load_hardware("b200" if by_name else path)


@pytest.mark.parametrize("text", ["", "interconnect: null\ndefault_engine: null\n"])
def test_what_a_file_leaves_out_is_the_same_trusted_or_not(text: str) -> None:
    least = re.sub(
        r"^(aliases|interconnect): .*\n|^default_engine(.*\n)+", "", GOOD, flags=re.MULTILINE
    )
    least = re.sub(r"  (interconnect|engines)\..*\n", "", least) + text
    checked = parse_hardware(least, source="x.yaml")
    assert parse_hardware(least, source="x.yaml", trusted=True) == checked
    assert (checked.aliases, checked.interconnect, checked.engines) == ((), None, {})
    trusted = parse_hardware(GOOD, source="x.yaml", trusted=True)
    assert trusted == parse_hardware(GOOD, source="x.yaml")
    # It is safe YAML all the same.
    with pytest.raises(ProfileError, match="key 'name' appears twice"):
        parse_hardware(GOOD + "name: again\n", source="x.yaml", trusted=True)


# --- what a profile answers ---------------------------------------------------------------------


def test_a_figure_may_be_a_whole_number_and_one_dtype_is_enough() -> None:
    plain = parse_hardware(changed("memory_frac: 0.8", "overlap: plain"), source="x.yaml")
    assert plain.engine().overlap == "plain"
    # A profile with an engine of its own, whatever tool it is of.
    assert plain.owns("vllm")
    assert served_width({}, "tpot_s", [1]) is None
    profile = parse_hardware(changed("24.0e+9", "24000000000"), source="x.yaml")
    assert repr(profile.peak.memory_bytes) == "24000000000.0"
    for dtype in ("bf16", "fp16", "fp32"):
        text = changed("{bf16: 100.0e+12, fp8: 200.0e+12}", f"{{{dtype}: 100.0e+12}}")
        assert parse_hardware(text, source="x.yaml").arithmetic("fp8")[0] == dtype


@pytest.mark.parametrize(
    ("field", "value"), [*rows("refusals", "parts_of_profiles"), ("engines", [IDEAL_ENGINE])]
)
def test_a_profile_is_put_together_from_its_parts_and_nothing_else(field: str, value: Any) -> None:
    with pytest.raises(OptionError, match=rf"^{field}(\['fast'\])? is .*; allowed: "):
        replace(parse_hardware(GOOD, source="x.yaml"), **{field: value})


def test_a_written_file_has_what_differs_from_an_engine_that_loses_nothing() -> None:
    whole = parse_hardware(changed("engines.fast: a measurement", "engines.fast: mine"), source="x")
    engine = EngineProfile(
        name="slow",
        kind_memory_frac={"experts": 0.7},
        pass_overhead_s=3e-5,
        graphs=CapturedGraphs(sizes=(1, 2), eager_kernel_s=1e-3),
    )
    text = calibrated_yaml(whole, engine, name="mine", source="a test in Łódź")
    assert "engines.mine: a test in Łódź" in text  # for people to read
    assert parse_yaml(text, source="x", error=ProfileError)["engines"]["mine"] == {
        "kind_memory_frac": {"experts": 0.7},
        "pass_overhead_s": 3e-5,
        # A part of an engine is written whole.
        "graphs": {"sizes": [1, 2], "counts": "tokens", "eager_kernel_s": 1e-3},
    }


def test_engines_are_found_by_name_and_by_default() -> None:
    profile = parse_hardware(GOOD, source="x.yaml")
    assert profile.engine("fast") == profile.engines["fast"]
    assert profile.engine(None) is profile.engine() is profile.engine("fast")
    assert profile.engine("ideal") is IDEAL_ENGINE
    for default in ("", "default_engine: ideal"):
        text = changed("default_engine: fast", default)
        assert parse_hardware(text, source="x.yaml").engine() is IDEAL_ENGINE
    for name in ("vllm", "FAST", ""):
        with pytest.raises(OptionError, match=f"^engine is {name!r}; .* ideal, fast$"):
            profile.engine(name)
    for ask in (HardwareProfile.engine, HardwareProfile.engine_of):
        with pytest.raises(OptionError, match=r"is 3; allowed: "):
            ask(profile, 3)  # type: ignore[arg-type]


def test_what_a_block_does_not_say_takes_nothing_off_and_puts_nothing_on() -> None:
    said: Any
    reduced = {"latency_s": 1e-6, "one_shot_frac": None, "one_shot_bytes": 2**20}
    for block, said in (
        (IDEAL_ENGINE, {"name": "ideal", "overlap": True, "activation_frac": None}),
        (Collective(latency_s=1e-6), reduced),
        (CapturedGraphs(sizes=(1, 2)), {"sizes": (1, 2), "counts": "tokens"}),
    ):
        for name in {one.name for one in fields(block)} - said.keys():
            value = getattr(block, name)
            assert value in (1.0, {}) if name.endswith("_frac") else not value, name
        assert {name: getattr(block, name) for name in said} == said


@pytest.mark.parametrize(("name", "message"), rows("refusals", "engine_names"))
def test_a_file_that_could_not_be_read_is_not_written(name: str, message: str) -> None:
    good = parse_hardware(GOOD, source="x.yaml")
    with pytest.raises((OptionError, ProfileError), match=message):
        calibrated_yaml(good, IDEAL_ENGINE, name=name, source="a test")


@pytest.mark.parametrize(("stem", "dtype", "used", "teraflops"), rows("values", "arithmetic"))
def test_a_dtype_that_the_chip_lacks_runs_in_the_next_wider_one(
    stem: str, dtype: str, used: str, teraflops: float
) -> None:
    name, flops_per_s = bundled(stem).arithmetic(dtype)
    assert name == used
    assert flops_per_s == pytest.approx(teraflops * 1e12, rel=1e-12)


@pytest.mark.parametrize(
    ("stem", "dtype", "strict", "error", "said"),
    [
        ("l4", "fp4", True, ProfileError, "flops_per_s .*'fp4'.* fp32, bf16, fp16, fp8, int8$"),
        ("tpu-v4", "fp32", False, ProfileError, "flops_per_s .*'fp32'.* bf16, int8$"),
        ("b200", "tf32", False, OptionError, "dtype is 'tf32'; allowed: fp32, bf16, "),
        ("b200", "tf32", True, OptionError, "dtype is 'tf32'; allowed: fp32, bf16, "),
    ],
)
def test_arithmetic_that_a_chip_has_not_is_refused(
    stem: str, dtype: str, strict: bool, error: type[Exception], said: str
) -> None:
    assert bundled("l4").arithmetic("fp8", strict=True) == ("fp8", 242e12)
    with pytest.raises(error, match=said):
        bundled(stem).arithmetic(dtype, strict=strict)


# --- bad files ----------------------------------------------------------------------------------

# Every figure of a file: the key, how it stands in the good file, and what is allowed.
FLOPS_PER_S = "a number from 1000000 to 1e+21 FLOP/s"
BYTES_PER_S = "a number from 1000000 to 1e+18 bytes/s"
BYTES = "a number from 1000000 to 1e+18 bytes"
SHARE = "a number from 1e-06 to 1.2"
SECONDS = "a number from 0 to 1000000"
DEVICES = "a whole number from 1 to 65536"
FIGURES = rows("refusals", "hardware_figures")


def rewritten(key: str, figure: str, value: str) -> str:
    return changed(figure, f"{key.rpartition('.')[2]}: {value}")


#: What no figure may be, and how it is shown.
NO_FIGURE = {
    "-1": "-1", "-1.0e-9": "-1e-09", ".nan": "nan", ".inf": "inf", "-.inf": "-inf", "true": "true",
    "yes": "true", "fast": "'fast'", "null": "empty", "": "empty", "[1]": "[1]", "'{'": "'{'",
}  # fmt: skip


@pytest.mark.parametrize(("key", "figure", "allowed"), FIGURES, ids=[key for key, *_ in FIGURES])
def test_a_figure_is_a_usable_number(key: str, figure: str, allowed: str) -> None:
    refused = dict(NO_FIGURE)
    if allowed != SECONDS:
        refused["0"] = "0"
    if allowed == SHARE:
        refused["1.21"] = "1.21"
    if allowed == DEVICES:
        refused["8.0"] = "8.0"
    # Tera and giga of its unit, and MiB.
    refused |= {FLOPS_PER_S: {"100": "100"}, BYTES_PER_S: {"1000.0": "1000.0", "50": "50"},
                BYTES: {"24": "24", "24576": "24576"}}.get(allowed, {})  # fmt: skip
    for written, read in refused.items():
        text = rewritten(key, figure, written)
        assert refusal(text) == f"{key} is {read}; allowed: {allowed}"
    # What YAML reads as text is spelt out.
    for written, spelling in (("4.8e12", "4.8e+12"), ("1e-6", "1.0e-6"), ("'3.5'", "3.5")):
        message = refusal(rewritten(key, figure, written))
        assert message.startswith(f"{key} is '{written.strip(chr(39))}'")
        assert message.endswith(f" {spelling}")
    for taken in {SECONDS: ["0"], SHARE: ["1.2"], DEVICES: ["1"]}.get(allowed, []):
        parse_hardware(rewritten(key, figure, taken), source="x.yaml")


#: Fields of a profile that are no keys of its file: the catalog fills them in.
NO_KEYS = {"generic", "host", "same_engines"}


def keys(block: type[Any]) -> str:
    return ", ".join(field.name for field in fields(block) if field.name not in NO_KEYS)


#: What rows of refusals name: the keys of each block, and texts of the file.
NAMES = {
    "TOP": keys(HardwareProfile),
    "PEAK": keys(Peak),
    "ENGINE": keys(EngineProfile),
    "LINK": keys(Interconnect),
    "COLLECTIVE": keys(Collective),
    "SOURCES": SOURCES,
    "DTYPES": "fp32, bf16, fp16, fp8, int8, fp6, fp4, int4",
    "IDENTIFIER": "allowed: lower-case text of a-z",
}


@pytest.mark.parametrize(("old", "new", "said"), rows("refusals", "hardware_files"))
def test_a_key_or_value_that_is_not_allowed_is_refused(old: str, new: str, said: str) -> None:
    old, said = (Template(text).substitute(NAMES) for text in (old, said))
    assert re.match(".*".join(map(re.escape, said.split("…"))), refusal(changed(old, new)))


@pytest.mark.parametrize(("line", "said"), rows("refusals", "engine_figures"))
def test_a_figure_of_an_engine_that_is_not_allowed_is_refused(line: str, said: str) -> None:
    text = changed("    memory_frac: 0.8\n", f"    {line}\n")
    pattern = ".*".join(map(re.escape, f"engines.fast.{said}".split("…")))
    assert re.match(pattern, refusal(text))


def test_a_block_must_be_a_mapping_and_that_of_an_engine_may_be_empty() -> None:
    for key, (block, read) in product(
        ("peak", "sources", "engines"),
        {"3": "3", "[]": "[]", "text": "'text'", "": "empty"}.items(),
    ):
        text = re.sub(rf"^{key}:\n(  .*\n)+", f"{key}: {block}\n", GOOD, flags=re.MULTILINE)
        assert refusal(text) == f"{key} is {read}; allowed: a mapping of keys to values"
    # All that is wrong is said at once, up to a bound.
    text = GOOD + "".join(f"x{i}: 1\n" for i in range(11))
    many = refusal_of(ProfileError, parse_hardware, text, source="x.yaml")
    assert [f"x{i} is not a known key" in many for i in range(11)] == [True] * 8 + [False] * 3
    assert "; and 3 more" in many
    text = GOOD[: GOOD.index("    compute_frac")]
    assert refusal(text) == "engines.fast is empty; allowed: a mapping of keys to values"
    profile = parse_hardware(text.replace("  fast:\n", "  fast: {}\n"), source="x.yaml")
    assert profile.engine("fast") == EngineProfile(name="fast")


@pytest.mark.parametrize("name", ["ideal", "My Engine"])
def test_a_name_of_an_engine_is_free_and_easy_to_type(name: str) -> None:
    text = GOOD.replace("engines.fast", f"engines.{name}").replace("  fast:", f"  {name}:")
    assert refusal(text.replace("default_engine: fast\n", "")).startswith(f"engines.{name} is ")


@pytest.mark.parametrize("line", SOURCES.splitlines()[1:])
def test_every_figure_needs_a_source(line: str) -> None:
    key = line.split(":", maxsplit=1)[0].strip()
    assert refusal(changed(line + "\n", "")).startswith(f"sources.{key} is missing")
    empty = refusal(changed(line + "\n", f"  {key}: ''\n"))
    assert empty.startswith(f"sources.{key} is ''; allowed: ")


@pytest.mark.parametrize(("key", "is_there"), rows("refusals", "sources"))
def test_a_source_belongs_to_something_in_the_file(key: str, is_there: bool) -> None:
    text = changed("    memory_frac: 0.8\n", "")
    text = text.replace("sources:\n", f"sources:\n  {key}: another\n")
    if is_there:
        assert parse_hardware(text, source="x.yaml").sources[key] == "another"
    else:
        assert refusal(text).startswith(f"sources.{key} names nothing in the file; ")


# --- placement ----------------------------------------------------------------------------------


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64))
def test_a_placement_stands_if_and_only_if_its_groups_divide_the_devices(
    tensor: int, expert: int, data: int
) -> None:
    # Counting: groups of equal size that use every device exactly once.
    def even(groups: int) -> bool:
        return len({len(range(first, tensor, groups)) for first in range(groups)}) == 1

    fits = expert <= tensor and data <= tensor and even(expert) and even(data)
    if fits:
        assert Placement(tensor, expert, data).devices == tensor
    else:
        with pytest.raises(OptionError, match=r"must divide tensor_parallel, which is \d+$"):
            Placement(tensor, expert, data)


@given(st.integers(1, 32), st.integers(1, 4), st.integers(1, 32))
def test_a_context_is_spread_over_equal_parts_of_a_group(
    group: int, data: int, spread: int
) -> None:
    if group in range(0, group + 1, spread):
        assert Placement(group * data, 1, data, spread).group_size == group
    else:
        with pytest.raises(OptionError, match=rf"context_parallel is .* the {group} devices of"):
            Placement(group * data, 1, data, spread)


@pytest.mark.parametrize(
    "name", [field.name for field in fields(Placement) if field.name != "nodes"]
)
@pytest.mark.parametrize("value", [0, -2, True, np.True_, 2.0, math.nan, "2", None, [2]])
def test_a_placement_counts_in_whole_numbers(name: str, value: Any) -> None:
    assert Placement().devices == 1
    shown = "True" if value is np.True_ else repr(value)
    said = refusal_of(OptionError, Placement, **{name: value})
    assert said == f"{name} is {shown}; allowed: a whole number from 1 to 65536"


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint32])
def test_whole_numbers_of_numpy_become_plain_ones(kind: Any) -> None:
    placement = Placement(tensor_parallel=kind(8), expert_parallel=kind(4))
    assert type(placement.tensor_parallel) is int
    assert placement == Placement(tensor_parallel=8, expert_parallel=4)


def test_the_memory_that_servers_see_has_a_source_and_is_no_more_than_there_is() -> None:
    sourced = changed("sources:\n", "sources:\n  usable_memory_bytes: a log\n")
    text = sourced.replace("interconnect:", "usable_memory_bytes: 23.0e+9\ninterconnect:", 1)
    profile = parse_hardware(text, source="x.yaml")
    assert profile.usable_memory_bytes == profile.server_memory_bytes == 23e9
    assert parse_hardware(text, source="x.yaml", trusted=True) == profile
    written = calibrated_yaml(profile, EngineProfile(name="mine"), name="mine", source="a test")
    assert parse_hardware(written, source="x.yaml").usable_memory_bytes == 23e9
    unsourced = refusal(text.replace("  usable_memory_bytes: a log\n", ""))
    assert unsourced.startswith("sources.usable_memory_bytes is missing")
    for wrong in ("25.0e+9", "0.0", "-1.0e+9", "23", "23.0e9", "all", "[]"):
        assert refusal(text.replace("23.0e+9", wrong)).startswith("usable_memory_bytes is ")
    assert refusal(sourced).startswith("sources.usable_memory_bytes names nothing in the file")


def test_compute_capabilities_of_nvidia() -> None:
    majors = rows("values", "compute_majors")
    known = {name: major for major, names in majors.items() for name in names.split()}
    for name in hardware_names():
        chip = load_hardware(name)
        found = {known[alias] for alias in {name, name[:6], *chip.aliases} if alias in known}
        assert found == {chip.compute_major} - {None}, name


# --- what decides physics is a key of a file: names move nothing, and code knows none ------------

PACKAGE: Final = Path(specroof.__file__).parent
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


#: One chip of each architecture and set of engines, which is all that its name may stand for.
ALIKE: Final = {
    (chip.vendor, chip.architecture, *chip.engines): name
    for name in hardware_names()
    for chip in [load_hardware(name)]
}


@pytest.mark.parametrize("chip", ALIKE.values())
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
    said = refusal_of(ProfileError, renamed, "l40s", tmp_path, **same, sources=text)
    assert f"engines.{engine}.same_as is '{chip}'; allowed: a bundled" in said


@pytest.mark.parametrize(("old", "new", "said"), rows("refusals", "chip_keys"))
def test_a_wrong_key_of_a_chip_is_refused(old: str, new: str, said: str) -> None:
    text = (FOLDER / "h200.yaml").read_text(encoding="utf-8")
    assert old in text
    assert said in refusal_of(ProfileError, parse_hardware, text.replace(old, new), source="x.yaml")


def test_a_calibrated_file_keeps_the_keys_and_holds_all_of_its_engines() -> None:
    h200 = load_hardware("h200")
    engine = replace(h200.engines["vllm"], name="mine")
    text = calibrated_yaml(h200, engine, name="mine", source="measured here")
    assert "same_as" not in text
    again = parse_hardware(text, source="again.yaml")
    told = "vendor architecture compute_capability usable_memory_bytes price power"
    for key in told.split():
        assert getattr(again, key) == getattr(h200, key) is not None
    assert {**again.engines, "mine": None} == {**h200.engines, "mine": None}


# --- no name in code -----------------------------------------------------------------------------

#: Rooms whose facts about chips, servers and families stand in files.
ROOMS: Final = ("frameworks", "hardware", "latency", "drafters", "speedup", "serving")
#: Of vendors and product lines, beside the aliases and the keys of bundled files.
PRODUCTS: Final = "geforce instinct radeon tesla blackwell ampere trainium inferentia gaudi tpu rtx"


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
    chips = {name: load_hardware(name) for name in hardware_names()}
    of_chips = {
        word
        for name, chip in chips.items()
        if chip.architecture != "cpu"  # which says what memory is
        for word in (name, *chip.aliases, chip.vendor, chip.architecture)
    }
    # What people call servers, and their titles.
    titles = {release(name).title.casefold() for name in SERVERS if known_releases(name)}
    # Mamba 2 is the name of a class of kernels, which code may ask for, too.
    words = {*filter(None, of_chips), *PRODUCTS.split(), *SERVERS, *SPELT, "trt", "atom", *titles}
    words |= {*PARSERS} - {*KERNELS}
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


# vllm 0.24.0 has cpu, cuda, rocm, tpu and xpu in ``vllm/platforms``, and takes a Mac for a CPU;
# sglang 0.5.23 has cpu, gpu, mlx, mps, musa, npu and xpu in ``srt/hardware_backend``.
@pytest.mark.parametrize(
    ("chip", "server", "is_told"),
    [
        ("m4-max", "vllm", True),
        ("m4-max", "sglang", False),
        ("m4-max", "llama.cpp", False),
        ("trainium2", "vllm", True),
        ("trainium2", "sglang", True),
        ("tpu-v6e", "vllm", False),
        ("tpu-v6e", "sglang", True),
        ("gaudi3", "vllm", False),
        ("rx-7900-xtx", "vllm", False),
        # Kernels of the wheel of vllm 0.24.0: sm_75, sm_80 and later.
        ("v100", "vllm", True),
        ("p40", "vllm", True),
        ("t4", "vllm", False),
        ("v100", "llama.cpp", False),
    ],
)
def test_a_server_without_code_for_a_chip_is_told(chip: str, server: str, is_told: bool) -> None:
    found = predict("Qwen/Qwen3-0.6B", chip, framework=server, drafters="ngram,accept=0.5")
    told = [note for note in found.notes if "no code for" in note or "have kernels from" in note]
    assert bool(told) is is_told
    others = {"m4-max": "llama.cpp or mlx", "v100": "llama.cpp", "p40": "llama.cpp"}
    for note in told:
        assert (f"--framework {others.get(chip)} has" in note) == (chip in others)


@pytest.mark.parametrize("word", ["framework", "engine"])
@pytest.mark.parametrize("chip", ["mi300x", "m4-max", "gaudi3", "tpu-v6e"])
def test_tensorrt_is_refused_on_chips_that_have_no_cuda(word: str, chip: str) -> None:
    # It compiles engines of TensorRT for CUDA; vLLM and SGLang have builds for other vendors.
    bound: dict[str, Any] = {word: "trt-llm"}
    chips: Any
    for chips in (chip, ["h100", chip]):
        with pytest.raises(OptionError, match=rf"^{word} is 'tensorrt-llm'.*nvidia alone"):
            predict("Qwen/Qwen3-0.6B", chips, **bound)
