"""A program in a sandbox sees and reaches no more than its confinement names."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import PythonRunner, Shell, Workspace
from ahvn_tools.builtins.processes import confinement
from ahvn_tools.builtins.processes.confinement import Confinement, choose_sandbox, find_bubblewrap
from ahvn_tools.errors import DefinitionError, ToolError

needs_bubblewrap = pytest.mark.skipif(find_bubblewrap() is None, reason="bubblewrap does not work here")


_WRITE_NEXT_TO_PYTHON = """
import sys
from pathlib import Path
from ahvn_tools.builtins.processes.confinement import Confinement
from ahvn_tools.builtins.processes.confinement import ProcessLimits
from ahvn_tools.builtins.processes.process import run_process

root = Path(sys.prefix).parent
confinement = Confinement(sandbox="bubblewrap", writable=(root,))
run_process(["sh", "-c", "touch venv/evil; touch good"], folder=root, confinement=confinement, limits=ProcessLimits())
"""


_REPLACE_GIT = """
import os
while True:
    for name in ("new", "link"):
        os.rename(name, ".git")
        os.rename(".git", name)
"""


_LEAVE_RIGHTS = r"""
import ctypes, mmap, os, platform, stat, struct
libc = ctypes.CDLL(None, use_errno=True)

def new(name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o755))
    return name

def calls_of_x32():
    libc.syscall(0x40000000 + 90, new("x32").encode(), 0o6755)

def calls_of_32_bits():
    memory = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, 7)  # below 4 GB
    memory[100:] = new("int80").encode().ljust(3996, b"\0")
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    code = b"\x53\xb8" + struct.pack("<I", 15) + b"\xbb" + struct.pack("<I", address + 100) + b"\xb9"
    memory[:19] = code + struct.pack("<I", 0o6755) + b"\xcd\x80"
    memory[19:21] = b"\x5b\xc3"
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()

def capability_in_another_namespace():
    libc.unshare(0x10000000)
    for name, text in (("setgroups", b"deny"), ("uid_map", b"0 0 1"), ("gid_map", b"0 0 1")):
        try:
            os.write(os.open(f"/proc/self/{name}", os.O_WRONLY), text)
        except OSError:
            pass
    give_capability("namespace")

def give_capability(name):
    os.setxattr(new(name), "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 7, 0, 0, 0))

def open_how():
    libc.syscall(437, -100, b"openat2", struct.pack("<QQQ", os.O_CREAT | os.O_WRONLY, 0o6755, 0), 24)

def open_nameless():
    file = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o6755)
    os.link(f"/proc/self/fd/{file}", "nameless", src_dir_fd=file, follow_symlinks=True)

ATTACKS = [
    lambda: os.chmod(new("chmod"), 0o4755), lambda: os.chmod(new("setgid"), 0o2755),
    lambda: os.fchmod(os.open(new("fchmod"), os.O_RDWR), 0o6755),
    lambda: libc.fchmodat(-100, new("fchmodat").encode(), 0o6755, 0),
    lambda: libc.syscall(452, -100, new("fchmodat2").encode(), 0o6755, 0),
    lambda: libc.syscall(452, -100, new("-nofollow").encode(), 0o6755, 0x100),
    lambda: libc.creat(b"creat", 0o6755), lambda: os.open("open", os.O_CREAT | os.O_WRONLY, 0o6755),
    lambda: libc.open(b"open-absolute", os.O_CREAT | os.O_WRONLY, 0o6755), open_how, open_nameless,
    lambda: os.mknod("mknod", stat.S_IFREG | 0o6755), lambda: os.mkfifo("fifo", 0o6755),
    lambda: os.mkdir("folder", 0o6755), lambda: os.chmod(".", 0o2755),
    lambda: os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
    lambda: os.mknod("disk", stat.S_IFBLK | 0o666, os.makedev(8, 0)),
    lambda: os.chown(new("owner"), 1, -1), lambda: os.chown(new("group"), -1, 1),
    lambda: os.link("/usr/bin/su", "link"), lambda: give_capability("capability"), capability_in_another_namespace,
]
if platform.machine() == "x86_64":
    ATTACKS += [calls_of_x32, calls_of_32_bits]
