"""Structs by value, and arrays in the source's own struct: valid and invalid arguments and specs."""

import ctypes
from dataclasses import make_dataclass
from typing import Any

import numpy as np
import pytest
import torch
from support.struct_values import PARAMS, blend, filter_row, place

import tkjit
from tkjit import ArgumentError, CompileError, In, InOut, Scalar, ShapeError, SpecError, Struct, Tensor

pytestmark = pytest.mark.compiles
F32 = "float32"


class Params(ctypes.Structure):
    _fields_ = (
        ("scale", ctypes.c_double),
        ("weights", ctypes.c_float * 4),
        ("n", ctypes.c_int),
        ("negative", ctypes.c_bool),
        ("tag", ctypes.c_uint8),
    )


def record() -> np.ndarray:
    layout = [("scale", "f8"), ("weights", "f4", (2, 2)), ("n", "i4"), ("negative", "?"), ("tag", "u1")]
    return np.array((2.0, [[1, 2], [3, 4]], 5, True, 7), dtype=layout)


VALUES = (2.0, [1, 2, 3, 4], 5, True, 7)
SAME = {
    "a tuple": VALUES,
    "a nested array": (2.0, ((1, 2), (3, 4)), 5, True, 7),
    "a dict in another order": dict(reversed(list(zip(PARAMS, VALUES, strict=True)))),
    "a record": record(),
    "a scalar of a structured dtype": record()[()],
    "a ctypes structure": Params(2.0, (ctypes.c_float * 4)(1, 2, 3, 4), 5, True, 7),
    "a dataclass": make_dataclass("Params", PARAMS)(*VALUES),
    "tensors and arrays": (torch.tensor(2.0), np.float32([1, 2, 3, 4]), np.int64(5), np.bool_(1), torch.tensor(7)),
}


@pytest.mark.parametrize("name", SAME)
def test_objects_that_convert_to_a_struct(name):
    x = torch.arange(8.0)
    weights = torch.tensor([1.0, 2, 3, 4, 1, 2, 3, 4])
    y = tkjit.load(blend)(x, SAME[name], (1, 0.5, -1), pair=(9, 4))
    assert torch.equal(y, -(2 * weights * x + 5 + 7 + 1 + 1 - 3 + 9 - 4))


def test_defaults_and_vector_types_of_a_rendered_struct():
    x = torch.zeros(4)
    assert tkjit.load(blend)(x, (0, [0] * 4, 0, False, 0)).tolist() == [14.0] * 4
    assert tkjit.load(place)(x, (1, 2, 3, 4), extent=(1, 2, 3)).tolist() == [241.0] * 4


def test_arrays_and_a_struct_in_globals_that_the_source_defines():
    x = torch.arange(4.0)
    expected = x + 2 * x.roll(-2) + 0.25 + 2
    assert torch.equal(tkjit.load(filter_row)(x, [1, 0, 2]), expected)
    assert torch.equal(tkjit.load(filter_row)(x, (1, 0, 2), origin=((1.0, 1.0),), order=[0, 0]), expected - 2.25)


@pytest.mark.parametrize(
    "value",
    [
        (2.0, [1, 2, 3], 5, True, 7),
        (2.0, [1, 2, 3, 4, 5], 5, True, 7),
        (2.0, [1, 2, 3, 4], 5, True),
        (2.0, [1, 2, 3, 4], 5, True, 256),
        (2.0, [1, 2, 3, 4], 5, True, -1),
        (2.0, [1, 2, 3, 4], 2**31, True, 7),
        (2.0, [1, 2, 3, 4], 5.5, True, 7),
        ("2", [1, 2, 3, 4], 5, True, 7),
        {"scale": 2.0},
        {**dict(zip(PARAMS, VALUES, strict=True)), "more": 1},
        "text",
        None,
        3,
    ],
    ids=str,
)
def test_objects_that_do_not_convert_to_a_struct(value: Any):
    text = r"blend: p is .*; expected mine::Params: \(scale, weights\[4\], n, negative, tag\), or a dict, record or"
    with pytest.raises(ArgumentError, match=text):
        tkjit.load(blend)(torch.zeros(4), value)


def test_list_must_have_the_length_of_the_array():
    loaded = tkjit.load(filter_row)
    with pytest.raises(ShapeError, match="filter_row: taps has 2 items; its array in the struct has 3"):
        loaded(torch.zeros(4), [1, 2])
    with pytest.raises(ArgumentError, match="expected at most 3 items"):
        loaded(torch.zeros(4), [1, 2, 3, 4])


