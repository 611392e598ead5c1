"""The extents of a kernel's pointers, read from host code."""

from __future__ import annotations

import pytest

from tkjit.importer.extents import Extents, extents_of
from tkjit.importer.launches import launches_of
from tkjit.importer.model import Part, Type

FLOATS, INT = Type("pointer", "float *", "float"), Type("number", "int")


def found(host: str, *parameters: tuple[str, Type], variants: tuple[str, ...] = ()) -> Extents:
    (launch,) = launches_of(f"void run(torch::Tensor x, torch::Tensor w) {{ {host} }}")
    return extents_of(launch, parameters, set(variants), {name for name, _ in parameters})


def test_a_dim_is_named_after_the_kernels_parameter():
    extents = found(
        "int n = x.size(0), m; const int rows = x.size(0); const int cols = x.size(1);"
        "k<<<rows, 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), rows, cols);",
        ("a", FLOATS), ("b", FLOATS), ("M", INT), ("N", INT),
    )  # fmt: skip
    assert extents.dims == {"a": ["M", "N"]}  # nothing is known about w
    assert extents.computed == {"M": "M", "N": "N"}


def test_a_dim_that_only_the_launch_uses_is_named_after_the_local_variable():
    extents = found(
        "const int rows = x.size(0); k<<<rows, 64>>>(x.data_ptr<float>(), x.numel() / x.size(-1));",
        ("a", FLOATS), ("n", INT),
    )  # fmt: skip
    assert extents.dims == {"a": ["rows", "x_1"]}
    assert extents.computed == {"n": "rows"}
    assert extents.translate(Part("dim3(x.size(0), x.size(1))")).text == "dim3(rows, x_1)"


def test_a_tensor_whose_last_dim_is_read_and_whose_rows_are_counted_is_a_matrix():
    extents = found(
        "const int cols = x.size(-1); const int64_t rows = x.numel() / cols; auto s = torch::empty({rows});"
        "k<<<rows, 256>>>(x.data_ptr<float>(), s.data_ptr<float>(), cols);",
        ("x", FLOATS), ("s", FLOATS), ("cols", INT),
    )  # fmt: skip
    assert extents.dims == {"x": ["x_0", "cols"], "s": ["x_0"]}
    assert extents.translate(Part("x.numel() / x.size(-1)")).text == "(x_0 * cols) / cols"


@pytest.mark.parametrize(
    ("pointer", "dims", "outputs"),
    [
        ("torch::empty_like(x)", ["n"], {"c": False}),
        ("torch::zeros_like(x)", ["n"], {"c": True}),
        ("torch::empty({x.size(0), 4}, x.options())", ["n", "4"], {"c": False}),
        ("torch::zeros({2 * n})", ["2 * n"], {"c": True}),
        ("torch::empty({unknown(x)})", None, {}),
    ],
)
def test_a_tensor_that_the_host_allocates_is_an_output(pointer, dims, outputs):
    host = f"const int n = x.size(0); auto y = {pointer}; k<<<1, 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);"
    extents = found(host, ("a", FLOATS), ("c", FLOATS), ("n", INT))
    assert extents.dims.get("c") == dims and extents.outputs == outputs


def test_dims_are_read_from_cuda_malloc():
    extents = found(
        "const int m = 64; int n = 128; cudaMalloc(&a, m * n * sizeof(float));"
        "cudaMalloc((void**)&b, n * sizeof(float)); cudaMalloc(&c, 1000 * sizeof(float)); k<<<1, 1>>>(a, b, c, m, n);",
        ("x", FLOATS), ("y", FLOATS), ("z", FLOATS), ("M", INT), ("N", INT),
    )  # fmt: skip
    assert extents.dims == {"x": ["M", "N"], "y": ["N"]} and extents.computed == {"M": "M", "N": "N"}
    assert extents.sizes == {"M": 64, "N": 128, "z_size": 1000}


def test_an_integer_can_follow_from_a_variant():
    extents = found("k<<<1, 1>>>(x.data_ptr<float>(), THREADS);", ("a", FLOATS), ("K", INT), variants=("THREADS",))
    assert extents.computed == {"K": "THREADS"}


def test_a_launch_with_another_number_of_arguments_is_ignored():
    assert found("k<<<1, 1>>>(x.data_ptr<float>());", ("a", FLOATS), ("n", INT)) == Extents()
