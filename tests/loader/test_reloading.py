"""Reloading in a running process: edits between loads, forks during builds, and warm records."""

import os
import subprocess
import sys
import threading
import time

import pytest
import torch

import tkjit
from tkjit import InOut, Tensor
from tkjit.cache import fingerprints
from tkjit.cli import main
from tkjit.config import Settings
from tkjit.loader import loader_for

pytestmark = pytest.mark.compiles
FILL = '#include "value.h"\n__global__ void fill(float* x) { x[0] = VALUE; }\n'


@pytest.fixture
def fill(tmp_path):
    """A kernel that writes a value from a header, and the header."""
    (tmp_path / "fill.cu").write_text(FILL)
    (tmp_path / "value.h").write_text("#define VALUE 1\n")

    @tkjit.kernel(tmp_path / "fill.cu", entry="fill", args=True, grid=1, block=1)
    def fill(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    return fill, tmp_path / "value.h"


def test_load_notices_an_edited_header(fill):
    kernel, header = fill
    first = tkjit.load(kernel)
    assert first(torch.zeros(1)).item() == 1
    assert tkjit.load(kernel) is first
    header.write_text("#define VALUE 22\n")
    second = tkjit.load(kernel)
    assert second is not first
    assert second(torch.zeros(1)).item() == 22
    assert tkjit.load(kernel) is second
    assert first(torch.zeros(1)).item() == 1, "a loaded kernel does not change"


def test_a_call_of_the_decorated_function_calls_what_was_loaded_last(fill):
    kernel, header = fill
    assert kernel(torch.zeros(1)).item() == 1
    source = header.with_name("fill.cu")
    source.write_text(FILL.replace("VALUE;", "VALUE + 5;"))
    assert kernel(torch.zeros(1)).item() == 1, "an edit alone changes nothing"
    assert kernel._changed_files() == (source,)
    tkjit.load(kernel)
    assert kernel(torch.zeros(1)).item() == 6
    assert kernel._changed_files() == ()


FORK_DURING_A_BUILD = """
import os, sys, threading, torch, tkjit
from tkjit.compile import compiler
from tkjit import InOut, Tensor

def kernel(value):
    source = "__global__ void f(float* x) { x[0] = %d; }" % value
    def fill(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...
    fill.__name__ = "fill_%d" % value
    return tkjit.load(tkjit.kernel(source, entry="f", args=True, grid=1, block=1)(fill))

kernels = [kernel(1), kernel(2)]
building, forked = threading.Event(), threading.Event()
compile_binary = compiler.compile_binary

def slowly(*arguments, **options):
    with compiler._load_inline_lock:
        building.set()
        forked.wait(30)
    return compile_binary(*arguments, **options)

compiler.compile_binary = slowly
thread = threading.Thread(target=lambda: print(kernels[0](torch.zeros(1)).item(), flush=True))
thread.start()
building.wait(30)
child = os.fork()
if child == 0:
    compiler.compile_binary = compile_binary
    print(kernels[1](torch.zeros(1)).item(), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
forked.set()
thread.join()
"""


def test_a_child_that_is_forked_during_a_build_can_build_and_call(session_cache):
    assert loader_for(Settings.from_environment()).runtime
    done = subprocess.run([sys.executable, "-c", FORK_DURING_A_BUILD], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["2.0", "0", "1.0"], done.stderr


@pytest.fixture
def compiled():
    return loader_for(Settings.from_environment()).runtime


def test_the_runtime_compares_fingerprints_as_the_cache_does(compiled, tmp_path):
    names = ("plain", "with space", "n\N{LATIN SMALL LETTER O WITH DIAERESIS}")
    for name in names:
        (tmp_path / name).write_text(name)
    lines = fingerprints.of([*(str(tmp_path / name) for name in names), str(tmp_path)])
    checks = (fingerprints.unchanged, compiled.unchanged)
    assert all(check(lines) for check in checks)
    for place in range(len(lines) - 1):
        flipped = bytearray(lines)
        flipped[place] ^= 1
        assert not any(check(bytes(flipped)) for check in checks), bytes(flipped)
    os.utime(tmp_path / names[1], ns=(1, 1))
    assert not any(check(lines) for check in checks)


def test_the_runtime_notices_new_files(compiled, tmp_path):
    checks = (fingerprints.unchanged, compiled.unchanged)
    lines = fingerprints.of([str(tmp_path / "gone")])
    assert all(check(lines) and check(b"") for check in checks)
    (tmp_path / "gone").write_text("")
    assert not any(check(lines) for check in checks)
    assert not any(check(b"1 2 3\n") or check(b"\n") for check in checks)


def test_warmup_continues_after_unreadable_specs_and_sources(capsys, tmp_path, monkeypatch):
    (tmp_path / "good.py").write_text(
        "import tkjit\nfrom tkjit import InOut, Tensor\n"
        '@tkjit.kernel("__global__ void f(float* x) { x[0] = 1; }", entry="f", args=True, grid=1, block=1)\n'
        'def good(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...\n'
    )
    (tmp_path / "unreadable.py").write_text("def unreadable(:\n")
    (tmp_path / "sourceless.py").write_text(
        (tmp_path / "good.py")
        .read_text()
        .replace('"__global__ void f(float* x) { x[0] = 1; }"', '"gone.cu"')
        .replace("def good", "def sourceless")
    )
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    assert main(["warmup", "unreadable", "sourceless", "good", "--device", "cpu"]) == 1
    printed = capsys.readouterr()
    assert "good for cpu" in printed.out
    assert "2 failed" in printed.out.splitlines()[-1]
    assert "unreadable.py:1: SyntaxError" in printed.err and "cannot read the source" in printed.err
    assert main(["why", "unreadable", "good", "--device", "cpu"]) == 1
    printed = capsys.readouterr().out
    assert "hit   good for cpu" in printed and "SyntaxError" in printed


def test_warmup_compiles_although_jit_is_disabled(capsys, monkeypatch):
    monkeypatch.setenv("TKJIT_JIT", "0")
    assert main(["warmup", "axpy", "--device", "cpu", "--types", "float16"]) == 0
    assert tkjit.load("axpy")(torch.ones(1).half(), torch.ones(1).half()).item() == 2


def test_the_error_of_a_miss_suggests_a_command_for_a_kernel_without_a_file(monkeypatch):
    monkeypatch.setenv("TKJIT_JIT", "0")
    source = f"__global__ void f(float* x) {{ x[0] = {time.time_ns()}; }}"

    @tkjit.kernel(source, entry="f", args=True, grid=1, block=1)
    def nameless(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    with pytest.raises(tkjit.CacheError, match=r"warmup --record used\.jsonl -- COMMAND"):
        nameless(torch.zeros(1))


def test_verify_and_bundle_reject_other_directories(capsys, tmp_path, monkeypatch):
    assert main(["cache", "verify", str(tmp_path)]) == 1
    assert "is neither a cache nor a bundle" in capsys.readouterr().err
    (tmp_path / "mine.txt").write_text("")
    assert main(["bundle", "axpy", "--device", "cpu", "--types", "float32", "-o", str(tmp_path)]) == 1
    assert "exists and is not a bundle" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").unlink()
    assert main(["bundle", "axpy", "--device", "cpu", "--types", "float32", "-o", "."]) == 0
    assert main(["cache", "verify", str(tmp_path)]) == 0


def test_threads_that_load_after_an_edit_get_one_result(fill):
    kernel, header = fill
    assert tkjit.load(kernel)(torch.zeros(1)).item() == 1
    header.write_text("#define VALUE 333\n")
    results: list[float] = []
    threads = [
        threading.Thread(target=lambda: results.append(tkjit.load(kernel)(torch.zeros(1)).item())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [333.0] * 4


# ---- notebooks


def test_a_cell_can_be_run_again_with_another_source():
    cell = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel(
    "__global__ void add(Globals g) {{ g.x[threadIdx.x] += {step}; }}",
    entry="add", grid=1, block="N",
)
def in_a_cell(x: InOut[Tensor, "int32", "N"]) -> Tensor:
    "Adds {step}."
"""
    scope: dict = {"__name__": "__main__"}

    def run(step: int):
        exec(compile(cell.format(step=step), "<ipython-input-1>", "exec"), scope)
        return scope["in_a_cell"]

    def zeros() -> torch.Tensor:
        return torch.zeros(2, dtype=torch.int32)

    first = run(1)
    assert first(zeros()).tolist() == [1, 1]
    second = run(2)
    assert second(zeros()).tolist() == [2, 2]
    assert first(zeros()).tolist() == [1, 1]
    assert second.__doc__.endswith("Adds 2.")
    assert "in_a_cell(x: Tensor" in repr(second)
    third = run(1)  # the text of the first run again, so nothing is compiled
    assert third is not first
    assert third(zeros()).tolist() == [1, 1]
