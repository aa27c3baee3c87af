"""Drafters whose cost is given: paid per token or per block, of the plain step or of the round."""

import csv
import io
import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincc

from specroof import predict, speedup_curve
from specroof.catalog import load_drafter, load_hardware, load_model
from specroof.catalog.files import bundled_names
from specroof.catalog.names import load_draft_config
from specroof.drafters import KINDS, Drafter, Round, ideal_drafter
from specroof.drafters.kinds import autoregressive_drafter, beta_tail, block_drafter
from specroof.errors import CatalogError, ConfigError, OptionError, Urgent
from specroof.speedup.result import SpeedupCurve
from tables import refusal, rows

shares = st.floats(0, 100)


def a_round(draft_len: Any, *, cost_of: str = "decode") -> Round:
    """Return a round of a step of 3 s and a verification of 7 s, which may time no pass."""

    def pass_s(*_: object) -> Any:
        raise AssertionError("a fixed share needs no pass")

    return Round(
        draft_len=np.asarray(draft_len, dtype=np.float64),
        batch_size=np.array(8.0),
        context_len=np.array(100.0),
        tokens_per_round=np.array(2.0),
        decode_s=np.array(3.0),
        verify_s=np.array(7.0),
        cost_of=cost_of,
        pass_s=pass_s,
    )


def serial_s(drafter: Drafter, draft_len: int, *, cost_of: str = "decode") -> float:
    time = drafter.draft(a_round(draft_len, cost_of=cost_of))
    assert time.overlapped_s == 0
    return float(time.serial_s)


@given(shares, st.integers(1, 20), st.lists(st.integers(1, 100), min_size=1, max_size=9))
def test_drafts_are_paid_for_each_or_by_blocks_that_are_begun(
    cost: float, drafts: int, lengths: list[int]
) -> None:
    by_token, by_block = autoregressive_drafter(cost), block_drafter(cost, drafts=drafts)
    assert by_token.max_draft_len is None
    for drafter, begun in (
        (ideal_drafter(), [0 for _ in lengths]),
        (by_token, lengths),
        (by_block, [len(range(0, length, drafts)) for length in lengths]),
    ):
        # A step of 3 s, a verification of 7 s.
        for cost_of, whole_s in (("decode", 3.0), ("verify", 7.0)):
            expected = pytest.approx([cost * whole_s * times for times in begun])
            assert [serial_s(drafter, one, cost_of=cost_of) for one in lengths] == expected
            together = drafter.draft(a_round(lengths, cost_of=cost_of)).serial_s
            assert np.broadcast_to(together, len(lengths)).tolist() == expected
        assert drafter.is_ideal is (drafter.name == "ideal")


@given(st.floats(0, 1), st.floats(0.05, 60), st.floats(0.05, 60))
def test_confidence_above_a_threshold_is_the_incomplete_beta_function(
    least: float, a: float, b: float
) -> None:
    assert beta_tail(least, a, b) == pytest.approx(betaincc(a, b, least), rel=1e-9, abs=1e-12)


HUGE = pytest.param(10**400, id="huge")
BAD_COSTS = [-0.1, 100.1, math.nan, math.inf, -math.inf, HUGE, "0.1", None, True, 0.1j, [0.1]]


@pytest.mark.parametrize("cost", BAD_COSTS)
def test_a_cost_that_is_no_share_is_refused(cost: Any) -> None:
    for build in (autoregressive_drafter, partial(block_drafter, drafts=4)):
        with pytest.raises(OptionError, match=r"^cost is .*; allowed: a number from 0 to 100$"):
            build(cost)


def build(kind: str, values: Mapping[str, float], name: str = "") -> Drafter:
    return KINDS[kind].build(values, name)


