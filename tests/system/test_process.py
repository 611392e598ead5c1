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


def test_a_number_that_was_given_to_another_process():
    this = this_process()
    assert not this._replace(started=this.started + 1).is_alive
    assert not this._replace(started=this.started - 1).is_alive


def test_a_process_of_another_machine_is_taken_to_live():
    far = this_process()._replace(machine="0123456789ab", started=1)
    assert not far.is_here and far.is_alive


def test_a_process_that_does_not_exist(at_work, tmp_path):
    assert start_time(unused_pid()) is None
    assert not this_process()._replace(pid=unused_pid()).is_alive
    assert name_of(unused_pid()) == ""


def test_a_zombie_is_dead(at_work, tmp_path):
    process = at_work(tmp_path)
    owner = this_process()._replace(pid=process.pid, started=start_time(process.pid))
    assert owner.is_alive
    process.kill()
    wait_until(lambda: b") Z " in Path(f"/proc/{process.pid}/stat").read_bytes(), what="a zombie")
    assert start_time(process.pid) is None and not owner.is_alive
    assert working_in(tmp_path) == []


def test_a_name_may_hold_anything(at_work, tmp_path):
    program = tmp_path / "a) S (b"
    shutil.copy(shutil.which("sleep"), program)
    process = at_work(tmp_path, str(program), "60")
    wait_until(lambda: name_of(process.pid) == program.name, what="its name")
    assert start_time(process.pid) == pytest.approx(this_process().started, abs=3600 * os.sysconf("SC_CLK_TCK"))


@pytest.mark.parametrize(
    "error, alive", [(PermissionError(), True), (ProcessLookupError(), False), (None, False)], ids=str
)
def test_a_process_that_proc_hides_lives_if_the_kernel_says_so(monkeypatch, error, alive):
    """``/proc`` mounted with ``hidepid``: others' processes are not listed there, but they may not be signalled."""

    def kill(pid, number):
        assert number == 0
        if error:
            raise error

    monkeypatch.setattr(os, "kill", kill)
    assert this_process()._replace(pid=unused_pid()).is_alive == alive


def test_machines_are_told_apart_by_their_boot(monkeypatch):
    real = this_machine()
    assert len(real) == 12 and "-" not in real  # it stands in names whose parts are joined by that
    this_machine.cache_clear()
    try:
        monkeypatch.setattr(os, "stat", lambda path: os.stat_result((0, 7, *[0] * 8)))  # another namespace
        assert this_machine() != real
    finally:
        this_machine.cache_clear()


# ---- those at work in a directory


def test_who_works_in_a_directory(at_work, tmp_path):
    (tmp_path / "staging/sub").mkdir(parents=True)
    (tmp_path / "staging-2").mkdir()
    inside = [at_work(tmp_path / "staging"), at_work(tmp_path / "staging/sub")]
    at_work(tmp_path / "staging-2")
    at_work(tmp_path)
    assert sorted(working_in(tmp_path / "staging")) == sorted(process.pid for process in inside)
    assert {name_of(process.pid) for process in inside} == {"sleep"}
    (tmp_path / "link").symlink_to(tmp_path / "staging")
    assert len(working_in(tmp_path / "link")) == 2


def test_who_works_in_a_directory_that_was_moved(at_work, tmp_path):
    (tmp_path / "staging").mkdir()
    process = at_work(tmp_path / "staging")
    inode = (tmp_path / "staging").stat().st_dev, (tmp_path / "staging").stat().st_ino
    (tmp_path / "staging").rename(tmp_path / "moved")
    assert working_in(tmp_path / "staging") == []
    assert working_in(tmp_path / "staging", inode) == [process.pid]


def test_who_works_in_a_directory_that_was_removed(at_work, tmp_path):
    (tmp_path / "staging").mkdir()
    process = at_work(tmp_path / "staging")
    shutil.rmtree(tmp_path / "staging")
    assert working_in(tmp_path / "staging") == [process.pid]


def test_ending_reaches_grandchildren(at_work, tmp_path):
    """As nvcc starts cicc and ptxas."""
    (tmp_path / "staging").mkdir()
    shell = at_work(tmp_path / "staging", "sh", "-c", "sleep 60 & sh -c 'sleep 60; true' & wait")
    other = at_work(tmp_path)
    wait_until(lambda: len(working_in(tmp_path / "staging")) == 4, what="a tree of processes")
    end_working_in(tmp_path / "staging")
    assert working_in(tmp_path / "staging") == []
    assert shell.wait(10) == -signal.SIGKILL
    assert other.poll() is None


def test_ending_spares_the_one_who_asks(tmp_path, monkeypatch):
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


def test_a_killed_builders_compiler_ends_and_its_directory_goes(start, tmp_path):
    staging = tmp_path / "staging"
    staging.mkdir()
    (staging / "launcher.o").write_text("half")
    builder = start(BUILDER, staging)
    compiler = int(builder.stdout.readline())
    builder.kill()
    wait_until(lambda: not staging.exists(), what="the directory is removed")
    assert start_time(compiler) is None


def test_a_killed_builders_compiler_ends_where_its_directory_was_moved_to(start, tmp_path):
    staging = tmp_path / "staging"
    staging.mkdir()
    builder = start(BUILDER, staging)
    compiler = int(builder.stdout.readline())
    wait_until(lambda: any(name_of(pid) != "sleep" for pid in holding(staging)), what="the watchdog is there")
    staging.rename(tmp_path / "moved")
    builder.kill()
    wait_until(lambda: start_time(compiler) is None, what="the compiler is ended")


