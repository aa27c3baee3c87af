"""The static answers of the site: what they say, where they link, and when they are made again."""

import re
import shlex
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import answers
import pytest
from answers import Case, found_of, lost_links, main

from commands import answered

MODELS = ["Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3"]
CHIPS = ["b200", "l40s"]
CASE = Case("Qwen/Qwen3-8B", "b200", "vllm")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "page").mkdir()
    for name in ("index.html", "engines.html"):
        (folder / name).write_text("<p>Documentation</p>", encoding="utf-8")
    (folder / "page" / "index.html").write_text("<body><p>Page</p></body>", encoding="utf-8")
    main([str(folder), "--models", *MODELS, "--chips", *CHIPS, "--workers", "1"])
    return folder


def text(site: Path, case: Case) -> str:
    return (site / "answers" / case.path).read_text(encoding="utf-8")


@pytest.mark.slow
def test_each_case_with_room_has_a_page_and_the_sitemap_lists_it(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert "answers/qwen-qwen3-8b/b200-vllm.html" in pages
    assert "answers/deepseek-ai-deepseek-v3/l40s-vllm.html" not in pages  # 671 GB on 8 x 48
    listed = ET.parse(site / "sitemap.xml").getroot()  # noqa: S314 - ours
    ends = {place.text.partition("8000/")[2] for [place] in listed if place.text}
    assert ends == pages


@pytest.mark.slow
def test_a_page_says_what_its_command_prints_and_needs_no_script(site: Path) -> None:
    shown = text(site, CASE)
    found = re.search(r"<pre>(specroof advise .*?)</pre>", shown, re.DOTALL)
    assert found
    advised = answered(*shlex.split(found[1].replace("\\\n", " "))[1:])
    rows = re.findall(r"<tr>(<td>.*?)</tr>", shown)
    for row, one in zip(rows, advised["rows"], strict=True):
        cells = re.findall(r"<td>(?:<span class=\w+>)?(.*?)(?:</span>)?</td>", row)
        speedup = one["tried_speedup"]
        expected = [f"{one['concurrency']:g}", one["decision"], str(one["draft_len"])]
        assert cells[:4] == [*expected, f"{speedup:.2f}x"]
        assert cells[5].endswith(f" → {one['tokens_per_s']:.0f}")
    flags = advised["choice"]["engine_config"]["vllm"]
    assert flags
    plain = "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 1"
    assert f"<pre>{escape(f'{plain} {flags}')}</pre>" in shown
    assert "<script" not in shown


@pytest.mark.slow
def test_every_link_leads_to_a_page_and_one_of_them_back(site: Path) -> None:
    links = {
        path: {
            (path.parent / link.partition("#")[0]).resolve()
            for link in re.findall(r'href="([^"]+)"', path.read_text(encoding="utf-8"))
        }
        for path in site.rglob("*.html")
    }
    assert lost_links(site) == []
    lists = {site / "answers" / path for path in CASE.lists}
    assert len(lists) == 2
    assert lists < links[site / "answers" / CASE.path]
    assert all(site / "answers" / CASE.path in links[path] for path in lists)
    assert lists < links[site / "answers" / "index.html"] < {*links, site / "answers" / "style.css"}
    assert site / "answers" / "index.html" in links[site / "page" / "index.html"]


def test_lost_links_are_named(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text(
        '<a href="../none.html#x">a</a> <a href="https://there.example/">b</a> <a href="#c">c</a>'
        """<a href=".">d</a> <script src="gone.js">x = 'href="no"';</script>""",
        encoding="utf-8",
    )
    (tmp_path / "index.html").write_text('<a href="sub/">a</a>', encoding="utf-8")
    found = lost_links(tmp_path)
    assert sorted(found) == ["sub/index.html: ../none.html", "sub/index.html: gone.js"]


@pytest.mark.slow
def test_a_lost_link_ends_the_build_and_pages_of_no_model_go(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    stale = tmp_path / "answers" / "some-model" / "b200-vllm.html"
    stale.parent.mkdir(parents=True)
    stale.write_text("", encoding="utf-8")
    (tmp_path / "page" / "index.html").write_text("<body></body>", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"answers/index.html: ../index.html"):
        main([str(tmp_path), "--models", MODELS[0], "--chips", CHIPS[0], "--workers", "1"])
    assert not stale.exists()


@pytest.mark.slow
def test_a_page_is_kept_until_something_changes(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, none = site / "answers", Case("deepseek-ai/DeepSeek-V3", "l40s", "vllm")
    with monkeypatch.context() as patch:
        patch.setattr(answers, "found_of", None)  # not called
        assert answers.write_case(folder, CASE, "later")
        assert not answers.write_case(folder, none, "later")
    assert "later" not in text(site, CASE)
    monkeypatch.setattr(answers, "_library", lambda: b"changed")
    assert answers.write_case(folder, CASE, "later")
    assert "<footer>later</footer>" in text(site, CASE)


def test_where_drafts_pay_nowhere_the_command_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "usual_kinds", lambda *_: ["eagle3,accept=0.05"])
    found: Any = found_of(CASE)
    assert {row.decision for row in found.chip.rows} == {"off"}
    assert found.serve == "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 1"
