"""What has to follow ThunderKittens' GEMM of gathered rows: its barriers are cleared, and all devices wait."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/ag_gemm/ag_gemm_h100.cu",
    entry="epilogue_kernel",
    struct="globals",
    config="config",
    fields="A B C barrier dev_idx num_comm_sms num_comp_sms",
    constraints=[
        "M % 2048 == 0",
        "M == 256 * M_blocks",
        "N % 256 == 0",
        "K % 256 == 0",
        "num_comm_sms > 0",
        "num_comm_sms < 132",
    ],
    computed={"dev_idx": "dev_idx", "num_comp_sms": "132 - num_comm_sms"},
    num_devices=8,
)
def tk_all_gather_gemm_epilogue(
    A: In[ParallelTensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "K", "N"],
    C: In[Tensor, "bfloat16", "M", "N"],
    barrier: InOut[ParallelTensor, "int32", 2, 1, "M_blocks"],
    num_comm_sms: int = 16,
) -> None:
    """Clear what ``tk_all_gather_gemm`` has left in ``barrier``, and wait for all devices; with the same arguments."""
