"""Results of a sweep, read back as tables."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specroof.errors import CatalogError
from specroof.questions.overview import Overview
from specroof.report.arrow import data_library
from specroof.report.notebook import facts_html
from specroof.sweeps.partition import POINTS, UNFINISHED
from specroof.sweeps.places import Place, place_of
from specroof.sweeps.run import MANIFEST


@dataclass(frozen=True, slots=True)
class Results:
    """What a sweep wrote.

    Parameters
    ----------
    folder
        Where.
    manifest
        What the folder says of itself: study, version, whether it is done.
    """

    folder: str
    manifest: dict[str, Any]

    def __repr__(self) -> str:
        """Return one line."""
        state = "done" if self.done else "not done"
        return f"<Results: {self.folder}, {self.manifest['points']} points, {state}>"

    @property
    def done(self) -> bool:
        """Whether all of the study is there."""
        return bool(self.manifest["done"])

    @property
    def overviews(self) -> list[Overview]:
        """The best of each curve at some of its loads; none before the sweep is done."""
        return [
            Overview.from_dict(one)
            for record in self.manifest["partitions"]
            for one in record["overviews"]
        ]

    def frames(self) -> Iterator[Any]:
        """Yield the points as pandas data frames, a file at a time."""
        place, form = place_of(self.folder), self.manifest["format"]
        written = {name.partition(".")[0] for name in place.names(UNFINISHED) if ".json" in name}
        for name in place.names(POINTS):
            if self.done or name.partition(".")[0] in written:
                yield _frame(place, f"{POINTS}/{name}", form)

    def to_frame(self) -> Any:
        """Return all points as one pandas data frame."""
        return data_library("pandas").concat(self.frames(), ignore_index=True)

    def to_arrow(self) -> Any:
        """Return all points as one Arrow table; needs pyarrow."""
        pa = data_library("pyarrow")
        tables = [pa.Table.from_pandas(frame, preserve_index=False) for frame in self.frames()]
        return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()

    def plot(self) -> Any:
        """Draw best speedup against batch size, a panel for each model and chip.

        Raises
        ------
        CatalogError
            If the sweep is not done.
        """
        from specroof.plot import study_figures  # noqa: PLC0415 - matplotlib is slow to import

        self._check_done()
        return next(iter(study_figures(self.overviews).values()))

    def _repr_html_(self) -> str:
        """Return a small table of what the folder holds."""
        told = {
            "files": len(self.manifest["partitions"]),
            "points": self.manifest["points"],
            "format": self.manifest["format"],
            "done": "yes" if self.done else "no",
        }
        return facts_html(self.folder, told, ())

    def _check_done(self) -> None:
        if not self.done:
            message = f"{self.folder}: the sweep is not done; allowed: run it again, it goes on"
            raise CatalogError(message)

    def summary(self) -> Any:
        """Return the best of each drafter at each load as a pandas data frame.

        Raises
        ------
        CatalogError
            If the sweep is not done.
        """
        self._check_done()
        form = self.manifest["format"]
        return _frame(place_of(self.folder), f"summary.{form}", form)


def _frame(place: Place, name: str, form: str) -> Any:
    pandas = data_library("pandas")
    content = place.open_to_read(name)
    with content:
        if form == "parquet":
            return pandas.read_parquet(content)
        if form == "csv":
            # pandas 3 reads all digits by default, and warns of being told to.
            old = int(pandas.__version__.partition(".")[0]) < 3
            return pandas.read_csv(content, **({"float_precision": "round_trip"} if old else {}))
        return pandas.read_json(content, orient="records", lines=True, precise_float=True)


def read_results(folder: str | os.PathLike[str]) -> Results:
    """Return what a sweep wrote into a folder.

    Parameters
    ----------
    folder
        A path, or a URL that fsspec reaches.

    Raises
    ------
    CatalogError
        If the folder holds no results.
    """
    url = os.fspath(folder)
    content = place_of(url).read(MANIFEST)
    try:
        manifest = json.loads(content or b"")
        if {"format", "done", "points", "partitions"} <= manifest.keys():
            return Results(url, manifest)
    except (ValueError, AttributeError):
        pass
    message = f"{folder} holds no results of a sweep; allowed: a folder that `specroof sweep` wrote"
    raise CatalogError(message)
