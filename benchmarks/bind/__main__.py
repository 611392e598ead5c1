"""Compares bound libraries with C++ programs, cppyy and pybind11.

``python -m benchmarks.bind`` prints a table of medians; tkjit and its peers take turns. ``--cppyy`` takes the path of a
Python that has cppyy; pybind11 comes from torch's headers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bind import applications, calls, kernels, sizes, wayout
from benchmarks.harness import report


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bind", description="Compare bound libraries with their peers."
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--parts", nargs="*", default=["calls", "kernels", "sizes", "applications"])
    parser.add_argument("--only", nargs="*", default=[], help="only these applications")
    parser.add_argument("--cppyy", type=Path, help="a Python that has cppyy")
    parser.add_argument("--wayout", type=Path, help="a checkout of the published system")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    if "calls" in options.parts:
        rows += calls.rows(options.runs, options.cppyy)
    if "kernels" in options.parts:
        rows += kernels.rows(options.runs)
    if "sizes" in options.parts:
        rows += sizes.rows(options.runs, options.only)
    if "applications" in options.parts:
        rows += applications.rows(options.runs, options.only)
    if options.wayout is not None:
        rows += wayout.rows(options.runs, options.wayout)
    report(rows, options.json)


if __name__ == "__main__":
    main()
