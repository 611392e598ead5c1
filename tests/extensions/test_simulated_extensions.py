"""Extensions with kernels, without a GPU: their functions take tensors on the CPU, and the simulator runs kernels."""

from __future__ import annotations

import re

import pytest
import torch
from support.stable_source import SOURCE as STABLE

from tkjit import ArgumentError, LaunchError, ToolchainError, cpp_extension

pytestmark = [
    pytest.mark.compiles,
    pytest.mark.skipif(torch.cuda.is_available(), reason="needs the simulator: run it with CUDA_VISIBLE_DEVICES empty"),
]

SOURCE = """
#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/complex.h>
#include <torch/extension.h>
#include <torch/types.h>

#define HALF2(value) (reinterpret_cast<half2*>(&(value))[0])

template <class T, bool squared>
__global__ void scale_kernel(const T* x, T* y, float by, int n) {
    extern __shared__ float tile[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? static_cast<float>(x[i]) * by : 0;
    __syncthreads();
    if (i < n) y[i] = static_cast<T>(squared ? tile[threadIdx.x] * tile[threadIdx.x] : tile[threadIdx.x]);
}
__global__ void add_pairs(half* a, half* b, half* sum, int n) {
    const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) HALF2(sum[i]) = __hadd2(HALF2(a[i]), HALF2(b[i]));
}
__global__ void outside(float*) { *reinterpret_cast<float*>(0x123456789000) = 1; }  // not a mapped address

// a macro defines the functions, as in many sources
#define DEFINE_SCALE(name, squared)                                                                      \\
    torch::Tensor name(torch::Tensor x, double by, const c10::optional<torch::Tensor>& like) {           \\
        TORCH_CHECK(x.is_cuda() && x.device().is_cuda(), "x must be a CUDA tensor");                     \\
        const at::cuda::OptionalCUDAGuard guard(device_of(x));                                           \\
        auto y = torch::empty({x.numel()}, torch::TensorOptions().dtype(x.scalar_type()).device(torch::kCUDA)); \\
        const int n = x.numel(), threads = 64;                                                           \\
        AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), #name, [&] {          \\
            auto stream = at::cuda::getCurrentCUDAStream();                                              \\
            scale_kernel<scalar_t, squared>                                                              \\
                <<<(n + threads - 1) / threads, threads, threads * sizeof(float), stream>>>(             \\
                    x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), float(by), n);                       \\
        });                                                                                              \\
        C10_CUDA_KERNEL_LAUNCH_CHECK();                                                                  \\
        return y.view(like ? like->sizes() : x.sizes());                                                 \\
    }
DEFINE_SCALE(scaled, false)
DEFINE_SCALE(squared, true)

namespace pairs {
void add(torch::Tensor a, torch::Tensor b, torch::Tensor sum) {
    const int n = a.size(0);
    add_pairs<<<(n / 2 + 31) / 32, 32>>>(reinterpret_cast<half*>(a.data_ptr()), reinterpret_cast<half*>(b.data_ptr()),
                                         reinterpret_cast<half*>(sum.data_ptr()), n);
}
}  // namespace pairs
void fail(torch::Tensor x) { outside<<<1, 1>>>(x.data_ptr<float>()); }

template <class T> struct Turned { T by; };
struct Turns {
    using Turned = Turned<c10::complex<float>>;  // g++ rejects this, and nvcc does not
    Turned turned;
};
__global__ void turn_kernel(const c10::complex<float>* x, c10::complex<float>* y, Turns turns) {
    y[threadIdx.x] = std::conj(x[threadIdx.x]) * std::exp(turns.turned.by) + std::norm(x[threadIdx.x]);
}
torch::Tensor turned(torch::Tensor x) {
    using Complex = c10::complex<float>;
    auto y = torch::empty_like(x);
    turn_kernel<<<1, x.numel()>>>(x.data_ptr<Complex>(), y.data_ptr<Complex>(), Turns{{Complex(0, 1)}});
    return y;
}

template <class T>
__global__ void sum_kernel(const T* x, T* sum, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) gpuAtomicAdd(sum, x[i]);
}
torch::Tensor sum_of(torch::Tensor x) {
    auto sum = torch::zeros({1}, x.options());
    const auto add = [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        sum_kernel<T><<<1, 32>>>(x.data_ptr<T>(), sum.data_ptr<T>(), x.numel());
    };
    switch (x.scalar_type()) {
        case at::kComplexFloat: add(static_cast<c10::complex<float>*>(nullptr)); break;
        case at::kHalf: add(static_cast<at::Half*>(nullptr)); break;
        case at::kLong: add(static_cast<int64_t*>(nullptr)); break;
        default: add(static_cast<float*>(nullptr));
    }
    return sum;
}
"""


@pytest.fixture(autouse=True)
def no_arch(monkeypatch):
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)


