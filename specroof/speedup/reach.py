"""How near the measurements behind an engine profile are to what is asked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.errors import Note
from specroof.frameworks import version_parts
from specroof.hardware.engine import UNMEASURED_ATTENTION_BATCH, EngineProfile, Reach
from specroof.hardware.profile import GENERIC
from specroof.latency.setup import Deployment
from specroof.speedup.result import counted_engines

#: How near evidence is.
MEASURED: Final = "measured"
FAMILY: Final = "family"
NONE: Final = "none"
#: What is said where nothing is extrapolated.
_NEAR: Final = "near measurements"
#: How `Reach.placements` would call workers of their own for prefill.
SPLIT: Final = "split"
#: Loads that are larger than any that was measured.
_LARGER: Final = {"batch": "batches above {:g}", "context": "contexts above {:g} tokens"}
#: Ways to spread a model as sentences name them.
_PLACED: Final = {
    "tp": "tensor parallelism",
    "ep": "expert parallelism",
    "dp-attention": "data-parallel attention",
    "dcp": "decode context parallelism",
    "pp": "pipeline parallelism",
    "layers": "a split of layers",
    "nodes": "several nodes",
    SPLIT: "prefill workers",
}


def deployment_words(deployment: Deployment) -> dict[str, tuple[str, ...]]:
    """Return kinds of attention, formats and ways to spread of a deployment, as `Reach` has them.

    Source
        The choice of this library: what profiles are fitted over.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.hardware.profile import Placement
    >>> from specroof.latency.setup import engine_setup
    >>> setup = engine_setup(load_hardware("h200"), "vllm", Placement(8, 8), None)
    >>> deployment_words(Deployment(load_model("deepseek-ai/DeepSeek-V3"), setup))
    {'attention': ('latent_attention',), 'formats': ('fp8-block',), 'placements': ('tp', 'ep')}
    """
    model, setup = deployment.model, deployment.setup
    spread = setup.placement.words
    if setup.passes_in_flight == 1:  # stages that take turns are as one device
        spread = tuple("layers" if word == "pp" else word for word in spread)
    return {
        "attention": tuple(
            sorted({core.label for _, core in model.counted_cores if core.kernel != "experts"})
        ),
        "formats": (setup.options.weight_dtype or model.weight_format,),
        "placements": (*spread, *[SPLIT] * setup.decodes_only),
    }


def evidence_engine(deployment: Deployment) -> EngineProfile:
    """Return the engine whose bands speak for a deployment.

    It is its own, or the generic one of its server: that of any chip where the architecture is not
    known, and that of its vendor's where no measurement on the family of the chip has the
    attention, the format or the placement. What is asked there is as strange as the chip would be,
    and with a strange kind of attention, or on a chip that nobody knows, the more, the more
    sequences there are: `UNMEASURED_ATTENTION_BATCH`. So is a kind of drafter that was measured on
    other families alone. Bands of placements that it was not measured in are wider, and those of
    releases that are newer than all that were measured: `Reach.drift`.

    Source
        The choice of this library.
    """
    engine, reach = _nearest_engine(deployment), deployment.setup.engine.reach
    if reach is not None and _is_new(deployment, reach):
        engine = engine.widened(reach.speedup_drift, reach.drift)
    return engine.spread_as(deployment_words(deployment)["placements"])


def _is_new(deployment: Deployment, reach: Reach) -> bool:
    """Tell whether nobody timed a release as new as the one whose rules count.

    Releases that no source names tell nothing of one: the drift counts, where there is any.
    """
    if not reach.versions:
        return reach.drift > 0
    engine, rules = deployment.setup.engine, deployment.setup.release
    is_own = rules.framework == (engine.framework or engine.name)
    release = engine.release or (rules.version if is_own else "")
    newest = version_parts(reach.versions[-1])
    return version_parts(release)[: len(newest)] > newest  # an unknown one has no parts


def _nearest_engine(deployment: Deployment) -> EngineProfile:
    """Return the engine that speaks for a deployment, with its bands as they were measured."""
    setup, words = deployment.setup, deployment_words(deployment)
    engine, stand_ins = setup.engine, setup.hardware.generic
    no_chip = setup.hardware.architecture is None
    # What was measured on chips of a family; of no family where others' figures stand in.
    own = engine.reach if engine.reach is not None and engine.reach.family else None
    unknown = no_chip and engine.name in setup.hardware.engines
    # Workers of their own for prefill make bands wider, and no strange chip.
    far = unknown or (
        own is not None
        and not all({*asked} <= {*getattr(own, key), SPLIT} for key, asked in words.items())
    )
    if stand_ins is not None and (far or own is not None):
        others = (stand_ins.known() if unknown else stand_ins).engines
        elsewhere = others.get(engine.framework or engine.name, others[GENERIC])
        engine = elsewhere if far or own is None else _with_kinds_of(engine, own, elsewhere)
    is_stand_in = no_chip and stand_ins is not None
    if is_stand_in or (own is not None and not {*words["attention"]} <= {*own.attention}):
        least = UNMEASURED_ATTENTION_BATCH
        bands = {
            kind: replace(band, batch_size=min(band.batch_size or least, least))
            for kind, band in engine.bands.items()
        }
        engine = replace(engine, bands=bands)
    return engine


def _with_kinds_of(engine: EngineProfile, own: Reach, elsewhere: EngineProfile) -> EngineProfile:
    """Return an engine with the bands of kinds of drafters that were measured elsewhere alone."""
    kinds = () if elsewhere.reach is None else elsewhere.reach.drafters
    known = {
        kind: band
        for kind in kinds
        if kind not in own.drafters and (band := elsewhere.measured_band(kind)) is not None
    }
    reach = replace(own, drafters=(*own.drafters, *known))
    return replace(engine, bands={**engine.bands, **known}, reach=reach)


def nearness(
    deployment: Deployment,
    drafters: Sequence[str],
    context_len: npt.ArrayLike,
    batch_size: npt.ArrayLike,
) -> dict[str, Any] | None:
    """Return how near measurements are: the object under ``reach`` of ``--json``.

    Parameters
    ----------
    deployment
        What is asked about.
    drafters
        Kinds of drafters.
    context_len, batch_size
        Operating points that are asked for.

    Returns
    -------
    dict or None
        For chip, framework, release, attention, format and placement ``"measured"``, ``"family"``
        (of the chip alone) or ``"none"``; for batch and context what is asked and how far
        measurements go, with drafts and without; ``text`` says what nobody measured, and what lies
        beyond. None for an engine that does not know its evidence, as the ideal one.

    Source
        `specroof.hardware.engine.Reach`.
    """
    setup = deployment.setup
    reach = setup.engine.reach
    if reach is None:
        return None
    server, chip = setup.engine.framework or setup.engine.name, setup.hardware.name
    missing = {
        key: [word for word in asked if word not in getattr(reach, key)]
        for key, asked in deployment_words(deployment).items()
    }
    # A chip that others' engines stand in for was measured under another server, if at all.
    stands_in = setup.engine.name == GENERIC and not reach.family
    is_known, is_new = chip in reach.chips and not stands_in, _is_new(deployment, reach)
    # What was never measured and decides whether drafts pay, and what else has no measurements.
    unmeasured = {
        "speculative decoding": drafters and not reach.drafters,
        "speedups at a known acceptance": drafters
        and reach.drafters
        and reach.drafted_batch_size is None,
        **{f"drafter {kind}": reach.drafters for kind in sorted({*drafters} - {*reach.drafters})},
        chip: not is_known and not reach.family,
    }
    others = {
        **{word.replace("_", " "): True for word in missing["attention"]},
        **{f"{word} weights": True for word in missing["formats"]},
        **{_PLACED.get(word, word): True for word in missing["placements"]},
        chip: not is_known and reach.family,
        server: server not in {*reach.engines, GENERIC},
        f"release {setup.release.version}": is_new,
    }
    axes = {
        axis: {
            "asked": np.atleast_1d(asked).tolist(),
            "measured_to": drafted,
            "plain_measured_to": plain,
        }
        for axis, asked, drafted, plain in (
            ("batch", batch_size, reach.drafted_batch_size, reach.batch_size),
            ("context", context_len, reach.drafted_context_len, reach.context_len),
        )
    }
    larger = []  # than measured ones, with drafts where drafts are asked
    for axis, ends in axes.items():
        known = [ends["measured_to"] if drafters else None, ends["plain_measured_to"]]
        passed = [most for most in known if most is not None and max(ends["asked"]) > most]
        larger += [_LARGER[axis].format(min(passed))] if passed else []
    said = [
        f"{what}{_listed([word for word, holds in words.items() if holds])}"
        for what, words in (
            ("not measured here: ", unmeasured),
            ("extrapolated to ", {**dict.fromkeys(larger, True), **others}),
        )
        if any(words.values())
    ]
    return {
        "chip": MEASURED if is_known else FAMILY if reach.family else NONE,
        "framework": MEASURED if server in reach.engines else NONE,
        "release": NONE if is_new else MEASURED,
        "attention": NONE if missing["attention"] else MEASURED,
        "format": NONE if missing["formats"] else MEASURED,
        "placement": NONE if missing["placements"] else MEASURED,
        **axes,
        "text": "; ".join(said) or _NEAR,
    }


def _listed(words: Sequence[str]) -> str:
    """Return words as a sentence lists them.

    Examples
    --------
    >>> _listed(["batch 8"]), _listed(["a", "b", "c"])
    ('batch 8', 'a, b and c')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def how_sure(
    deployment: Deployment,
    drafters: Sequence[str],
    context_len: npt.ArrayLike,
    batch_size: npt.ArrayLike,
) -> str:
    """Return how near measurements are and how far off predictions were, in two sentences.

    Parameters
    ----------
    deployment, drafters, context_len, batch_size
        As of `nearness`; the band is the widest of those of the drafters.

    Source
        `nearness`, and `specroof.hardware.engine.EngineProfile.band`.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.hardware.profile import Placement
    >>> from specroof.latency.setup import engine_setup
    >>> setup = engine_setup(load_hardware("h200"), "ideal", Placement(), None)
    >>> how_sure(Deployment(load_model("Qwen/Qwen3-8B"), setup), ["eagle3"], 1024, 8)
    'an upper bound: engine ideal is a roofline without overheads'
    """
    evidence = evidence_engine(deployment)
    return how_sure_at(deployment, evidence, drafters, [(context_len, batch_size)])[0]


