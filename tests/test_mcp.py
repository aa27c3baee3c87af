"""The MCP server, by the client of the official SDK; without the SDK, what needs none of it."""

import contextlib
import json
import multiprocessing
import os
import resource
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import specroof
from commands import answered, refused, run
from specroof.cli.mcp import (
    LONGEST_LIST,
    Call,
    Limits,
    Tool,
    answer_alone,
    guard,
    kind_schema,
    questions,
    reply,
    request_schema,
)
from specroof.questions import QUESTIONS
from specroof.questions.request import Command
from specroof.questions.work import Budget, limited
from tables import rows

QWEN = {"model": "Qwen/Qwen3-8B", "hardware": "h100"}
PAGES = "http://127.0.0.1:9/metrics"
PREDICT = QWEN | {"drafters": "eagle3,accept=0.7", "batch_size": [1, 8]}


# --- Without the SDK -----------------------------------------------------------------------------


def test_every_question_that_prints_is_a_tool() -> None:
    every = questions(can_read=True)
    # The first two write files, the last starts programs.
    assert {*QUESTIONS} - {*every} == {"sweep", "explore", "measure"}
    of_files = {*every} - {*questions(can_read=False)}
    assert of_files == {"calibrate", "doctor", "hardware_check", "validate"}


@pytest.mark.parametrize("name", questions(can_read=True))
def test_a_tool_takes_the_fields_of_the_request(name: str) -> None:
    question = questions(can_read=True)[name].question
    schema = request_schema(question)
    Draft202012Validator.check_schema(schema)
    for part in schema["properties"].values():
        assert part["description"]
        assert {"type", "anyOf"} & {*part}


def test_a_schema_has_required_fields_units_and_bounds() -> None:
    schema = request_schema(specroof.predict)
    assert schema["required"] == ["model", "hardware"]
    assert schema["additionalProperties"] is False
    options = schema["properties"]["options"]["properties"]
    assert options["kv_dtype"]["enum"]
    assert options["n_cpu_moe"]["type"] == "integer"
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
        raise ZeroDivisionError("one\ntwo")

    def large() -> None:
        raise MemoryError

    tools = Limits([], network=False).offered() | {
        "broken": Tool(Command(question=broken), {}),
        "large": Tool(Command(question=large), {}),
        "unbounded": Tool(questions(can_read=False)["predict"], {}),
    }
    answer = reply(tools, "predict", PREDICT)
    assert "H100" in answer["text"]
    assert answer["structured_content"]["case"]["load"]["batch_size"] == [1, 8]
    assert not answer["is_error"]
    long = "unbounded", PREDICT | {"batch_size": [*range(1, 3000)]}, "ask for fewer points"
    for name, arguments, said in [*rows("refusals", "tool_calls"), long]:
        answer = reply(tools, name, arguments)
        assert said in answer["text"]
        assert answer["text"].isprintable()
        assert (answer["structured_content"], answer["is_error"]) == (None, True)
    assert "Traceback" in capsys.readouterr().err
    assert reply(tools, "hardware", {})["structured_content"]["rows"]
    # Where the JSON is too long, the text remains.
    profiles = reply(tools, "acceptance", {})
    assert "left out" in profiles["text"]
    assert (profiles["structured_content"], profiles["is_error"]) == (None, False)


@pytest.mark.parametrize(("name", "spelt", "fields"), rows("calls", "tools"))
def test_a_tool_takes_the_spellings_that_python_takes(
    name: str, spelt: dict[str, Any], fields: dict[str, Any]
) -> None:
    tool = Limits([], network=False).offered()[name]
    (text, found), (same_text, same) = (tool.ask(QWEN | given) for given in (spelt, fields))
    assert (text, found) == (same_text, same)
    with pytest.raises(specroof.OptionError, match="left out, since drafter is given"):
        tool.ask(QWEN | spelt | {"drafters": "ideal"})


