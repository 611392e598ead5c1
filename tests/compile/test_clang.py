"""clang++ instead of g++: kernels run, and the checker reports the same findings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tkjit.cli import main

pytestmark = pytest.mark.compiles
needs_clang = pytest.mark.skipif(
    shutil.which("clang++") is None, reason="no clang++; install it: apt-get install clang libclang-rt-dev"
)

RACY = """__global__ void reverse(Globals g) {
    __shared__ float tile[128];
    tile[threadIdx.x] = g.x[threadIdx.x];
    g.y[threadIdx.x] = tile[127 - threadIdx.x] + g.x[threadIdx.x + 1];
    __shared__ int largest;
    atomicMax(&largest, int(threadIdx.x));
}"""
SPEC = """
import tkjit
from tkjit import In, Out, Tensor

@tkjit.kernel("racy.cu", entry="reverse", grid=1, block=128)
def racy(x: In[Tensor, "float32", 128], y: Out[Tensor, "float32", 128]) -> Tensor: ...
"""


@needs_clang
def test_bundled_kernels_run_and_pass_the_checker(cache: Path, fresh, monkeypatch, capsys):
    code = (
        "import torch, tkjit\n"
        "a, b = torch.randn(70, 50), torch.randn(50, 90)\n"
        "print(torch.allclose(tkjit.load('gemm')(a, b), a @ b, atol=1e-4))\n"
        "a = a.bfloat16()\n"
        "print(torch.allclose(tkjit.load('softmax')(a).float(), a.softmax(-1).float(), atol=1e-2))\n"
    )
    assert fresh.run(code, CXX="clang++") == "True\nTrue\n"
    monkeypatch.setenv("CXX", "clang++")
    assert main(["check", "gemm", "--types", "bfloat16", "--race", "--init", "--memory"]) == 0


@needs_clang
def test_the_checker_has_the_same_findings_as_with_gcc(cache_with_runtime: Path, tmp_path, monkeypatch, capsys):
    (tmp_path / "racy.cu").write_text(RACY)
    (tmp_path / "racy.py").write_text(SPEC)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "clang++")
    assert main(["check", "racy", "--race", "--init", "--memory"]) == 1
    printed = capsys.readouterr().out
    source = tmp_path / "racy.cu"
    assert "race: nothing orders two accesses to tile + 256 bytes in shared memory" in printed
    assert f"at {source}:3" in printed and f"at {source}:4" in printed
    assert "uninitialized (--init): tile + " in printed
    assert "uninitialized (--init): largest + 0 bytes" in printed
    assert "memory: 4 bytes right after x, which has 512 bytes" in printed


@pytest.mark.slow
def test_a_missing_address_sanitizer_runtime_is_reported(cache_with_runtime: Path, tmp_path, monkeypatch, capsys):
    """A script prints the error that clang prints if libclang-rt is missing."""
    script = tmp_path / "clang++"
    script.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        '--version) echo "Debian clang version 14.0.6"; exit;;\n'
        '*-fsanitize=address*.s*) echo "ld: cannot find /usr/lib/llvm-14/lib/libclang_rt.asan-x86_64.a" >&2; exit 1;;\n'
        "esac\n"
        # all other calls run g++, without the flags that only clang has
        'for word; do shift; case "$word" in -mllvm|-tsan-*) ;; *) set -- "$@" "$word";; esac; done\n'
        f'exec {shutil.which("g++")} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert main(["check", "axpy", "--types", "float32", "--memory"]) == 1
    assert "no AddressSanitizer, which --memory needs; install its runtime: apt-get install libclang-rt-14-dev" in (
        capsys.readouterr().err
    )
