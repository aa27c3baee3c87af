"""The Hub client, against a server on localhost that answers as the Hub does."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any, ClassVar

import pytest

from gguf_files import gguf_bytes
from tables import rows
from tiny_configs import TINY

pytestmark = pytest.mark.slow

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = TINY | {"num_hidden_layers": 3}
NVFP4 = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}

#: A file that says more than one read holds, with a matrix each of what a model has.
SIZES = {"embedding_length": 64, "feed_forward_length": 128, "block_count": 1}
HEADS = {"attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": 16}
GGUF = gguf_bytes(
    {
        "general.architecture": "llama",
        "tokenizer.ggml.tokens": ["word"] * 100_000,
        **{f"llama.{key}": value for key, value in (SIZES | HEADS).items()},
    },
    [
        ("token_embd.weight", [64, 1000], "q8_0"),
        *(
            (f"blk.0.{name}.weight", [row, rows], "q8_0")
            for name, row, rows in (
                ("attn_q", 64, 64),
                ("attn_k", 64, 32),
                ("attn_v", 64, 32),
                ("attn_output", 64, 64),
                ("ffn_gate", 64, 128),
                ("ffn_up", 64, 128),
                ("ffn_down", 128, 64),
            )
        ),
    ],
)

#: What the server has: repository, then file name.
FILES: dict[str, dict[str, bytes]] = {
    "org/plain": {"config.json": json.dumps(CONFIG).encode()},
    "org/sidecar": {
        "config.json": json.dumps(CONFIG).encode(),
        "hf_quant_config.json": json.dumps(NVFP4).encode(),
    },
    "org/truncated": {"config.json": json.dumps(CONFIG).encode()[:40]},
    "org/weights-only": {},
    "org/gguf": {
        "Cut-Q4_0.gguf": b"",
        "Cut-Q8_0-00002-of-00002.gguf": b"",
        "Tiny-Q8_0.gguf": GGUF,
        "Tiny-mmproj-BF16.gguf": b"",
        "Tiny.txt": b"",
        "Cut-Q8_0.gguf": GGUF[: len(GGUF) // 2],
    },
    "org/whole": {"Tiny-Q8_0.gguf": GGUF},
    "org/secret": {"config.json": json.dumps(CONFIG).encode()},
}
REFUSED: dict[str, tuple[int, str | None]] = {
    "org/broken": (400, None),
    "org/gated": (403, "GatedRepo"),
    **{f"org/fails-{status}": (status, None) for status in (500, 503, 504)},
}
TOKEN = "hf_of_the_test"  # noqa: S105 - no secret

#: `specroof models show NAME --json` of each name, but that huggingface_hub tries again at
#: once: it would wait 23 seconds in all for a Hub that cannot be reached.
WITHOUT_WAITS = """
import runpy, sys, time
from specroof.catalog import hub
time.sleep = lambda seconds: None
hub.LONGEST_FETCH_S = 3.0  # a minute, for users
codes = set()
for name in sys.argv[1:]:
    sys.argv = ["specroof", "models", "show", name, "--json"]
    try:
        runpy.run_module("specroof", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        codes.add(ended.code or 0)
(code,) = codes or {0}
sys.exit(code)
"""


class Hub(BaseHTTPRequestHandler):
    """Answers ``/ORG/NAME/resolve/REVISION/FILE`` as huggingface.co does."""

    requests: ClassVar[list[str]] = []
    ranges: ClassVar[list[tuple[int, int]]] = []
    keys: ClassVar[list[str | None]] = []

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def log_message(self, *args: object) -> None:
        """Keep the test's output clean."""

    def answer(self, *, with_body: bool) -> None:
        repository, _, place = self.path.lstrip("/").partition("/resolve/")
        listed = self.path.removeprefix("/api/models/").partition("/tree/")[0]
        if "/tree/" in self.path and listed in FILES:
            names = [{"type": "file", "path": n, "size": 1, "oid": "0"} for n in FILES[listed]]
            self.send(json.dumps(names).encode(), with_body=with_body)
            return
        if "/tree/" in self.path:
            repository = listed
        if place or repository in REFUSED:
            self.requests.append(self.path)
        data = FILES.get(repository, {}).get(place.rpartition("/")[2])
        if repository in HOSTILE:
            HOSTILE[repository](self, with_body)
        elif repository == "org/secret" and self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.refuse(401, "RepoNotFound")
        elif repository in REFUSED:
            self.refuse(*REFUSED[repository])
        elif data is None:
            self.refuse(404, "EntryNotFound" if repository in FILES else "RepoNotFound")
        else:
            self.send(data, with_body=with_body)

    def start(self, size: int, tag: str = "0" * 40, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{tag}"')
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def send(self, data: bytes, *, with_body: bool) -> None:
        tag, part = sha256(data).hexdigest(), self.headers["Range"]
        if part is not None and "org/whole" not in self.path:
            first, last = map(int, part.removeprefix("bytes=").split("-"))
            data = data[first : last + 1]
            self.ranges.append((first, len(data)))
            self.start(len(data), tag, status=206)
        else:
            self.start(len(data), tag)
        if with_body:
            self.wfile.write(data)

    def refuse(self, status: int, code: str | None) -> None:
        self.send_response(status)
        if code is not None:
            self.send_header("X-Error-Code", code)
        if code == "EntryNotFound":  # the Hub says of which commit, and the client remembers
            self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", "0")
        self.end_headers()


def hang_up(server: Hub, _: bool) -> None:
    server.close_connection = True
    server.connection.shutdown(SHUT_RDWR)


def stop_midway(server: Hub, with_body: bool) -> None:
    """Promise more bytes than come."""
    server.start(size=4096)
    if with_body:
        server.wfile.write(b"{")
    server.close_connection = True


def go_in_circles(server: Hub, _: bool) -> None:
    """Send the client where it comes from."""
    server.send_response(302)
    server.send_header("Location", server.path)
    server.send_header("Content-Length", "0")
    server.end_headers()


def send_a_gigabyte(server: Hub, with_body: bool) -> None:
    """Offer a config that fills memory or disk."""
    server.start(size=10**9)
    if with_body:
        for _ in range(1000):
            server.wfile.write(b" " * 10**6)


def drip(server: Hub, with_body: bool) -> None:
    """Send a byte now and then, for ten minutes; then a client that waited has another error."""
    server.start(size=6000)
    for _ in range(6000 if with_body else 0):
        server.wfile.write(b" ")
        time.sleep(0.1)


def send_elsewhere(server: Hub, with_body: bool, *, host: str = "http://localhost") -> None:
    """Keep the file on another host, as the Hub does with large ones."""
    if with_body:
        server.keys.append(server.headers["Authorization"])
        server.send(GGUF, with_body=True)
        return
    server.send_response(302)
    port = server.server.server_address[1]  # type: ignore[index]  # of TCP, with a port
    names = {"X-Repo-Commit": COMMIT, "ETag": '"0123"', "X-Linked-Size": str(len(GGUF))}
    for header, value in {**names, "Location": f"{host}:{port}{server.path}"}.items():
        server.send_header(header, value)
    server.send_header("Content-Length", "0")
    server.end_headers()


#: Three folders up from `hub/models--ORG--NAME/blobs` is the folder that holds the cache.
ESCAPE = "../../../escaped"


def send_names(server: Hub, with_body: bool, *, status: int = 200, **names: str) -> None:
    """Send a config under a tag and a commit of the caller's choice."""
    data = json.dumps(CONFIG).encode()
    server.send_response(status)
    for header, value in {"X-Repo-Commit": COMMIT, "ETag": '"0123"', **names}.items():
        server.send_header(header.replace("_", "-"), value)
    if status == 404:
        server.send_header("X-Error-Code", "EntryNotFound")
    server.send_header("Content-Length", str(len(data)))
    server.end_headers()
    if with_body:
        server.wfile.write(data)


def send_weak_tag(server: Hub, with_body: bool) -> None:
    """Send a tag as other servers spell theirs."""
    if server.path.endswith("hf_quant_config.json"):
        server.refuse(404, "EntryNotFound")
    else:
        send_names(server, with_body, ETag='W/"5f-0+a=_.b"')


def turn_hostile(server: Hub, with_body: bool) -> None:
    """Answer the first question about a file well, and the second with a way out."""
    asked_before = server.requests.count(server.path) > 1
    send_names(server, with_body, ETag=f'"{ESCAPE if asked_before else COMMIT}"')


#: Repositories whose answers name files outside of the cache, and the header that does.
ESCAPING: dict[str, tuple[str, Callable[[Hub, bool], None]]] = {
    "org/tag": ("ETag", lambda *to: send_names(*to, ETag=f'"{ESCAPE}"')),
    "org/weak-tag": ("ETag", lambda *to: send_names(*to, ETag=f'W/"{ESCAPE}"')),
    "org/linked": ("X-Linked-ETag", lambda *to: send_names(*to, X_Linked_ETag=ESCAPE)),
    "org/commit": ("X-Repo-Commit", lambda *to: send_names(*to, X_Repo_Commit=ESCAPE)),
    "org/missing": ("X-Repo-Commit", lambda *to: send_names(*to, status=404, X_Repo_Commit=ESCAPE)),
    "org/dots": ("X-Repo-Commit", lambda *to: send_names(*to, X_Repo_Commit="..")),
    "org/long": ("ETag", lambda *to: send_names(*to, ETag="x" * 300)),
    "org/later": ("ETag", turn_hostile),
}

#: Repositories that answer as no good server does.
HOSTILE: dict[str, Callable[[Hub, bool], None]] = {
    "org/hangs-up": hang_up,
    "org/stops-midway": stop_midway,
    "org/circles": go_in_circles,
    "org/gigabyte": send_a_gigabyte,
    "org/drip": drip,
    "org/elsewhere": send_elsewhere,
    "org/ftp": lambda *to: send_elsewhere(*to, host="ftp://localhost"),
    **{name: answer for name, (_, answer) in ESCAPING.items()},
    "org/weak": send_weak_tag,
}


@dataclass
class Deployment:
    url: str
    cache: Path

    def show(self, *names: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``specroof models show NAME --json`` against the server, as a user does."""
        settled = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        settled |= {"HF_ENDPOINT": self.url, "HF_HOME": str(self.cache), "HTTP_PROXY": ""}
        return subprocess.run(
            [sys.executable, "-c", WITHOUT_WAITS, *names],
            env=settled | environment,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.cache,
        )


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Deployment]:
    """Serve `FILES` to the real client, with an empty cache."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Hub.requests.clear()
    Hub.ranges.clear()
    yield Deployment(f"http://127.0.0.1:{server.server_address[1]}", tmp_path)
    server.shutdown()
    server.server_close()


def row(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    (shown,) = json.loads(done.stdout)["rows"]
    return dict(shown)


def refusals(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert all(line.startswith("specroof: ") for line in lines)
    return lines


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    (line,) = refusals(done)
    return line


def refused_so(hub: Deployment, says: dict[str, str]) -> None:
    """Hold the line that each name leaves against what it should say."""
    for line, (name, said) in zip(refusals(hub.show(*says)), says.items(), strict=True):
        assert said in line, name


def test_a_hub_model_is_fetched_once_and_then_read_offline(hub: Deployment) -> None:
    first = row(hub.show("org/plain"))
    assert (first["name"], first["layers"]) == ("org/plain", 3)
    asked = set(Hub.requests)
    assert {path.rsplit("/", 1)[1] for path in asked} == {"config.json", "hf_quant_config.json"}
    again = hub.show("org/plain", HF_HUB_OFFLINE="1")
    assert row(again) == first
    assert set(Hub.requests) == asked


def test_a_sidecar_on_the_hub_is_not_overlooked(hub: Deployment) -> None:
    plain, quantised = (row(hub.show(f"org/{name}")) for name in ("plain", "sidecar"))
    assert quantised["weight_bytes"] < plain["weight_bytes"]


def test_a_gguf_file_is_read_by_ranges_and_kept_nowhere(hub: Deployment) -> None:
    shown = row(hub.show("org/gguf/Tiny-Q8_0.gguf"))
    assert shown["weight_formats"] == {"q8_0 x int8": 64 * (2 * 64 + 2 * 32 + 3 * 128 + 1000)}
    assert [first for first, _ in Hub.ranges] == [0, 2**20]
    assert sum(length for _, length in Hub.ranges) <= len(GGUF)
    assert [path for path in hub.cache.rglob("*.gguf") if path.is_file()] == []


def test_a_gguf_file_is_found_by_its_format(hub: Deployment) -> None:
    """The first file of a format, as llama.cpp has it: no later part of another one."""
    by_format, by_name = (row(hub.show(f"org/gguf{name}")) for name in (":q8_0", "/Tiny-Q8_0.gguf"))
    assert by_format == by_name | {"name": "org/gguf:q8_0"}
    line = refusal(hub.show("org/gguf:Q6_K"))
    assert "no GGUF file of Q6_K" in line
    assert "Tiny-Q8_0.gguf" in line
    assert "mmproj" not in line
    refused_so(hub, {"org/plain:Q8_0": "no GGUF files", "org/nowhere:Q8_0": "no such repository"})


def test_another_host_that_keeps_a_file_gets_no_key(hub: Deployment) -> None:
    shown = row(hub.show("org/elsewhere/Tiny-Q8_0.gguf", HF_TOKEN=TOKEN))
    assert shown["layers"] == 1
    assert Hub.keys == [None, None]


def test_a_token_opens_what_is_closed_without(hub: Deployment) -> None:
    assert "HF_TOKEN" in refusal(hub.show("org/secret"))
    assert hub.show("org/secret", HF_TOKEN=TOKEN).returncode == 0


@pytest.mark.parametrize("part", ["gguf_files", "hub_answers"])
def test_what_the_hub_refuses_is_one_line(hub: Deployment, part: str) -> None:
    refused_so(hub, dict(rows("refusals", part)))


def test_a_server_that_misbehaves_is_one_line(hub: Deployment) -> None:
    breaks_off = ("hangs-up", "stops-midway", "circles")
    says = {f"org/{name}": "cannot be fetched" for name in breaks_off}
    says |= {"org/gigabyte": "1000000000 bytes; allowed: up to 16777216"}
    refused_so(hub, says | {"org/drip": "given up after 3 seconds"})
    assert sum(file.stat().st_size for file in hub.cache.rglob("*") if file.is_file()) < 10**5


def test_a_server_that_fails_is_asked_once(hub: Deployment) -> None:
    asked = product((500, 503, 504), ("", "/model.gguf", ":Q4_K_M"))
    says = {f"org/fails-{status}{end}": f"answered with status {status}" for status, end in asked}
    refused_so(hub, says)
    assert len(Hub.requests) == len(says)


def test_a_server_that_names_files_outside_of_the_cache_is_refused(hub: Deployment) -> None:
    refused_so(hub, {name: f"its {header} is" for name, (header, _) in ESCAPING.items()})
    outside = [path for path in hub.cache.rglob("*") if path.name.startswith("escaped")]
    assert outside == []
    assert {path.name for path in hub.cache.iterdir()} <= {"hub", "xet"}


def test_tags_of_other_servers_are_names_too(hub: Deployment) -> None:
    assert row(hub.show("org/weak"))["layers"] == 3


def test_a_name_that_no_repository_can_have_is_one_line(hub: Deployment) -> None:
    names = ("org/a--b", "org/a..b", "org/x.git", "org/" + "x" * 97)
    refused_so(hub, dict.fromkeys(names, "allowed: a Hub name (ORG/NAME)"))
    assert Hub.requests == []


def test_no_network_is_one_line(hub: Deployment) -> None:
    closed = "http://127.0.0.1:9"  # the discard port: nobody listens
    assert "not reachable" in refusal(hub.show("org/plain", HF_ENDPOINT=closed))


def test_offline_without_a_copy_is_one_line(hub: Deployment) -> None:
    assert "HF_HUB_OFFLINE" in refusal(hub.show("org/plain", HF_HUB_OFFLINE="1"))
    assert Hub.requests == []


def test_a_cache_that_cannot_be_written_is_one_line(hub: Deployment) -> None:
    taken = hub.cache / "taken"
    taken.write_text("a file where a folder should be")
    line = refusal(hub.show("org/plain", HF_HOME=str(taken)))
    assert "org/plain: config.json cannot be fetched" in line
    assert str(taken) in line
