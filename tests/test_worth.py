"""What better drafters would bring: against predictions, published statements and by hand."""

from typing import Any

import numpy as np
import pytest

import specroof
from specroof import OptionError, worth
from specroof.serving.served import served_curve
from specroof.speedup import curve as axes

MODEL, CHIP, SPEC = "Qwen/Qwen3-8B", "h100", "block,cost=0.1,drafts=15"


def test_enough_drafts_are_within_a_percent_of_the_best_and_gains_are_by_token() -> None:
    lengths = [2.5, 4, 7]
    found = worth(MODEL, CHIP, drafter=SPEC, accept_length=lengths, draft_len=15, batch_size=16)
    for row, length in zip(found.rows, lengths, strict=True):
        spec = f"{SPEC},accept-length={length}@15"
        curve = specroof.predict(
            MODEL, CHIP, drafters=spec, batch_size=16, max_draft_len=15
        ).curves[0]
        near = curve.speedup[0, 0] >= 0.99 * row.speedup
        assert row.enough_drafts == int(np.flatnonzero(near)[0])
    first, second, third = found.rows
    assert first.gain_per_token is None
    gains = np.diff([row.speedup or np.nan for row in found.rows])
    assert second.gain_per_token == pytest.approx(gains[0] / 1.5)
    assert third.gain_per_token == pytest.approx(gains[1] / 3)


def test_users_are_the_most_that_wait_no_longer() -> None:
    asked: dict[str, Any] = {"draft_len": 15, "accept_length": 4, "capacity": False}
    found = worth(MODEL, CHIP, drafter=SPEC, tpot_s=0.01, **asked)
    (row,) = found.rows
    (around,) = specroof.predict(
        MODEL, CHIP, drafters=f"{SPEC},accept-length=4@15", batch_size=[row.users, row.users + 1],
        max_draft_len=15, capacity=False,
    ).curves  # fmt: skip
    fastest = np.nanmax(around.tokens_per_s_per_user[0], axis=-1)
    assert fastest[0] >= 100 > fastest[1]
    limited = worth(MODEL, CHIP, drafter=SPEC, tpot_s=1.0, draft_len=15, accept_length=4)
    room = specroof.capacity(MODEL, CHIP, server="running=128").rows[0].largest_batch
    assert limited.rows[0].users == room
    none = worth(MODEL, CHIP, drafter=SPEC, tpot_s=1e-6, **asked)
    assert none.rows[0].users == 0
    plain = worth(MODEL, CHIP, drafter=SPEC, batch_size=8, **asked)
    step_s = specroof.predict(MODEL, CHIP, drafters="ideal", batch_size=8).curves[0].decode_s
    assert plain.rows[0].tpot_limit_s == pytest.approx(step_s.item())
    assert plain.rows[0].users > 8


def test_users_are_sought_in_parts_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    # All of 4096 x 1025 points were held at once: over 1 GB.
    held: list[int] = []

    def counted(*words: Any, **more: Any) -> Any:
        served = served_curve(*words, **more)
        held.append(served.curve.round_s.size)
        return served

    def users(tpot_s: float, limited: bool) -> int:
        asked: dict[str, Any] = {"drafter": SPEC, "draft_len": 15, "accept_length": 4}
        return worth(MODEL, CHIP, **asked, tpot_s=tpot_s, capacity=limited).rows[0].users

    cases = [(1e-6, True), (6e-3, False), (1.0, True), (1.0, False)]
    whole = [users(*case) for case in cases]
    monkeypatch.setattr("specroof.outcomes.outcomes.served_curve", counted)
    monkeypatch.setattr(axes, "_CHUNK_POINTS", 1 << 12)
    assert [users(*case) for case in cases] == whole
    assert len({*whole}) == len(cases)
    assert max(held) == 1 << 12


def test_lengths_that_drafts_cannot_give_are_left_out_or_refused() -> None:
    found = worth(MODEL, CHIP, drafter=SPEC, draft_len=4)
    assert [row.accept_length for row in found.rows] == [3, 4, 5]
    assert worth(MODEL, CHIP, drafter="eagle3").draft_len == 16
    with pytest.raises(OptionError, match="accept_length is 9; allowed: numbers from 1 to 5"):
        worth(MODEL, CHIP, drafter=SPEC, draft_len=4, accept_length=[3, 9])
    with pytest.raises(OptionError, match=r"^accept_length .*2; allowed"):
        worth(MODEL, CHIP, drafter=SPEC, draft_len=1)
    with pytest.raises(OptionError, match=r"^drafter is 'ideal'"):
        worth(MODEL, CHIP, drafter="ideal")
    twice = worth(MODEL, CHIP, drafter=SPEC, accept_length=[4, 3, 3])
    assert [row.accept_length for row in twice.rows] == [3, 4]


def test_lengths_take_the_place_of_the_acceptance_of_a_spec() -> None:
    # They are measured with as many drafts as the SPEC says, as those of predict are.
    found = worth(MODEL, CHIP, drafter="eagle3,accept-length=2.8@3,weights=fp8", accept_length=2)
    assert (found.draft_len, found.drafter) == (3, "eagle3,weights=fp8")
    same = specroof.predict(MODEL, CHIP, drafters="eagle3,accept-length=2@3,weights=fp8")
    assert found.rows[0].speedup == pytest.approx(same.rows[0].speedup)
    assert found.rows[0].drafter == found.drafter


def test_a_chip_without_a_price_says_which_flag() -> None:
    found = worth(MODEL, "b300", drafter=SPEC, accept_length=3)
    assert found.rows[0].usd_per_million_tokens is None
    assert "--price-per-hour USD" in found.notes[0]
    given = worth(MODEL, "b300", drafter=SPEC, accept_length=3, price_per_hour=3.6)
    assert given.rows[0].usd_per_million_tokens == pytest.approx(1e3 / given.rows[0].tokens_per_s)


def test_as_many_users_wait_as_long_as_clients_that_do() -> None:
    # Users are counted in a steady state; the clients that were played said 0 of 1, and 61 of 64.
    sizes: dict[str, Any] = {"input_len": 2000, "output_len": 200}
    asked: dict[str, Any] = {"drafter": "eagle3", "accept_length": 1, "draft_len": 3, **sizes}
    rows = worth(MODEL, CHIP, **asked, concurrency=[1, 16]).rows
    assert [row.users for row in rows] == [1, 16]


def test_several_batch_sizes_are_those_of_each_alone() -> None:
    asked: dict[str, Any] = {"drafter": SPEC, "accept_length": [3, 5]}
    alone = [worth(MODEL, CHIP, **asked, batch_size=batch) for batch in (1, 16)]
    found = worth(MODEL, CHIP, **asked, batch_size=[1, 16])
    assert found.rows == alone[0].rows + alone[1].rows
    drawn = found.plot().axes[0].lines[1:]
    assert [np.asarray(line.get_ydata()).tolist() for line in drawn] == [
        [row.speedup for row in one.rows] for one in alone
    ]
    with pytest.raises(OptionError, match="batch_size"):
        worth(MODEL, CHIP, **asked, batch_size=[])


def test_a_job_is_one_load_whatever_its_lengths() -> None:
    job = {"input_len": [300, 900, 500], "output_len": [40, 80, 200]}
    found = worth(MODEL, CHIP, drafter="ngram", accept_length=[2, 3], lengths=job)
    (same,) = specroof.predict(MODEL, CHIP, drafters="ngram,accept-length=3@16", lengths=job).rows
    assert found.rows[1].speedup == pytest.approx(same.speedup)
    assert [*found.by_load.values()] == [[*found.rows]]
