"""How far the same load moves from one release of a server to another."""

import re
from collections import defaultdict
from functools import cache
from itertools import combinations
from operator import attrgetter

import numpy as np

from fitting.parameters import SERVERS
from specroof.evidence import load_served
from specroof.frameworks import known_releases, version_parts

#: What is the same of loads that are compared.
_LOAD = attrgetter(
    *("model", "quantization", "hardware", "engine", "kv_cache", "reading", "draft_len"),
    *("tensor_parallel", "expert_parallel", "attention_data_parallel"),
    *("input_len", "output_len", "shortest", "concurrency"),
)


def release_tag(server: str, version: str) -> str:
    """Return the numbers of a version that tell releases of a server apart; empty without any.

    Examples
    --------
    >>> release_tag("vllm", "vLLM 0.10.1"), release_tag("sglang", "0.5.1.post1")
    ('0.10', '0.5.1')
    """
    known = [version_parts(name) for name in known_releases(server)]
    differ = [len({*numbers}) > 1 for numbers in zip(*known, strict=False)]
    more = differ.index(True) if True in differ else 1
    found = re.search(rf"\b\d+(\.\d+){{{more}}}", version)
    return found.group() if found else ""


@cache
def drifts() -> dict[str, tuple[float, float]]:
    """Return what bands gain in releases that nobody timed, by server: of speedups, and of times.

    Of a model on a chip in two releases the change of TPOT is the median over its loads; of a
    server, the median size of these changes. That of TPOT with drafts over TPOT without is the
    speedup's. A server whose releases were not compared has the largest of the others.
    """
    times: dict[object, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for load in load_served():
        tag = release_tag(load.engine or "", load.engine_version)
        if tag and load.tpot_s:
            times[_LOAD(load)][tag].append(load.tpot_s)
    moves: dict[tuple[str, ...], dict[bool, list[float]]] = defaultdict(lambda: defaultdict(list))
    for load in load_served():
        releases = times.pop(_LOAD(load), {})
        for older, newer in combinations(sorted(releases, key=version_parts), 2):
            place = (load.engine or "", load.model or "", load.hardware or "", older, newer)
            change = np.log(np.median(releases[newer]) / np.median(releases[older]))
            moves[place][load.drafts].append(float(change))
    of_times, of_speedups = defaultdict(list), defaultdict(list)
    for (server, *_), changes in moves.items():
        medians = {drafted: float(np.median(values)) for drafted, values in changes.items()}
        if False in medians:
            of_times[server].append(abs(medians[False]))
        if len(medians) == 2:
            of_speedups[server].append(abs(medians[True] - medians[False]))

    def typical(found: dict[str, list[float]], server: str) -> float:
        known = {name: float(np.median(sizes)) for name, sizes in found.items()}
        return round(known.get(server, max(known.values())), 3)

    return {server: (typical(of_speedups, server), typical(of_times, server)) for server in SERVERS}
