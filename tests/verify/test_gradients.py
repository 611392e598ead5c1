"""``verify`` compares the gradients that ``backward=`` gives with those of the reference."""

from __future__ import annotations

import pytest

import tkjit
from tkjit import In, InOut, Out, Tensor, testing

pytestmark = pytest.mark.compiles
SOURCE = """
__global__ void product(Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.z.numel()) g.z[i] = BODY;
}
"""


def product(backward, reference=lambda x, y: x * y, body="g.x[i] * g.y[i]"):
    @tkjit.kernel(SOURCE.replace("BODY", body), entry="product", grid="cdiv(N, 64)", block=64, backward=backward)
    def product(x: In[Tensor, "float32", "N"], y: In[Tensor, "float32", "N"], z: Out[Tensor, "float32", "N"]) -> Tensor:
        return reference(x, y)

    return product


def right(grad_z, x, y):
    return grad_z * y, grad_z * x


def problems(kernel, n=100):
    """What is wrong with its calls."""
    try:
        testing.verify(kernel, dims={"N": n})
    except AssertionError as error:
        return str(error)
    return ""


def test_right_gradients():
    assert problems(product(right)) == ""


@pytest.mark.parametrize(
    ("backward", "said"),
    [
        (lambda grad_z, x, y: (-grad_z * y, grad_z * x), r"grad_x: \[\d+\] is .*, and .* by the reference; 100 of 100"),
        (lambda grad_z, x, y: (grad_z * y, grad_z * y), r"grad_y: \[\d+\] is"),
        (lambda grad_z, x, y: (grad_z * y, None), "grad_y: backward= gives none"),
        (lambda grad_z, x, y: grad_z * y, "backward returned 1 gradients; expected 2, of x, y"),
        (lambda grad_z, x, y: (grad_z @ y.t() @ x[:3], y), "backward= fails: RuntimeError"),
    ],
    ids=["sign", "other", "none", "one", "fails"],
)
def test_wrong_gradients(backward, said):
    with pytest.raises(AssertionError, match=said):
        testing.verify(product(backward), dims={"N": 100})


def test_a_wrong_result_is_told_alone():
    told = problems(product(lambda grad_z, x, y: (-grad_z, grad_z), body="g.x[i]"))
    assert "z: [" in told and "grad_" not in told


def test_a_gradient_that_cancels():
    """That of sin^2 + cos^2 is zero; autograd's is what rounding leaves of two large terms, in float64 less of it."""

    def reference(x, y):
        return (1e4 * x).sin() ** 2 + (1e4 * x).cos() ** 2 + 0 * y

    assert problems(product(lambda grad_z, x, y: (0 * grad_z, 0 * grad_z), reference, body="1")) == ""
    assert "grad_x" in problems(product(lambda grad_z, x, y: (grad_z, 0 * grad_z), reference, body="1"))


def test_a_reference_that_autograd_cannot_take():
    kernel = product(right, lambda x, y: x.detach() * y.detach())
    assert problems(kernel) == ""


def test_a_kernel_that_writes_in_place_has_none():
    @tkjit.kernel(
        "__global__ void twice(Globals g) { if (threadIdx.x < g.x.numel()) g.x[threadIdx.x] *= 2; }",
        entry="twice",
        grid=1,
        block=128,
    )
    def twice(x: InOut[Tensor, "float32", "N"]) -> Tensor:
        return x.mul_(2)

    assert problems(twice) == ""
