"""What a page knows from measurements: drafters of a model, how sure it is, published speedups."""

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final

from specroof.acceptance.published import published_with
from specroof.architecture.model import Architecture
from specroof.drafters import Drafter
from specroof.evidence import measured_speedups
from specroof.evidence.measurement import chip_of, model_of
from specroof.hardware.engine import EngineProfile
from specroof.latency.setup import Deployment
from specroof.parsers.model_config import MTP_NOTE
from specroof.questions.objects import drafter_of, published_drafters, resampled_drafter
from specroof.speedup.reach import how_sure_at

#: Drafters that a page begins with.
_MOST_BEGUN: Final = 2
#: Significant digits of published figures.
_DIGITS: Final = 4


# --- Drafters that exist for a model -------------------------------------------------------------


def begun_kinds(model: Architecture) -> Sequence[str]:
    """Return the kinds of drafters that a page begins with for a model.

    Layers of its own and heads whose acceptance was measured; where there are none, a head to be
    trained.

    Examples
    --------
    >>> from specroof import load_model
    >>> begun_kinds(load_model("Qwen/Qwen3-32B"))
    ['eagle3', 'dflash']
    """
    held = {*published_with(model.name), *["mtp"] * (MTP_NOTE in model.notes)}
    kinds = [kind for kind in ("mtp", "eagle3", "dflash") if kind in held] or ["eagle3"]
    return kinds[:_MOST_BEGUN]


@lru_cache(maxsize=2048)
def usual_drafter(kind: str, model: Architecture, server: str = "") -> Drafter:
    """Return a drafter with the acceptance that `advise` takes where a SPEC names none.

    Parameters
    ----------
    kind, model, server
        What drafts for what, and the server that accepts drafts in its own way.

    Examples
    --------
    >>> from specroof import load_model
    >>> usual_drafter("mtp", load_model("deepseek-ai/DeepSeek-R1")).name
    'mtp,profile=deepseek-v3.2/mtp/random'
    """
    (drafter,) = published_drafters(kind, model, server)
    return resampled_drafter(drafter_of(drafter), None, None, server)


# --- How near evidence is ------------------------------------------------------------------------


def sureness(deployment: Deployment, evidence: EngineProfile, kind: str) -> dict[str, Any]:
    """Return how sure a prediction is at any load, in the sentences of `how_sure`.

    Parameters
    ----------
    deployment, evidence, kind
        What is served, the engine whose bands speak for it, and what drafts.

    Returns
    -------
    dict
        `batch_size`, `context_len`: the largest that was measured; None where all is as sure.
        `texts`: within both, beyond the batch, beyond the context, beyond both.
    """
    reach, ends = deployment.setup.engine.reach, {}
    for name in ("batch_size", "context_len"):
        known = [getattr(reach, f"{of}{name}", None) for of in ("drafted_", "")]
        ends[name] = min((end for end in known if end is not None), default=None)
    beyond = {name: math.inf if end is not None else 0 for name, end in ends.items()}
    loads = product((0, beyond["context_len"]), (0, beyond["batch_size"]))
    return {**ends, "texts": how_sure_at(deployment, evidence, [kind], [*loads])}


# --- Published speedups --------------------------------------------------------------------------


def published_speedups(
    architectures: Collection[str | None], kinds: Collection[str]
) -> list[dict[str, Any]]:
    """Return measured speedups on some families of chips, those of one set-up together.

    Parameters
    ----------
    architectures
        Families of chips, as hardware files call them.
    kinds
        Drafters, as SPECs call them.

    Returns
    -------
    list of dict
        What was measured, and `points`: batch size, context, tokens per round (None where the
        source is silent) and speedup.
    """
    groups: dict[tuple[Any, ...], list[list[float | None]]] = defaultdict(list)
    for point, speedup in measured_speedups():
        chip = chip_of(str(point.hardware))
        family = chip.architecture
        if point.method not in kinds or family is None or family not in architectures:
            continue
        model = model_of(str(point.model))
        key = (
            *(point.source, point.model, model.n_params, model.n_active_params),
            *(chip.name, family, point.engine, point.tensor_parallel or 1),
            *(point.method, point.draft_len),
        )
        figures = (
            point.batch_size or point.concurrency,
            point.context_len,
            point.tokens_per_round,
            speedup,
        )
        groups[key].append([one and float(f"{one:.{_DIGITS}g}") for one in figures])
    names = (
        *("source", "model", "n_params", "n_active_params"),
        *("chip", "architecture", "framework", "devices", "kind", "draft_len"),
    )
    return [{**dict(zip(names, key, strict=True)), "points": rows} for key, rows in groups.items()]
