"""What a user tells a server: text, mappings, values, and what they change in a setup."""

import json
import math
from dataclasses import fields, replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_pages import server_info
from specroof import (
    EngineProfile,
    Options,
    Placement,
    capacity,
    constant_acceptance,
    load_drafter,
    load_hardware,
    load_model,
    predict,
)
from specroof.cost import ForwardPass
from specroof.errors import MeasurementError
from specroof.evidence import Measurement, read_benchmark, server_told
from specroof.evidence.server_info import ServerFacts, all_facts, cache_facts, server_facts
from specroof.hardware.engine import (
    IDEAL_ENGINE,
    SERVER_KEYS,
    CapturedGraphs,
    Overlap,
    ServerSettings,
)
from specroof.latency.model import model_latency, model_work
from specroof.latency.setup import Deployment, Setup, drafting_engine, engine_setup
from specroof.serving.capacity import in_server
from specroof.serving.served import raised_limits
from specroof.serving.workload import parse_server, server_settings
from specroof.speedup.curve import decoding_curve, waits_for_host
from specroof.speedup.result import SpeedupCurve
from tables import present, rows

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
    assert server_settings({"overlap": "plain"}) == ServerSettings(overlap="plain")
    assert parse_server("overlap=plain").stated == {"overlap": "plain"}
    assert ServerSettings().stated == {}


def told(engine: str, stages: int = 1, **settings: Any) -> tuple[Setup, Setup]:
    placement = Placement(pipeline_parallel=stages)
    before = engine_setup(load_hardware("h100"), engine, placement, None)
    return before, in_server(load_model("Qwen/Qwen3.5-4B"), before, ServerSettings(**settings))


def test_what_nobody_states_stays_as_the_engine_has_it() -> None:
    before, after = told("sglang", memory_frac=0.5, overlap=True, chunk=64, running=3)
    assert replace(after.engine, graphs=before.engine.graphs) == before.engine
    assert after.options == before.options
    assert after.server is not None
    assert (after.server.running, after.server.memory_frac, after.server.overlap) == (3, 0.5, True)
    # SGLang's arg_groups/overrides.py, _pipeline_parallel_overlap_disable.
    places = [("sglang", 1), ("sglang", 2), ("vllm", 2)]
    servers = [told(*place)[1] for place in places]
    assert [setup.engine.overlap for setup in servers] == [True, False, True]
    assert [setup.server and setup.server.overlap for setup in servers] == [True, False, True]


def test_without_overlap_the_device_waits_for_the_host() -> None:
    before, after = told("sglang", overlap=False)
    assert not present(after.server).overlap
    engine = before.engine
    # SGLang pull request 23000, one request: 6.345 tokens at 845.98 tokens/s a round, and 6.352 at
    # 1161.88; 32 requests: 6.487 at 11405.85, and 6.482 at 15326.81.
    one_s = 6.345 / 845.98 - 6.352 / 1161.88
    many_s = 32 * (6.487 / 11405.85 - 6.482 / 15326.81)
    assert engine.host_s + engine.host_sequence_s == pytest.approx(one_s, rel=0.01)
    assert engine.host_s + 32 * engine.host_sequence_s == pytest.approx(many_s, rel=0.01)
    # Every pass of the target waits, with drafts or without, and no pass of a drafter.
    model = load_model("Qwen/Qwen3-8B")
    step = ForwardPass(np.array([1.0, 32.0]), 4, 1000)
    drafts = [replace(setup, engine=drafting_engine(setup.engine)) for setup in (before, after)]
    waited = [
        (model_latency(model, late, step).total_s - model_latency(model, early, step).total_s)
        for early, late in ((before, after), drafts)
    ]
    assert waited[0] == pytest.approx([one_s, many_s], rel=0.01)
    assert waited[1].tolist() == [0, 0]
    assert replace(told("sglang", overlap=True)[1].engine, graphs=engine.graphs) == engine
    # How sure that is: 6.1 ms elsewhere, three times as much; the band says so.
    known, wide = (present(one.band("eagle3")).width for one in (engine, after.engine))
    assert wide == pytest.approx(math.hypot(known, 0.3))
    _, ideal = told("ideal", overlap=False)
    assert ideal.engine == replace(IDEAL_ENGINE, overlap=False)
    assert model_latency(model, ideal, step).overhead_s == 0


