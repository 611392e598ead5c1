"""Compile errors: the user's file and line, the log, a command to reproduce, and install hints."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import CacheError, CompileError, InOut, Tensor, ToolchainError
from tkjit.compile.compiler import Unit, compile_binary
from tkjit.errors import REPRODUCE

pytestmark = pytest.mark.compiles
FIXED = """// a comment
__global__ void fill(Globals g) {
    g.x[0] = 5;
}
"""
SYNTAX_ERROR = FIXED.replace("5;", "5")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "written by hand.cu"


def kernel_of(source: Path | str, entry: str = "fill", **options) -> tkjit.Kernel:
    @tkjit.kernel(source, entry=entry, grid=1, block=1, **options)
    def broken(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    return broken


def failure(kernel: tkjit.Kernel) -> CompileError:
    with pytest.raises(CompileError) as raised:
        kernel(torch.zeros(1))
    return raised.value


def test_a_syntax_error_is_reported_with_log_and_command(source, session_cache):
    source.write_text(SYNTAX_ERROR)
    error = failure(kernel_of(source))
    first, *rest = str(error).splitlines()
    assert first == "broken: a semicolon is missing on this line, or at the end of the line before"
    assert re.fullmatch(rf"{re.escape(str(source))}:3:\d+: error: expected .;. before .*", rest[0])
    assert "launcher.cu" not in error.summary  # users need not see the rendered text
    assert re.fullmatch(r"  compiling: broken for cpu-[\w-]+", rest[-3])
    assert rest[-2] == f"  whole log: {error.log_path}"
    script = error.log_path.with_name(REPRODUCE)
    assert rest[-1] == f"  reproduce: sh {script}" and script.read_text() == f"{error.command}\n"
    assert error.log_path.is_file()
    log = error.log_path.read_text()
    assert error.command in log and error.log in log and "expected" in error.log
    assert not list(session_cache.glob("v1/*/*/broken-*/.staging-*"))


def test_the_printed_command_reproduces_the_error(source, tmp_path):
    source.write_text(SYNTAX_ERROR)
    error = failure(kernel_of(source))
    done = subprocess.run(error.command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"{source.name}:3:" in done.stderr
    assert "error: expected" in done.stderr


def test_a_fixed_source_builds_at_once_in_the_same_process(source):
    source.write_text(SYNTAX_ERROR)
    kernel = kernel_of(source)
    failure(kernel)
    failure(kernel)
    source.write_text(FIXED)
    assert kernel(torch.zeros(1)).item() == 5


def test_an_error_in_an_inline_source_has_its_line():
    error = failure(kernel_of("// one\n// two\n__global__ void fill(Globals g) { g.y[0] = 1; }\n"))
    assert re.search(r"inline\.cu:3:\d+: error: .*\by\b", error.summary)


def test_an_error_in_a_users_header_has_its_line(source, tmp_path):
    (tmp_path / "own.h").write_text("#pragma once\nint broken = ;\n")
    source.write_text('#include "own.h"\n' + FIXED)
    error = failure(kernel_of(source))
    assert "own.h:2:" in error.summary


def test_a_missing_header_is_reported(source):
    source.write_text('#include "absent.h"\n' + FIXED)
    error = failure(kernel_of(source))
    assert f"{source}:1:" in error.summary and "absent.h: No such file or directory" in error.summary


def test_an_unresolved_symbol_is_a_compile_error(source, session_cache):
    source.write_text("int no_such_function(int);\n__global__ void fill(Globals g) { g.x[0] = no_such_function(1); }\n")
    error = failure(kernel_of(source))
    assert "it compiled, but cannot be loaded: " in error.summary
    assert "no_such_function" in error.summary
    assert error.log_path.is_file()
    texts = [
        path.with_name("launcher.cu").read_text() for path in session_cache.glob("v1/*/cpu-*/broken-*/*/manifest.json")
    ]
    assert not any("no_such_function" in text for text in texts)  # a launcher that cannot be loaded is not published


def test_an_entry_that_does_not_exist_is_reported():
    error = failure(kernel_of(FIXED, entry="no_such_kernel"))
    assert "no_such_kernel" in error.summary


def test_an_entry_with_other_parameters_is_an_error():
    error = failure(kernel_of("__global__ void fill(int n) {}\n"))
    assert "error:" in error.summary


def test_a_missing_source_file_is_reported(tmp_path):
    with pytest.raises(tkjit.SpecError, match=r"cannot read the source .*absent\.cu"):
        kernel_of(tmp_path / "absent.cu")(torch.zeros(1))


# ---- tools


def test_without_a_compiler_the_error_contains_the_install_command(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError) as raised:
        tkjit.load("axpy")
    assert str(raised.value) == "no C++ compiler; install one: apt-get install g++"


def test_a_cxx_that_does_not_exist_is_reported(cache, monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(ToolchainError) as raised:
        tkjit.load("axpy")
    assert str(raised.value) == "no C++ compiler '/no/such/compiler' (CXX); set CXX to a program, or unset it"


def test_a_compiler_that_does_not_run_is_reported(cache, tmp_path, monkeypatch):
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    with pytest.raises(ToolchainError, match=rf"{re.escape(str(fake))} does not run"):
        tkjit.load("axpy")


def test_a_compiler_that_vanishes_before_the_build_is_reported(tmp_path):
    unit = Unit("broken", "launcher.cu", FIXED, tmp_path / ".failed")
    with pytest.raises(ToolchainError) as raised:
        compile_binary(unit, tmp_path, "launcher.so", lambda *files: [["/no/such/g++", *map(str, files)]])
    assert str(raised.value) == "/no/such/g++ does not run: No such file or directory"


def test_a_compiler_that_is_too_old_is_rejected(cache, tmp_path, monkeypatch):
    old = tmp_path / "g++"
    old.write_text("#!/bin/sh\necho 'g++ (Debian 9.4.0-1) 9.4.0'\n")
    old.chmod(0o755)
    monkeypatch.setenv("CXX", str(old))
    with pytest.raises(
        ToolchainError, match=r"is version 9; g\+\+ 11 or newer is needed; set CXX to another compiler, or unset it"
    ):
        tkjit.load("axpy")


# ---- the cache directory


def test_a_cache_below_a_regular_file_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    root = tmp_path / "file" / "cache"
    monkeypatch.setenv("TKJIT_CACHE", str(root))
    with pytest.raises(CacheError) as raised:
        tkjit.load("axpy")
    assert str(raised.value) == (
        f"cannot write to the cache directory {root}: Not a directory; set TKJIT_CACHE to another one"
    )


FULL_DISK = """
import sys, torch, tkjit
try:
    tkjit.load("axpy")(torch.ones(1), torch.ones(1))
