"""``import tkjit``, without torch."""

from __future__ import annotations

from benchmarks.harness import Row, in_fresh_process, interleaved

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
    """The time of the import alone; the interpreter's own start is not in it."""
    (milliseconds,) = interleaved([lambda: in_fresh_process(_CODE)], runs=11)
    return [Row("import tkjit", "", milliseconds, None, "ms", limit=50)]
