"""Run the named benchmarks, by default all for the CPU; ``gpu`` selects all that need a GPU."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks.harness import report

CPU = (
    "cpu.bench_import",
    "cpu.bench_cold",
    "cpu.bench_warm",
    "cpu.bench_call",
    "cpu.bench_devices",
    "cpu.bench_prepared",
    "cpu.bench_export",
)
GPU = ("gpu.bench_call", "gpu.bench_first", "gpu.bench_kernels")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join((*CPU, *GPU))}; gpu")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    names = [name for given in arguments.names or ["cpu"] for name in {"cpu": CPU, "gpu": GPU}.get(given, (given,))]
    rows = [row for name in names for row in importlib.import_module(f"benchmarks.{name}").run()]
    report(rows, arguments.json)
    sys.exit(0 if all(row.holds for row in rows) else 1)


if __name__ == "__main__":
    main()
