"""Puts tensors between guard bytes. An out-of-bounds write changes a guard, and an out-of-bounds read gives NaN."""

from __future__ import annotations

from dataclasses import dataclass

import torch

GUARD_BYTES = 4096  # on either side; a multiple of the alignment that TMA needs
_FILL = 0xFF  # NaN in all floating-point types


@dataclass(frozen=True)
class Guarded:
    """A tensor in the middle of a larger allocation.

    Parameters
    ----------
    tensor : torch.Tensor
        A copy with the strides of the original.
    allocation : torch.Tensor
        The bytes: a guard, the tensor, a guard.
    """

    tensor: torch.Tensor
    allocation: torch.Tensor

    @property
    def first_written(self) -> int | None:
        """The offset of the first changed guard byte from the tensor's first byte, or None if none has changed."""
        size = self.allocation.numel() - 2 * GUARD_BYTES
        for start, stop in ((0, GUARD_BYTES), (GUARD_BYTES + size, None)):
            changed = (self.allocation[start:stop] != _FILL).nonzero()
            if len(changed):
                return start + int(changed[0]) - GUARD_BYTES
        return None


def guarded(tensor: torch.Tensor, device: torch.device | str) -> Guarded:
    """Copy a CPU tensor, including the gaps between its rows, to a device, with guards on both sides."""
    span = tensor.numel() and 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    flat = tensor.detach().as_strided((span,), (1,))
    size = span * tensor.element_size()
    allocation = torch.full((size + 2 * GUARD_BYTES,), _FILL, dtype=torch.uint8, device=device)
    inside = allocation[GUARD_BYTES : GUARD_BYTES + size]
    if span:
        inside.copy_(flat.view(torch.uint8))
    return Guarded(inside.view(tensor.dtype).as_strided(tensor.shape, tensor.stride()), allocation)
