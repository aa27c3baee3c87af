"""Play loads on vLLM's own scheduler in virtual time, beside specroof's player.

Run with: python benchmarks/vllm_scheduler.py FOLDER [--csv]

FOLDER holds the package `vllm` of 0.33.0: its unpacked wheel. The environment needs PyTorch for
CPUs, transformers, and the packages of plain Python that vLLM imports; packages that are not there
stay empty here. Nothing is computed: a pass takes what `PRICES` say, and the scheduler decides what
is in it. What is computed again is priced as a prompt.

Printed for each load: vLLM's mean and 99th percentile of TTFT, TPOT and latency, its duration and
preemptions, and how far the player is off. With --csv vLLM's figures alone, as
tests/data/vllm_scheduler.csv has them.
"""

import argparse
import csv
import dataclasses
import importlib.abc
import importlib.machinery
import json
import os
import sys
import tempfile
import types
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from specroof.serving.capacity import PrefillRules
from specroof.serving.pass_prices import Grid, PassPrices
from specroof.serving.played import Memory, Played, play
from specroof.serving.workload import Requests, Workload, closed_loop, open_loop

MODEL, BLOCK, REQUESTS = "Qwen/Qwen3-8B", 16, 200
#: Seconds of passes about as an H100 takes for Qwen3-8B: of rounds over the batch and its context,
#: of prompts over tokens and what they attend to, and what both add to each other.
PRICES = PassPrices(
    round_s=Grid([0, 100], [0, 1000], np.array([[6e-3, 6e-3], [8e-3, 14e-3]])),
    prompt_s=Grid([0, 1000], [0, 1000], np.array([[5e-3, 5e-3], [29e-3, 31e-3]])),
    sharing_s=Grid([0, 100], [0, 1000], np.array([[0, 0], [2e-3, 2e-3]])),
    context_s=Grid([0, 100], [0, 1000], np.array([[0, 0], [0, 6e-3]])),
    request_overhead_s=1e-3,
    request_latency_s=2e-2,
)
#: Tokens of a prompt and of an answer, the least share of them that lengths are drawn from, clients
#: or requests per second, tokens of a pass, blocks, and drafts, all of which are accepted.
COLUMNS = ("input_len", "output_len", "least", "clients", "rate", "chunk", "blocks", "draft_len")
LOADS = [
    *((1000, 200, 0.5, 0, rate, chunk, 10**5, 0) for rate in (4, 12, 20) for chunk in (512, 8192)),
    *((1000, 200, 0.5, clients, 0, 8192, 10**5, 0) for clients in (1, 8, 32, 64)),
    *(
        (prompt, answer, least, clients, 0, 8192, blocks, drafts)
        for prompt, answer, clients, blocks in (
            (300, 1500, 100, 4500),
            (1000, 1000, 100, 5000),
            (4000, 300, 64, 6450),
        )
        for least in (1.0, 0.5)
        for drafts in (0, 3)
    ),
]
FIGURES = [f"{cut}_{name}_s" for name in ("ttft", "tpot", "latency") for cut in ("mean", "p99")]
FIGURES += ["duration_s"]


