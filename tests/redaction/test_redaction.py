"""Redaction: no text from a tool or server contains a value that was bound in the call."""

from __future__ import annotations

import json
from collections import UserDict, deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, NewType, Optional

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretBytes, SecretStr
from typing_extensions import TypeAliasType

from ahvn_tools import Secret, ToolError, ToolSpec
from ahvn_tools.errors import MAX_TEXT_CHARS, clip
from ahvn_tools.redaction.names import is_secret_annotation, is_secret_name, is_secret_schema
from ahvn_tools.redaction.texts import redact
from ahvn_tools.redaction.values import find_secrets
from tests.ids import named

CANARY = "canary-7f3a9c"


class Model(BaseModel):
    token: str


@dataclass
class Record:
    token: str


class ApiKey(SecretStr):
    pass


class Unreadable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class TestRedact:
    @pytest.mark.parametrize(
        "value",
        [
            CANARY,
            SecretStr(CANARY),
            SecretBytes(CANARY.encode()),
            pydantic.Secret[str](CANARY),
            CANARY.encode(),
            bytearray(CANARY.encode()),
            {"api": {"token": CANARY}},
            {"api": {"token": SecretStr(CANARY)}},
            [1, [2, [3, [4, [5, [6, CANARY]]]]]],
            (CANARY,),
            {CANARY},
            frozenset({CANARY}),
            deque([CANARY]),
            UserDict(token=CANARY),
            Model(token=CANARY),
            Record(token=CANARY),
            [Model(token=CANARY)],
            {"records": [Record(token=CANARY)]},
        ],
        ids=repr,
    )
    def test_a_value_is_masked_however_it_is_wrapped(self, value):
        assert redact(f"failed for {CANARY}!", {"key": value}) == "failed for <key>!"

    @pytest.mark.parametrize(
        "value",
        [
            'it\'s "quoted"\n',
            "back\\slash",
            "größer als",
            "two\nlines",
            b"\xff\x00binary",
            {"a": 1, "b": [2]},
            [1, 2, 3],
            123456,
        ],
        ids=repr,
    )
    @pytest.mark.parametrize("form", [str, repr], ids=["str", "repr"])
    def test_a_value_is_masked_as_a_python_literal(self, value, form):
        masked = redact(f"failed for {form(value)}!", {"key": value})
        assert "<key>" in masked
        assert form(value) not in masked

    @pytest.mark.parametrize("value", ['it\'s "quoted"\n', "größer als", "back\\slash"])
    def test_a_text_is_masked_in_json(self, value):
        assert json.dumps(value)[1:-1] not in redact(json.dumps({"sent": value}), {"key": value})

    @pytest.mark.parametrize("value", ["short", "", 12345, True, None, b"12345", Unreadable()])
    def test_short_values_and_values_without_a_text_are_not_masked(self, value):
        text = "a short text: 12345 True None"
        assert redact(text, {"key": value}) == text

    def test_six_characters_are_masked(self):
        assert redact("abcdef abcde", {"key": "abcdef"}) == "<key> abcde"

    def test_the_longest_value_is_masked_first(self):
        assert redact("tok-123456-long", {"a": "tok-123456", "b": "tok-123456-long"}) == "<b>"

    def test_a_mask_is_not_masked_again(self):
        assert redact("it is secret-value", {"api_key": "secret-value", "other": "api_key"}) == "it is <api_key>"

    def test_a_circular_container_is_masked_in_finite_time(self):
        ring: list[Any] = [CANARY]
        ring.extend([ring] * 1_000)
        assert redact(CANARY, {"key": ring}) == "<key>"

    def test_a_container_with_very_many_items_is_masked_in_finite_time(self):
        rows = [{"id": number, "name": f"name-{number:09}"} for number in range(50_000)]
        assert redact("see name-000000001", {"rows": rows}) == "see <rows>"

    def test_names_of_keys_are_not_values(self):
        assert redact("password is wrong", {"config": {"password": CANARY}}) == "password is wrong"

    @given(st.text(min_size=6, max_size=40), st.text(max_size=20), st.text(max_size=20))
    def test_no_text_of_six_characters_survives(self, value, before, after):
        masked = redact(before + value + after, {"k": value})
        assert masked.count("<k>") >= 1
        assert value not in masked.replace("<k>", "\N{NULL}" if "\N{NULL}" not in value else "|")


