"""ThunderKittens' all-gather of columns over 8 devices, by multicast."""

import tkjit
from tkjit import In, InOut, ParallelTensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/all_gather/all_gather.cu",
    entry="all_gather::kernel",
    struct="all_gather::globals",
    config="all_gather::config",
    constraints=["M % 128 == 0", "N % 128 == 0"],
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
    examples={"M": 256, "N": 128},
)
def tk_all_gather(
    output: InOut[ParallelTensor, "bfloat16", "M", "8 * N"], input: In[ParallelTensor, "bfloat16", "M", "N"]
) -> None:
    """Concatenates the columns of all devices' input, on each device.

    Parameters
    ----------
    output : (M, 8 * N) bfloat16 on each of 8 devices, with a multicast address
    input : (M, N) bfloat16 on each
    """
    import torch

    for part in output:
        part.copy_(torch.cat(list(input), dim=1))
