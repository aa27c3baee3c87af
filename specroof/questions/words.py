"""The names and words that questions take, offered by the shell and the page."""

from dataclasses import fields
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
    "OPTIONS",
    "PARSERS",
    "SERVER_KEYS",
    "SOLVED",
    "hardware_names",
    "model_names",
]

#: The fields of `specroof.Options`.
OPTIONS: Final = tuple(one.name for one in fields(Options))

#: Quantities that can be solved for, and their names in words.
SOLVED: Final = {
    "accept": "least acceptance rate",
    "accept-length": "least acceptance length",
    "cost": "largest cost of drafting",
    "batch": "largest batch",
    "context": "largest context",
}
