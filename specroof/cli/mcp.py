"""`specroof mcp`: each question as a tool of a Model Context Protocol server.

A tool takes what the question's request has, in base units, and returns the text that its command
prints and the object of ``--json``. Nothing is written. Each call has a process of its own, which
opens no file but those of Python, specroof and the folders that were allowed, reaches no network,
and ends with the call: answered, cancelled, out of its budget, or left by the server.
"""

import errno
import json
import math
import multiprocessing
import os
import resource
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from inspect import Parameter as Signed
from inspect import getdoc, signature
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

import typer

from specroof.cli import GROUPS
from specroof.cli.output import check_folder
from specroof.errors import OptionError, SpecroofError, one_line, optional_library, refuse, reject
from specroof.questions import QUESTIONS
from specroof.questions.parameters import OPTION_FIELDS, OPTIONS, parameters_of
from specroof.questions.request import Command, by_field
from specroof.questions.work import Budget, limited
from specroof.units import GIBIBYTE, format_binary_bytes

#: Bounds of a request: no question of people has more.
LONGEST_TEXT: Final = 4096
LONGEST_LIST: Final = 64
#: Characters of an answer's text, and of its JSON: an agent reads what it gets.
LONGEST_ANSWER: Final = 200_000
#: Tools that read files or servers: offered where some are allowed.
READERS: Final = {"calibrate", "doctor", "hardware_check", "validate"}
#: Questions that start programs of this machine, which no agent may.
_STARTERS: Final = {"measure"}

INSTRUCTIONS: Final = (
    "specroof predicts what speculative decoding gains. Ask `advise` whether to turn it on and "
    "with which flags, `predict` for speedups by batch and draft length, `breakeven` for the "
    "acceptance or batch at which it pays, `capacity` for memory, `frontier` for price and speed. "
    "Quote the 80% band (speedup_low to speedup_high) beside each figure, and the line that begins "
    "with `how sure`, which says how near measurements are. A decision of `unclear` is no gain. "
    "The text of an answer is short; its JSON has the notes. Lengths are tokens, times seconds "
    "unless a name ends in _ms."
)


# --- What a question takes, as JSON Schema -------------------------------------------------------

_KINDS: Final[Mapping[Any, dict[str, Any]]] = {
    str: {"type": "string", "maxLength": LONGEST_TEXT},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
}


def kind_schema(hint: Any) -> dict[str, Any] | None:
    """Return the schema of a type hint; None for objects that only Python has.

    Examples
    --------
    >>> kind_schema(float | None)
    {'type': ['number', 'null']}
    """
    origin, inside = get_origin(hint), get_args(hint)
    if hint in _KINDS:
        return _KINDS[hint]
    if origin is Sequence:
        items = {"items": kind_schema(inside[0]), "minItems": 1, "maxItems": LONGEST_LIST}
        return {"type": "array", **items}
    if origin is Mapping:
        return {"type": "object", "maxProperties": LONGEST_LIST}
    known = [part for one in inside if (part := kind_schema(one)) is not None]
    parts = [part for place, part in enumerate(known) if part not in known[:place]]
    types = [part["type"] for part in parts]
    if {"array", "object"} & {*types} and len(parts) > 1:
        return {"anyOf": parts}
    united = {name: value for part in parts for name, value in part.items()}
    return united | {"type": types if len(types) > 1 else types[0]} if types else None


#: The fields of `specroof.Options`.
_OPTIONS: Final = {
    "type": ["object", "null"],
    "properties": {
        name: {
            **(
                kind_schema(OPTION_FIELDS[name].annotation) or {}
                if row.names is None
                else {"enum": [*row.names()]}
            ),
            "description": row.about,
        }
        for name, row in OPTIONS.items()
    },
    "additionalProperties": False,
}


def request_schema(question: Callable[..., object]) -> dict[str, Any]:
    """Return the schema of what a question takes: the fields of its request."""
    taken, properties = signature(question).parameters, dict[str, Any]()
    for name, row in parameters_of(question).items():
        default = f" Default: {row.shown}." if isinstance(row.shown, str) else ""
        properties[name] = {
            **(_OPTIONS if name == "options" else kind_schema(taken[name].annotation) or {}),
            "description": row.about + default,
        }
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, one in taken.items() if one.default is Signed.empty],
        "additionalProperties": False,
    }


def questions(*, can_read: bool) -> dict[str, Command]:
    """Return the tools by name: all questions that print an answer.

    Parameters
    ----------
    can_read
        Whether files or servers may be read, which some questions need.
    """
    found: dict[str, Command] = {}
    for name in (*QUESTIONS, *GROUPS):
        row = getattr(import_module(f"specroof.questions.{name}"), "COMMAND", None)
        if row is not None and row.prints and name not in _STARTERS:
            found |= _with_below(name, row)
    return {name: row for name, row in found.items() if can_read or name not in READERS}


def _with_below(name: str, row: Command) -> dict[str, Command]:
    """Return a command and all below it that ask something else, by the names of their tools."""
    found = {name: row}
    for word, one in row.commands.items():
        if one.question is not row.question:
            found |= _with_below(f"{name}_{word}", one)
    return found


