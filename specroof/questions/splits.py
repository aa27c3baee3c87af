"""Prefill and decode workers: which a budget of devices may buy, and how busy they are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from specroof.arrays import whole_within
from specroof.errors import OptionError, refuse
from specroof.hardware.profile import HardwareProfile
from specroof.latency.setup import Setup
from specroof.report.layout import figure, format_table, wrapped
from specroof.units import format_seconds, format_si, plain_number

if TYPE_CHECKING:
    from specroof.questions.predict import Prediction
    from specroof.serving.split import Split

#: Returns where one worker of so many devices runs, on a chip; for prefill if so.
SetupOf: TypeAlias = Callable[[HardwareProfile, int, bool], Setup]
#: The largest budget whose splits are tried, and the step from one number of workers to the next,
#: as a share of it.
_MOST_DEVICES: Final = 1024
_STEPS: Final = 8
#: What says of workers how busy they are, at each point.
WORKER_ARRAYS: Final = ("decode_batch", "prefill_busy", "link_busy", "prefill_s", "transfer_s")


def dividing_setups(
    profile: HardwareProfile, most: int, setup_of: SetupOf, is_prefill: bool = False
) -> Iterator[Setup]:
    """Yield where a server or a worker runs: on 1, 2, 4 … devices, if they divide the model.

    Raises
    ------
    OptionError
        Where none of these numbers is allowed: the refusal of the last.
    """
    refusals = list[OptionError]()
    for power in range(most.bit_length()):
        try:
            setup = setup_of(profile, 2**power, is_prefill)
        except OptionError as why:  # it does not divide
            refusals.append(why)
        else:
            yield setup
    if len(refusals) == most.bit_length():
        raise refusals[-1]


def candidate_splits(
    devices: int,
    link: float | None,
    profile: HardwareProfile,
    setup_of: SetupOf,
    fits: Callable[[Setup, bool], bool],
) -> Iterator[tuple[Setup, "Split"]]:
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
    from specroof.serving.split import Split  # noqa: PLC0415 - asked for seldom

    if whole_within("devices", devices, "devices") > _MOST_DEVICES:
        refuse("devices", devices, f"up to {_MOST_DEVICES} to split")
    joined = 1 if profile.interconnect is None else profile.interconnect.max_devices
    prefills, decodes = (
        [
            replace(setup, decodes_only=not is_prefill)
            for setup in dividing_setups(profile, min(joined, devices), setup_of, is_prefill)
            if fits(setup, is_prefill)
        ]
        for is_prefill in (True, False)
    )
    for prefill in prefills:
        for decode in decodes:
            each, count = prefill.placement.devices, 1
            while left := max(devices - count * each, 0) // decode.placement.devices:
                yield decode, Split(prefill, count, left, link)
                count += max(1, count // _STEPS)


# --- What the page and ``--json`` say of them -----------------------------------------------------


def _sides(setup: Setup, split: "Split") -> list[tuple[int, Setup, str]]:
    """Return how many workers of each kind there are, and where one of them runs."""
    return [
        (split.prefill_workers, split.prefill, "prefill"),
        (split.decode_workers, setup, "decode"),
    ]


def split_name(setup: Setup, split: "Split | None") -> str:
    """Return how many devices there are, and how many workers of each kind have how many."""
    if split is None:
        return f"{setup.placement.devices} x {setup.hardware.name}"
    sides = _sides(setup, split)
    chips = list(dict.fromkeys(where.hardware.name for _, where, _ in sides))
    workers = ", ".join(
        f"{count} x {where.placement.devices} {f'{where.hardware.name} ' * (len(chips) > 1)}{what}"
        for count, where, what in sides
    )
    return workers if len(chips) > 1 else f"{split.devices(setup)} x {chips[0]} ({workers})"


#: What the columns of workers are.
_COLUMNS: Final = (
    "batch: requests that each decode worker has; off: these workers without drafts; prefill: waiting "
    "included"
)


def split_text(
    prediction: "Prediction", split: "Split", choices: Sequence[tuple[int, int, int]]
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
                plain_number(prediction.load.batch_size[load]),
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
    yield f"{table}\n{wrapped(_COLUMNS)}"


def split_json(setup: Setup, split: "Split") -> dict[str, Any]:
    """Return the workers as ``--json`` prints them."""
    rate = split.bytes_per_s(setup)
    return {
        "devices": split.devices(setup),
        "link_bytes_per_s": None if np.isinf(rate) else rate,
        **{
            name: {
                "workers": count,
                "hardware": where.hardware.name,
                "engine": where.engine.full_name,
                "placement": asdict(where.placement),
            }
            for count, where, name in _sides(setup, split)
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
