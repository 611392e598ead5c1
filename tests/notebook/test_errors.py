"""What a notebook shows of an error: the user's own lines, and none of tkjit's."""

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
def test_a_mistake_is_shown_on_the_users_line(run, cell, line):
    printed, error = run(cell)
    assert isinstance(error, TkjitError)
    assert line in printed and "/tkjit/" not in printed and "IPython" not in printed
    assert str(error) in printed
    assert len(printed.splitlines()) < 12


def test_the_users_function_between_ours_is_shown(run, tmp_path, monkeypatch):
    """A spec file fails: the traceback has its line, which is the user's too."""
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    (tmp_path / "mine.py").write_text("def helper():\n    raise ValueError('no')\nhelper()\n")
    printed, _ = run("import tkjit\ntkjit.load('mine')")
    assert "mine.py" in printed and "raise ValueError('no')" in printed and "/tkjit/" not in printed


def test_the_error_itself_stays_whole(run):
    _, error = run("import tkjit\ntkjit.load('axpi')")
    files = []
    traceback = error.__traceback__
    while traceback:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    assert any(file.endswith("registry.py") for file in files)  # %debug and logs see all of it


def test_without_a_shell(monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "IPython", raising=False)
    with pytest.raises(TkjitError) as caught:
        tkjit.find("axpi")
    shown = "".join(caught.value._render_traceback_())
    assert 'tkjit.find("axpi")' in shown and "did you mean axpy?" in shown and "registry.py" not in shown


def test_no_traceback_has_no_users_part():
    assert _users_part(None) is None


def test_the_users_own_error_before_it_is_shown(run):
    printed, _ = run("import tkjit\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    tkjit.load('axpi')")
    assert "ZeroDivisionError: division by zero" in printed and "did you mean axpy?" in printed
    assert "/tkjit/" not in printed