# --- Files and network that a question may not reach ---------------------------------------------


def guard(
    folders: Iterable[Path], *, network: bool, refused: set[str]
) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that refuses files outside of `folders`, and the network.

    Python tells the hook of each file and address before it is opened, and `specroof.catalog` of
    each that it looks for; a hook cannot be removed. What is refused raises `PermissionError`,
    which readers of files word; the paths that it refuses are added to `refused`.
    """
    package = Path(__file__).parents[1]
    own = [package, *(package.parent / name for name in ("hardware", "model_configs"))]
    own += [
        Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ]
    # Folders that whoever started the server has named.
    own += [Path(os.environ[name]) for name in ("SPECROOF_HARDWARE_PATH",) if os.environ.get(name)]
    if network:  # where huggingface_hub keeps what it fetched
        own.append(Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"))
    roots = tuple(os.path.realpath(folder) for folder in (*own, *folders))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FILES and arguments and not isinstance(arguments[0], int | NoneType):
            place = os.path.realpath(os.fsdecode(arguments[0]))
            if not any(place == root or place.startswith(root + os.sep) for root in roots):
                refused.add(os.fsdecode(arguments[0]))
                raise PermissionError(errno.EACCES, f"in no folder that {ALLOWED}", place)
        elif event in _NETWORK and not network:
            raise PermissionError(errno.EACCES, "no network without --network")

    return hook


#: Characters of a path by which a refusal is known to be of it: long ones are shortened.
_TOLD: Final = 40
#: What a question may read of files, for refusals.
ALLOWED: Final = "--allow names"
_FILES: Final = frozenset({"open", "os.listdir", "os.scandir", "specroof.look"})
_NETWORK: Final = frozenset({"socket.connect", "socket.getaddrinfo", "socket.sendto"})


# --- The server ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tool:
    """A question as a tool.

    Parameters
    ----------
    row
        The question.
    schema
        What it takes, as JSON Schema.
    """

    row: Command
    schema: dict[str, Any]

    def ask(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Return the answer as text, and as the object that ``--json`` prints.

        Arguments may be spelt as in the shell, as Python takes them, too: see `by_field`. An
        answer that is too long is left out, and the text says so.

        Raises
        ------
        SpecroofError
            For arguments that are not allowed, and a text that is too long.
        """
        jsonschema = optional_library("jsonschema", "specroof mcp")
        if arguments.keys() - self.schema.get("properties", {}).keys():
            arguments = by_field(arguments, parameters_of(self.row.question))
        mistakes = jsonschema.Draft202012Validator(self.schema).iter_errors(arguments)
        mistake = jsonschema.exceptions.best_match(mistakes)
        if mistake is not None:
            place = ".".join(map(str, mistake.absolute_path)) or "arguments"
            if mistake.validator == "additionalProperties":
                extra = sorted(mistake.instance.keys() - mistake.schema["properties"].keys())
                allowed = ", ".join(sorted(mistake.schema["properties"]))
                reject(f"{place}: no key is {extra[0][:LONGEST_LIST]!r}", allowed)
            if mistake.validator == "anyOf":
                kinds = dict.fromkeys(str(one.get("type", "")) for one in mistake.validator_value)
                refuse(place, mistake.instance, " or ".join(filter(None, kinds)))
            message = f"{place}: {mistake.message}"
            raise OptionError(message)
        answer = self.row.question(**arguments)
        answer.refuse_many(1, "JSON")
        text, found = self.row.text(answer), answer.to_dict()
        if len(text) > LONGEST_ANSWER:
            allowed = f"{LONGEST_ANSWER}; ask for fewer points"
            refuse("the answer", f"{len(text)} characters", allowed)
        length = len(json.dumps(found))
        if length > LONGEST_ANSWER:
            return f"{text}\n\n(Its JSON, {length} characters, is left out: ask for less.)", None
        return text, found


