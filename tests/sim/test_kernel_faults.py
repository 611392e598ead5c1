"""Kernel errors raise exceptions. A fatal error prints the thread before the process ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from support import faulty
from support.define import define
from support.forking import Child, Server

import tkjit
from tkjit import InOut, LaunchError, Tensor

pytestmark = pytest.mark.compiles


# for code in a separate process
IMPORTS = f"""
import faulthandler, os, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import torch
from support.faulty import faulty
x = torch.zeros(256, dtype=torch.int32)
x[1] = 1
def caught(mistake):
    try:
        faulty(x, mistake)
    except RuntimeError as error:
        return str(error)
"""


@pytest.fixture
def x() -> torch.Tensor:
    x = torch.zeros(256, dtype=torch.int32)
    x[1] = 1
    return x


@pytest.fixture(autouse=True)
def the_next_call_works(x):
    yield
    assert faulty.faulty(x, 0)[:64].tolist() == [*range(63, -1, -1)]


def test_a_fault_raises_with_its_line_and_thread(x):
    # in one test, because each call takes only a hundredth of a second
    for mistake, (what, mark) in {
        1: ("an integer division by zero", "divide"),
        2: ("an integer division by zero", "remainder"),
        3: ("a write to address 0x0, through a null pointer", "null"),
        4: ("a read of address 0x123456789000, where there is no memory", "wild"),
        6: ("stack overflow: the thread's stack is 1020 KiB", ""),
        11: ("a point that the compiler considers unreachable", "trap"),
        12: ("a call to address 0x0, where there is no function", "call"),
        13: ("a read of address 0x0, through a null pointer", "virtual"),
        14: ("an access to a misaligned vector, or to an address that cannot exist", "impossible"),
        15: ("which does not allow it", "literal"),
    }.items():
        with pytest.raises(LaunchError) as error:
            faulty.faulty(x, mistake)
        text = str(error.value)
        assert text.startswith("faulty: ") and what in text, text
        assert "in block (1, 0, 0), thread (36, 0, 0)" in text
        assert f"({faulty.line(mark)})" in text if mark else "(inline.cu:" in text, text
        assert "python -m tkjit check FILE.py" in text
        assert faulty.faulty(x, 0)[64] == 127


def test_runaway_recursion_is_a_stack_overflow(x):
    with pytest.raises(LaunchError, match=r"stack overflow.* thread \(36, 0, 0\) \(inline\.cu:"):
        faulty.faulty(x, 5)


def test_a_stack_overflow_is_detected_after_a_launch_with_very_many_threads(x):
    source = """
#include <cooperative_groups.h>
__global__ void wide(int* x) { cooperative_groups::this_grid().sync(); }
"""
    wide = define(
        source, '(x: InOut[Tensor, "int32", "N"])', entry="wide", grid="N", block=256, args=True, cooperative=True
    )
    wide(x[:200])  # 51,200 stacks, more than there may be guard mappings
    many = torch.zeros(64 * 4000, dtype=torch.int32)
    for _ in range(5):
        with pytest.raises(LaunchError, match="stack overflow"):
            faulty.faulty(many, 5, who=-1)


def test_operations_that_only_host_code_may_use_raise(x):
    for mistake, (what, mark) in {
        7: ("the kernel threw a C++ exception, which device code cannot do: no such thing", "throw"),
        8: ("one of a type that is not std::exception", "throw 7"),
        9: ("abort() was called", "abort"),
        10: ("exit() was called", "exit"),
        16: ("vector::_M_range_check", ""),
    }.items():
        with pytest.raises(LaunchError) as error:
            faulty.faulty(x, mistake)
        assert what in str(error.value)
        assert "thread (36, 0, 0)" in str(error.value)
        assert faulty.line(mark) in str(error.value) if mark else True, str(error.value)


def test_a_fault_in_a_launch_from_host_code_names_both_lines(x):
    with pytest.raises(LaunchError, match=r"division by zero.* \(inline\.cu:4\).*launched at inline\.cu:8"):
        faulty.host(x[:100], 1)
    assert faulty.host(x[:100], 0).unique().tolist() == [3]


def test_the_smallest_integer_divided_by_minus_one_gives_a_gpus_result(x):
    assert [int(faulty.faulty(x, mistake)[100]) for mistake in (20, 21, 22, 23)] == [-(2**31), 0, 1, 1]
    assert faulty.faulty(x, 20, who=-1).unique().tolist() == [-(2**31)]  # -1: each thread of the grid makes the mistake


def test_a_launch_with_many_failing_threads_raises_once(x):
    many = torch.zeros(64 * 4000, dtype=torch.int32)
    for mistake in (1, 3, 5, 7):
        with pytest.raises(LaunchError, match=r"thread \(\d+, 0, 0\)"):
            faulty.faulty(many, mistake, who=64 * 3000)
        with pytest.raises(LaunchError):
            faulty.faulty(many, mistake, who=-1)


def test_launches_from_several_threads_fail_independently(x):
    texts: list[str] = []

    def call(mistake: int) -> None:
        for _ in range(5):
            with pytest.raises(LaunchError) as error:
                faulty.faulty(x, mistake)
            texts.append(str(error.value))
            assert faulty.faulty(x, 0)[0] == 63

    threads = [threading.Thread(target=call, args=(mistake,)) for mistake in (1, 3, 5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("overflow" in text for text in texts) == [False] * 10 + [True] * 10


def test_faults_do_not_leak_stacks(x):
    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    def fail() -> None:
        for mistake in (1, 5, 7):
            with pytest.raises(LaunchError):
                faulty.faulty(x, mistake)

    fail()
    before = mappings()
    for _ in range(10):
        thread = threading.Thread(target=fail)  # its signal stack is freed with it
        thread.start()
        thread.join()
    assert mappings() <= before + 10


@pytest.mark.parametrize("before", ["", "faulthandler.enable()\n"], ids=["no other handler", "an earlier handler"])
def test_a_fault_in_a_library_ends_the_process_after_a_line_with_the_place(fresh: Server, before):
    child = ended(fresh, f"{IMPORTS}{before}caught(1)\nfaulty(x, 30)")
    assert child.code == -11
    (line,) = [line for line in child.stderr.splitlines() if line.startswith("tkjit: ")]
    assert line == (
        "tkjit: SIGSEGV in a library that the kernel faulty called, in block (1, 0, 0), thread (36, 0, 0); "
        "the process cannot continue; for more, run python -m tkjit check FILE.py"
    )
    assert ("Fatal Python error: Segmentation fault" in child.stderr) == bool(before)


# a pthread_create that returns only after the new thread has failed
LATE = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*run)(void*), void* argument) {
    static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    const int result = create(thread, attr, run, argument);
    usleep(100000);
    return result;
}
"""


