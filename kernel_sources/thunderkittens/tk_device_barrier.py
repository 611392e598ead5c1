"""ThunderKittens' barrier of 8 devices."""

import tkjit
from tkjit import InOut, ParallelTensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/all_reduce/all_reduce.cu",
    entry="all_reduce_barrier::kernel",
    struct="all_reduce_barrier::globals",
    config="all_reduce_barrier::config",
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
)
def tk_device_barrier(barrier: InOut[ParallelTensor, "int32", "..."]) -> None:
    """Wait until all devices have come.

    Parameters
    ----------
    barrier : int32 on each of 8 devices, with a multicast address
        Zeros, at least one.
    """
