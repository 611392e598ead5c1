"""Every feature of a spec, from the decorator to the result of a call on the CPU."""

import itertools
import keyword
import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import Align, ArgumentError, CompileError, In, InOut, LaunchError, Out, Scalar, ShapeError, Tensor
from tkjit.spec.checks import CPP_KEYWORDS

pytestmark = pytest.mark.compiles
KERNELS = Path(__file__).parents[1] / "support" / "kernels"
names = itertools.count()

COPY = "template <class T> __global__ void copy(Globals g) { g.y[threadIdx.x] = g.x[threadIdx.x]; }"


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def define(source: str, signature: str, **options):
    """A kernel of a name and a source that no other test has."""
    name = f"feature_{next(names)}"
    scope = dict(vars(tkjit))
    exec(f"def {name}{signature}: ...", scope)
    return tkjit.kernel(source, **options)(scope[name])


# ---- globals structs


def test_rendered_struct_has_the_fields_in_the_order_that_is_asked_for():
    kernel = define(
        """
        #include <cstddef>
        static_assert(offsetof(Globals, c) < offsetof(Globals, n) && offsetof(Globals, n) < offsetof(Globals, a));
        static_assert(std::is_same_v<decltype(Globals::n), int> && std::is_same_v<decltype(Globals::factor), double>);
        __global__ void scale(const __grid_constant__ Globals g) {
            const int i = threadIdx.x;
            g.c[i] = float(g.factor) * g.a[i] + (g.negate ? -1 : 1) * g.n + g.a.cols() * 1000;
        }
        """,
        '(a: In[Tensor, "float32", "N"], n: int, factor: Scalar[float, "double"] = 2.0, negate: bool = False, *,'
        ' c: Out[Tensor, "float32", "N"] = None) -> Tensor',
        entry="scale",
        grid=1,
        block="N",
        fields="c n a, negate factor",
    )
    assert kernel(floats(1, 2), 7).tolist() == [2009.0, 2011.0]
    assert kernel(floats(1, 2), 7, 0.5, negate=True).tolist() == [1993.5, 1994.0]


OWN_STRUCT = """
#include <tkjit/gl.h>
namespace user {
struct globals {
    tkjit::gl<float> x;
    float* y;
    int n;
    OWN
};
__global__ void add(const __grid_constant__ globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.n) g.y[i] += g.x[i] + blockDim.x;
}
}
"""
OWN_SIGNATURE = '(x: In[Tensor, "float32", "N"], y: InOut[Tensor, "float32", "N"], n: int) -> Tensor'


def test_described_struct_without_its_own_launch_shape():
    kernel = define(
        OWN_STRUCT.replace("OWN", ""),
        OWN_SIGNATURE,
        struct="user::globals",
        entry="user::add",
        grid="cdiv(n, 4)",
        block=4,
    )
    y = torch.ones(6)
    assert kernel(floats(1, 2, 3, 4, 5, 6), y, 5) is y
    assert y.tolist() == [6, 7, 8, 9, 10, 1]
    assert "user::globals" in kernel.render().launcher


OWN_LAUNCH = """
    dim3 grid() const { return dim3((n + 1) / 2); }
    int block() const { return 2; }
    size_t dynamic_shared_memory() const { return 4096; }
"""
OWN_SHARED = """
#include <tkjit/shared_memory.cuh>
namespace user {
__global__ void through_shared(const __grid_constant__ globals g) {
    TKJIT_DYNAMIC_SHARED(float, staged);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    staged[1023 - threadIdx.x] = i < g.n ? g.x[i] : 0;
    __syncthreads();
    if (i < g.n) g.y[i] += staged[1023 - threadIdx.x];
}
}
"""


def test_described_struct_with_its_own_launch_shape():
    options = {"struct": "user::globals", "entry": "user::add"}
    kernel = define(OWN_STRUCT.replace("OWN", OWN_LAUNCH), OWN_SIGNATURE, **options)
    assert kernel(floats(1, 2, 3), torch.ones(3), 3).tolist() == [4, 5, 6]
    shared = define(
        OWN_STRUCT.replace("OWN", OWN_LAUNCH) + OWN_SHARED,
        OWN_SIGNATURE,
        struct="user::globals",
        entry="user::through_shared",
    )
    assert shared(floats(1, 2, 3), torch.ones(3), 3).tolist() == [2, 3, 4]
    # what the spec says comes before what the struct says
    overridden = define(OWN_STRUCT.replace("OWN", OWN_LAUNCH), OWN_SIGNATURE, block="N", grid=1, **options)
    assert overridden(floats(1, 2, 3), torch.ones(3), 3).tolist() == [5, 6, 7]


def test_source_with_its_own_main():
    @tkjit.kernel(KERNELS / "with_main.cu", struct="scaling::globals", entry="scaling::scale", fields="x y n factor")
    def with_main(
        x: In[Tensor, "float32", "N"], n: int, factor: float, *, y: Out[Tensor, "float32", "N"] = None
    ) -> Tensor: ...

    x = torch.arange(150, dtype=torch.float32)
    assert torch.equal(with_main(x, 150, 3.0), 3 * x)


def refuse_to_compile(source: str, signature: str, **options) -> str:
    with pytest.raises(CompileError) as raised:
        define(source, signature, **options)(torch.ones(2), torch.ones(2))
    return raised.value.summary


TWO_POINTERS = """
struct pair { float* x; float* y; };
__global__ void add(pair p) { p.y[threadIdx.x] += p.x[threadIdx.x]; }
"""
PAIR = {"struct": "pair", "entry": "add", "grid": 1, "block": "N"}


