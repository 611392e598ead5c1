"""What has to follow ThunderKittens' GEMM that sums over 8 devices: its barriers are cleared, and all devices wait."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/gemm_ar/gemm_ar_h100.cu",
    entry="epilogue_kernel",
    struct="globals",
    config="config",
    fields="A B C barrier dev_idx num_comm_sms num_comp_sms",
    constraints=[
        "M == 128 * M_blocks",
        "N == 256 * N_blocks",
        "K % 256 == 0",
        "num_comm_sms > 0",
        "num_comm_sms < 132",
    ],
    computed={"dev_idx": "dev_idx", "num_comp_sms": "132 - num_comm_sms"},
    num_devices=8,
)
def tk_gemm_all_reduce_epilogue(
    A: In[Tensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "K", "N"],
    C: In[ParallelTensor, "bfloat16", "M", "N"],
    barrier: InOut[ParallelTensor, "int32", 2, "M_blocks", "N_blocks"],
    num_comm_sms: int = 16,
) -> None:
    """Clear what ``tk_gemm_all_reduce`` has left in ``barrier``, and wait for all devices; with the same arguments."""