def how_sure_at(
    deployment: Deployment,
    evidence: EngineProfile,
    drafters: Sequence[str],
    loads: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
) -> list[str]:
    """Return what `how_sure` says of each load.

    Parameters
    ----------
    deployment
        As of `nearness`.
    evidence
        Of the deployment: see `evidence_engine`.
    drafters
        As of `nearness`.
    loads
        Contexts and batch sizes.

    Source
        As of `how_sure`.
    """
    engine = deployment.setup.engine
    each = [nearness(deployment, drafters, *load) for load in loads]
    texts = [str(near["text"]) for near in each if near is not None]
    if not texts:
        bound = f"an upper bound: engine {engine.name} is a roofline without overheads"
        said = bound if engine.rules == "ideal" else f"engine {engine.name} names no measurements"
        return [said] * len(loads)
    bands = [evidence.band(kind) for kind in drafters]
    band = max(filter(None, bands), key=lambda each: each.width, default=None)
    measured = band and _nearest_engine(deployment).measured_band(drafters[bands.index(band)])
    if band is None or measured is None:
        return texts
    low, high, lower, higher = np.expm1(np.outer([measured.width, band.width], [-1, 1]).ravel())
    of_points = (
        f"Of {band.points} measured speedups, 80% are within {low:+.0%} to {high:+.0%} of their "
        f"predictions"
    )
    widens = "; bands widen away from them"
    if band.width > measured.width:
        of_points += f"; bands here begin at {lower:+.0%} to {higher:+.0%}"
        widens = ", and widen"
    return [f"{text}. {of_points}{widens if text != _NEAR else ''}" for text in texts]


