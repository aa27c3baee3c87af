"""The Hugging Face Hub: two small files of a repository, every failure in one line."""

import contextlib
import http
import queue
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from specroof.catalog.files import MAX_FILE_BYTES, bundled_names, suggestion
from specroof.errors import CatalogError, refuse, reject

# --- Bounded waits for other computers -----------------------------------------------------------

_Outcome = TypeVar("_Outcome")


def within(seconds: float, call: Callable[[], _Outcome]) -> _Outcome:
    """Return what a call returns, or raise what it raises, unless it takes too long.

    Raises
    ------
    TimeoutError
        After so many seconds.

    Examples
    --------
    >>> within(60.0, lambda: 2)
    2
    """
    outcomes: queue.SimpleQueue[tuple[_Outcome] | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((call(),))
        except Exception as failure:  # noqa: BLE001 - raised again in the thread that waits
            outcomes.put(failure)

    # A daemon: the program ends without waiting for its reads.
    threading.Thread(target=run, daemon=True).start()
    try:
        outcome = outcomes.get(timeout=seconds)
    except queue.Empty:
        message = f"given up after {seconds:g} seconds"
        raise TimeoutError(message) from None
    if isinstance(outcome, Exception):
        raise outcome
    return outcome[0]


Fetch = Callable[[str, str], Path | None]

#: Seconds after which a file that still comes is given up. Each read alone has its own limit
#: (HF_HUB_DOWNLOAD_TIMEOUT), which a server that sends a byte now and then never reaches.
LONGEST_FETCH_S: Final = 60.0


class UncachedError(CatalogError):
    """A file that is not cached, of a Hub that is not to be asked: it may or may not exist."""


#: Tags and commits that huggingface_hub may call files and folders of its cache by.
_CACHE_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+=-]{0,199}")


def fetch_from_hub(repository: str, file_name: str) -> Path | None:
    """Fetch one file with huggingface_hub, every failure in one line.

    A file of more than `MAX_FILE_BYTES` is not begun, and one that takes more than
    `LONGEST_FETCH_S` is given up.

    Raises
    ------
    CatalogError
        If the file cannot be had; `UncachedError` where HF_HUB_OFFLINE is set. A repository that
        has no such file gives None.
    """
    return _asked(repository, file_name, lambda: _download(repository, file_name))


def fetch_part(repository: str, file_name: str, start: int, stop: int) -> tuple[bytes, int] | None:
    """Fetch bytes `start` to `stop` of a file, and the size of the whole.

    Nothing is kept on disk. A file that ends earlier gives fewer bytes.

    Raises
    ------
    CatalogError
        If they cannot be had. A repository that has no such file gives None.
    """
    return _asked(repository, file_name, lambda: _range(repository, file_name, start, stop))


def files_on_hub(repository: str) -> list[str]:
    """List the files of a repository.

    Raises
    ------
    CatalogError
        If the list cannot be had.
    """
    return _asked(repository, "the list of its files", lambda: _listed(repository)) or []


def _listed(repository: str) -> list[str]:
    from huggingface_hub import HfApi  # noqa: PLC0415

    return list(HfApi().list_repo_files(repository))


def _range(repository: str, file_name: str, start: int, stop: int) -> tuple[bytes, int]:
    import urllib.request  # noqa: PLC0415
    from urllib.parse import urlsplit  # noqa: PLC0415

    from huggingface_hub import get_hf_file_metadata, hf_hub_url  # noqa: PLC0415
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # noqa: PLC0415

    url = hf_hub_url(repository, file_name)
    found = get_hf_file_metadata(url)
    size = found.size or 0
    headers = {"Range": f"bytes={start}-{min(stop, size) - 1}"}
    if urlsplit(found.location).netloc == urlsplit(url).netloc:  # the key is for the Hub alone
        headers |= build_hf_headers()
    if urlsplit(found.location).scheme not in {"http", "https"}:
        message = f"it lies at {found.location}; allowed: http and https"
        raise ValueError(message)
    request = urllib.request.Request(found.location, headers=headers)  # noqa: S310 - as checked
    # A read that stops has its own limit, as those of the client.
    with urllib.request.urlopen(request, timeout=LONGEST_FETCH_S) as answer:  # noqa: S310
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            message = f"the Hub answered a range with status {answer.status}; allowed: 206"
            raise ValueError(message)
        return answer.read(stop - start), size


