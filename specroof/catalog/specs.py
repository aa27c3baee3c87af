"""SPECs: a drafter and its acceptance, as the command line spells them."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from specroof.acceptance import (
    Acceptance,
    ContextAcceptance,
    acceptance_from_length,
    beta_acceptance,
    constant_acceptance,
    context_acceptance,
    decay_acceptance,
    histogram_acceptance,
    rate_acceptance,
    survival_acceptance,
)
from specroof.catalog.files import is_file
from specroof.catalog.hardware import load_hardware
from specroof.catalog.hub import Fetch
from specroof.catalog.models import load_draft_config, load_model
from specroof.drafters import KINDS, Drafter
from specroof.errors import OptionError, expect, refuse, reject


def load_drafter(spec: str, *, fetch: Fetch | None = None) -> Drafter:
    """Return the drafter that a SPEC describes, with its acceptance if the SPEC gives one.

    Parameters
    ----------
    spec
        ``KIND[,key=value…]``: the kind's own keys, and at most one of `ACCEPTANCE_KEYS`.
    fetch
        What to fetch a ``config=`` with that is neither a file nor bundled; as for `load_model`.

    Raises
    ------
    OptionError
        For an unknown kind or key, a missing or doubled key, a value out of range.

    Examples
    --------
    >>> load_drafter("block,accept=0.89,cost=0.10,drafts=16").name
    'block,accept=0.89,cost=0.10,drafts=16'
    """
    expect("spec", spec, str, "KIND[,key=value…], as in 'block,accept=0.89,cost=0.10,drafts=16'")
    text = _in_our_spelling(spec.strip())
    kind_name, *pairs = (part.strip() for part in text.split(","))
    where = f"drafter {text!r}"
    if kind_name not in KINDS:
        refuse(f"{where}: kind", kind_name, ", ".join(KINDS))
    values = _kind_values(where, kind_name, pairs)
    given = [key for key in ACCEPTANCE_KEYS if key in values]
    extrapolate = values.pop(_EXTRAPOLATE, None)
    if len(given) > 1:
        reject(f"{where}: gives {' and '.join(given)}", "one acceptance")
    if extrapolate is not None and not given:
        reject(
            f"{where}: {_EXTRAPOLATE} is given without an acceptance that could go on",
            f"beside {', '.join(ACCEPTANCE_KEYS)}",
        )
    try:
        own = {
            key: _own_value(kind_name, key, value, fetch)
            for key, value in values.items()
            if key not in given
        }
        drafter = KINDS[kind_name].build(own, text)
        if not given:
            return drafter
        acceptance = _acceptance(given[0], values[given[0]], kind_name)
        return replace(drafter, acceptance=_continued(acceptance, extrapolate))
    except OptionError as refusal:
        message = f"{where}: {refusal}"
        raise OptionError(message) from None


def _acceptance(key: str, text: str, kind: str) -> Acceptance | ContextAcceptance:
    """Return the acceptance that a key gives; refusals begin with the key."""
    try:
        return ACCEPTANCE_KEYS[key](text, kind)
    except OptionError as refusal:
        message = str(refusal)
        raise OptionError(message if message.startswith(key) else f"{key}: {message}") from None


#: What engines call kinds of drafters, without capitals and with underscores.
_ENGINES_KINDS: Final = {
    "nextn": "mtp",
    "deepseek_mtp": "mtp",
    "draft_model": "model",
    "draft_target": "model",
    "standalone": "model",
    "eagle_3": "eagle3",
    "peagle": "p_eagle",
}


def _in_our_spelling(spec: str) -> str:
    """Return a SPEC whose kind is spelt as ours; unknown kinds stay as they are.

    Examples
    --------
    >>> _in_our_spelling("EAGLE3,accept=.7"), _in_our_spelling("NEXTN"), _in_our_spelling("Magic")
    ('eagle3,accept=.7', 'mtp', 'Magic')
    """
    kind, comma, rest = spec.partition(",")
    plain = kind.strip().casefold().replace("-", "_")
    found = _ENGINES_KINDS.get(plain, plain)
    if kind.strip() in KINDS or found not in KINDS:
        return spec
    return f"{found}{comma}{rest}"


def _own_value(kind: str, key: str, text: str, fetch: Fetch | None) -> Any:
    """Return the value of a kind's own key: a number, or what its table says it is."""
    match KINDS[kind].reads.get(key, "number"):
        case "drafter":
            return load_draft_config(text, kind, fetch=fetch)
        case "model":
            return load_model(text, fetch=fetch)
        case "hardware":
            return load_hardware(text)
        case "numbers":
            return _numbers(key, text)
        case "text":
            return text
        case _:
            return _number(key, text)


