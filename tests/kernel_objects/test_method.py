"""``tkjit.method``: kernels as methods of a class."""

import inspect

import pytest
import torch

import tkjit
from tkjit import SpecError


@pytest.mark.compiles
def test_kernel_as_a_method_of_tensors(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "tk_gemm", tkjit.method("gemm"), raising=False)
    a, b, c = torch.randn(3, 4), torch.randn(4, 5), torch.empty(3, 5)
    assert a.tk_gemm(b, c=c) is c
    assert torch.allclose(c, a @ b, atol=1e-5)
    assert list(inspect.signature(a.tk_gemm).parameters)[:1] == ["b"]
    assert torch.Tensor.tk_gemm.__name__ == "gemm" and "gemm" in torch.Tensor.tk_gemm.__doc__

    @torch.compile(fullgraph=True, backend="aot_eager")
    def traced(a, b):
        return a.tk_gemm(b) + 1

    assert torch.allclose(traced(a, b), a @ b + 1, atol=1e-5)
    with pytest.raises(tkjit.ShapeError, match="gemm: b is"):
        a.tk_gemm(a)


def test_method_of_an_unknown_kernel():
    with pytest.raises(SpecError, match="no kernel"):
        tkjit.method("nonesuch")