class Empty(types.ModuleType):
    """A package that is not there: classes that do nothing, and decorators that change nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[:1].isupper() else Empty(name)

    def __call__(self, *args: Any, **_: Any) -> Any:
        """Return what is decorated."""
        return args[0] if args and callable(args[0]) else self

    def __bool__(self) -> bool:
        return False


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages that vLLM asks for and that are not there."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Find packages that vLLM asks for."""
        top = name.partition(".")[0]
        frame: Any = sys._getframe(1)  # noqa: SLF001 - who asks
        while "importlib" in frame.f_globals["__name__"]:
            frame = frame.f_back
        asks = frame.f_globals["__name__"].partition(".")[0]
        kernels = name.startswith(("vllm._C", "vllm._moe_C"))
        if kernels or top in self.names or (asks in {"vllm", "xgrammar"} and top != "vllm"):
            self.names.add(name if kernels else top)
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Empty:
        """Return an empty package."""
        module = Empty(spec.name)
        module.__path__, module.__version__ = [], "0"  # type: ignore[attr-defined]  # as packages
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave it empty."""


def part(name: str) -> Any:
    """Return a class of vLLM."""
    module, _, own = name.rpartition(".")
    return getattr(import_module(f"vllm.{module}"), own)


def vllm_scheduler(folder: str, blocks: int, drafts: int, chunk: int) -> Any:
    """Return vLLM's asynchronous scheduler over so many blocks."""
    if not any(isinstance(finder, Absent) for finder in sys.meta_path):
        os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
        sys.path.insert(0, folder)
        sys.meta_path.append(Absent())
    platforms: Any = import_module("vllm.platforms")
    platforms._current_platform = part("platforms.cpu.CpuPlatform")()  # noqa: SLF001
    registry = import_module("vllm.model_executor.models.registry")
    info = registry._ModelInfo  # noqa: SLF001 - which a subprocess finds out otherwise
    known: dict[str, Any] = {field.name: False for field in dataclasses.fields(info)}
    known |= {"architecture": "Qwen3ForCausalLM", "is_text_generation_model": True}
    known |= {"attn_type": "decoder", "default_seq_pooling_type": "LAST"}
    known |= {"default_tok_pooling_type": "ALL", "score_type": "bi-encoder"}
    registry._LazyRegisteredModel.inspect_model_cls = lambda _: info(**known)  # noqa: SLF001
    with tempfile.TemporaryDirectory() as place:
        name = f"{MODEL.replace('/', '--')}.json"
        text = (Path(__file__).parents[1] / "model_configs" / name).read_text(encoding="utf-8")
        config = json.loads(text) | {"architectures": ["Qwen3ForCausalLM"]}
        config |= {"max_position_embeddings": 40960, "hidden_act": "silu", "rms_norm_eps": 1e-6}
        Path(place, "config.json").write_text(json.dumps(config), encoding="utf-8")
        spec = {"method": "ngram", "num_speculative_tokens": drafts, "prompt_lookup_max": 5}
        told = part("engine.arg_utils.EngineArgs")(
            model=place,
            skip_tokenizer_init=True,
            load_format="dummy",
            max_model_len=16384,
            block_size=BLOCK,
            enable_prefix_caching=False,
            max_num_seqs=min(1024, chunk),
            max_num_batched_tokens=chunk,
            speculative_config=spec if drafts else None,
        ).create_engine_config()
    told.scheduler_config.async_scheduling = True
    told.cache_config.num_gpu_blocks = blocks + 1  # one is never given away
    layer = part("v1.kv_cache_interface.FullAttentionSpec")(
        block_size=BLOCK, num_kv_heads=8, head_size=128, dtype=import_module("torch").bfloat16
    )
    group = part("v1.kv_cache_interface.KVCacheGroupSpec")(["layer"], layer)
    return part("v1.core.sched.async_scheduler.AsyncScheduler")(
        vllm_config=told,
        kv_cache_config=part("v1.kv_cache_interface.KVCacheConfig")(blocks + 1, [], [group]),
        structured_output_manager=part("v1.structured_output.StructuredOutputManager")(told),
        block_size=BLOCK,
    )


