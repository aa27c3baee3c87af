"""The engine of a chip without measurements: its family's kernels, overheads of fits."""

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
        reached = {"compute": family.compute_frac, "memory": family.memory_frac}
        faster = memory_bytes_per_s / self.memory_bytes_per_s
        engines = {
            key: with_memory(scaled_engine(one, **reached), faster)
            for key, one in self.engines.items()
        }
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


def with_memory(engine: EngineProfile, faster: float) -> EngineProfile:
    r"""Return an engine on a chip whose memory is so many times as fast as that of its fit.

    .. math:: t_{token} \propto \max(1, W / W_{fitted})^{-1/2}

    Parameters
    ----------
    engine
        Any.
    faster
        W / W_fitted, in bytes/s.

    Counts
        what a token adds to each layer (norms, activations) as shorter on a faster memory: the fits
        of Ampere, Hopper and Blackwell lie on powers of 0.53 and 0.61. A slower one makes it no
        longer: cards with less have larger caches.
    Source
        ``layer_token_share`` of the fits of this library, `specroof/engines/fits.json`.

    Examples
    --------
    >>> fitted = EngineProfile(name="generic", layer_token_overhead_s=2e-7)
    >>> [with_memory(fitted, faster).layer_token_overhead_s for faster in (4.0, 0.25)]
    [1e-07, 2e-07]
    """
    token_s = engine.layer_token_overhead_s / max(faster, 1.0) ** 0.5
    return replace(engine, layer_token_overhead_s=token_s)


def scaled_engine(engine: EngineProfile, *, compute: float, memory: float) -> EngineProfile:
    """Return an engine whose kernels reach so many times the share of a peak.

    Parameters
    ----------
    engine
        Any.
    compute, memory
        Factors of its shares of arithmetic, and of its shares of the memory's bytes/s.

    Examples
    --------
    >>> whole = EngineProfile(name="generic", compute_frac={"bf16": 1.0, "fp8": 0.8})
    >>> scaled_engine(whole, compute=0.5, memory=0.9).compute_frac["fp8"]
    0.4
    """
    tile = engine.expert_tile
    return replace(
        engine,
        compute_frac=_times(engine.compute_frac, compute),
        kind_compute_frac=_times(engine.kind_compute_frac, compute),
        prefill_compute_frac=_times(engine.prefill_compute_frac, compute),
        expert_tile=None if tile is None else tile.scaled(compute),
        memory_frac=engine.memory_frac * memory,
        kind_memory_frac=_times(engine.kind_memory_frac, memory),
    )


def _times(shares: Mapping[str, float], factor: float) -> dict[str, float]:
    return {key: share * factor for key, share in shares.items()}
