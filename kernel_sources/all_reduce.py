"""Sums a tensor over devices in place, in two shots, or by multicast if the hardware supports it."""

import tkjit
from tkjit import Align, InOut, ParallelTensor


@tkjit.kernel(
    "all_reduce.cu",
    entry="all_reduce<T>",
    grid="min(32, max(1, cdiv(N, 256 * 8)))",  # all blocks must be resident, because they wait for other devices
    block=256,
    variants={"T": ("float32", "bfloat16", "float16")},
    constraints="S >= 32 * num_devices",
    zeroed="signals",
)
def all_reduce(x: InOut[ParallelTensor, "T", "N", Align(16)], signals: InOut[ParallelTensor, "int32", "S"]) -> None:
    """Sums x over all devices in place, in float32. All devices get the same bits.

    Parameters
    ----------
    x : (N,) float32, bfloat16 or float16 on each device
        A list with a tensor for each device, or a ``tkjit.ParallelTensor``.
    signals : (S,) int32 on each device
        At least 32 for each device. Zero before the call, and zero again afterwards.

    Notes
    -----
    Source: the two-shot algorithm, a reduce-scatter followed by an all-gather: R. Thakur, R. Rabenseifner, W. Gropp,
    "Optimization of Collective Communication Operations in MPICH", 2005.
    """
    total = sum(part.float() for part in x)
    for part in x:
        part.copy_(total)
