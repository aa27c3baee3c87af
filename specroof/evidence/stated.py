"""What results say of how they were served, against how they are to be predicted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from specroof.acceptance.typical import LOOKUPS
from specroof.cost import stored_as
from specroof.errors import MeasurementError, reject
from specroof.evidence.measurement import NAMES, Measurement
from specroof.hardware.engine import SERVER_KEYS, ServerSettings
from specroof.latency.setup import Deployment
from specroof.reading.yaml_text import shown
from specroof.units import DTYPE_BYTES

#: Kinds of a SPEC whose costs are shares, or none: they stand for any drafter.
_STAND_FOR_ANY: Final = frozenset({"ideal", "autoregressive", "block"})
#: The kinds that an algorithm may be priced as.
_KINDS: Final = {
    **{name: frozenset(kinds) for name, kinds in NAMES["drafter_kinds"].items()},
    "NGRAM": LOOKUPS,
}

#: Bits of a weight by the name of its format; other formats may have any number below 16.
_BITS: Final[Mapping[str, int]] = NAMES["weight_bits"]
#: What says that nothing is said, or that weights are as wide as activations.
_UNSAID: Final = frozenset({"", "auto", "none", "unquant", "bf16", "bfloat16", "fp16"})

#: Weights of a file, and their bytes, may differ from those of a model by this share: a head that
#: drafts, tensors that one quantizer leaves in more bits.
_ALIKE: Final = 0.05

#: Dtypes of a cache, by what SGLang and ggml call them.
CACHE_DTYPES: Final[Mapping[str, str]] = NAMES["cache_dtypes"]


def stated_drafts(points: Sequence[Measurement]) -> tuple[tuple[Measurement, ...], list[str]]:
    """Return points of several files once those that say nothing of drafts are settled.

    Beside results that say that they drafted, those that do not say did not: vLLM's client writes
    of drafts what a server that drafts counts.

    Returns
    -------
    tuple
        The points, and a note where nobody says whether anything was drafted.
    """
    silent = [point for point in points if not point.says_drafts]
    if any(point.says_drafts and point.drafts for point in points):
        return tuple(
            point if point.says_drafts else replace(point, draft_len=0) for point in points
        ), []
    plain = [point.place for point in silent if not point.drafts]
    if not plain:
        return tuple(points), []
    more = f" and {len(plain) - 1} more" if len(plain) > 1 else ""
    return tuple(points), [
        f"{plain[0]}{more}: does not say whether anything was drafted, and is taken for plain "
        f"decoding; if it drafted, state the draft length"
    ]


def refuse_other_kinds(points: Iterable[Measurement], kind: str) -> None:
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
        One line with both; algorithms that are not listed go with any kind.
    """
    if kind in _STAND_FOR_ANY:
        return
    for point in points:
        kinds = _KINDS.get((point.method or "").upper())
        if kinds is not None and point.drafts and kind not in kinds:
            reject(
                f"{point.place}: speculative_algorithm is {shown(point.method)}, and --drafter "
                f"is of kind {kind!r}",
                ", ".join(sorted(kinds | _STAND_FOR_ANY)),
                MeasurementError,
            )


def refuse_other_drafts(point: Measurement, drafter: str, *, branches: bool) -> None:
    """Refuse a tree where a chain is to be predicted, and the other way round.

    Parameters
    ----------
    point
        A result with drafts, which may say how many children each of them has, or how many
        positions are verified: more than a chain has are a tree's.
    drafter
        What is to be predicted.
    branches
        Whether its drafts are trees.

    Raises
    ------
    MeasurementError
        One line with both.
    """
    # What SGLang's n-gram search finds is a tree by default, and costs what as many drafts do.
    if (point.method or "").upper() == "NGRAM" or not (point.top_k or point.branches):
        return
    says = f"speculative_eagle_topk is {point.top_k}"
    if point.top_k is None:
        says = f"{point.verify_len} positions verify {point.draft_len} steps"
    if branches != point.branches:
        measured, priced = ("a chain", "a tree") if branches else ("a tree", "a chain")
        allowed = "without tree=" if branches else "with tree="
        reject(
            f"{point.place}: {says}, {measured} of drafts, and drafter {shown(drafter)} is {priced}",
            f"a SPEC {allowed}",
            MeasurementError,
        )


