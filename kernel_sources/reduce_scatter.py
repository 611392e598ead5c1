"""Sums a tensor over devices, and gives each device its share of the rows."""

import tkjit
from tkjit import Align, In, InOut, Out, ParallelTensor, Tensor


@tkjit.kernel(
    "reduce_scatter.cu",
    entry="reduce_scatter<T>",
    grid="min(32, max(1, cdiv(M * N, 256 * 8)))",  # all blocks must be resident, because they wait for other devices
    block=256,
    variants={"T": ("float32", "bfloat16", "float16")},
    constraints=["M % num_devices == 0", "S >= 32 * num_devices"],
    zeroed="signals",
)
def reduce_scatter(
    x: In[ParallelTensor, "T", "M", "N", Align(16)],
    signals: InOut[ParallelTensor, "int32", "S"],
    y: Out[Tensor, "T", "M // num_devices", "N", Align(16)],
) -> Tensor:
    """Sums x over all devices, in float32, and gives each device its share of the rows.

    Parameters
    ----------
    x : (M, N) float32, bfloat16 or float16 on each device
        A list with a tensor for each device, or a ``tkjit.ParallelTensor``.
    signals : (S,) int32 on each device
        At least 32 for each device. Zero before the call, and zero again afterwards.

    Returns
    -------
    y : (M // num_devices, N) of x's dtype on each device
    """
    total = sum(part.float() for part in x)
    return [share.to(x[0].dtype).contiguous() for share in total.chunk(len(x))]
