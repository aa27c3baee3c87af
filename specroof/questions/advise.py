"""Does it pay, with which drafter, how many drafts, up to which load, and what do I type?"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np

from specroof.architecture import Architecture
from specroof.arrays import fields_of, to_json_array
from specroof.drafters import Drafter
from specroof.errors import OptionError
from specroof.hardware import IDEAL_ENGINE
from specroof.latency import Deployment, Setup
from specroof.policies.decision import INPUTS, Decision, Verdict, decided, paying_up_to
from specroof.policies.schedule import Day
from specroof.questions.advised_loads import (
    Advised,
    AdviseRequest,
    Asked,
    Row,
    Targets,
    Times,
    advised_rows,
    checked,
    grid_of,
    joined_devices,
    setup_on,
)
from specroof.questions.answer import Charted, title_of
from specroof.questions.mock import ToMeasure, measured_next
from specroof.questions.predict import Prediction, absent_layers, predicted
from specroof.questions.request import (
    HardwareLike,
    as_list,
    hardware_of,
    question,
    server_of,
    unique_list,
    usd_per_hour,
)
from specroof.report.columns import Columns, request_columns
from specroof.report.layout import ABSENT, figure, folded, format_table, note_lines, wrapped
from specroof.serving.launch import Launch, Speculation, launch, server_command
from specroof.serving.served import room_rule
from specroof.serving.workload import Load, Workload, workload_json
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN
from specroof.units import format_drafts, format_price, format_seconds

#: Frameworks whose flags are written by default.
USUAL_FRAMEWORKS: Final = ("vllm", "sglang")


@dataclass(frozen=True, repr=False, eq=False)
class ChipAdvice:
    """What to do on one chip.

    Attributes
    ----------
    setup
        Chip, engine, placement.
    drafter
        The one to start the server with: the best over all loads.
    advised
        Loads, schedule and limits.
    engine_config
        Text to paste by framework; None where it has no flag for the drafter.
    launches
        The same with files and notes.
    to_measure
        The benchmark that would settle most; None where no engine can be told to run it.
    notes, warnings
        Sentences for the reader.
    """

    setup: Setup
    drafter: Drafter
    advised: Advised
    engine_config: dict[str, str | None]
    launches: tuple[Launch, ...]
    to_measure: ToMeasure | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The loads that were asked about."""
        return self.advised.rows

    @property
    def verdicts(self) -> list[Verdict]:
        """Whether drafting pays, load by load."""
        return [row.verdict for row in self.rows]

    @property
    def decision(self) -> Decision:
        """On, off, depends or unclear."""
        return decided(self.verdicts)

    @property
    def up_to(self) -> float | None:
        """The largest load up to which drafting pays; None where it does not at the first."""
        return paying_up_to([row.concurrency for row in self.rows], self.verdicts)

    @property
    def break_even(self) -> list[dict[str, Any]]:
        """The least acceptance that pays, load by load."""
        return [
            {
                "concurrency": row.concurrency,
                "draft_len": row.choice.tried,
                "accept": row.break_even.rate,
                "accept_length": row.break_even.tokens_per_round,
            }
            for row in self.rows
        ]

    @property
    def files(self) -> dict[str, str]:
        """Files that the flags name."""
        return {name: text for one in self.launches for name, text in one.files.items()}


@dataclass(frozen=True, repr=False, eq=False)
class Advice(Charted):
    """What to do.

    Attributes
    ----------
    model, workload, targets, drafters
        What was asked about; drafters by name.
    chips
        An answer for each chip that the model fits on, the best first: the cheapest tokens at the
        largest load, or the most of each device where a price is not known; those without a
        measured engine last.
    notes, warnings
        Sentences for the reader.
    """

    _chart = "plot_advice"

    model: Architecture
    workload: Workload
    targets: Targets
    drafters: tuple[str, ...]
    chips: tuple[ChipAdvice, ...]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return title_of(self.model, self.chips[0].setup)

    @property
    def decision(self) -> Decision:
        """That of the best chip."""
        return self.chips[0].decision

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return advice_json(self)

    def to_frame(self) -> Any:
        """Return a row for each chip and load as a pandas DataFrame.

        Raises
        ------
        OptionError
            If pandas is not installed.
        """
        from specroof.report.columns import data_frame  # noqa: PLC0415 - as above

        return data_frame(advice_columns(self))

    def to_arrow(self) -> Any:
        """Return the same as an Arrow table; needs pyarrow."""
        from specroof.report.columns import arrow_table  # noqa: PLC0415 - as above

        return arrow_table(advice_columns(self))


