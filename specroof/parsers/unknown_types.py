"""What to do with an unknown `model_type`: say which family its keys fit."""

from collections.abc import Callable, Collection, Mapping
from difflib import SequenceMatcher
from typing import Final, NoReturn

from specroof.architecture import Architecture
from specroof.errors import ConfigError
from specroof.parsers.model_config import ModelConfig, open_config, parse_foreign
from specroof.reading.json_text import AskedObject, Reader

_Parse = Callable[[ModelConfig], Architecture]

#: Families that others are named after, so that they are preferred among equals.
_PLAIN: Final = ("deepseek_v3", "llama", "mistral", "mixtral", "qwen3_moe")
#: From how alike on two names are taken for relatives: qwen4_moe and qwen3_moe are at 0.89.
_ALIKE: Final = 0.6
#: Objects in objects that any parser reads; files of strangers may be nested deeper.
_DEPTH: Final = 4


def refuse_unknown_type(
    typed: Reader, root: Reader, known: Collection[str], parse: _Parse
) -> NoReturn:
    """Refuse a config of a `model_type` without a parser, and say which family its keys fit.

    Parameters
    ----------
    typed
        The part of the file that says its `model_type`.
    root
        The whole file.
    known
        Types that have a parser.
    parse
        Returns the model of a config of a known type.

    Raises
    ------
    ConfigError
        Always.
    """
    fit = fitting_family(root, known, parse, typed.text("model_type", default=""))
    advice = "and none fits its keys"
    if fit is not None:
        family, unstated = fit
        missing = f" once it states {', '.join(unstated)}" if unstated else ""
        advice = f"or --family: its keys fit {family}{missing}, try --family {family}"
    typed.refuse("model_type", f"one of {len(known)} known types, {advice}")


def fitting_family(
    root: Reader, known: Collection[str], parse: _Parse, stated: str
) -> tuple[str, tuple[str, ...]] | None:
    """Return a family that reads all keys of a config, and what the config should state besides.

    First goes a family whose name is like the `stated` one, then plain ones, then what needs the
    fewest keys besides, then the one that has read more keys. None where none reads all keys.
    """
    ranks = {}
    for family in known:
        fresh = Reader(root.source, _unasked(root.values))
        unstated: dict[str, None] = {}
        try:
            config = open_config(fresh, known=known, name=None, family=family, sidecar=None)
            parse_foreign(config, parse, unstated)
        except ConfigError:
            continue
        alike = SequenceMatcher(None, stated[:80], family).ratio()
        ranks[family] = (
            -alike if alike >= _ALIKE else 0.0,
            family not in _PLAIN,
            len(unstated),
            -_n_read(config.keys.values),
            len(family),
            family,
            tuple(unstated),
        )
    if not ranks:
        return None
    family = min(ranks, key=lambda family: ranks[family])
    return family, ranks[family][-1]


def _unasked(values: Mapping[str, object], depth: int = _DEPTH) -> AskedObject:
    """Return a copy without read marks; how weights are stored fits no family."""
    return AskedObject(
        (key, _unasked(value, depth - 1) if depth and isinstance(value, dict) else value)
        for key, value in values.items()
        if key != "quantization_config"
    )


def _n_read(values: Mapping[str, object]) -> int:
    return len(values.keys() & values.asked) if isinstance(values, AskedObject) else 0
