"""Sums a tensor over devices in one shot, for small tensors."""

import tkjit
from tkjit import Align, In, InOut, Out, ParallelTensor, Tensor


@tkjit.kernel(
    "all_reduce_one_shot.cu",
    entry="all_reduce_one_shot<T>",
    grid="min(32, max(1, cdiv(N, 256 * 8)))",  # all blocks must be resident, because they wait for other devices
    block=256,
    variants={"T": ("float32", "bfloat16", "float16")},
    constraints="S >= 32 * num_devices",
    zeroed="signals",
)
def all_reduce_one_shot(
    x: In[ParallelTensor, "T", "N", Align(16)],
    signals: InOut[ParallelTensor, "int32", "S"],
    y: Out[Tensor, "T", "N", Align(16)],
) -> Tensor:
    """Sums x over all devices, in float32. All devices get the same bits.

    Parameters
    ----------
    x : (N,) float32, bfloat16 or float16 on each device
        A list with a tensor for each device, or a ``tkjit.ParallelTensor``.
    signals : (S,) int32 on each device
        At least 32 for each device. Zero before the call, and zero again afterwards.

    Returns
    -------
    y : (N,) of x's dtype on each device
    """
    return [sum(part.float() for part in x).to(x[0].dtype) for _ in x]
