"""Compares ``import tkjit``, without torch, with the start of the interpreter."""

from __future__ import annotations

from benchmarks.harness import Row, in_fresh_process, interleaved, start_of_python

LIMIT = 5.4  # the 5.15 of 2026-11-22 (956098b) plus a twentieth, because two runs differ by that much
_CODE = """
import time
start = time.perf_counter()
import tkjit
seconds = time.perf_counter() - start
import sys
assert "torch" not in sys.modules
print(seconds * 1e3)
"""


def run() -> list[Row]:
    """Time the import alone, without the interpreter's own start."""
    ours, start = interleaved([lambda: in_fresh_process(_CODE), start_of_python], runs=11)
    return [Row("import tkjit", "python -c pass", ours, start, "ms", limit=LIMIT)]
