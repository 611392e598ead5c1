"""Exports that several test files share; each is made once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.exportable import ALL
from support.exported import Library

import tkjit

# the flags for programs in C
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]


@pytest.fixture(scope="session")
def zoo_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of kernels with parameters of every kind, for the CPU, in all languages."""
    output = tmp_path_factory.mktemp("exports") / "zoo"
    kernels = (*ALL, "axpy", "softmax", "gemm")
    return tkjit.export(*kernels, name="zoo", output=output, languages=("cpp", "go", "rust"))


@pytest.fixture(scope="session")
def zoo(zoo_directory: Path) -> Library:
    return Library(zoo_directory, "zoo")


@pytest.fixture
def program(zoo_directory: Path, tmp_path: Path) -> Callable[..., str]:
    """Compiles a program against the zoo's library, runs it, and returns its output."""

    def run(text: str, *flags: str, directory: Path = zoo_directory, cxx: bool = False, **environment: str) -> str:
        source, built = tmp_path / ("main.cpp" if cxx else "main.c"), tmp_path / "main"
        source.write_text(text)
        library = [f"-I{directory}/include", f"-L{directory}/lib", "-lzoo", f"-Wl,-rpath,{directory}/lib"]
        language = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror"] if cxx else ["gcc", *STRICT]
        subprocess.run([*language, str(source), *flags, *library, "-o", str(built)], check=True)
        done = subprocess.run([built], capture_output=True, text=True, env={**os.environ, **environment})
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run
