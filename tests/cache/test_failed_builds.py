"""Failed and interrupted builds: the error that waiting processes get, and the clean-up."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from support.damage import flip_byte
from support.fake_builder import RECIPE, Builder, below, compile_error, staging_in
from support.waiting import wait_until

from tkjit.cache import Entry, Product, building, failures
from tkjit.errors import CompileError

# ---- failures


def test_waiters_get_a_failure_with_all_its_fields(entries, header, threads, monkeypatch):
    monkeypatch.setattr(building, "REPORT_S", -1)
    waiting = set()
    error = compile_error(entries)
    builder = Builder(header, error=error, during=lambda: wait_until(lambda: len(waiting) == 2, what="two waiters"))
    for _ in range(3):
        threads.start(
            lambda: entries.build(RECIPE, builder, report_wait=lambda text: waiting.add(threading.get_ident()))
        )
    raised = threads.join()
    assert builder.calls == 1 and len(raised) == 3
    for other in raised:
        assert type(other) is CompileError
        for field in ("summary", "what", "log", "log_path", "command"):
            assert getattr(other, field) == getattr(error, field)
    assert staging_in(entries) == []


def test_process_that_starts_after_a_failure_builds_again(entries, header):
    failing, builder = Builder(header, error=compile_error(entries)), Builder(header)
    for calls in (1, 2):
        with pytest.raises(CompileError):
            entries.build(RECIPE, failing)
        assert failing.calls == calls
    assert below(entries.root, failures.FAILURE) == [failures.FAILURE]
    entries.build(RECIPE, builder)
    assert builder.calls == 1
    assert below(entries.root, ".failed") == []


def test_failure_from_before_the_wait_is_not_raised(entries, header, threads, hold, monkeypatch):
    """A waiter raises only a failure of the process that it waited for, and this one leaves none."""
    with pytest.raises(CompileError):
        entries.build(RECIPE, Builder(header, error=compile_error(entries)))
    waiting = threading.Event()
    monkeypatch.setattr(building, "REPORT_S", -1)
    descriptor = hold()
    threads.start(lambda: entries.build(RECIPE, Builder(header), report_wait=lambda text: waiting.set()))
    assert waiting.wait(20)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    assert isinstance(threads.join()[0], Entry)


@pytest.mark.parametrize("damage", [flip_byte, lambda path: path.write_text("[]"), lambda path: path.write_text("{}")])
def test_damaged_failure_record_is_ignored(entries, header, damage):
    with pytest.raises(CompileError):
        entries.build(RECIPE, Builder(header, error=compile_error(entries)))
    path = entries.failure_directory(RECIPE) / failures.FAILURE
    token = path.read_text().split('"token": "')[1].split('"')[0]
    assert failures.failure_of(path.parent, frozenset([token])) is not None
    damage(path)
    assert failures.failure_of(path.parent, frozenset([token])) is None


# ---- Ctrl-C


class Compiler(Builder):
    """Starts a process, waits for it, and treats its end as a compile error."""

    def __init__(self, cache, header: Path) -> None:
        super().__init__(header)
        self.cache, self.started = cache, threading.Event()

    def __call__(self, staging: Path) -> Product:
        self.calls += 1
        with subprocess.Popen(["sleep", "60"], cwd=staging) as child:
            self.started.set()
            child.wait()
        raise compile_error(self.cache)


def test_interrupt_ends_builders_and_waiters_and_leaves_no_failure(entries, header, threads, monkeypatch):
    monkeypatch.setattr(building, "REPORT_S", -1)
    waiting = threading.Event()
    compiler = Compiler(entries, header)
    threads.start(lambda: entries.build(RECIPE, compiler))
    assert compiler.started.wait(20)
    threads.start(lambda: entries.build(RECIPE, compiler, report_wait=lambda text: waiting.set()))
    assert waiting.wait(20)
    began = time.monotonic()
    entries.interrupt(lambda: threads.are_over)
    assert [type(error) for error in threads.join()] == [KeyboardInterrupt, KeyboardInterrupt]
    assert time.monotonic() - began < 10
    assert compiler.calls == 1
    assert staging_in(entries) == [] and below(entries.root, failures.FAILURE) == []
    assert entries.build(RECIPE, Builder(header)).shared_object.is_file()


def test_interrupt_ends_a_compiler_that_is_just_starting(entries, header, threads):
    compiler, interrupted = Compiler(entries, header), threading.Event()

    def build(staging: Path) -> Product:
        compiler.started.set()
        assert interrupted.wait(20)
        return compiler(staging)

    threads.start(lambda: entries.build(RECIPE, build))
    assert compiler.started.wait(20)

    def is_over() -> bool:
        interrupted.set()
        return threads.are_over

    entries.interrupt(is_over)
    assert [type(error) for error in threads.join()] == [KeyboardInterrupt]
    assert staging_in(entries) == [] and below(entries.root, failures.FAILURE) == []


def test_compiler_ended_by_ctrl_c_does_not_count_as_failed(entries, header, threads, monkeypatch):
    """A terminal sends Ctrl-C to all processes, and the main thread notices it a moment later."""
    monkeypatch.setattr(building, "INTERRUPT_S", 0.5)
    failed = threading.Event()
    threads.start(lambda: entries.build(RECIPE, Builder(header, error=compile_error(entries), during=failed.set)))
    assert failed.wait(20)
    time.sleep(0.1)
    entries.interrupt(lambda: threads.are_over)
    assert [type(error) for error in threads.join()] == [KeyboardInterrupt]
    assert below(entries.root, ".failed") == []


def test_interrupt_in_the_builder_ends_its_compiler(entries, header):
    started = []

    def build(staging: Path) -> Product:
        started.append(subprocess.Popen(["sleep", "60"], cwd=staging))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        entries.build(RECIPE, build)
    assert started[0].wait(10) == -signal.SIGKILL
    assert staging_in(entries) == [] and below(entries.root, failures.FAILURE) == []
