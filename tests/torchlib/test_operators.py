"""Operators of kernels: schemas, registration, and equality with direct calls."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from support.operators import parts, profiled, scale

import tkjit
from tkjit import In, InOut, Out, Tensor

# inductor uses deprecated parts of torch
pytestmark = [pytest.mark.compiles, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]


def test_schemas():
    assert tkjit.load("axpy").schema == "tkjit::axpy(Tensor x, Tensor(a!) y, float alpha=1.0) -> ()"
    assert tkjit.load("gemm").schema == "tkjit::gemm(Tensor a, Tensor b) -> Tensor"
    assert parts.schema == "tkjit::parts(Tensor x) -> (Tensor twice, Tensor square)"
    for kernel in (tkjit.load("axpy"), parts, scale):
        torch._C.parse_schema(kernel.schema)


def test_two_kernels_of_one_name_have_separate_operators():
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


def test_module_with_a_kernel_can_be_copied():
    softmax = tkjit.load("softmax")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = softmax

        def forward(self, x):
            return self.kernel(x)

    x = torch.randn(2, 3)
    torch.testing.assert_close(copy.deepcopy(Model())(x), x.softmax(-1))


def test_kernels_are_pickled_like_functions():
    x = torch.randn(2, 3)
    softmax = pickle.loads(pickle.dumps(tkjit.load("softmax")))
    torch.testing.assert_close(softmax(x), x.softmax(-1))
    for kernel in (scale, tkjit.load(scale)):
        torch.testing.assert_close(pickle.loads(pickle.dumps(kernel))(x[0]), 2 * x[0])


def test_operator_also_rejects_outputs_that_share_memory():
    x = torch.zeros(4)
    for call in (parts, lambda *args, **kwargs: profiled(parts, *args, **kwargs)):
        with pytest.raises(tkjit.ArgumentError, match="the output twice shares memory with x"):
            call(x, twice=x)


@pytest.mark.slow
def test_overload_without_an_operator_keeps_the_kernel_out_of_the_dispatcher():
    @tkjit.kernel("inline void f(Globals g) { g.x[0] = 1; }", entry="f", host=True)
    def mix(x: InOut[Tensor, "float32", "N"], name: str) -> Tensor: ...

    @mix.overload("inline void f(Globals g) { g.x[0] = 2; }", entry="f", host=True)
    def mix(x: InOut[Tensor, "float32", "N"], weights: dict[str, float]) -> Tensor: ...

    assert [profiled(mix, torch.zeros(1), one).item() for one in ("a", {"a": 1.0})] == [1, 2]


def test_results_have_one_type_and_can_be_pickled():
    x = torch.ones(3)
    plain, through = parts(x), profiled(parts, x)
    assert type(plain) is type(through) and type(plain).__name__ == "parts_result"
    again = pickle.loads(pickle.dumps(plain))
    assert type(again) is type(plain) and again.twice.tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["name", "_dir"])
def test_kernel_can_have_the_name_of_an_attribute_of_torchs_namespaces(name):
    space = {"In": In[Tensor, "float32", "N"], "Out": Out[Tensor, "float32", "N"], "__name__": __name__}
    exec(compile(f"def {name}(x: In, y: Out): ...", __file__, "exec", dont_inherit=True), space)
    kernel = tkjit.kernel("__global__ void f(Globals g) { g.y[0] = 5; }", entry="f", grid=1, block=1)(space[name])
    assert kernel.operator(torch.zeros(1)).tolist() == [5]
