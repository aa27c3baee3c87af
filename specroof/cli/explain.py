"""`specroof explain`: where one pass spends its time."""

from pathlib import Path
from typing import Annotated

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
    figure_files,
    joined_files,
    options_of,
    say,
    say_notes,
    write_outputs,
)
from specroof.cost import ForwardPass
from specroof.errors import OptionError
from specroof.hardware import Placement
from specroof.serving.requests import prefill_pass, time_to_first_token_s
from specroof.speedup.curve import forward_latency
from specroof.units import format_seconds

__all__ = ["explain"]


def explain(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    model: ModelWord,
    hardware: HardwareWord,
    batch: Annotated[float, typer.Option(help="Sequences in flight.")] = 1,
    context: Annotated[
        float | None,
        typer.Option(help="Cached tokens each.", show_default="4096; 0 with --prefill"),
    ] = None,
    query_len: Annotated[
        int | None,
        typer.Option(
            help="New positions each: 1 decodes, γ + 1 verifies; with --prefill the prompt.",
            show_default="1",
        ),
    ] = None,
    prefill: Annotated[
        bool,
        typer.Option(
            "--prefill",
            help="Price a prompt of --query-len, not a verification: logits and recurrent state "
            "of the last position only. Shows the time to the first token.",
        ),
    ] = False,
    family: Family = None,
    tensor_parallel: TensorParallel = 1,
    expert_parallel: ExpertParallel = 1,
    attention_data_parallel: AttentionData = 1,
    engine: Engine = None,
    granularity: Granularity = "op",
    experts: ExpertsRead = None,
    count: Count = "all",
    recurrent_state: RecurrentState = None,
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
    """Show where one pass spends its time: FLOP, bytes, bound and seconds per operation.

    Example: specroof explain Qwen/Qwen3-8B -H b200 --batch 32 for a plain step, with
    --query-len 4 for the verification of 3 drafts; with --prefill --query-len 8192 for a prompt.
    """
    loaded = catalog.load_model(model, family=family)
    profile = catalog.load_hardware(hardware)
    placement = Placement(tensor_parallel, expert_parallel, attention_data_parallel)
    forward = _forward_pass(batch=batch, query_len=query_len, context=context, prefill=prefill)
    latency = forward_latency(
        loaded,
        profile,
        forward,
        placement=placement,
        engine=engine,
        options=options_of(
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
        f"context {forward.context:g}, {forward.queries:g} new per sequence, "
        f"engine {profile.engine(engine).name}"
    )
    first_token_s = None
    if prefill:
        title += " (prefill)"
        first_token_s = time_to_first_token_s(
            float(latency.total_s),
            batch_size=batch,
            request_overhead_s=profile.engine(engine).request_overhead_s,
        )
    files = {} if csv_file is None else {csv_file: report.rows_csv(rows).encode()}
    if plot_file is not None:
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        roofline = plot.plot_roofline(
            latency,
            flops_per_s=profile.peak.flops_per_s,
            memory_bytes_per_s=profile.peak.memory_bytes_per_s,
            devices=placement.devices,
            title=title,
        )
        bars = plot.plot_time_per_op(latency, title=title)
        files = joined_files(files, figure_files(plot_file, {"": roofline, "-time": bars}))
    write_outputs(files, as_json=as_json)
    if as_json:
        say(
            report.json_line(
                {
                    "model": loaded.name,
                    "hardware": profile.name,
                    "engine": profile.engine(engine).name,
                    "total_s": float(latency.total_s),
                    **({"time_to_first_token_s": first_token_s} if prefill else {}),
                    "notes": [*latency.notes],
                    "ops": rows,
                }
            )
        )
        return
    say(report.explain_table(latency, title))
    if first_token_s is not None:
        say(f"\ntime to first token: {format_seconds(first_token_s)}")
    say_notes(latency.notes)


def _forward_pass(
    *, batch: float, query_len: int | None, context: float | None, prefill: bool
) -> ForwardPass:
    """Return the pass that the words of the command ask for.

    Raises
    ------
    OptionError
        For a prefill without the length of its prompt, and numbers that no pass has.
    """
    try:
        if not prefill:
            new = 1 if query_len is None else query_len
            return ForwardPass(batch, new, 4096 if context is None else context)
        if query_len is None:
            message = "--query-len is missing; needed with --prefill: the tokens of the prompt"
            raise OptionError(message)
        return prefill_pass(query_len, batch_size=batch, context_len=context or 0)
    except ValueError as refusal:
        raise OptionError(str(refusal)) from None