def kernel_of(struct: str, members: dict[str, Any]) -> tkjit.Kernel:
    @tkjit.kernel(
        f"struct S {struct};\n__global__ void take(float* x, S s) {{ x[0] = float(sizeof(s)); }}",
        entry="take",
        grid=1,
        block=1,
        args=True,
    )
    def take(x: InOut[Tensor, F32, "N"], s: Scalar[Struct, "S", members]) -> Tensor: ...

    return tkjit.load(take)


@pytest.mark.parametrize(
    ("struct", "members", "text"),
    [
        ("{ float a, b; }", {"a": "float"}, "the number of fields of S; the spec of take says otherwise"),
        ("{ float a; double b; }", {"a": "float", "b": "float"}, "the type of S::b; the spec of take says otherwise"),
        ("{ float a[3]; }", {"a": ("float", 4)}, "the number of fields of S; the spec of take says otherwise"),
        ("{ int a; }", {"a": "uint32_t"}, "the type of S::a; the spec of take says otherwise"),
        ("{ float a; }", {"b": "float"}, "'struct S' has no member named 'b'|no member named|is not a member of"),
    ],
)
def test_struct_that_differs_from_the_spec(struct, members, text):
    values = tuple([1] * kind[1] if isinstance(kind, tuple) else 1 for kind in members.values())
    with pytest.raises(CompileError, match=text):
        kernel_of(struct, members)(torch.zeros(1), values)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Scalar[Struct], "s: expected the type of the struct, as in"),
        (Scalar[Struct, "Params"], "Params is not a CUDA vector type; list its members in order"),
        (Scalar[Struct, "S", {"a": "half"}], "the member 'a' is 'half'; expected one of bool, float, double, int"),
        (Scalar[Struct, "S", {"a": ("float", 0)}], "the member a is"),
        (Scalar[Struct, "S", {}], "expected the members of S as a dict"),
        (Scalar[Struct, "S", {"a": ("float", 300)}], "S has more than 256 elements; pass a tensor"),
        (In[Struct, "float3"], "a struct is passed by value"),
        (Scalar[Struct, "float3", {"q": "int"}], "float3 is a CUDA vector type, whose members are known"),
        (Scalar[Struct, "S", {"class": "int"}], "the member 'class' is 'int'"),
        (Scalar[Struct, "S", {"a": ["float", 2]}], "the member 'a' is"),
    ],
)
def test_a_bad_annotation(annotation, text):
    with pytest.raises(SpecError, match=text):

        @tkjit.kernel("__global__ void take(float* x, S s) {}", entry="take", grid=1, block=1, args=True)
        def take(x: InOut[Tensor, F32, "N"], s: annotation) -> Tensor: ...


def test_a_struct_of_the_source_in_rendered_globals():
    with pytest.raises(SpecError, match=r"S is a struct of the source, .*; write the kernel with args=True"):

        @tkjit.kernel("struct S { float a; }; __global__ void take(Globals g) {}", entry="take", grid=1, block=1)
        def take(x: InOut[Tensor, F32, "N"], s: Scalar[Struct, "S", {"a": "float"}]) -> Tensor: ...


@pytest.mark.parametrize(
    "default", [((1, 2), 2.7), ((1, 2), 2**40), (("a", "b"), 1), ((1, 2), None), ((1,), 2), {"a": (1, 2), "c": 1}, 3]
)
def test_a_bad_default(default):
    with pytest.raises(SpecError, match=r"cannot be the default of S; expected \(a\[2\], b\)"):

        @tkjit.kernel("__global__ void take(float* x, S s) {}", entry="take", grid=1, block=1, args=True)
        def take(
            x: InOut[Tensor, F32, "N"], s: Scalar[Struct, "S", {"a": ("float", 2), "b": "int"}] = default
        ) -> Tensor: ...


def test_contradictory_descriptions_of_a_struct():
    with pytest.raises(SpecError, match="describe the struct S in two ways"):

        @tkjit.kernel("__global__ void take(float* x, S p, S q) {}", entry="take", grid=1, block=1, args=True)
        def take(
            x: InOut[Tensor, F32, "N"], p: Scalar[Struct, "S", {"a": "float"}], q: Scalar[Struct, "S", {"b": "int"}]
        ) -> Tensor: ...
