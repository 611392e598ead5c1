"""Ways to look at a kernel that runs on the CPU: Ctrl-C, the trace, gdb."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from support.alarms import raising_alarm
from support.forking import Child
from support.sampling import sample

import tkjit
from tkjit import InOut, Tensor
from tkjit.cli import main
from tkjit.compile.flags import INCLUDE

pytestmark = pytest.mark.compiles


# each block executes only barriers, a billion of them, which takes minutes
ENDLESS = """
import os, signal, sys, threading, time, torch, tkjit
from tkjit import InOut, Tensor

@tkjit.kernel(
    "__global__ void endless(Globals g) { *(volatile float*)&g.x[2] = 1;"
    " for (long i = 0; i < 1000000000; ++i) WAIT; g.x[0] = 1; }",
    entry="endless", grid=int(sys.argv[1]), block=64,
)
def endless(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

x = torch.zeros(64)

def print_when_it_runs():
    while x[2] == 0: time.sleep(0.01)
    print("running", flush=True)

threading.Thread(target=print_when_it_runs, daemon=True).start()
try:
    endless(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(tkjit.load("axpy")(torch.ones(3), torch.ones(3), 2.0).tolist())
"""


@pytest.fixture(scope="module")
def filled(filled, tmp_path_factory):
    """A copy of the filled cache into which these kernels may be built."""
    return shutil.copytree(filled, tmp_path_factory.mktemp("debugged") / "cache")


@pytest.mark.parametrize("blocks", sample([1, 2, 64], "2"))
@pytest.mark.parametrize("wait", ["__syncthreads()", "__syncwarp()", "__nanosleep(1)"])
def test_ctrl_c_ends_a_waiting_kernel_but_not_the_process(fresh, filled, wait, blocks):
    child = fresh.start(ENDLESS.replace("WAIT", wait), blocks, TKJIT_CACHE=str(filled))
    _wait_until_it_runs(child)
    os.kill(child.pid, signal.SIGINT)
    begun = time.monotonic()
    assert child.printed() == "running\ninterrupted\n[3.0, 3.0, 3.0]\n"
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("blocks", sample([1, 2, 64], "64"))
@pytest.mark.parametrize("loop", ["while (*flag == 0) {}", "for (;;) *flag = 0;"], ids=["reads", "writes"])
def test_a_second_ctrl_c_ends_a_loop_without_barriers(fresh, filled, loop, blocks):
    code = ENDLESS.replace(
        "for (long i = 0; i < 1000000000; ++i) WAIT;", f"volatile float* const flag = &g.x[1]; {loop}"
    )
    child = fresh.start(code, blocks, TKJIT_CACHE=str(filled))
    _wait_until_it_runs(child)
    os.kill(child.pid, signal.SIGINT)
    time.sleep(0.5)
    assert child.is_running, child.stdout + child.stderr
    assert "tkjit: if the kernel endless does not end now, a second Ctrl-C ends it\n" in child.stderr
    os.kill(child.pid, signal.SIGINT)
    assert child.printed(30) == "running\ninterrupted\n[3.0, 3.0, 3.0]\n"
    line = r"^tkjit: the kernel endless was in block \(\d+, 0, 0\), thread \(\d+, 0, 0\), at inline.cu:1$"
    assert len(re.findall(line, child.stderr, re.MULTILINE)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("quiet", ["", "1"])
def test_a_launch_of_over_10_s_prints_one_notice(fresh, filled, quiet):
    child = fresh.start(ENDLESS.replace("WAIT", "__syncthreads()"), 2, TKJIT_CACHE=str(filled), TKJIT_QUIET=quiet)
    _wait_until_it_runs(child)
    time.sleep(13)
    os.kill(child.pid, signal.SIGINT)
    assert child.printed() == "running\ninterrupted\n[3.0, 3.0, 3.0]\n"
    notice = "tkjit: the kernel endless has run for 10 s on the CPU; Ctrl-C ends it"
    assert child.stderr.count(notice) == (0 if quiet else 1)


def test_ctrl_c_ends_a_cooperative_launch_whose_first_block_waits(fresh, filled):
    code = ENDLESS.replace("block=64,", "block=64, cooperative=True,").replace(
        "for (long i = 0; i < 1000000000; ++i) WAIT;",
        "if (blockIdx.x > 0) for (long i = 0; i < 1000000000; ++i) __syncthreads();"
        " cooperative_groups::this_grid().sync();",
    )
    code = code.replace('"__global__', '"#include <cooperative_groups.h>\\n__global__')
    child = fresh.start(code, 2, TKJIT_CACHE=str(filled))
    _wait_until_it_runs(child)
    os.kill(child.pid, signal.SIGINT)
    assert child.printed() == "running\ninterrupted\n[3.0, 3.0, 3.0]\n"


def _wait_until_it_runs(child: Child) -> None:
    deadline = time.monotonic() + 60
    while "running" not in child.stdout:
        assert time.monotonic() < deadline and child.is_running, child.stderr
        time.sleep(0.05)
    time.sleep(0.3)


def test_an_exception_from_a_signal_handler_is_raised():
    @tkjit.kernel(
        "__global__ void long_one(Globals g) { for (long i = 0; i < 1000000000; ++i) __syncthreads(); }",
        entry="long_one",
        grid=2,
        block=32,
    )
    def long_one(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    class Alarm(Exception):
        pass

    with raising_alarm(Alarm):
        tkjit.load(long_one)
        signal.setitimer(signal.ITIMER_REAL, 3)
        with pytest.raises(Alarm):
            long_one(torch.zeros(1))


# ---- the trace

CALL = 'import torch, tkjit\ntkjit.load("softmax")(torch.randn(2, 4000))\n'


def test_the_trace_has_a_line_for_each_barrier(fresh, tmp_path):
    trace = tmp_path / "trace"
    fresh.run(CALL, TKJIT_SIM_TRACE=str(trace))
    lines = trace.read_text().splitlines()
    assert len(lines) == 2 * 4  # two rows, two reductions with two barriers each
    pattern = r"block \(\d, 0, 0\) thread \(\d+, 0, 0\): __syncthreads completes, 256 threads \(\S*reduce\.cuh:\d+\)"
    assert all(re.fullmatch(pattern, line) for line in lines)
    fresh.run(CALL, TKJIT_SIM_TRACE=str(trace))
    assert len(trace.read_text().splitlines()) == 2 * len(lines)  # the second run appends


def test_the_trace_can_go_to_standard_error_or_be_turned_off(fresh):
    child = fresh.start(CALL, TKJIT_SIM_TRACE="1").wait()
    assert child.stderr.count("__syncthreads completes") == 8
    assert "completes" not in fresh.start(CALL, TKJIT_SIM_TRACE="0").wait().stderr


def test_a_trace_that_cannot_be_written_is_an_error(fresh, tmp_path):
    child = fresh.start(CALL, TKJIT_SIM_TRACE=str(tmp_path / "no" / "trace")).wait()
    assert child.code == 1 and "CacheError: TKJIT_SIM_TRACE: cannot write to" in child.stderr


# ---- gdb

needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="no gdb; install it: apt-get install gdb")


@pytest.mark.slow
@needs_gdb
def test_gdb_shows_a_blocks_threads_and_where_they_wait(tmp_path, cache_with_runtime):
    program = tmp_path / "program.py"
    program.write_text(CALL.replace("(2, 4000)", "(1, 4000)"))  # one block, so that it is the one that stops
    text = (INCLUDE / "tkjit/reduce.cuh").read_text()
    barrier = text[: text.index("__syncthreads();")].count("\n") + 1
    commands = [f"break reduce.cuh:{barrier + 1}", "run", "tkjit threads"]
    commands += [f"tkjit thread {number}" for number in (3, 255, 256)]
    batch = [word for command in commands for word in ("--batch", command)]
    done = subprocess.run(
        [sys.executable, "-m", "tkjit", "debug", *batch, "--", sys.executable, program], capture_output=True, text=True
    )
    printed = done.stdout + done.stderr
    assert "block (0, 0, 0), 256 threads" in printed, printed
    assert re.search(rf"threads 0 to 253: waits in syncthreads at \S*/tkjit/reduce\.cuh:{barrier}\b", printed), printed
    assert "thread 254: runs" in printed
    stack = printed.split("thread 3: waits")[1].split("thread 255")[0]
    assert re.search(rf"block_reduce<tkjit::Max.* at \S*/tkjit/reduce\.cuh:{barrier}\b", stack), stack
    assert re.search(r"softmax<float>.* at \S*/kernel_sources/softmax\.cu:11", stack), stack
    assert "expected a thread's linear index in the block, as in: tkjit thread 37" in printed


def test_debug_without_gdb_names_the_package_to_install(monkeypatch, capsys):
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **rest: None if name == "gdb" else found(name, **rest))
    assert main(["debug", "--", "python", "program.py"]) == 1
    assert "gdb was not found; install it: apt-get install gdb" in capsys.readouterr().err
    assert main(["debug"]) == 1
    assert "debug runs a command: python -m tkjit debug -- python program.py" in capsys.readouterr().err
