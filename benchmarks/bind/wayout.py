"""Compares tkjit with the published WAYOUT on Thrust's sort: both from scratch, and tkjit also with cached headers.

WAYOUT's repository has no licence, so it is not included here; ``--wayout`` gives a checkout. It was written for an
older Thrust and clang 11. To run it today, this module makes these changes from outside:

- it uses the libclang and clang headers that tkjit uses, C++17, and Thrust's namespace without the ABI's name;
- it replaces the makefile, to use torch's pybind11, and ``-O2`` as for tkjit;
- it puts the classes of all namespaces into one module, twice, because they refer to each other;
- it defines ``make_iterator_adaptor_base``, which is no longer a class in Thrust, as an empty class.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import torch
from cuda.pathfinder import find_nvidia_header_directory

from benchmarks.bind.applications import children_seconds, remove_calls
from benchmarks.harness import ROOT, Row, interleaved

N = 1000
_FIRST = "#include <algorithm>\n#include <cstdlib>\n#include <thrust/host_vector.h>\n"
_FILL = "inline void fill_at_random(thrust::host_vector<int>& of) { std::generate(of.begin(), of.end(), rand); }\n"
_HEADERS = ("thrust/host_vector.h", "thrust/device_vector.h", "thrust/sort.h", "thrust/copy.h")
_PARSED = (
    "thrust/iterator/iterator_facade.h",
    "thrust/iterator/detail/iterator_adaptor_base.h",
    "thrust/iterator/iterator_adaptor.h",
    "thrust/iterator/detail/normal_iterator.h",
    "thrust/detail/vector_base.h",
    *_HEADERS,
)
_DEFINES = (
    "-DTHRUST_DISABLE_ABI_NAMESPACE",
    "-DTHRUST_IGNORE_ABI_NAMESPACE_ERROR",
    "-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_OMP",
)
_PROGRAM = """
host = library.host_vector(int)({n})
library.fill_at_random(host)
device = library.device_vector(int)(host)
library.sort(device.begin(), device.end())
library.copy(device.begin(), device.end(), host.begin())
"""
_OURS = """
import json, resource
import numpy, tkjit
import tkjit.bindings
usage = resource.getrusage(resource.RUSAGE_SELF)
library = tkjit.bind(*{headers!r}, namespaces=["thrust", ""], source={source!r}, backend="omp")
{program}
print(json.dumps(usage.ru_utime + usage.ru_stime))
"""
_THEIRS = """
import json, os, resource, sys, types
from pathlib import Path
sys.path[:0] = [{root!r}, os.getcwd()]
from tkjit.importer import clang
clang._cindex()
import wayout.dynamic, wayout.static
usage = resource.getrusage(resource.RUSAGE_SELF)

class Target:
    value = os.path.abspath("makefile")

flags = ["-resource-dir", str(clang._resources()), "-I" + {thrust!r}, "-xc++", "-std=c++17", *{defines!r}]
wayout.static.generate_wrapper("thrust_sort/", [{thrust!r} + "/" + path for path in {parsed!r}], flags, Target)
os.chdir("thrust_sort")
library = sys.modules["kernels"] = types.ModuleType("kernels")
library.make_iterator_adaptor_base = type("make_iterator_adaptor_base", (), {{"type": object}})
wayout.dynamic.import_module("build/_kernel_enums.so", "build._kernel_enums")
for place in 2 * sorted(Path("kernel").rglob("kernels.py"), key=lambda path: len(path.parts)):
    names = dict(vars(library))
    exec(compile(place.read_text(), str(place), "exec"), names)
    for name, value in names.items():
        if not name.startswith("__") and not isinstance(value, types.ModuleType):
            setattr(library, name, value)
{program}
print("\\n" + json.dumps(usage.ru_utime + usage.ru_stime), flush=True)
os._exit(0)  # WAYOUT prints more at exit
"""
_MAKEFILE = """$(TARGET): $(TARGET:.so=.cpp)
\tg++ -O2 -std=c++17 -fPIC -fopenmp {flags} -shared $< -o $@
"""


def rows(runs: int, checkout: Path) -> list[Row]:
    """Run tkjit and WAYOUT with the same program, and compare their CPU times.

    Parameters
    ----------
    checkout : Path
        A checkout of https://github.com/EngineeringSoftware/wayout.
    """
    with tempfile.TemporaryDirectory() as directory:
        cache = Path(tempfile.mkdtemp(dir=directory))
        _seconds_of_ours(cache)
        cold, headers, theirs = interleaved(
            [
                lambda: _seconds_of_ours(Path(tempfile.mkdtemp(dir=directory))),
                lambda: _seconds_of_ours(remove_calls(cache)),
                lambda: _seconds_of_theirs(checkout.resolve(), Path(tempfile.mkdtemp(dir=directory))),
            ],
            runs,
        )
    return [
        Row("sort, empty cache: CPU", "published WAYOUT, cold", cold, theirs, "s", 0.5),
        Row("sort, header set cached: CPU", "published WAYOUT, cold", headers, theirs, "s", 0.2),
    ]


def _seconds_of_ours(cache: Path) -> float:
    code = _OURS.format(headers=_HEADERS, source=_FIRST + _FILL, program=_PROGRAM.format(n=N))
    return _seconds(code, cache, TKJIT_CACHE=str(cache))


def _seconds_of_theirs(checkout: Path, directory: Path) -> float:
    thrust = str(find_nvidia_header_directory("cccl"))
    include = [thrust, f"{Path(torch.__file__).parent}/include", sysconfig.get_paths()["include"]]
    flags = [*_DEFINES, *(f"-I{path}" for path in include)]
    (directory / "makefile").write_text(_MAKEFILE.format(flags=" ".join(flags)))
    (directory / "init_vec.hpp").write_text(_FIRST + _FILL)
    code = _THEIRS.format(
        root=str(checkout), thrust=thrust, defines=_DEFINES, parsed=_PARSED, program=_PROGRAM.format(n=N)
    )
    return _seconds(code, directory)


def _seconds(code: str, directory: Path, **environment: str) -> float:
    """The CPU seconds of a program and its compilers, without its imports."""
    before = children_seconds()
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return children_seconds() - before - float(json.loads(done.stdout.splitlines()[-1]))
