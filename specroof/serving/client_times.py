"""What a client of a busy server sees: the wait for the first token, and between tokens."""

import numpy as np
import numpy.typing as npt

from specroof.serving.requests import EndToEnd

__all__ = ["first_token_s", "token_interval_s"]

Array = npt.NDArray[np.float64]


def _service_s(whole: EndToEnd) -> Array:
    """Return the seconds of a request from the start of its prompt to its last token."""
    return np.asarray(whole.workload.output_len / whole.curve.tokens_per_s_per_user)


def first_token_s(whole: EndToEnd) -> Array:
    r"""Return the seconds from sending a request to its first token (TTFT); axes as in the curve.

    .. math:: w + l + (C - R) \, \frac{t}{R}

    A server that always runs R requests of t seconds ends one every t/R, and a new one waits
    for the C - R before it.

    Parameters
    ----------
    whole
        A curve with prefills counted: its requests keep the batch waiting w, and lose l alone.

    Ignores
        prompts that arrive together and wait for one another, and the transfer of text.
    Source
        Little 1961, Oper. Res. 9(3), for a closed loop: see `specroof.serving.queue.latency_s`.
    """
    running = whole.curve.running_batch
    waiting = whole.curve.batch_size[None, :, None] - running
    own_s = whole.wait_s + whole.latency_s
    return np.asarray(own_s + waiting * _service_s(whole) / running)


def token_interval_s(whole: EndToEnd) -> Array:
    r"""Return the mean seconds of a token after the first (TPOT); axes as in the curve.

    .. math:: \frac{t - w - l}{L}

    Parameters
    ----------
    whole
        A curve with prefills counted; the prompts of others stop the batch, and count.

    Source
        Counting: TTFT and L of these are the time of a request.
    """
    own_s = whole.wait_s + whole.latency_s
    return np.asarray((_service_s(whole) - own_s) / whole.workload.output_len)
