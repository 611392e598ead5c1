"""Progress: one line that is replaced, in a terminal and in a notebook; in a log a line for what takes long."""

import io
import re
import time
import types

import pytest
from support.waiting import wait_until

from tkjit.system import progress
from tkjit.system.progress import show_progress

ERASE = "\r\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watch(monkeypatch, stream, **modules):
    """Let the module see these instead of the test run's own standard error and imported modules."""
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=stream, modules=modules))
    monkeypatch.setattr(progress, "TICK_S", 0.01)
    return stream


@pytest.fixture
def terminal(monkeypatch):
    return watch(monkeypatch, Terminal())


def test_a_terminal_gets_one_line_that_is_replaced(terminal):
    with show_progress("gemm (T=float32) for sm_90a"):
        time.sleep(0.1)
    text = terminal.getvalue()
    first, *_, last = text.split(ERASE)[1:]
    assert text.startswith(ERASE)
    assert re.fullmatch(r"tkjit: compiling gemm \(T=float32\) for sm_90a \.\.\. \d+\.\d s", first)
    assert re.fullmatch(r"tkjit: compiled gemm \(T=float32\) for sm_90a in 0\.\d s\n", last)
    assert text.count("\n") == 1 and text.count(ERASE) >= 3


def test_a_failure_is_said_and_passes_through(terminal):
    with pytest.raises(ValueError, match="refused"), show_progress("axpy"):
        raise ValueError("refused")
    assert "tkjit: failed to compile axpy in" in terminal.getvalue()
    assert terminal.getvalue().endswith(" s\n")


def test_a_build_inside_another_shows_nothing_of_its_own(terminal):
    with show_progress("the glue of axpy"), show_progress("axpy for sm_80"):
        time.sleep(0.05)
    assert "axpy for sm_80" not in terminal.getvalue()
    assert terminal.getvalue().count("\n") == 1
    with show_progress("the next"):
        pass
    assert "compiled the next" in terminal.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_a_log_has_nothing_of_a_short_build(monkeypatch, stream):
    watch(monkeypatch, stream)
    with show_progress("axpy"):
        time.sleep(0.05)
    assert stream is None or stream.getvalue() == ""


def test_a_log_has_one_line_of_a_long_build(monkeypatch):
    log = watch(monkeypatch, io.StringIO())
    monkeypatch.setattr(progress, "LONG_S", 0.02)
    with show_progress("the runtime"), show_progress("axpy"):
        wait_until(log.getvalue, what="a line")
        time.sleep(0.1)
    assert log.getvalue() == "tkjit: compiling the runtime ...\n"


def test_a_line_that_cannot_be_shown_does_not_stand_in_the_way_of_the_next(monkeypatch):
    def unplugged(text, last):
        raise OSError("the terminal is gone")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="terminal is gone"):
        patch.setattr(progress, "_display", lambda: unplugged)
        with show_progress("axpy"):
            pass
    terminal = watch(monkeypatch, Terminal())
    with show_progress("gemm"):
        pass
    assert "compiled gemm" in terminal.getvalue()


def test_a_closed_log_stops_no_build(monkeypatch):
    log = watch(monkeypatch, io.StringIO())
    log.close()
    monkeypatch.setattr(progress, "LONG_S", 0.02)
    with show_progress("axpy") as say:
        say("process 7 builds it")
        time.sleep(0.1)


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_quiet(monkeypatch, stream):
    watch(monkeypatch, stream)
    monkeypatch.setattr(progress, "LONG_S", 0.02)
    with show_progress("axpy", quiet=True) as say:
        say("process 7 builds it")
        time.sleep(0.1)
    assert stream.getvalue() == ""


@pytest.mark.compiles
@pytest.mark.parametrize(("quiet", "printed"), [("0", r"(tkjit: compiling .* \.\.\.\n)+"), ("1", "")])
def test_a_process_with_a_log(cache_with_runtime, fresh, quiet, printed):
    code = """
import torch, tkjit
from tkjit.system import progress
progress.LONG_S = 0.0
tkjit.load("axpy").warm_up((torch.ones(1), torch.ones(1))).wait()
"""
    process = fresh.start(code, TKJIT_QUIET=quiet).wait()
    assert process.code == 0 and re.fullmatch(printed, process.stderr)


def test_a_notebook_gets_one_display_that_is_updated(monkeypatch):
    shown = []

    class Handle:
        def update(self, data, raw):
            assert raw
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        assert raw and display_id
        shown.append(data["text/plain"])
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    notebook = types.SimpleNamespace(get_ipython=lambda: shell, display=types.SimpleNamespace(display=display))
    terminal = watch(monkeypatch, Terminal(), IPython=notebook)
    with show_progress("axpy"):
        time.sleep(0.05)
    assert shown[0] == ""
    assert shown[1].startswith("tkjit: compiling axpy ...")
    assert shown[-1].startswith("tkjit: compiled axpy in")
    assert terminal.getvalue() == ""


def test_ipython_in_a_terminal_is_a_terminal(monkeypatch):
    notebook = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace())
    terminal = watch(monkeypatch, Terminal(), IPython=notebook)
    with show_progress("axpy"):
        pass
    assert "compiled axpy" in terminal.getvalue()


# ---- waiting


def test_a_terminal_says_for_whom_it_waits(terminal, monkeypatch):
    monkeypatch.setattr(progress, "STALE_S", 0.2)
    with show_progress("axpy") as say:
        wait_until(lambda: "compiling axpy" in terminal.getvalue(), what="a line")
        say("process 7 on node17 has been building it for 3 s")
        wait_until(lambda: "node17" in terminal.getvalue(), what="the reason")
        shown = terminal.getvalue()
        wait_until(lambda: "compiling axpy" in terminal.getvalue()[len(shown) :], what="the end of the wait")
    assert "tkjit: waiting for axpy: process 7 on node17 has been building it for 3 s" in shown
    assert terminal.getvalue().split(ERASE)[-1].startswith("tkjit: compiled axpy in")


def test_who_waited_until_the_end_has_not_compiled(terminal):
    with show_progress("axpy") as say:
        say("process 7 builds it")
    assert terminal.getvalue().split(ERASE)[-1].startswith("tkjit: waited for axpy in")


def test_a_log_file_says_once_in_a_while_for_whom_it_waits(monkeypatch):
    log = watch(monkeypatch, io.StringIO())
    with show_progress("axpy") as say:
        for pid in (7, 8, 9):
            say(f"process {pid} builds it")
        assert log.getvalue() == "tkjit: waiting for axpy: process 7 builds it\n"
        monkeypatch.setattr(progress, "REMIND_S", 0)
        say("process 9 builds it")
    assert log.getvalue().splitlines()[1:] == ["tkjit: waiting for axpy: process 9 builds it"]


def test_a_build_inside_another_says_for_whom_it_waits_too(terminal):
    with show_progress("the glue of axpy"), show_progress("axpy for sm_80") as say:
        say("process 7 builds it")
    assert "waiting for axpy for sm_80: process 7 builds it" in terminal.getvalue()


def test_without_a_standard_error_nothing_is_said(monkeypatch):
    watch(monkeypatch, None)
    with show_progress("axpy") as say:
        say("process 7 builds it")


def test_under_another_display_nothing_is_shown(monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "_display", lambda: lambda text, last: shown.append(text))
    with progress.silence(), progress.show_progress("gemm for sm_90a"):
        pass
    assert shown == []
    with progress.show_progress("gemm for sm_90a"):
        pass
    assert len(shown) == 1
