"""Specs: what a function says is read off it, and a spec that contradicts itself is refused by name."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tkjit
from tkjit import Align, CType, In, InOut, Kernel, Out, Scalar, Spec, SpecError, Tensor
from tkjit.spec import BY_NAME, DTYPES, Field, Source, spec_of_function
from tkjit.spec.dtypes import enumerator
from tkjit.spec.expr import Expr
from tkjit.spec.model import MISSING

SOURCE = "template <class T> __global__ void scale(const __grid_constant__ Globals g) {}"
F32 = "float32"


def read(function: Callable[..., Any], source: str | None = SOURCE, **options: Any) -> Spec:
    return spec_of_function(function, source, **{"entry": "scale<T>", "grid": 1, "block": 32, **options})


def field(name: str = "x", direction: str = "in", dtype: str = F32, *dims: str, **rest: Any) -> Field:
    return Field(name, direction, dtype, dims=tuple(map(Expr.parse, dims)), **rest)


def by_hand(*fields: Field, **changes: Any) -> Spec:
    """A spec built without a function, as tools do."""
    plain: dict[str, Any] = {
        "name": "scale",
        "entry": "scale",
        "fields": fields,
        "order": tuple(f.name for f in fields),
        "sources": (("", Source(text=SOURCE)),),
        "grid": (Expr.parse(1),),
        "block": (Expr.parse(32),),
    }
    return Spec(**plain | changes)


def refusal(make: Callable[[], object]) -> str:
    with pytest.raises(SpecError) as caught:
        make()
    return str(caught.value)


# ---- what a function says


def scale(
    x: In[Tensor, "T", "M", "N"],
    y: InOut[Tensor, "T", "... N", Align(16)],
    bias: In[Tensor, F32, 64, "2 * N"] | None = None,
    alpha: float = 2.0,
    *,
    count: Scalar[int, "uint32_t"] = 3,
    exact: bool = False,
    z: Out[Tensor, "T", "M", "N"] = None,
) -> Tensor:
    """Scale a tensor.

    And more.
    """
    return x


VARIANTS = {"T": (F32, "bfloat16")}


def test_where_a_kernel_is_defined_and_what_it_forbids():
    options = {"variants": {"T": (F32,)}}
    assert read(scale, **options).module == __name__ and read(scale, **options).forbid_spills is False
    assert read(scale, **options, forbid_spills=True).forbid_spills is True


def test_a_function_says_everything():
    spec = read(scale, variants=VARIANTS, constraints="N % 8 == 0", dims={"P": "cdiv(N, 2)"}, shared_memory="4 * N")
    assert spec.name == "scale"
    assert spec.doc == "Scale a tensor.\n\nAnd more."
    assert spec.reference is scale
    assert [f.name for f in spec.fields] == ["x", "y", "bias", "alpha", "count", "exact", "z"]
    assert [f.direction for f in spec.fields] == ["in", "inout", "in", "scalar", "scalar", "scalar", "out"]
    assert [f.dtype for f in spec.fields] == ["T", "T", F32, "float", "uint32_t", "bool", "T"]
    assert [f.keyword_only for f in spec.fields] == [False] * 4 + [True] * 3
    assert [f.optional for f in spec.fields] == [False, False, True, False, False, False, False]
    assert [f.default for f in spec.fields] == [MISSING, MISSING, None, 2.0, 3, False, MISSING]
    assert [f.is_required for f in spec.fields] == [True, True, False, False, False, False, False]
    assert [list(map(str, f.dims)) for f in spec.tensors] == [["M", "N"], ["N"], ["64", "2 * N"], ["M", "N"]]
    assert [f.leading for f in spec.tensors] == [False, True, False, False]
    assert [f.align_bytes for f in spec.tensors] == [0, 16, 0, 0]
    assert spec.variants == (("T", (F32, "bfloat16")),)
    assert spec.dim_names == ("M", "N")
    assert spec.constraints == (Expr("N % 8 == 0"),)
    assert spec.derived == (("P", Expr("cdiv(N, 2)")),)
    assert spec.shared_memory == Expr("4 * N")
    assert spec.returns == ("z",)


def test_annotations_may_be_objects_or_strings(tmp_path):
    body = (
        "import tkjit\nfrom tkjit import In, InOut, Scalar, Tensor\n"
        "def f(x: In[Tensor, 'int8', 'N'], n: Scalar[int, 'int64_t'] = 2, b: In[Tensor, 'int8'] | None = None): ...\n"
    )
    spaces: list[dict[str, Any]] = [{"__file__": "f.py"}, {"__file__": "f.py"}]
    exec(compile(body, "f.py", "exec", dont_inherit=True), spaces[0])
    exec(compile("from __future__ import annotations\n" + body, "f.py", "exec", dont_inherit=True), spaces[1])
    assert not isinstance(spaces[0]["f"].__annotations__["x"], str)
    assert isinstance(spaces[1]["f"].__annotations__["x"], str)
    assert read(spaces[0]["f"]) == read(spaces[1]["f"])


def test_plain_python_types_are_cpp_types_of_that_name():
    def f(x: In[Tensor, F32], a: float, b: int, c: bool, d: Scalar[float, "double"], e: Scalar[int]): ...

    assert [f.dtype for f in read(f).fields[1:]] == ["float", "int", "bool", "double", "int"]


def test_any_leading_dims():
    def f(a: In[Tensor, F32, ..., "N"], b: In[Tensor, F32, "... M N"], c: In[Tensor, F32, "..."]): ...

    assert [(f.leading, tuple(map(str, f.dims))) for f in read(f).fields] == [
        (True, ("N",)),
        (True, ("M", "N")),
        (True, ()),
    ]


def test_a_type_of_another_library():
    def f(x: In[Tensor, "bfloat16", "M", 64, CType("gl<bf16, 1, 1, -1, 64>")]): ...

    assert read(f).fields[0].cpp_type == "gl<bf16, 1, 1, -1, 64>"


def empty_with_docstring(x: In[Tensor, F32]):
    """Nothing but this."""


def empty_with_dots(x: In[Tensor, F32]): ...


def empty_with_both(x: In[Tensor, F32]):
    """This and dots."""
    ...


def with_pass(x: In[Tensor, F32]):
    pass


def with_body(x: In[Tensor, F32]):
    return x * 2


def with_constant(x: In[Tensor, F32]):
    return 1.0


def with_error(x: In[Tensor, F32]):
    """A reference that says it cannot."""
    raise NotImplementedError


@pytest.mark.parametrize("function", [empty_with_docstring, empty_with_dots, empty_with_both, with_pass])
def test_an_empty_body_is_no_reference(function):
    assert read(function).reference is None


@pytest.mark.parametrize("function", [with_body, with_constant, with_error])
def test_a_body_is_the_reference(function):
    assert read(function).reference is function


def returned(annotation: Any, *directions: str) -> tuple[str, ...]:
    """The fields that a function returns whose tensors are x, then those of the directions."""
    marks = {"inout": InOut, "out": Out}

    names = [*"abcd"][: len(directions)]
    code = f"def f(x: In, {', '.join(f'{n}: {n.upper()}' for n in names)}) -> R: ..."
    space: dict[str, Any] = {"In": In[Tensor, F32, "N"], "R": annotation}
    space |= {n.upper(): marks[d][Tensor, F32, "N"] for n, d in zip(names, directions, strict=True)}
    exec(compile(code.replace(", )", ")"), __file__, "exec", dont_inherit=True), space)
    return read(space["f"]).returns


@pytest.mark.parametrize(
    "annotation, directions, names",
    [
        (None, ["out"], ("a",)),
        (None, ["inout"], ()),
        (Tensor, ["out"], ("a",)),
        (Tensor, ["inout"], ("a",)),
        (Tensor, ["inout", "out"], ("b",)),
        (tuple[Tensor, Tensor], ["out", "out"], ("a", "b")),
        (tuple[Tensor, Tensor], ["inout", "out"], ("a", "b")),
        (tuple[Tensor, Tensor], ["inout", "out", "out"], ("b", "c")),
        (tuple[Tensor, Tensor, Tensor], ["out", "inout", "out"], ("a", "b", "c")),
    ],
)
def test_the_return_annotation_says_what_is_returned(annotation, directions, names):
    assert returned(annotation, *directions) == names


@pytest.mark.parametrize(
    "annotation, directions", [(Tensor, []), (Tensor, ["out", "out"]), (tuple[Tensor, Tensor], ["out"])]
)
def test_a_return_annotation_that_no_outputs_fit(annotation, directions):
    text = refusal(lambda: returned(annotation, *directions))
    assert text.startswith("f: the annotation returns ")
    assert text.endswith(f"the outputs are {', '.join('ab'[: len(directions)]) or 'none'}")


@pytest.mark.parametrize("fields", ["alpha y x", "alpha, y, x"])
def test_the_struct_may_have_another_order(fields):
    def f(x: In[Tensor, F32], y: In[Tensor, F32], alpha: float): ...

    assert [f.name for f in read(f, fields=fields).struct_fields] == ["alpha", "y", "x"]
    assert [f.name for f in read(f, fields=fields).fields] == ["x", "y", "alpha"]


def test_sources_are_files_beside_the_function_or_texts(tmp_path):
    def f(x: In[Tensor, F32]): ...

    assert read(f, "scale.cu").sources == (("", Source(path=Path(__file__).parent / "scale.cu")),)
    assert read(f, SOURCE).sources == (("", Source(text=SOURCE)),)
    assert read(f, "int a;\nint b;\n").sources[0][1].text == "int a;\nint b;\n"
    assert read(f, tmp_path / "scale.cu").sources[0][1].path == tmp_path / "scale.cu"
    spec = read(f, None, archs={"90a": "gemm_sm90.cu", "80": "gemm_sm80.cu"}, cpu="gemm.cpp")
    assert [(arch, source.name) for arch, source in spec.sources] == [
        ("90a", "gemm_sm90.cu"),
        ("80", "gemm_sm80.cu"),
        ("cpu", "gemm.cpp"),
    ]
    assert read(f, include_dirs=["headers"]).include_dirs == (Path(__file__).parent / "headers",)


@pytest.mark.parametrize(
    "archs, arch, name",
    [
        (["", "90a"], "90a", "90a"),
        (["", "90a"], "80", ""),
        (["", "90a"], "100a", ""),  # what 90a adds is on no other
        (["80", "90a"], "90a", "90a"),
        (["80", "90"], "90a", "90"),
        (["80", "90"], "86", "80"),
        (["80", "90a"], "100a", "80"),
        (["80", "100"], "90a", "80"),
        (["80", "100f"], "103a", "100f"),  # a family's features are on all of its later members
        (["90a"], "80", None),
        (["90"], "80", None),
        (["", "cpu"], "cpu", "cpu"),
        (["", "90a"], "cpu", ""),
        (["90a"], "cpu", "90a"),  # the simulator takes the one source there is
        (["90a", "80"], "cpu", None),
    ],
)
def test_the_most_specific_source_that_an_architecture_runs(archs, arch, name):
    spec = by_hand(field(), sources=tuple((a, Source(text=a or "any")) for a in archs))
    found = spec.source_for(arch)
    assert (found and found.text) == (name if name is None else name or "any")


def test_a_source_that_cannot_be_read(tmp_path):
    missing = Source(path=tmp_path / "missing.cu")
    assert str(tmp_path / "missing.cu") in refusal(missing.read)
    (tmp_path / "latin.cu").write_bytes(b"// \xe9\n")
    assert "latin.cu" in refusal(Source(path=tmp_path / "latin.cu").read)


def test_a_dim_is_bound_by_a_required_tensor_where_there_is_one():
    spec = by_hand(
        field("bias", "in", F32, "N", optional=True),
        field("x", "in", F32, "M", "N"),
        field("y", "out", F32, "P"),
        derived=(("P", Expr("N + M")),),
    )
    assert spec.dim_names == ("N", "M")
    binder, axis = spec.binder("N")
    assert (binder.name, axis) == ("x", 1)


def test_a_spec_is_a_frozen_value():
    def f(x: In[Tensor, F32, "N"]): ...

    assert read(f) == read(f)
    assert hash(read(f)) == hash(read(f))
    with pytest.raises(dataclasses.FrozenInstanceError):
        read(f).name = "g"


def test_overloads_share_one_name():
    one, other = by_hand(field()), by_hand(field(), name="other")
    assert Kernel(one, one).specs == (one, one)
    text = refusal(lambda: Kernel(one, other))
    assert "share one name" in text and "scale" in text and "other" in text


def test_every_dtype_is_one_of_torchs(python):
    names = " ".join(BY_NAME)
    printed = python(
        "import sys, torch\nprint(*(getattr(torch, name).itemsize for name in sys.argv[1].split()))",
        names,
    )
    assert [int(size) for size in printed.split()] == [dtype.size_bytes for dtype in DTYPES]


def test_dtypes_stand_in_the_order_of_the_c_enumeration():
    text = (Path(tkjit.__file__).parent / "include/tkjit/arg.h").read_text()
    positions = [text.index(enumerator(dtype)) for dtype in DTYPES]
    assert positions == sorted(positions)


# ---- what a function cannot say


def no_annotation(x: In[Tensor, F32], stray): ...
def starred(x: In[Tensor, F32], *stray: float): ...
def double_starred(x: In[Tensor, F32], **stray: float): ...
def foreign(x: In[Tensor, F32], stray: bytes): ...
def bare_marker(x: In[Tensor, F32], stray: In): ...
def not_hashable(x: In[Tensor, F32], stray: [1, 2]): ...
def no_tensor(x: In[Tensor, F32], stray: In[float, F32, "N"]): ...
def no_dtype(x: In[Tensor, F32], stray: In[Tensor]): ...
def dtype_is_a_dim(x: In[Tensor, F32], stray: Out[Tensor, 64]): ...
def late_dots(x: In[Tensor, F32], stray: In[Tensor, F32, "N", "..."]): ...
def dots_twice(x: In[Tensor, F32], stray: In[Tensor, F32, "...", "..."]): ...
def tensor_default(x: In[Tensor, F32], stray: In[Tensor, F32] = 3): ...
def string_scalar(x: In[Tensor, F32], stray: Scalar[str, "int"]): ...
def int_as_float(x: In[Tensor, F32], stray: Scalar[int, "float"]): ...
def float_as_int(x: In[Tensor, F32], stray: Scalar[float, "int64_t"]): ...
def bool_as_int(x: In[Tensor, F32], stray: Scalar[bool, "int"]): ...
def unknown_scalar(x: In[Tensor, F32], stray: Scalar[int, "int128_t"]): ...
def float_default(x: In[Tensor, F32], stray: int = 1.5): ...
def text_default(x: In[Tensor, F32], stray: float = "1"): ...
def int_for_bool(x: In[Tensor, F32], stray: bool = 1): ...
def bool_for_int(x: In[Tensor, F32], stray: int = True): ...
def bool_for_float(x: In[Tensor, F32], stray: float = True): ...
def too_large(x: In[Tensor, F32], stray: int = 2**31): ...
def negative_unsigned(x: In[Tensor, F32], stray: Scalar[int, "uint8_t"] = -1): ...
def fractional_dim(x: In[Tensor, F32], stray: In[Tensor, F32, 1.5]): ...
def divided_dim(x: In[Tensor, F32, "N"], stray: In[Tensor, F32, "N / 2"]): ...


@pytest.mark.parametrize(
    "function, said",
    [
        (no_annotation, "has no annotation; expected In[Tensor, ...], float, int or bool"),
        (starred, "is not a field; a kernel's parameters are fixed"),
        (double_starred, "is not a field; a kernel's parameters are fixed"),
        (
            foreign,
            "is annotated <class 'bytes'>; expected In[...], InOut[...], Out[...], Scalar[...], float, int, ",
        ),
        (bare_marker, "expected In[...], InOut[...], Out[...], Scalar[...], float, int, bool, str, torch.dtype, "),
        (not_hashable, "is annotated [1, 2]; expected In[...]"),
        (no_tensor, "expected Tensor"),
        (no_dtype, "says no dtype; expected In[Tensor, dtype, dims...]"),
        (dtype_is_a_dim, "says no dtype; expected Out[Tensor, dtype, dims...]"),
        (late_dots, "'...' can only stand before the other dims"),
        (dots_twice, "'...' can only stand before the other dims"),
        (tensor_default, "a tensor's default can only be None"),
        (string_scalar, "a scalar is float, int or bool"),
        (int_as_float, "int cannot be a C++ float"),
        (float_as_int, "float cannot be a C++ int64_t"),
        (bool_as_int, "bool cannot be a C++ int"),
        (unknown_scalar, "unknown scalar type 'int128_t'; known are bool, float"),
        (float_default, "the default 1.5 is not int"),
        (text_default, "the default '1' is not float"),
        (int_for_bool, "the default 1 is not bool"),
        (bool_for_int, "the default True is not int"),  # the glue refuses a bool for an int
        (bool_for_float, "the default True is not float"),
        (too_large, "the default 2147483648 does not fit"),
        (negative_unsigned, "the default -1 does not fit"),
        (fractional_dim, "'1.5' is not in the expression language"),
        (divided_dim, "'N / 2' is not in the expression language"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_parameter_that_cannot_be_read(function, said):
    text = refusal(lambda: read(function))
    assert text.startswith(f"{function.__name__}: ")
    assert "stray" in text
    assert said in text


def test_an_annotation_of_an_unknown_name():
    def f(x: In[Tensor, F32], y: "Tensro"): ...

    text = refusal(lambda: read(f))
    assert text.startswith("f: an annotation names something unknown") and "Tensro" in text


def test_a_kernel_without_a_source():
    def f(x: In[Tensor, F32]): ...

    assert refusal(lambda: read(f, None)) == "f: no source; give a file name, the text itself, or archs="


@pytest.mark.parametrize("value", [0, -16, 3, 24])
def test_an_alignment_is_a_power_of_two(value):
    assert refusal(lambda: Align(value)) == f"Align({value}): expected a power of two, in bytes"


@pytest.mark.parametrize("option", ["grid", "block", "shared_memory", "constraints"])
def test_an_expression_that_cannot_be_read_is_said_with_kernel_and_place(option):
    def f(x: In[Tensor, F32, "N"]): ...

    text = refusal(lambda: read(f, **{option: "N / 2"}))
    assert "'N / 2' is not in the expression language" in text
    assert text.startswith("f: ") and option in text


# ---- what contradicts itself


def test_the_plain_spec_is_accepted():
    assert by_hand(field()).name == "scale"


CONTRADICTIONS: dict[str, tuple[list[Field], dict[str, Any], str]] = {
    "duplicate field": ([field(), field()], {"order": ("x",)}, "the field x is given twice"),
    "unknown dtype": ([field("x", "in", "float31", "N")], {}, "x: unknown dtype 'float31'; known are bool, uint8"),
    "unknown dtype beside variants": (
        [field("x", "in", "T"), field("y", "in", "U")],
        {"variants": (("T", (F32,)),)},
        "y: unknown dtype 'U'; known are T, bool",
    ),
    "unknown dtype option": (
        [field("x", "in", "T")],
        {"variants": (("T", (F32, "half")),)},
        "variants['T']: unknown dtype 'half'; known are bool",
    ),
    "unknown scalar type": (
        [field(), Field("n", "scalar", "long")],
        {},
        "n: unknown scalar type 'long'; known are bool, float",
    ),
    "undefined dim of an output": (
        [field("x", "in", F32, "N"), field("y", "out", F32, "N", "Q")],
        {},
        "y's dims: undefined dim Q in 'Q'; defined are N",
    ),
    "undefined dim of an input": (
        [field("x", "in", F32, "N + Q")],
        {},
        "x's dims: undefined dim N in 'N + Q'; defined are none",
    ),
    "undefined dim in grid": ([field()], {"grid": (Expr("cdiv(Q, 2)"),)}, "grid: undefined dim Q in 'cdiv(Q, 2)'"),
    "undefined dim in block": ([field()], {"block": (Expr("Q"),)}, "block: undefined dim Q"),
    "undefined dim in shared memory": ([field()], {"shared_memory": Expr("Q")}, "shared_memory: undefined dim Q"),
    "undefined dim in constraint": ([field()], {"constraints": (Expr("Q < 1"),)}, "constraints: undefined dim Q"),
    "undefined dim in dims": ([field()], {"derived": (("P", Expr("Q")),)}, "dims['P']: undefined dim Q"),
    "a float in an expression": (
        [field("x", "in", F32, "N"), Field("alpha", "scalar", "float")],
        {"grid": (Expr("alpha"),)},
        "grid: undefined dim alpha in 'alpha'; defined are N",
    ),
    "an output's extents": (
        [field("x", "in", F32, "N"), field("y", "out", F32, "N")],
        {"grid": (Expr("y.rows"),)},
        "grid: undefined dim y.rows",
    ),
    "extents of no tensor": ([field()], {"grid": (Expr("z.rows"),)}, "grid: undefined dim z.rows"),
    "circular shape": (
        [field("x", "in", F32, "N"), field("y", "out", F32, "P")],
        {"derived": (("P", Expr("Q + 1")), ("Q", Expr("P + N")))},
        "circular shape: ",
    ),
    "circular by itself": ([field()], {"derived": (("P", Expr("P + 1")),)}, "circular shape: P -> P"),
    "a dim bound twice": (
        [field("x", "in", F32, "N")],
        {"derived": (("N", Expr("3")),)},
        "dims['N'] is already bound by an argument",
    ),
    "negative dim": ([field("x", "in", F32, "N", "-1")], {}, "x: the dim -1 is negative"),
    "negative dim that is computed": ([field("x", "in", F32, "3 - 5")], {}, "x: the dim 3 - 5 is negative"),
    "a dim that has no value": ([field("x", "in", F32, "1 // 0")], {}, "x"),
    "too many dims": ([field("x", "in", F32, *"ABCDE")], {}, "x has 5 dims; a global layout has at most 4"),
    "leading dims from nowhere": (
        [field("x", "in", F32, "N"), field("y", "out", F32, "N", leading=True)],
        {},
        "y: no argument says what its leading dims '...' are",
    ),
    "C++ keyword as field": ([field("template")], {}, "the name template cannot be used in C++"),
    "C++ keyword as dim": ([field("x", "in", F32, "double")], {}, "the name double cannot be used in C++"),
    "C++ keyword as variant": (
        [field("x", "in", "auto")],
        {"variants": (("auto", (F32,)),)},
        "the name auto cannot be used in C++",
    ),
    "C++ keyword as derived dim": ([field()], {"derived": (("int", Expr("3")),)}, "the name int cannot be used in C++"),
    "name outside ASCII": ([field("größe")], {}, "the name größe cannot be used in C++"),
    **{
        f"reserved field {name}": ([field(name)], {}, f"a field cannot be named {name}: the name is tkjit's")
        for name in ("out", "stream", "self", "Globals", "min", "max", "cdiv", "tkjit_x")
    },
    **{
        f"reserved dim {name}": ([field("x", "in", F32, name)], {"grid": (Expr(f"min({name}, 3)"),)}, name)
        for name in ("Globals", "min", "max", "cdiv", "tkjit_x")
    },
    **{
        f"{name} as field": ([field(name)], {}, f"{name} is a macro of C, and cannot be the name of a member")
        for name in ("NULL", "EOF", "errno", "linux")
    },
    **{
        f"{name} as dim": ([field("x", "in", F32, name)], {}, f"{name} is reserved for compilers and for tkjit's own")
        for name in ("__x", "_X", "TKJIT_EXPORT")
    },
    "a macro as computed member": ([field()], {"computed": (("stdin", Expr("N")),)}, "stdin is a macro of C"),
    "a macro as variant": ([field("x", "in", "NAN")], {"variants": (("NAN", (F32,)),)}, "NAN is a macro of C"),
    "a tensor that is a dim": (
        [field("x", "in", F32, "y"), field("y", "in", F32, "N")],
        {},
        "y names a tensor and a dim or variant",
    ),
    "a dim that is a dtype variant": ([field("x", "in", "T", "T")], {"variants": (("T", (F32,)),)}, "T"),
    "a derived dim that is a dtype variant": (
        [field("x", "in", "T")],
        {"variants": (("T", (F32,)),), "derived": (("T", Expr("3")),)},
        "T",
    ),
    "a dim that is a float": ([field("x", "in", F32, "alpha"), Field("alpha", "scalar", "float")], {}, "alpha"),
    "a derived dim that is a float": (
        [field(), Field("alpha", "scalar", "float")],
        {"derived": (("alpha", Expr("3")),)},
        "alpha",
    ),
    "order names a field twice": (
        [field("x"), field("y")],
        {"order": ("x", "y", "x")},
        "fields='x y x' names a field twice",
    ),
    "order leaves one out": (
        [field("x"), field("y")],
        {"order": ("x",)},
        "fields='x' does not name each parameter once: x, y",
    ),
    "order names a stranger": (
        [field("x")],
        {"order": ("x", "z")},
        "fields='x z' does not name each parameter once: x",
    ),
    "no options": (
        [field("x", "in", "T")],
        {"variants": (("T", ()),)},
        "variants['T'] is (); expected dtype names, or integers",
    ),
    "mixed options": ([field("x", "in", "T")], {"variants": (("T", (F32, 3)),)}, "variants['T'] is ('float32', 3)"),
    "options of a third kind": ([field("x", "in", "T")], {"variants": (("T", (1.5,)),)}, "variants['T'] is (1.5,)"),
    "option twice": (
        [field("x", "in", "T")],
        {"variants": (("T", (F32, F32)),)},
        "variants['T'] names an option twice",
    ),
    "a field that is a dtype variant": (
        [field("x", "in", "n"), Field("n", "scalar", "int")],
        {"variants": (("n", (F32,)),)},
        "n is a field and a dtype variant",
    ),
    "a type variant bound by nothing": (
        [field("x", "in", F32)],
        {"variants": (("T", (F32,)),)},
        "no required tensor argument has the dtype T, so a call cannot choose its variant",
    ),
    "a type variant bound by an output": (
        [field("x", "in", F32, "N"), field("y", "out", "T", "N")],
        {"variants": (("T", (F32,)),)},
        "no required tensor argument has the dtype T",
    ),
    "a type variant bound by an optional tensor": (
        [field("x", "in", F32), field("y", "in", "T", optional=True)],
        {"variants": (("T", (F32,)),)},
        "no required tensor argument has the dtype T",
    ),
    "an integer variant bound by nothing": (
        [field("x", "in", F32, "N")],
        {"variants": (("D", (64, 128)),)},
        "no argument's dim and no integer is named D, so a call cannot choose its variant",
    ),
    "no tensor": (
        [Field("n", "scalar", "int")],
        {},
        "no required tensor argument, so a call cannot say on which device",
    ),
    "only optional tensors": ([field(optional=True)], {}, "no required tensor argument"),
    "only outputs": ([field("y", "out", F32, "3")], {}, "no required tensor argument"),
    "33 results": (
        [field(), *(field(f"y{i}", "inout", F32, "3") for i in range(33))],
        {"returns": tuple(f"y{i}" for i in range(33))},
        "a call would return 33 tensors; the most is 32",
    ),
    "no grid": ([field()], {"grid": ()}, "grid is missing; only a source's own struct or config may say it instead"),
    "no block": ([field()], {"block": ()}, "block is missing; only a source's own struct or config may say it instead"),
    "no grid for plain arguments": ([field()], {"grid": (), "args": True}, "grid is missing"),
    "args with struct": (
        [field()],
        {"args": True, "struct": "globals"},
        "args=True takes plain arguments, struct= a globals struct; give one of them",
    ),
    "host with grid": ([field()], {"host": True, "block": ()}, "a host function launches by itself: grid, block"),
    "host with block": ([field()], {"host": True, "grid": ()}, "a host function launches by itself"),
    "host with shared memory": (
        [field()],
        {"host": True, "grid": (), "block": (), "shared_memory": Expr("3")},
        "a host function launches by itself",
    ),
    "no entry": ([field()], {"entry": "  "}, "entry is empty; expected the name of a __global__ function"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_spec_that_contradicts_itself(case):
    fields, changes, said = CONTRADICTIONS[case]
    text = refusal(lambda: by_hand(*fields, **changes))
    assert text.startswith("scale: ")
    assert said in text


def test_a_name_that_is_no_identifier():
    assert refusal(lambda: by_hand(field(), name="a b")) == "a b: the kernel's name 'a b' is not an identifier"


def test_a_circle_is_named_whole():
    derived = (("P", Expr("Q")), ("Q", Expr("R")), ("R", Expr("P")))
    text = refusal(lambda: by_hand(field(), derived=derived))
    names = text.removeprefix("scale: circular shape: ").split(" -> ")
    assert names[0] == names[-1] and set(names) == {"P", "Q", "R"} and len(names) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"grid": (), "block": (), "struct": "globals"},
        {"grid": (), "block": (), "host": True},
        {"args": True},
        {"derived": (("P", Expr("Q")), ("Q", Expr("2")))},
    ],
)
def test_what_looks_like_a_contradiction_and_is_none(changes):
    assert by_hand(field(), **changes)


def test_a_dim_may_be_an_integer_argument():
    spec = by_hand(field("x", "in", F32, "n"), Field("n", "scalar", "int"), grid=(Expr("n"),))
    assert spec.dim_names == ("n",)
