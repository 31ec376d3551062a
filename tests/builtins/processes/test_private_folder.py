"""The environment of a program has no variable of this process that was not named."""

from __future__ import annotations

from ahvn_tools.builtins.processes.private_folder import clean_environment


def test_variables_of_this_process_are_passed_on_by_name(monkeypatch):
    monkeypatch.setenv("TEA", "green")
    monkeypatch.setenv("SHOP_API_KEY", "sk-4711")
    monkeypatch.delenv("MISSING", raising=False)
    assert "TEA" not in clean_environment()
    assert clean_environment("TEA", "MISSING").items() - clean_environment().items() == {("TEA", "green")}


def test_a_named_variable_replaces_that_of_a_clean_environment_and_a_given_one_both(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert clean_environment()["HOME"] != "/home/ann"
    assert clean_environment("HOME")["HOME"] == "/home/ann"
    assert clean_environment("HOME", HOME="/tmp")["HOME"] == "/tmp"


def test_relative_folders_of_path_are_left_out(monkeypatch):
    monkeypatch.setenv("PATH", "bin:/usr/bin::./x:/bin")
    assert clean_environment()["PATH"] == "/usr/bin:/bin"
