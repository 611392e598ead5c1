"""Sources register their own operators, through stand-ins for torch's headers or through torch's stable API."""

from __future__ import annotations

import warnings

import pytest
import torch

from tkjit import ArgumentError, cpp_extension

pytestmark = [
    pytest.mark.compiles,
    pytest.mark.skipif(torch.cuda.is_available(), reason="needs the simulator: run it with CUDA_VISIBLE_DEVICES empty"),
]

SOURCE = """
#include <torch/all.h>
#include <torch/library.h>

__global__ void scale_kernel(const float* x, float* y, float by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
__global__ void outside(float* x) { *reinterpret_cast<float*>(0x123456789000) = 1; }

at::Tensor scale(const at::Tensor& x, double by, const std::optional<at::Tensor>& like) {
    TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
    auto y = torch::empty_like(x);
    const int n = x.numel();
    scale_kernel<<<(n + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), by, n);
    return like ? y.view(like->sizes()) : y;
}
void scale_(at::Tensor& x, double by) { x.copy_(scale(x, by, std::nullopt)); }
void fail(const at::Tensor& x) { outside<<<1, 1>>>(x.data_ptr<float>()); }

std::tuple<at::Tensor, int64_t, std::string> about(
    std::vector<at::Tensor> listed, at::IntArrayRef sizes, std::string name, std::optional<at::ScalarType> dtype,
    std::optional<at::Device> device, bool last, std::optional<int64_t> number) {
    TORCH_CHECK(!listed.empty(), "listed: at least one");
    const auto options = torch::TensorOptions(device.value_or(at::kCPU)).dtype(dtype.value_or(at::kFloat));
    return {torch::zeros(sizes, options), int64_t(listed.size()) + number.value_or(0), name + (last ? "!" : "")};
}
double half_of(double x) { return x / 2; }
std::vector<at::Tensor> half_made(at::Tensor x) { return {x, at::Tensor()}; }
std::vector<at::Tensor> turned(const std::vector<at::Tensor>& given) { return {given.rbegin(), given.rend()}; }

TORCH_LIBRARY(tkjit_test_scaling, m) {
    m.def("scale(Tensor x, float by=2.0, Tensor? like=None) -> Tensor");
    m.impl("scale", torch::kCUDA, &scale);
    m.def("scale_(Tensor(a!) x, float by) -> ()");
    m.def("fail(Tensor x) -> ()");
    m.def("about(Tensor[] listed, int[] sizes, str name, ScalarType? dtype=None, Device? device=None, bool last=True,"
          " int? number=None) -> (Tensor, int, str)", &about);
    m.def("half_of", &half_of);
    m.def("turned", TORCH_FN(turned));
    m.def("half_made", &half_made);
    m.def("negated", [](at::Tensor x) { return x.neg(); });
}
TORCH_LIBRARY_IMPL(tkjit_test_scaling, CUDA, m) {
    m.impl("scale_", &scale_);
    m.impl("fail", &fail);
}
"""


@pytest.fixture(autouse=True)
def no_arch(monkeypatch):
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    path = tmp_path_factory.mktemp("registers") / "scaling.cu"
    path.write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
        cpp_extension.load("scaling", [path], is_python_module=False)
    return torch.ops.tkjit_test_scaling


def test_kernels_of_registered_operators_run_in_the_simulator(ops):
    x = torch.randn(3, 4)
    assert torch.equal(ops.scale(x), 2 * x)
    assert torch.equal(ops.scale(x, by=0.5, like=torch.empty(12)), (x / 2).flatten())
    expected = 3 * x
    ops.scale_(x, 3.0)
    assert torch.equal(x, expected)
    with pytest.raises(RuntimeError, match="a write to address 0x123456789000, where there is no memory"):
        ops.fail(x)
    assert torch.equal(ops.scale(x), 2 * x)


def test_arguments_and_results_of_each_kind(ops):
    made, count, name = ops.about([torch.ones(1)] * 3, [2, 3], "twice", dtype=torch.int16, device="cpu", number=4)
    assert made.dtype == torch.int16 and made.shape == (2, 3) and (count, name) == (7, "twice!")
    made, count, name = ops.about([torch.ones(1)], [], "once", last=False)
    assert made.dtype == torch.float32 and made.shape == () and (count, name) == (1, "once")
    with pytest.raises(RuntimeError, match="listed: at least one"):
        ops.about([], [], "none")


def test_functions_without_a_schema_get_an_inferred_one(ops):
    assert ops.half_of(3.0) == 1.5
    assert str(ops.half_of.default._schema) == "tkjit_test_scaling::half_of(float _0) -> float"
    first, second = torch.ones(1), torch.ones(2)
    assert [each.shape for each in ops.turned([first, second])] == [(2,), (1,)]
    assert torch.equal(ops.negated(first), -first)


