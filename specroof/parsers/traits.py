"""What tells families of models apart: a row of `families.yaml` for each `model_type`.

A row says which function reads the family. `decoder.py` makes the model of one that differs from
Llama by its row alone; a family of another shape has a function in `families/`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, TypeAlias

from specroof.errors import ConfigError
from specroof.reading.yaml_text import bundled_yaml, read_plain

#: What a family always or never has, or the keys that say so, the first first, and their default.
Flag: TypeAlias = bool | tuple[str | bool, ...]
#: A number under a key, or the first of several words, with its default (None: the key is
#: required); without a key it is the default.
Number: TypeAlias = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """What a family calls the matrices of its experts inside a layer.

    Parameters
    ----------
    routed
        Any one matrix of any one expert, for all of them.
    shared_in, shared_out
        Of the shared expert: its first matrix (beside which others lie fused), and its last.
    """

    routed: str = "mlp.experts.0.gate_proj"
    shared_in: str = "mlp.shared_experts.gate_proj"
    shared_out: str = "mlp.shared_experts.down_proj"


USUAL_NAMES: Final = ExpertNames()


@dataclass(frozen=True, slots=True)
class Windows:
    """Which layers see the last `sliding_window` tokens only.

    Parameters
    ----------
    size
        The window where the key is missing; None: there is none. A null key is none, too.
    full_every, first_full
        Where no list says so, every so many-th layer attends fully, this one among them (-1: the
        last); 0: all layers have the window.
    stride_keys
        Where a config says how many; letters such as LLLG for EXAONE.
    since, until
        The first layer with a window, and the first without.
    switch
        Whether `use_sliding_window` switches it on; many configs carry a window that is off.
    listed
        Whether `layer_types` says which layers have it.
    last_full
        Whether the last layer attends fully, whatever its number.
    dense_stride_key
        Where a config says every how many-th (1) of the layers before the first with experts
        attends fully, in a family that counts the two apart.
    """

    size: int | None = 4096
    full_every: int = 0
    first_full: Annotated[int, "place"] | None = None
    stride_keys: tuple[str, ...] = ()
    since: Number = (None, 0)
    until: Number = (None, None)
    switch: bool = False
    listed: bool = True
    last_full: bool = False
    dense_stride_key: str = ""


@dataclass(frozen=True, slots=True)
class ExpertTraits:
    """What experts the layers have, and which layers have some.

    Parameters
    ----------
    experts, top_k, width
        Keys of the number of experts (the first of several words), of how many a token visits, and
        of the width of one.
    shared, each_shared
        The number of shared experts, and keys of the width of one, with whether one is required:
        where no key says so each is as wide as the others.
    shared_width
        The width of the one shared expert, where the family has this instead of a number.
    shared_gate
        Whether a gate of one row weighs the shared expert.
    correction_bias
        Whether each expert has a bias that only the selection sees.
    biases
        Whether router and experts have biases.
    listed
        Whether `mlp_layer_types` says which layers have experts.
    dense
        The first layers without.
    last
        The last layer with experts (-1: of the model).
    named, every, stride
        A list of layers without, in the place of the first, and every how many-th of the others has
        experts, counted from 1 and from 0.
    flagged, numbered
        A list of 1 and 0, one a layer, and one of the numbers of layers with experts.
    dense_width
        The width of layers without, where one of these keys says so.
    inner
        The key of the width that routed experts work at, where a config has it, and the
        matrices from the hidden size to it and back; None: they work at that size.
    inner_norms
        Norms of that width.
    names
        Of the matrices.
    """

    experts: str
    top_k: tuple[str, ...] = ("num_experts_per_tok",)
    width: tuple[str, ...] = ("moe_intermediate_size",)
    shared: Number = (None, 0)
    each_shared: tuple[str | None, bool] = (None, False)
    shared_width: Number = (None, 0)
    shared_gate: bool = False
    correction_bias: Flag = False
    biases: bool = False
    listed: bool = True
    dense: Number = (None, 0)
    named: str = ""
    last: str = ""
    every: str = ""
    stride: str = ""
    flagged: str = ""
    numbered: str = ""
    dense_width: tuple[str, ...] = ("intermediate_size",)
    inner: tuple[str, str, str] | None = None
    inner_norms: tuple[Flag, ...] = ()
    names: ExpertNames = USUAL_NAMES


@dataclass(frozen=True, slots=True)
class Traits:
    """What tells a family from Llama.

    Parameters
    ----------
    parser
        The file of `specroof.parsers` and the function in it that make its model.
    spelled
        The family's own names of usual keys.
    head_dim
        Width of a head where no key says it; None is the heads' share of the hidden size.
    head_dim_keys
        Keys that say it; none: it is always the heads' share.
    states_head_dim
        Whether a config without is refused.
    listed_heads
        Where a config lists the query heads of each layer.
    heads, kv_heads
        Query heads, and KV heads, where no key says it: ``"heads"`` is as many as query heads,
        ``"all"`` that in every model of the family, ``"multi_query"`` one where this key says so,
        None refuses such a config.
    qkv_bias, out_bias, mlp_bias, head_bias
        Of queries, keys and values; of the output; of dense feed-forwards; of the head.
    qk_norm, norm_span
        Whether queries and keys pass a norm, and whether it is of one head's width for all
        (``"head"``), or of the width of all heads (``"heads"``).
    sinks
        Whether every head has an attention sink.
    query_gate
        Whether the matrix of queries makes a gate of attention's output, too.
    output_gate, gate_kinds, gate_bias
        The matrix whose output gates attention (empty: none); the key that says whether it gates
        each head or each element (empty: always the latter); whether every head has a bias of it.
    windows
        None where all layers attend to all tokens.
    mlp, mlp_names, gated
        What checkpoints call a dense feed-forward inside a layer, and its first and last matrix in
        it; whether it has a gate.
    width
        The key of its inner width (empty: none), and how many times the hidden size it is where no
        key says so.
    activation_params
        Elements of the activation function in a layer.
    norms, norm_vectors
        Norms around attention and around a feed-forward, with gates of the residual stream, and
        vectors of each: 2 with a bias, 0 without elements.
    more_norms
        Norms around a sublayer where a key says that there are two.
    inner_norms
        Whether the last matrix of each sublayer takes the output of a norm.
    parallel, one_norm
        Whether both branches of a layer take the same input, and the output of one norm.
    positions, first_position
        Rows of a table of learned positions, or of words beside the embedding, and how many precede
        the first.
    positions_scaled
        Whether `max_position_embeddings` counts scaled positions, whatever the kind of scaling.
    embedding_norm
        Whether the embedding passes a norm.
    tied, vocab_size
        Whether head and embedding are one table, and its rows, where no key says so.
    head_rows
        Where a config says that the head has fewer rows than the embedding.
    routing
        Experts; None: all layers are dense.
    refused, required
        Flags that nothing here counts, such as biases of feed-forwards, and whose lack nothing
        counts.
    passed_over
        Keys that change no cost in this family.
    drafts
        Whether checkpoints hold draft layers that not every file mentions.
    activations
        Those that tell that a feed-forward of a config of another type has a gate, or none, as the
        family's has.
    note
        A sentence for the reader of every model of the family.
    """

    parser: str = "decoder:decoder_of"
    spelled: Mapping[str, str] = field(default_factory=dict)
    head_dim: int | None = None
    head_dim_keys: tuple[str, ...] = ("head_dim",)
    states_head_dim: bool = False
    listed_heads: str = ""
    heads: int | None = None
    kv_heads: int | Annotated[str, ("heads", "all", "multi_query")] | None = "heads"
    qkv_bias: Flag = False
    out_bias: Flag = False
    mlp_bias: Flag = False
    head_bias: Flag = False
    qk_norm: Flag = False
    norm_span: Annotated[str, ("head", "heads")] = "head"
    sinks: bool = False
    query_gate: Flag = False
    output_gate: str = ""
    gate_kinds: str = ""
    gate_bias: bool = False
    windows: Windows | None = None
    mlp: str = "mlp"
    mlp_names: tuple[str, str] = ("gate_proj", "down_proj")
    gated: bool = True
    width: Number = ("intermediate_size", None)
    activation_params: int = 0
    norms: tuple[int, int] = (1, 1)
    norm_vectors: int = 1
    more_norms: Flag = False
    inner_norms: bool = False
    parallel: Flag = False
    one_norm: bool = True
    positions: Number = (None, 0)
    first_position: int = 0
    positions_scaled: bool = False
    embedding_norm: bool = False
    tied: bool = False
    vocab_size: int | None = None
    head_rows: str = ""
    routing: ExpertTraits | None = None
    refused: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    passed_over: str = ""
    drafts: bool = False
    activations: tuple[str, ...] = ("silu", "swish")
    note: str = ""


#: Of a family whose row says nothing.
USUAL_TRAITS: Final = Traits()


_FILE: Final = "families.yaml"
_CONTENT: Final = bundled_yaml(__file__, _FILE)
#: Keys that say nothing of cost in any family.
COSTLESS_KEYS: Final = frozenset(_CONTENT["costless"].split())
#: Expressions of such keys.
COSTLESS_NAMES: Final = re.compile("|".join(_CONTENT["costless_names"]))
#: Objects that hold what is not the language model, and what notes call it.
OTHER_PARTS: Final[Mapping[str, str]] = _CONTENT["other_parts"]
#: Objects whose keys nobody needs to read with those of the language model.
READ_ELSEWHERE: Final = {*_CONTENT["read_elsewhere"].split(), *OTHER_PARTS}
#: Which level of a multimodal file says whether its head is its embedding, by `model_type`.
TIED_BY: Final[Mapping[str, str]] = {
    name: level for level, names in _CONTENT["tied_by"].items() for name in names.split()
}
#: What tells the files of drafters apart.
DRAFTER_FILES: Final[Mapping[str, Mapping[str, str]]] = _CONTENT["drafters"]
#: What an entry may be ``like``, by the key that it stands under.
_KNOWN: Final[dict[str, dict[str, Any]]] = {
    **_CONTENT,
    "families": {**_CONTENT["decoders"], **_CONTENT["families"]},
}


def _whole(key: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands under a key, with what the entry has that it is ``like``."""
    own = {
        name: _whole(name, value) if name in _KNOWN and value else value
        for name, value in entry.items()
        if name != "like"
    }
    return {**_whole(key, _KNOWN[key][entry["like"]]), **own} if "like" in entry else own


_ROWS: Final = {family: _whole("families", row) for family, row in _CONTENT["families"].items()}
#: By family, the keys that describe its draft layer in the place of the model's layers.
DRAFT_LAYERS: Final = {
    family: _whole("draft_layers", row) for family, row in _CONTENT["draft_layers"].items()
}
#: Family parsers by `model_type`; of a multimodal file, by the type inside `text_config`.
PARSERS: Final = {family: row.get("parser", USUAL_TRAITS.parser) for family, row in _ROWS.items()}


_WORDS: Final = {"place": lambda value: "" if value in range(-1, 64) else "a layer from 0, or -1"}


@cache
def traits_of(family: str) -> Traits:
    """Return the row of a family.

    Raises
    ------
    ConfigError
        For a row with an unknown key, or a value that it cannot have.

    Examples
    --------
    >>> traits_of("qwen2_vl").windows == traits_of("qwen2").windows
    True
    """
    source = f"{_FILE}: {family}"
    return read_plain(_ROWS[family], Traits, source=source, error=ConfigError, words=_WORDS)
