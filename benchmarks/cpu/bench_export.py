"""Calls of an exported library from C, Go and Rust, compared with the bare launcher; its size and build time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import tkjit
from benchmarks.harness import ROOT, Row, timed
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.spec import variants_of

PROGRAMS = ROOT / "benchmarks/programs"
CALLS, PROCESSES = 4000, 11
LIMIT = 1.1
KERNELS = ("axpy", "softmax", "gemm")


def run() -> list[Row]:
    """Time calls of axpy with 256 elements, one block in the simulator, in microseconds."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory, "layers")
        cold, warm = (_seconds_to_export(output, Path(directory, "cache")) for _ in range(2))
        size = (output / "lib/liblayers.so.1").stat().st_size / 2**20
        bare, checked, pointers = _in_c(output, Path(directory))
        launcher = "the launcher alone"
        rows = [
            Row("export: a call in C, tensors", launcher, checked, bare, "us", LIMIT),
            Row("export: a call in C, pointers", launcher, pointers, bare, "us", LIMIT),
        ]
        if go := shutil.which("go"):
            call, cgo = _in_go(go, output)
            rows.append(Row("export: a call in Go", f"{launcher}, and cgo", call, bare + cgo, "us"))
            rows.append(Row("export: a call in Go", launcher, call, bare, "us"))
            rows.append(Row("export: cgo, a call of nothing", launcher, cgo, bare, "us"))
        if cargo := shutil.which("cargo"):
            rows.append(Row("export: a call in Rust", launcher, _in_rust(cargo, output), bare, "us"))
        return [
            *rows,
            Row("export: 9 variants, empty cache", "the same with a full one", cold, warm, "s"),
            Row("export: the library of 9 variants", "", size, None, "MiB"),
        ]


def _seconds_to_export(output: Path, cache: Path) -> float:
    code = f"import tkjit; tkjit.export(*{KERNELS!r}, name='layers', output={str(output)!r}, languages=['go', 'rust'])"
    environment = {**os.environ, "TKJIT_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    return timed(lambda: subprocess.run([sys.executable, "-c", code], check=True, env=environment))


def _in_c(output: Path, directory: Path) -> tuple[float, float, float]:
    loader = loader_for(Settings.from_environment())
    spec = tkjit.find("axpy").specs[0]
    (variant,) = variants_of(spec, ["float32"])
    entry = loader.find_or_build(loader.launcher_plan(spec, variant, loader.target("cpu")))
    launcher = entry.directory / "launcher.so"
    built = directory / "export"
    include = [f"-I{output}/include", f"-I{Path(tkjit.__file__).parent}/include"]
    link = [f"-L{output}/lib", "-llayers", f"-Wl,-rpath,{output}/lib", "-ldl"]
    source = str(PROGRAMS / "export.c")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", *include, source, *link, "-o", str(built)], check=True)
    # several processes, because the random addresses of the simulator's stacks make some of them slower by half
    command = [str(built), str(launcher), str(CALLS)]
    printed = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(PROCESSES)]
    figures = [list(map(float, line.split())) for line in printed]
    bare, checked, pointers = (median(column) for column in zip(*figures, strict=True))
    return bare, checked, pointers


def _in_go(go: str, output: Path) -> tuple[float, float]:
    shutil.copy(PROGRAMS / "export_test.go", output)
    command = [go, "test", "-run", "none", "-bench", ".", "-count", "5", "."]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=output).stdout
    times_ns = {
        name: [float(ns) for ns in re.findall(rf"Benchmark{name}\S*\s+\d+\s+([\d.]+) ns", printed)]
        for name in ("Call", "Cgo")
    }
    return median(times_ns["Call"]) / 1e3, median(times_ns["Cgo"]) / 1e3


def _in_rust(cargo: str, output: Path) -> float:
    (output / "examples").mkdir()
    shutil.copy(PROGRAMS / "export.rs", output / "examples")
    command = [cargo, "run", "--offline", "--quiet", "--release", "--example", "export"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, cwd=output).stdout)
