"""ThunderKittens' ring attention for 8 H100s: a stage's result is added to that of the stages before."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/ring_attn/ring_attn_h100.cu",
    entry="attn_reduction_kernel",
    struct="globals",
    config="config",
    fields="Q K0 K1 V0 V1 L_block L O_block O barrier ring_stage dev_idx num_comm_sms",
    grid="B * H * (N // 384)",
    constraints=["N % 384 == 0", "ring_stage >= 0", "num_comm_sms > 0", "num_comm_sms % 2 == 0"],
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
)
def tk_ring_attention_reduction(
    Q: In[Tensor, "bfloat16", "B", "H", "N", 128],
    K0: In[ParallelTensor, "bfloat16", "B", "H", "N", 128],
    K1: In[ParallelTensor, "bfloat16", "B", "H", "N", 128],
    V0: In[ParallelTensor, "bfloat16", "B", "H", "N", 128],
    V1: In[ParallelTensor, "bfloat16", "B", "H", "N", 128],
    L_block: In[Tensor, "float32", "B", "H", "N"],
    L: InOut[Tensor, "float32", "B", "H", "N"],
    O_block: In[Tensor, "bfloat16", "B", "H", "N", 128],
    O: InOut[Tensor, "bfloat16", "B", "H", "N", 128],  # noqa: E741
    barrier: InOut[ParallelTensor, "int32", "two", "slots"],
    ring_stage: int = 0,
    num_comm_sms: int = 16,
) -> None:
    """``O`` and ``L`` <- those of the keys of ``O_block`` too; with the arguments of ``tk_ring_attention``."""
    import torch

    for lse_block, lse, o_block, o in zip(L_block, L, O_block, O, strict=True):
        whole = torch.logaddexp(lse, lse_block)
        o.copy_((lse - whole).exp()[..., None] * o.float() + (lse_block - whole).exp()[..., None] * o_block.float())
        lse.copy_(whole)
