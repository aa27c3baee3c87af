"""The README and the pages of docs/ show what the commands print."""

import re
from pathlib import Path

import pytest

from sessions import refreshed, replayed, sessions
from specroof import hardware_names, model_names

ROOT = Path(__file__).parents[1]
TEXTS = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


def test_the_readme_shows_a_command_with_its_output() -> None:
    assert sessions(TEXTS["README.md"])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("page", [name for name, text in TEXTS.items() if sessions(text)])
def test_what_a_page_shows_is_what_its_commands_print(page: str) -> None:
    assert replayed(TEXTS[page]) == sessions(TEXTS[page])


def test_a_stale_session_is_written_again_and_all_else_stays() -> None:
    page = (
        '```yaml title="bad.yaml"\nformat_version: 1\n```\n'
        "```console\n$ specroof models --json\n{}\n\n$ specroof --version\nold\n```\nend\n"
    )
    (_, models), (_, version) = replayed(page)
    assert models.startswith("[{")
    assert version.startswith("specroof ")
    assert refreshed(page) == page.replace("{}", models).replace("old", version)


def test_the_readme_counts_what_is_bundled() -> None:
    readme = " ".join(TEXTS["README.md"].split())
    assert f"one of {len(model_names())} [bundled names]" in readme
    assert f"one of {len(hardware_names())} bundled names" in readme


def test_the_readme_states_the_errors_that_the_table_of_engines_has() -> None:
    table = TEXTS["docs/pages/engines.md"].partition("$ specroof validate")[2]
    total, ideal = (
        re.search(rf"^{name} +(\d+) +(\S+)", table, re.MULTILINE)
        for name in ("total", "ideal roofline")
    )
    assert total
    assert ideal
    points, error = total.groups()
    readme = " ".join(TEXTS["README.md"].split())
    assert f"Against {points} published measurements" in readme
    assert f"speedups are {error} off on average" in readme
    assert f"(a plain roofline: {ideal[2]})" in readme
    verdicts = re.search(
        r"^total .*?(\S+%)(?: +\S+%){4}$", table.partition("verdict")[2], re.MULTILINE
    )
    assert verdicts
    assert f"{verdicts[1]} of verdicts are right" in readme


def test_every_file_that_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXTS["README.md"])
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []
