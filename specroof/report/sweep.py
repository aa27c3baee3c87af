"""A study in at most forty lines: the best configurations, where drafting stops paying."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from specroof.questions.overview import Overview
from specroof.report.layout import brief, format_table, in_line, note_lines

#: Lines of the tables and of the notes; the text has at most 40 with titles and empty lines.
_MOST_BEST: Final = 16
_MOST_STOPS: Final = 10
_MOST_NOTES: Final = 4
#: Characters of a name in a table, and of a note.
_MOST_LETTERS: Final = 40
_MOST_NOTE: Final = 300


def sweep_text(
    overviews: Sequence[Overview], notes: Sequence[str], *, points: int, without_room: int
) -> str:
    """Return the findings of a study, in at most 40 lines whatever its size.

    Parameters
    ----------
    overviews
        The best of each curve at some of its loads.
    notes
        Sentences for the reader.
    points
        Rows of all files.
    without_room
        Loads that the server has no room for.
    """
    title = f"{points} points: {_counted(overviews)}"
    parts = [title, _best_table(overviews), _stops_table(overviews)]
    failed = f"{without_room} loads have no room in memory" if without_room else ""
    told = [brief(note) for note in notes]
    short = [note if len(note) <= _MOST_NOTE else f"{note[:_MOST_NOTE]}…" for note in told]
    more = len(short) - _MOST_NOTES
    lines = [failed] if failed else []
    lines += [note_lines(short[:_MOST_NOTES])] if short else []
    lines += [f"and {more} more notes in manifest.json"] if more > 0 else []
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else [])])


def _counted(overviews: Sequence[Overview]) -> str:
    kinds: dict[str, set[Any]] = {
        "model": {one.model for one in overviews},
        "chip": {(one.hardware, one.devices) for one in overviews},
        "drafter": {one.drafter for one in overviews},
    }
    return ", ".join(
        f"{len(names)} {kind}{'s'[: len(names) != 1]}" for kind, names in kinds.items()
    )


def _best_table(overviews: Sequence[Overview]) -> str:
    """Return the configuration with the most tokens per second, for each model and load."""
    # A bound is not a configuration, unless nothing else is asked about.
    overviews = [one for one in overviews if one.drafter != "ideal"] or overviews
    models = list(dict.fromkeys(one.model for one in overviews))
    shown = models[:_MOST_BEST]
    each = max(1, _MOST_BEST // len(shown))
    of_models = [[one for one in overviews if one.model == model] for model in shown]
    rows = [row for members in of_models for row in _best_rows(members, each)]
    header = ["model", "load", "batch", "most tok/s", "speedup", "γ", "chip", "drafter"]
    table = format_table(header, rows, left=(0, 1, 6, 7))
    more = len(models) - len(shown)
    left_out = [f"{more} more models"] if more else []
    if len(rows) < sum(len(_loads(members)) for members in of_models):
        left_out.insert(0, "loads in between")
    return table + (f"\nand {', and '.join(left_out)}" if left_out else "")


def _best_rows(overviews: Sequence[Overview], most: int) -> Iterator[list[str]]:
    """Yield a row for some loads of a model."""
    ordered = sorted(_loads(overviews))
    for place in np.unique(np.linspace(0, len(ordered) - 1, most).round().astype(int)):
        requests, context, batch = ordered[place]
        found = [
            (rate, speedup, draft_len, one)
            for one in overviews
            if one.requests == requests
            for rate, speedup, draft_len in _at(one, context, batch)
        ]
        name = _short(overviews[0].model)
        load = requests or f"context {context:g}"
        if not found:
            yield [name, load, f"{batch:g}", "no room", "-", "-", "-", "-"]
            continue
        rate, speedup, draft_len, one = max(found, key=lambda entry: entry[0])
        chip = _short(f"{one.devices} x {one.hardware}")
        cells = [f"{batch:g}", f"{rate:.0f}", f"{speedup:.2f}x", f"{draft_len:g}", chip]
        yield [name, load, *cells, _short(one.drafter) if draft_len else "none"]


def _loads(overviews: Sequence[Overview]) -> set[tuple[str, float, float]]:
    """Return the requests, context and batch size of each load that is looked at."""
    return {
        (one.requests, float(context), float(batch))
        for one in overviews
        for context in one.context_len
        for batch in one.batch_size
    }


def _at(one: Overview, context: float, batch: float) -> Iterator[tuple[float, float, float]]:
    """Yield rate, speedup and draft length at a load, where it is there and runs."""
    rows = np.flatnonzero(one.context_len == context)
    columns = np.flatnonzero(one.batch_size == batch)
    for row in rows:
        for column in columns:
            if np.isfinite(one.tokens_per_s[row, column]):
                arrays = (one.tokens_per_s, one.best_speedup, one.best_draft_len)
                rate, speedup, draft_len = (float(array[row, column]) for array in arrays)
                yield rate, speedup, draft_len


def _stops_table(overviews: Sequence[Overview]) -> str:
    """Return from which batch size on a drafter stops paying, for each model and drafter."""
    overviews = [one for one in overviews if one.drafter != "ideal"] or overviews
    groups: dict[tuple[str, str], list[Overview]] = {}
    for one in overviews:
        groups.setdefault((one.model, one.drafter), []).append(one)
    rows = []
    for (model, drafter), members in list(groups.items())[:_MOST_STOPS]:
        ends = [(_stops_at(one), f"{one.devices} x {one.hardware}") for one in members]
        run = [end for end in ends if end[0]] or ends
        first, last = min(run), max(run)
        rows.append([_short(model), _short(drafter), _stop(*first), _stop(*last)])
    header = ["model", "drafter", "stops paying from batch: first", "last"]
    more = len(groups) - len(rows)
    return format_table(header, rows, left=(0, 1, 2, 3)) + (f"\nand {more} more" if more else "")


def _stops_at(one: Overview) -> float:
    """Return the batch from which on no draft gains at some context; inf where there is none.

    0 where no draft has room.
    """
    if not one.drafts_run.any():
        return 0.0
    stops = []
    for runs, best in zip(one.drafts_run == 1, one.best_draft_len, strict=True):
        last = np.flatnonzero(runs & (best > 0)).max(initial=-1)
        later = np.flatnonzero(runs[last + 1 :])
        stops.append(float(one.batch_size[last + 1 + later[0]]) if later.size else float("inf"))
    return min(stops)


def _stop(batch: float, where: str) -> str:
    if batch == 0:
        return f"no room ({_short(where)})"
    return "pays wherever it runs" if batch == float("inf") else f"{batch:g} ({_short(where)})"


def _short(name: str) -> str:
    line = in_line(name)
    return line if len(line) <= _MOST_LETTERS else f"{line[: _MOST_LETTERS - 1]}…"
