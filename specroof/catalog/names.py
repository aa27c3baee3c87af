"""Names and SPECs to objects: chips, models, drafters with their acceptance."""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, TypedDict

from specroof.acceptance import (
    RULES,
    Acceptance,
    ContextAcceptance,
    acceptance_from_length,
    beta_acceptance,
    constant_acceptance,
    context_acceptance,
    decay_acceptance,
    each_curve,
    histogram_acceptance,
    rate_acceptance,
    survival_acceptance,
    windowed_acceptance,
)
from specroof.acceptance.typical import FAMILIES, LOOKUPS, SHAPES, falling_odds_acceptance
from specroof.architecture.draft_heads import DraftHead, MedusaHeads, attention_window
from specroof.architecture.model import Architecture
from specroof.arrays import number_within
from specroof.catalog.files import (
    bundled,
    bundled_names,
    is_file,
    is_folder,
    name_text,
    read_text,
    suggestion,
)
from specroof.catalog.hub import Fetch, UncachedError, fetch_from_hub
from specroof.drafters import KINDS, Drafter
from specroof.errors import (
    CatalogError,
    ConfigError,
    OptionError,
    ProfileError,
    Urgent,
    expect,
    expect_word,
    not_modelled,
    refuse,
    reject,
)
from specroof.hardware.profile import (
    Generic,
    GenericEngines,
    HardwareProfile,
    LeftOutFits,
    LocalEngines,
    parse_generic,
    parse_left_out_fits,
    parse_local_engines,
    parse_trusted,
)
from specroof.parsers import parse_config
from specroof.reading.yaml_text import parse_yaml, shown

# --- Chips: the user's own files, then the bundled ones -------------------------------------------

HARDWARE_PATH_VARIABLE: Final = "SPECROOF_HARDWARE_PATH"

#: Engines for one user; `benchmarks/fit_local.py` writes it.
_LOCAL: Final = "local.json"


def hardware_names() -> list[str]:
    """Return the names of all hardware files: the bundled ones, then the user's own."""
    return list(_hardware_files())


def hardware_words() -> dict[str, list[str]]:
    """Return the vendors, architectures and compute capabilities of the bundled chips.

    Examples
    --------
    >>> "hopper" in hardware_words()["architecture"]
    True
    """
    texts = [path.read_text(encoding="utf-8") for path in bundled("hardware", ".yaml").values()]
    return {
        key: sorted(
            {word for text in texts for word in re.findall(rf"^{key}: (\S+)", text, re.MULTILINE)}
        )
        for key in ("vendor", "architecture", "compute_capability")
    }


def load_hardware(name: str | os.PathLike[str], *, check: bool = False) -> HardwareProfile:
    """Return a hardware profile from a path, the user's folder or the bundled files.

    Parameters
    ----------
    name
        A YAML file; else a file name without suffix, or an alias, in the folder that
        ``SPECROOF_HARDWARE_PATH`` names or among the bundled profiles; capitals do not matter.
        ``CHIP+CPU`` is a chip with the CPU beside it, which may compute experts.

    check
        Hold bundled files, too, against everything that a file from outside must pass; the tests
        do, and a prediction starts faster without.

    Raises
    ------
    CatalogError
        If there is no such file, name or alias, or what stands beside a chip is no CPU: its file
        says ``architecture: cpu``.
    ProfileError
        If the file is not a valid profile.

    Examples
    --------
    >>> load_hardware("H200").peak.memory_bytes_per_s
    4800000000000.0
    """
    text = name_text("name", name)
    file_and_profile = _hardware_file(text, check=check)
    if file_and_profile is None and "+" in text:
        chip, _, cpu = text.rpartition("+")
        device, host = load_hardware(chip, check=check), load_hardware(cpu, check=check)
        if not host.is_cpu:
            reject(
                f"hardware {shown(text)} has {host.name} beside a chip",
                "a CPU, whose file has architecture: cpu",
                CatalogError,
            )
        return replace(device, name=f"{device.name} + {host.name}", host=host)
    if file_and_profile is None:
        message = f"hardware {shown(text)} is neither a file nor a bundled name or alias"
        msg = f"{message}{suggestion(text, hardware_names())}; see: specroof hardware"
        raise CatalogError(msg)
    return file_and_profile[1]


