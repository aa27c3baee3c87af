"""The README and the pages of docs/ show what the commands print."""

import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from charted import CHARTED
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


SHOWING = [name for name, text in TEXTS.items() if sessions(text)]
#: The page that shows `specroof validate`.
VALIDATING = "docs/pages/engine-errors.md"
#: The page with all questions.
QUESTIONS = "docs/pages/questions.md"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("asked_for_validated")
@pytest.mark.parametrize("page", SHOWING)
def test_what_a_page_shows_is_what_its_commands_print(page: str, tmp_path: Path) -> None:
    ending = CHARTED.get(page.removeprefix("docs/pages/").removesuffix(".md"))
    chart = tmp_path / f"chart{ending}.png"
    more = [] if ending is None else ["--plot", str(tmp_path / "chart.png")]
    assert replayed(TEXTS[page], more) == sessions(TEXTS[page])
    assert ending is None or chart.read_bytes().startswith(b"\x89PNG")


def test_a_stale_session_is_written_again_and_all_else_stays() -> None:
    page = (
        '```yaml title="bad.yaml"\nformat_version: 1\n```\n'
        "```console\n$ specroof models --json\n{}\n\n$ specroof --version\nold\n```\nend\n"
    )
    (_, models), (_, version) = replayed(page)
    assert models.startswith('{"version": 3')
    assert version.startswith("specroof ")
    assert refreshed(page) == page.replace("{}", models).replace("old", version)


def test_the_page_of_questions_counts_what_is_bundled() -> None:
    questions = " ".join(TEXTS[QUESTIONS].split())
    assert f"one of {len(model_names())} [bundled names]" in questions
    assert f"one of {len(hardware_names())} bundled names" in questions


def row(title: str) -> str:
    """Return what the table of accuracy in the README says of something."""
    (found,) = re.findall(rf"^\| {re.escape(title)} \|(.*)\|$", TEXTS["README.md"], re.MULTILINE)
    return str(found)


@pytest.mark.slow
def test_claims_of_accuracy_have_their_own_counts_and_sources(validated: Validation) -> None:
    others = " ".join(TEXTS["docs/pages/other-tools.md"].split())
    drafted = [score for score in validated.points if score.kind == "speedup"]
    by_source = Counter(score.point.source for score in drafted if score.is_trusted)
    counts = ", ".join(f"{count} of `{source}`" for source, count in by_source.most_common())
    n, total, ideal = by_source.total(), validated.total, validated.ideal_total
    words = ("two", "three", "four", "five", "six")[len(by_source) - 2]
    speedup = row("speedup at a known acceptance length")
    assert f"{n} of {words} sources ({counts})" in speedup
    right: Any = total.verdict_accuracy
    mean, roofline = total.speedup_mean_error, ideal.speedup_mean_error
    assert f"mean {mean:.1%}; a plain roofline {roofline:.1%}" in speedup
    assert f"{right * n:.0f} right ({right:.1%})" in row("decision, on or off")
    assert f"{roofline:.1%} of {n} speedups (the fitted engines: {mean:.1%})" in others
    assert f"{ideal.verdict_accuracy:.1%} of the {n} decisions right ({right:.1%})" in others
    left_out = Counter(score.point.source for score in drafted if not score.is_trusted)
    for source, count in left_out.items():
        errors = validated.sources[source]
        off, share = f"{errors.speedup_mean_error:.0%}", f"{errors.verdict_accuracy:.0%} of"
        said = f"left out above: `{source}`, a server with larger overheads than any other"
        assert f"{count} | mean {off}; {share} decisions right" in row(said)
        assert (
            f"specroof is {off} off there, and {share} its decisions are right (`{source}`"
            in others
        )


def test_the_readme_states_the_errors_of_served_loads() -> None:
    table = TEXTS[VALIDATING].partition("served loads  ")[2]
    (_, waits), (steps, simulated_waits) = (
        [line.split() for line in re.findall(rf"^{name} +(.*)$", table, re.MULTILINE)[:2]]
        for name in ("total", "every request simulated")
    )

    def whole(share: str) -> str:
        return f"{int(float(share.strip('%')) + 0.5)}%"  # 8.5% is of 8.53%

    loads, median, most, _, _, rate = steps[:6]
    step = row("time per token without drafts, each request simulated")
    assert f"{loads} loads | median {whole(median)}, 90th percentile {whole(most)}" in step
    assert f"median {whole(rate)}" in row("tokens per second")
    waits = f"median {whole(simulated_waits[2])}; {whole(waits[2])} in closed form"
    assert waits in row("time to first token")
    tpot = table.partition("simulated loads by")[2].partition("simulated loads by")[0]
    kinds = dict(re.findall(r"^model (\S+) +\d+ +(\S+%)", tpot, re.MULTILINE))
    shares = f"{whole(kinds['dense'])}, {whole(kinds['experts'])}"
    assert f"median {shares}" in row("… of dense models, of mixtures of experts")
    by_server = {
        tuple(names.split()): whole(share)
        for names, share in re.findall(r"^server (\S+ \S+) +\d+ +(\S+%)", tpot, re.MULTILINE)
    }
    for chips in ("Hopper", "Blackwell"):
        servers = ("vllm", "sglang", "tensorrt-llm")
        shares = ", ".join(by_server[name, chips.lower()] for name in servers)
        assert f"median {shares}" in row(f"… vLLM, SGLang, TensorRT-LLM on {chips}")


@pytest.mark.slow
def test_every_command_beside_a_claim_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXTS["README.md"], re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    commands = [line for line in lines if line.startswith("specroof ")]
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


def test_every_question_is_a_command_with_these_flags() -> None:
    table = TEXTS[QUESTIONS].partition("\n- ")[0]
    asked = re.findall(r"`specroof (\w+)`?(?:\]\([^)]*\)`)?([^`]*)`?", table)
    assert len(asked) > 20
    for name, rest in asked:
        assert {*re.findall(r"--[a-z-]+", rest)} <= flags_of(name), (name, rest)


def flags_of(name: str) -> set[str]:
    group: Any = get_command(app)
    _, command, _ = group.resolve_command(None, [name])
    return {flag for one in command.params for flag in one.opts}


def test_all_commands_but_two_have_json() -> None:
    told = " ".join(TEXTS[QUESTIONS].split())
    assert "All but `sweep`, `explore` and `mcp` have `--json`" in told
    without = {name for name in COMMANDS if "--json" not in flags_of(name)}
    # These two answer programs in a form of their own.
    assert without - {"mcp"} == {"sweep", "explore"}


def test_every_file_that_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXTS["README.md"])
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []
