"""The command line: parse, call, print. No arithmetic, and one place where refusals are caught."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from specroof import catalog, report
from specroof.architecture import Architecture
from specroof.cost import CHOICES, ForwardPass, Options, kv_bytes_per_token, state_bytes
from specroof.drafters import KINDS
from specroof.errors import OptionError, OutputError, SpecroofError
from specroof.hardware import HardwareProfile, Placement
from specroof.solver import DEFAULT_MAX_DRAFT_LEN, SpeedupCurve, forward_latency, speedup_curve

__all__ = ["app", "main"]

# What is wrong with the words of a command: an unknown flag, a missing argument.
_UsageError: Final = typer.BadParameter.__bases__[0]

#: Batch sizes at which `predict` looks whether drafting pays, besides those asked for.
_SURVEYED_BATCHES: Final = [2.0**power for power in range(11)]


class _OneLineGroup(typer.core.TyperGroup):
    """A group of commands whose refusals are one line on standard error and exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; every `SpecroofError` and every misspelt call ends here."""
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except SpecroofError as refusal:
            _refuse(str(refusal))
        except typer.Abort:
            _refuse("aborted")
        except Exception as failure:
            if not isinstance(failure, _UsageError):
                raise
            _refuse(failure.format_message())  # type: ignore[attr-defined]  # a usage error has it
        sys.exit(code if isinstance(code, int) else 0)


def _refuse(message: str) -> None:
    typer.echo(f"specroof: {' '.join(message.split())}", err=True)
    sys.exit(2)


app = typer.Typer(
    cls=_OneLineGroup,
    name="specroof",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Predict what speculative decoding gains, by analysis, without a GPU.",
    epilog="Start with: specroof predict Qwen/Qwen3-8B -H b200 --batch 1,8,32 "
    "--drafter autoregressive,accept=0.75,cost=0.10",
)

models_app = typer.Typer(help="List the bundled models, or show one.")
hardware_app = typer.Typer(help="List the hardware profiles, show one, or check your own file.")
app.add_typer(models_app, name="models")
app.add_typer(hardware_app, name="hardware")


# --- words -------------------------------------------------------------------------------------


def _complete(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.casefold().startswith(incomplete.casefold())]

    return complete


def _choice(name: str, *words: str, help_text: str) -> Any:
    """Return an option that takes one of the `CHOICES` of `Options`."""
    return typer.Option(
        *words,
        metavar="|".join(CHOICES[name]),
        help=help_text,
        autocompletion=_complete(lambda: CHOICES[name]),
    )


ModelWord = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A config.json, a bundled model or a Hub name (ORG/NAME).",
        autocompletion=_complete(catalog.model_names),
    ),
]
HardwareWord = Annotated[
    str,
    typer.Option(
        "--hardware",
        "-H",
        help="A YAML file, or a name or alias of `specroof hardware`.",
        autocompletion=_complete(catalog.hardware_names),
    ),
]
TensorParallel = Annotated[int, typer.Option("--tp", help="Devices: tensor parallelism.")]
ExpertParallel = Annotated[int, typer.Option("--ep", help="Devices that experts are spread over.")]
AttentionData = Annotated[
    int, typer.Option("--dp-attention", help="Groups of devices with sequences of their own.")
]
Engine = Annotated[
    str | None,
    typer.Option(help="An engine of the hardware profile; `ideal` reaches every peak."),
]
Granularity = Annotated[
    str, _choice("granularity", "--granularity", help_text="What max(compute, memory) is over.")
]
ExpertsRead = Annotated[
    str, _choice("experts", "--experts", help_text="How distinct experts are counted.")
]
Count = Annotated[str, _choice("count", "--count", help_text="Which operations are counted.")]
RecurrentState = Annotated[
    str,
    _choice(
        "recurrent_state",
        "--recurrent-state",
        help_text="How a verification keeps linear attention's state recoverable.",
    ),
]
StateDtype = Annotated[
    str | None, _choice("state_dtype", "--state-dtype", help_text="Dtype of recurrent state.")
]
KvDtype = Annotated[
    str | None, _choice("kv_dtype", "--kv-cache", help_text="Dtype of cached keys and values.")
]
WeightDtype = Annotated[
    str | None, _choice("weight_dtype", "--weights", help_text="Format of the weights.")
]
StrictDtype = Annotated[
    bool, typer.Option("--strict-dtype", help="Refuse a chip that lacks a dtype.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on one line.")]
CsvFile = Annotated[Path | None, typer.Option("--csv", help="Write every point as CSV.")]


def _numbers(word: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        message = f"{word} is {text!r}; allowed: numbers separated by commas, such as 1,8,32"
        raise OptionError(message) from None


def _options(**choices: Any) -> Options:
    words = {"kv_dtype": "--kv-cache", "weight_dtype": "--weights"}
    for name, value in choices.items():
        if value is not None and value not in CHOICES.get(name, (value,)):
            word = words.get(name, f"--{name.replace('_', '-')}")
            message = f"{word} is {value!r}; allowed: {', '.join(CHOICES[name])}"
            raise OptionError(message)
    return Options(**choices)


def _figure_files(path: Path, figures: dict[str, Any]) -> dict[Path, bytes]:
    """Return figures as files: the first as `path`, others beside it under longer names."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    return {
        path.with_stem(path.stem + suffix): plot.figure_bytes(figure, path.suffix)
        for suffix, figure in figures.items()
    }


