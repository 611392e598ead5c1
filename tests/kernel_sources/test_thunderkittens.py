"""The references of ThunderKittens' kernels, and the validity of the test calls for GPUs."""

from __future__ import annotations

import math
import runpy

import pytest
import torch
from support.thunderkittens import CASES, CASES_OF_8, DIRECTORY, KERNELS, error

import tkjit
from tkjit.spec import variants_of

MANY = 10**7  # elements: such a case's shapes are computed, and not its numbers


def case(kernel: str):
    return next(case for case in CASES if case.kernel == kernel)


def reference(kernel: str):
    return tkjit.find(kernel).reference


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case_is_a_call_that_its_spec_takes_and_its_reference_returns_what_the_spec_says(case):
    spec = case.spec
    inputs = case.inputs()
    given = [field for field in spec.fields if field.direction in ("in", "inout")]
    assert set(inputs) == {field.name for field in given}
    for field in given:
        assert tuple(inputs[field.name].shape) == tuple(dim.evaluate(case.dims) for dim in field.dims), field.name
        assert inputs[field.name].dtype == getattr(torch, field.dtype)
        assert inputs[field.name].is_contiguous()
    device = "meta" if sum(values.numel() for values in inputs.values()) > MANY else "cpu"
    results = case.expected({name: values.to(device) for name, values in inputs.items()})
    returned = [field for field in spec.fields if field.name in spec.returns]
    returned.sort(key=lambda field: spec.returns.index(field.name))
    assert len(results) == len(returned)
    for field, result in zip(returned, results, strict=True):
        assert tuple(result.shape) == tuple(dim.evaluate(case.dims) for dim in field.dims), field.name
        assert result.dtype == getattr(torch, field.dtype)
        if device == "cpu":
            assert bool(result.float().isfinite().all()) and result.float().abs().max() > 0, field.name


def test_every_kernel_of_one_device_has_a_case_for_each_variant():
    every = {name: tkjit.find(name).specs[0] for name in KERNELS}
    known = {name for name, spec in every.items() if not any(field.is_parallel for field in spec.fields)}
    assert {case.kernel for case in CASES} == known
    for kernel in known:
        variants = [dict(variant.values).items() for variant in variants_of(every[kernel])]
        cases = [case.dims.items() for case in CASES if case.kernel == kernel]
        assert all(any(variant <= case for case in cases) for variant in variants)


@pytest.mark.parametrize("case", CASES_OF_8, ids=str)
def test_a_case_of_8_devices_is_a_call_that_its_spec_takes(case):
    fields = {field.name: field for field in case.spec.fields if field.is_tensor}
    assert set(case.shapes) == set(fields)
    assert {*case.multicast.split(), *case.zeros.split()} <= set(fields)
    if sum(math.prod(shape) for shape in case.shapes.values()) > MANY:
        return
    results = case.expected()
    assert results
    for name, parts in results.items():
        assert len(parts) == 8 and all(tuple(part.shape) == case.shapes[name] for part in parts)
        assert all(bool(part.float().isfinite().all()) and part.float().abs().max() > 0 for part in parts)
    if case.clears:
        assert {f.name for f in tkjit.find(case.clears).specs[0].fields} == {f.name for f in case.spec.fields}


def test_every_kernel_of_8_devices_has_a_case():
    every = set(KERNELS) - {case.kernel for case in CASES}
    cases = CASES_OF_8
    called = {case.kernel for case in cases} | {case.clears for case in cases if case.clears}
    # the experts' weights are 940 MB on each device
    no_case = {"tk_device_barrier", "tk_moe_dispatch_gemm", "tk_moe_dispatch_gemm_epilogue"}
    assert every == called | no_case


def test_the_error_is_of_the_worst_row_and_no_row_near_zero_is_the_worst():
    right = torch.ones(4, 8)
    wrong = right.clone()
    wrong[2] += 0.5
    assert error(wrong, right) == pytest.approx(0.5)
    right[3] = 0
    off = right.clone()
    off[3] += 1e-4
    assert error(off, right) < 2e-3
    assert not error(off * float("nan"), right) < 1


@pytest.mark.parametrize("points", [1024, 4096])
def test_the_convolutions_are_those_of_a_fourier_transform(points):
    generator = torch.Generator().manual_seed(0)
    heads, side = 3, int(points**0.5)
    x = torch.randn(4, heads, points, generator=generator).bfloat16()
    filters = torch.randn(heads, points, generator=generator)
    matrices = runpy.run_path(str(DIRECTORY / "fftconv.py"))["matrices"]
    y = reference(f"tk_fftconv_{points}")(x.reshape(4, heads, side, side), **matrices(filters))
    exact = torch.fft.ifft(torch.fft.fft(x.float()) * torch.fft.fft(filters)).real
    assert error(y.reshape(exact.shape), exact) < 0.02


