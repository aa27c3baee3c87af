"""The tables of published measurements that come with the package."""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from operator import attrgetter
from typing import Any, Final, get_args, get_type_hints

from specroof.acceptance import acceptance_from_length, accepted_at
from specroof.catalog import load_drafter
from specroof.drafters import Drafter, TokensPerRound
from specroof.drafters.kinds import KINDS
from specroof.errors import MeasurementError
from specroof.evidence.measurement import NAMES, STEP, Measurement

# --- What measurements leave open, and what is presumed in its place: lengths, acceptance, trees -

#: SPECs of methods that no kind of drafter is called after. Domino drafts a block with the layers
#: of DFlash; the independent draft model of the one source that has one is named.
_SPECS: Final = {"domino": "dflash", "draft_model": "model,config=Qwen/Qwen3-0.6B"}

#: Share of rounds in which n-grams match, by task: github.com/SpecDecode-Bench/simulator, of the
#: one paper that measured them.
_MATCHING: Final = {"GSM8K": 0.2, "ShareGPT": 0.2, "CNN": 0.4, "InstructCoder": 0.8}

#: A mean over requests counts short ones as much as long ones. The one table that prints both
#: has 5.34 over requests for 4.65 over rounds (a 27B target on GSM8K).
_POOLED_SHARE: Final = 4.65 / 5.34

#: Share of the drafts that counts as accepted where the acceptance length is not known.
_PRESUMED_ACCEPTANCE: Final = 0.45

#: Tokens of prompt and answer where a source says neither.
_PRESUMED_PROMPT: Final = 200.0
_PRESUMED_ANSWER: Final = 1000.0


def request_lengths(point: Measurement) -> tuple[float, float, float]:
    """Return prompt, answer and mean context of a request, as stated or presumed."""
    prompt, answer = point.input_len or _PRESUMED_PROMPT, point.output_len or _PRESUMED_ANSWER
    context = point.context_len
    return prompt, answer, prompt + answer / 2 if context is None else context


def committed_tokens(point: Measurement) -> float:
    """Return tokens per round over all requests together, as throughput follows them."""
    if point.tokens_per_round is None:
        return 1.0 + _PRESUMED_ACCEPTANCE * float(point.draft_len or 0)
    if point.acceptance_kind == "per-request":
        return max(1.0, point.tokens_per_round * _POOLED_SHARE)
    return point.tokens_per_round


def acceptance_of(
    point: Measurement, drafter: Drafter, *, presumed: bool = False
) -> TokensPerRound:
    """Return how many drafts are accepted at a point: as measured, or as the drafter's SPEC says.

    Parameters
    ----------
    point
        A point with drafts.
    drafter
        What drafted.
    presumed
        Whether a usual share of the drafts may be presumed where the source is silent.

    Raises
    ------
    MeasurementError
        Where the source is silent.
    """
    if point.tokens_per_round is None and drafter.acceptance is not None:
        return accepted_at(drafter.acceptance, request_lengths(point)[2])
    if point.tokens_per_round is None and not presumed:
        message = (
            f"{point.place}: has {point.draft_len} drafts and no acceptance length; needs one, "
            f"there or in the drafter's SPEC"
        )
        raise MeasurementError(message)
    drafts = int(point.draft_len or 0)
    return acceptance_from_length(committed_tokens(point), drafts, kind=drafter.kind)


def has_drafter(method: str | None) -> bool:
    """Tell whether `drafter_of` knows what a method stands for, with the usual sizes."""
    known = KINDS.get(method or "")
    return method in _SPECS or (known is not None and not known.required)


def drafter_of(point: Measurement) -> Drafter:
    """Return the drafter that a point's method stands for, with the usual sizes for its target.

    Of a tree without a stated width, the EAGLE-2 tree is presumed that is as narrow as its nodes
    allow: k children of each of k nodes a level are :math:`k + k^2 (d - 1)` candidates.

    Parameters
    ----------
    point
        A point with drafts, of a method that `has_drafter` knows.
    """
    spec = _SPECS.get(point.method or "", point.method or "")
    depth, nodes = int(point.draft_len or 0), int(point.verify_len or 0) - 1
    if point.method == "ngram":
        return _drafter(f"{spec},match={_MATCHING.get(point.task, 1.0)}")
    if not point.branches:
        return _drafter(spec)
    width = point.top_k or next(k for k in range(1, nodes + 1) if k + k * k * (depth - 1) >= nodes)
    # Which nodes are kept depends on the shares of siblings; how many, and their passes, do not.
    siblings = "/".join([f"{1 / width:g}"] * (width - 1))
    return _drafter(f"{spec},tree=eagle2,nodes={nodes},top-k={width},siblings={siblings}")


