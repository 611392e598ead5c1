"""ThunderKittens' exchange of 8 devices: each axis in turn is shared out, and another put together."""

import tkjit
from tkjit import In, InOut, ParallelTensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/all_to_all/all_to_all.cu",
    entry="all_to_all::kernel<1, 2>",
    struct="all_to_all::globals",
    config="all_to_all::config",
    fields="output input dev_idx",
    constraints=["N_all == 8 * N", "H_all == 8 * H", "H % 16 == 0", "D % 128 == 0"],
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
)
def tk_all_to_all(
    output: InOut[ParallelTensor, "bfloat16", "B", "N", "H_all", "D"],
    input: In[ParallelTensor, "bfloat16", "B", "N_all", "H", "D"],
) -> None:
    """output <- all heads of this device's eighth of the sequence, of which each device brings its own heads.

    Parameters
    ----------
    output : (B, N, 8 * H, D) bfloat16 on each of 8 devices
    input : (B, 8 * N, H, D) bfloat16 on each
        No device may still be writing to its part: ``tk_device_barrier`` before and after.
    """
    import torch

    whole = torch.cat(list(input), 2)
    for part, tokens in zip(output, whole.chunk(8, 1), strict=True):
        part.copy_(tokens)