for attack in ATTACKS:
    child = os.fork()  # some end it by a signal
    if child == 0:
        try:
            os.umask(0)
            attack()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
print("all tried")
"""


_GIT_ATTACKS = [
    "echo '[core]' >> .git/config",
    "echo x > .git/hooks/post-checkout",
    "mv .git old && cp -r old .git",
    *(
        pytest.param(attack, marks=pytest.mark.exhaustive)
        for attack in (
            "rm .git/config",
            "mv .git/config .git/old",
            "rm -r .git/hooks",
            "mv .git/hooks .git/old",
            "rm -rf .git; mkdir .git && mkdir .git/hooks && echo x > .git/hooks/post-checkout",
            "rmdir .git/hooks; ln -s /tmp .git/hooks",
            "git config core.fsmonitor ./evil",
            "git config core.hooksPath .",
        )
    ),
]


@pytest.fixture
def confine(run, tmp_path):
    """Run a shell script in a sandbox in which `tmp_path / "root"` can be written."""
    root = tmp_path / "root"
    root.mkdir()

    def confine(script: str, **options):
        options = {"writable": (root,), **options}
        return run("sh", "-c", script, folder=root, confinement=Confinement(sandbox="bubblewrap", **options))

    return confine


@pytest.fixture
def home_folder():
    """A new folder in the home folder of this user."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="test-ahvn-tools-", dir=Path.home()))
    except OSError:
        pytest.skip("the home folder cannot be written")
    yield folder
    shutil.rmtree(folder)


