"""Strided layouts, scratch, fills, random numbers and prepared launches on a GPU."""

import runpy
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import ArgumentError, LaunchError

pytestmark = pytest.mark.gpu


def kernel_of(file: str, name: str) -> tkjit.Kernel:
    found: tkjit.Kernel = runpy.run_path(str(Path(__file__).with_name(file)))[name]
    return found


def test_strided_views(gpu):
    double_heads = kernel_of("test_strided.py", "double_heads")
    q, k, _ = torch.randn(2, 7, 3, 4, 8, device=gpu).permute(2, 0, 3, 1, 4)
    assert torch.equal(double_heads(q), 2 * q)
    double_heads(q, out=k)
    assert torch.equal(k, 2 * q)


def test_scratch_and_fills_in_a_graph(gpu):
    columns = kernel_of("test_scratch.py", "columns")
    x = torch.randn(50, 70, device=gpu)
    columns(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = columns(x)
    for _ in range(3):
        x.copy_(torch.randn(50, 70, device=gpu))
        graph.replay()
        torch.testing.assert_close(found.sums, (x**2).sum(0), rtol=1e-4, atol=1e-4)
        assert (found.last == 49).all() and (found.least == -float("inf")).all()


def test_random_numbers_equal_those_on_the_cpu(gpu):
    philox = kernel_of("test_random.py", "philox")
    one, other = (philox(torch.ones(1, device=device), 7, 8, 9, 10) for device in (gpu, "cpu"))
    assert torch.equal(one.y.cpu(), other.y) and torch.equal(one.u.cpu(), other.u)
    torch.testing.assert_close(one.n.cpu(), other.n, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_generator_offset_advances(gpu):
    dropout = kernel_of("test_random.py", "dropout")
    x, generator = torch.ones(3000, device=gpu), torch.Generator(gpu).manual_seed(5)
    first, second = dropout(x, rng=generator), dropout(x, rng=generator)
    assert generator.get_offset() == 2 * 24 and not torch.equal(first, second)
    assert torch.equal(dropout(x, rng=torch.Generator(gpu).manual_seed(5)), first)
    with pytest.raises(ArgumentError, match="rng is a generator of cpu"):
        dropout(x, rng=torch.Generator())
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(LaunchError, match="would draw the same random numbers"), torch.cuda.graph(graph):
        dropout(x)


def test_prepared_launch_uses_the_current_stream(gpu):
    x, y = torch.ones(1 << 20, device=gpu), torch.zeros(1 << 20, device=gpu)
    step = tkjit.load("axpy").prepare(x, y, alpha=1.0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
        step(alpha=2.0)
    stream.synchronize()
    assert (y == 3).all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    torch.cuda.synchronize()
    assert (y == 4).all()
