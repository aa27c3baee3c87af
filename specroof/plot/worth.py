"""The gains of better drafters against acceptance length."""

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from specroof.plot.style import add_legend, house_style, look, new_chart, plain_line

if TYPE_CHECKING:
    from specroof.questions.worth import Worth


@house_style()
def plot_worth(found: "Worth") -> Figure:
    """Draw speedup above the users that are served fast enough, both against acceptance length.

    Parameters
    ----------
    found
        From `specroof.worth`.
    """
    chart = new_chart(found.title, width=8, height=5.4)
    upper, lower = chart.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    lengths = [row.accept_length for row in found.rows]
    plain = plain_line(upper)
    upper.plot(lengths, [row.speedup for row in found.rows], **look(0))
    for row in found.rows:
        place = (row.accept_length, row.speedup)
        upper.annotate(
            f"γ {row.best_draft_len}", place, xytext=(0, 7), textcoords="offset points", ha="center"
        )
    upper.margins(y=0.2)
    upper.set_ylabel("Best speedup (×)")
    lower.plot(lengths, [row.users for row in found.rows], **look(1))
    lower.set_ylim(0, 1.1 * max(1, *(row.users for row in found.rows)))
    lower.set_ylabel("Users served fast enough")
    lower.set_xlabel(f"Acceptance length with {found.draft_len} drafts (tokens, bonus included)")
    add_legend(chart, [plain])
    return chart
