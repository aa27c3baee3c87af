"""Published sizes of the caches of DeepSeek-V4 and V3.2."""

from typing import Any, Final

import pytest

from published_models import one_block, published
from specroof.architecture.attention import Indexer
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.model import Architecture
from specroof.catalog import load_model
from specroof.cost.forward import kv_cache_bytes

Vector = dict[str, Any]

CACHES: Final = published("deepseek-v4-cache-sizes.yaml")
GIBIBYTE: Final = 2**30


def one_layer(kind: str) -> Architecture:
    sizes = CACHES["options"][kind]
    indexer = None
    if kind == "csa":
        indexer = Indexer(sizes["index_heads"], sizes["index_dim"], sizes["top_k"])
    return one_block(
        CompressedAttention(
            n_heads=128,
            entry_dim=512,
            rope_dim=64,
            window=128,
            ratio=sizes["ratio"],
            indexer=indexer,
        )
    )


@pytest.mark.golden
@pytest.mark.parametrize("vector", CACHES["vectors"], ids=str)
def test_a_million_tokens_take_the_published_bytes(vector: Vector) -> None:
    options, tolerance = CACHES["options"], CACHES["tolerance"]
    model = load_model(vector["model"]) if "model" in vector else one_layer(vector["layers"])
    cached = float(kv_cache_bytes(model, options["context_len"], options["kv_dtype"]))
    assert cached == pytest.approx(vector["bytes"], rel=0, abs=tolerance["bytes"])
    if "gibibytes" in vector:
        gibibytes = cached / GIBIBYTE
        assert gibibytes == pytest.approx(vector["gibibytes"], abs=tolerance["gibibytes"])