except tkjit.CacheError as error:
    print(error)
    sys.exit(7)
"""


@pytest.mark.slow  # builds the runtime; a faster test of a full disk is in tests/cache
def test_a_full_disk_is_reported(tmp_path):
    """Puts the cache on a disk of 256 kB in a private mount namespace, where the runtime does not fit."""
    unshare, disk = shutil.which("unshare"), tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=256k tmpfs '{disk}'"
    if unshare is None or subprocess.run([unshare, "-m", "sh", "-c", mount], capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs unshare -m and the right to mount, which this machine does not give")
    done = subprocess.run(
        [unshare, "-m", "sh", "-c", f'{mount} && exec "$0" -c "$1"', sys.executable, FULL_DISK],
        env={**os.environ, "TKJIT_CACHE": str(disk / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 7, done.stdout + done.stderr
    assert str(disk / "cache") in done.stdout and "TKJIT_CACHE" in done.stdout
    assert re.search("no space left", done.stdout, re.IGNORECASE)


def test_a_feature_that_the_simulator_lacks_is_reported_with_its_line():
    source = "__global__ void fill(float* x) {\n    cudaTextureObject_t texture = 0;\n}\n"
    message = "broken cannot run on the CPU: inline.cu:2 needs textures and surfaces"
    with pytest.raises(ToolchainError, match=re.escape(message)):
        kernel_of(source, args=True)(torch.zeros(1))


def test_a_launch_that_cannot_be_parsed_is_reported_with_its_line():
    # the name of the kernel is not next to <<<...>>>, but where the macro is used
    source = "#define ONE_THREAD <<<1, 1>>>\n__global__ void fill(float* x) {}\n"
    source += "void other(float* x) { fill ONE_THREAD(x); }\n"
    message = "broken cannot run on the CPU: inline.cu:1 launches with <<<...>>> in a form that tkjit cannot parse"
    with pytest.raises(ToolchainError, match=re.escape(message)):
        kernel_of(source, args=True)(torch.zeros(1))


def test_a_launch_in_a_comment_is_ignored():
    kernel = kernel_of("/* fill<<<1, 1>>>(x) */\n__global__ void fill(float* x) { x[0] = 5; }\n", args=True)
    assert kernel(torch.zeros(1)).item() == 5


def test_a_compile_error_during_a_rejected_call_is_not_raised_after_a_fix(source):
    source.write_text(SYNTAX_ERROR)
    kernel = kernel_of(source, constraints="N == 1")
    # the launcher fails to build in parallel with the new glue, but then the glue rejects the call
    with pytest.raises(tkjit.ShapeError):
        kernel(torch.zeros(2))
    source.write_text(FIXED)
    assert kernel(torch.zeros(1)).item() == 5


SHARED = """// a comment
template <int N, class T>
__global__ void fill(T* x, float* y) {
    __shared__ T tile[N], other[16];
    const auto in_a_lambda = [&] {
        __shared__ int inner[4];
        inner[threadIdx.x % 4] = int(x[0]);
        __syncthreads();
        return inner[1];
    };
    tile[threadIdx.x] = other[threadIdx.x % 16] = x[0];
    __syncthreads();
    x[0] = tile[N / 2] + other[1] + in_a_lambda();
}
inline float* of_the_host() {
    static thread_local float memory[20000];
    memory[0] += 1;
    return memory;
}
template <int N>
__device__ void small(float* x) {
    __shared__ float tile[N];
    tile[threadIdx.x] = x[0];
    __syncthreads();
    x[0] = tile[3];
}
__global__ void fits(float* x) {
    small<12288>(x);
    fill<1>(x, of_the_host());
}
"""


def test_too_much_static_shared_memory_is_an_error(session_cache):
    def kernel(entry: str) -> tkjit.Kernel:
        @tkjit.kernel(SHARED.replace("    fill<1>(x, of_the_host());\n", ""), entry=entry, args=True, grid=1, block=1)
        def shared(x: InOut[Tensor, "float32", "N"], y: InOut[Tensor, "float32", "N"]): ...

        return shared

    x = torch.zeros(4)
    with pytest.raises(CompileError) as raised:
        kernel("fill<12268 + 1, float>")(x, x.clone())
    assert str(raised.value).startswith(
        "inline.cu:2: error: fill uses too much shared data (0xc004 bytes, 0xc000 max):"
    )
    assert all(text in raised.value.summary for text in ("tile 49076", "other 64", "inner 16"))
    kernel("fill<12268, float>")(x, x.clone())
