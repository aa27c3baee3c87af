"""Lists with an entry per layer, which several families spell alike."""

from typing import Final

from specroof.reading.json_object import Reader

__all__ = ["flagged_layers", "listed_experts"]

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