def curve_with(engine: str, overlap: Overlap | None, spec: str) -> SpeedupCurve:
    """Return up to three drafts for one request and for 32, on an H100."""
    model = load_model("Qwen/Qwen3-8B")
    bare = engine_setup(load_hardware("h100"), engine, None, None)
    setup = in_server(model, bare, ServerSettings(overlap=overlap))
    return decoding_curve(
        Deployment(model, setup), load_drafter(spec), constant_acceptance(0.6),
        batch_size=[1, 32], context_len=[900], max_draft_len=3,
    )  # fmt: skip


def test_with_plain_overlap_rounds_alone_wait() -> None:
    # SGLang's first speculation: plain steps overlap, and a round waits for the host.
    ways: tuple[Overlap, ...] = (True, False, "plain")
    on, off, plain = (curve_with("sglang", way, "eagle3") for way in ways)
    host_s = [1.95e-3 + 85e-6, 1.95e-3 + 32 * 85e-6]
    assert np.array_equal(plain.decode_s, on.decode_s)
    assert off.decode_s[0] - on.decode_s[0] == pytest.approx(host_s)
    for waiting in (off, plain):  # once a round, however long its drafts
        for drafts in (1, 2, 3):
            extra_s = waiting.round_s[0, :, drafts] - on.round_s[0, :, drafts]
            assert extra_s == pytest.approx(host_s)
    for name in ("tokens_per_round", "draft_s", "verify_s"):
        assert np.array_equal(getattr(plain, name), getattr(on, name))
    assert [note for note in plain.notes if note.startswith("eagle3 is scheduled synchronously")]
    for spec in ("autoregressive,cost=0.1", "suffix"):  # whatever drafts
        waiting, free = (curve_with("sglang", way, spec) for way in ("plain", True))
        assert (waiting.round_s - free.round_s)[0, :, 3] == pytest.approx(host_s)
    _, ideal = told("ideal", overlap="plain")
    assert ideal.engine == replace(IDEAL_ENGINE, overlap="plain")
    assert ideal.engine.band("eagle3") is None


def test_a_drafting_server_without_overlap_has_other_memory_rules() -> None:
    # SGLang 0.5.23: a request has five slots of state with overlap and three without
    # (kv_cache_configurator.py), and two verifications allocated ahead, or one.
    words: dict[str, Any] = {
        "drafters": ["mtp,accept=0.7"], "engine": "sglang", "batch_size": [1], "max_draft_len": 8,
    }  # fmt: skip
    on, off, plain = (
        predict("Qwen/Qwen3.5-4B", "h100", **words, server={"overlap": way}).case
        for way in ("on", "off", "plain")
    )
    assert [one["server"]["overlap"] for one in (on, off, plain)] == [True, False, "plain"]
    drafting = [one["drafters"][0]["server"]["overlap"] for one in (on, off, plain)]
    assert drafting == [True, False, False]
    assert plain["room"] == on["room"] != off["room"]
    largest = [one["drafters"][0]["largest_batch"][0] for one in (on, off, plain)]
    assert largest[2][0] == largest[0][0]
    assert largest[2][1:] == largest[1][1:] != largest[0][1:]
    # Nothing of the host's uncertain seconds cancels: three times as much, by the rounds of SGLang
    # pull request 23000, 5.47 ms and 2.03 ms of waiting for one request, 13.53 and 4.67 for 32.
    known, wide = (
        present(told("sglang", overlap=way)[1].engine.band("mtp")).width for way in (True, "plain")
    )
    unsure = math.sqrt(wide**2 - known**2)
    for round_ms, host_ms in ((5.47, 2.03), (13.53, 4.67)):
        thrice = math.log((round_ms + 3 * host_ms) / (round_ms + host_ms))
        assert 0.95 * unsure < thrice < 1.02 * unsure
    assert told("vllm", overlap="plain")[1].engine.band("mtp") != told("vllm")[1].engine.band("mtp")


