"""`specroof predict`: speedup curves of several drafters on one grid."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from specroof.cli.flags import (
    AsJson,
    CostOf,
    CsvFile,
    Drafters,
    Group,
    ModelWord,
    NoCapacity,
    OptionFlags,
    Read,
    RequestFlags,
    SetupFlags,
    SeveralChips,
    batch_option,
    context_option,
    plot_option,
)
from specroof.cli.grouping import flags, given
from specroof.cli.lists import numbers, whole_numbers, words
from specroof.cli.output import figure_files, give, text_file
from specroof.questions.lists import several
from specroof.questions.predict import DEFAULT_MAX_DRAFT_LEN
from specroof.questions.predict import predict as asked
from specroof.questions.prediction import Prediction
from specroof.questions.request import hardware_of
from specroof.report.prediction import prediction_csv, prediction_text, predictions_json


@dataclass(frozen=True, kw_only=True)
class Flags(Group):
    """Fields of `specroof.questions.predict.PredictRequest`."""

    model: ModelWord
    hardware: SeveralChips
    drafters: Drafters
    batch_size: Annotated[str | None, batch_option("1"), Read(numbers)] = None
    context_len: Annotated[str | None, context_option("4096"), Read(numbers)] = None
    concurrency: Annotated[
        str | None,
        typer.Option(help="Requests in flight, comma-separated. Replaces --batch."),
        Read(numbers),
    ] = None
    max_draft_len: Annotated[
        int | None,
        typer.Option(help="Longest draft tried.", show_default=str(DEFAULT_MAX_DRAFT_LEN)),
    ] = None
    draft_len: Annotated[
        str | None,
        typer.Option(
            help="Drafts per round to show side by side, as in 1,2,3.", show_default="none"
        ),
        Read(whole_numbers),
    ] = None
    cost_of: CostOf = "decode"
    no_capacity: NoCapacity = False


PlotFile = Annotated[
    Path | None,
    plot_option(
        "Draw speedup against draft length. Several batch sizes add best speedup against batch "
        "size (NAME-by-batch), several contexts a map (NAME-map). With --input-len, speedups count "
        "prefills."
    ),
]


@flags
def predict(  # noqa: PLR0913, PLR0917 - groups of flags
    ask: Flags,
    requests: RequestFlags,
    setup: SetupFlags,
    options: OptionFlags,
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Predict the speedup of speculative decoding and the best draft length.

    Example: specroof predict deepseek-ai/DeepSeek-V4-Pro -H b200 --tp 8 --batch 1,32
    --drafter ideal --drafter autoregressive,accept=0.75,cost=0.10
    --drafter block,accept=0.89,cost=0.10,drafts=16
    """
    chips = words("--hardware", ask.hardware)
    profiles = several("hardware", chips, hardware_of)
    found = [asked(**given(ask, requests, setup, options) | {"hardware": one}) for one in profiles]
    give(
        lambda: predictions_json(found),
        lambda: "\n\n".join(map(prediction_text, found)),
        text_file(csv_file, lambda: prediction_csv(*found)),
        *_figures(plot_file, chips, found),
        as_json=as_json,
    )


def _figures(
    plot_file: Path | None, chips: Sequence[str], found: Sequence[Prediction]
) -> Iterator[dict[Path, bytes]]:
    """Yield the charts of each chip; of several, each under the name of its chip."""
    for chip, one in zip(chips, found, strict=True):
        path = plot_file
        if path is not None and len(chips) > 1:
            path = path.with_stem(f"{path.stem}-{Path(chip).stem}")
        yield figure_files(path, partial(_drawn, one))


def _drawn(found: Prediction, plot: Any) -> Any:
    return plot.speedup_figures(found.drawn)
