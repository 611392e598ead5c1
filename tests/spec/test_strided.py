"""Strided layouts in a spec, and the names of their strides."""

import pytest

import tkjit
from tkjit import CType, In, Out, SpecError, Strided, Tensor
from tkjit.spec.expr import Expr

F32 = "float32"


def spec_of(function, **options):
    return tkjit.kernel("", entry="f", grid=1, block=1, **options)(function).specs[0]


def test_strided_field():
    def f(x: In[Strided, F32, "M", "N"], *, y: Out[Tensor, F32, "M"]): ...

    x, y = spec_of(f).fields
    assert x.is_strided and not y.is_strided
    assert [dim.text for dim in x.dims] == ["M", "N"]


def test_stride_is_a_name():
    expr = Expr.parse("x.stride(0) * 4 + x.stride(-1)")
    assert expr.names == {"x.stride(0)", "x.stride(-1)"}
    assert expr.evaluate({"x.stride(0)": 8, "x.stride(-1)": 1}) == 33


@pytest.mark.parametrize(
    "text", ["x.stride()", "x.stride(N)", "x.stride(0, 1)", "x.y.stride(0)", "x.shape(0)", "stride(0)"]
)
def test_invalid_strides_are_rejected(text):
    with pytest.raises(SpecError, match="not in the expression language"):
        Expr.parse(text)


def leading(x: In[Strided, F32, "... N"]): ...
def nine(x: In[Strided, F32, "A", "B", "C", "D", "E", "F", "G", "H", "I"]): ...
def none(x: In[Strided, F32]): ...
def of_another_library(x: In[Strided, F32, "N", CType("gl<float>")]): ...
def listed(x: In[list[Strided], F32, "N"]): ...
def plain(x: In[Tensor, F32, "N"], s: In[Strided, F32, "N"]): ...
def written(x: In[Tensor, F32, "N"], *, y: Out[Strided, F32, "N"]): ...
def optional(x: In[Tensor, F32, "N"], s: In[Strided, F32, "N"] | None = None): ...


@pytest.mark.parametrize(
    ("function", "constraint", "message"),
    [
        (leading, "", "x: a strided layout has a fixed number of dims, so it cannot have '...'"),
        (nine, "", "x has 9 dims; a strided layout has at most 8"),
        (none, "", "x has no dims; a strided layout has 1 to 8"),
        (of_another_library, "", "has no strides; a strided layout always has tkjit's own type"),
        (listed, "", "expected Tensor, Strided, list"),
        (plain, "x.stride(0) == 1", "constraints: x.stride(0) in 'x.stride(0) == 1': x is contiguous"),
        (plain, "s.stride(1) == 1", "s has 1 dims"),
        (plain, "s.stride(-2) == 1", "s has 1 dims"),
        (plain, "t.stride(0) == 1", "there is no tensor t"),
        (written, "y.stride(0) == 1", "y has no strides before it is allocated"),
        (optional, "s.stride(0) == 1", "s.stride(0) has no value when a call omits s"),
    ],
)
def test_contradictory_strides_are_rejected(function, constraint, message):
    with pytest.raises(SpecError) as raised:
        spec_of(function, constraints=[constraint] if constraint else [])
    assert message in str(raised.value)
