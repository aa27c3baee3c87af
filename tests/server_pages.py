"""Metrics pages as vLLM 0.33.0 and SGLang 0.5.23 publish them, of a server that is made up.

Names and labels are those of ``vllm/v1/metrics/loggers.py``, ``vllm/v1/spec_decode/metrics.py`` and
``sglang/srt/observability/metrics_collector.py``.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

SERVED = "Qwen/Qwen3-8B"
_RESULT = Path(__file__).parent / "data" / "clients" / "sglang-0.5.23-bench-drafts.jsonl"


@dataclass(frozen=True)
class Life:
    """What a server did since it began: every request alike, all the time as many."""

    seconds: float
    running: float = 40.0
    waiting: float = 2.0
    round_s: float = 0.024
    survival: tuple[float, ...] = (0.78, 0.55, 0.36, 0.22, 0.13)
    drafts: float | None = None  # the mean, where lengths vary
    input_len: float = 3000.0
    output_len: float = 500.0
    ended: bool = True  # whether requests do

    @property
    def rounds(self) -> float:
        return self.running * self.seconds / self.round_s

    @property
    def tokens_per_round(self) -> float:
        return 1.0 + sum(self.survival)

    @property
    def requests(self) -> float:
        """Of which each has its first token from its prefill, the others from rounds."""
        return self.ended * self.rounds * self.tokens_per_round / (self.output_len - 1)

    def at(self, seconds: float) -> "Life":
        return replace(self, seconds=seconds)


def line(name: str, value: float, labels: Mapping[str, object]) -> str:
    inside = ",".join(f'{key}="{one}"' for key, one in labels.items())
    return f"{name}{{{inside}}} {value!r}"


def vllm_page(life: Life, *, engine: int = 0, model: str = SERVED, off: bool = False) -> str:
    labels = {"engine": engine, "model_name": model}
    values: dict[str, float] = {
        "num_requests_running": life.running,
        "num_requests_waiting": life.waiting,
        "generation_tokens_total": life.rounds * life.tokens_per_round,
        "inter_token_latency_seconds_sum": life.running * life.seconds,
        "inter_token_latency_seconds_count": life.rounds,
        "request_prompt_tokens_sum": life.requests * life.input_len,
        "request_prompt_tokens_count": life.requests,
        "request_generation_tokens_sum": life.requests * life.output_len,
        "request_generation_tokens_count": life.requests,
        "iteration_tokens_total_count": life.seconds / life.round_s,
    }
    drafts = len(life.survival) if life.drafts is None else life.drafts
    if not off:
        values |= {
            "spec_decode_num_drafts_total": life.rounds,
            "spec_decode_num_draft_tokens_total": life.rounds * drafts,
            "spec_decode_num_accepted_tokens_total": life.rounds * sum(life.survival),
        }
    lines = [f"# TYPE vllm:{name} untyped\n" + line(f"vllm:{name}", value, labels)
             for name, value in values.items()]  # fmt: skip
    at = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines += [
        line(at, life.rounds * share, labels | {"position": place})
        for place, share in enumerate(life.survival)
        if not off
    ]
    return "\n".join(["# HELP process_start_time_seconds Start.", *lines, ""])


def ngram_page(life: Life, found_in: float) -> str:
    """Return a page of n-grams that find something in a share of the rounds.

    As vLLM 0.33.0 counts: `observe_draft` for requests with drafts only, a gap for every output.
    """
    tokens = life.rounds * (1 + found_in * sum(life.survival))
    lines = []
    for text in vllm_page(life).splitlines():
        name, _, value = text.rpartition(" ")
        if text.startswith("vllm:spec_decode"):
            lines.append(f"{name} {float(value) * found_in!r}")
        elif text.startswith("vllm:generation_tokens_total"):
            lines.append(f"{name} {tokens!r}")
        else:
            lines.append(text)
    return "\n".join(lines) + "\n"


def sglang_page(
    life: Life,
    *,
    model: str = SERVED,
    steps: float | None = None,
    verified: float | None = None,
    **ranks: object,
) -> str:
    """Return a page; `ranks` are labels of the scheduler, such as dp_rank."""
    depth = len(life.survival)
    served = {"model_name": model, "engine_type": "unified"}
    scheduler = served | {"tp_rank": 0, "pp_rank": 0, "moe_ep_rank": 0} | ranks
    shown: dict[str, float] = {
        "num_running_reqs": life.running,
        "num_queue_reqs": life.waiting,
        "spec_accept_length": life.tokens_per_round if depth else 0.0,
        "spec_num_steps": depth if steps is None else steps,
        "spec_num_draft_tokens": (depth and depth + 1) if verified is None else verified,
    }
    tokens = life.rounds * life.tokens_per_round
    decoded = life.requests * (life.output_len - 1)
    done: dict[str, float] = {
        "inter_token_latency_seconds_sum": life.running * life.seconds,
        "inter_token_latency_seconds_count": tokens,
    }
    if depth and life.ended:
        done["spec_verify_calls_total"] = decoded / life.tokens_per_round
    streamed: dict[str, float] = {
        "num_requests_total": life.requests,
        "generation_tokens_total": life.requests * life.output_len,
        "prompt_tokens_total": life.requests * life.input_len,
    }
    lines = [line(f"sglang:{name}", value, scheduler) for name, value in shown.items()]
    lines += [line(f"sglang:{name}", value, served) for name, value in done.items()]
    lines += [
        line(f"sglang:{name}", value, served | {"is_streaming": "true"})
        for name, value in streamed.items()
    ]
    for mode, value in {"decode": tokens, "prefill_compute": 3 * tokens}.items():
        lines.append(line("sglang:realtime_tokens_total", value, scheduler | {"mode": mode}))
    return "\n".join([*lines, ""])


def without_steps(page: str) -> str:
    """Return a page of SGLang as a release publishes it that shows no draft length."""
    return "\n".join(text for text in page.split("\n") if "sglang:spec_num_" not in text)


def server_info(**changes: Any) -> str:
    """Return the /server_info of SGLang 0.5.23, written by its own code, with changes."""
    text = _RESULT.read_text(encoding="utf-8")
    return json.dumps(json.loads(text)["server_info"] | changes)


Answer = Callable[[BaseHTTPRequestHandler, int], None]


@contextmanager
def replay(answer: Answer | Sequence[str]) -> Iterator[str]:
    """Serve on localhost: pages one after another, or what a function answers to each request."""
    asked = 0

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal asked
            number, asked = asked, asked + 1
            try:
                if callable(answer):
                    answer(self, number)
                else:
                    give(self, answer[min(number, len(answer) - 1)].encode())
            except OSError:
                pass  # the reader has gone

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def give(handler: BaseHTTPRequestHandler, data: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)
