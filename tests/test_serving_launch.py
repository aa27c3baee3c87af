"""The flags that start a server; `benchmarks/engine_definitions.py` reads the engines' own."""

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specroof import OptionError, advise, load_drafter, load_hardware, load_model
from specroof.cost import Options
from specroof.drafters import KINDS
from specroof.frameworks import FRAMEWORKS
from specroof.hardware.engine import ServerSettings
from specroof.hardware.profile import Placement
from specroof.latency.setup import Setup, engine_setup
from specroof.questions.request import DeploymentRequest
from specroof.questions.speculation import speculation_of
from specroof.serving.capacity import in_server
from specroof.serving.launch import (
    YOUR_DRAFT_MODEL,
    Launch,
    Speculation,
    follows_load,
    launch,
    server_command,
)
from tables import reads, refusal, rows

VLLM_FIELDS, VLLM_METHODS, VLLM_SETTINGS, VLLM_SERVER, SGLANG_FLAGS, SGLANG_SERVER = (
    {*rows("launch", part)}
    for part in (
        *("vllm_fields", "vllm_methods", "vllm_settings", "vllm_server"),
        *("sglang_flags", "sglang_server"),
    )
)


def planned(kind: str, **more: object) -> Speculation:
    given = {"schedule": ((1, 256, 3),), "draft_model": "me/head", **more}
    return Speculation(kind=kind, **given)  # type: ignore[arg-type]


def vllm_config(plan: Speculation) -> dict[str, object]:
    words = shlex.split(launch(plan, "vllm").text)
    assert words[0] == "--speculative-config"
    config: dict[str, object] = json.loads(words[1])
    return config


def sglang_flags(plan: Speculation) -> dict[str, str]:
    words = shlex.split(launch(plan, "sglang").text)
    named = [index for index, word in enumerate(words) if word.startswith("--")]
    return {
        words[index]: " ".join(words[index + 1 : after])
        for index, after in zip(named, [*named[1:], len(words)], strict=True)
    }


def tensorrt_keys(plan: Speculation) -> dict[str, Any]:
    found = launch(plan, "tensorrt-llm")
    (name,) = found.files
    assert found.text == f"--extra_llm_api_options {name}"
    keys: dict[str, Any] = yaml.safe_load(found.files[name])
    return keys


def priced_kinds(framework: str) -> list[str]:
    kinds = []
    for kind in KINDS:
        try:
            launch(planned(kind), framework)
        except OptionError:
            continue
        kinds.append(kind)
    return kinds


# --- which kinds ----------------------------------------------------------------------------------


def test_each_engine_has_the_kinds_that_it_runs() -> None:
    every = {*KINDS} - {"ideal", "autoregressive", "block"}
    assert every - {*priced_kinds("vllm")} == {"medusa"}
    assert every - {*priced_kinds("sglang")} == {"medusa", "p_eagle", "pard", "suffix"}
    assert {"mtp", "eagle3"} <= {*priced_kinds("tensorrt-llm")}


@pytest.mark.parametrize(("kind", "shape", "framework", "says"), rows("launch", "refused"))
def test_what_an_engine_does_not_run_is_refused(
    kind: str, shape: dict[str, Any], framework: str, says: str
) -> None:
    if "schedule" in shape:
        shape = shape | {"schedule": tuple(map(tuple, shape["schedule"]))}
    shape = shape | {"kernels": frozenset(shape.get("kernels", ()))}
    shape = shape | {"settings": ServerSettings(**shape.get("settings", {}))}
    line = refusal(OptionError, lambda: launch(planned(kind, **shape), framework))
    assert reads(line, f"…{says}…"), line


@pytest.mark.parametrize("kind", ["model", "pard"])
def test_a_draft_model_of_another_vocabulary_is_refused(kind: str) -> None:
    # config/speculative.py: verify_equal_vocab_size_if_draft_model, whatever drafts in parallel
    drafter, model = (
        load_drafter(f"{kind},accept=0.7,config=Qwen/Qwen3-0.6B"),
        "MiniMaxAI/MiniMax-M2",
    )
    plan = speculation_of(drafter, load_model(model), ((1, 8, 3),), "me/small")
    line = refusal(OptionError, lambda: launch(plan, "vllm"))
    assert reads(line, "…no draft model of 151936 tokens beside a model of 200064…")


