"""ThunderKittens' sums over 8 devices, and the barrier to call before and after them."""

import tkjit
from tkjit import CExpr, InOut, ParallelTensor

MULTICAST = {
    "source": "<thunderkittens>/kernels/parallel/all_reduce/all_reduce.cu",
    "computed": {"dev_idx": "dev_idx"},
    "num_devices": 8,
}


@tkjit.kernel(
    entry="all_reduce::kernel",
    struct="all_reduce::globals",
    config="all_reduce::config",
    constraints="tensor.numel % 4096 == 0",
    examples=[{"...": (64, 256)}, {"...": (4096,)}],
    **MULTICAST,
)
def tk_all_reduce(tensor: InOut[ParallelTensor, "bfloat16", "..."]) -> None:
    """Sums tensor over all devices in place.

    Parameters
    ----------
    tensor : bfloat16 on each of 8 devices, with a multicast address
        Devices access each other's parts: call ``tk_device_barrier`` before the kernel and after it.
    """
    total = sum(part.float() for part in tensor)
    for part in tensor:
        part.copy_(total)


@tkjit.kernel(
    entry="all_reduce_barrier::kernel",
    struct="all_reduce_barrier::globals",
    config="all_reduce_barrier::config",
    examples={"...": (1,)},
    zeroed="barrier",
    **MULTICAST,
)
def tk_device_barrier(barrier: InOut[ParallelTensor, "int32", "..."]) -> None:
    """Waits until all devices have reached the barrier.

    Parameters
    ----------
    barrier : int32 on each of 8 devices, with a multicast address
        At least one element. All elements must be zero.
    """
    for part in barrier:
        part.zero_()


# a minimal sum over 8 devices; the kernel takes the layout itself instead of a struct
@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/all_reduce_educational/all_reduce_educational.cu",
    entry="all_reduce_kernel",
    args=True,
    grid=CExpr("N * N / (2 * NUM_THREADS * NUM_DEVICES)"),
    block=CExpr("NUM_THREADS"),
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
)
def tk_all_reduce_educational(d_data: InOut[ParallelTensor, "float32", 4096, 4096]) -> None:
    """Sums d_data over all devices in place.

    Parameters
    ----------
    d_data : (4096, 4096) float32 on each of 8 devices, with a multicast address
        Devices access each other's parts: call ``tk_device_barrier`` before the kernel and after it.
    """
    total = sum(d_data)
    for part in d_data:
        part.copy_(total)