@cache
def _drafter(spec: str) -> Drafter:
    return load_drafter(spec)


# --- As what a measurement counts, and what those lack that do not -------------------------------


def kind_of(point: Measurement) -> tuple[str, str]:
    """Return as what a published measurement counts, or an empty kind and what it lacks.

    ``"plain"`` throughput, a ``"speedup"`` whose acceptance length is known, a ``"shape"``, right
    but for one factor over all points of its group, or ``"drafting"`` alone.
    """
    if not point.drafts:
        return ("plain", "") if point.tokens_per_s is not None else ("", "throughput")
    if point.draft_s is not None or point.draft_share is not None:
        return "drafting", ""
    if not has_drafter(point.method):
        forced = "the draft count behind a forced acceptance length"
        return "", forced if point.method == "mock" else f"a known cost of {point.method!r}"
    for name in ("batch_size", "draft_len", "verify_len"):
        if getattr(point, name) is None:
            return "", name
    if point.measured_speedup is None:
        return ("shape", "") if point.tokens_per_s is not None else ("", "throughput")
    return ("shape" if point.tokens_per_round is None else "speedup"), ""


def measured_of(point: Measurement) -> tuple[str, float]:
    """Return what was measured, by its name in `specroof.engines.record.Rates`, and its value."""
    if point.draft_s is not None:
        return "draft_s", point.draft_s
    if point.draft_share is not None:
        return "draft_share", point.draft_share
    ratio = point.measured_speedup
    if point.drafts and ratio is not None:
        return "speedup", ratio
    return ("speculative" if point.drafts else "plain"), point.rate


def shape_group(point: Measurement) -> tuple[object, ...]:
    """Return what points share whose acceptance length is the same unknown number."""
    drafts = (point.method, point.draft_len, point.verify_len)
    return (point.source, point.model, *drafts, point.task)


#: What the lines above a table say of all its rows, and the field that it is.
_IN_HEAD: Final = {"version": "engine_version", "reading": "reading"}
#: Methods without drafts: plain decoding, and one bare pass over the new positions.
_PLAIN: Final = ("ar", STEP)


#: How the cells of a bundled table are read, by column: fields of `Measurement`, and three of which
#: the tables say more.
_KINDS: Final[Mapping[str, Any]] = get_type_hints(Measurement) | {
    "acceptance_length": float,
    "concurrency": int,
    "includes_prefill": bool,
}
#: What each load of a closed loop has where its table says nothing: one group of devices, and
#: clients that divide all tokens by all the time.
_SERVED: Final[Mapping[str, Any]] = {
    "includes_prefill": True,
    "expert_parallel": 1,
    "attention_data_parallel": 1,
}
#: The same of servers with prefill on workers of its own.
_SPLIT: Final[Mapping[str, Any]] = {
    **_SERVED,
    "prefill_expert_parallel": 1,
    "prefill_attention_data_parallel": 1,
}


