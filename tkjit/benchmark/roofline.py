"""Measures the limits of a device: the bandwidth of a copy, and the rate of the vendor's matrix product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from statistics import median

import torch

from tkjit.benchmark.timing import interleaved

_COPIED_BYTES = 1 << 30
_MATRIX_SIDES = (4096, 8192)
_ROUNDS = 7


@dataclass(frozen=True)
class Roofline:
    """The limits of a device.

    Parameters
    ----------
    bytes_per_s : float
        Bytes that a large copy reads and writes in a second.
    flops_per_s : float
        Floating-point operations that the best of some large matrix products does in a second; 0 if torch has no
        matrix product of the dtype.

    Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
    architectures", Communications of the ACM 52 (4), 2009.
    """

    bytes_per_s: float
    flops_per_s: float

    def seconds(self, moved_bytes: int, flops: int) -> float:
        """Return the shortest time in which the device can move these bytes and do these operations."""
        return max(moved_bytes / self.bytes_per_s, flops / self.flops_per_s if self.flops_per_s else 0.0)


def measured(device: torch.device, dtype: torch.dtype | None) -> Roofline:
    """Measure the limits of the current GPU with random data: of copies, and of products of a dtype if one is given."""
    return Roofline(_copy_rate(device), 0.0 if dtype is None else _product_rate(device, dtype))


@cache
def _copy_rate(device: torch.device) -> float:
    size = min(_COPIED_BYTES, torch.cuda.mem_get_info(device)[0] // 4)
    source = torch.randint(0, 256, (size,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / _seconds(lambda: target.copy_(source), device)


@cache
def _product_rate(device: torch.device, dtype: torch.dtype) -> float:
    rates = [0.0]
    for side in _MATRIX_SIDES:
        try:
            a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
            product = partial(torch.mm, a, b)
            if dtype.itemsize == 1:
                one = torch.ones((), device=device)
                product = partial(torch._scaled_mm, a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
            rates.append(2 * side**3 / _seconds(product, device))
        except (RuntimeError, ValueError):  # torch has no product of this dtype here, or there is too little memory
            break
    return max(rates)


def _seconds(function: Callable[[], object], device: torch.device) -> float:
    return median(interleaved({"": lambda _: function()}, device, _ROUNDS)[""])