@cache
def left_out_fits() -> LeftOutFits:
    """Return the engine profiles that were fitted without a source, which `validate` needs.

    Examples
    --------
    >>> "hopper" in left_out_fits().engines["sglang"]
    True
    """
    text = Path(__file__).with_name("left_out.json").read_text(encoding="utf-8")
    return parse_left_out_fits(json.loads(text))


def _hardware_file(text: str, *, check: bool = False) -> tuple[Path, HardwareProfile] | None:
    """Return the file that a path, a name or an alias leads to, and its profile."""
    path = Path(text)
    if is_file(path):
        return path, _parse_hardware(path, trusted=False)
    return _named_hardware(text, check=check)


def _named_hardware(name: str, *, check: bool = False) -> tuple[Path, HardwareProfile] | None:
    """Return the file of a name or an alias, and its profile."""
    wanted, files = name.casefold(), _hardware_files()
    for stem, (known, is_bundled) in files.items():
        if stem.casefold() == wanted:
            return known, _parse_hardware(known, trusted=is_bundled and not check)
    for known, is_bundled in files.values():
        # Parsing is slow and aliases stand in plain text: parse only files that may have this one.
        if wanted in _aliases(known, known.stat().st_mtime_ns):
            profile = _parse_hardware(known, trusted=is_bundled and not check)
            if wanted in (alias.casefold() for alias in profile.aliases):
                return known, profile
    return None


def taken_aliases(file: str | os.PathLike[str]) -> dict[str, str]:
    """Return the aliases of a hardware file that find another one, and the name of that one.

    Parameters
    ----------
    file
        A YAML file, or what else `load_hardware` takes; a CPU beside a chip has no file of its own.

    Examples
    --------
    >>> taken_aliases("b200"), taken_aliases("rtx-4090+cpu-2ch-ddr5")
    ({}, {})
    """
    found = _hardware_file(name_text("file", file))
    if found is None:
        return {}
    own, profile = found
    named = {alias: _named_hardware(alias) for alias in profile.aliases}
    files = {alias: named_file[0] for alias, named_file in named.items() if named_file is not None}
    return {alias: path.stem for alias, path in files.items() if not path.samefile(own)}


#: From the key to the next one.
_ALIASES: Final = re.compile(r"^aliases:.*?(?=^[^\s#-]|\Z)", re.MULTILINE | re.DOTALL)


@lru_cache(maxsize=256)
def _aliases(path: Path, _changed_ns: int) -> str:
    """Return the text of a file's aliases, or all of it, read again when it has changed."""
    text = read_text(path, ProfileError).casefold()
    listed = _ALIASES.search(text)
    return text if listed is None else listed[0]


def _hardware_files() -> dict[str, tuple[Path, bool]]:
    """Return the hardware files by stem, each with whether it is a bundled one."""
    files = {stem: (path, True) for stem, path in bundled("hardware", ".yaml").items()}
    own = os.environ.get(HARDWARE_PATH_VARIABLE)
    if own:  # an empty one is none, not the folder that the shell stands in
        folder = Path(own)
        if not is_folder(folder):
            reject(f"{HARDWARE_PATH_VARIABLE} is {shown(str(folder))}", "a folder", CatalogError)
        files |= {
            path.stem: (path, False) for path in sorted(folder.glob("*.yaml")) if is_file(path)
        }
    return files


