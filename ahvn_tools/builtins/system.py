"""System: tools that describe the machine, and read the environment variables that the host allows."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from ahvn_tools.errors import DefinitionError, ToolError, clip, suggests_options
from ahvn_tools.redaction.credentials import mask_credentials
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.registry import ToolRegistry, reg_toolspec

_MAX_VALUE_CHARS: Final = 20_000

_SHELLS: Final = ("bash", "zsh", "fish", "sh", "dash", "ksh", "tcsh", "nu", "pwsh", "powershell", "cmd")
_SYSTEM_PACKAGES: Final = (
    "apt", "dnf", "yum", "pacman", "zypper", "apk", "emerge", "xbps-install", "nix", "brew", "port", "snap", "flatpak",
    "winget", "choco", "scoop",
)  # fmt: skip
_LANGUAGE_PACKAGES: Final = (
    "pip", "pip3", "uv", "poetry", "pipx", "conda", "mamba", "npm", "pnpm", "yarn", "bun", "deno", "cargo", "go", "gem",
    "bundle", "composer", "mvn", "gradle", "dotnet", "nuget", "cabal", "stack", "mix", "opam",
)  # fmt: skip
_CONTAINERS: Final = (
    "docker", "podman", "nerdctl", "kubectl", "minikube", "vagrant", "virsh", "qemu-system-x86_64", "wsl",
)  # fmt: skip
_MACHINES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "i386": "ia32", "i686": "ia32"}
_INIT_SYSTEMS: Final = {
    "systemd": "systemd (Controls services via systemctl/service)",
    "openrc": "openrc (Controls services via rc-service)",
    "runit": "runit (Controls services via sv)",
    "s6-svscan": "s6 (Controls services via s6-svc)",
    "launchd": "launchd (Controls services via launchctl)",
    "init": "init (Controls services via service)",
}

_SECRET_WORDS: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|PWD$|CREDENTIAL|AUTH|COOKIE|SESSION|DSN|JWT|CERT|PRIVATE|SIGNATURE|SALT"
    r"|BEARER|MNEMONIC|(^|_)(PAT|PIN)$"
    r"|CONNECTION_?STR|(DATABASE|REDIS|MONGO\w*|AMQP|BROKER|POSTGRES\w*|MYSQL|DB|WEBHOOK)_?UR[IL]",
    re.IGNORECASE,
)
_NO_SECRETS: Final = frozenset({"PWD", "OLDPWD"})
"""Names that the words above match, and that every shell sets."""

_SECRET_VALUE: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\beyJ[\w-]{8,}\.[\w-]{8,}\.|\b(AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"
    r"|\b(sk|pk|rk)[-_][\w-]{16,}|\b(gh[a-z]|glpat|github_pat|xox[a-z]|hf|npm|pypi|dckr_pat)[-_][\w-]{16,}"
)


class System(ToolRegistry):
    """Tools that describe the machine, and read environment variables that the host allows.

    `system_info` names neither the user nor the machine.

    >>> import os
    >>> from ahvn_tools import Toolkit
    >>> os.environ["APP_MODE"] = "test"
    >>> kit = Toolkit("machine").add(System(environment=["APP_*"]))
    >>> kit.call("get_env_var", {"name": "APP_MODE"}), kit.call("get_env_var", {"name": "APP_NAME"})
    ('test', "Environment variable 'APP_NAME' is not set.")
    """

    @suggests_options
    def __init__(
        self, *, environment: Iterable[str] = ("PATH", "SHELL", "LANG", "TZ"), secrets: Iterable[str] = ()
    ) -> None:
        """Raise DefinitionError for a name that is wrong.

        - `environment`: the names that can be read; `*` stands for any text, as in `APP_*`.
        - `secrets`: names that indicate a secret must be here, too; `*` never matches one.
        """
        if isinstance(environment, str) or isinstance(secrets, str):
            raise DefinitionError("`environment` and `secrets` are lists of names, as in environment=['PATH'].")
        self.environment = tuple(environment)
        self.secrets = frozenset(secrets)
        for name in self.environment:
            if "*" not in name and _is_secret_name(name) and name not in self.secrets:
                raise DefinitionError(
                    f"The name {name!r} indicates a secret. Leave it out of `environment`, or add it to `secrets`, too."
                )

    @reg_toolspec(annotations={"readOnlyHint": True, "openWorldHint": False}, tags={"system", "read"})
    def system_info(self) -> str:
        """Return the operating system, its shells, and the package managers and container tools that are installed."""
        return "\n".join(f"{name}: {_run_probe(probe)}" for name, probe in _PROBES.items())

    @reg_toolspec(annotations={"readOnlyHint": True, "openWorldHint": False}, tags={"system", "read"})
    def get_env_var(self, name: str) -> str:
        """Return the value of an environment variable.

        Args:
            name: The name of the variable.
        """
        if not name.strip() or not name.isprintable():
            raise ToolError("Please specify the environment variable name.")
        if not self._is_allowed(name):
            raise ToolError(self._refusal(name))
        value = os.environ.get(name)
        if value is None:
            return f"Environment variable {name[:100]!r} is not set."
        if name in self.secrets:
            return clip(value, _MAX_VALUE_CHARS)
        if _SECRET_VALUE.search(value):
            raise ToolError(self._refusal(name))
        return clip(mask_credentials(value), _MAX_VALUE_CHARS)

    def _is_allowed(self, name: str) -> bool:
        """Return whether a name can be read, whether or not it is set."""
        if _is_secret_name(name) and name not in self.secrets:
            return False
        return any(name == allowed or ("*" in allowed and fnmatchcase(name, allowed)) for allowed in self.environment)

    def _refusal(self, name: str) -> str:
        names = ", ".join(self.environment) or "none"
        return f"Environment variable {name[:100]!r} cannot be read here. These can: {names}."


def _run_probe(probe: Callable[[], str]) -> str:
    try:
        return probe()
    except OSError:
        return "unknown"


def _is_secret_name(name: str) -> bool:
    return name.upper() not in _NO_SECRETS and (_SECRET_WORDS.search(name) is not None or is_secret_name(name))


def _platform() -> str:
    machine = platform.machine().lower()
    return f"{sys.platform} ({_MACHINES.get(machine, machine)})"


def _default_shell() -> str:
    return _without_home(os.environ.get("SHELL") or os.environ.get("COMSPEC") or "unknown")


def _init_system() -> str:
    if platform.system() != "Linux":
        return _INIT_SYSTEMS["launchd"] if platform.system() == "Darwin" else "unknown"
    is_systemd = Path("/run/systemd/system").is_dir()
    name = "systemd" if is_systemd else Path("/proc/1/comm").read_text(errors="replace").strip()
    return _INIT_SYSTEMS.get(name, "none (this looks like a container)")


def _distribution() -> str:
    if platform.system() == "Linux":
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    return f"macOS {platform.mac_ver()[0]}" if platform.system() == "Darwin" else platform.version()


def _containers() -> str:
    is_container = Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
    inside = ["inside a container"] if is_container else []
    return ", ".join([*inside, *_found(_CONTAINERS)]) or "none found"


def _found(programs: Iterable[str]) -> list[str]:
    paths = {name: shutil.which(name) for name in programs}
    return [f"{name}: {_without_home(path)}" for name, path in paths.items() if path]


def _without_home(path: str) -> str:
    """Return a path with ~ for the home folder, whose name is that of the user."""
    home = os.path.expanduser("~")  # noqa: PTH111  # Path.home() fails where there is none
    return f"~{path[len(home) :]}" if len(home) > 1 and path.startswith(home + os.sep) else path


def _listing(programs: Iterable[str]) -> Callable[[], str]:
    return lambda: ", ".join(_found(programs)) or "none found"


_PROBES: Final[Mapping[str, Callable[[], str]]] = {
    "Platform": _platform,
    "Release": platform.release,
    "Default Shell (Env)": _default_shell,
    "Available Shells": _listing(_SHELLS),
    "Init System": _init_system,
    "Distro Info": _distribution,
    "System Package Managers": _listing(_SYSTEM_PACKAGES),
    "Language Package Managers": _listing(_LANGUAGE_PACKAGES),
    "Container & Virtualization": _containers,
}
