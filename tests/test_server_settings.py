"""What a user tells a server: text, mappings, values, and what they change in a setup."""

from dataclasses import fields
from typing import Any

import pytest

from specroof import load_hardware
from specroof.errors import OptionError
from specroof.hardware import SERVER_KEYS, Server, ServerSettings
from specroof.latency import engine_setup
from specroof.serving.capacity import served_setup
from specroof.serving.settings import parse_server, server_settings

#: All settings of `--server`, as the words of a call and as values.
WORDS = "memory=0.85,running=64,capture=128,overlap=off,chunk=2048,mixed=on,state-dtype=bf16"
VALUES = {
    "memory": 0.85, "running": 64, "capture": 128, "overlap": False, "chunk": 2048, "mixed": True,
    "state-dtype": "bf16", "prefix-cache": True,
}  # fmt: skip


def test_words_and_mappings_say_the_same() -> None:
    asked = parse_server(f"{WORDS},prefix-cache=on")
    assert asked.stated == VALUES == server_settings(VALUES).stated
    assert {field.name for field in fields(ServerSettings)} == set(SERVER_KEYS.values())
    # YAML 1.2 reads on as a word, 1.1 as a truth.
    assert server_settings({"overlap": "on"}) == server_settings({"overlap": True})
    assert ServerSettings().stated == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("memry=0.9", "--server: unknown key 'memry'; allowed: memory, running, capture, overlap"),
        ("memory=1.5", "memory is 1.5; allowed: a share above 0, up to 1"),
        ("memory=0", "memory is 0.0; allowed: a share above 0"),
        ("memory=nan", "memory is nan; allowed: a share above 0"),
        ("memory=most", "memory is 'most'; allowed: a share above 0"),
        ("running=0", "running is 0; allowed: a whole number of requests, at least 1"),
        ("running=1.5", "running is '1.5'; allowed: a whole number of requests"),
        ("capture=-1", "capture is -1; allowed: a whole number, 0 for no graphs"),
        ("overlap=maybe", "overlap is 'maybe'; allowed: on or off"),
        ("chunk=99999999", "chunk is 99999999; allowed: a whole number of tokens"),
        ("state-dtype=int3", "state-dtype is 'int3'; allowed: fp32, bf16, fp16, fp8"),
        ("running=4,running=5", "running is given twice; allowed: once"),
        ("running", "'running' is not understood; allowed: KEY=VALUE[,…]"),
        ("running=", "'running=' is not understood; allowed: KEY=VALUE[,…]"),
    ],
)
def test_bad_words_are_refused(words: str, said: str) -> None:
    with pytest.raises(OptionError) as refusal:
        parse_server(words)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    "bad",
    [{"memory": True}, {"running": True}, {"running": 2.5}, {"overlap": 1}, {"mixed": "1"}, {3: 4}],
)
def test_bad_values_are_refused(bad: dict[Any, Any]) -> None:
    with pytest.raises(OptionError, match="allowed: "):
        server_settings(bad)


def resolved(framework: str) -> Server:
    """Return a server as its framework resolves it."""
    return Server(
        framework=framework, version="1", memory_frac=0.9, running=None, capture=64, overlap=True,
        chunk=0, mixed=False, state_dtype="fp32", prefix_cache=True,
    )  # fmt: skip


def test_what_nobody_states_stays_as_the_engine_has_it() -> None:
    setup = engine_setup(load_hardware("h100"), "sglang", None, None)
    server = resolved("sglang")
    quiet = served_setup(setup, server, ServerSettings(running=3, memory_frac=0.5, overlap=False))
    assert (quiet.engine, quiet.options, quiet.server) == (setup.engine, setup.options, server)


def test_captured_sizes_are_in_the_unit_of_the_framework() -> None:
    asked = ServerSettings(capture=20)
    for framework, unit in (("sglang", "sequences"), ("vllm", "tokens")):
        setup = engine_setup(load_hardware("h100"), framework, None, None)
        graphs = served_setup(setup, resolved(framework), asked).engine.graphs
        assert graphs is not None
        assert (graphs.sizes[-1], graphs.counts) == (20 if unit == "sequences" else 16, unit)
        assert setup.engine.graphs is not None
        assert graphs.eager_layer_s == setup.engine.graphs.eager_layer_s
    # The textbook captures nothing, and a framework whose sizes are not known keeps its own.
    ideal = engine_setup(load_hardware("h100"), "ideal", None, None)
    assert served_setup(ideal, resolved("ideal"), asked).engine == ideal.engine
    none = served_setup(ideal, resolved("sglang"), ServerSettings(capture=0)).engine.graphs
    assert none is not None
    assert none.sizes == ()


def test_a_state_dtype_prices_the_state() -> None:
    setup = engine_setup(load_hardware("h100"), "sglang", None, None)
    halved = served_setup(setup, resolved("sglang"), ServerSettings(state_dtype="bf16"))
    assert halved.options.state_dtype == "bf16"
    assert halved.engine == setup.engine


def test_a_resolved_server_is_spelt_as_it_is_asked_for() -> None:
    found = resolved("vllm").to_dict()
    assert set(found) == {"framework", "version", *SERVER_KEYS}
    assert found["prefix-cache"] is True
