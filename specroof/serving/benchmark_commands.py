"""Commands that measure a predicted point on a real engine, without trained weights.

Random weights take as long as trained ones, and an engine can be told how many drafts to accept.
What random weights do not have is the routing of trained experts: a mixture spreads its tokens
evenly.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from specroof.errors import OptionError, expect_word, refuse, reject
from specroof.serving.launch import (
    Speculation,
    format_words,
    sglang_words,
    shell_line,
    vllm_config,
)
from specroof.serving.releases import SglangRelease, VllmRelease, release, release_of, version_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MockPoint:
    """A predicted point, as a benchmark runs it.

    Parameters
    ----------
    model
        A Hub name or folder with config and tokenizer; weights are not read.
    speculation
        What drafts, in a chain or block, and how many drafts; of weights just the config is read.
    tokens_per_round
        The acceptance length to force, bonus token included.
    batch_size, input_len, output_len
        Requests in flight, and tokens of each.
    tensor_parallel
        Devices.
    weights, kv_cache
        Formats in the place of the checkpoint's own, as engines make them of any checkpoint.

    Raises
    ------
    OptionError
        For a kind that cannot be forced, an acceptance length that the drafts cannot have, or a
        format that engines do not make.
    """

    model: str
    speculation: Speculation
    tokens_per_round: float
    batch_size: int
    input_len: int
    output_len: int
    tensor_parallel: int = 1
    weights: str | None = None
    kv_cache: str | None = None

    def __post_init__(self) -> None:
        kind, drafts = self.speculation.kind, self.speculation.drafts
        # What both engines run, and make of any checkpoint, SGLang does.
        facts = version_of(SglangRelease)
        if kind not in facts.methods:
            known = ", ".join(facts.methods)
            refuse("drafter", kind, f"{known}: engines can force their acceptance")
        _refuse_format("--weights", self.weights, facts.weights)
        _refuse_format("--kv-cache", self.kv_cache, tuple(facts.cache_formats))
        for name in ("batch_size", "input_len", "output_len", "tensor_parallel"):
            if getattr(self, name) < 1:
                refuse(name, getattr(self, name), "a whole number of at least 1")
        if not 1 <= self.tokens_per_round <= drafts + 1:
            reject(
                f"tokens_per_round is {self.tokens_per_round:g}",
                f"from 1 to {drafts + 1}, the drafts and the bonus token",
            )


def _refuse_format(word: str, value: str | None, known: Sequence[str]) -> None:
    """Refuse a format that engines do not make of a checkpoint in another one."""
    if value not in {None, *known}:
        message = f"{word} is {value!r}; allowed, as engines make it: {', '.join(known)}"
        raise OptionError(message)


#: Rounds of requests through the server: the last ones leave it half empty.
_WAVES: Final = 4


def _line(*words: object, **environment: object) -> str:
    variables = [f"{name}={shlex.quote(str(value))}" for name, value in environment.items()]
    return " ".join([*variables, shell_line(words)])


def _sglang_server(point: MockPoint, framework: str, *, drafts: bool) -> str:
    words: list[object] = ["python", "-m", "sglang.launch_server"]
    words += ["--model-path", point.model, "--load-format", "dummy"]
    words += ["--tp-size", point.tensor_parallel, "--disable-radix-cache"]
    words += format_words(framework, point.weights, point.kv_cache)
    if not drafts:
        return _line(*words)
    words += sglang_words(point.speculation, framework)
    if point.speculation.weights is not None:
        words += ["--speculative-draft-load-format", "dummy"]
    # Others than those would wait.
    running = release_of(framework, SglangRelease).limits.drafting_running
    words += ["--max-running-requests", max(running, point.batch_size)]
    return _line(
        *words,
        SGLANG_SIMULATE_ACC_LEN=f"{point.tokens_per_round:.4g}",
        SGLANG_SIMULATE_ACC_METHOD="match-expected",
    )


def _sglang_bench(point: MockPoint) -> str:
    # A range ratio of 1 is what makes every prompt and answer as long as it says.
    return _line(
        *("python", "-m", "sglang.bench_serving", "--backend", "sglang"),
        *("--dataset-name", "random-ids", "--random-range-ratio", 1),
        *("--random-input-len", point.input_len, "--random-output-len", point.output_len),
        *("--max-concurrency", point.batch_size, "--num-prompts", _WAVES * point.batch_size),
        *("--output-file", "bench.jsonl"),
    )


def _vllm_server(point: MockPoint, framework: str, *, drafts: bool) -> str:
    words: list[object] = ["vllm", "serve", point.model, "--load-format", "dummy"]
    words += ["--tensor-parallel-size", point.tensor_parallel, "--no-enable-prefix-caching"]
    words += format_words(framework, point.weights, point.kv_cache)
    if drafts:
        facts = release_of(framework, VllmRelease)
        if not facts.forced_length:
            reject(f"{facts.name} cannot be told an acceptance length", "a later release")
        speculative, _ = vllm_config(point.speculation, framework)
        speculative |= {
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_length": round(point.tokens_per_round, 4),
        }
        words += ["--speculative-config", json.dumps(speculative)]
    return _line(*words)


def _vllm_bench(point: MockPoint) -> str:
    return _line(
        *("vllm", "bench", "serve", "--model", point.model, "--dataset-name", "random"),
        *("--random-input-len", point.input_len, "--random-output-len", point.output_len),
        *("--ignore-eos", "--max-concurrency", point.batch_size),
        *("--num-prompts", _WAVES * point.batch_size),
        *("--save-result", "--append-result", "--result-filename", "bench.jsonl"),
    )


@dataclass(frozen=True, slots=True)
class _Framework:
    """The commands of an engine whose flags are known."""

    server: Callable[..., str]
    bench: Callable[[MockPoint], str]


#: Engines that accept as many drafts as they are told.
FRAMEWORKS: Final[Mapping[str, _Framework]] = {
    "sglang": _Framework(_sglang_server, _sglang_bench),
    "vllm": _Framework(_vllm_server, _vllm_bench),
}


def mock_commands(point: MockPoint, framework: str = "sglang") -> Sequence[tuple[str, str]]:
    """Return what to run, in order: titles, and commands for a shell.

    Parameters
    ----------
    point
        What to measure.
    framework
        A key of `FRAMEWORKS`.

    Raises
    ------
    OptionError
        For an engine without forced acceptance.

    Source
        Flags and variables as in the sources of the packages sglang 0.5.23
        (``srt/arg_groups/fields/``, ``srt/arg_groups/speculative_hook.py``, ``srt/environ.py``,
        ``benchmark/serving.py``) and vllm 0.33.0 (``config/speculative.py``, ``config/cache.py``,
        ``benchmarks/serve.py``). Both count the bonus token in
        the length that they are given.

    Examples
    --------
    >>> point = MockPoint(
    ...     model="Qwen/Qwen3.5-4B",
    ...     speculation=Speculation(kind="mtp", schedule=((1, 8, 3),)),
    ...     tokens_per_round=2.5,
    ...     batch_size=8,
    ...     input_len=1024,
    ...     output_len=512,
    ... )
    >>> title, command = mock_commands(point)[2]
    >>> title
    'SGLang 0.5.23 with 3 drafts and 2.5 tokens per round'
    >>> command[:30]
    'SGLANG_SIMULATE_ACC_LEN=2.5 SG'
    """
    server = framework.partition("@")[0]
    expect_word("framework", server, FRAMEWORKS)
    engine, name = FRAMEWORKS[server], release(framework).name
    bench = ("once it serves, in another shell", engine.bench(point))
    plain = (f"{name} without drafts", engine.server(point, framework, drafts=False))
    title = (
        f"{name} with {point.speculation.drafts} drafts and {point.tokens_per_round:.4g} tokens "
        f"per round"
    )
    return [plain, bench, (title, engine.server(point, framework, drafts=True)), bench]
