"""Loads that are played through, request by request: read, as tables, as JSON, and as charts."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array, to_json_array
from specroof.outcomes.solve import largest_load
from specroof.report.layout import figure, format_table, in_line
from specroof.serving.played import (
    PROGRESS,
    PlayedLoads,
    PlayedServer,
    lasting_rates,
)
from specroof.serving.workload import Load
from specroof.units import MILLISECOND, format_seconds, plain_number, three_digits

# --- Played loads as tables ----------------------------------------------------------------------

#: Titles of figures of a whole load, and how they are spelt.
_WHOLE: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "requests_per_s": ("req/s", three_digits),
    "good_requests_per_s": ("good/s", three_digits),
    q.TOKENS_PER_S.name: (q.TOKENS_PER_S.title, q.TOKENS_PER_S.spelt),
    "mean_running": ("running", "{:.1f}".format),
    "duration_s": ("lasts", format_seconds),
}
_TIMES: Final = {"ttft_s": "TTFT", "tpot_s": "TPOT", "latency_s": "latency", "queue_s": "queue"}


def played_tables(
    played: Sequence[PlayedLoads], draft_len: Sequence[int], best: Sequence[Sequence[int]]
) -> str:
    """Return a table for each drafter: loads without drafts and with, the lengths asked for.

    Parameters
    ----------
    played
        One for each drafter.
    draft_len, best
        The lengths that are shown; if there are none, the best ones of each drafter and load.
    """
    return "\n\n".join(
        f"{in_line(one.drafter)}\n{_table(one, draft_len, drafts)}"
        for one, drafts in zip(played, best, strict=True)
    )


def _table(one: PlayedLoads, draft_len: Sequence[int], best: Sequence[int]) -> str:
    """Return a row for each load without drafts, and for each load and length with them."""
    shown = {name: cell for name, cell in _WHOLE.items() if one.has_targets or "good" not in name}
    shown |= {
        f"{cut}_{name}": (f"{title} {cut}", format_seconds)
        for name, title in _TIMES.items()
        for cut in ("p50", "p90", "p99")
    }
    rows = []
    for place, name in enumerate(load_names(one.load)):
        lengths = [n for n in draft_len if n <= one.draft_len[-1]] or [best[place]]
        for drafts in dict.fromkeys((0, *lengths)):
            gain = figure(float(one.speedup[place, drafts]), "{:.2f}x".format)
            cells = [
                figure(float(one.figures[key][place, drafts]), spelt)
                for key, (_, spelt) in shown.items()
            ]
            rows.append([name, str(drafts) if drafts else "none", gain, *cells])
    header = [_KINDS[one.load.kind], "γ", "sooner", *(title for title, _ in shown.values())]
    return format_table(header, rows, left=[], keys=2)


#: What the loads of a table are told apart by.
_KINDS: Final = {"concurrency": "clients", "rate": "req/s in", "trace": "trace", "job": "job"}


def load_names(load: Load) -> list[str]:
    """Return the loads as a table names them: clients, requests per second, or how many they are.

    Examples
    --------
    >>> load_names(Load([8, 16], [4096], requests=[80, 160])), load_names(Load([1], [9], rate=[4]))
    (['8', '16'], ['4'])
    """
    if load.trace is not None:
        return [f"{load.requests[0]} requests"]
    return [plain_number(value, digits=4) for value in (load.rate or load.batch_size)]


# --- Loads with the drafts of a schedule ---------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlayedPlan:
    """What clients see of loads without drafts, and with those of a server's schedule.

    Parameters
    ----------
    load
        How requests come.
    plain, drafting
        By the names of `specroof.serving.played.FIGURES`, a value for each load.
    stable_rates
        Requests per second that the server answers at most, without drafts and with them.
    largest_rates
        Those of which p99 meets the targets, None where none does; None where no rates and no
        targets were asked about.
    has_targets
        Whether there are targets of TTFT or TPOT.
    """

    load: Load
    plain: Mapping[str, Array]
    drafting: Mapping[str, Array]
    stable_rates: tuple[float, float]
    largest_rates: tuple[float | None, float | None] | None
    has_targets: bool

    @property
    def speedup(self) -> Array:
        """How much sooner the same work is done with them, as `PlayedLoads.speedup` has it."""
        is_job = self.load.kind == "job"
        name = "duration_s" if is_job else "mean_latency_s"
        late = lasting_rates(self.load, self.plain) > self.stable_rates[0]
        return np.where(late, np.nan, self.plain[name] / self.drafting[name])

    @property
    def warnings(self) -> Iterator[str]:
        """Yield where requests take longer with drafts."""
        names = load_names(self.load)
        slow = [name for name, gain in zip(names, self.speedup, strict=True) if gain < 1]
        if slow:
            loads = f"{', '.join(slow)} ({_KINDS[self.load.kind]})"
            yield f"simulated requests take longer with these drafts at {loads}"

    def to_dict(self) -> dict[str, Any]:
        """Return what clients see as JSON has it, an array over loads for each figure."""
        pair = ("plain", "drafting")
        stable = self.stable_rates if self.load.arrival_rates else None
        return {
            "load": load_json(self.load),
            "plain": {name: to_json_array(values) for name, values in self.plain.items()},
            "drafting": {name: to_json_array(values) for name, values in self.drafting.items()},
            "speedup": to_json_array(self.speedup),
            "largest_stable_rates": stable and dict(zip(pair, stable, strict=True)),
            "largest_rates": self.largest_rates
            and dict(zip(pair, self.largest_rates, strict=True)),
        }


def played_plan(
    server: PlayedServer,
    load: Load,
    schedule: Sequence[tuple[int, int, int]],
    targets: tuple[float, float],
) -> PlayedPlan:
    """Return what clients see without drafts, and with those that a schedule makes.

    Parameters
    ----------
    server, load
        Where requests are played, and how they come.
    schedule
        Ranges of requests that are decoded together: first, last and drafts per round.
    targets
        Seconds to a first token, and of each later one: of goodput, and of p99 for the largest
        rates, which are looked for between the least rate and the most.
    """
    drafts = {first: length for first, _, length in schedule}
    done, each = PROGRESS.get(), sum(load.requests)
    done(0, 2 * each)
    plain = server.figures(load, 0, targets)
    done(each, 2 * each)
    drafting = server.figures(load, drafts, targets)
    done(2 * each, 2 * each)
    largest, has_targets = None, min(targets) < math.inf
    if load.rate and has_targets:
        off = largest_load(server, load, [0], targets)
        on = largest_load(server, load, [drafts], targets)
        largest = (off and off[0], on and on[0])
    return PlayedPlan(
        load=load,
        plain=plain,
        drafting=drafting,
        stable_rates=(server.answers(0), server.answers(drafts)),
        largest_rates=largest,
        has_targets=has_targets,
    )


def plan_table(plan: PlayedPlan) -> str:
    """Return a row for each load: what clients see without drafts and with the schedule's."""
    good = "good_requests_per_s" if plan.has_targets else "requests_per_s"
    shown = {
        "running": ("mean_running", "{:.1f}".format),
        _WHOLE[good][0]: (good, _WHOLE[good][1]),
        "TTFT p99": ("p99_ttft_s", format_seconds),
        "TPOT p99": ("p99_tpot_s", format_seconds),
    }
    header = [_KINDS[plan.load.kind], "sooner"]
    header += [f"{title}{side}" for title in shown for side in (" off", " on")]
    rows = [
        [
            name,
            figure(float(plan.speedup[place]), "{:.2f}x".format),
            *(
                figure(float(figures[key][place]), spelt)
                for key, spelt in shown.values()
                for figures in (plan.plain, plan.drafting)
            ),
        ]
        for place, name in enumerate(load_names(plan.load))
    ]
    return format_table(header, rows, left=[])


