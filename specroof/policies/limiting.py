"""The limits of a speedup: the speedup without each, and the acceptance that pays."""

from dataclasses import dataclass, replace

from specroof.acceptance.typical import first_rate_of_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
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
            `specroof.serving.requests.end_to_end_tokens_per_s`.
        """
        token_s = self.round_s / self.tokens_per_round
        requests_s = (self.running * self.wait_s + self.latency_s) / self.output_len
        return self.running / (token_s + requests_s) / self.plain_rate

    @property
    def plain_rate(self) -> float:
        """Tokens per second without drafts, prefills counted."""
        waits_s = self.plain_running * self.plain_wait_s + self.latency_s
        return self.plain_running / (self.decode_s + waits_s / self.output_len)


def limits_of_speedup(point: Point) -> dict[str, float]:
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
    >>> point = Point(
    ...     draft_len=3,
    ...     tokens_per_round=2.0,
    ...     draft_s=0.5,
    ...     verify_s=1.5,
    ...     round_s=2.0,
    ...     decode_s=1.0,
    ...     running=8,
    ...     plain_running=8,
    ... )
    >>> point.speedup, limits_of_speedup(point)["acceptance"]  # 2 / 2, and 4 / 2
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
    gained = {name: one.speedup for name, one in without.items()}
    return dict(sorted(gained.items(), key=lambda pair: -pair[1]))


def least_tokens_per_round(point: Point, speedup: float = 1.0) -> float | None:
    r"""Return the acceptance length at which a round of these drafts reaches a speedup.

    .. math:: N = \frac{t_{round}}{R / (s \, x_0) - (R w + l) / L}

    Parameters
    ----------
    point
        Where drafts are made; its own acceptance does not matter.
    speedup
        s, over plain decoding at :math:`x_0` tokens per second.

    Returns
    -------
    float or None
        The bonus token included, and at least 1; None where even full acceptance is not enough.

    Ignores
        that the shape of a tree follows its acceptance.
    Source
        The speedup of `Point`, solved for N.

    Examples
    --------
    >>> point = Point(
    ...     draft_len=3,
    ...     tokens_per_round=2.0,
    ...     draft_s=0.5,
    ...     verify_s=1.5,
    ...     round_s=2.0,
    ...     decode_s=1.0,
    ...     running=8,
    ...     plain_running=8,
    ... )
    >>> least_tokens_per_round(point), least_tokens_per_round(point, 1.5)  # a round of two steps
    (2.0, 3.0)
    """
    requests_s = (point.running * point.wait_s + point.latency_s) / point.output_len
    token_s = point.running / (speedup * point.plain_rate) - requests_s
    if token_s <= 0 or point.round_s / token_s > point.draft_len + 1:
        return None
    return max(1.0, point.round_s / token_s)


def least_rate(point: Point, speedup: float = 1.0) -> float | None:
    """Return the constant acceptance rate at which a round of these drafts reaches a speedup.

    Parameters
    ----------
    point, speedup
        As for `least_tokens_per_round`.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, equation 1, solved for α.

    Examples
    --------
    >>> point = Point(
    ...     draft_len=1,
    ...     tokens_per_round=1.9,
    ...     draft_s=0.0,
    ...     verify_s=1.5,
    ...     round_s=1.5,
    ...     decode_s=1.0,
    ...     running=8,
    ...     plain_running=8,
    ... )
    >>> round(least_rate(point), 9)  # 1 + α = 1.5
    0.5
    """
    tokens = least_tokens_per_round(point, speedup)
    return None if tokens is None else first_rate_of_length(tokens - 1.0, point.draft_len, 0.0)
