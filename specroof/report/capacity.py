"""The room of a server, line by line."""

from typing import Final

from specroof.questions.capacity import Capacity, Side
from specroof.report.layout import format_table, page
from specroof.units import format_binary_bytes

#: What people read of each line, in the order of the table.
_LINES: Final = {
    "memory": "memory of a device",
    "reserved": "- kept away: activations, graphs, the rest",
    "weights": "- weights",
    "vision_weights": "- weights of the vision tower",
    "draft_weights": "- weights of the drafter",
    "state_pool": "- pool of recurrent state",
    "cache_pool": "= pool of the cache",
    "cache_per_request": "cache of one request",
    "state_per_request": "recurrent state of one request",
}


def capacity_text(found: Capacity) -> str:
    """Return the memory line by line, a column for each drafter, and the largest batch."""
    names = ["plain", *map(_short, found.sides[1:])]
    lines = [side.lines for side in found.sides]
    rows = [
        [text, *("-" if key not in column else _amount(column[key]) for column in lines)]
        for key, text in _LINES.items()
        if any(key in column for column in lines)
    ]
    rows.append(["most requests", *(str(side.largest_batch) for side in found.sides)])
    rows.append(["limited by", *(side.bound_by for side in found.sides)])
    table = format_table(["", *names], rows)
    drafters = [f"{_short(side)}: {side.drafter}" for side in found.sides[1:]]
    return page(found, table, "\n".join(drafters))


def _short(side: Side) -> str:
    """Return the kind of a drafter, and its drafts."""
    return f"{(side.drafter or '').partition(',')[0]} γ={side.draft_len}"


def _amount(value: float) -> str:
    return f"-{format_binary_bytes(-value)}" if value < 0 else format_binary_bytes(value)
