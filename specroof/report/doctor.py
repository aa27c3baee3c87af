"""A server's counts beside a prediction, and the advice, on one page."""

import textwrap
from collections.abc import Callable, Iterator

from specroof.questions.diagnosed import Compared
from specroof.questions.doctor import Diagnosis
from specroof.report.layout import figure, format_table, page
from specroof.serving.observed import Observed
from specroof.units import format_seconds

#: Characters of a line, but for flags, which are pasted, and notes.
WIDTH = 80


def doctor_text(found: Diagnosis) -> str:
    """Return the counts, measured beside predicted figures, advice and flags."""
    seen = found.observed
    rows = [[name, value, how] for name, value, how in _counted(seen, found.context_len)]
    return page(
        found,
        format_table(["counted", "", "how"], rows, left=[0, 2]),
        _compared_table(found.compared),
        "\n".join(textwrap.fill(one, WIDTH) for one in found.advice),
        _flags(found),
    )


def _counted(seen: Observed, context_len: float) -> Iterator[list[str]]:
    """Yield name, value and origin of everything that was counted."""
    if seen.seconds is not None:
        yield ["time between the reads", format_seconds(seen.seconds), ""]
    if seen.running is not None:
        yield ["running requests", f"{seen.running:.1f}", seen.running_from]
    if seen.waiting is not None:
        yield ["waiting requests", f"{seen.waiting:.1f}", "as the server showed it"]
    yield ["context", f"{context_len:.0f}", "" if seen.input_len is None else _lengths(seen)]
    yield from _drafted(seen)


def _drafted(seen: Observed) -> Iterator[list[str]]:
    if not seen.speculates:
        yield ["drafts per round", "off", ""]
    elif seen.draft_len is not None:
        share = f"{1.0 if seen.drafted_frac is None else seen.drafted_frac:.0%}"
        some = "" if share == "100%" else f"in {share} of "
        rounds = f"{some}{seen.rounds:.0f} rounds of requests"
        yield ["drafts per round", f"{seen.draft_len:.3g}", rounds]
    if seen.speculates and seen.tokens_per_round is not None:
        yield ["tokens per round", f"{seen.tokens_per_round:.2f}", seen.length_from]
    if seen.round_s is not None:
        name = "round" if seen.speculates else "step"
        yield [name, format_seconds(seen.round_s), seen.round_from]
    if seen.survival:
        shares = " ".join(f"{share:.2f}" for share in seen.survival[:8])
        yield ["accepted by position", "", shares + " …" * (len(seen.survival) > 8)]


def _lengths(seen: Observed) -> str:
    return f"{seen.input_len:.0f} tokens in, {seen.output_len or 0:.0f} out, means"


def _compared_table(rows: tuple[Compared, ...]) -> str:
    cells = [
        [
            one.quantity,
            figure(one.measured, _spelt(one)),
            figure(one.predicted, _spelt(one)),
            figure(one.off, "{:+.1%}".format),
        ]
        for one in rows
    ]
    return format_table(["", "measured", "predicted", "off"], cells)


def _spelt(row: Compared) -> Callable[[float], str]:
    if row.unit == "s":
        return format_seconds
    return "{:.0f}".format if row.unit else "{:.2f}".format


def _flags(found: Diagnosis) -> str:
    if found.flags is None:
        return ""
    files = (f"{name}:\n{text.rstrip()}" for name, text in found.flags.files.items())
    return "\n".join([f"flags of {found.flags.release}:", found.flags.text, *files])
