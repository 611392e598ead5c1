"""Kernels under what PyTorch's users do: compile, gradients, vmap, fake tensors, subclasses, modes, profilers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch
from support.sampling import sample
from torch._subclasses.fake_tensor import FakeTensorMode

import tkjit
from tkjit import In, InOut, Out, Tensor

# inductor uses what torch has deprecated
pytestmark = [pytest.mark.compiles, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]

SCALE = """
template <class T> __global__ void scale(Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.x.cols()) g.y[i] = T(g.factor) * g.x[i];
}
"""
LAUNCH = {"entry": "scale<T>", "grid": "cdiv(N, 32)", "block": 32, "variants": {"T": ("float32", "float64")}}


def gradient(grad_y, factor):
    return grad_y * factor


@tkjit.kernel(SCALE, **LAUNCH, backward=gradient)
def scale(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"], *, factor: float = 2.0) -> Tensor:
    """y <- factor * x"""
    return factor * x


@tkjit.kernel(
    "__global__ void parts(Globals g) {\n"
    "    const float x = g.x[threadIdx.x];\n"
    "    g.twice[threadIdx.x] = 2 * x;\n"
    "    g.square[threadIdx.x] = x * x;\n"
    "}",
    entry="parts",
    grid=1,
    block="N",
)
def parts(
    x: In[Tensor, "float32", "N"],
    twice: Out[Tensor, "float32", "N"],
    square: Out[Tensor, "float32", "N"],
) -> tuple[Tensor, Tensor]:
    """2 x and x * x"""
    return 2 * x, x * x


@pytest.fixture(autouse=True)
def counters() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield


def compiled(function, **options):
    return torch.compile(function, fullgraph=True, **options)


def test_schemas():
    assert tkjit.load("axpy").schema == "tkjit::axpy(Tensor x, Tensor(a!) y, float alpha=1.0) -> ()"
    assert tkjit.load("gemm").schema == "tkjit::gemm(Tensor a, Tensor b) -> Tensor"
    assert parts.schema == "tkjit::parts(Tensor x) -> (Tensor twice, Tensor square)"
    for kernel in (tkjit.load("axpy"), parts, scale):
        torch._C.parse_schema(kernel.schema)


# ---- torch.compile -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", sample(["eager", "aot_eager", "inductor"], "eager", "aot_eager"))
def test_compile_with_dynamic_shapes_compiles_once(backend):
    gemm, softmax = tkjit.load("gemm"), tkjit.load("softmax")

    attention_weights = compiled(lambda q, k: softmax(gemm(q, k) * 0.5) + 1, dynamic=True, backend=backend)
    for m, n in ((32, 20), (48, 24), (5, 7)):
        q, k = torch.randn(m, 16), torch.randn(16, n)
        torch.testing.assert_close(attention_weights(q, k), (q @ k * 0.5).softmax(-1) + 1, rtol=1e-4, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not torch._dynamo.utils.counters["graph_break"]


def test_a_second_shape_that_nobody_announced_compiles_at_most_once_more():
    softmax = tkjit.load("softmax")
    function = compiled(lambda x: softmax(x) * 2, backend="aot_eager")
    for n in (3, 4, 5, 6, 7):
        x = torch.randn(2, n)
        torch.testing.assert_close(function(x), x.softmax(-1) * 2)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2  # of the size itself, then of any size


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile_of_a_kernel_that_writes_in_place(backend):
    axpy = tkjit.load("axpy")

    def function(x, y):
        returned = axpy(x, y, alpha=3.0)
        return returned * 2, y + 1

    x, y = torch.randn(2, 100)
    own, expected = y.clone(), y + 3 * x
    twice, more = compiled(function, backend=backend)(x, own)
    torch.testing.assert_close(own, expected)
    torch.testing.assert_close(twice, expected * 2)
    torch.testing.assert_close(more, expected + 1)


def test_compile_with_out_and_several_outputs():
    gemm = tkjit.load("gemm")

    def function(a, b, x):
        c = torch.empty(a.shape[0], b.shape[1])
        same = gemm(a, b, out=c)
        made = parts(x)
        square = torch.empty_like(x)
        also = parts(x, square=square)
        return c, same, made.twice + made.square, also.twice, square

    a, b, x = torch.randn(4, 8), torch.randn(8, 6), torch.randn(9)
    c, same, both, twice, square = compiled(function, backend="aot_eager")(a, b, x)
    torch.testing.assert_close(c, a @ b)
    torch.testing.assert_close(same, a @ b)
    torch.testing.assert_close(both, 2 * x + x * x)
    torch.testing.assert_close(twice, 2 * x)
    torch.testing.assert_close(square, x * x)


def test_compile_of_a_kernel_that_nobody_has_loaded():
    @tkjit.kernel(SCALE.replace("T(g.factor)", "T(3)"), **LAUNCH)
    def scale(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"], factor: float = 2.0) -> Tensor: ...

    x = torch.randn(40)
    torch.testing.assert_close(compiled(lambda x: scale(x) + 1, backend="aot_eager")(x), 3 * x + 1)


def test_what_is_wrong_with_a_call_is_said_when_it_is_traced():
    gemm = tkjit.load("gemm")
    function = compiled(lambda a, b: gemm(a, b), backend="aot_eager")
    with pytest.raises(Exception, match=r"gemm: b is \(6, 8\) float32 on cpu; expected \(K=8, N\) float32"):
        function(torch.randn(4, 8), torch.randn(6, 8))
    with pytest.raises(Exception, match="the argument b is missing"):
        compiled(lambda a: gemm(a), backend="eager")(torch.randn(4, 8))


def test_export_runs_again_from_a_file(tmp_path):
    softmax = tkjit.load("softmax")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(2.0))

        def forward(self, x):
            return softmax(x * self.scale)

    x = torch.randn(4, 10)
    with torch.no_grad():
        program = torch.export.export(Model(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=100)}})
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for n in (4, 9):
        x = torch.randn(n, 10)
        torch.testing.assert_close(loaded(x), (2 * x).softmax(-1))


# ---- opcheck -------------------------------------------------------------------------------------------------------


def samples() -> dict[str, tuple]:
    a, b = torch.randn(32, 16), torch.randn(16, 24)
    return {
        "axpy": (tkjit.load("axpy"), "default", (torch.randn(10), torch.randn(10), 2.0)),
        "gemm": (tkjit.load("gemm"), "default", (a, b)),
        "gemm with gradients": (tkjit.load("gemm"), "default", (a.requires_grad_(), b.clone().requires_grad_())),
        "gemm, out": (tkjit.load("gemm"), "out", (a.detach(), b, torch.empty(32, 24))),
        "softmax": (tkjit.load("softmax"), "default", (torch.randn(2, 3, 5).requires_grad_(),)),
        "softmax of half": (tkjit.load("softmax"), "default", (torch.randn(3, 5).half(),)),
        "parts": (parts, "default", (torch.randn(7),)),
    }


@pytest.mark.parametrize("name", sample(samples(), *(set(samples()) - {"gemm"})))
def test_opcheck(name):
    kernel, overload, arguments = samples()[name]
    torch.library.opcheck(getattr(kernel.operator, overload), arguments)


def test_every_bundled_kernel_is_checked():
    # those of header libraries run on GPUs alone, and PyTorch has no type for what is on several devices
    specs = {name: tkjit.find(name).specs[0] for name in tkjit.kernels()}
    assert {name for name, spec in specs.items() if not spec.headers and not spec.is_parallel} <= set(samples())


# ---- gradients -----------------------------------------------------------------------------------------------------


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


def test_only_the_gradients_that_are_needed_are_computed():
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
    sum(a, torch.randn(5)).sum().backward()  # an expanded gradient comes in
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


def test_without_backward_a_gradient_is_refused_everywhere():
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


def test_a_write_in_place_is_seen_by_autograd():
    axpy = tkjit.load("axpy")
    x, y = torch.randn(5, requires_grad=True), torch.randn(5)
    product = x * y  # keeps y
    axpy(torch.randn(5), y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    c = torch.empty(2, 2)
    version = c._version
    tkjit.load("gemm")(torch.randn(2, 2), torch.randn(2, 2), out=c)
    assert c._version == version + 1


def test_a_parameter_is_a_tensor():
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
    torch.testing.assert_close(softmax(x), x.softmax(-1))  # an inference tensor is read outside too


# ---- transformations, subclasses, modes ----------------------------------------------------------------------------


def test_vmap():
    gemm = tkjit.load("gemm")
    a, b = torch.randn(3, 4, 5), torch.randn(5, 6)
    torch.testing.assert_close(torch.vmap(gemm, (0, None))(a, b), a @ b)
    b = torch.randn(5, 3, 6)
    torch.testing.assert_close(torch.vmap(gemm, (0, 1))(a, b), a @ b.transpose(0, 1))
    twice, square = torch.vmap(parts)(torch.arange(6.0).reshape(2, 3))
    torch.testing.assert_close(square, torch.arange(6.0).reshape(2, 3).square())
    torch.testing.assert_close(twice, 2 * torch.arange(6.0).reshape(2, 3))


def test_vmap_in_place():
    axpy = tkjit.load("axpy")
    x, y = torch.randn(4, 3), torch.randn(3, 4)
    expected = y + 2 * x.T
    torch.vmap(lambda x, y: axpy(x, y, 2.0), (0, 1))(x, y)
    torch.testing.assert_close(y, expected)
    with pytest.raises(tkjit.ArgumentError, match="y is written in place and has no batch"):
        torch.vmap(lambda x: axpy(x, torch.zeros(3)))(x)


def test_functional_gradients():
    softmax = tkjit.load("softmax")
    x, weight = torch.randn(3, 4), torch.randn(4)
    own = torch.func.grad(lambda x: (softmax(x) * weight).sum())(x)
    torch.testing.assert_close(own, torch.func.grad(lambda x: (x.softmax(-1) * weight).sum())(x))
    per_sample = torch.vmap(torch.func.grad(lambda row: (softmax(row) * weight).sum()))(x)
    torch.testing.assert_close(per_sample, own)


def test_fake_and_meta_tensors():
    gemm = tkjit.load("gemm")
    with FakeTensorMode():
        c = gemm(torch.empty(4, 8), torch.empty(8, 6))
    assert (c.shape, c.dtype, c.device.type) == ((4, 6), torch.float32, "cpu")
    c = gemm(torch.empty(4, 8, device="meta"), torch.empty(8, 6, device="meta"))
    assert (c.shape, c.device.type) == ((4, 6), "meta")
    with pytest.raises(tkjit.ShapeError, match=r"b is \(9, 6\) float32 on meta; expected \(K=8, N\)"):
        gemm(torch.empty(4, 8, device="meta"), torch.empty(9, 6, device="meta"))


class Logged(torch.Tensor):
    """A subclass that sees every function."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(str(function))
        return super().__torch_function__(function, types, args, kwargs or {})