def test_names_begin_with_their_kind() -> None:
    assert build("ideal", {}).name == "ideal"
    assert build("autoregressive", {"cost": 0.1}).name == "autoregressive,cost=0.1"
    assert build("block", {"cost": 0.1, "drafts": 16.0}).name == "block,cost=0.1,drafts=16"
    # Unless the SPEC has said more, such as its acceptance.
    spec = "block,cost=0.1,block=16,accept=0.8"
    assert build("block", {"cost": 0.1, "block": 16.0}, spec).name == spec
    # Numbers of NumPy are numbers.
    drafter = block_drafter(np.float32(0.5), drafts=np.int64(4))  # type: ignore[arg-type]
    assert (drafter.name, serial_s(drafter, 4)) == ("block,cost=0.5,drafts=4", 1.5)


def test_a_block_of_16_is_an_anchor_and_15_drafts() -> None:
    anchored = build("block", {"cost": 0.1, "block": 16.0})
    drafts = build("block", {"cost": 0.1, "drafts": 16.0})
    assert serial_s(anchored, 15) == serial_s(drafts, 15) == serial_s(drafts, 16)
    assert serial_s(anchored, 16) == 2 * serial_s(anchored, 15)
    assert serial_s(drafts, 17) == 2 * serial_s(drafts, 16)


@pytest.mark.parametrize(
    ("key", "value", "least"),
    [
        *(("block", value, "2") for value in (1.0, 0.0, 4098.0)),
        *(("drafts", value, "1 to 4096") for value in (0, -1, 4097)),
        *((key, value, "") for key in ("block", "drafts") for value in (1.5, math.nan, math.inf)),
    ],
)
def test_blocks_hold_a_whole_number_of_drafts_and_perhaps_an_anchor(
    key: str, value: float, least: str
) -> None:
    with pytest.raises(OptionError, match=f"^{key} is {value:g}; allowed: .*{least}"):
        build("block", {"cost": 0.1, key: value})
    if key == "drafts":
        for drafts in (value, "4", None, True):
            with pytest.raises(OptionError, match=r"^drafts is .*; allowed: .* from 1 to 4096"):
                block_drafter(0.1, drafts=drafts)  # type: ignore[arg-type]


# --- SPECs of drafters with a config, a tree, a place --------------------------------------------

TARGET = "Qwen/Qwen3.6-35B-A3B"


def curve(spec: str, **choices: Any) -> SpeedupCurve:
    return speedup_curve(
        load_model(choices.pop("target", TARGET)),
        load_hardware(choices.pop("hardware", "b200")),
        drafter=load_drafter(spec),
        engine="ideal",
        max_draft_len=choices.pop("max_draft_len", 3),
        **choices,
    )


SPECS = rows("values", "priced_specs")


@pytest.mark.parametrize("spec", SPECS)
def test_every_kind_is_priced_and_says_where_its_figures_come_from(spec: str) -> None:
    found = curve(f"{spec},accept=0.7")
    kind = spec.partition(",")[0]
    assert found.drafter == f"{spec},accept=0.7"
    assert np.all(np.isfinite(found.round_s))
    assert np.all(found.draft_s[..., 1:] > 0)
    assert np.all(found.speedup[..., 0] == 1)
    assert np.all(found.verify_len[1:] >= found.verify_len[:-1])
    assert found.acceptance_from == "constant acceptance 0.7 per draft token"
    assert found.cost_from.startswith(("config ", "the usual ", "a lookup "))
    assert ("(no config= given)" in found.cost_from) is ("config=" not in spec and kind not in
                                                     {"ngram", "prompt_lookup", "suffix"})  # fmt: skip


def test_a_design_has_its_own_cost_and_says_that_acceptance_is_as_given() -> None:
    usual, slim = curve("eagle3,accept=0.7"), curve("eagle3,vocab=8000,accept=0.7")
    assert np.all(slim.draft_s[..., 1:] < usual.draft_s[..., 1:])
    assert np.all(slim.tokens_per_round == usual.tokens_per_round)
    said = [note for note in slim.notes if "vocab=8000" in note]
    assert len(said) == 1
    assert isinstance(said[0], Urgent)