@pytest.mark.parametrize("causal", [False, True])
def test_attention_and_its_gradients_are_pytorchs(causal):
    backward = next(case for case in CASES if case.kernel == "tk_mha_backward" and case.dims["is_causal"] == causal)
    inputs = backward.inputs()
    q, k, v = (inputs[name].float().requires_grad_() for name in "qkv")
    wide = [x.repeat_interleave(2, 1) for x in (k, v)]
    exact = torch.nn.functional.scaled_dot_product_attention(q, *wide, is_causal=causal)
    o, _ = reference("tk_mha_forward")(inputs["q"], inputs["k"], inputs["v"], is_causal=causal)
    assert error(o, exact) < 0.005
    gradients = torch.autograd.grad(exact, (q, k, v), inputs["og"].float())
    for got, right in zip(backward.expected(inputs), gradients, strict=True):
        assert error(got, right) < 0.02  # o is rounded before it is multiplied with its gradient


def test_what_is_quantized_is_what_the_block_scaled_gemm_takes():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(rows, 256, generator=generator).bfloat16() for rows in (256, 128))
    a[:, 64:96] *= 1000  # a block of its own
    a[130:140] /= 100
    a[7] = 0  # as rows that fill up a batch
    (qa, sa), (qb, sb) = (reference("tk_mxfp8_quantize")(x) for x in (a, b))
    assert sa.shape == (2, 2, 32, 16) and sa.dtype == torch.float8_e8m0fnu
    # of row 131 and block 2, the second tile of rows, its row 3 of the first 32
    assert float(sa[1, 0, 3, 2]) == 2 ** (a[131, 64:96].float().abs().max() / 448).log2().ceil()
    assert float(sa[0, 0, 7, 0]) == 2**-39  # the source takes no block to be smaller than 1e-12
    got = reference("tk_gemm_mxfp8")(qa, sa, qb, sb)
    assert error(got, a.float() @ b.float().T) < 0.06  # of 8-bit floats


def test_4_bit_floats_and_their_scales():
    inputs = case("tk_gemm_nvfp4").inputs()
    (d,) = case("tk_gemm_nvfp4").expected(inputs)
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
def test_attention_of_wide_keys_is_pytorchs(causal):
    inputs = case(f"tk_mha_b300{causal}").inputs()
    q, k, v = (inputs[name].float().transpose(1, 2) for name in "qkv")
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
    o, logsumexp = case(f"tk_mha_b300{causal}").expected(inputs)
    assert error(o, exact.transpose(1, 2)) < 0.005
    first = q[0, 1, 5] @ k[0, 1, : 6 if causal else None].T / 192**0.5
    torch.testing.assert_close(logsumexp[0, 1, 0, 5], first.logsumexp(0))


def test_8_stages_of_ring_attention_are_the_attention_to_all_keys():
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
    assert error(torch.cat(calls["O"], 2), exact) < 0.02  # rounded after each stage


def test_the_experts_get_what_is_sent_to_them():
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


def test_mamba_is_its_recurrence():
    inputs = case("tk_mamba2").inputs()
    q, k, v = (inputs[name].float() for name in "QKV")
    decay = inputs["A"][:, :, 0].exp()
    state, rows = torch.zeros(2, 4, 64, 64), []
    for row in range(q.shape[2]):
        state = decay[:, :, row, None, None] * state + k[:, :, row, :, None] * v[:, :, row, None]
        rows.append((q[:, :, row, None] @ state)[:, :, 0])
    assert error(case("tk_mamba2").expected(inputs)[0], torch.stack(rows, 2)) < 0.005


def test_linear_attention_is_its_recurrence():
    inputs = case("tk_linear_attention").inputs()
    q, k, v = (inputs[name].float() for name in "qkv")
    decay = torch.exp(-inputs["slopes"])[:, None, None]
    state, rows = torch.zeros(2, 4, 128, 128), []
    for row in range(q.shape[2]):
        state = decay * state + k[:, :, row, :, None] * v[:, :, row, None]
        rows.append((q[:, :, row, None] @ state)[:, :, 0])
    assert error(case("tk_linear_attention").expected(inputs)[0], torch.stack(rows, 2)) < 0.005


def test_the_states_of_based_give_the_next_row():
    inputs = case("tk_based").inputs()
    o, *states = case("tk_based").expected(inputs)
    a0, a1, a2 = (state.float() for state in states)
    q = inputs["q"].float()[:, :, -1:]
    products = (q[..., None] * q[..., None, :]).flatten(-2)
    assert error(a0 + q @ a1.mT / 2 + products @ a2 / 32**0.5, o[:, :, -1:]) < 0.01
