"""Suggestions in the errors of specs."""

import pytest
import torch

import tkjit
from tkjit import In, InOut, Out, SpecError, Tensor

SOURCE = "__global__ void f(Globals g) {}"


def error_of(function, **options) -> str:
    with pytest.raises(SpecError) as caught:
        tkjit.kernel(SOURCE, **{"entry": "f", "grid": 1, "block": 1, **options})(function)
    return str(caught.value)


def f(x: InOut[Tensor, "float32", "N"]): ...


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        ("fp32", 'did you mean "float32"?'),
        ("float", 'did you mean "float32"?'),
        ("bfloat", 'did you mean "bfloat16"?'),
        ("T", 'a template parameter is a variant: variants={"T": ("float32", "bfloat16")}'),
        ("scalar_t", ""),
    ],
)
def test_unknown_dtype(dtype, advice):
    def f(x: In[Tensor, dtype, "N"]): ...

    message = error_of(f)
    between = f"; {advice}" if advice else ""
    assert f"unknown dtype {dtype!r}{between}{'' if advice.endswith('?') else ';'} known are " in message


@pytest.mark.parametrize(
    ("option", "meant"),
    [("smem", "shared_memory"), ("gird", "grid"), ("threads", "block"), ("types", "variants"), ("zzz", "")],
)
def test_unknown_option(option, meant):
    advice = f"; did you mean {meant}?" if meant else ""
    assert f"tkjit.kernel has no option {option!r}{advice}; it has entry, grid," in error_of(f, **{option: 1})


@pytest.mark.parametrize(
    ("grid", "advice"),
    [
        ("cdiv(x.shape[0], 256)", ': name the dim, x: In[Tensor, ..., "N"], and use N'),
        ("x.size(-1)", ': name the dim, x: In[Tensor, ..., "N"], and use N'),
        ("cdiv(x.numel(), 256)", ": x.numel, without parentheses"),
        ("math.ceil(N / 256)", ": cdiv(N, 256)"),
        ("triton.cdiv(N, 256)", ": cdiv(N, 256)"),
        ("N / 256", ": use // (rounds down) or cdiv (rounds up)"),
    ],
)
def test_expression_in_the_syntax_of_torch_or_triton(grid, advice):
    assert error_of(f, grid=grid).endswith(f"names){advice}")


def test_tuple_of_dims():
    def f(x: In[Tensor, "float32", "('M', 'N')"]): ...

    assert error_of(f).endswith('list dims one after the other: In[Tensor, "float32", "M", "N"]')


def test_tensor_annotation_without_dtype_and_dims():
    def f(x: Tensor): ...

    def g(x: torch.Tensor): ...

    for function in (f, g):
        assert 'dtype and dims, x: In[Tensor, "float32", "N"], or InOut or Out' in error_of(function)


def test_output_that_should_start_as_zero():
    def f(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N", "zero"]): ...

    def g(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]): ...

    assert "use the marker Zero, without quotes: from tkjit import Zero" in error_of(f)
    assert 'starts as zero with Out[Tensor, "float32", "N", Zero]' in error_of(g, zeroed="y")
    assert 'zeroed is True; expected names in one string: "x y"' in error_of(g, zeroed=True)


def test_output_that_is_not_a_parameter():
    def f(x: In[Tensor, "float32", "N"]) -> Tensor: ...

    assert error_of(f).endswith('outputs are also parameters: y: Out[Tensor, "float32", "N"]')


def test_field_named_out():
    def f(x: In[Tensor, "float32", "N"], out: Out[Tensor, "float32", "N"]): ...

    assert error_of(f).endswith("calls pass outputs as out=; choose another, such as out_")


def test_options_of_the_wrong_type():
    assert "entry is ['f']; expected the name of a __global__ function" in error_of(f, entry=["f"])
    assert "variants is ['float32']; expected the choices of each parameter" in error_of(f, variants=["float32"])
    assert 'grid is missing, as in grid="cdiv(N, 256)"' in error_of(f, grid=None)


def test_annotation_with_parentheses():
    with pytest.raises(SpecError, match=r'Out is written with square brackets: Out\[Tensor, "float32", "N"\]'):
        Out(Tensor, "float32", "N")


def test_tile_that_no_call_can_choose():
    message = error_of(f, variants={"TILE": (64, 128)}, grid="cdiv(N, TILE)")
    assert message.endswith("TILE is a variant that no call can choose yet: add the parameter TILE: int = 64")


def test_entry_that_is_a_cpp_keyword():
    assert "double is a C++ keyword, and cannot be a kernel's name; rename the kernel" in error_of(f, entry="double<T>")


def test_missing_entry():
    source = "__global__ void __launch_bounds__(256) relu(Globals g) {} __global__ void silu(Globals g) {}"
    with pytest.raises(tkjit.SpecError, match=r"; the source has relu, silu$"):
        tkjit.kernel(source, grid=1, block=1)(f)


def test_missing_dtype():
    def f(x: In[Tensor, "float32", "M", "N"], y: Out[Tensor, "M", "N"]): ...

    assert 'unknown dtype \'M\'; the dtype comes before the dims: [Tensor, "float32", "M", ...]; known are' in error_of(
        f
    )


def test_two_dims_in_one_string():
    def f(x: In[Tensor, "float32", "M N"]): ...

    assert 'write each dim as a separate string: "M", "N"' in error_of(f)


def test_marker_without_tensor():
    def f(x: In["float32", "N"]): ...

    assert (
        'expected Tensor, Strided, list[Tensor] or ParallelTensor before them, as in In[Tensor, "float32", "N"]'
        in error_of(f)
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"grid": 0}, "grid is 0: no block runs"),
        ({"grid": (-1, -1)}, "grid is -1, -1: no block runs"),
        ({"grid": "4 // 0"}, "f: grid: "),
        ({"block": (64, 32)}, "block is 2048 threads; the limit is 1024: take more blocks instead, block=1024"),
        ({"block": (-8, -8)}, "block is -8, -8: no thread runs"),
    ],
)
def test_impossible_launch(option, message):
    with pytest.raises(tkjit.SpecError, match=message):
        tkjit.kernel("", entry="f", **{"grid": 1, "block": 1, **option})(f)