def test_calls_release_their_tensors(ops):
    held = torch.ones(4)
    uses = held._use_count()
    ops.scale(held, 1.0, held), ops.about([held], [1], "x"), ops.turned([held])
    with pytest.raises(RuntimeError, match="an undefined tensor"):
        ops.half_made(held)
    assert held._use_count() == uses


def module_of(path, name, factor, defines='m.def("times(Tensor x) -> Tensor", &times);'):
    path.write_text(f"""
#include <torch/extension.h>
at::Tensor times(at::Tensor x) {{ return x.clone().fill_({factor}); }}
TORCH_LIBRARY({name}, m) {{ {defines} }}
""")
    return cpp_extension.load(name, [path], extra_cflags=["-O0"], is_python_module=False)


@pytest.mark.slow  # compiles an extension twice
def test_edited_source_needs_a_restart(tmp_path):
    path, name = tmp_path / "edited.cpp", "tkjit_test_edited"
    loaded = module_of(path, name, 2)
    assert module_of(path, name, 2) == loaded  # unchanged
    with pytest.raises(ArgumentError, match=rf"an earlier version of {name} has registered.*restart Python"):
        module_of(path, name, 3)
    assert torch.ops.tkjit_test_edited.times(torch.ones(1)) == 2


@pytest.mark.slow  # compiles an extension
def test_operator_of_another_library_is_not_registered_again(tmp_path):
    torch.library.define("tkjit_test_taken::times", "(Tensor x) -> Tensor")
    with pytest.raises(
        ArgumentError, match=r"defines the operator tkjit_test_taken::times, which is already registered"
    ):
        module_of(tmp_path / "taken.cpp", "tkjit_test_taken", 2)


@pytest.mark.slow  # compiles an extension twice
def test_failed_registration_is_an_error_and_leaves_no_operators(tmp_path):
    path, name = tmp_path / "wrong.cpp", "tkjit_test_wrong"
    header = f'TORCH_LIBRARY({name}, m) {{ m.def("first(Tensor x) -> Tensor", &times); }}\n'
    header += f'TORCH_LIBRARY_FRAGMENT({name}, m) {{ m.def("second(Tensr x) -> Tensor"); }}\n'
    (tmp_path / "blocks.h").write_text(header)
    path.write_text("""
#include <torch/extension.h>
at::Tensor times(at::Tensor x) { return x; }
#include "blocks.h"
""")
    for _ in range(2):  # the second load runs no initializers, and must fail all the same
        with pytest.raises(ArgumentError, match="cannot register its operators: unknown type specifier"):
            cpp_extension.load(name, [path], is_python_module=False)
    assert not torch._C._jit_get_schemas_for_operator("tkjit_test_wrong::first")
    (tmp_path / "blocks.h").write_text(header.replace("Tensr", "Tensor"))
    cpp_extension.load(name, [path], is_python_module=False)
    assert torch.ops.tkjit_test_wrong.first(torch.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("times(Tensor x, int n) -> Tensor", r"takes \(Tensor\), but its schema declares \(Tensor, int\)"),
        pytest.param(
            "times(Tensor? x) -> Tensor",
            r"takes \(Tensor\), but its schema declares \(Optional\[Tensor\]\)",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "times(Tensor x) -> float", r"returns \(Tensor\), but its schema declares \(float\)", marks=pytest.mark.slow
        ),
    ],
)
def test_function_that_differs_from_its_schema_is_rejected(tmp_path, schema, message):
    with pytest.raises(ArgumentError, match=message):
        module_of(tmp_path / "other.cpp", "tkjit_test_other", 2, f'm.def("{schema}", &times);')
    assert not torch._C._jit_get_schemas_for_operator("tkjit_test_other::times")


@pytest.mark.slow  # compiles an extension
def test_simulator_prefers_the_gpu_implementation(tmp_path):
    path = tmp_path / "both.cpp"
    path.write_text("""
#include <torch/extension.h>
at::Tensor on_cpu(at::Tensor x) { return x.clone().fill_(1); }
at::Tensor on_gpu(at::Tensor x) { return x.clone().fill_(2); }
TORCH_LIBRARY(tkjit_test_both, m) { m.def("both(Tensor x) -> Tensor"); m.def("one(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(tkjit_test_both, CUDA, m) { m.impl("both", &on_gpu); }
TORCH_LIBRARY_IMPL(tkjit_test_both, CPU, m) { m.impl("both", &on_cpu); m.impl("one", &on_cpu); }
""")
    (tmp_path / "kernel.cu").write_text("__global__ void nothing() {}\n")
    sources = [path, tmp_path / "kernel.cu"]
    cpp_extension.load("both", sources, extra_cflags=["-O0"], is_python_module=False)
    assert torch.ops.tkjit_test_both.both(torch.zeros(1)).item() == 2
    assert torch.ops.tkjit_test_both.one(torch.zeros(1)).item() == 1


