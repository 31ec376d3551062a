"""MCP's conformance suite against this package: it tests a server of `tools.py` and runs `client.py`.

The suite needs Node, which `.ci/run` installs; `node.py` describes where it is expected. Without it these tests are
skipped.
"""
