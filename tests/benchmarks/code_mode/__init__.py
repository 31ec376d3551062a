"""Code mode beside plain calls and other packages: `python -m tests.benchmarks.code_mode`.

See docs/maintainers/benchmarks-code-mode.md.
"""
