"""`specroof validate`: predictions against published measurements, or against your own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from specroof import catalog, report
from specroof.cli.benchmarks import (
    BENCH_HELP,
    BenchEngine,
    DrafterWord,
    DraftLen,
    load_benchmark,
)
from specroof.cli.flags import (
    AsJson,
    Family,
    KvDtype,
    WeightDtype,
    completion,
    figure_files,
    options_of,
    say,
    say_notes,
    say_written,
)
from specroof.errors import OptionError
from specroof.hardware import Placement
from specroof.latency import engine_setup, option_notes
from specroof.speedup.served import Served

__all__ = ["validate"]


def validate(  # noqa: PLR0913, PLR0917 - one parameter per flag
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[BENCH…]", help=BENCH_HELP, show_default=False)
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            "-H",
            help="What BENCH ran on: a YAML file, or a name or alias of `specroof hardware`.",
            autocompletion=completion(catalog.hardware_names),
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="What BENCH served: as MODEL of `specroof predict`."),
    ] = None,
    family: Family = None,
    tensor_parallel: Annotated[
        int | None, typer.Option("--tp", help="Devices: tensor parallelism.", show_default="1")
    ] = None,
    expert_parallel: Annotated[
        int | None,
        typer.Option("--ep", help="Devices that experts are spread over.", show_default="1"),
    ] = None,
    engine: BenchEngine = None,
    kv_dtype: KvDtype = None,
    weight_dtype: WeightDtype = None,
    drafter: DrafterWord = None,
    draft_len: DraftLen = None,
    as_json: AsJson = False,
    plot_file: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            help="Draw predicted against measured: speedup by source, or throughput of BENCH.",
        ),
    ] = None,
) -> None:
    """Compare predictions with your own results, or with every bundled measurement.

    With BENCH, results are read as by `specroof calibrate`, and each is compared with what is
    predicted for it, by the engine profile and by the ideal roofline. Where one load was measured
    with drafts and without, speedups are compared too.

    Without, each bundled source is predicted by engine profiles that were fitted without it.
    Speedups count where a source states the acceptance length; other tables of speedups are
    compared by shape.

    Example: specroof validate bench.jsonl -H b200 --model Qwen/Qwen3-8B --drafter eagle3
    """
    about_files = {
        "--hardware": hardware,
        "--model": model,
        "--family": family,
        "--tp": tensor_parallel,
        "--ep": expert_parallel,
        "--engine": engine,
        "--kv-cache": kv_dtype,
        "--weights": weight_dtype,
        "--drafter": drafter,
        "--draft-len": draft_len,
    }
    if not files:
        _refuse_without_files(about_files)
        _published(as_json=as_json, plot_file=plot_file)
        return
    if hardware is None or model is None:
        missing = "--hardware" if hardware is None else "--model"
        message = f"{missing} is missing; needed to predict {files[0]}: what served it, on what"
        raise OptionError(message)
    from specroof.report.calibration import in_sample_notes  # noqa: PLC0415
    from specroof.report.validation import own_json, own_text  # noqa: PLC0415 - reads measurements
    from specroof.validate.own_results import own_validation  # noqa: PLC0415

    options = options_of(kv_dtype=kv_dtype, weight_dtype=weight_dtype)
    bench = load_benchmark(
        files,
        model=model,
        hardware=hardware,
        family=family,
        engine=engine,
        drafter=drafter,
        draft_len=draft_len,
    )
    placement = Placement(tensor_parallel or 1, expert_parallel or 1)
    setup = engine_setup(bench.hardware, bench.engine, placement, options)
    found = own_validation(bench.points, Served(bench.model, setup), bench.drafter)
    if plot_file is not None:
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        rates = [(one.source, one.rate) for one in found.points]
        roof = [(one.source, one.rate) for one in found.ideal]
        _draw(plot_file, plot.plot_throughput_accuracy(rates, roof, engine=setup.engine.name))
    notes = [
        *bench.notes,
        *option_notes(bench.model, options),
        *in_sample_notes(bench.labels, bench.hardware, setup.engine.name),
    ]
    if as_json:
        say(report.json_line({**own_json(found), "notes": notes}))
        return
    title = f"{bench.model.name} on {placement.devices} x {bench.hardware.name}"
    say(f"{title}, engine {setup.engine.name}\n\n{own_text(found)}")
    say_notes(notes)


def _refuse_without_files(options: Mapping[str, object]) -> None:
    """Refuse what says how to predict results, where there are none."""
    for word, value in options.items():
        if value is not None:
            message = f"{word} is {value!r} without benchmark files; allowed: with BENCH, a file"
            raise OptionError(message)


def _published(*, as_json: bool, plot_file: Path | None) -> None:
    """Compare predictions with the bundled measurements."""
    from specroof.report.validation import validation_json, validation_table  # noqa: PLC0415
    from specroof.validate import validation  # noqa: PLC0415 - reads all measurements

    found = validation()
    if plot_file is not None:
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        _draw(plot_file, plot.plot_accuracy(found.points))
    say(report.json_line(validation_json(found)) if as_json else validation_table(found))


def _draw(path: Path, figure: Any) -> None:
    files = figure_files(path, {"": figure})
    catalog.write_files(files)
    say_written(files)
