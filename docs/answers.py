"""A static page for each model x chip x engine: `python docs/answers.py SITE`; `make site` runs it.

A page says whether drafts pay, by batch, with band, flags, reach, and the command that repeats it.
It is plain HTML without a script. A page stays as it is while the library, its model, its chip and
this file stay the same; its foot says when and from which commit it was made.
"""

import argparse
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib import metadata
from itertools import product, repeat
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import specroof
from specroof import Architecture, Placement
from specroof.catalog.files import bundled
from specroof.parsers.model_config import MTP_NOTE
from specroof.questions.explore import PAGE_CHIPS
from specroof.serving.launch import YOUR_DRAFT_MODEL, Speculation, launch, server_command

ROOT: Final = Path(__file__).parents[1]
ENGINES: Final = ("vllm", "sglang")
BATCHES: Final = (1, 4, 16, 64, 256)
#: What a server should have room for.
USUAL_BATCH: Final = 16
CONTEXT: Final = 4096
DEVICES: Final = (1, 2, 4, 8)
#: What the pages assume, and say that they do.
ACCEPTANCE: Final = 0.7
#: Links to other pages stand between these: they change where pages come and go.
LINKS: Final = ("<!-- links -->", "<!-- end of links -->")
STYLE: Final = """
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ccc; padding: .25rem .75rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
pre { background: #f4f4f4; padding: .75rem; white-space: pre-wrap; }
h1 { font-size: clamp(1.3rem, 5vw, 2rem); }
h1, li, pre { overflow-wrap: anywhere; }
.pays { color: #116329; } .loses { color: #a40e26; } .unclear { color: #7a4e00; }
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
    """What was predicted for a page.

    Parameters
    ----------
    devices
        The fewest that have room for drafts at `USUAL_BATCH`, else the most that there are.
    drafter
        Its SPEC.
    answer
        What ``predict --json`` prints.
    serve
        The server's command without drafts, and the flags that add them; empty where none pay.
    """

    devices: int
    drafter: str
    answer: dict[str, Any]
    serve: str

    @property
    def command(self) -> list[str]:
        """The flags of `predict` that repeat the answer."""
        return [
            *(f"--tp {self.devices}", f"--batch {','.join(map(str, BATCHES))}"),
            *(f"--context {CONTEXT}", f"--drafter {self.drafter}"),
        ]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each batch: step, drafts, speedup, band, verdict, tokens per second."""
        drafter, base = self.answer["drafters"][0], self.answer["baseline"]
        rows = []
        for place, batch in enumerate(BATCHES):
            length = drafter["best_draft_len"][0][place]
            row: dict[str, Any] = {"batch": batch, "length": length, "verdict": "no room"}
            if length is not None:
                rates = drafter["tokens_per_s"][0][place]
                row |= {
                    "step_s": base["step_s"][0][place],
                    "speedup": drafter["best_speedup"][0][place],
                    "low": drafter["speedup_low"][0][place][length],
                    "high": drafter["speedup_high"][0][place][length],
                    "verdict": drafter["verdict"][0][place] or "no drafts",
                    "plain": rates[0],
                    "drafted": rates[length],
                }
            rows.append(row)
        return rows

    def has_room(self, batch: int) -> bool:
        """Tell whether a batch runs with some draft."""
        lengths = self.answer["drafters"][0]["speedup"][0][BATCHES.index(batch)]
        return any(one is not None for one in lengths[1:])

    @property
    def paying(self) -> list[dict[str, Any]]:
        """The rows at which drafts pay."""
        return [row for row in self.rows if row["verdict"] == "pays"]


def found_of(case: Case) -> Found | None:
    """Return the prediction of a page; None where even eight devices have no room for a request."""
    best = None
    model = specroof.load_model(case.model)
    kind = "mtp" if MTP_NOTE in model.notes else "eagle3"
    drafter = f"{kind},accept={ACCEPTANCE:g}"
    for devices in DEVICES:
        try:
            answer = specroof.predict(
                model,
                case.chip,
                drafters=drafter,
                engine=case.engine,
                tensor_parallel=devices,
                batch_size=BATCHES,
                context_len=CONTEXT,
            ).to_dict()
        except specroof.OptionError:  # heads or experts that so many devices cannot share
            continue
        found = Found(devices, drafter, answer, "")
        if found.rows[0]["length"] is not None:
            best = Found(devices, drafter, answer, _serve(case, model, kind, found))
            if found.has_room(USUAL_BATCH):
                break
    return best


