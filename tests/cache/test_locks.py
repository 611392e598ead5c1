"""Build locks: one process builds while the others wait. Waiters do not wait for killed or silent holders."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
from support.fake_builder import RECIPE, Builder, below, recipe_with_part, staging_in
from support.lock_holders import ended_process, hold_lock_as, process_on_other_host
from support.waiting import wait_until

from tkjit.cache import Entry, Product, building, locks
from tkjit.cache.staging import ABANDONED_S
from tkjit.errors import CacheError, TkjitWarning
from tkjit.system.process import start_time

# ---- concurrent builds


def test_only_one_of_several_threads_builds(entries, header, threads):
    builder = Builder(header, seconds=0.1)
    for _ in range(4):
        threads.start(lambda: entries.build(RECIPE, builder))
    found = threads.join()
    assert builder.calls == 1
    assert all(isinstance(entry, Entry) for entry in found) and len({entry.directory for entry in found}) == 1


def test_two_kernels_are_built_in_parallel(entries, header, threads):
    both = threading.Barrier(2, timeout=20)
    for flags in ("-O1", "-O2"):
        threads.start(
            lambda flags=flags: entries.build(recipe_with_part("flags", flags), Builder(header, during=both.wait))
        )
    assert all(isinstance(entry, Entry) for entry in threads.join())


# each process announces itself, and the one that builds waits for all
ONE_OF_MANY = """
root, header, ready, count = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
(ready / str(os.getpid())).touch()
cache = Cache(root, ABI)
all_there = lambda: wait_until(lambda: len(list(ready.iterdir())) == count, what="all processes")
builder = Builder(header, during=all_there)
entry = cache.build(RECIPE, builder)
print(builder.calls, entry.shared_object.read_text())
"""


def test_only_one_of_sixteen_processes_builds(entries, header, start, tmp_path):
    (tmp_path / "ready").mkdir()
    processes = [start(ONE_OF_MANY, entries.root, header, tmp_path / "ready", 16) for _ in range(16)]
    printed = sorted(process.communicate(timeout=60)[0] for process in processes)
    assert printed == ["0 machine code struct gl {};\n"] * 15 + ["1 machine code struct gl {};\n"]
    assert staging_in(entries) == [] and below(entries.root, ".lock-*") == []


# ---- killed builders

KILLED = """
root, header, child = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
cache = Cache(root, ABI)

def builder(staging):
    if pid := os.fork():
        child.write_text(str(pid))
        os.kill(os.getpid(), 9)
    time.sleep(60)

cache.build(RECIPE, builder)
"""


def test_killed_builder_with_a_living_child_does_not_block_others(entries, header, start, tmp_path):
    process = start(KILLED, entries.root, header, tmp_path / "child")
    assert process.wait(30) == -signal.SIGKILL
    child = int((tmp_path / "child").read_text())
    try:
        builder, began = Builder(header), time.monotonic()
        entry = entries.build(RECIPE, builder)
        assert time.monotonic() - began < locks.HEARTBEAT_TIMEOUT_S / 2
        os.kill(child, 0)  # the child is still alive and holds the lock
    finally:
        os.kill(child, signal.SIGKILL)
    assert builder.calls == 1 and entries.lookup(RECIPE) == entry
    assert below(entries.root, ".lock*") == [".lock", ".lock-1"]
    assert staging_in(entries) == []


def test_waiters_of_a_killed_builder_agree_on_a_new_one(entries, header, threads, hold, lock):
    hold(ended_process())
    builder = Builder(header, seconds=0.1)
    for _ in range(3):
        threads.start(lambda: entries.build(RECIPE, builder))
    assert len({entry.directory for entry in threads.join()}) == 1
    assert below(entries.root, ".lock*") == [".lock", ".lock-1"]
    assert builder.calls == 1


def test_several_builders_may_have_been_killed(entries, header, lock):
    held = [hold_lock_as(path, ended_process()) for path in (lock, Path(f"{lock}-1"), Path(f"{lock}-2"))]
    assert entries.build(RECIPE, Builder(header)).shared_object.is_file()
    assert below(entries.root, ".lock*") == [".lock", ".lock-1", ".lock-2", ".lock-3"]
    for descriptor in held:
        os.close(descriptor)


def test_taking_the_lock_of_a_killed_builder_erases_its_name(entries, hold, lock):
    """Otherwise a waiter could still read the dead builder's name until the new holder has written its own.

    The waiter would then fall back to the next lock, ``.lock-1``, and build as well.
    """
    fcntl.flock(hold(ended_process()), fcntl.LOCK_UN)
    assert lock.stat().st_size > 0
    descriptor = locks._take(lock, False, set(), lambda: None, lambda holder, seconds: None)
    assert descriptor is not None and lock.read_bytes() == b""
    os.close(descriptor)


def test_only_staging_directories_of_dead_builders_are_removed(entries, header):
    this, dead, other = locks.this_process(), ended_process(), process_on_other_host()
    mine, theirs, far, old = (
        entries.directory(recipe_with_part("flags", "-O1"))
        / f".staging-{owner.machine}-{owner.pid}-{owner.started}-{number}"
        for number, owner in enumerate((this, dead, other, other))
    )
    for directory in (mine, theirs, far, old):
        directory.mkdir(parents=True)
    long_ago = time.time() - ABANDONED_S - 1
    os.utime(old, (long_ago, long_ago))
    entries.build(RECIPE, Builder(header))
    assert [path.exists() for path in (mine, theirs, far, old)] == [True, False, True, False]


def test_staging_directory_of_another_machine_is_kept_while_it_holds_the_lock(entries, header):
    """The directory can look abandoned while it is in use, if a clock was set forward by days during the build."""
    far = process_on_other_host()
    recipe = recipe_with_part("flags", "-O1")
    staging = entries.directory(recipe) / f".staging-{far.machine}-{far.pid}-{far.started}-x"
    staging.mkdir(parents=True)
    long_ago = time.time() - ABANDONED_S - 1
    os.utime(staging, (long_ago, long_ago))
    descriptor = hold_lock_as(entries.directory(recipe) / locks.LOCK, far)
    entries.build(RECIPE, Builder(header))
    assert staging.exists()
    os.close(descriptor)
    entries.build(recipe_with_part("flags", "-O2"), Builder(header))
    assert not staging.exists()


def test_compiler_of_a_killed_builder_is_ended(entries, header, at_work):
    dead = ended_process()
    staging = entries.directory(RECIPE) / f".staging-{dead.machine}-{dead.pid}-{dead.started}-x"
    staging.mkdir(parents=True)
    compiler = at_work(staging)
    entries.build(RECIPE, Builder(header))
    assert compiler.wait(10) == -signal.SIGKILL


UNWATCHED = """
import subprocess
from contextlib import nullcontext
from tkjit.system import watchdog

