"""Images, flow and radiance fields: filters, activations, correlation, windows, sampling, and encodings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.extension_references.cases import Case, gradients, of

ACTIVATIONS: dict[int, Callable[[Tensor], Tensor]] = {
    1: lambda x: x,
    2: torch.relu,
    3: partial(F.leaky_relu, negative_slope=0.2),
    4: torch.tanh,
    5: torch.sigmoid,
    6: F.elu,
    7: F.selu,
    8: F.softplus,
    9: F.silu,
}


@of("cuda_mode_rgb_to_grayscale")
def _grey() -> Iterator[Case]:
    image = torch.randint(0, 256, (23, 37, 3), dtype=torch.uint8)
    expected = (image.double() @ torch.tensor([0.21, 0.71, 0.07]).double()).floor()
    yield Case("rgb_to_grayscale", (image,), expected, tolerance=1 / 200)  # rounding may differ by 1 of 200


@of("cuda_mode_mean_filter")
def _mean_filter() -> Iterator[Case]:
    image = torch.randint(0, 256, (3, 23, 37), dtype=torch.uint8)
    expected = F.avg_pool2d(image.double(), 5, 1, 2, count_include_pad=False)
    yield Case("mean_filter", (image, 2), (expected + 1e-9).floor().byte())


@of("cuda_mode_square_matrix")
def _square() -> Iterator[Case]:
    x = torch.randn(23, 37)
    yield Case("square_matrix", (x,), x * x)


@of("extension_cpp")
def _muladd() -> Iterator[Case]:
    a, b, out = *torch.randn(2, 23, 37), torch.zeros(23, 37)
    yield Case("extension_cpp::mymuladd", (a, b, 2.5), a * b + 2.5)
    yield Case("extension_cpp::mymul", (a, b), a * b)
    yield Case("extension_cpp::myadd_out", (a, b, out), a + b, (out,))


@of("stylegan2_fused", "edvr_fused_act_ext")
def _fused_activation() -> Iterator[Case]:
    x, bias, out, up, none = torch.randn(2, 5, 9, 7), torch.randn(5), *torch.randn(2, 2, 5, 9, 7), torch.empty(0)
    expected = 1.4 * F.leaky_relu(x + bias[:, None, None], 0.2)
    yield Case("fused_bias_act", (x, bias, none, 3, 0, 0.2, 1.4), expected)
    yield Case("fused_bias_act", (up, none, out, 3, 1, 0.2, 1.4), 1.4 * torch.where(out > 0, up, 0.2 * up))


@of("stylegan3_bias_act")
def _biased_activation() -> Iterator[Case]:
    x, bias, none = torch.randn(2, 5, 9, 7), torch.randn(5), torch.empty(0)
    for number, activation in ACTIVATIONS.items():
        for clamp in (-1.0, 0.8):
            expected = 1.4 * activation(x + bias[:, None, None])
            expected = expected if clamp < 0 else expected.clamp(-clamp, clamp)
            arguments = x, bias, none, none, none, 0, 1, number, 0.2, 1.4, clamp
            yield Case("bias_act", arguments, expected, tolerance=1e-4)


def resampled(x: Tensor, taps: Tensor, up: tuple[int, int], down: tuple[int, int], pad: tuple[int, ...]) -> Tensor:
    """(B, 1, H, W) upsampled with zeros, padded, convolved with taps and downsampled by ``down``."""
    wide = x.new_zeros(*x.shape[:2], x.shape[2] * up[1], x.shape[3] * up[0])
    wide[..., :: up[1], :: up[0]] = x
    return F.conv2d(F.pad(wide, pad), taps.flip(0, 1)[None, None], stride=(down[1], down[0]))


RESAMPLINGS = [((2, 1), (1, 1), (2, 1, 1, 2)), ((1, 1), (2, 2), (1, 1, 1, 0)), ((3, 2), (2, 3), (3, 2, -1, 4))]


@of("stylegan2_upfirdn2d")
def _resampling() -> Iterator[Case]:
    x, taps = torch.randn(3, 13, 17), torch.randn(3, 4)
    for up, down, pad in RESAMPLINGS:
        expected = resampled(x[:, None], taps, up, down, pad)
        yield Case("upfirdn2d", (x[..., None], taps, *up, *down, *pad), expected)


@of("stylegan3_upfirdn2d")
def _resampling_of_channels() -> Iterator[Case]:
    x, taps = torch.randn(2, 3, 13, 17), torch.randn(3, 4)
    for (up, down, pad), flip in product(RESAMPLINGS, (False, True)):
        expected = 1.5 * resampled(x.flatten(0, 1)[:, None], taps.flip(0, 1) if flip else taps, up, down, pad)
        yield Case("upfirdn2d", (x, taps, *up, *down, *pad, flip, 1.5), expected)


@of("flownet2_channelnorm")
def _channel_norm() -> Iterator[Case]:
    x, up = torch.randn(2, 5, 9, 13), torch.randn(2, 1, 9, 13)
    norm, out, down = x.norm(dim=1, keepdim=True), torch.zeros_like(up), torch.zeros_like(x)
    yield Case("forward", (x, out, 2), norm, (out,))
    expected = gradients(lambda x: x.norm(dim=1, keepdim=True), [x], up)
    yield Case("backward", (x, norm, up, down, 2), expected, (down,))


@of("spatial_correlation_sampler")
def _correlation() -> Iterator[Case]:
    """Multiplies 3x3 patches of two images. The second is shifted by -2 to 2 steps of 2 pixels in each direction."""

    def correlated(a: Tensor, b: Tensor) -> Tensor:
        first = F.unfold(a, 3, padding=1)
        wide = F.pad(b, (5,) * 4)
        shifted = [wide[..., y : y + 11, x : x + 15] for y in range(0, 9, 2) for x in range(0, 9, 2)]
        found = torch.stack([(first * F.unfold(each, 3)).sum(1) for each in shifted], 1)
        return found.view(2, 5, 5, 9, 13)

    a, b, up = torch.randn(2, 4, 9, 13), torch.randn(2, 4, 9, 13), torch.randn(2, 5, 5, 9, 13)
    sizes = 3, 3, 5, 5, 1, 1, 1, 1, 2, 2, 1, 1
    yield Case("forward", (a, b, *sizes), correlated(a, b))
    yield Case("backward", (a, b, up, *sizes), gradients(correlated, (a, b), up))


@of("swin_window_process")
def _windows() -> Iterator[Case]:
    """Swin's shifted windows: 4x4 windows of a rolled image, and the inverse; the kernels expect square images."""
    x = torch.randn(2, 12, 12, 5)

    def windows(x: Tensor, shift: int) -> Tensor:
        return x.roll((shift, shift), (1, 2)).view(2, 3, 4, 3, 4, 5).transpose(2, 3).reshape(-1, 4, 4, 5)

    def merged(x: Tensor, shift: int) -> Tensor:
        return x.view(2, 3, 3, 4, 4, 5).transpose(2, 3).reshape(2, 12, 12, 5).roll((shift, shift), (1, 2))

    sizes, parts = (2, 12, 12, 5), windows(x, -2)
    yield Case("roll_and_window_partition_forward", (x, *sizes, -2, 4), parts, tolerance=0)
    yield Case("roll_and_window_partition_backward", (parts, *sizes, -2, 4), x, tolerance=0)
    yield Case("window_merge_and_roll_forward", (parts, *sizes, 2, 4), merged(parts, 2), tolerance=0)
    yield Case("window_merge_and_roll_backward", (x, *sizes, 2, 4), windows(x, -2), tolerance=0)