def largest_rates_line(
    rates: Mapping[str, tuple[float, int] | float | None],
    targets: tuple[float, float],
    where: str = "",
) -> str:
    """Return the largest rates of which p99 meets the targets, in one line.

    Parameters
    ----------
    rates
        By what drafts, as a sentence names it; with the draft length where one was chosen.
    targets
        Seconds to a first token, and of each later one; infinite for no target.
    where
        On which devices.

    Examples
    --------
    >>> largest_rates_line({"without drafts": 9.33, "with mtp": (15.2, 2)}, (1.0, math.inf))
    'largest rate (up to the largest asked) within p99 of TTFT 1.00 s: 9.33 requests/s without \
drafts; 15.2 with mtp (γ = 2)'
    """
    waits = zip(("TTFT", "TPOT"), targets, strict=True)
    wanted = " and ".join(f"{name} {format_seconds(s)}" for name, s in waits if math.isfinite(s))
    parts: list[str] = []
    for name, found in rates.items():
        rate, drafts = found if isinstance(found, tuple) else (found, 0)
        unit = "" if parts else " requests/s"
        told = "none" if rate is None else f"{three_digits(rate)}{unit}"
        parts.append(f"{told} {name}{f' (γ = {drafts})' if drafts else ''}")
    bound = "largest rate (up to the largest asked)"
    return in_line(f"{bound} within p99 of {wanted}{where}: {'; '.join(parts)}")


