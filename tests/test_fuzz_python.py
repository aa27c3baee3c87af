"""The public surface against junk: an answer, or a refusal that names the argument."""

import contextlib
import dataclasses
import inspect
import math
import resource
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import specroof
from effort import cpu_bound
from fuzzing import bounded
from specroof.errors import SpecroofError, printable
from specroof.questions import QUESTIONS
from tables import rows, table

pytestmark = pytest.mark.fuzz

PUBLIC_NAMES: list[str] = vars(specroof)["__all__"]  # which type checkers do not see
MODEL = specroof.load_model("Qwen/Qwen3-8B")
CHIP = specroof.load_hardware("b200")
CURVE = specroof.constant_acceptance(0.7)
DRAFTER = specroof.load_drafter("autoregressive,cost=0.1")
PASS = specroof.ForwardPass(1, 1, 0)

# Functions without arguments, and two about files, for which their own tests refuse.
NOT_CALLED = {"hardware_names", "load_profiles", "model_names", "read_results", "write_sweep"}

PARALLEL = ("tensor", "expert", "attention_data", "decode_context", "pipeline")
SERVED: dict[str, Any] = {
    "model": MODEL,
    "hardware": CHIP,
    **dict.fromkeys([*(f"{one}_parallel" for one in PARALLEL), "nodes"], 1),
    **dict.fromkeys(["family", "engine", "options", "server"]),
}
PLACED = dict.fromkeys(["placement", "tensor_parallel", "engine", "options"])
#: Every public callable with arguments, and arguments that it answers.
CALLS: dict[str, dict[str, Any]] = table("library_calls") | {
    "HardwareProfile": {
        "format_version": 1, "name": "x", "sources": {}, "peak": CHIP.peak, "interconnect": None,
        "engines": {},
    },
    "Options": dataclasses.asdict(specroof.Options()),
    "context_acceptance": {"curves": {1024: CURVE, 4096: CURVE}},
    "extrapolated_acceptance": {
        "acceptance": specroof.survival_acceptance([0.9, 0.6]), "how": "zero",
    },
    "forward_cost": {"model": MODEL, "forward_pass": PASS, "options": None},
    "forward_latency": {"model": MODEL, "hardware": CHIP, "forward_pass": PASS} | PLACED,
    "simulate_batch": {
        "acceptance": CURVE, "round_s": [0.01, 0.02], "draft_len": 2, "output_len": 4,
        "n_batches": 2, "seed": 0,
    },
    "speedup_curve": {
        "model": MODEL, "hardware": CHIP, "drafter": DRAFTER, "acceptance": CURVE,
        "batch_size": [1, 8], "context_len": 9, "max_draft_len": 2, **PLACED,
    },
}  # fmt: skip
CALLS |= {name: SERVED | given for name, given in table("questions_asked").items()}
#: How refusals call arguments that have another name for people: a SPEC's key, what a name is of.
SPOKEN = (
    *("drafter", "engine", "extrapolate", "grid", "hardware", "model", "name", "profile", "spec"),
)
#: Public methods, by the object that they are called on.
METHODS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (CURVE.survival, {"draft_len": [0, 1]}),
    (CURVE.tokens_per_round, {"draft_len": [0, 1]}),
    (CURVE.accepted_tokens, {"draft_len": 3}),
    (CHIP.engine, {"name": None}),
    (CHIP.arithmetic, {"dtype": "bf16"}),
    (specroof.speedup_curve(**CALLS["speedup_curve"]).near_best, {"share": 0.01}),
]
CALLABLES = [(getattr(specroof, name), good) for name, good in CALLS.items()] + METHODS


def deep(around: Callable[[Any], Any]) -> Any:
    """Return something in 50 000 brackets."""
    found: Any = 1
    for _ in range(50_000):
        found = around(found)
    return found


