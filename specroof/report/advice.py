"""Advice on one page of 80 columns."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from specroof.policies.decision import INPUTS
from specroof.policies.schedule import Day
from specroof.questions.advise import Advice, Served
from specroof.questions.advised import Advised, Row, Times
from specroof.report.layout import ABSENT, figure, folded, format_table, note_lines, wrapped
from specroof.serving.launch import Launch, server_command
from specroof.units import format_drafts, format_price, format_seconds

#: The least share that a percentage with one digit after the point shows.
_SHOWN_SHARE: Final = 0.0005
#: Letters of a kind of drafter that it has room for.
_LONGEST_NAME: Final = 8
#: Lengths of the user's own that the table has room for.
_MOST_OWN: Final = 3


def advice_text(found: Advice, model: str) -> str:
    """Return the page: the decision, loads, prices, what holds back, and flags to paste.

    Parameters
    ----------
    found
        The advice.
    model
        The model as it was asked for, which commands repeat.
    """
    best = found.chips[0]
    title = f"{found.title}; {found.workload.requests}"
    short = _short_names(found.drafters)
    parts = [
        wrapped(title),
        wrapped(decision_line(best)),
        *map(wrapped, _targets_lines(found, best)),
        *([wrapped(_day_line(best.advised.day))] if best.advised.day else []),
        *([_chips_table(found)] if len(found.chips) > 1 else []),
        _choices_table(best, short),
        _times_table(best),
        *_ends(best),
        "\n".join(wrapped(f"{short[d]}: {name}") for d, name in enumerate(found.drafters)),
        *(_command(one, best, model) for one in best.launches),
    ]
    notes = [wrapped(note_lines([note])) for note in (*found.warnings, *found.notes)]
    return "\n\n".join([*parts, "\n".join(notes)])


def decision_line(chip: Served) -> str:
    """Return the decision in a sentence or two, and how sure it is."""
    rows = chip.rows
    first, last = rows[0].concurrency, rows[-1].concurrency
    span = f"from {first:g} to {last:g} requests in flight"
    if len(rows) == 1:
        span = f"at {first:g} in flight"
    sure = _sureness(rows)
    best = [row.choice.speedup for row in rows if row.drafter == chip.advised.chosen]
    gain = chip.drafter.name + (f", up to {max(best):.2f}x" if best else "")
    match chip.decision:
        case "on":
            said = f"ON {span}: {gain}."
        case "off":
            said = f"OFF {span}: the best draft reaches {_most(rows):.2f}x."
        case "unclear":
            said = f"UNCLEAR {span}: the best draft reaches {_most(rows):.2f}x."
        case _ if chip.up_to is not None:
            requests = "request" if chip.up_to == 1 else "requests"
            said = f"ON UP TO {chip.up_to:g} {requests} in flight: {gain}."
        case _:
            paying = ", ".join(f"{row.concurrency:g}" for row in rows if row.verdict == "pays")
            said = f"ON at {paying} requests in flight, not at all loads: {gain}."
    return f"{said} {sure} {_schedule_line(chip.advised)}"


def _schedule_line(advised: Advised) -> str:
    """Return the drafts by load, and why those of the table may be others."""
    ranges = ", ".join(f"{k} at {_span(one, end)}" for one, end, k in advised.schedule)
    table = {row.concurrency: row.draft_len for row in advised.rows if _is_of(row, advised.chosen)}
    told = f"Drafts by load: {ranges}"
    if all(advised.drafts(load) == drafts for load, drafts in table.items()):
        return f"{told}."
    if advised.lost is None:
        return f"{told}, chosen for the whole day; the table has the best of each load."
    more = f"{advised.lost:.1%}" if advised.lost >= _SHOWN_SHARE else "less than 0.1%"
    return f"{told}. The table's best length for each load would give {more} more."


def _is_of(row: Row, drafter: int) -> bool:
    """Return whether a load is without drafts, or with those of one drafter."""
    return row.drafter in {None, drafter}


def _targets_lines(found: Advice, chip: Served) -> Iterator[str]:
    """Yield at which loads users wait no longer than they may, as advised and without drafts."""
    targets = found.targets
    limits = {"TTFT": targets.ttft_ms, "TPOT": targets.tpot_ms}
    asked = [f"{name} of {ms:g} ms" for name, ms in limits.items() if ms is not None]
    if asked:
        on = [row.concurrency for row in chip.rows if row.meets]
        off = [
            row.concurrency for row in chip.rows if targets.met(row.plain.ttft_s, row.plain.tpot_s)
        ]
        told = [
            f"{', '.join(f'{load:g}' for load in loads)} in flight" if loads else "no load"
            for loads in (on, off)
        ]
        yield f"{' and '.join(asked)}: met at {told[0]}; without drafts at {told[1]}."


def _day_line(day: Day) -> str:
    """Return the gain of the day, beside a fixed length and the best of each hour."""
    said = (
        f"Over the day: {day.gain:+.1%} {day.gain_of} against off. The best fixed length, {format_drafts(day.fixed)}, "
        f"gives {day.fixed_gain:+.1%}, a schedule {day.scheduled_gain:+.1%}, the best length of "
        f"each hour {day.oracle_gain:+.1%}."
    )
    if day.held_changes < day.changes:
        said += (
            f" Changes of drafts: {day.changes}; held until a load is {day.held_margin:.0%} past the edge of a "
            f"range: {day.held_changes}, for {day.held_gain:+.1%}."
        )
    if day.saturated:
        hours = ", ".join(map(str, day.saturated))
        said += f" More requests arrive than it answers in hours {hours}."
    return said


def _ends(chip: Served) -> Iterator[str]:
    """Yield the break-even at the largest load, and the point to measure."""
    row = chip.rows[-1]
    if row.point is not None:
        rate, length = row.break_even.rate, row.break_even.tokens_per_round
        takes = (
            "no acceptance is enough"
            if rate is None
            else (f"an acceptance of {rate:.2f} a draft, {length:.2f} tokens per round, is enough")
        )
        yield wrapped(
            f"Break-even at {row.concurrency:g} in flight with {format_drafts(row.choice.tried)}: {takes} "
            f"(here {row.point.tokens_per_round:.2f} tokens)."
        )
    if chip.to_measure is not None:
        one = chip.to_measure
        swing = math.expm1(one.swings[one.moved_by])
        told = wrapped(
            f"To measure: {one.concurrency:g} in flight, {format_drafts(one.draft_len)} of {one.drafter}, "
            f"the least certain point. The {INPUTS[one.moved_by]} moves it most: 10% up or "
            f"down swings it by {swing:.0%}."
        )
        yield told if one.command is None else f"{told}\n{folded(one.command)}"


def _most(rows: Sequence[Row]) -> float:
    return max(row.choice.speedup for row in rows)


def _span(first: float, last: float) -> str:
    return f"{first:g}" if first == last else f"{first:g}-{last:g}"


def _sureness(rows: Sequence[Row]) -> str:
    """Return the certainty of the decision, from the bands."""
    if all(row.choice.low == row.choice.high for row in rows):
        return "How sure: unknown, this engine has no band."
    unclear = [f"{row.concurrency:g}" for row in rows if row.verdict == "unclear"]
    if unclear:
        return (
            f"How sure: the band that holds 80% of measurements leaves {', '.join(unclear)} open."
        )
    return "How sure: the band that holds 80% of measurements agrees at every load."


def _short_names(names: Sequence[str]) -> list[str]:
    """Return the kinds of drafters, numbered where two are of one kind."""
    kinds = [name.partition(",")[0][:_LONGEST_NAME] for name in names]
    return [
        kind if kinds.count(kind) == 1 else f"{kind} {1 + kinds[:d].count(kind)}"
        for d, kind in enumerate(kinds)
    ]


def _choices_table(chip: Served, short: Sequence[str]) -> str:
    """Return the best drafts at each load, and what the user's own lengths give instead."""
    chosen = chip.advised.chosen
    own = [(d, k) for d, k in chip.rows[0].own if d == chosen][:_MOST_OWN]
    header = ["load", "drafter", "γ", "speedup", "band", "verdict", *(f"γ={k}" for _, k in own)]
    header.append("limited by")
    rows = []
    for row in chip.rows:
        band = f"{row.choice.low:.2f}-{row.choice.high:.2f}"
        cells = [f"{row.concurrency:g}", short[row.tried] if row.drafter is not None else "off"]
        cells += [str(row.draft_len), f"{row.choice.speedup:.2f}x"]
        cells += [ABSENT if row.choice.low == row.choice.high else band, row.verdict]
        cells += [figure(row.own[one], "{:.2f}".format) for one in own]
        rows.append([*cells, row.limited_by or ABSENT])
    table = format_table(header, rows, left=[1, 5, len(header) - 1])
    if all(row.drafter is not None for row in chip.rows):
        return table
    return f"{table}\noff: speedup and band of the best draft there"


