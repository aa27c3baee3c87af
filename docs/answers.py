"""A static page for each model x chip x engine: `python docs/answers.py SITE`; `make site` runs it.

A page says what `advise` says: the decision by load, with band, prices, flags and reach, and the
command that repeats it.
It is plain HTML without a script. A page stays as it is while the library, its model, its chip and
this file stay the same; its foot says when and from which commit it was made.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape, unescape
from importlib import metadata
from itertools import product, repeat
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlencode

import specroof
from specroof import Placement
from specroof.catalog.files import bundled
from specroof.questions.advise import USUAL_FRAMEWORKS, Advice, ChipAdvice, chip_decision
from specroof.questions.advised_loads import AdvisedRow
from specroof.questions.explore import DEVICES, PAGE_CHIPS
from specroof.questions.objects import usual_kinds
from specroof.questions.page_loads import CLIENTS, PRESETS, USUAL_BATCH
from specroof.report.layout import brief
from specroof.serving.launch import YOUR_DRAFT_MODEL, server_command
from specroof.units import format_price, format_seconds

ROOT: Final = Path(__file__).parents[1]
#: The first requests that the interactive page has a button for, at every other load of it.
PRESET: Final = PRESETS[0]
INPUT_LEN, OUTPUT_LEN = round(PRESET.workload.input_len), PRESET.output_len
LOADS: Final = tuple(round(clients) for clients in CLIENTS[::2])
STYLE: Final = """
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ccc; padding: .25rem .75rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
pre { background: #f4f4f4; padding: .75rem; white-space: pre-wrap; }
h1 { font-size: clamp(1.3rem, 5vw, 2rem); }
h1, li, pre { overflow-wrap: anywhere; }
.on { color: #116329; } .off { color: #a40e26; } .unclear { color: #7a4e00; }
footer { border-top: 1px solid #ccc; color: #555; font-size: .9rem; margin-top: 2rem; }
"""


# --- The answer of one page ----------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """What a page is about.

    Parameters
    ----------
    model, chip, engine
        Names, as the command line takes them.
    """

    model: str
    chip: str
    engine: str

    @property
    def folder(self) -> str:
        """The folder of the model's pages."""
        return re.sub(r"[^a-z0-9.]+", "-", self.model.lower())

    @property
    def path(self) -> str:
        """The address of the page, below ``answers/``."""
        return f"{self.folder}/{self.chip}-{self.engine}.html"

    @property
    def lists(self) -> dict[str, str]:
        """The addresses of the lists that lead to the page, and what they are of."""
        here = f"{self.chip}, {self.engine}"
        return {f"{self.folder}/index.html": self.model, f"{self.chip}-{self.engine}.html": here}

    @property
    def digest(self) -> str:
        """What the page was made of: it is made again where this differs."""
        config = bundled("model_configs", ".json")[self.model.replace("/", "--")]
        parts = [
            _library(),
            config.read_bytes(),
            bundled("hardware", ".yaml")[self.chip].read_bytes(),
        ]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


@cache
def _library() -> bytes:
    """Return the digest of the library and of this file."""
    found = hashlib.sha256(Path(__file__).read_bytes())
    for file in sorted(Path(specroof.__file__).parent.rglob("*")):
        if file.is_file() and not {"__pycache__", "data"} & {*file.parts}:
            found.update(file.read_bytes())
    return found.digest()


@dataclass(frozen=True)
class Found:
    """What was advised for a page.

    Parameters
    ----------
    case
        What it is about.
    drafter
        Its SPEC.
    advice
        The answer.
    """

    case: Case
    drafter: str
    advice: Advice

    @property
    def chip(self) -> ChipAdvice:
        """The advice for the chip."""
        return self.advice.chips[0]

    @property
    def devices(self) -> int:
        """Devices that the model is spread over."""
        return self.chip.setup.placement.devices

    @property
    def command(self) -> str:
        """The command that repeats the answer."""
        case = self.case
        return " \\\n    ".join(
            [
                f"specroof advise {case.model} -H {case.chip} --tp {self.devices}",
                f"--engine {case.engine} --framework {case.engine}",
                f"--input-len {INPUT_LEN} --output-len {OUTPUT_LEN}",
                f"--concurrency {','.join(map(str, LOADS))} --drafter {self.drafter}",
            ]
        )

    @property
    def serve(self) -> str:
        """The server's command, with the flags of the decision; plain where that is off."""
        plain = server_command(self.case.engine, self.case.model, Placement(self.devices))
        for flags in self.chip.launches:
            return "\n".join([*flags.file_lines, f"{plain} {flags.text}"])
        return plain


def found_of(case: Case) -> Found | None:
    """Return the advice of a page; None where even eight devices have no room for a request.

    On the fewest devices that run the usual load with drafts, else on the most that there are.
    """
    best = None
    drafter = usual_kinds(specroof.load_model(case.model), case.engine)[0]
    for devices in DEVICES:
        try:
            advice = specroof.advise(
                case.model,
                case.chip,
                drafters=drafter,
                framework=case.engine,
                engine=case.engine,
                tensor_parallel=devices,
                input_len=INPUT_LEN,
                output_len=OUTPUT_LEN,
                concurrency=LOADS,
            )
        except specroof.OptionError:  # no room, or heads or experts that they cannot share
            continue
        best = Found(case, drafter, advice)
        room = best.chip.plan.capacity
        if room is None or room["speculative"]["largest_batch"] >= USUAL_BATCH:
            break
    return best


# --- The pages -----------------------------------------------------------------------------------


def made_from() -> str:
    """Return the day and the commit of this build."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    version = metadata.version("specroof")
    commit = done.stdout.strip() or "unknown"
    return f"Made on {datetime.now(UTC):%Y-%m-%d} by specroof {version}, commit {commit}."


def page(title: str, body: Iterable[str], *, path: str, lists: Mapping[str, str], foot: str) -> str:
    """Return a page, with links to the lists that lead to it; addresses are below ``answers/``."""
    up = "../" * path.count("/")
    places = {"../index.html": "specroof", "index.html": "answers", **lists}
    trail = " / ".join(f'<a href="{up}{to}">{escape(name)}</a>' for to, name in places.items())
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f'<link rel="stylesheet" href="{up}style.css"></head><body>',
            f"<nav>{trail}</nav>\n<h1>{escape(title)}</h1>",
            *body,
            f"<footer>{foot}</footer></body></html>\n",
        ]
    )


def case_page(found: Found, foot: str) -> str:
    """Return the page of a case."""
    case, chip, advice = found.case, found.chip, found.advice
    title = (
        f"{advice.model.name} on {found.devices} x {chip.setup.hardware.name}, {case.engine}: does "
        f"speculation pay?"
    )
    reach = chip.reach
    settings = urlencode(
        {
            "model": case.model,
            "chip": case.chip,
            "engine": case.engine,
            "devices": found.devices,
            "drafter": found.drafter,
        }
    )
    body = [
        f"<p><strong class={decision_class(chip)}>{escape(chip_decision(chip))}</strong></p>",
        f"<p>The drafter is {escape(', '.join(advice.drafters))}: its acceptance is published, with this model or "
        f"with others, as said below. Yours moves every figure: try it on "
        f'<a href="../../page/index.html#{escape(settings)}">the interactive page</a>, and '
        f"<code>specroof breakeven</code> finds the least that pays.</p>",
        "<table><tr><th>in flight</th><th>decision</th><th>drafts</th><th>speedup</th>"
        "<th>80% band</th><th>tokens/s</th><th>first token</th><th>$ per million</th></tr>",
        *map(_row, chip.rows),
        "</table>",
        f"<p>Prompts of {INPUT_LEN} tokens, answers of {OUTPUT_LEN}, each client with one request "
        f"in flight; engine profile {escape(chip.setup.engine.name)}. Where the decision is off, "
        f"speedup and band are those that drafts would have. The band holds 80% of measurements of "
        f"this kind. Without drafts → with those of the decision. Reach: <strong>{escape(reach['text'] if reach else 'unknown')}</strong>.</p>",
        "<h2>To serve it</h2>",
        f"<pre>{escape(found.serve)}</pre>",
        _about_flags(found),
        "<h2>To repeat it</h2>",
        f"<pre>{escape(found.command)}</pre>",
        "<h2>What to know</h2><ul>",
        *(f"<li>{escape(brief(note))}</li>" for note in [*advice.warnings, *advice.notes]),
        "</ul>",
        "<p>With <code>--sources</code> the command names what was measured; "
        '<a href="../../engines.html">how far engines are off</a>.</p>',
        f"<!-- digest {case.digest} -->",
    ]
    return page(title, body, path=case.path, lists=case.lists, foot=foot)


def decision_class(chip: ChipAdvice) -> str:
    """Return the color of a decision."""
    return "unclear" if chip.decision in {None, "depends"} else str(chip.decision)


def _row(row: AdvisedRow) -> str:
    low, high = row.bands.get("tried_speedup", (row.tried_speedup, row.tried_speedup))
    prices = (row.plain_usd_per_million_tokens, row.usd_per_million_tokens)
    cells = [
        f"{row.load:g}",
        f"<span class={row.decision}>{row.decision}</span>",
        str(row.draft_len),
        f"{row.tried_speedup:.2f}x" if row.tried_draft_len else "-",
        f"{low:.2f} to {high:.2f}x" if low < high else "-",
        f"{row.plain_tokens_per_s:.0f} → {row.tokens_per_s:.0f}",
        f"{format_seconds(row.plain_ttft_s)} → {format_seconds(row.ttft_s or 0.0)}",
        " → ".join(format_price(usd) for usd in prices if usd is not None) or "-",
    ]
    return "".join(["<tr>", *(f"<td>{cell}</td>" for cell in cells), "</tr>"])


def _about_flags(found: Found) -> str:
    if not any(row.draft_len for row in found.chip.rows):
        return "<p>Without drafts: the decision is off at every load of the table.</p>"
    if YOUR_DRAFT_MODEL in found.serve:
        return "<p>Put the drafter's weights in the place of the placeholder.</p>"
    return ""


# --- The site ------------------------------------------------------------------------------------


def write_case(folder: Path, case: Case, foot: str) -> bool:
    """Write a page unless it is there as it would be; tell whether there is one."""
    path = folder / case.path
    none = path.with_suffix(".none")  # where even eight devices have no room
    if path.exists() and f"digest {case.digest}" in path.read_text(encoding="utf-8"):
        return True
    if none.exists() and none.read_text(encoding="utf-8") == case.digest:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    found = found_of(case)
    if found is None:
        path.unlink(missing_ok=True)
        none.write_text(case.digest, encoding="utf-8")
        return False
    path.write_text(case_page(found, foot), encoding="utf-8")
    return True


def write_lists(folder: Path, cases: Iterable[Case], foot: str) -> set[Path]:
    """Write the list of each model and of each chip under an engine, and the list of lists."""
    lists: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        for place in case.lists.items():
            lists.setdefault(place, []).append(case)
    for (path, name), found in lists.items():
        to = {one: "../" * path.count("/") + one.path for one in found}
        links = link_list({to[one]: f"{one.model}, {one.chip}, {one.engine}" for one in found})
        text = page(f"{name}: does speculation pay?", [links], path=path, lists={}, foot=foot)
        (folder / path).write_text(text, encoding="utf-8")
    about = (
        f"<p>Answers for {len(PAGE_CHIPS)} chips under {' and '.join(USUAL_FRAMEWORKS)}, with the acceptance "
        f"that is published with the model, or else with others. To change load, drafter or acceptance, use "
        '<a href="../page/index.html">the interactive page</a> or the '
        '<a href="../index.html">command line</a>.</p>'
    )
    named = {path: f"{name} ({len(found)})" for (path, name), found in lists.items()}
    by_model = {path: name for path, name in named.items() if "/" in path}
    by_chip = {path: name for path, name in named.items() if path not in by_model}
    body = [about, "<h2>By chip</h2>", link_list(by_chip), "<h2>By model</h2>", link_list(by_model)]
    text = page("Does speculation pay?", body, path="index.html", lists={}, foot=foot)
    (folder / "index.html").write_text(text, encoding="utf-8")
    (folder / "style.css").write_text(STYLE, encoding="utf-8")
    return {folder / path for path in ("index.html", "style.css", *named)}


def link_list(links: Mapping[str, str]) -> str:
    """Return links, texts by address."""
    each = (f'<li><a href="{to}">{escape(text)}</a></li>' for to, text in links.items())
    return f"<ul>{''.join(each)}</ul>"


def write_sitemap(site: Path, address: str) -> None:
    """Write the addresses of all pages of the site."""
    (site / "sitemap.xml.gz").unlink(missing_ok=True)  # mkdocs' own, without the answers
    pages = sorted(
        {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html"}
    )
    entries = "\n".join(
        f"<url><loc>{escape(address.rstrip('/'))}/{quote(path)}</loc></url>" for path in pages
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}\n</urlset>\n'
    )
    (site / "sitemap.xml").write_text(text, encoding="utf-8")


def finish(page: Path, foot: str) -> None:
    """Write under the interactive page when it was made and where it leads."""
    text = page.read_text(encoding="utf-8")
    if "<footer>" not in text:
        footer = (
            '<footer><a href="../index.html">Documentation</a> · <a href="../answers/index.html">'
            f"Answers by model and chip</a><br>{foot}</footer>\n</body>"
        )
        page.write_text(text.replace("</body>", footer), encoding="utf-8")


def lost_links(site: Path) -> list[str]:
    """Return the links between pages of a site that lead nowhere, each behind its page."""
    files = {path for path in site.rglob("*") if path.is_file()}
    lost = []
    for path in sorted(
        path for path in files if path.suffix == ".html" and path.name != "404.html"
    ):
        text = re.sub(
            r"(<script\b[^>]*>).*?</script>",
            r"\1",
            path.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        for link in {*re.findall(r'\b(?:href|src)="([^"#?]+)', text)}:
            there = Path(os.path.normpath(path.parent / unquote(unescape(link))))
            if not (":" in link or {there, there / "index.html"} & files):
                lost.append(f"{path.relative_to(site)}: {link}")
    return lost


def main(words: Sequence[str] | None = None) -> None:
    """Write the pages of the models and chips that are named, or of all, into a site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--models", nargs="*", default=specroof.model_names())
    parser.add_argument("--chips", nargs="*", default=PAGE_CHIPS)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args(words)
    cases = [Case(*names) for names in product(given.models, given.chips, USUAL_FRAMEWORKS)]
    folder, foot = given.site / "answers", made_from()
    with ProcessPoolExecutor(given.workers) as pool:
        each = pool.map(write_case, repeat(folder), cases, repeat(foot), chunksize=8)
        there = [case for case, is_there in zip(cases, each, strict=True) if is_there]
    known = {folder / case.path for case in cases} | write_lists(folder, there, foot)
    for path in folder.rglob("*.*"):  # of models and chips that are no more
        if path.is_file() and not {path, path.with_suffix(".html")} & known:
            path.unlink()
    finish(given.site / "page" / "index.html", foot)
    write_sitemap(given.site, os.environ.get("SITE_URL") or "http://localhost:8000")
    if lost := lost_links(given.site):
        sys.exit("\n".join(["links that lead nowhere:", *lost]))
    n_bytes = sum(path.stat().st_size for path in given.site.rglob("*") if path.is_file())
    print(f"{len(there)} of {len(cases)} pages in {folder}; the site has {n_bytes / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
