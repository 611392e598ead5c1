"""Compares ``import tkjit``, without torch, with the import of six modules that most programs use."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Row, in_fresh_process, interleaved

LIMIT = 1.2
_SIX = "asyncio, inspect, hashlib, pickle, tokenize, dataclasses"
_CODE = """
import time
start = time.perf_counter()
{code}
seconds = time.perf_counter() - start
import sys
assert "torch" not in sys.modules
print(seconds * 1e3)
"""


def run() -> list[Row]:
    """Time the imports alone, without the interpreter's own start."""
    codes = "import tkjit", "import tkjit; tkjit.kernel; tkjit.load", f"import {_SIX}"
    ours, used, six = interleaved([partial(in_fresh_process, _CODE.format(code=code)) for code in codes], runs=11)
    return [
        Row("import tkjit", _SIX, ours, six, "ms", limit=LIMIT),
        Row("import tkjit, and the first use of tkjit.kernel and tkjit.load", _SIX, used, six, "ms"),
    ]
