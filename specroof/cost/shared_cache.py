"""Attention over the cache of an earlier layer (Gemma 4): read in every layer, stored in one."""

from specroof.architecture import SharedCacheAttention
from specroof.cost.attention import grouped_query_costs
from specroof.cost.base import OpCost, Setting

__all__ = ["shared_cache_costs"]


def shared_cache_costs(core: SharedCacheAttention, setting: Setting) -> list[OpCost]:
    r"""Return the cost of attention in one layer that shares the cache of another.

    .. math:: M = B \, n_{kv} (d_k + d_v) \, b \, (S_{read} + T)

    Counts
        what `grouped_query_costs` counts, since the T new entries, which a layer with its own cache
        writes, are read here: the earlier layer has written them in the same pass.
    Ignores
        that the T entries may still lie in the chip's cache: T of S + T.
    Source
        transformers 5, `models/gemma4/modeling_gemma4.py`, ``Gemma4TextAttention.forward``
        (``is_kv_shared_layer``).

    Examples
    --------
    >>> from specroof.architecture import GroupedQueryAttention
    >>> from specroof.cost.base import ForwardPass, Options
    >>> full = GroupedQueryAttention(n_heads=8, n_kv_heads=1, head_dim=512, value_dim=512)
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=1000)
    >>> setting = Setting(decode, Options(), "bf16", "fp32", "bf16")
    >>> (op,) = shared_cache_costs(SharedCacheAttention(full), setting)
    >>> float(op.cache_bytes)  # 1024 elements * 2 bytes * 1001 tokens
    2050048.0
    """
    return grouped_query_costs(core.attention, setting)
