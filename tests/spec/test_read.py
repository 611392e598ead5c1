"""Reading a decorated function as a spec, and the errors for invalid functions."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.specs import F32, SOURCE, read, refusal

from tkjit import Align, CType, In, InOut, Out, Scalar, Tensor
from tkjit.spec import Source
from tkjit.spec.expr import Expr
from tkjit.spec.model import MISSING

# ---- valid functions


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


def test_spec_records_the_defining_module():
    options = {"variants": {"T": (F32,)}}
    assert read(scale, **options).module == __name__


def test_function_defines_all_parts_of_the_spec():
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


def test_annotations_can_be_objects_or_strings(tmp_path):
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


def test_plain_python_types_become_cpp_types_of_the_same_name():
    def f(x: In[Tensor, F32], a: float, b: int, c: bool, d: Scalar[float, "double"], e: Scalar[int]): ...

    assert [f.dtype for f in read(f).fields[1:]] == ["float", "int", "bool", "double", "int"]


def test_leading_dims():
    def f(a: In[Tensor, F32, ..., "N"], b: In[Tensor, F32, "... M N"], c: In[Tensor, F32, "..."]): ...

    assert [(f.leading, tuple(map(str, f.dims))) for f in read(f).fields] == [
        (True, ("N",)),
        (True, ("M", "N")),
        (True, ()),
    ]


def test_type_from_another_library():
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
    """A reference that only raises."""
    raise NotImplementedError


@pytest.mark.parametrize("function", [empty_with_docstring, empty_with_dots, empty_with_both, with_pass])
def test_empty_body_is_not_a_reference(function):
    assert read(function).reference is None


@pytest.mark.parametrize("function", [with_body, with_constant, with_error])
def test_body_is_the_reference(function):
    assert read(function).reference is function


def returned(annotation: Any, *directions: str) -> tuple[str, ...]:
    """The returned fields of a function with a tensor x and one more tensor for each direction."""
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
def test_return_annotation_selects_the_returned_fields(annotation, directions, names):
    assert returned(annotation, *directions) == names


@pytest.mark.parametrize(
    "annotation, directions, remedy",
    [
        (Tensor, [], "outputs are also parameters"),
        (Tensor, ["out", "out"], "write -> tuple[Tensor, Tensor]"),
        (tuple[Tensor, Tensor], ["out"], "write -> Tensor"),
    ],
)
def test_return_annotation_that_does_not_fit_the_outputs(annotation, directions, remedy):
    text = refusal(lambda: returned(annotation, *directions))
    assert text.startswith("f: the annotation returns ")
    assert f"the outputs are {', '.join('ab'[: len(directions)]) or 'none'}; {remedy}" in text


@pytest.mark.parametrize("fields", ["alpha y x", "alpha, y, x"])
def test_struct_can_have_another_order(fields):
    def f(x: In[Tensor, F32], y: In[Tensor, F32], alpha: float): ...

    assert [f.name for f in read(f, fields=fields).struct_fields] == ["alpha", "y", "x"]
    assert [f.name for f in read(f, fields=fields).fields] == ["x", "y", "alpha"]


def test_sources_are_files_next_to_the_function_or_texts(tmp_path):
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


# ---- invalid functions


def no_annotation(x: In[Tensor, F32], stray): ...
def starred(x: In[Tensor, F32], *stray: float): ...
def double_starred(x: In[Tensor, F32], **stray: float): ...
def foreign(x: In[Tensor, F32], stray: bytes): ...
def bare_marker(x: In[Tensor, F32], stray: In): ...
def not_hashable(x: In[Tensor, F32], stray: [1, 2]): ...
def no_tensor(x: In[Tensor, F32], stray: In[float, F32, "N"]): ...
def no_dtype(x: In[Tensor, F32], stray: In[Tensor]): ...
def torch_dtype(x: In[Tensor, F32], stray: In[Tensor, torch.float32, "N"]): ...
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
    "function, message",
    [
        (no_annotation, "has no annotation; expected In[Tensor, ...], float, int or bool"),
        (starred, "is not allowed; a kernel's parameters are fixed"),
        (double_starred, "is not allowed; a kernel's parameters are fixed"),
        (
            foreign,
            "is annotated <class 'bytes'>; expected In[...], InOut[...], Out[...], Scalar[...], float, int, ",
        ),
        (bare_marker, "expected In[...], InOut[...], Out[...], Scalar[...], float, int, bool, str, torch.dtype, "),
        (not_hashable, "is annotated [1, 2]; expected In[...]"),
        (no_tensor, "expected Tensor"),
        (no_dtype, "has no dtype; expected In[Tensor, dtype, dims...]"),
        (torch_dtype, 'write dtypes as strings: "float32" instead of torch.float32'),
        (dtype_is_a_dim, "has no dtype; expected Out[Tensor, dtype, dims...]"),
        (late_dots, "'...' can only come before the other dims"),
        (dots_twice, "'...' can only come before the other dims"),
        (tensor_default, "a tensor's default can only be None"),
        (string_scalar, "a scalar is float, int or bool"),
        (int_as_float, "int cannot be a C++ float"),
        (float_as_int, "float cannot be a C++ int64_t"),
        (bool_as_int, "bool cannot be a C++ int"),
        (unknown_scalar, "unknown scalar type 'int128_t'; known are bool, float"),
        (float_default, "the default 1.5 is not int"),
        (text_default, "the default '1' is not float"),
        (int_for_bool, "the default 1 is not bool"),
        (bool_for_int, "the default True is not int"),  # the glue rejects a bool for an int
        (bool_for_float, "the default True is not float"),
        (too_large, "the default 2147483648 does not fit"),
        (negative_unsigned, "the default -1 does not fit"),
        (fractional_dim, "'1.5' is not in the expression language"),
        (divided_dim, "'N / 2' is not in the expression language"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_invalid_parameter_is_rejected(function, message):
    text = refusal(lambda: read(function))
    assert text.startswith(f"{function.__name__}: ")
    assert "stray" in text
    assert message in text


def test_annotation_with_an_undefined_name():
    def f(x: In[Tensor, F32], y: "Tensro"): ...

    text = refusal(lambda: read(f))
    assert text.startswith("f: an annotation uses an undefined name") and "Tensro" in text


def test_kernel_without_a_source():
    def f(x: In[Tensor, F32]): ...

    assert refusal(lambda: read(f, None)) == "f: no source; give a file name, the text itself, or archs="


@pytest.mark.parametrize("value", [0, -16, 3, 24])
def test_alignment_must_be_a_power_of_two(value):
    assert refusal(lambda: Align(value)) == f"Align({value}): expected a power of two, in bytes"


@pytest.mark.parametrize("option", ["grid", "block", "shared_memory", "constraints"])
def test_error_in_an_expression_names_the_kernel_and_the_option(option):
    def f(x: In[Tensor, F32, "N"]): ...

    text = refusal(lambda: read(f, **{option: "N / 2"}))
    assert "'N / 2' is not in the expression language" in text
    assert text.startswith("f: ") and option in text


def test_grid_that_is_a_function():
    def f(x: In[Tensor, F32, "N"]): ...

    message = "grid: it is a function; expected expressions over dims and integers"
    assert message in refusal(lambda: read(f, grid=lambda n: (n,)))


def test_torch_dtypes_as_variants():
    def f(x: In[Tensor, "T", "N"]): ...

    text = refusal(lambda: read(f, variants={"T": (torch.float32, torch.bfloat16)}))
    assert "variants['T']: write dtypes as strings: ('float32', 'bfloat16')" in text
