"""The computing time of the WAYOUT paper's applications by size (its figure 10), in Python and in C++.

Each application runs a few times in its own process. A small run comes first, to load calls and start OpenMP's threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import TYPE_CHECKING

from benchmarks.bind.applications import TESTS, chosen
from benchmarks.harness import ROOT, Row, interleaved

if TYPE_CHECKING:
    from support.applications import Application

SIZES = {
    "thrust": (2**22, 2**24),
    "kokkos": (2**18, 2**20),
    "graph_coloring": (2**20, 2**22),
    "spgemm": (2**20, 2**22),
    "cg_solve": (2**12, 2**14),  # the number of steps is n
    "cg_spiluk": (2**14, 2**16),
    "gauss_seidel": (2**14, 2**16),
    "inner_product": (2**13, 2**14),  # a matrix of n * n / 2 doubles
}
LIMIT = 1.05
# Without these settings, glibc may return an array's memory to the system, depending on what else was freed. The page
# faults of allocating the memory again take half of some computing times.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**40)}
_TIMES = 5

_COMPUTE = """
import sys
sys.path.insert(0, {tests!r})
import tkjit
from support import applications
application = applications.Application({kind!r}, {name!r})
library = application.bind()
for n in [1000] + {times} * [{n}]:
    application.run(library, n)
    print(applications.clock.seconds)
"""


def rows(runs: int, only: Collection[str]) -> list[Row]:
    """Compare all applications, or only the named ones.

    The limit is for the mean, because single times with OpenMP's threads differ by a fifth between two runs.
    """
    rows_by_kind: dict[str, list[Row]] = defaultdict(list)
    for application in chosen(only):
        with tempfile.TemporaryDirectory() as directory:
            program = Path(directory) / "program"
            subprocess.run(application.compile_command(program), check=True)
            for n in SIZES.get(application.name, SIZES[application.kind]):
                ours, theirs = interleaved(
                    [partial(_compute, application, n), partial(_run_program, program, n)],
                    runs,
                )
                row = Row(f"  {application.name} of {n:,}", "", ours * 1e3, theirs * 1e3, "ms")
                print(f"{row.what}: {row.ratio:.3f}", file=sys.stderr, flush=True)
                rows_by_kind[application.kind].append(row)
    return [row for kind, of_kind in rows_by_kind.items() for row in (_mean(kind, of_kind), *of_kind)]


def _mean(kind: str, rows: list[Row]) -> Row:
    ours = geometric_mean([row.ours for row in rows])
    theirs = geometric_mean([row.theirs or 0.0 for row in rows])
    return Row(f"{kind}, computing of the applications: geometric mean", "C++", ours, theirs, "ms", LIMIT)


def _compute(application: Application, n: int) -> float:
    code = _COMPUTE.format(tests=str(TESTS), kind=application.kind, name=application.name, n=n, times=_TIMES)
    printed = subprocess.check_output(
        [sys.executable, "-c", code], env={**os.environ, **KEEP_MEMORY, "PYTHONPATH": str(ROOT)}, text=True
    )
    return _typical(printed)


def _run_program(program: Path, n: int) -> float:
    done = subprocess.run(
        [program, "1000", *_TIMES * [str(n)]],
        env={**os.environ, **KEEP_MEMORY},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    return _typical(done.stderr)


def _typical(printed: str) -> float:
    """The median of the printed seconds, without those of the first, small run."""
    return median(float(word) for word in printed.split()[-_TIMES:])
