"""Fit the engine profiles to the bundled measurements, and once more without each source.

Needs SciPy: ``pip install specroof[calibrate]``, then ``python benchmarks/fit_engines.py``. It
prints the parameters; with ``--write`` it also writes ``specroof/validate/fits.json``, which
`specroof validate` reads, and the ``engines:`` blocks of the hardware files.

The forward model is the library's own. Every pass behind a measurement is recorded once, as the
seconds that each operation takes at the peaks; a profile only scales those and adds overheads, so
that one evaluation of all points takes a few milliseconds. `tests/test_validate.py` holds that the
two ways agree.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from specroof import load_hardware, load_model
from specroof.architecture import Architecture
from specroof.cost import ForwardPass, Options
from specroof.drafters import Work
from specroof.hardware import LAYER_KINDS, OP_KINDS, STATE_TOKENS, EngineProfile, Placement
from specroof.latency import Setup
from specroof.measurements import Measurement, load_measurements
from specroof.pricing import layer_kinds, model_latency, padded_pass
from specroof.validate.parameters import PARAMETERS, chip_family, fitted_engine
from specroof.validate.scores import kind_of, measured_speedup, shape_group
from specroof.validate.timing import committed_tokens, lengths, round_seconds

Array = npt.NDArray[np.float64]

#: A residual of 7 % is an ordinary one; beyond, a point counts as an outlier (soft L1).
ORDINARY = 0.07
#: Points of a source that count in full; a longer table weighs as much as so many.
FULL_POINTS = 25
#: Plain throughput moves with versions and clocks that the speedup does not see.
PLAIN_WEIGHT = 0.7
#: More passes than any set of measurements needs.
MOST_PASSES = 4000

NAMES = tuple(PARAMETERS)
START = np.log([value for value, _, _ in PARAMETERS.values()])
SPREAD = np.array([spread for _, spread, _ in PARAMETERS.values()])
KINDS = ("dense", *OP_KINDS)
FAMILY_DTYPES = tuple(
    (family, dtype)
    for family in ("ampere", "hopper", "blackwell")
    for dtype in ("bf16", "fp16", "fp8", "fp4")
)


def initial_parameters() -> dict[str, float]:
    """Return where every fit starts."""
    return dict(zip(NAMES, np.exp(START).tolist(), strict=True))


@dataclass
class Passes:
    """Passes at the peaks, one row each; operations of all of them in one list."""

    kind: list[int]
    where: list[int]
    compute_s: list[float]
    memory_s: list[float]
    first: list[int]
    facts: list[tuple[float, ...]]


FACTS = (
    "layers", "ampere", "collectives", "devices", "link_s", "sequences", "further", "drafts",
    "eager", *LAYER_KINDS,
)  # fmt: skip


class Design:
    """The points of a fit, as sums of recorded passes."""

    def __init__(self, points: Sequence[Measurement]) -> None:
        self.points = [point for point in points if kind_of(point)[0]]
        self.passes = Passes([], [], [], [], [], [])
        self.index: dict[str, int] = {}
        rows = [self._rows(point) for point in self.points]
        parts = ("decode", "prefill", "verify", "draft")
        count = len(self.index)
        self.parts = {
            part: np.array([row[n][:count] for row in rows]) for n, part in enumerate(parts)
        }
        self.operations = {
            name: np.array(getattr(self.passes, name))
            for name in ("kind", "where", "compute_s", "memory_s", "first")
        }
        self.facts = dict(zip(FACTS, np.array(self.passes.facts, dtype=float).T, strict=True))
        self._measured()

    def _rows(self, point: Measurement) -> list[Array]:
        """Return how often each pass is run, for each part of a point's time."""
        model = load_model(point.model)
        draft = self._price(point, drafts=True)
        target = self._price(point, drafts=False)
        found = round_seconds(point, model, lambda forward: target(model, forward), draft)
        nothing = np.zeros(MOST_PASSES)
        return [
            nothing + np.asarray(0.0 if part is None else part)
            for part in (found.decode_s, found.prefill_s, found.verify_s, found.draft_s)
        ]

    def _price(self, point: Measurement, *, drafts: bool) -> Callable[..., Array]:
        """Return a price that is a unit vector: sums of it tell how often a pass is run."""
        hardware = load_hardware(point.hardware)
        family = chip_family(hardware)
        profile = fitted_engine(point.engine, family, initial_parameters())
        graphs = None if drafts else profile.graphs
        bare = EngineProfile(name="bare", expert_locality=profile.expert_locality, graphs=graphs)
        options = Options(recurrent_state=profile.recurrent_state)
        setup = Setup(hardware, bare, Placement(point.tensor_parallel or 1), options)
        place = (
            f"{point.hardware} {point.engine} {setup.placement} {point.method == 'step'} {drafts}"
        )

        def price(model: Architecture, forward: ForwardPass, /, *beside: Work) -> Array:
            works = tuple((work.architecture, work.forward_pass, work.times) for work in beside)
            ran = [(model, forward, 1.0), *works]
            key = place + " ".join(
                f"{part.name} {part.family} {positions!r} {times}" for part, positions, times in ran
            )
            if key not in self.index:
                self.index[key] = len(self.index)
                _, eager = padded_pass(forward, graphs)
                sequences = 0.0 if point.method == "step" else float(forward.batch)
                self._record(setup, family, (sequences, drafts, bool(eager)), ran)
            unit = np.zeros(MOST_PASSES)
            unit[self.index[key]] = 1.0
            return unit

        return price

    def _record(
        self,
        setup: Setup,
        family: str,
        host: tuple[float, bool, bool],
        ran: list[tuple[Architecture, ForwardPass, float]],
    ) -> None:
        (model, forward, _), *beside = ran
        latency = model_latency(model, setup, forward, beside=beside)
        passes, devices = self.passes, setup.placement.devices
        passes.first.append(len(passes.kind))
        for op in latency.ops:
            passes.kind.append(KINDS.index(op.op.kind) if op.op.kind in OP_KINDS else 0)
            passes.where.append(FAMILY_DTYPES.index((family, op.compute_dtype)))
            passes.compute_s.append(float(op.compute_s))
            passes.memory_s.append(float(op.memory_s))
        exchanged = [op.op for op in latency.ops if op.op.collective and devices > 1]
        message_bytes = sum(
            op.count * float(op.collective.message_bytes) for op in exchanged if op.collective
        )
        link = setup.hardware.interconnect
        link_bytes_per_s = link.link_bytes_per_s if link else 1.0
        sequences, drafts, eager = host
        kinds = layer_kinds(model)
        passes.facts.append(
            (
                model.n_layers,
                family == "ampere",
                sum(op.count for op in exchanged),
                devices,
                2 * (devices - 1) / devices * message_bytes / link_bytes_per_s,
                sequences,
                min(float(forward.queries), STATE_TOKENS) - 1,
                drafts,
                eager,
                *(kinds.get(kind, 0) for kind in LAYER_KINDS),
            )
        )

    def _measured(self) -> None:
        points = self.points
        kinds = [kind_of(point)[0] for point in points]
        self.plain = np.array([kind == "plain" for kind in kinds])
        self.ratio = np.array([measured_speedup(point) is not None for point in points])
        measured = [
            point.tokens_per_s if kind == "plain" else measured_speedup(point) or point.tokens_per_s
            for point, kind in zip(points, kinds, strict=True)
        ]
        self.measured = np.log(np.array(measured, dtype=float))
        groups: dict[Any, int] = {}
        self.group = np.array(
            [
                groups.setdefault(shape_group(point), len(groups)) if kind == "shape" else -1
                for point, kind in zip(points, kinds, strict=True)
            ]
        )
        sizes = np.bincount(self.group[self.group >= 0], minlength=len(groups))
        self.alone = np.array([group >= 0 and sizes[group] < 2 for group in self.group])
        self.batch = np.array([float(point.batch_size) for point in points])
        self.answer = np.array([lengths(point)[1] for point in points])
        self.requests = np.array([float(point.includes_prefill) for point in points])
        self.committed = np.array([committed_tokens(point) for point in points])
        self.vllm = np.array([point.engine == "vllm" for point in points])
        weigh = Counter((point.source, kind == "plain") for point, kind in zip(points, kinds))
        self.weight = np.array(
            [
                min(1.0, FULL_POINTS / weigh[(point.source, kind == "plain")]) ** 0.5
                * (PLAIN_WEIGHT if kind == "plain" else 1.0)
                for point, kind in zip(points, kinds, strict=True)
            ]
        ) * ~self.alone  # fmt: skip

    def pass_s(self, parameters: Mapping[str, float]) -> Array:
        """Return the seconds of every recorded pass."""
        p, ops, facts = parameters, self.operations, self.facts
        engines = {
            family: fitted_engine("vllm", family, p) for family in ("ampere", "hopper", "blackwell")
        }
        compute = np.array(
            [
                [engines[family].kind_compute_frac.get(kind, engines[family].compute_frac[dtype])
                 for family, dtype in FAMILY_DTYPES]
                for kind in KINDS
            ]
        )  # fmt: skip
        memory = np.array([p["memory_frac"], *(p[f"memory_frac.{kind}"] for kind in OP_KINDS)])
        work = np.hypot(
            ops["compute_s"] / compute[ops["kind"], ops["where"]],
            ops["memory_s"] / memory[ops["kind"]],
        )
        layer_s = np.where(facts["ampere"] > 0, p["layer_share.ampere"], 1.0) * p["layer_s"]
        kinds_s = sum(p[f"layer_s.{kind}"] * facts[kind] for kind in LAYER_KINDS)
        state_s = p["state_token_s"] * facts["linear_attention"] * facts["further"]
        target_s = p["pass_s"] + p["sequence_s"] * facts["sequences"]
        reached = engines["hopper"].collective
        device_s = reached.device_latency_s if reached else 0.0
        exchange_s = facts["collectives"] * (p["collective_s"] + device_s * (facts["devices"] - 1))
        total_s = (
            np.add.reduceat(work, ops["first"])
            + layer_s * facts["layers"]
            + kinds_s
            + state_s
            + np.where(facts["drafts"] > 0, p["draft_pass_s"], target_s)
            + exchange_s
            + facts["link_s"] / p["link_frac"]
        )
        floor_s = facts["eager"] * p["eager_layer_s"] * facts["layers"]
        return np.maximum(total_s, floor_s)

    def predicted(self, parameters: Mapping[str, float]) -> Array:
        """Return the logarithm of what is predicted: throughput or speedup, as was measured."""
        p, pass_s = parameters, self.pass_s(parameters)
        decode, prefill, verify, draft = (rows @ pass_s for rows in self.parts.values())
        waiting_s = self.requests * self.batch * (prefill + p["request_s"]) / self.answer
        per_round_s = np.where(self.vllm, p["round_s.vllm"], p["round_s.sglang"])
        round_s = verify + draft + per_round_s + p["round_sequence_s"] * self.batch
        plain = self.batch / (decode + waiting_s)
        fast = self.batch / (round_s / self.committed + waiting_s)
        rate = np.where(self.plain, plain, fast)
        return np.log(np.where(self.ratio & ~self.plain, fast / plain, rate))

    def residuals(self, parameters: Mapping[str, float]) -> Array:
        """Return what predictions are off, in logarithms, the factor of each shape taken out."""
        off = self.predicted(parameters) - self.measured
        shaped = self.group >= 0
        if shaped.any():
            count = np.bincount(self.group[shaped])
            mean = np.bincount(self.group[shaped], weights=off[shaped]) / count
            off[shaped] -= mean[self.group[shaped]]
        return off


