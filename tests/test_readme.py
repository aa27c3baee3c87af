"""The README and the pages of docs/ show what the commands print."""

import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sessions import refreshed, replayed, sessions
from specroof import hardware_names, model_names
from specroof.cli import COMMANDS, app
from specroof.scoring import Validation

ROOT = Path(__file__).parents[1]
TEXTS = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


def test_the_readme_shows_a_command_with_its_output() -> None:
    assert sessions(TEXTS["README.md"])


SHOWING = [name for name, text in TEXTS.items() if sessions(text)]
#: The page that shows `specroof validate`, whose predictions other tests need too.
VALIDATING = "docs/pages/engines.md"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("page", [name for name in SHOWING if name != VALIDATING])
def test_what_a_page_shows_is_what_its_commands_print(page: str) -> None:
    assert replayed(TEXTS[page]) == sessions(TEXTS[page])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("asked_for_validated")
def test_the_page_of_all_measurements_shows_what_its_commands_print() -> None:
    assert replayed(TEXTS[VALIDATING]) == sessions(TEXTS[VALIDATING])


def test_a_stale_session_is_written_again_and_all_else_stays() -> None:
    page = (
        '```yaml title="bad.yaml"\nformat_version: 1\n```\n'
        "```console\n$ specroof models --json\n{}\n\n$ specroof --version\nold\n```\nend\n"
    )
    (_, models), (_, version) = replayed(page)
    assert models.startswith('{"version": 3')
    assert version.startswith("specroof ")
    assert refreshed(page) == page.replace("{}", models).replace("old", version)


def test_the_readme_counts_what_is_bundled() -> None:
    readme = " ".join(TEXTS["README.md"].split())
    assert f"one of {len(model_names())} [bundled names]" in readme
    assert f"one of {len(hardware_names())} bundled names" in readme


@pytest.mark.slow
def test_claims_of_accuracy_have_their_own_counts_and_sources(validated: Validation) -> None:
    readme = " ".join(TEXTS["README.md"].split())
    others = " ".join(TEXTS["docs/pages/other-tools.md"].split())
    drafted = [score for score in validated.points if score.kind == "speedup"]
    by_source = Counter(score.point.source for score in drafted if score.is_trusted)
    counts = ", ".join(f"{count} of `{source}`" for source, count in by_source.most_common())
    n, total, ideal = by_source.total(), validated.total, validated.ideal_total
    words = ("two", "three", "four", "five", "six")[len(by_source) - 2]
    assert f"On {n} published speedups of {words} sources ({counts})" in readme
    right = total.verdict_accuracy
    assert right is not None
    mean, roofline = total.speedup_mean_error, ideal.speedup_mean_error
    assert f"the mean error is {mean:.1%}" in readme
    assert f"(a plain roofline: {roofline:.1%})" in readme
    assert f"{right * n:.0f} decisions ({right:.1%}) are right" in readme
    assert f"{roofline:.1%} of {n} speedups (the fitted engines: {mean:.1%})" in others
    assert f"{ideal.verdict_accuracy:.1%} of the {n} verdicts right ({right:.1%})" in others
    left_out = Counter(score.point.source for score in drafted if not score.is_trusted)
    for source, count in left_out.items():
        errors = validated.sources[source]
        off, rest = f"{errors.speedup_mean_error:.0%} off", f"{errors.verdict_accuracy:.0%} of"
        assert f"Left out of these figures are the {count} speedups of `{source}`" in readme
        assert f"they are {off}, and {rest} their decisions are right" in readme
        assert f"specroof is {off} there, and {rest} its verdicts are right (`{source}`" in others


def test_the_readme_states_the_errors_of_served_loads() -> None:
    table = TEXTS["docs/pages/engines.md"].partition("served loads  ")[2]
    readme = " ".join(TEXTS["README.md"].split())
    loads, median, most, _, _, rate = re.findall(r"^total +(.*)$", table, re.MULTILINE)[0].split()[
        :6
    ]
    first = re.findall(r"^total +(.*)$", table, re.MULTILINE)[1].split()[2]

    def whole(share: str) -> str:
        return f"{float(share.strip('%')):.0f}%"

    assert f"Beside {loads} published loads" in readme
    assert f"{whole(median)} off at the median and {whole(most)} at the 90th percentile" in readme
    assert (
        f"Tokens per second are {whole(rate)} off, the time to first token {whole(first)}" in readme
    )
    tpot = table.partition("served loads by")[2].partition("served loads by")[0]
    by_server = {
        tuple(names.split()): whole(share)
        for names, share in re.findall(r"^server (\S+ \S+) +\d+ +(\S+%)", tpot, re.MULTILINE)
    }
    for name, title in (("vllm", "vLLM"), ("sglang", "SGLang"), ("tensorrt-llm", "TensorRT-LLM")):
        hopper, blackwell = (by_server[name, chips] for chips in ("hopper", "blackwell"))
        assert (
            f"{hopper} and {blackwell} for {title}" in readme
            or f"{hopper} for {title} on Hopper, {blackwell} on Blackwell" in readme
        )


def test_the_readme_states_the_errors_of_others_that_the_docs_have() -> None:
    table = TEXTS["docs/pages/other-tools.md"].partition("| time per token |")[2]
    medians = [row.split("|")[-3].strip() for row in table.splitlines()[:3]]
    readme = " ".join(TEXTS["README.md"].split())
    assert (
        f"the time per token is {medians[0]} off at the median by profiles that have not seen the "
        f"model, {medians[1]} by aiconfigurator 0.12.0 and {medians[2]} by a plain roofline"
    ) in readme
    # The roofline of the other table of that page is the one of the table of engines.
    engines = re.search(
        r"^ideal roofline +\d+ +(\S+)", TEXTS["docs/pages/engines.md"], re.MULTILINE
    )
    assert engines
    others = " ".join(TEXTS["docs/pages/other-tools.md"].split())
    assert re.search(rf"{engines[1]} of \d+ speedups", others)


def shell_commands(page: str) -> list[str]:
    """Return the commands of specroof in blocks of a shell, each in one line."""
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXTS[page], re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("specroof ")]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/pages/speculation.md"])
def test_every_command_beside_a_claim_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = shell_commands(page)
    assert len(commands) >= 5
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command, comments=True)[1:])
        assert done.exit_code == 0, (command, done.output)


@pytest.mark.slow
def test_the_python_of_the_readme_runs() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", TEXTS["README.md"], re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)  # noqa: S102 - the text is there to be run
    assert names["curve"].best_draft_len.shape == (1, 4)


def test_every_question_of_the_readme_is_a_command_with_these_flags() -> None:
    table = TEXTS["README.md"].partition("## All questions")[2].partition("\n- ")[0]
    asked = re.findall(r"`specroof (\w+)`?(?:\]\([^)]*\)`)?([^`]*)`?", table)
    assert len(asked) > 20
    for name, rest in asked:
        assert {*re.findall(r"--[a-z-]+", rest)} <= flags_of(name), (name, rest)


def flags_of(name: str) -> set[str]:
    """Return the flags of a command."""
    group: Any = get_command(app)
    _, command, _ = group.resolve_command(None, [name])
    return {flag for one in command.params for flag in one.opts}


def test_all_commands_but_two_have_json() -> None:
    assert "All but `sweep` and `explore` have `--json`" in " ".join(TEXTS["README.md"].split())
    without = {name for name in COMMANDS if "--json" not in flags_of(name)}
    # These two answer programs in a form of their own.
    assert without - {"mcp"} == {"sweep", "explore"}


def test_every_file_that_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXTS["README.md"])
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []
