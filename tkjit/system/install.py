"""Suggests commands that install missing packages, using this Python's pip or this system's package manager."""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import PathFinder

# these tables map Debian's package names, which callers pass, to the names in other distributions
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
    """Return the command that installs packages into the running Python, using pip, or uv if there is no pip.

    Examples
    --------
    >>> pip_install("tkjit[gpu]").endswith(' pip install "tkjit[gpu]"')
    True
    """
    import shlex

    python = shlex.quote(sys.executable or "python3")
    quoted = " ".join(
        f'"{requirement}"' if set(requirement) & set("[]<>=*") else requirement for requirement in requirements
    )
    # not `importlib.util.find_spec`, which also asks setuptools' finder, and that one patches distutils
    if PathFinder.find_spec("pip") is None:
        return f"uv pip install --python {python} {quoted}"
    return f"{python} -m pip install {quoted}"


def system_install(package: str) -> str:
    """Return the command that installs a system package, given its name on Debian."""
    manager = _manager(_os_release())
    if manager is None:
        return f"install {package} with your system's package manager"
    return f"{manager} {_NAMES[manager.split()[0]].get(package, package)}"


def _manager(release: str) -> str | None:
    """Find the package manager's install command from the text of ``/etc/os-release``.

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
