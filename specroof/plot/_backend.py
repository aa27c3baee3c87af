"""The first import of matplotlib, which refuses a backend that it does not know."""

import os

from specroof.errors import refuse

try:
    import matplotlib as mpl
except ValueError:
    allowed = "a backend of matplotlib, or no such variable: charts need none"
    refuse("MPLBACKEND", os.environ.get("MPLBACKEND"), allowed)

__all__ = ["mpl"]
