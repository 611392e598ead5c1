"""Kernel arguments: a generated struct, the source's own struct, or plain arguments; mismatches raise errors."""

from pathlib import Path

import pytest
import torch
from support.define import define, floats

import tkjit
from tkjit import CompileError, In, Out, Tensor

pytestmark = pytest.mark.compiles
KERNELS = Path(__file__).parents[1] / "support" / "kernels"


def test_rendered_struct_has_fields_in_the_requested_order():
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


@pytest.mark.slow
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
    # the spec takes precedence over the struct
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


def test_described_struct_with_one_more_field_than_the_spec():
    source = TWO_POINTERS.replace("float* y;", "float* y; int n;")
    text = refuse_to_compile(source, '(x: In[Tensor, "float32", "N"], y: InOut[Tensor, "float32", "N"])', **PAIR)
    assert "the number of fields of pair; the spec of feature_" in text and "says otherwise" in text


def test_described_struct_with_one_field_fewer_than_the_spec():
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


def test_described_struct_in_another_order_needs_fields():
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


def test_entry_may_be_a_template_of_a_struct_named_globals():
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
