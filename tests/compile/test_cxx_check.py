"""A C++ compiler is rejected if it is too old, does not run, hangs, or cannot link with a shared C++ library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.fake_tools import GXX_12, write_tool
from support.waiting import wait_until

from tkjit import ToolchainError
from tkjit.compile import cxx_check
from tkjit.compile.cxx_check import checked_version
from tkjit.system.start_time import start_time

pytestmark = pytest.mark.compiles
NO_LIBRARY = "case $1 in -print-file-name=libstdc++.so) echo libstdc++.so; exit;; esac"


def refusal(cxx: Path) -> str:
    with pytest.raises(ToolchainError) as raised:
        checked_version(cxx)
    return str(raised.value)


def wrapper(directory: Path, flags: str = "") -> Path:
    """A script that calls the real compiler, but does not find the shared C++ library."""
    return write_tool(directory / "g++", f'{NO_LIBRARY}\nexec {shutil.which("g++")} {flags} "$@"')


def test_a_compiler_with_only_a_static_library_is_rejected(tmp_path):
    static = subprocess.run(["g++", "-print-file-name=libstdc++.a"], capture_output=True, text=True).stdout.strip()
    if not Path(static).is_absolute():
        pytest.skip("needs libstdc++.a; install it: apt-get install libstdc++-12-dev, of the version of g++")
    assert refusal(wrapper(tmp_path, "-static-libstdc++")) == (
        "finds no libstdc++.so and links libstdc++.a: each kernel would contain its own copy of the C++ library, and "
        "two copies crash a process"
    )


def test_a_compiler_that_links_the_shared_library_is_accepted(tmp_path):
    real = subprocess.run(["g++", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    assert checked_version(wrapper(tmp_path)) == real


@pytest.mark.parametrize(
    "body, reason",
    [
        ("exit 3", "does not run: exit status 3"),
        ("kill -SEGV $$", "does not run: signal 11"),
        ("echo 'g++: error while loading shared libraries: libmpfr.so.6' >&2; exit 127", "libmpfr.so.6"),
        ("echo 'g++ (GCC) 9.4.0'", "is version 9; g++ 11 or newer is needed"),
        ("echo 'Debian clang version 11.1.0-6'", "is version 11; clang++ 13 or newer is needed"),
        (
            f"[ $1 = --version ] && echo '{GXX_12}' && exit\necho 'x.c:1: note: y' >&2\n"
            "echo 'g++: fatal error: cannot execute cc1plus' >&2\nexit 1",
            "cannot link a shared object: g++: fatal error: cannot execute cc1plus",
        ),
    ],
    ids=["fails", "crashes", "lacks a library", "old g++", "old clang++", "cannot compile"],
)
def test_the_error_contains_the_reason(tmp_path, body, reason):
    assert reason in refusal(write_tool(tmp_path / "g++", body))


def test_a_program_for_another_machine_is_rejected(tmp_path):
    (tmp_path / "g++").write_bytes(b"\x7fELF of another machine")
    (tmp_path / "g++").chmod(0o755)
    assert refusal(tmp_path / "g++") == "does not run: Exec format error"


def test_a_compiler_that_hangs_is_killed_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(cxx_check, "PATIENCE_S", 1.0)
    cxx = write_tool(tmp_path / "g++", f"sleep 60 &\necho $! > {tmp_path}/child\nwait")
    assert refusal(cxx) == "did not finish within 1 s (--version)"
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: start_time(child) is None, what="the child of the compiler ends")


def test_a_full_disk_is_not_the_compilers_fault(tmp_path):
    body = (
        f"[ $1 = --version ] && echo '{GXX_12}' && exit\necho 'fatal error: x.o: No space left on device' >&2\nexit 1"
    )
    assert checked_version(write_tool(tmp_path / "g++", body)) == GXX_12
