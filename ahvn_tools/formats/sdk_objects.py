"""Objects of the providers' SDKs: which format they are in, by the module of their class."""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools import formats

TEXT_FORMAT: Final = "prompt"
"""The format of plain text: an answer of any provider can have such a text."""

NATIVE_FORMATS: Final = tuple(name for name in formats.BUILT_IN if name != TEXT_FORMAT)


def sdk_formats(answer: Any) -> list[str]:
    """Return the format of an SDK's object, or of the first in a list; none for any other object."""
    return [name for name in NATIVE_FORMATS if _is_of_sdk(_first(answer), name)]


def refuse_other_sdk(answer: Any, data: Any, format_name: str | None) -> None:
    """Raise TypeError for an SDK's object, or a list of them, that belongs to another format.

    One that looks like an answer in this format is accepted: several providers have the API of one. `data` is the
    answer as JSON data.
    """
    example = _first(answer)
    if format_name not in NATIVE_FORMATS or not hasattr(example, "model_dump") or _is_of_sdk(example, format_name):
        return
    if formats.get(format_name).looks_like(data):  # type: ignore[attr-defined]  # all of ours have it
        return
    for name in sdk_formats(example):
        kind = type(example).__name__
        raise TypeError(f"{kind} is no answer in the format {format_name!r}. Read it with the format {name!r}.")


def _first(answer: Any) -> Any:
    return answer[0] if isinstance(answer, list | tuple) and answer else answer


def _is_of_sdk(example: Any, format_name: str) -> bool:
    module = f"{type(example).__module__}."
    return any(module.startswith(f"{sdk}.") for sdk in getattr(formats.get(format_name), "SDK_MODULES", ()))
