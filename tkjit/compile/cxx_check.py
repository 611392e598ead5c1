"""Checks that a C++ compiler is usable: it runs, is recent enough, and links with the shared C++ library."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tkjit.errors import ToolchainError

OLDEST_GXX, OLDEST_CLANG = 11, 13
# A compiler on a slow network disk takes seconds, but a compiler that waits for a licence server may never end.
PATIENCE_S = 30.0
_SHARED, _STATIC = "libstdc++.so", "libstdc++.a"
_TRIAL = "#include <new>\nvoid* trial() { throw std::bad_alloc(); }\n"


def checked_version(cxx: Path) -> str:
    """Check that a compiler is usable, and return the first line that it prints about its version.

    Raises
    ------
    ToolchainError
        If the compiler is unusable. The text contains only the reason, ``is version 9; g++ 11 or newer is needed``, so
        that a caller can put the compiler's path before it.
    """
    done = _run(cxx, ["--version"])
    if done.returncode != 0:
        raise ToolchainError(f"does not run: {_why(done)}")
    version = next(filter(None, map(str.strip, done.stdout.splitlines())), "unknown")
    _check_age(version)
    _check_linking(cxx)
    return version


def _check_age(version: str) -> None:
    # the name of the command, the distributor's text in brackets, and the version: g++-10 (Debian 10.2.1-6) 10.2.1
    gcc = re.match(r"\S*(?:g\+\+|c\+\+|gcc)\S* \(.*\) (\d+)\.\d+", version)
    clang = re.search(r"\bclang version (\d+)\.", version)
    for found, name, oldest in ((gcc, "g++", OLDEST_GXX), (clang, "clang++", OLDEST_CLANG)):
        if found and int(found[1]) < oldest:
            raise ToolchainError(f"is version {found[1]}; {name} {oldest} or newer is needed")


def _check_linking(cxx: Path) -> None:
    """Link a shared object, and check which C++ library the linker reads.

    With the static library, each kernel would contain its own copy of the library. A process with two copies crashes,
    or loses exceptions, as soon as an object from one copy reaches the other copy. If the compiler finds the shared
    library but links the static one, a flag must have requested the static one, so the compiler is accepted.
    """
    with suppress(OSError), tempfile.TemporaryDirectory() as directory:
        output = f"{directory}/trial.so"
        linked = _run(cxx, ["-shared", "-fPIC", "-x", "c++", "-", "-o", output, "-Wl,--trace"], _TRIAL)
        if linked.returncode != 0:
            if os.strerror(errno.ENOSPC) in linked.stderr:
                return  # the compiler is not at fault; a build that fails for this reason tells the user what to do
            raise ToolchainError(f"cannot link a shared object: {_why(linked)}")
        if _STATIC not in linked.stdout + linked.stderr:
            return
        shared = _run(cxx, [f"-print-file-name={_SHARED}"]).stdout.strip()
        if not Path(shared).is_absolute():  # the compiler prints the directory only if the file exists
            raise ToolchainError(
                f"finds no {_SHARED} and links {_STATIC}: each kernel would contain its own copy of the C++ library, "
                "and two copies crash a process"
            )


def _run(cxx: Path, arguments: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a compiler with a text as its standard input. After ``PATIENCE_S``, kill the compiler and its children."""
    command = [str(cxx), *arguments]
    pipe = subprocess.PIPE
    try:
        # in a new session, so that the compiler can be killed together with its children
        process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True
        )
    except OSError as error:
        raise ToolchainError(f"does not run: {error.strerror}") from None
    with process:
        try:
            out, err = process.communicate(text, timeout=PATIENCE_S)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ToolchainError(f"did not finish within {PATIENCE_S:.0f} s ({' '.join(arguments[:1])})") from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """Return the most informative line in the output of a compiler that failed."""
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    status = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
    return next(iter([*errors, *lines[-1:]]), status)
