"""attention of packed sequences on the CPU, against each sequence's attention in float64."""

from __future__ import annotations

import math
import random

import pytest
import torch
from support.attention import exact, near, near_gradients
from support.operators import compiled
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles
LENGTHS = (0, 1, 2, 15, 33, 63, 64, 65, 127, 128, 129, 200)


@pytest.fixture(params=sample(("80", "90a"), "90a"))
def attention(request, session_cache, monkeypatch):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", request.param)
    return tkjit.load("attention")


def cu_seqlens(*lengths, first=0) -> torch.Tensor:
    return torch.tensor([first, *lengths]).cumsum(0).int()


def packed(queries, keys, heads, key_heads, dim, rest=0, dtype=torch.bfloat16) -> list[torch.Tensor]:
    """Make q, k, v and cu_seqlens of sequences with so many queries and keys. `rest` rows belong to none."""
    generator = torch.Generator().manual_seed(sum(queries) + sum(keys) + dim)
    shapes = ((sum(queries) + rest, heads, dim), *[(sum(keys) + rest, key_heads, dim)] * 2)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    return [*tensors, cu_seqlens(*queries, first=rest // 2), cu_seqlens(*keys, first=rest // 3)]


def exact_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, **options):
    zeros = torch.zeros_like(q).double() + (0 * q.double() if q.requires_grad else 0)
    o, lse = zeros, zeros.sum(-1).T - math.inf
    for i in range(len(cu_seqlens_q) - 1):
        queries, keys = slice(*cu_seqlens_q[i : i + 2].tolist()), slice(*cu_seqlens_k[i : i + 2].tolist())
        own = (rows.transpose(0, 1)[None] for rows in (q[queries], k[keys], v[keys]))
        own_o, own_lse = exact(*own, **options)
        o[queries], lse[:, queries] = own_o[0].transpose(0, 1), own_lse[0]
    return o, lse


def random_lengths(seed, count) -> list[list[int]]:
    source = random.Random(seed)
    return [source.choices(LENGTHS, k=count) for _ in range(2)]


CASES = {
    "parts of tiles": (([5, 9], [9, 3], 2, 1, 64), {}),
    "whole tiles": (([64, 128, 256], [128, 64, 256], 1, 1, 64), {"causal": True}),
    "tiles of several sequences": (([1, 63, 1, 64, 65, 127], [1, 63, 1, 64, 65, 127], 2, 2, 64), {"causal": True}),
    "empty sequences": (([0, 20, 0, 30, 0], [0, 0, 40, 50, 0], 2, 1, 64), {}),
    "only empty sequences": (([0, 0], [0, 0], 1, 1, 64, 7), {}),
    "no sequence": (([], [], 2, 1, 64, 150), {}),
    "rows of no sequence": (([70, 80], [90, 100], 4, 2, 64, 200), {"causal": True}),
    "more queries than keys": (([200, 130], [60, 129], 1, 1, 64), {"causal": True}),
    "many sequences": (([3] * 70, [5] * 70, 1, 1, 64), {}),
    "a window": (([150, 40], [300, 170], 1, 1, 64), {"window": 50}),
    "a soft cap and a scale": (([30, 80], [40, 130], 1, 1, 64), {"softcap": 2.0, "scale": 1.0}),
    "wider heads": ((*random_lengths(1, 4), 2, 1, 128), {"causal": True}),
    "the widest heads": ((*random_lengths(2, 3), 2, 1, 256), {"causal": True}),
}


@pytest.mark.parametrize("attention", ["80", "90a"], indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_cases(attention, name):
    shape, options = CASES[name]
    tensors = packed(*shape)
    near(attention(*tensors, **options), exact_packed(*tensors, **options))


@pytest.mark.parametrize("seed", sample(range(5), "1", "2"))
def test_random_lengths(attention, seed):
    tensors = packed(*random_lengths(seed, 9), 2, 1, 64, rest=seed, dtype=torch.float16)
    options = [{}, {"causal": True}, {"window": 70}][seed % 3]
    near(attention(*tensors, **options), exact_packed(*tensors, **options))


def test_the_search_finds_each_of_many_sequences(attention):
    lengths = random.Random(0).choices((0, 1, 2), k=1100)
    q, k, v, *sequences = packed(lengths, lengths, 1, 1, 64)
    o, _ = attention(q, k, v, *sequences, window=1)  # each query sees its own key
    torch.testing.assert_close(o, v)


def test_other_sequences_do_not_affect_a_part_of_a_tile(attention):
    q, k, v, *sequences = packed([30, 40, 50], [100, 20, 90], 2, 2, 64)
    own_q, own_k = slice(30, 70), slice(100, 120)
    expected = attention(q[own_q], k[own_k], v[own_k], cu_seqlens(40), cu_seqlens(20))
    for tensor, own in ((q, own_q), (k, own_k), (v, own_k)):
        tensor[: own.start], tensor[own.stop :] = math.nan, math.inf
    o, lse = attention(q, k, v, *sequences)
    assert torch.equal(o[own_q], expected.o) and torch.equal(lse[:, own_q], expected.lse)


def with_guards(tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Copy a tensor between NaNs. Returns the copy, and the memory with the NaNs."""
    memory = tensor.new_full((3, *tensor.shape), math.nan)
    memory[1] = tensor
    return memory[1], memory


def call_with_guards(kernel, inputs, outputs, *arguments) -> None:
    """Check that a call reads no NaN next to an input, and writes nothing next to an output."""
    outputs, memories = zip(*(with_guards(torch.zeros_like(one)) for one in outputs), strict=True)
    kernel(*(with_guards(one)[0] for one in inputs), *arguments, out=outputs)
    assert not any(one.isnan().any() for one in outputs)
    assert all(memory[[0, 2]].isnan().all() for memory in memories)


WRONG = {
    "past the end": [0, 10, 1000, 1 << 30],
    "negative": [-7, 10, 20, 30],
    "below all integers": [-(1 << 31), 5, (1 << 31) - 1, 3],
    "descending": [60, 50, 40, 0],
    "up and down": [0, 50, 3, 60],
    "from the end": [60, 0, 60, 0],
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_cu_seqlens_stay_in_bounds(attention, name):
    wrong = torch.tensor(WRONG[name], dtype=torch.int32)
    right = torch.tensor([0, 20, 40, 60], dtype=torch.int32)
    q, k, v = packed([60], [60], 2, 1, 64)[:3]
    lse = torch.ones(2, 60)
    for sequences in ((wrong, right), (right, wrong), (wrong, wrong)):
        call_with_guards(attention, (q, k, v), (q, lse), *sequences)
        gradient = tkjit.load("attention_gradient")
        call_with_guards(gradient, (q, lse, q, k, v), (q, k, v), *sequences, lse)


def test_the_results_are_those_of_dense_tensors(attention):
    q, k, v, *sequences = packed([70, 70], [150, 150], 4, 2, 64)
    dense = (tensor.view(2, -1, *tensor.shape[1:]).transpose(1, 2).contiguous() for tensor in (q, k, v))
    o, lse = attention(*dense, causal=True)
    result = attention(q, k, v, *sequences, causal=True)
    assert torch.equal(result.o, o.transpose(1, 2).flatten(0, 1))
    assert torch.equal(result.lse, lse.transpose(0, 1).flatten(1))


def test_other_inputs_are_rejected(session_cache):
    attention = tkjit.load("attention")
    q, k, v, *sequences = packed([4], [4], 3, 2, 64)
    with pytest.raises(tkjit.ArgumentError, match="H % max\\(G, 1\\) == 0"):
        attention(q, k, v, *sequences)
    q, k, v, *sequences = packed([4], [4], 2, 2, 64)
    with pytest.raises(tkjit.ArgumentError, match="cu_seqlens_k is \\(3,\\) int32 on cpu; expected \\(P=2,\\)"):
        attention(q, k, v, sequences[0], cu_seqlens(2, 2))
    with pytest.raises(tkjit.ArgumentError, match="cu_seqlens_q is \\(2,\\) int64"):
        attention(q, k, v, *(one.long() for one in sequences))
    with pytest.raises(tkjit.ArgumentError, match="P >= 1"):
        attention(q, k, v, *(one[:0] for one in sequences))


def gradients_of(attention, tensors, grads, **options) -> tuple[torch.Tensor, ...]:
    inputs = [tensor.detach().requires_grad_() for tensor in tensors[:3]]
    return torch.autograd.grad(attention(*inputs, *tensors[3:], **options), inputs, grads, allow_unused=True)


def check_gradients(tensors, **options) -> None:
    q, sequences = tensors[0], tensors[3:]
    grads = torch.randn_like(q), torch.randn(q.shape[1], q.shape[0])
    got = gradients_of(tkjit.load("attention"), tensors, grads, **options)
    wanted = gradients_of(exact_packed, [*(one.double() for one in tensors[:3]), *sequences], grads, **options)
    for i, (mine, expected) in enumerate(zip(got, wanted, strict=True)):
        ends = sequences[min(i, 1)].tolist()
        expected = torch.zeros_like(tensors[i]).double() if expected is None else expected
        assert not mine[: ends[0]].any() and not mine[ends[-1] :].any()
        for own in map(slice, ends, ends[1:]):
            if own.stop > own.start:
                near_gradients(*([one[own].transpose(0, 1)[None]] for one in (mine, expected)))


GRADIENT_CASES = ("parts of tiles", "empty sequences", "rows of no sequence", "more queries than keys", "a window")


@pytest.mark.parametrize("name", sample(CASES, *GRADIENT_CASES))
def test_gradients(session_cache, name):
    shape, options = CASES[name]
    check_gradients(packed(*shape), **options)


@pytest.mark.parametrize("seed", sample(range(6), "1"))
def test_gradients_of_random_lengths(session_cache, seed):
    check_gradients(packed(*random_lengths(seed, 6), 2, 1, 64, rest=seed), causal=bool(seed % 2))


def test_gradients_of_a_sequence_depend_on_no_other(session_cache):
    attention = tkjit.load("attention")
    q, k, v, *sequences = packed([30, 40, 50], [100, 20, 90], 2, 1, 64)
    own_q, own_k = slice(30, 70), slice(100, 120)
    grad_o, grad_lse = torch.randn_like(q), torch.randn(2, 120)
    tensors = [q[own_q], k[own_k], v[own_k], cu_seqlens(40), cu_seqlens(20)]
    expected = gradients_of(attention, tensors, (grad_o[own_q], grad_lse[:, own_q].contiguous()))
    for tensor, own in ((q, own_q), (k, own_k), (v, own_k), (grad_o, own_q), (grad_lse.T, own_q)):
        tensor[: own.start], tensor[own.stop :] = math.nan, math.inf
    got = gradients_of(attention, [q, k, v, *sequences], (grad_o, grad_lse))
    for grad, own, wanted in zip(got, (own_q, own_k, own_k), expected, strict=True):
        assert torch.equal(grad[own], wanted)


def test_training_in_compiled_code(session_cache):
    attention = tkjit.load("attention")
    q, k, v, *sequences = packed([20, 50], [70, 30], 2, 1, 64)

    def loss(q, k, v, cu_seqlens_q, cu_seqlens_k):
        o, lse = attention(q, k, v, cu_seqlens_q, cu_seqlens_k)
        return o.float().square().sum() + lse.sum()

    eager, traced = ([one.clone().requires_grad_() for one in (q, k, v)] for _ in range(2))
    loss(*eager, *sequences).backward()
    compiled(loss, backend="aot_eager")(*traced, *sequences).backward()
    for got, wanted in zip(traced, eager, strict=True):
        assert torch.equal(got.grad, wanted.grad)


def test_gradients_are_repeatable(session_cache):
    tensors = packed(*random_lengths(3, 5), 4, 1, 64)
    grads = torch.randn_like(tensors[0]), torch.randn(4, tensors[0].shape[0])
    runs = [gradients_of(tkjit.load("attention"), tensors, grads) for _ in range(2)]
    assert all(torch.equal(first, second) for first, second in zip(*runs, strict=True))