def _parse_hardware(path: Path, *, trusted: bool) -> HardwareProfile:
    """Return the profile of a file, with the engines of others and those that stand in."""
    profile = _parsed(read_text(path, ProfileError), str(path), trusted)
    shared, others = {}, bundled("hardware", ".yaml")
    for name, chip in profile.same_engines.items():
        file = others.get(chip)
        has = (
            {} if file is None else _parsed(read_text(file, ProfileError), str(file), True).engines
        )
        if name not in has:
            what = f"{path}: engines.{name}.same_as is {shown(chip)}"
            reject(
                what, f"a bundled hardware file with figures of its own for {name}", ProfileError
            )
        shared[name] = has[name]
    link = profile.interconnect
    stand_ins = GenericEngines(
        known=_generic,
        vendor=profile.vendor,
        architecture=profile.architecture,
        memory_bytes_per_s=profile.peak.memory_bytes_per_s,
        link_bytes_per_s=None if link is None else link.link_bytes_per_s,
        local=local_engines,
    )
    return replace(profile, engines=shared | {**profile.engines}, generic=stand_ins)


@lru_cache(maxsize=256)
def _parsed(text: str, source: str, trusted: bool) -> HardwareProfile:
    """Return the profile that a text holds, which is parsed once: that takes most of a command."""
    if trusted:
        # Of a bundled file that is being edited, the checks below say what is wrong.
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            content = parse_yaml(text, source=source, error=ProfileError)
            return parse_trusted(content, source=source)
    # Imported here: few files are not our own.
    from specroof.hardware.schema import parse_hardware  # noqa: PLC0415

    return parse_hardware(text, source=source)


@cache
def _generic() -> Generic:
    text = Path(__file__).with_name("generic.json").read_text(encoding="utf-8")
    return parse_generic(json.loads(text))


@cache
def local_engines() -> LocalEngines:
    """Return the engines for one user, llama.cpp and MLX, with their left-out fits."""
    text = Path(__file__).with_name(_LOCAL).read_text(encoding="utf-8")
    return parse_local_engines(json.loads(text))


# --- Models and draft heads: a path, a bundled name, a Hub name -----------------------------------


_CONFIG_NAME: Final = "config.json"
_SIDECAR_NAME: Final = "hf_quant_config.json"
_REPO_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
#: A GGUF file, or a repository and the format of one of its files.
_GGUF: Final = re.compile(rf".*\.gguf|{_REPO_ID.pattern}:[\w.-]+", re.IGNORECASE | re.DOTALL)


class _ConfigTexts(TypedDict):
    """The texts of a config and of the quantisation file beside it, for the parsers."""

    text: str
    source: str
    name: str
    quantization_text: str | None


def model_names() -> list[str]:
    """Return the names of all bundled models, ``ORG/NAME``."""
    return bundled_names("model_configs")


def load_model(
    name: str | os.PathLike[str], *, family: str | None = None, fetch: Fetch | None = None
) -> Architecture:
    """Return a model from a path, a bundled name or the Hugging Face Hub, tried in this order.

    Parameters
    ----------
    name
        A ``config.json`` or a folder that holds one; a bundled ``ORG/NAME`` (or ``NAME``, where
        only one organisation has it); else a repository of the Hub: only
        ``config.json`` and ``hf_quant_config.json`` are fetched and nothing is executed. A GGUF
        file by its path, or of the Hub as ``ORG/NAME/FILE.gguf`` or, as llama.cpp has it,
        ``ORG/NAME:Q4_K_M``: its first megabytes are read.
    family
        Read a config of unknown `model_type` as this one.
    fetch
        What to fetch with, ``(repository, file name) -> path or None``; huggingface_hub if None,
        which minds ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HOME`` and ``HF_HUB_OFFLINE``.

    Raises
    ------
    CatalogError
        If no such file, name or repository can be had.
    ConfigError
        If the config is not one that specroof reads.

    Examples
    --------
    >>> load_model("Qwen/Qwen3-8B").n_layers
    36
    """
    text = name_text("name", name)
    expect("family", family, str | None, "a model_type, or None")
    if _GGUF.fullmatch(text):
        if family is not None:
            refuse("family", family, f"none: {shown(text)} says its architecture")
        # Imported here, like families: few models are read from such files.
        from specroof.catalog.gguf import load_gguf  # noqa: PLC0415

        return load_gguf(text)
    files = {"model": bundled("model_configs", ".json")}
    texts, notes = _config_texts(text, files, fetch)
    model = parse_config(**texts, family=family)
    return replace(model, notes=(*model.notes, *notes))


