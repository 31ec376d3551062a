"""Start the hostile server from its folder's path; nothing but the standard library is needed."""

import importlib
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[3])
importlib.import_module("tests.mcp.hostile.stdio").main(sys.argv[1:])
