"""A web service with 200 users at once: every request has its own session, and all calls wait for each other."""

from __future__ import annotations

import asyncio
import socket
import time

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ahvn_tools import Toolkit

everyone = asyncio.Barrier(USERS := 200)
kit = Toolkit("shop", timeout=60).bind("user")


@kit.tool
async def order(article: str, user: str) -> str:
    """Order an article."""
    await everyone.wait()  # passes only when all users are in this call
    return f"{user} has ordered {article}"


@kit.tool
def pay(amount: int, user: str) -> str:
    """Pay at a slow bank, in a thread."""
    time.sleep(0.01)
    return f"{user} has paid {amount}"


async def chat(request: Request) -> JSONResponse:
    """Run the calls of the model's answer that the client has sent."""
    session = kit.session(user=request.headers["x-user"])
    run = await session.arun(await request.json(), format="openai")
    return JSONResponse([message["content"] for message in run])


async def main() -> None:
    """Start the service; all users send their answer at once."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=USERS)
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=[Route("/", chat, methods=["POST"])]), log_level="warning"))
    running = asyncio.create_task(server.serve(sockets=[listener]))
    order, pay = {"name": "order", "arguments": '{"article": "tea"}'}, {"name": "pay", "arguments": '{"amount": 3}'}
    answer = {"tool_calls": [{"id": "c1", "function": order}, {"id": "c2", "function": pay}]}
    url, limits = f"http://127.0.0.1:{listener.getsockname()[1]}", httpx2.Limits(max_connections=USERS)
    async with httpx2.AsyncClient(timeout=120, limits=limits) as client:
        posts = [client.post(url, json=answer, headers={"x-user": f"user {n}"}) for n in range(USERS)]
        for n, response in enumerate(await asyncio.gather(*posts)):
            assert response.json() == [f"user {n} has ordered tea", f"user {n} has paid 3"], response.text
        server.should_exit = True
        await running


asyncio.run(main())
