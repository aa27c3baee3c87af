"""Metrics pages, and what a server says beside them: of one that runs, or saved as files."""

import http.client
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import SplitResult, urljoin, urlsplit

from specroof.arrays import number_within
from specroof.catalog.files import MAX_FILE_BYTES, decoded, is_there, name_text, read_text
from specroof.catalog.hub import within
from specroof.errors import CatalogError, reject

#: Seconds after which a page that still comes is given up.
LONGEST_PAGE_S: Final = 10.0
#: Default seconds between two reads of a server: hundreds of rounds.
USUAL_WAIT_S: Final = 10.0
#: Where servers publish their metrics, beside the /v1 of their API.
_USUAL_PATH: Final = "/metrics"
_API: Final = re.compile(r"(?P<root>.*)/v1/?|/?")
#: What people write for http://HOST:PORT; a host without a port may be a file.
_BARE_HOST: Final = re.compile(r"(localhost|[\w.-]+(?=:)|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/.*)?")
#: The key of a server, which is sent as HTTP's bearer token.
TOKEN_VARIABLE: Final = "SPECROOF_TOKEN"  # noqa: S105 - the name of a variable
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
#: Most redirects that are followed, all within one server.
_MOST_REDIRECTS: Final = 3
#: What a server answers that wants a key.
_KEPT: Final = frozenset({401, 403})
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
    others
        What else the server publishes, by address or path.
    unread
        Why some of it is not read.
    """

    sources: tuple[str, ...]
    texts: tuple[str | None, ...]
    seconds: float | None
    others: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


def is_url(place: str) -> bool:
    """Tell whether a text is an address and no path.

    Examples
    --------
    >>> is_url("http://localhost:8000"), is_url("file:///etc/passwd"), is_url("page.txt")
    (True, True, False)
    """
    return "://" in place


def metrics_pages(
    places: Sequence[str | os.PathLike[str]],
    *,
    wait_s: float | None = None,
    headers: Sequence[object] = (),
    others: Sequence[Sequence[str]] = (),
) -> MetricsPages:
    """Read a server twice, some seconds apart, or one or two files.

    A server is asked with GET alone. A page may have `MAX_FILE_BYTES` and take
    `LONGEST_PAGE_S`, and may lie elsewhere on the same server, but on no other.

    Parameters
    ----------
    places
        An address, http or https, ``/metrics`` where it names no path or the ``/v1`` of the API;
        ``HOST:PORT`` that is no file is one too. Or one or two files, the older first, and files of
        JSON, which are returned as they are.
    wait_s
        Seconds between the reads: those to wait for a server, `USUAL_WAIT_S` if None and one read
        if 0; of two files those that lay between them, unknown if None.
    headers
        ``NAME: VALUE``, sent to the server with every request. The token of the environment
        variable `TOKEN_VARIABLE` is sent as well, unless they have an ``Authorization``. No
        message repeats a value.
    others
        Other paths of the server, beside its metrics: of each row, the first that answers is read.
        A server may lack them.

    Raises
    ------
    CatalogError
        If a page cannot be had.
    OptionError
        For other places, or other seconds.
    """
    names = [_with_scheme(name_text("pages", place)) for place in places]
    wait = None if wait_s is None else number_within("wait_s", wait_s, "seconds")
    urls = [name for name in names if is_url(name)]
    if not names or (urls and len(names) > 1):
        _refuse_number(names)
    if not urls:
        if headers:
            reject("header is given for files", "a server's address")
        texts = {name: read_text(Path(name), CatalogError) for name in names}
        # No line of metrics begins like this.
        saved = {name: text for name, text in texts.items() if text.lstrip().startswith("{")}
        pages = [name for name in names if name not in saved]
        if len(pages) not in {1, 2}:
            _refuse_number(pages)
        known = wait if len(pages) == 2 and wait else None
        return MetricsPages(tuple(pages), tuple(texts[name] for name in pages), known, saved)
    address = _address(names[0])
    source = address.geturl()
    sent = _headers(headers)
    began = time.monotonic()
    first = _page(address, sent)
    if first is None:
        return MetricsPages((source,), (None,), None)
    beside, unread = _beside(address, sent, others)
    if wait == 0:
        return MetricsPages((source,), (first,), None, beside, unread)
    time.sleep(max(0.0, began + (USUAL_WAIT_S if wait is None else wait) - time.monotonic()))
    again = time.monotonic()
    texts_ = (first, _page(address, sent))
    return MetricsPages((source, source), texts_, again - began, beside, unread)


def _refuse_number(names: Sequence[str]) -> NoReturn:
    reject(
        f"{len(names)} places of metrics are given",
        "one address, or one or two files, and files of JSON beside them",
    )


def _beside(
    metrics: SplitResult, headers: Mapping[str, str], rows: Sequence[Sequence[str]]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the pages beside a metrics page, of each row the first, and why others are unread."""
    if not metrics.path.endswith(_USUAL_PATH):
        return {}, ()
    root = metrics.path.removesuffix(_USUAL_PATH)
    found: dict[str, str] = {}
    unread: list[str] = []
    for row in rows:
        for path in row:
            address = metrics._replace(path=root + path, query="")
            try:
                text = _page(address, headers)
            except CatalogError as refusal:
                unread.append(str(refusal))
                break
            if text is not None:
                found[address.geturl()] = text
                break
    return found, tuple(unread)


