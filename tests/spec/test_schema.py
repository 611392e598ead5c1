"""Operator schemas, value types and ``backward=`` of a spec."""

from __future__ import annotations

import pickle

import pytest
import torch

import tkjit
from tkjit import In, InOut, MaxLength, Out, Scalar, SpecError, Tensor
from tkjit.render.text import field_text
from tkjit.spec.schema import has_operator, operator_name, schema_of
from tkjit.spec.values import value_type_of

F32 = "float32"
OPTIONS = {"entry": "f", "grid": 1, "block": 32}
KERNEL = "__global__ void f(Globals g) {}"


def spec_of(function, **options):
    return tkjit.kernel(KERNEL, **{**OPTIONS, **options})(function).specs[0]


def host_spec_of(function, **options):
    return tkjit.kernel("inline void f(Globals g) {}", entry="f", host=True, **options)(function).specs[0]


def plain(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"], n: int, scale: float = 1.0): ...
def in_place(x: In[Tensor, F32, "N"], y: InOut[Tensor, F32, "N"], *, flag: bool = False): ...
def several(x: In[Tensor, F32, "N"], *, p: Out[Tensor, F32, "N"] = None, q: Out[Tensor, F32, "N"] = None): ...
def optional(x: In[Tensor, F32, "N"], b: In[Tensor, F32, "N"] | None = None, s: float | None = None): ...
def required_optional(x: In[Tensor, F32, "N"], s: int | None, t: float = 2.0): ...
def late_required(x: InOut[Tensor, F32, "N"], a: float = 1.0, *, b: float): ...
def infinite(x: InOut[Tensor, F32, "N"], a: float = float("inf"), b: int = 3): ...
def lists(xs: InOut[list[Tensor], F32, "N"], sizes: Scalar[list[int], "int"] = (1, 2), w: list[float] = ()): ...
def of_a_host(x: InOut[Tensor, F32, "N"], name: str = "a", t: torch.dtype = torch.half, d: torch.device = "cpu"): ...


@pytest.mark.parametrize(
    ("function", "schema"),
    [
        (plain, "plain(Tensor x, SymInt n, float scale=1.0) -> Tensor"),
        (in_place, "in_place(Tensor x, Tensor(a!) y, bool flag=False) -> ()"),
        (several, "several(Tensor x) -> (Tensor p, Tensor q)"),
        (optional, "optional(Tensor x, Tensor? b=None, float? s=None) -> ()"),
        (required_optional, "required_optional(Tensor x, SymInt? s, float t=2.0) -> ()"),
        (late_required, "late_required(Tensor(a!) x, float a, float b) -> ()"),
        (infinite, "infinite(Tensor(a!) x, float a, SymInt b=3) -> ()"),
        (lists, "lists(Tensor(a!)[] xs, SymInt[] sizes=[1, 2], float[] w=[]) -> ()"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_schema(function, schema):
    spec = spec_of(function)
    assert schema_of(spec) == schema
    parsed = torch._C.parse_schema(schema_of(spec, name="tkjit::name"))
    assert [argument.name for argument in parsed.arguments] == [f.name for f in spec.fields if f.direction != "out"]


def test_schemas_of_out_of_overloads_and_of_a_host_function():
    assert schema_of(spec_of(plain), 2, out=True) == (
        "plain.overload2_out(Tensor x, SymInt n, float scale, Tensor(a!) y) -> ()"
    )
    assert [operator_name(i, out=out) for i in (0, 1) for out in (False, True)] == [
        "",
        "out",
        "overload1",
        "overload1_out",
    ]
    schema = schema_of(host_spec_of(of_a_host), name="tkjit::f")
    assert schema == "tkjit::f(Tensor(a!) x, str name, ScalarType t, Device d) -> ()"
    torch._C.parse_schema(schema)


def test_dicts_and_nested_lists_have_no_operator():
    def weighted(x: In[Tensor, F32, "N"], weights: dict[str, float]): ...
    def nested(x: In[Tensor, F32, "N"], weights: list[list[int]]): ...

    assert not has_operator(host_spec_of(weighted)) and not has_operator(host_spec_of(nested))
    assert has_operator(host_spec_of(of_a_host))


@pytest.mark.parametrize(
    ("annotation", "code", "cpp"),
    [
        (str, "s", "std::string"),
        (list[bool], "Lb", "std::vector<bool>"),
        (tuple[float, ...], "Lf", "std::vector<double>"),
        (tuple[int, str], "T2is", "std::tuple<int64_t, std::string>"),
        (dict[str, list[int]], "DsLi", "std::map<std::string, std::vector<int64_t>>"),
        (frozenset[str], "Ss", "std::set<std::string>"),
        (torch.dtype, "t", "TkjitDtype"),
        (list[torch.device], "Ld", "std::vector<TkjitDevice>"),
    ],
)
def test_value_types(annotation, code, cpp):
    value = value_type_of(annotation)
    assert (value.code, value.cpp) == (code, cpp)
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    "annotation", [bytes, list, dict, list[bytes], dict[str, object], torch.Tensor, "int", None, 3]
)
def test_annotations_that_are_not_value_types(annotation):
    assert value_type_of(annotation) is None


def test_text_of_a_field_is_its_declaration():
    spec = spec_of(lists)
    assert [field_text(f) for f in spec.fields] == [
        'xs: InOut[list[Tensor], "float32", "N"]',
        "sizes: list[int] = (1, 2)",
        "w: list[float] = ()",
    ]


def test_lengths():
    def longer(xs: In[list[Tensor], F32, "N", MaxLength(99)], sizes: Scalar[list[int], MaxLength(3)]): ...

    assert [f.max_length for f in spec_of(longer).fields] == [99, 3]
    assert [f.max_length for f in spec_of(lists).fields] == [16, 16, 16]
    with pytest.raises(SpecError, match=r"MaxLength\(0\): expected 1 to 256 items"):
        MaxLength(0)


# ---- backward


def with_unknown(grad_y, z): ...
def good(grad_y, x, needed): ...


@pytest.mark.parametrize(
    ("function", "backward", "message"),
    [
        (plain, with_unknown, "backward takes z; it can take grad_y, n, needed, scale, x, y"),
        (in_place, good, "backward= needs a kernel that changes no argument, but y is written in place"),
        (optional, good, "backward= needs a kernel with outputs"),
        (plain, 3, "backward is 3; expected a function, a kernel or a kernel's name"),
    ],
)
def test_invalid_backward_is_rejected(function, backward, message):
    with pytest.raises(SpecError) as raised:
        spec_of(function, backward=backward)
    assert message in str(raised.value)


def test_backward_is_part_of_the_spec():
    named, other = spec_of(plain, backward=good), spec_of(plain, backward="plain_backward")
    assert named.backward.parameters == ("grad_y", "x", "needed") and other.backward.kernel == "plain_backward"
    assert len({repr(spec) for spec in (named, other, spec_of(plain))}) == 3
    assert "kRequiresGrad" in tkjit.Kernel(named).render().glue
    assert "kRequiresGrad" not in tkjit.Kernel(spec_of(plain)).render().glue