@needs_bubblewrap
class TestFiles:
    def test_a_writable_folder_can_be_written(self, confine, tmp_path):
        assert confine("echo text > file && mkdir folder").exit_code == 0
        assert (tmp_path / "root/file").read_text() == "text\n"

    def test_a_readable_folder_can_be_read_and_not_written(self, confine, tmp_path):
        (tmp_path / "other").mkdir()
        (tmp_path / "other/file").write_text("text")

        result = confine(f"cat {tmp_path}/other/file; echo > {tmp_path}/other/file", readable=(tmp_path / "other",))

        assert result.stdout.text == "text"
        assert "Read-only file system" in result.stderr.text

    @pytest.mark.parametrize("program", ["/bin/sh", "/usr/bin/env", "/bin/cat"])
    def test_a_program_of_the_system_can_be_named_by_a_path_with_links(self, run, tmp_path, program):
        confinement = Confinement(sandbox="bubblewrap", writable=(tmp_path,))

        result = run(program, "--help", folder=tmp_path, confinement=confinement)

        assert result.ended_by == "exit"

    @pytest.mark.parametrize("use", ["readable", "writable"])
    def test_the_root_folder_of_the_system_can_be_named(self, confine, use):
        result = confine("ls -d /bin/sh /var/tmp", **{"writable": (), use: (Path("/"),)})

        assert result.stdout.text == "/bin/sh\n/var/tmp\n", result.stderr.text

    def test_a_folder_in_tmp_can_be_written_where_the_root_folder_of_the_system_can(self, confine, tmp_path):
        result = confine("echo text > file", writable=(Path("/"),))

        assert result.exit_code == 0, result.stderr.text
        assert (tmp_path / "root/file").read_text() == "text\n"

    def test_the_folder_of_the_program_can_be_read_and_not_written(self, confine, tmp_path):
        result = confine("ls -d $PWD; echo > file", writable=())

        assert result.stdout.text.strip() == str(tmp_path / "root")
        assert "Read-only file system" in result.stderr.text

    def test_the_home_folder_of_the_user_is_hidden(self, confine, home_folder):
        (home_folder / "secret").write_text("secret")

        result = confine(f"ls -A {home_folder.parent}; cat {home_folder}/secret; echo x > {home_folder}/new")

        assert "secret" not in result.stdout.text
        assert home_folder.name not in result.stdout.text
        assert not (home_folder / "new").exists()

    def test_a_folder_in_the_home_folder_is_visible_if_it_is_named(self, confine, home_folder):
        (home_folder / "file").write_text("text")

        assert confine(f"cat {home_folder}/file", readable=(home_folder,)).stdout.text == "text"
        assert confine(f"echo new > {home_folder}/file", writable=(home_folder,)).exit_code == 0
        assert (home_folder / "file").read_text() == "new\n"

    def test_temporary_files_of_others_are_hidden_and_its_own_are_gone_after_it(self, confine, tmp_path):
        (tmp_path / "secret").write_text("secret")

        result = confine(f"cat {tmp_path}/secret; echo mine > /tmp/mine && echo mine > /var/tmp/mine && cat /tmp/mine")

        assert result.stdout.text == "mine\n"
        assert not Path("/tmp/mine").exists()

    def test_nothing_else_can_be_written(self, confine):
        folders = "/ /usr /usr/bin /etc /dev /run /proc /var /home /root /opt"

        result = confine(
            f"for folder in {folders}; do touch $folder/evil-file || mkdir $folder/evil; done; ls {folders}"
        )

        assert "evil" not in result.stdout.text

    def test_what_only_root_may_read_is_hidden(self, confine):
        result = confine("cat /etc/shadow /etc/gshadow /etc/sudoers; ls /etc/ssl/private; cat /etc/ssh/*_key")

        assert result.stdout.text == ""

    def test_devices_of_the_machine_are_hidden(self, confine):
        result = confine("ls /dev; ls /sys /run")

        assert not {"mem", "kmsg", "sda", "vda", "kvm", "docker.sock"} & set(result.stdout.text.split())

    def test_a_link_out_of_the_root_leads_nowhere(self, confine, tmp_path):
        (tmp_path / "secret").write_text("secret")
        (tmp_path / "root/link").symlink_to(tmp_path / "secret")

        assert confine("cat link").stdout.text == ""

    def test_a_root_that_was_replaced_by_a_link_is_not_followed(self, confine, tmp_path):
        (tmp_path / "secret").mkdir()
        (tmp_path / "root/inner").symlink_to(tmp_path / "secret")

        with pytest.raises(ToolError, match=r"The sandbox cannot show '.*/root/inner'"):
            confine("ls", writable=(tmp_path / "root/inner",))

    def test_a_folder_that_was_replaced_by_a_link_is_not_followed(self, run, tmp_path):
        (tmp_path / "root").mkdir()
        (tmp_path / "secret").mkdir()
        (tmp_path / "root/inner").symlink_to(tmp_path / "secret")
        confined = Confinement(sandbox="bubblewrap", writable=(tmp_path / "root",))

        with pytest.raises(ToolError, match="bwrap: Can't chdir"):
            run("ls", folder=tmp_path / "root/inner", confinement=confined)

    @pytest.mark.exhaustive
    def test_folders_that_another_program_replaces_by_links_show_nothing_else(self, confine, tmp_path):
        (tmp_path / "secret").mkdir()
        (tmp_path / "secret/file").write_text("secret")
        (tmp_path / "root/new").mkdir()
        (tmp_path / "root/link").symlink_to("../secret")
        with subprocess.Popen([sys.executable, "-c", _REPLACE_GIT], cwd=tmp_path / "root") as replacing:
            outputs = []
            for _ in range(120):
                with contextlib.suppress(ToolError):  # the sandbox cannot be made at this moment
                    outputs.append(confine(f"cat .git/file {tmp_path}/secret/file").stdout.text)
            replacing.kill()

        assert len(outputs) > 30
        assert set(outputs) == {""}

    def test_programs_inherit_no_descriptor(self, confine):
        assert confine("ls /proc/self/fd").stdout.text.split() == ["0", "1", "2", "3"]  # 3 is the folder that ls reads

    def test_the_private_folder_of_this_python_is_hidden(self, confine):
        spool = confine("seq 100000").stdout.spool

        assert spool.exists()
        result = confine(f"ls -d {spool.parent.parent} && ls {spool.parent}", writable=(spool.parent.parent,))
        assert result.stdout.text == f"{spool.parent.parent}\n"
        spool.unlink()

    def test_roots_may_lie_in_each_other(self, confine, tmp_path):
        (tmp_path / "root/inner").mkdir()

        result = confine("touch inner/a; touch b", writable=(tmp_path / "root/inner",), readable=(tmp_path / "root",))

        assert (tmp_path / "root/inner/a").exists()
        assert not (tmp_path / "root/b").exists()
        assert "Read-only file system" in result.stderr.text

    def test_mounts_cannot_be_changed(self, confine, tmp_path):
        result = confine(
            f"umount /tmp; mount -o remount,rw /usr; mount -t tmpfs x {tmp_path}/root; mknod node c 1 1; chroot / true"
        )

        assert result.exit_code != 0
        assert list((tmp_path / "root").iterdir()) == []

    def test_memory_files_cannot_be_without_bound(self, confine):
        result = confine("df -B1 --output=size /tmp /dev/shm | tail -n 2")

        assert [int(size) <= 1_000_001_536 for size in result.stdout.text.split()] == [True, True]

    def test_a_folder_that_is_missing_is_an_error_without_its_path(self, confine, tmp_path):
        with pytest.raises(ToolError) as caught:
            confine("true", readable=(tmp_path / "nothing",))

        assert caught.value.message.startswith("The sandbox could not be started: a folder is missing")
        assert "nothing" in str(caught.value)


