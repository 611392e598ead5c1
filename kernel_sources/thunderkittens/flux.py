"""ThunderKittens' linear layers of Flux, fused with the operation that follows."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


def weights(arguments):
    """Scale the weights so that the layer's outputs are about as large as its inputs."""
    return {"rhs": arguments["rhs"] / arguments["rhs"].shape[1] ** 0.5}


@tkjit.kernel(
    "<thunderkittens>/kernels/flux/flux_gate.cu",
    entry="prototype::lcf::kernel<flux_matmul_gate_template<128, 192, 64, false, true>>",
    struct="flux_matmul_gate_layout<128, 192, 64, false, true>::globals",
    fields="lhs rhs bias gate y acc",
    grid="M // 128, N // 192",
    block=CExpr("prototype::detail::NUM_THREADS_v<flux_matmul_gate_template<128, 192, 64, false, true>>"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    constraints=["M % 128 == 0", "N % 192 == 0", "K % 64 == 0"],
    prepare=weights,
    tolerance=0.01,
)
def tk_flux_gate(
    lhs: In[Tensor, "bfloat16", "M", "K"],
    rhs: In[Tensor, "bfloat16", "N", "K"],
    bias: In[Tensor, "bfloat16", "N"],
    gate: In[Tensor, "bfloat16", "N"],
    y: In[Tensor, "bfloat16", "M", "N"],
    acc: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor:
    """Computes ``lhs @ rhs.T * gate + y``; rhs is a linear layer's weight.

    The bias is not added: the source loads it into the sum, but then clears the sum.
    """
    return (lhs.float() @ rhs.float().T * gate.float() + y.float()).to(y.dtype)


@tkjit.kernel(
    "<thunderkittens>/kernels/flux/flux_gelu.cu",
    entry="prototype::lcf::kernel<flux_matmul_gelu_template<192, 192, 64, false, true>>",
    struct="flux_matmul_gelu_layout<192, 192, 64, false, true>::globals",
    fields="lhs rhs bias acc",
    grid="M // 192, N // 192",
    block=CExpr("prototype::detail::NUM_THREADS_v<flux_matmul_gelu_template<192, 192, 64, false, true>>"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    constraints=["M % 192 == 0", "N % 192 == 0", "K % 64 == 0"],
    prepare=weights,
    tolerance=0.01,
)
def tk_flux_gelu(
    lhs: In[Tensor, "bfloat16", "M", "K"],
    rhs: In[Tensor, "bfloat16", "N", "K"],
    bias: In[Tensor, "bfloat16", "N"],
    acc: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor:
    """Computes ``gelu(lhs @ rhs.T + bias)`` with the tanh approximation; rhs is a linear layer's weight."""
    import torch

    return torch.nn.functional.gelu(lhs.float() @ rhs.float().T + bias.float(), approximate="tanh").to(lhs.dtype)


@tk_flux_gelu.overload(
    "<thunderkittens>/kernels/flux/flux_gelu.cu",
    entry="prototype::lcf::kernel<flux_matmul_gelu_template<128, 192, 64, false, true>>",
    struct="flux_matmul_gelu_layout<128, 192, 64, false, true>::globals",
    fields="lhs rhs bias acc",
    grid="M // 128, N // 192",
    block=CExpr("prototype::detail::NUM_THREADS_v<flux_matmul_gelu_template<128, 192, 64, false, true>>"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    constraints=["M % 128 == 0", "N % 192 == 0", "K % 64 == 0"],
    examples={"M": 256, "N": 384, "K": 192},  # rejected by the overload above
    prepare=weights,
    tolerance=0.01,
)
def tk_flux_gelu(
    lhs: In[Tensor, "bfloat16", "M", "K"],
    rhs: In[Tensor, "bfloat16", "N", "K"],
    bias: In[Tensor, "bfloat16", "N"],
    acc: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor: ...
