"""What every test shares: where data lies, reproducible draws, a settled environment."""

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import specroof

if TYPE_CHECKING:
    from specroof.scoring import Validation
    from specroof.scoring.served import ServedValidation
    from specroof.scoring.splits import SplitScore

PACKAGE = Path(specroof.__file__).parent

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

# Half a million objects of tests live as long as the run: to look through them for circles each
# time that some thousand more were made took a twelfth of it.
gc.set_threshold(200_000, 50, 50)

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
    """Let the longest tests run first: begun last, they leave other workers idle."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_sessionfinish() -> None:
    """Write what was measured before pytest-xdist ends its workers, which it kills after 10 s."""
    measuring = sys.modules.get("coverage")
    running = measuring and measuring.Coverage.current()
    if running:
        running.save()


def pytest_report_header() -> str:
    """Say which specroof is under test."""
    return f"specroof: {PACKAGE}"


def _data_folder(name: str) -> Path:
    """Return the folder in an installed wheel, else the one beside the package in a checkout."""
    folders = (PACKAGE / "data" / name, PACKAGE.parent / name)
    return next(folder for folder in folders if folder.is_dir())


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


# --- Scores of all that ships, as they are stored: test_stored_scores.py computes a part anew ---


@pytest.fixture(scope="session")
def stored() -> "dict[str, Any]":
    """Return the stored scores, of whatever code: reading them is their test's subject."""
    from specroof.scoring.stored import stored_scores  # noqa: PLC0415 - environment is settled

    return stored_scores()


@pytest.fixture(scope="session")
def validated(stored: "dict[str, Any]") -> "Validation":
    """Return predictions beside all published measurements."""
    from specroof.scoring import validation  # noqa: PLC0415 - as above

    return validation(predicted=stored["published"])


@pytest.fixture(scope="session")
def served_validated(stored: "dict[str, Any]") -> "ServedValidation":
    """Return predictions beside all published loads of servers, with totals of those played."""
    from specroof.scoring.stored import stored_served  # noqa: PLC0415 - as above

    return stored_served(stored)


@pytest.fixture(scope="session")
def split_validated(stored: "dict[str, Any]") -> "tuple[SplitScore, ...]":
    """Return predictions beside all published loads of prefill and decode workers."""
    from specroof.scoring.stored import stored_splits  # noqa: PLC0415 - as above

    return stored_splits(stored)


@pytest.fixture
def asked_for_validated(
    validated: "Validation",
    served_validated: "ServedValidation",
    split_validated: "tuple[SplitScore, ...]",
    stored: "dict[str, Any]",
    monkeypatch: pytest.MonkeyPatch,
) -> "Validation":
    """Let `specroof.validate()` and the command answer with what is stored."""
    from specroof.scoring.stored import stored_local  # noqa: PLC0415 - as above

    of_local = stored_local(stored)
    question = importlib.import_module("specroof.questions.validate")
    found = validated, served_validated, split_validated, of_local
    monkeypatch.setattr(question, "published", lambda **_: found)
    return validated


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let charts be made and their files be empty, where they count and not how they look."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)


@pytest.fixture
def expected_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let simulated rounds commit their expected tokens, without dice."""
    monkeypatch.setattr(
        "specroof.serving.played._drawn_rounds",
        lambda tokens, survival, _: np.frombuffer(tokens) / (1.0 + sum(survival)),
    )