@needs_bubblewrap
class TestPrograms:
    def test_this_python_runs(self, run, tmp_path):
        code = "import json, ssl, sqlite3, sys; print(sys.prefix)"

        result = run(sys.executable, "-c", code, confinement=Confinement(sandbox="bubblewrap"))

        assert result.stdout.text.strip() == sys.prefix, result.stderr.text

    def test_this_python_cannot_be_changed_from_a_root_that_contains_it(self, run, home_folder):
        environment = home_folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        variables = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]}

        subprocess.run([environment / "bin/python", "-c", _WRITE_NEXT_TO_PYTHON], check=True, env=variables)

        assert (home_folder / "good").exists()
        assert not (environment / "evil").exists()

    def test_a_program_in_the_home_folder_runs_and_what_lies_next_to_it_is_hidden(self, run, home_folder):
        (home_folder / "program").write_text("#!/bin/sh\nls $(dirname $0)\n")
        (home_folder / "program").chmod(0o755)
        (home_folder / "secret").write_text("secret")

        result = run(str(home_folder / "program"), confinement=Confinement(sandbox="bubblewrap"))

        assert result.stdout.text == "program\n"

    def test_a_program_may_be_named_by_a_path_with_dots_also_after_a_link(self, run, home_folder):
        (home_folder / "inner" / "sub").mkdir(parents=True)
        (home_folder / "link").symlink_to("inner/sub")
        (home_folder / "inner" / "program").write_text("#!/bin/sh\necho $0\n")
        (home_folder / "inner" / "program").chmod(0o755)

        result = run(f"{home_folder}/inner/sub/../../link/../program", confinement=Confinement(sandbox="bubblewrap"))

        assert result.stdout.text == f"{home_folder}/inner/program\n", result.stderr.text

    def test_a_file_that_is_no_program_is_not_visible(self, run, home_folder):
        (home_folder / "secret").write_text("secret")

        with pytest.raises(ToolError, match="could not be started"):
            run(str(home_folder / "secret"), confinement=Confinement(sandbox="bubblewrap"))


@needs_bubblewrap
class TestGit:
    @pytest.fixture(autouse=True)
    def repository(self, confine, tmp_path):
        if shutil.which("git") is None:
            pytest.skip("git is not installed")
        subprocess.run(["git", "init", "-q", tmp_path / "root"], check=True)
        return tmp_path / "root/.git"

    @pytest.mark.parametrize("attack", _GIT_ATTACKS)
    def test_what_names_programs_for_git_cannot_be_changed(self, confine, repository, attack):
        before = {path: path.read_bytes() for path in [repository / "config", *(repository / "hooks").iterdir()]}

        assert confine(attack).exit_code != 0

        assert {
            path: path.read_bytes() for path in [repository / "config", *(repository / "hooks").iterdir()]
        } == before

    def test_missing_hooks_cannot_be_made(self, confine, repository):
        shutil.rmtree(repository / "hooks")

        assert confine("echo x > .git/hooks/post-checkout || (rm -r .git/hooks; mkdir .git/hooks)").exit_code != 0

        assert not (repository / "hooks").exists() or not list((repository / "hooks").iterdir())

    def test_commits_work(self, confine):
        commit = "git -c user.name=n -c user.email=e commit -qm message"

        result = confine(
            f"echo text > file && git add file && {commit} && git checkout -qb other && git log --format=%s"
        )

        assert result.stdout.text == "message\n", result.stderr.text

    def test_settings_can_be_written_where_that_is_allowed(self, confine, repository):
        assert confine("git config user.name n", writes_git_settings=True).exit_code == 0


