"""Whether a C++ compiler links what it makes with the C++ library that a process shares."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tkjit.errors import ToolchainError

_SHARED, _STATIC = "libstdc++.so", "libstdc++.a"


def check_is_shared(cxx: Path) -> None:
    """Refuse a compiler whose shared library is missing, so that it would put one of its own into every module.

    A process with two of them crashes, or loses exceptions, as soon as one library's object comes to the other.

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
    """What the linker reads: some compilers are scripts that know where their library lies, and do not tell."""
    with tempfile.TemporaryDirectory() as directory:
        command = [str(cxx), "-shared", "-fPIC", "-x", "c++", "-", "-o", f"{directory}/trial.so", "-Wl,--trace"]
        source = "#include <new>\nvoid* trial() { throw std::bad_alloc(); }\n"
        done = subprocess.run(command, input=source, capture_output=True, text=True)
        return done.stdout + done.stderr
