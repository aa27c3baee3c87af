"""The memory that servers logged at startup, and the requests and tokens that fitted it."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from published_models import published
from specroof import capacity

pytestmark = pytest.mark.golden

LOGS: Final = published("server-memory-logs.yaml")
POOLS: Final = published("server-pool-logs.yaml")
GIBIBYTE: Final = 2**30


@pytest.mark.parametrize(
    "row", LOGS["vectors"], ids=lambda row: f"{row['hardware']}-{row['server']}"
)
def test_a_server_sees_the_memory_that_was_logged(row: dict[str, Any]) -> None:
    placed = {"engine": row["server"], "tensor_parallel": row["tensor_parallel"]}
    found = capacity(LOGS["options"]["model"], row["hardware"], **placed).rows[0]
    seen = found.memory_bytes
    if row["server"] == "sglang":  # shares out what is free: what is not reserved is a share of it
        seen = (seen - found.reserved_bytes) / found.served.server.memory_frac
    least, most = min(row["gibibytes"]) * GIBIBYTE, max(row["gibibytes"]) * GIBIBYTE
    assert (1 - LOGS["tolerance"]) * least <= seen <= (1 + LOGS["tolerance"]) * most
    if "requests" in row:
        served = LOGS["options"]["served"]
        most_requests = capacity(
            served["model"], row["hardware"], context_len=served["context_len"], **placed
        )
        assert most_requests.rows[0].largest_batch == row["requests"]


@pytest.mark.parametrize("row", POOLS["vectors"], ids=lambda row: row["model"].split("/")[1])
def test_a_pool_holds_the_tokens_that_were_logged(
    row: dict[str, Any], model_configs_folder: Path, tmp_path: Path
) -> None:
    model = json.loads(
        (model_configs_folder / f"{row['model'].replace('/', '--')}.json").read_text()
    )
    if "fp8" in row:
        kept = [f"model.layers.{i}.mlp.gate" for i in range(model["num_hidden_layers"])]
        model["quantization_config"] = {
            "quant_method": "fp8",
            "weight_block_size": [128, 128],
            "modules_to_not_convert": ["lm_head", *kept],
        }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(model))
    placed = {"tensor_parallel": row["tensor_parallel"], **POOLS["options"]}
    (found,) = capacity(str(path), row["hardware"], **placed).rows
    # A request holds its context and the token that is decoded.
    tokens = found.cache_pool_bytes / found.cache_per_request_bytes * (placed["context_len"] + 1)
    logged = row["nominal"] / (1 + row["larger"])
    assert tokens == pytest.approx(logged, rel=POOLS["tolerance"])
