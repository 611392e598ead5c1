"""Kernels under ``torch.compile``, ``torch.export``, opcheck and fx."""

from __future__ import annotations

import pytest
import torch
from support.operators import LAUNCH, SCALE, compiled, parts, profiled
from support.sampling import sample

import tkjit
from tkjit import In, Out, Tensor

# inductor uses deprecated parts of torch
pytestmark = [pytest.mark.compiles, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]


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


def test_second_shape_without_dynamic_compiles_once_more():
    softmax = tkjit.load("softmax")
    function = compiled(lambda x: softmax(x) * 2, backend="aot_eager")
    for n in (3, 4, 5, 6, 7):
        x = torch.randn(2, n)
        torch.testing.assert_close(function(x), x.softmax(-1) * 2)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2  # one for the first size, then one for any size


@pytest.mark.parametrize("backend", sample(["aot_eager", "inductor"], "aot_eager"))
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


def test_loaded_kernel_has_few_guards():
    """Each call of compiled code checks a guard for everything that the traced call has read."""
    axpy = tkjit.load("axpy")
    compiled = torch.compile(lambda x, y: axpy(x, y, 2.0) + 1, backend="eager", fullgraph=True)
    compiled(torch.ones(3), torch.ones(3))
    (entry,) = torch._dynamo.eval_frame._debug_get_cache_entry_list(compiled._torchdynamo_orig_callable)
    guards = str(entry.guard_manager)
    assert "register_if_traced" in guards
    assert not any(name in guards for name in ("is_compiling", "_traced_call,", "'_traced_call'", "__mro__"))


