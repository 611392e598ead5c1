"""attention on the CPU, with Hopper's source and the portable one, against scores in float64."""

from __future__ import annotations

import math

import pytest
import torch
from support.attention import exact, near, near_gradients
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles


@pytest.fixture(params=sample(("80", "90a"), "90a"))
def attention(request, session_cache, monkeypatch):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", request.param)
    return tkjit.load("attention")


def inputs(heads, key_heads, queries, keys, dim, dtype=torch.bfloat16, batch=1) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(queries + keys + dim)
    shapes = ((batch, heads, queries, dim), *[(batch, key_heads, keys, dim)] * 2)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


CASES = {
    "one tile": ((1, 1, 64, 128, 64), {}),
    "a part of a tile": ((1, 1, 5, 9, 64), {}),
    "shared heads": ((4, 2, 70, 150, 64), {}),
    "many tiles": ((1, 1, 20, 600, 64), {}),
    "causal": ((2, 1, 150, 150, 64), {"causal": True}),
    "causal, more keys": ((1, 1, 30, 300, 64), {"causal": True}),
    "causal, more queries": ((1, 1, 200, 60, 64), {"causal": True}),
    "a window": ((1, 1, 200, 400, 64), {"window": 50}),
    "a window of one": ((1, 1, 10, 10, 64), {"window": 1}),
    "a soft cap and a scale": ((1, 1, 30, 40, 64), {"softcap": 2.0, "scale": 1.0}),
    "no keys": ((1, 1, 5, 0, 64), {}),
    "wider heads": ((1, 1, 40, 150, 128), {"causal": True}),
    "the widest heads": ((1, 1, 40, 90, 256), {"causal": True}),
}


