"""Progress: one line that is updated in a terminal or a notebook, or a line for each long build in a log."""

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
    """Replace the module's standard error by a stream and its imported modules by others, and return the stream."""
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=stream, modules=modules))
    monkeypatch.setattr(progress, "TICK_S", 0.01)
    return stream


@pytest.fixture
def terminal(monkeypatch):
    return watch(monkeypatch, Terminal())


def test_terminal_shows_one_line_that_is_updated(terminal):
    with show_progress("gemm (T=float32) for sm_90a"):
        time.sleep(0.1)
    text = terminal.getvalue()
    first, *_, last = text.split(ERASE)[1:]
    assert text.startswith(ERASE)
    assert re.fullmatch(r"tkjit: compiling gemm \(T=float32\) for sm_90a \.\.\. \d+\.\d s", first)
    assert re.fullmatch(r"tkjit: compiled gemm \(T=float32\) for sm_90a in 0\.\d s\n", last)
    assert text.count("\n") == 1 and text.count(ERASE) >= 3


@pytest.mark.parametrize(("total_s", "shown"), [(60.0, ", about 60 s left"), (0.5, ""), (None, "")])
def test_a_long_build_shows_the_time_that_is_left_if_it_is_known(monkeypatch, terminal, total_s, shown):
    monkeypatch.setattr(progress, "ESTIMATE_AFTER_S", 0.03)
    with show_progress("gemm", estimate_s=lambda: total_s):
        time.sleep(0.1)
    first, *_, before_last, _ = terminal.getvalue().split(ERASE)[1:]
    assert re.fullmatch(r"tkjit: compiling gemm \.\.\. 0\.\d s", first)
    assert re.fullmatch(rf"tkjit: compiling gemm \.\.\. 0\.\d s{shown}", before_last)


def test_failure_is_shown_and_propagates(terminal):
    with pytest.raises(ValueError, match="refused"), show_progress("axpy"):
        raise ValueError("refused")
    assert "tkjit: failed to compile axpy in" in terminal.getvalue()
    assert terminal.getvalue().endswith(" s\n")


def test_nested_build_shows_no_line(terminal):
    with show_progress("the glue of axpy"), show_progress("axpy for sm_80"):
        time.sleep(0.05)
    assert "axpy for sm_80" not in terminal.getvalue()
    assert terminal.getvalue().count("\n") == 1
    with show_progress("the next"):
        pass
    assert "compiled the next" in terminal.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_short_build_is_not_logged(monkeypatch, stream):
    watch(monkeypatch, stream)
    with show_progress("axpy"):
        time.sleep(0.05)
    assert stream is None or stream.getvalue() == ""


def test_long_build_is_logged_once(monkeypatch):
    log = watch(monkeypatch, io.StringIO())
    monkeypatch.setattr(progress, "LONG_S", 0.02)
    with show_progress("the runtime"), show_progress("axpy"):
        wait_until(log.getvalue, what="a line")
        time.sleep(0.1)
    assert log.getvalue() == "tkjit: compiling the runtime ...\n"


def test_error_of_the_display_does_not_affect_the_next_build(monkeypatch):
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


def test_closed_log_does_not_stop_a_build(monkeypatch):
    log = watch(monkeypatch, io.StringIO())
    log.close()
    monkeypatch.setattr(progress, "LONG_S", 0.02)
    with show_progress("axpy") as report:
        report("process 7 builds it")
        time.sleep(0.1)


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_quiet_shows_nothing(monkeypatch, stream):
    watch(monkeypatch, stream)
    monkeypatch.setattr(progress, "LONG_S", 0.02)
    with show_progress("axpy", quiet=True) as report:
        report("process 7 builds it")
        time.sleep(0.1)
    assert stream.getvalue() == ""


@pytest.mark.compiles
@pytest.mark.parametrize(("quiet", "printed"), [("0", r"(tkjit: compiling .* \.\.\.\n)+"), ("1", "")])
def test_log_of_a_real_process(cache_with_runtime, fresh, quiet, printed):
    code = """
import torch, tkjit
from tkjit.system import progress
progress.LONG_S = 0.0
tkjit.load("axpy").warm_up((torch.ones(1), torch.ones(1))).wait()
"""
    process = fresh.start(code, TKJIT_QUIET=quiet).wait()
    assert process.code == 0 and re.fullmatch(printed, process.stderr)


def test_notebook_shows_one_display_that_is_updated(monkeypatch):
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


def test_ipython_in_a_terminal_uses_the_terminal(monkeypatch):
    notebook = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace())
    terminal = watch(monkeypatch, Terminal(), IPython=notebook)
    with show_progress("axpy"):
        pass
    assert "compiled axpy" in terminal.getvalue()


# ---- waiting


def test_terminal_shows_the_reason_for_waiting(terminal, monkeypatch):
    monkeypatch.setattr(progress, "STALE_S", 0.2)
    with show_progress("axpy") as report:
        wait_until(lambda: "compiling axpy" in terminal.getvalue(), what="a line")
        report("process 7 on node17 has been building it for 3 s")
        wait_until(lambda: "node17" in terminal.getvalue(), what="the reason")
        shown = terminal.getvalue()
        wait_until(lambda: "compiling axpy" in terminal.getvalue()[len(shown) :], what="the end of the wait")
    assert "tkjit: waiting for axpy: process 7 on node17 has been building it for 3 s" in shown
    assert terminal.getvalue().split(ERASE)[-1].startswith("tkjit: compiled axpy in")


def test_waiting_until_the_end_is_shown_as_waited(terminal):
    with show_progress("axpy") as report:
        report("process 7 builds it")
    assert terminal.getvalue().split(ERASE)[-1].startswith("tkjit: waited for axpy in")


def test_log_shows_the_reason_for_waiting_from_time_to_time(monkeypatch):
    log = watch(monkeypatch, io.StringIO())
    with show_progress("axpy") as report:
        for pid in (7, 8, 9):
            report(f"process {pid} builds it")
        assert log.getvalue() == "tkjit: waiting for axpy: process 7 builds it\n"
        monkeypatch.setattr(progress, "REMIND_S", 0)
        report("process 9 builds it")
    assert log.getvalue().splitlines()[1:] == ["tkjit: waiting for axpy: process 9 builds it"]


def test_nested_build_logs_its_reason_for_waiting(terminal):
    with show_progress("the glue of axpy"), show_progress("axpy for sm_80") as report:
        report("process 7 builds it")
    assert "waiting for axpy for sm_80: process 7 builds it" in terminal.getvalue()


def test_progress_works_without_standard_error(monkeypatch):
    watch(monkeypatch, None)
    with show_progress("axpy") as report:
        report("process 7 builds it")


def test_silence_hides_the_line(monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "_display", lambda: lambda text, last: shown.append(text))
    with progress.silence(), progress.show_progress("gemm for sm_90a"):
        pass
    assert shown == []
    with progress.show_progress("gemm for sm_90a"):
        pass
    assert len(shown) == 1
