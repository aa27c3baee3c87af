"""The MCP server, by the client of the official SDK; without the SDK, what needs none of it."""

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import specroof
from specroof.cli import app
from specroof.cli.mcp import (
    LONGEST_LIST,
    Tool,
    guard,
    kind_schema,
    questions,
    reply,
    request_schema,
)
from specroof.questions import QUESTIONS
from specroof.questions.request import Command

QWEN = {"model": "Qwen/Qwen3-8B", "hardware": "h100"}
PREDICT = QWEN | {"drafters": "eagle3,accept=0.7", "batch_size": [1, 8]}


# --- Without the SDK -----------------------------------------------------------------------------


def test_every_question_that_prints_is_a_tool() -> None:
    every = questions(can_read=True)
    # The first two write files, the last starts programs.
    assert {*QUESTIONS} - {*every} == {"sweep", "explore", "measure"}
    assert {*every} - {*questions(can_read=False)} == {
        *("calibrate", "doctor", "hardware_check", "validate")
    }


@pytest.mark.parametrize("name", questions(can_read=True))
def test_a_tool_takes_the_fields_of_the_request(name: str) -> None:
    question = questions(can_read=True)[name].question
    schema = request_schema(question)
    Draft202012Validator.check_schema(schema)
    assert all(part["description"] for part in schema["properties"].values())
    assert all("type" in part or "anyOf" in part for part in schema["properties"].values())


def test_a_schema_has_required_fields_units_and_bounds() -> None:
    schema = request_schema(specroof.predict)
    assert schema["required"] == ["model", "hardware", "drafters"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["options"]["properties"]["kv_dtype"]["enum"]
    assert Draft202012Validator(schema).is_valid(PREDICT)
    wrongs: list[dict[str, Any]] = [
        {"batch_size": [1] * (LONGEST_LIST + 1)},
        {"batch_size": []},
        {"model": "x" * 5000},
        {"options": {"kv_dtype": "fp7"}},
        {"nonsense": 1},
    ]
    for wrong in wrongs:
        assert not Draft202012Validator(schema).is_valid(PREDICT | wrong)
    assert kind_schema(Path) is None


def test_a_refusal_is_one_line_and_a_bug_does_not_end_the_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken() -> None:
        message = "one\ntwo"
        raise ZeroDivisionError(message)

    def long() -> specroof.Answer:
        return specroof.predict(
            "Qwen/Qwen3-8B", "h100", drafters="ideal", batch_size=range(1, 9000)
        )

    row = questions(can_read=False)["predict"]
    tools = {
        "predict": Tool(row, request_schema(row.question)),
        "broken": Tool(Command(question=broken), {}),
        "long": Tool(Command(question=long), {}),
        **{name: Tool(questions(can_read=False)[name], {}) for name in ("models", "hardware")},
    }
    answer = reply(tools, "predict", PREDICT)
    assert "H100" in answer["text"]
    assert answer["structured_content"]["batch_size"] == [1, 8]
    assert not answer["is_error"]
    for name, arguments, said in (
        ("nowhere", {}, "allowed: predict"),
        ("predict", {}, "arguments: 'model' is a required property"),
        ("predict", PREDICT | {"batch_size": [1, "x"]}, "batch_size"),
        ("predict", PREDICT | {"model": "nobody"}, "nobody"),
        ("broken", {}, "a bug: ZeroDivisionError: one two"),
        ("long", {}, "ask for fewer points"),
    ):
        answer = reply(tools, name, arguments)
        assert said in answer["text"]
        assert answer["text"].isprintable()
        assert (answer["structured_content"], answer["is_error"]) == (None, True)
    assert "Traceback" in capsys.readouterr().err
    # A list stands in an object; where its JSON is too long, the text remains.
    assert reply(tools, "models", {})["structured_content"]["items"]
    chips = reply(tools, "hardware", {})
    assert "left out" in chips["text"]
    assert (chips["structured_content"], chips["is_error"]) == (None, False)


def test_the_guard_lets_only_own_and_allowed_files_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    hook, online = guard([tmp_path], network=False), guard([], network=True)
    for path in (specroof.__file__, os.fsencode(tmp_path / "a.json"), os.__file__, 3):
        hook("open", (path, "r", 0))
    hook("os.listdir", (None,))
    hook("import", ("os",))
    for event, place in (
        ("open", tmp_path.parent / "a.json"),
        ("open", f"{tmp_path}-beside/a.json"),
        ("os.scandir", "/"),
        ("open", "/dev/stdin"),
        ("socket.getaddrinfo", "localhost"),
    ):
        with pytest.raises(PermissionError):
            hook(event, (place,))
    online("socket.getaddrinfo", ("localhost",))
    online("open", (tmp_path / "hub" / "config.json",))
    with pytest.raises(PermissionError):
        online("open", (tmp_path,))


def test_without_the_sdk_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    run = CliRunner().invoke(app, ["mcp"])
    assert (run.exit_code, run.stdout) == (2, "")
    assert "pip install mcp" in run.stderr
    run = CliRunner().invoke(app, ["mcp", "--allow", __file__])
    assert run.exit_code == 2
    assert "is a file" in run.stderr


# --- With the SDK --------------------------------------------------------------------------------


def with_server(talk: Callable[[Any], Awaitable[None]], *words: str, **variables: str) -> None:
    """Start the server, and let a client of the SDK talk to it."""
    anyio, mcp = pytest.importorskip("anyio"), pytest.importorskip("mcp")
    parameters = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "specroof", "mcp", *words],
        env={**os.environ, **variables},
    )

    async def run() -> None:
        async with mcp.Client(mcp.stdio_client(parameters)) as client:
            await talk(client)

    anyio.run(run)