@question(AdviseRequest)
def advise(request: AdviseRequest) -> Advice:
    """Say whether speculative decoding pays, with which drafter and which server flags."""
    asked = checked(request)
    chips, unfit = list[ChipAdvice](), list[str]()
    profiles = unique_list("hardware", request.hardware, hardware_of)
    for given, profile in zip(as_list(request.hardware), profiles, strict=True):
        setup = setup_on(asked, profile)
        if setup is None:
            most = request.tensor_parallel or f"up to {joined_devices(profile)}"
            unfit.append(f"{asked.model.name} does not fit on {most} x {profile.name}")
        else:
            chips.append(_advised(asked, setup, given))
    if not chips:
        message = (
            f"hardware: {'; '.join(unfit)}; allowed: a chip that it fits on, or tensor_parallel"
        )
        raise OptionError(message)
    chips.sort(key=_rank)
    return Advice(
        model=asked.model,
        workload=asked.workload,
        targets=asked.targets,
        drafters=tuple(drafter.name for drafter in asked.drafters),
        chips=tuple(chips),
        notes=tuple(dict.fromkeys(note for chip in chips for note in chip.notes)),
        warnings=(*unfit, *dict.fromkeys(one for chip in chips for one in chip.warnings)),
    )


def _advised(asked: Asked, setup: Setup, given: HardwareLike) -> ChipAdvice:
    """Return the advice for one chip, which was named or given."""
    request, prediction = asked.request, _prediction(asked, setup)
    price = usd_per_hour(setup.hardware, request.price_per_hour)
    advised = advised_rows(asked, prediction, price)
    frameworks = USUAL_FRAMEWORKS if request.framework is None else (request.framework,)
    drafter = asked.drafters[advised.chosen]
    launches, config, refusals = _launches(drafter, advised, request, frameworks)
    warnings = [
        *refusals,
        *absent_layers(asked.model, asked.drafters),
        *prediction.warnings,
        *advised.warnings,
        *_missing(setup, request, priced=price is not None),
        *_unreached(advised),
        *_nodes(setup),
    ]
    place = f"{setup.hardware.name}: " if len(as_list(request.hardware)) > 1 else ""
    return ChipAdvice(
        setup=setup,
        drafter=drafter,
        advised=advised,
        engine_config=config,
        launches=tuple(launches),
        to_measure=measured_next(asked, setup, given, advised.rows),
        notes=prediction.notes,
        warnings=tuple(f"{place}{one}" for one in dict.fromkeys(warnings)),
    )


def _prediction(asked: Asked, setup: Setup) -> Prediction:
    """Return the drafters' gains at the loads that were asked about, and at others."""
    longest = None if asked.lengths is None else asked.lengths[-1]
    return predicted(
        Deployment(asked.model, setup),
        asked.drafters,
        Load(grid_of(asked), [asked.context_len], asked.workload),
        max_draft_len=None if (longest or 0) <= DEFAULT_MAX_DRAFT_LEN else longest,
        room=room_rule(setup, None, "queue"),
    )


def _unreached(advised: Advised) -> Iterator[str]:
    """Yield that flags cannot turn drafts off at loads that a server with drafts does not run."""
    off = [one for one in advised.schedule[len(advised.reached) :] if not one[2]]
    if off and advised.reached and advised.capacity is not None:
        most = advised.capacity["speculative"]["largest_batch"]
        requests = f"{most:g} request" + "s" * (most != 1)
        yield (
            f"a server with drafts runs at most {requests}, and never comes to the "
            f"{off[0][0]} in flight from which no drafts are advised: those take a server without"
        )


