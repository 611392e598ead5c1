"""Gradients of kernels: supported and rejected cases."""

from __future__ import annotations

import pytest
import torch
from support.operators import LAUNCH, SCALE, compiled, gradient, parts, scale

import tkjit
from tkjit import In, Out, Tensor

# inductor uses deprecated parts of torch
pytestmark = [pytest.mark.compiles, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]


def test_gradcheck_in_float64():
    x = torch.randn(12, dtype=torch.float64, requires_grad=True)
    kernel = tkjit.load(scale)
    assert torch.autograd.gradcheck(lambda x: kernel(x, factor=1.5), (x,))
    assert torch.autograd.gradgradcheck(lambda x: kernel(x, factor=1.5), (x,))


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_gradients_of_the_bundled_kernels(mode):
    gemm, softmax = tkjit.load("gemm"), tkjit.load("softmax")
    function = lambda a, b: softmax(gemm(a, b))  # noqa: E731
    own = compiled(function, backend="aot_eager") if mode == "compiled" else function
    a, b = torch.randn(8, 12, requires_grad=True), torch.randn(12, 5, requires_grad=True)
    weight = torch.randn(8, 5)
    (own(a, b) * weight).sum().backward()
    found = a.grad, b.grad
    a.grad = b.grad = None
    ((a @ b).softmax(-1) * weight).sum().backward()
    torch.testing.assert_close(found, (a.grad, b.grad), rtol=1e-4, atol=1e-5)


