"""Print what changed between two releases of servers, fact by fact.

    python benchmarks/release_changes.py vllm-0.24.0 vllm-0.33.0

Each is a file of specroof/frameworks/, or a path, with the facts of the release that it is
the same as. Where a fact was read is left out.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specroof.frameworks import FOLDER, release_content


def facts(content: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each fact with its dotted key; refusals by what they refuse, not by their place."""
    if isinstance(content, Mapping) and content:
        for name, value in content.items():
            if name not in {"source", "sources"}:
                yield from facts(value, f"{key}.{name}".lstrip("."))
    elif isinstance(content, list) and content and isinstance(content[0], Mapping):
        for place, row in enumerate(content):
            if row.keys().isdisjoint({"kinds", "trees", "spread"}):
                yield from facts(row, f"{key}.{place}")
                continue
            where = f" on {' '.join(map(str, chips))}" if (chips := row.get("capabilities")) else ""
            shapes = [shape for shape in ("trees", "spread") if row.get(shape)]
            others = [f"all but {' '.join(row.get('others_than', ()))}".removesuffix(" but ")]
            for what in (*row.get("kinds", ()), *shapes):
                for family in row.get("families", others):
                    yield f"{key}: {what} for {family}{where}", row.get("instead", "refused")
    else:
        yield key, content


def read(name: str) -> dict[str, Any]:
    path = Path(name) if Path(name).exists() else FOLDER / f"{name.removesuffix('.yaml')}.yaml"
    return dict(facts(release_content(path)))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each fact that one of them lacks, or that differs."""
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key, "–"), after.get(key, "–")
        if old == new:
            continue
        if isinstance(old, list) and isinstance(new, list) and {*map(str, old)} != {*map(str, new)}:
            gone, more = (
                [str(one) for one in a if one not in b] for a, b in ((old, new), (new, old))
            )
            yield f"{key}: {' '.join([*(f'-{one}' for one in gone), *(f'+{one}' for one in more)])}"
        else:
            yield f"{key}: {old} → {new}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    given = parser.parse_args()
    for line in changes(read(given.before), read(given.after)):
        print(line)


if __name__ == "__main__":
    main()
