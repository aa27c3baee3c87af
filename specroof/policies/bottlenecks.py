"""The bottlenecks of a speedup: what it would be without each."""

from dataclasses import dataclass, replace

from specroof.speedup.result import speedup_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundBreakdown:
    """One operating point with drafts, beside plain decoding at the same load.

    Parameters
    ----------
    draft_len, tokens_per_round
        Drafts, and the tokens that a round commits with the bonus token.
    draft_s, verify_s, round_s
        Seconds of a round and of its parts.
    decode_s
        Seconds of the plain step at its own batch.
    running, plain_running
        Requests that are decoded at a time, with drafts and without.
    wait_s, plain_wait_s
        Seconds that a request keeps the batch waiting, with drafts and without.
    latency_s, output_len
        Seconds that it loses alone, and the tokens of its answer.
    """

    draft_len: int
    tokens_per_round: float
    draft_s: float
    verify_s: float
    round_s: float
    decode_s: float
    running: float
    plain_running: float
    wait_s: float = 0.0
    plain_wait_s: float = 0.0
    latency_s: float = 0.0
    output_len: float = 1.0

    @property
    def speedup(self) -> float:
        """Throughput over plain throughput, prefills counted.

        Source
            `specroof.speedup.result.speedup_of`, with what requests add to each token: see
            `specroof.serving.requests.end_to_end_tokens_per_s`.
        """
        token_s, plain_token_s = (
            (running * wait_s + self.latency_s) / self.output_len
            for running, wait_s in (
                (self.running, self.wait_s),
                (self.plain_running, self.plain_wait_s),
            )
        )
        return float(
            speedup_of(
                self.tokens_per_round,
                self.round_s + self.tokens_per_round * token_s,
                self.decode_s + plain_token_s,
                running=self.running,
                plain_running=self.plain_running,
            )
        )


def bottlenecks(point: RoundBreakdown) -> dict[str, float]:
    """Return the speedup without each thing that holds it back, the largest first.

    Parameters
    ----------
    point
        Where drafts are made.

    Returns
    -------
    dict
        ``memory``: as many requests run as without drafts; ``verification``: it takes no longer
        than a plain step; ``drafting``: it takes no time; ``acceptance``: every draft is
        accepted; ``prefill``: prompts take no time.

    Source
        One part taken away at a time, after Amdahl 1967, AFIPS 30, 483-485.

    Examples
    --------
    >>> point = RoundBreakdown(
    ...     draft_len=3,
    ...     tokens_per_round=2.0,
    ...     draft_s=0.5,
    ...     verify_s=1.5,
    ...     round_s=2.0,
    ...     decode_s=1.0,
    ...     running=8,
    ...     plain_running=8,
    ... )
    >>> point.speedup, bottlenecks(point)["acceptance"]  # 2 / 2, and 4 / 2
    (1.0, 2.0)
    """
    slower_s = max(point.verify_s - point.decode_s, 0.0)
    without = {
        "memory": replace(point, running=max(point.running, point.plain_running)),
        "verification": replace(point, round_s=point.round_s - slower_s),
        "drafting": replace(point, round_s=point.round_s - point.draft_s),
        "acceptance": replace(point, tokens_per_round=point.draft_len + 1.0),
        "prefill": replace(point, wait_s=0.0, plain_wait_s=0.0),
    }
    gained = {name: freed.speedup for name, freed in without.items()}
    return dict(sorted(gained.items(), key=lambda pair: -pair[1]))