def reply(tools: Mapping[str, Tool], name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text and the object of an answer; of a refusal, one line."""
    found = None
    try:
        if name not in tools:
            refuse("tool", name, ", ".join(tools))
        with limited(BUDGET):
            text, found = tools[name].ask(arguments)
        is_error = False
    except SpecroofError as refusal:
        text, is_error = str(refusal), True
    except MemoryError:
        text, is_error = f"{name}: {_OVER}", True
    except Exception as failure:  # noqa: BLE001 - the server goes on, whatever one call meets
        traceback.print_exc()
        why = f"{type(failure).__name__}: {failure}"
        text, is_error = one_line(f"specroof failed, which is a bug: {why}"), True
    return {"text": text, "structured_content": found, "is_error": is_error}


# --- A process for each call ---------------------------------------------------------------------

#: What a call may take, of one process.
BUDGET: Final = Budget(60.0, GIBIBYTE)
_OVER: Final = (
    f"takes more than {BUDGET.seconds:g} s or {format_binary_bytes(BUDGET.size_bytes)}; "
    f"allowed: a smaller question"
)
#: Calls that are answered at a time; others wait.
_AT_ONCE: Final = 4


@dataclass(frozen=True)
class Limits:
    """What the process of a call may reach.

    Parameters
    ----------
    allow
        Folders whose files it may read.
    network
        Whether it may reach other computers.
    """

    allow: Sequence[Path]
    network: bool

    def offered(self) -> dict[str, Tool]:
        """Return the tools that are offered."""
        rows = questions(can_read=bool(self.allow) or self.network)
        return {name: Tool(row, request_schema(row.question)) for name, row in rows.items()}


def answer_alone(end: Connection, limits: Limits, name: str, arguments: Mapping[str, Any]) -> None:
    """Send the reply to one call: what the process of a call does, within its limits."""

    def follow() -> None:
        parent: Any = multiprocessing.parent_process()
        wait_for_any([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    _limit(resource.RLIMIT_CPU, math.ceil(BUDGET.seconds))
    _limit(resource.RLIMIT_DATA, _held_bytes() + int(BUDGET.size_bytes))
    if not limits.network:  # read when huggingface_hub is imported, by the first such name
        os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
    tools, refused = limits.offered(), set[str]()
    sys.addaudithook(guard(limits.allow, network=limits.network, refused=refused))
    answer = reply(tools, name, arguments)
    # Whether a file is there is not told: of each that may not be looked at the same is said.
    if answer["is_error"] and any(path[:_TOLD] in answer["text"] for path in refused):
        answer["text"] += f"; files are read below folders that {ALLOWED}"
    end.send(answer)


#: Where Linux tells the memory of a process, in pages.
_STATM: Final = Path("/proc/self/statm")


def _held_bytes() -> int:
    """Return the bytes of data that this process has; 0 where the system does not tell."""
    try:
        pages = _STATM.read_text(encoding="ascii").split()[5]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def _limit(of: int, most: int) -> None:
    """Let the system bound what this process takes; no more than it bounds already."""
    soft, hard = resource.getrlimit(of)
    known = [limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(of, (min(known), hard))


class Call:
    """A call that a process of its own answers.

    Parameters
    ----------
    processes
        How processes are started.
    limits, name, arguments
        As `answer_alone` has them.
    """

    def __init__(self, processes: Any, limits: Limits, name: str, arguments: Any) -> None:
        self._name = name
        self._end, other = processes.Pipe(duplex=False)
        self._process = processes.Process(
            target=answer_alone, args=(other, limits, name, arguments), daemon=True
        )
        self._process.start()
        other.close()

    def wait(self) -> dict[str, Any]:
        """Return the reply, or a refusal where the process does not come to one."""
        try:
            if self._end.poll(BUDGET.seconds):
                answer: dict[str, Any] = self._end.recv()
                return answer
        except (EOFError, OSError):  # ended by the system, or `stop`
            pass
        return {"text": f"{self._name}: {_OVER}", "structured_content": None, "is_error": True}

    def stop(self) -> None:
        """End the process, whatever it does: its memory is free then."""
        self._process.kill()
        self._process.join()
        self._process.close()


def mcp(
    allow: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Let questions read files of this folder; repeatable."),
    ] = None,
    *,
    network: Annotated[
        bool,
        typer.Option(
            "--network", help="Let questions reach the Hugging Face Hub, and servers for doctor."
        ),
    ] = False,
) -> None:
    """Answer questions of coding agents, as an MCP server on standard input and output.

    Each question is a tool that takes what its Python function takes. Without --allow no file is
    read, without --network no other computer is reached. Needs the package mcp.
    """
    for folder in allow or ():
        check_folder(folder)
    anyio = optional_library("anyio", "specroof mcp")
    types = optional_library("mcp_types", "specroof mcp")
    server_module = optional_library("mcp.server", "specroof mcp")
    stdio = optional_library("mcp.server.stdio", "specroof mcp")
    limits = Limits([folder.absolute() for folder in allow or ()], network)
    listed = [
        types.Tool(
            name=name,
            description=str(getdoc(tool.row.question)).partition("\n\n")[0],
            input_schema=tool.schema,
            annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=network),
        )
        for name, tool in limits.offered().items()
    ]
    some_at_a_time = anyio.CapacityLimiter(_AT_ONCE)
    # From a process that has read the modules, one for a call starts within milliseconds.
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__, *(f"specroof.questions.{n}" for n in QUESTIONS)])

    async def list_tools(_context: Any, _parameters: Any) -> Any:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_context: Any, asked: Any) -> Any:
        async with some_at_a_time:
            call = Call(processes, limits, asked.name, asked.arguments or {})
            try:
                answer = await anyio.to_thread.run_sync(call.wait, abandon_on_cancel=True)
            finally:
                call.stop()
        content = [types.TextContent(type="text", text=answer.pop("text"))]
        return types.CallToolResult(content=content, **answer)

    async def serve() -> None:
        server = server_module.Server(
            "specroof",
            version=version("specroof"),
            instructions=INSTRUCTIONS,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )
        async with stdio.stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)
