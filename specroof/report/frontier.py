"""Frontiers, as tables."""

from specroof.questions.frontier import FrontierAnswer, FrontierPoint
from specroof.report.layout import figure, format_table, in_line, page
from specroof.units import MILLION, MILLISECOND, format_price, format_seconds


def frontier_text(found: FrontierAnswer) -> str:
    """Return a frontier for each series with its cheapest point marked, and the cheapest of all."""
    header = ["per user", "per device", "devices", "batch", "γ", "$/Mtok", "MJ/Mtok"]
    header += ["TTFT", ""] if found.workload else [""]
    parts = []
    for one in found.series:
        rows = [[*_cells(point), "cheapest" * (point == one.cheapest)] for point in one.points]
        table = format_table(header, rows, left=[len(header) - 1]) if rows else "no batch has room"
        parts.append(f"{in_line(one.name)} (tokens/s)\n{table}")
    return page(found, *parts, _cheapest(found))


def _cells(point: FrontierPoint) -> list[str]:
    return [
        f"{point.tokens_per_s_per_user:.1f}",
        f"{point.tokens_per_s_per_device:.0f}",
        f"{point.devices}",
        f"{point.batch_size:g}",
        f"{point.draft_len}",
        figure(point.usd_per_million_tokens, format_price),
        figure(point.joules_per_million_tokens, lambda joules: format_price(joules / MILLION)),
        *([] if point.ttft_s is None else [format_seconds(point.ttft_s)]),
    ]


def _cheapest(found: FrontierAnswer) -> str:
    """Return the cheapest point that is fast enough, in one line."""
    wanted = "" if found.tpot_s is None else f" within {found.tpot_s / MILLISECOND:g} ms per token"
    best = found.cheapest
    if best is None:
        return f"no point{wanted}"
    name, point = best
    price = point.usd_per_million_tokens
    told = "" if price is None else f", ${format_price(price)} per million tokens"
    return in_line(
        f"cheapest{wanted}: {name}, γ = {point.draft_len}, batch {point.batch_size:g} on "
        f"{point.devices} device{'s' * (point.devices > 1)}: {point.tokens_per_s_per_device:.0f} tokens/s each{told}"
    )