def _asked(repository: str, file_name: str, call: Callable[[], _Outcome]) -> _Outcome | None:
    """Return what a call to the Hub returns, None where it has no such file."""
    # Imported here: they cost more than all the rest, and few calls need them.
    import logging  # noqa: PLC0415

    from huggingface_hub import _CACHED_NO_EXIST, constants, try_to_load_from_cache  # noqa: PLC0415
    from huggingface_hub.errors import (  # noqa: PLC0415
        EntryNotFoundError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    # Its warnings of retries would stand between the user and the one line that matters.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        with _answers_checked():
            return within(LONGEST_FETCH_S, call)
    except HFValidationError as failure:
        reject(f"{repository}: {failure}", "a Hub name (ORG/NAME)", CatalogError)
    # Whatever the HTTP library of the day raises: its names differ from version to version.
    except Exception as failure:  # noqa: BLE001
        # "Local": not in the cache and not fetched. An earlier call may have found it missing.
        local = isinstance(failure, LocalEntryNotFoundError)
        known = try_to_load_from_cache(repository, file_name) is _CACHED_NO_EXIST
        if isinstance(failure, EntryNotFoundError) and (known or not local):
            return None
        meant = suggestion(repository, bundled_names("model_configs"))
        message = f"{repository}: {file_name} cannot be fetched: {_reason(failure)}{meant}"
        raise (UncachedError if constants.HF_HUB_OFFLINE else CatalogError)(message) from None


def _download(repository: str, file_name: str) -> Path:
    """Return the path of a file in the cache, where it is put first unless it is too large."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url  # noqa: PLC0415

    try:
        size = get_hf_file_metadata(hf_hub_url(repository, file_name)).size or 0
    except CatalogError:
        raise
    except Exception as failure:  # noqa: BLE001 - as above
        # Without an answer only the cache is left: the client's own retries take 23 seconds.
        failed = isinstance(failure, _ServerFailedError)
        alone = failed or getattr(failure, "response", None) is None
        try:
            return Path(hf_hub_download(repository, file_name, local_files_only=alone))
        except OSError as absent:
            raise absent from failure
    if size > MAX_FILE_BYTES:
        message = f"it has {size} bytes; allowed: up to {MAX_FILE_BYTES}"
        raise ValueError(message)
    return Path(hf_hub_download(repository, file_name))


class _ServerFailedError(OSError):
    """An answer with a status of 500 or more, which the client would ask for again and again."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response


@contextlib.contextmanager
def _answers_checked() -> Iterator[None]:
    """Check every answer before huggingface_hub reads it: it asks twice, and answers may differ."""
    from huggingface_hub import get_session  # noqa: PLC0415

    session: Any = get_session()
    # Clients of httpx, and sessions of requests before huggingface_hub 1.0.
    hooks = (session.event_hooks if hasattr(session, "event_hooks") else session.hooks)["response"]
    hooks.append(_check_answer)
    try:
        yield
    finally:
        hooks.remove(_check_answer)


def _check_answer(response: Any, **_settings: object) -> None:
    """Refuse an answer whose tag or commit leads out of the cache as the name of a file.

    Raises
    ------
    CatalogError
        If one of them is anything but a plain name.
    _ServerFailedError
        If the server has failed.

    Source
        `_hf_hub_download_to_cache_dir` of huggingface_hub 2.4.0, which joins both to paths.
    """
    if response.status_code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _ServerFailedError(response)
    headers = response.headers
    if "X-Repo-Commit" not in headers:  # the client makes no file of such an answer
        return
    key = "X-Linked-ETag" if headers.get("X-Linked-ETag") else "ETag"
    tag = headers.get(key, "none").removeprefix("W/").strip('"')
    for name, value in ((key, tag), ("X-Repo-Commit", headers["X-Repo-Commit"])):
        if not _CACHE_NAME.fullmatch(value):
            allowed = "a letter or digit, then at most 199 letters, digits and . _ + = -"
            refuse(f"its {name}", value, allowed, error=CatalogError)


def _reason(failure: Exception) -> str:
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
        return "no such repository, or a private one that HF_TOKEN does not open"
    for error in (failure, failure.__cause__):
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status is not None:
            return f"the Hub answered with status {status}"
    if isinstance(failure, LocalEntryNotFoundError | OfflineModeIsEnabled):
        why = f": {failure.__cause__}" if failure.__cause__ else ""
        return f"the Hub is not reachable (or HF_HUB_OFFLINE is set), and no copy is cached{why}"
    return str(failure)
