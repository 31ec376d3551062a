"""Commands that talk to other machines: addresses, protocols, approvals; with a real HTTP server."""

from __future__ import annotations

import functools
import http.server
import threading

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins.git import Git
from ahvn_tools.builtins.processes.confinement import choose_sandbox
from tests.builtins.git.repositories import commit_all, git, git_kit, make_repository, run


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        """Write nothing."""


@pytest.fixture
def served(tmp_path):
    """The address of a bare repository that an HTTP server of this machine has, and its folder."""
    source = make_repository(tmp_path / "source")
    git(tmp_path, "clone", "-q", "--bare", str(source), "served/x.git")
    folder = tmp_path / "served/x.git"
    git(folder, "update-server-info")
    handler = functools.partial(Quiet, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/x.git", folder
        server.shutdown()
        thread.join()


def remote_kit(folder, **options):
    return git_kit(folder, **{"allow": ("read", "write", "remote"), "protocols": ("http",), "timeout": 30, **options})


@pytest.mark.parametrize("sandbox", ["none", pytest.param("bubblewrap", marks=pytest.mark.exhaustive)])
def test_a_clone_fetches_and_pulls(sandbox, served, tmp_path):
    if sandbox == "bubblewrap" and choose_sandbox("auto") == "none":
        pytest.skip("bubblewrap does not work here")
    address, bare = served
    root = tmp_path / "root"
    root.mkdir()
    kit = remote_kit(root, sandbox=sandbox)
    run(kit, f"clone {address}")
    assert run(kit, "log -1 --format=%s", uri="x") == "Second"
    git(tmp_path / "source", "checkout", "-q", "docs/b.txt")
    commit_all(tmp_path / "source", "Third")
    git(tmp_path / "source", "push", "-q", str(bare), "main")
    git(bare, "update-server-info")
    run(kit, "fetch", uri="x")
    assert kit.call("git_status", {"uri": "x"})["behind"] == 1
    assert "Fast-forward" in run(kit, "pull", uri="x")
    assert run(kit, "log -1 --format=%s", uri="x") == "Third"
    assert "refs/heads/main" in run(kit, "ls-remote origin", uri="x")
    assert "ERROR CODE" in run(kit, "push origin main", uri="x") or "up-to-date" in run(
        kit, "push origin main", uri="x"
    )


ADDRESSES = [
    "../other", "/etc", "file:///etc", "ext::sh -c id", "'ext::sh -c id'", "https://example.com/x.git", "git://example.com/x",
    "ssh://example.com/x", "ann@example.com:x.git", "ftp://example.com/x", "fd::7", "host:path",
    "HTTP://example.com/x", ".",
    "http::ext::x", "--upload-pack=x", "http:///x",
]  # fmt: skip


@pytest.mark.parametrize("command", [
    "clone {}", "clone {} copy", "fetch {}", "pull {}", "push {} main", "ls-remote {}", "remote add new {}",
    "remote set-url origin {}",
])  # fmt: skip
def test_other_protocols_paths_and_helpers_are_refused(command, folder):
    kit = remote_kit(folder)
    for address in ADDRESSES:
        result = kit.exec("git_cmd", {"uri": ".", "args": command.format(address)})
        assert result.is_error, address
        assert "cannot be used" in result.text


def test_remotes_of_the_configuration_need_an_allowed_protocol(tmp_path, folder):
    git(folder, "remote", "add", "near", str(tmp_path))
    git(folder, "remote", "add", "far", "https://example.com/x.git")
    kit = remote_kit(folder)
    for args in (
        "fetch near",
        "fetch far",
        "fetch",
        "fetch --all",
        "push far main",
        "pull near main",
        "ls-remote near",
    ):
        assert "The protocols that are allowed here: http." in run(kit, args)
    assert "no such remote" in run(kit, "fetch nowhere")


@pytest.mark.parametrize("key", [
    "url.https://evil.example/.insteadOf", "remote.origin.uploadpack", "http.proxy", "http.https://example.com/.sslVerify",
    "http.cookieFile", "remote.origin.vcs",
])  # fmt: skip
@pytest.mark.default_cases(2)
def test_a_configuration_that_redirects_is_refused_for_remote_commands_only(key, folder):
    git(folder, "config", key, "x")
    kit = remote_kit(folder)
    assert "The configuration of the repository" in run(kit, "fetch http://127.0.0.1:1/x.git")
    assert run(kit, "log -1 --format=%s") == "Second"


def test_remote_commands_need_an_approval_that_names_the_address(folder):
    git(folder, "remote", "add", "origin", "http://ann:hunter22@127.0.0.1:1/x.git")
    asked = []
    kit = Toolkit("code", approver=lambda request: asked.append(request.action) or False)
    kit.add(Git(folder, allow=("read", "write", "remote"), protocols=("http",)))
    for args in ("fetch", "push origin main", "clone http://127.0.0.1:1/y.git"):
        assert kit.exec("git_cmd", {"uri": ".", "args": args}).error.code == "rejected"
    assert asked == [
        "Run `git fetch` in '.', which talks to http://***@127.0.0.1:1/x.git",
        "Run `git push origin main` in '.', which talks to http://***@127.0.0.1:1/x.git",
        "Run `git clone http://127.0.0.1:1/y.git` in '.', which talks to http://127.0.0.1:1/y.git",
    ]


@pytest.mark.parametrize("key", ["branch.main.remote", "branch.main.pushRemote", "remote.pushDefault"])
def test_an_approval_names_the_address_that_a_branch_has(key, folder):
    git(folder, "remote", "add", "origin", "http://127.0.0.1:1/x.git")
    git(folder, "config", key, "http://127.0.0.1:2/evil.git")
    actions = []
    run(remote_kit(folder, approve=lambda action: actions.append(action) or False), "push")
    assert actions[0].details["addresses"] == ["http://127.0.0.1:1/x.git", "http://127.0.0.1:2/evil.git"]
    git(folder, "config", key, "../other")
    assert "cannot be used" in run(remote_kit(folder), "push")


@pytest.mark.parametrize("name", ["remotes", "branches"])
def test_remotes_in_old_files_are_refused(name, folder):
    git(folder, "remote", "add", "far", "http://127.0.0.1:1/x.git")
    (folder / ".git" / name).mkdir(exist_ok=True)
    (folder / ".git" / name / "origin").write_text("http://127.0.0.1:2/evil.git\n")
    assert f"remotes in '.git/{name}'" in run(remote_kit(folder), "fetch")


def test_a_server_that_wants_a_password_is_an_error_without_a_question(folder):
    class Locked(Quiet):
        def do_GET(self):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        git(folder, "config", "credential.helper", f"!touch {folder}/ran; echo password=x")
        answer = run(remote_kit(folder), f"ls-remote http://127.0.0.1:{server.server_port}/x.git")
        server.shutdown()
        thread.join()
    assert "ERROR CODE: 128" in answer
    assert "could not read Username" in answer
    assert not (folder / "ran").exists()


def test_a_clone_goes_into_the_folders_only(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    kit = remote_kit(root)
    for target in ("../elsewhere", "/tmp/elsewhere", f"{tmp_path}/elsewhere"):
        assert kit.exec("git_cmd", {"uri": ".", "args": f"clone http://127.0.0.1:1/x.git {target}"}).is_error
    assert not (tmp_path / "elsewhere").exists()
    assert run(kit, "clone").startswith("`git clone` needs the address")
