"""Forks while other threads run: a child gets no half-imported module and no pipe of a starting process."""

import functools
import importlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tkjit.system.fork_safe import cached_property

PAUSE_S = 0.3  # how long the other thread pauses in the middle of its work


@pytest.fixture
def beside():
    """Runs a function in a thread, and returns when the function is halfway through."""
    threads = []

    def start(work, reached):
        threads.append(threading.Thread(target=work))
        threads[-1].start()
        assert reached.wait(10)

    yield start
    for thread in threads:
        thread.join()


def exit_code_of_child(work):
    """Run a function in a forked child and return the exit code: 0 if the function returns true."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # so that a child which would wait forever fails
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_fork_waits_while_another_thread_starts_a_process(beside, monkeypatch):
    reached, pipe = threading.Event(), []
    execute = subprocess.Popen._execute_child

    def slowly(self, *arguments):
        pipe.extend(os.pipe())  # like Popen's own pipe, which is closed once the process has started
        reached.set()
        time.sleep(PAUSE_S)
        for end in pipe:
            os.close(end)
        return execute(self, *arguments)

    def start():
        with subprocess.Popen(["true"]):
            pass

    def is_closed(descriptor):
        try:
            os.fstat(descriptor)
        except OSError:
            return True
        return False

    monkeypatch.setattr(subprocess.Popen, "_execute_child", slowly)
    beside(start, reached)
    assert exit_code_of_child(lambda: all(map(is_closed, pipe))) == 0


@pytest.fixture
def slow_modules(tmp_path, monkeypatch):
    """Two modules of tkjit whose import takes a while."""
    import tkjit

    names = ("imported_slowly", "imported_next")
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"import time\ntime.sleep({PAUSE_S})\nVALUE = 3\n")
    monkeypatch.setattr(tkjit, "__path__", [*tkjit.__path__, str(tmp_path)])
    yield [f"tkjit.{name}" for name in names]
    for name in names:
        sys.modules.pop(f"tkjit.{name}", None)


@pytest.mark.parametrize("which", [0, 1])
def test_fork_waits_for_imports_in_another_thread(beside, slow_modules, which):
    """The fork waits for the import in progress, and for the next import, which begins as soon as the first ends."""
    reached = threading.Event()

    def load():
        reached.set()
        for name in slow_modules:
            __import__(name)

    beside(load, reached)
    while slow_modules[0] not in sys.modules:
        time.sleep(0.001)
    assert exit_code_of_child(lambda: importlib.import_module(slow_modules[which]).VALUE == 3) == 0


def test_fork_does_not_wait_for_a_program_inside_an_import(beside, tmp_path, monkeypatch):
    (tmp_path / "imported_program.py").write_text("import sys\nsys.reached.set()\nsys.go_on.wait(20)\n")
    monkeypatch.syspath_prepend(tmp_path)
    reached, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "reached", reached, raising=False)
    monkeypatch.setattr(sys, "go_on", go_on, raising=False)
    beside(lambda: __import__("imported_program"), reached)
    begun = time.monotonic()
    assert exit_code_of_child(lambda: True) == 0
    assert time.monotonic() - begun < 5
    go_on.set()


def test_child_recomputes_an_attribute_that_another_thread_was_computing(beside):
    class Slow:
        @cached_property
        def value(self):
            reached.set()
            time.sleep(PAUSE_S)
            return 3

    assert issubclass(cached_property, functools.cached_property)
    reached, slow = threading.Event(), Slow()
    beside(lambda: slow.value, reached)
    assert exit_code_of_child(lambda: slow.value == 3) == 0
