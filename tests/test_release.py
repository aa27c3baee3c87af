"""Workflows call targets of the Makefile, and all files of a release are of one version."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from specroof.cli import app

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_can_be_repeated_at_home(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    targets = re.findall(
        r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    steps = [step for job in jobs.values() for step in job.get("steps", [])]
    called = [step["run"].split()[1] for step in steps if step.get("run", "").startswith("make ")]
    assert called
    assert set(called) <= set(targets)


def test_only_the_upload_may_sign_in_to_the_index_and_it_runs_no_code_of_ours() -> None:
    release = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    )
    publish = release["jobs"]["publish"]
    assert release["permissions"] == {"contents": "read"}
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "release"
    assert not [step for step in publish["steps"] if "run" in step or "checkout" in step["uses"]]


def test_the_recipe_is_of_this_version_and_needs_what_the_wheel_needs() -> None:
    recipe = yaml.safe_load((ROOT / "release" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == PROJECT["version"]
    needed = [need.replace(" ", "").replace("-base", "") for need in recipe["requirements"]["run"]]
    assert sorted(needed[1:]) == sorted(PROJECT["dependencies"])


def test_the_newest_section_of_the_changelog_is_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert PROJECT["version"] == next(name for name in newest if name != "Unreleased")


@pytest.mark.parametrize("name", ["SKILL.md", "llms.txt"])
def test_what_agents_read_names_files_commands_and_flags_that_there_are(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []
    calls = re.findall(r"`specroof ([a-z]+)([^`]*)`", text)
    assert calls
    for command, words in calls:
        run = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
        assert run.exit_code == 0
        flags = re.findall(r"--[a-z-]+", words.replace("--json", ""))
        assert [flag for flag in flags if flag not in run.stdout] == []


def test_a_skill_begins_with_its_name_and_when_to_use_it() -> None:
    _, head, _ = (ROOT / "SKILL.md").read_text(encoding="utf-8").split("---", 2)
    facts = yaml.safe_load(head)
    assert facts["name"] == PROJECT["name"]
    assert len(facts["description"]) <= 1024
