"""Kernel times: through bindings, in a C++ program, and through a hand-written module."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import torch

from benchmarks.harness import ROOT, Row

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
KERNELS = ("reduce", "sort", "axpy")
COMMON = """
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <cstdint>

using Vector = thrust::device_vector<double>;
struct Axpy {
    double a;
    explicit Axpy(double a) : a(a) {}
    double operator()(double x, double y) const { return a * x + y; }
};
"""
PROGRAM = """
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

template <class Prepare, class Run>
void print_median(Prepare prepare, Run run) {
    std::vector<double> times;
    for (int i = 0; i < 7; ++i) {
        prepare();
        const auto start = std::chrono::steady_clock::now();
        run();
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(times.begin(), times.end());
    std::printf("%.9f ", times[3]);
}
int main(int, char** argv) {
    const std::size_t n = std::strtoul(argv[1], nullptr, 10);
    std::vector<double> data(n);
    for (std::size_t i = 0; i < n; ++i) data[i] = static_cast<double>((i + 1) * 2654435761u % 1000003);
    Vector x(data.begin(), data.end()), y(x);
    volatile double sum = 0;
    print_median([] {}, [&] { sum = thrust::reduce(x.begin(), x.end()); });
    print_median([&] { y = x; }, [&] { thrust::sort(y.begin(), y.end()); });
    print_median([] {}, [&] { thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), Axpy(2.0)); });
}
"""
MODULE = """
#include <pybind11/pybind11.h>
PYBIND11_MODULE(by_hand, module) {
    namespace py = pybind11;
    py::class_<Vector>(module, "Vector")
        .def(py::init([](py::buffer given) {
            const py::buffer_info info = given.request();
            const double* const data = static_cast<const double*>(info.ptr);
            return Vector(data, data + info.size);
        }))
        .def("reduce", [](Vector& x) { return thrust::reduce(x.begin(), x.end()); })
        .def("sort", [](Vector& x) { thrust::sort(x.begin(), x.end()); })
        .def("axpy", [](Vector& x, double a, Vector& y) {
            thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), Axpy(a));
        });
}
"""
TIME = """
import time
import numpy as np
{bind}
def median(prepare, run):
    times = []
    for _ in range(7):
        y = prepare()
        start = time.perf_counter()
        run(y)
        times.append(time.perf_counter() - start)
    return sorted(times)[3]
data = ((np.arange(1, {n} + 1, dtype=np.uint64) * 2654435761) % 2**32 % 1000003).astype(float)
x, y = Vector(data), Vector(data)
reduce(x), sort(Vector(data)), axpy(x, y)
print(median(lambda: x, reduce), median(lambda: Vector(data), sort), median(lambda: y, lambda y: axpy(x, y)))
"""
BIND = {
    "tkjit": """
import tkjit
library = tkjit.bind(source={source!r}, namespaces=["thrust", ""], backend="omp", include_dirs=[{cccl!r}])
Vector, Axpy = library.device_vector(float), library.cpp("Axpy")
functor = Axpy(2.0)
def reduce(x): return library.reduce(x.begin(), x.end())
def sort(x): library.sort(x.begin(), x.end())
def axpy(x, y): library.transform(x.begin(), x.end(), y.begin(), y.begin(), functor)
""",
    "by hand": """
from by_hand import Vector
reduce, sort = Vector.reduce, Vector.sort
def axpy(x, y): x.axpy(2.0, y)
""",
}


def rows(runs: int) -> list[Row]:
    from cuda.pathfinder import find_nvidia_header_directory

    cccl = str(find_nvidia_header_directory("cccl"))
    flags = ["-std=c++17", "-O2", "-fopenmp", "-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_OMP", f"-I{cccl}"]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        _compile(directory, "program.cpp", COMMON + PROGRAM, [*flags, "-o", str(directory / "program")])
        includes = [f"-I{Path(torch.__file__).parent / 'include'}", f"-I{sysconfig.get_path('include')}"]
        module = directory / f"by_hand{sysconfig.get_config_var('EXT_SUFFIX')}"
        _compile(directory, "by_hand.cpp", COMMON + MODULE, [*flags, *includes, "-shared", "-fPIC", "-o", str(module)])
        measured: dict[str, list[dict[int, list[float]]]] = {"tkjit": [], "by hand": [], "C++": []}
        for _ in range(runs):
            for peer, bind in BIND.items():
                code = TIME.replace("{bind}", bind.format(source=COMMON, cccl=cccl))
                # one process per size, as for the program: earlier arrays would change the addresses of later ones
                measured[peer].append({n: _run_python(code.replace("{n}", str(n)), directory) for n in SIZES})
            measured["C++"].append({n: _run_program(directory / "program", n) for n in SIZES})
    found = []
    for number, kernel in enumerate(KERNELS):
        for n in SIZES:
            medians = {
                peer: sorted(times[n][number] for times in every)[runs // 2] * 1e3 for peer, every in measured.items()
            }
            for peer in ("C++", "by hand"):
                named = "C++" if peer == "C++" else "pybind11, by hand"
                found.append(Row(f"{kernel} of {n:,}", named, medians["tkjit"], medians[peer], "ms", 1.05))
    return found


def _compile(directory: Path, name: str, text: str, options: list[str]) -> None:
    (directory / name).write_text(text)
    subprocess.run(["g++", directory / name, *options], check=True)


def _run_python(code: str, directory: Path) -> list[float]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{directory}"}
    printed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    return [float(word) for word in printed.split()]


def _run_program(program: Path, n: int) -> list[float]:
    return [float(word) for word in subprocess.check_output([program, str(n)], text=True).split()]
