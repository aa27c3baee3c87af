"""Commands with drawn flags: a finite answer, or one line and exit code 2; in seconds."""

import json
import re
import resource
from collections.abc import Iterable
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import specroof
from effort import cpu_bound
from fuzzing import bounded
from schemas import mistake
from specroof.acceptance import RULES
from specroof.catalog import ACCEPTANCE_KEYS
from specroof.cli import app
from specroof.cost import CHOICES
from specroof.drafters import KINDS

pytestmark = [pytest.mark.fuzz, pytest.mark.slow]

#: Of one command.
MOST_SECONDS = 60
MOST_BYTES = 6 * 2**30

GOOD = ["1", "2", "3", "4", "8", "16", "0", "0.5", "0.9", "32", "512", "1024", "4096", "1e6"]
HOSTILE = [
    *("", " ", "-1", "-0", "0.0", "1e-9", "5e-324", "1e308", "-1e308", "1e400", "nan", "inf"),
    *("-inf", "NaN", "1_000", "1e", "0x10", "٣", "1,8", "1/2", "ten", "1.5", "99999999999"),
    *("9" * 40, "9" * 5000, "1e9", "100000000", "10000000", "1e7", "1e8", "0.01", "2147483648"),
]
MODELS = specroof.model_names()
CHIPS = specroof.hardware_names()
ENGINES = ["ideal", "vllm", "sglang", "tensorrt-llm", "generic", "nowhere", ""]

mostly_good = st.one_of(st.sampled_from(GOOD), st.sampled_from(GOOD), st.sampled_from(HOSTILE))
words = st.one_of(mostly_good, st.text(st.characters(codec="utf-8"), max_size=8))
lists = st.lists(mostly_good, min_size=1, max_size=5).map(",".join)
slashes = st.lists(st.sampled_from([*GOOD[:10], *HOSTILE]), min_size=1, max_size=5).map("/".join)


