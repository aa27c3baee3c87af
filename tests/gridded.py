"""The arrays of what `predict --grid` prints."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def gridded(answer: Mapping[str, Any], name: str, drafter: int = 0) -> npt.NDArray[np.float64]:
    """Return a figure of a drafter, axes as in ``grid.dims`` behind the drafters; NaN for null."""
    return np.array(answer["grid"]["quantities"][name][drafter], dtype=np.float64)
