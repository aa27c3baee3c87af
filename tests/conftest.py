"""What every test shares: where data lies, reproducible draws, a settled environment."""

import fcntl
import importlib
import os
import pickle
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pytest
from hypothesis import HealthCheck, settings

import specroof

if TYPE_CHECKING:
    from specroof.scoring import Validation
    from specroof.scoring.served import ServedErrors, ServedValidation
    from specroof.scoring.splits import SplitScore

PACKAGE = Path(specroof.__file__).parent

#: Errors of loads that are played through, by quantity.
Totals: TypeAlias = "dict[str, ServedErrors | None]"
Value = TypeVar("Value")

# Whoever runs the tests has an environment; it must not change what is tested. It is settled
# here, before a test module is imported, since some libraries read it on import.
for _variable in (
    "SPECROOF_HARDWARE_PATH",
    "COLUMNS",
    "FORCE_COLOR",
    "PY_COLORS",
    "GITHUB_ACTIONS",
):
    os.environ.pop(_variable, None)
os.environ |= {
    "NO_COLOR": "1",
    "MPLBACKEND": "agg",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "JUPYTER_PLATFORM_DIRS": "1",
    "JUPYTER_PREFER_ENV_PATH": "1",
}

# "ci" draws the same examples every time and is what make and CI run; "dev" explores; "fuzz"
# explores for as long as make fuzz is told to, which calls it again and again.
settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=5_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))


def pytest_configure() -> None:
    """Refuse to test a checkout where the built wheel was asked for."""
    if "SPECROOF_TEST_WHEEL" in os.environ and "site-packages" not in PACKAGE.parts:
        message = f"the tests are to run against the installed wheel, but import {PACKAGE}"
        raise pytest.UsageError(message)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest tests run first: begun last, they leave other workers idle.

    What workers share comes before all else, so that none waits for it.
    """

    def order(item: pytest.Item) -> tuple[bool, bool]:
        shares = not SHARED.isdisjoint(getattr(item, "fixturenames", ()))
        return not shares, item.get_closest_marker("long") is None

    items.sort(key=order)


@contextmanager
def _unmeasured() -> Iterator[None]:
    """Measure no coverage of what is done within, which it makes twice as long."""
    coverage = sys.modules.get("coverage")
    measured = coverage and coverage.Coverage.current()
    if not measured:
        yield
        return
    measured.stop()
    try:
        yield
    finally:
        measured.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Measure no coverage of tests marked `long`."""
    if not item.get_closest_marker("long"):
        return (yield)
    with _unmeasured():
        return (yield)


def pytest_report_header() -> str:
    """Say which specroof is under test."""
    return f"specroof: {PACKAGE}"


def _data_folder(name: str) -> Path:
    """Return the folder in an installed wheel, else the one beside the package in a checkout."""
    folders = (PACKAGE / "data" / name, PACKAGE.parent / name)
    return next(folder for folder in folders if folder.is_dir())


@pytest.fixture
def children_uncovered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure no coverage in processes that a test starts: it makes them slower by half."""
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)


@pytest.fixture(scope="session")
def hardware_folder() -> Path:
    """Return the folder of the bundled hardware profiles."""
    return _data_folder("hardware")


@pytest.fixture(scope="session")
def model_configs_folder() -> Path:
    """Return the folder of the bundled model configs."""
    return _data_folder("model_configs")


@pytest.fixture(scope="session")
def real_configs() -> Path:
    """Return the folder of whole `config.json` files as checkpoints ship them."""
    value = os.environ.get("SPECROOF_REAL_CONFIGS")
    if not value:
        pytest.skip("SPECROOF_REAL_CONFIGS names no folder of real config.json files")
    folder = Path(value)
    assert folder.is_dir(), f"SPECROOF_REAL_CONFIGS={value} is no folder"
    return folder


# --- Seconds of work, done once: by the worker that needs it first, for all. Loads of servers, a
#     minute of it, are measured for no coverage: tests of a few loads reach those lines. ----------

#: Fixtures of such work.
SHARED = {"validated", "served_validated", "split_validated", "played_total", "played_as_shipped"}


class Once:
    """Computes a value, unless another worker has; `folder` is that of all workers, if any."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def __call__(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return the value of that name."""
        if self.folder is None:
            return compute()
        stored = self.folder / f"{name}.pickle"
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
            if not stored.exists():
                stored.write_bytes(pickle.dumps(compute()))
        value: Value = pickle.loads(stored.read_bytes())  # noqa: S301 - written above
        return value


@pytest.fixture(scope="session")
def once(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Return what lets one worker compute for all."""
    among_others = hasattr(request.config, "workerinput")
    return Once(tmp_path_factory.getbasetemp().parent if among_others else None)


@pytest.fixture(scope="session")
def validated(once: Once) -> "Validation":
    """Return predictions beside all published measurements."""
    from specroof.scoring import validation  # noqa: PLC0415 - after the environment is settled

    return once("validated", validation)


@pytest.fixture(scope="session")
def served_validated(
    once: Once,
) -> "ServedValidation":
    """Return predictions beside all published loads of servers, none of them played through."""
    from specroof.scoring.served import served_validation  # noqa: PLC0415 - as above

    with _unmeasured():
        return once("served", served_validation)


@pytest.fixture(scope="session")
def played_total(once: Once, served_validated: "ServedValidation") -> Totals:
    """Return the errors of the same loads without drafts, played through."""
    from specroof.scoring.served import plain_scores, served_errors  # noqa: PLC0415 - as above

    loads = [score.point for score in served_validated.counted]
    with _unmeasured():
        return once("played", lambda: served_errors(plain_scores(loads, played=True)))


@pytest.fixture(scope="session")
def played_as_shipped(once: Once, served_validated: "ServedValidation") -> Totals:
    """Return the same by profiles that have seen the loads."""
    from specroof.scoring.served import plain_scores, served_errors  # noqa: PLC0415 - as above

    loads = [score.point for score in served_validated.counted]
    with _unmeasured():
        return once("shipped", lambda: served_errors(plain_scores(loads, None, played=True)))


@pytest.fixture(scope="session")
def split_validated(
    once: Once,
) -> "tuple[SplitScore, ...]":
    """Return predictions beside all published loads of prefill and decode workers."""
    from specroof.scoring.splits import split_scores  # noqa: PLC0415 - as above

    return once("splits", split_scores)


@pytest.fixture
def asked_for_validated(
    validated: "Validation",
    served_validated: "ServedValidation",
    split_validated: "tuple[SplitScore, ...]",
    monkeypatch: pytest.MonkeyPatch,
) -> "Validation":
    """Let `specroof.validate()` and the command answer with `validated` and `served_validated`."""
    question = importlib.import_module("specroof.questions.validate")
    monkeypatch.setattr(question, "published_validation", lambda: validated)
    monkeypatch.setattr(question, "served_validation", lambda **_: served_validated)
    monkeypatch.setattr(question, "split_scores", lambda: split_validated)
    return validated
