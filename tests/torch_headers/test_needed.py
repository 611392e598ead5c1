"""Whether a source needs torch's own headers, decided from the names in it."""

from __future__ import annotations

import pytest

from tkjit.torch_headers.needed import (
    USABLE_HEADERS,
    Text,
    first_lacking,
    text_of,
    text_of_preprocessed,
    torch_has,
    torch_include,
)


def lacking(code: str, *headers: str) -> str:
    return first_lacking([Text(code, frozenset(headers))])


@pytest.mark.parametrize(
    "code",
    [
        "at::Tensor f(torch::Tensor x) { return x.index_select(0, x.argsort()).to(at::kHalf); }",
        "auto stream = at::cuda::getCurrentCUDAStream(); const c10::cuda::CUDAGuard guard(x.device());",
        'TORCH_CHECK(x.is_cuda(), "no"); AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "f", [&] {});',
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { py::class_<A>(m, "A").def(py::init<int>()); }',
        "namespace at { struct Mine {}; } at::Mine mine;",  # the source's own name
        "std::at::nothing; mine::at::nothing;",  # names of other namespaces
        "#define TORCH_CHECK_MINE(x) x\nTORCH_CHECK_MINE(1);",
    ],
)
def test_stand_ins_are_enough(code):
    assert lacking(code) == ""


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("torch::nn::Linear layer(3, 4);", "Linear"),
        ("namespace F = torch::nn::functional; F::softmax(x, F::SoftmaxFuncOptions(0));", "SoftmaxFuncOptions"),
        ("auto iterator = at::TensorIteratorConfig();", "TensorIteratorConfig"),
        ("return x.unsafeGetTensorImpl();", "unsafeGetTensorImpl"),
        ("TORCH_LIBRARY_THAT_IS_NEW(a, m) {}", "TORCH_LIBRARY_THAT_IS_NEW"),
        ("py::vectorize(f);", "vectorize"),
        ('torch::class_<A>("a", "A");', "class_"),
        ('TORCH_LIBRARY(a, m) { m.class_<A>("A"); }', "class_"),
    ],
)
def test_first_missing_name_is_reported(code, name):
    assert lacking(code) == name


def test_missing_header_is_reported():
    assert lacking("", "ATen/native/TensorIterator.h") == "ATen/native/TensorIterator.h"
    assert lacking("", "torch/extension.h", "ATen/cuda/Atomic.cuh", "torch/csrc/stable/tensor.h") == ""


def test_own_headers_are_searched(tmp_path):
    (tmp_path / "mine.h").write_text("#include <ATen/Parallel.h>\nat::Tensor made();\n")
    (tmp_path / "math.h").write_text("int twice(int n);\n")
    text = text_of('#include "mine.h"\n#include "math.h"\n// torch::nn\nint x;', [tmp_path])
    assert "at::Tensor made" in text.code and "twice" not in text.code and "nn" not in text.code
    assert text.headers == {"ATen/Parallel.h"}


def test_computed_includes_are_ignored(tmp_path):
    (tmp_path / "mine.h").write_text("#include CONFIG\nat::Tensor made();\n")
    assert "made" in text_of('#include MINE\n#include "mine.h"\n', [tmp_path]).code


def test_names_in_string_literals_are_ignored():
    assert lacking('TORCH_CHECK(ok, "use torch::frobnicate");') == ""


def test_preprocessed_text_keeps_only_the_users_lines(tmp_path):
    lines = ['# 1 "/work/a.cu"', "torch::Tensor x;", '# 1 "/usr/include/math.h" 1 3', "double sin(double);"]
    lines += ['# 2 "/work/a.cu" 2', f'# 1 "{torch_include()}/ATen/ceil_div.h" 1', "int ceil_div;"]
    lines += [
        f'# 1 "{torch_include()}/ATen/core/Nested.h" 1',
        "int nested;",
        f'# 2 "{torch_include()}/ATen/ceil_div.h" 2',
    ]
    lines += ['# 3 "/work/a.cu" 2', "at::Tensor y;"]
    from pathlib import Path

    text = text_of_preprocessed("\n".join(lines), [Path("/usr"), torch_include()])
    assert text.code.split("\n") == ["torch::Tensor x;", "at::Tensor y;"] and text.headers == {"ATen/ceil_div.h"}


def test_names_that_torch_has():
    assert torch_has("TensorIteratorConfig") and torch_has("ATen/native/TensorIterator.h")
    assert not torch_has("frobnicated_tensor") and not torch_has("THC/THCNumerics.cuh")


def test_installed_torch_has_every_usable_header():
    assert [header for header in sorted(USABLE_HEADERS) if not (torch_include() / header).is_file()] == []


def test_headers_behind_links_are_searched(tmp_path, monkeypatch):
    """Debian's package of torch links to /usr/include."""
    (tmp_path / "usr/ATen").mkdir(parents=True)
    (tmp_path / "usr/ATen/Parts.h").write_text("struct InLinkedDirectory;")
    (tmp_path / "include").mkdir()
    (tmp_path / "include/ATen").symlink_to(tmp_path / "usr/ATen")
    monkeypatch.setattr("tkjit.torch_headers.needed.torch_include", lambda: tmp_path / "include")
    assert torch_has("InLinkedDirectory") and not torch_has("InNoDirectory")