def test_vllm_drafts_up_to_the_modules_of_a_checkpoint_or_a_multiple() -> None:
    # config/speculative.py: "num_speculative_tokens must be divisible by n_predict" beyond it
    five, seven, twelve, fourteen = (
        planned("mtp", draft_model=None, modules=7, schedule=((1, 8, drafts),))
        for drafts in (5, 7, 12, 14)
    )
    for plan, server in (
        (five, "vllm@0.19"), (seven, "vllm"), (fourteen, "vllm@0.24"), (twelve, "sglang"),
    ):  # fmt: skip
        assert launch(plan, server).text
    for server in ("vllm", "vllm@0.24", "vllm@0.19"):
        assert "up to 7, or a multiple" in refusal(OptionError, launch, twelve, server)
    # A drafter known to 8 drafts runs there, though not with 8.
    request = DeploymentRequest("MiniMaxAI/MiniMax-M3", "b200", framework="vllm")
    assert not request.refusal(load_drafter(f"mtp,rates={'/'.join(['.9'] * 8)}"))


def test_trees_run_in_sglang_alone() -> None:
    flags = sglang_flags(planned("eagle3", is_tree=True, top_k=4, nodes=24, schedule=((1, 8, 5),)))
    assert flags["--speculative-num-steps"] == "5"
    assert flags["--speculative-eagle-topk"] == "4"
    assert flags["--speculative-num-draft-tokens"] == "25"  # the root counts
    # gpt_oss.py: fa3 on Hopper, which reads trees
    on_hopper = planned("eagle3", family="gpt_oss", capability=9, is_tree=True, top_k=4, nodes=16)
    assert sglang_flags(on_hopper)["--speculative-eagle-topk"] == "4"


# --- each engine's own counting -------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "vllm", "sglang"), rows("launch", "counting"))
def test_vllm_counts_drafts_and_sglang_the_root_but_for_dspark(
    kind: str, vllm: dict[str, Any], sglang: dict[str, str | None] | None
) -> None:
    config = vllm_config(planned(kind))
    assert {key: config.get(key) for key in vllm} == vllm
    assert config["num_speculative_tokens"] == 3
    if sglang is not None:
        flags = sglang_flags(planned(kind))
        assert {key: flags.get(f"--speculative-{key}") for key in sglang} == sglang


def test_tensorrt_llm_counts_drafts_of_mtp_in_layers() -> None:
    # backend_templates/trtllm/extra_engine_args.*.yaml.j2 of aiconfigurator 0.12.0.
    mtp, eagle = (
        tensorrt_keys(planned(kind, draft_model=weights))["speculative_config"]
        for kind, weights in (("mtp", None), ("eagle3", "me/head"))
    )
    assert mtp == {"decoding_type": "MTP", "max_draft_len": 3, "num_nextn_predict_layers": 3}
    assert "num_nextn_predict_layers" not in eagle


@pytest.mark.parametrize(("kind", "shape", "weights"), rows("launch", "named_weights"))
def test_drafters_without_weights_or_in_the_checkpoint_name_none(
    kind: str, shape: dict[str, Any], weights: str | None
) -> None:
    plan = planned(kind, **shape)
    assert vllm_config(plan).get("model") == weights
    assert sglang_flags(plan).get("--speculative-draft-model-path") == weights
    assert launch(plan, "vllm").notes == ()


MTP_FAMILIES = rows("launch", "mtp_families")


@pytest.mark.parametrize("family", MTP_FAMILIES)
def test_mtp_is_refused_where_an_engine_loads_no_layers_of_the_family(family: str) -> None:
    plan = planned("mtp", draft_model=None, family=family)
    for framework, known in zip(("vllm", "sglang"), MTP_FAMILIES[family], strict=True):
        if known is None:
            with pytest.raises(OptionError, match=f"no mtp for models of the family {family}"):
                launch(plan, framework)
        else:
            assert launch(plan, framework).text


@pytest.mark.parametrize(("framework", "kind", "runs", "lacks"), rows("launch", "hidden_states"))
def test_models_that_hand_on_no_hidden_states_have_no_drafter_of_them(
    framework: str, kind: str, runs: str, lacks: str
) -> None:
    assert launch(planned(kind, family=runs), framework).text
    with pytest.raises(OptionError, match=f"no {kind} for models of the family {lacks}"):
        launch(planned(kind, family=lacks), framework)


