"""The Mamba2 mixer that hybrid families share: its sizes, its projections, its convolution.

Source
    Dao and Gu 2024, arXiv:2405.21060; transformers 5, `models/nemotron_h/`, `models/falcon_h1/`
    and `models/granitemoehybrid/` (`modeling_*.py`, `configuration_*.py`); the same families in
    mlx-lm.
"""

from dataclasses import dataclass

from specroof.architecture import HEADS, Block, Linear, Mamba2
from specroof.parsers.formats.quantization import LayerWeights
from specroof.reading.json_object import Reader

__all__ = ["MambaShape", "group_count", "mamba_block", "read_mamba"]


@dataclass(frozen=True, slots=True)
class MambaShape:
    """Sizes of a Mamba2 mixer that all layers share.

    Parameters
    ----------
    hidden_size
        Width of the residual stream.
    core
        Heads, state and convolution.
    gated_norm
        Whether a norm of all channels stands behind it.
    in_bias, out_bias
        Whether the projections have a bias.
    module
        What the checkpoint calls the mixer inside a layer.
    shares_norm
        Whether the norm before it belongs to a mixer beside it.
    """

    hidden_size: int
    core: Mamba2
    gated_norm: bool = True
    in_bias: bool = False
    out_bias: bool = False
    module: str = "mamba"
    shares_norm: bool = False

    @property
    def vector_params(self) -> int:
        """Elements of A_log, D and dt_bias per head, and of the norms."""
        before = 0 if self.shares_norm else self.hidden_size
        behind = self.core.inner_dim if self.gated_norm else 0
        return before + 3 * self.core.n_heads + behind


def read_mamba(keys: Reader, hidden_size: int) -> Mamba2:
    """Return the sizes under the keys of Falcon-H1 and Granite 4, with their classes' defaults.

    `configuration_falcon_h1.py` and `configuration_granitemoehybrid.py` agree on mamba_d_head
    "auto", mamba_expand 2, mamba_n_groups 1, mamba_d_conv 4 and mamba_conv_bias True.
    """
    n_heads = keys.positive_int("mamba_n_heads")
    conv_kernel = keys.positive_int("mamba_d_conv", default=4)
    return Mamba2(
        n_heads,
        _head_dim(keys, hidden_size, n_heads),
        keys.positive_int("mamba_d_state"),
        group_count(keys, "mamba_n_groups", n_heads, default=1),
        conv_kernel,
        conv_columns=conv_kernel - 1,
        conv_bias=keys.flag("mamba_conv_bias", default=True),
    )


def group_count(keys: Reader, key: str, n_heads: int, *, default: int | None = None) -> int:
    """Return the groups of heads that share B and C, which divide the heads."""
    n_groups = keys.positive_int(key, default=default)
    if n_heads % n_groups:
        keys.refuse(key, f"a divisor of the {n_heads} Mamba heads")
    return n_groups


def _head_dim(keys: Reader, hidden_size: int, n_heads: int) -> int:
    """Return the width of a head, stated or the heads' share of all channels.

    The channels are `mamba_d_ssm` where it is given (Falcon-H1), not `mamba_expand` times the
    hidden size.
    """
    stated = keys.values.get("mamba_d_head") not in (None, "auto")
    if stated:
        head_dim = keys.positive_int("mamba_d_head")
        if keys.has("mamba_d_ssm") and keys.positive_int("mamba_d_ssm") != n_heads * head_dim:
            keys.refuse("mamba_d_ssm", f"mamba_n_heads times mamba_d_head ({n_heads * head_dim})")
        return head_dim
    expanded = keys.positive_int("mamba_expand", default=2) * hidden_size
    inner_dim = keys.positive_int("mamba_d_ssm", default=expanded)
    if inner_dim % n_heads:
        keys.refuse("mamba_n_heads", f"a divisor of the {inner_dim} Mamba channels")
    return inner_dim // n_heads


def mamba_block(shape: MambaShape, weights: LayerWeights, *, joins_next: bool = False) -> Block:
    """Return a Mamba2 mixer; one matrix makes gate, x, B, C and the step sizes."""
    core = shape.core
    in_proj = Linear(
        "in_proj",
        shape.hidden_size,
        core.inner_dim + core.conv_dim + core.n_heads,
        weight=weights(f"{shape.module}.in_proj"),
        shard=HEADS,
        bias=shape.in_bias,
    )
    out_proj = Linear(
        "out_proj",
        core.inner_dim,
        shape.hidden_size,
        weight=weights(f"{shape.module}.out_proj"),
        shard=HEADS,
        bias=shape.out_bias,
    )
    return Block(
        "attention",
        (in_proj, out_proj),
        core,
        vector_params=shape.vector_params,
        joins_next=joins_next,
    )