def _config_texts(
    text: str, bundled: Mapping[str, Mapping[str, Path]], fetch: Fetch | None
) -> tuple[_ConfigTexts, list[str]]:
    """Return the texts of a config and of the sidecar beside it, what to call them, and notes.

    A path wins, then a bundled file of one of the groups in `bundled`, then the Hub.
    """
    path = Path(text)
    # The bundled file of ``ORG/NAME``, or of a ``NAME`` that one organisation has.
    wanted = text.replace("/", "--", 1).casefold()
    matches = (
        [
            file
            for stem, file in files.items()
            if wanted in (stem.casefold(), stem.partition("--")[2].casefold())
        ]
        for files in bundled.values()
    )
    local = path / _CONFIG_NAME if is_file(path / _CONFIG_NAME) else path
    sidecar: Path | None
    notes: list[str] = []
    if is_file(local):
        # In a folder of its own a config has the sidecar's plain name beside it.
        owner = "" if local.name == _CONFIG_NAME else f"{local.stem}."
        config, sidecar, name = local, local.with_name(f"{owner}{_SIDECAR_NAME}"), text
    elif match := next((files for files in matches if len(files) == 1), None):
        config, sidecar, name = match[0], None, match[0].stem.partition("--")[2]
    else:
        what = next(iter(bundled))
        if not _REPO_ID.fullmatch(text):
            known = [stem.replace("--", "/", 1) for files in bundled.values() for stem in files]
            message = (
                f"{what} {shown(text)} is neither a file nor a bundled {what} nor a Hub name "
                f"(ORG/NAME){suggestion(text, known)}"
            )
            raise CatalogError(message)
        fetch = fetch or fetch_from_hub
        fetched = fetch(text, _CONFIG_NAME)
        if fetched is None:
            missing = f"{text}: the repository has no {_CONFIG_NAME}"
            reject(missing, f"a {what} repository", CatalogError)
        config, sidecar, name = fetched, None, text.partition("/")[2]
        try:
            sidecar = fetch(text, _SIDECAR_NAME)
        except UncachedError:
            # Other tools cache a repository's files, but not which ones it lacks.
            notes = [f"no {_SIDECAR_NAME} in the cache, and offline: read as if there were none"]
    has_sidecar = sidecar is not None and is_file(sidecar)
    texts: _ConfigTexts = {
        "text": read_text(config, ConfigError),
        "source": str(config),
        "name": name,
        "quantization_text": read_text(sidecar, ConfigError) if sidecar and has_sidecar else None,
    }
    return texts, notes


def load_draft_config(
    name: str | os.PathLike[str], kind: str, *, fetch: Fetch | None = None
) -> DraftHead | MedusaHeads:
    """Return the sizes of a drafter from a path, a bundled name or the Hub, tried in this order.

    Parameters
    ----------
    name
        A file or folder, a bundled name or a repository: the config of a drafter, or of a target
        whose checkpoint holds draft layers. Bundled drafters go before bundled models. For
        ``mtp`` a GGUF file that holds them, too.
    kind
        What a SPEC calls the drafter.
    fetch
        What to fetch with, ``(repository, file name) -> path or None``; huggingface_hub if None.

    Raises
    ------
    CatalogError
        If no such file, name or repository can be had.
    ConfigError
        If it describes no drafter of this kind.

    Examples
    --------
    >>> load_draft_config("Qwen/Qwen3.6-27B", "mtp").n_params
    424699392
    """
    # Imported here, like families: few predictions draft with a checkpoint.
    from specroof.parsers.drafters import parse_drafter_config  # noqa: PLC0415

    text = os.fspath(name)
    if _GGUF.fullmatch(text):
        if kind != "mtp":
            reject(
                f"{shown(text)}: a GGUF file", "a config.json; such files: mtp, model", ConfigError
            )
        from specroof.catalog.gguf import load_gguf_mtp  # noqa: PLC0415 - few models are such files

        return load_gguf_mtp(text)
    groups = {
        "drafter": bundled("model_configs/drafters", ".json"),
        "model": bundled("model_configs", ".json"),
    }
    return parse_drafter_config(**_config_texts(text, groups, fetch)[0], kind=kind)


