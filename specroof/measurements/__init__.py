"""Published measurements, one small table a source, and how each figure was read.

A table is a CSV under lines ``# key: value`` that say where its figures come from, on what they
were measured, and how its counts of drafts were brought to ours: `draft_len` drafts make a round of
`verify_len` verified positions, and an acceptance length includes the bonus token.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from specroof.measurements.record import Measurement, Source
from specroof.measurements.tables import parse_measurements

__all__ = [
    "Measurement",
    "Source",
    "load_measurements",
    "measurement_sources",
    "parse_measurements",
]

#: Sources beyond say more about an engine's version or a consumer's desk than about a roofline.
_TRUSTED: Final = 4


@cache
def _tables() -> dict[str, tuple[Source, tuple[Measurement, ...]]]:
    files = sorted(Path(__file__).parent.glob("*.csv"))
    return {
        file.stem: parse_measurements(file.read_text(encoding="utf-8"), source=file.stem)
        for file in files
    }


def load_measurements(trust: int = _TRUSTED) -> tuple[Measurement, ...]:
    """Return the bundled measurements.

    Parameters
    ----------
    trust
        The largest trust order to include: 1 for step times, 2 and 3 for tables with both arms,
        4 where the engine's own overhead decides, 5 where it is all that can be seen.

    Examples
    --------
    >>> fast = [one for one in load_measurements() if one.source == "dflash-table3"]
    >>> fast[1].tokens_per_s, fast[1].baseline_tokens_per_s, fast[1].acceptance_length
    (1531.0, 316.0, 8.01)
    """
    return tuple(
        one for source, rows in _tables().values() if source.trust <= trust for one in rows
    )


def measurement_sources() -> Mapping[str, Source]:
    """Return where the measurements come from, by the name that they carry.

    Examples
    --------
    >>> measurement_sources()["dflash-table3"].url
    'https://arxiv.org/abs/2602.06036'
    """
    return {name: source for name, (source, _) in _tables().items()}
