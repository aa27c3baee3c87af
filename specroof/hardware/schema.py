"""Hardware files from outside, and the gate that they pass: which keys, figures and sources.

Keys and quantities are those of the classes in `specroof.hardware.engine` and `profile`: their
fields are spelled there, and nowhere else.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import date
from typing import Any, Final

from specroof.errors import ProfileError, refuse
from specroof.frameworks import FRAMEWORKS, LOCAL_FRAMEWORKS
from specroof.hardware.engine import (
    ANY_CONCURRENCY,
    CONCURRENCY_RANGES,
    IDEAL_ENGINE,
    LAYER_KINDS,
    OP_KINDS,
    SERVED_FIGURES,
)
from specroof.hardware.profile import GENERIC, HardwareProfile, parse_trusted
from specroof.reading.yaml_text import all_said, parse_yaml, read_plain, shown
from specroof.units import BOUNDS, DTYPE_BYTES

_IDEAL: Final = IDEAL_ENGINE.name
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")

# The choices of specroof.cost.Options, which this room may not see; a test holds them equal.
RECURRENT_STATES: Final = ("snapshot", "snapshot-copy", "read-write", "read", "replay")

#: Returns what is allowed in the place of a value; empty for one that is.
_Rule = Callable[[Any], str]

#: Below this a peak, a rate or a memory of a file is in tera, giga or mega of its unit, by mistake.
_WRONG_UNIT: Final = 1e6


def _rule(allowed: str, fits: Callable[[Any], bool], *kinds: type) -> _Rule:
    """Return a rule for values of some kinds; a truth value is no number."""

    def rule(value: object) -> str:
        is_kind = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        return "" if is_kind and fits(value) else allowed

    return rule


def _one_of(words: Collection[str]) -> _Rule:
    return _rule(", ".join(words), words.__contains__, str)


def _in_base_units(quantity: str, unit: str) -> _Rule:
    bounds = replace(BOUNDS[quantity], least=_WRONG_UNIT)
    return _rule(
        f"{bounds.allowed} {unit}", lambda value: bounds.least <= value <= bounds.most, int, float
    )


def _is_date(value: object) -> bool:
    try:
        return bool(date.fromisoformat(str(value)))
    except ValueError:
        return False


def _ascend(sizes: list[Any]) -> bool:
    are_whole = all(isinstance(size, int) and not isinstance(size, bool) for size in sizes)
    return bool(sizes) and are_whole and sizes == sorted({*sizes}) and sizes[0] >= 1


# One spelling only, and one that a command line takes without quotes.
_SHORT_NAME: Final = _rule(
    "lower-case text of a-z, 0-9, '.', '_' and '-'", lambda name: bool(_NAME.fullmatch(name)), str
)


def check_engine_name(name: str) -> None:
    """Refuse a name that no engine of a hardware file may have.

    Raises
    ------
    OptionError
        For capitals, spaces and whatever a command line would need quotes for.
    """
    if allowed := _SHORT_NAME(name):
        refuse("engine_name", name, allowed)


#: What the fields of the profile's classes are called after, other quantities of `BOUNDS` apart.
_WORDS: Final[dict[str, _Rule]] = {
    "dtype": _one_of(DTYPE_BYTES),
    "op_kind": _one_of(OP_KINDS),
    "layer_kind": _one_of(LAYER_KINDS),
    "counted": _one_of(("tokens", "sequences")),
    "recurrent_state": _one_of(RECURRENT_STATES),
    "short_name": _SHORT_NAME,
    "framework": _one_of((*FRAMEWORKS, *LOCAL_FRAMEWORKS)),
    "served_figure": _one_of(SERVED_FIGURES),
    "concurrency_range": _one_of((*CONCURRENCY_RANGES, ANY_CONCURRENCY)),
    "kernel_work": _one_of(("dense", "experts")),
    "words": _rule(
        "a list of texts, none of them empty",
        lambda texts: all(isinstance(text, str) and text.strip() for text in texts),
        list,
    ),
    "text": _rule("text, and not empty", lambda text: text.strip() != "", str),
    "date": _rule("a date such as 2026-11-01", _is_date, str, date),
    "overlap": _rule(
        "true, false, plain", lambda value: value == "plain" or isinstance(value, bool), str, bool
    ),
    "exponent": _rule("a number above 0 and at most 1", lambda one: 0 < one <= 1, int, float),
    "captured_sizes": _rule("ascending whole numbers, at least one", _ascend, list),
    "format_version": _rule("1, the only version so far", lambda version: version == 1, int),
    "flops_per_s": _in_base_units("flops_per_s", "FLOP/s"),
    "bytes_per_s": _in_base_units("bytes_per_s", "bytes/s"),
    "memory_bytes": _in_base_units("memory_bytes", "bytes"),
}
#: Keys whose source a file must name, if it has them.
_SOURCED: Final = (
    *("peak.flops_per_s", "peak.memory_bytes_per_s", "peak.memory_bytes"),
    *("interconnect.link_bytes_per_s", "interconnect.scale_out_bytes_per_s"),
    *("interconnect.host_devices", "interconnect.switch_reduces"),
    *("architecture", "compute_capability", "usable_memory_bytes", "peak.multiprocessors"),
    "peak.one_memory",
)


def check_content(content: dict[str, Any], *, source: str) -> None:
    """Refuse a hardware file that breaks a rule.

    Raises
    ------
    ProfileError
        One line with `source` and, of each mistake, the key, the value and what is allowed.
    """
    engines, same = content.get("engines", {}), {}
    if isinstance(engines, dict):
        same = {
            name: block
            for name, block in engines.items()
            if isinstance(block, dict) and "same_as" in block
        }
        engines = {
            name: {"name": name, **block} if isinstance(block, dict) else block
            for name, block in engines.items()
            if name not in same
        }
    # Fields of a profile that the catalog fills in.
    profile = read_plain(
        {**content, "engines": engines},
        HardwareProfile,
        source=source,
        error=ProfileError,
        words=_WORDS,
        hidden=("generic", "host", "same_engines"),
    )
    mistakes = [*_unclear_engines(profile, same), *_contradictions(content, profile)]
    if mistakes:
        message = f"{source}: {all_said(mistakes)}"
        raise ProfileError(message)


def _unclear_engines(profile: HardwareProfile, same: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, block in same.items():
        for key, value in ((name, name), (f"{name}.same_as", block["same_as"])):
            if allowed := _SHORT_NAME(value):
                yield f"engines.{key} is {shown(value)}; allowed: {allowed}"
        if others := block.keys() - {"name", "same_as"}:
            has = ", ".join(sorted(others))
            yield f"engines.{name} has same_as with {has}; allowed: same_as alone"
    named = {name: engine.name for name, engine in profile.engines.items()}
    named |= {name: block.get("name", name) for name, block in same.items()}
    for name, own in named.items():
        if name in {_IDEAL, GENERIC}:
            yield f"engines.{name} is built in; choose another name"
        elif own != name:
            yield f"engines.{name}.name is {own!r}; allowed: {name!r} or left out"
    if profile.default_engine not in {None, _IDEAL, GENERIC, *named}:
        known = ", ".join((_IDEAL, GENERIC, *named))
        yield f"default_engine is {profile.default_engine!r}; allowed: {known}"


def _contradictions(content: dict[str, Any], profile: HardwareProfile) -> Iterator[str]:
    """Yield what cannot be: of peaks and memory, and of figures and their sources."""
    computes = profile.peak.flops_per_s
    if computes.keys().isdisjoint(("bf16", "fp16", "fp32")):
        has = ", ".join(computes) or "nothing"
        yield f"peak.flops_per_s has {has}; must have at least one of bf16, fp16, fp32"
    usable, most = profile.usable_memory_bytes, profile.peak.memory_bytes
    if usable is not None and usable > most:
        yield f"usable_memory_bytes is {usable:g}; allowed: up to peak.memory_bytes, {most:g}"
    power, link = profile.power, profile.interconnect
    if power is not None and (power.fixed_watts or 0.0) >= power.watts:
        drawn = f"{power.watts:g}, which it draws under load"
        yield f"power.fixed_watts is {power.fixed_watts:g}; allowed: below {drawn}"
    if link is not None and link.max_devices % (link.host_devices or 1):
        yield (
            f"interconnect.host_devices is {link.host_devices}; allowed: a divisor of max_devices, "
            f"{link.max_devices}"
        )
    present = dict(_dotted(content))
    needed = [key for key in _SOURCED if present.get(key) not in (None, False)]
    needed += [f"engines.{name}" for name in content.get("engines", {})]
    for key in needed:
        if key not in profile.sources:
            yield f"sources.{key} is missing; must say where the figure comes from"
    for key in profile.sources:
        if key not in present:
            yield f"sources.{key} names nothing in the file; needed are {', '.join(needed)}"


def _dotted(block: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every key of a nested mapping with its value, the way `sources` names them."""
    for key, value in block.items():
        yield key, value
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", one) for inner, one in _dotted(value))


