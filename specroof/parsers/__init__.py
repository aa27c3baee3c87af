"""`config.json` to `Architecture`: the one room that knows Hugging Face's names of keys.

A family is a row of `TRAITS`, or one file with one function and a row beside them.
"""

from specroof.parsers.model_config import parse_config, parse_family
from specroof.parsers.traits import PARSERS