def evidence_notes(
    deployment: Deployment,
    drafter: str,
    context_len: npt.ArrayLike,
    batch_size: npt.ArrayLike,
    evidence: EngineProfile,
) -> Iterator[str]:
    """Yield how far off predictions have been, and what lies outside of the measurements.

    In full, the second says what these cover.

    Parameters
    ----------
    deployment, drafter, context_len, batch_size
        As of `nearness`, of one kind of drafter.
    evidence
        From `evidence_engine`; one without bands has none to speak of.

    Source
        `specroof.hardware.engine.EngineProfile.bands`, and `nearness`.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.hardware.engine import Band
    >>> from specroof.latency.setup import engine_setup
    >>> setup = engine_setup(load_hardware("h200"), "ideal", None, None)
    >>> mtp = Band(width=0.0953, mean_error=0.042, points=40, engines={"sglang": 40}, batch_size=32)
    >>> made = EngineProfile(name="vllm", bands={"mtp": mtp})
    >>> list(evidence_notes(Deployment(load_model("Qwen/Qwen3-8B"), setup), "mtp", 1024, 8, made))
    ['band of mtp on engine vllm: -9% to +10%, and more above batch 32; it holds 80% of 40 measured
    speedups (40 under sglang, none under vllm), mean error 4.2%']
    """
    band = evidence.band(drafter)
    if band is not None:
        low, high = np.expm1(-band.width), np.expm1(band.width)
        limits = {"batch {:g}": band.batch_size, "{:.0f} tokens": band.context_len}
        ends = [unit.format(limit) for unit, limit in limits.items() if limit is not None]
        wider = f", and more above {' or '.join(ends)}" if ends else ""
        others = "" if drafter in evidence.bands else " of any drafter"
        borrowed = evidence.reach is not None and not evidence.reach.drafters
        holds = "it holds" if band == evidence.measured_band(drafter) else "wider than what holds"
        yield (
            f"band of {drafter} on engine {evidence.name}: {low:+.0%} to {high:+.0%}{wider}; {holds} "
            f"80% of {band.points} measured speedups{others}{counted_engines(band, evidence)}, mean "
            f"error {band.mean_error:.1%}"
            f"{'; none of them on this family of chips' if borrowed else ''}"
        )
    near, engine = nearness(deployment, [drafter], context_len, batch_size), deployment.setup.engine
    if near is None or engine.reach is None:
        return
    reach, measured_to = engine.reach, "to batch {:g} and {:g} tokens"
    plain = reach.batch_size, reach.context_len
    drafted = reach.drafted_batch_size, reach.drafted_context_len
    covered = {
        "servers": reach.engines,
        "chips": reach.chips,
        "attention": reach.attention,
        "weights": reach.formats,
        "placements": reach.placements,
        "plain": (measured_to.format(*plain) if None not in plain else NONE,),
        "drafters": reach.drafters,
        "drafted": (measured_to.format(*drafted) if None not in drafted else NONE,),
    }
    short = f"evidence for {drafter} on engine {engine.name}: {near['text']}"
    listed = "; ".join(f"{name} {', '.join(words) or NONE}" for name, words in covered.items())
    yield Note(f"{short}. Measured: {listed}", short)