def test_described_struct_with_one_field_more_than_the_spec():
    source = TWO_POINTERS.replace("float* y;", "float* y; int n;")
    text = refuse_to_compile(source, '(x: In[Tensor, "float32", "N"], y: InOut[Tensor, "float32", "N"])', **PAIR)
    assert "the number of fields of pair; the spec of feature_" in text and "says otherwise" in text


def test_described_struct_with_one_field_less_than_the_spec():
    signature = '(x: In[Tensor, "float32", "N"], y: InOut[Tensor, "float32", "N"], n: int = 1)'
    text = refuse_to_compile(TWO_POINTERS, signature, **PAIR)
    assert "the number of fields of pair; the spec of feature_" in text


@pytest.mark.parametrize(
    ("field", "signature"),
    [
        ("x", '(x: In[Tensor, "float64", "N"], y: InOut[Tensor, "float32", "N"])'),
        ("y", '(x: In[Tensor, "float32", "N"], y: InOut[Tensor, "int32", "N"])'),
    ],
)
def test_described_struct_with_a_wrong_type(field, signature):
    dtype = {"x": (torch.float64, torch.float32), "y": (torch.float32, torch.int32)}[field]
    with pytest.raises(CompileError, match=rf"the type of pair::{field}; the spec of feature_\d+ says otherwise"):
        define(TWO_POINTERS, signature, **PAIR)(*(torch.ones(2, dtype=one) for one in dtype))


def test_described_struct_with_a_wrong_scalar_type():
    source = "struct one { float* x; int n; }; __global__ void add(one p) { p.x[0] += p.n; }"
    kernel = define(source, '(x: InOut[Tensor, "float32", "N"], n: float)', struct="one", entry="add", grid=1, block=1)
    with pytest.raises(CompileError, match=r"the type of one::n; the spec of feature_\d+ says otherwise"):
        kernel(torch.ones(2), 1.0)


def test_described_struct_in_another_order_is_refused_and_named_with_fields():
    signature = '(y: InOut[Tensor, "float32", "N"], x: In[Tensor, "float32", "N"])'
    assert "order" in refuse_to_compile(TWO_POINTERS, signature, **PAIR)
    y = torch.ones(2)
    define(TWO_POINTERS, signature, **PAIR, fields="x y")(y, floats(3, 4))
    assert y.tolist() == [4, 5]


def test_plain_arguments():
    kernel = define(
        """
        __global__ void combine(const float* x, float* y, int n, float factor, bool twice, const int64_t* missing) {
            const int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = (twice ? 2 : 1) * factor * x[i] + (missing ? *missing : 0);
        }
        """,
        '(x: In[Tensor, "float32", "N"], n: int, factor: float = 1.5, twice: bool = False,'
        ' more: In[Tensor, "int64", 1] | None = None, *, y: Out[Tensor, "float32", "N"] = None) -> Tensor',
        args=True,
        entry="combine",
        grid="cdiv(n, 2)",
        block=2,
        fields="x y n factor twice more",
    )
    assert kernel(floats(2, 4, 6), 3).tolist() == [3, 6, 9]
    assert kernel(floats(2, 4, 6), 3, 1, True, torch.tensor([50])).tolist() == [54, 58, 62]


def test_plain_arguments_of_a_wrong_type_fail_at_compile_time():
    source = "__global__ void add(float* x, int n) { x[0] += n; }"
    options = {"args": True, "entry": "add", "grid": 1, "block": 1}
    for signature in ('(x: InOut[Tensor, "int32", "N"], n: int)', '(x: InOut[Tensor, "int32", "N"])'):
        kernel = define(source, signature, **options)
        with pytest.raises(CompileError, match=r"the parameters of add; the spec of feature_\d+ says otherwise"):
            kernel(*[torch.ones(2, dtype=torch.int32), 1][: len(kernel.specs[0].fields)])


def test_host_function_with_a_struct():
    kernel = define(
        "void on_host(const Globals& g) { for (int i = 0; i < g.x.cols(); ++i) g.x[i] *= g.factor; }",
        '(x: InOut[Tensor, "float32", "N"], factor: float) -> Tensor',
        entry="on_host",
        host=True,
    )
    assert kernel(floats(1, 2, 3), 3.0).tolist() == [3, 6, 9]


@pytest.mark.parametrize("stream", ["", ", cudaStream_t stream"])
def test_host_function_with_plain_arguments(stream):
    kernel = define(
        f"int on_host(const float* x, float* y, int n{stream})"
        " { for (int i = 0; i < n; ++i) y[i] = x[i] + n; return 1; }",
        '(x: In[Tensor, "float32", "N"], n: int, *, y: Out[Tensor, "float32", "N"] = None) -> Tensor',
        entry="on_host",
        host=True,
        args=True,
        fields="x y n",
    )
    assert kernel(floats(1, 2, 3), 3).tolist() == [4, 5, 6]


def test_host_function_with_a_described_struct_and_a_stream():
    kernel = define(
        "struct work { int* x; }; void on_host(work w, cudaStream_t s) { *w.x = s == nullptr ? 5 : 6; }",
        '(x: InOut[Tensor, "int32", 1])',
        struct="work",
        entry="on_host",
        host=True,
    )
    x = torch.zeros(1, dtype=torch.int32)
    assert kernel(x) is None
    assert x.item() == 5


