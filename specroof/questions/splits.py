"""Prefill and decode workers: which there may be, how busy they are, how they are told."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from specroof.architecture import Architecture
from specroof.arrays import whole_within
from specroof.errors import OptionError, refuse, reject
from specroof.hardware import IDEAL_ENGINE, HardwareProfile, Placement
from specroof.latency import Deployment, Setup, check_placement
from specroof.questions.request import (
    PLAYED_ON_ONE,
    PlayedParameters,
    WorkerParameters,
    WorkerRequest,
    hardware_of,
    model_of,
)
from specroof.report.layout import figure, format_table, wrapped
from specroof.serving.capacity import served_room
from specroof.serving.split import Split
from specroof.units import format_seconds, format_si

if TYPE_CHECKING:
    from specroof.questions.predict import Prediction

_WORKERS: Final = re.compile(r"(\d+)x(\d+)(?:@(.+))?")
#: The largest budget whose splits are tried, and the step from one number of workers to the next,
#: as a share of it.
_MOST_DEVICES: Final = 1024
_STEPS: Final = 8
#: Returns where one worker of so many devices runs, on a chip; for prefill if so.
SetupOf = Callable[[HardwareProfile, int, bool], Setup]


# --- Which workers there are ----------------------------------------------------------------------


def workers_of(name: str, text: object) -> tuple[int, int, str | None]:
    """Return workers, the devices of each, and the chip that is named.

    Raises
    ------
    OptionError
        For text that is not understood.

    Examples
    --------
    >>> workers_of("prefill", "2x4@h100"), workers_of("decode", "1x8")
    ((2, 4, 'h100'), (1, 8, None))
    """
    match = _WORKERS.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        refuse(name, text, "workers x devices of each, as in 2x4, with @CHIP after --prefill")
    counts = [whole_within(name, int(count), "devices") for count in match.groups()[:2]]
    return counts[0], counts[1], match[3]


def split_of(
    told: WorkerParameters, profile: HardwareProfile, setup_of: SetupOf
) -> tuple[Setup, Split]:
    """Return where one decode worker runs, and the workers.

    Parameters
    ----------
    told
        Workers of both kinds, and the link.
    profile
        The chip of the decode workers.
    setup_of
        See `SetupOf`.

    Raises
    ------
    OptionError
        For workers that are not understood, or missing, or that do not divide the model.
    """
    if told.prefill is None or told.decode is None:
        missing = "prefill" if told.prefill is None else "decode"
        reject(f"{missing} is missing", "workers of both kinds, as in 2x4 and 1x8")
    n_prefill, prefill_devices, chip = workers_of("prefill", told.prefill)
    n_decode, decode_devices, other = workers_of("decode", told.decode)
    if other is not None:
        refuse("decode", told.decode, "no chip: decode workers run on that of --hardware")
    setups = []
    for name, text, where, devices in (
        ("prefill", told.prefill, profile if chip is None else hardware_of(chip), prefill_devices),
        ("decode", told.decode, profile, decode_devices),
    ):
        try:
            setups.append(setup_of(where, devices, name == "prefill"))
        except OptionError as refusal:
            message = f"{name} is {text!r}: {refusal}"
            raise OptionError(message) from refusal
    return replace(setups[1], decodes_only=True), Split(setups[0], n_prefill, n_decode, told.link)


def candidate_splits(
    devices: int,
    link: float | None,
    profile: HardwareProfile,
    setup_of: SetupOf,
    fits: Callable[[Setup, bool], bool],
) -> Iterator[tuple[Setup, Split]]:
    """Yield where a decode worker runs, and the workers, for a budget of devices.

    Workers have 1, 2, 4 … devices that one link joins. Of prefill workers there is every number up
    to 16, then such that lie an eighth apart.

    Parameters
    ----------
    devices, link, profile
        The budget; bytes/s of the link; the chip.
    setup_of
        See `SetupOf`.
    fits
        Whether a worker holds the model and a request; of prefill if so.

    Raises
    ------
    OptionError
        For more devices than are tried.
    """
    if whole_within("devices", devices, "devices") > _MOST_DEVICES:
        refuse("devices", devices, f"up to {_MOST_DEVICES} to split")
    joined = 1 if profile.interconnect is None else profile.interconnect.max_devices
    workers: dict[bool, list[Setup]] = {True: [], False: []}
    for is_prefill, found in workers.items():
        for power in range(min(joined, devices).bit_length()):
            try:
                setup = setup_of(profile, 2**power, is_prefill)
            except OptionError:  # it does not divide
                continue
            if fits(setup, is_prefill):
                found.append(replace(setup, decodes_only=not is_prefill))
    for prefill in workers[True]:
        for decode in workers[False]:
            each, count = prefill.placement.devices, 1
            while left := max(devices - count * each, 0) // decode.placement.devices:
                yield decode, Split(prefill, count, left, link)
                count += max(1, count // _STEPS)


def split_deployment(request: WorkerRequest) -> tuple[Deployment, Split]:
    """Return what a decode worker serves, where, and the workers of a question.

    Degrees of parallelism are those of decode workers; a prefill worker splits every layer over its
    devices.

    Raises
    ------
    SpecroofError
        As `split_of` does; for devices that are told besides, for a link alone, for requests that
        are played through, and for prefill workers that do not hold the model.
    """
    if (request.prefill, request.decode) == (None, None):
        refuse("link", request.link, "none where one server does both")
    if request.tensor_parallel != 1:
        refuse("tensor_parallel", request.tensor_parallel, "none beside workers, which say theirs")
    if isinstance(request, PlayedParameters) and request.is_played:
        refuse("prefill", request.prefill, PLAYED_ON_ONE)
    model = model_of(request.model, request.family)

    def setup_of(chip: HardwareProfile, devices: int, is_prefill: bool) -> Setup:
        place = {**(asdict(Placement()) if is_prefill else {}), "tensor_parallel": devices}
        worker = replace(request, model=model, family=None, hardware=chip, **place).resolved()
        check_placement(model, worker.setup.placement)
        return worker.setup

    setup, split = split_of(request, hardware_of(request.hardware), setup_of)
    check_prefill(model, split, request.prefill)
    return Deployment(model, setup), split


def check_prefill(model: Architecture, split: Split, told: object) -> None:
    """Refuse prefill workers that do not hold the model; of the ideal engine memory has no end.

    Raises
    ------
    OptionError
        With the workers as they were told.
    """
    prefill = Deployment(model, split.prefill)
    is_endless = split.prefill.engine == IDEAL_ENGINE
    if not is_endless and served_room(prefill, context_len=1.0).largest_batch < 1:
        refuse("prefill", told, f"workers that hold {model.name}")


# --- What the page and ``--json`` say of them -----------------------------------------------------


def split_name(setup: Setup, split: Split) -> str:
    """Return the workers in words."""
    sides = (
        (split.prefill_workers, split.prefill, "prefill"),
        (split.decode_workers, setup, "decode"),
    )
    return ", ".join(
        f"{count} x {where.placement.devices} {where.hardware.name} {what}"
        for count, where, what in sides
    )


def split_text(
    prediction: "Prediction", split: Split, choices: Sequence[tuple[int, int, int]]
) -> Iterator[str]:
    """Yield the workers and their link, and how busy they are without drafts and with.

    Parameters
    ----------
    prediction
        Of requests on these workers.
    split
        The workers.
    choices
        Of each row a drafter, a load and the drafts per round, by their positions.
    """
    rate = format_si(split.bytes_per_s(prediction.setup), "B/s")
    name = split_name(prediction.setup, split)
    yield wrapped(f"Workers: {name}; caches move at up to {rate} from each device.")
    header = ["load", "γ", "batch off", "on", "prefill busy off", "on", "prefill", "transfer"]
    header += ["tok/s/device off", "on"]
    lines = []
    for drafter, load, drafts in choices:
        whole = prediction.end_to_end[drafter]
        workers, per_device = whole.workers, whole.tokens_per_s / prediction.devices
        ends = (0, load, 0), (0, load, drafts)

        def cells(values: Any, how: Callable[[float], str], ends: Any = ends) -> list[str]:
            return [figure(values[end], how) for end in ends]

        lines.append(
            [
                f"{prediction.load.batch_size[load]:g}",
                str(drafts or "none"),
                *cells(workers.decode_batch, "{:.1f}".format),  # type: ignore[union-attr]  # of a split
                *cells(workers.prefill_busy, "{:.0%}".format),  # type: ignore[union-attr]
                *cells(workers.prefill_s, format_seconds, ends[1:]),  # type: ignore[union-attr]
                *cells(workers.transfer_s, format_seconds, ends[1:]),  # type: ignore[union-attr]
                *cells(per_device, "{:.0f}".format),
                *[prediction.drafters[drafter].name] * (len(prediction.drafters) > 1),
            ]
        )
    header += ["drafter"] * (len(prediction.drafters) > 1)
    table = format_table(header, lines, left=[10])
    yield f"{table}\n{wrapped('batch: requests that each decode worker has; prefill: waiting included')}"


def split_json(setup: Setup, split: Split) -> dict[str, Any]:
    """Return the workers as ``--json`` prints them."""
    rate = split.bytes_per_s(setup)
    return {
        "devices": split.devices(setup),
        "link_bytes_per_s": None if np.isinf(rate) else rate,
        **{
            name: {
                "workers": count,
                "hardware": where.hardware.name,
                "engine": where.engine.name,
                "placement": asdict(where.placement),
            }
            for name, count, where in (
                ("prefill", split.prefill_workers, split.prefill),
                ("decode", split.decode_workers, setup),
            )
        },
    }


def worker_schedule(
    schedule: Sequence[tuple[int, int, int]], prediction: "Prediction", drafter: int
) -> tuple[tuple[int, int, int], ...]:
    """Return a schedule over requests in flight as one over those that a decode worker runs.

    Parameters
    ----------
    schedule
        Ranges of requests in flight, from 1 on: first, last and drafts per round.
    prediction
        Of the split.
    drafter
        The index of the one that drafts.
    """
    workers = prediction.end_to_end[drafter].workers
    ranges: list[tuple[int, int, int]] = []
    first = 1
    for _, last, drafts in schedule:
        batches = workers.decode_batch[0, :, drafts]  # type: ignore[union-attr]  # of a split
        most = max(round(float(np.interp(last, prediction.load.batch_size, batches))), 1)
        if most >= first:
            ranges.append((first, most, drafts))
            first = most + 1
        elif not any(drafted for _, _, drafted in ranges):
            ranges[-1] = (*ranges[-1][:2], drafts)
    return tuple(ranges)
