"""A compiler that links a C++ library of its own into each module is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tkjit import ToolchainError
from tkjit.compile.cxx_library import check_is_shared

pytestmark = pytest.mark.compiles
SCRIPT = """#!/bin/sh
[ "$1" = -print-file-name=libstdc++.so ] && echo libstdc++.so && exit
exec {gxx} {flags} "$@"
"""


def compiler(directory: Path, flags: str) -> Path:
    """A script that does not tell where its library lies."""
    path = directory / "g++"
    path.write_text(SCRIPT.format(gxx=shutil.which("g++"), flags=flags))
    path.chmod(0o755)
    return path


def test_a_static_library_is_refused(tmp_path):
    static = subprocess.run(["g++", "-print-file-name=libstdc++.a"], capture_output=True, text=True).stdout.strip()
    if not Path(static).is_absolute():
        pytest.skip("needs libstdc++.a; install it: apt-get install libstdc++-12-dev, of the version of g++")
    cxx = compiler(tmp_path, "-static-libstdc++")
    with pytest.raises(ToolchainError) as raised:
        check_is_shared(cxx)
    assert str(raised.value) == (
        f"{cxx} has no libstdc++.so, or one that leads nowhere, and links with libstdc++.a: each kernel would bring a "
        "C++ library of its own, which crashes a process; name another compiler in CXX"
    )


def test_a_script_that_links_the_shared_one_is_taken(tmp_path):
    check_is_shared(compiler(tmp_path, ""))


def test_a_compiler_that_says_where_the_shared_one_lies_compiles_nothing(tmp_path):
    cxx = tmp_path / "g++"
    cxx.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\necho /usr/lib/libstdc++.so\n')
    cxx.chmod(0o755)
    check_is_shared(cxx)
    assert (tmp_path / "calls").read_text() == "-print-file-name=libstdc++.so\n"
