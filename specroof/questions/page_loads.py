"""Loads that the page has buttons for, played through as `predict` plays them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array, fields_of
from specroof.drafters import Drafter
from specroof.latency.setup import Deployment
from specroof.outcomes.case import Case
from specroof.outcomes.outcomes import outcomes
from specroof.outcomes.rows import LoadRow, load_fields
from specroof.page import PageGrid
from specroof.policies.decision import LoadDecision
from specroof.questions.objects import money_of
from specroof.serving.workload import REQUESTS_PER_CLIENT, Load, Workload
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN

#: Clients of the loads that are played through.
CLIENTS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)

#: Decisions by the number that stands for each.
DECISIONS: Final[tuple[LoadDecision, ...]] = ("off", "unclear", "on")

#: Columns of rows whose logarithms are packed, and those whose bands are.
FIGURES: Final = (
    *("tried_speedup", q.TOKENS_PER_S.name, "tpot_s", "ttft_s"),
    *("plain_tokens_per_s", "plain_tpot_s", "plain_ttft_s"),
)
BANDS: Final = ("tried_speedup", "ttft_s")
#: What `PlayedPoints.figures` holds, in order; the speedup and the ends of its band.
PLAYED: Final = (*FIGURES, *(f"{name}_{end}" for name in BANDS for end in ("low", "high")))
SPEEDUPS: Final = ("tried_speedup", "tried_speedup_low", "tried_speedup_high")
#: Logarithms that are told apart: figures have the digits that `predict` prints.
QUANTUM: Final = 1e-8


@dataclass(frozen=True, slots=True)
class Preset:
    """Requests that the page has a button for, at a point of its axes.

    Parameters
    ----------
    name
        What the button says.
    context_len
        Cached tokens while half of an answer is decoded.
    output_len, prefix_hit_rate
        Tokens of an answer, and the share of a prompt that is cached.
    """

    name: str
    context_len: float
    output_len: int
    prefix_hit_rate: float = 0.0

    @property
    def workload(self) -> Workload:
        """The requests: a prompt leaves the context while half of the answer is decoded."""
        prompt_len = self.context_len - self.output_len / 2
        return Workload(prompt_len, self.output_len, self.prefix_hit_rate)


#: What people serve. Chat: benchmarks send about 1k in and 1k out (InferenceX: 922 each), or
#: ShareGPT and SPEED-Bench with answers of 512 (vLLM's article on adaptive verification, 2026).
#: Agents: a prompt of several turns, between the 7k of Mooncake's samples and turns of 64k
#: (marin 9114), of which half is cached: the choice of this library. Batch jobs: short questions
#: and long answers, as rollouts have them (prompts of at most 1k, answers of up to 4k or 8k:
#: arXiv:2509.23232, 2606.18967).
PRESETS: Final = (
    Preset("Chat", 1024.0, 512),
    Preset("Agents", 16384.0, 512, 0.5),
    Preset("Batch jobs", 1024.0, 1536),
)
#: Requests in flight that a page begins with: its devices have room for them.
USUAL_BATCH: Final = 16.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A deployment that the field knows, for the page to begin with.

    Parameters
    ----------
    name
        What the link says.
    model, chip
        Bundled names.
    words
        What else the address says.
    """

    name: str
    model: str
    chip: str
    words: Mapping[str, Any]

    def address(self, chip: str) -> str:
        """Return the address on a page that calls the chip so.

        Examples
        --------
        >>> SCENES[0].address("b200")
        'model=deepseek-ai%2FDeepSeek-R1&chip=b200&engine=sglang'
        """
        return urlencode({"model": self.model, "chip": chip, **self.words}, doseq=True)


