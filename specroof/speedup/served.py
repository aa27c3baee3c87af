"""What is served, and where."""

from collections.abc import Mapping
from dataclasses import dataclass

from specroof.architecture import WEIGHT_FORMATS, Architecture, Experts
from specroof.latency import Setup, served_options


@dataclass(frozen=True, slots=True)
class Served:
    """A model where it is served.

    Parameters
    ----------
    model
        What is served.
    setup
        Where, in which engine, by which formulas.
    """

    model: Architecture
    setup: Setup

    @property
    def weight_bits(self) -> Mapping[str, int]:
        """Formats that projections and experts are counted in, and the bits of a weight."""
        chosen = self.setup.options.weight_dtype
        if chosen is not None:
            forms = [WEIGHT_FORMATS[chosen]]
        else:
            blocks = [block for _, block in self.model.counted_blocks]
            forms = [linear.weight for block in blocks for linear in block.linears]
            forms += [block.core.weight for block in blocks if isinstance(block.core, Experts)]
        # Block scales add less than a bit.
        return {form.name: int(8 * form.element_bytes) for form in forms}

    @property
    def kv_dtype(self) -> str:
        """The dtype that cached keys and values are counted in."""
        return served_options(self.model, self.setup).kv_dtype or self.model.kv_dtype
