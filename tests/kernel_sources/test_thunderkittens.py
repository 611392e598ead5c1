"""The references of ThunderKittens' kernels, and the validity of the test calls for GPUs."""

from __future__ import annotations

import runpy

import pytest
import torch
from support.sampling import sample
from support.thunderkittens import CALLED, DIRECTORY, arguments, calls, expected, first

import tkjit
from tkjit.spec import variants_of
from tkjit.torchlib.meta import meta_outputs
from tkjit.verify.bounds import bound_of, row_error
from tkjit.verify.reference import expected_results

MANY = 10**7  # elements; above this, only the shape of the reference's result is computed
# the kernels whose references take a second or more; others of the same families are quick
LARGE = ("tk_all_reduce_educational", "tk_fftconv_non_pc", "tk_mha_backward", "tk_mha_forward", "tk_ring_attention")


def reference(kernel: str):
    return tkjit.find(kernel).reference


def tensors(value):
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("kernel", sample(CALLED, *(kernel for kernel in CALLED if kernel not in LARGE)))
def test_reference_returns_the_shapes_and_dtypes_of_the_spec(kernel):
    for number, call in enumerate(calls(kernel)):
        given = arguments(call)
        many = sum(x.numel() for value in given.values() for x in tensors(value) if isinstance(x, torch.Tensor)) > MANY
        if many:
            given = {
                name: value.to("meta") if isinstance(value, torch.Tensor) else value for name, value in given.items()
            }
        if call.spec.is_parallel:
            if not many:
                results, _ = expected_results(call.reference, call.case.arguments, bound_of(call.spec, call.variant))
                assert results and all(len(parts) == 8 for parts in results.values())
            continue
        results = expected(kernel, given)
        outputs = {f.name: value for f, value in zip(call.spec.outputs, meta_outputs(call.spec, given), strict=True)}
        shapes = [outputs[name] if name in outputs else given[name] for name in call.spec.returns]
        assert [(x.shape, x.dtype) for x in results] == [(x.shape, x.dtype) for x in shapes]
        if not many:
            assert all(bool(x.float().isfinite().all()) for x in results)
            assert number or all(x.float().abs().max() > 0 for x in results), "an all-zero result tests nothing"


@pytest.mark.parametrize("kernel", CALLED)
def test_each_variant_has_a_call(kernel):
    every = {(number, variant) for number, spec in enumerate(tkjit.find(kernel).specs) for variant in variants_of(spec)}
    specs = tkjit.find(kernel).specs
    assert {(specs.index(call.spec), call.variant) for call in calls(kernel)} == every


@pytest.mark.parametrize("points", [1024, 4096])
def test_convolutions_match_a_fourier_transform(points):
    generator = torch.Generator().manual_seed(0)
    heads, side = 3, int(points**0.5)
    x = torch.randn(4, heads, points, generator=generator).bfloat16()
    filters = torch.randn(heads, points, generator=generator)
    matrices = runpy.run_path(str(DIRECTORY / "fftconv.py"))["matrices"]
    y = reference(f"tk_fftconv_{points}")(x.reshape(4, heads, side, side), **matrices(filters))
    exact = torch.fft.ifft(torch.fft.fft(x.float()) * torch.fft.fft(filters)).real
    assert row_error(exact, y.reshape(exact.shape)) < 0.02


@pytest.mark.parametrize("causal", [False, True])
def test_attention_and_its_gradients_match_pytorch(causal):
    inputs = first("tk_mha_backward", is_causal=causal)
    q, k, v = (inputs[name].float().requires_grad_() for name in "qkv")
    wide = [x.repeat_interleave(2, 1) for x in (k, v)]
    exact = torch.nn.functional.scaled_dot_product_attention(q, *wide, is_causal=causal)
    o, _ = reference("tk_mha_forward")(inputs["q"], inputs["k"], inputs["v"], is_causal=causal)
    assert row_error(exact.detach(), o) < 0.005
    gradients = torch.autograd.grad(exact, (q, k, v), inputs["og"].float())
    for got, right in zip(expected("tk_mha_backward", inputs), gradients, strict=True):
        assert row_error(right, got) < 0.02  # o is rounded before it is multiplied with its gradient


def test_block_scaled_gemm_takes_quantized_matrices():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(rows, 256, generator=generator).bfloat16() for rows in (256, 128))
    a[:, 64:96] *= 1000  # exactly one block
    a[130:140] /= 100
    a[7] = 0  # like the padding rows of a batch
    (qa, sa), (qb, sb) = (reference("tk_mxfp8_quantize")(x) for x in (a, b))
    assert sa.shape == (2, 2, 32, 16) and sa.dtype == torch.float8_e8m0fnu
    # the scale of row 131 and block 2; the row is row 3 of the second tile
    assert float(sa[1, 0, 3, 2]) == 2 ** (a[131, 64:96].float().abs().max() / 448).log2().ceil()
    assert float(sa[0, 0, 7, 0]) == 2**-39  # the source clamps scales to at least 1e-12
    got = reference("tk_gemm_mxfp8")(qa, sa, qb, sb)
    assert row_error(a.float() @ b.float().T, got) < 0.06  # the error of 8-bit floats


