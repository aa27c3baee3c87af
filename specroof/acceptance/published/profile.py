"""One measured acceptance: what was drafted for what, how often it was accepted, who says so."""

from dataclasses import dataclass, replace
from typing import Final

from specroof.acceptance import Acceptance, lengths_acceptance, survival_acceptance
from specroof.acceptance.extrapolation import extrapolated_acceptance
from specroof.acceptance.typical import SHAPES, acceptance_from_length
from specroof.errors import reject

#: What engines call the length of a draft, and how many more drafts there are than they say.
DRAFT_COUNTS: Final = {
    "drafts": 0,
    "num_speculative_tokens": 0,
    "num_draft_tokens": -1,
    "block_size": -1,
}


@dataclass(frozen=True, slots=True)
class AcceptanceProfile:
    """A published or measured acceptance of one drafter for one model on one task.

    Parameters
    ----------
    name
        What `profile=` calls it.
    model, drafter, task, engine
        What was measured; empty where the source does not say.
    drafter_family
        The family of drafters whose typical shape stands in where one length is known: a key of
        `specroof.acceptance.typical.SHAPES`; empty for none.
    temperature
        Of sampling; None where the source does not say.
    survival
        s_1 … s_γ, where acceptance by position was measured; else empty.
    lengths
        Pairs of a number of drafts and the tokens per round measured with it, **bonus token
        included** whatever the source prints; else empty.
    counted
        What the source prints, and whether the bonus token is in.
    n_rounds
        Rounds that were counted; None where the source does not say.
    source, note
        Where it stands, and what to know about it.
    """

    name: str
    model: str = ""
    drafter: str = ""
    drafter_family: str = ""
    task: str = ""
    temperature: float | None = None
    engine: str = ""
    survival: tuple[float, ...] = ()
    lengths: tuple[tuple[int, float], ...] = ()
    counted: str = ""
    n_rounds: int | None = None
    source: str = ""
    note: str = ""

    @property
    def draft_len(self) -> int:
        """Drafts per round of the measurement, the longest where there were several."""
        return len(self.survival) or max(drafts for drafts, _ in self.lengths)

    @property
    def n_measured(self) -> int:
        """Numbers that were measured: a law with more of them says nothing."""
        return len(self.survival) or len(self.lengths)

    @property
    def tokens_per_round(self) -> float:
        """Measured tokens per round at `draft_len` drafts, bonus token included."""
        if self.survival:
            return 1.0 + sum(self.survival)
        return dict(self.lengths)[self.draft_len]

    def acceptance(self, extrapolate: str | None = None) -> Acceptance:
        """Return the survival curve, which ends at the measured depth.

        Parameters
        ----------
        extrapolate
            A name of `specroof.acceptance.extrapolation.EXTRAPOLATIONS`, to go on past that depth.

        Counts
            acceptance by position as it stands; several lengths by their differences
            (`lengths_acceptance`); one length by the typical shape of such drafters
            (`acceptance_from_length`).
        Ignores
            that per-request means of acceptance length, which model cards print, lie up to 15 %
            above the pooled ratio that throughput follows.
        Source
            the profile's own.

        Raises
        ------
        OptionError
            For values that no drafter can have, or an unknown extrapolation.

        Examples
        --------
        >>> profile = AcceptanceProfile("mine", model="Qwen3-8B", lengths=((2, 1.75),))
        >>> profile.acceptance().tokens_per_round([2, 3])  # known to 2 drafts
        array([1.75,  nan])
        >>> profile.acceptance("zero").tokens_per_round(3)
        array(1.75)
        """
        curve = self._curve()
        described = replace(
            curve,
            description=f"profile {self.name} ({self._words()}): {curve.description}",
            measured_on=self.model or None,
            measured_depth=curve.max_draft_len,
            spread=(curve.spread[0], SHAPES[self.drafter_family].spread_beyond),
        )
        return extrapolated_acceptance(described, extrapolate) if extrapolate else described

    def _curve(self) -> Acceptance:
        if self.survival:
            return survival_acceptance(self.survival)
        if len(self.lengths) > 1:
            return lengths_acceptance(dict(self.lengths))
        ((drafts, length),) = self.lengths
        curve = acceptance_from_length(length, drafts, kind=self.drafter_family)
        return replace(curve, max_draft_len=drafts)

    def _words(self) -> str:
        said = (self.drafter, self.model and f"for {self.model}", self.task and f"on {self.task}")
        return " ".join(word for word in said if word) or "nothing said about it"


def draft_count(text: str) -> int:
    """Return how many tokens are drafted, from a count as an engine names it.

    Parameters
    ----------
    text
        A number, or NAME=NUMBER: vLLM's ``num_speculative_tokens`` counts drafts; SGLang's
        ``num_draft_tokens`` and DFlash's ``block_size`` count the token before them too. For
        chains only: a tree has more drafted tokens than depths.

    Source
        vLLM and SGLang's arguments of these names; Chen et al. 2026, DFlash, arXiv:2602.06036,
        whose block of 16 holds one anchor and 15 drafts.

    Raises
    ------
    OptionError
        For another name, or a count that leaves no draft.

    Examples
    --------
    >>> draft_count("7"), draft_count("num_speculative_tokens=7"), draft_count("block_size=16")
    (7, 7, 15)
    """
    name, equals, number = (part.strip() for part in text.rpartition("="))
    name = name if equals else "drafts"
    if name not in DRAFT_COUNTS:
        reject(f"drafts is {text!r}", f"a number after {', '.join(DRAFT_COUNTS)}")
    smallest = 1 - DRAFT_COUNTS[name]
    if not (number.isascii() and number.isdigit()) or not smallest <= int(number[:9]) <= 1_000_000:
        reject(f"{name} is {number[:40]!r}", f"a whole number from {smallest} to 1000000")
    return int(number) + DRAFT_COUNTS[name]
