"""The test suite: mirrors the package; `documents.py` runs the examples of the docs, `benchmarks/` is run by hand."""
