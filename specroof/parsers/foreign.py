"""A config read as a family that it does not name: nothing of that family is taken for granted.

What a configuration class has as its default holds for its own family. Of a model of another type
nobody knows whether it has the same head width, whether its head is its embedding, or whether its
feed-forward has a gate; and a key that the family does not know may change what the model costs. So
such a config states all sizes itself, or is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture import Architecture
from specroof.errors import ConfigError, reject
from specroof.parsers.known_keys import unread_keys
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_object import MAX_SIZE, Reader, printable

_ACTIVATION_KEYS: Final = (
    "hidden_act",
    "hidden_activation",
    "mlp_hidden_act",
    "activation_function",
)
#: Activations that tell whether a feed-forward has a gate as the family's has, by the beginning of
#: the family's name; of the others SwiGLU, whose activation is silu.
_ACTIVATIONS: Final = {
    "apertus": ("xielu",),
    "arcee": ("relu2",),
    "gemma": ("gelu_pytorch_tanh",),
    "jais2": ("relu2",),
    "kimi_k3": ("silu", "situ"),
    "minimax_m3": ("swigluoai",),
    "nemotron_h": ("relu2",),
    "opt": ("relu",),
}
_GATED: Final = ("silu", "swish")
#: Keys that a refusal shows at most.
_MAX_KEYS: Final = 6


@dataclass(frozen=True, slots=True)
class StatedReader(Reader):
    """The keys of a config of another type: sizes that it does not state are refused.

    A default of 0 or 1 stands for a part that the model does not have, and holds.

    Parameters
    ----------
    family
        The `model_type` that it is read as.
    unstated
        Where keys that are missing are listed, in order; None refuses the first.
    """

    family: str = ""
    unstated: dict[str, None] | None = None

    def expect(self, key: str) -> None:
        """Refuse a config without `key`, or list the key."""
        if self.unstated is None:
            self.refuse(key, f"a value: no default of {self.family} holds for another type")
        self.unstated[key] = None

    def positive_int(
        self, *keys: str, maximum: int = MAX_SIZE, minimum: int = 1, default: int | None = None
    ) -> int:
        """Return a whole number that the config states, or a `default` of 0 or 1."""
        if default is not None and default > 1 and not any(self.has(key) for key in keys):
            self.expect(keys[0])
        # a dataclass with slots is made anew, so that super() without arguments finds another
        return Reader.positive_int(self, *keys, maximum=maximum, minimum=minimum, default=default)

    def optional_int(self, key: str, *, missing: int | None = None) -> int | None:
        """Return a whole number that the config states, or None."""
        if missing is not None and key not in self.values:
            self.expect(key)
        return Reader.optional_int(self, key, missing=missing)


def parse_foreign(
    config: ModelConfig,
    parse: Callable[[ModelConfig], Architecture],
    unstated: dict[str, None] | None = None,
) -> Architecture:
    """Return the model of a config that is read as a family which it does not name.

    Parameters
    ----------
    config
        The opened config.
    parse
        Returns the model of a config of a known type.
    unstated
        Where keys are listed that the config should state; None refuses a config without them.

    Raises
    ------
    ConfigError
        If the config leaves a size, its ties or its activation to defaults, or has a key that the
        family does not know.
    """
    keys = StatedReader(
        config.keys.source, config.keys.values, config.keys.prefix, config.family, unstated
    )
    _require_activation(keys)
    model = parse(replace(config, keys=keys))
    unread = list(unread_keys(keys.values))
    if unread:
        shown = ", ".join(printable(key) for key in unread[:_MAX_KEYS])
        reject(
            f"{keys.source}: family {config.family} does not know {shown}",
            "keys of that family: others may change what the model costs (take out what does not)",
            ConfigError,
        )
    _require_windows(keys, model)
    return model


def _require_activation(keys: StatedReader) -> None:
    """Refuse a config whose activation does not say whether feed-forwards have a gate."""
    allowed = next(
        (names for family, names in _ACTIVATIONS.items() if keys.family.startswith(family)), _GATED
    )
    if any(keys.has(key) for key in _ACTIVATION_KEYS):
        keys.text(*_ACTIVATION_KEYS, allowed=allowed)
    else:
        keys.expect(_ACTIVATION_KEYS[0])


def _require_windows(keys: StatedReader, model: Architecture) -> None:
    """Refuse a model without windows where the config states some.

    Configs of Qwen carry a window that is switched off, and its parsers leave it.
    """
    kinds = keys.values.get("layer_types")
    slides = isinstance(kinds, list) and "sliding_attention" in kinds
    window = keys.has("sliding_window") and keys.flag("use_sliding_window", default=True)
    if (slides or window) and not any(
        getattr(core, "window", None) for _, core in model.counted_cores
    ):
        keys.refuse(
            "layer_types" if slides else "sliding_window", f"none: {keys.family} attends fully"
        )
