"""What mkdocs asks while it builds the site: files from elsewhere, our tables and charts.

A page asks for a table with ``{{ NAME }}`` or ``{{ NAME WORDS }}``; `TABLES` has the names.
"""

import re
import shlex
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from answers import made_from
from charted import CHARTED
from mkdocs.structure.files import File, Files
from typer.main import get_command
from typer.testing import CliRunner

import specroof
from specroof.cli import COMMANDS, app
from specroof.drafters.kinds import KINDS
from specroof.questions import QUESTIONS
from specroof.questions.hardware import list_hardware
from specroof.questions.models import list_models
from specroof.units import format_binary_bytes, format_count, format_si

ROOT: Final = Path(__file__).parents[1]
_ASKED: Final = re.compile(r"^\{\{ (\w+)((?: [\w-]+)*) \}\}$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """List the pages of all commands, in the order of help, and say when the site was made."""
    config.copyright = made_from()
    pages: dict[str, list[dict[str, str]]] = {
        "Commands": [{name: f"commands/{name}.md"} for name in [*COMMANDS, "schema"]],
        "Python": [
            {"The interface": "python.md"},
            *({title: _api_page(title)} for title in _api_groups()),
        ],
    }
    for entry in config.nav:
        entry |= {title: pages[title] for title in pages.keys() & entry.keys()}
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages of commands that nobody wrote, the changelog, and the charts of the notebooks."""
    for name, about in COMMANDS.items():
        page = f"commands/{name}.md"
        if files.get_file_from_path(page) is None:
            text = f"# specroof {name}\n\n{about}\n\n## Flags\n\n{{{{ flags {name} }}}}\n"
            files.append(File.generated(config, page, content=text))
    for name in ("answers", "page"):  # which `make site` makes
        text = "<p>Made by make site. <a href='../index.html'>Documentation</a></p>"
        files.append(File.generated(config, f"{name}/index.html", content=text))
    there = {
        "changelog.md": ROOT / "CHANGELOG.md",
        "changes-0.3.md": ROOT / "docs" / "changes-0.3.md",
    }
    there |= {f"charts/{path.name}": path for path in (ROOT / "notebooks" / "charts").glob("*.png")}
    for name, path in there.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for title, names in _api_groups().items():
        text = "\n\n".join([f"# {title}", *map(_entry, names)])
        files.append(File.generated(config, _api_page(title), content=text))
    for name, (command, ending) in _charted().items():
        place = f"charts/{name.replace('/', '-')}.png"
        files.append(File.generated(config, place, content=chart_of(command, ending)))
    return files


#: Charts of the page that explains speculation, as its commands come, and the ends of their names.
_SPECULATION: Final = {
    "round": "",
    "length": "",
    "batch": "-by-batch",
    "acceptance": "",
    "advice": "",
}


def _charted() -> dict[str, tuple[str, str]]:
    """Return the command and the ending of each chart: that of a page is of its first command."""
    found = {page: (_commands(page, "$ ")[0], ending) for page, ending in CHARTED.items()}
    explained = zip(_SPECULATION.items(), _commands("speculation", "```sh\n"), strict=True)
    return found | {f"speculation-{name}": (one, ending) for (name, ending), one in explained}


def _commands(page: str, before: str) -> list[str]:
    """Return the words of the commands that a page shows behind something."""
    text = (ROOT / "docs" / "pages" / f"{page}.md").read_text(encoding="utf-8")
    found = rf"^{re.escape(before)}specroof ((?:[^\n]*\\\n)*[^\n]*)"
    return [match[1] for match in re.finditer(found, text, re.MULTILINE)]


def chart_of(command: str, ending: str) -> bytes:
    """Return the chart that a command draws, of this ending."""
    line = command.replace("\\\n", " ")
    words = shlex.split(re.split(r" \| | --plot ", line)[0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chart.png"
        done = CliRunner().invoke(app, [*words, "--plot", str(path)])
        if done.exit_code:
            raise ValueError(done.output)
        return path.with_stem(f"chart{ending}").read_bytes()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables into a page that it asks for."""
    return _ASKED.sub(lambda asked: TABLES[asked[1]](*asked[2].split()), markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Name the dialog of the theme's search for readers of screens."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |"
        for line in lines
    )


def _flags(*words: str) -> str:
    """Return the arguments and flags of a command."""
    command: Any = get_command(app)
    for word in words:
        _, command, _ = command.resolve_command(None, [word])
    rows = [
        [_spelt(one), getattr(one, "help", None) or "", _default(one)]
        for one in command.params
        if "--help" not in one.opts
    ]
    return _table(["flag", "meaning", "default"], rows)


def _spelt(one: Any) -> str:
    if one.param_type_name == "argument":
        return f"`{one.metavar or one.name.upper()}`"
    value = one.metavar or ("" if one.is_flag else one.name.upper())
    return f"`{', '.join(one.opts)} {value}`".replace(" `", "`")


def _default(one: Any) -> str:
    if one.required:
        return "required"
    shown = getattr(one, "show_default", None)
    if isinstance(shown, str):
        return shown
    return "" if one.default in (None, False) or callable(one.default) else f"`{one.default}`"


def _models() -> str:
    """Return the bundled models."""
    rows = [
        [
            f"`{row.name}`",
            format_count(row.params),
            format_count(row.active_params),
            format_binary_bytes(row.weight_bytes),
            format_binary_bytes(row.kv_bytes_per_token),
        ]
        for row in list_models().rows
    ]
    return _table(["model", "parameters", "active", "weights", "KV per token"], rows)


def _chips() -> str:
    """Return the bundled hardware files."""
    rows = [
        [
            f"`{row.name}`",
            row.title,
            *map(_peak, (row.bf16_flops_per_s, row.fp8_flops_per_s)),
            format_binary_bytes(row.memory_bytes),
            format_si(row.memory_bytes_per_s, "B/s"),
            ", ".join(row.engines[:-2]) or "-",  # fitted ones: the last two are of any chip
        ]
        for row in list_hardware().rows
    ]
    header = ["name", "chip", "bf16", "fp8", "memory", "bandwidth", "engine profiles"]
    return _table(header, rows)


def _peak(value: float | None) -> str:
    return "-" if value is None else format_si(value, "FLOP/s")


def _kinds() -> str:
    """Return the kinds of drafters and their keys."""
    rows = [
        [
            f"`{name}`",
            "<br>".join(f"`{key}=` {meaning}" for key, meaning in kind.keys.items()) or "-",
        ]
        for name, kind in KINDS.items()
    ]
    return _table(["kind", "keys, besides acceptance"], rows)


#: What the reference is sorted by; a public name that no row has is shown at the end.
_API: Final = {
    "Questions": QUESTIONS,
    "Curves": ("speedup_curve", "SpeedupCurve", "Answer", "Load", "Workload", "Study", "Target"),
    "Names to objects": (
        *("load_model", "load_hardware", "load_drafter", "load_profile", "load_profiles"),
        *("model_names", "hardware_names"),
    ),
    "Acceptance": tuple(
        name
        for name in sorted(vars(specroof)["__all__"])
        if name.endswith("_acceptance") or name.startswith("acceptance_") or "Acceptance" in name
    ),
    "Cost and time": (
        *("forward_cost", "forward_latency", "ForwardPass", "Options", "OpCost", "PassLatency"),
        *("Architecture", "HardwareProfile", "EngineProfile", "Placement"),
        *("Drafter", "Round", "DraftTime"),
    ),
    "Simulation": ("simulate_batch", "simulate_exactness"),
    "Refusals": tuple(name for name in sorted(vars(specroof)["__all__"]) if name.endswith("Error")),
}


def _api_groups() -> dict[str, tuple[str, ...]]:
    """Return every public name, by what it is for."""
    listed = {name for names in _API.values() for name in names}
    rest = tuple(
        name for name in sorted(vars(specroof)["__all__"]) if name not in listed and name != "plot"
    )
    groups = {title: tuple(names) for title, names in _API.items()}
    return groups | {"Others": rest} if rest else groups


def _api_page(title: str) -> str:
    return f"python/{title.lower().replace(' ', '-')}.md"


def _api() -> str:
    """Return the parts of the reference, and what is in each."""
    rows = (
        [f"[{title}]({_api_page(title)})", ", ".join(f"`{name}`" for name in names)]
        for title, names in _api_groups().items()
    )
    return _table(["part", "names"], rows)


def _entry(name: str) -> str:
    """Return the reference of one name, which mkdocstrings looks up where it is written."""
    one = getattr(specroof, name)
    return f"::: {one.__module__}.{one.__name__}"


def _errors(words: str) -> list[list[str]]:
    """Return the lines of a table that `specroof validate` printed into the page of all errors.

    Its first line begins with these words; cells are two spaces apart.
    """
    page = (ROOT / "docs" / "pages" / "engine-errors.md").read_text(encoding="utf-8")
    lines = page[page.index(f"\n{words}  ") + 1 :].split("\n\n", 1)[0].splitlines()
    return [re.split(r" {2,}", line.strip()) for line in lines]


#: Names in the table of errors, as people write them.
_SPELT: Final = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM", "atom": "ATOM"}
#: Families of chips in that table; `validate` prints others, too.
_FAMILIES: Final = {
    "hopper": "Hopper",
    "blackwell": "Blackwell",
    "cdna3": "MI300",
    "cdna4": "MI350",
    "gaudi": "Gaudi 3",
    "ampere": "Ampere",
}


def _accuracy() -> str:
    """Return how far predictions are off by framework, chip and kind of model, in one table."""
    cells: dict[tuple[str, str], str] = {}
    kinds = {"dense": "a dense model", "experts": "a mixture of experts"}
    for name, loads, median, *_ in _errors("simulated loads by"):
        kind, *words = name.split()
        if kind == "server":
            server, chips = words
            cells[_SPELT[server], chips] = f"{median} of {loads}"
        elif kind == "model":
            cells[kinds[words[0]], "all"] = f"{median} of {loads}"
    _, loads, median, *_ = next(
        row for row in _errors("served loads") if row[0] == "every request simulated"
    )
    cells["any server", "all"] = f"{median} of {loads}"
    speedup = "*speedup, any server*"
    for name, _, _, median, *_ in _errors("speedups by"):
        cells[speedup, name.removeprefix("chip ")] = median
    cells[speedup, "all"] = next(row[3] for row in _errors("source") if row[0] == "total")
    rows = dict.fromkeys(title for title, _ in cells)
    columns = [*_FAMILIES, "all"]
    return _table(
        ["median error", *_FAMILIES.values(), "all"],
        [[title, *(cells.get((title, chips), "") for chips in columns)] for title in rows],
    )


TABLES: Final = {
    "accuracy": _accuracy,
    "api": _api,
    "chips": _chips,
    "flags": _flags,
    "kinds": _kinds,
    "models": _models,
}