@pytest.mark.slow
def test_a_fault_in_a_new_thread_names_the_kernel(tmp_path):
    library = tmp_path / "late.so"
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library), "-ldl"]
    subprocess.run(command, input=LATE, text=True, check=True)
    code = f"{IMPORTS}\ntorch.set_num_threads(2)\nx = x.repeat(1000)\nfaulty(x, 30, who=64 * 3000)"
    child = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"LD_PRELOAD": str(library)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.returncode == -11
    assert "SIGSEGV in a library that the kernel faulty called, in block (3000, 0, 0)" in child.stderr


def test_a_fault_elsewhere_while_a_kernel_runs_names_the_kernel(fresh: Server):
    code = """
import ctypes, threading
y = torch.zeros_like(x)
threading.Thread(target=lambda: faulty(x, 29, out=y), daemon=True).start()
while y[0] == 0:
    pass
ctypes.string_at(0)
"""
    child = ended(fresh, IMPORTS + code)
    assert child.code == -11
    assert child.stderr == "tkjit: SIGSEGV outside of kernels, while the kernel faulty ran\n"


def test_a_handler_installed_later_does_not_end_the_process(fresh: Server):
    code = f"{IMPORTS}\ncaught(0)\nfaulthandler.enable()\nprint(caught(3))\nprint(caught(1))\nfaulthandler.disable()"
    printed = fresh.run(code)
    assert "null pointer" in printed and "division by zero" in printed


# a handler that is called before tkjit's; it uses as much stack as the chained handlers of forty libraries that
# contain the simulator
GREEDY = """
#include <csignal>
#include <cstring>
#include <initializer_list>

static struct sigaction before[NSIG];

static void pass_on(int number, siginfo_t* info, void* context) {
    volatile char room[32 << 10];
    memset(const_cast<char*>(room), 1, sizeof room);
    before[number].sa_sigaction(number, info, context);
    room[0] = 0;
}

extern "C" void stand_in_front() {
    struct sigaction own = {};
    own.sa_sigaction = pass_on;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int each : {SIGSEGV, SIGFPE}) sigaction(each, &own, &before[each]);
}
"""
# a stack of the size that faulthandler gives the main thread, in the middle of other memory
SMALL_STACK = """
import ctypes, time
class Stack(ctypes.Structure):
    _fields_ = [("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("bytes", ctypes.c_size_t)]
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the calling thread runs the kernel
size, small, below = 1 << 20, 16880, 1 << 19
memory = ctypes.create_string_buffer(b"Z" * size, size)
caught(0)
ctypes.CDLL(LIBRARY).stand_in_front()
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory) + below, 0, small)), None) == 0
time.sleep(1.1)  # until then the launcher relies on the earlier stack
print(caught(3), caught(1))
assert memory.raw[:below] == b"Z" * below
"""


