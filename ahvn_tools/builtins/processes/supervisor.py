"""The supervisor: the parent of one program, which ends the program with everything that it started.

It runs in a process of its own, with one thread, so that it may fork, set limits and adopt orphans without a risk for
the process that asked for the program. It imports little, because every program waits for its start.

Its control socket receives the request, and ends the program when it receives anything more or is closed. It answers
in lines: `starting`; then `started PID` or `failed ERRNO`; `ending` when the program has ended or must end; and when
nothing of it is left `ended REASON STATUS SURVIVORS LEFT`. LEFT is 1 if the program ended by itself, and others that it
had started did not.
"""

# ruff: noqa: PTH110, PTH112, PTH123, PTH208, SIM105
# because pathlib and contextlib take long to import.

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations, which take 4 ms to import
import marshal
import os
import resource
import select
import time

_SWEEP_SECONDS = 5.0
"""How long the supervisor tries to end processes that do not end: those in a broken device, or of another user."""
_FAST_PASSES = 50
_EINVAL = 22
_SIZE_BYTES = 4
"""How many bytes before the request are its size."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_PTRACE_CONT, _PTRACE_SEIZE, _PTRACE_O_TRACEEXIT, _PTRACE_EVENT_EXIT = 7, 0x4206, 0x40, 6

_left_in_sandbox: list[str] = []
"""The processes that a sandbox had when its command had ended."""


def main(control: int, asker: int) -> None:
    """Run the program that the request names. `control` is a file descriptor, `asker` the process that asks."""
    os.set_inheritable(control, False)
    _leave_process_group()
    request = _read_request(control)
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1)
    wakeup = _wake_up_for_children()
    _answer(control, "starting")
    program, error = _start(request)
    if error:
        _answer(control, f"failed {error}")
        os._exit(1)
    is_sandbox = request["new_privileges"]
    if is_sandbox:
        _call("ptrace", _PTRACE_SEIZE, program, 0, _PTRACE_O_TRACEEXIT)
    _answer(control, f"started {program}")
    _release_streams(request["descriptors"])
    reason, status, has_child = _wait_for_end(program, control, asker, wakeup, request["timeout"])
    _answer(control, "ending")
    has_left = reason == "exit" and bool(_left_in_sandbox if is_sandbox else has_child)
    status, survivors = _end_everything(program, status, wakeup)
    _answer(control, f"ended {reason} {status} {survivors} {int(has_left)}")
    os._exit(0)


def _leave_process_group() -> None:
    """Receive no Ctrl-C, and run on after the end of the process that asks even if the program has stopped this one.

    The kernel sends SIGHUP and SIGCONT to a stopped process group when the last parent outside of it, but in the same
    session, ends. So the supervisor has its own group and no session of its own.
    """
    os.setpgid(0, 0)
    _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)


def _read_request(control: int) -> dict:  # type: ignore[type-arg]  # what marshal loads
    data = b""
    while len(data) < _SIZE_BYTES or len(data) < _SIZE_BYTES + int.from_bytes(data[:_SIZE_BYTES], "big"):
        part = os.read(control, 1_000_000)
        if not part:
            os._exit(1)  # the process that asks is gone
        data += part
    return marshal.loads(data[_SIZE_BYTES:])  # type: ignore[no-any-return]  # noqa: S302 - the request of our own parent


def _answer(control: int, line: str) -> None:
    try:
        os.write(control, line.encode() + b"\n")
    except OSError:
        pass  # the process that asked has ended


def _call(function: str, *arguments: int) -> None:
    """Call a function of the system with up to five integers, where the system has it."""
    try:
        import _ctypes  # `ctypes` takes 4 ms to import

        address = _ctypes.dlsym(_ctypes.dlopen(None, 0), function)  # type: ignore[arg-type]  # None: this program
    except (ImportError, OSError):
        return
    _ctypes.call_function(address, (*arguments, *[0] * (5 - len(arguments))))


def _wake_up_for_children() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    _signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def _start(request: dict) -> tuple[int, int]:  # type: ignore[type-arg]
    """Start the program, and return its process and 0; or the number of the error that prevented it."""
    readable, writable = os.pipe()
    program = os.fork()
    if program == 0:
        try:
            _become_program(request)
        except BaseException as failure:  # noqa: BLE001 - the forked process must not go on as a second supervisor
            os.write(writable, str(getattr(failure, "errno", None) or _EINVAL).encode())
        finally:
            os._exit(127)
    os.close(writable)
    error = os.read(readable, 16)
    os.close(readable)
    return program, int(error or 0)


def _become_program(request: dict) -> None:  # type: ignore[type-arg]
    os.setsid()
    _call("prctl", _PR_SET_PDEATHSIG, 9)
    if not request["new_privileges"]:  # a program of another user could not be ended
        _call("prctl", _PR_SET_NO_NEW_PRIVS, 1)
    _prefer_for_memory_shortage()
    for name, value in request["limits"]:
        _limit(getattr(resource, name), value)
    _signal.set_wakeup_fd(-1)
    for number in range(1, _signal.NSIG):
        if _signal.getsignal(number) not in (_signal.SIG_DFL, None):  # None: not set by Python, and not ignored
            _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    os.chdir(request["folder"])
    os.execvpe(request["command"][0], request["command"], request["environment"])  # noqa: S606


def _prefer_for_memory_shortage() -> None:
    """Let the kernel end the program before others when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("900")
    except OSError:
        pass  # another system


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (allowed, allowed))


