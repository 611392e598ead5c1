"""ThunderKittens' sum over 8 devices, in place, by multicast."""

import tkjit
from tkjit import InOut, ParallelTensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/all_reduce/all_reduce.cu",
    entry="all_reduce::kernel",
    struct="all_reduce::globals",
    config="all_reduce::config",
    constraints="tensor.numel % 4096 == 0",
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
)
def tk_all_reduce(tensor: InOut[ParallelTensor, "bfloat16", "..."]) -> None:
    """tensor <- the sum of all devices' tensor.

    Parameters
    ----------
    tensor : bfloat16 on each of 8 devices, with a multicast address
        No device may still be writing to its part: ``tk_device_barrier`` before and after.
    """
    total = sum(part.float() for part in tensor)
    for part in tensor:
        part.copy_(total)
