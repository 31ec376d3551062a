"""Texts and JSON without secrets: without the values of a call, and without the credentials of a connection."""

from __future__ import annotations

import binascii
import bisect
import functools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ahvn_tools.redaction.credentials import MASK, mask_credentials
from ahvn_tools.redaction.names import is_secret_name, is_secret_url_parameter
from ahvn_tools.redaction.values import HiddenValues, iter_parts

MIN_MASKED_CHARS = 6
"""The minimum length of a masked text: masking shorter ones would make messages unreadable."""

_PLAIN_RUN = re.compile(r"[A-Za-z0-9._~-]+")
"""Characters that every encoding of a text leaves as they are."""

_PIECES = re.compile(r"[A-Za-z0-9._~-]+|\\+|.", re.DOTALL)
"""What is encoded as a whole: plain characters, backslashes, and each other character."""

_MAX_ENCODED_CHARS = 20_000
"""A longer text is recognized only as it is, as a Python literal and in JSON."""

_MAX_CUT_TEXTS = 1_000
"""How many different parts of secrets are found in one text."""

_AUTHORIZATION_HEADERS = frozenset({"authorization", "proxy-authorization"})

Mask = Callable[[str], str]
"""Replaces secrets in a text."""


def redact(text: str, bound: Mapping[str, Any]) -> str:
    """Return `text` with every bound value of at least six characters replaced by `<parameter>`.

    Credentials in URLs and DSNs are replaced by `***`, whether bound or not.
    """
    return make_mask(bound)(text)


def make_mask(bound: Mapping[str, Any]) -> Mask:
    """Return what redacts many texts for the same bound values; see `redact`."""
    secrets = SecretTexts(bound)
    return lambda text: mask_credentials(secrets.mask(text))


