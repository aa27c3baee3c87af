"""A server's own counts as load, acceptance and the seconds of a round."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from specroof.acceptance import Acceptance, acceptance_from_length, survival_acceptance
from specroof.errors import MeasurementError, reject
from specroof.serving.metrics import Counted

#: How much larger a counter may be than another that holds it, when pages are read.
_READ_APART: Final = 1.05
#: Of rounds that draft, these may lack a draft: the last of a request, a page read halfway.
NEARLY_ALL: Final = 0.98
#: A mean draft shorter than the longest by more than this is one that varies.
_VARIES: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """How a server fared.

    Parameters
    ----------
    framework, model, ranks
        What it is, the name under which it serves, and ranks with separate requests.
    seconds
        Between the pages; None where that is not known.
    running, waiting
        Requests that are decoded at a time, and that wait, over all ranks; None if not shown.
    running_from
        How the first was found.
    tokens_per_s
        Tokens generated; None where no time is known.
    speculates
        Whether drafts are made.
    draft_len
        Drafts per request and round, the mean; None as below.
    longest
        The most drafts of a round; None without speculation, or where the server does not show it.
    verified
        Positions of a round that are verified, the root included; None where a server does not show
        them.
    rounds
        Rounds of single requests that were counted, those without a draft included.
    drafted_frac
        Share of rounds that drafted; None where a server does not count the others.
    tokens_per_round
        The bonus token included; None where no round was counted.
    length_from
        How it was found.
    survival
        Share of rounds whose first d drafts were all accepted; empty where a server does not say.
    round_s, round_from
        Seconds of a round, or of a plain step, as requests feel it; and how it was found.
    input_len, output_len
        Mean tokens of requests that ended; None where none did.
    prefix_hit_rate
        Share of the prompts' tokens that was cached; 0 where a server does not say.
    notes
        Sentences for the reader.
    """

    framework: str
    model: str
    ranks: int
    seconds: float | None
    running: float | None
    running_from: str
    waiting: float | None
    tokens_per_s: float | None
    speculates: bool = True
    draft_len: float | None = None
    longest: int | None = None
    verified: int | None = None
    rounds: float
    drafted_frac: float | None
    tokens_per_round: float | None = None
    length_from: str = ""
    survival: tuple[float, ...]
    round_s: float | None
    round_from: str
    input_len: float | None
    output_len: float | None
    prefix_hit_rate: float = 0.0
    notes: tuple[str, ...] = ()


def observed(found: Counted, seconds: float | None) -> Observed:
    r"""Return load, acceptance and the time of a round from what a server counted.

    With g the summed seconds between outputs of a request, one of them every round,

    .. math:: t_{round} = \frac{g}{\text{outputs}}, \quad R = \frac{g}{\Delta t}

    and without them :math:`t_{round} = R N \Delta t / \text{tokens}`.

    Parameters
    ----------
    found
        Counters, over one time.
    seconds
        How long that was; None if unknown.

    Counts
        prefills that stop a batch as part of the rounds that they delay, since requests feel them.
    Ignores
        requests that began or ended between the pages: half a gap of each.

    Raises
    ------
    MeasurementError
        Where more drafts were accepted than made.

    Source
        Little 1961, Operations Research 9, 383: requests in a system are those that arrive, times
        the seconds that each stays. vLLM observes a gap for each output of a request, SGLang its
        share for each token.
    """
    counts = found.counts
    # Where a server counts the time of answers, not their outputs, each token but accepted drafts
    # is one; the first of an answer, which comes from its prefill, is a round without a draft.
    if "gaps" not in counts and {"gap_s", "tokens"} <= counts.keys():
        counts = {**counts, "gaps": max(counts["tokens"] - counts.get("accepted", 0.0), 0.0)}
        found = replace(found, counts=counts)
    # After a restart, the counters are of an unknown part of the time.
    known = None if found.restarted or not seconds else seconds
    rounds = _all_rounds(found)
    # Processes of one server are read one after another, while they count on.
    made, accepted = (counts.get(key, math.nan) for key in ("drafts", "accepted"))
    if accepted > _READ_APART * made:  # a page that is damaged or put together
        name = found.server.prefix + found.server.counters["accepted"]
        allowed = f"at most {made:g}, the drafts that were made"
        reject(f"{name}: {accepted:g} drafts were accepted", allowed, MeasurementError)
    drafting = _drafting(found, rounds)
    running, running_from = found.gauges.get("running"), "as the server showed it"
    if known and counts.get("gap_s"):
        running = counts["gap_s"] / known
        running_from = "time between outputs, summed, by wall time"
    # Where each round is a verification, all of them drafted.
    counts_all = found.server.gap_of_each_token or "gaps" in counts
    rate = counts["tokens"] / known if known and "tokens" in counts else None
    round_s, round_from = _round(found, drafting.get("tokens_per_round"), running, rate)
    seen = Observed(
        framework=found.release.framework,
        model=found.model,
        ranks=found.ranks,
        seconds=known,
        running=running,
        running_from=running_from,
        waiting=found.gauges.get("waiting"),
        tokens_per_s=rate,
        rounds=rounds,
        drafted_frac=counts["rounds"] / rounds if rounds and counts_all else None,
        survival=_survival(found.accepted_at, rounds),
        round_s=round_s,
        round_from=round_from,
        input_len=_ratio(counts, "input_tokens", "requests"),
        output_len=_ratio(counts, "output_tokens", "requests"),
        prefix_hit_rate=min(_ratio(counts, "cached_tokens", "prompt_tokens") or 0.0, 1.0),
        **drafting,
    )
    return replace(seen, notes=tuple(_notes(found, seen)))


def measured_acceptance(seen: Observed, kind: str) -> Acceptance | None:
    """Return the curve behind what a server counted; None where no round was counted.

    Parameters
    ----------
    seen
        What was observed.
    kind
        What drafts, as a SPEC calls it: the shape of a curve that is known by its length alone.

    Counts
        rounds that drafted, where a server counts the others too: a look-up that finds nothing, and
        drafting that is switched off for a while, accept no less.
    Source
        By position, as counted, where drafts are all of one length; else `acceptance_from_length`.

    Examples
    --------
    >>> from specroof.reading.metrics_text import Sample
    >>> from specroof.serving.metrics import counted
    >>> spec, at = "vllm:spec_decode_num_", "accepted_tokens_per_pos_total"
    >>> page = [
    ...     Sample(f"{spec}drafts_total", {}, 100.0),
    ...     Sample(f"{spec}draft_tokens_total", {}, 200.0),
    ...     Sample(f"{spec}accepted_tokens_total", {}, 120.0),
    ...     Sample(f"{spec}{at}", {"position": "0"}, 80.0),
    ...     Sample(f"{spec}{at}", {"position": "1"}, 40.0),
    ... ]
    >>> seen = observed(counted([page], sources=["page"]), None)
    >>> measured_acceptance(seen, "eagle3").survival([1, 2])
    array([0.8, 0.4])
    """
    if seen.longest is None or seen.tokens_per_round is None or seen.drafted_frac == 0:
        return None
    share = seen.drafted_frac or 1.0
    if seen.survival and not _varies(seen.draft_len, seen.longest):
        shares = np.minimum(np.asarray(seen.survival) / share, 1.0)
        found = survival_acceptance(shares.tolist())
    else:
        # A length between two counts as the nearest: what it says of others is a law anyway.
        drafts = max(round(seen.draft_len or 1.0), 1)
        length = min(1.0 + (seen.tokens_per_round - 1.0) / share, drafts + 1.0)
        found = acceptance_from_length(length, drafts, kind=kind)
    return replace(found, n_rounds=share * seen.rounds)


#: Where a server makes no drafts.
_NO_DRAFTS: Final = {"speculates": False, "tokens_per_round": 1.0}


def _drafting(found: Counted, rounds: float) -> dict[str, Any]:
    """Return what there is to say of drafts, by the fields of `Observed`."""
    counts = found.counts
    if found.server.settings:
        return _drafting_by_settings(found)
    idle = found.server.counts_without_drafts and not (found.accepted_at or counts.get("rounds"))
    if "rounds" not in counts or idle:
        return _NO_DRAFTS
    mean = _ratio(counts, "drafts", "rounds")
    longest = len(found.accepted_at) or (None if mean is None else max(round(mean), 1))
    if not rounds or "accepted" not in counts:
        return {"longest": longest}
    return {
        "draft_len": mean,
        "longest": longest,
        "tokens_per_round": 1.0 + counts["accepted"] / rounds,
        "length_from": "1 + accepted drafts by rounds",
    }


def _all_rounds(found: Counted) -> float:
    """Return the rounds of single requests, with those that drafted nothing.

    Source
        vLLM 0.33.0: ``SpecDecodingStats.observe_draft`` is called for requests with drafts alone,
        and ``IterationStats.update_from_output`` notes a gap for each output but the first. What
        SGLang counts are verifications, of look-ups that found nothing as well.
    """
    if "rounds" not in found.counts:
        return 0.0
    gaps = 0.0 if found.server.gap_of_each_token else found.counts.get("gaps", 0.0)
    return max(found.counts["rounds"], gaps)


def _drafting_by_settings(found: Counted) -> dict[str, Any]:
    """Return the same of a server that shows its settings: steps, and positions verified.

    Counts
        a server that verifies, or shows a length, as one that drafts although it shows no
        positions: not every release of SGLang has that gauge.
    """
    steps, verified = (found.settings.get(key, 0.0) for key in ("steps", "verified"))
    rounds, ended = found.counts.get("rounds", 0.0), found.counts.get("requests", 0.0)
    shown = found.settings.get("length")
    drafts: float | None = None
    if verified > 1:
        # Block drafters take one step; look-ups count the root as one.
        drafts = verified - 1 if steps <= 1 else min(steps, verified - 1)
    elif not rounds and shown is None:
        return _NO_DRAFTS
    longest = None if drafts is None else max(round(drafts), 1)
    seen = {"draft_len": drafts, "longest": longest, "verified": round(verified) or None}
    why = "this release counts no verifications" if ended else "no request ended"
    how = f"as last shown: {why}"
    if rounds:
        # The first token of an answer comes from its prefill.
        shown = (found.counts.get("output_tokens", 0.0) - ended) / rounds
        how = "by verifications of requests that ended"
    if shown is None:
        return seen
    return {**seen, "tokens_per_round": max(shown, 1.0), "length_from": how}


def _survival(accepted_at: Sequence[float], rounds: float) -> tuple[float, ...]:
    if rounds <= 0:
        return ()
    # Counters are read one after another, while the server counts on.
    shares = np.minimum.accumulate(np.minimum(np.asarray(accepted_at) / rounds, 1.0))
    return tuple(shares.tolist())


def _round(
    found: Counted, length: float | None, running: float | None, rate: float | None
) -> tuple[float | None, str]:
    """Return the seconds of a round, and how they were found."""
    gap_s, gaps = (found.counts.get(key, 0.0) for key in ("gap_s", "gaps"))
    if length is None:
        return None, ""
    if gap_s > 0 and gaps > 0:
        if found.server.gap_of_each_token:
            return length * gap_s / gaps, "mean time between tokens × tokens per round"
        return gap_s / gaps, "mean time between outputs, one a round"
    if running and rate:
        return running * length / rate, "running × tokens per round ÷ tokens/s"
    return None, ""


def _varies(mean: float | None, longest: int | None) -> bool:
    return mean is not None and longest is not None and mean < longest * (1.0 - _VARIES)


def _notes(found: Counted, seen: Observed) -> Iterator[str]:
    if found.restarted:
        yield (
            "the server restarted between the two reads: counters cover an unknown time since then"
        )
    if found.ranks > 1:
        yield f"{found.ranks} ranks with separate requests, added up"
    if found.left_out:
        yield f"left out, since their values are not numbers from 0 on: {', '.join(found.left_out)}"
    if not seen.speculates:
        return
    if seen.longest is None:
        told = ": its /server_info says it, read with the metrics or saved beside them"
        yield (
            "the server drafts, and its metrics do not show how many"
            f"{told if found.server.settings else ''}"
        )
    if seen.drafted_frac is not None and seen.drafted_frac < NEARLY_ALL:
        yield (
            f"{seen.drafted_frac:.0%} of the rounds drafted: tokens per round count all of them, drafts per "
            f"round those alone"
        )
    if seen.tokens_per_round is None:
        yield "no round was counted: no request was being decoded, or the time was too short"
    if found.accepted_at and _varies(seen.draft_len, seen.longest):
        yield (
            f"drafts vary (mean {seen.draft_len:.2f} of {seen.longest}): shares by position are "
            f"too low beyond the shortest, so acceptance is taken at the mean length"
        )
    if {"steps", "verified"} & {*found.changed}:
        yield "the draft length changed between the reads: the second counts"
    steps, verified = (found.settings.get(key, 0.0) for key in ("steps", "verified"))
    if 1 < steps < verified - 1:
        yield f"a tree: {steps:g} steps, {verified:g} positions verified"


def _ratio(counts: Mapping[str, float], above: str, below: str) -> float | None:
    """Return one count by another; None where either is missing or nothing was counted."""
    return counts[above] / counts[below] if counts.get(below) and above in counts else None
