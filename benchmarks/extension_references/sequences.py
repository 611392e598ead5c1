"""Sequences: attention, linear attention, recurrences, causal convolution, positions, and decoding."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.extension_references.cases import Case, gradients, of


def zeros_like(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(map(torch.zeros_like, tensors))


@of("flash_attention_minimal")
def _attention() -> Iterator[Case]:
    q, k, v = torch.randn(3, 2, 3, 64, 24)
    yield Case("forward", (q, k, v), F.scaled_dot_product_attention(q, k, v), tolerance=1e-4)


@of("apex_scaled_upper_triang_masked_softmax_cuda")
def _causal_softmax() -> Iterator[Case]:
    x, up = torch.randn(3, 40, 40).half(), torch.randn(3, 40, 40).half()
    future = torch.ones(40, 40).triu(1).bool()
    expected = (0.7 * x.float()).masked_fill(future, -math.inf).softmax(-1)
    yield Case("forward", (x, 0.7), expected, tolerance=2e-3)
    y = expected.half()
    down = 0.7 * y.float() * (up.float() - (up.float() * y.float()).sum(-1, keepdim=True))
    yield Case("backward", (up.clone(), y, 0.7), down, tolerance=4e-3)


@of("fast_transformers_causal_product_cuda", "fast_transformers_causal_product_cpu")
def _causal_product() -> Iterator[Case]:
    def product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT).tril() @ v

    for features, length in [(12, 37), (32, 70)]:
        q, k, v, up = torch.randn(4, 2, 3, length, features)
        out, grads = torch.zeros_like(v), zeros_like(q, k, v)
        yield Case("causal_dot_product", (q, k, v, out), product(q, k, v), (out,))
        expected = gradients(product, (q, k, v), up)
        yield Case("causal_dot_backward", (q, k, v, up, *grads), expected, grads)


@of("fast_transformers_sparse_product_cuda", "fast_transformers_sparse_product_cpu")
def _sparse_product() -> Iterator[Case]:
    """Attention of each query to a few chosen keys: the scores, and the weighted average of the values."""
    q, k = torch.randn(2, 2, 3, 37, 20)
    at = torch.rand(2, 3, 37, 37).topk(8).indices
    chosen = torch.arange(2)[:, None, None, None], torch.arange(3)[:, None, None], at

    def product(q: Tensor, k: Tensor) -> Tensor:
        return (q[..., None, :] * k[chosen]).sum(-1)

    def average(weights: Tensor, values: Tensor) -> Tensor:
        return (weights[..., None] * values[chosen]).sum(-2)

    weights, values = torch.rand(2, 3, 37, 8), torch.randn(2, 3, 37, 20)
    for forward, backward, function, inputs in [
        ("dot_product", "dot_backward", product, (q, k)),
        ("weighted_average", "weighted_average_backward", average, (weights, values)),
    ]:
        expected = function(*inputs)
        out, grads, up = torch.zeros_like(expected), zeros_like(*inputs), torch.randn_like(expected)
        yield Case(f"sparse_{forward}", (*inputs, at, out), expected, (out,))
        yield Case(f"sparse_{backward}", (*inputs, at, up, *grads), gradients(function, inputs, up), grads)


@of("rwkv_timex")
def _time_mix() -> Iterator[Case]:
    """Depthwise causal convolution: w[c, T - 1] weights the present, w[c, 0] the most distant past."""

    def convolved(w: Tensor, k: Tensor) -> Tensor:
        return torch.stack([F.conv1d(F.pad(k[b : b + 1], (19, 0)), w[b, :, None], groups=5)[0] for b in range(8)])

    w, k, up = torch.randn(5, 20), torch.randn(8, 5, 20), torch.randn(8, 5, 20)
    each = w.expand(8, 5, 20).contiguous()
    out, grads = torch.zeros_like(k), zeros_like(each, k)
    yield Case("forward", (w, k, out, 0.1, 8, 5, 20), convolved(each, k) + 0.1, (out,))
    yield Case("backward", (w, k, up, *grads, 8, 5, 20), gradients(convolved, (each, k), up), grads)


@of("rwkv_wkv4")
def _wkv4() -> Iterator[Case]:
    """RWKV-4, equation 16: an average of the past with decaying weights, plus a bonus for the present."""

    def average(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
        steps = torch.arange(k.shape[1])
        age = (steps[:, None] - steps - 1)[:, :, None]
        past = age * -w.exp()[:, None, None] + k[:, None]
        scores = past.masked_fill(age < 0, -math.inf).clone()
        scores[:, steps, steps] = u[:, None] + k
        return (scores.softmax(2) * v[:, None]).sum(2)

    log_decay, u, k, v, up = torch.randn(32), torch.randn(32), *torch.randn(3, 2, 19, 32)
    each = log_decay.expand(2, 32).contiguous(), u.expand(2, 32).contiguous()
    out, grads = torch.zeros_like(k), zeros_like(*each, k, v)
    inputs = 2, 19, 32, -log_decay.exp(), u, k, v
    yield Case("forward", (*inputs, out), average(*each, k, v), (out,), 1e-4)
    yield Case("backward", (*inputs, up, *grads), gradients(average, (*each, k, v), up), grads, 1e-4)


@of("rwkv_wkv6")
def _wkv6() -> Iterator[Case]:
    """RWKV-6, equation 19: heads of size 64 with a state that decays by exp(-exp(w)) in each step."""

    def attended(r: Tensor, k: Tensor, v: Tensor, w: Tensor, u: Tensor) -> Tensor:
        r, k, v, w = (each.view(2, -1, 2, 64) for each in (r, k, v, w))
        state, outputs = torch.zeros(2, 2, 64, 64).to(r), []
        for t in range(r.shape[1]):
            added = k[:, t, :, :, None] * v[:, t, :, None]
            outputs.append((r[:, t, :, None] @ (state + u[..., None] * added)).flatten(1))
            state = torch.exp(-torch.exp(w[:, t]))[..., None] * state + added
        return torch.stack(outputs, 1)

    r, k, v, w, up = torch.randn(5, 2, 12, 128).bfloat16()
    u = torch.randn(2, 64).bfloat16()
    out, grads = torch.zeros_like(r), zeros_like(r, k, v, w)
    each = u.expand(2, 2, 64)
    inputs = 2, 12, 128, 2, r, k, v, w, u
    yield Case("wkv6::forward", (*inputs, out), attended(*(x.float() for x in (r, k, v, w, u))), (out,), 1e-2)
    *expected, bonus = gradients(attended, (r, k, v, w, each), up)
    written = *grads, torch.zeros(2, 128).bfloat16()
    yield Case("wkv6::backward", (*inputs, up, *written), [*expected, bonus.flatten(1)], written, 2e-2)


@of("apex_fused_rotary_positional_embedding")
def _rotary() -> Iterator[Case]:
    """RoFormer's rotation of the first 24 of 30 features, by halves; (sequence, batch, heads, features)."""
    x, angles = torch.randn(19, 2, 3, 30), torch.randn(19, 1, 1, 12).repeat(1, 1, 1, 2)

    def turned(x: Tensor) -> Tensor:
        a, b, turn = x[..., :12], x[..., 12:24], angles[: len(x), ..., :12]
        cos, sin = turn.cos(), turn.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., 24:]], -1)

    up, cached = torch.randn_like(x), (angles.cos(), angles.sin())
    yield Case("forward", (x, angles, False), turned(x))
    yield Case("forward_cached", (x, *cached, False), turned(x))
    yield Case("backward", (up, angles, False), gradients(turned, [x], up))
    yield Case("backward_cached", (up, *cached, False), gradients(turned, [x], up))
    ends = torch.tensor([0, 7, 19], dtype=torch.int32)
    packed = torch.cat([turned(x[:7, :1]), turned(x[7:, :1])])[:, 0]
    yield Case("forward_thd", (x[:, 0].contiguous(), ends, angles), packed)


