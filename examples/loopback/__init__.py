"""A server on this machine that answers as seven LLM services do, for examples and tests without keys or network.

`server.py` listens, `model.py` chooses the answer, `rules.py` refuses bad requests, `frames.py` writes streams. Each
service has one module, with the same names:

- `ROUTE`: the paths it answers; the named groups `model` and `stream` become members of the request.
- `CONTENT_TYPE`: the content type of a stream.
- `tool_names(request)`: the names of the tools, after a check of their definitions.
- `required_tool(request)`: the tool that must be called, `"none"` if none may be called, else None.
- `results(request)`: the texts of the results since the model's last message; the whole history is checked.
- `answer(calls, text, request)`: the answer that holds these calls (pairs of name and arguments), or this text.
- `events(answer)`: the same answer as a stream.
- `error_body(message)`: the body of an error.
- `malformed_answer(answer)`: the answer with its calls discarded; only of services that do that.

`tool_names` and `results` raise Refusal for what the real service would refuse, with its message where that is known.
"""

from __future__ import annotations

from .server import Loopback

__all__ = ("Loopback",)