#: A mixture with drafting layers of its own, a dense model with a head, and the roofline of Modal's
#: article (2026), with its two drafters.
SCENES: Final = (
    Scene(
        "DeepSeek-R1 on 8 × B200",
        "deepseek-ai/DeepSeek-R1",
        "b200",
        {"engine": "sglang"},
    ),
    Scene(
        "Qwen3-32B on H100",
        "Qwen/Qwen3-32B",
        "h100-sxm",
        {"engine": "sglang"},
    ),
    Scene(
        "Roofline: DeepSeek-V4-Flash on B200",
        "deepseek-ai/DeepSeek-V4-Flash",
        "b200",
        {
            "devices": 1,
            "engine": "ideal",
            "context": 4096,
            "answer": 0,
            "drafter": [
                "block,accept=0.89,cost=0.1,drafts=16",
                "autoregressive,accept=0.75,cost=0.1",
            ],
        },
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class PlayedPoints:
    """What becomes of presets on one server, axes (…, preset, drafter, load).

    Parameters
    ----------
    drafters
        Kinds of drafters.
    choices
        `draft_len`, `tried_draft_len`, both ends of `near_best`, and the place of the decision in
        `DECISIONS`; `tried_draft_len` is 0 where the server has no room for drafts.
    figures
        `PLAYED`; 1 where there is no room, and the figure itself where
        it has no band.
    """

    drafters: tuple[str, ...]
    choices: Array
    figures: Array

    @property
    def grids(self) -> dict[str, Any]:
        """The same to be packed."""
        return {  # loads and drafters differ by little
            "drafters": self.drafters,
            "choices": PageGrid(self.choices, 1.0, (0, 0, 0, 1)),
            "figures": PageGrid(np.log(self.figures), QUANTUM, (0, 0, 1, 1)),
        }


def preset_tables(context_len: Sequence[float], batch_size: Sequence[float]) -> dict[str, Any]:
    """Return the presets at the points of a page, what is played, and what the page begins with.

    Parameters
    ----------
    context_len, batch_size
        The axes of the page.
    """
    presets, clients = at_points(context_len, batch_size)
    return {
        "presets": [fields_of(one, *Preset.__slots__) for one in presets],
        "clients": clients,
        "decisions": DECISIONS,
        "usual_context": PRESETS[0].context_len,
        "usual_answer": PRESETS[0].output_len,
        "usual_batch": USUAL_BATCH,
        "requests_per_client": REQUESTS_PER_CLIENT,
    }


def at_points(
    context_len: Sequence[float], batch_size: Sequence[float]
) -> tuple[list[Preset], list[float]]:
    """Return the presets and the clients that are at points of a page.

    Parameters
    ----------
    context_len, batch_size
        The axes of the page.
    """
    presets = [preset for preset in PRESETS if preset.context_len in context_len]
    return presets, [batch for batch in batch_size if batch in CLIENTS]


def played_points(
    deployment: Deployment,
    drafters: Sequence[Drafter],
    context_len: Sequence[float],
    batch_size: Sequence[float],
) -> PlayedPoints | None:
    """Return what becomes of presets on a server: the rows that `predict` has of them.

    Parameters
    ----------
    deployment, drafters
        What is served, on a server that has limits, and what drafts, each with its acceptance.
    context_len, batch_size
        The axes of the page.

    Returns
    -------
    PlayedPoints or None
        None where no preset is at a point of the page, and without drafters.
    """
    presets, clients = at_points(context_len, batch_size)
    if not (presets and clients and drafters):
        return None
    rows = list[list[float]]()
    for preset, drafter in product(presets, drafters):
        counts = [int(REQUESTS_PER_CLIENT * count) for count in clients]
        load = Load(clients, [preset.context_len], preset.workload, requests=counts)
        case = Case(deployment, load, "queue")
        one = outcomes(case, drafter, max_draft_len=DEFAULT_MAX_DRAFT_LEN)
        fields = load_fields(one, load, money_of(deployment.setup))
        rows += [_figures(LoadRow(**each)) for each in fields]
    grid = np.transpose(rows).reshape(-1, len(presets), len(drafters), len(clients))
    kinds = tuple(drafter.kind for drafter in drafters)
    return PlayedPoints(kinds, *np.split(grid, [len(grid) - len(PLAYED)]))


def _figures(row: LoadRow) -> list[float]:
    """Return the choices and figures of a row."""
    if row.decision is None or row.near_best is None or not row.tried_draft_len:
        return [0.0] * 5 + [1.0] * len(PLAYED)
    figures = [getattr(row, name) for name in FIGURES]
    ends = [end for name in BANDS for end in row.bands.get(name, [getattr(row, name)] * 2)]
    decision = DECISIONS.index(row.decision)
    return [row.draft_len, row.tried_draft_len, *row.near_best, decision, *figures, *ends]
