"""The applications of the WAYOUT paper (Zhu et al., IPDPS 2022), rewritten in Python and in C++.

Each module has ``HEADERS``, its options for ``tkjit.bind``, and ``run(library, n)``, which returns named results. The
C++ program next to it prints the same names and numbers.
"""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tkjit
from tkjit.bindings.header_set import make_header_set

DIRECTORY = Path(__file__).parent
NAMES = {
    "thrust": "histogram mode saxpy set_operations sort sparse sum".split(),
    "kokkos": "cg_solve cg_spiluk gauss_seidel graph_coloring inner_product spgemm spiluk".split(),
}


class Clock:
    """Measures an application's computing time, from its inputs to its results, like ``Clock`` in application.hpp."""

    seconds: float
    _started: float

    def start(self) -> None:
        self._started = time.perf_counter()

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self._started


clock = Clock()


class Application(NamedTuple):
    kind: str
    name: str

    @property
    def module(self) -> Any:
        return import_module(f"support.applications.{self.kind}.{self.name}")

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments for ``tkjit.bind``."""
        if self.kind == "thrust":
            return {"namespaces": "thrust", "backend": "omp", "source": getattr(self.module, "SOURCE", "")}
        from support.applications import kokkos

        return {"namespaces": self.module.BOUND, "source": kokkos.MATRICES, **kokkos.OPTIONS}

    def bind(self) -> Any:
        return tkjit.bind(*self.module.HEADERS, **self.options)

    def run(self, library: Any, n: int) -> dict[str, Any]:
        results: dict[str, Any] = self.module.run(library, n)
        return results

    def compile_command(self, binary: Path) -> list[str | Path]:
        """Return the command line that compiles the C++ program, with the flags of the bindings."""
        options = {name: value for name, value in self.options.items() if name not in ("namespaces", "start", "stop")}
        headers = make_header_set(self.module.HEADERS, **options)
        directories = [f"-I{directory}" for directory in headers.search_path]
        libraries = [f"-l{name}" for name in headers.libraries]
        program = DIRECTORY / self.kind / f"{self.name}.cpp"
        return ["g++", "-O2", *headers.preprocessor, *directories, program, "-o", binary, *libraries]


def numbers(n: int, below: int, seed: int = 1) -> np.ndarray:
    """Return n numbers from 0 to below - 1, the same as application.hpp's."""
    mixed = (np.arange(n, dtype=np.uint64) + np.uint64(seed)) * np.uint64(2654435761)
    return ((mixed >> np.uint64(7)) % np.uint64(1000003) % np.uint64(below)).astype(np.int32)
