"""What results say of how they were served, against how they are to be predicted."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from specroof.architecture import WEIGHT_FORMATS, Architecture, Experts, WeightFormat
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import MeasurementError
from specroof.evidence.points import BenchmarkPoint
from specroof.latency import Setup
from specroof.reading.yaml_text import shown
from specroof.speedup.round import proposals
from specroof.units import dtype_bytes

__all__ = ["refuse_other_drafts", "refuse_other_kinds", "refuse_other_setup"]

#: Kinds of a SPEC whose costs are shares, or none: they stand for whatever drafted.
_STAND_FOR_ANY: Final = frozenset({"ideal", "autoregressive", "block"})
_LOOKUPS: Final = frozenset({"ngram", "prompt_lookup", "suffix"})
#: The kinds that an algorithm may be priced as: SGLang 0.5.23 (`srt/speculative/spec_info.py`,
#: where NEXTN becomes EAGLE, or FROZEN_KV_MTP), and InferenceX.
_KINDS: Final = {
    "EAGLE": frozenset({"eagle", "mtp", "p_eagle"}),
    "NEXTN": frozenset({"eagle", "mtp"}),
    "FROZEN_KV_MTP": frozenset({"mtp"}),
    "MTP": frozenset({"eagle", "mtp"}),
    "EAGLE3": frozenset({"eagle3", "p_eagle"}),
    "STANDALONE": frozenset({"model", "pard"}),
    "NGRAM": _LOOKUPS,
    "DFLASH": frozenset({"dflash"}),
    "DSPARK": frozenset({"dspark"}),
}

#: Bits of a weight by what SGLang 0.5.23 (`srt/arg_groups/choices.py`) and InferenceX call its
#: format; other formats may have any number below 16.
_BITS: Final = {
    "fp8": 8,
    "w8a8_fp8": 8,
    "modelopt_fp8": 8,
    "mxfp8": 8,
    "w8a8_int8": 8,
    "int8": 8,
    "awq": 4,
    "awq_marlin": 4,
    "modelopt_fp4": 4,
    "nvfp4_online": 4,
    "petit_nvfp4": 4,
    "mxfp4": 4,
    "quark_mxfp4": 4,
    "fp4": 4,
    "int4": 4,
}
#: What says that nothing is said, or that weights are as wide as activations.
_UNSAID: Final = frozenset({"", "auto", "none", "unquant", "bf16", "bfloat16", "fp16"})

#: Dtypes of a cache, by what SGLang 0.5.23 calls them.
_CACHES: Final = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "mxfp8": "fp8",
    "nvfp4": "fp4",
    "fp4_e2m1": "fp4",
    "fp4_mx_block16": "fp4",
}


def refuse_other_kinds(points: Iterable[BenchmarkPoint], kind: str) -> None:
    """Refuse results of another way to draft than the one that is to be priced.

    Parameters
    ----------
    points
        Results, which may say what drafted.
    kind
        The word that the drafter's SPEC begins with.

    Raises
    ------
    MeasurementError
        One line with both; algorithms that nobody has listed go with any kind.
    """
    if kind in _STAND_FOR_ANY:
        return
    for point in points:
        kinds = _KINDS.get((point.algorithm or "").upper())
        if kinds is not None and point.draft_len and kind not in kinds:
            message = (
                f"{point.place}: speculative_algorithm is {shown(point.algorithm)}, and --drafter "
                f"is of kind {kind!r}; allowed: {', '.join(sorted(kinds | _STAND_FOR_ANY))}"
            )
            raise MeasurementError(message)


def refuse_other_drafts(point: BenchmarkPoint, drafter: Drafter, tokens: TokensPerRound) -> None:
    """Refuse a tree where a chain is to be priced, and the other way round.

    Parameters
    ----------
    point
        A result with drafts, which may say how many children each of them has.
    drafter, tokens
        What is to be priced, and how much of it is accepted.

    Raises
    ------
    MeasurementError
        One line with both.
    """
    # What SGLang's n-gram search finds is a tree by default, and costs what as many drafts do.
    if point.top_k is None or (point.algorithm or "").upper() == "NGRAM":
        return
    proposed = proposals(drafter, tokens, np.array([point.draft_len]))
    branches = bool(proposed.verify_len[0] > point.draft_len + 1)
    if branches != (point.top_k > 1):
        measured, priced = ("a chain", "a tree") if branches else ("a tree", "a chain")
        allowed = "without tree=" if branches else "with tree="
        message = (
            f"{point.place}: speculative_eagle_topk is {point.top_k}, {measured} of drafts, and "
            f"drafter {shown(drafter.name)} is {priced}; allowed: a SPEC {allowed}"
        )
        raise MeasurementError(message)


def refuse_other_setup(points: Iterable[BenchmarkPoint], model: Architecture, setup: Setup) -> None:
    """Refuse results of another placement, or of other formats, than are to be priced.

    Parameters
    ----------
    points
        Results, which may say how they were served.
    model, setup
        What is to be priced.

    Raises
    ------
    MeasurementError
        One line with what the result says, and with what is priced.
    """
    devices, expert_devices = setup.placement.tensor_parallel, setup.placement.expert_parallel
    forms = _weight_formats(model, setup)
    for point in points:
        if point.tensor_parallel not in {None, devices}:
            message = (
                f"{point.place}: tensor parallelism is {point.tensor_parallel}; --tp is {devices}"
            )
            raise MeasurementError(message)
        if point.expert_parallel not in {None, expert_devices}:
            message = (
                f"{point.place}: expert parallelism is {point.expert_parallel}; --ep is "
                f"{expert_devices}"
            )
            raise MeasurementError(message)
        _refuse_other_weights(point, model, forms)
        _refuse_other_cache(point, model, setup)


def _weight_formats(model: Architecture, setup: Setup) -> Sequence[WeightFormat]:
    """Return the formats that projections and experts are priced in."""
    if setup.options.weight_dtype is not None:
        return [WEIGHT_FORMATS[setup.options.weight_dtype]]
    blocks = [block for layer in model.layers for block in layer.blocks]
    forms = [linear.weight for block in blocks for linear in block.linears]
    forms += [block.core.weight for block in blocks if isinstance(block.core, Experts)]
    return list(dict.fromkeys(forms))


def _refuse_other_weights(
    point: BenchmarkPoint, model: Architecture, forms: Sequence[WeightFormat]
) -> None:
    named = (point.quantization or "").casefold()
    if named in _UNSAID:
        return
    # Block scales add less than a bit.
    bits = [int(8 * form.element_bytes) for form in forms]
    if not (_BITS[named] in bits if named in _BITS else min(bits) < 16):
        message = (
            f"{point.place}: quantization is {shown(point.quantization)}, and {model.name} is "
            f"predicted with weights of {', '.join(form.name for form in forms)}; allowed: the "
            f"same, by --weights or another --model"
        )
        raise MeasurementError(message)


def _refuse_other_cache(point: BenchmarkPoint, model: Architecture, setup: Setup) -> None:
    named, chosen = (point.kv_cache or "").casefold(), setup.options.kv_dtype
    if named in {"", "auto"}:
        return
    priced = chosen or model.kv_dtype
    known = _CACHES.get(named)
    # Who names a format for a cache that nobody has listed knows what it is.
    same = chosen is not None if known is None else dtype_bytes(known) == dtype_bytes(priced)
    if not same:
        message = (
            f"{point.place}: kv_cache_dtype is {shown(point.kv_cache)}, and {model.name} is "
            f"predicted with {priced}; allowed: the same, by --kv-cache"
            f"{'' if known is None else f' {known}'}"
        )
        raise MeasurementError(message)
