"""Published seconds of collectives."""

from typing import Final

import pytest

from published_models import published
from specroof.latency.pass_seconds import all_reduce_s, all_to_all_s, hierarchical_all_reduce_s

COLLECTIVES: Final = published("inference-lab-collectives.yaml")


@pytest.mark.golden
def test_collectives_take_the_published_seconds() -> None:
    options = COLLECTIVES["options"]
    sent, node, between = options["message_bytes"], options["node"], options["between_nodes"]
    two_nodes = hierarchical_all_reduce_s(
        sent,
        nodes=between["nodes"],
        node_devices=node["devices"],
        link_bytes_per_s=(node["link_bytes_per_s"], between["link_bytes_per_s"]),
        latency_s=(node["latency_s"], between["latency_s"]),
    )
    found = {
        "ring": all_reduce_s(sent, **node),
        "in_switch": all_reduce_s(sent, **node, switch_reduces=True),
        "all_to_all": all_to_all_s(sent, **node),
        "two_nodes": two_nodes,
    }
    for vector in COLLECTIVES["vectors"]:
        tolerance = COLLECTIVES["tolerance"]
        assert float(found[vector["collective"]]) == pytest.approx(
            vector["seconds"], rel=0, abs=tolerance
        )
