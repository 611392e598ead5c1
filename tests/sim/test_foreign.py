"""Third-party CUDA programs run on the CPU: host code, launches, dynamic shared memory."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch
from support.define import host_function
from support.simulator.compiled import compile_source

import tkjit
from tkjit import CompileError, InOut, LaunchError, Tensor, ToolchainError
from tkjit.source.adapt import adapt

pytestmark = pytest.mark.compiles
KERNELS = Path(__file__).parents[1] / "support" / "kernels"
# ---- a program


@pytest.fixture(scope="module")
def vector_add(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile vector_add.cu with its main as a function that can be called."""
    path = tmp_path_factory.mktemp("program") / "vector_add.cu"
    path.write_text(
        '#define main program\n#line 1 "vector_add.cu"\n'
        + adapt((KERNELS / "vector_add.cu").read_text())
        + '\nextern "C" __attribute__((visibility("default"))) int run(int argc, char** argv) {\n'
        "    const int status = program(argc, argv);\n    std::fflush(stdout);\n    return status;\n}\n"
    )
    return compile_source(path, path.parent).functions


@pytest.mark.parametrize("n", [1, 50000])
def test_a_program_runs(vector_add, n, capfd):
    arguments = (ctypes.c_char_p * 3)(b"vector_add", str(n).encode(), None)
    assert vector_add.run(2, arguments) == 0
    printed = capfd.readouterr().out.splitlines()
    assert printed[0] == "1 device, warps of 32"
    assert "kernel: 256 threads a block" in printed
    assert printed[-3] == f"{n} elements, timed"
    assert printed[-2] == "cudaErrorInvalidConfiguration, then cudaSuccess"
    assert printed[-1] == "done"


# ---- host functions, through specs


@pytest.mark.slow
@pytest.mark.parametrize("n", [1 << 12, 1000])
def test_templates_with_dynamic_shared_memory_and_two_forms_of_launches(n):
    kernel = host_function(
        KERNELS / "block_sums.cu",
        "sum_blocks",
        '(x: In[Tensor, "float32", "N"], n: int, blocks: int, *, y: Out[Tensor, "float32", "blocks"] = None) -> Tensor',
        fields="x y n blocks",
    )
    x = torch.randn(n, dtype=torch.float32)
    y = kernel(x, n, 4)
    rows = torch.nn.functional.pad(x, (0, -n % 512)).view(-1, 4, 128)
    torch.testing.assert_close(y, rows.sum((0, 2)))


def test_dynamic_shared_memory_in_a_namespace():
    signature = '(x: In[Tensor, "float32", "N"], n: int, *, y: Out[Tensor, "float32", "N"] = None) -> Tensor'
    swap = host_function(KERNELS / "block_sums.cu", "swap", signature, fields="x y n")
    x = torch.arange(256, dtype=torch.float32)
    assert torch.equal(swap(x, 256), x.view(64, 4).flip(0).flatten())
    with pytest.raises(LaunchError, match="the host function returned error 1: invalid argument"):
        swap(-1 - x, 256)


def test_a_launch_of_a_member_and_two_dimensional_shared_memory():
    signature = '(x: In[Tensor, "float64", 8, 8], *, y: Out[Tensor, "float64", 8, 8] = None) -> Tensor'
    transpose = host_function(KERNELS / "block_sums.cu", "transpose", signature)
    x = torch.randn(8, 8, dtype=torch.float64)
    assert torch.equal(transpose(x), x.T)


def test_a_deduced_template_and_the_runtimes_launch_function():
    signature = '(x: In[Tensor, "int32", "N"], n: int, by: int, *, y: Out[Tensor, "int32", "N"] = None) -> Tensor'
    rotate = host_function(KERNELS / "block_sums.cu", "rotate_by", signature, fields="x y n by")
    x = torch.arange(48, dtype=torch.int32)
    assert torch.equal(rotate(x, 48, 5), x.roll(-5))


def test_all_forms_of_launches():
    kernel = host_function(KERNELS / "launch_forms.cu", "launch_forms", '(x: InOut[Tensor, "float32", 88]) -> Tensor')
    x = kernel(torch.zeros(88)).view(11, 8)
    index = torch.arange(8.0)
    expected = [10 * index, 8 + 0 * index, 7 + 0 * index, -1 + 0 * index, 3 + index / 2, 1 + 2 * index, 6 + 0 * index]
    expected += [5 * (index < 4), 6 + 0 * index, 10 + 0 * index, 15 + 0 * index]
    assert torch.equal(x, torch.stack(expected))