def test_host_code_that_throws_raises():
    kernel = define(
        '#include <stdexcept>\nvoid on_host(const Globals& g) { throw std::runtime_error("no such plan"); }',
        '(x: InOut[Tensor, "float32", "N"])',
        entry="on_host",
        host=True,
    )
    with pytest.raises(tkjit.LaunchError, match="no such plan"):
        kernel(torch.ones(1))


def test_host_code_of_a_struct_launches():
    source = "__global__ void f(float* x) { x[threadIdx.x] += 2; }\n"
    source += "void on_host(const Globals& g) {\n    f<<<1, g.x.cols()>>>(g.x.raw_ptr);\n}\n"
    kernel = define(source, '(x: InOut[Tensor, "float32", "N"])', entry="on_host", host=True)
    x = torch.ones(3)
    kernel(x)
    assert x.tolist() == [3, 3, 3]


# ---- sources, flags, headers


def test_sources_by_architecture_and_for_the_cpu():
    def source(value: int) -> str:
        return f"__global__ void fill(Globals g) {{ g.x[0] = {value}; }}"

    options = {"entry": "fill", "grid": 1, "block": 1}
    signature = '(x: InOut[Tensor, "float32", 1]) -> Tensor'
    own = define(source(1), signature, archs={"90a": source(2), "80": source(3)}, cpu=source(4), **options)
    assert own(torch.zeros(1)).item() == 4
    common = define(source(1), signature, archs={"90a": source(2)}, **options)
    assert common(torch.zeros(1)).item() == 1
    only = define(None, signature, archs={"90a": source(2)}, **options)
    assert only(torch.zeros(1)).item() == 2
    several = define(None, signature, archs={"90a": source(2), "80": source(3)}, **options)
    with pytest.raises(tkjit.ToolchainError, match=r"feature_\d+ has no source for cpu.*it has sources for 90a, 80"):
        several(torch.zeros(1))


def test_headers_and_defines():
    @tkjit.kernel(
        "../support/kernels/shifted.cu",
        entry="shifted",
        grid=1,
        block="N",
        include_dirs=["../support/kernels/include"],
        defines={"STEP": 3},
    )
    def shifted(x: InOut[Tensor, "int32", "N"]) -> Tensor: ...

    assert shifted(torch.tensor([1, 2], dtype=torch.int32)).tolist() == [124, 125]


def test_flags_defines_and_standard_reach_the_compiler():
    kernel = define(
        "__global__ void fill(Globals g) { g.x[0] = FLAGGED * 100 + DEFINED; g.x[1] = __cplusplus > 202002L; }",
        '(x: InOut[Tensor, "int32", 2]) -> Tensor',
        entry="fill",
        grid=1,
        block=1,
        flags=["-DFLAGGED=4", "--use_fast_math"],
        defines={"DEFINED": "(1 + 1)"},
        std="c++23",
    )
    assert kernel(torch.zeros(2, dtype=torch.int32)).tolist() == [402, 1]


# ---- variants and overloads


def test_variants_by_type_and_by_integer():
    kernel = define(
        """
        template <class T, int D, int mode> __global__ void fill(Globals g) {
            static_assert(std::is_same_v<typename decltype(g.x)::dtype, T>);
            static_assert(decltype(g.x){}.cols() == D);
            g.x(blockIdx.x, threadIdx.x) = T(sizeof(T) * 100 + D * 10 + mode);
        }
        """,
        '(x: InOut[Tensor, "T", "N", "D"], mode: int = 1) -> Tensor',
        entry="fill<T, D, mode>",
        grid="N",
        block="D",
        variants={"T": ("int32", "float64"), "D": (2, 3), "mode": (1, 4)},
    )
    assert len(kernel.variants) == 8
    assert kernel(torch.zeros(2, 3, dtype=torch.int32)).tolist() == [[431] * 3] * 2
    assert kernel(torch.zeros(1, 2, dtype=torch.float64), mode=4).tolist() == [[824.0] * 2]
    with pytest.raises(ShapeError, match=r"feature_\d+: the constraint D is 2 or 3 does not hold \(D=4\)"):
        kernel(torch.zeros(1, 4, dtype=torch.int32))
    with pytest.raises(ShapeError, match=r"feature_\d+: the constraint mode is 1 or 4 does not hold \(mode=2\)"):
        kernel(torch.zeros(1, 2, dtype=torch.int32), 2)


TENSOR_SUM = "__global__ void sum(Globals g) { g.z[threadIdx.x] = g.x[threadIdx.x] + g.y[threadIdx.x]; }"
SCALAR_SUM = "__global__ void sum(Globals g) { g.z[threadIdx.x] = g.x[threadIdx.x] + g.y; }"


@tkjit.kernel(TENSOR_SUM, entry="sum", grid=1, block="N")
def plus(
    x: In[Tensor, "float32", "N"], y: In[Tensor, "float32", "N"], *, z: Out[Tensor, "float32", "N"] = None
) -> Tensor: ...


@plus.overload(SCALAR_SUM, entry="sum", grid=1, block="N")
def plus(x: In[Tensor, "float32", "N"], y: float, *, z: Out[Tensor, "float32", "N"] = None) -> Tensor: ...


def test_overloads():
    assert plus(floats(1, 2), floats(3, 4)).tolist() == [4, 6]
    assert plus(floats(1, 2), 10.0).tolist() == [11, 12]
    assert plus(floats(1, 2), y=10).tolist() == [11, 12]
    assert plus(floats(1, 2), floats(0, 1)).tolist() == [1, 3]


