"""Many processes share a cache: one builds, the others wait, and killed processes leave no traces."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
from support.caches import at_locks, compilers, entries, stagings
from support.sampling import sample
from support.waiting import wait_until

from tkjit.cache.staging import make_staging, remove_staging
from tkjit.system.process import working_in

pytestmark = pytest.mark.compiles
SMALL = Path(__file__).parents[1] / "support" / "small_build.py"
KILLS = 48  # the number of small builds that are killed, in addition to 6 first calls
BARRIER = """
import os, sys, time
def barrier(directory, number):
    open(f"{directory}/ready-{number}", "w").close()
    while not os.path.exists(f"{directory}/go"):
        time.sleep(0.001)
"""
CALL = """
import torch, tkjit
print(tkjit.load("axpy")(torch.ones(3), torch.ones(3), {factor}).tolist())
"""
# all these kernels have the same name, but each number gives different glue and a different launcher
NAMED = """
import sys, torch, tkjit
from tkjit import InOut, Tensor

source = "__global__ void f(Globals g) {{ g.x[0] = {number} * {end}; }}"

@tkjit.kernel(source, entry="f", grid=1, block=1)
def named(x: InOut[Tensor, "float32", "N"], {parameter}: int = 1) -> Tensor: ...
"""


def named(number: int, end: str = "1") -> str:
    return NAMED.format(number=number, end=end, parameter=f"n{number}")


def together(fresh, directory: Path, codes: list[str], **environ: str) -> list:
    """Start processes that all begin at the same moment."""
    begun = [
        fresh.start(f"{BARRIER}\nbarrier({str(directory)!r}, {number})\n{code}", **environ)
        for number, code in enumerate(codes)
    ]
    wait_until(lambda: len(list(directory.glob("ready-*"))) == len(codes), 60, "all processes started")
    (directory / "go").touch()
    return begun


def nothing_is_left(root: Path) -> bool:
    return not working_in(root) and not stagings(root)


# ---- starting cold


@pytest.mark.slow  # starts 16 processes
def test_only_one_of_16_cold_processes_builds(fresh, cache_with_runtime, compiler, tmp_path):
    begun = together(fresh, tmp_path, [CALL.format(factor=number) for number in range(16)])
    assert [child.printed() for child in begun] == [f"{[number + 1.0] * 3}\n" for number in range(16)]
    assert compiler.compiled == ["launcher", "module"]
    assert len(entries(cache_with_runtime)) == 3  # the launcher, the glue and the runtime
    assert nothing_is_left(cache_with_runtime)


THREADS = """
import threading, torch, tkjit
specs = tkjit.find("axpy").specs
start, results = threading.Barrier(8), []

def call(number):
    start.wait()
    kernel = tkjit.load(tkjit.Kernel(*specs))  # each thread loads and dispatches its own
    results.append(kernel(torch.ones(1), torch.ones(1), number).item() - number)

threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(results)
"""


@pytest.mark.slow
def test_only_one_of_8_cold_threads_builds(fresh, cache_with_runtime, compiler):
    assert fresh.run(THREADS) == f"{[1.0] * 8}\n"
    assert compiler.compiled == ["launcher", "module"]
    assert nothing_is_left(cache_with_runtime)


@pytest.mark.slow
def test_two_kernels_with_one_name_stay_separate(fresh, cache_with_runtime, compiler, tmp_path):
    call = "print(named(torch.zeros(1)).item())"
    begun = together(fresh, tmp_path, [named(number) + call for number in (1, 2, 1, 2)])
    assert [child.printed() for child in begun] == ["1.0\n", "2.0\n", "1.0\n", "2.0\n"]
    assert compiler.compiled == ["launcher", "launcher", "module", "module"]


# ---- killed builders


@pytest.fixture(scope="module")
def build_s(tmp_path_factory) -> float:
    """Returns how long a small build takes on this machine at present."""
    start = time.monotonic()
    run_small(tmp_path_factory.mktemp("timed"), 1).communicate()
    return time.monotonic() - start


def run_small(root: Path, number: int, child: str = "", **options) -> subprocess.Popen[str]:
    """Start a process that builds a small shared object and prints its number."""
    return subprocess.Popen([sys.executable, SMALL, root, str(number), child], text=True, **options)


def watchdogs(pid: int) -> list[int]:
    """List the watchdogs of a process's builds."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_text().split("\0")
            if str(pid) in words and any(word.endswith("watchdog_process.py") for word in words):
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("number", sample(range(KILLS), "0", "24"))
def test_next_process_works_after_a_builder_was_killed(number, rng, build_s, tmp_path):
    """Kills a builder at a random moment, with or without a living forked child, a waiting process, and a watchdog."""
    child, waits, unwatched = ("", "os", "libc")[number % 3], number // 3 % 2, number // 6 % 2
    # a child is forked only when its builder has been running for a while
    moment_s = rng.uniform(0, 0.8 if child else 1.2) * build_s
    builder = run_small(tmp_path, 7, child, stdout=subprocess.PIPE)
    forked = int(builder.stdout.readline() or "0") if child else 0
    waiters = [run_small(tmp_path, 7, stdout=subprocess.PIPE, stderr=subprocess.PIPE)] if waits else []
    time.sleep(moment_s)
    for pid in [*(watchdogs(builder.pid) if unwatched else ()), builder.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    builder.stdout.close()
    builder.wait()
    try:
        waiters = waiters or [run_small(tmp_path, 7, stdout=subprocess.PIPE, stderr=subprocess.PIPE)]
        printed, errors = waiters[0].communicate(timeout=10 * build_s + 5)
        assert (printed, waiters[0].returncode) == ("7\n", 0), errors
        wait_until(lambda: not working_in(tmp_path), 1, f"at work after a kill at {moment_s:.3f} s")
        wait_until(lambda: not stagings(tmp_path), 5, f"staging gone after a kill at {moment_s:.3f} s")
        assert len(list(tmp_path.glob("v1/*/*/*/*/manifest.json"))) == 1
    finally:
        if forked:
            os.kill(forked, signal.SIGKILL)  # fails unless the child has lived until now


@pytest.mark.slow
def test_next_process_ends_compilers_without_a_watchdog(compiler, monkeypatch, tmp_path):
    compiler.hold()
    builder = run_small(tmp_path / "cache", 7)
    wait_until(lambda: compiler.compiled, 30, "the compiler is at work")
    for pid in (*watchdogs(builder.pid), builder.pid):
        os.kill(pid, signal.SIGKILL)
    builder.wait()
    assert compilers(tmp_path / "cache"), "no watchdog has ended it, so it would run for ever"
    monkeypatch.delenv("CXX")
    assert run_small(tmp_path / "cache", 7, stdout=subprocess.PIPE).communicate(timeout=30)[0] == "7\n"
    assert nothing_is_left(tmp_path / "cache")


@pytest.fixture(scope="module")
def load_s(fresh, runtime, tmp_path_factory) -> float:
    """Returns how long loading and a first call take when only the runtime is cached."""
    root = shutil.copytree(runtime, tmp_path_factory.mktemp("timed") / "cache")
    start = time.monotonic()
    fresh.run(CALL.format(factor=2), TKJIT_CACHE=str(root))
    return time.monotonic() - start


@pytest.mark.parametrize("whole_group", [False, True], ids=["alone", "with its compilers"])
@pytest.mark.parametrize("number", sample(range(3), "0"))
def test_next_call_works_after_a_first_call_was_killed(number, whole_group, rng, fresh, cache_with_runtime, load_s):
    moment_s = rng.uniform(0, 1.1) * load_s
    killed = fresh.start(CALL.format(factor=2))
    time.sleep(moment_s)
    (os.killpg if whole_group else os.kill)(killed.pid, signal.SIGKILL)
    killed.wait()
    assert fresh.start(CALL.format(factor=2)).printed(timeout_s=10 * load_s + 5) == "[3.0, 3.0, 3.0]\n"
    wait_until(lambda: not working_in(cache_with_runtime), 1, f"at work after a kill at {moment_s:.3f} s")
    wait_until(lambda: not stagings(cache_with_runtime), 5, f"staging gone after a kill at {moment_s:.3f} s")


def test_leftovers_of_a_terminated_process_are_removed(fresh, cache_with_runtime, compiler):
    compiler.hold()
    builder = fresh.start(CALL.format(factor=2))
    wait_until(lambda: len(compiler.compiled) == 2, 30, "both compilers are at work")
    assert compilers(cache_with_runtime) and len(stagings(cache_with_runtime)) == 2
    builder.signal(signal.SIGTERM)
    wait_until(lambda: nothing_is_left(cache_with_runtime), 5, "compilers and staging directories gone")
    assert builder.wait().code == -signal.SIGTERM


# ---- compile errors


INCLUDING = """
import sys, torch, tkjit
from tkjit import InOut, Tensor

@tkjit.kernel(sys.argv[1], entry="f", grid=1, block=1)
def including(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

try:
    print(including(torch.zeros(1)).item())
except tkjit.CompileError as error:
    print(error.summary)
"""


def test_every_waiter_gets_a_compile_error_until_it_is_fixed(fresh, cache_with_runtime, compiler, tmp_path):
    header, source = tmp_path / "value.h", tmp_path / "including.cu"
    header.write_text("#define VALUE 5 +\n")
    source.write_text('#include "value.h"\n__global__ void f(Globals g) { g.x[0] = VALUE; }\n')
    compiler.hold("*launcher.cu*")
    begun = [fresh.start(INCLUDING, source) for _ in range(5)]
    # no process comes late: each holds the launcher's lock, or waits for it
    launchers = lambda: list(cache_with_runtime.glob("v1/*/cpu-*/including-*"))  # noqa: E731
    wait_until(
        lambda: all(set(at_locks(child.pid, cache_with_runtime)) & {d.name for d in launchers()} for child in begun), 30
    )
    wait_until(lambda: "launcher" in compiler.compiled, 30)
    compiler.release()
    (summary,) = {child.printed() for child in begun}
    assert f"{source}:2:" in summary and "error: expected" in summary
    assert compiler.compiled == ["launcher", "module"]
    assert fresh.run(INCLUDING, source) == summary
    assert compiler.compiled == ["launcher", "launcher", "module"], "a process that did not wait must try again"
    header.write_text("#define VALUE 5\n")
    assert fresh.run(INCLUDING, source) == "5.0\n"
    assert nothing_is_left(cache_with_runtime)


# ---- Ctrl-C


@pytest.fixture
def python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process in a new group, which a terminal's Ctrl-C would reach as a whole."""
    with ExitStack() as stack:

        def start(*arguments: str) -> subprocess.Popen[str]:
            options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
            # a background test run may ignore SIGINT, and its child processes would inherit that
            heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
            process = subprocess.Popen([sys.executable, *arguments], preexec_fn=heeds, **options)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


def interrupt(process: subprocess.Popen[str], *, group: bool) -> tuple[float, str]:
    """Interrupt a process, and return how long it took to end and its standard error."""
    start = time.monotonic()
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    return time.monotonic() - start, errors


def interrupted_leaves_nothing(root: Path) -> None:
    wait_until(lambda: not working_in(root), 1, "compilers gone")
    assert not stagings(root)
    assert not list(root.glob("v1/*/*/*/.failed*"))


HELD = {"both": "*", "the launcher": "*launcher.cu*", "the glue": "*glue.cpp*"}


GROUPS = [
    pytest.param(False, id="alone", marks=pytest.mark.slow),
    pytest.param(True, id="with its group"),
]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("held", sample(HELD, "both"))
def test_ctrl_c_ends_a_first_call_and_its_compilers(held, group, python, cache_with_runtime, compiler):
    compiler.hold(HELD[held])
    process = python("-c", CALL.format(factor=2))
    wait_until(lambda: len(compiler.compiled) == 2, 30, "both compilers are at work")
    # the compilation that is not held ends, and the process waits for the other
    wait_until(lambda: len(at_locks(process.pid, cache_with_runtime)) == (2 if held == "both" else 1), 30)
    seconds, errors = interrupt(process, group=group)
    assert seconds < 3
    assert process.returncode == -signal.SIGINT and errors.rstrip().endswith("KeyboardInterrupt"), errors
    interrupted_leaves_nothing(cache_with_runtime)


@pytest.mark.slow  # waits for several builds
def test_waiters_build_after_the_builder_was_interrupted(python, fresh, cache_with_runtime, compiler):
    compiler.hold()
    process = python("-c", CALL.format(factor=2))
    wait_until(lambda: len(compiler.compiled) == 2, 30, "both compilers are at work")
    waiter = fresh.start(CALL.format(factor=2), TKJIT_QUIET="0")
    wait_until(lambda: len(at_locks(waiter.pid, cache_with_runtime)) == 2, 30, "it waits for both")
    interrupt(process, group=True)
    compiler.release()
    assert waiter.printed() == "[3.0, 3.0, 3.0]\n"
    interrupted_leaves_nothing(cache_with_runtime)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("number", sample(range(2), "0"))
def test_ctrl_c_ends_a_first_call_at_any_moment(number, group, rng, fresh, cache_with_runtime, load_s):
    moment_s = rng.uniform(0, 1.1) * load_s
    process = fresh.start(CALL.format(factor=2))
    time.sleep(moment_s)
    with suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    process.wait(timeout_s=3)
    interrupted = "KeyboardInterrupt" in process.stderr
    assert interrupted or process.stdout == "[3.0, 3.0, 3.0]\n", f"interrupted at {moment_s:.3f} s\n{process.stderr}"
    wait_until(lambda: not working_in(cache_with_runtime), 1, f"at work after an interruption at {moment_s:.3f} s")
    assert fresh.run(CALL.format(factor=2)) == "[3.0, 3.0, 3.0]\n"
    assert nothing_is_left(cache_with_runtime)


@pytest.mark.slow
def test_ctrl_c_ends_a_waiter_and_not_the_builder(python, fresh, cache_with_runtime, compiler):
    compiler.hold()
    builder = fresh.start(CALL.format(factor=2))
    wait_until(lambda: len(compiler.compiled) == 2, 30, "both compilers are at work")
    waiter = python("-c", CALL.format(factor=2))
    wait_until(lambda: len(at_locks(waiter.pid, cache_with_runtime)) == 2, 30, "it waits for both")
    seconds, errors = interrupt(waiter, group=True)
    assert seconds < 3
    assert waiter.returncode == -signal.SIGINT and errors.rstrip().endswith("KeyboardInterrupt"), errors
    compiler.release()
    assert builder.printed() == "[3.0, 3.0, 3.0]\n"
    assert compiler.compiled == ["launcher", "module"]


@pytest.mark.parametrize(
    "memory",
    [pytest.param("100G", id="all at once"), pytest.param("1K", id="one at a time", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("group", GROUPS)
def test_ctrl_c_ends_a_warmup_command(group, memory, python, cache_with_runtime, operators, compiler):
    operators(cache_with_runtime)
    compiler.hold()
    running = 3 if memory == "100G" else 1
    process = python("-m", "tkjit", "warmup", "axpy", "--device", "cpu", "--jobs", "3", "--memory", memory)
    wait_until(lambda: len(compiler.compiled) == running, 30, "the compilers are at work")
    seconds, errors = interrupt(process, group=group)
    assert seconds < 3
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert len(compiler.compiled) == running, "no other compilation may start"
    interrupted_leaves_nothing(cache_with_runtime)


def test_staging_directory_of_a_writing_compiler_is_removed(tmp_path):
    staging = make_staging(tmp_path / "staging", shared=False)
    code = "import itertools\nfor n in itertools.count(): open(f'object{n}', 'w').close()"
    compiler = subprocess.Popen([sys.executable, "-c", code], cwd=staging)
    try:
        wait_until(lambda: (staging / "object9").exists())
        remove_staging(staging)
        assert not staging.exists()
    finally:
        compiler.kill()
        compiler.wait()


# ---- reports of waiters


def test_waiter_reports_the_builder_its_time_and_its_compiler(fresh, cache_with_runtime, compiler):
    compiler.hold()
    builder = fresh.start(CALL.format(factor=2))
    wait_until(lambda: len(compiler.compiled) == 2, 30, "both compilers are at work")
    waiter = fresh.start(CALL.format(factor=2), TKJIT_QUIET="0")
    wait_until(lambda: len(at_locks(waiter.pid, cache_with_runtime)) == 2, 30, "it waits for both")
    time.sleep(0.3)
    assert waiter.stderr == "", "a short wait must not be reported"
    wait_until(lambda: "waiting" in waiter.stderr, 30, "it reports the builder")
    compiler.release()
    assert waiter.printed() == builder.printed() == "[3.0, 3.0, 3.0]\n"
    by = rf"process {builder.pid} on {re.escape(os.uname().nodename)} has been building it for \d+ s, \w+ is running"
    for line in waiter.stderr.splitlines():
        assert re.fullmatch(rf"tkjit: waiting for axpy \(T=float32\) for cpu-\S+: {by}", line)
    assert builder.stderr == ""
