"""ThunderKittens' shortest sum over 8 devices: a kernel whose argument is the layout itself."""

import tkjit
from tkjit import CExpr, InOut, ParallelTensor


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
    """d_data <- the sum of all devices' d_data.

    Parameters
    ----------
    d_data : (4096, 4096) float32 on each of 8 devices, with a multicast address
        No device may still be writing to its part: ``tk_device_barrier`` before and after.
    """
    total = sum(d_data)
    for part in d_data:
        part.copy_(total)
