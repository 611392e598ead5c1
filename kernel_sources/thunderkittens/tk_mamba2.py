"""ThunderKittens' Mamba-2: the dual of a state space model, as causal attention with input-dependent decays."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


def steps(arguments):
    """Return a negative A, so that the decays are below one, and V multiplied by the steps."""
    import torch

    step = torch.nn.functional.softplus(arguments["A"] - 4)
    return {"A": -2 * step, "V": (arguments["V"] * step.mT).bfloat16()}


@tkjit.kernel(
    "<thunderkittens>/kernels/mamba2/mamba2.cu",
    entry="prototype::lcsf::kernel<mamba2_fwd_template>",
    struct="mamba2_fwd_layout::globals",
    fields="Q K V O A",
    grid=132,
    block=CExpr("prototype::detail::NUM_THREADS_v<mamba2_fwd_template>"),
    shared_memory=CExpr("prototype::detail::MAX_SHARED_MEMORY_v<mamba2_fwd_template>"),
    constraints=["H % 2 == 0", "N % 64 == 0"],
    prepare=steps,
    tolerance=0.02,
    examples=[{"B": 2, "H": 4, "N": 384}, {"B": 1, "H": 2, "N": 64}],
)
def tk_mamba2(
    Q: In[Tensor, "bfloat16", "B", 1, "N", 64],
    K: In[Tensor, "bfloat16", "B", 1, "N", 64],
    V: In[Tensor, "bfloat16", "B", "H", "N", 64],
    A: In[Tensor, "float32", "B", "H", 1, "N"],
    O: Out[Tensor, "bfloat16", "B", "H", "N", 64],  # noqa: E741
) -> Tensor:
    """Computes causal ``(Q @ K.T * decay) @ V``, where decay[i, j] is the exponential of A's sum over rows j + 1 to i.

    In the terms of Mamba-2, Q is C and K is B, which all heads share, V is X * dt, and A is A * dt, which is negative.
    """
    import torch

    total = A.float().cumsum(-1)
    decay = torch.exp((total.mT - total).tril()).tril()
    return ((Q.float() @ K.float().mT * decay) @ V.float()).to(Q.dtype)