def test_compile_of_a_kernel_that_is_not_loaded():
    @tkjit.kernel(SCALE.replace("T(g.factor)", "T(3)"), **LAUNCH)
    def scale(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"], factor: float = 2.0) -> Tensor: ...

    x = torch.randn(40)
    torch.testing.assert_close(compiled(lambda x: scale(x) + 1, backend="aot_eager")(x), 3 * x + 1)


def test_errors_in_a_call_are_raised_while_tracing():
    gemm = tkjit.load("gemm")
    function = compiled(lambda a, b: gemm(a, b), backend="aot_eager")
    with pytest.raises(Exception, match=r"gemm: b is \(6, 8\) float32 on cpu; expected \(K=8, N\) float32"):
        function(torch.randn(4, 8), torch.randn(6, 8))
    with pytest.raises(Exception, match="the argument b is missing"):
        compiled(lambda a: gemm(a), backend="eager")(torch.randn(4, 8))


def test_exported_program_runs_after_saving_and_loading(tmp_path):
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
    x, weight = torch.randn(2, 3, 5).requires_grad_(), torch.randn(5).requires_grad_()
    q = torch.randn(1, 2, 3, 64).bfloat16().requires_grad_()
    packed = torch.randn(5, 2, 64).bfloat16().requires_grad_()
    cu_seqlens = torch.tensor([0, 2, 5]).int()
    states, matrices = torch.randn(2, 3, 1, 2), torch.randn(2, 2, 1, 2, 5)  # of selective_scan
    return {
        "attention": (tkjit.load("attention"), "default", (q, q.detach(), q.detach())),
        "attention_gradient": (
            tkjit.load("attention_gradient"),
            "default",
            (q.detach(), torch.randn(1, 2, 3), q.detach(), q.detach(), q.detach(), torch.full((1, 2, 3), 9.0)),
        ),
        "attention of packed sequences": (
            tkjit.load("attention"),
            "overload1",
            (packed, packed.detach(), packed.detach(), cu_seqlens, cu_seqlens),
        ),
        "attention_gradient of packed sequences": (
            tkjit.load("attention_gradient"),
            "overload1",
            (
                packed.detach(),
                torch.randn(2, 5),
                *[packed.detach()] * 3,
                *[cu_seqlens] * 2,
                torch.full((2, 5), 9.0),
            ),
        ),
        "axpy": (tkjit.load("axpy"), "default", (torch.randn(10), torch.randn(10), 2.0)),
        "gemm": (tkjit.load("gemm"), "default", (a, b)),
        "gemm with gradients": (tkjit.load("gemm"), "default", (a.requires_grad_(), b.clone().requires_grad_())),
        "gemm, out": (tkjit.load("gemm"), "out", (a.detach(), b, torch.empty(32, 24))),
        "linear": (tkjit.load("linear"), "default", (x, torch.randn(4, 5), None, "gelu")),
        "gated_linear": (tkjit.load("gated_linear"), "default", (x, torch.randn(4, 5), torch.randn(4, 5))),
        "matmul": (tkjit.load("matmul"), "default", (a, torch.randn(24, 16).T, torch.randn(24).expand(32, 24))),
        "matmul of a batch": (tkjit.load("matmul"), "overload1", (torch.randn(2, 3, 4), torch.randn(2, 5, 4).mT)),
        "grouped_matmul": (
            tkjit.load("grouped_matmul"),
            "default",
            (a, torch.randn(2, 16, 3), torch.tensor([9, 32]).int()),
        ),
        "grouped_matmul_gradient": (
            tkjit.load("grouped_matmul_gradient"),
            "default",
            (torch.randn(32, 3), a.detach(), torch.tensor([9, 32]).int()),
        ),
        "scaled_matmul": (
            tkjit.load("scaled_matmul"),
            "default",
            (*torch.ones(2, 3, 16).to(torch.float8_e4m3fn), *torch.ones(2, 1), None, torch.float16),
        ),
        "softmax": (tkjit.load("softmax"), "default", (torch.randn(2, 3, 5).requires_grad_(),)),
        "softmax of half": (tkjit.load("softmax"), "default", (torch.randn(3, 5).half(),)),
        "rms_norm": (tkjit.load("rms_norm"), "default", (x, weight)),
        "add_rms_norm": (tkjit.load("add_rms_norm"), "default", (x, x.detach(), weight)),
        "add_layer_norm": (tkjit.load("add_layer_norm"), "default", (x, x.detach(), weight, weight.detach())),
        "fused_cross_entropy": (
            tkjit.load("fused_cross_entropy"),
            "default",
            (torch.randn(2, 5), torch.tensor([1, -100])),
        ),
        "layer_norm": (tkjit.load("layer_norm"), "default", (x, weight, weight.detach())),
        "rms_norm_fp8": (tkjit.load("rms_norm_fp8"), "default", (x.detach(), weight.detach())),
        "add_rms_norm_fp8": (tkjit.load("add_rms_norm_fp8"), "default", (x.detach(), x.detach(), weight.detach())),
        "layer_norm_fp8": (tkjit.load("layer_norm_fp8"), "default", (x.detach(), weight.detach())),
        "rms_norm_gradient": (tkjit.load("rms_norm_gradient"), "default", (x.detach(), x.detach(), weight.detach())),
        "layer_norm_gradient": (
            tkjit.load("layer_norm_gradient"),
            "default",
            (x.detach(), x.detach(), weight.detach()),
        ),
        "cross_entropy": (tkjit.load("cross_entropy"), "default", (x, torch.tensor([[1, 0, 4], [2, -100, 3]]))),
        "cross_entropy_gradient": (
            tkjit.load("cross_entropy_gradient"),
            "default",
            (torch.randn(3), torch.randn(3), torch.randn(3, 5), torch.tensor([1, 0, 4]), torch.randn(3)),
        ),
        "silu_mul": (tkjit.load("silu_mul"), "default", (x, x.detach())),
        "rotary": (tkjit.load("rotary"), "default", (torch.randn(1, 2, 1, 4), torch.randn(2, 1), torch.randn(2, 1))),
        "transpose": (tkjit.load("transpose"), "default", (x,)),
        "embedding": (tkjit.load("embedding"), "default", (torch.tensor([[1, 0]]), torch.randn(3, 5).requires_grad_())),
        "reduce": (tkjit.load("reduce"), "default", (x, "mean")),
        "scan": (tkjit.load("scan"), "default", (x,)),
        "histogram": (tkjit.load("histogram"), "default", (x.detach(), 4)),
        "top_k": (tkjit.load("top_k"), "default", (x, 2)),
        "sampling": (tkjit.load("sampling"), "default", (x.detach(), 1.0, 1)),  # of one element: not random
        "paged_attention": (
            tkjit.load("paged_attention"),
            "default",
            (
                torch.randn(1, 2, 64).bfloat16(),
                *torch.ones(2, 3, 4, 1, 64).bfloat16(),
                torch.ones(1, 2).int(),
                torch.tensor([5]).int(),
            ),
        ),
        "quant_matmul": (
            tkjit.load("quant_matmul"),
            "default",
            (torch.ones(3, 128).half(), torch.ones(5, 64, dtype=torch.uint8), torch.ones(5, 1).half()),
        ),
        "causal_conv1d": (
            tkjit.load("causal_conv1d"),
            "default",
            (x, torch.randn(3, 4).requires_grad_(), None, "silu"),
        ),
        "causal_conv1d_gradient": (
            tkjit.load("causal_conv1d_gradient"),
            "default",
            (torch.randn(2, 3, 5), torch.randn(2, 3, 5), torch.randn(3, 4)),
        ),
        "selective_scan": (tkjit.load("selective_scan"), "default", (x, x.detach(), -torch.rand(3, 2), *matrices)),
        "selective_scan with a state": (
            tkjit.load("selective_scan"),
            "default",
            (x, x.detach(), -torch.rand(3, 2), *matrices, None, None, None, False, torch.randn(2, 3, 2)),
        ),
        "selective_scan_gradient": (
            tkjit.load("selective_scan_gradient"),
            "default",
            (x.detach(), states, x.detach(), x.detach(), -torch.rand(3, 2), *matrices, states),
        ),
        "linear_attention": (tkjit.load("linear_attention"), "default", (q, q.detach(), q.detach(), torch.zeros(2))),
        "linear_attention_gradient": (
            tkjit.load("linear_attention_gradient"),
            "default",
            (q.detach(), torch.randn(1, 2, 64, 64), q.detach(), q.detach(), q.detach()),
        ),
        "linear_attention_decay_gradient": (
            tkjit.load("linear_attention_decay_gradient"),
            "default",
            (q.detach(), torch.randn(1, 2, 64, 64), q.detach(), q.detach(), q.detach(), torch.zeros(2)),
        ),
        "parts": (parts, "default", (torch.randn(7),)),
    }


QUICK = (
    "attention of packed sequences",
    "gemm, out",
    "linear",
    "softmax",
    "fused_cross_entropy",
    "rms_norm_fp8",
    "parts",
)


@pytest.mark.parametrize("name", sample(samples(), *QUICK))
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch 2.14 reads it itself
def test_opcheck(name):
    kernel, overload, arguments = samples()[name]
    tests = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if any(isinstance(one, torch.Tensor) and one.dtype.itemsize == 1 and one.is_floating_point() for one in arguments):
        tests.remove("test_schema")  # compares arguments by arithmetic, which torch lacks for 8-bit floats
    torch.library.opcheck(getattr(kernel.operator, overload), arguments, test_utils=tests)


def test_every_bundled_kernel_has_an_opcheck():
    # except kernels that need the headers of a library, and kernels over several devices, which PyTorch has no type for
    specs = {name: tkjit.find(name).specs[0] for name in tkjit.kernels()}
    assert {name for name, spec in specs.items() if not spec.headers and not spec.is_parallel} <= set(samples())


def test_integers_from_shapes_do_not_cause_recompilation():
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.n + 1000 * g.sizes[1]; }", entry="f", grid=1, block=1)
    def count(x: In[Tensor, "float32", "N"], n: int, sizes: list[int], y: Out[Tensor, "float32", 1]) -> Tensor: ...

    function = compiled(lambda x: count(x, 2 * x.shape[0], [1, x.shape[0]]), dynamic=True, backend="aot_eager")
    for n in range(3, 15):
        assert function(torch.zeros(n)).item() == 2 * n + 1000 * n
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_every_kind_of_call_chooses_the_same_overload():
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


