"""`specroof predict`: speedup curves of several drafters on one grid."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from specroof import catalog, report
from specroof.cli.flags import (
    AsJson,
    AttentionData,
    Count,
    CsvFile,
    Engine,
    ExpertParallel,
    ExpertsRead,
    Family,
    Granularity,
    HardwareWord,
    KvDtype,
    ModelWord,
    RecurrentState,
    StateDtype,
    StrictDtype,
    TensorParallel,
    WeightDtype,
    choice,
    completion,
    figure_files,
    joined_files,
    options_of,
    say,
    say_notes,
    say_written,
)
from specroof.cli.loads import (
    Batch,
    Concurrency,
    Context,
    InputLen,
    OutputLen,
    load_of,
)
from specroof.drafters import KINDS
from specroof.hardware import Placement
from specroof.latency import engine_setup
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN, SpeedupCurve, speedup_curve

__all__ = ["curve_figures", "predict"]

#: Batch sizes at which `predict` looks whether drafting pays, besides those asked for.
_SURVEYED_BATCHES: Final = [2.0**power for power in range(11)]


def predict(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    model: ModelWord,
    hardware: HardwareWord,
    drafter: Annotated[
        list[str],
        typer.Option(
            metavar="SPEC",
            help=f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}. Acceptance: "
            f"{', '.join(f'{key}=' for key in catalog.ACCEPTANCE_KEYS)}.",
            autocompletion=completion(lambda: KINDS),
        ),
    ],
    family: Family = None,
    tensor_parallel: TensorParallel = 1,
    expert_parallel: ExpertParallel = 1,
    attention_data_parallel: AttentionData = 1,
    engine: Engine = None,
    batch: Batch = None,
    context: Context = None,
    input_len: InputLen = None,
    output_len: OutputLen = None,
    concurrency: Concurrency = None,
    max_draft_len: Annotated[
        int | None,
        typer.Option(help="Longest draft tried.", show_default=str(DEFAULT_MAX_DRAFT_LEN)),
    ] = None,
    granularity: Granularity = "op",
    experts: ExpertsRead = None,
    count: Count = "all",
    recurrent_state: RecurrentState = None,
    state_dtype: StateDtype = None,
    kv_dtype: KvDtype = None,
    weight_dtype: WeightDtype = None,
    cost_of: Annotated[
        str, choice("cost_of", "--cost-of", help_text="What a drafter's cost is a share of.")
    ] = "decode",
    strict_dtype: StrictDtype = False,
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            help="Draw speedup against draft length; with several batch sizes also best speedup "
            "against batch size (NAME-by-batch), with several contexts a map (NAME-map). With "
            "--input-len the speedups have prefills counted.",
        ),
    ] = None,
) -> None:
    """Predict the speedup of speculative decoding and the best draft length.

    Example: specroof predict deepseek-ai/DeepSeek-V4-Pro -H b200 --tp 8 --batch 1,32
    --drafter ideal --drafter autoregressive,accept=0.75,cost=0.10
    --drafter block,accept=0.89,cost=0.10,drafts=16
    """
    load = load_of(
        batch=batch,
        context=context,
        input_len=input_len,
        output_len=output_len,
        concurrency=concurrency,
    )
    loaded = catalog.load_model(model, family=family)
    profile = catalog.load_hardware(hardware)
    grid: dict[str, Any] = {
        "context_len": load.context_len,
        "placement": Placement(tensor_parallel, expert_parallel, attention_data_parallel),
        "engine": engine,
        "options": options_of(
            granularity=granularity,
            experts=experts,
            count=count,
            recurrent_state=recurrent_state,
            state_dtype=state_dtype,
            kv_dtype=kv_dtype,
            weight_dtype=weight_dtype,
            cost_of=cost_of,
            strict_dtype=strict_dtype,
        ),
    }
    drafters = [catalog.load_drafter(spec) for spec in drafter]
    batches = load.batch_size
    curves = [
        speedup_curve(
            loaded, profile, drafter=one, batch_size=batches, max_draft_len=max_draft_len, **grid
        )
        for one in drafters
    ]
    setup = engine_setup(profile, engine, grid["placement"], grid["options"])
    counted = load.counted(curves, loaded, setup)
    files: dict[Path, bytes] = {}
    if csv_file is not None:
        files[csv_file] = report.curves_csv(curves, counted).encode()
    if plot_file is not None:
        drawn = [whole.curve for whole in counted] or curves
        files = joined_files(files, figure_files(plot_file, curve_figures(drawn)))
    catalog.write_files(files)
    say_written(files)
    if as_json:
        say(report.json_line(report.curves_json(curves, counted)))
        return
    surveyed = sorted({*batches, *_SURVEYED_BATCHES})
    survey = [
        speedup_curve(loaded, profile, drafter=one, batch_size=surveyed, **grid) for one in drafters
    ]
    notes = dict.fromkeys(note for curve in curves for note in curve.notes)
    say(report.curves_table(curves))
    if counted:
        say("\n" + report.counted_table(curves, counted))
    say("\n" + report.pays_lines(survey))
    say("\n" + report.source_lines(curves) + "\n")
    say_notes(notes)


def curve_figures(curves: Sequence[SpeedupCurve]) -> dict[str, Any]:
    """Return the charts that a grid of this shape can show, by what their names end in."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    figures: dict[str, Any] = {"": plot.plot_speedup_by_draft_len(curves)}
    if len(curves[0].batch_size) > 1:
        figures["-by-batch"] = plot.plot_by_batch(curves)
    if len(curves[0].context_len) > 1:
        figures["-map"] = plot.plot_best_draft_len_map(curves[0])
    return figures
