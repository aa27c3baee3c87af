"""The Mamba mixers that families share, 1 and 2: their sizes, projections, convolutions.

Source
    Dao and Gu 2024, arXiv:2405.21060; transformers 5, `models/nemotron_h/`, `models/falcon_h1/`
    and `models/granitemoehybrid/` (`modeling_*.py`, `configuration_*.py`); the same families in
    mlx-lm. Of the first: Gu and Dao 2023, arXiv:2312.00752; transformers 5.24, `models/mamba/`
    and `models/jamba/`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from specroof.architecture.base import HEADS, Linear
from specroof.architecture.model import Block
from specroof.architecture.recurrent import Mamba2, SelectiveScan
from specroof.parsers.decoder import matrices
from specroof.parsers.formats import LayerWeights
from specroof.reading.json_text import Reader


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


@dataclass(frozen=True, slots=True)
class MambaKeys:
    """Where a config says the sizes of the mixer; kernel 4 and a bias where it does not.

    `groups` of heads share B and C; their number is `groups_default` where it is missing.
    """

    heads: str
    state: str
    groups: str
    kernel: tuple[str, ...]
    conv_bias: str
    groups_default: int | None = None


#: `configuration_falcon_h1.py` and `configuration_granitemoehybrid.py` agree on these, and on
#: mamba_d_head "auto", mamba_expand 2, mamba_n_groups 1, mamba_d_conv 4, mamba_conv_bias True.
_KEYS: Final = MambaKeys(
    heads="mamba_n_heads",
    state="mamba_d_state",
    groups="mamba_n_groups",
    kernel=("mamba_d_conv",),
    conv_bias="mamba_conv_bias",
    groups_default=1,
)


def read_mamba(keys: Reader, hidden_size: int) -> Mamba2:
    """Return the sizes under the keys of Falcon-H1 and Granite 4, with their classes' defaults."""
    return read_mamba_core(keys, _KEYS, _head_dim(keys, hidden_size))


def read_mamba_core(keys: Reader, names: MambaKeys, head_dim: int) -> Mamba2:
    """Return the sizes of a mixer whose heads have a known width."""
    n_heads = keys.positive_int(names.heads)
    n_groups = keys.positive_int(names.groups, default=names.groups_default)
    if n_heads % n_groups:
        keys.refuse(names.groups, f"a divisor of the {n_heads} Mamba heads")
    conv_kernel = keys.positive_int(*names.kernel, default=4)
    return Mamba2(
        n_heads,
        head_dim,
        keys.positive_int(names.state),
        n_groups,
        conv_kernel,
        conv_columns=conv_kernel - 1,
        conv_bias=keys.flag(names.conv_bias, default=True),
    )


def _head_dim(keys: Reader, hidden_size: int) -> int:
    """Return the width of a head, stated or the heads' share of all channels.

    The channels are `mamba_d_ssm` where it is given (Falcon-H1), not `mamba_expand` times the
    hidden size.
    """
    n_heads = keys.positive_int("mamba_n_heads")
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
    in_features = core.inner_dim + core.conv_dim + core.n_heads
    into = ("in_proj", shape.hidden_size, in_features)
    out = ("out_proj", core.inner_dim, shape.hidden_size)
    return Block(
        "attention",
        (
            *matrices(weights, f"{shape.module}.", HEADS, into, bias=shape.in_bias),
            *matrices(weights, f"{shape.module}.", HEADS, out, bias=shape.out_bias),
        ),
        core,
        vector_params=shape.vector_params,
        joins_next=joins_next,
    )


# --- Mamba (1) -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScanKeys:
    """Where a config says the sizes of a Mamba (1)."""

    state: str = "mamba_d_state"
    kernel: str = "mamba_d_conv"
    expand: str = "mamba_expand"
    rank: str = "mamba_dt_rank"
    conv_bias: str = "mamba_conv_bias"
    bias: str = "mamba_proj_bias"


JAMBA_KEYS: Final = ScanKeys()


def scan_builder(
    keys: Reader,
    hidden_size: int,
    names: ScanKeys,
    *,
    module: str,
    normed: bool = False,
    heads: int = 1,
) -> Callable[[LayerWeights], Block]:
    """Return the builder of a Mamba (1): gate and input, then what steps, B and C come from.

    Parameters
    ----------
    keys, hidden_size
        The config, and the width of the residual stream.
    names
        What it calls the sizes.
    module
        What the checkpoint calls the mixer inside a layer.
    normed
        Whether step, B and C pass norms with elements.
    heads
        Heads that have matrices of their own for step, B and C (Zamba).
    """
    state = keys.positive_int(names.state, default=16)
    kernel = keys.positive_int(names.kernel, default=4)
    # what a file states beside it goes before: Falcon-Mamba states an expand of 16 that is not so
    channels = keys.positive_int(names.expand, default=2) * hidden_size
    if names.state == "state_size":
        channels = keys.positive_int("intermediate_size", default=channels)
    rank = -(-hidden_size // 16)
    if keys.values.get(names.rank) not in (None, "auto"):
        rank = keys.positive_int(names.rank)
    bias = keys.flag(names.bias, default=False)
    core = SelectiveScan(
        channels, state, kernel, kernel - 1, conv_bias=keys.flag(names.conv_bias, default=True)
    )
    # A and D, and the norms
    vectors = hidden_size + channels * (state + 1) + (rank + 2 * state if normed else 0)

    def build(weights: LayerWeights) -> Block:
        def made(name: str, rows: int, columns: int, *, bias: bool, groups: int = 1) -> Linear:
            form = weights(f"{module}.{name}")
            return Linear(name, rows, columns, form, HEADS, groups=groups, bias=bias)

        linears = (
            made("in_proj", hidden_size, 2 * channels, bias=bias),
            made("x_proj", channels, heads * (rank + 2 * state), bias=False, groups=heads),
            made("dt_proj", heads * rank, channels, bias=True, groups=heads),
            made("out_proj", channels, hidden_size, bias=bias),
        )
        return Block("attention", linears, core, vector_params=vectors)

    return build
