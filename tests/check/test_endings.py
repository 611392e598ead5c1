"""Abnormal ends of a checked program are findings in every mode."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import In, Out, Tensor
from tkjit.check.child_process import run
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
SOURCE = """#include <climits>
__device__ __attribute__((noinline)) int deep(volatile int* p) { int own[64]; own[p[0]] = 1; return deep(p) + own[1]; }

__global__ void die(Globals g) {
    int* const nowhere = g.zero ? g.x.raw_ptr : nullptr;
    if (g.how == 0) g.y[0] = 7 / g.zero;
    if (g.how == 1) *nowhere = 1;
    if (g.how == 2) g.y[0] = *reinterpret_cast<int*>(0x123456789000 + 4 * threadIdx.x);
    if (g.how == 3) g.y[0] = deep(g.y.raw_ptr);
    if (g.how == 4) throw 3;
    if (g.how == 5) __builtin_trap();
    if (g.how == 6) assert(g.zero == 1);
    if (g.how == 7) __trap();
    if (g.how == 8) g.y[threadIdx.x] = (INT_MIN + g.zero) / (g.zero - 1);
    g.y[threadIdx.x] = 0;
}"""
LINES = {
    how: number for number, line in enumerate(SOURCE.splitlines(), 1) for how in range(8) if f"how == {how}" in line
}


@tkjit.kernel(SOURCE, entry="die", grid=1, block=32)
def die(x: In[Tensor, "int32", 32], how: int, zero: int, y: Out[Tensor, "int32", 32]) -> Tensor: ...


WORDS = {
    0: "SIGFPE, as from an integer division by zero",
    1: "access at a null pointer",
    2: "access to memory that the kernel may not use",
    3: "the stack of a thread, 1 MiB, is full",
    4: "SIGABRT, as from an uncaught exception",
    5: "SIGILL",
    6: "assertion `g.zero == 1` failed",
    7: "__trap()",
}


@pytest.mark.parametrize("how", WORDS)
def test_a_crash_of_the_kernel_is_a_finding(how):
    for mode in ("race", "init", "order"):
        with pytest.raises(KernelCheckError) as caught:
            check(die, modes=[mode], dims={"how": how, "zero": 0})
        (finding,) = (each for each in caught.value.report.findings if each.kind in ("fault", "memory"))
        assert WORDS[how] in finding.text and finding.here.line == (2 if how == 3 else LINES[how])
        assert finding.kind == ("memory" if how in (1, 2) else "fault")


def test_the_smallest_integer_divided_by_minus_one_does_not_crash():
    check(die, modes=["race", "memory"], dims={"how": 8, "zero": 0})


@pytest.mark.parametrize("how", [0, 1, 3, 4])
def test_a_crash_under_address_sanitizer_is_reported_with_its_line(how):
    with pytest.raises(KernelCheckError) as caught:
        check(die, modes=["memory"], dims={"how": how, "zero": 0})
    assert caught.value.report.findings[-1].here.line == (2 if how == 3 else LINES[how])


@pytest.mark.parametrize(
    ("does", "text"),
    [
        ("", "the checked process ended with status 0"),
        ('os.write(fd, b\'{"kind": "un\')', "the checked process ended with status 0"),
        ('os.write(fd, b\'{"kind": "done"}\\n\'); os._exit(3)', "the checked process ended with status 3"),
        ("print('so it is', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)", "with signal 9: so it is"),
        ("time.sleep(60)", "it did not end within 0 s"),
    ],
    ids=["writes nothing", "writes half a line", "fails at its end", "is killed", "sleeps"],
)
def test_a_process_that_ends_early_is_a_finding(tmp_path: Path, monkeypatch, does, text):
    monkeypatch.setattr("tkjit.check.child_process.TIMEOUT_REPORT_S", 1)
    program = tmp_path / "checker"
    program.write_text(f"#!{sys.executable}\nimport os, sys, time\nfd = int(sys.argv[3])\n{does}\n")
    program.chmod(0o755)
    arguments = {"x": torch.zeros(32, dtype=torch.int32), "how": 9, "zero": 0, "y": torch.zeros(32, dtype=torch.int32)}
    done = run(program, die.specs[0], arguments, order="forward", seed=0, timeout_s=0)
    assert done.outputs is None and [one["kind"] for one in done.found] == ["fault"] and text in done.found[0]["text"]
