"""A server on this machine that answers as seven LLM services do, for examples and tests without keys or network.

`server.py` listens, `model.py` decides what is said, `rules.py` says no, `frames.py` writes streams; then one module
for each service, with the same names in each:

- `ROUTE`: the paths it answers; the named groups `model` and `stream` become members of the request.
- `CONTENT_TYPE`: what a stream is made of.
- `offered(request)`: the names of the tools, after a look at their definitions.
- `forced(request)`: the tool that must be called, `"none"` where none may be, else None.
- `results(request)`: what the results said that came since the model's last message; the whole history is checked.
- `answer(calls, text, request)`: the answer that holds these calls (pairs of name and arguments), or this text.
- `events(answer)`: the same answer as a stream.
- `refused(message)`: the body of an error.

`offered` and `results` raise Refusal for what the service itself would refuse, in its words as far as they are known.
"""

from __future__ import annotations

from .server import Loopback

__all__ = ("Loopback",)
