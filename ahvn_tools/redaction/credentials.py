"""Credentials in the URLs and DSNs of a text, which are masked whether or not anything else knows them."""

from __future__ import annotations

import re

from ahvn_tools.redaction.names import is_secret_name, is_secret_url_parameter

MASK = "***"
"""The replacement of a secret."""

_URL = r"""://[^\s"'<>`]+"""
"""A URL without its scheme, or several that no space or quote separates. `re` compiles this at its first use."""

_URL_PARAMETER = re.compile(r"(?<=[?&#;])([^=&#;?]+)=([^&#;]+)")

_DSN_PARAMETER = (
    r"""(?i)(?<![\w?&#-])([\w-]{0,40}(?:password|passwd|pwd|passphrase|secret|token|key|signature))(\s?=\s?)"""
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\{[^}\n]*\}|[^\s;"'={][^;\n"'=]*(?=;\s*\w[\w\ ]*=)|[^\s;=][^\s;]*)"""
)
"""A parameter that may be secret, and its value: quoted, in braces, up to the `;` before another one, or a word.

Compiling it is slow, and is done at its first use.
"""

_PARAMETER_BEFORE = r"""[\w=]\s?=(?:\s?(?:'[^']*'|"[^"]*"|[^\s;,=]+)?[;,]?\s+|[^=;\n]*;\s*)\Z"""
_PARAMETER_AFTER = r"\s*;|,?\s+[\w-]+\s?=\s?[^\s=]"

_MAX_NEIGHBOR_CHARS = 200
"""How far from a parameter of a DSN another one is looked for."""


def mask_credentials(text: str) -> str:
    """Return `text` with `***` for the credentials in its URLs and DSNs.

    As in `https://user:password@host`, `?token=abc`, `host=h password=abc` and `Server=h;Password=abc;`.
    """
    if "://" in text:
        text = re.sub(_URL, _mask_urls, text)
    return re.sub(_DSN_PARAMETER, _mask_dsn_parameter, text) if "=" in text else text


def _mask_urls(match: re.Match[str]) -> str:
    scheme = match.string[max(match.start() - 5, 0) : match.start()]
    _, *urls = match[0].split("://")
    return "".join(f"://{_mask_url(before, url)}" for before, url in zip((scheme, *urls), urls, strict=False))


def _mask_url(scheme: str, rest: str) -> str:
    """Return what follows the scheme of a URL; `scheme` is the text before it."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    end = authority.rfind("@")
    host, _, port = authority.rpartition(":")
    if end < 0 and host and not (port.isdecimal() or port.endswith("]")):
        end = rest.rfind("@")  # a password that is not percent-encoded
    is_http = scheme[-5:].lower().endswith(("http", "https"))
    if end > 0 and (is_http or ":" in rest[:end]):  # a user alone, as in `ssh://git@host`, is no credential
        rest = MASK + rest[end:]
    return _URL_PARAMETER.sub(_mask_url_parameter, rest)


def _mask_url_parameter(match: re.Match[str]) -> str:
    return f"{match[1]}={MASK}" if is_secret_url_parameter(match[1]) else match[0]


def _mask_dsn_parameter(match: re.Match[str]) -> str:
    """Return a parameter without its secret. One alone, as in "try again with token=abc", is not that of a DSN."""
    name, equals, value = match.groups()
    before = match.string[max(match.start() - _MAX_NEIGHBOR_CHARS, 0) : match.start()]
    before = before[max(before.rfind("=") - 2, 0) :]
    after = match.string[match.end() : match.end() + _MAX_NEIGHBOR_CHARS]
    if not (is_secret_name(name) and (re.search(_PARAMETER_BEFORE, before) or re.match(_PARAMETER_AFTER, after))):
        return match[0]
    is_quoted = value[0] in "'\"{" and len(value) > 1
    ending = "" if is_quoted else value[len(value.rstrip(")]}\"'.,")) :]
    return f"{name}{equals}{MASK}{ending}"