def flags(**values: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """Draw some of these flags, each with a value."""
    pairs = [
        st.tuples(st.just(f"--{name.replace('_', '-')}"), value) for name, value in values.items()
    ]
    chosen = st.lists(st.sampled_from(pairs).flatmap(lambda pair: pair), max_size=5)
    return chosen.map(lambda found: [word for pair in found for word in pair])


def spec(kind: str) -> st.SearchStrategy[str]:
    """Draw a SPEC of a kind: what it needs, an acceptance, and keys that it may or may not have."""
    needed = [group[0] for group in KINDS[kind].required if group[0] != "config"]
    beside = ("extrapolate", "temperature", "rule", "entropy", "window", "nonsense")
    keys = [*KINDS[kind].keys, *ACCEPTANCE_KEYS, *beside]
    tree = st.sampled_from(["eagle2", "sequoia", "2/1", "3/2/1", "bush"])
    lists_of = {"siblings", "rates", "survival", "histogram", "beta"}
    value = {
        "tree": tree,
        "device": st.sampled_from(CHIPS),
        "config": st.sampled_from(MODELS),
        "accept-length": st.sampled_from(["3.4@7", "1@1", "8@7", "x", "2@0", "1e308@9"]),
        "extrapolate": st.sampled_from(["geometric", "decay", "zero", "x"]),
        "rule": st.sampled_from([*RULES, "x"]),
    }
    acceptance = st.one_of(
        st.sampled_from(["accept=0.7", "rates=.9/.8/.5", "survival=.9/.6", "beta=4/2", "accept=1"]),
        st.sampled_from(["accept=0", "accept-length=3.4@7", "histogram=1/2/3", "histogram=14", ""]),
    )

    def pair(key: str) -> st.SearchStrategy[str]:
        drawn = value.get(key, slashes if key in lists_of else mostly_good)
        return drawn.map(lambda text: f"{key}={text}")

    more = st.lists(st.sampled_from(keys).flatmap(pair), max_size=3)
    first = st.tuples(*(pair(key) for key in needed))
    return st.tuples(first, acceptance, more).map(
        lambda parts: ",".join([kind, *parts[0], *filter(None, [parts[1]]), *parts[2]])
    )


specs = st.one_of(st.sampled_from(sorted(KINDS)).flatmap(spec), words)
models = st.one_of(st.sampled_from(MODELS), st.sampled_from(["nowhere.json", "", "."]))
chips = st.one_of(st.sampled_from(CHIPS), st.sampled_from(["nowhere.yaml", "", ".", "b200"]))
#: Choices by their flags, where these have other names.
choices = {
    name: name for name in ("granularity", "experts", "count", "recurrent_state", "state_dtype")
} | {"kv_cache": "kv_dtype", "weights": "weight_dtype"}
placed: dict[str, st.SearchStrategy[str]] = {
    **dict.fromkeys(["tp", "ep", "dp_attention", "dcp", "pp", "nodes"], mostly_good),
    "engine": st.sampled_from(ENGINES),
    **{flag: st.sampled_from([*CHOICES[name], "x"]) for flag, name in choices.items()},
}


NO_NUMBER = re.compile(r"(?i)(?<![\w-])[-+]?(nan|inf|infinity)(?![\w-])")


def answer(*words: str) -> None:
    """Run a command and hold it to what every command promises."""
    with cpu_bound(MOST_SECONDS):
        run = CliRunner().invoke(app, list(words))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MOST_BYTES, words
    assert isinstance(run.exception, SystemExit | None), words
    if run.exit_code == 2:
        assert run.stdout == "", words
        assert run.stderr.startswith("specroof: "), words
        assert len(run.stderr) < 2_100, words
        assert run.stderr.count("\n") == 1, words
        assert run.stderr[:-1].isprintable(), words
    else:
        assert run.exit_code == 0, (words, run.exit_code)
        text = run.stdout
        for word in ("Infinity Fabric", *filter(NO_NUMBER.search, words)):
            text = text.replace(word, "")  # AMD's name of a link, and what was typed
        if "--json" in words:
            found = json.loads(text.splitlines()[-1], parse_constant=pytest.fail)
            assert mistake(words, found) is None, words
        assert NO_NUMBER.search(text) is None, (words, text)


def line(*parts: st.SearchStrategy[Iterable[str]]) -> st.SearchStrategy[list[str]]:
    """Draw the words of all parts."""
    return st.tuples(*parts).map(lambda drawn: [*chain(*drawn)])


def one_of(*words: str) -> st.SearchStrategy[list[str]]:
    """Draw one of these flags, or none."""
    return st.sampled_from([[], *([word] for word in words)])


named = st.tuples(models, st.just("-H"), chips)
drafted = st.tuples(st.just("--drafter"), specs)
COMMANDS: dict[str, st.SearchStrategy[list[str]]] = {
    "predict": line(
        *(st.just(["predict"]), named, drafted, st.one_of(st.just(()), drafted)),
        flags(
            **dict.fromkeys(["batch", "context", "concurrency"], lists),
            **dict.fromkeys(["input_len", "output_len", "max_draft_len"], words),
            cost_of=st.sampled_from(["decode", "verify", "x"]),
            **placed,
        ),
    ),
    "explain": line(
        *(st.just(["explain"]), named, one_of("--prefill", "--strict-dtype")),
        flags(**dict.fromkeys(["batch", "context", "query_len"], words), **placed),
    ),
    "dice": line(
        *(st.just(["acceptance", "simulate"]), one_of("--markov")),
        flags(
            **dict.fromkeys(["target", "draft"], lists),
            **dict.fromkeys(["vocabulary", "closeness", "draft_len", "seed"], words),
            tokens=st.one_of(words, st.just("1000")),
            # A minute or two of dice is what their limit allows; here a fifth of it.
        ).map(lambda drawn: drawn if "--tokens" in drawn else [*drawn, "--tokens", "2000"]),
    ),
    "batches of dice": line(
        *(st.just(["acceptance", "simulate", "batch"]), named, drafted),
        flags(
            **dict.fromkeys(["batch", "context", "draft_len", "output_len", "batches"], words),
            seed=words,
            tp=mostly_good,
            engine=st.sampled_from(ENGINES),
        ),
    ),
    "lists and files": line(
        st.sampled_from([["acceptance"], ["models"], ["hardware"]]),
        one_of("list", "show", "check", "fit"),
        # What begins with a dash is a flag, and one of them is --help.
        st.lists(st.one_of(words, st.sampled_from([*MODELS, *CHIPS])), max_size=2).map(
            lambda names: [name for name in names if not name.startswith("-")]
        ),
        flags(
            **dict.fromkeys(["find", "max_draft_len", "accept"], words),
            **dict.fromkeys(["survival", "histogram"], slashes),
        ),
    ),
}


@pytest.mark.parametrize("kind", COMMANDS)
@bounded(40)
@given(st.data())
def test_a_command_is_finite_or_refused(kind: str, data: st.DataObject) -> None:
    answer(*data.draw(COMMANDS[kind]), *data.draw(one_of("--json")))


CHIP = """
format_version: 1
name: drawn
sources: {{peak.flops_per_s: a, peak.memory_bytes_per_s: b, peak.memory_bytes: c, engines.e: d}}
peak: {{flops_per_s: {{bf16: {}}}, memory_bytes_per_s: {}, memory_bytes: {}}}
default_engine: e
engines: {{e: {{memory_frac: {}, pass_overhead_s: {}, overlap_norm: {}}}}}
"""
figures = st.one_of(
    st.floats().map(repr), st.floats(1, 1e21).map(lambda x: f"{x:.6e}"), st.sampled_from(HOSTILE)
)
shares = st.one_of(st.floats(1e-6, 1.2).map(lambda x: f"{x:.6f}"), figures)


@bounded(40)
@given(st.tuples(figures, figures, figures, shares, st.one_of(shares, figures), shares))
def test_a_drawn_chip_is_finite_or_refused(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[str, ...]
) -> None:
    path = tmp_path_factory.mktemp("chip") / "drawn.yaml"
    path.write_text(CHIP.format(*drawn), encoding="utf-8")
    answer("hardware", "check", str(path))
    answer("explain", "Qwen/Qwen3-8B", "-H", str(path), "--json")
    spec = "autoregressive,accept=0.7,cost=0.1"
    answer("predict", "Qwen/Qwen3-8B", "-H", str(path), "--drafter", spec, "--json")
