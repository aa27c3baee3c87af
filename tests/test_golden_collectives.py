"""Published seconds of collectives."""

from typing import Any, Final

import pytest

from published_models import published
from specroof.latency.pass_seconds import all_reduce_s, all_to_all_s, hierarchical_all_reduce_s

Vector = dict[str, Any]

COLLECTIVES: Final = published("inference-lab-collectives.yaml")


def collective_s(name: str) -> float:
    """Return the seconds that the library gives a collective."""
    options = COLLECTIVES["options"]
    sent, node, between = options["message_bytes"], options["node"], options["between_nodes"]
    if name == "ring":
        return float(all_reduce_s(sent, **node))
    if name == "in_switch":
        return float(all_reduce_s(sent, **node, in_switch_reduce=True))
    if name == "all_to_all":
        return float(all_to_all_s(sent, **node))
    assert name == "two_nodes"
    return float(
        hierarchical_all_reduce_s(
            sent,
            nodes=between["nodes"],
            node_devices=node["devices"],
            link_bytes_per_s=(node["link_bytes_per_s"], between["link_bytes_per_s"]),
            latency_s=(node["latency_s"], between["latency_s"]),
        )
    )


@pytest.mark.golden
@pytest.mark.parametrize("vector", COLLECTIVES["vectors"], ids=lambda row: row["collective"])
def test_collectives_take_the_published_seconds(vector: Vector) -> None:
    seconds, tolerance = collective_s(vector["collective"]), COLLECTIVES["tolerance"]
    assert seconds == pytest.approx(vector["seconds"], rel=0, abs=tolerance)