def list_texts(bound: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the texts that `redact` replaces for these values, by name, without the values themselves."""
    texts: dict[str, list[str]] = {}
    for name, value in bound.items():
        parts = value if isinstance(value, HiddenValues) else [value]
        found = {text for part in parts for text in _texts_of(part) if len(text) >= MIN_MASKED_CHARS}
        if found:
            texts[name] = sorted(found)
    return texts


def find_cut_texts(text: str, secrets: Iterable[str]) -> list[str]:
    """Return the beginnings and endings of secrets that a text has without the rest, as a part of a longer text may."""
    found: list[str] = []
    for secret in {form for one in secrets for form in (one, json.dumps(one)[1:-1])}:
        pieces = text.split(secret)
        for cut in (_beginning, _ending):
            while (longest := _longest_in(pieces, secret, cut)) >= MIN_MASKED_CHARS and len(found) < _MAX_CUT_TEXTS:
                found.append(cut(secret, longest))
                pieces = [part for piece in pieces for part in piece.split(found[-1])]
    return found


def _beginning(secret: str, length: int) -> str:
    return secret[:length]


def _ending(secret: str, length: int) -> str:
    return secret[len(secret) - length :]


def _longest_in(pieces: Sequence[str], secret: str, cut: Callable[[str, int], str]) -> int:
    """Return the length of the longest part of a secret that is in one of the pieces."""
    return bisect.bisect_left(
        range(1, len(secret)), True, key=lambda length: not any(cut(secret, length) in piece for piece in pieces)
    )


class SecretTexts:
    """Secret texts, which are recognized as they are, in base64, percent-encoded, and as JSON, HTML and Python.

    They are the parts of `values`, which are shown as `<name>`, and credentials that are added, shown as `***`. Texts
    with fewer than six characters are not masked.
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._forms: tuple[_Form, ...] = ()
        """What is masked, longest first. It is replaced and never changed: threads and copies have it, too."""
        for name, value in (values or {}).items():
            parts = value if isinstance(value, HiddenValues) else [value]
            self._add((text for part in parts for text in _texts_of(part)), shown=f"<{name}>")

    def __bool__(self) -> bool:
        return bool(self._forms)

    def add(self, *secrets: str, only_in_errors: bool = False) -> None:
        """Add texts and their lines.

        `only_in_errors` is for a value that may be no secret: it is masked in errors, and not in results.
        """
        lines = (line for secret in secrets for line in secret.splitlines())
        self._add((*secrets, *lines), only_in_errors=only_in_errors)

    def _add(self, texts: Iterable[str], *, shown: str = MASK, only_in_errors: bool = False) -> None:
        forms = {form.text: form for form in self._forms}
        for text in texts:
            if len(text) >= MIN_MASKED_CHARS:
                encoded = _base64(text.encode("utf-8", "surrogatepass")).rstrip("=")
                for form in (text, encoded, encoded.replace("+", "-").replace("/", "_")):
                    if form not in forms or forms[form].only_in_errors:
                        forms[form] = _Form(form, shown, only_in_errors=only_in_errors)
        self._forms = tuple(sorted(forms.values(), key=lambda form: len(form.text), reverse=True))

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
        self.add(*texts, only_in_errors=only_in_errors)

    def add_url(self, url: str) -> None:
        """Add the credentials in a URL, if the text is one. Other parameters of its query are masked in errors."""
        from urllib.parse import parse_qsl, unquote, urlsplit  # most calls need none of this

        try:
            parts = urlsplit(url if "://" in url else "")
        except ValueError:
            return
        user, has_password, password = map(unquote, parts.netloc.rpartition("@")[0].partition(":"))
        if has_password:
            self.add(password, _base64(f"{user}:{password}".encode()))
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
        """Return a text without the secrets."""
        if len(text) < MIN_MASKED_CHARS:
            return text
        parts = [text]  # each second one is what is shown for a secret, and is not searched again
        for form in self._forms:
            if form.run in text and (is_error or not form.only_in_errors) and form.may_be_in(text):
                split = [form.split(part) if index % 2 == 0 else [part] for index, part in enumerate(parts)]
                parts = [piece for pieces in split for piece in pieces]
        return "".join(parts)

    def mask_bytes(self, data: bytes, *, is_error: bool = False) -> bytes:
        """Return data with `***` for the secrets, which are recognized in UTF-8."""
        for form in self._forms:
            if form.run.encode() in data and (is_error or not form.only_in_errors):
                data = re.sub(form.pattern.pattern.encode("utf-8", "surrogatepass"), MASK.encode(), data)
        return data

    def mask_json(self, value: Any, *, is_error: bool = False) -> Any:
        """Return JSON without the secrets in texts, names of members and numbers; such a number becomes a text."""
        return map_texts(value, lambda text, _: self.mask(text, is_error=is_error))


class JsonRedactor:
    """Replaces, in JSON, hidden values by `<name>`, credentials in URLs and DSNs by `***`, and then what a mask finds.

    A secret may be in several items of a list, such as those of a stream: all texts under the same names are read as
    one, too. If there is a secret in them that none of them has, the first one is the whole, and the others are empty.
    Unless they are chunks, the credentials and the mask are for the single texts alone. `fixed_keys` are names of a
    protocol, which stay.
    """

    def __init__(
        self, hidden: Mapping[str, Any], mask: Mask = str, *, has_chunks: bool, fixed_keys: Collection[str] = ()
    ) -> None:
        self._mask_hidden = SecretTexts(hidden).mask
        self._mask = mask
        self._has_chunks = has_chunks
        self._fixed_keys = fixed_keys

    def __call__(self, value: Any) -> Any:
        """Return redacted JSON."""
        pieces: dict[Names, list[str]] = {}

        def collect(text: str, names: Names | None) -> str:
            if names is not None:
                pieces.setdefault(names, []).append(text)
            return text

        def replace(text: str, names: Names | None) -> str:
            if names is None:
                return text if text in self._fixed_keys else self._redact(text)
            return next(redacted[names])

        map_texts(value, collect)
        redacted: dict[Names, Iterator[str]] = {names: iter(self._redact_all(texts)) for names, texts in pieces.items()}
        return map_texts(value, replace)

    def _redact_all(self, texts: list[str]) -> list[str]:
        redacted = list(map(self._redact, texts))
        if len(texts) == 1:
            return redacted
        redact_whole = self._redact if self._has_chunks else self._mask_hidden
        whole = redact_whole("".join(texts))
        return redacted if whole == "".join(map(redact_whole, texts)) else [whole, *[""] * (len(texts) - 1)]

    def _redact(self, text: str) -> str:
        return self._mask(mask_credentials(self._mask_hidden(text)))


Names = tuple[str, ...]
"""The names of the members that lead to a text in JSON."""


def mask_named(value: Any, names: Collection[str]) -> Any:
    """Return JSON with `***` for each member that has one of the names, or a secret name."""
    if isinstance(value, dict):
        return {
            key: MASK if key in names or is_secret_name(key) else mask_named(part, names) for key, part in value.items()
        }
    return [mask_named(part, names) for part in value] if isinstance(value, list) else value


def map_texts(value: Any, change: Callable[[str, Names | None], str], names: Names = ()) -> Any:
    """Return JSON with its texts changed, and, with None for their names, its keys and those numbers that change."""
    if isinstance(value, str):
        return change(value, names)
    if isinstance(value, list):
        return [map_texts(part, change, names) for part in value]
    if isinstance(value, dict):
        return {change(key, None): map_texts(part, change, (*names, key)) for key, part in value.items()}
    if value is None or isinstance(value, bool):
        return value
    text = change(str(value), None)
    return value if text == str(value) else text


class _Form:
    """A text to mask, in any encoding that replaces single characters."""

    def __init__(self, text: str, shown: str, *, only_in_errors: bool) -> None:
        self.text, self.shown, self.only_in_errors = text, shown, only_in_errors

    @functools.cached_property
    def run(self) -> str:
        """A part that the text has in each encoding."""
        return max(_PLAIN_RUN.findall(self.text), key=len, default="")

    def may_be_in(self, text: str) -> bool:
        """Return whether a text is long enough and has all plain characters of this one, in this order."""
        end = 0
        for run in _PLAIN_RUN.finditer(self.text if len(self.text) <= len(text) else ""):
            start = text.find(run[0], end)
            if start < 0:
                return False
            end = start + len(run[0])
        return len(self.text) <= len(text)

    def split(self, text: str) -> list[str]:
        """Return the parts of a text between which this one is, and what is shown instead of it between each two."""
        pieces = [text]
        if len(self.text) <= _MAX_ENCODED_CHARS:
            pieces = self.pattern.split(text)
        else:
            quoted = (repr(self.text), json.dumps(self.text), json.dumps(self.text, ensure_ascii=False))
            for literal in {self.text, *(one[1:-1] for one in quoted)}:
                pieces = [part for piece in pieces for part in piece.split(literal)]
        result = [self.shown] * (2 * len(pieces) - 1)
        result[::2] = pieces
        return result

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """What the text looks like."""
        if len(self.text) > _MAX_ENCODED_CHARS:
            return re.compile(re.escape(self.text))
        first, *others = _PIECES.findall(self.text)
        return re.compile(_first_pattern(first) + "".join(map(_pattern, others)))


def _first_pattern(piece: str) -> str:
    """Return a regular expression for the first piece; its choices begin with literals: such a search is fast."""
    if piece.strip("\\") == "" or _PLAIN_RUN.fullmatch(piece):
        return _pattern(piece)
    return _any_of(re.escape(text[0]) + _escaped(text[1:]) for text in _encodings(piece))


@functools.lru_cache(1000)
def _pattern(piece: str) -> str:
    """Return a regular expression for another piece, which never tries two ways to read the same backslashes."""
    if _PLAIN_RUN.fullmatch(piece):
        return re.escape(piece)
    if piece.strip("\\") == "":
        codes = _any_of(map(re.escape, _encodings("\\") - {"\\", r"\\"}))
        return rf"(?:\\\\{{{len(piece) - 1},}}+|{codes}{{{len(piece)}}})"
    texts = {text.lstrip("\\") for text in _encodings(piece)}
    return rf"\\{{0,4}}+{_any_of(map(_escaped, texts))}"


def _escaped(text: str) -> str:
    """Return a regular expression for a text, whose backslashes may be escaped again."""
    return re.escape(text).replace(r"\\", r"\\{1,4}")


def _encodings(char: str) -> set[str]:
    """Return a character as it is and as encoders write it: JSON, Python, URLs, forms, HTML."""
    from html import escape  # most calls need none of this
    from urllib.parse import quote

    encoded = char.encode("utf-8", "surrogatepass")
    percent, code = quote(encoded, safe=""), f"{ord(char):04x}"
    texts = {char, json.dumps(char)[1:-1], repr(char)[1:-1], repr(encoded)[2:-1], escape(char)}
    numbers = {f"\\u{code}", f"\\u{code.upper()}", f"&#{ord(char)};", f"&#x{ord(char):x};", f"&#x{ord(char):X};"}
    return texts | numbers | {percent, percent.lower(), "+" if char == " " else char}


def _any_of(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(patterns, key=len, reverse=True))})"


def _texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a value and of its parts; of bytes as UTF-8, as a literal and in base64."""
    for part in iter_parts(value):
        if isinstance(part, bytes | bytearray):
            yield from (part.decode("utf-8", "replace"), repr(bytes(part))[2:-1], _base64(part).rstrip("="))
        elif isinstance(part, str):
            yield str(part)
        else:
            yield from (_text_of(part, str), _text_of(part, repr))


def _text_of(value: Any, form: Callable[[Any], str]) -> str:
    try:
        return form(value)
    except Exception:  # noqa: BLE001  # an integer with too many digits; what has no text needs no mask
        return ""


def _base64(data: bytes | bytearray) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def _decode_base64(text: str) -> str:
    try:
        return binascii.a2b_base64(text).decode("utf-8", "replace")
    except ValueError:
        return ""
