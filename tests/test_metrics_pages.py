"""Metrics pages from a server on localhost, and from files: bounded, GET alone, no other host."""

import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from server_pages import Life, give, replay, vllm_page
from specroof.catalog.pages import is_url, metrics_pages
from specroof.errors import CatalogError, MeasurementError, OptionError
from specroof.reading.metrics_text import parse_metrics
from tables import refusal


def test_a_server_is_read_twice_at_its_usual_path() -> None:
    paths: list[str] = []

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        paths.append(f"{handler.command} {handler.path}")
        give(handler, f"up {number}\n".encode())

    with replay(answer) as url:
        pages: Any = metrics_pages([url], wait_s=0.05)
        assert pages.texts == ("up 0\n", "up 1\n")
        assert 0.05 <= pages.seconds < 1.0
        assert pages.sources == (f"{url}/metrics",) * 2
        once = metrics_pages([f"{url}/elsewhere?a=b#c"], wait_s=0)
        assert (once.texts, once.seconds) == (("up 2\n",), None)
        metrics_pages([f"{url}/"], wait_s=0)
    assert paths == ["GET /metrics", "GET /metrics", "GET /elsewhere?a=b", "GET /metrics"]


def test_a_server_without_such_a_page_is_not_asked_again() -> None:
    asked = []

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        asked.append(number)
        give(handler, b"", 404)

    with replay(answer) as url:
        assert metrics_pages([url], wait_s=60).texts == (None,)
    assert asked == [0]


def test_a_server_may_move_its_page_but_not_to_another() -> None:
    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        port = handler.headers["Host"].rpartition(":")[2]
        moves = {
            "/metrics": "/metrics/",
            "/same": f"http://127.0.0.1:{port}/metrics/",
            "/host": f"http://localhost:{port}/metrics/",
            "/port": "http://127.0.0.1:1/metrics/",
            "/file": "file:///etc/hostname",
            "/round": "/round",
        }
        if handler.path in moves:
            give(handler, b"", 307, Location=moves[handler.path])
        else:
            give(handler, b"up 1\n")

    with replay(answer) as url:
        assert metrics_pages([url], wait_s=0).texts == ("up 1\n",)
        assert metrics_pages([f"{url}/same"], wait_s=0).texts == ("up 1\n",)
        for path in ("host", "port", "file"):
            with pytest.raises(CatalogError, match=rf"/{path}: .*; allowed: the same server"):
                metrics_pages([f"{url}/{path}"], wait_s=0)
        with pytest.raises(CatalogError, match=r"/round: .*307; allowed"):
            metrics_pages([f"{url}/round"], wait_s=0)


