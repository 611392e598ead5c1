"""Flags, options and mistakes of ``cpp_extension.load``."""

from __future__ import annotations

import pytest
import torch

from tkjit import cpp_extension
from tkjit.errors import ArgumentError, CompileError

pytestmark = pytest.mark.compiles

MODULE = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("value", [] { return std::string(VALUE); }); }\n'


@pytest.mark.slow  # compiles an extension
def test_flags_are_split_as_a_shell_splits_them(tmp_path):
    path = tmp_path / "split.cpp"
    path.write_text(f"#include <torch/extension.h>\n{MODULE}")
    module = cpp_extension.load("split", path, extra_cflags=[r"-DUNUSED -DVALUE=\"two\""])
    assert module.value() == "two"
    with pytest.raises(ArgumentError, match="cannot be split: No closing quotation"):
        cpp_extension.load("split", path, extra_cflags=["-DVALUE='x"])


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"use_pch": True}, "use_pch=True is not supported, because there is no large header"),
        ({"with_pytorch_error_handling": False}, "with_pytorch_error_handling=False is not supported"),
        ({"with_sycl": True}, "with_sycl= is not supported"),
    ],
)
def test_unsupported_options_are_rejected_by_name(option, reason):
    with pytest.raises(ArgumentError, match=reason):
        cpp_extension.load_inline("refused", "int f() { return 1; }", functions=["f"], **option)


@pytest.mark.slow  # compiles an extension
def test_verbose_prints_the_commands_even_if_cached(capsys):
    for _ in range(2):
        cpp_extension.load_inline("verbose", "int one() { return 1; }", functions=["one"], verbose=True)
        printed = capsys.readouterr().out
        assert "main.cpp" in printed or "unit.cpp" in printed
        assert "-shared" in printed


def test_name_that_torch_lacks_is_reported(tmp_path):
    path = tmp_path / "unknown.cpp"
    path.write_text("#include <torch/extension.h>\nat::Tensor f(at::Tensor x) { return at::frobnicated_sum(x); }\n")
    with pytest.raises(ArgumentError, match="uses frobnicated_sum, which the installed torch does not have"):
        cpp_extension.load("unknown_operator", path)


@pytest.mark.slow  # compiles an extension
def test_name_in_an_inactive_branch_is_ignored(tmp_path):
    path = tmp_path / "branch.cpp"
    path.write_text(
        "#include <torch/extension.h>\n#if TORCH_VERSION_MAJOR < 2\n#include <torch/old.h>\n"
        "int f(at::Tensor x) { return at::frobnicated_sum(x); }\n#else\n"
        "int64_t f(at::Tensor x) { return x.numel(); }\n#endif\n"
    )
    assert cpp_extension.load("branches", path).f(torch.ones(3)) == 3


def test_error_in_one_of_several_sources_is_reported(tmp_path):
    good, bad = tmp_path / "good.cpp", tmp_path / "bad.cpp"
    good.write_text('#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.doc() = ""; }\n')
    bad.write_text("int f() { return undeclared_name; }\n")
    with pytest.raises(CompileError, match="undeclared_name"):
        cpp_extension.load("several", [good, bad])
    bad.write_text("int f() { return 1; }\n")
    cpp_extension.load("several", [good, bad])


def test_functions_of_the_wrong_type_are_rejected():
    with pytest.raises(ArgumentError, match="functions is 5; expected a str, a list or a dict"):
        cpp_extension.load_inline("refused", "int f() { return 1; }", functions=5)


@pytest.mark.slow
def test_cpp_sources_can_use_cuda(monkeypatch):
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    source = """
    #include <ATen/cuda/CUDAContext.h>
    #include <cuda_runtime.h>
    int f(torch::Tensor x) {
        int value = 3;
        cudaMemcpy(x.data_ptr(), &value, sizeof value, cudaMemcpyHostToDevice);
        return cudaSuccess;
    }
    """
    module = cpp_extension.load_inline(
        "calls_cuda", source, functions={"f": "Writes."}, with_cuda=True, keep_intermediates=False
    )
    x = torch.zeros(1, dtype=torch.int32)
    assert module.f(x) == 0 and x.item() == 3
    assert module.f.__doc__ == "f(arg0: torch.Tensor) -> int\n\nWrites.\n"
