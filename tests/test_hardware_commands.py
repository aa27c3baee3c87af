"""Commands about chips: a new file that is filled in and checked, and what one is shown to cost."""

import re
from pathlib import Path

import pytest

from commands import answered, invoked, refused, run
from specroof import load_hardware
from specroof.questions import hardware
from tables import table

#: Figures of a file that was filled in, by their keys.
FILLED_IN: dict[str, str] = table("filled_in")


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_new_file_is_sound_once_it_is_filled_in(tmp_path: Path, *, is_whole: bool) -> None:
    path = tmp_path / "mine.yaml"
    assert invoked("hardware new 'My: \"chip\"' -o", path).stderr == f"wrote {path}\n"
    assert f"{path} is there already; allowed: a new file" in refused("hardware new Mine -o", path)
    blank = refused("hardware check", path)
    empty = ("sources.peak.flops_per_s", "peak.flops_per_s.bf16", "peak.memory_bytes is")
    assert all(name in blank for name in empty)  # all at once
    lines, in_sources = [], False
    for line in path.read_text().splitlines():
        key = re.match(r"( *)(# )?( *)([a-z0-9_.]+):(?: |$)", line)
        if not key or (key[2] and not is_whole):
            lines.append(line)
            continue
        in_sources = key[4] == "sources" or (in_sources and bool(key[1]))
        value = "a data sheet" if in_sources and key[1] else FILLED_IN.get(key[4])
        lines.append(
            f"{key[1]}{key[3]}{key[4]}: {value}"
            if value
            else line.replace("# ", "", 1 if key[2] else 0)
        )
    path.write_text("\n".join(lines) + "\n")
    sound = invoked("hardware check", path)
    assert (sound.exit_code, sound.stderr) == (0, "")
    profile = load_hardware(path)
    assert (profile.name, profile.peak.memory_bytes_per_s) == ('My: "chip"', 3.0e12)
    assert (profile.price is not None) == is_whole


@pytest.mark.parametrize("name", ["h100", "rtx-4090+cpu-2ch-ddr5"])
def test_a_bundled_name_is_checked_as_its_file_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # which has no file of that name
    assert run("hardware check", name).startswith(f"{name}: {load_hardware(name).name}, every")


def test_a_file_that_cannot_be_read_is_not_said_to_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def vanished(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "mine.yaml")

    monkeypatch.setattr(hardware, "load_hardware", vanished)
    said = "mine.yaml: No such file or directory; allowed: a readable file"
    assert refused("hardware check mine.yaml") == said


def test_chips_are_listed_with_their_prices() -> None:
    prices = {row["name"]: row["usd_per_hour"] for row in answered("hardware")["rows"]}
    assert (prices["b300"], prices["h200"]) == (None, 2.25)


@pytest.mark.parametrize(
    ("chip", "engines"),
    [
        ("m4-max", ["llama.cpp", "mlx", "generic", "ideal"]),
        ("h100", ["sglang", "vllm", "tensorrt-llm", "llama.cpp", "generic", "ideal"]),
        ("trainium2", ["generic", "ideal"]),
    ],
)
def test_engines_of_software_for_one_user_are_listed(chip: str, engines: list[str]) -> None:
    shown = run("hardware show", chip).splitlines()
    (line,) = (line for line in shown if line.startswith("engines "))
    assert line.split(maxsplit=1)[1].split(", ") == engines
    assert all(load_hardware(chip).engine(name) for name in engines)
