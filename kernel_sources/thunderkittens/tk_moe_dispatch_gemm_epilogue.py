"""What has to follow ThunderKittens' mixture of experts: its barriers are cleared."""

import tkjit
from tkjit import CExpr, In, InOut, ParallelTensor, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/moe_dispatch_gemm/moe_dispatch_gemm_h100.cu",
    entry="epilogue_kernel",
    struct="globals",
    fields="""pre_tokens post_tokens weights outputs padded_tokens_per_expert pull_dispatch_indices barrier
        dev_idx num_padded_local_tokens num_comm_sms num_comp_sms""",
    grid="cdiv(P, 32768)",
    block=CExpr("NUM_EPILOGUE_THREADS"),
    constraints=["P % 128 == 0", "128 * slots >= P", "num_comm_sms > 0", "num_comm_sms < 132"],
    computed={"dev_idx": "dev_idx", "num_padded_local_tokens": "P", "num_comp_sms": "132 - num_comm_sms"},
    num_devices=8,
)
def tk_moe_dispatch_gemm_epilogue(
    pre_tokens: In[ParallelTensor, "bfloat16", "T", 7168],
    post_tokens: In[Tensor, "bfloat16", "P", 7168],
    weights: In[Tensor, "bfloat16", 32, 7168, 2048],
    outputs: In[Tensor, "bfloat16", "P", 2048],
    padded_tokens_per_expert: In[Tensor, "int32", 256],
    pull_dispatch_indices: In[Tensor, "int32", "P", 2],
    barrier: InOut[ParallelTensor, "int32", 2, "slots"],
    num_comm_sms: int = 32,
) -> None:
    """Clear what ``tk_moe_dispatch_gemm`` has left in this device's ``barrier``; with the same arguments."""
