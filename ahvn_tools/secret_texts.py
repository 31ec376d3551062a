"""SecretTexts: the credentials of a request or a connection, which are masked in what the service sends back."""

from __future__ import annotations

import base64
import functools
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ahvn_tools.redaction import MASK, MIN_MASKED_CHARS, is_secret_name, is_secret_url_parameter

_PLAIN_RUN = re.compile(r"[A-Za-z0-9._~-]+")
"""Characters that every encoding of a text leaves as they are."""

_MIN_RUN_CHARS = 4
"""A secret without so many of them in a row is searched for in every text."""

_MAX_ENCODED_CHARS = 20_000
"""A longer secret is recognized only as it is."""

_MIN_MASKED_NUMBER = 10 ** (MIN_MASKED_CHARS - 1)

_AUTHORIZATION_HEADERS = frozenset({"authorization", "proxy-authorization"})


class SecretTexts:
    """Secret texts that a service may send back.

    They are recognized as they are, in base64, percent-encoded, and with the escapes of JSON, HTML and Python.
    """

    def __init__(self) -> None:
        self._forms: tuple[_Form, ...] = ()
        """What is masked, longest first. It is replaced and never changed: other threads may be reading it."""

    def __bool__(self) -> bool:
        return bool(self._forms)

    def copy(self) -> SecretTexts:
        """Return an independent copy."""
        copied = SecretTexts()
        copied._forms = self._forms
        return copied

    def add(self, secret: str, *, only_in_errors: bool = False) -> None:
        """Add a text and its lines; those with fewer than six characters are not masked.

        `only_in_errors` is for a value that may be no secret: it is masked in errors, and not in results.
        """
        forms = {form.text: form for form in self._forms}
        for text in {secret, *secret.splitlines()}:
            if len(text) >= MIN_MASKED_CHARS:
                encoded = _base64(text).rstrip("=")
                for form in (text, encoded, encoded.replace("+", "-").replace("/", "_")):
                    if form not in forms or forms[form].is_only_in_errors:
                        forms[form] = _Form(form, is_only_in_errors=only_in_errors)
        self._forms = tuple(sorted(forms.values(), key=lambda form: len(form.text), reverse=True))

    def add_all(self, secrets: Iterable[str], *, only_in_errors: bool = False) -> None:
        """Add several texts."""
        for secret in secrets:
            self.add(secret, only_in_errors=only_in_errors)

    def add_header(self, name: str, value: str, *, only_in_errors: bool = False) -> None:
        """Add the value of a header; of Authorization and Cookie also the credentials in it."""
        texts = [value]
        scheme, _, credentials = value.partition(" ")
        if name.lower() in _AUTHORIZATION_HEADERS and credentials:
            texts = [credentials.strip()]  # without the scheme, which is the same for everybody
            if scheme.lower() == "basic":
                pair = _decode_base64(texts[0])
                texts += [pair, pair.partition(":")[2]]
        elif name.lower() == "cookie":
            texts += [part.partition("=")[2].strip() for part in value.split(";")]
        self.add_all(texts, only_in_errors=only_in_errors)

    def add_url(self, url: str) -> None:
        """Add the credentials in a URL, if the text is one. Other parameters of its query are masked in errors."""
        try:
            parts = urlsplit(url if "://" in url else "")
        except ValueError:
            return
        user, has_password, password = map(unquote, parts.netloc.rpartition("@")[0].partition(":"))
        if has_password:
            self.add_all([password, _base64(f"{user}:{password}")])
        elif parts.scheme in {"http", "https"}:  # elsewhere a user alone is no credential
            self.add(user)
        for name, value in parse_qsl(parts.query):
            self.add(value, only_in_errors=not is_secret_url_parameter(name))

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Add the values of environment variables; those whose name does not say that they are secret, for errors."""
        for name, value in variables.items():
            self.add(value, only_in_errors=not is_secret_name(name))
            self.add_url(value)

    def add_command(self, words: Sequence[str]) -> None:
        """Add the credentials in a command: in `--api-key=…`, `--api-key …`, `--header "Name: …"` and URLs."""
        for word, following in zip_longest(words, words[1:], fillvalue=""):
            name, has_value, value = word.partition("=")
            if is_secret_name(name.lstrip("-")) and (has_value or word.startswith("-")):
                self.add(value if has_value else "" if following.startswith("-") else following)
            elif word in {"--header", "-H"}:
                header, _, value = following.partition(":")
                self.add_header(header, value.strip())
            self.add_url(word)

    def mask(self, text: str, *, is_error: bool = False) -> str:
        """Return a text with `***` for the secrets."""
        if len(text) < MIN_MASKED_CHARS:
            return text
        for form in self._forms:
            if form.run in text and (is_error or not form.is_only_in_errors):
                text = form.pattern.sub(MASK, text)
        return text

    def mask_bytes(self, data: bytes, *, is_error: bool = False) -> bytes:
        """Return data with `***` for the secrets, which are recognized in UTF-8."""
        for form in self._forms:
            if form.run.encode() in data and (is_error or not form.is_only_in_errors):
                data = re.sub(form.pattern.pattern.encode("utf-8", "surrogatepass"), MASK.encode(), data)
        return data

    def mask_json(self, value: Any, *, is_error: bool = False) -> Any:
        """Return JSON with `***` for the secrets in texts, in names of members, and for an integer that has one."""
        if isinstance(value, str):
            return self.mask(value, is_error=is_error)
        if isinstance(value, dict):
            return {
                self.mask(name, is_error=is_error): self.mask_json(part, is_error=is_error)
                for name, part in value.items()
            }
        if isinstance(value, list):
            return [self.mask_json(part, is_error=is_error) for part in value]
        if isinstance(value, int) and abs(value) >= _MIN_MASKED_NUMBER:
            return value if self.mask(str(value), is_error=is_error) == str(value) else MASK
        return value


class _Form:
    """A text to mask, in any encoding that replaces single characters."""

    def __init__(self, text: str, *, is_only_in_errors: bool) -> None:
        self.text = text
        self.is_only_in_errors = is_only_in_errors
        run = max(_PLAIN_RUN.findall(text), key=len, default="")
        self.run = run if len(run) >= _MIN_RUN_CHARS else ""
        """A part that the text contains in each encoding; "" if there is none that is long enough."""

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """What the text looks like."""
        if len(self.text) > _MAX_ENCODED_CHARS:
            return re.compile(re.escape(self.text))
        encode = _first_pattern
        parts = []
        for char in self.text:
            parts.append(re.escape(char) if _PLAIN_RUN.fullmatch(char) else encode(char))
            encode = _character_pattern
        return re.compile("".join(parts))


def _first_pattern(char: str) -> str:
    """Return a regular expression for the first character; its choices begin with literals: such a search is fast."""
    return _any_of(re.escape(text[0]) + _escaped(text[1:]) for text in _encodings(char))


def _character_pattern(char: str) -> str:
    """Return a regular expression for another character."""
    texts = {text.lstrip("\\") or "\\" for text in _encodings(char)}
    return rf"\\{{0,4}}{_any_of(map(_escaped, texts))}"


def _escaped(text: str) -> str:
    """Return a regular expression for a text, whose backslashes may be escaped again."""
    return re.escape(text).replace(r"\\", r"\\{1,4}")


def _encodings(char: str) -> set[str]:
    """Return a character as it is and as encoders write it: JSON, Python, URLs, forms, HTML."""
    encoded = char.encode("utf-8", "surrogatepass")
    percent, code = quote(encoded, safe=""), f"{ord(char):04x}"
    texts = {char, json.dumps(char)[1:-1], repr(char)[1:-1], repr(encoded)[2:-1], html.escape(char)}
    numbers = {f"\\u{code}", f"\\u{code.upper()}", f"&#{ord(char)};", f"&#x{ord(char):x};", f"&#x{ord(char):X};"}
    return texts | numbers | {percent, percent.lower(), "+" if char == " " else char}


def _any_of(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(patterns, key=len, reverse=True))})"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _decode_base64(text: str) -> str:
    try:
        return base64.b64decode(text).decode("utf-8", "replace")
    except ValueError:
        return ""