@pytest.mark.parametrize(("framework", "most"), rows("launch", "vocabulary_padding").items())
def test_a_draft_model_needs_the_vocabulary_of_the_model(framework: str, most: int) -> None:
    for apart in (0, 128, 129, 248_320 - 151_936):
        for sizes in ((151_936, 151_936 + apart), (151_936 + apart, 151_936)):
            plan = planned("model", vocab_sizes=sizes)
            if apart <= most:
                assert launch(plan, framework).notes is not None
            else:
                with pytest.raises(OptionError, match="runs no draft model"):
                    launch(plan, framework)


@pytest.mark.parametrize(("framework", "kind", "families"), rows("launch", "draft_families"))
def test_a_draft_model_of_a_family_that_is_not_read_as_its_layers_for_mtp_runs(
    framework: str, kind: str, families: list[str]
) -> None:
    for family in families:
        assert launch(planned(kind, draft_family=family), framework).text


# mlx_lm/server.py trims the cache of a draft model's target, which states cannot be; Qwen3 has a
# vocabulary of 151 936, Qwen3.5 of 248 320.
@pytest.mark.parametrize(("target", "small", "runs"), rows("launch", "draft_models"))
def test_a_draft_model_is_held_against_its_target(target: str, small: str, runs: list[str]) -> None:
    drafter = load_drafter(f"model,config={small},accept=0.7")
    plan = speculation_of(drafter, load_model(target), [(1, 1, 3)], small)
    for framework in ("llama.cpp", "mlx", "vllm", "sglang"):
        if framework in runs:
            assert small in launch(plan, framework).text
        else:
            with pytest.raises(OptionError, match=r"draft model|drafts for no model"):
                launch(plan, framework)


# sglang speculative/eagle_worker_v2.py: "requires the draft and target to share one vocab"; the
# usual head of EAGLE-3 proposes 32 000 tokens, of the 151 936 of Qwen3.
@pytest.mark.parametrize(("framework", "spec", "told"), rows("launch", "sampling_vocabularies"))
def test_a_rule_is_told_to_heads_with_the_vocabulary_that_it_needs(
    framework: str, spec: str, told: bool
) -> None:
    drafter = load_drafter(f"{spec},accept=0.7,temperature=1,rule=rejection")
    plan = speculation_of(drafter, load_model("Qwen/Qwen3-8B"), [(1, 1, 3)], "me/head")
    found = launch(plan, framework)
    assert ("use-rejection" in found.text or "probabilistic" in found.text) is told
    assert any("rule=rejection" in note for note in found.notes) is not told


@pytest.mark.parametrize(("framework", "cache", "word"), rows("launch", "caches"))
def test_a_cache_is_told_in_words_that_the_server_knows_or_said(
    framework: str, cache: str, word: str | None
) -> None:
    found = launch(planned("model", kv_cache=cache), framework)
    command = server_command(framework, "m", Placement(), kv_cache=cache) or ""
    told = (command + "".join(found.files.values())).replace('"', "")
    assert (f" {word}" in told) == ("cache" in told) == (word is not None)
    assert any(f"kv-cache={cache}" in note for note in found.notes) == (word is None)


@pytest.mark.parametrize(("family", "told"), rows("launch", "code_of_checkpoints"))
def test_code_of_a_checkpoint_is_run_where_its_config_needs_it(
    family: str, told: list[str]
) -> None:
    for framework in ("vllm", "sglang", "tensorrt-llm", "mlx"):
        command = server_command(framework, "m", Placement(), family=family)
        assert ("--trust-remote-code" in command) == (framework in told)


def test_the_printed_command_of_a_model_runs_its_code() -> None:
    asked: dict[str, Any] = {"input_len": 1000, "output_len": 100, "concurrency": 4}
    answer = advise("XiaomiMiMo/MiMo-7B-Base", "h100", drafters="mtp,accept=0.8", **asked)
    page = answer.text().replace("\\\n", " ").splitlines()
    commands = [line for line in page if "--model-path" in line or "vllm serve" in line]
    assert ["--trust-remote-code" in command for command in commands] == [True, True]


