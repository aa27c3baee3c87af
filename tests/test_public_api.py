"""The one door: `specroof.__all__` is the whole public surface, and it is written down here."""

import inspect

import pytest

import specroof
from specroof.questions import QUESTIONS

PUBLIC_NAMES: list[str] = vars(specroof)["__all__"]  # which type checkers do not see

# A name that is added, renamed or removed is a decision: it changes this list and CHANGELOG.md.
# A new question is decided by its row in QUESTIONS.
PUBLIC = [
    "Acceptance", "AcceptanceFit", "AcceptanceProfile", "Answer", "Architecture", "CatalogError",
    "ConfigError", "DraftTime", "Drafter", "EngineProfile", "ForwardPass", "HardwareProfile",
    "Load", "MeasurementError", "OpCost", "OptionError", "Options", "OutputError", "PassLatency",
    "Placement", "ProfileError", "Round", "SpecroofError", "SpeedupCurve", "Study", "StudyError",
    "Target", "Workload", "acceptance_from_length", "adaptive", "advise", "beta_acceptance",
    "breakeven", "calibrate", "capacity", "constant_acceptance", "context_acceptance",
    "decay_acceptance", "doctor", "explain", "explore", "extrapolated_acceptance",
    "fit_acceptance", "forward_cost", "forward_latency", "frontier", "hardware_names",
    "histogram_acceptance", "lengths_acceptance", "load_drafter", "load_hardware", "load_model",
    "load_profile", "load_profiles", "model_names", "plot", "predict", "rate_acceptance",
    "read_results", "simulate_batch", "simulate_exactness", "speedup_curve", "survival_acceptance",
    "sweep", "validate", "worth", "write_sweep",
]  # fmt: skip


def test_the_public_surface_is_the_one_written_here() -> None:
    assert sorted({*PUBLIC_NAMES} - {*QUESTIONS} | {*PUBLIC}) == PUBLIC
    assert {*PUBLIC} <= {*PUBLIC_NAMES}


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_a_public_name_exists_and_is_documented(name: str) -> None:
    value = getattr(specroof, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        # A dataclass without a docstring gets its signature for one.
        doc = inspect.getdoc(value) or ""
        assert doc
        assert not doc.startswith(f"{name}(")


def test_the_public_methods_of_public_classes_are_documented() -> None:
    undocumented = [
        f"{name}.{attribute}"
        for name in PUBLIC_NAMES
        if inspect.isclass(kind := getattr(specroof, name))
        for attribute, value in vars(kind).items()
        if not attribute.startswith("_")
        and isinstance(value, property | staticmethod | classmethod | type(lambda: None))
        and not inspect.getdoc(getattr(kind, attribute))
    ]
    assert undocumented == []