def _kind_values(where: str, kind_name: str, pairs: list[str]) -> dict[str, str]:
    """Return the values of a SPEC as text, with all keys that its kind requires."""
    kind = KINDS[kind_name]
    takes_acceptance = kind_name != "ideal"
    known = [*kind.keys, *((*ACCEPTANCE_KEYS, _EXTRAPOLATE) if takes_acceptance else ())]
    values = _spec_values(where, pairs, known)
    for group in kind.required:
        if sum(key in values for key in group) != 1:
            message = f"{where}: needs {'exactly one of ' * (len(group) > 1)}{', '.join(group)}="
            raise OptionError(message)
    return values


def _spec_values(where: str, pairs: list[str], known: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not value or key not in known:
            allowed = ", ".join(f"{name}=…" for name in known) or "nothing after the kind"
            reject(f"{where}: {pair!r} is not understood", allowed)
        if key in values:
            reject(f"{where}: {key} is given twice", "once")
        values[key] = value
    return values


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        refuse(key, text, "a number")
    return value


def _numbers(key: str, text: str) -> list[float]:
    return [_number(key, part) for part in text.split("/")]


def _continued(
    acceptance: Acceptance | ContextAcceptance, extrapolate: str | None
) -> Acceptance | ContextAcceptance:
    """Return acceptance that goes on past its depth, if a SPEC says how."""
    if extrapolate is None:
        return acceptance
    from specroof.acceptance.law_fits import extrapolated_acceptance  # noqa: PLC0415 - seldom asked for

    if isinstance(acceptance, ContextAcceptance):
        curves = [extrapolated_acceptance(one, extrapolate) for one in acceptance.curves]
        return replace(acceptance, curves=tuple(curves))
    return extrapolated_acceptance(acceptance, extrapolate)


def _profile(text: str, _kind: str) -> Acceptance | ContextAcceptance:
    """Return the acceptance of a profile, or of several, each at the context it was measured at."""
    from specroof.catalog.profiles import load_profile  # noqa: PLC0415 - as above

    if "+" not in text or is_file(Path(text)):
        return load_profile(text).acceptance()
    curves: dict[float, Acceptance] = {}
    for part in text.split("+"):
        name, at, context = part.rpartition("@")
        if not at:
            reject(f"profile is {text!r}", "NAME, or NAME@CONTEXT+NAME@CONTEXT")
        curves[_number("context of a profile", context)] = load_profile(name).acceptance()
    return context_acceptance(curves)


def _accept_length(text: str, kind: str) -> Acceptance:
    length, at, drafts = text.partition("@")
    if not at:
        allowed = "TOKENS@DRAFTS, such as 3.4@7: tokens per round, bonus included, and the drafts"
        refuse("accept-length", text, f"{allowed} it was measured with")
    measured_with = _number("accept-length", drafts)
    if not measured_with.is_integer():
        refuse("accept-length", text, "a whole number of drafts after @")
    return acceptance_from_length(_number("accept-length", length), int(measured_with), kind=kind)


def _parameters(key: str, text: str, count: int, allowed: str) -> list[float]:
    numbers = _numbers(key, text)
    if len(numbers) != count:
        refuse(key, text, allowed)
    return numbers


#: The key that lets a measured acceptance go on past its depth.
_EXTRAPOLATE: Final = "extrapolate"

#: How a SPEC may give acceptance, from the text and the kind of drafter; exactly one of these.
ACCEPTANCE_KEYS: Final[dict[str, Callable[[str, str], Acceptance | ContextAcceptance]]] = {
    "accept": lambda text, _kind: constant_acceptance(_number("accept", text)),
    "accept-length": _accept_length,
    "rates": lambda text, _kind: rate_acceptance(_numbers("rates", text)),
    "survival": lambda text, _kind: survival_acceptance(_numbers("survival", text)),
    "histogram": lambda text, _kind: histogram_acceptance(_numbers("histogram", text)),
    "beta": lambda text, _kind: beta_acceptance(
        *_parameters("beta", text, 2, "A/B, two numbers above 0")
    ),
    "decay": lambda text, _kind: decay_acceptance(
        *_parameters("decay", text, 3, "FIRST/LAST/RATIO, three numbers from 0 to 1")
    ),
    "profile": _profile,
}