def test_vllm_drafts_a_dspark_block_whole() -> None:
    short = vllm_config(planned("dspark", block=7))
    assert short["num_speculative_tokens"] == 7
    assert short["num_speculative_tokens_per_batch_size"] == [[1, 256, 3]]
    whole = vllm_config(planned("dspark", block=7, schedule=((1, 8, 7),)))
    assert "num_speculative_tokens_per_batch_size" not in whole
    block = planned("dspark", block=7, data_parallel=2, schedule=((1, 8, 7), (9, 64, 0)))
    assert "7 drafts always" in launch(block, "vllm").notes[0]
    assert vllm_config(planned("dflash", block=15))["num_speculative_tokens"] == 3
    assert sglang_flags(planned("dspark", block=7))["--speculative-dspark-block-size"] == "3"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_weights_that_nobody_named_are_left_to_fill_in(framework: str) -> None:
    found = launch(planned("eagle3", draft_model=None), framework)
    assert YOUR_DRAFT_MODEL in found.text + "".join(found.files.values())
    assert YOUR_DRAFT_MODEL in found.notes[0]


def test_llama_cpp_reads_weights_on_the_hub_or_in_a_file() -> None:
    for flag, weights in (("hf", "me/head:Q4_K_M"), ("model", "me/head"), ("model", "a:head.gguf")):
        text = launch(planned("eagle3", draft_model=weights), "llama.cpp").text
        assert f"--spec-draft-{flag} {weights}" in text


def told(framework: str, **settings: Any) -> tuple[str, tuple[str, ...]]:
    found = launch(planned("mtp", draft_model=None, settings=ServerSettings(**settings)), framework)
    plain = launch(planned("mtp", draft_model=None), framework)
    return found.text.removeprefix(plain.text).strip(), found.notes


@pytest.mark.parametrize(("settings", "vllm", "sglang"), rows("launch", "settings"))
def test_each_setting_is_told_or_said(
    settings: dict[str, Any], vllm: str | None, sglang: str
) -> None:
    assert told("sglang", **settings) == (sglang, ())
    words, notes = told("vllm", **settings)
    assert words == (vllm or "")
    assert len(notes) == (vllm is None)
    assert all("known for mixed=off" in note for note in notes)


def test_tensorrt_llm_is_told_in_its_file() -> None:
    settings = ServerSettings(
        running=96, memory_frac=0.85, capture=64, overlap=False, chunk=2048, prefix_cache=False
    )
    plan = planned("eagle3", settings=settings, data_parallel=2, kv_cache="fp8")
    keys = tensorrt_keys(plan)
    assert keys.pop("speculative_config")["speculative_model"] == "me/head"
    assert keys == rows("launch", "tensorrt_file")
    none = ServerSettings(capture=0, chunk=0, mixed=True, state_dtype="fp32")
    found = launch(planned("eagle3", settings=none), "tensorrt-llm")
    keys = tensorrt_keys(planned("eagle3", settings=none))
    assert keys["cuda_graph_config"] is None
    assert (keys["enable_chunked_prefill"], "max_num_tokens" in keys) == (False, False)
    assert [note.partition("known for ")[2].partition(":")[0] for note in found.notes[:2]] == [
        "mixed=on",
        "state-dtype=fp32",
    ]
    assert [*tensorrt_keys(planned("eagle3"))] == ["speculative_config"]


def test_drafters_that_run_in_groups_are_told_where_their_head_needs_it() -> None:
    assert launch(planned("eagle3", data_parallel=2), "sglang").notes == ()
    for kind, needs in {"dflash": True, "dspark": True, "eagle3": False}.items():
        assert ("--enable-dp-lm-head" in sglang_flags(planned(kind, data_parallel=2))) is needs
        assert "--enable-dp-lm-head" not in sglang_flags(planned(kind))


@pytest.mark.parametrize(
    ("framework", "model", "degrees", "formats", "command"), rows("launch", "spread_commands")
)
def test_commands_carry_placement_and_formats(
    framework: str, model: str, degrees: list[int], formats: dict[str, str], command: str
) -> None:
    assert server_command(framework, model, Placement(*degrees), **formats) == command  # type: ignore[arg-type]


@pytest.mark.parametrize("framework", ["vllm", "sglang", "sglang@0.5.14"])
@pytest.mark.parametrize(("name", "is_made"), rows("launch", "made_weights").items())
def test_weights_are_made_of_checkpoints_that_are_plain(
    framework: str, name: str, is_made: bool
) -> None:
    model, drafter = load_model(name), load_drafter("ngram,accept=0.5")
    plan = speculation_of(drafter, model, [(1, 1, 3)], None, weight_dtype="fp8")
    command = server_command(
        framework, name, Placement(), weights="fp8", quantization=model.quantization
    )
    assert ("--quantization fp8" in command) is is_made
    is_said = any("serve a checkpoint" in note for note in launch(plan, framework).notes)
    assert is_said is not is_made