@of("deformable_detr")
def _deformable_attention() -> Iterator[Case]:
    """Deformable DETR, equation 3: each head's weighted bilinear samples of feature maps at several scales."""
    shapes, starts = [(7, 5), (4, 3)], [0, 35]

    def attended(value: Tensor, places: Tensor, weights: Tensor) -> Tensor:
        heads, levels = value.permute(0, 2, 3, 1).flatten(0, 1), []
        for level, (start, (h, w)) in enumerate(zip(starts, shapes, strict=True)):
            where = 2 * places[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
            grid = heads[..., start : start + h * w].reshape(6, 6, h, w)
            levels.append(F.grid_sample(grid, where, align_corners=False))
        samples = torch.stack(levels, -2).flatten(-2)  # (B * heads, channels, queries, levels * points)
        weighted = samples * weights.transpose(1, 2).flatten(0, 1).flatten(-2)[:, None]
        return weighted.sum(-1).view(2, 3 * 6, -1).mT

    value, places, weights = torch.randn(2, 47, 3, 6), torch.rand(2, 8, 3, 2, 4, 2), torch.rand(2, 8, 3, 2, 4)
    levels = torch.tensor(shapes), torch.tensor(starts)
    inputs, up = (value, *levels, places, weights), torch.randn(2, 8, 18)
    yield Case("ms_deform_attn_forward", (*inputs, 2), attended(value, places, weights))
    expected = gradients(attended, (value, places, weights), up)
    yield Case("ms_deform_attn_backward", (*inputs, up, 2), expected, tolerance=1e-4)


@of("torch_ngp_freqencoder")
def _frequencies() -> Iterator[Case]:
    """NeRF, equation 4: x, then the sines and cosines of x at 4 octaves."""

    def encoded(x: Tensor) -> Tensor:
        return torch.cat([x, *(wave(2**octave * x) for octave in range(4) for wave in (torch.sin, torch.cos))], 1)

    x, up, down = 2 * torch.rand(37, 3) - 1, torch.randn(37, 27), torch.zeros(37, 3)
    out = torch.zeros(37, 27)
    yield Case("freq_encode_forward", (x, 37, 3, 4, 27, out), encoded(x), (out,), 1e-4)
    expected = gradients(encoded, [x], up)
    yield Case("freq_encode_backward", (up, encoded(x), 37, 3, 4, 27, down), expected, (down,))


@of("torch_ngp_shencoder")
def _spherical_harmonics() -> Iterator[Case]:
    """Real spherical harmonics with the Condon-Shortley phase, by the recursion of the Legendre functions."""
    x, out, slopes = F.normalize(torch.randn(37, 3).double()), torch.zeros(37, 36), torch.zeros(37, 108)
    azimuth, sine, z = torch.atan2(x[:, 1], x[:, 0]), x[:, :2].norm(dim=1), x[:, 2]
    expected = torch.zeros(37, 36).double()
    for m in range(6):
        legendre = {m - 1: torch.zeros_like(z), m: (-sine) ** m * math.prod(range(1, 2 * m, 2))}
        for degree in range(m, 6):
            if degree > m:
                last, before = legendre[degree - 1], legendre[degree - 2]
                legendre[degree] = ((2 * degree - 1) * z * last - (degree + m - 1) * before) / (degree - m)
            ratio = math.factorial(degree - m) / math.factorial(degree + m)
            scaled = legendre[degree] * math.sqrt((2 * degree + 1) / (4 * math.pi) * ratio * (2 if m else 1))
            middle = degree * degree + degree
            expected[:, middle - m] = scaled * (m * azimuth).sin()
            expected[:, middle + m] = scaled * (m * azimuth).cos()
    yield Case("sh_encode_forward", (x.float(), out, 37, 3, 6, slopes), expected, (out,))
    up, slopes, down = torch.randn(37, 36), torch.randn(37, 108), torch.zeros(37, 3)
    sums = torch.einsum("bc,bdc->bd", up, slopes.view(37, 3, 36))
    yield Case("sh_encode_backward", (up, x.float(), 37, 3, 6, slopes, down), sums, (down,))


@of("dvgo_total_variation_cuda")
def _total_variation() -> Iterator[Case]:
    """Adds the gradient of the Huber loss of differences between neighbouring voxels."""

    def variation(x: Tensor) -> Tensor:
        differences = zip((0.5, 0.7, 0.5), (x.diff(dim=dim) for dim in (2, 3, 4)), strict=True)
        losses = [w * F.huber_loss(each, torch.zeros_like(each), reduction="sum") for w, each in differences]
        return torch.stack(losses).sum() / 6

    for dense in (True, False):
        x, grad = 2 * torch.randn(2, 3, 5, 6, 7), torch.randn(2, 3, 5, 6, 7).relu()
        (added,) = gradients(variation, [x], torch.ones(()))
        expected = grad + (added if dense else added * (grad != 0))
        yield Case("total_variation_add_grad", (x, grad, 0.5, 0.7, 0.5, dense), expected, (grad,))