class TestURLs:
    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("no route to db://user:pw@host/x!", "no route to db://***@host/x!"),
            ("'https://user:pw@host'", "'https://***@host'"),
            ("https://ghp-token@host/path", "https://***@host/path"),
            ("HTTPS://user:pw@host", "HTTPS://***@host"),
            ("redis://:pw@host", "redis://***@host"),
            ("postgres://user:p@ss@host", "postgres://***@host"),
            ("postgres://user:p/w?#@host/db", "postgres://***@host/db"),
            ("mongodb+srv://u:p@a,b:2/db?x=1", "mongodb+srv://***@a,b:2/db?x=1"),
            ("a://u:p@h,b://u:p@h b://u:p@h", "a://***@h,b://***@h b://***@h"),
            ("https://h/p?api_key=abc&page=1#access_token=d", "https://h/p?api_key=***&page=1#access_token=***"),
            ("https://h/p?X-Amz-Signature=a&key=b;sig=c", "https://h/p?X-Amz-Signature=***&key=***;sig=***"),
            ("jdbc:postgresql://h/db?user=a&password=b", "jdbc:postgresql://h/db?user=a&password=***"),
        ],
    )
    def test_credentials_in_a_url_are_masked(self, text, masked):
        assert redact(text, {}) == masked

    @pytest.mark.parametrize(
        "text",
        [
            "https://host/path?page=1", "https://host:8080/@user", "https://[::1]:80/@user", "https://[::a]/@user",
            "https://host/@user", "ssh://git@host/repo", "mail ann@host, see https://host, or a:b@c", "://", "a://@h",
            "https://host/?=1&key&token=",
        ],
    )  # fmt: skip
    def test_other_urls_stay_as_they_are(self, text):
        assert redact(text, {}) == text

    def test_a_bound_url_is_masked_as_a_whole(self):
        assert redact("no route to db://user:pw@host", {"dsn": "db://user:pw@host"}) == "no route to <dsn>"
        assert redact("no route to db://user:pw-123@host", {"pin": "pw-123"}) == "no route to db://user:<pin>@host"

    @pytest.mark.parametrize("error", [ValueError, ToolError, ConnectionError])
    def test_no_error_of_a_tool_shows_them(self, error):
        def connect(host: str) -> str:
            raise error(f"cannot reach db://admin:hunter2@{host}")

        spec = ToolSpec.from_function(connect)
        assert "db://***@h" in spec.exec(host="h").error.message
        with pytest.raises(error, match="hunter2"):
            spec.call(host="h")

    @pytest.mark.parametrize("part", ["a://b:c", "://", "a", "a:", "?a", "?token=a", "@", "a@"])
    @pytest.mark.default_cases(3)
    def test_a_long_text_is_searched_in_linear_time(self, part):
        """In quadratic time this would take hours."""
        long = part * 100_000
        text = f"https://host/?{long} https://{long} {long}://host"
        assert "host" in redact(text, {})


class TestDSNs:
    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("host=h user=u password=p", "host=h user=u password=***"),
            ("password=p host=h", "password=*** host=h"),
            ("cannot connect (host=h password=p).", "cannot connect (host=h password=***)."),
            ("connect to 'host=h password=p' failed", "connect to 'host=h password=***' failed"),
            (r"host = h password = 'my \' p' user=u", "host = h password = *** user=u"),
            ("host=h sslpassword=p", "host=h sslpassword=***"),
            ("Password=p;", "Password=***;"),
            ("Server=h;User Id=u;Password=p;Encrypt=yes", "Server=h;User Id=u;Password=***;Encrypt=yes"),
            ("Server=h;Password=my p;User Id=u", "Server=h;Password=***;User Id=u"),
            ("Server=h; Pwd={p;p}; Uid=u", "Server=h; Pwd=***; Uid=u"),
            ('Server=h;Password="p;p"', "Server=h;Password=***"),
            ("dsn='Server=h;Pwd=p'", "dsn='Server=h;Pwd=***'"),
            ("AccountName=n;AccountKey=a/b+c==;", "AccountName=n;AccountKey=***;"),
            ("Endpoint=sb://h/;SharedAccessKey=a=;", "Endpoint=sb://h/;SharedAccessKey=***;"),
            ("Settings(host='h', password='p')", "Settings(host='h', password=***)"),
            ("password=a&b host=h", "password=*** host=h"),
        ],
    )
    def test_credentials_in_a_dsn_are_masked(self, text, masked):
        assert redact(text, {}) == masked

    @pytest.mark.parametrize(
        "text",
        [
            "try again with token=abc", "user=u host=h", "password=", "password = ", "if token == x: pass",
            "'password=p'", "monkey=1; donkey=2", "tokens=512 limit=500", "key=a sort_key=b", "host=h password",
        ],
    )  # fmt: skip
    def test_other_texts_stay_as_they_are(self, text):
        assert redact(text, {}) == text

    @pytest.mark.parametrize("error", [ValueError, ToolError, ConnectionError])
    def test_no_error_of_a_tool_shows_them(self, error):
        def connect(host: str) -> str:
            raise error(f"cannot reach host={host} user=admin password=hunter2")

        assert "user=admin password=***" in ToolSpec.from_function(connect).exec(host="h").error.message

    @pytest.mark.parametrize(
        "part", ["password=", "password=a ", "password='", "pwd={", "password=a;", "a=", "password", "key=a ;", "="]
    )
    @pytest.mark.default_cases(3)
    def test_a_long_text_is_searched_in_linear_time(self, part):
        """In quadratic time this would take hours."""
        assert "host" in redact(f"host {part * 100_000} host", {})