watchdog.watch = lambda *_: nullcontext()

def builder(staging):
    compiler = subprocess.Popen(["sleep", "60"], cwd=staging)
    print(compiler.pid, flush=True)
    compiler.wait()

Cache(Path(sys.argv[1]), ABI).build(RECIPE, builder)
"""


def test_waiter_ends_the_compiler_of_a_killed_builder(entries, header, start, threads, monkeypatch):
    """The builder has no watchdog here, so the waiter has to do a watchdog's work."""
    monkeypatch.setattr(building, "REPORT_S", -1)
    waiting = threading.Event()
    process = start(UNWATCHED, entries.root)
    compiler = int(process.stdout.readline())
    threads.start(lambda: entries.build(RECIPE, Builder(header), report_wait=lambda text: waiting.set()))
    assert waiting.wait(20) and start_time(compiler) is not None
    process.kill()
    assert isinstance(threads.join()[0], Entry)
    assert start_time(compiler) is None and staging_in(entries) == []


# ---- builders on other hosts


def test_remote_builder_is_awaited_while_it_has_a_heartbeat(entries, header, threads, hold, lock, monkeypatch):
    monkeypatch.setattr(locks, "HEARTBEAT_TIMEOUT_S", 0.5)
    descriptor = hold(process_on_other_host())
    builder = Builder(header)
    threads.start(lambda: (entries.build(RECIPE, builder), time.monotonic()))
    for _ in range(12):  # longer than the timeout
        os.utime(descriptor)
        last_sign = time.monotonic()
        time.sleep(0.05)
        assert builder.calls == 0
    ((entry, built),) = threads.join()
    assert built - last_sign >= 0.5 - 2 * locks.POLL_S
    assert builder.calls == 1 and entry.shared_object.is_file()
    assert below(entries.root, ".lock*") == [".lock", ".lock-1"]


def test_builder_updates_its_heartbeat(entries, header, lock, monkeypatch):
    monkeypatch.setattr(locks, "HEARTBEAT_S", 0.01)
    times = []

    def watch() -> None:
        for _ in range(3):
            times.append(lock.stat().st_mtime_ns)
            wait_until(lambda: lock.stat().st_mtime_ns != times[-1], what="a heartbeat")

    entries.build(RECIPE, Builder(header, during=watch))
    assert times == sorted(set(times))


def test_living_builder_without_a_heartbeat_is_not_awaited(entries, header, hold, monkeypatch):
    """Such a builder has been suspended, or hangs."""
    monkeypatch.setattr(locks, "HEARTBEAT_TIMEOUT_S", 0.2)
    hold()
    assert entries.build(RECIPE, Builder(header)).shared_object.is_file()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"process": 3}', b'{"process": {}}', b"null", b"\xff"])
