"""MCP's own conformance suite against this package: `tools.py` is served to it, `client.py` is driven by it.

The suite runs in Node, which `.ci/run` brings along: what it needs and where it is looked for stands in `node.py`.
Without it these tests are skipped, and say so.
"""