def _with_scheme(place: str) -> str:
    """Return an address with its scheme; a file stays as it is."""
    if _BARE_HOST.fullmatch(place) and not is_there(Path(place)):
        return f"http://{place}"
    return place


def _headers(given: Sequence[object]) -> dict[str, str]:
    """Return the headers of a request; refusals count them and repeat none."""
    sent = {"Accept": "text/plain, application/json"}
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token:
        if _HEADER_VALUE.fullmatch(token) is None:
            reject(f"{TOKEN_VARIABLE} has characters that no header holds", "printable ASCII")
        sent["Authorization"] = f"Bearer {token}"
    for number, text in enumerate(given, start=1):
        parts = text.partition(":") if isinstance(text, str) else ("", "", "")
        name, _, value = (part.strip() for part in parts)
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            reject(f"header {number} is no header of HTTP", "NAME: VALUE, in printable ASCII")
        sent[name.title()] = value
    return sent


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
    api = _API.fullmatch(parts.path)
    path = parts.path if api is None else f"{api['root'] or ''}{_USUAL_PATH}"
    return parts._replace(path=path, fragment="")


def _page(address: SplitResult, headers: Mapping[str, str]) -> str | None:
    """Return the text of a page; None where the server has no such page."""
    source = address.geturl()
    try:
        data = within(LONGEST_PAGE_S, lambda: _got(address, headers))
    except (OSError, http.client.HTTPException, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
        reject(f"{source}: {reason}", "a server that answers", CatalogError)
    return None if data is None else decoded(data, source, CatalogError)


def _got(address: SplitResult, headers: Mapping[str, str]) -> bytes | None:
    """Return what GET gives, followed where the server moved it; None for nothing there.

    Raises
    ------
    CatalogError
        For another status, a page that is too large, or a way to another server.
    """
    for _ in range(_MOST_REDIRECTS + 1):
        status, place, data = _answer(address, headers)
        if status == 404:
            return None
        if status not in {301, 302, 303, 307, 308}:
            break
        moved = urlsplit(urljoin(address.geturl(), place))
        if moved[:2] != address[:2]:  # scheme, and host with port
            reject(
                f"{address.geturl()}: leads to {moved.geturl()!r}", "the same server", CatalogError
            )
        address = moved
    if status in _KEPT:
        allowed = f"a key, by --header or {TOKEN_VARIABLE}"
        reject(f"{address.geturl()}: status {status}", allowed, CatalogError)
    if status != 200:
        reject(f"{address.geturl()}: status {status}", "a page, status 200", CatalogError)
    return data


def _answer(address: SplitResult, headers: Mapping[str, str]) -> tuple[int, str, bytes]:
    """Return status, place to look instead, and body of one GET.

    Raises
    ------
    CatalogError
        For a page that is too large, or cut short.
    TimeoutError
        For one that still comes after `LONGEST_PAGE_S`.
    """
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    connection = kinds[address.scheme](str(address.hostname), address.port, timeout=LONGEST_PAGE_S)
    path = f"{address.path}?{address.query}" if address.query else address.path
    ends = time.monotonic() + LONGEST_PAGE_S
    data = b""
    with closing(connection):
        connection.request("GET", path, headers=dict(headers))
        with connection.getresponse() as answer:
            while chunk := answer.read1(_CHUNK_BYTES):
                data += chunk
                if len(data) > MAX_FILE_BYTES:
                    place = address.geturl()
                    reject(f"{place}: larger than {MAX_FILE_BYTES} bytes", "less", CatalogError)
                if time.monotonic() > ends:  # a slow drip is not waited for
                    message = f"given up after {LONGEST_PAGE_S:g} seconds"
                    raise TimeoutError(message)
            # `read1` takes the end of a connection for the end of the page.
            if answer.status == http.client.OK and answer.length:
                place = address.geturl()
                stated = len(data) + answer.length
                reject(
                    f"{place}: ends after {len(data)} bytes", f"{stated}, its length", CatalogError
                )
            return answer.status, answer.headers.get("Location", ""), data
