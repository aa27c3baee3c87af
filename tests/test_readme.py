"""The README and the pages of docs/ show what the commands print."""

from pathlib import Path

import pytest

from sessions import refreshed, replayed, sessions

ROOT = Path(__file__).parents[1]
TEXTS = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


def test_the_readme_shows_commands_with_their_output() -> None:
    assert len(sessions(TEXTS["README.md"])) >= 2


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
