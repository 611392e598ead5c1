"""Processes: liveness, processes by working directory, fork-safe locks, and the watchdog."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.alarms import raising_alarm
from support.waiting import wait_until

import tkjit.system.process
from tkjit.system import watchdog
from tkjit.system.fork_safe import ForkSafeLock
from tkjit.system.process import (
    MemoryWatch,
    Process,
    end_working_in,
    name_of,
    start_time,
    this_machine,
    this_process,
    working_in,
)
from tkjit.system.watchdog import watch


def unused_pid() -> int:
    return int(Path("/proc/sys/kernel/pid_max").read_text())


# ---- one process


def test_this_process():
    this = this_process()
    assert (this.pid, this.host, this.machine) == (os.getpid(), os.uname().nodename, this_machine())
    assert this.is_here and this.is_alive
    ticks = os.sysconf("SC_CLK_TCK")
    assert 0 < this.started / ticks <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_reused_pid_is_not_the_same_process():
    this = this_process()
    assert not this._replace(started=this.started + 1).is_alive
    assert not this._replace(started=this.started - 1).is_alive


def test_process_on_another_machine_counts_as_alive():
    far = this_process()._replace(machine="0123456789ab", started=1)
    assert not far.is_here and far.is_alive


def test_nonexistent_process(at_work, tmp_path):
    assert start_time(unused_pid()) is None
    assert not this_process()._replace(pid=unused_pid()).is_alive
    assert name_of(unused_pid()) == ""


def test_zombie_is_not_alive(at_work, tmp_path):
    process = at_work(tmp_path)
    owner = this_process()._replace(pid=process.pid, started=start_time(process.pid))
    assert owner.is_alive
    process.kill()
    wait_until(lambda: b") Z " in Path(f"/proc/{process.pid}/stat").read_bytes(), what="a zombie")
    assert start_time(process.pid) is None and not owner.is_alive
    assert working_in(tmp_path) == []


def test_process_name_may_contain_brackets_and_spaces(at_work, tmp_path):
    program = tmp_path / "a) S (b"
    shutil.copy(shutil.which("sleep"), program)
    process = at_work(tmp_path, str(program), "60")
    wait_until(lambda: name_of(process.pid) == program.name, what="its name")
    assert start_time(process.pid) == pytest.approx(this_process().started, abs=3600 * os.sysconf("SC_CLK_TCK"))


@pytest.mark.parametrize(
    "error, alive", [(PermissionError(), True), (ProcessLookupError(), False), (None, False)], ids=str
)
def test_hidden_process_is_alive_if_it_cannot_be_signalled(monkeypatch, error, alive):
    """With ``hidepid``, ``/proc`` does not list other users' processes; a signal to them fails with EPERM."""

    def kill(pid, number):
        assert number == 0
        if error:
            raise error

    monkeypatch.setattr(os, "kill", kill)
    assert this_process()._replace(pid=unused_pid()).is_alive == alive


def test_machine_differs_between_pid_namespaces(monkeypatch):
    real = this_machine()
    assert len(real) == 12 and "-" not in real  # the names of staging directories join their parts with dashes
    this_machine.cache_clear()
    try:
        monkeypatch.setattr(os, "stat", lambda path: os.stat_result((0, 7, *[0] * 8)))  # another namespace
        assert this_machine() != real
    finally:
        this_machine.cache_clear()


# ---- processes that work in a directory


def test_find_processes_working_in_a_directory(at_work, tmp_path):
    (tmp_path / "staging/sub").mkdir(parents=True)
    (tmp_path / "staging-2").mkdir()
    inside = [at_work(tmp_path / "staging"), at_work(tmp_path / "staging/sub")]
    at_work(tmp_path / "staging-2")
    at_work(tmp_path)
    assert sorted(working_in(tmp_path / "staging")) == sorted(process.pid for process in inside)
    assert {name_of(process.pid) for process in inside} == {"sleep"}
    (tmp_path / "link").symlink_to(tmp_path / "staging")
    assert len(working_in(tmp_path / "link")) == 2


