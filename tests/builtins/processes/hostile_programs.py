"""Programs that do not want to end.

Each is a command whose last argument marks it. It prints `ready` when it has done its worst, and then runs on, unless
its name says that it exits.
"""

from __future__ import annotations

import sys

_FOREVER = "sleep 1000"

SHELL_PROGRAMS = {
    "plain child": f"{_FOREVER} & echo ready; {_FOREVER}",
    "nohup": f"nohup {_FOREVER} >/dev/null 2>&1 & echo ready; {_FOREVER}",
    "ignores SIGTERM": "trap '' TERM INT HUP QUIT; echo ready; while :; do sleep 0.1; done",
    "setsid": f"setsid {_FOREVER} & setsid -f {_FOREVER}; echo ready; {_FOREVER}",
    "stops itself": "echo ready; kill -STOP $$",
    "writes forever": "echo ready; yes",
    "reads forever": "echo ready; tail -f /dev/null",
    "exits while a child holds its output": f"echo ready; {_FOREVER} & exit 0",
    "exits while a daemon runs": f"setsid -f {_FOREVER} </dev/null >/dev/null 2>&1; echo ready; exit 0",
    "exits while a daemon with an empty environment runs": f"env -i /bin/sh -c '{_FOREVER}; :' $0 & echo ready; exit 0",
}

PYTHON_PROGRAMS = {
    "double fork": """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                print("ready", flush=True)
                time.sleep(1000)
            os._exit(0)
        time.sleep(1000)
    """,
    "daemon with closed streams": """
        if os.fork() == 0:
            os.setsid()
            for descriptor in range(3):
                os.close(descriptor)
            time.sleep(1000)
        print("ready", flush=True)
        time.sleep(1000)
    """,
    "blocks every signal": """
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        print("ready", flush=True)
        while True:
            time.sleep(1000)
    """,
    "128 processes": """
        for _ in range(7):
            os.fork()
        print("ready", flush=True)
        time.sleep(1000)
    """,
    "restarts its children": """
        def start():
            if os.fork() == 0:
                os.setsid()
                time.sleep(1000)
        for _ in range(20):
            start()
        print("ready", flush=True)
        while True:
            os.wait()
            start()
    """,
    "forks and ends again and again": """
        if os.fork() == 0:
            while True:
                if os.fork():
                    os._exit(0)
                os.setsid()
        print("ready", flush=True)
        time.sleep(1000)
    """,
    "traces its child": """
        if os.fork() == 0:
            ctypes.CDLL(None).ptrace(0, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
        os.wait3(os.WUNTRACED)
        print("ready", flush=True)
        time.sleep(1000)
    """,
    "many threads": """
        for _ in range(20):
            threading.Thread(target=time.sleep, args=(1000,)).start()
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        print("ready", flush=True)
    """,
}

ATTACKS_ON_THE_SUPERVISOR = {
    "kills its supervisor": f"setsid {_FOREVER} & echo ready; kill -9 $PPID; {_FOREVER}",
    "stops its supervisor": f"setsid {_FOREVER} & echo ready; kill -STOP $PPID; {_FOREVER}",
    "terminates its supervisor": f"setsid {_FOREVER} & echo ready; kill $PPID; {_FOREVER}",
}

HOSTILE_PROGRAMS = [*SHELL_PROGRAMS, *PYTHON_PROGRAMS, *ATTACKS_ON_THE_SUPERVISOR]


def hostile_command(name: str, mark: str) -> list[str]:
    """Return the command of a hostile program. Its processes have the mark among their arguments or variables."""
    if name in PYTHON_PROGRAMS:
        lines = "\n".join(line.removeprefix(" " * 8) for line in PYTHON_PROGRAMS[name].splitlines())
        code = f"import ctypes, os, signal, sys, threading, time\n{lines}"
        return [sys.executable, "-I", "-S", "-c", code, mark]
    return ["sh", "-c", {**SHELL_PROGRAMS, **ATTACKS_ON_THE_SUPERVISOR}[name], mark]