def test_overloads_list_why_each_was_refused():
    with pytest.raises(tkjit.ArgumentError) as raised:
        plus(floats(1, 2), "three")
    assert str(raised.value) == (
        "plus: no overload takes these arguments:\n"
        "  plus(x: Tensor, y: Tensor, *, z: Tensor = None, out=None, stream=None)\n"
        "    plus: y is 'three' (str); expected a torch.Tensor\n"
        "  plus(x: Tensor, y: float, *, z: Tensor = None, out=None, stream=None)\n"
        "    plus: y is 'three' (str); expected a float"
    )


def test_an_overload_that_takes_a_call_and_fails_is_not_hidden_by_the_others():
    trap = "__global__ void f(Globals g) { __trap(); }"
    first = define(trap, '(x: InOut[Tensor, "float32", "N"])', entry="f", grid=1, block=1)
    name = first.name
    scope = dict(vars(tkjit))
    exec(f'def {name}(x: InOut[Tensor, "float32", "M"]): ...', scope)
    both = first.overload("__global__ void f(Globals g) { g.x[0] = 9; }", entry="f", grid=1, block=1)(scope[name])
    x = torch.zeros(1)
    with pytest.raises(tkjit.LaunchError):
        both(x)
    assert x.item() == 0


# ---- fields


@tkjit.kernel(
    """
    __global__ void add(Globals g) {
        const int i = threadIdx.x;
        g.y[i] = g.x[i] + (g.bias ? g.bias[i] : -1.f) + (g.offset ? 100.f * g.offset.value : 0.f) + g.count.value_or(7);
    }
    """,
    entry="add",
    grid=1,
    block="N",
)
def optional_fields(
    x: In[Tensor, "float32", "N"],
    bias: In[Tensor, "float32", "N"] | None = None,
    offset: float | None = None,
    count: int | None = None,
    *,
    y: Out[Tensor, "float32", "N"] = None,
) -> Tensor: ...


def test_optional_fields():
    x = floats(1, 2)
    assert optional_fields(x).tolist() == [7, 8]
    assert optional_fields(x, None, None, None).tolist() == [7, 8]
    assert optional_fields(x, floats(10, 20)).tolist() == [18, 29]
    assert optional_fields(x, offset=0.0, count=0).tolist() == [0, 1]
    assert optional_fields(x, floats(10, 20), 1.0, 2).tolist() == [113, 124]
    with pytest.raises(ShapeError, match=r"optional_fields: bias is \(3,\) float32 on cpu; expected \(N=2,\) float32"):
        optional_fields(x, floats(1, 2, 3))


@tkjit.kernel("__global__ void f(Globals g) { g.x[0] += g.y[0]; }", entry="f", grid=1, block=1)
def aligned(x: InOut[Tensor, "float32", "N", Align(16)], y: In[Tensor, "float32", "M"]) -> Tensor: ...


def test_alignment_refuses_a_view_with_an_offset():
    memory = torch.ones(16)
    assert memory.data_ptr() % 16 == 0
    assert aligned(memory[4:8], memory[1:3])[0].item() == 2
    before = memory.clone()
    with pytest.raises(tkjit.ArgumentError) as raised:
        aligned(memory[5:9], memory)
    assert str(raised.value) == (
        "aligned: x starts at an address that is not a multiple of 16 bytes (a view with an offset?); pass x.clone()"
    )
    assert torch.equal(memory, before)
    assert aligned(memory[5:9].clone(), memory)[0].item() == 2


@tkjit.kernel(
    """
    __global__ void halve(Globals g) {
        const int row = blockIdx.x, i = threadIdx.x;
        g.y(row, i) = g.x(row, 2 * i) + g.half(0, i);
        if (i == 0) g.sums[row] = g.y.cols() * 100 + blockDim.x;
    }
    """,
    entry="halve",
    grid="M",
    block="P",
    dims={"P": "Q - 1", "Q": "N // 2 + 1"},
    constraints=["N % 2 == 0", "0 < N <= 64", "step == 1"],
)
def halve(
    x: In[Tensor, "float32", "M", "N"],
    half: In[Tensor, "float32", "N // 2"],
    step: int = 1,
    *,
    y: Out[Tensor, "float32", "M", "P"] = None,
    sums: Out[Tensor, "int32", "max(M, 1)"] = None,
) -> tuple[Tensor, Tensor]: ...


def test_derived_dims_expression_dims_and_several_outputs():
    x = torch.arange(12, dtype=torch.float32).view(2, 6)
    result = halve(x, floats(100, 200, 300))
    assert result._fields == ("y", "sums") and type(result).__name__ == "halve_result"
    assert result.y.tolist() == [[100, 202, 304], [106, 208, 310]]
    assert result.sums.tolist() == [303, 303] and result.sums.dtype == torch.int32
    y, sums = result
    assert y is result.y and sums is result.sums