# --- A file, read behind the gate ----------------------------------------------------------------


def parse_hardware(text: str, *, source: str, trusted: bool = False) -> HardwareProfile:
    """Return the profile that the YAML of a hardware file describes.

    Parameters
    ----------
    text
        The whole file.
    source
        How messages name it: a path, usually.
    trusted
        Take the figures as they stand: only for the bundled files, which the tests check.

    Raises
    ------
    ProfileError
        If the text is not a safe YAML mapping, a key is unknown or missing, or a value is not
        allowed: one line with `source`, the key, the value and what is allowed.

    Examples
    --------
    >>> text = '''
    ... format_version: 1
    ... name: Example GPU
    ... sources: {peak.flops_per_s: made up, peak.memory_bytes_per_s: made up,
    ...   peak.memory_bytes: made up, engines.mine: made up}
    ... peak:
    ...   flops_per_s: {bf16: 1000.0e+12, fp8: 2000.0e+12}
    ...   memory_bytes_per_s: 3.0e+12
    ...   memory_bytes: 80.0e+9
    ... default_engine: mine
    ... engines: {mine: {memory_frac: 0.85, pass_overhead_s: 30.0e-6}}
    ... '''
    >>> parse_hardware(text, source="example.yaml").peak.memory_bytes_per_s
    3000000000000.0
    >>> parse_hardware(text.replace("3.0e+12", "3.0e12"), source="example.yaml")
    Traceback (most recent call last):
    specroof.errors.ProfileError: example.yaml: peak.memory_bytes_per_s is '3.0e12', which YAML
    reads as text; write 3.0e+12
    """
    content = parse_yaml(text, source=source, error=ProfileError)
    if not trusted:
        check_content(content, source=source)
    return parse_trusted(content, source=source)
