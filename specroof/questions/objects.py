"""What parameters stand for: names and values to models, chips, drafters, engines and prices."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from specroof.acceptance import (
    RULES,
    Acceptance,
    ContextAcceptance,
    constant_acceptance,
    each_curve,
)
from specroof.acceptance.sampling import resampled_acceptance
from specroof.architecture.model import Architecture
from specroof.arrays import fields_of, n_entries, number_within
from specroof.catalog import load_drafter, load_hardware, load_model, model_names
from specroof.cost import Options
from specroof.drafters import Drafter
from specroof.drafters.kinds import KINDS
from specroof.errors import Assumed, Note, OptionError, Urgent, expect, expect_word, refuse, reject
from specroof.frameworks import (
    FRAMEWORKS,
    RUNS,
    SERVERS,
    SPELT,
    known_releases,
    lacking_for,
    release,
    release_of,
)
from specroof.hardware.engine import IDEAL_ENGINE, ServerSettings
from specroof.hardware.profile import GENERIC, HardwareProfile
from specroof.latency.setup import Setup
from specroof.parsers.model_config import DSPARK_NOTE, MTP_NOTE
from specroof.reading.words import Prices
from specroof.reading.yaml_text import shown
from specroof.serving.workload import parse_server, server_settings
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN
from specroof.speedup.price import Money
from specroof.units import MOST_POINTS

if TYPE_CHECKING:
    from specroof.acceptance.published import AcceptanceProfile
    from specroof.serving.split import Split

_Named = TypeVar("_Named")


def as_list(values: Any) -> list[Any]:
    """Return one value as a list of it, several as their list; text is one value.

    More values than any grid holds stay as they are, for the reader of the list to refuse: a range
    or an array that repeats one number is small until it is a list.

    Examples
    --------
    >>> as_list(1), as_list([1, 8]), as_list(np.array([1, 8])), as_list("ideal")
    ([1], [1, 8], [1, 8], ['ideal'])
    >>> from types import SimpleNamespace
    >>> len(as_list(SimpleNamespace(__array__=0)))  # says that it is an array, and gives none
    1
    """
    if n_entries(values, axes=0) > MOST_POINTS:
        return [values]
    if hasattr(values, "__array__"):  # a column of pandas too
        try:
            return list(np.atleast_1d(np.asarray(values)).tolist())
        except (TypeError, ValueError, RuntimeError):  # such as of a tensor on a device
            return [values]
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray):
        return list(values)
    return [values]


def unique_list(
    name: str,
    given: Any,
    load: Callable[[Any], _Named],
    *,
    key: Callable[[_Named], object] = lambda one: one,
) -> list[_Named]:
    """Return what one name or several stand for; a thing is not compared with itself.

    Parameters
    ----------
    name
        How refusals call the list.
    given
        A name or object, or several.
    load
        From one of them to what it stands for.
    key
        What is the same in two names of one thing.

    Raises
    ------
    OptionError
        For a thing that is given twice, and whatever `load` refuses.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> unique_list("hardware", ["h100", "H100-SXM"], load_hardware, key=lambda one: one.name)
    Traceback (most recent call last):
    specroof.errors.OptionError: hardware: 'H100-SXM' is 'h100' by another name; allowed: once
    """
    words, keys, found = as_list(given), list[object](), list[_Named]()
    for word in words:
        one = load(word)
        if key(one) in keys:
            message = f"{name}: {given_twice(word, words[keys.index(key(one))])}"
            raise OptionError(message)
        keys.append(key(one))
        found.append(one)
    return found


def given_twice(word: object, before: object) -> str:
    """Return why a list is refused that has one thing twice, under one name or under two.

    Examples
    --------
    >>> given_twice("h100", "h100")
    "'h100' is given twice; allowed: once"
    """
    again, first = (getattr(one, "name", one) for one in (word, before))
    how = "given twice" if again == first else f"{first!r} by another name"
    return f"{again!r} is {how}; allowed: once"


ModelLike: TypeAlias = str | os.PathLike[str] | Architecture


HardwareLike: TypeAlias = str | os.PathLike[str] | HardwareProfile


DrafterLike: TypeAlias = str | Drafter


OptionsLike: TypeAlias = Options | Mapping[str, Any]


ServerLike: TypeAlias = str | Mapping[str, Any] | ServerSettings


Values: TypeAlias = float | Sequence[float] | np.ndarray


def model_of(model: ModelLike, family: str | None = None) -> Architecture:
    """Return a model by name, or the model itself.

    Raises
    ------
    OptionError
        For a value that is not a model, or a family beside a model that is read already.
    """
    expect("model", model, str | os.PathLike | Architecture, "a name, a path or an Architecture")
    expect("family", family, str | None, "a model_type, or None")
    if not isinstance(model, Architecture):
        return load_model(model, family=family)
    if family is not None:
        reject(f"family is {family!r} for a model that is read already", "with a name")
    return model


def name_of(given: ModelLike | HardwareLike) -> str:
    """Return the word that a command takes for a model or a chip."""
    return given.name if isinstance(given, Architecture | HardwareProfile) else os.fspath(given)


def hardware_of(hardware: HardwareLike) -> HardwareProfile:
    """Return hardware by name, or the profile itself.

    Raises
    ------
    OptionError
        For any other value.
    """
    allowed = "a name, a path or a HardwareProfile"
    expect("hardware", hardware, str | os.PathLike | HardwareProfile, allowed)
    return hardware if isinstance(hardware, HardwareProfile) else load_hardware(hardware)


def chips_of(given: HardwareLike | Sequence[HardwareLike]) -> list[HardwareProfile]:
    """Return one chip or several, none of them twice.

    Raises
    ------
    OptionError
        For no chip, and as `hardware_of` and `unique_list` do.
    """
    found = unique_list("hardware", given, hardware_of)
    if not found:
        refuse("hardware", given, "one chip or more")
    return found


def drafter_of(drafter: DrafterLike) -> Drafter:
    """Return a drafter by its SPEC, or the drafter itself.

    Raises
    ------
    OptionError
        For any other value.
    """
    expect("drafter", drafter, str | Drafter, "a SPEC, such as 'mtp,accept=0.8', or a Drafter")
    return drafter if isinstance(drafter, Drafter) else load_drafter(drafter)


def options_of(options: OptionsLike | None) -> Options:
    """Return options from a mapping of their names; the defaults if None.

    Raises
    ------
    OptionError
        For an unknown name or value.

    Examples
    --------
    >>> options_of({"kv_dtype": "fp8"}).kv_dtype
    'fp8'
    """
    expect("options", options, Options | Mapping | None, "Options, or a mapping of their names")
    if isinstance(options, Options):
        return options
    given = options or {}
    known = [field.name for field in fields(Options)]
    unknown = [name for name in given if name not in known]
    if unknown:
        reject(f"{unknown[0]} is not a known key of options", ", ".join(known))
    try:
        return Options(**given)
    except ValueError as refusal:
        raise OptionError(str(refusal)) from None


def changed_options(options: Options) -> dict[str, Any]:
    """Return the options that are not the default, by name."""
    values = ((field, getattr(options, field.name)) for field in fields(Options))
    return {field.name: value for field, value in values if value != field.default}


_SERVER: Final = "ServerSettings, a mapping of their keys, or text such as 'running=64'"


def server_of(server: ServerLike | None) -> ServerSettings:
    """Return the settings of a server from text or a mapping; none if None.

    Raises
    ------
    OptionError
        For an unknown key or value.

    Examples
    --------
    >>> server_of("running=64") == server_of({"running": 64})
    True
    """
    expect("server", server, ServerSettings | str | Mapping | None, _SERVER)
    if server is None:
        return ServerSettings()
    if isinstance(server, ServerSettings):
        return server
    return parse_server(server) if isinstance(server, str) else server_settings(server)


def usd_per_hour(hardware: HardwareProfile, given: Prices | None) -> float | None:
    """Return the price of one device: the user's, else the hardware file's; None if unknown.

    Of prices by chip, one whose name stands for this chip.

    Raises
    ------
    OptionError
        For a price that is negative or not finite.
    """
    if isinstance(given, Mapping):
        named = {hardware_of(name).name: price for name, price in given.items()}
        given = named.get(hardware.name)
    if given is not None:
        return number_within("price_per_hour", given, "usd_per_hour")
    return None if hardware.price is None else hardware.price.usd_per_hour


def money_of(setup: Setup, split: "Split | None" = None, given: Prices | None = None) -> Money:
    """Return what all devices cost and draw: of workers of two chips the mean of a device.

    Parameters
    ----------
    setup, split
        Of the server, or of a decode worker and all workers.
    given
        The user's price of an hour of a device.

    Raises
    ------
    OptionError
        As `usd_per_hour`.
    """
    price = partial(usd_per_hour, given=given)

    def watts(chip: HardwareProfile) -> float | None:
        return None if chip.power is None else chip.power.watts

    if split is None:
        chip = setup.hardware
        return Money(setup.placement.devices, price(chip), watts(chip))
    return Money(split.devices(setup), split.mean(setup, price), split.mean(setup, watts))


def price_notes(hardware: HardwareProfile, usd_per_hour: float | None) -> Iterator[str]:
    """Yield where a price and the energy of tokens come from; nothing for what is unknown.

    Parameters
    ----------
    hardware
        Whose watts they are.
    usd_per_hour
        The price of one device, as `usd_per_hour` returns it.
    """
    if usd_per_hour is not None:
        date = origin = "as given"
        if hardware.price is not None and hardware.price.usd_per_hour == usd_per_hour:
            date, origin = hardware.price.date, f"{hardware.price.date}, {hardware.price.source}"
        price = f"price: {usd_per_hour:g} USD an hour and device"
        yield Note(f"{price}, {origin}", short=f"{price}, {date}")
    if hardware.power is not None:
        yield f"energy: {hardware.power.watts:g} W a device, hosts and cooling not counted"


def borrowed_engine(
    hardware: HardwareProfile, engine_from: str, engine: str | None
) -> tuple[HardwareProfile, str]:
    """Return hardware with an engine that was fitted on another chip, and the engine's name.

    Parameters
    ----------
    hardware
        What is asked about.
    engine_from
        ``CHIP:ENGINE``.
    engine
        An engine besides, which is refused.

    Raises
    ------
    OptionError
        For an engine that was not fitted there, or two engines.

    Examples
    --------
    >>> chip, name = borrowed_engine(load_hardware("mi300x"), "h100-sxm:vllm", None)
    >>> name, chip.engine(name).framework
    ('h100-sxm:vllm', 'vllm')
    """
    expect("engine_from", engine_from, str, "CHIP:ENGINE, or None")
    if engine is not None:
        reject(f"engine is {engine!r} with engine_from {engine_from!r}", "one of them")
    chip, colon, name = engine_from.rpartition(":")
    if not colon:
        reject(f"engine_from is {shown(engine_from)}", "CHIP:ENGINE, as in h100-sxm:vllm")
    lender = load_hardware(chip)
    if name not in lender.engines:
        fitted = ", ".join(lender.engines) or "none"
        message = f"engine_from is {shown(engine_from)}; engines fitted on {lender.name}: {fitted}"
        raise OptionError(message)
    fit = lender.engines[name]
    # Its errors on its own chips say nothing here: a strange chip has the generic bands.
    strange = IDEAL_ENGINE if hardware.generic is None else hardware.generic.engines[GENERIC]
    own = replace(
        fit,
        name=engine_from,
        framework=fit.framework or (name if name in FRAMEWORKS else None),
        expected_error=None,
        **fields_of(strange, "bands", "served_bands", "reach"),
    )
    told = f"borrowed from {lender.name}: {lender.sources[f'engines.{name}']}"
    return replace(
        hardware,
        engines={**hardware.engines, engine_from: own},
        sources={**hardware.sources, f"engines.{engine_from}": told},
    ), engine_from


def published_drafters(
    given: DrafterLike | Sequence[DrafterLike] | None, model: Architecture, server: str = ""
) -> list[DrafterLike]:
    """Return drafters, those that name no acceptance with what is published of their kind.

    With the model, or where that is not published with other models. Of several profiles it is the
    one in the middle; the acceptance says which.

    Parameters
    ----------
    given
        Drafters; None for `usual_kinds`.
    model
        The target.
    server
        What runs them, as of `release`.

    Raises
    ------
    OptionError
        As `drafter_of`.

    Examples
    --------
    >>> [drafter.name for drafter in published_drafters(None, load_model("Qwen/Qwen3-32B"))]
    ['eagle3,profile=qwen3-32b/eagle3/log-line', 'dflash,profile=qwen3-32b/dflash/sharegpt']
    >>> published_drafters("mtp,accept=0.8", load_model("Qwen/Qwen3-32B"))
    ['mtp,accept=0.8']
    """
    found: list[DrafterLike] = [*usual_kinds(model, server)] if given is None else as_list(given)
    for place, one in enumerate(found):
        drafter = drafter_of(one)
        if isinstance(one, str) and not drafter.is_ideal and drafter.acceptance is None:
            found[place] = _published(drafter, model)
    return found


_bundled = cache(load_model)


def _kin(model: Architecture, profiles: Iterable["AcceptanceProfile"]) -> set[str]:
    """Return the targets of profiles that have the layers, widths and parameters of a model.

    Of one base, such as DeepSeek-R1 and V3.1 of V3, whose layer for drafts was trained like theirs.
    """
    names = {name.rpartition("/")[2]: name for name in model_names()}
    targets = {profile.model for profile in profiles} & names.keys()
    others = ((target, _bundled(names[target])) for target in targets)
    sizes = "n_layers", "hidden_size", "vocab_size"
    return {
        target
        for target, other in others
        if fields_of(model, *sizes) == fields_of(other, *sizes)
        and math.isclose(model.n_params, other.n_params, rel_tol=0.01)
    }


def usual_kinds(model: Architecture, server: str = "") -> list[str]:
    """Return the kinds of drafters that are asked about where none is named.

    Those whose acceptance is published with the model and that the server runs, or else what the
    model could have there: the layer of its checkpoint, an EAGLE-3 head, or look-ups, which need no
    weights.

    Examples
    --------
    >>> (
    ...     usual_kinds(load_model("Qwen/Qwen3-32B")),
    ...     usual_kinds(load_model("deepseek-ai/DeepSeek-V3")),
    ... )
    (['eagle3', 'dflash'], ['mtp'])
    """
    from specroof.acceptance.published import published_with  # noqa: PLC0415 - seldom asked for

    facts = release_of(server)
    kinds = [
        kind
        for kind in published_with(model.name)
        if kind in KINDS and not KINDS[kind].required and (facts is None or kind in facts.methods)
    ]
    usual = ["mtp"] * (MTP_NOTE in model.notes) + ["eagle3", "ngram"]
    if kinds or facts is None:
        return kinds or usual[:1]
    if not any(kind in facts.methods for kind in usual):
        reject("drafter is missing", f"one that {server} runs: {', '.join(facts.methods)}")
    served = [kind for kind in usual if lacking_for(facts, kind, model.family) is None]
    return (served or usual)[:1]


def _published(drafter: Drafter, model: Architecture) -> Drafter:
    """Return a drafter with the acceptance of a profile of its kind, and the band of the others.

    The profiles are those of the model, or else of other models, which the acceptance says; where
    there are none, it stays as it is.
    """
    from specroof.acceptance.published import (  # noqa: PLC0415 - seldom asked for
        borrowed_profiles,
        published_with,
        typical_profiles,
    )

    kind, own = drafter.kind, published_with(model.name)
    is_own = kind in own
    known = own if is_own else published_with(None)
    if kind not in known:
        return drafter
    if is_own:
        low, middle, high = typical_profiles(kind, known)
        said = f"acceptance of {kind}: published profile {middle.name}"
    else:
        # Layers for drafts belong to a checkpoint; heads are trained apart, each its own way.
        kin = _kin(model, known[kind]) if kind == "mtp" else ()
        low, middle, high = borrowed_profiles(known[kind], kin)
        others = len({profile.model for profile in known[kind]})
        whose = f"the middle of {others} other model{'s' * (others > 1)}"
        if middle.model in kin:
            whose = f"that of {middle.model}, which has the same sizes"
        said = (
            f"acceptance of {kind} with {model.name} is not published; assumed: {whose}, profile "
            f"{middle.name}"
        )
    found = drafter_of(f"{drafter.name},profile={middle.name}")
    ends = [] if low == high else [one.acceptance("geometric") for one in (low, high)]
    if ends:
        tokens = [float(end.tokens_per_round(middle.draft_len)) for end in ends]
        said += (
            f"; the band is that of other {'' if is_own else 'models and '}texts, {tokens[0]:.2f} "
            f"to {tokens[1]:.2f} tokens per round of {middle.draft_len} drafts"
        )
    acceptance = each_curve(
        cast("Acceptance | ContextAcceptance", found.acceptance),
        lambda curve: replace(
            curve,
            between=tuple(ends),
            caveats=(*curve.caveats, Urgent(said) if is_own else Assumed(said)),
            measured_on=curve.measured_on if is_own else None,
        ),
    )
    return replace(found, acceptance=acceptance)


def resampled_drafter(
    drafter: Drafter, temperature: float | None, rule: str | None, server: str = ""
) -> Drafter:
    """Return a drafter whose acceptance is moved to a temperature and a rule.

    One without an acceptance stays as it is: that is asked for, or given besides.

    Parameters
    ----------
    drafter, temperature, rule
        As of `specroof.acceptance.sampling.resampled_acceptance`.
    server
        What runs it, as of `release`: where no rule is asked for and it lacks the measured one, it
        accepts drafts by the rule that it has without a flag.

    Raises
    ------
    OptionError
        As `specroof.acceptance.sampling.resampled_acceptance` does.

    Examples
    --------
    >>> moved = resampled_drafter(drafter_of("mtp,accept=0.8,temperature=0"), 1.0, None)
    >>> moved.name, moved.acceptance.survival(1).round(2)
    ('mtp,accept=0.8,temperature=0', np.float64(0.78))
    """
    if temperature is not None:
        number_within("temperature", temperature, "temperature")
    if rule is not None:
        expect_word("rule", rule, RULES)
    if drafter.acceptance is None or (temperature is None and rule is None and not server):
        return drafter

    def resampled(curve: Acceptance) -> Acceptance:
        by = rule if rule or accepts(server, curve.rule) else release(server).accepts[0]
        return resampled_acceptance(curve, temperature, by, kind=drafter.kind)

    try:
        acceptance = each_curve(drafter.acceptance, resampled)
    except OptionError as refusal:
        message = f"drafter {drafter.name!r}: {refusal}"
        raise OptionError(message) from None
    return replace(drafter, acceptance=acceptance)


def accepts(framework: str, rule: str | None) -> bool:
    """Tell whether a server accepts drafts by a rule; True where nobody says by which.

    Examples
    --------
    >>> accepts("vllm", "greedy"), accepts("mlx", "greedy"), accepts("ideal", "greedy")
    (True, False, True)
    """
    facts = release_of(framework)
    known = () if facts is None else facts.accepts
    return rule is None or not known or rule in known


def engine_name(name: str | None) -> str | None:
    """Return the name of an engine or framework in our spelling; unknown names stay as they are.

    Raises
    ------
    OptionError
        For anything but text.

    Examples
    --------
    >>> engine_name("trtllm"), engine_name("vLLM"), engine_name("mine"), engine_name(None)
    ('tensorrt-llm', 'vllm', 'mine', None)
    """
    expect("engine", name, str | None, "the name of an engine, or None")
    return None if name is None else SPELT.get(name.casefold().replace("_", "-"), name)


def framework_of(name: str | None) -> tuple[str | None, str]:
    """Return the server of a name in our spelling, and its version in full; empty for the newest.

    Raises
    ------
    OptionError
        For server software that is unknown, and a release that there is no file of.

    Examples
    --------
    >>> framework_of("vLLM"), framework_of("vllm@0.24"), framework_of(None)
    (('vllm', ''), ('vllm', '0.24.0'), (None, ''))
    """
    expect("framework", name, str | None, ", ".join(SERVERS))
    if name is None:
        return None, ""
    word, at, version = name.partition("@")
    server = engine_name(word)
    if server not in SERVERS:
        refuse("framework", name, ", ".join(SERVERS))
    found = release(f"{server}@{version}").version if at else ""
    return server, "" if server in RUNS else found  # whose rules are those of what it runs


def framework_names() -> list[str]:
    """Return all server software, and the releases of those with files."""
    versions = ((server, version) for server in SERVERS for version in known_releases(server))
    return [*SERVERS, *(f"{server}@{version}" for server, version in versions)]


def is_tree(drafter: Drafter) -> bool:
    """Tell whether a drafter has more positions verified than a chain of its depth."""
    depths = np.arange(1, 1 + (drafter.max_draft_len or DEFAULT_MAX_DRAFT_LEN))
    proposed = drafter.propose(constant_acceptance(0.5), depths)
    return bool((np.asarray(proposed.verify_len) > depths + 1).any())


def absent_layers(model: Architecture, drafters: Sequence[Drafter]) -> list[str]:
    """Return a note where mtp drafts for a model whose config names no such layers."""
    if {MTP_NOTE, DSPARK_NOTE} & {*model.notes}:
        return []
    return [
        Urgent(
            f"{drafter.name}: the config of {model.name} names no multi-token-prediction layers; "
            f"the usual ones are priced, and a server has none to load"
        )
        for drafter in drafters
        if drafter.kind == "mtp" and ",config=" not in drafter.name
    ]
