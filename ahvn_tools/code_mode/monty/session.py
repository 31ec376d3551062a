"""MontySession: one program in a worker process."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ahvn_tools.code_mode.monty.worker import MontyWorker
from ahvn_tools.code_mode.sandbox import Answer, Event, Finished, FunctionCall, Later, Program, Value, Waiting
from ahvn_tools.json_types import JsonObject


class MontySession:
    """One program in a worker process."""

    def __init__(self, worker: MontyWorker, seconds: float) -> None:
        """`seconds`: how long the program itself runs at most."""
        self._worker, self._seconds = worker, seconds

    async def start(self, program: Program, write: Callable[[str], None]) -> Event:
        """Run the program to its first event."""
        self._worker.write = write
        return await self._run("start", code=program.code, functions=list(program.functions))

    async def restore(self, snapshot: bytes, functions: Collection[str], write: Callable[[str], None]) -> Event:
        """Continue a program where the snapshot was made."""
        self._worker.write = write
        data = base64.b64encode(snapshot).decode()
        return await self._run("restore", snapshot=data, functions=list(functions))

    async def answer(self, answer: Answer | Later) -> Event:
        """Answer the call, and run to the next event."""
        return await self._run("answer", answer={"later": True} if isinstance(answer, Later) else _to_json(answer))

    async def settle(self, answers: Mapping[int, Answer]) -> Event:
        """Answer calls that the program waits for, and run to the next event."""
        return await self._run("settle", answers={str(key): _to_json(answer) for key, answer in answers.items()})

    async def snapshot(self) -> bytes:
        """Return the whole state of the program."""
        reply = await self._worker.request("snapshot")
        return base64.b64decode(reply["snapshot"])

    async def _run(self, step: str, **arguments: Any) -> Event:
        return _to_event(await self._worker.request(step, self._seconds, **arguments))


def _to_event(reply: JsonObject) -> Event:
    if reply["event"] == "call":
        return FunctionCall(
            id=reply["id"],
            function=reply["function"],
            args=tuple(reply["args"]),
            kwargs=reply["kwargs"],
            is_awaited=reply["is_awaited"],
        )
    if reply["event"] == "waiting":
        return Waiting(ids=tuple(reply["ids"]))
    return Finished(value=reply["value"])


def _to_json(answer: Answer) -> JsonObject:
    return {"value": answer.value} if isinstance(answer, Value) else {"failure": answer.message}