def load(tmp_path_factory, name, source, **options):
    path = tmp_path_factory.mktemp(name) / "source.cu"
    path.write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
        return cpp_extension.load(f"simulated_{name}", path, **options)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return load(tmp_path_factory, "scale", SOURCE, extra_cuda_cflags=["-O0", "--use_fast_math", "-std=c++17"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_kernels_run_on_the_cpu(module, dtype):
    x = torch.randn(5, 33).to(dtype)
    assert torch.allclose(module.scaled(x, 2.0, None), 2 * x)
    assert torch.allclose(module.squared(x, 1.0, like=torch.empty(33, 5)).reshape(5, 33), x * x, rtol=1e-2)
    a, b, total = torch.randn(3, 66, dtype=torch.float16)
    module.add(a, b, total)
    assert torch.equal(total, a + b)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float16, torch.int64, torch.float32])
def test_atomic_sums_of_torchs_types(module, dtype):
    x = torch.arange(-3, 50).to(dtype) * (1 + 2j if dtype.is_complex else 1)
    assert torch.equal(module.sum_of(x), x.sum().reshape(1))


def test_functions_of_torchs_complex_numbers(module):
    x = torch.randn(20, dtype=torch.complex64)
    assert torch.allclose(module.turned(x), x.conj() * torch.tensor(1j).exp() + x.abs() ** 2)


def test_docstrings_are_schemas(module):
    assert module.scaled.__doc__ == "scaled(Tensor x, float by, Tensor? like) -> Tensor"
    assert module.add.__doc__ == "add(Tensor(a!) a, Tensor(b!) b, Tensor(c!) sum) -> ()"


def test_failures_in_kernels_are_errors(module):
    with pytest.raises(LaunchError, match="a write to address 0x123456789000, where there is no memory"):
        module.fail(torch.ones(4))
    assert torch.equal(module.scaled(torch.ones(4), 1.0, None), torch.ones(4))
    with pytest.raises(NotImplementedError, match='"scaled" not implemented for'):
        module.scaled(torch.ones(4, dtype=torch.int32), 1.0, None)


@pytest.mark.slow  # compiles an extension twice
def test_edited_source_is_rebuilt(tmp_path):
    path = tmp_path / "fill.cu"
    text = """#include <torch/extension.h>
__global__ void fill_kernel(float* x) { x[threadIdx.x] = 1; }
void fill(torch::Tensor x) { fill_kernel<<<1, 4>>>(x.data_ptr<float>()); }
"""
    for value in (1, 2):
        path.write_text(text.replace("= 1", f"= {value}"))
        x = torch.zeros(4)
        cpp_extension.load("edited_fill", path).fill(x)
        assert x.tolist() == [value] * 4


@pytest.mark.slow
def test_error_names_an_instruction_that_the_simulator_lacks(tmp_path):
    path = tmp_path / "asm.cu"
    path.write_text(
        "#include <torch/extension.h>\n"
        '__global__ void k(int* x) { asm volatile("frobnicate.b32 %0, 1;" : "=r"(*x)); }\n'
        "void f(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<int>()); }\n"
    )
    module = cpp_extension.load("asm_only", path)
    with pytest.raises(LaunchError, match="frobnicate"):
        module.f(torch.zeros(1, dtype=torch.int32))


@pytest.fixture(scope="module")
def stable(tmp_path_factory):
    return load(tmp_path_factory, "stable", STABLE)


@pytest.mark.slow  # compiles an extension
def test_source_for_torchs_stable_api(stable):
    a, b = torch.randn(2, 5, 33)
    stable.add(out := torch.empty_like(a), a, b, "add", None)
    assert torch.equal(out, a + b)
    stable.add(out := torch.empty_like(a).half(), a.half(), None, "add", torch.float16)
    assert torch.equal(out, a.half() + 1)
    assert torch.equal(stable.one_more(a, [5, 33]), a + 1)
    assert stable.add.__doc__ == "add(Tensor(a!) out, Tensor a, Tensor? b, str name, ScalarType? dtype) -> ()"
    for arguments, error, text in [
        ((out, a[0], None, "sum", None), RuntimeError, "sum: expected 2 dims"),
        ((out, a, None, "sum", torch.int8), RuntimeError, "sum: another dtype"),
        ((out, a, None, "sum", 3), TypeError, "dtype: expected torch.dtype | None, got int"),
        ((out, None, None, "sum", None), TypeError, "a: expected Tensor, got NoneType"),
        ((out, a.int(), None, "sum", None), RuntimeError, "not implemented for 'Int'"),
    ]:
        with pytest.raises(error, match=re.escape(text)):
            stable.add(*arguments)


def test_source_that_needs_torchs_own_headers_cannot_run_on_the_cpu(tmp_path):
    path = tmp_path / "softmax.cu"
    path.write_text(
        "#include <torch/extension.h>\ntorch::Tensor f(torch::Tensor x) { return torch::nn::Linear(3, 4)(x); }\n"
    )
    with pytest.raises(ToolchainError, match=r"cannot run on the CPU: .*:\d+ needs Linear from torch's own headers"):
        cpp_extension.load("only_for_gpus", path)