def _nodes(setup: Setup) -> Iterator[str]:
    """Yield what flags lack that start a server on devices of several nodes.

    Source
        vllm 0.33.0, ``engine/arg_utils.py``; sglang 0.5.23, ``srt/arg_groups/fields/parallel.py``.
    """
    devices, link = setup.placement.devices, setup.hardware.interconnect
    if link is not None and devices > link.max_devices:
        yield (
            f"{devices} devices are more than the {link.max_devices} of one node: start the server on "
            f"each, with --nnodes, --node-rank and --master-addr (vLLM) or --dist-init-addr (SGLang)"
        )


def _missing(setup: Setup, request: AdviseRequest, *, priced: bool) -> Iterator[str]:
    """Yield the facts that a chip lacks, and how to give them."""
    chip, engine = setup.hardware.name, setup.engine.name
    if not priced:
        yield f"no price of {chip} is known: give yours with --price-per-hour"
    if setup.engine == IDEAL_ENGINE and request.engine is None:
        yield f"{chip} has no measured engine: its figures are the ideal bound, and rank last"
    if request.framework not in {None, engine} and not setup.hardware.owns(request.framework):
        yield f"{chip} has no fit of {request.framework}: engine {engine} stands in"


def _spec_pairs(drafter: Drafter) -> list[tuple[str, str]]:
    """Return the keys and values of a drafter's SPEC, which is its name."""
    pairs = (pair.partition("=") for pair in drafter.name.split(",")[1:])
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def _launches(
    drafter: Drafter, advised: Advised, request: AdviseRequest, frameworks: Sequence[str]
) -> tuple[list[Launch], dict[str, str | None], list[str]]:
    """Return flags by framework, and why there are none; no drafts need no flags."""
    if not any(drafts for _, _, drafts in advised.reached):
        return [], dict.fromkeys(frameworks, ""), []
    told = server_of(request.server)
    plan = Speculation(
        kind=drafter.kind,
        schedule=advised.reached,
        draft_model=request.draft_model,
        is_tree=advised.is_tree,
        top_k=int(dict(_spec_pairs(drafter)).get("top-k", 1)),
        nodes=advised.nodes,
        running=told.running,
        memory=told.memory_frac,
        data_parallel=request.attention_data_parallel,
    )
    found, config, refusals = list[Launch](), dict[str, str | None](), list[str]()
    for framework in frameworks:
        try:
            one = launch(plan, framework)
        except OptionError as refusal:
            config[framework] = None
            refusals.append(str(refusal))
            continue
        found.append(one)
        config[framework] = one.text
        refusals += one.notes
    return found, config, refusals


def _rank(chip: ChipAdvice) -> tuple[bool, float, float]:
    """Return the key that chips are ranked by: price at the largest load, then tokens per device.

    A chip without a measured engine comes last: no server reaches its figures, which are a bound.
    """
    times = chip.rows[-1].times
    usd = math.inf if times.usd_per_million_tokens is None else times.usd_per_million_tokens
    unmeasured = chip.setup.engine == IDEAL_ENGINE
    return unmeasured, usd, -np.nan_to_num(times.tokens_per_s) / chip.setup.placement.devices


# --- Advice on one page of 80 columns ------------------------------------------------------------

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


def decision_line(chip: ChipAdvice) -> str:
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


def _targets_lines(found: Advice, chip: ChipAdvice) -> Iterator[str]:
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


def _ends(chip: ChipAdvice) -> Iterator[str]:
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


def _choices_table(chip: ChipAdvice, short: Sequence[str]) -> str:
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
        rows.append([*cells, row.bottleneck or ABSENT])
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


def _times_table(chip: ChipAdvice) -> str:
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


def _command(one: Launch, chip: ChipAdvice, model: str) -> str:
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


# --- Advice as the object that ``--json`` prints, and as columns ---------------------------------

#: What a server gives at a load, by the names of the fields.
_TIMES: Final = tuple(one.name for one in fields(Times))
_SPEEDUPS: Final = ("speedup", "speedup_low", "speedup_high")


def advice_json(found: Advice) -> dict[str, Any]:
    """Return advice as the object that ``--json`` prints: the best chip, then all of them."""
    chips = [_chip_json(found, chip) for chip in found.chips]
    return {
        "model": found.model.name,
        **workload_json(found.workload),
        **chips[0],
        "chips": chips,
        "notes": list(found.notes),
        "warnings": list(found.warnings),
    }


