"""``show`` prints the resources, the PTX and the machine code of a kernel."""

from __future__ import annotations

import re
import time

import pytest

from tkjit.cli import main

pytestmark = pytest.mark.nvcc
KERNEL = """
import tkjit
from tkjit import InOut, Tensor

SOURCE = '''
template <typename T> __global__ void scale(T* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= T(3); }
__global__ void unused(float* x) { x[0] = 1; }
'''
options = dict(entry="scale<T>", args=True, grid=1, block=64, variants={"T": ("float32", "float64")})

@tkjit.kernel(SOURCE, compiler="COMPILER", **options)
def scale(x: InOut[Tensor, "T", "N"], n: int) -> None: ...
"""


@pytest.fixture(params=["nvrtc", pytest.param("nvcc", marks=pytest.mark.slow)])
def compiler(request, tmp_path, monkeypatch) -> str:
    """The compiler of a kernel that ``show scale`` finds."""
    (tmp_path / "scale.py").write_text(KERNEL.replace("COMPILER", request.param))
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    return request.param


def shown(capsys, *options: str) -> str:
    assert main(["show", "scale", "--arch", "90a", *options]) == 0
    return capsys.readouterr().out


def test_resources(compiler, capsys):
    text = shown(capsys, "--resources", "--types", "float64")
    by = r"; by NVRTC \S+" if compiler == "nvrtc" else ""
    first, *others = text.splitlines()
    pattern = rf"scale \(T=float64\) for sm_90a: \d+ registers, 0 B spilled, 0 B static shared memory{by}"
    assert re.fullmatch(pattern, first), first
    assert all(line.startswith("  also in the file: unused(float*): ") for line in others)


def test_ptx(compiler, capsys):
    text = shown(capsys, "--ptx")
    assert ".target sm_90a" in text and "mul.f32" in text and "mul.f64" not in text and "\0" not in text
    assert "mul.f64" in shown(capsys, "--ptx", "--types", "float64")
    assert shown(capsys, "--ptx") == text  # from the cache


@pytest.mark.parametrize("listing", ["--ptx", "--sass"])
def test_the_command_compiles_although_jit_is_disabled(listing, tmp_path, capsys, monkeypatch):
    source = KERNEL.replace("COMPILER", "nvrtc").replace("T(3)", f"T({time.time_ns() % 10**9})")  # not in the cache
    (tmp_path / "scale.py").write_text(source)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    monkeypatch.setenv("TKJIT_JIT", "0")
    assert re.search("(?i)f?mul", shown(capsys, listing))


def test_sass_of_the_kernel_alone(compiler, capsys):
    text = shown(capsys, "--sass")
    assert text.startswith("void scale<float>(float*, int) for sm_90a\n") and "FMUL" in text and "unused" not in text
    assert "DMUL" in shown(capsys, "--sass", "--types", "float64")


def test_a_compile_error_is_reported(tmp_path, monkeypatch, capsys):
    (tmp_path / "scale.py").write_text(KERNEL.replace("x[threadIdx.x] *=", "missing =").replace("COMPILER", "nvrtc"))
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    for option in ("--ptx", "--sass", "--resources"):
        assert main(["show", "scale", "--arch", "90a", option]) == 1
        assert 'identifier "missing" is undefined' in capsys.readouterr().err


def test_sass_without_the_tool(compiler, capsys, monkeypatch):
    monkeypatch.setattr("tkjit.compile.toolchain._from_pypi", lambda tool: None)
    monkeypatch.setattr("tkjit.compile.toolchain.Toolchain.cuda_root_or_none", None)
    monkeypatch.setattr("tkjit.compile.toolchain.Toolchain._which", lambda self, name: None)
    assert main(["show", "scale", "--arch", "90a", "--sass"]) == 1
    assert "no cuobjdump" in capsys.readouterr().err


@pytest.mark.slow
def test_variant_with_several_dtypes(capsys):
    types = "float8_e5m2,float16"
    assert main(["show", "scaled_matmul", "--ptx", "--arch", "90a", "--types", types]) == 0
    shown = capsys.readouterr().out
    assert "e5m2.e5m2" in shown and "cvt.rn.f16x2.f32" in shown


def test_ptx_of_a_kernel_with_configurations(capsys):
    assert main(["show", "gemm", "--ptx", "--arch", "90a", "--types", "bfloat16"]) == 0
    assert "m64n256k16" in capsys.readouterr().out
