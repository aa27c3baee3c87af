"""`config.json` to `Architecture`: the one room that knows Hugging Face's names of keys.

A family is a row of `families.yaml`; one of another shape has a function, too, beside those that
share its mechanism.
"""

from specroof.parsers.model_config import parse_config
from specroof.parsers.traits import PARSERS
