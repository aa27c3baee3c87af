"""How many examples a fuzzer draws: bounded in `make test`, as many as there are in `make fuzz`."""

import os

from hypothesis import HealthCheck, settings

__all__ = ["bounded"]


def bounded(max_examples: int, *suppressed: HealthCheck) -> settings:
    """Return the settings of a test marked `fuzz`: its bound, which the fuzz profile lifts."""
    exploring = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
    default = settings()
    return settings(
        max_examples=default.max_examples if exploring else max_examples,
        suppress_health_check=[*default.suppress_health_check, *suppressed],
    )