def test_a_subclass_with_a_torch_function_sees_the_call():
    softmax = tkjit.load("softmax")
    x = torch.randn(3, 4)
    Logged.seen.clear()
    result = softmax(x.as_subclass(Logged))
    assert type(result) is Logged
    assert "tkjit.softmax.default" in Logged.seen
    torch.testing.assert_close(result.as_subclass(torch.Tensor), x.softmax(-1))


class Plain(torch.Tensor):
    """A subclass that says nothing for itself."""


def test_a_plain_subclass_gets_its_kind_back():
    x = torch.randn(3, 4)
    result = tkjit.load("softmax")(x.as_subclass(Plain))
    assert type(result) is Plain
    assert type(x.as_subclass(Plain).softmax(-1)) is Plain  # as torch's own operators do


def test_modes_see_the_call():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Dispatched(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    class Called(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    softmax, x = tkjit.load("softmax"), torch.randn(3, 4)
    for mode in (Dispatched, Called):
        seen: list[str] = []
        with mode():
            result = softmax(x)
        assert "tkjit.softmax.default" in seen, mode
        torch.testing.assert_close(result, x.softmax(-1))
    softmax(x)
    assert seen.count("tkjit.softmax.default") == 1  # and none when the mode is over


def test_a_default_device_is_no_reason_for_a_detour():
    from torch.utils._python_dispatch import TorchDispatchMode

    axpy = tkjit.load("axpy")
    x, y = torch.randn(3), torch.randn(3)
    axpy(x, y)

    def detour(*args, **kwargs):
        raise AssertionError("a call of the operator")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(axpy), "_call_operator", detour)
        with torch.device("cpu"):
            axpy(x, y)
        with TorchDispatchMode(), pytest.raises(AssertionError, match="a call of the operator"):
            axpy(x, y)


def test_the_profiler_shows_a_kernel_by_its_name():
    gemm, axpy = tkjit.load("gemm"), tkjit.load("axpy")
    a = torch.randn(16, 16)
    gemm(a, a)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        gemm(a, a)
        axpy(torch.randn(3), torch.randn(3))
    shown = {event.key: event.input_shapes for event in profile.key_averages(group_by_input_shape=True)}
    assert shown["tkjit::gemm"] == [[16, 16], [16, 16]]
    assert "tkjit::axpy" in shown


def test_jit_trace():
    softmax = tkjit.load("softmax")
    traced = torch.jit.trace(lambda x: softmax(x) * 2, (torch.randn(2, 3),))
    x = torch.randn(2, 3)
    torch.testing.assert_close(traced(x), x.softmax(-1) * 2)
    assert "tkjit::softmax" in str(traced.graph)


# ---- the registrations ---------------------------------------------------------------------------------------------


def test_two_kernels_of_one_name_have_an_operator_each():
    def make(factor):
        @tkjit.kernel(
            f"__global__ void times(Globals g) {{ g.x[threadIdx.x] *= {factor}; }}", entry="times", grid=1, block="N"
        )
        def times(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

        return times

    kernels = {factor: make(factor) for factor in (2, 3)}
    for factor, kernel in kernels.items():
        x = torch.ones(4)
        kernel.operator(x)
        assert x.tolist() == [factor] * 4
    assert len({str(kernel.operator) for kernel in kernels.values()}) == 2
    again = make(2)
    assert again.operator is kernels[2].operator


def test_a_gradient_can_be_taken_from_another_thread():
    import threading

    softmax = tkjit.load("softmax")
    x = torch.randn(3, 4, requires_grad=True)
    result = softmax(x).sum()
    thread = threading.Thread(target=result.backward)
    thread.start()
    thread.join()
    assert x.grad is not None


def test_a_kernel_in_a_module_that_is_copied():
    softmax = tkjit.load("softmax")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = softmax

        def forward(self, x):
            return self.kernel(x)

    x = torch.randn(2, 3)
    torch.testing.assert_close(copy.deepcopy(Model())(x), x.softmax(-1))


def test_a_kernel_is_pickled_as_a_function_is():
    x = torch.randn(2, 3)
    softmax = pickle.loads(pickle.dumps(tkjit.load("softmax")))
    torch.testing.assert_close(softmax(x), x.softmax(-1))
    for kernel in (scale, tkjit.load(scale)):
        torch.testing.assert_close(pickle.loads(pickle.dumps(kernel))(x[0]), 2 * x[0])


# ---- what a plain call and one through the operator must have in common


def profiled(call, *args, **kwargs):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        return call(*args, **kwargs)


def test_a_list_that_requires_a_gradient_is_refused():
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.xs[0][0]; }", entry="f", grid=1, block=1)
    def first_of(xs: In[list[Tensor], "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    xs = [torch.zeros(2), torch.zeros(2, requires_grad=True)]
    for call in (first_of, first_of.operator.default):
        with pytest.raises(tkjit.ArgumentError, match=r"xs\[1\] is .* requires a gradient"):
            call(xs)


def test_a_kernel_that_is_defined_again_with_another_gradient():
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


def test_forward_mode_is_refused_and_not_forgotten():
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


def test_integers_from_shapes_are_no_reason_to_compile_again():
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.n + 1000 * g.sizes[1]; }", entry="f", grid=1, block=1)
    def count(x: In[Tensor, "float32", "N"], n: int, sizes: list[int], y: Out[Tensor, "float32", 1]) -> Tensor: ...

    function = compiled(lambda x: count(x, 2 * x.shape[0], [1, x.shape[0]]), dynamic=True, backend="aot_eager")
    for n in range(3, 15):
        assert function(torch.zeros(n)).item() == 2 * n + 1000 * n
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_the_same_overload_is_called_however_the_call_comes():
    body = "__global__ void f(Globals g) { g.y[0] = %d; }"
    options = {"entry": "f", "grid": 1, "block": 1}

    @tkjit.kernel(body % 1, **options, variants={"T": ("float32", "float64")}, constraints="N % 2 == 0")
    def pick(x: In[Tensor, "T", "N"], z: In[Tensor, "T", "N"], y: Out[Tensor, "float32", 1]) -> Tensor: ...

    @pick.overload(body % 2, **options)
    def pick(x: In[Tensor, "float32", "N"], z: In[Tensor, "float64", "N"], y: Out[Tensor, "float32", 1]) -> Tensor: ...

    @pick.overload(body % 3, **options)
    def pick(x: In[Tensor, "float32", "N"], z: In[Tensor, "float32", "M"], y: Out[Tensor, "float32", 1]) -> Tensor: ...

    traced = compiled(lambda x, z: pick(x, z) * 1, backend="aot_eager", dynamic=False)
    for arguments, expected in [
        ((torch.zeros(2), torch.zeros(2)), 1),
        ((torch.zeros(2), torch.zeros(2).double()), 2),
        ((torch.zeros(3), torch.zeros(3)), 3),
        ((torch.zeros(2), torch.zeros(4)), 3),
    ]:
        found = [call(*arguments).item() for call in (pick, traced, lambda *args: profiled(pick, *args))]
        assert found == [expected] * 3
    with pytest.raises(tkjit.ArgumentError, match="no overload takes these arguments"):
        profiled(pick, torch.zeros(2).int(), torch.zeros(2))


def test_outputs_that_share_memory_are_refused_through_the_operator_too():
    x = torch.zeros(4)
    for call in (parts, lambda *args, **kwargs: profiled(parts, *args, **kwargs)):
        with pytest.raises(tkjit.ArgumentError, match="the output twice shares memory with x"):
            call(x, twice=x)


def test_an_overload_without_an_operator_keeps_the_kernel_out_of_the_dispatcher():
    @tkjit.kernel("inline void f(Globals g) { g.x[0] = 1; }", entry="f", host=True)
    def mix(x: InOut[Tensor, "float32", "N"], name: str) -> Tensor: ...

    @mix.overload("inline void f(Globals g) { g.x[0] = 2; }", entry="f", host=True)
    def mix(x: InOut[Tensor, "float32", "N"], weights: dict[str, float]) -> Tensor: ...

    assert [profiled(mix, torch.zeros(1), one).item() for one in ("a", {"a": 1.0})] == [1, 2]


def test_a_backward_that_is_not_there_can_be_mended():
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


def test_nested_and_compiled_vmap_in_place():
    axpy = tkjit.load("axpy")
    x, y = torch.randn(2, 3, 4), torch.zeros(2, 3, 4)
    torch.vmap(torch.vmap(axpy))(x, y)
    torch.testing.assert_close(y, x)
    y.zero_()
    torch.compile(torch.vmap(axpy), backend="aot_eager")(x[0], y[0])
    torch.testing.assert_close(y[0], x[0])


def test_results_are_of_one_type_and_pickled():
    x = torch.ones(3)
    plain, through = parts(x), profiled(parts, x)
    assert type(plain) is type(through) and type(plain).__name__ == "parts_result"
    again = pickle.loads(pickle.dumps(plain))
    assert type(again) is type(plain) and again.twice.tolist() == [2, 2, 2]


def test_fx_traces_a_call():
    softmax = tkjit.load("softmax")
    module = torch.fx.symbolic_trace(lambda x: softmax(x) + 1)
    x = torch.randn(2, 3)
    torch.testing.assert_close(module(x), x.softmax(-1) + 1)
    assert any("tkjit" in str(node.target) for node in module.graph.nodes)


@pytest.mark.parametrize("name", ["name", "_dir"])
def test_a_name_that_torchs_namespaces_have(name):
    space = {"In": In[Tensor, "float32", "N"], "Out": Out[Tensor, "float32", "N"], "__name__": __name__}
    exec(compile(f"def {name}(x: In, y: Out): ...", __file__, "exec", dont_inherit=True), space)
    kernel = tkjit.kernel("__global__ void f(Globals g) { g.y[0] = 5; }", entry="f", grid=1, block=1)(space[name])
    assert kernel.operator(torch.zeros(1)).tolist() == [5]


def test_export_with_a_dim_that_reaches_an_output():
    gemm = tkjit.load("gemm")

    class Module(torch.nn.Module):
        def forward(self, a, b):
            return gemm(a, b), largest(a[0])

    shapes = {"a": {0: torch.export.Dim("m"), 1: torch.export.Dim("k")}, "b": {0: torch.export.Dim("k")}}
    program = torch.export.export(Module(), (torch.randn(8, 16), torch.randn(16, 4)), dynamic_shapes=shapes)
    a, b = torch.randn(3, 7), torch.randn(7, 4)
    product, longest = program.module()(a, b)
    assert torch.allclose(product, a @ b, rtol=1e-4) and longest.shape == (9,)


@tkjit.kernel(
    "__global__ void f(Globals g) { g.y[threadIdx.x] = 1; }", entry="f", grid=1, block="max(N + 2, min(N, 3))"
)
def largest(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "max(N + 2, min(N, 3))"]) -> Tensor: ...


def test_an_output_that_stands_for_a_tensor_is_asked():
    class Duck:
        seen: ClassVar[list] = []

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.seen.append((function, args))

    duck, a = Duck(), torch.ones(2, 2)
    assert tkjit.load("gemm")(a, a, out=duck) is duck
    assert [(str(function), args[2]) for function, args in Duck.seen] == [("tkjit.gemm.out", duck)]
    with pytest.raises(
        tkjit.ArgumentError, match=r"twice is .*which stands for a tensor; give all outputs with it, or none"
    ):
        parts(torch.ones(3), twice=duck)