def test_one_of_several_sources_needs_torchs_own_headers(tmp_path):
    kernels, bindings = tmp_path / "kernels.cu", tmp_path / "bindings.cpp"
    kernels.write_text(
        "#include <torch/extension.h>\n__global__ void k() {}\nvoid f(torch::Tensor x) { k<<<1, 1>>>(); }\n"
    )
    bindings.write_text("#include <torch/extension.h>\nvoid g(at::TensorIterator& given) {}\n")
    with pytest.raises(ToolchainError, match=r"cannot run on the CPU: .*:\d+ needs TensorIterator from torch's own"):
        cpp_extension.load("mixture", [kernels, bindings])


@pytest.mark.skipif(torch.version.cuda is not None, reason="needs a torch that is built for the CPU")
def test_source_for_gpus_that_needs_torchs_own_headers_needs_a_cuda_build_of_torch(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0a")
    path = tmp_path / "frontend.cu"
    path.write_text("#include <torch/extension.h>\nvoid f(torch::Tensor x) { torch::nn::Linear(3, 4)(x); }\n")
    with pytest.raises(ToolchainError, match=r"frontend\.cu:2 needs Linear .* need a CUDA build of torch"):
        cpp_extension.load("frontend", path)


@pytest.mark.slow
def test_headers_with_inline_ptx_and_architecture_checks(tmp_path):
    (tmp_path / "lanes.h").write_text(
        "__device__ inline int lane() {\n"
        "    int found;\n"
        '    asm volatile("mov.u32 %0, %laneid;" : "=r"(found));\n'
        "    return found;\n"
        "}\n"
        "__device__ inline int generation() {\n"
        "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800\n"
        "    return 100;\n"
        "#else\n"
        "    return 10;\n"
        "#endif\n"
        "}\n"
        "inline int on_host() {\n"
        "#ifdef __CUDA_ARCH__\n"
        "    return 1;\n"
        "#else\n"
        "    return 2;\n"
        "#endif\n"
        "}\n"
    )
    source = """
    #include <torch/extension.h>
    #include "lanes.h"
    __global__ void k(int* x) { x[threadIdx.x] = lane() + generation(); }
    int f(torch::Tensor x) {
        k<<<1, 32>>>(x.data_ptr<int>());
        return on_host();
    }
    """
    path = tmp_path / "lanes.cu"
    path.write_text(source)
    x = torch.zeros(32, dtype=torch.int32)
    assert cpp_extension.load("with_lanes", path).f(x) == 2
    assert x.tolist() == list(range(100, 132))


@pytest.mark.slow  # compiles an extension
def test_curand_headers_are_found(tmp_path, monkeypatch):
    (tmp_path / "curand_kernel.h").write_text('#include "curand_asks.h"\n')
    (tmp_path / "curand_asks.h").write_text(
        "#ifdef __CUDA_ARCH__\n__device__ inline int drawn() { return 7; }\n#endif\n"
    )
    monkeypatch.setenv("CURAND_ROOT", str(tmp_path))
    source = """
#include <curand_kernel.h>
#include <torch/extension.h>
__global__ void draw(int* x) { x[threadIdx.x] = drawn(); }
void draw_into(torch::Tensor x) { draw<<<1, 4>>>(x.data_ptr<int>()); }
"""
    missing = source.replace("curand_kernel.h", "curand_missing.h")
    with pytest.raises(
        ToolchainError, match=r"curand_missing\.h is a header of cuRAND; set CURAND_ROOT, or install it"
    ):
        cpp_extension.load_inline("draws", "void draw_into(torch::Tensor x);", missing, functions=["draw_into"])
    x = torch.zeros(4, dtype=torch.int32)
    cpp_extension.load_inline("draws", "void draw_into(torch::Tensor x);", source, functions=["draw_into"]).draw_into(x)
    assert x.tolist() == [7] * 4


def test_sources_without_functions_are_rejected(tmp_path):
    path = tmp_path / "empty.cpp"
    path.write_text("int f(int n) { return n; }\n")
    with pytest.raises(ArgumentError, match="no PYBIND11_MODULE, and no function of its sources takes"):
        cpp_extension.load("empty_module", path)


@pytest.mark.slow  # compiles extensions
@pytest.mark.parametrize(("asked", "value"), [("", 900), pytest.param("80", 800, marks=pytest.mark.slow)])
def test_simulator_models_the_requested_architecture(monkeypatch, asked, value):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", asked)
    source = """
    #include <torch/extension.h>
    __global__ void which_kernel(int* x) { *x = __CUDA_ARCH__; }
    torch::Tensor which(torch::Tensor x) { which_kernel<<<1, 1>>>(x.data_ptr<int>()); return x; }
    """
    module = cpp_extension.load_inline(
        f"which_{value}", "torch::Tensor which(torch::Tensor x);", [source], functions=["which"]
    )
    assert module.which(torch.zeros(1, dtype=torch.int32)).item() == value
