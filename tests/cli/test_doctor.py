"""``doctor`` lists the rejected C++ compilers, and a build warns about them once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.fake_tools import write_tool

from tkjit.cli import main

pytestmark = pytest.mark.compiles
STATIC = "finds no libstdc++.so and links libstdc++.a"
# a build looks for the C++ compiler in the same way
FIND = "from tkjit.config import Settings; from tkjit.loader import loader_for\n"
FIND += "print(loader_for(Settings.from_environment()).toolchain.cxx.path)"


@pytest.fixture
def static_gxx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``g++`` that links libstdc++ statically, in front of the system's own on ``PATH``."""
    real = shutil.which("g++")
    static = subprocess.run([real, "-print-file-name=libstdc++.a"], capture_output=True, text=True).stdout.strip()
    if not Path(static).is_absolute():
        pytest.skip("needs libstdc++.a; install it: apt-get install libstdc++-12-dev, of the version of g++")
    hides = "case $1 in -print-file-name=libstdc++.so) echo libstdc++.so; exit;; esac"
    path = write_tool(tmp_path / "bin/g++", f'{hides}\nexec {real} -static-libstdc++ "$@"')
    monkeypatch.setenv("PATH", str(path.parent), prepend=os.pathsep)
    monkeypatch.delenv("CXX", raising=False)
    return path


def test_first_process_warns_about_a_rejected_compiler(cache, static_gxx):
    def found() -> tuple[str, str]:
        done = subprocess.run([sys.executable, "-c", FIND], capture_output=True, text=True, check=True)
        return done.stdout.strip(), done.stderr

    real = shutil.which("g++", path=os.environ["PATH"].partition(os.pathsep)[2])
    path, warning = found()
    assert path == real
    assert f"TkjitWarning: {static_gxx} {STATIC}" in warning and f"tkjit compiles with {real} instead" in warning
    assert found() == (real, "")
    # the rejected compiler was called for its version, a trial compilation and the path of the library
    assert len((static_gxx.parent / "calls").read_text().splitlines()) == 3


def test_doctor_lists_the_rejected_compilers(cache, static_gxx, capsys):
    (static_gxx.parent / "c++").write_text("not executable")
    main(["doctor"])
    printed = capsys.readouterr()
    first, second = [line for line in printed.out.splitlines() if " C++ " in line]
    assert first.split()[:3] == ["skipped", "C++", str(static_gxx)] and STATIC in first
    assert second.split()[:2] == ["ok", "C++"]
    assert printed.err == ""
    main(["doctor", "--json"])
    findings = [finding for finding in json.loads(capsys.readouterr().out) if finding["what"] == "C++"]
    assert [finding["state"] for finding in findings] == ["skipped", "ok"]
    assert findings[0]["text"].startswith(f"{static_gxx} {STATIC}")


def test_doctor_lists_all_compilers_if_none_can_be_used(cache, tmp_path, monkeypatch, capsys):
    bin_directory = tmp_path / "bin"
    write_tool(bin_directory / "g++", "echo 'g++ (GCC) 9.4.0'")
    (bin_directory / "clang++").symlink_to("gone")
    monkeypatch.setenv("PATH", str(bin_directory))
    monkeypatch.delenv("CXX", raising=False)
    assert main(["doctor"]) == 1
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines() if " C++ " in line]
    assert lines == [
        ["skipped", "C++", f"{bin_directory}/g++ is version 9; g++ 11 or newer is needed"],
        ["skipped", "C++", f"{bin_directory}/clang++ is a link to {bin_directory}/gone, which cannot be found"],
        ["MISSING", "C++", "no C++ compiler on PATH can be used; install one: apt-get install g++"],
    ]
