"""The commands that install what is missing: for the Python that runs, and for this distribution."""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import PathFinder

# Debian's names of packages, and what others call them
_RED_HAT = {"g++": "gcc-c++", "python3-dev": "python3-devel"}
_NAMES = {"apt-get": {}, "dnf": _RED_HAT, "zypper": _RED_HAT, "pacman": {"g++": "gcc", "python3-dev": "python"}}
_MANAGERS = {
    "debian": "apt-get install",
    "ubuntu": "apt-get install",
    "fedora": "dnf install",
    "rhel": "dnf install",
    "suse": "zypper install",
    "arch": "pacman -S",
}


def pip_install(*requirements: str) -> str:
    """The command that installs Python packages for the Python that runs: its own pip, or uv where it has none.

    Examples
    --------
    >>> pip_install("tkjit[gpu]").endswith(' pip install "tkjit[gpu]"')
    True
    """
    import shlex

    python = shlex.quote(sys.executable or "python3")
    quoted = " ".join(f'"{one}"' if set(one) & set("[]<>=*") else one for one in requirements)
    if PathFinder.find_spec("pip") is None:  # other finders patch distutils where pip is asked for
        return f"uv pip install --python {python} {quoted}"
    return f"{python} -m pip install {quoted}"


def system_install(package: str) -> str:
    """The command that installs a package of the distribution, by Debian's name for it."""
    manager = _manager(_os_release())
    if manager is None:
        return f"install {package} by your system's package manager"
    return f"{manager} {_NAMES[manager.split()[0]].get(package, package)}"


def _manager(release: str) -> str | None:
    """How packages are installed, by the text of ``/etc/os-release``.

    >>> _manager('ID=rocky\\nID_LIKE="rhel centos fedora"\\n')
    'dnf install'
    """
    lines = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    names = [name for key in ("ID", "ID_LIKE") for name in lines.get(key, "").strip("\"'").split()]
    return next((found for name in names if (found := _MANAGERS.get(name))), None)


@cache
def _os_release() -> str:
    try:
        with open("/etc/os-release", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
