"""Commands that measure a predicted point on a real engine, without trained weights.

Random weights take as long as trained ones, and an engine can be told how many drafts to accept.
What random weights do not have is the routing of trained experts: a mixture spreads its tokens
evenly.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from specroof.arrays import fields_of
from specroof.errors import expect_word, refuse, reject
from specroof.frameworks import FRAMEWORKS, Mock, Release, release
from specroof.serving.launch import (
    Speculation,
    filled,
    filled_config,
    format_words,
    setting_words,
    shell_line,
    speculation_words,
)
from specroof.units import format_drafts


def mocked_frameworks() -> list[str]:
    """Return the servers that accept as many drafts as they are told.

    Examples
    --------
    >>> mocked_frameworks()
    ['sglang', 'vllm']
    """
    return [name for name in FRAMEWORKS if release(name).mock is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MockPoint:
    """A predicted point, as a benchmark runs it.

    Parameters
    ----------
    model
        A Hub name or folder with config and tokenizer; weights are not read.
    speculation
        What drafts, in a chain or block, how many drafts, and the settings of the server; of
        weights just the config is read.
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
        first, *others = [release(name) for name in mocked_frameworks()]
        known = [name for name in first.methods if all(name in one.methods for one in others)]
        if kind not in known:
            refuse("drafter", kind, f"{', '.join(known)}: engines can force their acceptance")
        formats = {"--weights": first.weights, "--kv-cache": (*first.cache_formats,)}
        for (word, made), value in zip(formats.items(), (self.weights, self.kv_cache), strict=True):
            if value not in {None, *made}:
                refuse(word, value, f"{', '.join(made)}, as engines make it")
        for name in ("batch_size", "input_len", "output_len", "tensor_parallel"):
            if getattr(self, name) < 1:
                refuse(name, getattr(self, name), "a whole number of at least 1")
        if not 1 <= self.tokens_per_round <= drafts + 1:
            allowed = f"from 1 to {drafts + 1}, the drafts and the bonus token"
            reject(f"tokens_per_round is {self.tokens_per_round:g}", allowed)


#: Rounds of requests through the server: the last ones leave it half empty.
_WAVES: Final = 4


def _server(
    point: MockPoint, facts: Release, mock: Mock, figures: dict[str, Any], *, drafts: bool
) -> str:
    """Return the command of a server, with random weights."""
    plan, release = point.speculation, f"{facts.framework}@{facts.version}"
    stated = (point.weights, point.kv_cache, plan.quantization, plan.family)
    formats = format_words(release, *stated)
    formats += setting_words(facts, plan.settings)[0]
    several = {"$formats": formats, "$speculation": list[str]()}
    if drafts:
        config = filled_config(mock.config, tokens_per_round=round(point.tokens_per_round, 4))
        several["$speculation"] = speculation_words(plan, release, config)
    words: list[str] = []
    for word in mock.start:
        words += several[word] if word in several else filled([word], **figures)
    words += facts.command.own_code if plan.family in facts.command.own_code_families else ()
    if not drafts:
        return shell_line(words)
    words += mock.draft_weights if plan.weights is not None else ()
    if plan.settings.running is None:
        words += filled(mock.drafting, **figures)
    values = map(shlex.quote, filled(mock.environment.values(), **figures))
    variables = map("=".join, zip(mock.environment, values, strict=True))
    return " ".join([*variables, shell_line(words)])


def mock_commands(point: MockPoint, framework: str) -> Sequence[tuple[str, str]]:
    """Return what to run, in order: titles, and commands for a shell.

    Parameters
    ----------
    point
        What to measure.
    framework
        One of `mocked_frameworks`, or a release of it.

    Raises
    ------
    OptionError
        For an engine without forced acceptance.

    Source
        The file of the release, ``mock``. Servers count the bonus token in the length that they are
        given.

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
    >>> title, command = mock_commands(point, "sglang")[2]
    >>> title
    'SGLang 0.5.23 with 3 drafts and 2.5 tokens per round'
    >>> command[:30]
    'SGLANG_SIMULATE_ACC_LEN=2.5 SG'
    """
    expect_word("framework", framework.partition("@")[0], mocked_frameworks())
    facts = release(framework)
    if facts.mock is None:
        reject(f"{facts.name} cannot be told an acceptance length", "a later release")
    if (kind := point.speculation.kind) in facts.mock.unforced:
        reject(f"{facts.name} cannot be told an acceptance length of {kind}", "a later release")
    tokens = f"{point.tokens_per_round:.4g}"
    figures = {
        **fields_of(point, "model", "tensor_parallel", "batch_size", "input_len", "output_len"),
        "num_requests": _WAVES * point.batch_size,
        "running": max(facts.mock.least_running, point.batch_size),
        "tokens_per_round": tokens,
    }
    bench = "once it serves, in another shell", shell_line(filled(facts.mock.bench, **figures))
    plain, drafting = (
        _server(point, facts, facts.mock, figures, drafts=drafts) for drafts in (False, True)
    )
    drafts = format_drafts(point.speculation.drafts)
    title = f"{facts.name} with {drafts} and {tokens} tokens per round"
    return [(f"{facts.name} without drafts", plain), bench, (title, drafting), bench]
