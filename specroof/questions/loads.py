"""The load of a question: sequences of one context, or requests."""

from dataclasses import dataclass

from specroof.errors import expect, refuse, reject
from specroof.questions.lists import listed
from specroof.questions.request import Served, Values
from specroof.serving.workload import Load, Workload


@dataclass(frozen=True, kw_only=True)
class ServedRequests(Served):
    """What is served, where, and to which requests.

    Parameters
    ----------
    input_len, output_len
        Tokens of a prompt and of an answer. They replace `context_len`, and prefills count.
    prefix_hit_rate
        Share of a prompt's tokens that the server has cached already; 0 if None.
    waves
        Whether requests come together: all at once, and the next when all of these are answered.
    """

    input_len: float | None = None
    output_len: float | None = None
    prefix_hit_rate: float | None = None
    waves: bool = False

    @property
    def workload(self) -> Workload | None:
        """The requests; None where a context is asked about.

        Raises
        ------
        OptionError
            For half of a request, or a part of it without its lengths.
        """
        prompt, answer, cached = self.input_len, self.output_len, self.prefix_hit_rate
        expect("waves", self.waves, bool, "True or False")
        if prompt is None and answer is None:
            if cached is not None:
                refuse("prefix_hit_rate", cached, "with the lengths of a request")
            if self.waves:
                refuse("waves", self.waves, "with the lengths of a request")
            return None
        if prompt is None or answer is None:
            missing = "input_len" if prompt is None else "output_len"
            reject(
                f"{missing} is missing",
                "both lengths of a request (tokens in and out), or neither",
            )
        return Workload(prompt, answer, 0.0 if cached is None else cached, self.waves)


def load_of(request: ServedRequests, batch_size: Values, context_len: Values | None) -> Load:
    """Return the load that a request asks about; a context of 4096 where it names none.

    Parameters
    ----------
    request
        The requests, if any.
    batch_size, context_len
        Sequences in flight and cached tokens of each, a number or a list each.

    Raises
    ------
    OptionError
        For requests beside a context, or half of a request.
    """
    if context_len is not None and (request.input_len, request.output_len) != (None, None):
        reject("context_len is given with input_len or output_len", "one of them")
    workload = request.workload
    if workload is not None:
        return Load(listed(batch_size), [workload.mean_context_len], workload)
    return Load(listed(batch_size), listed(4096.0 if context_len is None else context_len))


def refuse_one_token(workload: Workload | None) -> None:
    """Refuse answers of one token, where users wait for the tokens after the first.

    Raises
    ------
    OptionError
        For such requests.
    """
    if workload is not None and workload.output_len <= 1:
        refuse("output_len", workload.output_len, "more than 1 token of an answer")