def test_find_processes_working_in_a_moved_directory(at_work, tmp_path):
    (tmp_path / "staging").mkdir()
    process = at_work(tmp_path / "staging")
    inode = (tmp_path / "staging").stat().st_dev, (tmp_path / "staging").stat().st_ino
    (tmp_path / "staging").rename(tmp_path / "moved")
    assert working_in(tmp_path / "staging") == []
    assert working_in(tmp_path / "staging", inode) == [process.pid]


def test_find_processes_working_in_a_removed_directory(at_work, tmp_path):
    (tmp_path / "staging").mkdir()
    process = at_work(tmp_path / "staging")
    shutil.rmtree(tmp_path / "staging")
    assert working_in(tmp_path / "staging") == [process.pid]


def test_ending_reaches_grandchildren(at_work, tmp_path):
    """nvcc, for example, starts cicc and ptxas."""
    (tmp_path / "staging").mkdir()
    shell = at_work(tmp_path / "staging", "sh", "-c", "sleep 60 & sh -c 'sleep 60; true' & wait")
    other = at_work(tmp_path)
    wait_until(lambda: len(working_in(tmp_path / "staging")) == 4, what="a tree of processes")
    end_working_in(tmp_path / "staging")
    assert working_in(tmp_path / "staging") == []
    assert shell.wait(10) == -signal.SIGKILL
    assert other.poll() is None


def test_ending_spares_the_calling_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    end_working_in(tmp_path)


# ---- the watchdog

BUILDER = """
from tkjit.system.watchdog import watch
with watch(sys.argv[1]):
    import subprocess
    compiler = subprocess.Popen(["sleep", "60"], cwd=sys.argv[1])
    print(compiler.pid, flush=True)
    sys.stdin.read(1)
"""


def test_watchdog_of_a_killed_builder_ends_its_compiler_and_removes_its_directory(start, tmp_path):
    staging = tmp_path / "staging"
    staging.mkdir()
    (staging / "launcher.o").write_text("half")
    builder = start(BUILDER, staging)
    compiler = int(builder.stdout.readline())
    builder.kill()
    wait_until(lambda: not staging.exists(), what="the directory is removed")
    assert start_time(compiler) is None


def test_watchdog_ends_a_compiler_whose_directory_was_moved(start, tmp_path):
    staging = tmp_path / "staging"
    staging.mkdir()
    builder = start(BUILDER, staging)
    compiler = int(builder.stdout.readline())
    wait_until(lambda: any(name_of(pid) != "sleep" for pid in holding(staging)), what="the watchdog is there")
    staging.rename(tmp_path / "moved")
    builder.kill()
    wait_until(lambda: start_time(compiler) is None, what="the compiler is ended")


