"""The note when files of a loaded kernel have changed."""

import os

import pytest

pytestmark = pytest.mark.compiles
SPEC = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("bump.cu", entry="bump", grid=1, block=32, args=True)
def bump(x: InOut[Tensor, "float32", "N"]) -> None: ...
"""
SOURCE = '#include "step.cuh"\n__global__ void bump(float* x) { x[threadIdx.x] += STEP; }\n'


@pytest.fixture
def directory(tmp_path, session_cache, monkeypatch):
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    (tmp_path / "bump.py").write_text(SPEC)
    (tmp_path / "bump.cu").write_text(SOURCE)
    (tmp_path / "step.cuh").write_text("#define STEP 1\n")
    return tmp_path


def edit(path, text):
    path.write_text(text)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


def test_edited_source_and_header_are_reported(run, directory):
    run("import tkjit, torch\nbump = tkjit.load('bump')\nx = torch.zeros(32)")
    assert run("bump(x); print(x[0].item())") == ("1.0\n", None)
    assert run("None")[0] == ""
    edit(directory / "step.cuh", "#define STEP 10\n")
    note = "tkjit: step.cuh has changed since bump was loaded; load it again: bump = tkjit.load('bump')\n"
    assert run("None")[0] == note
    assert run("None")[0] == ""  # the note appears only once
    assert run("bump(x); print(x[0].item())")[0] == "2.0\n"  # the loaded kernel does not change
    assert run("bump = tkjit.load('bump')\nbump(x); print(x[0].item())")[0] == "12.0\n"
    assert run("None")[0] == ""
    edit(directory / "bump.cu", SOURCE.replace("+=", "-="))
    assert "bump.cu has changed" in run("None")[0]


def test_kernel_defined_in_a_module(run, shell, directory):
    shell.run_cell(f"import sys; sys.path.insert(0, {str(directory)!r})\nfrom bump import bump\nimport torch\n")
    run("bump(torch.zeros(32))")
    edit(directory / "bump.cu", SOURCE.replace("+=", "-="))
    assert (
        run("None")[0] == "tkjit: bump.cu has changed since bump was loaded; load it again: bump = tkjit.load(bump)\n"
    )
    shell.run_cell("import sys; sys.path.pop(0); del sys.modules['bump']")


def test_variable_that_raises_when_inspected_is_ignored(run, shell):
    class Hostile:
        __class__ = property(lambda self: 1 / 0)

    shell.user_ns["hostile"] = Hostile()
    assert run("None") == ("", None)