def test_a_tree_is_verified_at_its_number_of_drafts() -> None:
    found = curve("eagle3,tree=3/1/1,siblings=.2/.1,accept=0.7")
    assert found.verify_len.tolist() == [1, 4, 7, 10]
    chain = curve("eagle3,accept=0.7")
    assert np.all(found.tokens_per_round[..., 1:] > chain.tokens_per_round[..., 1:])
    assert np.all(found.verify_s[..., 1:] > chain.verify_s[..., 1:])
    # 1 + .7 + .06 + .03, where the second child gets a fifth and the third a tenth of the misses.
    assert found.tokens_per_round[0, 0, 1] == pytest.approx(1.79)


def test_verification_of_a_tree_reads_the_cache_once_and_attends_from_each_draft() -> None:
    wide = curve("ngram,accept=0.5", max_draft_len=9)
    tree = curve("mtp,accept=0.5,tree=3/1/1,siblings=.2/.1")
    # Nine drafts in a tree of depth three are verified as nine drafts in a row are.
    assert tree.verify_s[0, 0, 3] == wide.verify_s[0, 0, 9]


def test_a_lookup_that_finds_nothing_is_plain_decoding_and_a_little_more() -> None:
    found = curve("ngram,match=0,accept=1,round-s=0")
    assert found.verify_len.tolist() == [1, 1, 1, 1]
    assert np.all(found.speedup == 1)
    half = curve("ngram,match=0.5,accept=1", max_draft_len=2)
    assert half.verify_len.tolist() == half.tokens_per_round[0, 0].tolist() == [1, 1.5, 2]
    # Widths that are means reach CSV.
    answer = predict("Qwen/Qwen3-8B", "b200", drafters="ngram,match=0.5,accept=1", max_draft_len=2)
    rows = csv.DictReader(io.StringIO(answer.to_csv("points")))
    assert [row["verify_len"] for row in rows] == ["1", "1.5", "2"]


TINY = {
    "architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 2048, "num_hidden_layers": 1,
    "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 248320,
    "draft_vocab_size": 32000,
}  # fmt: skip


def test_configs_are_found_by_path_by_name_and_on_the_hub(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(TINY))
    for place in (file, tmp_path):
        assert f"config {place}" in curve(f"eagle3,config={place},accept=.7").cost_from

    def fetch(repository: str, name: str) -> Path | None:
        assert repository == "someone/my-head"
        return file if name == "config.json" else None

    drafter = load_drafter("eagle3,config=someone/my-head,accept=.7", fetch=fetch)
    assert drafter.describe(load_model(TARGET)).startswith("config my-head: ")
    assert "z-lab/Qwen3.5-4B-DFlash" in bundled_names("model_configs/drafters")
    short = load_draft_config("qwen3.5-4b-dflash", "dflash")
    assert short == load_draft_config("z-lab/Qwen3.5-4B-DFlash", "dflash")


@pytest.mark.parametrize(
    ("spec", "error", "said"),
    [
        ("eagle3,config=nothing", CatalogError, r"^drafter 'nothing' "),
        ("dflash,config=z-lab Qwen3.5-4B-DFlash", CatalogError, r"4B-DFlash.*z-lab/Qwen3.5-4B-DFl"),
        ("eagle3,config=someone/other", CatalogError, r"^someone/other: .*config.json"),
        (
            "eagle3,config=z-lab/Qwen3.5-4B-DFlash",
            ConfigError,
            r"architectures .*allowed: .*eagle3",
        ),
        ("mtp,device=abacus,link=1e9,link-latency=0", CatalogError, "hardware 'abacus'"),
    ],
)
def test_configs_that_are_nowhere_are_refused(spec: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        load_drafter(spec, fetch=lambda *_: None)


@pytest.mark.parametrize(
    ("spec", "message"),
    rows("refusals", "drafter_specs"),
)  # fmt: skip
def test_specs_that_say_no_drafter_are_refused_in_one_line(spec: str, message: str) -> None:
    line = refusal(OptionError, load_drafter, spec)
    assert line.startswith(f"drafter {spec!r}: ")
    assert message in line