#: Figures of a server by their titles: fields of `Times`, and how they are spelt.
_RATE: Final = ("tokens_per_s", "{:.0f}".format)
_PRICE: Final = ("usd_per_million_tokens", format_price)
_SERVED: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "tok/s": _RATE,
    "TTFT": ("ttft_s", format_seconds),
    "TPOT": ("tpot_s", format_seconds),
    "$/M": _PRICE,
}


def _times_table(chip: Served) -> str:
    """Return the server's figures at each load, without drafts and with."""
    header = ["load", *(f"{title}{side}" for title in _SERVED for side in (" off", " on"))]
    rows = [
        [
            f"{row.concurrency:g}",
            *(_cell(one, *how) for how in _SERVED.values() for one in (row.plain, row.times)),
        ]
        for row in chip.rows
    ]
    return format_table(header, rows, left=[])


def _cell(times: Times, name: str, spelt: Callable[[float], str]) -> str:
    return figure(getattr(times, name), spelt)


def _chips_table(found: Advice) -> str:
    """Return a line for each chip, at the largest load."""
    rows = []
    for chip in found.chips:
        row = chip.rows[-1]
        decision = chip.decision if chip.up_to is None else f"{chip.decision} ({chip.up_to:g})"
        rows.append(
            [
                f"{chip.setup.placement.devices} x {chip.setup.hardware.name}",
                chip.setup.engine.name,
                decision,
                f"{row.speedup[0]:.2f}x",
                _cell(row.times, *_RATE),
                _cell(row.times, *_PRICE),
            ]
        )
    load = found.chips[0].rows[-1].concurrency
    header = [f"at {load:g} in flight", "engine", "decision", "speedup", "tok/s", "$/M"]
    return format_table(header, rows, left=[0, 1, 2])


def _command(one: Launch, chip: Served, model: str) -> str:
    """Return the command of a server in lines that a shell joins again."""
    head = f"# {one.release}"
    files = [f"cat > {name} <<'END'\n{text}END" for name, text in one.files.items()]
    setup, options = chip.setup, chip.setup.options
    start = server_command(
        *(one.framework, model, setup.placement),
        weights=options.weight_dtype,
        kv_cache=options.kv_dtype,
    )
    if start is None:
        return "\n".join([head, *files, one.text])
    return "\n".join([head, *files, folded(f"{start} {one.text}")])
