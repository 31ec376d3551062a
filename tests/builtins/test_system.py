"""System describes the machine without names of people, and reads no environment variable that is not allowed."""

from __future__ import annotations

import getpass
import os
import platform
import socket

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import system
from ahvn_tools.builtins.system import System
from ahvn_tools.errors import DefinitionError

SECRET_NAMES = [
    "API_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "OPENAI_API_KEY", "DB_PASSWORD",
    "PGPASSWORD", "MYSQL_PWD", "SENTRY_DSN", "DATABASE_URL", "REDIS_URL", "SESSION_COOKIE", "HTTP_AUTHORIZATION",
    "SSH_AUTH_SOCK", "GOOGLE_APPLICATION_CREDENTIALS", "apiKey", "Passphrase", "JWT", "SIGNING_CERT",
    "AzureConnectionString", "SLACK_WEBHOOK_URL", "GITLAB_PAT", "CARD_PIN", "APP_BEARER",
]  # fmt: skip


def read(name, **options):
    return Toolkit("machine").add(System(**options)).exec("get_env_var", {"name": name})


def test_an_allowed_variable_is_read_at_each_call(monkeypatch):
    kit = Toolkit("machine").add(System(environment=["APP_MODE"]))
    assert kit.call("get_env_var", {"name": "APP_MODE"}) == "Environment variable 'APP_MODE' is not set."
    monkeypatch.setenv("APP_MODE", "test")
    assert kit.call("get_env_var", {"name": "APP_MODE"}) == "test"


def test_an_empty_value_is_a_value(monkeypatch):
    monkeypatch.setenv("APP_MODE", "")
    assert read("APP_MODE", environment=["APP_MODE"]).value == ""


def test_the_answer_to_a_name_that_is_not_allowed_does_not_say_whether_it_is_set(monkeypatch):
    texts = set()
    for value in (None, "", "value-of-other"):
        monkeypatch.delenv("OTHER", raising=False) if value is None else monkeypatch.setenv("OTHER", value)
        result = read("OTHER", environment=["APP_MODE"])
        assert result.is_error
        texts.add(result.text)
    assert texts == {"Environment variable 'OTHER' cannot be read here. These can: APP_MODE."}


@pytest.mark.parametrize("name", ["", " ", "\n"])
def test_a_missing_name_is_an_error(name):
    assert read(name).text == "Please specify the environment variable name."


@pytest.mark.parametrize(
    "name", ["app_mode", "APP_MODE ", "APP_MOD?", "APP_*", "A\0B", "A\ud800", "A=B", "x" * 100_000, "$APP_MODE"]
)
def test_odd_names_are_refused(name, monkeypatch):
    monkeypatch.setenv("APP_MODE", "test")
    result = read(name, environment=["APP_MODE"])
    assert result.is_error
    assert len(result.text) < 300


def test_a_long_name_that_is_not_set_is_shortened():
    assert len(read("APP_" + "x" * 100_000, environment=["APP_*"]).text) < 300


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets_are_never_matched_by_a_pattern(name, monkeypatch):
    monkeypatch.setenv(name, "value-of-secret")
    result = read(name, environment=["*"])
    assert result.is_error
    assert "value-of-secret" not in result.text


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_the_name_of_a_secret_must_be_allowed_twice(name, monkeypatch):
    with pytest.raises(DefinitionError, match="indicates a secret"):
        System(environment=[name])
    monkeypatch.setenv(name, "value-of-secret")
    assert read(name, environment=[name], secrets=[name]).value == "value-of-secret"


@pytest.mark.parametrize("value", [
    "ghp_" + "a1B2" * 9, "sk-proj-" + "a1B2" * 9, "AKIA" + "ABCD" * 4, "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln",
    "-----BEGIN RSA PRIVATE KEY-----\nx", "glpat-" + "a1B2" * 5, "xoxb-" + "123456-" * 4, "AIza" + "a1B2" * 9,
])  # fmt: skip
def test_a_value_that_looks_like_a_secret_is_refused_under_any_name(value, monkeypatch):
    monkeypatch.setenv("APP_MODE", f"x {value}")
    result = read("APP_MODE", environment=["APP_MODE"])
    assert result.is_error
    assert value not in result.text


def test_credentials_in_a_url_are_masked(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://ann:hunter22@proxy:3128")
    assert read("HTTP_PROXY", environment=["HTTP_PROXY"]).value == "http://***@proxy:3128"


def test_a_long_value_is_cut(monkeypatch):
    monkeypatch.setenv("APP_LONG", "x" * 100_000)
    value = read("APP_LONG", environment=["APP_*"]).value
    assert len(value) < 20_100
    assert value.endswith("… (80000 more characters)")


@pytest.mark.parametrize("options", [{"environment": "PATH"}, {"secrets": "PATH"}])
def test_a_text_in_place_of_a_list_is_a_mistake(options):
    with pytest.raises(DefinitionError):
        System(**options)


def test_system_info_has_one_line_for_each_fact():
    text = Toolkit("machine").add(System()).call("system_info", {})
    assert [line.partition(": ")[0] for line in text.splitlines()] == [
        "Platform", "Release", "Default Shell (Env)", "Available Shells", "Init System", "Distro Info",
        "System Package Managers", "Language Package Managers", "Container & Virtualization",
    ]  # fmt: skip
    assert f"Release: {platform.release()}" in text
    assert "sh: " in text


def test_system_info_does_not_name_the_user_or_the_machine(tmp_path, monkeypatch):
    home = tmp_path / "home-of-ann"
    (home / "bin").mkdir(parents=True)
    (home / "bin/cargo").write_text("#!/bin/sh\n")
    (home / "bin/cargo").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SHELL", f"{home}/bin/zsh")
    monkeypatch.setenv("PATH", f"{home}/bin{os.pathsep}{os.environ['PATH']}")
    text = Toolkit("machine").add(System()).call("system_info", {})
    assert "cargo: ~/bin/cargo" in text
    assert "Default Shell (Env): ~/bin/zsh" in text
    assert "home-of-ann" not in text
    assert socket.gethostname() not in text
    assert getpass.getuser() not in text.replace("/root", "").split()


@pytest.mark.parametrize(("name", "line"), [
    ("Darwin", "Init System: launchd (Controls services via launchctl)"), ("Windows", "Init System: unknown"),
])  # fmt: skip
def test_other_systems_are_described(name, line, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: name)
    assert line in Toolkit("machine").add(System()).call("system_info", {}).splitlines()


def test_a_probe_that_fails_is_unknown(monkeypatch):
    def fail():
        raise OSError

    monkeypatch.setitem(system._PROBES, "Platform", fail)
    assert "Platform: unknown" in Toolkit("machine").add(System()).call("system_info", {}).splitlines()
