"""Host functions as entries: what they take, launch, throw and return."""

import pytest
import torch
from support.define import define, floats

import tkjit
from tkjit import LaunchError

pytestmark = pytest.mark.compiles


def test_host_function_with_a_struct():
    kernel = define(
        "void on_host(const Globals& g) { for (int i = 0; i < g.x.cols(); ++i) g.x[i] *= g.factor; }",
        '(x: InOut[Tensor, "float32", "N"], factor: float) -> Tensor',
        entry="on_host",
        host=True,
    )
    assert kernel(floats(1, 2, 3), 3.0).tolist() == [3, 6, 9]


@pytest.mark.parametrize("stream", ["", ", cudaStream_t stream"])
def test_host_function_with_plain_arguments(stream):
    kernel = define(
        f"int on_host(const float* x, float* y, int n{stream})"
        " { for (int i = 0; i < n; ++i) y[i] = x[i] + n; return 1; }",
        '(x: In[Tensor, "float32", "N"], n: int, *, y: Out[Tensor, "float32", "N"] = None) -> Tensor',
        entry="on_host",
        host=True,
        args=True,
        fields="x y n",
    )
    assert kernel(floats(1, 2, 3), 3).tolist() == [4, 5, 6]


def test_host_function_with_a_described_struct_and_a_stream():
    kernel = define(
        "struct work { int* x; }; void on_host(work w, cudaStream_t s) { *w.x = s == nullptr ? 5 : 6; }",
        '(x: InOut[Tensor, "int32", 1])',
        struct="work",
        entry="on_host",
        host=True,
    )
    x = torch.zeros(1, dtype=torch.int32)
    assert kernel(x) is None
    assert x.item() == 5


def test_host_code_that_throws_raises():
    kernel = define(
        '#include <stdexcept>\nvoid on_host(const Globals& g) { throw std::runtime_error("no such plan"); }',
        '(x: InOut[Tensor, "float32", "N"])',
        entry="on_host",
        host=True,
    )
    with pytest.raises(tkjit.LaunchError, match="no such plan"):
        kernel(torch.ones(1))


def test_host_function_with_a_struct_launches_a_kernel():
    source = "__global__ void f(float* x) { x[threadIdx.x] += 2; }\n"
    source += "void on_host(const Globals& g) {\n    f<<<1, g.x.cols()>>>(g.x.raw_ptr);\n}\n"
    kernel = define(source, '(x: InOut[Tensor, "float32", "N"])', entry="on_host", host=True)
    x = torch.ones(3)
    kernel(x)
    assert x.tolist() == [3, 3, 3]


# ---- the result of a host function


def test_error_that_a_host_function_returns_raises():
    kernel = define(
        "inline cudaError_t f(float* x, int fail) { return fail ? cudaErrorInvalidValue : cudaSuccess; }",
        '(x: InOut[Tensor, "float32", "N"], fail: int) -> Tensor',
        entry="f",
        args=True,
        host=True,
    )
    kernel(floats(1), 0)
    with pytest.raises(LaunchError, match=r"feature_\d+: the host function returned error 1: invalid argument"):
        kernel(floats(1), 1)