def test_lock_without_a_name_is_awaited_briefly(entries, header, hold, monkeypatch, content):
    monkeypatch.setattr(locks, "NAME_TIMEOUT_S", 0.1)
    descriptor = hold()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, content, 0)
    began = time.monotonic()
    assert entries.build(RECIPE, Builder(header)).shared_object.is_file()
    assert 0.1 <= time.monotonic() - began < locks.HEARTBEAT_TIMEOUT_S / 2


WITHOUT_LOCKS = pytest.mark.filterwarnings("ignore:.*a file system without locks:tkjit.TkjitWarning")


def test_file_system_without_locks_is_reported(entries, header, monkeypatch):
    monkeypatch.setattr(locks, "_take", lambda *arguments: None)
    with pytest.warns(TkjitWarning, match="without locks, so every process that needs gemm builds it for itself"):
        entries.build(RECIPE, Builder(header))


@WITHOUT_LOCKS
@pytest.mark.parametrize("number", locks._NO_LOCKS, ids=errno.errorcode.get)
def test_builds_work_on_a_file_system_without_locks(entries, header, threads, monkeypatch, number):
    def refuse(descriptor, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    both = threading.Barrier(2, timeout=20)
    builder = Builder(header, during=both.wait)
    for _ in range(2):
        threads.start(lambda: entries.build(RECIPE, builder))
    entries_built = threads.join()
    assert builder.calls == 2  # twice the work, but one entry
    assert entries_built == [entries.lookup(RECIPE)] * 2
    assert staging_in(entries) == [] and below(entries.root, ".broken*") == []


@WITHOUT_LOCKS
def test_loser_of_a_race_without_locks_uses_the_existing_entry(entries, header, monkeypatch):
    monkeypatch.setattr(locks, "_take", lambda *arguments: None)
    inner = Builder(header)

    def outer(staging: Path) -> Product:
        entries.build(RECIPE, inner)  # the other process is faster
        return Builder(header)(staging)

    entry = entries.build(RECIPE, outer)
    assert entries.lookup(RECIPE) == entry
    assert entry.shared_object.is_file()
    assert staging_in(entries) == []
    assert below(entries.root, ".broken*") == []  # an intact entry stays, because another process may be opening it


@WITHOUT_LOCKS
def test_entry_that_appears_during_publishing_is_used(entries, header, monkeypatch):
    monkeypatch.setattr(locks, "_take", lambda *arguments: None)
    rename, inner = Path.rename, Builder(header)

    def late(path: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        entries.build(RECIPE, inner)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", late)
    assert entries.build(RECIPE, Builder(header)) == entries.lookup(RECIPE)
    assert inner.calls == 1 and staging_in(entries) == []


def test_other_locking_errors_are_reported(entries, header, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(CacheError, match=r"cannot write to the cache directory .* Input/output error"):
        entries.build(RECIPE, Builder(header))


# ---- reports of waiters


def test_waiter_reports_the_builder_and_its_compiler(entries, header, threads, hold, tmp_path, at_work, monkeypatch):
    monkeypatch.setattr(building, "REPORT_S", 0.1)
    (tmp_path / "staging").mkdir()
    reports = []
    compiler = at_work(tmp_path / "staging")
    descriptor = hold(since=time.time() - 42, staging=str(tmp_path / "staging"))
    began = time.monotonic()
    threads.start(lambda: entries.build(RECIPE, Builder(header), report_wait=reports.append))
    wait_until(lambda: reports, what="a report")
    assert time.monotonic() - began >= 0.1
    assert re.fullmatch(r"this process has been building it for 4\d s, sleep is running", reports[0])
    compiler.kill()
    compiler.wait()
    wait_until(lambda: reports[-1].endswith("none of its compilers is running"), what="a report")
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    assert isinstance(threads.join()[0], Entry)


def test_waiter_reports_a_builder_on_another_machine(entries, header, threads, hold, monkeypatch):
    monkeypatch.setattr(building, "REPORT_S", 0)
    reports = []
    descriptor = hold(process_on_other_host(), since=time.time() - 90)
    threads.start(lambda: entries.build(RECIPE, Builder(header), report_wait=reports.append))
    wait_until(lambda: reports, what="a report")
    assert re.fullmatch(r"process 4242 on node17 has been building it for 9\d s", reports[0])
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    threads.join()


def test_short_wait_is_not_reported(entries, header, threads):
    reports = []
    for _ in range(2):
        threads.start(lambda: entries.build(RECIPE, Builder(header, seconds=0.1), report_wait=reports.append))
    threads.join()
    assert reports == []


def test_lock_file_names_the_working_directory_of_the_compilers(entries, header, lock):
    seen = []
    watch = locks._HolderMonitor(lock)
    entries.build(RECIPE, Builder(header, during=lambda: seen.append(watch.look())), what="gemm for sm_90a")
    (holder,) = seen
    assert holder.process == locks.this_process() and holder.kernel == "gemm for sm_90a"
    assert Path(holder.staging).parent == entries.directory(RECIPE) and Path(holder.staging).name.startswith(".staging")
    assert lock.read_bytes() == b""