@of("causal_conv1d_cuda")
def _causal_convolution() -> Iterator[Case]:
    for activate in (False, True):
        x, weight, bias = torch.randn(2, 11, 40), torch.randn(11, 4), torch.randn(11)
        out = torch.zeros_like(x)
        expected = F.conv1d(F.pad(x, (3, 0)), weight[:, None], bias, groups=11)
        arguments = x, weight, bias, None, None, out, None, activate
        yield Case("causal_conv1d_fwd", arguments, F.silu(expected) if activate else expected, (out,))


@of("fast_hadamard_transform_cuda")
def _hadamard() -> Iterator[Case]:
    """Multiplication by Sylvester's Hadamard matrix, also for rows that are padded to a power of two."""
    matrix = torch.ones(1, 1)
    for size in (2, 4, 8, 16, 32, 64, 128):
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
        if size >= 32:
            for columns in (size, size - 8):
                x = torch.randn(5, columns)
                expected = 0.3 * x @ matrix[:columns, :columns]
                yield Case("fast_hadamard_transform", (x, 0.3), expected)


@of("fairseq_ngram_repeat_block")
def _repeated_ngrams() -> Iterator[Case]:
    """No token may complete a trigram that its hypothesis already contains."""
    tokens, scores, step = torch.randint(0, 4, (6, 30)), torch.randn(6, 9), 21
    expected = scores.clone()
    for row, hypothesis in enumerate(tokens[:, : step + 1].tolist()):
        for start in range(step - 1):
            if hypothesis[start : start + 2] == hypothesis[-2:]:
                expected[row, hypothesis[start + 2]] = -math.inf
    yield Case("forward", (tokens, scores.clone(), 3, step, 2, 3), expected, tolerance=0)


