"""Lists with an entry per layer, which several families spell alike."""

from collections.abc import Collection
from typing import Final

from specroof.reading.json_object import Reader

__all__ = ["flagged_layers", "layer_overrides", "listed_experts"]

_FEED_FORWARDS: Final = ("dense", "sparse")


def listed_experts(keys: Reader, n_layers: int) -> list[bool] | None:
    """Return whether each layer has experts by ``mlp_layer_types``; None where it is not given.

    Examples
    --------
    >>> listed_experts(Reader("c.json", {"mlp_layer_types": ["dense", "sparse"]}), 2)
    [False, True]
    """
    if not keys.has("mlp_layer_types"):
        return None
    kinds = keys.texts("mlp_layer_types", allowed=_FEED_FORWARDS, at_least=n_layers)
    return [kind == "sparse" for kind in kinds[:n_layers]]


def flagged_layers(keys: Reader, key: str, n_layers: int) -> list[bool] | None:
    """Return which layers a list of 0 and 1 marks; None where it is not given.

    Entries beyond the last layer describe draft layers.

    Examples
    --------
    >>> flagged_layers(Reader("c.json", {"moe_layer_freq": [0, 1, 1, 1]}), "moe_layer_freq", 3)
    [False, True, True]
    """
    if not keys.has(key):
        return None
    return [flag == 1 for flag in keys.ints(key, allowed=(0, 1), at_least=n_layers)[:n_layers]]


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
