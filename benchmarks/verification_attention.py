"""Time attention of several positions a request over a paged cache: FlashAttention 3 of vLLM.

A verification reads the cache once for all positions of a request; whether it takes as long as a
plain step depends on how the kernel packs them. One line a shape: heads, positions, requests,
context, seconds of one layer. Needs a GPU of compute capability 9 and vLLM.

    python benchmarks/verification_attention.py OUT.csv
"""

import csv
import itertools
import sys
from pathlib import Path

import torch
from vllm.vllm_flash_attn import flash_attn_varlen_func, get_scheduler_metadata

PAGE = 16
#: Heads of queries, of keys, and what a head holds: Qwen3-8B, Llama-3.1-70B on one of 4 and of 8
#: devices, Qwen3-30B-A3B, gpt-oss.
HEADS = ((32, 8, 128), (16, 2, 128), (8, 1, 128), (32, 4, 128), (64, 8, 64))
POSITIONS = (1, 2, 4, 6, 8, 12, 16)
BATCHES = (1, 4, 16, 64, 256)
CONTEXTS = (1024, 4096, 16384, 65536)
#: Layers that a graph replays, and bytes of cache that they read between two reads of the same.
REPEATS = 10
UNCACHED = 150e6
#: No more of the cache than this is allocated: a shape beyond it is left out.
BYTES = 30e9


def layer_s(queries: int, keys: int, size: int, positions: int, batch: int, context: int) -> float:
    """Return the median seconds of one layer's attention, replayed from a graph."""
    device = torch.device("cuda")
    pages = context // PAGE
    shape = (batch * pages, PAGE, keys, size)
    # As many caches as do not fit the chip's own: layers of a model find none of theirs there.
    bytes_each = 4 * batch * context * keys * size
    caches = [
        [torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(2)]
        for _ in range(min(REPEATS, 1 + int(UNCACHED // bytes_each)))
    ]
    table = torch.randperm(batch * pages, device=device, dtype=torch.int32).view(batch, pages)
    q = torch.randn(batch * positions, queries, size, device=device, dtype=torch.bfloat16)
    starts = torch.arange(0, batch + 1, device=device, dtype=torch.int32) * positions
    lengths = torch.full((batch,), context, device=device, dtype=torch.int32)
    out = torch.empty_like(q)
    plan = get_scheduler_metadata(
        batch_size=batch,
        max_seqlen_q=positions,
        max_seqlen_k=context,
        num_heads_q=queries,
        num_heads_kv=keys,
        headdim=size,
        cache_seqlens=lengths,
        qkv_dtype=torch.bfloat16,
        cu_seqlens_q=starts,
        page_size=PAGE,
        causal=True,
        window_size=(-1, -1),
        num_splits=32,
    )

    def attend(layer: int) -> None:
        flash_attn_varlen_func(
            q=q,
            k=caches[layer % len(caches)][0],
            v=caches[layer % len(caches)][1],
            out=out,
            max_seqlen_q=positions,
            cu_seqlens_q=starts,
            max_seqlen_k=context,
            seqused_k=lengths,
            softmax_scale=size**-0.5,
            causal=True,
            window_size=[-1, -1],
            block_table=table,
            scheduler_metadata=plan,
            fa_version=3,
            num_splits=32,
        )

    attend(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for layer in range(REPEATS):
            attend(layer)
    times = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / REPEATS / 1e3)
    return float(sorted(times)[len(times) // 2])


def main() -> None:
    """Write a line for each shape."""
    with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("heads", "kv_heads", "size", "positions", "batch", "context", "layer_s"))
        for (queries, keys, size), context, batch in itertools.product(HEADS, CONTEXTS, BATCHES):
            if 4 * batch * context * keys * size > BYTES:
                continue
            for positions in POSITIONS:
                seconds = layer_s(queries, keys, size, positions, batch, context)
                rows.writerow((queries, keys, size, positions, batch, context, f"{seconds:.4g}"))
            file.flush()


if __name__ == "__main__":
    main()
