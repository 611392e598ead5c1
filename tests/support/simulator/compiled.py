"""Compiles a source in this folder against the simulator, and calls its launchers through ctypes."""

from __future__ import annotations

import atexit
import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SOURCES = Path(__file__).parent
TKJIT = SOURCES.parents[2] / "tkjit"
FLAGS = [
    "-std=c++20",
    "-O2",
    "-march=x86-64-v3",
    "-g1",
    "-gdwarf-4",
    "-ffp-contract=fast",
    "-fno-strict-aliasing",
    "-fstack-clash-protection",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    "-Wall",
    "-Wno-unknown-pragmas",
    "-Werror",
]


def include_flags() -> list[str]:
    return [f"-I{TKJIT / 'sim'}", f"-I{TKJIT / 'include'}"]


def compile_source(source: Path, directory: Path, *flags: str) -> Library:
    """Compile ``source`` into ``directory`` and load it."""
    shared_object = directory / f"{source.stem}.so"
    compile_with(*flags, "-shared", "-x", "c++", source, "-x", "none", simulator(flags), "-o", shared_object)
    return Library(shared_object, source)


@cache
def simulator(flags: tuple[str, ...]) -> Path:
    """Return the object to link with every source, compiled once for these flags."""
    output = Path(tempfile.mkdtemp(prefix="tkjit-simulator-")) / "simulator.o"
    atexit.register(shutil.rmtree, output.parent)
    compile_with(*flags, "-c", TKJIT / "sim/simulator.cpp", "-o", output)
    return output


def compile_with(*arguments: str | Path) -> None:
    command = ["g++", *FLAGS, *include_flags(), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{result.stderr[:4000]}")


class Library:
    """A loaded source. ``launch("name", grid, block, *arguments)`` calls its launcher ``run_name``."""

    def __init__(self, shared_object: Path, source: Path) -> None:
        self.functions = ctypes.CDLL(str(shared_object))
        self.path = shared_object
        self.lines = source.read_text().splitlines()
        self.source = source

    def launch(
        self, name: str, grid: tuple[int, ...] | int, block: tuple[int, ...] | int, *arguments: Any, shared: int = 0
    ) -> str | None:
        """Run a kernel on NumPy arrays and integers, and return the simulator's error text, or None."""
        dims = (ctypes.c_uint * 6)(*_three(grid), *_three(block))
        function = getattr(self.functions, f"run_{name}")
        function.restype = ctypes.c_char_p
        values = [
            a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else ctypes.c_int(a) for a in arguments
        ]
        text = function(dims, ctypes.c_size_t(shared), *values)
        return None if text is None else text.decode()

    def line(self, mark: str) -> str:
        """Return ``file:line`` of the line that ends in ``// MARK mark``, as in error texts."""
        (number,) = [i for i, line in enumerate(self.lines, 1) if line.endswith(f"// MARK {mark}")]
        return f"{self.source}:{number}"


def _three(extents: tuple[int, ...] | int) -> tuple[int, int, int]:
    sizes = (extents,) if isinstance(extents, int) else extents
    return (*sizes, *(1,) * (3 - len(sizes)))  # type: ignore[return-value]
