"""Calls in which an argument decides the device or a dtype."""

import numpy as np
import pytest
import torch

import tkjit
from tkjit import ArgumentError, In, Out, Scratch, ShapeError, SpecError, Tensor, Zero

pytestmark = pytest.mark.compiles

ARANGE = """
template <class T>
__global__ void arange(Globals g) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < g.n) g.y[i] = T(g.start + i + g.zeros[i]);
}
"""


@tkjit.kernel(ARANGE, entry="arange<dtype>", grid="cdiv(n, 64)", block=64, variants={"dtype": ("float32", "int64")})
def arange(
    n: int,
    start: float = 0.0,
    dtype: torch.dtype = "float32",
    device: torch.device = "cpu",
    *,
    zeros: Scratch[Tensor, "int32", "n", Zero],
    y: Out[Tensor, "dtype", "n"],
) -> Tensor: ...


@pytest.mark.parametrize("dtype", [torch.int64, "int64", np.int64, np.dtype("int64")])
def test_output_without_a_tensor_input(dtype):
    assert torch.equal(arange(100), torch.arange(100.0))
    assert torch.equal(arange(3, 2, dtype=dtype, device=torch.device("cpu")), torch.tensor([2, 3, 4]))
    y = torch.empty(4)
    assert arange(4, 1.0, out=y) is y and y.tolist() == [1, 2, 3, 4]
    assert arange(0).shape == (0,)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"n": -1}, ShapeError, "an extent of the scratch zeros would be -1|an extent of the output y would be -1"),
        ({"dtype": "float64"}, ArgumentError, r"dtype is 'float64' \(str\); expected float32 or int64"),
        ({"dtype": None}, ArgumentError, r"dtype is None \(NoneType\); expected torch\.dtype"),
        ({"device": "meta"}, ArgumentError, r"device is 'meta' \(str\); expected torch\.device"),
        (
            {"y": torch.empty(3, dtype=torch.int64)},
            ArgumentError,
            r"y is \(3,\) int64 .*; expected .* of dtype's type float32",
        ),
        ({"y": torch.empty(2)}, ShapeError, r"y is \(2,\) float32"),
        ({"y": 3}, ArgumentError, "y is 3"),
    ],
)
def test_invalid_arguments_are_rejected(given, kind, message):
    with pytest.raises(kind, match=message):
        arange(**{"n": 3, **given})


@pytest.mark.skipif(torch.cuda.is_available(), reason="for a machine without a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:3", 0])
def test_device_that_does_not_exist(device):
    with pytest.raises(ArgumentError, match="arange: device is a CUDA device that does not exist; torch sees 0"):
        arange(3, device=device)


def test_a_prepared_launch():
    step = arange.prepare(3)
    assert step().tolist() == [0, 1, 2] and step(start=5).tolist() == [5, 6, 7]
    with pytest.raises(ArgumentError, match="a prepared launch takes no dtype; it takes start"):
        step(dtype="int64")


def test_without_a_tensor_there_is_no_operator():
    with pytest.raises(SpecError, match="arange has no operator: PyTorch chooses an operator's code by"):
        arange.schema  # noqa: B018


CAST = """
template <class From, class To>
__global__ void cast(Globals g) { g.y[threadIdx.x] = To(float(g.x[threadIdx.x])); }
"""


@tkjit.kernel(
    CAST,
    entry="cast<T, to>",
    grid=1,
    block="N",
    variants={"T": ("float32", "float16"), "to": ("float16", "int32")},
)
def cast(x: In[Tensor, "T", "N"], to: torch.dtype, *, y: Out[Tensor, "to", "N"]) -> Tensor:
    return x.to(to)


@pytest.mark.parametrize("to", [torch.float16, torch.int32])
@pytest.mark.parametrize("of", [torch.float16, torch.float32])
def test_an_argument_chooses_the_dtype_of_an_output(of, to):
    x = torch.arange(3, dtype=of)
    assert torch.equal(cast(x, to), x.to(to))
    traced = torch.compile(lambda x: cast(x, to) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(traced(x), x.to(to) + 1)
    torch.library.opcheck(tkjit.load(cast).operator.default, (x, to))
    with pytest.raises(ArgumentError, match=r"cast: to is .*float32.*; expected float16 or int32"):
        cast(x, torch.float32)
    with torch._subclasses.FakeTensorMode() as mode, pytest.raises(ArgumentError, match="expected float16 or int32"):
        cast(mode.from_tensor(x), torch.float32)


def no_device(n: int, *, y: Out[Tensor, "float32", "n"]): ...
def no_output(n: int, device: torch.device = "cpu"): ...
def none(n: int, device: torch.device | None = None, *, y: Out[Tensor, "float32", "n"]): ...
def another(n: int, T: torch.dtype = "int8", device: torch.device = "cpu", *, y: Out[Tensor, "T", "n"]): ...
def member(n: int, device: torch.device = "cpu", *, y: Out[Tensor, "float32", "n"]): ...


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (no_device, {}, "no required tensor argument and no torch.device, so a call cannot choose the device"),
        (no_output, {}, "device chooses the device of a call: it cannot be None, and there must be an output"),
        (none, {}, "device chooses the device of a call: it cannot be None"),
        (
            another,
            {"variants": {"T": ("float32", "int32")}},
            "T chooses a variant: it cannot be None, and its default must be",
        ),
        (member, {"fields": "n device y"}, "device chooses the device or a variant, so it is not a member"),
    ],
)
def test_contradictory_specs_are_rejected(function, options, message):
    with pytest.raises(SpecError) as raised:
        tkjit.kernel("", entry="f", grid=1, block=1, **options)(function)
    assert message in str(raised.value)
