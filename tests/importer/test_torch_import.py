"""``python -m tkjit import`` of sources written for torch, and ``--run``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tkjit.cli import main
from tkjit.kernel_objects.loading import kernel_of_file

pytestmark = [pytest.mark.compiles, pytest.mark.usefixtures("clang")]
SOURCE = """
#include <torch/extension.h>

#define BLOCK 64
#define DISPATCH_COLS(cols, ...)                                      \\
    switch (cols) {                                                  \\
        case 32: { constexpr int COLS = 32; __VA_ARGS__(); break; }  \\
        case 64: { constexpr int COLS = 64; __VA_ARGS__(); break; }  \\
        default: TORCH_CHECK(false, "32 or 64 columns");             \\
    }

template <typename scalar_t, int COLS>
__global__ void scale_rows(const scalar_t* __restrict__ x, scalar_t* y, float factor, int rows) {
    for (int j = threadIdx.x; j < COLS; j += blockDim.x)
        y[blockIdx.x * COLS + j] = static_cast<scalar_t>(static_cast<float>(x[blockIdx.x * COLS + j]) * factor);
}

torch::Tensor run(torch::Tensor x, double factor) {
    const int rows = x.size(0);
    const int cols = x.size(1);
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scale_rows", [&] {
        DISPATCH_COLS(cols, [&] {
            scale_rows<scalar_t, COLS><<<rows, BLOCK>>>(
                x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), static_cast<float>(factor), rows);
        });
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale_rows", &run); }
"""


def imported(directory: Path, source: str, *options: str) -> Path:
    (directory / "scale_rows.cu").write_text(source)
    written = directory / "written.py"
    assert main(["import", str(directory / "scale_rows.cu"), "-o", str(written), *options]) == 0
    return written


@pytest.mark.slow  # compiles eight variants
def test_a_dispatch_over_dtypes_and_columns_becomes_one_spec_that_runs(tmp_path):
    kernel = kernel_of_file(imported(tmp_path, SOURCE), "scale_rows")
    (spec,) = kernel.specs
    assert spec.entry == "scale_rows<tkjit::torch_type<scalar_t>, COLS>"
    assert dict(spec.variants) == {"scalar_t": ("float64", "float32", "float16"), "COLS": (32, 64)}
    assert [(f.name, f.direction, " ".join(map(str, f.dims))) for f in spec.tensors] == [
        ("x", "in", "rows cols"),
        ("y", "out", "rows cols"),
    ]
    assert str(spec.grid[0]) == "rows" and [library.name for library in spec.headers] == ["torch"]
    for dtype in (torch.float32, torch.float16):
        x = torch.randn(5, 64).to(dtype)
        assert torch.equal(kernel(x, factor=2.0, COLS=64), x * 2)


@pytest.mark.slow  # compiles and runs the import
def test_run_calls_each_kernel_once_and_prints_the_results(tmp_path, capsys):
    imported(tmp_path, SOURCE, "--run")
    said = capsys.readouterr().err.partition("called once in the simulator:\n")[2]
    assert "scale_rows(x=32x32 float64, factor=0.75, COLS=32): y: 1024 elements, from " in said


VECTOR = """
__global__ void fill(float* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = BODY;
}
int main() {
    const int n = 1000;
    float* c;
    cudaMalloc(&c, n * sizeof(float));
    fill<<<(n + 255) / 256, 256>>>(c, n);
}
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("i / 2.f", "fill(c=1000 float32): c: 1000 of 1000 elements changed, from 0 to 499.5"),
        pytest.param(
            "1.f / 0.f",
            "fill(c=1000 float32): c: 1000 of 1000 elements changed, 1000 not finite",
            marks=pytest.mark.slow,
        ),
        ("*(volatile float*)nullptr", "a read of address 0x0"),
    ],
)
@pytest.mark.slow  # compiles and runs three imports
def test_run_uses_the_sizes_in_the_source(tmp_path, capsys, body, said):
    imported(tmp_path, VECTOR.replace("BODY", body), "--run")
    assert said in capsys.readouterr().err.partition("called once in the simulator:\n")[2]


