"""Seconds of drafting: one function a kind, and the table of kinds that a SPEC may name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from specroof.drafters.base import Drafter, DraftTime, Round, TokensPerRound
from specroof.drafters.shares import autoregressive_drafter, block_drafter, ideal_drafter
from specroof.errors import OptionError

__all__ = [
    "KINDS",
    "DraftTime",
    "Drafter",
    "Kind",
    "Round",
    "TokensPerRound",
    "autoregressive_drafter",
    "block_drafter",
    "ideal_drafter",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of drafter, as a SPEC spells it.

    Parameters
    ----------
    build
        From the kind's own numbers and the name to use, to the drafter.
    keys
        The kind's own keys, and what each means.
    required
        Keys that must be there; of a group, exactly one.
    """

    build: Callable[[Mapping[str, float], str], Drafter]
    keys: Mapping[str, str]
    required: tuple[tuple[str, ...], ...] = ()


def _block(values: Mapping[str, float], name: str) -> Drafter:
    if "drafts" in values:
        return block_drafter(values["cost"], drafts=_whole("drafts", values["drafts"]), name=name)
    block = _whole("block", values["block"])
    if block < 2:
        msg = f"block is {block}; allowed: from 2 (one anchor and one draft) to 4097"
        raise OptionError(msg)
    return block_drafter(values["cost"], drafts=block - 1, name=name)


def _whole(key: str, value: float) -> int:
    if not float(value).is_integer():
        msg = f"{key} is {value:g}; allowed: a whole number"
        raise OptionError(msg)
    return int(value)


#: Every kind that a SPEC may begin with.
KINDS: Final[dict[str, Kind]] = {
    "ideal": Kind(lambda _values, _name: ideal_drafter(), keys={}),
    "autoregressive": Kind(
        lambda values, name: autoregressive_drafter(values["cost"], name=name),
        keys={"cost": "share of the target's plain step per draft token"},
        required=(("cost",),),
    ),
    "block": Kind(
        _block,
        keys={
            "cost": "share of the target's plain step per block",
            "block": "positions of a block: one anchor, the rest drafts",
            "drafts": "drafts of a block",
        },
        required=(("cost",), ("block", "drafts")),
    ),
}
