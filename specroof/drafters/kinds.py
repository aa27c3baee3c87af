"""The kinds of drafter that a SPEC may begin with, and how each is built from its keys."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from specroof.arrays import number_within
from specroof.drafters.base import Drafter
from specroof.drafters.blocks import BLOCK_KINDS, head_block_drafter
from specroof.drafters.heads import HEAD_KINDS, head_drafter, medusa_drafter
from specroof.drafters.lookup import lookup_drafter
from specroof.drafters.placed import Where
from specroof.drafters.shares import autoregressive_drafter, block_drafter, ideal_drafter
from specroof.drafters.tree_shapes import MOST_NODES, dynamic_tree, expansion_tree, optimal_tree
from specroof.drafters.trees import with_tree
from specroof.errors import reject
from specroof.units import BOUNDS

Values = Mapping[str, Any]

#: Nodes times children of a sequoia tree: its search takes a second at the usual depths.
_MOST_SHARES: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of drafter, as a SPEC spells it.

    Parameters
    ----------
    build
        From the kind's own values and the name to use, to the drafter.
    keys
        The kind's own keys, and what each means.
    required
        Keys that must be there; of a group, exactly one.
    reads
        Keys whose value is not a number: ``"drafter"`` and ``"model"`` (a config), ``"hardware"``
        (a profile), ``"numbers"`` (separated by slashes) or ``"text"``.
    """

    build: Callable[[Values, str], Drafter]
    keys: Mapping[str, str]
    required: tuple[tuple[str, ...], ...] = ()
    reads: Mapping[str, str] = field(default_factory=dict)


_WHERE: Final = {
    "tp": "devices that the drafter is split over, where they are not all of the target's",
    "device": "hardware of the drafter's own: a file, a name or an alias",
    "link": "bytes/s between the target and that device",
    "link-latency": "seconds that a message takes there",
    "overlap": "share of rounds whose draft is made while the round before is verified: 1 is "
    "PEARL, less is speculative speculative decoding",
}
_WHERE_QUANTITIES: Final = {"link": "bytes_per_s", "link-latency": "seconds", "overlap": "share"}
_TREE: Final = {
    "tree": "eagle2, sequoia, or the children per node of each level, such as 3/2/1; draft "
    "lengths are then depths",
    "nodes": "drafts of an eagle2 or sequoia tree",
    "top-k": "nodes that an eagle2 tree expands per level, and children of each",
    "siblings": "where the first child is wrong, the share that the second, third, … gets right",
}
_READS: Final = {
    "config": "drafter",
    "device": "hardware",
    "tree": "text",
    "siblings": "numbers",
}
_CONFIG: Final = {"config": "its config: a file, a bundled name or a Hub name"}
_STEPS: Final = {"steps": "denoising steps: passes over the block"}
_BLOCK: Final = {
    "block": "positions of a block, its anchor included; up to the config's",
    "drafts": "drafts of a block; up to the config's",
}


def _block_share(values: Values, name: str) -> Drafter:
    if "drafts" in values:
        return block_drafter(values["cost"], drafts=_whole("drafts", values["drafts"]), name=name)
    block = _whole("block", values["block"])
    if not 2 <= block <= 4097:
        reject(f"block is {block}", "from 2 (one anchor and one draft) to 4097")
    return block_drafter(values["cost"], drafts=block - 1, name=name)


def _whole(key: str, value: float, most: int | None = None) -> int:
    if not float(value).is_integer() or (most is not None and not 1 <= value <= most):
        bounds = "" if most is None else f" from 1 to {most}"
        reject(f"{key} is {value:g}", f"a whole number{bounds}")
    return int(value)


def _where(values: Values) -> Where:
    """Return where a drafter runs; a separate device needs a link."""
    own = [key for key in ("device", "link", "link-latency") if key in values]
    if own and len(own) < 3:
        reject(f"{' and '.join(own)} without the rest", "device=, link= and link-latency=")
    for key, quantity in _WHERE_QUANTITIES.items():
        if key in values:
            number_within(key, values[key], quantity)
    return Where(
        hardware=values.get("device"),
        tensor_parallel=_whole("tp", values["tp"], int(BOUNDS["devices"].most))
        if "tp" in values
        else None,
        link_bytes_per_s=values.get("link"),
        link_latency_s=values.get("link-latency", 0.0),
        hit_rate=values.get("overlap"),
    )


def _branching(drafter: Drafter, values: Values) -> Drafter:
    """Return the drafter with the tree that its SPEC asks for, if any."""
    stray = [key for key in ("nodes", "top-k", "siblings") if key in values]
    if "tree" not in values:
        if stray:
            reject(f"{stray[0]} is given without tree=", _TREE["tree"])
        return drafter
    siblings = tuple(values.get("siblings", ()))
    tree = values["tree"]
    if tree not in {"eagle2", "sequoia"}:
        return _static(drafter, tree, siblings, stray)
    needed = ("nodes", "top-k") if tree == "eagle2" else ("nodes",)
    if {*stray} - {"siblings"} != set(needed):
        wanted = " and ".join(f"{key}=" for key in needed)
        given = ", ".join(stray) or "nothing"
        reject(f"tree is {tree!r} with {given}", f"{wanted}, and siblings=")
    nodes = _whole("nodes", values["nodes"], MOST_NODES)
    label = f"{tree} trees of {nodes} drafts"
    if tree == "sequoia":
        _check_shared(nodes, len(siblings))
        return with_tree(drafter, partial(optimal_tree, n_nodes=nodes), siblings, label=label)
    top_k = _whole("top-k", values["top-k"], len(siblings) + 1)
    grow = partial(dynamic_tree, top_k=top_k, n_nodes=nodes)
    return with_tree(drafter, grow, siblings, label=label)


