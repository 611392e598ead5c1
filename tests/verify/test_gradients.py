"""``verify`` compares the gradients from ``backward=`` with those of the reference."""

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
    """The error message of ``verify``, or an empty string."""
    try:
        testing.verify(kernel, dims={"N": n})
    except AssertionError as error:
        return str(error)
    return ""


def test_right_gradients_are_accepted():
    assert problems(product(right)) == ""


@pytest.mark.parametrize(
    ("backward", "text"),
    [
        (lambda grad_z, x, y: (-grad_z * y, grad_z * x), r"grad_x: \[\d+\] is .*, but .* in the reference; 100 of 100"),
        (lambda grad_z, x, y: (grad_z * y, grad_z * y), r"grad_y: \[\d+\] is"),
        (lambda grad_z, x, y: (grad_z * y, None), "grad_y: backward= returns no gradient"),
        (lambda grad_z, x, y: grad_z * y, "backward returned 1 gradients; expected 2, for x, y"),
        (lambda grad_z, x, y: (grad_z @ y.t() @ x[:3], y), "backward= fails: RuntimeError"),
    ],
    ids=["sign", "other", "none", "one", "fails"],
)
def test_wrong_gradients_are_reported(backward, text):
    with pytest.raises(AssertionError, match=text):
        testing.verify(product(backward), dims={"N": 100})


def test_gradients_are_not_compared_if_a_result_is_wrong():
    text = problems(product(lambda grad_z, x, y: (-grad_z, grad_z), body="g.x[i]"))
    assert "z: [" in text and "grad_" not in text


def test_a_gradient_that_cancels_may_differ_by_rounding():
    """The gradient of sin^2 + cos^2 is zero, but autograd's is the rounding error of two large terms."""

    def reference(x, y):
        return (1e4 * x).sin() ** 2 + (1e4 * x).cos() ** 2 + 0 * y

    assert problems(product(lambda grad_z, x, y: (0 * grad_z, 0 * grad_z), reference, body="1")) == ""
    assert "grad_x" in problems(product(lambda grad_z, x, y: (grad_z, 0 * grad_z), reference, body="1"))


def test_a_reference_that_autograd_cannot_differentiate_is_accepted():
    kernel = product(right, lambda x, y: x.detach() * y.detach())
    assert problems(kernel) == ""


def test_a_kernel_that_writes_in_place_has_no_gradients():
    @tkjit.kernel(
        "__global__ void twice(Globals g) { if (threadIdx.x < g.x.numel()) g.x[threadIdx.x] *= 2; }",
        entry="twice",
        grid=1,
        block=128,
    )
    def twice(x: InOut[Tensor, "float32", "N"]) -> Tensor:
        return x.mul_(2)

    assert problems(twice) == ""