def _release_streams(descriptors: list) -> None:  # type: ignore[type-arg]
    """Let the program be the only one that holds its streams open, and what else it inherited."""
    for descriptor in descriptors:
        os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(nothing)


def _wait_for_end(program: int, control: int, asker: int, wakeup: int, timeout: float) -> tuple[str, int, bool]:
    """Return why the program must end, its wait status if it ended by itself, and whether a child is left."""
    deadline = time.monotonic() + timeout
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    _watch_process(poll, asker)
    while (seconds := deadline - time.monotonic()) > 0:
        if os.getppid() != asker:
            return "stopped", 0, True
        ready = [descriptor for descriptor, _ in poll.poll(min(seconds, 3600) * 1000 + 1)]
        if wakeup in ready:
            status, has_child = _reap(program, wakeup)
            if status is not None:
                return "exit", status, has_child
        if any(descriptor != wakeup for descriptor in ready):
            return "stopped", 0, True
    return "timeout", 0, True


def _watch_process(poll: select.poll, process: int) -> None:
    """Wake up when the process ends, even if another one holds a copy of its end of the control socket."""
    try:
        poll.register(os.pidfd_open(process), select.POLLIN)
    except (AttributeError, OSError):
        pass  # another system, or it has ended, which `getppid` shows


def _reap(program: int, wakeup: int) -> tuple[int | None, bool]:
    """Collect the children that ended. Return the wait status of the program, and whether a child is left."""
    try:
        while os.read(wakeup, 4096):
            pass
    except BlockingIOError:
        pass  # all of it is read
    status = None
    try:
        while (changed := os.waitpid(-1, os.WNOHANG))[0]:
            if os.WIFSTOPPED(changed[1]):
                _continue_sandbox(*changed)
            elif changed[0] == program:
                status = changed[1]
    except ChildProcessError:
        return status, False
    return status, True


def _continue_sandbox(sandbox: int, status: int) -> None:
    """Continue a sandbox that stopped because it is traced.

    It stops before its end, which kills the processes in it: those that its command has left are seen only then. Its
    first process adopts them.
    """
    event = status >> 16
    if event == _PTRACE_EVENT_EXIT:
        for first in _children(sandbox):
            _left_in_sandbox.extend(process for process in _children(first) if _is_alive(process))
    _call("ptrace", _PTRACE_CONT, sandbox, 0, 0 if event else os.WSTOPSIG(status))


def _children(process: int | str) -> list[str]:
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []  # it has ended, or the kernel has no such file


def _is_alive(process: str) -> bool:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False  # it has ended


def _end_everything(program: int, status: int, wakeup: int) -> tuple[int, int]:
    """Kill until no descendant is left. Return the wait status of the program and the number of those that live on.

    A descendant whose parent ends is adopted by the supervisor, so that none is left when it has no child. A process
    cannot fork any more once it is killed, so that each pass ends more of them than can start.
    """
    deadline = time.monotonic() + _SWEEP_SECONDS
    while True:
        new_status, has_child = _reap(program, wakeup)
        status = status if new_status is None else new_status
        if not has_child:
            return status, 0
        _kill(-program)
        _kill_own_children()
        left = descendants(os.getpid())
        for process in left:
            _kill(process)
        if time.monotonic() > deadline:
            return status, len(left)
        select.select([wakeup], [], [], 0.005)


def _kill_own_children() -> None:
    """Kill the children many times: one that forks and ends at once is gone when a slower search has found it."""
    name = f"/proc/self/task/{os.getpid()}/children"
    if os.path.exists(name):
        with open(name, "rb", buffering=0) as file:
            for _ in range(_FAST_PASSES):
                file.seek(0)
                for process in file.read(65_536).split():
                    _kill(int(process))


def _kill(process: int) -> None:
    try:
        os.kill(process, 9)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, or is of another user


def descendants(ancestor: int) -> list[int]:
    """Return the processes below one, the upper ones first."""
    children: dict[int, list[int]] = {}
    for process, parent in all_processes():
        children.setdefault(parent, []).append(process)
    found = list(children.get(ancestor, ()))
    for process in found:  # grows while it is read
        found.extend(children.get(process, ()))
    return found


def all_processes() -> list[tuple[int, int]]:
    """Return each process with its parent; none where there is no /proc."""
    pairs = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it has ended
            pairs.append((int(name), int(fields[1])))
    return pairs