@pytest.mark.parametrize("attention", ["80", "90a"], indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_cases(attention, name):
    shape, options = CASES[name]
    tensors = inputs(*shape)
    near(attention(*tensors, **options), exact(*tensors, **options))


@pytest.mark.parametrize("dtype", sample((torch.bfloat16, torch.float16), "torch.float16"))
def test_batches(attention, dtype):
    tensors = inputs(2, 2, 33, 40, 64, dtype, batch=3)
    near(attention(*tensors), exact(*tensors))


def test_the_next_head_does_not_affect_a_part_of_a_tile(attention):
    q, k, v = inputs(2, 2, 10, 20, 64)
    expected = attention(q[:, :1].contiguous(), k[:, :1].contiguous(), v[:, :1].contiguous())
    k[:, 1], v[:, 1] = math.inf, math.nan
    o, lse = attention(q, k, v)
    assert torch.equal(o[:, :1], expected.o) and torch.equal(lse[:, :1], expected.lse)


def test_large_scores_do_not_overflow(attention):
    q, k, v = inputs(1, 1, 8, 16, 64)
    near(attention(100 * q, 100 * k, v), exact(100 * q, 100 * k, v))


def test_other_inputs_are_rejected(session_cache):
    attention = tkjit.load("attention")
    q, k, v = inputs(3, 2, 4, 4, 64)
    with pytest.raises(tkjit.ArgumentError, match="H % max\\(G, 1\\) == 0"):
        attention(q, k, v)
    with pytest.raises(tkjit.ArgumentError, match="D"):
        attention(*inputs(1, 1, 4, 4, 80))
    with pytest.raises(tkjit.ArgumentError, match="attention: q"):
        attention(*(tensor.float() for tensor in inputs(1, 1, 4, 4, 64)))


def gradients_of(attention, tensors, grads, **options) -> tuple[torch.Tensor, ...]:
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    return torch.autograd.grad(attention(*tensors, **options), tensors, grads)


def random_gradients(q) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(q.numel())
    return torch.randn(q.shape, generator=generator).to(q.dtype), torch.randn(q.shape[:3], generator=generator)


GRADIENT_CASES = {
    "a part of a tile": ((1, 1, 5, 9, 64), {}),
    "shared heads": ((4, 2, 70, 150, 64), {}),
    "one head of keys": ((3, 1, 40, 33, 64), {"causal": True}),
    "many tiles": ((2, 2, 150, 300, 64), {}),
    "causal": ((2, 1, 150, 150, 64), {"causal": True}),
    "causal, more keys": ((1, 1, 30, 300, 64), {"causal": True}),
    "causal, more queries": ((2, 1, 300, 60, 64), {"causal": True}),
    "a window": ((2, 1, 200, 300, 64), {"window": 34}),  # the last tile has one row that counts
    "a window, more queries": ((2, 1, 300, 130, 64), {"window": 40}),
    "a window of one": ((1, 1, 10, 10, 64), {"window": 1}),
    "a window longer than the keys": ((1, 1, 40, 70, 64), {"window": 1000}),
    "a soft cap and a scale": ((2, 1, 70, 140, 64), {"softcap": 2.0, "scale": 1.0}),
    "128 wide": ((2, 1, 140, 100, 128), {}),
    "128 wide, with all options": ((4, 2, 150, 170, 128), {"window": 60, "softcap": 3.0, "scale": 0.2}),
    "many rounds of the ring": ((3, 1, 160, 700, 64), {}),
    "many rounds of the ring, 128 wide": ((3, 1, 150, 700, 128), {"causal": True}),
    "many rounds of the ring, 256 wide": ((2, 1, 130, 200, 256), {"causal": True}),
    "256 wide": ((2, 1, 70, 100, 256), {}),
    "256 wide, with all options": ((4, 2, 80, 140, 256), {"window": 60, "softcap": 3.0, "scale": 0.2}),
}
QUICK_CASES = ("a part of a tile", "shared heads", "causal, more queries", "a window", "a soft cap and a scale")


@pytest.mark.parametrize("dtype", sample((torch.bfloat16, torch.float16), "torch.bfloat16"))
@pytest.mark.parametrize("name", sample(GRADIENT_CASES, *QUICK_CASES))
def test_gradients(attention, name, dtype):
    shape, options = GRADIENT_CASES[name]
    tensors = inputs(*shape, dtype, batch=2)
    grads = random_gradients(tensors[0])
    expected = gradients_of(exact, [tensor.double() for tensor in tensors], grads, **options)
    near_gradients(gradients_of(attention, tensors, grads, **options), expected)


def test_queries_that_see_no_key_have_no_part_in_the_gradients(attention):
    tensors = inputs(2, 1, 100, 30, 64)
    blind = slice(0, 70)
    grad_o, grad_lse = random_gradients(tensors[0])
    expected = gradients_of(attention, tensors, (grad_o, grad_lse), causal=True)
    assert not expected[0][:, :, blind].any()
    grad_lse[:, :, blind] = math.nan  # as after lse.exp().log()
    for got, wanted in zip(gradients_of(attention, tensors, (grad_o, grad_lse), causal=True), expected, strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize(("queries", "keys"), [(5, 0), (0, 5)])
def test_gradients_of_nothing_are_zero(attention, queries, keys):
    tensors = inputs(1, 1, queries, keys, 64)
    for grad in gradients_of(attention, tensors, random_gradients(tensors[0])):
        assert not grad.any()


def test_gradients_of_a_head_depend_on_no_other_head(attention):
    tensors = inputs(2, 2, 10, 20, 64)
    grads = random_gradients(tensors[0])
    first = [tensor[:, :1].contiguous() for tensor in (*tensors, *grads)]
    expected = gradients_of(attention, first[:3], first[3:])
    for tensor in (*tensors, *grads):
        tensor[:, 1] = math.nan
    for got, wanted in zip(gradients_of(attention, tensors, grads), expected, strict=True):
        assert torch.equal(got[:, :1], wanted)


@pytest.mark.parametrize("dim", sample((64, 128, 256), "64"))
def test_gradients_are_repeatable(attention, dim):
    tensors = inputs(4, 1, 100, 90, dim)
    grads = random_gradients(tensors[0])
    runs = [gradients_of(attention, tensors, grads) for _ in range(2)]
    assert all(torch.equal(first, second) for first, second in zip(*runs, strict=True))


@pytest.mark.parametrize("options", [{"causal": True}, {"window": 70}], ids=str)
@pytest.mark.parametrize("dim", sample((64, 128, 256), "128"))
def test_gradients_do_not_depend_on_tiles_that_no_row_sees(attention, dim, options):
    q, k, v = inputs(1, 1, 384, 384, dim)  # tiles and blocks have at most 128 rows
    first, last = slice(0, 128), slice(256, 384)
    grad_o, grad_lse = random_gradients(q)
    expected = gradients_of(attention, (q, k, v), (grad_o, grad_lse), **options)

    bad_k, bad_v = k.clone(), v.clone()
    bad_k[:, :, last], bad_v[:, :, last] = math.nan, math.nan  # 0 * NaN would be NaN
    grads = gradients_of(attention, (q, bad_k, bad_v), (grad_o, grad_lse), **options)
    assert torch.equal(grads[0][:, :, first], expected[0][:, :, first])

    q[:, :, first], grad_o[:, :, first] = math.nan, math.nan
    grads = gradients_of(attention, (q, k, v), (grad_o, grad_lse), **options)
    for got, wanted in zip(grads[1:], expected[1:], strict=True):
        assert torch.equal(got[:, :, last], wanted[:, :, last])


@pytest.mark.slow
def test_gradients_without_heads_of_queries(attention):
    q, k, rows = torch.empty(1, 0, 70, 64).bfloat16(), torch.randn(1, 2, 70, 64).bfloat16(), torch.empty(1, 0, 70)
    grad_q, grad_k, grad_v = tkjit.load("attention_gradient")(q, rows, q, k, k, rows)
    assert grad_q.shape == q.shape and not grad_k.any() and not grad_v.any()