STABLE = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <cuda_runtime.h>

__global__ void add_one(const float* x, float* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] + 1;
}
torch::stable::Tensor one_more(torch::stable::Tensor x) {
    STD_TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
    auto y = torch::stable::empty_like(x);
    add_one<<<1, 32>>>(x.const_data_ptr<float>(), y.mutable_data_ptr<float>(), x.numel());
    return y;
}
STABLE_TORCH_LIBRARY(tkjit_test_stable, m) { m.def("one_more(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(tkjit_test_stable, CUDA, m) { m.impl("one_more", TORCH_BOX(&one_more)); }
"""


@pytest.mark.slow  # compiles torch's headers
def test_operators_of_torchs_stable_api_run_in_the_simulator(tmp_path):
    path = tmp_path / "stable.cu"
    path.write_text(STABLE)
    cpp_extension.load("stable_operators", [path], extra_cflags=["-O0"], is_python_module=False)
    x = torch.randn(5)
    assert torch.equal(torch.ops.tkjit_test_stable.one_more(x), x + 1)
    wrong = STABLE.replace("tkjit_test_stable", "tkjit_test_unstable").replace(
        "one_more(Tensor x)", "one_more(Tensr x)"
    )
    path.write_text(wrong)
    with pytest.raises(ArgumentError, match="unstable_operators cannot register its operators"):
        cpp_extension.load("unstable_operators", [path], is_python_module=False)


_WITH_GRADIENT = """
#include <ATen/autocast_mode.h>
#include <torch/extension.h>
#include <torch/library.h>

at::Tensor scaled(const at::Tensor& x, double by) {
    C10_LOG_API_USAGE_ONCE("tkjit_guards.scaled");
    static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tkjit_guards::scaled", "");
    return op.typed<decltype(scaled)>().call(x, by);
}
at::Tensor scaled_on_cpu(const at::Tensor& x, double by) { return x * by; }
struct Scaled : torch::autograd::Function<Scaled> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double by) {
        context->saved_data["by"] = by;
        at::AutoDispatchBelowADInplaceOrView guard;  // without it, the call would recurse
        return scaled(x, by);
    }
    static torch::autograd::variable_list backward(
        torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
        return {grads[0] * context->saved_data["by"].toDouble(), at::Tensor()};
    }
};
at::Tensor scaled_with_gradient(const at::Tensor& x, double by) { return Scaled::apply(x, by); }
at::Tensor scaled_in_autocast(const at::Tensor& x, double by) {
    c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::AutocastCPU);
    return scaled(at::autocast::cached_cast(at::kFloat, x, c10::DeviceType::CPU), by).to(x.scalar_type());
}
TORCH_LIBRARY_FRAGMENT(tkjit_guards, m) {
    m.def(TORCH_SELECTIVE_SCHEMA("tkjit_guards::scaled(Tensor x, float by) -> Tensor"));
}
TORCH_LIBRARY_IMPL(tkjit_guards, CPU, m) {
    m.impl(TORCH_SELECTIVE_NAME("tkjit_guards::scaled"), TORCH_FN(scaled_on_cpu));
}
TORCH_LIBRARY_IMPL(tkjit_guards, Autograd, m) {
    m.impl(TORCH_SELECTIVE_NAME("tkjit_guards::scaled"), TORCH_FN(scaled_with_gradient));
}
TORCH_LIBRARY_IMPL(tkjit_guards, AutocastCPU, m) {
    m.impl(TORCH_SELECTIVE_NAME("tkjit_guards::scaled"), TORCH_FN(scaled_in_autocast));
}
"""


@pytest.mark.slow
def test_operator_with_a_gradient_calls_itself_below_autograd():
    cpp_extension.load_inline("tkjit_guards", _WITH_GRADIENT, is_python_module=False)
    scaled = torch.ops.tkjit_guards.scaled
    x = torch.randn(3, requires_grad=True)
    scaled(x, 2.0).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))
    half = torch.randn(3, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        found = scaled(half, 1.1)
    assert found.dtype == torch.bfloat16 and torch.equal(found, (half.float() * 1.1).bfloat16())


@pytest.mark.slow  # compiles an extension
def test_torchscript_keeps_a_call_whose_result_is_unused():
    """An inferred schema does not show that the function writes to its argument."""
    space = "writing_by_jit"
    cpp_extension.load_inline(
        space,
        "at::Tensor fill(at::Tensor x) { x.fill_(3); return x.sum(); }\n"
        f'TORCH_LIBRARY({space}, m) {{ m.def("fill", &fill); }}',
        is_python_module=False,
    )

    def run(x: torch.Tensor) -> torch.Tensor:
        torch.ops.writing_by_jit.fill(x)
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        script = torch.jit.script(run)
    assert script(torch.zeros(2)).tolist() == [3, 3]