def _chip_json(found: Advice, chip: ChipAdvice) -> dict[str, Any]:
    advised = chip.advised
    return {
        "hardware": chip.setup.hardware.name,
        "engine": chip.setup.engine.name,
        "placement": asdict(chip.setup.placement),
        "decision": chip.decision,
        "on_up_to": chip.up_to,
        "drafter": chip.drafter.name,
        "schedule": [list(entry) for entry in advised.schedule],
        "schedule_lost": advised.lost,
        "rows": [_row_json(row, found.drafters) for row in chip.rows],
        "traffic": _day_json(advised.day),
        "engine_config": chip.engine_config,
        "engine_files": chip.files,
        "break_even": chip.break_even,
        "to_measure": _to_measure_json(chip.to_measure),
        "capacity": advised.capacity,
        "warnings": list(chip.warnings),
    }


def _day_json(day: Day | None) -> dict[str, Any] | None:
    if day is None:
        return None
    return {
        **fields_of(day, "gain_of", "gain", "scheduled_gain", "fixed", "fixed_gain", "oracle_gain"),
        **fields_of(day, "changes", "held_margin", "held_changes", "held_gain"),
        "running": list(day.running),
        "saturated_hours": list(day.saturated),
    }


def _to_measure_json(found: ToMeasure | None) -> dict[str, Any] | None:
    if found is None:
        return None
    names = ("concurrency", "drafter", "draft_len", "moved_by", "swings", "command")
    return fields_of(found, *names)


def _times_json(times: Times) -> dict[str, float | None]:
    return {name: to_json_array(getattr(times, name)) for name in _TIMES}


def _speedups_json(*ends: float) -> dict[str, float | None]:
    """Return a speedup and the ends of its band."""
    return dict(zip(_SPEEDUPS, map(to_json_array, ends), strict=True))


def _row_json(row: Row, names: Sequence[str]) -> dict[str, Any]:
    choice = row.choice
    return {
        "concurrency": row.concurrency,
        "drafter": None if row.drafter is None else names[row.drafter],
        "draft_len": row.draft_len,
        **_speedups_json(*row.speedup),
        "verdict": row.verdict,
        **_times_json(row.times),
        "plain": _times_json(row.plain),
        "tried": {
            "drafter": names[row.tried],
            "draft_len": choice.tried,
            **_speedups_json(choice.speedup, choice.low, choice.high),
        },
        "own_lengths": [
            {"drafter": names[d], "draft_len": k, "speedup": to_json_array(speedup)}
            for (d, k), speedup in row.own.items()
        ],
        "limited_by": row.bottleneck or None,
        "speedup_without": {name: to_json_array(value) for name, value in row.bottlenecks.items()},
        "meets_targets": row.meets,
    }


def advice_columns(found: Advice) -> Iterator[Columns]:
    """Yield a row for each load of a chip, chip by chip; "plain_" stands for without drafts."""
    for chip in found.chips:
        setup, rows = chip.setup, chip.rows
        times = {"": [row.times for row in rows], "plain_": [row.plain for row in rows]}
        ends = np.array([row.speedup for row in rows], dtype=np.float64)
        advised = [None if row.drafter is None else found.drafters[row.drafter] for row in rows]
        yield {
            "model": found.model.name,
            "hardware": setup.hardware.name,
            "engine": setup.engine.name,
            **asdict(setup.placement),
            **request_columns(found.workload),
            "concurrency": np.array([row.concurrency for row in rows], dtype=np.float64),
            "drafter": np.array([name or "" for name in advised]),
            "draft_len": np.array([row.draft_len for row in rows], dtype=np.float64),
            **dict(zip(_SPEEDUPS, ends.T.copy(), strict=True)),
            "verdict": np.array([row.verdict for row in rows]),
            **{
                f"{prefix}{name}": np.array(
                    [getattr(one, name) for one in of_rows], dtype=np.float64
                )
                for prefix, of_rows in times.items()
                for name in _TIMES
            },
            "limited_by": np.array([row.bottleneck for row in rows]),
            "meets_targets": np.array([row.meets for row in rows]),
        }


# --- the page -------------------------------------------------------------------------------------
