"""Forks beside other threads: a child finds no half-imported module, and holds no pipe of a process being started."""

import functools
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tkjit.system.fork_safe import cached_property

PAUSE_S = 0.3  # of the other thread, in the middle of its work


@pytest.fixture
def beside():
    """Runs a function in a thread; returns when it has reached its middle."""
    threads = []

    def start(work, reached):
        threads.append(threading.Thread(target=work))
        threads[-1].start()
        assert reached.wait(10)

    yield start
    for thread in threads:
        thread.join()


def exit_code_of_child(work):
    """The exit code of a forked child: 0 if the function returns true there."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # a child that waits forever fails
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_waits_for_a_process_that_another_thread_starts(beside, monkeypatch):
    reached, pipe = threading.Event(), []
    execute = subprocess.Popen._execute_child

    def slowly(self, *arguments):
        pipe.extend(os.pipe())  # as the one whose closing tells that the process has started
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


def test_a_fork_waits_for_an_import_of_another_thread(beside, tmp_path, monkeypatch):
    import tkjit

    (tmp_path / "imported_slowly.py").write_text(
        f"import threading, time\nREACHED = threading.Event()\nREACHED.set()\ntime.sleep({PAUSE_S})\nVALUE = 3\n"
    )
    monkeypatch.setattr(tkjit, "__path__", [*tkjit.__path__, str(tmp_path)])
    reached = threading.Event()

    def load():
        reached.set()
        __import__("tkjit.imported_slowly")

    def value():
        from tkjit.imported_slowly import VALUE

        return VALUE == 3

    beside(load, reached)
    while "tkjit.imported_slowly" not in sys.modules:
        time.sleep(0.001)
    try:
        assert exit_code_of_child(value) == 0
    finally:
        sys.modules.pop("tkjit.imported_slowly", None)


def test_a_child_computes_an_attribute_that_another_thread_was_computing(beside):
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
