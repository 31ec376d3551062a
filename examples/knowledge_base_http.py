"""The knowledge base over HTTP, for two users at once: only the token says who is calling.

    python examples/knowledge_base_http.py notes.db

starts a server process on a free port of this machine, and calls it as ann and as bob, each with a token.
`--serve PORT` runs only the server. Make notes.db with
`python examples/knowledge_base.py FOLDER --database notes.db`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from knowledge_base import accept_every_character, fail

from ahvn_tools import Toolkit, serve
from ahvn_tools.builtins import Knowledge
from ahvn_tools.errors import ToolConnectionError

USERS = {"ann": "acme", "bob": "acme"}
START_TIMEOUT = 45.0


def tokens() -> dict[str, str]:
    """Return the token of each user, from the environment: no token is in a program or on a command line."""
    return {user: os.environ[f"KNOWLEDGE_BASE_TOKEN_{user.upper()}"] for user in USERS}


def run_server(path: Path, port: int) -> None:
    """Serve all users from one toolkit until the process ends; each request has the state of its user."""
    claims = {token: {"client_id": user, "scopes": []} for user, token in tokens().items()}

    def state(request: Any) -> dict[str, Any]:
        user = request.client_id
        return {"tenant": USERS[user], "user": user}

    kit = Toolkit("knowledge base").add(Knowledge(path))
    serve(kit, "http", port=port, state=state, auth=StaticTokenVerifier(claims))


@contextlib.contextmanager
def server_process(path: Path, port: int) -> Iterator[None]:
    """Run the server as another process until the block ends."""
    process = subprocess.Popen([sys.executable, __file__, str(path), "--serve", str(port)])  # noqa: S603  # this file
    try:
        yield
    finally:
        process.terminate()
        process.wait(15)


def visit(url: str) -> None:
    """Call the server as both users, through one toolkit with a session for each."""
    kit = connect(Toolkit("visitor"), url)
    try:
        print(f"{url} offers {', '.join(spec.name for spec in kit)}")
        for user, token in tokens().items():
            session = kit.session(token=token)
            session.exec("add", {"title": f"from {user}", "text": f"A note that only {user} can read."})
        for user, token in tokens().items():
            session = kit.session(token=token)
            print(f"{user} reads: {session.call('read', {'name': f'note://from {user}'})}")
            other = next(name for name in USERS if name != user)
            print(f"{user} asks for the note of {other}: {session.exec('read', {'name': f'note://from {other}'}).text}")
        print(f"a wrong token: {kit.session({'token': 'wrong'}).exec('stats').text}")
    finally:
        kit.remove_mcp("knowledge base")


def connect(kit: Toolkit, url: str) -> Toolkit:
    """Add the server's tools as soon as it answers. The toolkit itself connects as ann, each session as its user."""
    kit.state["token"] = tokens()["ann"]
    until = time.monotonic() + START_TIMEOUT
    while True:
        try:
            return kit.add_mcp(url, name="knowledge base", auth=lambda state: state["token"])
        except ToolConnectionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def main() -> int:
    """Read the command line; run the server, or start one and call it."""
    parser = argparse.ArgumentParser(description="Serve a knowledge base over HTTP to two users, and visit it as both.")
    parser.add_argument("database", type=Path)
    parser.add_argument("--serve", type=int, metavar="PORT", help="run only the server")
    options = parser.parse_args()
    accept_every_character()
    if not options.database.is_file():
        return fail(f"there is no database {str(options.database)!r}")
    if options.serve is not None:
        run_server(options.database, options.serve)
        return 0
    for user in USERS:  # a fresh token for each, where the environment has none; the server process inherits them
        os.environ.setdefault(f"KNOWLEDGE_BASE_TOKEN_{user.upper()}", secrets.token_urlsafe())
    port = free_port()
    try:
        with server_process(options.database, port):
            visit(f"http://127.0.0.1:{port}/mcp")
    except KeyboardInterrupt:
        return fail("stopped", code=130)
    except ToolConnectionError as error:
        return fail(str(error), code=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
