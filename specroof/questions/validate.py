"""How far off are predictions: over published measurements, or over my own results?"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any

from specroof.errors import OptionError
from specroof.questions.answer import Noted, title_of
from specroof.questions.benchmark import (
    Benchmark,
    BenchmarkRequest,
    Recorded,
    ResultFile,
    in_sample_notes,
)
from specroof.questions.lists import listed
from specroof.questions.request import HardwareLike, ModelLike, question

if TYPE_CHECKING:
    from specroof.scoring import Validation
    from specroof.scoring.own_results import OwnValidation


@dataclass(frozen=True)
class ValidateRequest(Recorded):
    """Ask how far off predictions are.

    Parameters
    ----------
    results
        Your own results, one file or several; every bundled measurement if None. All other
        parameters are about your own results.
    model
        What was served: a path, a bundled name, a Hub name, or an `Architecture`.
    hardware
        What served it: a path, a name, an alias, or a `HardwareProfile`.
    tensor_parallel, expert_parallel
        Devices, and the devices that experts are spread over; 1 if None.
    """

    results: ResultFile | Sequence[ResultFile] | None = None
    model: ModelLike | None = None
    hardware: HardwareLike | None = None
    _: KW_ONLY
    tensor_parallel: int | None = None
    expert_parallel: int | None = None

    def of_results(self) -> BenchmarkRequest:
        """Return the question about one's own results.

        Raises
        ------
        OptionError
            Unless model and hardware are given.
        """
        first = listed(self.results)[0]
        if self.hardware is None or self.model is None:
            missing = "hardware" if self.hardware is None else "model"
            message = f"{missing} is missing; needed to predict {first}: what served it, on what"
            raise OptionError(message)
        return BenchmarkRequest(**self._given())

    def _given(self) -> dict[str, Any]:
        """Return the parameters that were given, by name."""
        every = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in every.items() if value is not None}

    def refuse_without_results(self) -> None:
        """Refuse parameters about your own results where none are given.

        Raises
        ------
        OptionError
            With the first such parameter.
        """
        given = self._given()
        options = given.pop("options", None)
        given |= options if isinstance(options, Mapping) else {"options": options}
        given.pop("results", None)
        for name, value in given.items():
            if value is not None:
                message = f"{name} is {value!r} without benchmark files; allowed: with results"
                raise OptionError(message)


@dataclass(frozen=True, repr=False, eq=False)
class PublishedValidated(Noted):
    """Predictions beside every bundled measurement.

    Attributes
    ----------
    found
        Every measurement beside its prediction, and the errors by source.
    notes, warnings
        Sentences for the reader.
    """

    found: "Validation"

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"{len(self.found.points)} points of {len(self.found.sources)} sources"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        from specroof.report.validation import validation_json  # noqa: PLC0415

        return validation_json(self.found)

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each source."""
        return list(self.to_dict()["sources"])

    def plot(self) -> Any:
        """Draw predicted against measured speedup, source by source."""
        from specroof.plot import plot_accuracy  # noqa: PLC0415 - matplotlib is slow to import

        return plot_accuracy(self.found.points)


@dataclass(frozen=True, repr=False, eq=False)
class OwnValidated(Noted):
    """Predictions beside one's own results.

    Attributes
    ----------
    benchmark
        What was measured.
    found
        Every result beside its prediction, and the errors by file.
    notes, warnings
        Sentences for the reader.
    """

    benchmark: Benchmark
    found: "OwnValidation"

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return title_of(self.benchmark.served.model, self.benchmark.served.setup)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        from specroof.report.validation import own_json  # noqa: PLC0415

        return own_json(self.found) | {"notes": list(self.notes)}

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each result."""
        files = self.to_dict()["sources"]
        return [{"source": one["source"]} | point for one in files for point in one["points"]]

    def plot(self) -> Any:
        """Draw predicted against measured throughput, file by file."""
        from specroof.plot import plot_throughput_accuracy  # noqa: PLC0415

        rates = [(one.source, one.rate) for one in self.found.points]
        roof = [(one.source, one.rate) for one in self.found.ideal]
        return plot_throughput_accuracy(rates, roof, engine=self.benchmark.served.setup.engine.name)


@question(ValidateRequest)
def validate(request: ValidateRequest) -> PublishedValidated | OwnValidated:
    """Compare predictions with your own results, or with every bundled measurement."""
    if request.results is None or not listed(request.results):
        request.refuse_without_results()
        from specroof.scoring import validation  # noqa: PLC0415 - reads all measurements

        return PublishedValidated(validation())
    from specroof.scoring.own_results import own_validation  # noqa: PLC0415

    measured = request.of_results().benchmark()
    setup = measured.served.setup
    found = own_validation(measured.points, measured.served, measured.drafter)
    seen = in_sample_notes(measured.labels, setup.hardware, setup.engine.name)
    return OwnValidated(measured, found, notes=(*measured.notes, *seen))
