"""Every pass behind some measurements, recorded once: seconds at the peaks, and host facts.

A profile only scales the seconds of an operation and adds overheads, so that a whole set of
measurements is predicted from the record in milliseconds, however often a fit asks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.cost import ForwardPass, Options
from specroof.drafters import Price, Work
from specroof.engines.shared_parameters import DTYPE_SHARES, FAMILIES, chip_family, fitted_engine
from specroof.engines.timing import round_seconds
from specroof.evidence.bundled import Measurement
from specroof.evidence.places import chip_of, model_of
from specroof.hardware import (
    LAYER_KINDS,
    OP_KINDS,
    STATE_TOKENS,
    CapturedGraphs,
    EngineProfile,
    ExpertTile,
    Placement,
)
from specroof.latency import PassLatency, Setup
from specroof.latency.model import layer_kinds, model_latency, padded_pass

__all__ = ["PARTS", "Record"]

Array = npt.NDArray[np.float64]

#: Parts of a measured point's time.
PARTS: Final = ("decode", "prefill", "verify", "draft")

_KINDS: Final = ("dense", *OP_KINDS)
_FAMILY_DTYPES: Final = tuple((family, dtype) for family in FAMILIES for dtype in DTYPE_SHARES)
_FACTS: Final = (
    "layers", "ampere", "collectives", "devices", "link_s", "sequences", "further", "drafts",
    "eager", "layer_tokens", *LAYER_KINDS,
)  # fmt: skip
#: More passes than any set of measurements needs.
_MOST_PASSES: Final = 4096


@dataclass(slots=True)
class _Rows:
    """One row for each operation, and for each pass its first operation and its facts."""

    kind: list[int] = field(default_factory=list)
    where: list[int] = field(default_factory=list)
    wasted: list[float] = field(default_factory=list)
    compute_s: list[float] = field(default_factory=list)
    memory_s: list[float] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    facts: list[tuple[float, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Host:
    """Where a pass runs, and what of it the host feels."""

    setup: Setup
    family: str
    graphs: CapturedGraphs | None
    tile: ExpertTile | None
    scheduled: bool
    drafts: bool


class Record:
    """The passes of some measurements, and how often each point runs each of them.

    Parameters
    ----------
    points
        Measurements of models, chips and methods that can be priced.
    parameters
        Any values: what is recorded does not depend on them.
    """

    def __init__(self, points: Sequence[Measurement], parameters: Mapping[str, float]) -> None:
        self._index: dict[str, int] = {}
        self._rows = _Rows()
        counts = [self._counts(point, parameters) for point in points]
        known = len(self._index)
        self.counts: dict[str, Array] = {
            part: np.array([row[part][:known] for row in counts]).reshape(len(points), known)
            for part in PARTS
        }
        rows = self._rows
        self._kind, self._where = np.array(rows.kind, dtype=int), np.array(rows.where, dtype=int)
        self._compute_s, self._memory_s = np.array(rows.compute_s), np.array(rows.memory_s)
        self._wasted = np.array(rows.wasted)
        self._first = np.array(rows.first, dtype=int)
        facts = np.array(rows.facts, dtype=float).reshape(known, len(_FACTS))
        self._facts: dict[str, Array] = dict(zip(_FACTS, facts.T, strict=True))

    def pass_s(self, parameters: Mapping[str, float]) -> Array:
        """Return the seconds of every recorded pass with these parameters."""
        p, facts = parameters, self._facts
        engines = {family: fitted_engine("vllm", family, p) for family in FAMILIES}
        compute = np.array(
            [[_compute_share(engines[family], kind, dtype, prompt=prompt)
              for family, dtype in _FAMILY_DTYPES] for prompt in (False, True) for kind in _KINDS]
        )  # fmt: skip
        memory = np.tile(
            [p["memory_frac"], *(engines["hopper"].kind_memory_frac[kind] for kind in OP_KINDS)], 2
        )
        few = compute[self._kind, self._where]
        tiles = [engines[family].expert_tile for family, _ in _FAMILY_DTYPES]
        many = np.array([1.0 if tile is None else tile.compute_frac for tile in tiles])[self._where]
        slowness = self._wasted / few + (1 - self._wasted) / many
        work = np.hypot(self._compute_s * slowness, self._memory_s / memory[self._kind])
        slower = np.where(facts["ampere"] > 0, p["layer_share.ampere"], 1.0)
        kinds_s = sum(p[f"layer_s.{kind}"] * facts[kind] for kind in LAYER_KINDS)
        state_s = p["state_token_s"] * facts["linear_attention"] * facts["further"]
        target_s = p["pass_s"] + p["sequence_s"] * facts["sequences"]
        reached = engines["hopper"].collective
        further_s = (reached.device_latency_s if reached else 0.0) * (facts["devices"] - 1)
        total_s = (
            np.add.reduceat(work, self._first)
            + slower * p["layer_s"] * facts["layers"]
            + kinds_s
            + p["layer_token_s"] * facts["layer_tokens"]
            + state_s
            + np.where(facts["drafts"] > 0, p["draft_pass_s"], target_s)
            + facts["collectives"] * (p["collective_s"] + further_s)
            + facts["link_s"] / p["link_frac"]
        )
        return np.maximum(total_s, facts["eager"] * p["eager_layer_s"] * facts["layers"])

    def _counts(self, point: Measurement, parameters: Mapping[str, float]) -> dict[str, Array]:
        """Return how often each pass is run, for each part of a point's time."""
        model = model_of(point.model)
        target = self._price(point, parameters, drafts=False)
        draft = self._price(point, parameters, drafts=True)
        found = round_seconds(point, model, lambda forward: target(model, forward), draft)
        seconds = (found.decode_s, found.prefill_s, found.verify_s, found.draft_s)
        return {
            part: np.zeros(_MOST_PASSES) + (0.0 if one is None else one)
            for part, one in zip(PARTS, seconds, strict=True)
        }

    def _price(self, point: Measurement, parameters: Mapping[str, float], *, drafts: bool) -> Price:
        """Return a price that is a unit vector: a sum of them tells how often a pass is run."""
        host = _host(point, parameters, drafts=drafts)
        place = (point.hardware, point.engine, host.setup.placement, host.scheduled, drafts)

        def price(model: Architecture, forward: ForwardPass, /, *beside: Work) -> Array:
            works = tuple((work.architecture, work.forward_pass, work.times) for work in beside)
            parts = [
                (part.name, part.family, part.n_layers, times, repr(positions))
                for part, positions, times in ((model, forward, 1.0), *works)
            ]
            key = f"{place} {parts}"
            if key not in self._index:
                self._index[key] = len(self._index)
                latency = model_latency(model, host.setup, forward, beside=works)
                self._add(host, model, forward, latency)
            unit = np.zeros(_MOST_PASSES)
            unit[self._index[key]] = 1.0
            return unit

        return price

    def _add(
        self, host: _Host, model: Architecture, forward: ForwardPass, latency: PassLatency
    ) -> None:
        rows, placement = self._rows, host.setup.placement
        rows.first.append(len(rows.kind))
        # Every kind is there twice: once more for passes over a prompt.
        prompt = len(_KINDS) if forward.settled and not host.drafts else 0
        for op in latency.ops:
            rows.kind.append(prompt + (_KINDS.index(op.op.kind) if op.op.kind in OP_KINDS else 0))
            rows.where.append(_FAMILY_DTYPES.index((host.family, op.compute_dtype)))
            rows.wasted.append(_wasted(host.tile, op.op.rows))
            rows.compute_s.append(float(op.compute_s))
            rows.memory_s.append(float(op.memory_s))
        devices = placement.devices
        exchanged = [
            (op.op.count, float(op.op.collective.message_bytes))
            for op in latency.ops
            if op.op.collective is not None and devices > 1
        ]
        message_bytes = sum(count * size for count, size in exchanged)
        link = host.setup.hardware.interconnect
        share = 2 * (devices - 1) / devices
        _, eager = padded_pass(forward, host.graphs)
        kinds = layer_kinds(model)
        rows.facts.append(
            (
                model.n_layers,
                host.family == "ampere",
                sum(count for count, _ in exchanged),
                devices,
                share * message_bytes / link.link_bytes_per_s if link else 0.0,
                float(forward.batch) if host.scheduled else 0.0,
                min(float(forward.queries), STATE_TOKENS) - 1,
                host.drafts,
                bool(eager) and not host.scheduled,
                model.n_layers * float(forward.tokens),
                *(kinds.get(kind, 0) for kind in LAYER_KINDS),
            )
        )


def _host(point: Measurement, parameters: Mapping[str, float], *, drafts: bool) -> _Host:
    hardware = chip_of(point.hardware)
    family = chip_family(hardware)
    engine = fitted_engine(point.engine, family, parameters)
    graphs = None if drafts else engine.graphs
    # Peaks, but for what is no share and no overhead: padding and the routing of tokens.
    bare = EngineProfile(name="bare", expert_locality=engine.expert_locality, graphs=graphs)
    options = Options(recurrent_state=engine.recurrent_state)
    setup = Setup(hardware, bare, Placement(point.tensor_parallel or 1), options)
    return _Host(setup, family, graphs, engine.expert_tile, point.method != "step", drafts)


def _wasted(tile: ExpertTile | None, rows: Array | None) -> float:
    """Return how much of the share of few rows is in that of an operation; all but of experts."""
    return 1.0 if tile is None or rows is None else float(tile.wasted(rows))


def _compute_share(engine: EngineProfile, kind: str, dtype: str, *, prompt: bool) -> float:
    shares = engine.kind_compute_frac
    if prompt:
        shares = {**shares, **engine.prefill_compute_frac}
    return shares.get(kind, engine.compute_frac[dtype])
