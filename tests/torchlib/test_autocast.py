"""The ``autocast`` option of a spec, under ``torch.autocast``."""

import numpy as np
import pytest
import torch

import tkjit
from tkjit import In, InOut, Out, SpecError, Tensor

pytestmark = [pytest.mark.compiles, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]

SOURCE = """
template <class T> __global__ void scale(Globals g) {
    const int i = threadIdx.x;
    g.y[i] = T(float(g.x[i]) * g.by[0]);
}
"""
LAUNCH = {"entry": "scale<T>", "grid": 1, "block": "N", "variants": {"T": ("float32", "bfloat16", "float64")}}


def gradient(grad_y, by):
    return grad_y * by, None


@tkjit.kernel(SOURCE, **LAUNCH, autocast="lower", backward=gradient)
def lowered(x: In[Tensor, "T", "N"], by: In[Tensor, "float32", "1"], y: Out[Tensor, "T", "N"]) -> Tensor: ...


@lowered.overload(SOURCE.replace("g.by[0]", "g.by"), **LAUNCH, autocast="lower")
def lowered(x: In[Tensor, "T", "N"], by: float, y: Out[Tensor, "T", "N"]) -> Tensor: ...


@tkjit.kernel(SOURCE, **LAUNCH, autocast="float32")
def widened(x: In[Tensor, "T", "N"], by: In[Tensor, "float32", "1"], y: Out[Tensor, "T", "N"]) -> Tensor: ...


@tkjit.kernel(SOURCE, **LAUNCH)
def plain(x: In[Tensor, "T", "N"], by: In[Tensor, "float32", "1"], y: Out[Tensor, "T", "N"]) -> Tensor: ...


THREE = torch.full((1,), 3.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:CUDA is not available")
@pytest.mark.parametrize("by", [THREE, 3.0], ids=["first overload", "second overload"])
def test_option_lower_casts_to_the_dtype_of_autocast(by):
    x = torch.ones(4)
    assert lowered(x, by).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        y = lowered(x, by)
        assert y.dtype == torch.bfloat16 and y.tolist() == [3.0] * 4
        assert lowered(x.double(), by).dtype == torch.float64  # torch does not cast float64 either
        with torch.autocast("cpu", enabled=False):
            assert lowered(x, by).dtype == torch.float32
    with torch.autocast("cuda", torch.bfloat16):
        assert lowered(x, by).dtype == torch.float32  # x is on the cpu


def test_option_float32_casts_to_float32():
    x = torch.ones(4, dtype=torch.bfloat16)
    assert widened(x, THREE).dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert widened(x, THREE).dtype == torch.float32


def test_kernel_without_the_option_is_not_cast():
    with torch.autocast("cpu", torch.bfloat16):
        assert plain(torch.ones(4), THREE).dtype == torch.float32


def test_calls_with_given_outputs_are_not_cast():
    x, y = torch.ones(4), torch.zeros(4)
    with torch.autocast("cpu", torch.bfloat16):
        assert lowered(x, THREE, out=y) is y
        assert lowered(x, 2.0, y=y) is y
    assert y.tolist() == [2.0] * 4


def test_gradients_have_the_dtype_of_the_uncast_input():
    x = torch.ones(4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = lowered(x, THREE)
    (2 * y).float().sum().backward()
    assert x.grad.dtype == torch.float32 and x.grad.tolist() == [6.0] * 4


def test_compiled_calls_are_cast():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: lowered(x, THREE) + 1, fullgraph=True, backend="aot_eager")
    x = torch.ones(4)
    assert compiled(x).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        y = compiled(x)
        assert y.dtype == torch.bfloat16 and y.tolist() == [4.0] * 4
        assert torch.vmap(lambda x: lowered(x, THREE))(torch.ones(2, 4)).dtype == torch.bfloat16


def test_errors_describe_arguments_after_the_cast():
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(tkjit.ArgumentError, match=r"widened: by is \(1,\) float64 on cpu; expected \(1,\) float32"):
            widened(torch.ones(4), THREE.double())
        with pytest.raises(tkjit.ArgumentError, match=r"lowered: no overload takes these arguments"):
            lowered(torch.ones(4), np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("autocast", "annotation", "message"),
    [
        ("fp32", In, "autocast is 'fp32'; expected 'lower', 'float32' or None"),
        ("lower", InOut, "autocast= needs a kernel that changes no argument, but x is written in place"),
    ],
)
def test_invalid_specs_are_rejected(autocast, annotation, message):
    with pytest.raises(SpecError, match=message):

        @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, autocast=autocast)
        def f(x: annotation[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    with pytest.raises(SpecError, match="floating-point tensors among its inputs"):

        @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, autocast="lower")
        def g(x: In[Tensor, "int32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...
