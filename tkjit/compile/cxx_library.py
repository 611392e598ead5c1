"""A C++ compiler that has no shared C++ library."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from tkjit.errors import ToolchainError

_SHARED, _STATIC = "libstdc++.so", "libstdc++.a"


def check_is_shared(cxx: Path) -> None:
    """Refuse a compiler whose shared library is missing, so that it would put one of its own into every module.

    A process with two of them crashes, or loses exceptions, as soon as one library's object comes to the other. Who has
    the compiler link statically by a flag knows what they do.

    Raises
    ------
    ToolchainError
    """
    command = [str(cxx), f"-print-file-name={_SHARED}"]
    found = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    if Path(found).is_absolute() or _STATIC not in _files_linked(cxx):
        return
    raise ToolchainError(
        f"{cxx} has no {_SHARED}, or one that leads nowhere, and links with {_STATIC}: each kernel would bring a C++ "
        "library of its own, which crashes a process; name another compiler in CXX"
    )


def _files_linked(cxx: Path) -> str:
    """What the linker reads: some compilers are scripts that print no path, so that only linking shows it."""
    with suppress(OSError), tempfile.TemporaryDirectory() as directory:
        command = [str(cxx), "-shared", "-fPIC", "-x", "c++", "-", "-o", f"{directory}/trial.so", "-Wl,--trace"]
        source = "#include <new>\nvoid* trial() { throw std::bad_alloc(); }\n"
        done = subprocess.run(command, input=source, capture_output=True, text=True)
        return done.stdout + done.stderr
    return ""
