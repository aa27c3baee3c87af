"""A curve at a glance: the best of it at some of its loads, however many it has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array, fields_of, to_json_array
from specroof.speedup.result import SpeedupCurve

#: Loads of a curve that are looked at: what a page can show.
_MOST_CONTEXTS: Final = 12
_MOST_BATCHES: Final = 32
#: What is known of each of them.
_TABLES: Final = (
    *("best_draft_len", "best_speedup", "drafts_run", "pays"),
    *(q.TOKENS_PER_S.name, q.PRICE.name),
)


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """The best of one curve at some of its loads.

    Parameters
    ----------
    target, drafter_number, workload
        Positions in the study, from 1.
    model, hardware, engine, drafter
        Names.
    devices
        How many.
    requests
        What is answered, such as "4000 tokens in, 1000 out"; empty where decoding alone counts.
    is_by_rate
        Whether loads are rates at which requests come, not batch sizes.
    context_len, batch_size
        The loads, ascending; rates in requests/s in the place of batch sizes.
    best_draft_len, best_speedup, tokens_per_s
        There, axes (context_len, batch_size); NaN where nothing runs. Prefills count where
        requests are answered.
    usd_per_million_tokens
        There; NaN where no price is known.
    drafts_run
        1 where the server has room for a draft, else 0.
    pays
        1 where drafts are decided to be on, 0.5 where that is unclear, else 0.
    """

    target: int
    drafter_number: int
    workload: int
    model: str
    hardware: str
    engine: str
    drafter: str
    devices: int
    requests: str
    is_by_rate: bool
    context_len: Array
    batch_size: Array
    best_draft_len: Array
    best_speedup: Array
    tokens_per_s: Array
    usd_per_million_tokens: Array
    drafts_run: Array
    pays: Array

    def to_dict(self) -> dict[str, Any]:
        """Return the overview as JSON has it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: to_json_array(value) if isinstance(value, np.ndarray) else value
            for name, value in values.items()
        }

    @classmethod
    def of(
        cls,
        curve: SpeedupCurve,
        context_len: Sequence[float],
        batch_size: Sequence[float],
        position: tuple[int, int, int],
        devices: int,
        *,
        is_by_rate: bool = False,
    ) -> "Overview":
        """Return an overview that `fill` has still to fill.

        Parameters
        ----------
        curve
            A part of the curve, or all of it.
        context_len, batch_size
            All loads of the curve, of which some are looked at.
        position
            Of the target, the drafter and the workload in the study, from 1.
        devices
            Devices of the target, of all its workers.
        is_by_rate
            Whether `batch_size` are rates.
        """
        contexts = _thinned(context_len, _MOST_CONTEXTS)
        batches = _thinned(batch_size, _MOST_BATCHES)
        shape = contexts.size, batches.size
        empty: dict[str, Any] = {
            name: np.full(shape, 0.0 if name in ("drafts_run", "pays") else np.nan)
            for name in _TABLES
        }
        return cls(
            *position,
            **fields_of(curve, "model", "hardware", "engine", "drafter", "requests") | empty,
            devices=devices,
            is_by_rate=is_by_rate,
            context_len=contexts,
            batch_size=batches,
        )

    def fill(self, part: Mapping[str, Any]) -> None:
        """Put the loads of a part of the curve that are looked at into their places.

        Parameters
        ----------
        part
            ``context_len`` and ``batch_size``, and the tables there, by their names here; None for
            what is not known.
        """
        contexts, batches = part["context_len"], part["batch_size"]
        rows = np.flatnonzero(np.isin(contexts, self.context_len))
        columns = np.flatnonzero(np.isin(batches, self.batch_size))
        here = np.ix_(rows, columns)
        there = np.ix_(
            np.searchsorted(self.context_len, contexts[rows]),
            np.searchsorted(self.batch_size, batches[columns]),
        )
        for name in _TABLES:
            if part[name] is not None:
                getattr(self, name)[there] = part[name][here]

    @classmethod
    def from_dict(cls, content: Any) -> "Overview":
        """Return the overview that `to_dict` gave.

        Raises
        ------
        ValueError
            For anything that it does not give; files hold it, and files get damaged.
        """
        kinds = {field.name: field.type for field in fields(cls)}
        if not isinstance(content, Mapping) or content.keys() != kinds.keys():
            message = "has other keys than an overview"
            raise ValueError(message)
        values = {name: _read(kinds[name], value) for name, value in content.items()}
        overview = cls(**values)
        axes = (overview.context_len, overview.batch_size)
        whole = (overview.target, overview.drafter_number)
        shape = tuple(axis.size for axis in axes)
        tables = [getattr(overview, name) for name in _TABLES]
        if (
            min(*whole, overview.workload, overview.devices, *shape) < 1
            or any(axis.ndim != 1 or not (np.diff(axis) > 0).all() for axis in axes)
            or any(table.shape != shape for table in tables)
            or any((array < 0).any() or np.isinf(array).any() for array in (*axes, *tables))
            or any(np.isnan(array).any() for array in (*axes, overview.drafts_run))
        ):
            message = "has figures that no overview has"
            raise ValueError(message)
        return overview


def _read(kind: Any, value: Any) -> Any:
    """Return the value of a field as JSON has it; a ValueError for one of another kind."""
    if kind is Array:
        try:
            return np.asarray(value if isinstance(value, list) else None, dtype=np.float64)
        except (TypeError, OverflowError) as failure:  # lists of text, of objects; long numbers
            raise ValueError(failure) from None
    if type(value) is not kind:  # a bool is an int to Python
        message = f"is {type(value).__name__}"
        raise ValueError(message)
    return value


def _thinned(values: Sequence[float], most: int) -> Array:
    """Return at most `most` of some values, ascending, the ends among them."""
    axis = np.unique(np.asarray(values, dtype=np.float64))
    places = np.unique(np.linspace(0, axis.size - 1, most).round().astype(int))
    return np.asarray(axis[places])
