"""softmax, cross_entropy, silu_mul, rotary and causal_conv1d on the CPU: values, gradients and bad input."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles
F = torch.nn.functional
INFINITY, NAN = float("inf"), float("nan")
LENGTHS = (1, 7, 512, 1031, 20001)


@pytest.fixture(params=sample(("float32", "bfloat16", "float16"), "bfloat16"))
def dtype(request) -> torch.dtype:
    return getattr(torch, request.param)


def near(got: torch.Tensor, exact: torch.Tensor) -> None:
    """Compare with a float64 result, allowing one rounding to the dtype."""
    assert got.shape == exact.shape
    bound = torch.finfo(got.dtype).eps * exact.abs() + 2e-6
    assert bool(((got.double() - exact).abs() <= bound).all())


# ---- softmax


@pytest.mark.parametrize("n", LENGTHS)
def test_softmax(dtype, n):
    x = (3 * torch.randn(2, 3, n)).to(dtype)
    near(tkjit.load("softmax")(x), x.double().softmax(-1))


def test_softmax_of_rows_at_any_address():
    x = torch.randn(4 * 200 + 1)[1:].view(4, 200)
    near(tkjit.load("softmax")(x), x.double().softmax(-1))


def test_softmax_of_unusual_rows():
    rows = [
        [1, -INFINITY, 2],
        [-INFINITY, -INFINITY, -INFINITY],
        [INFINITY, 1, 2],
        [NAN, -INFINITY, -INFINITY],
        [-3e38, -INFINITY, -3e38],
        [3e38, -3e38, 3e38],
    ]
    x = torch.tensor(rows)
    assert torch.equal(tkjit.load("softmax")(x).nan_to_num(9), x.softmax(-1).nan_to_num(9))


# ---- cross_entropy


@pytest.mark.parametrize("n", LENGTHS)
def test_cross_entropy_and_its_gradient(dtype, n):
    logits = (3 * torch.randn(2, 3, n)).to(dtype)
    target = torch.randint(n, (2, 3))
    target[0, 1] = -100
    ours, exact = logits.clone().requires_grad_(), logits.double().requires_grad_()
    result = tkjit.load("cross_entropy")(ours, target)
    loss = F.cross_entropy(exact.view(-1, n), target.view(-1), reduction="none").view(2, 3)
    near(result.loss, loss)
    near(result.lse, exact.logsumexp(-1))
    weights = torch.rand(2, 3)
    torch.autograd.backward(((result.loss * weights).sum(), 0.01 * result.lse.square().sum()))
    torch.autograd.backward(((loss * weights).sum(), 0.01 * exact.logsumexp(-1).square().sum()))
    near(ours.grad, exact.grad)


def test_the_loss_of_one_row_and_of_all_ignored_rows():
    logits = torch.randn(5)
    loss = tkjit.load("cross_entropy")(logits, torch.tensor(3)).loss
    torch.testing.assert_close(loss, F.cross_entropy(logits, torch.tensor(3)))
    ignored = torch.randn(2, 5).requires_grad_()
    loss = tkjit.load("cross_entropy")(ignored, torch.tensor([7, 7]), ignore_index=7).loss
    loss.sum().backward()
    assert not loss.any() and not ignored.grad.any()


def test_a_target_that_is_no_class_has_the_loss_nan():
    loss = tkjit.load("cross_entropy")(torch.randn(3, 4), torch.tensor([1, 4, -1])).loss
    assert loss.isnan().tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", sample([torch.float32, torch.bfloat16], "torch.bfloat16"))
@pytest.mark.parametrize("n", [5, 1000, 20001])
def test_fused_cross_entropy_replaces_logits_by_their_gradient(dtype, n):
    logits = (3 * torch.randn(2, 3, n)).to(dtype)
    target = torch.randint(n, (2, 3))
    target[0, 1] = -100
    exact = logits.double().view(-1, n).requires_grad_()
    loss = F.cross_entropy(exact, target.view(-1), reduction="none")
    loss.backward(torch.full((6,), 0.25))
    lse = exact.detach().logsumexp(-1)
    result = tkjit.load("fused_cross_entropy")(logits, target, 0.25)
    torch.testing.assert_close(result.loss.view(-1).double(), loss.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(result.lse.view(-1).double(), lse, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits.view(-1, n).double(), exact.grad, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


def test_fused_cross_entropy_of_a_class_that_does_not_exist_is_nan():
    logits = torch.randn(3, 4)
    loss = tkjit.load("fused_cross_entropy")(logits, torch.tensor([4, 1, -1])).loss
    assert loss.isnan().tolist() == [True, False, True]
    assert logits.isnan().all(-1).tolist() == [True, False, True]


def test_cross_entropy_rejects_targets_of_another_shape_or_dtype():
    cross_entropy = tkjit.load("cross_entropy")
    with pytest.raises(tkjit.ShapeError, match="cross_entropy: target"):
        cross_entropy(torch.randn(3, 4), torch.tensor([1, 2]))
    with pytest.raises(tkjit.ArgumentError, match="cross_entropy: target"):
        cross_entropy(torch.randn(3, 4), torch.tensor([1, 2, 3], dtype=torch.int32))


# ---- silu_mul


@pytest.mark.parametrize("n", [1, 53, 2048, 5000])
def test_silu_mul_of_two_tensors_and_of_halves(dtype, n):
    gate, up = torch.randn(2, 3, n).to(dtype), torch.randn(2, 3, n).to(dtype)
    silu_mul = tkjit.load("silu_mul")
    y = silu_mul(gate, up)
    near(y, F.silu(gate.double()) * up.double())
    assert torch.equal(silu_mul(torch.cat((gate, up), -1)), y)


def test_gradients_of_silu_mul():
    x = torch.randn(4, 20)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    grad = torch.randn(4, 10)
    tkjit.load("silu_mul")(ours).backward(grad)
    gate, up = theirs.chunk(2, -1)
    (F.silu(gate) * up).backward(grad)
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_silu_mul_rejects_rows_without_halves():
    with pytest.raises(tkjit.TkjitError, match="silu_mul"):
        tkjit.load("silu_mul")(torch.randn(2, 5))


# ---- rotary


def tables(positions: int, pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.arange(positions)[:, None] / 10000 ** (torch.arange(pairs) / pairs)
    return angles.cos(), angles.sin()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "pairs"), [(64, 32), (21, 9), (2, 1)])
def test_rotary(dtype, dim, pairs, interleaved):
    x = torch.randn(2, 5, 3, dim).to(dtype)
    cos, sin = tables(9, pairs)
    rotary = tkjit.load("rotary")
    places = torch.randint(9, (2, 5))
    for positions in (None, places):
        y = rotary(x, cos, sin, positions, interleaved=interleaved)
        at = torch.arange(5).expand(2, 5) if positions is None else positions
        pairs_of = (
            (lambda t: t.unflatten(-1, (pairs, 2))) if interleaved else (lambda t: t.unflatten(-1, (2, pairs)).mT)
        )
        turn = torch.view_as_complex(pairs_of(x[..., : 2 * pairs].double()).contiguous())
        turned = torch.view_as_real(turn * torch.complex(cos.double(), sin.double())[at][:, :, None])
        exact = (turned if interleaved else turned.mT).flatten(-2)
        near(y, torch.cat((exact, x[..., 2 * pairs :].double()), -1))


def test_rotation_keeps_lengths_and_its_gradient_turns_back():
    x = torch.randn(1, 4, 2, 8).requires_grad_()
    cos, sin = tables(4, 4)
    y = tkjit.load("rotary")(x, cos, sin)
    torch.testing.assert_close(y.norm(dim=-1), x.norm(dim=-1))
    y.backward(y.detach())
    torch.testing.assert_close(x.grad, x.detach())


def test_a_position_without_a_row_gives_nan():
    x = torch.randn(1, 2, 1, 4)
    y = tkjit.load("rotary")(x, *tables(3, 1), torch.tensor([[2, 3]]))
    assert y[0, 0].isfinite().all() and y[0, 1, 0].isnan().tolist() == [True, True, False, False]


def test_rotary_rejects_tables_that_do_not_fit():
    rotary = tkjit.load("rotary")
    with pytest.raises(tkjit.ShapeError, match="2 \\* R <= D"):
        rotary(torch.randn(1, 2, 1, 4), *tables(3, 3))
    with pytest.raises(tkjit.ShapeError, match="S <= P"):
        rotary(torch.randn(1, 5, 1, 4), *tables(3, 2))


# ---- causal_conv1d


@pytest.mark.parametrize("activation", sample(["identity", "silu"], "silu"))
@pytest.mark.parametrize(("width", "length"), [(2, 1), (3, 37), (4, 2100)])
@pytest.mark.parametrize("has_bias", sample([False, True], "True"))
def test_causal_conv1d_and_its_gradients(dtype, width, length, activation, has_bias):
    shapes = ((2, 3, length), (3, width), *[(3,)] * has_bias)
    tensors = [torch.randn(shape).to(dtype) for shape in shapes]
    grad = torch.randn(2, 3, length).to(dtype)
    ours, exact = (
        [one.detach().to(kind, copy=True).requires_grad_() for one in tensors] for kind in (dtype, torch.float64)
    )
    y = tkjit.load("causal_conv1d")(*ours, activation=activation)
    x, weight, *bias = exact
    expected = F.conv1d(F.pad(x, (width - 1, 0)), weight[:, None], *bias, groups=3)
    expected = F.silu(expected) if activation == "silu" else expected
    y.backward(grad)
    expected.backward(grad.double())
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(y.double(), expected, rtol=rounding, atol=1e-5)
    for got, wanted in zip(ours, exact, strict=True):
        torch.testing.assert_close(got.grad.double(), wanted.grad, rtol=rounding, atol=1e-6 * length + 1e-5)


def test_causal_conv1d_does_not_see_the_future():
    x = torch.randn(1, 2, 30)
    weight = torch.randn(2, 4)
    changed = x.clone()
    changed[:, :, 17:] = 100.0
    conv = tkjit.load("causal_conv1d")
    assert torch.equal(conv(x, weight)[:, :, :17], conv(changed, weight)[:, :, :17])


def test_causal_conv1d_rejects_wide_filters():
    with pytest.raises(tkjit.ShapeError, match="W"):
        tkjit.load("causal_conv1d")(torch.randn(1, 2, 30), torch.randn(2, 5))