def test_the_handler_does_not_overflow_a_small_signal_stack(fresh: Server, tmp_path):
    library = tmp_path / "greedy.so"
    (tmp_path / "greedy.cpp").write_text(GREEDY)
    subprocess.run(["g++", "-shared", "-fPIC", str(tmp_path / "greedy.cpp"), "-o", str(library)], check=True)
    printed = fresh.run(f"{IMPORTS}\nLIBRARY = {str(library)!r}\n{SMALL_STACK}")
    assert "null pointer" in printed and "division by zero" in printed


# a handler like libclang's: it restores the earlier handlers and raises the signal again in its own thread, which
# receives the signal in the kernel when the handler returns
RECOVERY = """
#include <csignal>
#include <initializer_list>

static struct sigaction before[NSIG];

static void recover(int number) {
    for (int each : {SIGSEGV, SIGFPE}) sigaction(each, &before[each], nullptr);
    raise(number);
}

extern "C" void enable_recovery() {
    struct sigaction own = {};
    own.sa_handler = recover;
    for (int each : {SIGSEGV, SIGFPE}) sigaction(each, &own, &before[each]);
}
"""


def test_a_later_handler_that_sends_the_signal_again_does_not_end_the_process(fresh: Server, tmp_path):
    library = tmp_path / "recovery.so"
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
    subprocess.run(command, input=RECOVERY, text=True, check=True)
    code = f"""
import ctypes
recovery = ctypes.CDLL({str(library)!r})
caught(0)
for mistake in (1, 3):
    recovery.enable_recovery()
    print(caught(mistake), flush=True)
recovery.enable_recovery()
signal.raise_signal(signal.SIGSEGV)
"""
    child = ended(fresh, IMPORTS + code)
    assert "division by zero" in child.stdout and "null pointer" in child.stdout
    assert child.code == -11 and child.stderr == unexplained("SIGSEGV")


def unexplained(signal: str) -> str:
    cause = "a kernel that ran before on the CPU may have written out of bounds"
    return f"tkjit: {signal} outside of kernels; {cause}; python -m tkjit check FILE.py names the line\n"


def test_other_signals_and_faults_end_the_process_as_usual(fresh: Server):
    sent = ended(fresh, f"{IMPORTS}\ncaught(1)\nos.kill(os.getpid(), signal.SIGSEGV)")
    elsewhere = ended(fresh, f"{IMPORTS}\nimport ctypes\ncaught(1)\nctypes.string_at(0)")
    aborted = ended(fresh, f"{IMPORTS}\ncaught(1)\nos.abort()")
    assert [sent.code, elsewhere.code, aborted.code] == [-11, -11, -6]
    assert [sent.stderr, elsewhere.stderr, aborted.stderr] == [*map(unexplained, ["SIGSEGV", "SIGSEGV", "SIGABRT"])]
    handled = "signal.signal(signal.SIGFPE, lambda number, frame: print('handled', number))\n"
    own = fresh.run(f"{IMPORTS}{handled}caught(1)\nsignal.raise_signal(signal.SIGFPE)\nprint(caught(1))")
    assert own.startswith("handled 8") and "division by zero" in own


def test_faults_raise_after_a_fork(fresh: Server):
    code = """
caught(0)
if (child := os.fork()) == 0:
    os._exit(0 if "null pointer" in caught(3) and "overflow" in caught(5) and caught(0) is None else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), caught(5))
"""
    printed = fresh.run(IMPORTS + code)
    assert printed.startswith("0 ") and "stack overflow" in printed


def ended(fresh: Server, code: str) -> Child:
    return fresh.start(code).wait()


# ---- faults that the simulator itself finds


@tkjit.kernel(
    """
    __global__ void stuck(Globals g) {
        if (g.hang && threadIdx.x < 32) {
            __syncthreads();
        } else if (g.hang) {
            if (threadIdx.x != 40) __syncwarp();
            __syncthreads();
        }
        g.x[0] = 1;
    }
    """,
    entry="stuck",
    grid=1,
    block=64,
)
def deadlock(x: InOut[Tensor, "int32", "N"], hang: bool) -> Tensor: ...


def test_a_deadlock_raises_with_the_lines():
    x = torch.zeros(1, dtype=torch.int32)
    assert deadlock(x, False).item() == 1
    for _ in range(2):
        with pytest.raises(tkjit.LaunchError, match=r"^deadlock: .*deadlock") as raised:
            deadlock(x, True)
        assert "(inline.cu:4)" in str(raised.value) and "(inline.cu:6)" in str(raised.value)
        assert isinstance(raised.value, RuntimeError)
    assert deadlock(x, False).item() == 1


def test_a_failed_assertion_raises_with_its_line():
    options = {"entry": "f", "grid": 1, "block": 1}
    kernel = define(
        "#include <cassert>\n__global__ void f(Globals g) { assert(g.x[0] > 0); }",
        '(x: InOut[Tensor, "int32", "N"])',
        **options,
    )
    with pytest.raises(tkjit.LaunchError, match=r"assertion `g\.x\[0\] > 0` failed, .*\(inline\.cu:2\)"):
        kernel(torch.zeros(1, dtype=torch.int32))