def test_a_transpose_with_cooperative_groups():
    kernel = host_function(
        KERNELS / "transpose.cu",
        "transpose",
        '(x: In[Tensor, "float32", "M", "N"], m: int, n: int, *, y: Out[Tensor, "float32", "N", "M"] = None,'
        ' sums: Out[Tensor, "float32", "M"] = None) -> tuple[Tensor, Tensor]',
        fields="x y sums m n",
    )
    x = torch.randn(70, 45)
    y, sums = kernel(x, 70, 45)
    assert torch.equal(y, x.T)
    torch.testing.assert_close(sums, x.sum(1))


def test_a_histogram_with_atomics():
    kernel = host_function(
        KERNELS / "histogram.cu",
        "count",
        '(x: In[Tensor, "int32", "N"], n: int, bin_count: int, *, bins: Out[Tensor, "int32", "bin_count"] = None,'
        ' counts: Out[Tensor, "int32", 5] = None) -> tuple[Tensor, Tensor]',
        fields="x bins counts n bin_count",
    )
    x = torch.from_numpy(np.random.default_rng(2).integers(0, 1000, 5000).astype(np.int32))
    bins, counts = kernel(x, 5000, 100)
    assert torch.equal(bins, torch.bincount(x % 100, minlength=100).int())
    assert torch.equal(counts, torch.bincount(x % 5, minlength=5).int())
    with pytest.raises(LaunchError, match="error 1: invalid argument"):  # more shared memory than a block has
        kernel(x, 5000, 100_000)


def test_a_grid_can_wait_for_itself():
    kernel = host_function(
        KERNELS / "relaxation.cu",
        "relaxation",
        '(values: InOut[Tensor, "float32", "N"], scratch: InOut[Tensor, "float32", "N"], n: int, steps: int)',
    )
    values = torch.randn(1000)
    expected = values.clone()
    for _ in range(6):
        expected = 0.5 * expected + 0.25 * (expected.roll(1) + expected.roll(-1))
    kernel(values, torch.empty(1000), 1000, 6)
    torch.testing.assert_close(values, expected)


# ---- errors

HALTING = """
__global__ void halting(float* x, int last) {
    if (int(threadIdx.x) == last) __trap();  // third line
    x[threadIdx.x] = 1;
}
void unchecked(float* x, int threads, int last) {
    halting<<<1, threads>>>(x, last);
}
cudaError_t checked(float* x, int threads, int last) {
    halting<<<1, threads>>>(x, last);
    cudaError_t error = cudaDeviceSynchronize();
    return error != cudaSuccess && error == cudaPeekAtLastError() ? cudaGetLastError() : cudaGetLastError();
}
"""
HALTING_SIGNATURE = '(x: InOut[Tensor, "float32", "N"], threads: int, last: int)'


@pytest.mark.parametrize("entry, line", [("unchecked", 7), ("checked", 10)])
def test_a_failed_launch_makes_the_call_fail(entry, line):
    kernel = host_function(HALTING, entry, HALTING_SIGNATURE)
    x = torch.zeros(64)
    kernel(x, 64, -1)
    assert x.sum() == 64
    with pytest.raises(
        LaunchError, match=rf"__trap\(\).*thread \(5, 0, 0\) \(inline\.cu:3\); launched at inline\.cu:{line}"
    ):
        kernel(x, 64, 5)
    with pytest.raises(LaunchError, match=rf"a block of \(1025, 1, 1\) threads.*launched at inline\.cu:{line}"):
        kernel(x, 1025, -1)
    kernel(x, 64, -1)  # an earlier call's error does not carry over


FAILING = """
__global__ void failing(int how) {
    assert(how != 0);
    if (how == 1) __trap();
}
void fail(float* codes) {
    for (int how = 0; how < 3; how++) {
        failing<<<1, 32>>>(how);
        codes[how] = cudaDeviceSynchronize();
        if (codes[how] != cudaGetLastError()) codes[how] = -1;
    }
    failing<<<1, 32, 1 << 20>>>(2);
    codes[3] = cudaGetLastError();
    failing<<<1, 2048>>>(2);
    codes[4] = cudaGetLastError();
    dim3 many(100, 100);
    int how = 2;
    void* arguments[] = {&how};
    codes[5] = cudaLaunchCooperativeKernel((void*)failing, many, 32, arguments);
    cudaGetLastError();
    failing<<<1, 32>>>(0);
    codes[6] = strstr(cudaGetErrorString(cudaGetLastError()), "assertion `how != 0` failed") != nullptr;
}
"""


