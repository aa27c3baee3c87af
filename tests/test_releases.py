"""Releases of servers: files of facts, which need no code."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import specroof
from specroof import ProfileError, frameworks
from specroof.acceptance import RULES
from specroof.drafters import KINDS
from specroof.errors import reject
from specroof.frameworks import (
    FOLDER,
    SCHEMAS,
    Release,
    known_releases,
    read_release,
    release,
    release_content,
)
from specroof.hardware.engine import SERVER_KEYS
from specroof.latency.setup import served_options
from specroof.questions.request import DeploymentRequest
from specroof.questions.study import load_study
from specroof.reading.yaml_text import read_plain
from specroof.serving.launch import Speculation, launch
from tables import refusal, rows, table
from tiny_configs import changed

FILES = sorted(FOLDER.glob("*-*.yaml"))


def forget() -> None:
    for cached in (known_releases, release):
        cached.cache_clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder in the place of that of the bundled files, with a copy of them."""
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(frameworks, "FOLDER", tmp_path)
    forget()
    yield tmp_path
    forget()


def added(folder: Path, name: str, change: dict[str, Any]) -> None:
    """Write a release: that of vLLM 0.33.0 with other values at some dotted keys."""
    content = yaml.safe_load((FOLDER / "vllm-0.33.0.yaml").read_text(encoding="utf-8"))
    content = changed(content, {key.replace(".", "/"): value for key, value in change.items()})
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    forget()


def plan(*longer: tuple[int, int, int]) -> Speculation:
    return Speculation(kind="eagle3", schedule=((1, 8, 3), *longer), draft_model="me/head")


def flags(framework: str) -> tuple[str, str]:
    found = launch(plan(), framework)
    return found.release, found.text


#: What stands for a figure in the words of a flag.
PLACEHOLDERS: Final = {
    *("model", "value", "hosts", "first_host", "group_size", "tensor_parallel"),
    *("pipeline_parallel", "attention_data_parallel", "expert_parallel"),
    *("decode_context_parallel", "drafts", "verified", "top_k", "file", "devices_per_host"),
    *("method", "weights", "config", "n_min", "p_min", "schedule", "last_on", "name", "input_len"),
    *("length", "batch_size", "output_len", "num_requests", "running", "tokens_per_round"),
    *("formats", "speculation"),
}
#: Keys of a file that are no facts.
UNREAD: Final = ("format_version", "rules", "title", "known_as", "sources")