@pytest.mark.parametrize(
    ("engine", "version", "waiting", "other"), rows("values", "rounds_that_wait")
)
def test_rounds_wait_of_kinds_that_a_release_schedules_between_passes_unless_it_is_told(
    engine: str, version: str, waiting: tuple[str, ...], other: str
) -> None:
    model = load_model("Qwen/Qwen3-8B")
    bare = engine_setup(load_hardware("h100"), engine, None, None)
    usual, stated = (
        in_server(model, bare, ServerSettings(overlap=overlap), version=version)
        for overlap in (None, True)
    )
    for kind in (*waiting, other):
        drafter = load_drafter(kind)
        assert waits_for_host(usual, drafter) is (kind in waiting)
        assert not waits_for_host(stated, drafter)


def test_look_ups_have_the_rounds_that_were_measured() -> None:
    # Figure 4 of arXiv:2601.11580, vLLM 0.10.1: the engine takes as much of rounds of n-grams as of
    # plain steps. Of SGLang no such figure is known. vLLM 0.33.0 runs suffix trees alone in the
    # model runner whose scheduler waits (config/vllm.py).
    said: dict[str, bool] = {}

    def added_s(engine: str, kind: str = "ngram", overlap: bool | None = None) -> list[float]:
        curve = curve_with(engine, overlap, f"{kind},match=0.4,round-s=1e-4")
        told = any("scheduled synchronously" in one for one in curve.notes)
        said[f"{engine} {kind} {overlap}"] = told
        rest = curve.round_s - curve.verify_s - curve.draft_s
        return [float(one) for one in rest[0, :, 3]]

    none = pytest.approx([0, 0], abs=1e-15)
    vllm = load_hardware("h100").engine("vllm")
    host_s = [vllm.host_s + one * vllm.host_sequence_s for one in (1, 32)]
    assert added_s("vllm") == none
    assert added_s("vllm", "suffix") == pytest.approx(host_s)
    assert added_s("vllm", "suffix", overlap=False) == none  # every pass waits
    assert added_s("vllm", "suffix", overlap=True) == none
    sglang = load_hardware("h100").engine("sglang")
    each_s = [sglang.round_overhead_s + one * sglang.round_sequence_overhead_s for one in (1, 32)]
    assert added_s("sglang") == pytest.approx(each_s)
    assert [name for name, told in said.items() if told] == ["vllm suffix None"]
    assert load_hardware("mi250x").engine("generic").lookup_round_frac == 1.0
    assert load_hardware("mi250x").engine("vllm").lookup_round_frac == 0.0
    assert load_hardware("h100").engine("tensorrt-llm").lookup_round_frac == 1.0


def test_the_host_of_vllm_takes_the_printed_shares() -> None:
    # The same figure, Llama-3.1-8B: engine and verification of a step, and the simulator's seconds
    # of a pass with 213 positions a request (130 of the prompt, half of 166 of the answer).
    engine = load_hardware("h100").engine("vllm")
    for requests, engine_share, pass_share in ((1, 0.139, 0.854), (512, 0.077, 0.922)):
        pass_s = 5.8859e-3 + 2.101e-5 * requests + 3.9265e-8 * 213 * requests
        host_s = engine.host_s + requests * engine.host_sequence_s
        assert host_s == pytest.approx(engine_share / pass_share * pass_s, rel=0.13), requests


def test_captured_sizes_are_in_the_unit_of_the_framework() -> None:
    for engine, largest, unit in (("sglang", 20, "sequences"), ("vllm", 16, "tokens")):
        before, after = told(engine, capture=20)
        assert after.engine.graphs is not None
        assert (after.engine.graphs.sizes[-1], after.engine.graphs.counts) == (largest, unit)
        assert after.engine.graphs.eager_kernel_s == present(before.engine.graphs).eager_kernel_s
        assert replace(after.engine, graphs=present(before.engine.graphs)) == before.engine
    # The textbook captures nothing, and a framework whose sizes are not known keeps its own.
    for engine in ("ideal", "tensorrt-llm"):
        before, after = told(engine, capture=20)
        assert after.engine == before.engine
    _, none = told("sglang", capture=0)
    assert present(none.engine.graphs).sizes == ()