def holding(directory: Path) -> list[int]:
    """The processes that have a directory open."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if link.readlink() == directory:
                found.append(int(link.parts[2]))
    return found


@pytest.fixture
def watchdogs(monkeypatch):
    """The processes that the module starts."""
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return started


def test_a_watchdog_ends_with_the_block(tmp_path, watchdogs):
    with watch(tmp_path):
        assert [process.poll() for process in watchdogs] == [None]
    assert [process.poll() for process in watchdogs] == [-signal.SIGKILL]
    assert tmp_path.exists()


def test_a_watchdog_may_come_later(tmp_path, watchdogs):
    with watch(tmp_path, 30):
        pass
    assert watchdogs == []
    with watch(tmp_path, 0.01):
        wait_until(lambda: watchdogs, what="the watchdog is there")
        assert watchdogs[0].poll() is None
    assert watchdogs[0].poll() == -signal.SIGKILL


def test_what_a_block_leaves_at_work_when_it_fails_is_ended(tmp_path, at_work):
    (tmp_path / "staging").mkdir()
    with pytest.raises(KeyboardInterrupt), watch(tmp_path / "staging"):
        compiler = at_work(tmp_path / "staging")
        raise KeyboardInterrupt
    assert compiler.wait(10) == -signal.SIGKILL


def test_a_watchdog_is_out_of_reach_of_ctrl_c(tmp_path, watchdogs):
    with watch(tmp_path):
        assert os.getsid(watchdogs[0].pid) == watchdogs[0].pid != os.getsid(0)
        assert Path(f"/proc/{watchdogs[0].pid}/cwd").readlink() == Path("/")


@pytest.mark.parametrize("executable", ["/no/such/python", "", None])
def test_where_no_watchdog_can_be_started_the_block_runs(tmp_path, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    ran = []
    with watch(tmp_path):
        ran.append(True)
    assert ran


@pytest.fixture
def start_watchdog():
    """Starts one by itself, for a process and a directory."""
    started = []

    def run(process: Process, directory: Path) -> subprocess.Popen:
        command = [sys.executable, "-I", "-S", watchdog.SCRIPT, str(process.pid), str(process.started), directory]
        started.append(subprocess.Popen(command, cwd="/"))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_a_watchdog_waits_for_its_process_alone(tmp_path, start_watchdog):
    staging = tmp_path / "staging"
    staging.mkdir()
    process = start_watchdog(this_process(), staging)
    time.sleep(0.3)
    assert process.poll() is None and staging.exists()


def test_a_watchdog_that_comes_too_late_leaves(tmp_path, start_watchdog):
    assert start_watchdog(this_process(), tmp_path / "published").wait(20) == 0


def test_a_watchdog_of_a_process_that_is_gone_tidies_up(tmp_path, start_watchdog):
    staging = tmp_path / "staging"
    staging.mkdir()
    this = this_process()
    assert start_watchdog(this._replace(started=this.started - 1), staging).wait(20) == 0
    assert not staging.exists()


def test_a_watchdog_imports_little():
    """It starts with each build."""
    command = [sys.executable, "-I", "-S", "-X", "importtime", watchdog.SCRIPT, str(os.getpid()), "0", "/no/such"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    imported = {line.rpartition("|")[2].strip() for line in printed.splitlines()}
    heavy = set("hashlib json dataclasses subprocess typing enum re contextlib shutil signal process tkjit".split())
    assert "start_time" in imported and not imported & heavy


# ---- locks in forked children


def test_a_forked_child_finds_a_lock_open_that_another_thread_holds(tmp_path):
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
        wait_until(lambda: start_time(child) is None, what="the child is through")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert not lock.acquire(blocking=False)  # here it is still held
    finally:
        if start_time(child):
            os.kill(child, signal.SIGKILL)
        done.set()
        thread.join()


def test_a_lock_that_is_held_across_a_fork_is_given_back_on_both_sides():
    lock = ForkSafeLock()
    with lock:
        child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(blocking=False) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.acquire(blocking=False)


def test_a_lock_is_released_whenever_a_signals_handler_raises():
    lock, ended = ForkSafeLock(), 0

    class Alarm(Exception):
        pass

    with raising_alarm(Alarm):
        while ended < 200:  # without the C functions, about half of them left it locked
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002)
                until = time.monotonic() + 1  # what is raised in a callback of the garbage collector is swallowed
                while time.monotonic() < until:
                    with lock:
                        pass
            except Alarm:
                ended += 1
                assert lock.acquire(blocking=False)
                lock.release()


def test_without_proc_nobody_is_taken_for_dead(monkeypatch):
    somebody = Process(this_machine(), "here", 1 << 22, 5)
    assert not somebody.is_alive
    monkeypatch.setattr(tkjit.system.process, "start_time", lambda pid: None)
    assert somebody.is_alive


def test_the_memory_of_whoever_works_in_a_directory_is_watched(tmp_path, start):
    ours = b"x" * (150 << 20)
    with MemoryWatch(tmp_path) as memory:
        worker = start(
            "held = b'x' * (80 << 20); os.chdir(sys.argv[1]); print('ready', flush=True); time.sleep(60)", tmp_path
        )
        worker.stdout.readline()
        wait_until(lambda: memory.peak_bytes > 0, what="it is seen")
    assert 80 << 20 <= memory.peak_bytes < len(ours)
    worker.kill()
