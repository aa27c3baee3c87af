"""The Hugging Face Hub: two small files of a repository, every failure in one line."""

from collections.abc import Callable
from pathlib import Path

from specroof.catalog.files import bundled_names, suggestion
from specroof.errors import CatalogError

__all__ = ["Fetch", "fetch_from_hub"]

Fetch = Callable[[str, str], Path | None]


def fetch_from_hub(repository: str, file_name: str) -> Path | None:
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
        meant = suggestion(repository, bundled_names("model_configs"))
        return f"no such repository, or a private one that HF_TOKEN does not open{meant}"
    for error in (failure, failure.__cause__):
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status is not None:
            return f"the Hub answered with status {status}"
    if isinstance(failure, LocalEntryNotFoundError | OfflineModeIsEnabled):
        return "the Hub is not reachable (or HF_HUB_OFFLINE is set), and no copy is cached"
    return str(failure)
