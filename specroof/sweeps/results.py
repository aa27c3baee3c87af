"""Results of a sweep, read back as tables."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from specroof.errors import CatalogError, OutputError, optional_library, reject
from specroof.report.layout import facts_html, unescaped
from specroof.speedup.overview import Overview
from specroof.sweeps.places import Place, place_of
from specroof.sweeps.plan import POINTS, UNFINISHED, has_kinds, overviews_of
from specroof.sweeps.run import MANIFEST, parse_manifest

_WRITTEN: Final = "a folder that `specroof sweep` wrote"
_AGAIN: Final = f"{_WRITTEN}; the same sweep writes again what is missing"


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
        try:
            return overviews_of(self.manifest["partitions"])
        except ValueError as failure:
            reject(f"{self.folder}/{MANIFEST}: an overview {failure}", _AGAIN, CatalogError)

    def frames(self) -> Iterator[Any]:
        """Yield the points as pandas data frames, a file at a time.

        Raises
        ------
        CatalogError
            For a file of points that is missing, cut short or damaged.
        """
        place, form = place_of(self.folder), self.manifest["format"]
        for name, size in self._sizes(place).items():
            file = f"{POINTS}/{name}.{form}"
            there = place.size(file)
            if there != size is not None:
                reject(
                    f"{self.folder}/{file} has {there or 0} of {size} bytes",
                    _AGAIN,
                    CatalogError,
                )
            yield _frame(place, file, form)

    def _sizes(self, place: Place) -> dict[str, int | None]:
        """Return the files of points that count by name, with their bytes where those are known."""
        if not self.done:
            names = (name.partition(".") for name in place.names(UNFINISHED))
            return dict.fromkeys(stem for stem, _, ending in names if ending == "json")
        return {record["name"]: record["bytes"] for record in self.manifest["partitions"]}

    def to_frame(self) -> Any:
        """Return all points as one pandas data frame."""
        pandas = optional_library("pandas", "to_frame", refusal=OutputError)
        return pandas.concat(self._some_frames(), ignore_index=True)

    def to_arrow(self) -> Any:
        """Return all points as one Arrow table; needs pyarrow."""
        pa = optional_library("pyarrow", "to_arrow", refusal=OutputError)
        tables = [
            pa.Table.from_pandas(frame, preserve_index=False) for frame in self._some_frames()
        ]
        return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()

    def _some_frames(self) -> list[Any]:
        """Return all frames, of which a sweep that has just begun has none."""
        frames = list(self.frames())
        if not frames:
            self._check_done()
        return frames

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
        facts = {
            "files": len(self.manifest["partitions"]),
            "points": self.manifest["points"],
            "format": self.manifest["format"],
            "done": "yes" if self.done else "no",
        }
        return facts_html(self.folder, facts, ())

    def _check_done(self) -> None:
        if not self.done:
            reject(
                f"{self.folder}: the sweep is not done", "run it again, it goes on", CatalogError
            )

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
    """Return a table of a folder as a data frame.

    Raises
    ------
    CatalogError
        If it is missing or damaged.
    """
    pandas = optional_library("pandas", "to_frame", refusal=OutputError)
    try:
        with place.open_to_read(name) as content:
            if form == "parquet":
                return pandas.read_parquet(content)
            if form == "csv":
                # pandas 3 reads all digits by default, and warns of being told to.
                old = int(pandas.__version__.partition(".")[0]) < 3
                how = {"float_precision": "round_trip"} if old else {}
                frame = pandas.read_csv(content, **how)
                # Texts as they were before `columns_csv` kept them from running.
                for column in frame.select_dtypes(exclude=["number", "bool"]):
                    texts = frame[column]
                    if texts.str.startswith("'", na=False).any():
                        frame[column] = texts.map(unescaped, na_action="ignore")
                return frame
            return pandas.read_json(content, orient="records", lines=True, precise_float=True)
    except Exception as failure:  # noqa: BLE001 - pandas and pyarrow have many of their own
        reason = failure if isinstance(failure, OutputError) else f"{place.url}/{name}: {failure}"
        reject(str(reason), _AGAIN, CatalogError)


def read_results(folder: str | os.PathLike[str]) -> Results:
    """Return what a sweep wrote into a folder.

    Parameters
    ----------
    folder
        A path, or a URL that fsspec reaches.

    Raises
    ------
    CatalogError
        If the folder holds no results, or cannot be read.
    OptionError
        For anything but a path or a URL.
    """
    place = place_of(folder)
    try:
        manifest = parse_manifest(place.read(MANIFEST) or b"")
    except OutputError as failure:
        raise CatalogError(str(failure)) from None
    if manifest is not None:
        records = manifest["partitions"]
        if all(map(has_kinds, records)) and bool(records) == manifest["done"]:
            return Results(place.url, manifest)
    return reject(f"{place.url} holds no results of a sweep", _WRITTEN, CatalogError)
