"""Tracebacks in a notebook show the user's lines, but not tkjit's."""

import pytest

import tkjit
from tkjit.errors import TkjitError, _users_part


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("import tkjit\ntkjit.load('axpi')", "----> 2 tkjit.load('axpi')"),
        ("import tkjit\ntkjit.kernel('', entry='f', grid='N +', block=1)(lambda x: 0)", "----> 2 tkjit.kernel("),
    ],
)
def test_mistake_is_shown_at_the_users_line(run, cell, line):
    printed, error = run(cell)
    assert isinstance(error, TkjitError)
    assert line in printed and "/tkjit/" not in printed and "IPython" not in printed
    assert str(error) in printed
    assert len(printed.splitlines()) < 12


def test_users_frames_between_frames_of_tkjit_are_shown(run, tmp_path, monkeypatch):
    """If a spec file fails, the traceback has its line, because the file belongs to the user as well."""
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    (tmp_path / "mine.py").write_text("def helper():\n    raise ValueError('no')\nhelper()\n")
    printed, _ = run("import tkjit\ntkjit.load('mine')")
    assert "mine.py" in printed and "raise ValueError('no')" in printed and "/tkjit/" not in printed


def test_error_object_keeps_all_frames(run):
    _, error = run("import tkjit\ntkjit.load('axpi')")
    files = []
    traceback = error.__traceback__
    while traceback:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    assert any(file.endswith("registry.py") for file in files)  # %debug and logs see all frames


def test_traceback_without_a_shell(monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "IPython", raising=False)
    with pytest.raises(TkjitError) as caught:
        tkjit.find("axpi")
    shown = "".join(caught.value._render_traceback_())
    assert 'tkjit.find("axpi")' in shown and "did you mean axpy?" in shown and "registry.py" not in shown


def test_missing_traceback_has_no_part_of_the_user():
    assert _users_part(None) is None


def test_preceding_error_of_the_user_is_shown(run):
    printed, _ = run("import tkjit\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    tkjit.load('axpi')")
    assert "ZeroDivisionError: division by zero" in printed and "did you mean axpy?" in printed
    assert "/tkjit/" not in printed


def test_a_notebook_shows_the_code_that_a_compiler_rejects(shell, tmp_path):
    from IPython.utils.capture import capture_output

    shell.kernel = object()  # as in Jupyter; a terminal's shell has none
    summary = "a.cu:2:5: error: no f\n    f();\n    ^"
    shell.user_ns["error"] = tkjit.CompileError(summary, what="f", log="the log", log_path=tmp_path, command="g++")
    try:
        with capture_output() as captured:
            shell.run_cell("raise error")
    finally:
        del shell.kernel
    (output,) = captured.outputs
    assert "<mark>f</mark>();" in output.data["text/html"] and "the log" in output.data["text/html"]
    assert "CompileError: a.cu:2:5: error: no f" in captured.stdout


def test_a_terminal_shows_only_text(run):
    printed, _ = run("import tkjit\nraise tkjit.SpecError('a\\n  b\\n  ^')")
    assert "SpecError: a" in printed and "<mark>" not in printed
