"""Names and SPECs to objects: bundled files, paths, the Hub. The only disk and network."""

import difflib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypedDict

from specroof.acceptance import (
    Acceptance,
    acceptance_from_length,
    beta_acceptance,
    constant_acceptance,
    decay_acceptance,
    extrapolated_acceptance,
    histogram_acceptance,
    rate_acceptance,
    survival_acceptance,
)
from specroof.architecture import Architecture, DraftHead, MedusaHeads
from specroof.drafters import KINDS, Drafter
from specroof.errors import (
    CatalogError,
    ConfigError,
    OptionError,
    OutputError,
    ProfileError,
    SpecroofError,
)
from specroof.hardware import HardwareProfile, parse_hardware
from specroof.parsers import parse_config
from specroof.profiles import AcceptanceProfile, bundled_profile, draft_count, parse_profiles

__all__ = [
    "ACCEPTANCE_KEYS",
    "HARDWARE_PATH_VARIABLE",
    "drafter_names",
    "hardware_names",
    "load_draft_config",
    "load_drafter",
    "load_hardware",
    "load_model",
    "load_profile",
    "load_profiles_file",
    "model_names",
    "read_text",
    "study_path",
    "write_files",
]

HARDWARE_PATH_VARIABLE: Final = "SPECROOF_HARDWARE_PATH"

#: Larger than any published file (the longest real config has 90 KB), small enough to read.
_MAX_FILE_BYTES: Final = 16 * 2**20

_DRAFTER_FOLDER: Final = "model_configs/drafters"

_CONFIG_NAME: Final = "config.json"
_SIDECAR_NAME: Final = "hf_quant_config.json"
_REPO_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


class _ConfigTexts(TypedDict):
    """What the parsers take."""

    text: str
    source: str
    name: str
    quantization_text: str | None


#: Fetches a file of a Hub repository and returns where it lies; None if the repository lacks it.
Fetch = Callable[[str, str], Path | None]


# --- files -------------------------------------------------------------------------------------


def _folder(name: str) -> Path:
    """Return a folder of data: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent
    packed = package / "data" / name
    return packed if packed.is_dir() else package.parent / name


def read_text(path: Path, error: type[SpecroofError]) -> str:
    """Return the text of a file from outside, refused if it is no small text file.

    Raises
    ------
    SpecroofError
        Of the type `error`: for a missing, unreadable, too large or non-UTF-8 file.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as failure:
        message = f"{path}: {failure.strerror or failure}; allowed: a readable file"
        raise error(message) from None
    if len(data) > _MAX_FILE_BYTES:
        message = f"{path}: larger than {_MAX_FILE_BYTES} bytes; allowed: a config of that size"
        raise error(message)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        message = f"{path}: byte {failure.start} is not UTF-8; allowed: UTF-8 text"
        raise error(message) from None


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files whole, or none of them.

    Each is written beside its place under another name, and all are moved there at the end, so
    that a reader never sees half a file and a refusal leaves what was there before.

    Raises
    ------
    OutputError
        Naming the first path that cannot be written.
    """
    if not files:
        return
    import tempfile  # noqa: PLC0415 - most predictions write nothing, and a cold start is felt

    written: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            if path.is_dir():
                message = f"{path}: is a folder; allowed: a file that can be written"
                raise OutputError(message)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
                written[path] = Path(file.name)
                file.write(data)
            written[path].chmod(0o644)
        for path, temporary in written.items():
            temporary.replace(path)
    except OSError as failure:
        reason = failure.strerror or failure
        message = f"{path}: {reason}; allowed: a file in a folder that can be written to"
        raise OutputError(message) from None
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)


def _bundled(folder: str, suffix: str) -> dict[str, Path]:
    """Return the bundled files by stem, sorted."""
    return {path.stem: path for path in sorted(_folder(folder).glob(f"*{suffix}"))}


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.casefold(), [entry.casefold() for entry in known], n=3)
    spelled = [entry for entry in known if entry.casefold() in close]
    return f"; did you mean {' or '.join(spelled)}?" if spelled else ""


# --- models ------------------------------------------------------------------------------------


def model_names() -> list[str]:
    """Return the names of all bundled models, ``ORG/NAME``."""
    return [stem.replace("--", "/", 1) for stem in _bundled("model_configs", ".json")]


def load_model(
    name: str | os.PathLike[str], *, family: str | None = None, fetch: Fetch | None = None
) -> Architecture:
    """Return a model from a path, a bundled name or the Hugging Face Hub, tried in this order.

    Parameters
    ----------
    name
        A ``config.json`` or a folder that holds one; a bundled ``ORG/NAME`` (or ``NAME``, where
        only one organisation has it); else a repository of the Hub, of which only
        ``config.json`` and ``hf_quant_config.json`` are fetched and nothing is executed.
    family
        Price a config of unknown `model_type` as this one.
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
    text = os.fspath(name)
    files = {"model": _bundled("model_configs", ".json")}
    return parse_config(**_found_config(text, files, fetch), family=family)


