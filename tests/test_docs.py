"""The documentation site builds without a warning, and holds together without a network."""

import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import specroof
from specroof.cli import COMMANDS
from specroof.questions import QUESTIONS

PUBLIC_NAMES: list[str] = vars(specroof)["__all__"]  # which type checkers do not see
DOCS = Path(__file__).parents[1] / "docs"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (find_spec("mkdocs") and find_spec("mkdocstrings") and find_spec("material")),
        reason="mkdocs-material and mkdocstrings are not installed: pip install '.[docs]'",
    ),
]


class Page(HTMLParser):
    """What a page refers to, and what can be referred to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in {"canonical", "prev", "next"}:
            self.loads.append(given["href"])
        elif tag in {"img", "script"} and "src" in given:
            self.loads.append(given["src"])


#: Builds a site from a configuration, and runs what says --plot without drawing; test_readme.py
#: draws the charts of all other commands.
BUILD = """
import gc, logging, sys
from matplotlib.figure import Figure
from mkdocs.commands.build import build
from mkdocs.config import load_config

gc.set_threshold(200_000, 50, 50)  # as tests have it
Figure.savefig = lambda _, file, **__: file.write(b"a chart")
logging.getLogger("mkdocs").setLevel("WARNING")  # what --strict stops at
config = load_config(sys.argv[1], site_dir=sys.argv[2])
(hooks,) = config.hooks.values()
chart_of = hooks.chart_of
hooks.chart_of = lambda line, end: chart_of(line, end) if "--plot" in line else b"a chart"
config.plugins.on_startup(command="build", dirty=False)
build(config)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(DOCS / "mkdocs.yml"), str(folder)],
        # Coverage makes a child slower by half, and is measured in this process.
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "COVERAGE_PROCESS_CONFIG": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_links_inside_the_site_lead_somewhere_and_nothing_loads_from_elsewhere(
    pages: dict[Path, Page],
) -> None:
    lost = []
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            anchored = not parts.fragment or (
                there in pages and unquote(parts.fragment) in {"", *pages[there].anchors}
            )
            if not (there.exists() and anchored):
                lost.append(f"{path.name}: {link}")
    assert lost == []
    assert [load for page in pages.values() for load in page.loads if urlsplit(load).scheme] == []


def test_the_reference_has_every_public_name(pages: dict[Path, Page], site: Path) -> None:
    anchors = set().union(*(pages[path].anchors for path in (site / "python").glob("*.html")))
    public = [getattr(specroof, name) for name in PUBLIC_NAMES if name != "plot"]
    assert {f"{one.__module__}.{one.__name__}" for one in public} <= anchors


def test_the_reference_lists_the_parameters_of_questions(site: Path) -> None:
    text = (site / "python" / "questions.html").read_text(encoding="utf-8")
    for name in QUESTIONS:
        one = getattr(specroof, name)
        _, _, after = text.partition(f'id="{one.__module__}.{one.__name__}"')
        listed = re.findall(r"<b><code>(\w+)</code></b>", after.partition('<h3 id="')[0])
        called = inspect.signature(one).parameters
        assert [*called] == listed[: len(called)], name


def test_the_search_works_from_disk(pages: dict[Path, Page], site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index")
    assert "iframe-worker.js" in pages[site / "index.html"].loads


def test_pages_show_what_the_library_has(site: Path) -> None:
    for name in COMMANDS:
        text = (site / "commands" / f"{name}.html").read_text(encoding="utf-8")
        assert "<th>flag</th>" in text, name
    text = (site / "models.html").read_text(encoding="utf-8")
    assert [name for name in specroof.model_names() if name not in text] == []
    chips = (site / "files" / "hardware.html").read_text(encoding="utf-8")
    assert [name for name in specroof.hardware_names() if name not in chips] == []
