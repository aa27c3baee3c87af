"""GLM of latent attention: 4.7-Flash, and 5 to 5.2 with (shared) indexers.

Source
    transformers 5, `models/glm4_moe_lite/` and `models/glm_moe_dsa/` (`modeling_*.py`,
    `configuration_*.py`); SGLang `configs/model_config.py` (`dsa_layer_skips_topk`); the tensors of
    the published checkpoints.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from specroof.architecture import Architecture
from specroof.parsers.decoder import listed_kinds
from specroof.parsers.families.deepseek_v3 import (
    EXPERTS_FROM,
    latent_decoder,
    searching_shape,
    sparse_layers,
)
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import MAX_LAYERS, Reader

_FULL: Final = "full"
_SHARED: Final = "shared"
#: How `index_topk_pattern` abbreviates them.
_LETTERS: Final = {"F": _FULL, "S": _SHARED}


def parse_glm_moe_dsa(config: ModelConfig) -> Architecture:
    """Return a GLM-5: in GLM-5.2 three layers of four share the selection of the one before."""
    keys = config.keys
    keys.pass_over(
        f"{EXPERTS_FROM} index_share_for_mtp_iteration index_skip_topk_offset index_topk_freq "
        "indexer_rope_interleave moe_router_dtype num_experts"
    )
    full = searching_shape(keys)
    shared = replace(full, indexer=None, shared_top_k=keys.positive_int("index_topk"))
    kinds = _indexer_kinds(keys, config.n_layers)
    attentions = [full if kind == _FULL else shared for kind in kinds]
    # configuration_glm_moe_dsa.py: first_k_dense_replace 3
    return latent_decoder(config, sparse_layers(config, n_dense_default=3), attentions)


def parse_glm4_moe_lite(config: ModelConfig) -> Architecture:
    """Return a GLM-4.7-Flash: latent attention to all tokens."""
    config.keys.pass_over(EXPERTS_FROM)
    # configuration_glm4_moe_lite.py: all layers but the first have experts.
    return latent_decoder(config, sparse_layers(config, n_dense_default=1))


def _indexer_kinds(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return whether each layer runs its indexer or takes over an earlier layer's selection.

    Source
        `GlmMoeDsaConfig.__post_init__`: the list, else the pattern, else a stride that begins
        after some layers (``index_topk_freq`` 1 and ``index_skip_topk_offset`` 2 by default).
    """
    kinds = listed_kinds(keys, "indexer_types", (_FULL, _SHARED), n_layers)
    if kinds is not None:
        if kinds[0] == _SHARED:
            keys.refuse("indexer_types", "full first, before which nothing is selected")
        return kinds
    if keys.has("index_topk_pattern"):
        pattern = keys.text("index_topk_pattern")
        if len(pattern) < n_layers or pattern[0] != "F" or not set(pattern) <= set(_LETTERS):
            keys.refuse("index_topk_pattern", "F and S, one a layer, F first")
        return [_LETTERS[letter] for letter in pattern[:n_layers]]
    stride = keys.positive_int("index_topk_freq", default=1)
    offset = keys.positive_int("index_skip_topk_offset", maximum=MAX_LAYERS, default=2)
    return [_SHARED if max(index - offset + 1, 0) % stride else _FULL for index in range(n_layers)]