def test_a_kernel_with_an_unknown_launch_is_not_run(tmp_path, capsys):
    imported(tmp_path, "__global__ void fill(float* c) { c[threadIdx.x] = 1.f; }", "--run")
    assert "fill: not called, because its launch has a TODO" in capsys.readouterr().err
    assert not list(tmp_path.glob(".tkjit-import-*"))


HOST = """
__global__ void scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void fill(float* y) { y[threadIdx.x] = 1.f; }
void launch_scale(const float* x, float* y, int n, int threads, cudaStream_t stream) {
    int blocks = 1;
    while (blocks * threads < n) ++blocks;
    scale<<<blocks, threads, 0, stream>>>(x, y, n);
}
void launch_fill(float* y, int n) { fill<<<1, n>>>(y); }
struct Sizes { int n; };
__global__ void other(float* y) { y[threadIdx.x] = 1.f; }
void launch_other(float* y, Sizes sizes) { other<<<1, sizes.n>>>(y); }
"""


ADDS = """
#include <torch/extension.h>
template <class T>
__global__ void add(const T* x, T* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] += x[i];
}
torch::Tensor run(torch::Tensor x) {
    const int n = x.numel();
    auto y = torch::empty_like(x);
    y.BEFORE;
    add<float><<<1, 32>>>(x.data_ptr<float>() OFFSET, y.data_ptr<float>(), n);
    return y;
}
"""


@pytest.mark.parametrize(
    ("before", "offset", "x", "y"),
    [
        ("zero_()", "", "N", 'Out[Tensor, "float32", "n", Zero]'),
        pytest.param("copy_(x)", "", "N", 'InOut[Tensor, "float32", "y_size"]', marks=pytest.mark.slow),
        pytest.param("size(0)", "", "N", 'Out[Tensor, "float32", "n"]', marks=pytest.mark.slow),
        pytest.param("size(0)", "+ 64", "x_size", 'Out[Tensor, "float32", "n"]', marks=pytest.mark.slow),
    ],
)
def test_host_code_decides_whether_an_output_is_new_zeroed_or_updated(tmp_path, before, offset, x, y):
    text = imported(tmp_path, ADDS.replace("BEFORE", before).replace("OFFSET", offset)).read_text()
    assert f"y: {y}" in text
    assert ('"x_size"' in text) == (x == "x_size")


def test_a_macro_with_two_definitions_is_not_expanded_but_others_are(tmp_path, capsys):
    source = """
#ifdef OTHER
#define RUN(k, n) k<<<1, n>>>
#else
#define RUN(k) k<<<1, 32>>>
#endif
#define LAUNCH(k) k<<<2, 64>>>(y)
__global__ void one(float* y) { y[threadIdx.x] = 1.f; }
__global__ void two(float* y) { y[threadIdx.x] = 2.f; }
void run(float* y) {
#ifdef OTHER
    RUN(one, 16)(y);
#else
    RUN(one)(y);
#endif
    LAUNCH(two);
}
"""
    text = imported(tmp_path, source).read_text()
    assert "grid=2" in text and "block=64" in text
    assert "RUN: not expanded, because a use does not match the definition" in capsys.readouterr().err


def test_overloaded_functions_are_reported(tmp_path, capsys):
    both = "__global__ void scale(float* x, int n) {}\nvoid scale(float* x) { scale<<<1, 32>>>(x, 3); }\n"
    (tmp_path / "both.cu").write_text(both)
    assert main(["import", str(tmp_path / "both.cu")]) == 1
    assert "scale: reference to overloaded function could not be resolved" in capsys.readouterr().err


def test_a_launch_that_only_host_code_can_compute_is_imported_as_its_host_function(tmp_path):
    path = imported(tmp_path, HOST)
    scale = kernel_of_file(path, "launch_scale")
    (spec,) = scale.specs
    assert spec.host and spec.entry == "launch_scale" and [f.name for f in spec.fields] == ["x", "y", "n", "threads"]
    x, y = torch.randn(100), torch.zeros(100)
    scale(x, y, 100, 32)
    assert torch.equal(y, 2 * x)
    text = path.read_text()
    assert "def launch_fill(" in text and "def fill(" not in text and "def scale(" not in text
    assert text.count("it launches on the default stream") == 1  # launch_fill
    assert "def other(" in text and "launch_other" not in text.replace("other<<<", "")  # it takes a struct