@pytest.mark.slow
def test_a_client_gets_what_the_command_prints_and_no_call_is_lost() -> None:
    words = ["predict", *QWEN.values(), "--drafter", PREDICT["drafters"], "--batch", "1,8"]
    words.insert(2, "-H")

    async def talk(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [*questions(can_read=False)]
        assert "80% band" in client.instructions
        answer = await client.call_tool("predict", PREDICT)
        assert not answer.is_error
        printed = CliRunner().invoke(app, [*map(str, words), "--json"]).stdout
        assert answer.structured_content == json.loads(printed)
        assert "80% band" in answer.content[0].text
        for number in range(50):
            batch = await client.call_tool("capacity", QWEN | {"context_len": 100 + number})
            assert batch.structured_content["context_len"] == 100 + number
        unknown = await client.call_tool("nowhere", {})
        assert unknown.is_error

    with_server(talk)


@pytest.mark.slow
def test_a_question_reaches_no_file_and_no_network_unless_allowed(
    tmp_path: Path, model_configs_folder: Path
) -> None:
    config = (model_configs_folder / "Qwen--Qwen3-8B.json").read_text(encoding="utf-8")
    inside, outside = tmp_path / "inside", tmp_path / "outside.json"
    inside.mkdir()
    outside.write_text(config, encoding="utf-8")
    (inside / "config.json").write_text(config, encoding="utf-8")
    (inside / "link.json").symlink_to(outside)
    (inside / "page.txt").write_text("up 1\n", encoding="utf-8")

    async def refused(client: Any, tool: str, **changes: Any) -> str:
        answer = await client.call_tool(tool, PREDICT | changes)
        assert answer.is_error
        assert answer.structured_content is None
        text = str(answer.content[0].text)
        assert text.isprintable()
        return text

    async def nothing(client: Any) -> None:
        for path in (outside, "/etc/hostname", tmp_path / "inside" / ".." / "outside.json"):
            assert "--allow" in await refused(client, "predict", model=str(path))
            spec = f"eagle3,accept=0.7,config={path}"
            assert "--allow" in await refused(client, "predict", drafters=spec)
        assert "--allow" in await refused(client, "predict", hardware=str(outside))
        assert "HF_HUB_OFFLINE" in await refused(client, "predict", model="no-one/nothing")
        assert "tool" in await refused(client, "doctor")

    async def one_folder(client: Any) -> None:
        answer = await client.call_tool("predict", PREDICT | {"model": str(inside / "config.json")})
        assert not answer.is_error
        assert "--allow" in await refused(client, "predict", model=str(outside))
        assert "--allow" in await refused(client, "predict", model=str(inside / "link.json"))
        pages = QWEN | {"pages": "http://127.0.0.1:9/metrics"}
        answer = await client.call_tool("doctor", pages)
        assert answer.is_error
        assert "--network" in answer.content[0].text

    with_server(nothing)
    with_server(one_folder, "--allow", str(inside), SPECROOF_HARDWARE_PATH=str(inside))


@pytest.mark.slow
def test_the_network_is_reached_where_it_is_allowed() -> None:
    async def talk(client: Any) -> None:
        answer = await client.call_tool("doctor", QWEN | {"pages": "http://127.0.0.1:9/metrics"})
        assert "--network" not in answer.content[0].text

    with_server(talk, "--network")