@given(
    chip=st.sampled_from(
        ["h100", "b200", "a100-80gb", "l40s", "t4", "mi300x", "gaudi3", "tpu-v5e"]
    ),
    engine=st.sampled_from(["vllm", "sglang", "generic", "tensorrt-llm", "ideal"]),
    devices=st.sampled_from([1, 4]),
    running=st.sampled_from([None, 16]),
)
def test_to_state_a_printed_default_changes_nothing(
    chip: str, engine: str, devices: int, running: int | None
) -> None:
    model = load_model("Qwen/Qwen3-8B")
    bare = engine_setup(load_hardware(chip), engine, Placement(devices), None)
    default = in_server(model, bare, ServerSettings(running=running))
    printed = {name: getattr(present(default.server), name) for name in SERVER_KEYS.values()}
    assert in_server(model, bare, ServerSettings(**printed)).engine == default.engine
    graphs = default.engine.graphs
    if bare.engine.rules in {"vllm", "sglang"}:
        assert graphs is not None
        assert graphs.sizes[-1] == present(default.server).capture


@pytest.mark.parametrize(
    ("chip", "engine", "devices", "most"), rows("values", "captured_by_default")
)
def test_beyond_what_is_captured_by_default_kernels_are_launched_one_by_one(
    chip: str, engine: str, devices: int, most: int
) -> None:
    model = load_model("Qwen/Qwen3-0.6B")
    setup = engine_setup(load_hardware(chip), engine, Placement(devices), None)
    setup = in_server(model, setup, ServerSettings())
    shape = model_work(model, setup, ForwardPass([most, most + 1], 1, 0)).shape
    assert np.asarray(shape.eager).tolist() == [False, True]


def test_bands_reach_down_to_passes_whose_launches_nobody_timed() -> None:
    # A step of a pass more than graphs hold cannot be surer than one that they hold: 20.9 ms at
    # 512, and 120 at 513, where what the device works is the same to 1 in 512.
    model, b200 = load_model("deepseek-ai/DeepSeek-V4-Flash"), load_hardware("b200")

    def curve(engine: str, *batches: int) -> SpeedupCurve:
        setup = engine_setup(b200, engine, Placement(8), None)
        setup = in_server(model, setup, ServerSettings())
        drafter, law = load_drafter("mtp,accept=0.8"), constant_acceptance(0.8)
        where = Deployment(model, setup)
        return decoding_curve(where, drafter, law, batches, context_len=4096, max_draft_len=8)

    found = curve("sglang", 512, 513)
    assert found.decode_s[0, 1] > 5 * found.decode_s[0, 0]
    ends = present(
        found.figure_ends("tpot_s", found.round_s / found.tokens_per_round, per_speedup=-1)
    )
    rates = present(found.rate_ends)
    for low in (ends[0], 1 / rates[1], present(found.speedup_low)):
        np.testing.assert_allclose(low[0, 1], low[0, 0], rtol=0.01)
    # The other end is around what is priced, as of a pass whose launches were timed.
    for high, middle in ((present(found.speedup_high), found.speedup), (ends[1], found.round_s)):
        np.testing.assert_allclose(high[0, 1] / high[0, 0], middle[0, 1] / middle[0, 0], rtol=0.01)
    assert present(found.verdict).tolist() == [["unclear", "unclear"]]
    # Launches of vLLM were timed, and graphs hold a pass of 1 024 tokens.
    assert np.all(curve("vllm", 512, 2000).launched == 1)


def test_an_engine_without_sizes_gets_those_that_were_stated() -> None:
    bare = Setup(load_hardware("h100"), EngineProfile(name="sglang"), Placement(), Options())
    graphs = in_server(load_model("Qwen/Qwen3-8B"), bare, ServerSettings(capture=2)).engine.graphs
    assert graphs == CapturedGraphs(sizes=(1, 2), counts="sequences")


def test_a_default_limit_on_running_requests_is_raised_and_a_stated_one_holds() -> None:
    words: dict[str, Any] = {"drafters": ["eagle3,accept=0.6"], "batch_size": [64]}
    words |= {"engine": "sglang"}
    found = predict("Qwen/Qwen3-8B", "h100", **words)
    assert np.isfinite(found.curves[0].round_s[0, 0, 1])
    assert [one for one in found.notes if one.startswith("raised limit: --server running=64")]
    told = predict("Qwen/Qwen3-8B", "h100", **words, server={"running": 32})
    assert any("with 1 draft of eagle3,accept=0.6 (running)" in one for one in told.warnings)
    assert not [one for one in told.notes if "--server running=" in one]


