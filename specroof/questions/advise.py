"""Does it pay, with which drafter, how many drafts, up to which load, and what do I type?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from specroof.architecture import Architecture
from specroof.drafters import Drafter
from specroof.errors import OptionError
from specroof.hardware import IDEAL_ENGINE
from specroof.latency import Setup
from specroof.policies.decision import INPUTS, Decision, Verdict, decided, paying_up_to
from specroof.policies.schedule import Day
from specroof.questions.advise_request import (
    AdviseRequest,
    Asked,
    checked,
    grid_of,
    joined_devices,
    setup_on,
)
from specroof.questions.advised import Advised, Row, Targets
from specroof.questions.advised_loads import advised_rows
from specroof.questions.answer import Charted, title_of
from specroof.questions.lists import listed, several
from specroof.questions.predict import absent_layers, limited_by
from specroof.questions.prediction import Prediction, predicted
from specroof.questions.request import HardwareLike, hardware_of, question, server_of, usd_per_hour
from specroof.questions.to_measure import ToMeasure, measured_next
from specroof.serving.launch import Launch, Speculation, launch, server_command
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN

__all__ = ["INPUTS", "Day", "Launch", "server_command"]

#: Frameworks whose flags are written by default.
USUAL_FRAMEWORKS: Final = ("vllm", "sglang")


@dataclass(frozen=True, repr=False, eq=False)
class Served:
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
    chips: tuple[Served, ...]

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
        from specroof.report.advice_records import advice_json  # noqa: PLC0415 - reports import answers

        return advice_json(self)

    def to_frame(self) -> Any:
        """Return a row for each chip and load as a pandas DataFrame.

        Raises
        ------
        OptionError
            If pandas is not installed.
        """
        from specroof.report.advice_records import advice_columns  # noqa: PLC0415 - reports import answers
        from specroof.report.columns import data_frame  # noqa: PLC0415 - as above

        return data_frame(advice_columns(self))

    def to_arrow(self) -> Any:
        """Return the same as an Arrow table; needs pyarrow."""
        from specroof.report.advice_records import advice_columns  # noqa: PLC0415 - reports import answers
        from specroof.report.columns import arrow_table  # noqa: PLC0415 - as above

        return arrow_table(advice_columns(self))


@question(AdviseRequest)
def advise(request: AdviseRequest) -> Advice:
    """Say whether speculative decoding pays, with which drafter and which server flags."""
    asked = checked(request)
    chips, unfit = list[Served](), list[str]()
    profiles = several("hardware", request.hardware, hardware_of)
    for given, profile in zip(listed(request.hardware), profiles, strict=True):
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


def _advised(asked: Asked, setup: Setup, given: HardwareLike) -> Served:
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
    place = f"{setup.hardware.name}: " if len(listed(request.hardware)) > 1 else ""
    return Served(
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
        asked.model,
        setup,
        asked.drafters,
        Load(grid_of(asked), [asked.context_len], asked.workload),
        max_draft_len=None if (longest or 0) <= DEFAULT_MAX_DRAFT_LEN else longest,
        limited=limited_by(setup, None, queues=True),
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


def _rank(chip: Served) -> tuple[bool, float, float]:
    """Return the key that chips are ranked by: price at the largest load, then tokens per device.

    A chip without a measured engine comes last: no server reaches its figures, which are a bound.
    """
    times = chip.rows[-1].times
    usd = math.inf if times.usd_per_million_tokens is None else times.usd_per_million_tokens
    unmeasured = chip.setup.engine == IDEAL_ENGINE
    return unmeasured, usd, -np.nan_to_num(times.tokens_per_s) / chip.setup.placement.devices