@needs_bubblewrap
class TestOthers:
    def test_other_processes_are_hidden(self, confine):
        with subprocess.Popen(["sleep", "1000"], env={**os.environ, "SECRET": "hidden-value"}) as other:
            result = confine("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; ls /proc")
            other.kill()

        assert "hidden-value" not in result.stdout.text
        assert str(other.pid) not in [name for name in result.stdout.text.split() if name.isdigit() and int(name) > 50]

    def test_other_processes_cannot_be_ended(self, confine):
        with subprocess.Popen(["sleep", "1000"]) as other:
            confine(f"kill -9 {other.pid}; kill -9 -1")
            assert other.poll() is None
            other.kill()

    def test_there_is_no_network(self, confine):
        with _listener() as server:
            result = confine(_connect(server))

        assert result.exit_code != 0

    def test_there_is_a_network_where_it_is_allowed(self, confine):
        with _listener() as server:
            result = confine(_connect(server), network=True)

        assert result.exit_code == 0, result.stderr.text

    @pytest.mark.skipif(sys.platform != "linux", reason="a kind of socket that only Linux has")
    def test_sockets_without_a_file_cannot_be_reached(self, confine):
        name = f"test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"\0{name}")
            server.listen()
            code = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + {name!r})"
            result = confine(f'{sys.executable} -I -S -c "{code}"')

        assert "Connection refused" in result.stderr.text

    def test_there_is_no_terminal(self, confine):
        assert confine("echo > /dev/tty").exit_code != 0


def _listener():
    return socket.create_server(("127.0.0.1", 0))


def _connect(server):
    code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
    return f'{sys.executable} -I -S -c "{code}"'


