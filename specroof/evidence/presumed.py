"""What measurements leave open, and what is presumed in its place: lengths, acceptance, trees."""

from functools import cache
from typing import Final

from specroof.acceptance import acceptance_from_length, accepted_at
from specroof.catalog import load_drafter
from specroof.drafters import Drafter, TokensPerRound
from specroof.drafters.kinds import KINDS
from specroof.errors import MeasurementError
from specroof.evidence.measurement import Measurement

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
_PRESUMED_LENGTHS: Final = (200.0, 1000.0)


def request_lengths(point: Measurement) -> tuple[float, float, float]:
    """Return prompt, answer and mean context of a request, as stated or presumed."""
    prompt, answer = _PRESUMED_LENGTHS
    prompt = point.input_len or prompt
    answer = point.output_len or answer
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
    return acceptance_from_length(committed_tokens(point), int(point.draft_len or 0))


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
