"""Studies of any size: files that are written as they get ready, and read back as data."""

from specroof.sweeps.results import read_results
from specroof.sweeps.run import write_sweep