def _found_config(
    text: str, bundled: Mapping[str, Mapping[str, Path]], fetch: Fetch | None
) -> _ConfigTexts:
    """Return the texts of a config and of the sidecar beside it, and what to call them.

    A path wins, then a bundled file of one of the groups in `bundled`, then the Hub.
    """
    path = Path(text)
    if path.is_file():
        return _config_texts(path, path.with_name(f"{path.stem}.{_SIDECAR_NAME}"), text)
    if (path / _CONFIG_NAME).is_file():
        return _config_texts(path / _CONFIG_NAME, path / _SIDECAR_NAME, text)
    for files in bundled.values():
        file = _bundled_config(text, files)
        if file is not None:
            return _config_texts(file, None, file.stem.partition("--")[2])
    what = next(iter(bundled))
    if not _REPO_ID.fullmatch(text):
        known = [stem.replace("--", "/", 1) for files in bundled.values() for stem in files]
        message = (
            f"{what} {text!r} is neither a file nor a bundled {what} nor a Hub name (ORG/NAME)"
            f"{_suggestion(text, known)}"
        )
        raise CatalogError(message)
    fetch = fetch or _fetch_from_hub
    config = fetch(text, _CONFIG_NAME)
    if config is None:
        message = f"{text}: the repository has no {_CONFIG_NAME}; allowed: a {what} repository"
        raise CatalogError(message)
    return _config_texts(config, fetch(text, _SIDECAR_NAME), text.partition("/")[2])


def _bundled_config(name: str, files: Mapping[str, Path]) -> Path | None:
    """Return the bundled file of ``ORG/NAME`` or of a ``NAME`` that one organisation has."""
    wanted = name.replace("/", "--", 1).casefold()
    matches = [
        path
        for stem, path in files.items()
        if wanted in (stem.casefold(), stem.partition("--")[2].casefold())
    ]
    return matches[0] if len(matches) == 1 else None


def _config_texts(config: Path, sidecar: Path | None, name: str) -> _ConfigTexts:
    quantization = (
        read_text(sidecar, ConfigError) if sidecar is not None and sidecar.is_file() else None
    )
    return {
        "text": read_text(config, ConfigError),
        "source": str(config),
        "name": name,
        "quantization_text": quantization,
    }


