"""A chip that nobody measured is never surer than one that somebody did, at the same load."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from specroof import load_hardware, predict
from specroof.catalog import hardware_names
from specroof.drafters import KINDS
from specroof.hardware.engine import SERVED_FIGURES, EngineProfile, Reach, served_width

BATCHES: Final = np.array([1, 2, 4, 5, 8, 9, 32, 33, 64, 256, 257, 512, 4096])
CONTEXTS: Final = np.array([[1], [500], [1050], [1100], [1300], [2000], [8000], [33000], [131072]])


def stand_ins(chip: str = "h100") -> dict[str, EngineProfile]:
    """Return what a chip of the same vendor, and of timed kernels, has that nobody measured."""
    generic: Any = load_hardware(chip).generic
    return dict(generic.engines)


def test_kinds_that_somebody_measured_are_those_of_the_generic_engine() -> None:
    kinds = {kind for one in stand_ins().values() for kind in (one.reach or Reach()).drafters}
    generic = stand_ins()["generic"]
    lent = replace(generic, reach=Reach(), overlap=True)
    narrow = {kind for kind in KINDS if lent.band(kind) == lent.measured_band(kind)}
    assert narrow == kinds | {"ideal", "autoregressive", "block"}


@pytest.mark.parametrize("chip", hardware_names())
def test_no_stand_in_is_surer_than_a_measured_engine(chip: str) -> None:
    for name, engine in load_hardware(chip).engines.items():
        for server, stand_in in stand_ins(chip).items():
            for kind in KINDS:
                own, far = engine.band(kind), stand_in.band(kind)
                if own is not None:
                    assert far is not None
                    widths = [band.width_at(BATCHES, CONTEXTS) for band in (far, own)]
                    assert not (widths[0] < widths[1]).any(), (kind, name, server)
            # Times of servers: those of one framework speak for that framework alone.
            for figure in SERVED_FIGURES if server in {name, "generic"} else ():
                wide, narrow = (
                    served_width(one.served_bands, figure, BATCHES, CONTEXTS)
                    for one in (stand_in, engine)
                )
                if narrow is not None:
                    assert wide is not None
                    assert not (wide < narrow).any(), (figure, name, server)


def test_the_peaks_of_a_measured_chip_under_another_name_are_no_surer() -> None:
    h100 = load_hardware("h100")
    assert h100.generic is not None
    strange = replace(h100.generic, architecture=None)
    own = replace(h100, name="Invented", engines={}, default_engine=None, generic=strange)
    asked: dict[str, Any] = {"drafters": "eagle3,accept-length=2.8@3", "batch_size": [1, 32, 128]}
    asked |= {"input_len": 1000, "output_len": 500, "max_draft_len": 3}
    widths = []
    for chip in (own, h100):
        (curve,) = predict("Qwen/Qwen3-8B", chip, **asked).curves
        assert curve.speedup_low is not None
        assert curve.speedup_high is not None
        widths.append(np.log(curve.speedup_high / curve.speedup_low)[0, :, 1:])
    assert (widths[0] >= widths[1] - 1e-12).all()


def test_only_chips_of_timed_kernels_have_the_bands_of_their_vendor() -> None:
    generic: Any = load_hardware("l40s").generic
    anywhere, vendor = generic.known().engines["vllm"], generic.known().vendor_bands["nvidia"]
    assert generic.engines["vllm"].served_bands == vendor["vllm"] != anywhere.served_bands
    for other in ({"architecture": "volta"}, {"vendor": "amd"}, {"vendor": None}):
        assert replace(generic, **other).engines["vllm"].served_bands == anywhere.served_bands