class TestClip:
    def test_a_short_text_is_not_cut(self):
        assert clip("x" * MAX_TEXT_CHARS) == "x" * MAX_TEXT_CHARS

    def test_a_long_text_is_cut_with_a_note(self):
        assert clip("abcdef", 4) == "abcd… (2 more characters)"


Token = NewType("Token", SecretStr)
Alias = TypeAliasType("Alias", Annotated[str, Secret])


class TestIsSecret:
    @pytest.mark.parametrize(
        "annotation",
        [
            SecretStr,
            SecretBytes,
            ApiKey,
            pydantic.Secret[int],
            Annotated[str, Secret],
            Annotated[str, Secret()],
            Annotated[str, "The token.", Secret],
            Annotated[SecretStr, "The token."],
            Optional[SecretStr],
            SecretStr | None,
            Annotated[str, Secret] | None,
            list[SecretStr],
            dict[str, Annotated[str, Secret]],
            Token,
            Alias,
            Annotated[Alias, "The token."],
        ],
        ids=named,
    )
    def test_these_annotations_mark_a_secret(self, annotation):
        assert is_secret_annotation(annotation)
        assert Secret.is_in(annotation)

    @pytest.mark.parametrize(
        "annotation",
        [str, Annotated[str, "Secret"], list[str], str | None, Any, "SecretStr", None, Model, NewType("Plain", str)],
        ids=str,
    )
    def test_these_annotations_do_not_mark_a_secret(self, annotation):
        assert not is_secret_annotation(annotation)
        assert not Secret.is_in(annotation)


class TestInCalls:
    """What tools raise reaches `exec` masked, and `call` untouched."""

    @pytest.mark.parametrize("error", [ValueError, ToolError, KeyError, TimeoutError])
    def test_exec_masks_and_call_does_not(self, error):
        def use(query: str, token: str) -> str:
            raise error(f"bad token {token}")

        spec = ToolSpec.from_function(use).bind("token", default=CANARY)
        result = spec.exec(query="q")
        assert result.error.code == "tool_error"
        assert "bad token <token>" in result.error.message
        assert CANARY not in repr(result)
        with pytest.raises(error, match=CANARY):
            spec.call(query="q")

    def test_constants_and_values_of_resolvers_are_masked(self):
        import functools

        def use(constant: str, resolved: str) -> str:
            raise ValueError(f"{constant} and {resolved}")

        spec = ToolSpec.from_function(functools.partial(use, "constant-1")).bind(
            "resolved", resolver=lambda: "resolved-2"
        )
        assert spec.exec().error.message == "ValueError: <constant> and <resolved>"

    def test_arguments_of_the_caller_are_not_masked(self):
        def use(query: str, token: str) -> str:
            raise ValueError(f"no results for {query}")

        spec = ToolSpec.from_function(use).bind("token", default=CANARY)
        assert spec.exec(query="kangaroos").error.message == "ValueError: no results for kangaroos"

    def test_an_object_is_masked_by_its_text(self):
        def use(handle: Any) -> str:
            raise ValueError(f"closed: {handle}")

        spec = ToolSpec.from_function(use).bind("handle", default=SimpleNamespace(token=CANARY))
        assert spec.exec().error.message == "ValueError: closed: <handle>"

    def test_a_long_text_is_masked_before_it_is_cut(self):
        def use(token: str) -> str:
            raise ValueError("x" * (MAX_TEXT_CHARS - 20) + token)

        message = ToolSpec.from_function(use).bind("token", default=CANARY * 3).exec().error.message
        assert "canary" not in message


