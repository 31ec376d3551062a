"""UrlTemplate: a URL with places for arguments in its path and in the values of its query."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ahvn_tools.errors import DefinitionError

_PLACE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, kw_only=True)
class UrlTemplate:
    """The parts of a URL such as `https://api.example/users/{user_id}/notes?q={text}&format=json`."""

    base_url: str
    """Scheme, host and port."""
    path: str
    path_arguments: tuple[str, ...]
    query: tuple[tuple[str, str], ...]
    """What every request has."""
    query_arguments: tuple[tuple[str, str], ...]
    """The name of a query parameter and the name of the argument that is its value."""

    @classmethod
    def parse(cls, url: Any) -> UrlTemplate:
        """Raises DefinitionError for what is no URL, and for a template anywhere else."""
        if not isinstance(url, str) or "://" not in url:
            raise DefinitionError("api_url must be a URL such as 'https://api.example/users/{user_id}'.")
        if "${" in url:
            raise DefinitionError("A template of api_url is written without a dollar sign: {user_id}.")
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise DefinitionError(f"api_url cannot be read: {error}.") from None
        if parts.fragment:
            raise DefinitionError("api_url has a fragment, which no server gets: remove what follows '#'.")
        path_arguments = tuple(dict.fromkeys(_PLACE.findall(parts.path)))
        if "" in path_arguments:
            raise DefinitionError("A template of api_url has the name of an argument: {user_id}.")
        fixed, places = [], []
        for key, value in parse_qsl(parts.query, keep_blank_values=True):
            place = _PLACE.fullmatch(value)
            if place is not None and place[1]:
                places.append((key, place[1]))
            elif "{" in key + value:
                raise DefinitionError("A template in the query of api_url is a whole value: '?q={text}'.")
            else:
                fixed.append((key, value))
        base_url = f"{parts.scheme}://{parts.netloc}"
        return cls(
            base_url=base_url,
            path=parts.path,
            path_arguments=path_arguments,
            query=tuple(fixed),
            query_arguments=tuple(places),
        )
