"""Models and chips of measurements, each read once: hundreds of points share a dozen of them."""

from functools import cache

from specroof.architecture import Architecture
from specroof.catalog import load_hardware, load_model
from specroof.hardware import HardwareProfile

__all__ = ["chip_of", "model_of"]


@cache
def chip_of(name: str) -> HardwareProfile:
    """Return a chip by the name that a measurement has for it.

    Raises
    ------
    CatalogError
        If no profile has it.
    """
    return load_hardware(name)


@cache
def model_of(name: str) -> Architecture:
    """Return a model by the name that a measurement has for it.

    Raises
    ------
    CatalogError
        If no config has it.
    """
    return load_model(name)