@pytest.mark.parametrize(
    ("name", "framework", "weights", "too_old", "runs"), rows("launch", "chip_limits")
)
def test_a_chip_that_a_release_does_not_run_the_checkpoint_on_is_refused(
    name: str, framework: str, weights: str | None, too_old: float, runs: float
) -> None:
    model, (server, _, version) = load_model(name), framework.partition("@")
    options = Options(kv_dtype="fp8") if weights == "fp8 cache" else Options(weight_dtype=weights)

    def setup_on(capability: float | None) -> Setup:
        chip = replace(load_hardware("a100"), compute_capability=capability)
        setup = engine_setup(chip, server, None, options)
        return in_server(model, setup, ServerSettings(), version)

    with pytest.raises(OptionError, match=f"on no chip of compute capability {too_old:g}"):
        setup_on(too_old)
    assert {setup_on(chip).engine.rules for chip in (runs, None)} == {server}


@pytest.mark.parametrize(
    ("name", "framework", "starts", "refuses"), rows("launch", "started_chips")
)
def test_no_command_is_printed_for_a_chip_that_a_release_starts_a_checkpoint_on_not(
    name: str, framework: str, starts: str, refuses: str | None
) -> None:
    asked: dict[str, Any] = {"drafters": "ngram,accept=0.9", "framework": framework}
    loads: dict[str, Any] = {"input_len": 1000, "output_len": 100, "concurrency": 1, "steady": True}
    for chip in (starts, refuses):
        if chip is not None:
            found = advise(name, chip, tensor_parallel=4, **asked, **loads).chips[0]
            assert bool(found.launches) == (chip == starts)
            assert bool(found.refused) == (chip == refuses)


@pytest.mark.parametrize(
    ("place", "lacks", "family", "releases", "refusing"), rows("launch", "placed_families")
)
def test_sglang_runs_families_in_the_stages_and_groups_that_its_release_has(
    place: dict[str, int], lacks: str, family: str, releases: list[str], refusing: list[str]
) -> None:
    model = replace(load_model("Qwen/Qwen3-8B"), family=family)
    setup = engine_setup(load_hardware("h200"), "sglang", Placement(**place), None)
    for version in releases:
        if version in refusing:
            with pytest.raises(OptionError, match=f"no {lacks} for models of the family {family}"):
                in_server(model, setup, ServerSettings(), version)
        else:
            in_server(model, setup, ServerSettings(), version)


@pytest.mark.parametrize(
    ("model", "chip", "devices", "weights", "told"), rows("launch", "servers_of_chips")
)
def test_servers_that_run_a_model_on_a_chip_are_told_alone(
    model: str, chip: str, devices: int, weights: str | None, told: list[str]
) -> None:
    answer = advise(
        model, chip, drafters="ngram,accept=0.5", tensor_parallel=devices, concurrency=1,
        input_len=500, output_len=500, options={"weight_dtype": weights},
    )  # fmt: skip
    assert [flags.framework for flags in answer.chips[0].launches] == told


# --- schedules ------------------------------------------------------------------------------------

SCHEDULE = ((1, 16, 5), (17, 64, 2), (65, 256, 0))


def vllm_drafts(schedule: list[list[int]], batch: int) -> int:
    return [drafts for first, _, drafts in schedule if first <= batch][-1]


def sglang_steps(slots: dict[str, dict[str, list[int]]], batch: int) -> int:
    """Return the steps at a batch, by sglang 0.5.23's rule: the largest key not above it."""
    (steps,) = slots[str(max(key for key in map(int, slots) if key <= batch))]["candidate_steps"]
    return steps


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9)), min_size=1, max_size=6))
def test_schedules_give_every_batch_its_drafts(steps: list[tuple[int, int]]) -> None:
    schedule, first = [], 1
    for width, drafts in steps:
        schedule.append((first, first + width - 1, drafts))
        first += width
    if not any(drafts for _, _, drafts in schedule):
        return
    plan = planned("eagle3", schedule=tuple(schedule))
    table = vllm_config(plan).get("num_speculative_tokens_per_batch_size", [[1, 1, plan.drafts]])
    files = launch(plan, "sglang").files
    differs = len({drafts for _, _, drafts in schedule}) > 1  # else there is nothing to follow
    assert ("num_speculative_tokens_per_batch_size" in vllm_config(plan)) is differs
    assert bool(files) is differs is plan.differs
    slots = (
        json.loads(files["adaptive.json"]) if files else {"1": {"candidate_steps": [plan.drafts]}}
    )
    for low, high, drafts in schedule:
        for batch in (low, high):
            assert vllm_drafts(table, batch) == drafts  # type: ignore[arg-type]
            assert sglang_steps(slots, batch) == drafts


