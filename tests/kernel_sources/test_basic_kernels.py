"""transpose, embedding, reduce, scan, histogram, top_k and sampling on the CPU: values, gradients and bad input."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles
F = torch.nn.functional
INFINITY, NAN = float("inf"), float("nan")
DTYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16")}


@pytest.fixture(params=sample(DTYPES, "bfloat16"))
def dtype(request) -> torch.dtype:
    return DTYPES[request.param]


def gradients_agree(ours, theirs, *arguments: torch.Tensor) -> None:
    """Compare the gradients of two functions of float32 tensors."""
    results = []
    for function in (ours, theirs):
        inputs = [one.clone().requires_grad_(one.is_floating_point()) for one in arguments]
        y = function(*inputs)
        y.backward(torch.linspace(1, 2, y.numel()).view_as(y))
        results.append([one.grad for one in inputs if one.is_floating_point()])
    torch.testing.assert_close(*results)


# ---- transpose


@pytest.mark.parametrize("shape", [(1, 9), (64, 64), (3, 70, 130), (2, 3, 65, 1), (2, 0, 5)])
def test_transpose(dtype, shape):
    x = torch.randn(shape).to(dtype)
    assert torch.equal(tkjit.load("transpose")(x), x.mT)


def test_gradient_of_transpose():
    gradients_agree(tkjit.load("transpose"), lambda x: x.mT, torch.randn(2, 3, 5))


# ---- embedding


@pytest.mark.parametrize("dim", [1, 64, 70, 3000])
def test_embedding(dtype, dim):
    weight, index = torch.randn(11, dim).to(dtype), torch.randint(11, (2, 3, 4))
    assert torch.equal(tkjit.load("embedding")(index, weight), weight[index])


def test_gradient_of_embedding_adds_up_repeated_rows():
    index = torch.tensor([[1, 3], [1, 1]])
    embedding = tkjit.load("embedding")
    gradients_agree(
        lambda weight: embedding(index, weight), lambda weight: F.embedding(index, weight), torch.randn(5, 7)
    )


def test_an_index_without_a_row_gives_nan():
    y = tkjit.load("embedding")(torch.tensor([4, 5, -1, 2**40]), torch.randn(5, 3))
    assert y.isnan().all(-1).tolist() == [False, True, True, True]


# ---- reduce

OPS = ("sum", "mean", "amax", "amin")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", [(1,), (2, 3, 37), (2, 16385), (300_007,)])
def test_reduce(dtype, shape, op):
    x = torch.randn(shape).to(dtype)
    y = tkjit.load("reduce")(x, op)
    exact = getattr(torch, op)(x.double(), -1)
    assert y.dtype == dtype and y.shape == exact.shape
    error = shape[-1] * 1e-7 + torch.finfo(dtype).eps * exact.abs()
    assert bool(((y.double() - exact).abs() <= error).all())


@pytest.mark.parametrize("op", OPS)
def test_gradient_of_reduce(op):
    reduce = tkjit.load("reduce")
    x = torch.randint(4, (3, 20)).float()  # with equal elements
    gradients_agree(lambda x: reduce(x, op), lambda x: getattr(torch, op)(x, -1), x)


def test_reduce_keeps_nan_and_infinity():
    x = torch.tensor([[1, NAN, 2], [1, INFINITY, 2], [-INFINITY, 1, 2]])
    for op in OPS:
        assert torch.equal(tkjit.load("reduce")(x, op).nan_to_num(7), getattr(torch, op)(x, -1).nan_to_num(7))


def test_reduce_rejects_an_unknown_op_and_empty_rows():
    with pytest.raises(tkjit.ArgumentError, match="op"):
        tkjit.load("reduce")(torch.ones(3), "max")
    with pytest.raises(tkjit.ShapeError, match="N > 0"):
        tkjit.load("reduce")(torch.ones(3, 0))


# ---- scan


@pytest.mark.parametrize("n", [1, 37, 257, 2048, 8193, 150_001])
def test_scan(dtype, n):
    x = torch.randn(2, n).to(dtype)
    y, exact = tkjit.load("scan")(x), x.double().cumsum(-1)
    error = 1e-6 * x.double().abs().cumsum(-1) + torch.finfo(dtype).eps * exact.abs()
    assert bool(((y.double() - exact).abs() <= error).all())


def test_scan_of_integers_is_exact_and_wraps_around():
    x = torch.randint(-(2**31), 2**31, (3, 70_001), dtype=torch.int32)
    assert torch.equal(tkjit.load("scan")(x), x.cumsum(-1, dtype=torch.int32))


def test_scan_keeps_the_sums_before_infinity():
    assert tkjit.load("scan")(torch.tensor([1, 2, INFINITY, 1])).tolist() == [1, 3, INFINITY, INFINITY]


def test_gradient_of_scan():
    gradients_agree(tkjit.load("scan"), lambda x: x.cumsum(-1), torch.randn(2, 30))


# ---- histogram


@pytest.mark.parametrize("bins", [1, 10, 12288])
def test_histogram(dtype, bins):
    x = torch.rand(3, 20_001).to(dtype)
    histogram = tkjit.load("histogram")
    counts = histogram(x, bins, 0.1, 0.9)
    assert torch.equal(counts, histogram.specs[0].reference(x, bins, 0.1, 0.9, counts=None))
    exact = torch.histc(x.float(), bins, 0.1, 0.9)
    assert counts.sum() == exact.sum()
    assert (counts.cumsum(0) - exact.cumsum(0)).abs().max() <= 0.001 * x.numel()  # x may be between two parts


def test_histogram_counts_the_limits_and_no_nan():
    x = torch.tensor([0, 1, NAN, 2, -1, 0.5, INFINITY])
    histogram = tkjit.load("histogram")
    assert histogram(x, 2).tolist() == [1, 2]
    assert histogram(x, 2, 1.0, 1.0).tolist() == histogram(x, 2, 1.0, 0.0).tolist() == [0, 0]


def test_histogram_with_infinite_limits_counts_everything():
    counts = tkjit.load("histogram")(torch.randn(500), 4, -INFINITY, INFINITY)
    assert counts.tolist() == [500, 0, 0, 0]


@pytest.mark.parametrize("name", ["reduce", "top_k", "histogram"])
def test_rows_at_any_address(dtype, name):
    kernel = tkjit.load(name)
    more = {"reduce": ("amax",), "top_k": (5,), "histogram": (7,)}[name]
    for skipped in range(9):
        x = torch.rand(4009 + skipped).to(dtype)[skipped:]
        got, wanted = kernel(x, *more), kernel(x.clone(), *more)
        for one, other in zip(got, wanted, strict=True) if isinstance(got, tuple) else [(got, wanted)]:
            assert torch.equal(one, other)


def test_histogram_rejects_too_many_bins():
    with pytest.raises(tkjit.ShapeError, match="bins <= 12288"):
        tkjit.load("histogram")(torch.ones(3), 12289)


# ---- top_k


@pytest.mark.parametrize(("n", "k"), [(1, 1), (37, 5), (37, 37), (5000, 300), (70_000, 1024)])
def test_top_k(dtype, n, k):
    x = torch.randn(2, n).to(dtype).roll(1)
    x[:, n // 2 :] = x[:, : n - n // 2]  # with equal elements
    values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
    largest = tkjit.load("top_k")(x, k)
    assert torch.equal(largest.values, values[:, :k])
    assert torch.equal(largest.indices, indices[:, :k])


def test_top_k_of_equal_and_unusual_elements():
    x = torch.tensor([0, -0.0, NAN, 1, INFINITY, -INFINITY, 0, -1e-40])
    indices = tkjit.load("top_k")(x, 8).indices
    assert indices.tolist() == [2, 4, 3, 0, 1, 6, 7, 5]
    assert tkjit.load("top_k")(torch.zeros(3000), 100).indices.tolist() == list(range(100))


def test_gradient_of_top_k():
    top_k = tkjit.load("top_k")
    gradients_agree(lambda x: top_k(x, 3).values, lambda x: x.topk(3).values, torch.randn(2, 30))


@pytest.mark.parametrize("k", [0, 6, 1025])
def test_top_k_rejects_a_k_that_does_not_fit(k):
    with pytest.raises(tkjit.ShapeError, match="k"):
        tkjit.load("top_k")(torch.randn(2, 5 if k < 1000 else 2000), k)


# ---- sampling


@pytest.mark.parametrize(
    "limits",
    [
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ({}, {"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.7})
        ),
        pytest.param({"top_p": 0.7}, marks=pytest.mark.slow),
        {"top_k": 10, "top_p": 0.6, "temperature": 2.0},
    ],
    ids=str,
)
def test_sampling_has_the_probabilities_of_softmax(dtype, limits):
    logits = torch.randn(50, generator=torch.Generator().manual_seed(1)).to(dtype)
    draws = 20_000
    generator = torch.Generator().manual_seed(2)
    index = tkjit.load("sampling")(logits.expand(draws, 50).contiguous(), **limits, rng=generator)
    order = torch.sort(logits, descending=True, stable=True).indices
    chances = (logits.double() / limits.get("temperature", 1.0)).softmax(-1)
    chances[order[limits.get("top_k", 50) :]] = 0
    chances /= chances.sum()
    before = chances[order].cumsum(0) - chances[order]
    chances[order[before >= limits.get("top_p", 1.0)]] = 0
    chances /= chances.sum()
    shares = torch.bincount(index, minlength=50) / draws
    assert not shares[chances == 0].any()
    assert bool(((shares - chances).abs() <= 5 * (chances / draws).sqrt() + 1e-4).all())  # five standard deviations


def test_sampling_of_a_long_row_and_with_the_same_seed():
    logits = torch.full((100, 40_000), -60.0)
    logits[:, 30_000:30_004] = 0.0
    sampling = tkjit.load("sampling")
    index, again = (sampling(logits, rng=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(index, again)
    assert torch.bincount(index - 30_000).tolist() == pytest.approx([25] * 4, abs=22)


def test_sampling_of_unusual_rows():
    logits = torch.tensor([[NAN, -INFINITY, NAN], [INFINITY, 1, NAN], [NAN, -5, -INFINITY]])
    assert tkjit.load("sampling")(logits).tolist() == [-1, 0, 1]
    assert tkjit.load("sampling")(logits, top_k=2, top_p=0.5).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("size", [1, 300, 5000])
def test_temperature_0_chooses_the_first_largest(size):
    logits = torch.randint(7, (5, size)).float()
    index = tkjit.load("sampling")(logits, temperature=0.0)
    assert index.tolist() == [row.index(max(row)) for row in logits.tolist()]


def test_an_infinite_temperature_chooses_among_all_but_negative_infinity():
    logits = torch.randn(3000, 5)
    logits[:, 2] = -INFINITY
    counts = torch.bincount(tkjit.load("sampling")(logits, temperature=INFINITY), minlength=5).tolist()
    assert counts[2] == 0 and min(counts[:2] + counts[3:]) > 600