# --- Played loads as JSON and columns ------------------------------------------------------------


def load_json(load: Load) -> dict[str, Any]:
    """Return a load as the object that ``--json`` prints."""
    return {
        "kind": load.kind,
        "requests": list(load.requests),
        "rate": list(load.rate) or None,
        "arrivals": load.arrivals if load.rate else None,
        "length_range": list(load.length_range),
        "seed": load.seed,
    }


# --- Charts --------------------------------------------------------------------------------------

#: What is drawn: a figure, its title, and how it is scaled.
_DRAWN: Final[dict[str, tuple[str, Any]]] = {
    "p99_ttft_s": ("Time to first token, p99 (s)", "log"),
    "p99_tpot_s": ("Time per later token, p99 (ms)", "log"),
    "mean_latency_s": ("Time of a request, mean (s)", "log"),
    q.TOKENS_PER_S.name: ("Tokens/s", "zero"),
}


def played_charts(
    played: Sequence[PlayedLoads], title: str, lengths: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """Return charts of what clients see over loads; of one load over draft lengths and time.

    With the best lengths of each drafter and load.
    """
    load = played[0].load
    gains = np.array([np.nanmax(one.speedup, initial=1.0) for one in played])
    best = int(gains.argmax())
    title += f"\nAnswers end up to {gains[best]:.2f}x sooner with {played[best].drafter}"
    charts = {"-requests": _over_loads(played, title, lengths)}
    if len(load.requests) > 1:
        return charts
    return charts | {"-running": _over_time(played, title, [drafts for drafts, *_ in lengths])}


def _over_time(played: Sequence[PlayedLoads], title: str, lengths: Sequence[int]) -> Any:
    """Draw the requests that run, without drafts and at the best length of each drafter."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    lines = []
    best = [(one.drafter, one, drafts) for one, drafts in zip(played, lengths, strict=True)]
    for name, one, drafts in [("without drafts", played[0], 0), *best]:
        lasts_s, running = one.figures["duration_s"][0, drafts], one.running[0, drafts]
        edges = np.linspace(0.0, np.nan_to_num(lasts_s), len(running) + 1)
        steps = {"drawstyle": "steps-post", "marker": ""}
        lines.append(plot.Line(name, edges, np.append(running, running[-1]), look=steps))
    return plot.plot_lines([plot.Panel("Requests that run", lines)], title, plot.Across("Seconds"))


def _over_loads(played: Sequence[PlayedLoads], title: str, lengths: Sequence[Sequence[int]]) -> Any:
    """Draw what clients see without drafts and at the best length of each drafter."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    load = played[0].load
    drawn = dict(_DRAWN)
    if played[0].has_targets:
        drawn |= {"good_requests_per_s": ("Requests/s within targets", "zero")}
        drawn.pop(q.TOKENS_PER_S.name)
    panels = [
        plot.Panel(label, [*_lines(played, name, lengths)], s) for name, (label, s) in drawn.items()
    ]
    if len(load.requests) == 1:
        return plot.plot_lines(
            panels, title, plot.Across("Draft length γ (0: none)", "whole"), columns=2
        )
    across = plot.Across("Requests/s" if load.rate else "Clients", "loads")
    keys = [plot.line_key("γ: drafts per round, from there on", ls="")]
    return plot.plot_lines(panels, title, across, columns=2, keys=keys)


def _lines(
    played: Sequence[PlayedLoads], name: str, lengths: Sequence[Sequence[int]]
) -> Iterator[Any]:
    """Yield the lines of a figure, with the best length of each drafter where it changes."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    load = played[0].load
    unit = MILLISECOND if "(ms)" in _DRAWN.get(name, ("",))[0] else 1.0
    if len(load.requests) == 1:
        for one in played:
            known = np.isfinite(one.figures[name][0])
            y = one.figures[name][0, known] / unit
            yield plot.Line(one.drafter, one.draft_len[known] * 1.0, y)
        return
    loads = np.array(load.rate or load.batch_size, dtype=np.float64)
    order = np.argsort(loads, kind="stable")
    x = loads[order]
    yield plot.Line("without drafts", x, played[0].figures[name][order, 0] / unit)
    for one, own in zip(played, lengths, strict=True):
        best = np.array(own)[order]
        y = one.figures[name][order, best] / unit
        notes = {
            i: f"γ {drafts}"
            for i, drafts in enumerate(best if name.endswith("_per_s") else [])
            if np.isfinite(y[i]) and (i == 0 or drafts != best[i - 1])
        }
        yield plot.Line(f"{one.drafter}, best γ", x, y, notes=notes)
