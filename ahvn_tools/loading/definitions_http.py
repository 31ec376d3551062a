"""Definitions of HTTP tools: the mapping of a YAML file as a spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ahvn_tools.errors import DefinitionError
from ahvn_tools.loading.definition_file import DefinitionFile
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.sources.http.body import require_trust
from ahvn_tools.sources.http.options import build_from_url
from ahvn_tools.spec import ToolSpec

_TEXT: Final = (str, "a text")
_SECRET: Final = (str, "the name of an environment variable: ${NAME}")
_PLACES: Final = ((dict, list), "a list of arguments, or a mapping to their names on the wire")

_KEYS: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    "api_url": (str, "a URL such as https://api.example/users/{user_id}"),
    "method": _TEXT,
    "query": _PLACES,
    "body": ((dict, list, str), f"{_PLACES[1]}, or the argument that is the whole body"),
    "header": (dict, "a mapping of arguments to headers"),
    "body_type": _TEXT,
    "headers": (dict, "a mapping of texts"),
    "auth_method": _TEXT,
    "api_key": _SECRET,
    "api_key_name": _TEXT,
    "username": _SECRET,
    "password": _SECRET,
    "client_id": _SECRET,
    "client_secret": _SECRET,
    "token_url": _TEXT,
    "scope": _TEXT,
    "token_audience": _TEXT,
    "client_authentication": _TEXT,
    "connect_timeout": ((int, float), "a number of seconds"),
    "retry_count": (int, "a whole number"),
    "retry_delay": ((int, float), "a number of seconds"),
    "max_response_bytes": (int, "a whole number"),
    "follow_redirects": (str, "true, false or same-origin"),
    "allow_private": (list, "true, or a list of hosts and networks"),
    "ca_file": _TEXT,
    "proxy": _TEXT,
    "binds": (dict, "a mapping of parameters to state keys"),
}

_EXPANDED: Final = ("api_url", "token_url", "scope", "token_audience", "ca_file", "proxy")
"""Keys whose variables are replaced when the file is read. Those of credentials are read at each call."""


def to_spec(definition: DefinitionFile, options: ReadOptions) -> ToolSpec:
    """Return the tool of a definition of the kind `http`. Raises SourceError and DefinitionError."""
    flags = [key for key in ("follow_redirects", "allow_private") if isinstance(definition.data.get(key), bool)]
    definition.check_keys({**_KEYS, **dict.fromkeys(flags, (bool, "true or false"))})
    if "api_url" not in definition.data:
        raise definition.error(None, "a definition of an HTTP tool has an `api_url`")
    own: dict[str, Any] = {key: definition.data[key] for key in _KEYS if key in definition.data}
    if "${" in str(definition.data["api_url"]).partition("?")[2]:
        raise definition.error("api_url", "a variable in the query would be no secret: use auth_method: api_key_query")
    for key in _EXPANDED:
        if key in own:
            own[key] = definition.expand(key, options)
    if definition.data.get("kind", definition.file.resolve().parent.name) == "native":
        own.setdefault("method", "POST")
    if "ca_file" in own:
        own["ca_file"] = str(definition.file.parent / own["ca_file"])
    tool_options = definition.tool_options()
    method, url = own.get("method", "GET"), definition.data["api_url"]
    origin = f"{method.upper()} {url.partition('?')[0]}"  # with the names of variables: their values are secrets
    try:
        template, body = build_from_url(
            tool_options.pop("name"), own.pop("api_url"), {**tool_options, **own}, options.env, origin
        )
    except DefinitionError as error:
        raise definition.wrap(error) from error
    if definition.is_enabled:
        require_trust(template, body, options.trust)
    return ToolSpec(template, body)