@pytest.mark.parametrize(("server", "groups", "clients", "told"), rows("values", "raised_limits"))
def test_a_limit_is_what_the_flag_of_its_server_counts(
    server: str, groups: int, clients: int, told: int | None
) -> None:
    where: dict[str, Any] = {"tensor_parallel": 8, "attention_data_parallel": 8}
    where |= {"framework": server, "drafters": ["mtp,accept-length=1.9@1"]}
    stated = capacity("deepseek-ai/DeepSeek-V3", "b200", **where, server={"running": 64})
    assert {row.largest_batch for row in stated.rows} == {64 * groups}
    found = predict("deepseek-ai/DeepSeek-V3", "b200", **where, batch_size=[clients], context_len=9)
    raised = [note for note in found.notes if "--server running=" in note]
    assert [f"running={told} at" in note for note in raised] == [True] * (told is not None)


@pytest.mark.parametrize(("ranks", "shared"), [(1, 1), (4, 1), (4, 4)])
def test_a_limit_is_raised_to_the_most_that_memory_holds(ranks: int, shared: int) -> None:
    # Each request that may run takes half of what one that runs does: plain 100 - m / 2 >= m up to
    # 66, and 60 - m / 2 with drafts up to 40. Defaults of 16 and 8 for each rank, and 600 at most.
    def held(told: int | None) -> Any:
        limit = (told or 8 * shared) // shared
        memory = np.array([[100.0, 60.0, 50.0]]) - 0.5 * limit
        limits = np.array([[limit if told else 16, limit, limit]])
        largest = ranks * np.minimum(limits, np.floor(memory))

        def raised(batch: float, lengths: slice) -> int | None:
            binds = (largest[:, lengths] < batch).any()
            return min(math.ceil(batch / ranks), 600) * shared if binds else None

        need, server = (
            SimpleNamespace(ranks=ranks, limit_ranks=shared),
            SimpleNamespace(running=8 * shared),
        )
        side = SimpleNamespace(need=need, server=server)
        return SimpleNamespace(
            largest=largest, raised_running=raised, most_told=600 * shared, drafting=side
        )

    loads = [2 * ranks * each for each in (8, 9, 30, 64, 1000)]  # of two servers
    told: Any = [(None, None), (None, 9), (30, 30), (64, 40), (66, 40)]
    powers: Any = [(None, None), (None, 16), (32, 32), (64, 64), (600, 600)]
    for room, many, limits in (("queue", 1, told), ("drop", 1, powers), ("queue", 13, powers)):
        found = raised_limits(loads * many, room, held, servers=2)  # type: ignore[arg-type]
        assert found == [tuple(one and one * shared for one in pair) for pair in limits] * many
    for most in range(17, 100):
        (pair,) = raised_limits([2 * ranks * most], "queue", held, 2)
        assert pair == (min(most, 66) * shared, min(most, 40) * shared)
    assert raised_limits(loads[:1], "queue", held, 2) == [(None, None)]
    assert raised_limits([2 * ranks * 30] * 64, "queue", held, 2) == [(30 * shared,) * 2] * 64


# --- what servers and results say -----------------------------------------------------------------


def facts(**changes: Any) -> ServerFacts:
    return server_facts(server_info(**changes), source="page")


def test_sglang_says_how_it_was_launched() -> None:
    found = facts()
    assert found.launched is not None
    assert found.launched.method == "EAGLE3"
    degrees: dict[str, Any] = dict.fromkeys(
        ("tensor_parallel", "expert_parallel", "attention_data_parallel", "pipeline_parallel"), 1
    )
    # 48 in its arguments, and room for 4 by its scheduler.
    settings = ServerSettings(
        memory_frac=0.85, running=4, overlap=True, chunk=8192, mixed=False, prefix_cache=True
    )
    whose: dict[str, Any] = {"framework": "sglang", "version": "0.5.23"}
    whose |= {"model_path": "Qwen/Qwen3-8B", "settings": settings, "steps": 3, "verified": 4}
    assert replace(found, launched=None) == ServerFacts(**whose, **degrees)


