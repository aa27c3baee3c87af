"""No test asserts seconds of a clock: what a loaded machine takes says nothing of the code."""

import re
from pathlib import Path

import pytest

from effort import cpu_bound, cpu_seconds

CLOCKS = re.compile(r"\b(?:perf_counter|monotonic)\b|\btime\.time\(|\bdatetime\.now\(")


def test_no_test_reads_a_clock() -> None:
    files = sorted(Path(__file__).parent.glob("*.py"))
    readers = [path.name for path in files if CLOCKS.search(path.read_text(encoding="utf-8"))]
    assert readers == [Path(__file__).name]  # which names them


def test_work_beyond_its_bound_fails_and_waiting_costs_nothing() -> None:
    assert cpu_seconds(lambda: sum(range(300_000))) > 0
    with pytest.raises(AssertionError, match="of the processor"), cpu_bound(1e-6):
        sum(range(300_000))
    with cpu_bound(60):
        pass
