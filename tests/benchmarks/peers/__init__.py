"""The comparison with other packages: `python -m tests.benchmarks.peers`. docs/benchmarks.md says what is measured."""
