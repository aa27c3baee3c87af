"""The names and words that questions take, offered by the shell and the page."""

from typing import Final

from specroof.catalog import ACCEPTANCE_KEYS, hardware_names, model_names
from specroof.cost import CHOICES, Options
from specroof.drafters import KINDS
from specroof.hardware import SERVER_KEYS
from specroof.parsers import PARSERS

__all__ = [
    "ACCEPTANCE_KEYS",
    "CHOICES",
    "KINDS",
    "PARSERS",
    "SERVER_KEYS",
    "SOLVED",
    "Options",
    "hardware_names",
    "model_names",
]

#: Quantities that can be solved for, and their names in words.
SOLVED: Final = {
    "accept": "least acceptance rate",
    "accept-length": "least acceptance length",
    "cost": "largest cost of drafting",
    "batch": "largest batch",
    "context": "largest context",
}