@pytest.mark.parametrize(
    "name",
    [
        "password", "api_key", "apikey", "apiKey", "access-token", "user_token", "Authorization", "clientSecret",
        "secret_key", "pwd", "auth", "signing_key", "encryption_key", "session_key", "jwt", "JWT", "cookie", "tokens",
        "dsn", "passwords", "secrets", "api_keys", "set-cookie", "refreshTokens", "connection_string", "basicAuth",
        "PGPASSWORD", "dbpassword", "authtoken", "accesstoken", "refreshtoken", "idtoken", "csrftoken", "clientsecret",
        "MYSECRET", "sessionid", "JSESSIONID", "bearer", "passcode", "otp", "totp", "otpCode", "creds", "cred",
        "hmac_key", "GITHUB_PAT", "db-passwd",
    ],
)  # fmt: skip
def test_parameters_are_secret_by_their_name(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "query", "max_tokens", "output_tokens", "token_count", "key", "public_key", "sort_key", "secretary", "author",
        "passwordless", "authors", "cookie_banner", "",
        "monkey", "hotkey", "turkey", "session_id", "sessionId", "id", "pat", "path", "file_pat", "compat", "credit",
        "sacred", "bearers", "passcode_length", "otp_version", "hotp_counter", "id_tokens_count", "maxtokens",
        "subtoken", "hmac", "hmac_algorithm", "secretion", "password_policy", "forbearer", "incredible", "robot",
    ],
)  # fmt: skip
def test_names_similar_to_those_of_secrets_are_not_secret(name):
    assert not is_secret_name(name)


def test_a_value_is_masked_in_json_with_unescaped_letters():
    value = 'pässwörd "of" Ann'
    text = json.dumps({"said": value}, ensure_ascii=False)
    assert redact(text, {"token": value}) == '{"said": "<token>"}'


class TestSecretParts:
    @pytest.mark.parametrize(
        ("arguments", "found"),
        [
            ({"phrase": CANARY, "page": "two"}, {"phrase": [CANARY]}),
            ({"deep": [{"password": "first"}, {"password": "second"}]}, {"password": ["first", "second"]}),
            ({"deep": {"phrase": CANARY}}, {"phrase": [CANARY]}),
            ({"keys": [SecretStr(CANARY)]}, {"keys": [SecretStr(CANARY)]}),
            ({"record": Record(token=CANARY)}, {"token": [CANARY]}),
            ({"model": Model(token=CANARY)}, {"token": [CANARY]}),
            ({"page": "two", "rows": [1, None]}, {}),
        ],
        ids=repr,
    )
    def test_secrets_are_found_by_name_and_type_at_any_depth(self, arguments, found):
        assert find_secrets(arguments, {"phrase"}) == found

    def test_several_secrets_of_one_name_are_all_masked(self):
        parts = find_secrets({"a": {"password": "first-one"}, "b": {"password": "second-one"}})
        assert redact("first-one, second-one", parts) == "<password>, <password>"

    def test_circular_arguments_are_searched_in_finite_time(self):
        ring: dict[str, Any] = {"password": CANARY}
        ring["ring"] = [ring]
        assert find_secrets(ring) == {"password": [CANARY]}


@pytest.mark.parametrize(
    ("schema", "is_marked"),
    [
        ({"type": "string", "format": "password"}, True),
        ({"type": "string", "writeOnly": True}, True),
        ({"anyOf": [{"type": "null"}, {"writeOnly": True}]}, True),
        ({"type": "array", "items": {"format": "password"}}, True),
        ({"type": "object", "properties": {"a": {"writeOnly": True}}}, False),
        ({"type": "string"}, False),
        (True, False),
    ],
)
def test_a_schema_can_mark_its_value_as_secret(schema, is_marked):
    assert is_secret_schema(schema) is is_marked