def refuse_other_setup(points: Iterable[Measurement], served: Deployment) -> None:
    """Refuse results of another placement, or of other formats, than are to be predicted.

    Parameters
    ----------
    points
        Results, which may say how they were served.
    served
        The model, and where they are to be predicted.

    Raises
    ------
    MeasurementError
        One line with what the result says, and with what is predicted.
    """
    model, placement, on_cpu = served.model, served.setup.placement, served.setup.hardware.is_cpu
    for point in points:
        for of, flag, measured, predicted in (
            ("tensor", "tp", point.tensor_parallel, placement.tensor_parallel),
            ("expert", "ep", point.expert_parallel, placement.expert_parallel),
        ):
            if measured not in {None, predicted}:
                message = f"{point.place}: {of} parallelism is {measured}; --{flag} is {predicted}"
                raise MeasurementError(message)
        # llama.cpp's last layer is the output (src/llama-model.cpp:2003, n_gpu_layers).
        layers, every = point.gpu_layers, model.n_layers + 1
        if layers is not None and (layers > 0 if on_cpu else layers < every):
            on_chip = f"with all {every} on the chip, the output among them"
            where = "on a CPU" if on_cpu else on_chip
            reject(
                f"{point.place}: {layers:g} layers ran on GPUs (gpu_info is {shown(point.gpus)}), "
                f"and {model.name} is predicted {where}",
                "the same, by -ngl or another --hardware",
                MeasurementError,
            )
        _refuse_other_weights(point, served)
        _refuse_other_cache(point, served)


def _refuse_other_weights(point: Measurement, served: Deployment) -> None:
    model, chosen = served.model, served.setup.options.weight_dtype
    held = model if chosen is None else stored_as(model, chosen)
    hint = f", which {point.file} names" if point.file else ""
    for what, measured, predicted, change in (
        ("weights", point.model_params, model.n_params, "another --model"),
        ("bytes of weights", point.model_bytes, held.weight_bytes, f"--weights{hint}"),
    ):
        if measured is not None and abs(measured / predicted - 1.0) > _ALIKE:
            reject(
                f"{point.place}: the file has {measured} {what}, and {model.name} is predicted "
                f"with {predicted:.0f}",
                f"about as many, by {change}",
                MeasurementError,
            )
    refuse_other_formats(point, served)


def refuse_other_formats(point: Measurement, served: Deployment) -> None:
    """Refuse a result of weights in another format than is to be predicted.

    Parameters
    ----------
    point
        A result, which may say how its weights were quantized.
    served
        What is to be predicted.

    Raises
    ------
    MeasurementError
        One line with both; of formats that are not listed, any below 16 bits go together.
    """
    named = (point.quantization or "").casefold()
    if named in _UNSAID:
        return
    bits = served.weight_bits
    if not (_BITS[named] in bits.values() if named in _BITS else min(bits.values()) < 16):
        reject(
            f"{point.place}: quantization is {shown(point.quantization)}, and {served.model.name} is "
            f"predicted with weights of {', '.join(bits)}",
            "the same, by --weights or another --model",
            MeasurementError,
        )


def _refuse_other_cache(point: Measurement, served: Deployment) -> None:
    named = (point.kv_cache or "").casefold()
    if named in {"", "auto"}:
        return
    known = CACHE_DTYPES.get(named)
    # A user who names a format for an unlisted cache knows the format.
    same = served.setup.options.kv_dtype is not None
    if known is not None:
        measured, predicted = (DTYPE_BYTES.get(name, name) for name in (known, served.kv_dtype))
        same = measured == predicted
    if not same:
        reject(
            f"{point.place}: kv_cache_dtype is {shown(point.kv_cache)}, and {served.model.name} is "
            f"predicted with {served.kv_dtype}",
            f"the same, by --kv-cache{'' if known is None else f' {known}'}",
            MeasurementError,
        )


def server_told(points: Sequence[Measurement], asked: ServerSettings) -> ServerSettings:
    """Return the settings of the server behind results: those stated, and those all results share.

    Results share what each one that says anything of its server says: a limit that only drafting
    servers state does not hold for the plain one beside them, which has its default. Where every
    plain result overlaps and none with drafts does, they share ``overlap=plain``.

    Parameters
    ----------
    points
        Results, which may say what their server was told.
    asked
        What is stated for the prediction.

    Raises
    ------
    MeasurementError
        If a result says otherwise: one line with the setting, and both values.
    """
    servers = [(point, point.server) for point in points if point.server is not None]
    for point, server in servers:
        measured = server.stated
        for key, value in asked.stated.items():
            expected = not point.drafts if value == "plain" else value
            if measured.get(key, expected) != expected:
                reject(
                    f"{point.place}: the server ran with {key} {measured[key]}, and server states "
                    f"{key} {value}",
                    f"the same, or to leave {key} out",
                    MeasurementError,
                )
    shared = [set(server.stated.items()) for _, server in servers]
    agreed: dict[str, Any] = {
        SERVER_KEYS[key]: value for key, value in (set.intersection(*shared) if shared else ())
    }
    overlaps = {(point.drafts, server.overlap) for point, server in servers}
    if asked.overlap == "plain" or overlaps == {(False, True), (True, False)}:
        agreed["overlap"] = "plain"
    return replace(asked, **agreed)
