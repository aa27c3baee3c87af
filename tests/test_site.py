"""The static answers of the site: what they say, where they link, and when they are made again."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import answers
import pytest
from answers import BATCHES, CONTEXT, Case, found_of, main

import specroof

MODELS = ["Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3"]
CHIPS = ["b200", "l40s"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
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
    case = Case("Qwen/Qwen3-8B", "b200", "vllm")
    shown = text(site, case)
    curve = specroof.predict(
        case.model,
        case.chip,
        drafters="eagle3,accept=0.7",
        engine="vllm",
        batch_size=BATCHES,
        context_len=CONTEXT,
    ).curves[0]
    for batch, speedup in zip(BATCHES, curve.best_speedup[0], strict=True):
        assert re.search(rf"<td>{batch}</td>.*<td>{speedup:.2f}x</td>", shown)
    assert "Reach: <strong>" in shown
    assert "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 1" in shown
    assert "specroof predict Qwen/Qwen3-8B -H b200 --engine vllm" in shown
    assert re.search(r"Made on \d{4}-\d\d-\d\d by specroof \S+, commit \w+", shown)
    assert "<script" not in shown


@pytest.mark.slow
def test_every_link_leads_to_a_page_and_one_of_them_back(site: Path) -> None:
    outside = {site / "index.html", site / "page" / "index.html"}  # of the rest of the site
    links = {
        path: {
            (path.parent / link).resolve()
            for link in re.findall(r'href="([^"]+)"', path.read_text(encoding="utf-8"))
        }
        for path in site.rglob("*.html")
    }
    assert {link for found in links.values() for link in found - outside if not link.exists()} == (
        set()
    )
    cases = {path for path in links if path.name != "index.html"}
    for path in cases:
        assert all(path in links[there] for there in links[path] & cases)


@pytest.mark.slow
def test_a_page_is_kept_until_something_changes(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, case = site / "answers", Case("Qwen/Qwen3-8B", "b200", "vllm")
    none = Case("deepseek-ai/DeepSeek-V3", "l40s", "vllm")
    with monkeypatch.context() as patch:
        patch.setattr(answers, "found_of", None)  # not called
        assert answers.write_case(folder, case, "later")
        assert not answers.write_case(folder, none, "later")
    assert "later" not in text(site, case)
    monkeypatch.setattr(answers, "_library", lambda: b"changed")
    assert answers.write_case(folder, case, "later")
    assert "<footer>later</footer>" in text(site, case)


def test_where_drafts_pay_nowhere_the_command_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ACCEPTANCE", 0.05)
    case = Case("Qwen/Qwen3-8B", "b200", "vllm")
    found = found_of(case)
    assert found is not None
    assert found.paying == []
    assert found.serve == "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 1"
    assert "Without drafts" in answers.case_page(case, found, "")