def _rows(text: str, file: str, kinds: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the filled cells of each line of a bundled table, below its heading."""
    lines = text.splitlines()
    first = sum(line.startswith("#") for line in lines)
    table = csv.DictReader(lines[first:])
    read = {name: _reader(kinds[name]) for name in table.fieldnames or ()}
    for cells in table:
        values = {name: read[name](cell) for name, cell in cells.items() if cell}
        yield f"{file}:{first + table.line_num}", values


def _reader(kind: Any) -> Callable[[str], Any]:
    """Return what makes a value of a type of the text of a cell."""
    kinds = {kind, *get_args(kind)}
    if bool in kinds:
        return "yes".__eq__
    return next((number for number in (int, float) if number in kinds), str)


def _files(*folders: str) -> Iterator[tuple[str, str]]:
    folder = resources.files("specroof.evidence").joinpath("measurements", *folders)
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".csv"):
            yield file.name, file.read_text(encoding="utf-8")


def _loads(presumed: Mapping[str, Any], *folders: str) -> tuple[Measurement, ...]:
    """Return the measurements of all tables of a folder, with what they are presumed to say.

    Above the table are lines of ``# key: value``, among them ``trust``, where the source says which
    engine version ran with drafts and without, ``version``, and where all rows were read in one
    way, ``reading``.
    """
    points = []
    for name, text in _files(*folders):
        head = dict(line[2:].split(": ", 1) for line in text.splitlines() if line.startswith("# "))
        of_all: dict[str, Any] = {
            field: head[key] for key, field in _IN_HEAD.items() if key in head
        }
        of_all |= {"source": name.removesuffix(".csv"), "trust": int(head["trust"])}
        for place, cells in _rows(text, "/".join([*folders, name]), _KINDS):
            values = {"draft_len": None, **presumed, **cells, **of_all}
            tokens_per_round = values.pop("acceptance_length", None)
            if values["method"] in _PLAIN:
                values["draft_len"] = 0
            points.append(Measurement(place=place, tokens_per_round=tokens_per_round, **values))
    return tuple(points)


@cache
def load_measurements() -> tuple[Measurement, ...]:
    """Return the measurements that the shared fits and their scores are made of.

    Those of `load_served` are not among them.

    Examples
    --------
    >>> load_measurements()[0].trust <= 5
    True
    """
    return _loads({})


# --- Loads of published servers ------------------------------------------------------------------


def base_model(point: Measurement) -> str:
    """Return the name of a measured model, the same for every format of its weights."""
    return str(NAMES["base_models"].get(point.model or "", point.model or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class LongContext:
    """What a long context costs a round, or attention, as a source prints it; in no fit.

    Attributes
    ----------
    source, note
        Where it is printed, and what was read, derived or presumed.
    model, hardware, engine, tensor_parallel, decode_context_parallel, weights
        What ran, where.
    drafter
        SPEC of the drafter; None for attention alone.
    verify_attention
        How the kernel reads the cache where the release had another way than the rules, which are
        of later ones; None for the rules.
    quantity
        ``"round_over_step"``, ``"over_short_round"`` (a round at 500 tokens),
        ``"unsplit_over_split"`` (two rounds) or ``"attention_s"`` (seconds in one layer).
    context_len, batch_size, draft_len
        Cached tokens of each sequence, sequences, drafts.
    measured
        The value.
    """

    source: str
    model: str
    hardware: str
    engine: str
    tensor_parallel: int
    decode_context_parallel: int
    drafter: str | None = None
    weights: str | None = None
    verify_attention: str | None = None
    quantity: str
    context_len: int
    batch_size: int
    draft_len: int
    measured: float
    note: str = ""


@cache
def load_long_contexts() -> tuple[LongContext, ...]:
    """Return published costs of long contexts.

    Examples
    --------
    >>> {row.quantity for row in load_long_contexts() if row.engine != "vllm"}
    set()
    """
    kinds = get_type_hints(LongContext)
    tables = (_rows(text, name, kinds) for name, text in _files("long"))
    return tuple(LongContext(**cells) for table in tables for _, cells in table)


@cache
def load_served() -> tuple[Measurement, ...]:
    """Return the published loads of servers that come with the package, a run once.

    Where several sources print one run, it is taken from the one that processed it least: the
    fixtures of InferenceX, then the samples of aiconfigurator, then medians over dates. Those with
    prefill on workers of its own are `load_splits`.

    Examples
    --------
    >>> load_served()[0].tpot_s < 1
    True
    """
    return _loads(_SERVED, "served")


@cache
def load_splits() -> tuple[Measurement, ...]:
    """Return the published loads of prefill and decode workers; they are in no fit.

    Examples
    --------
    >>> load_splits()[0].decode_workers
    6
    """
    return _loads(_SPLIT, "split")


# --- Machines under desks ------------------------------------------------------------------------


@cache
def load_local() -> tuple[Measurement, ...]:
    """Return what llama.cpp and MLX did on machines of one user, as their owners published it.

    Of chips that have no file, and of several together, `hardware` is None.

    Examples
    --------
    >>> sum(point.method == "step" for point in load_local())
    338
    """
    return _loads({}, "local")


#: What a load with drafts shares with the one without.
_LOAD: Final = attrgetter(
    *("source", "model", "quantization", "hardware", "engine", "engine_version"),
    *("tensor_parallel", "expert_parallel", "attention_data_parallel"),
    *("input_len", "output_len", "task", "concurrency"),
)


@cache
def measured_speedups() -> tuple[tuple[Measurement, float], ...]:
    """Return the published measurements with drafts whose speedup is known, each with it.

    First those whose speedup is printed, or follows from two printed figures; then loads of servers
    that were measured with drafts and without.

    Examples
    --------
    >>> min(speedup for _, speedup in measured_speedups()) > 0
    True
    """
    printed = [
        (point, point.measured_speedup)
        for point in load_measurements()
        if point.drafts and point.measured_speedup is not None and point.batch_size
    ]
    plain = {_LOAD(point): point.tokens_per_s for point in load_served() if not point.drafts}
    paired = [
        (point, point.tokens_per_s / without)
        for point in load_served()
        if point.drafts and point.tokens_per_s and (without := plain.get(_LOAD(point)))
    ]
    return (*printed, *paired)
