"""``new --like`` copies a kernel that passes its tests, and ``watch`` runs it again after each change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import wait_until

from tkjit.cli import main
from tkjit.cli.new_kernel import excerpt

SPEC = '''"""Two kernels."""

import tkjit
from tkjit import In, Out, Tensor

# the threads
BLOCK = 32
OTHER = 64


def scale(x):
    from elsewhere import ours

    return ours(x)


def gradient(grad_y):
    return ours_gradient(grad_y)


@tkjit.kernel("ours.cu", entry="ours", block=BLOCK, backward=gradient, peers={"theirs": scale})
def ours(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    return x


@ours.overload("ours_two.cu", entry="ours", block=BLOCK)
def ours(x: In[Tensor, "float32", "N"], z: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    return x


@tkjit.kernel("ours_gradient.cu", entry="g", block=BLOCK)
def ours_gradient(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    return x


@tkjit.kernel("other.cu", entry="other", block=OTHER)
def other(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    return x
'''


def test_the_excerpt_has_what_the_kernel_needs_under_its_new_name():
    text, files = excerpt(SPEC, "ours", "mine")
    assert files == ["ours.cu", "ours_two.cu", "ours_gradient.cu"]
    assert "# the threads\nBLOCK = 32\n" in text and "OTHER" not in text and "def other" not in text
    assert text.count("def mine(") == 2 and "@mine.overload(" in text and "def ours(" not in text
    assert "from elsewhere import ours\n\n    return ours(x)" in text and "def ours_gradient(" in text
    compile(text, "mine.py", "exec")


@pytest.mark.parametrize("like", ["softmax", "gemm"])
def test_the_files_of_a_bundled_kernel(like, tmp_path, capsys):
    assert main(["new", "mine", "--like", like, "-o", str(tmp_path / "mine")]) == 0
    assert (tmp_path / "mine/mine.cu").is_file() and not list((tmp_path / "mine").glob(f"{like}.*"))
    assert "tkjit watch mine.py" in capsys.readouterr().err
    tasks = json.loads((tmp_path / "mine/.vscode/tasks.json").read_text())["tasks"]
    assert [task["label"] for task in tasks] == ["tkjit check", "tkjit verify", "tkjit bench", "tkjit watch"]
    assert all(task["command"].endswith("mine.py") for task in tasks)  # whichever file is open
    (debug,) = json.loads((tmp_path / "mine/.vscode/launch.json").read_text())["configurations"]
    assert debug["environment"] == [{"name": "TKJIT_SIM_DEBUG", "value": "1"}]
    assert main(["new", "mine", "--like", like, "-o", str(tmp_path / "mine")]) == 1
    assert "already exists" in capsys.readouterr().err


def test_a_kernel_that_cannot_be_copied_is_refused(tmp_path, capsys):
    assert main(["new", "mine", "--like", "sofmax", "-o", str(tmp_path / "mine")]) == 1
    assert "softmax" in capsys.readouterr().err and not (tmp_path / "mine").exists()


@pytest.mark.compiles
def test_a_copy_passes_its_tests(tmp_path, fresh):
    assert main(["new", "mine", "--like", "axpy", "-o", str(tmp_path / "mine")]) == 0
    code = "import pytest, sys\nsys.exit(pytest.main(sys.argv[1:]))"
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "mine"]
    assert "2 passed" in fresh.start(code, *options, directory=tmp_path).printed()


@pytest.mark.slow  # each round starts several processes
@pytest.mark.compiles
def test_a_copy_is_watched(tmp_path, session_cache):
    assert main(["new", "mine", "--like", "axpy", "-o", str(tmp_path / "mine")]) == 0
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    watch = [sys.executable, "-m", "tkjit", "watch", "mine.py", "--types", "float32"]
    once = subprocess.run([*watch, "--once"], cwd=tmp_path / "mine", env=environment, capture_output=True, text=True)
    assert once.returncode == 0 and "--- verify" in once.stdout, once.stdout
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(watch, cwd=tmp_path / "mine", env=environment, stdout=output, stderr=output)
    try:
        wait_until(lambda: "all is well; waiting for a change" in log.read_text(), what="the first round")
        source = tmp_path / "mine/mine.cu"
        source.write_text(_broken(source))
        wait_until(lambda: "failed; waiting for a change" in log.read_text(), what="the round after the change")
    finally:
        process.terminate()
        process.wait()


def _broken(source: Path) -> str:
    text = source.read_text()
    assert " + " in text
    return text.replace(" + ", " - ")