# --- SPECs: a drafter and its acceptance ----------------------------------------------------------


def load_drafter(spec: str, *, fetch: Fetch | None = None) -> Drafter:
    """Return the drafter that a SPEC describes, with its acceptance if the SPEC gives one.

    Parameters
    ----------
    spec
        ``KIND[,key=value…]``: the kind's own keys, and at most one of `ACCEPTANCE_KEYS`.
    fetch
        What to fetch a ``config=`` with that is neither a file nor bundled: ``(repository, file
        name) -> path or None``; huggingface_hub if None.

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
    kind, comma, rest = spec.strip().partition(",")
    plain = kind.strip().casefold().replace("-", "_")
    ours = _ENGINES_KINDS.get(plain, plain)
    if kind.strip() not in KINDS and ours in KINDS:
        kind = ours
    text = f"{kind}{comma}{rest}"
    kind_name, *pairs = (part.strip() for part in text.split(","))
    where = f"drafter {text!r}"
    if kind_name not in KINDS:
        refuse(f"{where}: kind", kind_name, ", ".join(KINDS))
    values = _spec_values(where, kind_name, pairs)
    given = [key for key in ACCEPTANCE_KEYS if key in values]
    told: dict[str, str] = {key: values.pop(key) for key in _OF_ACCEPTANCE if key in values}
    if len(given) > 1:
        reject(f"{where}: gives {' and '.join(given)}", "one acceptance")
    if told and not given:
        reject(
            f"{where}: {next(iter(told))} is given without an acceptance",
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
        (key,) = given
        try:
            acceptance = ACCEPTANCE_KEYS[key](values[key], kind_name)
        except OptionError as refusal:  # begins with the key
            message = str(refusal)
            raise OptionError(message if message.startswith(key) else f"{key}: {message}") from None
        if told:
            acceptance = _as_told(acceptance, told, own, kind_name)
        design = [f"{key}={values[key]}" for key in KINDS[kind_name].design if key in values]
        if design:
            said = Urgent(
                f"acceptance is taken as given: what {', '.join(design)} does to it is not modelled"
            )
            acceptance = each_curve(
                acceptance, lambda curve: replace(curve, caveats=(*curve.caveats, said))
            )
        return replace(drafter, acceptance=acceptance)
    except OptionError as refusal:
        message = f"{where}: {refusal}"
        raise OptionError(message) from None


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


def _own_value(kind: str, key: str, text: str, fetch: Fetch | None) -> Any:
    """Return the value of a kind's own key: a number, or what its table says it is."""
    match KINDS[kind].reads.get(key, "number"):
        case "drafter":
            return load_draft_config(text, kind, fetch=fetch)
        case "model":
            return load_model(text, fetch=fetch)
        case "hardware":
            return text if text == "cpu" else load_hardware(text)
        case "numbers":
            return _numbers(key, text)
        case "text":
            return text
        case _:
            return _number(key, text)


def _spec_values(where: str, kind_name: str, pairs: list[str]) -> dict[str, str]:
    """Return the values of a SPEC as text, with all keys that its kind requires."""
    kind = KINDS[kind_name]
    takes_acceptance = kind_name != "ideal"
    known = [*kind.keys, *((*ACCEPTANCE_KEYS, *_OF_ACCEPTANCE) if takes_acceptance else ())]
    values: dict[str, str] = {}
    wrong: list[str] = []
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not value or key not in known:
            wrong.append(repr(pair))
            continue
        if key in values:
            reject(f"{where}: {key} is given twice", "once")
        values[key] = value
    if wrong:
        allowed = ", ".join(f"{name}=…" for name in known) or "nothing after the kind"
        are = "are" if len(wrong) > 1 else "is"
        left_out = [said for pair in wrong if (said := not_modelled(pair.partition("=")[0]))]
        why = f" ({'; '.join(left_out)})" if left_out else ""
        reject(f"{where}: {', '.join(wrong)} {are} not understood{why}", allowed)
    for group in kind.required:
        if sum(key in values for key in group) != 1:
            message = f"{where}: needs {'exactly one of ' * (len(group) > 1)}{', '.join(group)}="
            raise OptionError(message)
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


