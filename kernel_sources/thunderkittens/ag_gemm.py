"""ThunderKittens' GEMMs with an all-gather of rows: some blocks gather while others multiply."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor

GATHER = {
    "struct": "globals",
    "config": "config",
    "fields": "A B C barrier dev_idx num_comm_sms num_comp_sms",
    "num_devices": 8,
}
Product = InOut[Tensor, "bfloat16", "M", "N"]
Barrier = InOut[ParallelTensor, "int32", 2, 1, "M_blocks"]


def left(arguments):
    """Set the counters to values that the main kernel may leave, for the epilogue to clear."""
    for part in arguments["barrier"]:
        part[0] = 3


def gather(A):
    """Gather all rows in A on each device, and return them in float32."""
    import torch

    rows = A[0].shape[0] // 8
    whole = torch.cat([part[i * rows : (i + 1) * rows] for i, part in enumerate(A)])
    for part in A:
        part.copy_(whole)
    return whole.float()


H100 = {
    "source": "<thunderkittens>/kernels/parallel/ag_gemm/ag_gemm_h100.cu",
    "constraints": [
        "M % 2048 == 0",
        "M == 256 * M_blocks",
        "N % 256 == 0",
        "K % 256 == 0",
        "num_comm_sms > 0",
        "num_comm_sms < 132",
    ],
    "computed": {"dev_idx": "dev_idx", "num_comp_sms": "132 - num_comm_sms"},
}


@tkjit.kernel(
    entry="main_kernel",
    examples={"M": 2048, "N": 512, "K": 512, "M_blocks": 8},
    zeroed="barrier",
    unchecked="barrier",
    **GATHER,
    **H100,
)
def tk_all_gather_gemm(
    A: InOut[ParallelTensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "K", "N"],
    C: Product,
    barrier: Barrier,
    num_comm_sms: int = 16,
) -> None:
    """Gathers the rows of A, of which each device has an eighth in its place, and computes A @ B.

    Parameters
    ----------
    A : (M, K) bfloat16 on each of 8 devices, with a multicast address
        Devices read each other's parts: call ``tk_device_barrier`` before the kernel.
    B : (K, N) bfloat16 on each
    C : (M, N) bfloat16 on each
    barrier : int32 on each, with a multicast address
        (2, 1, M // 256), zeros before the call. ``tk_all_gather_gemm_epilogue`` clears it afterwards.
    num_comm_sms : int
        How many of the 132 blocks gather. The others multiply.
    """
    whole = gather(A)
    for b, c in zip(B, C, strict=True):
        c.copy_(whole @ b.float())


@tkjit.kernel(
    entry="epilogue_kernel",
    examples={"M": 2048, "N": 512, "K": 512, "M_blocks": 8},
    zeroed="barrier",
    prepare=left,
    **GATHER,
    **H100,
)
def tk_all_gather_gemm_epilogue(
    A: In[ParallelTensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "K", "N"],
    C: In[Tensor, "bfloat16", "M", "N"],
    barrier: Barrier,
    num_comm_sms: int = 16,
) -> None:
    """Clears ``barrier`` after ``tk_all_gather_gemm``, and waits for all devices. Takes the same arguments."""
    for part in barrier:
        part.zero_()


B200 = {
    "archs": {"100a": "<thunderkittens>/kernels/parallel/ag_gemm/ag_gemm_b200.cu"},
    "constraints": [
        "M % 2048 == 0",
        "M == 256 * M_blocks",
        "N % 256 == 0",
        "K % 128 == 0",
        "num_comm_sms % 2 == 0",
        "num_comm_sms > 0",
        "num_comm_sms < 148",
    ],
    "computed": {"dev_idx": "dev_idx", "num_comp_sms": "148 - num_comm_sms"},
}


@tkjit.kernel(
    entry="main_kernel",
    examples={"M": 2048, "N": 512, "K": 512, "M_blocks": 8},
    zeroed="barrier",
    unchecked="barrier",
    **GATHER,
    **B200,
)
def tk_all_gather_gemm_b200(
    A: InOut[ParallelTensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "N", "K"],
    C: Product,
    barrier: Barrier,
    num_comm_sms: int = 16,
) -> None:
    """Gathers the rows of A, of which each device has an eighth in its place, and computes A @ B.T.

    Parameters
    ----------
    A : (M, K) bfloat16 on each of 8 devices, with a multicast address
        Devices read each other's parts: call ``tk_device_barrier`` before the kernel.
    B : (N, K) bfloat16 on each
    C : (M, N) bfloat16 on each
    barrier : int32 on each, with a multicast address
        (2, 1, M // 256), zeros before the call. ``tk_all_gather_gemm_b200_epilogue`` clears it afterwards.
    num_comm_sms : int
        The number of blocks, of 148, that gather; they run in clusters of two.
    """
    whole = gather(A)
    for b, c in zip(B, C, strict=True):
        c.copy_(whole @ b.float().T)


@tkjit.kernel(
    entry="epilogue_kernel",
    examples={"M": 2048, "N": 512, "K": 512, "M_blocks": 8},
    zeroed="barrier",
    prepare=left,
    **GATHER,
    **B200,
)
def tk_all_gather_gemm_b200_epilogue(
    A: In[ParallelTensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "N", "K"],
    C: In[Tensor, "bfloat16", "M", "N"],
    barrier: Barrier,
    num_comm_sms: int = 16,
) -> None:
    """Clears ``barrier`` after ``tk_all_gather_gemm_b200``, and waits for all devices. Takes the same arguments."""
    for part in barrier:
        part.zero_()


FP8 = {
    "archs": {"100a": "<thunderkittens>/kernels/parallel/ag_gemm_fp8/ag_gemm_fp8_b200.cu"},
    "constraints": [
        "M % 2048 == 0",
        "M == 256 * M_blocks",
        "N % 256 == 0",
        "K % 256 == 0",
        "num_comm_sms % 2 == 0",
        "num_comm_sms > 0",
        "num_comm_sms < 148",
    ],
    "computed": {"dev_idx": "dev_idx", "num_comp_sms": "148 - num_comm_sms"},
}


@tkjit.kernel(
    entry="main_kernel",
    examples={"M": 2048, "N": 512, "K": 512, "M_blocks": 8},
    zeroed="barrier",
    unchecked="barrier",
    **GATHER,
    **FP8,
)
def tk_all_gather_gemm_fp8_b200(
    A: InOut[ParallelTensor, "float8_e4m3fn", "M", "K"],
    B: In[Tensor, "float8_e4m3fn", "N", "K"],
    C: Product,
    barrier: Barrier,
    num_comm_sms: int = 16,
) -> None:
    """Gathers the rows of A, of which each device has an eighth in its place, and computes A @ B.T.

    Parameters
    ----------
    A : (M, K) float8_e4m3fn on each of 8 devices, with a multicast address
        Devices read each other's parts: call ``tk_device_barrier`` before the kernel.
    B : (N, K) float8_e4m3fn on each
    C : (M, N) bfloat16 on each
    barrier : int32 on each, with a multicast address
        (2, 1, M // 256), zeros before the call. ``tk_all_gather_gemm_fp8_b200_epilogue`` clears it afterwards.
    num_comm_sms : int
        The number of blocks, of 148, that gather; they run in clusters of two.
    """
    whole = gather(A)
    for b, c in zip(B, C, strict=True):
        c.copy_(whole @ b.float().T)


@tkjit.kernel(
    entry="epilogue_kernel",
    examples={"M": 2048, "N": 512, "K": 512, "M_blocks": 8},
    zeroed="barrier",
    prepare=left,
    **GATHER,
    **FP8,
)
def tk_all_gather_gemm_fp8_b200_epilogue(
    A: In[ParallelTensor, "float8_e4m3fn", "M", "K"],
    B: In[Tensor, "float8_e4m3fn", "N", "K"],
    C: In[Tensor, "bfloat16", "M", "N"],
    barrier: Barrier,
    num_comm_sms: int = 16,
) -> None:
    """Clears ``barrier`` after ``tk_all_gather_gemm_fp8_b200``, and waits for all devices. Takes the same arguments."""
    for part in barrier:
        part.zero_()