def _say(text: str) -> None:
    typer.echo(text)


def _written(paths: Iterable[Path]) -> None:
    for path in paths:
        typer.echo(f"wrote {path}", err=True)


# --- predict -----------------------------------------------------------------------------------


@app.command()
def predict(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    model: ModelWord,
    hardware: HardwareWord,
    drafter: Annotated[
        list[str],
        typer.Option(
            metavar="SPEC",
            help=f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}. Acceptance: "
            f"{', '.join(f'{key}=' for key in catalog.ACCEPTANCE_KEYS)}.",
            autocompletion=_complete(lambda: KINDS),
        ),
    ],
    tensor_parallel: TensorParallel = 1,
    expert_parallel: ExpertParallel = 1,
    attention_data_parallel: AttentionData = 1,
    engine: Engine = None,
    batch: Annotated[str, typer.Option(help="Sequences in flight, comma-separated.")] = "1",
    context: Annotated[str, typer.Option(help="Cached tokens each, comma-separated.")] = "4096",
    max_draft_len: Annotated[
        int | None,
        typer.Option(help="Longest draft tried.", show_default=str(DEFAULT_MAX_DRAFT_LEN)),
    ] = None,
    granularity: Granularity = "op",
    experts: ExpertsRead = "exact",
    count: Count = "all",
    recurrent_state: RecurrentState = "snapshot",
    state_dtype: StateDtype = None,
    kv_dtype: KvDtype = None,
    weight_dtype: WeightDtype = None,
    cost_of: Annotated[
        str, _choice("cost_of", "--cost-of", help_text="What a drafter's cost is a share of.")
    ] = "decode",
    strict_dtype: StrictDtype = False,
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            help="Draw speedup against draft length; with several batch sizes also best speedup "
            "against batch size (NAME-by-batch), with several contexts too a map (NAME-map).",
        ),
    ] = None,
) -> None:
    """Predict the speedup of speculative decoding and the best draft length.

    Example: specroof predict deepseek-ai/DeepSeek-V4-Pro -H b200 --tp 8 --batch 1,32
    --drafter ideal --drafter autoregressive,accept=0.75,cost=0.10
    --drafter block,accept=0.89,cost=0.10,drafts=16
    """
    loaded, profile = catalog.load_model(model), catalog.load_hardware(hardware)
    grid: dict[str, Any] = {
        "context_len": _numbers("--context", context),
        "placement": Placement(tensor_parallel, expert_parallel, attention_data_parallel),
        "engine": engine,
        "options": _options(
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
    batches = _numbers("--batch", batch)
    curves = [
        speedup_curve(
            loaded, profile, drafter=one, batch_size=batches, max_draft_len=max_draft_len, **grid
        )
        for one in drafters
    ]
    files: dict[Path, bytes] = {}
    if csv_file is not None:
        files[csv_file] = report.curves_csv(curves).encode()
    if plot_file is not None:
        files |= _figure_files(plot_file, _curve_figures(curves))
    catalog.write_files(files)
    _written(files)
    if as_json:
        _say(report.json_line(report.curves_json(curves)))
        return
    surveyed = sorted({*batches, *_SURVEYED_BATCHES})
    survey = [
        speedup_curve(loaded, profile, drafter=one, batch_size=surveyed, **grid) for one in drafters
    ]
    notes = dict.fromkeys(note for curve in curves for note in curve.notes)
    _say(report.curves_table(curves))
    _say("\n" + report.pays_lines(survey))
    for note in [*loaded.notes, *notes]:
        _say(f"note: {note}")


def _curve_figures(curves: Sequence[SpeedupCurve]) -> dict[str, Any]:
    """Return the charts that a grid of this shape can show, by what their names end in."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    figures: dict[str, Any] = {"": plot.plot_speedup_by_draft_len(curves)}
    if len(curves[0].batch_size) > 1:
        figures["-by-batch"] = plot.plot_by_batch(curves)
        if len(curves[0].context_len) > 1:
            figures["-map"] = plot.plot_best_draft_len_map(curves[0])
    return figures


# --- sweep -------------------------------------------------------------------------------------


@app.command()
def sweep(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY.yaml", help="A study file, or the bundled study `demo`."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write CSV, JSON and charts here."),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of a study file.")
    ] = False,
) -> None:
    """Run a study: several models x hardware x drafters.

    The file is validated whole before anything is computed. Its keys: format_version (1), targets
    (a list of model, hardware, tensor_parallel, expert_parallel, attention_data_parallel),
    drafters (SPECs), batch_size, context_len, max_draft_len, engine, options.
    """
    from specroof.study import load_study, run_study, study_schema  # noqa: PLC0415 - pydantic

    if schema:
        _say(report.json_line(study_schema()))
        return
    if study is None:
        message = "STUDY.yaml is missing; allowed: a study file, or --schema"
        raise OptionError(message)
    loaded = load_study(study)
    steps = len(loaded.targets) * len(loaded.drafters)
    with typer.progressbar(length=steps, label="curves", file=sys.stderr) as bar:
        results = run_study(loaded, lambda: bar.update(1))
    for curves in results:
        _say(report.curves_table(curves) + "\n")
    for note in dict.fromkeys(note for curves in results for one in curves for note in one.notes):
        _say(f"note: {note}")
    if output is not None:
        files = _study_files(output, results)
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            message = f"{output}: {failure.strerror}; allowed: a folder that can be written to"
            raise OutputError(message) from None
        catalog.write_files(files)
        _written(files)


def _study_files(output: Path, results: Sequence[Sequence[SpeedupCurve]]) -> dict[Path, bytes]:
    """Return every file of a study: tables, and the charts of each target and of all together."""
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    every = [curve for curves in results for curve in curves]
    files = {
        output / "results.csv": report.curves_csv(every).encode(),
        output / "results.json": report.json_line(
            [report.curves_json(curves) for curves in results]
        ).encode()
        + b"\n",
    }
    for number, curves in enumerate(results, start=1):
        files |= _figure_files(output / f"target-{number}.png", _curve_figures(curves))
    if len(every[0].batch_size) > 1:
        by_batch = {"": plot.plot_speedup_by_batch(every)}
        files |= _figure_files(output / "best-speedup-by-batch-size.png", by_batch)
    return files


# --- explain -----------------------------------------------------------------------------------


@app.command()
def explain(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    model: ModelWord,
    hardware: HardwareWord,
    batch: Annotated[float, typer.Option(help="Sequences in flight.")] = 1,
    context: Annotated[float, typer.Option(help="Cached tokens each.")] = 4096,
    query_len: Annotated[
        int, typer.Option(help="New positions each: 1 decodes, γ + 1 verifies.")
    ] = 1,
    tensor_parallel: TensorParallel = 1,
    expert_parallel: ExpertParallel = 1,
    attention_data_parallel: AttentionData = 1,
    engine: Engine = None,
    granularity: Granularity = "op",
    experts: ExpertsRead = "exact",
    count: Count = "all",
    recurrent_state: RecurrentState = "snapshot",
    state_dtype: StateDtype = None,
    kv_dtype: KvDtype = None,
    weight_dtype: WeightDtype = None,
    strict_dtype: StrictDtype = False,
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the roofline, and time per operation (NAME-time)."),
    ] = None,
) -> None:
    """Show where one pass spends its time: FLOP, bytes, bound and seconds per operation."""
    loaded, profile = catalog.load_model(model), catalog.load_hardware(hardware)
    placement = Placement(tensor_parallel, expert_parallel, attention_data_parallel)
    try:
        forward = ForwardPass(batch, query_len, context)
    except ValueError as refusal:
        raise OptionError(str(refusal)) from None
    latency = forward_latency(
        loaded,
        profile,
        forward,
        placement=placement,
        engine=engine,
        options=_options(
            granularity=granularity,
            experts=experts,
            count=count,
            recurrent_state=recurrent_state,
            state_dtype=state_dtype,
            kv_dtype=kv_dtype,
            weight_dtype=weight_dtype,
            strict_dtype=strict_dtype,
        ),
    )
    rows = report.explain_rows(latency)
    title = (
        f"{loaded.name} on {placement.devices} x {profile.name}, batch {batch:g}, "
        f"context {context:g}, {query_len} new per sequence"
    )
    files = {} if csv_file is None else {csv_file: report.rows_csv(rows).encode()}
    if plot_file is not None:
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        roofline = plot.plot_roofline(
            latency,
            flops_per_s=profile.peak.flops_per_s,
            memory_bytes_per_s=profile.peak.memory_bytes_per_s,
            title=title,
        )
        bars = plot.plot_time_per_op(latency, title=title)
        files |= _figure_files(plot_file, {"": roofline, "-time": bars})
    catalog.write_files(files)
    _written(files)
    if as_json:
        _say(
            report.json_line(
                {
                    "model": loaded.name,
                    "hardware": profile.name,
                    "total_s": float(latency.total_s),
                    "notes": [*latency.notes],
                    "ops": rows,
                }
            )
        )
        return
    _say(report.explain_table(latency, title))
    for note in [*loaded.notes, *latency.notes]:
        _say(f"note: {note}")


# --- models ------------------------------------------------------------------------------------


@models_app.callback(invoke_without_command=True)
def list_models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the bundled models: parameters, active parameters, KV bytes per token, layers."""
    if context.invoked_subcommand is not None:
        return
    rows = [_model_row(name, catalog.load_model(name)) for name in catalog.model_names()]
    _say(report.json_line(rows) if as_json else report.models_table(rows))


@models_app.command("show")
def show_model(model: ModelWord, as_json: AsJson = False) -> None:
    """Show one model, bundled or not: its sizes, its layers, what it caches."""
    loaded = catalog.load_model(model)
    row = _model_row(model, loaded)
    _say(report.json_line(row) if as_json else report.model_text(row))


def _model_row(name: str, model: Architecture) -> dict[str, Any]:
    return {
        "name": name,
        "family": model.family,
        "params": model.n_params,
        "active_params": model.n_active_params,
        "weight_bytes": model.weight_bytes,
        "kv_bytes_per_token": kv_bytes_per_token(model),
        "state_bytes": state_bytes(model),
        "layers": model.n_layers,
        "layer_kinds": model.layer_kinds,
        "notes": list(model.notes),
    }


# --- hardware ----------------------------------------------------------------------------------


@hardware_app.callback(invoke_without_command=True)
def list_hardware(context: typer.Context, as_json: AsJson = False) -> None:
    """List the hardware profiles: peaks, memory, engines."""
    if context.invoked_subcommand is not None:
        return
    rows = [_hardware_row(name, catalog.load_hardware(name)) for name in catalog.hardware_names()]
    _say(report.json_line(rows) if as_json else report.hardware_table(rows))


HardwareName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A YAML file, a name or an alias.",
        autocompletion=_complete(catalog.hardware_names),
    ),
]


@hardware_app.command("show")
def show_hardware(name: HardwareName, as_json: AsJson = False) -> None:
    """Show one profile with the source of each figure."""
    profile = catalog.load_hardware(name)
    row = _hardware_row(name, profile)
    _say(report.json_line(row) if as_json else report.hardware_text(row))


@hardware_app.command("check")
def check_hardware(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Your own YAML file.")],
) -> None:
    """Check a hardware file: every key, every figure, every source."""
    profile = catalog.load_hardware(file)
    _say(f"{file}: {profile.name}, all figures valid and sourced")


def _hardware_row(name: str, profile: HardwareProfile) -> dict[str, Any]:
    return {"name": name, **profile.model_dump(exclude={"name"}), "title": profile.name}


def main() -> None:
    """Run the command line."""
    app()
