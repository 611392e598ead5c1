"""Sum over devices, in place: two shots, or multicast where the hardware has it."""

import tkjit
from tkjit import Align, InOut, ParallelTensor


@tkjit.kernel(
    "all_reduce.cu",
    entry="all_reduce<T>",
    grid="min(32, max(1, cdiv(N, 256 * 8)))",  # all blocks have to be resident, since they wait for other devices
    block=256,
    variants={"T": ("float32", "bfloat16", "float16")},
    constraints="S >= 32 * num_devices",
    zeroed="signals",
)
def all_reduce(x: InOut[ParallelTensor, "T", "N", Align(16)], signals: InOut[ParallelTensor, "int32", "S"]) -> None:
    """x <- the sum of all devices' x, summed in float32; the same bits on each.

    Parameters
    ----------
    x : (N,) float32, bfloat16 or float16 on each device
        A list with a tensor for each device, or a ``tkjit.ParallelTensor``.
    signals : (S,) int32 on each device
        At least 32 for each device, zero; they are zero again afterwards.

    Notes
    -----
    Source: the two-shot algorithm, a reduce-scatter and an all-gather: R. Thakur, R. Rabenseifner, W. Gropp,
    "Optimization of Collective Communication Operations in MPICH", 2005.
    """
    total = sum(part.float() for part in x)
    for part in x:
        part.copy_(total)
