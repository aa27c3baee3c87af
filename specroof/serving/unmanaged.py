"""Room without a framework's rules: the textbook, and servers whose rules are not at hand."""

from typing import Final

import numpy as np

from specroof.hardware import Server, ServerSettings
from specroof.serving import vllm
from specroof.serving.room import Array, Need, Place, Room

#: free_gpu_memory_fraction, max_batch_size and max_num_tokens of TensorRT-LLM's LLM API, from its
#: documentation: no source of it is at hand, so they are unchecked.
_FREE_FRAC: Final = 0.9
_TENSORRT_REQUESTS: Final = 2048
_TENSORRT_TOKENS: Final = 8192
_TENSORRT_CAPTURED: Final = 128


def resolve_ideal(asked: ServerSettings, place: Place, _verify_len: int = 1) -> Server:
    """Return a server that fills the memory, and that nothing else limits."""
    return place.server(
        asked,
        framework="ideal",
        version="",
        memory_frac=1.0,
        running=None,
        capture=0,
        overlap=True,
        chunk=0,
        mixed=False,
        prefix_cache=False,
    )


def resolve_tensorrt_llm(asked: ServerSettings, place: Place, _verify_len: int = 1) -> Server:
    """Return what TensorRT-LLM runs with, by its documentation; no release was checked."""
    return place.server(
        asked,
        framework="tensorrt-llm",
        version="unchecked",
        memory_frac=_FREE_FRAC,
        running=_TENSORRT_REQUESTS,
        capture=_TENSORRT_CAPTURED,
        overlap=True,
        chunk=_TENSORRT_TOKENS,
        mixed=True,
        prefix_cache=True,
    )


def room_ideal(server: Server, need: Need, context_len: Array, verify_len: Array) -> Room:
    """Return the room where weights and requests share all of the memory.

    Source
        Counting: (memory - weights) / bytes of a request.
    """
    memory = need.hardware.peak.memory_bytes
    return _plain_room(
        server, need, context_len, verify_len, memory_bytes=memory, reserved_bytes=0.0
    )


def room_tensorrt_llm(server: Server, need: Need, context_len: Array, verify_len: Array) -> Room:
    """Return the room in the share of free memory that TensorRT-LLM takes for its cache.

    Source
        TensorRT-LLM, documentation of ``KvCacheConfig.free_gpu_memory_fraction``: of what weights
        and activations leave. The activations are estimated as vLLM's are.
    """
    peak = vllm.activation_bytes(
        need.model,
        tokens=server.chunk or _TENSORRT_TOKENS,
        running=server.running or _TENSORRT_REQUESTS,
        devices=need.placement.tensor_parallel,
    )
    memory = need.hardware.server_memory_bytes
    return _plain_room(
        server, need, context_len, verify_len, memory_bytes=memory, reserved_bytes=peak
    )


def _plain_room(
    server: Server,
    need: Need,
    context_len: Array,
    verify_len: Array,
    *,
    memory_bytes: float,
    reserved_bytes: float,
) -> Room:
    """Return the room of one pool without blocks: a share of what weights and reserve leave."""
    free = memory_bytes - reserved_bytes - need.weight_bytes
    pool = server.memory_frac * free
    shape = np.broadcast_shapes(context_len.shape, verify_len.shape)
    held = np.broadcast_to(context_len + verify_len, shape)
    # A verification keeps a state for each position, or what replays it; a plain step one state.
    one, positions = need.target.state_bytes, verify_len if need.target.n_recurrent else 1.0
    kept = one + need.target.replay_bytes * positions if need.replays else one * positions
    states = np.broadcast_to(kept, shape)
    cache = need.target.sequence_bytes(held) - need.target.state_bytes
    if need.draft is not None:
        cache = cache + need.draft.sequence_bytes(held)
    most = np.inf if server.running is None else max(1.0, float(server.running // need.ranks))
    return Room(
        memory_bytes=memory_bytes,
        reserved_bytes=memory_bytes - need.weight_bytes - pool,
        state_pool_bytes=np.zeros(shape),
        cache_pool_bytes=np.full(shape, pool),
        state_bytes=np.asarray(states),
        cache_bytes=np.asarray(cache),
        limits={"cache": pool / (cache + states), "running": np.full(shape, most)},
        short_bytes=np.maximum(cache + states - pool, 0.0),
    )
