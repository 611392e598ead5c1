"""ThunderKittens' mixture of experts on 8 H100s, which fetches tokens while the experts multiply."""

import tkjit
from tkjit import CExpr, In, InOut, ParallelTensor, Tensor


def left(arguments):
    """Set the counters to values that the main kernel may leave, for the epilogue to clear."""
    for part in arguments["barrier"]:
        part[0] = 3


def routed(arguments):
    """Route tokens from all devices to two experts of each device, and add padding rows."""
    import torch

    counts = torch.zeros(256, dtype=torch.int32)
    counts[3::32] = counts[17::32] = 128
    tokens = arguments["pre_tokens"][0].shape[0]
    pulls = []
    for _ in range(8):
        pull = torch.stack([torch.randint(8, (256,)), torch.randint(tokens, (256,))], 1).int()
        pull[100:128] = pull[240:] = -1
        pulls.append(pull)
    return {"padded_tokens_per_expert": [counts] * 8, "pull_dispatch_indices": pulls}


DISPATCH = {
    "source": "<thunderkittens>/kernels/parallel/moe_dispatch_gemm/moe_dispatch_gemm_h100.cu",
    "struct": "globals",
    "fields": """pre_tokens post_tokens weights outputs padded_tokens_per_expert pull_dispatch_indices barrier
        dev_idx num_padded_local_tokens num_comm_sms num_comp_sms""",
    "constraints": ["P % 128 == 0", "128 * slots >= P", "num_comm_sms > 0", "num_comm_sms < 132"],
    "computed": {"dev_idx": "dev_idx", "num_padded_local_tokens": "P", "num_comp_sms": "132 - num_comm_sms"},
    "num_devices": 8,
}


@tkjit.kernel(
    entry="dispatch_group_gemm_kernel",
    grid="132 - num_comm_sms + cdiv(P, 16)",
    block=CExpr("NUM_MAIN_THREADS"),
    shared_memory=CExpr("DYNAMIC_SHARED_MEMORY"),
    examples={"T": 64, "P": 256, "slots": 2},
    prepare=routed,
    zeroed="barrier",
    unchecked="barrier",
    **DISPATCH,
)
def tk_moe_dispatch_gemm(
    pre_tokens: In[ParallelTensor, "bfloat16", "T", 7168],
    post_tokens: InOut[Tensor, "bfloat16", "P", 7168],
    weights: In[Tensor, "bfloat16", 32, 7168, 2048],
    outputs: InOut[Tensor, "bfloat16", "P", 2048],
    padded_tokens_per_expert: In[Tensor, "int32", 256],
    pull_dispatch_indices: In[Tensor, "int32", "P", 2],
    barrier: InOut[ParallelTensor, "int32", 2, "slots"],
    num_comm_sms: int = 32,
) -> None:
    """Fetches each expert's tokens from all devices, and multiplies them with the expert's weights.

    Parameters
    ----------
    pre_tokens : (T, 7168) bfloat16 on each of 8 devices
        The device's tokens. All devices read them: call ``tk_device_barrier`` before and after.
    post_tokens : (P, 7168) bfloat16 on each
        Written: the tokens of the device's experts, expert by expert. Padding rows are left unchanged.
    weights : (32, 7168, 2048) bfloat16 on each
        The weights of the device's experts.
    outputs : (P, 2048) bfloat16 on each
        Written: the products.
    padded_tokens_per_expert : (256,) int32 on each
        Multiples of 128. The counts of the device's own experts add up to P.
    pull_dispatch_indices : (P, 2) int32 on each
        The source of each row of ``post_tokens``: a device and a row there, or -1 and -1 for padding.
    barrier : (2, at least P // 128) int32 on each, with a multicast address
        Zeros before the call. ``tk_moe_dispatch_gemm_epilogue`` clears it afterwards.
    num_comm_sms : int
        The number of multiprocessors, of 132, that fetch tokens.
    """
    import torch

    tokens = torch.stack(list(pre_tokens))
    each = zip(post_tokens, weights, outputs, padded_tokens_per_expert, pull_dispatch_indices, strict=True)
    for device, (post, experts, output, counts, pull) in enumerate(each):
        fetched = pull[:, 0] >= 0
        post[fetched] = tokens[pull[fetched, 0].long(), pull[fetched, 1].long()]
        own = counts[device * len(experts) : (device + 1) * len(experts)].tolist()
        for expert, rows, products in zip(experts, post.split(own), output.split(own), strict=True):
            products.copy_(rows.float() @ expert.float())


@tkjit.kernel(
    entry="epilogue_kernel",
    grid="cdiv(P, 32768)",
    block=CExpr("NUM_EPILOGUE_THREADS"),
    examples={"T": 64, "P": 256, "slots": 2},
    zeroed="barrier",
    prepare=left,
    **DISPATCH,
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
    """Clears the counters that ``tk_moe_dispatch_gemm`` left in this device's ``barrier``. Takes the same arguments."""
    for part in barrier:
        part.zero_()
