"""Turn: what a conversation keeps of a model's answer; and Model: how a conversation asks a provider's client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from ahvn_tools.formats.json_data import get_object
from ahvn_tools.formats.parsing.payload import parse_payload
from ahvn_tools.json_types import JsonObject


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The tokens of one or more answers; 0 where an answer does not say.

    >>> Usage(input_tokens=3, total_tokens=3) + Usage(output_tokens=2, total_tokens=2)
    Usage(input_tokens=3, output_tokens=2, total_tokens=5, cached_tokens=0)
    """

    input_tokens: int = 0
    """All tokens of the request, with the cached ones."""
    output_tokens: int = 0
    """All tokens that the model has written, with its reasoning."""
    total_tokens: int = 0
    cached_tokens: int = 0
    """The tokens of the request that the provider has read from its cache."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum."""
        return Usage(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @classmethod
    def read(cls, usage: Any, *, inputs: Sequence[str], outputs: Sequence[str], cached: Sequence[str] = ()) -> Self:
        """Return the usage in an object of an answer: sums of the fields with these names, and one at a path."""
        fields = usage if isinstance(usage, dict) else {}
        sums = [sum(_to_count(fields.get(name)) for name in names) for names in (inputs, outputs)]
        count = _to_count(get_object(fields, *cached[:-1]).get(cached[-1])) if cached else 0
        return cls(input_tokens=sums[0], output_tokens=sums[1], total_tokens=sum(sums), cached_tokens=count)


NO_USAGE: Final = Usage()


def _to_count(value: Any) -> int:
    return value if isinstance(value, int) else 0


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A model's turn, as the next request contains it."""

    messages: list[JsonObject] = field(default_factory=list)
    """The model's own messages, with all that the provider needs back, such as signatures; none of an empty answer."""
    text: str = ""
    """What the model says to the user, without its reasoning."""
    usage: Usage = NO_USAGE


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model behind a client of an SDK: a function of messages and tools that returns the SDK's answer.

    The answer of an asynchronous client is awaitable. Errors are those of the SDK.
    """

    format: str
    send: Callable[..., Any]
    """The function of the client that sends a request."""
    asend: Callable[..., Any] | None = None
    """The function for async code, if the client has another one."""
    request: Callable[[list[Any], Sequence[JsonObject]], dict[str, Any]]
    """Returns the arguments of the function, for messages and tools."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the function."""
    export: Mapping[str, Any] = field(default_factory=dict)
    """The options with which the format exports the tools, such as `strict`."""
    container_option: str | None = None
    """The argument that names the provider's sandbox, for a provider that runs a model's programs."""

    @classmethod
    def of_client(
        cls,
        format: str,  # noqa: A002  # the field's name
        send: Callable[..., Any],
        options: dict[str, Any],
        *,
        messages: str = "messages",
        export: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Self:
        """Return a model whose requests have a field for `messages` and one for the tools, those of `options` too."""
        own = list(options.pop("tools", ()))

        def request(history: list[Any], tools: Sequence[JsonObject]) -> JsonObject:
            return {messages: history, **({"tools": [*tools, *own]} if tools or own else {})}

        return cls(format=format, send=send, request=request, options=options, export=export or {}, **fields)

    def __call__(self, messages: list[Any], tools: Sequence[JsonObject]) -> Any:
        """Send a request."""
        return self.send(**self.options, **self.request(messages, tools))

    def acall(self, messages: list[Any], tools: Sequence[JsonObject]) -> Any:
        """Send a request from async code."""
        return (self.asend or self.send)(**self.options, **self.request(messages, tools))

    def in_container(self, container_id: str) -> Model:
        """Return the model with the sandbox that its last answer has named, if its requests name one."""
        if self.container_option is None:
            return self
        return replace(self, options={**self.options, self.container_option: container_id})


CLIENT_FUNCTIONS: Final = {
    "openai": "chat.completions.create",
    "openai_responses": "responses.create",
    "anthropic": "messages.create",
    "gemini": "models.generate_content",
    "mistral": "chat.complete",
    "bedrock": "converse",
    "langchain": "bind_tools",
    "ollama": "chat",
}
"""The function with which a client asks a model, by the module of its format."""


def client_function(client: Any, path: str) -> Any:
    """Return a function of a client. Raises TypeError for a client without it, with the format that fits."""
    if callable(function := _find_function(client, path)):
        return function
    text = f"This format takes a client with the function {path!r}, which {type(client).__name__} does not have."
    fitting = fitting_module(client)
    raise TypeError(text if fitting is None else f"{text} Use formats.{fitting}.model.")


def fitting_module(client: Any) -> str | None:
    """Return the first module whose `model` takes such a client; None for anything else."""
    fitting = (name for name, path in CLIENT_FUNCTIONS.items() if callable(_find_function(client, path)))
    return next(fitting, None)


def _find_function(client: Any, path: str) -> Any:
    found = client
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def read_answer(response: Any) -> tuple[JsonObject, list[Any]]:
    """Return an answer as JSON data and no events; or an empty object and the events of a stream."""
    data = parse_payload(response)
    if isinstance(data, list):
        return {}, data
    return data if isinstance(data, dict) else {}, []


def read_text(data: Any) -> str:
    """Return the text for the user in a message, or in its content."""
    from ahvn_tools.formats.parsing.text_calls import extract_text  # slow, and an export does not need it

    return extract_text(data)


def without_nulls(fields: Mapping[str, Any], *dropped: str) -> JsonObject:
    """Return the fields that have a value, without the `dropped` ones: SDKs write each unknown field as null."""
    return {key: value for key, value in fields.items() if value is not None and key not in dropped}


def merge_deltas(deltas: Iterable[Mapping[str, Any]], *dropped: str) -> JsonObject:
    """Return the fields of a message that arrives in pieces: texts and lists are joined, items of a list by `index`."""
    merged: JsonObject = {}
    for delta in deltas:
        for key, value in delta.items():
            if value is not None and key not in dropped:
                merged[key] = _join(key, merged.get(key), value)
    return merged


_NAMES: Final = ("role", "type", "id", "format", "signature", "name")
"""Fields whose text does not arrive in pieces."""


def _join(key: str, earlier: Any, value: Any) -> Any:
    if isinstance(earlier, str) and isinstance(value, str):
        return value if key in _NAMES else earlier + value
    if isinstance(value, list):
        items = [{"type": "text", "text": earlier}] if isinstance(earlier, str) and earlier else list(earlier or ())
        for item in value:
            _add_item(items, item)
        return items
    if isinstance(earlier, list) and isinstance(value, str):
        return _join(key, earlier, [{"type": "text", "text": value}] if value else [])
    return value


def _add_item(items: list[Any], item: Any) -> None:
    """Add an item to a list, or join it with the last one, which it continues."""
    last = items[-1] if items else None
    is_next = isinstance(last, dict) and isinstance(item, dict) and last.get("type") == item.get("type")
    if is_next and last.get("index") == item.get("index"):  # type: ignore[union-attr]  # a dict
        items[-1] = merge_deltas([last, item])  # type: ignore[list-item]  # a dict
    else:
        items.append(item)
