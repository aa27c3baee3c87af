"""Lists with an entry per layer, which several families spell alike."""

from collections.abc import Callable, Collection

from specroof.reading.json_object import MAX_LAYERS, Reader


def listed_kinds(
    keys: Reader, key: str, allowed: Collection[str], n_layers: int
) -> tuple[str, ...] | None:
    """Return each layer's kind by a list of texts; None where it is not given.

    Entries beyond the last layer describe draft layers.
    """
    if not keys.has(key):
        return None
    return keys.texts(key, allowed=allowed, at_least=n_layers)[:n_layers]


def flagged_layers(keys: Reader, key: str, n_layers: int) -> list[bool] | None:
    """Return which layers a list of 0 and 1 marks; None where it is not given.

    Examples
    --------
    >>> flagged_layers(Reader("c.json", {"moe_layer_freq": [0, 1, 1, 1]}), "moe_layer_freq", 3)
    [False, True, True]
    """
    if not keys.has(key):
        return None
    return [flag == 1 for flag in keys.ints(key, allowed=(0, 1), at_least=n_layers)[:n_layers]]


def listed_experts(keys: Reader, n_layers: int) -> list[bool] | None:
    """Return whether each layer has experts by ``mlp_layer_types``; None where it is not given.

    Examples
    --------
    >>> listed_experts(Reader("c.json", {"mlp_layer_types": ["dense", "sparse"]}), 2)
    [False, True]
    """
    kinds = listed_kinds(keys, "mlp_layer_types", ("dense", "sparse"), n_layers)
    return None if kinds is None else [kind == "sparse" for kind in kinds]


def experts_after_first(
    keys: Reader, n_layers: int, *, n_dense_default: int | None = None
) -> list[bool]:
    """Return whether each layer has experts: all but the first few, or every few of them.

    Source
        `DeepseekV3DecoderLayer.__init__` of the checkpoints' own `modeling_deepseek.py`, where
        ``moe_layer_freq`` is 1 by default; the family's configuration class may have a default
        of ``first_k_dense_replace``.
    """
    n_dense = keys.positive_int(
        "first_k_dense_replace", minimum=0, maximum=MAX_LAYERS, default=n_dense_default
    )
    stride = keys.positive_int("moe_layer_freq", default=1)
    return [index >= n_dense and index % stride == 0 for index in range(n_layers)]


def sliding_layers(keys: Reader, n_layers: int) -> list[bool] | None:
    """Return whether each layer slides by ``layer_types``; None where it is not given."""
    allowed = ("full_attention", "sliding_attention")
    kinds = listed_kinds(keys, "layer_types", allowed, n_layers)
    return None if kinds is None else [kind == "sliding_attention" for kind in kinds]


def layer_windows(
    keys: Reader, n_layers: int, window: int | None, slides: Callable[[int], bool]
) -> list[int | None]:
    """Return each layer's window; `slides` tells by its index who has one where no list does."""
    listed = sliding_layers(keys, n_layers)
    if listed is None:
        listed = [slides(index) for index in range(n_layers)]
    return [window if is_sliding else None for is_sliding in listed]


def used_window(keys: Reader) -> int | None:
    """Return the window of a Qwen; many configs carry a `sliding_window` that is switched off."""
    # A dense width where no layer is dense, too.
    keys.pass_over("max_window_layers sliding_window intermediate_size use_qk_norm")
    # configuration_qwen*.py: use_sliding_window False, sliding_window 4096
    if keys.flag("use_sliding_window", default=False):
        return keys.optional_int("sliding_window", missing=4096)
    return None


def layer_overrides(keys: Reader, n_layers: int, allowed: Collection[str]) -> list[Reader] | None:
    """Return what ``per_layer_config`` says of each layer; None where it is not given.

    transformers 5.23 writes layers that differ from the rest as an object by number of layer,
    with zeros in front: ``{"05": {"head_dim": 512}, "11": ...}``. A layer that is not named has
    the sizes of the file. A key that is not among `allowed` is refused: it would change a size.

    Source
        transformers 5.23, `integrations/heterogeneity/configuration_utils.py`.

    Examples
    --------
    >>> keys = Reader("c.json", {"per_layer_config": {"01": {"head_dim": 512}}})
    >>> [dict(layer.values) for layer in layer_overrides(keys, 2, ("head_dim",))]
    [{}, {'head_dim': 512}]
    """
    section = keys.section("per_layer_config")
    if section is None:
        return None
    layers: dict[int, Reader] = {}
    for name, layer in keys.sections("per_layer_config").items():
        index = int(name) if name.isascii() and name.isdecimal() and len(name) < 9 else n_layers
        if index >= n_layers or index in layers:
            section.refuse(name, f"numbers of layers below {n_layers}, each once")
        for key in layer.values.keys() - set(allowed):
            layer.refuse(key, f"in this family only {', '.join(sorted(allowed))}")
        layers[index] = layer
    same = Reader(keys.source, {}, section.prefix)
    return [layers.get(index, same) for index in range(n_layers)]
