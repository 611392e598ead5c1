"""The applications of the WAYOUT paper: in Python the same numbers as in C++."""

from __future__ import annotations

import json
import subprocess
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from support import applications
from support.applications import kokkos

import tkjit
from tkjit.bindings.header_set import make_header_set

pytestmark = pytest.mark.compiles

PROGRAMS = Path(applications.__file__).parent
THRUST = ["histogram", "mode", "saxpy", "set_operations", "sort", "sparse", "sum"]
KOKKOS = ["cg_solve", "cg_spiluk", "gauss_seidel", "graph_coloring", "inner_product", "spgemm", "spiluk"]
IN_SHORT = {"histogram", "cg_solve"}


def cases(names: list[str]) -> list:
    return [pytest.param(name, marks=[] if name in IN_SHORT else pytest.mark.slow) for name in names]


def printed(program: Path, n: int, flags: list[str], directory: Path) -> dict[str, list[float]]:
    """What a C++ program prints: names and numbers."""
    binary = directory / program.stem
    options = [flag for flag in flags if not flag.startswith("-l")]
    libraries = [flag for flag in flags if flag.startswith("-l")]
    subprocess.run(["g++", "-O2", *options, program, "-o", binary, *libraries], check=True)
    lines = subprocess.check_output([binary, str(n)], text=True).splitlines()
    return {line.split()[0]: [float(word) for word in line.split()[1:]] for line in lines}


@pytest.mark.parametrize("name", cases(THRUST))
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


@pytest.mark.skipif(not kokkos.INCLUDE.is_dir(), reason=f"no {kokkos.INCLUDE}; {kokkos.INSTALL}")
@pytest.mark.parametrize("name", cases(KOKKOS))
def test_kokkos(name, tmp_path, fresh):
    # in a process of its own: Kokkos can be started once
    application = import_module(f"support.applications.kokkos.{name}")
    code = f"""
import json, sys
sys.path.insert(0, {str(PROGRAMS.parents[1])!r})
import numpy, tkjit
from support.applications import kokkos
from support.applications.kokkos import {name} as application
library = tkjit.bind(*application.HEADERS, namespaces=application.BOUND, source=kokkos.MATRICES, **kokkos.OPTIONS)
print(json.dumps({{key: numpy.ravel(value).tolist() for key, value in application.run(library, 1000).items()}}))
"""
    found = json.loads(fresh.run(code))
    libraries = [f"-l{name}" for name in kokkos.OPTIONS["libraries"]]
    flags = ["-std=c++17", f"-I{kokkos.INCLUDE}", *libraries]
    expected = printed(PROGRAMS / "kokkos" / f"{name}.cpp", 1000, flags, tmp_path)
    assert found.keys() == expected.keys()
    for key, numbers in expected.items():
        # sums are made in the same order here: rounding differs where a compiler contracts or vectorises otherwise
        np.testing.assert_allclose(found[key], numbers, rtol=1e-10, atol=1e-12, err_msg=f"{application.__doc__} {key}")
