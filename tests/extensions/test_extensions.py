"""Sources written for torch's C++ API, compiled with tkjit's stand-ins for its headers."""

from __future__ import annotations

import ctypes
import gc
import sys
import warnings
from pathlib import Path

import pytest
import torch

from tkjit import ArgumentError, CompileError, TkjitWarning, ToolchainError, cpp_extension
from tkjit.cli import main
from tkjit.extensions.fallback import lacking_in

pytestmark = pytest.mark.compiles

SOURCE = """
#include <torch/extension.h>

torch::Tensor scaled(const torch::Tensor& x, double factor, c10::optional<torch::Tensor> plus) {
    TORCH_CHECK(x.dim() == 2, "x: expected 2 dims, got ", x.dim());
    auto y = torch::empty_like(x);
    const float* from = x.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); ++i)
        y.data_ptr<float>()[i] = factor * from[i] + (plus ? plus->data_ptr<float>()[i] : 0);
    return y;
}
std::tuple<int64_t, std::vector<int64_t>, std::string> about(at::Tensor x) {
    return {x.size(-1), x.strides().vec(), c10::str(x.options().dtype())};
}
void fill(torch::Tensor x, std::vector<int64_t> values, bool negative) {
    AT_DISPATCH_ALL_TYPES(x.scalar_type(), "fill", [&] {
        const int sign = negative ? -1 : 1;
        for (size_t i = 0; i < values.size(); ++i) x.data_ptr<scalar_t>()[i] = scalar_t(sign * values[i]);
    });
}
std::vector<float> in_order(torch::Tensor x) {
    x = x.contiguous();
    x = x.view({-1}).to(torch::kCPU);
    return {x.data_ptr<float>(), x.data_ptr<float>() + x.size(0)};
}
int number(torch::Tensor x) { return int(x.scalar_type()); }
std::vector<at::Tensor> both(const std::vector<at::Tensor>& given) { return {given.at(1), given.at(0)}; }
torch::Tensor of_kind(at::ScalarType dtype, at::Device device) {
    return torch::empty({1}, torch::TensorOptions(device).dtype(dtype));
}
uint8_t narrow(uint8_t value) { return value; }
torch::Tensor made(int64_t rows) {
    return torch::zeros({rows, 3}, torch::TensorOptions().dtype(torch::kInt64).device(torch::kCPU)).view({3, 1, -1});
}

torch::Tensor converted(torch::Tensor x) {
    auto [greatest, at] = torch::max(x, 0);
    const int first = greatest.to(torch::kInt).item().to<int>();
    auto y = torch::full({2, 2}, first, x.options()).to(torch::kHalf);
    const int last = int(y.to(torch::kLong).data_ptr<int64_t>()[3]);
    return torch::tensor(std::vector<int>{first, at.item<int>(), int(y.numel()) * last}, x.options());
}

std::vector<at::Tensor> views(const at::Tensor& x) {
    return {x.transpose(0, -1), x.permute({2, 0, 1}), x.unsqueeze(1), x.unsqueeze(-1), x.unsqueeze(1).squeeze(1),
            x.narrow(1, 1, 2), x.slice(2, 1, -1, 2), x.select(1, -1), x[1], x[0][0].expand({3, -1}), x.flatten(1),
            x[0].t(), x.slice(1, 5, 9), x.view_as(x)};
}
std::vector<at::Tensor> computed(const at::Tensor& x) {
    auto [values, order] = x.sort(-1, /*descending=*/true);
    return {x.sum(), x.sum({0, -1}), x.sum({1}, true), values, order, x + x, x - x * x, x / (x.abs() + x * x),
            x.max(), x.min(), x.abs().sqrt(), torch::matmul(x, x.transpose(1, 2)), std::get<1>(torch::min(x, 1)),
            x.clone().add_(x), std::get<0>(x.sort(true, 1, false)), torch::cat({x, x.neg()}, 1), torch::stack({x, x}),
            x.sigmoid().tanh().exp(), x.index_select(1, std::get<1>(torch::max(x[0], 0))), x.chunk(2, 1)[1]};
}
double traced(const at::Tensor& x) {
    const auto rows = x.accessor<float, 2>();
    const auto packed = x.packed_accessor32<float, 2, torch::RestrictPtrTraits>();
    double sum = 0;
    for (int i = 0; i < rows.size(0); ++i) sum += rows[i][i] + packed[i][packed.size(1) - 1 - i];
    return sum;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("views", &views);
    m.def("computed", &computed);
    m.def("traced", &traced);
    m.def("scaled", &scaled, "A scaled tensor.", py::arg("x"), py::arg("factor") = 2.0, py::arg("plus") = std::nullopt);
    m.def("about", &about);
    m.def("fill", &fill);
    m.def("number", &number);
    m.def("both", &both);
    m.def("narrow", &narrow);
    m.def("made", &made);
    m.def("of_kind", &of_kind);
    m.doc() = "Functions on the CPU.";
    m.def("in_order", &in_order);
    m.def("converted", &converted);
    m.def("twice", [](int64_t n) { return 2 * n; });
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("extension") / "host.cpp"
    path.write_text(SOURCE)
    return cpp_extension.load("host_functions", [path], extra_cflags=["-O0"])


def test_tensors_and_defaults(module):
    x = torch.randn(3, 4)
    assert torch.equal(module.scaled(x), 2 * x)
    assert torch.allclose(module.scaled(x, plus=x, factor=0.5), 1.5 * x)
    assert module.scaled.__doc__.startswith(
        "scaled(x: torch.Tensor, factor: float = 2.0, plus: Tensor | None = None) -> "
    )
    assert module.scaled.__doc__.endswith("\n\nA scaled tensor.\n")
    assert module.about(torch.ones(2, 5, dtype=torch.float16).t()) == (2, [1, 5], "c10::Half")
    first, second = torch.ones(1), torch.zeros(2)
    again = module.both([first, second])
    assert again[0].data_ptr() == second.data_ptr() and again[1].shape == (1,)
    assert module.made(2).tolist() == [[[0, 0]], [[0, 0]], [[0, 0]]]
    assert module.twice(4) == 8
    assert module.of_kind(torch.float16, "cpu").dtype == module.of_kind(torch.float16, torch.device("cpu")).dtype
    assert module.in_order(torch.arange(6.0).reshape(2, 3).t()) == [0, 3, 1, 4, 2, 5]
    assert module.in_order(torch.arange(6.0).reshape(3, 2)[1:]) == [2, 3, 4, 5]
    assert module.__doc__ == "Functions on the CPU."
    converted = module.converted(torch.tensor([1.0, 7.0, 2.0]))
    assert converted.dtype == torch.float32 and converted.tolist() == [7, 1, 28]


@pytest.mark.parametrize("first", [0, 1])  # with 1, x has a storage offset
def test_views(module, first):
    x = torch.randn(2 + first, 3, 4)[first:]
    expected = [x.transpose(0, -1), x.permute(2, 0, 1), x.unsqueeze(1), x.unsqueeze(-1), x, x.narrow(1, 1, 2)]
    expected += [x[:, :, 1:-1:2], x.select(1, -1), x[1], x[0][0].expand(3, -1), x.flatten(1), x[0].t(), x[:, 5:9], x]
    for got, view in zip(module.views(x), expected, strict=True):
        assert got.shape == view.shape and torch.equal(got, view)
        assert got.numel() == 0 or got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    with pytest.raises(RuntimeError, match=r"permute.*input.dim\(\) = 2 is not equal to len\(dims\) = 3"):
        module.views(x[0])


def test_operators_of_torch(module):
    x = torch.randn(2, 3, 4)
    values, order = x.sort(-1, descending=True)
    expected = [
        *(x.sum(), x.sum([0, -1]), x.sum(1, keepdim=True), values, order, x + x, x - x * x, x / (x.abs() + x * x)),
        *(x.max(), x.min(), x.abs().sqrt(), x @ x.transpose(1, 2), x.min(1).indices, 2 * x, x.sort(1).values),
        *(torch.cat([x, -x], 1), torch.stack([x, x]), x.sigmoid().tanh().exp(), x[:, x[0].argmax(0)], x.chunk(2, 1)[1]),
    ]
    for got, value in zip(module.computed(x), expected, strict=True):
        assert got.dtype == value.dtype and torch.allclose(got, value)
    square = torch.randn(4, 4).t()
    assert module.traced(square) == pytest.approx(float(square.double().trace() + square.double().fliplr().trace()))
    with pytest.raises(RuntimeError, match="expected 2 dims but tensor has 3"):
        module.traced(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int8, torch.int64, torch.uint8])
def test_dispatch_macro_handles_each_dtype(module, dtype):
    x = torch.ones(2, dtype=dtype)
    module.fill(x, [5, 7], False)
    assert x.tolist() == [5, 7]


DTYPES = (
    "uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 bool"
    " float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz float8_e8m0fnu"
).split()


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_numbers_match_torch(module, name):
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    known = getattr(library, f"aoti_torch_dtype_{name}")()
    assert module.number(torch.empty(1, dtype=getattr(torch, name))) == known


def test_wrong_arguments_are_reported(module):
    x = torch.ones(2, 2)
    for call, error, text in [
        (lambda: module.scaled(3), TypeError, r"scaled\(\): x: expected Tensor, got int"),
        (lambda: module.scaled(), TypeError, "x is missing"),
        (lambda: module.scaled(x, x=x), TypeError, "x twice"),
        (lambda: module.scaled(x, other=1), TypeError, "no such argument"),
        (lambda: module.scaled(x, 1.0, x, x), TypeError, "takes 3 arguments, but 4"),
        (lambda: module.scaled(x[0]), RuntimeError, "x: expected 2 dims, got 1"),
        (lambda: module.scaled(x.double()), RuntimeError, "expected scalar type Float but found Double"),
        (lambda: module.fill(x.bool(), [1], False), NotImplementedError, "\"fill\" not implemented for 'Bool'"),
        (lambda: module.fill(x, [1.5], False), TypeError, r"expected list\[int\], got list"),
        (lambda: module.fill(x, [2**64], False), OverflowError, "fit|big"),
        (lambda: module.narrow(256), OverflowError, "256 does not fit"),
        (lambda: module.narrow(-1), OverflowError, "fit"),
        (lambda: module.of_kind("float16", "cpu"), TypeError, "expected torch.dtype, got str"),
        (lambda: module.of_kind(torch.float16, 0), TypeError, "expected torch.device, got int"),
        (lambda: module.both([x]), IndexError, "range"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_calls_leak_no_references(module):
    x = torch.ones(4, 4)
    before = sys.getrefcount(x)
    for _ in range(100):
        module.scaled(x, plus=x)
        with pytest.raises(RuntimeError):
            module.scaled(x[0])
    gc.collect()
    assert sys.getrefcount(x) == before


@pytest.mark.slow  # compiles an extension
def test_load_inline(module):
    text = "torch::Tensor add(torch::Tensor a, torch::Tensor b) { return a.clone().copy_(b); }"
    inline = cpp_extension.load_inline("inline_add", text, functions={"add": 'A "sum".\n'})
    assert inline.add(torch.zeros(2), torch.ones(2)).tolist() == [1, 1]
    assert inline.add.__doc__ == 'add(arg0: torch.Tensor, arg1: torch.Tensor) -> torch.Tensor\n\nA "sum".\n\n'


def test_cached_extension_loads_without_compiling(tmp_path, fresh):
    path = tmp_path / "kept.cpp"
    source = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", [](int64_t n) { return 2 * n; }); }\n'
    path.write_text(f"#include <torch/extension.h>\n{source}")
    code = f"from tkjit import cpp_extension\nprint(cpp_extension.load('kept', {str(path)!r}).twice(4))"
    assert fresh.run(code) == "8\n"
    assert fresh.run(code, TKJIT_JIT="0") == "8\n"
    path.write_text(path.read_text().replace("2 * n", "3 * n"))
    failed = fresh.start(code, TKJIT_JIT="0").wait()
    assert "kept.cpp of the extension kept is not in the cache" in failed.stderr
    assert fresh.run(code) == "12\n"


@pytest.mark.slow  # compiles torch's headers
def test_names_missing_from_the_stand_ins_fall_back_to_torchs_headers(tmp_path, monkeypatch, capsys):
    record = tmp_path / "record"
    monkeypatch.setenv("TKJIT_RECORD", str(record))
    text = """
    namespace F = torch::nn::functional;
    torch::Tensor weights(torch::Tensor x) { return F::softmax(x, F::SoftmaxFuncOptions(0)); }
    """
    with pytest.warns(TkjitWarning, match="tkjit's lack SoftmaxFuncOptions"):
        module = cpp_extension.load_inline("with_torch", text, functions=["weights"])
    assert torch.allclose(module.weights(torch.ones(4)), torch.full((4,), 0.25))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cpp_extension.load_inline("with_torch", text, functions=["weights"])
    assert main(["why", "--from-file", str(record)]) == 0
    assert "compiled with torch's own headers: tkjit's lack SoftmaxFuncOptions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('a.cu(3): error: namespace "torch" has no member "softmax"', "softmax"),
        ('a.cu(3): error: class "at::tkjit_stand_in::Tensor" has no member "sum"', "sum"),
        ("a.cpp:3:1: error: \u2018softmax\u2019 is not a member of \u2018torch\u2019", "softmax"),
        ("a.cpp:3:1: error: \u2018class at::tkjit_stand_in::Tensor\u2019 has no member named \u2018sum\u2019", "sum"),
        ("a.cpp:1:10: fatal error: torch/library.h: No such file or directory", "torch/library.h"),
        ('a.cu(3): error: identifier "TORCH_LIBRARY" is undefined', "TORCH_LIBRARY"),
        ("/x/include/tkjit/torch/boxed.h:15:5: error: static assertion failed", "include/tkjit/torch/boxed.h"),
        ("in struct \u2018c10::Passed<at::Scalar>\u2019\ninclude/tkjit/torch/boxed.h(15): error: static", "Scalar"),
        ("a.cpp:3:1: error: \u2018python_error\u2019 was not declared in this scope", "python_error"),
        (
            "a.cpp:3:1: error: \u2018tensors\u2019 in namespace \u2018torch::autograd\u2019 does not name a type",
            "tensors",
        ),
        ('a.cu(3): error: identifier "sum" is undefined', ""),
        ('a.cu(3): error: class "Mine" has no member "sum"', ""),
        ("a.cpp:3:1: error: expected \u2018;\u2019 before \u2018}\u2019 token", ""),
    ],
)
def test_missing_names_of_torch_are_distinguished_from_mistakes(line, name):
    assert lacking_in(f"In file included from a:\n{line}\n") == name


def test_wrong_options_and_sources_are_reported(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    (tmp_path / "a.cu").write_text("")
    (tmp_path / "a.cpp").write_text("int f( { }\n")
    for given, error, text in [
        ({"sources": []}, ArgumentError, "no sources"),
        ({"sources": [tmp_path / "b.cpp"]}, ArgumentError, "no such file"),
        ({"sources": ["a.py"]}, ArgumentError, "expected .cu, .cpp"),
        ({"sources": [tmp_path / "a.cpp"], "with_sycl": True}, ArgumentError, "with_sycl= is not supported"),
        ({"sources": [tmp_path / "a.cpp"], "is_standalone": True}, ArgumentError, "is_standalone="),
        ({"sources": [tmp_path / "a.cpp"]}, CompileError, "a.cpp:1"),
    ]:
        with pytest.raises(error, match=text):
            cpp_extension.load("refused", **given)
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0;Hopper")
    with pytest.raises(ToolchainError, match="'Hopper' is not a GPU architecture"):
        cpp_extension.load("refused", tmp_path / "a.cu")
    assert issubclass(CompileError, RuntimeError)


@pytest.mark.slow
def test_init_function_without_pymodinit_func_is_exported(tmp_path):
    """Without the export, the function would be hidden, like all functions of a source."""
    path = tmp_path / "plain.cpp"
    path.write_text(
        "#include <Python.h>\n#include <torch/library.h>\n"
        'extern "C" { PyObject* PyInit_plain(void) {\n'
        '    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "plain", nullptr, -1, nullptr};\n'
        "    return PyModule_Create(&definition);\n} }\n"
    )
    assert cpp_extension.load("plain", path).__name__ == "plain"
