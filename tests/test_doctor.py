"""The question of a running server, from Python and from the shell."""

import json
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import specroof
from commands import refused, run
from server_pages import (
    SERVED,
    Life,
    give,
    line,
    ngram_page,
    replay,
    server_info,
    sglang_page,
    vllm_page,
    without_steps,
)
from specroof import MeasurementError, OptionError, doctor, predict, survival_acceptance
from specroof.acceptance import context_acceptance
from specroof.policies.decision import Change, Gain
from specroof.policies.schedule import drafts_at
from specroof.questions.doctor import Diagnosis, DoctorRequest, advice, gain_words
from tables import reads, refusal, rows

LIFE = Life(1000.0)
LATER = LIFE.at(1030.0)
CHIP = "h100"
#: EAGLE-3 with the acceptance that the server counts.
COUNTED = replace(
    specroof.load_drafter("eagle3,accept=0.9"), acceptance=survival_acceptance(LIFE.survival)
)


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    def save(*texts: str) -> list[Path]:
        paths = [tmp_path / f"{number}.txt" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return paths

    return save


def two(life: Life, page: Any = sglang_page, **how: Any) -> tuple[str, str]:
    """Return the pages of a server before and after half a minute."""
    return page(life, **how), page(life.at(1030.0), **how)


def of(paths: list[Path], **told: Any) -> Diagnosis:
    return doctor(SERVED, CHIP, pages=paths, wait_s=30.0, **told)


def test_a_server_is_predicted_with_what_it_counted(saved: Any) -> None:
    paths = saved(vllm_page(LIFE), vllm_page(LATER))
    found: Any = of(paths, drafter="eagle3,accept=0.9")
    assert found.context_len == pytest.approx(3250.0)
    (curve,) = predict(
        SERVED, CHIP, drafters=COUNTED, batch_size=40, context_len=3250, engine="vllm"
    ).curves
    length, round_, rate = found.rows
    assert length.measured == pytest.approx(3.04)
    # 1 + 0.9 + 0.81 + 0.729 + 0.6561 + 0.59049
    assert length.predicted == pytest.approx(4.68559)
    assert length.off == pytest.approx(3.04 / 4.68559 - 1)
    assert round_.measured == pytest.approx(0.024)
    assert rate.measured == pytest.approx(40 * 3.04 / 0.024)
    assert [(one["quantity"], one["measured"]) for one in found.records] == [
        (one.quantity, one.measured) for one in found.rows
    ]
    change: Any = found.change
    assert (change.now.draft_len, change.best.draft_len) == (5, curve.best_draft_len[0, 0])
    rates = curve.tokens_per_s[0, 0]
    assert change.best.speedup == pytest.approx(rates[change.best.draft_len] / rates[0])
    assert change.now.speedup == pytest.approx(rates[5] / rates[0])
    # The sentence has no other gain than that over plain decoding.
    assert f"{change.best.speedup:.2f}x plain decoding" in found.advice[0]
    assert "%" not in found.advice[0]
    told = found.to_dict()["choice"]["change"]
    assert told["best"]["speedup"] == change.best.speedup
    assert told["now"]["draft_len"] == 5
    config = json.loads(shlex.split(found.flags.text)[1])
    usual = [[1, 40, config["num_speculative_tokens"]]]
    table = config.get("num_speculative_tokens_per_batch_size", usual)
    drafts = change.recommended.draft_len
    assert (config["method"], drafts_at(table, 40)) == ("eagle3", drafts)
    assert f"K={drafts} " in found.advice[0]
    assert "served by vllm" in repr(found)


@pytest.mark.parametrize(
    ("engine", "clients", "lengths", "hits"), rows("values", "doctor_steady_loads")
)
def test_a_server_that_does_as_predicted_is_not_off(
    saved: Any, engine: str, clients: int, lengths: dict[str, Any], hits: float
) -> None:
    page: Any = vllm_page if engine == "vllm" else sglang_page
    asked: dict[str, Any] = {"engine": engine, "concurrency": clients, "steady": True, **lengths}
    (whole,) = predict(SERVED, CHIP, drafters=COUNTED, prefix_hit_rate=hits, **asked).end_to_end
    tpot_s, rate = (float(one[0, 0, 5]) for one in (whole.tpot_s, whole.tokens_per_s))
    # Little: requests that end in a second, times the seconds that each decodes.
    decoding = rate / lengths["output_len"] * tpot_s * (lengths["output_len"] - 1)
    life = replace(LIFE, running=decoding, round_s=tpot_s * LIFE.tokens_per_round, **lengths)

    def shown(one: Life, prompts: float) -> str:
        counts = {"prompt_tokens_total": prompts, "prompt_tokens_cached_total": hits * prompts}
        of_vllm = [f"vllm:{name} {count}\n" for name, count in counts.items()]
        return str(page(one)) + "".join(of_vllm) * (engine == "vllm")

    found = of(saved(shown(life, 1000), shown(life.at(1030.0), 2000)), drafter="eagle3")
    assert found.observed.prefix_hit_rate == hits
    for row in found.rows[1:]:
        assert row.off == pytest.approx(0, abs=0.02), row
    assert not any("hold the prefills" in note for note in found.notes)
    assert not any("beyond the band" in sentence for sentence in found.advice)
    for times in (1 / 3, 3.0):
        slower = replace(life, round_s=times * life.round_s)
        found = of(saved(shown(slower, 1000), shown(slower.at(1030.0), 2000)), drafter="eagle3")
        took = re.match("rounds took (.*) times what is predicted, beyond", found.advice[-1])
        assert took is not None
        assert float(took[1]) == pytest.approx(times, rel=0.02)
    # The roofline has no band.
    bound = of(
        saved(shown(slower, 1000), shown(slower.at(1030.0), 2000)), drafter="eagle3", engine="ideal"
    )
    assert not any("beyond the band" in sentence for sentence in bound.advice)
    # Of one page, the gauge shows those in flight.
    pages = saved(shown(replace(life, running=float(clients)), 1000))
    assert of(pages, drafter="eagle3", context_len=9).rows[1].predicted == pytest.approx(
        tpot_s * LIFE.tokens_per_round, rel=0.02
    )


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_an_idle_server_is_predicted_for_as_long_as_it_decodes(
    saved: Any, share: float, ended: bool
) -> None:
    life = replace(LIFE, running=share, ended=ended)
    found: Any = of(saved(*two(life, vllm_page)), drafter="eagle3")
    _, round_, rate = found.rows
    # Little: of as many requests and as many tokens per round, tokens go by the time of a round.
    assert (1 + rate.off) * (1 + round_.off) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("ended", [True, False])
def test_rounds_that_did_not_draft_are_predicted_as_plain_steps(saved: Any, ended: bool) -> None:
    life = replace(LIFE, ended=ended)
    answers: Any = [
        of(
            saved(ngram_page(life, share), ngram_page(life.at(1030.0), share)),
            drafter="eagle3,accept-length=3@5",
        )
        for share in (1.0, 0.5, 0.0)
    ]
    whole, half, plain = answers
    length, round_, rate = half.rows
    # Half of the rounds have 3 tokens, half 1; the rate is of tokens as counted by such rounds.
    assert length.predicted == pytest.approx(2)
    rounds = whole.rows[1].predicted + plain.rows[1].predicted
    assert round_.predicted == pytest.approx(rounds / 2, rel=0.02)
    assert (1 + rate.off) * (1 + round_.off) == pytest.approx(1, abs=0.01)
    assert half.advice[1] == "gains are those of rounds that draft, 50% of those counted"
    assert not any("of rounds that draft" in line for line in whole.advice)


def test_a_server_of_llama_cpp_is_read(saved: Any) -> None:
    # One request at a time, 100 ms for 4 tokens; then 10 tokens a second without drafts.
    def answer(server: str, drafter: str = "mtp") -> Diagnosis:
        shown, counted = rows("values", "llama_cpp_metrics")[server]

        def page(seconds: float) -> str:
            values = shown | {name: each * seconds for name, each in counted.items()}
            return "".join(f"llamacpp:{name} {value}\n" for name, value in values.items())

        return doctor(
            "Qwen/Qwen3.6-27B", "rtx-4090", pages=saved(page(100), page(160)), drafter=drafter,
            options={"weight_dtype": "q4_k_m"}, wait_s=60.0, context_len=2000,
        )  # fmt: skip

    found = answer("drafts")
    seen = found.observed
    assert (seen.framework, seen.longest, seen.running) == ("llama.cpp", 5, 1.0)
    assert (seen.tokens_per_round, seen.round_s, seen.tokens_per_s) == (4.0, 0.1, 40.0)
    assert seen.survival == pytest.approx((0.9, 0.75, 0.6, 0.45, 0.3))
    assert found.setup.engine.name.startswith("llama.cpp")
    assert [row.predicted is not None for row in found.rows] == [False, True, True]
    kept = answer("drafts", "mtp,p-min=0.75").flags  # what a SPEC says of a server is not lost
    assert kept is not None
    assert "--spec-draft-p-min 0.75" in kept.text
    plain = answer("plain").observed
    assert (plain.speculates, plain.round_s) == (False, 0.1)


def test_beyond_positions_that_were_counted_acceptance_goes_on(saved: Any) -> None:
    short = replace(LIFE, survival=(0.95, 0.9), running=1.0)
    found: Any = of(saved(*two(short, vllm_page)), drafter="eagle3")
    (curve,) = found.prediction.curves
    # 18/19 of those before are accepted of each further draft.
    rate = 0.9 / 0.95
    assert curve.tokens_per_round[0, 0, 4] == pytest.approx(1 + 0.95 + 0.9 * (1 + rate + rate**2))
    assert curve.measured_draft_len == 2
    change: Any = found.change
    assert (change.best.draft_len, change.measured) == (2, 2)
    assert change.longer.low > change.best.speedup  # and yet nobody measured it
    assert f"K={change.longer.draft_len} may give" in found.advice[1]
    # Little more, or no figure of what runs, is no reason to try it.
    case: Any = SimpleNamespace(now=2, drafter="eagle3", drafted_frac=1.0)
    little = replace(change, longer=replace(change.longer, speedup=1.001 * change.best.speedup))
    for nothing in (little, replace(change, now=None)):
        assert len([*advice(case, None, nothing)]) == 1
    ranges = replace(change, schedule=((1, 16, 2), (17, 64, 1)))
    assert next(advice(case, None, ranges)).endswith("; above 16 K=1")
    (law,) = [note for note in found.notes if note.startswith("beyond K=2, the longest counted")]
    assert "geometric" in law
    told = found.to_dict()["choice"]["change"]
    assert (told["measured"], told["longer"]["draft_len"]) == (2, change.longer.draft_len)


def test_look_ups_are_predicted_as_they_match_and_no_further(saved: Any) -> None:
    steady = replace(LIFE, survival=(0.85, 0.72, 0.6, 0.5, 0.42), running=2.0, drafts=4.0)
    pages = [ngram_page(life, 0.5) for life in (steady, steady.at(1030.0))]
    found: Any = of(saved(*pages), drafter="ngram,match=0.1")
    (curve,) = found.prediction.curves
    assert found.observed.tokens_per_round == pytest.approx(1 + 3.09 / 2)
    assert curve.tokens_per_round[0, 0, 4] == pytest.approx(1 + 3.09 / 2)
    change: Any = found.change
    assert (change.measured, change.longer) == (5, None)
    assert change.best.draft_len <= 5
    assert max(drafts for _, _, drafts in change.schedule) <= 5
    assert any("what look-ups find is unknown" in note for note in found.notes)
    counted_at: Any = of(saved(*(vllm_page(life) for life in (LIFE, LATER))), drafter="ngram")
    assert counted_at.change.measured == 5


@pytest.mark.parametrize(("name", "is_other"), rows("values", "doctor_served_names"))
def test_a_server_of_another_model_is_noted(saved: Any, name: str, is_other: bool) -> None:
    found = of(saved(vllm_page(LIFE, model=name), vllm_page(LATER, model=name)))
    assert any("calls its model" in note for note in found.notes) == is_other


# --- advice ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("expected", rows("values", "doctor_advice"))
def test_what_a_server_counted_decides_what_it_is_advised(
    saved: Any, expected: dict[str, Any]
) -> None:
    life = replace(LIFE, **expected["life"])
    found = of(saved(*two(life, vllm_page, off=not life.survival)), **expected["told"])
    assert reads(found.advice[0], expected["advice"])
    made = found.to_dict()["choice"]["change"]
    change = made and [made["running"], made["now"] and made["now"]["draft_len"]]
    assert change == expected["change"]
    predicted = {row.quantity for row in found.rows if row.predicted is not None}
    assert predicted == {*expected["predicted"]}
    pay_not = any(note.startswith("drafts do not pay") for note in found.notes)
    assert ("given" if found.flags else "none" if pay_not else None) == expected["flags"]
    assert found.context_len == pytest.approx(3250 if life.ended else 4096)


def test_loads_without_room_for_drafts_are_no_reason_to_turn_them_off(saved: Any) -> None:
    # SGLang runs 48 requests where it drafts: it never comes to 64, where no draft has room.
    good = replace(LIFE, running=8.0, survival=(0.95, 0.9, 0.85))
    paths = saved(*two(good))
    found: Any = of(paths, drafter="eagle3", context_len=256)
    assert found.change.schedule[-1][1] <= 48
    assert "turn it off" not in " ".join(found.advice)
    assert found.flags is not None
    assert drafts_at(found.change.schedule, 48) > 0


def test_a_tree_goes_by_its_own_acceptance(saved: Any) -> None:
    texts = [sglang_page(life, steps=5, verified=8) for life in (LIFE, LATER)]
    spec = "eagle3,accept=0.7,tree=eagle2,nodes=7,top-k=3,siblings=.2/.1"
    found: Any = of(saved(*texts), drafter=spec)
    assert found.flags is None
    (curve,) = found.prediction.curves
    assert found.rows[0].predicted == pytest.approx(curve.tokens_per_round[0, 0, 5])
    # 5 steps make a chain of 6 positions, the root included.
    with pytest.raises(MeasurementError, match=r"^the metrics: 8 positions .* a SPEC with tree="):
        of(saved(*texts), drafter="eagle3")
    of(saved(*texts), drafter="ngram")  # whose trees cost what as many drafts do


def test_an_acceptance_by_context_is_that_of_the_context(saved: Any) -> None:
    short, long = survival_acceptance([0.9] * 5), survival_acceptance([0.5] * 5)
    drafter = replace(
        specroof.load_drafter("eagle3"), acceptance=context_acceptance({1000: short, 5000: long})
    )
    found = of(saved(vllm_page(LIFE), vllm_page(LATER)), drafter=drafter, context_len=5000)
    assert found.rows[0].predicted == pytest.approx(3.5)


def test_replicas_share_a_load_and_ranks_of_one_model_do_not(saved: Any) -> None:
    texts = [vllm_page(life, engine=0) + vllm_page(life, engine=1) for life in (LIFE, LATER)]
    paths = saved(*texts)
    found: Any = of(paths, drafter="eagle3")
    assert found.change.running == 40
    assert any(note.startswith("2 replicas: ") for note in found.notes)
    alone = of(saved(vllm_page(LIFE), vllm_page(LATER)), drafter="eagle3")
    for row, other in zip(found.rows, alone.rows, strict=True):
        assert (row.measured, row.predicted) == pytest.approx((other.measured, other.predicted))
    paths = saved(*texts)
    # vLLM has groups of one model where there are experts.
    split: dict[str, Any] = {"tensor_parallel": 2, "attention_data_parallel": 2}
    together: Any = doctor(
        "Qwen/Qwen3-30B-A3B", CHIP, pages=paths, wait_s=30.0, drafter="eagle3", **split
    )
    assert together.change.running == 80


# --- what is observed overrules what is assumed ---------------------------------------------------

CROWD = replace(LIFE, running=57.6, survival=(0.8, 0.6, 0.38))
ROOMY = {"max_running_requests": 128, "internal_states": []}


def test_a_server_that_shows_no_draft_length_is_not_called_off(saved: Any) -> None:
    paths = saved(*map(without_steps, two(CROWD)))
    found = of(paths, drafter="eagle3,accept-length=2.5@3")
    assert found.observed.speculates
    assert found.advice[0].startswith("drafts are made now, how many is not shown; at 58 running")
    assert "no figure for the draft length that runs" in found.advice[0]
    assert found.to_dict()["choice"]["change"]["now"] is None
    assert ["drafts", "per", "round", "on"] in [one.split()[:4] for one in found.text().split("\n")]
    assert of(paths, drafter="eagle3").change is None  # a length says nothing without its depth


def test_more_running_requests_than_a_default_allows_overrule_it(saved: Any) -> None:
    # SGLang's default with drafts is 48.
    found: Any = of(saved(*two(CROWD)), drafter="eagle3", context_len=256)
    change: Any = found.change
    assert (change.running, change.now.draft_len) == (58, 3)
    assert change.best.draft_len > 0
    assert change.schedule[-1][1] == 58
    assert drafts_at(change.schedule, 58) > 0
    assert "turn it off" not in " ".join(found.advice)
    assert found.rows[1].predicted is not None
    assert any("58" in note and "limit" in note for note in found.notes)
    assert found.to_dict()["case"]["server"]["running"] == 58
    assert "--max-running-requests" not in found.flags.text  # it has one that allows them


def test_flags_of_a_plain_server_allow_what_runs(saved: Any) -> None:
    plain = replace(CROWD, survival=(), round_s=0.02)
    told: dict[str, Any] = {"drafter": "eagle3,accept-length=2.78@3", "context_len": 256}
    found: Any = of(saved(*two(plain)), **told)
    assert found.advice[0].startswith("speculation is off now; at 58 running requests K=")
    assert "--max-running-requests 58" in found.flags.text
    assert any("at most 48 requests by default" in note for note in found.notes)
    few: Any = of(saved(*two(replace(plain, running=48.0))), **told)
    assert "--max-running-requests" not in few.flags.text


def test_a_saved_server_info_says_length_and_limits(saved: Any) -> None:
    info = server_info(**ROOMY)
    pages = saved(*map(without_steps, two(CROWD)), info)
    found: Any = of(pages, drafter="eagle3", context_len=256)
    assert (found.observed.longest, found.observed.draft_len) == (3, 3.0)
    assert found.change.schedule[-1][1] == 128
    assert not any("assumed" in note for note in found.notes)
    server = found.to_dict()["case"]["server"]
    assert (server["running"], server["memory"]) == (128, 0.85)
    # A gauge is of now, where the server has it: adaptive drafts may differ from the arguments.
    live = [sglang_page(one, steps=2, verified=3) for one in (CROWD, CROWD.at(1030.0))]
    assert of(saved(*live, info)).observed.longest == 2


def test_devices_and_formats_are_those_of_the_server(saved: Any) -> None:
    def launched(**says: Any) -> list[Path]:
        paths: list[Path] = saved(*two(CROWD), server_info(**ROOMY, **says))
        return paths

    paths = launched(tp_size=2, kv_cache_dtype="fp8_e4m3")
    found = of(paths)
    assert found.setup.placement.tensor_parallel == 2
    assert found.setup.options.kv_dtype == "fp8"
    assert not any("stages" in note for note in found.notes)
    assert of(paths, tensor_parallel=2, server="running=128").setup == found.setup
    assert of(paths, options={"kv_dtype": "bf16"}).setup.options.kv_dtype == "bf16"
    for devices in (1, 4):  # nor is a stated 1 left open
        says = f"^tensor_parallel is {devices}; allowed: 2, as the server says"
        with pytest.raises(OptionError, match=says):
            of(paths, tensor_parallel=devices)
    paths = launched(pp_size=2)
    assert of(paths).setup.placement.pipeline_parallel == 2
    with pytest.raises(OptionError, match=r"^server: running is 64; allowed: 128, as the server"):
        of(paths, server="running=64")
    options = {"weight_dtype": "fp8"}
    assert of(launched(quantization="fp8"), options=options).setup.options.weight_dtype == "fp8"


@pytest.mark.parametrize(("says", "framework", "counts"), rows("values", "doctor_releases"))
def test_the_release_is_that_of_the_server(
    saved: Any, says: str, framework: str | None, counts: str
) -> None:
    info = server_info(version=says, speculative_algorithm="DFLASH", **ROOMY)
    found: Any = of(saved(*two(CROWD), info), drafter="dflash", framework=framework)
    assert f"engine sglang {counts} " in found.title
    # 0.5.9 has no DFLASH: `SpeculativeAlgorithm` of its speculative/spec_info.py.
    assert (found.flags is None) == (counts == "0.5.9")


@pytest.mark.parametrize(("says", "refused_for"), rows("values", "doctor_other_launches"))
def test_a_server_that_was_launched_otherwise_is_refused(
    saved: Any, says: dict[str, Any], refused_for: str
) -> None:
    pages = saved(*two(CROWD), server_info(**ROOMY | says))
    line = refusal(MeasurementError, of, pages, drafter="eagle3")
    assert reads(line, f"{pages[-1]}: {refused_for}")


def test_pages_of_two_servers_are_refused(saved: Any) -> None:
    pages = saved(vllm_page(LIFE), vllm_page(LATER), server_info())
    says = ": is of sglang, and the metrics are of vllm; allowed: pages of one server"
    assert refusal(MeasurementError, of, pages) == f"{pages[-1]}{says}"


def answer(pages: dict[str, str], handler: Any, _number: int) -> None:
    known = handler.path in pages
    give(handler, pages.get(handler.path, "").encode(), 200 if known else 404)


def test_a_server_says_of_itself_what_its_metrics_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specroof.catalog.pages.USUAL_WAIT_S", 0.01)
    pages = {
        "/metrics": without_steps(sglang_page(CROWD)),
        "/get_server_info": server_info(**ROOMY),
    }

    with replay(partial(answer, pages)) as url:
        found = doctor(SERVED, CHIP, pages=url)
        assert found.observed.longest == 3
        assert "metrics are named as in SGLang 0.5.23; the server is 0.5.23" in found.notes
        assert not any("not read" in note for note in found.notes)
        pages["/server_info"] = "<html>"
        silent = doctor(SERVED, CHIP, pages=url)
        assert silent.observed.longest is None
        assert any(note.startswith(f"not read: {url}/server_info: ") for note in silent.notes)
        pages["/version"] = '{"version": "0.33.0"}'  # only vLLM has this page
        assert any("of vllm, and the" in note for note in doctor(SERVED, CHIP, pages=url).notes)
        del pages["/server_info"], pages["/get_server_info"]
        assert doctor(SERVED, CHIP, pages=url).observed.longest is None


def test_vllm_says_memory_weights_and_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specroof.catalog.pages.USUAL_WAIT_S", 0.01)
    labels = {"engine": "0", "gpu_memory_utilization": "0.5", "enable_prefix_caching": "False"}
    cache = line("vllm:cache_config_info", 1.0, labels)
    models = {"data": [{"id": "prod", "root": f"/models/{SERVED}"}]}
    pages = {
        "/metrics": vllm_page(LIFE, model="prod") + cache + "\n",
        "/v1/models": json.dumps(models),
        "/version": '{"version": "0.33.0"}',
    }

    with replay(partial(answer, pages)) as url:
        found = doctor(SERVED, CHIP, pages=url)
        assert not any("calls its model" in note for note in found.notes)
        pages["/v1/models"] = json.dumps({"data": [{"id": "prod", "root": "/models/other"}]})
        (note,) = [one for one in doctor(SERVED, CHIP, pages=url).notes if "calls its" in one]
        assert "'/models/other'" in note
    server = found.to_dict()["case"]["server"]
    assert (server["memory"], server["prefix-cache"]) == (0.5, False)
    assert "metrics are named as in vLLM 0.33.0; the server is 0.33.0" in found.notes


# --- a server, the shell -----------------------------------------------------------------------

ON_CHIP = f"--model {SERVED} -H {CHIP}"


def test_counts_that_a_page_lacks_have_no_row(saved: Any) -> None:
    (path,) = saved("vllm:spec_decode_num_drafts_total 0\n")
    assert "\nrunning requests" not in run("doctor", path, ON_CHIP)
    (path,) = saved(vllm_page(LIFE, off=True))
    lines = run("doctor", path, ON_CHIP).splitlines()
    assert ["drafts", "per", "round", "off"] in [one.split() for one in lines]
    (path,) = saved(vllm_page(replace(LIFE, survival=(0.9,) * 9)))
    out = run("doctor", path, ON_CHIP).splitlines()
    (row,) = [one for one in out if one.startswith("accepted by position")]
    assert row.split()[3:] == [*["0.90"] * 8, "…"]


def test_a_server_without_a_page_names_the_flag() -> None:
    with replay(lambda handler, _number: give(handler, b"", 404)) as url:
        told = refused("doctor", url, ON_CHIP)
    assert re.search(f"{url}/metrics: the page is missing.*--enable-metrics", told)


def test_a_key_goes_to_the_server_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[tuple[str | None, str | None]] = []

    def answer(handler: Any, _number: int) -> None:
        keys.append((handler.headers["Authorization"], handler.headers["X-Key"]))
        give(handler, vllm_page(LIFE).encode())

    monkeypatch.setenv("SPECROOF_TOKEN", "sesame")
    with replay(answer) as url:
        bare = url.removeprefix("http://") + "/v1"
        out = run("doctor", bare, f"{ON_CHIP} --wait 0 --json --header 'X-Key: open'")
        request = DoctorRequest(model=SERVED, hardware=CHIP, pages=url, header="X-Key: open")
    assert {*keys} == {("Bearer sesame", "open")}
    for said in (out, repr(request)):
        assert "sesame" not in said
        assert "open" not in said


def test_refusals_are_one_line(saved: Any) -> None:
    (path,) = saved(vllm_page(LIFE))
    assert "allowed: http://HOST" in refused("doctor file:///etc/passwd", ON_CHIP)
    for words, reason in {
        "--context -1": "--context is -1",
        "--wait -1": "--wait is -1",
        "--served-name x": "serves no model 'x'",
        "--drafter x": "kind is 'x'",
    }.items():
        assert reason in refused("doctor", path, ON_CHIP, words)
    info = path.with_name("info.json")
    info.write_text('{"tp_size": 0}')
    assert "info.json: tp_size is 0" in refused("doctor", path, info, ON_CHIP)
    with pytest.raises(OptionError, match="engine"):
        doctor(SERVED, CHIP, pages=path, engine="no-such")


STEADY = ((1, 64, 2),)


@pytest.mark.parametrize(("now", "best", "words"), rows("values", "doctor_gains"))
def test_every_gain_is_over_plain_decoding(now: Any, best: Any, words: str) -> None:
    change = Change(running=40, now=now and Gain(*now), best=Gain(*best), schedule=STEADY)
    assert reads(gain_words(change), f"at 40 running requests {words}")
