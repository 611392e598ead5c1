"""Extensions with kernels that are compiled for a GPU. They import on any build of torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from cuda.pathfinder import find_nvidia_binary_utility
from support.stable_source import SOURCE as STABLE

from tkjit import cpp_extension
from tkjit.errors import CompileError
from tkjit.extensions.stable_abi import unstable_symbols

# load warns on a machine without a GPU
pytestmark = [pytest.mark.nvcc, pytest.mark.filterwarnings("ignore:.*has no GPU that torch can use")]

SOURCE = """
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

template <class T>
__global__ void add_kernel(const T* a, const T* b, T* sum, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = static_cast<float>(a[i]) + static_cast<float>(b[i]);
}
torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.is_cuda(), "a must be a CUDA tensor");
    const at::cuda::OptionalCUDAGuard guard(device_of(a));
    auto sum = torch::empty_like(a);
    const int n = a.numel();
    AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, a.scalar_type(), "add", [&] {
        add_kernel<scalar_t><<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
            a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), sum.data_ptr<scalar_t>(), n);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return sum;
}
"""


@pytest.fixture(autouse=True)
def arch(monkeypatch):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0a")


def test_module_with_kernels_imports_without_a_gpu(tmp_path):
    path = tmp_path / "add.cu"
    path.write_text(SOURCE + 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add", &add); }\n')
    module = cpp_extension.load("add_kernels", path)
    with pytest.raises(RuntimeError, match="a must be a CUDA tensor"):
        module.add(torch.ones(3), torch.ones(3))


DECLARED = "torch::Tensor add(torch::Tensor a, torch::Tensor b);"


@pytest.mark.slow  # compiles an extension for both devices
def test_listed_function_takes_tensors_on_either_device():
    module = cpp_extension.load_inline("add_inline", DECLARED, SOURCE, functions={"add": "A sum."})
    assert module.add.__doc__.endswith("-> torch.Tensor\n\nA sum.\n") and module.add.__name__ == "add"
    a, b = torch.randn(300), torch.randn(300)
    assert torch.equal(module.add(a, b), a + b)  # in the simulator
    assert torch.equal(module.add(a.half(), b.half()), a.half() + b.half())
    if not torch.cuda.is_available():
        with pytest.raises(Exception, match=r"CUDA|add"):
            module.add(a.to("meta"), b.to("meta"))


@pytest.mark.slow  # compiles one more extension for both devices
def test_function_that_queries_the_device_keeps_its_own_cpu_code():
    source = SOURCE.replace("TORCH_CHECK", "if (!a.is_cuda()) return a.neg();\n    TORCH_CHECK")
    module = cpp_extension.load_inline("add_branching", DECLARED, source, functions=["add"])
    a = torch.randn(3)
    assert torch.equal(module.add(a, a), -a)


@pytest.mark.slow  # nvcc reads torch's headers
def test_source_for_torchs_stable_api(tmp_path):
    path = tmp_path / "stable.cu"
    path.write_text(STABLE)
    module = cpp_extension.load("nvcc_stable", path)
    with pytest.raises(RuntimeError, match="expected 2 dims"):
        module.add(torch.ones(3), torch.ones(3), None, "add", None)
    assert module.one_more(torch.ones(3, 3), sizes=[3, 3]).tolist() == [[2, 2, 2]] * 3  # in the simulator
    if not torch.cuda.is_available():  # torch's device guard or its stream raises the error
        with pytest.raises(RuntimeError, match=r"CUDA|accelerator|API call failed"):
            module.one_more(torch.ones(3, 3, device="meta"), [3, 3])


@pytest.mark.slow
def test_unknown_nvcc_flag_is_reported():
    with pytest.raises(CompileError, match="Unknown option '--no-such-flag'"):
        cpp_extension.load_inline(
            "unknown_flag", "void f();", "void f() {}", functions=["f"], extra_cuda_cflags=["--no-such-flag"]
        )


@pytest.mark.slow  # compiles three sources
def test_kernels_can_call_device_functions_in_other_sources(tmp_path):
    (tmp_path / "first.cu").write_text("__device__ int twice(int n) { return 2 * n; }\n")
    (tmp_path / "second.cu").write_text(
        "#include <torch/extension.h>\n"
        "__device__ int twice(int n);\n"
        "__global__ void k(int* x) { *x = twice(*x); }\n"
        "void f(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<int>()); }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }\n'
    )
    sources = [tmp_path / "first.cu", tmp_path / "second.cu"]
    assert cpp_extension.load("device_linked", sources, extra_cuda_cflags=["-dc"]).f


@pytest.mark.slow  # compiles an extension
def test_sources_can_reuse_names_of_driver_functions(tmp_path):
    path = tmp_path / "maps.cu"
    path.write_text("""
    #include <cuda.h>
    #include <cudaTypedefs.h>
    #include <torch/extension.h>

    using Encode = decltype(&cuTensorMapEncodeTiled);
    template <CUtensorMapSwizzle swizzle>
    CUresult encode(CUtensorMap* map, void* data) {  // the driver's function has a parameter named swizzle as well
        const cuuint64_t size[] = {4}, stride[] = {16};
        const cuuint32_t box[] = {4}, step[] = {1};
        return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, data, size, stride, box, step,
                                      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }
    bool own() {
        const auto cuTensorMapEncodeTiled = PFN_cuTensorMapEncodeTiled_v12000(nullptr);
        return Encode(nullptr) == cuTensorMapEncodeTiled;
    }
    void f(torch::Tensor x) {
        CUtensorMap map;
        encode<CU_TENSOR_MAP_SWIZZLE_NONE>(&map, x.data_ptr());
    }
    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
        m.def("own", &own);
        m.def("f", &f);
    }
    """)
    module = cpp_extension.load("tensor_maps", path)
    assert module.own()
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="cuTensorMapEncodeTiled is not available from the CUDA driver"):
            module.f(torch.zeros(4))


def listed_code(shared_object: Path, kind: str) -> set[str]:
    """The architectures for which a shared object has code of a kind, ``elf`` or ``ptx``."""
    tool = find_nvidia_binary_utility("cuobjdump")
    assert tool is not None, "install nvidia-cuda-cuobjdump (make test does)"
    listed = subprocess.run([tool, f"--list-{kind}", str(shared_object)], capture_output=True, text=True, check=False)
    return set(re.findall(r"sm_\d+a?", listed.stdout))


@pytest.mark.parametrize(
    ("listed", "flags", "elf", "ptx"),
    [
        ("8.0;9.0a+PTX", [], {"sm_80", "sm_90a"}, {"sm_90a"}),
        # as with torch, the user's flags win
        pytest.param("9.0a", ["-gencode", "arch=compute_80,code=sm_80"], {"sm_80"}, set(), marks=pytest.mark.slow),
    ],
)
def test_code_for_each_architecture(tmp_path, monkeypatch, listed, flags, elf, ptx):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", listed)
    path = tmp_path / "one.cu"
    path.write_text("__global__ void one(float* x) { *x = 1; }\nvoid run(float* x) { one<<<1, 1>>>(x); }\n")
    cpp_extension.load("one", path, extra_cuda_cflags=flags, build_directory=tmp_path, is_python_module=False)
    assert listed_code(tmp_path / "one.so", "elf") == elf
    assert listed_code(tmp_path / "one.so", "ptx") == ptx


@pytest.mark.slow  # compiles a wheel for two architectures
def test_wheel_with_kernels(tmp_path, monkeypatch):
    """nvcc compiles the wheel's kernels for two architectures. The argument checks run even without a GPU."""
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0;9.0a")
    setup = """
        from setuptools import setup
        from tkjit.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension
        assert CUDA_HOME
        setup(
            name="adding",
            ext_modules=[CUDAExtension("adding", ["add.cu"], extra_compile_args={"cxx": [], "nvcc": ["-O3"]})],
            cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
        )
    """
    (tmp_path / "setup.py").write_text(dedent(setup))
    (tmp_path / "add.cu").write_text(SOURCE + 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add", &add); }\n')
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=tmp_path, check=True)
    module = tmp_path / "adding.abi3.so"
    assert listed_code(module, "elf") == {"sm_80", "sm_90a"}
    assert [*unstable_symbols(module)] == []
    code = "import sys; sys.modules['tkjit'] = None; import torch, adding; adding.add(torch.ones(3), torch.ones(3))"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "RuntimeError: a must be a CUDA tensor" in run.stderr
