"""A source's ``main`` is not compiled, nor are the kernels that only it launches."""

from __future__ import annotations

import pytest
import torch
from support.define import define
from support.sampling import sample

from tkjit import CompileError
from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.nvcc
HOPPER = gpu_target("90a")
SIGNATURE = '(x: InOut[Tensor, "float32", "N"])'
# only main launches `fill`, and it does so through `benchmark`
KERNELS = """
#include <cstdio>
#include <vector>
template <int D> __global__ void add(float* x) { x[threadIdx.x] += D; }
template <class T> __global__ void fill(T* x) { x[threadIdx.x] = 1; }
template <class T> void benchmark() {
    T* x;
    cudaMalloc(&x, 128);
    fill<T><<<1, 32>>>(x);
    add<7><<<1, 32>>>(x);
    std::puts("a text of main alone");
}
"""
BODY = "{ std::vector<int> sizes{1}; benchmark<float>(); add<9><<<1, 32>>>(nullptr); return 0; }\n"
MAINS = {
    "without parameters": f"int main() {BODY}",
    "with arguments": f"int main(int argc, char** argv) {BODY}",
    "with parameters of no name": f"int main(int, char* []) {BODY}",
    "with attributes": f"int main([[maybe_unused]] int argc, [[maybe_unused]] char** argv) {BODY}",
    "of C": f"int main( void ) {BODY}",
    "for the host": f"__host__ int main() {BODY}",
    "over lines": f"auto\nmain\n(\n) -> int\n{BODY}",
}
# Sources whose main stays a function: in the first, a template could not launch the kernel; in the second, no argument
# can be added to the call.
WHOLE = {
    "a kernel in a lambda": (
        "template <class F> __global__ void run(F f) { f(); }\n"
        "int main() { run<<<1, 1>>>([] __device__ () {}); return 0; }\n"
    ),
    "a call of a method": (
        "struct Loop { __device__ void main(float* x) { *x = 3; } };\n"
        "__global__ void run(float* x) { Loop().main(x); }\n"
    ),
}


def build(loader, source, target=HOPPER):
    kernel = define(source, SIGNATURE, entry="add<2>", grid=1, block="N", args=True)
    return kernel, loader.launcher(kernel.specs[0], Variant(), target)


@pytest.mark.parametrize("main", sample(MAINS, "with attributes"))
def test_kernels_that_only_main_launches_are_not_compiled(loader, main):
    _, entry = build(loader, KERNELS + MAINS[main])
    assert "registers" in entry.manifest and "other_kernels" not in entry.manifest


@pytest.mark.parametrize("main", sample(["with arguments", "of C"], "of C"))
def test_main_in_a_header_is_not_compiled_unless_its_parameters_are_void(loader, tmp_path, main):
    (tmp_path / "harness.impl").write_text(MAINS[main])
    path = tmp_path / "add.cu"
    path.write_text(KERNELS + '#include "harness.impl"\n')
    _, entry = build(loader, path)
    assert ("other_kernels" in entry.manifest) == (main == "of C"), "no parameter can be added to void"


@pytest.mark.parametrize("target", sample(["90a", "cpu"], "cpu"))
@pytest.mark.parametrize("what", WHOLE)
def test_a_main_that_cannot_be_a_template_is_compiled(loader, what, target):
    _, entry = build(loader, KERNELS + WHOLE[what], loader.target("cpu") if target == "cpu" else HOPPER)
    takes_it = (what, target) == ("a kernel in a lambda", "cpu")
    assert ("-DTKJIT_COMPILE_MAIN" in entry.manifest["command"]) == (not takes_it)


def test_nvrtc_accepts_a_main_in_a_header(loader, tmp_path):
    (tmp_path / "harness.h").write_text("int main() { float* x; cudaMalloc(&x, 4); run<<<1, 1>>>(x); }\n")
    path = tmp_path / "run.cu"
    path.write_text('__global__ void run(float* x) { x[0] = 1; }\n#include "harness.h"\n')
    kernel = define(path, SIGNATURE, entry="run", grid=1, block="N", args=True)
    manifest = loader.launcher(kernel.specs[0], Variant(), HOPPER).manifest
    assert "registers" in manifest and "nvrtc" in manifest


def test_main_of_void_in_a_comment_is_ignored(loader):
    _, entry = build(loader, KERNELS + "// int main(void)\n" + MAINS["with arguments"], loader.target("cpu"))
    assert b"a text of main alone" not in entry.shared_object.read_bytes()


@pytest.mark.parametrize("main", sample(MAINS, "with attributes"))
def test_main_is_not_compiled_for_the_cpu(loader, main):
    kernel, entry = build(loader, KERNELS + MAINS[main], loader.target("cpu"))
    assert b"a text of main alone" not in entry.shared_object.read_bytes()
    x = torch.zeros(8)
    kernel(x)
    assert torch.equal(x, torch.full((8,), 2.0))


@pytest.mark.parametrize("target", sample(["90a", "cpu"], "90a"))
def test_an_error_in_main_is_reported_on_its_line(loader, target):
    with pytest.raises(CompileError, match=r'source.cu:1[0-9].*"?nothing|1[0-9].*nothing'):
        build(
            loader, KERNELS + "int main() {\n    nothing();\n}\n", loader.target("cpu") if target == "cpu" else HOPPER
        )
