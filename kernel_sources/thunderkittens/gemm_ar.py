"""ThunderKittens' GEMMs for H100 with a sum over 8 devices: some blocks sum by multicast while others multiply."""

import tkjit
from tkjit import CExpr, In, InOut, ParallelTensor, Tensor


def left(arguments):
    """Set the counters to values that the main kernel may leave, for the epilogue to clear."""
    for part in arguments["barrier"]:
        part[0] = 3


SUMMED = {
    "struct": "globals",
    "fields": "A B C barrier dev_idx num_comm_sms num_comp_sms",
    "constraints": [
        "M == 128 * M_blocks",
        "N == 256 * N_blocks",
        "K % 256 == 0",
        "num_comm_sms > 0",
        "num_comm_sms < 132",
    ],
    "computed": {"dev_idx": "dev_idx", "num_comp_sms": "132 - num_comm_sms"},
    "num_devices": 8,
}


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/gemm_ar/gemm_ar_h100.cu",
    entry="main_kernel",
    config="config",
    examples={"M": 512, "N": 512, "K": 768, "M_blocks": 4, "N_blocks": 2},  # K has more tiles than the pipeline stages
    zeroed="barrier",
    unchecked="barrier",
    **SUMMED,
)
def tk_gemm_all_reduce(
    A: In[Tensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "K", "N"],
    C: InOut[ParallelTensor, "bfloat16", "M", "N"],
    barrier: InOut[ParallelTensor, "int32", 2, "M_blocks", "N_blocks"],
    num_comm_sms: int = 16,
) -> None:
    """Sums A @ B over all devices, on each device.

    Parameters
    ----------
    A : (M, K) bfloat16 on each of 8 devices
    B : (K, N) bfloat16 on each
    C : (M, N) bfloat16 on each, with a multicast address
    barrier : int32 on each, with a multicast address
        (2, M // 128, N // 256), zeros before the call. ``tk_gemm_all_reduce_epilogue`` clears it afterwards.
    num_comm_sms : int
        How many of the 132 blocks compute the sum. The others multiply.
    """
    total = sum(a.float() @ b.float() for a, b in zip(A, B, strict=True))
    for part in C:
        part.copy_(total)


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/gemm_ar/gemm_ar_h100.cu",
    entry="epilogue_kernel",
    config="config",
    examples={"M": 512, "N": 512, "K": 256, "M_blocks": 4, "N_blocks": 2},
    zeroed="barrier",
    prepare=left,
    **SUMMED,
)
def tk_gemm_all_reduce_epilogue(
    A: In[Tensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "K", "N"],
    C: In[ParallelTensor, "bfloat16", "M", "N"],
    barrier: InOut[ParallelTensor, "int32", 2, "M_blocks", "N_blocks"],
    num_comm_sms: int = 16,
) -> None:
    """Clears ``barrier`` after ``tk_gemm_all_reduce``, and waits for all devices. Takes the same arguments."""
    for part in barrier:
        part.zero_()


# the same with ThunderKittens' template ``lcsc``
@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/gemm_ar/gemm_ar_h100_lcsc.cu",
    entry="kittens::prototype::lcsc::main_kernel<config, globals, lcsct>",
    grid=CExpr("config::NUM_BLOCKS"),
    block=CExpr("config::NUM_THREADS"),
    shared_memory=CExpr("config::DYNAMIC_SHARED_MEMORY"),
    examples={"M": 512, "N": 512, "K": 768, "M_blocks": 4, "N_blocks": 2},  # K has more tiles than the pipeline stages
    zeroed="barrier",
    unchecked="barrier",
    **SUMMED,
)
def tk_gemm_all_reduce_lcsc(
    A: In[Tensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "K", "N"],
    C: InOut[ParallelTensor, "bfloat16", "M", "N"],
    barrier: InOut[ParallelTensor, "int32", 2, "M_blocks", "N_blocks"],
    num_comm_sms: int = 16,
) -> None:
    """Sums A @ B over all devices, on each device.

    Parameters
    ----------
    A : (M, K) bfloat16 on each of 8 devices
    B : (K, N) bfloat16 on each
    C : (M, N) bfloat16 on each, with a multicast address
    barrier : int32 on each, with a multicast address
        (2, M // 128, N // 256), zeros before the call. ``tk_gemm_all_reduce_epilogue`` clears it afterwards.
    num_comm_sms : int
        How many of the 132 blocks compute the sum. The others multiply.
    """
    total = sum(a.float() @ b.float() for a, b in zip(A, B, strict=True))
    for part in C:
        part.copy_(total)