@pytest.mark.parametrize("stated", [True, False])
def test_a_page_of_a_gigabyte_is_not_read(stated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its size ends the reading, on a slow machine too.
    monkeypatch.setattr("specroof.catalog.pages.LONGEST_PAGE_S", 600)
    sent = 0

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        nonlocal sent
        handler.send_response(200)
        if stated:
            handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        chunk = b"up 1\n" * 20_000
        while sent < 1 << 30:
            handler.wfile.write(chunk)
            sent += len(chunk)

    with replay(answer) as url, pytest.raises(CatalogError, match=r"/metrics: .*16777216 bytes"):
        metrics_pages([url], wait_s=0)
    assert sent < 1 << 27


@pytest.mark.parametrize("in_body", [True, False])
def test_a_slow_drip_is_given_up(in_body: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specroof.catalog.pages.LONGEST_PAGE_S", 0.2)

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        if in_body:
            handler.send_response(200)
            handler.end_headers()
        for _ in range(1200):  # a minute; then a reader that waited has another error
            handler.wfile.write(b"x")
            if left.wait(0.05):
                break

    left = threading.Event()
    with replay(answer) as url:
        with pytest.raises(CatalogError, match=r"given up after 0\.2 seconds"):
            metrics_pages([url], wait_s=0)
        time.sleep(0.15)  # the reader ends too, once the next byte has come
        left.set()


def test_other_answers_are_refused() -> None:
    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        if handler.path == "/binary":
            give(handler, b"\xff\xfe")
        elif handler.path == "/garbage":
            handler.wfile.write(b"no such protocol\r\n\r\n")
        else:
            give(handler, b"", 503)

    with replay(answer) as url:
        for path, reason in {
            "binary": "byte 0 is not UTF-8",
            "garbage": "no such protocol",
            "other": "status 503; allowed: a page",
        }.items():
            with pytest.raises(CatalogError, match=reason):
                metrics_pages([f"{url}/{path}"], wait_s=0)
    with pytest.raises(CatalogError, match="refused; allowed: a server that answers"):
        metrics_pages([url], wait_s=0)


@pytest.mark.parametrize(
    "place",
    [
        *("file:///etc/passwd", "ftp://localhost/metrics", "http://", "http://localhost:0"),
        *("http://localhost:99999", "http://user:secret@localhost/", "data://text/plain,x"),
    ],
)
def test_other_addresses_are_refused_unread(place: str) -> None:
    assert is_url(place)
    with pytest.raises(OptionError, match=r"allowed: http://HOST\[:PORT\]") as refusal:
        metrics_pages([place], wait_s=0)
    assert "secret" not in str(refusal.value)


def test_files_are_read_as_they_are(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("up 1\n")
    second.write_text("up 2\n")
    both = metrics_pages([first, str(second)], wait_s=30)
    assert (both.texts, both.seconds) == (("up 1\n", "up 2\n"), 30.0)
    assert metrics_pages([first, second]).seconds is None
    assert metrics_pages([first], wait_s=30).seconds is None
    with pytest.raises(CatalogError, match="No such file"):
        metrics_pages([tmp_path / "c"])
    saved = tmp_path / "info.json"
    saved.write_text(' {"tp_size": 1}')
    beside = metrics_pages([first, saved, second], wait_s=30)
    assert (beside.sources, beside.seconds) == ((str(first), str(second)), 30.0)
    assert beside.others == {str(saved): ' {"tp_size": 1}'}
    many: list[list[str]] = [
        *([], [str(saved)], [str(first), "http://localhost"]),
        *([str(first), str(second), str(tmp_path / "d")], ["http://localhost", str(first)]),
    ]
    (tmp_path / "d").write_text("up 3\n")
    for places in many:
        with pytest.raises(OptionError, match=r"places .*allowed: one address"):
            metrics_pages(places)
    with pytest.raises(OptionError, match="wait_s is -1"):
        metrics_pages([first], wait_s=-1)


def test_what_a_server_says_beside_its_metrics_is_read_where_it_does() -> None:
    paths: list[str] = []

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        paths.append(handler.path)
        pages = {"/api/metrics": "up 1\n", "/api/old": "{}", "/api/both": "[]", "/api/key": ""}
        path = handler.path.partition("?")[0]
        status = 404 if path not in pages else 401 if path == "/api/key" else 200
        give(handler, pages.get(path, "").encode(), status)

    rows = (("/new", "/old"), ("/both", "/old"), ("/none",), ("/key",))
    with replay(answer) as url:
        found = metrics_pages([f"{url}/api/v1"], wait_s=0, others=rows)
        assert found.others == {f"{url}/api/old": "{}", f"{url}/api/both": "[]"}
        (reason,) = found.unread
        assert reason.startswith(f"{url}/api/key: status 401")
        again = metrics_pages([f"{url}/api/metrics?x=1"], wait_s=0.01, others=[["/both"]])
        assert (len(again.texts), again.others) == (2, {f"{url}/api/both": "[]"})
        elsewhere = metrics_pages([f"{url}/api/both"], wait_s=0, others=rows)
        assert (elsewhere.others, elsewhere.unread) == ({}, ())  # its root is unknown
    first = ["metrics", "new", "old", "both", "none", "key"]
    later = ["metrics?x=1", "both", "metrics?x=1", "both"]
    assert paths == [f"/api/{name}" for name in (*first, *later)]


# --- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("<html></html>", "a{", 'a{b="c} 1', "a b c", "{", '{"a": 1}', "\x00", "a{} x", 'a{b="c"'),
        *("a", "", "\n\n", "# a comment\n", "INFO SpecDecoding metrics: " + "x" * 9000 + "\n"),
    ],
)
def test_what_is_no_page_is_refused_in_one_line(text: str) -> None:
    line = refusal(MeasurementError, parse_metrics, text, source="page")
    assert re.search(r"^page: .*allowed: .*Prometheus", line)
    assert len(line) < 200


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.parser", None)
    with pytest.raises(MeasurementError, match=r"pip install prometheus-client"):
        parse_metrics("up 1\n", source="page")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_page_that_is_cut_short_is_refused(chunked: bool) -> None:
    page = vllm_page(Life(1000.0)).encode()

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        if chunked:
            handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        if chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        else:
            handler.send_header("Content-Length", str(len(page)))
        handler.end_headers()
        half = page[: len(page) // 2]
        handler.wfile.write(f"{len(page):x}\r\n".encode() + half if chunked else half)
        handler.close_connection = True

    words = "IncompleteRead" if chunked else rf"ends after \d+ bytes; allowed: {len(page)}"
    with replay(answer) as url, pytest.raises(CatalogError, match=words):
        metrics_pages([url], wait_s=0)


def test_a_last_number_that_may_lack_digits_is_refused() -> None:
    with pytest.raises(MeasurementError, match=r"^page: .*allowed: a whole page"):
        parse_metrics("up 1\nvllm:generation_tokens_total 12", source="page")


def test_a_line_of_more_labels_than_any_server_writes_is_not_parsed() -> None:
    labels = ",".join(f'l{number}="x"' for number in range(3000))
    with pytest.raises(
        MeasurementError, match=r"^page, line 2: .*\d+ characters; allowed: .*16384"
    ):
        parse_metrics(f"up 1\nup{{{labels}}} 1\n", source="page")


@pytest.mark.parametrize(
    ("place", "path"),
    [
        *(("", "/metrics"), ("/v1", "/metrics"), ("/v1/", "/metrics")),
        *(("/models/v1", "/models/metrics"), ("/v10", "/v10"), ("/metrics/", "/metrics/")),
    ],
)
def test_an_address_may_be_of_the_api_and_lack_its_scheme(place: str, path: str) -> None:
    paths: list[str] = []

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        paths.append(handler.path)
        give(handler, b"up 1\n")

    with replay(answer) as url:
        for start in (url, url.removeprefix("http://")):
            assert metrics_pages([start + place], wait_s=0).sources == (url + path,)
    assert paths == [path, path]


def test_a_file_may_be_called_as_a_host_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("localhost:8000").write_text("up 1\n")
    assert metrics_pages(["localhost:8000"]).texts == ("up 1\n",)
    with pytest.raises(CatalogError, match="No such file"):
        metrics_pages(["page.txt"])


def test_a_key_is_sent_to_its_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str | None, str | None]] = []

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        sent.append((handler.headers["Authorization"], handler.headers["X-Api-Key"]))
        if handler.path == "/metrics":
            port = handler.headers["Host"].rpartition(":")[2]
            give(handler, b"", 307, Location=f"http://localhost:{port}/stolen")
        elif handler.headers["Authorization"] is None:
            give(handler, b"", 401)
        else:
            give(handler, b"up 1\n")

    with replay(answer) as url:
        with pytest.raises(CatalogError, match=r"401; allowed: .*--header or SPECROOF_TOKEN"):
            metrics_pages([f"{url}/page"], wait_s=0)
        monkeypatch.setenv("SPECROOF_TOKEN", "sesame\n")
        with pytest.raises(CatalogError, match=r"'.*/stolen'; allowed: the same server") as refusal:
            metrics_pages([url], wait_s=0, headers=["X-API-Key: open"])
        metrics_pages([f"{url}/page"], wait_s=0)
        metrics_pages([f"{url}/page"], wait_s=0, headers=["authorization: Basic mine"])
    assert "sesame" not in str(refusal.value)
    assert "open" not in str(refusal.value)
    assert sent == [
        (None, None),
        ("Bearer sesame", "open"),
        ("Bearer sesame", None),
        ("Basic mine", None),
    ]


@pytest.mark.parametrize("header", ["secret", "a b: secret", "X:", "X: secret\r\nY: 1", "X: ß", 5])
def test_headers_that_http_has_not_are_refused_unrepeated(header: object) -> None:
    with pytest.raises(OptionError, match=r"^header 2 .*allowed: NAME: VALUE") as refusal:
        metrics_pages(["http://localhost:1"], headers=["A: b", header])
    assert "secret" not in str(refusal.value)


def test_a_token_that_http_has_not_is_refused_unrepeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECROOF_TOKEN", "sec\nret")
    with pytest.raises(OptionError, match=r"^SPECROOF_TOKEN .*ASCII") as refusal:
        metrics_pages(["http://localhost:1"])
    assert "sec" not in str(refusal.value)


def test_a_file_wants_no_header(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text("up 1\n")
    with pytest.raises(OptionError, match=r"^header .*files; allowed"):
        metrics_pages([page], headers=["A: b"])