def test_only_needed_gradients_are_computed():
    asked = []

    def gradients(grad_y, needed):
        asked.append(needed)
        return grad_y, None

    @tkjit.kernel(
        "__global__ void sum(Globals g) { g.y[threadIdx.x] = g.a[threadIdx.x] + g.b[threadIdx.x]; }",
        entry="sum",
        grid=1,
        block="N",
        backward=gradients,
    )
    def sum(a: In[Tensor, "float32", "N"], b: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    a = torch.randn(5, requires_grad=True)
    sum(a, torch.randn(5)).sum().backward()  # the incoming gradient is expanded
    assert asked == [{"a"}]
    torch.testing.assert_close(a.grad, torch.ones(5))


def test_another_kernel_as_backward(tmp_path, monkeypatch):
    (tmp_path / "double.py").write_text(
        "import tkjit\n"
        "from tkjit import In, Out, Tensor\n"
        "@tkjit.kernel('__global__ void f(Globals g) { g.y[threadIdx.x] = 2 * g.x[threadIdx.x]; }', entry='f', grid=1, "
        "block='N', backward='double_backward')\n"
        "def double(x: In[Tensor, 'float32', 'N'], y: Out[Tensor, 'float32', 'N']) -> Tensor: ...\n"
    )
    (tmp_path / "double_backward.py").write_text(
        "import tkjit\n"
        "from tkjit import In, Out, Tensor\n"
        "@tkjit.kernel('__global__ void f(Globals g) { g.grad_x[threadIdx.x] = 2 * g.grad_y[threadIdx.x]; }', "
        "entry='f', grid=1, block='N')\n"
        "def double_backward(grad_y: In[Tensor, 'float32', 'N'], grad_x: Out[Tensor, 'float32', 'N']) -> Tensor: ...\n"
    )
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    x = torch.randn(6, requires_grad=True)
    tkjit.load("double")(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((6,), 2.0))


@tkjit.kernel(
    "__global__ void f(Globals g) { g.grad_x[threadIdx.x] = 2 * g.grad_y[threadIdx.x]; }", entry="f", grid=1, block="N"
)
def twice_gradient(grad_y: In[Tensor, "float32", "N"], grad_x: Out[Tensor, "float32", "N"]) -> Tensor: ...


def twice(backward):
    source = "__global__ void f(Globals g) { g.y[threadIdx.x] = 2 * g.x[threadIdx.x]; }"

    @tkjit.kernel(source, entry="f", grid=1, block="N", backward=backward)
    def twice(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
        return 2 * x

    return twice


def test_a_kernel_of_the_same_file_as_backward(tmp_path):
    x = torch.randn(6, requires_grad=True)
    for kernel in (twice(twice_gradient), twice(tkjit.load(twice_gradient))):
        (gradient,) = torch.autograd.grad(kernel(x).sum(), x)
        torch.testing.assert_close(gradient, torch.full((6,), 2.0))
    tkjit.export(twice(twice_gradient), languages=["torch"], name="twice_layers", output=tmp_path / "twice_layers")
    assert (tmp_path / "twice_layers/twice_layers_cpu/twice_gradient.cpp").is_file()
    with pytest.raises(tkjit.SpecError, match=r"no kernel is named 'twice_gradient'.* write backward=twice_gradient"):
        twice("twice_gradient")(x)


def test_gradients_are_rejected_without_backward():
    x = torch.randn(5, requires_grad=True)
    message = "requires a gradient"
    with pytest.raises(tkjit.ArgumentError, match=message):
        parts(x)
    with pytest.raises(tkjit.ArgumentError, match=message):
        parts.operator(x)
    with pytest.raises(tkjit.ArgumentError, match="which out= does not record"):
        tkjit.load("softmax")(x, out=torch.empty(5))
    with torch.no_grad():
        torch.testing.assert_close(parts(x).twice, 2 * x)


def test_autograd_sees_in_place_writes():
    axpy = tkjit.load("axpy")
    x, y = torch.randn(5, requires_grad=True), torch.randn(5)
    product = x * y  # autograd saves y
    axpy(torch.randn(5), y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    c = torch.empty(2, 2)
    version = c._version
    tkjit.load("gemm")(torch.randn(2, 2), torch.randn(2, 2), out=c)
    assert c._version == version + 1


def test_parameters_get_gradients():
    softmax = tkjit.load("softmax")
    parameter = torch.nn.Parameter(torch.randn(3, 4))
    result = softmax(parameter)
    assert result.requires_grad
    result.square().sum().backward()
    (expected,) = torch.autograd.grad(parameter.softmax(-1).square().sum(), parameter)
    torch.testing.assert_close(parameter.grad, expected)
    frozen = torch.nn.Parameter(torch.randn(3, 4), requires_grad=False)
    assert not softmax(frozen).requires_grad


def test_inference_mode():
    axpy, softmax = tkjit.load("axpy"), tkjit.load("softmax")
    with torch.inference_mode():
        x, y = torch.randn(5), torch.zeros(5)
        torch.testing.assert_close(axpy(x, y), x)
        result = softmax(x)
    assert result.is_inference()
    torch.testing.assert_close(softmax(x), x.softmax(-1))  # an inference tensor can be read outside as well


def test_gradient_can_be_computed_in_another_thread():
    import threading

    softmax = tkjit.load("softmax")
    x = torch.randn(3, 4, requires_grad=True)
    result = softmax(x).sum()
    thread = threading.Thread(target=result.backward)
    thread.start()
    thread.join()
    assert x.grad is not None


def test_list_that_requires_a_gradient_is_rejected():
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.xs[0][0]; }", entry="f", grid=1, block=1)
    def first_of(xs: In[list[Tensor], "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    xs = [torch.zeros(2), torch.zeros(2, requires_grad=True)]
    for call in (first_of, first_of.operator.default):
        with pytest.raises(tkjit.ArgumentError, match=r"xs\[1\] is .* requires a gradient"):
            call(xs)


def test_redefined_kernel_uses_its_new_gradient():
    def define(factor):
        def gradient(grad_y):
            return grad_y * factor

        @tkjit.kernel(SCALE, **LAUNCH, backward=gradient)
        def again(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"], *, factor: float = 2.0) -> Tensor: ...

        return again

    for factor in (0.0, 2.0):
        x = torch.ones(3, requires_grad=True)
        define(factor)(x).sum().backward()
        assert x.grad.tolist() == [factor] * 3


def test_forward_mode_is_rejected_rather_than_ignored():
    softmax, x = tkjit.load("softmax"), torch.randn(3)
    with pytest.raises(tkjit.ArgumentError, match="forward-mode gradients are not recorded"):
        torch.func.jvp(parts, (x,), (torch.ones(3),))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(tkjit.ArgumentError, match="requires a gradient"):
        parts(torch.autograd.forward_ad.make_dual(x, torch.ones(3)))
    with pytest.raises(tkjit.ArgumentError, match="forward-mode"):
        torch.func.jvp(softmax, (x,), (torch.ones(3),))
    with pytest.raises(tkjit.ArgumentError, match="forward-mode"):
        torch.func.hessian(lambda x: softmax(x).square().sum())(x)
    torch.func.jacrev(torch.func.jacrev(lambda x: softmax(x).square().sum()))(x)


def test_missing_backward_can_be_fixed_by_redefinition():
    def define(backward):
        @tkjit.kernel(SCALE, **LAUNCH, backward=backward)
        def mended(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"], *, factor: float = 2.0) -> Tensor: ...

        return mended

    for _ in range(2):
        with pytest.raises(tkjit.SpecError, match="no kernel is named"):
            _ = define("not_there").operator
    x = torch.ones(2, requires_grad=True)
    define(gradient)(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