def test_the_guard_lets_only_own_and_allowed_files_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    refused: set[str] = set()
    hook = guard([tmp_path], network=False, refused=refused)
    online = guard([], network=True, refused=set())
    for path in (specroof.__file__, os.fsencode(tmp_path / "a.json"), os.__file__, 3):
        hook("open", (path, "r", 0))
    hook("os.listdir", (None,))
    hook("import", ("os",))
    for event, place in (
        ("open", tmp_path.parent / "a.json"),
        ("open", f"{tmp_path}-beside/a.json"),
        ("os.scandir", "/"),
        ("open", "/dev/stdin"),
        ("specroof.look", "/nowhere/b.json"),
        ("socket.getaddrinfo", "localhost"),
    ):
        with pytest.raises(PermissionError):
            hook(event, (place,))
    assert {"/", "/dev/stdin", "/nowhere/b.json"} < refused
    online("socket.getaddrinfo", ("localhost",))
    online("open", (tmp_path / "hub" / "config.json",))
    with pytest.raises(PermissionError):
        online("open", (tmp_path,))


def test_without_the_sdk_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    assert "pip install mcp" in refused("mcp")
    assert "is a file" in refused("mcp --allow", shlex.quote(__file__))


def test_a_load_beyond_the_budget_is_refused_before_it_is_played() -> None:
    tools = Limits([], network=False).offered()
    for tool, load in rows("refusals", "loads_beyond_a_budget"):
        answer = reply(tools, tool, QWEN | {"input_len": 100, "output_len": 10} | load)
        assert answer["is_error"]
        assert answer["text"].startswith("requests is ")
    words = "predict Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --rate 1e6/s"
    words += " --input-len 100 --output-len 10 --requests"
    said = refused(words, "10000000")
    assert "--requests is " in said
    assert "--no-limit" in said
    with limited(Budget(1e-9, 1e9)):
        run(words, "20 --no-limit")


def test_the_process_of_a_call_has_limits_and_ends_with_its_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limits, hooks, ended = dict[int, int](), list[Any](), threading.Semaphore(0)
    hard = {resource.RLIMIT_CPU: 5, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda of: (resource.RLIM_INFINITY, hard[of]))
    monkeypatch.setattr(resource, "setrlimit", lambda of, pair: limits.update({of: pair[0]}))
    monkeypatch.setattr(sys, "addaudithook", hooks.append)
    monkeypatch.setattr(os, "_exit", lambda _: ended.release())
    reader, writer = multiprocessing.Pipe(duplex=False)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(sentinel=reader))
    for network in (False, True):
        read, end = multiprocessing.Pipe(duplex=False)
        answer_alone(end, Limits([tmp_path], network), "predict", PREDICT)
        assert read.recv()["structured_content"]["case"]["load"]["batch_size"] == [1, 8]
    assert len(hooks) == 2
    assert limits[resource.RLIMIT_CPU] == 5
    assert limits[resource.RLIMIT_DATA] > 2**30
    # A hook that stays would bind all tests: it is asked here instead of by Python.
    monkeypatch.setattr(sys, "audit", lambda event, *about: hooks[-1](event, about))
    monkeypatch.setattr("specroof.cli.mcp._STATM", tmp_path / "none")
    for path, hint in (("/a/b.json", True), (tmp_path / "b.json", False)):
        answer_alone(end, Limits([tmp_path], False), "predict", PREDICT | {"model": str(path)})
        assert ("--allow" in read.recv()["text"]) is hint
    assert limits[resource.RLIMIT_DATA] == 2**30
    assert not ended.acquire(blocking=False)
    writer.close()
    for _ in range(4):  # each call follows; one left over would end this process after the test
        assert ended.acquire(timeout=60)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("ends", [lambda *_: os._exit(1), lambda *_: time.sleep(36000)])
def test_a_call_without_an_answer_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, ends: Callable[..., None]
) -> None:
    monkeypatch.setattr("specroof.cli.mcp.answer_alone", ends)
    monkeypatch.setattr("specroof.cli.mcp.BUDGET", Budget(1.0, 1.0))
    call = Call(multiprocessing.get_context("fork"), Limits([], False), "predict", {})
    answer = call.wait()
    assert (answer["is_error"], answer["structured_content"]) == (True, None)
    assert answer["text"].startswith("predict: ")
    call.stop()
    assert multiprocessing.active_children() == []


# --- With the SDK --------------------------------------------------------------------------------