@pytest.mark.parametrize(("kind", "shape", "framework", "said"), rows("launch", "unfollowed"))
def test_what_cannot_follow_a_schedule_says_so(
    kind: str, shape: dict[str, Any], framework: str, said: str
) -> None:
    found = launch(planned(kind, **{"schedule": SCHEDULE, **shape}), framework)
    assert said in " ".join(found.notes)
    assert "num_speculative_tokens_per_batch_size" not in found.text


def test_a_schedule_costs_what_an_engine_makes_of_it() -> None:
    # target_dependent_ar/speculator.py: with no drafts the first pass runs, and samples none
    pause, block = launch(planned("dflash", schedule=SCHEDULE), "vllm").notes
    assert "reads each token all the same" in pause
    assert "whole block" in block
    assert launch(planned("eagle3", schedule=SCHEDULE), "vllm").notes == (pause,)
    silent = planned("eagle3", schedule=SCHEDULE[:2]), planned("ngram", schedule=SCHEDULE)
    for plan in (*silent, planned("dflash"), planned("pard")):
        assert launch(plan, "vllm").notes == ()
    told = launch(planned("eagle3", schedule=SCHEDULE), "tensorrt-llm")
    assert told.files["speculation.yaml"].endswith("max_concurrency: 64\n")
    assert "5 drafts up to 64 requests here" in told.notes[0]
    never_off = launch(planned("mtp", schedule=((1, 8, 5), (9, 16, 2))), "tensorrt-llm")
    assert "max_concurrency" not in never_off.files["speculation.yaml"]


# --- lists that `benchmarks/engine_definitions.py` looks up in the engines ------------------------


EVERY_SETTING = ServerSettings(
    running=64, memory_frac=0.9, capture=32, overlap=False, chunk=4096, mixed=True,
    state_dtype="bf16", prefix_cache=False,
)  # fmt: skip


def every_launch(framework: str) -> list[Launch]:
    plans = [
        planned(kind, schedule=schedule, settings=EVERY_SETTING)
        for kind in priced_kinds(framework)
        for schedule in (((1, 256, 3),), SCHEDULE)
    ]
    plans.append(planned("dflash", data_parallel=2))
    return [launch(plan, framework) for plan in plans]


def flags_of(text: str | None) -> set[str]:
    return {word for word in shlex.split(text or "") if word.startswith("--")}


def test_flags_are_those_of_the_stored_lists() -> None:
    configs = [json.loads(shlex.split(found.text)[1]) for found in every_launch("vllm")]
    assert {key for config in configs for key in config} == VLLM_FIELDS
    assert {config["method"] for config in configs} == VLLM_METHODS
    assert set().union(*(flags_of(one.text) for one in every_launch("sglang"))) == SGLANG_FLAGS
    assert flags_of(every_launch("vllm")[0].text) == {"--speculative-config", *VLLM_SETTINGS}
    for framework, flags in {"vllm": VLLM_SERVER, "sglang": SGLANG_SERVER}.items():
        words = server_command(framework, "m", Placement(8, 8, 4), weights="fp8", kv_cache="fp8")
        assert flags_of(words) == flags


@pytest.mark.parametrize(("kind", "shape", "follow"), rows("launch", "follow_load"))
def test_servers_that_follow_the_load_have_a_schedule(
    kind: str, shape: dict[str, Any], follow: list[str]
) -> None:
    assert {name for name in FRAMEWORKS if follows_load(kind, name, **shape)} == {*follow}
    for framework in FRAMEWORKS:
        plan = planned(kind, schedule=((1, 8, 5), (9, 64, 2)), top_k=2, nodes=8, **shape)
        try:
            flags = launch(plan, framework)
        except OptionError:
            assert framework in follow  # nothing runs there
            continue
        assert (framework in follow) == (
            "batch_size" in flags.text or bool("adaptive.json" in flags.files)
        )