def fit(points: Sequence[Measurement], start: Array = START) -> dict[str, float]:
    """Return the parameters that fit some measurements best, held near where they start."""
    design = Design(points)

    def objective(logs: Array) -> Array:
        parameters = dict(zip(NAMES, np.exp(logs).tolist(), strict=True))
        data = design.residuals(parameters) * design.weight / ORDINARY
        return np.concatenate([data, (logs - START) / SPREAD])

    found = least_squares(objective, start, loss="soft_l1", x_scale=SPREAD, max_nfev=80)
    return dict(zip(NAMES, np.exp(found.x).tolist(), strict=True))


def all_fits(points: Sequence[Measurement]) -> dict[str, dict[str, float]]:
    """Return the fit to all sources, and one without each."""
    fits = {"all": fit(points)}
    start = np.log(list(fits["all"].values()))
    for source in dict.fromkeys(point.source for point in points):
        fits[source] = fit([point for point in points if point.source != source], start)
    return fits


def main() -> None:
    """Fit, print and, if asked to, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write fits.json and hardware/*.yaml")
    asked = parser.parse_args()
    fits = all_fits(load_measurements())
    for name, (first, spread, what) in PARAMETERS.items():
        value = fits["all"][name]
        moved = np.log(value / first) / spread
        others = [one[name] for one in fits.values()]
        span = f"{min(others):.4g} to {max(others):.4g}"
        print(f"{name:28s} {value:10.4g}  {moved:+5.1f} sd  {span:22s} {what}")  # noqa: T201
    if asked.write:
        target = Path(__file__).parent.parent / "specroof" / "validate" / "fits.json"
        content = {"made_by": "benchmarks/fit_engines.py", "fits": fits}
        target.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