def test_launch_errors_have_the_codes_of_a_gpu():
    codes = torch.zeros(7)
    host_function(FAILING, "fail", '(codes: InOut[Tensor, "float32", 7])')(codes)
    # cudaErrorAssert, LaunchFailure, Success, InvalidValue, InvalidConfiguration, CooperativeLaunchTooLarge
    assert codes.tolist() == [710, 719, 0, 1, 9, 720, 1]


def test_a_launch_of_clusters():
    signature = '(x: InOut[Tensor, "float32", 80])'
    kernel = host_function(KERNELS / "launch_forms.cu", "launch_clusters", signature)
    x = torch.zeros(80)
    kernel(x)
    assert x.tolist() == [4] * 8 + [0] * 72


def test_a_kernel_that_launches_a_kernel_is_rejected_with_its_line():
    source = (
        "__global__ void leaf(float* x) { x[0] = 1; }\n__global__ void root(float* x) {\n    leaf<<<1, 1>>>(x);\n}\n"
    )

    @tkjit.kernel(source, entry="root", args=True, grid=1, block=1)
    def nested(x: InOut[Tensor, "float32", "N"]): ...

    with pytest.raises(LaunchError, match=r"a kernel cannot launch a kernel in the simulator.*\(inline\.cu:3\)"):
        nested(torch.zeros(1))


def rejection(source: str) -> str:
    @tkjit.kernel(source, entry="lacking", args=True, grid=1, block=32)
    def lacking(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    with pytest.raises(ToolchainError) as raised:
        lacking(torch.zeros(1))
    return str(raised.value).splitlines()[0]


KERNEL = "__global__ void lacking(float* x) {\n    unsigned a = 0;\n    BODY\n}\n"
CPU_SOURCE = 'give another source for the CPU with cpu="name.cpp" in the spec'


@pytest.mark.parametrize(
    "body, text",
    [
        (
            "cudaTextureObject_t texture = 0;",
            f"3 needs textures and surfaces, which the simulator does not have; {CPU_SOURCE}",
        ),
    ],
)
def test_a_feature_that_the_simulator_lacks_is_reported_with_its_line(body, text):
    assert rejection(KERNEL.replace("BODY", body)) == f"lacking cannot run on the CPU: inline.cu:{text}"


def test_a_toolkit_header_that_the_simulator_lacks_is_reported_with_its_line():
    text = rejection("// first\n#include <cub/grid/grid_queue.cuh>\n" + KERNEL.replace("BODY", ""))
    assert text == (
        "lacking cannot run on the CPU: inline.cu:2 includes <cub/grid/grid_queue.cuh>, which the simulator has no "
        f"stand-in for; {CPU_SOURCE}"
    )


@pytest.mark.slow
def test_an_unused_asm_is_not_rejected():
    source = 'template <class T> __device__ void never(T x) { asm("bar.sync 0;"); }\n' + KERNEL.replace(
        "BODY", "x[0] = 5;"
    )

    @tkjit.kernel(source, entry="lacking", args=True, grid=1, block=1)
    def harmless(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    assert harmless(torch.zeros(1)).item() == 5

    # an unrelated error is not blamed on the unused asm
    @tkjit.kernel(source.replace("5;", "5"), entry="lacking", args=True, grid=1, block=1)
    def broken(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    with pytest.raises(CompileError, match=r"inline\.cu:4:\d+: error: expected"):
        broken(torch.zeros(1))


def test_only_the_text_for_the_cpu_is_adapted():
    @tkjit.kernel(HALTING, entry="unchecked", args=True, host=True)
    def halting(x: InOut[Tensor, "float32", "N"], threads: int, last: int): ...

    assert HALTING.strip() in halting.render().launcher and HALTING.strip() in halting.render(arch="90a").launcher
    assert "TKJIT_SIM_LAUNCH(halting)(1, threads)(x, last);" in halting.render(arch="cpu").launcher
