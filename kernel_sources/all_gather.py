"""Gathers the rows of all devices' tensors on each device."""

import tkjit
from tkjit import Align, In, InOut, Out, ParallelTensor, Tensor


@tkjit.kernel(
    "all_gather.cu",
    entry="all_gather<T>",
    grid="min(32, max(1, cdiv(M * N, 256 * 8)))",  # all blocks must be resident, because they wait for other devices
    block=256,
    variants={"T": ("float32", "bfloat16", "float16", "int32", "uint8")},
    constraints="S >= 32 * num_devices",
    zeroed="signals",
)
def all_gather(
    x: In[ParallelTensor, "T", "M", "N", Align(16)],
    signals: InOut[ParallelTensor, "int32", "S"],
    y: Out[Tensor, "T", "num_devices * M", "N", Align(16)],
) -> Tensor:
    """Stacks the rows of x from all devices, on each device.

    Parameters
    ----------
    x : (M, N) of float32, bfloat16, float16, int32 or uint8 on each device
        A list with a tensor for each device, or a ``tkjit.ParallelTensor``.
    signals : (S,) int32 on each device
        At least 32 for each device. Zero before the call, and zero again afterwards.

    Returns
    -------
    y : (num_devices * M, N) of x's dtype on each device
    """
    import torch

    return [torch.cat(list(x)) for _ in x]