class TestChoice:
    def test_without_a_sandbox_the_result_of_a_tool_can_say_so(self):
        assert Confinement().statement.startswith("No sandbox")
        assert Confinement(sandbox="bubblewrap").statement is None

    def test_none_is_none(self):
        assert choose_sandbox("none") == "none"

    @needs_bubblewrap
    def test_bubblewrap_is_used_where_it_works(self):
        assert choose_sandbox("auto") == choose_sandbox("bubblewrap") == "bubblewrap"

    def test_an_unknown_word_is_a_mistake(self):
        with pytest.raises(DefinitionError, match="'auto', 'bubblewrap' or 'none', not 'docker'"):
            choose_sandbox("docker")

    @needs_bubblewrap
    def test_no_file_has_rights_that_outlive_the_sandbox(self, run, tmp_path):
        """No setuid, setgid, device, capability, other owner or second name, in any way to make a file."""
        if platform.machine() not in ("x86_64", "aarch64", "riscv64"):
            pytest.skip(f"the system calls of {platform.machine()} are not filtered")
        confinement = Confinement(sandbox="bubblewrap", writable=(tmp_path,))
        result = run(sys.executable, "-c", _LEAVE_RIGHTS, folder=tmp_path, confinement=confinement)
        assert "all tried" in result.stdout.text, result.stderr.text
        paths = [tmp_path, *tmp_path.iterdir()]
        assert {path.name for path in paths} >= {"chmod", "fchmod", "owner", "namespace"}
        for path in paths:
            status = path.lstat()
            assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID), path.name
            assert stat.S_IFMT(status.st_mode) not in (stat.S_IFCHR, stat.S_IFBLK), path.name
            assert (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid()), path.name
            assert path.is_dir() or status.st_nlink == 1, path.name
            assert "security.capability" not in os.listxattr(path, follow_symlinks=False), path.name

    @needs_bubblewrap
    @pytest.mark.parametrize("tool", ["shell_exec", "execute_python_code"])
    def test_files_have_other_modes(self, tmp_path, tool):
        code = {
            "shell_exec": {"cmd": "touch a b; chmod 741 a; mkdir -m 1777 c; install -m 4755 b d"},
            "execute_python_code": {
                "code": "import os; [open(n, 'w') for n in 'ab']; os.chmod('a', 0o741); os.mkdir('c')\n"
                "os.chmod('c', 0o1777); os.chmod('b', 0o4755)"
            },
        }[tool]
        kit = Toolkit("code").add(Shell(tmp_path, sandbox="bubblewrap", approve="never"))
        kit.add(PythonRunner(Workspace(tmp_path), sandbox="bubblewrap", approve="never"))
        assert "Operation not permitted" in kit.exec(tool, code).text
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o741
        assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o1777
        assert not [path for path in tmp_path.iterdir() if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]

    @pytest.mark.parametrize("program", [None, "#!/bin/sh\nexit 1\n", "#!/bin/no-shell\n"])
    def test_bubblewrap_that_is_missing_or_forbidden_is_noticed(self, tmp_path, monkeypatch, program):
        monkeypatch.setenv("PATH", str(tmp_path))
        if program:
            install(tmp_path, program)

        assert choose_sandbox("auto") == "none"
        with pytest.raises(DefinitionError, match="bubblewrap does not work here"):
            choose_sandbox("bubblewrap")

    @pytest.mark.skipif(shutil.which("bwrap") != "/usr/bin/bwrap", reason="the system has no bubblewrap")
    @needs_bubblewrap
    def test_bubblewrap_of_the_system_is_used_for_all_folders(self):
        assert choose_sandbox("bubblewrap", untrusted=[Path("/")]) == "bubblewrap"

    @pytest.mark.parametrize("link", [False, True])
    def test_bubblewrap_in_a_folder_of_the_model_is_never_run(self, run, tmp_path, monkeypatch, link):
        root, names = tmp_path / "root", tmp_path / "names"
        root.mkdir()
        names.mkdir()
        install(root, f"#!/bin/sh\ntouch {root}/evil\n")
        (names / "bwrap").symlink_to(root / "bwrap")
        monkeypatch.setenv("PATH", f"{names if link else root}{os.pathsep}{os.environ['PATH']}")

        choose_sandbox("auto", untrusted=[root])
        if find_bubblewrap(untrusted=[root]):
            confined = Confinement(sandbox="bubblewrap", writable=(root,))
            assert run("echo", "good", confinement=confined, folder=root).stdout.text == "good\n"

        assert not (root / "evil").exists()

    @needs_bubblewrap
    @pytest.mark.skipif(shutil.which("bwrap") != "/usr/bin/bwrap", reason="the system has no bubblewrap")
    def test_bubblewrap_of_the_system_comes_before_one_that_another_session_may_have_written(
        self, run, tmp_path, monkeypatch
    ):
        (tmp_path / "other").mkdir()
        (tmp_path / "mine").mkdir()
        install(tmp_path / "other", f"#!/bin/sh\ntouch {tmp_path}/evil\n")
        monkeypatch.setattr(confinement, "_working", set())  # as in a new process
        monkeypatch.setenv("PATH", f"{tmp_path}/other{os.pathsep}{os.environ['PATH']}")

        for writable in ((), (tmp_path / "mine",)):
            confined = Confinement(sandbox="bubblewrap", readable=(tmp_path / "mine",), writable=writable)
            assert run("echo", "good", confinement=confined, folder=tmp_path / "mine").stdout.text == "good\n"

        assert not (tmp_path / "evil").exists()

    def test_nothing_runs_where_the_only_bubblewrap_is_in_a_folder_of_the_model(self, run, tmp_path, monkeypatch):
        install(tmp_path, f"#!/bin/sh\n: > {tmp_path}/evil\n")
        monkeypatch.setenv("PATH", str(tmp_path))

        with pytest.raises(ToolError, match="in a writable folder of this call"):
            run("/bin/echo", confinement=Confinement(sandbox="bubblewrap", writable=(tmp_path,)), folder=tmp_path)

        assert not (tmp_path / "evil").exists()


def install(folder, program):
    (folder / "bwrap").write_text(program)
    (folder / "bwrap").chmod(0o755)
