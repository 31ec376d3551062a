"""The formats with the real SDKs: each speaks with a server on this machine, and keeps its own types.

`contract.py` is what must hold with every SDK, `cases.py` the tools that are sent, `strictly.py` the check against an
SDK's types. A module is skipped, with the reason, when its SDK is not installed: `pip install "ahvn-tools[sdks]"`.
"""