def _as_told(
    acceptance: Acceptance | ContextAcceptance,
    told: Mapping[str, str],
    own: Mapping[str, Any],
    kind: str,
) -> Acceptance | ContextAcceptance:
    """Return acceptance that goes on, is sampled and falls with the context as a SPEC says.

    What it leaves open of its sampling, the SPEC states; what a profile states, it is moved from.

    Parameters
    ----------
    acceptance
        As one of `ACCEPTANCE_KEYS` gives it.
    told
        Values by keys of `_OF_ACCEPTANCE`.
    own
        Values of the kind's own keys, which say how far its attention sees.
    kind
        Of the drafter.
    """
    # Imported here: few SPECs say any of this.
    from specroof.acceptance.law_fits import extrapolated_acceptance  # noqa: PLC0415
    from specroof.acceptance.sampling import resampled_acceptance  # noqa: PLC0415

    def changed(curve: Acceptance) -> Acceptance:
        if "extrapolate" in told:
            curve = extrapolated_acceptance(curve, told["extrapolate"])
        stated = {name: value for name, value in sampling.items() if getattr(curve, name) is None}
        return resampled_acceptance(
            replace(curve, **stated), sampling.get("temperature"), sampling.get("rule"), kind=kind
        )

    sampling: dict[str, Any] = {
        key: number_within(key, _number(key, told[key]), key)
        for key in ("temperature", "entropy")
        if key in told
    }
    if "rule" in told:
        expect_word("rule", told["rule"], RULES)
        sampling["rule"] = told["rule"]
    acceptance = each_curve(acceptance, changed)
    if "window" not in told:
        return acceptance
    if kind in LOOKUPS:
        reject(f"window is given with {kind}, which is not trained", "a drafter with weights")
    if isinstance(acceptance, ContextAcceptance):
        reject("window is given with an acceptance by context", "one of them")
    seen = own["sliding"] if "sliding" in own else attention_window(own.get("config"))
    return windowed_acceptance(acceptance, _number("window", told["window"]), seen=seen)


def _profile(text: str, _kind: str) -> Acceptance | ContextAcceptance:
    """Return the acceptance of a profile, or of several, each at the context it was measured at."""
    from specroof.catalog.profiles import load_profile  # noqa: PLC0415 - seldom asked for

    if "+" not in text or is_file(Path(text)):
        return load_profile(text).acceptance()
    curves: dict[float, Acceptance] = {}
    for part in text.split("+"):
        name, at, context = part.rpartition("@")
        if not at:
            reject(f"profile is {text!r}", "NAME, or NAME@CONTEXT+NAME@CONTEXT")
        curves[_number("context of a profile", context)] = load_profile(name).acceptance()
    return context_acceptance(curves)


#: Drafts at which one rate is compared with published drafters.
_FEW: Final = 5


def _accept(text: str, kind: str) -> Acceptance:
    curve = constant_acceptance(_number("accept", text))
    rate, family = float(curve.parameters[0]), FAMILIES.get(kind)
    if family is None or SHAPES[family].power < 0 or rate in {0.0, 1.0}:
        return curve
    falling = falling_odds_acceptance(rate, SHAPES[family].power)
    said = (
        f"accept={text} is taken at every depth; published {kind} drafters lose acceptance "
        f"with depth ({falling.tokens_per_round(_FEW):.2f} tokens per round of {_FEW} "
        f"drafts, not {curve.tokens_per_round(_FEW):.2f}): accept-length= counts that"
    )
    return replace(curve, caveats=(Urgent(said),))


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


#: What a SPEC may say of its acceptance besides.
_OF_ACCEPTANCE: Final = ("extrapolate", "temperature", "rule", "entropy", "window")

#: How a SPEC may give acceptance, from the text and the kind of drafter; exactly one of these.
ACCEPTANCE_KEYS: Final[dict[str, Callable[[str, str], Acceptance | ContextAcceptance]]] = {
    "accept": _accept,
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