def test_several_outputs_are_given_together_by_name_or_in_part():
    x, half = torch.zeros(1, 4), floats(1, 2)
    expected = halve(x, half)
    y, sums = torch.empty(1, 2), torch.empty(1, dtype=torch.int32)
    result = halve(x, half, out=(y, sums))
    assert result.y is y and result.sums is sums
    assert torch.equal(y, expected.y) and torch.equal(sums, expected.sums)
    partly = halve(x, half, out=(None, sums))
    assert partly.sums is sums and torch.equal(partly.y, y) and partly.y is not y
    named = halve(x, half, sums=sums)
    assert named.sums is sums and torch.equal(named.y, y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            lambda: (torch.zeros(1, 4), floats(1, 2, 3)),
            "halve: half is (3,) float32 on cpu; expected (N // 2=2,) float32",
        ),
        (lambda: (torch.zeros(1, 3), floats(1)), "halve: the constraint N % 2 == 0 does not hold (N=3)"),
        (lambda: (torch.zeros(1, 66), torch.zeros(33)), "halve: the constraint 0 < N <= 64 does not hold (N=66)"),
        (lambda: (torch.zeros(1, 2), floats(1), 2), "halve: the constraint step == 1 does not hold (step=2)"),
    ],
)
def test_dims_and_constraints_that_do_not_hold(arguments, message):
    with pytest.raises(ShapeError) as raised:
        halve(*arguments())
    assert str(raised.value) == message


@tkjit.kernel(
    """
    __global__ void fill(Globals g) {
        static_assert(decltype(g.table){}.rows() == 2 && decltype(g.table){}.cols() == 3);
        const int row = blockIdx.x;
        for (int i = 0; i < g.x.cols(); ++i)
            g.y[row * g.y.cols() + i] = g.x[row * g.x.cols() + i] + g.table(1, 2)
                + 1000 * g.x.batch() + 100 * g.x.depth() + 10 * g.x.rows();
    }
    """,
    entry="fill",
    grid="x.batch * x.depth * x.rows",
    block=1,
)
def leading(
    x: In[Tensor, "int32", "... N"], table: In[Tensor, "int32", 2, 3], *, y: Out[Tensor, "int32", "... N"] = None
) -> Tensor: ...


@pytest.mark.parametrize(("shape", "extents"), [((2,), 1110), ((3, 2), 1130), ((4, 3, 2), 1430), ((2, 1, 3, 2), 2130)])
def test_leading_dims_literal_dims_and_padding(shape, extents):
    x = torch.arange(torch.Size(shape).numel(), dtype=torch.int32).view(shape)
    table = torch.arange(6, dtype=torch.int32).view(2, 3)
    assert torch.equal(leading(x, table), x + 5 + extents)


def test_literal_dims_that_contradict():
    with pytest.raises(ShapeError, match=r"leading: table is \(3, 2\) int32 on cpu; expected \(2, 3\) int32"):
        leading(torch.zeros(2, dtype=torch.int32), torch.zeros(3, 2, dtype=torch.int32))


def test_in_place_fields_are_returned_where_the_annotation_says_so():
    source = "__global__ void f(Globals g) { g.x[0] += 1; g.y[0] = g.x[0] * 2; }"
    options = {"entry": "f", "grid": 1, "block": 1}
    fields = '(x: InOut[Tensor, "int32", 1], *, y: Out[Tensor, "int32", 1] = None)'
    x = torch.ones(1, dtype=torch.int32)
    outputs_only = define(source, fields + " -> Tensor", **options)
    assert outputs_only(x).item() == 4 and x.item() == 2
    both = define(source, fields + " -> tuple[Tensor, Tensor]", **options)(x)
    assert both._fields == ("x", "y") and both.x is x and both.y.item() == 6


# ---- layouts of other libraries

FOREIGN = """
#include <cstddef>
namespace foreign {
template <class T, int B, int D, int R, int C>
struct gl {
    using dtype = T;
    static constexpr int __b__ = B, __d__ = D, __r__ = R, __c__ = C;
    T* raw_ptr;
    int extents[4];

    gl(T* data, typename std::conditional<(B < 0), int, std::nullptr_t>::type b,
       typename std::conditional<(D < 0), int, std::nullptr_t>::type d,
       typename std::conditional<(R < 0), int, std::nullptr_t>::type r,
       typename std::conditional<(C < 0), int, std::nullptr_t>::type c)
        : raw_ptr(data), extents{value<B>(b), value<D>(d), value<R>(r), value<C>(c)} {}

    template <int Static> static int value(int given) { return given; }
    template <int Static> static int value(std::nullptr_t) { return Static; }
};

struct globals {
    gl<float, 1, 1, -1, 4> x;
    gl<float, -1, -1, -1, -1> y;
};

__global__ void sum(const __grid_constant__ globals g) {
    const int row = blockIdx.x;
    g.y.raw_ptr[row] = 1000 * g.x.extents[2] + 100 * g.y.extents[3];
    for (int i = 0; i < 4; ++i) g.y.raw_ptr[row] += g.x.raw_ptr[row * 4 + i];
}
}
"""


@tkjit.kernel(FOREIGN, struct="foreign::globals", entry="foreign::sum", grid="x.rows", block=1)
def foreign_sum(x: In[Tensor, "float32", "... N"], *, y: Out[Tensor, "float32", "x.rows"] = None) -> Tensor: ...


def test_a_type_that_quacks_like_a_global_layout():
    x = torch.arange(8, dtype=torch.float32).view(2, 4)
    assert foreign_sum(x).tolist() == [2206, 2222]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 5), "foreign_sum: x has cols=5; its type fixes 4"),
        ((3, 1, 2, 4), "foreign_sum: x has batch=3; its type fixes 1"),
        ((3, 2, 4), "foreign_sum: x has depth=3; its type fixes 1"),
    ],
)
def test_extents_that_contradict_the_types_own(shape, message):
    y = torch.full((2,), 7.0)
    with pytest.raises(ShapeError) as raised:
        foreign_sum(torch.zeros(shape), out=y)
    assert str(raised.value) == message
    assert y.tolist() == [7, 7]