def _serve(case: Case, model: Architecture, kind: str, found: Found) -> str:
    """Return the server's command, with the drafts of the largest batch at which they pay."""
    plain = server_command(case.engine, case.model, Placement(found.devices))
    if not found.paying:
        return plain
    largest = found.paying[-1]
    plan = Speculation(
        kind=kind,
        schedule=((1, largest["batch"], largest["length"]),),
        family=model.family,
        in_checkpoint=kind == "mtp",
    )
    try:
        flags = launch(plan, case.engine)
    except specroof.OptionError as refusal:
        return f"{plain}\n# {refusal}"
    return " ".join([plain, flags.text])


# --- The pages -----------------------------------------------------------------------------------


def made_from() -> str:
    """Return the day and the commit of this build."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    version = metadata.version("specroof")
    commit = done.stdout.strip() or "unknown"
    return f"Made on {datetime.now(UTC):%Y-%m-%d} by specroof {version}, commit {commit}."


def page(title: str, body: Iterable[str], *, up: str, foot: str) -> str:
    """Return a page; `up` leads from it to the root of the site."""
    trail = f'<a href="{up}index.html">specroof</a> / <a href="{up}answers/index.html">answers</a>'
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f'<link rel="stylesheet" href="{up}answers/style.css"></head><body>',
            f"<nav>{trail}</nav>\n<h1>{escape(title)}</h1>",
            *body,
            f"<footer>{foot}</footer></body></html>\n",
        ]
    )


def verdict_words(found: Found) -> str:
    """Return in one sentence at which batches drafts pay."""
    by_verdict: dict[str, list[str]] = {}
    for row in found.rows:
        by_verdict.setdefault(row["verdict"], []).append(str(row["batch"]))
    return "; ".join(
        f"<strong class={verdict.split()[-1]}>{verdict}</strong> at batch {', '.join(batches)}"
        for verdict, batches in by_verdict.items()
    )


def case_page(case: Case, found: Found, foot: str) -> str:
    """Return the page of a case, without its links to others."""
    answer, drafter = found.answer, found.drafter
    chip = specroof.load_hardware(case.chip).name
    title = f"{answer['model']} on {found.devices} x {chip}, {case.engine}: does speculation pay?"
    rows = [_row(row) for row in found.rows]
    command = f"specroof predict {case.model} -H {case.chip} --engine {case.engine}"
    call = " \\\n    ".join([command, *found.command])
    reach = answer["reach"]["text"] if answer.get("reach") else "unknown"
    body = [
        f"<p>With {escape(drafter)}: {verdict_words(found)}. The acceptance is an assumption: "
        f"{ACCEPTANCE:g} of drafts, given that those before were accepted. Yours moves every "
        f"figure; <code>specroof breakeven</code> finds the least that pays.</p>",
        "<table><tr><th>batch</th><th>plain step</th><th>drafts</th><th>speedup</th>"
        "<th>80% band</th><th>verdict</th><th>tokens/s</th><th>with drafts</th></tr>",
        *rows,
        "</table>",
        f"<p>Engine profile {escape(answer['engine'])}, context {CONTEXT} tokens. The band holds 80% of measurements of this kind. Reach: "
        f"<strong>{escape(reach)}</strong>.</p>",
        "<h2>To serve it</h2>",
        f"<pre>{escape(found.serve)}</pre>",
        _about_flags(found),
        "<h2>To repeat it</h2>",
        f"<pre>{escape(call)}</pre>",
        "<p>For your load, with prompts, prices and a schedule: <code>specroof advise</code>.</p>",
        "<h2>What to know</h2><ul>",
        *(f"<li>{escape(note)}</li>" for note in [*answer["warnings"], *answer["notes"]]),
        "</ul>",
        f"{LINKS[0]}{LINKS[1]}",
        f"<!-- digest {case.digest} -->",
    ]
    return page(title, body, up="../../", foot=foot)


def _row(row: dict[str, Any]) -> str:
    if row["length"] is None:
        cells = ["no room", *[""] * 6]
    else:
        verdict = row["verdict"]
        cells = [
            *(f"{1e3 * row['step_s']:.3g} ms", str(row["length"]), f"{row['speedup']:.2f}x"),
            f"{row['low']:.2f} to {row['high']:.2f}x" if row["length"] and row["low"] else "-",
            f"<span class={verdict.split()[-1]}>{verdict}</span>",
            *(f"{row['plain']:.0f}", f"{row['drafted']:.0f}"),
        ]
    return "".join(["<tr>", *(f"<td>{cell}</td>" for cell in [row["batch"], *cells]), "</tr>"])


def _about_flags(found: Found) -> str:
    if not found.paying:
        return "<p>Without drafts: they pay at no batch of the table.</p>"
    row = found.paying[-1]
    weights = "Put the drafter's weights in the place of the placeholder."
    return (
        f"<p>{row['length']} drafts are the best at batch {row['batch']}, the largest of the table "
        f"at which they pay. {weights if YOUR_DRAFT_MODEL in found.serve else ''}</p>"
    )


def linked(text: str, case: Case, cases: Sequence[Case]) -> str:
    """Return a page with links to the same model elsewhere, and to models beside it on the chip."""
    same = [one for one in cases if one.model == case.model and one != case]
    here = [one for one in cases if (one.chip, one.engine) == (case.chip, case.engine)]
    place = here.index(case)
    beside = [*here[max(place - 1, 0) : place], *here[place + 1 : place + 2]]
    parts = [
        f"<h2>{title}</h2>{link_list(found, '../')}"
        for title, found in (("The same model elsewhere", same), ("Other models here", beside))
        if found
    ]
    before, _, rest = text.partition(LINKS[0])
    return "".join([before, LINKS[0], *parts, LINKS[1], rest.partition(LINKS[1])[2]])


def link_list(cases: Iterable[Case], up: str = "") -> str:
    """Return links to pages."""
    links = (
        f'<li><a href="{up}{one.path}">{escape(one.model)}, {one.chip}, {one.engine}</a></li>'
        for one in cases
    )
    return f"<ul>{''.join(links)}</ul>"


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
    path.write_text(case_page(case, found, foot), encoding="utf-8")
    return True


def write_indexes(folder: Path, cases: Sequence[Case], foot: str) -> None:
    """Write the list of models, and the pages of each model in its folder."""
    by_model: dict[str, list[Case]] = {}
    for case in cases:
        by_model.setdefault(case.model, []).append(case)
    for model, found in by_model.items():
        body = [link_list(found, "../")]
        text = page(f"{model}: does speculation pay?", body, up="../../", foot=foot)
        (folder / found[0].folder / "index.html").write_text(text, encoding="utf-8")
    rows = (
        f'<li><a href="{found[0].folder}/index.html">{escape(model)}</a>: {len(found)} pages</li>'
        for model, found in by_model.items()
    )
    about = (
        f"<p>{len(cases)} predictions for {len(PAGE_CHIPS)} chips under {' and '.join(ENGINES)}, "
        f"with an assumed acceptance of {ACCEPTANCE:g}. To change load, drafter or acceptance, use "
        '<a href="../page/index.html">the interactive page</a> or the '
        '<a href="../index.html">command line</a>.</p>'
    )
    text = page("Does speculation pay?", [about, f"<ul>{''.join(rows)}</ul>"], up="../", foot=foot)
    (folder / "index.html").write_text(text, encoding="utf-8")
    (folder / "style.css").write_text(STYLE, encoding="utf-8")


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


def main(words: Sequence[str] | None = None) -> None:
    """Write the pages of the models and chips that are named, or of all, into a site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--models", nargs="*", default=specroof.model_names())
    parser.add_argument("--chips", nargs="*", default=PAGE_CHIPS)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args(words)
    cases = [Case(*names) for names in product(given.models, given.chips, ENGINES)]
    folder, foot = given.site / "answers", made_from()
    known = {folder / case.path for case in cases}
    for path in folder.glob("*/*-*.*"):  # of models and chips that are no more
        if path.with_suffix(".html") not in known:
            path.unlink()
    with ProcessPoolExecutor(given.workers) as pool:
        each = pool.map(write_case, repeat(folder), cases, repeat(foot), chunksize=8)
        there = [case for case, is_there in zip(cases, each, strict=True) if is_there]
    for case in there:
        path = folder / case.path
        text = path.read_text(encoding="utf-8")
        path.write_text(linked(text, case, there), encoding="utf-8")
    write_indexes(folder, there, foot)
    write_sitemap(given.site, os.environ.get("SITE_URL") or "http://localhost:8000")
    n_bytes = sum(path.stat().st_size for path in given.site.rglob("*") if path.is_file())
    print(f"{len(there)} of {len(cases)} pages in {folder}; the site has {n_bytes / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