@pytest.mark.parametrize(("changes", "says"), rows("results", "server_infos"))
def test_what_sglang_says_is_read_by_key(changes: dict[str, Any], says: dict[str, Any]) -> None:
    found = facts(**changes)
    assert {field: attrgetter(field)(found) for field in says} == says


def test_what_vllm_says() -> None:
    models = {"object": "list", "data": [{"id": "prod", "root": "/models/a"}, {"id": "lora"}]}
    found = server_facts(json.dumps(models), source="page")
    assert found == ServerFacts(roots={"prod": "/models/a"})
    release = server_facts('{"version": "0.33.0"}', source="page")
    assert release == ServerFacts(framework="vllm", version="0.33.0")
    labels = {
        "block_size": "16", "cache_dtype": "fp8_e5m2", "enable_prefix_caching": "False",
        "gpu_memory_utilization": "0.92",
    }  # fmt: skip
    settings = ServerSettings(memory_frac=0.92, prefix_cache=False)
    assert cache_facts(labels, source="page") == ServerFacts(settings=settings, kv_dtype="fp8")
    for nothing in ({"block_size": "16"}, {"cache_dtype": "auto"}):
        assert cache_facts(nothing, source="page") == ServerFacts()


def test_of_two_pages_that_say_the_same_the_first_counts() -> None:
    pages = [ServerFacts(version="1"), ServerFacts(version="2", steps=3), ServerFacts(steps=4)]
    assert all_facts(pages) == ServerFacts(version="1", steps=3)
    assert all_facts([]) == ServerFacts()


def result(**server: Any) -> Measurement:
    figures = {
        "backend": "sglang", "max_concurrency": 4, "completed": 16, "duration": 10.0,
        "total_input_tokens": 1600, "total_output_tokens": 1600, "output_throughput": 160.0,
        "server_info": {"tp_size": 1, **server},
    }  # fmt: skip
    (point,) = read_benchmark(json.dumps(figures), source="bench.jsonl")
    return point


def test_results_say_what_their_server_was_told() -> None:
    told = {
        "mem_fraction_static": 0.83, "max_running_requests": 48, "disable_overlap_schedule": True,
        "chunked_prefill_size": -1, "enable_mixed_chunk": False, "disable_radix_cache": True,
    }  # fmt: skip
    first, second = result(**told), result(**told | {"chunked_prefill_size": 2048})
    stated = ServerSettings(
        memory_frac=0.83, running=48, overlap=False, chunk=0, mixed=False, prefix_cache=False
    )
    assert first.server == stated
    assert second.server == replace(stated, chunk=2048)
    silent = result()
    assert silent.server is None
    # What all say that say anything, and what was asked for where they say nothing.
    asked = ServerSettings(capture=64, overlap=False)
    agreed = replace(stated, chunk=None, capture=64)
    assert server_told([first, second, silent], asked) == agreed
    # SGLang's first speculation: a plain result and one with drafts say what each server did.
    plain = result(disable_overlap_schedule=False)
    drafting = result(
        disable_overlap_schedule=True, speculative_algorithm="EAGLE3",
        speculative_num_draft_tokens=4, speculative_num_steps=3, speculative_eagle_topk=1,
    )  # fmt: skip
    assert drafting.draft_len == 3
    for asked in (ServerSettings(), ServerSettings(overlap="plain")):
        assert server_told([plain, drafting], asked) == ServerSettings(overlap="plain")
        assert server_told([drafting], asked).overlap == (asked.overlap or False)
    # Only what drafts is limited to 48: the plain server states other settings, and no limit.
    few = result(
        max_running_requests=48, speculative_algorithm="NGRAM", speculative_num_draft_tokens=4
    )
    assert server_told([plain, few], ServerSettings()).running is None
    assert server_told([few], ServerSettings()).running == 48
    with pytest.raises(MeasurementError, match="server states overlap plain"):
        server_told([first], ServerSettings(overlap="plain"))
    said = "overlap False, and server states overlap True; allowed: the same, or to leave overlap"
    with pytest.raises(MeasurementError, match=said):
        server_told([silent, first], ServerSettings(overlap=True))
