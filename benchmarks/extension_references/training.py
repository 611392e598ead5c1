"""Training: normalisation, losses and optimizers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.extension_references.cases import Case, gradients, of


@of("apex_fused_layer_norm_cuda")
def _layer_norm() -> Iterator[Case]:
    x, up, weight, bias = torch.randn(13, 37), torch.randn(13, 37), torch.randn(37), torch.randn(37)
    shape, eps = [37], 1e-5
    mean, inverse = x.mean(1), (x.var(1, correction=0) + eps).rsqrt()
    inverse_rms = (x.square().mean(1) + eps).rsqrt()

    def layer(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        return F.layer_norm(x, shape, weight, bias, eps)

    def rms(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return F.rms_norm(x, shape, weight, eps)

    yield Case("forward", (x, shape, eps), [layer(x), mean, inverse])
    yield Case("forward_affine", (x, shape, weight, bias, eps), [layer(x, weight, bias), mean, inverse])
    yield Case("rms_forward", (x, shape, eps), [rms(x), inverse_rms])
    yield Case("rms_forward_affine", (x, shape, weight, eps), [rms(x, weight), inverse_rms])
    yield Case("backward", (up, mean, inverse, x, shape, eps, False), gradients(layer, [x], up))
    expected = gradients(layer, [x, weight, bias], up)
    yield Case("backward_affine", (up, mean, inverse, x, shape, weight, bias, eps, False), expected)
    yield Case("rms_backward", (up, inverse_rms, x, shape, eps, False), gradients(rms, [x], up))
    expected = gradients(rms, [x, weight], up)
    yield Case("rms_backward_affine", (up, inverse_rms, x, shape, weight, eps, False), expected)


def _cross_entropy(*, after_forward: tuple[bool, ...], after_backward: tuple[bool, ...]) -> Iterator[Case]:
    """Cross entropy with label smoothing.

    ``after_forward`` and ``after_backward`` are the flags that an extension takes at the end of its arguments.
    """
    scores, labels, up = torch.randn(13, 77), torch.randint(0, 77, (13,)), torch.randn(13)
    total = scores.logsumexp(1)
    for smoothing in (0.0, 0.1):

        def loss(scores: Tensor, smoothing: float = smoothing) -> Tensor:
            return F.cross_entropy(scores, labels, reduction="none", label_smoothing=smoothing)

        yield Case("forward", (scores, labels, smoothing, *after_forward), [loss(scores), total])
        arguments = up, scores.clone(), total, labels, smoothing, *after_backward
        yield Case("backward", arguments, gradients(loss, [scores], up))


@of("apex_xentropy_cuda")
def _apex_cross_entropy() -> Iterator[Case]:
    yield from _cross_entropy(after_forward=(False,), after_backward=())


@of("flash_attn_xentropy_cuda_lib")
def _flash_cross_entropy() -> Iterator[Case]:
    yield from _cross_entropy(after_forward=(), after_backward=(False,))


@of("apex_focal_loss_cuda")
def _focal_loss() -> Iterator[Case]:
    """Lin et al., "Focal Loss for Dense Object Detection", equation 5; label -1 is background, -2 is ignored."""
    scores, labels = torch.randn(3, 25, 12), torch.randint(-2, 10, (3, 25))
    positive, up = torch.tensor([17.0]), torch.tensor([1.7])

    def loss(scores: Tensor) -> Tensor:
        real = scores[..., :10]
        target = labels[..., None] == torch.arange(10)
        right = torch.where(target, real.sigmoid(), 1 - real.sigmoid())
        weight = torch.where(target, 0.25, 0.75) * (labels != -2)[..., None]
        return -(weight * (1 - right) ** 2 * right.log()).sum()

    (slopes,) = gradients(loss, [scores], torch.ones(()))
    expected = [loss(scores) / 17, slopes]
    yield Case("forward", (scores, labels, positive, 10, 0.25, 2.0, 0.0), expected, tolerance=1e-4)
    yield Case("backward", (up, slopes.float(), positive), slopes * 1.7 / 17)


def adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor, lr: float, step: int, eps: float) -> list[Tensor]:
    """Kingma and Ba, algorithm 1, with betas of 0.9 and 0.99; returns the parameters and moments after a step."""
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return [p - lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.99**step)).sqrt() + eps), m, v]


@of("apex_fused_index_mul_2d")
def _indexed_product() -> Iterator[Case]:
    rows = torch.randint(0, 9, (23,))

    def multiplied(a: Tensor, b: Tensor) -> Tensor:
        return a[rows] * b

    a, b, up = torch.randn(9, 37), torch.randn(23, 37), torch.randn(23, 37)
    out, grads = torch.zeros_like(b), (torch.zeros_like(a), torch.zeros_like(b))
    yield Case("float_forward", (out, a, b, rows), multiplied(a, b), (out,))
    yield Case("float_backward", (*grads, up, a, b, rows), gradients(multiplied, (a, b), up), grads)


@of("apex_amp_C")
def _multi_tensor() -> Iterator[Case]:
    """Operations on lists of tensors, some of which have more elements than a chunk."""
    sizes = [(7,), (33, 41), (2, 3, 5), (4099,)]

    def tensors() -> list[Tensor]:
        return [torch.randn(size) for size in sizes]

    flag, chunk = torch.zeros(1, dtype=torch.int32), 1024
    x, y, out = tensors(), tensors(), tensors()
    yield Case("multi_tensor_scale", (chunk, flag, [x, out], 0.3), [0.3 * each for each in x], (*out,))
    expected = [0.3 * a - 1.7 * b for a, b in zip(x, y, strict=True)]
    yield Case("multi_tensor_axpby", (chunk, flag, [x, y, out], 0.3, -1.7, -1), expected, (*out,))
    norms = torch.stack([each.norm() for each in x])
    yield Case("multi_tensor_l2norm", (chunk, flag, [x], True), [norms.norm(), norms])
    for decoupled in (False, True):
        g, p, m, v = tensors(), tensors(), tensors(), [each.abs() for each in tensors()]
        groups = zip(p, g, m, v, strict=True)
        decay = 1 - 0.01 * 0.1 if decoupled else 1.0
        new = [adam(decay * p, g if decoupled else g + 0.1 * p, m, v, 0.01, 3, 1e-6) for p, g, m, v in groups]
        expected = [state[kind] for kind in range(3) for state in new]
        arguments = chunk, flag, [g, p, m, v], 0.01, 0.9, 0.99, 1e-6, 3, int(decoupled), 1, 0.1
        yield Case("multi_tensor_adam", arguments, expected, (*p, *m, *v))
    g, p, m = tensors(), tensors(), tensors()
    moments = [0.9 * m + 0.5 * g + 0.1 * p for g, p, m in zip(g, p, m, strict=True)]
    expected = [*(p - 0.01 * moment for p, moment in zip(p, moments, strict=True)), *moments]
    arguments = chunk, flag, [g, p, m], 0.1, 0.9, 0.0, 0.01, False, False, False, 0.5
    yield Case("multi_tensor_sgd", arguments, expected, (*p, *m))


@of("dvgo_adam_upd_cuda")
def _voxel_adam() -> Iterator[Case]:
    for name in ("adam_upd", "masked_adam_upd", "adam_upd_with_perlr"):
        p, g, m, v, rates = torch.randn(23, 37), torch.randn(23, 37).relu(), *torch.rand(3, 23, 37)
        # the extension adds epsilon before it corrects the bias, and adam() afterwards
        scale = (1 - 0.99**3) ** 0.5
        new = adam(p, g, m, v, 0.01, 3, 1e-6 / scale)
        if name == "masked_adam_upd":
            new = [torch.where(g != 0, after, before) for after, before in zip(new, (p, m, v), strict=True)]
        if name == "adam_upd_with_perlr":
            new[0] = p + rates * (new[0] - p)
        extra = (rates,) if name == "adam_upd_with_perlr" else ()
        yield Case(name, (p, g, m, v, *extra, 3, 0.9, 0.99, 0.01, 1e-6), new, (p, m, v))
