"""Inspects caches and their builder processes; wraps the compiler."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tkjit.system.process import name_of, working_in

# fills a cache with the glue of axpy, and with its first variant for the CPU
CALL = """
import torch, tkjit
print(tkjit.load("axpy")(torch.ones(3), torch.ones(3), 2.0).tolist())
"""
RIGHT = "[3.0, 3.0, 3.0]\n"


def entries(root: Path) -> set[Path]:
    """Return the published entries that calls use, but not discarded ones or those that only builds use."""
    found = (path.parent for path in root.glob("v1/*/*/*/[!.]*/manifest.json"))
    return {path for path in found if path.parents[1].name not in ("simulator", "common_headers")}


def stagings(root: Path) -> list[Path]:
    return list(root.glob("v1/*/*/*/.staging-*"))


def compilers(root: Path) -> list[str]:
    """Return the names of the processes that work in a cache."""
    return sorted(filter(None, map(name_of, working_in(root))))


def at_locks(pid: int, root: Path) -> list[str]:
    """Return the directories whose locks a process holds or waits for, such as ``axpy-0123456789abcdef``."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            path = descriptor.readlink()
            if path.is_relative_to(root) and path.name.startswith(".lock"):
                found.add(path.parent.name)
    return sorted(found)


# The wrapper of a compiler must have the compiler's version. It is a binary, because tkjit adds a hash of the text to
# the version of a script.
PROGRAM = r"""
#include <limits.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char** words) {
    char self[PATH_MAX] = "", script[PATH_MAX + 4];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 127;
    snprintf(script, sizeof script, "%s.sh", self);
    const char* command[count + 2];
    command[0] = "sh";
    command[1] = script;
    for (int i = 1; i <= count; ++i) command[i + 1] = words[i];
    execv("/bin/sh", (char**)command);
    return 127;
}
"""


@cache
def _program() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "program")
        subprocess.run(["gcc", "-x", "c", "-", "-o", path], input=PROGRAM, text=True, check=True)
        return path.read_bytes()


def write_compiler(path: Path, script: str) -> None:
    """Write a program and the shell script that it runs.

    Earlier versions of both are replaced atomically, because they may be running.
    """
    for name, content in ((f"{path.name}.sh", script.encode()), (path.name, _program())):
        scratch = path.with_name(f"{name}.new")
        scratch.write_bytes(content)
        scratch.chmod(0o755)
        scratch.replace(path.with_name(name))


class Compiler:
    """A program for ``CXX`` that logs its compilations, runs the real compiler, and can wait before or after that.

    The program reports the real compiler's version, so that entries from the real compiler are hits.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        directory.mkdir()
        self.path = directory / "g++"
        self._log = directory / "log"
        self._gate = directory / "gate"
        self._write()
        monkeypatch.setenv("CXX", str(self.path))

    def _write(self, before: str = "", after: str = "", version: str = "") -> None:
        def held(only: str) -> str:
            return f'case "$*" in {only}) while [ ! -e "{self._gate}" ]; do sleep 0.02; done;; esac' if only else ":"

        says = f'case "$*" in --version) echo "{version}"; exit;; esac' if version else ":"
        script = f"""
{says}
case " $* " in *" -c "*|*glue.cpp*|*launcher.cu*)
    echo "$*" >> "{self._log}"
    {held(before)}
esac
'{shutil.which("g++")}' "$@"
status=$?
{held(after)}
exit $status
"""
        write_compiler(self.path, script)

    def hold(self, only: str = "*") -> None:
        """Let compilations whose command line matches begin, but hold them before they do any work."""
        self._gate.unlink(missing_ok=True)
        self._write(before=only)

    def hold_at_the_end(self, only: str) -> None:
        """Let compilations whose command line matches do their work, but hold them before they end."""
        self._gate.unlink(missing_ok=True)
        self._write(after=only)

    def release(self) -> None:
        self._gate.touch()

    def becomes(self, version: str) -> None:
        self._write(version=version)

    @property
    def compiled(self) -> list[str]:
        """The compilations so far: ``launcher``, or ``module`` for a glue or the runtime."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return sorted("launcher" if "launcher.cu" in line else "module" for line in lines)
