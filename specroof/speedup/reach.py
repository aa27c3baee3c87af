"""How near the measurements behind an engine profile are to what is asked."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture, Experts
from specroof.errors import Note
from specroof.hardware import GENERIC, EngineProfile
from specroof.latency import Deployment

#: How near evidence is.
MEASURED: Final = "measured"
FAMILY: Final = "family"
NONE: Final = "none"
#: How `Reach.placements` would call workers of their own for prefill.
SPLIT: Final = "split"


def weight_format(model: Architecture) -> str:
    """Return the format that most bytes of a checkpoint are in.

    Source
        Counting.

    Examples
    --------
    >>> from specroof import load_model
    >>> weight_format(load_model("openai/gpt-oss-120b"))
    'mxfp4'
    """
    stored: dict[str, float] = defaultdict(float)
    for count, block in model.counted_blocks:
        for part in (*block.linears, block.core):
            form = getattr(part, "weight", None)
            if part is not None and form is not None:
                stored[form.name] += count * part.stored_bytes
    return max(stored, key=lambda name: stored[name], default=model.activation_dtype)


def deployment_words(deployment: Deployment) -> dict[str, tuple[str, ...]]:
    """Return kinds of attention, formats and ways to spread of a deployment, as `Reach` has them.

    Source
        The choice of this library: what profiles are fitted over.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.hardware import Placement
    >>> from specroof.latency import engine_setup
    >>> setup = engine_setup(load_hardware("h200"), "vllm", Placement(8, 8), None)
    >>> deployment_words(Deployment(load_model("deepseek-ai/DeepSeek-V3"), setup))
    {'attention': ('latent_attention',), 'formats': ('fp8-block',), 'placements': ('tp', 'ep')}
    """
    model, setup = deployment.model, deployment.setup
    cores = [core for _, core in model.counted_cores if not isinstance(core, Experts)]
    return {
        "attention": tuple(sorted({core.label for core in cores})),
        "formats": (setup.options.weight_dtype or weight_format(model),),
        "placements": (*setup.placement.words, *[SPLIT] * setup.decodes_only),
    }


def evidence_engine(deployment: Deployment) -> EngineProfile:
    """Return the engine whose bands speak for a deployment.

    It is its own, or the generic one of its server where the chip's architecture is not known, and
    where no measurement on the family of the chip has the attention, the format or the placement:
    what is asked there is as strange as the chip would be. Bands of placements that it was not
    measured in are wider.

    Source
        The choice of this library.
    """
    setup = deployment.setup
    engine, reach, stand_ins = setup.engine, setup.engine.reach, setup.hardware.generic
    words = deployment_words(deployment)
    unknown = setup.hardware.architecture is None and engine.name in setup.hardware.engines
    # Workers of their own for prefill make bands wider, and no strange chip.
    strange = (
        reach is not None
        and reach.family
        and not all({*asked} <= {*getattr(reach, key), SPLIT} for key, asked in words.items())
    )
    if stand_ins is not None and (unknown or strange):
        server = engine.framework or engine.name
        engine = stand_ins.engines.get(server, stand_ins.engines[GENERIC])
    return engine.spread_as(words["placements"])


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
        For chip, framework, attention, format and placement ``"measured"``, ``"family"`` (of the
        chip alone) or ``"none"``; for batch and context what is asked and how far measurements
        go, with drafts and without; ``text`` says what lies outside. None for an engine that does
        not know its evidence, as the ideal one.

    Source
        `specroof.hardware.Reach`.
    """
    setup = deployment.setup
    reach = setup.engine.reach
    if reach is None:
        return None
    server, chip = setup.engine.framework or setup.engine.name, setup.hardware.name
    limits = {
        "batch": (batch_size, reach.drafted_batch_size, reach.batch_size),
        "context": (context_len, reach.drafted_context_len, reach.context_len),
    }
    axes = {
        axis: {
            "asked": np.atleast_1d(asked).tolist(),
            "measured_to": drafted,
            "plain_measured_to": plain,
        }
        for axis, (asked, drafted, plain) in limits.items()
    }
    outside = []
    units = {"batch": "batch {:g}", "context": "{:g} tokens"}
    known = "drafted measurement of known acceptance"
    for name, key in ((known, "measured_to"), ("measurement", "plain_measured_to")):
        beyond = [
            units[axis].format(ends[key])
            for axis, ends in axes.items()
            if ends[key] is not None and max(ends["asked"]) > ends[key]
        ]
        if beyond:
            outside.append(f"no {name} above {' or '.join(beyond)}")
    if not reach.drafters:
        outside.append("no drafted measurement")
    elif reach.drafted_batch_size is None:
        outside.append(f"no {known}")
    if reach.drafters and (unknown := sorted({*drafters} - {*reach.drafters})):
        outside.append(f"none with {', '.join(unknown)}")
    missing = {
        key: [word for word in asked if word not in getattr(reach, key)]
        for key, asked in deployment_words(deployment).items()
    }
    outside += [f"none with {', '.join(strange)}" for strange in missing.values() if strange]
    if chip not in reach.chips:
        outside.append(f"none on {chip}")
    if server not in reach.engines:
        outside.append(f"none under {server}")
    elsewhere = FAMILY if reach.family else NONE
    return {
        "chip": MEASURED if chip in reach.chips else elsewhere,
        "framework": MEASURED if server in reach.engines else NONE,
        "attention": NONE if missing["attention"] else MEASURED,
        "format": NONE if missing["formats"] else MEASURED,
        "placement": NONE if missing["placements"] else MEASURED,
        **axes,
        "text": "; ".join(outside) or "measured on this chip",
    }


def reach_notes(
    deployment: Deployment, drafter: str, context_len: npt.ArrayLike, batch_size: npt.ArrayLike
) -> Iterator[str]:
    """Yield what lies outside of the measurements; in full, what they cover.

    Parameters
    ----------
    deployment, drafter, context_len, batch_size
        As of `nearness`, of one kind of drafter.

    Source
        `nearness`.
    """
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
    short = f"reach of engine {engine.name}, {drafter}: {near['text']}"
    listed = "; ".join(f"{name} {', '.join(words) or NONE}" for name, words in covered.items())
    yield Note(f"{short}. Measured: {listed}", short)
