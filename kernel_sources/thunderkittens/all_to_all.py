"""ThunderKittens' exchanges between 8 devices."""

import tkjit
from tkjit import In, InOut, ParallelTensor

EXCHANGE = {
    "struct": "all_to_all::globals",
    "config": "all_to_all::config",
    "fields": "output input dev_idx",
    "constraints": ["N_all == 8 * N", "H_all == 8 * H", "H % 16 == 0", "D % 128 == 0"],
    "computed": {"dev_idx": "dev_idx"},
    "num_devices": 8,
}


# exchange between 8 devices: one axis is split over the devices, and another is concatenated
@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/all_to_all/all_to_all.cu",
    entry="all_to_all::kernel<1, 2>",
    examples={"B": 2, "N": 32, "H_all": 128, "N_all": 256, "H": 16, "D": 128},
    **EXCHANGE,
)
def tk_all_to_all(
    output: InOut[ParallelTensor, "bfloat16", "B", "N", "H_all", "D"],
    input: In[ParallelTensor, "bfloat16", "B", "N_all", "H", "D"],
) -> None:
    """Gives each device all heads for its eighth of the sequence. Before, it has its own heads for all of the sequence.

    Parameters
    ----------
    output : (B, N, 8 * H, D) bfloat16 on each of 8 devices
    input : (B, 8 * N, H, D) bfloat16 on each
        Devices access each other's parts: call ``tk_device_barrier`` before the kernel and after it.
    """
    import torch

    whole = torch.cat(list(input), 2)
    for part, tokens in zip(output, whole.chunk(8, 1), strict=True):
        part.copy_(tokens)


# exchange before Ulysses attention: each device gets the whole sequence for its eighth of the heads
@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/ulysses_attn/ulysses_attn.cu",
    entry="all_to_all::kernel<2, 1>",
    examples={"B": 2, "N": 32, "H_all": 128, "N_all": 256, "H": 16, "D": 128},
    **EXCHANGE,
)
def tk_ulysses_all_to_all(
    output: InOut[ParallelTensor, "bfloat16", "B", "N_all", "H", "D"],
    input: In[ParallelTensor, "bfloat16", "B", "N", "H_all", "D"],
) -> None:
    """Gives each device the whole sequence for its eighth of the heads. Before, it has an eighth of the sequence.

    ``tk_all_to_all`` does the reverse, after the attention.

    Parameters
    ----------
    output : (B, 8 * N, H, D) bfloat16 on each of 8 devices
    input : (B, N, 8 * H, D) bfloat16 on each
        Devices access each other's parts: call ``tk_device_barrier`` before the kernel and after it.
    """
    import torch

    whole = torch.cat(list(input), 1)
    for part, heads in zip(output, whole.chunk(8, 2), strict=True):
        part.copy_(heads)
