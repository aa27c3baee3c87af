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
from test_gguf import a_file
from tiny_configs import TINY

pytestmark = pytest.mark.slow

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = TINY | {"num_hidden_layers": 3}
NVFP4 = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}

#: A file that says more than one read holds.
METADATA, TENSORS, _ = a_file("llama")
GGUF = gguf_bytes(METADATA | {"tokenizer.ggml.tokens": ["word"] * 100_000}, TENSORS)

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
        "Cut-Q8_0.gguf": GGUF[: 2**19],
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
        self.do_GET()

    def do_GET(self) -> None:
        repository, _, place = self.path.lstrip("/").partition("/resolve/")
        listed = self.path.removeprefix("/api/models/").partition("/tree/")[0]
        if "/tree/" in self.path and listed in FILES:
            names = [{"type": "file", "path": n, "size": 1, "oid": "0"} for n in FILES[listed]]
            self.reply(json.dumps(names).encode())
            return
        if "/tree/" in self.path:
            repository = listed
        if place or repository in REFUSED:
            self.requests.append(self.path)
        data = FILES.get(repository, {}).get(place.rpartition("/")[2])
        if repository in HOSTILE:
            HOSTILE[repository](self)
        elif repository == "org/secret" and self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.refuse(401, "RepoNotFound")
        elif repository in REFUSED:
            self.refuse(*REFUSED[repository])
        elif data is None:
            self.refuse(404, "EntryNotFound" if repository in FILES else "RepoNotFound")
        else:
            self.send(data)

    def log_message(self, *args: object) -> None:
        """Keep the test's output clean."""

    def reply(self, body: bytes = b"", status: int = 200, **headers: str | None) -> None:
        """Answer with the Hub's headers but for those that are given; None leaves one out."""
        usual: dict[str, str | None] = {
            "X_Repo_Commit": COMMIT,
            "ETag": f'"{sha256(body).hexdigest()}"',
            "Content_Length": str(len(body)),
        }
        self.send_response(status)
        for header, value in (usual | headers).items():
            if value is not None:
                self.send_header(header.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def send(self, data: bytes) -> None:
        part = self.headers["Range"]
        if part is None or "org/whole" in self.path:
            self.reply(data)
            return
        first, last = map(int, part.removeprefix("bytes=").split("-"))
        self.ranges.append((first, len(data[first : last + 1])))
        self.reply(data[first : last + 1], 206, ETag=f'"{sha256(data).hexdigest()}"')

    def refuse(self, status: int, code: str | None) -> None:
        # The Hub says of which commit a file is not, and the client remembers.
        commit = COMMIT if code == "EntryNotFound" else None
        self.reply(status=status, X_Error_Code=code, X_Repo_Commit=commit, ETag=None)


def hang_up(server: Hub) -> None:
    server.close_connection = True
    server.connection.shutdown(SHUT_RDWR)


def stop_midway(server: Hub) -> None:
    """Promise more bytes than come."""
    server.reply(b"{", Content_Length="4096")
    server.close_connection = True


def send_slowly(server: Hub, part: bytes, times: int, wait_s: float) -> None:
    """Offer more than fills memory or disk, or a byte now and then, for ten minutes."""
    server.reply(Content_Length=str(times * len(part)))
    for _ in range(times if server.command == "GET" else 0):
        server.wfile.write(part)
        time.sleep(wait_s)


def send_elsewhere(server: Hub, *, host: str = "http://localhost") -> None:
    """Keep the file on another host, as the Hub does with large ones."""
    if server.command == "GET":
        server.keys.append(server.headers["Authorization"])
        server.send(GGUF)
        return
    port = server.server.server_address[1]  # type: ignore[index]  # of TCP, with a port
    place = f"{host}:{port}{server.path}"
    server.reply(status=302, ETag='"0123"', X_Linked_Size=str(len(GGUF)), Location=place)


#: Three folders up from `hub/models--ORG--NAME/blobs` is the folder that holds the cache.
ESCAPE = "../../../escaped"


def send_names(server: Hub, *, status: int = 200, **names: str) -> None:
    """Send a config under a tag and a commit of the caller's choice."""
    code = "EntryNotFound" if status == 404 else None
    names = {"ETag": '"0123"', **names}
    server.reply(json.dumps(CONFIG).encode(), status, X_Error_Code=code, **names)


def send_weak_tag(server: Hub) -> None:
    """Send a tag as other servers spell theirs."""
    if server.path.endswith("hf_quant_config.json"):
        server.refuse(404, "EntryNotFound")
    else:
        send_names(server, ETag='W/"5f-0+a=_.b"')


def turn_hostile(server: Hub) -> None:
    """Answer the first question about a file well, and the second with a way out."""
    asked_before = server.requests.count(server.path) > 1
    send_names(server, ETag=f'"{ESCAPE if asked_before else COMMIT}"')


#: Repositories whose answers name files outside of the cache, and the header that does.
ESCAPING: dict[str, tuple[str, Callable[[Hub], None]]] = {
    "org/tag": ("ETag", lambda hub: send_names(hub, ETag=f'"{ESCAPE}"')),
    "org/weak-tag": ("ETag", lambda hub: send_names(hub, ETag=f'W/"{ESCAPE}"')),
    "org/linked": ("X-Linked-ETag", lambda hub: send_names(hub, X_Linked_ETag=ESCAPE)),
    "org/commit": ("X-Repo-Commit", lambda hub: send_names(hub, X_Repo_Commit=ESCAPE)),
    "org/missing": ("X-Repo-Commit", lambda hub: send_names(hub, status=404, X_Repo_Commit=ESCAPE)),
    "org/dots": ("X-Repo-Commit", lambda hub: send_names(hub, X_Repo_Commit="..")),
    "org/long": ("ETag", lambda hub: send_names(hub, ETag="x" * 300)),
    "org/later": ("ETag", turn_hostile),
}

#: Repositories that answer as no good server does.
HOSTILE: dict[str, Callable[[Hub], None]] = {
    "org/hangs-up": hang_up,
    "org/stops-midway": stop_midway,
    "org/circles": lambda hub: hub.reply(status=302, Location=hub.path),
    "org/gigabyte": lambda hub: send_slowly(hub, b" " * 10**6, 1000, 0),
    "org/drip": lambda hub: send_slowly(hub, b" ", 6000, 0.1),
    "org/elsewhere": send_elsewhere,
    "org/ftp": lambda hub: send_elsewhere(hub, host="ftp://localhost"),
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


def rows_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [shown for line in done.stdout.splitlines() for shown in json.loads(line)["rows"]]


def refused_so(hub: Deployment, says: dict[str, str], **environment: str) -> None:
    """Hold the line that each name leaves against what it should say."""
    done = hub.show(*says, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    for line, (name, said) in zip(done.stderr.splitlines(), says.items(), strict=True):
        repository = "/".join(name.partition(":")[0].split("/")[:2])
        assert line.startswith("specroof: ")
        assert repository[:60] in line.replace("models--org--", "org/"), name
        assert said in line, name


def test_a_hub_model_is_fetched_once_and_then_read_offline(hub: Deployment) -> None:
    (first,) = rows_of(hub.show("org/plain"))
    assert (first["name"], first["layers"]) == ("org/plain", 3)
    asked = set(Hub.requests)
    assert {path.rsplit("/", 1)[1] for path in asked} == {"config.json", "hf_quant_config.json"}
    assert rows_of(hub.show("org/plain", HF_HUB_OFFLINE="1")) == [first]
    # A sidecar that no call has asked for counts as absent.
    (marker,) = hub.cache.rglob(".no_exist/*/hf_quant_config.json")  # only our client leaves it
    marker.unlink()
    (without,) = rows_of(hub.show("org/plain", HF_HUB_OFFLINE="1"))
    assert "no hf_quant_config.json in the cache" in without["notes"].pop()
    assert without == first
    assert set(Hub.requests) == asked


def test_a_sidecar_on_the_hub_is_not_overlooked(hub: Deployment) -> None:
    plain, quantised, weak = rows_of(hub.show("org/plain", "org/sidecar", "org/weak"))
    assert quantised["weight_bytes"] < plain["weight_bytes"]
    assert weak["layers"] == 3  # whose tag is spelt as other servers do


def test_a_gguf_file_is_read_by_ranges_and_kept_nowhere(hub: Deployment) -> None:
    """The first file of a format, as llama.cpp has it: no later part of another one."""
    shown, by_format = rows_of(hub.show("org/gguf/Tiny-Q8_0.gguf", "org/gguf:q8_0"))
    layer = 256 * (2 * 256 + 2 * 64 + 3 * 512)
    assert shown["weight_formats"] == {"q8_0 x int8": 2 * layer + 256 * 1000}
    assert by_format == shown | {"name": "org/gguf:q8_0"}
    assert [first for first, _ in Hub.ranges] == [0, 2**20] * 2
    assert sum(length for _, length in Hub.ranges) <= 2 * len(GGUF)
    assert [path for path in hub.cache.rglob("*.gguf") if path.is_file()] == []


def test_a_token_opens_what_is_closed_without_and_goes_to_no_other_host(hub: Deployment) -> None:
    names = ("org/secret", "org/elsewhere/Tiny-Q8_0.gguf")
    secret, elsewhere = rows_of(hub.show(*names, HF_TOKEN=TOKEN))
    assert (secret["layers"], elsewhere["layers"]) == (3, 2)
    assert Hub.keys == [None, None]


def test_what_the_hub_refuses_is_one_line(hub: Deployment) -> None:
    said = [*rows("refusals", "gguf_files"), *rows("refusals", "hub_answers")]
    refused_so(hub, {"org/secret": "HF_TOKEN"} | dict(said))


def test_a_server_that_misbehaves_is_one_line(hub: Deployment) -> None:
    breaks_off = ("hangs-up", "stops-midway", "circles")
    says = {f"org/{name}": "cannot be fetched" for name in breaks_off}
    says |= {"org/gigabyte": "1000000000 bytes; allowed: up to 16777216"}
    refused_so(hub, says | {"org/drip": "given up after 3 seconds"})
    assert sum(file.stat().st_size for file in hub.cache.rglob("*") if file.is_file()) < 10**5


def test_a_server_that_fails_is_asked_once_and_no_name_that_it_cannot_have(hub: Deployment) -> None:
    asked = product((500, 503, 504), ("", "/model.gguf", ":Q4_K_M"))
    says = {f"org/fails-{status}{end}": f"answered with status {status}" for status, end in asked}
    names = ("org/a--b", "org/a..b", "org/x.git", "org/" + "x" * 97)
    refused_so(hub, says | dict.fromkeys(names, "allowed: a Hub name (ORG/NAME)"))
    assert len(Hub.requests) == len(says)


def test_a_server_that_names_files_outside_of_the_cache_is_refused(hub: Deployment) -> None:
    refused_so(hub, {name: f"its {header} is" for name, (header, _) in ESCAPING.items()})
    outside = [path for path in hub.cache.rglob("*") if path.name.startswith("escaped")]
    assert outside == []
    assert {path.name for path in hub.cache.iterdir()} <= {"hub", "xet"}


def test_without_a_network_or_a_cache_it_is_one_line(hub: Deployment) -> None:
    taken = hub.cache / "taken"
    taken.write_text("a file where a folder should be")
    for variable, value, said in (
        ("HF_ENDPOINT", "http://127.0.0.1:9", "not reachable"),  # the discard port: nobody listens
        ("HF_HUB_OFFLINE", "1", "HF_HUB_OFFLINE"),
        ("HF_HOME", str(taken), str(taken)),
    ):
        refused_so(hub, {"org/plain": said}, **{variable: value})
    assert Hub.requests == []
