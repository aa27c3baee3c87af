"""Models and draft heads, by path, bundled name or Hub name."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypedDict

from specroof.architecture import Architecture, DraftHead, MedusaHeads
from specroof.catalog.files import bundled, bundled_names, is_file, name_text, read_text, suggestion
from specroof.catalog.hub import Fetch, fetch_from_hub
from specroof.errors import CatalogError, ConfigError, expect, reject
from specroof.parsers import parse_config
from specroof.reading.yaml_text import shown

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
        ``config.json`` and ``hf_quant_config.json`` are fetched and nothing is executed.
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
    files = {"model": bundled("model_configs", ".json")}
    return parse_config(**_found_config(text, files, fetch), family=family)


def _found_config(
    text: str, bundled: Mapping[str, Mapping[str, Path]], fetch: Fetch | None
) -> _ConfigTexts:
    """Return the texts of a config and of the sidecar beside it, and what to call them.

    A path wins, then a bundled file of one of the groups in `bundled`, then the Hub.
    """
    path = Path(text)
    if is_file(path):
        return _config_texts(path, path.with_name(f"{path.stem}.{_SIDECAR_NAME}"), text)
    if is_file(path / _CONFIG_NAME):
        return _config_texts(path / _CONFIG_NAME, path / _SIDECAR_NAME, text)
    for files in bundled.values():
        file = _bundled_config(text, files)
        if file is not None:
            return _config_texts(file, None, file.stem.partition("--")[2])
    what = next(iter(bundled))
    if not _REPO_ID.fullmatch(text):
        known = [stem.replace("--", "/", 1) for files in bundled.values() for stem in files]
        message = (
            f"{what} {shown(text)} is neither a file nor a bundled {what} nor a Hub name (ORG/NAME)"
            f"{suggestion(text, known)}"
        )
        raise CatalogError(message)
    fetch = fetch or fetch_from_hub
    config = fetch(text, _CONFIG_NAME)
    if config is None:
        reject(
            f"{text}: the repository has no {_CONFIG_NAME}", f"a {what} repository", CatalogError
        )
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
        read_text(sidecar, ConfigError) if sidecar is not None and is_file(sidecar) else None
    )
    return {
        "text": read_text(config, ConfigError),
        "source": str(config),
        "name": name,
        "quantization_text": quantization,
    }


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
    # Imported here, like families: few predictions draft with a checkpoint.
    from specroof.parsers.drafters import parse_drafter_config  # noqa: PLC0415

    groups = {
        "drafter": bundled(_DRAFTER_FOLDER, ".json"),
        "model": bundled("model_configs", ".json"),
    }
    return parse_drafter_config(**_found_config(os.fspath(name), groups, fetch), kind=kind)