def with_server(talk: Callable[[Any], Awaitable[None]], *words: str, **variables: str) -> None:
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
def test_a_client_gets_what_the_command_prints_and_reaches_what_is_allowed_alone(
    tmp_path: Path, model_configs_folder: Path
) -> None:
    words = "predict Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 --batch 1,8"

    async def printed(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [*questions(can_read=False)]
        answer = await client.call_tool("predict", PREDICT)
        assert not answer.is_error
        assert answer.structured_content == answered(words)
        for number in range(3):
            batch = await client.call_tool("capacity", QWEN | {"context_len": 100 + number})
            assert batch.structured_content["case"]["load"]["context_len"] == 100 + number

    config = (model_configs_folder / "Qwen--Qwen3-8B.json").read_text(encoding="utf-8")
    inside, outside = tmp_path / "inside", tmp_path / "outside.json"
    inside.mkdir()
    outside.write_text(config, encoding="utf-8")
    (inside / "config.json").write_text(config, encoding="utf-8")
    (inside / "link.json").symlink_to(outside)

    async def denied(client: Any, tool: str, **changes: Any) -> str:
        answer = await client.call_tool(tool, PREDICT | changes)
        assert answer.is_error
        assert answer.structured_content is None
        text = str(answer.content[0].text)
        assert text.isprintable()
        return text

    async def nothing(client: Any) -> None:
        await printed(client)
        here, around = "/etc/hostname", tmp_path / "inside" / ".." / "outside.json"
        for name, given in (
            ("drafters", f"eagle3,accept=0.7,config={outside}"),
            ("hardware", here),
            ("model", around),
        ):
            said = await denied(client, "predict", **{name: str(given)})
            assert "--allow" in said
            # Of a file that is not there the same is said.
            absent = await denied(client, "predict", **{name: f"{given}-x"})
            assert absent.replace("-x", "") == said
        assert "HF_HUB_OFFLINE" in await denied(client, "predict", model="no-one/nothing")
        assert "tool" in await denied(client, "doctor")

    async def one_folder(client: Any) -> None:
        answer = await client.call_tool("predict", PREDICT | {"model": str(inside / "config.json")})
        assert not answer.is_error
        assert "--allow" in await denied(client, "predict", model=str(outside))
        assert "--allow" in await denied(client, "predict", model=str(inside / "link.json"))
        answer = await client.call_tool("doctor", QWEN | {"pages": PAGES})
        assert answer.is_error
        assert "--network" in answer.content[0].text

    async def online(client: Any) -> None:
        answer = await client.call_tool("doctor", QWEN | {"pages": PAGES})
        assert "--network" not in answer.content[0].text

    with_server(nothing)
    with_server(one_folder, "--allow", str(inside), SPECROOF_HARDWARE_PATH=str(inside))
    with_server(online, "--network")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are listed by Linux")
def test_a_long_call_stops_no_other_and_ends_when_it_is_cancelled_or_nobody_listens() -> None:
    pytest.importorskip("mcp")
    requests = {"input_len": 1000, "output_len": 500, "rate": 5, "requests": 1_000_000}
    long = PREDICT | requests | {"max_draft_len": 1}
    del long["batch_size"]
    server: Any = subprocess.Popen(
        [sys.executable, "-m", "specroof", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    out = server.stdout
    known: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}}
    known |= {"clientInfo": {"name": "a test", "version": "1"}}

    def send(method: str, parameters: dict[str, Any], number: int | None = None) -> None:
        said: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": parameters}
        said |= {} if number is None else {"id": number}
        server.stdin.write(json.dumps(said).encode() + b"\n")
        server.stdin.flush()

    def answers(number: int) -> bool:
        send("tools/call", {"name": "capacity", "arguments": QWEN}, number)
        return bool(json.loads(out.readline())["id"] == number)

    def processes() -> set[str]:
        found = [str(server.pid)]
        for parent in found:
            with contextlib.suppress(OSError):
                task = Path(f"/proc/{parent}/task/{parent}/children")
                found += task.read_text(encoding="ascii").split()
        return {*found}

    send("initialize", known, 0)
    assert json.loads(out.readline())["id"] == 0
    send("notifications/initialized", {})
    assert answers(1)
    idle = processes()
    for number in (2, 4):
        send("tools/call", {"name": "predict", "arguments": long}, number)
        assert answers(number + 1)  # while the long one goes on
        assert len(processes()) == len(idle) + 1
        if number == 2:
            send("notifications/cancelled", {"requestId": number})
            within(60, lambda: processes() == idle)
    left = processes()
    server.stdin.close()
    assert server.wait(60) == 0
    out.close()
    within(60, lambda: not any(Path(f"/proc/{one}").exists() for one in left))


def within(seconds: float, holds: Callable[[], bool]) -> None:
    for _ in range(int(seconds / 0.05)):
        if holds():
            return
        time.sleep(0.05)
    assert holds()
