"""What a call, a tool and a fresh process cost, as ratios to pydantic and FastMCP: `python -m tests.benchmarks`."""
