"""The applications of the WAYOUT paper: in Python the same numbers as in C++."""

from __future__ import annotations

import subprocess
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from support import applications

import tkjit
from tkjit.bindings.header_set import make_header_set

pytestmark = pytest.mark.compiles

PROGRAMS = Path(applications.__file__).parent
THRUST = ["histogram", "mode", "saxpy", "set_operations", "sort", "sparse", "sum"]
IN_SHORT = {"histogram"}


def cases(names: list[str], in_short: set[str]) -> list:
    return [pytest.param(name, marks=[] if name in in_short else pytest.mark.slow) for name in names]


def printed(program: Path, n: int, flags: list[str], directory: Path) -> dict[str, list[float]]:
    """What a C++ program prints: names and numbers."""
    binary = directory / program.stem
    subprocess.run(["g++", "-O2", *flags, program, "-o", binary], check=True)
    lines = subprocess.check_output([binary, str(n)], text=True).splitlines()
    return {line.split()[0]: [float(word) for word in line.split()[1:]] for line in lines}


@pytest.mark.parametrize("name", cases(THRUST, IN_SHORT))
def test_thrust(name, tmp_path):
    application = import_module(f"support.applications.thrust.{name}")
    options = {"backend": "omp", "source": getattr(application, "SOURCE", "")}
    headers = make_header_set(application.HEADERS, **options)
    library = tkjit.bind(*application.HEADERS, namespaces="thrust", **options)
    flags = [*headers.preprocessor, *(f"-I{directory}" for directory in headers.include_dirs)]
    expected = printed(PROGRAMS / "thrust" / f"{name}.cpp", 1000, flags, tmp_path)
    found = {key: np.ravel(value).tolist() for key, value in application.run(library, 1000).items()}
    assert found == expected
    assert sum(map(len, found.values())) > 1
