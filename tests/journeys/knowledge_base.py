"""A knowledge base for several users, in a loop with OpenAI's SDK. A server on this machine plays the model."""

from __future__ import annotations

from typing import Any

from openai import OpenAI

from ahvn_tools import ToolError, Toolkit
from examples.loopback import Loopback

kit = Toolkit("knowledge", timeout=10, state={"notes": {"ann": {"tea": "Brew it for 3 minutes."}, "bob": {}}})


@kit.tool(annotations={"readOnlyHint": True})
def read_note(title: str, user: str, notes: dict[str, dict[str, str]]) -> str:
    """Read a note.

    Args:
        title: The title of the note.
    """
    if title not in notes[user]:
        raise ToolError(f"There is no note {title!r}. There are: {sorted(notes[user])}.")
    return notes[user][title]


kit.bind("user").bind("notes")


def ask(client: OpenAI, user: str, question: str) -> str:
    """Let the model call tools until it answers."""
    session = kit.session(user=user)
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        completion = client.chat.completions.create(
            model="m", messages=messages, tools=session.to("openai", strict=True)
        )
        messages.append(completion.choices[0].message)
        run = session.run(completion)
        if not run.results:
            return str(completion.choices[0].message.content)
        messages.extend(run)


with (
    Loopback({"title": "tea"}, {"title": "tax"}, {"title": "tea", "user": "ann"}) as server,
    OpenAI(base_url=f"{server.url('openai_chat')}/v1", api_key="none") as client,
):
    answer = ask(client, "ann", "How do I brew tea?")
    assert "Brew it for 3 minutes." in answer, answer
    assert "There is no note 'tax'. There are: ['tea']." in answer, answer
    answer = ask(client, "bob", "And I?")
    assert "Brew it" not in answer, answer
    assert "There is no note 'tea'. There are: []." in answer, answer
    assert "notes" not in str(server.requests[0]["tools"][0]["function"]["parameters"])
