"""The memory that servers logged at startup, and the requests that fitted it."""

from typing import Any, Final

import pytest

from published_models import published
from specroof import capacity

LOGS: Final = published("server-memory-logs.yaml")
GIBIBYTE: Final = 2**30


@pytest.mark.golden
@pytest.mark.parametrize(
    "row", LOGS["vectors"], ids=lambda row: f"{row['hardware']}-{row['server']}"
)
def test_a_server_sees_the_memory_that_was_logged(row: dict[str, Any]) -> None:
    placed = {"engine": row["server"], "tensor_parallel": row["tensor_parallel"]}
    found = capacity(LOGS["options"]["model"], row["hardware"], **placed).sides[0]
    lines = found.lines
    seen = lines["memory"]
    if row["server"] == "sglang":  # shares out what is free: what is not reserved is a share of it
        seen = (seen - lines["reserved"]) / found.served.server.memory_frac
    least, most = min(row["gibibytes"]) * GIBIBYTE, max(row["gibibytes"]) * GIBIBYTE
    assert (1 - LOGS["tolerance"]) * least <= seen <= (1 + LOGS["tolerance"]) * most
    if "requests" in row:
        served = LOGS["options"]["served"]
        most_requests = capacity(
            served["model"], row["hardware"], context_len=served["context_len"], **placed
        )
        assert most_requests.sides[0].largest_batch == row["requests"]
