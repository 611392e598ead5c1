"""The applications of the WAYOUT paper: their first runs, with and without cached headers, and their later runs.

Times are CPU seconds of a process and all its children, without the imports of numpy and tkjit.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from statistics import geometric_mean

from benchmarks.harness import ROOT, Row, interleaved

TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))

from support import applications  # noqa: E402
from support.applications import kokkos  # noqa: E402

_RUN = """
import contextlib, json, resource, sys, time
sys.path.insert(0, {tests!r})
import numpy, tkjit
from support import applications
application = applications.Application({kind!r}, {name!r})
application.module
usage = resource.getrusage(resource.RUSAGE_SELF)
start = time.perf_counter()
library = application.bind()
with {batch}:
    results = application.run(library, {n})
print(json.dumps([usage.ru_utime + usage.ru_stime, time.perf_counter() - start]))
"""
N = 1000


def run(application: applications.Application, cache: Path, *, batch: bool = False) -> tuple[float, float]:
    """Run an application in a fresh process; returns CPU seconds without imports, and wall seconds."""
    code = _RUN.format(
        tests=str(TESTS),
        kind=application.kind,
        name=application.name,
        n=N,
        batch="tkjit.batch()" if batch else "contextlib.nullcontext()",
    )
    environment = {**os.environ, "TKJIT_CACHE": str(cache), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    before = children_seconds()
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{application.name}: {done.stderr}")
    imports, wall = json.loads(done.stdout.splitlines()[-1])
    return children_seconds() - before - imports, wall


def compile_program(application: applications.Application) -> float:
    """The CPU seconds of compiling an application's C++ program."""
    with tempfile.TemporaryDirectory() as directory:
        before = children_seconds()
        subprocess.run(application.compile_command(Path(directory) / "program"), check=True)
        return children_seconds() - before


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def remove_calls(cache: Path) -> Path:
    """Remove everything but the sets of headers from a cache."""
    for directory in cache.glob("v*/*/*"):
        if directory.name in ("calls", "classes", "batches"):
            shutil.rmtree(directory)
    return cache


def measure(application: applications.Application, runs: int) -> dict[str, float]:
    """Measure one application, in seconds: wall time for ``warm``, and CPU time for all else."""
    with tempfile.TemporaryDirectory() as directory:
        cache = Path(directory)

        def cold() -> float:
            shutil.rmtree(cache)
            return run(application, cache)[0]

        compiled, empty, headers, warm, batched = interleaved(
            [
                lambda: compile_program(application),
                cold,
                lambda: run(application, remove_calls(cache))[0],
                lambda: run(application, cache)[1],
                lambda: run(application, remove_calls(cache), batch=True)[0],
            ],
            runs,
        )
    return {"compiled": compiled, "empty": empty, "headers": headers, "batched": batched, "warm": warm}


def chosen(only: Collection[str]) -> Iterator[applications.Application]:
    """All applications, or only the named ones; those without installed libraries are skipped."""
    for kind, names in applications.NAMES.items():
        for name in names:
            if only and name not in only:
                continue
            if kind == "kokkos" and not kokkos.IS_INSTALLED:
                print(f"{name}: skipped, {kokkos.INSTALL}", file=sys.stderr)
                continue
            yield applications.Application(kind, name)


def rows(runs: int, only: Collection[str]) -> list[Row]:
    """Run all applications, or only the named ones."""
    figures = {}
    for application in chosen(only):
        figures[application.name] = measured = measure(application, runs)
        print(application.name, {key: round(value, 3) for key, value in measured.items()}, file=sys.stderr, flush=True)
    return _rows(figures) if figures else []


def _rows(figures: dict[str, dict[str, float]]) -> list[Row]:
    compiled = [measured["compiled"] for measured in figures.values()]
    rows = []
    for key, what, limit in [
        ("empty", "empty cache", 4),
        ("headers", "header set cached", 1.5),
        ("batched", "header set cached, calls batched", 0.9),
    ]:
        ours = [measured[key] for measured in figures.values()]
        rows.append(
            Row(
                f"applications, {what}: geometric mean",
                "g++ of the C++ program",
                geometric_mean(ours),
                geometric_mean(compiled),
                "s",
                limit,
            )
        )
        worst = max(figures, key=lambda name: figures[name][key] / figures[name]["compiled"])
        most = 7 if key == "empty" else None
        rows.append(Row(f"  the worst, {worst}", "", figures[worst][key], figures[worst]["compiled"], "s", most))
    slowest = max(figures, key=lambda name: figures[name]["warm"])
    rows.append(
        Row(f"applications warm, wall time: the slowest, {slowest}", "", figures[slowest]["warm"], None, "s", 0.1)
    )
    return rows
