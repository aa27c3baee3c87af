"""The whole pass: every block of every distinct layer, and the head."""

from dataclasses import replace
from typing import Final

import numpy as np

from specroof.architecture import WEIGHT_FORMATS, Architecture, Block, Experts
from specroof.cost.base import Array, Collective, ForwardPass, OpCost, Options, Setting
from specroof.cost.cores import CORES
from specroof.cost.dense import linear_cost, logit_bytes
from specroof.errors import expect
from specroof.units import dtype_bytes

#: Kinds that ``count="attention+ffn"`` keeps.
_ATTENTION_AND_FFN: Final = {
    *("dense", "experts", "attention", "latent_attention", "indexer", "state")
}


def forward_cost(
    architecture: Architecture,
    forward: ForwardPass,
    options: Options | None = None,
    *,
    expert_locality: tuple[float, float] | None = None,
    by_sequence: bool = False,
) -> list[OpCost]:
    """Return what one pass of a model costs, operation by operation.

    Parameters
    ----------
    architecture
        The model.
    forward
        Batch, new positions and context; scalars or arrays that broadcast.
    options
        Which formulas; the defaults of `Options` if None.
    expert_locality
        How local the routing of tokens is: see `specroof.cost.experts.independent_tokens`. None
        for independent routing; of no effect where `options` name a way to count experts.
    by_sequence
        Whether what each sequence of the batch does alone, such as attention, is counted for one
        of them (`OpCost.sequences`): over a grid, its arrays have no axis of batches then.

    Returns
    -------
    list of OpCost
        In the order of a layer, identical layers as one operation with a count, the head last.

    Source
        Each formula names its own; see the modules of `specroof.cost`.

    Examples
    --------
    >>> from specroof.architecture import Layer, Linear
    >>> up = Linear("up_proj", 8, 32)
    >>> tiny = Architecture(
    ...     "tiny",
    ...     "llama",
    ...     8,
    ...     100,
    ...     (Layer((Block("feed_forward", (up,)),), 2),),
    ...     head=Linear("lm_head", 8, 100, kind="head"),
    ... )
    >>> ops = forward_cost(tiny, ForwardPass(batch_size=1, query_len=1, context_len=0))
    >>> [(op.name, op.count, float(op.flops)) for op in ops]
    [('mlp.up_proj', 2, 512.0), ('lm_head', 1, 1600.0)]
    """
    expect("architecture", architecture, Architecture, "an Architecture, from load_model")
    expect("forward", forward, ForwardPass, "a ForwardPass")
    expect("options", options, Options | None, "Options, or None")
    options = options or Options()
    if options.weight_dtype is not None:
        architecture = architecture.with_weights(WEIGHT_FORMATS[options.weight_dtype])
    setting = Setting(
        forward=forward,
        options=options,
        kv_dtype=options.kv_dtype or architecture.kv_dtype,
        state_dtype=options.state_dtype or architecture.state_dtype,
        activation_dtype=architecture.activation_dtype,
        expert_locality=expert_locality,
    )
    tokens = forward.matmul_tokens
    message_bytes = tokens * (architecture.hidden_size * dtype_bytes(architecture.activation_dtype))
    alone = (
        replace(setting, forward=replace(forward, batch_size=np.ones(()))) if by_sequence else None
    )
    ops: list[OpCost] = []
    for count, block in architecture.counted_blocks:
        found = [
            linear_cost(linear, tokens=tokens, block=block.label, count=count)
            for linear in block.linears
        ]
        found += _core_costs(block, setting, alone, count)
        ops += _joined(_counted(found, options), block, message_bytes)
    return [*ops, *_head_costs(architecture, setting)]


def _counted(ops: list[OpCost], options: Options) -> list[OpCost]:
    if options.counts_all:
        return ops
    return [op for op in ops if op.kind in _ATTENTION_AND_FFN]


def _core_costs(block: Block, setting: Setting, alone: Setting | None, count: int) -> list[OpCost]:
    """Return the operations of the core of a block, `alone` those of one sequence of the batch."""
    if block.core is None:
        return []
    formulas = CORES[type(block.core)]
    if alone is None or not formulas.by_sequence:
        counted, sequences = setting, None
    else:
        counted, sequences = alone, setting.forward.batch_size
    return [
        replace(op, name=f"{block.label}.{op.name}", count=count, sequences=sequences)
        for op in formulas.costs(block.core, counted)
    ]


def _joined(ops: list[OpCost], block: Block, message_bytes: Array) -> list[OpCost]:
    """Return the operations of a block; the last one of a branch has its collective."""
    if not ops or block.joins_next:
        return ops
    routed = isinstance(block.core, Experts)
    collective = Collective(
        block="experts" if routed else block.name,
        message_bytes=message_bytes,
        copies=block.core.top_k if isinstance(block.core, Experts) else 1,
    )
    return [*ops[:-1], replace(ops[-1], collective=collective)]


def _head_costs(architecture: Architecture, setting: Setting) -> list[OpCost]:
    """Return the LM head over the positions that need logits, as it is counted."""
    positions = setting.forward.head_tokens
    head = linear_cost(architecture.head, tokens=positions, block="", count=1)
    logits = logit_bytes(architecture.head.out_features, positions)
    counted = replace(
        head,
        name=architecture.head.name,
        # A pass that needs no logits does not read the head.
        weight_bytes=(
            head.weight_bytes
            if np.all(positions > 0)
            else np.where(positions > 0, head.weight_bytes, 0.0)
        ),
        activation_bytes=logits if setting.options.counts_all else np.zeros(()),
    )
    return _counted([counted], setting.options)
