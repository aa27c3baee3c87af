"""`specroof predict`: speedup curves of several drafters on one grid."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from specroof.cli.flags import (
    CHIPS,
    OPTIONS,
    REQUESTS,
    SETUP,
    AsJson,
    Asked,
    CsvFile,
    Flag,
    batch_flag,
    context_flag,
    flags,
    numbers,
    plot_option,
    shared,
    whole_numbers,
)
from specroof.cli.output import figure_files, give, text_file
from specroof.questions.predict import (
    Prediction,
    predict_each,
    prediction_csv,
    prediction_text,
    predictions_json,
)
from specroof.questions.predict import predict as asked
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN

_FLAGS = {
    **shared("model"),
    "hardware": CHIPS,
    **shared("drafters"),
    "batch_size": batch_flag("1"),
    "context_len": context_flag("4096"),
    "concurrency": Flag("Requests in flight, comma-separated. Replaces --batch.", read=numbers),
    "max_draft_len": Flag("Longest draft tried.", shown=str(DEFAULT_MAX_DRAFT_LEN)),
    "draft_len": Flag(
        "Drafts per round to show side by side, as in 1,2,3.", read=whole_numbers, shown="none"
    ),
    **shared("cost_of", "capacity"),
}
PlotFile = Annotated[
    Path | None,
    plot_option(
        "Draw speedup against draft length. Several batch sizes add best speedup against batch "
        "size (NAME-by-batch), several contexts a map (NAME-map). With --input-len, speedups count "
        "prefills."
    ),
]


@flags(asked, _FLAGS, REQUESTS, SETUP, OPTIONS)
def predict(
    ask: Asked, as_json: AsJson = False, csv_file: CsvFile = None, plot_file: PlotFile = None
) -> None:
    """Predict the speedup of speculative decoding and the best draft length.

    Example: specroof predict deepseek-ai/DeepSeek-V4-Pro -H b200 --tp 8 --batch 1,32
    --drafter ideal --drafter autoregressive,accept=0.75,cost=0.10
    --drafter block,accept=0.89,cost=0.10,drafts=16
    """
    chips = ask["hardware"]
    found = predict_each(**ask)
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
        yield figure_files(path, one.figures)
