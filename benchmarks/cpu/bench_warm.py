"""A fresh process with everything in the cache: ``load`` and the first call, after ``import torch``."""

from __future__ import annotations

from benchmarks.harness import Row, in_fresh_process, interleaved

_CODE = """
import sys, time, torch, tkjit
started = []
starts = ("subprocess.Popen", "os.posix_spawn", "os.fork")
sys.addaudithook(lambda event, _: started.append(event) if event in starts else None)
x, y = torch.randn(1000), torch.randn(1000)
start = time.perf_counter()
tkjit.load("axpy")(x, y, 2.0)
milliseconds = (time.perf_counter() - start) * 1e3
if "cold" not in sys.argv:
    assert not started, started
    assert "torch.utils.cpp_extension" not in sys.modules
print(milliseconds)
"""


def run() -> list[Row]:
    """The first process may build; those after it may not, and start no process."""
    in_fresh_process("import sys; sys.argv.append('cold')\n" + _CODE)
    (milliseconds,) = interleaved([lambda: in_fresh_process(_CODE)], runs=11)
    return [Row("axpy on the CPU, load and first call, warm", "", milliseconds, None, "ms", limit=5)]
