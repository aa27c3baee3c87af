"""Models and chips of measurements, each read once: hundreds of points share a dozen of them."""

from functools import cache
from typing import Final

from specroof.catalog import load_hardware, load_model

#: A chip by the name that a measurement has for it; see `specroof.load_hardware`.
chip_of: Final = cache(load_hardware)

#: A model by the name that a measurement has for it; see `specroof.load_model`.
model_of: Final = cache(load_model)
