"""selective_scan and linear_attention on the CPU: values, gradients and bad input."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The bounds hold for most random inputs, but not for all, because gradients are sums of terms that cancel."""
    torch.manual_seed(1)


F = torch.nn.functional
INFINITY, NAN = float("inf"), float("nan")


@pytest.fixture(params=sample(("float32", "bfloat16", "float16"), "bfloat16"))
def dtype(request) -> torch.dtype:
    return getattr(torch, request.param)


def in_float64(tensors: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    return [None if one is None else one.detach().double().requires_grad_() for one in tensors]


def trainable(tensors: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    return [None if one is None else one.detach().clone().requires_grad_() for one in tensors]


def near(got: torch.Tensor, exact: torch.Tensor, *, rounding: float) -> None:
    """Compare with a float64 result, allowing a rounding of the element, and 1e-5 of the largest one.

    The gradients are sums of hundreds of numbers around 1, which may cancel: their rounding is up to about 1e-5.
    """
    assert got.shape == exact.shape
    torch.testing.assert_close(
        got.double(), exact, rtol=rounding, atol=1e-5 * float(exact.detach().abs().amax()) + 1e-5
    )


# ---- selective_scan


def scan_inputs(batch: int, dim: int, groups: int, length: int, states: int, dtype: torch.dtype = torch.float32):
    """The arguments u, delta, A, B, C, D, z and delta_bias."""
    u, z = torch.randn(2, batch, dim, length)
    b, c = torch.randn(2, batch, groups, states, length)
    delta, rates = torch.rand(batch, dim, length), -3 * torch.rand(dim, states)
    skip, bias = torch.randn(dim), 0.3 * torch.rand(dim)
    return [u.to(dtype), delta.to(dtype), rates, b.to(dtype), c.to(dtype), skip, z.to(dtype), bias]


def serial_scan(u, delta, A, B, C, D, z, delta_bias, softplus, h=None):
    """One element after another."""
    steps = delta if delta_bias is None else delta + delta_bias[:, None]
    steps = F.softplus(steps) if softplus else steps
    B, C = (one.repeat_interleave(u.shape[1] // one.shape[1], 1) for one in (B, C))
    outputs, states = [], []
    h = u.new_zeros(*u.shape[:2], A.shape[1]) if h is None else h
    for t in range(u.shape[2]):
        h = (steps[..., t, None] * A).exp() * h + (steps * u)[..., t, None] * B[..., t]
        outputs.append((h * C[..., t]).sum(-1))
        if t % 256 == 255 or t == u.shape[2] - 1:
            states.append(h)
    y = torch.stack(outputs, -1)
    y = y if D is None else y + D[:, None] * u
    return y if z is None else y * F.silu(z), torch.stack(states, 2)


def compare_scans(tensors: list[torch.Tensor | None], softplus: bool, state: torch.Tensor | None = None) -> None:
    ours, exact = trainable([*tensors, state]), in_float64([*tensors, state])
    results = tkjit.load("selective_scan")(*ours[:-1], delta_softplus=softplus, initial_state=ours[-1])
    expected = serial_scan(*exact[:-1], softplus, exact[-1])
    rounding = torch.finfo(tensors[0].dtype).eps
    near(results.y, expected[0], rounding=rounding)
    near(results.states, expected[1], rounding=1e-5)
    grads = [torch.randn_like(one) for one in results]
    torch.autograd.backward(tuple(results), grads)
    torch.autograd.backward(expected, [one.double() for one in grads])
    for got, wanted in zip(ours, exact, strict=True):
        if got is not None:
            assert got.grad.dtype == got.dtype
            near(got.grad, wanted.grad, rounding=rounding)


@pytest.mark.parametrize("length", [1, 7, 8, 255, 256, 257, 1031])
def test_selective_scan_of_any_length(dtype, length):
    compare_scans(scan_inputs(2, 3, 1, length, 4, dtype), softplus=True)


@pytest.mark.parametrize("softplus", [False, True])
@pytest.mark.parametrize("omitted", [(), (5,), (6,), (7,), (5, 6, 7)], ids=str)
def test_selective_scan_without_optional_tensors(omitted, softplus):
    tensors = scan_inputs(1, 2, 1, 40, 3)
    compare_scans([None if i in omitted else one for i, one in enumerate(tensors)], softplus)


@pytest.mark.parametrize("length", [1, 256, 300])
def test_selective_scan_with_an_initial_state(dtype, length):
    state = torch.randn(2, 10, 40)
    compare_scans(scan_inputs(2, 10, 2, length, 40, dtype), softplus=True, state=state)


def test_selective_scan_goes_on_from_a_state():
    scan = tkjit.load("selective_scan")
    u, delta, rates, b, c, skip, z, bias = scan_inputs(2, 3, 1, 700, 5)
    whole, state, parts = scan(u, delta, rates, b, c, skip, z, bias), None, []
    for first, last in ((0, 300), (300, 301), (301, 700)):
        u_part, delta_part, b_part, c_part, z_part = (one[..., first:last].contiguous() for one in (u, delta, b, c, z))
        part = scan(u_part, delta_part, rates, b_part, c_part, skip, z_part, bias, initial_state=state)
        parts.append(part.y)
        state = part.states[:, :, -1].contiguous()
    torch.testing.assert_close(torch.cat(parts, -1), whole.y, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state, whole.states[:, :, -1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dim", "groups", "states"), [(1, 1, 1), (9, 1, 16), (22, 2, 5), (4, 4, 33), (2, 1, 256)])
def test_selective_scan_of_any_number_of_channels_groups_and_states(dim, groups, states):
    compare_scans(scan_inputs(2, dim, groups, 270, states), softplus=False)


def test_each_block_of_the_gradient_computes_several_tiles_of_channels():
    compare_scans(scan_inputs(140, 17, 1, 9, 2), softplus=False)


def test_selective_scan_of_a_long_sequence_with_slow_decay():
    tensors = scan_inputs(1, 1, 1, 5001, 1)
    tensors[2] *= 1e-3
    compare_scans(tensors, softplus=False)


def test_reference_of_selective_scan_agrees_with_the_serial_scan():
    tensors, state = [one.double() for one in scan_inputs(2, 6, 2, 300, 5)], torch.randn(2, 6, 5).double()
    reference = tkjit.find("selective_scan").specs[0].reference
    with torch.no_grad():
        results = reference(*tensors, True, state, y=None, states=None)
        for got, exact in zip(results, serial_scan(*tensors, True, state), strict=True):
            torch.testing.assert_close(got.double(), exact, rtol=1e-4, atol=1e-4)


def test_gradients_of_selective_scan_are_the_same_in_each_call():
    tensors = scan_inputs(2, 20, 1, 300, 3)
    scan = tkjit.load("selective_scan")
    found = []
    for _ in range(2):
        ours = trainable(tensors)
        scan(*ours).y.square().sum().backward()
        found.append([one.grad for one in ours])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_nan_and_infinity_reach_only_later_elements_of_their_channel():
    for value in (NAN, INFINITY):
        tensors = scan_inputs(1, 3, 1, 600, 4)
        tensors[0][0, 1, 300] = value
        y, states = tkjit.load("selective_scan")(*tensors)
        exact, exact_states = serial_scan(*tensors, False)
        assert torch.equal(y.isfinite(), exact.isfinite()) and torch.equal(states.isfinite(), exact_states.isfinite())
        torch.testing.assert_close(y[exact.isfinite()], exact[exact.isfinite()], rtol=1e-4, atol=1e-4)
    tensors = scan_inputs(1, 3, 1, 600, 4)
    tensors[1][0, 1, 300] = NAN
    y = tkjit.load("selective_scan")(*tensors, delta_softplus=True).y
    assert torch.equal(y.isfinite(), serial_scan(*tensors, True)[0].isfinite())


def test_steps_far_from_zero():
    tensors = scan_inputs(1, 1, 1, 300, 2)
    tensors[1] = torch.linspace(-120, 120, 300).view(1, 1, 300)
    compare_scans(tensors, softplus=True)


@pytest.mark.parametrize("shape", [(0, 3, 5, 4), (2, 0, 5, 4), (2, 3, 0, 4), (2, 3, 5, 0)], ids=str)
def test_empty_selective_scans(shape):
    batch, dim, length, states = shape
    ours = trainable([*scan_inputs(batch, dim, 1, length, states), torch.randn(batch, dim, states)])
    result = tkjit.load("selective_scan")(*ours[:-1], initial_state=ours[-1])
    result.y.sum().backward()
    assert result.y.shape == (batch, dim, length) and ours[2].grad.shape == (dim, states)
    if states == 0:
        torch.testing.assert_close(result.y, ours[5][:, None] * ours[0] * F.silu(ours[6]))
    if length == 0:
        assert not any(one.grad.any() for one in ours)


def test_selective_scan_rejects_tensors_that_do_not_fit():
    scan = tkjit.load("selective_scan")
    tensors = scan_inputs(2, 3, 1, 10, 4)

    def replaced(i: int, tensor: torch.Tensor) -> list[torch.Tensor]:
        return [tensor if i == j else one for j, one in enumerate(tensors)]

    with pytest.raises(tkjit.ShapeError, match="selective_scan: C"):
        scan(*replaced(4, torch.randn(2, 1, 4, 11)))
    with pytest.raises(tkjit.ShapeError, match="dim % max"):
        scan(*scan_inputs(2, 3, 2, 10, 4))
    with pytest.raises(tkjit.ShapeError, match="N <= 256"):
        scan(*scan_inputs(1, 1, 1, 10, 257))
    with pytest.raises(tkjit.ArgumentError, match="selective_scan: A"):
        scan(*replaced(2, tensors[2].bfloat16()))
    with pytest.raises(tkjit.ArgumentError, match="selective_scan: delta"):
        scan(*replaced(1, tensors[1].half()))
    with pytest.raises(tkjit.ShapeError, match="selective_scan: initial_state"):
        scan(*tensors, initial_state=torch.randn(2, 3, 5))


# ---- linear_attention


def attention_inputs(batch: int, heads: int, length: int, dim: int, dtype: torch.dtype = torch.bfloat16):
    """The arguments q, k, v, g and initial_state."""
    q, k, v = torch.randn(3, batch, heads, length, dim).to(dtype)
    return [q, k, v, -0.2 * torch.rand(heads), torch.randn(batch, heads, dim, dim)]


def whole_attention(q, k, v, g, state, scale):
    """The products of all pairs of elements at once."""
    length, dim = q.shape[2:]
    state = q.new_zeros(dim, dim) if state is None else state
    rates = q.new_zeros(q.shape[1], 1, 1) if g is None else g[:, None, None]
    t = torch.arange(length)[:, None]
    decay = (rates * (t - t.mT).clamp(min=0)).exp().tril()
    o = (q @ k.mT * decay) @ v + (rates * (t + 1)).exp() * (q @ state)
    return scale * o, (rates * length).exp() * state + (k * (rates * (length - 1 - t)).exp()).mT @ v


def roughly(got: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> None:
    """Compare with a float64 result, allowing a few roundings to the dtype in the products."""
    assert got.shape == exact.shape
    size = exact.detach().square().mean().sqrt()
    assert (got.double() - exact).norm() <= 1.2 * torch.finfo(dtype).eps * exact.norm()
    assert (got.double() - exact).abs().max() <= 12 * torch.finfo(dtype).eps * size


def compare_attention(tensors: list[torch.Tensor | None], scale: float | None = None) -> None:
    ours, exact, dtype = trainable(tensors), in_float64(tensors), tensors[0].dtype
    results = tkjit.load("linear_attention")(*ours, scale=scale)
    expected = whole_attention(*exact, tensors[0].shape[3] ** -0.5 if scale is None else scale)
    grads = [torch.randn_like(one) for one in results]
    torch.autograd.backward(tuple(results), grads)
    torch.autograd.backward(expected, [one.double() for one in grads])
    for got, wanted in zip(results, expected, strict=True):
        roughly(got, wanted, dtype)
    for got, wanted in zip(ours, exact, strict=True):
        if got is not None:
            assert got.grad.dtype == got.dtype
            roughly(got.grad, wanted.grad, dtype)


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("dtype", sample(("torch.bfloat16", "torch.float16"), "torch.bfloat16"))
@pytest.mark.parametrize("length", sample([1, 63, 64, 65, 200], "65"))
def test_linear_attention_of_any_length(length, dtype, dim):
    compare_attention(attention_inputs(2, 3, length, dim, getattr(torch, dtype.split(".")[1])), scale=0.2)


@pytest.mark.parametrize("omitted", [(), (3,), (4,), (3, 4)], ids=str)
def test_linear_attention_without_optional_tensors(omitted):
    compare_attention([None if i in omitted else one for i, one in enumerate(attention_inputs(1, 2, 130, 64))])


@pytest.mark.slow
def test_linear_attention_of_a_long_sequence():
    tensors = attention_inputs(1, 2, 2500, 64)
    tensors[3] = torch.tensor([0.0, -1e-3])
    compare_attention(tensors)


def test_heads_that_forget_at_once():
    tensors = attention_inputs(1, 1, 100, 64)
    tensors[3] = torch.tensor([-1000.0])
    q, k, v, _, _ = (one.double() for one in tensors)
    o, state = tkjit.load("linear_attention")(*tensors, scale=1.0)
    roughly(o, (q * k).sum(-1, keepdim=True) * v, torch.bfloat16)
    roughly(state, k[:, :, -1, :, None] * v[:, :, -1, None], torch.bfloat16)


@pytest.mark.parametrize("dim", sample([64, 128], "64"))
@pytest.mark.parametrize("decay", [1.0, 0.999, 0.9, 0.3, 0.01])
def test_gradient_of_the_decay(decay, dim):
    q, k, v, grad_o = torch.randn(4, 2, 1, 450, dim).bfloat16()
    g, state, grad_state = torch.tensor([decay]).log(), *torch.randn(2, 2, 1, dim, dim)
    exact = g.double().requires_grad_()
    results = whole_attention(q.double(), k.double(), v.double(), exact, state.double(), 0.1)
    torch.autograd.backward(results, (grad_o.double(), grad_state.double()))
    parts = tkjit.load("linear_attention_decay_gradient")(grad_o, grad_state, q, k, v, g, state, 0.1)
    assert parts.shape == (2, 1, (dim // 64) ** 2)
    # the terms are of either sign, so the error of a sum is relative to the root of the sum of their squares
    assert (parts.double().sum() - exact.grad).abs() <= 0.01 * parts.double().norm() + 0.005 * exact.grad.abs()


def test_linear_attention_goes_on_from_a_state():
    attention = tkjit.load("linear_attention")
    q, k, v, g, state = attention_inputs(1, 2, 150, 64)
    whole = attention(q, k, v, g, state)
    for part in (slice(0, 70), slice(70, 150)):
        o, state = attention(*(one[:, :, part].contiguous() for one in (q, k, v)), g, state)
        torch.testing.assert_close(o, whole.o[:, :, part], rtol=0.02, atol=0.1)
    torch.testing.assert_close(state, whole.final_state, rtol=0.01, atol=0.1)


def test_linear_attention_does_not_see_the_future():
    attention = tkjit.load("linear_attention")
    q, k, v, g, _ = attention_inputs(1, 1, 150, 64)
    changed = [one.clone() for one in (q, k, v)]
    for one in changed:
        one[:, :, 100:] = 7.0
    assert torch.equal(attention(q, k, v, g).o[:, :, :100], attention(*changed, g).o[:, :, :100])


@pytest.mark.parametrize("value", [NAN, INFINITY])
def test_nan_and_infinity_reach_only_their_head_from_their_chunk_on(value):
    q, k, v, g, _ = attention_inputs(1, 2, 200, 64)
    v[0, 1, 130] = value
    o, state = tkjit.load("linear_attention")(q, k, v, g)
    reference = tkjit.find("linear_attention").specs[0].reference
    exact, exact_state = reference(q, k, v, g, None, None, o=None, final_state=None)
    assert torch.equal(o.isfinite(), exact.isfinite()) and torch.equal(state.isfinite(), exact_state.isfinite())
    assert o[0, 0].isfinite().all() and o[0, 1, :128].isfinite().all() and not o[0, 1, 130:].isfinite().any()


@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 0, 5), (1, 2, 0)], ids=str)
def test_empty_linear_attention(shape):
    ours = trainable(attention_inputs(*shape, 64))
    o, state = tkjit.load("linear_attention")(*ours)
    assert o.shape == (*shape, 64) and torch.equal(state, ours[4])
    (o.sum() + (2 * state).sum()).backward()
    assert torch.equal(ours[4].grad, torch.full_like(state, 2))
    assert not any(one.grad.any() for one in ours[:4])


def test_linear_attention_rejects_tensors_that_do_not_fit():
    attention = tkjit.load("linear_attention")
    q, k, v, g, state = attention_inputs(1, 2, 10, 64)
    with pytest.raises(tkjit.ShapeError, match="linear_attention: v"):
        attention(q, k, v[:, :, :9].contiguous())
    with pytest.raises(tkjit.ShapeError, match="D"):
        attention(*torch.randn(3, 1, 2, 10, 32).bfloat16())
    with pytest.raises(tkjit.ShapeError, match="linear_attention: g"):
        attention(q, k, v, g[:1])
    with pytest.raises(tkjit.ArgumentError, match="linear_attention: initial_state"):
        attention(q, k, v, g, state.bfloat16())
    with pytest.raises(tkjit.ArgumentError, match="linear_attention: q"):
        attention(*torch.randn(3, 1, 2, 10, 64))