def _check_shared(nodes: int, n_siblings: int) -> None:
    """Refuse a tree whose best shape takes minutes to find."""
    most = _MOST_SHARES // nodes - 1
    if n_siblings > most:
        reject(f"siblings has {n_siblings} shares", f"up to {most} with nodes={nodes}")


def _static(drafter: Drafter, tree: str, siblings: tuple[float, ...], stray: list[str]) -> Drafter:
    """Return the drafter with the children per node that `tree` lists."""
    try:
        branches = tuple(int(part) for part in tree.split("/"))
    except ValueError:
        branches = ()
    if not branches or min(branches) < 1:
        reject(f"tree is {tree!r}", _TREE["tree"])
    if {*stray} - {"siblings"}:
        reject(f"{stray[0]} is given with a static tree", "siblings=")
    if max(branches) > len(siblings) + 1:
        reject(f"tree is {tree!r} with {len(siblings)} siblings", "up to one child more")
    total, level = 0, 1
    for branch in branches:
        level *= branch
        total += level
    if total > MOST_NODES:
        reject(f"tree is {tree!r}, {total} drafts", f"up to {MOST_NODES}")
    return with_tree(
        drafter,
        partial(expansion_tree, branches),
        siblings,
        label=f"static trees of {total} drafts",
        depth=len(branches),
    )


def _head(kind: str, *, config: str = "drafter", tree: bool = True) -> Kind:
    """Return one of `HEAD_KINDS`; `config` is what its config holds."""
    required = HEAD_KINDS[kind].usual is None
    return _with_config(partial(head_drafter, kind), config=config, required=required, tree=tree)


def _blocks(kind: str) -> Kind:
    """Return one of `BLOCK_KINDS`."""
    steps = _STEPS if BLOCK_KINDS[kind].most_steps > 1 else {}
    return _with_config(partial(head_block_drafter, kind), _BLOCK | steps)


def _lookup(values: Values, name: str) -> Drafter:
    return lookup_drafter(
        match_rate=values.get("match", 1.0),
        round_s=values.get("round-s"),
        token_s=values.get("token-s", 0.0),
        name=name,
    )


def _with_config(
    build: Callable[..., Drafter],
    sizes: Mapping[str, str] | None = None,
    *,
    config: str = "drafter",
    required: bool = False,
    tree: bool = True,
) -> Kind:
    """Return a kind with `config=`, whole numbers as sizes, the keys of its place, and of trees."""
    keys = sizes or {}

    def built(values: Values, name: str) -> Drafter:
        if "block" in values and "drafts" in values:
            reject("block and drafts are given", "one of them")
        given = {key: _whole(key, values[key]) for key in keys if key in values}
        drafter = build(values.get("config"), name=name, where=_where(values), **given)
        return _branching(drafter, values)

    return Kind(
        built,
        keys={**_CONFIG, **keys, **_WHERE, **(_TREE if tree else {})},
        required=(("config",),) if required else (),
        reads={**_READS, "config": config},
    )


_LOOKUP: Final = Kind(
    _lookup,
    keys={
        "match": "share of rounds in which something is found (default: 1)",
        "round-s": "seconds on the host per round (default: as published)",
        "token-s": "seconds on the host per proposed token",
    },
)

#: Every kind that a SPEC may begin with.
KINDS: Final[dict[str, Kind]] = {
    "ideal": Kind(lambda _values, _name: ideal_drafter(), keys={}),
    "autoregressive": Kind(
        lambda values, name: autoregressive_drafter(values["cost"], name=name),
        keys={"cost": "share of the target's plain step per draft token"},
        required=(("cost",),),
    ),
    "block": Kind(
        _block_share,
        keys={
            "cost": "share of the target's plain step per block",
            "block": "positions of a block: one anchor, the rest drafts",
            "drafts": "drafts of a block",
        },
        required=(("cost",), ("block", "drafts")),
    ),
    "mtp": _head("mtp"),
    "eagle": _head("eagle"),
    "eagle3": _head("eagle3"),
    "medusa": _with_config(medusa_drafter),
    "dflash": _blocks("dflash"),
    "dspark": _blocks("dspark"),
    "p_eagle": _head("p_eagle", tree=False),
    "pard": _head("pard", tree=False),
    "model": _head("model", config="model"),
    "ngram": _LOOKUP,
    "prompt_lookup": _LOOKUP,
    "suffix": _LOOKUP,
}