def test_a_foreign_layout_as_a_field_of_a_rendered_struct():
    kernel = define(
        "__global__ void f(Globals g) { g.x.raw_ptr[0] += g.x.height * 10 + g.x.width; }",
        '(x: InOut[Tensor, "float32", "M", "N", CType("foreign::rows<float, 4>")]) -> Tensor',
        entry="f",
        grid=1,
        block=1,
        include_dirs=[KERNELS / "include"],
        flags=["-include", "foreign.h"],  # it has to be declared before the rendered struct
    )
    assert kernel(torch.ones(3, 4))[0, 0].item() == 35
    with pytest.raises(ShapeError, match=r"feature_\d+: x has cols=5; its type fixes 4"):
        kernel(torch.ones(3, 5))


def test_compile_time_extents_of_our_own_layout():
    kernel = define(
        "__global__ void f(Globals g) { g.x[0] = g.x.rows() * 10 + g.x.cols(); }",
        '(x: InOut[Tensor, "float32", "... N", CType("tkjit::gl<float, 1, 1, -1, 4>")]) -> Tensor',
        entry="f",
        grid=1,
        block=1,
    )
    assert kernel(torch.ones(3, 4))[0, 0].item() == 34
    x = torch.ones(2, 3, 4)
    with pytest.raises(ShapeError, match=r"feature_\d+: x has depth=2; its type fixes 1"):
        kernel(x)
    assert (x == 1).all()


# ---- notebooks and names


def test_a_cell_that_is_run_again_with_another_source():
    cell = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel(
    "__global__ void add(Globals g) {{ g.x[threadIdx.x] += {step}; }}",
    entry="add", grid=1, block="N",
)
def in_a_cell(x: InOut[Tensor, "int32", "N"]) -> Tensor:
    "Adds {step}."
