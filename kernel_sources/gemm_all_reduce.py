"""Matrix product with its inner dimension distributed over devices: each multiplies its part, and all get the sum."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor


@tkjit.kernel(
    "gemm_all_reduce.cu",
    entry="gemm_all_reduce<T>",
    grid="min(64, cdiv(M, 128) * cdiv(N, 128))",  # all blocks must be resident, because they wait for other devices
    block=256,
    shared_memory=37888,  # two stages of both tiles: 2 * (128 * 40 + 32 * 136) 16-bit elements; float32 needs less
    variants={"T": ("float32", "bfloat16", "float16")},
    constraints="S >= 64 * num_devices",
    zeroed="signals",
    unchecked="partial",
)
def gemm_all_reduce(
    a: In[Tensor, "T", "M", "K"],
    b: In[Tensor, "T", "K", "N"],
    c: InOut[ParallelTensor, "T", "M", "N"],
    partial: InOut[ParallelTensor, "float32", "M", "N"],
    signals: InOut[ParallelTensor, "int32", "S"],
) -> None:
    """Sums a @ b over all devices, in float32. All devices get the same bits.

    Parameters
    ----------
    a : (M, K) float32, bfloat16 or float16 on each device
    b : (K, N) of a's dtype on each device
    c : (M, N) of a's dtype on each device
        The result: a list with a tensor for each device, or a ``tkjit.ParallelTensor``, like the next two parameters.
    partial : (M, N) float32 on each device
        Temporary memory for each device's own product.
    signals : (S,) int32 on each device
        S is at least 64 times the number of devices. Zero before the call, and zero again afterwards.
    """
    total = sum(left.float() @ right.float() for left, right in zip(a, b, strict=True))
    for part in c:
        part.copy_(total)