@of("warp_rnnt")
def _transducer() -> Iterator[Case]:
    """Graves, "Sequence Transduction with Recurrent Neural Networks": the likelihood of all alignments."""

    def losses(log_probabilities: Tensor) -> Tensor:
        totals = []
        for x, y, t_count, u_count in zip(log_probabilities, labels, frames.tolist(), lengths.tolist(), strict=True):
            alpha: dict[tuple[int, int], Tensor] = {(0, 0): x.new_zeros(())}
            for t in range(t_count):
                for u in range(u_count + 1):
                    ways = [alpha[t - 1, u] + x[t - 1, u, 0]] if t else []
                    ways += [alpha[t, u - 1] + x[t, u - 1, y[u - 1]]] if u else []
                    if ways:
                        alpha[t, u] = torch.stack(ways).logsumexp(0)
            totals.append(-alpha[t_count - 1, u_count] - x[t_count - 1, u_count, 0])
        return torch.stack(totals)

    scores, labels = torch.randn(3, 9, 6, 7).log_softmax(-1), torch.randint(1, 7, (3, 5), dtype=torch.int32)
    frames, lengths = torch.tensor([9, 7, 4], dtype=torch.int32), torch.tensor([5, 3, 4], dtype=torch.int32)
    expected = [losses(scores.double()), *gradients(losses, [scores], torch.ones(3))]
    yield Case("rnnt_loss", (scores, labels, frames, lengths, 0, 0.0), expected)


@of("gptq_quant_cuda")
def _three_bit_product() -> Iterator[Case]:
    """32 weights of 3 bits are packed in 3 integers, lowest bits first."""
    vector, scales, zeros, start = torch.randn(512), torch.rand(256), torch.rand(256), torch.randn(256)
    levels = torch.randint(0, 8, (512, 256))
    bits = (levels[:, None] >> torch.arange(3)[:, None] & 1).view(48, 32, 256)
    packed = (bits << torch.arange(32)[:, None]).sum(1)
    packed = torch.where(packed >= 2**31, packed - 2**32, packed).int()
    expected = start + vector @ (levels * scales - zeros)
    yield Case("vecquant3matmul", (vector, packed, start, scales, zeros), expected, (start,))