def holding(directory: Path) -> list[int]:
    """List the processes that have a directory open."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if link.readlink() == directory:
                found.append(int(link.parts[2]))
    return found


@pytest.fixture
def watchdogs(monkeypatch):
    """The watchdog processes that get started."""
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return started


def test_watchdog_ends_with_the_block(tmp_path, watchdogs):
    with watch(tmp_path):
        assert [process.poll() for process in watchdogs] == [None]
    assert [process.poll() for process in watchdogs] == [-signal.SIGKILL]
    assert tmp_path.exists()


def test_watchdog_can_start_after_a_delay(tmp_path, watchdogs):
    with watch(tmp_path, 30):
        pass
    assert watchdogs == []
    with watch(tmp_path, 0.01):
        wait_until(lambda: watchdogs, what="the watchdog is there")
        assert watchdogs[0].poll() is None
    assert watchdogs[0].poll() == -signal.SIGKILL


def test_compiler_of_a_failed_block_is_ended(tmp_path, at_work):
    (tmp_path / "staging").mkdir()
    with pytest.raises(KeyboardInterrupt), watch(tmp_path / "staging"):
        compiler = at_work(tmp_path / "staging")
        raise KeyboardInterrupt
    assert compiler.wait(10) == -signal.SIGKILL


def test_ctrl_c_does_not_reach_the_watchdog(tmp_path, watchdogs):
    with watch(tmp_path):
        assert os.getsid(watchdogs[0].pid) == watchdogs[0].pid != os.getsid(0)
        assert Path(f"/proc/{watchdogs[0].pid}/cwd").readlink() == Path("/")


@pytest.mark.parametrize("executable", ["/no/such/python", "", None])
def test_block_runs_even_if_no_watchdog_can_start(tmp_path, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    ran = []
    with watch(tmp_path):
        ran.append(True)
    assert ran


@pytest.fixture
def start_watchdog():
    """Starts a watchdog directly, for a process and a directory."""
    started = []

    def run(process: Process, directory: Path) -> subprocess.Popen:
        command = [sys.executable, "-I", "-S", watchdog.SCRIPT, str(process.pid), str(process.started), directory]
        started.append(subprocess.Popen(command, cwd="/"))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_watchdog_waits_while_its_process_is_alive(tmp_path, start_watchdog):
    staging = tmp_path / "staging"
    staging.mkdir()
    process = start_watchdog(this_process(), staging)
    time.sleep(0.3)
    assert process.poll() is None and staging.exists()


def test_watchdog_exits_if_the_directory_is_gone(tmp_path, start_watchdog):
    assert start_watchdog(this_process(), tmp_path / "published").wait(20) == 0


def test_watchdog_of_a_dead_process_removes_the_directory(tmp_path, start_watchdog):
    staging = tmp_path / "staging"
    staging.mkdir()
    this = this_process()
    assert start_watchdog(this._replace(started=this.started - 1), staging).wait(20) == 0
    assert not staging.exists()


def test_watchdog_imports_little():
    """Each build starts a watchdog, so imports would slow down every build."""
    command = [sys.executable, "-I", "-S", "-X", "importtime", watchdog.SCRIPT, str(os.getpid()), "0", "/no/such"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    imported = {line.rpartition("|")[2].strip() for line in printed.splitlines()}
    heavy = set("hashlib json dataclasses subprocess typing enum re contextlib shutil signal process tkjit".split())
    assert "start_time" in imported and not imported & heavy


# ---- locks in forked children


def test_lock_held_by_another_thread_is_free_in_a_forked_child(tmp_path):
    lock, held, done = ForkSafeLock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)
    child = os.fork()
    if child == 0:
        with lock:
            os._exit(7)
    try:
        wait_until(lambda: start_time(child) is None, what="the child has exited")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert not lock.acquire(blocking=False)  # still held in the parent
    finally:
        if start_time(child):
            os.kill(child, signal.SIGKILL)
        done.set()
        thread.join()


def test_lock_held_across_a_fork_is_released_in_parent_and_child():
    lock = ForkSafeLock()
    with lock:
        child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(blocking=False) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.acquire(blocking=False)


@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="a signal's exception may leave threading.Lock held; run Python 3.13 or older"
)
def test_lock_is_released_whenever_a_signal_handler_raises():
    lock, ended = ForkSafeLock(), 0

    class Alarm(Exception):
        pass

    with raising_alarm(Alarm):
        while ended < 200:  # a lock written in Python stayed held after about half of these signals
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002)
                until = time.monotonic() + 1  # an exception that is raised in a garbage collector callback is lost
                while time.monotonic() < until:
                    with lock:
                        pass
            except Alarm:
                ended += 1
                assert lock.acquire(blocking=False)
                lock.release()


def test_without_proc_every_process_counts_as_alive(monkeypatch):
    process = Process(this_machine(), "here", 1 << 22, 5)
    assert not process.is_alive
    monkeypatch.setattr(tkjit.system.process, "start_time", lambda pid: None)
    assert process.is_alive


def test_peak_memory_of_processes_in_a_directory_is_measured(tmp_path, start):
    ours = b"x" * (150 << 20)
    with MemoryWatch(tmp_path) as memory:
        worker = start(
            "held = b'x' * (80 << 20); os.chdir(sys.argv[1]); print('ready', flush=True); time.sleep(60)", tmp_path
        )
        worker.stdout.readline()
        wait_until(lambda: memory.peak_bytes > 0, what="a memory reading")
    assert 80 << 20 <= memory.peak_bytes < len(ours)
    worker.kill()
