"""The page as files: what is packed into it, what it refuses, and that nothing in it can run."""

import base64
import itertools
import json
import math
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specroof
from commands import Terminal, refused
from specroof import page
from specroof.cli import app
from specroof.page import PageGrid, packed
from specroof.questions import explore as explore_question
from specroof.questions.explore import (
    KNOTS,
    LENGTH_DEPTHS,
    Axes,
    cell_of,
    hermite,
    site_files,
    typical_acceptance,
)
from specroof.questions.objects import published_drafters
from specroof.questions.page_evidence import begun_kinds
from specroof.questions.request import DeploymentRequest
from tables import rows

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {"context_len": [1024, 4096], "batch_size": [1, 8, 64]}


def _counted(data: Iterator[int]) -> Iterator[int]:
    """Yield bytes, of a zero as many more as the one behind it says."""
    for byte in data:
        yield byte
        if not byte:
            yield from itertools.repeat(0, next(data))


def unpacked(text: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Read a head and stacks of grids by the definition of zeros, septets, zigzags and steps."""
    raw = base64.b85decode(text.translate(str.maketrans(",./", "&<>")))
    end = 4 + int.from_bytes(raw[:4], "big")
    head = json.loads(zlib.decompress(raw[4:end]))
    data = _counted(iter(zlib.decompress(raw[end:])))
    found = []
    for stack in head["stacks"]:
        numbers = [0] * math.prod(stack["shape"])
        left = [*range(len(numbers))]
        for place in range(8):
            septets = {i: next(data) for i in left}
            for i, septet in septets.items():
                numbers[i] |= (septet & 0x7F) << (7 * place)
            left = [i for i in left if septets[i] >= 0x80]
        signed = [-(n + 1) // 2 if n % 2 else n // 2 for n in numbers]
        count, first, *rest = stack["shape"]
        values = np.swapaxes(np.array(signed).reshape(first, count, *rest), 0, 1)
        for axis, times in enumerate(stack["differences"]):
            for _ in range(times):
                values = values.cumsum(axis=axis)
        found.append(values * stack["quantum"])
    assert [*data] == []
    return head, found


def tables(text: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="tables">(.*?)</script>', text)
    return dict(json.loads(found))


@given(
    st.lists(st.integers(-(2**45), 2**45), min_size=12, max_size=12),
    st.integers(0, 2),
    st.sampled_from([1.0, 2.0, 0.125]),
)
def test_packed_numbers_are_read_back(numbers: list[int], times: int, quantum: float) -> None:
    values = np.array(numbers, dtype=np.float64)
    first, second = (
        PageGrid(half.reshape(2, 3), quantum, (1, times)) for half in np.split(values, 2)
    )
    other = PageGrid(values, 1.0, (0,))
    things = [
        {"a": [first, {"b": other}], "c": 1, "d": "e"},
        {"a": [second], "c": [None, "d"], "d": "e"},
    ]
    head, (stack, single) = unpacked(packed(things, f=1))
    assert head["shared"] == {"f": 1}
    assert head["things"] == [
        {"a": [{"grid": 0}, {"b": {"grid": 1}}], "c": 1, "d": "e"},
        {"a": [{"grid": 0}], "c": [None, "d"]},
    ]
    assert np.abs(stack - values.reshape(2, 2, 3)).max() <= quantum / 2
    assert single.tolist() == [values.tolist()]


@pytest.mark.parametrize("zeros", [0, 1, 2, 255, 256, 257, 511, 512, 513, 1000])
def test_zeros_in_a_row_are_read_back(zeros: int) -> None:
    values = np.array([1.0, *[0.0] * zeros, 300.0, 0.0])
    assert unpacked(packed([{"a": PageGrid(values, 1.0, (0,))}]))[1][0].tolist() == [[*values]]


def test_grids_of_other_shapes_are_no_stack() -> None:
    shorter, longer = PageGrid(np.ones(2), 1.0, (1,)), PageGrid(np.ones(3), 1.0, (1,))
    head, _ = unpacked(packed([{"a": shorter}, {"a": longer}, {"a": longer}]))
    assert head["things"] == [{"a": {"grid": 0}}, {"a": {"grid": 1}}, {}]


def test_a_cubic_is_met_between_knots_by_parabolas_slopes() -> None:
    # On even steps a parabola's slope of x^3 is off by h^2, where the cubic is then off by at most
    # h^3 * sqrt(3) / 18: the two slopes' errors pull apart and cancel in the middle.
    x = np.array([5.5, 8.25, 12.75])
    assert hermite(np.power(KNOTS, 3), x) == pytest.approx(np.power(x, 3), abs=0.1)
    assert hermite(np.power(KNOTS, 2), x) == pytest.approx(np.power(x, 2), rel=1e-12)


def test_a_drafter_that_no_grid_says_exactly_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"engines": "sglang", "tensor_parallel": 1, "steady": True}
    found = specroof.explore("Qwen/Qwen3-8B", "b200", **asked, **SMALL)
    cell = found.section("Qwen/Qwen3-8B", "b200").cells["sglang", 1]
    assert set(cell.drafting) == {"mtp", "eagle3", "dflash", "ngram"}
    with monkeypatch.context() as patched:  # too few seconds are off as too many are
        patched.setattr(
            explore_question,
            "hermite",
            lambda more_s, at: hermite(more_s, at) - 1e-3 * more_s.any(),
        )
        cell = found.section("Qwen/Qwen3-8B", "b200").cells["sglang", 1]
        assert set(cell.drafting) == {"ngram"}  # the same whatever was accepted


def test_a_page_of_all_models_holds_less_of_each() -> None:
    asked: dict[str, Any] = {"hardware": "b200", "context_len": 1024, "batch_size": [1, 16]}
    chip, names = specroof.load_hardware("b200"), ("deepseek-ai/DeepSeek-R1", "Qwen/Qwen3-8B")
    whole = specroof.explore(**asked)
    some = specroof.explore(names, **asked)
    for answer, plays in ((whole, [True, False]), (some, [True, True])):
        assert [answer.plays(name, chip) for name in names] == plays
    assert not specroof.explore(**asked, steady=True).plays(names[0], chip)
    # Two numbers of devices, and no layers that the checkpoint lacks.
    section = whole.section(names[1], "b200")
    assert {devices for _, devices in section.cells} == {1, 2}
    # The roofline is of what servers run.
    large = whole.section(names[0], "b200").cells
    assert {devices for engine, devices in large if engine == "ideal"} == {4, 8}
    assert {*section.cells["vllm", 1].drafting} == {"eagle3", "dflash", "ngram"}
    # Models of one shape share their grids.
    place = [*whole.models].index
    assert whole.alike[place("deepseek-ai/DeepSeek-V3")] == place(names[0])
    assert some.alike == [0, 1]


@pytest.mark.parametrize("words", rows("values", "page_rounds"))
def test_rounds_of_the_page_are_those_of_a_prediction(words: dict[str, Any]) -> None:
    asked = {"tensor_parallel": 8, "engine": "sglang", **words}
    served = DeploymentRequest("deepseek-ai/DeepSeek-V3.2", "b200", **asked).resolved()
    batches = np.array([8.0, 64.0, 512.0])[:, None]
    cell = cell_of(served, Axes((4096.0,), tuple(batches[:, 0])))
    drafters = ["mtp,accept=0.95", "ngram,accept=0.8", "ideal"]
    curves = specroof.predict(
        served.model,
        served.setup.hardware,
        drafters=drafters,
        batch_size=batches[:, 0],
        max_draft_len=16,
        capacity=False,
        **asked,
    ).curves
    for curve in curves:
        drafting = cell.drafting.get(curve.drafter.partition(",")[0])
        each_round_s, each_sequence_s = (drafting or cell).engine_round_s
        round_s = cell.verify_s + each_round_s + each_sequence_s * batches
        if drafting is not None:
            tokens = curve.tokens_per_round[0, 0]
            round_s = round_s + drafting.draft_s + hermite(drafting.more_s, tokens)
        np.testing.assert_allclose(round_s[..., 1:], curve.round_s[..., 1:], rtol=1e-6)


def test_a_drafter_that_a_model_cannot_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise specroof.OptionError("no such drafter")

    monkeypatch.setattr(explore_question, "draft_time", refuse)
    found = specroof.explore("Qwen/Qwen3-8B", "b200", tensor_parallel=1, steady=True, **SMALL)
    assert not found.section("Qwen/Qwen3-8B", "b200").cells["sglang", 1].drafting


def test_a_section_holds_what_fits_and_nothing_else() -> None:
    asked: dict[str, Any] = {"steady": True, **SMALL}
    found = specroof.explore("deepseek-ai/DeepSeek-V4-Pro", ["b200", "dgx-spark"], **asked)
    section = found.section("deepseek-ai/DeepSeek-V4-Pro", "b200")
    # 860 GB of weights lie on eight devices of 178 GiB, not on four; the textbook has no memory.
    servers = {key for key in section.cells if key[0] != "ideal"}
    assert servers == {("sglang", 8), ("vllm", 8), ("tensorrt-llm", 8)}
    assert {devices for engine, devices in section.cells if engine == "ideal"} == {1, 2, 4, 8}
    assert section.default_engine == "sglang"
    # Where no engine is fitted to a chip, it is the server that the page's commands name.
    default: dict[str, Any] = {"engines": [None], **asked}
    cells = (
        specroof.explore("Qwen/Qwen3-8B", "l40s", **default).section("Qwen/Qwen3-8B", "l40s").cells
    )
    engines = {cell.deployment.setup.engine.framework for cell in cells.values()}
    assert engines == {name for name, _ in cells} == {"vllm"}
    alone = found.section("deepseek-ai/DeepSeek-V4-Pro", "dgx-spark")  # it has no link
    assert {devices for _, devices in alone.cells} == {1}
    odd = specroof.explore("Qwen/Qwen3-8B", "b200", tensor_parallel=[1, 3], **asked)
    assert {n for _, n in odd.section("Qwen/Qwen3-8B", "b200").cells} == {1}  # of 32 heads


def test_presets_are_not_told_of_drafts_that_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    drafter = "{},accept-length={}".format
    begun = {"eagle3": drafter("eagle3", "2.8@3"), "dflash": drafter("dflash", "5.4@15")}
    monkeypatch.setattr(explore_question, "begun_kinds", lambda _model: [*begun])
    usual = lambda kind, *_: specroof.load_drafter(begun[kind])  # noqa: E731 - one expression
    monkeypatch.setattr(explore_question, "usual_drafter", usual)
    asked: dict[str, Any] = {"tensor_parallel": 1, "context_len": 1024, "batch_size": [8, 100]}
    found = specroof.explore("Qwen/Qwen3-32B", "h100", engines="sglang", **asked)
    played: Any = found.section("Qwen/Qwen3-32B", "h100").cells["sglang", 1].played
    assert played.drafters == (*begun,)
    # Chat and batch jobs are at this context, and one of the loads is played.
    assert played.choices.shape[1:] == (2, 2, 1)
    eagle3, dflash = np.moveaxis(played.choices, 2, 0)
    assert eagle3[1].all()
    assert not dflash.any()


def test_a_page_has_the_usual_acceptance_of_each_server() -> None:
    names = ["Qwen/Qwen3-4B", "deepseek-ai/DeepSeek-R1"]  # the one measured by rejection sampling
    found = specroof.explore(names, "b200", engines="ideal", tensor_parallel=1, **SMALL)
    usual = unpacked(tables(found.page)["packed"])[0]["shared"]["usual"]
    lengths = np.arange(1, 4)
    for (m, name), kind in itertools.product(enumerate(names), ("eagle3", "mtp")):
        for server in ("vllm", "tensorrt-llm"):
            place = usual["of_models"][kind][m]
            row = usual["rows"][usual["under"][server].get(str(place), place)]
            asked = DeploymentRequest(name, "b200", framework=server)
            one = asked.sampled(*published_drafters(kind, asked.architecture, server))
            acceptance: Any = one.acceptance
            assert one.name == f"{kind},profile={row['name']}"
            tokens = np.array(row["tokens"][1:4])
            assert tokens == pytest.approx(acceptance.tokens_per_round(lengths))
            low, high = acceptance.band(lengths)
            assert tokens / np.exp(row["below"][1:4]) == pytest.approx(low)
            assert tokens * np.exp(row["above"][1:4]) == pytest.approx(high)
    assert usual["under"]["tensorrt-llm"]
    assert not usual["under"]["vllm"]


def test_typical_lengths_are_what_they_are_stated_as() -> None:
    ends = np.cumsum([10 * depth + 1 for depth in LENGTH_DEPTHS])
    for depth, curves in zip(
        LENGTH_DEPTHS, np.split(typical_acceptance("eagle3"), ends), strict=False
    ):
        tokens, below, _ = curves[:, :, depth].T
        assert tokens == pytest.approx(1 + np.arange(len(tokens)) / 10, abs=1e-9)
        assert below == pytest.approx(0, abs=1e-12)  # where it was measured


def test_models_whose_grids_come_out_alike_share_a_file() -> None:
    names = ["Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-Coder-30B-A3B-Instruct"]
    found = specroof.explore(names, "b200", tensor_parallel=1, steady=True, **SMALL)
    whole = replace(found, is_whole=True)
    assert whole.alike == [0, 1]  # of the one, another drafter was measured
    files = dict(site_files(whole))
    assert [*files] == ["grid-0.js", "index.html"]
    assert tables(files["index.html"].decode())["grids"] == [0, 0]


@pytest.fixture(scope="module")
def small() -> specroof.Answer:
    return specroof.explore("Qwen/Qwen3-8B", "b200", engines="sglang", tensor_parallel=1, **SMALL)


def test_a_page_runs_its_own_scripts_only(small: Any) -> None:
    text = small.page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    rules = dict(one.strip().split(" ", 1) for one in unescape(policy[1]).split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert [page._checksum(script) for script in scripts] == rules["script-src"].split()
    assert len(text.encode()) <= 600_000


def test_a_site_has_a_grid_for_each_pair(small: Any) -> None:
    steps: list[None] = []
    found = dict(site_files(small, lambda: steps.append(None)))
    assert sorted(found) == ["grid-0-0.js", "index.html", "preview.png"]
    assert len(steps) == len(small.records) == 1
    assert "sections" not in tables(found["index.html"].decode())


@pytest.mark.parametrize("name", rows("values", "models_of_a_page"))
def test_a_page_begins_with_the_drafter_that_advise_asks_about(name: str) -> None:
    advised: Any = specroof.advise(
        name, "b200", tensor_parallel=8, framework="vllm", input_len=9, output_len=9, concurrency=1
    )
    begun = {*advised.drafters}
    kinds = begun_kinds(specroof.load_model(name))
    found = specroof.explore([name], "b200", engines="ideal", tensor_parallel=8, **SMALL)
    usual = unpacked(tables(found.page)["packed"])[0]["shared"]["usual"]
    rows = (usual["rows"][usual["of_models"][kind][0]]["name"] for kind in kinds)
    assert {f"{kind},profile={row}" for kind, row in zip(kinds, rows, strict=True)} == begun


@pytest.mark.parametrize("terminal", [False, True])
def test_the_command_writes_a_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    out, shown = tmp_path / "site", Terminal()
    words = "explore Qwen/Qwen3-8B -H b200 --tp 1 --context 4096 --batch 8 -o"
    if terminal:
        monkeypatch.setattr(sys, "stderr", shown)
    with pytest.raises(SystemExit) as ended:
        app([*words.split(), str(out)])
    assert ended.value.code == 0
    names = {"grid-0-0.js", "index.html", "specroof-manifest.json"}
    assert {path.name for path in out.iterdir()} == names
    assert ("grids" in shown.getvalue()) == terminal  # a bar


@pytest.mark.parametrize(("words", "refusal"), rows("refusals", "explore_commands"))
def test_what_the_command_refuses_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], refusal: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    assert refusal in refused("explore Qwen/Qwen3-8B -H b200", *words)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_chip_whose_own_engine_is_the_ideal_has_it_once() -> None:
    bare = replace(specroof.load_hardware("b200"), engines={}, default_engine=None, generic=None)
    found = specroof.explore("Qwen/Qwen3-8B", bare, tensor_parallel=1, **SMALL)
    (model,), (chip,) = found.models, found.hardware
    assert list(found.section(model, chip).cells) == [("ideal", 1)]
