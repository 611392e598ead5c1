"""What follows ThunderKittens' GEMM of gathered rows for B200, of 8-bit floats: barriers are cleared."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/parallel/ag_gemm_fp8/ag_gemm_fp8_b200.cu"},
    entry="epilogue_kernel",
    struct="globals",
    config="config",
    fields="A B C barrier dev_idx num_comm_sms num_comp_sms",
    constraints=[
        "M % 2048 == 0",
        "M == 256 * M_blocks",
        "N % 256 == 0",
        "K % 256 == 0",
        "num_comm_sms % 2 == 0",
        "num_comm_sms > 0",
        "num_comm_sms < 148",
    ],
    computed={"dev_idx": "dev_idx", "num_comp_sms": "148 - num_comm_sms"},
    num_devices=8,
)
def tk_all_gather_gemm_fp8_b200_epilogue(
    A: In[ParallelTensor, "float8_e4m3fn", "M", "K"],
    B: In[Tensor, "float8_e4m3fn", "N", "K"],
    C: In[Tensor, "bfloat16", "M", "N"],
    barrier: InOut[ParallelTensor, "int32", 2, 1, "M_blocks"],
    num_comm_sms: int = 16,
) -> None:
    """Clear what ``tk_all_gather_gemm_fp8_b200`` has left in ``barrier``, and wait for all; with the same arguments."""
