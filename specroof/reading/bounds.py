"""The bounds of quantities as pydantic types, for figures of YAML files.

The table is `specroof.units.BOUNDS`: a figure is held to the same bounds in a file, by a flag and
in Python. Peaks of a file begin at a million: see `WRONG_UNIT`.
"""

from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from specroof.reading.checked import accept
from specroof.units import BOUNDS

#: Below this a peak, a rate or a memory of a file is in tera, giga or mega of its unit, by mistake.
WRONG_UNIT: Final = 1e6
_BASE_UNITS: Final = {"flops_per_s": "FLOP/s", "bytes_per_s": "bytes/s", "memory_bytes": "bytes"}


def within(quantity: str) -> BeforeValidator:
    """Return a validator that lets numbers within the bounds of a quantity through unchanged.

    Examples
    --------
    >>> within("draft_len").func(1.5)
    Traceback (most recent call last):
    ValueError: is 1.5; allowed: a whole number from 0 to 1024
    """
    bounds = BOUNDS[quantity]
    unit = _BASE_UNITS.get(quantity, "")
    if unit:
        bounds = replace(bounds, least=WRONG_UNIT)
    kinds = (int,) if bounds.whole else (int, float)
    return accept(
        f"{bounds.allowed} {unit}".rstrip(),
        lambda value: bounds.least <= value <= bounds.most,
        *kinds,
    )


CapturedSize = Annotated[int, within("captured_size")]
FlopsPerS = Annotated[float, within("flops_per_s")]


def _limits(quantity: str) -> Any:
    """Return the bounds as the JSON Schema of a study says them."""
    bounds = BOUNDS[quantity]
    return Field(ge=bounds.least, le=bounds.most)


BatchSize = Annotated[float, _limits("batch_size"), within("batch_size")]
ContextLen = Annotated[float, _limits("context_len"), within("context_len")]
RequestLen = Annotated[float, _limits("request_len"), within("request_len")]
DraftLen = Annotated[int, _limits("draft_len"), within("draft_len")]
Share = Annotated[float, _limits("share"), within("share")]
