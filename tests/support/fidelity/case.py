"""A kernel for comparing a GPU with the simulator, with its tolerance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

import tkjit

Bound = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A kernel and its inputs.

    ``results(*outputs)`` names the parts of the kernel's results. ``expected(*inputs)`` computes some of them without
    the simulator, and ``expected_bounds`` has their allowed errors. ``device_bounds`` has the allowed differences
    between a device and the simulator; parts that it does not name must be equal bit for bit.
    """

    name: str
    kernel: tkjit.Kernel
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    results: Callable[..., Mapping[str, np.ndarray]]
    expected: Callable[..., Mapping[str, np.ndarray]]
    expected_bounds: Mapping[str, Bound] = field(default_factory=dict)
    device_bounds: Mapping[str, Bound] = field(default_factory=dict)

    def run(self, device: str) -> Mapping[str, np.ndarray]:
        """Run the kernel on a device, and return its results by name."""
        returned = self.kernel(*(tensor.to(device) for tensor in self.inputs()))
        outputs = returned if isinstance(returned, tuple) else (returned,)
        return self.results(*(output.cpu() for output in outputs))


def differences(got: np.ndarray, wanted: np.ndarray, bound: Bound | None) -> str:
    """Describe where two results differ by more than the bound, or in any bit if there is none. NaNs are equal.

    The description is empty if they do not differ.
    """
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, (got.shape, wanted.shape, got.dtype, wanted.dtype)
    if got.dtype.kind == "f":
        wrong = ~(np.isnan(got) & np.isnan(wanted)) & ((got != wanted) | (np.signbit(got) != np.signbit(wanted)))
        if bound is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                distance = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
            wrong &= ~(distance <= bound(wanted.astype(np.float64)))
    else:
        wrong = got != wanted
    if not wrong.any():
        return ""
    first = tuple(int(i[0]) for i in np.nonzero(wrong))
    return f"{int(wrong.sum())} of {wrong.size} differ, the first at {first}: {got[first]!r}, not {wanted[first]!r}"


def ulps(count: float, *, bits: int = 24, smallest: float = 2.0**-149, absolute: float = 0.0) -> Bound:
    """Return a bound of ``count`` units in the last of ``bits`` bits of the wanted value, plus ``absolute``."""

    def bound(wanted: np.ndarray) -> np.ndarray:
        magnitude = np.where(np.isfinite(wanted) & (wanted != 0), np.abs(wanted), 1e-300)
        return count * np.maximum(2.0 ** (np.floor(np.log2(magnitude)) - (bits - 1)), smallest) + absolute

    return bound