#: What calls itself a number, a name or a list, and takes no memory until it is copied: 10^8
#: entries and more, brackets that no recursion reaches the bottom of, and durations, which numpy
#: counts among the whole numbers.
ODD: dict[str, Any] = {
    "duration": np.timedelta64(3),
    "seconds": np.timedelta64(3, "s"),
    "no duration": np.timedelta64("NaT"),
    "durations": [np.timedelta64(3)],
    "names": np.array(["vllm", "eagle3"]),
    "many names": np.broadcast_to(np.array("vllm"), (10**8,)),
    "many numbers": np.broadcast_to(1.0, (10**8,)),
    "a row of many": np.broadcast_to(1.0, (1, 10**8)),
    "many in a list": [np.broadcast_to(1.0, (10**8,))],
    "a range": range(10**8),
    "ranges": [range(10**8), range(10**15)],
    "deep mapping": deep(lambda inner: {"a": inner}),
    "deep list": deep(lambda inner: [inner]),
    "deep value": {"kv_dtype": deep(lambda inner: (inner,))},
}
STATM = Path("/proc/self/statm")
#: Bytes that a refusal may take: survival may have a million entries, and 10^8 take 800 MB.
MOST_BYTES = 320 * 2**20

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -(10**400), 2**63, 2**64]),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=12),
    st.binary(max_size=6),
    st.fractions(),
    st.decimals(),
    st.sampled_from([math.nan, math.inf, np.float32(2), np.True_, np.int8(-1), Fraction(1, 3)]),
    st.sampled_from([Path("nowhere"), object(), int, len, ..., NotImplemented, range(3)]),
)
DTYPES: list[Any] = [np.dtype(kind) for kind in ("f8", "i1", "?", "c16", "U2", "M8[s]")]
tables: st.SearchStrategy[Any] = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays.arrays(
        dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    )
)
masked = st.builds(lambda table: np.ma.array(table, mask=np.ones(table.shape, bool)), tables)
junk = st.one_of(
    scalars,
    st.sampled_from([*ODD]).map(ODD.__getitem__),
    tables,
    masked,
    st.lists(scalars, max_size=3),
    st.lists(st.lists(st.floats(), max_size=3), max_size=3),
    st.dictionaries(st.one_of(st.integers(), st.text(max_size=3)), scalars, max_size=2),
    st.sets(st.integers(), max_size=2),
    st.tuples(scalars, scalars),
)


def test_every_public_function_is_called_here_but_questions_which_check_requests() -> None:
    functions = {name for name in PUBLIC_NAMES if inspect.isfunction(getattr(specroof, name))}
    called = {*CALLS} | NOT_CALLED
    assert functions - {*QUESTIONS} <= called <= {*PUBLIC_NAMES}


@pytest.mark.parametrize(("call", "good"), CALLABLES, ids=lambda one: getattr(one, "__name__", ""))
def test_the_arguments_that_junk_replaces_are_answered(call: Any, good: dict[str, Any]) -> None:
    call(**good)


@bounded(300)
@given(st.sampled_from(CALLABLES), st.data())
def test_junk_is_answered_or_refused_by_name(
    chosen: tuple[Callable[..., Any], dict[str, Any]], data: st.DataObject
) -> None:
    call, good = chosen
    name = data.draw(st.sampled_from(sorted(good)))
    value = data.draw(junk)
    try:
        with cpu_bound(60):
            call(**{**good, name: value})
    except SpecroofError as refusal:
        message = str(refusal)
        assert message.splitlines() == [message]
        assert len(message) <= 2000
        # A value is refused by its argument's name, or by what it makes of another argument; one
        # that could be a name on the Hub, as 0/0 could, or a file by itself, as lines can show it.
        by_itself = isinstance(value, str) and message.startswith(
            (f"{value}: ", f"{printable(str(Path(value)))}: ")
        )
        assert by_itself or any(argument in message for argument in (*good, *SPOKEN)), message


@pytest.mark.skipif(not STATM.exists(), reason="what is held cannot be limited here")
@pytest.mark.parametrize("kind", ODD)
def test_odd_kinds_are_refused_before_they_are_held(kind: str) -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    for call, good in CALLABLES:
        for name in good:
            held = int(STATM.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + MOST_BYTES, limits[1]))
            try:
                with contextlib.suppress(SpecroofError):  # an argument that nobody reads may be any
                    call(**{**good, name: ODD[kind]})
            except MemoryError:
                pytest.fail(f"{call} with {name}")
            finally:
                resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize(("call", "name"), rows("values", "durations"))
def test_a_duration_is_no_number(call: str, name: str) -> None:
    for duration in (np.timedelta64(3), np.timedelta64(3, "s"), np.timedelta64("NaT")):
        with pytest.raises(SpecroofError, match=f"^{name} is "):
            getattr(specroof, call)(**{**CALLS[call], name: duration})


def test_paths_are_taken_in_every_spelling(hardware_folder: Path) -> None:
    path = hardware_folder / "b200.yaml"
    for spelling in (path, str(path), bytes(path), "b200"):
        assert specroof.load_hardware(spelling).name == CHIP.name  # type: ignore[arg-type]
