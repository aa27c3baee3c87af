"""`specroof validate`: predictions against published measurements, or against your own."""

from pathlib import Path
from typing import Annotated

from specroof.catalog import hardware_names
from specroof.cli.flags import (
    BENCH_HELP,
    FORMATS,
    RESULTS,
    AsJson,
    Asked,
    Flag,
    flags,
    plot_option,
    shared,
)
from specroof.cli.output import figure_files, give
from specroof.questions.validate import validate as asked

_FLAGS = {
    "results": Flag(BENCH_HELP, "[BENCH…]", kind=list[Path], shown=False),
    "hardware": Flag(
        "Hardware that BENCH ran on: a YAML file, or a name or alias that `specroof hardware` "
        "lists.",
        "--hardware -H",
        names=hardware_names,
    ),
    "model": Flag(
        "Model that BENCH served: a config.json, a bundled model or a Hub name.", "--model"
    ),
    "tensor_parallel": Flag("Devices (tensor parallelism).", "--tp", shown="1"),
    **shared("expert_parallel", shown="1"),
}
PlotFile = Annotated[
    Path | None,
    plot_option("Draw predicted against measured: speedup by source, or throughput of BENCH."),
]


@flags(asked, _FLAGS, RESULTS, FORMATS)
def validate(ask: Asked, as_json: AsJson = False, plot_file: PlotFile = None) -> None:
    """Compare predictions with your own results, or with every bundled measurement.

    With BENCH, the command predicts each result by the engine profile and by the ideal roofline.
    Where one load was measured with drafts and without, it compares speedups too.

    Without BENCH, it predicts each bundled source by engine profiles that were fitted without
    that source. Speedups count where a source states the acceptance length; other tables of
    speedups are compared by shape.

    Example: specroof validate bench.jsonl -H b200 --model Qwen/Qwen3-8B --drafter eagle3
    """
    found = asked(**ask)
    from specroof.questions.validate import validated_text  # noqa: PLC0415 - reads fits

    give(
        found.to_dict,
        lambda: validated_text(found),
        figure_files(plot_file, lambda: {"": found.plot()}),
        as_json=as_json,
    )