def test_fx_traces_a_call():
    softmax = tkjit.load("softmax")
    module = torch.fx.symbolic_trace(lambda x: softmax(x) + 1)
    x = torch.randn(2, 3)
    torch.testing.assert_close(module(x), x.softmax(-1) + 1)
    assert any("tkjit" in str(node.target) for node in module.graph.nodes)


def test_export_with_an_output_of_dynamic_size():
    gemm = tkjit.load("gemm")

    class Module(torch.nn.Module):
        def forward(self, a, b):
            return gemm(a, b), largest(a[0])

    shapes = {"a": {0: torch.export.Dim("m"), 1: torch.export.Dim("k")}, "b": {0: torch.export.Dim("k")}}
    program = torch.export.export(Module(), (torch.randn(8, 16), torch.randn(16, 4)), dynamic_shapes=shapes)
    a, b = torch.randn(3, 7), torch.randn(7, 4)
    product, longest = program.module()(a, b)
    assert torch.allclose(product, a @ b, rtol=1e-4, atol=1e-5) and longest.shape == (9,)


@tkjit.kernel(
    "__global__ void f(Globals g) { g.y[threadIdx.x] = 1; }", entry="f", grid=1, block="max(N + 2, min(N, 3))"
)
def largest(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "max(N + 2, min(N, 3))"]) -> Tensor: ...