def test_4_bit_floats_and_their_scales():
    inputs = first("tk_gemm_nvfp4")
    (d,) = expected("tk_gemm_nvfp4", inputs)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])

    def number(name: str, row: int, k: int) -> float:
        byte = int(inputs[name].view(torch.uint8)[row, k // 2])
        places = inputs[f"{name}_sc"][row // 128, k // 64].view(torch.float8_e4m3fn).float()
        scale = places[row % 32 * 16 + row % 128 // 32 * 4 + k % 64 // 16]
        return float(values[byte >> 4 if k % 2 else byte & 15] * scale)

    row, column = 201, 77
    exact = sum(number("A", row, k) * number("B", column, k) for k in range(256))
    exact *= float(inputs["A_sc_global"] * inputs["B_sc_global"])
    assert float(d[row, column]) == pytest.approx(exact, rel=0.005, abs=0.5)


@pytest.mark.parametrize("causal", ["", "_causal"])
def test_attention_with_wide_keys_matches_pytorch(causal):
    inputs = first(f"tk_mha_b300{causal}")
    q, k, v = (inputs[name].float().transpose(1, 2) for name in "qkv")
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
    o, logsumexp = expected(f"tk_mha_b300{causal}", inputs)
    assert row_error(exact.transpose(1, 2), o) < 0.005
    head = q.shape[1] - 1
    row = q[0, head, 5] @ k[0, head, : 6 if causal else None].T / 192**0.5
    torch.testing.assert_close(logsumexp[0, head, 0, 5], row.logsumexp(0))


def test_8_stages_of_ring_attention_compute_attention_to_all_keys():
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(8, 1, 2, 48, 128, generator=generator) for _ in range(3))
    calls = {name: list(parts.clone().bfloat16()) for name, parts in {"Q": q, "K0": k, "V0": v}.items()}
    for name in ("K1", "V1", "O", "O_block"):
        calls[name] = list(torch.zeros(8, 1, 2, 48, 128).bfloat16())
    for name in ("L", "L_block"):
        calls[name] = list(torch.zeros(8, 1, 2, 48))
    calls["barrier"] = list(torch.zeros(8, 2, 8, dtype=torch.int32))
    for stage in range(8):
        reference("tk_ring_attention")(**calls, ring_stage=stage)
        if stage:
            reference("tk_ring_attention_reduction")(**calls, ring_stage=stage)
    whole = [torch.cat(list(parts.bfloat16().float()), 2) for parts in (q, k, v)]
    exact = torch.nn.functional.scaled_dot_product_attention(*whole)
    assert row_error(exact, torch.cat(calls["O"], 2)) < 0.02  # rounded after each stage


def test_experts_get_the_tokens_that_are_sent_to_them():
    generator = torch.Generator().manual_seed(0)
    hidden, inner, experts, devices = 6, 5, 4, 2  # two experts on each of two devices
    tokens = torch.randn(devices, 10, hidden, generator=generator)
    weights = torch.randn(experts, hidden, inner, generator=generator)
    counts = torch.tensor([3, 2, 4, 1], dtype=torch.int32)
    pulls = [
        torch.tensor([[0, 1], [1, 9], [-1, -1], [0, 0], [1, 3]]),
        torch.tensor([[1, 1], [1, 2], [0, 3], [0, 1], [1, 0]]),
    ]
    posts, outputs = [torch.zeros(5, hidden) for _ in pulls], [torch.full((5, inner), 7.0) for _ in pulls]
    kernel = reference("tk_moe_dispatch_gemm")
    kernel(list(tokens), posts, list(weights.split(2)), outputs, [counts, counts], pulls, barrier=None)
    torch.testing.assert_close(outputs[0][1], tokens[1, 9] @ weights[0])
    torch.testing.assert_close(outputs[0][4], tokens[1, 3] @ weights[1])
    torch.testing.assert_close(outputs[1][3], tokens[0, 1] @ weights[2])
    torch.testing.assert_close(outputs[1][4], tokens[1, 0] @ weights[3])
    assert not outputs[0][2].any() and not posts[0][2].any()


def test_mamba_matches_its_recurrence():
    inputs = first("tk_mamba2")
    q, k, v = (inputs[name].float() for name in "QKV")
    decay = inputs["A"][:, :, 0].exp()
    state, rows = torch.zeros(2, 4, 64, 64), []
    for row in range(q.shape[2]):
        state = decay[:, :, row, None, None] * state + k[:, :, row, :, None] * v[:, :, row, None]
        rows.append((q[:, :, row, None] @ state)[:, :, 0])
    assert row_error(torch.stack(rows, 2), expected("tk_mamba2", inputs)[0]) < 0.005


def test_linear_attention_matches_its_recurrence():
    inputs = first("tk_linear_attention")
    q, k, v = (inputs[name].float() for name in "qkv")
    decay = torch.exp(-inputs["slopes"])[:, None, None]
    state, rows = torch.zeros(2, 4, 128, 128), []
    for row in range(q.shape[2]):
        state = decay * state + k[:, :, row, :, None] * v[:, :, row, None]
        rows.append((q[:, :, row, None] @ state)[:, :, 0])
    assert row_error(torch.stack(rows, 2), expected("tk_linear_attention", inputs)[0]) < 0.005


def test_states_of_based_reproduce_the_last_row():
    inputs = first("tk_based")
    o, *states = expected("tk_based", inputs)
    a0, a1, a2 = (state.float() for state in states)
    q = inputs["q"].float()[:, :, -1:]
    products = (q[..., None] * q[..., None, :]).flatten(-2)
    assert row_error(o[:, :, -1:], a0 + q @ a1.mT / 2 + products @ a2 / 32**0.5) < 0.01