def _fetch_from_hub(repository: str, file_name: str) -> Path | None:
    """Fetch one file with huggingface_hub, every failure in one line."""
    # Imported here: it costs more than all the rest, and few calls need it.
    import logging  # noqa: PLC0415

    from huggingface_hub import (  # noqa: PLC0415
        _CACHED_NO_EXIST,
        hf_hub_download,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import (  # noqa: PLC0415
        EntryNotFoundError,
        LocalEntryNotFoundError,
    )

    # Its warnings of retries would stand between the user and the one line that matters.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        return Path(hf_hub_download(repository, file_name))
    except (OSError, ValueError, EntryNotFoundError) as failure:
        # "Local": not in the cache and not fetched. An earlier call may have found it missing.
        local = isinstance(failure, LocalEntryNotFoundError)
        known = try_to_load_from_cache(repository, file_name) is _CACHED_NO_EXIST
        if isinstance(failure, EntryNotFoundError) and (known or not local):
            return None
        message = f"{repository}: {file_name} cannot be fetched: {_reason(failure, repository)}"
        raise CatalogError(message) from None


def _reason(failure: Exception, repository: str) -> str:
    """Return what a failure of huggingface_hub means, in a few words."""
    from huggingface_hub.errors import (  # noqa: PLC0415
        GatedRepoError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    if isinstance(failure, GatedRepoError):
        return "the repository is gated; ask for access and set HF_TOKEN"
    if isinstance(failure, RepositoryNotFoundError):
        suggestion = _suggestion(repository, model_names())
        return f"no such repository, or a private one that HF_TOKEN does not open{suggestion}"
    for error in (failure, failure.__cause__):
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status is not None:
            return f"the Hub answered with status {status}"
    if isinstance(failure, LocalEntryNotFoundError | OfflineModeIsEnabled):
        return "the Hub is not reachable (or HF_HUB_OFFLINE is set), and no copy is cached"
    return str(failure)


# --- hardware ----------------------------------------------------------------------------------


def hardware_names() -> list[str]:
    """Return the names of all hardware files: the user's own, then the bundled ones."""
    return list(_hardware_files())


def load_hardware(name: str | os.PathLike[str]) -> HardwareProfile:
    """Return a hardware profile from a path, the user's folder or the bundled files.

    Parameters
    ----------
    name
        A YAML file; else a file name without suffix, or an alias, in the folder that
        ``SPECROOF_HARDWARE_PATH`` names or among the bundled profiles; capitals do not matter.

    Raises
    ------
    CatalogError
        If there is no such file, name or alias.
    ProfileError
        If the file is no valid profile.

    Examples
    --------
    >>> load_hardware("H200").peak.memory_bytes_per_s
    4800000000000.0
    """
    text = os.fspath(name)
    path = Path(text)
    if path.is_file():
        return _parse_hardware(path, trusted=False)
    wanted = text.casefold()
    files = _hardware_files()
    for stem, (known, is_bundled) in files.items():
        if stem.casefold() == wanted:
            return _parse_hardware(known, trusted=is_bundled)
    for known, is_bundled in files.values():
        # Parsing is slow and aliases stand in plain text: parse only files that hold the word.
        if wanted in read_text(known, ProfileError).casefold():
            profile = _parse_hardware(known, trusted=is_bundled)
            if wanted in (alias.casefold() for alias in profile.aliases):
                return profile
    message = f"hardware {text!r} is neither a file nor a bundled name or alias"
    msg = f"{message}{_suggestion(text, list(files))}; see: specroof hardware"
    raise CatalogError(msg)


def _hardware_files() -> dict[str, tuple[Path, bool]]:
    """Return the hardware files by stem, each with whether it is a bundled one."""
    files = {stem: (path, True) for stem, path in _bundled("hardware", ".yaml").items()}
    own = os.environ.get(HARDWARE_PATH_VARIABLE)
    if own is not None:
        files |= {path.stem: (path, False) for path in _yaml_files(Path(own))}
    return files


def _yaml_files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        message = f"{HARDWARE_PATH_VARIABLE} is {str(folder)!r}; allowed: a folder"
        raise CatalogError(message)
    yield from sorted(folder.glob("*.yaml"))


def _parse_hardware(path: Path, *, trusted: bool) -> HardwareProfile:
    return parse_hardware(read_text(path, ProfileError), source=str(path), trusted=trusted)


# --- studies -----------------------------------------------------------------------------------


def study_path(name: str) -> Path:
    """Return the file of a study: an existing path, or a bundled study by name.

    Raises
    ------
    CatalogError
        If there is neither.
    """
    path = Path(name)
    if path.is_file():
        return path
    bundled = {file.stem: file for file in (Path(__file__).parent / "studies").glob("*.yaml")}
    if name in bundled:
        return bundled[name]
    message = f"study {name!r} is neither a file nor a bundled study ({', '.join(bundled)})"
    raise CatalogError(message)


# --- acceptance --------------------------------------------------------------------------------


def load_profile(name: str | os.PathLike[str], *, drafts: str | None = None) -> AcceptanceProfile:
    """Return a measured acceptance: a file that holds one, or a bundled profile by its name.

    Parameters
    ----------
    name
        An existing path wins; else a name that ``specroof acceptance`` lists.
    drafts
        Drafts per round, where a file does not say, as in ``num_draft_tokens=8``.

    Raises
    ------
    CatalogError
        If there is neither, or the file holds several.
    OptionError
        If the file cannot be understood, or contradicts itself.

    Examples
    --------
    >>> load_profile("qwen3.6-35b-a3b/mtp/speed-bench").draft_len
    8
    """
    path = Path(name)
    if not path.is_file():
        return bundled_profile(os.fspath(name))
    found = load_profiles_file(path, drafts=drafts)
    if len(found) > 1:
        names = ", ".join(profile.name for profile in found[:4])
        message = f"{path}: holds {len(found)} profiles ({names}, …); allowed: a file with one"
        raise CatalogError(message)
    return found[0]


def load_profiles_file(
    name: str | os.PathLike[str], *, drafts: str | None = None
) -> list[AcceptanceProfile]:
    """Return every measured acceptance of a file, in any format of `parse_profiles`.

    Raises
    ------
    CatalogError
        If the file cannot be read.
    OptionError
        If it cannot be understood, or contradicts itself.
    """
    text = read_text(Path(name), CatalogError)
    return parse_profiles(text, os.fspath(name), None if drafts is None else draft_count(drafts))


# --- drafters ----------------------------------------------------------------------------------


def drafter_names() -> list[str]:
    """Return the names of all bundled drafter configs, ``ORG/NAME``."""
    return [stem.replace("--", "/", 1) for stem in _bundled(_DRAFTER_FOLDER, ".json")]


def load_draft_config(
    name: str | os.PathLike[str], kind: str, *, fetch: Fetch | None = None
) -> DraftHead | MedusaHeads:
    """Return the sizes of a drafter from a path, a bundled name or the Hub, tried in this order.

    Parameters
    ----------
    name
        As for `load_model`: the config of a drafter, or of a target whose checkpoint holds draft
        layers. Bundled drafters go before bundled models.
    kind
        What a SPEC calls the drafter.
    fetch
        As for `load_model`.

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
    # Imported here, like families: few predictions draft with a checkpoint of their own.
    from specroof.parsers.drafters import parse_drafter_config  # noqa: PLC0415

    groups = {
        "drafter": _bundled(_DRAFTER_FOLDER, ".json"),
        "model": _bundled("model_configs", ".json"),
    }
    return parse_drafter_config(**_found_config(os.fspath(name), groups, fetch), kind=kind)


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
    text = spec.strip()
    kind_name, *pairs = (part.strip() for part in text.split(","))
    where = f"drafter {text!r}"
    if kind_name not in KINDS:
        message = f"{where}: kind is {kind_name!r}; allowed: {', '.join(KINDS)}"
        raise OptionError(message)
    values = _kind_values(where, kind_name, pairs)
    given = [key for key in ACCEPTANCE_KEYS if key in values]
    extrapolate = values.pop(_EXTRAPOLATE, None)
    if len(given) > 1:
        message = f"{where}: gives {' and '.join(given)}; allowed: one acceptance"
        raise OptionError(message)
    if extrapolate is not None and not given:
        message = f"{where}: {_EXTRAPOLATE} is given without an acceptance that could go on"
        msg = f"{message}; allowed: beside {', '.join(ACCEPTANCE_KEYS)}"
        raise OptionError(msg)
    try:
        own = {
            key: _own_value(kind_name, key, value, fetch)
            for key, value in values.items()
            if key not in given
        }
        drafter = KINDS[kind_name].build(own, text)
        if not given:
            return drafter
        acceptance = ACCEPTANCE_KEYS[given[0]](values[given[0]])
        if extrapolate is not None:
            acceptance = extrapolated_acceptance(acceptance, extrapolate)
        return replace(drafter, acceptance=acceptance)
    except OptionError as refusal:
        message = f"{where}: {refusal}"
        raise OptionError(message) from None


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
            message = f"{where}: {pair!r} is not understood; allowed: {allowed}"
            raise OptionError(message)
        if key in values:
            message = f"{where}: {key} is given twice; allowed: once"
            raise OptionError(message)
        values[key] = value
    return values


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        message = f"{key} is {text!r}; allowed: a number"
        raise OptionError(message)
    return value


def _numbers(key: str, text: str) -> list[float]:
    return [_number(key, part) for part in text.split("/")]


def _accept_length(text: str) -> Acceptance:
    length, at, drafts = text.partition("@")
    if not at:
        message = f"accept-length is {text!r}; allowed: TOKENS@DRAFTS, such as 3.4@7: tokens per"
        msg = f"{message} round, bonus included, and the drafts it was measured with"
        raise OptionError(msg)
    measured_with = _number("accept-length", drafts)
    if not measured_with.is_integer():
        message = f"accept-length is {text!r}; allowed: a whole number of drafts after @"
        raise OptionError(message)
    return acceptance_from_length(_number("accept-length", length), int(measured_with))


def _beta(text: str) -> Acceptance:
    parameters = _numbers("beta", text)
    if len(parameters) != 2:
        message = f"beta is {text!r}; allowed: A/B, two numbers above 0"
        raise OptionError(message)
    return beta_acceptance(parameters[0], parameters[1])


def _decay(text: str) -> Acceptance:
    parameters = _numbers("decay", text)
    if len(parameters) != 3:
        message = f"decay is {text!r}; allowed: FIRST/LAST/RATIO, three numbers from 0 to 1"
        raise OptionError(message)
    return decay_acceptance(*parameters)


#: The key that lets a measured acceptance go on past its depth.
_EXTRAPOLATE: Final = "extrapolate"

#: How a SPEC may give acceptance; exactly one of these.
ACCEPTANCE_KEYS: Final[dict[str, Callable[[str], Acceptance]]] = {
    "accept": lambda text: constant_acceptance(_number("accept", text)),
    "accept-length": _accept_length,
    "rates": lambda text: rate_acceptance(_numbers("rates", text)),
    "survival": lambda text: survival_acceptance(_numbers("survival", text)),
    "histogram": lambda text: histogram_acceptance(_numbers("histogram", text)),
    "beta": _beta,
    "decay": _decay,
    "profile": lambda text: load_profile(text).acceptance(),
}
