"""The cost of a call that does almost nothing, and of a first call that compiles."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
from functools import partial
from pathlib import Path
from statistics import geometric_mean

import torch

from benchmarks.harness import ROOT, Row, interleaved

SOURCE = """
struct Point {
    double x, y;
    Point(double x, double y) : x(x), y(y) {}
    double norm() const { return x * x + y * y; }
    double dot(const Point& other) const { return x * other.x + y * other.y; }
};
inline double dot(const Point& a, const Point& b) { return a.x * b.x + a.y * b.y; }
"""
MODULE = """
#include <pybind11/pybind11.h>
PYBIND11_MODULE(pybind_points, module) {
    namespace py = pybind11;
    py::class_<Point> point(module, "Point");
    point.def(py::init<double, double>()).def("norm", &Point::norm).def("dot", &Point::dot);
    module.def("dot", &dot);
}
"""
BIND = {
    "tkjit": "import tkjit; library = tkjit.bind(source={source!r}); Point, dot = library.Point, library.dot",
    "cppyy": "import cppyy; cppyy.cppdef({source!r}); from cppyy.gbl import Point, dot",
    "pybind11": "from pybind_points import Point, dot",
}
TIME = """
import json, timeit
{bind}
p, q = Point(1.0, 2.0), Point(3.0, 4.0)
assert p.norm() == 5 and p.dot(q) == dot(p, q) == 11
calls = [("f()", dict(f=p.norm)), ("f(q)", dict(f=p.dot, q=q)), ("f(p, q)", dict(f=dot, p=p, q=q))]
print(json.dumps([min(timeit.repeat(text, globals=names, number=100_000, repeat=7)) * 10 for text, names in calls]))
"""
WHAT = ["a method call", "a method of two objects", "a function of two objects"]
# compiles a single call, to measure one cache miss
MISS = """
import resource, sys, numpy, tkjit
library = tkjit.bind({headers}, namespaces="thrust", backend="omp")
vector = library.device_vector(int)([3, 1, 2])
begin, end = vector.begin(), vector.end()
before = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
library.{call}
after = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
print(sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after)))
"""
PROGRAM = """
{includes}
using It = thrust::device_vector<int>::iterator;
auto call(It begin, It end) {{ return thrust::{call}; }}
"""
MISSED = {
    "reduce": "begin, end",
    "fill": "begin, end, 3",
    "sequence": "begin, end",
    "copy": "begin, end, begin",
    "inclusive_scan": "begin, end, begin",
    "is_sorted": "begin, end",
    "max_element": "begin, end",
    "unique": "begin, end",
    "set_union": "begin, end, begin, end, begin",
    "sort": "begin, end",
}
HEADERS = [
    f"thrust/{name}.h"
    for name in "device_vector reduce fill sequence copy scan sort extrema unique set_operations".split()
]


def rows(runs: int, cppyy: Path | None) -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        pythons = {"tkjit": Path(sys.executable), "pybind11": Path(sys.executable)}
        if cppyy is not None:
            pythons["cppyy"] = cppyy
        _compile_pybind11(Path(directory))
        measured: dict[str, list[list[float]]] = {peer: [] for peer in pythons}
        for _ in range(runs):
            for peer, python in pythons.items():
                measured[peer].append(_time_calls(peer, python, Path(directory)))
        found = []
        for number, what in enumerate(WHAT):
            medians = {peer: sorted(times[number] for times in every)[runs // 2] for peer, every in measured.items()}
            for peer, limit in (("cppyy", 1.0), ("pybind11", None)):
                if peer in medians:
                    found.append(Row(what, peer, medians["tkjit"], medians[peer], "us", limit))
        return found + _missed(runs, Path(directory))


def _missed(runs: int, directory: Path) -> list[Row]:
    """Measure the first call of each algorithm; the calls that precede it in the program are in the cache."""
    found = []
    for algorithm, arguments in MISSED.items():
        call = f"{algorithm}({arguments})"
        miss, plain = interleaved(
            [partial(_lone_miss, directory, call), partial(_compile_plain, directory, call)], runs
        )
        found.append(Row(f"a lone miss, thrust::{algorithm}", "g++ of the same", miss, plain, "CPU s"))
    ours, theirs = (geometric_mean([getattr(row, name) for row in found]) for name in ("ours", "theirs"))
    return [*found, Row("lone misses, geometric mean", "g++ of the same", ours, theirs, "CPU s", 0.5)]


def _environment(directory: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{directory}", "PYTHONDONTWRITEBYTECODE": ""}


def _time_calls(peer: str, python: Path, directory: Path) -> list[float]:
    code = TIME.format(bind=BIND[peer].format(source=SOURCE))
    environment = _environment(directory) if peer != "cppyy" else dict(os.environ)
    printed = subprocess.check_output([python, "-c", code], env=environment, text=True, stderr=subprocess.DEVNULL)
    times: list[float] = json.loads(printed.splitlines()[-1])
    return times


def _compile_pybind11(directory: Path) -> None:
    source = directory / "points.cpp"
    source.write_text(SOURCE + MODULE)
    output = directory / f"pybind_points{sysconfig.get_config_var('EXT_SUFFIX')}"
    includes = [f"-I{Path(torch.__file__).parent / 'include'}", f"-I{sysconfig.get_path('include')}"]
    subprocess.run(["g++", "-O2", "-std=c++17", "-shared", "-fPIC", *includes, source, "-o", output], check=True)


def _lone_miss(directory: Path, call: str) -> float:
    cache = directory / "cache"
    for unit in cache.glob("v*/*/calls/*"):
        if f"thrust::{call.partition('(')[0]}(" in next(unit.rglob("calls.cpp")).read_text():
            subprocess.run(["rm", "-r", unit], check=True)
    environment = {**_environment(directory), "TKJIT_CACHE": str(cache)}
    code = MISS.replace("{headers}", ", ".join(map(repr, HEADERS))).replace("{call}", call)
    return float(subprocess.check_output([sys.executable, "-c", code], env=environment, text=True))


def _compile_plain(directory: Path, call: str) -> float:
    from cuda.pathfinder import find_nvidia_header_directory

    source = directory / "call.cpp"
    source.write_text(PROGRAM.format(includes="\n".join(f"#include <{name}>" for name in HEADERS), call=call))
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-fopenmp", "-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_OMP"]
    before = _children()
    include = f"-I{find_nvidia_header_directory('cccl')}"
    subprocess.run(["g++", *flags, include, source, "-o", directory / "call.so"], check=True)
    return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