"""
    scope: dict = {"__name__": "__main__"}

    def run(step: int):
        exec(compile(cell.format(step=step), "<ipython-input-1>", "exec"), scope)
        return scope["in_a_cell"]

    def zeros() -> torch.Tensor:
        return torch.zeros(2, dtype=torch.int32)

    first = run(1)
    assert first(zeros()).tolist() == [1, 1]
    second = run(2)
    assert second(zeros()).tolist() == [2, 2]
    assert first(zeros()).tolist() == [1, 1]
    assert second.__doc__.endswith("Adds 2.")
    assert "in_a_cell(x: Tensor" in repr(second)
    third = run(1)  # the text of the first one again: nothing is compiled
    assert third is not first
    assert third(zeros()).tolist() == [1, 1]


def test_parameters_with_names_that_the_rendered_code_uses():
    taken = "args call given stream_ shape device globals result empty launch text entry tkjit_ kernel".split()
    taken = [name for name in taken if not name.startswith("tkjit_")]
    fields = ", ".join(f"{name}: int" for name in taken)
    total = " + ".join(f"g.{name}" for name in taken)
    kernel = define(
        f"__global__ void add(Globals g) {{ g.state[0] = g.view[0] + {total}; }}",
        f'(view: In[Tensor, "int32", "leading"], {fields}, *, state: Out[Tensor, "int32", "leading"] = None) -> Tensor',
        entry="add",
        grid="min(args, 1) * max(call // call, 1)",
        block="cdiv(shape, shape) + given - given + stream_ - stream_",
        constraints=["leading == 1", "device < entry"],
    )
    values = range(1, len(taken) + 1)
    x = torch.tensor([1000], dtype=torch.int32)
    assert kernel(x, *values).tolist() == [1000 + sum(values)]
    assert kernel(view=x, **dict(zip(taken, values, strict=True))).tolist() == [1000 + sum(values)]


# ---- dtypes and limits

COPIED = ("bool", "int8", "uint16", "int64", "float64", "float16")


@tkjit.kernel(
    "template <class T> __global__ void copy(Globals g) {"
    " static_assert(sizeof(T) == sizeof(g.x[0]) && std::is_same_v<T, std::remove_reference_t<decltype(g.y[0])>>);"
    " g.y[threadIdx.x] = g.x[threadIdx.x]; }",
    entry="copy<T>",
    grid=1,
    block="N",
    variants={"T": COPIED},
)
def copy(x: In[Tensor, "T", "N"], *, y: Out[Tensor, "T", "N"] = None) -> Tensor: ...


@pytest.mark.parametrize("name", COPIED)
def test_elements_of_every_kind_keep_their_value(name):
    dtype = getattr(torch, name)
    if name == "bool":
        x = torch.tensor([True, False, True])
    elif dtype.is_floating_point:
        limits = torch.finfo(dtype)
        x = torch.tensor([limits.max, limits.tiny, -limits.eps, float("inf")], dtype=dtype)
    else:
        limits = torch.iinfo(dtype)
        x = torch.tensor([limits.min, limits.max, 1], dtype=dtype)
    y = copy(x)
    assert y.dtype == dtype and torch.equal(y, x)


@tkjit.kernel(
    "__global__ void f(Globals g) { g.y[0] = g.a; g.y[1] = g.b; g.y[2] = g.c; g.y[3] = g.d; g.y[4] = g.e; }",
    entry="f",
    grid=1,
    block=1,
)
def limits(
    y: InOut[Tensor, "int64", 5],
    a: Scalar[int, "int64_t"] = -(2**63),
    b: Scalar[int, "int64_t"] = 2**63 - 1,
    c: Scalar[int, "uint32_t"] = 2**32 - 1,
    d: Scalar[int, "int8_t"] = -128,
    e: Scalar[int, "uint64_t"] = 0,
) -> Tensor: ...


def test_integers_at_their_limits():
    y = torch.zeros(5, dtype=torch.int64)
    assert limits(y).tolist() == [-(2**63), 2**63 - 1, 2**32 - 1, -128, 0]
    assert limits(y, 2**63 - 1, -(2**63), 0, 127, 2**63 - 1).tolist() == [2**63 - 1, -(2**63), 0, 127, 2**63 - 1]
    for name, value, low, high in [
        ("a", 2**63, -(2**63), 2**63 - 1),
        ("a", -(2**63) - 1, -(2**63), 2**63 - 1),
        ("c", 2**32, 0, 2**32 - 1),
        ("c", -1, 0, 2**32 - 1),
        ("d", 128, -128, 127),
        ("e", -1, 0, 2**63 - 1),
    ]:
        with pytest.raises(tkjit.ArgumentError) as raised:
            limits(y, **{name: value})
        assert str(raised.value) == f"limits: {name} is {value} (int); expected an int from {low} to {high}"


# ---- threads and processes


@tkjit.kernel(
    "__global__ void spin(Globals g) {"
    " volatile int64_t n = g.rounds; for (int64_t i = 0; i < n; ++i) {} g.x[0] += 1; }",
    entry="spin",
    grid=1,
    block=1,
)
def spin(x: InOut[Tensor, "int32", 1], rounds: Scalar[int, "int64_t"]) -> Tensor: ...


def test_other_threads_run_during_a_kernel():
    x = torch.zeros(1, dtype=torch.int32)
    spin(x, 1)
    start = time.monotonic()
    spin(x, 10_000_000)
    rounds = int(10_000_000 * 0.3 / max(time.monotonic() - start, 1e-4))  # about 0.3 s
    ticks, stop = [], threading.Event()

    def tick() -> None:
        while not stop.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    spin(x, rounds)
    end = time.monotonic()
    stop.set()
    thread.join()
    assert end - start > 0.05
    assert sum(start < at < end for at in ticks) >= 5


def test_eight_threads_make_the_first_call_together():
    kernel = define(
        "template <class T> __global__ void add(Globals g) { g.x[threadIdx.x] += T(g.step); }",
        '(x: InOut[Tensor, "T", "N"], step: int) -> Tensor',
        entry="add<T>",
        grid=1,
        block="N",
        variants={"T": ("int32", "float32")},
    )
    loaded = tkjit.load(kernel)
    barrier = threading.Barrier(8)
    wrong: list[object] = []

    def work(number: int) -> None:
        dtype = torch.int32 if number % 2 else torch.float32
        x = torch.zeros(16, dtype=dtype)
        barrier.wait()
        try:
            for step in range(200):
                (loaded if number < 4 else kernel)(x, step + number)
        except Exception as error:
            wrong.append(error)
        if x.tolist() != [200 * 199 / 2 + 200 * number] * 16:
            wrong.append((number, x))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_after_a_fork():
    x = torch.zeros(2, dtype=torch.int32)
    assert copy(torch.tensor([True])).tolist() == [True]
    loaded = tkjit.load(limits)
    loaded(torch.zeros(5, dtype=torch.int64))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            known = loaded(torch.zeros(5, dtype=torch.int64)).tolist()[1] == 2**63 - 1
            fresh = define(
                "__global__ void f(Globals g) { g.x[threadIdx.x] += 5; }",
                '(x: InOut[Tensor, "int32", "N"]) -> Tensor',
                entry="f",
                grid=1,
                block="N",
            )
            status = 0 if known and fresh(x).tolist() == [5, 5] else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0
    assert x.tolist() == [0, 0]
    assert copy(torch.tensor([False])).tolist() == [False]


# ---- faults of kernels


@tkjit.kernel(
    """
    __global__ void stuck(Globals g) {
        if (g.hang && threadIdx.x < 32) {
            __syncthreads();
        } else if (g.hang) {
            if (threadIdx.x != 40) __syncwarp();
            __syncthreads();
        }
        g.x[0] = 1;
    }
    """,
    entry="stuck",
    grid=1,
    block=64,
)
def deadlock(x: InOut[Tensor, "int32", "N"], hang: bool) -> Tensor: ...


def test_a_deadlock_is_an_error_with_the_place():
    x = torch.zeros(1, dtype=torch.int32)
    assert deadlock(x, False).item() == 1
    for _ in range(2):
        with pytest.raises(tkjit.LaunchError, match=r"^deadlock: .*deadlock") as raised:
            deadlock(x, True)
        assert "(inline.cu:4)" in str(raised.value) and "(inline.cu:6)" in str(raised.value)
        assert isinstance(raised.value, RuntimeError)
    assert deadlock(x, False).item() == 1


def test_a_failed_assertion_is_an_error_with_the_place():
    options = {"entry": "f", "grid": 1, "block": 1}
    kernel = define(
        "#include <cassert>\n__global__ void f(Globals g) { assert(g.x[0] > 0); }",
        '(x: InOut[Tensor, "int32", "N"])',
        **options,
    )
    with pytest.raises(tkjit.LaunchError, match=r"assertion `g\.x\[0\] > 0` failed, .*\(inline\.cu:2\)"):
        kernel(torch.zeros(1, dtype=torch.int32))


# ---- every operator of the expression language, in every place


def test_comparisons_in_grid_block_and_shared_memory():
    kernel = define(
        "__global__ void f(Globals g) { atomicAdd(g.y.raw_ptr, 1.f); }",
        '(x: In[Tensor, "float32", "N"], y: InOut[Tensor, "float32", 1]) -> Tensor',
        entry="f",
        grid="1 + (N > 3)",
        block="1 + (2 < N <= 5) + (N == 4) * (N != 5) + (N >= 9)",
        shared_memory="(N < 2) * 16",
    )
    for n, threads in ((1, 1), (3, 2), (4, 6), (5, 4), (9, 4)):
        assert kernel(torch.ones(n), floats(0)).item() == threads, n


def test_every_name_of_the_glues_own_may_be_a_parameters():
    words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r'//.*|"[^"]*"', "", tkjit.find("gemm").render().glue)))
    taken = {"x", "n", "out", "stream", "self", "Globals", "None", "True", "False", "min", "max", "cdiv"}
    usable = sorted(w for w in words - taken if w.isidentifier() and not keyword.iskeyword(w) and w not in CPP_KEYWORDS)
    usable = [
        w for w in usable if not re.match(r"tkjit_|Tkjit|TKJIT|TORCH|Py|overload_|signature_|parameters_|[abcTMKN]$", w)
    ]
    assert {"call", "given", "launch_function", "args"} <= set(usable)
    parameters = ", ".join(f"{word}: int = {i}" for i, word in enumerate(usable))
    kernel = define(
        f"__global__ void f(Globals g) {{ g.x[0] = g.{usable[-1]}; }}",
        f'(x: InOut[Tensor, "float32", 1], {parameters}) -> Tensor',
        entry="f",
        grid=1,
        block=1,
    )
    assert kernel(floats(-1)).item() == len(usable) - 1


# ---- libraries


def test_a_static_library_is_linked_behind_the_source(tmp_path):
    (tmp_path / "seven.cpp").write_text('extern "C" int seven() { return 7; }\n')
    build = "g++ -fPIC -c seven.cpp -o seven.o && ar rc libseven.a seven.o"
    subprocess.run(build, shell=True, check=True, cwd=tmp_path)
    kernel = define(
        'extern "C" int seven();\n__global__ void f(Globals g) { g.x[0] = seven(); }',
        '(x: InOut[Tensor, "float32", 1]) -> Tensor',
        entry="f",
        grid=1,
        block=1,
        flags=f"-L{tmp_path}",
        libraries="seven",
    )
    assert kernel(floats(0)).item() == 7


def test_a_directory_in_a_define_is_a_value(tmp_path):
    results = []
    for name in ("one", "another"):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "length.cu").write_text("__global__ void f(Globals g) { g.x[0] = sizeof(HERE) - 1; }\n")
        kernel = define(
            directory / "length.cu",
            '(x: InOut[Tensor, "float32", 1]) -> Tensor',
            entry="f",
            grid=1,
            block=1,
            defines={"HERE": f'"{directory}"'},
        )
        results.append(kernel(floats(0)).item() - len(str(directory)))
    assert results == [0, 0]


# ---- what a host function returns


def test_an_error_that_a_host_function_returns():
    kernel = define(
        "inline cudaError_t f(float* x, int fail) { return fail ? cudaErrorInvalidValue : cudaSuccess; }",
        '(x: InOut[Tensor, "float32", "N"], fail: int) -> Tensor',
        entry="f",
        args=True,
        host=True,
    )
    kernel(floats(1), 0)
    with pytest.raises(LaunchError, match=r"feature_\d+: the host function returned error 1: invalid argument"):
        kernel(floats(1), 1)


# ---- outputs apart from inputs


def test_an_output_that_shares_memory_is_refused():
    kernel = define(
        COPY,
        '(x: In[Tensor, "float32", "N"], *, y: Out[Tensor, "float32", "N"]) -> Tensor',
        entry="copy<float>",
        grid=1,
        block="N",
    )
    memory = torch.arange(8.0)
    for x, y in ((memory, memory), (memory[:4], memory[2:6]), (memory[2:6], memory[:4])):
        with pytest.raises(
            ArgumentError, match=r"feature_\d+: the output y shares memory with x; give it memory of its own"
        ):
            kernel(x, out=y)
    assert kernel(memory[:4], out=memory[4:]).tolist() == [0, 1, 2, 3]


def test_an_entry_that_is_a_template_of_its_struct_of_the_name_globals():
    kernel = define(
        "struct globals { tkjit::gl<float> x; };\n"
        "template <class G> __global__ void f(const __grid_constant__ G g) { g.x[threadIdx.x] += 1; }",
        '(x: InOut[Tensor, "float32", "N"]) -> Tensor',
        entry="f<globals>",
        struct="globals",
        grid=1,
        block="N",
    )
    assert kernel(torch.zeros(3)).tolist() == [1, 1, 1]


def test_compile_time_extents_of_a_layout_that_is_an_argument():
    kernel = define(
        "#include <tkjit/gl.h>\n"
        "__global__ void f(tkjit::gl<float, 1, 1, -1, 4> x, float* y, int n) { y[0] = x.cols() + 10 * x.rows() + n; }",
        '(x: In[Tensor, "float32", "M", "N"], y: InOut[Tensor, "float32", 1], n: int = 100) -> Tensor',
        entry="f",
        args=True,
        grid=1,
        block=1,
    )
    assert kernel(torch.ones(3, 4), torch.zeros(1)).item() == 134
    with pytest.raises(ShapeError, match=r"feature_\d+: x has cols=5; its type fixes 4"):
        kernel(torch.ones(3, 5), torch.zeros(1))
