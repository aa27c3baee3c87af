"""The engine of a chip without measurements: its family's kernels, overheads of fits."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from specroof.hardware.engine import Collective, EngineProfile

#: The name of the engine of chips without a fitted one.
GENERIC: Final = "generic"


@dataclass(frozen=True, kw_only=True)
class ChipFamily:
    """What kernels reach on chips of one kind of matrix unit.

    Attributes
    ----------
    chips
        Words of their vendor's names; none for chips of any kind.
    compute_frac
        Share of the bf16 peak in large matmuls.
    memory_frac
        Share of the memory's bytes/s, weights of few rows.
    """

    chips: tuple[str, ...] = ()
    compute_frac: float
    memory_frac: float


@dataclass(frozen=True, kw_only=True)
class Generic:
    """What is known of chips in general.

    Attributes
    ----------
    engines
        By name: `GENERIC`, and the frameworks. Shares of arithmetic are relative to large bf16
        matmuls, shares of memory to the weights of few rows.
    families
        By name; the last is for chips of any kind.
    cards
        What an all-reduce costs between cards on a bus.
    card_bytes_per_s
        A link of at most so many bytes/s is a bus.
    memory_bytes_per_s
        Of the chips that `layer_token_overhead_s` of the engines was fitted on.
    """

    engines: Mapping[str, EngineProfile]
    families: Mapping[str, ChipFamily]
    cards: Collective
    card_bytes_per_s: float
    memory_bytes_per_s: float

    def family_of(self, chip: str) -> str:
        """Return the family of a chip by its name; the last family takes all others."""
        words = set(chip.replace("-", " ").replace("(", " ").replace(")", " ").split())
        for name, family in self.families.items():
            if words & set(family.chips):
                return name
        return list(self.families)[-1]

    def on_chip(
        self, chip: str, *, memory_bytes_per_s: float, link_bytes_per_s: float | None
    ) -> "GenericEngines":
        """Return the engines of a chip.

        Parameters
        ----------
        chip
            Its vendor's name.
        memory_bytes_per_s
            Of its memory.
        link_bytes_per_s
            Between its devices; None where that is not known.
        """
        name = self.family_of(chip)
        family = self.families[name]
        faster = memory_bytes_per_s / self.memory_bytes_per_s
        engines = {key: generic_engine(one, family, faster) for key, one in self.engines.items()}
        if link_bytes_per_s is not None and link_bytes_per_s <= self.card_bytes_per_s:
            engines = {key: replace(one, collective=self.cards) for key, one in engines.items()}
        return GenericEngines(engines=engines, family=name if family.chips else None)


@dataclass(frozen=True, kw_only=True)
class GenericEngines:
    """The generic engines of one chip.

    Attributes
    ----------
    engines
        As of `Generic`, with shares of the peaks.
    family
        Whose kernels its shares are; None for medians of all families.
    """

    engines: Mapping[str, EngineProfile]
    family: str | None

    def about(self, chip: str, engine: EngineProfile) -> str:
        """Return where the figures of one of them come from, in a sentence."""
        whose = "other chips" if self.family is None else self.family
        return (
            f"engine {engine.name} of {chip}: no engine was fitted to this chip; "
            f"kernel efficiency as measured on {whose}, overheads as fitted to other chips, "
            f"memory rules of {engine.framework or 'vllm'}"
        )


def generic_engine(
    relative: EngineProfile, family: ChipFamily, faster: float = 1.0
) -> EngineProfile:
    r"""Return an engine with the shares that kernels of a family reach.

    .. math:: t_{token} \propto \max(1, W / W_{fitted})^{-1/2}

    Parameters
    ----------
    relative
        As of `Generic.engines`.
    family
        The family.
    faster
        W / W_fitted, the chip's memory against the memory of the fits.

    Counts
        what a token adds to each layer (norms, activations) as shorter on a faster memory: the
        fits of Ampere, Hopper and Blackwell lie on powers of 0.53 and 0.61 of its bytes/s. A slower
        one makes it no longer: cards with less have larger caches.

    Examples
    --------
    >>> half = EngineProfile(name="generic", compute_frac={"bf16": 1.0, "fp8": 0.8})
    >>> generic_engine(half, ChipFamily(compute_frac=0.5, memory_frac=0.9)).compute_frac["fp8"]
    0.4
    """
    dense, moved = family.compute_frac, family.memory_frac
    tile = relative.expert_tile
    return replace(
        relative,
        compute_frac=_times(relative.compute_frac, dense),
        kind_compute_frac=_times(relative.kind_compute_frac, dense),
        prefill_compute_frac=_times(relative.prefill_compute_frac, dense),
        expert_tile=None if tile is None else tile.scaled(dense, most=math.inf),
        layer_token_overhead_s=relative.layer_token_overhead_s / max(faster, 1.0) ** 0.5,
        memory_frac=relative.memory_frac * moved,
        kind_memory_frac=_times(relative.kind_memory_frac, moved),
    )


def _times(shares: Mapping[str, float], factor: float) -> dict[str, float]:
    return {key: share * factor for key, share in shares.items()}
