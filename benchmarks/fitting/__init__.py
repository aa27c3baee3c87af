"""The fits that made the bundled engine profiles: to all measurements, and without each source.

`benchmarks/fit_engines.py` runs them and writes what the package reads: ``hardware/*.yaml``,
``specroof/catalog/generic.json`` and ``specroof/catalog/left_out.json``.
"""
