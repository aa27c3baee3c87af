"""Names and SPECs to objects, and files written whole or not at all."""

import json
import os
import re
from pathlib import Path

import pytest

from specroof import Acceptance, load_drafter, load_hardware, load_model
from specroof.catalog import hardware_names, model_names, read_text, study_path
from specroof.errors import CatalogError, ConfigError, OutputError, ProfileError
from specroof.report.writing import write_files
from tables import refusal, rows
from tiny_configs import TINY


def test_every_bundled_model_loads_under_its_name() -> None:
    for name in model_names():
        model = load_model(name)
        assert model.n_params >= model.n_active_params > 0
        assert name.endswith(model.name) or model.name == name


def test_a_short_or_differently_cased_name_finds_the_bundled_model() -> None:
    assert load_model("qwen3-8b") == load_model("Qwen/Qwen3-8B")


def test_an_existing_path_wins_over_a_bundled_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "Qwen" / "Qwen3-8B"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert load_model("Qwen/Qwen3-8B").n_layers == 36  # a folder without a config is no model
    (folder / "config.json").write_text(json.dumps(TINY))
    assert load_model("Qwen/Qwen3-8B").n_layers == 2


def test_the_hub_is_asked_for_two_files_only(tmp_path: Path) -> None:
    asked = []

    def fetch(repository: str, name: str) -> Path | None:
        asked.append((repository, name))
        path = tmp_path / name
        path.write_text(json.dumps(TINY))
        return path if name == "config.json" else None

    assert load_model("someone/something", fetch=fetch).name == "something"
    assert asked == [
        ("someone/something", f"{name}.json") for name in ("config", "hf_quant_config")
    ]


def test_a_repository_without_a_config_is_refused() -> None:
    with pytest.raises(CatalogError, match=r"^someone/something: .*config\.json"):
        load_model("someone/something", fetch=lambda _repository, _name: None)


def test_a_file_that_is_not_there_not_utf8_or_of_a_hundred_megabytes_is_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.json"
    assert "No such file" in refusal(ConfigError, read_text, path, ConfigError)
    path.write_bytes(b'{"a": "\xff"}')
    assert "not UTF-8" in refusal(ConfigError, load_model, path)
    os.truncate(path, 100 * 2**20)
    assert "larger than" in refusal(ConfigError, load_model, path)


def test_every_bundled_profile_is_found_by_every_alias() -> None:
    for name in hardware_names():
        profile = load_hardware(name)
        assert all(load_hardware(alias) == profile for alias in profile.aliases)


@pytest.mark.parametrize("aliases", rows("values", "spelt_aliases"))
def test_an_alias_is_found_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hardware_folder: Path, aliases: str
) -> None:
    text = (hardware_folder / "l4.yaml").read_text(encoding="utf-8")
    monkeypatch.setenv("SPECROOF_HARDWARE_PATH", str(tmp_path))
    (tmp_path / "chip.yaml").write_text(re.sub("(?m)^aliases: .*$", lambda _: aliases, text))
    assert load_hardware("mine").name == load_hardware("l4").name


def test_an_unknown_short_name_is_refused_with_a_suggestion() -> None:
    assert "did you mean" in refusal(CatalogError, load_model, "Qwen3-8")
    assert "did you mean b200" in refusal(CatalogError, load_hardware, "b2000")


def test_only_a_cpu_stands_beside_a_chip() -> None:
    for other in hardware_names():
        if other.startswith("cpu-"):
            host = load_hardware(f"h100+{other}").host
            assert host is not None
            assert host.name.startswith("CPU with ")
        else:
            message = refusal(CatalogError, load_hardware, f"h100+{other}")
            assert message.startswith(f"hardware 'h100+{other}' has {load_hardware(other).name} ")


def test_a_users_folder_is_searched_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hardware_folder: Path
) -> None:
    text = (hardware_folder / "h200.yaml").read_text()
    (tmp_path / "b200.yaml").write_text(text.replace("4.8e+12", "5.0e+12"))
    monkeypatch.setenv("SPECROOF_HARDWARE_PATH", str(tmp_path))
    assert load_hardware("b200").peak.memory_bytes_per_s == 5.0e12
    assert "b200" in hardware_names()


def test_a_bundled_file_that_somebody_broke_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hardware_folder: Path
) -> None:
    broken = tmp_path / "h200.yaml"
    text = (hardware_folder / "h200.yaml").read_text()
    broken.write_text(text.replace("memory_bytes:", "memory_byte:"))
    monkeypatch.setattr("specroof.catalog.names.bundled", lambda *_: {"h200": broken})
    assert "memory_byte" in refusal(ProfileError, load_hardware, "h200")


def test_a_study_is_a_file_or_a_bundled_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("format_version: 1\n")
    assert study_path(str(path)) == path
    assert study_path("demo").name == "demo.yaml"
    with pytest.raises(CatalogError, match="demo"):
        study_path("nothing")


@pytest.mark.parametrize(("spec", "tokens_per_round"), rows("values", "spelt_acceptances"))
def test_a_spec_gives_the_acceptance_that_it_spells(spec: str, tokens_per_round: float) -> None:
    drafter = load_drafter(spec)
    assert isinstance(drafter.acceptance, Acceptance)
    assert drafter.acceptance.tokens_per_round(2) == pytest.approx(tokens_per_round)
    assert drafter.name == spec.strip()


@pytest.mark.parametrize("bad", ["missing/b", "folder"])
def test_one_file_that_cannot_be_written_leaves_none(bad: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_bytes(b"old")
    files = {tmp_path / "a": b"new", tmp_path / bad: b"new"}
    assert bad in refusal(OutputError, write_files, files)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


def test_bundled_names_are_in_alphabetical_order() -> None:
    for names in (model_names(), hardware_names()):
        assert names == sorted(names, key=str.casefold)
        assert len(names) > 40