class Driven:
    """Requests that the real scheduler plays, in virtual time: two passes in flight."""

    def __init__(self, scheduler: Any, requests: Requests, prices: PassPrices) -> None:
        self.scheduler, self.requests, self.prices = scheduler, requests, prices
        count = len(requests.input_len)
        self.sent_s = np.full(count, np.inf)
        self.first_s, self.end_s = self.sent_s.copy(), self.sent_s.copy()
        self.known: dict[str, Any] = {}
        # Tokens of a request that are not its own next ones: its prompt, or what is done again.
        self.prompt_len: dict[str, int] = {}
        self.clock = 0.0

    def send(self) -> None:
        """Send what clients send, one more for each that ended; or all when they arrive."""
        if self.requests.concurrency is None:
            self.sent_s = self.requests.arrival_s
            return
        ended = int(np.isfinite(self.end_s).sum())
        most = min(len(self.sent_s), ended + (self.requests.concurrency))
        self.sent_s[:most] = np.minimum(self.sent_s[:most], self.clock)

    def reach(self) -> float:
        """Hand over requests that have reached the server; return when the next one does."""
        reached_s = self.sent_s + self.prices.request_latency_s
        for number in range(len(self.known), len(reached_s)):
            if reached_s[number] > self.clock + 1e-12:
                return float(reached_s[number])
            name = str(number)
            prompt = [1] * int(self.requests.input_len[number])
            length = int(self.requests.output_len[number])
            wants = part("sampling_params.SamplingParams")(
                max_tokens=length, ignore_eos=True, temperature=0.0
            )
            self.known[name] = part("v1.request.Request")(name, prompt, wants, None)
            self.scheduler.add_request(self.known[name])
        return np.inf

    def seconds(self, output: Any) -> float:
        """Return what a pass takes, by specroof's prices."""
        tokens = attended = contexts = 0.0
        through = batch = 0
        for name, scheduled in output.num_scheduled_tokens.items():
            request = self.known[name]
            before = request.num_computed_tokens - scheduled
            if not before:
                self.prompt_len[name] = request.num_tokens
            piece = min(scheduled, self.prompt_len[name] - before)
            if piece > 0:
                tokens += piece
                attended += piece * (before + piece / 2)
                through += before + piece == self.prompt_len[name]
            else:
                batch += 1
                contexts += before
        overhead_s = through * self.prices.request_overhead_s
        if tokens and batch:
            mean, seen = contexts / batch, attended / tokens
            return self.prices.mixed_s(batch, mean, tokens, seen) + overhead_s
        if tokens:
            return self.prices.prompt_s.at(tokens, attended / tokens) + overhead_s
        return self.prices.round_s.at(batch, contexts / batch)

    def follow(self, output: Any, samples: dict[str, int]) -> None:
        """Hand the tokens of a pass to the scheduler."""
        names = list(output.num_scheduled_tokens)
        made = part("v1.outputs.ModelRunnerOutput")(
            req_ids=names,
            req_id_to_index={name: place for place, name in enumerate(names)},
            sampled_token_ids=[[7] * samples[name] for name in names],
        )
        self.scheduler.update_from_output(output, made)
        for name in names:
            number, request = int(name), self.known[name]
            if request.num_output_tokens:
                self.first_s[number] = min(self.first_s[number], self.clock)
            if request.is_finished():
                self.end_s[number] = min(self.end_s[number], self.clock)

    def played(self) -> tuple[Played, int]:
        """Play until the last request has ended; return times and preemptions."""
        flight: deque[tuple[Any, dict[str, int], float]] = deque()
        free_s = 0.0
        self.send()
        while np.isinf(self.end_s).any():
            next_s = self.reach()
            output = None
            if self.scheduler.has_requests():
                output = self.scheduler.schedule()
            if output is not None and output.total_num_scheduled_tokens:
                free_s = max(self.clock, free_s) + self.seconds(output)
                drafted = output.scheduled_spec_decode_tokens
                samples = {
                    name: 0 if self.known[name].is_prefill_chunk else 1 + len(drafted.get(name, ()))
                    for name in output.num_scheduled_tokens
                }
                flight.append((output, samples, free_s))
                if len(flight) < 2:
                    continue
            if flight:
                output, samples, done_s = flight.popleft()
                self.clock = max(self.clock, done_s)
                self.follow(output, samples)
                self.send()
            else:
                self.clock = max(self.clock, next_s)
        nothing = np.zeros(1)
        times = (self.sent_s, self.sent_s, self.sent_s, self.first_s, self.end_s)
        seen = Played(*times, self.requests.output_len, nothing, nothing)
        return seen, sum(request.num_preemptions for request in self.known.values())


def asked(load: dict[str, float]) -> tuple[Requests, PassPrices, PrefillRules, Memory]:
    """Return the requests of a load, the prices, the rules, and the memory of the player."""
    workload = Workload(load["input_len"], load["output_len"])
    drawn: dict[str, Any] = {"length_range": (load["least"], 1.0), "seed": 2}
    if load["rate"]:
        requests = open_loop(workload, load["rate"], REQUESTS, **drawn)
    else:
        requests = closed_loop(workload, int(load["clients"]), REQUESTS, **drawn)
    drafts = int(load["draft_len"])
    prices = dataclasses.replace(PRICES, survival=(1.0,) * drafts, positions=1.0 + drafts)
    # All tokens of the pass in flight may stay, and the next one has as many.
    ahead_len = 2 * prices.positions - prices.tokens_per_round
    token = 1 / (int(load["blocks"]) * BLOCK)
    memory = Memory((ahead_len + (BLOCK - 1) / 2) * token, token)  # half a block is left unused
    return requests, prices, PrefillRules(load["chunk"], True, True), memory


def main() -> None:
    """Print vLLM's figures, and how far the player is off."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--csv", action="store_true")
    words = parser.parse_args()
    table = csv.writer(sys.stdout, lineterminator="\n")
    if words.csv:
        table.writerow([*COLUMNS, "preemptions", *FIGURES])
    for row in LOADS:
        load = dict(zip(COLUMNS, row, strict=True))
        requests, prices, rules, memory = asked(load)
        drafts = int(load["draft_len"])
        scheduler = vllm_scheduler(words.folder, int(load["blocks"]), drafts, int(rules.chunk))
        wanted, preemptions = Driven(scheduler, requests, prices).played()
        theirs = wanted.figures()
        if words.csv:
            table.writerow([*row, preemptions, *(f"{theirs[name]:.9g}" for name in FIGURES)])
            continue
        found = play(prices, requests, rules, 1024, memory=memory, overlap=True).figures()
        print(*(f"{name}={value:g}" for name, value in load.items()), f"preemptions={preemptions}")
        print(
            *(
                f"{name} {theirs[name]:.4g} {found[name] / theirs[name] - 1:+.2%}"
                for name in FIGURES
            )
        )


if __name__ == "__main__":
    main()
