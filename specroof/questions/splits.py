"""Prefill and decode workers of advice: which there may be, how busy they are, how they start."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from specroof.arrays import to_json_array, whole_within
from specroof.errors import OptionError, refuse, reject
from specroof.hardware import HardwareProfile
from specroof.latency import Setup
from specroof.questions.advised_loads import AdvisedLoad
from specroof.questions.predict import Prediction
from specroof.questions.request import hardware_of
from specroof.report.layout import format_table, wrapped
from specroof.serving.end_to_end import WorkerLoads
from specroof.serving.split import Split
from specroof.units import format_seconds, format_si

_WORKERS: Final = re.compile(r"(\d+)x(\d+)(?:@(.+))?")
#: The largest budget whose splits are tried, and the step from one number of workers to the next,
#: as a share of it.
_MOST_DEVICES: Final = 1024
_STEPS: Final = 8
#: Gives where one worker of so many devices runs, on a chip; for prefill if so.
SetupOf = Callable[[HardwareProfile, int, bool], Setup]


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


def candidate_splits(
    given: tuple[str | None, str | None, int | None, float | None],
    profile: HardwareProfile,
    setup_of: SetupOf,
    fits: Callable[[Setup, bool], bool],
) -> Iterator[tuple[Setup, Split]]:
    """Yield where a decode worker runs, and the workers, as told or for a budget of devices.

    Parameters
    ----------
    given
        Prefill and decode workers, or the devices to split; and the link in bytes/s.
    profile
        The chip of the decode workers.
    setup_of
        See `SetupOf`.
    fits
        Whether a worker holds the model and a request; of prefill if so.

    Raises
    ------
    OptionError
        For workers that are not understood, or given together with a budget.
    """
    prefill, decode, devices, link = given
    if devices is not None:
        if prefill is not None or decode is not None:
            reject("devices is given with prefill or decode", "one of both")
        yield from _splits(
            whole_within("devices", devices, "devices"), link, profile, setup_of, fits
        )
        return
    if prefill is None or decode is None:
        missing = "prefill" if prefill is None else "decode"
        reject(f"{missing} is missing", "workers of both kinds, as in 2x4 and 1x8")
    n_prefill, prefill_devices, chip = workers_of("prefill", prefill)
    n_decode, decode_devices, other = workers_of("decode", decode)
    if other is not None:
        refuse("decode", decode, "no chip: decode workers run on that of --hardware")
    own = profile if chip is None else hardware_of(chip)
    sides = (
        ("prefill", prefill, own, prefill_devices),
        ("decode", decode, profile, decode_devices),
    )
    setups = []
    for name, text, where, count in sides:
        try:
            setups.append(setup_of(where, count, name == "prefill"))
        except OptionError as refusal:
            message = f"{name} is {text!r}: {refusal}"
            raise OptionError(message) from refusal
    setup = setups[1]
    split = Split(setups[0], n_prefill, n_decode, link)
    for worker, is_prefill in ((split.prefill, True), (setup, False)):
        if not fits(worker, is_prefill):
            return
    yield setup, split


def _splits(
    devices: int,
    link: float | None,
    profile: HardwareProfile,
    setup_of: SetupOf,
    fits: Callable[[Setup, bool], bool],
) -> Iterator[tuple[Setup, Split]]:
    """Yield the splits of a budget; workers have 1, 2, 4 … devices that one link joins.

    Of prefill workers every number up to 16, then such that lie an eighth apart.
    """
    if devices > _MOST_DEVICES:
        refuse("devices", devices, f"up to {_MOST_DEVICES} to split")
    joined = 1 if profile.interconnect is None else profile.interconnect.max_devices
    workers: dict[bool, list[Setup]] = {True: [], False: []}
    for is_prefill, size in (
        (is_prefill, 2**power)
        for is_prefill in workers
        for power in range(min(joined, devices).bit_length())
    ):
        try:
            setup = setup_of(profile, size, is_prefill)
        except OptionError:  # it does not divide
            continue
        if fits(setup, is_prefill):
            workers[is_prefill].append(setup)
    for prefill in workers[True]:
        for decode in workers[False]:
            each, count = prefill.placement.devices, 1
            while left := max(devices - count * each, 0) // decode.placement.devices:
                yield decode, Split(prefill, count, left, link)
                count += max(1, count // _STEPS)


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


def split_sentence(setup: Setup, split: Split) -> str:
    """Return the workers and their link in a sentence."""
    rate = format_si(split.bytes_per_s(setup), "B/s")
    return f"Workers: {split_name(setup, split)}; caches move at up to {rate} from each device."


def _loads(prediction: Prediction, row: AdvisedLoad) -> tuple[WorkerLoads, int]:
    whole = prediction.end_to_end[row.drafter]
    return whole.workers, list(prediction.load.batch_size).index(row.concurrency)  # type: ignore[return-value]  # of a split


def split_table(prediction: Prediction, rows: Sequence[AdvisedLoad]) -> str:
    """Return how busy workers are at each load, without drafts and with those that are advised."""
    header = ["load", "batch off", "on", "prefill busy off", "on", "prefill", "transfer"]
    header += ["tok/s/device off", "on"]
    lines = []
    for row in rows:
        workers, i = _loads(prediction, row)
        ends = (0, i, 0), (0, i, row.draft_len)
        lines.append(
            [
                f"{row.concurrency:g}",
                *(f"{workers.decode_batch[at]:.1f}" for at in ends),
                *(f"{workers.prefill_busy[at]:.0%}" for at in ends),
                *(format_seconds(s[ends[1]]) for s in (workers.prefill_s, workers.transfer_s)),
                *(
                    f"{times.tokens_per_s / workers.devices:.0f}"
                    for times in (row.plain, row.times)
                ),
            ]
        )
    table = format_table(header, lines, left=[])
    return f"{table}\n{wrapped('batch: requests that each decode worker has; prefill: waiting included')}"


def split_json(
    setup: Setup,
    split: Split,
    prediction: Prediction,
    rows: Sequence[AdvisedLoad],
    flags: dict[str, dict[str, str]],
) -> dict[str, Any]:
    """Return the workers, and how busy they are, as ``--json`` prints them."""
    loads = []
    for row in rows:
        workers, i = _loads(prediction, row)
        loads.append(
            {"concurrency": row.concurrency}
            | {
                side: {
                    name: to_json_array(np.asarray(getattr(workers, name)[0, i, drafts]))
                    for name in (
                        *("decode_batch", "prefill_busy", "link_busy"),
                        *("prefill_s", "transfer_s"),
                    )
                }
                | {"tokens_per_s_per_device": times.tokens_per_s / workers.devices}
                for side, drafts, times in (
                    ("plain", 0, row.plain),
                    ("advised", row.draft_len, row.times),
                )
            }
        )
    return {
        "devices": split.devices(setup),
        "link_bytes_per_s": to_json_array(split.bytes_per_s(setup)),
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
        "loads": loads,
        "flags": flags,
    }


def worker_schedule(
    schedule: Sequence[tuple[int, int, int]], prediction: Prediction, drafter: int
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
