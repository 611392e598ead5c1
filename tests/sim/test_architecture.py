"""`__CUDA_ARCH__` and `__CUDACC__` mean the same as under nvcc, or raise an error with the line."""

from pathlib import Path

import pytest
import torch
from support import define

import tkjit
from tkjit import CompileError, LaunchError, ToolchainError

pytestmark = pytest.mark.compiles
KERNELS = Path(__file__).parents[1] / "support" / "kernels"
SOURCE = KERNELS / "architectures.cu"


def host_function(source: Path | str, entry: str, **options) -> tkjit.Kernel:
    return define.host_function(source, entry, '(y: InOut[Tensor, "int32", "N"])', **options)


def line(mark: str) -> int:
    lines = SOURCE.read_text().splitlines()
    (number,) = [i for i, text in enumerate(lines, 1) if text.endswith(f"// MARK {mark}")]
    return number


def test_only_device_code_has_an_architecture():
    y = torch.zeros(14, dtype=torch.int32)
    host_function(SOURCE, "run")(y)
    lines = {1: "around a function", 2: "by a macro", 3: "in code", 4: "in a template", 5: "in either", 6: "in either"}
    lines |= {9: "in a lambda", 12: "in a lambda of the host", 13: "in a constant function"}
    expected = {0: 900, 7: 9, 8: 90, 10: 3 + 5 + 4, 11: 8, **{i: line(mark) for i, mark in lines.items()}}
    assert dict(enumerate(y.tolist())) == dict(sorted(expected.items()))


def test_host_code_cannot_call_a_function_that_is_compiled_for_the_device():
    kernel = host_function(SOURCE, "misuse")
    with pytest.raises(
        LaunchError, match=rf"architectures.cu:{line('in either') - 2}: host code calls a function whose"
    ):
        kernel(torch.zeros(1, dtype=torch.int32))


def rejection(source: str, **options) -> str:
    with pytest.raises(ToolchainError) as raised:
        host_function(source, "run", **options)(torch.zeros(1, dtype=torch.int32))
    return str(raised.value).splitlines()[0].split("cannot run on the CPU: ")[1]


def test_a_macro_that_host_and_device_code_use_is_rejected():
    source = """
#if __CUDA_ARCH__ >= 800 \\
    && 1
#define STAGES 4
#else
#define STAGES 2
#endif
constexpr int bytes = 4 * STAGES;
__global__ void kernel(int* y) { y[0] = bytes; }
void run(int* y) { kernel<<<1, 1, bytes>>>(y); }
"""
    message = rejection(source)
    assert message.startswith(
        "inline.cu:2 depends on __CUDA_ARCH__ in code that nvcc compiles twice and the simulator once"
    )


def test_a_constant_of_a_header_with_two_values_is_rejected(tmp_path):
    header = tmp_path / "stages.h"
    header.write_text("// __CUDA_ARCH__\n#if 0\n#ifdef __CUDA_ARCH__\n#endif\n#endif\nconstexpr int stages = 3;\n")
    source = (
        '#include "stages.h"\n__global__ void kernel(int* y) { y[0] = stages; }\n'
        "void run(int* y) { kernel<<<1, 1>>>(y); }\n"
    )
    y = torch.zeros(1, dtype=torch.int32)
    host_function(source, "run", include_dirs=[tmp_path])(y)
    assert y[0] == 3
    header.write_text(
        "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800\nconstexpr int stages = 2;\n"
        "#else\nconstexpr int stages = 4;\n#endif\n"
    )
    message = rejection(source, include_dirs=[tmp_path])
    assert message.startswith(
        f"{header}:4 depends on __CUDA_ARCH__ in code that nvcc compiles twice and the simulator once"
    )
    # in system headers __CUDA_ARCH__ is undefined
    flags = ["-isystem", str(tmp_path)]
    host_function(source, "run", flags=flags)(y)
    assert y[0] == 2


def test_a_host_function_in_a_kernel_is_rejected_with_its_line(tmp_path):
    (tmp_path / "other.h").write_text("#pragma once\n")
    source = (
        "int twice(int x) { return 2 * x; }\n__global__ void kernel(int* y) {\n"
        "    y[0] = threadIdx.x == 0 ? twice(3) : 1;\n}\n"
        "void run(int* y) { kernel<<<1, 1>>>(y); }\nvoid only(int* y) { y[0] = twice(4); }\n"
    )
    y = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(CompileError, match=r"inline.cu:3:\d+: error: calling a __host__ function\(twice\) from device"):
        host_function(source, "run")(y)
    # a header might have another function of that name, so only the call itself can raise the error
    with_header = '#include "other.h"\n' + source
    with pytest.raises(LaunchError, match=r"device code calls the host function twice.*\(inline.cu:2\)"):
        host_function(with_header, "run", include_dirs=[tmp_path])(y)
    host_function(with_header, "only", include_dirs=[tmp_path])(y)
    assert y[0] == 8