def facts_in(content: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys that lead to each fact; lists whose entries say their source are one."""
    for key, value in content.items():
        path = (*above, key)
        if isinstance(value, dict) and value:
            yield from facts_in(value, path)
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            yield (*path, "source") if all("source" in row for row in value) else path
        else:
            yield path


def texts_in(content: Any) -> Iterator[str]:
    """Yield every text of a block but sources."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from () if key in {"source", "sources"} else texts_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from texts_in(value)
    elif isinstance(content, str):
        yield content


def steps_in(content: Any) -> Iterator[Any]:
    """Yield the steps of all captured sizes of a block."""
    for key, value in content.items() if isinstance(content, dict) else ():
        yield from value if key == "steps" else steps_in(value)


def checked_release(path: Path) -> Release:
    """Return a release; a fact out of bounds, or without its source, is refused in one line."""
    read, content = read_release(path), release_content(path)
    kind = SCHEMAS[content["rules"]]
    read_plain(content, kind, source=path.name, error=ProfileError)
    for text in texts_in(content):
        template = Template(text)
        if not template.is_valid() or {*template.get_identifiers()} - PLACEHOLDERS:
            reject(f"{path.name}: {text!r}", "figures that are known", ProfileError)
    for step in steps_in(content.get("captured")):
        match step:
            case [int(first), int() | None, int(width)] if first > 0 and width > 0:
                pass
            case _:
                reject(
                    f"{path.name}: steps has {step}", "[from, below or null, step]", ProfileError
                )
    if rows := content.get("limits", {}).get("by_memory", [{"least_gib": 0}]):
        least = [row["least_gib"] for row in rows]
    if not rows or least != sorted({*least}, reverse=True) or least[-1]:
        reject(f"{path.name}: by_memory is {rows}", "rows with falling least_gib", ProfileError)
    sources, known = content["sources"], set[str]()
    for keys in facts_in({key: content[key] for key in content if key not in UNREAD}):
        above = [".".join(keys[: depth + 1]) for depth in range(len(keys))]
        known.update(above)
        if keys[-1] != "source" and sources.keys().isdisjoint(above):
            reject(f"{path.name}: sources has none of {above[-1]}", "file and line", ProfileError)
    if strange := sources.keys() - known:
        reject(f"{path.name}: sources has {strange}", "dotted keys of facts", ProfileError)
    return read


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_says_where_each_fact_was_read(path: Path) -> None:
    facts, name = checked_release(path), "@".join(path.stem.rsplit("-", 1))
    refused = (*facts.refusals, *facts.staged)
    rows: Any = (*refused, *facts.verification_kernels, *(facts.fp8_caches or ()))
    sources = [*facts.sources.values(), *(row.source for row in rows)]
    assert name.endswith(f"@{release(name).version}")
    # None is taken over from another release.
    assert dict(facts.sources) == yaml.safe_load(path.read_text(encoding="utf-8"))["sources"]
    # A file of the package, or a folder of its models.
    assert all(re.match(r"[\w/]+(\.py|\b)", source) for source in sources)


@pytest.mark.parametrize(("name", "key", "value"), rows("values", "release_facts"))
def test_releases_differ_where_their_sources_do(name: str, key: str, value: Any) -> None:
    found: Any = release_content(FOLDER / f"{name}.yaml")
    for step in key.split("."):
        found = found[int(step)] if isinstance(found, list) else found.get(step)
    assert found == value


@pytest.mark.parametrize(("same_as", "allowed"), rows("refusals", "same_releases"))
def test_a_release_is_the_same_as_another_of_its_server(
    same_as: Any, allowed: str, folder: Path
) -> None:
    (folder / "vllm-9.1.0.yaml").write_text("{same_as: vllm-9.0.0}", encoding="utf-8")
    added(folder, "vllm-9.0.0", {"same_as": same_as})
    with pytest.raises(ProfileError, match=f"yaml: same_as is .*; allowed: {allowed}"):
        release("vllm@9.0")


@pytest.mark.parametrize(("change", "said"), rows("refusals", "release_files"))
def test_a_file_with_a_mistake_is_refused_in_one_line(
    change: dict[str, Any], said: str, folder: Path
) -> None:
    added(folder, "vllm-9.0.0", change)
    line = refusal(ProfileError, checked_release, folder / "vllm-9.0.0.yaml")
    assert re.match(f"vllm-9.0.0.yaml: .*{said}", line)


def kinds_in(content: Any) -> Iterator[str]:
    """Yield the kinds of drafters that a block of a file names."""
    for row in content if isinstance(content, list) else [content]:
        for key, value in row.items() if isinstance(row, dict) else ():
            listed = key.endswith("kinds") and isinstance(value, list)
            yield from value if listed else kinds_in(value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_name_kinds_rules_and_settings_that_there_are(path: Path) -> None:
    content = release_content(path)
    assert {*content["methods"], *kinds_in(content)} <= {*KINDS}
    assert content.get("settings", {}).keys() <= SERVER_KEYS.keys()
    assert {*content.get("accepts", ())} <= {*RULES}


@given(versions=st.sets(st.tuples(*[st.integers(0, 99)] * 3), min_size=1, max_size=6))
def test_the_newest_of_all_releases_is_the_usual_one(versions: set[tuple[int, int, int]]) -> None:
    named = [".".join(map(str, version)) for version in versions]
    assert max(named, key=frameworks.version_parts) == ".".join(map(str, max(versions)))


def test_a_file_more_is_a_release_more(folder: Path) -> None:
    before = flags("vllm")
    added(folder, "vllm-9.1.0", {"methods.eagle3.name": "eagle9", "title": "vLLM"})
    assert flags("vllm") == ("vLLM 9.1.0", before[1].replace("eagle3", "eagle9"))
    assert flags("vllm@9") == flags("vllm@9.1") == flags("vllm@9.1.0") == flags("vllm")
    assert flags("vllm@0.33") == before
    (folder / "vllm-nightly.yaml").touch()
    forget()
    with pytest.raises(ProfileError, match="version is 'nightly'; allowed: such as"):
        release("vllm")
    (folder / "vllm-nightly.yaml").unlink()
    # The name of a file is all that says which release it is.
    (folder / "vllm-9.1.0.yaml").rename(folder / "vllm-9.2.0.yaml")
    forget()
    assert flags("vllm")[0] == "vLLM 9.2.0"


# --- Questions about a release --------------------------------------------------------------------

MODEL, CHIP, SPEC = "Qwen/Qwen3-8B", "h100", "eagle3,accept=0.7"
ABOUT_SERVERS = (
    *("predict", "explain", "capacity", "worth", "breakeven", "frontier", "rollout", "advise"),
)
LOAD: dict[str, Any] = {"drafters": SPEC, "input_len": 500, "output_len": 100}


@pytest.mark.parametrize("question", ABOUT_SERVERS)
def test_every_question_takes_a_release(question: str) -> None:
    def answer(framework: str) -> Any:
        asked = table("answers")[question]["asks"]
        return getattr(specroof, question)(MODEL, CHIP, framework=framework, **asked)

    older, newest = answer("vLLM@0.19"), answer("vllm")
    for found, name in ((older, "vLLM 0.19.0"), (newest, release("vllm").name)):
        assert name.lower() in str(found).splitlines()[0].lower()
    if question != "capacity":  # whose rules need no engine
        assert "(timed up to 0.18)" in str(older).splitlines()[0]
    same, whole = answer("vllm@0.33").to_dict(), newest.to_dict()
    assert (same | {"asked": None}) == (whole | {"asked": None})


@pytest.mark.parametrize("question", [name for name in ABOUT_SERVERS if name != "capacity"])
def test_an_engine_of_a_release_is_named_beside_the_rules_of_another(question: str) -> None:
    asked = table("answers")[question]["asks"]
    found = getattr(specroof, question)(MODEL, CHIP, engine="sglang@0.5.9", **asked)
    named = f"engine sglang@0.5.9 (rules of {release('sglang').version})"
    assert named in str(found).splitlines()[0]
    case = found.to_dict()["case"]
    assert case.get("chips", [case])[0]["engine"] == "sglang@0.5.9"


@pytest.mark.parametrize(
    ("model", "chip", "settings", "framework", "older", "newer"), rows("values", "release_defaults")
)
def test_a_release_decides_defaults(
    model: str, chip: str, settings: Any, framework: str, older: Any, newer: Any
) -> None:
    for name, wanted in ((framework, older), (framework.partition("@")[0], newer)):
        found = specroof.explain(model, chip, framework=name, server=settings).to_dict()
        server = found["case"]["server"]
        assert {key: server[key] for key in wanted} == wanted


@pytest.mark.parametrize(("model", "kind", "framework"), rows("values", "room_of_releases"))
def test_a_release_decides_room(model: str, kind: str | None, framework: str) -> None:
    assert 0 < largest(framework, model, kind) != largest(framework.partition("@")[0], model, kind)


def largest(framework: str, model: str, kind: str | None, **more: Any) -> float:
    kinds = [] if kind is None else [kind]
    told: dict[str, Any] = {"context_len": 32768, "framework": framework, **more}
    return float(specroof.capacity(model, CHIP, drafters=kinds, **told).rows[-1].largest_batch)


@pytest.mark.parametrize("framework", ["vllm", "vllm@0.28", "vllm@0.24", "sglang", "sglang@0.5.18"])
def test_older_releases_replay_no_states(framework: str) -> None:
    asked = (framework, "Qwen/Qwen3.5-9B", "mtp")
    replayed = largest(*asked, options={"recurrent_state": "replay"})
    assert (replayed == largest(*asked)) == ("@" in framework)


def test_flags_are_those_of_the_release() -> None:
    asked = LOAD | {"server": "capture=64", "tensor_parallel": 8, "attention_data_parallel": 8}
    found = specroof.advise(MODEL, CHIP, framework="sglang@0.5.9", concurrency=[1, 64], **asked)
    for flag in ("--dp-size 8 --enable-dp-attention", "--cuda-graph-max-bs 64"):
        assert flag in " ".join(str(found).split())
    # A length that follows the load is newer than that release, and takes the next its full graphs;
    # one later of models with experts alone, but for those that its model runner V2 runs.
    schedule = plan((9, 64, 1))
    sparse = replace(schedule, family="qwen3_moe", is_dense=False)
    for version, whole, told in (
        ("0.19", schedule, False), ("0.24", schedule, False), ("0.28", schedule, True),
        ("0.28", sparse, False), ("0.28", replace(sparse, kind="dspark"), True),
        ("0.28", replace(sparse, family="deepseek_v4"), True), ("0.33", sparse, True),
    ):  # fmt: skip
        assert ("per_batch_size" in launch(whole, f"vllm@{version}").text) == told
    assert "does not change" in launch(schedule, "sglang@0.5.9").notes[-1]


def test_the_bench_is_of_the_release() -> None:
    asked = LOAD | {"concurrency": 1, "bench": True}
    bench = specroof.advise(MODEL, CHIP, framework="vllm@0.24", **asked).chips[0].to_measure
    assert bench is not None
    assert "vLLM 0.24.0 without drafts" in str(bench.commands)
    own: Any = specroof.advise(
        "XiaomiMiMo/MiMo-7B-Base", CHIP, framework="sglang", **asked | {"drafters": "mtp,accept=.6"}
    ).chips[0]
    servers = [words for _, words in own.to_measure.commands if "launch_server" in words]
    assert all("--trust-remote-code" in words for words in servers)


def test_workers_of_a_release_draft_what_it_hands_over() -> None:
    asked = LOAD | {"concurrency": 4, "prefill": "1x1", "decode": "1x1"}
    for version, kinds in {
        "0.5.14": {"mtp", "eagle3"},
        "0.5.18": {"mtp", "eagle3", "dspark"},
        "0.5.23": {"mtp", "eagle3", "dflash"},
    }.items():
        for kind in ("eagle3", "dflash"):
            found = specroof.advise(
                MODEL, CHIP, framework=f"sglang@{version}",
                **asked | {"drafters": f"{kind},accept-length=2.5@3"},
            )  # fmt: skip
            assert bool(found.chips[0].worker_launches) == (kind in kinds), (version, kind)


def test_studies_take_a_release(tmp_path: Path) -> None:
    one = {"model": MODEL, "hardware": "b200"}
    study = {"format_version": 1, "drafters": [SPEC], "framework": "vllm@0.24"}
    study["targets"] = [one, one | {"framework": "sglang@0.5.9"}]
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    read = load_study(tmp_path / "study.yaml")
    servers = (target.setup.server for target in read.targets)
    assert [server and server.version for server in servers] == ["0.24.0", "0.5.9"]


@pytest.mark.parametrize(
    ("model", "chip", "framework", "older", "newest"), rows("values", "sparse_caches")
)
def test_a_release_decides_the_format_of_a_sparse_cache(
    model: str, chip: str, framework: str, older: str | None, newest: str | None
) -> None:
    for name, dtype in ((framework, older), (framework.partition("@")[0], newest)):
        found = DeploymentRequest(model, chip, framework=name, tensor_parallel=8).resolved()
        assert served_options(found.model, found.setup).kv_dtype == dtype
