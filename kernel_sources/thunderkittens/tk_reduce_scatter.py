"""ThunderKittens' reduce-scatter of columns over 8 devices, by multicast."""

import tkjit
from tkjit import In, InOut, ParallelTensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/reduce_scatter/reduce_scatter.cu",
    entry="reduce_scatter::kernel",
    struct="reduce_scatter::globals",
    config="reduce_scatter::config",
    constraints="N % 256 == 0",  # a block's elements must be neighbours in a row
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
    examples={"D": 2, "M": 16, "N": 256},
)
def tk_reduce_scatter(
    output: InOut[ParallelTensor, "bfloat16", "D", "M", "N"], input: In[ParallelTensor, "bfloat16", "D", "M", "8 * N"]
) -> None:
    """Sums input over all devices, and gives each device its share of the columns.

    Parameters
    ----------
    output : (D, M, N) bfloat16 on each of 8 devices
    input : (D, M, 8 * N) bfloat16 on each, with a multicast address
    """
    total = sum(part.float() for part in input)
    for part, share in zip(output, total.chunk(8, dim=-1), strict=True):
        part.copy_(share)
