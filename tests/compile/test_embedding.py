"""Embedded data is a dependency with every installed compiler, so that an edit causes a miss."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tkjit.compile.compiler import Unit, compile_binary

pytestmark = pytest.mark.compiles


@pytest.fixture
def data(tmp_path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "table.bin").write_text("abcd")
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++", "nvcc"])
def test_a_build_depends_on_the_files_that_its_assembler_read(data, tmp_path, compiler):
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(
            f"no {compiler}; install it: {'pip install tkjit[nvcc]' if compiler == 'nvcc' else 'apt-get install clang'}"
        )
    (data / "table.h").write_text('asm(".section .rodata\\n.incbin " "\\"table.bin\\"\\n.previous\\n");\n')
    source = '#include "table.h"\nextern "C" int number() { return 1; }\n'
    unit = Unit("small", "launcher.cu", source, tmp_path / "failed", search=(data,))
    staging = tmp_path / "staging"
    staging.mkdir()

    def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
        own = ["-x", "cu", "-Xcompiler=-fPIC"] if compiler == "nvcc" else ["-x", "c++", "-fPIC"]
        return [[path, "-shared", f"-I{data}", "-MD", "-MF", str(depfile), *own, str(source), "-o", str(output)]]

    product = compile_binary(unit, staging, "launcher.so", commands)
    assert {data / "table.h", data / "table.bin"} <= set(product.dependencies)
    assert b"abcd" in (staging / "launcher.so").read_bytes()


SPEC = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("own.cu", entry="f", grid=1, block=1)
def own(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...
"""
SOURCE = r"""
asm(".section .rodata\ntable_of_own: .incbin \"table.bin\"\n.byte 0\n.previous\n");
extern "C" const char table_of_own[];
__global__ void f(Globals g) { g.x[0] = table_of_own[0]; }
"""
CALL = 'import torch, tkjit; print(tkjit.load("own")(torch.zeros(1)).item())'


@pytest.mark.slow
def test_editing_embedded_data_causes_a_miss(fresh, cache_with_runtime, compiler, data, monkeypatch):
    (data / "own.py").write_text(SPEC)
    (data / "own.cu").write_text(SOURCE)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(data))
    assert fresh.run(CALL) == f"{ord('a')}.0\n"
    (data / "table.bin").write_text("xyz")
    assert "<kernels>/table.bin has changed" in fresh.tkjit("why", "own", "--device", "cpu").stdout
    assert fresh.run(CALL) == f"{ord('x')}.0\n"
    assert compiler.compiled == ["launcher", "launcher", "module"]
