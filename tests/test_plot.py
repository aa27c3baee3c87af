"""Charts: they show the numbers of their curve, say what is what, and nothing hides a label."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray

from specroof.cost import OpCost
from specroof.errors import OptionError, OutputError
from specroof.hardware.engine import Band
from specroof.hardware.profile import Placement
from specroof.latency.pass_seconds import OpLatency, PassLatency
from specroof.plot import (
    figure_bytes,
    plot_best_draft_len_map,
    plot_by_batch,
    plot_roofline,
    plot_speedup_by_draft_len,
    plot_time_per_op,
)
from specroof.speedup.result import SpeedupCurve
from tables import rows

pytestmark = pytest.mark.slow

Floats = NDArray[np.float64]

LONG_SPEC = "autoregressive,histogram=" + "/".join(map(str, range(1000, 1060))) + ",cost=0.1"
SPECS = [*rows("values", "fuzzed_specs")[:7], LONG_SPEC]


def speedup_lines(n: int, *, points: int = 17, seed: int = 0) -> Floats:
    """Return speedups that rise and fall, with 1 in front."""
    dice = np.random.default_rng(seed)
    steps = dice.normal(0.12, 0.15, (n, points - 1)) - np.linspace(0, 0.2, points - 1)
    return np.concatenate([np.ones((n, 1)), np.exp(np.cumsum(steps, axis=1))], axis=1)


def curve(speedup: ArrayLike, *, drafter: str = SPECS[1], **changes: object) -> SpeedupCurve:
    """Return a curve with these speedups; NaN is past the depth of its drafter.

    One axis is taken for the draft length, three for (context, batch, draft length).
    """
    speedups = np.asarray(speedup, dtype=np.float64)
    speedups = speedups.reshape((1,) * (3 - speedups.ndim) + speedups.shape)
    contexts, batches, drafts = speedups.shape
    # Some acceptance: what matters is that the chart shows this array.
    tokens = np.where(np.isnan(speedups), np.nan, 1 + 0.9 * np.arange(drafts))
    made = SpeedupCurve(
        model="Example-7B",
        hardware="Example GPU",
        engine="ideal",
        drafter=drafter,
        placement=Placement(),
        context_len=4096 * np.exp2(np.arange(contexts, dtype=np.float64)),
        batch_size=np.exp2(np.arange(batches, dtype=np.float64)),
        draft_len=np.arange(drafts),
        verify_len=np.arange(drafts) + 1,
        tokens_per_round=tokens,
        draft_s=np.zeros_like(speedups),
        verify_s=np.ones_like(speedups),
        round_s=tokens / speedups,  # of a plain step of one second
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # names and arrays of any field


def op(
    name: str, *, compute_s: float, memory_s: float, kind: str = "dense", dtype: str = "bf16"
) -> OpLatency:
    """Return an operation of a device with 1 PFLOP/s and 1 TB/s, done by two layers."""
    flops, weights, none = compute_s * 1e15 / 2, memory_s * 1e12 / 2, np.zeros(())
    cost = OpCost(name, kind, 2, np.asarray(flops), np.asarray(weights), none, none, dtype)
    return OpLatency(cost, dtype, np.asarray(compute_s), np.asarray(memory_s))


def latency(
    ops: Sequence[OpLatency], *, communication_s: float = 0.0, overhead_s: float = 0.0
) -> PassLatency:
    """Return a pass that does one operation after the other."""
    work_s = np.asarray(sum(float(op.seconds) for op in ops))
    return PassLatency(
        tuple(ops), work_s, np.asarray(communication_s), {"layers": np.asarray(overhead_s)}
    )


def some_ops(n: int, seed: int = 0) -> list[OpLatency]:
    """Return operations of all kinds, memory and compute bound, over six decades."""
    dice = np.random.default_rng(seed)
    kinds = ["dense", "experts", "attention", "head", "state", "indexer", "router", "compressor"]
    times = enumerate((10 ** dice.uniform(-6, -3, (n, 2))).tolist())
    return [
        op(f"block_{i % 3}.projection_{i}", compute_s=compute_s, memory_s=memory_s, kind=kind)
        for (i, (compute_s, memory_s)), kind in zip(times, itertools.cycle(kinds), strict=False)
    ]


def roofline(ops: Sequence[OpLatency], devices: int = 1, **peaks: float) -> Figure:
    how: dict[str, Any] = {"memory_bytes_per_s": 1e12, "devices": devices, "title": "A pass"}
    return plot_roofline(latency(ops), flops_per_s=peaks or {"bf16": 1e15}, **how)


def main_axes(figure: Figure) -> Axes:
    return figure.axes[0]


def lines(axes: Axes, *, style: str = "-", several: bool = True) -> list[Line2D]:
    """Return the lines of one style, those that are no single mark and no level."""
    return [
        line
        for line in axes.get_lines()
        if line.get_linestyle() == style and (len(np.asarray(line.get_xdata())) > 2) is several
    ]


def xs(line: Line2D) -> Floats:
    return np.asarray(line.get_xdata(), dtype=np.float64)


def ys(line: Line2D) -> Floats:
    return np.asarray(line.get_ydata(), dtype=np.float64)


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def titles(figure: Figure) -> list[str]:
    return [text.get_text().rstrip() for text in figure.texts]


def labels(figure: Figure) -> list[str]:
    return [one.get_text() for one in main_axes(figure).texts if isinstance(one, Annotation)]


def test_a_chart_has_the_band_of_a_few_curves() -> None:
    band = Band(width=0.2, mean_error=0.1, points=9)
    banded = curve([[[1.0, 1.5, 1.4]] * 2], band=band)
    charts = plot_speedup_by_draft_len([banded]), plot_by_batch([banded])
    for chart, points in zip(charts, (3, 2), strict=True):
        drawn = main_axes(chart).collections[0]
        x, y = np.asarray(drawn.get_paths()[0].vertices).T
        assert (len({*x.tolist()}), y.max()) == (points, pytest.approx(1.5 * np.exp(0.2)))
        assert "80% band" in legend_texts(chart)
    many = plot_by_batch([replace(banded, drafter=f"{i}") for i in range(5)])
    assert len(main_axes(many).collections) == 0


def test_measurements_are_stars_where_their_batch_and_length_are_drawn() -> None:
    made, measured = grid(1, 2), [(1.0, 3, 1.3, True), (99.0, 3, 1.4, True)]
    best = int(made.best_draft_len[0, 0])
    charts = {
        1.3: plot_speedup_by_draft_len([made], measured=measured),
        1.5: plot_by_batch([made], measured=[(1.0, best, 1.5, False), (1.0, 99, 1.6, False)]),
    }
    for gain, chart in charts.items():
        (stars,) = (line for line in main_axes(chart).get_lines() if line.get_marker() == "*")
        assert ys(stars).tolist() == [gain]
        assert any("measured" in text for text in legend_texts(chart))


def test_a_line_is_thin_where_acceptance_is_extrapolated() -> None:
    chart = plot_speedup_by_draft_len([replace(curve(SPEEDUPS[0]), measured_draft_len=3)])
    thin, *_ = (line for line in main_axes(chart).get_lines() if line.get_markersize() == 2)
    np.testing.assert_allclose(ys(thin), SPEEDUPS[0][3:])
    thick = next(line for line in main_axes(chart).get_lines() if len(ys(line)) > len(ys(thin)))
    assert any("extrapolated" in text for text in legend_texts(chart))
    assert len(ys(thick)) == len(SPEEDUPS[0])


# --- nothing hides a text ----------------------------------------------------------------------


def drawn_texts(figure: Figure) -> tuple[Bbox, list[tuple[str, Bbox]]]:
    """Return the page, every text that is written on it, and the box that each takes.

    Ticks beyond the axes exist but are not written, so that asking the figure will not do.
    """
    boxes: dict[int, tuple[str, Bbox]] = {}
    page = figure.bbox.frozen()
    draw = Text.draw

    def draw_and_note(text: Text, renderer: RendererBase) -> None:
        nonlocal page
        draw(text, renderer)
        if text.get_visible() and text.get_text():
            frame = text.get_bbox_patch()
            extent = frame.get_window_extent() if frame else Text.get_window_extent(text)
            # Blank lines below a title keep the room of another text.
            written = text.get_text().rstrip()
            filled = (1 + written.count("\n")) / (1 + text.get_text().count("\n"))
            top, low = extent.y1, extent.y1 - filled * extent.height
            boxes[id(text)] = written, Bbox.from_extents(extent.x0, low, extent.x1, top)
            page = figure.bbox.frozen()  # while it has the resolution of the file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", draw_and_note)
        figure_bytes(figure, "a.png")
    return page, list(boxes.values())


def clashes(figure: Figure) -> list[str]:
    """Return texts that leave the figure or cover one another, by more than half a pixel."""
    page, texts = drawn_texts(figure)
    assert len(texts) > 3
    room = page.padded(0.5)
    outside = [
        f"{text!r} leaves the figure"
        for text, box in texts
        if not (room.contains(box.x0, box.y0) and room.contains(box.x1, box.y1))
    ]
    shared = [
        f"{one!r} on {other!r}"
        for (one, box), (other, other_box) in itertools.combinations(texts, 2)
        if box.padded(-0.5).overlaps(other_box)
    ]
    return outside + shared


def test_clashes_are_found() -> None:
    figure = Figure()
    for x, text in ((0.5, "one text"), (0.52, "another"), (0.98, "far out"), (0.1, "fine")):
        figure.text(x, 0.5, text)
    found = clashes(figure)
    assert found == ["'far out' leaves the figure", "'one text' on 'another'"]


SPEEDUPS = speedup_lines(8, seed=3)
CHARTS = {
    "eight equal drafters": lambda: plot_speedup_by_draft_len(
        [curve(SPEEDUPS[0], drafter=spec) for spec in SPECS]
    ),
    "unknown tails": lambda: plot_speedup_by_draft_len(
        [curve([1, 1.5, 1.7, *[np.nan] * 14]), curve([1, 1.4, *[np.nan] * 15])]
    ),
    "twenty drafters": lambda: plot_speedup_by_draft_len(
        [curve(line, drafter=f"{i}th") for i, line in enumerate(speedup_lines(20))]
    ),
    "a thousand drafts": lambda: plot_speedup_by_draft_len([curve(np.linspace(1, 40, 1025))]),
    "huge speedups": lambda: plot_speedup_by_draft_len([curve([1, 1e4, 2e6, 1e7])]),
    "one batch size": lambda: plot_by_batch([curve(SPEEDUPS[:1, None])]),
    "nine batch sizes": lambda: plot_by_batch(
        [grid(1, 9, drafter=spec, seed=i) for i, spec in enumerate(SPECS)]
    ),
    "forty batch sizes": lambda: plot_by_batch([grid(1, 40, batch_size=np.arange(1.0, 41.0))]),
    "odd batch sizes": lambda: plot_by_batch(
        [grid(1, 40, batch_size=np.unique(np.geomspace(1, 1e7, 40).round()))]
    ),
    "requests": lambda: plot_by_batch([grid(1, 9, request_lengths="8192 tokens in, 1024 out")]),
    "map of 600 cells": lambda: plot_best_draft_len_map(
        grid(20, 30, context_len=np.geomspace(128, 1e6, 20).round())
    ),
    "map of a long drafter": lambda: plot_best_draft_len_map(grid(2, 2, drafter=LONG_SPEC)),
    "map of one cell": lambda: plot_best_draft_len_map(grid(1, 1)),
    "roofline of equal operations": lambda: roofline(
        [op(f"mlp.{i}", compute_s=1e-4, memory_s=1e-3, kind=f"kind {i}") for i in range(9)]
    ),
    "time of one operation": lambda: plot_time_per_op(latency(some_ops(1)), title="A pass"),
    "time of 25 operations": lambda: plot_time_per_op(
        latency(some_ops(25), communication_s=2e-3, overhead_s=1e-4), title="A pass"
    ),
    "dollars": lambda: plot_speedup_by_draft_len(
        [curve([1, 1.5], model="a$\\frac$b", drafter="$x_$")]
    ),
    "a pass of no time": lambda: plot_time_per_op(
        latency([op("a", compute_s=0, memory_s=0)]), title="Nothing"
    ),
    "a long title": lambda: plot_time_per_op(latency(some_ops(2)), title="A long title, " * 30),
}


def grid(contexts: int, batches: int, *, seed: int = 0, **changes: object) -> SpeedupCurve:
    """Return a curve over contexts and batches with optima all over the place."""
    speedups = speedup_lines(contexts * batches, seed=seed).reshape(contexts, batches, -1)
    return curve(speedups, **changes)  # type: ignore[arg-type]  # any field


@pytest.mark.long
@pytest.mark.parametrize("name", CHARTS)
def test_no_text_covers_another_or_is_cut_off(name: str) -> None:
    assert clashes(CHARTS[name]()) == []


@pytest.mark.long
@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 17))
def test_optima_of_any_curves_have_their_labels_apart(seed: int, n: int, points: int) -> None:
    drawn = speedup_lines(n, points=points, seed=seed)
    figure = plot_speedup_by_draft_len(
        [curve(line, drafter=spec) for line, spec in zip(drawn, SPECS, strict=False)]
    )
    assert clashes(figure) == []


@pytest.mark.long
@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_any_operations_have_their_labels_apart(seed: int, n: int) -> None:
    assert clashes(roofline(some_ops(n, seed))) == []


# --- speedup against draft length --------------------------------------------------------------


def test_a_drafter_has_a_line_of_its_speedup_and_a_dashed_one_of_its_tokens() -> None:
    curves = [curve(line, drafter=spec) for line, spec in zip(SPEEDUPS, SPECS, strict=True)]
    axes = main_axes(plot_speedup_by_draft_len(curves))
    solid, dashed = lines(axes), lines(axes, style="--")
    assert len(solid) == len(dashed) == len(curves)
    for made, line, free in zip(curves, solid, dashed, strict=True):
        np.testing.assert_array_equal(xs(line), made.draft_len)
        np.testing.assert_array_equal(ys(line), made.speedup[0, 0])
        np.testing.assert_array_equal(ys(free), made.tokens_per_round[0, 0])
        assert line.get_color() == free.get_color()
    assert len({line.get_color() for line in solid}) == len({*map(Line2D.get_marker, solid)}) == 8


def test_the_mark_and_the_label_are_the_optimum() -> None:
    made = curve([1, 1.5, 2.984, 2.9])  # rises to 2.984 at two drafts
    figure = plot_speedup_by_draft_len([made])
    (mark,) = lines(main_axes(figure), style="None", several=False)
    assert xs(mark).tolist() == [2] == made.best_draft_len.ravel().tolist()
    assert ys(mark).tolist() == pytest.approx([2.984])
    assert labels(figure) == ["γ = 2, 2.98x"]


def test_equal_optima_share_one_label_and_one_line_keeps_all_marks() -> None:
    figure = plot_speedup_by_draft_len([curve(SPEEDUPS[0], drafter=spec) for spec in SPECS[:3]])
    (label,) = labels(figure)
    assert label.endswith("x (3 lines)")
    turns: list[Any] = [line.get_markevery() for line in lines(main_axes(figure))]
    points = [point for first, step in turns for point in range(first, 17, step)]
    assert sorted(points) == list(range(17))  # each draft length is marked, by one of the three


def test_a_line_ends_where_its_drafter_does() -> None:
    short, long = curve([1, 1.5, 1.7, np.nan, np.nan]), curve([1, 1.2, 1.3, 1.4, np.nan])
    axes = main_axes(plot_speedup_by_draft_len([short, long]))
    assert 3 < axes.get_xlim()[1] < 3.5  # three drafts are the longest that anybody knows of
    assert np.isnan(ys(lines(axes)[0])[3:]).all()


@pytest.mark.parametrize("line", [[1.0, 0.7, 0.6], [1.0, 1.1, 1.2], [1.0]])
def test_speedups_and_plain_decoding_fill_the_picture_whatever_the_free_lunch(
    line: list[float],
) -> None:
    made = curve(line)
    more = np.array([1.0, 100.0, 100.0][: len(line)])  # as much more tokens and time
    lunch = replace(
        made, tokens_per_round=made.tokens_per_round * more, round_s=made.round_s * more
    )
    axes = main_axes(plot_speedup_by_draft_len([lunch]))
    low, high = axes.get_ylim()
    assert 0 <= low < 1 < high < 1.3
    assert ys(lines(axes, style=":", several=False)[0]).tolist() == [1, 1]


def test_charts_of_requests_say_that_prefills_are_counted() -> None:
    # A step of 1 s, as many seconds a round as tokens, and prefills of 1 s a token.
    counted = curve(
        [1.0, 1.0, 1.0],
        tokens_per_round=np.array([1.0, 2.0, 3.0]),
        round_s=np.array([[[2.0, 4.0, 6.0]]]),
        request_lengths="8 tokens in, 8 out",
        request_token_s=np.array([1.0]),
    )
    for chart in (plot_speedup_by_draft_len([counted]), plot_by_batch([counted])):
        assert "prefills counted" in main_axes(chart).get_ylabel()
    # Rounds of 1 s: 2 tokens in 3 s in the place of 4, and 3 in 4 s in the place of 6.
    (lunch,) = lines(main_axes(plot_speedup_by_draft_len([counted])), style="--")
    np.testing.assert_allclose(ys(lunch), [1, 4 / 3, 6 / 4])


def test_the_legend_names_what_differs_and_the_title_what_does_not() -> None:
    one = curve([1, 1.5], drafter="ideal")
    other = replace(
        one, model="Example-70B", placement=Placement(4, 4, 2, 2, 2), batch_size=np.array([2.0])
    )
    figure = plot_speedup_by_draft_len([one, other])
    first, second = (" ".join(text.split()) for text in legend_texts(figure)[:2])
    assert first == "Example-7B on Example GPU, batch 1"
    assert second.startswith("Example-70B on 8 × Example GPU (EP 4) (DP attention 2) (DCP 2)")
    differing = {"Example-7B", "Example-70B", "batch"}
    assert not any(word in titles(figure)[1] for word in differing)
    assert "context 4096" in titles(figure)[1]


def test_a_title_says_what_a_drafter_gains_and_not_the_bound_of_a_textbook() -> None:
    bound, real = curve([1, 3.0], drafter="ideal"), curve([1, 1.5])
    found = [
        plot_speedup_by_draft_len(curves).get_suptitle() for curves in ([bound, real], [bound])
    ]
    assert ["1.50x" in found[0], "3.00x" in found[0], "3.00x" in found[1]] == [True, False, True]


# --- over batch sizes --------------------------------------------------------------------------


def test_the_best_of_each_batch_size_is_drawn() -> None:
    made = grid(2, 9)
    panels = plot_by_batch([made]).axes
    for axes, best in zip(panels, (made.best_speedup, made.best_draft_len), strict=True):
        (line,) = lines(axes)
        np.testing.assert_array_equal(xs(line), made.batch_size)
        np.testing.assert_allclose(ys(line), best[0])


def test_the_band_holds_the_drafts_within_one_percent() -> None:
    # With 1000 sequences 1.2 is the best, and 1.19 within 1% of it: drafts 1 to 3.
    made = curve([[[1, 1.5, 1.2, 1.1], [1, 1.19, 1.2, 1.199]]], batch_size=np.array([1.0, 1000.0]))
    (band,) = plot_by_batch([made]).axes[1].collections
    assert isinstance(band, PolyCollection)
    corners = np.asarray(band.get_paths()[0].vertices, dtype=np.float64)
    reach = {x: sorted(corners[corners[:, 0] == x, 1].tolist()) for x in (1.0, 1000.0)}
    assert (reach[1.0][0], reach[1.0][-1]) == (1, 1)
    assert (reach[1000.0][0], reach[1000.0][-1]) == (1, 3)


def test_curves_may_have_batch_sizes_of_their_own_in_any_order() -> None:
    one = grid(1, 3, batch_size=np.array([16.0, 1.0, 4.0]))
    other = grid(1, 2, batch_size=np.array([2.0, 16384.0]), drafter="ideal")
    axes = main_axes(plot_by_batch([one, other]))
    assert xs(lines(axes)[0]).tolist() == [1, 4, 16]
    assert ys(lines(axes)[0])[-1] == pytest.approx(one.best_speedup[0, 0])


def test_batches_without_room_leave_a_gap_in_their_line() -> None:
    roomy = grid(1, 3)
    running = np.broadcast_to(np.array([1.0, 2.0, np.nan])[:, None], roomy.round_s.shape)
    full = replace(roomy, running=running)
    upper, _ = plot_by_batch([full, full]).axes
    first, second = lines(upper)[:2]
    assert np.isfinite(ys(first)).tolist() == [True, True, False]
    assert (first.get_markevery(), second.get_markevery()) == ((0, 2), (1, 2))


def drafts_without_room(made: SpeedupCurve, batch: int) -> SpeedupCurve:
    """Return a curve whose server runs plain requests alone from one batch size on."""
    running = np.broadcast_to(made.batch_size[:, None], made.round_s.shape).copy()
    running[:, batch:, 1:] = np.nan
    return replace(made, running=running)


def test_a_batch_without_room_for_drafts_is_crossed_out_and_no_speedup_of_1() -> None:
    full = drafts_without_room(grid(1, 4), 2)
    figure = plot_by_batch([full])
    for axes in figure.axes:
        assert np.isfinite(ys(lines(axes)[0])).tolist() == [True, True, False, False]
    (crosses,) = (line for line in figure.axes[0].get_lines() if line.get_marker() == "x")
    assert xs(crosses).tolist() == [4, 8]
    assert "no room for drafts" in legend_texts(figure)
    assert not any("no room" in text for text in legend_texts(plot_by_batch([grid(1, 4)])))
    running = full.running_batch.copy()
    for batches, says in (([3], "no room for drafts, or none at all"), ([2, 3], "no room")):
        running[:, batches] = np.nan  # not of plain requests either
        assert says in legend_texts(plot_by_batch([replace(full, running=running)]))


def test_a_point_without_room_for_drafts_has_no_line() -> None:
    full = drafts_without_room(grid(1, 2), 0)
    figure = plot_speedup_by_draft_len([full, grid(1, 2)])
    assert len(lines(main_axes(figure))) == 1
    assert len(labels(figure)) == 1
    assert "Best speedup" not in plot_by_batch([full]).get_suptitle()
    nothing = plot_speedup_by_draft_len([full])
    assert (lines(main_axes(nothing)), labels(nothing)) == ([], [])


# --- the heat map ------------------------------------------------------------------------------


def test_the_map_is_the_best_draft_length() -> None:
    made = grid(5, 9)
    figure = plot_best_draft_len_map(made)
    axes = main_axes(figure)
    np.testing.assert_array_equal(axes.images[0].get_array(), made.best_draft_len)
    numbers = np.array([int(text.get_text()) for text in axes.texts])
    np.testing.assert_array_equal(numbers.reshape(5, 9), made.best_draft_len)


def test_the_map_has_no_number_where_drafts_have_no_room() -> None:
    figure = plot_best_draft_len_map(drafts_without_room(grid(2, 3), 1))
    assert [text.get_position()[0] for text in main_axes(figure).texts] == [0, 0]
    full = drafts_without_room(grid(2, 3), 0)
    assert len(main_axes(plot_best_draft_len_map(full)).texts) == 0
    running = full.running_batch.copy()
    running[0, 2] = np.nan  # not of plain requests either
    figure = plot_best_draft_len_map(replace(full, running=running))
    assert legend_texts(figure) == ["runs plain: no room for drafts", "does not fit"]
    (_, cells) = main_axes(figure).images
    assert np.argwhere(np.asarray(cells.get_array())).tolist() == [[0, 2]]


def test_numbers_can_be_read_on_their_cells() -> None:
    """The contrast of WCAG 2: (lighter + 0.05) / (darker + 0.05), of linear light."""

    def light(rgb: Floats) -> float:
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    axes = main_axes(plot_best_draft_len_map(curve(np.eye(17)[None] + 1e-3)))
    image = axes.images[0]
    cells = np.asarray(image.to_rgba(np.asarray(image.get_array()))).reshape(-1, 4)
    assert len({tuple(cell.tolist()) for cell in cells}) == 17
    for cell, text in zip(cells, axes.texts, strict=True):
        ink = np.array(to_rgb(text.get_color()))
        low, high = sorted((light(cell[:3]), light(ink)))
        assert (high + 0.05) / (low + 0.05) > 3  # what WCAG asks of large text


# --- the roofline ------------------------------------------------------------------------------


def marks(figure: Figure) -> list[PathCollection]:
    return [mark for mark in main_axes(figure).collections if isinstance(mark, PathCollection)]


@pytest.mark.parametrize(("devices", "attained"), [(1, 4e14), (4, 1e14)])
def test_marks_are_at_intensity_and_what_a_device_attains(devices: int, attained: float) -> None:
    # 2 layers x 4e11 FLOP and 2 x 1e9 bytes: 400 FLOP/B; 2 ms of memory, so 4e14 FLOP/s.
    slow = op("mlp.up_proj", compute_s=0.8e-3, memory_s=2e-3)
    (mark,) = marks(roofline([slow], devices))
    assert np.asarray(mark.get_offsets()).tolist() == [pytest.approx([400, attained])]


def test_the_roof_is_the_slope_of_the_memory_and_the_peak_of_each_dtype() -> None:
    ops = [op("a", compute_s=1, memory_s=2), op("b", compute_s=2, memory_s=1, dtype="fp8")]
    figure = roofline(ops, fp4=9e15, fp8=2e15, bf16=1e15)
    slope, *flats = main_axes(figure).get_lines()
    assert (ys(slope) / xs(slope)).tolist() == pytest.approx([1e12, 1e12])
    assert xs(slope)[-1] == 2000  # 2e15 FLOP/s of fp8, the highest peak in use, over 1e12 bytes/s
    assert [ys(flat).tolist() for flat in flats] == [[2e15, 2e15], [1e15, 1e15]]
    assert [xs(flat)[0] for flat in flats] == [2000, 1000]
    assert len({flat.get_linestyle() for flat in flats}) == 2
    assert legend_texts(figure)[1:3] == ["fp8: 2.00 PFLOP/s", "bf16: 1.00 PFLOP/s"]


def test_a_mark_is_as_large_as_its_share_of_the_time() -> None:
    figure = roofline([op("a", compute_s=9, memory_s=1), op("b", compute_s=0.1, memory_s=1)])
    assert {"memory bound", "compute bound"} < set(legend_texts(figure))
    shapes = (np.asarray(mark.get_paths()[0].vertices).shape for mark in marks(figure))
    assert len({*shapes}) == 2
    large, small = (float(mark.get_sizes()[0]) for mark in marks(figure))
    assert large == pytest.approx(12 + 0.9 * 800)
    assert small == pytest.approx(12 + 0.1 * 800)
    assert labels(figure) == ["a\n90.0% of the time", "b\n10.0% of the time"]


def test_operations_that_lie_on_one_another_share_a_label() -> None:
    ops = [
        op("mlp.up_proj", compute_s=0.1, memory_s=4),
        op("mlp.down_proj", compute_s=0.1, memory_s=3.9),
        op("lm_head", compute_s=0.05, memory_s=2, kind="head"),
        op("attention.core", compute_s=2, memory_s=0.1, kind="attention"),
    ]
    figure = roofline(ops)
    assert labels(figure)[0] == "mlp.up_proj\nmlp.down_proj\nlm_head\n83.2% of the time"
    assert len(marks(figure)) == 3  # one for each kind
    # What computes nothing has no place there.
    ops = [op("a", compute_s=1, memory_s=1), op("no arithmetic", compute_s=0, memory_s=1)]
    assert labels(roofline(ops)) == ["a\n50.0% of the time"]


# --- time per operation ------------------------------------------------------------------------


def bars(figure: Figure) -> dict[str, Rectangle]:
    axes = main_axes(figure)
    names = [text.get_text() for text in axes.get_yticklabels()]
    found = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    return dict(zip(names, found, strict=True))


def test_a_bar_is_as_long_as_its_operation_and_says_so() -> None:
    ops = [op("short", compute_s=1e-3, memory_s=0), op("long", compute_s=1e-3, memory_s=3e-3)]
    figure = plot_time_per_op(latency(ops), title="A pass")
    assert {name: bar.get_width() for name, bar in bars(figure).items()} == {
        "long": 3e-3,
        "short": 1e-3,
    }
    assert labels(figure) == ["3.00 ms, 75.0%", "1.00 ms, 25.0%"]


def test_bounds_differ_in_colour_and_hatch() -> None:
    ops = [op("arithmetic", compute_s=2, memory_s=1), op("bytes", compute_s=1, memory_s=2)]
    figure = plot_time_per_op(latency(ops, communication_s=0.5, overhead_s=0.3), title="A pass")
    drawn = bars(figure)
    assert list(drawn) == ["arithmetic", "bytes", "communication", "layers"]
    looks = {(to_hex(bar.get_facecolor()), bar.get_hatch()) for bar in drawn.values()}
    assert len(looks) == 4


def test_operations_of_one_name_share_a_bar_and_small_ones_the_last() -> None:
    ops = [op(f"{i // 2}", compute_s=0, memory_s=0.5) for i in range(36)]  # each has two
    ops += [op(f"tiny {i}", compute_s=0, memory_s=1e-3) for i in range(5)]
    drawn = bars(plot_time_per_op(latency(ops), title="A pass"))
    assert len(drawn) == 17
    assert list(drawn)[-1] == "7 others"
    assert drawn["7 others"].get_width() == pytest.approx(2.005)
    # A single small one keeps its name.
    ops = [op("large", compute_s=0, memory_s=1), op("tiny", compute_s=0, memory_s=1e-3)]
    assert list(bars(plot_time_per_op(latency(ops), title="A pass"))) == ["large", "tiny"]


def test_a_pass_that_is_shorter_than_its_operations_says_why() -> None:
    overlapped = replace(latency(some_ops(3)), work_s=np.asarray(1e-4))
    assert "add up" in titles(plot_time_per_op(overlapped, title="A pass"))[0]


def test_a_roofline_without_the_peak_of_its_operations_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^flops_per_s .*fp8; .*'bf16'"):
        roofline([op("a", compute_s=1, memory_s=1)], fp8=1e15)


def chart() -> Figure:
    return plot_speedup_by_draft_len([curve([1, 1.5, 1.2])])


def test_the_users_settings_neither_change_nor_matter() -> None:
    expected = figure_bytes(chart(), "a.svg")
    mine: Any = {"axes.facecolor": "black", "savefig.bbox": "tight", "text.usetex": True}
    with mpl.rc_context(mine):
        before = dict(mpl.rcParams)
        assert figure_bytes(chart(), "a.svg") == expected
        assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("name", "magic"),
    [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF"), ("A.PNG", b"\x89PNG")],
)
@pytest.mark.long
def test_a_chart_is_written_by_its_suffix_and_each_time_alike(name: str, magic: bytes) -> None:
    written = figure_bytes(chart(), name)
    assert written.startswith(magic)
    assert figure_bytes(chart(), name) == written


def test_a_file_has_150_dots_per_inch() -> None:
    figure = chart()
    shown = figure._repr_png_()  # type: ignore[attr-defined]  # what IPython asks for
    assert shown.startswith(b"\x89PNG")
    header = figure_bytes(figure, "a.png")[16:24]  # of a PNG: width and height
    pixels = [int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")]
    assert pixels == pytest.approx(150 * figure.get_size_inches(), abs=1)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.png.gz", ".png"])
def test_another_suffix_is_refused(name: str) -> None:
    with pytest.raises(OutputError, match=rf"^{name}.*allowed: a file that ends in \.png"):
        figure_bytes(chart(), name)
