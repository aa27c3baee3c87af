"""Metrics pages: of a server that runs, read twice, or saved as files."""

import http.client
import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from specroof.arrays import number_within
from specroof.catalog.files import MAX_FILE_BYTES, decoded, name_text, read_text
from specroof.catalog.waiting import within
from specroof.errors import CatalogError, reject

#: Seconds after which a page that still comes is given up.
LONGEST_PAGE_S: Final = 10.0
#: Default seconds between two reads of a server: hundreds of rounds.
USUAL_WAIT_S: Final = 10.0
#: Where servers publish their metrics.
_USUAL_PATH: Final = "/metrics"
#: Most redirects that are followed, all within one server.
_MOST_REDIRECTS: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CHUNK_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class MetricsPages:
    """One page, or two of the same server.

    Parameters
    ----------
    sources
        How messages name them: addresses or paths.
    texts
        What they hold, the older first; None of a server that has no such page.
    seconds
        Between the two; None for one page, or if not given.
    """

    sources: tuple[str, ...]
    texts: tuple[str | None, ...]
    seconds: float | None


def is_url(place: str) -> bool:
    """Tell whether a text is an address and no path.

    Examples
    --------
    >>> is_url("http://localhost:8000"), is_url("file:///etc/passwd"), is_url("page.txt")
    (True, True, False)
    """
    return "://" in place


def metrics_pages(
    places: Sequence[str | os.PathLike[str]], *, wait_s: float | None = None
) -> MetricsPages:
    """Read a server twice, some seconds apart, or one or two files.

    A server is asked with GET alone. Its page may have `MAX_FILE_BYTES` and take
    `LONGEST_PAGE_S`, and may lie elsewhere on the same server, but on no other.

    Parameters
    ----------
    places
        An address, http or https, ``/metrics`` where it names no path; or one or two files, the
        older first.
    wait_s
        Seconds between the reads: those to wait for a server, `USUAL_WAIT_S` if None and one read
        if 0; of two files those that lay between them, unknown if None.

    Raises
    ------
    CatalogError
        If a page cannot be had.
    OptionError
        For other places, or other seconds.
    """
    names = [name_text("pages", place) for place in places]
    wait = None if wait_s is None else number_within("wait_s", wait_s, "seconds")
    urls = [name for name in names if is_url(name)]
    if len(names) not in {1, 2} or (urls and len(names) == 2):
        reject(f"{len(names)} places are given", "one address, or one or two files")
    if not urls:
        texts = tuple(read_text(Path(name), CatalogError) for name in names)
        known = wait if len(names) == 2 and wait else None
        return MetricsPages(tuple(names), texts, known)
    address = _address(names[0])
    source = address.geturl()
    began = time.monotonic()
    first = _page(address)
    if wait == 0 or first is None:
        return MetricsPages((source,), (first,), None)
    time.sleep(USUAL_WAIT_S if wait is None else wait)
    again = time.monotonic()
    return MetricsPages((source, source), (first, _page(address)), again - began)


def _address(text: str) -> SplitResult:
    """Return an address to read; without a path it gets the usual path of metrics.

    Raises
    ------
    OptionError
        For another scheme, or what should not be sent or printed.
    """
    wrong = ""
    try:
        parts = urlsplit(text)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            wrong = f"{text!r} is not a valid address"
        if parts.username is not None:  # a password is not repeated in a message
            wrong = "the address holds a user's name"
    except ValueError as problem:
        wrong = f"{text!r}: {problem}"
    if wrong:
        reject(wrong, "http://HOST[:PORT][/PATH], or https")
    path = _USUAL_PATH if parts.path in {"", "/"} else parts.path
    return parts._replace(path=path, fragment="")


def _page(address: SplitResult) -> str | None:
    """Return the text of a page; None where the server has no such page."""
    source = address.geturl()
    try:
        data = within(LONGEST_PAGE_S, lambda: _got(address))
    except (OSError, http.client.HTTPException, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
        reject(f"{source}: {reason}", "a server that answers", CatalogError)
    return None if data is None else decoded(data, source, CatalogError)


def _got(address: SplitResult) -> bytes | None:
    """Return what GET gives, followed where the server moved it; None for nothing there.

    Raises
    ------
    CatalogError
        For another status, a page that is too large, or a way to another server.
    """
    for _ in range(_MOST_REDIRECTS + 1):
        status, place, data = _answer(address)
        if status == 404:
            return None
        if status not in _REDIRECTS:
            break
        moved = urlsplit(urljoin(address.geturl(), place))
        if moved[:2] != address[:2]:  # scheme, and host with port
            reject(
                f"{address.geturl()}: leads to {moved.geturl()!r}", "the same server", CatalogError
            )
        address = moved
    if status != 200:
        reject(f"{address.geturl()}: status {status}", "a metrics page", CatalogError)
    return data


def _answer(address: SplitResult) -> tuple[int, str, bytes]:
    """Return status, place to look instead, and body of one GET.

    Raises
    ------
    CatalogError
        For a page that is too large.
    TimeoutError
        For one that still comes after `LONGEST_PAGE_S`.
    """
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    connection = kinds[address.scheme](str(address.hostname), address.port, timeout=LONGEST_PAGE_S)
    path = f"{address.path}?{address.query}" if address.query else address.path
    ends = time.monotonic() + LONGEST_PAGE_S
    data = b""
    with closing(connection):
        connection.request("GET", path, headers={"Accept": "text/plain"})
        with connection.getresponse() as answer:
            while chunk := answer.read1(_CHUNK_BYTES):
                data += chunk
                if len(data) > MAX_FILE_BYTES:
                    place = address.geturl()
                    reject(f"{place}: larger than {MAX_FILE_BYTES} bytes", "less", CatalogError)
                if time.monotonic() > ends:  # a slow drip is not waited for
                    message = f"given up after {LONGEST_PAGE_S:g} seconds"
                    raise TimeoutError(message)
            return answer.status, answer.headers.get("Location", ""), data
