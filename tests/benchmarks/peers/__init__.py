"""The comparison with other packages: `python -m tests.benchmarks.peers`.

docs/maintainers/benchmarks.md says what is measured.
"""
