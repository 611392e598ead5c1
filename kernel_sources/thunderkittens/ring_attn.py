"""ThunderKittens' ring attention for 8 H100s."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor

RING = {
    "source": "<thunderkittens>/kernels/parallel/ring_attn/ring_attn_h100.cu",
    "struct": "globals",
    "config": "config",
    "fields": "Q K0 K1 V0 V1 L_block L O_block O barrier ring_stage dev_idx num_comm_sms",
    "constraints": ["N % 384 == 0", "ring_stage >= 0", "num_comm_sms > 0", "num_comm_sms % 2 == 0"],
    "computed": {"dev_idx": "dev_idx"},
    "num_devices": 8,
}


@tkjit.kernel(
    entry="attn_comm_partial_kernel",
    grid="num_comm_sms + B * H * (N // 192)",
    examples=[
        {"B": 2, "H": 3, "N": 384, "two": 2, "slots": 8, "ring_stage": 0},
        {"B": 1, "H": 1, "N": 384, "two": 2, "slots": 8, "ring_stage": 1},
    ],
    zeroed="barrier",
    unchecked="barrier",
    **RING,
)
def tk_ring_attention(
    Q: In[Tensor, "bfloat16", "B", "H", "N", 128],
    K0: InOut[ParallelTensor, "bfloat16", "B", "H", "N", 128],
    K1: InOut[ParallelTensor, "bfloat16", "B", "H", "N", 128],
    V0: InOut[ParallelTensor, "bfloat16", "B", "H", "N", 128],
    V1: InOut[ParallelTensor, "bfloat16", "B", "H", "N", 128],
    L_block: InOut[Tensor, "float32", "B", "H", "N"],
    L: InOut[Tensor, "float32", "B", "H", "N"],
    O_block: InOut[Tensor, "bfloat16", "B", "H", "N", 128],
    O: InOut[Tensor, "bfloat16", "B", "H", "N", 128],  # noqa: E741
    barrier: InOut[ParallelTensor, "int32", "two", "slots"],
    ring_stage: int = 0,
    num_comm_sms: int = 16,
) -> None:
    """Computes attention to the keys and values on this device, and sends them to the next device at the same time.

    Ring attention has 8 stages. Call ``tk_ring_attention_reduction`` after each stage except the first, and
    ``tk_device_barrier`` after every stage. In the end ``O`` is the attention of this device's eighth of the queries
    to all keys.

    Parameters
    ----------
    Q : (B, H, N, 128) bfloat16 on each of 8 devices
        The device's eighth of the queries.
    K0, V0 : (B, H, N, 128) bfloat16 on each
        The device's eighth of the keys and values. Read in even stages, written by the previous device in odd stages.
    K1, V1 : (B, H, N, 128) bfloat16 on each
        Read in odd stages, written in even stages.
    L, O : (B, H, N) float32 and (B, H, N, 128) bfloat16 on each
        Written in stage 0: the logarithm of the sum of the exponentials of the scaled scores, and the result.
    L_block, O_block : (B, H, N) float32 and (B, H, N, 128) bfloat16 on each
        The same for a later stage.
    barrier : int32 on each, with a multicast address
        Not used here.
    ring_stage : int
        0 to 7.
    num_comm_sms : int
        The number of blocks that send, half of them keys and half values. The other blocks compute, one for each 192
        queries of a head.
    """
    import torch

    current, following = ((K0, V0), (K1, V1)) if ring_stage % 2 == 0 else ((K1, V1), (K0, V0))
    results = (L_block, O_block) if ring_stage else (L, O)
    for q, k, v, lse, o in zip(Q, *current, *results, strict=True):
        scores = q.float() @ k.float().mT / 128**0.5
        lse.copy_(scores.logsumexp(-1))
        o.copy_(torch.softmax(scores, -1) @ v.float())
    for sent, received in zip(current, following, strict=True):
        for device, part in enumerate(sent):
            received[(device + 1) % 8].copy_(part)


@tkjit.kernel(
    entry="attn_reduction_kernel",
    grid="B * H * (N // 384)",
    examples=[
        {"B": 2, "H": 3, "N": 384, "two": 2, "slots": 8, "ring_stage": 0},
        {"B": 1, "H": 1, "N": 384, "two": 2, "slots": 8, "ring_stage": 1},
    ],
    zeroed="barrier",
    unchecked="barrier",
    **RING,
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
    """Merges ``O_block`` and ``L_block`` into ``O`` and ``L``. Takes the arguments of ``tk_ring_attention``."""
    import torch

    for lse_block, lse, o_block, o in zip(L_block, L, O_block, O, strict=True):
        total = torch.logaddexp(lse, lse_block)
        o.copy_((lse - total).exp()[..., None] * o.float() + (lse_block - total).exp()[..., None] * o_block.float())
        lse.copy_(total)
