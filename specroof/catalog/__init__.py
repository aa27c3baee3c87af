"""Names and SPECs to objects: bundled files, paths, the Hub. The only disk and network."""

from specroof.catalog.files import read_text, study_path
from specroof.catalog.names import (
    ACCEPTANCE_KEYS,
    hardware_names,
    hardware_words,
    left_out_fits,
    load_drafter,
    load_hardware,
    load_model,
    local_engines,
    model_names,
    taken_aliases,
)
