"""The one frontier: the points that no other beats in two quantities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.outcomes.pareto import pareto

points = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12)


@pytest.mark.parametrize("y", ["tokens_per_s_per_device", "usd_per_million_tokens"])
@given(drawn=points)
def test_nothing_beats_a_point_of_the_frontier_and_something_beats_the_rest(
    y: str, drawn: list[tuple[int, int]]
) -> None:
    # A price is better the less it is.
    sign = -1 if y.startswith("usd") else 1
    across, up = np.array(drawn, dtype=float).T
    found = pareto({"speedup": across, y: sign * up}, "speedup", y)
    kept = {(across[i], up[i]) for i in found}
    for a, b in drawn:
        beaten = any((c >= a and d >= b) and (c, d) != (a, b) for c, d in drawn)
        assert ((a, b) in kept) is not beaten
    assert np.all(np.diff(across[found]) > 0)
    assert np.all(np.diff(up[found]) < 0)


def test_points_that_cannot_be_are_left_out_and_of_equal_ones_the_first_stays() -> None:
    names = "speedup", "tokens_per_s"
    alike = [np.array([1.0, 1.0, np.nan, 2.0]), np.array([4.0, 4.0, 5.0, np.nan])]
    assert pareto(dict(zip(names, alike, strict=True)), *names).tolist() == [0]
    assert pareto({name: [np.nan] for name in names}, *names).size == 0
